//! How many operations a thread has under way: as many as memory nodes answer in time.
//!
//! A READ of several lines is believed only if it was short ([`crate::layout::stripes`]: in a long one 4-bit versions may
//! have come round). Where a device is saturated, more operations under way bring no throughput, only a longer queue;
//! once the queue is longer than READs are believed for, each of them is repeated under a lock, which makes the queue
//! longer still. So a driver that sees READs refused begins fewer operations at a time, and more again while there
//! are none refused: additive increase, multiplicative decrease. Operations under way are never held up, so nothing
//! can wait for one that is not allowed to begin.

/// Clean operations after which one more may be under way, for each that already may.
const CLEAN_PER_STEP: u32 = 64;

/// The bound on operations under way of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    most: u32,
    limit: u32,
    under_way: u32,
    /// Operations that ended without a refusal since the limit was last changed.
    clean: u32,
    /// Operations that had begun before the limit was last lowered, or so many: they say nothing about the lower one.
    stale: u32,
}

impl Window {
    /// For a thread of `lanes` lanes: all of them may be busy to begin with.
    pub const fn new(lanes: u32) -> Self {
        let most = if lanes == 0 { 1 } else { lanes };
        Self { most, limit: most, under_way: 0, clean: 0, stale: 0 }
    }

    /// Operations that may have requests under way at present, 1 up to the lanes of the thread.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether another operation may begin.
    #[inline]
    pub const fn is_open(&self) -> bool {
        self.under_way < self.limit
    }

    /// Requests of an operation go out.
    #[inline]
    pub const fn post(&mut self) {
        self.under_way += 1;
    }

    /// They are back.
    #[inline]
    pub const fn answer(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// An operation ended; `refused`: a READ of it took too long to be believed.
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

    /// A device that answers up to `bears` operations at a time in time.
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
}
