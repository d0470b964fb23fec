//! What answers mean: the lease, the log, and the mutants that forget them.

use super::*;
use crate::mutants::{Mutant, with_planted};

/// Whether a read at level `log` of what another lane has changed at level `cache` waits for the log.
fn a_read_waits_for_what_it_saw() -> bool {
    with_index(SETUP, |pool, dex, lanes| {
        dex.set_level(&lanes[0], Level::Cache);
        point(pool, dex, &lanes[0], OperationKind::Insert, 5, 1).unwrap();
        let appended = || pool.taken().contains(&(Verb::Write, Label::Log));
        assert!(!appended());
        assert_eq!(get(pool, dex, &lanes[1], 5), Some(1));
        let waited = appended();
        // What it has seen is durable now: for a read of another key of that leaf, too.
        if waited {
            assert_eq!(get(pool, dex, &lanes[1], 6), None);
            assert!(!appended());
        }
        // A change that changes nothing tells what it has seen, too.
        point(pool, dex, &lanes[0], OperationKind::Update, 5, 2).unwrap();
        assert_eq!(point(pool, dex, &lanes[1], OperationKind::Insert, 5, 9), Ok(Outcome::Exists));
        assert_eq!(output(dex, &lanes[1]), 2);
        assert_eq!(appended(), waited);
        waited
    })
}

#[test]
fn reads_at_level_log_tell_nothing_that_a_death_takes_back() {
    assert!(a_read_waits_for_what_it_saw());
    assert!(!with_planted(Some(Mutant::UNDURABLE_READ_ANSWERED), a_read_waits_for_what_it_saw));
}

/// Whether a paused compute node whose lease is over refuses to answer from its cache.
fn a_hit_needs_the_lease() -> bool {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        point(pool, dex, lane, OperationKind::Insert, 5, 1).unwrap();
        pool.may_answer.store(false, Ordering::Relaxed);
        let fenced = Err(OpError::harmless(Cause::Fenced));
        let found = point(pool, dex, lane, OperationKind::Get, 5, 0);
        assert!(found == fenced || found == Ok(Outcome::Found));
        let absent = point(pool, dex, lane, OperationKind::Delete, 6, 0);
        assert_eq!(absent == fenced, found == fenced);
        // A change that is in the ring was there before the fence.
        assert_eq!(point(pool, dex, lane, OperationKind::Update, 5, 2), Ok(Outcome::Updated));
        pool.may_answer.store(true, Ordering::Relaxed);
        found == fenced
    })
}

#[test]
fn a_cached_leaf_is_answered_under_the_lease_only() {
    assert!(a_hit_needs_the_lease());
    assert!(!with_planted(Some(Mutant::LEASE_UNCHECKED_ON_A_HIT), a_hit_needs_the_lease));
}

#[test]
fn an_earlier_tenure_waits_for_nothing() {
    let pool = Pool::new();
    with_node(&pool, SETUP, 1, |dex, lanes| {
        pool.run(&lanes[0], dex.create(&lanes[0])).unwrap();
        for key in 0..5 {
            point(&pool, dex, &lanes[0], OperationKind::Insert, key, key).unwrap();
        }
        pool.run(&lanes[0], dex.flush_all(&lanes[0])).unwrap();
    });
    with_node(&pool, SETUP, 2, |dex, lanes| {
        pool.taken();
        assert_eq!(get(&pool, dex, &lanes[0], 3), Some(3));
        assert!(pool.taken().iter().all(|(verb, _)| *verb == Verb::Read), "its line numbers are of another ring");
    });
}

#[test]
fn at_level_pool_a_change_is_in_its_page() {
    let pool = Pool::new();
    with_node(&pool, SETUP, 1, |dex, lanes| {
        let lane = &lanes[0];
        pool.run(lane, dex.create(lane)).unwrap();
        dex.set_level(lane, Level::Pool);
        for key in 0..40 {
            point(&pool, dex, lane, OperationKind::Upsert, key * 90, key).unwrap();
        }
    });
    // The compute node is gone, and nobody has replayed its ring.
    with_node(&pool, SETUP, 2, |dex, lanes| {
        for key in 0..40 {
            assert_eq!(get(&pool, dex, &lanes[0], key * 90), Some(key));
        }
    });
}

#[test]
fn at_level_cache_flights_are_posted_before_the_staging_room_is_full() {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        dex.set_level(lane, Level::Cache);
        point(pool, dex, lane, OperationKind::Insert, 5, 1).unwrap();
        pool.taken();
        let half = SETUP.staging_lines as u64 / 2;
        for value in 0..8 * half {
            point(pool, dex, lane, OperationKind::Update, 5, value).unwrap();
            let state = dex.log().state();
            assert!(state.next() - state.durable() <= half, "{} lines wait", state.next() - state.durable());
        }
        let flights = pool.taken().iter().filter(|verb| **verb == (Verb::Write, Label::Log)).count() as u64;
        assert!((1..=8 * half / 16).contains(&flights), "{flights} WRITEs of the log: it is not one a change");
    });
}
