//! What is fixed when an index with items is created, and how the catalog stores it.
//!
//! It is in the last eight bytes of the parameter block of the index below, which are zero without items. The catalog
//! entry has the feature [`FEATURE_ITEMS`](crate::remote::catalog::FEATURE_ITEMS), so that a program that knows nothing
//! of items does not take slots for values.

use super::block::{block_bytes, class_bytes, class_of};
use super::key::{ENTRY_KEY_BYTES_MIN, KeyShape};
use super::slot::{SLOT_BYTES_MIN, inline_bytes_max};
use crate::items::block::{KEY_BYTES_LIMIT, VALUE_BYTES_LIMIT};
use crate::layout::record::{Le16, Le32, record};
use crate::operation::{LENGTHS_BYTES, RECORD_HEADER_BYTES, ScratchPlan};
use crate::port::OUTBOX_REQUESTS;
use crate::registry::{KEY_BYTES_MAX, ParameterError, VALUE_BYTES_MAX, check_limit};
use crate::remote::SCRATCH_BYTES;
use crate::remote::catalog::PARAMETER_BYTES;
use core::ops::Range;
use static_assertions::const_assert_eq;
use zerocopy::IntoBytes;

record! {
    /// The last eight bytes of a parameter block.
    pub struct ItemsBlock {
        key_bytes_max: Le16 = "the longest key, 1..=4096",
        version: u8 = "2; 0 = keys and values of one size; 1 = links had no checksum",
        checksums: u8 = "1 = each value ends with a checksum, with items or without (FEATURE_CHECKSUMS); else 0",
        value_bytes_max: Le32 = "the longest value, 0..=65536",
    }
}
const_assert_eq!(ItemsBlock::BYTES, 8);

/// Where [`ItemsBlock`] is in a parameter block.
pub const BLOCK_AT: usize = PARAMETER_BYTES - ItemsBlock::BYTES;

/// Where the version is in an [`ItemsBlock`].
const VERSION_AT: usize = core::mem::offset_of!(ItemsBlock, version);

/// Where a parameter block says whether values end with checksums.
const CHECKSUMS_AT: usize = BLOCK_AT + core::mem::offset_of!(ItemsBlock, checksums);

/// Version of these eight bytes, and of the entries: since version 2, links have checksums.
const VERSION: u8 = 2;

/// What is fixed when an index with items is created, besides the parameters of the index below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The longest key, in bytes, 1..=4096.
    pub key_bytes_max: usize,
    /// The longest value, in bytes, 0..=65536.
    pub value_bytes_max: usize,
}

impl Parameters {
    /// Keys of up to 1 KiB, values of up to 4 KiB.
    pub const DEFAULT: Self = Self { key_bytes_max: 1024, value_bytes_max: 4096 };

    /// Checks every limit, for an index below with keys and values of these sizes.
    pub fn check(&self, entry_key_bytes: usize, slot_bytes: usize) -> Result<(), ParameterError> {
        check_limit("bytes of the longest key", self.key_bytes_max, 1, KEY_BYTES_LIMIT)?;
        check_limit("bytes of the longest value", self.value_bytes_max, 0, VALUE_BYTES_LIMIT)?;
        // A layer and a slice; a pointer.
        check_limit("bytes of a key slot", entry_key_bytes, ENTRY_KEY_BYTES_MIN, KEY_BYTES_MAX)?;
        check_limit("bytes of an inline slot", slot_bytes, SLOT_BYTES_MIN, VALUE_BYTES_MAX)
    }

    /// Writes them into the parameter block of the index below.
    pub fn encode_into(&self, block: &mut [u8; PARAMETER_BYTES]) {
        let mut record = ItemsBlock::ZERO;
        record.key_bytes_max = (self.key_bytes_max as u16).into();
        record.version = VERSION;
        record.value_bytes_max = (self.value_bytes_max as u32).into();
        if let Some(place) = block.get_mut(BLOCK_AT..) {
            place.copy_from_slice(record.as_bytes());
        }
    }

    /// Raises a parameter block of an earlier version to the present one. Only for a block from elsewhere than a catalog,
    /// such as that of a dump, which has items and no entries.
    pub fn raise_version(block: &mut [u8; PARAMETER_BYTES]) {
        if let Some(version @ 1..VERSION) = block.get_mut(BLOCK_AT + VERSION_AT) {
            *version = VERSION;
        }
    }

    /// Takes them out of a parameter block, and leaves the parameters of the index below. `None`: the index has no
    /// items.
    pub fn take_from(block: &mut [u8; PARAMETER_BYTES]) -> Result<Option<Self>, ParameterError> {
        let Some(place) = block.get_mut(BLOCK_AT..) else { return Ok(None) };
        let record = ItemsBlock::from_prefix(place).unwrap_or(ItemsBlock::ZERO);
        if record.version == 0 {
            return Ok(None);
        }
        if record.version != VERSION || record.checksums != 0 {
            return Err(ParameterError::ItemsVersion { found: record.version, supported: VERSION });
        }
        place.fill(0);
        Ok(Some(Self {
            key_bytes_max: record.key_bytes_max.get().into(),
            value_bytes_max: record.value_bytes_max.get() as usize,
        }))
    }

    /// Bytes of the place of the longest block.
    pub const fn longest_place_bytes(&self) -> usize {
        class_bytes(class_of(block_bytes(self.key_bytes_max, self.value_bytes_max)))
    }

