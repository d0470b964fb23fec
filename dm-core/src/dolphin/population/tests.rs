//! A tree in memory that is made by the decisions of this room only, against sets of keys.

use super::*;
use crate::dolphin::layout::shape::{LEAF_BYTES, LeafShape};
use crate::radix::chain::{PathNode, path};
use crate::radix::floor::replaced;
use crate::radix::slot::{self, BYTES_MAX, Header, build};
use crate::radix::tile::{Bounds, Side};
use crate::verbs::NodeId;
use proptest::prelude::*;
extern crate std;
use std::collections::BTreeSet;
use std::println;
use std::vec;

mod steps;

type List<T> = std::vec::Vec<T>;
type Key = List<u8>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    Void(Tile),
    Leaf(usize),
    Node(usize),
}

#[derive(Debug)]
struct Node {
    /// Where its header begins, and the bytes of every key below in front of its position.
    begin: usize,
    prefix: Key,
    kind: NodeType,
    slots: List<(u8, Child)>,
}

#[derive(Debug)]
struct Leaf {
    prefix: Key,
    tile: Tile,
    keys: List<Key>,
    /// Cells that are used up, by keys that are there and by deleted ones.
    bound: usize,
}

/// A tree. Nodes and leaves that were replaced stay in the lists, and are not reachable.
struct Tree {
    span: usize,
    root: Option<usize>,
    nodes: List<Node>,
    leaves: List<Leaf>,
    cuts: usize,
    compactions: usize,
    voids: usize,
    above: usize,
}

const INDEX: u8 = 3;

/// The address of leaf `number` of the tree, and back.
const fn address(number: usize) -> Address {
    Address::new(NodeId(0), 64 * (1 + number as u64), (number % 64) as u8)
}

fn number(leaf: Address) -> usize {
    let number = leaf.offset() as usize / 64 - 1;
    assert_eq!(address(number), leaf);
    number
}

/// The place of node `number` of the tree.
const fn place(number: usize) -> Place {
    Place::new(NodeId(1), 16 * (1 + number as u64))
}

/// What a word leads to.
fn child(word: Slot) -> Child {
    match word.tile_child() {
        Ok(slot::Child::Leaf(leaf)) => Child::Leaf(number(leaf)),
        Ok(slot::Child::Node(_, place)) => Child::Node(place.offset() as usize / 16 - 1),
        Ok(slot::Child::Void(tile)) => Child::Void(tile),
        other => panic!("{other:?}"),
    }
}

/// Where a descent ends.
enum End {
    /// A leaf, and the node that it is in.
    Leaf(usize, usize),
    Void(Tile, usize),
    /// The header of the last node differs at this position; the slot that leads there: its node and byte, and where its
    /// child begins.
    Header(usize, usize, Option<(usize, u8)>, usize),
}

/// As a replaced node's type is chosen: a quarter stays free.
fn type_for(count: usize) -> NodeType {
    let mut kind = NodeType::SMALLEST;
    while kind.slots() * 3 / 4 < count {
        match kind.next() {
            Some(next) => kind = next,
            None => break,
        }
    }
    kind
}

impl Tree {
    fn new(key_bytes: usize) -> Self {
        let span = LeafShape::new(key_bytes, 8).unwrap().span;
        Self { span, root: None, nodes: vec![], leaves: vec![], cuts: 0, compactions: 0, voids: 0, above: 0 }
    }

    fn leaf(&mut self, prefix: &[u8], tile: Tile, keys: List<Key>) -> Child {
        assert!(keys.len() <= self.span, "{} records in one leaf", keys.len());
        let bounds = Bounds::new(prefix, tile).expect("bounds that do not cover everything");
        assert!(keys.iter().all(|key| bounds.side(key) == Side::Here), "keys go to leaves that own them");
        let bound = keys.len();
        self.leaves.push(Leaf { prefix: prefix.to_vec(), tile, keys, bound });
        Child::Leaf(self.leaves.len() - 1)
    }

    fn node(&mut self, begin: usize, prefix: &[u8], slots: List<(u8, Child)>) -> usize {
        assert!(prefix.len() - begin <= BYTES_MAX, "a header repeats what lies in front of its position");
        self.nodes.push(Node { begin, prefix: prefix.to_vec(), kind: NodeType::SMALLEST, slots });
        self.nodes.len() - 1
    }

