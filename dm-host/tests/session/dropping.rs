//! Dropping indexes, and making them empty.

use crate::session_support::{options, pool_here};
use dm_core::index::catalog;
use dm_core::registry::KINDS;
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::Membership;
use dm_host::pool::InUse;
use dm_host::prelude::*;
use dm_host::solo::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn open(pool: &Arc<Pool>, name: &str, index: &IndexOptions) -> Result<Table<u64, u64>, OpenError> {
    Table::open_with(pool, name, index, &SessionOptions { local_handles: 1, ..options(1, 2) })
}

fn fill(table: &Table<u64, u64>, records: u64) {
    let put = table.local().unwrap().multi_put((0..records).map(|n| (n.reverse_bits(), n)));
    for put in put {
        assert_eq!(put, Ok(Upsert::Inserted));
    }
    assert_eq!(table.count(..), Ok(records));
}

#[test]
fn the_memory_of_a_dropped_index_is_free_and_as_new() {
    let pool = pool_here(2);
    let kept = open(&pool, "kept", &IndexOptions::new()).unwrap();
    fill(&kept, 1000);
    let node = pool.join(1, Membership::default()).unwrap();
    // Eight rounds of what is more than a third of the pool, and of any kind in the memory of another one.
    for round in 0..8 {
        let kind = KINDS[round % KINDS.len()];
        let mut index = IndexOptions::new().kind(kind);
        if round >= 4 {
            index = index.any_length(16, 100);
        }
        let table = open(&pool, "passing", &index).unwrap();
        fill(&table, 30_000);
        table.close();
        node.drop_index("passing").unwrap();
        assert!(matches!(pool.find_index("passing"), Err(PoolError::NoIndex { .. })));
        assert!(matches!(node.drop_index("passing"), Err(PoolError::NoIndex { .. })));
    }
    assert_eq!(kept.session().validate().unwrap().records, 1000);
    assert_eq!(pool.indexes().unwrap().len(), 1);
}

#[test]
fn a_pool_lists_renames_empties_and_drops_its_indexes() {
    let pool = pool_here(1);
    let table = open(&pool, "old", &IndexOptions::new()).unwrap();
    fill(&table, 100);
    assert!(matches!(pool.drop_index("old"), Err(PoolError::InUse { .. })));
    assert!(matches!(pool.truncate_index("old"), Err(PoolError::InUse { .. })));
    pool.rename_index("old", "new").unwrap();
    assert_eq!(table.count(..), Ok(100), "it goes on under another name");
    table.close();
    pool.truncate_index("new").unwrap();
    let names: Vec<_> = pool.indexes().unwrap().iter().map(|index| index.name().to_owned()).collect();
    assert_eq!(names, ["new"]);
    let table = open(&pool, "new", &IndexOptions::new()).unwrap();
    assert_eq!(table.count(..), Ok(0));
    table.close();
    pool.drop_index("new").unwrap();
    assert!(pool.indexes().unwrap().is_empty());
    assert!(matches!(pool.drop_index("new"), Err(PoolError::NoIndex { .. })));
}

#[test]
fn an_open_index_is_not_dropped() {
    let pool = pool_here(1);
    let node = pool.join(1, Membership::default()).unwrap();
    let table = open(&pool, "open", &IndexOptions::new()).unwrap();
    fill(&table, 500);
    let row = table.session().member().row.0;
    for _ in 0..3 {
        match node.drop_index("open") {
            Err(PoolError::InUse { name, row: user, why: InUse::Open }) => assert_eq!((&*name, user), ("open", row)),
            other => panic!("{other:?}"),
        }
        assert!(matches!(node.truncate_index("open"), Err(PoolError::InUse { .. })));
    }
    assert_eq!(table.session().validate().unwrap().records, 500);
    // Whoever has another index open is not in the way.
    let other = open(&pool, "other", &IndexOptions::new()).unwrap();
    table.close();
    node.drop_index("open").unwrap();
    fill(&other, 500);
}

