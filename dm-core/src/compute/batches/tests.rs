//! Batches without a fabric: which operation leads, which ones join, what members are told.

extern crate std;
use super::join::WAKES_AT_ONCE;
use super::worth::Account;
use super::*;
use crate::verbs::LaneId;
use std::vec::Vec;

const KEY: &[u8] = b"some key";

fn with_batches(test: impl FnOnce(&Batches<'_>)) {
    let mut values = [[0; 8]; 6];
    let batch_slots: Vec<_> = values.iter_mut().map(|value| BatchSlot::new(value)).collect();
    // One bucket, so that all keys meet.
    let (reads, writes) = ([Mutex::new(Bucket::default())], [Mutex::new(Bucket::default())]);
    test(&Batches::new(&reads, &writes, &batch_slots));
}

fn value(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn told(batches: &Batches<'_>, lane: u16) -> Answer {
    let batch_slot = batches.batch_slot(lane).unwrap();
    assert_eq!(batch_slot.state.swap(IDLE, Ordering::Acquire), ANSWERED);
    batch_slot.part.lock().answer
}

#[test]
fn the_value_that_joined_last_is_written_and_later_ones_are_not() {
    use OperationKind::{Update, Upsert};
    with_batches(|batches| {
        assert_eq!(batches.join(LaneId(0), Upsert, KEY, &value(1)), Joined::Leads);
        assert_eq!(batches.join(LaneId(1), Update, KEY, &value(2)), Joined::Follows);
        assert_eq!(batches.join(LaneId(2), Upsert, KEY, &value(3)), Joined::Follows);
        let mut taken = value(0);
        batches.seal_open(LaneId(0), |value| taken.copy_from_slice(value));
        assert_eq!(taken, value(3));
        // The next batch is open before this one is answered.
        assert_eq!(batches.join(LaneId(3), Update, KEY, &value(4)), Joined::Leads);
        let answered = batches.answer(LaneId(0), &Ok(Outcome::Inserted), &[]);
        assert!(answered.is_done);
        assert_eq!(answered.woken, [LaneId(2), LaneId(1)]);
        assert_eq!(told(batches, 1), Answer::Outcome(Outcome::Updated));
        assert_eq!(told(batches, 2), Answer::Outcome(Outcome::Replaced));
        assert_eq!(batches.end(LaneId(0)), None);
    });
}

#[test]
fn other_keys_and_conditional_operations_stay_alone() {
    use OperationKind::{Get, Insert, Update, UpdateIf, Upsert};
    with_batches(|batches| {
        assert_eq!(batches.join(LaneId(0), Update, KEY, &value(1)), Joined::Leads);
        assert_eq!(batches.join(LaneId(1), Update, b"same len", &value(2)), Joined::Alone);
        // An update may find nothing to update; an upsert always writes.
        assert_eq!(batches.join(LaneId(1), Upsert, KEY, &value(2)), Joined::Alone);
        assert_eq!(batches.join(LaneId(1), UpdateIf, KEY, &value(2)), Joined::Alone);
        assert_eq!(batches.join(LaneId(1), Insert, KEY, &value(2)), Joined::Alone);
        // Reads and writes do not meet.
        assert_eq!(batches.join(LaneId(1), Get, KEY, &[]), Joined::Leads);
        let mut taken = value(0);
        batches.seal_open(LaneId(0), |value| taken.copy_from_slice(value));
        assert_eq!(taken, value(1));
    });
}

#[test]
fn a_reader_that_comes_while_a_read_is_under_way_fills_the_next_batch() {
    use OperationKind::Get;
    with_batches(|batches| {
        assert_eq!(batches.join(LaneId(0), Get, KEY, &[]), Joined::Leads);
        batches.seal_open(LaneId(0), |_| ());
        assert_eq!(batches.join(LaneId(1), Get, KEY, &[]), Joined::Fills);
        assert_eq!(batches.join(LaneId(2), Get, KEY, &[]), Joined::Follows);
        // This batch was sealed without members, and members of the next one get nothing of it.
        assert!(batches.answer(LaneId(0), &Ok(Outcome::Found), &value(7)).woken.is_empty());
        assert_eq!(batches.end(LaneId(0)), Some(LaneId(1)));
        batches.seal_open(LaneId(1), |_| ());
        assert_eq!(batches.answer(LaneId(1), &Ok(Outcome::Found), &value(8)).woken, [LaneId(2)]);
        assert_eq!(told(batches, 2), Answer::Outcome(Outcome::Found));
        assert_eq!(*batches.batch_slot(2).unwrap().part.lock().value, value(8));
    });
}

#[test]
fn a_leader_that_never_sealed_sends_its_members_to_work() {
    with_batches(|batches| {
        for kind in [OperationKind::Get, OperationKind::Update] {
            batches.join(LaneId(0), kind, KEY, &value(1));
            batches.join(LaneId(1), kind, KEY, &value(2));
            assert_eq!(batches.answer(LaneId(0), &Ok(Outcome::Absent), &[]).woken, [LaneId(1)]);
            assert_eq!(told(batches, 1), Answer::Alone);
            assert_eq!(batches.end(LaneId(0)), None);
        }
    });
}

#[test]
fn ignorance_is_shared_and_harmless_failures_are_not() {
    let lost = OpError { effect: Effect::Unknown, cause: Cause::LeaderLost };
    let full = OpError::harmless(Cause::PoolFull);
    for (error, expected) in [(lost, Answer::Unknown(Cause::LeaderLost)), (full, Answer::Alone)] {
        with_batches(|batches| {
            batches.join(LaneId(0), OperationKind::Upsert, KEY, &value(1));
            batches.join(LaneId(1), OperationKind::Upsert, KEY, &value(2));
            batches.seal_open(LaneId(0), |_| ());
            batches.answer(LaneId(0), &Err(error), &[]);
            assert_eq!(told(batches, 1), expected);
        });
    }
}

#[test]
fn many_members_are_answered_in_groups() {
    let mut values = [[0; 8]; 2 * WAKES_AT_ONCE + 2];
    let batch_slots: Vec<_> = values.iter_mut().map(|value| BatchSlot::new(value)).collect();
    let buckets = [Mutex::new(Bucket::default())];
    let batches = Batches::new(&[], &buckets, &batch_slots);
    for lane in 0..batch_slots.len() as u16 {
        batches.join(LaneId(lane), OperationKind::Update, KEY, &value(1));
    }
    batches.seal_open(LaneId(0), |_| ());
    let mut woken = 0;
    loop {
        let answered = batches.answer(LaneId(0), &Ok(Outcome::Updated), &[]);
        woken += answered.woken.len();
        if answered.is_done {
            break;
        }
    }
    assert_eq!(woken, batch_slots.len() - 1);
}

#[test]
fn batches_that_save_less_than_they_cost_are_left_alone_for_a_while() {
    let account = Account::default();
    // A round trip of 10 us, and one member in 64 batches: 156 ns saved per batch.
    assert!((0..WINDOW).all(|batch| !account.count(u32::from(batch % 64 == 0), 10_000)));
    // Half a microsecond: 8 ns saved per batch.
    assert!((1..WINDOW).all(|batch| !account.count(u32::from(batch % 64 == 0), 500)));
    assert!(account.count(0, 500));
}

#[test]
fn each_rest_is_as_long_as_the_first_for_all_lanes() {
    use OperationKind::{Get, Update};
    with_batches(|batches| {
        let mut scratches = [[0; 8]; 3];
        let lanes: Vec<_> = (0..).zip(&mut scratches).map(|(n, bytes)| Lane::new(LaneId(n), bytes)).collect();
        for _ in 0..3 {
            assert!(!batches.stays_away(Get), "they try");
            // Batches of half a microsecond, without members.
            for _ in 0..WINDOW {
                assert_eq!(batches.join(LaneId(0), Get, KEY, &[]), Joined::Leads);
                batches.answer(LaneId(0), &Ok(Outcome::Absent), &[]);
                batches.judge(LaneId(0), 500);
                batches.end(LaneId(0));
            }
            for round in 1..=REST {
                assert!(batches.stays_away(Get), "operation {round} of {REST}");
                // All lanes have the same speed: when the rest ends, the others are one operation behind the
                // first.
                for lane in &lanes {
                    batches.worked_alone(lane, Get);
                }
            }
        }
        assert!(!batches.stays_away(Update), "writes are judged by themselves");
    });
}
