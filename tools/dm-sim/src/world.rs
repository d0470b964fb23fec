//! The simulated fabric: memory nodes, queue pairs, requests on their way, and virtual time.
//!
//! A world knows nothing of lanes' futures or scratch: requests and payload bytes go in with [`World::post`], time
//! advances with [`World::step`], finished submits come out of [`World::take_ready`] and [`World::deliver`].
//! [`crate::driver::Driver`] connects that to lanes.

use crate::calls::{Arrived, scratch_bytes};
use crate::compute_node::ComputeNode;
use crate::config::Config;
use crate::flight::{Agenda, Flight, Flights, Happens, NO_SUBMIT, Slot, WriteBack};
use crate::log::{LogLine, What};
use crate::memory::Memories;
use crate::rng::Rng;
use crate::schedule::{Order, Plan, assign_units, plan, plan_refusal};
use crate::turns::Turns;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::verbs::{Assumptions, Callee, Completion, Flags, INLINE_BYTES_MAX, Label, Request, Status, Verb};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A lane known to a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneKey(pub(crate) u32);

/// A submit under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitKey(pub(crate) u32);

/// A request that no fabric has to carry as it was meant, or that breaks a rule which all indexes keep. Correct code makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// When.
    pub now_ns: u64,
    /// By whom.
    pub compute_node: ComputeNode,
    /// By which of its lanes (position).
    pub lane: u16,
    /// Which.
    pub request: Request,
    /// What is wrong with it.
    pub what: &'static str,
}

/// RPCs that were disturbed: see [`Config::rpc_lost_percent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcFaults {
    /// Lost, there or back.
    pub lost: u64,
    /// Executed twice.
    pub repeated: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Submit {
    lane: u32,
    /// Signaled requests without completion.
    pub(crate) waiting: u32,
    /// Slot per request of the port; `None` for local verbs.
    slots: [Option<Slot>; OUTBOX_REQUESTS],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneState {
    compute_node: ComputeNode,
    position: u16,
    pub(crate) worker: u32,
    /// Requests without completion.
    pub(crate) outstanding: u32,
    /// The last request of the world, in post order, before the operation that it is in, or settles.
    since: u64,
}

/// One queue pair: a worker of a compute node and a memory node.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePair {
    pub(crate) order: Order,
    pub(crate) failed: bool,
    /// The last request, in post order, that changed something.
    pub(crate) landed_sequence: u64,
}

/// The simulated fabric.
#[derive(Debug)]
pub struct World {
    pub(crate) config: Config,
    /// Unit in which transfers tear, in bytes.
    pub(crate) unit: u64,
    /// [`dm_core::verbs::Capabilities::write_turn_ns_min`].
    pub(crate) turn_ns: u64,
    pub(crate) rng: Rng,
    pub(crate) memories: Memories,
    pub(crate) now_ns: u64,
    pub(crate) flights: Flights,
    pub(crate) agenda: Agenda,
    pub(crate) submits: Vec<Submit>,
    submits_free: Vec<u32>,
    pub(crate) ready: Vec<u32>,
    pub(crate) lanes: Vec<LaneState>,
    /// Compute node of each worker.
    pub(crate) workers: Vec<ComputeNode>,
    /// Queue pair of worker `w` and memory node `m`: `w * memory nodes + m`.
    pub(crate) queue_pairs: Vec<QueuePair>,
    pub(crate) write_backs: Vec<WriteBack>,
    /// Compute nodes whose posts are answered `Fenced`.
    pub(crate) fenced: Vec<ComputeNode>,
    /// As `fenced`, on one memory node.
    pub(crate) fenced_at: Vec<(ComputeNode, dm_core::verbs::NodeId)>,
    /// Compute nodes that joined later, the latest one at the end.
    pub(crate) newcomers: Vec<(Member, ComputeNode)>,
    /// Calls that wait at compute nodes.
    pub(crate) arrived: Vec<Arrived>,
    /// Of those whose callers wait, by post order: whether nobody has taken them.
    pub(crate) waiting: Vec<(u64, Arc<AtomicBool>)>,
    /// Per memory node.
    pub(crate) down: Vec<bool>,
    posted: u64,
    pub(crate) effects: u64,
    pub(crate) chunk_changes: u64,
    pub(crate) turns: Turns,
    pub(crate) rpc_faults: RpcFaults,
    pub(crate) misuses: Vec<Misuse>,
    pub(crate) log: Option<Vec<LogLine>>,
}

