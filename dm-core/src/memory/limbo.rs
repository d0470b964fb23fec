//! Limbo list: places that wait until no compute node can have a pointer to one of their earlier nodes.
//!
//! Generations tell [`GENERATIONS`] nodes of a place apart, and begin again at the first. A place whose next generation
//! is the first of *either* half of them waits here for the [epochs](super::epochs). All others are ready at once: of
//! the places that return, one in thirty-two waits. See [`generations`](crate::manual::generations) for why that is
//! needed and enough, and why it is either half.

use crate::remote::address::GENERATION_MASK;
use crate::remote::place::{NodeClass, UnlinkedNode};

/// Nodes of a place that generations tell apart.
pub const GENERATIONS: u8 = GENERATION_MASK + 1;

/// A place that waits. Storage for a [`LimboList`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    class: NodeClass,
    fresh: UnlinkedNode,
    /// Turns begun when it entered.
    entered: u32,
}

/// Places that wait, in the order in which they came.
#[derive(Debug, Default)]
pub struct LimboList<'s> {
    places: &'s mut [Waiting],
    first: usize,
    count: usize,
}

impl<'s> LimboList<'s> {
    /// An empty list with room for `places.len()`.
    pub fn new(places: &'s mut [Waiting]) -> Self {
        Self { places, first: 0, count: 0 }
    }

    /// `false`: there is no room.
    pub(crate) fn push(&mut self, class: NodeClass, fresh: UnlinkedNode, entered: u32) -> bool {
        if self.count >= self.places.len() {
            return false;
        }
        let at = (self.first + self.count) % self.places.len();
        if let Some(place) = self.places.get_mut(at) {
            *place = Waiting { class, fresh, entered };
        }
        self.count += 1;
        true
    }

    /// The place that has waited longest, if `is_over` is true of it.
    pub(crate) fn pop(&mut self, is_over: impl FnOnce(u32) -> bool) -> Option<(NodeClass, UnlinkedNode)> {
        if self.count == 0 {
            return None;
        }
        let Waiting { class, fresh, entered } = *self.places.get(self.first)?;
        if !is_over(entered) {
            return None;
        }
        self.first = (self.first + 1) % self.places.len();
        self.count -= 1;
        Some((class, fresh))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Calls `visit` with every place.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(NodeClass, UnlinkedNode)) {
        for at in 0..self.count {
            if let Some(place) = self.places.get((self.first + at) % self.places.len()) {
                visit(place.class, place.fresh);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::address::Address;
    use crate::verbs::NodeId;

    #[test]
    fn places_leave_in_the_order_in_which_they_came_and_not_before_their_time() {
        let mut room = [Waiting::default(); 2];
        let mut limbo = LimboList::new(&mut room);
        let fresh = |line: u64| UnlinkedNode { address: Address::new(NodeId(0), line * 64, 0), version: 0 };
        for round in 0..5 {
            let (first, second) = (2 * round, 2 * round + 1);
            assert!(limbo.push(NodeClass::Leaf, fresh(u64::from(first)), first));
            assert!(limbo.push(NodeClass::Inner, fresh(u64::from(second)), second));
            assert!(!limbo.push(NodeClass::Leaf, fresh(99), 99), "there is no room");
            assert_eq!(limbo.pop(|entered| entered < first), None);
            assert_eq!(limbo.pop(|entered| entered <= first), Some((NodeClass::Leaf, fresh(u64::from(first)))));
            assert_eq!(limbo.pop(|entered| entered <= first), None);
            let mut seen = 0;
            limbo.for_each(&mut |class, _| seen += 1 + u32::from(class == NodeClass::Inner));
            assert_eq!(seen, 2);
            assert!(limbo.pop(|_| true).is_some());
        }
    }
}
