//! What is fixed when an index is created, how the catalog keeps it, and what a lane needs for it.

use super::leaf::{self, LSN_BYTES};
use super::log::append::{MAKE_BYTES, room_bytes};
use super::log::record::RECORD_LINES_MAX;
use super::log::ring::{RING_LINES_MIN, RingError};
use super::log::staging::{RoomError, STAGING_LINES_MIN};
use super::ownership::table::{ENTRIES_MAX, TableError, TableShape, TableWriter};
use super::recover::LINES_BYTES_MIN;
use super::restore;
use crate::btree::TreeScratch;
use crate::btree::inner::{InnerShape, SPAN_MAX as INNER_SPAN_MAX};
use crate::dex::leaf::{LeafShape, SPAN_MAX, SPAN_MIN};
use crate::layout::LINE_BYTES;
use crate::layout::record::{Le16, Le32, Le64, record};
use crate::operation::ScratchPlan;
use crate::pages::BadStore;
use crate::registry::{KindParameters, ParameterError, check_limit, chosen_spans, stored_parameters};
use crate::remote::catalog::{IndexKind, IndexNumber, PARAMETER_BYTES};
use crate::remote::row::Row;
use crate::remote::superblock::Superblock;
use core::fmt;
use core::ops::Range;
use static_assertions::{const_assert, const_assert_eq};

record! {
    /// The parameter block of a DEX index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        leaf_span: Le16 = "entries per leaf, 2..=512",
        value_bytes: Le32 = "inline value, 8..=1024",
        inner_span: Le16 = "separators per inner node, 2..=1024",
        cut: u8 = "how keys were cut into entries: 0 = boundaries were given, 1 = evenly, 2 = quantiles of a bulk load",
        reserved_11: u8 = "zero",
        entries: Le32 = "entries into which keys were cut, 1..=4096; boundaries that are given: at most",
        spare: Le32 = "entries more for which the ownership table has room, for cuts; 4096 in all at most",
        reserved_20: [u8; 4] = "zero",
        first: Le64 = "cut evenly: the first eight bytes of the least key, as a big-endian number",
        last: Le64 = "cut evenly: those of the greatest key",
        reserved_40: [u8; 24] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// Scratch for opening at least: a superblock, a row, or what makes a ring.
const OPEN_BYTES_MIN: usize = 512;
const_assert!(OPEN_BYTES_MIN >= Superblock::BYTES && OPEN_BYTES_MIN >= Row::BYTES && OPEN_BYTES_MIN >= MAKE_BYTES);

/// How keys are cut into entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// At boundaries that the creator gives.
    Given,
    /// Evenly, over keys whose first eight bytes are in `first..=last` as a big-endian number.
    Even {
        /// See above.
        first: u64,
        /// See above.
        last: u64,
    },
    /// At quantiles of the keys of a bulk load.
    Quantiles,
}

/// What is fixed when an index is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key slot, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// Entries per leaf, 2..=512.
    pub leaf_span: usize,
    /// Separators per inner node, 2..=1024.
    pub inner_span: usize,
    /// Entries into which keys are cut; boundaries that are given may be fewer.
    pub entries: u32,
    /// Entries more for which the ownership table has room: entries can be cut in two so often.
    pub spare: u32,
    /// How keys are cut into entries.
    pub cut: Cut,
}

/// Scratch ranges of a lane, besides the operation's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Those of any B+-tree.
    pub tree: TreeScratch,
    /// For appending to the log.
    pub log: Range<usize>,
    /// For opening: the ownership table.
    pub table: Range<usize>,
    /// For recovering an entry: torn pages, and lines of a ring. A lane does one of these and opening at a time.
    pub restore: Range<usize>,
    /// See above.
    pub lines: Range<usize>,
}

