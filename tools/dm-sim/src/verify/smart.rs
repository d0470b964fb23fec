//! SMART as a subject: keys of a few digits that are spread over their bytes, so that leaf and header splits on many levels
//! and races on one byte are common, or all in one byte, so that nodes fill up and are replaced; every technique on or
//! off; slots frozen by masked and by plain CAS, as the fabric has it.

use super::accounting::{Chunk, Holdings, Node as Ready};
use super::coding::{Coding, Digits};
use super::draw::{Draw, Profile};
use super::subject::{HeldLock, Inside, Opened, Picture, Subject, With};
use super::walk;
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::lane::Mark;
use dm_core::radix::slot::{Child, Node, Place, Slot, UNIT_BYTES};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunks::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::smart::Smart;
use dm_core::smart::parameters::Parameters;
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use dm_host::assembly::{Spending, with_smart};

/// Makes SMART trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmartSubject;

/// Bytes of every chunk: room for one of the largest nodes.
const CHUNK_BYTES: u64 = 4096;

/// Words of the lock table that every pool has, and this index does not use.
const LOCK_COUNT: u32 = 1;

/// What nodes of the only index carry.
const INDEX: u8 = 1;

/// What a seed decides about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Sizes.
    pub parameters: Parameters,
    /// What compute nodes spend, and techniques. `lanes` is each compute node's own.
    pub spending: Spending,
    /// How numbers become keys; `None`: in bytes next to each other.
    pub digits: Option<Digits>,
}

fn geometry(config: &Config) -> Vec<NodeGeometry> {
    walk::geometry(config, CHUNK_BYTES, LOCK_COUNT)
}

impl Subject for SmartSubject {
    type Case = Case;

    fn name(&self) -> &'static str {
        "smart"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("batches", dm_core::compute::batches::MARKS),
            ("chunks", dm_core::remote::chunks::MARKS),
            ("smart", dm_core::smart::MARKS),
        ]
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 16, 32][rng.below(4) as usize],
            // Leaves within a line, across two, across several.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
        };
        if matches!(draw.profile, Profile::SlowReaders | Profile::Wraparound) {
            parameters.value_bytes = [48, 64, 120][rng.below(3) as usize];
        }
        // Base 2, 4, 8 or 16, all digits of a number below 256 in the key.
        let bits = 1 + rng.below(4);
        let count = 8_u32.div_ceil(bits) as usize;
        let digits = Digits { bits, stride: 1 + rng.below((parameters.key_bytes / count) as u32) as usize };
        let digits = rng.percent(65).then_some(digits);
        let options = Options {
            combine: rng.percent(70),
            hierarchical: rng.percent(70),
            chain_lock_read: rng.percent(40),
            rdwc: rng.percent(40),
            ..Options::default()
        };
        let spending = Spending {
            lanes: 0,
            cache_bytes: [0, 2 << 10, 16 << 10][rng.below(3) as usize],
            scratch_bytes_max: 1 << 30,
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: [1, 3, 64][rng.below(3) as usize],
            options,
            ..Spending::default()
        };
        Case { parameters, spending, digits }
    }

    fn coding(&self, draw: &Draw, case: &Case) -> Coding {
        Coding { digits: case.digits, ..Coding::shifted(draw.key_shift) }
    }

    fn assumptions(&self, draw: &Draw, case: &Case) -> Assumptions {
        // As the index declares them; asking it would take opening it on a fabric that grants everything.
        let mut needed = Assumptions::empty();
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = geometry(&config);
        let place = walk::place(&geometry, &config, walk::everything(), 0);
        let spending = Spending { lanes: 1, ..case.spending.clone() };
        let asked = with_smart(&place, &case.parameters, &spending, |index| {
            needed = dm_core::index::Index::assumptions(index);
        });
        debug_assert!(asked.is_ok(), "{:?}", asked.err());
        needed
    }

    fn format(&self, _: &Case, config: &Config, memories: &mut Memories) {
        walk::format(config, CHUNK_BYTES, LOCK_COUNT, memories);
    }

    fn open(
        &self,
        draw: &Draw,
        case: &Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = geometry(config);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            let place = walk::place(&geometry, config, guarantees, number as u16);
            let spending = Spending { lanes: draw.lanes[number].into(), ..case.spending.clone() };
            with_smart(&place, &case.parameters, &spending, |index| then(&With(index)))
                .map_err(|error| error.to_string())
        };
        walk::open_all(draw.lanes.len(), &open, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        let lock_at = case.parameters.leaf().lock_at;
        let mut held = Vec::new();
        visit(config, memories, |slot, _| {
            let Ok(Child::Leaf(leaf)) = slot.child() else { return };
            let word = memories.get(leaf.node()).map_or(0, |node| node.host.word(leaf.plus(lock_at).offset()));
            if word != 0 {
                held.push(HeldLock { node: leaf.node(), compute_node: (word as u16).wrapping_sub(1) });
            }
        });
        held
    }

    fn holdings(&self, case: &Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(holdings(case, config, memories))
    }

    fn never_leaks(&self, _: &Case) -> bool {
        true
    }

    fn picture(&self, _: &Case, config: &Config, memories: &Memories) -> Picture {
        let mut picture = Picture::default();
        visit(config, memories, |slot, image| {
            if picture.root.is_none() {
                picture.root = Some((Address::from_bits(slot.0), 0));
            }
            if let Some(image) = image {
                picture.nodes.push((Address::from_bits(slot.0), image.to_vec()));
            }
        });
        picture
    }
}

