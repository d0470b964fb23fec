//! Operations on the caller's own thread.

mod host;
mod work;

pub(super) use host::{Host, Lending};
pub(super) use work::LocalWork;

use super::deadline::Deadline;
use super::error::{OpenError, SessionError};
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::page::Page;
use super::queue::Body;
use super::request::{Arguments, Request, Shape};
use super::scan::LocalScan;
use super::{Handle, Session};
use crate::worker::WorkerError;
use dm_core::operation::{Effect, OpError};
use host::{Driver, Refused};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use work::Jobs;

/// Operations of one call that are in memory at a time, per lane. Results are taken when all of them have ended, so that
/// lanes are idle once in so many operations.
const JOBS_PER_LANE: usize = 32;

/// A handle whose operations run on the thread that calls them, on lanes of its own: no queue, no other thread to wake.
///
/// ```
/// use dm_host::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = Pool::embedded(16 << 20)?;
/// let table = Table::<u64, u64>::open(&pool, "squares")?;
/// std::thread::scope(|scope| {
///     for from in [0, 1000] {
///         let table = &table;
///         scope.spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///             let squares = table.local()?;
///             for n in from..from + 1000 {
///                 squares.insert(n, n * n)?;
///             }
///             Ok(())
///         });
///     }
/// });
/// assert_eq!(table.count(..)?, 2000);
/// # Ok(())
/// # }
/// ```
///
/// Its calls block, and return results instead of [`Call`](super::Call)s. Those of many operations overlap their round
/// trips, as many as the session has lanes per worker. It shares the index cache, the local lock table and the row in
/// the pool with its session. A session has lanes for [`SessionOptions::local_handles`](super::SessionOptions) handles
/// at a time.
///
/// **Speed.** A call takes 1.2 to 1.45 times as long as the engine alone, and an operation of a call with many 1.1 to 1.4 times
/// (example `session_speed`, records of 16 bytes on shared memory). On a busy machine a blocking get or put took 1.0 to 2.0 us, and at
/// best 0.6 to 1.2 us.
///
/// **Between calls** a handle does nothing, and nobody waits for it: a call returns when its lanes hold no lock, have no
/// request in flight, and have settled what a failed operation left. It pins no epoch. The session's own threads go on
/// renewing the lease, telling the epochs, and collecting memory. So a handle may be idle for as long as its owner likes.
///
/// **While a call runs**, its thread serves its lanes: another lane that passes a lock on wakes it.
///
/// **The end.** Dropping a handle frees its lanes for another one. [`Session::close`] ends further calls with
/// [`SessionError::Closed`]. The session leaves the pool when its last handle has been dropped; `close` waits for what
/// is queued, but not for handles, since one of them may be the caller's.
///
/// It is neither `Send` nor `Sync`: futures of operations stay on the thread where they began.
pub struct Local {
    driver: RefCell<Driver>,
    jobs: Rc<RefCell<Jobs>>,
    shape: Shape,
    jobs_max: usize,
    limit: Cell<Option<Duration>>,
    /// Set while the lanes run: still set, if they panicked.
    running: Cell<bool>,
    /// Why no lane can go on.
    broken: Cell<Option<OpError>>,
    // Last: if this is the session's last reference, dropping it waits for what is lent.
    handle: Arc<Handle>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("session", &self.handle).finish_non_exhaustive()
    }
}

impl Session {
    /// A handle whose operations run on the calling thread: see [`Local`].
    pub fn local(&self) -> Result<Local, OpenError> {
        let shared = Arc::clone(&self.handle.shared);
        let fabric = self.handle.pool.fabric()?;
        let jobs = Rc::<RefCell<Jobs>>::default();
        let lanes = shared.lanes_per_worker;
        let first = shared.first_lane + shared.queues.len() * lanes;
        let work = |place| LocalWork::new(Rc::clone(&jobs), Arc::clone(&shared), place, lanes);
        let driver = Driver::new(&shared.lending, first, lanes, fabric, work).map_err(|refused| match refused {
            Refused::Closed => OpenError::Closed,
            Refused::NoPlace => OpenError::LocalHandles { max: shared.sums_of_handles.len() },
        })?;
        Ok(Local {
            driver: RefCell::new(driver),
            jobs,
            shape: shared.shape,
            jobs_max: lanes * JOBS_PER_LANE,
            limit: Cell::new(None),
            running: Cell::new(false),
            broken: Cell::new(None),
            handle: Arc::clone(&self.handle),
        })
    }
}

