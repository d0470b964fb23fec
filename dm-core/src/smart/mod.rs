//! SMART: an adaptive radix tree whose nodes are changed by CAS and whose records are READ one by one.
//!
//! After Luo et al., "SMART: A High-Performance Adaptive Radix Tree for Disaggregated Memory" (OSDI 2023; extended in
//! ACM TOS 20(3), 2024). Its tree is [`crate::radix`]'s; what is its own is the leaf.
//!
//! ```text
//!  catalog            node at position 0        node at position 3           leaf
//! ┌───────────┐      ┌────────────────────┐    ┌─────────────────────┐    ┌──────┬───────┬─────┬──────┐
//! │ root slot │─────►│ header │ a │ k │ .. │───►│ header "eb" │ r │ .. │───►│ seal │ value │ key │ lock │
//! └───────────┘      └────────────────────┘    └─────────────────────┘    └──────┴───────┴─────┴──────┘
//! ```
//!
//! # Round trips
//!
//! With the key's slot known from copies (a miss adds one READ a node that is not copied, and one if not even the root
//! slot is known), new memory on the slot's memory node:
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get of a record, present or deleted | 1 | READ leaf |
//! | get of a key that has no leaf, its byte in no slot | 1 | READ node |
//! | ... its slot leads to another key's leaf | 3 | READ leaf; READ slot; READ leaf |
//! | update, upsert, `update_if`, delete of a record | 3 | READ leaf; CAS lock + READ leaf; WRITE seal and value + unlock |
//! | ... update, `update_if`, delete, where few CASes of the lock lose ([`Options::chain_lock_read`](crate::btree::Options)) | 2 | CAS lock + READ leaf; WRITE + unlock |
//! | insert of a record that is there; the others of one that is not | 1 | READ leaf |
//! | insert into an empty slot | 2 | READ node; WRITE leaf + CAS slot |
//! | ... of a node of four, where records are deleted | 1 more; 5 more, and 2 a deleted leaf, if it has any | READ the seals of its leaves; CAS freeze; the same READ; CAS lock + READ leaf; WRITE seal + unlock; WRITE node + CAS slot; READ node |
//! | insert of a deleted record | 3 | as update |
//! | insert where another key's deleted leaf is | 6 | READ leaf; READ slot; READ leaf; CAS lock + READ leaf; WRITE seal + unlock; WRITE leaf + CAS slot |
//! | leaf split | 4 | READ leaf; READ slot; READ leaf; WRITE nodes + WRITE leaf + CAS slot |
//! | header split | 4 | READ node; READ slot; READ node; WRITE node + WRITE leaf + CAS slot |
//! | insert into a full node of S slots | 2 + S/16 | READ node; S CAS freeze; WRITE node + WRITE leaf + CAS slot |
//! | ... where records are deleted | S/16 more, 2 a deleted leaf, 2 to 5 a node of four slots | READ the seals of S leaves; CAS lock + READ leaf; WRITE seal + unlock |
//! | scan | 1 + a READ a node + leaves / leaves READ at once | READ root slot; READ node; READ leaves of a node in parallel |
//!
//! New memory elsewhere adds one: the WRITE has to be done before the CAS is posted. A lock handed over saves CAS and
//! unlock. The unlock is part of the WRITE of seal and value if the fabric grants what that takes, and the leaf is in one
//! line or the key is short; else it is a WRITE of the lock word, or a CAS ([`unlocks`](crate::manual::unlocks)).
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`parameters`] | what is fixed at creation |
//! | [`layout`] | leaves |
//! | `leaf` | what [`crate::radix::leaf`] asks of them |
//! | `search` | READs of leaves until they are whole; get |
//! | `lock` | locks of leaves |
//! | `recover` | takeover and sweep of leaves' locks |
//! | `finalize` | tombstones are finalized |
//! | `collect` | mark-and-sweep of lost memory |
//! | `write` | insert, update, upsert, `update_if`, delete |
//! | `bulk` | bulk loads |
//!
//! Descents, new leaves, replaced nodes, tombstones, scans and walks are [`crate::radix`]'s.
//!
//! # Why it is right
//!
//! Each claim has a page of the manual:
//!
//! - A key has at most one leaf, an image of it is believed however old the slot was, and absence is seen within the
//!   call: [`smart_records`](crate::manual::smart_records).
//! - A full node is replaced while others insert: [`node_replacement`](crate::manual::node_replacement).
//! - Deleted leaves leave the tree, and no insert is lost: [`tombstones`](crate::manual::tombstones).
//! - Memory is reused when no pointer to it is left; operations wait for it where the pool is short:
//!   [`smart_memory`](crate::manual::smart_memory).
//! - Scans, and the walk of a collection, meet what is there throughout: [`smart_scans`](crate::manual::smart_scans).
//!
//! # What it assumes
//!
//! WORD_ATOMIC (slots, seals); WRITE_THEN_WRITE and WRITE_THEN_ATOMIC (what is new before the slot that leads there;
//! data before unlock); ATOMIC_THEN_READ (the leaf behind its lock); COMPLETION_IS_VISIBLE (what is new on one memory
//! node before the slot on another). Nothing about lines or how long a READ takes: a seal fits one image, and words of
//! one READ are never related to each other by time. FAILED_CAS_IS_SILENT and ATOMIC_EXCLUDES_WRITE if
//! unlocks are WRITEs: once published, words under CAS are never written otherwise. LINE_ATOMIC if such a WRITE is that of
//! the data, and WRITE_ASCENDING if leaves lie in several lines.
//!
//! # Deviations from the paper
//!
//! - **No reverse pointers.** They cost each leaf and node 8 bytes and each split an atomic. Absence that a copy
//!   suggests is confirmed at the slot in any case, one READ of 8 bytes.
//! - **Headers do not change.** A header split puts a node above. The old node keeps the bytes that are then in the
//!   path, too. So there is no CAS of a header, and no race of two lanes that shorten one.
//! - **A node has room for its own slots**, and those that a new one begins with ([`parameters::Parameters::node_slots`]).
//!   The paper reserves 2 KB for each, so that it grows in place. Here a full node is frozen and replaced, at about one CAS
//!   more for each slot filled. A load of 300,000 random keys in the simulator, nodes that begin with 4, 8 and 16 slots: 4.54,
//!   4.01 and 3.93 requests an insert, of which 0.74, 0.32 and 0.24 freeze slots; 56, 55 and 68 bytes granted a record.
//!   Slots count units of 16 bytes with 40 bits: 16 TB a memory node, 256 memory nodes.
//! - **Deletes are tombstones under the leaf's lock.** Slots stay as they are until an insert needs the slot or the
//!   node is full. The paper clears slots and merges nodes, which loses inserts.
//! - **The lock names its holder**, in a word of its own. The paper's is a bit at the end of the data, written back with
//!   it, and needs a WRITE that lands in ascending order. Here that is so where the fabric grants it, and a leaf in one line
//!   needs no such order.
//! - **The root slot and the top node are copied** like all others.
//! - **Copies are found by the slot that leads to their node**, not by prefix: a lookup follows the path as a descent
//!   does.
//! - **The leaf's length is not in the slot**: all leaves have one length. Those seven bits are 0.
//! - **Items of variable length are entries with blocks** ([`crate::items`]), not leaves that move.
//!
//! [`smart_published`](crate::manual::smart_published) lists what the published design gets wrong, and the mutants that
//! put it here; and why leaves do not move.
//!
//! # Limits
//!
//! - Keys and values of one size, but for items.
//! - A deleted record keeps its leaf until an insert comes to its slot or fills its node. Opened without epochs,
//!   nothing that was published is reused, and nothing is collected.
//! - Copies of nodes are a third as large as the tree, so that cached lookups on shared memory wait for lines of
//!   copies. Where a worker has several lanes, others run meanwhile ([`crate::port::Port::fetch`]); one lane alone
//!   waits.
//! - Opened without recovery: a compute node that dies while it holds a leaf's lock keeps it, and a leaf torn by a
//!   writer that died is reported as corrupt.
//! - When a slot was confirmed, what it leads to is READ once more, though it cannot have changed.
//! - A bulk load leaves a reserve in nodes only if new nodes have one.
//! - `entry_writes` and `read_guard` have no effect here.

