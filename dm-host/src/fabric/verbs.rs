//! Verbs on an RDMA device: RC queue pairs, one per worker and memory node.
//!
//! In order of reading:
//!
//! - [`device`]: a device of this process and its limits. `cm`: from an address to a device and a path.
//! - `memory`: what a device may reach. `queue_pair`: queue pairs and the completion queue.
//! - `link`: one worker's way to one memory node, and what happens when a queue pair fails.
//! - [`profile`]: what is relied upon beyond the specification, and on what ground.
//! - [`VerbsOptions`], [`VerbsError`]: what can be chosen, and what can be wrong.
//! - this file: [`VerbsFabric`]. `chain`: from a lane's submit to work requests. `harvest`: from completions back to
//!   lanes. `messages`: calls of memory nodes' processors; `credits`: how many, and whose a reply is. `calls`: procedures of
//!   memory nodes' daemons. `receives`: what the end that is called needs.
//! - `inbox`: where calls of other compute nodes arrive.
//! - [`mlx5`]: masked atomics, where the device has them. `null`: a device that does nothing, to measure with.
//!
//! **From a submit to the wire.** The requests of one submit to one memory node are one linked list of work requests,
//! posted with one doorbell. A request is signaled if it is the last of its list that the lane waits for (completions
//! of one queue pair come in order, so one completion covers all requests before it), or if so many requests were
//! unsignaled that the send queue would not drain. Payloads up to the device's inline limit travel in the work request.
//! [`Flags::FENCE`] becomes the device's fence. The device holds READs and atomics back beyond the number that the two
//! ends agreed on.
//!
//! **A copy, on purpose.** The device never writes into a lane's scratch. The fabric copies payloads into a block of
//! its own at post, and out of it at completion. The scratch is borrowed memory, and a borrow can end - a lane dropped
//! in flight, a fabric leaked - while a NIC goes on writing; no lifetime of Rust covers that. The block is registered
//! once, lives as long as the queue pairs, and is deregistered before it is unmapped. So every request posted here is
//! sound, whatever its lane does. The price is one copy within the cache, some 20 ns per KiB.
//!
//! **Failure.** The fabric checks the status of each completion. It drains a queue pair that failed: every posted
//! request completes with a status, [`Status::Flushed`] where the effect is not known. The responder closes the failed
//! queue pair before the fabric makes its successor, so that no late request takes effect behind what is posted next.

mod calls;
mod chain;
pub(crate) mod cm;
mod completion;
mod credits;
pub mod device;
mod error;
mod harvest;
mod ids;
pub(crate) mod inbox;
mod link;
pub(crate) mod memory;
mod messages;
pub mod mlx5;
mod null;
mod options;
pub mod profile;
pub(crate) mod queue_pair;
pub(crate) mod receives;
#[cfg(test)]
mod tests;

pub use error::VerbsError;
pub(crate) use error::last_error;
pub use options::VerbsOptions;
use options::answer_wait_of;
pub(crate) use options::{choose_mtu, mtu_bytes};
pub use queue_pair::Patience;

use crate::clock::{Clock, Stamp};
use crate::memory_node::verbs::call_wire::MESSAGE_BYTES;
use crate::memory_node::verbs::client::Peer;
use calls::Calling;
use chain::Work;
use cm::{Channel, Id};
use device::Device;
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{
    CALL_BYTES_MAX, Callee, Capabilities, Completion, Flags, Guarantees, INLINE_BYTES_MAX, Label, LaneId, NodeId,
    Request, Status, Verb,
};
use harvest::saturated;
use inbox::VerbsInbox;
use link::{ANSWER_BYTES, Link};
use memory::Block;
use queue_pair::CompletionQueue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a lane that submitted waits for.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// The lane's copy of the scratch: which block, where in it, how long.
    block: usize,
    at: usize,
    bytes: usize,
    /// Completions to come, plus one while the submit is being posted.
    pending: u32,
    posted: Stamp,
}

