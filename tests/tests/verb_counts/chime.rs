//! The requests of every operation of CHIME, step by step: the goldens in `tests/goldens/verbs/chime_*`.

use dm_core::btree::Options;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::marks::Mark;
use dm_core::operation::{OpError, Operation, OperationKind, Outcome};
use dm_core::verbs::{Label, Verb};
use dm_sim::Run;
use dm_tests::client::{Client, alone, on_test_bed};
use dm_tests::counts::Lines;
use dm_tests::goldens;
use dm_tests::subject::Shape;
use dm_tests::subject::chime::ChimeSubject;
use dm_tests::test_bed::{Direct, Fixture, Setup};
use std::fmt::Write as _;

use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};

/// The paper's sizes: leaves of 64 entries of 19 bytes in neighborhoods of 8.
fn paper() -> Setup {
    let mut setup = Setup::new(Shape::words(64, 64));
    setup.chunk_nodes = 64;
    // One after the other, as the paper's steps are.
    setup.spending.options.chain_lock_read = ChainedRead::Never;
    setup
}

/// A bulk load. The route to the first leaf is known afterwards.
fn load(client: &mut Client<'_, '_>, records: u64) {
    client.load(records);
    client.get(0);
}

/// Every operation, its leaf known from the cache; `trips`: of an insert, of another write, and of one that finds nothing to
/// write.
fn hits(lines: &mut Lines, setup: &Setup, (insert, write, nothing): (u32, u32, u32)) {
    alone(&ChimeSubject, &Direct, setup, |client| {
        load(client, 1000);
        // Fills the lane's stock, and the cache for this leaf.
        client.put(5, 5);
        // An insert READs more behind the neighborhood that was READ with the lock, if it may have to hop further.
        let hops = |run: &Run<Result<Outcome, OpError>>| {
            u32::from(
                run.steps().matches("read neighborhood").count() > 1
                    && setup.spending.options.chain_lock_read != ChainedRead::Never,
            )
        };
        lines.note("get, present", 1, &client.run(Get, 40, 0, 0));
        lines.note("get, absent", 1, &client.run(Get, 41, 0, 0));
        lines.note("update, present", write, &client.run(Update, 40, 1, 0));
        lines.note("update, absent", nothing, &client.run(Update, 41, 1, 0));
        let run = client.run(Upsert, 40, 2, 0);
        lines.note("upsert, present", insert + hops(&run), &run);
        let run = client.run(Upsert, 41, 2, 0);
        lines.note("upsert, absent", insert + hops(&run), &run);
        lines.note("update_if, as expected", write, &client.run(UpdateIf, 40, 3, 2));
        lines.note("update_if, another value", nothing, &client.run(UpdateIf, 40, 4, 2));
        let run = client.run(Insert, 42, 1, 0);
        lines.note("insert, absent", insert + hops(&run), &run);
        let run = client.run(Insert, 42, 1, 0);
        lines.note("insert, present", nothing + hops(&run), &run);
        lines.note("delete, present", write, &client.run(Delete, 42, 0, 0));
        lines.note("delete, absent", nothing, &client.run(Delete, 42, 0, 0));
        let run = client.run(Insert, 42, 1, 0);
        lines.note("insert of what was deleted", insert + hops(&run), &run);
    });
}

#[test]
fn operations_on_a_cached_route() {
    let on = Options { chain_lock_read: ChainedRead::Never, ..Options::default() };
    let mut lines = Lines::default();
    for (title, options, trips) in [
        ("leaf known from the cache, everything on (dossier 3.3, 3.5, 3.8)", on, (3, 3, 3)),
        ("unlock by CAS", Options { unlock: Unlock::Cas, ..on }, (3, 3, 3)),
        ("no command combination", Options { combine: false, ..on }, (4, 4, 3)),
        ("no local queues", Options { hierarchical: false, ..on }, (3, 3, 3)),
        ("READ chained to the CAS of a quiet lock", Options::default(), (2, 2, 2)),
    ] {
        lines.title(title);
        hits(&mut lines, &paper().switched(options), trips);
    }
    goldens::check("verbs/chime_cached_route.txt", &lines.0);
}

