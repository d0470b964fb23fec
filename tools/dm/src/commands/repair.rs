//! `dm repair`: finishes what dead compute nodes left.
//!
//! It does at once, for every row and every lock, what nodes that wait for a dead holder's lock would do one by one. It
//! fences rows whose heartbeat has not moved for a lease, recovers their locks, gives unused memory back, and frees the
//! rows. Every step may be repeated, by several repairs at once, on a pool in use.

use crate::failure::{Failure, print};
use crate::members::{Member, held_locks, members, on_lane, watch, with_read_access};
use crate::report::repaired::Repaired;
use crate::report::text::counted;
use crate::tool::{PoolArguments, with_tool};
use dm_core::fabric::Fabric as _;
use dm_core::index::Index as _;
use dm_core::lane::Lane;
use dm_core::membership::fence::{Fenced, fence};
use dm_core::membership::rows;
use dm_core::remote::catalog::IndexEntry;
use dm_core::remote::row::RowState;
use dm_core::verbs::NodeId;
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::solo::block_on;
use std::fmt::Write as _;
use std::time::Duration;

/// Arguments of `dm repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: after a host with compute nodes is gone for good\n  dm repair --pool /run/dm/0,/run/dm/1\n\n\
                  It waits for a lease to see which compute nodes are unresponsive: --lease-ms or what the compute \
                  node's row says of its own, whichever is longer. A compute node that is alive and beats is left alone; \
                  one that is stopped for longer is ended."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let terms = arguments.pool.terms()?;
    let memory = arguments.pool.connect()?;
    let repaired = repair(&memory.pool, Duration::from_nanos(terms.lease_ns()), &|name, rows, repaired| {
        let node = arguments.pool.join(&memory)?;
        let mut kept = Vec::new();
        with_tool(&node, name, |tool| {
            for row in rows {
                let swept = block_on(tool.fabric, tool.lane, tool.index.sweep(tool.lane, row.row))
                    .map_err(|error| Failure::Run(format!("compute-node row {}: {error}", row.row.0)))?;
                repaired.locks += swept.locks;
                repaired.chunks_freed += swept.chunks_freed;
                repaired.chunks_kept += swept.chunks_kept;
                repaired.unwritten_bytes += swept.unwritten_bytes;
                repaired.rows_freed += u32::from(swept.row_free);
                if !swept.row_free {
                    kept.push(row.clone());
                }
            }
            Ok(())
        })?;
        Ok(kept)
    })?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&repaired).map_err(Failure::run)?;
        return print(&(json + "\n"));
    }
    print(&render(&repaired))
}

/// Sweeps rows through one index. Returns the rows that it could not free.
type Sweep<'s> = &'s dyn Fn(&str, &[Member], &mut Repaired) -> Result<Vec<Member>, Failure>;

fn repair(pool: &Pool, lease: Duration, sweep: Sweep<'_>) -> Result<Repaired, Failure> {
    let mut repaired = Repaired::default();
    let dead = with_read_access(pool, |fabric, lane| find_dead(pool, fabric, lane, lease, &mut repaired))?;
    if dead.is_empty() {
        return Ok(repaired);
    }
    let indexes = pool.indexes().map_err(Failure::run)?;
    // Another version of this program may have created indexes that this one does not know.
    let known: Vec<_> =
        indexes.iter().filter_map(|index| Some((index, pool.find_index(index.name()).ok()?.1))).collect();
    // Lock tables belong to the pool, so the sweep may use any index. Locks in leaves are swept through the index that
    // has the leaves. In other indexes, chunks without nodes stay granted.
    let in_leaves = known.iter().filter(|(_, parameters)| parameters.locks_in_leaves());
    let mut through: Vec<&IndexEntry> = in_leaves.map(|(index, _)| *index).collect();
    if through.is_empty() {
        through.extend(known.first().map(|(index, _)| index));
    }
    if through.is_empty() {
        with_read_access(pool, |fabric, lane| free_unheld(pool, fabric, lane, &dead, &mut repaired))?;
        return Ok(repaired);
    }
    let mut left = dead;
    for index in through {
        if !left.is_empty() {
            left = sweep(index.name(), &left, &mut repaired)?;
        }
    }
    repaired.rows_kept = left.len() as u32;
    Ok(repaired)
}

