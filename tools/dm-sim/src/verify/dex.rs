//! DEX as a subject: few entries of the ownership table, and page caches in which nearly every operation evicts a leaf.

mod cases;

use super::btree::{memory_walk_of_btree, test_access_of_btree};
use super::crash::Case;
use super::draw::Draw;
use super::items::Below;
use super::memory_walk::{MemoryWalk, TreeNodes};
use super::settings::Profile;
use super::subject::TestAccess;
use super::tree::{TreeCase, TreeKind};
use super::wide::{WideKeys, WideOption, WideOptions};
use crate::rng::Rng;
use dm_core::btree::{Options, Subtrees};
use dm_core::dex::leaf::{Leaf, SPAN_MAX};
use dm_core::dex::log::ring::{RING_CHUNKS, RING_LINES_MIN, Ring};
use dm_core::dex::log::staging::STAGING_LINES_MIN;
use dm_core::dex::offload::Mode;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::dex::serve::Level;
use dm_core::marks::Mark;
use dm_core::mutants::Mutant;
use dm_core::pages::{Admission, Cooling, FRAMES_PER_LANE_MIN, Shape};
use dm_core::registry::KEY_BYTES_MAX;
use dm_host::assembly::Spending;
use dm_host::kinds::Below as OneSize;

/// DEX indexes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dex;

/// Entries of the ownership table for each compute node, at most.
const ENTRIES_PER_NODE_MAX: u64 = 3;

/// Entries may be cut in two so often.
fn spare(wide: WideOptions) -> u32 {
    if wide.has(WideOption::Cuts) { 6 } else { 0 }
}

