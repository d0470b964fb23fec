//! The requests of every operation of Dolphin, step by step: the goldens in `tests/goldens/verbs/dolphin_*`.

use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::verbs::{Label, Verb};
use dm_tests::client::{Client, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::goldens;
use dm_tests::subject::Shape;
use dm_tests::subject::dolphin::DolphinSubject;
use dm_tests::test_bed::{Direct, Fixture, Setup};

use OperationKind::{Delete, DeleteIf, Get, Insert, Update, UpdateIf, Upsert};

/// One memory node, so that all that is new is where its slot is.
fn setup() -> Setup {
    let mut setup = Setup::new(Shape::words(2, 2));
    setup.chunk_nodes = 64;
    setup
}

/// A bulk load of keys at equal distances, and copies of all nodes.
fn load(client: &mut Client<'_, '_>, records: u64) {
    client.load(records);
    for n in 0..records {
        client.get(n * 10);
    }
    // Chunks for what is new.
    client.put(5, 5);
}

#[test]
fn operations_on_known_leaves() {
    let mut lines = Lines::default();
    lines.title("leaf known from a copy");
    alone(&DolphinSubject, &Direct, &setup(), |client| {
        load(client, 1000);
        lines.note("get, present", 1, &client.run(Get, 40, 0, 0));
        lines.note("get, absent", 1, &client.run(Get, 41, 0, 0));
        lines.note("update, present", 2, &client.run(Update, 40, 1, 0));
        // It leaves with nothing to WRITE.
        lines.note("update, absent", 2, &client.run(Update, 41, 1, 0));
        lines.note("upsert, present", 2, &client.run(Upsert, 40, 2, 0));
        lines.note("update_if, as expected", 2, &client.run(UpdateIf, 40, 3, 2));
        lines.note("update_if, another value", 2, &client.run(UpdateIf, 40, 4, 2));
        lines.note("insert, present", 2, &client.run(Insert, 40, 1, 0));
        lines.note("delete, present", 2, &client.run(Delete, 40, 0, 0));
        lines.note("get, deleted", 1, &client.run(Get, 40, 0, 0));
        lines.note("insert, deleted", 2, &client.run(Insert, 40, 1, 0));
        lines.note("delete_if, as expected", 2, &client.run(DeleteIf, 40, 0, 1));
        lines.note("insert, absent", 2, &client.run(Insert, 41, 1, 0));
        // Two entries of the leaf: beside others first, then alone.
        lines.note("upsert, absent", 4, &client.run(Upsert, 42, 1, 0));
    });
    goldens::check("verbs/dolphin_known_leaf.txt", &lines.0);
}

/// Inserts that claim a cell, and updates under an exclusive lock.
#[test]
fn techniques() {
    let mut lines = Lines::default();
    let mut setup = setup();
    setup.spending.options.shared_inserts = true;
    alone(&DolphinSubject, &Direct, &setup, |client| {
        load(client, 1000);
        lines.title("shared inserts");
        lines.note("insert, absent", 3, &client.run(Insert, 41, 1, 0));
        lines.note("insert, present", 2, &client.run(Insert, 41, 2, 0));
        lines.note("delete", 2, &client.run(Delete, 41, 0, 0));
        // Its key is bound already, perhaps by a lane that is about to WRITE its value: so the leaf is needed alone.
        lines.note("insert, deleted", 4, &client.run(Insert, 41, 3, 0));
        lines.note("get of it", 1, &client.run(Get, 41, 0, 0));
    });
    setup.spending.options.shared_inserts = false;
    setup.spending.options.shared_updates = false;
    alone(&DolphinSubject, &Direct, &setup, |client| {
        load(client, 1000);
        lines.title("no shared updates");
        lines.note("update, present", 2, &client.run(Update, 40, 1, 0));
    });
    goldens::check("verbs/dolphin_techniques.txt", &lines.0);
}

/// The last record of a leaf is deleted, and its void filled again.
#[test]
fn voids() {
    let mut lines = Lines::default();
    let mut setup = setup();
    setup.epochs = true;
    alone(&DolphinSubject, &Direct, &setup, |client| {
        load(client, 1000);
        lines.title("a leaf of few records, under a node of its own");
        client.run(Insert, 1 << 40 | 7, 1, 0);
        let emptied = client.lanes[0].marked(Mark::LEAF_EMPTIED);
        lines.note("delete of the last one", 4, &client.run(Delete, 1 << 40 | 7, 0, 0));
        assert_eq!(client.lanes[0].marked(Mark::LEAF_EMPTIED), emptied + 1);
        lines.note("get of it", 1, &client.run(Get, 1 << 40 | 7, 0, 0));
        let run = client.run(Insert, 1 << 40 | 9, 1, 0);
        lines.note("insert into the void, which a copy shows", run.counts.round_trips, &run);
        lines.note("get of it", 1, &client.run(Get, 1 << 40 | 9, 0, 0));
    });
    goldens::check("verbs/dolphin_voids.txt", &lines.0);
}

/// Inserts that need a new leaf.
#[test]
fn structure_changes() {
    let mut lines = Lines::default();
    alone(&DolphinSubject, &Direct, &setup(), |client| {
        load(client, 1000);
        let marks = [Mark::LEAF_SPLIT, Mark::NODE_REPLACED, Mark::VOID_FILLED, Mark::HEADER_SPLIT, Mark::LONG_PATH];
        let mut seen = std::collections::BTreeSet::new();
        let far = (1..40u64).map(|n| n << 40 | 7).chain((1..40).map(|n| n << 20 | 3));
        for n in (0..10_000).filter(|n| n % 10 > 5).chain(far) {
            let before = marks.map(|mark| client.lanes[0].marked(mark));
            let run = client.run(Insert, n, 1, 0);
            let after = marks.map(|mark| client.lanes[0].marked(mark));
            let changed: Vec<_> = (0..marks.len()).filter(|&i| after[i] > before[i]).map(|i| marks[i].name()).collect();
            let granted = run.count(Verb::Cas, Label::Chunk) > 0;
            if changed.is_empty() || granted || !seen.insert(changed.clone()) {
                continue;
            }
            let what = format!("insert: {}", changed.join(", "));
            lines.title(&what);
            let trips = run.counts.round_trips;
            match changed[..] {
                ["void-filled"] => assert!(trips <= 3, "{}", run.steps()),
                ["leaf-split"] => assert!(trips <= 6, "{}", run.steps()),
                _ => {}
            }
            lines.note("insert", trips, &run);
            lines.note("get of it", 1, &client.run(Get, n, 0, 0));
        }
        assert!(seen.contains(&vec!["leaf-split"]) && seen.len() >= 3, "{seen:?}");
    });
    goldens::check("verbs/dolphin_structure.txt", &lines.0);
}

#[test]
fn descents_without_copies() {
    let mut lines = Lines::default();
    let setup = setup();
    let mut test_bed = Direct.test_bed(&DolphinSubject, &setup);
    on_test_bed(&DolphinSubject, &mut test_bed, &setup, 0, &mut |client| load(client, 1000));
    for (what, kind) in [("get", Get), ("update", Update)] {
        on_test_bed(&DolphinSubject, &mut test_bed, &setup, 1, &mut |client| {
            lines.title(&format!("{what}, first and second on another compute node"));
            let best = if kind == Get { 1 } else { 2 };
            let run = client.run(kind, 4000, 1, 0);
            let nodes = run.count(Verb::Read, Label::Inner) as u32;
            assert!(nodes > 0, "a tree of a thousand records has nodes");
            lines.note("first", 1 + nodes + best, &run);
            lines.note("second", best, &client.run(kind, 4000, 2, 0));
        });
    }
    goldens::check("verbs/dolphin_no_copies.txt", &lines.0);
}

#[test]
fn scans() {
    let mut lines = Lines::default();
    for ahead in [2, 4, 16] {
        let mut setup = setup();
        setup.spending.leaves_at_once = ahead;
        setup.spending.page_records = 400;
        alone(&DolphinSubject, &Direct, &setup, |client| {
            load(client, 1000);
            lines.title(&format!("{ahead} leaves at once"));
            for limit in [1, 16, 100, 400] {
                let run = client.scan(4000, limit);
                lines.note(&format!("scan of {limit}"), run.counts.round_trips, &run);
            }
        });
    }
    goldens::check("verbs/dolphin_scans.txt", &lines.0);
}
