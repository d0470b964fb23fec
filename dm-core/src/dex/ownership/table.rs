//! The ownership table as it lies on memory node 0, and how its boundaries are made.
//!
//! ```text
//! ┌────────┬────────┬────────┬─────┬────────┬────────┬─────┬────────────┬────────────┬─────
//! │ header │ word 0 │ word 1 │ ... │ load 0 │ load 1 │ ... │ boundary 0 │ boundary 1 │ ...      of each as many as its capacity
//! └────────┴────────┴────────┴─────┴────────┴────────┴─────┴────────────┴────────────┴─────
//! ```
//!
//! An entry's boundary is its least key; it reaches to the next greater boundary of the table. Boundary 0 is the least
//! key of all. Boundaries do not change. Their order in the table does not matter, so that an entry can be cut in two:
//! a new entry is written behind the others, its word and its boundary first, and then the count. An entry's
//! number stays what it is, which log records rely on.
//!
//! **What is behind the count** may be left of a cut that was given up. So a reader takes entries from a READ that was posted after
//! the count was known ([`Table::decode_first`]): a READ of several lines may bring a new count, and the old words and boundaries.
//!
//! Words are changed by CAS. Loads are hints, which owners WRITE ([`LoadWord`]).

use super::OwnerWord;
use crate::layout::LINE_BYTES;
use crate::layout::record::{CRC, Le32, record};
use crate::layout::word_at;
use crate::remote::catalog::IndexNumber;
use crate::remote::owners::{self, LoadWord};
use core::cmp::Ordering;
use core::ops::Range;
use static_assertions::const_assert_eq;
use thiserror::Error;
use zerocopy::IntoBytes;

pub use crate::remote::owners::{ENTRIES_MAX, TableHeader};

/// Bytes of a key.
pub const KEY_BYTES: Range<usize> = crate::registry::KEY_BYTES_MIN..crate::registry::KEY_BYTES_MAX + 1;

record! {
    /// The head of a boundary as stored; the key follows, and zeros up to a multiple of 8 bytes.
    pub struct BoundaryHead {
        checksum: Le32 = "CRC-32C of the entry's number and the key",
        entry: Le32 = "number of the entry",
    }
}
const_assert_eq!(BoundaryHead::BYTES, 8);

/// Byte offset of an entry table's count.
pub const COUNT_AT: u64 = core::mem::offset_of!(TableHeader, count) as u64;

/// Why a table is none, or boundaries make none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// No entries, or too many.
    #[error("an ownership table of {entries} entries: it has 1 to {ENTRIES_MAX}")]
    Entries {
        /// Entries wanted.
        entries: u32,
    },
    /// Keys of a length that no index has, or a boundary of another length than keys.
    #[error("a boundary of {found} bytes in an ownership table for keys of {key_bytes}; keys have 8 to 64 bytes")]
    KeyBytes {
        /// Bytes of a key.
        key_bytes: usize,
        /// Bytes of the boundary.
        found: usize,
    },
    /// Two entries have keys in common.
    #[error("entry {entry} overlaps another one: boundaries have to ascend, each above the one before")]
    Overlap {
        /// The entry that begins too early.
        entry: u32,
    },
    /// Keys belong to no entry.
    #[error(
        "keys below entry {entry} belong to no entry: each has to begin where the one before ends, the first at the least key"
    )]
    Gap {
        /// The entry that begins too late.
        entry: u32,
    },
    /// The last entry has an end.
    #[error("keys behind entry {entry} belong to no entry: the last one has no upper bound")]
    NoEnd {
        /// The last entry.
        entry: u32,
    },
    /// A range of keys has fewer keys than entries, or a sample has too few different ones.
    #[error("{entries} entries cannot be cut from {keys} keys: entry {entry} would be empty")]
    TooFewKeys {
        /// Entries wanted.
        entries: u32,
        /// Keys there are.
        keys: u64,
        /// The first entry that has none.
        entry: u32,
    },
    /// The table does not fit where it is to lie.
    #[error("an ownership table of {needed} bytes, and room for {room}")]
    Room {
        /// Bytes of the table.
        needed: usize,
        /// Bytes there are.
        room: usize,
    },
    /// Its bytes changed, or there is no table.
    #[error("no ownership table: {0}")]
    Corrupt(&'static str),
    /// A table of another pool, or index, or with other sizes.
    #[error("this ownership table belongs to another pool, to an earlier formatting of this one, or to another index")]
    Other,
    /// A table of another version of this program.
    #[error("an ownership table of version {found}; this program knows version {}", TableHeader::VERSION)]
    Version {
        /// The table's version.
        found: u8,
    },
}

