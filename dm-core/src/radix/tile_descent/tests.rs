//! Descents in trees of tiles that lie in a piece of memory, against a model of the tree.

extern crate std;
use super::super::cache::NodeCache;
use super::super::slot::{self, NodeType, Place, SLOTS_AT};
use super::super::space::{Arena, Space};
use super::super::tree::Scratch;
use super::*;
use crate::lane::NO_DEADLINE_NS;
use crate::machine::{Step, poll_once};
use crate::memory::chunks::RequestIds;
use crate::remote::NodeGeometry;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::place::NodeClass;
use crate::remote::row::Member;
use crate::remote::superblock::small_for_tests;
use crate::verbs::{Capabilities, Completion, LaneId, NodeId, Verb};
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::AtomicU32;
use proptest::prelude::*;
use spin::Mutex;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

const INDEX: u8 = 4;
const KEY: Range<usize> = 1024..1032;
const SCRATCH_BYTES: usize = 32 << 10;
/// Bytes of a key are below this, so that random keys meet nodes at every level.
const BYTES: u8 = 6;

/// A node of the model.
struct ModelNode {
    begin: usize,
    prefix: Vec<u8>,
    to: Slot,
    slots: Vec<(Tile, ModelChild)>,
}

enum ModelChild {
    Leaf(Address),
    Void,
    Node(Box<ModelNode>),
}

/// The memory of memory node 0, and what of it is in use.
struct Memory {
    bytes: Vec<u8>,
    next: usize,
    root: Place,
    random: u64,
}

