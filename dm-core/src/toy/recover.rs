//! What follows a death: the lock is taken over. There is nothing to repair.

use super::Toy;
use crate::index::{catalog, owners};
use crate::lane::Lane;
use crate::operation::OpError;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::lock_word::RowId;

impl Recoverable for Toy<'_> {
    fn site(&self) -> Option<Site<'_>> {
        let (geometry, owner, room) = (self.parts.geometry, self.parts.owner, &self.scratch.recovery);
        self.parts.recovery.map(|recovery| Site { recovery, geometry, owner, room })
    }
}

impl Sweep for Toy<'_> {
    type Tables = Self;

    type Leaves = Self;

    fn site(&self) -> Option<Site<'_>> {
        Recoverable::site(self)
    }

    fn number(&self) -> IndexNumber {
        self.parts.number
    }

    fn tables(&self) -> Option<&Self> {
        Some(self)
    }

    fn leaves(&self) -> Option<(&Self, usize)> {
        None
    }

    /// All others: their locks may lie in leaves.
    async fn others(&self, lane: &Lane<'_>) -> Result<IndexSet, OpError> {
        catalog::numbers(lane, self.home()?, self.scratch.small, |entry| entry.number != self.parts.number).await
    }

    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        owners::keeps_row(lane, self.home()?, row, self.scratch.small).await
    }
}
