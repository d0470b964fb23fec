//! Dolphin as a subject. Long keys and values make leaves of seven records, so that they are cut often; short ones make
//! leaves in which many lanes meet. Some cases spread the digits of a key over its bytes, so that cuts need nodes.

mod cases;
mod late_repair;

use super::accounting::{Holdings, Node};
use super::blocks::Found;
use super::chunk_table::{chunks, pool_epoch};
use super::coding::Digits;
use super::crash::Case;
use super::draw::Draw;
use super::items::Below;
use super::memory_walk::{LeafLocks, MemoryWalk};
use super::radix::{INDEX, image};
use super::settings::Profile;
use super::subject::{InnerNodeImages, TestAccess, turned};
use super::tree::{COLLECTS_ALL, FREE_LIST_HOLDS_ALL, TreeCase, TreeKind};
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::dolphin;
use dm_core::dolphin::layout::leaf::{Leaf, Value, place_of};
use dm_core::dolphin::layout::shape::{LEAF_BYTES, SPAN_MAX};
use dm_core::dolphin::parameters::Parameters;
use dm_core::dolphin::spear::Spear;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::memory::Collection;
use dm_core::mutants::Mutant;
use dm_core::operation::OpError;
use dm_core::radix::slot::{Child, Node as RadixNode, Place, Slot, UNIT_BYTES};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunk::ChunkKind;
use dm_core::verbs::NodeId;
use dm_host::assembly::Spending;
use dm_host::kinds::IndexParameters;
use std::collections::HashSet;
use std::rc::Rc;

/// Dolphin trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dolphin;

/// Bytes of every chunk: four leaves, or one of the largest nodes.
const CHUNK_BYTES: u64 = 4096;

/// Words of the lock table that every pool has, and this index does not use.
const LOCK_COUNT: u32 = 1;

impl TreeKind for Dolphin {
    const NAME: &'static str = "dolphin";
    const ORPHAN_COLLECTION: &'static [Mark] = dm_core::memory::collect::MARKS;
    const WRITES_RECORDS_AT_ONCE: bool = true;
    const HAS_EMPTY_PARTS: bool = true;
    const HAS_SEATS: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("batches", dm_core::compute::batches::MARKS),
            ("limbo", dm_core::memory::epochs::MARKS),
            ("chunks", dm_core::memory::chunks::MARKS),
            ("dolphin", dolphin::MARKS),
        ]
    }

    /// There is no redo record and no merge. Deaths of repairers and self-fencing are tested by enumerated deaths. A node
    /// is seen torn only if it changes twice between two lines of one READ; a property test of the look-up makes such
    /// images.
    fn rare_marks() -> &'static [Mark] {
        &[Mark::TORN_READ, Mark::REDO_REPLAYED, Mark::MERGE_UNDONE, Mark::REPAIRER_DIED, Mark::SELF_FENCED]
    }

    fn crash_cases() -> Vec<Case> {
        cases::all()
    }

    fn own_deaths() -> Result<(), String> {
        late_repair::clears_nothing_of_others()
    }

    fn reuse_case() -> Option<(IndexParameters, u64)> {
        // Leaves of seven records.
        Some((Parameters::with_sizes(64, 63).into(), 60))
    }

    fn mutants() -> Vec<Mutant> {
        let rooms = [
            &[
                Mutant::PINS_END_EARLY,
                Mutant::CLOSED_UNREAD,
                Mutant::CLOSED_KEPT,
                Mutant::WALK_AT_ONCE,
                Mutant::TAKEOVER_UNFENCED,
                Mutant::LEASE_BY_REMOTE_CLOCK,
                Mutant::LEAVES_UNSWEPT,
                Mutant::REPLACED_UNFROZEN,
                Mutant::RETIRED_IN_VAIN,
                Mutant::REUSED_AT_ONCE,
            ],
            dolphin::mutants::DECLARED,
        ];
        rooms.concat()
    }

    fn profile_for(mutant: Mutant) -> Option<Profile> {
        // A READ has to last while one key is deleted and another one inserted.
        (mutant == Mutant::CELL_GIVEN_AWAY).then_some(Profile::SlowReaders)
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 16, 32, 40, 64][rng.below(6) as usize],
            value_bytes: [8, 8, 16, 48, 63][rng.below(5) as usize],
            paper_leaves: false,
        };
        // Some have values in blocks. The other cases are what they were before there were blocks.
        let mut of_blocks = Rng::new(draw.seed ^ 0x5eed_b10c);
        if of_blocks.percent(35) {
            parameters.value_bytes = [64, 72, 264, 1024][of_blocks.below(4) as usize];
        }
        // Digits in base 2, 4, 8 or 16; a key has all digits of a number below 256.
        let bits = 1 + rng.below(4);
        let count = 8_u32.div_ceil(bits) as usize;
        let digits = Digits { bits, stride: 1 + rng.below((parameters.key_bytes / count) as u32) as usize };
        let digits = rng.percent(50).then_some(digits);
        let mut options = Options { combine: rng.percent(70), rdwc: rng.percent(40), ..Options::default() };
        // Some have other techniques; these draws, too, leave the other cases as they were.
        let mut of_options = Rng::new(draw.seed ^ 0x5eed_0d01);
        parameters.paper_leaves = of_options.percent(10);
        options.shared_updates = !of_options.percent(10);
        options.shared_inserts = of_options.percent(30);
        let spending = Spending {
            cache_bytes: [0, 2 << 10, 16 << 10][rng.below(3) as usize],
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            leaf_locks: [1, 3, 64][rng.below(3) as usize],
            // Returned memory is remembered piece by piece, so nothing is lost, whatever the other limits are.
            returned_nodes: FREE_LIST_HOLDS_ALL,
            collected_chunks: COLLECTS_ALL,
            options,
            ..Spending::default()
        };
        TreeCase { digits, ..TreeCase::new(draw, parameters, spending, LOCK_COUNT, CHUNK_BYTES) }
    }
}

