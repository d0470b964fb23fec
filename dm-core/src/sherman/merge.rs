//! Joining an emptied leaf with a neighbour, so that its memory comes back.
//!
//! Only leaves that are neighbours under one parent are joined, and only if one of them is empty: the left one takes
//! what the right one has, its high fence and its sibling; the right one is *retired*: it forwards readers to the left,
//! and its parent forgets it. Then it goes back on the shelf, in its next generation.
//!
//! **Locks.** Parent first, waiting; then both leaves, without waiting: a lane that holds a lock never waits for
//! another, so nothing can deadlock, whatever words the hash makes them share. If a leaf is busy, nothing is joined.
//!
//! **Readers.** The parent is WRITten first, then the right node's first line, then the left node. After the first, the
//! right leaf is what a half-split's right half is: reached through its left neighbour. After the second, readers bounce
//! between the two - "to the right", "back to the left" - a few times, until the third. No record changes while this
//! happens: both leaves are locked.
//!
//! **A half-merge.** Who dies between the second and the third leaves a retired leaf that its left neighbour still
//! points to. (The other order would leave two live leaves for the same keys, one of them reached through old copies of
//! the parent.) Whoever bounces more than [`BOUNCES_MAX`] times *revives* the right leaf: a half-split again.
//!
//! That must not happen while the third WRITE may still land. The merging lane has the locks of both leaves until it
//! has landed. So the reviver first acquires the left leaf's lock, and releases it: if the merge was alive it is over
//! by now, and if its lane died, the takeover of that lock has replayed the third WRITE, if it had begun. Then it locks
//! the right leaf, and READs the left one: if that *still* points to the right one, no WRITE that would have changed
//! that can come any more, and nobody else merges a retired leaf.
//!
//! The three WRITEs go out in one submit if all nodes are on one memory node, where a chain keeps their order; where
//! two are on different ones, and the index is opened with recovery, the next waits for the one before.
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
use crate::btree::walk::Walk;
use crate::compute::nodes::{Fresh, NodeClass};
use crate::error::OpError;
use crate::lane::{Lane, Mark};
use crate::layout::stripes;
use crate::planted::{Bug, planted};
use crate::remote::address::{Address, LINE_BYTES};
use crate::verbs::{Label, Request};
use heapless::Vec;

