//! Requests on their way through a cluster: send queues, NICs, service, effects, completions.
//!
//! A request passes at most four events: it arrives at its memory node, is served (the same event if the node is
//! idle), leaves its bucket if it was a parked atomic, and is delivered. Everything else is arithmetic on servers
//! at those instants. The effect happens when the request is served; a READ brings the bytes of that instant.
//!
//! **Order.** Requests of one queue pair - a thread and a memory node - are posted, arrive, take effect and complete in
//! post order: behind a parked atomic the later ones wait at the responder. That is more than the specification
//! promises (a fence is then only the wait it costs), so nothing here says anything about correctness.

use super::buckets::{Buckets, List, NONE};
use super::event_queue::EventQueue;
use super::nic::{Nic, Server, Wire, ps, ps_of_rate};
use super::profile::Profile;
use crate::config::Config;
use crate::memory::{Memories, atomic_result};
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Assumptions, Capabilities, Completion, Flags, Guarantees, Request, Space, Status, Verb};
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

/// One request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    request: Request,
    posted_ps: u64,
    /// When all of it is at the memory node.
    ready_ps: u64,
    completion: Completion,
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

/// Why an atomic can be neither executed nor parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// It can.
    None,
    /// Its bucket is busy until then, and no request waits for that.
    Busy { free_ps: u64 },
    /// Others wait for its bucket.
    Parked,
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
    pace: Pace,
}

/// The profile's times and rates in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
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
    outstanding_max: u32,
}

impl Pace {
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
            outstanding_max: requester.outstanding_reads_max.into(),
        }
    }
}

