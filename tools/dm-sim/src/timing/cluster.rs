//! Requests on their way through a cluster: send queues, NICs, service, effects, completions.
//!
//! A request passes at most four events: it arrives at its memory node, is served (the same event if the node is
//! idle), leaves its bucket if it was a parked atomic, and is delivered. Everything else is arithmetic on servers
//! at those instants. The effect happens when the request is served; a READ brings the bytes of that instant.
//!
//! **Order.** Requests of one queue pair - a thread and a memory node - are posted, arrive, take effect and complete in
//! post order: behind a parked atomic the later ones wait at the responder. That is more than the specification
//! promises (a fence is then only the wait it costs), so nothing here says anything about correctness.
//!
//! **Free locks** ([`Cluster::free_locks`]): requests for lock words occupy nothing: no thread, NIC, link or bucket. Beside
//! others they arrive and take effect in their order; a submit of such requests alone is complete at once. So a program
//! runs unchanged as one that needs no lock in remote memory.
//!
//! `requester`: the send queues of compute nodes, and answers that arrive there. `responder`: what memory nodes do.

mod requester;
mod responder;

use super::buckets::{Buckets, List, NONE};
use super::event_queue::EventQueue;
use super::nic::{Nic, Server, Wire, ps, ps_of_rate};
use super::profile::Profile;
use crate::config::Config;
use crate::memory::Memories;
use dm_core::verbs::{Assumptions, Capabilities, Completion, Guarantees, Label, Request};
use std::collections::VecDeque;

/// How many of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Compute nodes.
    pub compute_nodes: u32,
    /// Threads of each; every thread has a queue pair to every memory node.
    pub threads: u32,
    /// Lanes of each thread.
    pub lanes: u32,
    /// Host memory of each memory node, in bytes.
    pub host_bytes: Vec<usize>,
    /// Whether compute node `i` and memory node `i` are one machine with one NIC.
    pub colocated: bool,
    /// Device memory of every memory node; `None` = the profile's.
    pub device_bytes: Option<u32>,
}

impl Shape {
    /// Lanes of a compute node.
    pub const fn lanes_per_node(&self) -> u32 {
        self.threads * self.lanes
    }
}

/// One request under way, in two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Flight {
    request: Request,
    posted_ps: u64,
    /// When all of it is at the memory node.
    ready_ps: u64,
    completion: Completion,
    /// Bytes of its answer, and how long they occupy a link.
    answer: (u64, u64),
    queue_pair: u32,
    lane: u32,
    /// NICs of compute node and memory node.
    from: u16,
    to: u16,
    /// The next in whatever queue it is in.
    next: u32,
    position: u8,
    /// Its answer has taken its share of the compute node's link.
    received: bool,
    /// It takes no time: see the module's documentation on free locks.
    at_once: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueuePair {
    /// READs and atomics sent and not complete.
    outstanding: u32,
    /// Atomics that wait at the responder.
    parked: u32,
    /// Not sent yet: a limit or a fence holds them.
    unsent: List,
    /// Arrived behind a parked atomic.
    held: List,
    completed_ps: u64,
}

/// A lane's submit under way.
#[derive(Debug, Default)]
struct Submit<'m> {
    scratch: Option<&'m mut [u8]>,
    waiting: u8,
}

/// What one memory node is doing.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryNodeState {
    /// Accepts requests at the rate of their verb.
    pub(crate) pipeline: Server,
    /// Arrived and not served.
    ingress: VecDeque<u32>,
    /// When an event will look at the ingress. An event of another time is void.
    scheduled_ps: Option<u64>,
    /// Since when the first of the ingress is an atomic that cannot be parked.
    stalled_since_ps: Option<u64>,
    cores: Vec<Server>,
    pub(crate) counts: Counts,
}

/// What happened at a memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) host_atomics: u64,
    pub(crate) device_atomics: u64,
    pub(crate) failed_atomics: u64,
    pub(crate) calls: u64,
    pub(crate) payload_read: u64,
    pub(crate) payload_written: u64,
    pub(crate) parked_now: u32,
    pub(crate) parked_most: u32,
    /// Sum over parked atomics of how long.
    pub(crate) parked_ps: u64,
    /// How long the ingress was stalled by one.
    pub(crate) stalled_ps: u64,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    /// A request is at its memory node.
    Arrival = 0,
    /// A memory node may take the next request from its ingress.
    Ingress = 1,
    /// A bucket is free again.
    Bucket = 2,
    /// An answer is at its compute node.
    Answer = 3,
    /// A thread has done what it was doing.
    Thread = 4,
    /// A lane has paused long enough.
    Resume = 5,
}

