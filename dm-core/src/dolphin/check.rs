//! The walk that checks every invariant of a quiet tree.

use super::Dolphin;
use super::layout::leaf::{Leaf, place_of};
use super::layout::shape::LEAF_BYTES;
use super::population;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::operation::{Census, OpError};
use crate::radix::slot::{Child, Node, NodeType, Place, Slot, set_word, word};
use crate::radix::tile::Tile;
use crate::radix::tree::corrupt;
use crate::remote::address::Address;
use heapless::Vec;

/// Leaves that were retired one after the other before any slot followed, at most.
const UNFINISHED_MAX: usize = 8;

/// A node on the path of the walk.
#[derive(Clone, Copy)]
struct Level {
    /// The word that leads there.
    to: Slot,
    /// Where its child begins.
    begin: u8,
    /// The byte at which the walk goes on; 256: the node is done.
    next: u16,
}

/// What the walk meets next in a node.
enum Next {
    Nothing,
    Leaf(Address, Tile),
    Node(Slot),
}

impl Dolphin<'_> {
    /// Visits every node and leaf: headers match, tiles are cut without a gap, leaves have the bounds of their slots,
    /// and every key lies within its leaf's. A retired leaf that a slot still leads to is legal, and counts as a
    /// half-split: its heirs are visited.
    pub(super) async fn check(&self, lane: &Lane<'_>) -> Result<Census, OpError> {
        let mut census = Census::default();
        let root = self.tree.read_root(lane, &self.tree.way()).await?;
        if root.word.is_empty() {
            return Ok(census);
        }
        let pool_bytes = self.tree.geometry.iter().map(|node| node.region_bytes).sum::<u64>();
        let mut levels = 1;
        self.set_level(lane, 0, Level { to: root.word, begin: 0, next: 0 });
        while levels > 0 {
            let here = self.level(lane, levels - 1);
            let (kind, place) = self.node_at(here.to)?;
            lane.port().call(self.tree.node_request(kind, place)).await?;
            let (position, next) =
                self.next_child(lane, kind, here, &mut census).map_err(|what| corrupt(place, what))?;
            // A node that two slots lead to is found twice. Only this limit ends a walk through all combinations.
            if census.live_bytes > pool_bytes {
                return Err(corrupt(place, "more nodes than the pool has room for"));
            }
            let next_byte = |byte: u8| u16::from(byte) + 1;
            match next {
                Next::Nothing => levels -= 1,
                Next::Leaf(leaf, tile) => {
                    self.set_level(lane, levels - 1, Level { next: next_byte(tile.last()), ..here });
                    let below = self.check_leaf(lane, (leaf, tile), (kind, position), &mut census).await?;
                    census.levels = census.levels.max(levels as u32 + 1);
                    if let Some(node) = below {
                        self.enter_node(lane, &mut levels, node, position)?;
                    }
                }
                Next::Node(node) => {
                    self.set_level(lane, levels - 1, Level { next: next_byte(node.partial()), ..here });
                    self.enter_node(lane, &mut levels, node, position)?;
                }
            }
        }
        Ok(census)
    }

    /// Goes on in the node that a slot of a node at `position` leads to.
    fn enter_node(&self, lane: &Lane<'_>, levels: &mut usize, to: Slot, position: usize) -> Result<(), OpError> {
        if *levels >= self.shape.key_bytes {
            return Err(corrupt(self.node_at(to)?.1, "a path that is longer than a key"));
        }
        lane.port().with(|scratch| {
            if let Some(byte) = scratch.get_mut(self.plan.key.clone()).and_then(|key| key.get_mut(position)) {
                *byte = to.partial();
            }
        });
        self.set_level(lane, *levels, Level { to, begin: position as u8 + 1, next: 0 });
        *levels += 1;
        Ok(())
    }

    fn node_at(&self, to: Slot) -> Result<(NodeType, Place), OpError> {
        match to.tile_child() {
            Ok(Child::Node(kind, place)) if self.tree.is_inside(place, kind.bytes()) => Ok((kind, place)),
            _ => Err(corrupt(self.tree.root, "a slot that leads to no node")),
        }
    }

    /// Checks the node in node image 0, when it is entered, and finds the child at which the walk goes on. The bytes of
    /// its header go to the scratch of the operation's key.
    fn next_child(
        &self,
        lane: &Lane<'_>,
        kind: NodeType,
        here: Level,
        census: &mut Census,
    ) -> Result<(usize, Next), &'static str> {
        let text = |error| match error {
            DecodeError::Corrupt(what) => what,
            _ => "no node",
        };
        lane.port().with(|scratch| {
            let (front, image) = self.tree.scratch.node(0).split(scratch).ok_or("no scratch")?;
            let node = Node::new(image, kind, self.tree.index).map_err(text)?;
            let position = usize::from(node.header.position);
            if here.next == 0 {
                node.check_tiles().map_err(text)?;
                let key = front.get_mut(self.plan.key.clone()).ok_or("no scratch")?;
                let begin = usize::from(here.begin);
                let first = position - usize::from(node.header.size).min(position);
                if first > begin || position < begin {
                    return Err("a node that cannot be here");
                }
                for at in first..position {
                    let (byte, place) =
                        (node.header.byte_at(at).ok_or("a header")?, key.get_mut(at).ok_or("a header")?);
                    if at < begin && *place != byte {
                        return Err("a node of another prefix");
                    }
                    *place = byte;
                }
                census.inner_nodes += 1;
                census.live_bytes += kind.bytes() as u64;
                census.half_splits += u64::from(node.slots().any(Slot::is_frozen));
            }
            let mut from = here.next;
            loop {
                let ahead = |slot: &Slot| !slot.is_empty() && u16::from(slot.partial()) >= from;
                let Some(slot) = node.slots().filter(ahead).min_by_key(|slot| slot.partial()) else {
                    return Ok((position, Next::Nothing));
                };
                let floor = node.floor(slot.partial()).map_err(text)?;
                match floor.child {
                    Child::Leaf(leaf) => return Ok((position, Next::Leaf(leaf, floor.tile))),
                    Child::Node(..) => return Ok((position, Next::Node(slot.thawed()))),
                    _ => from = u16::from(slot.partial()) + 1,
                }
            }
        })
    }

    /// READs and checks a leaf that has this tile at `position`, or the leaves that are heirs of a retired one. The
    /// answer is the node that is an heir.
    async fn check_leaf(
        &self,
        lane: &Lane<'_>,
        leaf: (Address, Tile),
        (kind, position): (NodeType, usize),
        census: &mut Census,
    ) -> Result<Option<Slot>, OpError> {
        let mut left = Vec::<(Address, Tile), UNFINISHED_MAX>::new();
        let _ = left.push(leaf);
        let mut below = None;
        while let Some((leaf, tile)) = left.pop() {
            self.check_inside(leaf)?;
            lane.port().call(self.leaf_request(leaf, 0)).await?;
            let found = lane.port().with(|scratch| {
                let image = self.tree.scratch.leaf(0).of(scratch);
                let found = Leaf::new(&self.shape, image, leaf, self.tree.index)?;
                let mut room = [0; 64];
                let bounds = found.bounds(&mut room);
                let (own, retired) = (bounds.tile(), found.spear().is_retired());
                // Some heirs of a retired leaf may have slots: what is left of its tile is its slot's.
                let ends = own.last() == tile.last() || retired && own.last() > tile.last();
                if bounds.position() != position
                    || own.low() != tile.low()
                    || !ends
                    || scratch.get(self.plan.key.clone()).and_then(|key| key.get(..position)) != Some(bounds.prefix())
                {
                    return Err(DecodeError::Corrupt("a leaf whose bounds are not its slot's"));
                }
                if retired {
                    return population::shares(own, found.heirs()).map(|shares| (0, Some(shares)));
                }
                found.check().map(|records| (records, None))
            });
            let (records, shares) = found.map_err(|error| match error {
                DecodeError::Corrupt(what) => corrupt(place_of(leaf), what),
                _ => corrupt(place_of(leaf), "a slot that leads to no leaf of this index"),
            })?;
            let Some(shares) = shares else {
                census.leaves += 1;
                census.slots += self.shape.span as u64;
                census.records += records;
                census.empty_leaves += u64::from(records == 0);
                census.live_bytes += LEAF_BYTES as u64;
                if self.has_blocks() {
                    census.live_bytes += self.check_blocks(lane, leaf).await? * self.scratch.block_stride as u64;
                }
                continue;
            };
            census.half_splits += 1;
            for (share, heir) in shares {
                if share.low() != tile.low() && self.has_slot(lane, kind, share.low()) {
                    // The walk comes there by itself.
                    continue;
                }
                match heir.tile_child() {
                    Ok(Child::Leaf(heir)) => {
                        left.push((heir, share)).map_err(|_| corrupt(place_of(leaf), "too many unfinished changes"))?;
                    }
                    Ok(Child::Node(..)) => below = Some(heir),
                    _ => {}
                }
            }
        }
        Ok(below)
    }

    /// Whether the node in node image 0 has a slot of this byte.
    fn has_slot(&self, lane: &Lane<'_>, kind: NodeType, byte: u8) -> bool {
        lane.port().with(|scratch| {
            let node = Node::new(self.tree.scratch.node(0).of(scratch), kind, self.tree.index);
            node.is_ok_and(|node| node.slots().any(|slot| !slot.is_empty() && slot.partial() == byte))
        })
    }

    fn level(&self, lane: &Lane<'_>, i: usize) -> Level {
        lane.port().with(|scratch| {
            let at = self.tree.scratch.level(i).at;
            let [next_low, next_high, begin, ..] = word(scratch, at + 8).to_le_bytes();
            Level { to: Slot(word(scratch, at)), begin, next: u16::from_le_bytes([next_low, next_high]) }
        })
    }

    fn set_level(&self, lane: &Lane<'_>, i: usize, level: Level) {
        lane.port().with(|scratch| {
            let at = self.tree.scratch.level(i).at;
            set_word(scratch, at, level.to.0);
            set_word(scratch, at + 8, u64::from(level.next) | u64::from(level.begin) << 16);
        });
    }
}
