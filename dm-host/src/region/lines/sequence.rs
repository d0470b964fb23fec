//! Lines kept whole by a sequence word each.
//!
//! ```text
//!  31                                  1  0
//! ┌─────────────────────────────────────┬───┐
//! │ number of WRITEs                    │ 0 │   no WRITE is under way
//! ├─────────────────────────────────────┼───┤
//! │ slot of the writer                  │ 1 │   being written
//! └─────────────────────────────────────┴───┘
//! ```
//!
//! A reader copies a line between two loads of its word, and repeats unless both show the same even value. A writer
//! locks the word, stores, and releases it two higher. The count turns over after 2^31 WRITEs: a copy of 64 bytes would
//! have to take a minute for a reader to accept a torn line.
//!
//! **A writer that dies** in the middle leaves the word locked. Before it locked the word, it noted in its slot the
//! line, the even value and the bytes it is about to store. Once the process is certainly gone, the daemon stores these
//! bytes and releases the word ([`release_dead`]). So of a line that a WRITE was in, either the WRITE's whole part is
//! stored or nothing.
//!
//! ```text
//!  slot  0 owner u64   8 line u64   16 even value u64   24 first byte, bytes u32[2]   64 image of the line, 64 bytes
//! ```
//!
//! Fences, after Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012): the acquire load
//! of the word keeps the copy from starting early; the acquire fence before the second load keeps it from ending late;
//! the release fence after locking keeps stores from becoming visible before the lock; the release store of the word
//! publishes them.

use super::{AccessError, LINE_WAIT_MS_MAX, Sequences, WriterSlot, vector};
use crate::region::layout::SLOT_BYTES;
use dm_core::layout::LINE_BYTES;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Loads of a busy line's word before the thread yields the processor.
const SPINS: u32 = 200;

/// How long a thread has waited for a busy line.
#[derive(Default)]
struct Patience {
    spins: u32,
    deadline: Option<Instant>,
}

impl Patience {
    #[cold]
    fn wait(&mut self) -> Result<(), AccessError> {
        self.spins += 1;
        if self.spins < SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        let limit = Duration::from_millis(LINE_WAIT_MS_MAX);
        if Instant::now() > *self.deadline.get_or_insert_with(|| Instant::now() + limit) {
            return Err(AccessError::LineStuck);
        }
        std::thread::yield_now();
        Ok(())
    }
}

/// # Safety
///
/// `line` is a line of the file `sequences` belong to.
#[inline]
unsafe fn word_of(sequences: &Sequences, line: u64) -> &AtomicU32 {
    // SAFETY: there is a word per line, 4-byte aligned, only ever accessed as an atomic.
    unsafe { AtomicU32::from_ptr(sequences.words.add(line as usize)) }
}

/// What the writer of a slot noted last.
struct Note<'s> {
    line: &'s AtomicU64,
    /// The even value it found in the line's word.
    value: &'s AtomicU64,
    /// Which bytes of the line it stores: the first, and their number << 32.
    part: &'s AtomicU64,
    /// The image of the line, in the bytes that it stores.
    image: *mut u8,
}

/// # Safety
///
/// `slot` is below WRITER_SLOTS.
#[inline]
unsafe fn note_of(sequences: &Sequences, slot: WriterSlot) -> Note<'_> {
    let at = sequences.slots.wrapping_add(slot.0 as usize * SLOT_BYTES as usize);
    // SAFETY: a slot is SLOT_BYTES mapped bytes, line-aligned: owner, line, value, part, and an image behind one line;
    // only ever accessed as atomics.
    unsafe {
        Note {
            line: AtomicU64::from_ptr(at.add(8).cast()),
            value: AtomicU64::from_ptr(at.add(16).cast()),
            part: AtomicU64::from_ptr(at.add(24).cast()),
            image: at.add(LINE_BYTES),
        }
    }
}