impl Parameters {
    /// The paper's node size, in bytes.
    pub const NODE_BYTES: usize = 1024;
    /// Leaves of long entries grow until they hold this many.
    const LEAF_SPAN_FLOOR: usize = 16;
    /// Entries by default: some for each of many owners.
    pub const ENTRIES: u32 = 64;
    /// Lines that one lane's flight may have: some records of common sizes, or the longest one.
    const FLIGHT_LINES: usize = if RECORD_LINES_MAX > 32 { RECORD_LINES_MAX } else { 32 };

    /// Nodes of 1 KB, or as large as it takes for 16 entries; 64 entries of equal width over all keys.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        let leaf = LeafShape::extended_with_bytes(key_bytes, value_bytes, Self::NODE_BYTES, LSN_BYTES);
        let inner = InnerShape::with_bytes(key_bytes, 0, Self::NODE_BYTES);
        let leaf_span = if leaf.span < Self::LEAF_SPAN_FLOOR { Self::LEAF_SPAN_FLOOR } else { leaf.span };
        let cut = Cut::Even { first: 0, last: u64::MAX };
        Self {
            key_bytes,
            value_bytes,
            leaf_span,
            inner_span: inner.span,
            entries: Self::ENTRIES,
            spare: Self::ENTRIES,
            cut,
        }
    }

    /// Shape of leaves.
    pub const fn leaf(&self) -> LeafShape {
        leaf::shape(self.key_bytes, self.value_bytes, self.leaf_span)
    }

    /// Shape of inner nodes.
    pub const fn inner(&self) -> InnerShape {
        InnerShape::with_span(self.key_bytes, 0, self.inner_span)
    }

    /// Shape of the ownership table.
    pub fn table_shape(&self) -> Result<TableShape, ParameterError> {
        Ok(TableShape::new(self.key_bytes, self.entries.saturating_add(self.spare))?)
    }

    /// Begins the table of index `index` in `image`, of [`TableShape::bytes`]: the caller goes on with [`TableWriter::given`],
    /// [`TableWriter::ranges`] or [`TableWriter::quantiles`].
    pub fn begin_table<'a>(
        &self,
        index: IndexNumber,
        pool_incarnation: u64,
        image: &'a mut [u8],
    ) -> Result<TableWriter<'a>, ParameterError> {
        Ok(TableWriter::start(self.table_shape()?, index, pool_incarnation, image)?)
    }

    /// The table of index `index`, if keys are cut evenly. Returns its entries. `None`: it needs boundaries, or keys.
    pub fn even_table(
        &self,
        index: IndexNumber,
        pool_incarnation: u64,
        image: &mut [u8],
    ) -> Result<Option<u32>, ParameterError> {
        let Cut::Even { first, last } = self.cut else { return Ok(None) };
        let writer = self.begin_table(index, pool_incarnation, image)?;
        Ok(Some(writer.even(self.entries, first, last)?))
    }
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Dex;
    const LOCKS_IN_LEAVES: bool = false;
    const HAS_LOG: bool = true;

    type Scratch = Scratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes, leaf_span, inner_span;
        encode |parameters, block| {
            block.entries = parameters.entries.into();
            block.spare = parameters.spare.into();
            match parameters.cut {
                Cut::Given => {}
                Cut::Even { first, last } => (block.cut, block.first, block.last) = (1, first.into(), last.into()),
                Cut::Quantiles => block.cut = 2,
            }
        }
        parse |block| {
            entries: block.entries.get(),
            spare: block.spare.get(),
            cut: match block.cut {
                1 => Cut::Even { first: block.first.get(), last: block.last.get() },
                2 => Cut::Quantiles,
                _ => Cut::Given,
            }
        }
    }

    fn check_choices(&self) -> Result<(), ParameterError> {
        check_limit("entries per leaf", self.leaf_span, SPAN_MIN, SPAN_MAX)?;
        check_limit("separators per inner node", self.inner_span, 2, INNER_SPAN_MAX)?;
        check_limit("entries of the ownership table", self.entries as usize, 1, ENTRIES_MAX as usize)?;
        let room = ENTRIES_MAX - self.entries;
        check_limit("spare entries of the ownership table", self.spare as usize, 0, room as usize)?;
        if let Cut::Even { first, last } = self.cut {
            if first > last {
                return Err(ParameterError::Boundaries { entry: 0, what: "the last key is below the first" });
            }
            let keys = u128::from(last - first) + 1;
            if keys < u128::from(self.entries) {
                return Err(
                    TableError::TooFewKeys { entries: self.entries, keys: keys as u64, entry: keys as u32 }.into()
                );
            }
        }
        Ok(())
    }

    chosen_spans! {}

    fn node_bytes(&self) -> (usize, usize) {
        (self.leaf().bytes, self.inner().bytes)
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leaf_span, inner_span, entries, .. } = self;
        write!(f, ", {leaf_span} entries a leaf, {inner_span} separators an inner node, {entries} ranges of keys")
    }

    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, Scratch) {
        let node_bytes = self.leaf().bytes.max(self.inner().bytes);
        let (mut plan, tree) =
            TreeScratch::plan(self.key_bytes, self.value_bytes, node_bytes, page_records, leaves_at_once);
        let log = plan.take(room_bytes(Self::FLIGHT_LINES));
        let table_bytes = self.table_shape().map_or(0, |shape| shape.bytes());
        let table = log.end..log.end + table_bytes.next_multiple_of(LINE_BYTES).max(OPEN_BYTES_MIN);
        let restore = log.end..log.end + restore::room_bytes(self.leaf().bytes).next_multiple_of(LINE_BYTES);
        let lines = restore.end..restore.end + LINES_BYTES_MIN.next_multiple_of(LINE_BYTES);
        plan.total_bytes = table.end.max(lines.end);
        (plan, Scratch { tree, log, table, restore, lines })
    }
}

