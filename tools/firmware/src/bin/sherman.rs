//! The image with a Sherman index.
#![no_std]
#![no_main]

use dm_core::registry::KindParameters as _;
use dm_core::sherman::Sherman;
use dm_core::sherman::parameters::Parameters;
use firmware::pool::Place;
use firmware::tree::{Sizes, tree};
use firmware::{LANES, LEAVES_AT_ONCE, PAGE_RECORDS, run};
use spin::{Mutex, MutexGuard};

const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 16, inner_span: 16 };
/// What [`Parameters::plan`] says, which `run` compares.
const SCRATCH_BYTES: usize = 5184;

static SCRATCHES: Mutex<[[u8; SCRATCH_BYTES]; LANES]> = Mutex::new([[0; SCRATCH_BYTES]; LANES]);

// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    run(&PARAMETERS, MutexGuard::leak(SCRATCHES.lock()), open)
}

fn open(place: &Place) -> Option<Sherman<'static>> {
    let (plan, scratch) = PARAMETERS.plan(PAGE_RECORDS, LEAVES_AT_ONCE);
    let sizes = Sizes {
        key_bytes: PARAMETERS.key_bytes,
        inner: PARAMETERS.inner(),
        leaf_bytes: PARAMETERS.leaf().bytes,
        leaf_place_bytes: PARAMETERS.leaf().bytes,
        keeps_next: false,
        scratch,
    };
    Sherman::new(tree(place, sizes)?, &PARAMETERS, plan).ok()
}