/// Finds the rows of dead compute nodes: rows that are fenced already, and rows whose heartbeat does not move for a
/// lease, which it fences.
fn find_dead(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    lease: Duration,
    repaired: &mut Repaired,
) -> Result<Vec<Member>, Failure> {
    let mut rows = members(pool, fabric, lane)?;
    let longest = rows.iter().filter(|member| member.is_live()).map(|member| member.effective_lease(lease)).max();
    let longest = longest.unwrap_or(lease);
    // A little longer than a lease: the last heartbeat may have come just before the first look.
    watch(pool, fabric, lane, &mut rows, longest + longest / 8)?;
    let mut dead = Vec::new();
    for member in rows {
        match member.state {
            RowState::Free => {}
            RowState::Live if member.unresponsive < member.effective_lease(lease) => {}
            RowState::Live => {
                if !fabric.capabilities().fencing {
                    return Err(Failure::Run(format!(
                        "compute-node row {} is unresponsive, and this fabric cannot fence it off",
                        member.row.0
                    )));
                }
                let (geometry, row, word) = (pool.geometry(), member.row, member.word);
                let fenced =
                    on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, fence(lane, geometry, row, word)))
                        .map_err(|error| Failure::Run(format!("compute-node row {}: {error}", row.0)))?;
                if fenced == Fenced::Dead {
                    repaired.rows_fenced += 1;
                    dead.push(member);
                }
            }
            RowState::Fencing | RowState::Dead => dead.push(member),
        }
    }
    Ok(dead)
}

/// Frees rows of a pool without an index, in which no lock is taken, if no lock word names them.
fn free_unheld(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    dead: &[Member],
    repaired: &mut Repaired,
) -> Result<(), Failure> {
    for member in dead {
        let geometry = pool.geometry();
        let fenced = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, fence(lane, geometry, member.row, member.word))
        });
        if fenced.map_err(Failure::run)? != Fenced::Dead {
            continue;
        }
        for (number, node) in geometry.iter().enumerate() {
            let held = held_locks(fabric, lane, NodeId(number as u16), node)?;
            if held.iter().any(|(_, word)| word.row() == member.row) {
                return Err(Failure::Run(format!(
                    "compute-node row {} holds locks of memory node {number}, and there is no index to recover them by",
                    member.row.0
                )));
            }
        }
        let word = member.word.with_state(RowState::Dead);
        let freed = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, rows::advance(lane, &geometry[0], member.row, word, RowState::Free))
        });
        repaired.rows_freed += u32::from(freed.map_err(Failure::run)?.state() == Some(RowState::Free));
    }
    Ok(())
}

fn render(repaired: &Repaired) -> String {
    let Repaired { rows_fenced, rows_freed, rows_kept, locks, chunks_freed, chunks_kept, unwritten_bytes } = repaired;
    let mut text = format!(
        "{} fenced, {} freed, {} recovered, {} given back\n",
        counted(*rows_fenced, "unresponsive compute node"),
        counted(*rows_freed, "row"),
        counted(*locks, "lock"),
        counted(*chunks_freed, "chunk")
    );
    if *rows_kept > 0 {
        let _ = writeln!(
            text,
            "{} kept dead: the pool has several indexes with locks in leaves, and nothing says which of them those compute \
             nodes had open",
            counted(*rows_kept, "row")
        );
    }
    if *chunks_kept > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} with nodes kept for a compute node to collect; {unwritten_bytes} bytes of them were never written",
            counted(*chunks_kept, "chunk")
        );
    }
    text
}
