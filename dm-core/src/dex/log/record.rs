//! Log records: one change of one key, in whole lines.
//!
//! ```text
//!  line n                                                            line n + 1
//! ┌──────────┬───────┬─────┬───────┬─────────────┬─────┬───────┐   ┌────────────────┬─────────┐
//! │ checksum │ lines │ LSN │ entry │ incarnation │ key │ value ┊   ┊ value, its end │ 0       │
//! └──────────┴───────┴─────┴───────┴─────────────┴─────┴───────┘   └────────────────┴─────────┘
//! ```
//!
//! **A record is a new state, not a difference**: the value that the key has now, or that it has none. So records of a
//! key may be applied again in their order, from any of them on.
//!
//! **Whose it is.** Chunks of rings are used again, so a ring has lines of other rings behind its end. Their numbers
//! and incarnations may be the ones that are expected there. So every checksum begins with the ring's [`Seal`], which
//! no other ring has.

use crate::layout::LINE_BYTES;
use crate::layout::checksum::CRC;
use crate::layout::record::{Le16, Le32, Le64, record};
use crate::pages::lsn::Lsn;
use static_assertions::{const_assert, const_assert_eq};
use zerocopy::IntoBytes;

record! {
    /// The header of a log record as stored. Key and value follow; zeros fill the last line.
    pub struct RecordHeader {
        checksum: Le32 = "CRC-32C of the bytes behind it, to the record's last line's end, begun with the ring's seed",
        lines: u8 = "lines of the record",
        kind: u8 = "1 = put, 2 = delete, 3 = none: an LSN that no record needs",
        key_bytes: u8 = "length of the key; 0 in a record of kind none",
        reserved_7: u8 = "zero",
        lsn: Le64 = "number of the record's first line, and epoch of the tenure: dex_lsn",
        entry: Le32 = "entry of the ownership table",
        incarnation: Le32 = "incarnation of the row whose ring this is",
        value_bytes: Le16 = "length of the new value; 0 unless the kind is put",
        reserved_26: [u8; 6] = "zero",
    }
}
const_assert_eq!(RecordHeader::BYTES, 32);
const_assert!(RecordHeader::BYTES <= LINE_BYTES);

/// The longest key.
pub const KEY_BYTES_MAX: usize = crate::registry::KEY_BYTES_MAX;

/// The longest value.
pub const VALUE_BYTES_MAX: usize = 1024;

/// Most lines of a record.
pub const RECORD_LINES_MAX: usize = lines_of_bytes(KEY_BYTES_MAX + VALUE_BYTES_MAX);
const_assert!(RECORD_LINES_MAX <= u8::MAX as usize);

const CHECKSUM_BYTES: usize = size_of::<Le32>();

/// Lines of a record whose key and value have `bytes` bytes together.
pub const fn lines_of_bytes(bytes: usize) -> usize {
    (RecordHeader::BYTES + bytes).div_ceil(LINE_BYTES)
}

/// What a record says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value now.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The key is absent now.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Nothing: the record takes an LSN, with which a page is stamped whose change is not logged.
    None,
}

impl<'a> Change<'a> {
    const fn parts(self) -> (u8, &'a [u8], &'a [u8]) {
        match self {
            Self::Put { key, value } => (1, key, value),
            Self::Delete { key } => (2, key, &[]),
            Self::None => (3, &[], &[]),
        }
    }

    /// Lines of its record.
    pub const fn lines(self) -> usize {
        let (_, key, value) = self.parts();
        lines_of_bytes(key.len() + value.len())
    }

    /// Whether a record can have it: keys of 1 to [`KEY_BYTES_MAX`] bytes, values of up to [`VALUE_BYTES_MAX`].
    pub const fn fits(self) -> bool {
        let (kind, key, value) = self.parts();
        kind == 3 || !key.is_empty() && key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX
    }
}

/// A log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it is in the history of its entry.
    pub lsn: Lsn,
    /// Its entry of the ownership table.
    pub entry: u32,
    /// What it says.
    pub change: Change<'a>,
}

/// What tells the records of one ring from those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// With which checksums begin: made of pool, row, incarnation and token.
    pub seed: u32,
    /// The row's incarnation.
    pub incarnation: u32,
}

