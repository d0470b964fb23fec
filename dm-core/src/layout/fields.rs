//! Field maps: a structure described as data, so that its documentation is generated and checked.

use core::fmt;

/// One field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte offset; for striped nodes, the payload offset.
    pub offset: usize,
    /// Width in bits, starting at bit `bit`.
    pub bits: usize,
    /// First bit within the little-endian word at `offset`.
    pub bit: usize,
    /// Name.
    pub name: &'static str,
    /// Meaning, in one line.
    pub meaning: &'static str,
}

impl Field {
    /// A field of whole bytes.
    pub const fn bytes(offset: usize, bytes: usize, name: &'static str, meaning: &'static str) -> Self {
        Self { offset, bits: bytes * 8, bit: 0, name, meaning }
    }

    /// A field of `bits` bits from bit `bit` of the word at `offset`.
    pub const fn bits(offset: usize, bit: usize, bits: usize, name: &'static str, meaning: &'static str) -> Self {
        Self { offset, bits, bit, name, meaning }
    }
}

/// A table of fields as the goldens have it: offset, bits, name, meaning.
pub struct Table<'a>(pub &'a [Field]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>6}  {:>8}  {:<20} meaning", "offset", "bits", "field")?;
        for field in self.0 {
            write!(f, "{:>6}  ", field.offset)?;
            if field.bit == 0 && field.bits.is_multiple_of(8) {
                write!(f, "{:>6} B", field.bits / 8)?;
            } else {
                write!(f, "{:>3}..={:<2}", field.bit, field.bit + field.bits - 1)?;
            }
            writeln!(f, "  {:<20} {}", field.name, field.meaning)?;
        }
        Ok(())
    }
}

/// A hexdump of `bytes`, 16 to a line, each line with its offset.
pub struct Hexdump<'a>(pub &'a [u8]);

impl fmt::Display for Hexdump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, bytes) in self.0.chunks(16).enumerate() {
            write!(f, "{:06x} ", line * 16)?;
            for byte in bytes {
                write!(f, " {byte:02x}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
