//! A sorted array under one lock. Not for use: it shows what a new kind needs, and that the shared rooms serve it. Only
//! builds with the feature `toy` have it.
//!
//! ```text
//!  catalog                                     the chunk, on memory node 0
//! ┌───────────────────────────────────────┐   ┌──────────────────────────┬──────────────────────────┐
//! │ root word: chunk │ records │ version  │──►│ array 0: sorted records  │ array 1: sorted records  │
//! └───────────────────────────────────────┘   └──────────────────────────┴──────────────────────────┘
//!  lock word: in the lock table of memory node 0       versions 0, 2, 4 ...       versions 1, 3, 5 ...
//! ```
//!
//! # Round trips
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get, scan | 3 | READ root word; READ array; READ root word |
//! | ... of an empty index | 1 | READ root word |
//! | a write that changes the array | 4 | CAS lock; READ root word; READ array; WRITE other array + WRITE root word + CAS unlock |
//! | a write that changes nothing | 4 | CAS; READ; READ; CAS unlock |
//! | the first insert | 2 more or so | READ the chunk table; CAS of a chunk |
//!
//! [`Options::chain_lock_read`] makes a write's 4 a 3: the READ of the root word follows the CAS in its chain.
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`parameters`] | what is fixed at creation, and what a lane needs |
//! | [`layout`] | root word, arrays |
//!
//! The rest is shared: how an operation runs (`index::runner`), locks (`locks::protocol`), takeover and sweep
//! ([`crate::recovery`]), the grant of the chunk ([`crate::memory::chunks`]).
//!
//! # What a kind needs
//!
//! | crate | its own file | what is said there |
//! |---|---|---|
//! | dm-core | this room, and the parameters in [`parameters`] | how it works; sizes and limits |
//! | dm-host | `kinds/toy.rs` | what it borrows on a compute node |
//! | dm-sim | `verify/toy.rs` | what a seed decides, and what it looks like from outside |
//! | dm | `kinds/toy.rs` | its options |
//! | dm-tests | `subject/toy.rs` | which switches it has, and what has to happen to it in the suite |
//!
//! Besides a line for each of these modules, a number in [`IndexKind`](crate::remote::catalog::IndexKind), and a line
//! in [`for_each_kind`](crate::for_each_kind). A kind for use has that line in [`crate::registry`], and no features.
//!
//! # Why it is right
//!
//! **A writer** holds the lock. It READs root word and array, WRITEs the changed records to the other array, and then
//! the root word with the next version. The root word is one word, so a write takes effect at once or not at all:
//! that WRITE is its linearization point. The new array has landed by then (WRITE_THEN_WRITE), and the next holder of
//! the lock sees both (WRITE_THEN_ATOMIC, HOST_BEFORE_DEVICE; after a handover COMPLETION_IS_VISIBLE).
//!
//! **A reader** READs the root word, the array that it names, and when that READ has completed the root word again. It
//! believes the records if both words are equal. *Claim: then every byte that it READ is of that version v.* The array
//! of v is written next by the writer of v + 2. That writer has READ a root word of version v + 1 under the lock before
//! it posts the WRITE. So before a byte of the array changes, the root word has left v, and it does not come back: a
//! version does not occur twice. But the second READ of the root word found v, after all bytes of the array had been
//! READ. So none had changed. Nothing is asked of the order in which a READ meets the lines of the array, nor of one
//! line: LINE_ATOMIC and TIMED_READS are *not* needed. The operation linearizes at the second READ of the root word.
//!
//! A reader that has met [`READS_MAX`] other versions READs under the lock, so that no loop is without end.
//!
//! **A death** leaves the old root word or the new one, and bytes in the other array, which the next writer overwrites.
//! The dead is fenced before its lock is taken over, and a lane whose queue pair failed waits until that is closed
//! before it gives up the lock. So no WRITE of an earlier holder can land when the next one writes. There is nothing to
//! repair, and no redo record.
//!
//! **Remote bytes are untrusted.** A root word that names more records than an array has room for, or a chunk that the
//! pool does not have, is reported as corrupt. Records that are out of order lead to wrong answers of point operations,
//! but not outside of the array. A scan returns no page that does not ascend from its lower bound on, so whoever joins
//! pages comes to an end. [`Index::validate`] finds all.
//!
//! # What it assumes
//!
//! WORD_ATOMIC (root word), WRITE_THEN_WRITE, WRITE_THEN_ATOMIC, COMPLETION_IS_VISIBLE; HOST_BEFORE_DEVICE if the lock
//! table is in device memory; ATOMIC_THEN_READ if `chain_lock_read` is on. The root word is never under CAS, and words
//! under CAS are never written otherwise.
//!
//! # Limits
//!
//! - The version has 34 bits. A reader that is stopped between two READs while a multiple of 2^34 writes take effect
//!   may believe a mixture: five hours of a million writes a second.
//! - Everything lies on memory node 0, in one chunk. A full array is answered as a full pool.
//! - A compute node that died or was dropped between the grant of the chunk and the first WRITE leaves a chunk that
//!   nobody uses, unless it is the compute node that tries again.
//! - It follows no pointer that could grow old, and its chunk is never given back: it has a part in the epochs of the
//!   pool only for the items over it.
//! - Of [`Options`], it has `combine`, `hierarchical`, `back_off` and `chain_lock_read`. Lanes do not share operations.

