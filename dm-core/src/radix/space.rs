//! Memory for nodes and leaves: granted chunks, carved in units of 16 bytes from their first byte on.
//!
//! Extents that were carved and then not published, because a CAS lost, are used first. The place of a node or leaf
//! that has left the tree is reused when no compute node has a pointer to it any more ([`super::pieces`]), and then
//! before memory that was never used.

use super::pieces::{FreeExtents, Queue};
use super::slot::{Place, UNIT_BYTES};
use crate::memory::chunks::Granted;
use crate::memory::slab::BumpArena;
use crate::memory::{Collection, Epochs, Share, nodes_from};
use crate::mutants::{Mutant, planted};
use crate::remote::lock_word::RowId;
use crate::remote::place::NodeClass;
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicU32, Ordering};
use heapless::Vec;
use spin::Mutex;

/// Chunks between those at which two compute nodes begin to search: 2^32 divided by the golden ratio, so that any
/// number of them are far apart, whatever the number of chunks (Knuth, The Art of Computer Programming vol. 3, section
/// 6.4).
const APART: u32 = 0x9E37_79B1;

/// Unpublished extents that are remembered, in addition to those that lie next to others. More are lost until they are
/// collected.
const SPARE_MAX: usize = 16;

/// The bump arena of the chunk in use, and spare extents. Storage for a [`Space`].
#[derive(Debug, Default)]
pub struct Arena {
    bump: BumpArena,
    spare: Vec<(u64, u32), SPARE_MAX>,
    /// First byte of some chunk, and how many bytes all have.
    chunk: (u64, u64),
    /// A lane is asking for another chunk.
    asking: bool,
    /// Bytes that were published here, are out of the tree, and found no room in the limbo list.
    retired_bytes: u64,
    /// Bytes of extents that there was no room to remember.
    lost_bytes: u64,
}

impl Arena {
    /// Forgets extents for which `gone` is true.
    fn give_up(&mut self, gone: impl Fn(u64) -> bool) {
        self.spare.retain(|spare| !gone(spare.0));
        self.bump.give_up(gone);
    }

    /// Whether two extents that meet at `offset` are of one chunk. Others are not joined: what is carved lies in one
    /// chunk.
    const fn is_within(&self, offset: u64) -> bool {
        let (chunk, bytes) = self.chunk;
        bytes > 0 && !offset.abs_diff(chunk).is_multiple_of(bytes)
    }

    /// Remembers an extent, joined with those that it meets.
    fn put(&mut self, offset: u64, bytes: u32) {
        let end = offset + u64::from(bytes);
        let (follows, precedes) = (self.is_within(offset), self.is_within(end));
        if precedes && self.bump.take_back(offset, end) {
            return;
        }
        for spare in &mut self.spare {
            if spare.0 + u64::from(spare.1) == offset && follows {
                spare.1 += bytes;
                return;
            }
            if end == spare.0 && precedes {
                *spare = (offset, spare.1 + bytes);
                return;
            }
        }
        if self.spare.push((offset, bytes)).is_err() {
            // The smallest one is lost.
            let mut piece = (offset, bytes);
            if let Some(smallest) = self.spare.iter_mut().min_by_key(|spare| spare.1)
                && smallest.1 < bytes
            {
                core::mem::swap(smallest, &mut piece);
            }
            self.lost_bytes += u64::from(piece.1);
        }
    }
}

/// Reserved room in the limbo list. Given back when it is dropped: by then the extents are there, or will not come.
#[derive(Debug)]
pub struct Room<'a, 's> {
    queue: Option<&'a Mutex<Queue<'s>>>,
    count: usize,
}

impl Drop for Room<'_, '_> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            queue.lock().unreserve(self.count);
        }
    }
}

/// Free memory of one index on one compute node, shared by its lanes.
pub struct Space<'s> {
    /// That of allocation class `u` on memory node `n`: `n * NodeClass::COUNT + u`.
    arenas: &'s [Mutex<Arena>],
    /// One per memory node; none: nothing that was published is reused.
    free_lists: &'s [Mutex<FreeExtents<'s>>],
    /// The limbo list, and what it waits for.
    waiting: Option<(&'s Mutex<Queue<'s>>, &'s Epochs)>,
    share: Share<'s>,
    /// The number of the chunk granted last, plus one.
    last_chunk: AtomicU32,
}

