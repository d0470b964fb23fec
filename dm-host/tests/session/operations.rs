//! Outcomes, limits, and many threads.

use crate::session_support::{block_on, options, pool_here, value_of};
use crate::{key, open, small};
use dm_core::operation::{Effect, OperationKind};
use dm_core::remote::catalog::IndexKind;
use dm_core::sherman::parameters::Parameters;
use dm_host::kinds::IndexParameters;
use dm_host::session::{
    Delete, Insert, OpenError, Session, SessionError, SessionOptions, Update, UpdateIf, Upsert, byte_string,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[test]
fn every_operation_says_what_became_of_it() {
    let session = small();
    let (one, a, b, c) = (key(1), value_of(1), value_of(2), value_of(3));
    assert_eq!(session.get(&one).wait(), Ok(None));
    assert_eq!(session.update(&one, &a).wait(), Ok(Update::Absent));
    assert_eq!(session.update_if(&one, &a, &b).wait(), Ok(UpdateIf::Absent));
    assert_eq!(session.delete(&one).wait(), Ok(Delete::Absent));
    assert_eq!(session.insert(&one, &a).wait(), Ok(Insert::Inserted));
    assert_eq!(session.insert(&one, &b).wait(), Ok(Insert::Exists(a.to_vec())));
    assert_eq!(session.update_if(&one, &b, &c).wait(), Ok(UpdateIf::Mismatch(a.to_vec())));
    assert_eq!(session.update_if(&one, &a, &c).wait(), Ok(UpdateIf::Updated));
    assert_eq!(session.upsert(&one, &b).wait(), Ok(Upsert::Replaced));
    assert_eq!(session.upsert(&key(2), &c).wait(), Ok(Upsert::Inserted));
    let mut found = [0; 8];
    assert_eq!(session.get_into(&one, &mut found).wait(), Ok(true));
    assert_eq!(found, b);
    assert_eq!(session.get_into(&key(3), &mut found).wait(), Ok(false));
    assert_eq!(found, b, "as it was");
    assert_eq!(session.update(&one, &a).wait(), Ok(Update::Updated));
    assert_eq!(session.delete(&one).wait(), Ok(Delete::Deleted));
    assert_eq!(session.get(&one).wait(), Ok(None));
    assert_eq!(session.validate().unwrap().records, 1);

    let statistics = session.statistics();
    assert_eq!(statistics.of(OperationKind::Get).operations, 4);
    assert_eq!(statistics.of(OperationKind::Update).operations, 2);
    assert_eq!(statistics.of(OperationKind::UpdateIf).failed, 0);
    // Two, each of a lock with a READ, and of a WRITE.
    assert!(statistics.of(OperationKind::Upsert).round_trips >= 4, "{statistics:?}");
    assert!(statistics.of(OperationKind::Get).bytes_read > 1000);
    assert!(statistics.of(OperationKind::Get).latency_ns_max > 0);
    assert_eq!(statistics.queued, 0);
    assert!(statistics.cache_budget_bytes > 0);
}

#[test]
fn ranges_come_in_pages_with_every_kind_of_bound() {
    let session = open(&pool_here(2), &options(2, 4));
    let records: Vec<_> = (0..1000).map(|n| (key(n * 2), value_of(n))).collect();
    assert!(session.multi_put(&records).wait().iter().all(|result| *result == Ok(Upsert::Inserted)));
    let all: Vec<_> = session.scan(Bound::Unbounded, Bound::Unbounded).map(Result::unwrap).collect();
    assert_eq!(all, records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>());

    let keys = |low: Bound<&[u8]>, high: Bound<&[u8]>| -> Vec<u64> {
        session.scan(low, high).map(|record| u64::from_be_bytes(record.unwrap().0.try_into().unwrap())).collect()
    };
    let (ten, sixteen, last) = (key(10), key(16), key(u64::MAX));
    assert_eq!(keys(Bound::Included(&ten), Bound::Included(&sixteen)), [10, 12, 14, 16]);
    assert_eq!(keys(Bound::Excluded(&ten), Bound::Excluded(&sixteen)), [12, 14]);
    assert_eq!(keys(Bound::Excluded(&key(9)), Bound::Excluded(&key(11))), [10]);
    assert_eq!(keys(Bound::Included(&sixteen), Bound::Included(&ten)), []);
    assert_eq!(keys(Bound::Included(&key(1990)), Bound::Included(&last)), [1990, 1992, 1994, 1996, 1998]);

    let page = session.page(Bound::Unbounded, Bound::Unbounded, 3).wait().unwrap();
    assert_eq!((page.len(), page.is_empty()), (3, false));
    assert_eq!(page.cursor(), Some(Bound::Excluded(&key(4)[..])));
    assert_eq!(page.iter().nth(1), page.record(1));
    assert_eq!(page.record(3), None);
    let next = session.page(page.cursor().unwrap(), Bound::Unbounded, 128).wait().unwrap();
    assert_eq!(next.record(0), Some((&key(6)[..], &value_of(3)[..])));
    let end = session.page(Bound::Excluded(&last), Bound::Unbounded, 3).wait().unwrap();
    assert!(end.is_empty() && end.cursor().is_none());
}

#[test]
fn wrong_sizes_are_refused_before_anything_is_queued() {
    let session = small();
    let (k, v) = (key(1), value_of(1));
    let short = SessionError::KeyBytes { given: 7, expected: 8 };
    assert_eq!(session.get(&k[..7]).wait(), Err(short));
    assert_eq!(session.delete(&k[..7]).wait(), Err(short));
    assert_eq!(session.page(Bound::Included(&k[..7]), Bound::Unbounded, 1).wait(), Err(short));
    assert_eq!(session.page(Bound::Unbounded, Bound::Excluded(&k[..7]), 1).wait(), Err(short));
    assert_eq!(short.effect(), Effect::None);
    assert_eq!(short.to_string(), "a key of 7 bytes: this index has keys of 8");
    let long = SessionError::ValueBytes { given: 9, expected: 8 };
    assert_eq!(session.insert(&k, &[0; 9]).wait(), Err(long));
    assert_eq!(session.update_if(&k, &[0; 9], &v).wait(), Err(long));
    assert_eq!(session.get_into(&k, &mut [0; 9]).wait(), Err(long));
    let max = session.page_records();
    for given in [0, max + 1] {
        let refused = Err(SessionError::PageRecords { given, max });
        assert_eq!(session.page(Bound::Unbounded, Bound::Unbounded, given).wait(), refused);
    }
    // Of many, only those of the wrong size.
    let records = [(&k[..], &v[..]), (&k[..7], &v[..]), (&k[..], &v[..7])];
    let results = session.multi_put(&records).wait();
    assert_eq!(results, [Ok(Upsert::Inserted), Err(short), Err(SessionError::ValueBytes { given: 7, expected: 8 })]);
    assert_eq!(block_on(session.get(&k[..7])), Err(short));
    let operations: u64 = OperationKind::ALL.iter().map(|&kind| session.statistics().of(kind).operations).sum();
    assert_eq!(operations, 1);
}

#[test]
fn opening_says_what_is_wrong() {
    let pool = pool_here(1);
    let error = |result: Result<Session, OpenError>| result.unwrap_err().to_string();
    let options = options(1, 1);
    assert!(error(Session::open(&pool, "none", &options)).contains("no index \"none\""));
    drop(open(&pool, &options));
    let other = Parameters::with_sizes(16, 8);
    assert!(error(Session::open_or_create(&pool, "index", other, &options)).contains("keys of 8"));
    let none = SessionOptions { workers: 0, ..options.clone() };
    assert!(error(Session::open(&pool, "index", &none)).contains("workers 0"));
    let mut poor = options.clone();
    poor.spending.scratch_bytes_max = 1;
    assert!(error(Session::open(&pool, "index", &poor)).contains("more than the budget"));
    // None of these left a thread or a row behind that keeps the next one out.
    for _ in 0..300 {
        Session::open(&pool, "index", &options).unwrap();
    }
}

#[test]
fn byte_strings_are_keys() {
    let session =
        Session::open_or_create(&pool_here(1), "names", Parameters::with_sizes(16, 8), &options(1, 2)).unwrap();
    let names: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"aardvark", b"b"];
    for (n, name) in names.iter().enumerate().rev() {
        let key = byte_string::pack::<16>(name).unwrap();
        session.insert(&key, &(n as u64).to_le_bytes()).wait().unwrap();
    }
    let found: Vec<_> = session.scan(Bound::Unbounded, Bound::Unbounded).map(Result::unwrap).collect();
    let found: Vec<_> = found.iter().map(|(key, _)| byte_string::unpack(key).unwrap()).collect();
    assert_eq!(found, names);
}

