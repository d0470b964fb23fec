//! Items over Sherman as a subject: slices of seven bytes, values inline and in blocks, places of blocks used again at once.
//!
//! The histories are those of any index; [`stretched`] makes long keys and values of theirs.

pub mod stretched;

use super::accounting::{Chunk, Holdings, Node};
use super::draw::Draw;
use super::sherman::{Case as Below, ShermanSubject};
use super::subject::{HeldLock, Opened, Picture, Subject, With};
use super::walk;
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::index::Index;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::key::{KeyShape, ROOT_LAYER};
use dm_core::items::parameters::Parameters;
use dm_core::items::slot::Slot;
use dm_core::lane::Mark;
use dm_core::sherman::layout::{Leaf, SPAN_MAX};
use dm_core::verbs::{Assumptions, Guarantees};
use dm_host::assembly::{Place, Spending, with_items, with_sherman};
use std::collections::BTreeSet;
use stretched::{Stretched, VALUE_REPEATS_MAX};

/// Makes items over Sherman.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemsSubject;

/// More blocks than a history retires.
const SHELF_HOLDS_ALL: usize = 4096;

/// Keys of histories.
const KEY_BYTES: usize = 8;

/// What a seed decides about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The index below. Its spending is that of both.
    pub below: Below,
    /// Bytes of the values of the history.
    pub value_bytes: usize,
    /// How long a byte of a key becomes.
    pub key_repeats: usize,
}

impl Case {
    const fn parameters(&self) -> Parameters {
        Parameters {
            key_bytes_max: KEY_BYTES * self.key_repeats,
            value_bytes_max: self.value_bytes * VALUE_REPEATS_MAX,
        }
    }

    /// Opens it at `place` and passes it on, stretched.
    fn open<R>(
        &self,
        place: &Place<'_>,
        spending: &Spending,
        run: impl FnOnce(&Stretched<'_, dm_core::items::Items<'_, dm_core::sherman::Sherman<'_>>>) -> R,
    ) -> Result<R, String> {
        let inside = with_sherman(place, &self.below.parameters, spending, |below| {
            with_items(place, below, below.tree().requests, &self.parameters(), spending, |items| {
                let (key_repeats, page_records) = (self.key_repeats, spending.page_records);
                run(&Stretched::new(items, KEY_BYTES, self.value_bytes, key_repeats, page_records))
            })
        });
        inside.and_then(|inside| inside).map_err(|error| error.to_string())
    }
}

impl Subject for ItemsSubject {
    type Case = Case;

    fn name(&self) -> &'static str {
        "items"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        let mut marks = ShermanSubject.marks();
        marks.push(("items", dm_core::items::MARKS));
        marks
    }

