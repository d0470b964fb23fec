//! Nodes that move to another memory node, so that one becomes empty.
//!
//! ```text
//!  guard ─► WRITE copy ─────► WRITE first line: moved ─► guard ends ─► lock: parent names the copy ─► lock: left neighbour
//!           nothing leads     of the old place.                                                       links to the copy
//!           to it yet         This is the move
//! ```
//!
//! Each arrow waits for the completion of what is before it. The guard keeps other lanes from writing the node: of an inner node
//! it is the lock; an index has another one for its leaves.
//!
//! **Linearization point**: the WRITE of the first line. Before it the node is where it was, and nothing leads to the copy. After it
//! the copy is the node, and the old place has a link to the copy: a lane that READs the old place follows this link
//! ([`FenceCheck::Forward`]). Both have the same fences and contents, so a lane that has READ the old place before the WRITE has
//! READ the node as it was then.
//!
//! **The old place is not used again.** So a pointer to it leads to the copy for ever, and costs a round trip more. A lane may
//! therefore stop after any step: the steps that are left only save this round trip. The next call makes them for the pointers
//! that it meets (`Tree::vacate_inner_nodes`). An orphan collection skips such a place. Its chunk is granted again after the index
//! was dropped.
//!
//! **Races.** The guard excludes a split and another move of the node. A lane replaces a pointer under the lock of the node that
//! has it, and only if it finds the old pointer there, at the separator where the node begins. If it finds another pointer,
//! another lane has replaced the old one, by the same copy or by a later one.
//!
//! **Order.** Neighbours move from right to left. So the first WRITE of a copy has the link to the copy of its right neighbour, and
//! only a neighbour that stays is written for its link. Parents move before children, and a child goes where its parent is.
//!
//! **Limit.** The link of a left neighbour of another part still leads to the first old place. A node may move 64 times (`MOVES_MAX`)
//! before that neighbour is vacated, too. A drain of a memory node vacates all parts.
//!
//! **Deaths.** Before the move the copy is an orphan, as the right half of a split is. After the move only steps are left that save a
//! round trip.
//!
//! Round trips of an inner node that moves: descent; lock, READ; WRITE; WRITE and unlock; and for its parent, and each neighbour
//! that stays: lock, READ, WRITE and unlock. Assumptions: those of splits.

use super::descent::DescentCursor;
use super::inner::{Inner, InnerMut};
use super::link::raise_node_version;
use super::node::{self, FenceCheck, Header, Wanted};
use super::orphans::Cover;
use super::read::Target;
use super::{MOVES_MAX, Tree};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::{LINE_BYTES, stripes};
use crate::locks::protocol::Locks;
use crate::memory::nodes_from;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId, Request};

/// A key of the index.
pub(crate) type Key = [u8; KEY_BYTES_MAX];

/// A node that is looked at on the way.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Where it is.
    pub(crate) address: Address,
    /// Its level.
    pub(crate) level: u8,
    /// Its low fence.
    pub(crate) low: Key,
    /// Its right neighbour.
    pub(crate) sibling: Address,
}

