//! CHIME: a B+-tree whose leaves are hopscotch tables, so that a get READs the neighborhood of its key and not the
//! leaf.
//!
//! After Luo et al., "CHIME: A Cache-Efficient and High-Performance Hybrid Index on Disaggregated Memory" (SOSP 2024).
//!
//! ```text
//!  leaf  ┌────────┬───────────┬─────────┬─────┬─────────┬───────────┬─────────┬─────┬─────────┬───────────┐
//!        │ header │ replica 0 │ entry 0 │ ... │ H - 1   │ replica 1 │ entry H │ ... │ 2 H - 1 │ lock word │
//!        └────────┴───────────┴─────────┴─────┴─────────┴───────────┴─────────┴─────┴─────────┴───────────┘
//!                                   └── home of a key: it lies in one of the H entries from there on ──┘
//! ```
//!
//! # Round trips
//!
//! With the leaf's address from the cached route (a miss adds one READ per level that is not cached):
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get | 1 | READ neighborhood (two READs in one chain if it continues at the first entry) |
//! | get of a key that the hotspot buffer knows | 1 | READ entry; if it was wrong, one more for the neighborhood |
//! | update, delete, upsert of a present key | 3 | CAS lock; READ neighborhood; WRITE entry + unlock |
//! | ... update, upsert, `update_if` of one that the hotspot buffer knows | 3 | CAS lock; READ entry; WRITE entry + unlock |
//! | insert | 3 | CAS lock; READ hop range; WRITE entries + unlock |
//! | ... if the lock word promised room where there was none | 4 | + READ leaf |
//! | ... if no hop makes room and another arrangement does (one in 30) | 3 or 4 | CAS lock; READ leaf; WRITE leaf + unlock |
//! | update or delete of an absent key, insert of a present one | 3 | CAS; READ neighborhood; unlock |
//! | insert that splits a leaf, sibling on the same memory node | 3 + 3 | CAS; READ leaf; WRITE sibling + CAS vacancy + WRITE node + unlock; then the parent: CAS; READ parent + READ sibling's line; WRITE parent + unlock |
//! | ... inner splits, new root | | as Sherman's |
//! | delete that empties a leaf | 3 + 9 or so | as above; then as Sherman's |
//! | scan of n leaves, up or down | n / leaves READ at once, or one more | READ leaves the cached parent names, in parallel |
//! | a leaf that its cached parent describes wrongly | + 2 | READ neighborhood; READ parent; go on |
//! | a half-split leaf whose parent does not know | + 1, + 1 | READ leaf; READ sibling; and the split is finished |
//!
//! The unlock is a WRITE of the lock word, or a CAS where the fabric does not grant FAILED_CAS_IS_SILENT and
//! ATOMIC_EXCLUDES_WRITE ([`unlocks`](crate::manual::unlocks)). A lock handed over saves the lock's CAS and the unlock.
//! Without masked atomics a lock's CAS has to guess the free word; a wrong guess is one round trip more. Where few CASes of
//! the lock lose ([`Options::chain_lock_read`](crate::btree::Options)), the 3 are 2: entry,
//! neighborhood or, of an insert, the hop range that the word's last known vacancy asks for is READ behind the CAS in
//! its chain.
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`parameters`] | what is fixed at creation |
//! | [`layout`] | leaves |
//! | [`hop`] | making room, and the rule that readers rely on |
//! | [`vacancy`] | lock words |
//! | `lock` | locks of leaves |
//! | `search` | get |
//! | `speculate` | one entry instead of a neighborhood |
//! | `write` | insert, update, upsert, `update_if`, delete |
//! | `split` | what an insert does when no hops make room |
//! | `merge` | what a delete does when it took the last record |
//!
//! Inner nodes and their locks, descents, linking, scans, bulk loads and the walk are [`crate::btree`]'s.
//!
//! # Why it is right
//!
//! Each claim has a page of the manual:
//!
//! - A part of a leaf is enough to know which leaf it is: [`chime_leaf_identity`](crate::manual::chime_leaf_identity).
//! - A key that is there is found, though it may hop: [`chime_neighborhoods`](crate::manual::chime_neighborhoods).
//! - One entry can be enough: [`chime_entries`](crate::manual::chime_entries).
//! - A split makes room, and the new sibling needs no lock: [`chime_splits`](crate::manual::chime_splits).
//! - Deaths are repaired as in every B+-tree ([`crate::recovery`]). A change that may land in part has one redo record
//!   of all of it ([`redo_records`](crate::manual::redo_records)). The lane that ends a dead holder's acquisition READs
//!   the leaf to make the free word ([`locks`](crate::manual::locks)). A sweep goes over every place that ever was a
//!   leaf's: an old pointer is enough to lock one.
//!
//! # What it assumes
//!
//! LINE_ATOMIC, WORD_ATOMIC (versions), WRITE_THEN_WRITE (sibling before node), WRITE_THEN_ATOMIC (entries before
//! unlock), COMPLETION_IS_VISIBLE. FAILED_CAS_IS_SILENT and ATOMIC_EXCLUDES_WRITE if unlocks are WRITEs: words under CAS
//! are never written otherwise once their chunk is in use. HOST_BEFORE_DEVICE if the lock table of inner nodes is in device
//! memory; ATOMIC_THEN_READ if READs follow CASes; TIMED_READS, since versions have four bits.
//!
//! # Deviations from the paper
//!
//! - **Leaves keep their fences**, once, in the header; no largest key in the lock word. A half-split is decided by the
//!   fence and not by the largest key, which deletes can move; the separator need not be the largest key plus one.
//! - **The sibling's generation** is compared with the sibling, and the replica's with the pointer: leaves are retired
//!   and reused here.
//! - **A parent names what comes after its last child** (also in the authors' code, not in the paper).
//! - **An insert READs the whole neighborhood** at least; the paper's stops at the first entry with room, and puts a
//!   key that lies behind it into the leaf twice.
//! - **Every entry whose bytes change raises its EV**, the home whose bitmap changes included, so that a mixture is
//!   noticed.
//! - **Deletes** leave dead keys; the paper clears the entry, and then readers can miss a key.
//! - **A leaf in which no hop makes room is rearranged** before it is split, and splits at the median of its records if
//!   that makes room for the new one on its side: after random inserts leaves are 65 % full (H = 8), instead of 59 %.
//!   Readers do not notice: a record is always within the neighborhood of its home.
//! - **An occupied flag**, not reserved keys and values.
//! - **Entries repeat the generation**, which makes READs of single entries safe.
//! - **Lock words** name their holder while held, and are released by CAS or by a WRITE of their own;
//!   63 bits of vacancy, which is a hint.
//! - **A new sibling is written unlocked**: no lane reaches it before the old leaf's WRITE has landed everywhere.
//! - **A whole leaf can be joined** with an empty neighbour; a half-split is finished by the next operation that meets
//!   it.
//!
//! # Limits
//!
//! - Inner nodes are never merged; leaves are joined when one is empty, not when they are merely sparse.
//! - A generation has six bits. In an index opened without epochs a pointer that is unused for 64 reuses of one place
//!   passes the generation check ([`generations`](crate::manual::generations)).
//! - A row of a compute node that had opened an index without recovery stays dead if the pool has other indexes of this
//!   kind: nothing says whose leaves may name it ([`crate::btree::sweep`]).
//! - Opened without recovery, an index waits for the locks of dead holders until its deadlines pass. A leaf torn by a
//!   writer that died, or whose queue pair failed between the two WRITEs of a range that continues at the first entry,
//!   is then reported as corrupt.
//! - `entry_writes` off is Sherman's: it is ignored.

