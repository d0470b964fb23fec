//! The simulated fabric: memory nodes, queue pairs, requests on their way, and virtual time.
//!
//! A world knows nothing of lanes' futures or scratch: requests and payload bytes go in with [`World::post`], time
//! advances with [`World::step`], finished submits come out of [`World::take_ready`] and [`World::deliver`].
//! [`crate::driver::Driver`] connects that to lanes.

use crate::config::Config;
use crate::flight::{Agenda, BURST_LOST, Flight, Flights, Happens, NO_SUBMIT, Slot, has_landed};
use crate::log::{LogLine, What};
use crate::memory::{Memories, atomic_result};
use crate::rng::Rng;
use crate::schedule::{Order, Plan, deal, plan, plan_refusal};
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Assumptions, Completion, Flags, INLINE_BYTES_MAX, Request, Space, Status, Verb};

/// A compute node, 0-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeNode(pub u16);

/// A lane known to a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneKey(pub(crate) u32);

/// A submit under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitKey(pub(crate) u32);

/// A request that no fabric has to carry as it was meant. Correct code makes none.
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

#[derive(Clone, Debug, Default)]
struct Submit {
    lane: u32,
    /// Signaled requests without completion.
    waiting: u32,
    /// Slot per request of the port; `None` for local verbs.
    slots: [Option<Slot>; OUTBOX_REQUESTS],
}

#[derive(Clone, Copy, Debug)]
struct LaneState {
    compute_node: ComputeNode,
    position: u16,
    worker: u32,
    /// Requests without completion.
    outstanding: u32,
}

/// One queue pair: a worker of a compute node and a memory node.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePair {
    pub(crate) order: Order,
    pub(crate) failed: bool,
    /// The last request, in post order, that changed something.
    pub(crate) landed_sequence: u64,
}

/// A word that an atomic will write again.
#[derive(Clone, Copy, Debug)]
struct WriteBack {
    slot: Slot,
    node: u16,
    space: Space,
    offset: u64,
}

/// The simulated fabric.
#[derive(Debug)]
pub struct World {
    pub(crate) config: Config,
    unit: u64,
    pub(crate) rng: Rng,
    pub(crate) memories: Memories,
    pub(crate) now_ns: u64,
    pub(crate) flights: Flights,
    pub(crate) agenda: Agenda,
    submits: Vec<Submit>,
    submits_free: Vec<u32>,
    ready: Vec<u32>,
    lanes: Vec<LaneState>,
    /// Compute node of each worker.
    pub(crate) workers: Vec<ComputeNode>,
    /// Queue pair of worker `w` and memory node `m`: `w * memory nodes + m`.
    pub(crate) queue_pairs: Vec<QueuePair>,
    write_backs: Vec<WriteBack>,
    /// Compute nodes whose posts are answered `Fenced`.
    pub(crate) fenced: Vec<ComputeNode>,
    /// Per memory node.
    pub(crate) down: Vec<bool>,
    posted: u64,
    effects: u64,
    misuses: Vec<Misuse>,
    log: Option<Vec<LogLine>>,
}

impl World {
    /// A world at time 0 with zeroed memories.
    pub fn new(config: Config, seed: u64) -> Self {
        let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
        Self {
            unit: u64::from(config.unit_bytes()),
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
            down: vec![false; memories.count()],
            posted: 0,
            effects: 0,
            misuses: Vec::new(),
            log: None,
            memories,
            config,
        }
    }

    /// As new with another seed, without allocating. Only memory that was written is zeroed.
    pub fn reset(&mut self, seed: u64) {
        self.memories.clear();
        self.restart(seed);
    }

    /// As new with another seed and with `content` in the memories: a [`Memories::keep`] of this world's, made after
    /// the last reset. Only memory that was written since is copied.
    pub fn reset_to(&mut self, content: &Memories, seed: u64) {
        self.memories.restore(content);
        self.restart(seed);
    }

