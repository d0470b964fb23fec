//! Dropping an index, and making one empty.
//!
//! An index is dropped only if no other compute node has it open: those would go on writing into memory that others are
//! granted. [`catalog::drop_index`] says why none opens it unseen. Who has it open:
//!
//! - A compute node that opened an index with recovery lists in the pool what it has open ([`redo`]).
//! - One that joined through this [`Pool`] says what it has open to the pool.
//! - Of any other, in another process and without recovery, nothing is known: it counts as a user.
//!
//! A compute node that died counts until its row is free: then its locks are released, and nothing that it posted can
//! take effect.

use super::{Changing, ComputeNode, Membership};
use crate::kinds::IndexParameters;
use crate::pool::{InUse, Pool, PoolError};
use crate::solo::block_on;
use dm_core::index::catalog;
use dm_core::membership::redo;
use dm_core::memory::erase::erase;
use dm_core::memory::rows;
use dm_core::operation::OpError;
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::catalog::{Definition, EntryState, EntryWord, IndexEntry, IndexNumber};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::RowState;
use dm_core::verbs::NodeId;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Zeros that one WRITE brings.
const ZERO_BYTES: usize = 64 << 10;

/// How often a drop looks again at a compute node that has joined and not said what it opens, with [`PAUSE`] between:
/// longer than joining and opening take.
const LOOKS: u32 = 20;

const PAUSE: Duration = Duration::from_millis(20);

impl Pool {
    /// Drops the index called `name`, as a compute node that joins for it. See [`ComputeNode::drop_index`].
    pub fn drop_index(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        self.join(1, Membership::default())?.drop_index(name)
    }

    /// Makes the index called `name` empty, as a compute node that joins for it. See [`ComputeNode::truncate_index`].
    pub fn truncate_index(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        self.join(1, Membership::default())?.truncate_index(name)
    }
}

impl ComputeNode {
    /// Drops the index called `name`: its records are gone, and its memory is free. Fails with [`PoolError::InUse`] and
    /// changes nothing if it is open, also in this process. Before, it finishes drops that others began and did not live
    /// to finish.
    ///
    /// If this compute node dies meanwhile, or a request fails, the index is either as it was or not there any more, and
    /// the next drop of any index gives back what is left of its memory.
    pub fn drop_index(&self, name: &str) -> Result<(), PoolError> {
        let mut changing = self.changing();
        self.finish_drops(&mut changing)?;
        let entry = self.pool.find_entry(name)?;
        self.drop_entry(&entry, &mut changing)
    }

    /// Makes the index called `name` empty: drops it, and creates one with the same parameters. In between, no index has
    /// this name; a death there leaves none.
    pub fn truncate_index(&self, name: &str) -> Result<(), PoolError> {
        let mut changing = self.changing();
        self.finish_drops(&mut changing)?;
        let entry = self.pool.find_entry(name)?;
        // The new index would have no boundaries, if they were given.
        IndexParameters::of(&entry)
            .and_then(|parameters| parameters.table(entry.number, 0, &[]))
            .map_err(|source| PoolError::Parameters { name: name.to_owned(), source })?;
        self.drop_entry(&entry, &mut changing)?;
        let definition = Definition {
            name,
            kind: entry.kind,
            parameters_version: entry.parameters_version,
            parameters: entry.parameters,
            features: entry.features,
        };
        self.create_defined(&definition, &mut changing)
    }