impl Seal {
    fn checksum(self, record: &[u8]) -> u32 {
        let mut digest = CRC.digest_with_initial(self.seed);
        digest.update(record.get(CHECKSUM_BYTES..).unwrap_or_default());
        digest.finalize()
    }

    /// Puts the checksum into the record at the start of `lines`, which is complete otherwise. Returns the lines of
    /// the record; 0: it is longer than `lines`, or none.
    pub fn close(self, lines: &mut [u8]) -> usize {
        let Some(header) = RecordHeader::from_prefix(lines) else { return 0 };
        let count = usize::from(header.lines);
        let Some(record) = lines.get_mut(..count * LINE_BYTES).filter(|record| !record.is_empty()) else { return 0 };
        let checksum = self.checksum(record);
        if let Some(place) = record.get_mut(..CHECKSUM_BYTES) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        count
    }
}

impl Record<'_> {
    /// Writes the record to the start of `lines`, without its checksum, which [`Seal::close`] adds. Returns its lines;
    /// 0: there is no room, or [`Change::fits`] says no.
    pub fn write(&self, incarnation: u32, lines: &mut [u8]) -> usize {
        let (kind, key, value) = self.change.parts();
        let count = self.change.lines();
        if !self.change.fits() {
            return 0;
        }
        let Some(record) = lines.get_mut(..count * LINE_BYTES) else { return 0 };
        let header = RecordHeader {
            lines: count as u8,
            kind,
            key_bytes: key.len() as u8,
            lsn: self.lsn.to_bits().into(),
            entry: self.entry.into(),
            incarnation: incarnation.into(),
            value_bytes: (value.len() as u16).into(),
            ..RecordHeader::ZERO
        };
        let mut rest = record;
        for part in [header.as_bytes(), key, value] {
            let Some((place, behind)) = rest.split_at_mut_checked(part.len()) else { return 0 };
            place.copy_from_slice(part);
            rest = behind;
        }
        rest.fill(0);
        count
    }
}

/// What the bytes at a line are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A record, of so many lines.
    Record(Record<'a>, usize),
    /// Perhaps a record, of so many lines, which are more than there are.
    More(usize),
    /// No record that belongs here: the log ends.
    End,
}

