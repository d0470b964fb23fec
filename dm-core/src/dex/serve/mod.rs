//! Operations on the keys that this compute node owns: over cached leaves, with a log.
//!
//! ```text
//!             route (copies)       page store               look, or change              answer
//!  key ──┬──► leaf's address ────► frame ─────────────────► under sequence lock, or ───► lease; log
//!        │                     └─► fill: READ, then frame   under latch: record, bytes
//!        └──► tenure: whose is it   or none: not admitted ─► in the scratch; WRITE
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | (here) | what the lanes share, and which level an answer has |
//! | `find` | from a key to its leaf, in a frame or in the scratch |
//! | `get` | get |
//! | `offload` | a get that a memory node's processor answers |
//! | `change` | insert, update, upsert, `update_if`, delete, `delete_if`: one procedure |
//! | `answer` | what an answer waits for: the lease, the log, a flush |
//! | `flush` | writing leaves back, and room in the ring |
//! | `split` | what an insert does when there is no room |
//! | `merge` | what a delete does that has emptied a leaf |
//! | `scan` | ascending records, a page at a time, as far as the entries of this compute node reach |
//! | `create` | the empty index, and its bulk load |
//! | `moves` | parts of the keys that move to another compute node |
//! | `cut` | parts of the keys that are cut in two |
//! | `vacate` | parts of the keys whose nodes leave a memory node |
//! | `own` | opening: table and ring; entries that are taken when operations need them, and given up |
//! | `replay` | what a recovery does to leaves |
//!
//! # Verbs of an operation, with the leaf's address from the cached route
//!
//! | operation | leaf is cached | it is not |
//! |---|---|---|
//! | get | none | READ leaf, or one call ([`offload`](super::offload)) |
//! | change at level `log` | a share of one flight of the log | READ leaf, and that |
//! | change at level `pool` | WRITE of image and leaf in one chain | READ leaf, and that |
//! | change at level `cache` | none | READ leaf |
//! | change of a leaf that is not admitted | | READ leaf; WRITE of image and leaf in one chain |
//! | scan, for each leaf | none | READ leaf, several in one submit |
//!
//! # What is served
//!
//! Point operations on keys of this compute node's entries, and scans of them. A key of another entry is refused with
//! [`Cause::NotOwner`]; [`crate::index::forward`] has the owner execute the operation then. Leaves that split are linked as in
//! every B+-tree. A leaf that was emptied, cached or not, is joined to its left neighbour, unless it is the leftmost one of its
//! parent or of its entry, or a memory node's processor made the change.

mod answer;
mod change;
mod create;
mod cut;
mod find;
mod flush;
mod get;
mod merge;
mod moves;
mod offload;
mod own;
mod replay;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod vacate;

