//! Verbs on an RDMA device: RC queue pairs, one per worker and memory node.
//!
//! In order of reading:
//!
//! - [`device`]: a device of this process and its limits. `cm`: from an address to a device and a path.
//! - `memory`: what a device may reach. `queue_pair`: queue pairs and the completion queue.
//! - `link`: one worker's way to one memory node, and what happens when a queue pair fails.
//! - [`profile`]: what is relied upon beyond the specification, and on what ground.
//! - this file: [`VerbsFabric`], from a lane's submit to work requests and from completions back to lanes.
//!
//! **From a submit to the wire.** The requests of one submit to one memory node are one linked list of work requests,
//! posted with one doorbell. A request brings a completion only if it is the last of its list that the lane waits for
//! (completions of one queue pair come in order, so that one speaks for all before it), or if so many went without
//! that the send queue would not drain. Payloads up to the device's inline limit travel in the work request.
//! [`Flags::FENCE`] becomes the device's fence. READs and atomics beyond what the two ends agreed on are held back by the
//! device.
//!
//! **A copy, on purpose.** The device never writes into a lane's scratch: payloads are copied into a block of the
//! fabric's own at post, and out of it at completion. The scratch is borrowed memory, and a borrow can end - a lane
//! dropped in flight, a fabric leaked - while a NIC goes on writing; no lifetime of Rust covers that. The block is
//! registered once, lives as long as the queue pairs, and is deregistered before it is unmapped, so every request
//! posted here is sound whatever its lane does. The price is one copy within the cache, some 20 ns per KiB.
//!
//! **Failure.** Each completion's status is checked. A queue pair that failed is drained: every request that was posted
//! completes with a status, [`Status::Flushed`] where the effect is not known. It is closed at the responder before
//! its successor is made, so that nothing late takes effect behind what is posted next.

pub(crate) mod cm;
mod completion;
pub mod device;
mod link;
pub(crate) mod memory;
mod null;
pub mod profile;
pub(crate) mod queue_pair;

pub use queue_pair::Patience;

use crate::clock::{Clock, Stamp};
use crate::memory_node::verbs::client::{Peer, PeerError};
use crate::memory_node::verbs::secret::{Secret, SecretError};
use crate::memory_node::verbs::wire::{FENCED, OVERLAP_BYTES, WireError};
use cm::{Channel, Id};
use completion::status_of;
use device::Device;
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::remote::rpc::Reply;
use dm_core::verbs::{
    Capabilities, Completion, Fabric, Flags, Guarantees, INLINE_BYTES_MAX, Label, LaneId, NodeId, Posted, Request,
    Space, Status, Verb,
};
use link::{ANSWER_BYTES, Link, NOBODY, Slot};
use memory::Block;
use profile::Profile;
use queue_pair::CompletionQueue;
use rdma_sys::{ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status, ibv_wr_opcode};
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a device, a connection or a fabric cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// No memory nodes.
    #[error("a pool needs at least one memory node")]
    NoNodes,
    /// Memory nodes are addressed by position.
    #[error("memory node {found} stands where memory node {expected} belongs")]
    Order {
        /// The position.
        expected: u16,
        /// The number of the node there.
        found: u16,
    },
    /// One is missing.
    #[error("{given} memory nodes are connected, memory node {node} belongs to a pool of {pool}")]
    Count {
        /// Connected.
        given: usize,
        /// Who says otherwise.
        node: u16,
        /// What it says.
        pool: u16,
    },
    /// Control connection.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A call failed.
    #[error("cannot {doing} {whom}: {source}")]
    Call {
        /// What was tried.
        doing: &'static str,
        /// With what.
        whom: String,
        /// Why not.
        source: io::Error,
    },
    /// No device has the address.
    #[error("cannot bind to {address}: {source}; {}", addresses())]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A registration was refused.
    #[error(
        "{device} cannot register {bytes} bytes: {source}; see `dm doctor` for its limits and those of this process"
    )]
    Register {
        /// The device.
        device: String,
        /// How many.
        bytes: u64,
        /// Why not.
        source: io::Error,
    },
    /// More than the device registers at once.
    #[error(
        "a region of {bytes} bytes in registrations of {piece} bytes: {device} registers at most {max} bytes at once; use --registration-size"
    )]
    RegistrationSize {
        /// The device.
        device: String,
        /// Of the region.
        bytes: u64,
        /// Of one registration.
        piece: u64,
        /// The limit.
        max: u64,
    },
    /// RLIMIT_MEMLOCK.
    #[error(
        "{needed} bytes would be locked, this process may lock {limit}; run `ulimit -l unlimited` as root, or set LimitMEMLOCK=infinity in its unit"
    )]
    LockedMemory {
        /// With what is locked already.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// No way there.
    #[error("{address}: no RDMA path: {what}; see `dm doctor`")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// Why not.
        what: String,
    },
    /// The connection manager of the other end said no.
    #[error("{address}: the connection was rejected by something that is not a memory node of this release")]
    Rejected {
        /// Where.
        address: SocketAddr,
        /// What it said.
        private: Vec<u8>,
    },
    /// The memory node said no.
    #[error("{address}: {source}")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        source: WireError,
    },
    /// Memory nodes are reached by different devices.
    #[error("memory node {address} is reached by {found}, the first one by {first}; name one device with --ib-dev")]
    Devices {
        /// Which.
        address: String,
        /// Its device.
        found: String,
        /// The first one's.
        first: String,
    },
    /// No atomics.
    #[error("{device} has no atomics (atomic_cap is NONE), and locks need them")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// Port not active.
    #[error("port {port} of {device} is down; see `ip link` or `ibstat`, and `dm doctor`")]
    PortDown {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
    },
    /// A packet size that the port does not have.
    #[error("--mtu {asked}: the active MTU of {device} is {active}; give at most that, or raise the interface's")]
    Mtu {
        /// The device.
        device: String,
        /// Asked for, in bytes.
        asked: u32,
        /// What the port has, in bytes.
        active: u32,
    },
    /// A name, number or address that is not there.
    #[error("{0}")]
    Choice(String),
}

