//! Places for blocks: what this compute node was granted, and what it retired.
//!
//! ```text
//!   chunk (kind "items") ──► carved from the front, sizes mixed ──► taken ──► written ──► named by an entry
//!                                                                    ▲                          │ replaced, deleted
//!                                                                    └── by size class ◄── retired, next life
//! ```
//!
//! What others had been granted and never written to is used before a new chunk ([`super::adopt`]).
//!
//! Chunks are granted as those of nodes are ([`crate::remote::chunks`]) and serve all sizes, so that a small pool need not
//! have one per size. What a chunk has left when the next one comes is cut into places for later. If the pool has no chunk
//! left, a larger place is cut in two.
//!
//! **When a place is used again.** At once, the last retired first. That is safe for who holds an old pointer, however
//! long: what it READs is a block of another life, or a mixture of two, and [`super::block::read`] says so, by the life,
//! the lengths and the checksum; it then looks at the entry again, which points elsewhere by now. What a checksum of 32
//! bits cannot promise is a mixture that agrees with it by chance, one in four billion of the READs that meet a WRITE.
//! [`BlockPool::retire`] is the one door by which places come back: who wants them to rest before holds them back there.

use super::block::{CLASSES, UNIT_BYTES, class_bytes, class_of};
use super::slot::{BlockPointer, LIFE_MASK};
use crate::planted::{Bug, planted};
use crate::verbs::NodeId;
use heapless::Vec;
use spin::Mutex;

/// Rests of others' chunks that are kept whole per memory node; more are cut at once.
const RESTS_MAX: usize = 8;

/// No entry.
const NONE: u32 = u32::MAX;

/// A place nobody points to. Storage for a [`Shelf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    offset: u64,
    life: u32,
    /// The next of its class, or of the entries that are free.
    next: u32,
}

/// A place to write a block to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshBlock {
    /// Memory node and offset, as in [`BlockPointer::place`].
    pub place: u64,
    /// The life that begins.
    pub life: u32,
}

/// Places of one memory node. Storage for a [`BlockPool`].
#[derive(Debug)]
pub struct Shelf<'s> {
    /// The rest of the present chunk.
    next: u64,
    end: u64,
    /// Others, of compute nodes that are gone.
    rests: Vec<(u64, u64), RESTS_MAX>,
    /// First entry of each class.
    first: [u32; CLASSES],
    /// First free entry of those that were used before.
    free: u32,
    /// Entries that were used at some time.
    used: u32,
    entries: &'s mut [Returned],
}

impl<'s> Shelf<'s> {
    /// An empty shelf that remembers up to `entries.len()` places.
    pub fn new(entries: &'s mut [Returned]) -> Self {
        Self { next: 0, end: 0, rests: Vec::new(), first: [NONE; CLASSES], free: NONE, used: 0, entries }
    }

    fn push(&mut self, class: usize, offset: u64, life: u32) -> bool {
        let at = if self.free == NONE { self.used } else { self.free };
        let (Some(entry), Some(first)) = (self.entries.get_mut(at as usize), self.first.get_mut(class)) else {
            return false;
        };
        if at == self.used {
            self.used += 1;
        } else {
            self.free = entry.next;
        }
        *entry = Returned { offset, life, next: *first };
        *first = at;
        true
    }

    fn pop(&mut self, class: usize) -> Option<(u64, u32)> {
        let first = self.first.get_mut(class)?;
        let at = *first;
        let entry = self.entries.get_mut(at as usize)?;
        *first = entry.next;
        entry.next = self.free;
        self.free = at;
        Some((entry.offset, entry.life))
    }

    /// Cuts the bytes from `offset` to `end`, where no block ever began, into places, the largest first; returns what is
    /// lost because the shelf remembers no more.
    fn cut(&mut self, mut offset: u64, end: u64) -> u64 {
        while offset + UNIT_BYTES as u64 <= end {
            let left = (end - offset) as usize;
            let mut class = class_of(left);
            if class_bytes(class) > left {
                class -= 1;
            }
            if !self.push(class, offset, 0) {
                return end - offset;
            }
            offset += class_bytes(class) as u64;
        }
        0
    }

