//! Whether an operation on a leaf that is not cached calls the memory node, or READs and WRITEs the nodes itself.
//!
//! Both ways are measured: how long operations have waited that took one or the other, from a node of each level on; gets,
//! changes and pages of scans apart. An operation takes the way that was shorter, in a decayed average of the compute node's
//! lanes. What calls wait for a processor that is busy is in the average, so lanes go back to READs before the processor is
//! the bottleneck.
//!
//! **Contrary draws.** One operation in [`CONTRARY`] takes the other way, so that neither average stays old; fewer, if the
//! other way takes more than twice as long. So what they cost is at most 1 / [`CONTRARY`] of the time that operations take.
//! The mark `offload-contrary` counts them.
//!
//! **A cache that is not full** is filled by READs, and calls bring no nodes. So a get or a scan calls only if what it would
//! READ had to displace something, and a change only if its leaf does not come into a frame ([`Dex`](crate::dex::Dex) asks).

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Levels of nodes from which a get may call: leaves are 0. It READs from the root on if its route ends higher.
pub const LEVELS: usize = 6;

/// One get in so many takes the other way, at most.
pub const CONTRARY: u32 = 64;

/// A sample counts as much as this many of an average: 1 / 16.
const DECAY_BITS: u32 = 4;

/// What is measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Gets.
    Get = 0,
    /// Inserts, updates, deletes.
    Change = 1,
    /// Pages of scans.
    Scan = 2,
}

const CLASSES: usize = 3;

/// When operations call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Never.
    #[default]
    Never = 0,
    /// Whenever an operation could.
    Always = 1,
    /// If that was faster.
    ByCost = 2,
}

impl Mode {
    /// Every mode, in numeric order.
    pub const ALL: [Self; 3] = [Self::Never, Self::Always, Self::ByCost];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::ByCost => "by-cost",
        }
    }
}

/// Which way an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// It calls.
    pub calls: bool,
    /// The other way was faster so far.
    pub contrary: bool,
}

/// A decayed average, in ns, or 0 without samples. Samples that lanes add at the same time may get lost.
#[derive(Debug, Default)]
struct Average {
    scaled: AtomicU32,
}

impl Average {
    fn get(&self) -> u32 {
        self.scaled.load(Relaxed) >> DECAY_BITS
    }

    fn add(&self, ns: u32) {
        let ns = ns.clamp(1, u32::MAX >> (DECAY_BITS + 1));
        let old = self.scaled.load(Relaxed);
        let new = if old == 0 { ns << DECAY_BITS } else { old - (old >> DECAY_BITS) + ns };
        self.scaled.store(new, Relaxed);
    }
}

/// What a compute node's lanes know of both ways.
#[derive(Debug, Default)]
pub struct Choice {
    mode: AtomicU8,
    by_call: [[Average; LEVELS]; CLASSES],
    by_reads: [[Average; LEVELS]; CLASSES],
}

fn of(averages: &[[Average; LEVELS]; CLASSES], class: Class, level: u8) -> Option<&Average> {
    averages.get(class as usize)?.get(usize::from(level))
}

impl Choice {
    /// Sets when operations call.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Relaxed);
    }

    /// When operations call.
    #[inline]
    pub fn mode(&self) -> Mode {
        Mode::ALL.get(usize::from(self.mode.load(Relaxed))).copied().unwrap_or_default()
    }

    /// The way of an operation from a node of `level` on. `draw`: any number, evenly distributed.
    pub fn way(&self, class: Class, level: u8, draw: u32) -> Way {
        let plain = |calls| Way { calls, contrary: false };
        let (Some(by_call), Some(by_reads)) = (of(&self.by_call, class, level), of(&self.by_reads, class, level))
        else {
            return plain(false);
        };
        match self.mode() {
            Mode::Never => plain(false),
            Mode::Always => plain(true),
            // A way without samples is taken, and has one then.
            Mode::ByCost if by_reads.get() == 0 => plain(false),
            Mode::ByCost if by_call.get() == 0 => plain(true),
            Mode::ByCost => {
                let (call_ns, reads_ns) = (u64::from(by_call.get()), u64::from(by_reads.get()));
                let (fast_ns, more_ns) = (call_ns.min(reads_ns), call_ns.abs_diff(reads_ns));
                // Of 2^32 draws so many: the share of all, or as many as take that share of the time.
                let most = u64::from(u32::MAX / CONTRARY);
                let contrary = u64::from(draw) < most.min(most * fast_ns / more_ns.max(1));
                Way { calls: (call_ns < reads_ns) != contrary, contrary }
            }
        }
    }

    /// An operation that took this way, from a node of `level` on, has waited `ns` for requests.
    pub fn note(&self, class: Class, level: u8, calls: bool, ns: u64) {
        let averages = if calls { &self.by_call } else { &self.by_reads };
        if let Some(average) = of(averages, class, level) {
            average.add(u32::try_from(ns).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: u32 = u32::MAX / 2;

    #[test]
    fn operations_take_the_way_that_was_faster_and_now_and_then_the_other() {
        let choice = Choice::default();
        let way = |draw| choice.way(Class::Get, 1, draw);
        assert_eq!(way(MIDDLE), Way { calls: false, contrary: false }, "never, at first");
        choice.set_mode(Mode::ByCost);
        assert!(!way(MIDDLE).calls, "READs are measured first");
        choice.note(Class::Get, 1, false, 4_000);
        assert!(way(MIDDLE).calls, "then calls");
        choice.note(Class::Get, 1, true, 3_000);
        assert_eq!(way(MIDDLE), Way { calls: true, contrary: false });
        assert_eq!(way(0), Way { calls: false, contrary: true });
        for _ in 0..64 {
            choice.note(Class::Get, 1, true, 9_000);
        }
        assert_eq!(way(MIDDLE), Way { calls: false, contrary: false }, "calls wait for a processor by now");
        assert_eq!(way(0), Way { calls: true, contrary: true });
        for _ in 0..64 {
            choice.note(Class::Get, 1, true, 100);
        }
        assert!(way(MIDDLE).calls);
        // Calls take 90 times as long by now: far fewer than one of 64 gets calls.
        for _ in 0..64 {
            choice.note(Class::Get, 1, true, 400_000);
            choice.note(Class::Get, 1, false, 4_000);
        }
        let contrary = |share: u32| way(u32::MAX / share).contrary;
        assert!(way(0).contrary && contrary(64 * 120) && !contrary(64 * 80));
        choice.set_mode(Mode::Always);
        assert!(way(0).calls);
        assert!(!choice.way(Class::Get, LEVELS as u8, MIDDLE).calls, "too far up");
        choice.note(Class::Get, LEVELS as u8, true, 1);
        choice.note(Class::Get, 1, true, u64::MAX);
        choice.set_mode(Mode::ByCost);
        assert!(!choice.way(Class::Change, 1, MIDDLE).calls, "changes have no samples yet");
    }

    #[test]
    fn an_average_follows_its_samples_and_does_not_overflow() {
        let average = Average::default();
        assert_eq!(average.get(), 0);
        average.add(0);
        assert_eq!(average.get(), 1);
        for ns in [1_000, u32::MAX, 5] {
            for _ in 0..500 {
                average.add(ns);
            }
            let most = ns.min(u32::MAX >> (DECAY_BITS + 1));
            assert!(average.get() <= most && average.get() + most / 64 + 1 >= most, "{} of {most}", average.get());
        }
    }
}
