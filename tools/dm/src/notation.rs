//! Keys and values as people write them.
//!
//! `u64:123`, and so on for every size of numbers and for signed ones (`i64:-5`), is the number's bytes, most significant
//! first and, if it is signed, with its sign bit inverted: in this order bytes sort as numbers do, and so do the typed keys of
//! the API. `le64:123` is a number of 64 bits with its least significant byte first. Digits may be hexadecimal (`u64:0xff`) and
//! have gaps (`u64:1_000_000`). `hex:0a0b` is any bytes. Anything else is text.

use crate::keys;
use std::fmt::Write as _;

/// Sizes of numbers, each with its name and its bytes.
const NUMBERS: [(&str, usize, Number); 11] = [
    ("u8", 1, Number::Unsigned),
    ("u16", 2, Number::Unsigned),
    ("u32", 4, Number::Unsigned),
    ("u64", 8, Number::Unsigned),
    ("u128", 16, Number::Unsigned),
    ("i8", 1, Number::Signed),
    ("i16", 2, Number::Signed),
    ("i32", 4, Number::Signed),
    ("i64", 8, Number::Signed),
    ("i128", 16, Number::Signed),
    ("le64", 8, Number::Little),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Unsigned,
    Signed,
    Little,
}

/// How bytes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// As text if it is text; in a slot of fixed size else as a number of 64 bits if it is one; else as hexadecimal digits.
    #[default]
    Auto,
    /// As hexadecimal digits.
    Hex,
    /// As a number of this name, if its size fits; else as [`Format::Auto`].
    Number(&'static str),
}

impl Format {
    /// The format of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "hex" => Some(Self::Hex),
            name => NUMBERS.iter().find(|(known, ..)| *known == name).map(|(known, ..)| Self::Number(known)),
        }
    }

    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ["auto", "hex"].into_iter().chain(NUMBERS.iter().map(|(name, ..)| *name))
    }
}

/// The bytes of a number that says its size. `None`: the text is something else.
fn number(text: &str) -> Option<Result<Vec<u8>, String>> {
    let (name, digits) = text.split_once(':')?;
    let (_, bytes, kind) = *NUMBERS.iter().find(|(known, ..)| *known == name)?;
    Some(number_bytes(digits, bytes, kind).ok_or_else(|| format!("{name}: wants a number of {} bits", bytes * 8)))
}

fn number_bytes(digits: &str, bytes: usize, kind: Number) -> Option<Vec<u8>> {
    let bits = bytes as u32 * 8;
    let clean = digits.replace('_', "");
    let (negative, magnitude) = clean.strip_prefix('-').map_or((false, clean.as_str()), |rest| (true, rest));
    let magnitude = match magnitude.strip_prefix("0x") {
        // A second sign would be taken by the reader of numbers.
        _ if magnitude.starts_with(['+', '-']) => return None,
        Some(digits) if digits.starts_with(['+', '-']) => return None,
        Some(digits) => u128::from_str_radix(digits, 16).ok()?,
        None => magnitude.parse::<u128>().ok()?,
    };
    let top = 1_u128 << (bits - 1);
    let value = match kind {
        Number::Signed if negative && magnitude <= top => top - magnitude,
        Number::Signed if !negative && magnitude < top => top + magnitude,
        Number::Unsigned | Number::Little if !negative && magnitude <= top | (top - 1) => magnitude,
        _ => return None,
    };
    let all = value.to_be_bytes();
    let mut found = all[16 - bytes..].to_vec();
    if kind == Number::Little {
        found.reverse();
    }
    Some(found)
}

/// The reverse of [`number`], for bytes of that size.
fn show_number(name: &str, bytes: &[u8]) -> Option<String> {
    let (_, size, kind) = *NUMBERS.iter().find(|(known, ..)| *known == name)?;
    if bytes.len() != size {
        return None;
    }
    let fold = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    let value = if kind == Number::Little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) };
    let top = 1_u128 << (size * 8 - 1);
    Some(match kind {
        Number::Signed if value >= top => format!("{name}:{}", value - top),
        Number::Signed => format!("{name}:-{}", top - value),
        Number::Unsigned | Number::Little => format!("{name}:{value}"),
    })
}

