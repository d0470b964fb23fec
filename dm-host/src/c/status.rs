//! Status codes, the error that a call fills in, and the guard around every call.

use crate::fabric::any::FabricError;
use crate::fabric::shm::ShmError;
use crate::pool::PoolError;
use crate::session::{OpenError, SessionError};
use dm_core::error::VerbError;
use dm_core::index::catalog::CatalogError;
use dm_core::memory::rows::RowError;
use dm_core::operation::{Cause, Effect};
use dm_core::verbs::Status;
use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a call ended. 0: done. Positive: carried out, and this is the answer. Negative: failed; see dm_error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dm_status {
    /// Done.
    DM_OK = 0,
    /// The key is absent.
    DM_ABSENT = 1,
    /// Insert: the key is present, and keeps its value.
    DM_EXISTS = 2,
    /// Conditional update or delete: the value is not the expected one, and stays.
    DM_MISMATCH = 3,
    /// Scan: there are no more records.
    DM_END = 4,

    /// An argument is NULL, unknown, or out of range.
    DM_INVALID_ARGUMENT = -1,
    /// Keys of this index have another length.
    DM_KEY_LENGTH = -2,
    /// Values of this index have another length.
    DM_VALUE_LENGTH = -3,
    /// The value is longer than the buffer, which tells its length; nothing was copied.
    DM_BUFFER_TOO_SMALL = -4,
    /// The session was closed.
    DM_CLOSED = -5,
    /// The time that the caller gave has passed.
    DM_TIMED_OUT = -6,
    /// As many operations are in the queue as it takes: poll it first.
    DM_QUEUE_FULL = -7,
    /// A memory node cannot be reached.
    DM_CANNOT_CONNECT = -8,
    /// The memory nodes are no pool that this program can use.
    DM_BAD_POOL = -9,
    /// The pool has no index of that name.
    DM_NO_INDEX = -10,
    /// The index exists, with another kind or other lengths than asked for.
    DM_OTHER_INDEX = -11,
    /// The index cannot be opened with these options in this process.
    DM_CANNOT_OPEN = -12,
    /// The pool has no memory, no row for a compute node, or no catalog entry left.
    DM_POOL_FULL = -13,
    /// A memory node does not answer any more.
    DM_NODE_DOWN = -14,
    /// A request to a memory node failed.
    DM_FABRIC = -15,
    /// Others have excluded this session from the pool: close it, and open another one.
    DM_FENCED = -16,
    /// A lock's holder seems dead, and cannot be excluded.
    DM_CANNOT_FENCE = -17,
    /// The session's workers have stopped: close it, and open another one.
    DM_BROKEN = -18,
    /// The operation met other writers too often and gave up.
    DM_RETRIES = -19,
    /// The operation that this one was combined with was lost.
    DM_LOST = -20,
    /// The memory of a memory node has bytes that this program does not write.
    DM_CORRUPT = -21,
    /// The operating system refused a thread or a file descriptor.
    DM_SYSTEM = -22,
    /// A bug in this library.
    DM_INTERNAL = -23,
}

/// What a failed operation did to the index nevertheless.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dm_effect {
    /// Nothing, now and later.
    DM_EFFECT_NONE = 0,
    /// The change may have been made, or may be made soon.
    DM_EFFECT_UNKNOWN = 1,
    /// The change was made.
    DM_EFFECT_DONE = 2,
}

/// Bytes of dm_error.text.
pub const DM_ERROR_TEXT_BYTES: usize = 248;

/// Why a call failed. The caller provides it, and may pass NULL instead. Every call that is given one overwrites it,
/// also when it succeeds: then the effect is DM_EFFECT_NONE and the text is empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dm_error {
    /// The status that the call returned.
    pub status: dm_status,
    /// If it is negative: what the operation did nevertheless.
    pub effect: dm_effect,
    /// If it is negative: what failed, where and why. Ends with NUL; cut where it is too long.
    pub text: [c_char; DM_ERROR_TEXT_BYTES],
}

impl dm_error {
    /// What a call returned.
    pub(super) fn of(result: &Result<dm_status, Failure>) -> Self {
        let mut text = [0; DM_ERROR_TEXT_BYTES];
        match result {
            Ok(status) => Self { status: *status, effect: dm_effect::DM_EFFECT_NONE, text },
            Err(failure) => {
                // The last byte stays 0.
                for (to, from) in text[..DM_ERROR_TEXT_BYTES - 1].iter_mut().zip(cut(&failure.text).bytes()) {
                    *to = c_char::from_ne_bytes([from]);
                }
                Self { status: failure.status, effect: failure.effect, text }
            }
        }
    }
}

