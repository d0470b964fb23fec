//! How locks of a B+-tree are taken over: [`crate::recovery::takeover`] over its tables and leaves.

use super::Tree;
use super::leaves::Leaves;
use crate::lane::{Debt, Lane};
use crate::locks::protocol::Locks;
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
fn is_in_leaf<'s, I: Leaves<'s>>(debt: &Debt) -> bool {
    I::LeafLocks::IN_NODES && debt.lock.in_node()
}

impl<'s> Tree<'s> {
    /// See [`Recoverable::look_after`], of an operation whose [`Locks::acquire`] ended so.
    pub(crate) async fn look_after<I: Leaves<'s>>(
        &self,
        index: &I,
        lane: &Lane<'_>,
        debt: Debt,
    ) -> Result<(), OpError> {
        if is_in_leaf::<I>(&debt) {
            return index.leaf_locks().look_after(lane, debt).await;
        }
        Recoverable::look_after(self, lane, debt).await
    }

    /// See [`Site::replay_own`].
    pub(crate) async fn replay_own(&self, lane: &Lane<'_>, debt: &Debt) -> Result<(), OpError> {
        match self.site() {
            Some(site) => site.replay_own(lane, debt).await,
            None => Ok(()),
        }
    }
}