/// How often an operation bounces between a leaf and its retired right neighbour before it looks after them: a merge
/// that is alive is over after fewer round trips.
pub const BOUNCES_MAX: u32 = 3;

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
        self.tree.check_lease(lane)?;
        let ordered = self.tree.recovery.is_some();
        let lock_of = |node| {
            let lock = self.tree.lock_of(node);
            locks.iter().find(|held| Some(held.lock) == lock).copied()
        };
        let (Some(parent_lock), Some(left_lock)) = (lock_of(parent), lock_of(pair.left)) else { return Ok(None) };
        self.tree.push_in_place(lane, &parent_lock, Label::Parent, parent, 0..self.tree.inner.bytes, parent_at)?;
        if ordered && parent.node() != pair.right.node() {
            port.submit().await?;
        }
        if planted(Bug::MergeLeftFirst) {
            self.tree.push_in_place(lane, &left_lock, Label::Node, pair.left, 0..self.leaf.bytes, left_at)?;
        }
        let (right, line) = (pair.right, LINE_BYTES);
        port.push(Request::write(Label::Sibling, right.node(), right.offset(), line, right_at));
        if ordered && pair.right.node() != pair.left.node() {
            port.submit().await?;
        }
        if !planted(Bug::MergeLeftFirst) {
            self.tree.push_in_place(lane, &left_lock, Label::Node, pair.left, 0..self.leaf.bytes, left_at)?;
        }
        port.submit().await?;
        self.tree.cache.invalidate(parent);
        let next = if planted(Bug::SameGeneration) { pair.right } else { pair.right.next_generation() };
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
        node::retire(right, pair.left, self.tree.owner);
        InnerMut::new(&self.tree.inner, parent).remove(pair.separator);
        for image in [&mut *left, &mut *parent] {
            raise_node_version(image);
        }
        stripes::node_version(right)
    }

    /// Brings `right`, a retired leaf that `left` still points to, back, if whoever retired it died before `left` took
    /// over. Uses node images 2 and 3.
    pub(super) async fn undo_merge(&self, lane: &Lane<'_>, left: Address, right: Address) -> Result<(), OpError> {
        if left.is_null() {
            return Ok(());
        }
        if !planted(Bug::ReviveAtOnce) {
            let (held, _) = self.tree.acquire(lane, left, None).await?;
            self.tree.release(lane, held).await?;
        }
        let (held, _) = self.tree.acquire(lane, right, None).await?;
        match self.revive_locked(lane, left, right, &held).await {
            Ok(true) => {
                lane.mark(Mark::MergeUndone);
                self.tree.release_with(lane, held).await
            }
            Ok(false) => self.tree.release(lane, held).await,
            Err(error) => {
                self.tree.release(lane, held).await?;
                Err(error)
            }
        }
    }

    /// READs both leaves and, if they are a half-merge, pushes the WRITE that revives the right one.
    async fn revive_locked(
        &self,
        lane: &Lane<'_>,
        left: Address,
        right: Address,
        held: &Held,
    ) -> Result<bool, OpError> {
        let (left_at, right_at) = (self.tree.scratch.node(2), self.tree.scratch.node(3));
        let port = lane.port();
        port.push(self.leaf_target(left, left_at).request());
        port.push(self.leaf_target(right, right_at).request());
        port.submit().await?;
        let half_merged = port.with(|scratch| {
            let (head, tail) = scratch.split_at_mut_checked(right_at)?;
            let left_image = slice(head, left_at, self.leaf.bytes);
            let right_image = slice_mut(tail, 0, self.leaf.bytes);
            // A left leaf that is being written is one that others are at; who still bounces afterwards comes again.
            stripes::node_version(left_image)?;
            let (header, retired) = (Header::read(left_image), Header::read(right_image));
            let is = |header: &Header, address: Address| {
                header.index == self.tree.index && header.level == 0 && header.generation == address.generation()
            };
            let linked = is(&header, left) && !header.flags.contains(NodeFlags::RETIRED) && header.sibling == right;
            if !linked || !is(&retired, right) || !retired.flags.contains(NodeFlags::RETIRED) {
                return None;
            }
            let mut low = [0; KEY_BYTES_MAX];
            let low = low.get_mut(..self.leaf.key_bytes)?;
            node::read_high(left_image, low).then(|| node::revive(right_image, low))
        });
        if half_merged.is_some() {
            self.tree.push_in_place(lane, held, Label::Revive, right, 0..LINE_BYTES, right_at)?;
        }
        Ok(half_merged.is_some())
    }

    /// Looks along the leaves for half-merges and undoes them. `true`: there were some.
    ///
    /// One READ per leaf, one after the other.
    pub(super) async fn mend(&self, lane: &Lane<'_>) -> Result<bool, OpError> {
        let port = lane.port();
        let key = self.tree.scratch.separator.clone();
        port.with(|scratch| scratch.get_mut(key.clone()).unwrap_or_default().fill(0));
        let Some(spot) = self.tree.locate(lane, &key, 0, false).await? else { return Ok(false) };
        let at = self.tree.scratch.small;
        let (mut before, mut address, mut mended) = (Address::NULL, spot.address, false);
        for _ in 0..self.nodes_max() {
            port.call(Request::read(Label::Walk, address.node(), address.offset(), LINE_BYTES, at)).await?;
            let header = port.with(|scratch| Header::read(slice(scratch, at, LINE_BYTES)));
            if header.index != self.tree.index || header.generation != address.generation() || header.level != 0 {
                break;
            }
            if header.flags.contains(NodeFlags::RETIRED) {
                if before.is_null() {
                    break;
                }
                self.undo_merge(lane, before, address).await?;
                mended = true;
                (before, address) = (Address::NULL, before);
                continue;
            }
            if header.sibling.is_null() {
                break;
            }
            (before, address) = (address, header.sibling);
        }
        Ok(mended)
    }
}
