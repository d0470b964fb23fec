//! The requests of every operation of SMART, step by step: the goldens in `tests/goldens/verbs/smart_*`.

use dm_core::btree::Options;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::marks::Mark;
use dm_core::operation::{Operation, OperationKind};
use dm_core::verbs::{Label, Verb};
use dm_tests::client::{Client, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::goldens;
use dm_tests::subject::Shape;
use dm_tests::subject::smart::SmartSubject;
use dm_tests::test_bed::{Direct, Fixture, Setup};

use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};

/// One memory node, so that all that is new is where its slot is.
fn setup() -> Setup {
    let mut setup = Setup::new(Shape::words(2, 2));
    setup.chunk_nodes = 64;
    // One after the other, as the papers' steps are.
    setup.spending.options.chain_lock_read = ChainedRead::Never;
    setup
}

/// A bulk load, and copies of all nodes.
fn load(client: &mut Client<'_, '_>, records: u64) {
    client.load(records);
    for n in 0..records {
        client.get(n * 10);
    }
}

/// Every operation, its slot known from copies; `write`: round trips of one that locks.
fn hits(lines: &mut Lines, setup: &Setup, write: u32) {
    alone(&SmartSubject, &Direct, setup, |client| {
        load(client, 100);
        // Chunks for what is new.
        client.put(5, 5);
        // An operation that the record decides ends after its READ, or has to release the lock. What may put a record where none
        // is READs first, unless all lock first.
        let chained = setup.spending.options.chain_lock_read;
        let decided = if chained == ChainedRead::Never { 1 } else { 2 };
        let (put, exists) = if chained == ChainedRead::WhereQuiet { (3, 1) } else { (write, decided) };
        lines.note("get, present", 1, &client.run(Get, 40, 0, 0));
        lines.note("update, present", write, &client.run(Update, 40, 1, 0));
        lines.note("upsert, present", put, &client.run(Upsert, 40, 2, 0));
        lines.note("update_if, as expected", write, &client.run(UpdateIf, 40, 3, 2));
        lines.note("update_if, another value", decided, &client.run(UpdateIf, 40, 4, 2));
        lines.note("insert, present", exists, &client.run(Insert, 40, 1, 0));
        lines.note("delete, present", write, &client.run(Delete, 40, 0, 0));
        lines.note("get, deleted", 1, &client.run(Get, 40, 0, 0));
        lines.note("update, deleted", decided, &client.run(Update, 40, 1, 0));
        lines.note("insert, deleted", put, &client.run(Insert, 40, 1, 0));
        // A byte that no slot has.
        lines.note("get, absent", 1, &client.run(Get, 41, 0, 0));
        lines.note("update, absent", 1, &client.run(Update, 41, 1, 0));
    });
}

#[test]
fn operations_on_known_slots() {
    let on = Options { chain_lock_read: ChainedRead::Never, ..Options::default() };
    let mut lines = Lines::default();
    for (title, options, write) in [
        ("slot known from a copy, everything on (dossier 3.10)", on, 3),
        ("unlock by a WRITE of its own", Options { unlock: Unlock::Write, ..on }, 3),
        ("unlock by CAS", Options { unlock: Unlock::Cas, ..on }, 3),
        ("no command combination", Options { combine: false, ..on }, 4),
        ("no local queues", Options { hierarchical: false, ..on }, 3),
        ("lock before READ, where that presumes a record to be there", Options::default(), 2),
        ("lock before READ", Options { chain_lock_read: ChainedRead::Always, ..on }, 2),
    ] {
        lines.title(title);
        hits(&mut lines, &setup().switched(options), write);
    }
    goldens::check("verbs/smart_known_slot.txt", &lines.0);
}