    /// Lays out the scratch of a lane behind the scratch of the index below, with a page of at least `page_bytes`, or
    /// of one record of the largest size.
    pub fn plan(&self, below: &ScratchPlan, page_bytes: usize) -> (ScratchPlan, ItemsScratch) {
        let shape = KeyShape::new(below.key_bytes);
        // One byte more: the bound behind the longest key is this key and a zero byte.
        let key_bytes = (self.key_bytes_max, self.key_bytes_max + 1);
        let mut plan = ScratchPlan::behind(below.total_bytes, key_bytes, self.value_bytes_max);
        plan.lengths = plan.take(LENGTHS_BYTES);
        let record_bytes = RECORD_HEADER_BYTES + self.key_bytes_max + self.value_bytes_max;
        plan.page = plan.take(page_bytes.max(record_bytes));
        let scratch = ItemsScratch {
            entry_key: plan.take(below.key_bytes),
            path: plan.take(self.key_bytes_max),
            layers: plan.take(shape.depth_max(self.key_bytes_max) * 8),
            small: plan.take(SCRATCH_BYTES).start,
            // This range is last: what is copied out of a block goes in front of it.
            blocks: plan.take(self.longest_place_bytes().max(BLOCKS_BYTES_MIN)),
        };
        (plan, scratch)
    }

    /// Length of the longest value that an entry has inline.
    pub const fn inline_bytes_max(&self, slot_bytes: usize) -> usize {
        let fits = inline_bytes_max(slot_bytes);
        if fits < self.value_bytes_max { fits } else { self.value_bytes_max }
    }
}

/// Says in a parameter block that each value ends with a checksum
/// ([`FEATURE_CHECKSUMS`](crate::remote::catalog::FEATURE_CHECKSUMS)).
pub fn mark_checksums(block: &mut [u8; PARAMETER_BYTES]) {
    block[CHECKSUMS_AT] = 1;
}

/// Whether a parameter block says so: takes the mark out, and leaves a block of an index without checksums.
pub fn take_checksums(block: &mut [u8; PARAMETER_BYTES]) -> Result<bool, ParameterError> {
    match core::mem::take(&mut block[CHECKSUMS_AT]) {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ParameterError::Unknown),
    }
}

/// Smallest scratch range into which a scan READs blocks, in bytes.
const BLOCKS_BYTES_MIN: usize = 8 << 10;

/// Most blocks that a scan READs at once.
pub(super) const BLOCKS_AT_ONCE: usize = OUTBOX_REQUESTS;

/// Scratch ranges of items, besides those of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsScratch {
    /// The entry key at which a scan goes on.
    pub entry_key: Range<usize>,
    /// The slices on a scan's path.
    pub path: Range<usize>,
    /// The layers on a scan's path, eight bytes each.
    pub layers: Range<usize>,
    /// [`SCRATCH_BYTES`] for lines of the chunk table.
    pub small: usize,
    /// Images of blocks. All other ranges are in front of this one.
    pub blocks: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_gives_back_what_it_was_given() {
        let parameters = Parameters { key_bytes_max: 4096, value_bytes_max: 65536 };
        let mut block = [0; PARAMETER_BYTES];
        block[0] = 9;
        parameters.encode_into(&mut block);
        assert_eq!(Parameters::take_from(&mut block), Ok(Some(parameters)));
        assert_eq!((block[0], Parameters::take_from(&mut block)), (9, Ok(None)), "the rest is the index's below");
        for found in [1, 3] {
            parameters.encode_into(&mut block);
            block[BLOCK_AT + VERSION_AT] = found;
            let refused = Err(ParameterError::ItemsVersion { found, supported: VERSION });
            assert_eq!(Parameters::take_from(&mut block), refused);
            Parameters::raise_version(&mut block);
            let is_older = found < VERSION;
            assert_eq!(Parameters::take_from(&mut block), if is_older { Ok(Some(parameters)) } else { refused });
        }
        block = [0; PARAMETER_BYTES];
        Parameters::raise_version(&mut block);
        assert_eq!(Parameters::take_from(&mut block), Ok(None), "without items");
    }

    #[test]
    fn the_mark_of_checksums_comes_back_with_items_and_without() {
        for items in [None, Some(Parameters::DEFAULT)] {
            let mut block = [0; PARAMETER_BYTES];
            if let Some(items) = items {
                items.encode_into(&mut block);
            }
            assert_eq!(take_checksums(&mut block), Ok(false));
            mark_checksums(&mut block);
            assert_eq!(take_checksums(&mut block), Ok(true));
            assert_eq!((take_checksums(&mut block), Parameters::take_from(&mut block)), (Ok(false), Ok(items)));
            block[CHECKSUMS_AT] = 2;
            assert_eq!(take_checksums(&mut block), Err(ParameterError::Unknown));
        }
    }

    #[test]
    fn limits_are_told() {
        let refused = |parameters: Parameters, sizes: (usize, usize)| match parameters.check(sizes.0, sizes.1) {
            Err(ParameterError::Limit { what, found, .. }) => Some((what, found)),
            _ => None,
        };
        let good = Parameters::DEFAULT;
        assert_eq!(good.check(64, 16), Ok(()));
        assert_eq!(refused(good, (15, 16)), Some(("bytes of a key slot", 15)));
        assert_eq!(refused(good, (64, 15)), Some(("bytes of an inline slot", 15)));
        let (key, value) = ("bytes of the longest key", "bytes of the longest value");
        assert_eq!(refused(Parameters { key_bytes_max: 4097, ..good }, (64, 16)), Some((key, 4097)));
        assert_eq!(refused(Parameters { key_bytes_max: 0, ..good }, (64, 16)), Some((key, 0)));
        assert_eq!(refused(Parameters { value_bytes_max: 65537, ..good }, (64, 16)), Some((value, 65537)));
    }
}
