//! Memory before locks.
//!
//! A lane that may have to split takes nodes into its stock before it locks anything. That is free while the stock is
//! full; else nodes come from the compute node's shelves, and when those are empty a chunk is granted: two round trips
//! or more, with nothing locked. A pool that is full is no error here: an operation that turns out not to split needs
//! no node.

use super::Tree;
use crate::compute::nodes::{Fresh, NodeClass, STOCK_NODES};
use crate::error::OpError;
use crate::lane::Lane;
use crate::remote::chunks;
use crate::verbs::NodeId;

impl Tree<'_> {
    /// Brings the lane's stock of `class` to `count` nodes (at most [`STOCK_NODES`]), from `near` if there are any.
    /// `false`: the pool has no more.
    pub async fn reserve(
        &self,
        lane: &Lane<'_>,
        class: NodeClass,
        count: usize,
        near: NodeId,
    ) -> Result<bool, OpError> {
        while lane.stocked(class) < count.min(STOCK_NODES) {
            if let Some(fresh) = self.nodes.take(class, near) {
                if let Err(fresh) = lane.stock(class, fresh) {
                    self.give_back(class, fresh);
                }
                continue;
            }
            let granted = chunks::grant_next(lane, self.geometry, self.grant(class), self.scratch.small).await?;
            let Some((node, offset)) = granted else { return Ok(false) };
            let bytes = self.geometry.get(node.0 as usize).map_or(0, |node| node.chunk_bytes);
            self.nodes.add_chunk(class, node, offset, bytes);
        }
        Ok(true)
    }

    /// Returns a node that was never written, or whose image nobody can reach, to the shelves.
    pub(crate) fn give_back(&self, class: NodeClass, fresh: Fresh) {
        // A shelf that is full loses the node: `validate` counts it as leaked.
        let _ = self.nodes.put(class, fresh);
    }
}
