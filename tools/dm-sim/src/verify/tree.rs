//! What subjects of all kinds share: the pool, and the view of it from outside. [`TreeCase`] is what a seed decides
//! about a subject.

use super::accounting::Holdings;
use super::coding::{Coding, Digits};
use super::crash;
use super::draw::Draw;
use super::items::stretched::{Stretch, Stretched};
use super::mixtures::MixedCase;
use super::settings::Profile;
use super::subject::{HeldLock, InnerNodeImages, Opened, PoolState, Subject, With};
use super::walk::{self, PoolLayout};
use super::wide::{WideKeys, WideOption, WideOptions};
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::index::Index;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::marks::Mark;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::mutants::Mutant;
use dm_core::operation::Census;
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use dm_host::assembly::{Level, Place, Spending};
use dm_host::kinds::{IndexParameters, with_index};

/// More than the retired nodes of any history, and than the nodes of a memory node.
pub(super) const FREE_LIST_HOLDS_ALL: usize = 4096;

/// More chunks than a usual pool has. Those that a compute node has collected take room until their places are reused.
pub(super) const COLLECTS_ALL: usize = 256;

/// The same in histories with more memory than usual.
const COLLECTED_CHUNKS: usize = 512;

/// Words of large lock tables: so many, and fewer than so many more. A sweep READs 64 at once.
const LOCKS_MANY: (u32, u32) = (65, 192);

/// Longer than any live lane holds a lock, however long its requests take: no keeper renews leases here.
pub(super) const LEASE_NS: u64 = 60_000_000;

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
    /// Lanes of each compute node, and of those that join later.
    pub lanes: Vec<u16>,
    /// Compute nodes in the beginning.
    pub compute_nodes: usize,
    /// How numbers become keys; `None`: in bytes next to each other.
    pub digits: Option<Digits>,
    /// How keys and values are stretched, if they are items.
    pub stretch: Option<Stretch>,
    /// Leases of compute nodes that are recovered.
    pub lease_ns: u64,
}

impl TreeCase {
    /// A case whose keys are numbers next to each other. Of `spending`, what is the same for every kind is set here.
    pub(super) fn new(
        draw: &Draw,
        parameters: impl Into<IndexParameters>,
        mut spending: Spending,
        lock_count: u32,
        chunk_bytes: u64,
    ) -> Self {
        (spending.lanes, spending.scratch_bytes_max, spending.generations) = (0, 1 << 30, draw.generations);
        let mut rng = Rng::new(draw.seed ^ 0x5eed_0026);
        spending.options.unlock = Unlock::ALL[rng.below(4) as usize];
        if spending.options.chain_lock_read == ChainedRead::Never && rng.percent(50) {
            spending.options.chain_lock_read = ChainedRead::WhereQuiet;
        }
        Self {
            parameters: parameters.into(),
            spending,
            lock_count,
            chunk_bytes,
            lanes: draw.all_lanes(),
            compute_nodes: draw.lanes.len(),
            digits: None,
            stretch: None,
            lease_ns: LEASE_NS,
        }
    }

    /// The sizes that the options of `draw` ask for.
    pub(super) fn widen(&mut self, draw: &Draw) {
        let wide = draw.wide;
        if wide.is_empty() {
            return;
        }
        let mut rng = Rng::new(draw.seed ^ 0x5eed_0010);
        if let Some(stretch) = &mut self.stretch {
            if wide.has(WideOption::KeysLong) {
                // An operation takes a descent for every 7 bytes.
                stretch.key_repeats = [10, 16, 24][rng.below(3) as usize];
            }
            if wide.has(WideOption::ValuesLong) {
                stretch.value_bytes = [264, 700, 1100][rng.below(3) as usize];
            }
            if wide.has(WideOption::ValuesShort) {
                (stretch.value_bytes, stretch.trims_values) = (8, true);
            }
            self.parameters = self.parameters.below.with_any_length(stretch.parameters());
            self.spending.page_bytes = stretch.page_bytes(self.spending.page_records);
        } else {
            let (mut key_bytes, mut value_bytes) = (self.parameters.key_bytes(), self.parameters.value_bytes());
            if wide.has(WideOption::KeysLong) {
                key_bytes = 64;
            }
            if wide.has(WideOption::ValuesLong) {
                value_bytes = [264, 520, 1024][rng.below(3) as usize];
            }
            let before = self.parameters.node_bytes().0;
            self.parameters.below = self.parameters.below.resized(key_bytes, value_bytes);
            // Room for as many leaves as before.
            self.spending.page_cache_bytes *= self.parameters.node_bytes().0.div_ceil(before) as u64;
        }
        if wide.needs_room() {
            // With more memory there are more chunks to collect.
            self.spending.collected_chunks = self.spending.collected_chunks.max(COLLECTED_CHUNKS);
        }
        if wide.has(WideOption::LockTables) {
            self.lock_count = LOCKS_MANY.0 + Rng::new(draw.seed ^ 0x5eed_0023).below(LOCKS_MANY.1);
        }
        self.fit_chunks();
    }