#![cfg(feature = "toy")]

pub mod layout;
pub mod parameters;

use crate::btree::Options;
use crate::index::runner::{Run, Shared, UnderWay};
use crate::index::{Index, catalog};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, NO_DEADLINE_NS, word_at};
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::memory::Participant;
use crate::memory::chunks::{self, RequestIds, Want};
use crate::memory::rows::RowError;
use crate::operation::{Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, root_offset};
use crate::remote::chunk::{ChunkKind, Grant, RequestId};
use crate::remote::lock_word::{LockId, RowId, lock_of};
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Assumptions, Label, NodeId, Request, Space};
use core::future::Future;
use core::ops::Range;
use layout::{ArrayShape, CHUNKS_MAX, RootWord};
use parameters::{ParameterError, Parameters, Scratch};
use spin::Mutex;

/// The end of [`for_each_kind`](crate::for_each_kind), in builds that have this kind.
#[doc(hidden)]
#[macro_export]
macro_rules! kinds_of_this_build {
    ([$($make:tt)*] [$($kinds:tt)*] $($argument:tt)*) => {
        $($make)*! { [$($kinds)*, Toy toy] $($argument)* }
    };
}

/// Marks of this room; those of [`crate::memory::chunks::MARKS`] are in addition.
pub const MARKS: &[Mark] =
    &[Mark::TornRead, Mark::LockedRead, Mark::LockLost, Mark::LockQueued, Mark::HandOver, Mark::Settled];

/// Versions that a reader meets before it READs under the lock.
pub const READS_MAX: u32 = 8;

const OUT_OF_ORDER: &str = "records out of order";

const NOT_EMPTY: OpError = OpError::harmless(Cause::BadInput("a bulk load needs an empty index"));

/// What a toy index on one compute node is put together from.
pub struct Parts<'s> {
    /// Number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks. The first is for the index, all others for items over it.
    pub requests: &'s RequestIds,
    /// Memory nodes of the pool, by logical number; at least one, with [`CHUNKS_MAX`] chunks at most.
    pub geometry: &'s [NodeGeometry],
    /// Techniques.
    pub options: Options,
    /// Local queues, of all lock tables: a sweep looks at all of their words.
    pub locks: LockTable<'s>,
    /// What makes its lock recoverable; `None`: a dead holder's lock stays held.
    pub recovery: Option<&'s Recovery<'s>>,
    /// The part in the pool's epochs that items over it have.
    pub epochs: Option<Participant<'s>>,
}

/// A bulk load under way. Its records are in the scratch of the lane.
#[derive(Clone, Copy, Debug, Default)]
struct BulkLoad {
    records: usize,
    /// It did not fit.
    broken: bool,
}

/// A toy index on one compute node: all its lanes share this.
pub struct Toy<'s> {
    parts: Parts<'s>,
    /// The one chunk that it may ask for. A lane that asks again finds what was granted before.
    request: Option<RequestId>,
    /// Where the root word is. The lock of this address is that of the index.
    root_at: Address,
    array: ArrayShape,
    plan: ScratchPlan,
    scratch: Scratch,
    bulk: Mutex<BulkLoad>,
}

