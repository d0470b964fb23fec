//! Sessions on memory of this process: what calls promise, under many threads and tasks.

use dm_core::operation::{Cause, Effect, OpError, OperationKind};
use dm_core::remote::catalog::IndexKind;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::kinds::IndexParameters;
use dm_host::pool::Pool;
use dm_host::session::{
    Delete, Insert, OpenError, Session, SessionError, SessionOptions, Update, UpdateIf, Upsert, byte_string,
};
use dm_host::solo;
use session_support::{Waking, block_on, join, options, pool_here, value_of};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Bound;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

mod session_support;

fn open(pool: &Arc<Pool>, options: &SessionOptions) -> Session {
    Session::open_or_create(pool, "index", Parameters::with_sizes(8, 8), options).unwrap()
}

fn small() -> Session {
    open(&pool_here(1), &options(2, 4))
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

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
    assert!(statistics.of(OperationKind::Upsert).round_trips >= 6, "{statistics:?}");
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

#[test]
fn awaited_calls_run_on_the_workers() {
    let session = small();
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let session = session.clone();
            async move {
                session.insert(&key(n), &value_of(n)).await.unwrap();
                session.update(&key(n), &value_of(n + 1)).await.unwrap();
                session.get(&key(n)).await.unwrap()
            }
        })
        .collect();
    for (n, found) in join(tasks).into_iter().enumerate() {
        assert_eq!(found, Some(value_of(n as u64 + 1).to_vec()));
    }
    let keys: Vec<_> = (0..60).map(key).collect();
    let found = block_on(session.multi_get(&keys));
    assert_eq!(found.iter().filter(|found| matches!(found, Ok(Some(_)))).count(), 50);
    // A task that is Send may move between threads between two polls.
    let other = session.clone();
    thread::spawn(move || block_on(async move { other.get(&key(1)).await })).join().unwrap().unwrap();
}

#[test]
fn a_poll_only_queues_and_a_waker_only_tells() {
    let session = small();
    let k = key(1);
    let v = value_of(1);
    let waking = Arc::new(Waking::default());
    let waker = Waker::from(Arc::clone(&waking));
    let mut call = pin!(session.insert(&k, &v));
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // No task polls the call, and it is done all the same.
    waking.sleep();
    assert_eq!(session.get(&k).wait(), Ok(Some(v.to_vec())));
    assert_eq!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(Insert::Inserted)));
}

#[test]
fn a_dropped_future_detaches_its_operation() {
    let session = open(&pool_here(1), &SessionOptions { queue_slots: 8, ..options(1, 2) });
    // Never polled: never queued.
    drop(session.insert(&key(0), &value_of(0)));
    for round in 0..200 {
        let k = key(1 + round % 3);
        let v = value_of(round);
        let mut call = Box::pin(session.upsert(&k, &v));
        // With 8 slots this one queues or gets in line; both are left behind in every state.
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(call);
    }
    // A slot per dropped call would have been lost by now.
    while session.statistics().queued > 0 {
        thread::yield_now();
    }
    assert_eq!(session.get(&key(0)).wait(), Ok(None));
    let (nine, value) = (key(9), value_of(9));
    let mut last = Box::pin(session.insert(&nine, &value));
    let _ = last.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(last);
    let began = Instant::now();
    while session.get(&key(9)).wait() != Ok(Some(value_of(9).to_vec())) {
        assert!(began.elapsed() < Duration::from_secs(20), "the detached insert never ran");
    }
}

#[test]
fn a_full_queue_holds_calls_back_and_loses_none() {
    let session = open(&pool_here(1), &SessionOptions { queue_slots: 2, ..options(1, 1) });
    thread::scope(|scope| {
        for me in 0..4u64 {
            let threads = session.clone();
            scope.spawn(move || {
                for n in 0..200 {
                    threads.upsert(&key(me * 1000 + n), &value_of(n)).wait().unwrap();
                }
            });
            let session = session.clone();
            scope.spawn(move || {
                let tasks = (0..100).map(|n| {
                    let session = session.clone();
                    async move {
                        let (key, value) = (key(10_000 + me * 1000 + n), value_of(n));
                        let mut call = Box::pin(session.insert(&key, &value));
                        // Some give up while they are in line.
                        if n % 5 == 4 {
                            let _ = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                            return;
                        }
                        call.await.unwrap();
                    }
                });
                join(tasks.collect());
            });
        }
    });
    let records = session.validate().unwrap().records;
    assert!((800 + 320..=800 + 400).contains(&records), "{records}");
}

