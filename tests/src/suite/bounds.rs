//! Deadlines, retries, memory nodes that are down.

use super::fill;
use crate::client::{Client, alone, on_test_bed};
use crate::fabric::{Failure, poke};
use crate::oracle::POINT;
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Cause, Effect, Operation, OperationKind, Outcome};
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::verbs::{NodeId, Status};
use dm_sim::block_on;

/// Makes every lock word that of a holder that never releases it, or free.
fn set_locks(subject: &dyn Subject, shape: &Shape, client: &mut Client<'_, '_>, held: bool) {
    let stranger = LockWord::new(RowId(99), 7).expect("a small sequence");
    let word = if held { stranger } else { LockWord::FREE };
    for (node, at) in (0..).zip(client.geometry) {
        let table = word.0.to_le_bytes().repeat(at.lock_count as usize);
        poke(client.fabric, at.lock_space, NodeId(node), at.lock_table, &table);
    }
    subject.set_node_locks(client.fabric, client.geometry, shape, held);
}

/// An operation that cannot get its lock ends at its deadline, without effect, and leaves no lock record. Reads
/// succeed, and so does what needs no lock.
pub fn ends_at_its_deadline(subject: &dyn Subject, fixture: &dyn Fixture) {
    for (number, (name, options)) in (0..).zip(fixture.switches(subject)) {
        alone(subject, fixture, &Setup::new(Shape::words(4, 4)).switched(options), |client| {
            fill(client, 50, 1);
            set_locks(subject, &Shape::words(4, 4), client, true);
            for kind in POINT.into_iter().filter(|&kind| subject.locks(kind)) {
                for deadline_ns in [1, 100_000, 5_000_000] {
                    // A present key may be found to be present without the lock.
                    let n = if kind == OperationKind::Insert { 1000 } else { 20 };
                    client.arguments(0, n, 1, 20);
                    let operation = Operation { deadline_ns, ..Operation::point(kind) };
                    let future = client.index.execute(&client.lanes[0], operation);
                    let run = client.drive(0, future);
                    let error = run.result.expect_err("the lock is never free");
                    let Cause::Deadline { elapsed_ns } = error.cause else { panic!("{name}: {kind:?}: {error}") };
                    assert_eq!(error.effect, Effect::None);
                    assert!(elapsed_ns > deadline_ns, "{name}: {elapsed_ns} of {deadline_ns} ns");
                    assert!(run.counts.requests < 1000, "{name}: {} requests", run.counts.requests);
                    assert!(!client.lanes[0].in_doubt() && (client.locks_held)() == 0, "{name}: {kind:?}");
                }
            }
            assert_eq!(read_beside_locks(client, 20), Some(20));
            assert_eq!(client.everything().len(), 50);
            // Without a deadline of the caller, the index's own deadline holds. It is long.
            if number % fixture.stride() == 0 {
                client.arguments(0, 20, 1, 20);
                let future = client.index.execute(&client.lanes[0], Operation::point(OperationKind::Update));
                let run = client.drive(0, future);
                if subject.locks(OperationKind::Update) {
                    let error = run.result.expect_err("the lock is never free");
                    assert!(matches!(error.cause, Cause::Deadline { .. } | Cause::Retries { .. }), "{error}");
                } else {
                    assert_eq!(run.result, Ok(Outcome::Updated), "{name}");
                }
            }
            set_locks(subject, &Shape::words(4, 4), client, false);
            client.put(20, 5);
            assert_eq!(client.get(20), Some(5));
            client.assert_quiet("after deadlines");
        });
    }
}

/// The stamp of key `n`. A READ during which this thread lost its processor cannot be vouched for, and is made again under
/// the lock; the next get succeeds without.
fn read_beside_locks(client: &mut Client<'_, '_>, n: u64) -> Option<u32> {
    let get = Operation { deadline_ns: 10_000_000, ..Operation::point(OperationKind::Get) };
    for _ in 0..20 {
        client.arguments(0, n, 0, 0);
        let future = client.index.execute(&client.lanes[0], get);
        match client.drive(0, future).result {
            Ok(_) => return client.output(0, n),
            Err(error) => assert!(matches!(error.cause, Cause::Deadline { .. }), "{error}"),
        }
    }
    None
}

/// A memory node that is down is an error that names it, at whatever step it goes down. The lane can be settled. Lanes
/// that queued for a lock there get their turn, and the same error.
pub fn a_dead_memory_node_is_an_error(subject: &dyn Subject, fixture: &dyn Fixture) {
    let setup = Setup { region_bytes: 256 << 10, ..Setup::new(Shape::words(2, 2)) };
    for kind in OperationKind::ALL {
        for after in 0.. {
            let mut test_bed = fixture.test_bed(subject, &setup);
            let mut over = false;
            on_test_bed(subject, &mut test_bed, &setup, 0, &mut |client| {
                fill(client, 200, 10);
                client.fabric.failure =
                    Some(Failure { after, times: u32::MAX, status: Status::NodeDown, lands: false });
                client.arguments(0, 85, 1, 85);
                let future = client.index.execute(&client.lanes[0], operation(kind));
                let run = block_on(&client.lanes[0], client.fabric, future).unwrap();
                let failed = client.fabric.failure.is_none_or(|failure| failure.after == 0);
                over = !failed;
                match run.result {
                    Ok(_) => {}
                    Err(error) => {
                        let Cause::Verb(verb) = error.cause else { panic!("{kind:?} after {after}: {error}") };
                        assert_eq!(verb.status, Status::NodeDown);
                        assert!(error.to_string().contains("memory node 0"), "{error}");
                    }
                }
                // Settling may say that the node is down; it must not leave the lane or the local entry behind.
                let _ = client.settle(0);
                assert!(
                    !client.lanes[0].in_doubt(),
                    "{kind:?} after {after}: lock records {:?}",
                    client.lanes[0].lock_records()
                );
                assert_eq!((client.locks_held)(), 0, "{kind:?} after {after}");
            });
            if over {
                assert!(after >= 1, "{kind:?} asks nothing");
                break;
            }
        }
    }
}

/// `kind`, or a scan of a few leaves.
pub fn operation(kind: OperationKind) -> Operation {
    if kind == OperationKind::Scan { Operation::scan(20) } else { Operation::point(kind) }
}
