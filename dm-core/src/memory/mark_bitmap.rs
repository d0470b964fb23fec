//! Mark bitmaps of collected chunks: a bit for each unit of 16 bytes says whether it is in use.
//!
//! A [`CollectedChunk`] is the bitmap of one chunk. While the index is walked it is *surveyed*: the walk marks what it
//! reaches. Then it is *open*: unmarked units are carved, from the first one on and around again, and marked. A bitmap
//! in which nothing more is found is replaced by that of another chunk.

use super::closed::ChunkName;
use crate::verbs::NodeId;

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 16;

/// Units of a word of a bitmap.
const WORD_UNITS: usize = u64::BITS as usize;

/// Words of a bitmap for a chunk of `chunk_bytes`.
pub const fn words_for(chunk_bytes: u64) -> usize {
    (chunk_bytes as usize / UNIT_BYTES).div_ceil(WORD_UNITS)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Empty,
    Surveyed,
    Open,
}

/// A chunk and its state, besides its marks. Storage for a [`MarkBitmap`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CollectedChunk {
    state: ChunkState,
    name: ChunkName,
    node: NodeId,
    /// First byte.
    offset: u64,
    units: usize,
    /// What it is for, as the room numbers its uses.
    what: u8,
    /// Bytes of the smallest place that is carved there.
    least: usize,
    /// The unit at which the search continues.
    next: usize,
    /// So many consecutive units were not found.
    too_many: usize,
}

/// Collected chunks of one room on one compute node.
#[derive(Debug, Default)]
pub struct MarkBitmap<'s> {
    chunks: &'s mut [CollectedChunk],
    marks: &'s mut [u64],
}

impl<'s> MarkBitmap<'s> {
    /// Room for `chunks.len()` chunks, with `marks.len() / chunks.len()` words of marks each.
    pub const fn new(chunks: &'s mut [CollectedChunk], marks: &'s mut [u64]) -> Self {
        Self { chunks, marks }
    }

    fn words_per_chunk(&self) -> usize {
        self.marks.len().checked_div(self.chunks.len()).unwrap_or(0)
    }

    /// Chunks of that size that may be surveyed now. An open one makes room only if nothing is left to find.
    pub fn room(&self, chunk_bytes: u64) -> usize {
        if words_for(chunk_bytes) > self.words_per_chunk() {
            return 0;
        }
        self.chunks.iter().filter(|chunk| chunk.state != ChunkState::Surveyed && chunk.is_used_up()).count()
    }

    /// Begins to survey a chunk in which nothing smaller than `least_bytes` will be carved. `false`: there is no room.
    pub(crate) fn survey(
        &mut self,
        name: ChunkName,
        (node, offset, bytes): (NodeId, u64, u64),
        what: u8,
        least_bytes: usize,
    ) -> bool {
        let words = self.words_per_chunk();
        if words_for(bytes) > words {
            return false;
        }
        let room = |chunk: &&mut CollectedChunk| chunk.state != ChunkState::Surveyed && chunk.is_used_up();
        let Some(chunk) = self.chunks.iter_mut().find(room) else { return false };
        let units = bytes as usize / UNIT_BYTES;
        let least = least_bytes.div_ceil(UNIT_BYTES);
        let state = ChunkState::Surveyed;
        *chunk = CollectedChunk { state, name, node, offset, units, what, least, next: 0, too_many: usize::MAX };
        true
    }

    /// Forgets what was reached in surveyed chunks: the walk begins.
    pub fn begin(&mut self) {
        let words = self.words_per_chunk().max(1);
        for (chunk, marks) in self.chunks.iter().zip(self.marks.chunks_mut(words)) {
            if chunk.state == ChunkState::Surveyed {
                marks.fill(0);
            }
        }
    }

    /// `bytes` at `offset` of `node` were reached.
    pub fn reach(&mut self, node: NodeId, offset: u64, bytes: u64) {
        let words = self.words_per_chunk().max(1);
        for (chunk, marks) in self.chunks.iter().zip(self.marks.chunks_mut(words)) {
            let end = chunk.offset + (chunk.units * UNIT_BYTES) as u64;
            if chunk.state == ChunkState::Surveyed && chunk.node == node && (chunk.offset..end).contains(&offset) {
                let first = (offset - chunk.offset) as usize / UNIT_BYTES;
                // To the end of the unit in which it ends.
                let last = (offset - chunk.offset + bytes).div_ceil(UNIT_BYTES as u64) as usize;
                set(marks, first, last.min(chunk.units));
                return;
            }
        }
    }

    /// The chunk is this compute node's, and what was not reached is ready. Returns how many bytes that are.
    pub fn open(&mut self, name: ChunkName) -> u64 {
        let words = self.words_per_chunk().max(1);
        let mut bytes = 0;
        for (chunk, marks) in self.chunks.iter_mut().zip(self.marks.chunks_mut(words)) {
            if chunk.state == ChunkState::Surveyed && chunk.name == name {
                chunk.state = ChunkState::Open;
                let mut at = 0;
                while let Some((from, to)) = gap(marks, at, chunk.units) {
                    bytes += ((to - from) * UNIT_BYTES) as u64;
                    at = to;
                }
            }
        }
        bytes
    }

