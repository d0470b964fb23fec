//! The trait every index implements, and what its operations promise.
//!
//! Point operations are linearizable. `scan` returns ascending keys, each at most once, each pair current at some
//! instant of the call, keys present throughout included; it is not a snapshot. Past its linearization point an
//! operation succeeds even if somebody else must finish the structure change it began.
//!
//! **Where arguments and results are.** An operation's future holds no key and no value: they are in the lane's
//! scratch, at the places [`ScratchPlan`] names. The caller writes them with [`crate::port::Port::with`] before it
//! starts the future and reads the result there after it is done.

pub mod catalog;
pub(crate) mod runner;

use crate::lane::Lane;
use crate::memory::orphans::Adopted;
use crate::operation::{Census, OpError, Operation, Outcome, ScratchPlan};
use crate::recovery::Swept;
use crate::remote::lock_word::RowId;
use crate::verbs::Assumptions;
use core::future::Future;

/// A range index on disaggregated memory.
///
/// All state shared by the lanes of a compute node is inside and is `Sync`; all state of one operation is in its lane
/// and its future. The futures are not `Send`: a lane stays on its worker.
pub trait Index: Sync {
    /// Where arguments and results are.
    fn plan(&self) -> &ScratchPlan;

    /// What the fabric must grant for this index to be correct, as configured.
    fn assumptions(&self) -> Assumptions;

    /// Runs one operation; see [`OperationKind`](crate::operation::OperationKind) for what each answers.
    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a;

    /// Pays what a dropped operation left in the lane's ledger. Call it only after the port is idle again: all posted
    /// requests have completed. Those that failed with their queue pair may still take effect: settling itself waits until that is
    /// known to be closed, before it frees anything (`Lane::close`). It may be called again if it fails.
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Walks the whole structure and checks every invariant; the first one broken is the error.
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<Census, OpError>> + 'a;

    /// Appends the record in `key` and `value` to a bulk load; keys must ascend. The load belongs to this lane until
    /// [`Index::bulk_finish`], and the index must have been empty.
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Makes the bulk-loaded records visible, all at once.
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a;

    /// Sweeps up after the dead compute node of `row`: its locks, what it left half done, memory it had no use for, and
    /// the row itself. One that lives is left alone. Safe while the pool is in use, and to be repeated.
    fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> impl Future<Output = Result<Swept, OpError>> + 'a;

    /// Makes memory of compute nodes that are gone this compute node's: see [`crate::memory`]. Safe while the pool is in use, and
    /// to be repeated. An index without a way to tell whose memory is does nothing.
    fn adopt<'a>(&'a self, _lane: &'a Lane<'_>) -> impl Future<Output = Result<Adopted, OpError>> + 'a {
        async { Ok(Adopted::default()) }
    }

    /// Bytes the index cache uses now, and at most.
    fn cache_bytes(&self) -> (u64, u64);
}