mod bulk;
mod collect;
mod finalize;
pub mod layout;
mod leaf;
mod lock;
pub(crate) mod marks;
pub mod mutants;
pub mod parameters;
mod recover;
mod search;
mod write;

pub use crate::radix::tombstones::RETIRED_AT_ONCE_MAX;

use crate::btree::Options;
use crate::compute::batches::Batches;
use crate::index::Index;
use crate::index::runner::{Patience, Run, Shared};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, NO_DEADLINE_NS};
use crate::locks::Unlock;
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::memory::Participant;
use crate::memory::chunks::RequestIds;
use crate::memory::collect::collect;
use crate::memory::orphans::CollectedOrphans;
use crate::memory::rows::RowError;
use crate::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::radix::bulk::BulkLoad;
use crate::radix::cache::NodeCache;
use crate::radix::check::Check;
use crate::radix::cursor::DescentCursor;
use crate::radix::pin::UnderWay;
use crate::radix::scan::Scan;
use crate::radix::slot::{MEMORY_NODES_MAX, Place};
use crate::radix::space::Space;
use crate::radix::tree::{Scratch, Tree};
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::Recoverable;
use crate::registry::{KindParameters, ParameterError};
use crate::remote::catalog::{IndexNumber, IndexSet, root_offset};
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Assumptions, Capabilities};

