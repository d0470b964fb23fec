//! Puts an index together: allocates the storage that the core only borrows, and sizes its parts.
//!
//! An index borrows from its storage, so both live in one place: [`with_index`](crate::kinds::with_index) and
//! [`Kind::with`](crate::kinds::Kind::with) build them on their stacks and pass the index to a closure. Whatever the
//! closure starts - worker threads in a scope, one operation - ends before it returns. This file has what all kinds
//! need, `tree` what B+-trees have in common, `items` what lies over an index; the rest is in the file of each
//! [kind](crate::kinds).

mod items;
pub(crate) mod tree;

use crate::fabric::any::FabricError;
use crate::kinds::parameters::IndexParameterError;
use dm_core::btree::Options;
use dm_core::index::Index;
use dm_core::index::catalog::CatalogError;
use dm_core::index::forward::caller::GivenUp;
use dm_core::items::layer::LayerNumbers;
use dm_core::locks::ChainedRead;
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::membership::redo::RedoError;
use dm_core::membership::{Recovery, RecoveryError};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::{GENERATIONS, Participant};
/// When gets have a memory node's processor look for their keys.
pub use dm_core::offload::Mode;
/// What an answer means.
pub use dm_core::operation::Level;
use dm_core::pages::{Admission, Cooling};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::row::Member;
use dm_core::verbs::{Assumptions, Capabilities, Guarantees};
pub use items::with_items;
#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapMut};
use std::io;
use std::sync::atomic::AtomicU32;
use thiserror::Error;

/// What one compute node spends on one index, and how it runs the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Lanes of the compute node up to the last one of this index, over all workers.
    pub lanes: usize,
    /// The first lane of this index: those before are of other indexes that the compute node has open.
    pub first_lane: usize,
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
    /// fewer in a test that wants to see it happen ([`NodePool::with_limbo`](dm_core::memory::node_pool::NodePool::with_limbo)).
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
    /// Bytes for copies of leaves that a compute node owns (DEX).
    pub page_cache_bytes: u64,
    /// Which leaves get a place there.
    pub admission: Admission,
    /// How leaves leave that place (DEX).
    pub cooling: Cooling,
    /// Lines of 64 bytes that the log of a compute node has at least (DEX), or as many as an eighth of a memory node has room
    /// for. A quarter as many, and at most 8192, are kept in this process. A change of a leaf that is dirty already makes no
    /// flush, so a log should have several lines for each leaf that the page cache has room for.
    pub log_lines: usize,
    /// What an answer means, unless a lane says otherwise (DEX).
    pub level: Level,
    /// When gets of a DEX index have a memory node's processor look for their keys.
    pub offload: Mode,
    /// Techniques that can be switched off.
    pub options: Options,
}

impl Default for Spending {
    fn default() -> Self {
        Self {
            lanes: 1,
            first_lane: 0,
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
            page_cache_bytes: 64 << 20,
            admission: Admission::PUBLISHED,
            cooling: Cooling::Map,
            log_lines: 256 << 10,
            level: Level::default(),
            offload: Mode::default(),
            options: Options::default(),
        }
    }
}

impl Spending {
    /// Lanes that run operations of this index.
    pub(crate) const fn own_lanes(&self) -> usize {
        self.lanes.saturating_sub(self.first_lane)
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
    /// Numbers of the compute node's requests for chunks. `None`: the index numbers them itself, since the compute node opens
    /// nothing else.
    pub requests: Option<&'a RequestIds>,
    /// Counts the layers that the compute node makes in indexes with keys of any length. `None`: the index counts them itself,
    /// since the compute node opens it only once.
    pub layers: Option<&'a LayerNumbers>,
    /// How often the compute node has given up calls to others. `None`: the index counts that itself, since the compute node opens
    /// it only once.
    pub given_up: Option<&'a GivenUp>,
    /// The first sequence of its lock words, without recovery.
    pub first_sequence: u64,
    /// The index's part in the pool's epochs, with a pin for every lane. `None`: nothing waits for epochs here, and
    /// this compute node must not tell others that it has no old pointers.
    pub epochs: Option<Participant<'a>>,
}

impl Place<'_> {
    /// The techniques of an index here: as `spending` has them. Held locks are freed as far as the fabric grants what that takes,
    /// and READs follow quiet locks only if it grants that.
    pub(crate) fn options(&self, spending: &Spending) -> Options {
        let Options { unlock, chain_lock_read, .. } = spending.options;
        let chains = self.guarantees.missing(Assumptions::ATOMIC_THEN_READ).is_empty();
        let chain_lock_read = match chain_lock_read {
            ChainedRead::WhereQuiet if !chains => ChainedRead::Never,
            chained => chained,
        };
        Options { unlock: unlock.granted(&self.guarantees), chain_lock_read, ..spending.options }
    }
}

