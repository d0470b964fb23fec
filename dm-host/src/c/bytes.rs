//! Keys, values and texts of the caller; byte strings as keys.

use super::status::{Failure, dm_error, dm_status, guard};
use super::{check_room, null};
use crate::session::{Session, SessionError, byte_string};
use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice};

/// Bytes that a call reads. As an argument they are the caller's and must not change during the call; the library keeps
/// no pointer to them. As a result they are the library's, and the function says how long. The pointer may be NULL if
/// the length is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dm_bytes {
    /// The first of them.
    pub data: *const c_void,
    /// How many.
    pub length: usize,
}

impl dm_bytes {
    /// No bytes.
    pub(super) const NONE: Self = Self { data: ptr::null(), length: 0 };

    /// Bytes of this library, to lend.
    pub(super) const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), length: bytes.len() }
    }

    /// # Safety
    ///
    /// The bytes are there and do not change during `'a`.
    unsafe fn slice<'a>(self, what: &str) -> Result<&'a [u8], Failure> {
        if self.length == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(null(what));
        }
        if isize::try_from(self.length).is_err() {
            let text = format!("{what} of {} bytes: no object is as long", self.length);
            return Err(Failure::new(dm_status::DM_INVALID_ARGUMENT, text));
        }
        // SAFETY: neither NULL nor longer than objects are; the caller says that the bytes are there.
        Ok(unsafe { slice::from_raw_parts(self.data.cast(), self.length) })
    }
}

/// A key for `session`. Its length is checked before the bytes are touched.
///
/// # Safety
///
/// As many bytes as it says are there and do not change during `'a`, if that is no more than keys of the index have.
pub(super) unsafe fn key<'a>(session: &Session, key: dm_bytes) -> Result<&'a [u8], Failure> {
    let (given, most) = (key.length, session.key_bytes());
    if given > most {
        return Err(SessionError::KeyTooLong { given, most }.into());
    }
    // SAFETY: as the caller says.
    unsafe { key.slice("the key's data") }
}

/// As [`key`], of a value.
///
/// # Safety
///
/// See [`key`].
pub(super) unsafe fn value<'a>(session: &Session, value: dm_bytes) -> Result<&'a [u8], Failure> {
    let (given, most) = (value.length, session.value_bytes());
    if given > most {
        return Err(SessionError::ValueTooLong { given, most }.into());
    }
    // SAFETY: as the caller says.
    unsafe { value.slice("the value's data") }
}

/// Room of the caller for a value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dm_buffer {
    /// Where the value goes; the caller's. May be NULL if the capacity is 0.
    pub data: *mut c_void,
    /// Bytes there.
    pub capacity: usize,
    /// Set by the call: length of the value, 0 if there is none. If it is above the capacity, nothing was copied.
    pub length: usize,
}

/// Copies `found` into the caller's buffer. `false`: it is too small, or not a buffer.
///
/// # Safety
///
/// `buffer` is NULL or points to a buffer whose memory the caller lets this call write.
pub(super) unsafe fn copy_out(found: &[u8], buffer: *mut dm_buffer) -> bool {
    if buffer.is_null() {
        return true;
    }
    // SAFETY: the caller says that it is a buffer. Only these members are read: the length may not be initialized.
    let (data, capacity) = unsafe { ((&raw const (*buffer).data).read(), (&raw const (*buffer).capacity).read()) };
    // SAFETY: as before.
    unsafe { (&raw mut (*buffer).length).write(found.len()) };
    if found.is_empty() {
        return true;
    }
    if data.is_null() || capacity < found.len() {
        return false;
    }
    // SAFETY: the caller says that `capacity` bytes may be written there. `found` is memory of this library, which the
    // caller does not have.
    unsafe { ptr::copy_nonoverlapping(found.as_ptr(), data.cast(), found.len()) };
    true
}

/// A text of the caller.
///
/// # Safety
///
/// `text` is NULL or ends with NUL, and does not change during `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not NULL, and the caller says that it ends with NUL.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| Failure::new(dm_status::DM_INVALID_ARGUMENT, format!("{what} is not UTF-8")))
}

/// Writes the string into all `slot_bytes` bytes of `slot`, as a key of an index whose keys have that length. Slots
/// compare as their strings do, which have at most `slot_bytes - 1` bytes, and at most 255.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_string_pack(
    string: dm_bytes,
    slot: *mut c_void,
    slot_bytes: usize,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(slot, "slot")?;
        let refused = |error| Failure::new(dm_status::DM_KEY_LENGTH, error);
        if slot_bytes > byte_string::SLOT_BYTES_MAX {
            return Err(refused(byte_string::ByteStringError::Slot { given: slot_bytes }));
        }
        if string.length >= slot_bytes.max(1) {
            let (given, max) = (string.length, slot_bytes.saturating_sub(1));
            return Err(refused(byte_string::ByteStringError::TooLong { given, max }));
        }
        // SAFETY: the caller says that as many bytes are there.
        let string = unsafe { string.slice("the string's data")? };
        let mut packed = vec![0; slot_bytes];
        byte_string::pack_into(string, &mut packed).map_err(refused)?;
        // SAFETY: the caller lets this call write that many bytes. `packed` is memory of this call.
        unsafe { ptr::copy_nonoverlapping(packed.as_ptr(), slot.cast(), packed.len()) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Sets `string` to the string in a slot that dm_string_pack wrote. It points into the slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_string_unpack(slot: dm_bytes, string: *mut dm_bytes, error: *mut dm_error) -> dm_status {
    let call = || {
        check_room(string, "string")?;
        let wrong = || Failure::new(dm_status::DM_INVALID_ARGUMENT, "this is no slot of a string");
        if slot.length > byte_string::SLOT_BYTES_MAX {
            return Err(wrong());
        }
        // SAFETY: the caller says that as many bytes are there.
        let slot = unsafe { slot.slice("the slot's data")? };
        let found = byte_string::unpack(slot).ok_or_else(wrong)?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { string.write(dm_bytes::of(found)) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}
