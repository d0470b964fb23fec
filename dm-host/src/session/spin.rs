//! Spinning in front of a sleep, as long as it pays.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Most waits in a row that do not spin are two to this power.
const DOUBLINGS_MAX: u32 = 6;

/// Spins for a while before a thread sleeps. Where processors are scarce, what it waits for does not come while it spins, since
/// the thread that would bring it has no processor: then it sleeps at once for some waits, and for twice as many after
/// each further attempt in vain.
#[derive(Debug)]
pub(super) struct Spin {
    time: Duration,
    /// Attempts in vain, since the last one that was not.
    vain: AtomicU32,
    /// Waits that are not to spin. All is relaxed: if several threads count at once, some wait spins that need not.
    skip: AtomicU32,
}

impl Spin {
    pub(super) const fn new(time: Duration) -> Self {
        Self { time, vain: AtomicU32::new(0), skip: AtomicU32::new(0) }
    }

    /// Waits for a while until `done`, and says whether it is.
    pub(super) fn until(&self, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self.time.is_zero() {
            return false;
        }
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return false;
        }
        let began = Instant::now();
        loop {
            // The clock is read between bursts, since that costs more than a look at what is waited for.
            for _ in 0..16 {
                if done() {
                    self.vain.store(0, Ordering::Relaxed);
                    return true;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() >= self.time {
                break;
            }
        }
        let vain = (self.vain.load(Ordering::Relaxed) + 1).min(DOUBLINGS_MAX);
        self.vain.store(vain, Ordering::Relaxed);
        self.skip.store(1 << vain, Ordering::Relaxed);
        done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a wait in vain looks.
    fn looks(spin: &Spin) -> u32 {
        let mut looks = 0;
        let done = spin.until(|| {
            looks += 1;
            false
        });
        assert!(!done);
        looks
    }

    #[test]
    fn a_wait_in_vain_makes_the_next_ones_sleep_at_once() {
        let spin = Spin::new(Duration::from_nanos(1));
        for skipped in [2, 4, 8, 16, 32, 64, 64] {
            assert!(looks(&spin) > 16, "it spins");
            for wait in 0..skipped {
                assert_eq!(looks(&spin), 1, "wait {wait} of {skipped}");
            }
        }
        // What comes while it spins makes it spin again.
        let mut left = 10;
        assert!(spin.until(|| {
            left -= 1;
            left == 0
        }));
        assert!(looks(&spin) > 16);
        assert_eq!([looks(&spin), looks(&spin)], [1, 1]);
        assert!(looks(&spin) > 16, "after two waits, as at first");
    }

    #[test]
    fn no_time_is_no_spinning() {
        let spin = Spin::new(Duration::ZERO);
        assert_eq!([looks(&spin), looks(&spin)], [1, 1]);
        assert!(spin.until(|| true));
    }
}
