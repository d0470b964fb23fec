//! Recoveries: of an owner that died at any line, by finders that die at any line, too.

use super::*;
use crate::dex::ownership::steps::Entry;
use crate::dex::ownership::{Owner, OwnerWord};
use crate::mutants::{Mutant, with_planted};
use crate::operation::Cause;
use crate::pages::Flush;
use std::collections::BTreeMap;

const OTHER: u64 = 1 << 63;

/// What was acknowledged, by key: `None`: its absence.
type Acknowledged = RefCell<BTreeMap<u64, Option<u64>>>;

/// What an owner does, and notes as acknowledged.
async fn owner(node: &Node<'_>, lanes: &[Lane<'_>; LANES], acknowledged: &Acknowledged) -> Result<(), OpError> {
    let [lane, _] = lanes;
    let note = |key, value| acknowledged.borrow_mut().insert(key, value);
    for (key, value) in [(0, 10), (1, 11), (3, 13), (4, 14), (OTHER, 70)] {
        let lsn = node.change(lane, key, Some(value)).await?;
        append::wait(node.append(), lane, lsn).await?;
        note(key, Some(value));
    }
    for _ in 0..2 {
        flush::flush(node.flush(), lane, Flush::Oldest).await?;
    }
    let bound = node.log.head_bound();
    node.log.advance_head(bound, node.store.oldest_unflushed().unwrap().map(Lsn::line));
    for (key, value) in [(0, Some(20)), (3, None), (1, Some(21)), (OTHER + 1, Some(71)), (4, Some(24))] {
        let lsn = node.change(lane, key, value).await?;
        append::wait(node.append(), lane, lsn).await?;
        note(key, value);
    }
    flush::flush(node.flush(), lane, Flush::Oldest).await?;
    Ok(())
}

/// An owner's life up to its death. `None`: it did not die in `lives` lines.
fn owner_dies(lives: usize, is_backward: bool) -> (Pool, Acknowledged, bool) {
    let (pool, acknowledged) = (Pool::new(), Acknowledged::default());
    let died = with_node(&pool, 5, |node, lanes| {
        for entry in 0..ENTRIES {
            pool.run(&lanes[0], node.table.claim(&lanes[0], entry)).unwrap().unwrap();
            node.table.partition.admit(entry).unwrap();
        }
        pool.is_backward.set(is_backward);
        pool.lives.set(Some(lives));
        pool.run(&lanes[0], owner(node, lanes, &acknowledged)).is_none()
    });
    pool.kill(5);
    (pool, acknowledged, died)
}

fn word_of(pool: &Pool, entry: u32) -> OwnerWord {
    OwnerWord(pool.word(pool.geometry.chunk_offset(TABLE_CHUNK) + TableShape::word_at(entry) as u64))
}

/// A finder recovers entry 0. `None`: it dies. `Some(false)`: it was admitted before the word said so.
fn find(pool: &Pool, row: u16, lives: Option<usize>) -> Option<Result<bool, OpError>> {
    with_node(pool, row, |node, lanes| {
        let lane = &lanes[0];
        pool.lives.set(lives);
        let partition = node.table.partition;
        let is_right = Cell::new(true);
        let look = || {
            let is_admitted = partition.tenure_of(&[0; 8]).is_ok();
            is_right.set(is_right.get() && (!is_admitted || word_of(pool, 0).decode() == Ok(Owner::Owned(RowId(row)))));
        };
        let step = async {
            match node.table.look_after(lane, 0).await? {
                Entry::Recovering(_) => {
                    recover::recover(&node.recover(), lane, 0).await?;
                }
                Entry::Mine(_) => {}
                other => panic!("{other:?}"),
            }
            look();
            assert_eq!(node.progress_counters[0].under_way(), 0);
            Ok(())
        };
        let ended = pool.watch(lane, step, look)?;
        Some(ended.map(|()| is_right.get()))
    })
}

/// Whether the pool has what was acknowledged of entry 0, or a later state of a key that was being changed.
fn has_all(pool: &Pool, acknowledged: &Acknowledged) -> bool {
    let later = |key| match key {
        0 => Some(20),
        1 => Some(21),
        4 => Some(24),
        _ => None,
    };
    let is_right = |(&key, &value): (&u64, &Option<u64>)| {
        let stored = pool.stored(key);
        stored == Ok(value) || stored == Ok(later(key))
    };
    acknowledged.borrow().iter().filter(|(key, _)| **key < OTHER).all(is_right)
}