pub mod hop;
pub mod layout;
mod lock;
pub(crate) mod marks;
mod merge;
pub mod mutants;
pub mod parameters;
mod search;
mod speculate;
mod split;
pub mod vacancy;
mod write;

use crate::btree::Tree;
use crate::btree::bulk::Bulk;
use crate::btree::leaves::{Leaves, SPAN_MAX};
use crate::btree::load::BulkLoad;
use crate::btree::merge::Merge;
use crate::btree::read::Target;
use crate::btree::scan::Scan;
use crate::compute::hotspot::Hotspot;
use crate::compute::words::WordTable;
use crate::error::DecodeError;
use crate::index::Index;
use crate::index::runner::{Run, Shared};
use crate::lane::Lane;
use crate::lane::LockRecord;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::{self, Look};
use crate::layout::word_at;
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::marks::Mark;
use crate::memory::orphans::CollectedOrphans;
use crate::memory::pin::Pinned;
use crate::operation::span::Span;
use crate::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::registry::{KindParameters, ParameterError};
use crate::remote::address::Address;
use crate::remote::catalog::IndexSet;
use crate::remote::lock_word::RowId;
use crate::verbs::Assumptions;
use core::future::Future;
use layout::{Leaf, LeafMut, LeafShape, Touched};
use parameters::Parameters;
use spin::Mutex;
use vacancy::{Buckets, HELD};

/// Marks of this room; those of [`crate::btree::MARKS`] and [`crate::memory::chunks::MARKS`] are in addition.
pub const MARKS: &[Mark] = &[
    Mark::FORWARDED,
    Mark::LEAF_SPLIT,
    Mark::MERGE,
    Mark::EMPTIED_STAYS,
    Mark::NODE_REUSED,
    Mark::SCAN_RESTART,
    Mark::HOP,
    Mark::WRAP,
    Mark::HOP_SEEN,
    Mark::VACANCY_MISS,
    Mark::GUESS_WRONG,
    Mark::PURGE,
    Mark::REARRANGED,
    Mark::DOUBTED,
    Mark::UNGUESSED,
    Mark::SPECULATED,
    Mark::GUESSED_WRONG,
];

