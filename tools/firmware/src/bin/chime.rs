//! The image with a CHIME index.
#![no_std]
#![no_main]

use core::array;
use dm_core::chime::parameters::Parameters;
use dm_core::chime::{Chime, LeafLocks};
use dm_core::compute::words::{self, WordTable};
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::registry::KindParameters as _;
use firmware::pool::Place;
use firmware::tree::{HAND_OVERS_MAX, Sizes, tree};
use firmware::{LANES, LEAVES_AT_ONCE, PAGE_RECORDS, run};
use spin::{Mutex, MutexGuard, Once};

const PARAMETERS: Parameters =
    Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 16, neighborhood: 8, inner_span: 16 };
/// What [`Parameters::plan`] says, which `run` compares.
const SCRATCH_BYTES: usize = 6336;

/// Local entries for the locks in leaves.
const LEAF_LOCKS: usize = 64;

static SCRATCHES: Mutex<[[u8; SCRATCH_BYTES]; LANES]> = Mutex::new([[0; SCRATCH_BYTES]; LANES]);
static ENTRIES: Once<[Entry; LEAF_LOCKS]> = Once::new();
static WAITERS: Once<[Waiter; LANES]> = Once::new();
static WORDS: Once<[words::RememberedWord; LEAF_LOCKS]> = Once::new();

// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    run(&PARAMETERS, MutexGuard::leak(SCRATCHES.lock()), open)
}

fn open(place: &Place) -> Option<Chime<'static>> {
    let entries = ENTRIES.call_once(|| array::from_fn(|_| Entry::default()));
    let waiters = WAITERS.call_once(|| array::from_fn(|_| Waiter::default()));
    let words = WORDS.call_once(|| array::from_fn(|_| words::RememberedWord::default()));
    let locks = LeafLocks {
        table: LockTable::new(entries, LEAF_LOCKS as u32, waiters, HAND_OVERS_MAX),
        locks_per_node: LEAF_LOCKS as u32,
        words: WordTable::new(words),
    };
    let (plan, scratch) = PARAMETERS.plan(PAGE_RECORDS, LEAVES_AT_ONCE);
    let sizes = Sizes {
        key_bytes: PARAMETERS.key_bytes,
        inner: PARAMETERS.inner(),
        leaf_bytes: PARAMETERS.leaf().bytes,
        leaf_place_bytes: PARAMETERS.leaf().place_bytes(),
        keeps_next: true,
        scratch,
    };
    Chime::new(tree(place, sizes)?, locks, &PARAMETERS, plan).ok()
}
