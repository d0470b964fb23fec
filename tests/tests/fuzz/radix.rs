//! Nodes and leaves of radix trees, and what values and keys of any length are stored in.

use crate::fuzz;
use crate::input::Input;
use dm_core::dolphin::layout::block;
use dm_core::dolphin::layout::leaf::{Head, Judged, Leaf, LeafMut, Value};
use dm_core::dolphin::layout::shape::{LEAF_BYTES, LeafShape, SPAN_MAX, ValueKind};
use dm_core::dolphin::spear::Spear;
use dm_core::error::DecodeError;
use dm_core::radix::floor::replaced;
use dm_core::radix::slot::{Child, Compared, Header, Node, NodeType, Place, Slot, build};
use dm_core::radix::tile::{Bounds, Side, Tile};
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owner_tag::OwnerTag;
use dm_core::remote::row::Member;
use dm_core::verbs::NodeId;
use dm_core::{items, smart};

const ADDRESS: Address = Address::new(NodeId(1), 0x4000, 3);
const PLACE: Place = Place::new(NodeId(2), 0x8000);
const INDEX: u8 = 1;

fn node_type(input: &mut Input<'_>) -> NodeType {
    NodeType::new(1 + input.byte() % 7).expect("1 to 7")
}

#[test]
fn slot_words() {
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let byte = input.byte();
        let mut word = input.word();
        if input.one_in(2) {
            let tile = Tile::new(byte, byte.max(input.byte())).expect("in order");
            let kind = node_type(&mut input);
            let leaf = Slot::tile_leaf(byte, ADDRESS).expect("a small memory node");
            word = input
                .choose(&[Slot::void(tile), leaf, Slot::tile_node(byte, kind, PLACE), Slot::node(byte, kind, PLACE)])
                .0;
            let mut bytes = word.to_le_bytes();
            input.change(&mut bytes);
            word = u64::from_le_bytes(bytes);
        }
        let slot = Slot(word);
        let _ = (slot.may_cover(byte), slot.is_special(), slot.is_leaf(), slot.below());
        // A word that leads somewhere is the word that a writer makes of that.
        match slot.child() {
            Ok(Child::Empty) | Err(_) => {}
            Ok(Child::Leaf(place)) => assert_eq!(Slot::leaf(slot.partial(), place), slot.thawed()),
            Ok(Child::Node(kind, place)) => assert_eq!(Slot::node(slot.partial(), kind, place), slot.thawed()),
            Ok(Child::Void(_)) => panic!("a tree of bytes has no voids"),
        }
        match slot.tile_child() {
            Ok(Child::Empty) | Err(_) => {}
            Ok(Child::Leaf(leaf)) => assert_eq!(Slot::tile_leaf(slot.partial(), leaf), Some(slot.thawed())),
            Ok(Child::Node(kind, place)) => {
                let (plain, special) =
                    (Slot::node(slot.partial(), kind, place), Slot::tile_node(slot.partial(), kind, place));
                assert!(slot.thawed() == plain || slot.thawed() == special);
            }
            Ok(Child::Void(tile)) => assert_eq!(Slot::void(tile), slot.thawed()),
        }
    });
}

#[test]
fn radix_node() {
    let sample = |kind: NodeType, tiles: bool| {
        let header = Header::new(kind, 0, 3, b"abcdefgh");
        let slots = (0..kind.slots().div_ceil(2)).map(|i| {
            let byte = (i * 2) as u8;
            match i % 3 {
                0 if tiles => Slot::void(Tile::new(byte, byte | 1).expect("in order")),
                1 if tiles => Slot::tile_leaf(byte, ADDRESS).expect("a small memory node"),
                1 => Slot::leaf(byte, PLACE),
                _ => Slot::node(byte, NodeType::SMALLEST, PLACE),
            }
        });
        let mut image = vec![0; kind.bytes()];
        build(&mut image, &header, INDEX, slots);
        image
    };
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let kind = node_type(&mut input);
        let (tiles, byte, begin) = (input.one_in(2), input.byte(), usize::from(input.byte() % 9));
        let mut image = sample(kind, tiles);
        input.change(&mut image);
        let Ok(node) = Node::new(&image, kind, INDEX) else { return };
        assert_eq!(Header::from_word(node.header.word()), Some(node.header));
        if let Compared::Differs(at) = node.header.compare(begin, b"abcdefgh") {
            assert!((begin..8).contains(&at));
        }
        assert!((0..8).filter_map(|at| node.header.byte_at(at)).count() <= 6);
        let searched = node.search(byte);
        if let Some((at, slot)) = searched.found {
            assert!(node.slot(at) == slot && slot.partial() == byte);
        }
        match node.floor(byte) {
            Ok(floor) => {
                assert!(floor.tile.has(byte) && floor.slot.partial() == floor.tile.low());
                assert!(floor.child != Child::Empty, "a floor that leads nowhere");
            }
            // A sound node has a floor for every byte.
            Err(error) => assert!(node.check_tiles().is_err(), "{error}"),
        }
        let mut slots = [Slot::EMPTY; 256];
        let count = replaced(&node, &mut slots);
        assert!(slots[..count].windows(2).all(|pair| pair[0].partial() < pair[1].partial()));
        assert!(slots[..count].iter().all(|slot| !slot.is_frozen()));
    });
}

