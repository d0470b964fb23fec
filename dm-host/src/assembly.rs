//! Puts an index together: allocates the storage that the core only borrows, and sizes its parts.
//!
//! An index borrows from its storage, so both live in one place. [`with_sherman`], [`with_chime`] and [`with_smart`]
//! build them on their stacks and pass the index to a closure. Whatever the closure starts - worker threads in a scope,
//! one operation - ends before it returns. A program that needs several indexes at once keeps [`Storage`]s of its own.

mod smart;

use crate::fabric::any::FabricError;
use dm_core::btree::descent::RootCopy;
use dm_core::btree::inner::InnerShape;
use dm_core::btree::{Options, Tree, TreeScratch};
use dm_core::chime::{Chime, LeafLocks, parameters as chime};
use dm_core::compute::batches::{BatchSlot, Batches, Bucket};
use dm_core::compute::cache::IndexCache;
use dm_core::compute::hotspot::{self, Hotspot};
use dm_core::compute::words::{self, WordTable};
use dm_core::index::Index;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::links::{Link, Links};
use dm_core::items::pool::{BlockPool, BlockSlab, FreeBlock};
use dm_core::items::{Items, LaneProgress, Site, parameters as items};
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::membership::redo::RedoError;
use dm_core::membership::{Recovery, RecoveryError};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::node_pool::{FreeNode, NodeLimbo, NodePool, NodeSlab, WaitingNode};
use dm_core::memory::{Collection, GENERATIONS, MarkBitmap, Participant, Plot, Share, mark_bitmap};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::place::NodeClass;
use dm_core::remote::row::Member;
use dm_core::sherman::{Sherman, parameters as sherman};
use dm_core::smart::parameters::ParameterError as SmartParameterError;
use dm_core::verbs::{Assumptions, Capabilities, Guarantees, NodeId};
#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapMut};
pub use smart::{SmartRoom, SmartStorage, with_smart};
use std::io;
use std::sync::atomic::AtomicU32;
use thiserror::Error;
use zerocopy::FromBytes;

/// What one compute node spends on one index, and how it runs the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Lanes of the compute node, over all workers.
    pub lanes: usize,
    /// Bytes for copies of inner nodes.
    pub cache_bytes: u64,
    /// Bytes that the scratch of all lanes may take.
    pub scratch_bytes_max: u64,
    /// Most records that a scan returns per call.
    pub page_records: usize,
    /// Leaves that a scan READs at once. A SMART scan READs four times as many, since a SMART leaf has one record.
    pub leaves_at_once: usize,
    /// Most handovers of a held lock in a row; 0 = none.
    pub hand_overs_max: u8,
    /// Local entries per memory node for locks that lie in leaves (CHIME, SMART), 20 bytes each. Leaves that share an
    /// entry wait for each other on this compute node.
    pub leaf_locks: usize,
    /// Bytes for the hotspot buffer, which keeps the places of popular keys (CHIME); 0 = every look-up in a leaf READs
    /// a neighborhood.
    pub hotspot_bytes: u64,
    /// Retired nodes that a free list keeps per memory node and allocation class, 16 bytes each; further ones wait
    /// until this compute node has departed. A chunk of a departed compute node is collected only if the free list has
    /// room for all nodes of the chunk.
    pub returned_nodes: usize,
    /// Generations of a node's place before they begin again and the place has to wait for epochs: [`GENERATIONS`], or
    /// fewer in a test that wants to see it happen ([`NodePool::with_quarantine`]).
    pub generations: u8,
    /// Keys and values of any length: bytes of a page, or of one record of the largest size if that is more.
    pub page_bytes: usize,
    /// Keys and values of any length: copies of links between layers, 80 bytes each.
    pub links: usize,
    /// Keys and values of any length: retired blocks that are remembered per memory node, 16 bytes each; further ones
    /// are lost until the pool is swept.
    pub returned_blocks: usize,
    /// Collected chunks that are kept at a time, of leaves and nodes (SMART) and of blocks
    /// ([`dm_core::memory::collect`]). Each takes one bit per 16 bytes of chunk.
    pub collected_chunks: usize,
    /// Techniques that can be switched off.
    pub options: Options,
}

