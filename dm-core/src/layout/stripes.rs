//! Cache-line versions: the codec of every striped node.
//!
//! ```text
//!  byte 0            1                                                      63
//! ┌────────────────┬──────────────────────────────────────────────────────────┐
//! │ NV 0..3 EV 4..7│ 63 payload bytes                                         │  one 64-byte line
//! └────────────────┴──────────────────────────────────────────────────────────┘
//! ```
//!
//! A node is a whole number of lines. *Payload offsets* count payload bytes only: payload byte `p` is stored at `64 *
//! (p / 63) + 1 + p % 63`.
//!
//! There are two levels of 4-bit versions (after Sherman section 4.4, in the per-line form of CHIME section 4.1.1):
//!
//! - **NV**, the node version, is the same in every line of a node. A WRITE of the whole node raises it by one in every
//!   line. A READ whose lines disagree is a mixture of two such WRITEs.
//! - **EV**, the entry version, is in the entry's own control byte. The version byte of every line into which the entry
//!   reaches from the line before repeats it. A WRITE of one entry raises it by one, and covers exactly the bytes from
//!   the control byte to the entry's end, including version bytes in between. An entry inside one line needs no EV: the
//!   line is atomic.
//!
//! **Why an accepted READ is one instant of each entry.** Given LINE_ATOMIC, an entry within one line cannot tear. An
//! entry that spans lines has an EV per line, and the same WRITE writes all of them. So equal EVs and equal NVs mean
//! equal writers, unless 16 WRITEs of that entry (or of the node) fit into the READ. Time bounds this: see
//! [`crate::verbs::Capabilities::write_turn_ns_min`]. No order of lines is assumed, neither of READs nor of WRITEs. See
//! [`torn_reads`](crate::manual::torn_reads).
//!
//! The functions of the codec take images of any content and any length. An access outside the image returns zeros or
//! does nothing, so remote bytes cannot make them panic.

use crate::layout::LINE_BYTES;
use crate::mutants::{Mutant, planted};

/// Payload bytes of one line.
pub const LINE_PAYLOAD_BYTES: usize = LINE_BYTES - 1;

/// Versions count modulo 16.
pub(crate) const VERSION_MASK: u8 = 0x0f;

/// Stored bytes that the codec looks at: an image in a scratch, or a page in a frame, which may change meanwhile.
pub trait Bytes: Copy {
    /// The byte at `at`; 0 behind the end.
    fn byte_at(self, at: usize) -> u8;

    /// The little-endian word that begins at `at`; 0 if the bytes end before it does.
    fn word_at(self, at: usize) -> u64;

    /// Copies the bytes from `at` on; zeros if there are not as many.
    fn copy_at(self, at: usize, out: &mut [u8]);
}

