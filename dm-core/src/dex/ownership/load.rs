//! How often operations come for the keys of an entry: what an owner counts, and what it says to others.
//!
//! ```text
//!  an operation in N        twice a second, where the table is READ             anybody
//!  entry's sample: + 1 ───► rate = samples × N, and some of the rate before ───► load word, of the word's epoch?
//! ```
//!
//! **What it costs.** A lane draws for each operation whether it is a sample: an addition and a comparison in its own memory.
//! One in [`SAMPLED`] writes to memory that lanes share. So two lanes on one hot entry do not take its cache line from each
//! other for every get.
//!
//! **The rate** decays: the last [`MEMORY_US`] count most. One that is given to a new owner begins as that of the last owner
//! ([`LoadWord::inherited`]), so that a plan that is made right after a move does not take the range for an idle one.
//!
//! **A load is a hint.** The WRITE of one may come late, over that of the next owner: then the epoch is not the word's, readers
//! ignore it, and the owner WRITEs its own as soon as it READs the table. Nothing is decided by a load but which ranges
//! somebody asks to have moved.

use crate::remote::owners::LoadWord;
use core::sync::atomic::{AtomicU32, Ordering};
use spin::Mutex;

/// One in so many operations is counted.
pub const SAMPLED: u32 = 16;

/// How often an owner says what it has counted, in microseconds, if nothing else makes it do so.
pub const PERIOD_US: u64 = 500_000;

/// The time over which operations are averaged, in microseconds: what was counted so long ago has about a third of its weight.
pub const MEMORY_US: u64 = 2_000_000;

/// What a compute node knows of the load of an entry.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Samples since they were taken last.
    samples: AtomicU32,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of an entry that it serves: what it says, of this tenure. Of another one: what was READ last.
    word: LoadWord,
    /// The tenure has begun since samples were taken last.
    is_new: bool,
}

impl Load {
    /// An operation that is a sample.
    #[inline]
    pub(super) fn count(&self) {
        self.samples.fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of it.
    pub(super) fn word(&self) -> LoadWord {
        self.known.lock().word
    }

    /// Takes note of what was READ. `tenure`: the epoch in which this compute node serves the entry, or 0. Returns whether the
    /// table should say something else.
    pub(super) fn note(&self, read: LoadWord, tenure: u32) -> bool {
        let mut known = self.known.lock();
        if tenure == 0 {
            *known = Known { word: read, is_new: false };
            return false;
        }
        if known.word.epoch() != tenure {
            *known = Known { word: LoadWord::new(read.inherited(tenure), tenure), is_new: true };
        }
        read.epoch() != tenure
    }

    /// Takes what was counted in `elapsed_us` microseconds of the tenure of that epoch. Returns what the table is to say. `None`:
    /// the tenure has begun since the table was READ, and what the last owner has said is not known yet.
    pub(super) fn take(&self, tenure: u32, elapsed_us: u64) -> Option<LoadWord> {
        let mut known = self.known.lock();
        if known.word.epoch() != tenure {
            return None;
        }
        let operations = u64::from(self.samples.swap(0, Ordering::Relaxed)) * u64::from(SAMPLED);
        // The samples of a new tenure are not those of all this time, and may be of an earlier tenure.
        if !core::mem::take(&mut known.is_new) {
            known.word = LoadWord::new(decayed(known.word.rate(), operations, elapsed_us), tenure);
        }
        Some(known.word)
    }
}

/// Operations per second, from those of before and `operations` in the `elapsed_us` microseconds since.
const fn decayed(before: u32, operations: u64, elapsed_us: u64) -> u32 {
    // The rate before stands for MEMORY_US, and what was counted for the time in which it was.
    let weighed = (before as u64 * MEMORY_US).saturating_add(operations.saturating_mul(1_000_000));
    let rate = weighed / MEMORY_US.saturating_add(elapsed_us);
    if rate > u32::MAX as u64 { u32::MAX } else { rate as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Lane;
    use crate::verbs::LaneId;

    #[test]
    fn a_rate_follows_what_is_counted_and_decays() {
        let mut rate = 0;
        for _ in 0..20 {
            rate = decayed(rate, 5_000, PERIOD_US);
        }
        assert!((9_800..=10_000).contains(&rate), "10,000 operations per second for ten seconds: {rate}");
        let after = |seconds: u64| (0..2 * seconds).fold(rate, |rate, _| decayed(rate, 0, PERIOD_US));
        assert!((rate / 3..rate / 2).contains(&after(2)), "{}", after(2));
        assert_eq!(after(60), 0);
        assert!(decayed(rate, 0, 60_000_000) < rate / 20, "one long pause is as good as many short ones");
        assert_eq!(decayed(u32::MAX, u64::MAX, 0), u32::MAX);
        assert_eq!(decayed(u32::MAX, 0, u64::MAX), 0);
    }

    #[test]
    fn a_lane_samples_one_operation_in_so_many_whatever_their_rhythm() {
        let lane = Lane::new(LaneId(3), &mut []);
        for period in [1, 2, 3, 16, 64] {
            let mut samples = [0_u32; 64];
            for operation in 0..64_000 {
                samples[operation % period] += u32::from(lane.is_sampled(SAMPLED));
            }
            let each = 64_000 / period as u32 / SAMPLED;
            for (at, &samples) in samples.iter().take(period).enumerate() {
                assert!(samples.abs_diff(each) <= each / 10 + 4, "{at} of {period}: {samples} and not {each}");
            }
        }
    }

    #[test]
    fn a_new_owner_begins_with_the_rate_of_the_last_one() {
        let load = Load::default();
        load.count();
        assert!(!load.note(LoadWord::new(800, 4), 0), "it is another one's");
        assert!(load.note(LoadWord::new(800, 4), 7));
        assert_eq!(
            load.take(7, PERIOD_US),
            Some(LoadWord::new(800, 7)),
            "and nothing of a sample of an earlier tenure"
        );
        load.count();
        assert_eq!(load.take(8, PERIOD_US), None, "what the last owner has said is looked at first");
        let said = load.take(7, PERIOD_US).unwrap();
        assert_eq!(said, LoadWord::new(decayed(800, 16, PERIOD_US), 7));
        assert!(!load.note(said, 7) && load.word() == said);
        assert!(load.note(LoadWord::new(900, 4), 7), "the last owner's has come late");
        assert_eq!(load.word(), said);
        assert!(load.note(LoadWord(u64::MAX), 20) && load.word() == LoadWord::new(0, 20), "no owner has written it");
        assert!(load.note(LoadWord::new(900, 4), 21) && load.word() == LoadWord::new(0, 21), "of long ago");
    }
}
