//! Free lists by size, and the limbo list, of memory for radix trees.
//!
//! Blocks of values that lie outside leaves are in chunks for nodes, [`NodeClass::Inner`]: nobody looks into such a chunk
//! but by a pointer. In chunks for leaves they could not be, since a sweep looks at the words at which leaves begin.
//!
//! When a node or leaf has left the tree, an operation may still have a pointer to it. So its place waits until, by the
//! [epochs](crate::memory::epochs), no compute node has a pointer that old
//! ([`smart_memory`](crate::manual::smart_memory)).

use super::slot::{NodeType, Place, UNIT_BYTES};
use crate::memory::free_list::{FreeList, FreePlace};
use crate::memory::{Epochs, LimboList, Waiting};
use crate::remote::place::NodeClass;

/// Sizes that are reused: leaves, nodes of each type, and one more.
const SIZES: usize = OTHERS + 1;

/// The list of extents in chunks for nodes that have no node's size. An index has one such size at most: that of the
/// blocks in which it has its values.
const OTHERS: usize = 1 + NodeType::LARGEST.number() as usize;

/// A turn of the epochs is asked for when one in so many of the granted bytes, and of the bytes of copies, waits.
/// (After each turn every copy that is used is READ once more.) When so many bytes of one allocation class wait,
/// operations wait for that turn and have no other chunk granted, provided that they are also one in so many of the
/// bytes that are free in the pool. So operations wait where memory is short: the shorter it is, the fewer bytes have
/// to wait for that.
pub const WAITING_SHARE: u64 = 8;

/// A free extent: storage for [`FreeExtents`]. Its stamp is its size in bytes. No compute node has a pointer to what was
/// there.
pub type FreeExtent = FreePlace<u32>;

/// Free lists of a memory node, by size.
pub type FreeExtents<'s> = FreeList<'s, u32, SIZES>;

const fn size_of_list(list: usize) -> Option<usize> {
    match NodeType::new(list as u8) {
        Some(kind) => Some(kind.bytes()),
        None => None,
    }
}

/// Whether so many units can be cut into nodes without a rest: sums of 3 and 5.
const fn divides(units: usize) -> bool {
    !matches!(units, 1 | 2 | 4 | 7)
}

impl FreeExtents<'_> {
    fn list(what: NodeClass, bytes: usize) -> usize {
        match what {
            NodeClass::Leaf => 0,
            NodeClass::Inner => (1..OTHERS).find(|&list| size_of_list(list) == Some(bytes)).unwrap_or(OTHERS),
        }
    }

    /// Puts an extent on its list. `false`: there is no room.
    pub fn put(&mut self, what: NodeClass, offset: u64, bytes: usize) -> bool {
        self.push(Self::list(what, bytes), offset, bytes as u32)
    }

    /// Takes an extent of that size.
    pub fn take(&mut self, what: NodeClass, bytes: usize) -> Option<u64> {
        let list = Self::list(what, bytes);
        let (offset, found_bytes) = self.pop(list)?;
        if found_bytes as usize == bytes {
            return Some(offset);
        }
        // It has room: one was just taken out.
        self.push(list, offset, found_bytes);
        None
    }

    /// Takes `bytes` off a larger extent of a node. The rest is put back as extents of smaller ones.
    pub fn take_off(&mut self, bytes: usize) -> Option<u64> {
        for list in 1..OTHERS {
            let Some(size) = size_of_list(list) else { continue };
            let Some(rest) = size.checked_sub(bytes).filter(|rest| *rest > 0) else { continue };
            if self.is_empty(list) || !divides(rest / UNIT_BYTES) {
                continue;
            }
            let (offset, _) = self.pop(list)?;
            let (mut at, mut rest) = (offset + bytes as u64, rest);
            for smaller in (1..list).rev() {
                let Some(size) = size_of_list(smaller) else { continue };
                while rest >= size && divides((rest - size) / UNIT_BYTES) {
                    // There is room for one; for more there may not be.
                    if !self.put(NodeClass::Inner, at, size) {
                        return Some(offset);
                    }
                    at += size as u64;
                    rest -= size;
                }
            }
            return Some(offset);
        }
        None
    }

    /// Calls `visit` with every extent.
    pub fn for_each_extent(&self, visit: &mut dyn FnMut(NodeClass, u64, usize)) {
        self.for_each(&mut |list, offset, bytes| {
            let what = if list == 0 { NodeClass::Leaf } else { NodeClass::Inner };
            visit(what, offset, bytes as usize);
        });
    }
}

/// Size and allocation class of an extent that waits: a multiple of 16, plus its [`NodeClass`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent(u32);

impl Extent {
    const fn new(what: NodeClass, bytes: usize) -> Self {
        Self(bytes as u32 | what as u32)
    }

