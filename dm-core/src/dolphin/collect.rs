//! Mark-and-sweep of leaves and nodes ([`crate::memory::collect`]).
//!
//! The walk goes from tile to tile in the order of keys, each time from the root slot down, and notes every node and
//! leaf on its way. A retired leaf's change is finished first, so that its heirs have slots. That may need memory. If
//! there is none, the walk goes on below the heirs: a collection, which brings memory, must not wait for some.

use super::Dolphin;
use super::layout::leaf::{Leaf, Value, place_of};
use super::layout::shape::LEAF_BYTES;
use super::search::{share_of, under};
use crate::error::DecodeError;
use crate::index::runner::UnderWay;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::memory::Collection;
use crate::memory::collect::{Collects, Site};
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::radix::cursor::DescentCursor;
use crate::radix::slot::{Child, Compared, Node, NodeType, Slot, UNIT_BYTES};
use crate::radix::tile::Tile;
use crate::radix::tile_descent::{TileCursor, TileEnd};
use crate::radix::tree::{Tree, corrupt};
use crate::remote::address::Address;
use crate::remote::chunk::ChunkKind;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};

/// Tiles that one operation of a collection visits: a longer one would hold up the epochs.
const TILES_AT_ONCE: u32 = 32;

/// What the walk finds in a node.
enum Look {
    Found(Slot, usize, u8, Tile),
    Differs(usize),
    Torn,
    Unfit(&'static str),
}

impl<'s> Collects<'s> for Dolphin<'s> {
    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)> {
        let (part, collection) = (self.tree.epochs?, self.tree.space.collection()?);
        let Tree { geometry, owner, requests, number, .. } = self.tree;
        Some((Site { part, geometry, owner, requests, number, at: self.tree.scratch.small }, collection))
    }

    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)> {
        let class = NodeClass::of_chunk(kind)?;
        let least_bytes = match class {
            NodeClass::Leaf => LEAF_BYTES,
            NodeClass::Inner => NodeType::SMALLEST.bytes().max(UNIT_BYTES),
        };
        Some((class as u8, least_bytes))
    }

    fn give_up_closed(&self) {
        self.tree.space.give_up_closed();
    }

    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(collection) = self.tree.space.collection() else { return Ok(()) };
        lane.port().with(|scratch| scratch.get_mut(self.tree.scratch.last.clone()).unwrap_or_default().fill(0));
        loop {
            let mut under_way = self.tree.pin(lane);
            let result = self.mark_some(lane, collection).await;
            under_way.ends(&result);
            if !result? {
                return Ok(());
            }
        }
    }
}

