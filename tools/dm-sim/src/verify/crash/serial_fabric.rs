//! Executes the requests of one lane at a time, at once and in post order, and lets a lane die where a [`CrashPoint`]
//! says. Memory nodes answer fencing calls, and report takeovers that come too early.

use crate::calls::{answer_at_once, scratch_bytes};
use crate::config::Config;
use crate::memory::{Memories, atomic_result};
use crate::verify::clocks;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::membership::lease::Lease;
use dm_core::port::State;
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::verbs::{CallAnswer, Completion, Flags, Label, NodeId, Request, Status, Verb};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;

/// What every submit takes, in ns.
const ROUND_TRIP_NS: u64 = 2000;

/// Submits after which an operation is taken for endless.
const SUBMITS_MAX: usize = 20_000;

/// Which part of a WRITE landed, in crash units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first so many.
    Front(u32),
    /// All but the first so many.
    Back(u32),
}

/// How far one chain was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainProgress {
    /// The memory node.
    pub node: u16,
    /// Requests that took effect.
    pub whole: u32,
    /// The part of the next request, a WRITE, that took effect.
    pub part: Option<Part>,
}

/// Where a lane dies: the chains of its submit number `submit`, and how far each gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Submits with requests for memory nodes, from 0.
    pub submit: usize,
    /// Every chain of that submit.
    pub chains: Vec<ChainProgress>,
    /// Nothing of the submit has landed when the lane dies. It lands while the memory node is asked to fence.
    pub late: bool,
}

/// What the enumeration of crash points needs to know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// The memory node.
    pub node: u16,
    /// What was asked.
    pub verb: Verb,
    /// The step.
    pub label: Label,
    /// Crash units it has.
    pub units: u32,
}

/// How a drive ended.
#[derive(Debug)]
pub enum Drive<T> {
    /// With a result.
    Done(T),
    /// At its crash point.
    Died,
    /// Before the submit it was to stop at, or parked before that.
    Stopped,
}

/// A request whose effect comes later, with its payload.
#[derive(Clone, Debug)]
struct Late {
    row: u16,
    request: Request,
    data: Vec<u8>,
    part: Option<Part>,
}

/// The memory nodes of a run, and its time.
#[derive(Debug)]
pub struct SerialFabric {
    /// The memories.
    pub memories: Memories,
    config: Config,
    late: Vec<Late>,
    /// Calls of `Fence` per row and memory node.
    calls: BTreeMap<(u16, u16), u32>,
    /// Rows that a lock word names as holders.
    holders: fn(u64) -> Vec<u16>,
    /// Requests that correct code never makes.
    pub findings: Vec<String>,
    /// Heartbeat words of memory node 0 that are raised as time passes.
    pub beating: Vec<u64>,
    /// Time between two heartbeats, in ns.
    pub beat_ns: u64,
    /// Leases of compute nodes that ask the clock before they answer. They are renewed as time passes, so none is over.
    pub leases: Vec<Rc<Lease>>,
    now_ns: u64,
}

/// Calls that are answered `Pending` before a memory node confirms.
const CALLS_PENDING: u32 = 1;

impl SerialFabric {
    /// Zeroed memories. `holders`: the rows that a lock word names.
    pub fn new(config: &Config, holders: fn(u64) -> Vec<u16>) -> Self {
        let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
        Self {
            memories,
            config: config.clone(),
            late: Vec::new(),
            calls: BTreeMap::new(),
            holders,
            findings: Vec::new(),
            beating: Vec::new(),
            beat_ns: 1,
            leases: Vec::new(),
            now_ns: 0,
        }
    }

    /// Drives `future` on `lane` of the compute node of `row` to its end, or to its crash point. The submits are
    /// appended to `seen`.
    pub fn drive<T>(
        &mut self,
        row: u16,
        lane: &Lane<'_>,
        future: impl Future<Output = T>,
        crash_point: Option<&CrashPoint>,
        seen: &mut Vec<Vec<SeenRequest>>,
    ) -> Result<Drive<T>, String> {
        lane.port().start();
        seen.clear();
        self.advance(row, lane, pin!(future), crash_point, None, seen)
    }

