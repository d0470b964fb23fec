//! Leaves that were emptied: joined, dropped at every verb, and written to by lanes that work side by side.

use super::*;
use crate::btree::walk::Walk;
use crate::marks::Mark;
use crate::mutants::{Mutant, with_planted};

/// Inserts keys into the first entry until it has several leaves, and deletes those above `kept`.
fn fill_and_empty(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, kept: u64) {
    for key in 0..KEYS {
        point(pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
    }
    for key in kept..KEYS {
        assert_eq!(point(pool, dex, lane, OperationKind::Delete, key * 3, 0), Ok(Outcome::Deleted));
    }
}

const KEYS: u64 = 40;

#[test]
fn an_emptied_leaf_goes_and_its_place_is_used_again() {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        let mut leaves = Vec::new();
        for _ in 0..30 {
            fill_and_empty(pool, dex, lane, 0);
            let census = pool.run(lane, dex.validate(lane)).unwrap();
            assert_eq!((census.records, census.half_splits), (0, 0));
            leaves.push(census.leaves);
            assert!((0..KEYS).all(|key| get(pool, dex, &lanes[1], key * 3).is_none()));
        }
        let marked = |mark| lanes.iter().map(|lane| lane.marked(mark)).sum::<u32>();
        assert!(marked(Mark::MERGE) > 60, "{} merges", marked(Mark::MERGE));
        assert!(marked(Mark::NODE_REUSED) > 30, "{} places were used again", marked(Mark::NODE_REUSED));
        // What stays is at most one leaf for each parent.
        assert!(leaves.iter().all(|&count| count <= leaves[0] + 3), "{leaves:?}");
    });
}

#[test]
fn leaves_of_two_entries_are_not_joined() {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        for entry in 0..u64::from(SETUP.owned) {
            point(pool, dex, lane, OperationKind::Insert, entry * WIDTH, 1).unwrap();
            assert_eq!(point(pool, dex, lane, OperationKind::Delete, entry * WIDTH, 0), Ok(Outcome::Deleted));
        }
        let census = pool.run(lane, dex.validate(lane)).unwrap();
        assert_eq!((census.leaves, lane.marked(Mark::MERGE)), (u64::from(SETUP.entries), 0));
    });
}

/// Drives a delete that empties a leaf to its `drop_at`-th submit and drops it there. Returns whether it ended before.
fn delete_and_drop(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, key: u64, (drop_at, posted): (usize, bool)) -> bool {
    set(dex, lane, key, 0, 0);
    run_and_drop(pool, dex, lane, (OperationKind::Delete, Outcome::Deleted), (drop_at, posted)).0
}

