//! Marking: notes what is reachable, for a collection by mark-and-sweep ([`crate::memory::collect`]).

use super::cursor::DescentCursor;
use super::leaf::RadixLeaf;
use super::slot::{Child, Place};
use super::tree::{LEAVES_AT_ONCE_MAX, corrupt};
use super::walk::{Level, MORE_NODES, Path, Walk};
use crate::lane::Lane;
use crate::memory::Collection;
use crate::operation::OpError;

/// Nodes that an operation of a collection enters besides those on its way down.
const MARKED_AT_ONCE: u32 = 32;

/// Marking in any radix tree.
pub(crate) trait Marking<'s>: Walk<'s> {
    /// Marks what is reachable from the lower bound on ([`Collection::reach`]). It stops after `MARKED_AT_ONCE` nodes
    /// besides those on its way down, since a longer operation would hold up the epochs. Returns whether it stopped for
    /// that reason; then the next operation begins at the lower bound.
    async fn mark_some(&self, lane: &Lane<'_>, collection: &Collection<'_>, nodes: &mut u64) -> Result<bool, OpError> {
        let reach = |place: Place, bytes: usize| collection.reach(place.node(), place.offset(), bytes as u64);
        let root: DescentCursor = self.tree().read_root(lane, &self.tree().way()).await?;
        let mut path = Path::empty();
        match root.word.child() {
            Ok(Child::Empty) => return Ok(false),
            Ok(Child::Leaf(place)) if self.tree().is_inside(place, self.place_bytes()) => {
                reach(place, self.place_bytes());
                return Ok(false);
            }
            Ok(Child::Node(kind, place)) if self.tree().is_inside(place, kind.bytes()) => {
                reach(place, kind.bytes());
                self.enter(lane, &mut path, root.word, 0, true).await?;
                self.raise_to_node(lane, &path, 0, 0)?;
            }
            _ => return Err(corrupt(self.tree().root, "a slot that leads nowhere")),
        }
        let mut entered = 0;
        while path.levels > 0 {
            self.fetch_in_order(lane, &mut path).await?;
            let level = path.levels - 1;
            let (children, here, header) = self.at_node(lane, level, |node, here| {
                Ok((self.children(node, here.next, LEAVES_AT_ONCE_MAX)?, here, node.header))
            })?;
            let position = usize::from(header.position);
            if entered >= MARKED_AT_ONCE
                && let Ok(next) = u8::try_from(here.next)
            {
                self.raise_bound(lane, position, &[next], true);
                return Ok(true);
            }
            self.set_level(lane, level, Level { next: children.next, ..here });
            for leaf in children.leaves.iter().take(children.count) {
                if let Ok(Child::Leaf(place)) = leaf.child() {
                    reach(place, self.place_bytes());
                }
            }
            if let Some((slot, kind, place)) = children.node {
                reach(place, kind.bytes());
                let tight = here.tight && self.low_byte(lane, position) == Some(slot.partial());
                if !tight {
                    self.raise_bound(lane, position, &[slot.partial()], false);
                    entered += 1;
                }
                *nodes += 1;
                // As in `count_node`, only damage leads to more nodes. The limit is higher here, since a later
                // operation of the walk may enter a node again.
                if *nodes > 4 * self.nodes_max() {
                    return Err(corrupt(place, MORE_NODES));
                }
                self.enter(lane, &mut path, slot.thawed(), children.depth, tight).await?;
                self.raise_to_node(lane, &path, level + 1, usize::from(children.depth))?;
            } else if children.count == 0 {
                path.levels -= 1;
            }
        }
        Ok(false)
    }
}

impl<'s, L: RadixLeaf<'s>> Marking<'s> for L {}
