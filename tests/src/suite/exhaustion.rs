//! Full pools, and memory that is reused.

use super::operations::same;
use crate::client::{Client, alone};
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Cause, Effect, OperationKind, Outcome};
use std::collections::BTreeMap;

/// Keys of the `i`-th insert: ascending, descending, or spread.
const ORDERS: [fn(u64) -> u64; 3] = [|i| i, |i| 1_000_000 - i, |i| i * 7919 % 1_000_003];

/// Inserts until the pool is full; the model is what was acknowledged.
fn until_full(client: &mut Client<'_, '_>, order: fn(u64) -> u64) -> BTreeMap<u64, u32> {
    let mut model = BTreeMap::new();
    for i in 0..100_000 {
        let n = order(i);
        match client.run(OperationKind::Insert, n, i as u32, 0).result {
            Ok(outcome) => {
                assert_eq!(outcome, Outcome::Inserted);
                model.insert(n, i as u32);
            }
            Err(error) => {
                assert_eq!((error.cause, error.effect), (Cause::PoolFull, Effect::None), "key {n}");
                assert!(!client.lanes[0].in_doubt());
                return model;
            }
        }
    }
    panic!("a pool of a few chunks took 100,000 records");
}

/// On a full pool, inserts that need a node fail without effect. Everything else works: gets, scans, updates, deletes,
/// and inserts that find room. This holds whichever kind of node ran out first.
pub fn lives_on_when_the_pool_is_full(subject: &dyn Subject, fixture: &dyn Fixture) {
    let cases = (2..7).flat_map(|chunks| ORDERS.map(|order| (chunks, order)));
    for (chunks, order) in cases.step_by(fixture.stride() as usize) {
        let base = Setup { chunk_nodes: 128, ..Setup::new(Shape::words(2, 2)) };
        let chunk_bytes = base.chunk_bytes(subject) as usize;
        let taken = subject.chunks_besides_nodes(&base.spending, chunk_bytes);
        // The superblock, catalog and rows take less than 64 KiB.
        let setup = Setup { region_bytes: (64 << 10) + (taken + chunks) * chunk_bytes, ..base };
        alone(subject, fixture, &setup, |client| {
            let mut model = until_full(client, order);
            let expected: Vec<_> = model.iter().map(|(&n, &stamp)| (client.key(n), stamp)).collect();
            assert_eq!(client.everything(), expected, "{chunks} chunks");
            assert_eq!(client.validate().records, model.len() as u64);
            let keys: Vec<u64> = model.keys().copied().collect();
            let mut deleted = None;
            for (i, n) in (0..).zip(keys) {
                assert_eq!(client.get(n), Some(model[&n]), "{chunks} chunks: key {n}");
                match client.run(OperationKind::Update, n, i, 0).result {
                    Ok(outcome) => {
                        assert_eq!(outcome, Outcome::Updated);
                        model.insert(n, i);
                    }
                    Err(error) => {
                        assert!(subject.updates_take_memory(), "{error}");
                        assert_eq!((error.cause, error.effect), (Cause::PoolFull, Effect::None), "key {n}");
                        assert_eq!(client.get(n), Some(model[&n]), "it is as it was");
                    }
                }
                if i % 4 != 0 {
                    assert_eq!(client.ask(OperationKind::Delete, n, 0, 0).0, Outcome::Deleted);
                    model.remove(&n);
                    deleted = Some(n);
                }
            }
            assert_eq!(client.validate().records, model.len() as u64);
            client.assert_quiet("on a full pool");
            let deleted = deleted.expect("three of four records were deleted");
            let again = if subject.reuses_for_any_key() { order(100_001) } else { deleted };
            match client.run(OperationKind::Upsert, again, 7, 0).result {
                Ok(outcome) => {
                    assert_eq!(outcome, Outcome::Inserted);
                    model.insert(again, 7);
                    assert_eq!(client.get(again), Some(7));
                }
                // Layers may stay when their keys are deleted, and take the memory that was freed.
                Err(error) => {
                    assert!(subject.updates_take_memory(), "{error}");
                    assert_eq!((error.cause, error.effect), (Cause::PoolFull, Effect::None));
                }
            }
            for n in model.keys().copied().collect::<Vec<_>>() {
                client.ask(OperationKind::Delete, n, 0, 0);
            }
            assert_eq!(client.validate().records, 0);
        });
    }
}

/// Inserting and deleting the same keys over and over takes no more memory than once.
pub fn memory_comes_back(subject: &dyn Subject, fixture: &dyn Fixture) {
    let setup = Setup { region_bytes: 192 << 10, ..Setup::new(Shape::words(2, 3)) };
    alone(subject, fixture, &setup, |client| {
        // Seventy rounds: more than there are generations.
        for round in 0..70u32 {
            let mut model = BTreeMap::new();
            for i in 0..100 {
                let n = i * 37 % 101;
                client.ask(OperationKind::Insert, n, round, 0);
                model.insert(n, round);
            }
            same(client, &model);
            for i in 0..100 {
                let n = i * 73 % 101;
                client.ask(OperationKind::Delete, n, 0, 0);
                model.remove(&n);
            }
            for n in model.into_keys() {
                client.ask(OperationKind::Delete, n, 0, 0);
            }
            assert_eq!(client.validate().records, 0);
        }
        client.assert_quiet("after seventy lives");
    });
}
