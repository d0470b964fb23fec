//! Puts an index together: allocates the storage that the core only borrows, and gives the pieces their sizes.
//!
//! An index borrows from its storage, so both live in one place: [`with_sherman`] and [`with_chime`] build them on their
//! stacks and pass the index to a closure. What the closure starts - worker threads in a scope, one operation - ends before it returns.

use dm_core::btree::descent::RootCopy;
use dm_core::btree::inner::InnerShape;
use dm_core::btree::{Options, Tree, TreeScratch};
use dm_core::chime::{Chime, LeafLocks, parameters as chime};
use dm_core::compute::cache::IndexCache;
use dm_core::compute::locks::{Entry, LockTable, Waiter};
use dm_core::compute::nodes::{Fresh, NodeClass, NodePool, Shelf};
use dm_core::compute::words::{self, WordTable};
use dm_core::index::Index;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunks::RequestIds;
use dm_core::remote::rows::Member;
use dm_core::sherman::{Sherman, parameters as sherman};
use dm_core::verbs::{Assumptions, Capabilities, Guarantees, NodeId};
#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapMut;
use std::io;
use std::sync::atomic::AtomicU32;
use thiserror::Error;
use zerocopy::FromBytes;

/// What one compute node spends on one index, and how it runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Lanes of the compute node, all workers together.
    pub lanes: usize,
    /// Bytes for copies of inner nodes.
    pub cache_bytes: u64,
    /// Bytes the scratch of all lanes may take.
    pub scratch_bytes_max: u64,
    /// Records a scan returns at most per call.
    pub page_records: usize,
    /// Leaves a scan READs at once.
    pub leaves_at_once: usize,
    /// Hand-overs of a held lock in a row; 0 = none.
    pub hand_overs_max: u8,
    /// Local entries for locks that lie in leaves, per memory node (CHIME): leaves that share one wait for each other on this
    /// compute node. 20 bytes each.
    pub leaf_locks: usize,
    /// Retired nodes remembered per memory node and class; more are lost until the pool is swept.
    pub returned_nodes: usize,
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
            returned_nodes: 4096,
            options: Options::default(),
        }
    }
}

/// Where an index is and who opens it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'a [NodeGeometry],
    /// Its number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub member: Member,
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// What the fabric grants.
    pub guarantees: Guarantees,
}

/// Why an index could not be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// Parameters out of range, of a Sherman index.
    #[error(transparent)]
    Parameters(#[from] sherman::ParameterError),
    /// Parameters out of range, of a CHIME index.
    #[error(transparent)]
    ChimeParameters(#[from] chime::ParameterError),
    /// The lanes' scratch does not fit its budget.
    #[error(
        "{lanes} lanes x {lane_bytes} bytes of scratch = {} bytes, more than the budget of {budget_bytes}",
        *lanes as u64 * *lane_bytes as u64
    )]
    Scratch {
        /// Lanes.
        lanes: usize,
        /// Scratch of one.
        lane_bytes: usize,
        /// The budget.
        budget_bytes: u64,
    },
    /// The fabric does not grant what the index needs to be correct.
    #[error("this fabric does not grant what the index needs: {}", names(*missing))]
    Missing {
        /// What is missing.
        missing: Assumptions,
    },
    /// A technique was switched on that the fabric has no verb for.
    #[error("16-bit lock words need masked atomics, which this fabric does not have")]
    NoMaskedAtomics,
    /// A node does not fit a chunk of the pool.
    #[error("nodes of {node_bytes} bytes do not fit the pool's chunks of {chunk_bytes} bytes")]
    Chunk {
        /// The largest node.
        node_bytes: usize,
        /// The smallest chunk.
        chunk_bytes: u64,
    },
    /// The kernel has no memory for the index cache.
    #[error("an index cache of {cache_bytes} bytes: {reason}")]
    Memory {
        /// What was asked for.
        cache_bytes: u64,
        /// What the kernel said.
        reason: String,
    },
    /// The pool has no memory node 0, or too many lanes are asked for.
    #[error("{0}")]
    Impossible(&'static str),
}

