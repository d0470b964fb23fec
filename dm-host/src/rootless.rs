//! An index whose root word is 0: new, or damaged.
//!
//! The catalog entry of an index begins with a root word of 0. The first insert, or the end of a bulk load, sets it,
//! and it is never 0 again. So 0 in the entry of an index that has memory has one of two causes:
//!
//! - No compute node has set it yet: one died before that step, or is about to set it.
//! - It was overwritten. An index taken for empty would read as if all records were deleted, and the next insert would
//!   begin a new tree.
//!
//! The chunks that are granted to the index show which. A **B+-tree** had a root if one of its nodes covers all keys:
//! not retired, from the lowest key on, without a high fence, and with children or records. A bulk load writes that
//! node last, and its next step sets the root word. The first leaf of an index has no record before the root word is
//! set. So such a node is proof, except for one round trip at the end of a bulk load.
//!
//! For a **radix tree** there is no proof: a bulk load whose compute node dies leaves the same memory as a lost root.
//! Leaves with records, in chunks of departed compute nodes, are a reason to doubt. A program that reads the whole
//! index gets the doubt as an error ([`Pool::lost_root`]); a program that opens it does not ([`Pool::check_root`]),
//! since after a load that died the index is as good as new.

use crate::fabric::any::AnyFabric;
use crate::kinds::IndexParameters;
use crate::pool::{Pool, PoolError, RootLost};
use crate::solo::block_on;
use dm_core::error::VerbError;
use dm_core::lane::Lane;
use dm_core::memory::chunks;
use dm_core::remote::catalog::IndexEntry;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use dm_core::remote::row::RowState;
use dm_core::verbs::{Label, LaneId, NodeId, Request};

/// Bytes per READ.
const WINDOW_BYTES: usize = 64 << 10;

impl Pool {
    /// Refuses an index that has certainly lost its root. A program that opens an index calls this first.
    ///
    /// No round trip if `entry` has a root. If the index has no root and no memory, one round trip for each line of the
    /// chunk tables.
    pub fn check_root(&self, entry: &IndexEntry, parameters: &IndexParameters) -> Result<(), PoolError> {
        match self.lost_root(entry, parameters)? {
            Some(source @ RootLost::Certain { .. }) => {
                Err(PoolError::RootLost { name: entry.name().to_owned(), source })
            }
            _ => Ok(()),
        }
    }

    /// Whether an index has lost its root, certainly or possibly.
    pub fn lost_root(&self, entry: &IndexEntry, parameters: &IndexParameters) -> Result<Option<RootLost>, PoolError> {
        if entry.root != 0 {
            return Ok(None);
        }
        let mut fabric = self.fabric()?;
        let mut scratch = vec![0; WINDOW_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let found = self.look(&mut fabric, &lane, entry, parameters)?;
        drop(lane);
        // Another compute node may have set the root word meanwhile.
        let is_as_it_was = || self.find_index(entry.name()).map(|(now, _)| now.number == entry.number && now.root == 0);
        Ok(match found {
            Some(lost) if is_as_it_was()? => Some(lost),
            _ => None,
        })
    }

    fn look(
        &self,
        fabric: &mut AnyFabric,
        lane: &Lane<'_>,
        entry: &IndexEntry,
        parameters: &IndexParameters,
    ) -> Result<Option<RootLost>, PoolError> {
        for (number, geometry) in (0..).zip(self.geometry()) {
            let node = NodeId(number);
            let mut granted = Vec::new();
            let mut see = |chunk, found| {
                if let Ok(ChunkEntry::Granted(grant)) = found
                    && grant.index == entry.number
                    && matches!(grant.kind, ChunkKind::Leaf | ChunkKind::Inner)
                {
                    granted.push((chunk, grant));
                }
            };
            block_on(fabric, lane, chunks::walk(lane, node, geometry, 0, &mut see))?;
            for (chunk, grant) in granted {
                let Some(places) = parameters.evidence(entry.number, grant.kind) else { continue };
                if places.doubtful && self.lives(fabric, lane, &grant)? {
                    // Its compute node may be in the middle of a bulk load.
                    continue;
                }
                let start = geometry.chunk_offset(chunk);
                let all = geometry.chunk_bytes / places.bytes as u64;
                let window = (WINDOW_BYTES / places.bytes) as u64;
                let mut first = 0;
                while window > 0 && first < all {
                    let count = window.min(all - first);
                    let (offset, bytes) = (start + first * places.bytes as u64, count as usize * places.bytes);
                    block_on(fabric, lane, lane.port().call(Request::read(Label::Tool, node, offset, bytes, 0)))?;
                    let found = lane.port().with(|scratch| {
                        let images = scratch.get(..bytes).unwrap_or_default().chunks_exact(places.bytes);
                        (0..).zip(images).find(|(_, image)| (places.is_it)(image)).map(|(at, _)| at)
                    });
                    if let Some(at) = found {
                        let at: u64 = at;
                        let offset = offset + at * places.bytes as u64;
                        return Ok(Some(if places.doubtful {
                            RootLost::Doubtful { node, offset }
                        } else {
                            RootLost::Certain { node, offset }
                        }));
                    }
                    first += count;
                }
            }
        }
        Ok(None)
    }

    /// Whether the compute node that a chunk was granted to is still in the pool.
    fn lives(&self, fabric: &mut AnyFabric, lane: &Lane<'_>, grant: &Grant) -> Result<bool, VerbError> {
        let tenant = block_on(fabric, lane, dm_core::memory::rows::tenant(lane, self.home(), grant.row, 0))?;
        Ok(tenant
            .is_some_and(|word| word.state() == Some(RowState::Live) && word.incarnation() as u16 == grant.incarnation))
    }
}