impl Default for Spending {
    fn default() -> Self {
        Self {
            lanes: 1,
            cache_bytes: 64 << 20,
            scratch_bytes_max: 1 << 30,
            page_records: 128,
            leaves_at_once: 4,
            // Sherman section 4.3.
            hand_overs_max: 4,
            leaf_locks: 16 << 10,
            hotspot_bytes: 0,
            // More nodes than a chunk of 8 MiB has, except for the smallest nodes. With fewer, no chunk could be
            // collected.
            returned_nodes: 32 << 10,
            generations: GENERATIONS,
            page_bytes: 64 << 10,
            links: 16 << 10,
            returned_blocks: 64 << 10,
            collected_chunks: 16,
            options: Options::default(),
        }
    }
}

/// Where an index is, and which compute node opens it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'a [NodeGeometry],
    /// The index's number in the catalog.
    pub number: IndexNumber,
    /// This compute node: row and incarnation.
    pub member: Member,
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// What the fabric grants.
    pub guarantees: Guarantees,
    /// Makes the index's locks recoverable. `None`: the locks of a dead holder stay held.
    pub recovery: Option<&'a Recovery<'a>>,
    /// The index's part in the pool's epochs, with a pin for every lane. `None`: nothing waits for epochs here, and
    /// this compute node must not tell others that it has no old pointers.
    pub epochs: Option<Participant<'a>>,
}