#[test]
fn nothing_that_was_acknowledged_is_lost_wherever_the_owner_dies() {
    let mut torn = 0;
    for is_backward in [false, true] {
        for lives in 0.. {
            let (pool, acknowledged, died) = owner_dies(lives, is_backward);
            torn += u32::from(pool.stored(0).is_err() || pool.stored(3).is_err());
            assert_eq!(find(&pool, 6, None).unwrap(), Ok(true), "{lives} lines");
            assert!(has_all(&pool, &acknowledged), "{lives} lines: {acknowledged:?}");
            assert_eq!(word_of(&pool, 0), OwnerWord::new(Owner::Owned(RowId(6)), 3));
            assert_eq!(word_of(&pool, 1), OwnerWord::new(Owner::Owned(RowId(5)), 1), "the other entry waits");
            if !died {
                break;
            }
        }
    }
    assert!(torn > 0, "no page was torn");
}

/// Whether an entry is recovered, and nobody admitted too early, wherever owner and first finder die.
fn finders_may_die() -> Result<(), &'static str> {
    let last = (0..1000).find(|lives| !owner_dies(*lives, false).2).unwrap();
    for lives in 0..=last {
        let (dead, acknowledged, _) = owner_dies(lives, false);
        for is_backward in [false, true] {
            for finder_lives in 0.. {
                let pool = dead.clone();
                pool.is_backward.set(is_backward);
                let first = find(&pool, 6, Some(finder_lives));
                let survived = first.is_some();
                if first.is_some_and(|ended| ended != Ok(true)) {
                    return Err("the first finder");
                }
                pool.kill(6);
                if find(&pool, 7, None) != Some(Ok(true)) {
                    return Err("the second finder");
                }
                if !has_all(&pool, &acknowledged) {
                    return Err("an acknowledged change is lost");
                }
                if survived {
                    break;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_next_finder_completes_what_one_has_begun() {
    assert_eq!(finders_may_die(), Ok(()));
    assert!(with_planted(Some(Mutant::ADMISSION_BEFORE_WORD), finders_may_die).is_err());
}

/// A page is ahead of the ring: it was flushed with a change that is in no ring. Its first slot has an older image.
/// Whether the change survives the owner.
fn a_page_that_is_ahead_of_the_ring_stays() -> bool {
    let pool = Pool::new();
    with_node(&pool, 5, |node, lanes| {
        let [first, second] = lanes;
        pool.run(first, node.table.claim(first, 0)).unwrap().unwrap();
        node.table.partition.admit(0).unwrap();
        let lsn = pool.run(first, node.change(first, 0, Some(10))).unwrap().unwrap();
        pool.run(first, append::wait(node.append(), first, lsn)).unwrap().unwrap();
        pool.run(first, flush::flush(node.flush(), first, Flush::Oldest)).unwrap().unwrap();
        pool.run(first, node.change(first, 0, Some(20))).unwrap().unwrap();
        pool.run(second, flush::flush(node.flush(), second, Flush::Oldest)).unwrap().unwrap();
        // The second lane's slot gets the image of another page.
        pool.run(second, node.change(second, 3, Some(13))).unwrap().unwrap();
        pool.run(second, flush::flush(node.flush(), second, Flush::Oldest)).unwrap().unwrap();
    });
    pool.kill(5);
    assert_eq!(find(&pool, 6, None), Some(Ok(true)));
    pool.stored(0) == Ok(Some(20)) && pool.stored(3) == Ok(Some(13))
}

#[test]
fn neither_an_old_image_nor_an_old_record_takes_a_flushed_change_back() {
    assert!(a_page_that_is_ahead_of_the_ring_stays());
    for mutant in [Mutant::OLD_IMAGE_OVER_WHOLE_PAGE, Mutant::LEAF_LSN_IGNORED] {
        assert!(!with_planted(Some(mutant), a_page_that_is_ahead_of_the_ring_stays), "{}", mutant.name());
    }
}

#[test]
fn a_place_that_another_leaf_has_by_now_is_left_alone() {
    let dead = (0..1000).map(|lives| owner_dies(lives, false)).find(|(pool, ..)| pool.stored(0).is_err()).unwrap().0;
    // Its generation, and then its entry.
    for (at, value) in [(1, 9), (4, 1)] {
        let pool = dead.clone();
        let page = pool.page(0).offset();
        pool.put(page + at, &[value]);
        let before = pool.bytes(page, PAGE_BYTES);
        let restored = with_node(&pool, 6, |node, lanes| {
            pool.run(&lanes[0], restore::restore(node.restore(), &lanes[0], 0)).unwrap()
        });
        assert_eq!((restored, pool.bytes(page, PAGE_BYTES)), (Ok(0), before));
    }
    // Nor is a page restored that the finder of another entry looks at.
    let restored =
        with_node(&dead, 6, |node, lanes| dead.run(&lanes[0], restore::restore(node.restore(), &lanes[0], 1)).unwrap());
    assert_eq!((restored, dead.stored(0)), (Ok(0), Err("torn")));
}

#[test]
fn rings_that_cannot_be_read_end_a_recovery_with_an_error() {
    type Damage = fn(&Pool);
    let row = |pool: &Pool| pool.geometry.row_offset(RowId(5));
    let ring = |pool: &Pool| pool.geometry.chunk_offset(ring_chunks(5)[0]);
    let _ = (row, ring);
    let damages: [(Damage, &str); 5] = [
        (|pool| pool.put(pool.geometry.row_offset(RowId(5)) + 56, &[0; 8]), "has announced no log ring"),
        (|pool| pool.put(pool.geometry.row_offset(RowId(5)) + 56, &[64]), "has announced no log ring"),
        (|pool| pool.put(pool.geometry.chunk_offset(ring_chunks(5)[0]) + 9, &[1]), "the log ring of a dead owner"),
        (|pool| pool.put(pool.geometry.chunk_offset(ring_chunks(5)[0]) + 128, &[1]), "the log ring of a dead owner"),
        (|pool| pool.put(pool.geometry.row_offset(RowId(5)), &member(5).word().0.to_le_bytes()), "is not dead"),
    ];
    for (damage, expected) in damages {
        let (pool, ..) = owner_dies(usize::MAX, false);
        let ended = with_node(&pool, 6, |node, lanes| {
            let lane = &lanes[0];
            pool.run(lane, node.table.look_after(lane, 0)).unwrap().unwrap();
            damage(&pool);
            pool.run(lane, recover::recover(&node.recover(), lane, 0)).unwrap()
        });
        let error = ended.unwrap_err();
        assert!(matches!(error.cause, Cause::Corrupt { what, .. } if what.contains(expected)), "{error:?}");
        assert!(matches!(word_of(&pool, 0).decode(), Ok(Owner::Recovering { .. })), "nobody is admitted");
    }
}

/// The log has begun again at line 0. What other lanes change while a finder flushes is noted with later lines, and does not
/// keep the finder from its end.
#[test]
fn flushes_of_a_recovery_end_after_the_log_has_begun_again() {
    let pool = Pool::new();
    with_node(&pool, 6, |node, lanes| {
        let [lane, other] = lanes;
        node.log.restart();
        for entry in 0..ENTRIES {
            pool.run(lane, node.table.claim(lane, entry)).unwrap().unwrap();
            node.table.partition.admit(entry).unwrap();
        }
        for key in [0, OTHER] {
            pool.run(lane, node.change(lane, key, Some(1))).unwrap().unwrap();
        }
        let submits = Cell::new(0);
        let change = || {
            submits.set(submits.get() + 1);
            if submits.get() < 12 {
                let mut changing = pin!(node.change(other, OTHER, Some(submits.get())));
                assert!(matches!(poll_once(other.port(), changing.as_mut()), Step::Done(Ok(_))), "its page is cached");
            }
        };
        pool.watch(lane, recover::flush_replayed(&node.recover(), lane), change).unwrap().unwrap();
        assert!(submits.get() <= 4, "{} submits", submits.get());
    });
}
