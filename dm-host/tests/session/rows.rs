//! Sessions that share one row of the pool.

use crate::session_support::options;
use dm_core::registry::KINDS;
use dm_core::remote::row::RowState;
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::Membership;
use dm_host::pool::{EmbeddedOptions, InUse};
use dm_host::prelude::*;
use dm_host::repair::RepairError;
use dm_host::repair::members::{members, with_read_access};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

const INDEXES: usize = 10;

fn pool() -> Arc<Pool> {
    let options = EmbeddedOptions {
        memory_nodes: 2,
        chunk_bytes: 256 << 10,
        // Few, so that nodes of different indexes share locks.
        locks: 61,
        ..EmbeddedOptions::new(48 << 20)
    };
    Pool::embedded_with(&options).unwrap()
}

fn small() -> SessionOptions {
    let mut options = SessionOptions { local_handles: 1, ..options(1, 2) };
    options.spending.page_cache_bytes = 4 << 20;
    options
}

/// How many rows are taken.
fn rows(pool: &Pool) -> usize {
    let rows = with_read_access(pool, |fabric, lane| members(pool, fabric, lane));
    let rows = rows.unwrap_or_else(|error: RepairError| panic!("{error}"));
    rows.iter().filter(|row| row.state != RowState::Free).count()
}

/// The kind of index `n`: all of them in turn, but one of those with a log, of which a row has one.
fn kind(n: usize) -> IndexKind {
    let logs: Vec<_> = KINDS.iter().copied().filter(|kind| kind.name() == "dex").collect();
    let others: Vec<_> = KINDS.iter().copied().filter(|kind| !logs.contains(kind)).collect();
    logs.get(n).copied().unwrap_or(others[n % others.len()])
}

fn open(pool: &Arc<Pool>, n: usize, options: &SessionOptions) -> Result<Table<u64, u64>, OpenError> {
    let mut index = IndexOptions::new().kind(kind(n));
    // Those above the first of each kind.
    if n >= KINDS.len() {
        index = index.any_length(16, 100);
    }
    Table::open_with(pool, &format!("index {n}"), &index, options)
}

#[test]
fn ten_indexes_of_all_kinds_take_one_row() {
    let pool = pool();
    let mut options = small();
    // The pool has no index yet whose nodes would say how large redo slots have to be.
    let sizes: Vec<_> = (0..INDEXES)
        .map(|n| IndexOptions::new().kind(kind(n)).fixed_bytes(8, 8).parameters().unwrap())
        .chain([IndexOptions::new().any_length(16, 100).parameters().unwrap()])
        .collect();
    options.row = Some(SharedRow::join_for(&pool, INDEXES, &options, &sizes).unwrap());
    let tables: Vec<_> =
        (0..INDEXES).map(|n| open(&pool, n, &options).unwrap_or_else(|e| panic!("{n}: {e}"))).collect();
    assert_eq!(rows(&pool), 1);
    assert!(matches!(open(&pool, INDEXES, &options), Err(OpenError::RowFull { sessions: INDEXES })));
    // Two threads work with all indexes, one by workers and one by itself; others write, so that locks are contended.
    thread::scope(|scope| {
        for (n, table) in tables.iter().enumerate() {
            scope.spawn(move || {
                let table = table.local().unwrap();
                for put in table.multi_put((0..600).map(|k: u64| (k.reverse_bits(), k + n as u64))) {
                    assert_eq!(put, Ok(Upsert::Inserted));
                }
            });
        }
        scope.spawn(|| {
            for k in 600..900_u64 {
                for (n, table) in tables.iter().enumerate() {
                    assert_eq!(table.upsert(k.reverse_bits(), k + n as u64).wait(), Ok(Upsert::Inserted), "index {n}");
                }
            }
        });
    });
    for (n, table) in tables.iter().enumerate() {
        assert_eq!(table.session().validate().unwrap().records, 900, "index {n}");
        for k in [0, 599, 600, 899_u64] {
            assert_eq!(table.get(k.reverse_bits()).wait(), Ok(Some(k + n as u64)), "index {n}");
        }
    }
    assert_eq!(rows(&pool), 1);
    let row = tables[0].session().member();
    assert!(tables.iter().all(|table| table.session().member() == row));
    drop(tables);
    assert_eq!(rows(&pool), 1, "the handle has it");
    drop(options);
    assert_eq!(rows(&pool), 0);
}

