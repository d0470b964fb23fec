//! A walk over the whole tree that checks every invariant.
//!
//! Level by level from the root, along the sibling links: each node is judged, its low fence must be where its left
//! neighbour ended, and its children must be, in order, the nodes of the level below. A node below that no parent names
//! is a half-split: legal, and counted. So is a pointer to a node that was moved ([`super::relocate`]): the walk goes on to the copy. Leaves: entries whole, keys within the fences, none twice, what is not in use zero.

use super::inner::Inner;
use super::leaves::Leaves;
use super::node::{self, FenceCheck, Header, NodeFlags, Wanted};
use super::read::Target;
use super::{MOVES_MAX, Tree};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::layout::stripes;
use crate::operation::{Census, OpError};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::Label;

/// One node of a level.
pub(crate) struct Node {
    sibling: Address,
    unbounded: bool,
    records: u64,
    leftmost: Address,
}

/// A live node, looked at from afar.
pub(crate) struct Peeked {
    pub(crate) address: Address,
    pub(crate) sibling: Address,
    pub(crate) version: u8,
}

/// What a pointer leads to was moved there.
pub(crate) struct Moved {
    copy: Address,
}

/// Walks of any index of this family.
pub(crate) trait Walk<'s>: Leaves<'s> {
    /// Nodes the pool has room for: a level that seems to have more is a ring of links.
    fn nodes_max(&self) -> u64 {
        let bytes: u64 = self.tree().geometry.iter().map(|node| node.region_bytes).sum();
        bytes / self.tree().leaf_bytes.min(self.tree().inner.bytes).max(1) as u64
    }

    /// Checks every invariant of the tree.
    async fn walk(&self, lane: &Lane<'_>) -> Result<Census, OpError> {
        let mut census = Census::default();
        let Some((root, root_level)) = self.tree().read_root(lane).await? else { return Ok(census) };
        census.levels = u32::from(root_level) + 1;
        let mut first = root;
        for level in (0..=root_level).rev() {
            first = self.walk_level(lane, first, level, &mut census).await?;
        }
        Ok(census)
    }

    /// Walks one level from its leftmost node; returns the leftmost node of the level below.
    async fn walk_level(
        &self,
        lane: &Lane<'_>,
        first: Address,
        level: u8,
        census: &mut Census,
    ) -> Result<Address, OpError> {
        let mut address = first;
        let mut below = Address::NULL;
        let mut lowest = Address::NULL;
        for count in 0..self.nodes_max() {
            let node = self.walk_live(lane, &mut address, level, count == 0, census).await?;
            if level == 0 {
                census.leaves += 1;
                census.records += node.records;
                census.slots += self.span() as u64;
                census.empty_leaves += u64::from(node.records == 0);
                census.live_bytes += self.tree().nodes.node_bytes(NodeClass::Leaf) as u64;
            } else {
                census.inner_nodes += 1;
                census.live_bytes += self.tree().inner.bytes as u64;
                if count == 0 {
                    below = node.leftmost;
                    lowest = node.leftmost;
                }
                below = self.match_children(lane, address, level, below, census).await?;
            }
            if node.unbounded {
                return if level > 0 && !below.is_null() {
                    self.count_trailing(lane, below, level - 1, census).await.map(|()| lowest)
                } else {
                    Ok(lowest)
                };
            }
            address = node.sibling;
        }
        Err(Tree::corrupt(first, "a level without an end"))
    }

    /// As [`Walk::walk_node`], of the copy of a node that was moved, to which `address` leads afterwards.
    async fn walk_live(
        &self,
        lane: &Lane<'_>,
        address: &mut Address,
        level: u8,
        leftmost: bool,
        census: &mut Census,
    ) -> Result<Node, OpError> {
        for _ in 0..MOVES_MAX {
            match self.walk_node(lane, *address, level, leftmost).await? {
                Ok(node) => return Ok(node),
                Err(Moved { copy }) => *address = copy,
            }
            census.moved_links += 1;
        }
        Err(Tree::corrupt(*address, "a node that was moved too often"))
    }

    /// Judges one node, which is READ into node image 0. On entry the `separator` range holds where its left neighbour
    /// ended, afterwards where it ends itself.
    async fn walk_node(
        &self,
        lane: &Lane<'_>,
        address: Address,
        level: u8,
        leftmost: bool,
    ) -> Result<Result<Node, Moved>, OpError> {
        let image = self.tree().image_of_level(level, 0);
        let all = if level == 0 { self.walk_bytes() } else { image.bytes };
        let target = Target { address, image: image.with_bytes(all), label: Label::Walk };
        let wanted = Wanted { address, index: self.tree().index, level };
        let bound = self.tree().scratch.separator.clone();
        let look = |scratch: &mut [u8]| {
            let mut low = [0; KEY_BYTES_MAX];
            let low = low.get_mut(..bound.len()).unwrap_or_default();
            if !leftmost {
                low.copy_from_slice(scratch.get(bound.clone()).unwrap_or_default());
            }
            let image = image.of(scratch);
            match node::judge(image, &wanted, low)? {
                FenceCheck::Here => {}
                FenceCheck::Forward(copy) if node::is_moved(image) => return Ok(Err(Moved { copy })),
                _ => return Err(DecodeError::Corrupt("a node does not cover where its left neighbour ends")),
            }
            let header = Header::read(image);
            if stripes::compare(image, node::LOW_AT, low).is_ne() {
                return Err(DecodeError::Corrupt("a node overlaps its left neighbour"));
            }
            let unbounded = header.flags.contains(NodeFlags::UNBOUNDED);
            let mut high = [0; KEY_BYTES_MAX];
            let high = high.get_mut(..bound.len()).unwrap_or_default();
            node::read_high(image, high);
            if unbounded != header.sibling.is_null() {
                return Err(DecodeError::Corrupt("a right edge with a neighbour, or a neighbour missing"));
            }
            let fence = (!unbounded).then_some(&*high);
            let (records, child) = if level == 0 {
                (self.check(target.image.of(scratch), low, fence)?, Address::NULL)
            } else {
                (0, self.check_inner(image, low, fence)?)
            };
            if let Some(place) = scratch.get_mut(bound.clone()) {
                place.copy_from_slice(high);
            }
            Ok(Ok(Node { sibling: header.sibling, unbounded, records, leftmost: child }))
        };
        let node = self.read_at(lane, target, look).await?;
        node.ok_or(Tree::corrupt(address, "a link leads to something else"))
    }

