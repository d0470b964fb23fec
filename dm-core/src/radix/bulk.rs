//! Bulk load: ascending records into an empty index.
//!
//! The records are inserted, as by any insert, into a tree of their own, whose root slot is 16 bytes that no other
//! compute node knows. Nothing is visible until the index's root slot is set to its word. While a load is under way, a
//! collection by mark-and-sweep knows that it does not reach everything that is in use.

use super::slot::{Place, Slot, UNIT_BYTES, word};
use super::tree::{Tree, Way, published};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::{Cause, OpError};
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};
use core::future::Future;
use core::ops::Range;
use spin::Mutex;

/// A bulk load under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkLoad {
    /// The root slot of what was loaded so far; `None`: nothing was.
    root: Option<Place>,
    /// An append failed half-way, or its future was dropped.
    broken: bool,
}

const BROKEN: OpError = OpError::harmless(Cause::BadInput("the bulk load failed earlier: nothing of it is kept"));

impl Tree<'_> {
    /// Appends the record whose key is at scratch range `key`: `insert` inserts it into the tree that it is given.
    pub(crate) async fn bulk_append<F>(
        &self,
        lane: &Lane<'_>,
        loads: &Mutex<BulkLoad>,
        key: &Range<usize>,
        insert: impl FnOnce(Way) -> F,
    ) -> Result<(), OpError>
    where
        F: Future<Output = Result<(), Interrupt>>,
    {
        let mut load = *loads.lock();
        if load.broken {
            return Err(BROKEN);
        }
        // It stays so if this future is dropped.
        loads.lock().broken = true;
        let result = self.append_to(lane, &mut load, key, insert).await;
        if load.broken {
            self.lose_load();
        }
        *loads.lock() = load;
        result.map_err(Interrupt::into_error)
    }

    async fn append_to<F>(
        &self,
        lane: &Lane<'_>,
        load: &mut BulkLoad,
        key: &Range<usize>,
        insert: impl FnOnce(Way) -> F,
    ) -> Result<(), Interrupt>
    where
        F: Future<Output = Result<(), Interrupt>>,
    {
        let port = lane.port();
        let last = self.scratch.last.clone();
        let root = if let Some(root) = load.root {
            if !port.with(|scratch| scratch.get(key.clone()) > scratch.get(last.clone())) {
                return Err(OpError::harmless(Cause::BadInput("keys of a bulk load must ascend")).into());
            }
            root
        } else {
            if !self.read_root(lane, &self.way()).await?.word.is_empty() {
                return Err(OpError::harmless(Cause::BadInput("a bulk load needs an empty index")).into());
            }
            if let Some(collection) = self.space.collection() {
                collection.loads(true);
            }
            let root = self.carve(lane, false, NodeClass::Inner, self.root.node(), UNIT_BYTES).await?;
            port.call(Request::write_word(Label::Bulk, root.node(), root.offset(), Slot::EMPTY.0)).await?;
            load.root = Some(root);
            root
        };
        load.broken = true;
        insert(Way { root, copies: false, patient: false }).await?;
        port.with(|scratch| {
            if last.end <= scratch.len() && key.end <= scratch.len() {
                scratch.copy_within(key.clone(), last.start);
            }
        });
        load.broken = false;
        Ok(())
    }

    /// A load cannot continue, and no root will lead to what it has carved: that is what a collection looks for. It waits for
    /// an epoch to pass, so for what lanes of this load may still have under way.
    fn lose_load(&self) {
        if let Some(collection) = self.space.collection() {
            collection.loads(false);
            collection.demand();
        }
    }

    /// Makes the records visible.
    pub(crate) async fn bulk_finish(&self, lane: &Lane<'_>, loads: &Mutex<BulkLoad>) -> Result<(), OpError> {
        let load = core::mem::take(&mut *loads.lock());
        if load.broken {
            self.lose_load();
            return Err(BROKEN);
        }
        let Some(root) = load.root else { return Ok(()) };
        let (port, at) = (lane.port(), self.scratch.small);
        port.call(Request::read(Label::Bulk, root.node(), root.offset(), 8, at)).await?;
        let to = port.with(|scratch| word(scratch, at));
        let sealed = Slot(to).in_root();
        let cas = Request::cas(Label::Root, self.root.node(), self.root.offset(), Slot::EMPTY.0, sealed);
        let found = port.call(cas).await.map_err(published)?.value;
        self.space.put(NodeClass::Inner, root, UNIT_BYTES);
        if found != Slot::EMPTY.0 {
            self.lose_load();
            return Err(OpError::harmless(Cause::BadInput("the index got a root while it was bulk loaded")));
        }
        if let Some(collection) = self.space.collection() {
            collection.loads(false);
        }
        self.cache.set_root(Slot(to), self.epoch(lane));
        Ok(())
    }
}
