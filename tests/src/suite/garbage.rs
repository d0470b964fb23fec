//! Memory of any content: a typed error or an outcome, never a panic, never an operation without an end.

use super::{fill, runner};
use crate::client::{Client, alone, on_test_bed};
use crate::fabric::{AnyFabric, peek, poke};
use crate::oracle::POINT;
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Census, Operation, OperationKind, Outcome, Part};
use dm_core::remote::NodeGeometry;
use dm_core::verbs::{NodeId, Space};
use dm_sim::block_on;
use dm_sim::rng::Rng;

/// Longest time that an operation on broken memory may take: it may meet a lock that is never released, or links in a
/// ring.
const WAIT_NS: u64 = 20_000_000;

/// Runs every operation and the walk. Any result is right; a panic or an endless run is not.
fn try_everything(client: &mut Client<'_, '_>, n: u64) {
    for kind in POINT.into_iter().chain([OperationKind::Scan]) {
        client.arguments(0, n, 1, 2);
        let operation = match kind {
            OperationKind::Scan => Operation { deadline_ns: WAIT_NS, ..Operation::scan(30) },
            kind => Operation { deadline_ns: WAIT_NS, ..Operation::point(kind) },
        };
        let future = client.index.execute(&client.lanes[0], operation);
        let run = block_on(&client.lanes[0], client.fabric, future).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let _ = run.result;
        if client.lanes[0].in_doubt() {
            let _ = client.settle(0);
        }
    }
    let future = client.index.validate(&client.lanes[0]);
    let run = block_on(&client.lanes[0], client.fabric, future).unwrap_or_else(|error| panic!("walk: {error}"));
    let _ = run.result;
}

fn setup() -> Setup {
    Setup { region_bytes: 128 << 10, chunk_nodes: 8, ..Setup::new(Shape::words(3, 3)).on(2) }
}

/// Changes of one byte that are tried.
const CHANGES: u32 = 2000;

/// Places that are tried until one is found that is in use.
const TRIES: u32 = 50;

/// The first bytes of the heap that are looked at.
const HEAP_BYTES: usize = 32 << 10;

/// Noise: random bytes in the heaps, the chunk tables and the root word; often with headers and pointers that look
/// like nodes, since pure noise is turned away at the first byte.
pub fn garbage_is_an_error(subject: &dyn Subject, fixture: &dyn Fixture) {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        alone(subject, fixture, &setup(), |client| {
            let nodes = client.geometry.len() as u32;
            let heap = client.geometry[0].heap;
            let place = |rng: &mut Rng| {
                let node = u64::from(rng.below(nodes));
                node << 48 | (heap + u64::from(rng.below(64)) * 128) | u64::from(rng.below(4) / 3)
            };
            for (node, geometry) in (0..).zip(client.geometry) {
                let mut bytes: Vec<u8> = (0..HEAP_BYTES).map(|_| rng.bits() as u8).collect();
                if !rng.percent(20) {
                    for image in bytes.chunks_exact_mut(128) {
                        plausible(image, &mut rng, place);
                    }
                }
                poke(client.fabric, Space::Host, NodeId(node), geometry.heap, &bytes);
            }
            let root = if rng.percent(90) { place(&mut rng) } else { rng.bits() };
            // In a radix tree most would not pass the check.
            let root = if rng.percent(50) { dm_core::radix::slot::Slot(root).in_root() } else { root };
            let root_word = dm_core::remote::catalog::root_offset(
                &client.geometry[0],
                dm_core::remote::catalog::IndexNumber::new(0).expect("the first"),
            );
            poke(client.fabric, Space::Host, NodeId(0), root_word, &root.to_le_bytes());
            for n in [0, 0x4000_0000_0000_0000, rng.bits(), u64::MAX] {
                try_everything(client, n);
            }
        });
    }
}

/// Makes noise look like a node of two lines: versions that agree, a level, a few entries, pointers to other such.
fn plausible(image: &mut [u8], rng: &mut Rng, place: impl Fn(&mut Rng) -> u64) {
    let version = rng.below(16) as u8;
    image[0] = version;
    image[64] = version;
    image[1] = (rng.below(4) / 3) as u8;
    image[2] = rng.below(4) as u8;
    image[3] = 1;
    image[4] = [0, 0, 1, 1, 2, 0xff][rng.below(6) as usize];
    image[5] = rng.below(5) as u8;
    image[6] = 0;
    image[7..15].copy_from_slice(&place(rng).to_le_bytes());
    if rng.percent(70) {
        image[15..23].fill(0);
    }
    if rng.percent(70) {
        image[23..31].fill(0xff);
    }
    image[31..39].copy_from_slice(&place(rng).to_le_bytes());
    image[47..55].copy_from_slice(&place(rng).to_le_bytes());
}

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

/// All records, as `dm dump` would write them. `None`: it would fail, since the walk or the scan finds damage, keys do not
/// ascend, or the scan has not as many records as the walk.
fn dump(client: &mut Client<'_, '_>) -> Option<Vec<Record>> {
    let (index, lanes, plan) = (client.index, client.lanes, client.index.plan());
    let census = client.drive(0, index.validate(&lanes[0])).result.and_then(Census::at_rest).ok()?;
    let mut records: Vec<Record> = Vec::new();
    let mut operation = Operation { deadline_ns: WAIT_NS, ..Operation::scan(7) };
    assert!(lanes[0].port().with(|scratch| plan.put(scratch, Part::Key, &vec![0; plan.key_bytes])));
    loop {
        let page = client.drive(0, index.execute(&lanes[0], operation)).result.ok()?;
        let Outcome::Page { records: count, more } = page else { panic!("{page:?}") };
        lanes[0].port().with(|scratch| {
            let page = plan.records(scratch, count as usize).map(|(key, value)| (key.to_vec(), value.to_vec()));
            records.extend(page.collect::<Vec<_>>());
            if let Some((last, _)) = records.last() {
                assert!(plan.put(scratch, Part::Key, last));
            }
        });
        if records.len() as u64 > census.records || !records.is_sorted_by(|(one, _), (other, _)| one < other) {
            return None;
        }
        operation.after = true;
        if !more {
            return (records.len() as u64 == census.records).then_some(records);
        }
    }
}

