//! What a lane that waits for a lock has seen of the lock and of its holder.

/// What a waiter has seen of a lock and of its holder, by its own clock: the nanoseconds that its operation has
/// waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// The lock word, and since when it has been this word.
    pub(crate) word: u64,
    since_ns: u64,
    /// When the waiter last looked at the holder's row.
    looked_ns: u64,
    /// What the row said, and since when it has said this.
    row: (u64, u64),
    row_since_ns: u64,
    seen_row: bool,
    /// The lease that counts for that row: the longer one of its own and the waiter's.
    lease_ns: u64,
}

impl Watch {
    /// Stores that a CAS lost against `word`. Returns whether it is time to look at the holder's row.
    pub(crate) fn lost(&mut self, word: u64, now_ns: u64, lease_ns: u64) -> bool {
        if word != self.word {
            *self = Self { word, since_ns: now_ns, looked_ns: now_ns, ..Self::default() };
            return false;
        }
        self.is_long(now_ns, lease_ns) && (!self.seen_row || now_ns - self.looked_ns >= lease_ns / 8)
    }

    /// Whether one acquisition has held the lock for suspiciously long.
    fn is_long(&self, now_ns: u64, lease_ns: u64) -> bool {
        now_ns - self.since_ns >= lease_ns / 4
    }

    /// How long to pause before the next CAS, in ns, if not the usual time.
    pub(crate) fn pause_ns(&self, now_ns: u64, lease_ns: u64) -> Option<u64> {
        (self.word != 0 && self.is_long(now_ns, lease_ns)).then_some(lease_ns / 64)
    }

    /// Since when the holder's row has not changed, if the waiter looked at it while the lock had this word.
    pub(crate) fn watched_since(&self) -> Option<u64> {
        self.seen_row.then_some(self.row_since_ns)
    }

    /// How long to pause before the next look at the row, in ns: a lease takes as many looks, however long it is.
    pub(crate) fn look_pause_ns(&self, lease_ns: u64) -> u64 {
        self.lease_ns.max(lease_ns) / 64
    }

    /// Stores what the holder's row says. Returns whether the holder's lease is over: a whole lease without a change.
    ///
    /// `posted_ns`: when the READ was posted that ended just now. Its answer may have been under way for as long as a
    /// lease, and heartbeats have come since. So the lease counts from the end of the first READ that shows the row as it
    /// is to the post of the last one.
    pub(crate) fn saw_row(&mut self, row: (u64, u64), posted_ns: u64, now_ns: u64, lease_ns: u64) -> bool {
        (self.looked_ns, self.lease_ns) = (now_ns, lease_ns);
        if !self.seen_row || self.row != row {
            self.seen_row = true;
            self.row = row;
            self.row_since_ns = now_ns;
            return false;
        }
        posted_ns.saturating_sub(self.row_since_ns) >= lease_ns
    }
}

/// What a lane that waits for a lock does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It waits on, for this many ns if not the usual time.
    Wait(Option<u64>),
    /// The holder has been unresponsive for suspiciously long. The attempt ends with
    /// [`Interrupt::Unresponsive`](super::interrupt::Interrupt::Unresponsive).
    Unresponsive,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_NS: u64 = 800;

    #[test]
    fn a_lease_is_over_after_a_whole_one_without_a_heartbeat() {
        let mut watch = Watch::default();
        assert!(!watch.lost(7, 1000, LEASE_NS));
        assert!(!watch.lost(7, 1199, LEASE_NS));
        assert!(watch.lost(7, 1200, LEASE_NS), "a quarter of a lease");
        assert!(!watch.saw_row((1, 1), 1200, 1200, LEASE_NS));
        assert!(!watch.lost(7, 1299, LEASE_NS));
        assert!(watch.lost(7, 1300, LEASE_NS), "an eighth later");
        assert!(!watch.saw_row((1, 2), 1300, 1300, LEASE_NS), "it lives");
        assert!(!watch.saw_row((1, 2), 2099, 2099, LEASE_NS));
        assert!(!watch.saw_row((1, 2), 1400, 2500, LEASE_NS), "the answer is old, and heartbeats have come since");
        assert!(watch.saw_row((1, 2), 2100, 2100, LEASE_NS));
    }

    #[test]
    fn another_word_or_another_incarnation_begins_anew() {
        let mut watch = Watch::default();
        watch.lost(7, 0, LEASE_NS);
        assert!(watch.lost(7, 500, LEASE_NS));
        watch.saw_row((1, 1), 500, 500, LEASE_NS);
        assert_eq!(watch.look_pause_ns(LEASE_NS / 2), LEASE_NS / 64, "the longer lease counts");
        assert!(!watch.lost(8, 2000, LEASE_NS));
        assert!(!watch.saw_row((1, 1), 2000, 2000, LEASE_NS), "another holder's silence does not count");
        assert!(!watch.saw_row((2, 1), 2900, 2900, LEASE_NS));
    }
}
