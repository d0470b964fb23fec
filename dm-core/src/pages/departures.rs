//! Departures: which pages have left the store since when, if they were changed there.
//!
//! A lane that has asked a memory node about a page does not know beforehand which page that will be. What it is told may be
//! older than a copy in this store. If the copy is still here, the lane finds it; if it has left, it was flushed before, and
//! its departure is noted:
//!
//! ```text
//!  lane that asks                      lane that evicts page P (chain of P latched)
//!  since = departures()
//!  call ───► memory node reads P       flush of P completed earlier
//!                                      number += 1; last[hash(P)] = number; P leaves the table
//!  has_had(P, since): chain of P latched; in the table, or last[hash(P)] after `since`
//! ```
//!
//! *If `since` has the number of P's departure*, the departure came before the call, and the flush before the departure: the
//! memory node read what was flushed. *If not*, and P has left the table when the lane looks, the lane sees the number: it
//! was stored under the same latch. Pages share places of `last`, whose numbers only rise. So the lane may be told of another
//! page's departure, and no other page's departure hides the one of P. Numbers come round after 2^31 departures; no call
//! takes so long.

use super::frame::Frame;
use super::table::Node;
use super::{Lsn, PageStore};
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Places for departures, shared by the pages whose addresses lead there.
const PLACES: usize = 512;

/// The departures of a store.
#[derive(Debug)]
pub(super) struct Departures {
    number: AtomicU32,
    last: [AtomicU32; PLACES],
}

impl Departures {
    pub(super) const fn new() -> Self {
        Self { number: AtomicU32::new(0), last: [const { AtomicU32::new(0) }; PLACES] }
    }

    fn place(&self, id: Address) -> Option<&AtomicU32> {
        let mixed = (id.to_bits() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.last.get(((mixed * PLACES as u64) >> 32) as usize)
    }

    /// The number is taken after a look at the place, and stored if that has not changed since: so the numbers of a place
    /// rise. A number that was not stored is nobody's.
    fn note(&self, id: Address) {
        let Some(last) = self.place(id) else { return };
        let mut seen = last.load(Acquire);
        while let Err(later) = Self::store(last, seen, self.next()) {
            seen = later;
        }
    }

    fn next(&self) -> u32 {
        self.number.fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// `Err`: another lane was faster, whose page shares the place.
    fn store(last: &AtomicU32, seen: u32, number: u32) -> Result<u32, u32> {
        last.compare_exchange(seen, number, AcqRel, Acquire)
    }

    fn has_after(&self, id: Address, since: u32) -> bool {
        let last = self.place(id).map_or(since, |last| last.load(Relaxed));
        last.wrapping_sub(since).cast_signed() > 0
    }
}

impl<'s> PageStore<'s> {
    /// Notes that the page of `frame` leaves the store, if it was changed here. The caller has the latch of its chain.
    pub(super) fn departs(&self, id: Address, frame: Frame<'s>) {
        if frame.newest() != Lsn::NONE {
            self.departures.note(id);
        }
    }

    /// How many pages have left the store that were changed here: for [`PageStore::has_had`].
    #[inline]
    pub fn departures(&self) -> u32 {
        self.departures.number.load(Acquire)
    }

    /// Whether page `id` is in a frame, or a changed copy of it may have left the store after `since`, as
    /// [`PageStore::departures`] counts. If not, what was READ of the page after `since` is what this compute node has.
    pub fn has_had(&self, id: Address, since: u32) -> bool {
        // If the latch is taken, the page may be on its way.
        let Ok(chain) = self.chain(id) else { return true };
        let is_here = matches!(chain.find(id), Some(Node::Frame(..))) && !planted(Mutant::CACHED_UNSEEN);
        is_here || self.departures.has_after(id, since) && !planted(Mutant::DEPARTED_UNSEEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;

    #[test]
    fn a_departure_is_seen_by_those_that_began_before_it() {
        let departures = Departures::new();
        let pages = [1, 2].map(|number| Address::new(NodeId(0), number << 20, 0));
        for round in 0..8 {
            if round == 4 {
                // Soon numbers come round.
                departures.number.store(u32::MAX - 3, Relaxed);
                departures.note(pages[0]);
                departures.note(pages[1]);
            }
            let since = departures.number.load(Acquire);
            assert!(!departures.has_after(pages[0], since));
            departures.note(pages[0]);
            assert!(departures.has_after(pages[0], since) && !departures.has_after(pages[1], since));
            assert!(!departures.has_after(pages[0], departures.number.load(Acquire)));
        }
    }

    /// Two pages that share a place depart at once, and the lane with the lesser number is slower.
    #[test]
    fn a_slower_lane_does_not_hide_a_later_departure() {
        let page = |number: u64| Address::new(NodeId(0), number << 20, 0);
        let departures = Departures::new();
        let place = |number: u64| departures.place(page(number)).unwrap();
        let other = (2..10_000).find(|&number| core::ptr::eq(place(number), place(1))).unwrap();
        let seen = place(1).load(Acquire);
        let slower = departures.next();
        let since = departures.number.load(Acquire);
        departures.note(page(other));
        let stored = Departures::store(place(1), seen, slower);
        assert!(stored.is_err() && departures.has_after(page(other), since));
    }
}