    /// Drives `future` to its end, to its crash point, or to the point before submit number `stop`. With a `stop`, it
    /// also returns when the future parks. A caller that continues a parked future has woken it.
    pub fn advance<T>(
        &mut self,
        row: u16,
        lane: &Lane<'_>,
        mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
        crash_point: Option<&CrashPoint>,
        stop: Option<usize>,
        seen: &mut Vec<Vec<SeenRequest>>,
    ) -> Result<Drive<T>, String> {
        let port = lane.port();
        loop {
            // The requests are already submitted: an earlier call stopped here.
            let stopped_here = port.state() == State::Submitted;
            let step = if stopped_here { Step::Requests } else { poll_once(port, future.as_mut()) };
            let result = match step {
                Step::Waiting => return Err("it waits for something that is not a submit".to_owned()),
                Step::Requests => None,
                Step::Done(result) => Some(result),
            };
            if result.is_none() || port.flush() {
                let requests = port.requests().to_vec();
                let mut pause_ns = 0;
                let mut travelling = Vec::new();
                for (position, request) in requests.iter().enumerate() {
                    match request.verb {
                        Verb::Pause => pause_ns = request.operands[0].max(pause_ns),
                        Verb::Park if stop.is_some() && !stopped_here => return Ok(Drive::Stopped),
                        Verb::Park if !stopped_here => {
                            return Err("it parks, and nobody is there to wake it".to_owned());
                        }
                        Verb::Park | Verb::Wake => {}
                        _ => travelling.push(position),
                    }
                }
                if !travelling.is_empty() && stop == Some(seen.len()) {
                    return Ok(Drive::Stopped);
                }
                let Some(scratch) = port.begin() else { return Err("a port without scratch".to_owned()) };
                if !travelling.is_empty() {
                    if let Some(crash_point) = crash_point.filter(|crash_point| crash_point.submit == seen.len()) {
                        let chain = travelling.iter().map(|&position| requests[position]);
                        self.cut_short(row, chain, scratch, crash_point);
                        return Ok(Drive::Died);
                    }
                    let look = |&position: &usize| self.look(&requests[position]);
                    seen.push(travelling.iter().map(look).collect());
                    for &position in &travelling {
                        port.complete(position, self.execute(row, &requests[position], scratch));
                    }
                }
                if seen.len() > SUBMITS_MAX {
                    return Err(format!("{SUBMITS_MAX} submits and no end"));
                }
                let took_ns = pause_ns + if travelling.is_empty() { 0 } else { ROUND_TRIP_NS };
                self.pass(took_ns);
                port.finish(scratch, took_ns);
            }
            if let Some(result) = result {
                if port.in_doubt() {
                    port.reset();
                }
                return Ok(Drive::Done(result));
            }
        }
    }

    /// Lets time pass, and raises heartbeat words.
    fn pass(&mut self, ns: u64) {
        let beats = (self.now_ns + ns) / self.beat_ns - self.now_ns / self.beat_ns;
        self.now_ns += ns;
        if !self.leases.is_empty() {
            clocks::show(self.now_ns / 1000);
            self.leases.iter().for_each(|lease| lease.renewed(self.now_ns / 1000));
        }
        if let Some(home) = self.memories.get_mut(NodeId(0)) {
            for &word in &self.beating {
                home.host.set_word(word, home.host.word(word) + beats);
            }
        }
    }

    fn look(&self, request: &Request) -> SeenRequest {
        let Request { node, verb, label, .. } = *request;
        SeenRequest { node: node.0, verb, label, units: self.units(request) }
    }

    fn unit(&self) -> u64 {
        u64::from(self.config.crash_atomic_bytes)
    }

    /// Where counting units begins: small ones are blocks of memory, large ones packets of the message.
    fn origin(&self, request: &Request) -> u64 {
        if self.unit() <= 64 { request.offset / self.unit() * self.unit() } else { request.offset }
    }

    fn units(&self, request: &Request) -> u32 {
        let end = request.offset + u64::from(request.bytes);
        (end - self.origin(request)).div_ceil(self.unit()) as u32
    }

