//! A tree in memory that is made by the decisions of this room only, against sets of keys.

use super::*;
use crate::dolphin::layout::shape::{LEAF_BYTES, LeafShape};
use crate::radix::tile::{Bounds, Side};

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

/// Where a descent ends.
enum End {
    /// A leaf, and the node that it is in.
    Leaf(usize, usize),
    Void(Tile, usize),
    /// The header of the last node differs at this position; the slot that leads there: its node and byte, and where its
    /// child begins.
    Header(usize, usize, Option<(usize, u8)>, usize),
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
