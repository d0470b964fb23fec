//! What subjects of all kinds share: the pool, and the view of it from outside. [`TreeCase`] is what a seed decides
//! about a subject.

use super::accounting::Holdings;
use super::coding::{Coding, Digits};
use super::crash;
use super::draw::Draw;
use super::items::stretched::{Stretch, Stretched};
use super::mixtures::MixedCase;
use super::settings::Profile;
use super::subject::{HeldLock, InnerNodeImages, Opened, Subject, With};
use super::walk::{self, PoolLayout};
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

/// More than the retired nodes of any history, and than the nodes of a memory node.
pub(super) const FREE_LIST_HOLDS_ALL: usize = 4096;

/// What a seed decides about an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeCase {
    /// Sizes.
    pub parameters: IndexParameters,
    /// Memory and techniques of compute nodes. `lanes` is set for each compute node.
    pub spending: Spending,
    /// Lock words per memory node.
    pub lock_count: u32,
    /// Size of chunks.
    pub chunk_bytes: u64,
    /// Lanes of each compute node.
    pub lanes: Vec<u16>,
    /// How numbers become keys; `None`: in bytes next to each other.
    pub digits: Option<Digits>,
    /// How keys and values are stretched, if they are items.
    pub stretch: Option<Stretch>,
}

impl TreeCase {
    pub(super) fn pool(&self) -> PoolLayout {
        PoolLayout::of(&self.parameters, self.lock_count, self.chunk_bytes)
    }

    /// The participant of compute node `number` in the epochs.
    pub(super) fn epochs_of(&self, number: usize) -> (Epochs, Vec<Pin>) {
        (Epochs::new(), (0..self.lanes[number]).map(|_| Pin::default()).collect())
    }

    /// Memory and techniques of compute node `number`.
    pub(super) fn spending_of(&self, number: usize) -> Spending {
        Spending { lanes: self.lanes[number].into(), ..self.spending.clone() }
    }

    /// Opens the index of compute node `number` at `place` and passes it to `then`.
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

    /// See [`Subject::marks`].
    fn marks() -> Vec<(&'static str, &'static [Mark])>;

    /// See [`Subject::rare_marks`].
    fn rare_marks() -> &'static [Mark];

    /// Marks of orphan collection.
    const ORPHAN_COLLECTION: &'static [Mark];
    /// See [`Subject::writes_records_at_once`].
    const WRITES_RECORDS_AT_ONCE: bool;

    /// See [`Subject::draw`].
    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase;

    /// Cases for enumerated deaths.
    fn crash_cases() -> Vec<crash::Case>;

    /// For [`super::reuse`]: sizes, and how many keys make several leaves. `None`: the index takes no part in epochs.
    fn reuse_case() -> Option<(IndexParameters, u64)> {
        None
    }

    /// Mutants that can be tested in it.
    fn mutants() -> Vec<Mutant>;

    /// Of these, mutants that no history has shown within few seeds.
    fn unseen() -> &'static [Mutant] {
        &[]
    }

    /// Whether a mutant is tested on [mixtures](super::mixtures), not in histories.
    fn mixes(_: Mutant) -> bool {
        false
    }

    /// Sizes and keys of a leaf whose lines are mixed, drawn from a seed.
    fn mixed_case(_seed: u64) -> Option<MixedCase> {
        None
    }

    /// The profile of histories for a mutant that needs many things to coincide. Other profiles would find it, too,
    /// after some ten times as many seeds.
    fn profile_for(mutant: Mutant) -> Option<Profile>;
}

/// A subject: trees of a kind whose dead compute nodes are not recovered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounded<K>(pub K);

impl<K: TreeKind> Subject for Bounded<K> {
    type Case = TreeCase;

    fn name(&self) -> String {
        K::NAME.to_owned()
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
        // As the index declares them. To ask the index itself, it would have to be opened on a fabric that grants
        // everything.
        let mut needed = Assumptions::empty();
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = case.pool().geometry(&config);
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
        case.pool().format(config, memories);
        case.pool().format_rows(config, case.lanes.len() as u16, memories);
    }

    fn open(
        &self,
        draw: &Draw,
        case: &TreeCase,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.pool().geometry(config);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            let (epochs, pins) = case.epochs_of(number);
            let epochs = Some(Participant { epochs: &epochs, pins: &pins });
            let place = Place { epochs, ..walk::place(&geometry, config, guarantees, number as u16) };
            case.open(&place, number, then)
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        case.pool().locks_held(config, memories)
    }

    fn writes_records_at_once(&self) -> bool {
        K::WRITES_RECORDS_AT_ONCE
    }

    fn inner_node_images(&self, case: &TreeCase, config: &Config, memories: &Memories) -> InnerNodeImages {
        case.pool().inner_node_images(config, memories)
    }

    fn holdings(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(case.pool().holdings(config, memories))
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
