//! Verbs on shared memory: one mapped region per memory node. The requester executes each request at once.
//!
//! [`ShmFabric::post`] returns with the completions. Requests execute in the order of the submit, so each chain
//! executes in post order. As on a queue pair, a chain stops at its first failure: later requests of that submit to the
//! same memory node end as [`Status::Flushed`] without effect. The memory is accessed through `lines`, which keeps
//! lines and words whole.
//!
//! - [`litmus`]: probes whether vector moves tear.
//! - `rpc`: calls to daemons. `crash_point`: crash points for tests, which kill the process in the middle of a WRITE.
//!
//! # What is guaranteed, and why
//!
//! There is a `fence(AcqRel)` between two requests. On x86 it emits no instruction; elsewhere it is a full barrier of
//! loads, and of stores against later stores. There is a `fence(SeqCst)`, which empties the store buffer, before a READ
//! that follows a WRITE of the same submit, and at the end of a submit whose last change was a WRITE. Atomics are
//! `SeqCst`.
//!
//! | assumption | ground | why |
//! |---|---|---|
//! | LINE_ATOMIC | *vector:* asserted; *sequence:* by construction | vector: no vendor promises that a 64-byte move is one access, but on Intel no run has seen it split, and the fabric probes that at open. Sequence: a reader accepts a line only if its sequence word did not change meanwhile |
//! | WORD_ATOMIC | by construction | aligned words are accessed by `AtomicU64`, or by vector moves, which do not tear the aligned 8-byte words in them (Intel SDM vol. 3, 9.1.1, promises so for the aligned 16-byte pieces of what AVX processors load) |
//! | WRITE_THEN_WRITE | by construction | stores become visible in program order (x86 TSO), elsewhere by the fence |
//! | WRITE_THEN_ATOMIC | by construction | an x86 locked instruction empties the store buffer first; elsewhere by the fence and `SeqCst` |
//! | ATOMIC_THEN_READ | by construction | an x86 locked instruction completes before any later load; elsewhere the acquire half of `SeqCst` |
//! | COMPLETION_IS_VISIBLE | by construction | the store buffer is empty when the post returns, so any process that posts later, in real time, loads the new bytes: caches are coherent |
//! | HOST_BEFORE_DEVICE | by construction | device memory is ordinary memory here; the order of the chain holds across both |
//! | ATOMIC_EXCLUDES_WRITE | by construction | a locked instruction holds the word's cache line, so a store is before or after it, not lost in it; a store of part of a word leaves the other bytes alone (masked store) or merges by an atomic, so not even a WRITE of *other bytes* of the word loses an atomic's change. Exception in vector mode: a WRITE of 33 to 63 bytes of one line that itself begins or ends inside the word, at an odd byte (`lines` tells why) |
//! | FAILED_CAS_IS_SILENT | by construction | a failed CAS stores no value other than the present one, and no other access comes between |
//! | WRITE_ASCENDING | by construction | lines, and words within lines in sequence mode, are stored in ascending order, and stores become visible in program order; with sequence words each line is published by a release store before the next is touched |
//! | TIMED_READS | by construction | a READ of more than one line that is not UNTIMED has stamps of its own ([`crate::clock`]) around the loads that count. Other READs need none: one line is atomic, and no operation asks for the time of an UNTIMED READ. [`measured_write_turn_ns`] is a lower bound of the time of a WRITE here |
//!
//! **Memory nodes that die.** A node's daemon may end while requests execute. This process then raises the node's down
//! flag, and after that exchanges the node's memory for private memory at some instant ([`RemoteNode`]). At the end of
//! every submit, behind the fence, the fabric loads the flags of the nodes of that submit again. Requests to a node
//! that is down end as [`Status::NodeDown`], effect unknown, whatever they did. So a completion that says `Ok` is of an
//! access to the region. (A store that went to private memory was translated after the exchange. By the fence it is
//! visible before the flag is loaded, so that load comes after the exchange, too, and finds the flag raised. The fence
//! between requests orders loads before that load.)
//!
//! **RPCs** go to the node's daemon over its control socket. A post sends small frames without blocking and a poll
//! looks for the returns, so other lanes go on. A submit with an RPC is executed when all its RPCs have returned, or
//! cannot return. An RPC that does not return within [`CALL_WAIT`] ends as [`Status::NodeDown`]; the data path does not
//! take the node for dead because of that.
//!
//! **Calls** lie in slots that the daemon has mapped, too ([`crate::memory_node`]). One that is not answered within
//! [`ANSWER_WAIT`], or finds no slot, ends as [`Status::Unanswered`].
//!
//! All of this holds among processes on one coherent machine.
//!
//! **A sender that dies** leaves whole lines: `crash_atomic_bytes` is 64. In vector mode one instruction stores the
//! part of a line that a WRITE covers, and a kill takes effect between two instructions. In sequence mode the memory
//! node's daemon completes the line that a dead process was writing (`lines`), before it says that the process is
//! fenced.

