//! The mailbox between one operation and its driver.
//!
//! An index operation is an `async fn` that pushes requests and awaits [`Port::submit`]; awaiting once is one round
//! trip. The driver (a worker thread, firmware, a simulator) polls the future with a waker that does nothing, finds
//! the requests in the port, executes them, delivers completions and polls again.
//!
//! *Ownership of the scratch* moves to the driver with a submit ([`Port::begin`]) and back with the completions
//! ([`Port::finish`]), so no reference exists while a NIC writes. Algorithms keep offsets and look at bytes through
//! [`Port::with`], whose borrow cannot cross an await.
//!
//! ```text
//!            push, submit                      begin
//!   Idle ───────────────────► Submitted ───────────────► InFlight
//!    ▲                                                      │ complete*, finish
//!    └──────────── the future is polled again ◄─────── Completed
//! ```
//!
//! A future dropped between submit and completion leaves the port *in doubt* ([`Port::in_doubt`]): the requests run
//! on, and the lane's ledger ([`crate::lane::LockRecords`]) says what has to be settled before the lane is used again.

use crate::error::VerbError;
use crate::verbs::{Completion, Flags, Label, NodeId, Request, Status, Verb};
use core::cell::{Cell, Ref, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU32;
use core::task::{Context, Poll};
use heapless::Vec;

/// Requests one submit can carry. A scan READs this many leaves at once.
pub const OUTBOX_REQUESTS: usize = 16;

/// Where the port stands; see the picture in the module's documentation.
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

/// Has the line of a word brought near from this machine's memory, without waiting for it.
pub type Fetch = fn(&AtomicU32);

/// The mailbox of one lane.
pub struct Port<'m> {
    scratch: Cell<Option<&'m mut [u8]>>,
    outbox: RefCell<Vec<Request, OUTBOX_REQUESTS>>,
    inbox: [Cell<Completion>; OUTBOX_REQUESTS],
    state: Cell<State>,
    overflow: Cell<bool>,
    /// Something for a memory node was pushed since the last submit.
    travels: Cell<bool>,
    /// A completion of the present submit is not [`Status::Ok`].
    failed: Cell<bool>,
    /// A completion was not, since this was last forgotten.
    any_failed: Cell<bool>,
    /// Memory nodes, the first and the one behind the last, between which all lie whose queue pairs have failed and are not known to be
    /// closed.
    unclosed: Cell<(u16, u16)>,
    elapsed_ns: Cell<u64>,
    round_trips: Cell<u32>,
    fetch: Cell<Option<Fetch>>,
}

impl<'m> Port<'m> {
    /// A port whose operations may use `scratch`.
    pub fn new(scratch: &'m mut [u8]) -> Self {
        Self {
            scratch: Cell::new(Some(scratch)),
            outbox: RefCell::new(Vec::new()),
            inbox: [const { Cell::new(Completion::NOTHING) }; OUTBOX_REQUESTS],
            state: Cell::new(State::Idle),
            overflow: Cell::new(false),
            travels: Cell::new(false),
            failed: Cell::new(false),
            any_failed: Cell::new(false),
            unclosed: Cell::new((0, 0)),
            elapsed_ns: Cell::new(0),
            round_trips: Cell::new(0),
            fetch: Cell::new(None),
        }
    }

    // ---- for algorithms --------------------------------------------------------------------------------------

    /// Looks at the scratch. While the driver owns it the closure sees an empty slice.
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

    /// Queues a request for the next submit and returns its position there. Past [`OUTBOX_REQUESTS`] the request is
    /// dropped and the submit fails.
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

    /// Puts the request pushed last in front of the others and returns its position.
    pub(crate) fn last_first(&self) -> usize {
        self.outbox.borrow_mut().rotate_right(1);
        0
    }

    /// Submits what was pushed; awaiting it is one round trip. Fails if a signaled request did.
    ///
    /// Requests pushed but never submitted go out with the next submit, or with [`Port::flush`] at the end of the
    /// operation: that is the way of unsignaled ones.
    #[inline]
    pub fn submit(&self) -> Submit<'_, 'm> {
        Submit { port: self, posted: false }
    }

    /// Pushes one request; awaiting the answer submits it and gives its completion.
    #[inline]
    pub fn call(&self, request: Request) -> Call<'_, 'm> {
        Call { position: self.push(request), submit: self.submit() }
    }

    /// Takes back what was pushed for memory nodes and not submitted. Wakes stay.
    pub(crate) fn withdraw(&self) {
        self.outbox.borrow_mut().retain(|request| request.verb.is_local());
        self.overflow.set(false);
        self.travels.set(false);
    }

    /// How many requests with this label wait for the next submit.
    pub(crate) fn pushed(&self, label: Label) -> usize {
        self.outbox.borrow().iter().filter(|request| request.label == label).count()
    }

