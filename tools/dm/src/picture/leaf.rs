//! A leaf with its bytes: some of its cache lines in full, and the whole of it as stripes of colour.

use super::svg::Svg;
use dm_core::layout::LINE_BYTES;
use dm_core::layout::fields::Field;
use dm_core::layout::stripes::stored_offset;

/// Width of a byte.
const BYTE: f64 = 13.0;

/// Where the bytes of a line begin.
const LEFT: f64 = 52.0;

/// Width of the picture.
const WIDTH: f64 = LEFT + LINE_BYTES as f64 * BYTE + 16.0;

/// Width of a letter above the bytes, and of the gap between what is written there.
const TINY_LETTER: f64 = 5.2;
const GAP: f64 = 5.0;

/// Letters of a line of text below the bytes.
const LETTERS: usize = 128;

/// Letters of a line of the title.
const TITLE_LETTERS: usize = 84;

/// A table of fields.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// What the fields are of.
    pub heading: &'static str,
    /// The fields.
    pub fields: &'static [Field],
    /// The hue of each, from the style sheet.
    pub hues: &'static [u8],
}

/// What a byte is: its table, the first and the last field that has bits in it, and of which repetition of the table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    table: usize,
    fields: (usize, usize),
    number: Option<usize>,
}

/// What every byte of an image is.
#[derive(Clone, Debug)]
pub struct Map {
    bytes: Vec<Option<Byte>>,
    striped: bool,
}

impl Map {
    /// An image of so many stored bytes, of which nothing is known. `striped`: each line begins with a version byte, which is
    /// table 0, and offsets are those of the payload.
    pub fn new(bytes: usize, striped: bool) -> Self {
        let mut map = Self { bytes: vec![None; bytes], striped };
        if striped {
            let versions = Byte { table: 0, fields: (0, 1), number: None };
            map.bytes.iter_mut().step_by(LINE_BYTES).for_each(|byte| *byte = Some(versions));
        }
        map
    }

    /// Says that the fields of a table lie from `at` on; `number`: as which of its repetitions.
    #[must_use]
    pub fn with(mut self, tables: &[Table], table: usize, at: usize, number: Option<usize>) -> Self {
        let fields = tables[table].fields;
        for (position, field) in fields.iter().enumerate() {
            let (first, last) = (field.offset + field.bit / 8, field.offset + (field.bit + field.bits - 1) / 8);
            for offset in at + first..=at + last {
                let stored = if self.striped { stored_offset(offset) } else { offset };
                let Some(byte) = self.bytes.get_mut(stored) else { continue };
                *byte = match *byte {
                    Some(Byte { table: known, fields: (first, _), number: of }) if known == table && of == number => {
                        Some(Byte { table, fields: (first, position), number })
                    }
                    _ => Some(Byte { table, fields: (position, position), number }),
                };
            }
        }
        self
    }

    /// Says that one field of a table lies at `at`, as which of its repetitions.
    #[must_use]
    pub fn with_field(mut self, (table, field): (usize, usize), range: std::ops::Range<usize>, number: usize) -> Self {
        for byte in self.bytes.get_mut(range).into_iter().flatten() {
            *byte = Some(Byte { table, fields: (field, field), number: Some(number) });
        }
        self
    }

    /// Adds a line behind the image, which no payload reaches into, with the fields of a table.
    #[must_use]
    pub fn with_line(mut self, tables: &[Table], table: usize) -> Self {
        let line = Self { bytes: vec![None; LINE_BYTES], striped: false }.with(tables, table, 0, None);
        self.bytes.extend(line.bytes);
        self
    }

    /// Runs of bytes that are the same thing, within a line.
    fn runs(&self, line: usize) -> impl Iterator<Item = (std::ops::Range<usize>, Option<Byte>)> {
        let start = line * LINE_BYTES;
        let bytes = &self.bytes[start.min(self.bytes.len())..(start + LINE_BYTES).min(self.bytes.len())];
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = *bytes.get(at)?;
            let length = bytes[at..].iter().take_while(|byte| **byte == first).count();
            at += length;
            Some((at - length..at, first))
        })
    }
}

