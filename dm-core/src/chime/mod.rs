//! CHIME: a B+-tree whose leaves are hopscotch tables, so that a get READs the neighborhood of its key and not the leaf.
//!
//! After Luo et al., "CHIME: A Cache-Efficient and High-Performance Hybrid Index on Disaggregated Memory" (SOSP 2024).
//!
//! # Round trips
//!
//! With the leaf's address from the cached route (a miss adds one READ per level that is not cached):
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get | 1 | READ neighborhood (two READs in one chain if it goes on at the first entry) |
//! | get of a key that the hotspot buffer knows | 1 | READ entry; if it was wrong, one more for the neighborhood |
//! | update, delete, upsert of a present key | 3 | CAS lock; READ neighborhood; WRITE entry + CAS unlock |
//! | ... update, upsert, `update_if` of one that the hotspot buffer knows | 3 | CAS lock; READ entry; WRITE entry + CAS unlock |
//! | insert | 3 | CAS lock; READ hop range; WRITE entries + CAS unlock |
//! | ... if the lock word promised room where there was none | 4 | + READ leaf |
//! | ... if no hop makes room and another arrangement does (one in 30) | 3 or 4 | CAS lock; READ leaf; WRITE leaf + CAS unlock |
//! | update or delete of an absent key, insert of a present one | 3 | CAS; READ neighborhood; CAS unlock |
//! | insert that splits a leaf, sibling on the same memory node | 3 + 3 | CAS; READ leaf; WRITE sibling + CAS vacancy + WRITE node + CAS unlock; then the parent: CAS; READ parent + READ sibling's line; WRITE parent + CAS unlock |
//! | ... inner splits, new root | | as Sherman's |
//! | delete that empties a leaf | 3 + 9 or so | as above; then as Sherman's |
//! | scan of n leaves | 1 + n / leaves READ at once | READ leaves the cached parent names, in parallel |
//! | a leaf that its cached parent describes wrongly | + 2 | READ neighborhood; READ parent; go on |
//! | a half-split leaf whose parent does not know | + 1, + 1 | READ leaf; READ sibling; and the split is finished |
//!
//! A lock handed over saves the CAS and the unlock. Without masked atomics a lock's CAS has to guess the free word; a wrong
//! guess is one round trip more. [`Options::chain_lock_read`](crate::btree::Options) makes the 3 a 2: entry, neighborhood or,
//! of an insert, the hop range that the word's last known vacancy asks for is READ behind the CAS in its chain.
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
//! | `split` | what an insert does when there is no way |
//! | `merge` | what a delete does when it took the last record |
//!
//! Inner nodes and their locks, descents, linking, scans, bulk loads and the walk are [`crate::btree`]'s.
//!
//! # Why a part of a leaf is enough to know which leaf it is
//!
//! A neighborhood has no fences, but it has a replica: generation, in use or not, sibling. The descent brings the child
//! `p` that the parent names for the key, and the child `s` that it names next. If the replica has the generation of `p`, is
//! in use and has the sibling `s`, generation included, the leaf covers the key:
//!
//! - A low fence never changes while a node lives, and the generations say that both lives are those the parent meant. The
//!   parent, however old its copy, said of them: `low(p) <= key < low(s)`.
//! - A live leaf covers `low(p)` to its high fence, which is the low fence of its sibling: the level is a list that partitions
//!   the keys. Its sibling is `s`. So it covers the key.
//!
//! Boundaries move only by WRITEs of the whole leaf, which raise NV; all parts that were READ agree on NV. For the last
//! child of a parent, `s` comes from the parent's next pointer ([`crate::btree::inner`]). At the right edge it is null, on
//! both sides; the root alone has no parent, and covers everything iff it has no sibling.
//!
//! A generation that did not change when a boundary moved does no harm here: the sibling changes with every boundary, and
//! it cannot come back, since a place that returns has another generation.
//!
//! # Why a key that is there is found
//!
//! Lines are READ at different instants, and a key may hop from where the reader comes too late to where it has been too
//! early. The reader compares: each bit of the home's bitmap, as READ, must lead to a key of that home, as READ. Claim: a
//! key `k` that is in the leaf throughout is found, or some bit leads to no such key.
//!
//! Let `x` be where `k` was at the instant the bitmap was READ, so `x`'s bit is set. Entry `x` was READ at another instant. If
//! it had `k` then, `k` is found. If it was empty, the bit leads nowhere. Else it had another key; and between two WRITEs of
//! the whole leaf an entry never has two different keys of one home ([`hop`], "the rule"): so that key is not of this home,
//! and the bit leads to no key of it. This holds for any number of hops, inserts and deletes during the READ.
//!
//! The rule is why a delete does not empty the entry: it says *dead*, and key and bit stay until another key may take the
//! place, or the leaf is written as a whole. (With deletes that empty the entry two writes are enough to miss a key: the
//! reader sees `j` at `x`; `j` is deleted; an insert makes `k`, of the same home, hop to `x`; the reader sees the bitmap and
//! where `k` was before.) A search that meets nothing but its key dead answers *absent*, which it was at that instant.
//!
//! # Why one entry can be enough
//!
//! Where a key was last seen is remembered ([`crate::compute::hotspot`]), and that one entry is READ: no replica, no bitmap.
//! It does not tell its leaf's fences or sibling, so nothing follows from *not* finding the key there. Claim: an entry that
//! is of one WRITE, says *live*, has the key and shows the generation of the pointer `p` that the READ followed, has the
//! key's current value at some instant of the READ.
//!
//! By the generation it is an entry of `p`'s leaf in the life that `p` means; a retired leaf shows the next generation in
//! every entry. (The published entry does not tell one life from the next. Without that the claim is false: the place may
//! be in use again for the sibling of a split that has not happened yet, or never does, with a record in the same entry.)
//! A pointer of that life exists only since the leaf was linked. So what is left is an entry of a live leaf, and how a
//! key can leave it or change in it:
//!
//! - *Updates, deletes and inserts of a deleted key* change the entry itself, under the leaf's lock: the entry has the newest.
//! - *Hops* copy the record to another entry of the leaf and put another key in its place, by WRITEs that have landed before
//!   the lock is free. Nobody changes the copy before, so until its old place is overwritten both are current.
//! - *Splits* vacate the entry by the WRITE of the whole leaf. Nobody gets to the sibling before that has landed everywhere
//!   (`split`), so until then nobody changes the copy there.
//! - *Merges* copy records to the left neighbour and retire the leaf; both stay locked until all WRITEs have landed.
//!
//! In short: a copy of a record can be changed only after the record it was copied from is gone. Under the leaf's lock the
//! same entry is enough to change the value: the leaf has the key, so it is the key's leaf. Whoever repairs a leaf keeps
//! this up: no entry of a leaf in use is live that is not within its fences.
//!
//! # When a compute node dies
//!
//! As for every B+-tree ([`crate::recovery`]); what is CHIME's own:
//!
//! - A lock word in a leaf names row and acquisition. Where the leaf has room, which the word says while it is free, is READ
//!   from the leaf by whoever ends a dead holder's acquisition (`lock`).
//! - A change of a record is one WRITE, or two if its entries go on at the first one. If it may land in part - it spans crash
//!   units, or is two - a redo image of all of it goes before it in its chain, so after the takeover it is there wholly
//!   or not at all: no hop that has left and not arrived, no bit without its key.
//! - A range of entries begins in the middle of a line. If it is longer than a packet it is posted as two WRITEs, so that
//!   the packets end where lines end ([`crate::recovery`], "Where packets end"): a line of which half had landed would show
//!   one version to all of its entries, and a record of two halves.
//! - Until then readers see what is there. Lines that landed and lines that did not are like lines READ at two instants, one
//!   before the change and one after it, so what was said above holds: no key is missed without notice, and the value of
//!   one that moves is the same in both places. What a reader has seen of the change stays: if any of it landed, its image
//!   did.
//! - Locks are swept in every place that ever was a leaf's, in use or not: an old pointer is all it takes to lock one.
//!
//! # What it assumes
//!
//! LINE_ATOMIC, WORD_ATOMIC (versions), WRITE_THEN_WRITE (sibling before node), WRITE_THEN_ATOMIC (entries before
//! unlock), COMPLETION_IS_VISIBLE. FAILED_CAS_IS_SILENT and ATOMIC_EXCLUDES_WRITE are *not* needed: words under CAS are never
//! written otherwise, from the first life of a place to the last. HOST_BEFORE_DEVICE if the lock table of inner nodes is in
//! device memory; ATOMIC_THEN_READ if `chain_lock_read` is on; TIMED_READS, since versions have four bits.
//!
//! # Where it departs from the paper, and why
//!
//! - **Leaves keep their fences**, once, in the header; no largest key in the lock word. A half-split is decided by the fence
//!   and not by the largest key, which deletes can move; the separator need not be the largest key plus one.
//! - **The sibling's generation** is compared with the sibling, and the replica's with the pointer: leaves are retired and
//!   reused here.
//! - **A parent names what comes after its last child** (also in the authors' code, not in the paper).
//! - **An insert READs the whole neighborhood** at least; the paper's stops at the first entry with room, and puts a key that
//!   lies behind it into the leaf twice.
//! - **Every entry whose bytes change raises its EV**, the home whose bitmap changes included.
//! - **Deletes**, with dead records; the paper clears the entry (above).
//! - **A leaf that no hop helps is rearranged** before it is split, and splits at the median of its records if that makes room
//!   for the new one on its side: after random inserts leaves are 65 % full (H = 8), instead of 59 %. Readers do not
//!   notice: a record is always within the neighborhood of its home.
//! - **An occupied flag**, not reserved keys and values.
//! - **Entries repeat the generation**, which makes READs of single entries safe.
//! - **Lock words** name their holder while held, and are released by CAS; 63 bits of vacancy, which is a hint.
//! - **A new sibling is written unlocked**: see `split` for why that is safe here.
//! - **A whole leaf can be joined** with an empty neighbour; a half-split is finished by whoever finds it.
//!
//! # Open limits
//!
//! - Inner nodes are never merged; leaves are joined when one is empty, not when they are merely sparse.
//! - A generation has six bits: a pointer that survives 64 lives of one place unused passes the generation check.
//! - A row of a compute node that had opened an index without recovery stays dead if the pool has other indexes of this kind:
//!   nothing says whose leaves may name it ([`crate::btree::sweep`]).
//! - Opened without recovery, an index waits for the locks of the dead until its deadlines pass. A leaf torn by a writer that
//!   died, or whose queue pair failed between the two WRITEs of a range that goes on at the first entry, is then reported as
//!   corrupt.
//! - `entry_writes` off is Sherman's: it is ignored.