impl Bytes for &[u8] {
    #[inline]
    fn byte_at(self, at: usize) -> u8 {
        self.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn word_at(self, at: usize) -> u64 {
        self.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    #[inline]
    fn copy_at(self, at: usize, out: &mut [u8]) {
        match self.get(at..at + out.len()) {
            Some(piece) => out.copy_from_slice(piece),
            None => out.fill(0),
        }
    }
}

/// Stored bytes that the codec changes.
pub trait BytesMut {
    /// What looks at them.
    type View<'v>: Bytes
    where
        Self: 'v;

    /// The bytes as they are.
    fn view(&self) -> Self::View<'_>;

    /// Writes bytes from `at` on; none if they do not fit.
    fn put_at(&mut self, at: usize, bytes: &[u8]);
}

impl BytesMut for [u8] {
    type View<'v> = &'v [u8];

    #[inline]
    fn view(&self) -> &[u8] {
        self
    }

    #[inline]
    fn put_at(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// An image, and a copy of its payload without the version bytes in between, if it is small.
///
/// What looks at every entry saves the steps over version bytes, which cost more than the copy: a line is four moves. Of a scan of a
/// hundred records that saved 11,000 of 38,700 instructions (Sherman), and 20,200 of 88,000 (CHIME). A get, which
/// looks at half of a leaf's entries, gains nothing.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    /// The image.
    pub(crate) image: &'a [u8],
    /// The payload.
    pub(crate) piece: Option<&'a [u8]>,
}

impl Look<'_> {
    /// Calls `look` with an image; one of more than 32 lines is not copied. With entries of 19 bytes and 64 of them a leaf has 22.
    #[inline]
    pub(crate) fn at<R>(image: &[u8], look: impl FnOnce(Look<'_>) -> R) -> R {
        // No array, which would be made zero first.
        let mut payload = heapless::Vec::<[u8; LINE_PAYLOAD_BYTES], 32>::new();
        let (lines, rest) = image.as_chunks::<LINE_BYTES>();
        if lines.len() > payload.capacity() || !rest.is_empty() {
            return look(Look { image, piece: None });
        }
        for line in lines {
            if let Some(bytes) = line.last_chunk() {
                // There is room: as was asked.
                let _ = payload.push(*bytes);
            }
        }
        look(Look { image, piece: Some(payload.as_flattened()) })
    }

    /// Copies `bytes` payload bytes from each of `places` on into `out`, one behind the other.
    #[inline]
    pub(crate) fn read_each(&self, places: impl Iterator<Item = usize>, bytes: usize, out: &mut [u8]) {
        // Records of two words are the common case, and two moves take a fraction of the time of a call of memcpy.
        if let (Some(piece), 16) = (self.piece, bytes) {
            for (at, out) in places.zip(out.as_chunks_mut::<16>().0) {
                match piece.get(at..).and_then(<[u8]>::first_chunk) {
                    Some(record) => *out = *record,
                    None => read(self.image, at, out),
                }
            }
            return;
        }
        for (at, out) in places.zip(out.chunks_exact_mut(bytes.max(1))) {
            match self.piece.and_then(|piece| piece.get(at..at + bytes)) {
                Some(record) => out.copy_from_slice(record),
                None => read(self.image, at, out),
            }
        }
    }
}

/// Stored bytes of a node with `payload` bytes: a whole number of lines.
#[inline]
pub(crate) const fn stored_bytes(payload: usize) -> usize {
    payload.div_ceil(LINE_PAYLOAD_BYTES) * LINE_BYTES
}

/// Payload bytes that fit into `stored` bytes.
#[inline]
pub const fn payload_bytes(stored: usize) -> usize {
    stored / LINE_BYTES * LINE_PAYLOAD_BYTES
}

/// Offset at which payload byte `payload` is stored.
#[inline]
pub const fn stored_offset(payload: usize) -> usize {
    payload / LINE_PAYLOAD_BYTES * LINE_BYTES + 1 + payload % LINE_PAYLOAD_BYTES
}

/// Copies payload bytes from `at` on into `out`.
#[inline]
pub fn read(image: &[u8], at: usize, out: &mut [u8]) {
    Cursor::at(at).read(image, out);
}

/// Copies `bytes` to the payload at `at`. Does not change version bytes.
#[inline]
pub fn write(image: &mut [u8], at: usize, bytes: &[u8]) {
    write_to(image, at, bytes);
}

/// As [`write()`], wherever the image is.
#[inline]
pub fn write_to<B: BytesMut + ?Sized>(image: &mut B, at: usize, bytes: &[u8]) {
    // A word in one line is the common case, and a store takes a fraction of the time of a call of memcpy.
    if let Ok(word) = <&[u8; 8]>::try_from(bytes)
        && at % LINE_PAYLOAD_BYTES <= LINE_PAYLOAD_BYTES - word.len()
    {
        return image.put_at(stored_offset(at), word);
    }
    let mut at = at;
    let mut bytes = bytes;
    while !bytes.is_empty() {
        let room = LINE_PAYLOAD_BYTES - at % LINE_PAYLOAD_BYTES;
        let (now, rest) = bytes.split_at(room.min(bytes.len()));
        image.put_at(stored_offset(at), now);
        bytes = rest;
        at += now.len();
    }
}

/// Makes `bytes` payload bytes from `at` on zero.
pub(crate) fn erase<B: BytesMut + ?Sized>(image: &mut B, at: usize, bytes: usize) {
    const ZEROS: [u8; LINE_PAYLOAD_BYTES] = [0; LINE_PAYLOAD_BYTES];
    let end = at + bytes;
    for at in (at..end).step_by(ZEROS.len()) {
        write_to(image, at, &ZEROS[..ZEROS.len().min(end - at)]);
    }
}

/// Whether `bytes` payload bytes from `at` on are zero.
pub(crate) fn is_erased(image: impl Bytes, at: usize, bytes: usize) -> bool {
    let mut here = Cursor::at(at);
    for _ in 0..bytes {
        if here.byte(image) != 0 {
            return false;
        }
        here = here.forward(1);
    }
    true
}

/// Compares the payload bytes from `at` on with `bytes`.
#[inline]
pub fn compare(image: &[u8], at: usize, bytes: &[u8]) -> core::cmp::Ordering {
    // Keys of eight bytes are the common case, and a comparison of words takes a fraction of the time of a call of
    // memcmp.
    match <[u8; 8]>::try_from(bytes) {
        Ok(bytes) => word(image, at).swap_bytes().cmp(&u64::from_be_bytes(bytes)),
        Err(_) => compare_pieces(image, at, bytes),
    }
}

fn compare_pieces(image: &[u8], at: usize, bytes: &[u8]) -> core::cmp::Ordering {
    use core::cmp::Ordering;
    let mut at = at;
    let mut bytes = bytes;
    while !bytes.is_empty() {
        let room = LINE_PAYLOAD_BYTES - at % LINE_PAYLOAD_BYTES;
        let (now, rest) = bytes.split_at(room.min(bytes.len()));
        let start = stored_offset(at);
        let piece = image.get(start..start + now.len()).unwrap_or(&[]);
        match piece.cmp(now) {
            Ordering::Equal => {}
            different => return different,
        }
        bytes = rest;
        at += now.len();
    }
    Ordering::Equal
}

/// One payload byte.
#[inline]
pub fn byte(image: &[u8], at: usize) -> u8 {
    image.get(stored_offset(at)).copied().unwrap_or(0)
}

/// A little-endian word of the payload.
#[inline]
pub fn word(image: &[u8], at: usize) -> u64 {
    Cursor::at(at).word(image)
}

/// A position in the payload that moves forward without divisions, for walks over entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Offset at which the byte is stored.
    stored: usize,
    /// Payload bytes of its line from this one on, 1..=63.
    room: usize,
}

impl Cursor {
    /// At payload byte `at`.
    #[inline]
    pub const fn at(at: usize) -> Self {
        Self { stored: stored_offset(at), room: LINE_PAYLOAD_BYTES - at % LINE_PAYLOAD_BYTES }
    }

    /// `bytes` further on.
    #[inline]
    #[must_use]
    pub(crate) const fn forward(self, bytes: usize) -> Self {
        let Self { mut stored, mut room } = self;
        let mut bytes = bytes;
        while bytes >= room {
            bytes -= room;
            stored += room + 1;
            room = LINE_PAYLOAD_BYTES;
        }
        Self { stored: stored + bytes, room: room - bytes }
    }

    /// As [`crossings`], for `bytes` from here on.
    #[inline]
    pub(crate) fn crossings(self, bytes: usize) -> impl Iterator<Item = usize> {
        // Usually there are none.
        let lines = if bytes <= self.room { 0 } else { (bytes - self.room).div_ceil(LINE_PAYLOAD_BYTES) };
        (0..lines).map(move |line| self.stored + self.room + line * LINE_BYTES)
    }

    /// The byte here.
    #[inline]
    pub fn byte(self, image: impl Bytes) -> u8 {
        image.byte_at(self.stored)
    }

    /// The little-endian word that begins here; 0 if the image ends before the word.
    #[inline]
    pub fn word(self, image: impl Bytes) -> u64 {
        let load = |start: usize| image.word_at(start);
        if self.room >= 8 {
            return load(self.stored);
        }
        // Every byte behind the version byte is one place further. So this loads two words, and takes each byte from
        // the word that has it at the right place.
        let mask = (1 << (8 * self.room)) - 1;
        load(self.stored) & mask | load(self.stored + 1) & !mask
    }

    /// The word behind the byte here: what [`forward`](Self::forward) by 1 would find. Walks over entries look at it.
    #[inline]
    pub(crate) fn next_word(self, image: impl Bytes) -> u64 {
        if self.room > 8 { image.word_at(self.stored + 1) } else { self.forward(1).word(image) }
    }

    /// Copies the payload from here on into `out`.
    #[inline]
    pub fn read(self, image: impl Bytes, out: &mut [u8]) {
        // Records of one or two words are the common cases. As words, a version byte in between costs a mask, and
        // there is no call of memcpy.
        match out.len() {
            8 => return out.copy_from_slice(&self.word(image).to_le_bytes()),
            16 => {
                let (first, second) = out.split_at_mut(8);
                first.copy_from_slice(&self.word(image).to_le_bytes());
                return second.copy_from_slice(&self.forward(8).word(image).to_le_bytes());
            }
            _ => {}
        }
        if out.len() <= self.room {
            return image.copy_at(self.stored, out);
        }
        let mut here = self;
        let mut out = out;
        while !out.is_empty() {
            let (now, rest) = out.split_at_mut(here.room.min(out.len()));
            image.copy_at(here.stored, now);
            here = here.forward(now.len());
            out = rest;
        }
    }

    /// Compares the payload from here on with `bytes`.
    #[inline]
    pub fn compare(self, image: impl Bytes, bytes: &[u8]) -> core::cmp::Ordering {
        if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
            let (found, wanted) = (self.word(image).swap_bytes(), u64::from_be_bytes(bytes));
            return if planted(Mutant::KEYS_SIGNED) {
                found.cast_signed().cmp(&wanted.cast_signed())
            } else {
                found.cmp(&wanted)
            };
        }
        let bytes = bytes.get(..32).filter(|_| planted(Mutant::KEYS_CUT)).unwrap_or(bytes);
        let mut here = self;
        for piece in bytes.chunks(LINE_PAYLOAD_BYTES) {
            let mut found = [0; LINE_PAYLOAD_BYTES];
            let Some(found) = found.get_mut(..piece.len()) else { break };
            here.read(image, found);
            match (*found).cmp(piece) {
                core::cmp::Ordering::Equal => here = here.forward(piece.len()),
                different => return different,
            }
        }
        core::cmp::Ordering::Equal
    }
}

/// A little-endian half-word of the payload.
#[inline]
pub fn half(image: &[u8], at: usize) -> u16 {
    let mut bytes = [0; 2];
    read(image, at, &mut bytes);
    u16::from_le_bytes(bytes)
}

/// The node version, if it is the same in every line.
#[inline]
pub fn node_version(image: &[u8]) -> Option<u8> {
    let first = *image.first()? & VERSION_MASK;
    if planted(Mutant::BOOKEND_VERSIONS) {
        return (*image.get(image.len().saturating_sub(LINE_BYTES))? & VERSION_MASK == first).then_some(first);
    }
    // No early exit: the common case reads all lines, and a loop without branches takes a quarter of the time.
    // Whole lines by themselves: a last one that may be short would cost every line some instructions.
    let (lines, rest) = image.as_chunks::<LINE_BYTES>();
    let mut difference = rest.first().map_or(0, |version| version ^ first);
    for line in lines {
        difference |= line[0] ^ first;
    }
    (difference & VERSION_MASK == 0).then_some(first)
}

/// Writes the node version into every line. Does not change entry versions.
#[inline]
pub fn set_node_version(image: &mut [u8], version: u8) {
    for line in image.chunks_mut(LINE_BYTES) {
        line[0] = (line[0] & !VERSION_MASK) | (version & VERSION_MASK);
    }
}

/// Stored offsets of the version bytes of the lines into which payload `at..at + bytes` reaches from the line before.
#[inline]
pub(crate) fn crossings(at: usize, bytes: usize) -> impl Iterator<Item = usize> {
    let first = at / LINE_PAYLOAD_BYTES + 1;
    let last = (at + bytes.max(1) - 1) / LINE_PAYLOAD_BYTES;
    (first..=last).map(|line| line * LINE_BYTES)
}

/// Whether every crossed line repeats entry version `version`.
#[inline]
pub(crate) fn entry_is_whole(image: &[u8], at: usize, bytes: usize, version: u8) -> bool {
    crossings(at, bytes).all(|line| image.get(line).is_some_and(|byte| byte >> 4 == version & VERSION_MASK))
}

/// The lines of an image, for a walk over entries in ascending order.
pub(crate) struct Lines<'a> {
    image: &'a [u8],
    /// Payload and stored offset at which the next line begins.
    next: (usize, usize),
}

