//! A Dolphin index on one compute node.

use super::layout::shape::LeafShape;
use super::parameters::{Parameters, Scratch};
use crate::btree::Options;
use crate::compute::batches::Batches;
use crate::index::Index;
use crate::index::runner::{Patience, Run, Shared};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, NO_DEADLINE_NS};
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
use crate::radix::pin::UnderWay;
use crate::radix::slot::{MEMORY_NODES_MAX, NodeType, Place};
use crate::radix::space::Space;
use crate::radix::tree::Tree;
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::registry::{KindParameters, ParameterError};
use crate::remote::catalog::{IndexNumber, IndexSet, root_offset};
use crate::remote::lock_word::RowId;
use crate::remote::owner_tag::OwnerTag;
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Assumptions, Capabilities};
use core::future::Future;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32};
use spin::Mutex;

/// Marks of this room; those of [`crate::memory::chunks::MARKS`] are in addition.
pub const MARKS: &[Mark] = &[
    Mark::TORN_READ,
    Mark::STALE_CACHE,
    Mark::LOCK_LOST,
    Mark::LOCK_QUEUED,
    Mark::LEAF_SPLIT,
    Mark::RESTART,
    Mark::SETTLED,
    Mark::HEADER_SPLIT,
    Mark::LONG_PATH,
    Mark::NODE_REPLACED,
    Mark::HELPED_REPLACEMENT,
    Mark::REPLACEMENT_LOST,
    Mark::SLOT_LOST,
    Mark::CONFIRMED,
    Mark::FROZEN_SLOT,
    Mark::REVIVED,
    Mark::VOID_FILLED,
    Mark::LEAF_REBUILT,
    Mark::HEIR_FOLLOWED,
    Mark::CHANGE_FINISHED,
    Mark::SEAT_SHARED,
    Mark::LEAF_DRAINED,
    Mark::UPDATE_OVERTAKEN,
    Mark::LEAF_EMPTIED,
];

/// What a Dolphin index on one compute node is put together from.
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
    /// By which the lanes of this compute node share its seat in a leaf.
    pub entries: super::entries::Entries<'s>,
    /// Operations of several lanes on one key.
    pub batches: Batches<'s>,
    /// Free memory.
    pub space: Space<'s>,
    /// Copies of nodes.
    pub cache: NodeCache<'s>,
    /// What makes its seats recoverable; `None`: a dead compute node's fields stay as they are.
    pub recovery: Option<&'s Recovery<'s>>,
    /// Its part in the pool's epochs, with a pin for every lane; `None`: what it takes out of the tree is not reused,
    /// and its row says no epoch.
    pub epochs: Option<Participant<'s>>,
}

/// A Dolphin index on one compute node: all its lanes share this.
pub struct Dolphin<'s> {
    /// What radix trees share.
    pub(super) tree: Tree<'s>,
    pub(super) options: Options,
    pub(super) entries: super::entries::Entries<'s>,
    pub(super) batches: Batches<'s>,
    pub(super) recovery: Option<&'s Recovery<'s>>,
    pub(super) shape: LeafShape,
    /// See [`Parameters::paper_leaves`].
    pub(super) paper_leaves: bool,
    pub(super) plan: ScratchPlan,
    /// Where the smallest key of a retired leaf is while its change is finished.
    pub(super) low: Range<usize>,
    /// Scratch ranges of a lane besides the tree's.
    pub(super) scratch: Scratch,
    /// Whether this compute node has to wait before it adds to Spear words, and for which turn of the epochs; `None`: no
    /// writer has come yet.
    pub(super) seat_waits: AtomicBool,
    pub(super) first_turn: Mutex<Option<u32>>,
    pub(super) bulk: Mutex<BulkLoad>,
    /// The leaf to which a bulk load appends.
    pub(super) open: Mutex<Option<super::bulk::Open>>,
}

impl<'s> Dolphin<'s> {
    /// Puts an index together. `plan` comes from [`Parameters::plan`].
    pub fn new(
        parts: Parts<'s>,
        parameters: &Parameters,
        (plan, scratch): (ScratchPlan, Scratch),
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        let Parts { number, owner, requests, geometry, capabilities, options, .. } = parts;
        debug_assert!(geometry.len() <= MEMORY_NODES_MAX);
        // Nobody clears fields of a row that nobody had before.
        let waits = owner.incarnation > 1 && parts.epochs.is_some() && parts.recovery.is_some();
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
            fresh: NodeType::SMALLEST,
            space: parts.space,
            cache: parts.cache,
            epochs: parts.epochs,
            looks: AtomicU32::new(0),
            scratch: scratch.tree.clone(),
        };
        Ok(Self {
            tree,
            options,
            entries: parts.entries,
            batches: parts.batches,
            recovery: parts.recovery,
            // There is one: the sizes were checked above.
            shape: parameters.leaf().ok_or(ParameterError::Unknown)?,
            paper_leaves: parameters.paper_leaves,
            plan,
            low: scratch.line_at..scratch.line_at + parameters.key_bytes,
            scratch,
            seat_waits: AtomicBool::new(waits),
            first_turn: Mutex::new(None),
            bulk: Mutex::new(BulkLoad::default()),
            open: Mutex::new(None),
        })
    }

    /// Sizes of leaves.
    pub const fn leaf_shape(&self) -> &LeafShape {
        &self.shape
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

    /// Local entries that some lane has.
    pub fn locks_held(&self) -> usize {
        self.entries.held()
    }

    /// What new leaves say of who wrote them.
    pub(super) fn owner_tag(&self) -> OwnerTag {
        OwnerTag::of(self.tree.owner, self.tree.geometry.first().map_or(0, |home| home.row_count))
    }
}

impl<'s> Run<'s> for Dolphin<'s> {
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
        self.look_after_seat(lane, lock_record).await
    }

    async fn await_memory(&self, lane: &Lane<'_>, patience: &mut Patience) -> Result<(), OpError> {
        self.tree.await_memory(lane, patience, self.fence_unresponsive(lane)).await?;
        self.check_not_fenced()
    }
}

impl Index for Dolphin<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        // A name is changed before its lane leaves.
        let of_swaps = if self.has_blocks() { Assumptions::ATOMIC_THEN_ATOMIC } else { Assumptions::empty() };
        of_swaps
            | Assumptions::WORD_ATOMIC
            | Assumptions::LINE_ATOMIC
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
        // The seats first: members of a batch this lane leads may wait for them.
        self.settle_seats(lane).await?;
        if let Some(part) = self.tree.epochs {
            // All that it has posted is done, or was refused: see `Index::settle`.
            part.leave(lane);
        }
        if self.options.rdwc { self.batches.settle(lane, &self.plan).await } else { Ok(()) }
    }

    fn await_writable<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.await_seat(lane)
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
