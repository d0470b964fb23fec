//! Giving an index another name, and taking back what departed compute nodes began with the catalog.
//!
//! Others may have the index open, and go on: they know it by its number. [`catalog::rename`] says how two compute nodes
//! that give and take names at once stay out of each other's way.

use super::{Changing, ComputeNode, Membership};
use crate::pool::{Pool, PoolError};
use crate::solo::block_on;
use dm_core::index::catalog;
use dm_core::memory::rows;
use dm_core::remote::catalog::{EntryWord, is_name};
use std::sync::Arc;

impl Pool {
    /// Gives the index called `from` the name `to`, as a compute node that joins for it. See
    /// [`ComputeNode::rename_index`].
    pub fn rename_index(self: &Arc<Self>, from: &str, to: &str) -> Result<(), PoolError> {
        // Before the join, which takes several round trips.
        check_names(from, to)?;
        self.join(1, Membership { recovery: false, ..Membership::default() })?.rename_index(from, to)
    }
}

impl ComputeNode {
    /// Gives the index called `from` the name `to`. Sessions that have it open go on. A session that opens it meanwhile
    /// finds it by one of the two names.
    ///
    /// Fails and changes nothing if there is an index called `to`, if the name is empty, longer than 47 bytes or has
    /// control characters, or if every entry of the catalog is in use: the new name needs one for a moment.
    ///
    /// If this compute node dies meanwhile, the index has one of the two names, and the next change of the catalog by any
    /// compute node cleans up.
    pub fn rename_index(&self, from: &str, to: &str) -> Result<(), PoolError> {
        check_names(from, to)?;
        let mut changing = self.changing();
        self.put_back_begun(&mut changing)?;
        let number = self.pool.find_entry(from)?.number;
        let by = (self.member, changing.next());
        let renamed = self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::rename(lane, self.pool.home(), by, number, (from, to), 0))
        })??;
        if renamed { Ok(()) } else { Err(PoolError::NoIndex { name: from.to_owned(), known: Vec::new() }) }
    }

    /// Takes back what others began to create or to rename and did not live to finish, and what this compute node did
    /// not finish for an error.
    pub(super) fn put_back_begun(&self, changing: &mut Changing<'_>) -> Result<(), PoolError> {
        let home = self.pool.home();
        let mut begun = Vec::new();
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::list_begun(lane, home, 0, &mut |number, word| begun.push((number, word))))
        })??;
        for entry in begun {
            if self.may_go_on(entry.1)? {
                let by = (self.member, changing.next());
                self.pool
                    .with_lane(|fabric, lane| block_on(fabric, lane, catalog::put_back(lane, home, entry, by)))??;
            }
        }
        Ok(())
    }

    /// Whether nothing that the compute node in `word` posted takes effect any more: its row is gone. This compute node
    /// itself does one thing at a time with the catalog ([`Changing`]).
    pub(super) fn may_go_on(&self, word: EntryWord) -> Result<bool, PoolError> {
        if word.row() == self.member.row && u32::from(word.incarnation()) == self.member.incarnation {
            return Ok(true);
        }
        let row = self
            .pool
            .with_lane(|fabric, lane| block_on(fabric, lane, rows::tenant(lane, self.pool.home(), word.row(), 0)))??;
        Ok(row.is_some_and(|row| row.is_gone(word.incarnation())))
    }
}

fn check_names(from: &str, to: &str) -> Result<(), PoolError> {
    match [from, to].into_iter().find(|name| !is_name(name)) {
        Some(name) => Err(PoolError::IndexName { name: name.to_owned() }),
        None => Ok(()),
    }
}