/// The beginning of `text` that fits: it ends between characters, and before a NUL.
fn cut(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    let mut end = text.len().min(DM_ERROR_TEXT_BYTES - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: dm_status,
    pub(super) effect: dm_effect,
    pub(super) text: String,
}

impl Failure {
    /// The failure of a call that changed nothing.
    pub(super) fn new(status: dm_status, text: impl Display) -> Self {
        Self { status, effect: dm_effect::DM_EFFECT_NONE, text: text.to_string() }
    }
}

/// Runs a call: no panic leaves it, and `error` tells how it ended.
///
/// # Safety
///
/// `error` is NULL or points to memory that the caller lets this call write.
pub(super) unsafe fn guard(error: *mut dm_error, call: impl FnOnce() -> Result<dm_status, Failure>) -> dm_status {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = format!("a panic in libdm: {}", said.unwrap_or("it says nothing"));
        Err(Failure { status: dm_status::DM_INTERNAL, effect: dm_effect::DM_EFFECT_UNKNOWN, text })
    });
    if !error.is_null() {
        // SAFETY: the caller says that it may be written. It need not be initialized: `write` does not read it.
        unsafe { error.write(dm_error::of(&result)) };
    }
    result.unwrap_or_else(|failure| failure.status)
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let status = match error {
            SessionError::KeyBytes { .. } | SessionError::KeyTooLong { .. } => dm_status::DM_KEY_LENGTH,
            SessionError::ValueBytes { .. } | SessionError::ValueTooLong { .. } => dm_status::DM_VALUE_LENGTH,
            SessionError::Deadline { .. } => dm_status::DM_TIMED_OUT,
            SessionError::Closed => dm_status::DM_CLOSED,
            SessionError::Broken { .. } => dm_status::DM_BROKEN,
            SessionError::Operation(error) => of_cause(error.cause),
            // No call from C asks for any of these but the panic.
            SessionError::AnyLength
            | SessionError::NotOfType { .. }
            | SessionError::PageRecords { .. }
            | SessionError::OnWorker
            | SessionError::Panicked { .. } => dm_status::DM_INTERNAL,
        };
        let effect = match error.effect() {
            Effect::None => dm_effect::DM_EFFECT_NONE,
            Effect::Unknown => dm_effect::DM_EFFECT_UNKNOWN,
            Effect::Done => dm_effect::DM_EFFECT_DONE,
        };
        Self { status, effect, text: error.to_string() }
    }
}

fn of_cause(cause: Cause) -> dm_status {
    match cause {
        Cause::Verb(error) => of_verb(error),
        Cause::Corrupt { .. } | Cause::Checksum { .. } => dm_status::DM_CORRUPT,
        Cause::Deadline { .. } => dm_status::DM_TIMED_OUT,
        Cause::Retries { .. } => dm_status::DM_RETRIES,
        Cause::PoolFull | Cause::NodeFull { .. } => dm_status::DM_POOL_FULL,
        Cause::CannotFence { .. } => dm_status::DM_CANNOT_FENCE,
        Cause::Fenced => dm_status::DM_FENCED,
        Cause::LeaderLost => dm_status::DM_LOST,
        Cause::BadInput(_) => dm_status::DM_INVALID_ARGUMENT,
        // Causes that were added after this list.
        _ => dm_status::DM_INTERNAL,
    }
}

const fn of_verb(error: VerbError) -> dm_status {
    match error.status {
        Status::NodeDown => dm_status::DM_NODE_DOWN,
        Status::Fenced => dm_status::DM_FENCED,
        _ => dm_status::DM_FABRIC,
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::new(of_pool(&error), error)
    }
}