impl<'s> Toy<'s> {
    /// Puts an index together. `plan` comes from [`Parameters::plan`].
    pub fn new(
        parts: Parts<'s>,
        parameters: &Parameters,
        (plan, scratch): (ScratchPlan, Scratch),
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        let home = parts.geometry.first();
        debug_assert!(home.is_some_and(|home| home.chunk_count <= CHUNKS_MAX));
        let root_at = Address::new(HOME, home.map_or(0, |home| root_offset(home, parts.number)), 0);
        let (request, array, bulk) = (parts.requests.next(), parameters.array(), Mutex::new(BulkLoad::default()));
        Ok(Self { parts, request, root_at, array, plan, scratch, bulk })
    }

    /// Local lock entries with a holder.
    pub fn locks_held(&self) -> usize {
        self.parts.locks.held()
    }

    /// Numbers of this compute node's requests for chunks.
    pub const fn requests(&self) -> &'s RequestIds {
        self.parts.requests
    }

    /// Whether it has a part in the pool's epochs.
    pub const fn has_epochs(&self) -> bool {
        self.parts.epochs.is_some()
    }

    /// A turn of the epochs, for a compute node without a keeper of its heartbeat: [`Participant::turn`].
    pub async fn turn(&self, lane: &Lane<'_>) -> Result<(), RowError> {
        let (Some(part), Some(home)) = (self.parts.epochs, self.parts.geometry.first()) else { return Ok(()) };
        part.turn(lane, home, self.parts.owner, self.scratch.small).await
    }

    /// The memory node that has it all.
    fn home(&self) -> Result<&'s NodeGeometry, OpError> {
        self.parts.geometry.first().ok_or(self.corrupt("a pool without memory nodes"))
    }

    const fn corrupt(&self, what: &'static str) -> OpError {
        OpError::harmless(Cause::Corrupt { address: self.root_at, what })
    }

    fn root_request(&self) -> Request {
        Request::read(Label::Root, HOME, self.root_at.offset(), 8, self.scratch.small).untimed()
    }

    /// The root word that was READ, if it can be one.
    fn seen_root(&self, lane: &Lane<'_>) -> Result<RootWord, OpError> {
        let root = RootWord(word_at(lane, self.scratch.small));
        let Some(chunk) = root.chunk() else {
            return if root == RootWord::NONE { Ok(root) } else { Err(self.corrupt("a root word without a chunk")) };
        };
        if chunk >= self.home()?.chunk_count || root.records() > self.array.capacity {
            return Err(self.corrupt("a root word with more than there can be"));
        }
        Ok(root)
    }

    async fn read_root(&self, lane: &Lane<'_>) -> Result<RootWord, OpError> {
        lane.port().call(self.root_request()).await?;
        self.seen_root(lane)
    }

    /// Bytes and place of the records that `root` names.
    fn records_of(&self, root: RootWord) -> Result<(usize, u64), OpError> {
        let chunk = self.home()?.chunk_offset(root.chunk().unwrap_or(0));
        Ok((root.records() * self.array.record_bytes(), chunk + (root.array() * self.array.bytes()) as u64))
    }

    /// READs the records that `root` names into the image.
    async fn read_array(&self, lane: &Lane<'_>, root: RootWord) -> Result<(), OpError> {
        let (bytes, offset) = self.records_of(root)?;
        if bytes > 0 {
            let read = Request::read(Label::Leaf, HOME, offset, bytes, self.scratch.image.start);
            lane.port().call(read.untimed()).await?;
        }
        Ok(())
    }

    /// READs the array as it is at an instant of this call.
    async fn read(&self, lane: &Lane<'_>) -> Result<RootWord, Interrupt> {
        let mut root = self.read_root(lane).await?;
        for _ in 0..READS_MAX {
            if root.records() == 0 {
                return Ok(root);
            }
            self.read_array(lane, root).await?;
            let seen = root;
            root = self.read_root(lane).await?;
            if root == seen {
                return Ok(root);
            }
            lane.mark(Mark::TornRead);
            lane.check_deadline()?;
        }
        lane.mark(Mark::LockedRead);
        let (held, root) = self.lock(lane).await?;
        self.release(lane, held).await?;
        Ok(root)
    }

    /// Acquires the lock and READs the array.
    async fn lock(&self, lane: &Lane<'_>) -> Result<(Held, RootWord), Interrupt> {
        let follow = self.parts.options.chain_lock_read.then_some(());
        let (held, is_read) = self.acquire(lane, self.root_at, follow).await?;
        let root = if is_read { self.seen_root(lane) } else { self.read_root(lane).await };
        let read = match root {
            Ok(root) => self.read_array(lane, root).await.map(|()| root),
            Err(error) => Err(error),
        };
        match read {
            Ok(root) => Ok((held, root)),
            Err(error) => {
                self.release(lane, held).await?;
                Err(error.into())
            }
        }
    }

    async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        let root = self.read(lane).await?;
        Ok(self.decide(lane, OperationKind::Get, root.records())?.0)
    }

    async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let root = self.read(lane).await?;
        lane.port().with(|scratch| {
            let (front, image) = self.image(scratch, &self.scratch.image)?;
            let records = image.get(..root.records() * self.array.record_bytes()).unwrap_or_default();
            let key = part(front, &self.plan.key);
            let low = self.array.find(records, key);
            let start = low.unwrap_or_else(|gap| gap) + usize::from(operation.after && low.is_ok());
            let end = if operation.bounded {
                self.array.find(records, part(front, &self.plan.key_high)).unwrap_or_else(|gap| gap)
            } else {
                root.records()
            };
            let rest = end.saturating_sub(start);
            let count = rest.min(operation.limit as usize).min(self.plan.page_records());
            let record_bytes = self.array.record_bytes();
            let found = records.get(start * record_bytes..(start + count) * record_bytes).unwrap_or_default();
            if !self.array.ascend_from(found, key, operation.after) {
                return Err(self.corrupt(OUT_OF_ORDER).into());
            }
            let page = self.plan.page.start..self.plan.page.start + count * record_bytes;
            copy(front.get_mut(page), Some(found));
            Ok(Outcome::Page { records: count as u32, more: rest > count })
        })
    }

    async fn write(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let (held, root) = self.lock(lane).await?;
        match self.change(lane, kind, root).await {
            Ok((outcome, Some(next))) => {
                lane.change_is_next();
                self.publish(lane, held, next, self.scratch.image.start).await?;
                Ok(outcome)
            }
            unchanged => {
                self.release(lane, held).await?;
                Ok(unchanged?.0)
            }
        }
    }

    /// Changes the image, and has a chunk granted if there is none. The answer has the next root word, if there is one.
    async fn change(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        root: RootWord,
    ) -> Result<(Outcome, Option<RootWord>), Interrupt> {
        let (outcome, records) = self.decide(lane, kind, root.records())?;
        let Some(records) = records else { return Ok((outcome, None)) };
        Ok((outcome, Some(self.with_chunk(lane, root).await?.next(records))))
    }

    /// Decides what an operation does to the image of so many records, and does it. The answer has the number of
    /// records afterwards, if anything was changed.
    fn decide(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        records: usize,
    ) -> Result<(Outcome, Option<usize>), Interrupt> {
        use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
        let (array, plan) = (&self.array, &self.plan);
        lane.port().with(|scratch| {
            let (front, image) = self.image(scratch, &self.scratch.image)?;
            let known = image.get(..records * array.record_bytes()).unwrap_or_default();
            let at = match array.find(known, part(front, &plan.key)) {
                Ok(at) => at,
                Err(_) if !matches!(kind, Insert | Upsert) => return Ok((Outcome::Absent, None)),
                Err(_) if records >= array.capacity => return Err(Interrupt::NoMemory),
                Err(gap) => {
                    array.insert(image, records, gap, part(front, &plan.key), part(front, &plan.value));
                    return Ok((Outcome::Inserted, Some(records + 1)));
                }
            };
            let value = array.value(known, at);
            let differs = matches!(kind, UpdateIf | DeleteIf) && value != part(front, &plan.expected);
            if matches!(kind, Get | Insert) || differs {
                copy(front.get_mut(plan.output.clone()), Some(value));
            }
            Ok(match kind {
                Get | Scan => (Outcome::Found, None),
                Insert => (Outcome::Exists, None),
                UpdateIf | DeleteIf if differs => (Outcome::Mismatch, None),
                Delete | DeleteIf => {
                    array.remove(image, records, at);
                    (Outcome::Deleted, Some(records - 1))
                }
                Update | UpdateIf | Upsert => {
                    copy(array.value_mut(image, at), Some(part(front, &plan.value)));
                    (if kind == Upsert { Outcome::Replaced } else { Outcome::Updated }, Some(records))
                }
            })
        })
    }

    /// The root word with a chunk. The lane holds the lock: nobody else gives the index one.
    async fn with_chunk(&self, lane: &Lane<'_>, root: RootWord) -> Result<RootWord, Interrupt> {
        if root.chunk().is_some() {
            return Ok(root);
        }
        let Some(request) = self.request else { return Err(Interrupt::NoMemory) };
        let grant = Grant::new(self.parts.owner, ChunkKind::Other, self.parts.number, request);
        let want = Want { grant, retry: true, reuse: false, hint: 0 };
        let granted = chunks::grant(lane, HOME, self.home()?, &want, self.scratch.small).await?;
        granted.map(|granted| RootWord::of_chunk(granted.chunk)).ok_or(Interrupt::NoMemory)
    }

    /// WRITEs the records from scratch offset `at` on to the array of `next`, then `next`, and releases the lock.
    async fn publish(&self, lane: &Lane<'_>, held: Held, next: RootWord, at: usize) -> Result<(), OpError> {
        let (bytes, offset) = self.records_of(next)?;
        if bytes > 0 {
            lane.port().push(Request::write(Label::Node, HOME, offset, bytes, at));
        }
        lane.port().push(Request::write_word(Label::Root, HOME, self.root_at.offset(), next.0));
        lane.wrote_in_place();
        self.release_with(lane, held).await
    }

    /// The scratch before all images, and the image in `range`.
    fn image<'a>(&self, scratch: &'a mut [u8], range: &Range<usize>) -> Result<(&'a mut [u8], &'a mut [u8]), OpError> {
        let first = self.scratch.image.start;
        let split = scratch.split_at_mut_checked(first);
        let image = split.and_then(|(front, images)| {
            Some((front, images.get_mut(range.start.checked_sub(first)?..range.end.checked_sub(first)?)?))
        });
        image.ok_or(OpError::harmless(Cause::BadInput("scratch shorter than planned")))
    }

    /// Appends a record to the load in the scratch. `Err`: it cannot be the next one.
    fn append(&self, lane: &Lane<'_>, load: &mut BulkLoad) -> Result<(), OpError> {
        lane.port().with(|scratch| {
            let (front, image) = self.image(scratch, &self.scratch.load)?;
            let key = part(front, &self.plan.key);
            let loaded = image.get(..load.records * self.array.record_bytes()).unwrap_or_default();
            if self.array.find(loaded, key) != Err(load.records) {
                return Err(OpError::harmless(Cause::BadInput("keys of a bulk load must ascend")));
            }
            load.broken = load.records == self.array.capacity;
            if load.broken {
                return Err(OpError::harmless(Cause::PoolFull));
            }
            self.array.insert(image, load.records, load.records, key, part(front, &self.plan.value));
            load.records += 1;
            Ok(())
        })
    }
}