use super::log::append::{self, Site};
use super::log::record::Change;
use super::log::staging::Log;
use super::log::state::Full;
use super::offload::{Choice, Mode};
use super::ownership::load;
use super::ownership::partition::{NotOwner, Partition, Tenure};
use super::ownership::{LoadWord, Owner, OwnerWord};
use super::parameters::{Parameters, Scratch};
use crate::btree::leaves::{Leaves, Looks, SPAN_MAX, key_of};
use crate::btree::load::BulkLoad;
use crate::btree::read::Target;
use crate::btree::sweep::TreeLocks;
use crate::btree::walk::Walk;
use crate::btree::{Subtrees, Tree};
use crate::dex::leaf::{Leaf, LeafMut, LeafShape};
use crate::error::DecodeError;
use crate::index::Index;
use crate::index::runner::{Run, Shared};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, NO_DEADLINE_NS};
use crate::layout::stripes::Look;
use crate::locks::protocol::Locks;
use crate::memory::orphans::CollectedOrphans;
use crate::memory::pin::Pinned;
use crate::operation::{Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::pages::PageStore;
use crate::pages::lsn::Lsn;
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::registry::{KEY_BYTES_MAX, KindParameters, ParameterError};
use crate::remote::catalog::IndexSet;
use crate::remote::lock_word::RowId;
use crate::verbs::{Assumptions, LaneId, NodeId};
use core::future::Future;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use own::{Opened, RequestNumbers, Taking};
use spin::{Mutex, Once};

pub use crate::operation::Level;
pub use flush::Flushing;
pub use own::OwnersRoom;

/// Says whether this compute node may answer what it has just read in its own memory: whether its lease is valid at a
/// time that is read in this call.
pub type MayAnswer<'s> = &'s (dyn Fn(&Lane<'_>) -> bool + Sync);

/// What an index on a compute node is made of.
pub struct Parts<'s> {
    /// The inner nodes. `leaf_bytes`, `inner` and `scratch` are those of the parameters.
    pub tree: Tree<'s>,
    /// The leaves.
    pub store: PageStore<'s>,
    /// Storage for who owns which keys.
    pub owners: OwnersRoom<'s>,
    /// What is in no page yet.
    pub log: Log<'s>,
    /// Lines of the ring where that is, at least. They were passed to [`Log::new`].
    pub ring_lines: u64,
    /// See [`MayAnswer`].
    pub may_answer: MayAnswer<'s>,
    /// One per lane: a [`Level`].
    pub levels: &'s [AtomicU8],
}

/// A DEX index on one compute node: all its lanes share this.
pub struct Dex<'s> {
    tree: Tree<'s>,
    leaf: LeafShape,
    parameters: Parameters,
    plan: ScratchPlan,
    scratch: Scratch,
    store: PageStore<'s>,
    /// What the first operation finds or makes.
    opened: Once<Opened<'s>>,
    /// Of an index that is not open: it has no entries.
    unopened: Partition<'s>,
    owners: Mutex<Option<OwnersRoom<'s>>>,
    numbers: Mutex<RequestNumbers>,
    taking: Mutex<Option<(LaneId, Taking)>>,
    /// This compute node has given up its entries.
    left: AtomicBool,
    log: Log<'s>,
    ring_lines: u64,
    may_answer: MayAnswer<'s>,
    levels: &'s [AtomicU8],
    choice: Choice,
    bulk: Mutex<BulkLoad>,
    /// Boundaries at which the bulk load under way has begun leaves.
    cuts: AtomicU32,
    /// That bulk load is the creation of an empty index.
    creating: AtomicBool,
}

impl<'s> Dex<'s> {
    /// Puts an index together. `plan` and `scratch` come from [`Parameters::plan`].
    pub fn new(
        parts: Parts<'s>,
        parameters: &Parameters,
        plan: ScratchPlan,
        scratch: Scratch,
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        let (leaf, lanes) = (parameters.leaf(), usize::from(parts.store.shape().lanes));
        if parts.store.shape().page_bytes != leaf.bytes {
            let found = parts.store.shape().page_bytes;
            let what = "bytes of a page of the page cache";
            return Err(ParameterError::Limit { what, found, least: leaf.bytes, most: leaf.bytes });
        }
        if parts.levels.len() < lanes {
            return Err(ParameterError::Small { what: "levels of lanes", found: parts.levels.len(), least: lanes });
        }
        let Parts { mut tree, store, owners, log, ring_lines, may_answer, levels } = parts;
        // So that a memory node's processor can walk.
        if tree.options.subtrees == Subtrees::Spread {
            tree.options.subtrees = Subtrees::Near;
        }
        let (table, key_bytes) = (parameters.table_shape()?, parameters.key_bytes);
        let (needed, words) = (table.capacity() as usize, Partition::boundary_words(&table));
        let found = owners.order.len().min(owners.cells.len()).min(owners.boundaries.len() * needed / words);
        if found < needed {
            return Err(ParameterError::Small { what: "entries of the ownership table", found, least: needed });
        }
        Ok(Self {
            leaf,
            parameters: *parameters,
            plan,
            scratch,
            store,
            opened: Once::new(),
            unopened: Partition::none(tree.owner.row, key_bytes),
            owners: Mutex::new(Some(owners)),
            numbers: Mutex::new(own::NO_REQUESTS),
            taking: Mutex::default(),
            left: AtomicBool::new(false),
            log,
            ring_lines,
            may_answer,
            levels,
            choice: Choice::default(),
            bulk: Mutex::new(BulkLoad::default()),
            cuts: AtomicU32::new(0),
            creating: AtomicBool::new(false),
            tree,
        })
    }

    /// The part that B+-trees share.
    pub fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    /// The cached leaves.
    pub fn store(&self) -> &PageStore<'s> {
        &self.store
    }

    /// What this compute node knows of the ownership table: nothing before the first operation.
    #[inline]
    pub fn partition(&self) -> &Partition<'s> {
        self.opened.get().map_or(&self.unopened, |opened| &opened.partition)
    }

    /// The log.
    pub fn log(&self) -> &Log<'s> {
        &self.log
    }

    /// Sets what answers to this lane's operations mean from now on, until it is set again.
    pub fn set_level(&self, lane: &Lane<'_>, level: Level) {
        if let Some(of_lane) = self.levels.get(usize::from(lane.id().0)) {
            of_lane.store(level as u8, Ordering::Relaxed);
        }
    }

    /// What answers to this lane's operations mean.
    pub fn level(&self, lane: &Lane<'_>) -> Level {
        let level = self.levels.get(usize::from(lane.id().0)).map_or(0, |level| level.load(Ordering::Relaxed));
        Level::ALL.get(usize::from(level)).copied().unwrap_or_default()
    }

    /// Sets when gets have a memory node's processor look for their keys. A fabric without calls answers none.
    pub fn set_offload(&self, mode: Mode) {
        let has_calls = self.tree.capabilities.call_bytes_max > 0;
        self.choice.set_mode(if has_calls { mode } else { Mode::Never });
    }

    /// When gets have a memory node's processor look for their keys.
    pub fn offload(&self) -> Mode {
        self.choice.mode()
    }

    /// Where this lane appends to the log. `Err`: the index is not open, so there is no record.
    fn site(&self) -> Result<Site<'_>, OpError> {
        let what = "a log of an index that is not open";
        let opened = self.opened.get().ok_or(OpError::harmless(Cause::BadInput(what)))?;
        let restarts = self.log.restarts();
        let (ring, recovery, room) = (opened.ring()?, self.tree.recovery, &self.scratch.log);
        Ok(Site { log: &self.log, ring, restarts, recovery, room })
    }

    /// Stages the record of a change, unless its tenure has ended.
    fn stage(&self, tenure: Tenure, change: Change<'_>) -> Result<Lsn, Full> {
        self.log.stage_while(|| self.partition().holds(tenure), tenure.entry, tenure.epoch, change)
    }

    /// The tenure of the key at a scratch range, if this compute node has it.
    fn tenure_at(&self, lane: &Lane<'_>, key: &Range<usize>) -> Result<Tenure, NotOwner> {
        lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            self.partition().tenure_of(key_of(scratch, key, &mut room))
        })
    }

    /// Counts an operation of a range of keys, if it is a sample.
    #[inline]
    fn count(&self, lane: &Lane<'_>, tenure: Tenure) {
        if lane.is_sampled(load::SAMPLED) {
            self.partition().count_sample(tenure);
        }
    }

    /// The error of an operation on a key that this compute node does not serve.
    fn not_owner(NotOwner { row, epoch, .. }: NotOwner) -> OpError {
        OpError::harmless(Cause::NotOwner { row, epoch })
    }

    async fn settle_lane(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        lane.close(self.tree.scratch.small).await?;
        let _pinned = self.tree.pin(lane);
        self.write_unwritten(lane).await?;
        self.tree.settle_locks(lane).await?;
        if let Ok(site) = self.site() {
            append::settle(site, lane).await?;
        }
        // A split that was dropped is undone by this: see `split`.
        crate::dex::flush::settle(self.flushing(flush::FLUSHED), lane).await?;
        self.end_taking(lane);
        Ok(())
    }
}