/// An error of a call that sets `errno`.
pub(crate) fn last_error(doing: &'static str, whom: &str) -> VerbsError {
    VerbsError::Call { doing, whom: whom.to_owned(), source: io::Error::last_os_error() }
}

/// The addresses that RDMA devices of this machine have, as advice.
fn addresses() -> String {
    let found: Vec<_> = super::devices::list()
        .into_iter()
        .flat_map(|device| device.ports.into_iter().flat_map(|port| port.gids))
        .filter_map(|gid| gid.address())
        .map(|address| address.to_string())
        .collect();
    if found.is_empty() {
        "no RDMA device of this machine has an IP address; see `dm doctor`".to_owned()
    } else {
        format!("RDMA devices of this machine have {}", found.join(", "))
    }
}

/// How a compute process reaches memory nodes.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// What it shares with them.
    pub secret: Option<Secret>,
    /// The address of the device to use; `None`: by route.
    pub source: Option<SocketAddr>,
    /// The largest packet, in bytes; `None`: what the ports have.
    pub mtu_bytes: Option<u32>,
    /// `None`: by profile.
    pub patience: Option<Patience>,
    /// Requests in a send queue, at least 16.
    pub queue_requests: u32,
    /// Bytes a request shall carry inline, if the device can.
    pub inline_bytes: u32,
    /// Overrides the measured [`Capabilities::write_turn_ns_min`].
    pub write_turn_ns_min: Option<u32>,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self {
            secret: None,
            source: None,
            mtu_bytes: None,
            patience: None,
            queue_requests: 512,
            // What Sherman and its successors ask for.
            inline_bytes: 256,
            write_turn_ns_min: None,
        }
    }
}

impl VerbsOptions {
    /// The exponent of the packet size on a port with that active one.
    fn mtu(&self, active: u8, device: &str) -> Result<u8, VerbsError> {
        choose_mtu(self.mtu_bytes, active, device)
    }
}

/// The exponent of a packet size: 1..=5 for 256 to 4096 bytes.
pub(crate) fn choose_mtu(asked_bytes: Option<u32>, active: u8, device: &str) -> Result<u8, VerbsError> {
    let Some(asked) = asked_bytes else { return Ok(active) };
    let exponent = (1..=5u8)
        .find(|&exponent| mtu_bytes(exponent) == asked)
        .ok_or_else(|| VerbsError::Choice(format!("--mtu {asked}: an MTU is 256, 512, 1024, 2048 or 4096 bytes")))?;
    if exponent > active {
        return Err(VerbsError::Mtu { device: device.to_owned(), asked, active: mtu_bytes(active) });
    }
    Ok(exponent)
}

/// Bytes of an MTU exponent.
pub(crate) const fn mtu_bytes(exponent: u8) -> u32 {
    128 << exponent
}

