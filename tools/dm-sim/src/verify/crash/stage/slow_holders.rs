//! Holders of locks that are slow: stopped for a while, or late with their lease.

use super::{BEFORE, LEASE_NS, Ran, SURVIVOR, Stage, VICTIM, with_stage};
use crate::check::Call;
use crate::verify::crash::cases::Case;
use crate::verify::crash::serial_fabric::Drive;
use crate::verify::load::{Ended, start};
use crate::verify::membership::Membership;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::LeaseConfig;
use dm_core::operation::{Cause, Effect};
use dm_core::remote::row::{Joiner, LEASE_NS_MAX, Row};
use dm_core::verbs::{Label, LaneId, NodeId, Verb};

/// Tests holders that are slow. A slow holder that is alive is not fenced, nor is one whose row announces a longer
/// lease. A holder whose own clock says that its lease is over writes nothing. A fenced holder learns it, and can join
/// again. The error says what went otherwise.
pub fn descheduled_holders(case: &Case) -> Result<(), String> {
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| {
        stage.slow_holder()?;
        stage.patient_holder()?;
        stage.late_holder()?;
        stage.stopped_holder()
    });
    match ran.findings.first() {
        None => Ok(()),
        Some(what) => Err(format!("{}: {what}", case.name)),
    }
}

impl Stage<'_, '_> {
    /// What the slow holder does: an update that no kind lets others write beside.
    fn holders_call(&self) -> Call {
        Call::UpdateIf { expected: self.known.get(&4).copied().unwrap_or_default(), value: VICTIM }
    }

    /// Pauses compute node 0 while it holds a lock, before the submit that unlocks, and runs `meanwhile`. Then compute
    /// node 0 continues, and its answer is returned.
    fn stop(&mut self, meanwhile: impl FnMut(&mut Self) -> Result<(), String>) -> Result<Ended, String> {
        let unlocks = |lane: &Lane<'_>| lane.port().requests().iter().any(|request| request.label == Label::Unlock);
        self.stop_where(unlocks, meanwhile)
    }

    /// The same, but pauses where `here` says so of the lane before a submit.
    fn stop_where(
        &mut self,
        here: impl Fn(&Lane<'_>) -> bool,
        mut meanwhile: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<Ended, String> {
        let (index, lane) = (self.opened[0], &self.lanes[0]);
        let row = self.members[0].row.0;
        let mut future = start(index, lane, self.case.coding(), 4, self.holders_call(), 0);
        let mut seen = Vec::new();
        lane.port().start();
        for submit in 0.. {
            match self.fabric.advance(row, lane, future.as_mut(), None, Some(submit), &mut seen)? {
                Drive::Stopped => {}
                other => return Err(format!("an update that takes no lock: {other:?}")),
            }
            if here(lane) {
                break;
            }
        }
        meanwhile(self)?;
        match self.fabric.advance(row, lane, future.as_mut(), None, None, &mut seen)? {
            Drive::Done(ended) => Ok(ended),
            other => Err(format!("the stopped update: {other:?}")),
        }
    }

    fn fill(&mut self) -> Result<(), String> {
        (0..4).try_for_each(|key| self.expect(0, key * 2, Call::Upsert { value: BEFORE + key }))
    }

    fn slow_holder(&mut self) -> Result<(), String> {
        self.fill()?;
        let row = self.members[0].row;
        self.fabric.beating = vec![self.geometry[0].row_offset(row) + 8];
        self.fabric.beat_ns = LEASE_NS / 8;
        let call = self.holders_call();
        let ended = self.stop(|stage| {
            let (index, lane) = (stage.opened[1], &stage.lanes[1]);
            let future = start(index, lane, stage.case.coding(), 4, Call::Upsert { value: SURVIVOR }, 5 * LEASE_NS);
            match stage.fabric.drive(stage.members[1].row.0, lane, future, None, &mut Vec::new())? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Deadline { .. }) => Ok(()),
                other => Err(format!("waiting five leases for a lock whose holder's heart beats: {other:?}")),
            }
        })?;
        self.fabric.beating.clear();
        self.check(4, call, &ended)
    }

    /// Writes into the row of compute node 0 how long a lease it announces, in us. Returns the previous value.
    fn say_lease(&mut self, lease_us: u64) -> u64 {
        let word = self.geometry[0].row_offset(self.members[0].row) + core::mem::offset_of!(Row, lease_us) as u64;
        let Some(home) = self.fabric.memories.get_mut(NodeId(0)) else { return 0 };
        let said = home.host.word(word);
        home.host.set_word(word, lease_us);
        said
    }

