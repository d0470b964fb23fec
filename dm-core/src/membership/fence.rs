//! Fencing: making sure that a compute node that is taken for dead can write no more.
//!
//! The row becomes FENCING. Then every memory node of the pool closes the row's queue pairs, and confirms that nothing
//! they carried can take effect any more. Then the row becomes DEAD. Any number of survivors may do this at once, and
//! each may die in the middle: the steps are a CAS that succeeds once, a call that may be repeated, and another such
//! CAS. Nothing is taken over before the last memory node has confirmed ([`takeover`](crate::manual::takeover)).

use crate::lane::Lane;
use crate::marks::Mark;
use crate::membership::rows;
use crate::memory::rows::RowError;
use crate::operation::{Cause, OpError};
use crate::remote::NodeGeometry;
use crate::remote::lock_word::RowId;
use crate::remote::row::{RowState, RowWord};
use crate::remote::rpc::{self, Reply};
use crate::verbs::{NodeId, Request, Status};

/// Pause between two calls of a memory node that is still closing queue pairs, in ns: first and longest.
const PENDING_NS: (u64, u64) = (10_000, 10_000_000);

/// Calls of one memory node before giving up, if the caller's deadline does not come first: some minutes.
const CALLS_MAX: u32 = 1 << 14;

/// Calls that may be lost.
const FLUSHED_MAX: u32 = 8;

/// Result of fencing a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// DEAD: its locks may be taken over.
    Dead,
    /// It is no longer the compute node that was suspected: that left, or another one has joined there.
    Gone,
}

/// The error of an operation that could not read or change a row.
pub(crate) fn row_error(error: RowError) -> OpError {
    match error {
        RowError::Verb(error) => error.into(),
        RowError::Fenced { .. } => OpError::harmless(Cause::Fenced),
        _ => OpError::harmless(Cause::BadInput("the compute-node rows of this pool cannot be read")),
    }
}

/// Fences the compute node whose row word is `seen` at every memory node. Returns when its row is DEAD.
///
/// [`Cause::CannotFence`] names the first memory node that did not confirm: then nothing may be taken over.
///
/// Round trips: a CAS, a call for each memory node (more while one reports that it is not done), a CAS.
pub async fn fence(lane: &Lane<'_>, geometry: &[NodeGeometry], row: RowId, seen: RowWord) -> Result<Fenced, OpError> {
    let Some(home) = geometry.first() else {
        return Err(OpError::harmless(Cause::BadInput("a pool without memory nodes")));
    };
    let mut word = seen;
    if word.state() == Some(RowState::Live) {
        word = rows::advance(lane, home, row, word, RowState::Fencing).await.map_err(row_error)?;
        if word.incarnation() != seen.incarnation() {
            return Ok(Fenced::Gone);
        }
    }
    match word.state() {
        Some(RowState::Dead) => return Ok(Fenced::Dead),
        Some(RowState::Fencing) => {}
        _ => return Ok(Fenced::Gone),
    }
    for number in 0..geometry.len() {
        confirm(lane, NodeId(number as u16), row, word.incarnation()).await?;
    }
    let word = rows::advance(lane, home, row, word, RowState::Dead).await.map_err(row_error)?;
    lane.mark(Mark::ROW_FENCED);
    // Another survivor may have been faster, even with the sweep.
    Ok(if word.incarnation() == seen.incarnation() && word.state() == Some(RowState::Dead) {
        Fenced::Dead
    } else {
        Fenced::Gone
    })
}

/// Asks one memory node until it confirms that nothing which this incarnation of the row posted can take effect any more.
pub(super) async fn confirm(lane: &Lane<'_>, node: NodeId, row: RowId, incarnation: u32) -> Result<(), OpError> {
    let cannot = |reply| OpError::harmless(Cause::CannotFence { row, node, reply });
    let mut pause_ns = PENDING_NS.0;
    let mut flushed = 0;
    for _ in 0..CALLS_MAX {
        let reply = match lane.port().call(rpc::fence(node, row, incarnation)).await {
            Ok(completion) => Reply::from_value(completion.value).unwrap_or(Reply::Unknown),
            // The fabric has no way to ask.
            Err(error) if error.status == Status::Unsupported => return Err(cannot(Reply::Unknown)),
            // The call or its reply was lost: ask again. A queue pair that fails for good reports that every time.
            Err(error) if error.status == Status::Flushed && flushed < FLUSHED_MAX => {
                flushed += 1;
                Reply::Pending
            }
            Err(error) => return Err(error.into()),
        };
        match reply {
            Reply::Done => return Ok(()),
            Reply::Pending => {}
            Reply::Unknown | Reply::Impossible => return Err(cannot(reply)),
        }
        lane.check_deadline()?;
        lane.port().call(Request::pause(pause_ns)).await?;
        pause_ns = (pause_ns * 2).min(PENDING_NS.1);
    }
    Err(OpError::harmless(Cause::Retries { attempts: CALLS_MAX, what: "fencing a compute node" }))
}
