//! What a full leaf becomes, its heirs as words, and the steps to them, each by itself.
//!
//! [`tree`]: the same decisions one after the other, in a whole tree. [`steps`]: by several lanes at once.

use super::*;
use crate::radix::chain::{PathNode, path};
use crate::radix::floor::replaced;
use crate::radix::slot::{self, BYTES_MAX, Header, build};
use crate::verbs::NodeId;
use proptest::prelude::*;
extern crate std;
use std::collections::BTreeSet;
use std::println;
use std::vec;

mod steps;
mod tree;

type List<T> = std::vec::Vec<T>;
type Key = List<u8>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    Void(Tile),
    Leaf(usize),
    Node(usize),
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

fn word(number: u64) -> Key {
    number.to_be_bytes().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

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
