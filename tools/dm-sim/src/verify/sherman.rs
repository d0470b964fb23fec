//! Sherman as a subject: tiny nodes, few lock words, every technique on or off.

use super::accounting::{Holdings, Node};
use super::draw::{Draw, Profile};
use super::subject::{HeldLock, Inside, Opened, Picture, Subject, With};
use super::walk::{self, Plot};
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::lane::Mark;
use dm_core::sherman::Sherman;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Assumptions, Guarantees};
use dm_host::assembly::{Spending, with_sherman};

/// Makes Sherman trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShermanSubject;

/// More retired nodes than a history makes.
pub(super) const SHELF_HOLDS_ALL: usize = 512;

/// What a seed decides about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Sizes.
    pub parameters: Parameters,
    /// What compute nodes spend, and techniques. `lanes` is each compute node's own.
    pub spending: Spending,
    /// Lock words per memory node.
    pub lock_count: u32,
}

impl Case {
    fn plot(&self) -> Plot {
        let leaf_bytes = self.parameters.leaf().bytes;
        Plot {
            lock_count: self.lock_count,
            locks_per_word: if self.spending.options.narrow_locks { 4 } else { 1 },
            chunk_bytes: 4096,
            inner: self.parameters.inner(),
            leaf_bytes,
            leaf_place_bytes: leaf_bytes,
        }
    }
}

impl Subject for ShermanSubject {
    type Case = Case;

    fn name(&self) -> &'static str {
        "sherman"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("chunks", dm_core::remote::chunks::MARKS),
            ("sherman", dm_core::sherman::MARKS),
        ]
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 8, 16][rng.below(4) as usize],
            // One line, most of a line, several lines.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            leaf_span: 2 + rng.below(5) as usize,
            inner_span: 2 + rng.below(3) as usize,
        };
        match draw.profile {
            Profile::Mixed => {}
            // Several lines, so that an entry can be of two WRITEs.
            Profile::SlowReaders => parameters.value_bytes = [64, 120, 200][rng.below(3) as usize],
            Profile::Churn => parameters.leaf_span = 2 + rng.below(2) as usize,
        }
        let hierarchical = rng.percent(70);
        // Without local queues several lanes of a compute node send requests for one word, and a narrow word cannot
        // tell whose CAS won: a lane in doubt cannot be settled.
        let can_narrow = draw.dial.masked_atomics && (hierarchical || !draw.plan.doubts());
        let options = Options {
            combine: rng.percent(70),
            hierarchical,
            entry_writes: rng.percent(70),
            narrow_locks: can_narrow && rng.percent(40),
            chain_lock_read: rng.percent(40),
        };
        let spending = Spending {
            lanes: 0,
            cache_bytes: [0, 1 << 10, 16 << 10][rng.below(3) as usize],
            scratch_bytes_max: 1 << 30,
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: 1,
            returned_nodes: [0, 1, 32, SHELF_HOLDS_ALL][rng.below(4) as usize],
            options,
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
        let asked = with_sherman(&place, &case.parameters, &spending, |index| {
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
            with_sherman(&place, &case.parameters, &spending, |index| then(&With(index)))
                .map_err(|error| error.to_string())
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        case.plot().table_locks_held(config, memories)
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

impl Inside for Sherman<'_> {
    fn locks_held(&self) -> usize {
        self.tree().locks.held()
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        walk::for_each_ready(self.tree(), visit);
    }

    fn recall(&self, picture: &Picture) {
        walk::recall(self.tree(), picture);
    }
}
