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
//! | a write that changes the array | 4 | CAS lock; READ root word; READ array; WRITE other array + WRITE root word + unlock |
//! | a write that changes nothing | 4 | CAS; READ; READ; unlock |
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
//! | `search`, `write`, `bulk` | how records are read, written and loaded |
//! | `lock`, `recover` | what the shared rooms have to know of its lock |
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
//! A reader that has met `search::READS_MAX` other versions READs under the lock, so that no loop is without end.
//!
//! **A death** leaves the old root word or the new one, and bytes in the other array, which the next writer overwrites.
//! The dead is fenced before its lock is taken over, and a lane whose queue pair failed waits until that is closed
//! before it gives up the lock. So no WRITE of an earlier holder can land when the next one writes. There is nothing to
//! repair, and no redo record.
//!
//! **Remote bytes are untrusted.** A root word that names more records than an array has room for, or a chunk that the
//! pool does not have, is reported as corrupt. Records that are out of order lead to wrong answers of point operations,
//! but not outside of the array. A scan returns no page that does not ascend from its lower bound on, so a caller that joins
//! pages comes to an end. [`Index::validate`] finds all.
//!
//! # What it assumes
//!
//! WORD_ATOMIC (root word), WRITE_THEN_WRITE, WRITE_THEN_ATOMIC, COMPLETION_IS_VISIBLE; HOST_BEFORE_DEVICE if the lock
//! table is in device memory; ATOMIC_THEN_READ if READs follow CASes. The root word is never under CAS, and words
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
//! - Of [`Options`], it has `combine`, `hierarchical`, `back_off`, `chain_lock_read` and `unlock`. Lanes do not share operations.

#![cfg(feature = "toy")]

mod bulk;
pub mod layout;
mod lock;
pub(crate) mod marks;
pub mod mutants;
pub mod parameters;
mod recover;
mod search;
mod write;

use crate::btree::Options;
use crate::index::Index;
use crate::index::runner::{Run, Shared, UnderWay};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, NO_DEADLINE_NS};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::locks::{ChainedRead, Unlock};
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::memory::Participant;
use crate::memory::chunks::RequestIds;
use crate::memory::rows::RowError;
use crate::operation::span::Span;
use crate::operation::{Arguments, Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::Recoverable;
use crate::registry::{KindParameters, ParameterError};
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet, root_offset};
use crate::remote::chunk::RequestId;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Assumptions, Space};
use bulk::BulkLoad;
use core::future::Future;
use layout::{ArrayShape, CHUNKS_MAX, RootWord};
use parameters::{Parameters, Scratch};
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
    &[Mark::TORN_READ, Mark::LOCKED_READ, Mark::LOCK_LOST, Mark::LOCK_QUEUED, Mark::HAND_OVER, Mark::SETTLED];

const OUT_OF_ORDER: &str = "records out of order";

const SHORT: OpError = OpError::harmless(Cause::BadInput("scratch shorter than planned"));

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

    /// Records for which its array has room.
    pub const fn capacity(&self) -> u64 {
        self.array.capacity as u64
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

    /// Arguments and results of the operation, and an image behind them.
    fn arguments<'a>(&'a self, image: Span, scratch: &'a mut [u8]) -> Result<(Arguments<'a>, &'a mut [u8]), OpError> {
        self.plan.arguments_and(image, scratch).map_err(|_| SHORT)
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
        if self.parts.options.chain_lock_read != ChainedRead::Never {
            needed |= Assumptions::ATOMIC_THEN_READ;
        }
        needed | self.parts.options.unlock.min(Unlock::Write).needs()
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
        if !lane.port().with(|scratch| self.array.ascend(self.scratch.image.of(scratch), 0..root.records())) {
            return Err(self.corrupt(OUT_OF_ORDER));
        }
        let (records, slots) = (root.records() as u64, self.array.capacity as u64);
        let live_bytes = self.array.place_bytes() as u64;
        let empty_leaves = u64::from(records == 0);
        Ok(Census { levels: 1, leaves: 1, records, slots, live_bytes, empty_leaves, ..Census::default() })
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.append_to_load(lane).await
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.finish_load(lane).await
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        self.sweep_row(lane, row, done).await
    }
}
