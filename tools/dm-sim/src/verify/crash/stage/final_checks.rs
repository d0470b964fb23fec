//! The checks at the end of a run: dead rows are swept, every key is read, the structure is validated, the memory is
//! accounted for, and no lock is held.

use super::{COMPUTE_NODES, Stage, VICTIM, config, pool};
use crate::check::Call;
use crate::verify::accounting::{Node, account};
use crate::verify::crash::cases::{CutOperation, KEYS};
use crate::verify::crash::serial_fabric::Drive;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::remote::place::NodeClass;
use dm_core::remote::row::{RowState, RowWord};
use dm_core::verbs::NodeId;
use std::collections::BTreeSet;

/// Turns of all live compute nodes that an orphan collection may take.
const ORPHAN_COLLECTION_TURNS_MAX: u32 = 400;

/// Turns after which an orphan collection is given up while rows of dead compute nodes are not yet swept.
const COLLECTION_TURNS_MIN: u32 = 8;

impl Stage<'_, '_> {
    /// Sweeps the dead rows and checks everything.
    pub(super) fn afterwards(&mut self) -> Result<(), String> {
        let last = COMPUTE_NODES - 1;
        let (index, lane) = (self.opened[last], &self.lanes[last]);
        let row_of = |number: usize| self.members[number].row;
        self.give_away(last)?;
        let dead = self.dead.clone();
        for (number, &dead) in (1..).zip(&dead) {
            let swept = self.fabric.drive(
                row_of(last).0,
                lane,
                index.sweep(lane, row_of(dead), IndexSet::default()),
                None,
                &mut Vec::new(),
            )?;
            if !matches!(swept, Drive::Done(Ok(swept)) if swept.row_free) {
                return Err(format!("sweeping row {}: {swept:?}", row_of(dead).0));
            }
            // Collects after every sweep: if a repairer died, too, memory may be reused only when that is safe.
            self.collect_orphans(number == self.dead.len())?;
        }
        for key in 0..KEYS {
            self.expect(last, key, Call::Get)?;
        }
        self.scan(last)?;
        if let CutOperation::Bulk(keys) = self.case.scenario.operation {
            // If survivors overwrote records of the load, only the first survivor's answers can show what was loaded.
            let loaded: BTreeSet<u64> =
                self.known.iter().filter(|(_, value)| **value == VICTIM).map(|(key, _)| *key).collect();
            if !loaded.is_empty() && loaded.len() != keys as usize {
                return Err(format!("part of a bulk load is there: {loaded:?}"));
            }
        }
        match self.fabric.drive(row_of(last).0, lane, index.validate(lane), None, &mut Vec::new())? {
            Drive::Done(Ok(census)) if census.records != self.known.len() as u64 => {
                return Err(format!("the tree has {} records, the model {}", census.records, self.known.len()));
            }
            Drive::Done(Ok(census)) if census.left_layers > 0 && self.dead.is_empty() => {
                return Err(format!("no compute node died, and there are {census:?}"));
            }
            Drive::Done(Ok(census)) => drop(census.at_rest().map_err(|error| error.to_string())?),
            other => return Err(format!("validating: {other:?}")),
        }
        self.add_up()?;
        let held = pool(self.case).locks_held(&config(self.case), &self.fabric.memories);
        if let [first, ..] = held.as_slice() {
            return Err(format!("all is quiet, and {} locks are held: {first:?}", held.len()));
        }
        for (number, geometry) in self.geometry.iter().enumerate() {
            let Some(node) = self.fabric.memories.get(NodeId(number as u16)) else { continue };
            for chunk in 0..geometry.chunk_count {
                let entry = ChunkWord(node.host.word(geometry.chunk_entry(chunk))).decode();
                if let Ok(ChunkEntry::Granted(grant)) = entry
                    && grant.kind == ChunkKind::Redo
                    && self.dead.iter().any(|dead| row_of(*dead) == grant.row)
                {
                    return Err(format!("redo chunk {chunk} of memory node {number} stays with {:?}", grant.row));
                }
            }
        }
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if !self.dead.contains(&number) && (index.locks_held() > 0 || lane.in_doubt()) {
                return Err(format!(
                    "compute node {number} holds {} local locks, and lock records {:?}",
                    index.locks_held(),
                    lane.lock_records()
                ));
            }
            let home = self
                .fabric
                .memories
                .get(NodeId(0))
                .map(|node| node.host.word(self.geometry[0].row_offset(row_of(number))));
            let state = home.and_then(|word| RowWord(word).state());
            let wanted = if self.dead.contains(&number) { RowState::Free } else { RowState::Live };
            if state != Some(wanted) {
                return Err(format!("row {} is {state:?}", row_of(number).0));
            }
        }
        Ok(())
    }

    /// Where keys have owners, the live ones but `heir` give them away.
    fn give_away(&mut self, heir: usize) -> Result<(), String> {
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if number == heir || self.dead.contains(&number) || !index.has_owners() {
                continue;
            }
            let row = self.members[number].row.0;
            match self.fabric.drive(row, lane, index.leave(lane), None, &mut Vec::new())? {
                Drive::Done(Ok(())) => {}
                other => return Err(format!("compute node {number} gives its keys away: {other:?}")),
            }
        }
        Ok(())
    }

    /// Every live compute node collects orphans. Places that one of them collects are in limbo until all live compute
    /// nodes have made turns. Unless all dead rows are `swept`, the epochs may not advance.
    fn collect_orphans(&mut self, swept: bool) -> Result<(), String> {
        let mut left: Vec<usize> = (0..self.opened.len()).filter(|number| !self.dead.contains(number)).collect();
        for _ in 0..if swept { ORPHAN_COLLECTION_TURNS_MAX } else { COLLECTION_TURNS_MIN } {
            let mut still = Vec::new();
            for number in left {
                let (index, lane, row) = (self.opened[number], &self.lanes[number], self.members[number].row.0);
                match self.fabric.drive(row, lane, index.collect_orphans(lane), None, &mut Vec::new())? {
                    Drive::Done(Ok(collected_orphans)) if collected_orphans.is_complete() => {}
                    Drive::Done(Ok(_)) => still.push(number),
                    other => return Err(format!("compute node {number} collects orphans: {other:?}")),
                }
            }
            if still.is_empty() {
                return Ok(());
            }
            left = still;
            self.turn()?;
        }
        if swept { Err(format!("compute nodes {left:?} collect orphans without an end")) } else { Ok(()) }
    }

    /// A turn of every live compute node.
    fn turn(&mut self) -> Result<(), String> {
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if !self.dead.contains(&number) && index.has_epochs() {
                let row = self.members[number].row.0;
                match self.fabric.drive(row, lane, index.turn(lane), None, &mut Vec::new())? {
                    Drive::Done(Ok(())) => {}
                    other => return Err(format!("compute node {number} turns: {other:?}")),
                }
            }
        }
        Ok(())
    }

    /// Accounts for the memory: no place has two uses, and no place is lost, since orphans were collected.
    fn add_up(&mut self) -> Result<(), String> {
        let pool = pool(self.case);
        let holdings = pool.holdings(&config(self.case), &self.fabric.memories)?;
        let mut ready = Vec::new();
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if self.dead.contains(&number) {
                continue;
            }
            index.for_each_ready(&mut |node| ready.push(node));
            lane.for_each_stocked(&mut |class, fresh| {
                // Where nodes differ in size, lanes have none in stock.
                let Some(tree) = pool.tree() else { return };
                let bytes = if class == NodeClass::Leaf { tree.leaf_place_bytes } else { tree.inner.bytes };
                ready.push(Node { node: fresh.address.node(), offset: fresh.address.offset(), bytes: bytes as u64 });
            });
        }
        let retired_bytes = self.opened.iter().map(|index| index.retired_bytes()).sum();
        let account = account(&holdings, &ready, retired_bytes)?;
        self.ran.memory = account;
        if account.leaked > 0 { Err(format!("memory is lost: {account}")) } else { Ok(()) }
    }
}
