//! Slots of a leaf in the order of their keys.
//!
//! Leaves have their records where there was room, or where a hash puts them. What goes through a leaf in order notes each slot
//! with the first eight bytes of its key, as a word that compares as they do, and then sorts numbers of eight bytes: in front, how
//! far the word is from the least one, and behind that the slot. Where that is too wide for a number, its last bits are left out.
//! Slots whose numbers agree in front are few, and are told apart by their keys.

use core::cmp::Ordering;
use heapless::Vec;

/// Bits of a number for the slot.
const SLOT_BITS: u32 = 9;

/// A leaf has no more slots.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// See the module's documentation. It has room for `N` slots, and takes no more.
pub(crate) struct Order<const N: usize> {
    /// Words of keys; once sorted, numbers.
    words: Vec<u64, N>,
    slots: Vec<u16, N>,
    least: u64,
    most: u64,
    /// Each word is greater than the one before.
    ascends: bool,
}

impl<const N: usize> Order<N> {
    const FITS: () = assert!(N <= SLOTS_MAX, "a slot has too many bits");

    /// Without slots.
    #[inline]
    pub(crate) const fn new() -> Self {
        let () = Self::FITS;
        Self { words: Vec::new(), slots: Vec::new(), least: u64::MAX, most: 0, ascends: true }
    }

    /// Notes a slot, and the first eight bytes of its key as a big-endian word.
    #[inline]
    pub(crate) fn push(&mut self, word: u64, slot: u16) {
        self.ascends &= self.words.last().is_none_or(|before| *before < word);
        self.least = self.least.min(word);
        self.most = self.most.max(word);
        // There is room for as many as a leaf has.
        let _ = self.words.push(word);
        let _ = self.slots.push(slot);
    }

    /// Puts the slots in order, once. `compare` compares the keys of two slots.
    #[inline]
    pub(crate) fn sort(&mut self, mut compare: impl FnMut(u16, u16) -> Ordering) {
        if self.ascends {
            return;
        }
        let bits = u64::BITS - (self.most - self.least).leading_zeros();
        let left_out = bits.saturating_sub(u64::BITS - SLOT_BITS);
        for (word, slot) in self.words.iter_mut().zip(&self.slots) {
            *word = ((*word - self.least) >> left_out << SLOT_BITS) | (u64::from(*slot) % SLOTS_MAX as u64);
        }
        self.words.sort_unstable();
        for (slot, number) in self.slots.iter_mut().zip(&self.words) {
            *slot = (number % SLOTS_MAX as u64) as u16;
        }
        let mut rest = self.slots.as_mut_slice();
        for equals in self.words.chunk_by(|a, b| a >> SLOT_BITS == b >> SLOT_BITS) {
            let Some((these, behind)) = rest.split_at_mut_checked(equals.len()) else { return };
            if these.len() > 1 {
                these.sort_unstable_by(|a, b| compare(*a, *b));
            }
            rest = behind;
        }
    }

    /// The slots.
    #[inline]
    pub(crate) fn slots(&self) -> &[u16] {
        &self.slots
    }

    /// Whether the slot at `position` may have the key of the one in front of it, once they are sorted.
    #[inline]
    pub(crate) fn may_repeat(&self, position: usize) -> bool {
        let number = |position: usize| self.words.get(position).map(|number| number >> SLOT_BITS);
        !self.ascends && position > 0 && number(position) == number(position - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    extern crate std;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn slots_come_in_the_order_of_their_keys(
            words in prop::collection::vec(prop_oneof![any::<u64>(), 0..40u64, Just(u64::MAX), (0..40u64).prop_map(|n| n << 60)], 0..80),
            ascending: bool,
        ) {
            let mut words = words;
            if ascending {
                words.sort_unstable();
            }
            // The rest of a key, behind the word.
            let key = |slot: u16| words.get(usize::from(slot)).map(|word| (*word, slot % 3));
            let mut order = Order::<SLOTS_MAX>::new();
            let slots: Vec<u16> = (0..words.len() as u16).collect();
            for &slot in &slots {
                order.push(words[usize::from(slot)], slot);
            }
            order.sort(|a, b| key(a).cmp(&key(b)));
            let sorted = order.slots().to_vec();
            prop_assert!(sorted.windows(2).all(|pair| key(pair[0]) <= key(pair[1])));
            for (position, pair) in sorted.windows(2).enumerate() {
                prop_assert!(key(pair[0]) != key(pair[1]) || order.may_repeat(position + 1));
            }
            let mut all = sorted;
            all.sort_unstable();
            prop_assert_eq!(all, slots);
        }
    }
}
