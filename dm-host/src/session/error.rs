//! Errors of opening a session and of its calls.

use crate::assembly::AssemblyError;
use crate::error_text::debug_is_text;
use crate::fabric::any::FabricError;
use crate::kinds::{IndexParameterError, IndexParameters};
use crate::pool::PoolError;
use dm_core::operation::{Effect, OpError};
use std::time::Duration;
use thiserror::Error;

/// Why there is no session. Its `Debug` is its text.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An operation on the pool or its catalog failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A fabric for a worker cannot be made.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The index cannot be put together.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// No index can have these parameters.
    #[error(transparent)]
    Parameters(#[from] IndexParameterError),
    /// An option is out of range.
    #[error("{option} {given}: a session takes {min} to {max}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given.
        given: usize,
        /// The least value.
        min: usize,
        /// The greatest value.
        max: usize,
    },
    /// The index exists, with sizes other than asked for.
    #[error("index \"{name}\" has keys of {} and values of {} bytes, not {} and {}", found.0, found.1, wanted.0, wanted.1)]
    Sizes {
        /// Its name.
        name: String,
        /// Its key and value bytes.
        found: (usize, usize),
        /// The key and value bytes that were asked for.
        wanted: (usize, usize),
    },
    /// The index exists, and is of another kind than asked for, though of the same sizes.
    #[error("index \"{name}\" is a {found}; asked for is a {wanted}")]
    Other {
        /// Its name.
        name: String,
        /// The index that exists.
        found: Box<IndexParameters>,
        /// The index that was asked for.
        wanted: Box<IndexParameters>,
    },
    /// The index exists, and either it or what was asked for has keys and values of any length, but not both.
    #[error("index \"{name}\" has keys and values of {}, not of {}", lengths(*any_length), lengths(!*any_length))]
    Lengths {
        /// Its name.
        name: String,
        /// Whether those of the existing index have any length.
        any_length: bool,
    },
    /// The index has no room for the keys or the values of a table.
    #[error("{type_name} does not fit into the {part}s of this index: they have {}{bytes} bytes", if *any_length { "up to " } else { "" })]
    Type {
        /// `key` or `value`.
        part: &'static str,
        /// The type.
        type_name: &'static str,
        /// Bytes of the index's keys or values.
        bytes: usize,
        /// Whether these have any length up to that.
        any_length: bool,
    },
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Statistics cannot be served at the given address.
    #[error(transparent)]
    Metrics(std::io::Error),
    /// The session closes, so it gives out no more local handles.
    #[error("the session is closed")]
    Closed,
    /// The row is one of another [`Pool`](crate::pool::Pool) value.
    #[error("the shared row was joined through another connection to a pool")]
    OtherPool,
    /// All places of a shared row are taken.
    #[error("the shared row has lanes for {sessions} sessions, and as many are open: close one, or join with more")]
    RowFull {
        /// How many it has lanes for.
        sessions: usize,
    },
    /// There are as many local handles as the session has lanes for.
    #[error("{max} local handles of this session exist: drop one, or raise SessionOptions::local_handles")]
    LocalHandles {
        /// See [`SessionOptions::local_handles`](super::SessionOptions::local_handles).
        max: usize,
    },
    /// A thread of the session panicked before it was ready: a bug.
    #[error("a thread of the session panicked while it started")]
    Panicked,
}

const fn lengths(any_length: bool) -> &'static str {
    if any_length { "any length" } else { "one size" }
}

/// Why a call failed. [`SessionError::effect`] says what the call did to the index nevertheless. Its `Debug` is its text.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Refused before anything was queued: keys of this index have another size.
    #[error("a key of {given} bytes: this index has keys of {expected}")]
    KeyBytes {
        /// Bytes of the key given.
        given: usize,
        /// Bytes of every key.
        expected: usize,
    },
    /// Refused before anything was queued: values of this index have another size.
    #[error("a value of {given} bytes: this index has values of {expected}")]
    ValueBytes {
        /// Bytes of the given value, or of the given room for one.
        given: usize,
        /// Bytes of every value.
        expected: usize,
    },
    /// Refused before anything was queued: keys of this index are shorter.
    #[error("a key of {given} bytes: this index has keys of up to {most}")]
    KeyTooLong {
        /// Bytes of the key given.
        given: usize,
        /// Bytes of the longest key.
        most: usize,
    },
    /// Refused before anything was queued: values of this index are shorter.
    #[error("a value of {given} bytes: this index has values of up to {most}")]
    ValueTooLong {
        /// Bytes of the value given.
        given: usize,
        /// Bytes of the longest value.
        most: usize,
    },
    /// Refused before anything was queued: a value of any length does not go into room of a fixed size.
    #[error("values of this index have any length: get them one by one")]
    AnyLength,
    /// A record of the index is not of the types of the table. Nothing was changed.
    #[error("a {part} of {bytes} bytes in the index is no {type_name} (nothing was changed)")]
    NotOfType {
        /// `key` or `value`.
        part: &'static str,
        /// The type.
        type_name: &'static str,
        /// Bytes of the key or value.
        bytes: usize,
    },
    /// Refused before anything was queued: a page holds fewer records, or none were asked for.
    #[error("a page of {given} records: this session's pages have 1 to {max}")]
    PageRecords {
        /// Records asked for.
        given: usize,
        /// See [`crate::assembly::Spending::page_records`].
        max: usize,
    },
    /// The deadline passed before the operation was started; it will never be.
    #[error("deadline passed after {waited:?} in the queue (nothing was changed)")]
    Deadline {
        /// Time from the call until the session noticed.
        waited: Duration,
    },
    /// The session was closed before the operation was queued.
    #[error("the session is closed (nothing was changed)")]
    Closed,
    /// No worker of the session can go on; the operation was not started. Open another session.
    #[error("the session's workers stopped (nothing was changed): {last}")]
    Broken {
        /// What the last of their lanes could not settle.
        last: OpError,
    },
    /// A worker panicked: a bug, here or in the index.
    #[error("a worker panicked ({})", match effect { Effect::None => "nothing was changed", _ => "it is unknown whether the change was made" })]
    Panicked {
        /// `None` if the operation had not been started.
        effect: Effect,
    },
    /// A blocking call on a worker thread, from inside a waker: it would wait for itself.
    #[error("a blocking call on a worker's own thread: wakers must not wait (nothing was changed)")]
    OnWorker,
    /// The operation failed.
    #[error(transparent)]
    Operation(#[from] OpError),
}

debug_is_text! { OpenError, SessionError }

impl SessionError {
    /// What the failed call did to the index.
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Operation(error) => error.effect,
            Self::Panicked { effect } => *effect,
            _ => Effect::None,
        }
    }
}
