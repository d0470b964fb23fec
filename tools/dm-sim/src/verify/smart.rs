//! SMART as a subject. Some cases spread the digits of a key over its bytes, so that leaf splits, header splits and
//! races on one byte are common. Others put all digits in one byte, so that nodes fill up and are replaced. Every
//! technique is on or off. Slots are frozen by masked or by plain CAS, as the fabric offers it.

mod cases;

use super::accounting::{Holdings, Node};
use super::coding::Digits;
use super::crash::Case;
use super::draw::Draw;
use super::items::Below;
use super::memory_walk::{LeafLocks, MemoryWalk, only_holder};
use super::radix::{self, INDEX};
use super::settings::Profile;
use super::subject::{InnerNodeImages, TestAccess, turned};
use super::tree::{COLLECTS_ALL, FREE_LIST_HOLDS_ALL, TreeCase, TreeKind};
use super::wide::WideOption;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::lane::Lane;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::memory::Collection;
use dm_core::mutants::Mutant;
use dm_core::operation::OpError;
use dm_core::radix::slot::{Child, Node as RadixNode, Place, Slot};
use dm_core::remote::NodeGeometry;
use dm_core::smart::layout::LeafState;
use dm_core::smart::parameters::Parameters;
use dm_core::{recovery, smart};
use dm_host::assembly::Spending;
use dm_host::kinds::IndexParameters;

/// SMART trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smart;

/// Bytes of every chunk: room for one of the largest nodes.
const CHUNK_BYTES: u64 = 4096;

/// Words of the lock table that every pool has, and this index does not use.
const LOCK_COUNT: u32 = 1;

impl TreeKind for Smart {
    const NAME: &'static str = "smart";
    const ORPHAN_COLLECTION: &'static [Mark] = dm_core::memory::collect::MARKS;
    const WRITES_RECORDS_AT_ONCE: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("batches", dm_core::compute::batches::MARKS),
            ("limbo", dm_core::memory::epochs::MARKS),
            ("chunks", dm_core::memory::chunks::MARKS),
            ("smart", dm_core::smart::MARKS),
        ]
    }

    /// There are no merges, so none is undone. Deaths of repairers and self-fencing are tested by enumerated deaths. A
    /// nearly empty node below a full one takes more inserts and deletes than most histories have; the scenarios of
    /// reused places have such nodes.
    fn rare_marks() -> &'static [Mark] {
        &[Mark::MERGE_UNDONE, Mark::REPAIRER_DIED, Mark::SELF_FENCED, Mark::NODE_LEFT_OUT, Mark::FROZEN_STAYED]
    }

    fn crash_cases() -> Vec<Case> {
        cases::all()
    }

    fn reuse_case() -> Option<(IndexParameters, u64)> {
        Some((Parameters::with_sizes(8, 16).into(), 60))
    }

    /// Its own mutants, and those of shared code that show in it.
    fn mutants() -> Vec<Mutant> {
        let rooms = [
            &[
                Mutant::LIMBO_TOO_SHORT,
                Mutant::ONE_WINDOW_OF_ROWS,
                Mutant::PINS_END_EARLY,
                Mutant::CLOSED_UNREAD,
                Mutant::CLOSED_KEPT,
                Mutant::WALK_AT_ONCE,
                Mutant::OPEN_AT_ONCE,
                Mutant::IMAGE_AFTER_DATA,
                Mutant::UNLOCK_BY_WRITE,
            ],
            recovery::mutants::DECLARED,
            dm_core::radix::mutants::DECLARED,
            smart::mutants::DECLARED,
        ];
        // Its locks lie in leaves: they are swept by another way, and few lanes wait for one. Sherman's histories try these.
        let not_tried =
            [Mutant::ROW_FREED_UNSWEPT, Mutant::LOOKS_ONCE, Mutant::ONE_WINDOW_SWEPT, Mutant::HEARTBEAT_UNSEEN];
        rooms.concat().into_iter().filter(|mutant| !not_tried.contains(mutant)).collect()
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 16, 32][rng.below(4) as usize],
            // Leaves within a line, across two, across several.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            // From a stream of its own, so that the others draw what they always drew.
            node_slots: if draw.wide.has(WideOption::NodeSlots) {
                8 << Rng::new(draw.seed ^ 0x5eed_0510).below(2)
            } else {
                4
            },
        };
        if matches!(draw.profile, Profile::SlowReaders | Profile::Wraparound) {
            parameters.value_bytes = [48, 64, 120][rng.below(3) as usize];
        }
        // Digits in base 2, 4, 8 or 16; a key has all digits of a number below 256.
        let bits = 1 + rng.below(4);
        let count = 8_u32.div_ceil(bits) as usize;
        let digits = Digits { bits, stride: 1 + rng.below((parameters.key_bytes / count) as u32) as usize };
        let digits = rng.percent(65).then_some(digits);
        let options = Options {
            combine: rng.percent(70),
            hierarchical: rng.percent(70),
            chain_lock_read: if rng.percent(40) { ChainedRead::Always } else { ChainedRead::Never },
            rdwc: rng.percent(40),
            ..Options::default()
        };
        let spending = Spending {
            cache_bytes: [0, 2 << 10, 16 << 10][rng.below(3) as usize],
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
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

impl Below for Smart {
    const ITEMS: &'static str = "any length over smart";
    const ITEMS_OPTION: &'static str = "any-length-over-smart";
    /// Also those of the index below: it has no merges, and enumerated deaths test the others.
    const RARE_MARKS: &'static [Mark] = &[
        Mark::COMBINED_WRITE,
        Mark::ENTRY_REVISITED,
        Mark::LAYER_LOST,
        Mark::MERGE_UNDONE,
        Mark::REPAIRER_DIED,
        Mark::SELF_FENCED,
    ];
}

impl TestAccess for dm_core::smart::Smart<'_> {
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
            if let Ok(Child::Node(kind, _)) = slot.child()
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

impl MemoryWalk for Parameters {
    fn leaf_locks(&self) -> Option<LeafLocks> {
        let leaf = self.leaf();
        let holders = |word| only_holder(word, u64::MAX);
        Some(LeafLocks { place_bytes: leaf.place_bytes, lock_at: leaf.lock_at, holders, is_shared: false })
    }

    fn inner_node_images(&self, geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
        radix::inner_node_images(geometry, memories)
    }

    fn holdings(
        &self,
        parameters: &IndexParameters,
        geometry: &[NodeGeometry],
        memories: &Memories,
    ) -> Result<Holdings, String> {
        radix::holdings(self.leaf().place_bytes, parameters, geometry, memories)
    }

    fn for_each_entry(&self, image: &[u8], see: &mut dyn FnMut(&[u8], &[u8])) {
        let shape = self.leaf();
        // A deleted leaf is no entry. A torn leaf is none either: the operations that READ it have to report it.
        if shape.state(image) == Ok(LeafState::Valid) {
            see(shape.key(image), shape.value(image));
        }
    }
}