    /// READs a node without its lock: the index is quiet, and a word that is not a lock would be waited for in vain.
    /// For the same reason no version comes round, however long a READ takes.
    async fn read_at<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        Tree::read_locked(lane, target, false, look).await
    }

    fn check_inner(&self, image: &[u8], low: &[u8], high: Option<&[u8]>) -> Result<Address, DecodeError> {
        let inner = Inner::new(&self.tree().inner, image)
            .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
        let mut before = [0; KEY_BYTES_MAX];
        let before = before.get_mut(..low.len()).unwrap_or_default();
        before.copy_from_slice(low);
        for i in 1..=inner.separators() {
            if inner.compare_separator(i, before).is_le() {
                return Err(DecodeError::Corrupt("separators out of order"));
            }
            inner.read_separator(i, before);
        }
        if high.is_some_and(|high| &*before >= high) {
            return Err(DecodeError::Corrupt("a separator past the high fence"));
        }
        Ok(inner.child(0))
    }

    /// Walks the level below along its links from `below`, past every child that the node in image 0 names. Returns
    /// where the next parent's children should begin.
    async fn match_children(
        &self,
        lane: &Lane<'_>,
        parent: Address,
        level: u8,
        below: Address,
        census: &mut Census,
    ) -> Result<Address, OpError> {
        let mut below = below;
        let mut i = 0;
        loop {
            let named = lane.port().with(|scratch| {
                let inner = Inner::new(&self.tree().inner, self.tree().inner_image(0).of(scratch))?;
                (i <= inner.separators()).then(|| (inner.child(i), self.separator_of(&inner, i)))
            });
            let Some((named, (separator, bytes))) = named else { return Ok(below) };
            let separator = separator.get(..bytes).unwrap_or_default();
            let (mut child, mut hops) = (named, 0u64);
            let next = loop {
                // A node that no parent names: a half-split, unless the child never comes.
                if below.is_null() || hops > self.nodes_max() {
                    return Err(Tree::corrupt(parent, "a child that is not on the level below"));
                }
                let Peeked { address, sibling, .. } = self.peek(lane, below, level - 1, census).await?;
                if address != child {
                    child = self.peek(lane, child, level - 1, census).await?.address;
                }
                if address == child {
                    break sibling;
                }
                census.half_splits += 1;
                below = sibling;
                hops += 1;
            };
            let starts = lane.port().with(|scratch| {
                let image = self.tree().image_of_level(level - 1, 1);
                i == 0 || stripes::compare(image.of(scratch), node::LOW_AT, separator).is_eq()
            });
            if !starts {
                return Err(Tree::corrupt(child, "a low fence that is not the parent's separator"));
            }
            below = next;
            i += 1;
        }
    }

    fn separator_of(&self, inner: &Inner<'_>, i: usize) -> ([u8; KEY_BYTES_MAX], usize) {
        let mut separator = [0; KEY_BYTES_MAX];
        let bytes = self.tree().inner.key_bytes;
        if i > 0
            && let Some(out) = separator.get_mut(..bytes)
        {
            inner.read_separator(i, out);
        }
        (separator, bytes)
    }

    /// READs a node into node image 1, or the copy of one that was moved.
    async fn peek(&self, lane: &Lane<'_>, pointer: Address, level: u8, census: &mut Census) -> Result<Peeked, OpError> {
        let mut address = pointer;
        for _ in 0..MOVES_MAX {
            let target = Target { address, image: self.tree().image_of_level(level, 1), label: Label::Walk };
            let look = |scratch: &mut [u8]| {
                let image = target.image.of(scratch);
                let version = stripes::node_version(image).ok_or(DecodeError::Torn)?;
                Ok((Header::read(image), node::is_moved(image), version))
            };
            match self.read_at(lane, target, look).await? {
                Some((header, is_moved, version))
                    if header.index == self.tree().index
                        && header.level == level
                        && header.generation == address.generation()
                        && (is_moved || !header.flags.contains(NodeFlags::RETIRED)) =>
                {
                    if !is_moved {
                        return Ok(Peeked { address, sibling: header.sibling, version });
                    }
                    address = header.sibling;
                    census.moved_links += 1;
                }
                _ => break,
            }
        }
        Err(Tree::corrupt(address, "a pointer to a node that is not in use"))
    }

    /// Counts nodes right of the last one that the level above names.
    async fn count_trailing(
        &self,
        lane: &Lane<'_>,
        below: Address,
        level: u8,
        census: &mut Census,
    ) -> Result<(), OpError> {
        let mut below = below;
        for _ in 0..self.nodes_max() {
            if below.is_null() {
                return Ok(());
            }
            census.half_splits += 1;
            below = self.peek(lane, below, level, census).await?.sibling;
        }
        Err(Tree::corrupt(below, "a level without an end"))
    }
}

impl<'s, L: Leaves<'s>> Walk<'s> for L {}
