//! Calls as futures: wakers, queues, deadlines.

use crate::session_support::{Waking, block_on, join, options, pool_here, value_of};
use crate::{key, open, small};
use dm_core::operation::Effect;
use dm_host::session::{Insert, Session, SessionError, SessionOptions, Upsert};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

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
