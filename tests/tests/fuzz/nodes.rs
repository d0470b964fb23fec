//! Nodes of B+-trees: images of leaves and inner nodes, as a READ finds them.

use crate::fuzz;
use crate::input::Input;
use dm_core::btree::inner::{Inner, InnerMut, InnerShape};
use dm_core::btree::node::{self, FenceCheck, Header, NodeFlags, Wanted};
use dm_core::remote::address::Address;
use dm_core::verbs::NodeId;
use dm_core::{chime, sherman};

const ADDRESS: Address = Address::new(NodeId(1), 0x4000, 3);
const INDEX: u8 = 1;

fn header(level: u8) -> Header {
    let sibling = Address::new(NodeId(1), 0x8000, 0);
    Header { generation: ADDRESS.generation(), level, index: INDEX, flags: NodeFlags::empty(), count: 0, sibling }
}

/// Key `number` of a sample.
fn key(number: usize, bytes: usize) -> Vec<u8> {
    let mut key = vec![0; bytes];
    key[bytes - 2] = number as u8;
    key
}

/// Where an image that was judged sends a reader, and what it says when it is the node of `key`.
fn judged(image: &[u8], level: u8, key: &[u8], here: impl FnOnce()) {
    let wanted = Wanted { address: ADDRESS, index: INDEX, level };
    match node::judge(image, &wanted, key) {
        Ok(FenceCheck::Here) => here(),
        Ok(FenceCheck::Right(to)) => assert!(!to.is_null(), "a reader is sent nowhere"),
        Ok(FenceCheck::Forward(_)) | Err(_) => {}
    }
}

/// That `slots` are some of `span`, each once.
fn are_slots(slots: &[u16], span: usize) {
    let mut seen = vec![false; span];
    for slot in slots {
        assert!(!std::mem::replace(&mut seen[usize::from(*slot)], true), "slot {slot} twice");
    }
}

#[test]
fn sherman_leaf() {
    use sherman::layout::{Leaf, LeafMut, LeafShape, SPAN_MAX};
    let shapes = [(8, 8, 1024), (16, 8, 512), (64, 1024, 4096), (9, 13, 320)]
        .map(|(key_bytes, value_bytes, bytes)| LeafShape::with_bytes(key_bytes, value_bytes, bytes));
    let samples = shapes.map(|shape| {
        let mut image = vec![0; shape.bytes];
        node::start(&mut image, &header(0), &key(0, shape.key_bytes), Some(&key(200, shape.key_bytes)));
        for slot in 0..shape.span.div_ceil(2) {
            let value = vec![slot as u8; shape.value_bytes];
            LeafMut::new(&shape, &mut image).put(slot, &key(slot * 3, shape.key_bytes), &value);
        }
        image
    });
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let which = usize::from(input.byte()) % shapes.len();
        let (shape, mut image) = (&shapes[which], samples[which].clone());
        let (wanted, high) = (input.key(shape.key_bytes), input.key(shape.key_bytes));
        input.change(&mut image);
        judged(&image, 0, &wanted, || {
            let leaf = Leaf::new(shape, &image);
            let mut found = vec![0; shape.key_bytes];
            if let Ok(Some(slot)) = leaf.find(&wanted) {
                leaf.read_key(slot, &mut found);
                assert_eq!(found, wanted);
                let mut value = vec![0; shape.value_bytes];
                leaf.read_value(slot, &mut value);
            }
            let mut slots = [0; SPAN_MAX];
            let count = leaf.sorted(&wanted, Some(&high), &mut slots);
            are_slots(&slots[..count], shape.span);
            let mut last = wanted.clone();
            for slot in &slots[..count] {
                leaf.read_key(usize::from(*slot), &mut found);
                assert!(last <= found && found < high);
                last.copy_from_slice(&found);
            }
            if let Ok(records) = leaf.check(&wanted, Some(&high)) {
                assert_eq!(records as usize, count);
            }
        });
    });
}

