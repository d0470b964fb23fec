//! The mailbox between one operation and its driver.
//!
//! An index operation is an `async fn` that pushes requests and awaits [`Port::submit`]. One await is one round trip.
//! The driver (a worker thread, firmware, a simulator) polls the future with a waker that does nothing. It finds the
//! requests in the port, executes them, delivers the completions and polls again.
//!
//! *Ownership of the scratch* passes to the driver with a submit ([`Port::begin`]) and returns with the completions
//! ([`Port::finish`]). So no reference exists while a NIC writes. Algorithms keep offsets, and look at bytes through
//! [`Port::with`], whose borrow cannot cross an await.
//!
//! ```text
//!            push, submit                      begin
//!   Idle ───────────────────► Submitted ───────────────► InFlight
//!    ▲                                                      │ complete*, finish
//!    └──────────── the future is polled again ◄─────── Completed
//! ```
//!
//! A future that is dropped between submit and completion leaves the port *in doubt* ([`Port::in_doubt`]). The requests
//! go on, and the lane's records ([`crate::lane::LockRecords`]) say what has to be settled before the lane is used
//! again.
//!
//! A driver's call that does not follow the picture returns a [`Misuse`] and has no effect, in every build. The check
//! is a word of one bit per request that is under way: `begin` sets it, [`Port::complete`] tests and clears a bit, and
//! `finish` compares it with zero. That is three instructions per completion on a word in the line of the port's state,
//! which the call writes anyway. A round trip takes a hundred times as long.

use crate::error::{Misuse, VerbError};
use crate::mutants::{Mutant, planted};
use crate::verbs::{Completion, Flags, Label, NodeId, Request, Status, Verb};
use core::cell::{Cell, Ref, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU32;
use core::task::{Context, Poll};
use heapless::Vec;
use static_assertions::const_assert;

/// Most requests of one submit. A scan READs this many leaves at once.
pub const OUTBOX_REQUESTS: usize = 16;

/// One bit per request of a submit. 32 bits, although 16 would do: compilers load an aligned word of 16 bits as 32, and a
/// load that is wider than the store before it waits until that store has reached the cache.
type Positions = u32;
const_assert!(Positions::BITS as usize > OUTBOX_REQUESTS);

/// State of the port; see the picture in the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The lane computes, or has nothing to do.
    Idle,
    /// Requests wait for the driver.
    Submitted,
    /// The driver has the scratch.
    InFlight,
    /// Completions wait for the lane.
    Completed,
}

/// Starts to bring the cache line of a word near, from this machine's memory, without waiting for it.
pub type Fetch = fn(&AtomicU32);

/// Looks at a clock: microseconds since any instant, the same instant for all lanes of a compute node and for its
/// lease. The clock does not come round, never goes back, and goes on while this machine is stopped.
pub type Clock = fn() -> u64;

/// The mailbox of one lane.
pub struct Port<'m> {
    scratch: Cell<Option<&'m mut [u8]>>,
    outbox: RefCell<Vec<Request, OUTBOX_REQUESTS>>,
    inbox: [Cell<Completion>; OUTBOX_REQUESTS],
    state: Cell<State>,
    /// Requests of the submit in flight that are not completed. 0 in every other state.
    outstanding: Cell<Positions>,
    overflow: Cell<bool>,
    /// A request for a memory node was pushed since the last submit.
    travels: Cell<bool>,
    /// A completion of the present submit is not [`Status::Ok`].
    failed: Cell<bool>,
    /// A completion was not [`Status::Ok`] since the last [`Port::forget_failures`].
    any_failed: Cell<bool>,
    /// The first memory node, and the one behind the last, of a range that has all memory nodes whose queue pairs
    /// have failed and are not known to be closed.
    unclosed: Cell<(u16, u16)>,
    elapsed_ns: Cell<u64>,
    round_trips: Cell<u32>,
    fetch: Cell<Option<Fetch>>,
    clock: Cell<Option<Clock>>,
}

impl<'m> Port<'m> {
    /// A port whose operations may use `scratch`.
    pub fn new(scratch: &'m mut [u8]) -> Self {
        Self {
            scratch: Cell::new(Some(scratch)),
            outbox: RefCell::new(Vec::new()),
            inbox: [const { Cell::new(Completion::NOTHING) }; OUTBOX_REQUESTS],
            state: Cell::new(State::Idle),
            outstanding: Cell::new(0),
            overflow: Cell::new(false),
            travels: Cell::new(false),
            failed: Cell::new(false),
            any_failed: Cell::new(false),
            unclosed: Cell::new((0, 0)),
            elapsed_ns: Cell::new(0),
            round_trips: Cell::new(0),
            fetch: Cell::new(None),
            clock: Cell::new(None),
        }
    }