impl From<TableError> for ParameterError {
    fn from(error: TableError) -> Self {
        let boundaries = |entry, what| Self::Boundaries { entry, what };
        match error {
            TableError::Entries { entries } => Self::Limit {
                what: "entries of the ownership table",
                found: entries as usize,
                least: 1,
                most: ENTRIES_MAX as usize,
            },
            TableError::KeyBytes { key_bytes, found } => {
                Self::Limit { what: "bytes of a boundary", found, least: key_bytes, most: key_bytes }
            }
            TableError::Overlap { entry } => boundaries(entry, "it overlaps another one: boundaries have to ascend"),
            TableError::Gap { entry } => boundaries(entry, "keys below it belong to no entry"),
            TableError::NoEnd { entry } => boundaries(entry, "keys behind it belong to no entry"),
            TableError::TooFewKeys { entry, .. } => boundaries(entry, "it would have no keys: there are too few"),
            TableError::Room { needed, room } => {
                Self::Small { what: "bytes for the ownership table", found: room, least: needed }
            }
            TableError::Corrupt(_) | TableError::Other | TableError::Version { .. } => Self::Unknown,
        }
    }
}

impl From<BadStore> for ParameterError {
    fn from(error: BadStore) -> Self {
        match error {
            BadStore::TooSmall { bytes_needed, words, .. } => {
                Self::Small { what: "bytes of the page cache", found: words * 4, least: bytes_needed }
            }
            BadStore::Fills { lanes, .. } => {
                Self::Limit { what: "lanes", found: lanes.into(), least: 1, most: u16::MAX.into() }
            }
            BadStore::PageBytes { page_bytes } => {
                Self::Limit { what: "bytes of a leaf", found: page_bytes, least: LINE_BYTES, most: 1 << 20 }
            }
        }
    }
}

