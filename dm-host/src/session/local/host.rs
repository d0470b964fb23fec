//! Lends the index of a session to its local handles: the index lies on the supervisor's stack, and handles have no
//! lifetime.
//!
//! A handle's lanes and futures borrow the index. The supervisor takes the index away only when no handle has any: it
//! waits for the last one, as a scope of threads waits for its threads. A handle that is never dropped (`mem::forget`)
//! makes it wait for ever.

use super::work::LocalWork;
use crate::fabric::any::AnyFabric;
use crate::worker::WorkerError;
use dm_core::verbs::LaneId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Drives the lanes of one handle: [`crate::worker::attend`].
type Driving<'h> = Pin<Box<dyn Future<Output = WorkerError> + 'h>>;

/// What handles need of the index.
pub(in crate::session) trait Host: Sync {
    /// Lanes `first` and up, and what drives them.
    fn drive<'h>(&'h self, first: LaneId, lanes: usize, fabric: AnyFabric, work: LocalWork<'h>) -> Driving<'h>;

    /// Notes that lanes may have locks that nobody releases.
    fn note_unsettled(&self);
}

#[derive(Default)]
struct State {
    /// `None`: the session has not begun, or it closes.
    host: Option<&'static dyn Host>,
    /// Places of handles that are free.
    free: Vec<usize>,
    lent: usize,
}

/// Where a session lends its index.
#[derive(Default)]
pub(in crate::session) struct Lending {
    state: Mutex<State>,
    returned: Condvar,
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending").field("lent", &self.lent()).finish_non_exhaustive()
    }
}

/// Why there is no handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Refused {
    /// The session closes.
    Closed,
    /// There are as many handles as the session has lanes for.
    NoPlace,
}

impl Lending {
    /// For `places` handles at a time.
    pub(in crate::session) fn new(places: usize) -> Self {
        let state = State { free: (0..places).rev().collect(), ..State::default() };
        Self { state: Mutex::new(state), returned: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves whole structures: each critical section changes one thing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles that exist.
    pub(in crate::session) fn lent(&self) -> usize {
        self.state().lent
    }

    /// Lends no more; what is lent stays so.
    pub(in crate::session) fn end(&self) {
        self.state().host = None;
    }

    /// Waits for handles to be returned, at most that long. Returns how many are left.
    pub(in crate::session) fn wait(&self, time: Duration) -> usize {
        let state = self.state();
        if state.lent == 0 {
            return 0;
        }
        self.returned.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0.lent
    }

    /// Lends `host` while `during` runs, and returns when nothing is lent any more.
    pub(in crate::session) fn lend<R>(&self, host: &dyn Host, during: impl FnOnce() -> R) -> R {
        // SAFETY: only the lifetime changes, so both types have one layout. The reference must not be used after
        // `host`'s own lifetime, which outlives this call. It is copied from here to `State::host`, and from there to
        // `Lent`s only, under the mutex that also counts them. `TakeBack` is dropped before this call returns, also if
        // `during` panics; it empties `State::host` and then waits until the count is 0, under the same mutex. A `Lent`
        // counts down in its drop, after which it is not used, and `Driver` drops the future, which borrows `host`,
        // before its `Lent`. All this is private to this module. A `Lent` that is leaked keeps this call from returning.
        let host = unsafe { std::mem::transmute::<&dyn Host, &'static (dyn Host + 'static)>(host) };
        let _take_back = TakeBack(self);
        self.state().host = Some(host);
        during()
    }

    fn borrow(self: &Arc<Self>) -> Result<Lent, Refused> {
        let mut state = self.state();
        let host = state.host.ok_or(Refused::Closed)?;
        let place = state.free.pop().ok_or(Refused::NoPlace)?;
        state.lent += 1;
        Ok(Lent { host, place, lending: Arc::clone(self) })
    }
}

/// Takes the index back when it is dropped.
struct TakeBack<'l>(&'l Lending);

impl Drop for TakeBack<'_> {
    fn drop(&mut self) {
        self.0.end();
        let mut state = self.0.state();
        while state.lent != 0 {
            state = self.0.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The index, lent to one handle.
struct Lent {
    host: &'static dyn Host,
    place: usize,
    lending: Arc<Lending>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut state = self.lending.state();
        state.lent -= 1;
        state.free.push(self.place);
        drop(state);
        self.lending.returned.notify_all();
    }
}

/// The lanes of one handle, driven by the thread that polls it. Not `Send`: lanes and futures stay on their thread.
pub(in crate::session) struct Driver {
    // Before `lent`: fields are dropped in this order.
    driving: Driving<'static>,
    lent: Lent,
}

impl Driver {
    /// Lanes of a handle's own: as many as `lanes`, above `first` and those of other handles.
    pub(in crate::session) fn new(
        lending: &Arc<Lending>,
        first: usize,
        lanes: usize,
        fabric: AnyFabric,
        work: impl FnOnce(usize) -> LocalWork<'static>,
    ) -> Result<Self, Refused> {
        let lent = lending.borrow()?;
        let first = LaneId((first + lent.place * lanes) as u16);
        let driving = lent.host.drive(first, lanes, fabric, work(lent.place));
        Ok(Self { driving, lent })
    }

    /// Lets the lanes go on until all are idle. `Some`: none can go on; it must not be polled again.
    pub(in crate::session) fn poll(&mut self) -> Option<WorkerError> {
        match self.driving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(error) => Some(error),
            Poll::Pending => None,
        }
    }

    pub(in crate::session) fn note_unsettled(&self) {
        self.lent.host.note_unsettled();
    }
}