/// Operations on a key whose entry is known: one entry is READ.
#[test]
fn operations_on_a_known_entry() {
    let mut lines = Lines::default();
    for (title, chain_lock_read, write) in [
        ("the hotspot buffer knows the key (dossier 3.4, 3.8)", ChainedRead::Never, 3),
        ("... READ chained to the lock's CAS", ChainedRead::WhereQuiet, 2),
    ] {
        let mut setup = paper().switched(Options { chain_lock_read, ..Options::default() });
        setup.spending.hotspot_bytes = 4096;
        alone(&ChimeSubject, &Direct, &setup, |client| {
            load(client, 1000);
            client.put(5, 5);
            client.get(40);
            lines.title(title);
            for (what, kind, trips) in [
                ("get", Get, 1),
                ("update", Update, write),
                ("upsert", Upsert, write),
                ("delete, which looks at the neighborhood", Delete, write),
                ("get, when the guess is wrong", Get, 2),
                ("get, when that is known", Get, 1),
            ] {
                let run = client.run(kind, 40, 1, 0);
                if matches!(kind, Update | Upsert) || what == "get" {
                    assert!((19..=21).contains(&run.counts.bytes_read), "{what}: {}", run.steps());
                }
                lines.note(what, trips, &run);
            }
        });
    }
    goldens::check("verbs/chime_known_entry.txt", &lines.0);
}

/// Sums over inserts.
#[derive(Default)]
struct Sum {
    inserts: u64,
    trips: u64,
    requests: u64,
    read: u64,
    written: u64,
}

impl Sum {
    fn add(&mut self, run: &Run<Result<Outcome, OpError>>) {
        assert_eq!(run.result, Ok(Outcome::Inserted));
        self.inserts += 1;
        self.trips += u64::from(run.counts.round_trips);
        self.requests += u64::from(run.counts.requests);
        self.read += run.counts.bytes_read;
        self.written += run.counts.bytes_written;
    }

    fn line(&self, what: &str) -> String {
        let Self { inserts, trips, requests, read, written } = self;
        format!(
            "{what}: {inserts} inserts; {:.2} RTT, {:.2} requests, {} B read, {} B written each\n",
            *trips as f64 / *inserts as f64,
            *requests as f64 / *inserts as f64,
            read / inserts,
            written / inserts
        )
    }
}

/// Inserts of random keys into an empty index, all of them and those that do not split.
fn random_load(setup: &Setup) -> (Sum, Sum, u32) {
    const RECORDS: u64 = 12_000;
    let (mut all, mut plain, mut rearranged) = (Sum::default(), Sum::default(), 0);
    alone(&ChimeSubject, &Direct, setup, |client| {
        for n in 0..RECORDS {
            // An odd factor: no key comes twice.
            let run = client.run(Insert, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8, 1, 0);
            // Not the first leaves: they fill without splits.
            if n < RECORDS / 4 {
                continue;
            }
            all.add(&run);
            if run.count(Verb::Write, Label::Sibling) == 0 {
                plain.add(&run);
            }
        }
        rearranged = client.lanes[0].marked(Mark::REARRANGED);
    });
    (all, plain, rearranged)
}

/// Gets of many keys and inserts of many others: how many bytes they READ and WRITE on the average, beside the dossier's
/// figures for the authors' code (3.14). Where ours are not better, the title says why.
#[test]
fn bytes_on_the_average() {
    let mut lines = Lines::default();
    alone(&ChimeSubject, &Direct, &paper(), |client| {
        load(client, 1000);
        let mut reads = 0;
        for n in 0..1000 {
            let run = client.run(Get, n * 10, 0, 0);
            assert_eq!(run.counts.round_trips, 1, "{}", run.steps());
            reads += run.counts.bytes_read;
        }
        lines.title("get: dossier 3.14 has 164.5 B");
        writeln!(lines.0, "1000 gets: {} B read each, a hundredth", reads / 10).unwrap();
        assert!((16_400..16_600).contains(&(reads / 10)), "{reads}");
    });

    lines.title(
        "inserts of random keys, leaves split as the paper's: dossier 3.14 and 6 (A1) have, for those that do not split, 3 RTT, \
         240 B read and 96 B written, 8 of them the unlock; for all of a load 3.31 RTT, 365 B, 195 B",
    );
    let setup = Setup { region_bytes: 8 << 20, ..paper() };
    let (all, plain, none) =
        random_load(&setup.clone().switched(Options { rearrange: false, ..setup.spending.options }));
    assert_eq!(none, 0);
    lines.0 += &plain.line("that do not split");
    lines.0 += &all.line("all");
    assert!(plain.trips * 100 <= plain.inserts * 305, "3 round trips, one more where vacancy promised too much");
    assert!(plain.read <= 240 * plain.inserts && plain.written <= 96 * plain.inserts);
    assert!(all.trips * 100 <= 331 * all.inserts && all.read <= 365 * all.inserts);
    assert!(all.written <= 195 * all.inserts);

    lines.title(
        "the same, leaves rearranged before they split: they are fuller, so hop ranges are longer; one in 30 inserts READs and \
         WRITEs a whole leaf that would have split a moment later (dm_core::chime, \"Where it departs\")",
    );
    let (all, plain, some) = random_load(&setup);
    assert!(some > 0);
    lines.0 += &plain.line("that do not split");
    lines.0 += &all.line("all");
    goldens::check("verbs/chime_bytes.txt", &lines.0);
}

