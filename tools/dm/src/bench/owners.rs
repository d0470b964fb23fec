//! Who draws which keys: of an index whose keys have owners, each compute node its own.
//!
//! The index says into how many parts it cuts the keys, and which part has a key ([`Index::parts`], [`Index::part_of`]).
//! Of P parts and n compute nodes, number i gets the parts p with `p * n / P == i`: neighbours, and as many as others, or
//! one more. It draws records of these parts only, and so takes these parts and no others. A compute node counts its own
//! inserts; all others share one counter. An index without owners has one counter for all lanes, and no share.
//!
//! A part may move during a run ([`Owners::give`]): from then on the compute node that has it draws its records.
//!
//! The keys of such an index can be shared out for comparison: into ranges of equal width, by their first eight bytes.

use super::key_source::KeySource;
use crate::failure::Failure;
use crate::report::text::counted;
use crate::workload::stream::{InsertCounter, Lane, Share, Workload};
use dm_core::index::Index;
use dm_core::registry::KEY_BYTES_MAX;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How the keys of an index are shared out, and which records each compute node has acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    /// The compute node that draws the records of each part. Empty: any compute node serves any key.
    of_parts: Arc<[AtomicU32]>,
    /// They are ranges of equal width, which the index knows nothing of.
    are_ranges: bool,
    compute_nodes: u32,
    /// Records below these are there, or are another compute node's: one number for each counter, or none yet.
    present: Vec<u64>,
}

impl Owners {
    /// Of an index that cuts its keys into so many parts.
    pub(super) fn new(parts: u32, compute_nodes: u32) -> Result<Self, Failure> {
        if parts > 0 && parts < compute_nodes {
            return Err(Failure::Usage(format!(
                "--compute-nodes {compute_nodes}: the index cuts its keys into {}, and each compute node has to own one at \
                 least",
                counted(parts, "part")
            )));
        }
        Ok(Self { of_parts: shared_out(parts, compute_nodes), are_ranges: false, compute_nodes, present: Vec::new() })
    }

    /// The same, but the last compute node gets no part.
    pub(super) fn without_last(parts: u32, compute_nodes: u32) -> Result<Self, Failure> {
        Ok(Self { compute_nodes, ..Self::new(parts, compute_nodes.saturating_sub(1).max(1))? })
    }

    /// A range for each compute node, of an index that serves any key anywhere.
    pub(super) fn of_ranges(compute_nodes: u32) -> Self {
        let of_parts = shared_out(compute_nodes, compute_nodes);
        Self { of_parts, are_ranges: true, compute_nodes, present: Vec::new() }
    }

    fn part_of(&self, index: &impl Index, key: &[u8]) -> u32 {
        if !self.are_ranges {
            return index.part_of(key);
        }
        let mut first = [0; 8];
        first.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
        ((u128::from(u64::from_be_bytes(first)) * self.of_parts.len() as u128) >> 64) as u32
    }

    /// Compute nodes that own keys: all, or none.
    pub(super) fn count(&self) -> u32 {
        if self.of_parts.is_empty() { 0 } else { self.compute_nodes }
    }

    /// Whether a compute node has to look whether a key is its own.
    pub(super) fn are_several(&self) -> bool {
        self.count() > 1
    }

    fn owner_of(&self, part: u32) -> u32 {
        self.of_parts.get(part as usize).map_or(0, |owner| owner.load(Ordering::Relaxed))
    }

    /// From now on the compute node draws the records of that part.
    pub(super) fn give(&self, part: u32, compute_node: u32) {
        if let Some(owner) = self.of_parts.get(part as usize) {
            owner.store(compute_node, Ordering::Relaxed);
        }
    }

    /// The parts of a compute node, from its first to its last.
    pub(super) fn parts_of(&self, compute_node: u32) -> Range<u32> {
        let mut parts = (0..self.of_parts.len() as u32).filter(|&part| self.owner_of(part) == compute_node);
        let Some(first) = parts.next() else { return 0..0 };
        first..parts.next_back().unwrap_or(first) + 1
    }

    /// Whether `key` is the compute node's, whose copy of the index `index` is.
    pub(super) fn owns(&self, compute_node: u32, index: &impl Index, key: &[u8]) -> bool {
        !self.are_several() || self.owner_of(self.part_of(index, key)) == compute_node
    }

    /// The same of the key of a record. A record without a key is everybody's, so that somebody finds that it has none.
    pub(super) fn owns_record(&self, compute_node: u32, index: &impl Index, keys: &KeySource, record: u64) -> bool {
        let mut room = [0; KEY_BYTES_MAX];
        let length = keys.write(record, &mut room);
        length.and_then(|length| room.get(..length)).is_none_or(|key| self.owns(compute_node, index, key))
    }

    /// The counters of a run on an index of `records` records: one for all lanes, or one for each owner.
    pub(super) fn begin(
        &mut self,
        index: &impl Index,
        keys: &KeySource,
        records: u64,
    ) -> Result<Vec<Arc<InsertCounter>>, Failure> {
        if !self.are_several() {
            self.present = vec![records];
        } else if self.present.is_empty() {
            self.check_all_have_some(index, keys, records)?;
            self.present = vec![records; self.compute_nodes as usize];
        }
        Ok(self.present.iter().map(|&present| Arc::new(InsertCounter::new(present))).collect())
    }

