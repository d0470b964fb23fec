//! One history from its seed to its verdict.

use super::coding::Coding;
use super::draw::{Draw, Filling, Settings};
use super::load::{Ended, Load, VALUE_FIRST, start};
use super::report::{Finding, Report};
use super::subject::{Opened, Subject};
use crate::check::{self, Answer, Call, Checker, Hardness, Verdict};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{Driver, DriverConfig, LaneAt};
use crate::log;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use crate::workload::run_workload;
use crate::world::World;
use dm_core::lane::{Lane, Mark};
use dm_core::verbs::{Assumptions, Guarantees, LaneId};
use std::fmt;

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct History {
    /// What the lanes did, and the reads after them.
    pub record: check::History,
    /// What is wrong. The violation of the promises comes first, if there is one.
    pub findings: Vec<Finding>,
    /// Why the checker could not judge it.
    pub too_hard: Option<Hardness>,
    /// Tolerable failures, by cause.
    pub failed: Vec<String>,
    /// Operations that overlap with another one on their key.
    pub overlapping: u64,
    /// Operations of the load.
    pub operations: u64,
    /// Futures dropped.
    pub dropped: u64,
    /// Steps of the driver.
    pub steps: u64,
    /// Coverage marks, by [`Mark`].
    pub marks: Vec<u64>,
}

/// A history shown.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The case in words.
    pub case: String,
    /// The history.
    pub history: History,
    /// Every request: see [`log::LEGEND`].
    pub log: String,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, history, log } = self;
        writeln!(f, "{case}\n{log}\n{}", history.record.render())?;
        history.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))
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
            let history = self.run(seed);
            report.histories += 1;
            report.overlapping_histories += u64::from(history.overlapping * 10 >= history.operations);
            report.operations += history.operations;
            report.overlapping += history.overlapping;
            report.dropped += history.dropped;
            report.steps += history.steps;
            if let Some(why) = history.too_hard {
                report.too_hard = (report.too_hard.0 + 1, Some(why));
            }
            for cause in history.failed {
                *report.failed.entry(cause).or_default() += 1;
            }
            for (sum, count) in report.marks.iter_mut().zip(history.marks) {
                *sum += count;
            }
            if let Some(first) = history.findings.into_iter().next() {
                *report.kinds.entry(first.kind()).or_default() += 1;
                if report.findings.len() < super::report::FINDINGS_MAX {
                    report.findings.push((seed, first));
                }
            }
        }
        report
    }

    /// Runs one seed.
    pub fn run(&mut self, seed: u64) -> History {
        self.run_first(seed, u32::MAX, false).history
    }

    /// Runs one seed and keeps a line per request.
    pub fn replay(&mut self, seed: u64) -> Replay {
        self.run_first(seed, u32::MAX, true)
    }

    /// Replays the beginning of a seed: as few operations as show a finding of the same kind as the whole. `None`: the
    /// seed has no finding.
    ///
    /// Up to the last invocation a beginning is what the whole was; what is left out comes after.
    pub fn replay_shortest(&mut self, seed: u64) -> Option<Replay> {
        let kind = |history: &History| history.findings.first().map(Finding::kind);
        let whole = self.run(seed);
        let wanted = kind(&whole)?;
        let (mut good, mut bad) = (0, whole.operations as u32);
        // Not every longer beginning of a bad one is bad, so the bisection may end at another one than the shortest:
        // it ends at a bad one.
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            let shows = kind(&self.run_first(seed, middle, false).history) == Some(wanted);
            *(if shows { &mut bad } else { &mut good }) = middle;
        }
        Some(self.run_first(seed, bad, true))
    }

    fn run_first(&mut self, seed: u64, operations: u32, logged: bool) -> Replay {
        let draw = Draw::new(&self.settings, seed);
        let case = self.subject.draw(&draw, &mut Rng::new(seed ^ 0x5eed_0003));
        let config = draw.config(&self.settings, self.subject.assumptions(&draw, &case));
        let mut world = self.take_world(&config, seed, logged);
        self.subject.format(&case, &config, world.memories_mut());
        // A withdrawn guarantee is one that the fabric does not admit to lack.
        let by_construction = config.granted.union(self.settings.withdrawn);
        let guarantees = Guarantees { by_construction, asserted: Assumptions::empty(), profile: "" };
        let mut history = None;
        let opened = self.subject.open(&draw, &case, &config, guarantees, &mut |opened| {
            let remote_locks_held = |memories: &Memories| self.subject.remote_locks_held(&case, &config, memories);
            let mut stage = Stage {
                draw: &draw,
                config: &config,
                world: &mut world,
                opened,
                operations: operations.min(draw.operations),
                remote_locks_held: &remote_locks_held,
                findings: Vec::new(),
            };
            let drivers = DriverConfig { lanes_per_worker: draw.lanes_per_worker, steps_max: self.settings.steps_max };
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
        let log = if logged { log::text(world.log()) } else { String::new() };
        world.set_log(false);
        self.worlds.push(world);
        Replay { case: format!("{draw}\n{} {case:?}", self.subject.name()), history, log }
    }

    /// A world as new. Memory is reused: only what a history wrote is cleared.
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
        dropped: 0,
        steps: 0,
        marks: vec![0; Mark::ALL.len()],
    }
}

