//! The requests of every operation of Sherman, step by step: the goldens in `tests/goldens/verbs`.
//!
//! A line is one operation: requests of one submit separated by commas, submits by semicolons. Beside it are the round
//! trips that the table in `dm_core::sherman` promises. If another number is counted the test fails, so a golden that
//! contradicts the table cannot be blessed.

use dm_core::btree::Options;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::operation::{Operation, OperationKind};
use dm_core::verbs::{Label, Verb};
use dm_tests::client::{Client, Progress, Steps, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::goldens;
use dm_tests::subject::Shape;
use dm_tests::subject::sherman::ShermanSubject;
use dm_tests::test_bed::{Direct, Fixture, Setup};
use std::fmt::Write as _;

/// Nodes of 1 KB, records of 16 bytes.
fn paper() -> Setup {
    let mut setup = Setup::new(Shape::words(57, 61));
    setup.chunk_nodes = 64;
    // One after the other, as the paper's steps are.
    setup.spending.options.chain_lock_read = ChainedRead::Never;
    setup
}

/// A bulk load: leaves of 46 records. The route to the first one is known afterwards.
fn load(client: &mut Client<'_, '_>, records: u64) {
    client.load(records);
    client.get(0);
}

use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};

/// Every operation, its leaf known from the cache; `trips`: of a write, and of one that finds nothing to write.
fn hits(lines: &mut Lines, setup: &Setup, (write, nothing): (u32, u32)) {
    alone(&ShermanSubject, &Direct, setup, |client| {
        load(client, 1000);
        // Fills the lane's stock, and the cache for this leaf.
        client.put(5, 5);
        lines.note("get, present", 1, &client.run(Get, 40, 0, 0));
        lines.note("get, absent", 1, &client.run(Get, 41, 0, 0));
        lines.note("update, present", write, &client.run(Update, 40, 1, 0));
        lines.note("update, absent", nothing, &client.run(Update, 41, 1, 0));
        lines.note("upsert, present", write, &client.run(Upsert, 40, 2, 0));
        lines.note("upsert, absent", write, &client.run(Upsert, 41, 2, 0));
        lines.note("update_if, as expected", write, &client.run(UpdateIf, 40, 3, 2));
        lines.note("update_if, another value", nothing, &client.run(UpdateIf, 40, 4, 2));
        lines.note("insert, absent", write, &client.run(Insert, 42, 1, 0));
        lines.note("insert, present", nothing, &client.run(Insert, 42, 1, 0));
        lines.note("delete, present", write, &client.run(Delete, 42, 0, 0));
        lines.note("delete, absent", nothing, &client.run(Delete, 42, 0, 0));
    });
}

#[test]
fn operations_on_a_cached_route() {
    let mut lines = Lines::default();
    lines.title("leaf known from the cache, everything on (dossier 3.5, 3.6, 3.8)");
    hits(&mut lines, &paper(), (3, 3));
    goldens::check("verbs/cached_route.txt", &lines.0);
}

/// What recovery adds, if whole lines of a dead sender land: nothing for a WRITE of one line; for a longer one the
/// WRITE of its redo record, in the same chain. The round trips stay the same.
#[test]
fn recovery_adds_no_round_trip() {
    let mut lines = Lines::default();
    let recovered = |setup: Setup| Setup { recovery: Some(64), ..setup };
    lines.title("leaf known from the cache, everything on, recoverable");
    hits(&mut lines, &recovered(paper()), (3, 3));
    lines.title("records of 120 bytes, of which every WRITE spans lines");
    let mut wide = paper();
    wide.shape.value_bytes = 120;
    wide.shape.spans.0 = 20;
    hits(&mut lines, &recovered(wide), (3, 3));
    lines.title("nodes shorter than the packets of a NIC: nothing is added");
    hits(&mut lines, &Setup { recovery: Some(4096), ..paper() }, (3, 3));
    lines.title("structure changes: with recovery, and without");
    for keys in [4, 6, 8] {
        let mut trips = Vec::new();
        for recovery in [Some(64), None] {
            let setup = Setup { recovery, ..Setup::new(Shape::words(2, 2)) };
            alone(&ShermanSubject, &Direct, &setup, |client| {
                for n in 0..keys {
                    client.ask(Insert, n * 10, n as u32, 0);
                }
                client.ask(Upsert, 0, 1, 0);
                client.get((keys - 1) * 10);
                for (what, kind, n) in [("insert that splits", Insert, keys * 10), ("delete that merges", Delete, 0)] {
                    client.get(n);
                    let run = client.run(kind, n, 9, 0);
                    trips.push(run.counts.round_trips);
                    lines.note(&format!("{keys} keys, {what}"), run.counts.round_trips, &run);
                }
            });
        }
        assert_eq!(trips[..2], trips[2..], "recovery costs round trips");
    }
    goldens::check("verbs/recovery.txt", &lines.0);
}

