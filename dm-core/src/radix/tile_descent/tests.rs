//! Descents in trees of tiles that lie in a piece of memory, against a model of the tree.

extern crate std;
use super::super::cache::NodeCache;
use super::super::slot::{self, NodeType, Place, SLOTS_AT};
use super::super::space::{Arena, Space};
use super::super::tree::Scratch;
use super::*;
use crate::dolphin::population::{self, Heirs, Share, next_step, shares};
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

/// A leaf that is retired.
struct Retired {
    leaf: Address,
    tile: Tile,
    prefix: Vec<u8>,
    heirs: [Slot; 2],
    /// The only leaf of the node among its heirs.
    below: Option<Address>,
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

    /// As a lane that dies while it freezes a node.
    fn freeze_some(&mut self, to: Slot) {
        for (place, slot) in self.all_slots(to) {
            if self.draw(4) == 0 {
                self.set(place, slot.frozen());
            }
        }
    }

    /// Gives heirs to a leaf.
    fn retire(&mut self, leaf: Address, tile: Tile, prefix: &[u8]) -> Retired {
        let byte = tile.low() + self.draw(tile.width() as u64) as u8;
        let mut new = || Address::new(NodeId(0), self.take(64).offset(), byte % 64);
        let (first, second) = (new(), new());
        let (begin, kind) = (prefix.len() + 1, NodeType::SMALLEST);
        let (heirs, below) = match self.draw(4) {
            0 => (Heirs::Void, None),
            1 if byte > tile.low() => (Heirs::Leaves(first, byte, second), None),
            2 if begin < 8 => {
                let place = self.take(kind.bytes());
                let header = Header::new(kind, begin, begin, &[prefix, &[byte]].concat());
                let image = &mut self.bytes[place.offset() as usize..][..kind.bytes()];
                slot::build(image, &header, INDEX, Slot::tile_leaf(0, first));
                (Heirs::Node(byte, kind, place), Some(first))
            }
            _ => (Heirs::Leaf(first), None),
        };
        Retired { leaf, tile, prefix: prefix.to_vec(), heirs: heirs.words(tile).unwrap(), below }
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
    memory.set(root, Slot(model.to.in_root()));
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
            call_bytes_max: 0,
            calls_change: false,
        },
        combine: true,
        fresh: NodeType::SMALLEST,
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
    (start, goal): (Start, Goal),
) -> (TileCursor, TileEnd, usize) {
    lane.port().with(|scratch| scratch[KEY].copy_from_slice(&key));
    let (result, count) = memory.run(lane, tree.descend(lane, &tree.way(), &KEY, start, goal));
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
                let (end, _) = model.end(&key);
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Root, Goal::Read));
                assert_eq!(found, end, "{key:?}");
                assert!(cursor.slot.fresh);
                let (cursor, found, requests) = descend(tree, lane, memory, key, (Start::Copies, Goal::Change));
                assert_eq!(found, end, "{key:?}");
                match end {
                    TileEnd::Leaf(_) => assert_eq!((requests, cursor.slot.fresh), (0, false)),
                    _ => assert!(requests > 0 && cursor.slot.fresh, "absence is not taken from a copy"),
                }
                let (cursor, found, requests) = descend(tree, lane, memory, key, (Start::Again(cursor), Goal::Read));
                assert_eq!((found, requests), (end, if matches!(end, TileEnd::Header(_)) { 2 } else { 1 }));
                assert!(cursor.slot.fresh);
            }
        });
    }

    /// Slots are appended behind the copies: the leaf in front of them is found first, and then the right child.
    #[test]
    fn what_was_appended_is_found_from_the_node(seed in any::<u64>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            for &key in &keys {
                descend(tree, lane, memory, key, (Start::Root, Goal::Read));
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
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Copies, Goal::Read));
                let lost = cut.iter().find(|(_, leaf, _)| end == TileEnd::Leaf(*leaf)).map(|(.., rest)| *rest);
                let byte = key[usize::from(cursor.slot.depth).saturating_sub(1)];
                match lost.filter(|rest| rest.has(byte)) {
                    None => assert_eq!(found, end),
                    // The copy may be refreshed by now.
                    Some(rest) => {
                        assert!(found == end || found == TileEnd::Void(rest));
                        let (_, found, _) = descend(tree, lane, memory, key, (Start::Again(cursor), Goal::Read));
                        assert_eq!(found, TileEnd::Void(rest));
                        let (_, found, _) = descend(tree, lane, memory, key, (Start::Copies, Goal::Read));
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
                    descend(tree, lane, memory, key, (Start::Root, Goal::Read));
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
                assert_eq!(descend(tree, lane, memory, key, (Start::Root, Goal::Read)).1, end, "{key:?}");
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                let (cursor, found, _) = descend(tree, lane, memory, key, (Start::Root, Goal::Change));
                // Neighbouring voids are joined.
                match (found, end) {
                    (TileEnd::Void(found), TileEnd::Void(tile)) => {
                        assert!(found.low() <= tile.low() && tile.last() <= found.last());
                    }
                    _ => assert_eq!(found, end, "{key:?}"),
                }
                let place = cursor.slot.place(&tree.way());
                let word = cursor.slot.word;
                let stored = if place == memory.root { word.in_root() } else { word.0 };
                assert_eq!(u64::from_le_bytes(*memory.word(place)), stored, "it can be changed: {key:?}");
            }
        });
    }

    /// A lane that is going to append slots ends at a node that has room for them, from wherever it starts, and the
    /// tree is the same.
    #[test]
    fn a_node_has_the_room_that_was_wished(seed in any::<u64>(), room in 0_usize..7, frozen in any::<bool>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            for &key in &keys {
                descend(tree, lane, memory, key, (Start::Root, Goal::Read));
            }
            for to in model.all().into_iter().filter(|_| frozen) {
                memory.freeze_some(to);
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                let (mut cursor, ..) = descend(tree, lane, memory, key, (Start::Copies, Goal::Read));
                for start in [Start::Copies, Start::Again(cursor), Start::Root] {
                    let (found, requests);
                    (cursor, found, requests) = descend(tree, lane, memory, key, (start, Goal::Append(room)));
                    assert!(cursor.slot.fresh && requests > 0, "not from a copy");
                    // Neighbouring voids are joined.
                    match (found, end) {
                        (TileEnd::Void(found), TileEnd::Void(tile)) => {
                            assert!(found.low() <= tile.low() && tile.last() <= found.last());
                        }
                        _ => assert_eq!(found, end, "{key:?}"),
                    }
                    let image = tree.with_owner(lane, &cursor, |node| node.slots().collect::<Vec<_>>());
                    if matches!(found, TileEnd::Header(_)) {
                        assert_eq!(image, None, "the image is of the node below");
                        continue;
                    }
                    let image = image.expect("the image of the slot's node");
                    let now: Vec<Slot> = memory.all_slots(cursor.slot.owner).iter().map(|(_, slot)| *slot).collect();
                    assert_eq!((&now, now[usize::from(cursor.slot.index)]), (&image, cursor.slot.word));
                    assert!(image.iter().filter(|slot| **slot == Slot::EMPTY).count() >= room);
                }
                let (.., requests) = descend(tree, lane, memory, key, (Start::Again(cursor), Goal::Append(room)));
                assert!(requests == 1 || matches!(end, TileEnd::Header(_)), "nothing is replaced any more");
            }
        });
    }

    /// Leaves are retired, and lanes finish the changes: some of them die behind a CAS, nodes are full or frozen. At the
    /// end each byte has its heir, and nothing else has changed.
    #[test]
    fn the_changes_of_retired_leaves_are_finished(seed in any::<u64>(), warm in any::<bool>()) {
        with_tree(seed, |tree, lane, memory, model| {
            let keys = keys(memory);
            let mut all: Vec<Retired> = vec![];
            for &key in &keys {
                let start = if warm { Start::Copies } else { Start::Root };
                let (cursor, ..) = descend(tree, lane, memory, key, (start, Goal::Read));
                if let (TileEnd::Leaf(leaf), Some(tile)) = model.end(&key)
                    && all.iter().all(|retired| retired.leaf != leaf)
                {
                    all.push(memory.retire(leaf, tile, &key[..usize::from(cursor.slot.depth) - 1]));
                }
            }
            for retired in &all {
                let old = Slot::tile_leaf(retired.tile.low(), retired.leaf).unwrap();
                let shares = shares(retired.tile, retired.heirs).unwrap();
                let mut low = [0; 8];
                low[..retired.prefix.len()].copy_from_slice(&retired.prefix);
                low[retired.prefix.len()] = retired.tile.low();
                loop {
                    let (cursor, end, _) = descend(tree, lane, memory, low, (Start::Root, Goal::Read));
                    if end != TileEnd::Leaf(retired.leaf) {
                        break;
                    }
                    if memory.draw(3) == 0 {
                        memory.freeze_some(cursor.slot.owner);
                    }
                    let start = if memory.draw(2) == 0 { Start::Root } else { Start::Again(cursor) };
                    let changes_max = 1 + memory.draw(3) as usize;
                    let (result, _) = memory.run(lane, finish(tree, lane, start, (old, &shares), changes_max));
                    result.unwrap_or_else(|error| panic!("{low:?}: {:?}", error.into_error()));
                }
            }
            for &key in &keys {
                let (end, _) = model.end(&key);
                let retired = all.iter().find(|retired| end == TileEnd::Leaf(retired.leaf));
                let end = retired.map_or(end, |retired| {
                    let shares = shares(retired.tile, retired.heirs).unwrap();
                    let (tile, word) = *shares.iter().find(|(tile, _)| tile.has(key[retired.prefix.len()])).unwrap();
                    match word.tile_child() {
                        Ok(Child::Void(_)) => TileEnd::Void(tile),
                        Ok(Child::Leaf(leaf)) => TileEnd::Leaf(leaf),
                        _ => TileEnd::Leaf(retired.below.unwrap()),
                    }
                });
                for start in [Start::Copies, Start::Root] {
                    let (cursor, found, _) = descend(tree, lane, memory, key, (start, Goal::Change));
                    match (found, end) {
                        (TileEnd::Void(found), TileEnd::Void(tile)) => {
                            assert!(found.low() <= tile.low() && tile.last() <= found.last());
                        }
                        // A copy may lead to the retired leaf.
                        (TileEnd::Leaf(leaf), _) if !cursor.slot.fresh => {
                            assert!(end == found || retired.is_some_and(|retired| retired.leaf == leaf));
                        }
                        _ => assert_eq!(found, end, "{key:?}"),
                    }
                }
            }
        });
    }
}