/// Where things are in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    key_bytes: usize,
    capacity: u32,
}

impl TableShape {
    /// A table for keys of `key_bytes` bytes, with room for `capacity` entries.
    pub fn new(key_bytes: usize, capacity: u32) -> Result<Self, TableError> {
        if !KEY_BYTES.contains(&key_bytes) {
            return Err(TableError::KeyBytes { key_bytes, found: key_bytes });
        }
        if capacity == 0 || capacity > ENTRIES_MAX {
            return Err(TableError::Entries { entries: capacity });
        }
        Ok(Self { key_bytes, capacity })
    }

    /// Bytes of a key.
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Entries for which there is room.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Byte offset of the word of an entry, in the table.
    pub const fn word_at(entry: u32) -> usize {
        owners::word_at(entry)
    }

    /// Byte offset of the load of an entry, in the table.
    pub const fn load_at(&self, entry: u32) -> usize {
        owners::load_at(self.capacity, entry)
    }

    /// Bytes from one boundary to the next.
    const fn stride(&self) -> usize {
        (BoundaryHead::BYTES + self.key_bytes).next_multiple_of(8)
    }

    /// Byte offset of the boundary of an entry, in the table.
    pub const fn boundary_at(&self, entry: u32) -> usize {
        self.load_at(self.capacity).next_multiple_of(LINE_BYTES) + entry as usize * self.stride()
    }

    /// Bytes of the table.
    pub const fn bytes(&self) -> usize {
        self.boundary_at(self.capacity).next_multiple_of(LINE_BYTES)
    }

    fn key_at(&self, entry: u32) -> Range<usize> {
        let start = self.boundary_at(entry) + BoundaryHead::BYTES;
        start..start + self.key_bytes
    }
}

/// Writes the boundary of an entry as stored to `place`. Returns its bytes. `None`: there is no room.
pub fn write_boundary(entry: u32, key: &[u8], place: &mut [u8]) -> Option<usize> {
    let bytes = (BoundaryHead::BYTES + key.len()).next_multiple_of(8);
    let place = place.get_mut(..bytes)?;
    place.fill(0);
    let head = BoundaryHead { checksum: boundary_checksum(entry, key).into(), entry: entry.into() };
    place.get_mut(..BoundaryHead::BYTES)?.copy_from_slice(head.as_bytes());
    place.get_mut(BoundaryHead::BYTES..)?.get_mut(..key.len())?.copy_from_slice(key);
    Some(bytes)
}

fn boundary_checksum(entry: u32, key: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(&entry.to_le_bytes());
    digest.update(key);
    digest.finalize()
}

/// The image of a new table, entry after entry.
#[derive(Debug)]
pub struct TableWriter<'a> {
    shape: TableShape,
    image: &'a mut [u8],
    count: u32,
    /// The last range that was given has an upper bound.
    bounded: bool,
}

impl<'a> TableWriter<'a> {
    /// Begins a table in `image`, of [`TableShape::bytes`], which is overwritten. Entry 0 begins at the least key, and has
    /// no end.
    pub fn start(
        shape: TableShape,
        index: IndexNumber,
        pool_incarnation: u64,
        image: &'a mut [u8],
    ) -> Result<Self, TableError> {
        let (needed, room) = (shape.bytes(), image.len());
        let image = image.get_mut(..needed).ok_or(TableError::Room { needed, room })?;
        image.fill(0);
        let header = TableHeader {
            index: index.get() as u8,
            version: TableHeader::VERSION,
            key_bytes: (shape.key_bytes as u16).into(),
            capacity: shape.capacity.into(),
            pool_incarnation: pool_incarnation.into(),
            ..TableHeader::ZERO
        };
        let header = header.sealed();
        image[..TableHeader::BYTES].copy_from_slice(header.as_bytes());
        let mut writer = Self { shape, image, count: 0, bounded: false };
        writer.put(None)?;
        Ok(writer)
    }

