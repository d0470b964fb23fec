//! One call: the operation, and its result to come.

use super::Session;
use super::deadline::Deadline;
use super::error::SessionError;
use super::queue::{Claim, Waiter};
use super::request::{Arguments, Fetch, Request};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

/// The session of a call or a scan: borrowed, or a clone.
#[derive(Debug)]
pub(super) enum SessionOf<'a> {
    Lent(&'a Session),
    Own(Session),
}

impl SessionOf<'_> {
    pub(super) fn own(self) -> SessionOf<'static> {
        SessionOf::Own(match self {
            Self::Lent(session) => session.clone(),
            Self::Own(session) => session,
        })
    }
}

impl Deref for SessionOf<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            Self::Lent(session) => session,
            Self::Own(session) => session,
        }
    }
}

#[derive(Debug)]
pub(super) enum Stage {
    New,
    /// In line for a free slot of this queue.
    Waiting {
        queue: usize,
        ticket: u64,
    },
    Queued {
        queue: usize,
        slot: u32,
    },
    Ended,
}

/// An operation and its result to come: wait for it with [`Call::wait`], or await it.
///
/// Nothing happens before either: a call that is dropped unused has no effect. Once it has been waited for or polled,
/// it is queued as soon as there is room, and runs on a worker thread whether or not it is polled again. **Dropping it
/// then detaches it:** an operation that was queued runs to its end, and its result is lost; one that was still in line
/// for room in the queue is forgotten.
///
/// A call that has been polled and not dropped keeps its place in a queue until its result is taken. A task that polls
/// many calls once, and then neither polls nor drops them, keeps other calls out.
///
/// It is `Send` - a task may move between threads - and needs no particular executor.
#[derive(Debug)]
#[must_use = "a call does nothing until it is waited for or awaited"]
pub struct Call<'a, T> {
    pub(super) session: SessionOf<'a>,
    arguments: Result<Arguments<'a>, SessionError>,
    fetch: Fetch<T>,
    pub(super) deadline: Option<Deadline>,
    pub(super) stage: Stage,
    /// What it was begun together with, if anything: see [`Queue::submit`](super::queue::Queue::submit).
    pub(super) group: u64,
}

pub(super) enum Started {
    Queued {
        queue: usize,
        slot: u32,
    },
    /// Registered; the waiter is woken when there is room.
    InLine,
    /// Not registered.
    NoRoom,
}

impl<'a, T> Call<'a, T> {
    pub(super) fn new(session: &'a Session, request: Request<'a, T>) -> Self {
        let Request { arguments, fetch } = request;
        Self { session: SessionOf::Lent(session), arguments, fetch, deadline: None, stage: Stage::New, group: 0 }
    }