    /// Floor descent.
    fn find(&self, key: &[u8]) -> Option<End> {
        let (mut node, mut from, mut depth) = (self.root?, None, 0);
        loop {
            let here = &self.nodes[node];
            let position = here.prefix.len();
            assert!(here.begin <= depth && depth <= position, "the header has the bytes that the path skips");
            if let Some(at) = (depth..position).find(|&at| here.prefix[at] != key[at]) {
                return Some(End::Header(node, at, from, depth));
            }
            let byte = key[position];
            let slot = here.slots.iter().filter(|slot| slot.0 <= byte).max_by_key(|slot| slot.0);
            match *slot.expect("one slot is at byte 0") {
                (_, Child::Leaf(leaf)) => return Some(End::Leaf(leaf, node)),
                (low, Child::Void(tile)) => {
                    assert!(tile.low() == low && tile.has(byte), "{tile:?} is not the tile of byte {byte}");
                    return Some(End::Void(tile, node));
                }
                (low, Child::Node(below)) => {
                    assert_eq!(low, byte, "floor into a node at a greater byte");
                    (from, depth, node) = (Some((node, low)), position + 1, below);
                }
            }
        }
    }

    fn set(&mut self, node: usize, byte: u8, child: Child) {
        let slot = self.nodes[node].slots.iter_mut().find(|slot| slot.0 == byte).expect("a slot of that byte");
        slot.1 = child;
    }

