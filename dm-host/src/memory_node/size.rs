//! Sizes on command lines and in settings files.

/// Parses a size such as 4096, 64KiB, 4GiB.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" | "K" | "k" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        unit => return Err(format!("unknown unit {unit:?}: use KiB, MiB, GiB or TiB")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number such as 4GiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "does not fit into 64 bits".to_owned())
}