/// The bytes of an argument.
fn part<'a>(scratch: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    scratch.get(range.clone()).unwrap_or_default()
}

/// Copies bytes to a place that is as long.
fn copy(to: Option<&mut [u8]>, from: Option<&[u8]>) {
    if let (Some(to), Some(from)) = (to, from)
        && to.len() == from.len()
    {
        to.copy_from_slice(from);
    }
}

/// One lock, in the lock table of memory node 0. Others of the tables are taken over as well, by a sweep.
impl Locks for Toy<'_> {}

impl LockKind for Toy<'_> {
    const IN_NODES: bool = false;

    /// The root word.
    type Follow = ();

    fn queues(&self) -> &LockTable<'_> {
        &self.parts.locks
    }

    fn techniques(&self) -> Techniques {
        self.parts.options.of_locks()
    }

    fn recovery(&self) -> Option<&Recovery<'_>> {
        self.parts.recovery
    }

    fn row(&self) -> RowId {
        self.parts.owner.row
    }

    fn scratch_at(&self) -> usize {
        self.scratch.small
    }

    fn lock_of(&self, address: Address) -> Result<LockId, OpError> {
        Ok(lock_of(address, self.home()?.lock_count))
    }

    fn word_place(&self, lock: LockId, _: Address) -> (NodeId, u64, Space) {
        let geometry = self.parts.geometry.get(usize::from(lock.node.0));
        let (offset, space) = geometry.map_or((0, Space::Host), |node| (node.lock_offset(lock.index), node.lock_space));
        (lock.node, offset, space)
    }

    /// There is nothing else that the entry of its lock could be for.
    fn tag(&self, _: Address) -> u32 {
        0
    }

    fn push_follow(&self, lane: &Lane<'_>, _: &Held, (): ()) {
        lane.port().push(self.root_request());
    }

    /// Only of another index, whose lock it was taking over.
    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        match Recoverable::site(self) {
            Some(site) => site.replay_own(lane, lock_record).await,
            None => Ok(()),
        }
    }
}