    fn contains(&self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(End::Leaf(leaf, _)) => {
                let leaf = &self.leaves[leaf];
                let bounds = Bounds::new(&leaf.prefix, leaf.tile).unwrap();
                assert_eq!(bounds.side(key), Side::Here, "the floor leads to the leaf that owns the key");
                leaf.keys.binary_search_by(|other| other.as_slice().cmp(key)).is_ok()
            }
            _ => false,
        }
    }

    fn insert(&mut self, key: &Key) {
        match self.find(key) {
            None => {
                let (own, other) = halves(key[0]);
                let leaf = self.leaf(&[], own, vec![key.clone()]);
                let mut slots = vec![(own.low(), leaf), (other.low(), Child::Void(other))];
                slots.sort_by_key(|slot| slot.0);
                self.root = Some(self.node(0, &[], slots));
            }
            Some(End::Void(tile, node)) => {
                let prefix = self.nodes[node].prefix.clone();
                assert_eq!(prefix, key[..prefix.len()]);
                let leaf = self.leaf(&prefix, tile, vec![key.clone()]);
                self.set(node, tile.low(), leaf);
            }
            Some(End::Header(below, at, from, begin)) => self.put_above(key, below, at, from, begin),
            Some(End::Leaf(leaf, node)) => {
                let Leaf { keys, bound, .. } = &mut self.leaves[leaf];
                if let Err(at) = keys.binary_search(key) {
                    keys.insert(at, key.clone());
                    *bound += 1;
                    if *bound > self.span {
                        self.replace_leaf(leaf, node, Some(at));
                    }
                }
            }
        }
    }

    /// The header of node `below` differs from the key at `at`: a node above, the leaf takes its side, the other is
    /// void.
    fn put_above(&mut self, key: &Key, below: usize, at: usize, from: Option<(usize, u8)>, begin: usize) {
        self.above += 1;
        let byte = self.nodes[below].prefix[at];
        let prefix = key[..at].to_vec();
        let (low, one, high) = around(byte);
        let mut slots = vec![];
        for tile in [low, high].into_iter().flatten() {
            let child = if tile.has(key[at]) { self.leaf(&prefix, tile, vec![key.clone()]) } else { Child::Void(tile) };
            slots.push((tile.low(), child));
        }
        slots.push((one.low(), Child::Node(below)));
        slots.sort_by_key(|slot| slot.0);
        let above = self.node(begin, &prefix, slots);
        match from {
            None => panic!("the first node is at position 0, and has no bytes to differ in"),
            Some((node, byte)) => self.set(node, byte, Child::Node(above)),
        }
    }

    /// The slot word of a child, under its first byte.
    fn word(&self, low: u8, child: Child) -> Slot {
        match child {
            Child::Void(tile) => Slot::void(tile),
            Child::Leaf(leaf) => Slot::tile_leaf(low, address(leaf)).unwrap(),
            Child::Node(node) => Slot::tile_node(low, self.nodes[node].kind, place(node)),
        }
    }

    /// The image of a node.
    fn image(&self, node: usize) -> List<u8> {
        let Node { begin, prefix, kind, slots } = &self.nodes[node];
        let mut image = vec![0; kind.bytes()];
        let header = Header::new(*kind, *begin, prefix.len(), prefix);
        build(&mut image, &header, INDEX, slots.iter().map(|(low, child)| self.word(*low, *child)));
        image
    }

    fn view<'i>(&self, node: usize, image: &'i [u8]) -> slot::Node<'i> {
        slot::Node::new(image, self.nodes[node].kind, INDEX).unwrap()
    }

    /// Replaces a leaf in `node` by what it becomes.
    fn replace_leaf(&mut self, leaf: usize, node: usize, newest: Option<usize>) {
        let keys = std::mem::take(&mut self.leaves[leaf].keys);
        let position = self.nodes[node].prefix.len();
        let full = Full {
            position,
            tile: self.leaves[leaf].tile,
            span: self.span,
            count: keys.len(),
            newest,
            by_last_byte: false,
        };
        let becomes = becomes(&full, |i| keys[i].as_slice()).expect("keys that differ");
        let byte = keys.first().map_or(0, |key| key[position]);
        let heirs = match becomes {
            Becomes::Void => {
                self.voids += 1;
                Heirs::Void
            }
            Becomes::Same => {
                self.compactions += 1;
                let prefix = self.leaves[leaf].prefix.clone();
                self.leaf(&prefix, full.tile, keys);
                Heirs::Leaf(address(self.leaves.len() - 1))
            }
            Becomes::Cut(cut) => self.cut(&full, &cut, keys),
        };
        let words = heirs.words(full.tile).expect("heirs of this tile");
        let shares = shares(full.tile, words).expect("what was given");
        assert_eq!(shares.len(), 1 + becomes.appends(&full, byte));
        self.finish(node, self.word(full.tile.low(), Child::Leaf(leaf)), &shares);
    }

    /// Makes what a leaf that is cut leads to.
    fn cut(&mut self, full: &Full, cut: &Cut, mut keys: List<Key>) -> Heirs {
        self.cuts += 1;
        assert!(cut.left > 0 && cut.left < keys.len() && cut.position >= full.position);
        assert!(keys.iter().enumerate().all(|(i, key)| (key[cut.position] < cut.boundary) == (i < cut.left)));
        let key = keys[0].clone();
        let prefix = &key[..cut.position];
        let (left, right) = cut.tiles(full).expect("a cut of this leaf");
        let high = keys.split_off(cut.left);
        let left_leaf = self.leaf(prefix, left, keys);
        let right_leaf = self.leaf(prefix, right, high);
        let (Child::Leaf(first), Child::Leaf(second)) = (left_leaf, right_leaf) else { panic!() };
        if cut.position == full.position {
            return Heirs::Leaves(address(first), cut.boundary, address(second));
        }
        // From the last one up.
        let path: List<PathNode> = path(full.position + 1, cut.position).collect();
        let mut nodes = None;
        for here in path.iter().rev() {
            let slots = match nodes {
                None => vec![(left.low(), left_leaf), (right.low(), right_leaf)],
                Some(below) => {
                    let (low, one, high) = around(key[here.position]);
                    let mut slots: List<(u8, Child)> =
                        [low, high].into_iter().flatten().map(|tile| (tile.low(), Child::Void(tile))).collect();
                    slots.push((one.low(), Child::Node(below)));
                    slots.sort_by_key(|slot| slot.0);
                    slots
                }
            };
            nodes = Some(self.node(here.begin, &key[..here.position], slots));
        }
        let node = nodes.expect("a node at a later position");
        Heirs::Node(key[full.position], self.nodes[node].kind, place(node))
    }

    /// Makes the changes one by one, and checks after each that every byte leads where it may lead.
    fn finish(&mut self, node: usize, leaf: Slot, shares: &[Share]) {
        for _ in 0..STEPS_MAX + 2 {
            let image = self.image(node);
            match next_step(&self.view(node, &image), leaf, shares).expect("shares of this leaf") {
                Step::Append { index, word } => {
                    assert_eq!(index, self.nodes[node].slots.len());
                    self.nodes[node].slots.push((word.partial(), child(word)));
                }
                Step::Swing { index, word } => self.nodes[node].slots[index].1 = child(word),
                Step::Replace { room } => self.replace(node, room),
                Step::Done => return,
            }
            self.check_tiles(node);
        }
        panic!("{shares:?} take too many steps");
    }

    /// Freezes and replaces a full node: neighbouring voids have one slot.
    fn replace(&mut self, node: usize, room: usize) {
        let (image, mut words) = (self.image(node), [Slot::EMPTY; 256]);
        let count = replaced(&self.view(node, &image), &mut words);
        let here = &mut self.nodes[node];
        here.slots = words[..count].iter().map(|word| (word.partial(), child(*word))).collect();
        here.kind = type_for(count + room);
        self.check_tiles(node);
    }

    fn check_tiles(&self, node: usize) {
        let here = &self.nodes[node];
        assert!(here.slots.len() <= here.kind.slots() && here.slots.len() <= 256);
        let mut slots = here.slots.clone();
        slots.sort_by_key(|slot| slot.0);
        assert_eq!(slots[0].0, 0, "one slot is at byte 0");
        for (i, &(low, child)) in slots.iter().enumerate() {
            let last = slots.get(i + 1).map_or(255, |next| next.0.checked_sub(1).expect("no byte has two slots"));
            assert!(last >= low, "no byte has two slots");
            match child {
                Child::Void(tile) => assert_eq!((tile.low(), tile.last()), (low, last)),
                Child::Node(_) => assert_eq!(low, last, "a node under more than one byte"),
                Child::Leaf(leaf) => {
                    let tile = self.leaves[leaf].tile;
                    assert!(tile.low() == low && last <= tile.last(), "a leaf has the slot of its first byte");
                }
            }
        }
    }

    fn delete(&mut self, key: &Key) {
        let Some(End::Leaf(leaf, node)) = self.find(key) else { return };
        self.leaves[leaf].keys.retain(|other| other != key);
        if self.leaves[leaf].keys.is_empty() {
            self.replace_leaf(leaf, node, None);
        }
    }

    /// Checks everything that can be reached; returns records, bytes, leaves, nodes and the depth of nodes.
    fn check(&self) -> Census {
        let mut census = Census::default();
        let mut next: List<(usize, usize)> = self.root.map(|root| (root, 1)).into_iter().collect();
        let mut intervals: List<(Key, Option<Key>)> = vec![];
        let mut seen = BTreeSet::new();
        while let Some((node, depth)) = next.pop() {
            assert!(seen.insert(node), "one slot leads to a node");
            self.check_tiles(node);
            let here = &self.nodes[node];
            census.nodes += 1;
            census.depth = census.depth.max(depth);
            census.bytes += here.kind.bytes();
            let mut slots = here.slots.clone();
            slots.sort_by_key(|slot| slot.0);
            for (i, &(low, child)) in slots.iter().enumerate() {
                let last = slots.get(i + 1).map_or(255, |next| next.0 - 1);
                match child {
                    Child::Void(_) => census.voids += 1,
                    Child::Node(below) => {
                        assert_eq!(self.nodes[below].prefix[..here.prefix.len()], here.prefix);
                        assert_eq!(self.nodes[below].prefix[here.prefix.len()], low);
                        next.push((below, depth + 1));
                    }
                    Child::Leaf(leaf) => {
                        let owner = &self.leaves[leaf];
                        assert_eq!((low, last), (owner.tile.low(), owner.tile.last()), "one slot leads to a leaf");
                        assert_eq!(owner.prefix, here.prefix);
                        census.leaves += 1;
                        census.bytes += LEAF_BYTES;
                        census.records += owner.keys.len();
                        let bounds = Bounds::new(&owner.prefix, owner.tile).unwrap();
                        let (mut low, mut high) = (vec![0; 64], vec![0; 64]);
                        bounds.write_low(&mut low);
                        let bounded = bounds.write_high(&mut high);
                        intervals.push((low, bounded.then_some(high)));
                    }
                }
            }
        }
        intervals.sort();
        for pair in intervals.windows(2) {
            assert!(pair[0].1.as_ref().is_some_and(|high| *high <= pair[1].0), "leaves overlap: {pair:?}");
        }
        census
    }
}

