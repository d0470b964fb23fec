//! Every operation, every outcome, every technique.

use crate::client::{Client, alone};
use crate::oracle::{POINT, answer};
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Cause, Effect, Operation, OperationKind, Outcome};
use std::collections::BTreeMap;

/// Setups that differ in the requests of an operation.
pub fn setups(subject: &dyn Subject, fixture: &dyn Fixture) -> Vec<(String, Setup)> {
    let mut setups = Vec::new();
    for (name, options) in fixture.switches(subject) {
        for device in [true, false] {
            let place = if device { "device" } else { "host" };
            let small = Setup { device, ..Setup::new(Shape::words(2, 2)).on(2).switched(options) };
            setups.push((format!("{name}, locks in {place} memory"), small));
        }
    }
    let long = Shape { key_bytes: 64, value_bytes: 1024, spans: (3, 3) };
    setups.push(("long keys and values".to_owned(), Setup { chunk_nodes: 8, ..Setup::new(long) }));
    let mut blind = Setup::new(Shape::words(3, 2));
    blind.spending.cache_bytes = 0;
    setups.push(("no cache".to_owned(), blind));
    setups.push(("one lock word for all".to_owned(), Setup { locks: 1, ..Setup::new(Shape::words(2, 2)) }));
    setups
}

/// Every point operation on absent and on present keys, on an empty index and on one of several levels.
pub fn every_outcome(subject: &dyn Subject, fixture: &dyn Fixture) {
    for (name, setup) in setups(subject, fixture) {
        println!("{} on {}: {name}", subject.name(), fixture.name());
        alone(subject, fixture, &setup, |client| {
            let mut model = BTreeMap::new();
            // An empty index: nothing is there, scans end at once, a walk finds nothing.
            for kind in POINT {
                if !matches!(kind, OperationKind::Insert | OperationKind::Upsert) {
                    assert_eq!(client.ask(kind, 5, 1, 1), (Outcome::Absent, None), "{kind:?}");
                }
            }
            assert_eq!(client.everything(), []);
            assert_eq!(client.validate().records, 0);
            for round in 0..60u32 {
                let n = u64::from(round * 7 % 40);
                for (i, kind) in (0..).zip(POINT) {
                    let new = round * 100 + i;
                    // Every second time what update_if expects is what is there.
                    let before = model.get(&n).copied();
                    let expected = if round % 2 == 0 { before.unwrap_or(1) } else { 77 };
                    let right = answer(kind, before, new, expected);
                    client.expect(kind, n, new, expected, &right);
                    match right.after {
                        Some(stamp) => model.insert(n, stamp),
                        None => model.remove(&n),
                    };
                }
                // Deletes come last in the table; two of three keys come back, and so do the ends of the key space.
                let again = if round % 3 == 0 { None } else { Some(n) };
                for n in again.into_iter().chain((round % 10 == 0).then_some([0, u64::MAX]).into_iter().flatten()) {
                    client.put(n, round);
                    model.insert(n, round);
                }
            }
            same(client, &model);
            client.assert_quiet("after every operation");
        });
    }
}

/// The index holds what the model holds, and is in order.
pub fn same(client: &mut Client<'_, '_>, model: &BTreeMap<u64, u32>) {
    let mut expected: Vec<(Vec<u8>, u32)> = model.iter().map(|(&n, &stamp)| (client.key(n), stamp)).collect();
    // Longer keys do not sort as their numbers do.
    expected.sort();
    assert_eq!(client.everything(), expected);
    let census = client.validate();
    assert_eq!((census.records, census.half_splits), (model.len() as u64, 0), "{census:?}");
}

/// Wrong arguments are reported, and nothing changes.
pub fn errors_name_what_is_wrong(subject: &dyn Subject, fixture: &dyn Fixture) {
    let setup = Setup::new(Shape::words(4, 4));
    alone(subject, fixture, &setup, |client| {
        assert_eq!(client.page(Operation::scan(0), &[0; 8], &[0; 8]).0, [], "no records were wanted");
        client.put(1, 1);
        let refused = client.bulk_append(2, 2).expect_err("the index is not empty");
        assert!(matches!(refused.cause, Cause::BadInput(_)) && refused.effect == Effect::None, "{refused}");
        assert_eq!(client.get(2), None);
        client.assert_quiet("after refusals");
    });
    let test_bed = fixture.test_bed(subject, &setup);
    for (wrong, what) in subject.bad_sizes().into_iter().chain(subject.bad_spans()) {
        let refused =
            subject.open(&test_bed.place(0), &wrong, &setup.spending, &mut |_| panic!("opened with {wrong:?}"));
        let text = refused.expect_err("parameters out of range").to_string();
        assert!(text.contains(what), "{text}");
    }
    let mut spending = setup.spending.clone();
    spending.scratch_bytes_max = 100;
    let refused = subject.open(&test_bed.place(0), &setup.shape, &spending, &mut |_| panic!("opened without scratch"));
    let text = refused.expect_err("a budget of 100 bytes").to_string();
    assert!(text.contains("100"), "{text}");
}
