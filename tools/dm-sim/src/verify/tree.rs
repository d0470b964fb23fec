//! What subjects have in common: the pool they are opened on, and the look at it from outside. Each says by
//! [`TreeCase`] what a seed decides about it.

use super::accounting::Holdings;
use super::coding::{Coding, Digits};
use super::crash;
use super::draw::Draw;
use super::items::stretched::{Stretch, Stretched};
use super::mixtures::MixedCase;
use super::settings::Profile;
use super::subject::{HeldLock, Opened, Picture, Subject, With};
use super::walk::{self, Plot};
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::index::Index;
use dm_core::marks::Mark;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::mutants::Mutant;
use dm_core::verbs::{Assumptions, Guarantees};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::{IndexParameters, with_index};

/// More retired nodes than a history makes, or than a memory node has.
pub(super) const FREE_LIST_HOLDS_ALL: usize = 4096;

/// What a seed decides about an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeCase {
    /// Sizes.
    pub parameters: IndexParameters,
    /// What compute nodes spend, and techniques. `lanes` is each compute node's own.
    pub spending: Spending,
    /// Lock words per memory node.
    pub lock_count: u32,
    /// Size of chunks.
    pub chunk_bytes: u64,
    /// Lanes of each compute node.
    pub lanes: Vec<u16>,
    /// How numbers become keys; `None`: in bytes next to each other.
    pub digits: Option<Digits>,
    /// What becomes of keys and values, where they have lengths.
    pub stretch: Option<Stretch>,
}

impl TreeCase {
    pub(super) fn plot(&self) -> Plot {
        Plot::of(&self.parameters, self.lock_count, self.chunk_bytes)
    }

    /// Its part in the epochs.
    pub(super) fn epochs_of(&self, number: usize) -> (Epochs, Vec<Pin>) {
        (Epochs::new(), (0..self.lanes[number]).map(|_| Pin::default()).collect())
    }

    /// What compute node `number` spends.
    pub(super) fn spending_of(&self, number: usize) -> Spending {
        Spending { lanes: self.lanes[number].into(), ..self.spending.clone() }
    }

    /// Opens the index of compute node `number` at `place` and passes it on.
    pub(super) fn open(
        &self,
        place: &Place<'_>,
        number: usize,
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String> {
        let spending = self.spending_of(number);
        with_index(place, &self.parameters, &spending, |index| match &self.stretch {
            Some(stretch) => then(&With(&Stretched::new(&index, stretch, spending.page_records))),
            None => then(&With(&index)),
        })
        .map_err(|error| error.to_string())
    }
}

/// A kind of index.
pub trait TreeKind: Copy {
    /// Its name.
    const NAME: &'static str;
    /// Its name if its compute nodes recover one another.
    const NAME_RECOVERED: &'static str;

    /// See [`Subject::marks`].
    fn marks() -> Vec<(&'static str, &'static [Mark])>;

    /// See [`Subject::rare_marks`].
    fn rare_marks() -> &'static [Mark];

    /// What is counted when memory of the gone is adopted.
    const ORPHAN_COLLECTION: &'static [Mark];
    /// See [`Subject::writes_records_at_once`].
    const WRITES_RECORDS_AT_ONCE: bool;

    /// See [`Subject::draw`].
    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase;

    /// Operations to cut short.
    fn crash_cases() -> Vec<crash::Case>;

    /// Sizes, and how many keys make several leaves, for [`super::lives`]. `None`: it has no part in epochs.
    fn lives() -> Option<(IndexParameters, u64)> {
        None
    }

    /// Bugs in rooms of its own.
    fn own_bugs() -> &'static [Mutant] {
        &[]
    }

    /// Bugs that can be planted in it.
    fn bugs() -> Vec<Mutant>;

    /// Of these, such as no history has shown in few seeds.
    fn unseen() -> &'static [Mutant] {
        &[]
    }

    /// Whether a bug is looked for in [mixtures](super::mixtures), and not in histories.
    fn mixes(_: Mutant) -> bool {
        false
    }

    /// What a seed decides about a leaf whose lines are mixed.
    fn mixed_case(_seed: u64) -> Option<MixedCase> {
        None
    }

    /// What histories have to be about for a bug that needs many things to meet; any others would find it, too, after some
    /// ten times as many seeds.
    fn profile_for(bug: Mutant) -> Option<Profile>;
}

/// Makes trees of a kind, whose dead nobody recovers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounded<K>(pub K);

impl<K: TreeKind> Subject for Bounded<K> {
    type Case = TreeCase;

    fn name(&self) -> &'static str {
        K::NAME
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        K::marks()
    }

    fn rare_marks(&self) -> &'static [Mark] {
        K::rare_marks()
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> TreeCase {
        K::draw(draw, rng)
    }

    fn assumptions(&self, draw: &Draw, case: &TreeCase) -> Assumptions {
        // As the index declares them; asking it would take opening it on a fabric that grants everything.
        let mut needed = Assumptions::empty();
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = case.plot().geometry(&config);
        let place = walk::place(&geometry, &config, walk::everything(), 0);
        let spending = Spending { lanes: 1, ..case.spending.clone() };
        let asked = with_index(&place, &case.parameters, &spending, |index| needed = index.assumptions());
        debug_assert!(asked.is_ok(), "{:?}", asked.err());
        needed
    }

    fn coding(&self, draw: &Draw, case: &TreeCase) -> Coding {
        Coding { digits: case.digits, ..Coding::shifted(draw.key_shift) }
    }

    fn format(&self, case: &TreeCase, config: &Config, memories: &mut Memories) {
        case.plot().format(config, memories);
        case.plot().format_rows(config, case.lanes.len() as u16, memories);
    }

    fn open(
        &self,
        draw: &Draw,
        case: &TreeCase,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.plot().geometry(config);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            let (epochs, pins) = case.epochs_of(number);
            let epochs = Some(Participant { epochs: &epochs, pins: &pins });
            let place = Place { epochs, ..walk::place(&geometry, config, guarantees, number as u16) };
            case.open(&place, number, then)
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        case.plot().locks_held(config, memories)
    }

    fn writes_records_at_once(&self) -> bool {
        K::WRITES_RECORDS_AT_ONCE
    }

    fn picture(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Picture {
        case.plot().picture(config, memories)
    }

    fn holdings(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(case.plot().holdings(config, memories))
    }

    fn rdwc(&self, case: &TreeCase) -> Option<bool> {
        Some(case.spending.options.rdwc)
    }

    fn bulk_loads(&self, case: &TreeCase) -> bool {
        case.parameters.items.is_none()
    }

    fn never_leaks(&self, case: &TreeCase) -> bool {
        let blocks = case.parameters.items.is_none() || self.holds_all_blocks(case);
        case.spending.returned_nodes == FREE_LIST_HOLDS_ALL && blocks
    }

    fn holds_all_blocks(&self, case: &TreeCase) -> bool {
        case.parameters.items.is_some() && case.spending.returned_blocks == FREE_LIST_HOLDS_ALL
    }
}
