//! One worker's connection to one memory node: a queue pair, what is in its send queue, and its states.
//!
//! ```text
//!              connect                     a completion with an error,
//!   CLOSED ───────────────► UP             the peer hung up            all completed, or destroyed
//!     ▲                      └────────────────────────────► FAILING ─────────────────────────┐
//!     │   the responder confirms that the old queue pair is closed                           ▼
//!     └──────────────────────────────────────────────────────────────────────────────── OPEN THERE
//! ```
//!
//! Between the failure of a queue pair and the responder's confirmation that its end is closed, requests that completed
//! with an error may still take effect. So nothing is posted to that memory node before the confirmation.

use super::cm::{Channel, Id};
use super::credits::Credits;
use super::ids::receive_id;
use super::memory::Block;
use super::queue_pair::{CompletionQueue, Patience, QueuePair, Sizes};
use super::{VerbsError, VerbsOptions, last_error};
use crate::memory_node::verbs::call_wire::MESSAGE_BYTES;
use crate::memory_node::verbs::client::{ANSWER_WAIT, Peer};
use crate::memory_node::verbs::wire::{self, FENCED, Pair};
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::verbs::{Callee, Status};
use rdma_sys::rdma_cm_event_type;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Local bytes of one slot of a send queue: for the result of an atomic, or for a small payload that the device cannot
/// carry inline.
pub(super) const ANSWER_BYTES: usize = 32;

/// How long a failing queue pair may take to complete what was posted. Flushing takes microseconds.
const DRAIN: Duration = Duration::from_secs(2);

/// Time between a failed attempt to connect and the next one.
const RETRY: Duration = Duration::from_millis(200);

/// No lane waits for this request.
pub(super) const NOBODY: u16 = u16::MAX;

/// A posted request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Position of the lane that waits, or [`NOBODY`].
    pub lane: u16,
    /// Position in its submit.
    pub position: u8,
    /// It is an atomic: its result is in the slot's answer bytes.
    pub atomic: bool,
    /// The bytes of that result come in the opposite order.
    pub swapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Up,
    /// Failing since that instant.
    Failing(Instant),
    OpenThere,
}

/// A connected queue pair, and what keeps it connected. Rust drops the fields in this order.
#[derive(Debug)]
struct Connection {
    pair: QueuePair,
    /// `None` on a device that executes nothing.
    id: Option<Id>,
    /// This process's number for it, by which the responder knows it.
    number: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Link {
    peer: Arc<Peer>,
    state: State,
    connection: Option<Connection>,
    /// The number of the last queue pair, until the responder has confirmed that it is closed.
    open_there: u64,
    /// Requests of this queue pair are `oldest..next`; that of request `n` is at [`Link::position`].
    pub slots: Box<[Slot]>,
    pub oldest: u64,
    pub next: u64,
    /// Requests since the last signaled one.
    pub unsignaled: u32,
    /// Tells completions of this queue pair from those of its predecessors.
    pub epoch: u8,
    pub answers: Block,
    /// The callee that this process is, if calls are to be passed on by this queue pair; the memory node: none.
    pub serves: Callee,
    /// Calls by this queue pair.
    pub credits: Credits,
    /// As many requests of calls as this end asks credits for, by credit; behind them as many buffers for replies.
    pub messages: Block,
    completions: Arc<CompletionQueue>,
    options: Arc<VerbsOptions>,
    /// READs and atomics in flight.
    pub reads_max: u8,
    /// Exponent of the MTU, 1..=5 for 256 to 4096 bytes.
    pub mtu: u8,
    /// No attempt to connect before then.
    not_before: Option<Instant>,
}

impl Link {
    pub(super) fn new(
        peer: Arc<Peer>,
        completions: &Arc<CompletionQueue>,
        (answers, messages): (Block, Block),
        depth: usize,
        options: &Arc<VerbsOptions>,
    ) -> Self {
        debug_assert!(depth.is_power_of_two());
        Self {
            peer,
            state: State::Closed,
            connection: None,
            open_there: 0,
            slots: vec![Slot { lane: NOBODY, position: 0, atomic: false, swapped: false }; depth].into_boxed_slice(),
            oldest: 0,
            next: 0,
            unsignaled: 0,
            epoch: 0,
            answers,
            serves: Callee::MEMORY_NODE,
            credits: Credits::default(),
            messages,
            completions: Arc::clone(completions),
            options: Arc::clone(options),
            reads_max: 0,
            mtu: 0,
            not_before: None,
        }
    }

    #[inline]
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn options(&self) -> &Arc<VerbsOptions> {
        &self.options
    }

