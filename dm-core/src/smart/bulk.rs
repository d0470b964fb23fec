//! Bulk load: ascending records into an empty index.
//!
//! The records are inserted, as by any insert, into a tree of their own, whose root slot is 16 bytes that no other
//! compute node knows. Nothing is visible until the index's root slot is set to its word.

use super::Smart;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::{Cause, OpError};
use crate::radix::attach::{Attach, Attached};
use crate::radix::cursor::Reached;
use crate::radix::descent::Descent;
use crate::radix::slot::{Place, Slot, UNIT_BYTES, word};
use crate::radix::tree::{Way, corrupt, published};
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};

/// A bulk load under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BulkLoad {
    /// The root slot of what was loaded so far; `None`: nothing was.
    root: Option<Place>,
    /// An append failed half-way, or its future was dropped.
    broken: bool,
}

const BROKEN: OpError = OpError::harmless(Cause::BadInput("the bulk load failed earlier: nothing of it is kept"));

impl Smart<'_> {
    /// Appends the operation's record.
    pub(super) async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.pin(lane);
        let mut load = *self.bulk.lock();
        if load.broken {
            return Err(BROKEN);
        }
        // It stays so if this future is dropped.
        self.bulk.lock().broken = true;
        let result = self.append_to(lane, &mut load).await;
        *self.bulk.lock() = load;
        result.map_err(Interrupt::into_error)
    }

    async fn append_to(&self, lane: &Lane<'_>, load: &mut BulkLoad) -> Result<(), Interrupt> {
        let port = lane.port();
        let last = self.tree.scratch.last.clone();
        let root = if let Some(root) = load.root {
            if !port.with(|scratch| scratch.get(self.plan.key.clone()) > scratch.get(last.clone())) {
                return Err(OpError::harmless(Cause::BadInput("keys of a bulk load must ascend")).into());
            }
            root
        } else {
            if !self.tree.read_root(lane, &self.tree.way()).await?.word.is_empty() {
                return Err(OpError::harmless(Cause::BadInput("a bulk load needs an empty index")).into());
            }
            if let Some(collection) = self.tree.space.collection() {
                collection.loads(true);
            }
            let root = self.tree.carve(lane, false, NodeClass::Inner, self.tree.root.node(), UNIT_BYTES).await?;
            port.call(Request::write_word(Label::Bulk, root.node(), root.offset(), Slot::EMPTY.0)).await?;
            load.root = Some(root);
            root
        };
        load.broken = true;
        let way = Way { root, copies: false, patient: false };
        let mut attempts = 0;
        loop {
            let Reached::Gap(cursor, why) = self.find(lane, &way, false, true).await? else {
                return Err(corrupt(root, "a key that was not loaded is there").into());
            };
            if self.attach(lane, &way, (cursor, why), &mut false).await? == Attached::Done {
                break;
            }
            lane.attempt(&mut attempts, "appending a record")?;
        }
        port.with(|scratch| {
            let key = self.plan.key.clone();
            if last.end <= scratch.len() && key.end <= scratch.len() {
                scratch.copy_within(key, last.start);
            }
        });
        load.broken = false;
        Ok(())
    }

    /// Makes the records visible.
    pub(super) async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.pin(lane);
        let load = core::mem::take(&mut *self.bulk.lock());
        if load.broken {
            return Err(BROKEN);
        }
        let Some(root) = load.root else { return Ok(()) };
        let (port, at) = (lane.port(), self.tree.scratch.small);
        port.call(Request::read(Label::Bulk, root.node(), root.offset(), 8, at)).await?;
        let to = port.with(|scratch| word(scratch, at));
        let cas = Request::cas(Label::Root, self.tree.root.node(), self.tree.root.offset(), Slot::EMPTY.0, to);
        let found = port.call(cas).await.map_err(published)?.value;
        self.tree.space.put(NodeClass::Inner, root, UNIT_BYTES);
        if found != Slot::EMPTY.0 {
            return Err(OpError::harmless(Cause::BadInput("the index got a root while it was bulk loaded")));
        }
        if let Some(collection) = self.tree.space.collection() {
            collection.loads(false);
        }
        self.tree.cache.set_root(Slot(to), self.tree.epoch(lane));
        Ok(())
    }
}
