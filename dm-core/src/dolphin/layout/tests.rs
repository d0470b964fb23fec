use super::block::{self, BlockPointer};
use super::leaf::{FIRST_WRITE, HEIRS_WRITE, Head, Judged, Leaf, LeafMut, Value, absent_for};
use super::shape::{LEAF_BYTES, LeafShape, SPAN_MAX, ValueKind};
use crate::dolphin::spear::{Seat, Spear};
use crate::error::DecodeError;
use crate::radix::slot::{Place, Slot};
use crate::radix::tile::{Bounds, Side, Tile};
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::owner_tag::OwnerTag;
use crate::remote::row::Member;
use crate::verbs::NodeId;
use proptest::prelude::*;
extern crate std;
use std::vec;
use std::vec::Vec;

const INDEX: u8 = 3;
const ADDRESS: Address = Address::new(NodeId(2), 0x1_2340, 41);
const OWNER: OwnerTag = OwnerTag::of(Member { row: RowId(7), incarnation: 3, nonce: 1 }, 128);

fn tile(low: u8, last: u8) -> Tile {
    Tile::new(low, last).unwrap()
}

fn place(offset: u64) -> Place {
    Place::new(NodeId(1), offset)
}

/// A leaf without records.
fn start(shape: &LeafShape, bounds: Bounds<'_>, absent: u8) -> Vec<u8> {
    let mut image = vec![0xee; LEAF_BYTES];
    image[..8].fill(0);
    let head = Head { address: ADDRESS, index: INDEX, bounds, owner: OWNER, absent };
    assert!(LeafMut::start(shape, &mut image, &head).is_some());
    image
}