    /// Forgets a surveyed chunk.
    pub fn forget(&mut self, name: ChunkName) {
        let is_it = |chunk: &&mut CollectedChunk| chunk.state == ChunkState::Surveyed && chunk.name == name;
        for chunk in self.chunks.iter_mut().filter(is_it) {
            *chunk = CollectedChunk::default();
        }
    }

    /// Forgets all surveyed chunks.
    pub fn abandon(&mut self) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.state == ChunkState::Surveyed) {
            *chunk = CollectedChunk::default();
        }
    }

    /// Forgets open chunks that are in the set `closed`.
    pub(crate) fn give_up(&mut self, closed: impl Fn(ChunkName) -> bool) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.state == ChunkState::Open && closed(chunk.name)) {
            *chunk = CollectedChunk::default();
        }
    }

    /// Makes room: forgets the open chunk that was searched most.
    pub fn make_room(&mut self) {
        let open = self.chunks.iter_mut().filter(|chunk| chunk.state == ChunkState::Open);
        if let Some(chunk) = open.min_by_key(|chunk| chunk.too_many) {
            *chunk = CollectedChunk::default();
        }
    }

    /// Takes `bytes`, on `near` if that has some, at a multiple of `step_bytes` from the beginning of its chunk.
    pub fn take(&mut self, what: u8, near: NodeId, bytes: usize, step_bytes: usize) -> Option<(NodeId, u64)> {
        let words = self.words_per_chunk().max(1);
        let (units, step) = (bytes.div_ceil(UNIT_BYTES), (step_bytes / UNIT_BYTES).max(1));
        for elsewhere in [false, true] {
            for (chunk, marks) in self.chunks.iter_mut().zip(self.marks.chunks_mut(words)) {
                let fits = chunk.state == ChunkState::Open && chunk.what == what && units < chunk.too_many;
                if !fits || (chunk.node != near) != elsewhere {
                    continue;
                }
                let found = find(marks, chunk.next, chunk.units, units, step).or_else(|| {
                    // From its beginning again; what is not found in one round is not there.
                    let found = find(marks, 0, chunk.units, units, step);
                    if found.is_none() {
                        chunk.too_many = units;
                    }
                    found
                });
                if let Some(unit) = found {
                    set(marks, unit, unit + units);
                    chunk.next = unit + units;
                    return Some((chunk.node, chunk.offset + (unit * UNIT_BYTES) as u64));
                }
            }
        }
        None
    }

    /// Calls `visit` with the use, the memory node, the offset and the bytes of each ready run.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(u8, NodeId, u64, u64)) {
        let words = self.words_per_chunk().max(1);
        for (chunk, marks) in self.chunks.iter().zip(self.marks.chunks(words)) {
            let mut at = 0;
            while chunk.state == ChunkState::Open
                && let Some((from, to)) = gap(marks, at, chunk.units)
            {
                let offset = chunk.offset + (from * UNIT_BYTES) as u64;
                visit(chunk.what, chunk.node, offset, ((to - from) * UNIT_BYTES) as u64);
                at = to;
            }
        }
    }
}

impl CollectedChunk {
    /// Whether there is nothing to find in it.
    fn is_used_up(&self) -> bool {
        self.state == ChunkState::Empty || self.too_many <= self.least
    }
}

fn set(marks: &mut [u64], first: usize, last: usize) {
    let mut at = first;
    while at < last {
        let (bit, left) = (at % WORD_UNITS, last - at);
        let count = left.min(WORD_UNITS - bit);
        let ones = u64::MAX >> (WORD_UNITS - count);
        if let Some(word) = marks.get_mut(at / WORD_UNITS) {
            *word |= ones << bit;
        }
        at += count;
    }
}

/// The first units from `from` on, up to `end`, that are not marked: the first, and one past the last.
fn gap(marks: &[u64], from: usize, end: usize) -> Option<(usize, usize)> {
    let first = next_with(marks, from, end, false);
    (first < end).then(|| (first, next_with(marks, first, end, true)))
}

/// The first unit from `from` on that is marked, or not; `end` if there is none.
fn next_with(marks: &[u64], from: usize, end: usize, marked: bool) -> usize {
    let mut at = from;
    while at < end {
        let word = marks.get(at / WORD_UNITS).copied().unwrap_or(u64::MAX);
        let sought = if marked { word } else { !word } >> (at % WORD_UNITS);
        if sought != 0 {
            return (at + sought.trailing_zeros() as usize).min(end);
        }
        at = (at / WORD_UNITS + 1) * WORD_UNITS;
    }
    end
}

