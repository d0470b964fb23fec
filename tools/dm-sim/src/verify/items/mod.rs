//! Items as subjects: slices of seven bytes and more, values inline and in blocks, and places of blocks that are reused
//! at once.
//!
//! The histories are those of the index below; [`stretched`] makes long keys and values of theirs.

pub mod stretched;

use super::draw::Draw;
use super::tree::{COLLECTS_ALL, FREE_LIST_HOLDS_ALL, TreeCase, TreeKind};
use crate::rng::Rng;
use dm_core::marks::Mark;
use dm_core::mutants::Mutant;
use stretched::Stretch;

/// A kind of tree that can have items over it.
pub trait Below: TreeKind {
    /// Name of keys and values of any length over it.
    const ITEMS: &'static str;
    /// The same on a command line.
    const ITEMS_OPTION: &'static str;

    /// See [`TreeKind::rare_marks`].
    const RARE_MARKS: &'static [Mark] = RARE_MARKS;

    /// Changes what was drawn for records of one size.
    fn fit_items(_: &mut TreeCase) {}
}

/// Items over a kind of tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemsOver<K>(pub K);

impl<K: Below> TreeKind for ItemsOver<K> {
    const NAME: &'static str = K::ITEMS;
    const ORPHAN_COLLECTION: &'static [Mark] = K::ORPHAN_COLLECTION;
    /// An entry that is taken back may be the last of its leaf, and only recovery mends a merge that was cut short.
    const WRITES_RECORDS_AT_ONCE: bool = false;
    const HAS_SPANS: bool = K::HAS_SPANS;
    const HAS_OWNERS: bool = K::HAS_OWNERS;
    const HAS_ITEMS: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        with_marks(K::marks())
    }

    fn rare_marks() -> &'static [Mark] {
        K::RARE_MARKS
    }

    fn lasting_leaves(case: &TreeCase) -> Option<u64> {
        K::lasting_leaves(case)
    }

    fn chunks_at_once(case: &TreeCase) -> u32 {
        K::chunks_at_once(case)
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut case = K::draw(draw, rng);
        let (sizes, stretch) = (entry_sizes(rng), stretch(rng));
        let before = case.parameters.node_bytes().0;
        case.parameters = case.parameters.below.resized(sizes.0, sizes.1).with_any_length(stretch.parameters());
        K::fit_items(&mut case);
        // Room for as many leaves as before.
        case.spending.page_cache_bytes *= case.parameters.node_bytes().0.div_ceil(before) as u64;
        spend(&mut case, stretch, rng);
        case
    }

    /// Three need keys with owners.
    fn mutants() -> Vec<Mutant> {
        let below = [Mutant::WALK_BEFORE_REPLAYS, Mutant::ITEMS_PINS_END_EARLY, Mutant::SETTLE_UNCLOSED];
        let mut mutants = [dm_core::items::mutants::DECLARED, &below].concat();
        if !K::HAS_OWNERS {
            let owned = [Mutant::CALLER_UNCHECKED, Mutant::LATE_CALL_FORGOTTEN, Mutant::ASKED_CHANGE_FORGOTTEN];
            mutants.retain(|mutant| !owned.contains(mutant));
        }
        mutants
    }

    /// Two need a compute node that pauses or dies with a place in use while two turns and a walk pass. No such case
    /// occurred in 2,000 histories. The third needs a damaged link: a unit test finds it (`dm_core::items::slot`). The fourth was
    /// found once in some ten thousand histories: an owner begins a change after its caller has settled, and in between a
    /// collection gives the block's place to others.
    fn unseen() -> &'static [Mutant] {
        &[Mutant::WALK_BEFORE_REPLAYS, Mutant::ITEMS_PINS_END_EARLY, Mutant::LINK_UNCHECKED, Mutant::CALLER_UNCHECKED]
    }
}

/// As of the index below. Its inner nodes seldom split here, since keys are longer and there are no more leaves. It
/// merges few leaves, so few places are in limbo, and fewer may be reused when a history ends. Items ask it for no
/// write that could be combined. Whether an entry was changed must be looked up only after a failed request. An entry
/// cannot be taken back only if its lock is never released. Deaths of repairers are enumerated with the index below.
const RARE_MARKS: &[Mark] = &[
    Mark::RESTART,
    Mark::UPPER_SPLIT,
    Mark::COMBINED_WRITE,
    Mark::ENTRY_REVISITED,
    Mark::LAYER_LOST,
    Mark::LIMBO_LEFT,
    Mark::REPAIRER_DIED,
    Mark::SELF_FENCED,
    // Over keys with owners only.
    Mark::CALL_GIVEN_UP,
];

fn with_marks(mut marks: Vec<(&'static str, &'static [Mark])>) -> Vec<(&'static str, &'static [Mark])> {
    marks.push(("items", dm_core::items::MARKS));
    marks
}

/// Bytes of entry keys and of slots.
fn entry_sizes(rng: &mut Rng) -> (usize, usize) {
    ([16, 16, 20, 64][rng.below(4) as usize], [16, 16, 24, 64][rng.below(4) as usize])
}

fn stretch(rng: &mut Rng) -> Stretch {
    Stretch {
        key_bytes: 8,
        value_bytes: [8, 8, 12, 16, 70][rng.below(5) as usize],
        key_repeats: [1, 2, 3, 7][rng.below(4) as usize],
        trims_values: false,
    }
}

fn spend(case: &mut TreeCase, stretch: Stretch, rng: &mut Rng) {
    // In most cases places are reused at once.
    case.spending.returned_blocks = [0, 2, FREE_LIST_HOLDS_ALL, FREE_LIST_HOLDS_ALL][rng.below(4) as usize];
    case.spending.collected_chunks = COLLECTS_ALL;
    case.spending.links = [0, 1, 64][rng.below(3) as usize];
    case.spending.page_bytes = stretch.page_bytes(case.spending.page_records);
    // Keys are shorter here before they are stretched.
    case.digits = case.digits.map(|digits| digits.within(stretch.key_bytes));
    case.stretch = Some(stretch);
}