fn of_pool(error: &PoolError) -> dm_status {
    match error {
        PoolError::Connect(_) => dm_status::DM_CANNOT_CONNECT,
        PoolError::Superblock { .. }
        | PoolError::Mixed { .. }
        | PoolError::Incarnation { .. }
        | PoolError::Count { .. }
        | PoolError::ReadOnly { .. } => dm_status::DM_BAD_POOL,
        PoolError::Fabric(error) => of_fabric(error),
        PoolError::Announce(_) => dm_status::DM_FABRIC,
        PoolError::Row(error) => match error {
            RowError::Verb(error) => of_verb(*error),
            RowError::NoFreeRow { .. } => dm_status::DM_POOL_FULL,
            RowError::Fenced { .. } => dm_status::DM_FENCED,
            RowError::Grown { .. } => dm_status::DM_BAD_POOL,
            RowError::Corrupt { .. } => dm_status::DM_CORRUPT,
            _ => dm_status::DM_INTERNAL,
        },
        PoolError::Catalog(error) => match error {
            CatalogError::Verb(error) => of_verb(*error),
            CatalogError::Full { .. } => dm_status::DM_POOL_FULL,
            CatalogError::Busy { .. } => dm_status::DM_RETRIES,
            CatalogError::Lost { .. } => dm_status::DM_FENCED,
            CatalogError::BadName => dm_status::DM_INVALID_ARGUMENT,
            CatalogError::Corrupt { .. } => dm_status::DM_CORRUPT,
            // Not `Exists`: to create an index that exists is to open it.
            _ => dm_status::DM_INTERNAL,
        },
        PoolError::NoIndex { .. } => dm_status::DM_NO_INDEX,
        // The C face drops no index, and adds no memory node.
        PoolError::NotNew { .. } | PoolError::Behind { .. } | PoolError::Fence { .. } => dm_status::DM_INTERNAL,
        PoolError::InUse { .. } | PoolError::Erase { .. } => dm_status::DM_INTERNAL,
        PoolError::Parameters { .. } => dm_status::DM_CANNOT_OPEN,
        PoolError::Owners { source, .. } => of_cause(source.cause),
        PoolError::RootLost { .. } => dm_status::DM_CORRUPT,
        PoolError::Verb(error) => of_verb(*error),
        PoolError::Thread(_) | PoolError::Region(_) => dm_status::DM_SYSTEM,
        #[cfg(feature = "verbs")]
        PoolError::Secret(_) => dm_status::DM_CANNOT_CONNECT,
        PoolError::Address { .. }
        | PoolError::Twice { .. }
        | PoolError::Format(_)
        | PoolError::Image(_)
        | PoolError::NoMemoryNode { .. }
        | PoolError::IndexName { .. } => dm_status::DM_INVALID_ARGUMENT,
    }
}

fn of_fabric(error: &FabricError) -> dm_status {
    match error {
        // The list of memory nodes is not that of one whole pool.
        FabricError::Shm(ShmError::NoNodes | ShmError::Order { .. } | ShmError::Count { .. }) => dm_status::DM_BAD_POOL,
        _ => dm_status::DM_FABRIC,
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let status = match &error {
            OpenError::Pool(error) => of_pool(error),
            OpenError::Fabric(error) => of_fabric(error),
            OpenError::Assembly(_) => dm_status::DM_CANNOT_OPEN,
            OpenError::Parameters(_) | OpenError::Option { .. } => dm_status::DM_INVALID_ARGUMENT,
            OpenError::Sizes { .. } | OpenError::Other { .. } | OpenError::Lengths { .. } | OpenError::Type { .. } => {
                dm_status::DM_OTHER_INDEX
            }
            OpenError::Thread(_) | OpenError::Metrics(_) => dm_status::DM_SYSTEM,
            OpenError::Closed => dm_status::DM_CLOSED,
            // The C face has no local handles, and no shared rows.
            OpenError::Panicked | OpenError::LocalHandles { .. } | OpenError::OtherPool | OpenError::RowFull { .. } => {
                dm_status::DM_INTERNAL
            }
        };
        Self::new(status, error)
    }
}

/// One line of text for a status, or for a number that is none. It is a constant of the library: never free it.
#[unsafe(no_mangle)]
pub extern "C" fn dm_status_text(status: i32) -> *const c_char {
    let text = TEXTS.iter().find(|(known, _)| *known as i32 == status).map_or(c"no status of libdm", |(_, text)| text);
    text.as_ptr()
}

/// The version of the library. It is a constant of the library: never free it.
#[unsafe(no_mangle)]
pub extern "C" fn dm_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version without NUL"),
    };
    VERSION.as_ptr()
}