#[test]
fn deadlines_end_waiting() {
    let session = open(&pool_here(1), &SessionOptions { queue_slots: 4, ..options(1, 1) });
    assert_eq!(session.insert(&key(1), &value_of(1)).within(Duration::from_mins(1)).wait(), Ok(Insert::Inserted));
    // No time at all: not started, in either face.
    let late = |result: Result<Upsert, SessionError>| {
        assert!(matches!(result, Err(SessionError::Deadline { .. })), "{result:?}");
        assert_eq!(result.unwrap_err().effect(), Effect::None);
    };
    late(session.upsert(&key(1), &value_of(2)).within(Duration::ZERO).wait());
    late(block_on(session.upsert(&key(1), &value_of(2)).within(Duration::ZERO)));
    for result in session.multi_put(&[(key(1), value_of(2)); 9]).within(Duration::ZERO).wait() {
        late(result);
    }
    // A waker that stops the only worker for a while.
    struct Stall(Duration, AtomicBool);
    impl Wake for Stall {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::SeqCst);
            thread::sleep(self.0);
        }
    }
    let stall = Arc::new(Stall(Duration::from_millis(300), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&stall));
    let one = key(1);
    let mut stalled = Box::pin(session.get(&one));
    assert!(stalled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    while !stall.1.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let began = Instant::now();
    late(session.upsert(&key(1), &value_of(2)).within(Duration::from_millis(50)).wait());
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
    // The withdrawn slot becomes free, and the record is as it was.
    assert_eq!(session.get(&key(1)).wait(), Ok(Some(value_of(1).to_vec())));
    drop(stalled);
    assert_eq!(session.statistics().queued, 0);
}

#[test]
fn a_waker_may_not_wait_but_may_drop_the_session_or_panic() {
    struct Last {
        task: Mutex<Option<Pin<Box<dyn Future<Output = Session> + Send>>>>,
        session: Mutex<Option<Session>>,
        refused: AtomicBool,
    }
    impl Wake for Last {
        fn wake(self: Arc<Self>) {
            let session = self.session.lock().unwrap().take().unwrap();
            let refused = session.get(&key(1)).wait() == Err(SessionError::OnWorker)
                && session.multi_get(&[key(1)]).wait() == [Err(SessionError::OnWorker)]
                && session.validate() == Err(SessionError::OnWorker);
            self.refused.store(refused, Ordering::SeqCst);
            drop(session);
            // The call, and with it the last clone: the worker cannot wait for itself to end.
            drop(self.task.lock().unwrap().take());
            panic!("harms nobody");
        }
    }
    let pool = pool_here(1);
    let session = open(&pool, &options(2, 2));
    let last = Arc::new(Last {
        task: Mutex::default(),
        session: Some(session.clone()).into(),
        refused: AtomicBool::new(false),
    });
    {
        let mut place = last.task.lock().unwrap();
        let task = place.insert(Box::pin(async move {
            session.get(&key(1)).await.unwrap();
            session
        }));
        assert!(task.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&last)))).is_pending());
    }
    let began = Instant::now();
    while Arc::strong_count(&pool) > 1 {
        assert!(began.elapsed() < Duration::from_secs(20), "the session's threads never ended");
        thread::yield_now();
    }
    assert!(last.refused.load(Ordering::SeqCst));
}

