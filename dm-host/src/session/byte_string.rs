//! Byte strings of 0 to n - 1 bytes in slots of n bytes.
//!
//! ```text
//!  0            length                     n - 1
//!  ├─ the bytes ──┼─ zeros ───────────────────┼─ length ─┤
//! ```
//!
//! Slots compare as their strings do. Where neither string is a prefix of the other, the byte that differs decides.
//! Where one is, the longer string has either a byte above zero where the shorter has padding, or only zeros there, and
//! then the length decides. Different strings have different slots, since the length is in the slot.

use crate::error_text::debug_is_text;
use thiserror::Error;

/// The longest slot: the length has one byte.
pub const SLOT_BYTES_MAX: usize = 256;

/// Why a byte string does not fit a slot.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ByteStringError {
    /// The string is too long.
    #[error("a string of {given} bytes: the slot takes 0 to {max}")]
    TooLong {
        /// Its bytes.
        given: usize,
        /// The longest that fits.
        max: usize,
    },
    /// No slot has this length.
    #[error("a slot of {given} bytes: strings go into slots of 1 to {SLOT_BYTES_MAX}")]
    Slot {
        /// Its bytes.
        given: usize,
    },
}

debug_is_text! { ByteStringError }

/// The slot of `string`.
pub fn pack<const N: usize>(string: &[u8]) -> Result<[u8; N], ByteStringError> {
    let mut slot = [0; N];
    pack_into(string, &mut slot)?;
    Ok(slot)
}

/// Writes `string` into all of `slot`.
pub fn pack_into(string: &[u8], slot: &mut [u8]) -> Result<(), ByteStringError> {
    let given = slot.len();
    let (length, room) = match slot.split_last_mut() {
        Some(parts) if given <= SLOT_BYTES_MAX => parts,
        _ => return Err(ByteStringError::Slot { given }),
    };
    let Some((bytes, padding)) = room.split_at_mut_checked(string.len()) else {
        return Err(ByteStringError::TooLong { given: string.len(), max: given - 1 });
    };
    bytes.copy_from_slice(string);
    padding.fill(0);
    *length = string.len() as u8;
    Ok(())
}

/// The string in `slot`; `None` if [`pack_into`] does not write such a slot.
pub fn unpack(slot: &[u8]) -> Option<&[u8]> {
    let (&length, room) = slot.split_last()?;
    let (string, padding) = room.split_at_checked(length.into())?;
    (slot.len() <= SLOT_BYTES_MAX && padding.iter().all(|&byte| byte == 0)).then_some(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_and_keep_their_order() {
        let mut strings: Vec<Vec<u8>> = vec![vec![]];
        for length in 1..4 {
            for code in 0..4u32.pow(length) {
                strings.push((0..length).map(|at| [0, 1, 2, 255][(code >> (at * 2) & 3) as usize]).collect());
            }
        }
        for first in &strings {
            let slot = pack::<4>(first).unwrap();
            assert_eq!(unpack(&slot), Some(first.as_slice()));
            for second in &strings {
                assert_eq!(first.cmp(second), slot.cmp(&pack::<4>(second).unwrap()), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(pack::<4>(b"four"), Err(ByteStringError::TooLong { given: 4, max: 3 }));
        assert_eq!(pack_into(b"", &mut []), Err(ByteStringError::Slot { given: 0 }));
        assert_eq!(pack_into(b"", &mut [0; 257]), Err(ByteStringError::Slot { given: 257 }));
        assert_eq!(unpack(b"ab\x01\x02"), None, "bytes behind the end");
        assert_eq!(unpack(b"abc\x04"), None, "longer than the slot");
        assert_eq!(unpack(b""), None);
        assert_eq!(unpack(&pack::<256>(&[7; 255]).unwrap()), Some([7; 255].as_slice()));
    }
}