    /// Appends an entry with that boundary; `None`: the least key.
    fn put(&mut self, low: Option<&[u8]>) -> Result<(), TableError> {
        let (shape, entry) = (self.shape, self.count);
        if entry >= shape.capacity {
            return Err(TableError::Entries { entries: entry + 1 });
        }
        let least = [0; crate::registry::KEY_BYTES_MAX];
        let (at, key) = (shape.boundary_at(entry), low.unwrap_or(&least[..shape.key_bytes]));
        let (needed, room) = (shape.stride(), self.image.len());
        write_boundary(entry, key, &mut self.image[at..]).ok_or(TableError::Room { needed, room })?;
        self.count += 1;
        Ok(())
    }

    fn last(&self) -> &[u8] {
        &self.image[self.shape.key_at(self.count - 1)]
    }

    /// The last entry ends below `low`, and another one begins there.
    pub fn cut(&mut self, low: &[u8]) -> Result<(), TableError> {
        let key_bytes = self.shape.key_bytes;
        if low.len() != key_bytes {
            return Err(TableError::KeyBytes { key_bytes, found: low.len() });
        }
        if low <= self.last() {
            return Err(TableError::Overlap { entry: self.count });
        }
        self.put(Some(low))
    }

    /// Appends entries that are given as ranges, `high` exclusive; `None`: without an end. They have to cover all keys.
    pub fn ranges<'k>(
        mut self,
        ranges: impl IntoIterator<Item = (&'k [u8], Option<&'k [u8]>)>,
    ) -> Result<u32, TableError> {
        let mut end: Option<&[u8]> = None;
        let mut entry = 0;
        for (low, high) in ranges {
            let begins = match end {
                None if entry == 0 && low.len() == self.shape.key_bytes => low.cmp(self.last()),
                None if entry == 0 => {
                    return Err(TableError::KeyBytes { key_bytes: self.shape.key_bytes, found: low.len() });
                }
                None => Ordering::Less,
                Some(end) => low.cmp(end),
            };
            match begins {
                Ordering::Less => return Err(TableError::Overlap { entry }),
                Ordering::Greater => return Err(TableError::Gap { entry }),
                Ordering::Equal if entry > 0 => self.cut(low)?,
                Ordering::Equal => {}
            }
            if high.is_some_and(|high| high <= low) {
                return Err(TableError::Overlap { entry: entry + 1 });
            }
            (end, entry) = (high, entry + 1);
        }
        if entry == 0 {
            return Err(TableError::Entries { entries: 0 });
        }
        self.bounded = end.is_some();
        self.finish()
    }

    /// Cuts at these boundaries. There is one entry more than boundaries.
    pub fn given<'k>(mut self, boundaries: impl IntoIterator<Item = &'k [u8]>) -> Result<u32, TableError> {
        for low in boundaries {
            self.cut(low)?;
        }
        self.finish()
    }

    /// `entries` entries of equal width over the keys whose first eight bytes, as a big-endian number, are in
    /// `first..=last`. Keys below belong to the first entry, and keys above to the last.
    pub fn even(mut self, entries: u32, first: u64, last: u64) -> Result<u32, TableError> {
        if entries == 0 {
            return Err(TableError::Entries { entries });
        }
        let keys = u128::from(last.saturating_sub(first)) + 1;
        for entry in 1..entries {
            let low = u128::from(first) + keys * u128::from(entry) / u128::from(entries);
            let mut key = [0; crate::registry::KEY_BYTES_MAX];
            key[..8].copy_from_slice(&(low as u64).to_be_bytes());
            let too_few = TableError::TooFewKeys { entries, keys: u64::try_from(keys).unwrap_or(u64::MAX), entry };
            self.cut(&key[..self.shape.key_bytes]).map_err(|error| match error {
                TableError::Overlap { .. } => too_few,
                error => error,
            })?;
        }
        self.finish()
    }

    /// `entries` entries with as many keys each of a sample in ascending order: those of a bulk load. `key(i)` is key
    /// `i` of `keys`.
    pub fn quantiles<'k>(
        mut self,
        entries: u32,
        keys: u64,
        mut key: impl FnMut(u64) -> &'k [u8],
    ) -> Result<u32, TableError> {
        if entries == 0 {
            return Err(TableError::Entries { entries });
        }
        for entry in 1..entries {
            let too_few = TableError::TooFewKeys { entries, keys, entry };
            let at = (u128::from(keys) * u128::from(entry) / u128::from(entries)) as u64;
            if at == 0 || at >= keys {
                return Err(too_few);
            }
            self.cut(key(at)).map_err(|error| match error {
                TableError::Overlap { .. } => too_few,
                error => error,
            })?;
        }
        self.finish()
    }

    /// Completes the table. Returns how many entries it has.
    fn finish(self) -> Result<u32, TableError> {
        if self.bounded {
            return Err(TableError::NoEnd { entry: self.count - 1 });
        }
        let count = u64::from(self.count);
        self.image[COUNT_AT as usize..COUNT_AT as usize + 8].copy_from_slice(&count.to_le_bytes());
        Ok(self.count)
    }
}

