//! What will happen when: a wheel of short slots for the near future, a heap for the rest.
//!
//! An event is one number - time, sequence, what it is about - so that events of one instant happen in the order in which
//! they were planned. Nearly all events lie within a few round trips; a slot is short enough to hold a handful, which are
//! sorted when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots of the wheel, a power of two.
const SLOTS: u64 = 4096;
/// A slot is 2^14 ps, the wheel 67 us.
const SLOT_SHIFT: u32 = 14;

/// Time in ps in the upper half, sequence and content in the lower.
type Event = u128;

/// Events to come.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Slot `s` is at `s % SLOTS`; it holds events of one slot within `SLOTS` after the present one.
    wheel: Vec<Vec<Event>>,
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
            wheel: vec![Vec::new(); SLOTS as usize],
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
            self.wheel[at].push(event);
            self.occupied[at / 64] |= 1 << (at % 64);
        } else {
            self.far.push(Reverse(event));
        }
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
        if self.occupied[at / 64] & 1 << (at % 64) != 0 {
            self.occupied[at / 64] &= !(1 << (at % 64));
            std::mem::swap(&mut self.present, &mut self.wheel[at]);
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
