//! Tables: typed keys and values.

use crate::session_support::{block_on, options, pool_here};
use dm_core::registry::KINDS;
use dm_host::prelude::*;
use futures_core::Stream as _;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

fn open<K: Key, V: Value>(pool: &Arc<Pool>, name: &str, index: IndexOptions) -> Table<K, V> {
    Table::open_with(pool, name, &index, &options(1, 4)).unwrap()
}

#[test]
fn every_operation_answers_in_the_types_of_the_table() {
    let pool = pool_here(1);
    for &kind in KINDS {
        let table: Table<i32, &str> = open(&pool, kind.name(), IndexOptions::new().kind(kind));
        assert_eq!(table.get(-1).wait(), Ok(None));
        assert_eq!(table.first().wait(), Ok(None));
        assert_eq!(table.exists(-1).wait(), Ok(false));
        assert_eq!(table.update(-1, "one").wait(), Ok(Update::Absent));
        assert_eq!(table.insert(-1, "one").wait(), Ok(Insert::Inserted));
        assert_eq!(table.insert(-1, "two").wait(), Ok(Insert::Exists("one".to_owned())));
        assert_eq!(table.update(-1, "").wait(), Ok(Update::Updated));
        assert_eq!(table.get(-1).wait(), Ok(Some(String::new())));
        assert_eq!(table.upsert(-1, "three").wait(), Ok(Upsert::Replaced));
        assert_eq!(table.update_if(-1, "one", "four").wait(), Ok(UpdateIf::Mismatch("three".to_owned())));
        assert_eq!(table.update_if(-1, "three", "four").wait(), Ok(UpdateIf::Updated));
        assert_eq!(table.update_if(1, "three", "four").wait(), Ok(UpdateIf::Absent));
        assert_eq!(table.exists(-1).wait(), Ok(true));
        assert_eq!(table.upsert(i32::MIN, "least").wait(), Ok(Upsert::Inserted));
        assert_eq!(table.first().wait(), Ok(Some((i32::MIN, "least".to_owned()))));
        assert_eq!(table.delete_if(-1, "one").wait(), Ok(DeleteIf::Mismatch("four".to_owned())));
        assert_eq!(table.delete_if(-1, "four").wait(), Ok(DeleteIf::Deleted));
        assert_eq!(table.delete(i32::MIN).wait(), Ok(Delete::Deleted));
        assert_eq!(table.delete(i32::MIN).wait(), Ok(Delete::Absent));
        assert_eq!(block_on(table.get(-1)), Ok(None));
        assert_eq!(table.count(..), Ok(0));
    }
}

#[test]
fn ranges_are_those_of_a_map() {
    let pool = pool_here(1);
    let small: Table<i16, u64> = open(&pool, "small", IndexOptions::new());
    assert_eq!((small.session().key_bytes(), small.session().value_bytes()), (8, 8));
    let model: BTreeMap<i16, u64> = (-400i16..400).map(|n| (n * 3, n.unsigned_abs().into())).collect();
    let put = small.multi_put(model.iter().map(|(&key, &value)| (key, value))).wait();
    assert!(put.into_iter().all(|put| put == Ok(Upsert::Inserted)));
    let listed = |range: Range<'_, i16, u64>| range.map(Result::unwrap).collect::<Vec<_>>();
    let of_model = |range: (Bound<i16>, Bound<i16>)| model.range(range).map(|(&k, &v)| (k, v)).collect::<Vec<_>>();
    for low in [Bound::Unbounded, Bound::Included(-9), Bound::Excluded(-9), Bound::Excluded(-8)] {
        for high in [Bound::Unbounded, Bound::Included(900), Bound::Excluded(900), Bound::Included(i16::MAX)] {
            assert_eq!(listed(small.range((low, high))), of_model((low, high)), "{low:?} {high:?}");
            assert_eq!(small.count((low, high)), Ok(of_model((low, high)).len() as u64));
        }
    }
    assert_eq!(listed(small.range(3..=6)), [(3, 1), (6, 2)]);
    assert_eq!(small.count(..0), Ok(400));
    // A map would panic.
    assert_eq!(small.count((Bound::Included(6), Bound::Excluded(3))), Ok(0));
    assert_eq!(small.count((Bound::Excluded(3), Bound::Excluded(3))), Ok(0));
}