    fn restart(&mut self, seed: u64) {
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
        self.down.fill(false);
        self.posted = 0;
        self.effects = 0;
        self.misuses.clear();
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// Turns the dial for everything posted from now on. Sizes of memories stay as they are.
    pub fn set_config(&mut self, config: Config) {
        self.unit = u64::from(config.unit_bytes());
        self.config = config;
    }

    /// The dial.
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

    /// Adds a lane that posts on the queue pairs of `worker`.
    pub fn add_lane(&mut self, worker: u32, position: u16) -> LaneKey {
        let compute_node = self.workers[worker as usize];
        self.lanes.push(LaneState { compute_node, position, worker, outstanding: 0 });
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

        let mut misuse = unmeant(request, later, scratch);
        let inline = request.flags.contains(Flags::INLINE);
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        match request.verb {
            _ if misuse == Some(OUTSIDE) => {}
            Verb::Write if inline => flight.data.extend_from_slice(&request.inline_payload()[..request.bytes as usize]),
            Verb::Write => flight.data.extend_from_slice(&scratch[local]),
            Verb::Read => flight.data.resize(request.bytes as usize, 0),
            _ => {}
        }

        let refused = self.refusal(compute_node, queue_pair, request, misuse == Some(OUTSIDE));
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
            let plan = plan(&self.config, &mut self.rng, order, self.now_ns, request, units);
            let ascending = request.verb == Verb::Write && self.config.granted.contains(Assumptions::WRITE_ASCENDING);
            deal(&mut self.rng, units, plan.bursts, ascending, &mut flight.burst_of);
            plan
        };
        self.enter(slot, &plan);
        if let Some(what) = misuse.take() {
            self.misuses.push(Misuse { now_ns: self.now_ns, compute_node, lane: position, request: *request, what });
        }
        self.note(slot, What::Posted);
        slot
    }

