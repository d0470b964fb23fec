//! The requests of every operation of DEX, step by step: the goldens in `tests/goldens/verbs/dex_*`.

use dm_core::dex::serve::Level;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::pages::Admission;
use dm_core::verbs::{Label, Verb};
use dm_tests::client::{Client, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::goldens;
use dm_tests::subject::Shape;
use dm_tests::subject::dex::DexSubject;
use dm_tests::test_bed::{Direct, Fixture, Setup};

use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};

/// Nodes of 1 KiB, records of 16 bytes, images of pages in front of their flushes.
fn setup(level: Level) -> Setup {
    let mut setup = Setup::new(Shape::words(57, 60));
    setup.chunk_nodes = 64;
    setup.recovery = Some(64);
    setup.spending.level = level;
    setup.spending.page_records = 400;
    setup
}

/// A bulk load; the entry of its keys, the inner nodes above them, and the first leaf are known afterwards.
fn load(client: &mut Client<'_, '_>, records: u64) {
    client.load(records);
    // Chunks for what is new.
    client.put(5, 5);
    client.get(0);
}

/// Every operation on a cached leaf; `change`: round trips of one that changes something.
fn hits(lines: &mut Lines, setup: &Setup, change: u32) {
    alone(&DexSubject, &Direct, setup, |client| {
        load(client, 1000);
        lines.note("get, present", 0, &client.run(Get, 40, 0, 0));
        lines.note("get, absent", 0, &client.run(Get, 41, 0, 0));
        lines.note("update, present", change, &client.run(Update, 40, 1, 0));
        lines.note("update, absent", 0, &client.run(Update, 41, 1, 0));
        lines.note("upsert, present", change, &client.run(Upsert, 40, 2, 0));
        lines.note("upsert, absent", change, &client.run(Upsert, 41, 2, 0));
        lines.note("update_if, as expected", change, &client.run(UpdateIf, 40, 3, 2));
        lines.note("update_if, another value", 0, &client.run(UpdateIf, 40, 4, 2));
        lines.note("insert, absent", change, &client.run(Insert, 42, 1, 0));
        lines.note("insert, present", 0, &client.run(Insert, 42, 1, 0));
        lines.note("delete, present", change, &client.run(Delete, 42, 0, 0));
        lines.note("delete, absent", 0, &client.run(Delete, 42, 0, 0));
        lines.note("scan of 20", 0, &client.scan(0, 20));
    });
}

#[test]
fn operations_on_cached_leaves() {
    let mut lines = Lines::default();
    lines.title("leaf is cached, answers at level log");
    hits(&mut lines, &setup(Level::Log), 1);
    lines.title("leaf is cached, answers at level pool: each change is flushed");
    alone(&DexSubject, &Direct, &setup(Level::Pool), |client| {
        load(client, 1000);
        lines.note("update, present", 1, &client.run(Update, 40, 1, 0));
        lines.note("upsert, absent", 1, &client.run(Upsert, 41, 2, 0));
        lines.note("insert, absent", 1, &client.run(Insert, 42, 1, 0));
        lines.note("delete, present", 1, &client.run(Delete, 42, 0, 0));
        // The records of these changes are in the log's memory only. An answer that tells of them waits for the log.
        lines.note("get after them", 1, &client.run(Get, 40, 0, 0));
        lines.note("get again", 0, &client.run(Get, 40, 0, 0));
    });
    lines.title("leaf is cached, answers at level cache");
    hits(&mut lines, &setup(Level::Cache), 0);
    goldens::check("verbs/dex_cached.txt", &lines.0);
}

/// Leaves that are not cached are READ. A leaf that gets no frame is written at once.
#[test]
fn misses() {
    let mut lines = Lines::default();
    lines.title("leaf is not cached, answers at level log");
    alone(&DexSubject, &Direct, &setup(Level::Log), |client| {
        load(client, 1000);
        lines.note("get, present", 1, &client.run(Get, 2000, 0, 0));
        lines.note("get of it again", 0, &client.run(Get, 2000, 0, 0));
        lines.note("update, present", 2, &client.run(Update, 3000, 1, 0));
        lines.note("insert, present", 1, &client.run(Insert, 4000, 1, 0));
        lines.note("scan of 150", 2, &client.scan(7000, 150));
    });
    lines.title("leaf is not cached, and gets no frame: it is not admitted, or all frames have changed leaves");
    for admission in [Admission::per_10_000(0), Admission::EAGER] {
        let mut few = setup(Level::Cache);
        few.spending.page_cache_bytes = 24 << 10;
        few.spending.admission = admission;
        alone(&DexSubject, &Direct, &few, |client| {
            load(client, 2000);
            // A leaf each; as long as a frame was never used, every leaf gets one.
            for n in 0..24 {
                client.put(n * 500, 1);
            }
            let what = if admission == Admission::EAGER { "all changed" } else { "not admitted" };
            lines.note(&format!("update, {what}"), 2, &client.run(Update, 15_000, 1, 0));
            lines.note(&format!("get of it, {what}"), 1, &client.run(Get, 15_000, 0, 0));
        });
    }
    goldens::check("verbs/dex_misses.txt", &lines.0);
}

/// A compute node takes an entry when its first operation needs it, and gives it up when it leaves.
#[test]
fn owners() {
    let mut lines = Lines::default();
    let setup = setup(Level::Log);
    let mut test_bed = Direct.test_bed(&DexSubject, &setup);
    on_test_bed(&DexSubject, &mut test_bed, &setup, 0, &mut |client| {
        load(client, 1000);
        let future = client.index.leave(&client.lanes[0]);
        client.drive(0, future).result.expect("a lane that is settled");
    });
    lines.title("first operations of a compute node");
    on_test_bed(&DexSubject, &mut test_bed, &setup, 1, &mut |client| {
        let run = client.run(Get, 40, 0, 0);
        lines.note("get, the first one: the entry is taken", run.counts.round_trips, &run);
        lines.note("get of it", 0, &client.run(Get, 40, 0, 0));
    });
    goldens::check("verbs/dex_owners.txt", &lines.0);
}

#[test]
fn structure_changes() {
    let mut lines = Lines::default();
    let mut setup = setup(Level::Log);
    setup.shape = Shape::words(2, 2);
    alone(&DexSubject, &Direct, &setup, |client| {
        load(client, 20);
        lines.title("an insert that splits");
        let mut seen = std::collections::BTreeSet::new();
        for n in (0..20).map(|n| n * 10 + 5) {
            client.get(n);
            let splits = client.lanes[0].marked(Mark::LEAF_SPLIT);
            let run = client.run(Insert, n, 1, 0);
            let has_split = client.lanes[0].marked(Mark::LEAF_SPLIT) > splits;
            if has_split && run.count(Verb::Cas, Label::Chunk) == 0 && seen.insert(run.steps()) {
                lines.note(&format!("insert of key {n}"), run.counts.round_trips, &run);
            }
        }
        lines.title("a delete that empties a leaf");
        let mut seen = std::collections::BTreeSet::new();
        for n in (0..40).map(|n| n * 5) {
            client.get(n);
            let merges = client.lanes[0].marked(Mark::MERGE);
            let run = client.run(Delete, n, 0, 0);
            if client.lanes[0].marked(Mark::MERGE) > merges && seen.insert(run.steps()) {
                lines.note(&format!("delete of key {n}"), run.counts.round_trips, &run);
            }
        }
    });
    goldens::check("verbs/dex_structure.txt", &lines.0);
}
