//! Keys and values of any length: the answers of the index, and its requests, step by step.

use dm_core::items::block::{KEY_BYTES_LIMIT, VALUE_BYTES_LIMIT};
use dm_core::items::key::KeyShape;
use dm_core::items::parameters::Parameters;
use dm_core::items::slot::Slot;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part};
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use dm_core::verbs::{Label, Request, Space, Status, Verb};
use dm_core::{chime, sherman};
use dm_host::kinds::IndexParameters;
use dm_sim::Run;
use dm_tests::client::{Client, Progress, Steps, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::fabric::{Failure, poke};
use dm_tests::goldens;
use dm_tests::subject::sherman::ShermanSubject;
use dm_tests::subject::{Shape, Subject};
use dm_tests::suite::runner;
use dm_tests::test_bed::{Direct, Fixture as _, Setup};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Items over an index of a kind, not stretched: a shape's sizes are those of entry keys and slots.
#[derive(Clone, Copy, Debug)]
struct Plain(IndexKind, Parameters);

impl Subject for Plain {
    fn name(&self) -> &'static str {
        "items"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        let Shape { key_bytes, value_bytes, spans: (leaf_span, inner_span) } = *shape;
        let below = match self.0 {
            IndexKind::Chime => {
                let leaf_span = leaf_span.max(chime::layout::SPAN_MIN);
                chime::parameters::Parameters { key_bytes, value_bytes, leaf_span, neighborhood: 2, inner_span }.into()
            }
            IndexKind::Sherman => {
                sherman::parameters::Parameters { key_bytes, value_bytes, leaf_span, inner_span }.into()
            }
            kind => IndexParameters::with_sizes(kind, key_bytes, value_bytes).expect("a kind of this program").below,
        };
        below.with_any_length(self.1)
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let (leaf, inner) = self.parameters(shape).node_bytes();
        let block = dm_core::items::block::block_bytes(self.1.key_bytes_max, self.1.value_bytes_max);
        leaf.max(inner).max(block * 2)
    }

    fn switches(&self) -> Vec<(&'static str, dm_core::btree::Options)> {
        Vec::new()
    }
}

fn setup(key_bytes: usize, spans: (usize, usize)) -> Setup {
    let mut setup = Setup::new(Shape { key_bytes, value_bytes: 16, spans });
    (setup.chunk_nodes, setup.region_bytes) = (8, 16 << 20);
    setup.spending.page_bytes = 4096;
    setup.spending.links = 512;
    // A READ with the CAS of a lock, where the lock is quiet, would take a round trip off some counts and not off others.
    setup.spending.options.chain_lock_read = ChainedRead::Never;
    setup
}

/// Runs a point operation.
fn run(
    client: &mut Client<'_, '_>,
    kind: OperationKind,
    key: &[u8],
    value: &[u8],
    expected: &[u8],
) -> Run<Result<Outcome, OpError>> {
    let plan = client.index.plan();
    client.lanes[0].port().with(|scratch| {
        for (part, bytes) in [(Part::Key, key), (Part::Value, value), (Part::Expected, expected)] {
            assert!(plan.put(scratch, part, bytes), "{part:?} of {} bytes", bytes.len());
        }
    });
    let future = client.index.execute(&client.lanes[0], Operation::point(kind));
    client.drive(0, future)
}

/// Outcome and, where it comes with one, value.
fn ask(
    client: &mut Client<'_, '_>,
    kind: OperationKind,
    key: &[u8],
    value: &[u8],
    expected: &[u8],
) -> (Outcome, Option<Vec<u8>>) {
    let run = run(client, kind, key, value, expected);
    let outcome = run.result.unwrap_or_else(|error| panic!("{kind:?} {key:?}: {error}"));
    assert!(!client.lanes[0].in_doubt());
    let plan = client.index.plan();
    let output = || client.lanes[0].port().with(|scratch| plan.part(scratch, Part::Output).to_vec());
    let with_value = matches!(outcome, Outcome::Found | Outcome::Exists | Outcome::Mismatch);
    (outcome, with_value.then(output))
}