#[derive(Debug, Default)]
struct Census {
    records: usize,
    bytes: usize,
    leaves: usize,
    nodes: usize,
    voids: usize,
    depth: usize,
}

impl Census {
    fn per_record(&self) -> f64 {
        self.bytes as f64 / self.records.max(1) as f64
    }
}

/// A small generator, so that the numbers are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn shuffled(count: u64) -> List<u64> {
    let mut numbers: List<u64> = (0..count).collect();
    let mut random = Random(7);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at + 1));
    }
    numbers
}

/// Inserts keys, looks at the size each time the tree has grown by a tenth from a tenth of the keys on, and returns the
/// last census and the most bytes a record took.
fn grow(name: &str, key_bytes: usize, keys: impl ExactSizeIterator<Item = Key>) -> (Census, f64) {
    let mut tree = Tree::new(key_bytes);
    let mut worst = 0.0_f64;
    let mut look_at = keys.len() / 10;
    let mut model = BTreeSet::new();
    for key in keys {
        tree.insert(&key);
        model.insert(key);
        if model.len() >= look_at.max(1) {
            worst = worst.max(tree.check().per_record());
            look_at = look_at.max(1) * 21 / 20 + 1;
        }
    }
    let census = tree.check();
    assert_eq!(census.records, model.len());
    assert!(model.iter().all(|key| tree.contains(key)));
    println!(
        "{name:<28} {:>8} records {:>6.2} bytes a record (worst {worst:.2}), fill {:>5.1} %, {} nodes, {} voids, depth {}",
        census.records,
        census.per_record(),
        census.records as f64 / census.leaves.max(1) as f64 / tree.span as f64 * 100.0,
        census.nodes,
        census.voids,
        census.depth,
    );
    (census, worst.max(0.0))
}

