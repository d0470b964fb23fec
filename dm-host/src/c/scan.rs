//! A cursor over the records of a range.

use super::bytes::{dm_bytes, key};
use super::calls::within;
use super::session::dm_session;
use super::status::{Failure, dm_error, dm_status, guard};
use super::{check_room, null, object};
use crate::session::{Page, Session};
use static_assertions::assert_impl_all;
use std::ops::Bound;

assert_impl_all!(dm_scan: Send);

/// In dm_bound.kind: there is no bound on this side, and the key is ignored.
pub const DM_UNBOUNDED: u32 = 0;
/// In dm_bound.kind: the key is in the range.
pub const DM_INCLUDED: u32 = 1;
/// In dm_bound.kind: the key is just outside the range.
pub const DM_EXCLUDED: u32 = 2;

/// One end of a range. All zero: no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dm_bound {
    /// DM_UNBOUNDED, DM_INCLUDED or DM_EXCLUDED.
    pub kind: u32,
    /// The key.
    pub key: dm_bytes,
}

impl dm_bound {
    /// # Safety
    ///
    /// Unless it is unbounded, the bytes of the key are there.
    unsafe fn copied(self, session: &Session) -> Result<Bound<Vec<u8>>, Failure> {
        // SAFETY: as the caller says.
        let copied = || unsafe { key(session, self.key) }.map(<[u8]>::to_vec);
        match self.kind {
            DM_UNBOUNDED => Ok(Bound::Unbounded),
            DM_INCLUDED => copied().map(Bound::Included),
            DM_EXCLUDED => copied().map(Bound::Excluded),
            kind => Err(Failure::new(dm_status::DM_INVALID_ARGUMENT, format!("unknown kind of bound {kind}"))),
        }
    }
}

/// A cursor over the records of a range, in ascending order. One thread at a time may use it.
///
/// Each record is reported at most once, and was current at some instant of the scan. No record is left out that was
/// there throughout the scan. The scan is not a snapshot.
#[derive(Debug)]
pub struct dm_scan {
    session: Session,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    page: Option<Page>,
    /// The record of the page that comes next.
    at: usize,
}

impl dm_scan {
    /// Makes the next record the one before `at`. `false`: there is none.
    fn advance(&mut self, timeout_us: u64) -> Result<bool, Failure> {
        loop {
            if let Some(page) = &self.page {
                if self.at < page.len() {
                    self.at += 1;
                    return Ok(true);
                }
                match page.cursor() {
                    None => return Ok(false),
                    Some(cursor) => self.low = cursor.map(<[u8]>::to_vec),
                }
            }
            let (low, high) = (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice));
            // If this fails, the next call asks for the same page.
            self.page = None;
            let page = within(self.session.page(low, high, self.session.page_records()), timeout_us).wait()?;
            (self.page, self.at) = (Some(page), 0);
        }
    }
}

/// Begins a scan of the records between `low` and `high`; either may be NULL: no bound. Nothing is fetched yet. The
/// bounds are copied. On success `*scan` is the caller's, who frees it with dm_scan_free; otherwise it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_scan_open(
    session: *mut dm_session,
    low: *const dm_bound,
    high: *const dm_bound,
    scan: *mut *mut dm_scan,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(scan, "scan")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { scan.write(std::ptr::null_mut()) };
        // SAFETY: the caller says that it is NULL or a session.
        let session = &unsafe { object(session, "session")? }.session;
        let bound = |bound: *const dm_bound| {
            // SAFETY: the caller says that it is NULL or a bound.
            match unsafe { bound.as_ref() } {
                None => Ok(Bound::Unbounded),
                // SAFETY: the caller says that the bytes are there.
                Some(bound) => unsafe { bound.copied(session) },
            }
        };
        let (low, high) = (bound(low)?, bound(high)?);
        for key in [&low, &high] {
            if let Bound::Included(key) | Bound::Excluded(key) = key {
                session.check_key(key)?;
            }
        }
        let begun = dm_scan { session: session.clone(), low, high, page: None, at: 0 };
        // SAFETY: as before.
        unsafe { scan.write(Box::into_raw(Box::new(begun))) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Moves to the next record. DM_OK, and `key` and `value` are set, unless they are NULL; or DM_END. The bytes they
/// point to are the scan's, until its next call. If it fails, the next call goes on where this one was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_scan_next(
    scan: *mut dm_scan,
    key: *mut dm_bytes,
    value: *mut dm_bytes,
    timeout_us: u64,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        // SAFETY: the caller says that it is NULL, or a scan that no other thread uses now.
        let scan = unsafe { scan.as_mut() }.ok_or_else(|| null("scan"))?;
        let (mut found_key, mut found_value) = (dm_bytes::NONE, dm_bytes::NONE);
        let found = scan.advance(timeout_us);
        if let Ok(true) = found
            && let Some(page) = &scan.page
            && let Some((key, value)) = page.record(scan.at - 1)
        {
            (found_key, found_value) = (dm_bytes::of(key), dm_bytes::of(value));
        }
        for (to, found) in [(key, found_key), (value, found_value)] {
            if !to.is_null() {
                // SAFETY: not NULL, and the caller lets this call write it.
                unsafe { to.write(found) };
            }
        }
        Ok(if found? { dm_status::DM_OK } else { dm_status::DM_END })
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Frees a scan, at any time. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_scan_free(scan: *mut dm_scan) {
    // SAFETY: the caller says that it is NULL, or a scan that nobody uses any more.
    unsafe { super::free(scan) };
}
