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
//! | `change` | insert, update, upsert, `update_if`, delete, `delete_if`: one procedure |
//! | `answer` | what an answer waits for: the lease, the log, a flush |
//! | `flush` | writing leaves back, and room in the ring |
//! | `split` | what an insert does when there is no room |
//! | `scan` | ascending records, a page at a time, as far as the entries of this compute node reach |
//! | `create` | the empty index, and its bulk load |
//!
//! # Verbs of an operation, with the leaf's address from the cached route
//!
//! | operation | leaf is cached | it is not |
//! |---|---|---|
//! | get | none | READ leaf |
//! | change at level `log` | a share of one flight of the log | READ leaf, and that |
//! | change at level `pool` | WRITE of image and leaf in one chain | READ leaf, and that |
//! | change at level `cache` | none | READ leaf |
//! | change of a leaf that is not admitted | | READ leaf; WRITE of image and leaf in one chain |
//! | scan, for each leaf | none | READ leaf, several in one submit |
//!
//! # What is served
//!
//! Point operations on keys of this compute node's entries, and scans of them. A key of another entry is refused with
//! [`Cause::NotOwner`]. Leaves that split are linked as in every B+-tree. Leaves that are empty stay: there are no merges
//! yet.

mod answer;
mod change;
mod create;
mod find;
mod flush;
mod get;
pub mod mutants;
mod scan;
mod split;
#[cfg(test)]
mod tests;

use super::log::append::{self, Site};
use super::log::ring::Ring;
use super::log::staging::Log;
use super::ownership::partition::{NotOwner, Partition, Tenure};
use super::parameters::{Parameters, Scratch};
use crate::btree::Tree;
use crate::btree::leaves::{Leaves, SPAN_MAX, key_of};
use crate::btree::load::BulkLoad;
use crate::btree::read::Target;
use crate::dex::leaf::{Leaf, LeafMut, LeafShape};
use crate::error::DecodeError;
use crate::index::runner::{Run, Shared};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord};
use crate::locks::protocol::Locks;
use crate::memory::pin::Pinned;
use crate::operation::{Cause, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::pages::PageStore;
use crate::registry::{KEY_BYTES_MAX, KindParameters, ParameterError};
use core::future::Future;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use spin::Mutex;

pub use flush::Flushing;

/// What an answer means: what a death of this compute node cannot take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// A change is in the ring; a read saw what is in the ring, or in a page.
    #[default]
    Log = 0,
    /// A change is in its page; a read saw as at `Log`.
    Pool = 1,
    /// A change, and what a read saw, is in this compute node's memory. A death takes back, of each key, its last
    /// changes.
    Cache = 2,
}

impl Level {
    /// Every level, in numeric order.
    pub const ALL: [Self; 3] = [Self::Log, Self::Pool, Self::Cache];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Pool => "pool",
            Self::Cache => "cache",
        }
    }
}

/// Says whether this compute node may answer what it has just read in its own memory: whether its lease is valid at a
/// time that is read in this call.
pub type MayAnswer<'s> = &'s (dyn Fn(&Lane<'_>) -> bool + Sync);

/// What an index on a compute node is made of.
pub struct Parts<'s> {
    /// The inner nodes. `leaf_bytes`, `inner` and `scratch` are those of the parameters.
    pub tree: Tree<'s>,
    /// The leaves.
    pub store: PageStore<'s>,
    /// Who owns which keys.
    pub partition: Partition<'s>,
    /// What is in no page yet.
    pub log: Log<'s>,
    /// Where that is.
    pub ring: Ring,
    /// See [`MayAnswer`].
    pub may_answer: MayAnswer<'s>,
    /// One per lane: a [`Level`].
    pub levels: &'s [AtomicU8],
}

/// A DEX index on one compute node: all its lanes share this.
pub struct Dex<'s> {
    tree: Tree<'s>,
    leaf: LeafShape,
    plan: ScratchPlan,
    scratch: Scratch,
    store: PageStore<'s>,
    partition: Partition<'s>,
    log: Log<'s>,
    ring: Ring,
    may_answer: MayAnswer<'s>,
    levels: &'s [AtomicU8],
    bulk: Mutex<BulkLoad>,
    /// Boundaries at which the bulk load under way has begun leaves.
    cuts: AtomicU32,
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
        let Parts { tree, store, partition, log, ring, may_answer, levels } = parts;
        let (bulk, cuts) = (Mutex::new(BulkLoad::default()), AtomicU32::new(0));
        Ok(Self { tree, leaf, plan, scratch, store, partition, log, ring, may_answer, levels, bulk, cuts })
    }

    /// The part that B+-trees share.
    pub fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    /// The cached leaves.
    pub fn store(&self) -> &PageStore<'s> {
        &self.store
    }

    /// What this compute node knows of the ownership table.
    pub fn partition(&self) -> &Partition<'s> {
        &self.partition
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

    /// Where this lane appends to the log.
    fn site(&self) -> Site<'_> {
        Site { log: &self.log, ring: &self.ring, recovery: self.tree.recovery, room: &self.scratch.log }
    }

    /// The tenure under which the operation in the scratch runs.
    fn tenure(&self, lane: &Lane<'_>) -> Result<Tenure, Interrupt> {
        let tenure = lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            self.partition.tenure_of(key_of(scratch, &self.plan.key, &mut room))
        });
        tenure.map_err(|not_owner| Self::not_owner(not_owner).into())
    }

    /// The error of an operation on a key that this compute node does not serve.
    fn not_owner(NotOwner { row, epoch, .. }: NotOwner) -> OpError {
        OpError::harmless(Cause::NotOwner { row, epoch })
    }

    /// Resolves what a dropped or failed operation left: as
    /// [`Index::settle`](crate::index::Index::settle).
    pub async fn settle(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        lane.close(self.tree.scratch.small).await?;
        let _pinned = self.tree.pin(lane);
        self.tree.settle_locks(lane).await?;
        append::settle(self.site(), lane).await?;
        // A split that was dropped is undone by this: see `split`.
        crate::dex::flush::settle(self.flushing(flush::FLUSHED), lane).await
    }

    /// Runs one operation, as [`Index::execute`](crate::index::Index::execute), at the lane's [`Level`].
    pub fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        self.perform(lane, operation)
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

    fn whole(&self, image: &[u8]) -> Result<(), DecodeError> {
        Leaf::new(&self.leaf, image).all_whole()
    }

    fn sorted(&self, image: &[u8], low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        Leaf::new(&self.leaf, image).sorted(low, high, slots)
    }

    fn read_record(&self, image: &[u8], slot: usize, out: &mut [u8]) {
        Leaf::new(&self.leaf, image).read_record(slot, out);
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