mod crash_point;
pub mod litmus;
mod rpc;

use crate::clock::Clock;
use crate::memory_node::RemoteNode;
use crate::memory_node::call_area::Called;
use crate::region::lines::{self, AccessError, WriterSlot};
use crate::region::{Backing, LineMode, Region, RegionError, RegionSpec};
use crash_point::CrashPoint;
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{
    Assumptions, CALL_BYTES_MAX, Capabilities, Completion, Flags, Guarantees, INLINE_BYTES_MAX, Label, LaneId, NodeId,
    Request, Space, Status, Verb,
};
use litmus::Litmus;
use rpc::Calling;
pub use rpc::{ANSWER_WAIT, CALL_WAIT};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Why there is no fabric.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShmError {
    /// The list of memory nodes is empty.
    #[error("a pool needs at least one memory node")]
    NoNodes,
    /// A memory node is not at the position of its number.
    #[error("memory node {found} stands where memory node {expected} belongs; list the sockets in order of --node-id")]
    Order {
        /// The position in the list.
        expected: u16,
        /// The number of the memory node at that position.
        found: u16,
    },
    /// A memory node is missing.
    #[error("{given} {} connected, memory node {node} belongs to a pool of {pool}", if *given == 1 { "memory node is" } else { "memory nodes are" })]
    Count {
        /// Memory nodes that are connected.
        given: usize,
        /// The memory node that says otherwise.
        node: u16,
        /// Memory nodes of the pool, as that memory node says.
        pool: u16,
    },
    /// The region needs vector moves, which this processor does not have.
    #[error("memory node {node} serves {profile}, this processor has no AVX-512; start dm-memd with --lines sequence", profile = LineMode::Vector.profile())]
    NoVectors {
        /// The memory node.
        node: u16,
    },
    /// The region needs vector moves, which tear on this machine.
    #[error("memory node {node} serves {profile}, which this machine refutes: {litmus}; start dm-memd with --lines sequence", profile = LineMode::Vector.profile())]
    Tears {
        /// The memory node.
        node: u16,
        /// What the probe saw.
        litmus: Litmus,
    },
    /// The region has no room for another writer.
    #[error("memory node {node}: {source}")]
    Region {
        /// The memory node.
        node: u16,
        /// The reason.
        source: RegionError,
    },
}

/// What a fabric offers, and what it reports.
#[derive(Debug, Clone, Copy)]
pub struct ShmOptions {
    /// Offer [`Verb::MaskedCas`].
    pub masked_atomics: bool,
    /// Offer device memory, if the memory nodes have some.
    pub device: bool,
    /// Overrides the measured [`Capabilities::write_turn_ns_min`].
    pub write_turn_ns_min: Option<u32>,
    /// For tests: the process kills itself in the middle of one in this many WRITEs that span lines.
    pub die_in_write: Option<NonZeroU32>,
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self { masked_atomics: true, device: true, write_turn_ns_min: None, die_in_write: None }
    }
}

/// One worker's access to the memory nodes of a pool.
pub struct ShmFabric {
    nodes: Vec<Arc<RemoteNode>>,
    writers: Vec<WriterSlot>,
    capabilities: Capabilities,
    mode: LineMode,
    clock: Clock,
    /// Lanes whose requests wait for the next poll, in the order of their posts.
    posted: VecDeque<usize>,
    /// Lanes whose submits wait for returns from daemons.
    calling: Vec<Calling>,
    /// Looks for returns.
    looks: u32,
    /// Calls of lanes that memory nodes were executing when the lanes gave them up.
    given_up: Vec<(LaneId, NodeId, Called)>,
    /// Lines of the last post that are not prefetched yet.
    left: Option<Lines>,
    crash_point: Option<CrashPoint>,
}

