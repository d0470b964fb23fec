//! Probes whether aligned 64-byte vector moves tear on this machine, which no vendor rules out.
//!
//! Two threads share a line. One stores, in turn, a whole line, a part of up to 32 bytes, and a larger part; both parts
//! lie across the middle. These are the three kinds of store there are. The other thread loads the line and looks for
//! an image that none of these stores leaves. Seeing none proves nothing: that is why LINE_ATOMIC is *asserted* in
//! [`LineMode::Vector`], not granted by construction. Seeing one refutes the profile: some processors execute a 64-byte
//! store as two of 32 bytes (AMD Zen 4).

use crate::region::LineMode;
use crate::region::lines::{Area, WriterSlot, vector_supported};
use dm_core::layout::LINE_BYTES;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a probe runs if the two threads meet often enough in that time.
pub const PROBE: Duration = Duration::from_millis(20);

/// How long a probe runs at most, on a busy machine where the threads hardly run at once.
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
    /// Whether the threads met often enough for a verdict.
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

/// Which line mode this machine allows, and on what grounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The mode to use.
    pub mode: LineMode,
    /// The probe of the vector instructions, if the machine has them.
    pub litmus: Option<Litmus>,
}

impl Verdict {
    /// The best mode for this machine. Vector moves are used only on processors that are known not to tear them - Intel
    /// - and only if the probe agrees.
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
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
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

/// The images of the line in one turn of the probe's writer.
struct Image {
    /// After the WRITE of the whole line.
    whole: [u8; LINE_BYTES],
    /// After the WRITE of bytes 16..48.
    narrow: [u8; LINE_BYTES],
    /// After the WRITE of bytes 5..60: odd and even ends, as entries of nodes have.
    wide: [u8; LINE_BYTES],
}

impl Image {
    fn of(turn: u32) -> Self {
        Self::new(turn.wrapping_mul(0x9E37_79B9).to_le_bytes())
    }

    /// The turn in which the first four bytes are those of `line`; the partial WRITEs leave these alone.
    fn around(line: &[u8; LINE_BYTES]) -> Self {
        Self::new([line[0], line[1], line[2], line[3]])
    }

    fn new(word: [u8; 4]) -> Self {
        let whole = std::array::from_fn(|at| word[at % 4]);
        let mut narrow = whole;
        narrow[16..48].fill(!word[0]);
        let mut wide = narrow;
        wide[5..60].fill(word[0] ^ 0x55);
        Self { whole, narrow, wide }
    }

    fn contains(&self, line: &[u8; LINE_BYTES]) -> bool {
        [&self.whole, &self.narrow, &self.wide].contains(&line)
    }
}

// An area is a pointer to shared memory made for concurrent access. The threads of a probe share one.
struct Shared<'r>(Area<'r>);
// SAFETY: every method of `Area` may be called by any number of threads at once: that is its purpose.
unsafe impl Sync for Shared<'_> {}

/// Writes and reads the first line of `area` at the same time, for as long as `more` returns true.
pub(crate) fn run(area: Area<'_>, writer: WriterSlot, more: &dyn Fn(&Litmus) -> bool) -> Litmus {
    let area = &Shared(area);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut turn = 0u32;
            while !stop.load(Ordering::Relaxed) {
                turn = turn.wrapping_add(1);
                let image = Image::of(turn);
                let _ = area.0.write(writer, 0, &image.whole);
                let _ = area.0.write(writer, 16, &image.narrow[16..48]);
                let _ = area.0.write(writer, 5, &image.wide[5..60]);
            }
        });
        let mut litmus = Litmus::default();
        let mut last = [0; LINE_BYTES];
        while litmus.reads % 256 != 0 || more(&litmus) {
            let mut line = [0; LINE_BYTES];
            if area.0.read(0, &mut line).is_err() {
                break;
            }
            litmus.reads += 1;
            if line != last {
                litmus.changes += 1;
                last = line;
                // An all-zero line is the line before the first WRITE.
                litmus.torn += u64::from(line != [0; LINE_BYTES] && !Image::around(&line).contains(&line));
            }
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
        run(region.area(Space::Host), writer, &|litmus| litmus.changes < 50_000 && litmus.reads < 20_000_000)
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
        // The judge must be able to find a torn line: half a line at a time is the worst case.
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
            let torn = (0..200_000_000).any(|_| {
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
