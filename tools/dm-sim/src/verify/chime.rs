//! CHIME as a subject: tiny leaves with short neighborhoods, so that hops, neighborhoods that continue at the first
//! entry, splits and merges are common. Every technique is on or off. Locks are taken by masked or by plain CAS, as the
//! fabric offers it.

mod cases;

use super::btree::{memory_walk_of_btree, test_access_of_btree};
use super::crash::Case;
use super::draw::Draw;
use super::items::Below;
use super::memory_walk::{LeafLocks, MemoryWalk, TreeNodes, only_holder};
use super::mixtures::MixedCase;
use super::settings::Profile;
use super::subject::TestAccess;
use super::tree::{FREE_LIST_HOLDS_ALL, TreeCase, TreeKind};
use super::wide::WideOption;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::chime::layout::{Leaf, SPAN_MAX};
use dm_core::chime::parameters::Parameters;
use dm_core::layout::stripes::LINE_PAYLOAD_BYTES;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::mutants::Mutant;
use dm_core::registry::{KEY_BYTES_MAX, KEY_BYTES_MIN, VALUE_BYTES_MIN};
use dm_core::remote::lock_word::HELD;
use dm_core::{btree, chime, lane, recovery};
use dm_host::assembly::Spending;
use dm_host::kinds::IndexParameters;

/// CHIME trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chime;

impl TreeKind for Chime {
    const NAME: &'static str = "chime";
    const ORPHAN_COLLECTION: &'static [Mark] = dm_core::memory::MARKS;
    /// A neighborhood that continues at the first entry takes two WRITEs, and only a redo record keeps them together.
    const WRITES_RECORDS_AT_ONCE: bool = false;
    const HAS_SPANS: bool = true;
    const SCANS_DOWN: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("chunks", dm_core::memory::chunks::MARKS),
            ("batches", dm_core::compute::batches::MARKS),
            ("limbo", dm_core::memory::epochs::MARKS),
            ("chime", dm_core::chime::MARKS),
        ]
    }

    /// A descent restarts as rarely as in Sherman: a leaf must be merged away and its place reused twice in a row, each
    /// time between two READs. Deaths of repairers and self-fencing are tested by enumerated deaths.
    fn rare_marks() -> &'static [Mark] {
        &[Mark::RESTART, Mark::REPAIRER_DIED, Mark::SELF_FENCED]
    }

    fn crash_cases() -> Vec<Case> {
        cases::all()
    }

    fn reuse_case() -> Option<(IndexParameters, u64)> {
        let parameters = Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 8, neighborhood: 2, inner_span: 8 };
        Some((parameters.into(), 20))
    }

    fn mutants() -> Vec<Mutant> {
        let rooms = [
            lane::mutants::DECLARED,
            &[Mutant::CHUNK_TWICE, Mutant::SAME_GENERATION, Mutant::NO_LIMBO, Mutant::LIMBO_TOO_SHORT],
            &[Mutant::UNLOCK_BY_WRITE],
            recovery::mutants::DECLARED,
            btree::mutants::DECLARED,
            chime::mutants::DECLARED,
        ];
        // In code of these rooms that CHIME does not run, or that Sherman's histories reach more often.
        let not_tried = [
            Mutant::ROW_FREED_UNSWEPT,
            Mutant::LOCKED_READ_KEEPS_IMAGE,
            Mutant::LEAF_UNCHECKED,
            Mutant::TORN_IS_RESIDUE,
            Mutant::NO_MOVE_RIGHT,
            Mutant::RETIRED_UNSIGNED,
            Mutant::SAME_NODE_VERSION,
            Mutant::SPLIT_SORTS,
            Mutant::COLLECTS_FROM_THE_LIVING,
            Mutant::COLLECTS_UNLOCKED,
            Mutant::COLLECTS_UNTAGGED,
            Mutant::FAILED_UNSETTLED,
            Mutant::LOOKS_ONCE,
            Mutant::ONE_WINDOW_SWEPT,
            Mutant::SWEEP_WITHOUT_ROOM,
            Mutant::HEARTBEAT_UNSEEN,
            Mutant::EMPTIED_UNJOINED,
            Mutant::SPLIT_AT_THE_END,
        ];
        rooms.concat().into_iter().filter(|mutant| !not_tried.contains(mutant)).collect()
    }

    /// It needs a reader, a writer and a linker at one leaf, in that order, while two locks of a dead compute node are
    /// taken over. A scenario of the conformance tests arranges this.
    fn unseen() -> &'static [Mutant] {
        &[Mutant::RETIRED_AS_A_WHOLE]
    }

    fn profile_for(mutant: Mutant) -> Option<Profile> {
        match mutant {
            Mutant::BITMAP_UNCHECKED => Some(Profile::SlowReaders),
            Mutant::LIFE_UNCHECKED => Some(Profile::OldRoutes),
            Mutant::LINKS_DEAD => Some(Profile::Churn),
            Mutant::HELP_OVERWRITTEN => Some(Profile::Growth),
            _ => None,
        }
    }

    /// Whether a mutant needs a READ in the moment of two or three WRITEs to the entries of one home.
    fn mixes(mutant: Mutant) -> bool {
        matches!(mutant, Mutant::DELETE_EMPTIES | Mutant::BITMAP_KEEPS_VERSION | Mutant::BITMAP_UNCHECKED)
    }

    /// Leaves in which inserts hop. Either neighborhoods are short and entries have several lines, or neighborhoods are
    /// long and bitmaps lie across two lines.
    fn mixed_case(seed: u64) -> Option<MixedCase> {
        let mut rng = Rng::new(seed ^ 0x5eed_000a);
        let mut parameters = Parameters {
            key_bytes: 8,
            value_bytes: [48, 64, 120][rng.below(3) as usize],
            leaf_span: 8 + rng.below(6) as usize,
            neighborhood: 3 + rng.below(3) as usize,
            inner_span: 4,
        };
        if rng.percent(50) {
            (parameters.leaf_span, parameters.neighborhood) = (11 + rng.below(4) as usize, 9);
            (parameters.key_bytes, parameters.value_bytes) = across_lines(&parameters);
        }
        let keys = parameters.leaf_span as u64 + u64::from(rng.below(3));
        Some(MixedCase { parameters: parameters.into(), keys })
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 8, 16][rng.below(4) as usize],
            // Entries within a line, across two, across several.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            // Mostly small ones: histories have few keys, and leaves have to fill and empty.
            leaf_span: 8 + [0, 0, 1, rng.below(9)][rng.below(4) as usize] as usize,
            neighborhood: 2 + [0, 1, 2, rng.below(7)][rng.below(4) as usize] as usize,
            inner_span: 2 + rng.below(3) as usize,
        };
        match draw.profile {
            Profile::Mixed => {}
            // Keys and values so short that every bitmap lies across two lines, and neighborhoods so long that hops
            // change both bytes of a bitmap.
            Profile::SlowReaders if rng.percent(30) => {
                (parameters.leaf_span, parameters.neighborhood) = (10 + rng.below(5) as usize, 9);
                (parameters.key_bytes, parameters.value_bytes) = across_lines(&parameters);
            }
            // Entries of several lines, so that a READ may mix two WRITEs in one entry.
            Profile::SlowReaders | Profile::Wraparound => parameters.value_bytes = [48, 64, 120][rng.below(3) as usize],
            // Short neighborhoods: leaves of few records.
            Profile::Churn | Profile::Reuse | Profile::OldRoutes => {
                (parameters.leaf_span, parameters.neighborhood) = (8, 2);
            }
            Profile::Growth => (parameters.leaf_span, parameters.neighborhood, parameters.inner_span) = (8, 2, 2),
        }
        if draw.wide.has(WideOption::WideLeaves) {
            let mut rng = Rng::new(draw.seed ^ 0x5eed_000f);
            (parameters.key_bytes, parameters.value_bytes) = (8, [8, 16][rng.below(2) as usize]);
            // Past 63 entries, a bit of a lock word's vacancy stands for several of them.
            parameters.leaf_span = 63 + [1, 2, rng.below(100)][rng.below(3) as usize] as usize;
            parameters.neighborhood = [2, 4, 8, 16][rng.below(4) as usize];
        }
        let options = Options {
            combine: rng.percent(70),
            hierarchical: rng.percent(70),
            chain_lock_read: if rng.percent(40) { ChainedRead::Always } else { ChainedRead::Never },
            rdwc: rng.percent(40),
            rearrange: rng.percent(70),
            ..Options::default()
        };
        // Without a cache there are no old copies.
        let routes = draw.profile == Profile::OldRoutes;
        let spending = Spending {
            cache_bytes: [if routes { 16 << 10 } else { 0 }, 1 << 10, 16 << 10][rng.below(3) as usize],
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: [1, 3, 64][rng.below(3) as usize],
            // Half of the cases have no buffer; in the others it is so small that keys displace each other, or large
            // enough for all.
            hotspot_bytes: [0, 0, 128, 64 << 10][rng.below(4) as usize],
            returned_nodes: [if routes { 32 } else { 0 }, 1, 32, FREE_LIST_HOLDS_ALL][rng.below(4) as usize],
            options,
            ..Spending::default()
        };
        let lock_count = [1, 3, 16, 61][rng.below(4) as usize];
        TreeCase::new(draw, parameters, spending, lock_count, 8192)
    }
}