impl Memory {
    fn new(geometry: &NodeGeometry, seed: u64) -> Self {
        let heap = (geometry.heap as usize).next_multiple_of(64);
        Self { bytes: vec![0; 1 << 20], next: heap + 64, root: Place::new(NodeId(0), heap as u64), random: seed | 1 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn take(&mut self, bytes: usize) -> Place {
        let place = Place::new(NodeId(0), self.next as u64);
        self.next += bytes.next_multiple_of(64);
        place
    }

    /// Grows a node below `prefix`, and its children.
    fn grow(&mut self, prefix: &[u8]) -> ModelNode {
        let (begin, mut key) = (prefix.len(), prefix.to_vec());
        for _ in 0..self.draw(3).min(6_u64.saturating_sub(begin as u64)) {
            key.push(self.draw(BYTES.into()) as u8);
        }
        let mut slots = vec![];
        let mut low = 0;
        while low < BYTES {
            let last = match self.draw(3) {
                0 if low + 2 < BYTES => low + 1,
                1 => u8::MAX,
                _ => low,
            };
            let last = if low + 1 == BYTES { u8::MAX } else { last };
            let child = match self.draw(4) {
                0 | 1 if low == last && key.len() < 7 => {
                    ModelChild::Node(Box::new(self.grow(&[key.as_slice(), &[low]].concat())))
                }
                2 => ModelChild::Void,
                _ => {
                    let generation = self.draw(64) as u8;
                    ModelChild::Leaf(Address::new(NodeId(0), self.take(64).offset(), generation))
                }
            };
            slots.push((Tile::new(low, last).unwrap(), child));
            low = if last == u8::MAX { BYTES } else { last + 1 };
        }
        let kind = NodeType::new(2 + u8::from(slots.len() > 8)).unwrap();
        let to = Slot::tile_node(prefix.last().copied().unwrap_or(0), kind, self.take(kind.bytes()));
        let mut words: Vec<Slot> = slots.iter().map(|(tile, child)| child.word(*tile)).collect();
        // The first slot stays where it is; the others were appended in any order.
        for n in 1..words.len() {
            let other = 1 + self.draw(words.len() as u64 - 1) as usize;
            words.swap(n, other);
        }
        let header = Header::new(kind, begin, key.len(), &key);
        let mut image = vec![0; kind.bytes()];
        slot::build(&mut image, &header, INDEX, words);
        let at = to.below().unwrap().1.offset() as usize;
        self.bytes[at..at + image.len()].copy_from_slice(&image);
        ModelNode { begin, prefix: key, to, slots }
    }

    fn word(&mut self, place: Place) -> &mut [u8; 8] {
        self.bytes[place.offset() as usize..].first_chunk_mut().unwrap()
    }

    fn set(&mut self, place: Place, word: Slot) {
        *self.word(place) = word.0.to_le_bytes();
    }

    /// The slots of a node.
    fn all_slots(&mut self, to: Slot) -> Vec<(Place, Slot)> {
        let (kind, place) = to.below().unwrap();
        let places = (0..kind.slots()).map(|number| place.plus(SLOTS_AT + 8 * number));
        places.map(|place| (place, Slot(u64::from_le_bytes(*self.word(place))))).collect()
    }

    /// Those that are in use.
    fn slots(&mut self, to: Slot) -> Vec<(Place, Slot)> {
        self.all_slots(to).into_iter().filter(|(_, slot)| !slot.is_empty()).collect()
    }

    /// Executes the requests of an operation until it ends; returns its result and how many requests there were.
    fn run<T>(&mut self, lane: &Lane<'_>, operation: impl Future<Output = T>) -> (T, usize) {
        let (port, mut operation, mut count) = (lane.port(), pin!(operation), 0);
        loop {
            match poll_once(port, operation.as_mut()) {
                Step::Done(result) => return (result, count),
                Step::Waiting => {}
                Step::Requests => {
                    let requests = port.requests().to_vec();
                    let scratch = port.begin().unwrap();
                    for (position, request) in requests.iter().enumerate() {
                        count += 1;
                        let (at, local, bytes) =
                            (request.offset as usize, request.local as usize, request.bytes as usize);
                        let mut value = 0;
                        match request.verb {
                            Verb::Read => scratch[local..local + bytes].copy_from_slice(&self.bytes[at..at + bytes]),
                            Verb::Write => self.bytes[at..at + bytes].copy_from_slice(&scratch[local..local + bytes]),
                            Verb::Cas => {
                                let [compare, swap, ..] = request.operands;
                                let word = self.word(Place::new(request.node, request.offset));
                                value = u64::from_le_bytes(*word);
                                if value == compare {
                                    *word = swap.to_le_bytes();
                                }
                            }
                            other => panic!("{other:?}"),
                        }
                        port.complete(position, Completion { value, ..Completion::default() });
                    }
                    port.finish(scratch, 0);
                }
            }
        }
    }
}

impl ModelChild {
    fn word(&self, tile: Tile) -> Slot {
        match self {
            Self::Leaf(leaf) => Slot::tile_leaf(tile.low(), *leaf).unwrap(),
            Self::Void => Slot::void(tile),
            Self::Node(node) => node.to,
        }
    }
}

impl ModelNode {
    /// Where a descent to `key` ends, and the tile of the slot that leads there.
    fn end(&self, key: &[u8]) -> (TileEnd, Option<Tile>) {
        self.end_below(key, None)
    }

    fn end_below(&self, key: &[u8], to: Option<Tile>) -> (TileEnd, Option<Tile>) {
        if let Some(at) = (self.begin..self.prefix.len()).find(|&at| key[at] != self.prefix[at]) {
            return (TileEnd::Header(at), to);
        }
        let (tile, child) = self.slots.iter().find(|(tile, _)| tile.has(key[self.prefix.len()])).unwrap();
        match child {
            ModelChild::Leaf(leaf) => (TileEnd::Leaf(*leaf), Some(*tile)),
            ModelChild::Void => (TileEnd::Void(*tile), Some(*tile)),
            ModelChild::Node(node) => node.end_below(key, Some(*tile)),
        }
    }

    fn visit(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        for (_, child) in &self.slots {
            if let ModelChild::Node(node) = child {
                node.visit(visit);
            }
        }
    }

    fn all(&self) -> Vec<Slot> {
        let mut all = vec![];
        self.visit(&mut |node| all.push(node.to));
        all
    }
}

/// Runs `test` on a tree of tiles that was drawn from `seed`.
fn with_tree(seed: u64, test: impl FnOnce(&Tree<'_>, &Lane<'_>, &mut Memory, &ModelNode)) {
    let geometry = [small_for_tests()];
    let mut memory = Memory::new(&geometry[0], seed);
    let model = memory.grow(&[]);
    let root = memory.root;
    memory.set(root, model.to);
    let (requests, words) = (RequestIds::default(), (0..16 << 10).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let arenas: Vec<_> = (0..NodeClass::COUNT).map(|_| Mutex::new(Arena::default())).collect();
    let space = Space::new(&arenas);
    space.add_chunk(NodeClass::Inner, NodeId(0), 768 << 10, 128 << 10);
    assert!(memory.next < 768 << 10, "the tree is too large");
    let tree = Tree {
        number: IndexNumber::new(usize::from(INDEX) - 1).unwrap(),
        index: INDEX,
        owner: Member { row: RowId(1), incarnation: 1, nonce: 1 },
        requests: &requests,
        geometry: &geometry,
        root,
        capabilities: Capabilities {
            masked_atomics: false,
            device_bytes: 0,
            inline_bytes_max: 64,
            outstanding_reads_max: 16,
            chain_requests_max: 16,
            fencing: true,
            crash_atomic_bytes: 64,
            write_turn_ns_min: 0,
        },
        combine: true,
        space,
        cache: NodeCache::new(&words),
        epochs: None,
        looks: AtomicU32::new(0),
        scratch: Scratch {
            last: 0..0,
            small: 0,
            recovery: 0..0,
            fresh_leaf_at: 1536,
            leaves_at: 1600,
            leaf_stride: 64,
            leaves_at_once: 1,
            build_at: 2048,
            path_at: 4608,
            nodes_at: 8192,
        },
    };
    let mut scratch = vec![0; SCRATCH_BYTES];
    let lane = Lane::new(LaneId(0), &mut scratch);
    lane.begin(NO_DEADLINE_NS);
    test(&tree, &lane, &mut memory, &model);
}

/// Keys that lead to most parts of a small tree.
fn keys(memory: &mut Memory) -> Vec<[u8; 8]> {
    let mut key = |_| [(); 8].map(|()| if memory.draw(9) == 0 { 200 } else { memory.draw(BYTES.into()) as u8 });
    (0..60).map(&mut key).collect()
}

fn descend(
    tree: &Tree<'_>,
    lane: &Lane<'_>,
    memory: &mut Memory,
    key: [u8; 8],
    (start, helps): (Start, bool),
) -> (TileCursor, TileEnd, usize) {
    lane.port().with(|scratch| scratch[KEY].copy_from_slice(&key));
    let (result, count) = memory.run(lane, tree.descend(lane, &tree.way(), &KEY, start, helps));
    let (cursor, end) = result.unwrap_or_else(|error| panic!("{key:?}: {:?}", error.into_error()));
    (cursor, end, count)
}

proptest! {
    /// From the root and by the copies, a descent ends where the model says, and by the copies without READs of nodes
    /// that were copied.
    #[test]
    fn descents_end_where_the_model_says(seed in any::<u64>()) {
        with_tree(seed, |tree, lane, memory, model| {
            for key in keys(memory) {
                let (end, tile) = model.end(&key);
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Root, false));
                assert_eq!((found, cursor.tile), (end, tile), "{key:?}");
                assert!(cursor.slot.fresh && !cursor.closed);
                assert_eq!(cursor.above.is_some(), !cursor.slot.owner.is_empty());
                let (cursor, found, requests) = descend(tree, lane, memory, key, (Start::Copies, true));
                assert_eq!(found, end, "{key:?}");
                match end {
                    TileEnd::Leaf(_) => assert_eq!((requests, cursor.slot.fresh), (0, false)),
                    _ => assert!(requests > 0 && cursor.slot.fresh, "absence is not taken from a copy"),
                }
                let (cursor, found, requests) = descend(tree, lane, memory, key, (Start::Again(cursor), false));
                assert_eq!((found, requests), (end, if matches!(end, TileEnd::Header(_)) { 2 } else { 1 }));
                assert!(cursor.slot.fresh && (cursor.tile == tile || tile.is_none()));
            }
        });
    }

    /// Slots are appended behind the copies: the leaf in front of them is found first, and then the right child.
    #[test]
    fn what_was_appended_is_found_from_the_node(seed in any::<u64>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            for &key in &keys {
                descend(tree, lane, memory, key, (Start::Root, false));
            }
            // Every leaf whose tile has several bytes loses all but the first to a void.
            let mut cut = vec![];
            model.visit(&mut |node| {
                for (tile, child) in &node.slots {
                    if let (ModelChild::Leaf(leaf), Some(rest)) = (child, tile.behind(tile.low())) {
                        cut.push((node.to, *leaf, rest));
                    }
                }
            });
            for (to, _, rest) in &cut {
                let (kind, place) = to.below().unwrap();
                let used = memory.slots(*to).len();
                assert!(used < kind.slots());
                memory.set(place.plus(SLOTS_AT + 8 * used), Slot::void(*rest));
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Copies, false));
                let lost = cut.iter().find(|(_, leaf, _)| end == TileEnd::Leaf(*leaf)).map(|(.., rest)| *rest);
                let byte = key[usize::from(cursor.slot.depth).saturating_sub(1)];
                match lost.filter(|rest| rest.has(byte)) {
                    None => assert_eq!(found, end),
                    // The copy may be refreshed by now.
                    Some(rest) => {
                        assert!(found == end || found == TileEnd::Void(rest));
                        let (cursor, found, _) =
                            descend(tree, lane, memory, key, (Start::Again(cursor), false));
                        assert_eq!((found, cursor.tile), (TileEnd::Void(rest), Some(rest)));
                        let (_, found, _) = descend(tree, lane, memory, key, (Start::Copies, false));
                        assert_eq!(found, TileEnd::Void(rest), "the copy was refreshed");
                    }
                }
            }
        });
    }

    /// Another lane has frozen some slots of some nodes. Readers go through; a lane that wants to change something
    /// replaces the nodes, and the tree is the same.
    #[test]
    fn frozen_nodes_are_replaced_and_nothing_is_lost(seed in any::<u64>(), warm in any::<bool>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            if warm {
                for &key in &keys {
                    descend(tree, lane, memory, key, (Start::Root, false));
                }
            }
            for to in model.all() {
                let all = memory.draw(2) == 0;
                for (place, slot) in memory.all_slots(to) {
                    if all || memory.draw(2) == 0 {
                        memory.set(place, slot.frozen());
                    }
                }
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                assert_eq!(descend(tree, lane, memory, key, (Start::Root, false)).1, end, "{key:?}");
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Root, true));
                // Neighbouring voids are joined.
                match (found, end) {
                    (TileEnd::Void(found), TileEnd::Void(tile)) => {
                        assert!(found.low() <= tile.low() && tile.last() <= found.last());
                    }
                    _ => assert_eq!(found, end, "{key:?}"),
                }
                let place = cursor.slot.place(&tree.way());
                let word = Slot(u64::from_le_bytes(*memory.word(place)));
                assert_eq!(word, cursor.slot.word, "it can be changed: {key:?}");
            }
        });
    }

    /// Words that a structure change has closed are seen, whatever was copied.
    #[test]
    fn closed_words_are_seen(seed in any::<u64>(), warm in any::<bool>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            let nodes = model.all();
            let closed = nodes[memory.draw(nodes.len() as u64) as usize];
            let mut place = memory.root;
            for to in &nodes {
                place = memory.slots(*to).iter().find(|(_, slot)| *slot == closed).map_or(place, |(place, _)| *place);
            }
            memory.set(place, closed.closed());
            if warm {
                for &key in &keys {
                    descend(tree, lane, memory, key, (Start::Root, false));
                }
            }
            let is_below = |key: &[u8; 8]| {
                let mut below = false;
                model.visit(&mut |node| below |= node.to == closed && key[..node.begin] == node.prefix[..node.begin]);
                below
            };
            for &key in &keys {
                let (end, _) = model.end(&key);
                for start in [Start::Root, Start::Copies] {
                    let (cursor, found, _) = descend(tree, lane, memory, key, (start, true));
                    assert_eq!((found, cursor.closed), (end, is_below(&key)), "{key:?}");
                }
            }
            memory.set(place, closed);
            for &key in &keys {
                for start in [Start::Copies, Start::Root] {
                    let (cursor, found, _) = descend(tree, lane, memory, key, (start, true));
                    assert_eq!((found, cursor.closed), (model.end(&key).0, false), "opened: {key:?}");
                }
            }
        });
    }
}

#[test]
fn an_empty_tree_has_no_leaf() {
    with_tree(1, |tree, lane, memory, _| {
        let root = memory.root;
        memory.set(root, Slot::EMPTY);
        for start in [Start::Copies, Start::Root] {
            let (cursor, end, requests) = descend(tree, lane, memory, [7; 8], (start, true));
            assert_eq!((end, requests, cursor.slot.place(&tree.way())), (TileEnd::Empty, 1, root));
        }
    });
}