impl Dolphin<'_> {
    /// Visits some tiles, from the one of the key at which the walk is. `false`: there are no more.
    async fn mark_some(&self, lane: &Lane<'_>, collection: &Collection<'_>) -> Result<bool, OpError> {
        let mut below: Option<(TileCursor, Tile)> = None;
        for _ in 0..TILES_AT_ONCE {
            let is_heir = below.is_some();
            let (cursor, end) = self.mark_path(lane, collection, below.take()).await?;
            let end = match end {
                (TileEnd::Leaf(leaf), Some(tile)) => {
                    if self.mark_leaf(lane, collection, leaf).await? {
                        // No leaf without a slot is retired: an heir that is has got its slot meanwhile.
                        if !is_heir {
                            below = self.finish_or_follow(lane, leaf, &cursor).await?;
                        }
                        // The same tile again.
                        continue;
                    }
                    TileEnd::Void(tile)
                }
                (end, _) => end,
            };
            if !self.pass(lane, &cursor, end) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finishes the change of a retired leaf, which is in leaf image 0. `cursor` is at its slot. `Some`: there is no memory
    /// for that; the heir that has the walk's key, as if it had its slot, and the part of the tile that it has.
    async fn finish_or_follow(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        cursor: &TileCursor,
    ) -> Result<Option<(TileCursor, Tile)>, OpError> {
        let share = lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of(scratch);
            let retired = Leaf::new(&self.shape, image, leaf, self.tree.index).ok()?;
            share_of(&retired, scratch.get(self.tree.scratch.last.clone())?).ok()
        });
        match (self.finish(lane, &self.tree.way(), leaf, cursor).await, share) {
            (Err(Interrupt::NoMemory), Some((tile, heir))) => {
                lane.mark(Mark::HEIR_FOLLOWED);
                Ok(Some((under(cursor, heir), tile)))
            }
            (finished, _) => {
                lane.mark(Mark::CHANGE_FINISHED);
                finished.map_err(Interrupt::into_error)?;
                Ok(None)
            }
        }
    }

    /// Notes a leaf, and the blocks that it names. Answers whether it is retired; its first lines are in leaf image 0.
    ///
    /// A block that a leaf names from the beginning of the walk to its end is seen: names go from a leaf to its heirs, and
    /// of a leaf that is retired the walk looks at the heirs.
    async fn mark_leaf(&self, lane: &Lane<'_>, collection: &Collection<'_>, leaf: Address) -> Result<bool, OpError> {
        self.check_inside(leaf)?;
        collection.reach(leaf.node(), leaf.offset(), LEAF_BYTES as u64);
        let bytes = if self.has_blocks() { LEAF_BYTES } else { self.shape.head_bytes };
        let image = self.tree.scratch.leaf(0).with_bytes(bytes);
        let read = Request::read(Label::Walk, leaf.node(), leaf.offset(), image.bytes, image.at);
        lane.port().call(read).await?;
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of(scratch);
            match Leaf::new(&self.shape, image, leaf, self.tree.index) {
                Ok(leaf) if leaf.spear().is_retired() => Ok(true),
                Ok(leaf) => {
                    self.mark_blocks(collection, &leaf);
                    Ok(false)
                }
                Err(DecodeError::Corrupt(what)) => Err(corrupt(place_of(leaf), what)),
                // The word that led here is old: what is reachable throughout is not here.
                Err(_) => Ok(false),
            }
        })
    }

    fn mark_blocks(&self, collection: &Collection<'_>, leaf: &Leaf<'_>) {
        if !self.has_blocks() || planted(Mutant::BLOCKS_UNMARKED) {
            return;
        }
        for cell in 0..self.shape.span {
            if let Ok(Value::Block(name)) = leaf.value(cell) {
                let place = name.place();
                collection.reach(place.node(), place.offset(), self.scratch.block_stride as u64);
            }
        }
    }

    /// Goes down from the root slot, or from an heir, to the tile of the key at which the walk is, and notes the nodes on
    /// its way.
    async fn mark_path(
        &self,
        lane: &Lane<'_>,
        collection: &Collection<'_>,
        below: Option<(TileCursor, Tile)>,
    ) -> Result<(TileCursor, (TileEnd, Option<Tile>)), OpError> {
        let way = self.tree.way();
        let (mut slot, mut tile) = match below {
            Some((heir, tile)) => (heir.slot, Some(tile)),
            None => (self.tree.read_root(lane, &way).await?, None),
        };
        let mut attempts = 0;
        loop {
            let at = |end| Ok((TileCursor { slot }, (end, tile)));
            let (kind, place) = match slot.word.tile_child() {
                Ok(Child::Empty) => return at(TileEnd::Empty),
                Ok(Child::Void(tile)) => return at(TileEnd::Void(tile)),
                Ok(Child::Leaf(leaf)) => return at(TileEnd::Leaf(leaf)),
                Ok(Child::Node(kind, place)) if self.tree.is_inside(place, kind.bytes()) => (kind, place),
                _ => return Err(corrupt(slot.place(&way), "a slot that leads nowhere")),
            };
            collection.reach(place.node(), place.offset(), kind.bytes() as u64);
            lane.port().call(self.tree.node_request(kind, place)).await?;
            match self.look_at(lane, &slot, kind) {
                Look::Found(word, index, position, found) => {
                    tile = Some(found);
                    slot = DescentCursor {
                        word: word.thawed(),
                        depth: position + 1,
                        index: index as u8,
                        fresh: true,
                        owner: slot.word,
                    };
                }
                Look::Differs(position) => return at(TileEnd::Header(position)),
                // A node on the way was replaced, or has changed.
                Look::Torn => {}
                Look::Unfit(what) => return Err(corrupt(place, what)),
            }
            lane.attempt(&mut attempts, "walking over a tree of tiles")?;
        }
    }

    fn look_at(&self, lane: &Lane<'_>, slot: &DescentCursor, kind: NodeType) -> Look {
        lane.port().with(|scratch| {
            let key = scratch.get(self.tree.scratch.last.clone()).unwrap_or_default();
            let node = match Node::new(self.tree.scratch.node(0).of(scratch), kind, self.tree.index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Look::Unfit(what),
                Err(_) => return Look::Unfit("no node"),
            };
            match node.header.compare(usize::from(slot.depth), key) {
                Compared::Unfit => return Look::Unfit("a node that cannot be here"),
                Compared::Differs(at) => return Look::Differs(at),
                Compared::Fits => {}
            }
            let position = node.header.position;
            match node.floor(key.get(usize::from(position)).copied().unwrap_or_default()) {
                Ok(floor) => Look::Found(floor.slot, floor.index, position, floor.tile),
                Err(DecodeError::Corrupt(what)) => Look::Unfit(what),
                Err(_) => Look::Torn,
            }
        })
    }
}