#[test]
fn smart_leaf() {
    let shapes = [(8, 8), (9, 12), (64, 1024)].map(|(key, value)| smart::layout::LeafShape::new(key, value));
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let shape = input.choose(&shapes);
        let (sealed, key) = (input.byte(), input.key(shape.key_bytes));
        let mut image = vec![0; shape.place_bytes];
        shape.build(&mut image, &key, &vec![0xab; shape.value_bytes]);
        let before = image.clone();
        input.change(&mut image);
        let covered = shape.read_bytes();
        match shape.state(&image) {
            // 56 bits of checksum: no input of a night finds another image that fits.
            Ok(_) => assert_eq!(image[..covered], before[..covered]),
            Err(error) => assert_eq!(error, DecodeError::Torn),
        }
        assert_eq!(shape.key(&image).len(), shape.key_bytes);
        assert_eq!(shape.value(&image).len(), shape.value_bytes);
        for state in [smart::layout::LeafState::Valid, smart::layout::LeafState::Deleted] {
            if sealed.is_multiple_of(2) {
                shape.close(&mut image, state);
                assert_eq!(shape.state(&image), Ok(state));
            }
        }
    });
}

/// A leaf of `shape` whose keys begin with bytes of `fill`; half of its cells are bound.
fn dolphin_sample(shape: &LeafShape, position: usize, fill: u8) -> Vec<u8> {
    let prefix = vec![fill; position];
    let tile = Tile::new(2, 200).expect("in order");
    let bounds = Bounds::new(&prefix, tile).expect("not all keys");
    let owner = OwnerTag::of(Member { row: RowId(7), incarnation: 3, nonce: 1 }, 128);
    let mut image = vec![0; LEAF_BYTES];
    let head = Head { address: ADDRESS, index: INDEX, bounds, owner, absent: 3 };
    let mut leaf = LeafMut::start(shape, &mut image, &head).expect("it fits");
    for cell in 0..shape.span.div_ceil(2) {
        let mut key = vec![fill; shape.key_bytes];
        key[position] = 2 + cell as u8;
        leaf.bind(cell, &key);
        let name = block::BlockPointer::new(PLACE, cell as u16).expect("a small memory node");
        let named = (shape.kind == ValueKind::Block).then_some(name);
        assert!(cell % 3 == 0 || leaf.put_either(cell, &vec![cell as u8; shape.value_bytes], named));
    }
    image
}

#[test]
fn dolphin_leaf() {
    let sizes = [(8, 8), (9, 8), (33, 8), (64, 8), (8, 20), (40, 63), (8, 64), (64, 1024)];
    let shapes = sizes.map(|(key, value)| LeafShape::new(key, value).expect("sizes of an index"));
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let shape = &shapes[usize::from(input.byte()) % shapes.len()];
        let position = usize::from(input.byte()) % shape.key_bytes;
        let mut image = dolphin_sample(shape, position, input.choose(&[0, 1, 0xff]));
        let (key, high) = (input.key(shape.key_bytes), input.key(shape.key_bytes));
        input.change(&mut image);
        let Ok(leaf) = Leaf::new(shape, &image, ADDRESS, INDEX) else { return };
        let mut room = [0; 64];
        let bounds = leaf.bounds(&mut room);
        assert_eq!(leaf.side(&key), bounds.side(&key));
        assert!(leaf.bound() <= shape.span && leaf.records() <= shape.span);
        let _ = (leaf.heirs(), leaf.owner(), leaf.absent(), leaf.differs_early(&key));
        assert_eq!(Spear(leaf.spear().0).taken().count(), leaf.spear().taken().count());
        if let Some(cell) = leaf.find(&key) {
            assert_eq!(leaf.key(cell), key);
        }
        match leaf.find_or_free(&key) {
            Ok(cell) => assert_eq!(leaf.key(cell), key),
            Err(cell) => assert!(cell <= shape.span),
        }
        for cell in 0..shape.span {
            match leaf.value(cell) {
                Ok(Value::Here(value)) => assert_eq!(value.len(), shape.value_bytes),
                Ok(Value::Block(name)) => {
                    assert_eq!(block::BlockPointer::from_bits(name.to_bits()), Some(name));
                }
                Ok(Value::Absent) | Err(_) => {}
            }
        }
        let mut cells = [0; SPAN_MAX];
        if let Ok(count) = leaf.sorted(&key, Some(&high), &mut cells) {
            let keys: Vec<&[u8]> = cells[..count].iter().map(|cell| leaf.key(usize::from(*cell))).collect();
            assert!(keys.is_sorted());
            assert!(
                keys.iter().all(|found| **found >= key[..] && **found < high[..] && bounds.side(found) == Side::Here)
            );
        }
        if let Ok(records) = leaf.check() {
            let (low, mut cells) = (vec![0; shape.key_bytes], [0; SPAN_MAX]);
            assert_eq!(leaf.sorted(&low, None, &mut cells), Ok(records as usize), "all of a sound leaf");
        }
        if let Ok(Judged::Live(leaf)) = Leaf::judge(shape, &image, ADDRESS, INDEX, &key) {
            assert!(!leaf.spear().is_retired());
        }
    });
}