    /// Why a request has no effect at all, if that is known when it is posted.
    fn refusal(
        &self,
        compute_node: ComputeNode,
        queue_pair: usize,
        request: &Request,
        outside: bool,
    ) -> Result<(), Status> {
        if self.fenced.contains(&compute_node) {
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
        if request.verb == Verb::Rpc && self.config.rpc.is_none() {
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

    // ---- time ------------------------------------------------------------------------------------------------

    /// Lets the next event happen; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.agenda.pop() else { return false };
        self.now_ns = self.now_ns.max(event.at_ns);
        self.flights.get_mut(event.slot).events -= 1;
        match event.what {
            Happens::Burst(burst) => self.burst(event.slot, burst),
            Happens::WriteBack => self.write_back(event.slot),
            Happens::Completion => self.complete(event.slot),
        }
        self.flights.release_if_over(event.slot);
        true
    }

    pub(crate) fn burst(&mut self, slot: Slot, burst: u8) {
        self.effects += 1;
        let flight = self.flights.get_mut(slot);
        flight.landed |= 1 << burst;
        let request = flight.request;
        if request.verb != Verb::Read {
            let landed = &mut self.queue_pairs[flight.queue_pair as usize].landed_sequence;
            *landed = flight.sequence.max(*landed);
        }
        match request.verb {
            Verb::Read | Verb::Write => {}
            Verb::Rpc => return self.serve(slot),
            _ => return self.atomic(slot),
        }
        let memory = self.memories.of(&request);
        let offset = request.offset as usize;
        let reads = request.verb == Verb::Read;
        let mut apply = |range: std::ops::Range<usize>| {
            let remote = offset + range.start..offset + range.end;
            if reads {
                flight.data[range].copy_from_slice(&memory.bytes()[remote]);
            } else {
                memory.range_mut(remote).copy_from_slice(&flight.data[range]);
            }
        };
        let mut units = 0;
        if flight.burst_of.is_empty() {
            apply(0..request.bytes as usize);
            units = u64::MAX;
        } else {
            for (number, _) in flight.burst_of.iter().enumerate().filter(|(_, of)| **of == burst) {
                apply(Flight::unit_range(&request, self.unit, number));
                units |= 1_u64.checked_shl(number as u32).unwrap_or(0);
            }
        }
        if self.log.is_some() {
            let count = Flight::units(&request, self.unit) as u32;
            let mask = if count < 64 { (1 << count) - 1 } else { u64::MAX };
            self.note(slot, What::Effect { units: units & mask });
        }
    }

    fn atomic(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        let request = flight.request;
        let divided = flight.events > 1;
        // Atomics exclude each other: one that is between its read and its write finishes first.
        if !self.write_backs.is_empty() {
            self.finish_write_backs(&request);
        }
        let memory = self.memories.of(&request);
        let old = memory.word(request.offset);
        let new = atomic_result(&request, old);
        if let Some(new) = new {
            memory.set_word(request.offset, new);
        }
        let flight = self.flights.get_mut(slot);
        flight.completion.value = old;
        let exposed = match new {
            Some(_) => !self.config.granted.contains(Assumptions::ATOMIC_EXCLUDES_WRITE),
            None => !self.config.granted.contains(Assumptions::FAILED_CAS_IS_SILENT),
        };
        if divided && exposed {
            flight.write_back = Some(new.unwrap_or(old));
            let Request { node, space, offset, .. } = request;
            self.write_backs.push(WriteBack { slot, node: node.0, space, offset });
        }
        self.note(slot, What::Atomic { old, new });
    }

    fn finish_write_backs(&mut self, request: &Request) {
        let mut at = 0;
        while let Some(&pending) = self.write_backs.get(at) {
            if pending.offset == request.offset && pending.node == request.node.0 && pending.space == request.space {
                self.write_back(pending.slot);
            } else {
                at += 1;
            }
        }
    }

    pub(crate) fn write_back(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        let Some(word) = flight.write_back.take() else { return };
        let request = flight.request;
        self.write_backs.retain(|pending| pending.slot != slot);
        self.memories.of(&request).set_word(request.offset, word);
        self.effects += 1;
        self.note(slot, What::WriteBack { word });
    }

    /// Drops an atomic's second half.
    pub(crate) fn cancel_write_back(&mut self, slot: Slot) {
        self.flights.get_mut(slot).write_back = None;
        self.write_backs.retain(|pending| pending.slot != slot);
    }

    fn serve(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        let Some(node) = self.memories.get_mut(flight.request.node) else { return };
        match self.config.rpc.map_or(Err(Status::Unsupported), |serve| serve(node, flight.request.operands)) {
            Ok(value) => flight.completion.value = value,
            Err(status) => flight.completion.status = status,
        }
        self.note(slot, What::Effect { units: 1 });
    }

    fn complete(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        flight.completed = true;
        let completion = flight.completion;
        let signaled = flight.request.flags.contains(Flags::SIGNALED);
        let (lane, key) = (flight.lane_key, flight.submit);
        self.lanes[lane as usize].outstanding -= 1;
        if signaled && key != NO_SUBMIT {
            let submit = &mut self.submits[key as usize];
            submit.waiting -= 1;
            if submit.waiting == 0 {
                self.ready.push(key);
            }
        }
        self.note(slot, What::Done(completion));
    }

    // ---- completions out -------------------------------------------------------------------------------------

    /// A submit all of whose signaled requests are complete, and its lane.
    #[inline]
    pub fn take_ready(&mut self) -> Option<(LaneKey, SubmitKey)> {
        let key = self.ready.pop()?;
        Some((LaneKey(self.submits[key as usize].lane), SubmitKey(key)))
    }

    /// Ends a submit that [`World::take_ready`] returned: calls `arrived` with the position, the completion and the
    /// bytes of a READ, for every request that is complete.
    pub fn deliver(&mut self, submit: SubmitKey, mut arrived: impl FnMut(usize, &Request, Completion, &[u8])) {
        let slots = self.submits[submit.0 as usize].slots;
        for slot in slots.into_iter().flatten() {
            let flight = self.flights.get_mut(slot);
            flight.submit = NO_SUBMIT;
            if flight.completed {
                let data = if flight.request.verb == Verb::Read { &flight.data[..] } else { &[] };
                arrived(flight.position as usize, &flight.request, flight.completion, data);
            }
            self.flights.release_if_over(slot);
        }
        self.submits_free.push(submit.0);
    }

    #[inline]
    pub(crate) fn note(&mut self, slot: Slot, what: What) {
        if let Some(log) = &mut self.log {
            let Flight { compute_node, lane, request, .. } = *self.flights.get(slot);
            log.push(LogLine { now_ns: self.now_ns, compute_node, lane, request, what });
        }
    }

    /// Loses the units of `slot` that `lose` names and have not taken effect.
    pub(crate) fn lose_units(&mut self, slot: Slot, lose: impl Fn(usize) -> bool) {
        let unit = self.unit;
        let flight = self.flights.get_mut(slot);
        let units = Flight::units(&flight.request, unit);
        if flight.burst_of.is_empty() {
            flight.burst_of.resize(units, 0);
        }
        for number in 0..units {
            if lose(number) && !has_landed(flight.landed, flight.burst_of[number]) {
                flight.burst_of[number] = BURST_LOST;
            }
        }
    }

    /// Unit of tearing, in bytes.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }
}

const OUTSIDE: &str = "local bytes outside the lane's scratch";

/// What is wrong with a request, whatever the memory nodes say.
fn unmeant(request: &Request, later: &[Request], scratch: &[u8]) -> Option<&'static str> {
    let moves = matches!(request.verb, Verb::Read | Verb::Write);
    let inline = request.flags.contains(Flags::INLINE);
    let bytes = request.bytes as usize;
    if inline && bytes > INLINE_BYTES_MAX {
        return Some(OUTSIDE);
    }
    if moves && !inline && request.local as usize + bytes > scratch.len() {
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