/// Lines that a request will access.
#[derive(Clone, Copy, Debug)]
struct Lines {
    node: NodeId,
    space: Space,
    offset: u64,
    bytes: usize,
}

impl Lines {
    /// What is prefetched at once, and what is left for later.
    #[inline]
    fn halves(self) -> (Self, Option<Self>) {
        if self.bytes <= AT_ONCE_BYTES_MAX {
            return (self, None);
        }
        let half = (self.bytes / 2).next_multiple_of(LINE_BYTES);
        let left = Self { offset: self.offset + half as u64, bytes: self.bytes - half, ..self };
        (Self { bytes: half, ..self }, Some(left))
    }
}

impl std::fmt::Debug for ShmFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmFabric").field("nodes", &self.nodes.len()).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// What the requests of one submit have done so far, as far as later ones must know.
struct Submitted {
    /// The lines were prefetched when the requests were posted, and other lanes have computed since.
    ahead: bool,
    /// A WRITE may still be in the store buffer.
    buffered: bool,
    /// Memory nodes whose chain has stopped.
    stopped: heapless::Vec<NodeId, OUTBOX_REQUESTS>,
}

impl ShmFabric {
    /// Binds `nodes`, in order of their numbers. A fabric belongs to one worker; each worker makes its own.
    pub fn new(nodes: Vec<Arc<RemoteNode>>, options: ShmOptions) -> Result<Self, ShmError> {
        for node in &nodes {
            if node.region().layout().mode == LineMode::Vector {
                let id = node.node_id().0;
                if !lines::vector_supported() {
                    return Err(ShmError::NoVectors { node: id });
                }
                let litmus = litmus::probe();
                if litmus.torn > 0 {
                    return Err(ShmError::Tears { node: id, litmus });
                }
            }
        }
        let mut fabric = Self::assemble(nodes, options)?;
        fabric.capabilities.write_turn_ns_min =
            options.write_turn_ns_min.unwrap_or_else(|| measured_write_turn_ns(fabric.mode));
        Ok(fabric)
    }

    fn assemble(nodes: Vec<Arc<RemoteNode>>, options: ShmOptions) -> Result<Self, ShmError> {
        if nodes.is_empty() {
            return Err(ShmError::NoNodes);
        }
        for (position, node) in nodes.iter().enumerate() {
            let id = node.node_id().0;
            if usize::from(id) != position {
                return Err(ShmError::Order { expected: position as u16, found: id });
            }
            // Those that were started before another one was added know fewer.
            if usize::from(node.memory_nodes()) > nodes.len() {
                return Err(ShmError::Count { given: nodes.len(), node: id, pool: node.memory_nodes() });
            }
        }
        let device_bytes = nodes.iter().map(|node| node.region().layout().device_bytes).min().unwrap_or(0);
        let capabilities = Capabilities {
            masked_atomics: options.masked_atomics,
            device_bytes: if options.device { device_bytes } else { 0 },
            inline_bytes_max: INLINE_BYTES_MAX as u32,
            // Requests execute one after the other, so no READ stalls.
            outstanding_reads_max: u16::MAX,
            chain_requests_max: OUTBOX_REQUESTS as u16,
            fencing: nodes.iter().all(|node| node.can_fence()),
            crash_atomic_bytes: LINE_BYTES as u32,
            write_turn_ns_min: 0,
            calls_change: true,
            call_bytes_max: if nodes.iter().all(|node| node.has_daemon() && node.call_area().is_some()) {
                CALL_BYTES_MAX as u32
            } else {
                0
            },
        };
        let all_vector = nodes.iter().all(|node| node.region().layout().mode == LineMode::Vector);
        let any_vector = nodes.iter().any(|node| node.region().layout().mode == LineMode::Vector);
        // In a mixed pool the weaker ground counts: asserted.
        let mode = if all_vector || any_vector { LineMode::Vector } else { LineMode::Sequence };
        let mut fabric = Self {
            nodes: Vec::with_capacity(nodes.len()),
            writers: Vec::with_capacity(nodes.len()),
            capabilities,
            mode,
            clock: Clock::get(),
            posted: VecDeque::new(),
            calling: Vec::new(),
            looks: 0,
            given_up: Vec::new(),
            left: None,
            crash_point: options.die_in_write.map(CrashPoint::new),
        };
        for node in nodes {
            let writer = node
                .region()
                .claim_writer(node.owner())
                .map_err(|source| ShmError::Region { node: node.node_id().0, source })?;
            // One by one, so that a failure gives back the slots that were claimed (see `drop`).
            fabric.nodes.push(node);
            fabric.writers.push(writer);
        }
        Ok(fabric)
    }

