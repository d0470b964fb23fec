//! Runs one history, from its seed to its verdict.

use super::accounting::{Account, Holdings, Node, account};
use super::coding::Coding;
use super::draw::{Draw, Filling};
use super::fault_plan::FaultPlan;
use super::faults::{FaultKind, InjectedFaults};
use super::load::{Ended, Load, VALUE_FIRST, start};
use super::report::{Finding, History, Report};
use super::settings::Settings;
use super::subject::{AfterDeath, HeldLock, InnerNodeImages, Opened, Subject};
use super::tolerance::Failed;
use crate::check::{self, Answer, Call, Checker, Verdict};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{Driver, DriverConfig, LaneAt};
use crate::log;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use crate::workload::run_workload;
use crate::world::World;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Cause, OpError, OperationKind};
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Assumptions, Guarantees, LaneId};
use std::fmt;

/// A history for people to read.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The case in words.
    pub case: String,
    /// The history.
    pub history: History,
    /// One line per request: see [`log::REQUESTS_LEGEND`].
    pub requests: String,
    /// Everything that happened to them: see [`log::LEGEND`].
    pub log: String,
    /// The same as data.
    pub events: Vec<log::LogLine>,
}

impl Replay {
    /// As displayed, with everything that happened to requests instead of one line for each.
    pub fn with_events(&self) -> String {
        Self { requests: self.log.clone(), ..self.clone() }.to_string()
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, history, requests, .. } = self;
        writeln!(f, "{case}\n{requests}\n{}", history.record.render())?;
        history.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))
    }
}

/// Turns of all live compute nodes that an orphan collection may take.
const ORPHAN_COLLECTION_TURNS_MAX: u32 = 400;

/// Of 100 histories in which two compute nodes die and survivors recover them, the second one dies as a repairer in so
/// many.
const REPAIRERS_PERCENT: u32 = 30;

/// More than any WRITE of a history.
const WHOLE_WRITES_BYTES: u32 = 1 << 16;

/// How much of a seed's history to run.
#[derive(Clone, Debug)]
struct Part {
    operations: u32,
    /// Instead of the plan that the seed draws.
    plan: Option<FaultPlan>,
}

impl Default for Part {
    fn default() -> Self {
        Self { operations: u32::MAX, plan: None }
    }
}

/// Runs seeds of one subject, reusing memories.
pub struct Verifier<S> {
    subject: S,
    settings: Settings,
    worlds: Vec<World>,
    scratch: Vec<Vec<u8>>,
    checker: Checker,
}

impl<S: Subject> Verifier<S> {
    /// A verifier of `subject`.
    pub fn new(subject: S, settings: Settings) -> Self {
        Self { subject, settings, worlds: Vec::new(), scratch: Vec::new(), checker: Checker::default() }
    }

    /// Runs `seeds` and sums up.
    pub fn verify(&mut self, seeds: impl IntoIterator<Item = u64>) -> Report {
        let mut report = Report::default();
        for seed in seeds {
            report.add(seed, self.run(seed));
        }
        report
    }

    /// Runs one seed.
    pub fn run(&mut self, seed: u64) -> History {
        self.play(seed, &Part::default(), false).history
    }

    /// What the index declares to need in the case of a seed.
    pub fn declared(&self, seed: u64) -> Assumptions {
        let draw = Draw::new(&self.settings, seed);
        let case = self.subject.draw(&draw, &mut Rng::new(seed ^ 0x5eed_0003));
        self.subject.assumptions(&draw, &case)
    }

    /// Runs one seed and keeps a line per request.
    pub fn replay(&mut self, seed: u64) -> Replay {
        self.play(seed, &Part::default(), true)
    }

    /// Runs one seed with other faults than it would draw.
    pub fn run_with(&mut self, seed: u64, plan: &FaultPlan, logged: bool) -> Replay {
        self.play(seed, &Part { plan: Some(plan.clone()), ..Part::default() }, logged)
    }

