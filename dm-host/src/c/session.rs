//! Opens an index.

use super::bytes::text;
use super::pool::dm_pool;
use super::status::{Failure, dm_error, dm_status, guard};
use super::{check_room, null, object};
use crate::compute_node::Membership;
use crate::kinds::IndexParameters;
use crate::session::{Session, SessionOptions};
use dm_core::items::parameters::Parameters as AnyLength;
use dm_core::membership::lease::LeaseConfig;
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use static_assertions::assert_impl_all;
use std::ffi::c_char;
use std::time::Duration;

assert_impl_all!(dm_session: Send, Sync);

/// An open index: worker threads that run operations on it, and a row in the pool, whose lease they keep. Any number of
/// threads may use it.
#[derive(Debug)]
pub struct dm_session {
    pub(super) session: Session,
}

/// In dm_parameters.flags: keys and values have any length up to those in key_bytes and value_bytes.
pub const DM_ANY_LENGTH: u32 = 1;
/// In dm_parameters.flags: the index stores a checksum with each record, and compares it whenever the record is read. A record that
/// has changed in the pool is DM_CORRUPT. Values are 4 bytes shorter at most.
pub const DM_CHECKSUMS: u32 = 2;

/// What is fixed when an index is created.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dm_parameters {
    /// "sherman", "chime" or "smart".
    pub kind: *const c_char,
    /// DM_ANY_LENGTH, or without it all keys, and all values, have one length; DM_CHECKSUMS.
    pub flags: u32,
    /// Bytes of every key, 8 to 64; with DM_ANY_LENGTH of the longest, 1 to 4096.
    pub key_bytes: u64,
    /// Bytes of every value, 8 to 1024; with DM_ANY_LENGTH of the longest, 0 to 65536.
    pub value_bytes: u64,
}

/// In dm_session_options.flags: a waiting thread sleeps at once, where it would spin for some microseconds first.
pub const DM_NO_SPIN: u32 = 1;

/// In dm_session_options.flags: others cannot recover the locks of this session when its process dies. Saves memory
/// and requests.
pub const DM_NO_RECOVERY: u32 = 2;

/// How a session works. A member that is 0 has its default, so begin with dm_session_options options = {0};
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dm_session_options {
    /// DM_NO_SPIN, DM_NO_RECOVERY, both (or-ed), or 0.
    pub flags: u32,
    /// Worker threads, 1 to 1024; by default 1.
    pub workers: u32,
    /// Operations that a worker has in flight, 1 to 1024; by default 8.
    pub lanes_per_worker: u32,
    /// Operations that may be queued for a worker, 1 to 65536; by default 256.
    pub queue_slots: u32,
    /// Records that a scan fetches at a time; by default 128.
    pub page_records: u32,
    /// How long the process may be unresponsive before others exclude it; by default 2 s, in a virtual machine 10 s.
    pub lease_ms: u32,
    /// Memory for copies of inner nodes; by default 64 MiB.
    pub cache_bytes: u64,
    /// CHIME: memory for the places of popular keys; by default none.
    pub hotspot_bytes: u64,
}

/// What is known of a session.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dm_session_info {
    /// DM_ANY_LENGTH or 0.
    pub flags: u32,
    /// Its row in the pool.
    pub row: u32,
    /// The row's incarnation: how often it was used.
    pub incarnation: u32,
    /// Records that a scan fetches at a time.
    pub page_records: u32,
    /// Bytes of every key; with DM_ANY_LENGTH of the longest.
    pub key_bytes: u64,
    /// Bytes of every value; with DM_ANY_LENGTH of the longest.
    pub value_bytes: u64,
}

fn refused(text: String) -> Failure {
    Failure::new(dm_status::DM_INVALID_ARGUMENT, text)
}

fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    if flags & !known == 0 { Ok(()) } else { Err(refused(format!("unknown flags {:#x}", flags & !known))) }
}

/// # Safety
///
/// `parameters` is NULL or points to parameters, whose kind is NULL or ends with NUL.
unsafe fn read_parameters(parameters: *const dm_parameters) -> Result<IndexParameters, Failure> {
    // SAFETY: as the caller says; a copy, since a caller's struct may change.
    let parameters = *unsafe { parameters.as_ref() }.ok_or_else(|| null("parameters"))?;
    check_flags(parameters.flags, DM_ANY_LENGTH | DM_CHECKSUMS)?;
    // SAFETY: as the caller says.
    let name = unsafe { text(parameters.kind, "parameters.kind")? };
    let kind = KINDS.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().copied().map(IndexKind::name).collect();
        refused(format!("unknown kind \"{name}\"; there are {}", known.join(", ")))
    })?;
    // Far more than any index takes, which says what it takes.
    let bytes = |bytes: u64| bytes.min(u64::from(u32::MAX)) as usize;
    let (key_bytes, value_bytes) = (bytes(parameters.key_bytes), bytes(parameters.value_bytes));
    let flags = parameters.flags;
    let parameters = if flags & DM_ANY_LENGTH == 0 {
        IndexParameters::with_sizes(kind, key_bytes, value_bytes)
    } else {
        let lengths = AnyLength { key_bytes_max: key_bytes, value_bytes_max: value_bytes };
        IndexParameters::with_any_length(kind, lengths)
    };
    let parameters = parameters.map_err(|error| refused(error.to_string()))?;
    let parameters = if flags & DM_CHECKSUMS == 0 { parameters } else { parameters.with_checksums() };
    parameters.check().map_err(|error| refused(error.to_string()))?;
    Ok(parameters)
}