impl World {
    /// How often a chunk was granted or freed.
    pub(crate) const fn chunk_changes(&self) -> u64 {
        self.chunk_changes
    }

    /// A world at time 0 with zeroed memories.
    pub fn new(config: Config, seed: u64) -> Self {
        assert!(!config.host_bytes.is_empty(), "a world without memory nodes");
        let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
        Self {
            unit: u64::from(config.unit_bytes()),
            turn_ns: u64::from(config.capabilities().write_turn_ns_min),
            rng: Rng::new(seed),
            now_ns: 0,
            flights: Flights::default(),
            agenda: Agenda::default(),
            submits: Vec::new(),
            submits_free: Vec::new(),
            ready: Vec::new(),
            lanes: Vec::new(),
            workers: Vec::new(),
            queue_pairs: Vec::new(),
            write_backs: Vec::new(),
            fenced: Vec::new(),
            fenced_at: Vec::new(),
            newcomers: Vec::new(),
            arrived: Vec::new(),
            waiting: Vec::new(),
            down: vec![false; memories.count()],
            posted: 0,
            effects: 0,
            chunk_changes: 0,
            turns: Turns::default(),
            rpc_faults: RpcFaults::default(),
            misuses: Vec::new(),
            log: None,
            memories,
            config,
        }
    }