    /// Records that every compute node may draw, as far as they are its own.
    pub(super) fn present(&self) -> u64 {
        self.present.iter().copied().min().unwrap_or(0)
    }

    /// A run on an index of `records` records has ended. Returns how many there are now.
    pub(super) fn end(&mut self, counters: &[Arc<InsertCounter>], records: u64) -> u64 {
        self.present = counters.iter().map(|counter| counter.acknowledged()).collect();
        records + counters.iter().map(|counter| counter.inserted()).sum::<u64>()
    }

    /// The operations of all lanes, those of compute node 0 first. `owned` says of each compute node which records it owns.
    pub(super) fn streams<'k, O: Fn(u64) -> bool + Sync>(
        &self,
        workload: &Workload,
        lanes: u32,
        counters: &[Arc<InsertCounter>],
        owned: &'k [O],
    ) -> Vec<Lane<'k>> {
        let each = NonZeroU32::new(lanes / self.compute_nodes.max(1)).unwrap_or(NonZeroU32::MIN);
        let stream = |lane: u32| {
            let node = (lane / each) as usize;
            let counter = counters.get(node).unwrap_or(&counters[0]);
            let share = owned.get(node).filter(|_| self.are_several()).map(|owns| Share { lanes: each, owns });
            workload.lane_of(lane, Arc::clone(counter), share)
        };
        (0..lanes).map(stream).collect()
    }

    /// Every compute node that has parts owns a record at least, or it would draw for ever.
    fn check_all_have_some(&self, index: &impl Index, keys: &KeySource, records: u64) -> Result<(), Failure> {
        let mut missing: Vec<u32> = (0..self.compute_nodes).filter(|&node| !self.parts_of(node).is_empty()).collect();
        for record in 0..records {
            missing.retain(|&compute_node| !self.owns_record(compute_node, index, keys, record));
            if missing.is_empty() {
                return Ok(());
            }
        }
        Err(Failure::Usage(format!(
            "--compute-nodes {}: the index cuts its keys into {} of equal width, and {} own none of the {}: take keys that \
             are spread over all of them (-p insertorder=hashed), more records, or fewer compute nodes",
            self.compute_nodes,
            counted(self.of_parts.len() as u64, "part"),
            counted(missing.len() as u64, "compute node"),
            counted(records, "record"),
        )))
    }
}

/// Part by part, which of so many compute nodes gets it.
fn shared_out(parts: u32, compute_nodes: u32) -> Arc<[AtomicU32]> {
    let owner = |part| (u64::from(part) * u64::from(compute_nodes) / u64::from(parts)) as u32;
    (0..parts).map(|part| AtomicU32::new(owner(part))).collect()
}

/// Of each compute node, which records it owns. It asks its own copy of the index.
pub(super) fn shares<'a, I: Index>(
    owners: &'a Owners,
    indexes: &'a [I],
    keys: &'a KeySource,
) -> Vec<impl Fn(u64) -> bool + Sync + use<'a, I>> {
    let owns = |(number, index)| move |record| owners.owns_record(number, index, keys, record);
    (0..).zip(indexes).map(owns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compute_node_gets_neighbouring_parts_and_as_many_as_others_or_one_more() {
        for (parts, nodes) in [(64, 1), (64, 4), (64, 64), (64, 3), (7, 5), (4096, 127)] {
            let owners = Owners::new(parts, nodes).unwrap();
            let of_parts: Vec<u32> = (0..parts).map(|part| owners.owner_of(part)).collect();
            assert!(of_parts.is_sorted(), "{of_parts:?}");
            let count = |node| of_parts.iter().filter(|&&of| of == node).count() as u32;
            assert!(
                (0..nodes).all(|node| [parts / nodes, parts.div_ceil(nodes)].contains(&count(node))),
                "{of_parts:?}"
            );
            assert_eq!((owners.count(), owners.are_several()), (nodes, nodes > 1));
        }
    }

    #[test]
    fn a_part_that_is_given_to_the_last_compute_node_is_its_only_one() {
        let owners = Owners::without_last(64, 4).unwrap();
        assert_eq!((owners.count(), owners.are_several()), (4, true));
        assert_eq!([0, 1, 2, 3].map(|node| owners.parts_of(node)), [0..22, 22..43, 43..64, 0..0]);
        owners.clone().give(63, 3);
        assert_eq!([2, 3].map(|node| owners.parts_of(node)), [43..63, 63..64]);
        assert!(Owners::without_last(2, 4).is_err());
        assert_eq!(Owners::without_last(1, 2).unwrap().parts_of(0), 0..1);
    }

    #[test]
    fn a_compute_node_without_a_part_is_refused_and_none_owns_keys_of_an_index_without_parts() {
        let error = Owners::new(4, 5).unwrap_err().to_string();
        assert!(error.contains("--compute-nodes 5") && error.contains("4 parts"), "{error}");
        let owners = Owners::new(0, 100).unwrap();
        assert_eq!((owners.count(), owners.are_several()), (0, false));
    }
}
