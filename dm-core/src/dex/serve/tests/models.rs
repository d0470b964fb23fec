//! Operations against a model, with caches and rings of all sizes; creation and bulk load.

use super::*;
use crate::btree::walk::Walk;
use crate::marks::Mark;

#[test]
fn an_index_begins_with_an_empty_leaf_for_each_entry() {
    for entries in [1, 2, 5, 40] {
        let setup = Setup { entries, owned: entries, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let lane = &lanes[0];
            let census = pool.run(lane, dex.walk(lane)).unwrap();
            assert_eq!((census.leaves, census.empty_leaves, census.half_splits), (entries.into(), entries.into(), 0));
            for entry in 0..u64::from(entries) {
                // The first and the last key of an entry are in one leaf, and no other key is.
                assert_eq!(get(pool, dex, lane, entry * WIDTH), None);
                pool.taken();
                assert_eq!(get(pool, dex, lane, entry * WIDTH + WIDTH - 1), None);
                assert_eq!(pool.taken(), []);
            }
            let again = pool.run(lane, dex.create(lane)).unwrap_err();
            assert!(matches!(again.cause, Cause::BadInput(what) if what.contains("empty index")), "{again}");
        });
    }
}

#[test]
fn a_bulk_load_begins_leaves_at_boundaries() {
    let pool = Pool::new();
    with_node(&pool, SETUP, 1, |dex, lanes| {
        let lane = &lanes[0];
        // Entries 1 and 4 get no record.
        let keys: Vec<u64> = (0..30).map(|key| key * 33).chain((0..40).map(|key| 2005 + key * 40)).collect();
        for &key in &keys {
            set(dex, lane, key, key + 7, 0);
            pool.run(lane, dex.append_record(lane)).unwrap();
        }
        pool.run(lane, dex.finish_load(lane)).unwrap();
        let census = pool.run(lane, dex.walk(lane)).unwrap();
        assert_eq!((census.records, census.empty_leaves), (keys.len() as u64, 2));
        for &key in &keys {
            assert_eq!(get(&pool, dex, lane, key), Some(key + 7));
        }
        for entry in 1..5 {
            let names = |key: u64| {
                set(dex, lane, key, 0, 0);
                let look = |_, wanted: &crate::btree::node::Wanted| find::Look::Seen(wanted.address);
                let visited = dex.visit_owned(lane, &dex.plan.key, crate::pages::Admit::Never, look);
                let visited = pool.run(lane, visited).unwrap().unwrap();
                if let Some(fill) = &visited.fill {
                    pool.run(lane, dex.end_fill(lane, fill)).unwrap();
                }
                visited.seen
            };
            assert_ne!(names(entry * WIDTH - 1), names(entry * WIDTH), "entry {entry}");
        }
    });
}

