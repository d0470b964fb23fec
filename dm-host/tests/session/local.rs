//! Local handles: operations on the caller's own thread.

use crate::session_support::{options, pool_here, value_of};
use crate::{key, open, small};
use dm_core::operation::OperationKind;
use dm_core::registry::KINDS;
use dm_host::prelude::*;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn every_operation_answers_as_that_of_the_table() {
    let pool = pool_here(1);
    let indexes = KINDS.iter().map(|&kind| IndexOptions::new().kind(kind));
    let indexes = indexes.flat_map(|index| [index, index.checksums(), index.fixed_bytes(16, 16).checksums()]);
    for (n, index) in indexes.enumerate() {
        let table = Table::<i32, &str>::open_with(&pool, &n.to_string(), &index, &options(1, 4)).unwrap();
        let local = table.local().unwrap();
        assert_eq!(local.get(-1), Ok(None));
        assert_eq!(local.first(), Ok(None));
        assert_eq!(local.exists(-1), Ok(false));
        assert_eq!(local.update(-1, "one"), Ok(Update::Absent));
        assert_eq!(local.insert(-1, "one"), Ok(Insert::Inserted));
        assert_eq!(table.get(-1).wait(), Ok(Some("one".to_owned())), "the table sees what the handle does");
        assert_eq!(local.insert(-1, "two"), Ok(Insert::Exists("one".to_owned())));
        assert_eq!(table.update(-1, "").wait(), Ok(Update::Updated));
        assert_eq!(local.get(-1), Ok(Some(String::new())), "the handle sees what the table does");
        assert_eq!(local.upsert(-1, "three"), Ok(Upsert::Replaced));
        assert_eq!(local.update_if(-1, "one", "four"), Ok(UpdateIf::Mismatch("three".to_owned())));
        assert_eq!(local.update_if(-1, "three", "four"), Ok(UpdateIf::Updated));
        assert_eq!(local.update_if(1, "three", "four"), Ok(UpdateIf::Absent));
        assert_eq!(local.upsert(i32::MIN, "least"), Ok(Upsert::Inserted));
        assert_eq!(local.first(), Ok(Some((i32::MIN, "least".to_owned()))));
        assert_eq!(local.delete_if(-1, "one"), Ok(DeleteIf::Mismatch("four".to_owned())));
        assert_eq!(local.delete_if(-1, "four"), Ok(DeleteIf::Deleted));
        assert_eq!(local.delete(i32::MIN), Ok(Delete::Deleted));
        assert_eq!(local.delete(i32::MIN), Ok(Delete::Absent));
        assert_eq!(local.count(..), Ok(0));
    }
}

#[test]
fn many_operations_of_one_call_keep_their_order_and_their_errors() {
    let pool = pool_here(1);
    let index = IndexOptions::new().any_length(20, 100);
    let table = Table::<&str, &[u8]>::open_with(&pool, "lengths", &index, &options(1, 4)).unwrap();
    let local = table.local().unwrap();
    // More than are in memory at a time, and one key in seven is too long.
    let keys: Vec<_> = (0..1000).map(|n| if n % 7 == 3 { "x".repeat(21) } else { format!("key {n:04}") }).collect();
    let put = local.multi_put(keys.iter().map(|key| (&**key, key.as_bytes())));
    for (n, put) in put.into_iter().enumerate() {
        let too_long = Err(SessionError::KeyTooLong { given: 21, most: 20 });
        assert_eq!(put, if n % 7 == 3 { too_long } else { Ok(Upsert::Inserted) }, "{n}");
    }
    for (key, got) in keys.iter().zip(local.multi_get(keys.iter().map(|key| &**key))) {
        match got {
            Ok(value) => assert_eq!(value.as_deref(), Some(key.as_bytes())),
            Err(error) => assert_eq!((key.len(), error), (21, SessionError::KeyTooLong { given: 21, most: 20 })),
        }
    }
    assert_eq!(local.multi_get([]), []);
    let model: BTreeSet<_> = keys.iter().filter(|key| key.len() == 8).cloned().collect();
    let listed: Vec<_> = local.range("key 0100".."key 0900").map(|record| record.unwrap().0).collect();
    let of_model = model.range("key 0100".to_owned().."key 0900".to_owned());
    assert_eq!(listed, of_model.cloned().collect::<Vec<_>>());
    assert_eq!(
        local.prefix("key 05").count_records(),
        Ok(model.iter().filter(|key| key.starts_with("key 05")).count() as u64)
    );
    let deleted = local.multi_delete(["key 0000", "key 0001", "none"]);
    assert_eq!(deleted, [Ok(Delete::Deleted), Ok(Delete::Deleted), Ok(Delete::Absent)]);
    assert_eq!(local.multi_exists(["key 0000", "key 0002"]), [Ok(false), Ok(true)]);
}