    /// A holder is unresponsive, but its row announces a longer lease than that of the compute nodes that wait.
    fn patient_holder(&mut self) -> Result<(), String> {
        let call = self.holders_call();
        let ended = self.stop(|stage| {
            let wait = |stage: &mut Self, wait_ns| {
                let (index, lane) = (stage.opened[1], &stage.lanes[1]);
                let future = start(index, lane, stage.case.coding(), 4, Call::Upsert { value: SURVIVOR }, wait_ns);
                stage.fabric.drive(stage.members[1].row.0, lane, future, None, &mut Vec::new())
            };
            let said = stage.say_lease(10 * LEASE_NS / 1000);
            if said != LEASE_NS / 1000 {
                return Err(format!("a row says a lease of {said} us"));
            }
            match wait(stage, 5 * LEASE_NS)? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Deadline { .. }) => {}
                other => return Err(format!("waiting half of the holder's lease: {other:?}")),
            }
            stage.say_lease(LEASE_NS_MAX / 1000 + 1);
            match wait(stage, 5 * LEASE_NS)? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Corrupt { .. }) => {}
                other => return Err(format!("waiting for a holder whose lease is absurd: {other:?}")),
            }
            stage.say_lease(said);
            Ok(())
        })?;
        self.check(4, call, &ended)
    }

    /// By its own clock, a holder has not renewed its lease for half of it, so it posts no WRITE. When it has renewed
    /// the lease it settles, and the tree is as before.
    fn late_holder(&mut self) -> Result<(), String> {
        let (index, lane, lease) = (self.opened[0], &self.lanes[0], self.leases[0]);
        let fenced_itself = lane.marked(Mark::SELF_FENCED);
        let late_us = LEASE_NS / 1000;
        // Before the CAS: the holder decides what to write after it has the lock.
        let locks = |lane: &Lane<'_>| {
            lane.port().requests().iter().any(|request| request.label == Label::Lock && request.verb != Verb::Read)
        };
        let ended = self.stop_where(locks, |_| {
            lease.tick(late_us);
            Ok(())
        })?;
        if !matches!(&ended, Ended::Failed(error) if error.cause == Cause::Fenced && error.effect == Effect::None) {
            return Err(format!("an update of a holder whose lease is over: {ended:?}"));
        }
        if lane.marked(Mark::SELF_FENCED) == fenced_itself {
            return Err("a holder whose lease is over did not notice it".to_owned());
        }
        lease.renewed(late_us);
        let settled = self.fabric.drive(self.members[0].row.0, lane, index.settle(lane), None, &mut Vec::new())?;
        if !matches!(settled, Drive::Done(Ok(()))) || lane.in_doubt() {
            return Err(format!("settling after the lease was renewed: {settled:?}"));
        }
        self.expect(1, 4, Call::Get)
    }

    fn stopped_holder(&mut self) -> Result<(), String> {
        let fenced = |ended: &Ended| matches!(ended, Ended::Failed(error) if error.cause == Cause::Fenced);
        let ended = self.stop(|stage| stage.expect(1, 4, Call::Upsert { value: SURVIVOR }))?;
        if !fenced(&ended) {
            return Err(format!("an update whose lock was taken over ends with {ended:?}"));
        }
        self.expect(1, 4, Call::Get)?;
        let (index, lane, row) = (self.opened[0], &self.lanes[0], self.members[0].row);
        let settled = self.fabric.drive(row.0, lane, index.settle(lane), None, &mut Vec::new())?;
        if !matches!(settled, Drive::Done(Ok(()))) || lane.in_doubt() {
            return Err(format!("settling on a fenced compute node: {settled:?}"));
        }
        for call in [Call::Get, Call::Upsert { value: VICTIM }] {
            let mut seen = Vec::new();
            let future = start(index, lane, self.case.coding(), 4, call, 0);
            let ended = self.fabric.drive(row.0, lane, future, None, &mut seen)?;
            if !matches!(&ended, Drive::Done(ended) if fenced(ended)) || !seen.is_empty() {
                return Err(format!("{call:?} on a fenced compute node: {ended:?} after {} submits", seen.len()));
            }
        }
        self.dead.push(0);
        self.afterwards()?;
        let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let joiner = Joiner { token: 99, lanes: 1, memory_nodes: 1, host: "again" };
        match self.fabric.drive(
            0,
            &lane,
            Membership::join(&lane, self.geometry, &joiner, (64, LeaseConfig::HARDWARE), None),
            None,
            &mut Vec::new(),
        )? {
            Drive::Done(Ok(again)) if again.member.row == row && again.member.incarnation == 2 => Ok(()),
            other => Err(format!("joining again: {other:?}")),
        }
    }
}
