//! Errors of verbs, of decoders and of drivers. Each has what a person needs to act on it.

use crate::verbs::{Label, NodeId, Status, Verb};
use thiserror::Error;

/// A signaled request that did not end with [`Status::Ok`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("memory node {node}: {verb} \"{label}\" at {offset:#x}: {status}", node = node.0, verb = verb.name(), label = label.name(), status = status.name())]
pub struct VerbError {
    /// The status of its completion.
    pub status: Status,
    /// The verb.
    pub verb: Verb,
    /// The step of the algorithm.
    pub label: Label,
    /// The memory node.
    pub node: NodeId,
    /// Byte offset in its memory.
    pub offset: u64,
}

impl VerbError {
    /// More requests were pushed than one submit can have; none was posted.
    pub const OVERFLOW: Self =
        Self { status: Status::Unsupported, verb: Verb::Read, label: Label::Wait, node: NodeId(0), offset: 0 };

    /// Whether the request may have taken effect although it failed.
    pub const fn effect_unknown(&self) -> bool {
        matches!(self.status, Status::Flushed | Status::NodeDown | Status::Unanswered)
    }
}

/// Why bytes from a memory node could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Lines of different instants: READ again.
    #[error("torn image")]
    Torn,
    /// An intact image of another node than the wanted one: refresh the path that led here.
    #[error("stale pointer")]
    Stale,
    /// An image that no writer of this engine produces.
    #[error("corrupt: {0}")]
    Corrupt(&'static str),
}

impl DecodeError {
    /// An entry that is not in use is zero, in every kind of leaf. If it is not, it may be one that was.
    pub(crate) const UNUSED_NOT_ZERO: Self = Self::Corrupt("bytes of a record in an entry that is not in use");
    /// A leaf has each key once, and only keys within its fences.
    pub(crate) const TWICE_OR_OUTSIDE: Self = Self::Corrupt("a key twice in one leaf, or outside its leaf's fences");
}

/// A driver's call of a [`Port`](crate::port::Port) that does not follow the order of the port's documentation. Except
/// for [`Misuse::Dropped`], such a call has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Misuse {
    /// A completion, or the end of a submit, when the driver has no submit of this lane: before `begin` or after
    /// `finish`.
    #[error("no submit of the lane is in flight")]
    NotInFlight,
    /// A completion at a position that the submit does not have.
    #[error("the submit has no request at position {position}")]
    NotPosted {
        /// The position.
        position: usize,
    },
    /// A second completion of the same request. The first one counts.
    #[error("the request at position {position} was completed before")]
    CompletedTwice {
        /// The position.
        position: usize,
    },
    /// The submit ended, and a signaled request was not completed. The submit has ended all the same. All such requests
    /// count as [`Status::Flushed`]: they may have taken effect, or may still.
    #[error("the request at position {position} was dropped, and counts as flushed")]
    Dropped {
        /// The position of the first one.
        position: usize,
    },
    /// The lane was reset while the driver had a submit of it.
    #[error("a submit of the lane is in flight")]
    InFlight,
}