impl<'a> Lines<'a> {
    /// For entries from payload byte `at` on.
    #[inline]
    pub(crate) const fn from(image: &'a [u8], at: usize) -> Self {
        let line = at / LINE_PAYLOAD_BYTES + 1;
        Self { image, next: (line * LINE_PAYLOAD_BYTES, line * LINE_BYTES) }
    }

    /// Whether every line into which an entry at payload byte `at` reaches from the line before repeats its entry version, which is
    /// in the upper half of its first byte.
    #[inline]
    pub(crate) fn all_repeat(&mut self, at: usize, entry: &[u8]) -> bool {
        let mut difference = 0;
        while self.next.0 < at + entry.len() {
            let (payload, stored) = self.next;
            if at < payload {
                difference |= self.image.byte_at(stored) ^ entry.first().copied().unwrap_or(0);
            }
            self.next = (payload + LINE_PAYLOAD_BYTES, stored + LINE_BYTES);
        }
        difference >> 4 == 0
    }
}

/// Writes the entry version into every crossed line. Does not change node versions.
#[inline]
pub fn set_entry_version(image: &mut [u8], at: usize, bytes: usize, version: u8) {
    set_entry_version_of(image, at, bytes, version);
}

/// As [`set_entry_version`], wherever the image is.
#[inline]
pub fn set_entry_version_of<B: BytesMut + ?Sized>(image: &mut B, at: usize, bytes: usize, version: u8) {
    for line in crossings(at, bytes) {
        let node_version = image.view().byte_at(line) & VERSION_MASK;
        image.put_at(line, &[node_version | (version & VERSION_MASK) << 4]);
    }
}