    const fn what(self) -> NodeClass {
        NodeClass::ALL[(self.0 & 1) as usize]
    }

    const fn bytes(self) -> usize {
        (self.0 & !1) as usize
    }
}

/// An extent that waits: storage for one.
pub type WaitingExtent = Waiting<Extent>;

/// The limbo list, and when a turn is asked for.
///
/// A lane that is about to take something out of the tree reserves room here first ([`Queue::reserve`]), and waits if
/// there is none. So nothing finds the list full.
#[derive(Debug)]
pub struct Queue<'s> {
    waiting: LimboList<'s, Extent>,
    /// Room that is reserved for extents which may come.
    reserved: usize,
    /// Bytes that wait, by allocation class.
    bytes: [u64; NodeClass::COUNT],
    /// Bytes of chunks, by allocation class.
    granted_bytes: [u64; NodeClass::COUNT],
    /// Bytes of chunks that were free, as far as this compute node knows.
    free_bytes: u64,
    /// All turns are asked for, so that tests see them.
    eager: bool,
    /// The turns begun when a turn was asked for that is not over.
    asked: Option<u32>,
}

impl<'s> Queue<'s> {
    /// An empty one with room for `room.len()`. `eager`: a turn is asked for whenever something waits.
    pub const fn new(room: &'s mut [WaitingExtent], eager: bool) -> Self {
        let (bytes, granted_bytes) = ([0; NodeClass::COUNT], [0; NodeClass::COUNT]);
        let waiting = LimboList::new(room);
        Self { waiting, reserved: 0, bytes, granted_bytes, free_bytes: 0, eager, asked: None }
    }

    /// Counts a granted chunk.
    pub const fn grant(&mut self, what: NodeClass, bytes: u64) {
        self.granted_bytes[what as usize] += bytes;
    }

    /// Notes the result of asking for a chunk, in a pool of `pool_bytes` of chunks. Of the chunks that are not this
    /// compute node's, as many in a hundred count as free as of those that the search saw; `None`: it found none.
    pub fn note_pool(&mut self, pool_bytes: u64, free_percent: Option<u8>) {
        let others_bytes = pool_bytes.saturating_sub(self.granted_bytes.iter().sum());
        self.free_bytes = match free_percent {
            None => 0,
            // The search saw nothing: what was known stays.
            Some(0) => self.free_bytes,
            Some(percent) => others_bytes / 100 * u64::from(percent),
        };
    }

    /// Reserves room for `count` extents, until [`Queue::unreserve`]. `false`: there is none now.
    pub const fn reserve(&mut self, count: usize) -> bool {
        let fits = self.waiting.count() + self.reserved + count <= self.waiting.room();
        if fits {
            self.reserved += count;
        }
        fits
    }

    /// Ends a reservation, whether the extents came or not.
    pub const fn unreserve(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_sub(count);
    }

    /// Whether so many bytes of one allocation class wait that they should be reused before more are granted, with
    /// copies of `copies_bytes`.
    pub fn is_crowded(&self, what: NodeClass, copies_bytes: u64) -> bool {
        let bytes = self.bytes[what as usize];
        bytes > 0 && bytes >= self.granted_bytes[what as usize].max(copies_bytes) / WAITING_SHARE
    }

    /// Whether the pool is so short that waiting for the extents of one allocation class is better than having more
    /// granted.
    pub const fn is_worth_waiting(&self, what: NodeClass) -> bool {
        self.bytes[what as usize] >= self.free_bytes / WAITING_SHARE
    }

    /// Whether half of the room is taken.
    pub const fn is_half_full(&self) -> bool {
        (self.waiting.count() + self.reserved) * 2 >= self.waiting.room()
    }

    /// Adds an extent, with copies of `copies_bytes`. `false`: there is no room.
    pub fn push(&mut self, epochs: &Epochs, what: NodeClass, place: Place, bytes: usize, copies_bytes: u64) -> bool {
        if !self.waiting.push(place, Extent::new(what, bytes), epochs.turns()) {
            self.ask(epochs);
            return false;
        }
        self.bytes[what as usize] += bytes as u64;
        let enough = self.granted_bytes.iter().sum::<u64>().max(copies_bytes) / WAITING_SHARE;
        if self.eager || self.bytes.iter().sum::<u64>() >= enough || self.waiting.count() * 2 >= self.waiting.room() {
            self.ask(epochs);
        }
        true
    }

    /// Asks for a turn, unless one that was asked for is under way. Returns what to pass to [`Queue::is_back`]; `None`:
    /// nothing waits or is about to.
    pub fn ask(&mut self, epochs: &Epochs) -> Option<u32> {
        match self.asked.filter(|asked| !epochs.is_over(*asked)) {
            _ if self.waiting.count() == 0 => (self.reserved > 0).then(|| epochs.turns()),
            Some(asked) => Some(asked),
            None => {
                let asked = epochs.turns();
                self.asked = Some(asked);
                epochs.want();
                Some(asked)
            }
        }
    }