impl Note<'_> {
    /// Notes what is to be stored in `count` bytes of a line from its byte `skip` on.
    ///
    /// # Safety
    ///
    /// `count` bytes from `from` are readable, and stay as they are; `skip + count` is at most a line.
    #[inline]
    unsafe fn take(&self, from: *const u8, skip: usize, count: usize) {
        self.part.store(skip as u64 | (count as u64) << 32, Ordering::Relaxed);
        let mut line = [0u64; LINE_BYTES / 8];
        // SAFETY: the caller's contract; the line has room.
        unsafe { line.as_mut_ptr().cast::<u8>().add(skip).copy_from_nonoverlapping(from, count) };
        let words = skip / 8..(skip + count).div_ceil(8);
        for (word, at) in line[words.clone()].iter().zip(words) {
            // SAFETY: a word of the slot's image, aligned like the slot; no other thread stores to it while its owner
            // lives.
            unsafe { AtomicU64::from_ptr(self.image.add(at * 8).cast()) }.store(*word, Ordering::Relaxed);
        }
    }
}

/// The pieces of `bytes` bytes from `offset`: (line, offset, position, bytes).
#[inline]
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, u64, usize, usize)> {
    let mut position = 0;
    std::iter::from_fn(move || {
        if position == bytes {
            return None;
        }
        let at = offset + position as u64;
        let count = (LINE_BYTES - at as usize % LINE_BYTES).min(bytes - position);
        let piece = (at / LINE_BYTES as u64, at, position, count);
        position += count;
        Some(piece)
    })
}

/// READ.
///
/// # Safety
///
/// `offset .. offset + out.len()` is inside the area that begins at `base`; `sequences` are that area's.
#[inline]
pub(super) unsafe fn read(
    sequences: &Sequences,
    base: *const u8,
    offset: u64,
    out: &mut [u8],
) -> Result<(), AccessError> {
    let skip = offset as usize % LINE_BYTES;
    let covering = (skip + out.len()).div_ceil(LINE_BYTES);
    let is_part = !(offset as usize | out.len()).is_multiple_of(LINE_BYTES);
    if is_part && (2..=COVERED_LINES).contains(&covering) {
        let mut lines = [0; COVERED_LINES * LINE_BYTES];
        // SAFETY: an area is whole lines.
        if unsafe { read_group(sequences, base, offset - skip as u64, &mut lines[..covering * LINE_BYTES]) } {
            out.copy_from_slice(&lines[skip..skip + out.len()]);
            return Ok(());
        }
    }
    let mut position = 0;
    while position < out.len() {
        let at = offset + position as u64;
        let whole = if at.is_multiple_of(LINE_BYTES as u64) { (out.len() - position) / LINE_BYTES } else { 0 };
        let piece = match whole.min(GROUP_LINES) {
            0 => (LINE_BYTES - at as usize % LINE_BYTES).min(out.len() - position),
            lines => lines * LINE_BYTES,
        };
        let to = &mut out[position..position + piece];
        position += piece;
        // SAFETY: the piece is inside the area, and whole lines if there are several.
        unsafe {
            if piece > LINE_BYTES && read_group(sequences, base, at, to) {
                continue;
            }
            read_lines(sequences, base, at, to)?;
        }
    }
    Ok(())
}

/// Whole lines copied between two loads of all of their words: as many as a cache line of words has.
const GROUP_LINES: usize = 16;

/// A READ of parts of lines, of at most so many, copies them whole, to the side, and then what was asked for. That takes fewer
/// instructions than a copy word by word: of a get of CHIME, 4,490 are left of 5,380.
const COVERED_LINES: usize = 6;

/// Copies whole lines at once; false if one of them changed or is being written.
///
/// # Safety
///
/// As for [`read`]; `offset` is line-aligned, `out` at most [`GROUP_LINES`] whole lines.
#[inline]
unsafe fn read_group(sequences: &Sequences, base: *const u8, offset: u64, out: &mut [u8]) -> bool {
    let first = sequences.first_line + offset / LINE_BYTES as u64;
    let lines = out.len() / LINE_BYTES;
    // SAFETY: the lines are inside the area: there is a word for each, 4-byte aligned, only ever accessed as an atomic.
    let words = unsafe {
        std::slice::from_raw_parts(sequences.words.add(first as usize).cast_const().cast::<AtomicU32>(), lines)
    };
    let mut before = [0; GROUP_LINES];
    let mut busy = 0;
    for (word, value) in words.iter().zip(&mut before) {
        *value = word.load(Ordering::Acquire);
        busy |= *value & 1;
    }
    if busy != 0 {
        return false;
    }
    // SAFETY: `out.len()` bytes inside the area.
    unsafe { copy::read(base.wrapping_add(offset as usize), out.as_mut_ptr(), out.len()) };
    fence(Ordering::Acquire);
    let changed = |(word, value): (&AtomicU32, &u32)| word.load(Ordering::Relaxed) ^ value;
    words.iter().zip(&before).map(changed).fold(0, |all, bits| all | bits) == 0
}