/// What a picture of a leaf needs to know.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Whose leaf it is, and how large.
    pub title: String,
    /// Tables of fields; the first is that of version bytes if the leaf has some.
    pub tables: Vec<Table>,
    /// What the bytes of the sample are.
    pub map: Map,
    /// What is in the leaf that is shown, and its bytes.
    pub sample: (String, Vec<u8>),
    /// Which of its lines.
    pub lines: Vec<usize>,
    /// A whole leaf, and what is to be said of it.
    pub whole: Option<(String, Map)>,
}

impl Leaf {
    /// Number of a field in the list below the picture.
    fn number(&self, table: usize, field: usize) -> usize {
        self.tables[..table].iter().map(|table| table.fields.len()).sum::<usize>() + field + 1
    }

    fn hue(&self, byte: Option<Byte>) -> String {
        byte.map_or_else(
            || "empty".to_owned(),
            |byte| {
                let hues = self.tables[byte.table].hues;
                format!("h{}", hues[byte.fields.0 % hues.len()])
            },
        )
    }

    /// What is written above a run: its name if there is room for it and for a gap to the next one, else its number. A byte
    /// with bits of several fields has the first one's number, and the last one's if there is room.
    fn label(&self, byte: Byte, room: f64) -> String {
        let fits = |text: &str| text.chars().count() as f64 * TINY_LETTER + GAP <= room;
        let Byte { table, fields: (first, last), number } = byte;
        if first == last {
            let name = self.tables[table].fields[first].name;
            // Where the table names the first of many, the number takes the place of its own.
            let name =
                number.map_or_else(|| name.to_owned(), |number| format!("{} {number}", name.trim_end_matches(" 0")));
            if fits(&name) {
                return name;
            }
        } else {
            let range = format!("{}\u{2013}{}", self.number(table, first), self.number(table, last));
            if fits(&range) {
                return range;
            }
        }
        self.number(table, first).to_string()
    }

    /// Draws it.
    pub fn draw(&self) -> String {
        let mut svg = Svg::new(WIDTH, &self.title);
        let y = svg.paragraph((16.0, 28.0), "title", TITLE_LETTERS, 20.0, &self.title);
        // Above one byte there is room for two digits in small letters.
        debug_assert!(self.tables.iter().map(|table| table.fields.len()).sum::<usize>() < 100);
        let about = format!(
            "Bytes shown: {}. A number above bytes is that of their first field in the list below.",
            self.sample.0
        );
        let mut y = svg.paragraph((16.0, y), "dim", LETTERS, 15.0, &about);
        y += 12.0;
        let mut last = None;
        for &line in &self.lines {
            if last.is_some_and(|last| last + 1 != line) {
                svg.text((LEFT + 4.0, y + 2.0), "dim", "\u{22ee}");
                y += 16.0;
            }
            last = Some(line);
            y = self.draw_line(&mut svg, line, y);
        }
        if let Some((what, map)) = &self.whole {
            y = self.draw_whole(&mut svg, what, map, y + 14.0);
        }
        y = self.draw_tables(&mut svg, y + 10.0);
        svg.finish(y)
    }

    fn draw_line(&self, svg: &mut Svg, line: usize, y: f64) -> f64 {
        svg.text((LEFT - 8.0, y + 26.0), "mono dim end", &format!("{:#05x}", line * LINE_BYTES));
        for (run, byte) in self.map.runs(line) {
            let (x, width) = (LEFT + run.start as f64 * BYTE, run.len() as f64 * BYTE);
            svg.rect((x, y + 14.0), (width, 18.0), &self.hue(byte));
            svg.line((x, y + 14.0), (x, y + 32.0), "edge");
            if let Some(byte) = byte {
                let label = self.label(byte, width);
                let class = if width <= BYTE { "micro mid" } else { "tiny mid" };
                svg.text((x + width / 2.0, y + 10.0), class, &label);
            }
            for at in run {
                if let Some(byte) = self.sample.1.get(line * LINE_BYTES + at) {
                    let x = LEFT + (at as f64 + 0.5) * BYTE;
                    svg.text((x, y + 26.0), "mono mid", &format!("{byte:02x}"));
                }
            }
        }
        y + 42.0
    }