#[test]
fn closing_finishes_what_is_queued() {
    for round in 0..10 {
        let pool = pool_here(1);
        let session = open(&pool, &options(2, 2));
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for me in 0..4u64 {
                let (session, done) = (session.clone(), &done);
                scope.spawn(move || {
                    for n in 0.. {
                        match session.insert(&key(me << 32 | n), &value_of(n)).wait() {
                            Ok(inserted) => assert_eq!(inserted, Insert::Inserted),
                            Err(error) => {
                                assert_eq!(error, SessionError::Closed);
                                return;
                            }
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            while done.load(Ordering::SeqCst) < 20 * round {
                thread::yield_now();
            }
            session.close();
        });
        assert_eq!(session.statistics().queued, 0);
        assert_eq!(session.get(&key(0)).wait(), Err(SessionError::Closed));
        assert_eq!(session.validate(), Err(SessionError::Closed));
        session.close();
        // What was acknowledged is there; nothing else is.
        let again = Session::open(&pool, "index", &options(1, 1)).unwrap();
        assert_eq!(again.validate().unwrap().records, done.load(Ordering::SeqCst));
    }
}

#[test]
fn dropping_the_last_clone_closes_and_detached_operations_are_done() {
    let pool = pool_here(1);
    let session = open(&pool, &options(1, 2));
    let keys: Vec<_> = (0..64).map(key).collect();
    for k in &keys {
        let mut call = Box::pin(session.insert(k, k));
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    drop(session);
    let again = Session::open(&pool, "index", &options(1, 1)).unwrap();
    assert_eq!(again.validate().unwrap().records, 64);
}

#[test]
fn a_dead_memory_node_fails_calls_at_once() {
    let pool = pool_here(2);
    let session = open(&pool, &options(2, 4));
    let records: Vec<_> = (0..2000).map(|n| (key(n), value_of(n))).collect();
    assert!(session.multi_put(&records).wait().iter().all(Result::is_ok));
    let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for me in 0..6u64 {
            let (session, stop, failed) = (session.clone(), &stop, &failed);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // Few keys: lanes queue for locks.
                    match session.upsert(&key((n + me) % 7), &value_of(n)).wait() {
                        Ok(_) => {}
                        Err(SessionError::Operation(_) | SessionError::Broken { .. }) => {
                            failed.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        for node in pool.nodes() {
            node.mark_down();
        }
        while failed.load(Ordering::SeqCst) < 100 && began.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(1));
        }
        // Before anything is judged: the threads must end in any case.
        stop.store(true, Ordering::SeqCst);
    });
    assert!(failed.load(Ordering::SeqCst) >= 100, "{failed:?}");
    let error = session.get(&key(1)).wait().unwrap_err();
    assert!(error.to_string().contains("node") || matches!(error, SessionError::Broken { .. }), "{error}");
    assert_eq!(error.effect(), Effect::None);
    let began = Instant::now();
    session.close();
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Takes every lock of the pool for a compute node that does not answer.
fn take_all_locks(pool: &Pool) {
    pool.with_lane(|fabric, lane| {
        for (node, geometry) in (0..).zip(pool.geometry()) {
            for lock in 0..u64::from(geometry.lock_count) {
                let offset = geometry.lock_table + lock * 8;
                let take = Request::cas(Label::Tool, NodeId(node), offset, 0, u64::MAX).in_space(geometry.lock_space);
                assert_eq!(solo::block_on(fabric, lane, lane.port().call(take)).unwrap().value, 0);
            }
        }
    })
    .unwrap();
}

/// The first lane asks for a lock again and again, the others stand behind it in the local queue, parked.
#[test]
fn parked_operations_notice_their_deadlines_and_dead_memory_nodes() {
    let pool = pool_here(1);
    let session = open(&pool, &options(2, 3));
    session.insert(&key(1), &value_of(1)).wait().unwrap();
    take_all_locks(&pool);
    let update = |within_ms| session.update(&key(1), &value_of(2)).within(Duration::from_millis(within_ms)).wait();
    thread::scope(|scope| {
        let patient: Vec<_> = (0..3).map(|_| scope.spawn(|| update(60_000))).collect();
        thread::sleep(Duration::from_millis(30));
        let began = Instant::now();
        for error in [update(60), update(60)].map(Result::unwrap_err) {
            assert!(matches!(error, SessionError::Operation(OpError { cause: Cause::Deadline { .. }, .. })), "{error}");
            assert_eq!(error.effect(), Effect::None);
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        // On a busy machine a READ may take too long for versions to vouch for it, and is repeated under the lock: not
        // every time.
        let found = (0..10).find_map(|_| session.get(&key(1)).within(Duration::from_secs(1)).wait().ok());
        assert_eq!(found, Some(Some(value_of(1).to_vec())), "readers need no lock");
        pool.nodes()[0].mark_down();
        for waiting in patient {
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("memory node down"), "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(10));
    });
    session.close();
}

#[test]
fn statistics_can_be_scraped_while_the_session_is_open() {
    let pool = pool_here(1);
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let session = open(&pool, &SessionOptions { metrics: Some(anywhere), ..options(1, 2) });
    assert!(open(&pool, &options(1, 2)).metrics().is_none(), "off unless asked for");
    let address = session.metrics().unwrap();
    session.insert(&key(1), &value_of(1)).wait().unwrap();
    session.get(&key(1)).wait().unwrap();
    session.get(&key(2)).wait().unwrap();
    let scrape = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let text = scrape().unwrap();
    let row = format!("dm_session_row {}\n", session.member().row.0);
    for line in ["operations_total{operation=\"get\"} 2\n", "operations_total{operation=\"insert\"} 1\n", &row] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let taken = SessionOptions { metrics: Some(address), ..options(1, 2) };
    let error = Session::open(&pool, "index", &taken).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot serve metrics at {address}: ")), "{error}");
    session.close();
    assert!(scrape().is_err(), "closed with the session");
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
