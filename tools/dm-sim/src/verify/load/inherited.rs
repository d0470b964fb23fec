//! Locks that compute nodes held when they died, and what became of them.
//!
//! Who takes over a lock completes or undoes what its holder had begun, and then releases it. So when all locks of a dead compute node
//! have been released by others, none of its operations can take effect any more: its queue pairs were closed before
//! the first of them was taken over.

use crate::verify::subject::HeldLock;
use dm_core::verbs::NodeId;

/// A lock word: its memory node, and its place there.
type Word = (NodeId, (bool, u64));

/// The locks of one dead compute node.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// Each with the word of a survivor that has taken it over, and has not released it.
    locks: Vec<(Word, Option<u64>)>,
}

impl Inherited {
    /// Takes note of the lock words as they are now. `died`: whether the compute node that a lock names is this one, which has
    /// died, or another that has. Returns `true` when the last lock has been released by a survivor.
    pub(super) fn look(&mut self, held: &[HeldLock], died: impl Fn(&HeldLock) -> Option<Dead>) -> bool {
        let had = !self.locks.is_empty();
        for lock in held.iter().filter(|lock| died(lock) == Some(Dead::This)) {
            let word = (lock.node, lock.place);
            if !self.locks.iter().any(|(known, _)| *known == word) {
                self.locks.push((word, None));
            }
        }
        self.locks.retain_mut(|(word, taken)| {
            let mut now = held.iter().filter(|lock| (lock.node, lock.place) == *word).peekable();
            if now.peek().is_some_and(|lock| lock.is_shared) {
                // Who has taken a place of several does not show.
                return true;
            }
            match now.next() {
                None => false,
                // Who took it over died before it had released it.
                Some(lock) if died(lock).is_some() => {
                    *taken = None;
                    true
                }
                Some(lock) => *taken.get_or_insert(lock.word) == lock.word,
            }
        });
        had && self.locks.is_empty()
    }
}

/// Who of the dead a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    /// The one in question.
    This,
    /// Another one.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::remote::lock_word::RowId;

    /// A lock at `offset` that names `row`. Rows 1 and 2 are those of the dead.
    fn lock(offset: u64, row: u16, word: u64) -> HeldLock {
        HeldLock { node: NodeId(0), row: RowId(row), place: (true, offset), word, is_shared: false }
    }

    fn died(lock: &HeldLock) -> Option<Dead> {
        match lock.row.0 {
            1 => Some(Dead::This),
            2 => Some(Dead::Other),
            _ => None,
        }
    }

    #[test]
    fn all_is_over_when_survivors_have_released_each_lock() {
        let mut inherited = Inherited::default();
        assert!(!inherited.look(&[], died), "it held none");
        assert!(!inherited.look(&[lock(0, 1, 10), lock(8, 1, 11), lock(16, 3, 12)], died));
        assert!(!inherited.look(&[lock(0, 3, 13), lock(8, 1, 11)], died), "taken over, and not released");
        assert!(!inherited.look(&[lock(0, 3, 14), lock(8, 1, 11)], died), "released, and taken again");
        assert!(!inherited.look(&[lock(0, 3, 14), lock(8, 3, 15)], died));
        assert!(inherited.look(&[lock(0, 3, 14)], died));
        assert!(!inherited.look(&[], died), "once");
    }

    #[test]
    fn a_survivor_that_dies_has_not_released_what_it_took() {
        let mut inherited = Inherited::default();
        assert!(!inherited.look(&[lock(0, 1, 10)], died));
        assert!(!inherited.look(&[lock(0, 2, 11)], died));
        assert!(!inherited.look(&[lock(0, 3, 12)], died));
        assert!(inherited.look(&[lock(0, 4, 13)], died), "the next one has it from the one that lives");
    }
}
