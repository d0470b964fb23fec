//! Insert of a key that has no leaf: into an empty slot, or by a split.
//!
//! Steps: carve memory; WRITE what is new; CAS of one slot. The CAS is the linearization point, and the only step that
//! others can see. If it loses, nothing has happened: what was carved is kept for the next time.
//!
//! A slot that leads to a deleted leaf is as good as an empty one: the tombstone is *finalized* ([`super::bury`]), and
//! the CAS puts the new leaf in its place. [`smart_records`](crate::manual::smart_records) says why two inserts of one
//! byte, and two splits of one slot, exclude each other.

use super::Smart;
use super::parameters::CHAIN_NODES_MAX;
use super::search::{DescentCursor, Way, Why};
use crate::error::VerbError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::memory::chunks::{self, Want};
use crate::mutants::{Mutant, planted};
use crate::operation::{Effect, OpError};
use crate::radix::pieces::AllocationClass;
use crate::radix::slot::{self, BYTES_MAX, COVERS_MAX, Child, Header, NodeType, Place, SLOTS_AT, Slot, word};
use crate::radix::space::Room;
use crate::remote::chunk::{ChunkKind, Grant};
use crate::smart::corrupt;
use crate::verbs::{Label, NodeId, Request};

/// Result of an attempt to put a leaf in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    /// The key is in.
    Done,
    /// Another lane changed the slot, or the node had to be replaced: look again, from copies or from the root.
    Again { copied: bool },
}

/// The effect of a submit that may have published something.
pub(super) fn published(error: VerbError) -> OpError {
    OpError { effect: if error.effect_unknown() { Effect::Unknown } else { Effect::None }, cause: error.into() }
}

impl<'s> Smart<'s> {
    /// Puts the operation's record in where its descent ended. `tidies`: the operation may first replace a node that
    /// has room, because of deleted leaves; once.
    pub(super) async fn attach(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        (cursor, why): (DescentCursor, Why),
        tidies: &mut bool,
    ) -> Result<Attached, Interrupt> {
        match why {
            Why::Slot(node, None) => {
                // The replacement has the record from the beginning.
                let published = self.switch(lane, way, &cursor, node, true).await?;
                Ok(if published { Attached::Done } else { Attached::Again { copied: false } })
            }
            Why::Slot(node, Some(empty)) => {
                if *tidies && self.has_tombstones(lane, &cursor, usize::from(empty)).await? {
                    *tidies = false;
                    // Without the record: a node with room may have a slot for its byte by the time it is frozen.
                    let published = self.switch(lane, way, &cursor, node, false).await?;
                    return Ok(Attached::Again { copied: published });
                }
                self.fill_slot(lane, way, &cursor, node, usize::from(empty)).await
            }
            Why::Leaf(leaf, judged) => match self.is_buried(lane, leaf, judged).await? {
                true => self.replace_leaf(lane, way, &cursor, leaf).await,
                // It is the key's own leaf, finalized, and its lock is handed from lane to lane.
                false if judged.ours => Ok(Attached::Again { copied: false }),
                false => self.split(lane, way, &cursor, why).await,
            },
            Why::Empty | Why::Header(_) => self.split(lane, way, &cursor, why).await,
        }
    }

