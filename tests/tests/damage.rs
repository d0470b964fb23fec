//! Damage made by hand that leads walks in circles: each walk ends with a typed error, or with the records that exist.

use dm_core::btree::inner::{InnerMut, InnerShape};
use dm_core::btree::node::{Header, SIBLING_AT};
use dm_core::layout::stripes;
use dm_core::operation::{Cause, OpError, Operation, OperationKind, Outcome};
use dm_core::radix::slot::{self, Child, Node, NodeType, Place, Slot};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::verbs::{NodeId, Space};
use dm_core::{chime, sherman};
use dm_tests::client::{Client, alone};
use dm_tests::fabric::{AnyFabric, peek, poke};
use dm_tests::subject::chime::ChimeSubject;
use dm_tests::subject::sherman::ShermanSubject;
use dm_tests::subject::smart::SmartSubject;
use dm_tests::subject::{Shape, Subject};
use dm_tests::test_bed::{Direct, Setup};

fn root_at(geometry: &[NodeGeometry]) -> u64 {
    root_offset(&geometry[0], IndexNumber::new(0).expect("the first entry"))
}

fn read(fabric: &mut AnyFabric, offset: u64, bytes: usize) -> Vec<u8> {
    peek(fabric, Space::Host, NodeId(0), offset, bytes)
}

fn write(fabric: &mut AnyFabric, offset: u64, bytes: &[u8]) {
    poke(fabric, Space::Host, NodeId(0), offset, bytes);
}

fn word(fabric: &mut AnyFabric, offset: u64) -> u64 {
    u64::from_le_bytes(read(fabric, offset, 8).try_into().expect("eight bytes"))
}

/// All records, a page after the other; or how that failed.
fn scan(client: &mut Client<'_, '_>) -> Result<Vec<Vec<u8>>, OpError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let (index, lanes) = (client.index, client.lanes);
    let plan = index.plan();
    let mut operation = Operation::scan(7);
    lanes[0].port().with(|scratch| scratch[plan.key.clone()].fill(0));
    loop {
        let page = client.drive(0, index.execute(&lanes[0], operation)).result?;
        let Outcome::Page { records, more } = page else { panic!("{page:?}") };
        lanes[0].port().with(|scratch| {
            let page: Vec<_> = plan.records(scratch, records as usize).map(|(key, _)| key.to_vec()).collect();
            if let Some(last) = page.last() {
                scratch[plan.key.clone()].copy_from_slice(last);
            }
            keys.extend(page);
        });
        assert!(keys.len() < 10_000, "a scan of 60 records goes on and on");
        operation.after = true;
        if !more {
            return Ok(keys);
        }
    }
}

fn walk(client: &mut Client<'_, '_>) -> Result<u64, OpError> {
    let (index, lanes) = (client.index, client.lanes);
    client.drive(0, index.validate(&lanes[0])).result.map(|census| census.records)
}

#[track_caller]
fn corrupt<T: std::fmt::Debug>(result: Result<T, OpError>, wanted: &str) {
    match result {
        Err(OpError { cause: Cause::Corrupt { what, .. }, .. }) if what.contains(wanted) => {}
        other => panic!("{other:?} is not {wanted:?}"),
    }
}

/// Nodes of eight levels, all of whose sixteen slots lead to the node of the next level: 16^7 paths to the last node,
/// which is empty. A scan followed them all.
#[test]
fn a_scan_does_not_go_all_ways_through_a_maze_of_nodes() {
    let setup = Setup { region_bytes: 128 << 10, chunk_nodes: 8, ..Setup::new(Shape::words(3, 3)) };
    alone(&SmartSubject, &Direct, &setup, |client| {
        let kind = NodeType::new(3).expect("sixteen slots");
        let place = |level: usize| Place::new(NodeId(0), client.geometry[0].heap + (level * kind.bytes()) as u64);
        for level in 0..8 {
            let mut image = vec![0; kind.bytes()];
            image[..8].copy_from_slice(&slot::Header::new(kind, level, level, &[]).word().to_le_bytes());
            image[8] = 1;
            for (byte, slot) in image[slot::SLOTS_AT..].chunks_exact_mut(8).enumerate() {
                if level < 7 {
                    slot.copy_from_slice(&Slot::node(byte as u8, kind, place(level + 1)).0.to_le_bytes());
                }
            }
            write(client.fabric, place(level).offset(), &image);
        }
        let root = Slot::node(0, kind, place(0));
        write(client.fabric, root_at(client.geometry), &root.in_root().to_le_bytes());
        corrupt(scan(client), "more nodes than the pool has room for");
        corrupt(walk(client), "more nodes than the pool has room for");
    });
}