/// Makes at most `changes_max` changes of slots for the retired leaf to which word `old` leads, as an operation does.
async fn finish(
    tree: &Tree<'_>,
    lane: &Lane<'_>,
    mut start: Start,
    (old, shares): (Slot, &[Share]),
    changes_max: usize,
) -> Result<(), Interrupt> {
    let (way, mut room, mut changes) = (tree.way(), 0, 0);
    loop {
        let (cursor, end) = tree.descend(lane, &way, &KEY, start, Goal::Append(room)).await?;
        if !matches!((end, old.tile_child()), (TileEnd::Leaf(found), Ok(Child::Leaf(leaf))) if found == leaf) {
            return Ok(());
        }
        start = Start::Again(cursor);
        loop {
            let step = tree.with_owner(lane, &cursor, |node| next_step(node, old, shares).unwrap()).unwrap();
            let (index, from, to) = match step {
                population::Step::Append { index, word } => (index, Slot::EMPTY, word),
                population::Step::Swing { index, word } => (index, old, word),
                population::Step::Replace { room: wished } => {
                    room = wished;
                    break;
                }
                population::Step::Done => return Ok(()),
            };
            let place = DescentCursor { index: index as u8, ..cursor.slot }.place(&way);
            let found = tree.publish(lane, true, place, from, to).await?;
            assert_eq!(found, from, "nobody else is at work");
            lane.port().with(|scratch| tree.scratch.slot(0, index).set_word(scratch, to.0));
            changes += 1;
            if changes == changes_max {
                return Ok(());
            }
        }
    }
}

#[test]
fn an_empty_tree_has_no_leaf() {
    with_tree(1, |tree, lane, memory, _| {
        let root = memory.root;
        memory.set(root, Slot::EMPTY);
        for start in [Start::Copies, Start::Root] {
            let (cursor, end, requests) = descend(tree, lane, memory, [7; 8], (start, Goal::Change));
            assert_eq!((end, requests, cursor.slot.place(&tree.way())), (TileEnd::Empty, 1, root));
        }
    });
}
