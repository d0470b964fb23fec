//! One row for the sessions of a process.
//!
//! A pool has some 120 rows, and a compute node takes one. A program that works with ten indexes is one compute node, not ten:
//!
//! ```text
//!  SharedRow ─ clone ─ clone ...       one row: a lease, a keeper, redo slots, an epoch
//!     │ places: free, taken            as many lanes per place as a session has
//!     ├── Session of index a           its own cache, workers, local handles; lanes of place 0
//!     ├── Session of index b           place 1
//!     └── (free)                       place 2
//! ```
//!
//! # What sessions share, and what they do not
//!
//! They share the row and what belongs to it: [`crate::compute_node`] says what that is, and why it is enough. So a program takes
//! one row, one thread renews its lease, and one heartbeat goes to memory node 0 at a time, however many indexes it has open.
//!
//! Workers, and their queue pairs, are per index. That is the simpler choice, for a reason: a worker is compiled for one index,
//! and keeps the futures of its operations in slots of their size. So an operation allocates nothing, and no call is
//! virtual. A worker of several indexes would have futures of several sizes, scratch of the largest plan, and a set of indexes that
//! changes while it runs. An idle worker costs a thread that sleeps, its scratch, and on RDMA one queue pair per memory node. A
//! program with many small indexes gives each one worker with few lanes. Measured on shared memory, with two lanes and a cache of
//! 64 KiB each: 100 open indexes have 200 threads, a worker and a supervisor each, and 2 MB each; while nobody calls, they took 7 % of
//! a processor (a build for tests, on a busy machine). Shared workers would pay where there are more indexes than
//! processors and all are busy.
//!
//! Caches are per index too, since an index cache is made for one size of keys. [`Spending`](crate::assembly::Spending) of each
//! session says how large they are.
//!
//! # The end
//!
//! The row is given back when the last of its sessions is closed and the last clone of the handle is dropped. If others fence the
//! row, all its sessions end: each call of each fails with [`dm_core::operation::Cause::Fenced`]. The row of a process that died is
//! swept through every index that it had open ([`crate::repair`]); which these are, it says in the pool. A session that closed
//! with a lock that nobody could release keeps its place and its name in that list.

use super::{OpenError, SessionOptions};
use crate::compute_node::ComputeNode;
use crate::kinds::IndexParameters;
use crate::pool::Pool;
use dm_core::remote::row::Member;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the nodes that redo slots of a shared row have room for at least: more than nodes of small records have. So a pool
/// that has no index yet needs no list of sizes.
const NODE_BYTES_MIN: usize = 2 << 10;

/// A row of the pool that several sessions of a process share: see the module's documentation.
///
/// ```
/// use dm_host::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::embedded(64 << 20)?;
/// let mut options = SessionOptions { lanes_per_worker: 4, local_handles: 0, ..SessionOptions::default() };
/// options.row = Some(SharedRow::join(&pool, 10, &options)?);
/// let index = IndexOptions::new();
///
/// let users = Table::<u64, [u8; 32]>::open_with(&pool, "users", &index, &options)?;
/// let visits = Table::<(u64, u64), u64>::open_with(&pool, "visits", &index, &options)?;
/// users.insert(7, *b"a value of 32 bytes ............").wait()?;
/// visits.insert((7, 1), 1).wait()?;
/// assert_eq!(users.session().member(), visits.session().member());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedRow {
    node: Arc<ComputeNode>,
    places: Arc<Places>,
}

/// Lanes for sessions: one place each.
#[derive(Debug)]
struct Places {
    lanes: usize,
    count: usize,
    free: Mutex<Vec<usize>>,
}

impl SharedRow {
    /// Joins the pool as a compute node with lanes for `sessions` sessions that are opened with `options`, or with fewer workers,
    /// lanes or local handles. Its redo slots have room for the nodes of every index that the pool has now, and for nodes of 2 KiB.
    /// The slots of all lanes have to fit into four chunks of each memory node.
    pub fn join(pool: &Arc<Pool>, sessions: usize, options: &SessionOptions) -> Result<Self, OpenError> {
        Self::join_for(pool, sessions, options, &[])
    }

    /// As [`SharedRow::join`], with room for the nodes of indexes that the program will create: those of `parameters`. Without it,
    /// an index with larger nodes than these is refused.
    pub fn join_for(
        pool: &Arc<Pool>,
        sessions: usize,
        options: &SessionOptions,
        parameters: &[IndexParameters],
    ) -> Result<Self, OpenError> {
        options.check()?;
        let lanes = options.lanes();
        let max = (usize::from(u16::MAX) - 1) / lanes;
        if !(1..=max).contains(&sessions) {
            return Err(OpenError::Option { option: "sessions of a row", given: sessions, min: 1, max });
        }
        let node = pool.join((sessions * lanes) as u16, options.membership)?;
        // An index of a kind that this program does not know is none that it opens.
        let there = pool.indexes()?.iter().filter_map(|entry| IndexParameters::of(entry).ok()).collect::<Vec<_>>();
        let node_bytes = there.iter().chain(parameters).map(IndexParameters::redo_bytes).max().unwrap_or(0);
        node.expect_nodes_of(node_bytes.max(NODE_BYTES_MIN));
        let places = Places { lanes, count: sessions, free: Mutex::new((0..sessions).rev().collect()) };
        Ok(Self { node: Arc::new(node), places: Arc::new(places) })
    }

    /// Its row and incarnation.
    pub fn member(&self) -> Member {
        self.node.member()
    }

    /// Whether others have fenced it: then all its sessions have ended.
    pub fn is_fenced(&self) -> bool {
        self.node.is_fenced()
    }

    /// The compute node: it creates, renames and drops indexes.
    pub fn compute_node(&self) -> &ComputeNode {
        &self.node
    }

    /// Takes a place for a session of the index called `name` with so many lanes, in the pool `pool`.
    pub(super) fn take_place(&self, pool: &Arc<Pool>, lanes: usize) -> Result<Seat, OpenError> {
        if !Arc::ptr_eq(pool, self.node.pool()) {
            return Err(OpenError::OtherPool);
        }
        let Places { lanes: room, count, ref free } = *self.places;
        if lanes > room {
            return Err(OpenError::Option {
                option: "lanes of a session of this row",
                given: lanes,
                min: 1,
                max: room,
            });
        }
        let place = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(place) = place else { return Err(OpenError::RowFull { sessions: count }) };
        Ok(Seat {
            node: Arc::clone(&self.node),
            first_lane: place * room,
            place: Some((place, Arc::clone(&self.places))),
        })
    }
}

/// Where a session runs: a compute node, and the first of its lanes there.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) node: Arc<ComputeNode>,
    pub(super) first_lane: usize,
    /// `None`: the session has the row alone.
    place: Option<(usize, Arc<Places>)>,
}

impl Seat {
    /// All lanes of a compute node.
    pub(super) fn alone(node: ComputeNode) -> Self {
        Self { node: Arc::new(node), first_lane: 0, place: None }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Lanes that could not be settled stay taken, and nobody knows which they are.
        if let Some((place, places)) = self.place.take()
            && !self.node.has_unsettled()
        {
            places.free.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        }
    }
}