#[test]
fn blocks() {
    use items::block::{CLASSES, class_bytes, class_of};
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let bytes = usize::from(input.byte()) * 5;
        let (place, life) = (input.word(), input.byte());
        let name = block::BlockPointer::new(PLACE, life.into()).expect("a small memory node");
        let value = vec![life; bytes];
        let mut image = vec![0; block::place_bytes(bytes)];
        block::write(&mut image, name, INDEX, &value).expect("it fits");
        let all = items::block::block_bytes(3, bytes);
        let pointer = items::slot::BlockPointer { place, life: life.into(), bytes: all as u32 };
        let mut item = vec![0; class_bytes(class_of(all).min(CLASSES - 1))];
        items::block::write(&mut item, &pointer, INDEX, b"key", &value).expect("it fits");
        let changes = input.rest();
        Input::new(changes).change(&mut image);
        Input::new(changes).change(&mut item);
        if let Ok(found) = block::read(&image, name, INDEX, bytes) {
            assert_eq!(found.len(), bytes);
        }
        if let Some((key, found)) = items::block::read(&item, &pointer, INDEX) {
            assert_eq!(items::block::block_bytes(key.len(), found.len()), all);
        }
        // Lengths of which nothing is known.
        let pointer = items::slot::BlockPointer { bytes: place as u32, ..pointer };
        assert!(items::block::read(&item, &pointer, INDEX).is_none() || pointer.bytes as usize == all);
        let _ = items::block::last_beginning(&item);
    });
}

#[test]
fn item_slots_and_keys() {
    use items::key::{EntryKey, KeyShape};
    use items::slot::{BlockPointer, Slot};
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let bytes = 16 + usize::from(input.byte()) % 49;
        let (kind, layer) = (input.byte(), input.word());
        let shape = KeyShape::new(bytes);
        let (mut key, mut slot) = (vec![0; bytes], vec![0; bytes]);
        shape.write(layer, &vec![kind; usize::from(kind) % 70], &mut key);
        let held = [kind; 13];
        match kind % 4 {
            0 => Slot::Inline(&held).write(&key, &mut slot),
            1 => Slot::Block(BlockPointer { place: layer, life: layer as u32, bytes: 77 }).write(&key, &mut slot),
            2 => Slot::Link(layer).write(&key, &mut slot),
            _ => {}
        }
        let (changes, sound) = (input.rest(), slot.clone());
        Input::new(changes).change(&mut slot);
        if let Some(found) = Slot::read(&key, &slot) {
            let mut again = vec![0; bytes];
            found.write(&key, &mut again);
            assert_eq!(Slot::read(&key, &again), Some(found));
            assert!(!matches!(found, Slot::Link(_)) || again == slot, "a link says all bytes of its slot");
        }
        let made_for = key.clone();
        Input::new(changes).change(&mut key);
        let is_link = matches!(Slot::read(&key, &sound), Some(Slot::Link(_)));
        assert!(!is_link || key == made_for, "a link of another entry");
        if let Some(EntryKey { layer, slice, more }) = shape.read(&key) {
            let mut again = vec![0; bytes];
            if more {
                shape.write_more(layer, slice, &mut again);
            } else {
                shape.write(layer, slice, &mut again);
            }
            assert_eq!(again, key, "bytes of which only some count");
        }
    });
}