    /// As Sherman's; and layers whose key another compute node changes between the two steps of making one.
    fn rare_marks(&self) -> &'static [Mark] {
        &[Mark::Restart, Mark::UpperSplit]
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut below = ShermanSubject.draw(draw, rng);
        below.parameters.key_bytes = [16, 16, 20, 64][rng.below(4) as usize];
        below.parameters.value_bytes = [16, 16, 24, 64][rng.below(4) as usize];
        // Places come back at once, mostly.
        below.spending.returned_blocks = [0, 2, SHELF_HOLDS_ALL, SHELF_HOLDS_ALL][rng.below(4) as usize];
        below.spending.links = [0, 1, 64][rng.below(3) as usize];
        let value_bytes = [8, 8, 12, 16, 70][rng.below(5) as usize];
        let key_repeats = [1, 2, 3, 7][rng.below(4) as usize];
        below.spending.page_bytes = Stretched::<dm_core::sherman::Sherman<'_>>::page_bytes(
            KEY_BYTES,
            value_bytes,
            key_repeats,
            below.spending.page_records,
        );
        Case { below, value_bytes, key_repeats }
    }

    fn assumptions(&self, draw: &Draw, case: &Case) -> Assumptions {
        // As the index declares them; asking it would take opening it on a fabric that grants everything.
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = case.below.geometry(&config);
        let place = walk::place(&geometry, &config, walk::everything(), 0);
        let spending = Spending { lanes: 1, ..case.below.spending.clone() };
        let asked = case.open(&place, &spending, |index| index.assumptions());
        debug_assert!(asked.is_ok(), "{:?}", asked.err());
        asked.unwrap_or(Assumptions::empty())
    }

    fn format(&self, case: &Case, config: &Config, memories: &mut Memories) {
        ShermanSubject.format(&case.below, config, memories);
    }

    fn open(
        &self,
        draw: &Draw,
        case: &Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.below.geometry(config);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            let place = walk::place(&geometry, config, guarantees, number as u16);
            let spending = Spending { lanes: draw.lanes[number].into(), ..case.below.spending.clone() };
            case.open(&place, &spending, |index| then(&With(index)))
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        ShermanSubject.remote_locks_held(&case.below, config, memories)
    }

    fn picture(&self, case: &Case, config: &Config, memories: &Memories) -> Picture {
        ShermanSubject.picture(&case.below, config, memories)
    }

    fn bulk_loads(&self) -> bool {
        false
    }

    fn holdings(&self, case: &Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(holdings(case, config, memories))
    }

    fn never_leaks(&self, case: &Case) -> bool {
        case.below.spending.returned_blocks == SHELF_HOLDS_ALL && ShermanSubject.never_leaks(&case.below)
    }
}

/// What the index below holds, and the blocks that its entries name.
fn holdings(case: &Case, config: &Config, memories: &Memories) -> Result<Holdings, String> {
    let mut holdings = super::sherman::holdings(&case.below, config, memories)?;
    let parameters = case.parameters();
    let longest = class_bytes(class_of(block_bytes(parameters.key_bytes_max, parameters.value_bytes_max))) as u64;
    let shape = case.below.parameters.leaf();
    let keys = KeyShape::new(shape.key_bytes);
    let mut links: Vec<(u64, u64)> = Vec::new();
    let mut blocks: Vec<(u64, Node)> = Vec::new();
    super::sherman::for_each_leaf(&case.below, config, memories, &mut |image| {
        let leaf = Leaf::new(&shape, image);
        let mut slots = [0; SPAN_MAX];
        let count = leaf.sorted(&vec![0; shape.key_bytes], None, &mut slots);
        for &slot in &slots[..count] {
            let (mut entry_key, mut value) = (vec![0; shape.key_bytes], vec![0; shape.value_bytes]);
            leaf.read_key(slot.into(), &mut entry_key);
            leaf.read_value(slot.into(), &mut value);
            let layer = keys.read(&entry_key).map_or(u64::MAX, |entry| entry.layer);
            match Slot::read(&value) {
                Some(Slot::Block(pointer)) => {
                    let bytes = class_bytes(class_of(pointer.bytes as usize)) as u64;
                    blocks.push((layer, Node { node: pointer.node(), offset: pointer.offset(), bytes }));
                }
                Some(Slot::Link(below)) => links.push((layer, below)),
                _ => {}
            }
        }
    })?;
    // A layer that was made and never linked names a block that is named, or was, by the entry it was made for.
    let mut linked = BTreeSet::from([ROOT_LAYER]);
    while let Some(at) = links.iter().position(|(from, _)| linked.contains(from)) {
        linked.insert(links.swap_remove(at).1);
    }
    let named: Vec<Node> =
        blocks.into_iter().filter(|(layer, _)| linked.contains(layer)).map(|(_, node)| node).collect();
    if let Some(long) = named.iter().find(|node| node.bytes > longest) {
        return Err(format!("a block of {} bytes at {}:{:#x}", long.bytes, long.node.0, long.offset));
    }
    holdings.reached.extend(named);
    debug_assert!(holdings.chunks.iter().all(|chunk: &Chunk| chunk.bytes > 0));
    Ok(holdings)
}
