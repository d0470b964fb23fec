//! The part of a radix tree that does not depend on its leaves. A compute node has one for each index, and all its
//! lanes use it at once.

use super::cache::NodeCache;
use super::slot::{COVERS_MAX, NODE_BYTES_MAX, NodeType, Place, SLOTS_AT, Slot};
use super::space::{Room, Space};
use crate::error::VerbError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::memory::Participant;
use crate::memory::chunks::{self, RequestIds, Want};
use crate::operation::span::Span;
use crate::operation::{Cause, Effect, OpError};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::NodeGeometry;
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::Grant;
use crate::remote::place::NodeClass;
use crate::remote::row::Member;
use crate::verbs::{Capabilities, Label, NodeId, Request};
use core::ops::Range;
use core::sync::atomic::AtomicU32;

/// Nodes that a leaf split makes at most: those of two keys of 64 bytes that differ in the last byte only.
pub const CHAIN_NODES_MAX: usize = KEY_BYTES_MAX / COVERS_MAX + 1;

/// Scratch bytes for nodes being written: the largest node, or the nodes of a leaf split.
pub const BUILD_BYTES: usize = {
    let chain_bytes = CHAIN_NODES_MAX * NodeType::FRESH_MAX.bytes();
    if chain_bytes > NODE_BYTES_MAX { chain_bytes } else { NODE_BYTES_MAX }
};

/// Node images that a lane keeps while it walks. The image of a deeper node overwrites that of a node above, which is
/// READ again later.
pub const NODE_IMAGES: usize = 4;

/// Leaves READ at once, at most: requests that a submit can carry.
pub const LEAVES_AT_ONCE_MAX: usize = 16;

/// Scratch bytes for one level of a walk's path.
pub const PATH_BYTES: usize = 16;

/// Scratch ranges of a lane, besides the operation's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// The last key of a bulk load, or of a walk.
    pub last: Range<usize>,
    /// 512 bytes for words and lines of tables.
    pub small: usize,
    /// What recovery READs, and a redo record.
    pub recovery: Range<usize>,
    /// Where [`Scratch::fresh_leaf`] begins.
    pub fresh_leaf_at: usize,
    /// Where leaves begin that were READ. A gap before the first one has room for the header of a redo record.
    pub leaves_at: usize,
    /// Distance from one to the next: bytes of a leaf's place.
    pub leaf_stride: usize,
    /// How many there is room for, 1..=16.
    pub leaves_at_once: usize,
    /// Where [`Scratch::build`] begins.
    pub build_at: usize,
    /// Where the path of a walk begins, [`PATH_BYTES`] a level.
    pub path_at: usize,
    /// Where the images of nodes begin.
    pub nodes_at: usize,
}

impl Scratch {
    /// The leaf being written.
    #[inline]
    pub const fn fresh_leaf(&self) -> Span {
        Span::new(self.fresh_leaf_at, self.leaf_stride)
    }

    /// Leaf image `i`.
    #[inline]
    pub const fn leaf(&self, i: usize) -> Span {
        Span::new(self.leaves_at, self.leaf_stride).nth(i)
    }

    /// The first `count` leaf images, if the scratch has as many.
    #[inline]
    pub(crate) fn leaves<'b>(&self, scratch: &'b [u8], count: usize) -> impl Iterator<Item = &'b [u8]> {
        // Cut once: a step to the next one adds a number.
        let images = Span::new(self.leaves_at, count * self.leaf_stride).of(scratch);
        images.chunks_exact(self.leaf_stride.max(1))
    }

    /// The node image for `level` of a walk, with room for the largest node.
    #[inline]
    pub const fn node(&self, level: usize) -> Span {
        Span::new(self.nodes_at, NODE_BYTES_MAX).nth(level % NODE_IMAGES)
    }

    /// Nodes being written.
    #[inline]
    pub const fn build(&self) -> Span {
        Span::new(self.build_at, BUILD_BYTES)
    }

    /// Level `i` of a walk's path.
    #[inline]
    pub const fn level(&self, i: usize) -> Span {
        Span::new(self.path_at, PATH_BYTES).nth(i)
    }

    /// Slot `number` of the node in image `image`.
    #[inline]
    pub const fn slot(&self, image: usize, number: usize) -> Span {
        Span::new(self.node(image).at + SLOTS_AT + 8 * number, 8)
    }
}

/// Which tree an operation works on, and how: the index's own, or the one that a bulk load builds under a root slot of
/// its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Where its root slot is.
    pub root: Place,
    /// Copies of its nodes are kept, and places that leave it wait in the limbo list. `false`: no other compute node
    /// knows of it yet, as during a bulk load.
    pub copies: bool,
    /// If memory is short, the operation may end its attempt, with nothing changed, and wait until the limbo list gives
    /// places back.
    pub patient: bool,
}

/// The shared part of a radix tree.
pub(crate) struct Tree<'s> {
    /// Number in the catalog.
    pub number: IndexNumber,
    /// Catalog number plus 1: what nodes carry.
    pub index: u8,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks.
    pub requests: &'s RequestIds,
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'s [NodeGeometry],
    /// Where the root slot is.
    pub root: Place,
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// The CAS of a slot is posted in the chain of the WRITEs that it publishes, if all are on one memory node. Off: it
    /// is posted when they have completed.
    pub combine: bool,
    /// The type of new nodes, and the smallest one: what it has more than they need is their reserve.
    pub fresh: NodeType,
    /// Memory for nodes and leaves.
    pub space: Space<'s>,
    /// Copies of nodes.
    pub cache: NodeCache<'s>,
    /// Its part in the pool's epochs; `None`: its row says no epoch.
    pub epochs: Option<Participant<'s>>,
    /// Budget for READs of leaves' states: see [`super::tombstones`].
    pub looks: AtomicU32,
    /// Scratch ranges of a lane.
    pub scratch: Scratch,
}