/// What the lanes of a compute node share for the locks of leaves.
pub struct LeafLocks<'s> {
    /// Local queues: `locks_per_node` entries per memory node, a waiter per lane.
    pub table: LockTable<'s>,
    /// Local entries per memory node, at least 1.
    pub locks_per_node: u32,
    /// Remembered free words, one place per local entry.
    pub words: WordTable<'s>,
}

/// A CHIME index on one compute node: all its lanes share this.
pub struct Chime<'s> {
    tree: Tree<'s>,
    leaf: LeafShape,
    buckets: Buckets,
    locks: LockTable<'s>,
    locks_per_node: u32,
    words: WordTable<'s>,
    hotspot: Hotspot<'s>,
    plan: ScratchPlan,
    bulk: Mutex<BulkLoad>,
}

impl<'s> Chime<'s> {
    /// Puts an index together. `tree.scratch` and `plan` come from [`Parameters::plan`]; `tree.cache` keeps next
    /// pointers ([`IndexCache::with_next`](crate::compute::cache::IndexCache::with_next)).
    pub fn new(
        tree: Tree<'s>,
        leaf_locks: LeafLocks<'s>,
        parameters: &Parameters,
        plan: ScratchPlan,
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self {
            tree,
            leaf: parameters.leaf(),
            buckets: Buckets::new(parameters.leaf_span),
            locks: leaf_locks.table,
            locks_per_node: leaf_locks.locks_per_node,
            words: leaf_locks.words,
            hotspot: Hotspot::default(),
            plan,
            bulk: Mutex::new(BulkLoad::default()),
        })
    }

    /// The same with a hotspot buffer.
    #[must_use]
    pub fn with_hotspot(self, hotspot: Hotspot<'s>) -> Self {
        Self { hotspot, ..self }
    }

    /// The part that B+-trees share.
    pub fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    /// The hotspot buffer.
    pub fn hotspot(&self) -> &Hotspot<'s> {
        &self.hotspot
    }

    /// Shape of leaves.
    pub fn leaf_shape(&self) -> &LeafShape {
        &self.leaf
    }

    /// Local lock entries with a holder, of leaves and of inner nodes.
    pub fn locks_held(&self) -> usize {
        self.locks.held() + self.tree.locks.held()
    }
}

impl<'s> Leaves<'s> for Chime<'s> {
    type LeafLocks = Self;

    type Router = Tree<'s>;

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

    fn walk_bytes(&self) -> usize {
        self.leaf.place_bytes()
    }

    fn whole(&self, look: Look<'_>) -> Result<(), DecodeError> {
        Leaf::in_look(&self.leaf, look).settled()
    }

    fn sorted(&self, look: Look<'_>, low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        Leaf::in_look(&self.leaf, look).sorted(low, high, slots)
    }

    fn read_records(&self, look: Look<'_>, slots: &[u16], bytes: usize, out: &mut [u8]) {
        self.leaf.read_records(look, slots, bytes, out);
    }

    fn check(&self, image: &[u8], low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError> {
        let records = Leaf::new(&self.leaf, image.get(..self.leaf.bytes).unwrap_or_default()).check(low, high)?;
        if word_at(image, self.leaf.bytes) & HELD != 0 {
            return Err(DecodeError::Corrupt("a leaf that is locked though nobody is at work"));
        }
        Ok(records)
    }

    fn append(&self, image: &mut [u8], _: usize, key: &[u8], value: &[u8]) -> bool {
        let home = self.leaf.home(key);
        let mut touched = Touched::default();
        LeafMut::new(&self.leaf, image).place(home, key, value, self.leaf.span, &mut touched).is_some()
    }

    fn seal(&self, image: &mut [u8]) {
        let version = stripes::node_version(image).unwrap_or(0);
        LeafMut::new(&self.leaf, image).seal(version);
    }

    fn push_companions(&self, lane: &Lane<'_>, address: Address, image: Span) {
        let port = lane.port();
        let vacancy = port.with(|scratch| self.buckets.exact(&Leaf::new(&self.leaf, image.of(scratch))));
        port.push(self.first_vacancy_request(address, vacancy));
        self.remember_vacancy(address, vacancy);
    }

    async fn read_leaf_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, Interrupt> {
        lane.mark(Mark::LOCKED_READ);
        let (held, _) = self.acquire(lane, target.address, None).await?;
        let found = Tree::read_locked(lane, target, false, look).await;
        self.release(lane, held).await?;
        Ok(found?)
    }

    fn leaf_locks(&self) -> &Self {
        self
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

impl<'s> Run<'s> for Chime<'s> {
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

impl Index for Chime<'_> {
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
        // Both, whatever comes of the first. Locks before the batch: its members may be queued behind them.
        let leaves = self.settle_locks(lane).await;
        self.tree.settle_locks(lane).await?;
        leaves?;
        self.tree.batches.settle(lane, &self.plan).await?;
        if self.look_after_pending(lane).await {
            lane.close(self.tree.scratch.small).await?;
            let leaves = self.settle_locks(lane).await;
            self.tree.settle_locks(lane).await?;
            leaves?;
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
