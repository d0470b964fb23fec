//! The lock word of a leaf: while it is free, where the leaf has room; while it is held, by whom.
//!
//! ```text
//!        63 62                                                   0
//!       ┌──┬──────────────────────────────────────────────────────┐
//! free  │0 │ vacancy: bit b = 1: treat bucket b as full           │
//!       └──┴──────────────────────────────────────────────────────┘
//!        63 62                                     16 15         0
//!       ┌──┬──────────────────────────────────────────┬───────────┐
//! held  │1 │ sequence                                 │ row       │
//!       └──┴──────────────────────────────────────────┴───────────┘
//! ```
//!
//! The entries of a leaf are divided into at most 63 buckets of consecutive entries: with `V = min(63, span)` buckets,
//! entry `i` is in bucket `i * V / span`. Memory that was never used, all zero, says that there is room everywhere.
//!
//! **Vacancy is a hint.** It decides how much an insert READs, nothing else: an insert that finds no room in what it
//! READ READs the whole leaf. Normally it is exact where buckets have one entry, and errs only towards *full* where
//! they have more.

use super::layout::{Leaf, LeafShape, State};
use crate::layout::divisor::Divisor;

pub use crate::remote::lock_word::HELD;

/// Buckets at most.
const BUCKETS_MAX: usize = 63;

/// Every bucket full.
pub(crate) const ALL_FULL: u64 = HELD - 1;

/// How entries map to buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    span: usize,
    count: usize,
    by_span: Divisor,
    by_count: Divisor,
}

impl Buckets {
    /// For leaves of `span` entries.
    pub const fn new(span: usize) -> Self {
        let count = if span < BUCKETS_MAX { span } else { BUCKETS_MAX };
        Self { span, count, by_span: Divisor::new(span as u32), by_count: Divisor::new(count as u32) }
    }

    /// No bucket has room.
    const fn all_full(&self) -> u64 {
        if self.count == 0 { 0 } else { ALL_FULL >> (BUCKETS_MAX - self.count) }
    }

    /// The bucket of an entry.
    #[inline]
    pub const fn of(&self, slot: usize) -> usize {
        if self.count == self.span { slot } else { self.by_span.quotient((slot * self.count) as u32) as usize }
    }

    /// First entry of a bucket; of the one past the last, the span.
    #[inline]
    pub const fn first(&self, bucket: usize) -> usize {
        if self.count == self.span {
            return bucket;
        }
        self.by_count.quotient((bucket * self.span + self.count - 1) as u32) as usize
    }

    /// How many entries from `home` on reach to the end of the first bucket with room, by `vacancy`. A bucket counts
    /// only if all of it lies at or after `home`. The span if there is none.
    pub(crate) fn hop_range(&self, vacancy: u64, home: usize) -> usize {
        let start = self.of(home);
        for step in 0..=self.count {
            let bucket = start + step;
            let bucket = if bucket < self.count { bucket } else { bucket - self.count };
            if vacancy >> bucket & 1 != 0 || step == 0 && self.first(bucket) < home {
                continue;
            }
            if step == self.count {
                // The home's own bucket again, of which the part before the home is left: all the way round.
                break;
            }
            let last = self.first(bucket + 1) - 1;
            let distance = if last >= home { last - home } else { last + self.span - home };
            return distance + 1;
        }
        self.span
    }

    /// The vacancy of a whole image.
    pub fn exact(&self, leaf: &Leaf<'_>) -> u64 {
        let mut full = self.all_full();
        for slot in 0..self.span {
            if leaf.state(slot) != State::Live {
                full &= !(1 << self.of(slot));
            }
        }
        full
    }

    /// The vacancy after an operation that READ `count` entries from `first` on and `filled` one of them. It says what
    /// was seen, exactly where buckets have one entry, otherwise as exactly as a part of a bucket allows.
    pub fn observed(
        &self,
        vacancy: u64,
        shape: &LeafShape,
        leaf: &Leaf<'_>,
        (first, count): (usize, usize),
        filled: Option<usize>,
    ) -> u64 {
        if count >= self.span {
            return self.exact(leaf);
        }
        let mut vacancy = vacancy & self.all_full();
        if let Some(slot) = filled {
            vacancy |= 1 << self.of(slot);
        }
        for distance in 0..count {
            let slot = shape.after(first, distance);
            let bit = 1 << self.of(slot);
            if leaf.state(slot) != State::Live {
                vacancy &= !bit;
            } else if self.count == self.span {
                vacancy |= bit;
            }
        }
        vacancy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_entry_once_for_every_span() {
        for span in 8..=512 {
            let buckets = Buckets::new(span);
            for bucket in 0..buckets.count {
                assert!(buckets.first(bucket) < buckets.first(bucket + 1), "span {span}, bucket {bucket}");
                for slot in buckets.first(bucket)..buckets.first(bucket + 1) {
                    assert_eq!(buckets.of(slot), bucket, "span {span}, entry {slot}");
                }
            }
            assert_eq!((buckets.first(0), buckets.first(buckets.count)), (0, span));
        }
    }

    #[test]
    fn a_hop_range_ends_with_the_first_bucket_that_has_room() {
        let buckets = Buckets::new(16);
        assert_eq!(buckets.hop_range(0, 5), 1);
        assert_eq!(buckets.hop_range(0b1110_0000, 5), 4);
        // Cyclically: only entry 2 has room.
        assert_eq!(buckets.hop_range(0xffff & !(1 << 2), 14), 5);
        assert_eq!(buckets.hop_range(0xffff, 3), 16);
        // Buckets of two: entries 0 and 1 of 64.
        let wide = Buckets::new(64);
        assert_eq!(wide.hop_range(ALL_FULL & !1, 1), 64, "the part before the home does not count");
        assert_eq!(wide.hop_range(ALL_FULL & !1, 0), 2);
        assert_eq!(wide.hop_range(ALL_FULL & !1, 63), 3);
    }
}
