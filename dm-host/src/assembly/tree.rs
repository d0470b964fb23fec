//! What B+-trees have in common: inner nodes, the tables of their locks, and the memory for both.

use super::{AssemblyError, LockQueues, Needs, Place, Spending, huge_zeroes};
use dm_core::btree::descent::RootCopy;
use dm_core::btree::inner::InnerShape;
use dm_core::btree::{Tree, TreeScratch};
use dm_core::compute::batches::{BatchSlot, Batches, Bucket};
use dm_core::compute::cache::IndexCache;
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::node_pool::{FreeNode, NodeLimbo, NodePool, NodeSlab, WaitingNode};
use dm_core::remote::catalog::root_offset;
use dm_core::remote::place::NodeClass;
use dm_core::verbs::NodeId;
use memmap2::MmapMut;
use std::sync::atomic::AtomicU32;
use zerocopy::FromBytes;

/// Sizes that follow from the parameters of a B+-tree.
pub(crate) struct Sizes {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) inner: InnerShape,
    /// Bytes of a leaf's image, and of its place.
    pub(crate) leaf_bytes: usize,
    pub(crate) leaf_place_bytes: usize,
    /// Whether copies of inner nodes keep the next pointer.
    pub(crate) keeps_next: bool,
    pub(crate) scratch: TreeScratch,
    /// Scratch of one lane.
    pub(crate) lane_bytes: usize,
}

impl Sizes {
    /// Most children of an inner node, and how many a copy of one keeps.
    const fn children_max(&self) -> (usize, usize) {
        let children = self.inner.span + 1;
        (children, if self.keeps_next { children + 1 } else { children })
    }
}

/// What one compute node's copy of a B+-tree borrows.
#[derive(Debug)]
pub(crate) struct TreeStorage {
    locks: LockQueues,
    returned: Vec<FreeNode>,
    waiting: Vec<WaitingNode>,
    returned_nodes: usize,
    slab_count: usize,
    words: MmapMut,
    requests: RequestIds,
    buckets: [Vec<spin::Mutex<Bucket>>; 2],
    values: Vec<u8>,
    value_bytes: usize,
}

/// A [`TreeStorage`], ready to be borrowed by a tree.
#[derive(Debug)]
pub(crate) struct TreeRoom<'a> {
    locks: &'a LockQueues,
    slabs: Vec<spin::Mutex<NodeSlab<'a>>>,
    limbo: spin::Mutex<NodeLimbo<'a>>,
    words: &'a [AtomicU32],
    requests: &'a RequestIds,
    buckets: [&'a [spin::Mutex<Bucket>]; 2],
    batch_slots: Vec<BatchSlot<'a>>,
}

impl TreeStorage {
    /// Checks that a tree of these sizes can be put together at `place` and allocates what it needs there.
    pub(crate) fn new(place: &Place<'_>, sizes: &Sizes, spending: &Spending) -> Result<Self, AssemblyError> {
        let node_bytes = sizes.leaf_place_bytes.max(sizes.inner.bytes);
        Needs { node_bytes, redo_bytes: node_bytes, lane_bytes: sizes.lane_bytes }.check(place, spending)?;
        let slab_count = place.geometry.len() * NodeClass::COUNT;
        let words = IndexCache::words_for(spending.cache_bytes, sizes.key_bytes, sizes.children_max().1);
        let batch_slots = if spending.options.rdwc { spending.lanes } else { 0 };
        // Twice as many buckets as lanes, so that few keys meet in one by chance.
        let buckets = || (0..2 * batch_slots).map(|_| spin::Mutex::new(Bucket::default())).collect();
        Ok(Self {
            locks: LockQueues::of_tables(place, spending),
            returned: vec![FreeNode::default(); slab_count * spending.returned_nodes],
            waiting: vec![WaitingNode::default(); if place.epochs.is_some() { spending.returned_nodes } else { 0 }],
            returned_nodes: spending.returned_nodes,
            slab_count,
            words: huge_zeroes(words * size_of::<AtomicU32>()).map_err(|error| AssemblyError::Memory {
                cache_bytes: spending.cache_bytes,
                reason: error.to_string(),
            })?,
            requests: RequestIds::default(),
            buckets: [buckets(), buckets()],
            values: vec![0; batch_slots * sizes.value_bytes],
            value_bytes: sizes.value_bytes,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    pub(crate) fn furnish(&mut self) -> TreeRoom<'_> {
        let Self { locks, returned, waiting, words, requests, buckets, values, .. } = self;
        let slabs = if self.returned_nodes == 0 {
            (0..self.slab_count).map(|_| spin::Mutex::new(NodeSlab::new(&mut []))).collect()
        } else {
            returned.chunks_mut(self.returned_nodes).map(|returned| spin::Mutex::new(NodeSlab::new(returned))).collect()
        };
        // A mapping begins on a page, and its length was asked for in whole words. If it were not so, every look-up
        // would miss the cache.
        let words = <[AtomicU32]>::mut_from_bytes(words).map_or(&[][..], |words| words);
        let batch_slots = values.chunks_mut(self.value_bytes).map(BatchSlot::new).collect();
        let buckets = [&*buckets[0], &*buckets[1]];
        TreeRoom {
            locks,
            slabs,
            limbo: spin::Mutex::new(NodeLimbo::new(waiting)),
            words,
            requests,
            buckets,
            batch_slots,
        }
    }
}

impl<'a> TreeRoom<'a> {
    /// The tree. `place`, `sizes` and `spending` are those that the storage was made for.
    pub(crate) fn tree(
        &'a self,
        place: &Place<'a>,
        sizes: &Sizes,
        spending: &Spending,
    ) -> Result<Tree<'a>, AssemblyError> {
        let home = place.geometry.first().ok_or(AssemblyError::Impossible("a pool without memory nodes"))?;
        let children_max = sizes.children_max().0;
        let cache = if sizes.keeps_next { IndexCache::with_next } else { IndexCache::new };
        let mut nodes = NodePool::new(&self.slabs, [sizes.leaf_place_bytes as u32, sizes.inner.bytes as u32]);
        if let Some(part) = place.epochs {
            nodes = nodes.with_limbo(&self.limbo, part.epochs, spending.generations);
        }
        Ok(Tree {
            number: place.number,
            index: place.number.in_nodes(),
            owner: place.member,
            requests: place.requests.unwrap_or(self.requests),
            geometry: place.geometry,
            root_word: (NodeId(0), root_offset(home, place.number)),
            root: RootCopy::default(),
            inner: sizes.inner,
            leaf_bytes: sizes.leaf_bytes,
            capabilities: place.capabilities,
            options: place.options(spending),
            recovery: place.recovery,
            epochs: place.epochs,
            scratch: sizes.scratch.clone(),
            locks: self.locks.table(),
            batches: Batches::new(self.buckets[0], self.buckets[1], &self.batch_slots),
            nodes,
            cache: cache(self.words, sizes.key_bytes, children_max),
        })
    }
}