/// Copies line by line, waiting for each as long as needed.
///
/// # Safety
///
/// As for [`read`].
unsafe fn read_lines(sequences: &Sequences, base: *const u8, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
    for (line, at, position, count) in pieces(offset, out.len()) {
        // SAFETY: the line is inside the area.
        let word = unsafe { word_of(sequences, sequences.first_line + line) };
        let mut patience = Patience::default();
        loop {
            let before = word.load(Ordering::Acquire);
            if before & 1 == 0 {
                let from = base.wrapping_add(at as usize);
                let to = out[position..position + count].as_mut_ptr();
                // SAFETY: `count` bytes of one line inside the area; as many of `out`.
                unsafe { copy::read(from, to, count) };
                fence(Ordering::Acquire);
                if word.load(Ordering::Relaxed) == before {
                    break;
                }
            }
            patience.wait()?;
        }
    }
    Ok(())
}

/// WRITE.
///
/// # Safety
///
/// `offset .. offset + bytes.len()` is inside the area that begins at `base`; `sequences` are that area's; `slot` is
/// below WRITER_SLOTS and no other thread writes with it.
#[inline]
pub(super) unsafe fn write(
    sequences: &Sequences,
    slot: WriterSlot,
    base: *mut u8,
    offset: u64,
    bytes: &[u8],
) -> Result<(), AccessError> {
    let locked = slot.0 << 1 | 1;
    // SAFETY: the caller's contract.
    let note = unsafe { note_of(sequences, slot) };
    for (line, at, position, count) in pieces(offset, bytes.len()) {
        let line = sequences.first_line + line;
        // SAFETY: `count` bytes of `bytes`, which go to one line.
        unsafe { note.take(bytes[position..].as_ptr(), at as usize % LINE_BYTES, count) };
        // SAFETY: the line is inside the area.
        let word = unsafe { word_of(sequences, line) };
        let mut patience = Patience::default();
        let before = loop {
            let before = word.load(Ordering::Relaxed);
            if before & 1 == 0 {
                note.value.store(u64::from(before), Ordering::Relaxed);
                note.line.store(line, Ordering::Relaxed);
                // AcqRel: a thread that finds the word locked finds the note, too.
                if word.compare_exchange(before, locked, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    break before;
                }
            }
            patience.wait()?;
        };
        fence(Ordering::Release);
        // SAFETY: `count` bytes of one line inside the area; as many of `bytes`.
        unsafe { vector::write_words(bytes[position..].as_ptr(), base.wrapping_add(at as usize), count) };
        word.store(before.wrapping_add(2), Ordering::Release);
    }
    Ok(())
}