/// What a key without a leaf costs: a slot, a leaf split, a header split, a full node.
#[test]
fn structure_changes() {
    let mut lines = Lines::default();
    alone(&SmartSubject, &Direct, &setup(), |client| {
        lines.title("the first records");
        for n in [0u64, 1] {
            client.arguments(0, n, 1, 0);
            let future = client.index.execute(&client.lanes[0], Operation::point(Insert));
            let run = client.drive(0, future);
            let trips = run.counts.round_trips;
            lines.note(&format!("insert of {n}, with chunks granted"), trips, &run);
        }
        lines.title("a node of four slots that fills up; keys differ in their last byte");
        let (mut plain, mut switched) = (0, 0);
        for n in (2..20u64).map(|n| n * 3) {
            let before = client.lanes[0].marked(Mark::NODE_REPLACED);
            let run = client.run(Insert, n, 1, 0);
            let freezes = run.count(Verb::MaskedCas, Label::Freeze) as u32;
            if client.lanes[0].marked(Mark::NODE_REPLACED) > before {
                // READ node; freeze, sixteen at a time; WRITE + WRITE + CAS.
                lines.note("insert into a full node", 2 + freezes.div_ceil(16), &run);
                switched += 1;
            } else {
                if plain == 0 {
                    lines.note("insert into an empty slot", 2, &run);
                }
                assert_eq!(run.counts.round_trips, 2, "{}", run.steps());
                plain += 1;
            }
        }
        assert!(plain > 10 && switched >= 2, "{plain}, {switched}");
    });
    alone(&SmartSubject, &Direct, &setup(), |client| {
        load(client, 100);
        client.put(5, 5);
        lines.title("splits of what a copy knows");
        let mut seen = (false, false);
        for n in (0..400u64).map(|n| n * 65_537 * 7 + 3) {
            let marks = [Mark::LEAF_SPLIT, Mark::HEADER_SPLIT].map(|mark| client.lanes[0].marked(mark));
            let run = client.run(Insert, n, 1, 0);
            if run.count(Verb::Cas, Label::Chunk) > 0 {
                continue;
            }
            let now = [Mark::LEAF_SPLIT, Mark::HEADER_SPLIT].map(|mark| client.lanes[0].marked(mark));
            // A slot that only a copy knew is READ, and what it leads to once more.
            let confirmed = run.count(Verb::Read, Label::Slot) + run.count(Verb::Read, Label::Root) > 0;
            let trips = if confirmed { 4 } else { 2 };
            if now[0] > marks[0] && !seen.0 {
                lines.note("insert, leaf split", trips, &run);
                lines.note("get of it", 1, &client.run(Get, n, 0, 0));
                seen.0 = true;
            }
            if now[1] > marks[1] && !seen.1 {
                lines.note("insert, header split", trips, &run);
                lines.note("get of it", 1, &client.run(Get, n, 0, 0));
                seen.1 = true;
            }
        }
        assert_eq!(seen, (true, true), "leaf split, header split");
    });
    goldens::check("verbs/smart_structure.txt", &lines.0);
}

#[test]
fn descents_without_copies() {
    let mut lines = Lines::default();
    let setup = setup();
    let mut test_bed = Direct.test_bed(&SmartSubject, &setup);
    on_test_bed(&SmartSubject, &mut test_bed, &setup, 0, &mut |client| load(client, 1000));
    for (what, kind) in [("get", Get), ("update", Update)] {
        on_test_bed(&SmartSubject, &mut test_bed, &setup, 1, &mut |client| {
            lines.title(&format!("{what}, first and second on another compute node"));
            let best = if kind == Get { 1 } else { 3 };
            let run = client.run(kind, 4000, 1, 0);
            let nodes = run.count(Verb::Read, Label::Inner) as u32;
            assert!(nodes > 0, "a tree of a thousand records has nodes");
            lines.note("first", 1 + nodes + best, &run);
            lines.note("second", best, &client.run(kind, 4000, 2, 0));
        });
    }
    goldens::check("verbs/smart_no_copies.txt", &lines.0);
}

#[test]
fn scans() {
    let mut lines = Lines::default();
    let mut setup = setup();
    setup.spending.leaves_at_once = 16;
    setup.spending.page_records = 400;
    alone(&SmartSubject, &Direct, &setup, |client| {
        load(client, 1000);
        lines.title("16 leaves at once");
        for limit in [1, 16, 100] {
            let run = client.scan(0, limit);
            lines.note(&format!("scan of {limit}"), run.counts.round_trips, &run);
        }
    });
    goldens::check("verbs/smart_scans.txt", &lines.0);
}
