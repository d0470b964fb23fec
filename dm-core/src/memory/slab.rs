//! Bump arenas and slabs: how granted chunks are carved.
//!
//! A [`BumpArena`] is the part of the last granted chunk that was never carved. A [`Slab`] is a bump arena with a free
//! list: a place is taken from the free list if that has one, otherwise it is carved.

use super::free_list::{FreeList, FreePlace};

/// The rest of a chunk, carved from the front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BumpArena {
    next: u64,
    end: u64,
}

impl BumpArena {
    /// All of a chunk.
    pub const fn new(offset: u64, bytes: u64) -> Self {
        Self { next: offset, end: offset + bytes }
    }

    /// Carves `bytes`. `None`: less is left.
    pub const fn take(&mut self, bytes: u64) -> Option<u64> {
        let offset = self.next;
        if offset + bytes > self.end {
            return None;
        }
        self.next += bytes;
        Some(offset)
    }

    /// Returns the bytes from `offset` to `end` to the arena if they are those that were carved last.
    pub(crate) const fn take_back(&mut self, offset: u64, end: u64) -> bool {
        let meets = end == self.next;
        if meets {
            self.next = offset;
        }
        meets
    }

    /// Offset and bytes of what is left.
    pub const fn rest(&self) -> (u64, u64) {
        (self.next, self.end - self.next)
    }

    /// Forgets what is left if `gone` is true: it lies in a closed chunk.
    pub(crate) fn give_up(&mut self, gone: impl FnOnce(u64) -> bool) {
        if self.next < self.end && gone(self.next) {
            *self = Self::default();
        }
    }
}

/// A bump arena and free lists of one memory node.
#[derive(Debug)]
pub struct Slab<'s, S, const LISTS: usize> {
    pub(crate) arena: BumpArena,
    pub(crate) free_list: FreeList<'s, S, LISTS>,
    /// Places for which no list had room: they wait until this compute node has departed.
    pub(crate) left: u32,
}

impl<'s, S: Copy + Default, const LISTS: usize> Slab<'s, S, LISTS> {
    /// An empty slab that remembers up to `entries.len()` places.
    pub const fn new(entries: &'s mut [FreePlace<S>]) -> Self {
        Self { arena: BumpArena { next: 0, end: 0 }, free_list: FreeList::new(entries), left: 0 }
    }

    /// Takes a place from `list`. If that is empty, carves `bytes`: a place with the first stamp.
    pub(crate) fn take(&mut self, list: usize, bytes: u64) -> Option<(u64, S)> {
        self.free_list.pop(list).or_else(|| Some((self.arena.take(bytes)?, S::default())))
    }

    /// Forgets places, and the rest of the arena, for which `gone` is true: those in closed chunks.
    pub(crate) fn give_up(&mut self, gone: impl Fn(u64) -> bool) {
        self.arena.give_up(&gone);
        self.free_list.give_up(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_carved_from_the_front_and_what_was_carved_last_may_return() {
        let mut arena = BumpArena::new(4096, 100);
        assert_eq!((arena.take(48), arena.take(48), arena.take(48)), (Some(4096), Some(4144), None));
        assert_eq!(arena.rest(), (4192, 4));
        assert!(!arena.take_back(4096, 4144) && arena.take_back(4144, 4192));
        arena.give_up(|offset| offset < 4144);
        assert_eq!(arena.rest(), (4144, 52));
        arena.give_up(|offset| offset == 4144);
        assert_eq!((arena.rest(), arena.take(1)), ((0, 0), None));
    }

    #[test]
    fn what_came_back_is_used_before_what_was_never_used() {
        let mut entries = [FreePlace::default(); 2];
        let mut slab = Slab::<u8, 2>::new(&mut entries);
        slab.arena = BumpArena::new(4096, 64);
        assert!(slab.free_list.push(0, 8192, 7));
        assert_eq!(slab.take(1, 16), Some((4096, 0)), "another list");
        assert_eq!((slab.take(0, 32), slab.take(0, 32)), (Some((8192, 7)), Some((4112, 0))));
        assert_eq!(slab.take(0, 32), None);
    }
}