/// What the cluster reports to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterEvent {
    /// An event of the cluster itself.
    Internal,
    /// A request of a lane is complete; `last`: all of its submit are.
    Completed { lane: u32, position: u8, completion: Completion, last: bool },
    /// A thread's timer.
    Thread(u32),
    /// A lane's timer.
    Resume(u32),
}

const INDEX_BITS: u32 = 28;

/// The cluster.
#[derive(Debug)]
pub struct Cluster<'m> {
    profile: Profile,
    shape: Shape,
    wire: Wire,
    memories: Memories,
    now_ps: u64,
    events: EventQueue,
    flights: Vec<Flight>,
    free: u32,
    queue_pairs: Vec<QueuePair>,
    submits: Vec<Submit<'m>>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) memory_nodes: Vec<MemoryNodeState>,
    pub(crate) buckets: Buckets,
    served: u64,
    times: ServiceTimes,
    has_free_locks: bool,
}

/// The profile's times and rates in picoseconds.
#[derive(Clone, Copy, Debug)]
struct ServiceTimes {
    requester_ps: u64,
    send_ps: u64,
    receive_ps: u64,
    one_way_ps: u64,
    loopback_ps: u64,
    read_ps: u64,
    write_ps: u64,
    host_atomic_ps: u64,
    device_atomic_ps: u64,
    pipeline_ps: u64,
    host_read_ps: u64,
    host_write_ps: u64,
    ps_per_byte: f64,
    buffer_ps: u64,
    service_ps: u64,
    node_ps: u64,
    outstanding_max: u32,
}

impl ServiceTimes {
    fn new(profile: &Profile, wire: &Wire) -> Self {
        let Profile { requester, link, responder, rpc, .. } = profile;
        Self {
            requester_ps: ps_of_rate(requester.rate_mops),
            send_ps: ps(requester.send_ns),
            receive_ps: ps(requester.receive_ns),
            one_way_ps: ps(link.one_way_ns),
            loopback_ps: ps(link.loopback_ns),
            read_ps: ps_of_rate(responder.read_mops),
            write_ps: ps_of_rate(responder.write_mops),
            host_atomic_ps: ps_of_rate(responder.host_atomic_mops),
            device_atomic_ps: ps_of_rate(responder.device_atomic_mops),
            pipeline_ps: ps(responder.pipeline_ns),
            host_read_ps: ps(responder.host_read_ns),
            host_write_ps: ps(responder.host_write_ns),
            ps_per_byte: responder.ns_per_kib * 1000.0 / 1024.0,
            buffer_ps: wire.time_ps(responder.answer_buffer_bytes.into()),
            service_ps: ps(rpc.service_ns),
            node_ps: ps(rpc.node_ns),
            outstanding_max: requester.outstanding_reads_max.into(),
        }
    }
}

