//! The C interface: what `libdm` exports and `include/dm.h` declares. Feature `c`; `tools/libdm` builds the library.
//!
//! A thin layer over [`crate::session`]. The doc comments of public items are the comments of the header: cbindgen
//! makes it from these files, and `tools/libdm/tests/header.rs` compares it with the file. So they are written for C
//! programmers, and what every function assumes of its pointers is said once, at the top of the header
//! (`cbindgen.toml`), instead of in a section "Safety" of each.
//!
//! - `status`: status codes, the error that a call fills in, and the guard around every call.
//! - `bytes`: keys, values and texts of the caller; byte strings as keys.
//! - `pool`: connects to a pool.
//! - `session`: opens an index.
//! - `calls`: blocking operations.
//! - `scan`: a cursor.
//! - `queue`: operations without a waiting thread: submit, and poll completions; an eventfd tells when.
//!
//! # What the layer guarantees
//!
//! No panic leaves it: `status::guard` turns it into `DM_INTERNAL`. A caller's struct is copied before it is looked
//! at; enumerations of the caller come as integers, since a Rust `enum` with another value would be undefined
//! behaviour. A length is compared with what the index takes before a slice of that length is made. Closing is separate
//! from freeing, so that a call on a closed session is an error and not undefined behaviour. What objects need of each
//! other they share by reference counts, so they may be freed in any order.

#![allow(non_camel_case_types, reason = "names as C has them")]
#![allow(clippy::missing_safety_doc, reason = "the header says it once for all functions")]

pub mod bytes;
pub mod calls;
pub mod pool;
pub mod queue;
pub mod scan;
pub mod session;
pub mod status;

use status::{Failure, dm_status};

/// The object behind a handle.
///
/// # Safety
///
/// `handle` is NULL, or a handle that this library returned and that was not freed, and is not freed during `'a`.
unsafe fn object<'a, T>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller says that it is NULL or points to a live object, and nobody has that exclusively.
    unsafe { handle.as_ref() }.ok_or_else(|| null(what))
}

/// Checks a pointer to which a result will be written.
fn check_room<T>(room: *mut T, what: &str) -> Result<(), Failure> {
    if room.is_null() { Err(null(what)) } else { Ok(()) }
}

fn null(what: &str) -> Failure {
    Failure::new(dm_status::DM_INVALID_ARGUMENT, format!("{what} is NULL"))
}

/// Frees the object behind a handle, if there is one.
///
/// # Safety
///
/// `handle` is NULL, or came from `Box::into_raw` and is used by nobody any more.
unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    let call = || {
        // SAFETY: the caller says that a `Box` made it and that nobody else uses it.
        drop(unsafe { Box::from_raw(handle) });
        Ok(dm_status::DM_OK)
    };
    // SAFETY: there is no error to fill in.
    unsafe { status::guard(std::ptr::null_mut(), call) };
}