    fn cut_short(
        &mut self,
        row: u16,
        chain: impl Iterator<Item = Request>,
        scratch: &mut [u8],
        crash_point: &CrashPoint,
    ) {
        let mut position: BTreeMap<u16, u32> = BTreeMap::new();
        for request in chain {
            let Some(chain) = crash_point.chains.iter().find(|chain| chain.node == request.node.0) else { continue };
            let number = position.entry(request.node.0).or_default();
            let part = if *number < chain.whole {
                None
            } else if *number == chain.whole && chain.part.is_some() {
                chain.part
            } else {
                continue;
            };
            *number += 1;
            let late = Late { row, request, data: Self::payload(&request, scratch), part };
            if crash_point.late {
                self.late.push(late);
            } else {
                self.land(&late);
            }
        }
    }

    fn payload(request: &Request, scratch: &[u8]) -> Vec<u8> {
        if request.verb != Verb::Write {
            return Vec::new();
        }
        if request.flags.contains(Flags::INLINE) {
            return request.inline_payload()[..request.bytes as usize].to_vec();
        }
        scratch[request.local as usize..request.local as usize + request.bytes as usize].to_vec()
    }

    fn land(&mut self, late: &Late) {
        let Late { request, data, part, .. } = late;
        if self.memories.admit(request, self.config.masked_atomics).is_err() {
            return;
        }
        match request.verb {
            Verb::Write => {
                let cut_at = |units: u32| {
                    let at = self.origin(request) + u64::from(units) * self.unit();
                    (at.saturating_sub(request.offset) as usize).min(data.len())
                };
                let range = match *part {
                    None => 0..data.len(),
                    Some(Part::Front(units)) => 0..cut_at(units),
                    Some(Part::Back(units)) => cut_at(units)..data.len(),
                };
                let at = request.offset as usize;
                let memory = self.memories.of(request);
                memory.range_mut(at + range.start..at + range.end).copy_from_slice(&data[range]);
            }
            Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => {
                let memory = self.memories.of(request);
                if let Some(new) = atomic_result(request, memory.word(request.offset)) {
                    memory.set_word(request.offset, new);
                }
            }
            // The results of a dead lane's READs and calls are lost.
            _ => {}
        }
    }

    fn execute(&mut self, row: u16, request: &Request, scratch: &mut [u8]) -> Completion {
        let mut completion = Completion { elapsed_ns: ROUND_TRIP_NS as u32, ..Completion::default() };
        if self.has_confirmed(row, request.node.0) {
            completion.status = Status::Fenced;
            return completion;
        }
        match self.apply(request, scratch) {
            Ok(value) => completion.value = value,
            Err(status) => completion.status = status,
        }
        completion
    }

    fn apply(&mut self, request: &Request, scratch: &mut [u8]) -> Result<u64, Status> {
        self.memories.admit(request, self.config.masked_atomics)?;
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        let remote = request.offset as usize..request.offset as usize + request.bytes as usize;
        match request.verb {
            Verb::Read => scratch[local].copy_from_slice(&self.memories.of(request).bytes()[remote]),
            Verb::Write => {
                let data = Self::payload(request, scratch);
                self.memories.of(request).range_mut(remote).copy_from_slice(&data);
            }
            Verb::Rpc => return Ok(self.serve(request.node, request.operands)),
            Verb::Call => {
                let asked = scratch.get(local).ok_or(Status::Refused)?.to_vec();
                let answer = request.local as usize..request.local as usize + scratch_bytes(request);
                let answer = scratch.get_mut(answer).ok_or(Status::Refused)?;
                let (bytes, copies) = answer_at_once(self.memories.of(request), request.node, &asked, answer);
                return Ok(CallAnswer::new(bytes, 0, 100 * copies).0);
            }
            _ => {
                let old = self.memories.of(request).word(request.offset);
                if let Some(new) = atomic_result(request, old) {
                    if request.label == Label::Takeover {
                        self.check_takeover(request);
                    }
                    self.memories.of(request).set_word(request.offset, new);
                }
                return Ok(old);
            }
        }
        Ok(0)
    }