    fn take(&mut self, class: usize) -> Option<(u64, u32)> {
        if let Some(found) = self.pop(class) {
            return Some(found);
        }
        let bytes = class_bytes(class) as u64;
        if self.next + bytes > self.end {
            let fits = self.rests.iter().position(|(next, end)| next + bytes <= *end)?;
            let (next, end) = self.rests.swap_remove(fits);
            self.go_on_with(next, end);
        }
        self.next += bytes;
        Some((self.next - bytes, 0))
    }

    /// Places come from `next` to `end` from now on; the rest there was is cut.
    fn go_on_with(&mut self, next: u64, end: u64) {
        // What is lost here is lost until this compute node is gone.
        let _ = self.cut(self.next, self.end);
        (self.next, self.end) = (next, end);
    }

    /// Cuts a place of a larger class in two.
    fn take_larger(&mut self, class: usize) -> Option<(u64, u32)> {
        let (larger, (offset, life)) = (class + 1..CLASSES).find_map(|larger| Some((larger, self.pop(larger)?)))?;
        // What is lost here is found by a walk over the chunk.
        let _ = self.cut(offset + class_bytes(class) as u64, offset + class_bytes(larger) as u64);
        Some((offset, life))
    }
}

/// Places of one index on one compute node, shared by its lanes.
pub struct BlockPool<'s> {
    shelves: &'s [Mutex<Shelf<'s>>],
}