impl<'m> Cluster<'m> {
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
            pace: Pace::new(profile, &wire),
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
            3 => return Some(self.answer(index)),
            4 => return Some(ClusterEvent::Thread(index)),
            _ => return Some(ClusterEvent::Resume(index)),
        }
        Some(ClusterEvent::Internal)
    }

    // ---- compute node: out -----------------------------------------------------------------------------------

    /// Posts the requests of a lane's submit that travel. The thread takes `post_ps` for each of them, and
    /// `doorbell_ps` after those that go to one memory node: a chain leaves as a whole. The scratch is returned with
    /// the last completion ([`Cluster::take_scratch`]).
    pub(crate) fn post(
        &mut self,
        lane: u32,
        requests: &[Request],
        scratch: &'m mut [u8],
        post_ps: u64,
        doorbell_ps: u64,
    ) {
        let thread = lane / self.shape.lanes;
        let nodes = self.memories.count();
        let submit = &mut self.submits[lane as usize];
        submit.scratch = Some(scratch);
        submit.waiting = 0;
        debug_assert!(requests.len() <= OUTBOX_REQUESTS);
        // The first NICs are the memory nodes'.
        let compute_node = thread / self.shape.threads;
        let from = if self.shape.colocated { compute_node as u16 } else { nodes as u16 + compute_node as u16 };
        let travelling = || requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local());
        let mut delay_ps = 0;
        let mut chain = None;
        for (position, request) in travelling() {
            if chain != Some(request.node) {
                chain = Some(request.node);
                let rest = travelling().skip_while(|&(later, _)| later < position);
                let together = rest.take_while(|(_, later)| later.node == request.node).count();
                delay_ps += together as u64 * post_ps + doorbell_ps;
            }
            self.submits[lane as usize].waiting += 1;
            let node = usize::from(request.node.0).min(nodes - 1);
            let to = node as u16;
            let flight = Flight {
                request: *request,
                posted_ps: self.now_ps,
                ready_ps: self.now_ps + delay_ps,
                completion: Completion::default(),
                queue_pair: thread * nodes as u32 + node as u32,
                lane,
                from,
                to,
                next: NONE,
                position: position as u8,
                received: false,
            };
            let flight = self.take_flight(flight);
            let queue_pair = (thread as usize) * nodes + node;
            if self.queue_pairs[queue_pair].unsent.is_empty() && self.can_send(queue_pair, request) {
                self.send(flight);
            } else {
                self.append(|cluster| &mut cluster.queue_pairs[queue_pair].unsent, flight);
            }
        }
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

    fn can_send(&self, queue_pair: usize, request: &Request) -> bool {
        let outstanding = self.queue_pairs[queue_pair].outstanding;
        let answered = is_answered(request.verb);
        (!answered || outstanding < self.pace.outstanding_max)
            && (!request.flags.contains(Flags::FENCE) || outstanding == 0)
    }

    fn send(&mut self, flight: u32) {
        let Flight { request, queue_pair, ready_ps, from, to, .. } = self.flights[flight as usize];
        let queue_pair = queue_pair as usize;
        if is_answered(request.verb) {
            self.queue_pairs[queue_pair].outstanding += 1;
        }
        let now_ps = self.now_ps;
        let nic = &mut self.nics[usize::from(from)];
        let admitted_ps = nic.requester.serve(now_ps, self.pace.requester_ps) - self.pace.requester_ps;
        // What the thread still does before the doorbell is a delay on the way, so that servers see calls in the order
        // of time.
        let thread_ps = ready_ps.saturating_sub(now_ps);
        let way_ps = thread_ps + self.pace.send_ps + self.pace.pipeline_ps;
        let arrives_ps = if from == to {
            admitted_ps + way_ps + self.pace.loopback_ps
        } else {
            let bytes = self.wire.request_bytes(&request);
            nic.bytes_out += bytes;
            nic.output.serve(admitted_ps, self.wire.time_ps(bytes)) + way_ps + self.pace.one_way_ps
        };
        self.schedule(arrives_ps, EventKind::Arrival, flight);
    }

    // ---- memory node -----------------------------------------------------------------------------------------

    fn arrive(&mut self, flight: u32) {
        let Flight { ref request, from, to, .. } = self.flights[flight as usize];
        let (from, to) = (usize::from(from), usize::from(to));
        let mut ready_ps = self.now_ps;
        if from != to {
            let bytes = self.wire.request_bytes(request);
            let nic = &mut self.nics[to];
            nic.bytes_in += bytes;
            ready_ps = nic.input.pass(self.now_ps, self.wire.time_ps(bytes));
        }
        self.flights[flight as usize].ready_ps = ready_ps;
        // The NIC with that number is the memory node's.
        let node = &mut self.memory_nodes[to];
        node.ingress.push_back(flight);
        if node.scheduled_ps.is_none() && node.stalled_since_ps.is_none() {
            self.take_in(to);
        }
    }

    /// Serves what has arrived, as far as the memory node can take it now.
    fn take_in(&mut self, node: usize) {
        loop {
            let state = &self.memory_nodes[node];
            let Some(&flight) = state.ingress.front() else { return };
            let ready_ps = self.flights[flight as usize].ready_ps;
            let answers_ps = self.nics[node].output.free_ps.saturating_sub(self.pace.buffer_ps);
            let start_ps = state.pipeline.free_ps.max(ready_ps).max(answers_ps);
            if start_ps > self.now_ps {
                self.look_at_ingress(node, start_ps);
                return;
            }
            let obstacle = self.obstacle(node, flight);
            if obstacle != Obstacle::None {
                let now_ps = self.now_ps;
                self.memory_nodes[node].stalled_since_ps.get_or_insert(now_ps);
                // Buckets with parked atomics look at the ingress themselves when they become free.
                if let Obstacle::Busy { free_ps } = obstacle {
                    self.look_at_ingress(node, free_ps);
                }
                return;
            }
            let now_ps = self.now_ps;
            let state = &mut self.memory_nodes[node];
            if let Some(since_ps) = state.stalled_since_ps.take() {
                state.counts.stalled_ps += now_ps - since_ps;
            }
            state.ingress.pop_front();
            let Flight { ref request, queue_pair, .. } = self.flights[flight as usize];
            let work_ps = self.slot_ps(request);
            self.memory_nodes[node].pipeline.serve(now_ps, work_ps);
            if self.queue_pairs[queue_pair as usize].parked > 0 {
                self.append(|cluster| &mut cluster.queue_pairs[queue_pair as usize].held, flight);
            } else {
                self.execute(flight);
            }
        }
    }

    fn look_at_ingress(&mut self, node: usize, at_ps: u64) {
        self.memory_nodes[node].scheduled_ps = Some(at_ps);
        self.schedule(at_ps, EventKind::Ingress, node as u32);
    }

    /// Time of the pipeline that a request takes.
    fn slot_ps(&self, request: &Request) -> u64 {
        match (request.verb, request.space) {
            (Verb::Read, _) => self.pace.read_ps,
            (Verb::Cas | Verb::MaskedCas | Verb::FetchAdd, Space::Host) => self.pace.host_atomic_ps,
            (Verb::Cas | Verb::MaskedCas | Verb::FetchAdd, Space::Device) => self.pace.device_atomic_ps,
            _ => self.pace.write_ps,
        }
    }

    /// What keeps a request from being served now that nothing else does: an atomic that would have to be parked and cannot.
    fn obstacle(&self, node: usize, flight: u32) -> Obstacle {
        let Flight { request, queue_pair, .. } = &self.flights[flight as usize];
        if !matches!(request.verb, Verb::Cas | Verb::MaskedCas | Verb::FetchAdd)
            || self.memory_nodes[node].counts.parked_now < self.buckets.parked_max
            // It will wait behind another of its queue pair, which is parked already.
            || self.queue_pairs[*queue_pair as usize].parked > 0
            || self.memories.admit(request, self.profile.atomics.masked).is_err()
        {
            return Obstacle::None;
        }
        let bucket = &self.buckets.all[self.buckets.of(request) as usize];
        if !bucket.parked.is_empty() {
            return Obstacle::Parked;
        }
        if bucket.free_ps > self.now_ps { Obstacle::Busy { free_ps: bucket.free_ps } } else { Obstacle::None }
    }

    /// Serves a request, or parks it.
    fn execute(&mut self, flight: u32) {
        let Flight { request, lane, queue_pair, .. } = self.flights[flight as usize];
        if let Err(status) = self.memories.admit(&request, self.profile.atomics.masked) {
            self.flights[flight as usize].completion.status = status;
            return self.respond(flight, 0);
        }
        let node = usize::from(request.node.0);
        let in_host = request.space == Space::Host;
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        let remote = request.offset as usize..request.offset as usize + request.bytes as usize;
        let bytes = u64::from(request.bytes);
        let counts = &mut self.memory_nodes[node].counts;
        let transfer_ps = if in_host { (bytes as f64 * self.pace.ps_per_byte) as u64 } else { 0 };
        let latency_ps = match request.verb {
            Verb::Read => {
                counts.reads += 1;
                counts.payload_read += bytes;
                let scratch = self.submits[lane as usize].scratch.as_deref_mut().and_then(|all| all.get_mut(local));
                match scratch {
                    Some(scratch) => scratch.copy_from_slice(&self.memories.of(&request).bytes()[remote]),
                    None => self.flights[flight as usize].completion.status = Status::Refused,
                }
                transfer_ps + if in_host { self.pace.host_read_ps } else { 0 }
            }
            Verb::Write => {
                counts.writes += 1;
                counts.payload_written += bytes;
                let inline = request.inline_payload();
                let scratch = self.submits[lane as usize].scratch.as_deref();
                let payload = if request.flags.contains(Flags::INLINE) {
                    inline.get(..request.bytes as usize)
                } else {
                    scratch.and_then(|all| all.get(local))
                };
                match payload {
                    Some(payload) => self.memories.of(&request).range_mut(remote).copy_from_slice(payload),
                    None => self.flights[flight as usize].completion.status = Status::Refused,
                }
                transfer_ps + if in_host { self.pace.host_write_ps } else { 0 }
            }
            Verb::Rpc => {
                counts.calls += 1;
                self.call(flight, node)
            }
            _ => {
                let bucket = self.buckets.of(&request);
                let at = &self.buckets.all[bucket as usize];
                let (busy, first) = (at.free_ps > self.now_ps || !at.parked.is_empty(), at.parked.is_empty());
                if busy {
                    let free_ps = at.free_ps;
                    counts.parked_now += 1;
                    counts.parked_most = counts.parked_most.max(counts.parked_now);
                    self.queue_pairs[queue_pair as usize].parked += 1;
                    self.flights[flight as usize].ready_ps = self.now_ps;
                    self.append(|cluster| &mut cluster.buckets.all[bucket as usize].parked, flight);
                    if first {
                        self.schedule(free_ps, EventKind::Bucket, bucket);
                    }
                    return;
                }
                self.atomic(flight, bucket)
            }
        };
        self.respond(flight, latency_ps);
    }

    /// Executes an atomic whose bucket is free; returns how long it takes.
    fn atomic(&mut self, flight: u32, bucket: u32) -> u64 {
        let request = self.flights[flight as usize].request;
        let memory = self.memories.of(&request);
        let old = memory.word(request.offset);
        let new = atomic_result(&request, old);
        if let Some(new) = new {
            memory.set_word(request.offset, new);
        }
        self.flights[flight as usize].completion.value = old;
        let counts = &mut self.memory_nodes[usize::from(request.node.0)].counts;
        counts.failed_atomics += u64::from(new.is_none());
        match request.space {
            Space::Host => counts.host_atomics += 1,
            Space::Device => counts.device_atomics += 1,
        }
        self.buckets.occupy(bucket, self.now_ps, request.space, new.is_some())
    }

    /// A bucket is free: its first parked atomic is executed, and what waited behind that.
    fn leave_bucket(&mut self, bucket: u32) {
        let node = self.buckets.memory_node(bucket);
        let Some(flight) = self.pop(|cluster| &mut cluster.buckets.all[bucket as usize].parked) else { return };
        let Flight { queue_pair, ready_ps, .. } = self.flights[flight as usize];
        let counts = &mut self.memory_nodes[node].counts;
        counts.parked_now -= 1;
        counts.parked_ps += self.now_ps - ready_ps;
        let latency_ps = self.atomic(flight, bucket);
        self.respond(flight, latency_ps);
        let at = &self.buckets.all[bucket as usize];
        if !at.parked.is_empty() {
            self.schedule(at.free_ps, EventKind::Bucket, bucket);
        }
        let queue_pair = queue_pair as usize;
        self.queue_pairs[queue_pair].parked -= 1;
        while self.queue_pairs[queue_pair].parked == 0 {
            let Some(held) = self.pop(|cluster| &mut cluster.queue_pairs[queue_pair].held) else { break };
            self.execute(held);
        }
        if self.memory_nodes[node].stalled_since_ps.is_some() {
            self.take_in(node);
        }
    }

    /// A remote procedure call on the core that is free first; returns how long it takes. Memory nodes take their time, and
    /// say that they do not know any.
    fn call(&mut self, flight: u32, node: usize) -> u64 {
        let cores = &mut self.memory_nodes[node].cores;
        let core = (0..cores.len()).min_by_key(|&core| cores[core].free_ps).unwrap_or(0);
        let done_ps = cores[core].serve(self.now_ps, self.pace.service_ps);
        self.flights[flight as usize].completion.status = Status::Unsupported;
        done_ps - self.now_ps
    }

    /// Sends the answer of a request that was served now and has an answer `latency_ps` later.
    fn respond(&mut self, flight: u32, latency_ps: u64) {
        self.served += 1;
        let Flight { ref request, queue_pair, from, to, .. } = self.flights[flight as usize];
        let queue_pair = queue_pair as usize;
        // The latency is a delay behind the link, not in front of it: links then see calls in the order of time.
        let way_ps = latency_ps + self.pace.receive_ps;
        let arrives_ps = if from == to {
            self.now_ps + way_ps + self.pace.loopback_ps
        } else {
            let bytes = self.wire.answer_bytes(request);
            let nic = &mut self.nics[usize::from(to)];
            nic.bytes_out += bytes;
            nic.output.serve(self.now_ps, self.wire.time_ps(bytes)) + way_ps + self.pace.one_way_ps
        };
        let completed_ps = &mut self.queue_pairs[queue_pair].completed_ps;
        *completed_ps = arrives_ps.max(*completed_ps);
        let arrives_ps = *completed_ps;
        self.schedule(arrives_ps, EventKind::Answer, flight);
    }

    // ---- compute node: in ------------------------------------------------------------------------------------

    fn answer(&mut self, flight: u32) -> ClusterEvent {
        let Flight { ref request, queue_pair, lane, position, posted_ps, received, from, to, .. } =
            self.flights[flight as usize];
        let queue_pair = queue_pair as usize;
        let answered = is_answered(request.verb);
        if from != to && !received {
            let bytes = self.wire.answer_bytes(request);
            let nic = &mut self.nics[usize::from(from)];
            nic.bytes_in += bytes;
            let through_ps = nic.input.pass(self.now_ps, self.wire.time_ps(bytes));
            if through_ps > self.now_ps {
                self.flights[flight as usize].received = true;
                self.schedule(through_ps, EventKind::Answer, flight);
                return ClusterEvent::Internal;
            }
        }
        let mut completion = self.flights[flight as usize].completion;
        let elapsed_ns = (self.now_ps - posted_ps) / super::PS_PER_NS;
        completion.elapsed_ns = u32::try_from(elapsed_ns).unwrap_or(u32::MAX);
        self.flights[flight as usize].next = self.free;
        self.free = flight;

        if answered {
            self.queue_pairs[queue_pair].outstanding -= 1;
            while !self.queue_pairs[queue_pair].unsent.is_empty() {
                let head = self.queue_pairs[queue_pair].unsent.head;
                if !self.can_send(queue_pair, &self.flights[head as usize].request) {
                    break;
                }
                self.pop(|cluster| &mut cluster.queue_pairs[queue_pair].unsent);
                self.send(head);
            }
        }
        let submit = &mut self.submits[lane as usize];
        submit.waiting -= 1;
        ClusterEvent::Completed { lane, position, completion, last: submit.waiting == 0 }
    }

    /// The scratch of a lane whose submit is complete.
    pub(crate) fn take_scratch(&mut self, lane: u32) -> Option<&'m mut [u8]> {
        self.submits[lane as usize].scratch.take()
    }

    /// How long memory node `node`'s ingress was stalled until now.
    pub(crate) fn stalled_ps(&self, node: usize) -> u64 {
        let state = &self.memory_nodes[node];
        state.counts.stalled_ps + state.stalled_since_ps.map_or(0, |since_ps| self.now_ps - since_ps)
    }

    /// How long the cores of memory node `node` have worked until now.
    pub(crate) fn cores_busy_ps(&self, node: usize) -> u64 {
        self.memory_nodes[node].cores.iter().map(|core| core.busy_ps(self.now_ps)).sum()
    }

    /// The NIC of a compute node.
    pub(crate) fn nic_of(&self, compute_node: usize) -> &Nic {
        &self.nics[if self.shape.colocated { compute_node } else { self.memories.count() + compute_node }]
    }
}

/// Whether a verb brings data back: what [`Capabilities::outstanding_reads_max`] limits.
const fn is_answered(verb: Verb) -> bool {
    matches!(verb, Verb::Read | Verb::Cas | Verb::MaskedCas | Verb::FetchAdd)
}