const TEXTS: &[(dm_status, &CStr)] = &[
    (dm_status::DM_OK, c"done"),
    (dm_status::DM_ABSENT, c"the key is absent"),
    (dm_status::DM_EXISTS, c"the key is present already"),
    (dm_status::DM_MISMATCH, c"the value is not the expected one"),
    (dm_status::DM_END, c"no more records"),
    (dm_status::DM_INVALID_ARGUMENT, c"an argument is NULL, unknown or out of range"),
    (dm_status::DM_KEY_LENGTH, c"keys of this index have another length"),
    (dm_status::DM_VALUE_LENGTH, c"values of this index have another length"),
    (dm_status::DM_BUFFER_TOO_SMALL, c"the value is longer than the buffer"),
    (dm_status::DM_CLOSED, c"the session is closed"),
    (dm_status::DM_TIMED_OUT, c"the time for the call has passed"),
    (dm_status::DM_QUEUE_FULL, c"the queue has as many operations as it takes"),
    (dm_status::DM_CANNOT_CONNECT, c"a memory node cannot be reached"),
    (dm_status::DM_BAD_POOL, c"these memory nodes are no pool that this program can use"),
    (dm_status::DM_NO_INDEX, c"the pool has no index of that name"),
    (dm_status::DM_OTHER_INDEX, c"the index has another kind or other lengths than asked for"),
    (dm_status::DM_CANNOT_OPEN, c"the index cannot be opened with these options"),
    (dm_status::DM_POOL_FULL, c"the pool is full"),
    (dm_status::DM_NODE_DOWN, c"a memory node does not answer"),
    (dm_status::DM_FABRIC, c"a request to a memory node failed"),
    (dm_status::DM_FENCED, c"this session was excluded from the pool"),
    (dm_status::DM_CANNOT_FENCE, c"the holder of a lock seems dead and cannot be excluded"),
    (dm_status::DM_BROKEN, c"the workers of the session have stopped"),
    (dm_status::DM_RETRIES, c"gave up after many attempts"),
    (dm_status::DM_LOST, c"the operation that this one was combined with was lost"),
    (dm_status::DM_CORRUPT, c"a memory node has bytes that this program does not write"),
    (dm_status::DM_SYSTEM, c"the operating system refused a thread or a file descriptor"),
    (dm_status::DM_INTERNAL, c"a bug in libdm"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    fn run(call: impl FnOnce() -> Result<dm_status, Failure>) -> (dm_status, dm_error, String) {
        let mut error = MaybeUninit::uninit();
        // SAFETY: `error` is memory of this function.
        let status = unsafe { guard(error.as_mut_ptr(), call) };
        // SAFETY: the guard fills it in, whatever happens.
        let error = unsafe { error.assume_init() };
        let text: Vec<u8> = error.text.iter().map(|&byte| byte as u8).collect();
        (status, error, CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_panic_ends_at_the_border() {
        let (status, error, text) = run(|| panic!("key {}", 7));
        assert_eq!((status, error.status), (dm_status::DM_INTERNAL, dm_status::DM_INTERNAL));
        assert_eq!(error.effect, dm_effect::DM_EFFECT_UNKNOWN);
        assert_eq!(text, "a panic in libdm: key 7");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_ends_with_nul() {
        for shift in 0..4 {
            let long = "x".repeat(shift) + &"€".repeat(200);
            let (_, _, text) = run(|| Err(Failure::new(dm_status::DM_FABRIC, &long)));
            assert!(text.len() > DM_ERROR_TEXT_BYTES - 4 && long.starts_with(&text), "{text}");
        }
        assert_eq!(run(|| Err(Failure::new(dm_status::DM_FABRIC, "a\0b"))).2, "a");
    }

    #[test]
    fn every_status_has_a_text_of_its_own() {
        let text = |status: i32| {
            // SAFETY: it points to a constant text.
            unsafe { CStr::from_ptr(dm_status_text(status)) }
        };
        let known: Vec<i32> = TEXTS.iter().map(|(status, _)| *status as i32).collect();
        // The numbers have no gap, so none was forgotten behind the last of either end.
        assert_eq!(known.iter().copied().max(), Some(dm_status::DM_END as i32));
        for status in dm_status::DM_INTERNAL as i32..=dm_status::DM_END as i32 {
            assert_eq!(known.iter().filter(|&&other| other == status).count(), 1, "{status}");
            assert_ne!(text(status), c"no status of libdm");
        }
        assert_eq!(text(dm_status::DM_INTERNAL as i32 - 1), c"no status of libdm");
        assert_eq!(text(i32::MAX), c"no status of libdm");
    }
}
