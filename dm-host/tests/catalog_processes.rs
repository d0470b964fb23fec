//! The catalog of a pool whose memory nodes are processes: hundreds of indexes, other names, drops. Each connection is
//! one of its own, as that of another process would be.

use dm_core::remote::catalog::INDEXES_MAX;
use dm_host::compute_node::Membership;
use dm_host::kinds::IndexParameters;
use dm_host::pool::InUse;
use dm_host::prelude::*;
use session_support::daemons::Daemons;
use session_support::options;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

mod session_support;

fn open(pool: &Arc<Pool>, name: &str, kind: IndexKind) -> Result<Table<u64, u64>, OpenError> {
    let options = SessionOptions { local_handles: 1, ..options(1, 2) };
    Table::open_with(pool, name, &IndexOptions::new().kind(kind), &options)
}

fn fill(table: &Table<u64, u64>, records: u64) {
    for put in table.local().unwrap().multi_put((0..records).map(|n| (n.reverse_bits(), n))) {
        put.unwrap();
    }
    assert_eq!(table.count(..), Ok(records));
}

fn names(pool: &Pool) -> BTreeSet<String> {
    let indexes = pool.indexes().unwrap();
    let names: BTreeSet<_> = indexes.iter().map(|entry| entry.name().to_owned()).collect();
    assert_eq!(names.len(), indexes.len(), "a name is that of one index");
    names
}

#[test]
fn a_pool_has_hundreds_of_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start_with(directory.path(), 2, &["--size", "48MiB", "--chunk-size", "16KiB"]);
    let pool = daemons.connect();
    let node = pool.join(1, Membership::default()).unwrap();
    let kinds = dm_core::registry::KINDS;
    let name = |n: usize| format!("index {n}");
    let parameters = |n: usize| -> IndexParameters {
        IndexOptions::new().kind(kinds[n % kinds.len()]).fixed_bytes(8, 8).parameters().unwrap()
    };
    for n in 0..INDEXES_MAX {
        node.create_index(&name(n), &parameters(n)).unwrap();
    }
    let full = node.create_index("one more", &parameters(0)).unwrap_err().to_string();
    assert_eq!(full, "the catalog is full: 255 indexes");
    assert_eq!(names(&pool).len(), INDEXES_MAX);
    // The numbers of the last ones need all bits of a chunk's entry and of a node's mark.
    let used: Vec<usize> = (0..INDEXES_MAX).filter(|n| n % 16 == 3 || *n > INDEXES_MAX - 9).collect();
    for &n in &used {
        let table = open(&pool, &name(n), kinds[n % kinds.len()]).unwrap();
        for key in 0..40 {
            table.insert(key, key + n as u64).wait().unwrap();
        }
    }
    for &n in &used {
        let table = open(&daemons.connect(), &name(n), kinds[n % kinds.len()]).unwrap();
        for key in 0..40 {
            assert_eq!(table.get(key).wait(), Ok(Some(key + n as u64)), "index {n}");
        }
        assert_eq!(table.session().validate().unwrap().records, 40);
    }
    for n in (0..INDEXES_MAX).filter(|n| n % 2 == 0) {
        node.drop_index(&name(n)).unwrap();
    }
    let left: BTreeSet<_> = (0..INDEXES_MAX).filter(|n| n % 2 == 1).map(name).collect();
    assert_eq!(names(&pool), left);
    for n in used.into_iter().filter(|n| n % 2 == 1) {
        assert_eq!(open(&pool, &name(n), kinds[n % kinds.len()]).unwrap().count(..), Ok(40));
    }
    // Their entries are free again.
    node.create_index("one more", &parameters(0)).unwrap();
}

