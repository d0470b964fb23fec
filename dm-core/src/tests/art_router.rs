//! A router that is not the inner nodes: an ART without merges, whose slots lead to leaves of many keys (Dolphin). The
//! child of a key is the one of the greatest slot byte that is not above the key's.
//!
//! The leaf level takes it, as [`leaf_level`] shows; a merge does not, since it is no [`Unlink`]. What does not fit:
//!
//! - **Voids.** `None` from [`Router::locate`] says that the index is empty. Here it may also say that no leaf has the
//!   key, and then an insert makes one there: [`Router::plant`] would have to know the key.
//! - **Beginning again.** A leaf without links does not tell where to go on, so the descent begins at the root. It could
//!   begin at the node that has the leaf's slot ([`Start::Again`]), if [`Router::learn`] could wait.
//! - **Links.** [`Router::link`], [`Cursor::from`] and [`Cursor::help`] are for leaves with links. They could be a trait
//!   of their own.
//! - **Scans.** A copy of a node hands out one slot, so no leaves are known ahead.
//! - **The shared part.** `Leaves::tree` is a [`crate::btree::Tree`], which has the inner nodes in it: their shape,
//!   root copy and index cache would move into a part that only their router has. Bulk loads and the walk build and
//!   check inner nodes, and would be methods of a router, too.

#![expect(dead_code, reason = "compiled, never run")]

use crate::btree::leaves::Leaves;
use crate::btree::node::FenceCheck;
use crate::btree::router::{Cursor, Router};
use crate::btree::scan::Scan;
use crate::btree::unlink::Unlink;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::Look;
use crate::operation::span::Span;
use crate::operation::{OpError, Operation, Outcome};
use crate::radix::cursor::DescentCursor;
use crate::radix::slot::{Child, Place, Slot};
use crate::radix::tile_descent::{Goal, Start, TileEnd};
use crate::radix::tree::Tree;
use crate::remote::address::Address;
use crate::verbs::NodeId;
use core::ops::Range;
use static_assertions::{assert_impl_all, assert_not_impl_any};

/// The ART.
struct ArtRouter<'s> {
    tree: Tree<'s>,
    leaf_bytes: usize,
    separator: Range<usize>,
}

assert_impl_all!(ArtRouter<'static>: Router);
assert_not_impl_any!(ArtRouter<'static>: Unlink);

/// At a slot that leads to a leaf.
#[derive(Clone, Copy)]
struct ArtCursor {
    slot: DescentCursor,
    leaf: Address,
}

impl Cursor for ArtCursor {
    fn leaf(&self) -> Address {
        self.leaf
    }

    /// No leaf has a link.
    fn from(&self) -> Address {
        Address::NULL
    }

    /// So no half-split is met.
    fn help(&self) -> Option<(u8, Address)> {
        None
    }

    fn begins_again(&mut self, _: u32) {}

    fn is_sent_back_too_often(&mut self) -> bool {
        false
    }
}

impl ArtRouter<'_> {
    fn at(&self, slot: DescentCursor) -> Option<ArtCursor> {
        match slot.word.tile_child() {
            Ok(Child::Leaf(leaf)) if self.tree.is_inside(Place::new(leaf.node(), leaf.offset()), self.leaf_bytes) => {
                Some(ArtCursor { slot, leaf })
            }
            _ => None,
        }
    }
}

impl Router for ArtRouter<'_> {
    type Cursor = ArtCursor;

    fn home(&self) -> NodeId {
        self.tree.root.node()
    }

    fn route(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<ArtCursor> {
        let epoch = self.tree.epoch(lane);
        let route = lane.port().with(|scratch| self.tree.cache.route(scratch.get(key.clone())?, epoch))?;
        self.at(DescentCursor::copied(&route))
    }

    async fn locate(&self, lane: &Lane<'_>, key: &Range<usize>, cached: bool) -> Result<Option<ArtCursor>, Interrupt> {
        let start = if cached { Start::Copies } else { Start::Root };
        let (cursor, end) = self.tree.descend(lane, &self.tree.way(), key, start, Goal::Read).await?;
        Ok(if matches!(end, TileEnd::Leaf(_)) { self.at(cursor.slot) } else { None })
    }

    fn learn(&self, lane: &Lane<'_>, cursor: &mut ArtCursor, _: FenceCheck, _: Span) -> bool {
        self.forget(lane, cursor);
        false
    }

    fn forget(&self, lane: &Lane<'_>, cursor: &ArtCursor) {
        self.tree.cache.patch(cursor.slot.owner, usize::from(cursor.slot.index), Slot::EMPTY, self.tree.epoch(lane));
    }

    fn forget_root(&self, lane: &Lane<'_>) {
        self.tree.cache.set_root(Slot::EMPTY, self.tree.epoch(lane));
    }

    async fn plant(&self, lane: &Lane<'_>, leaf: Address) -> Result<bool, OpError> {
        let Some(to) = Slot::tile_leaf(0, leaf) else { return Ok(false) };
        Ok(self.tree.publish(lane, true, self.tree.root, Slot::EMPTY, to).await? == Slot::EMPTY)
    }

    /// Of a node that has room: the other cases are `radix::attach`.
    async fn link(&self, lane: &Lane<'_>, _level: u8, right: Address) -> Result<(), Interrupt> {
        let Some(ArtCursor { slot, .. }) = self.locate(lane, &self.separator, false).await? else { return Ok(()) };
        let at = self.separator.start + usize::from(slot.depth).saturating_sub(1);
        let byte = lane.port().with(|scratch| scratch.get(at).copied().unwrap_or_default());
        let empty = slot.place(&self.tree.way()).plus(8);
        let Some(to) = Slot::tile_leaf(byte, right) else { return Ok(()) };
        self.tree.publish(lane, true, empty, Slot::EMPTY, to).await?;
        Ok(())
    }

    fn leaves_ahead(&self, _lane: &Lane<'_>, _bound: &Range<usize>, _down: bool, _leaves: &mut [Address]) -> usize {
        0
    }
}

/// What the leaf level does below this router: first leaf, point operations, scans, half-splits.
async fn leaf_level<'s, I: Leaves<'s, Router = ArtRouter<'s>>>(
    index: &I,
    lane: &Lane<'_>,
    operation: &Operation,
) -> Result<Outcome, Interrupt> {
    index.plant(lane).await?;
    let plan = index.plan();
    let visit =
        index.visit(lane, &plan.key, |image, _, _| Look::at(image, |look| index.whole(look)), &plan.output).await?;
    index.help(lane, visit.and_then(|visit| visit.help)).await;
    index.scan(lane, operation).await
}
