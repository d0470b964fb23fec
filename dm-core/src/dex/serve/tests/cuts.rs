//! Parts that are cut in two, and owners that die while they cut one.

use super::deaths::{KEYS, dies_at_every_line, empty_pool, kill, look, owner_word, with_lanes_of_owner, with_owner};
use super::*;
use crate::mutants::{Mutant, with_planted};
use crate::operation::Cause;

const FIRST: RowId = RowId(1);
const SECOND: RowId = RowId(2);
const WAIT_NS: u64 = 1_000_000_000;

fn cut(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, key: u64) -> Result<(), OpError> {
    pool.run(lane, dex.cut_part(lane, &key.to_be_bytes(), WAIT_NS))
}

fn fill(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, level: Level, from: u64) {
    dex.set_level(lane, level);
    for key in 0..KEYS {
        point(pool, dex, lane, OperationKind::Upsert, key, from + key).unwrap();
    }
}

#[test]
fn a_part_is_cut_where_a_leaf_begins() {
    let pool = empty_pool();
    with_owner(&pool, FIRST.0, usize::MAX, |dex, lane| {
        fill(&pool, dex, lane, Level::Cache, 100);
        let before = owner_word(&pool, 0);
        let refused = cut(&pool, dex, lane, 0).unwrap_err();
        assert!(matches!(refused.cause, Cause::BadInput(_)), "there is no leaf in front of it: {refused:?}");
        assert_eq!(owner_word(&pool, 0), before);
        cut(&pool, dex, lane, KEYS - 1).unwrap();
        let partition = dex.partition();
        assert_eq!(
            (partition.count(), partition.entry_of_rank(1)),
            (3, Some(2)),
            "it is behind the others in the table"
        );
        let low = u64::from_be_bytes(partition.boundary_of_rank(1).unwrap()[..].try_into().unwrap());
        assert!(0 < low && low < KEYS, "{low}");
        let [old, new] = [0, 2].map(|entry| owner_word(&pool, entry));
        assert_eq!([old, new].map(OwnerWord::decode), [Ok(Owner::Owned(FIRST)); 2]);
        assert_eq!((old.epoch(), new.epoch()), (before.epoch() + 1, before.epoch() + 1));
        assert!((0..KEYS).all(|key| get(&pool, dex, lane, key) == Some(100 + key)));
        fill(&pool, dex, lane, Level::Cache, 200);
        let census = pool.run(lane, dex.validate(lane)).unwrap();
        assert_eq!(census.records, KEYS);
        // Where the first cut was, no leaf is in front.
        let again = cut(&pool, dex, lane, KEYS - 1).unwrap_err();
        assert!(matches!(again.cause, Cause::BadInput(_)), "{again:?}");
        cut(&pool, dex, lane, low - 1).unwrap();
        assert_eq!(partition.count(), 4);
        let full = (0..low).rev().find_map(|key| cut(&pool, dex, lane, key).err()).unwrap();
        assert!(matches!(full.cause, Cause::BadInput(_)), "{full:?}");
        assert!((0..KEYS).all(|key| get(&pool, dex, lane, key) == Some(200 + key)));
    });
}

/// A compute node that opened the index before a cut gets the old part, while the first one keeps the new part. Returns whether it
/// refuses keys of that.
fn old_end_is_known() -> bool {
    let pool = empty_pool();
    with_owner(&pool, FIRST.0, usize::MAX, |first, one| {
        fill(&pool, first, one, Level::Cache, 100);
        with_owner(&pool, SECOND.0, usize::MAX, |second, two| {
            pool.run(two, second.take_part(two, 1)).unwrap();
            cut(&pool, first, one, KEYS - 1).unwrap();
            pool.run(one, first.move_part(one, 0, SECOND, WAIT_NS)).unwrap();
            fill_last(&pool, first, one, 300);
            assert_eq!(get(&pool, second, two, 0), Some(100), "it takes the old part");
            // With a clock it sees for how long an owner has been silent.
            two.port().set_clock(Some(|| 1));
            let last = point(&pool, second, two, OperationKind::Get, KEYS - 1, 0);
            matches!(last, Err(OpError { cause: Cause::NotOwner { row: FIRST, .. }, .. }))
        })
    })
}