#[test]
fn chime_leaf() {
    use chime::layout::{Leaf, LeafShape, SPAN_MAX};
    let shapes = [(8, 8, 64, 8), (16, 8, 32, 16), (8, 8, 128, 8), (64, 100, 16, 4)]
        .map(|(key_bytes, value_bytes, span, near)| LeafShape::new(key_bytes, value_bytes, span, near));
    let samples = shapes.map(|shape| {
        let mut image = vec![0; shape.bytes];
        node::start(&mut image, &header(0), &key(0, shape.key_bytes), Some(&key(200, shape.key_bytes)));
        let mut leaf = chime::layout::LeafMut::new(&shape, &mut image);
        for number in 0..shape.span {
            // Where its hash puts it, if that is free.
            let key = key(number, shape.key_bytes);
            let home = shape.home(&key);
            if leaf.view().state(home) == chime::layout::State::Empty {
                leaf.put(home, &key, &vec![number as u8; shape.value_bytes]);
                leaf.set_bit(home, 0, true);
            }
        }
        leaf.seal(5);
        image
    });
    for (shape, image) in shapes.iter().zip(&samples) {
        let checked = Leaf::new(shape, image).check(&key(0, shape.key_bytes), Some(&key(200, shape.key_bytes)));
        assert!(checked.is_ok_and(|records| records > 2), "a sound sample: {checked:?}");
    }
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let which = usize::from(input.byte()) % shapes.len();
        let (shape, mut image) = (&shapes[which], samples[which].clone());
        let (wanted, high) = (input.key(shape.key_bytes), input.key(shape.key_bytes));
        input.change(&mut image);
        let leaf = Leaf::new(shape, &image);
        let home = shape.home(&wanted);
        let mut found = vec![0; shape.key_bytes];
        let _ = leaf.agrees(&shape.runs(home, shape.neighborhood));
        for group in 0..shape.groups() {
            let _ = leaf.replica(group);
        }
        if let Ok(Some(slot)) = leaf.find(home, &wanted) {
            leaf.read_key(slot, &mut found);
            assert_eq!(found, wanted);
            let _ = leaf.holds(slot, ADDRESS.generation(), &wanted);
        }
        let buckets = chime::vacancy::Buckets::new(shape.span);
        let _ = buckets.exact(&leaf);
        judged(&image, 0, &wanted, || {
            let _ = leaf.settled();
            let mut slots = [0; SPAN_MAX];
            let count = leaf.sorted(&wanted, Some(&high), &mut slots);
            are_slots(&slots[..count], shape.span);
            let mut last: Option<Vec<u8>> = None;
            for slot in &slots[..count] {
                leaf.read_key(usize::from(*slot), &mut found);
                assert!(last.is_none_or(|last| last < found) && wanted <= found && found < high);
                last = Some(found.clone());
            }
            if let Ok(records) = leaf.check(&wanted, Some(&high)) {
                assert_eq!(records as usize, count);
            }
        });
    });
}

#[test]
fn inner_node() {
    let shapes = [(8, 0, 1024), (16, 8, 512), (64, 0, 4096), (8, 8, 320)]
        .map(|(key_bytes, extension, bytes)| InnerShape::with_bytes(key_bytes, extension, bytes));
    let samples = shapes.map(|shape| {
        let mut image = vec![0; shape.bytes];
        node::start(&mut image, &header(1), &key(0, shape.key_bytes), None);
        let mut inner = InnerMut::new(&shape, &mut image);
        inner.set_child(0, Address::new(NodeId(1), 0x1_0000, 0));
        for i in 1..=shape.span.div_ceil(2) {
            assert!(inner.insert(&key(i * 2, shape.key_bytes), Address::new(NodeId(1), i as u64 * 0x400, 1)));
        }
        image
    });
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let which = usize::from(input.byte()) % shapes.len();
        let (shape, mut image) = (&shapes[which], samples[which].clone());
        let wanted = input.key(shape.key_bytes);
        input.change(&mut image);
        judged(&image, 1, &wanted, || {
            let Some(inner) = Inner::new(shape, &image) else { return };
            assert!(inner.separators() <= shape.span);
            let position = inner.position(&wanted);
            assert!(position <= inner.separators());
            let _ = (inner.child(position), inner.next(position));
            let mut separator = vec![0; shape.key_bytes];
            (1..=inner.separators()).for_each(|i| inner.read_separator(i, &mut separator));
            // A change of a damaged image keeps to the image, too.
            let mut changed = image.clone();
            let mut inner = InnerMut::new(shape, &mut changed);
            let had = inner.view().separators();
            if inner.insert(&wanted, ADDRESS) {
                assert_eq!(inner.view().separators(), had + 1);
                inner.remove(position + 1);
            }
            assert!(had < shape.span || changed == image, "a full node takes nothing");
        });
    });
}
