//! A repairer pauses between its takeover and its replay, while the dead compute node's row is swept and its memory is collected.
//!
//! The victim dies in a split: the new leaf has landed, and the WRITE that links it has not. A survivor takes the lock of the
//! old leaf over and pauses before it replays that WRITE. No lock names the victim any more, so a sweep frees its row. The
//! collector finds the new leaf, whose writer has departed and to which nothing leads. It must not collect the leaf before the
//! repairer has released the lock: the replay links the leaf.

use super::cases::{Case, CutOperation};
use super::serial_fabric::{CrashPoint, Drive, crash_points};
use super::stage::{LEASE_NS, Mode, Ran, SURVIVOR, Stage, probe, with_stage};
use crate::check::Call;
use crate::verify::load::start;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Effect, OpError, OperationKind};
use dm_core::remote::catalog::IndexSet;
use dm_core::verbs::{Label, Verb};

/// The repairer, and the compute node that sweeps and collects.
const REPAIRER: usize = 1;
const COLLECTOR: usize = 2;

/// Submits after which the collector pauses: more than a collection takes that waits for no lock.
const COLLECTORS_SUBMITS: usize = 1000;

/// Runs `case` with every crash point of its operation, if that is an insert that splits a leaf. Returns how often the sweep freed the row
/// while the repairer paused.
pub fn collection_beside_a_paused_repairer(case: &Case) -> Result<u32, String> {
    let CutOperation::Point(OperationKind::Insert, key) = case.scenario.operation else { return Ok(0) };
    let probe = probe(case);
    if !probe.did(Mark::LEAF_SPLIT) {
        return Ok(0);
    }
    let mut met = 0;
    for crash_point in crash_points(probe.submits(), case.setup.ascending) {
        let mut ran = Ran::default();
        with_stage(case, 1, &mut ran, &mut |stage| {
            met += u32::from(stage.collect_beside_a_paused_repairer(key, &crash_point)?);
            Ok(())
        });
        if let Some(what) = ran.findings.first() {
            return Err(format!("{}: a repairer pauses, {crash_point:?}: {what}", case.name));
        }
    }
    Ok(met)
}

impl Stage<'_, '_> {
    /// Returns `false` if nothing has to be replayed.
    fn collect_beside_a_paused_repairer(&mut self, key: u64, crash_point: &CrashPoint) -> Result<bool, String> {
        // Owners change leaves without a lock.
        if self.opened[0].has_owners() {
            return Ok(false);
        }
        self.begin()?;
        if !self.run_victim(Some(crash_point))? {
            return Ok(false);
        }
        self.dead.push(0);
        let (index, lane, row) = (self.opened[REPAIRER], &self.lanes[REPAIRER], self.members[REPAIRER].row);
        let call = Call::Upsert { value: SURVIVOR };
        let mut repair = start(index, lane, self.case.coding(), key, call, 0);
        let mut seen = Vec::new();
        lane.port().start();
        for submit in 0.. {
            match self.fabric.advance(row.0, lane, repair.as_mut(), None, Some(submit), &mut seen)? {
                Drive::Stopped if replays(lane) => break,
                Drive::Stopped => {}
                // Nothing was to be replayed.
                Drive::Done(ended) => {
                    self.check(key, call, &ended)?;
                    return Ok(false);
                }
                Drive::Died => return Err("a death without a crash point".to_owned()),
            }
        }
        // The repairer lives.
        self.fabric.beating = vec![self.geometry[0].row_offset(row) + 8];
        self.fabric.beat_ns = LEASE_NS / 8;
        let (collecting, collector, others) =
            (self.opened[COLLECTOR], &self.lanes[COLLECTOR], self.members[COLLECTOR].row.0);
        let sweep = collecting.sweep(collector, self.members[0].row, IndexSet::default());
        let freed = match self.fabric.drive(others, collector, sweep, None, &mut Vec::new())? {
            Drive::Done(Ok(swept)) => swept.row_free,
            // Where locks lie in leaves, a sweep waits for the repairer, and gives up.
            Drive::Done(Err(error)) if gives_up(&error) => false,
            other => return Err(format!("the sweep: {other:?}")),
        };
        self.settle(COLLECTOR)?;
        let mut collection = collecting.collect_orphans(collector);
        let mut requests = Vec::new();
        collector.port().start();
        let stop = Some(COLLECTORS_SUBMITS);
        let early = self.fabric.advance(others, collector, collection.as_mut(), None, stop, &mut requests)?;
        match self.fabric.advance(row.0, lane, repair.as_mut(), None, None, &mut seen)? {
            Drive::Done(ended) => self.check(key, call, &ended)?,
            other => return Err(format!("the repairer: {other:?}")),
        }
        let ended = match early {
            Drive::Stopped => self.fabric.advance(others, collector, collection.as_mut(), None, None, &mut requests)?,
            early => early,
        };
        match ended {
            Drive::Done(Ok(_)) => {}
            // It waits for the repairer's lock, and gives up: the next collection continues.
            Drive::Done(Err(error)) if gives_up(&error) => {}
            other => return Err(format!("the collection: {other:?}")),
        }
        drop((repair, collection));
        self.settle(COLLECTOR)?;
        self.fabric.beating.clear();
        self.go_on(COLLECTOR, Mode::Write)?;
        Ok(freed)
    }

    /// Settles what a compute node's operation has left.
    fn settle(&mut self, number: usize) -> Result<(), String> {
        let (index, lane) = (self.opened[number], &self.lanes[number]);
        if !lane.in_doubt() {
            return Ok(());
        }
        match self.fabric.drive(self.members[number].row.0, lane, index.settle(lane), None, &mut Vec::new())? {
            Drive::Done(Ok(())) => Ok(()),
            other => Err(format!("settling: {other:?}")),
        }
    }
}

/// Whether it waited for a holder that does not respond, and gave up.
fn gives_up(error: &OpError) -> bool {
    error.effect == Effect::None && matches!(error.cause, Cause::Retries { .. })
}

/// Whether the next submit of a lane replays a WRITE.
fn replays(lane: &Lane<'_>) -> bool {
    lane.port().requests().iter().any(|request| request.label == Label::Replay && request.verb == Verb::Write)
}