#[test]
fn operations_with_one_switch_turned() {
    let on = Options { chain_lock_read: ChainedRead::Never, ..Options::default() };
    let mut lines = Lines::default();
    for (title, options, device, trips) in [
        ("lock table in host memory", on, false, (3, 3)),
        ("unlock by CAS", Options { unlock: Unlock::Cas, ..on }, true, (3, 3)),
        ("no command combination", Options { combine: false, ..on }, true, (4, 3)),
        ("no local queues", Options { hierarchical: false, ..on }, true, (3, 3)),
        ("whole-node writes", Options { entry_writes: false, ..on }, true, (3, 3)),
        ("READ chained to the CAS of a quiet lock", Options::default(), true, (2, 2)),
    ] {
        lines.title(title);
        hits(&mut lines, &Setup { device, ..paper().switched(options) }, trips);
    }
    goldens::check("verbs/switches.txt", &lines.0);
}

#[test]
fn descents_on_a_cold_cache() {
    let mut lines = Lines::default();
    for records in [40, 1000, 9000] {
        let setup = paper();
        let mut test_bed = Direct.test_bed(&ShermanSubject, &setup);
        on_test_bed(&ShermanSubject, &mut test_bed, &setup, 0, &mut |client| load(client, records));
        for (what, kind) in [("get", Get), ("update", Update)] {
            on_test_bed(&ShermanSubject, &mut test_bed, &setup, 1, &mut |client| {
                let levels = client.validate().levels;
                drop(client.index.execute(&client.lanes[0], Operation::point(Get)));
                lines.title(&format!("{what} on a tree of {levels} levels, first and second on another compute node"));
                let height = levels - 1;
                let best = if kind == Get { 1 } else { 3 };
                // Root and level are known from the walk: what is not known is inner nodes.
                lines.note("first", height + best, &client.run(kind, 40, 1, 0));
                lines.note("second", best, &client.run(kind, 40, 2, 0));
            });
        }
        on_test_bed(&ShermanSubject, &mut test_bed, &setup, 2, &mut |client| {
            lines.title(
                "get by a compute node that has seen nothing: READs of the root word and the root's first line too",
            );
            let levels = if records == 40 {
                1
            } else if records == 1000 {
                2
            } else {
                3
            };
            lines.note("first", 2 + levels, &client.run(Get, 40, 0, 0));
        });
    }
    goldens::check("verbs/cold_cache.txt", &lines.0);
}

/// A tree of leaves of two and inner nodes of two, filled by ascending keys 0, 10, ...
fn tiny(nodes: usize, options: Options, keys: u64, test: impl FnMut(&mut Client<'_, '_>)) {
    let setup = Setup::new(Shape::words(2, 2)).on(nodes).switched(options);
    let mut test = test;
    alone(&ShermanSubject, &Direct, &setup, |client| {
        for n in 0..keys {
            client.ask(Insert, n * 10, n as u32, 0);
        }
        // The stock is full and the route is known.
        client.ask(Upsert, 0, 1, 0);
        client.get(keys.saturating_sub(1) * 10);
        test(client);
    });
}