/// Random operations of one lane against a model.
pub(super) fn against_a_model(setup: Setup, seed: u64, operations: usize) {
    let pool = Pool::new();
    let mut model = BTreeMap::new();
    with_node(&pool, setup, 1, |dex, lanes| {
        let lane = &lanes[0];
        pool.run(lane, dex.create(lane)).unwrap();
        let mut random = Random(seed);
        for step in 0..operations as u64 {
            let key = random.below(setup.owned as usize * 40) as u64 * (WIDTH / 40);
            let kind = OperationKind::ALL[[0, 1, 2, 3, 4, 5, 7][random.below(7)]];
            let found = model.get(&key).copied();
            let expected = if random.below(2) == 0 { found.unwrap_or(0) } else { step };
            dex.set_level(lane, Level::ALL[random.below(3)]);
            set(dex, lane, key, step, expected);
            let outcome = pool.run(lane, dex.execute(lane, Operation::point(kind))).unwrap();
            let wanted = match (kind, found) {
                (OperationKind::Insert | OperationKind::Upsert, None) => Outcome::Inserted,
                (_, None) => Outcome::Absent,
                (kind, Some(found)) => kind.outcome_of_present(
                    matches!(kind, OperationKind::UpdateIf | OperationKind::DeleteIf) && found != expected,
                ),
            };
            assert_eq!(outcome, wanted, "step {step}: {kind:?} {key}");
            match outcome {
                Outcome::Found | Outcome::Exists | Outcome::Mismatch => assert_eq!(Some(output(dex, lane)), found),
                Outcome::Inserted | Outcome::Updated | Outcome::Replaced => drop(model.insert(key, step)),
                Outcome::Deleted => drop(model.remove(&key)),
                _ => {}
            }
        }
        assert_eq!(lane.marked(Mark::OFFLOADED) > 0, setup.offload != Mode::Never);
        pool.run(lane, dex.flush_all(lane)).unwrap();
        let census = pool.run(lane, dex.walk(lane)).unwrap();
        assert_eq!((census.records, census.half_splits), (model.len() as u64, 0));
        assert!(census.leaves > u64::from(setup.entries), "leaves have split");
        if operations > 2000 {
            assert!(
                dex.log.state().next() > dex.opened.get().unwrap().ring().unwrap().lines(),
                "the ring has begun again"
            );
        }
    });
    // In the pool is what the model says.
    with_node(&pool, setup, 2, |dex, lanes| {
        for key in 0..u64::from(setup.owned) * 40 {
            let key = key * (WIDTH / 40);
            assert_eq!(get(&pool, dex, &lanes[0], key), model.get(&key).copied(), "key {key}");
        }
    });
}

#[test]
fn operations_do_what_a_map_does() {
    for (number, (frames, admission, staging_lines)) in [
        (64, Admission::EAGER, 3 * STAGING_LINES_MIN),
        // Every operation evicts.
        (8, Admission::EAGER, STAGING_LINES_MIN),
        (8, Admission::per_10_000(3_000), STAGING_LINES_MIN),
    ]
    .into_iter()
    .enumerate()
    {
        let setup = Setup { frames, admission, staging_lines, ..SETUP };
        for seed in 1..=4 {
            against_a_model(setup, seed * 7919 + number as u64, 700);
        }
        against_a_model(Setup { owned: 2, ..setup }, 104_729, 2500);
    }
}

#[test]
fn lanes_at_work_on_the_same_leaves_lose_no_change() {
    for seed in 1..=30 {
        let frames = if seed % 2 == 0 { 64 } else { 24 };
        let admission = if seed % 3 == 0 { Admission::per_10_000(4_000) } else { Admission::EAGER };
        let setup = Setup { lanes: 6, frames, admission, owned: 2, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let work = lanes.iter().map(|lane| {
                let future = async move {
                    // Each has keys of its own, between those of the others.
                    for round in 0..60_u64 {
                        let id = u64::from(lane.id().0);
                        let key = (round * 7 % 30) * 60 + id;
                        dex.set_level(lane, Level::ALL[(round + id) as usize % 3]);
                        set(dex, lane, key, round * 100 + id, 0);
                        let outcome = dex.execute(lane, Operation::point(OperationKind::Upsert)).await.unwrap();
                        let first = round < 30;
                        assert_eq!(outcome, if first { Outcome::Inserted } else { Outcome::Replaced }, "key {key}");
                        set(dex, lane, key, 0, 0);
                        let found = dex.execute(lane, Operation::point(OperationKind::Get)).await.unwrap();
                        assert_eq!((found, output(dex, lane)), (Outcome::Found, round * 100 + id));
                        if round % 9 == 0 {
                            dex.flush_one(lane, crate::pages::Flush::Oldest).await.unwrap();
                        }
                    }
                };
                (lane, Box::pin(future) as Pin<Box<dyn Future<Output = ()> + '_>>)
            });
            let mut random = Random(seed * 31_337);
            pool.run_all(work.collect(), |able| random.below(able));
            pool.run(&lanes[0], dex.flush_all(&lanes[0])).unwrap();
            let census = pool.run(&lanes[0], dex.walk(&lanes[0])).unwrap();
            assert_eq!((census.records, census.half_splits), (6 * 30, 0));
            assert!(lanes.iter().all(|lane| !lane.is_unsettled()));
        });
    }
}
