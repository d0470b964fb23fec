//! One look at a pool.

use super::metrics::{self, Values};
use crate::failure::Failure;
use crate::members::{Member, epochs, held_locks, members, on_lane, with_read_access};
use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::lock_word::LockWord;
use dm_core::verbs::NodeId;
use dm_host::pool::{Pool, pool_name};
use dm_host::solo::block_on;
use std::net::SocketAddr;
use std::time::Instant;

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// Pages of metrics.
    pub metrics: &'a [SocketAddr],
}

/// The chunks of a memory node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// All of them.
    pub chunks: u32,
    /// By state, index and kind.
    pub tally: Tally,
}

/// An index of the catalog.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Its number.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When.
    pub at: Instant,
    /// Name of the pool.
    pub pool: String,
    /// Its incarnation.
    pub incarnation: u64,
    /// How often its epoch was raised.
    pub epochs: u64,
    /// Memory nodes, by number.
    pub nodes: Vec<Node>,
    /// Indexes.
    pub indexes: Vec<Index>,
    /// Compute nodes.
    pub members: Vec<Member>,
    /// Locks that are held: memory node, number, word.
    pub locks: Vec<(u16, u32, LockWord)>,
    /// Metrics of all pages.
    pub values: Values,
    /// Pages that did not come, and why.
    pub missing: Vec<String>,
}

impl Source<'_> {
    /// Looks. A page of metrics that does not come is told, and no error: its process may be gone while the pool is there.
    pub(super) fn look(&self) -> Result<Sample, Failure> {
        let pool = self.pool;
        let at = Instant::now();
        let (nodes, members, locks, epochs) = with_read_access(pool, |fabric, lane| {
            let members = members(pool, fabric, lane)?;
            let epochs = epochs(pool, fabric, lane)?;
            let (mut nodes, mut locks) = (Vec::new(), Vec::new());
            for (number, geometry) in (0..).zip(pool.geometry()) {
                let mut tally = Tally::default();
                let mut see = |_, entry| tally.count(entry);
                on_lane(fabric, lane, |fabric, lane| {
                    block_on(fabric, lane, chunks::walk(lane, NodeId(number), geometry, 0, &mut see))
                })
                .map_err(Failure::run)?;
                let held = held_locks(fabric, lane, NodeId(number), geometry)?;
                locks.extend(held.into_iter().map(|(lock, word)| (number, lock, word)));
                nodes.push(Node { chunk_bytes: geometry.chunk_bytes, chunks: geometry.chunk_count, tally });
            }
            Ok((nodes, members, locks, epochs))
        })?;
        let entries = pool.indexes().map_err(Failure::run)?;
        let index = |entry: &dm_core::remote::catalog::IndexEntry| Index {
            number: entry.number.get(),
            name: entry.name().to_owned(),
            kind: entry.kind.name(),
        };
        let (mut values, mut missing) = (Values::new(), Vec::new());
        for address in self.metrics {
            match metrics::fetch(*address) {
                Ok(page) => values.extend(page),
                Err(error) => missing.push(format!("{address}: {error}")),
            }
        }
        let identity = pool.descriptions()[0].identity;
        Ok(Sample {
            at,
            pool: pool_name(identity.pool_id),
            incarnation: identity.pool_incarnation,
            epochs,
            nodes,
            indexes: entries.iter().map(index).collect(),
            members,
            locks,
            values,
            missing,
        })
    }
}