    // ---- for algorithms --------------------------------------------------------------------------------------

    /// Calls `look` with the scratch. While the driver owns the scratch, `look` gets an empty slice.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(&mut [u8]) -> R) -> R {
        let Some(scratch) = self.scratch.take() else {
            debug_assert!(false, "scratch used while the driver owns it");
            return look(&mut []);
        };
        let result = look(scratch);
        self.scratch.set(Some(scratch));
        result
    }

    /// Adds a request to the next submit, and returns its position there. Past [`OUTBOX_REQUESTS`] the request is
    /// dropped, and the submit fails. Wakes that had room stay for the next submit.
    #[inline]
    pub fn push(&self, request: Request) -> usize {
        if !request.verb.is_local() {
            self.travels.set(true);
        }
        let mut outbox = self.outbox.borrow_mut();
        let position = outbox.len();
        if outbox.push(request).is_err() {
            self.overflow.set(true);
        }
        position
    }

    /// How many requests the next submit still has room for: a step before may have left some that nobody waits for.
    pub(crate) fn room(&self) -> usize {
        let outbox = self.outbox.borrow();
        outbox.capacity() - outbox.len()
    }

    /// Lets `amend` change the request that was pushed last. Its position, if `amend` says that it did.
    pub(crate) fn amend_last(&self, amend: impl FnOnce(&mut Request) -> bool) -> Option<usize> {
        let mut outbox = self.outbox.borrow_mut();
        let last = outbox.last_mut()?;
        let is_amended = amend(last);
        is_amended.then(|| outbox.len() - 1)
    }

    /// Moves the request that was pushed last in front of the others, and returns its position.
    pub(crate) fn last_first(&self) -> usize {
        self.outbox.borrow_mut().rotate_right(1);
        0
    }

    /// Submits what was pushed. Awaiting it is one round trip. Fails if a signaled request failed.
    ///
    /// Requests that were pushed and not submitted go out with the next submit, or with [`Port::flush`] at the end of
    /// the operation. Unsignaled requests are sent in this way.
    #[inline]
    pub fn submit(&self) -> Submit<'_, 'm> {
        Submit { port: self, posted: false }
    }

    /// Pushes one request. Awaiting it submits the request and returns its completion.
    #[inline]
    pub fn call(&self, request: Request) -> Call<'_, 'm> {
        Call { position: self.push(request), submit: self.submit() }
    }

    /// Withdraws the requests for memory nodes that were pushed and not submitted. Wakes stay.
    pub(crate) fn withdraw(&self) {
        self.outbox.borrow_mut().retain(|request| request.verb.is_local());
        self.overflow.set(false);
        self.travels.set(false);
    }

    /// Number of requests with this label that wait for the next submit.
    pub(crate) fn pushed(&self, label: Label) -> usize {
        self.outbox.borrow().iter().filter(|request| request.label == label).count()
    }

    /// Whether a request has failed since [`Port::forget_failures`], whether an operation waited for it or not.
    pub(crate) fn any_failed(&self) -> bool {
        self.any_failed.get()
    }

    /// See [`Port::any_failed`].
    pub(crate) fn forget_failures(&self) {
        self.any_failed.set(false);
    }

    /// A memory node over whose queue pair requests of this lane failed, if that queue pair is not known to be
    /// closed: the requests may still take effect. [`crate::lane::Lane::close`] finds out.
    pub(crate) fn unclosed(&self) -> Option<NodeId> {
        let (first, end) = self.unclosed.get();
        (first < end).then_some(NodeId(first))
    }

    /// The queue pair of that memory node is now known to be closed.
    pub(crate) fn closed(&self) {
        let (first, end) = self.unclosed.get();
        self.unclosed.set((first.saturating_add(1), end));
    }

    /// The queue pair to `node` has failed.
    #[cold]
    fn has_failed(&self, node: NodeId) {
        let (first, end) = self.unclosed.get();
        let behind = node.0.saturating_add(1);
        self.unclosed.set(if first < end { (first.min(node.0), end.max(behind)) } else { (node.0, behind) });
    }

    /// The completion of the request at `position` of the last submit.
    #[inline]
    pub fn completion(&self, position: usize) -> Completion {
        self.inbox.get(position).map_or(Completion::NOTHING, Cell::get)
    }

    /// How many nanoseconds the operation has waited so far, according to the completions.
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns.get()
    }

    /// Round trips of the operation so far: submits with at least one request for a memory node.
    #[inline]
    pub fn round_trips(&self) -> u32 {
        self.round_trips.get()
    }

    /// How an operation asks for cache lines of this machine's memory, if the driver lets operations wait for them.
    /// An operation that has asked for some may return pending without requests. It is polled again after other
    /// lanes.
    #[inline]
    pub fn fetch(&self) -> Option<Fetch> {
        self.fetch.get()
    }

    /// The time now, in microseconds, if the driver has a clock. Not for waiting: pauses and [`Port::elapsed_ns`] are.
    /// It is for [`Lease::is_valid_at`](crate::membership::lease::Lease::is_valid_at).
    #[inline]
    pub fn now_us(&self) -> Option<u64> {
        self.clock.get().map(|clock| clock())
    }

    // ---- for drivers -----------------------------------------------------------------------------------------

    /// The state of the port.
    #[inline]
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Begins an operation: sets its counters to zero.
    #[inline]
    pub fn start(&self) {
        self.elapsed_ns.set(0);
        self.round_trips.set(0);
    }

    /// Sets [`Port::fetch`]. A driver that sets it to a function takes [`Waiting`](crate::machine::Step::Waiting) of
    /// an idle port for "poll again".
    pub fn set_fetch(&self, fetch: Option<Fetch>) {
        self.fetch.set(fetch);
    }

    /// Sets the clock of [`Port::now_us`]. Its owner passes the same time to the lease of the compute node.
    pub fn set_clock(&self, clock: Option<Clock>) {
        self.clock.set(clock);
    }

    /// Marks unsignaled requests that are left as submitted. Returns whether there are any to post. Those of a submit
    /// that was posted are not posted again.
    #[inline]
    pub fn flush(&self) -> bool {
        if self.outbox.borrow().is_empty() || matches!(self.state.get(), State::InFlight | State::Completed) {
            return false;
        }
        self.state.set(State::Submitted);
        true
    }

    /// The requests of the present submit, in the order in which they are posted.
    #[inline]
    pub fn requests(&self) -> Ref<'_, [Request]> {
        Ref::map(self.outbox.borrow(), |outbox| outbox.as_slice())
    }

    /// Takes the scratch for execution. `None` if nothing was submitted.
    #[inline]
    pub fn begin(&self) -> Option<&'m mut [u8]> {
        if self.state.get() != State::Submitted {
            return None;
        }
        self.post();
        self.scratch.take()
    }

    /// From now on all requests of the submit are outstanding.
    #[inline]
    fn post(&self) {
        self.state.set(State::InFlight);
        let posted = self.outbox.borrow().len() as u32;
        self.outstanding.set((1 << posted) - 1);
    }

    /// Delivers the completion of the request at `position`. Requests may complete in any order. Returns what was wrong
    /// with the call, if anything was.
    #[inline]
    pub fn complete(&self, position: usize, completion: Completion) -> Option<Misuse> {
        let bit = if position < OUTBOX_REQUESTS { 1 << position } else { 0 };
        let outstanding = self.outstanding.get();
        if outstanding & bit == 0 {
            return Some(self.not_outstanding(position));
        }
        self.outstanding.set(outstanding & !bit);
        if completion.status != Status::Ok {
            self.has_ended_badly(position, completion.status);
        }
        if let Some(slot) = self.inbox.get(position) {
            slot.set(completion);
        }
        None
    }

    /// What is wrong with a completion at `position`.
    #[cold]
    fn not_outstanding(&self, position: usize) -> Misuse {
        if self.state.get() != State::InFlight {
            Misuse::NotInFlight
        } else if position < self.outbox.borrow().len() {
            Misuse::CompletedTwice { position }
        } else {
            Misuse::NotPosted { position }
        }
    }

    /// Notes that the request at `position` failed.
    #[cold]
    fn has_ended_badly(&self, position: usize, status: Status) {
        self.failed.set(true);
        self.any_failed.set(true);
        let request = self.outbox.borrow().get(position).copied();
        let may_be_executed = |request: &Request| match status {
            Status::Flushed => request.verb != Verb::Rpc,
            // A memory node may make the change later.
            Status::Unanswered => request.label == Label::Change && !planted(Mutant::LEAF_LEFT_TO_CALL),
            _ => false,
        };
        if let Some(request) = request.filter(may_be_executed) {
            self.has_failed(request.node);
        }
    }

    /// Gives the scratch back after all completions are delivered. `elapsed_ns`: how long the whole submit took. Returns
    /// what was wrong with the call, if anything was.
    ///
    /// Unsignaled requests and those for the driver itself need no completion.
    #[inline]
    pub fn finish(&self, scratch: &'m mut [u8], elapsed_ns: u64) -> Option<Misuse> {
        if self.state.get() != State::InFlight {
            return Some(Misuse::NotInFlight);
        }
        self.scratch.set(Some(scratch));
        self.end(elapsed_ns)
    }

    /// Ends the submit in flight, whose scratch is here again.
    #[inline]
    fn end(&self, elapsed_ns: u64) -> Option<Misuse> {
        self.elapsed_ns.set(self.elapsed_ns.get().saturating_add(elapsed_ns));
        self.state.set(State::Completed);
        match self.outstanding.replace(0) {
            0 => None,
            outstanding => self.end_outstanding(outstanding),
        }
    }

    /// Ends a submit of which `outstanding` was not completed. A signaled request among these was dropped: the operation
    /// must not take it for done, nor for one without effect.
    #[inline(never)]
    fn end_outstanding(&self, outstanding: Positions) -> Option<Misuse> {
        let mut misuse = None;
        for (position, slot) in self.inbox.iter().enumerate() {
            let awaited = self
                .outbox
                .borrow()
                .get(position)
                .is_some_and(|request| !request.verb.is_local() && request.flags.contains(Flags::SIGNALED));
            if awaited && outstanding & 1 << position != 0 {
                slot.set(Completion { status: Status::Flushed, ..Completion::NOTHING });
                self.has_ended_badly(position, Status::Flushed);
                misuse = misuse.or(Some(Misuse::Dropped { position }));
            }
        }
        misuse
    }

    /// As [`Port::begin`], for a driver that works on a copy of the scratch because its device writes at any time.
    /// `copy` gets the scratch, which stays here. `None` if nothing was submitted.
    #[inline]
    pub fn begin_by_copy<R>(&self, copy: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if self.state.get() != State::Submitted {
            return None;
        }
        self.post();
        Some(self.with(|scratch| copy(scratch)))
    }

    /// As [`Port::finish`], for a driver that began by copy. `copy` puts what was READ into the scratch.
    #[inline]
    pub fn finish_by_copy(&self, elapsed_ns: u64, copy: impl FnOnce(&mut [u8])) -> Option<Misuse> {
        if self.state.get() != State::InFlight {
            return Some(Misuse::NotInFlight);
        }
        self.with(copy);
        self.end(elapsed_ns)
    }

    /// Forgets a completed submit for which nobody waits (a flush, or a dropped future), so that the lane can be used
    /// again. Returns what was wrong with the call, if anything was.
    pub fn reset(&self) -> Option<Misuse> {
        if self.state.get() == State::InFlight {
            return Some(Misuse::InFlight);
        }
        self.outbox.borrow_mut().clear();
        self.overflow.set(false);
        self.travels.set(false);
        self.failed.set(false);
        self.state.set(State::Idle);
        None
    }

    /// Whether a dropped future left requests that are posted or about to be posted.
    pub fn in_doubt(&self) -> bool {
        self.state.get() != State::Idle || !self.outbox.borrow().is_empty()
    }

    /// Ends a submit. If requests failed, the error is the first signaled one of them, if there is one.
    #[cold]
    fn failure(&self) -> Result<(), VerbError> {
        let mut outbox = self.outbox.borrow_mut();
        let failed = outbox.iter().zip(&self.inbox).find_map(|(request, completion)| {
            let status = completion.get().status;
            (status != Status::Ok && request.flags.contains(Flags::SIGNALED)).then_some(VerbError {
                status,
                verb: request.verb,
                label: request.label,
                node: request.node,
                offset: request.offset,
            })
        });
        outbox.clear();
        failed.map_or(Ok(()), Err)
    }
}

