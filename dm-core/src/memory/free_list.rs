//! Free lists: places to which nothing in remote memory points, by allocation class.
//!
//! Lists are last in, first out, and share their entries. A place has a *stamp*: what the next user of the place has to
//! know of the earlier ones.
//!
//! | places of | stamp | lists |
//! |---|---|---|
//! | nodes of a B+-tree ([`super::node_pool`]) | generation and node version | one for each class |
//! | nodes and leaves of a radix tree ([`crate::radix::pieces`]) | size; they have waited in the limbo list | one for each size |
//! | blocks of items ([`crate::items::pool`]) | generation | one for each size class |

use static_assertions::const_assert_eq;

/// A free place. Storage for a [`FreeList`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreePlace<S> {
    offset: u64,
    stamp: S,
    /// The next place of its list, or the next entry that is not in use, plus one; 0: none.
    next: u32,
}

const_assert_eq!(size_of::<FreePlace<u32>>(), 16);

/// Free places of one memory node.
#[derive(Debug)]
pub struct FreeList<'s, S, const LISTS: usize> {
    entries: &'s mut [FreePlace<S>],
    /// First place of each list, plus one; 0: none.
    first: [u32; LISTS],
    /// First entry that was in use before and is not now, plus one; 0: none.
    unused: u32,
    /// Entries that have ever been in use.
    used: u32,
    /// Entries that are in use.
    count: u32,
}

impl<'s, S: Copy, const LISTS: usize> FreeList<'s, S, LISTS> {
    /// Empty lists with room for `entries.len()` places in all.
    pub const fn new(entries: &'s mut [FreePlace<S>]) -> Self {
        Self { entries, first: [0; LISTS], unused: 0, used: 0, count: 0 }
    }

    /// Puts a place first on a list. `false`: there is no room.
    pub fn push(&mut self, list: usize, offset: u64, stamp: S) -> bool {
        let at = self.unused.checked_sub(1).unwrap_or(self.used);
        let (Some(entry), Some(first)) = (self.entries.get_mut(at as usize), self.first.get_mut(list)) else {
            return false;
        };
        if self.unused == 0 {
            self.used += 1;
        } else {
            self.unused = entry.next;
        }
        *entry = FreePlace { offset, stamp, next: *first };
        *first = at + 1;
        self.count += 1;
        true
    }

    /// Takes the first place of a list.
    pub fn pop(&mut self, list: usize) -> Option<(u64, S)> {
        let first = self.first.get_mut(list)?;
        let at = first.checked_sub(1)?;
        let entry = self.entries.get_mut(at as usize)?;
        *first = entry.next;
        entry.next = self.unused;
        self.unused = at + 1;
        self.count -= 1;
        Some((entry.offset, entry.stamp))
    }

    /// Whether a list has no place.
    pub fn is_empty(&self, list: usize) -> bool {
        self.first.get(list).is_none_or(|first| *first == 0)
    }

    /// How many places can be put back.
    pub const fn room(&self) -> usize {
        self.entries.len() - self.count as usize
    }

    /// Forgets places for which `gone` is true: those in closed chunks. The other places of each list are in reverse
    /// order then.
    pub(crate) fn give_up(&mut self, gone: impl Fn(u64) -> bool) {
        for first in &mut self.first {
            let mut next = core::mem::take(first);
            while let Some(at) = next.checked_sub(1)
                && let Some(entry) = self.entries.get_mut(at as usize)
            {
                let list = if gone(entry.offset) {
                    self.count -= 1;
                    &mut self.unused
                } else {
                    &mut *first
                };
                let here = core::mem::replace(&mut next, entry.next);
                entry.next = core::mem::replace(list, here);
            }
        }
    }

    /// Calls `visit` with list, offset and stamp of every place.
    pub fn for_each(&self, visit: &mut dyn FnMut(usize, u64, S)) {
        for (list, first) in self.first.iter().enumerate() {
            let mut next = *first;
            while let Some(entry) = next.checked_sub(1).and_then(|at| self.entries.get(at as usize)) {
                visit(list, entry.offset, entry.stamp);
                next = entry.next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn all(free_list: &FreeList<'_, u8, 2>) -> Vec<(usize, u64, u8)> {
        let mut places = Vec::new();
        free_list.for_each(&mut |list, offset, stamp| places.push((list, offset, stamp)));
        places
    }

    #[test]
    fn the_last_place_of_a_list_comes_back_first_with_its_stamp() {
        let mut entries = [FreePlace::default(); 3];
        let mut free_list = FreeList::<u8, 2>::new(&mut entries);
        for round in 0..4 {
            assert!(free_list.push(0, 64, 1) && free_list.push(1, 128, 2) && free_list.push(0, 192, 3));
            assert!(!free_list.push(1, 256, 4), "there is no room, round {round}");
            assert_eq!((free_list.room(), all(&free_list)), (0, Vec::from([(0, 192, 3), (0, 64, 1), (1, 128, 2)])));
            assert_eq!((free_list.pop(0), free_list.pop(0), free_list.pop(0)), (Some((192, 3)), Some((64, 1)), None));
            assert!(free_list.is_empty(0) && !free_list.is_empty(1));
            assert_eq!((free_list.pop(1), free_list.room()), (Some((128, 2)), 3));
        }
        assert!(!free_list.push(2, 64, 1), "there is no such list");
    }

    #[test]
    fn entries_of_forgotten_places_are_used_again() {
        let mut entries = [FreePlace::default(); 4];
        let mut free_list = FreeList::<u8, 2>::new(&mut entries);
        for round in 0..4 {
            for place in 0..4 {
                assert!(free_list.push(place as usize % 2, place * 64, 0), "round {round}");
            }
            free_list.give_up(|offset| offset == 64 || offset == 128);
            assert_eq!((free_list.room(), all(&free_list)), (2, Vec::from([(0, 0, 0), (1, 192, 0)])));
            free_list.give_up(|_| true);
            assert_eq!((free_list.room(), all(&free_list)), (4, Vec::new()));
        }
    }
}
