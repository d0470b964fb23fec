//! Where calls for a compute node arrive: a queue pair of its own to memory node 0, whose daemon passes them on.
//!
//! ```text
//!   caller ── SEND: callee, request ──► daemon ── SEND ──► the callee's inbox: a receive for each call that may be under way
//!          ◄─────────────── SEND ────── daemon ◄── SEND ── its answer
//! ```
//!
//! The daemon passes on fewer calls at a time than there are receives here. A receive is posted again in front of the answer to the
//! call that it brought. So a receive is used again only when the daemon has that answer: all others were used in between, and
//! calls that are not answered are fewer. Then the buffer of the answer may be written again, too.
//!
//! **Failure.** If the queue pair fails, the daemon answers what was passed on by it with nothing, which means that it may have been
//! executed. The inbox connects again.
//!
//! **Closing.** The inbox says that it takes no more calls. The daemon passes none on from then on, and says so; what came before is
//! answered as not executed.

use super::VerbsError;
use super::device::Device;
use super::ids::{is_receive, parts_of, receive_id, work_id};
use super::link::{ANSWER_BYTES, Link};
use super::memory::Block;
use super::options::VerbsOptions;
use super::queue_pair::CompletionQueue;
use crate::memory_node::verbs::call_wire::{
    CALL_HEAD_BYTES, CallMessage, MESSAGE_BYTES, REPLY_HEAD_BYTES, ReplyMessage, STOP,
};
use crate::memory_node::verbs::client::Peer;
use dm_core::verbs::{CALL_BYTES_MAX, Callee};
use rdma_sys::{ibv_wc, ibv_wc_status};
use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Completions taken at once.
const BATCH: usize = 32;

/// How long the daemon may take to say that it passes no more calls on.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(crate) struct VerbsInbox {
    state: RefCell<State>,
}

struct State {
    link: Link,
    completions: Arc<CompletionQueue>,
    /// Receives that have completed: their buffer, and how long the message is.
    received: VecDeque<(usize, usize)>,
    message: Box<[u8]>,
    /// The daemon has said that it passes no more calls on.
    is_stopped: bool,
}

/// A call that was taken.
#[derive(Debug)]
#[must_use = "nobody answers it"]
pub(crate) struct ReceivedCall {
    buffer: usize,
    epoch: u8,
    id: u64,
    request_bytes: usize,
    /// Room for the answer.
    pub(crate) answer_bytes: usize,
}

impl ReceivedCall {
    /// The request, in the buffer that it was copied to.
    pub(crate) fn request<'b>(&self, buffer: &'b [u8]) -> Option<&'b [u8]> {
        buffer.get(..self.request_bytes)
    }
}

impl VerbsInbox {
    /// Connects, as the callee of calls for `callee`. The compute node's row is announced.
    pub(super) fn new(
        device: &Arc<Device>,
        peer: &Arc<Peer>,
        options: &Arc<VerbsOptions>,
        callee: Callee,
    ) -> Result<Self, VerbsError> {
        let calls = options.calls().max(1);
        let depth = (2 * calls).next_power_of_two();
        let completions = CompletionQueue::with_events(device, depth + calls)?;
        let answers = Block::new(device, depth as usize * ANSWER_BYTES)?;
        // And one to say that it takes no more.
        let messages = Block::new(device, (2 * calls as usize + 1) * MESSAGE_BYTES)?;
        let mut link = Link::new(Arc::clone(peer), &completions, (answers, messages), depth as usize, options);
        link.serves = callee;
        link.connect()?;
        let message = vec![0; MESSAGE_BYTES].into_boxed_slice();
        let state = State { link, completions, received: VecDeque::new(), message, is_stopped: false };
        Ok(Self { state: RefCell::new(state) })
    }

    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Takes a call that has arrived, and copies its request to `out`, of [`CALL_BYTES_MAX`].
    pub(crate) fn take(&self, out: &mut [u8]) -> Option<ReceivedCall> {
        self.state().take(out)
    }

    /// Answers a call that was taken, for which the lane worked `service_ns`.
    pub(crate) fn answer(&self, call: &ReceivedCall, answer: &[u8], service_ns: u32) {
        self.state().answer(call, answer, service_ns);
    }

    /// Sleeps until a call may have arrived, at most for `longest`, unless `is_over`.
    pub(crate) fn sleep(&self, longest: Duration, is_over: impl Fn() -> bool) {
        let mut state = self.state();
        state.mend();
        let completions = Arc::clone(&state.completions);
        completions.sleep(longest, || {
            state.harvest();
            is_over() || !state.received.is_empty()
        });
    }

