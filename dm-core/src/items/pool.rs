//! Places for blocks: what this compute node was granted, and what it retired.
//!
//! ```text
//!   chunk (kind "items") ──► carved from the front, sizes mixed ──► taken ──► written ──► named by an entry
//!                                                                    ▲                          │ replaced, deleted
//!                                                                    └── by size class ◄── retired, next generation
//! ```
//!
//! Chunks are granted as those of nodes are ([`crate::memory::chunks`]). One chunk serves all sizes, so that a small
//! pool need not have a chunk per size. When the next chunk comes, the rest of the present one is cut into places. If
//! the pool has no chunk left, a larger place is cut in two. Places that were collected ([`crate::memory::collect`])
//! are used before a new chunk.
//!
//! **When a place is used again:** at once, the last retired place first, with the next generation (`life`). A
//! collected place begins with the first generation. [`items_memory`](crate::manual::items_memory) shows why this is
//! safe. All retired places pass through [`BlockPool::retire`]; a delay before reuse would have to be added there.

use super::block::{CLASSES, UNIT_BYTES, class_bytes, class_of};
use super::slot::{BlockPointer, LIFE_MASK};
use crate::memory::free_list::FreePlace;
use crate::memory::slab::{BumpArena, Slab};
use crate::memory::{Collection, Share, nodes_from};
use crate::mutants::{Mutant, planted};
use crate::verbs::NodeId;
use spin::Mutex;

/// A place that no entry points to: storage for a [`BlockSlab`]. Its stamp is the generation that begins there next.
pub type FreeBlock = FreePlace<u32>;

/// Free places of one memory node, by size class. Storage for a [`BlockPool`].
pub type BlockSlab<'s> = Slab<'s, u32, CLASSES>;

/// A place into which a block can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlinkedBlock {
    /// Memory node and offset, as in [`BlockPointer::place`].
    pub place: u64,
    /// The generation that begins with this block.
    pub life: u32,
}

impl BlockSlab<'_> {
    /// Cuts the bytes from `offset` to `end`, where no block ever began, into places, the largest first. Returns the
    /// number of bytes that are lost because the free list is full.
    fn cut(&mut self, mut offset: u64, end: u64) -> u64 {
        while offset + UNIT_BYTES as u64 <= end {
            let left = (end - offset) as usize;
            let mut class = class_of(left);
            if class_bytes(class) > left {
                class -= 1;
            }
            if !self.free_list.push(class, offset, 0) {
                return end - offset;
            }
            offset += class_bytes(class) as u64;
        }
        0
    }

    fn take_class(&mut self, class: usize) -> Option<(u64, u32)> {
        self.take(class, class_bytes(class) as u64)
    }

    /// Carves places from that chunk from now on, and cuts the rest of the chunk before. Returns how many bytes of that
    /// rest are lost.
    fn go_on_with(&mut self, chunk: BumpArena) -> u64 {
        let (offset, bytes) = self.arena.rest();
        let lost = self.cut(offset, offset + bytes);
        self.arena = chunk;
        lost
    }

    /// Cuts a place of a larger class in two. Also returns how many bytes of the rest are lost.
    fn take_larger(&mut self, class: usize) -> Option<((u64, u32), u64)> {
        let (larger, (offset, life)) =
            (class + 1..CLASSES).find_map(|larger| Some((larger, self.free_list.pop(larger)?)))?;
        let lost = self.cut(offset + class_bytes(class) as u64, offset + class_bytes(larger) as u64);
        Some(((offset, life), lost))
    }
}

/// What became of a retired place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It is in the free list.
    Kept,
    /// It is in a chunk that is being collected: this collection or the next one finds it.
    Left,
    /// The free list is full: the place is lost until its chunk is collected.
    Forgotten,
}

/// The only allocation class in a collection of blocks.
pub(super) const BLOCKS: u8 = 0;

/// Free places of one index on one compute node, shared by its lanes.
pub struct BlockPool<'s> {
    slabs: &'s [Mutex<BlockSlab<'s>>],
    share: Share<'s>,
}