fn names(missing: Assumptions) -> String {
    missing.names().collect::<Vec<_>>().join(", ")
}

/// Sizes that an index's parameters decide.
struct Sizes {
    key_bytes: usize,
    inner: InnerShape,
    /// The image of a leaf, and its place.
    leaf_bytes: usize,
    leaf_place_bytes: usize,
    /// Copies of inner nodes keep the next pointer.
    keeps_next: bool,
    /// Local entries per memory node for locks that lie in leaves.
    leaf_locks: usize,
    scratch: TreeScratch,
    /// Scratch of a lane.
    lane_bytes: usize,
}

/// Builds the part that B+-trees share, with its storage, and passes it to `run`.
fn with_tree<R>(
    place: &Place<'_>,
    sizes: Sizes,
    spending: &Spending,
    run: impl for<'s> FnOnce(Tree<'s>, LeafLocks<'s>) -> Result<R, AssemblyError>,
) -> Result<R, AssemblyError> {
    let home = place.geometry.first().ok_or(AssemblyError::Impossible("a pool without memory nodes"))?;
    if spending.lanes >= usize::from(u16::MAX) {
        return Err(AssemblyError::Impossible("more than 65,534 lanes on one compute node"));
    }
    if spending.options.narrow_locks && !place.capabilities.masked_atomics {
        return Err(AssemblyError::NoMaskedAtomics);
    }
    let node_bytes = sizes.leaf_place_bytes.max(sizes.inner.bytes);
    let chunk_bytes = place.geometry.iter().map(|node| node.chunk_bytes).min().unwrap_or(0);
    if node_bytes as u64 > chunk_bytes {
        return Err(AssemblyError::Chunk { node_bytes, chunk_bytes });
    }
    if spending.lanes as u64 * sizes.lane_bytes as u64 > spending.scratch_bytes_max {
        return Err(AssemblyError::Scratch {
            lanes: spending.lanes,
            lane_bytes: sizes.lane_bytes,
            budget_bytes: spending.scratch_bytes_max,
        });
    }

    let words_per_node = place.geometry.iter().map(|node| node.lock_count).max().unwrap_or(1);
    let locks_per_node = words_per_node * if spending.options.narrow_locks { 4 } else { 1 };
    let entries = lock_entries(place.geometry.len() * locks_per_node as usize);
    let leaf_entries = lock_entries(place.geometry.len() * sizes.leaf_locks);
    let leaf_words: Vec<_> = leaf_entries.iter().map(|_| words::Place::default()).collect();
    let waiters: Vec<_> = (0..spending.lanes).map(|_| Waiter::default()).collect();
    let leaf_waiters: Vec<_> = (0..spending.lanes).map(|_| Waiter::default()).collect();
    let shelf_count = place.geometry.len() * NodeClass::COUNT;
    let mut returned = vec![Fresh::default(); shelf_count * spending.returned_nodes];
    let shelves: Vec<_> = if spending.returned_nodes == 0 {
        (0..shelf_count).map(|_| spin::Mutex::new(Shelf::default())).collect()
    } else {
        returned.chunks_mut(spending.returned_nodes).map(|returned| spin::Mutex::new(Shelf::new(returned))).collect()
    };
    let children_max = sizes.inner.span + 1;
    let kept_max = children_max + usize::from(sizes.keeps_next);
    let words = IndexCache::words_for(spending.cache_bytes, sizes.key_bytes, kept_max);
    let mut storage = huge_zeroes(words * size_of::<AtomicU32>())
        .map_err(|error| AssemblyError::Memory { cache_bytes: spending.cache_bytes, reason: error.to_string() })?;
    let storage = <[AtomicU32]>::mut_from_bytes(&mut storage)
        .map_err(|_| AssemblyError::Impossible("an index cache that is not aligned"))?;
    let cache = if sizes.keeps_next { IndexCache::with_next } else { IndexCache::new };
    let requests = RequestIds::default();

    let tree = Tree {
        number: place.number,
        index: place.number.get() + 1,
        owner: place.member,
        requests: &requests,
        geometry: place.geometry,
        root_word: (NodeId(0), root_offset(home, place.number)),
        root: RootCopy::default(),
        inner: sizes.inner,
        leaf_bytes: sizes.leaf_bytes,
        capabilities: place.capabilities,
        options: spending.options,
        scratch: sizes.scratch,
        locks: LockTable::new(&entries, locks_per_node, &waiters, spending.hand_overs_max),
        nodes: NodePool::new(&shelves, [sizes.leaf_place_bytes as u32, sizes.inner.bytes as u32]),
        cache: cache(storage, sizes.key_bytes, children_max),
    };
    let leaf_locks = LeafLocks {
        table: LockTable::new(&leaf_entries, sizes.leaf_locks as u32, &leaf_waiters, spending.hand_overs_max),
        locks_per_node: sizes.leaf_locks as u32,
        words: WordTable::new(&leaf_words),
    };
    run(tree, leaf_locks)
}

