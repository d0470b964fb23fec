//! Merges: an emptied leaf is joined with a neighbour, so that its memory is reused; and half-merges are undone.
//!
//! Only neighbours under one parent are joined, and only if one of them is empty. The left leaf takes the records, the
//! high fence and the sibling of the right one. The right leaf is *retired*: it sends readers back to the left one, and
//! its parent forgets it. Then its place returns to the free list, with its next generation.
//!
//! Locks: the parent, waiting; then both leaves, without waiting. WRITEs: the parent, then the retired leaf (its first
//! line before the rest), then the left leaf. A lane that dies between the last two leaves a *half-merge*. An operation that is sent back and forth
//! more than [`FORWARDING_RETRIES_MAX`](super::descent::FORWARDING_RETRIES_MAX) times *revives* the right leaf: a
//! half-split again. [`merges`](crate::manual::merges) says why this order, and why the revival cannot race with a
//! merge that is under way.

use super::Tree;
use super::leaves::{Leaves, Looks};
use super::node::{self, Header, NodeFlags};
use super::router::{Cursor, Router};
use super::unlink::{Pair, Unlink};
use super::walk::Walk;
use crate::btree::sweep::TreeLocks;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::layout::stripes::Look;
use crate::layout::{LINE_BYTES, stripes, word_at};
use crate::locks::kind::LockKind;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Census, OpError};
use crate::recovery::Swept;
use crate::recovery::sweep::Sweep;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::catalog::IndexSet;
use crate::remote::lock_word::{HELD, RowId};
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::{Label, Request};
use heapless::Vec;

/// Node images of a merge. The parent's is [`Unlink`]'s.
const LEFT: usize = 0;
const PARENT: usize = 1;
const RIGHT: usize = 2;