impl Recoverable for Toy<'_> {
    fn site(&self) -> Option<Site<'_>> {
        let (geometry, owner, room) = (self.parts.geometry, self.parts.owner, &self.scratch.recovery);
        self.parts.recovery.map(|recovery| Site { recovery, geometry, owner, room })
    }
}

impl Sweep for Toy<'_> {
    type Tables = Self;

    type Leaves = Self;

    fn site(&self) -> Option<Site<'_>> {
        Recoverable::site(self)
    }

    fn number(&self) -> IndexNumber {
        self.parts.number
    }

    fn tables(&self) -> Option<&Self> {
        Some(self)
    }

    fn leaves(&self) -> Option<(&Self, usize)> {
        None
    }

    fn leaf_at(&self, node: NodeId, offset: u64) -> Address {
        Address::new(node, offset, 0)
    }

    /// All others: their locks may lie in leaves.
    async fn others(&self, lane: &Lane<'_>) -> Result<u32, OpError> {
        catalog::numbers(lane, self.home()?, self.scratch.small, |entry| entry.number != self.parts.number).await
    }
}

/// Its operations follow no pointer that could grow old.
impl UnderWay for () {}

impl<'s> Run<'s> for Toy<'s> {
    type UnderWay<'a, 'm>
        = ()
    where
        Self: 'a,
        'm: 'a;

    fn shared(&self) -> Shared<'_, 's> {
        let Parts { geometry, recovery, epochs, .. } = self.parts;
        Shared { plan: &self.plan, batches: None, recovery, epochs, geometry }
    }

    fn begin<'a>(&'a self, _: &'a Lane<'_>) {}

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
        Recoverable::look_after(self, lane, lock_record).await
    }
}