    /// The writer slot of this fabric at memory node `node`, for a loop that accesses its memory by hand.
    pub fn writer(&self, node: NodeId) -> Option<WriterSlot> {
        self.writers.get(usize::from(node.0)).copied()
    }

    /// Executes one request; the caller passes them in post order.
    #[inline]
    fn execute(&mut self, request: &Request, scratch: &mut [u8], submitted: &mut Submitted) -> Completion {
        let mut completion = Completion::default();
        completion.status = match self.nodes.get(usize::from(request.node.0)) {
            None => Status::Refused,
            Some(node) if node.is_down() => Status::NodeDown,
            Some(_) if submitted.stopped.contains(&request.node) => Status::Flushed,
            Some(node) => {
                let writer = self.writers[usize::from(request.node.0)];
                self.access(node, writer, request, scratch, submitted, &mut completion)
            }
        };
        if completion.status != Status::Ok {
            // The list is full only if every request so far has stopped a chain, and then no other is to come.
            let _ = submitted.stopped.push(request.node);
        }
        completion
    }

    #[inline]
    fn access(
        &self,
        node: &RemoteNode,
        writer: WriterSlot,
        request: &Request,
        scratch: &mut [u8],
        submitted: &mut Submitted,
        completion: &mut Completion,
    ) -> Status {
        if request.space == Space::Device && self.capabilities.device_bytes == 0 {
            return Status::Unsupported;
        }
        let area = node.region().area(request.space);
        let local = request.local as usize;
        let bytes = request.bytes as usize;
        // Neither sum overflows: both are 32 bits wide.
        let range = local..local + bytes;
        fence(Ordering::AcqRel);
        let done = match request.verb {
            Verb::Read => {
                let Some(out) = scratch.get_mut(range) else { return Status::Refused };
                if std::mem::take(&mut submitted.buffered) {
                    fence(Ordering::SeqCst);
                }
                let spans_lines = request.offset % LINE_BYTES as u64 + u64::from(request.bytes) > LINE_BYTES as u64;
                if spans_lines && !request.flags.contains(Flags::UNTIMED) {
                    // The time between the first and the last line's load bounds how often versions turn. So the wait
                    // for lines that are far away comes before the stamp.
                    let began = if submitted.ahead {
                        self.clock.before()
                    } else {
                        area.touch(request.offset, bytes.min(LOOK_AHEAD_BYTES_MAX));
                        self.clock.after()
                    };
                    let mut timed = |began| {
                        let done = area.read(request.offset, out);
                        completion.elapsed_ns = saturated(self.clock.ns_between(began, self.clock.after()));
                        (done, completion.elapsed_ns > self.capabilities.exposure_ns_max())
                    };
                    let (mut done, too_long) = timed(began);
                    if too_long {
                        // The exposure was too long for any reader to accept. On a busy machine the processor is taken
                        // away, and afterwards the lines come slowly at first. The second time all of them are in the
                        // cache.
                        (done, _) = timed(self.clock.before());
                    }
                    done
                } else {
                    area.read(request.offset, out)
                }
            }
            Verb::Write => {
                submitted.buffered = true;
                if request.flags.contains(Flags::INLINE) {
                    let payload = request.inline_payload();
                    let Some(payload) = payload.get(..bytes) else { return Status::Refused };
                    area.write(writer, request.offset, payload)
                } else {
                    let Some(payload) = scratch.get(range) else { return Status::Refused };
                    if let Some(cut) =
                        self.crash_point.as_ref().and_then(|crash_point| crash_point.cut(request.offset, bytes))
                    {
                        let _ = area.write(writer, request.offset, &payload[..cut]);
                        CrashPoint::die();
                    }
                    area.write(writer, request.offset, payload)
                }
            }
            Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => {
                let [a, b, ..] = request.operands;
                let old = match request.verb {
                    Verb::Cas => area.cas(request.offset, a, b),
                    Verb::FetchAdd => area.fetch_add(request.offset, a),
                    _ if self.capabilities.masked_atomics => area.masked_cas(request.offset, request.operands),
                    _ => return Status::Unsupported,
                };
                old.map(|old| {
                    submitted.buffered = false;
                    completion.value = old;
                })
            }
            // `call` executes RPCs.
            Verb::Rpc | Verb::Call | Verb::Pause | Verb::Park | Verb::Wake => return Status::Unsupported,
        };
        match done {
            Ok(()) => Status::Ok,
            Err(AccessError::LineStuck) => Status::Flushed,
            Err(AccessError::Outside | AccessError::Misaligned) => Status::Refused,
        }
    }