#[test]
fn descents_on_a_cold_cache() {
    let mut lines = Lines::default();
    for records in [30, 1000] {
        let setup = paper();
        let mut test_bed = Direct.test_bed(&ChimeSubject, &setup);
        on_test_bed(&ChimeSubject, &mut test_bed, &setup, 0, &mut |client| load(client, records));
        for (what, kind) in [("get", Get), ("update", Update)] {
            on_test_bed(&ChimeSubject, &mut test_bed, &setup, 1, &mut |client| {
                let levels = client.validate().levels;
                lines.title(&format!("{what} on a tree of {levels} levels, first and second on another compute node"));
                let height = levels - 1;
                let best = if kind == Get { 1 } else { 3 };
                // Root and level are known from the walk: what is not known is inner nodes.
                lines.note("first", height + best, &client.run(kind, 40, 1, 0));
                lines.note("second", best, &client.run(kind, 40, 2, 0));
            });
        }
    }
    goldens::check("verbs/chime_cold_cache.txt", &lines.0);
}

/// What a split costs, and that the splitter knows its new leaf.
#[test]
fn a_split_is_known_to_who_made_it() {
    let mut lines = Lines::default();
    let setup = paper();
    let mut test_bed = Direct.test_bed(&ChimeSubject, &setup);
    on_test_bed(&ChimeSubject, &mut test_bed, &setup, 0, &mut |client| load(client, 1000));

    on_test_bed(&ChimeSubject, &mut test_bed, &setup, 0, &mut |client| {
        client.get(0);
        let before = client.validate().leaves;
        let mut split = None;
        for n in 0..400 {
            let key = n * 7 % 460 + 1;
            if key % 10 == 0 {
                continue;
            }
            let run = client.run(Upsert, key, 1, 0);
            let granted = run.count(Verb::Cas, Label::Chunk) > 0;
            if split.is_none() && !granted && run.count(Verb::Write, Label::Sibling) > 0 {
                lines.title("an insert that splits a leaf of a cached parent");
                // A hop range with room that no hop reaches is READ before the whole leaf.
                let missed = run.count(Verb::Read, Label::Neighborhood) > 0;
                lines.note("insert", 6 + u32::from(missed), &run);
                // The parent's copy was replaced with it.
                lines.note("get, in the split leaf", 1, &client.run(Get, key, 0, 0));
                split = Some(key);
            }
        }
        assert!(split.is_some() && client.validate().leaves > before);
    });
    goldens::check("verbs/chime_structure.txt", &lines.0);
}

#[test]
fn scans() {
    let mut lines = Lines::default();
    let mut setup = paper();
    setup.spending.leaves_at_once = 4;
    setup.spending.page_records = 400;
    alone(&ChimeSubject, &Direct, &setup, |client| {
        load(client, 1000);
        lines.title("4 leaves at once");
        for limit in [1, 40, 100, 400] {
            let run = client.scan(0, limit);
            lines.note(&format!("scan of {limit}"), run.counts.round_trips, &run);
            let down = client.scan_as(0, Operation { down: true, ..Operation::scan(limit) });
            lines.note(&format!("scan of the last {limit}"), down.counts.round_trips, &down);
        }
    });
    goldens::check("verbs/chime_scans.txt", &lines.0);
}