impl Index for Toy<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        let mut needed = Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_WRITE
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::COMPLETION_IS_VISIBLE;
        if self.parts.geometry.iter().any(|node| node.lock_space == Space::Device) {
            needed |= Assumptions::HOST_BEFORE_DEVICE;
        }
        if self.parts.options.chain_lock_read {
            needed |= Assumptions::ATOMIC_THEN_READ;
        }
        needed
    }

    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        self.perform(lane, operation)
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(Operation::WAIT_NS_DEFAULT);
        lane.close(self.scratch.small).await?;
        self.settle_locks(lane).await
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        lane.begin(NO_DEADLINE_NS);
        let root = self.read(lane).await.map_err(Interrupt::into_error)?;
        if root == RootWord::NONE {
            return Ok(Census::default());
        }
        let ascend = lane.port().with(|scratch| {
            let records = scratch.get(self.scratch.image.clone())?.get(..root.records() * self.array.record_bytes())?;
            Some(self.array.ascend(records))
        });
        if ascend != Some(true) {
            return Err(self.corrupt(OUT_OF_ORDER));
        }
        let (records, slots) = (root.records() as u64, self.array.capacity as u64);
        let live_bytes = self.array.place_bytes() as u64;
        let empty_leaves = u64::from(records == 0);
        Ok(Census { levels: 1, leaves: 1, records, slots, live_bytes, empty_leaves, ..Census::default() })
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let mut load = *self.bulk.lock();
        if load.broken {
            return Err(OpError::harmless(Cause::PoolFull));
        }
        if load.records == 0 && self.read_root(lane).await?.records() > 0 {
            return Err(NOT_EMPTY);
        }
        let appended = self.append(lane, &mut load);
        *self.bulk.lock() = load;
        appended
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let load = core::mem::take(&mut *self.bulk.lock());
        if load.broken {
            return Err(OpError::harmless(Cause::BadInput("the bulk load failed earlier: nothing of it is kept")));
        }
        if load.records == 0 {
            return Ok(());
        }
        let (held, root) = self.lock(lane).await.map_err(Interrupt::into_error)?;
        let root = if root.records() == 0 { self.with_chunk(lane, root).await } else { Err(NOT_EMPTY.into()) };
        match root {
            Ok(root) => self.publish(lane, held, root.next(load.records), self.scratch.load.start).await,
            Err(interrupt) => {
                self.release(lane, held).await?;
                Err(interrupt.into_error())
            }
        }
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        self.sweep_row(lane, row).await
    }

    fn cache_bytes(&self) -> (u64, u64) {
        (0, 0)
    }
}
