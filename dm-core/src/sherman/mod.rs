//! Sherman: a B+-tree whose leaves are unsorted, so that a write that does not split sends one entry.
//!
//! After Wang et al., "Sherman: A Write-Optimized Distributed B+Tree Index on Disaggregated Memory" (SIGMOD 2022) and
//! its revision "Building Write-Optimized Tree Indexes on Disaggregated Memory" (2023).
//!
//! ```text
//!  catalog          inner nodes (copied in the cache)            leaf: entries in any order
//! ┌───────────┐    ┌──────────────────────────────────┐    ┌────────┬─────────┬─────────┬─────────┬──
//! │ root word │───►│ low, high, sibling │ separators  │───►│ header │ entry 0 │ (free)  │ entry 2 │ ...
//! └───────────┘    │                    │ children    │    └────────┴─────────┴─────────┴─────────┴──
//!                  └──────────────────────────────────┘     lock word: in the memory node's lock table
//! ```
//!
//! # Round trips
//!
//! With the leaf's address from the cached route (a miss adds one READ per level that is not cached):
//!
//! | operation | round trips | requests | with a lock handed over and on |
//! |---|---|---|---|
//! | get | 1 | READ leaf | |
//! | update, upsert or delete of a present key; insert into a leaf with room | 3 | CAS lock; READ leaf; WRITE entry + unlock | 2: READ; WRITE |
//! | update or delete of an absent key, insert of a present one | 3 | CAS; READ; unlock | 1: READ |
//! | insert that splits a leaf, sibling on the same memory node | 3 + 3 | CAS; READ leaf; WRITE sibling + WRITE node + unlock; then the parent: CAS; READ parent + READ sibling's line; WRITE parent + unlock | |
//! | ... each inner split above | + 3 | as the leaf's | |
//! | ... new root, in place of the parent's 3 | 5 | READ root word; its first line; the old root; WRITE new root; CAS root word | |
//! | delete that empties a leaf | 3 + 9 | as above; then CAS parent; READ parent; CAS left; CAS right; READ both; WRITE parent + right + left; three unlocks | |
//! | scan of n leaves, up or down | n / leaves READ at once, or one more | READ leaves the cached parent names, in parallel | |
//!
//! The unlock is a WRITE of the lock word, or a CAS where the fabric does not grant FAILED_CAS_IS_SILENT and
//! ATOMIC_EXCLUDES_WRITE ([`unlocks`](crate::manual::unlocks)).
//! Where few CASes of the lock lose ([`Options::chain_lock_read`](crate::btree::Options)), the 3 are 2: the READ follows the CAS
//! in its chain.
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`parameters`] | what is fixed at creation |
//! | [`layout`] | leaves |
//! | [`search`] | get |
//! | [`mod@write`] | insert, update, upsert, `update_if`, delete, `delete_if`: one procedure |
//! | [`split`] | what an insert does when there is no room |
//! | `merge` | what a delete does when it took the last record: [`crate::btree::merge`] |
//!
//! Inner nodes, locks, descents, linking, scans, bulk loads and the walk are [`crate::btree`]'s, and so are the proofs.
//!
//! # What it assumes
//!
//! LINE_ATOMIC, WORD_ATOMIC (versions), WRITE_THEN_WRITE (sibling before node), WRITE_THEN_ATOMIC (entry before
//! unlock), COMPLETION_IS_VISIBLE. FAILED_CAS_IS_SILENT and ATOMIC_EXCLUDES_WRITE if unlocks are WRITEs: words under CAS
//! are never written otherwise. HOST_BEFORE_DEVICE if the lock table is in device memory; ATOMIC_THEN_READ if
//! READs follow CASes; TIMED_READS, since versions have four bits.
//!
//! # Deviations from the paper
//!
//! - **Versions per cache line** instead of front and rear versions: the paper's check accepts mixtures of two WRITEs
//!   even if lines are read and written in ascending order (Ziegler et al., SIGMOD 2023).
//! - **A torn entry is READ again**, never taken for absent; an entry's control byte says whether it is occupied, so
//!   every key and every value can be stored.
//! - **A READ that took longer than versions can vouch for** is repeated under the lock (the paper: READ again), so
//!   that no loop is without end.
//! - **Lock words have 64 bits** (the paper's have 16), name the holder's row and the acquisition, so that a death can be
//!   repaired; they are released by CAS where the fabric does not grant what a WRITE takes. A word is handed over only to
//!   a lane that wants the same node.
//! - **Splits do not sort**: entries that stay keep their slots, so a crash in the middle of the WRITE loses none.
//! - **A split links the sibling only if it is still live**, READ under the parent's lock: leaves can be merged here.
//! - **Deletes merge**: a leaf that lost its last record is joined with a neighbour under the same parent, and its
//!   place is reused with another generation. The paper mentions merging and gives no procedure.
//! - **The root is found by its word in the catalog**, cached with its level and replaced when a descent finds it
//!   wrong; compute nodes exchange no messages.
//! - **The cache holds inner nodes of every level** within one byte budget, not level 1 and the two top levels: the
//!   budget is all that has to be configured.
//!
//! # Limits
//!
//! - Inner nodes are never merged: a leaf that is the only child of its parent stays, though empty. A tree does not get
//!   lower.
//! - Leaves are joined when one is empty; leaves that are merely sparse are not rebalanced.
//! - Opened without recovery, an index has no part in the pool's epochs ([`crate::memory::epochs`]): a pointer that is
//!   unused for 64 reuses of one place passes the generation check. The fence check decides where a key is in any case;
//!   but an unlinked node has fences, too ([`generations`](crate::manual::generations)).
//! - Opened without recovery, an index waits for the locks of dead holders until its deadlines pass. A node torn by a
//!   writer that died in the middle of a WRITE is then reported as corrupt under its lock.
//! - Nodes that a compute node was granted and had not linked when it left wait for another compute node to collect
//!   them ([`crate::memory`]): the rest of its last chunk, retired nodes in its free lists, a sibling whose split was
//!   dropped. Without recovery none does.