/// Completes what the writer of `slot` was storing, if anything: stores the rest of the line and releases its word. The
/// file has `lines` lines. The writer is certainly gone.
///
/// # Safety
///
/// `slot` is below WRITER_SLOTS; `sequences` have `lines` words; `line_at` gives the mapped line of a number below
/// `lines`.
pub(super) unsafe fn release_dead(
    sequences: &Sequences,
    slot: WriterSlot,
    lines: u64,
    line_at: impl Fn(u64) -> *mut u8,
) -> bool {
    // SAFETY: the caller's contract.
    let note = unsafe { note_of(sequences, slot) };
    let line = note.line.load(Ordering::Acquire);
    if line >= lines {
        return false;
    }
    let locked = slot.0 << 1 | 1;
    // SAFETY: `line` is a line of the file.
    let word = unsafe { word_of(sequences, line) };
    // If the writer wanted the line but never got it, the word is even or names another slot. If it is locked by this
    // slot, the note was complete before; no other thread stores to the line, and only this function releases it.
    if word.load(Ordering::Acquire) != locked {
        return false;
    }
    let next = (note.value.load(Ordering::Relaxed) as u32 & !1).wrapping_add(2);
    let part = note.part.load(Ordering::Relaxed);
    let (skip, count) = (part as u32 as usize, (part >> 32) as usize);
    // A slot may hold any bytes: the region is shared.
    if skip < LINE_BYTES && count <= LINE_BYTES - skip {
        let mut image = [0; LINE_BYTES];
        // SAFETY: the slot's image and the line are 64 mapped bytes each; the part is inside both.
        unsafe {
            vector::read_words(note.image, image.as_mut_ptr(), LINE_BYTES);
            vector::write_words(image[skip..].as_ptr(), line_at(line).wrapping_add(skip), count);
        }
    }
    word.compare_exchange(locked, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Copies part of one line out, between the two loads of its word. Any copy that does not tear words is correct, so the
/// fastest is taken.
mod copy {
    #[cfg(target_arch = "x86_64")]
    use super::{LINE_BYTES, vector};

    /// # Safety
    ///
    /// As for [`vector::read`].
    #[inline]
    pub(super) unsafe fn read(from: *const u8, to: *mut u8, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            if vector::supported() {
                // SAFETY: the caller's contract.
                unsafe { vector::read(from, to, bytes) };
                return;
            }
            if bytes.is_multiple_of(LINE_BYTES) && std::arch::is_x86_feature_detected!("avx") {
                // SAFETY: AVX is there; pieces that are multiples of a line are aligned ones, inside the range.
                unsafe { read_avx(from, to, bytes / LINE_BYTES) };
                return;
            }
        }
        // SAFETY: the caller's contract.
        unsafe { vector::read_words(from, to, bytes) }
    }

    /// Copies whole lines, each in four aligned 16-byte loads, which are atomic on every processor with AVX (Intel SDM
    /// vol. 3, section 9.1.1; AMD promises the same): words do not tear.
    ///
    /// # Safety
    ///
    /// `from` begins so many mapped aligned lines; as many bytes from `to` on are the caller's.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx")]
    unsafe fn read_avx(from: *const u8, to: *mut u8, lines: usize) {
        for at in (0..lines).map(|line| line * LINE_BYTES) {
            let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
            // SAFETY: loads of a mapped line, expressible as relaxed atomic loads; stores into what the caller owns. The
            // VEX encoding of 16-byte moves leaves no dirty upper halves behind.
            unsafe {
                std::arch::asm!(
                    "vmovdqa xmm0, [{from}]",
                    "vmovdqa xmm1, [{from} + 16]",
                    "vmovdqa xmm2, [{from} + 32]",
                    "vmovdqa xmm3, [{from} + 48]",
                    "vmovdqu [{to}], xmm0",
                    "vmovdqu [{to} + 16], xmm1",
                    "vmovdqu [{to} + 32], xmm2",
                    "vmovdqu [{to} + 48], xmm3",
                    from = in(reg) from, to = in(reg) to,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack, preserves_flags),
                );
            }
        }
    }

    #[cfg(all(test, target_arch = "x86_64"))]
    mod tests {
        #[repr(align(64))]
        struct Line([u8; super::LINE_BYTES]);

        #[test]
        fn sixteen_bytes_at_a_time_are_the_same_line() {
            if !std::arch::is_x86_feature_detected!("avx") {
                eprintln!("skipped: no AVX");
                return;
            }
            let line = Line(std::array::from_fn(|at| at as u8));
            let mut out = [0; 66];
            // SAFETY: AVX is there, the line is aligned, 64 bytes from the second of `out` are inside.
            unsafe { super::read_avx(line.0.as_ptr(), out.as_mut_ptr().add(1), 1) };
            assert_eq!(out[1..65], line.0);
            assert_eq!((out[0], out[65]), (0, 0));
        }
    }
}

#[cfg(test)]
impl Sequences {
    /// Leaves `line` as a writer does that dies in it, before it has stored bytes 8 to 15 of it.
    pub(crate) fn die_in(&self, slot: WriterSlot, line: u64, bytes: [u8; 8]) {
        // SAFETY: tests name lines and slots that exist.
        let (note, word) = unsafe { (note_of(self, slot), word_of(self, line)) };
        // SAFETY: eight bytes.
        unsafe { note.take(bytes.as_ptr(), 8, bytes.len()) };
        note.value.store(u64::from(word.load(Ordering::Relaxed)), Ordering::Relaxed);
        note.line.store(line, Ordering::Relaxed);
        word.store(slot.0 << 1 | 1, Ordering::Release);
    }
}