impl Below for Dolphin {
    const ITEMS: &'static str = "any length over dolphin";
    const ITEMS_OPTION: &'static str = "any-length-over-dolphin";
    const RARE_MARKS: &'static [Mark] = &[Mark::COMBINED_WRITE, Mark::ENTRY_REVISITED, Mark::LAYER_LOST];
}

impl TestAccess for dolphin::Dolphin<'_> {
    fn locks_held(&self) -> usize {
        Self::locks_held(self)
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        let visit = &mut |_, place: Place, bytes| visit(Node { node: place.node(), offset: place.offset(), bytes });
        self.space().for_each_ready(visit);
        self.space().for_each_waiting(visit);
    }

    fn retired_bytes(&self) -> u64 {
        self.space().retired_and_lost().0
    }

    /// Newer copies would stay if there were any.
    fn restore_copies(&self, images: &InnerNodeImages) {
        let cache = self.cache();
        cache.clear();
        cache.set_root(Slot(images.root.map_or(0, |(root, _)| root.to_bits())), images.epoch);
        for (address, image) in &images.nodes {
            let slot = Slot(address.to_bits());
            if let Some((kind, _)) = slot.below()
                && let Ok(node) = RadixNode::new(image, kind, INDEX)
            {
                cache.insert(slot, &node, images.epoch);
            }
        }
    }

    fn demand_collection(&self) -> bool {
        self.space().collection().map(Collection::demand).is_some()
    }

    fn has_epochs(&self) -> bool {
        Self::has_epochs(self)
    }

    async fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        turned(Self::turn(self, lane).await)
    }

    async fn turn_after<'a>(&'a self, lane: &'a Lane<'_>, waited: (u64, u64)) -> Result<(), OpError> {
        turned(Self::turn_after(self, lane, waited).await)
    }
}

/// Calls `see` with every slot that is reached from the root slot, which comes first, and with the image of its node.
/// Heirs of retired leaves are slots, too.
fn visit<'m>(
    parameters: &Parameters,
    geometry: &[NodeGeometry],
    memories: &'m Memories,
    mut see: impl FnMut(Slot, Option<&'m [u8]>),
) {
    let (Some(home), Some(number)) = (geometry.first(), IndexNumber::new(0)) else { return };
    let (Some(node), Some(shape)) = (memories.get(NodeId(0)), parameters.leaf()) else { return };
    // Each with the bytes that have slots in its node.
    let root = node.host.word(root_offset(home, number));
    let mut slots = vec![(Slot::of_root(root).unwrap_or(Slot(root)), Rc::new(HashSet::new()))];
    while let Some((slot, beside)) = slots.pop() {
        match slot.tile_child() {
            Ok(Child::Leaf(leaf)) => {
                see(slot, None);
                if let Some(image) = image(memories, place_of(leaf), LEAF_BYTES)
                    && let Ok(found) = Leaf::new(&shape, image, leaf, INDEX)
                    && found.spear().is_retired()
                {
                    // An heir whose byte has a slot is found there, if it has not been replaced since.
                    let has_slot = |heir: &Slot| heir.partial() != slot.partial() && beside.contains(&heir.partial());
                    let heirs = found.heirs().into_iter().filter(|heir| !heir.is_empty() && !has_slot(heir));
                    slots.extend(heirs.map(|heir| (heir, Rc::clone(&beside))));
                }
            }
            Ok(Child::Node(kind, place)) => {
                let image = image(memories, place, kind.bytes());
                see(slot, image);
                if let Some(Ok(node)) = image.map(|image| RadixNode::new(image, kind, INDEX)) {
                    let below: Vec<_> = node.slots().filter(|slot| !slot.is_empty()).map(Slot::thawed).collect();
                    let beside = Rc::new(below.iter().map(|slot| slot.partial()).collect());
                    slots.extend(below.into_iter().map(|slot| (slot, Rc::clone(&beside))));
                }
            }
            _ => {}
        }
    }
}

