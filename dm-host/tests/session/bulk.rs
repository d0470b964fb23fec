//! Bulk loads of new indexes.

use crate::session_support::{options, pool_here};
use dm_core::registry::KINDS;
use dm_host::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn options_of(kind: IndexKind, any_length: bool) -> IndexOptions {
    let index = IndexOptions::new().kind(kind);
    if any_length { index.any_length(100, 200) } else { index.fixed_bytes(16, 16) }
}

fn none_is_left(pool: &Pool) {
    assert!(pool.indexes().unwrap().is_empty());
}

#[test]
fn what_is_loaded_is_there_and_can_be_changed() {
    for &kind in KINDS {
        for (any_length, checksums) in [(false, false), (true, false), (false, true), (true, true)] {
            let pool = pool_here(2);
            let index = options_of(kind, any_length);
            let index = if checksums { index.checksums() } else { index };
            let name = |n: u32| format!("name {n:05}");
            let records: Vec<_> = (0..3000).map(|n| (name(n), format!("value {n}"))).collect();
            let slices = records.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            assert_eq!(Table::<&str, &str>::bulk_load(&pool, "names", &index, slices).unwrap(), 3000);
            let names = Table::<&str, &str>::open_with(&pool, "names", &index, &options(1, 4)).unwrap();
            assert_eq!(names.session().validate().unwrap().records, 3000);
            let found: Vec<_> = names.range(..).collect::<Result<_, _>>().unwrap();
            assert_eq!(found, records);
            assert_eq!(names.insert(&name(1700), "other").wait(), Ok(Insert::Exists("value 1700".to_owned())));
            assert_eq!(names.delete(&name(2)).wait(), Ok(Delete::Deleted));
            assert_eq!(names.upsert("name 00002b", "between").wait(), Ok(Upsert::Inserted));
            assert_eq!(names.count(..), Ok(3000));
        }
    }
}

#[test]
fn a_load_that_fails_leaves_no_index() {
    for (kind, any_length) in [(IndexKind::Sherman, false), (IndexKind::Smart, false), (IndexKind::Chime, true)] {
        let pool = pool_here(1);
        let index = options_of(kind, any_length);
        let load = |records: &[(&str, &str)]| {
            Table::<&str, &str>::bulk_load(&pool, "names", &index, records.iter().copied()).unwrap_err()
        };
        let order = load(&[("a", "1"), ("c", "2"), ("b", "3")]);
        assert!(matches!(order, LoadError::Order { position: 2 }), "{order}");
        none_is_left(&pool);
        assert!(matches!(load(&[("a", "1"), ("a", "2")]), LoadError::Order { position: 1 }));
        none_is_left(&pool);
        let long = "x".repeat(101);
        let refused = load(&[("a", "1"), (&long, "2")]);
        assert!(
            matches!(refused, LoadError::Record { position: 1, source: SessionError::KeyTooLong { .. } }),
            "{refused}"
        );
        none_is_left(&pool);
        // What brings the records may panic.
        let records = (0..500_u64).map(|n| if n < 400 { (n, n) } else { panic!("no more of them") });
        let load = || Table::<u64, u64>::bulk_load(&pool, "names", &index, records);
        assert!(catch_unwind(AssertUnwindSafe(load)).is_err());
        none_is_left(&pool);
        // The name and the memory are free.
        let records = (0..500_u64).map(|n| (n, n));
        assert_eq!(Table::<u64, u64>::bulk_load(&pool, "names", &index, records).unwrap(), 500);
    }
}

#[test]
fn an_index_that_exists_is_left_alone() {
    let pool = pool_here(1);
    let index = IndexOptions::new();
    let load = |pool: &Arc<Pool>, records: &[(u64, u64)]| {
        Table::<u64, u64>::bulk_load(pool, "numbers", &index, records.iter().copied())
    };
    assert_eq!(load(&pool, &[]).unwrap(), 0, "an empty index");
    let numbers = Table::<u64, u64>::open_with(&pool, "numbers", &index, &options(1, 4)).unwrap();
    assert_eq!(numbers.insert(1, 1).wait(), Ok(Insert::Inserted));
    let refused = load(&pool, &[(2, 2)]).unwrap_err();
    assert!(matches!(refused, LoadError::Pool(PoolError::Catalog(_))), "{refused}");
    assert_eq!(numbers.get(1).wait(), Ok(Some(1)));
    assert_eq!(numbers.count(..), Ok(1));
}