impl Local {
    /// Gives each further operation so much time; `None`: 20 s. Of many operations in one call, each has the time from
    /// when it is the first that waits for a lane. See [`Call::within`](super::Call::within) for what then happens.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.limit.set(limit);
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    // ---- running ---------------------------------------------------------------------------------------------

    /// Runs one operation.
    pub(super) fn run<T>(&self, request: Request<'_, T>) -> Result<T, SessionError> {
        let Request { arguments, fetch } = request;
        let mut arguments = arguments?;
        self.check()?;
        self.queue(0, &arguments);
        self.drive();
        let ended = self.jobs.borrow_mut().ended.pop();
        // No lane ran it: none is left.
        let Some((_, mut body)) = ended else { return Err(self.ended()) };
        // Decoding may run code of the application, so nothing is borrowed meanwhile.
        let result = body.result.and_then(|outcome| fetch(outcome, &mut body, &mut arguments.room));
        self.jobs.borrow_mut().spare.push(body);
        result
    }

    /// Runs many operations. Their results have the order of `requests`.
    pub(super) fn run_all<'a, T>(
        &self,
        requests: impl IntoIterator<Item = Request<'a, T>>,
    ) -> Vec<Result<T, SessionError>> {
        let mut requests = requests.into_iter();
        let mut results: Vec<Option<Result<T, SessionError>>> = Vec::with_capacity(requests.size_hint().0);
        loop {
            // First all of a batch: the iterator may run code of the application.
            let batch: Vec<_> = requests.by_ref().take(self.jobs_max).collect();
            if batch.is_empty() {
                return results.into_iter().map(|result| result.unwrap_or_else(|| Err(self.ended()))).collect();
            }
            let first = results.len();
            let check = self.check();
            for (number, request) in batch.iter().enumerate() {
                results.push(match check.and(request.arguments.as_ref().map_err(|refused| *refused)) {
                    Ok(arguments) => {
                        self.queue(number, arguments);
                        None
                    }
                    Err(error) => Some(Err(error)),
                });
            }
            if check.is_ok() {
                self.drive();
            }
            let mut ended = std::mem::take(&mut self.jobs.borrow_mut().ended);
            for (number, body) in &mut ended {
                let fetch = batch[*number].fetch;
                results[first + *number] = Some(body.result.and_then(|outcome| fetch(outcome, body, &mut None)));
            }
            let mut jobs = self.jobs.borrow_mut();
            jobs.spare.extend(ended.drain(..).map(|(_, body)| body));
            // Keeps the room.
            jobs.ended = ended;
        }
    }

    /// Whether operations can be begun.
    fn check(&self) -> Result<(), SessionError> {
        if self.running.get() {
            return Err(SessionError::Panicked { effect: Effect::None });
        }
        if let Some(last) = self.broken.get() {
            return Err(SessionError::Broken { last });
        }
        if self.handle.shared.on_worker() {
            return Err(SessionError::OnWorker);
        }
        if self.handle.shared.is_closing() { Err(SessionError::Closed) } else { Ok(()) }
    }

    fn queue(&self, number: usize, arguments: &Arguments<'_>) {
        let Shape { key_bytes, value_bytes, have_lengths, .. } = self.shape;
        let mut jobs = self.jobs.borrow_mut();
        let mut body = jobs.spare.pop().unwrap_or_else(|| Box::new(Body::new(key_bytes, value_bytes, have_lengths)));
        arguments.fill(&mut body, self.limit.get().and_then(Deadline::after));
        jobs.queued.push_back(((number, body), true));
    }

    /// Runs what is queued to its end.
    fn drive(&self) {
        let mut driver = self.driver.borrow_mut();
        self.running.set(true);
        loop {
            if let Some(WorkerError::Broken { last }) = driver.poll() {
                tracing::error!("a local handle stopped: {last}");
                self.broken.set(Some(last));
                break;
            }
            if self.jobs.borrow().queued.is_empty() {
                break;
            }
        }
        self.running.set(false);
        // What a broken handle did not begin.
        self.jobs.borrow_mut().queued.clear();
    }

    /// The error of operations that were not begun.
    fn ended(&self) -> SessionError {
        self.broken.get().map_or(SessionError::Closed, |last| SessionError::Broken { last })
    }

    // ---- operations ------------------------------------------------------------------------------------------

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, SessionError> {
        self.run(self.shape.get(key))
    }

    /// As [`Session::get_into`].
    pub fn get_into(&self, key: &[u8], value: &mut [u8]) -> Result<bool, SessionError> {
        self.run(self.shape.get_into(key, value))
    }

    /// Whether `key` has a record.
    pub fn exists(&self, key: &[u8]) -> Result<bool, SessionError> {
        self.run(self.shape.exists(key))
    }

    /// Adds a record if its key is absent.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Insert, SessionError> {
        self.run(self.shape.insert(key, value))
    }

    /// Replaces the value of a key that exists.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<Update, SessionError> {
        self.run(self.shape.update(key, value))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert(&self, key: &[u8], value: &[u8]) -> Result<Upsert, SessionError> {
        self.run(self.shape.upsert(key, value))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<UpdateIf, SessionError> {
        self.run(self.shape.update_if(key, expected, value))
    }

    /// Removes a key.
    pub fn delete(&self, key: &[u8]) -> Result<Delete, SessionError> {
        self.run(self.shape.delete(key))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if(&self, key: &[u8], expected: &[u8]) -> Result<DeleteIf, SessionError> {
        self.run(self.shape.delete_if(key, expected))
    }

    /// As [`Session::page`].
    pub fn page(&self, low: Bound<&[u8]>, high: Bound<&[u8]>, records: usize) -> Result<Page, SessionError> {
        self.run(self.shape.page(low.map(Cow::Borrowed), high.map(Cow::Borrowed), records))
    }

    /// The records between `low` and `high`, in ascending order. As [`Session::scan`].
    pub fn scan(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> LocalScan<'_> {
        LocalScan::new(self, low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec))
    }

    /// The values of many keys.
    pub fn multi_get<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<Result<Option<Vec<u8>>, SessionError>> {
        self.run_all(keys.into_iter().map(|key| self.shape.get(key)))
    }

    /// Which of many keys have records.
    pub fn multi_exists<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<bool, SessionError>> {
        self.run_all(keys.into_iter().map(|key| self.shape.exists(key)))
    }

    /// Adds many records, where their keys are absent.
    pub fn multi_insert<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Vec<Result<Insert, SessionError>> {
        self.run_all(records.into_iter().map(|(key, value)| self.shape.insert(key, value)))
    }

    /// Replaces the values of many keys, where these exist.
    pub fn multi_update<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Vec<Result<Update, SessionError>> {
        self.run_all(records.into_iter().map(|(key, value)| self.shape.update(key, value)))
    }

    /// Upserts many records. If several have the same key, any of them may be the last.
    pub fn multi_put<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Vec<Result<Upsert, SessionError>> {
        self.run_all(records.into_iter().map(|(key, value)| self.shape.upsert(key, value)))
    }

    /// Replaces the values of many keys, where these are the expected ones: of each key, the expected value and the
    /// new one.
    pub fn multi_update_if<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8], &'a [u8])>,
    ) -> Vec<Result<UpdateIf, SessionError>> {
        self.run_all(records.into_iter().map(|(key, expected, value)| self.shape.update_if(key, expected, value)))
    }

    /// Removes many keys.
    pub fn multi_delete<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<Delete, SessionError>> {
        self.run_all(keys.into_iter().map(|key| self.shape.delete(key)))
    }

    /// Removes many keys, where their values are the expected ones.
    pub fn multi_delete_if<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Vec<Result<DeleteIf, SessionError>> {
        self.run_all(records.into_iter().map(|(key, expected)| self.shape.delete_if(key, expected)))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.running.get() {
            // The lanes panicked, so that locks may be held.
            self.driver.get_mut().note_unsettled();
            self.jobs.borrow_mut().clear();
        }
    }
}
