//! Timestamps cheap enough to take twice per post.
//!
//! On x86_64 with an invariant time-stamp counter, the clock is `rdtsc` before the timed code and `rdtscp` after it.
//! Elsewhere it is the system's monotonic clock. Leases have a clock of their own: [`lease_us`].
//!
//! **Why no fence is needed to bound the exposure of a READ to WRITEs.** `rdtscp` waits until all earlier loads have
//! their values (Intel SDM vol. 2B, AMD APM vol. 3), so the later stamp is never early. Loads behind the plain `rdtsc`
//! may begin before it. But x86 keeps loads in program order as far as any program can tell: if another processor
//! changes a load's line before all older instructions have retired, the processor executes the load again. So a load
//! returns what the line held when the load retired. That is after `rdtsc` retired, which is after `rdtsc` took its
//! stamp. Both errors make the READ look longer, never shorter.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Microseconds since this machine was booted: the clock of leases, for keepers and for lanes
/// ([`dm_core::port::Clock`]). It goes on while the machine is suspended, which others do not wait for.
///
/// A hypervisor that stops a virtual machine may stop this clock with it. Then a lease looks younger than it is, until the
/// next heartbeat finds the row fenced.
pub fn lease_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000
}

/// A point in time, in ticks of the [`Clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

/// Source of timestamps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
    counter: bool,
    /// The origin of stamps on machines where they are not ticks of the counter.
    origin: Instant,
}

/// How long the counter is compared with the system's clock. An error of 100 ns in each reading is 20 ppm.
const CALIBRATION: Duration = Duration::from_millis(10);

impl Clock {
    /// The clock of this process, calibrated once.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrate)
    }

    fn calibrate() -> Self {
        let origin = Instant::now();
        if !counter::is_invariant() {
            return Self { scale: 1 << 32, counter: false, origin };
        }
        let first = counter::before();
        std::thread::sleep(CALIBRATION);
        let elapsed_ns = origin.elapsed().as_nanos();
        let ticks = u128::from(counter::after().saturating_sub(first)).max(1);
        Self { scale: ((elapsed_ns << 32) / ticks) as u64, counter: true, origin }
    }

    /// A stamp that no later instruction of the program precedes.
    #[inline]
    pub fn before(self) -> Stamp {
        if self.counter { Stamp(counter::before()) } else { Stamp(self.origin.elapsed().as_nanos() as u64) }
    }

    /// A stamp that no earlier instruction of the program follows.
    #[inline]
    pub fn after(self) -> Stamp {
        if self.counter { Stamp(counter::after()) } else { self.before() }
    }

    /// Nanoseconds from `first` to `second`; 0 if `second` is before `first` (a stamp of another socket's counter).
    #[inline]
    pub fn ns_between(self, first: Stamp, second: Stamp) -> u64 {
        let ticks = second.0.saturating_sub(first.0);
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, __rdtscp, _rdtsc};

    /// Whether the counter ticks evenly in every power state (CPUID 8000_0007h EDX bit 8).
    pub(super) fn is_invariant() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    #[inline]
    pub(super) fn before() -> u64 {
        // SAFETY: every x86_64 processor has RDTSC.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn after() -> u64 {
        let mut processor = 0;
        // SAFETY: every x86_64 processor with an invariant counter has RDTSCP; `processor` is ours to write.
        unsafe { __rdtscp(&raw mut processor) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn is_invariant() -> bool {
        false
    }

    pub(super) fn before() -> u64 {
        0
    }

    pub(super) fn after() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_is_a_millisecond() {
        let clock = Clock::get();
        // Several tries, since the two clocks are not read at one instant, least of all on a busy machine.
        let differences: Vec<(u64, u64)> = (0..20)
            .map(|_| {
                let (first, instant) = (clock.before(), Instant::now());
                std::thread::sleep(Duration::from_millis(1));
                (clock.ns_between(first, clock.after()), instant.elapsed().as_nanos() as u64)
            })
            .collect();
        assert!(differences.iter().any(|(ours, theirs)| ours.abs_diff(*theirs) < theirs / 50), "{differences:?}");
        let first = clock.before();
        assert_eq!(clock.ns_between(clock.after(), first), 0);
    }
}
