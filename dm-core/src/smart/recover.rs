//! WRITEs under the lock of a leaf, and what [`crate::recovery`] needs to know of SMART.
//!
//! Only leaves need recovery. Whatever else a dead compute node leaves is whole: a slot has changed or it has not; no
//! operation reaches a node or a leaf that no slot leads to; and an operation that needs a node which the dead compute
//! node had begun to freeze replaces it ([`crate::radix`]).
//!
//! **What a crash leaves in a leaf.** Its lock word; and, if the crash came during the WRITE of seal and value, a
//! mixture of two WRITEs, even of parts of a line. No seal fits a mixture, so readers detect it. They ask for the lock,
//! take it over, and replay the redo record that went ahead of the WRITE. A WRITE that lands all or nothing has no redo
//! record.
//!
//! **Sweeping.** Leaves lie one behind the other from the first byte of their chunks on. So a walk over the places in
//! all chunks for leaves finds every lock word, also of leaves that no slot leads to. Where no leaf was ever written,
//! bytes are zero.

use super::Smart;
use crate::index::{catalog, owners};
use crate::lane::Lane;
use crate::locks::protocol::Held;
use crate::membership::redo::Writes;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::radix::slot::Place;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::lock_word::RowId;
use crate::verbs::{Label, NodeId, Request};

impl Smart<'_> {
    /// Pushes the WRITE of the first `bytes` of leaf image 0 to the leaf that is held, behind a redo record if it may
    /// land in part.
    pub(super) fn push_in_place(&self, lane: &Lane<'_>, held: &Held, bytes: usize) -> Result<(), OpError> {
        let port = lane.port();
        let (node, offset, at) =
            (held.protects.node(), Place::of(held.protects).offset(), self.tree.scratch.leaf(0).at);
        let write = Request::write(Label::Entry, node, offset, bytes, at);
        if planted(Mutant::IMAGE_AFTER_DATA) {
            port.push(write);
        }
        if let Some(recovery) = self.recovery
            && let Some(lock_record) = lane.holds(held.lock)
            && (lock_record.has_redo_record || recovery.may_tear(offset, bytes))
        {
            recovery.push_redo_record(lane, lock_record, node, Writes::one(offset, bytes), at)?;
        }
        if !planted(Mutant::IMAGE_AFTER_DATA) {
            port.push(write);
        }
        lane.wrote_in_place();
        Ok(())
    }
}

impl Sweep for Smart<'_> {
    type Tables = Self;

    type Leaves = Self;

    fn site(&self) -> Option<Site<'_>> {
        Recoverable::site(self)
    }

    fn number(&self) -> IndexNumber {
        self.tree.number
    }

    fn tables(&self) -> Option<&Self> {
        None
    }

    fn leaves(&self) -> Option<(&Self, usize)> {
        Some((self, self.leaf.place_bytes))
    }

    fn leaf_at(&self, node: NodeId, offset: u64) -> Address {
        Place::new(node, offset).address()
    }

    /// All others: their locks may lie in tables, too.
    async fn others(&self, lane: &Lane<'_>) -> Result<IndexSet, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(IndexSet::default()) };
        catalog::numbers(lane, home, self.tree.scratch.small, |entry| entry.number != self.tree.number).await
    }

    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(false) };
        owners::keeps_row(lane, home, row, self.tree.scratch.small).await
    }
}