impl TreeKind for Dex {
    const NAME: &'static str = "dex";
    /// Its places are not collected.
    const ORPHAN_COLLECTION: &'static [Mark] = &[];
    const WRITES_RECORDS_AT_ONCE: bool = true;
    const HAS_SPANS: bool = true;
    const HAS_OWNERS: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("chunks", dm_core::memory::chunks::MARKS),
            ("pages", dm_core::pages::MARKS),
            ("dex", dm_core::dex::MARKS),
        ]
    }

    fn rare_marks() -> &'static [Mark] {
        RARE_MARKS
    }

    fn crash_cases() -> Vec<Case> {
        cases::all()
    }

    /// Those of the log and of ownership; of other rooms those that other kinds do not run, and one that entries of leaves show.
    fn mutants() -> Vec<Mutant> {
        let rooms = [
            &[Mutant::EMPTIED_UNJOINED, Mutant::DELETE_LEAVES_VALUE],
            dm_core::dex::mutants::DECLARED,
            dm_core::pages::mutants::DECLARED,
            dm_core::index::mutants::DECLARED,
        ];
        rooms.concat()
    }

    /// Each needs two things at once, which histories seldom have, and which a unit test arranges: an owner is silent for longer
    /// than its lease, and reads a leaf that it has cached and another one has changed meanwhile; a WRITE of a leaf that is not
    /// admitted is cut off by its queue pair while its operation is dropped; a flush fails after the head has moved, and its
    /// compute node dies; an owner dies in a merge, and a compute node takes its keys whose copy of the parent is older;
    /// a flush is given up or dropped, or a merge dropped, and its compute node dies soon after: one of 60,000 histories each; a
    /// memory node reads a leaf that was changed before the get began, and that is flushed and evicted before its answer comes; a
    /// memory node's processor stops within a copy while the leaf is WRITTEN sixteen times; a change that READs its way while its leaf
    /// is cut off, and a compute node that dies before the leaf is flushed. One took 3,722 histories: a root was split, and has
    /// not grown when its sibling is met on another memory node. And one took some ten thousand: a split is given up after it has
    /// landed, and a get calls a memory node before its leaf is flushed again. `handler-after-fence` took 30,881 histories with the
    /// options offload and stalls: the leaf has to be changed and flushed, and read again, while a processor stands still.
    fn unseen() -> &'static [Mutant] {
        &[
            Mutant::LEASE_UNCHECKED_ON_A_HIT,
            Mutant::TORN_LEAF_LEFT,
            Mutant::FLUSHING_FORGOTTEN,
            Mutant::LEFT_BEFORE_RETIRED,
            Mutant::TORN_PAGE_LEFT,
            Mutant::REVIVED_BEFORE_FLUSH,
            Mutant::TENURE_UNCHECKED_BEHIND_READ,
            Mutant::DRAINED_WITHOUT_FILLS,
            Mutant::DEPARTED_UNSEEN,
            Mutant::SLOW_COPY_BELIEVED,
            Mutant::CUT_UNRENEWED,
            Mutant::SIBLING_MADE_ROOT,
            Mutant::NEIGHBOUR_ANSWERED,
            Mutant::CUT_OFF_VACATED,
            Mutant::HANDLER_AFTER_FENCE,
        ]
    }

    fn profile_for(_: Mutant) -> Option<Profile> {
        None
    }

    /// An entry begins with a leaf that is joined to none. What a memory node changes by a call, it does not count.
    fn lasting_leaves(case: &TreeCase) -> Option<u64> {
        let OneSize::Dex(Parameters { spare, .. }) = case.parameters.below else { return None };
        let entries = ENTRIES_PER_NODE_MAX * case.compute_nodes as u64 + u64::from(spare);
        (case.spending.offload == Mode::Never).then_some(entries)
    }

    /// Those of a log ring: a ring has more lines than are staged.
    fn chunks_at_once(case: &TreeCase) -> u32 {
        let lines = RING_LINES_MIN.max(STAGING_LINES_MIN as u64 + 1);
        let is_enough = |&chunks: &usize| Ring::lines_max(chunks, case.chunk_bytes) >= lines;
        (1..=RING_CHUNKS).find(is_enough).unwrap_or(RING_CHUNKS) as u32
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let nodes = draw.lanes.len() as u64;
        // An entry or several for each compute node; the last key of the histories has an entry, too.
        let entries = nodes * [1, 1, 2, ENTRIES_PER_NODE_MAX][rng.below(4) as usize];
        let entries = entries.min(u64::from(draw.keys)) as u32;
        let key_bytes = [8, 8, 8, 16][rng.below(4) as usize];
        let parameters = Parameters {
            key_bytes,
            // One line, most of a line, several lines; so many that a ring comes round soon.
            value_bytes: [8, 16, 48, 120, 520][rng.below(5) as usize],
            leaf_span: 2 + rng.below(5) as usize,
            inner_span: [2, 2, 3, 4, 8][rng.below(5) as usize],
            entries,
            spare: spare(draw.wide),
            cut: cut(draw, key_bytes, entries),
        };
        // By the seed, too.
        let is_whole = draw.wide.has(WideOption::Offload) && draw.seed % 5 == 4;
        let subtrees = if is_whole { Subtrees::Whole } else { Subtrees::Spread };
        let options =
            Options { combine: rng.percent(70), hierarchical: rng.percent(70), subtrees, ..Options::default() };
        let lanes = draw.lanes.iter().copied().max().unwrap_or(1);
        let leaves_at_once = 1 + rng.below(3) as usize;
        // By the seed, so that what is drawn after it stays as pinned seeds have it.
        let cooling = if draw.seed.is_multiple_of(4) { Cooling::OneFifo } else { Cooling::Map };
        let admission = [Admission::EAGER, Admission::PUBLISHED, Admission::per_10_000(5_000)][rng.below(3) as usize];
        let page_bytes = parameters.leaf().bytes;
        let shape = Shape { page_bytes, lanes, fills_per_lane: leaves_at_once as u16, cooling, admission };
        let frames = usize::from(lanes) * FRAMES_PER_LANE_MIN + [0, 1, 8, 64][rng.below(4) as usize];
        let spending = Spending {
            lanes: 0,
            cache_bytes: [0, 1 << 10, 16 << 10][rng.below(3) as usize],
            scratch_bytes_max: 1 << 30,
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: 1,
            returned_nodes: [0, 1, 32][rng.below(3) as usize],
            generations: draw.generations,
            page_cache_bytes: 4 * shape.words_for(frames) as u64,
            admission,
            cooling,
            // The least, so that rings come round.
            log_lines: 0,
            level: match Level::ALL[rng.below(3) as usize] {
                // A death of the owner would take back what others were answered.
                Level::Cache if draw.wide.has(WideOption::Forward) => Level::Log,
                level => level,
            },
            offload: match draw.wide.has(WideOption::Offload) {
                true if draw.seed.is_multiple_of(3) => Mode::ByCost,
                true => Mode::Always,
                false => Mode::Never,
            },
            options,
            ..Spending::default()
        };
        TreeCase {
            parameters: parameters.into(),
            spending,
            lock_count: [1, 3, 16, 61][rng.below(4) as usize],
            chunk_bytes: 8192,
            lanes: draw.all_lanes(),
            compute_nodes: draw.lanes.len(),
            digits: None,
            stretch: None,
            lease_ns: 800_000 << rng.below(4),
        }
    }
}