    /// The same call with a clone of the session and copies of what it borrows: a future that is `Send` and `'static`, for
    /// a task of its own.
    ///
    /// ```
    /// # use dm_host::prelude::*;
    /// # fn spawn(_: impl Future<Output = Result<Option<u64>, SessionError>> + Send + 'static) {}
    /// # fn elsewhere(table: &Table<&str, u64>, name: &str) {
    /// spawn(table.get(name).owned());
    /// # }
    /// ```
    ///
    /// A call that copies into the caller's memory ([`Session::get_into`]) cannot be owned, and fails.
    pub fn owned(mut self) -> Call<'static, T> {
        let arguments = std::mem::replace(&mut self.arguments, Err(SessionError::Closed));
        let session = SessionOf::Own(self.session.clone());
        // What this call has begun, the other one goes on with.
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        Call {
            session,
            arguments: arguments.and_then(Arguments::owned),
            fetch: self.fetch,
            deadline: self.deadline,
            stage,
            group: self.group,
        }
    }

    /// Gives the call a deadline, from now on; time in the queue counts. An operation that has not been started by then
    /// is never started ([`SessionError::Deadline`]). One that waits for locks or repeats itself gives up
    /// ([`dm_core::operation::Cause::Deadline`]) and says what it did. The operation still waits for requests that a
    /// memory node is executing.
    ///
    /// Without a deadline, an operation has 20 s from its start, and no bound on its time in the queue.
    ///
    /// A call that is awaited has no clock of its own. While it is queued, the worker checks the deadline when it comes
    /// to the operation; while it is in line for room, each poll checks it.
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = Deadline::after(time);
        self
    }

    /// Runs the operation and blocks until it has ended.
    pub fn wait(mut self) -> Result<T, SessionError> {
        self.wait_here()
    }

    /// As [`Call::wait`], of a call that somebody keeps.
    pub(super) fn wait_here(&mut self) -> Result<T, SessionError> {
        if self.session.on_worker() {
            return Err(SessionError::OnWorker);
        }
        self.block()
    }

    /// As [`Call::wait`], of a call that may have been queued without a waiter.
    pub(super) fn block(&mut self) -> Result<T, SessionError> {
        let waiter = || Waiter::Thread(thread::current());
        loop {
            match self.stage {
                Stage::Queued { queue, slot } => {
                    if let Some(result) = self.take(Some(waiter())) {
                        return result;
                    }
                    return self.block_queued(queue, slot);
                }
                _ => match self.start(Some(&waiter))? {
                    Started::Queued { queue, slot } => return self.block_queued(queue, slot),
                    Started::InLine => self.park(),
                    Started::NoRoom => {}
                },
            }
            self.check_deadline()?;
        }
    }

    fn block_queued(&mut self, queue: usize, slot: u32) -> Result<T, SessionError> {
        // Spinning pays when the operation takes less time than sleeping and being woken.
        let (place, shared) = (queue, self.session.shared());
        shared.spin.until(|| shared.queues[place].is_finished(slot));
        let mut running = false;
        loop {
            // The waiter is registered. If the park returns for another reason, look once more.
            if self.session.shared().queues[place].is_finished(slot)
                && let Some(result) = self.take(None)
            {
                return result;
            }
            if running {
                thread::park();
                continue;
            }
            if let Err(error) = self.check_deadline() {
                if self.session.shared().queues[place].withdraw(slot) {
                    self.stage = Stage::Ended;
                    return Err(error);
                }
                // The operation ends by itself: it knows the deadline.
                running = true;
                continue;
            }
            self.park();
        }
    }

    fn park(&self) {
        match self.deadline {
            None => thread::park(),
            Some(deadline) => thread::park_timeout(deadline.left().unwrap_or_default()),
        }
    }

    fn check_deadline(&self) -> Result<(), SessionError> {
        match self.deadline {
            Some(deadline) => deadline.left().map(drop),
            None => Ok(()),
        }
    }

    /// Queues the operation, or gets in line for room; without a `waiter` it does not get in line.
    pub(super) fn start(&mut self, waiter: Option<&dyn Fn() -> Waiter>) -> Result<Started, SessionError> {
        let arguments = self.arguments.as_ref().map_err(|refused| *refused)?;
        let queues = &self.session.shared().queues;
        loop {
            // A call in line stays in this line, so that a wake-up for a slot of this queue is not spent on another
            // queue.
            let (queue, mut ticket) = match self.stage {
                Stage::Waiting { queue, ticket } => (queue, Some(ticket)),
                _ => (self.session.choose(), None),
            };
            let claim = queues[queue].claim(waiter, &mut ticket);
            self.stage = match ticket {
                Some(ticket) => Stage::Waiting { queue, ticket },
                None => Stage::New,
            };
            let end = match claim {
                Claim::Slot(slot) => {
                    // Others of its group follow at once, unless somebody waits for this one.
                    let follows = self.group != 0 && waiter.is_none();
                    let waiter = waiter.map_or(Waiter::Nobody, |waiter| waiter());
                    match queues[queue]
                        .submit(slot, (self.group, follows), waiter, |body| arguments.fill(body, self.deadline))
                    {
                        Ok(()) => {
                            self.stage = Stage::Queued { queue, slot };
                            return Ok(Started::Queued { queue, slot });
                        }
                        Err(end) => end,
                    }
                }
                Claim::Full if waiter.is_some() => return Ok(Started::InLine),
                Claim::Full => return Ok(Started::NoRoom),
                Claim::Ended(end) => end,
            };
            self.stage = Stage::New;
            if !self.session.any_open() {
                return Err(end.error());
            }
        }
    }

    /// Takes the result, if there is one.
    fn take(&mut self, waiter: Option<Waiter>) -> Option<Result<T, SessionError>> {
        let Stage::Queued { queue, slot } = self.stage else { return None };
        let fetch = self.fetch;
        let room = match &mut self.arguments {
            Ok(arguments) => &mut arguments.room,
            Err(_) => &mut None,
        };
        let result =
            self.session.shared().queues[queue].take(slot, waiter, |outcome, body| fetch(outcome, body, room))?;
        self.stage = Stage::Ended;
        Some(result.flatten())
    }

    /// Polls without regard to pinning: nothing in a call points into it.
    pub(super) fn look(&mut self, context: &mut Context<'_>) -> Poll<Result<T, SessionError>> {
        let waiter = || Waiter::Task(context.waker().clone());
        if let Stage::Queued { queue, slot } = self.stage {
            // `is_finished` is a hint and may lag; registering decides.
            let waiter = (!self.session.shared().queues[queue].is_finished(slot)).then(waiter);
            return self.take(waiter).map_or(Poll::Pending, Poll::Ready);
        }
        if matches!(self.stage, Stage::Waiting { .. }) {
            self.check_deadline()?;
        }
        match self.start(Some(&waiter)) {
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<T> Future for Call<'_, T> {
    type Output = Result<T, SessionError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().look(context)
    }
}

impl<T> Drop for Call<'_, T> {
    fn drop(&mut self) {
        let queues = &self.session.shared().queues;
        match self.stage {
            Stage::Waiting { queue, ticket } => queues[queue].leave_line(ticket),
            Stage::Queued { queue, slot } => queues[queue].detach(slot),
            _ => {}
        }
    }
}