/// A table that was READ. Its boundaries are whole; whether no two are the same is for who sorts them.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    shape: TableShape,
    image: &'a [u8],
    count: u32,
}

impl<'a> Table<'a> {
    /// Reads and checks the table of index `index` of a pool of `pool_incarnation`. Nobody has cut an entry since it was READ.
    pub fn decode(
        shape: TableShape,
        index: IndexNumber,
        pool_incarnation: u64,
        image: &'a [u8],
    ) -> Result<Self, TableError> {
        Self::decode_first(shape, index, pool_incarnation, image, ENTRIES_MAX)
    }

    /// The same of the first `count` entries, if there are so many. An earlier READ has said that there are.
    pub fn decode_first(
        shape: TableShape,
        index: IndexNumber,
        pool_incarnation: u64,
        image: &'a [u8],
        count: u32,
    ) -> Result<Self, TableError> {
        let known = count;
        let (needed, room) = (shape.bytes(), image.len());
        let image = image.get(..needed).ok_or(TableError::Room { needed, room })?;
        let header = TableHeader::from_prefix(image).ok_or(TableError::Corrupt("it is too short"))?;
        if header != header.sealed() {
            return Err(TableError::Corrupt("the checksum of its header does not hold"));
        }
        if header.version != TableHeader::VERSION {
            return Err(TableError::Version { found: header.version });
        }
        let sizes = (usize::from(header.key_bytes.get()), header.capacity.get());
        let is_same = header.index == index.get() as u8 && header.pool_incarnation.get() == pool_incarnation;
        if !is_same || sizes != (shape.key_bytes, shape.capacity) {
            return Err(TableError::Other);
        }
        let count = u32::try_from(header.count.get()).unwrap_or(u32::MAX);
        if count == 0 || count > shape.capacity {
            return Err(TableError::Corrupt("it has no entries, or more than it has room for"));
        }
        let count = count.min(known);
        let table = Self { shape, image, count };
        for entry in 0..count {
            let head = image.get(shape.boundary_at(entry)..).and_then(BoundaryHead::from_prefix);
            let head = head.ok_or(TableError::Corrupt("it is too short"))?;
            if head.entry.get() != entry || head.checksum.get() != boundary_checksum(entry, table.boundary(entry)) {
                return Err(TableError::Corrupt("the checksum of a boundary does not hold"));
            }
        }
        if table.boundary(0).iter().any(|byte| *byte != 0) {
            return Err(TableError::Gap { entry: 0 });
        }
        Ok(table)
    }

    /// Where things are in it.
    pub const fn shape(&self) -> TableShape {
        self.shape
    }

    /// Its entries.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The least key of an entry.
    pub fn boundary(&self, entry: u32) -> &'a [u8] {
        self.image.get(self.shape.key_at(entry)).unwrap_or_default()
    }

    /// The word of an entry, when the table was READ.
    pub fn word(&self, entry: u32) -> OwnerWord {
        OwnerWord(word_at(self.image, TableShape::word_at(entry)))
    }

    /// The load of an entry, when the table was READ.
    pub fn load(&self, entry: u32) -> LoadWord {
        LoadWord(word_at(self.image, self.shape.load_at(entry)))
    }
}