/// Changes of one byte each, of an index in order: a dump fails, or has the records that were there. Only a byte of an
/// entry that no checksum covers may go unseen, and then at most that entry differs: another value, another key, or an
/// entry more or less. With keys of any length an entry may lead to others: it has a checksum, and is missed if it is gone.
pub fn a_dump_of_damage_fails_or_differs_in_one_entry(subject: &dyn Subject, fixture: &dyn Fixture) {
    let mut setup = setup();
    // A dump has no copies of nodes.
    setup.spending.cache_bytes = 0;
    let mut test_bed = fixture.test_bed(subject, &setup);
    let mut sound = Vec::new();
    on_test_bed(subject, &mut test_bed, &setup, 0, &mut |client| {
        // Keys of any length: one layer with many records, and some with few.
        fill(client, 36, 1);
        let groups = (1..=8).flat_map(|group| (0..group.min(4)).map(move |n| group << 40 | n));
        for n in groups {
            client.ask(OperationKind::Insert, n, 7, 0);
        }
        sound = dump(client).expect("nothing is damaged");
        let leaves = client.index.leave(&client.lanes[0]);
        client.drive(0, leaves).result.unwrap_or_else(|error| panic!("{error}"));
    });
    assert_eq!(sound.len(), 36 + 1 + 2 + 3 + 5 * 4);
    let regions: Vec<_> = (0..)
        .zip(&test_bed.geometry)
        .map(|(node, geometry)| {
            let bytes = geometry.region_bytes as usize;
            (NodeId(node), geometry.heap as usize, peek(&mut test_bed.fabric, Space::Host, NodeId(node), 0, bytes))
        })
        .collect();
    let (mut failed, mut same, mut differ) = (0, 0, 0);
    let mut rng = Rng::new(21);
    for strike in 0..CHANGES / fixture.stride() {
        let (node, heap, region) = &regions[rng.below(regions.len() as u32) as usize];
        // Of what is in use, most: elsewhere there are zeros.
        let mut at = heap + rng.below(HEAP_BYTES as u32) as usize;
        for _ in 0..TRIES {
            if region[at] != 0 {
                break;
            }
            at = heap + rng.below(HEAP_BYTES as u32) as usize;
        }
        let byte = region[at] ^ (1 + rng.below(255) as u8);
        poke(&mut test_bed.fabric, Space::Host, *node, at as u64, &[byte]);
        on_test_bed(subject, &mut test_bed, &setup, 0, &mut |client| {
            let what = || format!("change {strike}: byte {at:#x} of {node:?} is {byte:#x}");
            match dump(client) {
                None => failed += 1,
                Some(records) if records == sound => same += 1,
                Some(records) => {
                    differ += 1;
                    let gone = sound.iter().filter(|record| !records.contains(record)).count();
                    let new = records.iter().filter(|record| !sound.contains(record)).count();
                    assert!(!subject.seals_entries(), "{}: {gone} gone, {new} new", what());
                    assert!(gone <= 1 && new <= 1, "{}: {gone} gone, {new} new", what());
                }
            }
        });
        for (node, _, region) in &regions {
            poke(&mut test_bed.fabric, Space::Host, *node, 0, region);
        }
    }
    assert!(failed > 0 && same > 0, "{failed} failed, {same} are the same, {differ} differ");
}

/// Damage: an index in order, then bytes flipped, words swapped for others, lines copied over each other.
pub fn damage_is_an_error_or_harmless(subject: &dyn Subject, fixture: &dyn Fixture) {
    use proptest::prelude::*;
    let damage =
        prop::collection::vec((0..4u8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12);
    let result = runner(150 / fixture.stride()).run(&damage, |damage| {
        alone(subject, fixture, &setup(), |client| {
            fill(client, 60, 1);
            for &(what, at, from, byte) in &damage {
                hurt(client.fabric, client.geometry, what, at, from, byte);
            }
            for n in [0, 30, 59, u64::MAX] {
                try_everything(client, n);
            }
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{} on {}: {error}", subject.name(), fixture.name()));
}

fn hurt(
    fabric: &mut AnyFabric,
    geometry: &[NodeGeometry],
    what: u8,
    at: proptest::sample::Index,
    from: proptest::sample::Index,
    byte: u8,
) {
    let node = NodeId(at.index(geometry.len()) as u16);
    let heap = geometry[node.0 as usize].heap;
    // What 60 records take.
    let used = 16 << 10;
    let (at, from) = (heap + at.index(used) as u64, heap + from.index(used) as u64);
    let (unit, mask) = match what {
        0 => (1, !0),
        1 => (8, !7),
        2 => (64, !63),
        _ => (128, !127),
    };
    let mut bytes = peek(fabric, Space::Host, node, from & mask, unit);
    if what == 0 {
        bytes[0] = byte;
    }
    poke(fabric, Space::Host, node, at & mask, &bytes);
}
