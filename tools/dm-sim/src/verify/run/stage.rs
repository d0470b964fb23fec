//! One history: fills the index, runs the load under faults, and judges which failures the faults excuse.

use crate::check::{self, Answer, Call};
use crate::config::{Config, Delays};
use crate::direct::DirectFabric;
use crate::driver::{Driver, DriverConfig};
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use crate::verify::accounting::Holdings;
use crate::verify::clocks::{self, Clocks};
use crate::verify::coding::Coding;
use crate::verify::damage::Damage;
use crate::verify::draw::{Draw, Filling};
use crate::verify::faults::InjectedFaults;
use crate::verify::load::{Ended, Load, VALUE_FIRST, start};
use crate::verify::report::{Finding, History};
use crate::verify::subject::{AfterDeath, HeldLock, InnerNodeImages, Opened, PoolState};
use crate::verify::tolerance::{Circumstances, Excuses};
use crate::verify::wide::{WIDE_OPTIONS, WideOption, WideOptions};
use crate::workload::run_workload;
use crate::world::World;
use dm_core::lane::Lane;
use dm_core::marks::MARKS_MAX;
use dm_core::operation::{Cause, OpError};
use dm_core::verbs::{LaneId, NodeId};

/// Options that are met by every history that draws them. The others are met when they happen.
const MET_IF_DRAWN: WideOptions = WideOptions::ALL
    .without(WideOption::ScanNothing)
    .without(WideOption::ScanOverPage)
    .without(WideOption::ScanInverted)
    .without(WideOption::ScanPastEnd)
    .without(WideOption::LastScan)
    .without(WideOption::ShortLeases)
    .without(WideOption::LeaseClocks)
    .without(WideOption::Sweeps)
    .without(WideOption::SmallPool);

/// Of an insert of the items over an index, which has thirty requests, so many were long, once in some thousand histories.
const SLOW_REQUESTS: u64 = 6;

