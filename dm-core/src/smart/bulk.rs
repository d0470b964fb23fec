//! Bulk load: see [`crate::radix`]'s. A record is inserted as by any insert, except where its descent begins. Keys ascend, so
//! most records belong to the node that took the one before: that node is READ first, and the root only if it is another one.
//!
//! No other lane knows of the tree before the load ends. So the slot that leads to that node stays what it was until this load
//! replaces the node, or puts one above it.

use super::Smart;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::OpError;
use crate::radix::attach::{Attach, Attached};
use crate::radix::cursor::{DescentCursor, Reached, Why};
use crate::radix::descent::Descent;
use crate::radix::look::Look;
use crate::radix::tree::{Way, corrupt};

impl Smart<'_> {
    /// Appends the operation's record.
    pub(super) async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        let insert = |way| self.insert_in(lane, way);
        self.tree.bulk_append(lane, &self.bulk, &self.plan.key, insert).await
    }

    /// Inserts the operation's record into a tree that does not have its key. If this fails, no node is open.
    async fn insert_in(&self, lane: &Lane<'_>, way: Way) -> Result<(), Interrupt> {
        let open = self.open.lock().take();
        let mut near = self.reach_near(lane, &way, open).await?;
        let mut attempts = 0;
        loop {
            let reached = match near.take() {
                Some(reached) => reached,
                None => self.find(lane, &way, false, true).await?,
            };
            let Reached::Gap(cursor, why) = reached else {
                return Err(corrupt(way.root, "a key that was not loaded is there").into());
            };
            let stays = match why {
                Why::Slot(_, Some(taken)) if !self.tree.is_filled(&way, &cursor, taken.into()) => Some(cursor),
                Why::Leaf(..) => open.filter(|open| open.word == cursor.owner),
                Why::Slot(..) | Why::Header(_) | Why::Empty => None,
            };
            if self.attach(lane, &way, (cursor, why), &mut false).await? == Attached::Done {
                *self.open.lock() = stays;
                return Ok(());
            }
            lane.attempt(&mut attempts, "appending a record")?;
        }
    }

    /// Looks for the operation's key in the node that `open` leads to. `None`: it does not belong there, or its byte has a slot.
    async fn reach_near(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        open: Option<DescentCursor>,
    ) -> Result<Option<Reached>, Interrupt> {
        let Some(open) = open else { return Ok(None) };
        let Some(node) = open.word.below() else { return Ok(None) };
        let is_below = lane.port().with(|scratch| {
            let [key, last] = [&self.plan.key, &self.tree.scratch.last].map(|range| scratch.get(range.clone()));
            let [key, last] = [key, last].map(|bytes| bytes.and_then(|bytes| bytes.get(..usize::from(open.depth))));
            key.is_some() && key == last
        });
        if !is_below {
            return Ok(None);
        }
        let looked = self.tree.look(lane, way, &self.plan.key, &open, node).await?;
        let Look::Missing { empty, .. } = looked else { return Ok(None) };
        Ok(Some(Reached::Gap(open, Why::Slot(node.1, empty.map(|at| at as u16)))))
    }

    /// Makes the records visible.
    pub(super) async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        self.open.lock().take();
        self.tree.bulk_finish(lane, &self.bulk).await
    }
}
