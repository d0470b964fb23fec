//! Logs that begin again at line 0, since their line numbers are used up.

use super::deaths::{Told, empty_pool, kill, look, with_owner, work};
use super::leaving::scuffle;
use super::*;
use crate::pages::lsn::LINES_END;
use crate::verbs::{Completion, Status};

/// Whether the log has begun again.
fn has_restarted(dex: &Dex<'_>) -> bool {
    dex.log.state().next() >= LINES_END
}

#[test]
fn changes_go_on_when_line_numbers_end() {
    for level in Level::ALL {
        let pool = empty_pool();
        let mut told = Told::default();
        with_owner(&pool, 1, usize::MAX, |dex, lane| {
            dex.log.begin_at(LINES_END - 20);
            work(&pool, dex, lane, level, &mut told);
            assert!(has_restarted(dex), "{}", level.name());
            assert!(look(&pool, dex, lane, &told, level.name()));
            assert_eq!(dex.partition().word(0).epoch(), 2, "claimed, then renewed");
            pool.run(lane, Index::leave(dex, lane)).unwrap();
        });
        with_owner(&pool, 2, usize::MAX, |dex, lane| {
            assert!(look(&pool, dex, lane, &told, "the next owner"));
            pool.run(lane, dex.validate(lane)).unwrap();
        });
    }
}

#[test]
fn an_owner_may_die_at_any_line_while_it_renews() {
    for level in [Level::Log, Level::Pool] {
        let mut restarted = 0;
        for lives in 0.. {
            let (pool, mut told) = (empty_pool(), Told::default());
            with_owner(&pool, 1, lives, |dex, lane| {
                dex.log.begin_at(LINES_END - 20);
                work(&pool, dex, lane, level, &mut told);
                restarted += u32::from(has_restarted(dex));
            });
            let died = pool.lives.get() == 0;
            kill(&pool, 1);
            with_owner(&pool, 2, usize::MAX, |dex, lane| {
                assert!(look(&pool, dex, lane, &told, &std::format!("{} after {lives} lines", level.name())));
                pool.run(lane, dex.validate(lane)).unwrap();
            });
            if !died {
                break;
            }
        }
        assert!(restarted > 20, "{restarted}");
    }
}

#[test]
fn lanes_may_leave_while_tenures_are_renewed() {
    let mut restarted = 0;
    for seed in 1..=150 {
        let frames = [16, 24, 64][seed as usize % 3];
        let admission = if seed % 2 == 0 { Admission::per_10_000(4_000) } else { Admission::EAGER };
        let setup = Setup { lanes: 4, frames, admission, owned: 2, leaf_span: 2, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let what = std::format!("seed {seed}");
            let mut random = Random(seed * 7919);
            dex.log.begin_at(LINES_END - 1 - random.below(40) as u64);
            scuffle(pool, dex, lanes, &mut random, &what);
            restarted += u32::from(has_restarted(dex));
            pool.run(&lanes[0], dex.validate(&lanes[0])).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(lanes.iter().all(|lane| !lane.in_doubt()), "{what}");
        });
    }
    assert!(restarted > 100, "{restarted}");
}

/// A lane changes keys until its log has begun again.
fn restart(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>) {
    for round in 0..400 {
        if dex.log.restarts() > 0 {
            return;
        }
        point(pool, dex, lane, OperationKind::Upsert, 2500, round).unwrap();
    }
    panic!("the log has not begun again");
}

#[test]
fn a_scan_waits_for_what_it_has_seen_after_the_log_has_begun_again() {
    const RECORDS: u32 = 16;
    with_index(SETUP, |pool, dex, lanes| {
        let [lane, other] = [&lanes[0], &lanes[1]];
        dex.log.begin_at(LINES_END - 300);
        // Four of them are in each leaf but the last.
        for key in 0..u64::from(RECORDS + 4) {
            point(pool, dex, lane, OperationKind::Insert, key * 40, 1).unwrap();
        }
        pool.run(lane, dex.flush_all(lane)).unwrap();
        for name in (0..dex.store.frames()).filter_map(|index| dex.store.page_in(index)) {
            let frozen = dex.store.freeze(lane, name).unwrap();
            dex.store.discard(lane, frozen).unwrap();
        }
        // The first leaf of the scan is in a frame, with a line of the old count. The next two are READ.
        point(pool, dex, lane, OperationKind::Upsert, 0, 2).unwrap();
        set(dex, lane, 0, 0, 0);
        let mut scan = Box::pin(dex.execute(lane, Operation::scan(RECORDS)));
        lane.port().start();
        let first = (0..10).map(|_| poll_once(lane.port(), scan.as_mut())).find(|step| !matches!(step, Step::Waiting));
        assert!(matches!(first, Some(Step::Requests)), "{first:?}");
        assert!(
            lane.port().requests().iter().all(|request| request.label == Label::Leaf),
            "it has taken from the first"
        );
        dex.set_level(other, Level::Cache);
        restart(pool, dex, other);
        let last = u64::from(RECORDS - 1) * 40;
        point(pool, dex, other, OperationKind::Upsert, last, 7).unwrap();
        let staged = dex.log.state().next();
        assert!(dex.log.state().durable() < staged);
        pool.execute(lane);
        assert_eq!(pool.run(lane, scan), Ok(Outcome::Page { records: RECORDS, more: true }));
        lane.port().with(|scratch| {
            let told = dex.plan.records(scratch, RECORDS as usize).last();
            assert_eq!(told, Some((&last.to_be_bytes()[..], &7_u64.to_le_bytes()[..])));
        });
        assert!(dex.log.state().durable() >= staged, "a death takes back what the scan has told");
    });
}

/// The WRITE of a ring's description and head fails, and may land until its queue pair is closed.
#[test]
fn nobody_renews_before_a_renewal_that_failed_is_settled() {
    with_index(SETUP, |pool, dex, lanes| {
        let [lane, other] = [&lanes[0], &lanes[1]];
        point(pool, dex, lane, OperationKind::Insert, 5, 1).unwrap();
        dex.log.begin_at(LINES_END);
        set(dex, lane, 5, 2, 0);
        let mut failing = Box::pin(dex.execute(lane, Operation::point(OperationKind::Upsert)));
        lane.port().start();
        let error = loop {
            match poll_once(lane.port(), failing.as_mut()) {
                Step::Done(result) => break result.unwrap_err(),
                Step::Requests if lane.port().requests().iter().any(|request| request.label == Label::Log) => {
                    let scratch = lane.port().begin().unwrap();
                    lane.port().complete(0, Completion { status: Status::Flushed, ..Completion::NOTHING });
                    lane.port().finish(scratch, 1000);
                }
                Step::Requests => drop(pool.execute(lane)),
                Step::Waiting => {}
            }
        };
        assert!(matches!(error.cause, Cause::Verb(_)) && lane.in_doubt(), "{error:?}");
        drop(failing);
        lane.port().reset();
        set(dex, other, 6, 3, 0);
        let mut waiting = Box::pin(dex.execute(other, Operation::point(OperationKind::Upsert)));
        other.port().start();
        for _ in 0..20 {
            assert!(matches!(poll_once(other.port(), waiting.as_mut()), Step::Requests));
            assert!(other.port().requests().iter().all(|request| request.verb == Verb::Pause), "it waits");
            pool.execute(other);
        }
        pool.run(lane, dex.settle(lane)).unwrap();
        assert_eq!(pool.run(other, waiting), Ok(Outcome::Inserted));
        assert!(has_restarted(dex));
    });
}