/// Requests of a large operation.
const REQUESTS_MANY: u64 = 40;

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
pub(super) struct Stage<'a> {
    pub(super) draw: &'a Draw,
    /// Where the rows are whose heartbeats come.
    pub(super) rows: &'a [u64],
    /// Bytes of memory nodes change while the load runs.
    pub(super) damage: bool,
    pub(super) coding: Coding,
    pub(super) config: &'a Config,
    pub(super) world: &'a mut World,
    pub(super) opened: &'a [&'a dyn Opened],
    pub(super) operations: u32,
    pub(super) remote_locks_held: &'a dyn Fn(&Memories) -> Vec<HeldLock>,
    pub(super) take_images: &'a dyn Fn(&Memories) -> InnerNodeImages,
    pub(super) holdings: &'a dyn Fn(&Memories) -> Option<Result<Holdings, String>>,
    pub(super) pool_state: &'a dyn Fn(&Memories, Option<NodeId>) -> Option<PoolState>,
    pub(super) loses_with_owners: bool,
    pub(super) never_leaks: bool,
    pub(super) holds_all_blocks: bool,
    pub(super) collects_all: bool,
    pub(super) bulk_loads: bool,
    pub(super) after_death: AfterDeath,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Stage<'a> {
    pub(super) fn play(&mut self, scratch: &mut Vec<Vec<u8>>, drivers: DriverConfig) -> History {
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
        // Most leases of histories are not told the time: see the kinds' rare marks.
        clocks::begin();
        lanes.iter().flatten().for_each(|lane| lane.port().set_clock(Some(clocks::now_us)));
        let lanes: Vec<&[Lane<'_>]> = lanes.iter().map(Vec::as_slice).collect();
        let mut record = check::History::new();
        record.has_owners = self.opened[0].has_owners();
        if let Err(why) = self.fill(&lanes, &mut record) {
            return empty_history(vec![Finding::Setup(why)]);
        }

        let mut load = Load::new(self.draw, self.opened, &lanes, self.take_images, record, self.operations);
        load.coding = self.coding;
        load.damage = self.damage.then(|| Damage::new(self.draw.seed));
        load.recovered = self.after_death == AfterDeath::Recovered;
        let (locks_held, pool_state) = (self.remote_locks_held, self.pool_state);
        let look =
            |memories: &Memories, injected: &InjectedFaults| circumstances(memories, injected, locks_held, pool_state);
        load.look = Some(&look);
        load.clocks = self.clocks(0);
        let mut driver = Driver::new(self.world, &lanes, drivers);
        let end = run_workload(&mut driver, &mut load);
        load.finish(&mut driver);
        if self.draw.wide.fences_the_living()
            && let Some(state) = (self.pool_state)(driver.world().memories(), load.injected.down)
        {
            // The lane that fenced them may have been dropped before a memory node was asked.
            state.not_live.into_iter().for_each(|compute_node| load.end(&mut driver, compute_node));
        }
        if let Some(clocks) = &load.clocks {
            clocks.finish(driver.now_ns(), &load.injected.dead);
        }
        let (steps, now_ns) = (driver.steps(), driver.now_ns());
        drop(driver);
        let Load { history: mut record, failed, injected, met, wronged, .. } = load;
        let wronged =
            wronged.into_iter().map(|node| format!("compute node {} was fenced, and its heartbeats came", node.0));
        self.findings.extend(wronged.filter(|_| !self.damage).map(Finding::Structure));

        if self.loses_with_owners {
            record.losers.clone_from(&injected.dead);
        }
        let mut history = empty_history(Vec::new());
        history.steps = steps;
        history.operations = record.operations().len() as u64;
        history.injected = injected;
        history.met = met;
        for option in self.draw.wide.of_both(MET_IF_DRAWN).options() {
            history.met[option as usize] += 1;
        }
        history.record = record;
        let pool_was_full = failed.iter().any(|failed| failed.error.cause == Cause::PoolFull);
        history.met[WideOption::SmallPool as usize] +=
            u64::from(self.draw.wide.has(WideOption::SmallPool) && pool_was_full);
        for failed in failed {
            if self.damage || failed.is_tolerable(&history.injected, self.excuses()) {
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
            Ok(()) if self.damage => self.after_damage(&lanes, &mut history),
            Ok(()) => self.afterwards(&lanes, &mut history, now_ns),
        }
        for lane in lanes.iter().copied().flatten() {
            for mark in dm_core::rooms::MARKS {
                history.marks[mark.number()] += u64::from(lane.marked(*mark));
            }
        }
        history.findings = std::mem::take(&mut self.findings);
        history
    }

    /// The clocks of compute nodes, if they tick: they show `now_ns`.
    pub(super) fn clocks(&self, now_ns: u64) -> Option<Clocks<'a>> {
        let silent = self.draw.wide.has(WideOption::LeaseClocks);
        let owners = self.opened.iter().any(|index| index.has_owners() && index.lease().is_some());
        (silent || owners).then(|| Clocks::new(self.draw.seed, self.opened, self.rows, silent, now_ns))
    }

    /// What this history excuses.
    pub(super) fn excuses(&self) -> Excuses {
        Excuses {
            after_death: self.after_death,
            deadline_ns: self.draw.deadline_ns,
            has_slow_requests: self.draw.deadline_ns <= slow_ns(&self.draw.fabric.delays),
            is_short: self.opened.iter().any(|index| index.capacity() < u64::from(self.draw.keys)),
            frees_chunks: self.draw.wide.has_any(&[WideOption::Sweeps, WideOption::SmallPool]),
            fences_itself: self.draw.wide.has(WideOption::LeaseClocks),
            has_epochs: self.opened.iter().any(|index| index.has_epochs()),
        }
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
        let mut any = false;
        for key in 0..u64::from(keys) {
            if !rng.percent(filled_percent) {
                continue;
            }
            any = true;
            let owned = filling == Filling::Inserts && self.opened[0].has_owners();
            let mut node = if owned { self.draw.home_of(key as u32) } else { 0 };
            let value = VALUE_FIRST + key;
            record.start_with(key, value);
            if filling == Filling::Inserts {
                loop {
                    let (index, lane) = (self.opened[node], &lanes[node][0]);
                    let future = start(index, lane, coding, key, Call::Insert { value }, 0);
                    match block_on(lane, &mut fabric, future).map(|run| run.result) {
                        Ok(Ended::Point(Answer::Inserted)) => break,
                        // Its entry has a key of another compute node, too, which was faster.
                        Ok(Ended::Failed(OpError { cause: Cause::NotOwner { row, .. }, .. }))
                            if usize::from(row.0) != node + 1 && row.0 != 0 =>
                        {
                            node = usize::from(row.0) - 1;
                        }
                        other => return Err(format!("insert of key {key}: {other:?}")),
                    }
                }
            } else {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                let future = start(index, lane, coding, key, Call::Insert { value }, 0);

                drop(future);
                let run = block_on(lane, &mut fabric, index.bulk_append(lane));
                run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk append: {error}"))?;
            }
        }
        if self.loses_with_owners {
            // What a history begins with is in the pool.
            for (index, lanes) in self.opened.iter().zip(lanes) {
                let run = block_on(&lanes[0], &mut fabric, index.validate(&lanes[0]));
                run.map_err(|error| error.to_string())?.result.map_err(|error| format!("flushing: {error}"))?;
            }
        }
        if filling == Filling::Bulk && any {
            let (index, lane) = (self.opened[0], &lanes[0][0]);
            let run = block_on(lane, &mut fabric, index.bulk_finish(lane));
            run.map_err(|error| error.to_string())?.result.map_err(|error| format!("bulk finish: {error}"))?;
        }
        Ok(())
    }
}

/// A time that an operation may need for its requests alone: some of the longest, or as many long ones as there are on
/// average among the requests of a large operation.
fn slow_ns(delays: &Delays) -> u64 {
    let longest_ns = u64::from(delays.long_ns.1);
    (SLOW_REQUESTS * longest_ns).max(longest_ns * REQUESTS_MANY * u64::from(delays.long_per_1024) / 1024)
}

/// What the memories are like, after these faults.
pub(super) fn circumstances(
    memories: &Memories,
    injected: &InjectedFaults,
    locks_held: &dyn Fn(&Memories) -> Vec<HeldLock>,
    pool_state: &dyn Fn(&Memories, Option<NodeId>) -> Option<PoolState>,
) -> Circumstances {
    let of_the_dead = |lock: &HeldLock| injected.dead.iter().any(|dead| dead.0 == lock.compute_node);
    Circumstances {
        has_chunks: pool_state(memories, injected.down).is_some_and(|state| state.free_chunks > 0),
        went_on: false,
        ran_out: false,
        dead_hold: !injected.dead.is_empty() && locks_held(memories).iter().any(of_the_dead),
    }
}

/// A failure, without the details in which two failures of one cause differ.
pub(super) fn summary(error: &OpError) -> String {
    match error.cause {
        Cause::Verb(error) => error.status.name().to_owned(),
        Cause::Deadline { .. } => "deadline passed".to_owned(),
        Cause::Retries { what, .. } => format!("gave up at {what}"),
        Cause::Corrupt { what, .. } => format!("corrupt: {what}"),
        cause => cause.to_string(),
    }
}