#[test]
fn structure_changes() {
    let mut lines = Lines::default();
    let on = Options { chain_lock_read: ChainedRead::Never, ..Options::default() };
    let apart = Options { combine: false, ..on };

    lines.title("first insert of all: chunks are granted, a first leaf is planted");
    alone(&ShermanSubject, &Direct, &Setup::new(Shape::words(2, 2)), |client| {
        let run = client.run(Insert, 0, 0, 0);
        lines.note("insert", run.counts.round_trips, &run);
    });

    for (title, options, trips) in [
        ("everything on: 3 + 3 for each inner split + 3 for the parent or 5 for a new root", on, 3),
        ("no command combination: 5 + 5 for each inner split + 4 for the parent or 5 for a new root", apart, 5),
    ] {
        lines.title(&format!("splits on one memory node, {title}"));
        let parent = if options.combine { 3 } else { 4 };
        for keys in 2..=9 {
            tiny(1, options, keys, |client| {
                let before = client.validate();
                client.get((keys - 1) * 10);
                let run = client.run(Insert, keys * 10, 9, 0);
                let after = client.validate();
                let splits = after.leaves - before.leaves;
                assert_eq!(splits, 1, "an ascending key goes into a full leaf");
                let grown = after.levels - before.levels;
                let inner = (after.inner_nodes - before.inner_nodes) as u32 - grown;
                // A new root takes the place of the last parent's insert. The very first one needs a chunk: it unlocks,
                // has one granted and locks and READs again.
                let last = if grown > 0 { 5 } else { parent };
                let grant = if keys == 2 { 3 + 2 } else { 0 };
                let expected = grant + trips + trips * inner + last;
                let what = format!("insert of key {keys}: {splits} leaf, {inner} inner splits, {grown} new root");
                lines.note(&what, expected, &run);
            });
        }
    }

    lines.title("split whose sibling comes to lie on another memory node: it is written first, + 1");
    let mut apart_found = false;
    for keys in 3..60 {
        tiny(3, on, keys, |client| {
            let before = client.validate().inner_nodes;
            client.get((keys - 1) * 10);
            let run = client.run(Insert, keys * 10, 9, 0);
            let simple = client.validate().inner_nodes == before && run.count(Verb::Write, Label::Sibling) == 1;
            if simple && !apart_found && run.steps().contains("write sibling 128; write node") {
                apart_found = true;
                // A chunk takes its requests, and another turn of lock, READ and unlock.
                let chunk = run.count(Verb::Read, Label::Chunk) + run.count(Verb::Cas, Label::Chunk);
                let grant = if chunk > 0 { chunk as u32 + 3 } else { 0 };
                lines.note(&format!("insert of key {keys}"), 7 + grant, &run);
            }
        });
    }
    assert!(apart_found, "no sibling ever came to lie on another memory node");

    lines.title("delete that empties a leaf: the neighbour takes its range");
    for (what, nodes, options, n) in [
        ("leftmost leaf", 1, on, 0),
        ("leaf with a left neighbour under its parent", 1, on, 40),
        ("no command combination", 1, apart, 40),
        ("two memory nodes", 2, on, 40),
    ] {
        tiny(nodes, options, 8, |client| {
            client.get(n);
            let before = client.validate().leaves;
            client.get(n);
            let run = client.run(Delete, n, 0, 0);
            assert_eq!(client.validate().leaves, before - 1, "{what}: nothing was merged");
            // Over two memory nodes, one WRITE waits for the one before.
            lines.note(what, if options.combine && nodes == 1 { 12 } else { 13 }, &run);
        });
    }
    goldens::check("verbs/structure_changes.txt", &lines.0);
}