#[test]
fn ranges_come_down_as_they_go_up() {
    let pool = pool_here(1);
    for &kind in KINDS {
        for (name, index) in [("fixed", IndexOptions::new()), ("any", IndexOptions::new().any_length(40, 40))] {
            let mut session = options(1, 4);
            session.local_handles = 1;
            // Ranges take many pages.
            session.spending.page_records = 16;
            let name = format!("{} {name}", kind.name());
            let table: Table<u64, u64> = Table::open_with(&pool, &name, &index.kind(kind), &session).unwrap();
            assert_eq!(table.last(), Ok(None));
            // Numbers side by side, with gaps, and at the end.
            let keys = (0..200).chain((1..60).map(|n| n << 33)).chain([u64::MAX - 1, u64::MAX]);
            let model: BTreeMap<u64, u64> = keys.map(|key| (key, key ^ 7)).collect();
            for put in table.multi_put(model.iter().map(|(&key, &value)| (key, value))).wait() {
                assert_eq!(put, Ok(Upsert::Inserted));
            }
            let local = table.local().unwrap();
            for range in [(0, u64::MAX), (3, 7), (50, 1 << 40), (1 << 33, 5 << 33), (300, 400), (u64::MAX, u64::MAX)] {
                let bounds = (Bound::Included(range.0), Bound::Included(range.1));
                let wanted: Vec<_> = model.range(bounds).rev().map(|(&key, &value)| Ok((key, value))).collect();
                assert_eq!(table.range(bounds).rev().collect::<Vec<_>>(), wanted, "{name} {range:?}");
                assert_eq!(local.range(bounds).rev().collect::<Vec<_>>(), wanted, "{name} {range:?}");
                assert_eq!(table.range(bounds).rev().count_records(), Ok(wanted.len() as u64));
            }
            let all: Vec<_> = model.iter().rev().map(|(&key, &value)| Ok((key, value))).collect();
            let mut down = table.range(..).rev();
            let streamed = block_on(async {
                let mut streamed = Vec::new();
                while let Some(record) = poll_fn(|context| Pin::new(&mut down).poll_next(context)).await {
                    streamed.push(record);
                }
                streamed
            });
            assert_eq!(streamed, all, "{name}");
            // Down, and back up to where it began.
            let mut down = table.range(..).rev();
            let above: Vec<_> = down.by_ref().take(40).collect();
            assert_eq!(down.rev().collect::<Vec<_>>(), all[40..].iter().rev().copied().collect::<Vec<_>>(), "{name}");
            assert_eq!(above, all[..40]);
            assert_eq!(table.last(), Ok(Some((u64::MAX, u64::MAX ^ 7))));
            assert_eq!(local.last(), Ok(Some((u64::MAX, u64::MAX ^ 7))));
        }
    }
}