pub mod hop;
pub mod layout;
mod lock;
mod merge;
pub mod parameters;
mod search;
mod speculate;
mod split;
pub mod vacancy;
mod write;

use crate::btree::Tree;
use crate::btree::bulk::Bulk;
use crate::btree::leaves::{Leaves, SPAN_MAX, slice, slice_mut};
use crate::btree::load::BulkLoad;
use crate::btree::merge::{BOUNCES_MAX, Merge};
use crate::btree::read::Target;
use crate::btree::scan::Scan;
use crate::compute::hotspot::Hotspot;
use crate::compute::words::WordTable;
use crate::error::DecodeError;
use crate::index::Index;
use crate::index::runner::{Run, Shared};
use crate::lane::Debt;
use crate::lane::Lane;
use crate::layout::{stripes, word_at};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::marks::Mark;
use crate::memory::epochs::Pinned;
use crate::memory::orphans::Adopted;
use crate::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::verbs::{Assumptions, Space};
use layout::{Leaf, LeafMut, LeafShape, Touched};
use parameters::{ParameterError, Parameters};
use spin::Mutex;
use vacancy::{Buckets, HELD};

/// Marks that this room counts itself; those of [`crate::btree::MARKS`] and [`crate::memory::chunks::MARKS`] come on top.
pub const MARKS: &[Mark] = &[
    Mark::Forwarded,
    Mark::LeafSplit,
    Mark::Merge,
    Mark::NodeReused,
    Mark::ScanRestart,
    Mark::Hop,
    Mark::Wrap,
    Mark::HopSeen,
    Mark::VacancyMiss,
    Mark::GuessWrong,
    Mark::Purge,
    Mark::Rearranged,
    Mark::Doubted,
    Mark::Unguessed,
    Mark::Speculated,
    Mark::GuessedWrong,
];