impl Cluster<'_> {
    /// A cluster at time 0 with `memories`, which [`Cluster::config`] says how to make.
    pub fn new(profile: &Profile, shape: &Shape, memories: Memories) -> Self {
        let nodes = memories.count();
        let threads = (shape.compute_nodes * shape.threads) as usize;
        let machines = if shape.colocated {
            nodes.max(shape.compute_nodes as usize)
        } else {
            nodes + shape.compute_nodes as usize
        };
        let wire = Wire::new(profile);
        let device_bytes = shape.device_bytes.unwrap_or(profile.responder.device_bytes);
        let cores = vec![Server::default(); profile.rpc.cores as usize];
        Self {
            times: ServiceTimes::new(profile, &wire),
            buckets: Buckets::new(profile, nodes, device_bytes),
            profile: profile.clone(),
            wire,
            memories,
            now_ps: 0,
            events: EventQueue::new(),
            flights: Vec::new(),
            free: NONE,
            queue_pairs: vec![QueuePair::default(); threads * nodes],
            submits: (0..threads * shape.lanes as usize).map(|_| Submit::default()).collect(),
            nics: vec![Nic::default(); machines],
            memory_nodes: vec![MemoryNodeState { cores, ..MemoryNodeState::default() }; nodes],
            served: 0,
            has_free_locks: false,
            shape: shape.clone(),
        }
    }

    /// The memory a cluster of this shape needs, as other fabrics of this crate are told it: to load an index without
    /// time passing.
    pub fn config(profile: &Profile, shape: &Shape) -> Config {
        Config {
            host_bytes: shape.host_bytes.clone(),
            device_bytes: shape.device_bytes.unwrap_or(profile.responder.device_bytes),
            masked_atomics: profile.atomics.masked,
            write_turn_ns_min: Some(0),
            ..Config::default()
        }
    }

    /// What the cluster offers.
    pub fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.profile.capabilities(self.shape.colocated);
        if let Some(bytes) = self.shape.device_bytes {
            capabilities.device_bytes = bytes;
        }
        capabilities
    }

    /// Everything: requests take effect whole and in order.
    pub fn guarantees() -> Guarantees {
        Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" }
    }

    /// From now on, requests for lock words cost nothing: for programs whose compute nodes never want the same lock.
    pub fn free_locks(&mut self) {
        self.has_free_locks = true;
    }

    fn is_free(&self, request: &Request) -> bool {
        // An unlock may be part of a WRITE of data.
        self.has_free_locks && matches!(request.label, Label::Lock | Label::Unlock) && request.bytes <= 8
    }

    /// Bytes from compute node to memory node.
    fn request_bytes(&self, request: &Request) -> u64 {
        if self.is_free(request) { 0 } else { self.wire.request_bytes(request) }
    }

    /// Bytes from memory node to compute node, and how long they occupy a link.
    fn answer(&self, request: &Request) -> (u64, u64) {
        let bytes = if self.is_free(request) { 0 } else { self.wire.answer_bytes(request) };
        (bytes, self.wire.time_ps(bytes))
    }

    /// How many of what.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The numbers.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The memories, to load and check an index without time passing. Nothing may be under way.
    pub fn memories_mut(&mut self) -> &mut Memories {
        debug_assert!(self.events.is_empty(), "requests are under way");
        &mut self.memories
    }

    /// Virtual time in ps.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Requests served by memory nodes so far.
    pub fn served(&self) -> u64 {
        self.served
    }

    // ---- events ----------------------------------------------------------------------------------------------

    fn schedule(&mut self, at_ps: u64, what: EventKind, index: u32) {
        debug_assert!(index < 1 << INDEX_BITS && at_ps >= self.now_ps);
        self.events.push(at_ps, (what as u32) << INDEX_BITS | index);
    }

    /// Sets the timer of a thread.
    pub(crate) fn schedule_thread(&mut self, at_ps: u64, thread: u32) {
        self.schedule(at_ps, EventKind::Thread, thread);
    }

    /// Sets the timer of a lane.
    pub(crate) fn schedule_resume(&mut self, at_ps: u64, lane: u32) {
        self.schedule(at_ps, EventKind::Resume, lane);
    }

    /// Lets the next event happen; `None` if there is none.
    pub(crate) fn step(&mut self) -> Option<ClusterEvent> {
        let (now_ps, content) = self.events.pop()?;
        self.now_ps = now_ps;
        let index = content & ((1 << INDEX_BITS) - 1);
        match content >> INDEX_BITS {
            0 => self.arrive(index),
            1 => {
                let node = &mut self.memory_nodes[index as usize];
                if node.scheduled_ps == Some(self.now_ps) {
                    node.scheduled_ps = None;
                    self.take_in(index as usize);
                }
            }
            2 => self.leave_bucket(index),
            3 => return Some(self.receive(index)),
            4 => return Some(ClusterEvent::Thread(index)),
            _ => return Some(ClusterEvent::Resume(index)),
        }
        Some(ClusterEvent::Internal)
    }

    fn take_flight(&mut self, flight: Flight) -> u32 {
        if self.free == NONE {
            self.flights.push(flight);
            return self.flights.len() as u32 - 1;
        }
        let slot = self.free;
        self.free = self.flights[slot as usize].next;
        self.flights[slot as usize] = flight;
        slot
    }

    fn append(&mut self, list: impl Fn(&mut Self) -> &mut List, flight: u32) {
        self.flights[flight as usize].next = NONE;
        let at = list(self);
        let tail = std::mem::replace(&mut at.tail, flight);
        if tail == NONE {
            at.head = flight;
        } else {
            self.flights[tail as usize].next = flight;
        }
    }

    fn pop(&mut self, list: impl Fn(&mut Self) -> &mut List) -> Option<u32> {
        let head = list(self).head;
        if head == NONE {
            return None;
        }
        let next = self.flights[head as usize].next;
        let at = list(self);
        at.head = next;
        if next == NONE {
            at.tail = NONE;
        }
        Some(head)
    }

    /// The NIC of a compute node.
    pub(crate) fn nic_of(&self, compute_node: usize) -> &Nic {
        &self.nics[if self.shape.colocated { compute_node } else { self.memories.count() + compute_node }]
    }
}