fn live<'a>(shape: &'a LeafShape, image: &'a [u8], key: &[u8]) -> Leaf<'a> {
    match Leaf::judge(shape, image, ADDRESS, INDEX, key) {
        Ok(Judged::Live(leaf)) => leaf,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_line_cuts_a_cell_and_no_two_cells_overlap() {
    let sizes = (8..=64).flat_map(|key| (8..=70).chain([100, 1024]).map(move |value| (key, value)));
    for (key_bytes, value_bytes) in sizes {
        let shape = LeafShape::new(key_bytes, value_bytes).unwrap();
        let mut used = [false; LEAF_BYTES];
        used[..shape.head_bytes].fill(true);
        let cells = (0..shape.span)
            .flat_map(|cell| [(shape.key_at(cell), key_bytes), (shape.value_at(cell), shape.cell_bytes())]);
        for (at, bytes) in cells {
            assert_eq!(at / 64, (at + bytes - 1) / 64, "{key_bytes}/{value_bytes}: a cell at {at}");
            for byte in &mut used[at..at + bytes] {
                assert!(!std::mem::replace(byte, true), "{key_bytes}/{value_bytes}: two cells at {at}");
            }
        }
        if shape.kind != ValueKind::Inline {
            assert!((0..shape.span).all(|cell| shape.value_at(cell).is_multiple_of(8)), "words are aligned");
        }
        assert!((7..=SPAN_MAX).contains(&shape.span), "{key_bytes}/{value_bytes}: {} records", shape.span);
    }
}

#[test]
fn shapes_hold_what_they_should() {
    let span = |key, value| LeafShape::new(key, value).unwrap().span;
    assert_eq!((span(8, 8), SPAN_MAX), (60, 60));
    assert_eq!([span(16, 8), span(24, 8), span(32, 8), span(33, 8), span(64, 8)], [40, 30, 24, 14, 12]);
    assert_eq!([span(8, 16), span(8, 63), span(8, 64), span(8, 1024), span(64, 63)], [33, 13, 60, 60, 7]);
    for sizes in [(7, 8), (65, 8), (8, 7), (8, 1025)] {
        assert_eq!(LeafShape::new(sizes.0, sizes.1), None);
    }
    let head = |key| LeafShape::new(key, 8).unwrap().head_bytes;
    assert_eq!((head(32), head(33)), (64, 128));
}

/// Fills a leaf of any shape, and reads it back.
#[test]
fn records_come_back_from_every_cell() {
    for (key_bytes, value_bytes) in [(8, 8), (9, 12), (24, 63), (32, 8), (33, 64), (64, 8), (64, 1024), (32, 30)] {
        let shape = LeafShape::new(key_bytes, value_bytes).unwrap();
        let prefix = vec![7; key_bytes - 2];
        let bounds = Bounds::new(&prefix, tile(16, 31)).unwrap();
        let key = |number: usize| {
            let mut key = prefix.clone();
            key.extend([16 + (number * 5 % 16) as u8, number as u8]);
            key
        };
        let value = |number: usize| vec![number as u8; value_bytes];
        let mut image = start(&shape, bounds, 5);
        let mut leaf = LeafMut::new(&shape, &mut image);
        for cell in 0..shape.span {
            leaf.bind(cell, &key(cell));
            let done = match shape.kind {
                ValueKind::Block => {
                    assert!(!leaf.put(cell, &value(cell)));
                    let block = BlockPointer::new(place(1024 + 16 * cell as u64), cell as u16).unwrap();
                    leaf.put_block(cell, block)
                }
                _ => leaf.put(cell, &value(cell)),
            };
            assert!(done);
        }
        leaf.remove(2);
        let leaf = live(&shape, &image, &key(1));
        assert_eq!(
            (leaf.check(), leaf.records(), leaf.bound()),
            (Ok(shape.span as u64 - 1), shape.span - 1, shape.span)
        );
        let mut room = [0; 64];
        assert_eq!(leaf.bounds(&mut room), bounds);
        assert_eq!(leaf.owner(), OWNER);
        for cell in 0..shape.span {
            assert_eq!(leaf.find(&key(cell)), Some(cell));
            match leaf.value(cell).unwrap() {
                Value::Absent => assert_eq!(cell, 2),
                Value::Here(bytes) => assert_eq!(bytes, value(cell)),
                Value::Block(block) => assert_eq!(usize::from(block.generation()), cell),
            }
        }
        assert_eq!(leaf.find(&key(shape.span)), None);
        let mut cells = [0; SPAN_MAX];
        let count = leaf.sorted(&key(0), None, &mut cells).unwrap();
        let mut expected: Vec<usize> = (0..shape.span).filter(|&cell| cell != 2 && key(cell) >= key(0)).collect();
        expected.sort_by_key(|&cell| key(cell));
        assert_eq!(cells[..count].iter().map(|&cell| usize::from(cell)).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_leaf_answers_for_its_own_keys_only() {
    let shape = LeafShape::new(8, 8).unwrap();
    let image = start(&shape, Bounds::new(&[1, 2], tile(0, 9)).unwrap(), 0);
    let judge = |image: &[u8], address, index, key: [u8; 8]| Leaf::judge(&shape, image, address, index, &key).err();
    let key = [1, 2, 9, 0, 0, 0, 0, 0];
    assert_eq!(judge(&image, ADDRESS, INDEX, key), None);
    assert_eq!(judge(&image, ADDRESS.next_generation(), INDEX, key), Some(DecodeError::Stale));
    assert_eq!(judge(&image, ADDRESS, INDEX + 1, key), Some(DecodeError::Stale));
    for outside in [[1, 2, 10, 0, 0, 0, 0, 0], [1, 1, 255, 0, 0, 0, 0, 0], [2, 2, 5, 0, 0, 0, 0, 0]] {
        assert_eq!(judge(&image, ADDRESS, INDEX, outside), Some(DecodeError::Stale), "{outside:?}");
    }
    let mut closed = image.clone();
    closed[..8].copy_from_slice(&Seat::new(9).unwrap().close().to_le_bytes());
    assert!(!live(&shape, &closed, &key).spear().is_retired(), "a closed leaf is the truth until it is retired");
    assert!(judge(&image[..LEAF_BYTES - 1], ADDRESS, INDEX, key).is_some());
    assert_eq!(judge(&[0; LEAF_BYTES], ADDRESS, INDEX, key), Some(DecodeError::Stale), "memory never used");
    let mut everything = image;
    everything[26..29].copy_from_slice(&[0, 0, 255]);
    assert!(matches!(judge(&everything, ADDRESS, INDEX, key), Some(DecodeError::Corrupt(_))));
}

#[test]
fn a_retired_leaf_names_its_heirs() {
    let shape = LeafShape::new(8, 8).unwrap();
    let mut image = start(&shape, Bounds::new(&[1, 2], tile(0, 9)).unwrap(), 0);
    let key = [1, 2, 9, 0, 0, 0, 0, 0];
    assert_eq!(live(&shape, &image, &key).heirs(), [Slot::EMPTY; 2]);
    let heirs = [0, 5].map(|low| Slot::tile_leaf(low, ADDRESS.next_generation()).unwrap());
    let before = image.clone();
    LeafMut::new(&shape, &mut image).set_heirs(heirs);
    assert!((0..LEAF_BYTES).all(|at| HEIRS_WRITE.contains(&at) || image[at] == before[at]), "one WRITE has them");
    // Their writer may die now: the leaf is not retired.
    assert_eq!(live(&shape, &image, &key).find(&key), None);
    image[..8].copy_from_slice(&(Spear::RETIRED | Seat::new(3).unwrap().enter()).to_le_bytes());
    match Leaf::judge(&shape, &image, ADDRESS, INDEX, &key) {
        Ok(Judged::Retired(leaf)) => assert_eq!((leaf.heirs(), leaf.tile()), (heirs, tile(0, 9))),
        other => panic!("{other:?}"),
    }
    // Neither another leaf's heirs nor those of other keys are this key's.
    let next = ADDRESS.next_generation();
    assert_eq!(Leaf::judge(&shape, &image, next, INDEX, &key).err(), Some(DecodeError::Stale));
    let outside = [1, 2, 10, 0, 0, 0, 0, 0];
    assert_eq!(Leaf::judge(&shape, &image, ADDRESS, INDEX, &outside).err(), Some(DecodeError::Stale));
}

#[test]
fn the_two_lines_of_a_long_head_belong_together() {
    let shape = LeafShape::new(64, 8).unwrap();
    let prefix: Vec<u8> = (1..64).collect();
    let image = start(&shape, Bounds::new(&prefix, tile(5, 5)).unwrap(), 0);
    let mut key = prefix.clone();
    key.push(5);
    live(&shape, &image, &key);
    // The second line is of the place's next leaf.
    let mut torn = image.clone();
    torn[64] = ADDRESS.next_generation().generation();
    assert_eq!(Leaf::judge(&shape, &torn, ADDRESS, INDEX, &key).err(), Some(DecodeError::Torn));
    // Its bytes are compared like the others.
    for at in [63, 64, 65, 80] {
        let mut other = image.clone();
        other[if at < 64 { at } else { at + 1 }] ^= 1;
        let found = Leaf::judge(&shape, &other, ADDRESS, INDEX, &key).err();
        assert_eq!(found, Some(DecodeError::Stale), "byte {at}");
    }
}

#[test]
fn the_word_for_absent_is_no_value() {
    let values = [u64::MAX, 5, u64::MAX - 1, u64::MAX - 3];
    assert_eq!(absent_for(&values.into_iter()), 2);
    let most: Vec<u64> = (0..SPAN_MAX as u64).map(|number| u64::MAX - number).collect();
    assert_eq!(usize::from(absent_for(&most.iter().copied())), SPAN_MAX);
    let shape = LeafShape::new(8, 8).unwrap();
    let bounds = Bounds::new(&[], tile(0, 127)).unwrap();
    let last = start(&shape, bounds, SPAN_MAX as u8);
    assert_eq!(live(&shape, &last, &[0; 8]).absent(), u64::MAX - SPAN_MAX as u64);
    let beyond = start(&shape, bounds, SPAN_MAX as u8 + 1);
    assert!(matches!(Leaf::new(&shape, &beyond, ADDRESS, INDEX), Err(DecodeError::Corrupt(_))));
    let mut image = start(&shape, bounds, 7);
    let mut leaf = LeafMut::new(&shape, &mut image);
    leaf.bind(0, &[0; 8]);
    assert!(leaf.put(0, &5_u64.to_le_bytes()));
    assert!(!leaf.put(0, &(u64::MAX - 7).to_le_bytes()), "the leaf has to be rebuilt with another word");
    let leaf = live(&shape, &image, &[0; 8]);
    assert_eq!(leaf.value(0), Ok(Value::Here(&5_u64.to_le_bytes())), "the key of zeros is a key like others");
    assert_eq!((leaf.records(), leaf.check()), (1, Ok(1)));
}

#[test]
fn a_leaf_that_nobody_writes_is_found() {
    let shape = LeafShape::new(8, 8).unwrap();
    let bounds = Bounds::new(&[], tile(128, 255)).unwrap();
    let mut image = start(&shape, bounds, 0);
    let mut leaf = LeafMut::new(&shape, &mut image);
    leaf.bind(0, &[200; 8]);
    leaf.bind(1, &[201; 8]);
    let check = |change: &dyn Fn(&mut LeafMut<'_>)| {
        let mut image = image.clone();
        change(&mut LeafMut::new(&shape, &mut image));
        Leaf::new(&shape, &image, ADDRESS, INDEX).unwrap().check()
    };
    assert_eq!(check(&|_| ()), Ok(0));
    assert!(check(&|leaf| leaf.bind(1, &[200; 8])).is_err(), "twice");
    assert!(check(&|leaf| leaf.bind(1, &[100; 8])).is_err(), "outside");
    assert!(check(&|leaf| leaf.bind(3, &[203; 8])).is_err(), "behind a gap");
    assert!(check(&|leaf| assert!(leaf.put(4, &[1; 8]))).is_err(), "a value without a key");
    let mut broken = image.clone();
    broken[0] = 3;
    assert!(Leaf::new(&shape, &broken, ADDRESS, INDEX).unwrap().check().is_err());
    let shape = LeafShape::new(8, 9).unwrap();
    let mut image = start(&shape, bounds, 0);
    image[shape.value_at(0)] = 2;
    assert!(Leaf::new(&shape, &image, ADDRESS, INDEX).unwrap().value(0).is_err());
}

/// Each value of a state byte: of a record that is there, of one that was deleted, of a cell without a key.
#[test]
fn a_value_cell_whose_state_was_lost_is_told() {
    let bounds = Bounds::new(&[], tile(128, 255)).unwrap();
    for value_bytes in [9, 12, 63] {
        let shape = LeafShape::new(8, value_bytes).unwrap();
        let check = |image: &[u8]| Leaf::new(&shape, image, ADDRESS, INDEX).unwrap().check();
        let mut image = start(&shape, bounds, 0);
        let mut leaf = LeafMut::new(&shape, &mut image);
        for cell in 0..2 {
            leaf.bind(cell, &[200 + cell as u8; 8]);
            assert!(leaf.put(cell, &vec![7; value_bytes]));
        }
        leaf.remove(1);
        assert_eq!(check(&image), Ok(1));
        for state in 0..=u8::MAX {
            for (cell, was) in [(0, 1), (1, 0), (2, 0)] {
                let mut damaged = image.clone();
                damaged[shape.value_at(cell)] = state;
                let told = match (cell, state) {
                    _ if state == was => Ok(1),
                    (0, 0) => Err(DecodeError::UNUSED_NOT_ZERO),
                    // A record that was deleted comes back with a value of zeros.
                    (1, 1) => Ok(2),
                    (2, 1) => Err(DecodeError::Corrupt("a cell in use behind one that is not")),
                    _ => Err(DecodeError::Corrupt("a value in no known state")),
                };
                assert_eq!(check(&damaged), told, "cell {cell}, state {state}");
            }
        }
        // Bytes where no key is.
        let mut damaged = image.clone();
        damaged[shape.content_of(3).end - 1] = 1;
        assert_eq!(check(&damaged), Err(DecodeError::UNUSED_NOT_ZERO));
    }
}

#[test]
fn blocks_come_back_and_others_do_not() {
    let name = BlockPointer::new(place(0x12340), 77).unwrap();
    assert_eq!((name.place(), name.generation()), (place(0x12340), 77));
    assert_eq!((BlockPointer::new(Place::new(NodeId(1), 0), 1), BlockPointer::from_bits(0)), (None, None));
    let value: Vec<u8> = (0..200).collect();
    let mut image = vec![0xee; block::place_bytes(200)];
    block::write(&mut image, name, INDEX, &value).unwrap();
    assert_eq!(block::read(&image, name, INDEX, 200), Ok(value.as_slice()));
    let next = BlockPointer::new(place(0x12340), 78).unwrap();
    assert_eq!(block::read(&image, next, INDEX, 200), Err(DecodeError::Stale));
    assert_eq!(block::read(&image, name, INDEX + 1, 200), Err(DecodeError::Stale));
    assert!(block::read(&image[..99], name, INDEX, 200).is_err());
    assert!(block::write(&mut image[..99], name, INDEX, &value).is_none());
    for at in [0, 3, 7, 8, 100, 207] {
        let mut torn = image.clone();
        torn[at] ^= 0x20;
        assert!(block::read(&torn, name, INDEX, 200).is_err(), "byte {at}");
    }
}

proptest! {
    /// Any bytes are decoded without a panic, by every function that reads.
    #[test]
    fn any_bytes_are_decoded(
        mut image in proptest::collection::vec(any::<u8>(), 0..1100),
        sizes in (8_usize..=64, 8_usize..=80),
        head in proptest::option::of((0_u8..64, any::<u8>(), any::<u8>())),
        byte in any::<u8>(),
    ) {
        let shape = LeafShape::new(sizes.0, sizes.1).unwrap();
        if let (Some((position, low, last)), Some(place)) = (head, image.get_mut(24..29)) {
            place.copy_from_slice(&[ADDRESS.generation(), INDEX, position, low, last]);
        }
        let key = vec![byte; sizes.0];
        if let Ok(leaf) = Leaf::new(&shape, &image, ADDRESS, INDEX) {
            let mut room = [0; 64];
            let bounds = leaf.bounds(&mut room);
            prop_assert!(bounds.position() < sizes.0);
            let _ = (leaf.check(), leaf.records(), leaf.find(&key), leaf.owner(), leaf.absent(), leaf.tile(), leaf.heirs());
            prop_assert_eq!(leaf.side(&key), bounds.side(&key));
            let mut cells = [0; SPAN_MAX];
            if let Ok(count) = leaf.sorted(&key, None, &mut cells) {
                prop_assert!(cells[..count].iter().all(|&cell| bounds.side(leaf.key(usize::from(cell))) == Side::Here));
            }
        }
        if let Some(name) = BlockPointer::from_bits(u64::from(byte) << 24) {
            let _ = block::read(&image, name, INDEX, sizes.1);
        }
        // A short image is not written either.
        let bounds = Bounds::new(&[1], Tile::ALL).unwrap();
        let address = ADDRESS;
        if let Some(mut leaf) = LeafMut::start(&shape, &mut image, &Head { address, index: 1, bounds, owner: OWNER, absent: 0 }) {
            leaf.bind(shape.span, &key);
        } else {
            prop_assert!(image.len() < FIRST_WRITE.end);
        }
    }
}