/// The stored byte range of payload `at..at + bytes`: the range that a WRITE of one entry covers.
#[inline]
pub(crate) const fn stored_range(at: usize, bytes: usize) -> core::ops::Range<usize> {
    let last = if bytes == 0 { at } else { at + bytes - 1 };
    stored_offset(at)..stored_offset(last) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn payload_round_trips_around_version_bytes() {
        let mut image = vec![0xAA; 256];
        let bytes: Vec<u8> = (0..200).collect();
        write(&mut image, 11, &bytes);
        let mut back = vec![0; 200];
        read(&image, 11, &mut back);
        assert_eq!(back, bytes);
        for line in 0..4 {
            assert_eq!(image[line * 64], 0xAA, "version byte of line {line} was overwritten");
        }
        assert_eq!(compare(&image, 11, &bytes), core::cmp::Ordering::Equal);
    }

    #[test]
    fn what_is_erased_is_zero_and_version_bytes_stay() {
        for (at, bytes) in [(0, 1), (11, 8), (60, 8), (62, 130), (63, 63), (100, 0)] {
            let mut image = vec![0xAA; 256];
            assert_eq!(is_erased(&*image, at, bytes), bytes == 0);
            erase(&mut *image, at, bytes);
            assert!(is_erased(&*image, at, bytes));
            let zeros: usize = image.iter().map(|byte| usize::from(*byte == 0)).sum();
            assert_eq!(zeros, bytes, "{bytes} bytes from {at} on");
            assert!(image.iter().step_by(64).all(|byte| *byte == 0xAA), "version bytes");
        }
    }

    #[test]
    fn an_entry_is_whole_only_if_every_crossed_line_agrees() {
        let mut image = vec![0; 256];
        // Payload 60..130 begins in line 0 and reaches into lines 1 and 2.
        assert_eq!(crossings(60, 70).collect::<Vec<_>>(), [64, 128]);
        set_entry_version(&mut image, 60, 70, 9);
        assert!(entry_is_whole(&image, 60, 70, 9));
        image[128] = 0x80;
        assert!(!entry_is_whole(&image, 60, 70, 9));
        // An entry inside one line needs no version.
        assert!(entry_is_whole(&image, 0, 63, 5));
    }

    #[test]
    fn node_version_needs_all_lines() {
        let mut image = vec![0; 192];
        set_node_version(&mut image, 7);
        assert_eq!(node_version(&image), Some(7));
        image[64] ^= 1;
        assert_eq!(node_version(&image), None);
        image[64] ^= 1;
        image.push(6);
        assert_eq!(node_version(&image), None, "a last line that is short counts, too");
    }

    #[test]
    fn words_are_read_like_bytes_wherever_they_begin() {
        let image: Vec<u8> = (0..192).collect();
        for at in 0..150 {
            let expected: Vec<u8> = (at..at + 16).map(|at| byte(&image, at)).collect();
            let mut out = [0; 16];
            read(&image, at, &mut out);
            assert_eq!(out[..], expected, "two words at {at}");
            read(&image, at, &mut out[..8]);
            assert_eq!(out[..8], expected[..8], "a word at {at}");
            assert_eq!(Cursor::at(at).next_word(&image[..]), word(&image, at + 1), "the word behind {at}");
        }
    }

    #[test]
    fn short_images_yield_zeros() {
        let mut out = [1; 16];
        read(&[], 0, &mut out);
        assert_eq!(out, [0; 16]);
        write(&mut [], 5, &[1, 2, 3]);
        assert_eq!(word(&[1; 10], 60), 0);
    }
}