/// Merges of any index of this family.
pub(crate) trait Merge<'s>: Walk<'s> + Leaves<'s, Router: Unlink> {
    /// Takes note of the image of a leaf that is held, in case its lock word says something about it.
    fn note_image(&self, _held: &mut Held, _image: &[u8]) {}

    /// Records in an image.
    fn records(&self, image: &[u8]) -> usize;

    /// Moves the records of `right` to `left`, which has to be empty if there are any.
    fn take_records(&self, left: &mut [u8], right: &[u8]);

    /// Gives an image that is written as a whole its next version.
    fn renew(&self, image: &mut [u8]);

    /// Bytes of a leaf's image, from its first on, that say whether it is retired. If that is more than a line it is
    /// all of the image, which is then [renewed](Merge::renew).
    fn retired_bytes(&self) -> usize {
        LINE_BYTES
    }

    /// Joins the leaf at `emptied`, which covers the operation's key, with a neighbour, if that can be done at once.
    /// The operation's own result stands, whatever comes of it.
    async fn join_emptied(&self, lane: &Lane<'_>, emptied: Address) {
        if planted(Mutant::EMPTIED_UNJOINED) {
            return;
        }
        // A failed request leaves its lock records, which settling finds.
        lane.end_change(self.try_join(lane, emptied).await);
    }

    async fn try_join(&self, lane: &Lane<'_>, emptied: Address) -> Result<(), Interrupt> {
        // A cursor that was borrowed would be kept in the future.
        let found = self.router().locate_parent(lane, &self.plan().key).await?.map(|cursor| cursor.leaf());
        let Some(parent) = found else {
            lane.mark(Mark::EMPTIED_STAYS);
            return Ok(());
        };
        let (parent, _) = self.router().acquire_parent(lane, parent).await?;
        let mut leaves: Vec<Held, 2> = Vec::new();
        let joined = self.join_locked(lane, &parent, emptied, &mut leaves).await;
        if let Err(failed @ OpError { cause: Cause::Verb(_), .. }) = joined {
            // It may have been a WRITE, and may still land in part: settling waits for that, and replays its redo
            // record.
            return Err(failed.into());
        }
        for leaf in leaves.into_iter().rev() {
            self.leaf_locks().release(lane, leaf).await?;
        }
        self.router().release_parent(lane, parent).await?;
        let Some(fresh) = joined? else {
            lane.mark(Mark::EMPTIED_STAYS);
            return Ok(());
        };
        lane.mark(Mark::MERGE);
        if !planted(Mutant::RETIRE_BEFORE_SWITCH) {
            self.tree().give_back_again(lane, NodeClass::Leaf, fresh);
        }
        Ok(())
    }

    async fn join_locked(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        emptied: Address,
        leaves: &mut Vec<Held, 2>,
    ) -> Result<Option<UnlinkedNode>, OpError> {
        let (tree, locks) = (self.tree(), self.leaf_locks());
        let port = lane.port();
        let pair = self.router().choose_neighbour(lane, parent, &self.plan().key, emptied).await?;
        let Some(pair) = pair else { return Ok(None) };
        let (Ok(left_lock), Ok(right_lock)) = (locks.lock_of(pair.left), locks.lock_of(pair.right)) else {
            return Ok(None);
        };
        for (leaf, lock) in [(pair.left, left_lock), (pair.right, right_lock)] {
            match lane.holds(lock) {
                // A word of a table may protect several nodes.
                Some(_) if !lock.in_node() => continue,
                // One local entry for two words: the lane's lock records could not tell them apart.
                Some(_) => return Ok(None),
                None if planted(Mutant::MERGE_UNLOCKED) && leaf == pair.right => continue,
                None => {}
            }
            let Some(leaf) = locks.try_acquire(lane, leaf, None).await? else { return Ok(None) };
            // Two fit the list.
            let _ = leaves.push(leaf);
        }
        port.push(self.leaf_target(pair.left, LEFT).request_locked());
        port.push(self.leaf_target(pair.right, RIGHT).request_locked());
        port.submit().await?;
        let version = port.with(|scratch| self.join_images(scratch, &pair));
        let Some(version) = version else { return Ok(None) };
        tree.check_lease(lane)?;
        if leaves.len() == 2 {
            port.with(|scratch| {
                for (leaf, i) in leaves.iter_mut().zip([LEFT, RIGHT]) {
                    self.note_image(leaf, tree.leaf_image(i).of(scratch));
                }
            });
        }
        // Chains keep the order on one memory node. A queue pair may fail with or without recovery.
        let ordered = !planted(Mutant::MERGE_UNORDERED);
        let (left, right) = (pair.left, pair.right);
        if planted(Mutant::RETIRE_BEFORE_SWITCH) {
            tree.give_back_again(lane, NodeClass::Leaf, next_life(right, version));
        }
        self.router().push_parent(lane, parent)?;
        if ordered && parent.protects.node() != right.node() {
            port.submit().await?;
        }
        let push_left =
            || tree.push_in_place(lane, left_lock, Label::Node, left, 0..tree.leaf_bytes, tree.leaf_image(LEFT));
        if planted(Mutant::MERGE_LEFT_FIRST) {
            push_left()?;
        }
        let retired = tree.leaf_image(RIGHT);
        if self.retired_bytes() > LINE_BYTES && !planted(Mutant::RETIRED_AS_A_WHOLE) {
            // A linker looks at this line. It must not see it change by a replay of the WRITE below.
            let line = tree.scratch.line();
            tree.push_in_place(lane, right_lock, Label::Sibling, right, 0..line.bytes, line)?;
        }
        tree.push_in_place(lane, right_lock, Label::Sibling, right, 0..self.retired_bytes(), retired)?;
        if ordered && right.node() != left.node() {
            port.submit().await?;
        }
        if !planted(Mutant::MERGE_LEFT_FIRST) {
            push_left()?;
        }
        port.submit().await?;
        self.router().forget_parent(parent);
        Ok(Some(next_life(right, version)))
    }

    /// Builds the three new images, and in [`TreeScratch::line`](super::TreeScratch::line) the first line of the retired
    /// leaf with the node version that it has now. `None`: the leaves are not what the parent and the emptied leaf
    /// promised. Returns the node version of the retired image.
    fn join_images(&self, scratch: &mut [u8], pair: &Pair) -> Option<u8> {
        let (tree, router) = (self.tree(), self.router());
        let (front, right) = tree.leaf_image(RIGHT).split(scratch)?;
        let (front, parent) = tree.inner_image(PARENT).split(front)?;
        let left = tree.leaf_image(LEFT).of_mut(front);

        let mut separator = [0; KEY_BYTES_MAX];
        let separator = separator.get_mut(..tree.inner.key_bytes)?;
        router.separator(parent, pair, separator)?;
        for (image, address) in [(&*left, pair.left), (&*right, pair.right)] {
            let sound = stripes::node_version(image).is_some()
                && self.is_leaf(&Header::read(image), address) == Some(NodeFlags::empty())
                && Look::at(image, |look| self.whole(look)).is_ok();
            if !sound {
                return None;
            }
        }
        let neighbours = Header::read(left).sibling == pair.right
            && stripes::compare(left, node::high_at(separator.len()), separator).is_eq()
            && stripes::compare(right, node::LOW_AT, separator).is_eq();
        if !neighbours || self.records(left) != 0 && self.records(right) != 0 {
            return None;
        }
        self.take_records(left, right);
        let mut high = [0; KEY_BYTES_MAX];
        let high = high.get_mut(..tree.inner.key_bytes)?;
        let bounded = node::read_high(right, high);
        node::set_right(left, bounded.then_some(&*high), Header::read(right).sibling);
        node::retire(right, pair.left, tree.owner_tag());
        let first: [u8; LINE_BYTES] = *right.first_chunk()?;
        router.unlink(parent, pair);
        self.renew(left);
        if self.retired_bytes() > LINE_BYTES {
            self.renew(right);
        }
        let version = stripes::node_version(right);
        *tree.scratch.line().of_mut(scratch).first_chunk_mut()? = first;
        version
    }

    /// The flag that says whether a leaf is retired, if the header is that of the leaf that a pointer means.
    fn is_leaf(&self, header: &Header, address: Address) -> Option<NodeFlags> {
        let is = header.index == self.tree().index && header.level == 0 && header.generation == address.generation();
        is.then(|| header.flags.intersection(NodeFlags::RETIRED))
    }

    /// Revives `right`, a retired leaf to which `left` still links, if the lane that retired it died before it wrote
    /// `left`. Uses node images 2 and 3.
    async fn undo_merge(&self, lane: &Lane<'_>, left: Address, right: Address) -> Result<(), Interrupt> {
        if left.is_null() {
            return Ok(());
        }
        let locks = self.leaf_locks();
        if !planted(Mutant::REVIVE_AT_ONCE) {
            let (held, _) = locks.acquire(lane, left, None).await?;
            locks.release(lane, held).await?;
        }
        let (mut held, _) = locks.acquire(lane, right, None).await?;
        match self.revive_locked(lane, left, right, &mut held).await {
            Ok(true) => {
                lane.mark(Mark::MERGE_UNDONE);
                locks.release_with(lane, held).await?;
            }
            Ok(false) => locks.release(lane, held).await?,
            Err(error) => {
                locks.release(lane, held).await?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// READs both leaves and, if they are a half-merge, pushes the WRITE that revives the right one. `false`: they are
    /// none, or that could not be seen this time.
    async fn revive_locked(
        &self,
        lane: &Lane<'_>,
        left: Address,
        right: Address,
        held: &mut Held,
    ) -> Result<bool, OpError> {
        let tree = self.tree();
        let port = lane.port();
        // The left leaf is not locked, and its head is enough.
        let head = tree.leaf_image(2).with_bytes(stripes::stored_bytes(node::header_bytes(tree.inner.key_bytes)));
        let left_read = port.push(head.read_from(Label::Leaf, left));
        port.push(self.leaf_target(right, 3).request());
        port.submit().await?;
        // A line is of one instant, however long its READ took.
        if head.bytes > LINE_BYTES && tree.exposed_too_long(port.completion(left_read).elapsed_ns) {
            return Ok(false);
        }
        let half_merged = port.with(|scratch| {
            let (front, right_image) = tree.leaf_image(3).split(scratch)?;
            let left_image = head.of(front);
            // If the left leaf is being written, other lanes are at work there; an operation that is still sent back
            // afterwards comes again.
            stripes::node_version(left_image)?;
            let header = Header::read(left_image);
            let linked = self.is_leaf(&header, left) == Some(NodeFlags::empty()) && header.sibling == right;
            if !linked || self.is_leaf(&Header::read(right_image), right) != Some(NodeFlags::RETIRED) {
                return None;
            }
            let mut low = [0; KEY_BYTES_MAX];
            let low = low.get_mut(..tree.inner.key_bytes)?;
            if !node::read_high(left_image, low) {
                return None;
            }
            node::revive(right_image, low);
            if self.retired_bytes() > LINE_BYTES {
                self.renew(right_image);
            }
            self.note_image(held, right_image);
            Some(())
        });
        if half_merged.is_some() {
            tree.push_in_place(lane, held.lock, Label::Revive, right, 0..self.retired_bytes(), tree.leaf_image(3))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Goes along the leaves and undoes half-merges. Where locks lie in leaves, it also waits for each held lock, so
    /// that a dead holder is noticed. `true`: there was something.
    ///
    /// One READ per leaf, one after the other.
    async fn mend(&self, lane: &Lane<'_>) -> Result<bool, Interrupt> {
        let tree = self.tree();
        let port = lane.port();
        let key = tree.scratch.separator.clone();
        port.with(|scratch| scratch.get_mut(key.clone()).unwrap_or_default().fill(0));
        let first = self.router().locate(lane, &key, false).await?.map(|cursor| cursor.leaf());
        let Some(first) = first else { return Ok(false) };
        let line = tree.scratch.line();
        let (mut before, mut address, mut mended) = (Address::NULL, first, false);
        for _ in 0..self.nodes_max() {
            port.push(line.read_from(Label::Walk, address));
            let lock = self.lock_in(address);
            if let Some(lock) = lock {
                let (node, offset, space) = self.leaf_locks().word_place(lock, address);
                port.push(Request::read(Label::Lock, node, offset, 8, line.end()).in_space(space));
            }
            port.submit().await?;
            let (header, word) = port.with(|scratch| (Header::read(line.of(scratch)), word_at(scratch, line.end())));
            let Some(flags) = self.is_leaf(&header, address) else { return Ok(mended) };
            if lock.is_some() && word & HELD != 0 && tree.recovery.is_some() {
                let (held, _) = self.leaf_locks().acquire(lane, address, None).await?;
                self.leaf_locks().release(lane, held).await?;
                mended = true;
            }
            if flags == NodeFlags::RETIRED {
                if before.is_null() {
                    return Ok(mended);
                }
                self.undo_merge(lane, before, address).await?;
                mended = true;
                (before, address) = (Address::NULL, before);
                continue;
            }
            if header.sibling.is_null() {
                return Ok(mended);
            }
            (before, address) = (address, header.sibling);
        }
        Err(Tree::corrupt(address, "a level without an end").into())
    }

    /// [`Index::validate`](crate::index::Index::validate): walks the tree. What a dead compute node left of a merge
    /// fails the walk until it is undone.
    async fn mend_and_walk(&self, lane: &Lane<'_>) -> Result<Census, OpError> {
        lane.begin(NO_DEADLINE_NS);
        let _pinned = self.tree().pin(lane);
        let mut looks = Looks::default();
        loop {
            let mut result = self.walk(lane).await.map_err(Interrupt::from);
            if let Err(Interrupt::Failed(OpError { cause: Cause::Corrupt { .. }, .. })) = result {
                match self.mend(lane).await {
                    Ok(true) => result = self.walk(lane).await.map_err(Interrupt::from),
                    // The damage that the walk has named keeps it from undoing half-merges.
                    Ok(false)
                    | Err(Interrupt::Failed(OpError {
                        cause: Cause::Corrupt { .. } | Cause::Retries { .. }, ..
                    })) => {}
                    Err(interrupt) => result = Err(interrupt),
                }
            }
            match result {
                Ok(census) => return Ok(census),
                Err(interrupt) => {
                    looks.again(interrupt)?;
                    self.overcome(lane, false, interrupt).await?;
                }
            }
        }
    }

    /// [`Index::sweep`](crate::index::Index::sweep): sweeps up after a dead compute node, and undoes its half-merges.
    async fn sweep_and_mend(&self, lane: &Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        let tree = self.tree();
        let _pinned = tree.pin(lane);
        let swept = TreeLocks { tree, index: self }
            .sweep_row(lane, row, done)
            .await
            .map_err(|error| self.note_fencing(error))?;
        let mut looks = Looks::default();
        loop {
            // Another dead compute node's lock may be in the way.
            let mended = self.mend(lane).await;
            match mended {
                Ok(_) => return Ok(swept),
                Err(interrupt) => {
                    looks.again(interrupt)?;
                    self.overcome(lane, false, interrupt).await?;
                }
            }
        }
    }
}

/// The place of a retired leaf with its next generation; `version` is that of its last image.
fn next_life(leaf: Address, version: u8) -> UnlinkedNode {
    let address = if planted(Mutant::SAME_GENERATION) { leaf } else { leaf.next_generation() };
    UnlinkedNode { address, version }
}