    /// Carves `bytes`, on `near` if that has room, with a chunk granted where no memory node has. After [`Interrupt::NoMemory`] the
    /// operation waits and begins again, as long as there is something to wait for: `Smart::await_memory`. `patient`:
    /// see [`Way`].
    pub(super) async fn carve(
        &self,
        lane: &Lane<'_>,
        patient: bool,
        what: AllocationClass,
        near: NodeId,
        bytes: usize,
    ) -> Result<Place, Interrupt> {
        for _ in 0..self.space.release() {
            lane.mark(Mark::QuarantineOver);
        }
        let ready = self.space.take(what, near, bytes).or_else(|| self.space.take_collected(what, near, bytes));
        if let Some(place) = ready.or_else(|| self.space.take_off(what, near, bytes)) {
            return Ok(place);
        }
        // Memory that is overwritten again and again should be reused, and is waited for where the pool is short of it.
        // Otherwise every turn of the epochs would cost a chunk.
        if self.space.is_crowded(what, self.cache.used_bytes()) {
            if patient && self.space.is_worth_waiting(what) {
                return Err(Interrupt::NoMemory);
            }
            self.space.ask_back();
        }
        // One lane of the compute node asks, the others wait for what it gets; not for long, as its future may be
        // dropped.
        for _ in 0..ASKS_AWAITED {
            if self.space.begins_to_ask(what, near) {
                break;
            }
            lane.port().call(Request::pause(ASK_PAUSE_NS)).await?;
            if let Some(place) = self.space.take(what, near, bytes) {
                return Ok(place);
            }
        }
        // Other lanes may use up the chunk that this one was granted.
        for _ in 0..CHUNKS_MAX {
            let Some(request) = self.requests.next() else { break };
            let kind = match what {
                AllocationClass::Leaf => ChunkKind::Leaf,
                AllocationClass::Node => ChunkKind::Inner,
            };
            let grant = Grant::new(self.owner, kind, self.number, request);
            let want = Want { grant, retry: false, reuse: false, hint: self.space.hint(self.owner.row) };
            let granted = chunks::grant_any(lane, self.geometry, near, &want, self.scratch.small).await;
            self.space.ends_asking(what, near);
            let granted = granted?;
            if let Some(granted) = &granted {
                self.space.add_chunk(what, granted.node, granted.offset, granted.bytes);
            }
            let sizes = self.geometry.iter().map(|node| node.chunk_bytes.saturating_mul(node.chunk_count.into()));
            self.space.note_chunk(sizes.fold(0, u64::saturating_add), granted.as_ref());
            let Some(granted) = granted else { break };
            if let Some(place) = self.space.take(what, granted.node, bytes) {
                return Ok(place);
            }
        }
        self.space.take_near(what, near, bytes).ok_or(Interrupt::NoMemory)
    }

    /// Reserves room in the limbo list for `count` places that are about to leave the tree. Without it they would be
    /// lost.
    pub(super) fn room_for(&self, way: &Way, count: usize) -> Result<Option<Room<'_, 's>>, Interrupt> {
        if !way.copies {
            // Of a tree that only this compute node knows: nothing waits.
            return Ok(None);
        }
        self.space.room_for(count).map(Some).ok_or(Interrupt::NoMemory)
    }

    /// Builds the operation's leaf and pushes its WRITE.
    pub(super) fn push_leaf(&self, lane: &Lane<'_>, place: Place) {
        self.seal(lane);
        let at = self.scratch.fresh_leaf;
        lane.port().with(|scratch| {
            let Some((front, rest)) = scratch.split_at_mut_checked(at) else { return };
            let key = front.get(self.plan.key.clone()).unwrap_or_default();
            let value = front.get(self.plan.value.clone()).unwrap_or_default();
            self.leaf.build(rest, key, value);
        });
        lane.port().push(Request::write(Label::Leaf, place.node(), place.offset(), self.leaf.fresh_bytes(), at));
    }

    /// CAS of the slot at `place` from `from` to `to`, behind the WRITEs that are pushed: in their chain if all of them
    /// are on its memory node (`here`), otherwise when they are done. Returns what it found.
    pub(super) async fn publish(
        &self,
        lane: &Lane<'_>,
        here: bool,
        place: Place,
        from: Slot,
        to: Slot,
    ) -> Result<Slot, OpError> {
        let port = lane.port();
        if !(here && self.options.combine) {
            port.submit().await?;
        }
        let cas = port.push(Request::cas(Label::Slot, place.node(), place.offset(), from.0, to.0));
        lane.swaps_slot(cas, from.0);
        port.submit().await.map_err(published)?;
        let found = Slot(port.completion(cas).value);
        lane.swapped_slot(found == from);
        if found != from {
            lane.mark(Mark::SlotLost);
        }
        Ok(found)
    }

