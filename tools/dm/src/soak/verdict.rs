//! The verdict on a soak, after all processes have ended and everything was repaired.

use super::fleet::Fleet;
use super::ledger::version_in;
use super::writer::INDEX;
use crate::failure::Failure;
use crate::kinds::is_radix;
use crate::members::{held_locks, members, with_read_access};
use crate::tool::with_tool;
use dm_core::index::Index as _;
use dm_core::memory::chunks;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Census, Operation, OperationKind, Outcome};
use dm_core::remote::chunk::ChunkEntry;
use dm_core::remote::row::RowState;
use dm_core::verbs::NodeId;
use dm_host::compute_node::Membership;
use dm_host::solo::block_on;
use serde::Serialize;
use std::thread;
use std::time::Duration;

/// Calls of a collection that waits for epochs, at most, with a pause behind each.
const COLLECTIONS_MAX: u32 = 2000;

/// A small part of an epoch.
const COLLECTION_PAUSE: Duration = Duration::from_millis(5);

/// What was found at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// Keys there are.
    pub keys: u64,
    /// Records in the index.
    pub records: u64,
    /// Writes that were acknowledged, of all writers.
    pub acknowledged: u64,
    /// Keys whose last write was not acknowledged.
    pub in_doubt: u64,
    /// Whether a walk over the tree found every invariant kept.
    pub sound: bool,
    /// Lock words that are not free.
    pub locks_held: u64,
    /// Rows that are live, fencing or dead, although all writers have ended.
    pub rows_not_free: u64,
    /// Chunks granted to rows that are free: all chunks.
    pub chunks_of_departed_rows: u64,
    /// Places of nodes in the chunks of the index.
    pub places: u64,
    /// Of these, nodes of the tree.
    pub places_reached: u64,
    /// Of these, places that the last compute node freed when it collected all orphans. There are no other places.
    pub places_back: u64,
}

/// Judges a soak; failures are added to the violations.
pub(super) fn judge(fleet: &mut Fleet) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::default();
    let mut violations = Vec::new();
    let pool = fleet.pool().clone();
    // All writers have ended: rows and locks are looked at before the judge joins.
    with_read_access(&pool, |fabric, lane| {
        for member in members(&pool, fabric, lane)? {
            if member.state != RowState::Free {
                verdict.rows_not_free += 1;
                violations.push(format!("compute-node row {} is {}", member.row.0, member.state.name()));
            }
        }
        for (number, geometry) in (0..).zip(pool.geometry()) {
            for (index, word) in held_locks(fabric, lane, NodeId(number), geometry)? {
                verdict.locks_held += 1;
                violations.push(format!("memory node {number}: lock {index} is held by row {}", word.row().0));
            }
            let mut granted = 0;
            let mut see = |_, entry| granted += u64::from(matches!(entry, Ok(ChunkEntry::Granted(_))));
            let walk = chunks::walk(lane, NodeId(number), geometry, 0, &mut see);
            block_on(fabric, lane, walk).map_err(Failure::run)?;
            verdict.chunks_of_departed_rows += granted;
        }
        Ok(())
    })?;
    let node = pool.join(1, Membership { terms: fleet.terms(), ..Membership::default() }).map_err(Failure::run)?;
    with_tool(&node, INDEX, |tool| {
        tool.take_all_keys()?;
        // All compute nodes have departed. So every chunk can be collected, and every place in it is reached or freed.
        let mut collected_orphans = CollectedOrphans { waits: true, ..CollectedOrphans::default() };
        for _ in 0..COLLECTIONS_MAX {
            if !collected_orphans.waits {
                break;
            }
            collected_orphans =
                block_on(tool.fabric, tool.lane, tool.index.collect_orphans(tool.lane)).map_err(Failure::run)?;
            thread::sleep(COLLECTION_PAUSE);
        }
        let census = block_on(tool.fabric, tool.lane, tool.index.validate(tool.lane));
        match census.and_then(Census::at_rest) {
            Ok(census) => {
                verdict.sound = true;
                verdict.records = census.records;
                verdict.places = collected_orphans.places;
                verdict.places_reached = census.leaves + census.inner_nodes;
                verdict.places_back = collected_orphans.nodes;
                // Nodes of a radix tree have many sizes, so that its chunks have no places to count.
                let is_counted = !is_radix(&tool.parameters);
                let all_places = verdict.places_reached + collected_orphans.nodes;
                if !collected_orphans.is_complete() || is_counted && collected_orphans.places != all_places {
                    violations.push(format!(
                        "memory is lost: {} nodes reached, {collected_orphans:?}",
                        verdict.places_reached
                    ));
                }
            }
            Err(error) => violations.push(format!("the tree is not sound: {error}")),
        }
        let mut found_records = 0;
        for writer in 0..fleet.plan.writers {
            for (position, entry) in (0..).zip(fleet.entries(writer)?) {
                let key = fleet.keys().key(writer, position);
                verdict.keys += 1;
                verdict.acknowledged += entry.acknowledged;
                verdict.in_doubt += u64::from(entry.acknowledged != entry.intended);
                tool.arguments(&key.to_be_bytes(), None).map_err(Failure::Run)?;
                let outcome = tool.execute(Operation::point(OperationKind::Get));
                let plan = tool.index.plan();
                let version = match outcome {
                    Err(error) => Err(format!("key {key} cannot be read: {error}")),
                    Ok(Outcome::Found) => {
                        found_records += 1;
                        let check = |scratch: &mut [u8]| version_in(key, writer, &scratch[plan.output.clone()]);
                        tool.lane.port().with(check).map(Some)
                    }
                    Ok(_) => Ok(None),
                };
                if let Err(what) = version.and_then(|version| entry.explains(key, version)) {
                    violations.push(what);
                }
            }
        }
        if verdict.sound && found_records != verdict.records {
            violations.push(format!("{} records in the tree, {found_records} under keys of writers", verdict.records));
        }
        Ok(())
    })?;
    fleet.violations.append(&mut violations);
    Ok(verdict)
}
