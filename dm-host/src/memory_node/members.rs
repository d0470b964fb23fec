//! Which process acts for which compute-node row: what a daemon has to know to fence a row.
//!
//! # The protocol, and why `Done` is true
//!
//! A compute process announces its row and incarnation at *every* memory node after it has joined the row and before
//! its first WRITE to anything: it does not even write the rest of its row before. It withdraws the announcements when
//! it has stopped writing under that name for good. `Fence(row, b)` refuses every later announcement of incarnations up
//! to `b`, kills every process with a standing announcement of one of them, and says `Done` when each of those
//! processes has exited.
//!
//! Suppose a process P writes under (row, i), i <= b, at memory node M after M said `Done`. By the protocol M accepted
//! P's announcement before the write.
//!
//! - Accepted after the fence: impossible, since M would have refused it.
//! - Accepted before the fence, and standing at the fence: P was killed, and M said `Done` after P's exit, so P writes
//!   nothing.
//! - Accepted before the fence, and not standing any more. Either P had withdrawn, which is its promise that it writes
//!   nothing under that name. Or P's connection had ended, which a process brings about only by unmapping the region
//!   first or by dying. Or P had broken the protocol, and then announcements stand until P has exited.
//!
//! Before it announces, a process may do only one CAS, the one that claims the row. That CAS expects the row to be
//! free, of the incarnation before. A late one claims the row for a process that is gone: the row then never beats, and
//! others fence it as any dead one. Leaving, after withdrawal, is a CAS as well; it expects the process's own row word.
//!
//! **Mapping without announcing.** A process maps the region before it can join a row, so it could write without a
//! name. A memory node cannot catch that bug here, as a NIC would (a NIC's queue pairs are made for one row). Nor does
//! a daemon check that an announced row was joined: a process that announces a foreign name is only hit by the fence
//! meant for another.
//!
//! **A restarted daemon** starts with no announcements and no refusals. That is sound: it has the region only when no
//! process maps it through its predecessor any more ([`crate::region`]), so a process that announced there cannot
//! write. A process that joined before the restart and had not announced yet cannot do so now, since a process
//! announces a name on the connection over which it joined.
//!
//! **Threads of one process are one compute node**, and so are all rows that one process has joined: fencing one of the
//! rows ends them all.

use std::collections::{BTreeSet, HashMap};

/// An incarnation of a compute-node row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) row: u16,
    pub(super) incarnation: u32,
}

impl Name {
    /// From words of a message; `None` if no row or incarnation has these numbers.
    pub(super) fn from_words(row: u64, incarnation: u64) -> Option<Self> {
        let row = u16::try_from(row).ok().filter(|row| *row != 0)?;
        Some(Self { row, incarnation: u32::try_from(incarnation).ok()? })
    }
}

/// Standing announcements, and what was fenced.
#[derive(Debug, Default)]
pub(super) struct Members {
    announced: BTreeSet<(Name, u32)>,
    /// By row: incarnations up to this one are refused.
    fenced: HashMap<u16, u32>,
}

impl Members {
    /// Notes that `connection` acts for `name`. `false`: that incarnation was fenced.
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

    /// Forgets a connection that cannot write any more. Returns the names that it acted for.
    pub(super) fn forget(&mut self, connection: u32) -> Vec<Name> {
        self.announced.extract_if(.., |(_, other)| *other == connection).map(|(name, _)| name).collect()
    }

    /// Refuses `name` and earlier incarnations of its row from now on. Returns the connections that act for one of
    /// them.
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
        // A second fence, of a later incarnation.
        assert_eq!(members.fence(name(5, 3)), [1]);
        assert_eq!((members.forget(1), members.forget(1)), (vec![name(5, 3)], Vec::new()));
        assert_eq!(members.fence(name(5, 3)), [0; 0]);
        assert_eq!(members.fence(name(5, 9)), [2, 4]);
        // A fence of an older incarnation takes nothing back.
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
