//! What operations post.

use super::*;
use crate::mutants::{Mutant, with_planted};

const READ_LEAF: (Verb, Label) = (Verb::Read, Label::Leaf);
const APPEND: (Verb, Label) = (Verb::Write, Label::Log);

#[test]
fn a_hit_posts_nothing_and_a_miss_reads_the_leaf() {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        assert_eq!(get(pool, dex, lane, 1700), None);
        pool.taken();
        // The inner nodes are known now. Another leaf is missed once.
        assert_eq!(get(pool, dex, lane, 2100), None);
        assert_eq!(pool.taken(), [READ_LEAF]);
        for key in [2100, 2999, 1000, 1700] {
            assert_eq!(get(pool, dex, lane, key), None);
            assert_eq!((pool.taken(), lane.port().round_trips()), (vec![], 0), "key {key}");
        }
        // A change that is in the ring: one WRITE. What it has changed costs nothing to read.
        for (kind, outcome) in [
            (OperationKind::Insert, Outcome::Inserted),
            (OperationKind::Update, Outcome::Updated),
            (OperationKind::Upsert, Outcome::Replaced),
            (OperationKind::Delete, Outcome::Deleted),
        ] {
            assert_eq!(point(pool, dex, lane, kind, 2100, 5), Ok(outcome));
            assert_eq!((pool.taken(), lane.port().round_trips()), (vec![APPEND], 1), "{kind:?}");
            get(pool, dex, lane, 2100);
            assert_eq!(point(pool, dex, lane, OperationKind::Update, 2101, 5), Ok(Outcome::Absent));
            assert_eq!(pool.taken(), [], "{kind:?}");
        }
        dex.set_level(lane, Level::Cache);
        assert_eq!(point(pool, dex, lane, OperationKind::Insert, 2100, 6), Ok(Outcome::Inserted));
        assert_eq!(pool.taken(), []);
        dex.set_level(lane, Level::Pool);
        assert_eq!(point(pool, dex, lane, OperationKind::Update, 2100, 7), Ok(Outcome::Updated));
        assert_eq!(pool.taken(), [(Verb::Write, Label::Leaf)]);
    });
}

#[test]
fn lanes_share_flights() {
    let setup = Setup { lanes: 8, ..SETUP };
    with_index(setup, |pool, dex, lanes| {
        for key in [100, 1100] {
            point(pool, dex, &lanes[0], OperationKind::Insert, key, 1).unwrap();
        }
        pool.taken();
        let work = lanes.iter().map(|lane| {
            set(dex, lane, 100 + 1000 * u64::from(lane.id().0 % 2), u64::from(lane.id().0), 0);
            let future = dex.execute(lane, Operation::point(OperationKind::Update));
            (lane, Box::pin(future) as Pin<Box<dyn Future<Output = _> + '_>>)
        });
        // In turns: all have staged before the first flight has landed.
        let mut turn = 0;
        let results = pool.run_all(work.collect(), |able| {
            turn += 1;
            turn % able
        });
        assert!(results.iter().all(|result| *result == Ok(Outcome::Updated)));
        let appends = pool.taken();
        assert!(appends.len() <= 3 && appends.iter().all(|request| *request == APPEND), "{appends:?}");
    });
}

/// An index of keys 0, 60, 120 and so on, with values 0, 1, 2 and so on, of whose leaves most are not admitted.
fn with_unadmitted<R>(test: impl FnOnce(&Pool, &Dex<'_>, &Lane<'_>) -> R) -> R {
    lanes_with_unadmitted(|pool, dex, lanes| test(pool, dex, &lanes[0]))
}

/// The same, of several lanes.
fn lanes_with_unadmitted<R>(test: impl FnOnce(&Pool, &Dex<'_>, &[Lane<'_>]) -> R) -> R {
    let setup = Setup { frames: 8, admission: Admission::per_10_000(0), ..SETUP };
    with_index(setup, |pool, dex, lanes| {
        let lane = &lanes[0];
        // As long as frames were never used, pages get one. These have room for more than there are leaves.
        for key in 0..60 {
            point(pool, dex, lane, OperationKind::Insert, 60 * key, key).unwrap();
        }
        pool.run(lane, dex.flush_all(lane)).unwrap();
        test(pool, dex, lanes)
    })
}

#[test]
fn a_leaf_that_is_not_admitted_is_read_and_written() {
    with_unadmitted(|pool, dex, lane| {
        let mut unadmitted = 0;
        for key in 0..60 {
            pool.taken();
            assert_eq!(point(pool, dex, lane, OperationKind::Update, 60 * key, key + 1), Ok(Outcome::Updated));
            let requests = pool.taken();
            if requests == [READ_LEAF, (Verb::Write, Label::Leaf)] {
                unadmitted += 1;
                assert_eq!(get(pool, dex, lane, 60 * key), Some(key + 1));
                assert_eq!(pool.taken(), [READ_LEAF]);
            } else {
                // The records of changes before, whose leaves were not admitted, go with it.
                assert!(requests.iter().all(|request| *request == APPEND), "key {key}: {requests:?}");
            }
        }
        assert!((10..60).contains(&unadmitted), "{unadmitted} of 60");
    });
}