    /// Whether a request has failed since [`Port::forget_failures`], waited for or not.
    pub(crate) fn any_failed(&self) -> bool {
        self.any_failed.get()
    }

    /// See [`Port::any_failed`].
    pub(crate) fn forget_failures(&self) {
        self.any_failed.set(false);
    }

    /// A memory node of which it is not known that the queue pair is closed over which requests of this lane failed: they
    /// may still take effect. [`crate::lane::Lane::close`] asks.
    pub(crate) fn unclosed(&self) -> Option<NodeId> {
        let (first, end) = self.unclosed.get();
        (first < end).then_some(NodeId(first))
    }

    /// Of that memory node it is known now.
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

    /// Nanoseconds the operation has spent waiting so far, from the completions.
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns.get()
    }

    /// Round trips of the operation so far: submits with at least one request for a memory node.
    #[inline]
    pub fn round_trips(&self) -> u32 {
        self.round_trips.get()
    }

    /// How lines of this machine's memory are asked for, if the driver lets operations wait for those: one that has asked
    /// for some may say that it is not ready, without requests, and is polled again when other lanes have had their turns.
    #[inline]
    pub fn fetch(&self) -> Option<Fetch> {
        self.fetch.get()
    }

    // ---- for drivers -----------------------------------------------------------------------------------------

    /// Where the port stands.
    #[inline]
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// Starts an operation: clears its counters.
    #[inline]
    pub fn start(&self) {
        self.elapsed_ns.set(0);
        self.round_trips.set(0);
    }

    /// Offers [`Port::fetch`], or no longer. Who offers it takes [`Waiting`](crate::machine::Step::Waiting) of an idle
    /// port for "poll again".
    pub fn set_fetch(&self, fetch: Option<Fetch>) {
        self.fetch.set(fetch);
    }

    /// Marks leftover unsignaled requests as submitted. Returns whether there are any to post.
    #[inline]
    pub fn flush(&self) -> bool {
        if self.outbox.borrow().is_empty() {
            return false;
        }
        self.state.set(State::Submitted);
        true
    }

    /// The requests of the present submit, in post order.
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
        self.state.set(State::InFlight);
        self.scratch.take()
    }

    /// Delivers the completion of the request at `position`.
    #[inline]
    pub fn complete(&self, position: usize, completion: Completion) {
        if completion.status != Status::Ok {
            self.failed.set(true);
            self.any_failed.set(true);
            let request = self.outbox.borrow().get(position).copied();
            if let Some(request) = request
                && completion.status == Status::Flushed
                && request.verb != Verb::Rpc
            {
                self.has_failed(request.node);
            }
        }
        if let Some(slot) = self.inbox.get(position) {
            slot.set(completion);
        }
    }

    /// Gives the scratch back: all completions are delivered. `elapsed_ns` is what the whole submit took.
    #[inline]
    pub fn finish(&self, scratch: &'m mut [u8], elapsed_ns: u64) {
        self.scratch.set(Some(scratch));
        self.elapsed_ns.set(self.elapsed_ns.get().saturating_add(elapsed_ns));
        self.state.set(State::Completed);
    }

    /// As [`Port::begin`], for a driver that works on a copy of the scratch, because its device writes at a time of its
    /// own choice: `copy` sees the scratch, which stays here. `None` if nothing was submitted.
    #[inline]
    pub fn begin_by_copy<R>(&self, copy: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if self.state.get() != State::Submitted {
            return None;
        }
        self.state.set(State::InFlight);
        Some(self.with(|scratch| copy(scratch)))
    }

    /// As [`Port::finish`], for a driver that began by copy: `copy` puts what was READ into the scratch. Nothing
    /// happens if no submit is in flight.
    #[inline]
    pub fn finish_by_copy(&self, elapsed_ns: u64, copy: impl FnOnce(&mut [u8])) {
        if self.state.get() != State::InFlight {
            return;
        }
        self.with(copy);
        self.elapsed_ns.set(self.elapsed_ns.get().saturating_add(elapsed_ns));
        self.state.set(State::Completed);
    }

    /// Forgets a completed submit nobody waits for (a flush, or a dropped future), so that the lane can start anew.
    pub fn reset(&self) {
        debug_assert!(self.state.get() != State::InFlight);
        self.outbox.borrow_mut().clear();
        self.overflow.set(false);
        self.travels.set(false);
        self.failed.set(false);
        self.state.set(State::Idle);
    }

    /// Whether a dropped future left requests behind that are posted or about to be.
    pub fn in_doubt(&self) -> bool {
        self.state.get() != State::Idle || !self.outbox.borrow().is_empty()
    }

    /// Ends a submit some of whose requests failed: the first signaled one of those, if there is one.
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

/// Future of one request. Written by hand: an `async fn` would be one more state machine on the way of every request.
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
            if port.overflow.replace(false) {
                port.outbox.borrow_mut().clear();
                port.travels.set(false);
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