/// What the lanes of a compute node share for the locks of leaves.
pub struct LeafLocks<'s> {
    /// Local queues: `locks_per_node` entries per memory node, a waiter per lane.
    pub table: LockTable<'s>,
    /// Local entries per memory node, at least 1.
    pub locks_per_node: u32,
    /// Remembered words, one place per local entry.
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
    /// Puts an index together. `tree.scratch` and `plan` come from [`Parameters::plan`]; `tree.cache` keeps next pointers
    /// ([`IndexCache::with_next`](crate::compute::cache::IndexCache::with_next)).
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

    fn tree(&self) -> &Tree<'s> {
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

    fn whole(&self, image: &[u8]) -> Result<(), DecodeError> {
        Leaf::new(&self.leaf, image).settled()
    }

    fn sorted(&self, image: &[u8], low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        Leaf::new(&self.leaf, image).sorted(low, high, slots)
    }

    fn read_record(&self, image: &[u8], slot: usize, out: &mut [u8]) {
        Leaf::new(&self.leaf, image).read_record(slot, out);
    }

    fn check(&self, image: &[u8], low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError> {
        let records = Leaf::new(&self.leaf, slice(image, 0, self.leaf.bytes)).check(low, high)?;
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

    fn push_companions(&self, lane: &Lane<'_>, address: Address, at: usize) {
        let port = lane.port();
        let image =
            |scratch: &mut [u8]| self.buckets.exact(&Leaf::new(&self.leaf, slice_mut(scratch, at, self.leaf.bytes)));
        let vacancy = port.with(image);
        port.push(self.first_vacancy_request(address, vacancy));
        self.remember_vacancy(address, vacancy);
    }

    async fn read_leaf_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        lane.mark(Mark::LockedRead);
        let (held, _) = self.acquire(lane, target.address, None).await?;
        let found = self.tree.read_locked(lane, target, false, look).await;
        self.release(lane, held).await?;
        found
    }

    fn leaf_locks(&self) -> &Self {
        self
    }

    async fn look_after_bounce(&self, lane: &Lane<'_>, left: Address, right: Address) -> Result<(), OpError> {
        if lane.bounced_more_than(BOUNCES_MAX) {
            self.undo_merge(lane, left, right).await?;
        }
        Ok(())
    }
}