impl Index for Dex<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.tree.assumptions()
    }

    fn ask_ahead(&self, lane: &Lane<'_>) -> bool {
        self.tree.ask_ahead(lane, &self.plan.key)
    }

    /// Answers as the lane's [`Level`] says.
    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        self.perform(lane, operation)
    }

    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.settle_lane(lane)
    }

    /// What this compute node has not flushed is flushed first. Of other compute nodes' entries the walk sees what is in the
    /// pool.
    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _pinned = self.tree.pin(lane);
        let mut looks = Looks::default();
        while let Err(interrupt) = self.mend(lane).await {
            looks.again(interrupt)?;
            self.overcome(lane, false, interrupt).await?;
        }
        self.flush_all(lane).await?;
        self.walk(lane).await
    }

    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.append_record(lane)
    }

    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.finish_load(lane)
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        let _pinned = self.tree.pin(lane);
        let swept = TreeLocks { tree: &self.tree, index: self }.sweep_row(lane, row, done).await;
        swept.map_err(|error| self.note_fencing(error))
    }

    fn collect_orphans<'a>(
        &'a self,
        lane: &'a Lane<'_>,
    ) -> impl Future<Output = Result<CollectedOrphans, OpError>> + 'a {
        self.collect_all_orphans(lane)
    }

    async fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.give_up(lane).await
    }

    fn has_parts(&self) -> bool {
        true
    }

    async fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<u32, OpError> {
        lane.begin(NO_DEADLINE_NS);
        Ok(self.open(lane).await?.partition.count())
    }

    async fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        self.take_rank(lane, part).await
    }

    async fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        self.keep_entries(lane).await
    }

    async fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Result<(), OpError> {
        lane.begin(wait_ns);
        self.move_rank(lane, part, to).await
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        lane.begin(wait_ns);
        self.check_not_fenced()?;
        if key.len() != self.leaf.key_bytes {
            return Err(OpError::harmless(Cause::BadInput("a key of another size than those of the index")));
        }
        let _pinned = self.tree.pin(lane);
        self.set_key(lane, key);
        self.cut(lane).await.map_err(|error| self.note_fencing(error))
    }

    async fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> Result<u64, OpError> {
        lane.begin(wait_ns);
        let _pinned = self.tree.pin(lane);
        self.vacate(lane, part, from).await.map_err(|error| self.note_fencing(error))
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        let partition = self.partition();
        partition.entry_of_rank(part).map(|entry| (partition.word(entry), partition.load(entry)))
    }

    fn part_of(&self, key: &[u8]) -> u32 {
        self.partition().rank_of(key) as u32
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let usage = self.tree.cache.usage();
        (usage.used_bytes, usage.budget_bytes)
    }
}