/// Reads the record that begins at line `line` of the ring of `seal`, whatever the bytes are.
pub fn parse(bytes: &[u8], seal: Seal, line: u64) -> Parsed<'_> {
    let Some(header) = RecordHeader::from_prefix(bytes) else { return Parsed::More(1) };
    let lsn = Lsn::from_bits(header.lsn.get());
    let (key_bytes, value_bytes) = (usize::from(header.key_bytes), usize::from(header.value_bytes.get()));
    let count = usize::from(header.lines);
    // In the order of what costs little; the checksum is last.
    if lsn.line() != line
        || header.incarnation.get() != seal.incarnation
        || key_bytes > KEY_BYTES_MAX
        || value_bytes > VALUE_BYTES_MAX
        || count != lines_of_bytes(key_bytes + value_bytes)
    {
        return Parsed::End;
    }
    let Some(record) = bytes.get(..count * LINE_BYTES) else { return Parsed::More(count) };
    let parts = record.get(RecordHeader::BYTES..).and_then(|parts| parts.split_at_checked(key_bytes));
    let Some((key, behind)) = parts else { return Parsed::End };
    let Some(value) = behind.get(..value_bytes) else { return Parsed::End };
    let change = match (header.kind, key, value) {
        (1, [_, ..], value) => Change::Put { key, value },
        (2, [_, ..], []) => Change::Delete { key },
        (3, [], []) => Change::None,
        _ => return Parsed::End,
    };
    if seal.checksum(record) != header.checksum.get() {
        return Parsed::End;
    }
    Parsed::Record(Record { lsn, entry: header.entry.get(), change }, count)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const SEAL: Seal = Seal { seed: 0x1234_5678, incarnation: 9 };

    fn image(record: &Record<'_>, seal: Seal) -> Vec<u8> {
        let mut bytes = vec![0xee; RECORD_LINES_MAX * LINE_BYTES];
        let lines = record.write(seal.incarnation, &mut bytes);
        assert_eq!(seal.close(&mut bytes), lines);
        bytes.truncate(lines * LINE_BYTES);
        bytes
    }

    #[test]
    fn records_of_common_sizes_take_one_line() {
        let put = Change::Put { key: &[1; 8], value: &[2; 8] };
        assert_eq!((put.lines(), Change::Delete { key: &[1; 32] }.lines(), Change::None.lines()), (1, 1, 1));
        assert_eq!(Change::Put { key: &[1; 8], value: &[2; 25] }.lines(), 2);
        assert_eq!(RECORD_LINES_MAX, 18);
        assert!(!Change::Delete { key: &[] }.fits() && !Change::Delete { key: &[0; 65] }.fits());
        let mut little = [0; LINE_BYTES];
        let long = Record { lsn: Lsn::NONE, entry: 0, change: Change::Put { key: &[1; 8], value: &[2; 25] } };
        assert_eq!((long.write(1, &mut little), SEAL.close(&mut [])), (0, 0));
    }

    #[test]
    fn a_record_of_another_ring_line_or_life_ends_the_log() {
        let record = Record { lsn: Lsn::new(3, 77), entry: 5, change: Change::Put { key: b"a key.", value: b"v" } };
        let bytes = image(&record, SEAL);
        assert_eq!(parse(&bytes, SEAL, 77), Parsed::Record(record, 1));
        assert_eq!(parse(&bytes, SEAL, 78), Parsed::End);
        assert_eq!(parse(&bytes, Seal { incarnation: 8, ..SEAL }, 77), Parsed::End);
        assert_eq!(parse(&bytes, Seal { seed: 0, ..SEAL }, 77), Parsed::End, "a ring that had this chunk before");
        assert_eq!(parse(&bytes[..31], SEAL, 77), Parsed::More(1));
    }

    #[test]
    fn every_flipped_bit_and_every_line_of_another_lap_is_noticed() {
        let (old, new) = (vec![0x11; 200], vec![0x22; 200]);
        let of = |line, value| {
            image(&Record { lsn: Lsn::new(3, line), entry: 5, change: Change::Put { key: b"key", value } }, SEAL)
        };
        let (before, bytes) = (of(10, &old), of(26, &new));
        assert!(matches!(parse(&bytes, SEAL, 26), Parsed::Record(_, 4)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(parse(&damaged, SEAL, 26), Parsed::Record(..)), "bit {bit}");
        }
        for landed in 0..15_u32 {
            let mut mixed = before.clone();
            for line in (0..4).filter(|line| landed >> line & 1 != 0) {
                mixed[line * 64..][..64].copy_from_slice(&bytes[line * 64..][..64]);
            }
            assert_eq!(parse(&mixed, SEAL, 26), Parsed::End, "lines {landed:#b} have landed");
        }
    }

    proptest! {
        #[test]
        fn records_are_read_back(
            key in prop::collection::vec(any::<u8>(), 1..=KEY_BYTES_MAX),
            value in prop::collection::vec(any::<u8>(), 0..=VALUE_BYTES_MAX),
            (epoch, line, entry) in (0..=crate::pages::lsn::EPOCH_MAX, 0..crate::pages::lsn::LINES_END, any::<u32>()),
            kind in 0..3,
        ) {
            let change = match kind {
                0 => Change::Put { key: &key, value: &value },
                1 => Change::Delete { key: &key },
                _ => Change::None,
            };
            let record = Record { lsn: Lsn::new(epoch, line), entry, change };
            let bytes = image(&record, SEAL);
            let lines = change.lines();
            prop_assert_eq!(parse(&bytes, SEAL, line), Parsed::Record(record, lines));
            for short in 1..lines {
                prop_assert_eq!(parse(&bytes[..short * LINE_BYTES], SEAL, line), Parsed::More(lines));
            }
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400), line: u64) {
            let mut bytes = bytes;
            prop_assert!(!matches!(parse(&bytes, SEAL, line), Parsed::Record(..)));
            prop_assert!(SEAL.close(&mut bytes) <= 400 / LINE_BYTES);
        }
    }
}