    /// Prefetches the lines that the requests will access, but for the second half of the last one if that is large,
    /// which it returns.
    ///
    /// A core has a dozen buffers for lines on their way, and waits when it asks for more. A READ of a kilobyte would
    /// take all of them, behind those that the lanes before have posted. So its second half is prefetched when the next
    /// lane has computed: with that an update of a Dolphin of 10 M dense keys took 707 ns instead of 788.
    #[inline]
    fn look_ahead(&self, requests: &[Request]) -> Option<Lines> {
        let mut left = None;
        for request in requests.iter().filter(|request| !request.verb.is_local()) {
            let bytes = (request.bytes as usize).min(LOOK_AHEAD_BYTES_MAX);
            let lines = Lines { node: request.node, space: request.space, offset: request.offset, bytes };
            let (first, later) = lines.halves();
            self.prefetch(Some(first));
            self.prefetch(std::mem::replace(&mut left, later));
        }
        left
    }

    #[inline]
    fn prefetch(&self, lines: Option<Lines>) {
        if let Some(Lines { node, space, offset, bytes }) = lines
            && let Some(node) = self.nodes.get(usize::from(node.0))
        {
            node.region().area(space).prefetch(offset, bytes);
        }
    }
}

/// Most bytes that are prefetched of one READ: the hardware prefetcher streams the rest of a larger one.
const LOOK_AHEAD_BYTES_MAX: usize = 2048;

/// Most bytes of one READ that are prefetched at once.
const AT_ONCE_BYTES_MAX: usize = 512;

#[inline]
fn saturated(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

impl<'m> Fabric<'m> for ShmFabric {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn guarantees(&self) -> Guarantees {
        match self.mode {
            LineMode::Vector => Guarantees {
                by_construction: Assumptions::all().difference(Assumptions::LINE_ATOMIC),
                asserted: Assumptions::LINE_ATOMIC,
                profile: self.mode.profile(),
            },
            LineMode::Sequence => {
                Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" }
            }
        }
    }

    /// With one lane, requests are executed at once. With several, a post only prefetches their lines. By the time
    /// [`Fabric::poll`] executes them, the other lanes have computed while the lines were on their way. WRITEs are
    /// executed at once, since they write back what was READ a moment ago.
    #[inline]
    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let Some(one) = lanes.get(lane) else { return Posted::Completed };
        let requests = one.port().requests();
        let (mut calls, mut writes) = (false, false);
        for request in requests.iter() {
            calls |= matches!(request.verb, Verb::Rpc | Verb::Call);
            writes |= request.verb == Verb::Write;
        }
        if calls {
            drop(requests);
            return self.call(one, lane);
        }
        if lanes.len() == 1 || writes {
            drop(requests);
            self.execute_all(one, false, &[]);
            return Posted::Completed;
        }
        let left = self.look_ahead(&requests);
        drop(requests);
        let before = std::mem::replace(&mut self.left, left);
        self.prefetch(before);
        self.posted.push_back(lane);
        Posted::InFlight
    }

    #[inline]
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        let left = self.left.take();
        self.prefetch(left);
        // Only what was posted before this poll: what `ready` leads to waits for the next one.
        for _ in 0..self.posted.len() {
            let Some(at) = self.posted.pop_front() else { return };
            if let Some(lane) = lanes.get(at) {
                self.execute_all(lane, true, &[]);
            }
            ready(at);
        }
        if !self.calling.is_empty() {
            self.hear(lanes, ready);
        }
    }
}