    /// Replays the beginning of a seed: as few operations, and then as few faults, as show a finding of the same kind
    /// as the whole history does. `None`: the seed has no finding.
    ///
    /// A shortened history equals the whole one up to its last invocation. A history with fewer faults is a different
    /// history.
    pub fn replay_shortest(&mut self, seed: u64) -> Option<Replay> {
        let kind = |history: &History| history.findings.first().map(Finding::kind);
        let whole = self.run(seed);
        let wanted = kind(&whole)?;
        let (mut good, mut bad) = (0, whole.operations as u32);
        // Not every longer beginning of a failing one fails. So the bisection may miss the shortest, but what it ends
        // at fails.
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            let part = Part { operations: middle, ..Part::default() };
            let shows = kind(&self.play(seed, &part, false).history) == Some(wanted);
            *(if shows { &mut bad } else { &mut good }) = middle;
        }
        let mut part = Part { operations: bad, plan: Some(self.drawn(seed).plan) };
        // From the last fault on: this drops the faults behind the end first.
        for at in (0..part.plan.as_ref().map_or(0, |plan| plan.faults.len())).rev() {
            let mut fewer = part.clone();
            if let Some(plan) = &mut fewer.plan {
                plan.faults.remove(at);
            }
            if kind(&self.play(seed, &fewer, false).history) == Some(wanted) {
                part = fewer;
            }
        }
        Some(self.play(seed, &part, true))
    }

    /// Draws what a seed decides, but for the subject's own case.
    fn drawn(&self, seed: u64) -> Draw {
        let mut draw = Draw::new(&self.settings, seed);
        // From a stream of its own, so that nothing else that is drawn depends on it.
        let kills = Rng::new(seed ^ 0x5eed_000b).percent(REPAIRERS_PERCENT);
        if self.subject.after_death() == AfterDeath::Recovered {
            // No operation has to give up waiting for a dead compute node.
            draw.deadline_ns = 0;
            if kills {
                draw.plan.kill_a_repairer();
            }
        }
        draw
    }

    fn play(&mut self, seed: u64, part: &Part, logged: bool) -> Replay {
        let mut draw = self.drawn(seed);
        // The case follows from the plan as drawn, even if only a part of the plan is carried out.
        let case = self.subject.draw(&draw, &mut Rng::new(seed ^ 0x5eed_0003));
        if draw.plan.has(FaultKind::QpError) && !self.subject.mends_what_was_torn() {
            draw.fabric.crash_atomic_bytes = draw.fabric.crash_atomic_bytes.max(WHOLE_WRITES_BYTES);
            draw.weights[OperationKind::Delete as usize] = 0;
            draw.weights[OperationKind::DeleteIf as usize] = 0;
        }
        if let Some(plan) = &part.plan {
            draw.plan = plan.clone();
        }
        if !self.subject.mends_what_was_torn() && !self.subject.writes_records_at_once() {
            draw.plan.faults.retain(|planned| planned.fault.kind() != FaultKind::QpError);
        }
        let mut config = draw.config(&self.settings, self.subject.assumptions(&draw, &case));
        self.subject.configure_fabric(&case, &mut config);
        let config = config;
        let mut world = self.take_world(&config, seed, logged);
        self.subject.format(&case, &config, world.memories_mut());
        // The fabric claims a withdrawn guarantee nevertheless.
        let by_construction = config.granted.union(self.settings.withdrawn);
        let guarantees = Guarantees { by_construction, asserted: Assumptions::empty(), profile: "" };
        let mut history = None;
        let opened = self.subject.open(&draw, &case, &config, guarantees, &mut |opened| {
            let remote_locks_held = |memories: &Memories| self.subject.remote_locks_held(&case, &config, memories);
            let take_images = |memories: &Memories| self.subject.inner_node_images(&case, &config, memories);
            let holdings = |memories: &Memories| self.subject.holdings(&case, &config, memories);
            let mut stage = Stage {
                draw: &draw,
                coding: self.subject.coding(&draw, &case),
                config: &config,
                world: &mut world,
                opened,
                operations: part.operations.min(draw.operations),
                remote_locks_held: &remote_locks_held,
                take_images: &take_images,
                holdings: &holdings,
                never_leaks: self.subject.never_leaks(&case),
                holds_all_blocks: self.subject.holds_all_blocks(&case),
                collects_all: self.subject.collects_all(&case),
                bulk_loads: self.subject.bulk_loads(&case),
                after_death: self.subject.after_death(),
                findings: Vec::new(),
            };
            let drivers = DriverConfig {
                lanes_per_worker: draw.lanes_per_worker,
                steps_max: self.settings.steps_max,
                // A lane that waits for a dead compute node is not woken.
                parks_end: draw.plan.has(FaultKind::Crash),
            };
            history = Some(stage.play(&mut self.scratch, drivers));
        });
        let mut history = history.unwrap_or_else(|| empty_history(Vec::new()));
        if let Err(why) = opened {
            history.findings.push(Finding::Setup(why));
        }
        match self.checker.check(&history.record) {
            Verdict::Linearizable => {}
            Verdict::Violation(violation) => history.findings.insert(0, Finding::Violation(violation)),
            Verdict::TooHard { why, .. } => history.too_hard = Some(why),
        }
        history.overlapping = history.record.overlapping() as u64;
        history.rdwc = self.subject.rdwc(&case);
        let (requests, log) =
            if logged { (log::requests(world.log()), log::text(world.log())) } else { Default::default() };
        let events = if logged { world.log().to_vec() } else { Vec::new() };
        world.set_log(false);
        self.worlds.push(world);
        Replay { case: format!("{draw}\n{} {case:?}", self.subject.name()), history, requests, log, events }
    }

    /// Returns a world like a new one. Memory is reused, so only what a history wrote is cleared.
    fn take_world(&mut self, config: &Config, seed: u64, logged: bool) -> World {
        let fits = |world: &World| {
            world.config().host_bytes == config.host_bytes && world.config().device_bytes == config.device_bytes
        };
        let mut world = match self.worlds.iter().position(fits) {
            Some(position) => {
                let mut world = self.worlds.swap_remove(position);
                world.reset(seed);
                world.set_config(config.clone());
                world
            }
            None => World::new(config.clone(), seed),
        };
        world.set_log(logged);
        world
    }
}