    fn draw_whole(&self, svg: &mut Svg, what: &str, map: &Map, y: f64) -> f64 {
        const LINE: f64 = 9.0;
        svg.text((16.0, y), "strong", what);
        let top = y + 10.0;
        let count = map.bytes.len().div_ceil(LINE_BYTES);
        for line in 0..count {
            let y = top + line as f64 * LINE;
            if line % 4 == 0 {
                svg.text((LEFT - 8.0, y + 7.0), "mono dim end", &format!("{:#05x}", line * LINE_BYTES));
            }
            for (run, byte) in map.runs(line) {
                let (x, width) = (LEFT + run.start as f64 * BYTE, run.len() as f64 * BYTE);
                svg.rect((x, y), (width, LINE - 1.0), &self.hue(byte));
                svg.line((x, y), (x, y + LINE - 1.0), "edge");
            }
        }
        top + count as f64 * LINE + 12.0
    }

    fn draw_tables(&self, svg: &mut Svg, mut y: f64) -> f64 {
        for (position, table) in self.tables.iter().enumerate() {
            y += 12.0;
            svg.text((16.0, y), "small strong", table.heading);
            y += 16.0;
            for (field, hue) in (0..table.fields.len()).zip(table.hues.iter().cycle()) {
                let Field { offset, bits, bit, name, meaning } = table.fields[field];
                svg.rect((16.0, y - 9.0), (20.0, 11.0), &format!("h{hue}"));
                svg.text((32.0, y - 0.5), "tiny end", &self.number(position, field).to_string());
                svg.text((LEFT, y), "small strong", name);
                let at = if bit == 0 && bits.is_multiple_of(8) {
                    format!("{} B at {offset}", bits / 8)
                } else {
                    match bits {
                        1 => format!("bit {bit} at {offset}"),
                        _ => format!("bits {bit}\u{2013}{} at {offset}", bit + bits - 1),
                    }
                };
                svg.text((LEFT + 118.0, y), "small dim", &at);
                y = svg.paragraph((LEFT + 218.0, y), "small", 108, 13.0, &meaning.replace('`', "")).max(y + 13.0) + 2.0;
            }
        }
        y + 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] =
        &[Field::bits(0, 0, 4, "low", ""), Field::bits(0, 4, 12, "across", ""), Field::bytes(2, 8, "key", "")];

    #[test]
    fn labels_have_a_gap_between_them() {
        let tables = vec![Table { heading: "entry", fields: FIELDS, hues: &[1] }];
        let map = Map::new(64, false).with(&tables, 0, 0, None);
        let leaf =
            Leaf { title: String::new(), tables, map, sample: (String::new(), vec![]), lines: vec![], whole: None };
        let label = |fields: (usize, usize), room| leaf.label(Byte { table: 0, fields, number: None }, room);
        assert_eq!(label((0, 1), BYTE), "1", "both numbers do not fit above one byte");
        assert_eq!(label((0, 1), 2.0 * BYTE), "1\u{2013}2");
        let exact = 3.0 * TINY_LETTER;
        assert_eq!((label((2, 2), exact).as_str(), label((2, 2), exact + GAP).as_str()), ("3", "key"));
    }

    #[test]
    fn bytes_know_which_fields_have_bits_in_them() {
        let tables = [
            Table { heading: "versions", fields: FIELDS, hues: &[0] },
            Table { heading: "entry", fields: FIELDS, hues: &[1, 2, 3] },
        ];
        let map = Map::new(128, true).with(&tables, 1, 60, Some(7));
        let byte = |at: usize| map.bytes[at].map(|byte| (byte.table, byte.fields, byte.number));
        assert_eq!(byte(0), Some((0, (0, 1), None)));
        assert_eq!(byte(61), Some((1, (0, 1), Some(7))));
        assert_eq!(byte(62), Some((1, (1, 1), Some(7))));
        assert_eq!(byte(63), Some((1, (2, 2), Some(7))));
        assert_eq!(byte(64), Some((0, (0, 1), None)));
        assert_eq!(byte(65), Some((1, (2, 2), Some(7))));
        assert_eq!(byte(72), None);
        let runs: Vec<_> = map.runs(1).map(|(run, _)| run).collect();
        assert_eq!(runs, [0..1, 1..8, 8..64]);
    }
}