/// Chunks of the index, and what it reaches of them.
fn holdings(case: &Case, config: &Config, memories: &Memories) -> Result<Holdings, String> {
    let mut holdings = Holdings::default();
    for (number, geometry) in (0..).zip(&geometry(config)) {
        let Some(memory) = memories.get(NodeId(number)) else { continue };
        for chunk in 0..geometry.chunk_count {
            let entry = ChunkWord(memory.host.word(geometry.chunk_entry(chunk))).decode();
            let ChunkEntry::Granted(grant) = entry.map_err(|what| format!("chunk {chunk} of {number}: {what}"))? else {
                continue;
            };
            if matches!(grant.kind, ChunkKind::Leaf | ChunkKind::Inner) {
                let (offset, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
                let node_bytes = UNIT_BYTES as u64;
                holdings.chunks.push(Chunk { node: NodeId(number), offset, bytes, node_bytes, is_of_units: true });
            }
        }
    }
    visit(config, memories, |slot, _| {
        let (place, bytes) = match slot.child() {
            Ok(Child::Leaf(place)) => (place, case.parameters.leaf().place_bytes),
            Ok(Child::Node(kind, place)) => (place, kind.bytes()),
            _ => return,
        };
        holdings.reached.push(Ready { node: place.node(), offset: place.offset(), bytes: bytes as u64 });
    });
    Ok(holdings)
}

/// Bytes of a node, if they are there.
fn image(memories: &Memories, place: Place, bytes: usize) -> Option<&[u8]> {
    let start = place.offset() as usize;
    memories.get(place.node())?.host.bytes().get(start..start + bytes)
}

/// Calls `see` with every slot that is reached from the root's, that first, and the image of the node it leads to.
fn visit(config: &Config, memories: &Memories, mut see: impl FnMut(Slot, Option<&[u8]>)) {
    let geometry = geometry(config);
    let (Some(home), Some(number)) = (geometry.first(), IndexNumber::new(0)) else { return };
    let Some(node) = memories.get(NodeId(0)) else { return };
    let mut slots = vec![Slot(node.host.word(root_offset(home, number)))];
    while let Some(slot) = slots.pop() {
        match slot.child() {
            Ok(Child::Leaf(_)) => see(slot, None),
            Ok(Child::Node(kind, place)) => {
                let image = image(memories, place, kind.bytes());
                see(slot, image);
                if let Some(Ok(node)) = image.map(|image| Node::new(image, kind, INDEX)) {
                    slots.extend(node.slots().filter(|slot| !slot.is_empty()));
                }
            }
            _ => {}
        }
    }
}

impl Inside for Smart<'_> {
    fn locks_held(&self) -> usize {
        Smart::locks_held(self)
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Ready)) {
        self.space().for_each_ready(&mut |_, place, bytes| {
            visit(Ready { node: place.node(), offset: place.offset(), bytes });
        });
    }

    fn retired_bytes(&self) -> u64 {
        self.space().retired_and_lost().0
    }

    fn recall(&self, picture: &Picture) {
        if picture.nodes.is_empty() {
            self.cache().clear();
        }
        self.cache().set_root(Slot(picture.root.map_or(0, |(root, _)| root.to_bits())));
        for (address, image) in &picture.nodes {
            let slot = Slot(address.to_bits());
            if let Ok(Child::Node(kind, _)) = slot.child()
                && let Ok(node) = Node::new(image, kind, INDEX)
            {
                self.cache().insert(slot, &node);
            }
        }
    }
}