/// Why an index could not be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// A Sherman index has parameters out of range.
    #[error(transparent)]
    Parameters(#[from] sherman::ParameterError),
    /// A CHIME index has parameters out of range.
    #[error(transparent)]
    ChimeParameters(#[from] chime::ParameterError),
    /// A SMART index has parameters out of range.
    #[error(transparent)]
    SmartParameters(#[from] SmartParameterError),
    /// Items have parameters out of range.
    #[error(transparent)]
    ItemParameters(#[from] items::ParameterError),
    /// The scratch of all lanes exceeds its budget.
    #[error(
        "{lanes} lanes x {lane_bytes} bytes of scratch = {} bytes, more than the budget of {budget_bytes}",
        *lanes as u64 * *lane_bytes as u64
    )]
    Scratch {
        /// Number of lanes.
        lanes: usize,
        /// Scratch of one lane, in bytes.
        lane_bytes: usize,
        /// The budget for all lanes, in bytes.
        budget_bytes: u64,
    },
    /// The fabric does not grant what the index needs to be correct.
    #[error("this fabric does not grant what the index needs: {}", names(*missing))]
    Missing {
        /// What is missing.
        missing: Assumptions,
    },
    /// A node does not fit a chunk of the pool.
    #[error("nodes of {node_bytes} bytes do not fit the pool's chunks of {chunk_bytes} bytes")]
    Chunk {
        /// The largest node.
        node_bytes: usize,
        /// The smallest chunk.
        chunk_bytes: u64,
    },
    /// Recovery was asked for, and is not available.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The pool has no room for redo records.
    #[error(transparent)]
    Redo(#[from] RedoError),
    /// A compute node numbers its redo records and lock words from its first index on, so it opens one index only.
    #[error("this compute node has opened an index already: join once more for another one")]
    Reopened,
    /// A fabric cannot be made.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The kernel has no memory for the index cache.
    #[error("an index cache of {cache_bytes} bytes: {reason}")]
    Memory {
        /// Bytes that were asked for.
        cache_bytes: u64,
        /// The kernel's reason.
        reason: String,
    },
    /// The pool has no memory node 0, or too many lanes are asked for.
    #[error("{0}")]
    Impossible(&'static str),
}

fn names(missing: Assumptions) -> String {
    missing.names().collect::<Vec<_>>().join(", ")
}

/// Builds a Sherman index with its storage and passes it to `run`.
pub fn with_sherman<R>(
    place: &Place<'_>,
    parameters: &sherman::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Sherman<'_>) -> R,
) -> Result<R, AssemblyError> {
    let mut storage = Storage::new(place, parameters, spending)?;
    let room = storage.furnish();
    Ok(run(&room.sherman(place, parameters, spending)?))
}

/// Builds a CHIME index with its storage and passes it to `run`.
pub fn with_chime<R>(
    place: &Place<'_>,
    parameters: &chime::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Chime<'_>) -> R,
) -> Result<R, AssemblyError> {
    let mut storage = Storage::for_chime(place, parameters, spending)?;
    let room = storage.furnish();
    Ok(run(&room.chime(place, parameters, spending)?))
}

/// Builds items over an index, with their storage, and passes them to `run`. `requests` are those of the index below.
pub fn with_items<I: Index, R>(
    place: &Place<'_>,
    below: &I,
    requests: &RequestIds,
    parameters: &items::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Items<'_, I>) -> R,
) -> Result<R, AssemblyError> {
    let mut storage = ItemsStorage::new(place, below, parameters, spending)?;
    let room = storage.furnish();
    Ok(run(&room.items(place, below, requests, parameters, spending)))
}

/// More local entries than a compute node has use for, and few enough for the numbers of locks.
const LEAF_LOCKS_MAX: usize = 1 << 24;

/// Sizes that follow from an index's parameters.
struct Sizes {
    key_bytes: usize,
    value_bytes: usize,
    inner: InnerShape,
    /// Bytes of a leaf's image, and of its place.
    leaf_bytes: usize,
    leaf_place_bytes: usize,
    /// Whether copies of inner nodes keep the next pointer.
    keeps_next: bool,
    /// Local entries per memory node for locks that lie in leaves.
    leaf_locks: usize,
    /// Bytes for the places of popular keys.
    hotspot_bytes: u64,
    scratch: TreeScratch,
    /// Scratch of one lane.
    lane_bytes: usize,
}

impl Sizes {
    fn sherman(parameters: &sherman::Parameters, spending: &Spending) -> Self {
        let (plan, scratch) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let leaf_bytes = parameters.leaf().bytes;
        Self {
            key_bytes: parameters.key_bytes,
            value_bytes: parameters.value_bytes,
            inner: parameters.inner(),
            leaf_bytes,
            leaf_place_bytes: leaf_bytes,
            keeps_next: false,
            leaf_locks: 0,
            hotspot_bytes: 0,
            scratch,
            lane_bytes: plan.total_bytes,
        }
    }

    fn chime(parameters: &chime::Parameters, spending: &Spending) -> Self {
        let (plan, scratch) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let leaf = parameters.leaf();
        Self {
            key_bytes: parameters.key_bytes,
            value_bytes: parameters.value_bytes,
            inner: parameters.inner(),
            leaf_bytes: leaf.bytes,
            leaf_place_bytes: leaf.place_bytes(),
            keeps_next: true,
            leaf_locks: spending.leaf_locks.clamp(1, LEAF_LOCKS_MAX),
            hotspot_bytes: spending.hotspot_bytes,
            scratch,
            lane_bytes: plan.total_bytes,
        }
    }

    /// Most children of an inner node, and how many a copy of one keeps.
    const fn children_max(&self) -> (usize, usize) {
        let children = self.inner.span + 1;
        (children, if self.keeps_next { children + 1 } else { children })
    }
}

fn lock_entries(count: usize) -> Vec<Entry> {
    (0..count).map(|_| Entry::default()).collect()
}

/// Refuses an index that needs what the fabric does not grant.
fn granted<I: Index>(place: &Place<'_>, index: I) -> Result<I, AssemblyError> {
    let missing = place.guarantees.missing(index.assumptions());
    if missing.is_empty() { Ok(index) } else { Err(AssemblyError::Missing { missing }) }
}

/// What one compute node's copy of an index borrows. A process that plays many compute nodes keeps one of these for
/// each:
///
/// ```text
/// let mut storages: Vec<Storage> = ...;
/// let rooms: Vec<Room<'_>> = storages.iter_mut().map(Storage::furnish).collect();
/// let indexes = rooms.iter().map(|room| room.sherman(...)).collect::<Result<Vec<_>, _>>()?;
/// ```
#[derive(Debug)]
pub struct Storage {
    entries: Vec<Entry>,
    waiters: Vec<Waiter>,
    leaf_entries: Vec<Entry>,
    leaf_waiters: Vec<Waiter>,
    leaf_words: Vec<words::Place>,
    hotspot: Vec<hotspot::Bucket>,
    returned: Vec<FreeNode>,
    waiting: Vec<WaitingNode>,
    returned_nodes: usize,
    shelf_count: usize,
    words: MmapMut,
    requests: RequestIds,
    locks_per_node: u32,
    buckets: [Vec<spin::Mutex<Bucket>>; 2],
    values: Vec<u8>,
    value_bytes: usize,
}

/// A [`Storage`], ready to be borrowed by an index.
#[derive(Debug)]
pub struct Room<'a> {
    entries: &'a [Entry],
    waiters: &'a [Waiter],
    leaf_entries: &'a [Entry],
    leaf_waiters: &'a [Waiter],
    leaf_words: &'a [words::Place],
    hotspot: &'a [hotspot::Bucket],
    slabs: Vec<spin::Mutex<NodeSlab<'a>>>,
    quarantine: spin::Mutex<NodeLimbo<'a>>,
    words: &'a [AtomicU32],
    requests: &'a RequestIds,
    locks_per_node: u32,
    buckets: [&'a [spin::Mutex<Bucket>]; 2],
    batch_slots: Vec<BatchSlot<'a>>,
}

impl Storage {
    /// Checks that the index can be put together at `place` and allocates what it needs there.
    pub fn new(
        place: &Place<'_>,
        parameters: &sherman::Parameters,
        spending: &Spending,
    ) -> Result<Self, AssemblyError> {
        parameters.check()?;
        Self::allocate(place, &Sizes::sherman(parameters, spending), spending)
    }

    /// As [`Storage::new`], for a CHIME.
    pub fn for_chime(
        place: &Place<'_>,
        parameters: &chime::Parameters,
        spending: &Spending,
    ) -> Result<Self, AssemblyError> {
        parameters.check()?;
        if place.geometry.iter().any(|node| node.region_bytes > chime::REGION_BYTES_MAX) {
            let what = "a memory node of more than 256 GiB: local queues could not tell leaves apart";
            return Err(AssemblyError::Impossible(what));
        }
        Self::allocate(place, &Sizes::chime(parameters, spending), spending)
    }

    fn allocate(place: &Place<'_>, sizes: &Sizes, spending: &Spending) -> Result<Self, AssemblyError> {
        if place.geometry.is_empty() {
            return Err(AssemblyError::Impossible("a pool without memory nodes"));
        }
        if spending.lanes >= usize::from(u16::MAX) {
            return Err(AssemblyError::Impossible("more than 65,534 lanes on one compute node"));
        }
        let node_bytes = sizes.leaf_place_bytes.max(sizes.inner.bytes);
        let chunk_bytes = place.geometry.iter().map(|node| node.chunk_bytes).min().unwrap_or(0);
        if node_bytes as u64 > chunk_bytes {
            return Err(AssemblyError::Chunk { node_bytes, chunk_bytes });
        }
        if let Some(recovery) = place.recovery {
            recovery.check(node_bytes, spending.lanes, place.geometry.len())?;
        }
        if spending.lanes as u64 * sizes.lane_bytes as u64 > spending.scratch_bytes_max {
            return Err(AssemblyError::Scratch {
                lanes: spending.lanes,
                lane_bytes: sizes.lane_bytes,
                budget_bytes: spending.scratch_bytes_max,
            });
        }

        let locks_per_node = place.geometry.iter().map(|node| node.lock_count).max().unwrap_or(1);
        let shelf_count = place.geometry.len() * NodeClass::COUNT;
        let words = IndexCache::words_for(spending.cache_bytes, sizes.key_bytes, sizes.children_max().1);
        let leaf_locks = place.geometry.len() * sizes.leaf_locks;
        let batch_slots = if spending.options.rdwc { spending.lanes } else { 0 };
        // Twice as many buckets as lanes, so that few keys meet in one by chance.
        let buckets = || (0..2 * batch_slots).map(|_| spin::Mutex::new(Bucket::default())).collect();
        Ok(Self {
            entries: lock_entries(place.geometry.len() * locks_per_node as usize),
            waiters: (0..spending.lanes).map(|_| Waiter::default()).collect(),
            leaf_entries: lock_entries(leaf_locks),
            leaf_waiters: (0..spending.lanes).map(|_| Waiter::default()).collect(),
            leaf_words: (0..leaf_locks).map(|_| words::Place::default()).collect(),
            hotspot: (0..Hotspot::buckets_for(sizes.hotspot_bytes)).map(|_| hotspot::Bucket::default()).collect(),
            returned: vec![FreeNode::default(); shelf_count * spending.returned_nodes],
            waiting: vec![WaitingNode::default(); if place.epochs.is_some() { spending.returned_nodes } else { 0 }],
            returned_nodes: spending.returned_nodes,
            shelf_count,
            words: huge_zeroes(words * size_of::<AtomicU32>()).map_err(|error| AssemblyError::Memory {
                cache_bytes: spending.cache_bytes,
                reason: error.to_string(),
            })?,
            requests: RequestIds::default(),
            locks_per_node,
            buckets: [buckets(), buckets()],
            values: vec![0; batch_slots * sizes.value_bytes],
            value_bytes: sizes.value_bytes,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    pub fn furnish(&mut self) -> Room<'_> {
        let Self {
            entries,
            waiters,
            leaf_entries,
            leaf_waiters,
            leaf_words,
            hotspot,
            returned,
            waiting,
            words,
            requests,
            buckets,
            values,
            ..
        } = self;
        let slabs = if self.returned_nodes == 0 {
            (0..self.shelf_count).map(|_| spin::Mutex::new(NodeSlab::new(&mut []))).collect()
        } else {
            returned.chunks_mut(self.returned_nodes).map(|returned| spin::Mutex::new(NodeSlab::new(returned))).collect()
        };
        // A mapping begins on a page, and its length was asked for in whole words. If it were not so, every look-up
        // would miss the cache.
        let words = <[AtomicU32]>::mut_from_bytes(words).map_or(&[][..], |words| words);
        let batch_slots = values.chunks_mut(self.value_bytes).map(BatchSlot::new).collect();
        let buckets = [&*buckets[0], &*buckets[1]];
        let locks_per_node = self.locks_per_node;
        Room {
            entries,
            waiters,
            leaf_entries,
            leaf_waiters,
            leaf_words,
            hotspot,
            slabs,
            quarantine: spin::Mutex::new(NodeLimbo::new(waiting)),
            words,
            requests,
            locks_per_node,
            buckets,
            batch_slots,
        }
    }
}

impl<'a> Room<'a> {
    /// The index. `place`, `parameters` and `spending` are those that the storage was made for.
    pub fn sherman(
        &'a self,
        place: &Place<'a>,
        parameters: &sherman::Parameters,
        spending: &Spending,
    ) -> Result<Sherman<'a>, AssemblyError> {
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let tree = self.tree(place, Sizes::sherman(parameters, spending), spending)?;
        granted(place, Sherman::new(tree, parameters, plan)?)
    }

    /// As [`Room::sherman`], of a storage made by [`Storage::for_chime`].
    pub fn chime(
        &'a self,
        place: &Place<'a>,
        parameters: &chime::Parameters,
        spending: &Spending,
    ) -> Result<Chime<'a>, AssemblyError> {
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let sizes = Sizes::chime(parameters, spending);
        let locks_per_node = sizes.leaf_locks as u32;
        let tree = self.tree(place, sizes, spending)?;
        let leaf_locks = LeafLocks {
            table: LockTable::new(self.leaf_entries, locks_per_node, self.leaf_waiters, spending.hand_overs_max),
            locks_per_node,
            words: WordTable::new(self.leaf_words),
        };
        let chime = Chime::new(tree, leaf_locks, parameters, plan)?;
        granted(place, chime.with_hotspot(Hotspot::new(self.hotspot)))
    }

    fn tree(&'a self, place: &Place<'a>, sizes: Sizes, spending: &Spending) -> Result<Tree<'a>, AssemblyError> {
        let home = place.geometry.first().ok_or(AssemblyError::Impossible("a pool without memory nodes"))?;
        let children_max = sizes.children_max().0;
        let cache = if sizes.keeps_next { IndexCache::with_next } else { IndexCache::new };
        let mut nodes = NodePool::new(&self.slabs, [sizes.leaf_place_bytes as u32, sizes.inner.bytes as u32]);
        if let Some(part) = place.epochs {
            nodes = nodes.with_quarantine(&self.quarantine, part.epochs, spending.generations);
        }
        Ok(Tree {
            number: place.number,
            index: place.number.get() + 1,
            owner: place.member,
            requests: self.requests,
            geometry: place.geometry,
            root_word: (NodeId(0), root_offset(home, place.number)),
            root: RootCopy::default(),
            inner: sizes.inner,
            leaf_bytes: sizes.leaf_bytes,
            capabilities: place.capabilities,
            options: spending.options,
            recovery: place.recovery,
            epochs: place.epochs,
            scratch: sizes.scratch,
            locks: LockTable::new(self.entries, self.locks_per_node, self.waiters, spending.hand_overs_max),
            batches: Batches::new(self.buckets[0], self.buckets[1], &self.batch_slots),
            nodes,
            cache: cache(self.words, sizes.key_bytes, children_max),
        })
    }
}

/// What one compute node's items borrow, as [`Storage`] is for an index.
#[derive(Debug)]
pub struct ItemsStorage {
    returned: Vec<FreeBlock>,
    returned_blocks: usize,
    memory_nodes: usize,
    lanes: Vec<LaneProgress>,
    links: Vec<spin::Mutex<Link>>,
    plots: Vec<Plot>,
    marks: Vec<u64>,
    eager: bool,
}

/// An [`ItemsStorage`], ready to be borrowed.
#[derive(Debug)]
pub struct ItemsRoom<'a> {
    slabs: Vec<spin::Mutex<BlockSlab<'a>>>,
    lanes: &'a [LaneProgress],
    links: &'a [spin::Mutex<Link>],
    collection: Collection<'a>,
}

impl ItemsStorage {
    /// Checks that items can be put over `below` at `place` and allocates what they need there.
    pub fn new(
        place: &Place<'_>,
        below: &impl Index,
        parameters: &items::Parameters,
        spending: &Spending,
    ) -> Result<Self, AssemblyError> {
        let (key_bytes, value_bytes) = (below.plan().key_bytes, below.plan().value_bytes);
        parameters.check(key_bytes, value_bytes)?;
        let node_bytes = class_bytes(class_of(block_bytes(parameters.key_bytes_max, parameters.value_bytes_max)));
        let chunk_bytes = place.geometry.iter().map(|node| node.chunk_bytes).min().unwrap_or(0);
        if node_bytes as u64 > chunk_bytes {
            return Err(AssemblyError::Chunk { node_bytes, chunk_bytes });
        }
        let lane_bytes = parameters.plan(below.plan(), spending.page_bytes).0.total_bytes;
        if spending.lanes as u64 * lane_bytes as u64 > spending.scratch_bytes_max {
            return Err(AssemblyError::Scratch {
                lanes: spending.lanes,
                lane_bytes,
                budget_bytes: spending.scratch_bytes_max,
            });
        }
        let memory_nodes = place.geometry.len();
        let chunk_bytes_max = place.geometry.iter().map(|node| node.chunk_bytes).max().unwrap_or(0);
        let plots = if place.epochs.is_some() { spending.collected_chunks } else { 0 };
        Ok(Self {
            plots: vec![Plot::default(); plots],
            marks: vec![0; plots * mark_bitmap::words_for(chunk_bytes_max)],
            eager: spending.generations != GENERATIONS,
            returned: vec![FreeBlock::default(); memory_nodes * spending.returned_blocks],
            returned_blocks: spending.returned_blocks,
            memory_nodes,
            lanes: (0..spending.lanes).map(|_| LaneProgress::default()).collect(),
            links: (0..spending.links).map(|_| spin::Mutex::new(Link::default())).collect(),
        })
    }

    /// Makes the room: what the items borrow of this storage.
    pub fn furnish(&mut self) -> ItemsRoom<'_> {
        let mut returned = self.returned.as_mut_slice();
        let slabs = (0..self.memory_nodes).map(|_| {
            let (first, rest) = std::mem::take(&mut returned).split_at_mut(self.returned_blocks);
            returned = rest;
            spin::Mutex::new(BlockSlab::new(first))
        });
        let mark_bitmap = MarkBitmap::new(&mut self.plots, &mut self.marks);
        ItemsRoom {
            slabs: slabs.collect(),
            lanes: &self.lanes,
            links: &self.links,
            collection: Collection::new(mark_bitmap, self.eager),
        }
    }
}