impl<'s> Run<'s> for Chime<'s> {
    type UnderWay<'a, 'm>
        = Pinned<'s>
    where
        Self: 'a,
        'm: 'a;

    fn shared(&self) -> Shared<'_, 's> {
        self.tree.shared(&self.plan)
    }

    fn begin<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> Pinned<'s> {
        self.tree.pin(lane)
    }

    async fn attempt_once(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, OpError> {
        match operation.kind {
            OperationKind::Get => self.get(lane).await,
            OperationKind::Scan => self.scan(lane, operation).await,
            kind => self.write(lane, kind).await,
        }
    }

    async fn look_after(&self, lane: &Lane<'_>, debt: Debt) -> Result<(), OpError> {
        self.tree.look_after(self, lane, debt).await
    }
}

impl Index for Chime<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        let mut needed = Assumptions::LINE_ATOMIC
            | Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_WRITE
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::COMPLETION_IS_VISIBLE
            | Assumptions::TIMED_READS;
        if self.tree.geometry.iter().any(|node| node.lock_space == Space::Device) {
            needed |= Assumptions::HOST_BEFORE_DEVICE;
        }
        if self.tree.options.chain_lock_read {
            needed |= Assumptions::ATOMIC_THEN_READ;
        }
        needed
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
        lane.set_deadline(Operation::WAIT_NS_DEFAULT);
        lane.close(self.tree.scratch.small).await?;
        let _pinned = self.tree.pin(lane);
        // Both, whatever comes of the first. Locks before the batch: its members may be queued behind them.
        let leaves = self.settle_locks(lane).await;
        self.tree.settle_locks(lane).await?;
        leaves?;
        self.tree.batches.settle(lane, &self.plan).await?;
        if self.look_after_pending(lane).await {
            let leaves = self.settle_locks(lane).await;
            self.tree.settle_locks(lane).await?;
            leaves?;
        }
        Ok(())
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        lane.set_deadline(u64::MAX);
        lane.forget_watch();
        let _pinned = self.tree.pin(lane);
        self.mend_and_walk(lane).await
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.set_deadline(u64::MAX);
        self.bulk_next(lane).await
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.set_deadline(u64::MAX);
        self.bulk_end(lane).await
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        lane.set_deadline(u64::MAX);
        self.check_standing()?;
        let _pinned = self.tree.pin(lane);
        self.sweep_and_mend(lane, row).await
    }

    async fn adopt<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Adopted, OpError> {
        self.adopt_all(lane).await
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let usage = self.tree.cache.usage();
        (usage.used_bytes, usage.budget_bytes)
    }
}
