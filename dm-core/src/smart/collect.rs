//! Collection of leaves and nodes that nobody knows of any more, in the terms of [`crate::memory::collect`].
//!
//! **What the walk meets.** It goes through the tree in the order of keys, as a scan does (`walk`), and notes every slot word it
//! sees: leaves need not be READ. It is many operations, each of which begins at the root slot and goes down to where the last one
//! stopped. What is reachable throughout is met: a leaf or node belongs to one prefix for its life, and is below every
//! slot word of that path in whichever node the walk finds that word, as it was put there before the walk and nothing that is in the tree moves
//! to another path: a node that comes above it, or takes the place of one above it, leads to it, and an image READ before that still
//! does. A walk that stops at key K has met whatever lies below K; what contains K is on the way down again.

use super::Smart;
use crate::index::runner::UnderWay;
use crate::lane::Lane;
use crate::memory::Collection;
use crate::memory::collect::{Collects, Site};
use crate::operation::OpError;
use crate::radix::pieces::Use;
use crate::radix::slot::{NodeType, UNIT_BYTES};
use crate::remote::chunk::ChunkKind;

impl<'s> Collects<'s> for Smart<'s> {
    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)> {
        let (part, collection) = (self.epochs?, self.space.collection()?);
        let Self { geometry, owner, requests, number, .. } = *self;
        Some((Site { part, geometry, owner, requests, number, at: self.scratch.small }, collection))
    }

    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)> {
        match kind {
            ChunkKind::Leaf => Some((Use::Leaf as u8, self.leaf.place_bytes)),
            ChunkKind::Inner => Some((Use::Node as u8, NodeType::SMALLEST.bytes().max(UNIT_BYTES))),
            _ => None,
        }
    }

    fn heed(&self) {
        self.space.heed();
    }

    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(collection) = self.space.collection() else { return Ok(()) };
        lane.port().with(|scratch| scratch.get_mut(self.plan.key.clone()).unwrap_or_default().fill(0));
        let mut nodes = 0;
        loop {
            let mut under_way = self.pin(lane);
            let result = self.mark_some(lane, collection, &mut nodes).await;
            under_way.ends(&result);
            if !result? {
                return Ok(());
            }
        }
    }
}
