//! A repair that comes late: a lane has READ the word of a leaf, in which a dead compute node's field is set, and its
//! CAS is under way. Meanwhile the row is swept and freed, another compute node joins in this row, and so in this seat,
//! and enters the leaf. The word looks as it did before.
//!
//! The newcomer has to wait for a turn of the epochs, which the repairer's pin holds back.

use crate::check::{Answer, Call};
use crate::driver::Op;
use crate::verify::crash::cases::{Case, CrashSetup, CutOperation, Scenario, evens};
use crate::verify::crash::serial_fabric::Drive;
use crate::verify::crash::stage::{BEFORE, LEASE_NS, Ran, SURVIVOR, Stage, VICTIM, with_stage};
use crate::verify::load::{Ended, start};
use dm_core::dolphin::parameters::Parameters;
use dm_core::lane::Lane;
use dm_core::operation::{Cause, Effect, OperationKind};
use dm_core::remote::catalog::IndexSet;
use dm_core::verbs::{Label, Request};

/// The record of all operations.
const KEY: u64 = 4;

/// What the newcomer writes.
const NEWCOMER: u64 = 4000;

/// Who dies, who repairs, and who sweeps.
const DEAD: usize = 0;
const REPAIRER: usize = 1;
const SWEEPER: usize = 2;

/// Turns of all compute nodes after which the newcomer may write.
const TURNS_MAX: usize = 16;

/// Plays the scenario. The error says what went otherwise.
pub(super) fn clears_nothing_of_others() -> Result<(), String> {
    let operation = CutOperation::Point(OperationKind::Update, KEY);
    let scenario = Scenario { name: "a repair that comes late", inserted: evens(4), deleted: Vec::new(), operation };
    let parameters = Parameters::with_sizes(8, 8).into();
    let case = Case { name: scenario.name.to_owned(), parameters, setup: CrashSetup::default(), scenario };
    let mut ran = Ran::default();
    with_stage(&case, 1, &mut ran, &mut play);
    match ran.findings.first() {
        None => Ok(()),
        Some(what) => Err(format!("{}: {what}", case.name)),
    }
}

fn play(stage: &mut Stage<'_, '_>) -> Result<(), String> {
    stage.begin()?;
    let (coding, opened, lanes) = (stage.case.coding(), stage.opened, stage.lanes);
    let [row, repairers, sweepers] = [DEAD, REPAIRER, SWEEPER].map(|number| stage.members[number].row);
    let mut cut = start(opened[DEAD], &lanes[DEAD], coding, KEY, Call::Update { value: VICTIM }, 0);
    let unlocks = |request: &Request| request.label == Label::Unlock;
    match advance(stage, row.0, &lanes[DEAD], &mut cut, unlocks)? {
        Drive::Stopped => stage.dead.push(DEAD),
        other => return Err(format!("an update that does not leave: {other:?}")),
    }
    let call = Call::UpdateIf { expected: BEFORE + KEY, value: SURVIVOR };
    let mut repair = start(opened[REPAIRER], &lanes[REPAIRER], coding, KEY, call, 0);
    match advance(stage, repairers.0, &lanes[REPAIRER], &mut repair, |request| request.label == Label::Takeover)? {
        Drive::Stopped => {}
        other => return Err(format!("an update that clears no field: {other:?}")),
    }
    let sweep = opened[SWEEPER].sweep(&lanes[SWEEPER], row, IndexSet::default());
    match stage.fabric.drive(sweepers.0, &lanes[SWEEPER], sweep, None, &mut Vec::new())? {
        Drive::Done(Ok(swept)) if swept.row_free => {}
        other => return Err(format!("a sweep while a repair is under way: {other:?}")),
    }
    stage.join_later(&mut |stage, member, newcomer, lane| {
        if member.row != row {
            return Err(format!("the newcomer has row {}", member.row.0));
        }
        let update = |wait_ns| start(newcomer, lane, coding, KEY, Call::Update { value: NEWCOMER }, wait_ns);
        let mut early = update(4 * LEASE_NS);
        let stopped = advance(stage, row.0, lane, &mut early, unlocks)?;
        match stage.fabric.advance(repairers.0, &lanes[REPAIRER], repair.as_mut(), None, None, &mut Vec::new())? {
            Drive::Done(ended) => stage.check(KEY, call, &ended)?,
            other => return Err(format!("the late repairer: {other:?}")),
        }
        match stopped {
            Drive::Done(Ended::Failed(error))
                if matches!(error.cause, Cause::Deadline { .. }) && error.effect == Effect::None => {}
            // It has not waited. Whether that does harm, say the fabric, which judges takeovers, and the model.
            Drive::Stopped => {
                let ended = stage.fabric.advance(row.0, lane, early.as_mut(), None, None, &mut Vec::new())?;
                let Drive::Done(ended) = ended else { return Err(format!("the newcomer: {ended:?}")) };
                stage.check(KEY, Call::Update { value: NEWCOMER }, &ended)?;
                return stage.expect(SWEEPER, KEY, Call::Get);
            }
            other => return Err(format!("the newcomer's first update: {other:?}")),
        }
        for _ in 0..TURNS_MAX {
            for number in [REPAIRER, SWEEPER] {
                let turn = opened[number].turn(&lanes[number]);
                let (row, lane) = (stage.members[number].row.0, &lanes[number]);
                match stage.fabric.drive(row, lane, turn, None, &mut Vec::new())? {
                    Drive::Done(Ok(())) => {}
                    other => return Err(format!("a turn: {other:?}")),
                }
            }
            match stage.fabric.drive(row.0, lane, update(LEASE_NS), None, &mut Vec::new())? {
                Drive::Done(ended @ Ended::Point(Answer::Updated)) => {
                    stage.check(KEY, Call::Update { value: NEWCOMER }, &ended)?;
                    return stage.expect(SWEEPER, KEY, Call::Get);
                }
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Deadline { .. }) => {}
                other => return Err(format!("the newcomer's update: {other:?}")),
            }
        }
        Err(format!("a newcomer that waits for more than {TURNS_MAX} turns"))
    })
}

/// Advances an operation to its end, or to the point before a submit with such a request.
fn advance(
    stage: &mut Stage<'_, '_>,
    row: u16,
    lane: &Lane<'_>,
    operation: &mut Op<'_, Ended>,
    here: fn(&Request) -> bool,
) -> Result<Drive<Ended>, String> {
    let mut seen = Vec::new();
    lane.port().start();
    let mut submits = 0;
    loop {
        match stage.fabric.advance(row, lane, operation.as_mut(), None, Some(submits), &mut seen)? {
            Drive::Stopped if lane.port().requests().iter().any(here) => return Ok(Drive::Stopped),
            Drive::Stopped => submits += 1,
            ended => return Ok(ended),
        }
    }
}
