//! Linking: naming a new right sibling in its parent; splitting inner nodes; growing the root.
//!
//! One procedure serves the split that just happened and a half-split that another lane left. It is idempotent: the
//! second lane finds the separator in place. A retired leaf is never linked, since the linker READs the child's first
//! line under the parent's lock ([`half_splits`](crate::manual::half_splits)).

use super::descent::is_live;
use super::inner::{Inner, InnerMut};
use super::node::{self, FenceCheck, Header, NodeFlags, Wanted};
use super::read::Target;
use super::{LEVELS_MAX, MOVES_MAX, Tree};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::{LINE_BYTES, stripes};
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};

/// Result of a look at the locked parent.
enum Parent {
    /// The separator is in a node to the right of this one, or in its copy.
    Right(Address),
    /// Nothing to do: already linked, or the child has been retired.
    Settled,
    /// The separator went in.
    Inserted,
    /// There is no room.
    Full,
}

impl Tree<'_> {
    /// Links `right`, a node of `level` whose low fence is in the scratch range `separator`, into its parent. Uses node
    /// images 1 and 2, and the descent uses 0.
    pub(crate) async fn link_above(&self, lane: &Lane<'_>, level: u8, right: Address) -> Result<(), Interrupt> {
        let (mut level, mut right) = (level, right);
        let mut attempts = 0;
        let separator = self.scratch.separator.clone();
        loop {
            self.reserve(lane, NodeClass::Inner, 2, right.node()).await?;
            if self.grow_above(lane, level, right).await? {
                return Ok(());
            }
            let Some(cursor) = self.descend(lane, &separator, level + 1, attempts == 0).await? else {
                lane.attempt(&mut attempts, "finding a parent")?;
                continue;
            };
            match self.link_at(lane, level, right, cursor.address).await? {
                Linked::Done => return Ok(()),
                Linked::Lost => {
                    self.cache.invalidate(cursor.parent);
                    lane.attempt(&mut attempts, "linking a node to its parent")?;
                }
                Linked::Split(sibling) => {
                    level += 1;
                    right = sibling;
                    attempts = 0;
                }
            }
        }
    }

    async fn link_at(&self, lane: &Lane<'_>, level: u8, right: Address, parent: Address) -> Result<Linked, Interrupt> {
        let image = self.inner_image(1);
        let mut parent = parent;
        let mut moves = 0;
        loop {
            let target = Target { address: parent, image, label: Label::Parent };
            let wanted = Wanted { address: parent, index: self.index, level: level + 1 };
            // Lock.
            let (held, _) = self.acquire(lane, parent, None).await?;
            // READ the parent + the sibling's first line; insert the separator into the image, if it has to go there.
            if level == 0 {
                lane.port().push(self.scratch.line().read_from(Label::Header, right));
            }
            let look = |scratch: &mut [u8]| self.look_at_parent(scratch, target, &wanted, level, right);
            let found = Self::read_locked(lane, target, false, look).await;
            // WRITE the parent + unlock.
            if let Ok(Some(Parent::Inserted)) = found {
                self.push_in_place(lane, held.lock, Label::Parent, parent, 0..image.bytes, image)?;
                self.release_with(lane, held).await?;
                self.cache_image(lane, parent, image);
                return Ok(Linked::Done);
            }
            if let Ok(Some(Parent::Full)) = found {
                if level > 0 {
                    lane.mark(Mark::UPPER_SPLIT);
                }
                let sibling = self.split_inner(lane, held, parent, right).await?;
                return Ok(Linked::Split(sibling));
            }
            // Nothing to write: unlock.
            self.release(lane, held).await?;
            match found? {
                Some(Parent::Right(sibling)) => {
                    lane.mark(Mark::MOVE_RIGHT);
                    moves += 1;
                    if moves > MOVES_MAX {
                        return Ok(Linked::Lost);
                    }
                    parent = sibling;
                }
                Some(Parent::Settled | Parent::Inserted | Parent::Full) => return Ok(Linked::Done),
                None => return Ok(Linked::Lost),
            }
        }
    }

    /// Judges the locked parent's image and, if there is room, inserts the separator.
    fn look_at_parent(
        &self,
        scratch: &mut [u8],
        target: Target,
        wanted: &Wanted,
        level: u8,
        right: Address,
    ) -> Result<Parent, DecodeError> {
        let mut separator = [0; KEY_BYTES_MAX];
        let separator = separator.get_mut(..self.inner.key_bytes).unwrap_or_default();
        separator.copy_from_slice(scratch.get(self.scratch.separator.clone()).unwrap_or_default());
        if level == 0 {
            let line = self.scratch.line().of(scratch);
            // The first line holds a low fence of up to 48 bytes; of a longer one it holds the beginning.
            let known = separator.len().min(stripes::LINE_PAYLOAD_BYTES - node::LOW_AT);
            let known = if planted(Mutant::PIVOT_NOT_MAXIMUM) { 0 } else { known };
            if !is_live(line, right, self.index, 0, &separator[..known]) && !planted(Mutant::LINKS_DEAD) {
                return Ok(Parent::Settled);
            }
        }
        let image = target.image.of_mut(scratch);
        match node::judge(image, wanted, separator)? {
            // A parent is an inner node, which is not merged: it was moved, and the next one is its copy.
            FenceCheck::Right(next) | FenceCheck::Forward(next) => return Ok(Parent::Right(next)),
            FenceCheck::Here => {}
        }
        let inner = Inner::new(&self.inner, image)
            .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
        let position = inner.position(separator);
        if inner.child(position).place() == right.place() {
            return Ok(Parent::Settled);
        }
        // Where nodes do not move, only the first child begins where its parent does: then this one would be a mistake.
        let may_be_first = self.options.subtrees.may_move() && !planted(Mutant::EDGE_LINKED_TWICE);
        if inner.begins_at(position, separator) && (position > 0 || may_be_first) {
            // The separator is there with another child. Other lanes have merged the node away and split the place again; or
            // a lane has moved the node, and the child is its copy.
            return Ok(Parent::Settled);
        }
        if !InnerMut::new(&self.inner, image).insert(separator, right) {
            return Ok(Parent::Full);
        }
        raise_node_version(image);
        Ok(Parent::Inserted)
    }

    /// Splits the locked, full inner node in image 1 with the separator and `right` among its children. The
    /// separator between the halves is in the `separator` range afterwards; the new sibling is returned.
    async fn split_inner(
        &self,
        lane: &Lane<'_>,
        held: Held,
        parent: Address,
        right: Address,
    ) -> Result<Address, Interrupt> {
        let Some(fresh) = lane.take_to_link(NodeClass::Inner, parent.node()) else {
            self.release(lane, held).await?;
            return Err(Interrupt::NoMemory);
        };
        lane.mark(Mark::INNER_SPLIT);
        let image = self.inner_image(1);
        lane.port().with(|scratch| {
            let mut old = [0; KEY_BYTES_MAX];
            let mut new = [0; KEY_BYTES_MAX];
            let key_bytes = self.inner.key_bytes;
            let (Some(old), Some(new)) = (old.get_mut(..key_bytes), new.get_mut(..key_bytes)) else { return };
            old.copy_from_slice(scratch.get(self.scratch.separator.clone()).unwrap_or_default());
            let Some((front, right_half)) = self.scratch.next_image(image).split(scratch) else { return };
            let left_half = image.of_mut(front);
            InnerMut::new(&self.inner, left_half).split(right_half, fresh.address, (old, right), new);
            raise_node_version(left_half);
            stripes::set_node_version(right_half, fresh.version.wrapping_add(1));
            if let Some(place) = scratch.get_mut(self.scratch.separator.clone()) {
                place.copy_from_slice(new);
            }
        });
        self.write_split(lane, held, (parent, fresh.address), image).await?;
        lane.is_through(fresh);
        self.cache_image(lane, parent, image);
        self.cache_image(lane, fresh.address, self.scratch.next_image(image));
        Ok(fresh.address)
    }

    /// Writes a new sibling, then the node that links to it, and releases: in one chain if both are on one memory node
    /// (Sherman section 4.2), otherwise the sibling first. The WRITE of the old node is the split. The old node is in
    /// `image`, and the new sibling in the node image behind it.
    pub(crate) async fn write_split(
        &self,
        lane: &Lane<'_>,
        held: Held,
        (left, right): (Address, Address),
        image: Span,
    ) -> Result<(), OpError> {
        let port = lane.port();
        self.check_lease(lane)?;
        port.push(self.scratch.next_image(image).write_to(Label::Sibling, right));
        if right.node() != left.node() || !self.options.combine {
            port.submit().await?;
        }
        let all = 0..image.bytes;
        if planted(Mutant::SPLIT_WITHOUT_IMAGE) {
            port.push(image.write_to(Label::Node, left));
        } else if planted(Mutant::SPLIT_SORTS) {
            let rest = image.part(&(LINE_BYTES..all.end));
            let offset = left.offset() + LINE_BYTES as u64;
            port.push(Request::write(Label::Node, left.node(), offset, rest.bytes, rest.at));
            self.push_in_place(lane, held.lock, Label::Node, left, 0..LINE_BYTES, image)?;
        } else {
            self.push_in_place(lane, held.lock, Label::Node, left, all, image)?;
        }
        self.release_with(lane, held).await
    }

    /// Makes sure that the tree has a level above `level`: if the root is at `level`, a new root is built from it and
    /// its right sibling, whichever lane split it. `true`: that made `right` known.
    ///
    /// The linearization point is the CAS of the root word, which expects the old root. Of several lanes that try one
    /// wins; the others' nodes return to the free list. What was READ without a lock still holds then
    /// ([`half_splits`](crate::manual::half_splits)).
    pub(super) async fn grow_above(&self, lane: &Lane<'_>, level: u8, right: Address) -> Result<bool, Interrupt> {
        if self.root.get().is_some_and(|(_, root_level)| root_level > level) {
            return Ok(false);
        }
        let port = lane.port();
        let new = self.inner_image(1);
        let mut attempts = 0;
        loop {
            lane.attempt(&mut attempts, "growing the root")?;
            let Some((root, root_level)) = self.read_root(lane).await? else {
                return Err(Self::corrupt(Address::NULL, "a node split in a tree without a root").into());
            };
            if root_level > level {
                return Ok(false);
            }
            if root_level + 1 >= LEVELS_MAX {
                // No reader would accept a higher root: the tree stays as it is, its right part reached by links.
                return Err(
                    OpError::harmless(Cause::Retries { attempts: 0, what: "growing past the most levels" }).into()
                );
            }
            let old = self.image_of_level(level, 2);
            let target = Target { address: root, image: old, label: Label::Node };
            let wanted = Wanted { address: root, index: self.index, level: root_level };
            // Without the lock, which for a leaf is the index's own: what stays undecided is READ again.
            let sibling = self
                .read_unlocked(lane, target, |scratch| {
                    // Any key to the right of everything: only the comparison with the high fence matters.
                    node::judge(old.of(scratch), &wanted, &[0xff; KEY_BYTES_MAX][..self.inner.key_bytes])
                })
                .await?;
            let sibling = match sibling {
                Ok(Some(FenceCheck::Right(sibling))) => sibling,
                // The lane that moved the root has not got so far.
                Ok(Some(FenceCheck::Forward(copy))) => {
                    self.replace_root(lane, (root, copy), root_level).await?;
                    continue;
                }
                // Not a half-split root (any more), or undecided: READ again.
                _ => continue,
            };
            let Some(fresh) = lane.take_to_link(NodeClass::Inner, root.node()) else {
                return Err(Interrupt::NoMemory);
            };
            port.with(|scratch| {
                let mut high = [0; KEY_BYTES_MAX];
                let Some(high) = high.get_mut(..self.inner.key_bytes) else { return };
                node::read_high(old.of(scratch), high);
                let image = new.of_mut(scratch);
                let header = Header {
                    generation: fresh.address.generation(),
                    level: root_level + 1,
                    index: self.index,
                    flags: NodeFlags::empty(),
                    count: 0,
                    sibling: Address::NULL,
                };
                node::start(image, &header, &[0; KEY_BYTES_MAX][..self.inner.key_bytes], None);
                let mut inner = InnerMut::new(&self.inner, image);
                inner.set_child(0, root);
                inner.append(high, sibling);
                stripes::set_node_version(image, fresh.version.wrapping_add(1));
            });
            let address = fresh.address;
            port.call(new.write_to(Label::Root, address)).await?;
            let (node, offset) = self.root_word;
            let cas = Request::cas(Label::Root, node, offset, root.to_bits(), address.to_bits());
            let grown = port.call(cas).await?.value == root.to_bits();
            lane.is_through(fresh);
            if grown {
                lane.mark(Mark::ROOT_GROWTH);
                self.root.set(address, root_level + 1);
                self.cache_image(lane, address, new);
                return Ok(sibling == right);
            }
            lane.mark(Mark::ROOT_RACE_LOST);
            self.give_back_again(lane, NodeClass::Inner, fresh.after_write());
            if planted(Mutant::ROOT_RACE_GIVES_UP) {
                return Err(Self::corrupt(root, "no longer the root").into());
            }
            self.reserve(lane, NodeClass::Inner, 2, root.node()).await?;
        }
    }

    /// Copies the image of the inner node at `address` into the cache.
    pub(super) fn cache_image(&self, lane: &Lane<'_>, address: Address, image: Span) {
        lane.port().with(|scratch| {
            if let Some(inner) = Inner::new(&self.inner, image.of(scratch)) {
                self.cache.insert(address, &inner, self.epoch(lane));
            }
        });
    }
}

/// Result of an attempt to link.
enum Linked {
    /// The parent knows the node, or does not need to.
    Done,
    /// The path was wrong.
    Lost,
    /// The parent was split; its new sibling has to be linked in turn.
    Split(Address),
}

/// Raises the node version of a whole image that is about to be written back.
pub(crate) fn raise_node_version(image: &mut [u8]) {
    if planted(Mutant::SAME_NODE_VERSION) {
        return;
    }
    let version = stripes::node_version(image).unwrap_or(0);
    stripes::set_node_version(image, version.wrapping_add(1));
}