fn fill_last(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, from: u64) {
    point(pool, dex, lane, OperationKind::Upsert, KEYS - 1, from + KEYS - 1).unwrap();
}

/// The owner dies when it has cut a part whose changes were in its log only. Returns whether they are all there.
fn nothing_is_lost_with_the_owner() -> bool {
    let pool = empty_pool();
    with_owner(&pool, SECOND.0, usize::MAX, |second, two| {
        pool.run(two, second.take_part(two, 1)).unwrap();
        with_owner(&pool, FIRST.0, usize::MAX, |first, one| {
            fill(&pool, first, one, Level::Log, 100);
            cut(&pool, first, one, KEYS - 1).unwrap();
        });
        kill(&pool, FIRST.0);
        (0..KEYS).all(|key| get(&pool, second, two, key) == Some(100 + key))
    })
}

#[test]
fn a_cut_part_has_another_end_and_all_that_it_had() {
    assert!(old_end_is_known());
    assert!(!with_planted(Some(Mutant::CUTS_UNSEEN), old_end_is_known));
    assert!(nothing_is_lost_with_the_owner());
    assert!(!with_planted(Some(Mutant::CUT_UNFLUSHED), nothing_is_lost_with_the_owner));
}

/// A change begins, READs its way, and another lane cuts the entry in front of its leaf. It is answered, and its compute node dies.
/// Returns whether it is there afterwards.
fn a_change_outlives_a_cut() -> bool {
    let pool = empty_pool();
    with_owner(&pool, SECOND.0, usize::MAX, |second, lane| {
        fill(&pool, second, lane, Level::Cache, 100);
        pool.run(lane, second.leave(lane)).unwrap();
    });
    with_lanes_of_owner(&pool, FIRST.0, usize::MAX, |first, lanes| {
        let [one, two, ..] = lanes else { panic!("two lanes") };
        first.set_level(one, Level::Log);
        set(first, one, KEYS - 1, 7, 0);
        let mut change = Box::pin(first.execute(one, Operation::point(OperationKind::Upsert)));
        one.port().start();
        // It has its tenure when it asks for the root.
        assert!(matches!(poll_once(one.port(), change.as_mut()), Step::Requests));
        while one.port().requests().iter().all(|request| request.label != Label::Root) {
            pool.execute(one);
            assert!(matches!(poll_once(one.port(), change.as_mut()), Step::Requests));
        }
        cut(&pool, first, two, KEYS - 1).unwrap();
        assert_eq!(pool.run(one, change), Ok(Outcome::Replaced));
    });
    kill(&pool, FIRST.0);
    with_owner(&pool, SECOND.0 + 1, usize::MAX, |third, lane| get(&pool, third, lane, KEYS - 1) == Some(7))
}

#[test]
fn an_operation_of_before_a_cut_has_no_tenure_of_what_was_cut_off() {
    assert!(a_change_outlives_a_cut());
    assert!(!with_planted(Some(Mutant::CUT_UNRENEWED), a_change_outlives_a_cut));
}

#[test]
fn an_owner_may_die_at_any_line_of_a_cut() {
    dies_at_every_line(
        &async |first, one| _ = first.cut_part(one, &(KEYS - 2).to_be_bytes(), WAIT_NS).await,
        |pool, second, two, told, _| {
            let is_cut = second.partition().count() == 3;
            // What was left behind the count counts for nothing.
            let _ = cut(pool, second, two, KEYS - 2);
            assert!(look(pool, second, two, told, "after another cut"));
            is_cut
        },
    );
}
