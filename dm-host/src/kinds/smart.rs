//! SMART indexes.

use super::{Evidence, Kind};
use crate::assembly::{AssemblyError, LEAF_LOCKS_MAX, Needs, Place, Spending, granted, huge_zeroes, lock_entries};
use dm_core::compute::batches::{BatchSlot, Batches, Bucket};
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::{CollectedChunk, Collection, GENERATIONS, MarkBitmap, Share, mark_bitmap};
use dm_core::radix::cache::NodeCache;
use dm_core::radix::pieces::{FreeExtent, FreeExtents, Queue, WaitingExtent};
use dm_core::radix::slot::{MEMORY_NODES_MAX, NODE_BYTES_MAX};
use dm_core::radix::space::{Arena, Space};
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;
use dm_core::remote::place::NodeClass;
use dm_core::smart::layout::LeafState;
use dm_core::smart::parameters::{Parameters, REGION_BYTES_MAX};
use dm_core::smart::{Parts, RETIRED_AT_ONCE_MAX, Smart};
use memmap2::MmapMut;
use std::sync::atomic::AtomicU32;
use zerocopy::FromBytes;

/// Places in the limbo list for each place that a free list may have ready on a memory node. When half of them are
/// taken, all copies of nodes are READ anew. The list has room for at least as many places as may leave the tree at
/// once; with less room those would wait for ever.
const WAITING: usize = 4;

impl Kind for Parameters {
    type Index<'s> = Smart<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Smart<'_>]),
    ) -> Result<(), AssemblyError> {
        let storages = places.iter().map(|place| Storage::new(place, self, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let rooms: Vec<_> = storages.iter_mut().map(Storage::furnish).collect();
        let indexes = rooms.iter().zip(places).map(|(room, place)| room.smart(place, self, spending));
        run(&indexes.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Smart<'_>) -> &'i RequestIds {
        index.requests()
    }

    fn evidence(&self, _: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let shape = self.leaf();
        let is_it = move |image: &[u8]| shape.state(image) == Ok(LeafState::Valid);
        let evidence = Evidence { bytes: self.node_bytes().0, is_it: Box::new(is_it), doubtful: true };
        (chunk == ChunkKind::Leaf).then_some(evidence)
    }
}

/// What one compute node's copy of a SMART index borrows.
#[derive(Debug)]
struct Storage {
    entries: Vec<Entry>,
    waiters: Vec<Waiter>,
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
struct Room<'a> {
    entries: &'a [Entry],
    waiters: &'a [Waiter],
    arenas: &'a [spin::Mutex<Arena>],
    free_lists: Vec<spin::Mutex<FreeExtents<'a>>>,
    queue: spin::Mutex<Queue<'a>>,
    collection: Collection<'a>,
    words: &'a [AtomicU32],
    requests: &'a RequestIds,
    buckets: [&'a [spin::Mutex<Bucket>]; 2],
    batch_slots: Vec<BatchSlot<'a>>,
}

impl Storage {
    /// Checks that the index can be put together at `place` and allocates what it needs there.
    fn new(place: &Place<'_>, parameters: &Parameters, spending: &Spending) -> Result<Self, AssemblyError> {
        parameters.check()?;
        if place.geometry.len() > MEMORY_NODES_MAX {
            return Err(AssemblyError::Impossible("a pool of more than 256 memory nodes: slots cannot name them"));
        }
        if place.geometry.iter().any(|node| node.region_bytes > REGION_BYTES_MAX) {
            let what = "a memory node of more than 64 GiB: local queues could not tell leaves apart";
            return Err(AssemblyError::Impossible(what));
        }
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let needs = Needs {
            node_bytes: NODE_BYTES_MAX.max(parameters.leaf().place_bytes),
            redo_bytes: parameters.leaf().write_bytes(),
            lane_bytes: plan.total_bytes,
        };
        needs.check(place, spending)?;
        let nodes = place.geometry.len();
        let chunk_bytes_max = place.geometry.iter().map(|node| node.chunk_bytes).max().unwrap_or(0);
        let collected_chunks = if place.epochs.is_some() { spending.collected_chunks } else { 0 };
        let words = NodeCache::words_for(spending.cache_bytes);
        let batch_slots = if spending.options.rdwc { spending.lanes } else { 0 };
        // Twice as many buckets as lanes, so that few keys meet in one by chance.
        let buckets = || (0..2 * batch_slots).map(|_| spin::Mutex::new(Bucket::default())).collect();
        Ok(Self {
            entries: lock_entries(nodes * Self::locks_per_node(spending)),
            waiters: (0..spending.lanes).map(|_| Waiter::default()).collect(),
            arenas: (0..nodes * NodeClass::COUNT).map(|_| spin::Mutex::new(Arena::default())).collect(),
            pieces: vec![
                FreeExtent::default();
                if place.epochs.is_some() { nodes * spending.returned_nodes } else { 0 }
            ],
            waiting: vec![
                WaitingExtent::default();
                if place.epochs.is_some() {
                    (WAITING * spending.returned_nodes).max(RETIRED_AT_ONCE_MAX)
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
            values: vec![0; batch_slots * parameters.value_bytes],
            value_bytes: parameters.value_bytes,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    fn furnish(&mut self) -> Room<'_> {
        let Self {
            entries,
            waiters,
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
            entries,
            waiters,
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

    fn locks_per_node(spending: &Spending) -> usize {
        spending.leaf_locks.clamp(1, LEAF_LOCKS_MAX)
    }
}

impl<'a> Room<'a> {
    /// The index. `place`, `parameters` and `spending` are those that the storage was made for.
    fn smart(
        &'a self,
        place: &Place<'a>,
        parameters: &Parameters,
        spending: &Spending,
    ) -> Result<Smart<'a>, AssemblyError> {
        let locks_per_node = Storage::locks_per_node(spending) as u32;
        let space = Space::new(self.arenas);
        let space =
            match place.epochs {
                Some(part) => space
                    .with_returns(&self.free_lists, &self.queue, part.epochs)
                    .with_collection(Share::new(&self.collection, part.epochs, place.geometry)),
                None => space,
            };
        let parts = Parts {
            number: place.number,
            owner: place.member,
            requests: self.requests,
            geometry: place.geometry,
            capabilities: place.capabilities,
            options: spending.options,
            locks: LockTable::new(self.entries, locks_per_node, self.waiters, spending.hand_overs_max),
            locks_per_node,
            batches: Batches::new(self.buckets[0], self.buckets[1], &self.batch_slots),
            space,
            cache: NodeCache::new(self.words),
            recovery: place.recovery,
            epochs: place.epochs,
        };
        let plan = parameters.plan(spending.page_records, spending.leaves_at_once);
        granted(place, Smart::new(parts, parameters, plan)?)
    }
}
