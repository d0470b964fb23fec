//! Indexes that store a checksum with each record. What the checksums find is tested where dumps are, and in `dm_host::checked`.

use crate::session_support::{options, pool_here};
use dm_core::registry::KINDS;
use dm_core::remote::catalog::{FEATURE_CHECKSUMS, FEATURE_ITEMS};
use dm_host::prelude::*;
use std::collections::BTreeMap;

fn refused(index: IndexOptions) -> String {
    index.parameters().unwrap_err().to_string()
}

#[test]
fn the_option_is_in_the_catalog_and_takes_four_bytes() {
    let pool = pool_here(1);
    let table =
        Table::<u64, u64>::open_with(&pool, "sealed", &IndexOptions::new().checksums(), &options(1, 1)).unwrap();
    assert_eq!((table.session().key_bytes(), table.session().value_bytes()), (8, 8));
    let entry = pool.find_index("sealed").unwrap().0;
    assert_eq!(entry.features.incompatible, FEATURE_CHECKSUMS);
    let other = Table::<u64, u64>::open_with(&pool, "sealed", &IndexOptions::new(), &options(1, 1)).unwrap_err();
    assert!(matches!(other, OpenError::Other { .. }) && other.to_string().contains("checksums of records"), "{other}");
    let any = IndexOptions::new().any_length(10, 0).checksums().parameters().unwrap();
    assert_eq!((any.features().incompatible, any.value_bytes()), (FEATURE_ITEMS | FEATURE_CHECKSUMS, 0));
    for &kind in KINDS {
        let index = IndexOptions::new().kind(kind).checksums();
        assert_eq!(index.fixed_bytes(8, 1020).parameters().unwrap().value_bytes(), 1020);
        assert!(refused(index.fixed_bytes(8, 1021)).contains("1021"), "{}", refused(index.fixed_bytes(8, 1021)));
        assert_eq!(index.any_length(8, 65_532).parameters().unwrap().value_bytes(), 65_532);
        assert!(refused(index.any_length(8, 65_533)).contains("65533"), "{}", refused(index.any_length(8, 65_533)));
        // Leaves keep their size: they have fewer entries.
        let (with, without) =
            (index.fixed_bytes(8, 8).parameters().unwrap(), IndexOptions::new().kind(kind).fixed_bytes(8, 8));
        let without = without.parameters().unwrap();
        assert!(
            with.leaf_span() <= without.leaf_span() && with.redo_bytes() <= without.redo_bytes().next_multiple_of(2048)
        );
    }
    // A value that has no room in one size any more has any length.
    let long = IndexOptions::new().checksums().parameters_of::<u64, [u8; 1022]>().unwrap();
    assert!(long.any_length.is_some() && long.value_bytes() >= 1022);
}

#[test]
fn what_is_stored_is_found_both_ways_and_by_many_at_once() {
    for &kind in KINDS {
        for index in [IndexOptions::new().fixed_bytes(8, 8), IndexOptions::new().any_length(8, 300)] {
            let pool = pool_here(2);
            let index = index.kind(kind).checksums();
            let table = Table::<u64, &[u8]>::open_with(&pool, "sealed", &index, &options(2, 4)).unwrap();
            let long = table.session().have_lengths();
            let value = |n: u64| if long { vec![n as u8; (n % 290) as usize] } else { vec![n as u8; (n % 8) as usize] };
            let mut model: BTreeMap<_, _> = (0..1500).map(|n| (n * 7 % 1501, value(n))).collect();
            let records: Vec<_> = model.iter().map(|(key, value)| (*key, value.as_slice())).collect();
            assert!(table.multi_put(records).wait().into_iter().all(|put| put.is_ok()));
            for key in (0..1501).step_by(5) {
                assert_eq!(table.update(key, b"other").wait().unwrap() == Update::Updated, model.contains_key(&key));
                model.entry(key).and_modify(|value| *value = b"other".to_vec());
            }
            let got = table.multi_get(0..1501).wait();
            assert!(
                got.into_iter().zip(0..1501).all(|(got, key)| got.unwrap().as_ref() == model.get(&key)),
                "{kind:?}"
            );
            let found: Vec<_> = table.range(..).collect::<Result<_, _>>().unwrap();
            assert!(found.iter().map(|(key, value)| (key, value)).eq(&model), "{kind:?}");
            let mut last: Vec<_> = table.range(..).rev().collect::<Result<_, _>>().unwrap();
            last.reverse();
            assert_eq!(last, found);
        }
    }
}
