//! Where the keys of a run come from.

use super::Arguments;
use super::runs::Run;
use crate::failure::Failure;
use crate::keys::{BadKeys, RealKeys};
use crate::workload::keys::{KeyOrder, Keys};
use crate::workload::random::mix;
use dm_core::items::block::{KEY_BYTES_LIMIT, block_bytes, class_bytes, class_of};
use dm_core::operation::{Part, ScratchPlan};

/// Where keys come from.
#[derive(Debug)]
pub enum KeySource {
    /// Made from record numbers.
    Made(Keys),
    /// Read from a file.
    Real(RealKeys),
}

impl KeySource {
    /// Writes the key of `record` into `room` and says how long it is; `None`: there is no such record.
    #[inline]
    pub fn write(&self, record: u64, room: &mut [u8]) -> Option<usize> {
        match self {
            Self::Made(keys) => {
                keys.write(record, room.get_mut(..keys.bytes())?);
                Some(keys.bytes())
            }
            Self::Real(keys) => keys.write(record, room),
        }
    }

    /// Writes the key of `record` where an operation looks for it; `false`: there is no such record.
    #[inline]
    pub fn put(&self, record: u64, scratch: &mut [u8], plan: &ScratchPlan) -> bool {
        let length = scratch.get_mut(plan.key.clone()).and_then(|room| self.write(record, room));
        length.is_some_and(|length| plan.set_length(scratch, Part::Key, length))
    }

    /// The number by which values recognise the record of `slot`: with made keys the record's own.
    #[inline]
    pub fn identity(&self, record: u64, slot: &[u8]) -> u64 {
        match self {
            Self::Made(_) => record,
            Self::Real(_) => identity_of(slot),
        }
    }

    /// The same for a key that a scan found; `None`: no record has such a key.
    #[inline]
    pub fn identity_found(&self, slot: &[u8]) -> Option<u64> {
        match self {
            Self::Made(keys) => keys.record_of(slot),
            Self::Real(keys) if keys.slot_bytes().is_none() => Some(identity_of(slot)),
            Self::Real(_) => crate::keys::decode(slot).map(|_| identity_of(slot)),
        }
    }

    /// Keys there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Made(_) => u64::MAX,
            Self::Real(keys) => keys.len() as u64,
        }
    }
}

fn identity_of(slot: &[u8]) -> u64 {
    slot.chunks(8).fold(0, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word)).wrapping_add(1)
    })
}

pub(super) fn key_source(
    arguments: &Arguments,
    runs: &[Run],
    value_bytes: usize,
    notices: &mut Vec<String>,
) -> Result<KeySource, Failure> {
    let Some(path) = &arguments.keys else {
        let order = runs.first().map_or(KeyOrder::Hashed, |run| run.spec.insert_order);
        return Ok(KeySource::Made(Keys::new(order, arguments.key_bytes).map_err(Failure::usage)?));
    };
    let bad = if arguments.skip_bad_keys { BadKeys::Skip } else { BadKeys::Refuse };
    let slot_bytes = (!arguments.any_length).then_some(arguments.key_bytes);
    let keys = RealKeys::read(path, slot_bytes, bad).map_err(Failure::run)?;
    if keys.is_empty() {
        return Err(Failure::Run(format!("{}: no keys in it", path.display())));
    }
    let skipped = keys.skipped();
    notices.push(format!(
        "{}: {} keys; left out: {} that came twice, {} longer than {} bytes",
        path.display(),
        keys.len(),
        skipped.duplicate,
        skipped.too_long,
        slot_bytes.map_or(KEY_BYTES_LIMIT, |bytes| bytes - 1)
    ));
    if arguments.any_length {
        notices.push(format!("keys of {} bytes on the average, {} at most", keys.mean_bytes(), keys.longest()));
        let blocks = (0..keys.len() as u64).filter_map(|record| keys.key(record)).map(|key| {
            let bytes = block_bytes(key.len(), value_bytes);
            (bytes as u64, class_bytes(class_of(bytes)) as u64)
        });
        let (used, taken) = blocks.fold((0, 0), |(used, taken), (bytes, place)| (used + bytes, taken + place));
        notices.push(format!(
            "a block for each would waste {:.1} % of its place to size classes",
            (taken - used) as f64 * 100.0 / taken.max(1) as f64
        ));
    }
    Ok(KeySource::Real(keys))
}