impl<'s> BlockPool<'s> {
    /// A pool with one slab per memory node.
    pub const fn new(slabs: &'s [Mutex<BlockSlab<'s>>]) -> Self {
        Self { slabs, share: Share::none() }
    }

    /// The same pool, with collection of lost places ([`crate::memory::collect`]).
    #[must_use]
    pub fn with_collection(mut self, share: Share<'s>) -> Self {
        self.share = share;
        self
    }

    /// The places that were collected.
    pub fn collection(&self) -> Option<&'s Collection<'s>> {
        self.share.collection()
    }

    /// Gives up the places in chunks that were closed.
    pub(super) fn give_up_closed(&self) {
        self.share.give_up_closed(|gone| {
            for (node, slab) in (0..).map(NodeId).zip(self.slabs) {
                slab.lock().give_up(|offset| gone(node, offset));
            }
        });
    }

    /// Reports that the memory nodes have no chunk left.
    pub(super) fn is_short(&self) {
        self.share.is_short();
    }

    /// Leaves a place alone because it is unknown whether an entry names its block.
    pub(super) fn leave(&self, pointer: &BlockPointer) {
        if *pointer != BlockPointer::NONE {
            self.share.has_lost(class_bytes(class_of(pointer.bytes as usize)) as u64);
        }
    }

    fn on_any(
        &self,
        near: NodeId,
        mut look: impl FnMut(&mut BlockSlab<'s>) -> Option<(u64, u32)>,
    ) -> Option<UnlinkedBlock> {
        nodes_from(near, self.slabs.len()).find_map(|node| {
            let (offset, life) = look(&mut self.slabs.get(usize::from(node.0))?.lock())?;
            Some(UnlinkedBlock { place: BlockPointer::place_of(node, offset), life })
        })
    }

    /// Takes a place of `class`, preferably on `near`. `None`: a chunk is needed.
    pub fn take(&self, class: usize, near: NodeId) -> Option<UnlinkedBlock> {
        self.give_up_closed();
        self.on_any(near, |slab| slab.take_class(class)).or_else(|| {
            let (node, offset) = self.collection()?.take(BLOCKS, near, class_bytes(class), UNIT_BYTES)?;
            Some(UnlinkedBlock { place: BlockPointer::place_of(node, offset), life: 0 })
        })
    }

    /// Takes a part of a larger place. For the case that no chunk can be had.
    pub(crate) fn take_larger(&self, class: usize, near: NodeId) -> Option<UnlinkedBlock> {
        self.give_up_closed();
        let mut lost = 0;
        let found = self.on_any(near, |slab| {
            let (found, of_rest) = slab.take_larger(class)?;
            lost += of_rest;
            Some(found)
        });
        self.share.has_lost(lost);
        found
    }

    /// Adds a granted chunk, whose memory was never used.
    pub fn add_chunk(&self, node: NodeId, offset: u64, bytes: u64) {
        let Some(slab) = self.slabs.get(usize::from(node.0)) else { return };
        if let Some(collection) = self.collection() {
            collection.grant(bytes);
        }
        let mut slab = slab.lock();
        let closed = self.share.is_closed(node, offset);
        let lost = if closed { bytes } else { slab.go_on_with(BumpArena::new(offset, bytes)) };
        drop(slab);
        self.share.has_lost(lost);
    }

    /// Gives back the place of a block that no entry names any more, or that none ever named.
    ///
    /// The block's WRITE must have ended: one that is still under way would land in the next generation.
    #[must_use = "a place that is forgotten leaks"]
    pub fn retire(&self, pointer: &BlockPointer) -> Retired {
        let Some(slab) = self.slabs.get(usize::from(pointer.node().0)) else { return Retired::Forgotten };
        let life =
            if planted(Mutant::BLOCK_LIFE_KEPT) { pointer.life } else { pointer.life.wrapping_add(1) & LIFE_MASK };
        let mut slab = slab.lock();
        // From here on another lane may take the place at once.
        let retired = if self.share.may_be_closed(pointer.node(), pointer.offset()) {
            Retired::Left
        } else if slab.free_list.push(class_of(pointer.bytes as usize), pointer.offset(), life) {
            Retired::Kept
        } else {
            Retired::Forgotten
        };
        drop(slab);
        if retired != Retired::Kept {
            self.leave(pointer);
        }
        retired
    }

    /// Bytes of free places on all memory nodes.
    pub fn ready_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.for_each_ready(&mut |_, _, place_bytes| bytes += place_bytes);
        bytes
    }

    /// Calls `visit` with memory node, offset and bytes of every free place, to account for memory.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(NodeId, u64, u64)) {
        self.give_up_closed();
        for (node, slab) in (0..).map(NodeId).zip(self.slabs) {
            let slab = slab.lock();
            slab.free_list.for_each(&mut |class, offset, _| visit(node, offset, class_bytes(class) as u64));
            let (offset, bytes) = slab.arena.rest();
            if bytes > 0 {
                visit(node, offset, bytes);
            }
        }
        if let Some(collection) = self.collection() {
            collection.for_each_ready(&mut |_, node, offset, bytes| visit(node, offset, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::closed::ChunkName;
    use crate::memory::{CollectedChunk, Epochs, MarkBitmap};
    use crate::remote::superblock::small_for_tests;
    use std::vec::Vec;

    #[test]
    fn every_byte_of_a_chunk_is_taken_once_or_ready() {
        let mut entries = [FreeBlock::default(); 512];
        let slabs = [Mutex::new(BlockSlab::new(&mut entries))];
        let pool = BlockPool::new(&slabs);
        assert_eq!(pool.take(0, NodeId(0)), None);
        let mut taken: Vec<(u64, u64, u32)> = Vec::new();
        let mut granted = 0;
        let mut state = 1u64;
        for round in 0..4_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 60 < 7 && !taken.is_empty() {
                let (place, bytes, life) = taken.swap_remove((state >> 33) as usize % taken.len());
                assert_eq!(pool.retire(&BlockPointer { place, life, bytes: bytes as u32 }), Retired::Kept);
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
    fn what_lies_where_somebody_collects_is_given_up_and_nothing_comes_back_there() {
        let line = |number: u64, chunks: &[u32]| {
            let mut line = [0; 8];
            line[0] = 1 << 48 | 2 << 32 | number;
            for (to, chunk) in line.iter_mut().skip(1).zip(chunks) {
                *to = ChunkName::new(NodeId(0), *chunk).0;
            }
            line
        };
        let geometry = [small_for_tests()];
        let chunk = |number: u32| geometry[0].chunk_offset(number);
        let (epochs, mut entries) = (Epochs::new(), [FreeBlock::default(); 4]);
        let (mut collected_chunks, mut marks) = ([CollectedChunk::default(); 1], [0; 4]);
        let collection = Collection::new(MarkBitmap::new(&mut collected_chunks, &mut marks), false);
        let slabs = [Mutex::new(BlockSlab::new(&mut entries))];
        let pool = BlockPool::new(&slabs).with_collection(Share::new(&collection, &epochs, &geometry));
        let pointer = |offset: u64| BlockPointer { place: offset, life: 3, bytes: 30 };
        assert_eq!(pool.retire(&pointer(chunk(4))), Retired::Left, "nobody knows whether somebody collects there");
        epochs.closed().learn([0; 8]);
        let ready = || {
            let mut all = Vec::new();
            pool.for_each_ready(&mut |_, offset, bytes| all.push((offset, bytes)));
            all.sort_unstable();
            all
        };
        for offset in [chunk(1), chunk(2), chunk(1) + 64, chunk(2) + 64] {
            assert_eq!(pool.retire(&pointer(offset)), Retired::Kept);
        }
        pool.add_chunk(NodeId(0), chunk(1), 4096);
        epochs.closed().learn(line(1, &[1, 3]));
        assert_eq!(ready(), [(chunk(2), 32), (chunk(2) + 64, 32)], "what lies elsewhere stays");
        assert_eq!(pool.retire(&pointer(chunk(1) + 4064)), Retired::Left);
        pool.add_chunk(NodeId(0), chunk(3), 4096);
        assert!((0..2).all(|_| pool.take(class_of(32), NodeId(0)).is_some_and(|fresh| fresh.place >= chunk(2))));
        assert_eq!(pool.take(class_of(32), NodeId(0)), None);
        epochs.closed().learn([0; 8]);
        for at in 0..4 {
            assert_eq!(pool.retire(&pointer(chunk(1) + at * 64)), Retired::Kept, "all entries are free again");
        }
        assert_eq!(pool.retire(&pointer(chunk(2))), Retired::Forgotten);
    }

    #[test]
    fn a_place_that_is_not_kept_is_lost() {
        let geometry = [small_for_tests()];
        let (epochs, mut entries) = (Epochs::new(), [FreeBlock::default(); 1]);
        epochs.closed().learn([0; 8]);
        let collection = Collection::new(MarkBitmap::new(&mut [], &mut []), false);
        let slabs = [Mutex::new(BlockSlab::new(&mut entries))];
        let pool = BlockPool::new(&slabs).with_collection(Share::new(&collection, &epochs, &geometry));
        let pointer = |at: u64| BlockPointer { place: geometry[0].chunk_offset(1) + at, life: 3, bytes: 30 };
        assert_eq!(pool.retire(&pointer(0)), Retired::Kept);
        assert!(!collection.may_have_lost_for_tests());
        assert_eq!(pool.retire(&pointer(64)), Retired::Forgotten, "one entry");
        assert!(collection.may_have_lost_for_tests(), "own chunks are worth a pass when memory is short");
    }

    #[test]
    fn a_place_comes_back_in_its_next_life() {
        let mut entries = [FreeBlock::default(); 1];
        let slabs = [Mutex::new(BlockSlab::new(&mut entries))];
        let pool = BlockPool::new(&slabs);
        pool.add_chunk(NodeId(0), 4096, 64);
        let first = pool.take(class_of(40), NodeId(0)).expect("a chunk");
        let pointer = BlockPointer { place: first.place, life: LIFE_MASK, bytes: 40 };
        assert_eq!(pool.retire(&pointer), Retired::Kept);
        assert_eq!(pool.retire(&BlockPointer { place: 8192, ..pointer }), Retired::Forgotten, "one entry");
        assert_eq!(pool.take(class_of(48), NodeId(0)), Some(UnlinkedBlock { place: first.place, life: 0 }), "it wraps");
    }
}