impl<'a> ItemsRoom<'a> {
    /// The items. The arguments are those that the storage was made for; `requests` are those of the index below.
    pub fn items<I: Index>(
        &'a self,
        place: &Place<'a>,
        below: &'a I,
        requests: &'a RequestIds,
        parameters: &items::Parameters,
        spending: &Spending,
    ) -> Items<'a, I> {
        let site = Site {
            geometry: place.geometry,
            number: place.number,
            owner: place.member,
            requests,
            epochs: place.epochs,
        };
        let plan = parameters.plan(below.plan(), spending.page_bytes);
        let blocks = match place.epochs {
            Some(part) => {
                let share = Share::new(&self.collection, part.epochs, place.geometry);
                BlockPool::new(&self.slabs).with_collection(share)
            }
            None => BlockPool::new(&self.slabs),
        };
        Items::new(below, site, self.lanes, *parameters, plan, blocks, Links::new(self.links))
    }
}

/// Zeroed memory that the kernel is asked to map with huge pages. An index cache is read at random, and with 4-KiB
/// pages many of those reads miss the TLB.
fn huge_zeroes(bytes: usize) -> io::Result<MmapMut> {
    // A mapping cannot be empty. A single word caches nothing either.
    let map = MmapMut::map_anon(bytes.max(size_of::<AtomicU32>()))?;
    #[cfg(target_os = "linux")]
    // A kernel without huge pages refuses; small pages work, too.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}
