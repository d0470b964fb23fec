//! The threads that answer calls of compute nodes: see `call_wire` for messages and `gate` for fencing.
//!
//! ```text
//!  compute nodes' queue pairs ── SEND ──► shared receive queue ──► completion queue ──► thread: take, look at the gate, copy the
//!                                             ▲                                          request, post its receive again, search,
//!                                             └──────────────────────────────────────────reply by SEND
//! ```
//!
//! **Credits.** A queue pair may have as many calls under way as it was granted when it connected, and the grants of all are at most
//! the receives of the queue. A call's receive is posted again before its reply is sent, so a peer that waits for a reply before it
//! uses its credit again always finds a receive. One that sends more is cut off: its queue pair is ended.
//!
//! **Replies.** A queue pair has buffers for twice as many replies as it has credits, since a reply may be acknowledged to this end
//! after its caller has it, and as many places in its send queue. A buffer is taken until its SEND has completed. When there is
//! none, the peer acknowledges nothing and still calls: it is cut off, too.
//!
//! What a peer sends is judged by the walk of [`dm_core::offload`]; a message that is none is dropped.
//!
//! **Changes.** A call that changes a leaf has the device WRITE it (`own_path`). If that fails, nobody knows whether the leaf is
//! changed: the call gets no reply, and its queue pair is ended, which tells the caller so.
//!
//! **Calls for compute nodes.** The daemon sends such a call to its callee, over the queue pair that the callee has connected for
//! that, and the callee's answer to the caller (`relays`). The daemon looks at neither.

use super::call_wire::{CALL_HEAD_BYTES, CREDITS_MAX, CallMessage, MESSAGE_BYTES, REPLY_HEAD_BYTES, ReplyMessage};
use super::gate::{Begun, Gate, Terms, Turned, share_of};
use super::own_path::{Home, OwnPath};
use super::relays::{Passed, Relays, Sends};
use crate::fabric::verbs::VerbsError;
use crate::fabric::verbs::memory::Block;
use crate::fabric::verbs::queue_pair::{CompletionQueue, QueuePair, Sizes};
use crate::fabric::verbs::receives::SharedReceives;
use crate::memory_node::call_server::{AWAKE, Searcher};
use crate::memory_node::counters::Counters;
use crate::metrics::{Kind, Labels, Page};
use crate::region::Region;
use dm_core::verbs::{CALL_BYTES_MAX, Callee, NodeId};
use rdma_sys::{ibv_wc, ibv_wc_status};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Receives of all queue pairs, if the device has so many.
const RECEIVES: u32 = 1024;

/// Inline bytes of a reply: as much as the answer to a get of a small value.
const INLINE_BYTES: u32 = 256;

/// Completions taken at once.
const BATCH: usize = 32;

/// A thread that sleeps looks once in so long whether it is to end.
const ASLEEP_MAX: Duration = Duration::from_millis(200);

/// How long to wait for the device to say that a queue pair took its last receive.
const LAST_WAIT: Duration = Duration::from_millis(5);

/// Marks the id of a SEND; the rest is the number of its buffer. Without it, an id is the number of a receive.
const SENT: u64 = 1 << 63;

/// The queue pair of a compute process, and its gate.
pub(super) type Caller = Gate<CallerPair>;

/// A queue pair, and its buffers for replies. Rust drops the fields in this order: what is in flight ends with the queue pair.
#[derive(Debug)]
pub(super) struct CallerPair {
    pub(super) pair: QueuePair,
    /// Calls that the peer may have under way.
    pub(super) credits: u32,
    replies: Option<Arc<Block>>,
    /// Numbers of its buffers in `replies`, and of those that no SEND has.
    buffers: Vec<u32>,
    unused: Vec<u32>,
}

impl CallerPair {
    /// One whose peer may not call.
    pub(super) fn without_calls(pair: QueuePair) -> Self {
        Self { pair, credits: 0, replies: None, buffers: Vec::new(), unused: Vec::new() }
    }

    /// Sends a reply, or passes a call on. `false`: it does not go out.
    pub(super) fn reply(&mut self, reply: &[u8]) -> bool {
        let (Some(replies), Some(buffer)) = (&self.replies, self.unused.pop()) else { return false };
        let at = buffer as usize * MESSAGE_BYTES;
        replies.put(at, reply);
        // SAFETY: `replies` lives as long as this value, which drops the queue pair first.
        let sent = unsafe { self.pair.send(SENT | u64::from(buffer), replies, at, reply.len() as u32, true) };
        if !sent {
            self.unused.push(buffer);
        }
        sent
    }