impl<'s> BlockPool<'s> {
    /// One shelf per memory node.
    pub const fn new(shelves: &'s [Mutex<Shelf<'s>>]) -> Self {
        Self { shelves }
    }

    fn on_any(&self, near: NodeId, mut look: impl FnMut(&mut Shelf<'s>) -> Option<(u64, u32)>) -> Option<FreshBlock> {
        let nodes = self.shelves.len();
        (0..nodes).find_map(|step| {
            let node = (usize::from(near.0) + step) % nodes;
            let (offset, life) = look(&mut self.shelves.get(node)?.lock())?;
            Some(FreshBlock { place: BlockPointer::place_of(NodeId(node as u16), offset), life })
        })
    }

    /// Takes a place of `class`, preferably on `near`. `None`: a chunk is needed.
    pub fn take(&self, class: usize, near: NodeId) -> Option<FreshBlock> {
        self.on_any(near, |shelf| shelf.take(class))
    }

    /// Takes part of a larger place: when there is no chunk to be had.
    pub fn take_larger(&self, class: usize, near: NodeId) -> Option<FreshBlock> {
        self.on_any(near, |shelf| shelf.take_larger(class))
    }

    /// Adds a granted chunk of memory that was never used.
    pub fn add_chunk(&self, node: NodeId, offset: u64, bytes: u64) {
        if let Some(shelf) = self.shelves.get(usize::from(node.0)) {
            shelf.lock().go_on_with(offset, offset + bytes);
        }
    }

    /// Adds part of a chunk of somebody gone, to be used before another chunk is asked for.
    pub(super) fn add_rest(&self, node: NodeId, offset: u64, bytes: u64) {
        let Some(shelf) = self.shelves.get(usize::from(node.0)) else { return };
        let mut shelf = shelf.lock();
        if shelf.rests.push((offset, offset + bytes)).is_err() {
            // As in `Shelf::go_on_with`.
            let _ = shelf.cut(offset, offset + bytes);
        }
    }

    /// Gives back the place of a block that no entry names any more, or that none ever did. `false`: it is forgotten, because the
    /// shelf remembers no more.
    ///
    /// The block's WRITE must have ended: one that is still on its way would land in the next life.
    #[must_use = "a place that is forgotten leaks"]
    pub fn retire(&self, pointer: &BlockPointer) -> bool {
        let Some(shelf) = self.shelves.get(usize::from(pointer.node().0)) else { return false };
        let life = if planted(Bug::BlockLifeKept) { pointer.life } else { pointer.life.wrapping_add(1) & LIFE_MASK };
        shelf.lock().push(class_of(pointer.bytes as usize), pointer.offset(), life)
    }

    /// Bytes ready on all memory nodes.
    pub fn ready_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.for_each_ready(&mut |_, _, place_bytes| bytes += place_bytes);
        bytes
    }

    /// Calls `visit` with memory node, offset and bytes of everything that is ready: to account for memory.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(NodeId, u64, u64)) {
        for (node, shelf) in (0..).map(NodeId).zip(self.shelves) {
            let shelf = shelf.lock();
            for (class, &first) in shelf.first.iter().enumerate() {
                let mut at = first;
                // Lists of entries are never longer than there are entries.
                for _ in 0..shelf.entries.len() {
                    let Some(entry) = shelf.entries.get(at as usize) else { break };
                    visit(node, entry.offset, class_bytes(class) as u64);
                    at = entry.next;
                }
            }
            for &(next, end) in shelf.rests.iter().chain([(shelf.next, shelf.end)].iter()) {
                if next < end {
                    visit(node, next, end - next);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_byte_of_a_chunk_is_taken_once_or_ready() {
        let mut entries = [Returned::default(); 512];
        let shelves = [Mutex::new(Shelf::new(&mut entries))];
        let pool = BlockPool::new(&shelves);
        assert_eq!(pool.take(0, NodeId(0)), None);
        let mut taken: Vec<(u64, u64, u32)> = Vec::new();
        let mut granted = 0;
        let mut state = 1u64;
        for round in 0..4_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 60 < 7 && !taken.is_empty() {
                let (place, bytes, life) = taken.swap_remove((state >> 33) as usize % taken.len());
                assert!(pool.retire(&BlockPointer { place, life, bytes: bytes as u32 }));
                continue;
            }
            let bytes = 1 + (state >> 40) as usize % 700;
            let class = class_of(bytes);
            let fresh = pool.take(class, NodeId(0)).or_else(|| {
                if granted == 16 {
                    return pool.take_larger(class, NodeId(0));
                }
                pool.add_chunk(NodeId(0), 0x1_0000 + granted * 4096, 4096);
                granted += 1;
                pool.take(class, NodeId(0))
            });
            if let Some(fresh) = fresh {
                taken.push((fresh.place, class_bytes(class) as u64, fresh.life));
            }
            if round % 100 == 0 {
                let mut all: Vec<(u64, u64)> = taken.iter().map(|&(place, bytes, _)| (place, bytes)).collect();
                pool.for_each_ready(&mut |node, offset, bytes| {
                    all.push((BlockPointer::place_of(node, offset), bytes));
                });
                all.sort_unstable();
                assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "two uses of one place");
                assert_eq!(all.iter().map(|(_, bytes)| bytes).sum::<u64>(), granted * 4096, "round {round}");
            }
        }
        assert_eq!(granted, 16, "the test came to its end");
    }

    #[test]
    fn rests_of_others_are_used_before_a_chunk_is_asked_for() {
        let mut entries = [Returned::default(); 8];
        let shelves = [Mutex::new(Shelf::new(&mut entries))];
        let pool = BlockPool::new(&shelves);
        pool.add_rest(NodeId(0), 4096, 32);
        pool.add_rest(NodeId(0), 8192, 64);
        let ready = pool.ready_bytes();
        let large = class_of(64);
        assert_eq!(pool.take(large, NodeId(0)), Some(FreshBlock { place: 8192, life: 0 }), "where it fits");
        assert_eq!(pool.take(large, NodeId(0)), None);
        assert_eq!(pool.take(class_of(32), NodeId(0)), Some(FreshBlock { place: 4096, life: 0 }));
        assert_eq!((ready, pool.ready_bytes()), (96, 0));
    }

    #[test]
    fn a_place_comes_back_in_its_next_life() {
        let mut entries = [Returned::default(); 1];
        let shelves = [Mutex::new(Shelf::new(&mut entries))];
        let pool = BlockPool::new(&shelves);
        pool.add_chunk(NodeId(0), 4096, 64);
        let first = pool.take(class_of(40), NodeId(0)).expect("a chunk");
        let pointer = BlockPointer { place: first.place, life: LIFE_MASK, bytes: 40 };
        assert!(pool.retire(&pointer));
        assert!(!pool.retire(&BlockPointer { place: 8192, ..pointer }), "one entry");
        assert_eq!(pool.take(class_of(48), NodeId(0)), Some(FreshBlock { place: first.place, life: 0 }), "it wraps");
    }
}
