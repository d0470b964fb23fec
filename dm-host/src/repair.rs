//! Repair: finishes what dead compute nodes left.
//!
//! It does at once, for every row and every lock, what nodes that wait for a dead holder's lock would do one by one. It
//! fences the rows, recovers their locks, gives unused memory back, and frees the rows. Every step may be repeated, by
//! several repairs at once, on a pool in use.
//!
//! `dm repair` does so when a person asks, for all rows whose heartbeat has not moved for a lease. A memory node's daemon
//! does so for the processes that it saw die: see `memory_node::sweeper`.

pub mod members;

use crate::assembly::{AssemblyError, Spending};
use crate::compute_node::Membership;
use crate::fabric::any::AnyFabric;
use crate::pool::{Pool, PoolError};
use crate::solo::block_on;
use dm_core::fabric::Fabric as _;
use dm_core::index::Index as _;
use dm_core::lane::Lane;
use dm_core::membership::fence::{Fenced, fence};
use dm_core::membership::{redo, rows};
use dm_core::memory::rows::RowError;
use dm_core::operation::OpError;
use dm_core::remote::catalog::{IndexEntry, IndexNumber, IndexSet};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{self, RowState};
use dm_core::verbs::{LaneId, NodeId};
use members::{Member, held_locks, members, on_lane, watch, with_read_access};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why a pool could not be repaired, or its compute nodes not be looked at.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The pool cannot be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An index cannot be opened.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// A row could not be changed.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A row makes no sense.
    #[error("compute-node row {row} is corrupt: {what}")]
    Corrupt {
        /// Its number.
        row: u16,
        /// What is wrong.
        what: &'static str,
    },
    /// A row could not be fenced or swept.
    #[error("compute-node row {row}: {source}")]
    Sweep {
        /// Its number.
        row: u16,
        /// The reason.
        source: OpError,
    },
    /// The fabric cannot fence.
    #[error("compute-node row {row} is unresponsive, and this fabric cannot fence it off")]
    CannotFence {
        /// Its number.
        row: u16,
    },
    /// A row holds locks in a pool that has no index.
    #[error("compute-node row {row} holds locks of memory node {node}, and there is no index to recover them by")]
    NoIndex {
        /// Its number.
        row: u16,
        /// The memory node.
        node: usize,
    },
}

/// Which rows a repair is for.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'r> {
    /// Rows that are fenced already, and rows whose heartbeat does not move for a lease.
    Unresponsive,
    /// These, of which it is certain that they are dead. Nothing is waited for, and no other compute node is touched.
    Dead(&'r [row::Member]),
}

/// What was done, of the whole pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Rows that were live, and unresponsive for a lease or known to be dead: fenced.
    pub rows_fenced: u32,
    /// Rows freed.
    pub rows_freed: u32,
    /// Rows that stay dead: they had an index open that this program does not know, or may have had one; or an ownership
    /// table needs them.
    pub rows_kept: u32,
    /// Locks that were recovered.
    pub locks: u32,
    /// Chunks given back.
    pub chunks_freed: u32,
    /// Chunks with nodes, granted to a departed row until a compute node collects them.
    pub chunks_kept: u32,
    /// Bytes of nodes never written in those.
    pub unwritten_bytes: u64,
}

/// Repairs the pool, as a compute node that takes part as `membership` says.
pub fn repair(pool: &Arc<Pool>, membership: Membership, scope: Scope<'_>) -> Result<Repaired, RepairError> {
    let mut repaired = Repaired::default();
    let lease = Duration::from_nanos(membership.terms.lease_ns());
    let dead = with_read_access(pool, |fabric, lane| find_dead(pool, fabric, lane, (lease, scope), &mut repaired))?;
    if dead.is_empty() {
        return Ok(repaired);
    }
    let indexes = pool.indexes()?;
    // Another version of this program may have created indexes that this one does not know.
    let known: Vec<_> = indexes.iter().filter(|index| pool.find_index(index.name()).is_ok()).collect();
    let Some(first) = known.first() else {
        with_read_access(pool, |fabric, lane| free_unheld(pool, fabric, lane, &dead, &mut repaired))?;
        return Ok(repaired);
    };
    // Locks in leaves are found only through the index that has the leaves. So a row is swept through every index that it
    // had open, or, if it has not said which, through all; and if none was open, through any.
    let mut left = with_read_access(pool, |fabric, lane| {
        dead.iter().map(|member| Unswept::of(pool, fabric, lane, member)).collect::<Result<Vec<_>, RepairError>>()
    })?;
    for index in &known {
        let (mine, others) = left.into_iter().partition(|row: &Unswept| row.needs(index.number, first.number, &known));
        left = others;
        let mine: Vec<Unswept> = mine;
        if !mine.is_empty() {
            left.extend(sweep(pool, membership, index, mine, &mut repaired)?);
        }
    }
    repaired.rows_kept = left.len() as u32;
    Ok(repaired)
}