/// Least requests in a send queue: a full submit, beside the requests that may wait there without a completion to come,
/// which are less than a quarter of the queue (`end` in `chain`). A power of two, as every depth is.
const QUEUE_REQUESTS_MIN: u32 = 4 * OUTBOX_REQUESTS as u32;

/// One worker's access to the memory nodes of a pool. Rust drops the fields in this order: queue pairs before the
/// completion queue they report to and the memory they write to.
pub struct VerbsFabric {
    links: Vec<Link>,
    completions: Arc<CompletionQueue>,
    blocks: Vec<Block>,
    tracks: Vec<Track>,
    calls: Vec<Calling>,
    /// Calls of memory nodes' processors that lanes wait for, and how long such a call may take.
    waiting_calls: usize,
    answer_wait: Duration,
    /// Room to build one message in.
    message: Box<[u8]>,
    /// Lanes that can go on, not reported yet.
    ready: Vec<usize>,
    idle_polls: u32,
    capabilities: Capabilities,
    guarantees: Guarantees,
    clock: Clock,
    device: Arc<Device>,
    work: Box<Work>,
    masked: Masked,
}

/// Whether masked atomics are offered, and in which byte order their results come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masked {
    /// One end or the other has no masked atomics.
    No,
    /// In the byte order of the processor.
    Native,
    /// In the opposite byte order.
    Swapped,
}

// SAFETY: the only pointers are in `work`: they lead into `work` itself, which is boxed, or nowhere, and are written
// anew before each use.
unsafe impl Send for VerbsFabric {}

