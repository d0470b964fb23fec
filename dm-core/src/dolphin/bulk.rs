//! Bulk load: see [`crate::radix`]'s. A record is inserted as by any insert; since keys ascend, cuts leave full leaves
//! behind ([`super::population::cut`]).

use super::Dolphin;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::{OpError, OperationKind, Outcome};
use crate::radix::tree::{Way, corrupt};

impl Dolphin<'_> {
    /// Appends the operation's record.
    pub(super) async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        let insert = |way| self.insert_in(lane, way);
        self.tree.bulk_append(lane, &self.bulk, &self.plan.key, insert).await
    }

    /// Inserts the operation's record into a tree that does not have its key.
    async fn insert_in(&self, lane: &Lane<'_>, way: Way) -> Result<(), Interrupt> {
        match self.write_in(lane, &way, OperationKind::Insert).await? {
            Outcome::Inserted => Ok(()),
            _ => Err(corrupt(way.root, "a key that was not loaded is there").into()),
        }
    }

    /// Makes the records visible.
    pub(super) async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        self.tree.bulk_finish(lane, &self.bulk).await
    }
}
