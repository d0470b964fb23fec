//! The image with a DEX index, whose memory node answers calls.
//!
//! This is what a memory node's processor without an operating system does for DEX: [`Walk`] says which bytes of the region it
//! wants, and [`serve`] moves them. So gets, scans and changes of leaves that are not cached are calls here.
#![no_std]
#![no_main]

use core::array;
use core::sync::atomic::{AtomicU8, AtomicU32};
use dm_core::dex::log::staging::{Log, STAGING_LINES_MIN, mark_words};
use dm_core::dex::offload::{Mode, Moved, NODE_AT, Next, Walk};
use dm_core::dex::ownership::partition::EntryCell;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::dex::serve::{Dex, OwnersRoom, Parts};
use dm_core::layout::LINE_BYTES;
use dm_core::pages::{Admission, Cooling, PageStore, Shape};
use dm_core::registry::KindParameters as _;
use dm_core::remote::HOME;
use firmware::model::{RECORDS, key};
use firmware::pool::Place;
use firmware::tree::{Sizes, tree};
use firmware::{LANES, LEAVES_AT_ONCE, PAGE_RECORDS, memory, run};
use spin::{Mutex, MutexGuard, Once};

/// Ranges of keys: this compute node owns all of them.
const ENTRIES: usize = 4;

const PARAMETERS: Parameters = Parameters {
    key_bytes: 8,
    value_bytes: 8,
    leaf_span: 16,
    inner_span: 16,
    entries: ENTRIES as u32,
    spare: 0,
    cut: Cut::Even { first: 0, last: u64::from_be_bytes(key(RECORDS)) },
};
/// What [`Parameters::plan`] says, which `run` compares.
const SCRATCH_BYTES: usize = 9664;

/// Leaves that are cached: fewer than there are.
const FRAMES: usize = 16;
const PAGES: Shape = Shape {
    page_bytes: PARAMETERS.leaf().bytes,
    lanes: LANES as u16,
    fills_per_lane: LEAVES_AT_ONCE as u16,
    cooling: Cooling::OneFifo,
    admission: Admission::per_10_000(3_000),
};

/// Lines of the log in the pool, and those that are staged here.
const RING_LINES: u64 = 512;
const STAGED_LINES: usize = 2 * STAGING_LINES_MIN;

/// Bytes of the largest node, and of what is in front of it.
const ROOM_BYTES: usize = 2048;

static SCRATCHES: Mutex<[[u8; SCRATCH_BYTES]; LANES]> = Mutex::new([[0; SCRATCH_BYTES]; LANES]);
static FRAME_WORDS: [AtomicU32; PAGES.words_for(FRAMES)] = [const { AtomicU32::new(0) }; PAGES.words_for(FRAMES)];
static STAGING: [AtomicU32; STAGED_LINES * LINE_BYTES / 4] =
    [const { AtomicU32::new(0) }; STAGED_LINES * LINE_BYTES / 4];
static MARKS: [AtomicU32; mark_words(LANES)] = [const { AtomicU32::new(0) }; mark_words(LANES)];
static LEVELS: [AtomicU8; LANES] = [const { AtomicU8::new(0) }; LANES];
static BOUNDARIES: [AtomicU32; 2 * ENTRIES] = [const { AtomicU32::new(0) }; 2 * ENTRIES];
static ORDER: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];
static CELLS: Once<[EntryCell; ENTRIES]> = Once::new();

// SAFETY: nothing else in an image has this name, and `boot` calls it so.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    memory::answer_calls(serve);
    run(&PARAMETERS, MutexGuard::leak(SCRATCHES.lock()), open)
}

fn open(place: &Place) -> Option<Dex<'static>> {
    let (plan, scratch) = PARAMETERS.plan(PAGE_RECORDS, LEAVES_AT_ONCE);
    let leaf_bytes = PARAMETERS.leaf().bytes;
    let sizes = Sizes {
        key_bytes: PARAMETERS.key_bytes,
        inner: PARAMETERS.inner(),
        leaf_bytes,
        leaf_place_bytes: leaf_bytes,
        keeps_next: false,
        scratch: scratch.tree.clone(),
    };
    let cells = CELLS.call_once(|| array::from_fn(|_| EntryCell::default()));
    let parts = Parts {
        tree: tree(place, sizes)?,
        store: PageStore::new(&FRAME_WORDS, PAGES).ok()?,
        owners: OwnersRoom { boundaries: &BOUNDARIES, order: &ORDER, cells },
        log: Log::new(RING_LINES, &STAGING, &MARKS, LANES).ok()?,
        ring_lines: RING_LINES,
        // Nobody fences this compute node, so what it owns stays its own.
        may_answer: &|_| true,
        levels: &LEVELS,
    };
    let index = Dex::new(parts, &PARAMETERS, plan, scratch).ok()?;
    index.set_offload(Mode::Always);
    Some(index)
}

/// What the memory node's processor does for a request, which is in the first bytes of `message`. The answer takes its place.
fn serve(region: &mut [u8], message: &mut [u8], request_bytes: usize) -> usize {
    let mut room = [0; ROOM_BYTES];
    let mut walk = Walk::new(message.get(..request_bytes).unwrap_or_default(), HOME);
    let mut moved = Moved::Nothing;
    loop {
        let done = match walk.next(moved, &mut room, message) {
            Next::Answer(bytes) => return bytes,
            Next::Copy { offset, bytes } => {
                copy(of(region, offset, bytes), room.get_mut(NODE_AT..NODE_AT.saturating_add(bytes)))
            }
            Next::Write { offset, from } => {
                let bytes = from.len();
                copy(room.get_mut(from), of(region, offset, bytes))
            }
        };
        // Nobody writes meanwhile, so a copy takes no time that counts.
        moved = done.map_or(Moved::Outside, |()| Moved::In(0));
    }
}

/// Bytes of the region.
fn of(region: &mut [u8], offset: u64, bytes: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    region.get_mut(start..start.checked_add(bytes)?)
}

fn copy(from: Option<&mut [u8]>, to: Option<&mut [u8]>) -> Option<()> {
    to?.copy_from_slice(from?);
    Some(())
}