impl<'s> Tree<'s> {
    /// The index's own tree.
    pub(crate) const fn way(&self) -> Way {
        Way { root: self.root, copies: true, patient: false }
    }

    /// Whether `bytes` from `place` on can be memory of a node or leaf.
    pub(crate) fn is_inside(&self, place: Place, bytes: usize) -> bool {
        self.geometry
            .get(usize::from(place.node().0))
            .is_some_and(|node| place.offset() >= node.heap && place.offset() + bytes as u64 <= node.region_bytes)
    }

    /// The epoch of the operation that `lane` is in.
    pub(crate) fn epoch(&self, lane: &Lane<'_>) -> u32 {
        self.epochs.map_or(0, |part| part.epoch(lane))
    }

    /// Allocates `bytes`: from what is free on `near`, then from a new chunk, then from what is free on any memory
    /// node. After [`Interrupt::NoMemory`] the operation waits and begins again, as long as there is something to wait
    /// for (`Smart::await_memory`). `patient`: see [`Way`].
    pub(crate) async fn carve(
        &self,
        lane: &Lane<'_>,
        patient: bool,
        what: NodeClass,
        near: NodeId,
        bytes: usize,
    ) -> Result<Place, Interrupt> {
        self.release(lane);
        let ready = self.space.take(what, near, bytes).or_else(|| self.space.take_collected(what, near, bytes));
        if let Some(place) = ready.or_else(|| self.space.take_off(what, near, bytes)) {
            return Ok(place);
        }
        // Where records are inserted and deleted all the time, places should be reused, not chunks granted: otherwise
        // every epoch advance would cost a chunk. So where the pool is short, the operation waits for them.
        if self.space.is_crowded(what, self.cache.used_bytes()) {
            if patient && self.space.is_worth_waiting(what) {
                return Err(Interrupt::NoMemory);
            }
            self.space.ask_back();
        }
        // One lane of the compute node asks for a chunk, and the others wait for that chunk. They do not wait for long,
        // since the asking lane's future may be dropped.
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
            let grant = Grant::new(self.owner, what.chunk_kind(), self.number, request);
            let want = Want { hint: self.space.hint(self.owner.row), ..Want::new(grant) };
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
    /// lost. Places that have waited long enough make room: an operation that carves nothing would wait for that in
    /// vain.
    pub(crate) fn room_for(&self, lane: &Lane<'_>, way: &Way, count: usize) -> Result<Option<Room<'_, 's>>, Interrupt> {
        if !way.copies {
            // Of a tree that only this compute node knows: nothing waits.
            return Ok(None);
        }
        let room = self.space.room_for(count).or_else(|| {
            self.release(lane);
            self.space.room_for(count)
        });
        room.map(Some).ok_or(Interrupt::NoMemory)
    }

    /// Moves places that have waited long enough to the free lists.
    fn release(&self, lane: &Lane<'_>) {
        for _ in 0..self.space.release() {
            lane.mark(Mark::LIMBO_LEFT);
        }
    }

    /// Takes back the place of a node or leaf that has left the tree. It waits in the limbo list, or is free at once if
    /// only this compute node knew of the tree.
    pub(crate) fn retire(&self, lane: &Lane<'_>, way: &Way, what: NodeClass, place: Place, bytes: usize) {
        if !way.copies {
            // Of a tree that only this compute node knows.
            self.space.put(what, place, bytes);
        } else if self.space.retire(what, place, bytes, self.cache.used_bytes()) {
            lane.mark(Mark::LIMBO_ENTERED);
        }
    }

    /// CAS of the slot at `place` from `from` to `to`, behind the WRITEs that are pushed: in their chain if all of them
    /// are on its memory node (`here`), otherwise when they have completed. Returns the word that the CAS found.
    pub(crate) async fn publish(
        &self,
        lane: &Lane<'_>,
        here: bool,
        place: Place,
        from: Slot,
        to: Slot,
    ) -> Result<Slot, OpError> {
        let port = lane.port();
        if !(here && self.combine) {
            port.submit().await?;
        }
        let is_root = place == self.root;
        let (old, new) = if is_root { (from.in_root(), to.in_root()) } else { (from.0, to.0) };
        let cas = port.push(Request::cas(Label::Slot, place.node(), place.offset(), old, new));
        lane.swaps_slot(cas, old);
        port.submit().await.map_err(published)?;
        let found = port.completion(cas).value;
        lane.swapped_slot(found == old);
        let found = if is_root { self.root_slot(found)? } else { Slot(found) };
        if found != from {
            lane.mark(Mark::SLOT_LOST);
        }
        Ok(found)
    }
}

impl Tree<'_> {
    /// The root slot with that word.
    pub(crate) fn root_slot(&self, word: u64) -> Result<Slot, OpError> {
        Slot::of_root(word).map_err(|what| corrupt(self.root, what))
    }
}

/// The error of an image that this crate never writes.
pub(crate) const fn corrupt(place: Place, what: &'static str) -> OpError {
    OpError::harmless(Cause::Corrupt { address: place.address(), what })
}

/// The effect of a submit that may have published something.
pub(crate) fn published(error: VerbError) -> OpError {
    OpError { effect: if error.effect_unknown() { Effect::Unknown } else { Effect::None }, cause: error.into() }
}

/// How often a lane looks for the chunk that another lane has asked for, and the pause in between, in ns: some round
/// trips.
const ASKS_AWAITED: u32 = 16;
const ASK_PAUSE_NS: u64 = 1_000;

/// Chunks an operation asks for in a row, while other lanes use up what it was granted.
const CHUNKS_MAX: u32 = 16;
