//! The trait that every index implements, and what its operations promise.
//!
//! Point operations are linearizable. `scan` returns ascending keys, each at most once. Each pair was current at some
//! instant of the call, and keys that are present throughout the call are included. A scan is not a snapshot. Once an
//! operation has passed its linearization point it succeeds, even if another lane has to finish the structure change
//! that it began.
//!
//! **Where arguments and results are.** An operation's future holds no key and no value. They are in the lane's
//! scratch, at the ranges that [`ScratchPlan`] names. The caller writes the arguments with [`crate::port::Port::with`]
//! before it starts the future, and reads the results there after the future is done.

pub mod balance;
pub mod catalog;
pub mod forward;
pub(crate) mod marks;
pub mod mutants;
pub mod owners;
pub(crate) mod runner;

use crate::lane::Lane;
use crate::membership::lease::LeaseConfig;
use crate::memory::orphans::CollectedOrphans;
use crate::operation::{Cause, Census, OpError, Operation, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::remote::catalog::IndexSet;
use crate::remote::lock_word::RowId;
use crate::remote::owners::{LoadWord, Owner, OwnerWord};
use crate::verbs::{Assumptions, NodeId};
use core::future::Future;

/// How long a part stays kept for the compute node that it was moved to where there are no leases, in microseconds: as long as
/// between hosts that have some. The one for which it is kept looks much more often.
pub const PART_KEPT_US: u64 = LeaseConfig::HARDWARE.lease_ns() / 4000;

/// A range index on disaggregated memory.
///
/// All state that the lanes of a compute node share is inside and is `Sync`. All state of one operation is in its
/// lane and its future. The futures are not `Send`: a lane stays on its worker.
pub trait Index: Sync {
    /// Where arguments and results are.
    fn plan(&self) -> &ScratchPlan;

    /// What the fabric must guarantee for this index to be correct, as it is configured.
    fn assumptions(&self) -> Assumptions;

    /// Asks the processor for memory of the compute node at which an operation, whose key or bound is in the lane's scratch, will
    /// look first ([`Port::fetch`](crate::port::Port::fetch)). `true`: it is on its way, and other lanes may run meanwhile. To be
    /// called before [`Index::execute`], or not at all: no outcome depends on it.
    fn ask_ahead(&self, _lane: &Lane<'_>) -> bool {
        false
    }

    /// Runs one operation; see [`OperationKind`](crate::operation::OperationKind) for the outcomes of each.
    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a;

    /// Resolves what a dropped or failed operation left in the lane: lock records, a batch, unlinked nodes. To be
    /// called only after the port is idle again, when all posted requests have completed. Requests that failed with
    /// their queue pair may still take effect: settling waits until the queue pair is known to be closed, before it
    /// frees anything (`Lane::close`). If settling fails, it may be called again.
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Walks the whole structure and checks every invariant. The error is the first invariant that does not hold.
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<Census, OpError>> + 'a;

    /// Appends the record in `key` and `value` to a bulk load. Keys must ascend. The load belongs to this lane until
    /// [`Index::bulk_finish`], and the index must have been empty.
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Makes the bulk-loaded records visible, all at once.
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Sweeps the dead compute node of `row`: its locks, its unfinished structure changes, memory that it did not use,
    /// and the row itself. Does nothing if the compute node is alive. Safe while the pool is in use, and may be
    /// repeated. `done`: other indexes through which the caller has swept this row since it was fenced.
    fn sweep<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        row: RowId,
        done: IndexSet,
    ) -> impl Future<Output = Result<Swept, OpError>> + 'a;

    /// Collects memory of departed compute nodes for this compute node: see [`crate::memory`]. Safe while the pool is
    /// in use, and to be repeated. An index that cannot tell whose memory is does nothing.
    fn collect_orphans<'a>(
        &'a self,
        _lane: &'a Lane<'_>,
    ) -> impl Future<Output = Result<CollectedOrphans, OpError>> + 'a {
        async { Ok(CollectedOrphans::default()) }
    }

    /// Gives up what only this compute node has of the index, so that others find all of it in the pool: to be called
    /// before it leaves the pool, when no operation of it is under way. May be called again if it fails. Most kinds have
    /// nothing of this sort.
    fn leave<'a>(&'a self, _lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Ok(()) }
    }

    /// Waits for what an operation that writes waits for before it follows a pointer. An operation does so itself; one that
    /// is a step of another cannot, if it waits for epochs, since it has the pin of the whole: so the whole does, before its
    /// pin. Most kinds wait for nothing.
    fn await_writable<'a>(&'a self, _lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Ok(()) }
    }

    /// Whether keys have owners, and there are parts.
    fn has_parts(&self) -> bool {
        false
    }

    /// Into how many parts the keys are cut, if they have owners: one compute node at a time serves a part, and another
    /// one's operations on its keys end with [`Cause::NotOwner`]; a scan that found nothing in front of that part leaves in
    /// `key` where the part begins. 0: any compute node serves any key. Opens the index, where a compute node has to learn the
    /// boundaries of the parts.
    fn parts<'a>(&'a self, _lane: &'a Lane<'_>) -> impl Future<Output = Result<u32, OpError>> + 'a {
        async { Ok(0) }
    }

    /// Takes a part, unless a compute node that lives has it: then the error is
    /// [`Cause::NotOwner`]. An operation on a key of the part takes it, too, but does not
    /// wait until it is known whether an owner that is silent is dead; this does, for a lease.
    fn take_part<'a>(&'a self, _lane: &'a Lane<'_>, _part: u32) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Ok(()) }
    }

    /// Does what other compute nodes wait for that have asked for parts: gives up what is asked for, and takes what is kept for
    /// this compute node. To be called now and then, some times a lease, beside operations. Most kinds have nothing of this
    /// sort.
    fn keep_parts<'a>(&'a self, _lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Ok(()) }
    }

    /// Moves a part to the compute node of row `to`, which has opened the index: asks its owner, and waits until that has given
    /// the part up, `wait_ns` at most. Then the owner keeps it, and the error is
    /// [`Cause::Deadline`].
    fn move_part<'a>(
        &'a self,
        _lane: &'a Lane<'_>,
        _part: u32,
        _to: RowId,
        _wait_ns: u64,
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Err(OpError::harmless(Cause::BadInput("the keys of an index of this kind have no owners"))) }
    }

    /// Cuts the part that has `key` in two, in front of that key or a little before: where its leaf begins. This compute node owns it,
    /// and then both. Parts behind it have a number that is one more afterwards. Waits for `wait_ns` at most.
    fn cut_part<'a>(
        &'a self,
        _lane: &'a Lane<'_>,
        _key: &'a [u8],
        _wait_ns: u64,
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        async { Err(OpError::harmless(Cause::BadInput("the keys of an index of this kind have no owners"))) }
    }

    /// Moves the nodes of a part that are on memory node `from` to others, so that `from` becomes empty, and returns how many. This
    /// compute node owns the part. Operations go on. Of all parts, from the last one to the first one: then no pointer leads to
    /// `from` any more, unless others have split nodes there meanwhile; that is so once nothing moves from any part. Waits for
    /// `wait_ns` at most; what was moved by then has moved.
    fn vacate_part<'a>(
        &'a self,
        _lane: &'a Lane<'_>,
        _part: u32,
        _from: NodeId,
        _wait_ns: u64,
    ) -> impl Future<Output = Result<u64, OpError>> + 'a {
        async { Err(OpError::harmless(Cause::BadInput("the keys of an index of this kind have no owners"))) }
    }

    /// Who has a part, and how many operations come for its keys, as this compute node saw it last ([`Index::keep_parts`]). `None`:
    /// there is no such part, or the index is not open.
    fn part(&self, _part: u32) -> Option<(OwnerWord, LoadWord)> {
        None
    }

    /// The compute node that owns `key`, as this one saw it last. `None`: nobody does, or it is not known.
    fn owner_of(&self, key: &[u8]) -> Option<RowId> {
        match self.part(self.part_of(key))?.0.owner() {
            Ok(Owner::Owned(row)) => Some(row),
            _ => None,
        }
    }

    /// The part that has `key`: they are numbered in the order of their keys. Known once [`Index::parts`] has answered.
    fn part_of(&self, _key: &[u8]) -> u32 {
        0
    }

    /// Whether an operation is several ones of an index below, whose keys may have several owners. Then its lanes have room for
    /// messages ([`Lane::set_message_room`]), each of its steps is forwarded by itself, and the operations that others forward to it
    /// are such steps: they name their [`Caller`](crate::remote::row::Caller).
    fn forwards_steps(&self) -> bool {
        false
    }

    /// Where arguments and results of operations are that others forward: as [`Index::plan`], or that of the index below.
    fn served_plan(&self) -> &ScratchPlan {
        self.plan()
    }

    /// Bytes that the index cache uses now, and its limit.
    fn cache_bytes(&self) -> (u64, u64) {
        (0, 0)
    }
}