impl<'s> Space<'s> {
    /// `arenas`: [`NodeClass::COUNT`] per memory node.
    pub const fn new(arenas: &'s [Mutex<Arena>]) -> Self {
        Self { arenas, free_lists: &[], waiting: None, share: Share::none(), last_chunk: AtomicU32::new(0) }
    }

    /// The same, where memory that leaves the tree is reused. `free_lists`: one per memory node.
    #[must_use]
    pub const fn with_returns(
        mut self,
        free_lists: &'s [Mutex<FreeExtents<'s>>],
        waiting: &'s Mutex<Queue<'s>>,
        epochs: &'s Epochs,
    ) -> Self {
        self.free_lists = free_lists;
        self.waiting = Some((waiting, epochs));
        self
    }

    /// The same, with a mark-and-sweep of lost memory ([`crate::memory::collect`]).
    #[must_use]
    pub fn with_collection(mut self, share: Share<'s>) -> Self {
        self.share = share;
        self
    }

    /// What was collected.
    pub fn collection(&self) -> Option<&'s Collection<'s>> {
        self.share.collection()
    }

    /// Gives up the extents in closed chunks.
    pub fn give_up_closed(&self) {
        self.share.give_up_closed(|gone| {
            for (node, free_list) in (0..).map(NodeId).zip(self.free_lists) {
                free_list.lock().give_up(|offset| gone(node, offset));
            }
            if let Some((waiting, _)) = self.waiting {
                waiting.lock().give_up(|place| gone(place.node(), place.offset()));
            }
            for (number, arena) in self.arenas.iter().enumerate() {
                let node = NodeId((number / NodeClass::COUNT) as u16);
                arena.lock().give_up(|offset| gone(node, offset));
            }
        });
    }

    /// Where the search for the next chunk begins: behind the last one, or at first far from other compute nodes'.
    pub fn hint(&self, row: RowId) -> u32 {
        match self.last_chunk.load(Ordering::Relaxed) {
            0 => u32::from(row.0).wrapping_sub(1).wrapping_mul(APART),
            last => last,
        }
    }

    /// Notes the result of asking for a chunk, in a pool of `pool_bytes` of chunks.
    pub fn note_chunk(&self, pool_bytes: u64, granted: Option<&Granted>) {
        if let Some(granted) = granted {
            self.last_chunk.store(granted.chunk.wrapping_add(1), Ordering::Relaxed);
        }
        if let Some((waiting, _)) = self.waiting {
            waiting.lock().note_pool(pool_bytes, granted.map(|granted| granted.free_percent));
        }
    }

    /// Whether the caller is the one to ask for a chunk; otherwise another lane does.
    pub fn begins_to_ask(&self, what: NodeClass, node: NodeId) -> bool {
        self.arena(what, node).is_none_or(|arena| !core::mem::replace(&mut arena.lock().asking, true))
    }

    /// The asking has ended.
    pub fn ends_asking(&self, what: NodeClass, node: NodeId) {
        if let Some(arena) = self.arena(what, node) {
            arena.lock().asking = false;
        }
    }

    /// Memory nodes.
    pub const fn memory_nodes(&self) -> usize {
        self.arenas.len() / NodeClass::COUNT
    }

    fn arena(&self, what: NodeClass, node: NodeId) -> Option<&Mutex<Arena>> {
        self.arenas.get(usize::from(node.0) * NodeClass::COUNT + what as usize)
    }

    fn free_list(&self, node: NodeId) -> Option<&Mutex<FreeExtents<'s>>> {
        self.free_lists.get(usize::from(node.0))
    }

    /// Takes `bytes`, a multiple of 16, on `node`.
    pub fn take(&self, what: NodeClass, node: NodeId, bytes: usize) -> Option<Place> {
        self.give_up_closed();
        let came_back = self.free_list(node).and_then(|free_list| free_list.lock().take(what, bytes));
        if let Some(offset) = came_back {
            return Some(Place::new(node, offset));
        }
        let mut arena = self.arena(what, node)?.lock();
        if let Some(at) = arena.spare.iter().position(|spare| spare.1 as usize >= bytes) {
            let (offset, size) = arena.spare.swap_remove(at);
            let rest = size - bytes as u32;
            if rest > 0 {
                // It has room: one was just taken out.
                let _ = arena.spare.push((offset + bytes as u64, rest));
            }
            return Some(Place::new(node, offset));
        }
        arena.bump.take(bytes as u64).map(|offset| Place::new(node, offset))
    }

    /// As [`Space::take`], from a larger free extent: before more memory is asked for.
    pub fn take_off(&self, what: NodeClass, node: NodeId, bytes: usize) -> Option<Place> {
        if what == NodeClass::Leaf {
            return None;
        }
        self.give_up_closed();
        let offset = self.free_list(node)?.lock().take_off(bytes)?;
        Some(Place::new(node, offset))
    }

    /// As [`Space::take`], from what was collected, on `near` if there is some.
    pub fn take_collected(&self, what: NodeClass, near: NodeId, bytes: usize) -> Option<Place> {
        let step = if what == NodeClass::Leaf { bytes } else { UNIT_BYTES };
        self.give_up_closed();
        let (node, offset) = self.collection()?.take(what as u8, near, bytes, step)?;
        Some(Place::new(node, offset))
    }

    /// As [`Space::take`], on `near` if there is room, otherwise on any other.
    pub fn take_near(&self, what: NodeClass, near: NodeId, bytes: usize) -> Option<Place> {
        nodes_from(near, self.memory_nodes()).find_map(|node| self.take(what, node, bytes))
    }

    /// Gives back `bytes` to which no slot has ever led.
    pub fn put(&self, what: NodeClass, place: Place, bytes: usize) {
        if let Some(arena) = self.arena(what, place.node()) {
            let mut arena = arena.lock();
            let lost = if self.share.is_closed(place.node(), place.offset()) {
                bytes as u64
            } else {
                let before = arena.lost_bytes;
                arena.put(place.offset(), bytes as u32);
                arena.lost_bytes - before
            };
            self.share.has_lost(lost);
        }
    }

    /// Takes back the place of a node or leaf that has left the tree, of which this compute node has copies of
    /// `copies_bytes`. Returns whether the place will be reused when it has waited; otherwise it stays unused until it
    /// is collected.
    pub fn retire(&self, what: NodeClass, place: Place, bytes: usize, copies_bytes: u64) -> bool {
        if planted(Mutant::REUSED_AT_ONCE) {
            return self
                .free_list(place.node())
                .is_some_and(|free_list| free_list.lock().put(what, place.offset(), bytes));
        }
        if let Some((waiting, epochs)) = self.waiting {
            let mut waiting = waiting.lock();
            if !self.share.is_closed(place.node(), place.offset())
                && waiting.push(epochs, what, place, bytes, copies_bytes)
            {
                return true;
            }
        }
        if let Some(collection) = self.collection() {
            collection.has_lost(bytes as u64);
            return false;
        }
        if let Some(arena) = self.arena(what, place.node()) {
            arena.lock().retired_bytes += bytes as u64;
        }
        false
    }

    /// Moves extents that have waited long enough to the free lists; returns how many. If a free list is full, they
    /// stay in the limbo list as long as half of that is free. Past that they become spare extents, of which some may
    /// be lost.
    pub fn release(&self) -> u32 {
        let Some((waiting, epochs)) = self.waiting else { return 0 };
        let mut released = 0;
        self.give_up_closed();
        loop {
            let (next, is_half_full) = {
                let waiting = waiting.lock();
                (waiting.next(epochs), waiting.is_half_full())
            };
            let Some(next) = next else { return released };
            if !is_half_full && self.free_list(next.node()).is_some_and(|free_list| free_list.lock().room() == 0) {
                return released;
            }
            // A statement of its own: the lock must not be held while the free list's is. Another lane may have been
            // faster.
            let over = waiting.lock().pop(epochs);
            let Some((what, place, bytes)) = over else { return released };
            released += 1;
            let kept = self.free_list(place.node()).is_some_and(|free_list| {
                let mut free_list = free_list.lock();
                // Closed since it left the limbo list: given up.
                self.share.is_closed(place.node(), place.offset()) || free_list.put(what, place.offset(), bytes)
            });
            if !kept {
                self.put(what, place, bytes);
            }
        }
    }

    /// Reserves room in the limbo list for `count` extents that the caller is about to take out of the tree, until the
    /// result is dropped. `None`: there is none before others leave it.
    pub fn room_for(&self, count: usize) -> Option<Room<'_, 's>> {
        let queue = self.waiting.map(|(waiting, _)| waiting);
        let fits = queue.is_none_or(|queue| queue.lock().reserve(count));
        fits.then_some(Room { queue, count })
    }

    /// Whether so much waits that it should be reused before more is granted, with copies of `copies_bytes`.
    pub fn is_crowded(&self, what: NodeClass, copies_bytes: u64) -> bool {
        self.waiting.is_some_and(|(waiting, _)| waiting.lock().is_crowded(what, copies_bytes))
    }

    /// Whether the pool is so short that waiting is better than asking for more.
    pub fn is_worth_waiting(&self, what: NodeClass) -> bool {
        self.waiting.is_some_and(|(waiting, _)| waiting.lock().is_worth_waiting(what))
    }

    /// Asks for a turn, and for a collection, since memory is wanted soon. Returns what to pass to [`Space::is_back`];
    /// `None`: nothing waits.
    pub fn ask_back(&self) -> Option<u32> {
        self.share.is_short();
        let (waiting, epochs) = self.waiting?;
        waiting.lock().ask(epochs)
    }

    /// As [`Space::ask_back`], when the pool is short: an unresponsive compute node that holds the epochs up is fenced.
    pub fn is_short(&self) -> Option<u32> {
        if let Some((_, epochs)) = self.waiting {
            epochs.is_short();
        }
        self.ask_back()
    }

    /// Whether something became free, or nothing waits any more, since [`Space::is_short`] returned `asked`.
    pub fn is_back(&self, asked: u32) -> bool {
        self.waiting.is_none_or(|(waiting, epochs)| waiting.lock().is_back(epochs, asked))
    }

    /// Calls `visit` with every extent that waits: to account for memory.
    pub fn for_each_waiting(&self, visit: &mut dyn FnMut(NodeClass, Place, u64)) {
        if let Some((waiting, _)) = self.waiting {
            waiting.lock().for_each(&mut |what, place, bytes| visit(what, place, bytes as u64));
        }
    }

    /// Bytes that this compute node took out of the tree for good, and bytes that it carved and has lost.
    pub fn retired_and_lost(&self) -> (u64, u64) {
        self.arenas.iter().fold((0, 0), |(retired, lost), arena| {
            let arena = arena.lock();
            (retired + arena.retired_bytes, lost + arena.lost_bytes)
        })
    }

    /// Calls `visit` with every extent that is ready for use: to account for memory.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(NodeClass, Place, u64)) {
        self.give_up_closed();
        if let Some(collection) = self.collection() {
            collection.for_each_ready(&mut |what, node, offset, bytes| {
                let what = NodeClass::ALL[usize::from(what) % NodeClass::COUNT];
                visit(what, Place::new(node, offset), bytes);
            });
        }
        for (node, free_list) in (0..).zip(self.free_lists) {
            free_list.lock().for_each_extent(&mut |what, offset, bytes| {
                visit(what, Place::new(NodeId(node), offset), bytes as u64);
            });
        }
        for (number, arena) in self.arenas.iter().enumerate() {
            let node = NodeId((number / NodeClass::COUNT) as u16);
            let what = NodeClass::ALL[number % NodeClass::COUNT];
            let arena = arena.lock();
            let rest = arena.bump.rest();
            let spare = arena.spare.iter().map(|spare| (spare.0, u64::from(spare.1)));
            for (offset, bytes) in spare.chain([rest]).filter(|piece| piece.1 > 0) {
                visit(what, Place::new(node, offset), bytes);
            }
        }
    }

    /// Adds a granted chunk of never used memory. The rest of the present one is remembered as an extent.
    pub fn add_chunk(&self, what: NodeClass, node: NodeId, offset: u64, bytes: u64) {
        let Some(arena) = self.arena(what, node) else { return };
        if let Some((waiting, _)) = self.waiting {
            waiting.lock().grant(what, bytes);
        }
        if let Some(collection) = self.collection() {
            collection.grant(bytes);
        }
        let mut arena = arena.lock();
        if self.share.is_closed(node, offset) {
            // Granted before it was closed: it is collected with the others.
            return;
        }
        let (rest, rest_bytes) = core::mem::take(&mut arena.bump).rest();
        let rest_bytes = rest_bytes & !(UNIT_BYTES as u64 - 1);
        if let (true, Ok(rest_bytes)) = (rest_bytes > 0, u32::try_from(rest_bytes)) {
            arena.put(rest, rest_bytes);
        }
        arena.chunk = (offset, bytes);
        arena.bump = BumpArena::new(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::pieces::{FreeExtent, WaitingExtent};
    use super::*;
    use crate::memory::MarkBitmap;
    use crate::remote::superblock::small_for_tests;
    use std::vec::Vec;

    #[test]
    fn pieces_do_not_overlap_and_come_back() {
        let arenas: Vec<_> = (0..4).map(|_| Mutex::new(Arena::default())).collect();
        let space = Space::new(&arenas);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 32), None);
        space.add_chunk(NodeClass::Leaf, NodeId(1), 4096, 128);
        let at = |offset| Some(Place::new(NodeId(1), offset));
        assert_eq!(space.take_near(NodeClass::Leaf, NodeId(0), 48), at(4096));
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 48), at(4144));
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 48), None, "32 are left");
        let ready = || {
            let mut pieces = Vec::new();
            space.for_each_ready(&mut |what, place, bytes| pieces.push((what, place.offset(), bytes)));
            pieces
        };
        assert_eq!(ready(), [(NodeClass::Leaf, 4192, 32)]);
        space.put(NodeClass::Leaf, Place::new(NodeId(1), 4096), 48);
        assert_eq!(ready(), [(NodeClass::Leaf, 4096, 48), (NodeClass::Leaf, 4192, 32)]);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 32), at(4096));
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 16), at(4128), "the rest of it");
        space.add_chunk(NodeClass::Leaf, NodeId(1), 8192, 64);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 32), at(4192), "what the first chunk had left");
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 64), at(8192));
        assert_eq!(space.take(NodeClass::Inner, NodeId(1), 16), None, "another use");
        assert_eq!(ready(), []);
        space.put(NodeClass::Leaf, Place::new(NodeId(1), 8192), 64);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(1), 64), at(8192), "the last comes back whole");
        assert!(!space.retire(NodeClass::Inner, Place::new(NodeId(0), 16), 48, 0), "nothing comes back here");
        for piece in 0..20 {
            space.put(NodeClass::Leaf, Place::new(NodeId(1), 16_384 + 64 * piece), 16 + 16 * (piece as usize % 2));
        }
        assert_eq!(space.retired_and_lost(), (48, 64), "sixteen are remembered, of the largest");
        let space = Space::new(&arenas);
        space.add_chunk(NodeClass::Inner, NodeId(1), 4096, 128);
        assert_eq!(space.take(NodeClass::Inner, NodeId(1), 80), at(4096));
        space.add_chunk(NodeClass::Inner, NodeId(1), 4224, 128);
        let pieces = [(NodeClass::Inner, 4176, 48), (NodeClass::Inner, 4224, 128)];
        assert_eq!(
            ready().into_iter().filter(|piece| piece.0 == NodeClass::Inner).collect::<Vec<_>>(),
            pieces,
            "two chunks"
        );
    }

    #[test]
    fn extents_that_meet_in_a_chunk_are_one() {
        let arenas: Vec<_> = (0..2).map(|_| Mutex::new(Arena::default())).collect();
        let space = Space::new(&arenas);
        space.add_chunk(NodeClass::Leaf, NodeId(0), 4096, 256);
        for number in 0..4 {
            let at = Place::new(NodeId(0), 4096 + 48 * number);
            assert_eq!(space.take(NodeClass::Leaf, NodeId(0), 48), Some(at));
        }
        // The second follows the first one, the third precedes what is left of none.
        let put = |number: u64| space.put(NodeClass::Leaf, Place::new(NodeId(0), 4096 + 48 * number), 48);
        put(0);
        put(1);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(0), 96), Some(Place::new(NodeId(0), 4096)));
        put(1);
        put(0);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(0), 96), Some(Place::new(NodeId(0), 4096)));
        // What was carved last goes back to the rest of the chunk.
        put(3);
        assert_eq!(space.take(NodeClass::Leaf, NodeId(0), 112), Some(Place::new(NodeId(0), 4096 + 144)));
    }

    #[test]
    fn what_was_published_waits_and_comes_back_first() {
        let arenas: Vec<_> = (0..2).map(|_| Mutex::new(Arena::default())).collect();
        let (mut room, mut slots) = ([WaitingExtent::default(); 4], [FreeExtent::default(); 4]);
        let (epochs, free_lists) = (Epochs::new(), [Mutex::new(FreeExtents::new(&mut slots))]);
        let queue = Mutex::new(Queue::new(&mut room, true));
        let space = Space::new(&arenas).with_returns(&free_lists, &queue, &epochs);
        space.add_chunk(NodeClass::Inner, NodeId(0), 4096, 1024);
        let (small, large) = (
            space.take(NodeClass::Inner, NodeId(0), 48).unwrap(),
            space.take(NodeClass::Inner, NodeId(0), 144).unwrap(),
        );
        assert!(space.retire(NodeClass::Inner, small, 48, 0) && space.retire(NodeClass::Inner, large, 144, 0));
        assert_eq!(space.release(), 0, "no turn has passed");
        assert_eq!(space.take(NodeClass::Inner, NodeId(0), 48), Some(Place::new(NodeId(0), 4288)), "never used");
        epochs.clear_all_for_tests();
        assert_eq!(space.release(), 2);
        assert_eq!(space.take(NodeClass::Inner, NodeId(0), 48), Some(small));
        assert_eq!(space.take_off(NodeClass::Inner, NodeId(0), 48), Some(large), "cut off a larger one");
        assert_eq!(space.take(NodeClass::Inner, NodeId(0), 48), Some(large.plus(96)));
        assert_eq!(space.take(NodeClass::Inner, NodeId(0), 48), Some(large.plus(48)));
        assert_eq!(space.retired_and_lost(), (0, 0));
    }

    #[test]
    fn what_is_retired_and_not_kept_is_lost_and_a_short_pool_asks_for_a_turn() {
        let (epochs, geometry) = (Epochs::new(), [small_for_tests()]);
        let collection = Collection::new(MarkBitmap::new(&mut [], &mut []), false);
        let arenas: Vec<_> = (0..2).map(|_| Mutex::new(Arena::default())).collect();
        let (mut room, mut slots) = ([WaitingExtent::default(); 1], [FreeExtent::default(); 1]);
        let free_lists = [Mutex::new(FreeExtents::new(&mut slots))];
        let queue = Mutex::new(Queue::new(&mut room, true));
        let space = Space::new(&arenas).with_returns(&free_lists, &queue, &epochs);
        let space = space.with_collection(Share::new(&collection, &epochs, &geometry));
        let place = |number: u64| Place::new(NodeId(0), geometry[0].chunk_offset(1) + 48 * number);
        assert!(space.retire(NodeClass::Inner, place(0), 48, 0));
        assert!(!collection.may_have_lost_for_tests(), "it waits");
        assert!(!space.retire(NodeClass::Inner, place(1), 48, 0), "no room");
        assert!(collection.may_have_lost_for_tests());
        assert!(!epochs.was_short_for_tests());
        assert!(space.is_short().is_some(), "something waits");
        assert!(epochs.was_short_for_tests(), "a compute node that holds the epochs up is fenced");
    }
}
