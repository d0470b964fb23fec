//! Asking the processor for lines of memory, without waiting for them.

use std::sync::atomic::AtomicU32;

/// Has the line at `address` brought into the first-level cache. Any address will do.
#[inline]
pub(crate) fn soon(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has PREFETCHT0; it accesses nothing as far as programs can tell.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The same, into the second-level cache.
#[inline]
pub(crate) fn near(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has PREFETCHT1; it accesses nothing as far as programs can tell.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The line of a word, soon: what workers offer to operations ([`dm_core::port::Port::fetch`]).
pub(crate) fn word(word: &AtomicU32) {
    soon(word.as_ptr().cast());
}
