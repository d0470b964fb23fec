//! Parts that move from one compute node to another and back, and owners that die while they give one up.

use super::deaths::{KEYS, Told, dies_at_every_line, empty_pool, look, owner_word, with_owner, work};
use super::*;
use crate::dex::ownership::LoadWord;
use crate::mutants::{Mutant, with_planted};
use crate::operation::Cause;
use crate::remote::address::Address;
use crate::remote::catalog::owners_offset;
use core::sync::atomic::AtomicU64;

const FIRST: RowId = RowId(1);
const SECOND: RowId = RowId(2);
const WAIT_NS: u64 = 1_000_000_000;

fn moved(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, to: RowId) -> Result<(), OpError> {
    pool.run(lane, dex.move_part(lane, 0, to, WAIT_NS))
}

/// Changes every key in the owner's memory, and hands the part over. Returns whether the receiver sees the changes.
fn handed_over(
    pool: &Pool,
    (owner, owners_lane): (&Dex<'_>, &Lane<'_>),
    (receiver, lane): (&Dex<'_>, &Lane<'_>),
    to: RowId,
    from: u64,
) -> bool {
    owner.set_level(owners_lane, Level::Cache);
    for key in 0..KEYS {
        point(pool, owner, owners_lane, OperationKind::Upsert, key, from + key).unwrap();
    }
    moved(pool, owner, owners_lane, to).unwrap();
    (0..KEYS).all(|key| get(pool, receiver, lane, key) == Some(from + key))
}

/// One compute node hands a part over to another one, which changes it and hands it back. Returns whether every answer was right.
fn there_and_back() -> bool {
    let (pool, mut told) = (empty_pool(), Told::default());
    with_owner(&pool, FIRST.0, usize::MAX, |first, one| {
        work(&pool, first, one, Level::Cache, &mut told);
        let nobody = moved(&pool, first, one, SECOND).unwrap_err();
        assert!(matches!(nobody.cause, Cause::BadInput(_)), "nobody lives there: {nobody:?}");
        with_owner(&pool, SECOND.0, usize::MAX, |second, two| {
            let without_log = moved(&pool, first, one, SECOND).unwrap_err();
            assert!(matches!(without_log.cause, Cause::BadInput(_)), "{without_log:?}");
            pool.run(two, second.take_part(two, 1)).unwrap();
            moved(&pool, first, one, SECOND).unwrap();
            assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Kept(SECOND)));
            let refused = point(&pool, first, one, OperationKind::Get, 3, 0).unwrap_err();
            assert!(matches!(refused.cause, Cause::NotOwner { row: SECOND, .. }), "{refused:?}");
            assert!(look(&pool, second, two, &told, "where it went"));
            assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Owned(SECOND)));
            second.set_level(two, Level::Cache);
            for key in 0..KEYS {
                point(&pool, second, two, OperationKind::Upsert, key, 500 + key).unwrap();
            }
            moved(&pool, second, two, FIRST).unwrap();
            pool.run(one, first.keep_parts(one)).unwrap();
            assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Owned(FIRST)), "it was kept for it");
            (0..KEYS).all(|key| get(&pool, first, one, key) == Some(500 + key))
        })
    })
}

/// A part goes there and back, each time with changes that are in its owner's memory only.
fn changes_go_along() -> bool {
    let pool = empty_pool();
    with_owner(&pool, FIRST.0, usize::MAX, |first, one| {
        pool.run(one, first.take_part(one, 0)).unwrap();
        with_owner(&pool, SECOND.0, usize::MAX, |second, two| {
            pool.run(two, second.take_part(two, 1)).unwrap();
            handed_over(&pool, (first, one), (second, two), SECOND, 300)
                && handed_over(&pool, (second, two), (first, one), FIRST, 400)
        })
    })
}

#[test]
fn a_part_goes_and_comes_back_with_all_changes() {
    assert!(there_and_back());
    assert!(!with_planted(Some(Mutant::FRAMES_KEPT), there_and_back));
    assert!(changes_go_along());
    assert!(!with_planted(Some(Mutant::HANDED_OVER_UNFLUSHED), changes_go_along));
}