use core::future::Future;
use core::sync::atomic::AtomicU32;
use layout::LeafShape;
use parameters::Parameters;
use spin::Mutex;

/// Marks of this room; those of [`crate::memory::chunks::MARKS`] are in addition.
pub const MARKS: &[Mark] = &[
    Mark::TORN_READ,
    Mark::LOCKED_READ,
    Mark::STALE_CACHE,
    Mark::LOCK_LOST,
    Mark::LOCK_QUEUED,
    Mark::HAND_OVER,
    Mark::LEAF_SPLIT,
    Mark::RESTART,
    Mark::SETTLED,
    Mark::HEADER_SPLIT,
    Mark::LONG_PATH,
    Mark::NODE_REPLACED,
    Mark::HELPED_REPLACEMENT,
    Mark::REPLACEMENT_LOST,
    Mark::SLOT_LOST,
    Mark::SAME_BYTE,
    Mark::CONFIRMED,
    Mark::FROZEN_SLOT,
    Mark::REVIVED,
    Mark::FINALIZED,
    Mark::LEAF_REPLACED,
    Mark::LEAF_LEFT_OUT,
    Mark::NODE_LEFT_OUT,
    Mark::FROZEN_STAYED,
    Mark::FINALIZED_MET,
];

/// What a SMART index on one compute node is put together from.
pub struct Parts<'s> {
    /// Number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks.
    pub requests: &'s RequestIds,
    /// Memory nodes of the pool, by logical number; at least one, at most [`MEMORY_NODES_MAX`].
    pub geometry: &'s [NodeGeometry],
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// Techniques.
    pub options: Options,
    /// Local queues: `locks_per_node` entries per memory node, a waiter per lane.
    pub locks: LockTable<'s>,
    /// Local entries per memory node, at least 1.
    pub locks_per_node: u32,
    /// Operations of several lanes on one key.
    pub batches: Batches<'s>,
    /// Free memory.
    pub space: Space<'s>,
    /// Copies of nodes.
    pub cache: NodeCache<'s>,
    /// What makes its locks recoverable; `None`: a dead holder's locks stay held.
    pub recovery: Option<&'s Recovery<'s>>,
    /// Its part in the pool's epochs, with a pin for every lane; `None`: what it takes out of the tree is not reused,
    /// and its row says no epoch.
    pub epochs: Option<Participant<'s>>,
}

/// A SMART index on one compute node: all its lanes share this.
pub struct Smart<'s> {
    /// What radix trees share.
    tree: Tree<'s>,
    options: Options,
    locks: LockTable<'s>,
    locks_per_node: u32,
    batches: Batches<'s>,
    recovery: Option<&'s Recovery<'s>>,
    leaf: LeafShape,
    plan: ScratchPlan,
    bulk: Mutex<BulkLoad>,
    /// Leads to the node that took the last record of a bulk load.
    open: Mutex<Option<DescentCursor>>,
}

impl<'s> Smart<'s> {
    /// Puts an index together. `plan` comes from [`Parameters::plan`].
    pub fn new(
        parts: Parts<'s>,
        parameters: &Parameters,
        (plan, scratch): (ScratchPlan, Scratch),
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        let Parts { number, owner, requests, geometry, capabilities, options, .. } = parts;
        debug_assert!(geometry.len() <= MEMORY_NODES_MAX);
        let root = geometry.first().map_or(0, |home| root_offset(home, number));
        let tree = Tree {
            number,
            index: number.in_nodes(),
            owner,
            requests,
            geometry,
            root: Place::new(HOME, root),
            capabilities,
            combine: options.combine,
            fresh: parameters.fresh().ok_or(ParameterError::Unknown)?,
            space: parts.space,
            cache: parts.cache,
            epochs: parts.epochs,
            looks: AtomicU32::new(0),
            scratch,
        };
        Ok(Self {
            tree,
            options,
            locks: parts.locks,
            locks_per_node: parts.locks_per_node,
            batches: parts.batches,
            recovery: parts.recovery,
            leaf: parameters.leaf(),
            plan,
            bulk: Mutex::new(BulkLoad::default()),
            open: Mutex::new(None),
        })
    }