impl std::fmt::Debug for VerbsFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerbsFabric")
            .field("device", &self.device.name())
            .field("nodes", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl VerbsFabric {
    /// Connects a queue pair to each of `peers`, in order of their numbers. A fabric belongs to one worker; each worker
    /// makes its own.
    pub fn new(peers: &[Arc<Peer>], options: &Arc<VerbsOptions>) -> Result<Self, VerbsError> {
        let Some(first) = peers.first() else { return Err(VerbsError::NoNodes) };
        for (position, peer) in peers.iter().enumerate() {
            let (node, pool) = (peer.welcome().node, peer.welcome().nodes);
            if usize::from(node) != position {
                return Err(VerbsError::Order { expected: position as u16, found: node });
            }
            // Those that were started before another one was added know fewer.
            if usize::from(pool) > peers.len() {
                return Err(VerbsError::Count { given: peers.len(), node, pool });
            }
        }
        let device = device_to(first, options)?;
        Self::on_device(device, peers, options)
    }

    /// A fabric on a device that completes every request at once and executes none, with one memory node of
    /// `region_bytes` bytes. READs return what was in the copy. For measurements.
    pub fn null(region_bytes: u64) -> Result<Self, VerbsError> {
        let options = VerbsOptions { write_turn_ns_min: Some(1), calls: 0, ..VerbsOptions::default() };
        let options = Arc::new(options);
        Self::on_device(Device::null(false), &[Peer::null(region_bytes, false)?], &options)
    }

    fn on_device(device: Arc<Device>, peers: &[Arc<Peer>], options: &Arc<VerbsOptions>) -> Result<Self, VerbsError> {
        let Some(first) = peers.first() else { return Err(VerbsError::NoNodes) };
        if !device.limits().atomics {
            return Err(VerbsError::NoAtomics { device: device.name().to_owned() });
        }
        let limits = device.limits();
        // Every request may bring a completion: all of them do when a queue pair fails.
        let calls = options.calls();
        let completions_max = (limits.completions_max / peers.len() as u32).saturating_sub(calls);
        let most = options.queue_requests.min(limits.queue_requests_max).min(completions_max);
        let depth = (1 << most.max(1).ilog2()).max(QUEUE_REQUESTS_MIN);
        let completions = CompletionQueue::new(&device, (depth + calls) * peers.len() as u32)?;
        let mut links = Vec::with_capacity(peers.len());
        for peer in peers {
            let theirs = if device.is_null { Arc::clone(&device) } else { device_to(peer, options)? };
            if !Arc::ptr_eq(&theirs, &device) {
                return Err(VerbsError::Devices {
                    address: peer.address().to_owned(),
                    found: theirs.name().to_owned(),
                    first: device.name().to_owned(),
                });
            }
            let answers = Block::new(&device, depth as usize * ANSWER_BYTES)?;
            let messages = Block::new(&device, 2 * calls as usize * MESSAGE_BYTES)?;
            let mut link = Link::new(Arc::clone(peer), &completions, (answers, messages), depth as usize, options);
            if device.is_null {
                link.connect_null()?;
            } else {
                link.connect()?;
            }
            links.push(link);
        }
        let profile =
            peers.iter().fold(first.welcome().profile, |weakest, peer| weakest.weaker(peer.welcome().profile));
        let capabilities = Capabilities {
            masked_atomics: false,
            device_bytes: peers.iter().map(|peer| peer.welcome().device_bytes).min().unwrap_or(0),
            inline_bytes_max: links.iter().map(Link::inline_bytes).min().unwrap_or(0).min(INLINE_BYTES_MAX as u32),
            outstanding_reads_max: links.iter().map(|link| u16::from(link.reads_max)).min().unwrap_or(1),
            chain_requests_max: OUTBOX_REQUESTS as u16,
            fencing: true,
            // A responder takes a packet whole or not at all.
            crash_atomic_bytes: links.iter().map(|link| mtu_bytes(link.mtu)).min().unwrap_or(0),
            write_turn_ns_min: 0,
            calls_change: peers.iter().all(|peer| peer.welcome().calls_change),
            call_bytes_max: if links.iter().all(|link| link.credits.is_granted()) { CALL_BYTES_MAX as u32 } else { 0 },
        };
        let mut fabric = Self {
            links,
            completions,
            blocks: Vec::new(),
            tracks: Vec::new(),
            calls: Vec::new(),
            waiting_calls: 0,
            answer_wait: options.answer_wait.unwrap_or_else(|| answer_wait_of(profile)),
            message: vec![0; MESSAGE_BYTES].into_boxed_slice(),
            ready: Vec::new(),
            idle_polls: 0,
            capabilities,
            guarantees: profile.guarantees(),
            clock: Clock::get(),
            device,
            work: Work::new(),
            masked: Masked::No,
        };
        fabric.capabilities.write_turn_ns_min = match options.write_turn_ns_min {
            Some(ns) => ns,
            None => fabric.measure_turn_ns(),
        };
        fabric.masked = fabric.try_masked();
        fabric.capabilities.masked_atomics = fabric.masked != Masked::No;
        Ok(fabric)
    }

    /// The device it uses.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Where calls for `callee` arrive, a compute node of this process. `None`: there are no calls, or it cannot be had.
    pub(crate) fn inbox(&self, callee: Callee) -> Option<VerbsInbox> {
        let link = self.links.first().filter(|link| link.credits.is_granted())?;
        VerbsInbox::new(&self.device, link.peer(), link.options(), callee)
            .inspect_err(|error| tracing::warn!("other compute nodes cannot call this one: {error}"))
            .ok()
    }

    /// Makes the queue pair to `node` fail, as a pulled cable would, for tests of recovery.
    pub fn break_link(&mut self, node: NodeId) {
        if let Some(link) = self.links.get_mut(usize::from(node.0)) {
            link.fail(Instant::now());
        }
    }

    /// Half of the shortest of some round trips. A compute node that WRITEs a place twice has done a round trip in
    /// between, for the lock or for the READ under it. It may be nearer to the memory node than this process.
    fn measure_turn_ns(&mut self) -> u32 {
        const TURNS: usize = 32;
        let mut shortest_ns = u64::MAX;
        for node in 0..self.links.len() as u16 {
            for _ in 0..TURNS {
                let (completion, _) = self.ask(Request::read(Label::Tool, NodeId(node), 0, 8, 0));
                if completion.status == Status::Ok {
                    shortest_ns = shortest_ns.min(u64::from(completion.elapsed_ns));
                }
            }
        }
        // Without a measurement: reject nearly every READ of several lines, rather than accept all.
        if shortest_ns == u64::MAX { 1 } else { saturated(shortest_ns / 2).max(1) }
    }

    /// Whether masked atomics work, to all memory nodes, and in which byte order their results come: that depends on
    /// the device's firmware. A masked CAS that compares and changes nothing has to return what a READ returns there,
    /// in one byte order or the other. It is tried on the first word of the superblock. That word is written once, when
    /// the memory node starts, and is not the same in both byte orders.
    fn try_masked(&mut self) -> Masked {
        let mut found = None;
        for node in 0..self.links.len() {
            let link = &self.links[node];
            if !link.takes_masked() || !link.peer().welcome().masked_atomics {
                return Masked::No;
            }
            let at = NodeId(node as u16);
            let (read, word) = self.ask(Request::read(Label::Tool, at, 0, 8, 0));
            self.masked = Masked::Native;
            let (tried, _) = self.ask(Request::masked_cas(Label::Tool, at, 0, [0; 4]));
            self.masked = Masked::No;
            let order = match tried.value {
                _ if (read.status, tried.status) != (Status::Ok, Status::Ok) || word == word.swap_bytes() => None,
                value if value == word => Some(Masked::Native),
                value if value == word.swap_bytes() => Some(Masked::Swapped),
                _ => None,
            };
            let same = found.is_none_or(|found| Some(found) == order);
            let Some(order) = order.filter(|_| same) else {
                tracing::warn!(
                    "memory node {node}: {} says that it has masked atomics, but one answered {:#x} ({}) where {word:#x} is: plain CAS only",
                    self.device.name(),
                    tried.value,
                    tried.status.name()
                );
                return Masked::No;
            };
            found = Some(order);
        }
        found.unwrap_or(Masked::No)
    }

    /// Executes one request by itself. Returns its completion and the word that it READ.
    fn ask(&mut self, request: Request) -> (Completion, u64) {
        let mut scratch = [0; 8];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        let port = lanes[0].port();
        port.push(request);
        port.flush();
        if self.post(&lanes, 0) == Posted::InFlight {
            while port.state() == dm_core::port::State::InFlight {
                self.poll(&lanes, &mut |_| {});
            }
        }
        (port.completion(0), port.with(|scratch| scratch.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))))
    }

    /// Gives each idle lane a copy at least as long as its scratch.
    #[cold]
    fn make_room(&mut self, lanes: usize, bytes: usize) -> Result<(), VerbsError> {
        if self.tracks.len() < lanes {
            let track = Track { block: 0, at: 0, bytes: 0, pending: 0, posted: self.clock.before() };
            self.tracks.resize(lanes, track);
        }
        // All lanes of a worker have the same index, and so the same scratch.
        let stride = bytes.next_multiple_of(64);
        let idle = |track: &Track| track.pending == 0 && track.bytes < bytes;
        let count = self.tracks[..lanes].iter().filter(|track| idle(track)).count();
        let block = Block::new(&self.device, stride * count)?;
        debug_assert!(block.bytes() >= stride * count);
        let number = self.blocks.len();
        for (position, track) in self.tracks[..lanes].iter_mut().filter(|track| idle(track)).enumerate() {
            (track.block, track.at, track.bytes) = (number, position * stride, bytes);
        }
        self.blocks.push(block);
        Ok(())
    }

    /// Removes a lane from the list of those that can go on.
    #[inline]
    fn not_ready(&mut self, at: usize) {
        if !self.ready.is_empty() {
            self.ready.retain(|&ready| ready != at);
        }
    }
}