#[test]
fn a_truncated_index_keeps_its_kind_and_sizes() {
    let pool = pool_here(1);
    let node = pool.join(1, Membership::default()).unwrap();
    for &kind in KINDS {
        let index = IndexOptions::new().kind(kind).any_length(30, 50);
        let table = open(&pool, kind.name(), &index).unwrap();
        fill(&table, 300);
        table.close();
        let before = pool.find_index(kind.name()).unwrap().1;
        node.truncate_index(kind.name()).unwrap();
        assert_eq!(pool.find_index(kind.name()).unwrap().1, before);
        let again = open(&pool, kind.name(), &index).unwrap();
        assert_eq!(again.count(..), Ok(0));
        fill(&again, 300);
    }
}

#[test]
fn what_a_departed_node_began_to_drop_the_next_drop_finishes() {
    let pool = pool_here(1);
    for name in ["begun", "other"] {
        let table = open(&pool, name, &IndexOptions::new()).unwrap();
        fill(&table, 100);
        table.close();
    }
    let begin = |node: &dm_host::compute_node::ComputeNode| {
        let number = pool.find_index("begun").unwrap().0.number;
        let by = (node.member(), 1);
        let begun = pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::drop_index(lane, &pool.geometry()[0], number, by, 0))
        });
        assert!(begun.unwrap().unwrap().is_some());
        number
    };
    let (first, second) = (pool.join(1, Membership::default()).unwrap(), pool.join(1, Membership::default()).unwrap());
    let number = begin(&first);
    // The first one lives, so it may go on by itself.
    second.drop_index("other").unwrap();
    let dropped = || {
        let mut numbers = Vec::new();
        pool.with_lane(|fabric, lane| {
            let mut visit = |entry: &dm_core::remote::catalog::IndexEntry, _| numbers.push(entry.number);
            block_on(fabric, lane, catalog::list_dropped(lane, &pool.geometry()[0], 0, &mut visit))
        })
        .unwrap()
        .unwrap();
        numbers
    };
    assert_eq!(dropped(), [number]);
    drop(first);
    assert!(matches!(second.drop_index("other"), Err(PoolError::NoIndex { .. })));
    assert_eq!(dropped(), []);
    assert_eq!(pool.indexes().unwrap(), []);
}

#[test]
fn an_index_that_is_opened_and_dropped_at_once_is_either_whole_or_gone() {
    let pool = pool_here(1);
    let (opened, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    let index = IndexOptions::new();
    // Until a drop met a closed index, too: on a busy machine all of the first may meet an open one.
    let goes_on = || {
        let opened = opened.load(Ordering::Relaxed);
        opened < 60 || opened < 6000 && dropped.load(Ordering::Relaxed) == 0
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let node = pool.join(1, Membership::default()).unwrap();
                while goes_on() {
                    match node.drop_index("contended") {
                        Ok(()) => drop(dropped.fetch_add(1, Ordering::Relaxed)),
                        Err(PoolError::InUse { .. } | PoolError::NoIndex { .. }) => thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for me in 0..2 {
            let (pool, opened, index, goes_on) = (&pool, &opened, &index, &goes_on);
            scope.spawn(move || {
                while goes_on() {
                    let table = match open(pool, "contended", index) {
                        Ok(table) => table,
                        Err(
                            OpenError::Assembly(AssemblyError::Dropped { .. })
                            | OpenError::Pool(PoolError::NoIndex { .. }),
                        ) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    // Nobody erases what is open: every record is there until it is closed.
                    for n in 0..100 {
                        table.upsert(me * 1000 + n, n).wait().unwrap();
                    }
                    for n in 0..100 {
                        assert_eq!(table.get(me * 1000 + n).wait(), Ok(Some(n)));
                    }
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(dropped.load(Ordering::Relaxed) > 0, "no drop met a closed index");
}