pub mod layout;
pub(crate) mod marks;
mod merge;
pub mod mutants;
pub mod parameters;
pub mod search;
pub mod split;
pub mod write;

use crate::btree::Tree;
use crate::btree::bulk::Bulk;
use crate::btree::leaves::{Leaves, SPAN_MAX};
use crate::btree::load::BulkLoad;
use crate::btree::merge::Merge;
use crate::btree::read::Target;
use crate::btree::scan::Scan;
use crate::error::DecodeError;
use crate::index::Index;
use crate::index::runner::{Run, Shared};
use crate::lane::Lane;
use crate::lane::LockRecord;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::Look;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::memory::orphans::CollectedOrphans;
use crate::memory::pin::Pinned;
use crate::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::registry::{KindParameters, ParameterError};
use crate::remote::address::Address;
use crate::remote::catalog::IndexSet;
use crate::remote::lock_word::RowId;
use crate::verbs::Assumptions;
use core::future::Future;
use layout::{Leaf, LeafMut, LeafShape};
use parameters::Parameters;
use spin::Mutex;

/// Marks of this room; those of [`crate::btree::MARKS`] and [`crate::memory::chunks::MARKS`] are in addition.
pub const MARKS: &[Mark] =
    &[Mark::FORWARDED, Mark::LEAF_SPLIT, Mark::MERGE, Mark::EMPTIED_STAYS, Mark::NODE_REUSED, Mark::SCAN_RESTART];

/// A Sherman index on one compute node: all its lanes share this.
pub struct Sherman<'s> {
    tree: Tree<'s>,
    leaf: LeafShape,
    plan: ScratchPlan,
    bulk: Mutex<BulkLoad>,
}

impl<'s> Sherman<'s> {
    /// Puts an index together. `tree.scratch` and `plan` come from [`Parameters::plan`].
    pub fn new(tree: Tree<'s>, parameters: &Parameters, plan: ScratchPlan) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { tree, leaf: parameters.leaf(), plan, bulk: Mutex::new(BulkLoad::default()) })
    }

    /// The part that B+-trees share.
    pub fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    /// Shape of leaves.
    pub fn leaf_shape(&self) -> &LeafShape {
        &self.leaf
    }
}

impl<'s> Leaves<'s> for Sherman<'s> {
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

    fn read_leaf_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> impl Future<Output = Result<Option<R>, Interrupt>> {
        self.tree.read_under_lock(lane, target, look)
    }

    fn mend_forwarding(
        &self,
        lane: &Lane<'_>,
        left: Address,
        right: Address,
    ) -> impl Future<Output = Result<(), Interrupt>> {
        self.undo_merge(lane, left, right)
    }
}

impl<'s> Run<'s> for Sherman<'s> {
    type UnderWay<'a, 'm>
        = Pinned<'s>
    where
        Self: 'a,
        'm: 'a;

    const SCANS_DOWN: bool = Parameters::SCANS_DOWN;

    fn shared(&self) -> Shared<'_, 's> {
        self.tree.shared(&self.plan)
    }

    fn begin<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> Pinned<'s> {
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
        _patient: bool,
    ) -> impl Future<Output = Result<Outcome, Interrupt>> {
        self.write(lane, kind)
    }

    async fn look_after(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        self.tree.look_after(self, lane, lock_record).await
    }
}

impl Index for Sherman<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.tree.assumptions()
    }

    fn ask_ahead(&self, lane: &Lane<'_>) -> bool {
        self.tree.ask_ahead(lane, &self.plan.key)
    }

    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        // The tree's future, without another one around it.
        self.perform(lane, operation)
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        lane.close(self.tree.scratch.small).await?;
        let _pinned = self.tree.pin(lane);
        // The lock first: members of a batch this lane leads may be queued behind it.
        self.tree.settle_locks(lane).await?;
        self.tree.batches.settle(lane, &self.plan).await?;
        if self.look_after_pending(lane).await {
            lane.close(self.tree.scratch.small).await?;
            self.tree.settle_locks(lane).await?;
        }
        Ok(())
    }

    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<Census, OpError>> + 'a {
        self.mend_and_walk(lane)
    }

    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.bulk_next(lane)
    }

    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.bulk_end(lane)
    }

    fn sweep<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        row: RowId,
        done: IndexSet,
    ) -> impl Future<Output = Result<Swept, OpError>> + 'a {
        self.sweep_and_mend(lane, row, done)
    }

    fn collect_orphans<'a>(
        &'a self,
        lane: &'a Lane<'_>,
    ) -> impl Future<Output = Result<CollectedOrphans, OpError>> + 'a {
        self.collect_all_orphans(lane)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let usage = self.tree.cache.usage();
        (usage.used_bytes, usage.budget_bytes)
    }
}
