//! The only access to shared bytes: bounds-checked accesses that keep 64-byte lines and 8-byte words whole.
//!
//! Any number of threads and processes access the same bytes at once. No reference to the bytes exists, and no plain
//! load or store of Rust's touches them. The accesses are:
//!
//! | access | [`Vector`](LineMode::Vector) | [`Sequence`](LineMode::Sequence) |
//! |---|---|---|
//! | READ | one AVX-512 load per line (`lines/vector.rs`) | copy between two looks at the line's sequence word (`lines/sequence.rs`) |
//! | WRITE | one AVX-512 store per line, masked if partial; the masks that do not tear | atomic 8-byte stores while the sequence word is locked |
//! | CAS, FETCH-ADD | `AtomicU64` on the word | `AtomicU64` on the word |
//!
//! **Why this is sound.** To Rust's abstract machine the shared bytes are an array of `AtomicU64`. Every access is one
//! of `AtomicU64`, or an `asm!` block whose effect such accesses can express: loading a line is eight relaxed loads;
//! storing one is eight relaxed stores; storing some bytes of a word is a relaxed read-modify-write that replaces them.
//! Relaxed atomic accesses of one size do not race. That a vector instruction does all eight *at one instant* is more
//! than that, and soundness in Rust's sense does not rest on it: a torn line is wrong data that the layers above detect
//! or not, never undefined behaviour.
//!
//! **Order.** The caller puts fences between accesses ([`crate::fabric::shm`] says which fence closes what). Lines are
//! accessed in ascending order.
//!
//! **Odd ends in vector mode.** A byte-masked 64-byte store tears in the middle of the line, so parts of 33 to 63 bytes
//! of a line are stored in two-byte units (`lines/vector.rs` has the figures). If such a part begins or ends at an odd
//! byte, the store also writes the neighbouring byte, as it was an instant before: it undoes a change of exactly that
//! byte by another writer in between. That byte belongs to a word under atomics only if the WRITE overwrites part of
//! that word.
//!
//! **Atomics in the middle of a line that is being READ.** Atomics do not touch sequence words. A READ sees such a word
//! before or after the atomic, whole in either case, and the rest of the line undisturbed by any WRITE. So it sees the
//! line as it was at one instant with respect to WRITEs, which is what LINE_ATOMIC says.

mod sequence;
mod vector;

pub use vector::supported as vector_supported;

#[cfg(doc)]
use super::LineMode;
use crate::fetch;
use dm_core::layout::LINE_BYTES;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why an access did not take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The range is not inside the area. No effect.
    #[error("outside the memory")]
    Outside,
    /// An atomic on a word that is not 8-byte aligned. No effect.
    #[error("not aligned to 8 bytes")]
    Misaligned,
    /// Another writer has been writing one line for longer than [`LINE_WAIT_MS_MAX`]. Earlier lines of a WRITE are
    /// written.
    #[error("a line was locked by a writer for {LINE_WAIT_MS_MAX} ms")]
    LineStuck,
}

/// Up to this many bytes are prefetched into the first-level cache: two lines, or three.
const FEW_BYTES: usize = 2 * LINE_BYTES;

/// How long to wait for a line that is being written. Its writer is a few instructions from done, unless it was
/// preempted (milliseconds), died (the memory node's daemon then releases the line) or is stopped.
pub const LINE_WAIT_MS_MAX: u64 = 2000;

/// The slot of a writer: it tells the daemon which process holds a line, in case that process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterSlot(pub(crate) u32);

impl WriterSlot {
    /// Writes the first image of a region, and writes where there are no sequence words.
    pub(crate) const FORMATTER: Self = Self(0);
}

/// Where the sequence words are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// The word of the file's first line.
    pub words: *mut u32,
    /// The first writer slot.
    pub slots: *mut u8,
    /// Number of the area's first line in the file.
    pub first_line: u64,
}

