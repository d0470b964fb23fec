//! Blocking operations.

use super::bytes::{copy_out, dm_buffer, dm_bytes, key, value};
use super::object;
use super::session::dm_session;
use super::status::{Failure, dm_error, dm_status, guard};
use crate::session::{Call, Delete, DeleteIf, Insert, Session, Update, UpdateIf, Upsert};
use std::time::Duration;

/// Gives a call the time that the caller gave it; 0: no bound.
pub(super) fn within<T>(call: Call<'_, T>, timeout_us: u64) -> Call<'_, T> {
    if timeout_us == 0 { call } else { call.within(Duration::from_micros(timeout_us)) }
}

/// Runs one operation: `run` answers its status and the value that was found.
///
/// # Safety
///
/// `session` is NULL or a session; `found` is NULL or a buffer; `error` is NULL or may be written.
unsafe fn operate(
    session: *mut dm_session,
    found: *mut dm_buffer,
    error: *mut dm_error,
    run: impl FnOnce(&Session) -> Result<(dm_status, Vec<u8>), Failure>,
) -> dm_status {
    let call = || {
        // A buffer tells the length of a value only if there is one.
        // SAFETY: as the caller says. There is nothing to copy.
        unsafe { copy_out(&[], found) };
        // SAFETY: as the caller says.
        let session = &unsafe { object(session, "session")? }.session;
        let (status, bytes) = run(session)?;
        // SAFETY: as the caller says.
        let copied = unsafe { copy_out(&bytes, found) };
        if status == dm_status::DM_OK && !copied {
            let text = format!("the value has {} bytes, more than the buffer", bytes.len());
            return Err(Failure::new(dm_status::DM_BUFFER_TOO_SMALL, text));
        }
        Ok(status)
    };
    // SAFETY: as the caller says.
    unsafe { guard(error, call) }
}

/// Copies the value of a key into `found`. DM_OK; DM_ABSENT; or DM_BUFFER_TOO_SMALL, where found->length tells the room
/// it takes. `found` may be NULL, to learn only whether the key is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_get(
    session: *mut dm_session,
    key: dm_bytes,
    found: *mut dm_buffer,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let key = unsafe { self::key(session, key)? };
        Ok(of_get(within(session.get(key), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, found, error, run) }
}

/// Adds a record if its key is absent. DM_OK; or DM_EXISTS, and then the present value is copied into `found`, unless
/// that is NULL or too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_insert(
    session: *mut dm_session,
    key: dm_bytes,
    value: dm_bytes,
    found: *mut dm_buffer,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let (key, value) = unsafe { (self::key(session, key)?, self::value(session, value)?) };
        Ok(of_insert(within(session.insert(key, value), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, found, error, run) }
}

/// Replaces the value of a key that is present. DM_OK or DM_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_update(
    session: *mut dm_session,
    key: dm_bytes,
    value: dm_bytes,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let (key, value) = unsafe { (self::key(session, key)?, self::value(session, value)?) };
        Ok(of_update(within(session.update(key, value), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, std::ptr::null_mut(), error, run) }
}

/// Adds a record, or replaces its value. DM_OK in both cases.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_upsert(
    session: *mut dm_session,
    key: dm_bytes,
    value: dm_bytes,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let (key, value) = unsafe { (self::key(session, key)?, self::value(session, value)?) };
        Ok(of_upsert(within(session.upsert(key, value), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, std::ptr::null_mut(), error, run) }
}

/// Replaces the value of a key if it is `expected`. DM_OK; DM_ABSENT; or DM_MISMATCH, and then the present value is
/// copied into `found`, unless that is NULL or too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_update_if(
    session: *mut dm_session,
    key: dm_bytes,
    expected: dm_bytes,
    value: dm_bytes,
    found: *mut dm_buffer,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let (key, value) = unsafe { (self::key(session, key)?, self::value(session, value)?) };
        // SAFETY: as before.
        let expected = unsafe { self::value(session, expected)? };
        Ok(of_update_if(within(session.update_if(key, expected, value), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, found, error, run) }
}

/// Removes a key. DM_OK or DM_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_delete(
    session: *mut dm_session,
    key: dm_bytes,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let key = unsafe { self::key(session, key)? };
        Ok(of_delete(within(session.delete(key), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, std::ptr::null_mut(), error, run) }
}

/// Removes a key if its value is `expected`. DM_OK; DM_ABSENT; or DM_MISMATCH, and then the present value is copied
/// into `found`, unless that is NULL or too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_delete_if(
    session: *mut dm_session,
    key: dm_bytes,
    expected: dm_bytes,
    found: *mut dm_buffer,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let run = |session: &Session| {
        // SAFETY: the caller says that the bytes are there during the call.
        let (key, expected) = unsafe { (self::key(session, key)?, self::value(session, expected)?) };
        Ok(of_delete_if(within(session.delete_if(key, expected), timeout_us).wait()?))
    };
    // SAFETY: the caller says that these are NULL or what their types say.
    unsafe { operate(session, found, error, run) }
}

// ---- outcomes as a status and the value that was found -------------------------------------------------------------

pub(super) fn of_get(outcome: Option<Vec<u8>>) -> (dm_status, Vec<u8>) {
    outcome.map_or((dm_status::DM_ABSENT, Vec::new()), |value| (dm_status::DM_OK, value))
}

pub(super) fn of_upsert(outcome: Upsert) -> (dm_status, Vec<u8>) {
    match outcome {
        Upsert::Inserted | Upsert::Replaced => (dm_status::DM_OK, Vec::new()),
    }
}

pub(super) fn of_insert(outcome: Insert) -> (dm_status, Vec<u8>) {
    match outcome {
        Insert::Inserted => (dm_status::DM_OK, Vec::new()),
        Insert::Exists(value) => (dm_status::DM_EXISTS, value),
    }
}

pub(super) fn of_update(outcome: Update) -> (dm_status, Vec<u8>) {
    let status = match outcome {
        Update::Updated => dm_status::DM_OK,
        Update::Absent => dm_status::DM_ABSENT,
    };
    (status, Vec::new())
}

pub(super) fn of_update_if(outcome: UpdateIf) -> (dm_status, Vec<u8>) {
    match outcome {
        UpdateIf::Updated => (dm_status::DM_OK, Vec::new()),
        UpdateIf::Mismatch(value) => (dm_status::DM_MISMATCH, value),
        UpdateIf::Absent => (dm_status::DM_ABSENT, Vec::new()),
    }
}

pub(super) fn of_delete(outcome: Delete) -> (dm_status, Vec<u8>) {
    let status = match outcome {
        Delete::Deleted => dm_status::DM_OK,
        Delete::Absent => dm_status::DM_ABSENT,
    };
    (status, Vec::new())
}

pub(super) fn of_delete_if(outcome: DeleteIf) -> (dm_status, Vec<u8>) {
    match outcome {
        DeleteIf::Deleted => (dm_status::DM_OK, Vec::new()),
        DeleteIf::Mismatch(value) => (dm_status::DM_MISMATCH, value),
        DeleteIf::Absent => (dm_status::DM_ABSENT, Vec::new()),
    }
}