/// The bytes behind `hex:`. `None`: the text is something else.
fn hex_digits(text: &str) -> Option<Result<Vec<u8>, String>> {
    let digits = text.strip_prefix("hex:")?;
    if digits.len() % 2 != 0 || !digits.is_ascii() {
        return Some(Err("hex: wants two digits a byte".to_owned()));
    }
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16);
    let bytes: Result<_, _> = (0..digits.len() / 2).map(byte).collect();
    Some(bytes.map_err(|_| "not a hexadecimal digit".to_owned()))
}

/// A key or a value, as people write it, into a slot of `bytes` bytes. Behind a number are zeros; `hex:` has all bytes of the
/// slot; text is in the encoding of [`keys`].
pub(crate) fn parse(text: &str, bytes: usize, what: &str) -> Result<Vec<u8>, String> {
    let wrong = |why: String| format!("{what} {text:?}: {why}");
    let mut slot = vec![0; bytes];
    if let Some(number) = number(text) {
        let number = number.map_err(wrong)?;
        let count = number.len();
        let place = slot.get_mut(..count).ok_or_else(|| wrong(format!("{count} bytes do not fit {bytes}")))?;
        place.copy_from_slice(&number);
    } else if let Some(found) = hex_digits(text) {
        slot = found.map_err(wrong)?;
        if slot.len() != bytes {
            return Err(wrong(format!("hex: wants {} digits, for {bytes} bytes", 2 * bytes)));
        }
    } else {
        let most = text_bytes_max(bytes);
        if text.len() > most {
            return Err(format!("{what} of {} bytes: slots of {bytes} bytes hold up to {most}", text.len()));
        }
        slot[..text.len()].copy_from_slice(text.as_bytes());
        if bytes <= 256 {
            slot[bytes - 1] = text.len() as u8;
        } else {
            slot[bytes - 2..].copy_from_slice(&(text.len() as u16).to_be_bytes());
        }
    }
    Ok(slot)
}

/// A key or a value of any length, as people write it.
pub(crate) fn parse_item(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let bytes = number(text).or_else(|| hex_digits(text)).unwrap_or_else(|| Ok(text.as_bytes().to_vec()));
    bytes.map_err(|why| format!("{what} {text:?}: {why}"))
}

/// The reverse of [`parse_item`].
pub(crate) fn show_item(bytes: &[u8], format: Format) -> String {
    let as_number = if let Format::Number(name) = format { show_number(name, bytes) } else { None };
    match (as_number, std::str::from_utf8(bytes)) {
        (Some(number), _) => number,
        (None, Ok("")) if format != Format::Hex => "\"\"".to_owned(),
        (None, Ok(text)) if format != Format::Hex && plain(text) => quoted(text),
        _ => hex(bytes),
    }
}

/// Text that fits into a slot: its length takes the last byte, or two if one is too small.
fn text_bytes_max(bytes: usize) -> usize {
    if bytes <= 256 { bytes - 1 } else { bytes - 2 }
}

/// The reverse of [`parse`].
pub(crate) fn show(slot: &[u8], format: Format) -> String {
    if format == Format::Hex {
        return hex(slot);
    }
    let as_number = |name: &str| {
        let bytes = NUMBERS.iter().find(|(known, ..)| *known == name).map(|(_, bytes, _)| *bytes)?;
        let (number, rest) = slot.split_at_checked(bytes)?;
        if rest.iter().all(|&byte| byte == 0) { show_number(name, number) } else { None }
    };
    if let Format::Number(name) = format
        && let Some(number) = as_number(name)
    {
        return number;
    }
    let text = if slot.len() <= 256 {
        keys::decode(slot)
    } else {
        let (held, length) = slot.split_at(slot.len() - 2);
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        held.split_at_checked(length).filter(|(_, rest)| rest.iter().all(|&byte| byte == 0)).map(|(text, _)| text)
    };
    if let Some(text) = text.and_then(|text| std::str::from_utf8(text).ok())
        && !text.is_empty()
        && plain(text)
    {
        return quoted(text);
    }
    as_number("u64").unwrap_or_else(|| hex(slot))
}