/// A part of shared memory: the region of a memory node, or its device memory.
#[derive(Clone, Copy, Debug)]
pub struct Area<'r> {
    base: *mut u8,
    bytes: u64,
    sequences: Option<Sequences>,
    region: PhantomData<&'r AtomicU64>,
}

/// A line of memory.
#[derive(Clone, Copy)]
enum Line {
    /// A line of the area.
    Data(*mut u8),
    /// A line of sequence words.
    Sequences(*mut u32),
}

impl Line {
    #[inline]
    fn address(self) -> *const u8 {
        match self {
            Self::Data(line) => line,
            Self::Sequences(words) => words.cast(),
        }
    }
}

impl Area<'_> {
    /// # Safety
    ///
    /// For the lifetime `'r`: `base` is 64-byte aligned and begins `bytes` (a multiple of 64) mapped, readable and
    /// writable bytes which this process accesses through areas only; `sequences`, if any, point to a word for each
    /// line of the area and to [`crate::region::layout::WRITER_SLOTS`] slots, likewise. Without `sequences` the
    /// processor must have what [`vector_supported`] asks for, else accesses fall back to words, and lines tear.
    #[inline]
    pub(crate) const unsafe fn new(base: *mut u8, bytes: u64, sequences: Option<Sequences>) -> Self {
        Self { base, bytes, sequences, region: PhantomData }
    }

    /// Bytes in the area.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A pointer to `offset`, if `bytes` bytes from there are inside.
    #[inline]
    fn at(&self, offset: u64, bytes: usize) -> Result<*mut u8, AccessError> {
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.bytes => Ok(self.base.wrapping_add(offset as usize)),
            _ => Err(AccessError::Outside),
        }
    }

    #[inline]
    fn word(&self, offset: u64) -> Result<&AtomicU64, AccessError> {
        let at = self.at(offset, 8)?;
        if !offset.is_multiple_of(8) {
            return Err(AccessError::Misaligned);
        }
        // SAFETY: inside the area (`at`), aligned (base is, offset is), alive as long as the area; every process
        // accesses it as `AtomicU64` or equivalently (module documentation).
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// Copies from `offset` to `out`.
    #[inline]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let from = self.at(offset, out.len())?;
        if out.len() == 8 && offset.is_multiple_of(8) {
            // One word of one line: whole without further measures.
            out.copy_from_slice(&self.word(offset)?.load(Ordering::Relaxed).to_le_bytes());
            return Ok(());
        }
        match &self.sequences {
            None => {
                // SAFETY: `at` checked the range; `out` is exclusively borrowed.
                unsafe { vector::read(from, out.as_mut_ptr(), out.len()) };
                Ok(())
            }
            // SAFETY: as above, and there is a sequence word for every line of the area.
            Some(sequences) => unsafe { sequence::read(sequences, self.base, offset, out) },
        }
    }

    /// Copies `bytes` to `offset`.
    #[inline]
    pub fn write(&self, writer: WriterSlot, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let to = self.at(offset, bytes.len())?;
        match &self.sequences {
            None => {
                if let Ok(word) = <[u8; 8]>::try_from(bytes)
                    && offset.is_multiple_of(8)
                {
                    self.word(offset)?.store(u64::from_le_bytes(word), Ordering::Release);
                    return Ok(());
                }
                // SAFETY: `at` checked the range; `bytes` is a live slice.
                unsafe { vector::write(bytes.as_ptr(), to, bytes.len()) };
                Ok(())
            }
            // SAFETY: as above, and there is a sequence word for every line of the area.
            Some(sequences) => unsafe { sequence::write(sequences, writer, self.base, offset, bytes) },
        }
    }

    /// Compare-and-swap; returns the old word.
    #[inline]
    pub fn cas(&self, offset: u64, compare: u64, swap: u64) -> Result<u64, AccessError> {
        let word = self.word(offset)?;
        let (Ok(old) | Err(old)) = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        Ok(old)
    }

    /// Compares under `compare_mask`; if equal replaces the bits of `swap_mask`. Returns the old word.
    #[inline]
    pub fn masked_cas(&self, offset: u64, operands: [u64; 4]) -> Result<u64, AccessError> {
        let [compare, swap, compare_mask, swap_mask] = operands;
        let word = self.word(offset)?;
        let (Ok(old) | Err(old)) = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
            ((old ^ compare) & compare_mask == 0).then_some(old & !swap_mask | swap & swap_mask)
        });
        Ok(old)
    }

    /// Adds, wrapping; returns the old word.
    #[inline]
    pub fn fetch_add(&self, offset: u64, addend: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.fetch_add(addend, Ordering::SeqCst))
    }

    /// Prefetches the lines, without waiting. Cannot fail.
    ///
    /// Many lines go to the second-level cache: the first level has 12 to 16 buffers for lines on their way, and a load
    /// or a prefetch of one more line waits for the first to arrive. A READ of a kilobyte would take all buffers. Few
    /// lines go to the first level.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: usize) {
        if bytes <= FEW_BYTES {
            self.each_line(offset, bytes, |line| fetch::soon(line.address()));
        } else {
            self.each_line(offset, bytes, |line| fetch::near(line.address()));
        }
    }

    /// Loads a word of every line, to have the lines in the cache afterwards. Cannot fail.
    #[inline]
    pub fn touch(&self, offset: u64, bytes: usize) {
        let mut seen = 0;
        self.each_line(offset, bytes, |line| {
            seen |= match line {
                // SAFETY: a mapped, aligned word of a line, which every process accesses as an `AtomicU64`.
                Line::Data(line) => unsafe { AtomicU64::from_ptr(line.cast()) }.load(Ordering::Relaxed),
                // SAFETY: a mapped, aligned sequence word, which every process accesses as an `AtomicU32`.
                Line::Sequences(words) => unsafe { AtomicU32::from_ptr(words) }.load(Ordering::Relaxed).into(),
            };
        });
        std::hint::black_box(seen);
    }

    /// Calls `visit` with each line of the range, and with each line of their sequence words.
    #[inline]
    fn each_line(&self, offset: u64, bytes: usize, mut visit: impl FnMut(Line)) {
        if bytes == 0 || self.at(offset, bytes).is_err() {
            return;
        }
        let (first, last) = (offset / LINE_BYTES as u64, (offset + bytes as u64 - 1) / LINE_BYTES as u64);
        if let Some(sequences) = &self.sequences {
            const WORDS: u64 = (LINE_BYTES / size_of::<u32>()) as u64;
            each((sequences.first_line + first) / WORDS, (sequences.first_line + last) / WORDS, |line| {
                visit(Line::Sequences(sequences.words.wrapping_add((line * WORDS) as usize)));
            });
        }
        each(first, last, |line| visit(Line::Data(self.base.wrapping_add((line * LINE_BYTES as u64) as usize))));
    }

    /// Completes the WRITE of the line that the writer of `slot` died in, if it died in one, in a file of `lines`
    /// lines: the whole part of the line is stored.
    ///
    /// # Safety
    ///
    /// `line_at` gives the mapped line of each number below `lines`, in the file this area is of.
    pub(crate) unsafe fn release_dead(&self, slot: WriterSlot, lines: u64, line_at: impl Fn(u64) -> *mut u8) -> bool {
        let Some(sequences) = &self.sequences else { return false };
        // SAFETY: the sequence words and slots are there by the contract of `new`; the rest is the caller's contract.
        unsafe { sequence::release_dead(sequences, slot, lines, line_at) }
    }
}

/// Calls `visit` with each number from `first` to `last`. A range with its end takes twice the instructions for each.
#[inline]
fn each(first: u64, last: u64, mut visit: impl FnMut(u64)) {
    let mut number = first;
    while number < last {
        visit(number);
        number += 1;
    }
    visit(number);
}

#[cfg(test)]
impl Area<'_> {
    pub(crate) fn sequences_for_test(&self) -> Option<Sequences> {
        self.sequences
    }
}