/// The blocks that the leaf at `leaf` names, unless its heirs name them.
fn blocks_of(parameters: &Parameters, memories: &Memories, leaf: Address) -> Vec<Node> {
    let (Some(shape), Some(image)) = (parameters.leaf(), image(memories, place_of(leaf), LEAF_BYTES)) else {
        return Vec::new();
    };
    let Some(found) = Leaf::new(&shape, image, leaf, INDEX).ok().filter(|found| !found.spear().is_retired()) else {
        return Vec::new();
    };
    let blocks = (0..shape.span).filter_map(|cell| match found.value(cell) {
        Ok(Value::Block(name)) => Some(name.place()),
        _ => None,
    });
    let bytes = parameters.block_bytes() as u64;
    blocks.map(|place| Node { node: place.node(), offset: place.offset(), bytes }).collect()
}

impl MemoryWalk for Parameters {
    fn leaf_locks(&self) -> Option<LeafLocks> {
        let holders = |word| Spear(word).taken().map(|(seat, _)| seat.row().0).collect();
        Some(LeafLocks { place_bytes: LEAF_BYTES, lock_at: 0, holders, is_shared: true })
    }

    fn inner_node_images(&self, geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
        let mut images = InnerNodeImages { epoch: pool_epoch(geometry, memories), ..InnerNodeImages::default() };
        visit(self, geometry, memories, |slot, image| {
            if images.root.is_none() {
                images.root = Some((Address::from_bits(slot.0), 0));
            }
            if let Some(image) = image {
                images.nodes.push((Address::from_bits(slot.0), image.to_vec()));
            }
        });
        images
    }

    fn holdings(
        &self,
        parameters: &IndexParameters,
        geometry: &[NodeGeometry],
        memories: &Memories,
    ) -> Result<Holdings, String> {
        let mut found = Found::nothing(parameters);
        let sizes = |kind| (kind != ChunkKind::Block || found.is_some()).then_some(UNIT_BYTES as u64);
        let chunks = chunks(geometry, memories, sizes, true)?;
        let mut holdings = Holdings { chunks, ..Holdings::default() };
        visit(self, geometry, memories, |slot, _| {
            let (place, bytes) = match slot.tile_child() {
                Ok(Child::Leaf(leaf)) => {
                    let place = place_of(leaf);
                    if let Some((found, image)) = found.as_mut().zip(image(memories, place, LEAF_BYTES)) {
                        found.add(parameters, image);
                    }
                    holdings.reached.extend(blocks_of(self, memories, leaf));
                    (place, LEAF_BYTES)
                }
                Ok(Child::Node(kind, place)) => (place, kind.bytes()),
                _ => return,
            };
            holdings.reached.push(Node { node: place.node(), offset: place.offset(), bytes: bytes as u64 });
        });
        if let Some(found) = found {
            holdings.reached.extend(found.blocks()?);
        }
        Ok(holdings)
    }

    fn for_each_entry(&self, image: &[u8], see: &mut dyn FnMut(&[u8], &[u8])) {
        let Some(shape) = self.leaf() else { return };
        let address = Address::new(NodeId(0), 0, Leaf::generation_of(image));
        let Ok(leaf) = Leaf::new(&shape, image, address, INDEX) else { return };
        let mut cells = [0; SPAN_MAX];
        let Ok(count) = leaf.sorted(&[], None, &mut cells) else { return };
        for cell in cells.iter().take(count) {
            let cell = usize::from(*cell);
            if let Ok(Value::Here(value)) = leaf.value(cell) {
                see(leaf.key(cell), value);
            }
        }
    }
}