impl Tree<'_> {
    /// Moves every inner node with keys from `low` to below `high` that is on memory node `from`, and replaces pointers to
    /// nodes that have moved. Returns how many nodes it moved.
    pub(crate) async fn vacate_inner_nodes(
        &self,
        lane: &Lane<'_>,
        from: NodeId,
        (low, high): (&[u8], Option<&[u8]>),
    ) -> Result<u64, Interrupt> {
        let Some((_, root_level)) = self.read_root(lane).await? else { return Ok(0) };
        let mut moved = 0;
        for level in (1..=root_level).rev() {
            self.note_last(lane, high);
            let mut sought = self.noted_separator(lane);
            loop {
                lane.check_deadline()?;
                self.note_separator(lane, &sought);
                let address = match self.cover(lane, level).await? {
                    Cover::Node(address) => address,
                    Cover::Unsure => continue,
                    Cover::Nothing => break,
                };
                let image = self.inner_image(1);
                let found = lane.port().with(|scratch| self.found(image.of(scratch), address, level));
                // `None`: it has changed meanwhile, and is looked at again.
                let Some(is_moved) = self.vacate_inner_node(lane, from, found).await? else { continue };
                moved += u64::from(is_moved);
                if !self.note_before(lane, &found, low) {
                    break;
                }
                sought = self.noted_separator(lane);
            }
        }
        Ok(moved)
    }

    /// What is to be known of a node with that image.
    pub(crate) fn found(&self, image: &[u8], address: Address, level: u8) -> Found {
        let mut low = [0; KEY_BYTES_MAX];
        node::read_low(image, low.get_mut(..self.inner.key_bytes).unwrap_or_default());
        Found { address, level, low, sibling: Header::read(image).sibling }
    }

    /// Puts the last key below `high` into the `separator` range.
    pub(crate) fn note_last(&self, lane: &Lane<'_>, high: Option<&[u8]>) {
        let mut last = [0xff; KEY_BYTES_MAX];
        let last = last.get_mut(..self.inner.key_bytes).unwrap_or_default();
        if let Some(high) = high.filter(|high| high.len() == last.len()) {
            last.copy_from_slice(high);
            node::step_down(last);
        }
        self.note_separator(lane, last);
    }

    /// Puts the key in front of a node into the `separator` range. `false`: the node begins at `low` or below.
    pub(crate) fn note_before(&self, lane: &Lane<'_>, found: &Found, low: &[u8]) -> bool {
        let mut key = found.low;
        let key = key.get_mut(..self.inner.key_bytes).unwrap_or_default();
        let is_above = &*key > low && node::step_down(key);
        if is_above {
            self.note_separator(lane, key);
        }
        is_above
    }

    /// The key in the `separator` range.
    pub(crate) fn noted_separator(&self, lane: &Lane<'_>) -> Key {
        let mut key = [0; KEY_BYTES_MAX];
        lane.port().with(|scratch| {
            let noted = scratch.get(self.scratch.separator.clone()).unwrap_or_default();
            key.get_mut(..noted.len()).unwrap_or_default().copy_from_slice(noted);
        });
        key
    }

    /// Puts a key into the `separator` range.
    pub(crate) fn note_separator(&self, lane: &Lane<'_>, key: &[u8]) {
        lane.port().with(|scratch| {
            if let Some(place) = scratch.get_mut(self.scratch.separator.clone()) {
                place.copy_from_slice(key.get(..place.len()).unwrap_or_default());
            }
        });
    }

    /// Moves an inner node that is on `from`, and replaces the pointers at it that lead to nodes that have moved. Whether it
    /// was moved; `None`: it has changed since it was looked at.
    async fn vacate_inner_node(&self, lane: &Lane<'_>, from: NodeId, found: Found) -> Result<Option<bool>, Interrupt> {
        let right = self.copy_of(lane, from, found.sibling, found.level).await?;
        if found.address.node() != from {
            if let Some(copy) = right {
                self.note_separator(lane, &found.low);
                let relink = |image: &mut [u8], _: &[u8]| {
                    let header = Header::read(image);
                    Header { sibling: copy, ..header }.write(image);
                    header.sibling == found.sibling
                };
                self.amend(lane, found.level, relink).await?;
            }
            self.rename_in_parent(lane, from, &found, false).await?;
            return Ok(Some(false));
        }
        self.link_if_parent_lacks(lane, &found).await?;
        let near = self.home_of_parent(lane, &found).await?;
        let to = self.reserve_elsewhere(lane, NodeClass::Inner, from, near).await?;
        let Some(copy) = self.move_inner_node(lane, &found, to, right).await? else { return Ok(None) };
        self.rename_in_parent(lane, from, &Found { address: copy, ..found }, true).await?;
        Ok(Some(true))
    }

    /// The move, under the node's lock. Returns the address of the copy. `None`: the node has changed since it was looked at.
    async fn move_inner_node(
        &self,
        lane: &Lane<'_>,
        found: &Found,
        to: NodeId,
        right: Option<Address>,
    ) -> Result<Option<Address>, Interrupt> {
        let (port, image, copy) = (lane.port(), self.inner_image(1), self.inner_image(2));
        let &Found { address, level, low, sibling } = found;
        let (held, _) = self.acquire(lane, address, None).await?;
        let target = Target { address, image, label: Label::Node };
        let wanted = Wanted { address, index: self.index, level };
        let look = |scratch: &mut [u8]| {
            let image = image.of(scratch);
            let low = low.get(..self.inner.key_bytes).unwrap_or_default();
            Ok(node::judge(image, &wanted, low)? == FenceCheck::Here && Header::read(image).sibling == sibling)
        };
        let seen = Self::read_locked(lane, target, false, look).await;
        if !matches!(seen, Ok(Some(true))) {
            self.release(lane, held).await?;
            return Ok(seen.map(|_| None)?);
        }
        let Some(fresh) = lane.take_to_link(NodeClass::Inner, to) else {
            self.release(lane, held).await?;
            return Err(self.no_memory(to));
        };
        port.with(|scratch| {
            image.copy_to(scratch, copy.at);
            let image = copy.of_mut(scratch);
            let header = Header::read(image);
            let sibling = right.unwrap_or(header.sibling);
            Header { generation: fresh.address.generation(), sibling, ..header }.write(image);
            stripes::set_node_version(image, fresh.version.wrapping_add(1));
        });
        self.check_lease(lane)?;
        if !planted(Mutant::MOVED_BEFORE_COPY) {
            port.call(copy.write_to(Label::Sibling, fresh.address)).await?;
        }
        port.with(|scratch| node::move_to(image.with_bytes(LINE_BYTES).of_mut(scratch), fresh.address));
        self.push_in_place(lane, held.lock, Label::Node, address, 0..LINE_BYTES, image)?;
        self.release_with(lane, held).await?;
        if planted(Mutant::MOVED_BEFORE_COPY) {
            port.call(copy.write_to(Label::Sibling, fresh.address)).await?;
        }
        lane.is_through(fresh);
        self.cache.invalidate(address);
        self.cache_image(lane, fresh.address, copy);
        Ok(Some(fresh.address))
    }

    /// Where a node on `from` was moved to that a pointer leads to. `None`: it was not, or is not on `from`.
    pub(crate) async fn copy_of(
        &self,
        lane: &Lane<'_>,
        from: NodeId,
        pointer: Address,
        level: u8,
    ) -> Result<Option<Address>, OpError> {
        let (mut copy, line) = (pointer, self.scratch.line());
        // A node may move more than once.
        for _ in 0..MOVES_MAX {
            if copy.is_null() || copy.node() != from {
                break;
            }
            lane.port().call(line.read_from(Label::Header, copy)).await?;
            let next = lane.port().with(|scratch| {
                let line = line.of(scratch);
                let header = Header::read(line);
                let is_it = (header.index, header.level, header.generation) == (self.index, level, copy.generation());
                (is_it && node::is_moved(line)).then_some(header.sibling)
            });
            let Some(next) = next else { break };
            copy = next;
        }
        Ok((copy != pointer).then_some(copy))
    }

    /// Has the parent of a node that is about to move name it, if no parent does yet: a separator can be found where the node
    /// begins.
    pub(crate) async fn link_if_parent_lacks(&self, lane: &Lane<'_>, found: &Found) -> Result<(), Interrupt> {
        self.note_separator(lane, &found.low);
        if self.is_leftmost(found) {
            // The root, or what it leads to first.
            return Ok(());
        }
        self.link_above(lane, found.level, found.address).await
    }

    fn is_leftmost(&self, found: &Found) -> bool {
        found.low.iter().take(self.inner.key_bytes).all(|byte| *byte == 0)
    }

    /// The memory node of a node's parent; that of the root word, if it has none.
    pub(crate) async fn home_of_parent(&self, lane: &Lane<'_>, found: &Found) -> Result<NodeId, Interrupt> {
        self.note_separator(lane, &found.low);
        let parent = self.descend(lane, &self.scratch.separator, found.level + 1, true).await?;
        Ok(parent.map_or(self.root_word.0, |cursor| cursor.address.node()))
    }

    /// Reserves a node that is not on `from`, on `near` if there is room. Returns on which memory node it is.
    pub(crate) async fn reserve_elsewhere(
        &self,
        lane: &Lane<'_>,
        class: NodeClass,
        from: NodeId,
        near: NodeId,
    ) -> Result<NodeId, Interrupt> {
        for node in nodes_from(near, self.geometry.len()).filter(|node| *node != from) {
            // What is left in the stock is there.
            self.return_others(lane, node);
            let is_reserved = self.reserve(lane, class, 1, node).await?;
            self.return_others(lane, node);
            if is_reserved && lane.stocked(class) > 0 {
                return Ok(node);
            }
        }
        Err(self.no_memory(near))
    }

    /// Has the parent of a live node name it, if what the parent names there is on `from`. It is looked for in copies, unless the
    /// node has just `moved`.
    pub(crate) async fn rename_in_parent(
        &self,
        lane: &Lane<'_>,
        from: NodeId,
        found: &Found,
        moved: bool,
    ) -> Result<(), Interrupt> {
        let &Found { address, level, low, .. } = found;
        self.note_separator(lane, &low);
        let cursor = self.descend(lane, &self.scratch.separator, level, !moved).await?;
        let Some(DescentCursor { address: named, parent, .. }) = cursor else { return Ok(()) };
        if named.node() != from || named == address {
            return Ok(());
        }
        if parent.is_null() {
            if !self.is_leftmost(found) && !planted(Mutant::SIBLING_MADE_ROOT) {
                // A right sibling of the root, which has no parent yet.
                return Ok(());
            }
            self.replace_root(lane, (named, address), level).await?;
            // If it has grown meanwhile, the new root names the old place.
            if self.root.get() == Some((address, level)) {
                return Ok(());
            }
        }
        let rename = |image: &mut [u8], low: &[u8]| {
            let Some(inner) = Inner::new(&self.inner, image) else { return false };
            let position = inner.position(low);
            let is_old = inner.begins_at(position, low) && inner.child(position) == named;
            if is_old {
                InnerMut::new(&self.inner, image).set_child(position, address);
            }
            is_old
        };
        self.amend(lane, level + 1, rename).await
    }

    /// Replaces the root that was moved by its copy, unless the root has grown.
    pub(super) async fn replace_root(
        &self,
        lane: &Lane<'_>,
        (moved, copy): (Address, Address),
        level: u8,
    ) -> Result<(), OpError> {
        let (node, offset) = self.root_word;
        let cas = Request::cas(Label::Root, node, offset, moved.to_bits(), copy.to_bits());
        self.root.forget();
        if lane.port().call(cas).await?.value == moved.to_bits() {
            self.root.set(copy, level);
        }
        Ok(())
    }

    /// Locks the inner node of `level` that covers the key in the `separator` range, and WRITEs it if `change` has changed its
    /// image. Uses node images 0 and 1.
    async fn amend(
        &self,
        lane: &Lane<'_>,
        level: u8,
        mut change: impl FnMut(&mut [u8], &[u8]) -> bool,
    ) -> Result<(), Interrupt> {
        let (image, separator) = (self.inner_image(1), self.scratch.separator.clone());
        let mut attempts = 0;
        loop {
            let Some(cursor) = self.descend(lane, &separator, level, attempts == 0).await? else { return Ok(()) };
            let mut address = cursor.address;
            for _ in 0..MOVES_MAX {
                let target = Target { address, image, label: Label::Parent };
                let wanted = Wanted { address, index: self.index, level };
                let (held, _) = self.acquire(lane, address, None).await?;
                let look = |scratch: &mut [u8]| {
                    let mut key = [0; KEY_BYTES_MAX];
                    let key = key.get_mut(..self.inner.key_bytes).unwrap_or_default();
                    key.copy_from_slice(scratch.get(separator.clone()).unwrap_or_default());
                    let image = image.of_mut(scratch);
                    let judged = node::judge(image, &wanted, key)?;
                    let is_changed = judged == FenceCheck::Here && change(image, key);
                    if is_changed {
                        raise_node_version(image);
                    }
                    Ok((judged, is_changed))
                };
                let seen = Self::read_locked(lane, target, false, look).await;
                if let Ok(Some((_, true))) = seen {
                    self.push_in_place(lane, held.lock, Label::Parent, address, 0..image.bytes, image)?;
                    self.release_with(lane, held).await?;
                    self.cache_image(lane, address, image);
                    return Ok(());
                }
                self.release(lane, held).await?;
                match seen? {
                    Some((FenceCheck::Here, _)) => return Ok(()),
                    Some((FenceCheck::Right(next) | FenceCheck::Forward(next), _)) => address = next,
                    None => break,
                }
            }
            self.cache.invalidate(cursor.parent);
            lane.attempt(&mut attempts, "finding the node that names a moved one")?;
        }
    }
}
