//! How many operations a thread has under way: as many as memory nodes answer in time.
//!
//! A READ of several lines is accepted only if it was short ([`crate::layout::stripes`]): during a long one, 4-bit
//! versions may have come round. If a device is saturated, more operations under way bring no throughput, only a longer
//! queue. Once READs wait in the queue for longer than they are accepted, each is repeated under a lock, which makes
//! the queue longer still. So a driver that sees READs refused begins fewer operations at a time, and more again while
//! none is refused: additive increase, multiplicative decrease. Operations that are under way are never held up, so
//! none of them can wait for an operation that may not begin.

/// Operations without a refusal after which the limit rises by one, for each operation that the limit allows.
const CLEAN_PER_STEP: u32 = 64;

/// Limit on the operations that one thread has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    most: u32,
    limit: u32,
    under_way: u32,
    /// Operations that ended without a refusal since the limit last changed.
    clean: u32,
    /// Operations that may have begun before the limit was last lowered. Their refusals say nothing about the lower
    /// limit.
    stale: u32,
}

impl Window {
    /// For a thread of `lanes` lanes. At first all of them may have operations under way.
    pub const fn new(lanes: u32) -> Self {
        let most = if lanes == 0 { 1 } else { lanes };
        Self { most, limit: most, under_way: 0, clean: 0, stale: 0 }
    }

    /// How many operations may have requests under way now: 1 up to the lanes of the thread.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether another operation may begin.
    #[inline]
    pub const fn is_open(&self) -> bool {
        self.under_way < self.limit
    }

    /// An operation posts requests.
    #[inline]
    pub const fn post(&mut self) {
        self.under_way += 1;
    }

    /// The requests have completed.
    #[inline]
    pub const fn answer(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// An operation ended. `refused`: one of its READs took too long to be accepted.
    #[inline]
    pub fn end(&mut self, refused: bool) {
        let stale = self.stale > 0;
        self.stale = self.stale.saturating_sub(1);
        if refused {
            self.clean = 0;
            if !stale {
                self.stale = self.limit;
                self.limit -= self.limit.div_ceil(4).min(self.limit - 1);
            }
        } else if self.limit < self.most {
            self.clean += 1;
            if self.clean >= CLEAN_PER_STEP * self.limit {
                (self.limit, self.clean) = (self.limit + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that answers up to `bears` operations at once in time.
    fn settled_limit(lanes: u32, bears: u32) -> (u32, u32) {
        let mut window = Window::new(lanes);
        let (mut lowest, mut refused) = (lanes, 0);
        for operation in 0..200_000 {
            while window.is_open() {
                window.post();
            }
            let late = window.under_way > bears;
            window.answer();
            window.end(late);
            if operation >= 100_000 {
                lowest = lowest.min(window.limit());
                refused += u32::from(late);
            }
        }
        (lowest, refused)
    }

    #[test]
    fn it_stays_near_what_the_device_bears() {
        for bears in [4, 12, 48] {
            let (lowest, refused) = settled_limit(64, bears);
            assert!(lowest >= bears / 2, "{lowest} of {bears}");
            assert!(refused < 100_000 / 20, "{refused} refused of 100000 where {bears} are borne");
        }
    }

    #[test]
    fn one_operation_is_always_under_way() {
        let (lowest, refused) = settled_limit(64, 0);
        assert_eq!((lowest, refused), (1, 100_000));
        let mut window = Window::new(0);
        assert!(window.is_open());
        window.post();
        assert!(!window.is_open());
    }

    #[test]
    fn a_device_that_bears_all_is_given_all() {
        assert_eq!(settled_limit(64, 64), (64, 0));
    }

    #[test]
    fn what_a_slow_moment_took_away_comes_back() {
        let mut window = Window::new(8);
        let mut refuse = |times| (0..times).for_each(|_| window.end(true));
        refuse(200);
        assert_eq!(window.limit(), 1);
        (0..CLEAN_PER_STEP * (1 + 2 + 3 + 4 + 5 + 6 + 7)).for_each(|_| window.end(false));
        assert_eq!(window.limit(), 8);
    }
}