/// More local entries than a compute node has use for; they fit the numbers of locks.
const LEAF_LOCKS_MAX: usize = 1 << 24;

fn lock_entries(count: usize) -> Vec<spin::Mutex<Entry>> {
    (0..count).map(|_| spin::Mutex::new(Entry::default())).collect()
}

/// Refuses an index that needs what the fabric does not grant.
fn granted(place: &Place<'_>, index: &impl Index) -> Result<(), AssemblyError> {
    let missing = place.guarantees.missing(index.assumptions());
    if missing.is_empty() { Ok(()) } else { Err(AssemblyError::Missing { missing }) }
}

/// Builds a Sherman index with its storage and passes it to `run`.
pub fn with_sherman<R>(
    place: &Place<'_>,
    parameters: &sherman::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Sherman<'_>) -> R,
) -> Result<R, AssemblyError> {
    parameters.check()?;
    let (plan, scratch) = parameters.plan(spending.page_records, spending.leaves_at_once);
    let sizes = Sizes {
        key_bytes: parameters.key_bytes,
        inner: parameters.inner(),
        leaf_bytes: parameters.leaf().bytes,
        leaf_place_bytes: parameters.leaf().bytes,
        keeps_next: false,
        leaf_locks: 0,
        scratch,
        lane_bytes: plan.total_bytes,
    };
    with_tree(place, sizes, spending, |tree, _| {
        let index = Sherman::new(tree, parameters, plan)?;
        granted(place, &index)?;
        Ok(run(&index))
    })
}

/// Builds a CHIME index with its storage and passes it to `run`.
pub fn with_chime<R>(
    place: &Place<'_>,
    parameters: &chime::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Chime<'_>) -> R,
) -> Result<R, AssemblyError> {
    parameters.check()?;
    if place.geometry.iter().any(|node| node.region_bytes > chime::REGION_BYTES_MAX) {
        return Err(AssemblyError::Impossible(
            "a memory node of more than 256 GiB: local queues could not tell leaves apart",
        ));
    }
    let (plan, scratch) = parameters.plan(spending.page_records, spending.leaves_at_once);
    let sizes = Sizes {
        key_bytes: parameters.key_bytes,
        inner: parameters.inner(),
        leaf_bytes: parameters.leaf().bytes,
        leaf_place_bytes: parameters.leaf().place_bytes(),
        keeps_next: true,
        leaf_locks: spending.leaf_locks.clamp(1, LEAF_LOCKS_MAX),
        scratch,
        lane_bytes: plan.total_bytes,
    };
    with_tree(place, sizes, spending, |tree, leaf_locks| {
        let index = Chime::new(tree, leaf_locks, parameters, plan)?;
        granted(place, &index)?;
        Ok(run(&index))
    })
}

/// Zeroed memory that the kernel is asked to map with huge pages: an index cache is read at random, and with 4-KiB pages
/// many of those reads miss the TLB.
fn huge_zeroes(bytes: usize) -> io::Result<MmapMut> {
    // No mapping is empty, and a single word is no cache either.
    let map = MmapMut::map_anon(bytes.max(size_of::<AtomicU32>()))?;
    #[cfg(target_os = "linux")]
    // A kernel without huge pages says no; small ones do.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}
