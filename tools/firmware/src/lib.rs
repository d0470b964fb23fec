//! dm-core on bare metal: what the images have in common.
//!
//! An image has one index. It starts without an operating system, formats a static region as a pool of one memory
//! node, joins it as a compute node, creates its index, and runs four lanes of operations at once, each polled through
//! [`Machine`]. The [`driver`] executes what the lanes ask for. The [`model`] knows what each operation has to answer.
//! The report goes to the UART, and the verdict is the exit code.
//!
//! ```text
//!  boot/*.s ─► start (bin/*.rs) ─► run ─┬─ pool:      format, join, create the index
//!   stack, FPU, MMU                     ├─ workload:  four lanes at once, then one that looks at everything
//!   zeroes, paint                       └─ report:    what it did, and what it took
//! ```
//!
//! - `board`: a UART, a clock, and an exit, one file per board. `boot`: the first instructions. `link`: the memory.
//! - [`driver`]: memory nodes are an array, and the lanes wait for each other by a flag each.
//! - `c_face`, `c`: the same driver in C, freestanding, in images with the feature `c-driver`. It also misuses the core.
//! - [`tree`]: the memory that a B+-tree borrows. What radix trees borrow is in `bin/smart.rs` and `bin/dolphin.rs`, and what
//!   DEX borrows besides is in `bin/dex.rs`. There the memory node's processor answers calls, too.
#![no_std]

#[cfg_attr(target_arch = "aarch64", path = "board/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "board/riscv64.rs")]
#[cfg_attr(target_arch = "arm", path = "board/thumbv7em.rs")]
pub mod board;
#[cfg(feature = "c-driver")]
pub mod c_face;
pub mod console;
pub mod driver;
pub mod memory;
pub mod model;
pub mod pool;
pub mod sizes;
pub mod tree;
pub mod workload;

use crate::driver::Driver;
use crate::pool::Place;
use core::panic::PanicInfo;
use core::pin::pin;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::machine::Machine;
use dm_core::operation::{Operation, OperationKind};
use dm_core::registry::KindParameters;
use dm_core::rooms;
use dm_core::verbs::LaneId;

/// Lanes: operations in flight.
pub const LANES: usize = 4;

/// Most records of a scan's page.
pub const PAGE_RECORDS: usize = 16;

/// Leaves that a scan READs at once.
pub const LEAVES_AT_ONCE: usize = 2;

/// What was not as it should be.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    /// What.
    pub what: &'static str,
    /// The number of the key, if it was about one.
    pub record: u32,
}

impl Wrong {
    /// Something that is not about a key.
    pub const fn of(what: &'static str) -> Self {
        Self { what, record: u32::MAX }
    }
}

/// What an image does. `open` puts the index together, in the pool that was made.
pub fn run<P: KindParameters, I: Index, const SCRATCH: usize>(
    parameters: &P,
    scratches: &'static mut [[u8; SCRATCH]; LANES],
    open: impl FnOnce(&Place) -> Option<I>,
) -> ! {
    let kind = P::KIND.name();
    say!(board::NAME, " ", kind, "\n");
    let code = match run_all(parameters, scratches, open) {
        Ok(()) => {
            say!("ok\n");
            0
        }
        Err(wrong) => {
            say!("WRONG: ", wrong.what, ", record ", wrong.record, "\n");
            1
        }
    };
    board::exit(code)
}

fn run_all<P: KindParameters, I: Index, const SCRATCH: usize>(
    parameters: &P,
    scratches: &'static mut [[u8; SCRATCH]; LANES],
    open: impl FnOnce(&Place) -> Option<I>,
) -> Result<(), Wrong> {
    let scratch_bytes = parameters.plan(PAGE_RECORDS, LEAVES_AT_ONCE).0.total_bytes;
    if SCRATCH < scratch_bytes {
        say!("a lane needs ", scratch_bytes, " bytes of scratch\n");
        return Err(Wrong::of("too little scratch"));
    }
    let [a, b, c, d] = scratches;
    let lanes = [Lane::new(LaneId(0), a), Lane::new(LaneId(1), b), Lane::new(LaneId(2), c), Lane::new(LaneId(3), d)];
    let mut driver = Driver::new(memory::region());
    pool::format(&mut driver)?;
    let place = join(&mut driver, &lanes[0], parameters)?;
    let index = open(&place).ok_or(Wrong::of("parameters out of range"))?;
    work(&mut driver, &lanes, &index)?;
    let records = look_at_everything(&mut driver, &lanes[0], &index)?;
    let future_bytes = size_of_val(&index.execute(&lanes[0], Operation::point(OperationKind::Get)));
    if driver.misuses > 0 {
        say!(driver.misuses, " calls of the driver were misuses, or such calls were not refused\n");
        return Err(Wrong::of("the driver and the core differ"));
    }
    if cfg!(feature = "c-driver") {
        say!("driven from C\n");
    }
    say!("records ", records, ", lanes ", LANES, "\n");
    say!("round trips ", driver.round_trips, ", requests ", driver.requests, ", waits ", driver.waits, "\n");
    if memory::answers_calls() {
        say!("calls that the memory node answered ", driver.calls, "\n");
        if driver.calls == 0 {
            return Err(Wrong::of("the index made no calls"));
        }
    }
    for mark in rooms::MARKS {
        let count: u32 = lanes.iter().map(|lane| lane.marked(*mark)).sum();
        if count > 0 {
            say!("  ", mark.name(), " ", count, "\n");
        }
    }
    let lane_bytes = size_of::<Lane<'_>>() + scratch_bytes + future_bytes;
    say!("a lane: ", size_of::<Lane<'_>>(), " + scratch ", scratch_bytes, " + future ", future_bytes, " bytes\n");
    sizes::report(lane_bytes)
}

// The next three are functions of their own, so that the stack has only one's futures at a time.

#[inline(never)]
fn join<P: KindParameters>(driver: &mut Driver, lane: &Lane<'_>, parameters: &P) -> Result<Place, Wrong> {
    let joining = pin!(pool::join(lane, parameters));
    driver.run_one(Machine::new(lane.port(), joining))
}

#[inline(never)]
fn work<I: Index>(driver: &mut Driver, lanes: &[Lane<'_>; LANES], index: &I) -> Result<(), Wrong> {
    let [a, b, c, d] = lanes;
    driver.run(&mut [
        Machine::new(a.port(), pin!(workload::work(index, a))),
        Machine::new(b.port(), pin!(workload::work(index, b))),
        Machine::new(c.port(), pin!(workload::work(index, c))),
        Machine::new(d.port(), pin!(workload::work(index, d))),
    ])
}

#[inline(never)]
fn look_at_everything<I: Index>(driver: &mut Driver, lane: &Lane<'_>, index: &I) -> Result<u32, Wrong> {
    let look = pin!(workload::look_at_everything(index, lane));
    driver.run_one(Machine::new(lane.port(), look))
}

/// The processor met something that it cannot execute.
// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    say!("FAULT\n");
    board::exit(3)
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    // Without the message: formatting is larger than an index.
    if let Some(location) = info.location() {
        say!("PANIC in ", location.file(), " at line ", location.line(), "\n");
    }
    board::exit(2)
}
