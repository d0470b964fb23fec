//! Memory before locks.
//!
//! A lane that may have to split takes nodes from the compute node's free lists into its stock before it locks
//! anything. That costs no round trip. If a leaf turns out to have no room, and the stock is short because the free
//! lists are empty, the lane unlocks and has a chunk granted (two round trips or more, with nothing locked) before it
//! tries again. So a full pool costs nothing until a node is needed.
//!
//! A leaf split needs inner nodes, too: one for a parent that is full, or for a new root. They are part of the reserve.
//! A split whose sibling no parent can name leaves a chain that readers walk, and on a pool that is out of inner nodes
//! that chain would grow until they give up.

use super::{Subtrees, Tree};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, STOCK_NODES};
use crate::marks::Mark;
use crate::memory::chunks::{self, Want};
use crate::memory::node_pool::Put;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::chunk::Grant;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::NodeId;

impl Tree<'_> {
    /// Whether the lane has what a leaf split may need before the next reserve.
    pub(crate) fn ready_to_split(lane: &Lane<'_>) -> bool {
        lane.stocked(NodeClass::Leaf) > 0 && lane.stocked(NodeClass::Inner) == STOCK_NODES
    }

    /// Fills the lane's stock up to what a leaf split may need, as far as the free lists have it: no round trip.
    pub(crate) fn prepare_to_split(&self, lane: &Lane<'_>, near: NodeId) {
        for (class, count) in [(NodeClass::Leaf, 1), (NodeClass::Inner, STOCK_NODES)] {
            while lane.stocked(class) < count {
                let Some(fresh) = self.take_node(lane, class, near, true) else { break };
                if let Err(fresh) = lane.stock(class, fresh) {
                    self.give_back(class, fresh);
                }
            }
        }
    }

    /// As [`Tree::prepare_to_split`], with chunks granted where the free lists are empty. `false`: the pool has no
    /// more.
    pub(crate) async fn reserve_to_split(&self, lane: &Lane<'_>, near: NodeId) -> Result<bool, OpError> {
        if self.options.subtrees != Subtrees::Spread {
            self.return_others(lane, near);
        }
        Ok(self.reserve(lane, NodeClass::Leaf, 1, near).await?
            && self.reserve(lane, NodeClass::Inner, STOCK_NODES, near).await?)
    }

    /// Fills the lane's stock of `class` up to `count` nodes (at most [`STOCK_NODES`]), from `near` if there are any.
    /// `false`: the pool has no more.
    pub async fn reserve(
        &self,
        lane: &Lane<'_>,
        class: NodeClass,
        count: usize,
        near: NodeId,
    ) -> Result<bool, OpError> {
        // Another memory node's memory may do, too, as soon as `near` has no more.
        let mut anywhere = self.options.subtrees == Subtrees::Spread;
        while lane.stocked(class) < count.min(STOCK_NODES) {
            if let Some(fresh) = self.take_node(lane, class, near, anywhere) {
                if let Err(fresh) = lane.stock(class, fresh) {
                    self.give_back(class, fresh);
                }
                continue;
            }
            if let Some(part) = self.epochs
                && self.nodes.has_waiting()
            {
                part.epochs.is_short();
            }
            match self.grant_chunk(lane, class, near).await? {
                Some(node) => anywhere |= node != near,
                None if anywhere || self.options.subtrees == Subtrees::Whole => return Ok(false),
                None => anywhere = true,
            }
        }
        Ok(true)
    }

    /// The error of an operation that finds no memory for a node near `near`.
    pub(crate) fn no_memory(&self, near: NodeId) -> Interrupt {
        match self.options.subtrees {
            Subtrees::Whole => OpError::harmless(Cause::NodeFull { node: near }).into(),
            Subtrees::Near | Subtrees::Spread => Interrupt::NoMemory,
        }
    }

    /// Takes a node from a free list. First, places that have waited long enough move from the limbo list to the free
    /// lists: they come before memory that was never used.
    fn take_node(&self, lane: &Lane<'_>, class: NodeClass, near: NodeId, anywhere: bool) -> Option<UnlinkedNode> {
        for _ in 0..self.nodes.release() {
            lane.mark(Mark::LIMBO_LEFT);
        }
        if anywhere { self.nodes.take(class, near) } else { self.nodes.take_on(class, near) }
    }

    /// Returns the nodes in the lane's stock that are not on `near`.
    pub(crate) fn return_others(&self, lane: &Lane<'_>, near: NodeId) {
        for class in NodeClass::ALL {
            while let Some(other) = lane.take_stock_elsewhere(class, near) {
                self.give_back(class, other);
            }
        }
    }

    /// Gets a chunk for nodes of `class`, from the memory nodes in turn so that the index spreads over them all; of an index
    /// that keeps subtrees together, from `near` if it has one, or from nowhere else. Returns whose it is. `None`: there is none.
    async fn grant_chunk(&self, lane: &Lane<'_>, class: NodeClass, near: NodeId) -> Result<Option<NodeId>, OpError> {
        let Some(request) = self.requests.next() else { return Ok(None) };
        // Classes alternate, so both spread over the memory nodes.
        let want = Want::new(Grant::new(self.owner, class.chunk_kind(), self.number, request));
        let at = self.scratch.small;
        let granted = match (self.options.subtrees, self.geometry.get(usize::from(near.0))) {
            (Subtrees::Whole, Some(geometry)) => chunks::grant(lane, near, geometry, &want, at).await?,
            (Subtrees::Whole | Subtrees::Near, _) => chunks::grant_any(lane, self.geometry, near, &want, at).await?,
            (Subtrees::Spread, _) => {
                chunks::grant_any(lane, self.geometry, want.in_turn(self.geometry.len()), &want, at).await?
            }
        };
        let Some(granted) = granted else { return Ok(None) };
        self.nodes.add_chunk(class, granted.node, granted.offset, granted.bytes);
        Ok(Some(granted.node))
    }

    /// Returns a place whose node is out of use; `fresh` is the next one. Nothing leads to it.
    pub(crate) fn give_back_again(&self, lane: &Lane<'_>, class: NodeClass, fresh: UnlinkedNode) {
        if planted(Mutant::RETIRED_LOST) {
            return;
        }
        match self.nodes.put_again(class, fresh) {
            Put::Waits => lane.mark(Mark::LIMBO_ENTERED),
            // Without room it waits until this compute node has departed, and another one collects it.
            Put::Ready | Put::NoRoom => {}
        }
    }

    /// Returns a node that was taken and not written to its free list.
    pub(crate) fn give_back(&self, class: NodeClass, fresh: UnlinkedNode) {
        // If the free list is full, the node waits until this compute node has departed, and another one collects it.
        let _ = self.nodes.put(class, fresh);
    }
}