impl Patience {
    /// What suits a platform: 0.5 s on hardware, 4 s where the device is software and its machine may be an emulated
    /// one.
    pub const fn of(profile: Profile) -> Self {
        match profile {
            Profile::SoftRoce => Self { timeout_exponent: 17, retries: 6 },
            _ => Self { timeout_exponent: 14, retries: 6 },
        }
    }
}

/// What a lane that submitted waits for.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Its copy of the scratch: which block, where in it, how long.
    block: usize,
    at: usize,
    bytes: usize,
    /// Completions to come, and one more while it is being posted.
    pending: u32,
    posted: Stamp,
}

/// A call of a memory node's daemon.
#[derive(Clone, Copy, Debug)]
struct Calling {
    node: usize,
    id: u64,
    operands: [u64; 4],
    lane: u16,
    position: u8,
    /// When it is repeated.
    again: Instant,
    /// Repetitions left.
    left: u8,
}

/// How long a daemon may take until a call is repeated.
const CALL_WAIT: Duration = Duration::from_secs(2);

/// Requests in a send queue at least: a full submit beside what may wait there without a completion to come, which is
/// less than a quarter of the queue ([`VerbsFabric::build`]).
const QUEUE_REQUESTS_MIN: u32 = 4 * OUTBOX_REQUESTS as u32;

/// How often a call is repeated.
const CALL_REPEATS: u8 = 4;

/// Completions taken at once.
const BATCH: usize = 32;

/// Polls without a completion between two looks for what comes without one.
const IDLE_POLLS: u32 = 256;

/// One worker's access to the memory nodes of a pool. Fields are dropped in this order: queue pairs before the
/// completion queue they report to and the memory they write to.
pub struct VerbsFabric {
    links: Vec<Link>,
    completions: Arc<CompletionQueue>,
    blocks: Vec<Block>,
    tracks: Vec<Track>,
    calls: Vec<Calling>,
    /// Lanes that can go on, not reported yet.
    ready: VecDeque<usize>,
    idle_polls: u32,
    capabilities: Capabilities,
    guarantees: Guarantees,
    clock: Clock,
    device: Arc<Device>,
    work: Box<Work>,
}

/// Room to build a list of work requests in.
struct Work {
    requests: [MaybeUninit<ibv_send_wr>; OUTBOX_REQUESTS],
    pieces: [ibv_sge; OUTBOX_REQUESTS],
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
    /// Connects a queue pair to each of `peers`, in order of their numbers. A value belongs to one worker; each worker
    /// makes its own.
    pub fn new(peers: &[Arc<Peer>], options: &Arc<VerbsOptions>) -> Result<Self, VerbsError> {
        let Some(first) = peers.first() else { return Err(VerbsError::NoNodes) };
        for (position, peer) in peers.iter().enumerate() {
            let (node, pool) = (peer.welcome().node, peer.welcome().nodes);
            if usize::from(node) != position {
                return Err(VerbsError::Order { expected: position as u16, found: node });
            }
            if usize::from(pool) != peers.len() {
                return Err(VerbsError::Count { given: peers.len(), node, pool });
            }
        }
        let device = device_to(first, options)?;
        Self::on_device(device, peers, options)
    }

    /// A fabric on a device that does nothing, at once, with one memory node of `region_bytes` bytes: READs bring what
    /// was in the copy. To measure with.
    pub fn null(region_bytes: u64) -> Result<Self, VerbsError> {
        let options = Arc::new(VerbsOptions { write_turn_ns_min: Some(1), ..VerbsOptions::default() });
        Self::on_device(Device::null(), &[Peer::null(region_bytes)?], &options)
    }

