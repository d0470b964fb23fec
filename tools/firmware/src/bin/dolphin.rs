//! The image with a Dolphin index.
#![no_std]
#![no_main]

use core::array;
use core::sync::atomic::AtomicU32;
use dm_core::btree::Options;
use dm_core::compute::batches::Batches;
use dm_core::dolphin::entries::{Entries, Entry};
use dm_core::dolphin::parameters::Parameters;
use dm_core::dolphin::spear::Seat;
use dm_core::dolphin::{Dolphin, Parts};
use dm_core::memory::chunks::RequestIds;
use dm_core::radix::cache::NodeCache;
use dm_core::radix::space::{Arena, Space};
use dm_core::registry::KindParameters as _;
use dm_core::remote::place::NodeClass;
use firmware::memory::CAPABILITIES;
use firmware::pool::Place;
use firmware::{LANES, LEAVES_AT_ONCE, PAGE_RECORDS, run};
use spin::{Mutex, MutexGuard, Once};

const PARAMETERS: Parameters = Parameters::with_sizes(8, 8);
/// What [`Parameters::plan`] says, which `run` compares.
const SCRATCH_BYTES: usize = 17472;

/// Local entries by which lanes share the compute node's seat in a leaf.
const LEAF_ENTRIES: usize = 64;

/// Words of the index cache.
const CACHE_WORDS: usize = 2048;

static SCRATCHES: Mutex<[[u8; SCRATCH_BYTES]; LANES]> = Mutex::new([[0; SCRATCH_BYTES]; LANES]);
static CACHE: [AtomicU32; CACHE_WORDS] = [const { AtomicU32::new(0) }; CACHE_WORDS];
static REQUESTS: RequestIds = RequestIds::new();
static ENTRIES: Once<[Entry; LEAF_ENTRIES]> = Once::new();
static ARENAS: Once<[Mutex<Arena>; NodeClass::COUNT]> = Once::new();

// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    run(&PARAMETERS, MutexGuard::leak(SCRATCHES.lock()), open)
}

fn open(place: &Place) -> Option<Dolphin<'static>> {
    let entries = ENTRIES.call_once(|| array::from_fn(|_| Entry::default()));
    let arenas = ARENAS.call_once(|| array::from_fn(|_| Mutex::new(Arena::default())));
    let parts = Parts {
        number: place.number,
        owner: place.member,
        requests: &REQUESTS,
        geometry: place.geometry,
        capabilities: CAPABILITIES,
        options: Options::default(),
        entries: Entries::new(entries, Seat::of_row(place.member.row).ok()?, None),
        batches: Batches::new(&[], &[], &[]),
        space: Space::new(arenas),
        cache: NodeCache::new(&CACHE),
        // Nobody would fence this compute node: the fabric cannot. What leaves the tree is not reused.
        recovery: None,
        epochs: None,
    };
    Dolphin::new(parts, &PARAMETERS, PARAMETERS.plan(PAGE_RECORDS, LEAVES_AT_ONCE)).ok()
}
