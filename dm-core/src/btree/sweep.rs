//! What `crate::recovery::sweep` finds in a B+-tree: locks in the tables of the memory nodes, and in leaves if they lie
//! there.

use crate::btree::Tree;
use crate::btree::leaves::Leaves;
use crate::btree::node::Header;
use crate::index::{catalog, owners};
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::locks::kind::LockKind;
use crate::operation::OpError;
use crate::recovery::sweep::Sweep;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::catalog::{IndexKind, IndexNumber, IndexSet};
use crate::remote::chunk::ChunkKind;
use crate::remote::lock_word::RowId;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId, Request};

/// All locks of a B+-tree.
pub(crate) struct TreeLocks<'a, 's, I> {
    pub(crate) tree: &'a Tree<'s>,
    pub(crate) index: &'a I,
}

impl<'s, I: Leaves<'s>> Sweep for TreeLocks<'_, 's, I> {
    type Tables = Tree<'s>;

    type Leaves = I::LeafLocks;

    fn site(&self) -> Option<Site<'_>> {
        self.tree.site()
    }

    fn number(&self) -> IndexNumber {
        self.tree.number
    }

    fn tables(&self) -> Option<&Tree<'s>> {
        Some(self.tree)
    }

    fn leaves(&self) -> Option<(&I::LeafLocks, usize)> {
        let place_bytes = self.tree.nodes.node_bytes(NodeClass::Leaf);
        I::LeafLocks::IN_NODES.then(|| (self.index.leaf_locks(), place_bytes))
    }

    /// Those with locks in nodes: of a kind that this program does not know that is assumed.
    async fn others(&self, lane: &Lane<'_>) -> Result<IndexSet, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(IndexSet::default()) };
        let number = self.tree.number;
        let at = self.tree.scratch.recovery.start;
        catalog::numbers(lane, home, at, |entry| entry.kind != IndexKind::Sherman && entry.number != number).await
    }

    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(false) };
        owners::keeps_row(lane, home, row, self.tree.scratch.recovery.start).await
    }

    /// Such a chunk has an ownership table. Many compute nodes may make one, and the catalog names one of them, or will:
    /// that of a compute node that lives, since the dead row is fenced. One READ.
    async fn is_unpublished(
        &self,
        lane: &Lane<'_>,
        (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
        kind: ChunkKind,
    ) -> Result<bool, OpError> {
        let (ChunkKind::Other, Some(home)) = (kind, self.tree.geometry.first()) else { return Ok(false) };
        let at = self.tree.scratch.recovery.start;
        let named = owners::named(lane, home, self.tree.number, at).await?;
        Ok(named != Address::new(node, geometry.chunk_offset(chunk), 0))
    }

    /// One READ per node.
    async fn unwritten_bytes(
        &self,
        lane: &Lane<'_>,
        (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
        kind: ChunkKind,
    ) -> Result<u64, OpError> {
        let Some(class) = NodeClass::of_chunk(kind) else { return Ok(0) };
        let node_bytes = self.tree.nodes.node_bytes(class) as u64;
        let at = self.tree.scratch.recovery.start;
        let mut unwritten = 0;
        for number in 0..geometry.chunk_bytes / node_bytes.max(1) {
            let offset = geometry.chunk_offset(chunk) + number * node_bytes;
            lane.port().call(Request::read(Label::Header, node, offset, LINE_BYTES, at)).await?;
            let header = lane.port().with(|scratch| Header::read(scratch.get(at..at + LINE_BYTES).unwrap_or_default()));
            unwritten += u64::from(header.index == 0);
        }
        Ok(unwritten * node_bytes)
    }
}