fn get(client: &mut Client<'_, '_>, key: &[u8]) -> Option<Vec<u8>> {
    ask(client, OperationKind::Get, key, b"", b"").1
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Records from `low` on, in pages.
fn scan(client: &mut Client<'_, '_>, low: &[u8], high: Option<&[u8]>, limit: u32) -> Records {
    let plan = client.index.plan();
    let mut all: Records = Vec::new();
    let mut low = low.to_vec();
    let mut operation = Operation { bounded: high.is_some(), ..Operation::scan(limit) };
    loop {
        client.lanes[0].port().with(|scratch| {
            assert!(plan.put(scratch, Part::Key, &low) && plan.put(scratch, Part::KeyHigh, high.unwrap_or_default()));
        });
        let future = client.index.execute(&client.lanes[0], operation);
        let Ok(Outcome::Page { records, more }) = client.drive(0, future).result else { panic!("a scan failed") };
        let page = |scratch: &mut [u8]| -> Records {
            plan.records(scratch, records as usize).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
        };
        let page = client.lanes[0].port().with(page);
        assert_eq!(page.len(), records as usize);
        assert!(records > 0 || !more, "an empty page has no cursor");
        all.extend(page);
        if !more {
            return all;
        }
        low.clone_from(&all.last().expect("a record").0);
        operation.after = true;
    }
}

#[test]
fn round_trips_are_those_of_the_index_below_and_one_more_per_block() {
    use OperationKind::{Delete, DeleteIf, Get, Insert, Update, UpdateIf, Upsert};
    let mut lines = Lines::default();
    let (short, long) = (&b"/etc/hosts"[..], [b'/'; 150]);
    let (tiny, large) = (&b"eight by"[..], [7; 100]);
    let parameters = Parameters { key_bytes_max: 1024, value_bytes_max: 1024 };
    alone(&Plain(IndexKind::Sherman, parameters), &Direct, &setup(64, (57, 12)), |client| {
        // Fills the lane's stock and the cache.
        ask(client, Insert, b"first", tiny, b"");
        ask(client, Insert, b"second", &large, b"");
        lines.title("a key that ends in its slice, values in the entry and in a block");
        lines.note("insert, inline", 3, &run(client, Insert, short, tiny, b""));
        lines.note("insert, present", 3, &run(client, Insert, short, tiny, b""));
        lines.note("get, inline", 1, &run(client, Get, short, b"", b""));
        lines.note("get, absent", 1, &run(client, Get, b"/etc/host", b"", b""));
        lines.note("update, inline to inline", 4, &run(client, Update, short, b"another", b""));
        lines.note("update, inline to block", 5, &run(client, Update, short, &large, b""));
        lines.note("get, block", 2, &run(client, Get, short, b"", b""));
        lines.note("update, block to block", 5, &run(client, Update, short, &large, b""));
        lines.note("update_if, block, as expected", 6, &run(client, UpdateIf, short, &large, &large));
        lines.note("update_if, block, another value", 2, &run(client, UpdateIf, short, tiny, tiny));
        lines.note("upsert, block to inline", 4, &run(client, Upsert, short, tiny, b""));
        lines.note("update, absent", 1, &run(client, Update, b"/etc/host", tiny, b""));
        lines.note("delete_if, another value", 1, &run(client, DeleteIf, short, b"", &large));
        lines.note("delete, inline", 4, &run(client, Delete, short, b"", b""));
        lines.note("delete, absent", 1, &run(client, Delete, short, b"", b""));
        lines.note("insert, block", 4, &run(client, Insert, short, &large, b""));
        lines.note("delete, block", 4, &run(client, Delete, short, b"", b""));
        lines.title("a key that goes on: 150 bytes in slices of 55");
        lines.note("insert, the only one of its slice", 5, &run(client, Insert, &long, tiny, b""));
        lines.note("get", 2, &run(client, Get, &long, b"", b""));
        lines.note("get, another key of that slice", 2, &run(client, Get, &long[..149], b"", b""));
        lines.note("update", 6, &run(client, Update, &long, tiny, b""));
        lines.note(
            "insert of one that parts after 140 bytes: two layers",
            19,
            &run(client, Insert, &long[..140], tiny, b""),
        );
        lines.note("get, two layers down, both links known", 1, &run(client, Get, &long[..140], b"", b""));
        lines.note("delete, two layers down", 4, &run(client, Delete, &long[..140], b"", b""));
        assert_eq!(client.lanes[0].marked(Mark::LAYER_MADE), 2);
    });
    goldens::check("verbs/items.txt", &lines.0);
}

#[test]
fn keys_of_every_length_live_side_by_side_in_their_order() {
    let parameters = Parameters { key_bytes_max: KEY_BYTES_LIMIT, value_bytes_max: VALUE_BYTES_LIMIT };
    for (kind, key_bytes) in KINDS.iter().flat_map(|&kind| [(kind, 16), (kind, 64)]) {
        let mut setup = setup(key_bytes, (8, 8));
        (setup.region_bytes, setup.spending.page_bytes) = (64 << 20, 1 << 18);
        alone(&Plain(kind, parameters), &Direct, &setup, |client| {
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let lengths =
                [0, 1, 2, 6, 7, 8, 14, 54, 55, 56, 110, 111, 255, 256, 1023, 1024, 1025, 4095, KEY_BYTES_LIMIT];
            for (stamp, length) in (0..).zip(lengths) {
                for byte in [0, b'a', 0xff] {
                    let mut key = vec![byte; length];
                    model.insert(key.clone(), vec![stamp; [0, 1, 14, 15, 300][usize::from(stamp) % 5]]);
                    if let Some(last) = key.last_mut() {
                        *last ^= 1;
                        model.insert(key, vec![byte; usize::from(stamp)]);
                    }
                }
            }
            model.insert(b"large".to_vec(), vec![1; VALUE_BYTES_LIMIT]);
            for (key, value) in model.iter().rev() {
                assert_eq!(ask(client, OperationKind::Insert, key, value, b"").0, Outcome::Inserted);
            }
            for (key, value) in &model {
                assert_eq!(get(client, key).as_ref(), Some(value), "{} bytes", key.len());
            }
            let everything: Records = model.clone().into_iter().collect();
            assert_eq!(scan(client, b"", None, 10), everything);
            let future = client.index.validate(&client.lanes[0]);
            assert_eq!(client.drive(0, future).result.unwrap().records, model.len() as u64);
            for (key, value) in &model {
                assert_eq!(ask(client, OperationKind::Delete, key, b"", b"").0, Outcome::Deleted);
                assert_eq!(get(client, key), None);
                assert_eq!(ask(client, OperationKind::Insert, key, value, b"").0, Outcome::Inserted, "again");
            }
            assert_eq!(scan(client, b"", None, 1000), everything);
            client.assert_quiet("after keys of every length");
        });
    }
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Point(OperationKind, Vec<u8>, Vec<u8>, bool),
    Scan(Vec<u8>, Option<Vec<u8>>, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let letter = || prop_oneof![3 => Just(0u8), 6 => Just(b'a'), 3 => Just(b'b'), 1 => Just(255)];
    let key = || {
        // Prefixes in common, of several slices.
        (0..4usize, prop::collection::vec(letter(), 0..12))
            .prop_map(|(slices, tail)| std::iter::repeat_n(b'a', slices * 7).chain(tail).collect::<Vec<u8>>())
    };
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let kind = prop::sample::select(OperationKind::ALL.to_vec());
    prop_oneof![
        12 => (kind, key(), value, any::<bool>()).prop_map(|(kind, key, value, flag)| Step::Point(kind, key, value, flag)),
        1 => (key(), prop::option::of(key()), 1..20u32).prop_map(|(low, high, limit)| Step::Scan(low, high, limit)),
    ]
}

#[test]
fn agrees_with_a_map_of_byte_strings() {
    use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
    let parameters = Parameters { key_bytes_max: 40, value_bytes_max: 40 };
    let sizes = prop::sample::select(vec![16usize, 18, 64]);
    let histories = (prop::sample::select(KINDS.to_vec()), sizes, prop::collection::vec(step(), 1..300));
    let result = runner(128).run(&histories, |(kind, key_bytes, history)| {
        alone(&Plain(kind, parameters), &Direct, &setup(key_bytes, (3, 3)), |client| {
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for step in &history {
                let (kind, key, value, as_expected) = match step {
                    Step::Point(kind, key, value, flag) if *kind != Scan => (*kind, key, value, *flag),
                    Step::Point(_, key, ..) => {
                        let expected: Records =
                            model.range(key.clone()..).map(|(k, v)| (k.clone(), v.clone())).collect();
                        assert_eq!(scan(client, key, None, 7), expected);
                        continue;
                    }
                    Step::Scan(low, high, limit) => {
                        let inside = |(key, _): &(&Vec<u8>, &Vec<u8>)| high.as_ref().is_none_or(|high| *key < high);
                        let from = model.range(low.clone()..).take_while(inside);
                        let expected: Records = from.map(|(k, v)| (k.clone(), v.clone())).collect();
                        assert_eq!(scan(client, low, high.as_deref(), *limit), expected);
                        continue;
                    }
                };
                let before = model.get(key).cloned();
                let expected = before.clone().filter(|_| as_expected).unwrap_or_else(|| b"something else".to_vec());
                let same = before.as_ref() == Some(&expected);
                let (outcome, output, after) = match (kind, before.clone()) {
                    (Get, Some(_)) => (Outcome::Found, before.clone(), before),
                    (Insert, Some(_)) => (Outcome::Exists, before.clone(), before),
                    (Insert | Upsert, None) => (Outcome::Inserted, None, Some(value.clone())),
                    (Update, Some(_)) => (Outcome::Updated, None, Some(value.clone())),
                    (Upsert, Some(_)) => (Outcome::Replaced, None, Some(value.clone())),
                    (UpdateIf, Some(_)) if same => (Outcome::Updated, None, Some(value.clone())),
                    (Delete, Some(_)) => (Outcome::Deleted, None, None),
                    (DeleteIf, Some(_)) if same => (Outcome::Deleted, None, None),
                    (UpdateIf | DeleteIf, Some(_)) => (Outcome::Mismatch, before.clone(), before),
                    (_, None) => (Outcome::Absent, None, None),
                    (Scan, _) => unreachable!("not a point operation"),
                };
                assert_eq!(ask(client, kind, key, value, &expected), (outcome, output), "{kind:?} {key:?}");
                match after {
                    Some(value) => model.insert(key.clone(), value),
                    None => model.remove(key),
                };
            }
            let everything: Records = model.into_iter().collect();
            assert_eq!(scan(client, b"", None, 100), everything);
            let future = client.index.validate(&client.lanes[0]);
            assert_eq!(client.drive(0, future).result.unwrap().records, everything.len() as u64);
            client.assert_quiet("after a history");
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Values for which there is no memory are refused, and the old value stays. Smaller ones still succeed.
#[test]
fn a_pool_without_room_for_a_block_says_so_and_changes_nothing() {
    let parameters = Parameters { key_bytes_max: 64, value_bytes_max: 2000 };
    let mut setup = setup(64, (8, 8));
    (setup.region_bytes, setup.chunk_nodes) = (192 << 10, 4);
    // Not DEX: a node of its own is refused first there, while a block still finds room.
    for &kind in KINDS.iter().filter(|&&kind| kind != IndexKind::Dex) {
        alone(&Plain(kind, parameters), &Direct, &setup, |client| {
            let mut held = 0u32;
            let full = loop {
                match run(client, OperationKind::Insert, &held.to_be_bytes(), &[held as u8; 2000], b"").result {
                    Ok(outcome) => assert_eq!(outcome, Outcome::Inserted),
                    Err(error) => break error,
                }
                held += 1;
                assert!(held < 1000, "192 KiB hold no 2 MB");
            };
            assert_eq!((full.cause, full.effect), (Cause::PoolFull, Effect::None));
            assert!(held > 10 && !client.lanes[0].in_doubt());
            assert_eq!(get(client, &held.to_be_bytes()), None);
            let refused = run(client, OperationKind::Update, &0u32.to_be_bytes(), &[9; 2000], b"").result;
            assert!(refused.is_err_and(|error| error.cause == Cause::PoolFull && error.effect == Effect::None));
            assert_eq!(get(client, &0u32.to_be_bytes()), Some(vec![0; 2000]), "as it was");
            // A place becomes free, and is reused, also for smaller blocks.
            assert_eq!(ask(client, OperationKind::Delete, &1u32.to_be_bytes(), b"", b"").0, Outcome::Deleted);
            assert_eq!(ask(client, OperationKind::Update, &0u32.to_be_bytes(), &[9; 500], b"").0, Outcome::Updated);
            assert_eq!(ask(client, OperationKind::Update, &2u32.to_be_bytes(), &[8; 500], b"").0, Outcome::Updated);
            assert_eq!(get(client, &0u32.to_be_bytes()), Some(vec![9; 500]));
            assert_eq!(scan(client, b"", None, 5).len(), held as usize - 1);
            client.assert_quiet("on a full pool");
        });
    }
}

/// A census finds that the entry of a link is lost, by what is behind it. A layer with one entry that names a block may
/// have been left by a crash.
#[test]
fn a_census_misses_the_link_to_a_layer() {
    let items = Parameters { key_bytes_max: 200, value_bytes_max: 100 };
    let plain = Plain(IndexKind::Sherman, items);
    let setup = setup(16, (8, 16));
    let (value, long) = (&b"inline"[..], &[7; 40][..]);
    // What is in the layer when its link is lost, and whether it may have been left.
    for (records, unlinked, left) in [
        (&[(&b"prefix.a"[..], long), (b"prefix.b", long)][..], 2, 0),
        (&[(b"prefix.a", long), (b"prefix.b", value)], 2, 0),
        (&[(b"prefix.a", value)], 1, 0),
        (&[(b"prefix.a", long)], 0, 1),
        (&[], 0, 0),
        // A second layer below it: a link and two records.
        (&[(b"prefix.another.a", long), (b"prefix.another.b", long)], 3, 0),
    ] {
        let mut test_bed = Direct.test_bed(&plain, &setup);
        on_test_bed(&plain, &mut test_bed, &setup, 0, &mut |client| {
            // Keys of more than a slice, so that two make a layer.
            let makes = [&b"prefix.z1"[..], b"prefix.z2"];
            for key in makes {
                assert_eq!(ask(client, OperationKind::Insert, key, value, b"").0, Outcome::Inserted);
            }
            for key in makes {
                assert_eq!(ask(client, OperationKind::Delete, key, b"", b"").0, Outcome::Deleted);
            }
            for (key, value) in records.iter().chain([&(&b"other"[..], value)]) {
                assert_eq!(ask(client, OperationKind::Insert, key, value, b"").0, Outcome::Inserted);
            }
            let census = client.validate();
            assert_eq!((census.unlinked_entries, census.left_layers), (0, 0), "nothing is lost");
        });
        on_test_bed(&ShermanSubject, &mut test_bed, &setup, 1, &mut |client| {
            let (index, lanes) = (client.index, client.lanes);
            let key = index.plan().key.clone();
            lanes[0].port().with(|scratch| KeyShape::new(16).write_more(0, b"prefix.", &mut scratch[key.clone()]));
            let deleted = client.drive(0, index.execute(&lanes[0], Operation::point(OperationKind::Delete)));
            assert_eq!(deleted.result, Ok(Outcome::Deleted), "the entry of the link");
        });
        on_test_bed(&plain, &mut test_bed, &setup, 2, &mut |client| {
            let (index, lanes) = (client.index, client.lanes);
            let census = client.drive(0, index.validate(&lanes[0])).result.unwrap();
            assert_eq!(
                (census.records, census.unlinked_entries, census.left_layers),
                (1, unlinked, left),
                "{records:?}"
            );
            assert_eq!(census.at_rest().is_err(), unlinked > 0);
        });
    }
}

/// Two dozen layers, each with two links to the next one, and one record in the last: it counts as sixteen million. The
/// walk counted them one by one.
#[test]
fn links_in_a_maze_end_no_walk_late() {
    const LAYERS: u64 = 24;
    let items = Parameters { key_bytes_max: 200, value_bytes_max: 100 };
    let mut setup = setup(16, (8, 8));
    setup.region_bytes = 512 << 10;
    let mut test_bed = Direct.test_bed(&Plain(IndexKind::Sherman, items), &setup);
    let shape = KeyShape::new(16);
    on_test_bed(&ShermanSubject, &mut test_bed, &setup, 0, &mut |client| {
        let mut put = |layer: u64, first: u8, slot: &Slot<'_>| {
            let (index, lanes) = (client.index, client.lanes);
            lanes[0].port().with(|scratch| {
                let slice = [first; 7];
                let mut key = [0; 16];
                match slot {
                    Slot::Link(_) => shape.write_more(layer, &slice, &mut key),
                    _ => shape.write(layer, &slice, &mut key),
                }
                scratch[index.plan().key.clone()].copy_from_slice(&key);
                slot.write(&key, &mut scratch[index.plan().value.clone()]);
            });
            let inserted = client.drive(0, index.execute(&lanes[0], Operation::point(OperationKind::Insert)));
            assert_eq!(inserted.result, Ok(Outcome::Inserted));
        };
        for layer in 0..LAYERS {
            put(layer, b'a', &Slot::Link(layer + 1));
            put(layer, b'b', &Slot::Link(layer + 1));
        }
        put(LAYERS, b'a', &Slot::Inline(b"one"));
    });
    on_test_bed(&Plain(IndexKind::Sherman, items), &mut test_bed, &setup, 1, &mut |client| {
        let (index, lanes) = (client.index, client.lanes);
        let census = client.drive(0, index.validate(&lanes[0])).result;
        let Err(OpError { cause: Cause::Corrupt { what, .. }, .. }) = census else { panic!("{census:?}") };
        assert_eq!(what, "links to more entries than the pool has room for");
    });
}

/// An insert removed the layer that it had made in vain, which emptied a leaf, and the merge of that leaf failed with a
/// queue pair. The WRITE that retires the right leaf was under way. The insert settles by itself before its next step.
/// It freed the lock of the parent, on another memory node, at once. Another lane locked the parent and linked the
/// right leaf again. Then that WRITE landed.
///
/// The test searches for records that make such a merge.
#[test]
fn an_insert_that_settles_inside_itself_frees_nothing_while_a_write_that_failed_may_still_land() {
    for kind in [IndexKind::Sherman, IndexKind::Chime] {
        let mut runs = (2..=40).flat_map(|records| {
            (1..=8).flat_map(move |deleted| (1..=4).map(move |releases| (records, deleted.min(records), releases)))
        });
        let met = runs.any(|(records, deleted, releases)| merge_cut_short(kind, records, deleted, releases));
        assert!(met, "{kind:?}: no merge over two memory nodes");
    }
}

/// Inserts a key whose slice has a block. When the insert has unlocked `releases` times, another lane deletes the last
/// `deleted` of `records` records. Returns `false` if no merge of leaves on two memory nodes occurs.
fn merge_cut_short(kind: IndexKind, records: usize, deleted: usize, releases: usize) -> bool {
    // Few leaves fill a chunk, and chunks come from both memory nodes in turn.
    let shape = Shape { key_bytes: 16, value_bytes: 1000, spans: (2, 32) };
    let mut setup = Setup { recovery: Some(64), chunk_nodes: 2, region_bytes: 1 << 20, ..Setup::new(shape).on(2) };
    // With local queues, the other lane would queue behind this one, which has not noticed yet that it has unlocked.
    setup.spending.options.hierarchical = false;
    (setup.spending.lanes, setup.spending.page_bytes, setup.spending.links) = (2, 4096, 16);
    let parameters = Parameters { key_bytes_max: 32, value_bytes_max: 32 };
    let key = |n: usize, rest: &str| format!("{n:07} {rest}").into_bytes();
    let mut met = false;
    alone(&Plain(kind, parameters), &Direct, &setup, |client| {
        for n in 0..records {
            ask(client, OperationKind::Insert, &key(n, "one"), b"1", b"");
        }
        let other = key(records - 1, "two");
        let (index, lanes) = (client.index, client.lanes);
        let plan = index.plan();
        let port = lanes[0].port();
        port.with(|scratch| assert!(plan.put(scratch, Part::Key, &other) && plan.put(scratch, Part::Value, b"2")));
        let mut insert = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Insert)));
        let mut released = 0;
        let node = loop {
            if insert.poll() != Progress::Submitted {
                return;
            }
            let locks = lanes[0].lock_records();
            let requests = port.requests();
            let retires = |request: &&Request| request.label == Label::Sibling && request.verb == Verb::Write;
            let right = requests.iter().find(retires).map(|request| request.node);
            // Only a merge holds three locks. Its parent was written before, on another memory node.
            let apart = |request: &Request| Some(request.node) == right && request.label != Label::Parent;
            if let Some(right) = right.filter(|_| locks.len() == 3 && requests.iter().all(apart)) {
                break right;
            }
            let unlocks = requests.iter().any(|request| request.label == Label::Unlock);
            drop(requests);
            insert.post(client.fabric);
            released += usize::from(unlocks);
            for n in (records - deleted..records).filter(|_| unlocks && released == releases).rev() {
                let gone = key(n, "one");
                lanes[1].port().with(|scratch| assert!(plan.put(scratch, Part::Key, &gone)));
                let delete = index.execute(&lanes[1], Operation::point(OperationKind::Delete));
                assert_eq!(client.drive(1, delete).result, Ok(Outcome::Deleted));
            }
        };
        met = true;
        let late: Vec<_> = port.with(|scratch| {
            let bytes = |request: &Request| scratch[request.local as usize..][..request.bytes as usize].to_vec();
            port.requests().iter().map(|request| (request.offset, bytes(request))).collect()
        });
        let flushed = Some(Failure { after: 0, times: 1, status: Status::Flushed, lands: false });
        client.fabric.failure = flushed;
        insert.post(client.fabric);
        for _ in 0..40 {
            assert_eq!(insert.poll(), Progress::Submitted, "{kind:?}");
            let requests = port.requests();
            let unlock = requests.iter().find(|request| request.label == Label::Unlock);
            assert_eq!(unlock, None, "{kind:?}: a lock is freed while a WRITE may still land");
            let fails = requests.iter().any(|request| !request.verb.is_local() && request.node == node);
            client.fabric.failure = flushed.filter(|_| fails);
            drop(requests);
            insert.post(client.fabric);
        }
        // The queue pair is closed now, and its last WRITEs have landed.
        client.fabric.failure = None;
        for (offset, bytes) in &late {
            poke(client.fabric, Space::Host, node, *offset, bytes);
        }
        assert_eq!(insert.go(client.fabric), Progress::Done(Ok(Outcome::Inserted)));
        client.assert_quiet("after the insert");
        assert_eq!(get(client, &other).as_deref(), Some(&b"2"[..]));
        assert_eq!(client.validate().records, (records - deleted + 1) as u64);
    });
    met
}
