//! Which compute nodes are in a pool, and which hold its locks: looked up without joining it.

use super::RepairError;
use crate::fabric::any::AnyFabric;
use crate::pool::{Pool, PoolError};
use crate::solo::block_on;
use dm_core::lane::Lane;
use dm_core::membership::rows;
use dm_core::remote::NodeGeometry;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::row::{RowState, RowWord};
use dm_core::verbs::{Label, LaneId, NodeId, Request};
use std::time::{Duration, Instant};

/// Bytes of a lock table READ at once.
pub const WINDOW_BYTES: usize = 64 << 10;

/// A compute-node row that is taken, or was.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its row.
    pub row: RowId,
    /// The row word.
    pub word: RowWord,
    /// Its state.
    pub state: RowState,
    /// Its lanes, if it has announced them.
    pub lanes: Option<u16>,
    /// Its host, if it has announced it.
    pub host: Option<String>,
    /// The stored heartbeat. A row that was claimed and not announced yet has that of an earlier incarnation, which
    /// does not move.
    pub heartbeat: u64,
    /// The reclamation epoch it has reached; 0: none.
    pub epoch: u64,
    /// Its lease, if it has announced one.
    pub lease: Option<Duration>,
    /// The address of the first chunk of its log ring; 0: it has none.
    pub ring: u64,
    /// For how long, at least, its heartbeat has not moved; zero if it moved while it was watched.
    pub unresponsive: Duration,
}

impl Member {
    /// The lease that an observer whose own lease is `lease` grants it: the longer of the two.
    pub fn effective_lease(&self, lease: Duration) -> Duration {
        self.lease.map_or(lease, |stored| stored.max(lease))
    }

    /// Whether it should have a heartbeat.
    pub fn is_live(&self) -> bool {
        self.state == RowState::Live
    }
}

/// Read access to a pool: a fabric and a lane with [`WINDOW_BYTES`] of scratch.
pub fn with_read_access<R, E: From<RepairError>>(
    pool: &Pool,
    run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> Result<R, E>,
) -> Result<R, E> {
    let mut fabric = pool.fabric().map_err(RepairError::from)?;
    let mut scratch = vec![0; WINDOW_BYTES];
    let lane = Lane::new(LaneId(0), &mut scratch);
    run(&mut fabric, &lane)
}

/// Every row that is taken, or was.
pub fn members(pool: &Pool, fabric: &mut AnyFabric, lane: &Lane<'_>) -> Result<Vec<Member>, RepairError> {
    let geometry = &pool.geometry()[0];
    let mut members = Vec::new();
    for number in 1..geometry.row_count as u16 {
        let row =
            on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, rows::read(lane, geometry, RowId(number), 0)))
                .map_err(PoolError::from)?;
        let view = match row.decode() {
            Ok(view) => view,
            Err(what) => return Err(RepairError::Corrupt { row: number, what }),
        };
        if view.state == RowState::Free && view.incarnation == 0 {
            continue;
        }
        members.push(Member {
            row: RowId(number),
            word: RowWord(row.word.get()),
            state: view.state,
            lanes: view.life.map(|life| life.lanes),
            host: view.life.map(|life| life.host.to_owned()),
            heartbeat: row.heartbeat.get(),
            epoch: row.epoch.get(),
            ring: view.life.map_or(0, |life| life.ring),
            lease: view.life.and_then(|life| life.lease_ns).map(Duration::from_nanos),
            unresponsive: Duration::ZERO,
        });
    }
    Ok(members)
}

/// How often the pool's epoch was raised.
pub fn epochs(pool: &Pool, fabric: &mut AnyFabric, lane: &Lane<'_>) -> Result<u64, RepairError> {
    let geometry = &pool.geometry()[0];
    // Row 0 is of no compute node: it has the pool's.
    let row = on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, rows::read(lane, geometry, RowId(0), 0)))
        .map_err(PoolError::from)?;
    Ok(row.epoch.get())
}

/// Looks at live rows again and again, for at most `time`, until the heartbeat of each has moved.
pub fn watch(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    members: &mut [Member],
    time: Duration,
) -> Result<(), RepairError> {
    let geometry = &pool.geometry()[0];
    let began = Instant::now();
    let mut beats = vec![false; members.len()];
    while began.elapsed() < time && members.iter().zip(&beats).any(|(member, beats)| member.is_live() && !beats) {
        std::thread::sleep(Duration::from_millis(20).min(time.saturating_sub(began.elapsed())));
        for (member, beats) in members.iter_mut().zip(&mut beats).filter(|(member, beats)| member.is_live() && !**beats)
        {
            let row =
                on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, rows::read(lane, geometry, member.row, 0)))
                    .map_err(PoolError::from)?;
            *beats = (row.word.get(), row.heartbeat.get()) != (member.word.0, member.heartbeat);
            member.unresponsive = if *beats { Duration::ZERO } else { began.elapsed() };
        }
    }
    Ok(())
}

/// Lock words of a memory node that are not free.
pub fn held_locks(
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
) -> Result<Vec<(u32, LockWord)>, RepairError> {
    let mut held = Vec::new();
    let per_window = (WINDOW_BYTES / 8) as u32;
    let mut first = 0;
    while first < geometry.lock_count {
        let count = per_window.min(geometry.lock_count - first);
        let request = Request::read(Label::Tool, node, geometry.lock_offset(first), count as usize * 8, 0)
            .in_space(geometry.lock_space);
        on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, lane.port().call(request)))
            .map_err(PoolError::from)?;
        lane.port().with(|scratch| {
            for (index, word) in (first..).zip(scratch.chunks_exact(8).take(count as usize)) {
                let word = LockWord(u64::from_le_bytes(*word.first_chunk().unwrap_or(&[0; 8])));
                if !word.is_free() {
                    held.push((index, word));
                }
            }
        });
        first += count;
    }
    Ok(held)
}

/// Ties the lane's lifetime to the fabric's.
pub fn on_lane<'m, R>(fabric: &mut AnyFabric, lane: &Lane<'m>, run: impl FnOnce(&mut AnyFabric, &Lane<'m>) -> R) -> R {
    run(fabric, lane)
}