/// Why an index could not be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// Parameters out of range.
    #[error(transparent)]
    Parameters(#[from] IndexParameterError),
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
    /// Keys and values of any length would have owners that acknowledge what only their memory has.
    #[error(
        "keys of any length need answers that a death cannot take back: of level \"log\" or \"pool\", not \"cache\", since \
         the place of a replaced value is used again"
    )]
    Level,
    /// Recovery was asked for, and is not available.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The pool has no room for redo records.
    #[error(transparent)]
    Redo(#[from] RedoError),
    /// The index serves compute nodes of the first rows only, and this one has a row behind these.
    #[error("row {row}: the index serves compute nodes of rows 1 to {last} only; let one of these leave first")]
    Row {
        /// The row of this compute node.
        row: u16,
        /// The last row that the index serves.
        last: u16,
    },
    /// Two indexes of a compute node would have the same lanes.
    #[error(
        "lanes {first} to {last} of this compute node belong to an index that it has open: join once more for another one"
    )]
    LanesTaken {
        /// The first lane that was asked for.
        first: usize,
        /// The last one.
        last: usize,
    },
    /// The compute node has the index open.
    #[error("this compute node has index \"{name}\" open already: use that session, or a clone of it")]
    AlreadyOpen {
        /// Its name.
        name: String,
    },
    /// A row names one log.
    #[error(
        "index \"{name}\" has a log, and this compute node has had one already, which its row names: join once more for this index"
    )]
    SecondLog {
        /// Its name.
        name: String,
    },
    /// The index was dropped before it was open.
    #[error("index \"{name}\" was dropped, or its name changed hands")]
    Dropped {
        /// Its name.
        name: String,
    },
    /// The catalog cannot be read.
    #[error(transparent)]
    Catalog(CatalogError),
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

/// What an index of any kind asks of the place where it is opened, in bytes.
#[expect(clippy::struct_field_names, reason = "a unit is the last word of a name")]
pub(crate) struct Needs {
    /// The largest node: it has to fit a chunk.
    pub(crate) node_bytes: usize,
    /// The largest redo record.
    pub(crate) redo_bytes: usize,
    /// Scratch of one lane.
    pub(crate) lane_bytes: usize,
}

impl Needs {
    /// Checks that an index can be put together at `place`.
    pub(crate) fn check(&self, place: &Place<'_>, spending: &Spending) -> Result<(), AssemblyError> {
        let Self { node_bytes, redo_bytes, lane_bytes } = *self;
        if place.geometry.is_empty() {
            return Err(AssemblyError::Impossible("a pool without memory nodes"));
        }
        if spending.lanes >= usize::from(u16::MAX) {
            return Err(AssemblyError::Impossible("more than 65,534 lanes on one compute node"));
        }
        let chunk_bytes = place.geometry.iter().map(|node| node.chunk_bytes).min().unwrap_or(0);
        if node_bytes as u64 > chunk_bytes {
            return Err(AssemblyError::Chunk { node_bytes, chunk_bytes });
        }
        if let Some(recovery) = place.recovery {
            recovery.check(redo_bytes, spending.lanes, place.geometry.len())?;
        }
        if spending.own_lanes() as u64 * lane_bytes as u64 > spending.scratch_bytes_max {
            let budget_bytes = spending.scratch_bytes_max;
            return Err(AssemblyError::Scratch { lanes: spending.own_lanes(), lane_bytes, budget_bytes });
        }
        Ok(())
    }
}

/// The local queues of one compute node for locks of one sort.
#[derive(Debug)]
pub(crate) struct LockQueues {
    entries: Vec<Entry>,
    /// Entries per memory node.
    pub(crate) per_node: u32,
    waiters: Vec<Waiter>,
    hand_overs_max: u8,
    first_sequence: u64,
}

impl LockQueues {
    /// For locks in the tables of memory nodes: an entry for each.
    pub(crate) fn of_tables(place: &Place<'_>, spending: &Spending) -> Self {
        Self::new(place, spending, place.geometry.iter().map(|node| node.lock_count).max().unwrap_or(1))
    }

    /// For locks in leaves.
    pub(crate) fn of_leaves(place: &Place<'_>, spending: &Spending) -> Self {
        Self::new(place, spending, spending.leaf_locks.clamp(1, LEAF_LOCKS_MAX) as u32)
    }

    fn new(place: &Place<'_>, spending: &Spending, per_node: u32) -> Self {
        Self {
            entries: (0..place.geometry.len() * per_node as usize).map(|_| Entry::default()).collect(),
            per_node,
            waiters: (0..spending.lanes).map(|_| Waiter::default()).collect(),
            hand_overs_max: spending.hand_overs_max,
            first_sequence: place.first_sequence,
        }
    }

    /// What an index borrows of them.
    pub(crate) fn table(&self) -> LockTable<'_> {
        LockTable::new(&self.entries, self.per_node, &self.waiters, self.hand_overs_max)
            .starting_at(self.first_sequence)
    }
}

fn names(missing: Assumptions) -> String {
    missing.names().collect::<Vec<_>>().join(", ")
}

/// More local entries than a compute node has use for, and few enough for the numbers of locks.
pub(crate) const LEAF_LOCKS_MAX: usize = 1 << 24;

/// Refuses an index that needs what the fabric does not grant.
pub(crate) fn granted<I: Index>(place: &Place<'_>, index: I) -> Result<I, AssemblyError> {
    let missing = place.guarantees.missing(index.assumptions());
    if missing.is_empty() { Ok(index) } else { Err(AssemblyError::Missing { missing }) }
}

/// Zeroed memory that the kernel is asked to map with huge pages. An index cache is read at random, and with 4-KiB
/// pages many of those reads miss the TLB.
pub fn huge_zeroes(bytes: usize) -> io::Result<MmapMut> {
    // A mapping cannot be empty. A single word caches nothing either.
    let map = MmapMut::map_anon(bytes.max(size_of::<AtomicU32>()))?;
    #[cfg(target_os = "linux")]
    // A kernel without huge pages refuses; small pages work, too.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}