    /// Most requests in the send queue, a power of two.
    #[inline]
    pub(super) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// The slot of request `number`.
    #[inline]
    pub(super) fn position(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Whether a lane waits for an outstanding request. Of the others, those that succeeded before the queue pair failed bring no
    /// completion, as SENDs of calls that were answered.
    pub(super) fn is_awaited(&self) -> bool {
        (self.oldest..self.next).any(|number| self.slots[self.position(number)].lane != NOBODY)
    }

    #[inline]
    pub(super) fn pair(&mut self) -> Option<&mut QueuePair> {
        self.connection.as_mut().map(|connection| &mut connection.pair)
    }

    /// Where in `messages` the request of the call with that credit is.
    pub(super) const fn request_at(credit: usize) -> usize {
        credit * MESSAGE_BYTES
    }

    /// Where in `messages` a buffer for replies is.
    pub(super) fn reply_at(&self, buffer: usize) -> usize {
        (self.options.calls() as usize + buffer) * MESSAGE_BYTES
    }

    /// Posts a SEND of `bytes` bytes at `at` of `messages`. `false`: it was refused.
    ///
    /// # Safety
    ///
    /// As [`QueuePair::send`].
    pub(super) unsafe fn send(&mut self, id: u64, at: usize, bytes: u32, signaled: bool) -> bool {
        let Self { connection, messages, .. } = self;
        // SAFETY: by the contract.
        connection.as_mut().is_some_and(|connection| unsafe { connection.pair.send(id, messages, at, bytes, signaled) })
    }

    /// Posts the receive of a buffer for replies. `false`: it was refused.
    ///
    /// # Safety
    ///
    /// As [`QueuePair::receive`].
    pub(super) unsafe fn post_receive(&mut self, id: u64, buffer: usize) -> bool {
        let at = self.reply_at(buffer);
        let Self { connection, messages, .. } = self;
        // SAFETY: by the contract.
        connection
            .as_mut()
            .is_some_and(|connection| unsafe { connection.pair.receive(id, messages, at, MESSAGE_BYTES as u32) })
    }

    #[inline]
    pub(super) fn inline_bytes(&self) -> u32 {
        self.connection.as_ref().map_or(0, |connection| connection.pair.inline_bytes)
    }

    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    #[inline]
    pub(super) fn is_failing(&self) -> bool {
        matches!(self.state, State::Failing(_))
    }

    /// Whether its queue pair takes masked atomics.
    #[inline]
    pub(super) fn takes_masked(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.pair.takes_masked())
    }

    /// Why no request can be posted, whatever the state of the queue pair.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Status> {
        if self.peer.is_fenced() {
            return Some(Status::Fenced);
        }
        self.peer.is_down().then_some(Status::NodeDown)
    }

    /// Whether `count` requests can be posted now.
    #[inline]
    pub(super) fn takes(&self, count: usize) -> bool {
        self.refusal().is_none() && self.is_up() && self.outstanding() + count <= self.depth()
    }

    /// The status of a request that may have taken effect. If the peer is down, the status says so.
    pub(super) fn flushed(&self) -> Status {
        if self.peer.is_down() { Status::NodeDown } else { Status::Flushed }
    }

    /// Begins to close the queue pair: everything posted completes with an error soon.
    pub(super) fn fail(&mut self, now: Instant) {
        if self.state != State::Up {
            return;
        }
        self.state = State::Failing(now);
        if let Some(connection) = &self.connection {
            connection.pair.fail();
        }
    }

    /// Looks for events that bring no completion: the peer is down, or the connection was closed.
    pub(super) fn look(&mut self, now: Instant) {
        if self.state != State::Up {
            return;
        }
        let id = self.connection.as_ref().and_then(|connection| connection.id.as_ref());
        let hung_up = id.is_some_and(|id| {
            matches!(id.channel().next(Duration::ZERO), Ok(Some(event))
                if event.kind == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED
                || event.kind == rdma_cm_event_type::RDMA_CM_EVENT_DEVICE_REMOVAL)
        });
        if hung_up || self.refusal().is_some() {
            self.fail(now);
        }
    }