#[test]
fn scans() {
    let mut lines = Lines::default();
    for ahead in [1, 4, 8] {
        let mut setup = paper();
        setup.spending.leaves_at_once = ahead;
        setup.spending.page_records = 400;
        lines.title(&format!("{ahead} leaves at once, leaves of 46 records"));
        alone(&ShermanSubject, &Direct, &setup, |client| {
            load(client, 1000);
            for limit in [1, 46, 47, 100, 400] {
                let run = client.scan(0, limit);
                let leaves = limit.div_ceil(46);
                // As many at once as are likely to be wanted.
                let least = leaves.div_ceil(ahead as u32);
                assert!(run.counts.round_trips >= least, "{}", run.steps());
                assert!(run.counts.round_trips <= least + 1, "{limit} records: {}", run.steps());
                lines.note(&format!("scan of {limit}"), run.counts.round_trips, &run);
                let down = client.scan_as(0, Operation { down: true, ..Operation::scan(limit) });
                // The last leaf of a bulk load is not full, and a parent may begin among the leaves.
                let most = run.counts.round_trips + 2;
                assert!(down.counts.round_trips <= most, "{limit} records: {}", down.steps());
                lines.note(&format!("scan of the last {limit}"), down.counts.round_trips, &down);
            }
        });
    }
    goldens::check("verbs/scans.txt", &lines.0);
}

/// The operation of lane 1, to which lane 0 hands the lock over, and which hands it on to lane 2. Returns its requests,
/// one text per submit.
fn handed(client: &mut Client<'_, '_>, kind: OperationKind, n: u64) -> Vec<String> {
    for lane in 0..3 {
        client.arguments(lane, n, 7, 0);
    }
    let (index, lanes, fabric) = (client.index, client.lanes, &mut *client.fabric);
    let begin = |lane: usize| {
        let operation = Operation::point(if lane == 1 { kind } else { Update });
        Steps::new(&lanes[lane], index.execute(&lanes[lane], operation))
    };
    let mut steps = [begin(0), begin(1), begin(2)];
    // Lane 0 takes the lock; the others queue behind it.
    assert_eq!(steps[0].poll(), Progress::Submitted);
    for lane in [1, 2] {
        assert_eq!(steps[lane].poll(), Progress::Parked);
    }
    steps[0].post(fabric);
    assert!(matches!(steps[0].go(fabric), Progress::Done(Ok(_))));
    assert_eq!(steps[0].woken, [lanes[1].id()]);
    let mut submits = Vec::new();
    loop {
        // The first post ends the park.
        steps[1].post(fabric);
        if matches!(steps[1].poll(), Progress::Done(Ok(_))) {
            steps[1].post(fabric);
            break;
        }
        let requests = lanes[1].port().requests();
        let text: Vec<_> = requests
            .iter()
            .filter(|request| !request.verb.is_local())
            .map(|request| format!("{} {} {}", request.verb.name(), request.label.name(), request.bytes))
            .collect();
        submits.push(text.join(", "));
        assert!(requests.iter().all(|request| request.verb != Verb::Cas));
    }
    assert_eq!(steps[1].woken, [lanes[2].id()], "the lock was not handed on");
    steps[2].post(fabric);
    assert!(matches!(steps[2].go(fabric), Progress::Done(Ok(_))));
    submits
}

#[test]
fn hand_over() {
    let mut lines = Lines::default();
    lines.title("lock received from another lane and handed on: no CAS, no unlock (dossier 3.11)");
    alone(&ShermanSubject, &Direct, &paper(), |client| {
        load(client, 1000);
        client.put(5, 5);
        for (what, kind, n, trips) in [
            ("update, present", Update, 40, 2),
            ("upsert, present", Upsert, 40, 2),
            ("insert, absent", Insert, 43, 2),
            ("delete, present", Delete, 40, 2),
            ("update, absent", Update, 48, 1),
            ("delete, absent", Delete, 48, 1),
            ("insert, present", Insert, 50, 1),
        ] {
            let submits = handed(client, kind, n);
            assert_eq!(submits.len(), trips, "{what}: {submits:?}");
            let _ = writeln!(lines.0, "{what}: {trips} RTT\n    {}", submits.join("; "));
        }
        client.assert_quiet("after hand-overs");
    });
    goldens::check("verbs/hand_over.txt", &lines.0);
}