/// Everything set up for one history.
struct Stage<'a> {
    draw: &'a Draw,
    config: &'a Config,
    world: &'a mut World,
    opened: &'a [&'a dyn Opened],
    operations: u32,
    remote_locks_held: &'a dyn Fn(&Memories) -> usize,
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

        let mut load = Load::new(self.draw, self.opened, &lanes, record, self.operations);
        let mut driver = Driver::new(self.world, &lanes, drivers);
        let end = run_workload(&mut driver, &mut load);
        let (steps, now_ns) = (driver.steps(), driver.now_ns());
        drop(driver);
        let Load { history: record, failed, dropped, .. } = load;

        let mut history = empty_history(Vec::new());
        history.steps = steps;
        history.operations = record.operations().len() as u64;
        history.dropped = u64::from(dropped);
        history.record = record;
        for failed in failed {
            if failed.is_tolerable() {
                history.failed.push(failed.error.cause.to_string());
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

    fn coding(&self) -> Coding {
        Coding { key_shift: self.draw.key_shift }
    }

    /// Puts the first records in, alone and without delay.
    fn fill(&mut self, lanes: &[&[Lane<'_>]], record: &mut check::History) -> Result<(), String> {
        let Draw { filling, filled_percent, keys, seed, .. } = *self.draw;
        if filling == Filling::Empty {
            return Ok(());
        }
        let coding = self.coding();
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
            let future = start(index, lane, coding, key, Call::Insert { value });
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

    /// All is quiet: nobody owes anything, every key is read once more by somebody, the structure is sound.
    fn afterwards(&mut self, lanes: &[&[Lane<'_>]], history: &mut History, mut now_ns: u64) {
        for (node, of_node) in (0..).zip(lanes) {
            for (number, lane) in (0..).zip(*of_node) {
                if lane.in_doubt() {
                    let at = LaneAt::new(node, number);
                    self.findings.push(Finding::InDoubt(format!("lane {at} owes {:?}", lane.debts())));
                }
            }
        }
        let local = self.opened.iter().map(|index| index.locks_held()).sum();
        let remote = (self.remote_locks_held)(self.world.memories());
        if local + remote > 0 {
            self.findings.push(Finding::LocksHeld { local, remote });
        }
        // Who reads now would wait for what is never released.
        if !self.findings.is_empty() {
            return;
        }
        let coding = self.coding();
        let mut fabric = DirectFabric::over(self.config, self.world.memories_mut());
        let mut found = 0;
        for key in 0..u64::from(self.draw.keys) {
            // Compute nodes take turns: their caches know different things.
            let node = key as usize % lanes.len();
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            now_ns += 1;
            let operation = history.record.invoke(LaneAt::new(node as u16, 0), now_ns, key, Call::Get);
            match block_on(lane, &mut fabric, start(index, lane, coding, key, Call::Get)) {
                Ok(run) => match run.result {
                    Ended::Point(answer) => {
                        found += u64::from(matches!(answer, Answer::Found(_)));
                        history.record.respond(operation, now_ns, answer);
                    }
                    other => self.findings.push(Finding::Structure(format!("get of key {key} ends with {other:?}"))),
                },
                Err(alone) => self.findings.push(Finding::Structure(format!("get of key {key}: {alone}"))),
            }
        }
        let last = lanes.len() - 1;
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
}