/// Each thread owns some counters that only it writes, through all kinds of operations; all threads watch all of
/// them: none runs backwards.
#[test]
fn many_threads_agree_on_what_they_wrote() {
    const THREADS: u64 = 6;
    let session = open(&pool_here(2), &options(2, 4));
    let seen: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (session, seen) = (session.clone(), &seen);
            scope.spawn(move || {
                for turn in 1..400 {
                    let mine = session.get(&key(me)).wait().unwrap();
                    assert_eq!(mine, (turn > 1).then(|| value_of(turn - 1).to_vec()));
                    let (before, now) = (value_of(turn - 1), value_of(turn));
                    match turn % 4 {
                        _ if turn == 1 => drop(session.insert(&key(me), &now).wait().unwrap()),
                        0 => assert_eq!(session.upsert(&key(me), &now).wait(), Ok(Upsert::Replaced)),
                        1 => assert_eq!(session.update(&key(me), &now).wait(), Ok(Update::Updated)),
                        _ => assert_eq!(session.update_if(&key(me), &before, &now).wait(), Ok(UpdateIf::Updated)),
                    }
                    // Any value of a counter that a thread has seen before this call began, the call sees or surpasses.
                    let other = (me + turn) % THREADS;
                    let floor = seen[other as usize].load(Ordering::SeqCst);
                    let found = session.get(&key(other)).wait().unwrap();
                    let found = found.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()) >> 8);
                    assert!(found >= floor, "counter {other}: {found} after {floor}");
                    seen[other as usize].fetch_max(found, Ordering::SeqCst);
                }
            });
        }
    });
    let census = session.validate().unwrap();
    assert_eq!((census.records, census.half_splits), (THREADS, 0));
}