    /// Asks for no more calls, and answers those that came before with `answer`.
    pub(crate) fn stop(&self, answer: &[u8]) {
        let mut state = self.state();
        if !state.link.is_up() {
            return;
        }
        let (mut request, until) = (vec![0; CALL_BYTES_MAX], Instant::now() + STOP_WAIT);
        let last = state.link.messages.bytes() / MESSAGE_BYTES - 1;
        state.send(last, &ReplyMessage { id: STOP, is_served: false, queued: 0, service_ns: 0 }, &[]);
        while state.link.is_up() && !state.is_stopped && Instant::now() < until {
            match state.take(&mut request) {
                Some(call) => state.answer(&call, answer, 0),
                None => std::thread::yield_now(),
            }
        }
    }
}

impl State {
    /// Takes completions.
    fn harvest(&mut self) {
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        let count = self.completions.poll(&mut batch);
        for completion in &batch[..count] {
            // SAFETY: as many as `poll` says were written by the device's library.
            let completion = unsafe { completion.assume_init_ref() };
            let (_, epoch, number) = parts_of(completion.wr_id);
            if epoch != self.link.epoch {
                continue;
            }
            if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                self.link.fail(Instant::now());
            } else if is_receive(completion.wr_id) {
                self.received.push_back((number as usize, completion.byte_len as usize));
            } else {
                // Each SEND is signaled, and they complete in order.
                self.link.oldest = self.link.next.min(self.link.oldest + 1);
            }
        }
    }

    /// Connects again, if the queue pair has failed.
    fn mend(&mut self) {
        self.link.look(Instant::now());
        if self.link.is_failing() {
            self.link.finalize();
            self.received.clear();
        }
        if !self.link.is_up()
            && let Err(status) = self.link.open()
        {
            tracing::debug!("calls of other compute nodes do not arrive: {}", status.name());
        }
    }

    fn take(&mut self, out: &mut [u8]) -> Option<ReceivedCall> {
        if self.received.is_empty() {
            self.harvest();
        }
        if !self.link.is_up() {
            return None;
        }
        while let Some((buffer, bytes)) = self.received.pop_front() {
            let bytes = bytes.min(CALL_HEAD_BYTES + CALL_BYTES_MAX);
            let message = &mut self.message[..bytes];
            self.link.messages.get(self.link.reply_at(buffer), message);
            match CallMessage::decode(message) {
                Some((CallMessage { id: STOP, .. }, _)) => self.is_stopped = true,
                Some((CallMessage { id, answer_bytes, .. }, request)) if request.len() <= out.len() => {
                    out[..request.len()].copy_from_slice(request);
                    let (epoch, request_bytes) = (self.link.epoch, request.len());
                    return Some(ReceivedCall { buffer, epoch, id, request_bytes, answer_bytes });
                }
                _ => tracing::warn!("a message that is no call"),
            }
            self.receive(buffer);
        }
        None
    }

    /// Posts a receive again.
    fn receive(&mut self, buffer: usize) {
        let id = receive_id(usize::from(self.link.peer().welcome().node), self.link.epoch, buffer);
        // SAFETY: `messages` lives as long as the link, which drops its queue pair first; what was received has been copied.
        if !unsafe { self.link.post_receive(id, buffer) } {
            self.link.fail(Instant::now());
        }
    }

    fn answer(&mut self, call: &ReceivedCall, answer: &[u8], service_ns: u32) {
        // The queue pair that brought the call may be gone: the daemon has answered it then.
        if call.epoch != self.link.epoch || !self.link.is_up() {
            return;
        }
        self.receive(call.buffer);
        let answer = answer.get(..call.answer_bytes).unwrap_or(answer);
        let head = ReplyMessage { id: call.id, is_served: true, queued: 0, service_ns };
        self.send(call.buffer, &head, answer);
    }

    /// Sends a reply out of the buffer of that number.
    fn send(&mut self, buffer: usize, head: &ReplyMessage, answer: &[u8]) {
        let bytes = REPLY_HEAD_BYTES + answer.len().min(CALL_BYTES_MAX);
        let message = &mut self.message[..bytes];
        message[..REPLY_HEAD_BYTES].copy_from_slice(&head.encode());
        message[REPLY_HEAD_BYTES..].copy_from_slice(&answer[..bytes - REPLY_HEAD_BYTES]);
        if self.link.outstanding() >= self.link.depth() {
            self.harvest();
        }
        let at = Link::request_at(buffer);
        self.link.messages.put(at, &self.message[..bytes]);
        let id = work_id(usize::from(self.link.peer().welcome().node), self.link.epoch, self.link.next);
        // SAFETY: `messages` lives as long as the link, which drops its queue pair first. The daemon has the earlier message of this
        // buffer: see the module's documentation.
        let sent = self.link.outstanding() < self.link.depth() && unsafe { self.link.send(id, at, bytes as u32, true) };
        if sent {
            self.link.next += 1;
        } else {
            self.link.fail(Instant::now());
        }
    }
}
