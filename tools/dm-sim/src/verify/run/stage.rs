//! One history: fills the index, runs the load under faults, and judges which failures the faults excuse.

use crate::check::{self, Answer, Call};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{Driver, DriverConfig, Stuck};
use crate::rng::Rng;
use crate::run::block_on;
use crate::verify::clocks::{self, Clocks};
use crate::verify::coding::Coding;
use crate::verify::damage::Damage;
use crate::verify::draw::{Draw, Filling};
use crate::verify::faults::InjectedFaults;
use crate::verify::load::{Ended, Load, Newcomers, VALUE_FIRST, start};
use crate::verify::prepared::Prepared;
use crate::verify::report::{Finding, History};
use crate::verify::subject::Opened;
use crate::verify::tolerance::Excuses;
use crate::verify::wide::{WIDE_OPTIONS, WideOption, WideOptions};
use crate::workload::run_workload;
use crate::world::World;
use dm_core::index::forward::{Forwarder, ROOM_BYTES};
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::marks::MARKS_MAX;
use dm_core::operation::span::Span;
use dm_core::operation::{Cause, OpError};
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::catalog::IndexNumber;
use dm_core::verbs::LaneId;
use std::cell::Cell;

/// Options that are met by every history that draws them. The others are met when they happen.
const MET_IF_DRAWN: WideOptions = WideOptions::ALL
    .without(WideOption::ScanNothing)
    .without(WideOption::ScanOverPage)
    .without(WideOption::ScanInverted)
    .without(WideOption::ScanPastEnd)
    .without(WideOption::ScansDown)
    .without(WideOption::LastScan)
    .without(WideOption::ShortLeases)
    .without(WideOption::LeaseClocks)
    .without(WideOption::Sweeps)
    .without(WideOption::SmallPool)
    .without(WideOption::Moves)
    .without(WideOption::Forward)
    .without(WideOption::Packs)
    .without(WideOption::Rejoin);

pub(super) fn empty_history(findings: Vec<Finding>) -> History {
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
        marks: vec![0; MARKS_MAX],
        met: [0; WIDE_OPTIONS],
    }
}

/// Everything set up for one history.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) draw: &'a Draw,
    /// Bytes of memory nodes change while the load runs.
    pub(super) damage: bool,
    pub(super) coding: Coding,
    pub(super) config: &'a Config,
    pub(super) subject: &'a dyn Prepared,
    pub(super) operations: u32,
}

/// A history whose load runs.
struct Playing<'a, 'm> {
    setup: Setup<'a>,
    lanes: &'a [&'a [Lane<'m>]],
    driver: Driver<'a, 'm, Ended>,
    load: Load<'a, 'm>,
}

/// A history whose load has ended, when all is quiet.
pub(super) struct Stage<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) opened: Vec<&'a dyn Opened>,
    pub(super) world: &'a mut World,
    pub(super) findings: Vec<Finding>,
    /// An operation ended because no memory node had a chunk left.
    pub(super) was_full: bool,
}