    fn serve(&mut self, node: NodeId, operands: [u64; 4]) -> u64 {
        if Procedure::from_number(operands[0]) != Some(Procedure::Fence) {
            return Reply::Unknown as u64;
        }
        let row = operands[1] as u16;
        let calls = self.calls.entry((row, node.0)).or_default();
        *calls += 1;
        if *calls <= CALLS_PENDING {
            return Reply::Pending as u64;
        }
        // What the dead compute node had sent lands now at the latest.
        let (mut now, later) = std::mem::take(&mut self.late)
            .into_iter()
            .partition::<Vec<_>, _>(|late| late.row == row && late.request.node == node);
        self.late = later;
        now.drain(..).for_each(|late| self.land(&late));
        Reply::Done as u64
    }

    /// A row that was fenced has a new owner, which memory nodes serve.
    pub fn admit(&mut self, row: u16) {
        self.calls.retain(|(fenced, _), _| *fenced != row);
    }

    /// Whether all memory nodes have confirmed that a row is fenced.
    pub fn is_fenced(&self, row: u16) -> bool {
        (0..self.memories.count() as u16).all(|node| self.has_confirmed(row, node))
    }

    fn has_confirmed(&self, row: u16, node: u16) -> bool {
        self.calls.get(&(row, node)).is_some_and(|calls| *calls > CALLS_PENDING)
    }

    /// Whoever the lock word names before, and not after.
    fn check_takeover(&mut self, request: &Request) {
        let [before, after] = [request.operands[0], request.operands[1]].map(self.holders);
        for row in before.into_iter().filter(|row| !after.contains(row)) {
            if !self.is_fenced(row) {
                self.findings.push(format!("a takeover from row {row} before all memory nodes had fenced it off"));
            }
        }
    }
}

/// Every crash point of an operation that made these submits. Chains of one submit to several memory nodes are cut
/// independently of one another; where one ends within a WRITE the others are empty or whole. `ascending`: WRITEs land their lines
/// in ascending order, so only a front part of one can be there.
pub fn crash_points(submits: &[Vec<SeenRequest>], ascending: bool) -> Vec<CrashPoint> {
    let mut crash_points = Vec::new();
    for (submit, seen) in submits.iter().enumerate() {
        let mut nodes: Vec<u16> = seen.iter().map(|seen| seen.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let chains: Vec<Vec<SeenRequest>> =
            nodes.iter().map(|node| seen.iter().copied().filter(|seen| seen.node == *node).collect()).collect();
        let mut combinations: Vec<Vec<ChainProgress>> = vec![Vec::new()];
        for (node, chain) in nodes.iter().zip(&chains) {
            let lengths = 0..=chain.len() as u32;
            combinations = combinations
                .iter()
                .flat_map(|before| {
                    lengths.clone().map(|whole| {
                        let mut combination = before.clone();
                        combination.push(ChainProgress { node: *node, whole, part: None });
                        combination
                    })
                })
                .collect();
        }
        for combination in combinations.clone() {
            for (which, chain) in chains.iter().enumerate() {
                let others_plain = combination.iter().enumerate().all(|(other, progress)| {
                    other == which || progress.whole == 0 || progress.whole as usize == chains[other].len()
                });
                let Some(next) = chain.get(combination[which].whole as usize) else { continue };
                if next.verb != Verb::Write || !others_plain {
                    continue;
                }
                for units in 1..next.units {
                    let parts = [Part::Front(units), Part::Back(units)];
                    for part in parts.into_iter().take(if ascending { 1 } else { 2 }) {
                        let mut combination = combination.clone();
                        combination[which].part = Some(part);
                        combinations.push(combination);
                    }
                }
            }
        }
        for late in [false, true] {
            for chains in &combinations {
                let nothing = chains.iter().all(|chain| chain.whole == 0 && chain.part.is_none());
                if !(late && nothing) {
                    crash_points.push(CrashPoint { submit, chains: chains.clone(), late });
                }
            }
        }
    }
    crash_points
}
