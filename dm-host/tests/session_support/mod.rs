//! What tests of sessions share: a pool in this process, self-checking values, an executor of thirty lines.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod daemons;

use dm_core::dex::parameters::{Cut, Parameters};
use dm_host::pool::{EmbeddedOptions, Pool};
use dm_host::region::LineMode;
use dm_host::session::{Session, SessionOptions};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A pool of `nodes` memory nodes in memory of this process.
pub fn pool_here(nodes: u16) -> Arc<Pool> {
    let options = EmbeddedOptions {
        memory_nodes: nodes,
        chunk_bytes: 65_536,
        // Few, so that nodes share locks.
        locks: 61,
        device_bytes: 65_536,
        lines: LineMode::Sequence,
        ..EmbeddedOptions::new(16 << 20)
    };
    Pool::embedded_with(&options).unwrap()
}

/// A small session.
pub fn options(workers: usize, lanes_per_worker: usize) -> SessionOptions {
    let mut options = SessionOptions { workers, lanes_per_worker, queue_slots: 64, ..SessionOptions::default() };
    options.spending.cache_bytes = 1 << 20;
    options
}

/// A session with fewer pages than its index has leaves, and a log that comes round.
pub fn small_pages() -> SessionOptions {
    let mut options = options(1, 4);
    options.spending.page_cache_bytes = 128 << 10;
    options.spending.log_lines = 0;
    options
}

/// An index whose keys below `keys` are in `entries` ranges.
pub fn in_ranges(keys: u64, entries: u32) -> Parameters {
    let cut = Cut::Even { first: 0, last: keys - 1 };
    Parameters { entries, cut, ..Parameters::with_sizes(8, 8) }
}

/// A value that tells a sequence number, and whether it is whole.
pub fn value_of(sequence: u64) -> [u8; 8] {
    let sum = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    (sequence << 8 | sum).to_le_bytes()
}

/// The update that a writer of `keys` keys makes at a step: which key, and to what.
pub const fn update_of(keys: u64, step: u64) -> (u64, u64) {
    (step * 7919 % keys, keys + step)
}

/// A writer of keys 0 to `keys` made the updates of [`update_of`], and died when it had said that step `last` was acknowledged. Each
/// key has the value of the last step, or of the one behind it, within `patience`: until the ranges of the dead have been taken over.
pub fn has_updates_of_the_dead(session: &Session, keys: u64, last: u64, patience: Duration) {
    let mut values: Vec<Vec<u64>> = (0..keys).map(|number| vec![number]).collect();
    for step in 0..=last {
        let (number, next) = update_of(keys, step);
        values[number as usize] = vec![next];
    }
    // Perhaps the next one was made, too.
    let (number, next) = update_of(keys, last + 1);
    values[number as usize].push(next);
    let began = Instant::now();
    for (number, values) in (0..keys).zip(&values) {
        let found = loop {
            match session.get(&number.to_be_bytes()).wait() {
                Ok(found) => break found.unwrap(),
                Err(error) => assert!(began.elapsed() < patience, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(values.iter().any(|&value| found == value_of(value)), "key {number}: none of {values:?}");
    }
    assert_eq!(session.validate().unwrap().records, keys);
}

/// Sleeps until woken.
#[derive(Default)]
pub struct Waking {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Waking {
    pub fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            let (guard, time) = self.changed.wait_timeout(woken, Duration::from_mins(1)).unwrap();
            assert!(!time.timed_out(), "nobody wakes this task");
            woken = guard;
        }
        *woken = false;
    }
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Runs one task.
pub fn block_on<T>(task: impl Future<Output = T>) -> T {
    let waking = Arc::new(Waking::default());
    let waker = Waker::from(Arc::clone(&waking));
    let mut task = pin!(task);
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => waking.sleep(),
        }
    }
}

/// Runs many tasks, each polled only when its own waker was woken.
pub fn join<T, F: Future<Output = T>>(tasks: Vec<F>) -> Vec<T> {
    struct Task {
        at: usize,
        due: Arc<(Mutex<Vec<usize>>, Arc<Waking>)>,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.due.0.lock().unwrap().push(self.at);
            Arc::clone(&self.due.1).wake();
        }
    }
    let due = Arc::new((Mutex::new((0..tasks.len()).collect::<Vec<_>>()), Arc::new(Waking::default())));
    let mut results: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let mut tasks: Vec<Option<Pin<Box<F>>>> = tasks.into_iter().map(|task| Some(Box::pin(task))).collect();
    let wakers: Vec<_> = (0..tasks.len()).map(|at| Waker::from(Arc::new(Task { at, due: Arc::clone(&due) }))).collect();
    let mut left = tasks.len();
    while left > 0 {
        let now = std::mem::take(&mut *due.0.lock().unwrap());
        if now.is_empty() {
            due.1.sleep();
        }
        for at in now {
            let Some(task) = &mut tasks[at] else { continue };
            if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&wakers[at])) {
                results[at] = Some(result);
                tasks[at] = None;
                left -= 1;
            }
        }
    }
    results.into_iter().flatten().collect()
}
