//! Joining an emptied leaf with a neighbour, so that its memory comes back.
//!
//! Only leaves that are neighbours under one parent are joined, and only if one of them is empty: the left one takes
//! what the right one has, its high fence and its sibling; the right one is *retired*: it forwards readers to the left,
//! and its parent forgets it. Then it goes back on the shelf, in its next generation.
//!
//! **Locks.** Parent first, waiting; then both leaves, without waiting: a lane that holds a lock never waits for
//! another, so nothing can deadlock, whatever words the hash makes them share. If a leaf is busy, nothing is joined.
//!
//! **Readers.** The three WRITEs go out in one submit. In any order of their effects a key is found: the left node says
//! either "to the right" (the right node is alive, or forwards back: a few hops until the other WRITE lands) or "here".
//! No record changes while this happens: both leaves are locked.
//!
//! **Linkers.** Whoever wants to link the right node needs the parent's lock and then sees that it is retired; see
//! [`crate::btree::link`].

use super::Sherman;
use super::layout::{Leaf, LeafMut, SPAN_MAX};
use crate::btree::inner::{Inner, InnerMut};
use crate::btree::leaves::{Leaves, key_of, slice, slice_mut};
use crate::btree::link::raise_node_version;
use crate::btree::lock::Held;
use crate::btree::merge::Pair;
use crate::btree::node::{self, Header, KEY_BYTES_MAX, NodeFlags, Wanted};
use crate::btree::read::Target;
use crate::compute::nodes::{Fresh, NodeClass};
use crate::error::OpError;
use crate::lane::{Lane, Mark};
use crate::layout::stripes;
use crate::planted::{Bug, planted};
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use heapless::Vec;