impl From<RoomError> for ParameterError {
    fn from(error: RoomError) -> Self {
        match error {
            RoomError::Staging { words } => Self::Small {
                what: "lines of staging room for the log",
                found: words * 4 / LINE_BYTES,
                least: STAGING_LINES_MIN,
            },
            RoomError::Ring { ring_lines, staging_lines } => Self::Small {
                what: "lines of the log ring",
                found: ring_lines as usize,
                least: staging_lines as usize + 1,
            },
            RoomError::Marks { words, lanes } => Self::Small {
                what: "words for the marks of waiting lanes",
                found: words,
                least: 2 * lanes.div_ceil(32),
            },
        }
    }
}

impl From<RingError> for ParameterError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Size { chunks, chunk_bytes } => Self::Small {
                what: "lines of the log ring",
                found: (chunks as u64).saturating_mul(chunk_bytes) as usize / LINE_BYTES,
                least: RING_LINES_MIN as usize,
            },
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;
    use std::vec;

    const PARAMETERS: Parameters = Parameters::with_sizes(8, 8);

    #[test]
    fn parameters_are_read_back_and_nothing_else_is_read() {
        assert_eq!((PARAMETERS.leaf_span, PARAMETERS.leaf().bytes), (57, 1024), "the LSN costs no entry");
        for cut in [Cut::Given, Cut::Even { first: 5, last: 7_000 }, Cut::Quantiles] {
            let parameters = Parameters { cut, ..PARAMETERS };
            assert_eq!(Parameters::decode(1, &parameters.encode()), Ok(parameters));
        }
        for (at, byte) in [(10, 3), (11, 1), (60, 1)] {
            let mut block = PARAMETERS.encode();
            block[at] = byte;
            assert!(Parameters::decode(1, &block).is_err(), "byte {at}");
        }
        let given = Parameters { cut: Cut::Given, ..PARAMETERS };
        let mut block = given.encode();
        block[24] = 1;
        assert_eq!(Parameters::decode(1, &block), Err(ParameterError::Unknown), "a first key, and no even cut");
    }

    #[test]
    fn what_makes_no_index_is_an_error_that_says_so() {
        let says = |error: ParameterError, what: &str| {
            let text = error.to_string();
            assert!(text.contains(what), "{text}");
        };
        let check = |parameters: Parameters| parameters.check().unwrap_err();
        says(
            check(Parameters { entries: 0, ..PARAMETERS }),
            "entries of the ownership table 0: the index takes 1 to 4096",
        );
        says(
            check(Parameters { cut: Cut::Even { first: 9, last: 8 }, ..PARAMETERS }),
            "the last key is below the first",
        );
        says(
            check(Parameters { cut: Cut::Even { first: 9, last: 9 }, ..PARAMETERS }),
            "entry 1: it would have no keys",
        );
        says(check(Parameters { leaf_span: 1, ..PARAMETERS }), "entries per leaf 1");
        let mut image = vec![0; PARAMETERS.table_shape().unwrap().bytes()];
        let mut begin = || {
            let image = &mut *image;
            PARAMETERS.begin_table(IndexNumber::NONE, 3, image).map(|_| ())
        };
        assert_eq!(begin(), Ok(()));
        let key = |number: u64| number.to_be_bytes();
        let (zero, five, nine) = (key(0), key(5), key(9));
        for (ranges, what) in [
            ([(&zero, Some(&nine)), (&five, None)], "entry 1: it overlaps another one"),
            ([(&zero, Some(&five)), (&nine, None)], "entry 1: keys below it belong to no entry"),
            ([(&zero, Some(&five)), (&five, Some(&nine))], "entry 1: keys behind it belong to no entry"),
        ] {
            let writer = PARAMETERS.begin_table(IndexNumber::NONE, 3, &mut image).unwrap();
            let ranges = ranges.map(|(low, high)| (&low[..], high.map(|high| &high[..])));
            says(writer.ranges(ranges).unwrap_err().into(), what);
        }
        says(
            PARAMETERS.begin_table(IndexNumber::NONE, 3, &mut image[1..]).unwrap_err(),
            "bytes for the ownership table",
        );
    }
}