    fn on_device(device: Arc<Device>, peers: &[Arc<Peer>], options: &Arc<VerbsOptions>) -> Result<Self, VerbsError> {
        let Some(first) = peers.first() else { return Err(VerbsError::NoNodes) };
        if !device.limits().atomics {
            return Err(VerbsError::NoAtomics { device: device.name().to_owned() });
        }
        let limits = device.limits();
        // Every request may bring a completion: all of them do when a queue pair fails.
        let depth = options
            .queue_requests
            .min(limits.queue_requests_max)
            .min(limits.completions_max / peers.len() as u32)
            .max(QUEUE_REQUESTS_MIN);
        let completions = CompletionQueue::new(&device, depth * peers.len() as u32)?;
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
            let mut link = Link::new(Arc::clone(peer), &completions, answers, depth as usize, options);
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
            // Only by raw work-queue entries of one vendor, which is not offered.
            masked_atomics: false,
            device_bytes: peers.iter().map(|peer| peer.welcome().device_bytes).min().unwrap_or(0),
            inline_bytes_max: links.iter().map(Link::inline_bytes).min().unwrap_or(0).min(INLINE_BYTES_MAX as u32),
            outstanding_reads_max: links.iter().map(|link| u16::from(link.reads_max)).min().unwrap_or(1),
            chain_requests_max: OUTBOX_REQUESTS as u16,
            fencing: true,
            // A responder takes a packet whole or not at all.
            crash_atomic_bytes: links.iter().map(|link| mtu_bytes(link.mtu)).min().unwrap_or(0),
            write_turn_ns_min: 0,
        };
        let work = Work {
            requests: [const { MaybeUninit::uninit() }; OUTBOX_REQUESTS],
            pieces: [ibv_sge { addr: 0, length: 0, lkey: 0 }; OUTBOX_REQUESTS],
        };
        let mut fabric = Self {
            links,
            completions,
            blocks: Vec::new(),
            tracks: Vec::new(),
            calls: Vec::new(),
            ready: VecDeque::new(),
            idle_polls: 0,
            capabilities,
            guarantees: profile.guarantees(),
            clock: Clock::get(),
            device,
            work: Box::new(work),
        };
        fabric.capabilities.write_turn_ns_min = match options.write_turn_ns_min {
            Some(ns) => ns,
            None => fabric.measure_turn_ns(),
        };
        Ok(fabric)
    }

    /// The device it uses.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What pages its copies are in.
    pub fn local_pages(&self) -> &'static str {
        self.blocks.last().map_or("none yet", |block| block.pages)
    }

    /// Has the queue pair to `node` fail, as a cable would: for tests of what follows.
    pub fn break_link(&mut self, node: NodeId) {
        if let Some(link) = self.links.get_mut(usize::from(node.0)) {
            link.fail(Instant::now());
        }
    }

    /// Half of the shortest of some round trips: who WRITEs a place twice has done a round trip in between, for the lock
    /// or for the READ under it, and may sit nearer to the memory node than this process.
    fn measure_turn_ns(&mut self) -> u32 {
        const TURNS: usize = 32;
        let mut shortest_ns = u64::MAX;
        for node in 0..self.links.len() as u16 {
            for _ in 0..TURNS {
                let mut scratch = [0; 8];
                let lanes = [Lane::new(LaneId(0), &mut scratch)];
                lanes[0].port().push(Request::read(Label::Tool, NodeId(node), 0, 8, 0));
                lanes[0].port().flush();
                if self.post(&lanes, 0) == Posted::InFlight {
                    while lanes[0].port().state() == dm_core::port::State::InFlight {
                        self.poll(&lanes, &mut |_| {});
                    }
                }
                let completion = lanes[0].port().completion(0);
                if completion.status == Status::Ok {
                    shortest_ns = shortest_ns.min(u64::from(completion.elapsed_ns));
                }
            }
        }
        // Nothing measured: trust next to no READ of several lines rather than all.
        if shortest_ns == u64::MAX { 1 } else { saturated(shortest_ns / 2).max(1) }
    }

    /// Gives each lane a copy at least as long as its scratch.
    fn make_room(&mut self, lanes: usize, at: usize, bytes: usize) -> Result<(), VerbsError> {
        if self.tracks.len() < lanes {
            let track = Track { block: 0, at: 0, bytes: 0, pending: 0, posted: self.clock.before() };
            self.tracks.resize(lanes, track);
        }
        if self.tracks[at].bytes >= bytes {
            return Ok(());
        }
        // All lanes of a worker have the same index and so the same scratch.
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

    /// Posts what `lanes[at]` submitted to one memory node: the requests at `positions`, one chain.
    fn post_chain(&mut self, lanes: &[Lane<'_>], at: usize, requests: &[Request], positions: &[u8]) {
        let Some(node) = positions.first().map(|&first| usize::from(requests[usize::from(first)].node.0)) else {
            return;
        };
        let complete = |position: u8, status| {
            let completion = Completion { status, ..Completion::default() };
            lanes[at].port().complete(usize::from(position), completion);
        };
        if let Err(status) = self.prepare(lanes, node, positions.len()) {
            for &position in positions {
                complete(position, status);
            }
            return;
        }
        // A chain ends at the first request that cannot be asked for; those before it are asked for all the same.
        let mut good = 0;
        while let Some(&position) = positions.get(good) {
            let request = &requests[usize::from(position)];
            if let Err(status) = self.check(node, at, request) {
                complete(position, status);
                for &position in &positions[good + 1..] {
                    complete(position, Status::Flushed);
                }
                break;
            }
            good += 1;
        }
        let positions = &positions[..good];
        if positions.is_empty() {
            return;
        }
        let first = self.links[node].next;
        self.build(node, at, requests, positions);
        let link = &mut self.links[node];
        // SAFETY: initialised and linked by `build`, in order, the last one to nothing; the pieces are in `work`. The
        // memory they name is this lane's copy and these slots' answers, registered, and not touched before the
        // requests have completed: a lane's copy is written at its next post, which waits for `pending` to be 0, and a
        // slot is used again when its request has completed.
        let posted = unsafe {
            let requests = &mut self.work.requests[..positions.len()];
            let requests = std::slice::from_raw_parts_mut(requests.as_mut_ptr().cast::<ibv_send_wr>(), requests.len());
            link.pair().map_or(Err(0), |pair| pair.post(requests))
        };
        let count = posted.err().unwrap_or(positions.len());
        for (&position, number) in positions[..count].iter().zip(first..) {
            let slot = link.slots[number as usize % link.slots.len()];
            debug_assert_eq!(slot.position, position);
            if slot.lane != NOBODY {
                self.tracks[at].pending += 1;
            }
        }
        link.next = first + count as u64;
        if count < positions.len() {
            for &position in &positions[count..] {
                complete(position, Status::Flushed);
            }
            link.fail(Instant::now());
            if link.outstanding() == 0 {
                link.bury();
            }
        }
    }

    /// Makes sure that `count` requests can be posted to `node`.
    fn prepare(&mut self, lanes: &[Lane<'_>], node: usize, count: usize) -> Result<(), Status> {
        if node >= self.links.len() {
            return Err(Status::Refused);
        }
        loop {
            let link = &mut self.links[node];
            if let Some(status) = link.refusal() {
                link.fail(Instant::now());
                return Err(status);
            }
            if link.is_up() && link.outstanding() + count <= link.slots.len() {
                return Ok(());
            }
            if !link.is_up() && !link.is_failing() {
                link.open()?;
                continue;
            }
            // What is outstanding completes, one way or the other.
            self.harvest(lanes);
        }
    }

    /// Whether a request can be asked for.
    fn check(&self, node: usize, at: usize, request: &Request) -> Result<(), Status> {
        let link = &self.links[node];
        let local = u64::from(request.local) + u64::from(request.bytes);
        let inline = request.flags.contains(Flags::INLINE);
        match request.verb {
            Verb::Read | Verb::Write if inline && request.bytes as usize > INLINE_BYTES_MAX => {
                return Err(Status::Refused);
            }
            Verb::Read | Verb::Write if !inline && local > self.tracks[at].bytes as u64 => return Err(Status::Refused),
            Verb::Cas | Verb::FetchAdd if request.bytes != 8 || !request.offset.is_multiple_of(8) => {
                return Err(Status::Refused);
            }
            Verb::Read | Verb::Write | Verb::Cas | Verb::FetchAdd => {}
            _ => return Err(Status::Unsupported),
        }
        let welcome = link.peer().welcome();
        let inside = match request.space {
            Space::Host => welcome.key(request.offset, request.bytes).is_some(),
            Space::Device if welcome.device_bytes == 0 => return Err(Status::Unsupported),
            Space::Device => {
                let end = request.offset.checked_add(u64::from(request.bytes));
                end.is_some_and(|end| end <= u64::from(welcome.device_bytes))
            }
        };
        if inside && u64::from(request.bytes) <= OVERLAP_BYTES { Ok(()) } else { Err(Status::Refused) }
    }

    /// Writes the work requests of a chain, and its slots.
    fn build(&mut self, node: usize, at: usize, requests: &[Request], positions: &[u8]) {
        let track = self.tracks[at];
        let copy = &self.blocks[track.block];
        let link = &mut self.links[node];
        let inline_max = link.inline_bytes();
        let welcome = Arc::clone(link.peer());
        let welcome = welcome.welcome();
        // Whether the lane's copy or the slot is needed until the request completes.
        let stays = |request: &Request| request.verb != Verb::Write || request.bytes > inline_max;
        let waits = |&position: &u8| {
            let request = &requests[usize::from(position)];
            request.flags.contains(Flags::SIGNALED) || (stays(request) && !request.flags.contains(Flags::INLINE))
        };
        let last_waited = positions.iter().rposition(waits);
        let depth = link.slots.len();
        for (index, &position) in positions.iter().enumerate() {
            let request = &requests[usize::from(position)];
            let number = link.next + index as u64;
            let slot = number as usize % depth;
            let answer = slot * ANSWER_BYTES;
            let waited = last_waited.is_some_and(|last| index <= last);
            let atomic = matches!(request.verb, Verb::Cas | Verb::FetchAdd);
            let lane = if waited { at as u16 } else { NOBODY };
            link.slots[slot] = Slot { lane, position, atomic };

            let mut flags = 0;
            link.unsignaled += 1;
            let last = index + 1 == positions.len();
            if last_waited == Some(index) || (last && link.unsignaled as usize >= depth / 4) {
                flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
                link.unsignaled = 0;
            }
            if request.flags.contains(Flags::FENCE) {
                flags |= ibv_send_flags::IBV_SEND_FENCE.0;
            }
            if !stays(request) {
                flags |= ibv_send_flags::IBV_SEND_INLINE.0;
            }
            let in_slot = atomic || request.flags.contains(Flags::INLINE);
            if request.flags.contains(Flags::INLINE) {
                link.answers.put(answer, &request.inline_payload()[..request.bytes as usize]);
            }
            self.work.pieces[index] = ibv_sge {
                addr: if in_slot {
                    link.answers.address(answer)
                } else {
                    copy.address(track.at + request.local as usize)
                },
                length: request.bytes,
                lkey: if in_slot { link.answers.local_key() } else { copy.local_key() },
            };
            let (remote_addr, rkey) = match request.space {
                // Checked before.
                Space::Host => {
                    (welcome.base + request.offset, welcome.key(request.offset, request.bytes).unwrap_or_default())
                }
                Space::Device => (request.offset, welcome.device_key),
            };
            // SAFETY: integers and pointers, for which zeros are values.
            let mut work: ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
            work.wr_id = work_id(node, link.epoch, number);
            work.sg_list = &raw mut self.work.pieces[index];
            work.num_sge = i32::from(request.bytes > 0);
            work.send_flags = flags;
            let [first, second, ..] = request.operands;
            match request.verb {
                Verb::Cas | Verb::FetchAdd => {
                    work.opcode = if request.verb == Verb::Cas {
                        ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP
                    } else {
                        ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD
                    };
                    work.wr.atomic = rdma_sys::atomic_t { remote_addr, compare_add: first, swap: second, rkey };
                }
                verb => {
                    let read = verb == Verb::Read;
                    work.opcode = if read { ibv_wr_opcode::IBV_WR_RDMA_READ } else { ibv_wr_opcode::IBV_WR_RDMA_WRITE };
                    work.wr.rdma = rdma_sys::rdma_t { remote_addr, rkey };
                }
            }
            self.work.requests[index].write(work);
        }
        for index in 1..positions.len() {
            let next = self.work.requests[index].as_mut_ptr();
            // SAFETY: both were written above.
            unsafe { (*self.work.requests[index - 1].as_mut_ptr()).next = next };
        }
    }

    /// Begins a call of a memory node's daemon.
    fn call(&mut self, lanes: &[Lane<'_>], at: usize, position: u8, request: &Request) {
        let node = usize::from(request.node.0);
        let status = match self.links.get(node) {
            None => Status::Refused,
            Some(link) => match link.refusal() {
                Some(status) => status,
                None => match link.peer().begin(request.operands) {
                    Ok(id) => {
                        let again = Instant::now() + CALL_WAIT;
                        let operands = request.operands;
                        let lane = at as u16;
                        self.calls.push(Calling { node, id, operands, lane, position, again, left: CALL_REPEATS });
                        self.tracks[at].pending += 1;
                        return;
                    }
                    Err(_) => Status::NodeDown,
                },
            },
        };
        lanes[at].port().complete(usize::from(position), Completion { status, ..Completion::default() });
    }

    /// Takes replies to calls, and repeats those that are overdue.
    fn take_replies(&mut self, lanes: &[Lane<'_>]) {
        let mut at = 0;
        while at < self.calls.len() {
            let call = self.calls[at];
            let link = &self.links[call.node];
            let (value, status) = match link.peer().take(call.id) {
                Some(FENCED) => (Reply::Unknown as u64, Status::Fenced),
                Some(value) => (value, Status::Ok),
                None if link.peer().is_down() => (0, Status::NodeDown),
                None => {
                    let now = Instant::now();
                    if now < call.again {
                        at += 1;
                        continue;
                    }
                    if call.left > 0 && link.peer().send(call.id, call.operands).is_ok() {
                        self.calls[at].left -= 1;
                        self.calls[at].again = now + CALL_WAIT;
                        at += 1;
                        continue;
                    }
                    link.peer().forget(call.id);
                    (0, Status::Flushed)
                }
            };
            self.calls.swap_remove(at);
            self.deliver(lanes, usize::from(call.lane), call.position, value, status);
        }
    }

    /// Delivers one completion.
    #[inline]
    fn deliver(&mut self, lanes: &[Lane<'_>], lane: usize, position: u8, value: u64, status: Status) {
        let elapsed_ns = saturated(self.clock.ns_between(self.tracks[lane].posted, self.clock.after()));
        if let Some(lane) = lanes.get(lane) {
            lane.port().complete(usize::from(position), Completion { value, elapsed_ns, status });
        }
        self.release(lanes, lane, elapsed_ns);
    }

    /// One completion less to wait for; with the last one, READ payloads go to the scratch.
    #[inline]
    fn release(&mut self, lanes: &[Lane<'_>], at: usize, elapsed_ns: u32) {
        let track = &mut self.tracks[at];
        track.pending = track.pending.saturating_sub(1);
        if track.pending > 0 {
            return;
        }
        let Some(lane) = lanes.get(at) else { return };
        let (port, track) = (lane.port(), *track);
        let Some(copy) = self.blocks.get(track.block) else { return };
        let requests = port.requests();
        port.finish_by_copy(u64::from(elapsed_ns), |scratch| {
            for (position, request) in requests.iter().enumerate() {
                let range = request.local as usize..request.local as usize + request.bytes as usize;
                if request.verb == Verb::Read
                    && port.completion(position).status == Status::Ok
                    && range.end <= track.bytes
                    && let Some(into) = scratch.get_mut(range)
                {
                    copy.get(track.at + request.local as usize, into);
                }
            }
        });
        drop(requests);
        self.ready.push_back(at);
    }

    /// Takes completions off the queue and delivers them.
    fn harvest(&mut self, lanes: &[Lane<'_>]) {
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        let count = self.completions.poll(&mut batch);
        for completion in &batch[..count] {
            // SAFETY: as many as `poll` says were written by the device's library.
            let completion = unsafe { completion.assume_init_ref() };
            self.settle(lanes, completion.wr_id, completion.status);
        }
        if !self.calls.is_empty() {
            self.take_replies(lanes);
        }
        if count > 0 {
            self.idle_polls = 0;
            return;
        }
        self.idle_polls += 1;
        if self.idle_polls >= IDLE_POLLS || self.links.iter().any(Link::is_failing) {
            self.idle_polls = 0;
            self.look(lanes);
            // Where processors are scarce, what is waited for may need this one: a device in software, say.
            std::thread::yield_now();
        }
    }

    /// What one completion says: of its own request, and of those before it that brought none.
    fn settle(&mut self, lanes: &[Lane<'_>], id: u64, status: ibv_wc_status::Type) {
        let (node, epoch, number) = parts_of(id);
        let Some(link) = self.links.get_mut(node) else { return };
        let number = whole_number(link.oldest, number);
        if link.epoch != epoch || number < link.oldest || number >= link.next {
            return;
        }
        let (mut typed, ours) = status_of(status);
        if typed != Status::Ok {
            if ours {
                tracing::error!("memory node {node}: the device refused a request: {}", completion::name(status));
            } else {
                tracing::debug!("memory node {node}: {}", completion::name(status));
            }
            link.fail(Instant::now());
            if typed == Status::Flushed {
                typed = link.flushed();
            }
        }
        while self.links[node].oldest <= number {
            let link = &mut self.links[node];
            let at = link.oldest as usize % link.slots.len();
            let slot = link.slots[at];
            // Completions come in order, and an error always brings one: requests before this one succeeded.
            let status = if link.oldest == number { typed } else { Status::Ok };
            link.oldest += 1;
            if slot.lane == NOBODY {
                continue;
            }
            let value = if slot.atomic && status == Status::Ok { link.answers.word(at * ANSWER_BYTES) } else { 0 };
            self.deliver(lanes, usize::from(slot.lane), slot.position, value, status);
        }
        let link = &mut self.links[node];
        if link.is_failing() && link.outstanding() == 0 {
            link.bury();
        }
    }

    /// Looks for what brings no completion.
    fn look(&mut self, lanes: &[Lane<'_>]) {
        let now = Instant::now();
        for node in 0..self.links.len() {
            self.links[node].look(now);
            if !self.links[node].is_failing() {
                continue;
            }
            if self.links[node].outstanding() > 0 && !self.links[node].is_overdue(now) {
                continue;
            }
            let link = &mut self.links[node];
            let (first, last, status) = (link.oldest, link.next, link.flushed());
            // Destroyed first: nothing is written to a lane's copy after it was told.
            link.bury();
            for number in first..last {
                let link = &self.links[node];
                let slot = link.slots[number as usize % link.slots.len()];
                if slot.lane != NOBODY {
                    self.deliver(lanes, usize::from(slot.lane), slot.position, 0, status);
                }
            }
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

#[inline]
fn saturated(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// Bits of a request's number in a work request's id.
const NUMBER_BITS: u32 = 40;

/// Work requests are named by memory node, epoch of the queue pair, and number.
#[inline]
fn work_id(node: usize, epoch: u8, number: u64) -> u64 {
    (node as u64) << 48 | u64::from(epoch) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
}

#[inline]
fn parts_of(id: u64) -> (usize, u8, u64) {
    ((id >> 48) as usize, (id >> NUMBER_BITS) as u8, id & ((1 << NUMBER_BITS) - 1))
}

/// The number with these low bits that is not before `oldest`.
#[inline]
fn whole_number(oldest: u64, low: u64) -> u64 {
    const MASK: u64 = (1 << NUMBER_BITS) - 1;
    oldest + (low.wrapping_sub(oldest) & MASK)
}

impl<'m> Fabric<'m> for VerbsFabric {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn guarantees(&self) -> Guarantees {
        self.guarantees
    }

    fn post(&mut self, lanes: &[Lane<'m>], at: usize) -> Posted {
        let Some(lane) = lanes.get(at) else { return Posted::Completed };
        let port = lane.port();
        let bytes = port.with(|scratch| scratch.len());
        if let Err(error) = self.make_room(lanes.len(), at, bytes) {
            tracing::error!("{error}");
            return fail_all(lane, Status::Unsupported);
        }
        // A lane of an earlier slice may have been dropped in flight; its requests end before its copy is used again.
        while self.tracks[at].pending > 0 {
            self.harvest(lanes);
        }
        self.ready.retain(|&ready| ready != at);
        let requests = port.requests();
        let track = self.tracks[at];
        let copy = &self.blocks[track.block];
        let begun = port.begin_by_copy(|scratch| {
            for request in requests.iter() {
                let range = request.local as usize..request.local as usize + request.bytes as usize;
                if request.verb == Verb::Write
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
            let mut chain = heapless::Vec::<u8, OUTBOX_REQUESTS>::new();
            for (other, candidate) in requests.iter().enumerate().skip(position) {
                let travels = !candidate.verb.is_local() && candidate.verb != Verb::Rpc;
                if travels && candidate.node == request.node {
                    posted |= 1 << other;
                    // As many as the outbox has at most.
                    let _ = chain.push(other as u8);
                }
            }
            self.post_chain(lanes, at, &requests, &chain);
        }
        drop(requests);
        self.release(lanes, at, 0);
        if self.tracks[at].pending == 0 {
            self.ready.retain(|&ready| ready != at);
            return Posted::Completed;
        }
        Posted::InFlight
    }

    #[inline]
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        self.harvest(lanes);
        while let Some(at) = self.ready.pop_front() {
            ready(at);
        }
    }
}

/// Ends a submit of which nothing was posted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_request_is_found_by_its_id_even_when_numbers_wrap() {
        let limit = 1u64 << NUMBER_BITS;
        for (node, epoch, number, oldest) in
            [(0, 0, 0, 0), (65_535, 255, limit - 1, limit - 3), (3, 7, limit + 5, limit - 2)]
        {
            let (n, e, low) = parts_of(work_id(node, epoch, number));
            assert_eq!((n, e, whole_number(oldest, low)), (node, epoch, number));
        }
    }

    #[test]
    fn an_mtu_is_what_the_port_has_or_less() {
        assert_eq!(choose_mtu(None, 3, "rxe0").unwrap(), 3);
        assert_eq!(choose_mtu(Some(512), 3, "rxe0").unwrap(), 2);
        let error = choose_mtu(Some(4096), 3, "rxe0").unwrap_err().to_string();
        assert_eq!(error, "--mtu 4096: the active MTU of rxe0 is 1024; give at most that, or raise the interface's");
        assert!(choose_mtu(Some(1000), 3, "rxe0").unwrap_err().to_string().contains("256, 512"));
    }
}
