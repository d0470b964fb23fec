//! The progress of lanes, as the keeper of the heartbeat sees it: a compute node that makes none must not live on by its
//! heartbeat alone. See [`leases`](crate::manual::leases).

use core::sync::atomic::{AtomicU32, Ordering};

/// A number that the keeper of the heartbeat watches.
#[derive(Debug, Default)]
struct Watched {
    /// 0: there is nothing to watch. Otherwise a number that changes with progress.
    number: AtomicU32,
    /// What the keeper saw last, and for how many heartbeats it has not changed.
    seen: AtomicU32,
    unchanged: AtomicU32,
}

impl Watched {
    /// Heartbeats for which the number has been the same.
    fn beats_unchanged(&self, number: u32) -> u32 {
        if number == 0 || self.seen.swap(number, Ordering::Relaxed) != number {
            self.unchanged.store(0, Ordering::Relaxed);
            return 0;
        }
        self.unchanged.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// How many of a lane's flights, flushes and fills are under way, in the low bits of its number. The high bits count how
/// many have begun, and come round.
const UNDER_WAY: u32 = 0xffff;

/// A lane's progress, as the keeper of the heartbeat sees it. Storage for a [`super::Recovery`]; one per lane.
///
/// Two things are watched, apart from each other, since a lane may flush while it holds a lock:
///
/// - the lock that the lane holds, which others wait for;
/// - the flights of the log, flushes and fills that it has begun and not ended. Others wait for these on this compute
///   node only. But a compute node that owns keys, and cannot READ or WRITE their leaves any more, serves nobody. So it
///   must not live on by its heartbeat alone: others recover what it owns.
///
/// What a dropped operation has left counts as under way until the lane is settled.
#[derive(Debug, Default)]
pub struct ProgressCounter {
    holding: Watched,
    work: Watched,
}

impl ProgressCounter {
    /// The lane holds no lock (0), or holds one: a number that changes with the next acquisition.
    #[inline]
    pub(crate) fn note(&self, holding: u32) {
        self.holding.number.store(holding, Ordering::Relaxed);
    }

    /// A flight, flush or fill begins. Only the lane itself says this, and what follows.
    #[inline]
    pub(crate) fn begin(&self) {
        let number = self.work.number.load(Ordering::Relaxed);
        let begun = number.wrapping_add(UNDER_WAY + 1) & !UNDER_WAY;
        self.work.number.store(begun | ((number & UNDER_WAY) + 1).min(UNDER_WAY), Ordering::Relaxed);
    }

    /// One has ended, well or badly: none of its requests can take effect any more.
    #[inline]
    pub(crate) fn end(&self) {
        let number = self.work.number.load(Ordering::Relaxed);
        if number & UNDER_WAY != 0 {
            self.work.number.store(number - 1, Ordering::Relaxed);
        }
    }

    /// The lane is settled: nothing is under way.
    pub(crate) fn end_all(&self) {
        self.work.number.store(self.work.number.load(Ordering::Relaxed) & !UNDER_WAY, Ordering::Relaxed);
    }

    /// Flights, flushes and fills under way.
    pub fn under_way(&self) -> u32 {
        self.work.number.load(Ordering::Relaxed) & UNDER_WAY
    }

    /// Heartbeats for which the lane has been holding the same acquisition, or for which none of what it has under way has
    /// ended and nothing more has begun.
    pub(super) fn beats_unchanged(&self) -> u32 {
        let work = self.work.number.load(Ordering::Relaxed);
        let work = if work & UNDER_WAY == 0 { 0 } else { work };
        self.holding.beats_unchanged(self.holding.number.load(Ordering::Relaxed)).max(self.work.beats_unchanged(work))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_lane_that_holds_the_same_lock_heartbeat_after_heartbeat_is_noticed() {
        let progress_counter = ProgressCounter::default();
        assert_eq!(progress_counter.beats_unchanged(), 0);
        progress_counter.note(5);
        assert_eq!(
            [
                progress_counter.beats_unchanged(),
                progress_counter.beats_unchanged(),
                progress_counter.beats_unchanged()
            ],
            [0, 1, 2]
        );
        progress_counter.note(7);
        assert_eq!([progress_counter.beats_unchanged(), progress_counter.beats_unchanged()], [0, 1]);
        progress_counter.note(0);
        assert_eq!(progress_counter.beats_unchanged(), 0);
    }

    /// Heartbeats without progress at which a lease of eight heartbeats would end, after `work` between heartbeats.
    fn beats_after(work: impl Fn(&ProgressCounter, u32)) -> u32 {
        let progress_counter = ProgressCounter::default();
        (0..20)
            .map(|beat| {
                work(&progress_counter, beat);
                progress_counter.beats_unchanged()
            })
            .max()
            .unwrap()
    }

    #[test]
    fn work_that_is_overdue_is_noticed_and_work_that_goes_on_is_not() {
        assert_eq!(beats_after(|_, _| ()), 0);
        assert_eq!(
            beats_after(|lane, beat| if beat == 0 {
                lane.begin();
            }),
            19,
            "a flush that never ends"
        );
        assert_eq!(beats_after(|lane, _| (lane.begin(), lane.end()).0), 0, "each ends before the next heartbeat");
        let one_after_the_other = |lane: &ProgressCounter, _| {
            lane.end();
            lane.begin();
        };
        assert_eq!(beats_after(one_after_the_other), 0, "always one under way, and never the same");
        let one_of_two_hangs = |lane: &ProgressCounter, beat| {
            if beat == 0 {
                lane.begin();
            }
            if beat < 10 {
                lane.begin();
                lane.end();
            }
        };
        assert_eq!(beats_after(one_of_two_hangs), 10, "from the last progress on");
        let idle_in_between = |lane: &ProgressCounter, beat| {
            if beat % 4 == 0 {
                lane.begin();
            } else if beat % 4 == 3 {
                lane.end();
            }
        };
        assert_eq!(beats_after(idle_in_between), 2);
        let a_lock_in_front_of_it = |lane: &ProgressCounter, beat| {
            lane.note(7);
            one_after_the_other(lane, beat);
        };
        assert_eq!(beats_after(a_lock_in_front_of_it), 19, "flushes do not vouch for a lock");
    }

    #[test]
    fn what_is_under_way_is_counted_and_ends_with_settling() {
        let lane = ProgressCounter::default();
        lane.end();
        assert_eq!(lane.under_way(), 0, "nothing had begun");
        for under_way in 1..=3 {
            lane.begin();
            assert_eq!(lane.under_way(), under_way);
        }
        lane.end();
        assert_eq!((lane.under_way(), lane.beats_unchanged(), lane.beats_unchanged()), (2, 0, 1));
        lane.end_all();
        assert_eq!((lane.under_way(), lane.beats_unchanged()), (0, 0));
        for _ in 0..2 * UNDER_WAY {
            lane.begin();
        }
        assert_eq!(lane.under_way(), UNDER_WAY, "it stays at the most it can count");
    }
}