fn word(number: u64) -> Key {
    number.to_be_bytes().to_vec()
}

#[test]
fn random_words_take_at_most_30_bytes_a_record() {
    let mut random = Random(1);
    let (census, worst) = grow("random 64-bit", 8, (0..400_000).map(|_| word(random.next())));
    assert!(census.per_record() <= 30.0 && worst <= 30.0, "{worst}");
}

#[test]
fn dense_integers_take_at_most_26_bytes_a_record() {
    let (up, worst) = grow("dense, ascending", 8, (0..300_000_u32).map(|i| word(i.into())));
    assert!(up.per_record() <= 26.0 && worst <= 26.0, "{worst}");
    let (mixed, _) = grow("dense, shuffled", 8, shuffled(300_000).into_iter().map(word));
    assert!(mixed.per_record() <= 26.0);
    let (down, _) = grow("dense, descending", 8, (0..300_000_u32).rev().map(|i| word(i.into())));
    assert!(down.per_record() <= 26.0);
}

/// Sizes are reported, not bound: the worst skew is that of an adversary, who makes leaves of one record.
#[test]
fn skewed_sets_are_right() {
    let mut random = Random(2);
    grow("2^30 key space", 8, (0..300_000).map(|_| word(random.next() >> 34)));
    grow("zipf-like gaps", 8, (0..100_000).map(|_| word(random.next() >> (random.next() % 60))));
    grow("ascending, gaps", 8, (0..200_000_u32).map(|i| word(u64::from(i) * 1000 + random.next() % 1000)));
    let string = |random: &mut Random, words: usize| {
        let mut key = vec![];
        for _ in 0..4 {
            key.extend(word((random.below(words) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        }
        key
    };
    grow("32-byte strings", 32, (0..50_000).map(|_| string(&mut random, 40)));
    grow(
        "32 bytes, long prefixes",
        32,
        (0..50_000_u32).map(|i| {
            let mut key = vec![b'a'; 24];
            key.extend(word(u64::from(i) % 700 * 0x1_0000_0001 + random.next() % 50));
            key
        }),
    );
    // Sixty-one keys that differ in the last byte only make a leaf full; then one key beside each byte of their path.
    let mut keys = List::new();
    for _ in 0..100 {
        let prefix: Key = (0..31).map(|_| 1 + random.below(254) as u8).collect();
        for last in 0..25 {
            let mut key = prefix.clone();
            key.push(last * 10);
            keys.push(key);
        }
        for at in 0..31 {
            for other in [prefix[at] - 1, prefix[at] + 1] {
                let mut key = vec![0; 32];
                key[..at].copy_from_slice(&prefix[..at]);
                key[at] = other;
                keys.push(key);
            }
        }
    }
    grow("adversary, 32 bytes", 32, keys.into_iter());
}

/// Keys of any kind: dense, random, of few bytes, with shared prefixes of any length.
fn any_key(key_bytes: usize) -> impl Strategy<Value = Key> {
    let few = prop_oneof![Just(0_u8), Just(1), Just(127), Just(128), Just(254), Just(255), any::<u8>()];
    prop_oneof![
        proptest::collection::vec(few, key_bytes),
        proptest::collection::vec(any::<u8>(), key_bytes),
        (0..key_bytes, any::<u8>(), any::<u16>()).prop_map(move |(at, byte, number)| {
            let mut key = vec![byte; key_bytes];
            let end = key_bytes.min(at + 2);
            key[at..end].copy_from_slice(&number.to_be_bytes()[..end - at]);
            key
        }),
        (0_u16..2000).prop_map(move |number| {
            let mut key = vec![0; key_bytes];
            key[key_bytes - 2..].copy_from_slice(&number.to_be_bytes());
            key
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Inserts and deletes of any keys, with tiny leaves, so that every path is taken.
    #[test]
    fn any_keys_are_found(
        (keys, span) in (8_usize..34).prop_flat_map(|key_bytes| {
            (proptest::collection::vec((any_key(key_bytes), 0_u8..4), 1..600), 2_usize..9)
        }),
    ) {
        let mut tree = Tree { span, ..Tree::new(keys[0].0.len()) };
        let mut model = BTreeSet::new();
        for (key, kind) in &keys {
            if *kind == 0 {
                let victim = model.range(key.clone()..).next().cloned();
                if let Some(victim) = victim {
                    tree.delete(&victim);
                    model.remove(&victim);
                }
            } else {
                tree.insert(key);
                model.insert(key.clone());
            }
        }
        let census = tree.check();
        prop_assert_eq!(census.records, model.len());
        for (key, _) in &keys {
            prop_assert_eq!(tree.contains(key), model.contains(key));
        }
    }

    /// The path to any position: contiguous, every header short enough.
    #[test]
    fn paths_have_no_gap(begin in 0_usize..64, more in 0_usize..64) {
        let position = begin + more;
        let nodes: List<PathNode> = path(begin, position).collect();
        prop_assert_eq!(nodes.len(), more / (BYTES_MAX + 1) + 1);
        let mut next = begin;
        for node in &nodes {
            prop_assert_eq!(node.begin, next);
            prop_assert!(node.position - node.begin <= BYTES_MAX);
            next = node.position + 1;
        }
        prop_assert_eq!(next, position + 1);
    }

    /// Any two words are decoded, and what is accepted is what [`Heirs::words`] writes.
    #[test]
    fn any_heirs_are_decoded(
        ends in (any::<u8>(), any::<u8>()),
        words in (any::<u64>(), any::<u64>()),
        masks in (any_mask(), any_mask()),
    ) {
        let tile = Tile::new(ends.0.min(ends.1), ends.0.max(ends.1)).unwrap();
        let words = [Slot(words.0 & masks.0), Slot(words.1 & masks.1)];
        let begins = words.map(|word| Slot(word.0 & !0xff | u64::from(tile.low())));
        for words in [words, [begins[0], words[1]], [words[0], Slot::EMPTY], [begins[0], Slot::EMPTY]] {
            let Ok(found) = shares(tile, words) else { continue };
            let whole = found.iter().skip(1).try_fold(found[0].0, |front, (tile, _)| front.joined(*tile));
            prop_assert_eq!(whole, Some(tile));
            let heirs = match (words[0].tile_child().unwrap(), words[1].tile_child().unwrap()) {
                (slot::Child::Leaf(left), slot::Child::Leaf(right)) => Heirs::Leaves(left, words[1].partial(), right),
                (slot::Child::Leaf(leaf), _) => Heirs::Leaf(leaf),
                (slot::Child::Node(kind, place), _) => Heirs::Node(words[0].partial(), kind, place),
                _ => Heirs::Void,
            };
            prop_assert_eq!(heirs.words(tile), Some(words));
        }
    }

    /// Any image of a node and any shares are taken without a panic.
    #[test]
    fn any_step_is_computed(
        mut image in proptest::collection::vec(any::<u8>(), NodeType::SMALLEST.bytes()),
        leaf in any::<u64>(),
        given in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u64>()), 0..5),
    ) {
        let header = Header::new(NodeType::SMALLEST, 0, 1, b"k");
        slot::set_word(&mut image, 0, header.word());
        slot::set_word(&mut image, 8, u64::from(INDEX));
        let node = slot::Node::new(&image, NodeType::SMALLEST, INDEX).unwrap();
        let given: List<Share> =
            given.iter().map(|(a, b, word)| (Tile::new(*a.min(b), *a.max(b)).unwrap(), Slot(*word))).collect();
        let _ = next_step(&node, Slot(leaf), &given);
        for word in node.slots() {
            let _ = next_step(&node, word, &given);
        }
    }
}

/// Masks of the bits of a word, so that random words are often those of some kind of child.
fn any_mask() -> impl Strategy<Value = u64> {
    let (leaf, node, void) = (!0x7000_u64, !0xf000 | 0x0800, 0xff00_10ff);
    prop_oneof![Just(leaf), Just(node), Just(void), Just(0), any::<u64>()]
}

#[test]
fn all_paths_are_taken() {
    let mut tree = Tree { span: 4, ..Tree::new(16) };
    let mut random = Random(3);
    let mut keys = List::new();
    for _ in 0..5000 {
        let mut key = vec![9; 16];
        let at = random.below(16);
        for byte in &mut key[at..] {
            *byte = random.below(12) as u8;
        }
        tree.insert(&key);
        keys.push(key);
    }
    let (cuts, above) = (tree.cuts, tree.above);
    for key in &keys[..4900] {
        tree.delete(key);
    }
    for key in &keys {
        tree.insert(key);
        // Another key uses up a cell.
        let mut other = key.clone();
        other[15] ^= 1;
        if !tree.contains(&other) {
            tree.insert(&other);
            tree.delete(&other);
        }
    }
    tree.check();
    assert!(keys.iter().all(|key| tree.contains(key)));
    let (voids, compactions) = (tree.voids, tree.compactions);
    assert!(cuts > 100 && above > 3, "{cuts} cuts, {above} nodes put above others");
    assert!(voids > 100 && compactions > 100, "{voids} voids, {compactions} compactions");
}

/// Keys that agree beyond the position of their node, in a wide tile.
#[test]
fn a_wide_tile_is_narrowed_in_its_own_node() {
    let tile = Tile::new(0, 127).unwrap();
    let keys: List<Key> = (0..61).map(word).collect();
    let full = Full { position: 0, tile, span: 60, count: 61, newest: Some(60), by_last_byte: false };
    let found = cut(&full, |i| &keys[i]).unwrap();
    assert_eq!(found, Cut { position: 7, boundary: 60, left: 60 }, "ascending: the left leaf stays full");
    assert_eq!(found.tiles(&full), Some((Tile::ALL.below(60).unwrap(), Tile::ALL.from(60).unwrap())));
    assert_eq!(Becomes::Cut(found).appends(&full, 0), 1);
    let heirs = Heirs::Node(0, NodeType::SMALLEST, place(7));
    let words = heirs.words(tile).unwrap();
    let (node, void) = (Slot::tile_node(0, NodeType::SMALLEST, place(7)), tile.behind(0).unwrap());
    assert_eq!(words, [node, Slot::EMPTY]);
    assert_eq!(shares(tile, words).unwrap().as_slice(), [(Tile::one(0), node), (void, Slot::void(void))]);
    assert_eq!(path(1, 7).collect::<List<_>>(), [PathNode { begin: 1, position: 7 }]);
    assert_eq!(path(1, 8).count(), 2, "a header has six bytes");
    assert_eq!(heirs.words(Tile::one(4)), None, "a byte of another tile");
    let same = [word(5), word(5)];
    assert_eq!(cut(&Full { count: 2, newest: Some(0), ..full }, |i| &same[i]), None, "keys that do not differ");
}

/// Cells that deleted keys have used up are no reason for a cut.
#[test]
fn a_leaf_is_cut_if_its_keys_need_it() {
    let keys: List<Key> = (0..61).map(word).collect();
    let tile = Tile::new(0, 127).unwrap();
    let becomes = |count, span| {
        let full = Full { position: 7, tile, span, count, newest: None, by_last_byte: false };
        super::becomes(&full, |i| &keys[i]).unwrap()
    };
    assert_eq!([becomes(0, 60), becomes(1, 60), becomes(45, 60)], [Becomes::Void, Becomes::Same, Becomes::Same]);
    assert!(matches!(becomes(46, 60), Becomes::Cut(_)));
    assert_eq!(becomes(1, 1), Becomes::Same, "a single key cannot be cut");
    assert!(matches!(becomes(2, 2), Becomes::Cut(_)));
}

/// A node at position 1 with these slots, of the smallest type.
fn small_node(slots: &[Slot]) -> List<u8> {
    let mut image = vec![0; NodeType::SMALLEST.bytes()];
    build(&mut image, &Header::new(NodeType::SMALLEST, 0, 1, b"k"), INDEX, slots.iter().copied());
    image
}

#[test]
fn steps_go_from_the_last_byte_to_the_first() {
    let step = |slots: &[Slot], shares: &[Share]| {
        let image = small_node(slots);
        let node = slot::Node::new(&image, NodeType::SMALLEST, INDEX).unwrap();
        next_step(&node, Slot::tile_leaf(20, address(1)).unwrap(), shares)
    };
    let leaf = |low, number| Slot::tile_leaf(low, address(number)).unwrap();
    let (tile, old) = (Tile::new(20, 90).unwrap(), leaf(20, 1));
    let other = leaf(0, 9);
    let words = Heirs::Node(50, NodeType::SMALLEST, place(7)).words(tile).unwrap();
    let given = shares(tile, words).unwrap();
    let (node, low, high) = (words[0], Slot::void(tile.below(50).unwrap()), Slot::void(tile.behind(50).unwrap()));
    let mut slots = vec![other, old];
    assert_eq!(step(&slots, &given), Ok(Step::Append { index: 2, word: high }));
    slots.push(high);
    assert_eq!(step(&slots, &given), Ok(Step::Append { index: 3, word: node }));
    let full = [other, old, high, leaf(91, 8)];
    assert_eq!(step(&full, &given), Ok(Step::Replace { room: 1 }));
    assert_eq!(step(&[other, old, leaf(91, 8), leaf(93, 8)], &given), Ok(Step::Replace { room: 2 }));
    assert_eq!(step(&[other, old, high, Slot::EMPTY.frozen()], &given), Ok(Step::Replace { room: 1 }));
    slots.push(node);
    assert_eq!(step(&slots, &given), Ok(Step::Swing { index: 1, word: low }));
    assert_eq!(step(&[other, old.frozen(), high, node], &given), Ok(Step::Replace { room: 0 }));
    // The void was filled, and the node has another one above it: their bytes have slots.
    assert_eq!(step(&[other, old, leaf(51, 5), leaf(50, 6)], &given), Ok(Step::Swing { index: 1, word: low }));
    assert_eq!(step(&[other, low, high, node], &given), Ok(Step::Done));
    let reborn = Slot::tile_leaf(20, Address::new(NodeId(0), 128, 2)).unwrap();
    assert_eq!(step(&[other, reborn], &given), Ok(Step::Done), "another generation");
    assert!(matches!(step(&slots, &[]), Err(DecodeError::Corrupt(_))));
    assert!(matches!(step(&slots, &given[1..]), Err(DecodeError::Corrupt(_))));
    assert!(matches!(step(&slots, &[(tile, old)]), Err(DecodeError::Corrupt(_))), "its own heir");
}

#[test]
fn heirs_that_no_lane_writes_are_refused() {
    let (tile, leaf) = (Tile::new(20, 90).unwrap(), |low, number| Slot::tile_leaf(low, address(number)).unwrap());
    let plain = Slot::node(50, NodeType::SMALLEST, place(1));
    for words in [
        [Slot::EMPTY, Slot::EMPTY],
        [Slot::EMPTY, leaf(20, 1)],
        [leaf(21, 1), Slot::EMPTY],
        [leaf(20, 1).frozen(), Slot::EMPTY],
        [leaf(20, 1), Slot::EMPTY.frozen()],
        [leaf(20, 1), leaf(20, 2)],
        [leaf(20, 1), leaf(91, 2)],
        [leaf(20, 1), leaf(50, 1)],
        [leaf(20, 1), Slot::void(Tile::new(50, 90).unwrap())],
        [Slot::void(Tile::new(20, 89).unwrap()), Slot::EMPTY],
        [Slot::void(tile), leaf(50, 1)],
        [plain, Slot::EMPTY],
        [Slot::tile_node(91, NodeType::SMALLEST, place(1)), Slot::EMPTY],
        [Slot::tile_node(50, NodeType::SMALLEST, place(1)), leaf(51, 1)],
    ] {
        assert!(matches!(shares(tile, words), Err(DecodeError::Corrupt(_))), "{words:?}");
    }
    assert_eq!(Heirs::Leaf(Address::new(NodeId(256), 64, 0)).words(tile), None, "a slot has no room for the node");
}