/// Whether text can be typed as it is.
fn plain(text: &str) -> bool {
    let says_its_form =
        text.split_once(':').is_some_and(|(name, _)| name == "hex" || NUMBERS.iter().any(|(known, ..)| *known == name));
    !says_its_form && text.chars().all(|letter| !letter.is_control())
}

fn quoted(text: &str) -> String {
    if text.contains([' ', '"', '\\']) || text.contains(char::is_whitespace) || text.starts_with('#') {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text.to_owned()
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::from("hex:");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Without its quotes.
    pub text: String,
    /// Whether it had some: then it is no word of a command's own.
    pub quoted: bool,
}

/// Cuts a line into words. Blanks separate; in double quotes they do not, and `\` takes the next character as it is.
pub(crate) fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.peek() else { return Ok(words) };
        let quoted = *first == '"';
        let mut text = String::new();
        if quoted {
            letters.next();
            loop {
                match letters.next() {
                    Some('"') => break,
                    Some('\\') => text.push(letters.next().ok_or("a \\ at the end of the line")?),
                    Some(letter) => text.push(letter),
                    None => return Err("a \" that is not closed".to_owned()),
                }
            }
        } else {
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                text.push(letter);
            }
        }
        words.push(Word { text, quoted });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_word(shown: &str) -> String {
        let mut words = words(shown).unwrap();
        assert_eq!(words.len(), 1, "{shown}");
        words.remove(0).text
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        for bytes in [8, 16, 64, 300] {
            for text in ["a", "hello w", "u64:7", "le64:7", "i8:-1", "say \"hi", "\u{fc}", "#no"] {
                let slot = parse(text, bytes, "key").unwrap();
                for format in Format::names().filter_map(Format::named) {
                    let shown = show(&slot, format);
                    assert_eq!(parse(&only_word(&shown), bytes, "key").unwrap(), slot, "{text} {shown}");
                }
            }
            let slot: Vec<u8> = (0..bytes).map(|at| at as u8 ^ 0xa5).collect();
            assert_eq!(parse(&show(&slot, Format::Auto), bytes, "key").unwrap(), slot);
        }
    }

    #[test]
    fn items_that_are_shown_can_be_typed_again() {
        for item in [
            &b""[..],
            b"a",
            b"u64:7",
            b"i128:x",
            b"say \"hi",
            "\u{fc} x".as_bytes(),
            b"\xff\0",
            b"\n",
            &[7; 200],
            &[0; 16],
        ] {
            for format in Format::names().filter_map(Format::named) {
                let shown = show_item(item, format);
                assert_eq!(parse_item(&only_word(&shown), "key").unwrap(), item, "{shown}");
            }
        }
        assert!(parse_item("hex:0", "key").is_err() && parse_item("hex:zz", "key").is_err());
    }

    #[test]
    fn numbers_sort_as_their_bytes_do() {
        let bytes = |text: &str| parse_item(text, "key");
        assert_eq!(bytes("u64:258").unwrap(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes("le64:0x1_02").unwrap(), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes("i16:-32768").unwrap(), [0, 0]);
        assert_eq!(bytes("u8:255").unwrap(), [255]);
        let ascending = ["i32:-2147483648", "i32:-5", "i32:-1", "i32:0", "i32:7", "i32:0x7fffffff"];
        assert!(ascending.map(|text| bytes(text).unwrap()).is_sorted());
        assert_eq!(show_item(&bytes("i64:-5").unwrap(), Format::Number("i64")), "i64:-5");
        for wrong in
            ["u8:256", "u8:-1", "i8:128", "i8:-129", "u64:", "u64:--1", "u64:+1", "u64:0x-1", "u128:x", "i64:-"]
        {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        // No form of a number: text.
        assert_eq!(bytes("u63:1").unwrap(), b"u63:1");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_limit() {
        assert_eq!(parse("12345678", 8, "key").unwrap_err(), "key of 8 bytes: slots of 8 bytes hold up to 7");
        assert!(parse("u64:x", 8, "key").is_err());
        assert!(parse("u128:1", 8, "key").is_err());
        assert!(parse("hex:00", 8, "key").is_err());
        assert!(parse("hex:zz00000000000000", 8, "key").is_err());
    }
}
