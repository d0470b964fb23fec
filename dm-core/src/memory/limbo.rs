//! Limbo list: places that wait until no compute node can have a pointer to what was there.
//!
//! First in, first out. The list notes with each place how many turns of the [epochs](super::epochs) had begun when it
//! entered. The place may leave when a turn that began after that is over: then all rows have passed its epoch. A place
//! has a *stamp*: what the owner of the list has to know when the place leaves. The owner decides which places wait and
//! when a turn is asked for:
//!
//! - [`super::node_pool`]: places whose generations begin again, one in thirty-two. While some wait, each heartbeat
//!   begins a turn. See [`generations`](crate::manual::generations).
//! - [`crate::radix::pieces`]: all places. The pool asks for a turn when enough bytes wait. See
//!   [`smart_memory`](crate::manual::smart_memory).

use crate::remote::place::Place;
use static_assertions::const_assert_eq;

/// A place that waits. Storage for a [`LimboList`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting<S> {
    place: Place,
    stamp: S,
    /// Turns begun when it entered.
    entered: u32,
}

const_assert_eq!(size_of::<Waiting<u32>>(), 16);

/// Places that wait, in the order in which they came.
#[derive(Debug)]
pub struct LimboList<'s, S> {
    places: &'s mut [Waiting<S>],
    first: usize,
    count: usize,
}

impl<'s, S: Copy> LimboList<'s, S> {
    /// An empty list with room for `places.len()`.
    pub const fn new(places: &'s mut [Waiting<S>]) -> Self {
        Self { places, first: 0, count: 0 }
    }

    /// Puts a place last. `false`: there is no room.
    pub(crate) fn push(&mut self, place: Place, stamp: S, entered: u32) -> bool {
        if self.count >= self.places.len() {
            return false;
        }
        let at = (self.first + self.count) % self.places.len();
        if let Some(to) = self.places.get_mut(at) {
            *to = Waiting { place, stamp, entered };
        }
        self.count += 1;
        true
    }

    /// The place that has waited longest, if `is_over` is true of it.
    pub(crate) fn next(&self, is_over: impl FnOnce(u32) -> bool) -> Option<(Place, S)> {
        let Waiting { place, stamp, entered } = *self.places.get(self.first).filter(|_| self.count > 0)?;
        is_over(entered).then_some((place, stamp))
    }

    /// Removes that place and returns it.
    pub(crate) fn pop(&mut self, is_over: impl FnOnce(u32) -> bool) -> Option<(Place, S)> {
        let next = self.next(is_over)?;
        self.first = (self.first + 1) % self.places.len();
        self.count -= 1;
        Some(next)
    }

    /// Forgets places for which `gone` is true: those in closed chunks. The others keep their order.
    pub(crate) fn give_up(&mut self, mut gone: impl FnMut(Place, S) -> bool) {
        let (room, count) = (self.places.len().max(1), self.count);
        let mut kept = 0;
        for at in 0..count {
            let Some(&waiting) = self.places.get((self.first + at) % room) else { continue };
            if !gone(waiting.place, waiting.stamp)
                && let Some(to) = self.places.get_mut((self.first + kept) % room)
            {
                *to = waiting;
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Places that wait.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Places for which there is room, including those that wait.
    pub(crate) const fn room(&self) -> usize {
        self.places.len()
    }

    /// Calls `visit` with every place.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(Place, S)) {
        for at in 0..self.count {
            if let Some(waiting) = self.places.get((self.first + at) % self.places.len()) {
                visit(waiting.place, waiting.stamp);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;

    fn place(line: u32) -> Place {
        Place::new(NodeId(1), u64::from(line) * 64)
    }

    #[test]
    fn places_leave_in_the_order_in_which_they_came_and_not_before_their_time() {
        let mut room = [Waiting::default(); 2];
        let mut limbo = LimboList::new(&mut room);
        for round in 0..5 {
            let (first, second) = (2 * round, 2 * round + 1);
            assert!(limbo.push(place(first), 'a', first) && limbo.push(place(second), 'b', second));
            assert!(!limbo.push(place(99), 'c', 99), "there is no room");
            assert_eq!(limbo.pop(|entered| entered < first), None);
            assert_eq!(limbo.next(|entered| entered <= first), Some((place(first), 'a')));
            assert_eq!(limbo.pop(|entered| entered <= first), Some((place(first), 'a')));
            assert_eq!(limbo.pop(|entered| entered <= first), None);
            let mut seen = None;
            limbo.for_each(&mut |place, stamp| assert_eq!(seen.replace((place, stamp)), None));
            assert_eq!((seen, limbo.count(), limbo.room()), (Some((place(second), 'b')), 1, 2));
            assert!(limbo.pop(|_| true).is_some());
        }
    }

    #[test]
    fn places_that_are_given_up_make_room() {
        let mut room = [Waiting::default(); 3];
        let mut limbo = LimboList::new(&mut room);
        assert!(limbo.push(place(9), 9, 0) && limbo.pop(|_| true).is_some());
        for number in 0..3 {
            assert!(limbo.push(place(number), number, 0));
        }
        limbo.give_up(|_, number| number == 1);
        assert!(limbo.push(place(3), 3, 0) && !limbo.push(place(4), 4, 0));
        for number in [0, 2, 3] {
            assert_eq!(limbo.pop(|_| true), Some((place(number), number)));
        }
        assert_eq!(limbo.pop(|_| true), None);
    }
}
