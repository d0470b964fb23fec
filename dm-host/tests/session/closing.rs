//! The end of a session, and of a memory node; statistics.

use crate::session_support::{options, pool_here, value_of};
use crate::{key, open};
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::pool::Pool;
use dm_host::session::{Insert, Session, SessionError, SessionOptions};
use dm_host::solo;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

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
    let of = format!("{{pool=\"embedded\",index=\"index\",row=\"{}\"", session.member().row.0);
    for line in [
        format!("operations_total{of},operation=\"get\"}} 2\n"),
        format!("operations_total{of},operation=\"insert\"}} 1\n"),
        format!("latency_seconds_count{of},operation=\"get\"}} 2\n"),
        format!("latency_seconds_bucket{of},operation=\"get\",le=\"+Inf\"}} 2\n"),
        format!("dm_session_incarnation{of}}} {}\n", session.member().incarnation),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
    // A second session of the process is on the same page; another process's address is refused.
    let second = open(&pool, &SessionOptions { metrics: Some(address), ..options(1, 2) });
    let text = scrape().unwrap();
    assert_eq!(text.matches("\ndm_session_incarnation{").count(), 2, "{text}");
    second.close();
    assert_eq!(scrape().unwrap().matches("\ndm_session_incarnation{").count(), 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused = SessionOptions { metrics: Some(address), ..options(1, 2) };
    let error = Session::open(&pool, "index", &refused).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot serve metrics at {address}: ")), "{error}");
    session.close();
    assert!(scrape().is_err(), "closed with the session");
}