    /// Finishes what others began to drop and did not live to finish, and what this compute node did not finish for an
    /// error.
    fn finish_drops(&self, changing: &mut Changing<'_>) -> Result<(), PoolError> {
        self.put_back_begun(changing)?;
        let mut found = Vec::new();
        self.pool.with_lane(|fabric, lane| {
            let mut visit = |entry: &IndexEntry, word: EntryWord| found.push((*entry, word));
            block_on(fabric, lane, catalog::list_dropped(lane, self.pool.home(), 0, &mut visit))
        })??;
        for (entry, word) in found {
            let Some(state) = word.state() else { continue };
            if !self.may_go_on(word)? {
                continue;
            }
            let mine = word.taken(state, changing.next(), self.member);
            if self.change(entry.number, word, mine)? {
                match self.finish_drop(&entry, mine) {
                    // The index is in use after all, and live again.
                    Err(PoolError::InUse { .. }) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    pub(super) fn drop_entry(&self, entry: &IndexEntry, changing: &mut Changing<'_>) -> Result<(), PoolError> {
        // First without a trace, so that only an index that is opened just now is missing for a moment.
        self.check_unused(entry)?;
        let by = (self.member, changing.next());
        let dropped = self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::drop_index(lane, self.pool.home(), entry.number, by, 0))
        })??;
        match dropped {
            Some(word) => self.finish_drop(entry, word),
            None => Err(PoolError::NoIndex { name: entry.name().to_owned(), known: Vec::new() }),
        }
    }

    /// A step of a drop.
    fn change(&self, number: IndexNumber, seen: EntryWord, next: EntryWord) -> Result<bool, PoolError> {
        Ok(self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::change(lane, self.pool.home(), number, seen, next))
        })??)
    }

    /// Goes on with a drop whose entry word is `word`, which names this compute node.
    fn finish_drop(&self, entry: &IndexEntry, word: EntryWord) -> Result<(), PoolError> {
        let erasing = word.with_state(EntryState::Erasing);
        if word != erasing {
            if let Err(error) = self.check_unused(entry) {
                self.change(entry.number, word, word.with_state(EntryState::Live))?;
                return Err(error);
            }
            if !self.change(entry.number, word, erasing)? {
                return Err(PoolError::InUse { name: entry.name().to_owned(), row: word.row().0, why: InUse::Fenced });
            }
        }
        for (number, geometry) in self.pool.geometry().iter().enumerate() {
            let node = (NodeId(number as u16), geometry);
            let zeros = SCRATCH_BYTES..SCRATCH_BYTES + ZERO_BYTES;
            let erased = self.pool.with_lane_of_bytes(zeros.end, |fabric, lane| {
                block_on(fabric, lane, erase(lane, node, entry.number, self.member, &self.requests, zeros))
            })?;
            let failed = |source: OpError| PoolError::Erase { name: entry.name().to_owned(), source };
            let erased = erased.map_err(failed)?;
            if erased.lost > 0 {
                return Err(PoolError::InUse { name: entry.name().to_owned(), row: word.row().0, why: InUse::Fenced });
            }
        }
        self.change(entry.number, erasing, EntryWord::FREE).map(drop)
    }

    /// Fails if any compute node may have the index open.
    fn check_unused(&self, entry: &IndexEntry) -> Result<(), PoolError> {
        for look in 1.. {
            match self.user_of(entry.number)? {
                None => break,
                Some((_, InUse::Unknown)) if look < LOOKS => thread::sleep(PAUSE),
                Some((row, why)) => return Err(PoolError::InUse { name: entry.name().to_owned(), row: row.0, why }),
            }
        }
        Ok(())
    }

    fn user_of(&self, number: IndexNumber) -> Result<Option<(RowId, InUse)>, PoolError> {
        // Rows before chunks: a compute node that joins after this look finds the entry dropped.
        let rows = self.pool.with_lane(|fabric, lane| {
            let mut rows = Vec::new();
            for row in 1..self.pool.home().row_count {
                let row = RowId(row as u16);
                if let Some(word) = block_on(fabric, lane, rows::tenant(lane, self.pool.home(), row, 0))?
                    && word.state() != Some(RowState::Free)
                {
                    rows.push((row, word));
                }
            }
            Ok::<_, PoolError>(rows)
        })??;
        let opened = self.pool.opened();
        for (row, word) in rows {
            let member = (row, word.incarnation());
            let listed = self.pool.with_lane(|fabric, lane| {
                block_on(fabric, lane, redo::open_indexes(lane, self.pool.home(), member, 0))
            })??;
            let known = opened.get(&member).map(|known| known.contains(&number));
            match (known, listed.map(|listed| listed.contains(number))) {
                (Some(true), _) | (_, Some(true)) => return Ok(Some((row, InUse::Open))),
                (None, None) => return Ok(Some((row, InUse::Unknown))),
                _ => {}
            }
        }
        Ok(None)
    }
}
