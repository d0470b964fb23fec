//! Procedures of a memory node's daemon, by number. None is called on the data path.
//!
//! A call is [`crate::verbs::Request::rpc`] with `[procedure, a, b, c]`. Its result is the value of the completion.
//! Every procedure may be called again after an unknown outcome: none depends on how often it was called.

use crate::remote::lock_word::RowId;
use crate::verbs::{Label, NodeId, Request};

/// A procedure of the daemon. Numbers are part of the format: a number is never given to another procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Procedure {
    /// Returns `a`.
    Ping = 1,
    /// Closes every queue pair of compute-node row `a` with incarnations up to `b`, and accepts none of them again.
    /// The reply is [`Reply::Done`] only when nothing that they posted can take effect any more, and
    /// [`Reply::Pending`] while this is not certain.
    Fence = 2,
    /// Closes one broken queue pair: number `c` of row `a`, incarnation `b`. It may be set up again under the same
    /// incarnation. Replies like [`Procedure::Fence`].
    CloseQueuePair = 3,
}

impl Procedure {
    /// The procedure of that number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Ping),
            2 => Some(Self::Fence),
            3 => Some(Self::CloseQueuePair),
            _ => None,
        }
    }
}

/// The result of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Reply {
    /// The daemon has no such procedure.
    Unknown = 0,
    /// Done, permanently.
    Done = 1,
    /// Under way: call again.
    Pending = 2,
    /// The daemon cannot guarantee it. Nothing may be taken over.
    Impossible = 3,
}

impl Reply {
    /// The reply in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "it has no such procedure",
            Self::Done => "done",
            Self::Pending => "under way",
            Self::Impossible => "impossible",
        }
    }

    /// The reply of that value.
    pub const fn from_value(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::Unknown),
            1 => Some(Self::Done),
            2 => Some(Self::Pending),
            3 => Some(Self::Impossible),
            _ => None,
        }
    }
}

/// Asks `node` to fence `row` up to `incarnation`.
pub const fn fence(node: NodeId, row: RowId, incarnation: u32) -> Request {
    Request::rpc(Label::Row, node, [Procedure::Fence as u64, row.0 as u64, incarnation as u64, 0])
}
