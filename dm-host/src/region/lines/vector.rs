//! Lines moved by one vector instruction each.
//!
//! A range is cut at 64-byte boundaries of the shared side. A whole line moves by one `vmovdqa64` of 64 bytes. Part of a
//! line is read by loading the whole line and storing the part to the private side under a byte mask, and written by
//! one masked store, whose masked-off elements are neither written nor fault (Intel SDM vol. 1, section 15.6).
//!
//! **Which masked store matters.** Seen from another core, on Emerald Rapids (family 6, model 207), in runs of 300,000
//! observed changes:
//!
//! | one store | torn |
//! |---|---|
//! | `vmovdqa64 zmm`, whole line | none |
//! | `vmovdqu8 zmm {k}` across byte 32 of the line, even with all bits of the mask set | 4 to 11 %, at byte 32 |
//! | `vmovdqu16`, `vmovdqa32`, `vmovdqa64` `zmm {k}` | none |
//! | `vmovdqu8 ymm {k}`, wherever in the line | none |
//!
//! So a part of up to 32 bytes is stored by a 32-byte store under a byte mask, a larger one by a 64-byte store under a
//! mask of two-byte units. Where such a larger part begins or ends at an odd byte, the store also writes the unit's
//! other byte, as it was an instant before. *That undoes a change of exactly that byte by another writer in between.*
//! The byte cannot belong to a word under atomics unless the WRITE itself overwrites part of that word; and in every
//! index here WRITEs of neighbouring bytes of one line are under one lock. An index that cannot accept this uses
//! sequence words.
//!
//! Only registers 16 and up are used: unlike 0 to 15, they do not put the processor into a state where legacy SSE
//! instructions are slow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether this processor has the instructions: AVX-512F for whole lines, AVX-512BW for byte masks, AVX-512VL for byte
/// masks of 32 bytes.
#[inline]
pub fn supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Copies `bytes` from shared `from` to private `to`.
///
/// # Safety
///
/// `from` begins `bytes` shared bytes inside whole mapped lines; `to` begins `bytes` exclusively owned ones.
#[inline]
pub(super) unsafe fn read(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if supported() {
        // SAFETY: the instructions are there; the rest is the caller's contract.
        unsafe { x86::read(from, to, bytes) };
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { read_words(from, to, bytes) }
}

/// Copies `bytes` from private `from` to shared `to`.
///
/// # Safety
///
/// `to` begins `bytes` shared bytes inside whole mapped lines; `from` begins `bytes` bytes that no thread changes.
#[inline]
pub(super) unsafe fn write(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if supported() {
        // SAFETY: the instructions are there; the rest is the caller's contract.
        unsafe { x86::write(from, to, bytes) };
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { write_words(from, to, bytes) }
}

/// [`read`] by 8-byte atomics, on any machine: lines can tear, words cannot.
///
/// # Safety
///
/// As for [`read`].
pub(super) unsafe fn read_words(from: *const u8, to: *mut u8, bytes: usize) {
    let (mut from, mut to, end) = (from, to, from.addr() + bytes);
    while from.addr() < end {
        let skip = from.addr() % 8;
        let count = (8 - skip).min(end - from.addr());
        // SAFETY: the aligned word around `from` is inside its line, hence mapped; it is accessed atomically only.
        let word = unsafe { AtomicU64::from_ptr(from.wrapping_sub(skip).cast_mut().cast()) }.load(Ordering::Relaxed);
        // SAFETY: `count` bytes from `to` are the caller's; `skip + count <= 8`.
        unsafe { to.copy_from_nonoverlapping(word.to_ne_bytes().as_ptr().add(skip), count) };
        from = from.wrapping_add(count);
        to = to.wrapping_add(count);
    }
}

/// [`write`] by 8-byte atomics, on any machine. Part of a word is merged into it by an atomic read-modify-write, so
/// that an atomic on its other bytes is not lost.
///
/// # Safety
///
/// As for [`write`].
pub(super) unsafe fn write_words(from: *const u8, to: *mut u8, bytes: usize) {
    let (mut from, mut to, end) = (from, to, to.addr() + bytes);
    while to.addr() < end {
        let skip = to.addr() % 8;
        let count = (8 - skip).min(end - to.addr());
        // SAFETY: the aligned word around `to` is inside its line, hence mapped; it is accessed atomically only.
        let word = unsafe { AtomicU64::from_ptr(to.wrapping_sub(skip).cast()) };
        let mut image = [0; 8];
        // SAFETY: `count` bytes from `from` are readable; `skip + count <= 8`.
        unsafe { image.as_mut_ptr().add(skip).copy_from_nonoverlapping(from, count) };
        let image = u64::from_ne_bytes(image);
        if count == 8 {
            word.store(image, Ordering::Relaxed);
        } else {
            let mut mask = [0; 8];
            mask[skip..skip + count].fill(0xff);
            let mask = u64::from_ne_bytes(mask);
            let merge = |old| Some(old & !mask | image);
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
        }
        from = from.wrapping_add(count);
        to = to.wrapping_add(count);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use dm_core::layout::LINE_BYTES;
    use std::arch::asm;

    /// Bytes `from..to` of a line; 0 <= from < to <= 64.
    #[inline]
    const fn mask(from: usize, to: usize) -> u64 {
        (u64::MAX >> (LINE_BYTES - (to - from))) << from
    }

    /// # Safety
    ///
    /// As for [`super::read`], with `bytes` not 0.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn read(from: *const u8, to: *mut u8, bytes: usize) {
        let skip = from.addr() % LINE_BYTES;
        let end = skip + bytes;
        // Both sides are shifted to the line's beginning: bytes before `skip` are masked off on the private side.
        let (mut line, mut to) = (from.wrapping_sub(skip), to.wrapping_sub(skip));
        let mut left = end;
        if skip != 0 || end < LINE_BYTES {
            // SAFETY: `line` is a mapped aligned line; the mask leaves only bytes of `to` that the caller owns.
            unsafe { read_part(line, to, mask(skip, end.min(LINE_BYTES))) };
            line = line.wrapping_add(LINE_BYTES);
            to = to.wrapping_add(LINE_BYTES);
            left = left.saturating_sub(LINE_BYTES);
        }
        let whole = left / LINE_BYTES;
        if whole > 0 {
            // SAFETY: `whole` aligned lines from `line` are in the range, as are their images from `to`. What the
            // block does to shared memory is relaxed atomic loads (see [`super::super`]); to private memory, stores
            // into what the caller owns. It has no `nomem`, so the compiler orders it with accesses around it.
            unsafe {
                asm!(
                    "2:",
                    "cmp {whole}, 4",
                    "jb 3f",
                    "vmovdqa64 zmm16, [{line}]",
                    "vmovdqa64 zmm17, [{line} + 64]",
                    "vmovdqa64 zmm18, [{line} + 128]",
                    "vmovdqa64 zmm19, [{line} + 192]",
                    "vmovdqu64 [{to}], zmm16",
                    "vmovdqu64 [{to} + 64], zmm17",
                    "vmovdqu64 [{to} + 128], zmm18",
                    "vmovdqu64 [{to} + 192], zmm19",
                    "add {line}, 256",
                    "add {to}, 256",
                    "sub {whole}, 4",
                    "jmp 2b",
                    "3:",
                    "test {whole}, {whole}",
                    "jz 4f",
                    "vmovdqa64 zmm16, [{line}]",
                    "vmovdqu64 [{to}], zmm16",
                    "add {line}, 64",
                    "add {to}, 64",
                    "dec {whole}",
                    "jmp 3b",
                    "4:",
                    line = inout(reg) line,
                    to = inout(reg) to,
                    whole = inout(reg) whole => _,
                    out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                    options(nostack),
                );
            }
        }
        let tail = left % LINE_BYTES;
        if tail > 0 {
            // SAFETY: `line` is the last line of the range; its first `tail` bytes are wanted and `to` has them.
            unsafe { read_part(line, to, mask(0, tail)) };
        }
    }

    /// # Safety
    ///
    /// `line` is a mapped aligned line; the bytes of `to` that `mask` names are the caller's.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn read_part(line: *const u8, to: *mut u8, mask: u64) {
        // SAFETY: one load of a mapped line, expressible as relaxed atomic loads; one store that does not touch
        // masked-off bytes and does not fault on them.
        unsafe {
            asm!(
                "kmovq k1, {mask}",
                "vmovdqa64 zmm16, [{line}]",
                "vmovdqu8 [{to}]{{k1}}, zmm16",
                mask = in(reg) mask, line = in(reg) line, to = in(reg) to,
                out("k1") _, out("zmm16") _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    ///
    /// As for [`super::write`], with `bytes` not 0.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn write(from: *const u8, to: *mut u8, bytes: usize) {
        let skip = to.addr() % LINE_BYTES;
        let end = skip + bytes;
        let (mut line, mut from) = (to.wrapping_sub(skip), from.wrapping_sub(skip));
        let mut left = end;
        if skip != 0 || end < LINE_BYTES {
            // SAFETY: `line` is a mapped aligned line; its bytes from `skip` and their images are in the range.
            unsafe { write_part(from, line, skip, end.min(LINE_BYTES)) };
            line = line.wrapping_add(LINE_BYTES);
            from = from.wrapping_add(LINE_BYTES);
            left = left.saturating_sub(LINE_BYTES);
        }
        while left >= LINE_BYTES {
            // SAFETY: an aligned line of the range and its image. The store is expressible as eight relaxed atomic
            // stores. No `nomem`: the compiler keeps the stores in this order.
            unsafe {
                asm!(
                    "vmovdqu64 zmm16, [{from}]",
                    "vmovdqa64 [{line}], zmm16",
                    from = in(reg) from, line = in(reg) line,
                    out("zmm16") _,
                    options(nostack, preserves_flags),
                );
            }
            line = line.wrapping_add(LINE_BYTES);
            from = from.wrapping_add(LINE_BYTES);
            left -= LINE_BYTES;
        }
        if left > 0 {
            // SAFETY: `line` is the last line of the range; its first `left` bytes are to be written.
            unsafe { write_part(from, line, 0, left) };
        }
    }

    /// Stores bytes `begin..end` of a line, not all 64, at once.
    ///
    /// # Safety
    ///
    /// `line` is a mapped aligned line; bytes `begin..end` from `from` are readable and no thread changes them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn write_part(from: *const u8, line: *mut u8, begin: usize, end: usize) {
        if end - begin <= LINE_BYTES / 2 {
            // 32 bytes of the line that contain the part.
            let base = begin.min(LINE_BYTES / 2);
            // SAFETY: the load does not touch masked-off bytes nor fault on them; the store is one masked store to a
            // mapped line, expressible as a relaxed atomic read-modify-write of each word it has bytes of.
            unsafe {
                asm!(
                    "kmovd k1, {mask:e}",
                    "vmovdqu8 ymm16{{k1}}{{z}}, [{from}]",
                    "vmovdqu8 [{line}]{{k1}}, ymm16",
                    mask = in(reg) mask(begin - base, end - base) as u32,
                    from = in(reg) from.wrapping_add(base), line = in(reg) line.wrapping_add(base),
                    out("k1") _, out("ymm16") _,
                    options(nostack, preserves_flags),
                );
            }
            return;
        }
        // SAFETY: the line is loaded, the part laid over it (masked-off bytes of `from` are not touched), and the
        // two-byte units that have bytes of the part are stored: expressible as relaxed atomic loads and
        // read-modify-writes of the line's words.
        unsafe {
            asm!(
                "kmovq k1, {bytes}",
                "kmovd k2, {units:e}",
                "vmovdqa64 zmm16, [{line}]",
                "vmovdqu8 zmm16{{k1}}, [{from}]",
                "vmovdqu16 [{line}]{{k2}}, zmm16",
                bytes = in(reg) mask(begin, end),
                units = in(reg) mask(begin / 2, end.div_ceil(2)) as u32,
                from = in(reg) from, line = in(reg) line,
                out("k1") _, out("k2") _, out("zmm16") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four lines to copy in and out of, filled with a pattern.
    #[derive(Clone)]
    #[repr(align(64))]
    struct Lines([u8; 256]);

    #[test]
    fn the_portable_copies_do_what_the_fast_ones_do() {
        let source: [u8; 256] = std::array::from_fn(|at| at as u8 ^ 0x5a);
        for offset in 0..=64 {
            for bytes in (0..=70).chain([127, 128, 129, 191]) {
                let mut expected = Lines([0xee; 256]);
                expected.0[offset..offset + bytes].copy_from_slice(&source[..bytes]);
                let (mut fast, mut slow) = (Lines([0xee; 256]), Lines([0xee; 256]));
                // SAFETY: `offset + bytes` is below 256; the lines are aligned, private and written by no other thread.
                unsafe {
                    write(source.as_ptr(), fast.0.as_mut_ptr().add(offset), bytes);
                    write_words(source.as_ptr(), slow.0.as_mut_ptr().add(offset), bytes);
                }
                assert!(fast.0 == expected.0 && slow.0 == expected.0, "{bytes} bytes to {offset}");
                let (mut fast, mut slow) = ([0xee; 256], [0xee; 256]);
                let mut expected_out = fast;
                expected_out[1..=bytes].copy_from_slice(&expected.0[offset..offset + bytes]);
                let shared = expected.0.as_mut_ptr().wrapping_add(offset);
                // SAFETY: as above; `1 + bytes` is below 256.
                unsafe {
                    read(shared, fast.as_mut_ptr().add(1), bytes);
                    read_words(shared, slow.as_mut_ptr().add(1), bytes);
                }
                assert!(fast == expected_out && slow == expected_out, "{bytes} bytes from {offset}");
            }
        }
    }
}