impl Sherman<'_> {
    /// Joins the leaf at `emptied`, which covers the operation's key, with a neighbour if that can be done at once. The
    /// operation's own result stands whatever comes of it.
    pub(super) async fn join_emptied(&self, lane: &Lane<'_>, emptied: Address) {
        // A failed request leaves its debts in the ledger, where settling finds them.
        let _ = self.try_join(lane, emptied).await;
    }

    async fn try_join(&self, lane: &Lane<'_>, emptied: Address) -> Result<(), OpError> {
        let Some(spot) = self.tree.locate(lane, &self.plan.key, 1, true).await? else { return Ok(()) };
        let parent = spot.address;
        let mut locks: Vec<Held, 3> = Vec::new();
        let (held, _) = self.tree.acquire(lane, parent, None).await?;
        // Three locks fit the list: parent, left, right.
        let _ = locks.push(held);
        let joined = self.join_locked(lane, parent, emptied, &mut locks).await;
        for held in locks.into_iter().rev() {
            self.tree.release(lane, held).await?;
        }
        if let Some(fresh) = joined? {
            lane.mark(Mark::Merge);
            self.tree.give_back(NodeClass::Leaf, fresh);
        }
        Ok(())
    }

    async fn join_locked(
        &self,
        lane: &Lane<'_>,
        parent: Address,
        emptied: Address,
        locks: &mut Vec<Held, 3>,
    ) -> Result<Option<Fresh>, OpError> {
        let scratch = &self.tree.scratch;
        let port = lane.port();
        let (left_at, parent_at, right_at) = (scratch.node(0), scratch.node(1), scratch.node(2));
        let target = Target { address: parent, bytes: self.tree.inner.bytes, at: parent_at, label: Label::Parent };
        let wanted = Wanted { address: parent, index: self.tree.index, level: 1 };
        let pair = self
            .tree
            .read_locked(lane, target, false, |scratch| {
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(scratch, &self.plan.key, &mut room);
                self.tree.choose_pair(slice(scratch, target.at, target.bytes), &wanted, key, emptied)
            })
            .await?;
        let Some(Some(pair)) = pair else { return Ok(None) };
        for leaf in [pair.left, pair.right] {
            let Some(lock) = self.tree.lock_of(leaf) else { return Ok(None) };
            if lane.holds(lock).is_some() || planted(Bug::MergeUnlocked) && leaf == pair.right {
                continue;
            }
            match self.tree.try_acquire(lane, leaf).await? {
                Some(held) => {
                    let _ = locks.push(held);
                }
                None => return Ok(None),
            }
        }
        port.push(self.leaf_target(pair.left, left_at).request());
        port.push(self.leaf_target(pair.right, right_at).request());
        port.submit().await?;
        let version = port.with(|scratch| self.join_images(scratch, parent_at, left_at, right_at, &pair));
        let Some(version) = version else { return Ok(None) };
        for (label, address, bytes, at) in [
            (Label::Node, pair.left, self.leaf.bytes, left_at),
            (Label::Sibling, pair.right, self.leaf.bytes, right_at),
            (Label::Parent, parent, self.tree.inner.bytes, parent_at),
        ] {
            port.push(Request::write(label, address.node(), address.offset(), bytes, at));
        }
        port.submit().await?;
        self.tree.cache.invalidate(parent);
        let next = if planted(Bug::SameGeneration) { pair.right } else { pair.right.next_generation() };
        let version = if planted(Bug::ReuseForgetsVersion) { 0 } else { version };
        Ok(Some(Fresh { address: next, version }))
    }

    /// Builds the three new images. `None`: the leaves are not what the parent and the emptied leaf promised.
    /// Returns the node version of the retired image.
    fn join_images(
        &self,
        scratch: &mut [u8],
        parent_at: usize,
        left_at: usize,
        right_at: usize,
        pair: &Pair,
    ) -> Option<u8> {
        let (head, right_tail) = scratch.split_at_mut_checked(right_at)?;
        let (head, parent_tail) = head.split_at_mut_checked(parent_at)?;
        let left = slice_mut(head, left_at, self.leaf.bytes);
        let parent = slice_mut(parent_tail, 0, self.tree.inner.bytes);
        let right = slice_mut(right_tail, 0, self.leaf.bytes);

        let mut separator = [0; KEY_BYTES_MAX];
        let separator = separator.get_mut(..self.leaf.key_bytes)?;
        Inner::new(&self.tree.inner, parent)?.read_separator(pair.separator, separator);
        for (image, address) in [(&*left, pair.left), (&*right, pair.right)] {
            let header = Header::read(image);
            let sound = stripes::node_version(image).is_some()
                && header.index == self.tree.index
                && header.level == 0
                && header.generation == address.generation()
                && !header.flags.contains(NodeFlags::RETIRED)
                && Leaf::new(&self.leaf, image).all_whole().is_ok();
            if !sound {
                return None;
            }
        }
        let neighbours = Header::read(left).sibling == pair.right
            && stripes::compare(left, node::high_at(separator.len()), separator).is_eq()
            && stripes::compare(right, node::LOW_AT, separator).is_eq();
        let left_empty = Leaf::new(&self.leaf, left).records() == 0;
        if !neighbours || !left_empty && Leaf::new(&self.leaf, right).records() != 0 {
            return None;
        }
        let mut slots = [0; SPAN_MAX];
        let count = Leaf::new(&self.leaf, right).sorted(separator, None, &mut slots);
        for (to, &slot) in slots.iter().take(count).enumerate() {
            LeafMut::new(&self.leaf, left).copy_from(&Leaf::new(&self.leaf, right), slot as usize, to);
        }
        let mut high = [0; KEY_BYTES_MAX];
        let high = high.get_mut(..self.leaf.key_bytes)?;
        let bounded = node::read_high(right, high);
        node::set_right(left, bounded.then_some(&*high), Header::read(right).sibling);
        node::retire(right, pair.left);
        InnerMut::new(&self.tree.inner, parent).remove(pair.separator);
        for image in [&mut *left, &mut *parent, &mut *right] {
            raise_node_version(image);
        }
        stripes::node_version(right)
    }
}