fn empty_history(findings: Vec<Finding>) -> History {
    History {
        record: check::History::new(),
        findings,
        too_hard: None,
        failed: Vec::new(),
        overlapping: 0,
        operations: 0,
        injected: InjectedFaults::default(),
        memory: None,
        rdwc: None,
        steps: 0,
        marks: vec![0; Mark::ALL.len()],
    }
}

/// Everything set up for one history.
struct Stage<'a> {
    draw: &'a Draw,
    coding: Coding,
    config: &'a Config,
    world: &'a mut World,
    opened: &'a [&'a dyn Opened],
    operations: u32,
    remote_locks_held: &'a dyn Fn(&Memories) -> Vec<HeldLock>,
    take_images: &'a dyn Fn(&Memories) -> InnerNodeImages,
    holdings: &'a dyn Fn(&Memories) -> Option<Result<Holdings, String>>,
    never_leaks: bool,
    holds_all_blocks: bool,
    collects_all: bool,
    bulk_loads: bool,
    after_death: AfterDeath,
    findings: Vec<Finding>,
}

impl Stage<'_> {
    fn play(&mut self, scratch: &mut Vec<Vec<u8>>, drivers: DriverConfig) -> History {
        let bytes = self.opened.iter().map(|index| index.plan().total_bytes).max().unwrap_or(0);
        scratch.resize_with(scratch.len().max(self.draw.lane_count()), Vec::new);
        let mut rest = scratch.iter_mut();
        let mut lane = |number| {
            let scratch = rest.next()?;
            scratch.clear();
            scratch.resize(bytes, 0);
            Some(Lane::new(LaneId(number), scratch))
        };
        let node = |&count: &u16| (0..count).filter_map(&mut lane).collect();
        let lanes: Vec<Vec<Lane<'_>>> = self.draw.lanes.iter().map(node).collect();
        let lanes: Vec<&[Lane<'_>]> = lanes.iter().map(Vec::as_slice).collect();
        let mut record = check::History::new();
        if let Err(why) = self.fill(&lanes, &mut record) {
            return empty_history(vec![Finding::Setup(why)]);
        }

        let mut load = Load::new(self.draw, self.opened, &lanes, self.take_images, record, self.operations);
        load.coding = self.coding;
        load.recovered = self.after_death == AfterDeath::Recovered;
        let mut driver = Driver::new(self.world, &lanes, drivers);
        let end = run_workload(&mut driver, &mut load);
        load.finish(&mut driver);
        let (steps, now_ns) = (driver.steps(), driver.now_ns());
        drop(driver);
        let Load { history: record, failed, injected, .. } = load;

        let mut history = empty_history(Vec::new());
        history.steps = steps;
        history.operations = record.operations().len() as u64;
        history.injected = injected;
        history.record = record;
        for failed in failed {
            if failed.is_tolerable(&history.injected, self.after_death, self.draw.deadline_ns) {
                history.failed.push(summary(&failed.error));
            } else {
                let line = failed.operation.map(|operation| history.record.line(operation));
                self.findings.push(Finding::Failed { line, failed });
            }
        }
        if let Some(misuse) = self.world.misuses().first() {
            self.findings.push(Finding::Misuse(format!("{misuse:?}")));
        }
        match end {
            Err(stuck) => self.findings.push(Finding::Stuck(stuck.to_string())),
            Ok(()) => self.afterwards(&lanes, &mut history, now_ns),
        }
        for lane in lanes.iter().copied().flatten() {
            for mark in Mark::ALL {
                history.marks[*mark as usize] += u64::from(lane.marked(*mark));
            }
        }
        history.findings = std::mem::take(&mut self.findings);
        history
    }

    /// Inserts the first records, one operation at a time and without delays.
    fn fill(&mut self, lanes: &[&[Lane<'_>]], record: &mut check::History) -> Result<(), String> {
        let Draw { filling, filled_percent, keys, seed, .. } = *self.draw;
        let filling = if filling == Filling::Bulk && !self.bulk_loads { Filling::Inserts } else { filling };
        if filling == Filling::Empty {
            return Ok(());
        }
        let coding = self.coding;
        let mut rng = Rng::new(seed ^ 0x5eed_0004);
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        let (index, lane) = (self.opened[0], &lanes[0][0]);
        let mut any = false;
        for key in 0..u64::from(keys) {
            if !rng.percent(filled_percent) {
                continue;
            }
            any = true;
            let value = VALUE_FIRST + key;
            record.start_with(key, value);
            let future = start(index, lane, coding, key, Call::Insert { value }, 0);
            if filling == Filling::Inserts {
                match block_on(lane, &mut fabric, future) {
                    Ok(run) if matches!(run.result, Ended::Point(Answer::Inserted)) => {}
                    other => return Err(format!("insert of key {key}: {other:?}")),
                }
            } else {
                drop(future);
                let run = block_on(lane, &mut fabric, index.bulk_append(lane));
                run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk append: {error}"))?;
            }
        }
        if filling == Filling::Bulk && any {
            let run = block_on(lane, &mut fabric, index.bulk_finish(lane));
            run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk finish: {error}"))?;
        }
        Ok(())
    }

    /// Checks the end, when all is quiet: no lane has a lock record, every key can be read, the structure is sound, and
    /// the memory is accounted for.
    fn afterwards(&mut self, lanes: &[&[Lane<'_>]], history: &mut History, now_ns: u64) {
        let alive = self.alive(&history.injected);
        for &node in &alive {
            for (number, lane) in (0..).zip(lanes[node]) {
                if lane.in_doubt() {
                    let at = LaneAt::new(node as u16, number);
                    self.findings.push(Finding::InDoubt(format!("lane {at} owes {:?}", lane.lock_records())));
                }
            }
        }
        if self.after_death == AfterDeath::Recovered && history.injected.down.is_none() {
            self.sweep(lanes, &alive, &history.injected);
        }
        // A dead row that is not swept would hold the epochs back.
        let swept = self.after_death == AfterDeath::Recovered || history.injected.dead.is_empty();
        if swept && history.injected.down.is_none() {
            // A collection hides places that had two uses before it, so the memory is accounted for before it, too.
            if self.findings.is_empty() {
                let _ = self.account(lanes, &alive, false);
            }
            self.collect_orphans(lanes, &alive);
        }
        let dead_hold = self.look_at_locks(&alive, &history.injected);
        // Otherwise reads would wait for locks that are never released.
        if !self.findings.is_empty() {
            return;
        }
        let found = self.read_all(lanes, &alive, history, now_ns);
        // The checks below cannot judge what a dead holder left half done.
        if dead_hold == 0 && history.injected.down.is_none() {
            self.validate(lanes, &alive, found);
            self.add_up(lanes, &alive, history);
        }
    }

    /// Sweeps the rows of dead compute nodes.
    fn sweep(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], injected: &InjectedFaults) {
        let Some(&node) = alive.first() else { return };
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        for dead in &injected.dead {
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            match block_on(lane, &mut fabric, index.sweep(lane, RowId(dead.0 + 1))).map(|run| run.result) {
                Ok(Ok(swept)) if swept.row_free => {}
                other => self.findings.push(Finding::Structure(format!("sweeping row {}: {other:?}", dead.0 + 1))),
            }
        }
    }

    /// Every live compute node collects orphans. Places that one of them collects are in limbo until all of them have
    /// made turns.
    fn collect_orphans(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize]) {
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        for &node in alive {
            for lane in lanes[node] {
                // An operation whose request failed holds the epochs back until its lane is used again.
                let _ = block_on(lane, &mut fabric, self.opened[node].settle(lane));
            }
        }
        // Twice: the first collection ends what began before all was quiet; the second one takes everything.
        let mut left: Vec<(usize, bool)> = alive.iter().map(|&node| (node, false)).collect();
        let mut turns = 0;
        while !left.is_empty() {
            let mut still = Vec::new();
            for (node, everything) in left {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                // If a free list has no room, the remaining places stay where they are.
                let is_over = |collected_orphans: CollectedOrphans| {
                    collected_orphans.is_complete() || !collected_orphans.waits && !self.never_leaks
                };
                match block_on(lane, &mut fabric, index.collect_orphans(lane)).map(|run| run.result) {
                    Ok(Ok(collected_orphans)) if is_over(collected_orphans) && everything => {}
                    Ok(Ok(collected_orphans)) if is_over(collected_orphans) => {
                        index.demand_collection();
                        still.push((node, true));
                    }
                    Ok(Ok(_)) if turns < ORPHAN_COLLECTION_TURNS_MAX => still.push((node, everything)),
                    other => {
                        self.findings
                            .push(Finding::Structure(format!("compute node {node} collects orphans: {other:?}")));
                    }
                }
            }
            left = still;
            turns += 1;
            for &node in alive {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                if index.has_epochs() {
                    let _ = block_on(lane, &mut fabric, index.turn(lane));
                }
                // A pool of places that is asked for some gives up the closed ones. A pool that is not asked for long
                // gives up everything.
                index.for_each_ready(&mut |_| {});
            }
        }
    }

    /// Compute nodes that are not dead.
    fn alive(&self, injected: &InjectedFaults) -> Vec<usize> {
        let dead = |node: &usize| injected.dead.iter().any(|dead| usize::from(dead.0) == *node);
        (0..self.opened.len()).filter(|node| !dead(node)).collect()
    }

    /// Checks which locks are held. Counts locks of dead compute nodes if survivors may leave them held. Any other held
    /// lock is a finding.
    fn look_at_locks(&mut self, alive: &[usize], injected: &InjectedFaults) -> usize {
        let local = alive.iter().map(|&node| self.opened[node].locks_held()).sum();
        let mut held = (self.remote_locks_held)(self.world.memories());
        held.retain(|lock| Some(lock.node) != injected.down);
        let of_the_dead = |lock: &HeldLock| injected.dead.iter().any(|dead| dead.0 == lock.compute_node);
        let excused = match self.after_death {
            AfterDeath::Bounded => held.iter().filter(|lock| of_the_dead(lock)).count(),
            AfterDeath::Recovered => 0,
        };
        let remote = held.len() - excused;
        if local + remote > 0 {
            self.findings.push(Finding::LocksHeld { local, remote });
        }
        excused
    }

    /// Reads every key once more. Compute nodes take turns, since their caches differ. Returns how many keys there are.
    fn read_all(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &mut History, mut now_ns: u64) -> u64 {
        let coding = self.coding;
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        history.injected.down.iter().for_each(|node| fabric.set_down(*node));
        let mut found = 0;
        for key in 0..u64::from(self.draw.keys) {
            let node = alive[key as usize % alive.len()];
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            now_ns += 1;
            let operation = history.record.invoke(LaneAt::new(node as u16, 0), now_ns, key, Call::Get);
            let run = block_on(lane, &mut fabric, start(index, lane, coding, key, Call::Get, self.draw.deadline_ns));
            match run.map(|run| run.result) {
                Ok(Ended::Point(answer)) => {
                    found += u64::from(matches!(answer, Answer::Found(_)));
                    history.record.respond(operation, now_ns, answer);
                }
                Ok(Ended::Failed(error)) => {
                    history.record.respond(operation, now_ns, Answer::Failed(error.effect));
                    let failed = Failed { operation: Some(operation), error };
                    if failed.is_tolerable(&history.injected, self.after_death, self.draw.deadline_ns) {
                        history.failed.push(summary(&error));
                    } else {
                        let line = Some(history.record.line(operation));
                        self.findings.push(Finding::Failed { line, failed });
                    }
                }
                Ok(other) => unreachable!("a get ends with {other:?}"),
                Err(alone) => self.findings.push(Finding::Structure(format!("get of key {key}: {alone}"))),
            }
            // The operation may have failed, or its side effects may be unfinished. A lock on a memory node that is
            // down need not be released.
            if lane.is_unsettled() {
                let _ = block_on(lane, &mut fabric, index.settle(lane));
            }
        }
        found
    }

    fn validate(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], found: u64) {
        let Some(&last) = alive.last() else { return };
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        match block_on(&lanes[last][0], &mut fabric, self.opened[last].validate(&lanes[last][0])) {
            Err(alone) => self.findings.push(Finding::Structure(alone.to_string())),
            Ok(run) => match run.result {
                Err(error) => self.findings.push(Finding::Structure(error.to_string())),
                Ok(census) if census.records != found => {
                    self.findings.push(Finding::Records { counted: census.records, found });
                }
                Ok(_) => {}
            },
        }
    }

    /// Accounts for the memory as it is now, if that is possible. Until all keys have been read once more, the
    /// structure need not be `complete`: readers finish half-done changes.
    fn account(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], complete: bool) -> Option<Account> {
        let holdings = match (self.holdings)(self.world.memories())? {
            Err(_) if !complete => return None,
            Err(what) => {
                self.findings.push(Finding::Structure(what));
                return None;
            }
            Ok(holdings) => holdings,
        };
        let mut ready: Vec<Node> = Vec::new();
        for &node in alive {
            self.opened[node].for_each_ready(&mut |place| ready.push(place));
            // A stocked node has the size of the nodes of its chunk.
            for lane in lanes[node] {
                lane.for_each_stocked(&mut |_, fresh| {
                    let (node, offset) = (fresh.address.node(), fresh.address.offset());
                    let home = |chunk: &&super::accounting::Chunk| {
                        chunk.node == node && (chunk.offset..chunk.offset + chunk.bytes).contains(&offset)
                    };
                    let bytes = holdings.chunks.iter().find(home).map_or(0, |chunk| chunk.node_bytes);
                    ready.push(Node { node, offset, bytes });
                });
            }
        }
        let retired_bytes = alive.iter().map(|&node| self.opened[node].retired_bytes()).sum();
        let account = account(&holdings, &ready, retired_bytes);
        account.map_err(|what| self.findings.push(Finding::Memory(what))).ok()
    }

    /// Accounts for the memory.
    fn add_up(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &mut History) {
        match self.account(lanes, alive, true) {
            None => {}
            Some(account) => {
                let collected_orphans = self.after_death == AfterDeath::Recovered;
                let disturbs = |kind: FaultKind| history.injected.counts[kind as usize] > 0;
                let undisturbed = history.failed.is_empty()
                    && FaultKind::ALL
                        .iter()
                        .all(|&kind| !disturbs(kind) || collected_orphans && kind == FaultKind::Crash);
                if account.leaked > 0 && self.never_leaks && undisturbed {
                    let but = if disturbs(FaultKind::Crash) { "nothing but deaths" } else { "nothing" };
                    self.findings.push(Finding::Memory(format!("{but} went wrong, and {account}")));
                }
                // While no node dies, no block is lost unless a lane has marked that. After a collection of everything
                // no block is lost at all.
                let nobody_died = !disturbs(FaultKind::Crash) && !disturbs(FaultKind::NodeDeath);
                let told = |mark| lanes.iter().copied().flatten().any(|lane| lane.marked(mark) > 0);
                let forgotten = told(Mark::BlockLost) || told(Mark::BlockLeft);
                let collected = collected_orphans && self.collects_all && history.injected.down.is_none();
                if account.leaked_pieces > 0 && (self.holds_all_blocks && nobody_died && !forgotten || collected) {
                    let what = format!("{} pieces are lost: {account}", account.leaked_pieces);
                    self.findings.push(Finding::Memory(what));
                }
                history.memory = Some(account);
            }
        }
    }
}

/// A failure, without the details in which two failures of one cause differ.
fn summary(error: &OpError) -> String {
    match error.cause {
        Cause::Verb(error) => error.status.name().to_owned(),
        Cause::Deadline { .. } => "deadline passed".to_owned(),
        Cause::Retries { what, .. } => format!("gave up at {what}"),
        cause => cause.to_string(),
    }
}
