//! Mark-and-sweep of leaves and nodes ([`crate::memory::collect`]).
//!
//! The walk goes through the tree in the order of keys, as a scan does (`radix::mark`), and notes every slot word it
//! sees: leaves need not be READ. It is many operations, each of which begins at the root slot and goes down to where
//! the last one stopped. [`smart_scans`](crate::manual::smart_scans) says why it meets everything that is reachable
//! throughout.

use super::Smart;
use crate::index::runner::UnderWay;
use crate::lane::Lane;
use crate::memory::Collection;
use crate::memory::collect::{Collects, Site};
use crate::operation::OpError;
use crate::radix::mark::Marking;
use crate::radix::slot::{NodeType, UNIT_BYTES};
use crate::radix::tree::Tree;
use crate::remote::chunk::ChunkKind;
use crate::remote::place::NodeClass;

impl<'s> Collects<'s> for Smart<'s> {
    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)> {
        let (part, collection) = (self.tree.epochs?, self.tree.space.collection()?);
        let Tree { geometry, owner, requests, number, .. } = self.tree;
        Some((Site { part, geometry, owner, requests, number, at: self.tree.scratch.small }, collection))
    }

    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)> {
        let class = NodeClass::of_chunk(kind)?;
        let least_bytes = match class {
            NodeClass::Leaf => self.leaf.place_bytes,
            NodeClass::Inner => NodeType::SMALLEST.bytes().max(UNIT_BYTES),
        };
        Some((class as u8, least_bytes))
    }

    fn give_up_closed(&self) {
        self.tree.space.give_up_closed();
    }

    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(collection) = self.tree.space.collection() else { return Ok(()) };
        lane.port().with(|scratch| scratch.get_mut(self.plan.key.clone()).unwrap_or_default().fill(0));
        let mut nodes = 0;
        loop {
            let mut under_way = self.tree.pin(lane);
            let result = self.mark_some(lane, collection, &mut nodes).await;
            under_way.ends(&result);
            if !result? {
                return Ok(());
            }
        }
    }
}
