//! What will happen when: a wheel of short slots for the near future, a heap for the rest.
//!
//! An event is one number - time, sequence, what it is about - so that events of one instant happen in the order in which
//! they were planned. Nearly all events lie within a few round trips; a slot is short enough to hold a handful, which are
//! sorted when its time comes.

use super::buckets::NONE;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots of the wheel, a power of two.
const SLOTS: u64 = 1024;
/// A slot is 2^14 ps, the wheel 17 us.
const SLOT_SHIFT: u32 = 14;

/// Time in ps in the upper half, sequence and content in the lower.
type Event = u128;

/// An event of the wheel, and the next one of its slot; or a free place, and the next one.
#[derive(Clone, Copy, Debug)]
struct Place {
    event: Event,
    next: u32,
}

/// Events to come.
///
/// The clock walks over all slots of the wheel, so a slot is one word, and events are in places that are used again at once: all of
/// it stays in the first-level cache. A vector for each of 4096 slots, which did not, cost up to 11 % of the time of a simulated get.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Slot `s` is at `s % SLOTS`; it names the first event of one slot within `SLOTS` after the present one.
    wheel: [u32; SLOTS as usize],
    places: Vec<Place>,
    free: u32,
    /// One bit per slot of the wheel that holds events.
    occupied: [u64; SLOTS as usize / 64],
    /// Events of the present slot and before, the next one last.
    present: Vec<Event>,
    slot: u64,
    /// Events beyond the wheel when they were planned.
    far: BinaryHeap<Reverse<Event>>,
    len: usize,
    sequence: u32,
}

const fn slot_of(event: Event) -> u64 {
    (event >> (64 + SLOT_SHIFT)) as u64
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            wheel: [NONE; SLOTS as usize],
            places: Vec::new(),
            free: NONE,
            occupied: [0; SLOTS as usize / 64],
            present: Vec::new(),
            slot: 0,
            far: BinaryHeap::new(),
            len: 0,
            sequence: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Plans `content` for `at_ps`, behind everything planned for that instant so far.
    #[inline]
    pub(crate) fn push(&mut self, at_ps: u64, content: u32) {
        // It comes round after 2^32 events; two of one instant are never that far apart.
        self.sequence = self.sequence.wrapping_add(1);
        let event = u128::from(at_ps) << 64 | u128::from(self.sequence) << 32 | u128::from(content);
        let slot = at_ps >> SLOT_SHIFT;
        self.len += 1;
        if slot <= self.slot {
            let at = self.present.partition_point(|&other| other > event);
            self.present.insert(at, event);
        } else if slot - self.slot < SLOTS {
            let at = (slot % SLOTS) as usize;
            let place = Place { event, next: self.wheel[at] };
            self.wheel[at] = self.take_place(place);
            self.occupied[at / 64] |= 1 << (at % 64);
        } else {
            self.far.push(Reverse(event));
        }
    }

    fn take_place(&mut self, place: Place) -> u32 {
        if self.free == NONE {
            self.places.push(place);
            return self.places.len() as u32 - 1;
        }
        let number = self.free;
        let free = &mut self.places[number as usize];
        self.free = free.next;
        *free = place;
        number
    }

    /// The next event: its time and content.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        if self.present.is_empty() {
            self.turn();
        }
        let event = self.present.pop()?;
        self.len -= 1;
        Some(((event >> 64) as u64, event as u32))
    }

    /// Goes on to the next slot that holds events.
    fn turn(&mut self) {
        let far = self.far.peek().map(|Reverse(event)| slot_of(*event));
        let Some(slot) = self.next_occupied().into_iter().chain(far).min() else { return };
        self.slot = slot;
        let at = (slot % SLOTS) as usize;
        self.occupied[at / 64] &= !(1 << (at % 64));
        let mut number = std::mem::replace(&mut self.wheel[at], NONE);
        while number != NONE {
            let place = &mut self.places[number as usize];
            self.present.push(place.event);
            let next = std::mem::replace(&mut place.next, self.free);
            self.free = number;
            number = next;
        }
        while let Some(Reverse(event)) = self.far.peek()
            && slot_of(*event) <= slot
        {
            self.present.extend(self.far.pop().map(|Reverse(event)| event));
        }
        self.present.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The first slot of the wheel after the present one that holds events.
    fn next_occupied(&self) -> Option<u64> {
        let words = self.occupied.len();
        let first = ((self.slot + 1) % SLOTS) as usize;
        for step in 0..=words {
            let word = (first / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            } else if step == words {
                bits &= !(u64::MAX << (first % 64));
            }
            if bits != 0 {
                let at = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return Some(self.slot + 1 + (at + SLOTS - (self.slot + 1) % SLOTS) % SLOTS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_planning() {
        let mut rng = Rng::new(7);
        let mut events = EventQueue::new();
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut now_ps = 0;
        let mut number = 0;
        for round in 0..200_000_u64 {
            // Mostly near, sometimes now, sometimes far beyond the wheel; in between the queue runs empty.
            if rng.percent(if round / 1000 % 2 == 0 { 60 } else { 40 }) {
                let after_ps = match rng.below(10) {
                    0 => 0,
                    1 => u64::from(rng.below(1_000_000_000)),
                    2 => 1 << 40,
                    _ => u64::from(rng.below(4_000_000)),
                };
                number += 1;
                events.push(now_ps + after_ps, number);
                heap.push(Reverse((now_ps + after_ps, number)));
            } else {
                let expected = heap.pop().map(|Reverse(event)| event);
                assert_eq!(events.pop(), expected);
                now_ps = expected.map_or(now_ps, |(at_ps, _)| at_ps);
            }
            assert_eq!(events.is_empty(), heap.is_empty());
        }
    }
}
