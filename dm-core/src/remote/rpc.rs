//! What is asked of a memory node's daemon, by number. On the data path: nothing.
//!
//! A call is [`crate::verbs::Request::rpc`] with `[procedure, a, b, c]`; its result is the completion's value. Every
//! procedure may be called again after an unknown outcome: none counts how often it was called.

use crate::remote::lock_word::RowId;
use crate::verbs::{Label, NodeId, Request};

/// A procedure of the daemon. Numbers are part of the format: they are never given to another procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Procedure {
    /// Answers `a`.
    Ping = 1,
    /// Close every queue pair of compute-node row `a`, incarnations up to `b`, and accept none of them again. The
    /// answer is [`Reply::Done`] only when nothing they posted can take effect any more, [`Reply::Pending`] while
    /// that is not sure.
    Fence = 2,
    /// Close one broken queue pair: that of row `a`, incarnation `b`, number `c`. It may be made again under the same
    /// incarnation. Answers like [`Procedure::Fence`].
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
    /// Done, for good.
    Done = 1,
    /// Under way: ask again.
    Pending = 2,
    /// The daemon cannot promise it; nothing may be taken over.
    Impossible = 3,
}

impl Reply {
    /// In words.
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

/// Asks `node` to fence off `row` up to `incarnation`.
pub const fn fence(node: NodeId, row: RowId, incarnation: u32) -> Request {
    Request::rpc(Label::Row, node, [Procedure::Fence as u64, row.0 as u64, incarnation as u64, 0])
}