impl ShmFabric {
    /// Executes what a lane submitted, and delivers the completions.
    ///
    /// Only READs of several lines are timed, and of those only the ones that are not UNTIMED. Other requests take less
    /// time than the stamps would cost, and only deadlines use their times.
    #[inline]
    fn execute_all(&mut self, lane: &Lane<'_>, ahead: bool, returns: &[(usize, Completion)]) {
        let port = lane.port();
        let Some(scratch) = port.begin() else { return };
        let requests = port.requests();
        let mut submitted = Submitted { ahead, buffered: false, stopped: heapless::Vec::new() };
        if !ahead && requests.len() > 1 {
            let left = self.look_ahead(&requests[1..]);
            self.prefetch(left);
        }
        let mut elapsed_ns = 0;
        // One per request: a submit has no more.
        let mut completions = heapless::Vec::<Completion, OUTBOX_REQUESTS>::new();
        for (position, request) in requests.iter().enumerate() {
            let returned = returns.iter().find(|(at, _)| *at == position);
            let completion = match returned {
                _ if request.verb.is_local() => Completion::default(),
                Some((_, completion)) => {
                    if completion.status != Status::Ok {
                        let _ = submitted.stopped.push(request.node);
                    }
                    *completion
                }
                None if request.label == Label::Closed && self.is_executed(lane.id(), request.node) => {
                    Completion { status: Status::Flushed, ..Completion::default() }
                }
                None => self.execute(request, scratch, &mut submitted),
            };
            elapsed_ns += u64::from(completion.elapsed_ns);
            let _ = completions.push(completion);
        }
        if submitted.buffered {
            fence(Ordering::SeqCst);
        }
        fence(Ordering::Acquire);
        for (position, (request, &(mut completion))) in requests.iter().zip(&completions).enumerate() {
            let node = self.nodes.get(usize::from(request.node.0));
            if !matches!(request.verb, Verb::Rpc | Verb::Call)
                && !request.verb.is_local()
                && node.is_some_and(|node| node.is_down())
            {
                completion.status = Status::NodeDown;
            }
            let misuse = port.complete(position, completion);
            debug_assert_eq!(misuse, None);
        }
        drop(requests);
        let misuse = port.finish(scratch, elapsed_ns);
        debug_assert_eq!(misuse, None);
    }
}

impl Drop for ShmFabric {
    fn drop(&mut self) {
        self.give_calls_up();
        for (node, writer) in self.nodes.iter().zip(&self.writers) {
            node.region().release_writer(*writer);
        }
    }
}

/// A lower bound of the time between two WRITEs of one place, in ns, measured once per process and mode.
///
/// The bound tells how many WRITEs fit into one READ ([`Capabilities::write_turn_ns_min`]; versions turn after 16). So
/// the measurement takes the fastest run of 16 posts of one two-line WRITE each, on memory no other thread uses, hot in
/// the cache. It allows for a processor a third faster than during the measurement. Real turns are longer: between two
/// WRITEs of one place a lock passes on, by a CAS or by a handover with a READ, and between two cores the lines
/// themselves move.
pub fn measured_write_turn_ns(mode: LineMode) -> u32 {
    const RUNS: usize = 200;
    const TURNS: usize = 16;
    static MEASURED: [OnceLock<u32>; 2] = [OnceLock::new(), OnceLock::new()];
    let measure = || -> Option<u32> {
        let spec = RegionSpec { region_bytes: 64 << 10, device_bytes: 0, mode, backing: Backing::Memfd };
        let node = Arc::new(RemoteNode::in_process(Region::create(&spec).ok()?));
        let mut fabric = ShmFabric::assemble(vec![node], ShmOptions::default()).ok()?;
        let mut scratch = [0; 2 * LINE_BYTES];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        let port = lanes[0].port();
        let clock = fabric.clock;
        let fastest = (0..RUNS).map(|_| {
            let began = clock.before();
            for _ in 0..TURNS {
                port.push(Request::write(Label::Tool, NodeId(0), 0, 2 * LINE_BYTES, 0));
                port.flush();
                fabric.post(&lanes, 0);
                port.reset();
            }
            clock.ns_between(began, clock.after())
        });
        let turn_ns = fastest.min()? / TURNS as u64;
        Some(saturated(turn_ns * 3 / 4).max(1))
    };
    let cell = &MEASURED[usize::from(mode == LineMode::Sequence)];
    // Without a measurement: 1 ns, which rejects nearly every READ of several lines. 0 would accept all of them.
    *cell.get_or_init(|| measure().unwrap_or(1))
}

#[cfg(test)]
mod tests;
