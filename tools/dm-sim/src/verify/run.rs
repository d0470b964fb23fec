//! Runs histories, each from its seed to its verdict. `stage`: one history. `answering`: the fabric at its end. `final_checks`: what must hold at its end.

mod answering;
mod final_checks;
mod stage;

use super::damage::Damage;
use super::draw::Draw;
use super::fault_plan::FaultPlan;
use super::faults::FaultKind;
use super::load::BEGINNING_STEPS;
use super::prepared::OnFabric;
use super::report::{Finding, History, Report};
use super::settings::Settings;
use super::subject::{AfterDeath, Subject};
use super::wide::WideOption;
use crate::check::{Checker, Verdict};
use crate::config::Config;
use crate::driver::DriverConfig;
use crate::log;
use crate::rng::Rng;
use crate::world::World;
use dm_core::operation::OperationKind;
use dm_core::verbs::{Assumptions, Guarantees};
use stage::{Setup, empty_history};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// Of 100 histories in which two compute nodes die and survivors recover them, the second one dies as a repairer in so
/// many.
const REPAIRERS_PERCENT: u32 = 30;

/// Steps after which a history that does not end is given up. What has begun has as many steps to end as all before.
const STEPS_MAX: u64 = 2 * BEGINNING_STEPS;

/// Chunks for the index that a memory node of a small pool has, unless the index needs more in the beginning.
const SMALL_POOL_CHUNKS: u32 = 5;

/// The same if it does.
const SMALL_POOL_CHUNKS_MAX: u32 = 64;

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
    pub fn new(subject: S, mut settings: Settings) -> Self {
        settings.wide = settings.wide.of_both(subject.wide_options());
        settings.always = subject.always();
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
        if self.subject.after_death() == AfterDeath::Bounded && draw.wide.has(WideOption::LongHistory) {
            // Every operation that needs a lock of the dead would wait until its deadline.
            draw.plan.faults.retain(|planned| planned.fault.kind() != FaultKind::Crash);
        }
        if self.subject.after_death() == AfterDeath::Recovered {
            // No operation has to give up waiting for a dead compute node.
            draw.deadline_ns = 0;
            if kills {
                draw.plan.kill_a_repairer();
            }
            if draw.wide.has(WideOption::Stalls) {
                draw.plan.kill_a_caller();
            }
        }
        if self.settings.damage {
            draw.deadline_ns = Damage::deadline_ns(seed);
        }
        draw
    }

    fn play(&mut self, seed: u64, part: &Part, logged: bool) -> Replay {
        let mut chunks = 1 + Rng::new(seed ^ 0x5eed_0013).below(SMALL_POOL_CHUNKS);
        loop {
            let replay = if self.settings.damage {
                self.play_damaged(seed, part, logged, chunks)
            } else {
                self.play_in(seed, part, logged, chunks)
            };
            let is_too_small = matches!(replay.history.findings[..], [Finding::Setup(_)])
                && self.drawn(seed).wide.has(WideOption::SmallPool)
                && chunks < SMALL_POOL_CHUNKS_MAX;
            if !is_too_small {
                return replay;
            }
            // What the index has in the beginning needs more.
            chunks += 1;
        }
    }

    /// As [`Self::play_in`]; a panic is a finding.
    fn play_damaged(&mut self, seed: u64, part: &Part, logged: bool, chunks: u32) -> Replay {
        let played = catch_unwind(AssertUnwindSafe(|| self.play_in(seed, part, logged, chunks)));
        played.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned();
            let mut history = empty_history(vec![Finding::Panic(text)]);
            history.operations = u64::from(part.operations.min(self.drawn(seed).operations));
            let (requests, log) = Default::default();
            Replay { case: self.drawn(seed).to_string(), history, requests, log, events: Vec::new() }
        })
    }

    /// See [`Self::play`]. A small pool has `chunks` chunks of each memory node for the index.
    fn play_in(&mut self, seed: u64, part: &Part, logged: bool, chunks: u32) -> Replay {
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
        let mut world = self.take_world(&config, seed, logged);
        self.subject.format(&case, &config, world.memories_mut());
        let is_small = draw.wide.has(WideOption::SmallPool);
        if is_small && let Some(bytes) = self.subject.small_pool(&case, &config, world.memories(), chunks) {
            config.host_bytes = bytes;
            self.worlds.push(core::mem::replace(&mut world, World::new(config.clone(), seed)));
            world.set_log(logged);
            self.subject.format(&case, &config, world.memories_mut());
        }
        let config = config;
        // The fabric claims a withdrawn guarantee nevertheless.
        let by_construction = config.granted.union(self.settings.withdrawn);
        let guarantees = Guarantees { by_construction, asserted: Assumptions::empty(), profile: "" };
        let mut history = None;
        let opened = self.subject.open(&draw, &case, &config, guarantees, &mut |opened| {
            let (subject, draw, config) = (&self.subject, &draw, &config);
            let setup = Setup {
                draw,
                damage: self.settings.damage,
                coding: subject.coding(draw, &case),
                config,
                subject: &OnFabric { subject, draw, case: &case, config, guarantees },
                operations: part.operations.min(draw.operations),
            };
            let drivers = DriverConfig {
                lanes_per_worker: draw.lanes_per_worker,
                steps_max: STEPS_MAX,
                // A lane that waits for a dead compute node is not woken.
                parks_end: draw.plan.has(FaultKind::Crash) || draw.wide.fences_the_living() || self.settings.damage,
            };
            history = Some(setup.play((opened, &mut self.scratch), &mut world, drivers));
        });
        let mut history = history.unwrap_or_else(|| empty_history(Vec::new()));
        if let Err(why) = opened {
            history.findings.push(Finding::Setup(why));
        }
        match self.checker.check(&history.record) {
            // What damage did cannot be told from a wrong answer.
            _ if self.settings.damage => {}
            Verdict::Linearizable => {}
            Verdict::Violation(violation) => history.findings.insert(0, Finding::Violation(violation)),
            Verdict::TooHard { why, .. } => {
                history.too_hard = Some(why);
                history.findings.push(Finding::TooHard(why));
            }
        }
        history.overlapping = history.record.overlapping() as u64;
        history.rdwc = self.subject.rdwc(&case);
        let (requests, log) =
            if logged { (log::requests(world.log()), log::text(world.log())) } else { Default::default() };
        let events = if logged { world.log().to_vec() } else { Vec::new() };
        world.set_log(false);
        if !is_small {
            self.worlds.push(world);
        }
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
