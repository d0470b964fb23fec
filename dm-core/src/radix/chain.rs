//! Chains of new nodes: what lies between a slot and the position at which two keys differ.
//!
//! A header has room for six bytes, and a node has one at its position. Where more bytes lie in between, several nodes
//! lead on under one byte each. They are contiguous in memory and are sent by one WRITE.

use super::slot::{self, BYTES_MAX, Header, Node, NodeType, Place, Slot};
use super::tree::Tree;
use crate::lane::Lane;
use crate::verbs::{Label, Request};

/// Slots of a node of a chain that it may be built with. It may have more, which are empty.
pub(crate) const CHAIN_SLOTS: usize = NodeType::SMALLEST.slots();

/// A node between a slot and a position: its header repeats the bytes from `begin` up to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNode {
    /// Where its header begins.
    pub begin: usize,
    /// Its position.
    pub position: usize,
}

/// The nodes from position `begin`, where the child of a slot begins, to one at `position`: each but the last leads on
/// under one byte.
pub fn path(begin: usize, position: usize) -> impl Iterator<Item = PathNode> + Clone {
    let mut next = (begin <= position).then_some(begin);
    core::iter::from_fn(move || {
        let begin = next?;
        let at = position.min(begin + BYTES_MAX);
        next = (at < position).then_some(at + 1);
        Some(PathNode { begin, position: at })
    })
}

impl Tree<'_> {
    /// Bytes of `count` nodes of a chain.
    pub(crate) const fn chain_bytes(&self, count: usize) -> usize {
        count * self.fresh.bytes()
    }

    /// Builds the nodes of `path` for the memory from `nodes` on, in the build range. All keys below begin like `key`.
    /// `slots`: what a node has, and the place of the next one; empty slots come last.
    pub(crate) fn build_chain(
        &self,
        scratch: &mut [u8],
        (nodes, path): (Place, impl Iterator<Item = PathNode>),
        key: &[u8],
        slots: impl Fn(PathNode, Place) -> [Slot; CHAIN_SLOTS],
    ) {
        let images = self.scratch.build().with_bytes(self.chain_bytes(1));
        for (i, here) in path.enumerate() {
            let header = Header::new(self.fresh, here.begin, here.position, key);
            let next = nodes.plus(self.chain_bytes(i + 1));
            slot::build(images.nth(i).of_mut(scratch), &header, self.index, slots(here, next));
        }
    }

    /// Pushes the WRITE of the `count` nodes in the build range.
    pub(crate) fn push_chain(&self, lane: &Lane<'_>, nodes: Place, count: usize) {
        let (bytes, at) = (self.chain_bytes(count), self.scratch.build().at);
        lane.port().push(Request::write(Label::Node, nodes.node(), nodes.offset(), bytes, at));
    }

    /// Puts the `count` nodes in the build range, to which slot `first` leads, into the cache.
    pub(crate) fn copy_chain(&self, lane: &Lane<'_>, first: Slot, count: usize) {
        let images = self.scratch.build().with_bytes(self.chain_bytes(1));
        lane.port().with(|scratch| {
            let mut to = first;
            for i in 0..count {
                let Ok(node) = Node::new(images.nth(i).of(scratch), self.fresh, self.index) else { return };
                self.cache.insert(to, &node, self.epoch(lane));
                // Every node of a chain but the last has one slot that leads to a node.
                let Some(next) = node.slots().find(|slot| slot.below().is_some()) else { return };
                to = next;
            }
        });
    }
}
