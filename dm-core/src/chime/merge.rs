//! Joining an emptied leaf with a neighbour, so that its memory comes back.
//!
//! As Sherman's ([`crate::sherman::merge`]): neighbours under one parent, one of them empty; the left one takes what the
//! right one has - each record in the same entry, where its home's neighborhood is the same - and its right edge; the right
//! one is retired, its parent forgets it, and it goes back on the shelf in its next generation. Parent first, waiting; then
//! both leaves, without waiting.
//!
//! **Readers of parts.** Both leaves are locked until all three WRITEs have completed, so no record changes meanwhile. Who
//! still sees a part of the right leaf as it was finds what is current; who sees a part of it as retired, or of the left
//! leaf with its new sibling, finds that it is not what the parent's copy says, and READs more.

use super::Chime;
use super::layout::{Leaf, LeafMut, State};
use super::lock::LeafHeld;
use crate::btree::inner::{Inner, InnerMut};
use crate::btree::leaves::{Leaves, key_of, slice, slice_mut};
use crate::btree::link::raise_node_version;
use crate::btree::merge::Pair;
use crate::btree::node::{self, Header, KEY_BYTES_MAX, NodeFlags, Wanted};
use crate::btree::read::Target;
use crate::compute::nodes::{Fresh, NodeClass};
use crate::error::OpError;
use crate::lane::{Lane, Mark};
use crate::layout::stripes;
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use heapless::Vec;

/// What a merge leaves behind.
#[derive(Clone, Copy)]
struct Joined {
    /// The retired leaf's place, for its next life.
    fresh: Fresh,
    /// Vacancy of the left leaf.
    vacancy: u64,
    left: Address,
}

impl Chime<'_> {
    /// Joins the leaf at `emptied`, which covers the operation's key, with a neighbour if that can be done at once. The
    /// operation's own result stands whatever comes of it.
    pub(super) async fn join_emptied(&self, lane: &Lane<'_>, emptied: Address) {
        // A failed request leaves its debts in the ledger, where settling finds them.
        let _ = self.try_join(lane, emptied).await;
    }

    async fn try_join(&self, lane: &Lane<'_>, emptied: Address) -> Result<(), OpError> {
        let Some(spot) = self.tree.locate(lane, &self.plan.key, 1, true).await? else { return Ok(()) };
        let parent = spot.address;
        let (held, _) = self.tree.acquire(lane, parent, None).await?;
        let mut leaves: Vec<LeafHeld, 2> = Vec::new();
        let joined = self.join_locked(lane, parent, emptied, &mut leaves).await;
        for leaf in leaves.into_iter().rev() {
            let vacancy = match &joined {
                Ok(Some(joined)) if leaf.address == joined.left => joined.vacancy,
                Ok(Some(_)) => 0,
                _ => leaf.vacancy,
            };
            self.unlock_leaf(lane, leaf, vacancy).await?;
        }
        self.tree.release(lane, held).await?;
        if let Some(joined) = joined? {
            lane.mark(Mark::Merge);
            self.tree.give_back(NodeClass::Leaf, joined.fresh);
        }
        Ok(())
    }

    async fn join_locked(
        &self,
        lane: &Lane<'_>,
        parent: Address,
        emptied: Address,
        leaves: &mut Vec<LeafHeld, 2>,
    ) -> Result<Option<Joined>, OpError> {
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
        if self.leaf_lock(pair.left)? == self.leaf_lock(pair.right)? {
            // One local entry for two words: the ledger could not tell them apart.
            return Ok(None);
        }
        for leaf in [pair.left, pair.right] {
            let Some(held) = self.try_lock_leaf(lane, leaf).await? else { return Ok(None) };
            // Two fit the list.
            let _ = leaves.push(held);
        }
        port.push(self.leaf_target(pair.left, left_at).request_locked());
        port.push(self.leaf_target(pair.right, right_at).request_locked());
        port.submit().await?;
        let joined = port.with(|scratch| self.join_images(scratch, parent_at, left_at, right_at, &pair));
        let Some((version, vacancy)) = joined else { return Ok(None) };
        for (label, address, bytes, at) in [
            (Label::Node, pair.left, self.leaf.bytes, left_at),
            (Label::Sibling, pair.right, self.leaf.bytes, right_at),
            (Label::Parent, parent, self.tree.inner.bytes, parent_at),
        ] {
            port.push(Request::write(label, address.node(), address.offset(), bytes, at));
        }
        port.submit().await?;
        self.tree.cache.invalidate(parent);
        let fresh = Fresh { address: pair.right.next_generation(), version };
        Ok(Some(Joined { fresh, vacancy, left: pair.left }))
    }

    /// Builds the three new images. `None`: the leaves are not what the parent and the emptied leaf promised. Returns the node
    /// version of the retired image, and the vacancy of the other.
    fn join_images(
        &self,
        scratch: &mut [u8],
        parent_at: usize,
        left_at: usize,
        right_at: usize,
        pair: &Pair,
    ) -> Option<(u8, u64)> {
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
                && Leaf::new(&self.leaf, image).settled().is_ok();
            if !sound {
                return None;
            }
        }
        let neighbours = Header::read(left).sibling == pair.right
            && stripes::compare(left, node::high_at(separator.len()), separator).is_eq()
            && stripes::compare(right, node::LOW_AT, separator).is_eq();
        let records = |image: &[u8]| Leaf::new(&self.leaf, image).records();
        if !neighbours || records(left) != 0 && records(right) != 0 {
            return None;
        }
        LeafMut::new(&self.leaf, left).purge();
        for slot in 0..self.leaf.span {
            let from = Leaf::new(&self.leaf, right);
            if from.state(slot) == State::Live {
                LeafMut::new(&self.leaf, left).adopt(&from, slot);
            }
        }
        let mut high = [0; KEY_BYTES_MAX];
        let high = high.get_mut(..self.leaf.key_bytes)?;
        let bounded = node::read_high(right, high);
        node::set_right(left, bounded.then_some(&*high), Header::read(right).sibling);
        node::retire(right, pair.left, self.tree.owner);
        InnerMut::new(&self.tree.inner, parent).remove(pair.separator);
        raise_node_version(parent);
        for image in [&mut *left, &mut *right] {
            let version = stripes::node_version(image)?;
            LeafMut::new(&self.leaf, image).seal(version.wrapping_add(1));
        }
        Some((stripes::node_version(right)?, self.buckets.exact(&Leaf::new(&self.leaf, left))))
    }
}