    /// Whether something became free since [`Queue::ask`] returned `asked`.
    pub fn is_back(&self, epochs: &Epochs, asked: u32) -> bool {
        self.waiting.count() == 0 || epochs.is_over(asked)
    }

    /// Where the extent lies that [`Queue::pop`] would return.
    pub fn next(&self, epochs: &Epochs) -> Option<Place> {
        self.waiting.next(|entered| epochs.is_over(entered)).map(|(place, _)| place)
    }

    /// The extent that has waited longest, if that is long enough.
    pub fn pop(&mut self, epochs: &Epochs) -> Option<(NodeClass, Place, usize)> {
        let (place, extent) = self.waiting.pop(|entered| epochs.is_over(entered))?;
        let (what, bytes) = (extent.what(), extent.bytes());
        self.bytes[what as usize] -= bytes as u64;
        Some((what, place, bytes))
    }

    /// Forgets extents for which `gone` is true; the others keep their order.
    pub fn give_up(&mut self, gone: impl Fn(Place) -> bool) {
        let bytes = &mut self.bytes;
        self.waiting.give_up(|place, extent| {
            let gone = gone(place);
            if gone {
                bytes[extent.what() as usize] -= extent.bytes() as u64;
            }
            gone
        });
    }

    /// Calls `visit` with every extent.
    pub fn for_each(&self, visit: &mut dyn FnMut(NodeClass, Place, usize)) {
        self.waiting.for_each(&mut |place, extent| visit(extent.what(), place, extent.bytes()));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::verbs::NodeId;
    use std::vec::Vec;

    fn all(free_list: &FreeExtents<'_>) -> Vec<(NodeClass, u64, usize)> {
        let mut pieces = Vec::new();
        free_list.for_each_extent(&mut |what, offset, bytes| pieces.push((what, offset, bytes)));
        pieces.sort_unstable_by_key(|piece| piece.1);
        pieces
    }

    #[test]
    fn pieces_come_back_by_their_size() {
        let mut room = [FreeExtent::default(); 3];
        let mut free_list = FreeExtents::new(&mut room);
        for round in 0..4 {
            assert!(
                free_list.put(NodeClass::Inner, 4096, 48)
                    && free_list.put(NodeClass::Leaf, 8192, 32)
                    && free_list.put(NodeClass::Inner, 4144, 80)
            );
            assert!(!free_list.put(NodeClass::Inner, 0, 48), "there is no room, round {round}");
            assert_eq!(free_list.take(NodeClass::Inner, 144), None);
            assert_eq!(
                (free_list.take(NodeClass::Inner, 48), free_list.take(NodeClass::Inner, 48)),
                (Some(4096), None)
            );
            assert_eq!(
                (free_list.take(NodeClass::Leaf, 32), free_list.take(NodeClass::Inner, 80)),
                (Some(8192), Some(4144))
            );
        }
    }

    #[test]
    fn blocks_come_back_whole() {
        let mut room = [FreeExtent::default(); 4];
        let mut free_list = FreeExtents::new(&mut room);
        assert!(free_list.put(NodeClass::Inner, 4096, 208) && free_list.put(NodeClass::Inner, 4304, 208));
        assert_eq!(free_list.take_off(48), None, "a block is not cut into nodes");
        assert_eq!(free_list.take(NodeClass::Inner, 96), None, "no extent has that size");
        assert_eq!(all(&free_list), [(NodeClass::Inner, 4096, 208), (NodeClass::Inner, 4304, 208)]);
        assert!(free_list.put(NodeClass::Inner, 8192, 272));
        assert_eq!(free_list.take(NodeClass::Inner, 208), Some(4304));
        assert_eq!(free_list.take(NodeClass::Inner, 208), Some(4096));
        assert_eq!(free_list.take(NodeClass::Inner, 208), None);
        assert_eq!(free_list.take_off(224), Some(8192), "but a block is taken off a larger node");
        assert_eq!(all(&free_list), [(NodeClass::Inner, 8416, 48)]);
    }

    #[test]
    fn larger_pieces_are_cut_without_a_rest() {
        for list in 2..OTHERS {
            for smaller in 1..list {
                let (size, bytes) = (size_of_list(list).unwrap(), size_of_list(smaller).unwrap());
                let mut room = [FreeExtent::default(); 16];
                let mut free_list = FreeExtents::new(&mut room);
                assert!(free_list.put(NodeClass::Inner, 4096, size));
                let Some(taken) = free_list.take_off(bytes) else {
                    assert!(!divides((size - bytes) / UNIT_BYTES));
                    continue;
                };
                let pieces = all(&free_list);
                assert_eq!(taken, 4096);
                let end = pieces.iter().fold(4096 + bytes as u64, |end, piece| {
                    assert_eq!(piece.1, end, "pieces are next to each other");
                    end + piece.2 as u64
                });
                assert_eq!(end, 4096 + size as u64);
            }
        }
    }

    #[test]
    fn a_turn_is_asked_for_when_enough_waits() {
        let mut room = [WaitingExtent::default(); 8];
        let epochs = Epochs::new();
        let mut queue = Queue::new(&mut room, false);
        queue.grant(NodeClass::Leaf, 1024);
        let place = |at: u64| Place::new(NodeId(1), 4096 + 16 * at);
        assert!(queue.push(&epochs, NodeClass::Leaf, place(0), 32, 0));
        assert!(queue.asked.is_none());
        assert!(queue.push(&epochs, NodeClass::Inner, place(2), 96, 0));
        assert_eq!((queue.asked, queue.pop(&epochs)), (Some(0), None), "an eighth waits");
        let mut seen = Vec::new();
        queue.for_each(&mut |what, place, bytes| seen.push((what, place, bytes)));
        assert_eq!(seen, [(NodeClass::Leaf, place(0), 32), (NodeClass::Inner, place(2), 96)]);
        epochs.clear_all_for_tests();
        assert_eq!(queue.pop(&epochs), Some((NodeClass::Leaf, place(0), 32)));
        assert_eq!(queue.pop(&epochs), Some((NodeClass::Inner, place(2), 96)));
        assert_eq!((queue.pop(&epochs), queue.bytes), (None, [0; NodeClass::COUNT]));
        for at in 0..8 {
            assert!(queue.push(&epochs, NodeClass::Leaf, place(at), 16, 1 << 20));
        }
        assert!(!queue.push(&epochs, NodeClass::Leaf, place(9), 16, 1 << 20), "there is no room");
        assert!(queue.asked.is_some());
    }

    #[test]
    fn a_lane_that_reserves_room_finds_it_and_one_that_is_crowded_waits_for_a_turn() {
        let mut room = [WaitingExtent::default(); 4];
        let epochs = Epochs::new();
        let mut queue = Queue::new(&mut room, false);
        let place = |at: u64| Place::new(NodeId(1), 4096 + 16 * at);
        assert_eq!(queue.ask(&epochs), None, "nothing to wait for");
        assert!(queue.reserve(3) && !queue.reserve(2) && queue.reserve(1));
        let turn = queue.ask(&epochs);
        assert!(turn.is_some_and(|turn| queue.is_back(&epochs, turn)), "who reserved is soon done");
        queue.grant(NodeClass::Leaf, 256);
        queue.grant(NodeClass::Inner, 1024);
        assert!(!queue.is_crowded(NodeClass::Leaf, 0));
        for at in 0..4 {
            assert!(queue.push(&epochs, NodeClass::Leaf, place(2 * at), 32, 0), "it was promised");
        }
        queue.unreserve(4);
        assert!(!queue.reserve(1) && queue.is_half_full());
        assert!(
            queue.is_crowded(NodeClass::Leaf, 1024) && !queue.is_crowded(NodeClass::Leaf, 2048),
            "an eighth of the copies"
        );
        assert!(!queue.is_crowded(NodeClass::Inner, 0), "no nodes wait");
        // 1,280 bytes are its own. Of the others one in four is free, then one in eight.
        queue.note_pool(1280 + 8192, Some(25));
        assert!(!queue.is_worth_waiting(NodeClass::Leaf), "an eighth of what is free is more");
        queue.note_pool(1280 + 8192, Some(0));
        assert!(!queue.is_worth_waiting(NodeClass::Leaf), "a search that saw nothing says nothing");
        queue.note_pool(1280 + 8192, Some(12));
        assert!(queue.is_worth_waiting(NodeClass::Leaf), "less is free");
        queue.note_pool(1280 + 8192, Some(100));
        assert!(!queue.is_worth_waiting(NodeClass::Leaf), "all is free");
        queue.note_pool(1280 + 8192, None);
        assert!(queue.is_worth_waiting(NodeClass::Leaf), "the pool is full");
        queue.note_pool(0, Some(100));
        assert!(queue.is_worth_waiting(NodeClass::Leaf), "a pool that says it is smaller than what it granted");
        let asked = queue.ask(&epochs).unwrap();
        assert_eq!((queue.is_back(&epochs, asked), queue.next(&epochs)), (false, None));
        epochs.clear_all_for_tests();
        assert!(queue.is_back(&epochs, asked));
        assert_eq!(queue.next(&epochs), Some(place(0)));
        assert!(queue.pop(&epochs).is_some() && queue.reserve(1) && !queue.reserve(1));
    }
}
