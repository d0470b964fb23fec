//! Which process acts for which compute-node row: what a daemon has to know to fence one off.
//!
//! # The protocol, and why `Done` is true
//!
//! A compute process announces its row and incarnation at *every* memory node after it has joined the row and before
//! its first WRITE to anything: not even the rest of its row is written before. It withdraws them when it has stopped
//! writing under that name for good. `Fence(row, b)` refuses every later announcement of incarnations up to `b`, kills
//! every process whose announcement of one of them stands, and says `Done` when each of those has exited.
//!
//! Suppose a process P writes under (row, i), i <= b, at memory node M after M said `Done`. By the protocol P's
//! announcement was accepted at M before the write.
//!
//! - Accepted after the fence: impossible, it would have been refused.
//! - Accepted before, and it stood at the fence: P was killed, and `Done` was said after P's exit, so P writes nothing.
//! - Accepted before, and it stood no more: P had withdrawn, which is its word that it writes nothing under that name;
//!   or P's connection had ended, which a process brings about only by unmapping the region first or by dying; or
//!   P had broken the protocol, and then announcements stand until P is seen dead.
//!
//! What a process may do before it has announced is one CAS, the one that claims the row, whose expected word is a free
//! row of the incarnation before; a late one claims the row for nobody, who then never beats and is fenced like any
//! dead one. Leaving, after withdrawal, is a CAS as well, whose expected word is the process's own.
//!
//! **Mapping without announcing.** The region is mapped before a row can be joined, so a process could write unnamed;
//! that is a bug no memory node can catch here, as a NIC would (its queue pairs are made for one row). Nor does a daemon
//! check that an announced row was joined: who announces a name that is not its own only puts itself in reach of the
//! fence meant for another.
//!
//! **A restarted daemon** starts with no announcements and nothing refused. That is sound: it has the region only when no
//! process maps it through its predecessor any more ([`crate::region`]), so whoever announced there cannot write; and
//! who joined before the restart and had not announced yet cannot do so now, since names are announced on the connection
//! they were joined on.
//!
//! **Threads of one process are one compute node**, and so are all rows that one process has joined: fencing one ends
//! them all.

use std::collections::{BTreeSet, HashMap};

/// Which life of which compute-node row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) row: u16,
    pub(super) incarnation: u32,
}

impl Name {
    /// From words of a message; `None` if no row or incarnation can be called that.
    pub(super) fn from_words(row: u64, incarnation: u64) -> Option<Self> {
        let row = u16::try_from(row).ok().filter(|row| *row != 0)?;
        Some(Self { row, incarnation: u32::try_from(incarnation).ok()? })
    }
}

/// Announcements that stand, and what was fenced.
#[derive(Debug, Default)]
pub(super) struct Members {
    announced: BTreeSet<(Name, u32)>,
    /// By row: incarnations up to this one are refused.
    fenced: HashMap<u16, u32>,
}

impl Members {
    /// Notes that `connection` acts for `name`. `false`: that incarnation was fenced off.
    pub(super) fn announce(&mut self, connection: u32, name: Name) -> bool {
        if self.fenced.get(&name.row).is_some_and(|fenced| name.incarnation <= *fenced) {
            return false;
        }
        self.announced.insert((name, connection));
        true
    }

    /// Notes that `connection` does not act for `name` any more.
    pub(super) fn withdraw(&mut self, connection: u32, name: Name) {
        self.announced.remove(&(name, connection));
    }

    /// The connection cannot write any more.
    pub(super) fn forget(&mut self, connection: u32) {
        self.announced.retain(|(_, other)| *other != connection);
    }

    /// Refuses `name` and earlier incarnations of its row from now on. Returns the connections that act for one of them.
    pub(super) fn fence(&mut self, name: Name) -> Vec<u32> {
        let fenced = self.fenced.entry(name.row).or_default();
        *fenced = name.incarnation.max(*fenced);
        let first = Name { row: name.row, incarnation: 0 };
        let mut connections: Vec<u32> =
            self.announced.range((first, 0)..=(name, u32::MAX)).map(|(_, connection)| *connection).collect();
        connections.sort_unstable();
        connections.dedup();
        connections
    }

    /// Whether a connection other than `connection` acts for `name`.
    pub(super) fn acted_by_others(&self, connection: u32, name: Name) -> bool {
        self.announced.range((name, 0)..=(name, u32::MAX)).any(|(_, other)| *other != connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(row: u16, incarnation: u32) -> Name {
        Name { row, incarnation }
    }

    #[test]
    fn a_fence_finds_who_announced_and_refuses_who_comes_late() {
        let mut members = Members::default();
        assert!(members.announce(1, name(5, 3)) && members.announce(2, name(5, 4)) && members.announce(3, name(6, 1)));
        assert_eq!(members.fence(name(5, 3)), [1]);
        assert!(!members.announce(4, name(5, 3)) && !members.announce(4, name(5, 2)));
        assert!(members.announce(4, name(5, 5)));
        // Again, and further.
        assert_eq!(members.fence(name(5, 3)), [1]);
        members.forget(1);
        assert_eq!(members.fence(name(5, 3)), [0; 0]);
        assert_eq!(members.fence(name(5, 9)), [2, 4]);
        // An older fence takes nothing back.
        assert_eq!(members.fence(name(5, 1)), [0; 0]);
        assert!(!members.announce(9, name(5, 9)));
        assert_eq!(members.fence(name(7, 1)), [0; 0]);
    }

    #[test]
    fn who_has_withdrawn_is_left_alone() {
        let mut members = Members::default();
        assert!(members.announce(1, name(5, 3)) && members.announce(1, name(6, 1)));
        assert!(!members.acted_by_others(1, name(5, 3)) && members.acted_by_others(2, name(5, 3)));
        members.withdraw(1, name(5, 3));
        members.withdraw(2, name(6, 1));
        assert_eq!(members.fence(name(5, 3)), [0; 0]);
        assert_eq!(members.fence(name(6, 1)), [1]);
    }

    #[test]
    fn row_zero_and_numbers_too_large_are_nobody() {
        assert_eq!(Name::from_words(0, 1), None);
        assert_eq!(Name::from_words(1 << 16, 1), None);
        assert_eq!(Name::from_words(1, 1 << 32), None);
        assert_eq!(Name::from_words(65_535, 7), Some(name(65_535, 7)));
    }
}