/// How the keys of a history are cut into `entries`: each entry has some, as a rule.
fn cut(draw: &Draw, key_bytes: usize, entries: u32) -> Cut {
    let usual = Cut::Even { first: 0, last: (u64::from(draw.keys) << draw.key_shift) - 1 };
    let key_bytes = if draw.wide.has(WideOption::KeysLong) { KEY_BYTES_MAX } else { key_bytes };
    // By the seed, so that pinned seeds keep the entries that they had: all keys at an edge were in one entry.
    let is_fit = matches!(draw.seed % 5, 0 | 1 | 3);
    let Some(keys) = WideKeys::of(draw.wide, draw.seed, draw.keys, key_bytes).filter(|_| is_fit) else { return usual };
    let first_word = |number| {
        let mut key = [0; KEY_BYTES_MAX];
        keys.write(number, &mut key[..key_bytes]);
        u64::from_be_bytes(*key.first_chunk().unwrap_or(&[0; 8]))
    };
    let (first, last) = (first_word(0), first_word(u64::from(draw.keys) - 1));
    // Long keys may differ behind their first eight bytes only.
    if last - first < u64::from(entries) { usual } else { Cut::Even { first, last } }
}

/// Leaves have no locks, and one writer. Few die in a merge. Logs begin again after days, or when their memory node dies.
const RARE_MARKS: &[Mark] = &[
    Mark::RESTART,
    Mark::SELF_FENCED,
    Mark::MERGE_UNDONE,
    Mark::TORN_READ,
    Mark::REDO_REPLAYED,
    Mark::REPAIRER_DIED,
    Mark::LOG_RESTARTED,
    // With the option moves only.
    Mark::ENTRY_HANDED_OVER,
    // With the option cuts only.
    Mark::ENTRY_CUT,
    // With the option vacates only.
    Mark::NODE_MOVED,
    // With the option offload only.
    Mark::OFFLOADED,
    Mark::OFFLOAD_IN_VAIN,
    Mark::OFFLOAD_OVERTAKEN,
    Mark::OFFLOAD_CONTRARY,
    Mark::RING_REPLACED,
    // Of items over it, after a request that failed only.
    Mark::ENTRY_REVISITED,
    Mark::LAYER_LOST,
    Mark::CALL_GIVEN_UP,
];

impl Below for Dex {
    const ITEMS: &'static str = "any length over dex";
    const ITEMS_OPTION: &'static str = "any-length-over-dex";

    const RARE_MARKS: &'static [Mark] = RARE_MARKS;

    /// Layers of each compute node lie behind those of the one before, by its row: they are in parts of their own, behind the root
    /// layer. And no death may take back that a block's place is free.
    fn fit_items(case: &mut TreeCase) {
        let entries = 1 + case.compute_nodes as u32;
        if let OneSize::Dex(below) = &mut case.parameters.below {
            below.entries = entries;
            below.cut = Cut::Even { first: 0, last: (u64::from(entries) << 48) - 1 };
        }
        if case.spending.level == Level::Cache {
            case.spending.level = Level::Log;
        }
    }
}

impl TestAccess for dm_core::dex::Dex<'_> {
    fn locks_held(&self) -> usize {
        self.tree().locks.held()
    }

    test_access_of_btree!();
}

/// What a walk finds.
const fn nodes(parameters: &Parameters) -> TreeNodes {
    let leaf = parameters.leaf();
    TreeNodes { inner: parameters.inner(), leaf_bytes: leaf.bytes, leaf_place_bytes: leaf.bytes }
}

impl MemoryWalk for Parameters {
    fn tree(&self) -> Option<TreeNodes> {
        Some(nodes(self))
    }

    memory_walk_of_btree!();

    fn for_each_entry(&self, image: &[u8], see: &mut dyn FnMut(&[u8], &[u8])) {
        let shape = self.leaf();
        let leaf = Leaf::new(&shape, image);
        let mut slots = [0; SPAN_MAX];
        let count = leaf.sorted(&[0; KEY_BYTES_MAX][..self.key_bytes], None, &mut slots);
        for &slot in &slots[..count] {
            let (mut key, mut value) = (vec![0; self.key_bytes], vec![0; self.value_bytes]);
            leaf.read_key(slot.into(), &mut key);
            leaf.read_value(slot.into(), &mut value);
            see(&key, &value);
        }
    }
}