/// # Safety
///
/// `options` is NULL or points to options.
unsafe fn read_options(options: *const dm_session_options) -> Result<SessionOptions, Failure> {
    // SAFETY: as the caller says; a copy, since a caller's struct may change.
    let given = unsafe { options.as_ref() }.copied().unwrap_or_default();
    check_flags(given.flags, DM_NO_SPIN | DM_NO_RECOVERY)?;
    // There are no local handles in C.
    let mut options = SessionOptions { local_handles: 0, ..SessionOptions::default() };
    let set = |option: &mut usize, given: u32| {
        if given != 0 {
            *option = given as usize;
        }
    };
    set(&mut options.workers, given.workers);
    set(&mut options.lanes_per_worker, given.lanes_per_worker);
    set(&mut options.queue_slots, given.queue_slots);
    set(&mut options.spending.page_records, given.page_records);
    if given.cache_bytes != 0 {
        options.spending.cache_bytes = given.cache_bytes;
    }
    options.spending.hotspot_bytes = given.hotspot_bytes;
    if given.flags & DM_NO_SPIN != 0 {
        options.spin = Duration::ZERO;
    }
    let mut membership = Membership { recovery: given.flags & DM_NO_RECOVERY == 0, ..Membership::default() };
    if given.lease_ms != 0 {
        let lease = LeaseConfig::of(u64::from(given.lease_ms) * 1_000_000);
        membership.terms = lease.map_err(|error| refused(error.to_string()))?;
    }
    options.membership = membership;
    Ok(options)
}

/// Opens the index called `name`, which must exist. `options` may be NULL. On success `*session` is the caller's, who
/// frees it with dm_session_free; otherwise it is NULL. The session keeps the pool connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_session_open(
    pool: *mut dm_pool,
    name: *const c_char,
    options: *const dm_session_options,
    session: *mut *mut dm_session,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(session, "session")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { session.write(std::ptr::null_mut()) };
        // SAFETY: the caller says that these are NULL or what their types say.
        let (pool, name, options) = unsafe { (object(pool, "pool")?, text(name, "name")?, read_options(options)?) };
        let opened = dm_session { session: Session::open(&pool.pool, name, &options)? };
        // SAFETY: as before.
        unsafe { session.write(Box::into_raw(Box::new(opened))) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// As dm_session_open, and creates the index if it does not exist. If it does, and is of another kind or has other
/// lengths, the call fails with DM_OTHER_INDEX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_session_open_or_create(
    pool: *mut dm_pool,
    name: *const c_char,
    parameters: *const dm_parameters,
    options: *const dm_session_options,
    session: *mut *mut dm_session,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(session, "session")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { session.write(std::ptr::null_mut()) };
        // SAFETY: the caller says that these are NULL or what their types say.
        let (pool, name, options) = unsafe { (object(pool, "pool")?, text(name, "name")?, read_options(options)?) };
        // SAFETY: as before.
        let parameters = unsafe { read_parameters(parameters)? };
        let opened = dm_session { session: Session::open_or_create(&pool.pool, name, parameters, &options)? };
        // SAFETY: as before.
        unsafe { session.write(Box::into_raw(Box::new(opened))) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Fills in what is known of a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_session_describe(
    session: *mut dm_session,
    info: *mut dm_session_info,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(info, "info")?;
        // SAFETY: the caller says that it is NULL or a session.
        let session = &unsafe { object(session, "session")? }.session;
        let member = session.member();
        let described = dm_session_info {
            flags: if session.have_lengths() { DM_ANY_LENGTH } else { 0 },
            row: member.row.0.into(),
            incarnation: member.incarnation,
            page_records: session.page_records() as u32,
            key_bytes: session.key_bytes() as u64,
            value_bytes: session.value_bytes() as u64,
        };
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { info.write(described) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Refuses new operations, finishes what is queued, and leaves the pool. From then on every operation of the session,
/// its scans and its queues fails with DM_CLOSED; a scan reports what it has fetched before. Other threads may be in
/// calls of the session. The session has yet to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_session_close(session: *mut dm_session, error: *mut dm_error) -> dm_status {
    let call = || {
        // SAFETY: the caller says that it is NULL or a session.
        unsafe { object(session, "session")? }.session.close();
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Closes a session and frees it; no other thread may be in a call of it. Its scans and queues may be freed before or
/// after it. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_session_free(session: *mut dm_session) {
    // SAFETY: as below.
    unsafe { dm_session_close(session, std::ptr::null_mut()) };
    // SAFETY: the caller says that it is NULL, or a session that nobody uses any more.
    unsafe { super::free(session) };
}