    /// Puts a leaf into the node at `node`, whose image is node image 0 and has its first empty slot at `empty`.
    async fn fill_slot(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        node: Place,
        empty: usize,
    ) -> Result<Attached, Interrupt> {
        let Ok(Child::Node(kind, _)) = cursor.word.child() else { return Ok(Attached::Again { copied: false }) };
        let leaf = self.carve(lane, way.patient, AllocationClass::Leaf, node.node(), self.leaf.place_bytes).await?;
        let at = self.scratch.node(0);
        let partial = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let position = Header::from_word(word(scratch, at)).map_or(0, |header| usize::from(header.position));
            self.key(scratch, &mut room).get(position).copied().unwrap_or_default()
        });
        let to = Slot::leaf(partial, leaf);
        self.push_leaf(lane, leaf);
        let mut here = leaf.node() == node.node();
        for index in empty..kind.slots() {
            // A slot that is taken in the image is another byte's: the descent looked at all of them.
            let seen = Slot(lane.port().with(|scratch| word(scratch, at + SLOTS_AT + 8 * index)));
            if !seen.is_empty() {
                continue;
            }
            lane.change_is_next();
            let found = self.publish(lane, here, node.plus(SLOTS_AT + 8 * index), Slot::EMPTY, to).await?;
            here = true;
            if found == Slot::EMPTY {
                if way.copies {
                    self.cache.patch(cursor.word, index, to, self.epoch(lane));
                }
                return Ok(Attached::Done);
            }
            if found.is_frozen() {
                // Not the next one: slots fill in ascending order, and this one, if it is empty, stays so.
                break;
            }
            if found.partial() == partial && !planted(Mutant::SameByteTwice) {
                lane.mark(Mark::SameByte);
                break;
            }
        }
        // The node is full, or the byte has a slot by now: the next look sees which.
        lane.port().withdraw();
        self.space.put(AllocationClass::Leaf, leaf, self.leaf.place_bytes);
        Ok(Attached::Again { copied: true })
    }

    /// Puts a leaf in the place of a finalized one.
    async fn replace_leaf(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        buried: Place,
    ) -> Result<Attached, Interrupt> {
        let parent = cursor.place(way);
        let _room = self.room_for(way, 1)?;
        let leaf = self.carve(lane, way.patient, AllocationClass::Leaf, parent.node(), self.leaf.place_bytes).await?;
        self.push_leaf(lane, leaf);
        let to = Slot::leaf(cursor.word.partial(), leaf);
        lane.change_is_next();
        let found = self.publish(lane, leaf.node() == parent.node(), parent, cursor.word, to).await?;
        if found != cursor.word {
            self.space.put(AllocationClass::Leaf, leaf, self.leaf.place_bytes);
            if way.copies && !found.is_frozen() {
                self.cache.patch(cursor.owner, usize::from(cursor.index), found, self.epoch(lane));
            }
            return Ok(Attached::Again { copied: !found.is_frozen() });
        }
        lane.mark(Mark::LeafReplaced);
        // That slot was the only one that led there, and a finalized leaf is never brought back.
        self.retire(lane, way, AllocationClass::Leaf, buried, self.leaf.place_bytes);
        if way.copies {
            self.cache.patch(cursor.owner, usize::from(cursor.index), to, self.epoch(lane));
        }
        Ok(Attached::Done)
    }

    /// Puts new nodes, or the leaf alone, between a slot and what it leads to.
    ///
    /// - Root slot empty: the leaf.
    /// - Another leaf: as many nodes as the common bytes need, each with up to six in its header and one at its
    ///   position; contiguous, in one WRITE. Both leaves are in the last.
    /// - A node whose header differs: one node with the bytes in front of the difference, and in it that node and the
    ///   leaf. The old node keeps its header: the bytes that are twice there now are compared by nobody.
    async fn split(&self, lane: &Lane<'_>, way: &Way, cursor: &DescentCursor, why: Why) -> Result<Attached, Interrupt> {
        let place = cursor.place(way);
        // A counter of the lane spreads what is new over the memory nodes; the old child stays where it is.
        let near = match why {
            Why::Empty => place.node(),
            _ => NodeId((lane.next_turn() >> 8) as u16 % self.geometry.len().max(1) as u16),
        };
        let begin = usize::from(cursor.depth);
        // Position of the first byte that differs, and the byte that the old child has there.
        let difference = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            match why {
                Why::Leaf(..) => {
                    let other = self.leaf.key(scratch.get(self.scratch.leaf(0)..).unwrap_or_default());
                    let at = key.iter().zip(other).position(|(a, b)| a != b)?;
                    Some((at, *other.get(at)?)).filter(|_| at >= begin)
                }
                Why::Header(at) => {
                    let header = Header::from_word(word(scratch, self.scratch.node(0)))?;
                    Some((at, header.byte_at(at)?))
                }
                Why::Empty | Why::Slot(..) => Some((0, 0)),
            }
        });
        let Some((at, old_byte)) = difference else {
            return Err(corrupt(place, "a slot that leads to a leaf of another prefix").into());
        };
        let count = if matches!(why, Why::Empty) { 0 } else { (at - begin) / COVERS_MAX + 1 };
        if count > CHAIN_NODES_MAX {
            return Err(corrupt(place, "a path that is too long").into());
        }
        let node_bytes = NodeType::SMALLEST.bytes();
        let nodes = if count > 0 {
            self.carve(lane, way.patient, AllocationClass::Node, near, count * node_bytes).await?
        } else {
            place
        };
        let leaf = match self.carve(lane, way.patient, AllocationClass::Leaf, nodes.node(), self.leaf.place_bytes).await
        {
            Ok(leaf) => leaf,
            Err(error) => {
                if count > 0 {
                    self.space.put(AllocationClass::Node, nodes, count * node_bytes);
                }
                return Err(error);
            }
        };
        let build = self.scratch.build;
        let to = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let byte = |at: usize| key.get(at).copied().unwrap_or_default();
            let mut start = begin;
            for i in 0..count {
                let image = scratch.get_mut(build + i * node_bytes..).unwrap_or_default();
                if i + 1 < count {
                    let position = start + BYTES_MAX;
                    let next = nodes.plus((i + 1) * node_bytes);
                    let below = Slot::node(byte(position), NodeType::SMALLEST, next);
                    let header = Header::new(NodeType::SMALLEST, start, position, key);
                    slot::build(image, &header, self.index, [below]);
                    start = position + 1;
                } else {
                    let header = Header::new(NodeType::SMALLEST, start, at, key);
                    slot::build(image, &header, self.index, [cursor.word.under(old_byte), Slot::leaf(byte(at), leaf)]);
                }
            }
            let partial = cursor.word.partial();
            if count > 0 { Slot::node(partial, NodeType::SMALLEST, nodes) } else { Slot::leaf(partial, leaf) }
        });
        if count > 0 {
            let write = Request::write(Label::Node, nodes.node(), nodes.offset(), count * node_bytes, build);
            lane.port().push(write);
        }
        self.push_leaf(lane, leaf);
        lane.change_is_next();
        let here = leaf.node() == place.node() && (count == 0 || nodes.node() == place.node());
        let found = self.publish(lane, here, place, cursor.word, to).await?;
        if found != cursor.word {
            if count > 0 {
                self.space.put(AllocationClass::Node, nodes, count * node_bytes);
            }
            self.space.put(AllocationClass::Leaf, leaf, self.leaf.place_bytes);
            // A frozen slot is not the one that counts; any other word can be followed.
            if way.copies && !found.is_frozen() {
                self.cache.patch(cursor.owner, usize::from(cursor.index), found, self.epoch(lane));
            }
            return Ok(Attached::Again { copied: !found.is_frozen() });
        }
        match why {
            Why::Leaf(..) => lane.mark(Mark::LeafSplit),
            Why::Header(_) => lane.mark(Mark::HeaderSplit),
            _ => {}
        }
        if count > 1 {
            lane.mark(Mark::LongPath);
        }
        if way.copies {
            self.cache.patch(cursor.owner, usize::from(cursor.index), to, self.epoch(lane));
            self.copy_chain(lane, to, count);
        }
        Ok(Attached::Done)
    }

    /// Copies the nodes that were just made, which are in the build range.
    fn copy_chain(&self, lane: &Lane<'_>, first: Slot, count: usize) {
        let bytes = NodeType::SMALLEST.bytes();
        lane.port().with(|scratch| {
            let mut to = first;
            for i in 0..count {
                let image = scratch.get(self.scratch.build + i * bytes..).unwrap_or_default();
                let Ok(node) = slot::Node::new(image, NodeType::SMALLEST, self.index) else { return };
                self.cache.insert(to, &node, self.epoch(lane));
                to = node.slot(0);
            }
        });
    }
}

/// How often a lane looks whether the lane that asks for a chunk has got it, and the pause in between, in ns: some
/// round trips.
const ASKS_AWAITED: u32 = 16;
const ASK_PAUSE_NS: u64 = 1_000;

/// Chunks an operation asks for in a row, while other lanes use up what it was granted.
const CHUNKS_MAX: u32 = 16;