    /// A SEND of a reply or of a call that is passed on has completed.
    fn sent(&mut self, buffer: u32) {
        self.unused.push(buffer);
    }
}

impl Sends for CallerPair {
    fn send(&mut self, message: &[u8]) -> bool {
        self.reply(message)
    }

    fn cut_off(&mut self) {
        self.pair.fail();
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct CallServer {
    node: NodeId,
    region: Arc<Region>,
    counters: Arc<Counters>,
    completions: Arc<CompletionQueue>,
    receives: Arc<SharedReceives>,
    receive_count: u32,
    /// Receives that are posted.
    posted: AtomicU32,
    replies: Arc<Block>,
    granted: Mutex<Granted>,
    relays: Relays<CallerPair>,
    /// Numbers of queue pairs that have failed, or were cut off: they are to be closed.
    failed: Mutex<Vec<u32>>,
    /// By the number of the queue pair.
    callers: Mutex<HashMap<u32, Arc<Caller>>>,
    /// Held from a poll of the completion queue until all that was polled has passed its gate.
    polling: Mutex<()>,
    /// For calls that a thread finds which closes queue pairs.
    spare: Mutex<Hand>,
    stops: AtomicBool,
    /// `None`: this memory node makes no changes.
    home: Option<Home>,
}

/// What queue pairs have been given.
#[derive(Debug)]
struct Granted {
    credits: u32,
    /// Buffers for replies that no queue pair has.
    buffers: Vec<u32>,
}

/// What a thread works with.
#[derive(Debug)]
struct Hand {
    searcher: Searcher<Option<OwnPath>>,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl Hand {
    fn new(node: NodeId, path: Option<OwnPath>) -> Self {
        let searcher = Searcher::beside_a_device(node, path);
        Self { searcher, message: vec![0; MESSAGE_BYTES], reply: vec![0; MESSAGE_BYTES] }
    }
}

/// A call that was begun, and where its request is.
struct Job {
    begun: Begun<CallerPair>,
    buffer: u32,
    bytes: usize,
    queued: u16,
}

/// Threads that answer calls, until this is dropped.
#[derive(Debug)]
pub(super) struct Threads {
    server: Arc<CallServer>,
    threads: Vec<JoinHandle<()>>,
}

impl CallServer {
    /// `None`: the device has no shared receive queues.
    pub(super) fn new(
        home: Home,
        node: NodeId,
        region: Arc<Region>,
        counters: &Arc<Counters>,
    ) -> Result<Option<Arc<Self>>, VerbsError> {
        let device = &Arc::clone(&home.device);
        let limits = device.limits();
        // A completion of each receive, and of each reply.
        let receive_count = RECEIVES.min(limits.shared_receives_max).min(limits.completions_max / 3);
        if receive_count == 0 {
            return Ok(None);
        }
        let reply_count = 2 * receive_count;
        let path = OwnPath::new(&home)
            .inspect_err(|error| tracing::warn!("compute nodes change leaves by themselves, not by calls: {error}"))
            .ok();
        Ok(Some(Arc::new(Self {
            node,
            region,
            counters: Arc::clone(counters),
            completions: CompletionQueue::with_events(device, receive_count + reply_count)?,
            receives: SharedReceives::new(device, receive_count, MESSAGE_BYTES)?,
            receive_count,
            posted: AtomicU32::new(receive_count),
            replies: Arc::new(Block::new(device, reply_count as usize * MESSAGE_BYTES)?),
            granted: Mutex::new(Granted { credits: 0, buffers: (0..reply_count).collect() }),
            relays: Relays::default(),
            failed: Mutex::default(),
            callers: Mutex::default(),
            polling: Mutex::new(()),
            home: path.is_some().then_some(home),
            spare: Mutex::new(Hand::new(node, path)),
            stops: AtomicBool::new(false),
        })))
    }

    /// Whether calls may change leaves.
    pub(super) const fn changes(&self) -> bool {
        self.home.is_some()
    }

    /// Starts `count` threads that answer calls.
    pub(super) fn start(self: &Arc<Self>, count: usize) -> io::Result<Threads> {
        let mut threads = Threads { server: Arc::clone(self), threads: Vec::new() };
        for number in 0..count {
            let path = self.home.as_ref().map(OwnPath::new).transpose().map_err(io::Error::other)?;
            let (server, hand) = (Arc::clone(self), Hand::new(self.node, path));
            let thread = std::thread::Builder::new().name(format!("dm-calls-{number}"));
            threads.threads.push(thread.spawn(move || server.attend(hand))?);
        }
        Ok(threads)
    }

    /// A queue pair whose peer may call, if it asks for that. What it is given is taken until [`CallServer::destroy`].
    pub(super) fn make(&self, asked: u32) -> Result<CallerPair, VerbsError> {
        let (credits, buffers) = {
            let mut granted = lock(&self.granted);
            let credits = share_of(self.receive_count, granted.credits, asked.min(CREDITS_MAX));
            granted.credits += credits;
            // There are twice as many as receives, hence as credits.
            let rest = granted.buffers.len().saturating_sub(2 * credits as usize);
            (credits, granted.buffers.split_off(rest))
        };
        let sizes = Sizes { requests: 2 * credits, receives: 0, inline_bytes: INLINE_BYTES };
        match QueuePair::new(&self.completions, sizes, Some(Arc::clone(&self.receives))) {
            Ok(pair) => {
                let replies = Some(Arc::clone(&self.replies));
                Ok(CallerPair { pair, credits, replies, unused: buffers.clone(), buffers })
            }
            Err(error) => {
                self.take_back(credits, buffers);
                Err(error)
            }
        }
    }

    /// Destroys a queue pair. When this returns, it executes nothing any more.
    pub(super) fn destroy(&self, pair: CallerPair) {
        let CallerPair { pair, credits, buffers, .. } = pair;
        drop(pair);
        self.take_back(credits, buffers);
    }

    fn take_back(&self, credits: u32, mut buffers: Vec<u32>) {
        let mut granted = lock(&self.granted);
        granted.credits -= credits;
        granted.buffers.append(&mut buffers);
    }

    /// From now on messages that come by the queue pair are served.
    pub(super) fn admit(&self, caller: &Arc<Caller>) {
        lock(&self.callers).insert(caller.terms.number, Arc::clone(caller));
        self.relays.admit(caller);
    }

    /// Ends what was passed on by or for queue pairs whose gates are shut.
    pub(super) fn forget(&self, gone: &[Terms]) {
        self.relays.forget(|number| gone.iter().any(|terms| terms.number == number));
    }

    /// Ends queue pairs whose gates are closed, so that they can be destroyed. All receives that they took are posted again.
    pub(super) fn retire<'p>(&self, pairs: impl Iterator<Item = &'p CallerPair>) {
        let pairs: Vec<_> = pairs.map(|pair| &pair.pair).collect();
        for pair in &pairs {
            lock(&self.callers).remove(&pair.number());
            pair.fail();
        }
        if pairs.is_empty() {
            return;
        }
        let keys: Vec<_> = pairs.iter().map(|pair| pair.key()).collect();
        self.receives.await_last(&keys, LAST_WAIT);
        // What they received is in the completion queue, or was polled by a thread, which has looked for its gate when this one gets
        // to poll. A queue pair of the same number comes later.
        let mut hand = lock(&self.spare);
        // As many as the queue has room for: others call meanwhile, and completions come in order.
        let mut left = (self.receive_count + self.reply_count()) as usize;
        loop {
            match self.turn(&mut hand) {
                0 => return,
                count if count >= left => return,
                count => left -= count,
            }
        }
    }

    const fn reply_count(&self) -> u32 {
        2 * self.receive_count
    }

    fn attend(&self, mut hand: Hand) {
        let mut idle_since = Instant::now();
        while !self.stops.load(Ordering::SeqCst) {
            if self.turn(&mut hand) > 0 {
                idle_since = Instant::now();
            } else if idle_since.elapsed() < AWAKE {
                // Its client may be waiting for this processor.
                std::thread::yield_now();
            } else {
                let mut taken = 0;
                self.completions.sleep(ASLEEP_MAX, || {
                    // Behind the request for an event, so that either this look or an event tells of a completion.
                    taken = self.turn(&mut hand);
                    taken > 0 || self.stops.load(Ordering::SeqCst)
                });
                if taken > 0 {
                    idle_since = Instant::now();
                }
            }
        }
    }

    /// Takes completions, and answers the calls that are among them. Returns how many completions there were.
    fn turn(&self, hand: &mut Hand) -> usize {
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        let mut jobs = heapless::Vec::<Job, BATCH>::new();
        let polling = lock(&self.polling);
        let count = self.completions.poll(&mut batch);
        for completion in &batch[..count] {
            // SAFETY: as many as `poll` says were written by the device's library.
            let completion = unsafe { completion.assume_init_ref() };
            if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                self.has_failed(completion.qp_num);
            }
            if completion.wr_id & SENT != 0 {
                // If the queue pair is closed, all its buffers come back when it is destroyed.
                if let Some(caller) = self.caller(completion.qp_num) {
                    caller.with(|pair| pair.sent(completion.wr_id as u32));
                }
                continue;
            }
            self.posted.fetch_sub(1, Ordering::Relaxed);
            let buffer = completion.wr_id as u32;
            let received = completion.status == ibv_wc_status::IBV_WC_SUCCESS;
            match received.then(|| self.begin(completion.qp_num)).flatten() {
                Some(begun) => {
                    let (bytes, queued) = (completion.byte_len as usize, jobs.len() as u16);
                    // There is room for as many as were polled.
                    let _ = jobs.push(Job { begun, buffer, bytes, queued });
                }
                None => self.post(buffer),
            }
        }
        drop(polling);
        for job in jobs {
            self.serve(hand, job);
        }
        count
    }

    /// Notes that a queue pair is of no use any more. Its peer may not know that: one that only serves sends nothing.
    fn has_failed(&self, number: u32) {
        if self.caller(number).is_some() {
            let mut failed = lock(&self.failed);
            if !failed.contains(&number) {
                failed.push(number);
            }
        }
    }

    /// The numbers of queue pairs that have failed since this was asked before.
    pub(super) fn take_failed(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.failed))
    }

    fn caller(&self, number: u32) -> Option<Arc<Caller>> {
        lock(&self.callers).get(&number).map(Arc::clone)
    }

    /// Begins a call that came by the queue pair of this number.
    fn begin(&self, number: u32) -> Option<Begun<CallerPair>> {
        let caller = self.caller(number)?;
        match caller.begin() {
            Ok(begun) => Some(begun),
            Err(Turned::Away) => None,
            Err(Turned::TooMany) => {
                tracing::warn!(
                    "a compute process sends more calls than the {} that it may have under way",
                    caller.terms.credits
                );
                caller.with(Sends::cut_off);
                self.has_failed(number);
                None
            }
        }
    }

    fn post(&self, buffer: u32) {
        if self.receives.post(buffer) {
            self.posted.fetch_add(1, Ordering::Relaxed);
        } else {
            tracing::error!("a receive was refused: the memory node can answer one call less at a time");
        }
    }

    fn serve(&self, hand: &mut Hand, Job { begun, buffer, bytes, queued }: Job) {
        let Hand { searcher, message, reply } = hand;
        let bytes = bytes.min(MESSAGE_BYTES).min(CALL_HEAD_BYTES + CALL_BYTES_MAX);
        let message = &mut message[..bytes];
        self.receives.copy(buffer, 0, message);
        self.post(buffer);
        let Some(terms) = begun.terms() else { return };
        if terms.serves != Callee::MEMORY_NODE {
            // Ended first: when the relay is over, the next call may be passed on, and answered.
            drop(begun);
            self.relays.pass_back(&terms, message);
            return;
        }
        let Some((call, request)) = CallMessage::decode(message) else { return };
        let CallMessage { id, callee, answer_bytes } = call;
        let (head, answer) = reply.split_at_mut(REPLY_HEAD_BYTES);
        let (begun, bytes, head_of_reply) = if callee == Callee::MEMORY_NODE {
            self.counters.searches_total.fetch_add(1, Ordering::Relaxed);
            let (bytes, service_ns) = searcher.serve(&self.region, request, &mut answer[..answer_bytes]);
            if searcher.writer.as_mut().is_some_and(OwnPath::take_lost) {
                begun.end(Sends::cut_off);
                return self.has_failed(terms.number);
            }
            (begun, bytes, ReplyMessage { id, is_served: true, queued, service_ns })
        } else {
            match self.relays.pass_on(&call, request, begun, queued) {
                Passed::On => return,
                Passed::Not(begun) => (begun, 0, ReplyMessage { id, is_served: false, queued, service_ns: 0 }),
            }
        };
        head.copy_from_slice(&head_of_reply.encode());
        let reply = &reply[..REPLY_HEAD_BYTES + bytes];
        begun.end(|pair| {
            if !pair.reply(reply) {
                pair.cut_off();
            }
        });
    }

    /// Puts what it counts on the page.
    pub(super) fn put(&self, page: &mut Page, labels: &Labels) {
        let mut gauge =
            |name, help, value: u32| page.put(name, Kind::Gauge, help, [(labels.clone(), u64::from(value))]);
        let help = "Calls that compute processes may have under way now.";
        gauge("dm_memd_call_credits", help, lock(&self.granted).credits);
        gauge("dm_memd_call_receives", "Receives that wait for calls.", self.posted.load(Ordering::Relaxed));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.server.stops.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