#[test]
fn an_owner_may_die_at_any_line_of_a_move() {
    dies_at_every_line(&async |first, one| _ = first.move_part(one, 0, SECOND, WAIT_NS).await, |_, _, _, _, word| {
        matches!(word.decode(), Ok(Owner::Kept(_)))
    });
}

fn word_at(pool: &Pool, at: u64) -> u64 {
    u64::from_le_bytes(pool.region.borrow()[at as usize..][..8].try_into().unwrap())
}

/// Where the load of an entry is.
fn load_at(pool: &Pool, entry: u32) -> u64 {
    let table = word_at(pool, owners_offset(&pool.geometry, IndexNumber::new(NUMBER).unwrap()));
    let shape = TableShape::new(8, 4).unwrap();
    Address::from_bits(table).offset() + shape.load_at(entry) as u64
}

fn load_of(pool: &Pool, entry: u32) -> LoadWord {
    LoadWord(word_at(pool, load_at(pool, entry)))
}

fn put_load(pool: &Pool, entry: u32, load: LoadWord) {
    let at = load_at(pool, entry) as usize;
    pool.region.borrow_mut()[at..at + 8].copy_from_slice(&load.0.to_le_bytes());
}

/// The time of lanes with a clock.
static NOW_US: AtomicU64 = AtomicU64::new(0);

#[test]
fn an_owner_says_its_load_and_the_next_one_goes_on_with_it() {
    let (pool, mut told) = (empty_pool(), Told::default());
    let sleep = |us| NOW_US.fetch_add(us, Ordering::Relaxed);
    with_owner(&pool, FIRST.0, usize::MAX, |first, one| {
        work(&pool, first, one, Level::Log, &mut told);
        let word = owner_word(&pool, 0);
        pool.run(one, first.keep_parts(one)).unwrap();
        assert_eq!(load_of(&pool, 0), LoadWord::NONE, "without a clock nothing is known of a second");
        one.port().set_clock(Some(|| NOW_US.load(Ordering::Relaxed)));
        pool.run(one, first.keep_parts(one)).unwrap();
        assert_eq!(load_of(&pool, 0).epoch(), word.epoch(), "at once, of an entry that is new");
        for _ in 0..1600 {
            get(&pool, first, one, 3);
        }
        sleep(load::PERIOD_US / 2);
        pool.taken();
        pool.run(one, first.keep_parts(one)).unwrap();
        assert_eq!(pool.taken().len(), 1, "the table is READ, and it is too early for a WRITE");
        sleep(load::PERIOD_US / 2);
        pool.run(one, first.keep_parts(one)).unwrap();
        let rate = load_of(&pool, 0).of(word).unwrap();
        assert!((500..=800).contains(&rate), "1600 of them in half a second, in 2.5: {rate}");
        assert_eq!(first.part(0), Some((word, load_of(&pool, 0))));
        with_owner(&pool, SECOND.0, usize::MAX, |second, two| {
            two.port().set_clock(Some(|| NOW_US.load(Ordering::Relaxed)));
            pool.run(two, second.take_part(two, 1)).unwrap();
            moved(&pool, first, one, SECOND).unwrap();
            assert_eq!(load_of(&pool, 0).of(owner_word(&pool, 0)), Some(rate), "of one that is kept: the last owner's");
            pool.run(two, second.keep_parts(two)).unwrap();
            assert_eq!(load_of(&pool, 0).of(owner_word(&pool, 0)), None, "the new owner has said nothing yet");
            pool.run(two, second.keep_parts(two)).unwrap();
            assert_eq!(load_of(&pool, 0).of(owner_word(&pool, 0)), Some(rate));
            // The WRITE of the one that had it comes late, and then garbage.
            for word in [LoadWord::new(7, word.epoch()), LoadWord(u64::MAX)] {
                put_load(&pool, 0, word);
                pool.run(two, second.keep_parts(two)).unwrap();
                assert_eq!(load_of(&pool, 0).of(owner_word(&pool, 0)), Some(rate));
            }
            assert!(look(&pool, second, two, &told, "whatever the load says"));
        });
    });
}