/// A dead row that is not free yet.
struct Unswept {
    row: RowId,
    /// What it had open. `None`: it has not said.
    open: Option<IndexSet>,
    /// The indexes through which it has been swept.
    done: IndexSet,
}

impl Unswept {
    fn of(pool: &Pool, fabric: &mut AnyFabric, lane: &Lane<'_>, member: &Member) -> Result<Self, RepairError> {
        let (row, home) = (member.row, pool.home());
        let named = (row, member.word.incarnation());
        let open =
            on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, redo::open_indexes(lane, home, named, 0)));
        Ok(Self { row, open: open.map_err(PoolError::from)?, done: IndexSet::default() })
    }

    /// Whether it has to be swept through `index`. `first`: the index for a row that had none open that is `known`.
    fn needs(&self, index: IndexNumber, first: IndexNumber, known: &[&IndexEntry]) -> bool {
        let Some(open) = &self.open else { return true };
        open.contains(index) || index == first && !known.iter().any(|known| open.contains(known.number))
    }
}

/// Sweeps rows through one index, which is opened on one lane for that. Returns the rows that it could not free.
fn sweep(
    pool: &Arc<Pool>,
    membership: Membership,
    entry: &IndexEntry,
    dead: Vec<Unswept>,
    repaired: &mut Repaired,
) -> Result<Vec<Unswept>, RepairError> {
    let node = pool.join(1, membership)?;
    let (entry, parameters) = pool.find_index(entry.name())?;
    pool.check_root(&entry, &parameters)?;
    let mut fabric = pool.fabric()?;
    node.with_index(&entry, &parameters, &Spending::default(), |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let mut kept = Vec::new();
        for mut dead in dead {
            let swept = on_lane(&mut fabric, &lane, |fabric, lane| {
                block_on(fabric, lane, index.sweep(lane, dead.row, dead.done))
            });
            let swept = swept.map_err(|source| RepairError::Sweep { row: dead.row.0, source })?;
            repaired.locks += swept.locks;
            repaired.chunks_freed += swept.chunks_freed;
            repaired.chunks_kept += swept.chunks_kept;
            repaired.unwritten_bytes += swept.unwritten_bytes;
            repaired.rows_freed += u32::from(swept.row_free);
            if !swept.row_free {
                dead.done.insert(entry.number);
                kept.push(dead);
            }
        }
        Ok(kept)
    })?
}

/// Finds the rows of dead compute nodes: rows that are fenced already, and rows whose heartbeat does not move for a
/// lease or is known to be dead, which it fences.
fn find_dead(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    (lease, scope): (Duration, Scope<'_>),
    repaired: &mut Repaired,
) -> Result<Vec<Member>, RepairError> {
    let mut rows = members(pool, fabric, lane)?;
    if let Scope::Dead(known) = scope {
        // A row that has another incarnation, or is free, was swept by others.
        let of =
            |member: &row::Member, row: &Member| (member.row, member.incarnation) == (row.row, row.word.incarnation());
        rows.retain(|row| known.iter().any(|member| of(member, row)));
    }
    if matches!(scope, Scope::Unresponsive) {
        let longest = rows.iter().filter(|member| member.is_live()).map(|member| member.effective_lease(lease)).max();
        let longest = longest.unwrap_or(lease);
        // A little longer than a lease: the last heartbeat may have come just before the first look.
        watch(pool, fabric, lane, &mut rows, longest + longest / 8)?;
    }
    let mut dead = Vec::new();
    for member in rows {
        match member.state {
            RowState::Free => {}
            RowState::Live
                if matches!(scope, Scope::Unresponsive) && member.unresponsive < member.effective_lease(lease) => {}
            RowState::Live => {
                if !fabric.capabilities().fencing {
                    return Err(RepairError::CannotFence { row: member.row.0 });
                }
                let (geometry, row, word) = (pool.geometry(), member.row, member.word);
                let fenced =
                    on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, fence(lane, geometry, row, word)))
                        .map_err(|source| RepairError::Sweep { row: row.0, source })?;
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
) -> Result<(), RepairError> {
    for member in dead {
        let geometry = pool.geometry();
        let fenced = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, fence(lane, geometry, member.row, member.word))
        });
        if fenced.map_err(|source| RepairError::Sweep { row: member.row.0, source })? != Fenced::Dead {
            continue;
        }
        for (number, node) in geometry.iter().enumerate() {
            let held = held_locks(fabric, lane, NodeId(number as u16), node)?;
            if held.iter().any(|(_, word)| word.row() == member.row) {
                return Err(RepairError::NoIndex { row: member.row.0, node: number });
            }
        }
        let word = member.word.with_state(RowState::Dead);
        let freed = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, rows::advance(lane, &geometry[0], member.row, word, RowState::Free))
        });
        repaired.rows_freed += u32::from(freed?.state() == Some(RowState::Free));
    }
    Ok(())
}
