//! The walk that checks every invariant of a quiet tree.

use super::cursor::DescentCursor;
use super::leaf::RadixLeaf;
use super::slot::Child;
use super::tree::corrupt;
use super::walk::{ANOTHER_PREFIX, Children, Level, MORE_NODES, NOT_ASCENDING, Path, Walk, single};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::{Census, OpError};

/// Checks of any radix tree.
pub(crate) trait Check<'s>: Walk<'s> {
    /// Visits every node and leaf: headers match, every byte has one slot, keys lie where they are found and ascend.
    async fn check(&self, lane: &Lane<'_>) -> Result<Census, OpError> {
        let mut census = Census::default();
        let root: DescentCursor = self.tree().read_root(lane, &self.tree().way()).await?;
        let mut path = Path::empty();
        match root.word.child() {
            Ok(Child::Empty) => return Ok(census),
            Ok(Child::Leaf(place)) if self.tree().is_inside(place, self.place_bytes()) => {
                let children = single(root.word);
                let valid = self.read_leaves(lane, &children, false).await.map_err(Interrupt::into_error)?;
                self.count_leaves(lane, (&children, valid), &path, &mut census)?;
                census.levels = 1;
                return Ok(census);
            }
            Ok(Child::Node(kind, place)) if self.tree().is_inside(place, kind.bytes()) => {
                self.enter(lane, &mut path, root.word, 0, false).await?;
                self.count_node(lane, 0, &mut census)?;
                self.raise_to_node(lane, &path, 0, 0)?;
            }
            _ => return Err(corrupt(self.tree().root, "a slot that leads nowhere")),
        }
        while path.levels > 0 {
            self.fetch_in_order(lane, &mut path).await?;
            let level = path.levels - 1;
            let (children, here) = self.at_node(lane, level, |node, here| {
                Ok((self.children(node, here.next, self.tree().scratch.leaves_at_once)?, here))
            })?;
            self.set_level(lane, level, Level { next: children.next, ..here });
            if children.count > 0 {
                let valid = self.read_leaves(lane, &children, false).await.map_err(Interrupt::into_error)?;
                self.count_leaves(lane, (&children, valid), &path, &mut census)?;
                census.levels = census.levels.max(path.levels as u32 + 1);
            } else if let Some((slot, ..)) = children.node {
                let begin = usize::from(children.depth);
                self.raise_bound(lane, begin - 1, &[slot.partial()], false);
                self.enter(lane, &mut path, slot.thawed(), children.depth, false).await?;
                self.count_node(lane, path.levels - 1, &mut census)?;
                self.raise_to_node(lane, &path, level + 1, begin)?;
            } else {
                path.levels -= 1;
            }
        }
        Ok(census)
    }

    /// Checks the node that was just entered. Those above it have been checked.
    fn count_node(&self, lane: &Lane<'_>, level: usize, census: &mut Census) -> Result<(), OpError> {
        let pool_bytes = self.tree().geometry.iter().map(|node| node.region_bytes).sum::<u64>();
        self.at_node(lane, level, |node, _| {
            let mut seen = [false; 256];
            let mut gap = false;
            for slot in node.slots() {
                if slot.is_empty() {
                    gap = true;
                    continue;
                }
                if gap {
                    return Err("a slot that was filled before the one in front of it");
                }
                match seen.get_mut(usize::from(slot.partial())) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err("a byte with two slots"),
                }
            }
            let frozen = node.slots().filter(|slot| slot.is_frozen()).count();
            census.half_splits += u64::from(frozen > 0);
            census.inner_nodes += 1;
            census.live_bytes += node.header.kind.bytes() as u64;
            // If slots of several nodes lead to one node, a leaf below it is found under two paths. If there is no leaf
            // below it, only this limit keeps the walk from going through all combinations.
            if census.live_bytes > pool_bytes {
                return Err(MORE_NODES);
            }
            Ok(())
        })
    }

    /// Checks leaves that were READ: each key has the bytes of its path, and keys ascend. The path's bytes are in the
    /// scratch of the operation's key.
    fn count_leaves(
        &self,
        lane: &Lane<'_>,
        (children, valid): (&Children, u64),
        path: &Path,
        census: &mut Census,
    ) -> Result<(), OpError> {
        for i in 0..children.count {
            let leaf = children.leaves.get(i).copied().unwrap_or_default();
            let Ok(Child::Leaf(place)) = leaf.child() else { continue };
            let fits = path.levels == 0
                || lane.port().with(|scratch| {
                    let key = self.leaf_key(self.tree().scratch.leaf(i).of(scratch));
                    let prefix = scratch.get(self.plan().key.clone()).unwrap_or_default();
                    let position = usize::from(children.depth).saturating_sub(1);
                    key.get(..position) == prefix.get(..position) && key.get(position) == Some(&leaf.partial())
                });
            if !fits {
                return Err(corrupt(place, ANOTHER_PREFIX));
            }
            let first = census.leaves == 0;
            lane.port().with(|scratch| {
                let image = self.tree().scratch.leaf(i).of(scratch);
                let valid = valid >> i & 1;
                let mut room = [0; 64];
                let Some(key) = room.get_mut(..self.plan().key_bytes) else { return Ok(()) };
                key.copy_from_slice(self.leaf_key(image).get(..self.plan().key_bytes).unwrap_or(&[0; 64][..key.len()]));
                let last = scratch.get_mut(self.tree().scratch.last.clone()).unwrap_or_default();
                if !first && *last >= *key {
                    return Err(corrupt(place, NOT_ASCENDING));
                }
                last.copy_from_slice(key);
                census.leaves += 1;
                census.slots += 1;
                census.records += valid;
                census.empty_leaves += 1 - valid;
                census.live_bytes += self.place_bytes() as u64;
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl<'s, L: RadixLeaf<'s>> Check<'s> for L {}
