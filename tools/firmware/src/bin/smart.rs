//! The image with a SMART index.
#![no_std]
#![no_main]

use core::array;
use core::sync::atomic::AtomicU32;
use dm_core::btree::Options;
use dm_core::compute::batches::Batches;
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::memory::chunks::RequestIds;
use dm_core::radix::cache::NodeCache;
use dm_core::radix::space::{Arena, Space};
use dm_core::registry::KindParameters as _;
use dm_core::remote::place::NodeClass;
use dm_core::smart::parameters::Parameters;
use dm_core::smart::{Parts, Smart};
use firmware::memory::CAPABILITIES;
use firmware::pool::Place;
use firmware::tree::HAND_OVERS_MAX;
use firmware::{LANES, LEAVES_AT_ONCE, PAGE_RECORDS, run};
use spin::{Mutex, MutexGuard, Once};

const PARAMETERS: Parameters = Parameters::with_sizes(8, 8);
/// What [`Parameters::plan`] says, which `run` compares.
const SCRATCH_BYTES: usize = 12672;

/// Local entries for the locks in leaves.
const LEAF_LOCKS: usize = 64;

/// Words of the index cache.
const CACHE_WORDS: usize = 2048;

static SCRATCHES: Mutex<[[u8; SCRATCH_BYTES]; LANES]> = Mutex::new([[0; SCRATCH_BYTES]; LANES]);
static CACHE: [AtomicU32; CACHE_WORDS] = [const { AtomicU32::new(0) }; CACHE_WORDS];
static REQUESTS: RequestIds = RequestIds::new();
static ENTRIES: Once<[Entry; LEAF_LOCKS]> = Once::new();
static WAITERS: Once<[Waiter; LANES]> = Once::new();
static ARENAS: Once<[Mutex<Arena>; NodeClass::COUNT]> = Once::new();

// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    run(&PARAMETERS, MutexGuard::leak(SCRATCHES.lock()), open)
}

fn open(place: &Place) -> Option<Smart<'static>> {
    let entries = ENTRIES.call_once(|| array::from_fn(|_| Entry::default()));
    let waiters = WAITERS.call_once(|| array::from_fn(|_| Waiter::default()));
    let arenas = ARENAS.call_once(|| array::from_fn(|_| Mutex::new(Arena::default())));
    let parts = Parts {
        number: place.number,
        owner: place.member,
        requests: &REQUESTS,
        geometry: place.geometry,
        capabilities: CAPABILITIES,
        options: Options::default(),
        locks: LockTable::new(entries, LEAF_LOCKS as u32, waiters, HAND_OVERS_MAX),
        locks_per_node: LEAF_LOCKS as u32,
        batches: Batches::new(&[], &[], &[]),
        space: Space::new(arenas),
        cache: NodeCache::new(&CACHE),
        // Nobody would fence this compute node: the fabric cannot. What leaves the tree is not reused.
        recovery: None,
        epochs: None,
    };
    Smart::new(parts, &PARAMETERS, PARAMETERS.plan(PAGE_RECORDS, LEAVES_AT_ONCE)).ok()
}