    /// Whether a failing queue pair has had its time: its requests will not complete any more.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.state, State::Failing(since) if now.duration_since(since) > DRAIN)
    }

    /// Destroys a failing queue pair; its calls have to be ended afterwards ([`Credits::end`]). Afterwards none of its completions arrives and it writes to no memory. The caller
    /// has to report requests that have not completed.
    pub(super) fn finalize(&mut self) {
        debug_assert!(self.is_failing());
        if let Some(connection) = self.connection.take() {
            self.open_there = connection.number;
            connection.id.iter().for_each(Id::disconnect);
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.oldest = self.next;
        self.unsignaled = 0;
        self.state = State::OpenThere;
    }

    /// Makes the link usable, if possible: has the responder close the old queue pair, and connects a new one. No
    /// request may be outstanding. Blocks for a round trip of the control connection, or until that times out.
    pub(super) fn open(&mut self) -> Result<(), Status> {
        if let Some(status) = self.refusal() {
            return Err(status);
        }
        let now = Instant::now();
        if self.not_before.is_some_and(|then| now < then) {
            return Err(Status::Flushed);
        }
        if self.state == State::OpenThere {
            let close = [Procedure::CloseQueuePair as u64, 0, 0, self.open_there];
            match self.peer.call(close, ANSWER_WAIT) {
                Ok(value) if value == Reply::Done as u64 => self.state = State::Closed,
                Ok(FENCED) => return Err(Status::Fenced),
                answer => {
                    tracing::debug!("memory node {}: closing a queue pair: {answer:?}", self.peer.address());
                    self.not_before = Some(now + RETRY);
                    return Err(self.refusal().unwrap_or(Status::Flushed));
                }
            }
        }
        match self.connect() {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!("memory node {}: {error}", self.peer.address());
                self.not_before = Some(Instant::now() + RETRY);
                Err(self.refusal().unwrap_or(Status::Flushed))
            }
        }
    }

    /// Makes a queue pair of a device that executes nothing.
    pub(super) fn connect_null(&mut self) -> Result<(), VerbsError> {
        let mut pair = QueuePair::new(&self.completions, self.sizes(), None)?;
        self.post_receives(&mut pair)?;
        (self.mtu, self.reads_max) = (5, 16);
        self.credits.grant(self.options.calls() as usize);
        self.connection = Some(Connection { pair, id: None, number: 0 });
        self.state = State::Up;
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        let (receives, inline_bytes) = (self.options.calls(), self.options.inline_bytes);
        Sizes { requests: self.slots.len() as u32, receives, inline_bytes }
    }

    /// Posts a receive for each reply that may come.
    fn post_receives(&self, pair: &mut QueuePair) -> Result<(), VerbsError> {
        for buffer in 0..self.options.calls() as usize {
            let id = receive_id(usize::from(self.peer.welcome().node), self.epoch, buffer);
            // SAFETY: `messages` lives as long as the link, which drops its queue pair first.
            if !unsafe { pair.receive(id, &self.messages, self.reply_at(buffer), MESSAGE_BYTES as u32) } {
                return Err(last_error("post a receive to", "a queue pair"));
            }
        }
        Ok(())
    }

    /// Connects a new queue pair.
    pub(super) fn connect(&mut self) -> Result<(), VerbsError> {
        let address = self.peer.socket();
        let deadline = Instant::now() + ANSWER_WAIT;
        let id = Id::new(&Channel::new()?)?;
        id.resolve(self.options.source, address, ANSWER_WAIT)?;
        let Some((device, port)) = id.device()? else {
            return Err(VerbsError::Unreachable { address, what: "no RDMA device leads there".to_owned() });
        };
        let (active_mtu, _) = device.port(port)?;
        let mtu = self.options.mtu(active_mtu, device.name())?;
        let mut pair = QueuePair::new(&self.completions, self.sizes(), None)?;
        pair.initialise(&id)?;
        // Before the memory node can reply.
        self.post_receives(&mut pair)?;
        let number = self.peer.number_pair();
        let request =
            Pair { mtu, ticket: self.peer.welcome().ticket, number, calls: self.options.calls(), serves: self.serves };
        // From here on the responder may have a queue pair of that number.
        self.open_there = number;
        let asked = device.limits().reads_asked_max;
        let response = id
            .connect(pair.number(), asked, &request.encode())
            .and_then(|()| id.expect(rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_RESPONSE, deadline, address))
            .map_err(|error| match &error {
                VerbsError::Rejected { private, .. } => match wire::decode_pair_refusal(private) {
                    Some(source) => VerbsError::Refused { address: self.peer.address().to_owned(), source },
                    None => error,
                },
                _ => error,
            })?;
        let response = Pair::decode(&response.private)
            .map_err(|source| VerbsError::Refused { address: self.peer.address().to_owned(), source })?;
        let mtu = mtu.min(response.mtu);
        let patience = self.options.patience.unwrap_or_else(|| Patience::of(self.peer.welcome().profile));
        self.reads_max = pair.make_ready(&id, mtu, patience)?;
        id.establish()?;
        self.mtu = mtu;
        self.credits.grant(response.calls.min(self.options.calls()) as usize);
        self.connection = Some(Connection { pair, id: Some(id), number });
        self.state = State::Up;
        self.not_before = None;
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.id.iter().for_each(Id::disconnect);
        }
    }
}