/// A merge is dropped at any verb, and others meet what is left. Whether the pool has a tree that can be walked then, though
/// not all of it is flushed: the owner may die at any time.
fn what_a_dropped_merge_leaves_can_be_walked() -> bool {
    [true, false].into_iter().all(|posted| {
        (0..14).all(|drop_at| {
            with_index(SETUP, |pool, dex, lanes| {
                let lane = &lanes[0];
                for key in 0..KEYS {
                    point(pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
                }
                pool.run(lane, dex.flush_all(lane)).unwrap();
                (20..KEYS).rev().all(|key| {
                    delete_and_drop(pool, dex, lane, key * 3, (drop_at, posted));
                    get(pool, dex, &lanes[1], key * 3);
                    // Another one, which tells the parent of a half-split that the last one has met.
                    get(pool, dex, &lanes[1], key * 3);
                    pool.run(&lanes[1], dex.walk(&lanes[1])).is_ok()
                })
            })
        })
    })
}

#[test]
fn a_half_merge_is_undone_when_the_pool_has_left_as_it_was() {
    assert!(what_a_dropped_merge_leaves_can_be_walked());
    assert!(!with_planted(Some(Mutant::REVIVED_BEFORE_FLUSH), what_a_dropped_merge_leaves_can_be_walked));
}

#[test]
fn a_merge_that_is_dropped_at_any_verb_loses_nothing() {
    let mut undone = 0;
    for posted in [true, false] {
        for drop_at in 0.. {
            let mut verbs = 0;
            let ended = with_index(SETUP, |pool, dex, lanes| {
                let lane = &lanes[0];
                // The last delete empties the last leaf but one or the last.
                for key in 0..KEYS {
                    point(pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
                }
                let leaves = |lane| pool.run(lane, dex.walk(lane)).unwrap().leaves;
                pool.run(lane, dex.flush_all(lane)).unwrap();
                let before = leaves(lane);
                let mut ended = false;
                for key in (20..KEYS).rev() {
                    // Each is dropped until one of them has emptied a leaf, and merged it.
                    ended = delete_and_drop(pool, dex, lane, key * 3, (drop_at, posted));
                    verbs += 1;
                    if get(pool, dex, &lanes[1], key * 3).is_some() {
                        point(pool, dex, &lanes[1], OperationKind::Delete, key * 3, 0).unwrap();
                    }
                }
                for key in 0..KEYS {
                    let found = get(pool, dex, &lanes[1], key * 3);
                    assert_eq!(found, (key < 20).then_some(key), "dropped at {drop_at}");
                }
                let what = std::format!("dropped at {drop_at}");
                let census =
                    pool.run(&lanes[1], dex.validate(&lanes[1])).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(census.records, 20, "{what}");
                assert!(census.leaves <= before, "{what}");
                // Keys of the leaf that went, or did not, are put back.
                for key in 20..KEYS {
                    assert_eq!(
                        point(pool, dex, &lanes[1], OperationKind::Insert, key * 3, key),
                        Ok(Outcome::Inserted),
                        "{what}"
                    );
                }
                let census = pool.run(lane, dex.validate(lane)).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(census.records, KEYS, "{what}");
                undone += lanes.iter().map(|lane| lane.marked(Mark::MERGE_UNDONE)).sum::<u32>();
                ended
            });
            assert!(verbs > 0);
            if ended && drop_at > 12 {
                break;
            }
        }
    }
    assert!(undone > 0, "no half-merge was met");
}

#[test]
fn lanes_that_delete_and_insert_side_by_side_lose_no_change() {
    let mut merges = 0;
    for seed in 1..=40 {
        let frames = if seed % 2 == 0 { 64 } else { 24 };
        let admission = if seed % 3 == 0 { Admission::per_10_000(4_000) } else { Admission::EAGER };
        let setup = Setup { lanes: 5, frames, admission, owned: 2, leaf_span: 3, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let work = lanes.iter().map(|lane| {
                let future = async move {
                    for round in 0..6_u64 {
                        for step in 0..12 {
                            let id = u64::from(lane.id().0);
                            let key = step * 40 + id;
                            dex.set_level(lane, Level::ALL[(round + id) as usize % 3]);
                            set(dex, lane, key, round * 100 + id, 0);
                            let outcome = dex.execute(lane, Operation::point(OperationKind::Insert)).await.unwrap();
                            assert_eq!(outcome, Outcome::Inserted, "round {round}, key {key}");
                        }
                        for step in 0..12 {
                            let id = u64::from(lane.id().0);
                            let key = step * 40 + id;
                            set(dex, lane, key, 0, 0);
                            let found = dex.execute(lane, Operation::point(OperationKind::Get)).await.unwrap();
                            assert_eq!((found, output(dex, lane)), (Outcome::Found, round * 100 + id));
                            set(dex, lane, key, 0, 0);
                            let outcome = dex.execute(lane, Operation::point(OperationKind::Delete)).await.unwrap();
                            assert_eq!(outcome, Outcome::Deleted, "round {round}, key {key}");
                        }
                    }
                };
                (lane, Box::pin(future) as Pin<Box<dyn Future<Output = ()> + '_>>)
            });
            let mut random = Random(seed * 31_337);
            pool.run_all(work.collect(), |able| random.below(able));
            let census = pool.run(&lanes[0], dex.validate(&lanes[0])).unwrap();
            assert_eq!(census.records, 0);
            assert!(lanes.iter().all(|lane| !lane.is_unsettled()));
            merges += lanes.iter().map(|lane| lane.marked(Mark::MERGE)).sum::<u32>();
        });
    }
    assert!(merges > 200, "{merges} merges");
}
