//! Errors, per layer: what a verb, a decoder or an operation can say. Each carries what a person needs to act.

use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::rpc::Reply;
use crate::verbs::{Label, NodeId, Status, Verb};
use thiserror::Error;

/// A signaled request that did not end with [`Status::Ok`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("memory node {node}: {verb} \"{label}\" at {offset:#x}: {status}", node = node.0, verb = verb.name(), label = label.name(), status = status.name())]
pub struct VerbError {
    /// How it ended.
    pub status: Status,
    /// What was asked.
    pub verb: Verb,
    /// The step of the algorithm.
    pub label: Label,
    /// Of which memory node.
    pub node: NodeId,
    /// Byte offset in its memory.
    pub offset: u64,
}

impl VerbError {
    /// More requests were pushed than a submit can carry; none was posted.
    pub(crate) const OVERFLOW: Self =
        Self { status: Status::Unsupported, verb: Verb::Read, label: Label::Wait, node: NodeId(0), offset: 0 };

    /// Whether the request may have taken effect although it failed.
    pub const fn effect_unknown(&self) -> bool {
        matches!(self.status, Status::Flushed | Status::NodeDown)
    }
}

/// Why bytes from a memory node could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Lines of different instants: READ again.
    #[error("torn image")]
    Torn,
    /// A sound image of something else than was looked for: refresh the path that led here.
    #[error("stale pointer")]
    Stale,
    /// An image no writer of ours produces.
    #[error("corrupt: {0}")]
    Corrupt(&'static str),
}

/// What an operation that failed did to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing; it never will.
    None,
    /// It may have taken effect, or may still until the queue pair it used is confirmed closed.
    Unknown,
    /// It took effect.
    Done,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// Remote bytes that no writer of ours produces.
    #[error("corrupt structure at {address}: {what}")]
    Corrupt {
        /// Where.
        address: Address,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The caller's deadline passed.
    #[error("deadline passed after {elapsed_ns} ns")]
    Deadline {
        /// Time the operation had spent waiting.
        elapsed_ns: u64,
    },
    /// The bound on retries was reached.
    #[error("gave up after {attempts} attempts at {what}")]
    Retries {
        /// How many.
        attempts: u32,
        /// At what.
        what: &'static str,
    },
    /// No memory node has room for a node this operation needs.
    #[error("the pool is full: no memory node has a free chunk")]
    PoolFull,
    /// A lock's holder seems dead, and a memory node did not confirm that it can write no more. Nothing was taken over.
    #[error("memory node {} cannot fence off compute-node row {}: {}", node.0, row.0, reply.name())]
    CannotFence {
        /// Whose row.
        row: RowId,
        /// Which memory node.
        node: NodeId,
        /// What it said.
        reply: Reply,
    },
    /// This compute node has been fenced off; it may join again as a new incarnation.
    #[error("this compute node has been fenced off")]
    Fenced,
    /// The operation was part of a batch whose leader was dropped or failed without knowing its effect.
    #[error("the operation that this one was combined with was lost")]
    LeaderLost,
    /// The caller asked for something impossible.
    #[error("{0}")]
    BadInput(&'static str),
}

/// An operation that did not end with an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{cause} ({})", match effect { Effect::None => "nothing was changed", Effect::Unknown => "it is unknown whether the change was made", Effect::Done => "the change was made" })]
pub struct OpError {
    /// What happened to the index nevertheless.
    pub effect: Effect,
    /// Why.
    pub cause: Cause,
}

impl OpError {
    /// An error of an operation that changed nothing.
    pub const fn harmless(cause: Cause) -> Self {
        Self { effect: Effect::None, cause }
    }
}

impl From<VerbError> for OpError {
    /// Before an operation posts its first WRITE or CAS nothing can have changed: that is what this says. Past that
    /// point algorithms set the effect themselves.
    fn from(error: VerbError) -> Self {
        Self::harmless(Cause::Verb(error))
    }
}
