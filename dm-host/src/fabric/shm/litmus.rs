//! Probing what nobody promises: whether aligned 64-byte vector moves tear on this machine.
//!
//! Two threads share a line. One stores images whose eight words are equal, whole ones and masked ones in turn; the
//! other loads it and looks for unequal words. Not seeing any proves nothing: it is why LINE_ATOMIC is *asserted* in
//! [`LineMode::Vector`], not granted by construction. Seeing one refutes the profile: some processors execute a
//! 64-byte store as two of 32 bytes (AMD Zen 4).

use super::lines::{Area, WriterSlot, vector_supported};
use crate::region::LineMode;
use dm_core::remote::address::LINE_BYTES;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a probe runs, if the two threads meet often enough in that time.
pub const PROBE: Duration = Duration::from_millis(20);

/// How long it goes on at most, on a busy machine where they hardly run at once.
pub const PROBE_MAX: Duration = Duration::from_millis(200);

/// What a probe saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Litmus {
    /// Lines loaded.
    pub reads: u64,
    /// Loads that saw another image than the load before.
    pub changes: u64,
    /// Loads whose words were of more than one image.
    pub torn: u64,
}

impl Litmus {
    /// Whether the threads met often enough to say anything.
    pub fn is_conclusive(&self) -> bool {
        self.changes >= 1000
    }
}

impl std::fmt::Display for Litmus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reads, changes, torn } = self;
        let doubt = if self.is_conclusive() { "" } else { ", too few to tell" };
        write!(f, "{torn} torn of {reads} line READs that saw {changes} WRITEs{doubt}")
    }
}

/// Which way of keeping lines whole this machine allows, and on what grounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The mode to use.
    pub mode: LineMode,
    /// The probe of the vector instructions, if the machine has them.
    pub litmus: Option<Litmus>,
}

impl Verdict {
    /// The best mode for this machine. Vector moves are trusted only where they are known for not tearing - Intel -
    /// and only if the probe agrees.
    pub fn of_this_machine() -> Self {
        if !vector_supported() {
            return Self { mode: LineMode::Sequence, litmus: None };
        }
        let litmus = probe();
        let mode = if litmus.torn == 0 && is_intel() { LineMode::Vector } else { LineMode::Sequence };
        Self { mode, litmus: Some(litmus) }
    }
}

fn is_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        return [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel";
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Probes vector moves, once per process.
pub fn probe() -> Litmus {
    static LITMUS: OnceLock<Litmus> = OnceLock::new();
    *LITMUS.get_or_init(|| {
        let line = Line::default();
        let began = Instant::now();
        run(line.area(), WriterSlot::FORMATTER, &|litmus| {
            let elapsed = began.elapsed();
            elapsed < PROBE || (!litmus.is_conclusive() && elapsed < PROBE_MAX)
        })
    })
}

/// A private line for the probe.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_BYTES / 8]);

impl Line {
    fn area(&self) -> Area<'_> {
        // SAFETY: 64 aligned bytes of atomics, borrowed as long as the area lives and used through it only.
        unsafe { Area::new(self.0.as_ptr().cast_mut().cast(), LINE_BYTES as u64, None) }
    }
}

// An area is a pointer to shared memory made for concurrent access; the threads of a probe share one.
struct Shared<'r>(Area<'r>);
// SAFETY: every method of `Area` may be called by any number of threads at once: that is its purpose.
unsafe impl Sync for Shared<'_> {}

/// Writes and reads the first line of `area` at once while `more` says so.
pub(crate) fn run(area: Area<'_>, writer: WriterSlot, more: &dyn Fn(&Litmus) -> bool) -> Litmus {
    let area = &Shared(area);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut turn = 0u64;
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                let image: [u8; LINE_BYTES] = std::array::from_fn(|at| (turn >> (at % 8 * 8)) as u8);
                let _ = area.0.write(writer, 0, &image);
                // A masked store that straddles the middle, then the bytes it left out: in between the line has two
                // images side by side, which the reader knows to tell from tearing.
                let part: [u8; 32] = [!(turn as u8); 32];
                let _ = area.0.write(writer, 16, &part);
            }
        });
        let mut litmus = Litmus::default();
        let mut last = [0; 8];
        while litmus.reads % 256 != 0 || more(&litmus) {
            let mut line = [0; LINE_BYTES];
            if area.0.read(0, &mut line).is_err() {
                break;
            }
            let (frame, part) = ([&line[..16], &line[48..]].concat(), &line[16..48]);
            let turn: [u8; 8] = [line[0], line[1], line[2], line[3], line[4], line[5], line[6], line[7]];
            let whole = frame.chunks(8).all(|word| word == turn);
            let same = part.chunks(8).all(|word| word == turn);
            let flipped = part.iter().all(|byte| *byte == !turn[0]);
            litmus.reads += 1;
            litmus.changes += u64::from(turn != last);
            litmus.torn += u64::from(!(whole && (same || flipped)));
            last = turn;
        }
        stop.store(true, Ordering::Relaxed);
        litmus
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Backing, Region, RegionSpec};
    use dm_core::verbs::Space;

    fn run_on_region(mode: LineMode) -> Litmus {
        let spec = RegionSpec { region_bytes: 1 << 20, device_bytes: 0, mode, backing: Backing::Memfd };
        let region = Region::create(&spec).unwrap();
        let writer = region.claim_writer(1).unwrap();
        run(region.area(Space::Host), writer, &|litmus| litmus.reads < 300_000)
    }

    #[test]
    fn lines_with_sequence_words_do_not_tear() {
        let litmus = run_on_region(LineMode::Sequence);
        assert_eq!(litmus.torn, 0, "{litmus}");
    }

    #[test]
    fn lines_moved_by_vectors_do_not_tear_where_the_profile_says_so() {
        if Verdict::of_this_machine().mode != LineMode::Vector {
            eprintln!("skipped: this machine does not have the profile {}", LineMode::Vector.profile());
            return;
        }
        let litmus = run_on_region(LineMode::Vector);
        assert_eq!(litmus.torn, 0, "{litmus}");
    }

    #[test]
    fn the_probe_sees_lines_tear_that_are_moved_in_words() {
        // The judge must be able to convict: half a line at a time is the worst case.
        let line = Line::default();
        let area = Shared(line.area());
        let stop = AtomicBool::new(false);
        let torn = std::thread::scope(|scope| {
            let (area, stop) = (&area, &stop);
            scope.spawn(move || {
                let mut turn = 0u8;
                while !stop.load(Ordering::Relaxed) {
                    turn = turn.wrapping_add(1);
                    let _ = area.0.write(WriterSlot::FORMATTER, 0, &[turn; 32]);
                    let _ = area.0.write(WriterSlot::FORMATTER, 32, &[turn; 32]);
                }
            });
            let torn = (0..5_000_000).any(|_| {
                let mut line = [0; LINE_BYTES];
                let _ = area.0.read(0, &mut line);
                line[0] != line[63]
            });
            stop.store(true, Ordering::Relaxed);
            torn
        });
        assert!(torn);
    }
}
