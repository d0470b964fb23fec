//! Bulk loads.

use super::operations::same;
use crate::client::alone;
use crate::oracle::{POINT, answer};
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Cause, Effect, OperationKind};
use dm_sim::rng::Rng;
use std::collections::BTreeMap;

/// The records are visible after the load and not before. Leaves are about four fifths full. The index then works as
/// any other.
pub fn loads_what_ascends(subject: &dyn Subject, fixture: &dyn Fixture) {
    for (spans, count, nodes) in
        [((2, 2), 0, 1), ((2, 2), 1, 1), ((2, 2), 50, 2), ((5, 5), 700, 3), ((57, 61), 9_000, 1)]
    {
        let setup = Setup::new(Shape::words(spans.0, spans.1)).on(nodes);
        alone(subject, fixture, &setup, |client| {
            let mut model = BTreeMap::new();
            for n in 0..count {
                client.bulk_append(n * 3, n as u32).unwrap();
                model.insert(n * 3, n as u32);
            }
            client.bulk_finish().unwrap();
            same(client, &model);
            let census = client.validate();
            if count > 500 {
                let fill = census.records * 100 / census.slots;
                let (least, most) = subject.bulk_fill_percent();
                assert!((least..=most).contains(&fill), "{fill} % of the slots are used: {census:?}");
            }
            let mut rng = Rng::new(count);
            for stamp in 0..1_000 {
                let n = u64::from(rng.below(count as u32 * 3 + 10));
                let kind = POINT[rng.below(POINT.len() as u32) as usize];
                let right = answer(kind, model.get(&n).copied(), stamp, 0);
                client.expect(kind, n, stamp, 0, &right);
                match right.after {
                    Some(stamp) => model.insert(n, stamp),
                    None => model.remove(&n),
                };
            }
            same(client, &model);
            client.assert_quiet("after a bulk load and what followed");
        });
    }
}

/// Keys that do not ascend are refused one by one, and the load continues. An index that is not empty refuses all.
pub fn refuses_what_is_no_bulk_load(subject: &dyn Subject, fixture: &dyn Fixture) {
    alone(subject, fixture, &Setup::new(Shape::words(3, 3)), |client| {
        for n in [10u64, 20, 30] {
            client.bulk_append(n, n as u32).unwrap();
            for wrong in [n, n - 1, 0] {
                let refused = client.bulk_append(wrong, 0).expect_err("a key that does not ascend");
                assert!(matches!(refused.cause, Cause::BadInput(_)) && refused.effect == Effect::None, "{refused}");
            }
        }
        client.bulk_finish().unwrap();
        same(client, &BTreeMap::from([(10, 10), (20, 20), (30, 30)]));
        let refused = client.bulk_append(40, 40).expect_err("the index is not empty");
        assert!(matches!(refused.cause, Cause::BadInput(_)), "{refused}");
        client.bulk_finish().expect("nothing was loaded, so nothing is to be done");
        same(client, &BTreeMap::from([(10, 10), (20, 20), (30, 30)]));
    });
    // Another compute node inserts into the index meanwhile: the load fails as a whole, and says so.
    let setup = Setup::new(Shape::words(3, 3));
    let mut test_bed = fixture.test_bed(subject, &setup);
    crate::client::on_test_bed(subject, &mut test_bed, &setup, 0, &mut |client| {
        for n in 0..20u64 {
            client.bulk_append(n, n as u32).unwrap();
        }
        let lanes = [&client.lanes[1]];
        client.arguments(1, 100, 100, 0);
        let insert = client.index.execute(lanes[0], dm_core::operation::Operation::point(OperationKind::Insert));
        client.drive(1, insert).result.unwrap();
        let refused = client.bulk_finish().expect_err("the index is not empty any more");
        assert!(matches!(refused.cause, Cause::BadInput(_)) && refused.effect == Effect::None, "{refused}");
        same(client, &BTreeMap::from([(100, 100)]));
        client.assert_quiet("after a bulk load that lost");
    });
}

/// A bulk load that ran out of memory must not become visible in part. An append that failed once closed a leaf without
/// telling the level above. Finishing then made the tree begin at the next leaf.
pub fn a_bulk_load_that_failed_leaves_nothing(subject: &dyn Subject, fixture: &dyn Fixture) {
    let setup = Setup { region_bytes: 192 << 10, ..Setup::new(Shape::words(2, 2)) };
    alone(subject, fixture, &setup, |client| {
        let full = (0..100_000u64).find_map(|n| client.bulk_append(n, n as u32).err().map(|error| (n, error)));
        let (n, error) = full.expect("a pool of 192 KiB is full some time");
        assert_eq!((error.cause, error.effect), (Cause::PoolFull, Effect::None));
        client.bulk_append(n, 0).expect_err("the load has failed");
        client.bulk_finish().expect_err("the load has failed");
        assert_eq!(client.get(0), None);
        assert_eq!(client.everything(), []);
        client.assert_quiet("after a bulk load that failed");
        // Its memory is free again, at once where no epoch has to pass first.
        if subject.reuses_for_any_key() {
            for n in 0..100 {
                client.put(n, n as u32);
            }
            client.assert_quiet("after records in the memory of a bulk load that failed");
        }
    });
}

/// An index that cannot be bulk-loaded refuses each step of a load, empty or not, and nothing of it becomes visible.
pub fn refuses_every_bulk_load(subject: &dyn Subject, fixture: &dyn Fixture) {
    alone(subject, fixture, &Setup::new(Shape::words(3, 3)), |client| {
        let mut model = BTreeMap::new();
        for n in 0..20 {
            for refused in [client.bulk_append(100 + n, 7), client.bulk_finish()] {
                let refused = refused.expect_err("it cannot be bulk-loaded");
                assert!(matches!(refused.cause, Cause::BadInput(_)) && refused.effect == Effect::None, "{refused}");
            }
            same(client, &model);
            client.put(n, n as u32);
            model.insert(n, n as u32);
        }
        same(client, &model);
        client.assert_quiet("after bulk loads that were refused");
    });
}