/// The device that leads to `peer`.
fn device_to(peer: &Peer, options: &VerbsOptions) -> Result<Arc<Device>, VerbsError> {
    let id = Id::new(&Channel::new()?)?;
    let address = peer.socket();
    id.resolve(options.source, address, crate::memory_node::verbs::client::ANSWER_WAIT)?;
    let found = id.device()?;
    let (device, port) =
        found.ok_or_else(|| VerbsError::Unreachable { address, what: "no RDMA device leads there".to_owned() })?;
    match device.port(port)? {
        (_, true) => Ok(device),
        (_, false) => Err(VerbsError::PortDown { device: device.name().to_owned(), port }),
    }
}

impl<'m> Fabric<'m> for VerbsFabric {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn guarantees(&self) -> Guarantees {
        self.guarantees
    }

    #[inline]
    fn post(&mut self, lanes: &[Lane<'m>], at: usize) -> Posted {
        let Some(lane) = lanes.get(at) else { return Posted::Completed };
        let port = lane.port();
        let bytes = port.with(|scratch| scratch.len());
        // A lane of an earlier slice may have been dropped in flight. Its requests must end before its copy is used
        // again.
        while self.tracks.get(at).is_some_and(|track| track.pending > 0) {
            self.harvest(lanes);
        }
        if self.tracks.get(at).is_none_or(|track| track.bytes < bytes)
            && let Err(error) = self.make_room(lanes.len(), bytes)
        {
            tracing::error!("{error}");
            return fail_all(lane, Status::Unsupported);
        }
        self.not_ready(at);
        let requests = port.requests();
        let track = self.tracks[at];
        let copy = &self.blocks[track.block];
        let begun = port.begin_by_copy(|scratch| {
            for request in requests.iter() {
                let range = request.local as usize..request.local as usize + request.bytes as usize;
                if matches!(request.verb, Verb::Write | Verb::Call)
                    && !request.flags.contains(Flags::INLINE)
                    && range.end <= track.bytes
                    && let Some(payload) = scratch.get(range)
                {
                    copy.put(track.at + request.local as usize, payload);
                }
            }
        });
        if begun.is_none() {
            return Posted::Completed;
        }
        self.tracks[at].pending = 1;
        self.tracks[at].posted = self.clock.before();
        let mut posted = 0u32;
        for position in 0..requests.len() {
            let request = &requests[position];
            if request.verb.is_local() || posted & (1 << position) != 0 {
                continue;
            }
            if request.verb == Verb::Rpc {
                self.call(lanes, at, position as u8, request);
                continue;
            }
            if request.verb == Verb::Call {
                self.post_call(lanes, at, position as u8, request);
                continue;
            }
            let mut chain = heapless::Vec::<u8, OUTBOX_REQUESTS>::new();
            for (other, candidate) in requests.iter().enumerate().skip(position) {
                let travels = !candidate.verb.is_local() && candidate.verb != Verb::Rpc;
                if candidate.verb == Verb::Call && candidate.node == request.node {
                    // What was submitted behind it is posted behind it.
                    break;
                }
                if travels && candidate.node == request.node {
                    posted |= 1 << other;
                    // An outbox has at most this many requests.
                    let _ = chain.push(other as u8);
                }
            }
            self.post_chain(lanes, at, &requests, &chain);
        }
        drop(requests);
        self.release(lanes, at, 0);
        if self.tracks[at].pending == 0 {
            self.not_ready(at);
            return Posted::Completed;
        }
        Posted::InFlight
    }

    #[inline]
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        self.harvest(lanes);
        for &at in &self.ready {
            ready(at);
        }
        self.ready.clear();
    }
}

/// Ends a submit of which no request was posted.
fn fail_all(lane: &Lane<'_>, status: Status) -> Posted {
    let port = lane.port();
    let count = port.requests().len();
    if port.begin_by_copy(|_| ()).is_some() {
        for position in 0..count {
            port.complete(position, Completion { status, ..Completion::default() });
        }
        port.finish_by_copy(0, |_| ());
    }
    Posted::Completed
}