impl Below for Chime {
    const ITEMS: &'static str = "any length over chime";
    const ITEMS_OPTION: &'static str = "any-length-over-chime";
}

impl TestAccess for dm_core::chime::Chime<'_> {
    fn locks_held(&self) -> usize {
        Self::locks_held(self)
    }

    test_access_of_btree!();
}

/// What a walk finds.
const fn nodes(parameters: &Parameters) -> TreeNodes {
    let leaf = parameters.leaf();
    TreeNodes { inner: parameters.inner(), leaf_bytes: leaf.bytes, leaf_place_bytes: leaf.place_bytes() }
}

impl MemoryWalk for Parameters {
    fn tree(&self) -> Option<TreeNodes> {
        Some(nodes(self))
    }

    memory_walk_of_btree!();

    fn leaf_locks(&self) -> Option<LeafLocks> {
        let leaf = self.leaf();
        let holders = |word| only_holder(word, HELD);
        Some(LeafLocks { place_bytes: leaf.place_bytes(), lock_at: leaf.bytes, holders, is_shared: false })
    }

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

/// Sizes of keys and values with which the bitmaps of a leaf's first entries each lie across two lines.
fn across_lines(parameters: &Parameters) -> (usize, usize) {
    let sizes = (KEY_BYTES_MIN..=KEY_BYTES_MAX).flat_map(|key| (VALUE_BYTES_MIN..64).map(move |value| (key, value)));
    let mut fitting = sizes.filter(|&(key_bytes, value_bytes)| {
        let leaf = Parameters { key_bytes, value_bytes, ..*parameters }.leaf();
        let (first, second) = (leaf.entry_at(0), leaf.entry_at(1));
        // A version byte, then the bitmap's two.
        [first, second].iter().all(|at| (at + 2).is_multiple_of(LINE_PAYLOAD_BYTES))
    });
    fitting.next().unwrap_or((parameters.key_bytes, parameters.value_bytes))
}
