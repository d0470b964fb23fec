//! A compute node that joins later. If a row was swept and is free again, it gets that row.

use super::{LEASE_NS, Stage, config, pool, spending};
use crate::verify::crash::serial_fabric::Drive;
use crate::verify::membership::Membership;
use crate::verify::subject::{Opened, With};
use crate::verify::walk;
use dm_core::lane::Lane;
use dm_core::membership::lease::LeaseConfig;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::remote::row::{Joiner, Member};
use dm_core::verbs::LaneId;
use dm_host::assembly::Place;
use dm_host::kinds::with_index;

/// What is done with a compute node that has joined later, and with the index that it has opened.
type WithNewcomer<'f, S> = &'f mut dyn FnMut(&mut S, Member, &dyn Opened, &Lane<'_>) -> Result<(), String>;

impl Stage<'_, '_> {
    /// A compute node joins, and opens the index with one lane. Then `then` runs.
    pub(in crate::verify) fn join_later(&mut self, then: WithNewcomer<'_, Self>) -> Result<(), String> {
        let (case, config, pool) = (self.case, config(self.case), pool(self.case));
        let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let joiner = Joiner { token: 99, lanes: 1, memory_nodes: 1, host: "later" };
        let terms = LeaseConfig::of(LEASE_NS).expect("a short lease");
        let join = Membership::join(&lane, self.geometry, &joiner, (pool.redo_bytes(), terms), None);
        let membership = match self.fabric.drive(0, &lane, join, None, &mut Vec::new())? {
            Drive::Done(Ok(membership)) => membership,
            other => return Err(format!("joining later: {other:?}")),
        };
        let member = membership.member;
        self.fabric.admit(member.row.0);
        let recovery = membership.recovery(&config.capabilities()).map_err(|error| error.to_string())?;
        let (epochs, pins) = (Epochs::new(), [Pin::default()]);
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let place = walk::place(self.geometry, &config, config.guarantees(), 0);
        let here = Place { member, recovery: Some(&recovery), epochs, ..place };
        let mut ended = Ok(());
        let opened = with_index(&here, &case.parameters, &spending(case, 0, 1), |index| {
            let opened = With(&index, None);
            let mut scratch = vec![0; opened.plan().total_bytes];
            ended = then(self, member, &opened, &Lane::new(LaneId(0), &mut scratch));
        });
        opened.map_err(|error| error.to_string())?;
        ended
    }
}