    /// Shape of leaves.
    pub const fn leaf_shape(&self) -> &LeafShape {
        &self.leaf
    }

    /// Numbers of this compute node's requests for chunks.
    pub const fn requests(&self) -> &'s RequestIds {
        self.tree.requests
    }

    /// Copies of nodes.
    pub const fn cache(&self) -> &NodeCache<'s> {
        &self.tree.cache
    }

    /// Memory for nodes and leaves.
    pub const fn space(&self) -> &Space<'s> {
        &self.tree.space
    }

    /// Whether it has a part in the pool's epochs.
    pub const fn has_epochs(&self) -> bool {
        self.tree.epochs.is_some()
    }

    /// A turn of the epochs, for a compute node without a keeper of its heartbeat: [`Participant::turn`].
    pub async fn turn(&self, lane: &Lane<'_>) -> Result<(), RowError> {
        let (Some(part), Some(home)) = (self.tree.epochs, self.tree.geometry.first()) else { return Ok(()) };
        part.turn(lane, home, self.tree.owner, self.tree.scratch.small).await
    }

    /// See [`Participant::turn_after`].
    pub async fn turn_after(&self, lane: &Lane<'_>, waited: (u64, u64)) -> Result<(), RowError> {
        let (Some(part), Some(home)) = (self.tree.epochs, self.tree.geometry.first()) else { return Ok(()) };
        part.turn_after(lane, home, self.tree.owner, waited, self.tree.scratch.small).await
    }

    /// Local lock entries with a holder.
    pub fn locks_held(&self) -> usize {
        self.locks.held()
    }
}

impl<'s> Run<'s> for Smart<'s> {
    type UnderWay<'a, 'm>
        = UnderWay<'a, 'm, 's>
    where
        Self: 'a,
        'm: 'a;

    fn shared(&self) -> Shared<'_, 's> {
        Shared {
            plan: &self.plan,
            batches: self.options.rdwc.then_some(&self.batches),
            recovery: self.recovery,
            epochs: self.tree.epochs,
            geometry: self.tree.geometry,
        }
    }

    fn begin<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> UnderWay<'a, 'm, 's> {
        self.tree.pin(lane)
    }

    fn get_once(&self, lane: &Lane<'_>) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.get(lane)
    }

    fn scan_once(&self, lane: &Lane<'_>, operation: &Operation) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.scan(lane, operation)
    }

    fn write_once(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        patient: bool,
    ) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.write(lane, kind, patient)
    }

    async fn look_after(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        Recoverable::look_after(self, lane, lock_record).await
    }

    async fn await_memory(&self, lane: &Lane<'_>, patience: &mut Patience) -> Result<(), OpError> {
        self.tree.await_memory(lane, patience, self.fence_unresponsive(lane)).await?;
        self.check_not_fenced()
    }
}

impl Index for Smart<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        // No leaf crosses the end of a line, as leaves lie one behind the other.
        let best = if self.leaf.divides_lines() { Unlock::WithLine } else { Unlock::WithLines };
        self.options.unlock.min(best).needs()
            | Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_WRITE
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::ATOMIC_THEN_READ
            | Assumptions::COMPLETION_IS_VISIBLE
    }

    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        // Its future, without another one around it.
        self.perform(lane, operation)
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        lane.close(self.tree.scratch.small).await?;
        // The locks first: members of a batch this lane leads may be queued behind them.
        self.settle_locks(lane).await?;
        if let Some(part) = self.tree.epochs {
            // All that it has posted is done, or was refused: see `Index::settle`.
            part.leave(lane);
        }
        if self.options.rdwc { self.batches.settle(lane, &self.plan).await } else { Ok(()) }
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        self.check(lane).await
    }

    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.bulk_next(lane)
    }

    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.bulk_end(lane)
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        let _under_way = self.tree.pin(lane);
        self.sweep_row(lane, row, done).await
    }

    async fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Result<CollectedOrphans, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        let mut collected_orphans = CollectedOrphans::default();
        collect(self, lane, &mut collected_orphans).await?;
        Ok(collected_orphans)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let usage = self.tree.cache.usage();
        (usage.used_bytes + usage.bucket_bytes, usage.budget_bytes)
    }
}
