//! What a radix tree on one compute node borrows, whatever its leaves are: free memory, copies of nodes, batches.

use crate::assembly::{AssemblyError, Place, Spending, huge_zeroes};
use dm_core::compute::batches::{BatchSlot, Batches, Bucket};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::{CollectedChunk, Collection, GENERATIONS, MarkBitmap, Share, mark_bitmap};
use dm_core::radix::cache::NodeCache;
use dm_core::radix::pieces::{FreeExtent, FreeExtents, Queue, WaitingExtent};
use dm_core::radix::slot::MEMORY_NODES_MAX;
use dm_core::radix::space::{Arena, Space};
use dm_core::remote::place::NodeClass;
use memmap2::MmapMut;
use std::sync::atomic::AtomicU32;
use zerocopy::FromBytes;

/// Places in the limbo list for each place that a free list may have ready on a memory node. When half of them are
/// taken, all copies of nodes are READ anew. The list has room for at least as many places as may leave the tree at
/// once; with less room those would wait for ever.
const WAITING: usize = 4;

/// The storage of one compute node's copy.
#[derive(Debug)]
pub(super) struct Storage {
    arenas: Vec<spin::Mutex<Arena>>,
    pieces: Vec<FreeExtent>,
    waiting: Vec<WaitingExtent>,
    returned: usize,
    eager: bool,
    collected_chunks: Vec<CollectedChunk>,
    marks: Vec<u64>,
    words: MmapMut,
    requests: RequestIds,
    buckets: [Vec<spin::Mutex<Bucket>>; 2],
    values: Vec<u8>,
    value_bytes: usize,
}

/// A [`Storage`], ready to be borrowed by an index.
#[derive(Debug)]
pub(super) struct Room<'a> {
    arenas: &'a [spin::Mutex<Arena>],
    free_lists: Vec<spin::Mutex<FreeExtents<'a>>>,
    queue: spin::Mutex<Queue<'a>>,
    collection: Collection<'a>,
    words: &'a [AtomicU32],
    /// Numbers of the compute node's requests for chunks.
    pub requests: &'a RequestIds,
    buckets: [&'a [spin::Mutex<Bucket>]; 2],
    batch_slots: Vec<BatchSlot<'a>>,
}

impl Storage {
    /// Allocates what a tree at `place` needs. At most `retired_at_once` places leave it by one change.
    pub fn new(
        place: &Place<'_>,
        value_bytes: usize,
        retired_at_once: usize,
        spending: &Spending,
    ) -> Result<Self, AssemblyError> {
        if place.geometry.len() > MEMORY_NODES_MAX {
            return Err(AssemblyError::Impossible("a pool of more than 256 memory nodes: slots cannot name them"));
        }
        let nodes = place.geometry.len();
        let chunk_bytes_max = place.geometry.iter().map(|node| node.chunk_bytes).max().unwrap_or(0);
        let collected_chunks = if place.epochs.is_some() { spending.collected_chunks } else { 0 };
        let words = NodeCache::words_for(spending.cache_bytes);
        let batch_slots = if spending.options.rdwc { spending.lanes } else { 0 };
        // Twice as many buckets as lanes, so that few keys meet in one by chance.
        let buckets = || (0..2 * batch_slots).map(|_| spin::Mutex::new(Bucket::default())).collect();
        Ok(Self {
            arenas: (0..nodes * NodeClass::COUNT).map(|_| spin::Mutex::new(Arena::default())).collect(),
            pieces: vec![
                FreeExtent::default();
                if place.epochs.is_some() { nodes * spending.returned_nodes } else { 0 }
            ],
            waiting: vec![
                WaitingExtent::default();
                if place.epochs.is_some() {
                    (WAITING * spending.returned_nodes).max(retired_at_once)
                } else {
                    0
                }
            ],
            returned: spending.returned_nodes.max(1),
            eager: spending.generations != GENERATIONS,
            collected_chunks: vec![CollectedChunk::default(); collected_chunks],
            marks: vec![0; collected_chunks * mark_bitmap::words_for(chunk_bytes_max)],
            words: huge_zeroes(words * size_of::<AtomicU32>()).map_err(|error| AssemblyError::Memory {
                cache_bytes: spending.cache_bytes,
                reason: error.to_string(),
            })?,
            requests: RequestIds::default(),
            buckets: [buckets(), buckets()],
            values: vec![0; batch_slots * value_bytes],
            value_bytes,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    pub fn furnish(&mut self) -> Room<'_> {
        let Self {
            arenas,
            pieces,
            waiting,
            returned,
            eager,
            collected_chunks,
            marks,
            words,
            requests,
            buckets,
            values,
            value_bytes,
        } = self;
        Room {
            arenas,
            free_lists: pieces.chunks_mut(*returned).map(|pieces| spin::Mutex::new(FreeExtents::new(pieces))).collect(),
            queue: spin::Mutex::new(Queue::new(waiting, *eager)),
            collection: Collection::new(MarkBitmap::new(collected_chunks, marks), *eager),
            // A mapping begins on a page, and its length was asked for in whole words. If it were not so, every look-up
            // would miss the cache.
            words: <[AtomicU32]>::mut_from_bytes(words).map_or(&[][..], |words| words),
            requests,
            buckets: [&*buckets[0], &*buckets[1]],
            batch_slots: values.chunks_mut(*value_bytes).map(BatchSlot::new).collect(),
        }
    }
}

impl<'a> Room<'a> {
    /// Free memory of the tree at `place`, for which the storage was made.
    pub fn space(&'a self, place: &Place<'a>) -> Space<'a> {
        let space = Space::new(self.arenas);
        match place.epochs {
            Some(part) => space.with_returns(&self.free_lists, &self.queue, part.epochs).with_collection(Share::new(
                &self.collection,
                part.epochs,
                place.geometry,
            )),
            None => space,
        }
    }

    /// Operations of several lanes on one key.
    pub fn batches(&'a self) -> Batches<'a> {
        Batches::new(self.buckets[0], self.buckets[1], &self.batch_slots)
    }

    /// Copies of nodes.
    pub fn cache(&self) -> NodeCache<'a> {
        NodeCache::new(self.words)
    }
}
