//! How locks of a B+-tree are taken over: [`crate::recovery::takeover`] over its tables and leaves.

use super::Tree;
use super::leaves::Leaves;
use crate::lane::{Lane, LockRecord};
use crate::locks::kind::LockKind;
use crate::operation::OpError;
use crate::recovery::takeover::{Recoverable, Site};

impl Recoverable for Tree<'_> {
    fn site(&self) -> Option<Site<'_>> {
        self.recovery.map(|recovery| Site {
            recovery,
            geometry: self.geometry,
            owner: self.owner,
            room: &self.scratch.recovery,
        })
    }
}

/// Whether the word of a lock lies in a leaf of the index, and not in a table.
fn is_in_leaf<'s, I: Leaves<'s>>(lock_record: &LockRecord) -> bool {
    I::LeafLocks::IN_NODES && lock_record.lock.in_node()
}

impl<'s> Tree<'s> {
    /// See [`Recoverable::look_after`], of an operation whose
    /// [`Locks::acquire`](crate::locks::protocol::Locks::acquire) ended so.
    pub(crate) async fn look_after<I: Leaves<'s>>(
        &self,
        index: &I,
        lane: &Lane<'_>,
        lock_record: LockRecord,
    ) -> Result<(), OpError> {
        if is_in_leaf::<I>(&lock_record) {
            return index.leaf_locks().look_after(lane, lock_record).await;
        }
        Recoverable::look_after(self, lane, lock_record).await
    }

    /// See [`Site::replay_own`].
    pub(crate) async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        match self.site() {
            Some(site) => site.replay_own(lane, lock_record).await,
            None => Ok(()),
        }
    }
}