/// Future of one submit.
#[must_use = "a submit does nothing until awaited"]
pub struct Submit<'p, 'm> {
    port: &'p Port<'m>,
    posted: bool,
}

/// Future of one request. Written by hand: an `async fn` would add a state machine to every request.
#[must_use = "a call does nothing until awaited"]
pub struct Call<'p, 'm> {
    position: usize,
    submit: Submit<'p, 'm>,
}

impl Future for Call<'_, '_> {
    type Output = Result<Completion, VerbError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.submit).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(self.submit.port.completion(self.position))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Future for Submit<'_, '_> {
    type Output = Result<(), VerbError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let port = self.port;
        if !self.posted {
            if port.overflow.get() {
                port.withdraw();
                return Poll::Ready(Err(VerbError::OVERFLOW));
            }
            let pushed = port.outbox.borrow().len();
            if pushed == 0 {
                return Poll::Ready(Ok(()));
            }
            if port.travels.replace(false) {
                port.round_trips.set(port.round_trips.get() + 1);
            }
            for slot in port.inbox.iter().take(pushed) {
                slot.set(Completion::NOTHING);
            }
            port.failed.set(false);
            self.posted = true;
            port.state.set(State::Submitted);
            return Poll::Pending;
        }
        if port.state.get() != State::Completed {
            return Poll::Pending;
        }
        port.state.set(State::Idle);
        if port.failed.replace(false) {
            return Poll::Ready(port.failure());
        }
        port.outbox.borrow_mut().clear();
        Poll::Ready(Ok(()))
    }
}