#[test]
fn handles_and_workers_exclude_each_other() {
    let pool = pool_here(2);
    let options = SessionOptions { local_handles: 3, ..options(1, 2) };
    let table = Table::<u64, u64>::open_with(&pool, "counters", &IndexOptions::new(), &options).unwrap();
    assert!(table.multi_put((0..4).map(|key| (key, 0))).wait().iter().all(Result::is_ok));
    let rounds = 400;
    let add = |mut get: Box<dyn FnMut(u64) -> u64>, mut swap: Box<dyn FnMut(u64, u64) -> UpdateIf<u64>>| {
        for round in 0..rounds {
            let key = round % 4;
            let mut seen = get(key);
            while let UpdateIf::Mismatch(now) = swap(key, seen) {
                seen = now;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let local = std::rc::Rc::new(table.local().unwrap());
                let other = std::rc::Rc::clone(&local);
                let swap = move |key, seen| other.update_if(key, seen, seen + 1).unwrap();
                add(Box::new(move |key| local.get(key).unwrap().unwrap()), Box::new(swap));
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let (one, other) = (table.clone(), table.clone());
                let swap = move |key, seen| other.update_if(key, seen, seen + 1).wait().unwrap();
                add(Box::new(move |key| one.get(key).wait().unwrap().unwrap()), Box::new(swap));
            });
        }
    });
    let sum: u64 = table.range(..).map(|record| record.unwrap().1).sum();
    assert_eq!(sum, 5 * rounds, "no update was lost");
    table.session().validate().unwrap();
}

#[test]
fn there_are_as_many_handles_as_the_session_has_lanes_for() {
    let session = open(&pool_here(1), &SessionOptions { local_handles: 2, ..options(1, 2) });
    let (first, second) = (session.local().unwrap(), session.local().unwrap());
    assert!(matches!(session.local(), Err(OpenError::LocalHandles { max: 2 })));
    first.insert(&key(1), &value_of(1)).unwrap();
    drop(first);
    let third = session.local().unwrap();
    assert_eq!(third.insert(&key(1), &value_of(2)), Ok(Insert::Exists(value_of(1).to_vec())));
    assert_eq!(second.get(&key(1)), Ok(Some(value_of(1).to_vec())));
    let none = open(&pool_here(1), &SessionOptions { local_handles: 0, ..options(1, 2) });
    assert!(matches!(none.local(), Err(OpenError::LocalHandles { max: 0 })));
    assert_eq!(session.statistics().of(OperationKind::Insert).operations, 2, "handles count as workers do");
}

#[test]
fn a_closed_session_refuses_its_handles_and_waits_for_them() {
    let pool = pool_here(1);
    let session = open(&pool, &options(1, 2));
    let local = session.local().unwrap();
    local.insert(&key(1), &value_of(1)).unwrap();
    // By the owner of a handle: this must not wait for itself.
    session.close();
    assert_eq!(local.get(&key(1)), Err(SessionError::Closed));
    assert_eq!(local.multi_get([&key(1)[..]]), [Err(SessionError::Closed)]);
    assert!(matches!(session.local(), Err(OpenError::Closed)));
    assert_eq!(session.get(&key(1)).wait(), Err(SessionError::Closed));
    // The session, and then its last handle: the drop of that one waits for the session's threads.
    drop(session);
    drop(local);
    let again = Session::open(&pool, "index", &options(1, 1)).unwrap();
    assert_eq!(again.validate().unwrap().records, 1);
}

#[test]
fn a_handle_keeps_its_session_open() {
    let session = small();
    let local = session.local().unwrap();
    drop(session);
    assert_eq!(local.insert(&key(1), &value_of(1)), Ok(Insert::Inserted));
    assert_eq!(local.get(&key(1)), Ok(Some(value_of(1).to_vec())));
}

/// Values of several sizes, so that each update retires blocks, which wait for epochs.
#[test]
fn an_idle_handle_holds_up_neither_epochs_nor_locks() {
    let pool = pool_here(1);
    let index = IndexOptions::new().any_length(16, 4096);
    let open = || Table::<u64, &[u8]>::open_with(&pool, "blocks", &index, &options(1, 2)).unwrap();
    let (idle, busy) = (open(), open());
    let handle = idle.local().unwrap();
    let value = vec![7; 4000];
    // The last thing that the idle handle did was to write what the others want, and to look at all of it.
    for key in 0..8 {
        handle.upsert(key, &value).unwrap();
    }
    assert_eq!(handle.count(..), Ok(8));
    // Ten times the pool. If blocks could not be reused, it would be full.
    for round in 0..40_000u64 {
        let bytes = 3000 + (round % 1000) as usize;
        assert_eq!(busy.upsert(round % 8, &value[..bytes]).wait(), Ok(Upsert::Replaced), "round {round}");
    }
    assert_eq!(handle.get(0).map(|value| value.is_some()), Ok(true));
}

/// A value whose bytes may be refused with a panic, as code of an application may.
struct Touchy;

static TOUCHY: AtomicBool = AtomicBool::new(false);

impl Value for Touchy {
    type Ref<'a> = u64;
    type Owned = u64;

    const WIDTH: Option<usize> = Some(8);