impl<'s> Leaves<'s> for Dex<'s> {
    /// Leaves have no locks. This is for kinds that have some.
    type LeafLocks = Tree<'s>;

    type Router = Tree<'s>;

    fn leaf_locks(&self) -> &Tree<'s> {
        &self.tree
    }

    fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    fn router(&self) -> &Tree<'s> {
        &self.tree
    }

    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn bulk(&self) -> &Mutex<BulkLoad> {
        &self.bulk
    }

    fn span(&self) -> usize {
        self.leaf.span
    }

    fn whole(&self, look: Look<'_>) -> Result<(), DecodeError> {
        Leaf::in_look(&self.leaf, look).all_whole()
    }

    fn sorted(&self, look: Look<'_>, low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        Leaf::in_look(&self.leaf, look).sorted(low, high, slots)
    }

    fn read_records(&self, look: Look<'_>, slots: &[u16], bytes: usize, out: &mut [u8]) {
        self.leaf.read_records(look, slots, bytes, out);
    }

    fn check(&self, image: &[u8], low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError> {
        Leaf::new(&self.leaf, image).check(low, high)
    }

    fn append(&self, image: &mut [u8], used: usize, key: &[u8], value: &[u8]) -> bool {
        LeafMut::new(&self.leaf, image).put(used, key, value);
        true
    }

    /// A leaf has one writer, and that is this compute node: it is READ when no WRITE of it is under way.
    async fn read_leaf_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, Interrupt> {
        Ok(Tree::read_locked(lane, target, false, look).await?)
    }
}

impl<'s> Run<'s> for Dex<'s> {
    type UnderWay<'a, 'm>
        = Pinned<'s>
    where
        Self: 'a,
        'm: 'a;

    fn shared(&self) -> Shared<'_, 's> {
        Shared { batches: None, ..self.tree.shared(&self.plan) }
    }

    fn begin<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> Pinned<'s> {
        self.tree.pin(lane)
    }

    fn get_once(&self, lane: &Lane<'_>) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.get(lane)
    }

    fn scan_once(&self, lane: &Lane<'_>, operation: &Operation) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.scan_owned(lane, operation)
    }

    fn write_once(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        _patient: bool,
    ) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.change(lane, kind)
    }

    async fn look_after(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        self.tree.look_after(self, lane, lock_record).await
    }
}
