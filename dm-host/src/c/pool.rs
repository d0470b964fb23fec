//! Connects to a pool.

use super::bytes::text;
use super::status::{Failure, dm_error, dm_status, guard};
use super::{check_room, null};
use crate::fabric::shm::ShmOptions;
use crate::pool::Pool;
use static_assertions::assert_impl_all;
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::Arc;

assert_impl_all!(dm_pool: Send, Sync);

/// A pool that this process is connected to. Any number of threads may use it.
#[derive(Debug)]
pub struct dm_pool {
    pub(super) pool: Arc<Pool>,
}

/// Most memory nodes that a caller may name: as many as numbers of memory nodes there are.
const SOCKETS_MAX: usize = 1 << 16;

/// Connects to the memory nodes of a pool on this machine, whose daemons (dm-memd) have the control sockets
/// `sockets[0]` to `sockets[count - 1]`, in any order. On success `*pool` is the caller's, who frees it with
/// dm_pool_free; otherwise it is NULL. The texts are the caller's, and are not needed after the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_pool_connect(
    sockets: *const *const c_char,
    count: usize,
    pool: *mut *mut dm_pool,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(pool, "pool")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { pool.write(std::ptr::null_mut()) };
        if sockets.is_null() {
            return Err(null("sockets"));
        }
        if !(1..=SOCKETS_MAX).contains(&count) {
            let text = format!("{count} sockets: a pool has 1 to {SOCKETS_MAX} memory nodes");
            return Err(Failure::new(dm_status::DM_INVALID_ARGUMENT, text));
        }
        let mut paths = Vec::new();
        for position in 0..count {
            // SAFETY: the caller says that there are `count` of them.
            let socket = unsafe { sockets.add(position).read() };
            // SAFETY: the caller says that each is NULL or ends with NUL.
            paths.push(PathBuf::from(unsafe { text(socket, "the path of a socket")? }));
        }
        let connected = dm_pool { pool: Arc::new(Pool::connect(&paths, ShmOptions::default())?) };
        // SAFETY: as before.
        unsafe { pool.write(Box::into_raw(Box::new(connected))) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Frees a pool. Its sessions stay open: the connections end with the last of them. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_pool_free(pool: *mut dm_pool) {
    // SAFETY: the caller says that it is NULL, or a pool that nobody uses any more.
    unsafe { super::free(pool) };
}