/// The first of so many consecutive units that are not marked, at a multiple of `step`.
fn find(marks: &[u64], from: usize, end: usize, units: usize, step: usize) -> Option<usize> {
    let mut at = from;
    while let Some((first, past)) = gap(marks, at, end) {
        let first = first.next_multiple_of(step);
        if first + units <= past {
            return Some(first);
        }
        at = past;
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const NODE: NodeId = NodeId(1);

    fn name(chunk: u32) -> ChunkName {
        ChunkName::new(NODE, chunk)
    }

    fn ready(mark_bitmap: &MarkBitmap<'_>) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        mark_bitmap.for_each_ready(&mut |_, _, offset, bytes| runs.push((offset, bytes)));
        runs
    }

    #[test]
    fn what_was_not_reached_is_carved_once() {
        let (mut chunks, mut marks) = ([CollectedChunk::default(); 2], vec![0; 2 * words_for(4096)]);
        let mut mark_bitmap = MarkBitmap::new(&mut chunks, &mut marks);
        assert!(mark_bitmap.survey(name(0), (NODE, 8192, 4096), 7, 16));
        mark_bitmap.begin();
        mark_bitmap.reach(NODE, 8192, 48);
        mark_bitmap.reach(NODE, 8192 + 1024, 2048);
        mark_bitmap.reach(NodeId(0), 8192 + 512, 16);
        mark_bitmap.reach(NODE, 8192 + 4096, 16);
        assert_eq!(ready(&mark_bitmap), [], "not open");
        assert_eq!(mark_bitmap.take(7, NODE, 16, 16), None);
        assert_eq!(mark_bitmap.open(name(0)), 4096 - 48 - 2048);
        assert_eq!(ready(&mark_bitmap), [(8192 + 48, 1024 - 48), (8192 + 3072, 1024)]);
        assert_eq!(mark_bitmap.take(6, NODE, 16, 16), None, "for something else");
        let mut taken = vec![(8192, 48), (8192 + 1024, 2048)];
        for bytes in [16, 400, 48, 608, 96, 80, 304, 16].into_iter().chain([16; 64]) {
            taken.extend(mark_bitmap.take(7, NodeId(0), bytes, 16).map(|(_, offset)| (offset, bytes as u64)));
        }
        assert_eq!(ready(&mark_bitmap), []);
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{taken:?}");
        assert!(
            mark_bitmap.survey(name(1), (NODE, 0, 4096), 7, 16)
                && mark_bitmap.survey(name(2), (NODE, 4096, 4096), 7, 16)
        );
        assert!(!mark_bitmap.survey(name(3), (NODE, 12_288, 4096), 7, 16), "both are surveyed");
    }

    #[test]
    fn places_of_one_size_keep_their_distance() {
        let (mut chunks, mut marks) = ([CollectedChunk::default()], vec![0; words_for(1040)]);
        let mut mark_bitmap = MarkBitmap::new(&mut chunks, &mut marks);
        assert!(mark_bitmap.survey(name(0), (NODE, 4096, 1040), 0, 48));
        mark_bitmap.begin();
        mark_bitmap.reach(NODE, 4096 + 48, 48);
        mark_bitmap.open(name(0));
        let mut places = Vec::new();
        while let Some((_, offset)) = mark_bitmap.take(0, NODE, 48, 48) {
            places.push(offset - 4096);
        }
        let all: Vec<u64> = (0..1040 / 48).map(|place| place * 48).filter(|&place| place != 48).collect();
        assert_eq!(places, all);
        assert_eq!(mark_bitmap.room(1040), 1, "units are left, and no place");
        assert_eq!(mark_bitmap.room(4096), 0, "larger than marks are for");
    }

    #[test]
    fn a_walk_that_begins_again_forgets_and_closed_chunks_are_given_up() {
        let (mut chunks, mut marks) = ([CollectedChunk::default(); 2], vec![0; 2 * words_for(1024)]);
        let mut mark_bitmap = MarkBitmap::new(&mut chunks, &mut marks);
        assert!(
            mark_bitmap.survey(name(0), (NODE, 0, 1024), 0, 16)
                && mark_bitmap.survey(name(1), (NODE, 1024, 1024), 0, 16)
        );
        mark_bitmap.reach(NODE, 0, 1024);
        mark_bitmap.begin();
        assert_eq!((mark_bitmap.open(name(0)), ready(&mark_bitmap)), (1024, vec![(0, 1024)]));
        assert_eq!(mark_bitmap.room(1024), 0);
        mark_bitmap.abandon();
        assert_eq!((mark_bitmap.open(name(1)), ready(&mark_bitmap)), (0, vec![(0, 1024)]));
        mark_bitmap.give_up(|closed| closed == name(0));
        assert_eq!((ready(&mark_bitmap), mark_bitmap.room(1024)), (vec![], 2));
        assert!(mark_bitmap.survey(name(1), (NODE, 1024, 1024), 0, 16));
        mark_bitmap.open(name(1));
        assert_eq!(mark_bitmap.room(1024), 1);
        mark_bitmap.make_room();
        assert_eq!(mark_bitmap.room(1024), 2);
    }
}
