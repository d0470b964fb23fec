//! Decoded values as text, for all structures.

use super::Values;
use std::fmt::{Display, Write as _};

pub(super) fn value(name: &str, value: &dyn Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

pub(super) fn hex(name: &str, number: u64) -> (String, String) {
    (name.to_owned(), format!("{number:#x}"))
}

pub(super) fn error(what: &dyn Display) -> Values {
    vec![value("error", what)]
}

/// Two digits a byte.
pub(super) fn digits(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The first word of `bytes`; a short image is continued by zeros.
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}
