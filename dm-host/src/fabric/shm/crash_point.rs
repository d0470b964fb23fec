//! A crash point for tests: kills the process in the middle of a WRITE. A kill from outside hits that moment too
//! rarely.

use dm_core::layout::LINE_BYTES;
use rustix::process::{Signal, getpid, kill_process};
use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;

/// Decides in which WRITE a fabric's process dies.
#[derive(Debug)]
pub(super) struct CrashPoint {
    one_in: NonZeroU32,
    random: Cell<u64>,
}

impl CrashPoint {
    /// Dies in one of `one_in` WRITEs that span lines.
    pub(super) fn new(one_in: NonZeroU32) -> Self {
        Self { one_in, random: Cell::new(RandomState::new().hash_one(std::process::id()) | 1) }
    }

    /// How many bytes of a WRITE at `offset` land before the process dies: whole lines, not all of them. `None`: it
    /// does not die.
    #[inline]
    pub(super) fn cut(&self, offset: u64, bytes: usize) -> Option<usize> {
        let first = LINE_BYTES - offset as usize % LINE_BYTES;
        if bytes <= first {
            return None;
        }
        // Steps of Marsaglia's xorshift64.
        let mut word = self.random.get();
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random.set(word);
        if !(word >> 32).is_multiple_of(u64::from(self.one_in.get())) {
            return None;
        }
        let lines_after_first = (bytes - first).div_ceil(LINE_BYTES);
        Some(first + (word as u32 as usize % lines_after_first) * LINE_BYTES)
    }

    /// Dies by SIGKILL, as if another process had killed it.
    pub(super) fn die() -> ! {
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal takes the process as soon as it leaves the kernel.
        loop {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_at_a_line_and_leaves_a_rest() {
        let crash_point = CrashPoint::new(NonZeroU32::MIN);
        for _ in 0..1000 {
            for (offset, bytes) in [(0, 65), (60, 5), (8, 120), (0, 1024), (32, 64)] {
                let cut = crash_point.cut(offset, bytes).unwrap();
                assert!(cut > 0 && cut < bytes && (offset as usize + cut).is_multiple_of(LINE_BYTES));
            }
            assert_eq!(crash_point.cut(0, 64), None, "a line lands whole or not at all");
            assert_eq!(crash_point.cut(8, 16), None);
        }
    }
}
