//! How locks of a B+-tree are taken over: [`crate::recovery::takeover`] over its tables and leaves.

use super::Tree;
use super::leaves::Leaves;
use crate::lane::{Debt, Lane};
use crate::locks::table::LockTable;
use crate::operation::{Cause, OpError};
use crate::recovery::takeover::{Guarded, Site};
use crate::remote::lock_word::{LockId, LockWord};
use crate::verbs::{Label, NodeId, Request, Space};

/// The locks of a B+-tree.
struct TreeLocks<'a, 's, I> {
    tree: &'a Tree<'s>,
    index: &'a I,
}

impl<'s, I: Leaves<'s>> Guarded for TreeLocks<'_, 's, I> {
    fn site(&self) -> Option<Site<'_>> {
        self.tree.site()
    }

    fn queue(&self, lock: LockId) -> Option<(&LockTable<'_>, LockId)> {
        self.tree.options.hierarchical.then(|| self.index.queue_of(lock))
    }

    fn word_place(&self, debt: &Debt) -> (NodeId, u64, Space) {
        self.tree.word_place(debt)
    }

    fn word_request(&self, label: Label, debt: &Debt, compare: u64, swap: u64) -> Request {
        self.tree.word_request(label, debt, compare, swap)
    }

    fn word_for(&self, lane: &Lane<'_>, lock: LockId) -> Result<u64, OpError> {
        self.tree.word_for(lane, lock)
    }

    async fn free_word(&self, lane: &Lane<'_>, debt: &Debt) -> Result<u64, OpError> {
        self.index.free_word(lane, debt).await
    }

    fn leave(&self, lane: &Lane<'_>, lock: LockId) {
        self.tree.leave(lane, lock, self.index.queue_of(lock));
    }
}

impl<'s> Tree<'s> {
    /// What recoveries work with.
    pub(super) fn site(&self) -> Option<Site<'_>> {
        self.recovery.map(|recovery| Site {
            recovery,
            geometry: self.geometry,
            owner: self.owner,
            room: &self.scratch.recovery,
        })
    }

    /// See [`Guarded::look_after`], of an operation whose [`Tree::acquire`] ended so.
    pub(crate) async fn look_after(&self, index: &impl Leaves<'s>, lane: &Lane<'_>, debt: Debt) -> Result<(), OpError> {
        TreeLocks { tree: self, index }.look_after(lane, debt).await
    }

    /// See [`Guarded::recover`].
    pub(crate) async fn recover(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        debt: Debt,
        dead: LockWord,
        incarnation: u32,
    ) -> Result<(), OpError> {
        match self.site() {
            Some(site) => TreeLocks { tree: self, index }.recover(lane, site, debt, dead, incarnation).await,
            None => Ok(()),
        }
    }

    /// See [`Site::replay_own`].
    pub(crate) async fn replay_own(&self, lane: &Lane<'_>, debt: &Debt, word: u64) -> Result<(), OpError> {
        match self.site() {
            Some(site) => site.replay_own(lane, debt, word).await,
            None => Ok(()),
        }
    }

    /// All lock words of this incarnation have been used.
    pub(crate) const fn used_up() -> OpError {
        OpError::harmless(Cause::BadInput("this incarnation has used all its lock words: join anew"))
    }
}
