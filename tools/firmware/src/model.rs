//! What the index has to answer, computed: the key of a number, its value at each version, and its last version.

use crate::LANES;

/// Numbers that are keys at some time.
pub const RECORDS: u32 = 600;

/// Bytes of a key and of a value.
pub const BYTES: usize = 8;

/// Numbers of these are deleted altogether, so that leaves become empty and merge.
const EMPTIED: core::ops::Range<u32> = 200..400;

/// Distance between keys: their order is that of the numbers, and they differ in most of their bytes.
const STEP: u64 = 0x9E37_79B1;

/// Versions of a value.
pub const VERSIONS: u32 = 4;

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Inserted as version 0, and deleted.
    Deleted,
    /// Deleted, and upserted as version 3.
    Reborn,
    /// Updated to version 1.
    Updated,
    /// Updated to version 2 if it is version 0.
    UpdatedIf,
    /// Stays as it was inserted.
    Kept,
}

impl Fate {
    /// That of `record`.
    pub const fn of(record: u32) -> Self {
        if EMPTIED.start <= record && record < EMPTIED.end {
            return Self::Deleted;
        }
        match record % 9 {
            0 => Self::Reborn,
            3 | 6 => Self::Deleted,
            1 | 4 | 7 => Self::Updated,
            2 => Self::UpdatedIf,
            _ => Self::Kept,
        }
    }

    /// Whether the key is present from its insertion to the end.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Updated | Self::UpdatedIf | Self::Kept)
    }

    /// The version at the end; `None`: absent.
    pub const fn last_version(self) -> Option<u32> {
        match self {
            Self::Deleted => None,
            Self::Reborn => Some(3),
            Self::Updated => Some(1),
            Self::UpdatedIf => Some(2),
            Self::Kept => Some(0),
        }
    }
}

/// The key of a number.
pub const fn key(record: u32) -> [u8; BYTES] {
    ((record as u64 + 1) * STEP).to_be_bytes()
}

/// A key that is never present, behind that of `record` and before the next.
pub const fn no_key(record: u32) -> [u8; BYTES] {
    ((record as u64 + 1) * STEP + 1).to_be_bytes()
}

/// The number of a key, if it is one's.
pub const fn record_of(key: [u8; BYTES]) -> Option<u32> {
    let key = u64::from_be_bytes(key);
    let record = key / STEP;
    if key.is_multiple_of(STEP) && 0 < record && record <= RECORDS as u64 { Some(record as u32 - 1) } else { None }
}

/// The value of a number's version.
pub const fn value(record: u32, version: u32) -> [u8; BYTES] {
    let mixed = ((record as u64) << 8 | version as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).to_le_bytes()
}

/// The value at the end; `None`: absent.
pub fn last_value(record: u32) -> Option<[u8; BYTES]> {
    let mut version = Fate::of(record).last_version()?;
    // See the feature: nobody writes this version.
    if cfg!(feature = "wrong-model") && record == 100 {
        version = VERSIONS;
    }
    Some(value(record, version))
}

/// The numbers of a lane, not in order: inserts hit leaves all over the tree.
pub fn records_of(lane: u16) -> impl Iterator<Item = u32> {
    const EACH: u32 = RECORDS / LANES as u32;
    // No factor in common with 150.
    const STRIDE: u32 = 47;
    (0..EACH).map(move |turn| turn * STRIDE % EACH * LANES as u32 + u32::from(lane))
}

/// Whose number it is.
pub const fn lane_of(record: u32) -> u16 {
    (record % LANES as u32) as u16
}
