//! Prefetches lines of memory, without waiting for them.

use dm_core::layout::LINE_BYTES;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::sync::atomic::AtomicU32;

#[cfg(not(target_arch = "x86_64"))]
const _MM_HINT_T0: i32 = 0;
#[cfg(not(target_arch = "x86_64"))]
const _MM_HINT_T1: i32 = 1;

/// Brings the line at `address` into the first-level cache. Any address is allowed.
#[inline]
pub(crate) fn soon(address: *const u8) {
    ask::<_MM_HINT_T0>(address);
}

/// The same, into the second-level cache.
#[inline]
pub(crate) fn near(address: *const u8) {
    ask::<_MM_HINT_T1>(address);
}

/// Prefetches the lines of `bytes` into the second-level cache: for what is used after a while, and may be more than the first
/// level has buffers for.
#[inline]
pub fn lines(bytes: &[u8]) {
    bytes.chunks(LINE_BYTES).for_each(|line| near(line.as_ptr()));
    // It need not begin with a line.
    if let Some(last) = bytes.last() {
        near(last);
    }
}

/// Prefetches the line of a word: what workers offer to operations ([`dm_core::port::Port::fetch`]).
pub(crate) fn word(word: &AtomicU32) {
    soon(word.as_ptr().cast());
}

#[inline]
fn ask<const HINT: i32>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has PREFETCHT0 and PREFETCHT1; they access nothing as far as programs can tell.
    unsafe {
        _mm_prefetch::<HINT>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