    /// Makes chunks so large that they have room for two of the largest nodes, and for several of the longest blocks:
    /// collections take a limited number of chunks.
    pub(super) fn fit_chunks(&mut self) {
        let (leaf_bytes, inner_bytes) = self.parameters.node_bytes();
        let block_bytes = self.parameters.any_length.map_or(0, |items| items.longest_place_bytes());
        let least = (2 * leaf_bytes.max(inner_bytes)).max(8 * block_bytes).next_multiple_of(4096) as u64;
        self.chunk_bytes = self.chunk_bytes.max(least);
    }

    /// How numbers become keys and values.
    fn coding(&self, draw: &Draw) -> Coding {
        let key_bytes = self.stretch.map_or(self.parameters.key_bytes(), |stretch| stretch.key_bytes);
        Coding {
            digits: self.digits,
            wide: WideKeys::of(draw.wide, draw.seed, draw.keys, key_bytes),
            is_alike: draw.wide.has(WideOption::ValuesAlike),
            ..Coding::shifted(draw.key_shift)
        }
    }

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
        let lease = place.recovery.map(|recovery| recovery.lease);
        with_index(place, &self.parameters, &spending, |index| match &self.stretch {
            Some(stretch) => then(&With(&Stretched::new(&index, stretch, spending.page_records), lease)),
            None => then(&With(&index, lease)),
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
    const ORPHAN_COLLECTION: &'static [Mark] = &[];
    /// See [`Subject::writes_records_at_once`].
    const WRITES_RECORDS_AT_ONCE: bool;
    /// Whether its leaves have a number of entries that is chosen.
    const HAS_SPANS: bool = false;
    /// Whether only compute nodes in the first rows of a pool can open it.
    const HAS_SEATS: bool = false;
    /// Whether its keys have owners. Sweeps find those by the catalog.
    const HAS_OWNERS: bool = false;
    /// Whether its keys and values have any length.
    const HAS_ITEMS: bool = false;
    /// Whether it scans downwards.
    const SCANS_DOWN: bool = false;
    /// Whether its nodes say which ranges of bytes have no keys.
    const HAS_EMPTY_PARTS: bool = false;

    /// Chunks that a compute node needs of one memory node before its first operation. The other chunks of that memory node
    /// are of no use to it if there are fewer.
    fn chunks_at_once(_: &TreeCase) -> u32 {
        0
    }

    /// Leaves that stay even if they are empty. `None`: the lane that empties a leaf may not know that it does. An index begins
    /// with an empty leaf.
    fn lasting_leaves(_: &TreeCase) -> Option<u64> {
        Some(1)
    }

    /// See [`Subject::draw`].
    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase;

    /// Cases for enumerated deaths.
    fn crash_cases() -> Vec<crash::Case> {
        Vec::new()
    }

    /// A scenario of deaths that only this kind has. The error says what went otherwise.
    fn own_deaths() -> Result<(), String> {
        Ok(())
    }

    /// For [`super::reuse`]: sizes, and how many keys make several leaves. `None`: the index takes no part in epochs.
    fn reuse_case() -> Option<(IndexParameters, u64)> {
        None
    }

    /// Mutants that can be tested in it.
    fn mutants() -> Vec<Mutant> {
        Vec::new()
    }

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
    fn profile_for(_: Mutant) -> Option<Profile> {
        None
    }
}

/// Most levels that a B+-tree with so many inner nodes can have. A root begins with two children, and an inner node that a split
/// makes with half of its separators; the last one of its level, which a bulk load makes, with a child. No inner node goes.
fn levels_max(census: &Census, separators: usize) -> u64 {
    let (mut levels, mut width, mut left) = (1, 1, census.inner_nodes);
    while width <= left {
        left -= width;
        levels += 1;
        width = if width == 1 { 2 } else { (width - 1) * (separators as u64 / 2 + 1) + 1 };
    }
    levels
}

/// The options that histories of this kind may have.
pub(super) fn wide_options<K: TreeKind>() -> WideOptions {
    let mut options = WideOptions::ALL;
    if !K::HAS_SPANS {
        // Their locks are in leaves.
        options = options.without(WideOption::WideLeaves).without(WideOption::LockTables);
    }
    if !K::HAS_ITEMS {
        options = options.without(WideOption::ValuesShort);
    }
    if K::HAS_SEATS {
        options = options.without(WideOption::RowTable);
    }
    if !K::SCANS_DOWN {
        options = options.without(WideOption::ScansDown);
    }
    if K::HAS_OWNERS {
        // What the dead owned is taken over only while others ask for it, and no sweep frees the row before.
        options = options.without(WideOption::Rejoin);
        if K::HAS_ITEMS {
            // A whole operation has no owner that others could send it to.
            options = options.without(WideOption::Packs);
        }
    } else {
        let of_owners =
            [WideOption::Moves, WideOption::Forward, WideOption::Packs, WideOption::Offload, WideOption::Stalls];
        options = of_owners.iter().fold(options, |options, option| options.without(*option));
    }
    options
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
        let mut case = K::draw(draw, rng);
        case.widen(draw);
        case
    }

    fn wide_options(&self) -> WideOptions {
        let recovered = [WideOption::ShortLeases, WideOption::Sweeps, WideOption::LeaseClocks, WideOption::Rejoin];
        recovered.iter().fold(wide_options::<K>(), |options, option| options.without(*option))
    }

    /// The steps of one operation on items may need keys of several compute nodes.
    fn always(&self) -> WideOptions {
        if K::HAS_ITEMS && K::HAS_OWNERS { WideOptions::NONE.with(WideOption::Forward) } else { WideOptions::NONE }
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
        case.coding(draw)
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

    fn unaccounted(&self, case: &TreeCase, census: &Census, stayed: u64) -> Option<String> {
        let tree = case.pool().tree()?;
        let levels_max = levels_max(census, tree.inner.span);
        if u64::from(census.levels) > levels_max {
            return Some(format!("{} levels, and inner nodes for {levels_max}", census.levels));
        }
        let lasting = K::lasting_leaves(case)?;
        (census.empty_leaves > stayed + lasting)
            .then(|| format!("{} empty leaves: {lasting} last, and {stayed} were left", census.empty_leaves))
    }

    fn small_pool(&self, case: &TreeCase, config: &Config, memories: &Memories, chunks: u32) -> Option<Vec<usize>> {
        let reserved = K::chunks_at_once(case) * case.lanes.len() as u32;
        Some(case.pool().small(config, memories, chunks + reserved))
    }

    fn pool_state(
        &self,
        case: &TreeCase,
        config: &Config,
        memories: &Memories,
        down: Option<NodeId>,
    ) -> Option<PoolState> {
        Some(case.pool().state(config, case.lanes.len() as u16, memories, down, K::chunks_at_once(case)))
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
        case.parameters.any_length.is_none()
    }

    fn loses_with_owners(&self, case: &TreeCase) -> bool {
        K::HAS_OWNERS && case.spending.level == Level::Cache
    }

    fn never_leaks(&self, case: &TreeCase) -> bool {
        let blocks = case.parameters.any_length.is_none() || self.holds_all_blocks(case);
        case.spending.returned_nodes == FREE_LIST_HOLDS_ALL && blocks
    }

    fn holds_all_blocks(&self, case: &TreeCase) -> bool {
        case.parameters.any_length.is_some() && case.spending.returned_blocks == FREE_LIST_HOLDS_ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_need_inner_nodes() {
        let levels = |inner_nodes, separators| levels_max(&Census { inner_nodes, ..Census::default() }, separators);
        assert_eq!([0, 1, 2, 3, 6, 7].map(|nodes| levels(nodes, 4)), [1, 2, 2, 3, 3, 4]);
        assert_eq!([3, 5, 6, 11].map(|nodes| levels(nodes, 2)), [3, 3, 4, 5]);
    }
}
