//! Bulk load: see [`crate::radix`]'s. A record is inserted as by any insert.

use super::Smart;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::OpError;
use crate::radix::attach::{Attach, Attached};
use crate::radix::cursor::Reached;
use crate::radix::descent::Descent;
use crate::radix::tree::{Way, corrupt};

impl Smart<'_> {
    /// Appends the operation's record.
    pub(super) async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        let insert = |way| self.insert_in(lane, way);
        self.tree.bulk_append(lane, &self.bulk, &self.plan.key, insert).await
    }

    /// Inserts the operation's record into a tree that does not have its key.
    async fn insert_in(&self, lane: &Lane<'_>, way: Way) -> Result<(), Interrupt> {
        let mut attempts = 0;
        loop {
            let Reached::Gap(cursor, why) = self.find(lane, &way, false, true).await? else {
                return Err(corrupt(way.root, "a key that was not loaded is there").into());
            };
            if self.attach(lane, &way, (cursor, why), &mut false).await? == Attached::Done {
                return Ok(());
            }
            lane.attempt(&mut attempts, "appending a record")?;
        }
    }

    /// Makes the records visible.
    pub(super) async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        self.tree.bulk_finish(lane, &self.bulk).await
    }
}