#[test]
fn an_index_that_a_row_has_closed_is_dropped_and_one_that_it_has_open_is_not() {
    let pool = pool();
    let other = Membership::default();
    let mut options = small();
    options.row = Some(SharedRow::join(&pool, 2, &options).unwrap());
    let names = ["first", "second"];
    let open = |name| Table::<u64, u64>::open_with(&pool, name, &IndexOptions::new(), &options);
    let [first, second] = names.map(|name| open(name).unwrap());
    let row = first.session().member().row.0;
    for table in [&first, &second] {
        assert!(table.local().unwrap().multi_put((0..300).map(|n| (n, n))).iter().all(Result::is_ok));
    }
    let refused = open("first").unwrap_err();
    assert!(matches!(refused, OpenError::RowFull { sessions: 2 }), "{refused}");
    let node = pool.join(1, other).unwrap();
    let in_use = |name| matches!(node.drop_index(name), Err(PoolError::InUse { row: user, why: InUse::Open, .. }) if user == row);
    assert!(names.iter().all(|name| in_use(name)));
    first.close();
    assert!(in_use("second"));
    node.drop_index("first").unwrap();
    assert_eq!(second.count(..), Ok(300));
    // Its place is free, and an index that is open is not opened again.
    let refused = open("second").unwrap_err();
    assert!(matches!(refused, OpenError::Assembly(AssemblyError::AlreadyOpen { .. })), "{refused}");
    let first = open("first").unwrap();
    assert_eq!(first.count(..), Ok(0));
    // Closed and opened again: what it has been granted stays its own, and it is granted more.
    let mut records = 300;
    second.close();
    for _ in 0..5 {
        let second = open("second").unwrap();
        assert_eq!(second.count(..), Ok(records));
        assert!(second.local().unwrap().multi_put((records..records + 2000).map(|n| (n, n))).iter().all(Result::is_ok));
        records += 2000;
        assert_eq!(second.session().validate().unwrap().records, records);
        second.close();
    }
    assert_eq!(first.session().validate().unwrap().records, 0);
}

#[test]
fn a_row_has_one_log_and_lanes_for_its_sessions() {
    let pool = pool();
    let mut options = small();
    options.row = Some(SharedRow::join(&pool, 3, &options).unwrap());
    let more = SessionOptions { workers: 4, ..options.clone() };
    let refused = Table::<u64, u64>::open(&pool, "wide").and_then(|table| {
        table.close();
        Table::<u64, u64>::open_with(&pool, "wide", &IndexOptions::new(), &more)
    });
    assert!(matches!(refused, Err(OpenError::Option { given: 11, max: 7, .. })), "{:?}", refused.err());
    let elsewhere = self::pool();
    let refused = Table::<u64, u64>::open_with(&elsewhere, "wide", &IndexOptions::new(), &options);
    assert!(matches!(refused, Err(OpenError::OtherPool)));
    if let Some(&kind) = KINDS.iter().find(|kind| kind.name() == "dex") {
        let index = IndexOptions::new().kind(kind);
        let first = Table::<u64, u64>::open_with(&pool, "a log", &index, &options).unwrap();
        first.insert(1, 1).wait().unwrap();
        let second = Table::<u64, u64>::open_with(&pool, "another", &index, &options).unwrap_err();
        assert!(matches!(second, OpenError::Assembly(AssemblyError::SecondLog { .. })), "{second}");
        assert_eq!(first.get(1).wait(), Ok(Some(1)));
    }
}

/// Layers are numbered by the compute node, not by one opening of an index: else links of two openings would lead to one
/// layer.
#[test]
fn layers_of_two_openings_under_one_row_are_different_ones() {
    for &kind in KINDS.iter().filter(|kind| kind.name() != "dex") {
        let pool = pool();
        let mut options = small();
        let index = IndexOptions::new().kind(kind).any_length(200, 100);
        let sizes = [index.parameters().unwrap()];
        options.row = Some(SharedRow::join_for(&pool, 2, &options, &sizes).unwrap());
        let open = |name| Table::<&str, &str>::open_with(&pool, name, &index, &options).unwrap();
        // An index beside it has layers of the same compute node.
        let beside = open("beside");
        let mut model = BTreeMap::new();
        for opening in 0..3 {
            let table = open("names");
            for group in 0..8 {
                for name in ["first", "second", "third"] {
                    // More than a slice that all names of a group share, and what follows is the same in no other group.
                    let key = format!("{opening}/{group}/{:60}{name} of {opening}/{group}", "shared");
                    let value = format!("value of {key}");
                    assert_eq!(table.insert(key.as_str(), value.as_str()).wait(), Ok(Insert::Inserted), "{key}");
                    assert_eq!(beside.upsert(key.as_str(), "beside").wait(), Ok(Upsert::Inserted), "{key}");
                    model.insert(key, value);
                }
            }
            for (key, value) in &model {
                assert_eq!(table.get(key.as_str()).wait().as_ref(), Ok(&Some(value.clone())), "{}", kind.name());
            }
            let found: BTreeMap<_, _> = table.range(..).map(Result::unwrap).collect();
            assert!(found == model, "{}: opening {opening}: {} records", kind.name(), found.len());
            assert_eq!(table.session().validate().unwrap().records, model.len() as u64, "{}", kind.name());
            table.close();
        }
        assert_eq!(beside.count(..), Ok(model.len() as u64));
    }
}
