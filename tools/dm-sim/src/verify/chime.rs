//! CHIME as a subject: tiny leaves with short neighborhoods, so that hops, ranges that go on at the first entry, splits and
//! merges are common; every technique on or off; locks by masked and by plain CAS, as the fabric has it.

use super::accounting::{Holdings, Node};
use super::draw::{Draw, Profile};
use super::subject::{HeldLock, Inside, Opened, Picture, Subject, With};
use super::walk::{self, Plot};
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::chime::Chime;
use dm_core::chime::parameters::Parameters;
use dm_core::chime::vacancy::HELD;
use dm_core::lane::Mark;
use dm_core::verbs::{Assumptions, Guarantees};
use dm_host::assembly::{Spending, with_chime};

/// Makes CHIME trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChimeSubject;

/// More retired nodes than a history makes.
const SHELF_HOLDS_ALL: usize = 512;

/// What a seed decides about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Sizes.
    pub parameters: Parameters,
    /// What compute nodes spend, and techniques. `lanes` is each compute node's own.
    pub spending: Spending,
    /// Lock words per memory node, for inner nodes.
    pub lock_count: u32,
}

impl Case {
    fn plot(&self) -> Plot {
        let leaf = self.parameters.leaf();
        Plot {
            lock_count: self.lock_count,
            locks_per_word: if self.spending.options.narrow_locks { 4 } else { 1 },
            chunk_bytes: 8192,
            inner: self.parameters.inner(),
            leaf_bytes: leaf.bytes,
            leaf_place_bytes: leaf.place_bytes(),
        }
    }
}

impl Subject for ChimeSubject {
    type Case = Case;

    fn name(&self) -> &'static str {
        "chime"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("chunks", dm_core::remote::chunks::MARKS),
            ("chime", dm_core::chime::MARKS),
        ]
    }

    /// As Sherman's: a place merged away and reused twice in a row, each time between two READs.
    fn rare_marks(&self) -> &'static [Mark] {
        &[Mark::Restart]
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 8, 16][rng.below(4) as usize],
            // Entries within a line, across two, across several.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            // Small ones most of the time: histories have few keys, and leaves shall fill and empty.
            leaf_span: 8 + [0, 0, 1, rng.below(9)][rng.below(4) as usize] as usize,
            neighborhood: 2 + [0, 1, 2, rng.below(7)][rng.below(4) as usize] as usize,
            inner_span: 2 + rng.below(3) as usize,
        };
        match draw.profile {
            Profile::Mixed => {}
            // Several lines, so that an entry can be of two WRITEs.
            Profile::SlowReaders | Profile::Wraparound => parameters.value_bytes = [48, 64, 120][rng.below(3) as usize],
            // Little room near home: leaves of few records.
            Profile::Churn | Profile::Reuse => (parameters.leaf_span, parameters.neighborhood) = (8, 2),
            Profile::Growth => (parameters.leaf_span, parameters.neighborhood, parameters.inner_span) = (8, 2, 2),
        }
        let options = Options {
            combine: rng.percent(70),
            hierarchical: rng.percent(70),
            chain_lock_read: rng.percent(40),
            ..Options::default()
        };
        let spending = Spending {
            lanes: 0,
            cache_bytes: [0, 1 << 10, 16 << 10][rng.below(3) as usize],
            scratch_bytes_max: 1 << 30,
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: [1, 3, 64][rng.below(3) as usize],
            returned_nodes: [0, 1, 32, SHELF_HOLDS_ALL][rng.below(4) as usize],
            options,
            ..Spending::default()
        };
        Case { parameters, spending, lock_count: [1, 3, 16, 61][rng.below(4) as usize] }
    }

    fn assumptions(&self, draw: &Draw, case: &Case) -> Assumptions {
        // As the index declares them; asking it would take opening it on a fabric that grants everything.
        let mut needed = Assumptions::empty();
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = case.plot().geometry(&config);
        let place = walk::place(&geometry, &config, walk::everything(), 0);
        let spending = Spending { lanes: 1, ..case.spending.clone() };
        let asked = with_chime(&place, &case.parameters, &spending, |index| {
            needed = dm_core::index::Index::assumptions(index);
        });
        debug_assert!(asked.is_ok(), "{:?}", asked.err());
        needed
    }

    fn format(&self, case: &Case, config: &Config, memories: &mut Memories) {
        case.plot().format(config, memories);
    }

    fn open(
        &self,
        draw: &Draw,
        case: &Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.plot().geometry(config);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            let place = walk::place(&geometry, config, guarantees, number as u16);
            let spending = Spending { lanes: draw.lanes[number].into(), ..case.spending.clone() };
            with_chime(&place, &case.parameters, &spending, |index| then(&With(index)))
                .map_err(|error| error.to_string())
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        let plot = case.plot();
        let mut held = plot.table_locks_held(config, memories);
        plot.for_each_leaf(config, memories, |leaf| {
            let word =
                memories.get(leaf.node()).map_or(0, |node| node.host.word(leaf.offset() + plot.leaf_bytes as u64));
            if word & HELD != 0 {
                held.push(HeldLock { node: leaf.node(), compute_node: (word as u16).wrapping_sub(1) });
            }
        });
        held
    }

    fn picture(&self, case: &Case, config: &Config, memories: &Memories) -> Picture {
        walk::picture(&case.plot(), config, memories)
    }

    fn holdings(&self, case: &Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(walk::holdings(&case.plot(), config, memories))
    }

    fn never_leaks(&self, case: &Case) -> bool {
        case.spending.returned_nodes == SHELF_HOLDS_ALL
    }
}

impl Inside for Chime<'_> {
    fn locks_held(&self) -> usize {
        Chime::locks_held(self)
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        walk::for_each_ready(self.tree(), visit);
    }

    fn recall(&self, picture: &Picture) {
        walk::recall(self.tree(), picture);
    }
}