impl Setup<'_> {
    /// Plays the history with the indexes of the compute nodes that have joined before it.
    pub(super) fn play(
        self,
        (opened, scratch): (&[&dyn Opened], &mut Vec<Vec<u8>>),
        world: &mut World,
        drivers: DriverConfig,
    ) -> History {
        let mut bytes = opened.iter().map(|index| index.plan().total_bytes).max().unwrap_or(0);
        // Messages lie behind all that the index uses.
        let messages = Span::new(bytes.next_multiple_of(LINE_BYTES), ROOM_BYTES);
        if self.draw.wide.has(WideOption::Forward) {
            bytes = messages.end();
        }
        if !self.draw.later_lanes.is_empty() {
            // Joins need some, too.
            bytes = bytes.max(SCRATCH_BYTES);
        }
        scratch.resize_with(scratch.len().max(self.draw.lane_count()), Vec::new);
        let mut rest = scratch.iter_mut();
        let mut lane = |number| {
            let scratch = rest.next()?;
            scratch.clear();
            scratch.resize(bytes, 0);
            Some(Lane::new(LaneId(number), scratch))
        };
        let node = |count: u16| (0..count).filter_map(&mut lane).collect();
        let lanes: Vec<Vec<Lane<'_>>> = self.draw.all_lanes().into_iter().map(node).collect();
        // Most leases of histories are not told the time: see the kinds' rare marks.
        clocks::begin();
        lanes.iter().flatten().for_each(|lane| lane.port().set_clock(Some(clocks::now_us)));
        let lanes: Vec<&[Lane<'_>]> = lanes.iter().map(Vec::as_slice).collect();
        let mut record = check::History::new();
        record.has_owners = opened[0].has_owners();
        record.outlives_callers = self.draw.wide.has(WideOption::Forward);
        if let Err(why) = self.fill(opened, &lanes, world, &mut record) {
            return empty_history(vec![Finding::Setup(why)]);
        }

        let claimed = Cell::default();
        let newcomers = Newcomers::new(&claimed);
        let mut load = Load::new(self.draw, self.subject, opened, (&lanes, newcomers), record, self.operations);
        if self.draw.wide.has(WideOption::Forward) {
            lanes.iter().copied().flatten().for_each(|lane| lane.set_message_room(Some(messages)));
        }
        let forwards = IndexNumber::new(0).filter(|_| self.draw.wide.has(WideOption::Forward));
        load.forwarder = forwards.map(|index| Forwarder { index, room: messages });
        load.damage = self.damage.then(|| Damage::new(self.draw.seed));
        load.clocks = self.clocks(opened, 0);
        let driver = Driver::new(world, &lanes, drivers);
        Playing { setup: self, lanes: &lanes, driver, load }.play()
    }

    /// The clocks of compute nodes, if they tick: they show `now_ns`.
    pub(super) fn clocks<'i>(&self, opened: &[&'i dyn Opened], now_ns: u64) -> Option<Clocks<'i>> {
        let silent = self.draw.wide.has(WideOption::LeaseClocks);
        let owners = opened.iter().any(|index| index.has_owners() && index.lease().is_some());
        // A sweep that began before a newcomer took the row must see that the newcomer lives.
        let rejoins = self.draw.wide.has(WideOption::Rejoin);
        (silent || owners || rejoins).then(|| Clocks::new(self.draw.seed, opened, self.subject.rows(), silent, now_ns))
    }

    /// Inserts the first records, one operation at a time and without delays.
    fn fill(
        &self,
        opened: &[&dyn Opened],
        lanes: &[&[Lane<'_>]],
        world: &mut World,
        record: &mut check::History,
    ) -> Result<(), String> {
        let Draw { filling, filled_percent, keys, seed, .. } = *self.draw;
        let filling = if filling == Filling::Bulk && !self.subject.bulk_loads() { Filling::Inserts } else { filling };
        if filling == Filling::Empty {
            return Ok(());
        }
        let coding = self.coding;
        let mut rng = Rng::new(seed ^ 0x5eed_0004);
        let mut fabric = DirectFabric::over(self.config, world.memories_mut());
        let used_up = self.config.rows_used_up;
        let mut any = false;
        for key in 0..u64::from(keys) {
            if !rng.percent(filled_percent) {
                continue;
            }
            any = true;
            // Steps of one operation may need keys of several compute nodes, which cannot call each other yet.
            let owned = filling == Filling::Inserts && opened[0].has_owners() && !opened[0].forwards_steps();
            let mut node = if owned { self.draw.home_of(key as u32) } else { 0 };
            let value = VALUE_FIRST + key;
            record.start_with(key, value);
            if filling == Filling::Inserts {
                loop {
                    let (index, lane) = (opened[node], &lanes[node][0]);
                    let future = start(index, lane, coding, key, Call::Insert { value }, 0);
                    match block_on(lane, &mut fabric, future).map(|run| run.result) {
                        Ok(Ended::Point(Answer::Inserted)) => break,
                        // Its entry has a key of another compute node, too, which was faster.
                        Ok(Ended::Failed(OpError { cause: Cause::NotOwner { row, .. }, .. }))
                            if row.0 > used_up && usize::from(row.0 - used_up) != node + 1 =>
                        {
                            node = usize::from(row.0 - used_up) - 1;
                        }
                        other => return Err(format!("insert of key {key}: {other:?}")),
                    }
                }
            } else {
                let (index, lane) = (opened[node], &lanes[node][0]);
                let future = start(index, lane, coding, key, Call::Insert { value }, 0);

                drop(future);
                let run = block_on(lane, &mut fabric, index.bulk_append(lane));
                run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk append: {error}"))?;
            }
        }
        if self.subject.loses_with_owners() {
            // What a history begins with is in the pool.
            for (index, lanes) in opened.iter().zip(lanes) {
                let run = block_on(&lanes[0], &mut fabric, index.validate(&lanes[0]));
                run.map_err(|error| error.to_string())?.result.map_err(|error| format!("flushing: {error}"))?;
            }
        }
        if filling == Filling::Bulk && any {
            let (index, lane) = (opened[0], &lanes[0][0]);
            let run = block_on(lane, &mut fabric, index.bulk_finish(lane));
            run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk finish: {error}"))?;
        }
        Ok(())
    }
}

impl Playing<'_, '_> {
    /// Runs the load to its end. When a compute node has joined, it opens the index, and the rest of the history is played
    /// within the call that opens it, since the index's storage is on the stack.
    fn play(mut self) -> History {
        let end = run_workload(&mut self.driver, &mut self.load);
        let Some(membership) = self.load.newcomers.joined.take() else { return self.end(end) };
        let (setup, number) = (self.setup, self.load.opened.len());
        let (mut playing, mut history) = (Some(self), None);
        let opened = setup.subject.open_later(number, &membership, &mut |index| {
            history = playing.take().map(|mut playing: Playing<'_, '_>| {
                playing.load.begin(index, membership.member, playing.driver.now_ns());
                playing.play()
            });
        });
        history.unwrap_or_else(|| empty_history(vec![Finding::Setup(format!("opened later: {:?}", opened.err()))]))
    }

    /// The load has ended.
    fn end(self, end: Result<(), Stuck>) -> History {
        let Self { setup, lanes, mut driver, mut load } = self;
        load.finish(&mut driver);
        if setup.draw.wide.fences_the_living()
            && let Some(state) = setup.subject.pool_state(driver.world().memories(), load.injected.down)
        {
            // The lane that fenced them may have been dropped before a memory node was asked.
            let over: Vec<_> = state.not_live.into_iter().filter_map(|row| driver.world().tenant(row)).collect();
            for compute_node in over {
                load.end(&mut driver, compute_node);
            }
        }
        if let Some(clocks) = &load.clocks {
            clocks.finish(driver.now_ns(), &load.injected.dead);
        }
        let (steps, now_ns) = (driver.steps(), driver.now_ns());
        let Load { opened, history: mut record, failed, kept_locks, injected, met, wronged, newcomers, .. } = load;
        let was_full = failed.iter().any(|failed| failed.error.cause == Cause::PoolFull);
        let mut stage = Stage { setup, opened, world: driver.into_world(), findings: Vec::new(), was_full };
        let wronged =
            wronged.into_iter().map(|node| format!("compute node {} was fenced, and its heartbeats came", node.0));
        stage.findings.extend(wronged.filter(|_| !setup.damage).map(Finding::Structure));
        stage.findings.extend(kept_locks.into_iter().filter(|_| !setup.damage).map(Finding::InDoubt));
        let has_room = !setup.draw.wide.fences_the_living() && !setup.draw.wide.has(WideOption::SmallPool);
        if has_room && !setup.damage && injected.down.is_none() {
            stage.findings.extend(newcomers.refused.into_iter().map(Finding::Structure));
        }

        if setup.subject.loses_with_owners() {
            record.losers.clone_from(&injected.dead);
        }
        let mut history = empty_history(Vec::new());
        history.steps = steps;
        history.operations = record.operations().len() as u64;
        history.injected = injected;
        history.met = met;
        for option in setup.draw.wide.of_both(MET_IF_DRAWN).options() {
            history.met[option as usize] += 1;
        }
        history.record = record;
        history.met[WideOption::SmallPool as usize] +=
            u64::from(setup.draw.wide.has(WideOption::SmallPool) && was_full);
        for failed in failed {
            if setup.damage || failed.is_tolerable(&history.injected, stage.excuses()) {
                history.failed.push(summary(&failed.error));
            } else {
                let line = failed.operation.map(|operation| history.record.line(operation));
                stage.findings.push(Finding::Failed { line, failed });
            }
        }
        if let Some(misuse) = stage.world.misuses().first() {
            stage.findings.push(Finding::Misuse(format!("{misuse:?}")));
        }
        match end {
            Err(stuck) => stage.findings.push(Finding::Stuck(stuck.to_string())),
            Ok(()) if setup.damage => stage.after_damage(lanes, &mut history),
            Ok(()) => stage.afterwards(lanes, &mut history, now_ns),
        }
        for lane in lanes.iter().copied().flatten() {
            for mark in dm_core::rooms::MARKS {
                history.marks[mark.number()] += u64::from(lane.marked(*mark));
            }
        }
        history.findings = stage.findings;
        history
    }
}

impl Stage<'_> {
    /// What this history excuses.
    pub(super) fn excuses(&self) -> Excuses {
        let forwards = self.setup.draw.wide.has(WideOption::Forward);
        Excuses {
            after_death: self.setup.subject.after_death(),
            deadline_ns: self.setup.draw.deadline_ns,
            is_short: self.opened.iter().any(|index| index.capacity() < u64::from(self.setup.draw.keys)),
            fences_itself: self.setup.draw.wide.has(WideOption::LeaseClocks),
            forwards,
        }
    }
}

/// An operation on a key of another compute node fails and changes nothing.
const NOT_OWNED: &str = "the key belongs to another compute node, or to nobody";

/// Whether no operation failed that may have left anything.
pub(super) fn nothing_failed(history: &History) -> bool {
    history.failed.iter().all(|why| why == NOT_OWNED)
}

/// A failure, without the details in which two failures of one cause differ.
pub(super) fn summary(error: &OpError) -> String {
    match error.cause {
        Cause::Verb(error) => error.status.name().to_owned(),
        Cause::Deadline { .. } => "deadline passed".to_owned(),
        Cause::NotOwner { .. } => NOT_OWNED.to_owned(),
        Cause::Retries { what, .. } => format!("gave up at {what}"),
        Cause::Corrupt { what, .. } => format!("corrupt: {what}"),
        cause => cause.to_string(),
    }
}
