//! Sherman as a subject: tiny nodes, few lock words, every technique on or off.

pub(super) mod cases;

use super::btree::{memory_walk_of_btree, test_access_of_btree};
use super::crash::Case;
use super::draw::{Draw, WIDE_KEYS_MIN};
use super::items::Below;
use super::memory_walk::{MemoryWalk, TreeNodes};
use super::settings::Profile;
use super::subject::TestAccess;
use super::tree::{FREE_LIST_HOLDS_ALL, TreeCase, TreeKind};
use super::wide::WideOption;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::mutants::Mutant;
use dm_core::registry::KEY_BYTES_MAX;
use dm_core::sherman::layout::{Leaf, SPAN_MAX};
use dm_core::sherman::parameters::Parameters;
use dm_core::{btree, compute, lane, layout, locks, membership, memory, recovery, sherman};
use dm_host::assembly::Spending;
use dm_host::kinds::IndexParameters;

/// Sherman trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sherman;

impl TreeKind for Sherman {
    const NAME: &'static str = "sherman";
    const ORPHAN_COLLECTION: &'static [Mark] = dm_core::memory::MARKS;
    const WRITES_RECORDS_AT_ONCE: bool = true;
    const HAS_SPANS: bool = true;
    const SCANS_DOWN: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("batches", dm_core::compute::batches::MARKS),
            ("limbo", dm_core::memory::epochs::MARKS),
            ("chunks", dm_core::memory::chunks::MARKS),
            ("sherman", dm_core::sherman::MARKS),
        ]
    }

    /// A descent restarts only if twice in a row a leaf is merged away and its place reused between the READ of its
    /// parent and its own: once in tens of thousands of histories. No compute node of a history fences itself: its
    /// lease is not told the time, so by its own clock it is never late. [Descheduled
    /// holders](super::crash::descheduled_holders) do fence themselves.
    fn rare_marks() -> &'static [Mark] {
        &[Mark::RESTART, Mark::SELF_FENCED]
    }

    fn crash_cases() -> Vec<Case> {
        cases::all()
    }

    fn reuse_case() -> Option<(IndexParameters, u64)> {
        Some((Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 2, inner_span: 8 }.into(), 10))
    }

    fn mutants() -> Vec<Mutant> {
        let rooms = [
            layout::mutants::DECLARED,
            lane::mutants::DECLARED,
            memory::mutants::DECLARED,
            membership::mutants::DECLARED,
            locks::mutants::DECLARED,
            recovery::mutants::DECLARED,
            compute::mutants::DECLARED,
            btree::mutants::DECLARED,
            sherman::mutants::DECLARED,
        ];
        // In code of these rooms that Sherman does not run.
        let not_run = [
            Mutant::CLOSED_UNREAD,
            Mutant::CLOSED_KEPT,
            Mutant::WALK_AT_ONCE,
            Mutant::OPEN_AT_ONCE,
            Mutant::WALK_BEFORE_REPLAYS,
            Mutant::PINS_END_EARLY,
            Mutant::ITEMS_PINS_END_EARLY,
            Mutant::LEAVES_UNSWEPT,
            Mutant::SWEEP_WITHOUT_ROOM,
            Mutant::ROOT_RACE_GIVES_UP,
            Mutant::SECOND_WITHOUT_IMAGE,
            Mutant::PIVOT_NOT_MAXIMUM,
            Mutant::RETIRED_AS_A_WHOLE,
        ];
        rooms.concat().into_iter().filter(|mutant| !not_run.contains(mutant)).collect()
    }

    /// `TORN_IS_RESIDUE` needs an old pointer to a place in the very moment of the first WRITE of the place's next
    /// generation. `FAILED_UNSETTLED` needs a request that lands after its lane has begun another operation. `LOOKS_ONCE` costs
    /// time only: a test of many waiters shows it.
    fn unseen() -> &'static [Mutant] {
        &[Mutant::TORN_IS_RESIDUE, Mutant::FAILED_UNSETTLED, Mutant::LOOKS_ONCE]
    }

    fn profile_for(mutant: Mutant) -> Option<Profile> {
        match mutant {
            Mutant::BOOKEND_VERSIONS => Some(Profile::SlowReaders),
            Mutant::TORN_IS_RESIDUE => Some(Profile::Reuse),
            Mutant::SPLIT_AT_THE_END => Some(Profile::Growth),
            _ => None,
        }
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 8, 16][rng.below(4) as usize],
            // One line, most of a line, several lines.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            leaf_span: 2 + rng.below(5) as usize,
            inner_span: [2, 2, 3, 4, 8][rng.below(5) as usize],
        };
        match draw.profile {
            Profile::Mixed => {}
            // Entries of several lines, so that a READ may mix two WRITEs in one entry.
            Profile::Wraparound => {
                parameters.value_bytes = [64, 120, 200][rng.below(3) as usize];
                parameters.leaf_span = 2;
            }
            Profile::SlowReaders if draw.keys > WIDE_KEYS_MIN => {
                // Leaves of several lines, and entries within one line.
                (parameters.key_bytes, parameters.value_bytes) = (8, 8);
                parameters.leaf_span = 8 + rng.below(5) as usize;
            }
            Profile::SlowReaders => {
                parameters.value_bytes = [64, 120, 200][rng.below(3) as usize];
                parameters.leaf_span = 2 + rng.below(2) as usize;
            }
            Profile::Churn => parameters.leaf_span = 2 + rng.below(2) as usize,
            Profile::Reuse | Profile::OldRoutes => parameters.leaf_span = 2,
            Profile::Growth => (parameters.leaf_span, parameters.inner_span) = (2, 2),
        }
        if draw.wide.has(WideOption::WideLeaves) {
            let mut rng = Rng::new(draw.seed ^ 0x5eed_000f);
            (parameters.key_bytes, parameters.value_bytes) = (8, 8);
            parameters.leaf_span = 64 + rng.below(40) as usize;
        }
        let hierarchical = rng.percent(70);
        let (combine, entry_writes) = (rng.percent(70), rng.percent(70));
        // The option of this draw no longer exists. The draw stays, so that pinned seeds keep their histories.
        let _ = draw.fabric.masked_atomics && (hierarchical || !draw.plan.doubts()) && rng.percent(40);
        let options = Options {
            combine,
            hierarchical,
            entry_writes,
            chain_lock_read: if rng.percent(40) { ChainedRead::Always } else { ChainedRead::Never },
            rdwc: rng.percent(30),
            ..Options::default()
        };
        // Without copies every descent begins at the root and meets half-done changes.
        let cold = draw.profile == Profile::Growth && rng.percent(75);
        let spending = Spending {
            cache_bytes: if cold { 0 } else { [0, 1 << 10, 16 << 10][rng.below(3) as usize] },
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: 1,
            hotspot_bytes: 0,
            returned_nodes: [0, 1, 32, FREE_LIST_HOLDS_ALL][rng.below(4) as usize],
            options,
            ..Spending::default()
        };
        let mut spending = spending;
        let mut lock_count = [1, 3, 16, 61][rng.below(4) as usize];
        if draw.profile == Profile::Reuse {
            // Copies and free lists, and seldom one lock word for two nodes.
            (spending.cache_bytes, spending.returned_nodes, lock_count) = (16 << 10, FREE_LIST_HOLDS_ALL, 61);
        }
        TreeCase::new(draw, parameters, spending, lock_count, 4096)
    }
}

impl Below for Sherman {
    const ITEMS: &'static str = "any length over sherman";
    const ITEMS_OPTION: &'static str = "any-length";
}

impl TestAccess for dm_core::sherman::Sherman<'_> {
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