/// Updates leaves that are not admitted. Each WRITE is cut behind its first line, as by a queue pair that fails, and its lane
/// is dropped and settled. Whether every key can be read then.
fn cut_leaves_become_whole() -> bool {
    with_unadmitted(|pool, dex, lane| {
        let mut cut = 0;
        for key in 0..60 {
            set(dex, lane, 60 * key, key + 1, 0);
            let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Update)));
            lane.port().start();
            let is_write = |request: &Request| (request.verb, request.label) == (Verb::Write, Label::Leaf);
            loop {
                match poll_once(lane.port(), future.as_mut()) {
                    Step::Done(result) => break assert_eq!(result, Ok(Outcome::Updated)),
                    Step::Waiting => {}
                    Step::Requests if lane.port().requests().iter().any(is_write) => {
                        cut += 1;
                        pool.lives.set(1);
                        break;
                    }
                    Step::Requests => drop(pool.execute(lane)),
                }
            }
            drop(future);
            if lane.port().flush() || pool.lives.get() == 1 {
                pool.execute(lane);
            }
            pool.lives.set(usize::MAX);
            lane.port().reset();
            pool.run(lane, dex.settle(lane)).unwrap();
            match point(pool, dex, lane, OperationKind::Get, 60 * key, 0) {
                Ok(outcome) => assert_eq!((outcome, output(dex, lane)), (Outcome::Found, key + 1)),
                Err(_) => return false,
            }
        }
        assert!((10..60).contains(&cut), "{cut} of 60");
        true
    })
}

#[test]
fn a_leaf_that_is_not_admitted_is_written_again_if_its_write_was_cut() {
    assert!(cut_leaves_become_whole());
    assert!(!with_planted(Some(Mutant::TORN_LEAF_LEFT), cut_leaves_become_whole));
}

#[test]
fn a_key_of_another_entry_is_refused_with_its_owner() {
    with_index(SETUP, |pool, dex, lanes| {
        for kind in [OperationKind::Get, OperationKind::Upsert, OperationKind::Delete] {
            let error = point(pool, dex, &lanes[0], kind, 4 * WIDTH, 1).unwrap_err();
            assert_eq!(error, OpError::harmless(Cause::NotOwner { row: OTHER, epoch: 1 }));
            // The word. With recovery, the owner's row follows.
            assert_eq!(pool.taken(), [(Verb::Read, Label::Owner)]);
        }
        // An entry whose word is this compute node's is taken again.
        dex.partition().close(0);
        assert_eq!(point(pool, dex, &lanes[0], OperationKind::Upsert, 5, 1), Ok(Outcome::Inserted));
    });
}

#[test]
fn a_tenure_that_ends_while_an_operation_reads_ends_the_operation_or_has_it_begin_anew() {
    let others = OwnerWord::new(Owner::Recovering { finder: OTHER, log: ME }, 2);
    for word in [None, Some(others)] {
        with_index(SETUP, |pool, dex, lanes| {
            let lane = &lanes[0];
            set(dex, lane, 5, 1, 0);
            let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Upsert)));
            lane.port().start();
            assert!(matches!(poll_once(lane.port(), future.as_mut()), Step::Requests));
            dex.partition().close(0);
            if let Some(word) = word {
                dex.partition().note(0, word, OwnerWord::FREE).unwrap();
            }
            let done = pool.run(lane, future);
            let refused = OpError::harmless(Cause::NotOwner { row: OTHER, epoch: 2 });
            assert_eq!(done, if word.is_some() { Err(refused) } else { Ok(Outcome::Inserted) });
            assert!(!lane.is_unsettled());
        });
    }
}

/// A get READs its leaf, and its entry is handed over meanwhile. Returns whether it is refused.
fn a_read_ends_with_its_tenure() -> bool {
    with_unadmitted(|pool, dex, lane| {
        set(dex, lane, 5, 0, 0);
        let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Get)));
        lane.port().start();
        assert!(matches!(poll_once(lane.port(), future.as_mut()), Step::Requests));
        let word = dex.partition().word(0);
        dex.partition().note(0, word.ask(OTHER).unwrap(), word).unwrap();
        matches!(pool.run(lane, future), Err(OpError { cause: Cause::NotOwner { .. }, .. }))
    })
}

#[test]
fn a_read_whose_entry_is_handed_over_meanwhile_is_refused() {
    assert!(a_read_ends_with_its_tenure());
    assert!(!with_planted(Some(Mutant::TENURE_UNCHECKED_BEHIND_READ), a_read_ends_with_its_tenure));
}

/// A lane has READ a leaf that is not admitted, and has not written it back. Returns whether its entry is drained afterwards only.
fn a_drain_waits_for_fills() -> bool {
    lanes_with_unadmitted(|pool, dex, lanes| {
        let (changer, drainer) = (&lanes[0], &lanes[1]);
        // The leaf of this key is in no frame.
        let key = (0..60).map(|key| 60 * key).find(|key| {
            pool.taken();
            get(pool, dex, changer, *key);
            pool.taken() == [READ_LEAF]
        });
        set(dex, changer, key.unwrap(), 7, 0);
        let mut change = Box::pin(dex.execute(changer, Operation::point(OperationKind::Upsert)));
        changer.port().start();
        assert!(matches!(poll_once(changer.port(), change.as_mut()), Step::Requests));
        drainer.begin(1_000_000_000);
        let mut drain = Box::pin(dex.drain_entry(drainer, 0));
        drainer.port().start();
        for _ in 0..64 {
            match poll_once(drainer.port(), drain.as_mut()) {
                Step::Done(_) => return false,
                Step::Requests => _ = pool.execute(drainer),
                Step::Waiting => {}
            }
        }
        assert_eq!(pool.run(changer, change), Ok(Outcome::Replaced));
        pool.run(drainer, drain).unwrap();
        true
    })
}

#[test]
fn an_entry_is_not_drained_while_a_lane_has_a_leaf_of_it_that_is_not_admitted() {
    assert!(a_drain_waits_for_fills());
    assert!(!with_planted(Some(Mutant::DRAINED_WITHOUT_FILLS), a_drain_waits_for_fills));
}