#[test]
fn threads_that_insert_and_delete_agree_with_maps() {
    let session = open(&pool_here(2), &options(2, 3));
    thread::scope(|scope| {
        for me in 0..4u64 {
            let session = session.clone();
            scope.spawn(move || {
                let mut model = BTreeMap::new();
                let mut state = me + 1;
                for n in 0..3_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Neighbouring keys belong to different threads: all share all leaves.
                    let at = (state >> 40) % 500 * 4 + me;
                    if state >> 63 == 0 {
                        let replaced = model.insert(at, n).is_some();
                        let put = session.upsert(&key(at), &value_of(n)).wait().unwrap();
                        assert_eq!(put == Upsert::Replaced, replaced);
                    } else {
                        let deleted = session.delete(&key(at)).wait().unwrap();
                        assert_eq!(deleted == Delete::Deleted, model.remove(&at).is_some());
                    }
                }
                let keys: Vec<_> = (0..500).map(|n| key(n * 4 + me)).collect();
                for (n, found) in session.multi_get(&keys).wait().into_iter().enumerate() {
                    let expected = model.get(&(n as u64 * 4 + me)).map(|n| value_of(*n).to_vec());
                    assert_eq!(found, Ok(expected));
                }
            });
        }
    });
    session.validate().unwrap();
}

/// Enough copies for lookups to wait for their lines while other lanes have their turns, and more than the cache has
/// room for.
#[test]
fn lookups_that_wait_for_copies_find_what_they_look_for() {
    const RECORDS: u64 = 60_000;
    let spread = |n: u64| key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let parameters = IndexParameters::with_sizes(IndexKind::Smart, 8, 8).unwrap();
    let mut options = options(2, 8);
    options.spending.cache_bytes = 3 << 19;
    let session = Session::open_or_create(&pool_here(1), "index", parameters, &options).unwrap();
    thread::scope(|scope| {
        for third in 0..3 {
            let session = &session;
            scope.spawn(move || {
                let mine: Vec<u64> = (0..RECORDS).filter(|n| n % 3 == third).collect();
                for some in mine.chunks(200) {
                    let records: Vec<_> = some.iter().map(|n| (spread(*n), value_of(*n))).collect();
                    assert!(session.multi_put(&records).wait().iter().all(|result| *result == Ok(Upsert::Inserted)));
                }
                for some in mine.chunks(200) {
                    let keys: Vec<_> = some.iter().map(|n| spread(*n)).collect();
                    for (n, found) in some.iter().zip(session.multi_get(&keys).wait()) {
                        assert_eq!(found, Ok(Some(value_of(*n).to_vec())));
                    }
                    let records: Vec<_> = some.iter().map(|n| (spread(*n), value_of(n + 1))).collect();
                    assert!(session.multi_put(&records).wait().iter().all(|result| *result == Ok(Upsert::Replaced)));
                }
            });
        }
    });
    assert_eq!(session.validate().unwrap().records, RECORDS);
}