    fn encode(value: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u64> {
        assert!(!TOUCHY.load(Ordering::SeqCst), "a decoder that panics");
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

#[test]
fn a_panic_of_the_application_leaves_the_handle_usable() {
    let table = Table::<u64, Touchy>::open_with(&pool_here(1), "touchy", &IndexOptions::new(), &options(1, 2)).unwrap();
    let local = table.local().unwrap();
    assert!(local.multi_put((0..100).map(|n| (n, n))).iter().all(Result::is_ok));
    TOUCHY.store(true, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| local.get(1))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| local.multi_get(0..100))).is_err());
    TOUCHY.store(false, Ordering::SeqCst);
    let keys = (0..100).inspect(|n| assert_ne!(*n, 50, "an iterator that panics"));
    assert!(catch_unwind(AssertUnwindSafe(|| local.multi_get(keys))).is_err());
    assert_eq!(local.multi_get(0..100), (0..100).map(|n| Ok(Some(n))).collect::<Vec<_>>());
}

#[test]
fn many_conditional_operations_of_bytes_answer_as_those_of_the_session() {
    let session = small();
    let local = session.local().unwrap();
    let (keys, values) = ([key(1), key(2), key(3)], [value_of(1), value_of(2), value_of(3)]);
    assert_eq!(local.insert(&keys[0], &values[0]), Ok(Insert::Inserted));
    assert_eq!(local.insert(&keys[1], &values[1]), Ok(Insert::Inserted));
    let changed = local.multi_update_if(keys.iter().map(|key| (&key[..], &values[0][..], &values[2][..])));
    assert_eq!(changed, [Ok(UpdateIf::Updated), Ok(UpdateIf::Mismatch(values[1].to_vec())), Ok(UpdateIf::Absent)]);
    let gone = local.multi_delete_if(keys.iter().map(|key| (&key[..], &values[2][..])));
    assert_eq!(gone, [Ok(DeleteIf::Deleted), Ok(DeleteIf::Mismatch(values[1].to_vec())), Ok(DeleteIf::Absent)]);
}

#[test]
fn an_operation_of_a_handle_has_a_time_limit() {
    let session = small();
    let local = session.local().unwrap();
    local.set_time_limit(Some(Duration::ZERO));
    assert!(matches!(local.insert(&key(1), &value_of(1)), Err(SessionError::Deadline { .. })));
    local.set_time_limit(None);
    assert_eq!(local.get(&key(1)), Ok(None), "it was not begun");
    let page = local.page(Bound::Unbounded, Bound::Unbounded, 10).unwrap();
    assert!(page.is_empty());
}

#[test]
fn the_longest_stored_prefix_is_found_in_every_kind() {
    let pool = pool_here(1);
    for &kind in KINDS {
        let index = IndexOptions::new().kind(kind).any_length(600, 100);
        let table = Table::<&str, u32>::open_with(&pool, kind.name(), &index, &options(1, 4)).unwrap();
        let local = table.local().unwrap();
        let text = "äbc ".repeat(60);
        let both = |key: &str| {
            let found = table.longest_prefix(key);
            assert_eq!(local.longest_prefix(key), found, "{key}");
            found.unwrap()
        };
        assert_eq!(both(&text), None);
        assert_eq!(both(""), None);
        for bytes in [0, 2, 5, 100, 250] {
            table.insert(&text[..bytes], bytes as u32).wait().unwrap();
        }
        // Records that are no prefixes, but lie among them.
        table.insert(&format!("{}!", &text[..200]), 1).wait().unwrap();
        table.insert("a", 1).wait().unwrap();
        assert_eq!(both(&text), Some((250, 250)));
        assert_eq!(both(&text[..249]), Some((100, 100)));
        assert_eq!(both(&text[..4]), Some((2, 2)));
        assert_eq!(both("zzz"), Some((0, 0)));
        table.delete("").wait().unwrap();
        assert_eq!(both("zzz"), None);
        // A key that no record can have: some of its prefixes can be stored.
        assert_eq!(both(&"äbc ".repeat(200)), Some((250, 250)));
        // Slots of one size.
        let index = IndexOptions::new().kind(kind).fixed_bytes(16, 8);
        let table =
            Table::<&[u8], u32>::open_with(&pool, &format!("slots {}", kind.name()), &index, &options(1, 4)).unwrap();
        let stored: [&[u8]; 4] = [b"", b"ab\0", b"ab\0\0", b"abc"];
        for key in stored {
            table.insert(key, key.len() as u32).wait().unwrap();
        }
        for (key, length) in
            [(&b"ab"[..], 0), (b"ab\0", 3), (b"ab\0\0\0", 4), (b"abcdefghijklmnopqrstuvwxyz", 3), (b"b", 0)]
        {
            let right = Ok(Some((length, length as u32)));
            assert_eq!(table.longest_prefix(key), right, "{key:?}");
            assert_eq!(table.local().unwrap().longest_prefix(key), right, "{key:?}");
        }
    }
}
