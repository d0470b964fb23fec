//! Bulk load: see [`crate::radix`]'s. The first record of a leaf is inserted as by any insert; since keys ascend, cuts
//! leave full leaves behind ([`super::population::cut`]). The records behind it that belong to the same leaf go into
//! its image, and one WRITE brings them there.
//!
//! No other lane knows of the tree before the load ends. So the leaf that is open needs no Spear word, and its image in
//! the lane's scratch stays what the leaf is.

use super::Dolphin;
use super::layout::shape::LEAF_BYTES;
use super::search::{Fit, Located};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::{OpError, OperationKind, Outcome};
use crate::radix::tile_descent::Start;
use crate::radix::tree::{Way, corrupt};
use crate::remote::address::Address;
use crate::verbs::{Label, Request};

/// The leaf of the last record of a bulk load. Its image is leaf image 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    leaf: Address,
    /// Cells that are bound.
    used: usize,
    /// The image has records that the leaf lacks.
    is_ahead: bool,
}

impl Dolphin<'_> {
    /// Appends the operation's record.
    pub(super) async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        let insert = |way| self.append(lane, way);
        self.tree.bulk_append(lane, &self.bulk, &self.plan.key, insert).await
    }

    /// Appends the operation's record to the tree that is being loaded. If this fails, no leaf is open.
    async fn append(&self, lane: &Lane<'_>, way: Way) -> Result<(), Interrupt> {
        let open = self.open.lock().take();
        if let Some(open) = open {
            let open = match self.append_to(lane, &way, open).await? {
                Ok(open) => {
                    self.keep(open);
                    return Ok(());
                }
                Err(full) => full,
            };
            self.close_open(lane, open).await?;
        }
        match self.write_in(lane, &way, OperationKind::Insert).await? {
            Outcome::Inserted => {}
            _ => return Err(corrupt(way.root, "a key that was not loaded is there").into()),
        }
        match self.locate(lane, &way, &self.plan.key, Start::Root).await? {
            Located::Leaf(leaf) => {
                self.keep(Open { leaf, used: self.bound_cells(lane, leaf), is_ahead: false });
                Ok(())
            }
            Located::Gap(..) => Err(corrupt(way.root, "a key that was loaded is not there").into()),
        }
    }

    fn keep(&self, open: Open) {
        *self.open.lock() = Some(open);
    }

    /// Puts the operation's record into the image of the open leaf. `Err`: it does not belong there, or has no room, or
    /// its value is the leaf's word for "absent".
    async fn append_to(&self, lane: &Lane<'_>, way: &Way, open: Open) -> Result<Result<Open, Open>, Interrupt> {
        if open.used >= self.shape.span
            || self.fit(lane, open.leaf, &self.plan.key)? != Fit::Live
            || self.splits_early(lane, open.leaf)
        {
            return Ok(Err(open));
        }
        self.begin_block(lane);
        self.make_block(lane, way, OperationKind::Insert, open.leaf.node()).await?;
        if self.put(lane, open.used).is_none() {
            return Ok(Err(open));
        }
        self.bind(lane, open.used);
        if self.has_blocks() {
            self.push_block(lane);
            lane.port().submit().await?;
            self.block_is_named(lane);
        }
        Ok(Ok(Open { used: open.used + 1, is_ahead: true, ..open }))
    }

    /// WRITEs what the open leaf lacks.
    async fn close_open(&self, lane: &Lane<'_>, Open { leaf, is_ahead, .. }: Open) -> Result<(), OpError> {
        if is_ahead {
            self.entries.check_lease(lane)?;
            let (image, cells) = (self.tree.scratch.leaf(0), self.shape.head_bytes..LEAF_BYTES);
            let (offset, at) = (leaf.offset() + cells.start as u64, image.at + cells.start);
            lane.port().call(Request::write(Label::Bulk, leaf.node(), offset, cells.len(), at)).await?;
        }
        Ok(())
    }

    /// Makes the records visible.
    pub(super) async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _under_way = self.tree.pin(lane);
        let open = self.open.lock().take();
        if let Some(open) = open {
            // If the WRITE fails, nothing of the load is kept.
            let load = core::mem::take(&mut *self.bulk.lock());
            self.close_open(lane, open).await?;
            *self.bulk.lock() = load;
        }
        self.tree.bulk_finish(lane, &self.bulk).await
    }
}