    /// As new with another seed, without allocating. Only memory that was written is zeroed.
    pub fn reset(&mut self, seed: u64) {
        self.memories.clear();
        self.rng = Rng::new(seed);
        self.now_ns = 0;
        self.flights.clear();
        self.agenda.clear();
        self.submits_free.clear();
        self.submits_free.extend((0..self.submits.len() as u32).rev());
        self.ready.clear();
        self.lanes.clear();
        self.workers.clear();
        self.queue_pairs.clear();
        self.write_backs.clear();
        self.fenced.clear();
        self.fenced_at.clear();
        self.newcomers.clear();
        self.arrived.clear();
        self.waiting.clear();
        self.down.fill(false);
        self.posted = 0;
        self.effects = 0;
        self.chunk_changes = 0;
        self.turns.clear();
        self.rpc_faults = RpcFaults::default();
        self.misuses.clear();
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// Changes the configuration for everything posted from now on. Sizes of memories stay as they are.
    pub fn set_config(&mut self, config: Config) {
        self.unit = u64::from(config.unit_bytes());
        self.turn_ns = u64::from(config.capabilities().write_turn_ns_min);
        self.config = config;
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Virtual time, in ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Effects so far: bursts, atomics, write-backs.
    pub fn effects(&self) -> u64 {
        self.effects
    }

    /// The memories.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    /// The memories, to prepare, corrupt or repair by hand.
    pub fn memories_mut(&mut self) -> &mut Memories {
        &mut self.memories
    }

    /// The random stream, for choices that should replay with the seed.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Requests that correct code would not have made.
    pub fn misuses(&self) -> &[Misuse] {
        &self.misuses
    }

    /// RPCs that were lost or repeated.
    pub fn rpc_faults(&self) -> RpcFaults {
        self.rpc_faults
    }

    /// Starts (or empties) the event log, or stops it.
    pub fn set_log(&mut self, on: bool) {
        self.log = on.then(Vec::new);
    }

    /// The event log; empty unless it was started. See [`crate::log::LEGEND`].
    pub fn log(&self) -> &[LogLine] {
        self.log.as_deref().unwrap_or(&[])
    }

    /// Adds a worker of `compute_node`: one queue pair to every memory node.
    pub fn add_worker(&mut self, compute_node: ComputeNode) -> u32 {
        self.workers.push(compute_node);
        self.queue_pairs.resize_with(self.workers.len() * self.memories.count(), QueuePair::default);
        self.workers.len() as u32 - 1
    }

    /// Compute node `compute_node` joined later, as `member`. The others have the rows behind
    /// [`Config::rows_used_up`], one after the other.
    pub fn joined(&mut self, member: Member, compute_node: ComputeNode) {
        self.newcomers.push((member, compute_node));
    }

    /// The row of a compute node.
    pub fn row_of(&self, compute_node: ComputeNode) -> RowId {
        let newcomer = self.newcomers.iter().find(|(_, newcomer)| *newcomer == compute_node);
        newcomer.map_or(RowId(self.config.rows_used_up + 1 + compute_node.0), |(member, _)| member.row)
    }

    /// The compute node that has a row, or had it last.
    pub fn tenant(&self, row: RowId) -> Option<ComputeNode> {
        let newcomer = self.newcomers.iter().rev().find(|(member, _)| member.row == row);
        let first = row.0.checked_sub(self.config.rows_used_up + 1).map(ComputeNode);
        let first = first.filter(|first| self.newcomers.iter().all(|(_, newcomer)| newcomer != first));
        newcomer.map(|(_, compute_node)| *compute_node).or(first)
    }

    /// Adds a lane that posts on the queue pairs of `worker`.
    pub fn add_lane(&mut self, worker: u32, position: u16) -> LaneKey {
        let compute_node = self.workers[worker as usize];
        self.lanes.push(LaneState { compute_node, position, worker, outstanding: 0, since: 0 });
        LaneKey(self.lanes.len() as u32 - 1)
    }

    /// Requests of a lane without completion, unsignaled ones included.
    pub fn outstanding(&self, lane: LaneKey) -> u32 {
        self.lanes[lane.0 as usize].outstanding
    }

    /// Time of the next event.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.agenda.next_ns()
    }

    /// Lets time pass without an event. It never goes back, and never past [`World::next_ns`].
    pub fn advance_to(&mut self, now_ns: u64) {
        let latest = self.next_ns().unwrap_or(u64::MAX);
        self.now_ns = self.now_ns.max(now_ns.min(latest));
    }

    // ---- requests in -----------------------------------------------------------------------------------------

    /// Posts the requests of one submit; local verbs among them are skipped. Payloads are taken from `scratch` now.
    pub fn post(&mut self, lane: LaneKey, requests: &[Request], scratch: &[u8]) -> SubmitKey {
        let key = self.submits_free.pop().unwrap_or_else(|| {
            self.submits.push(Submit::default());
            self.submits.len() as u32 - 1
        });
        let mut submit = Submit { lane: lane.0, ..Submit::default() };
        // With queue pairs that order only chains, each chain of this submit starts a new order per memory node.
        if self.config.order_within_chains_only {
            let nodes = self.memories.count();
            let first = self.lanes[lane.0 as usize].worker as usize * nodes;
            for queue_pair in &mut self.queue_pairs[first..first + nodes] {
                queue_pair.order = Order::default();
            }
        }
        for (position, request) in requests.iter().enumerate() {
            if request.verb.is_local() {
                continue;
            }
            let later = &requests[position + 1..];
            let slot = self.post_one(lane, request, later, scratch);
            let flight = self.flights.get_mut(slot);
            flight.submit = key;
            flight.position = position as u8;
            submit.slots[position] = Some(slot);
            submit.waiting += u32::from(request.flags.contains(Flags::SIGNALED));
        }
        if submit.waiting == 0 {
            self.ready.push(key);
        }
        self.submits[key as usize] = submit;
        SubmitKey(key)
    }

    fn post_one(&mut self, lane: LaneKey, request: &Request, later: &[Request], scratch: &[u8]) -> Slot {
        let state = &mut self.lanes[lane.0 as usize];
        state.outstanding += 1;
        let LaneState { compute_node, position, worker, .. } = *state;
        let node = (request.node.0 as usize).min(self.memories.count() - 1);
        let queue_pair = worker as usize * self.memories.count() + node;
        let slot = self.flights.take(*request);
        self.posted += 1;
        let flight = self.flights.get_mut(slot);
        flight.queue_pair = queue_pair as u32;
        flight.compute_node = compute_node.0;
        flight.lane = position;
        flight.lane_key = lane.0;
        flight.sequence = self.posted;
        flight.posted_ns = self.now_ns;

        let mut misuse = misuse(request, later, scratch);
        let inline = request.flags.contains(Flags::INLINE);
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        match request.verb {
            _ if misuse == Some(OUTSIDE) => {}
            Verb::Write if inline => flight.data.extend_from_slice(&request.inline_payload()[..request.bytes as usize]),
            Verb::Write | Verb::Call => flight.data.extend_from_slice(&scratch[local]),
            Verb::Read => flight.data.resize(request.bytes as usize, 0),
            _ => {}
        }

        if request.label == Label::Unlock && self.may_yet_change(lane) {
            misuse = misuse
                .or(Some("a lock is freed while a request of the same operation that failed may still take effect"));
        }

        let refused = self.refusal(compute_node, queue_pair, request, misuse == Some(OUTSIDE));
        if request.label == Label::Closed && refused.is_ok() {
            self.end_calls(|flight| flight.lane_key == lane.0 && flight.request.node == request.node);
        }
        if request.verb == Verb::Call && refused.is_ok() {
            self.enter_call(slot);
            self.note(slot, What::Posted);
            return slot;
        }
        let order = &mut self.queue_pairs[queue_pair].order;
        let flight = self.flights.get_mut(slot);
        let plan = if let Err(status) = refused {
            flight.completion.status = status;
            let delay_ns = match status {
                Status::NodeDown | Status::Flushed => self.config.delays.failure_ns,
                _ => self.config.delays.request_ns,
            };
            let at_ns = self.now_ns + self.rng.within(delay_ns);
            plan_refusal(order, self.now_ns, at_ns)
        } else {
            let units = match request.verb {
                Verb::Read | Verb::Write => Flight::units(request, self.unit),
                _ => 1,
            };
            let mut plan = plan(&self.config, &mut self.rng, order, self.now_ns, (compute_node, request), units);
            let ascending = request.verb == Verb::Write && self.config.granted.contains(Assumptions::WRITE_ASCENDING);
            if request.verb == Verb::Rpc {
                flight.completion.status = disturb_rpc(&self.config, &mut self.rng, &mut plan, &mut self.rpc_faults);
            } else {
                assign_units(&mut self.rng, units, &plan, ascending, &mut flight.burst_of);
            }
            plan
        };
        self.enter(slot, &plan);
        if let Some(what) = misuse.take() {
            self.misuses.push(Misuse { now_ns: self.now_ns, compute_node, lane: position, request: *request, what });
        }
        self.note(slot, What::Posted);
        slot
    }

    /// `lane` begins an operation and has nothing to settle. What requests of earlier operations may still change, no lock that the
    /// operation takes guards: those had no lock, or it was settled.
    pub(crate) fn begins_operation(&mut self, lane: LaneKey) {
        self.lanes[lane.0 as usize].since = self.posted;
    }

    /// Whether a request of the operation that `lane` is in, or settles, completed and may still change something.
    fn may_yet_change(&self, lane: LaneKey) -> bool {
        self.flights.in_use().any(|slot| {
            let flight = self.flights.get(slot);
            flight.lane_key == lane.0
                && flight.sequence > self.lanes[lane.0 as usize].since
                && flight.completed
                && flight.completion.status == Status::Flushed
                && !matches!(flight.request.verb, Verb::Read | Verb::Rpc | Verb::Call)
                && u32::from(flight.landed).count_ones() < u32::from(flight.bursts)
        })
    }

    /// Why a request has no effect at all, if that is known when it is posted.
    fn refusal(
        &self,
        compute_node: ComputeNode,
        queue_pair: usize,
        request: &Request,
        outside: bool,
    ) -> Result<(), Status> {
        if self.fenced.contains(&compute_node) || self.fenced_at.contains(&(compute_node, request.node)) {
            return Err(Status::Fenced);
        }
        if self.down.get(request.node.0 as usize) == Some(&true) {
            return Err(Status::NodeDown);
        }
        if self.queue_pairs[queue_pair].failed {
            return Err(Status::Flushed);
        }
        if outside {
            return Err(Status::Refused);
        }
        if request.verb == Verb::Rpc && self.config.rpc.is_none() && !self.config.fences {
            return Err(Status::Unsupported);
        }
        let has_callee =
            if Callee(request.operands[1]) == Callee::MEMORY_NODE { self.config.calls } else { self.config.forwards };
        if request.verb == Verb::Call && !has_callee {
            return Err(Status::Unsupported);
        }
        self.memories.admit(request, self.config.masked_atomics)
    }

    fn enter(&mut self, slot: Slot, plan: &Plan) {
        let flight = self.flights.get_mut(slot);
        flight.bursts = plan.bursts as u8;
        flight.events = plan.bursts as u8 + 1 + u8::from(plan.write_back_ns.is_some());
        flight.completion.elapsed_ns = u32::try_from(plan.elapsed_ns).unwrap_or(u32::MAX);
        for (burst, &at_ns) in plan.burst_ns[..plan.bursts].iter().enumerate() {
            self.agenda.push(at_ns, slot, Happens::Burst(burst as u8));
        }
        if let Some(at_ns) = plan.write_back_ns {
            self.agenda.push(at_ns, slot, Happens::WriteBack);
        }
        self.agenda.push(plan.completes_ns, slot, Happens::Completion);
    }

    // ---- completions out -------------------------------------------------------------------------------------

    /// A submit all of whose signaled requests are complete, and its lane.
    #[inline]
    pub fn take_ready(&mut self) -> Option<(LaneKey, SubmitKey)> {
        let key = self.ready.pop()?;
        Some((LaneKey(self.submits[key as usize].lane), SubmitKey(key)))
    }

    /// Ends a submit that [`World::take_ready`] returned: calls `arrived` with the position, the completion and the
    /// bytes of a READ or an answer, for every request that is complete.
    pub fn deliver(&mut self, submit: SubmitKey, mut arrived: impl FnMut(usize, &Request, Completion, &[u8])) {
        let slots = self.submits[submit.0 as usize].slots;
        for slot in slots.into_iter().flatten() {
            let flight = self.flights.get_mut(slot);
            flight.submit = NO_SUBMIT;
            if flight.completed {
                let brings = flight.request.verb == Verb::Read
                    || flight.request.verb == Verb::Call && flight.completion.status == Status::Ok;
                let data = if brings { &flight.data[..] } else { &[] };
                arrived(flight.position as usize, &flight.request, flight.completion, data);
            }
            self.flights.release_if_over(slot);
        }
        self.submits_free.push(submit.0);
    }

    #[inline]
    pub(crate) fn note(&mut self, slot: Slot, what: What) {
        if let Some(log) = &mut self.log {
            let Flight { compute_node, lane, request, sequence, .. } = *self.flights.get(slot);
            log.push(LogLine { now_ns: self.now_ns, sequence, compute_node, lane, request, what });
        }
    }
}

/// Loses an RPC, on its way there or back, or has it executed twice. Returns its status.
fn disturb_rpc(config: &Config, rng: &mut Rng, plan: &mut Plan, faults: &mut RpcFaults) -> Status {
    if config.rpc_lost_percent > 0 && rng.percent(config.rpc_lost_percent) {
        faults.lost += 1;
        if rng.percent(50) {
            plan.bursts = 0;
        }
        return Status::Flushed;
    }
    if config.rpc_repeated_percent > 0 && rng.percent(config.rpc_repeated_percent) {
        faults.repeated += 1;
        plan.burst_ns[1] = plan.burst_ns[0] + rng.within(config.delays.resend_ns);
        plan.bursts = 2;
    }
    Status::Ok
}

const OUTSIDE: &str = "local bytes outside the lane's scratch";

/// What is wrong with a request, whatever the memory nodes say.
fn misuse(request: &Request, later: &[Request], scratch: &[u8]) -> Option<&'static str> {
    let moves = matches!(request.verb, Verb::Read | Verb::Write);
    let inline = request.flags.contains(Flags::INLINE);
    let bytes = request.bytes as usize;
    if inline && bytes > INLINE_BYTES_MAX {
        return Some(OUTSIDE);
    }
    if moves && !inline && request.local as usize + bytes > scratch.len() {
        return Some(OUTSIDE);
    }
    if request.verb == Verb::Call && scratch_bytes(request).saturating_add(request.local as usize) > scratch.len() {
        return Some(OUTSIDE);
    }
    let waited_for = request.flags.contains(Flags::SIGNALED)
        || later
            .iter()
            .any(|other| !other.verb.is_local() && other.node == request.node && other.flags.contains(Flags::SIGNALED));
    if moves && !inline && !waited_for {
        return Some("a transfer from or to scratch that nobody waits for");
    }
    None
}