#[test]
fn an_index_is_renamed_while_others_use_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start(directory.path(), 2, "sequence");
    let (pool, elsewhere) = (daemons.connect(), daemons.connect());
    let table = open(&pool, "before", IndexKind::Sherman).unwrap();
    open(&pool, "taken", IndexKind::Sherman).unwrap().close();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                table.upsert(n, n).wait().unwrap();
                assert_eq!(table.get(n).wait(), Ok(Some(n)));
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            // A look for the names in the order in which they are given finds the index at one of them.
            let others = daemons.connect();
            while !done.load(Ordering::Relaxed) {
                let found = ["before", "between", "after"].map(|name| others.find_index(name).is_ok());
                assert!(found.contains(&true), "{found:?}");
                assert_eq!(names(&others).len(), 2);
            }
        });
        for (from, to) in [("before", "between"), ("between", "after")] {
            elsewhere.rename_index(from, to).unwrap();
            assert!(matches!(elsewhere.rename_index(from, to), Err(PoolError::NoIndex { .. })));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(names(&pool), BTreeSet::from(["after".to_owned(), "taken".to_owned()]));
    assert!(matches!(elsewhere.rename_index("after", "taken"), Err(PoolError::Catalog(_))));
    for name in ["", "x\ny", "x".repeat(48).as_str()] {
        for (from, to) in [("after", name), (name, "other")] {
            assert!(matches!(elsewhere.rename_index(from, to), Err(PoolError::IndexName { .. })), "{name:?}");
        }
    }
    let records = table.count(..).unwrap();
    table.close();
    assert_eq!(open(&elsewhere, "after", IndexKind::Sherman).unwrap().count(..), Ok(records));
    // The longest name there can be.
    elsewhere.rename_index("after", &"x".repeat(47)).unwrap();
    assert_eq!(names(&pool).len(), 2);
}

#[test]
fn names_are_given_and_taken_by_many_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start(directory.path(), 1, "sequence");
    let pool = daemons.connect();
    let node = pool.join(1, Membership::default()).unwrap();
    let parameters = IndexOptions::new().fixed_bytes(8, 8).parameters().unwrap();
    let all = ["a", "b", "c", "d"];
    for name in &all[..3] {
        node.create_index(name, &parameters).unwrap();
    }
    let renamed: usize = thread::scope(|scope| {
        let work = |me: usize| {
            let pool = daemons.connect();
            let node = pool.join(1, Membership::default()).unwrap();
            let mut renamed = 0;
            for turn in 0..40 {
                let (from, to) = (all[(turn + me) % 4], all[(turn * 3 + me + 1) % 4]);
                match node.rename_index(from, to) {
                    Ok(()) => renamed += 1,
                    Err(PoolError::NoIndex { .. } | PoolError::Catalog(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                // A list is not of one instant: an index may be listed by the name that another one had before.
                assert_eq!(pool.indexes().unwrap().len(), 3);
            }
            renamed
        };
        let threads: Vec<_> = (0..3).map(|me| scope.spawn(move || work(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(renamed > 0);
    assert_eq!(names(&pool).len(), 3);
}

#[test]
fn an_index_that_another_process_has_open_is_neither_dropped_nor_emptied() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start(directory.path(), 2, "sequence");
    let (here, there) = (daemons.connect(), daemons.connect());
    let node = here.join(1, Membership::default()).unwrap();
    for &kind in dm_core::registry::KINDS {
        let table = open(&there, kind.name(), kind).unwrap();
        fill(&table, 500);
        let row = table.session().member().row.0;
        for refused in [node.drop_index(kind.name()), node.truncate_index(kind.name())] {
            match refused {
                Err(PoolError::InUse { name, row: user, why: InUse::Open }) => {
                    assert_eq!((&*name, user), (kind.name(), row));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(table.session().validate().unwrap().records, 500);
        table.close();
        node.truncate_index(kind.name()).unwrap();
        let again = open(&there, kind.name(), kind).unwrap();
        assert_eq!(again.count(..), Ok(0));
        fill(&again, 100);
        again.close();
        node.drop_index(kind.name()).unwrap();
        assert!(matches!(there.find_index(kind.name()), Err(PoolError::NoIndex { .. })));
    }
    // Each round fills more than a third of the pool and drops the index. So a later round has to get the memory of
    // earlier ones, of whatever kind they were.
    for round in 0..6 {
        let kind = dm_core::registry::KINDS[round % dm_core::registry::KINDS.len()];
        let table = open(&there, "passing", kind).unwrap();
        fill(&table, 30_000);
        table.close();
        node.drop_index("passing").unwrap();
    }
    assert_eq!(names(&there), BTreeSet::new());
}