/// A slot that led to the leaf of a lower key. The scan delivered that key again, last of its page, and the next page
/// began behind it. So everything in between was delivered twice.
#[test]
fn a_slot_that_leads_back_sends_no_scan_back() {
    alone(&SmartSubject, &Direct, &Setup::new(Shape::words(3, 3)), |client| {
        for n in 0..60 {
            client.put(n << 56, 1);
        }
        assert_eq!(scan(client).expect("it is sound").len(), 60);
        let root = Slot::of_root(word(client.fabric, root_at(client.geometry))).expect("it is sound");
        let Ok(Child::Node(kind, place)) = root.child() else { panic!("{root:?}") };
        let image = read(client.fabric, place.offset(), kind.bytes());
        let node = Node::new(&image, kind, 1).expect("the root");
        let leaf = |byte: u8| node.slots().position(|slot| !slot.is_empty() && slot.partial() == byte);
        let (low, high) = (leaf(1).expect("a leaf"), leaf(6).expect("another"));
        let Ok(Child::Leaf(to)) = node.slot(low).child() else { panic!("no leaf") };
        let at = place.offset() + (slot::SLOTS_AT + 8 * high) as u64;
        write(client.fabric, at, &Slot::leaf(6, to).0.to_le_bytes());
        corrupt(scan(client), "a leaf of another prefix");
        corrupt(walk(client), "a leaf of another prefix");
    });
}

/// Inner nodes of a B+-tree, and the leaves from left to right.
fn nodes(client: &mut Client<'_, '_>, inner: &InnerShape) -> (Vec<Address>, Vec<Address>) {
    let mut left = Address::from_bits(word(client.fabric, root_at(client.geometry)));
    let mut inners = Vec::new();
    loop {
        let (mut level, mut below) = (Vec::new(), Address::NULL);
        let mut address = left;
        while !address.is_null() {
            let mut image = read(client.fabric, address.offset(), inner.bytes);
            if level.is_empty() && Header::read(&image).level > 0 {
                below = InnerMut::new(inner, &mut image).view().child(0);
            }
            level.push(address);
            address = Header::read(&image).sibling;
        }
        if below.is_null() {
            return (inners, level);
        }
        inners.extend(level);
        left = below;
    }
}

/// What both kinds of B+-tree have: sound again after each damage, so that one test shows many.
fn damaged(
    subject: &dyn Subject,
    inner: &InnerShape,
    damage: impl Fn(&mut Client<'_, '_>, &[Address], &[Address]) -> Vec<(u64, Vec<u8>)>,
) {
    let setup = Setup { region_bytes: 256 << 10, ..Setup::new(Shape::words(3, 3)) };
    alone(subject, &Direct, &setup, |client| {
        for n in 0..60 {
            client.put(n << 40, 1);
        }
        let right = scan(client).expect("it is sound");
        assert_eq!(right.len(), 60);
        let (inners, leaves) = nodes(client, inner);
        assert!(inners.len() > 2 && leaves.len() > 4);
        let cases = damage(client, &inners, &leaves);
        for (offset, bytes) in &cases {
            let before = read(client.fabric, *offset, bytes.len());
            write(client.fabric, *offset, bytes);
            let walked = walk(client);
            let told = matches!(walked, Err(OpError { cause: Cause::Corrupt { .. }, .. }));
            assert!(told, "{}: {walked:?} of {offset:#x}", subject.name());
            // By their parents the records may still be found.
            if let Ok(found) = scan(client) {
                assert_eq!(found, right, "{}", subject.name());
            }
            for n in [0, 30, 59] {
                let _ = client.run(OperationKind::Get, n << 40, 1, 0);
            }
            write(client.fabric, *offset, &before);
            assert_eq!(walk(client), Ok(60));
        }
    });
}

fn both(damage: impl Fn(&InnerShape, &mut Client<'_, '_>, &[Address], &[Address]) -> Vec<(u64, Vec<u8>)>) {
    let (key_bytes, value_bytes, inner_span) = (8, 8, 3);
    let below = sherman::parameters::Parameters { key_bytes, value_bytes, leaf_span: 3, inner_span };
    damaged(&ShermanSubject, &below.inner(), |client, inners, leaves| damage(&below.inner(), client, inners, leaves));
    let mut below = chime::parameters::Parameters::with_sizes(key_bytes, value_bytes);
    below.inner_span = inner_span;
    damaged(&ChimeSubject, &below.inner(), |client, inners, leaves| damage(&below.inner(), client, inners, leaves));
}

/// Leaves whose links to the right lead to themselves, to the one before, to the first.
#[test]
fn links_of_leaves_in_a_circle_end_no_walk_late() {
    both(|_, _, _, leaves| {
        let last = leaves.len() - 2;
        let links = [(2, 2), (3, 2), (last, 0), (0, 0)];
        let at = |leaf: usize| leaves[leaf].offset() + stripes::stored_offset(SIBLING_AT) as u64;
        links.map(|(from, to)| (at(from), leaves[to].to_bits().to_le_bytes().to_vec())).to_vec()
    });
}

/// Inner nodes whose children are themselves, their parents, or the child before.
#[test]
fn children_of_inner_nodes_in_a_circle_end_no_walk_late() {
    both(|shape, client, inners, _| {
        let mut cases = Vec::new();
        for (i, address) in inners.iter().enumerate() {
            let image = read(client.fabric, address.offset(), shape.bytes);
            let mut view = image.clone();
            let first = InnerMut::new(shape, &mut view).view().child(0);
            for (child, to) in [(0, *address), (1, *address), (0, inners[0]), (1, first)] {
                let mut image = image.clone();
                let mut inner = InnerMut::new(shape, &mut image);
                if inner.view().child(child) != to && !(i == 0 && to == first && child == 0) {
                    inner.set_child(child, to);
                    cases.push((address.offset(), image));
                }
            }
        }
        cases
    });
}