/// Records that stay are met once each on the way down, whatever comes and goes between them.
#[test]
fn a_way_down_among_writers_misses_nothing() {
    let pool = pool_here(1);
    let mut session = options(1, 4);
    session.spending.page_records = 8;
    let table: Table<u64, u64> = Table::open_with(&pool, "busy", &IndexOptions::new(), &session).unwrap();
    for n in 0..200 {
        table.insert(n * 10, n).wait().unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..).map(|n: u64| n.wrapping_mul(0x9E37_79B9) % 2000) {
                if !n.is_multiple_of(10) {
                    let _ = table.upsert(n, n).wait().unwrap();
                    let _ = table.delete((n * 7) % 2000 / 10 * 10 + 3).wait().unwrap();
                }
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..20 {
            let keys: Vec<u64> = table.range(..).rev().map(|record| record.unwrap().0).collect();
            assert!(keys.is_sorted_by(|a, b| a > b), "{keys:?}");
            assert_eq!(keys.iter().filter(|key| key.is_multiple_of(10)).count(), 200);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A task of its own, on a thread that nothing is lent to.
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(move || block_on(task))
}

#[test]
fn owned_calls_run_in_tasks_that_outlive_the_table() {
    let pool = pool_here(1);
    let table: Table<&str, u64> = open(&pool, "owned", IndexOptions::new());
    let put: Vec<_> = (0..50).map(|n| spawn(table.upsert(&format!("key {n:02}"), n).owned())).collect();
    for put in put {
        assert_eq!(put.join().unwrap(), Ok(Upsert::Inserted));
    }
    let keys: Vec<String> = (0..50).map(|n| format!("key {n:02}")).collect();
    let many = spawn(table.multi_get(keys.iter().map(String::as_str)).owned());
    let bytes = spawn(table.session().get(b"key 07").owned());
    let mut range = table.range("key 10"..).rev().owned();
    let streamed = spawn(async move {
        let mut records = 0;
        while let Some(record) = poll_fn(|context| Pin::new(&mut range).poll_next(context)).await {
            records += usize::from(record.is_ok());
        }
        records
    });
    drop(table);
    assert_eq!(many.join().unwrap(), (0..50).map(|n| Ok(Some(n))).collect::<Vec<_>>());
    assert!(bytes.join().unwrap().unwrap().is_some());
    assert_eq!(streamed.join().unwrap(), 40);
}

/// A function that takes a table need not name a lifetime.
fn values_under(files: &Table<&str, u64>, prefix: &str) -> Vec<u64> {
    files.prefix(prefix).map(|record| record.unwrap().1).collect()
}

/// In slots of one size and of any length.
#[test]
fn prefixes_list_what_begins_with_them() {
    let pool = pool_here(1);
    for (name, index) in [("any", IndexOptions::new()), ("fixed", IndexOptions::new().fixed_bytes(24, 8))] {
        let files: Table<&str, u64> = open(&pool, name, index);
        let names = ["/bin/ls", "/etc", "/etc/", "/etc/hosts", "/etc/\u{10FFFF}", "/etd", "/var"];
        for (at, file) in (1..).zip(names) {
            assert_eq!(files.insert(file, at).wait(), Ok(Insert::Inserted));
        }
        let under = |prefix| values_under(&files, prefix);
        assert_eq!(under("/etc/"), [3, 4, 5]);
        assert_eq!(under("/etc"), [2, 3, 4, 5]);
        assert_eq!(under(""), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(under("x"), [0; 0]);
        let between: Vec<_> = files.range("/etc/".."/var").map(|record| record.unwrap().0).collect();
        assert_eq!(between, names[2..6]);
    }
    let visits: Table<(u32, &str, i8), ()> = open(&pool, "visits", IndexOptions::new());
    for (user, page) in [(1, "a"), (1, "b"), (2, "a"), (u32::MAX, "z")] {
        let records = [-1, 1].map(|day| ((user, page, day), ()));
        assert_eq!(visits.multi_put(records).wait().len(), 2);
    }
    assert_eq!(visits.prefix((1, None)).count_records(), Ok(4));
    assert_eq!(visits.prefix((1, Some("b"))).count_records(), Ok(2));
    let last: Vec<_> = visits.prefix((u32::MAX, None)).map(|record| record.unwrap().0).collect();
    assert_eq!(last, [(u32::MAX, "z".to_owned(), -1), (u32::MAX, "z".to_owned(), 1)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let pool = pool_here(1);
    let short: Table<&str, [u8; 3]> = open(&pool, "short", IndexOptions::new().fixed_bytes(8, 8));
    assert_eq!(short.insert("1234567", *b"abc").wait(), Ok(Insert::Inserted));
    let refused = SessionError::KeyTooLong { given: 8, most: 7 };
    assert_eq!(short.insert("12345678", *b"abc").wait(), Err(refused));
    // A range says so once.
    assert_eq!(short.range("12345678"..).collect::<Vec<_>>(), [Err(refused)]);
    assert_eq!(short.count(.."12345678"), Err(refused));
    // Another type than that of the records.
    short.close();
    let other: Table<u64, u64> = open(&pool, "short", IndexOptions::new().fixed_bytes(8, 8));
    assert!(other.first().wait().is_ok(), "any eight bytes are a number");
    let other: Table<u16, u64> = Table::of(other.session().clone()).unwrap();
    assert!(matches!(other.first().wait(), Err(SessionError::NotOfType { part: "key", bytes: 8, .. })));
    assert!(matches!(other.range(..).next(), Some(Err(SessionError::NotOfType { .. }))));
    let refused = Table::<u128, u64>::of(other.session().clone()).unwrap_err();
    assert_eq!(refused.to_string(), "u128 does not fit into the keys of this index: they have 8 bytes");
    let refused = Table::<u64, u64>::open_with(&pool, "short", &IndexOptions::new().any_length(8, 8), &options(1, 1));
    assert_eq!(refused.unwrap_err().to_string(), "index \"short\" has keys and values of one size, not of any length");
}

#[test]
fn a_range_is_a_stream_that_lends_to_no_one_and_a_scan_lends() {
    let pool = pool_here(1);
    let table: Table<u64, u64> = open(&pool, "numbers", IndexOptions::new());
    let count = 3 * table.session().page_records() as u64 + 1;
    for put in table.multi_put((0..count).map(|n| (n, n * n))).wait() {
        put.unwrap();
    }
    // Polled on another thread than the one that began: it is Send.
    let streamed = thread::scope(|scope| {
        let mut range = table.range(1..);
        assert_eq!(range.next(), Some(Ok((1, 1))));
        let rest = scope.spawn(move || {
            block_on(async move {
                let mut seen = 0;
                while let Some(record) = poll_fn(|context| Pin::new(&mut range).poll_next(context)).await {
                    let (key, value) = record.unwrap();
                    assert_eq!((key, value), (seen + 2, (seen + 2) * (seen + 2)));
                    seen += 1;
                }
                seen
            })
        });
        rest.join().unwrap()
    });
    assert_eq!(streamed, count - 2);
    let mut scan = table.session().scan(Bound::Unbounded, Bound::Unbounded);
    let mut seen = 0u64;
    while let Some(record) = scan.next_record() {
        let (key, value) = record.unwrap();
        assert_eq!((key, value), (&seen.to_be_bytes()[..], &(seen * seen).to_be_bytes()[..]));
        seen += 1;
    }
    assert_eq!(seen, count);
}

/// Results of the keys 0 to 99: of the even ones, and of the odd ones.
fn by_parity<T: Copy>(even: T, odd: T) -> impl Iterator<Item = Result<T, SessionError>> {
    (0..100).map(move |key| Ok(if key % 2 == 0 { even } else { odd }))
}

#[test]
fn many_operations_of_any_kind_answer_in_order() {
    let pool = pool_here(1);
    let table: Table<u8, u8> = open(&pool, "bytes", IndexOptions::new());
    let keys = || 0..100;
    let even = || keys().filter(|key| key % 2 == 0);
    assert!(
        table.multi_insert(even().map(|key| (key, key))).wait().into_iter().all(|done| done == Ok(Insert::Inserted))
    );
    assert!(table.multi_exists(keys()).wait().into_iter().eq(by_parity(true, false)));
    let updated = table.multi_update(keys().map(|key| (key, key + 1))).wait();
    assert!(updated.into_iter().eq(by_parity(Update::Updated, Update::Absent)));
    let exists = table.multi_insert(even().map(|key| (key, 0))).wait();
    assert!(exists.into_iter().eq(even().map(|key| Ok(Insert::Exists(key + 1)))));
    let updated = table.multi_update_if(keys().map(|key| (key, 1, 0))).wait();
    assert_eq!(updated[..3], [Ok(UpdateIf::Updated), Ok(UpdateIf::Absent), Ok(UpdateIf::Mismatch(3))]);
    let deleted = table.multi_delete_if(keys().map(|key| (key, 3))).wait();
    assert_eq!(deleted[..3], [Ok(DeleteIf::Mismatch(0)), Ok(DeleteIf::Absent), Ok(DeleteIf::Deleted)]);
    let found = block_on(table.multi_get([0, 1, 2, 4]));
    assert_eq!(found, [Ok(Some(0)), Ok(None), Ok(None), Ok(Some(5))]);
    let deleted = table.multi_delete([0, 1, 2]).wait();
    assert_eq!(deleted, [Ok(Delete::Deleted), Ok(Delete::Absent), Ok(Delete::Absent)]);

    // The same of bytes, where a wrong size is an error of that operation only.
    let session = table.session();
    let (one, two, wrong) = ([1; 8], [2; 8], [3; 7]);
    let refused = SessionError::KeyBytes { given: 7, expected: 8 };
    assert_eq!(session.multi_insert(&[(&one[..], one), (&wrong, one)]).wait(), [Ok(Insert::Inserted), Err(refused)]);
    assert_eq!(session.multi_exists(&[&one[..], &two, &wrong]).wait(), [Ok(true), Ok(false), Err(refused)]);
    assert_eq!(session.multi_update(&[(one, two), (two, two)]).wait(), [Ok(Update::Updated), Ok(Update::Absent)]);
    assert_eq!(session.multi_update_if(&[(one, one, two)]).wait(), [Ok(UpdateIf::Mismatch(two.to_vec()))]);
    assert_eq!(session.multi_delete_if(&[(one, one)]).wait(), [Ok(DeleteIf::Mismatch(two.to_vec()))]);
    assert_eq!(session.multi_delete(&[one, two]).wait(), [Ok(Delete::Deleted), Ok(Delete::Absent)]);
}

#[test]
fn errors_are_texts_wherever_they_are_printed() {
    let pool = pool_here(1);
    let long = "n".repeat(48);
    for name in ["", "line\n", &long] {
        let refused = Table::<u64, u64>::open_with(&pool, name, &IndexOptions::new(), &options(1, 1)).unwrap_err();
        assert!(matches!(refused, OpenError::Pool(PoolError::IndexName { .. })), "{refused}");
        assert_eq!(
            format!("{refused:?}"),
            format!("an index cannot be called {name:?}: a name has 1 to 47 bytes and no control characters")
        );
    }
    let table: Table<u64, u64> = open(&pool, &long[1..], IndexOptions::new());
    table.close();
    // As `main` prints it, whatever its error type is.
    let closed: Box<dyn std::error::Error> = table.get(1).wait().unwrap_err().into();
    assert_eq!(format!("{closed:?}"), "the session is closed (nothing was changed)");
    let small = Pool::embedded(0).unwrap_err();
    assert_eq!(format!("{small:?}"), small.to_string());
}
