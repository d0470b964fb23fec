//! A leaf that is closed is replaced: by two leaves, by one with the same bounds, or by a void.
//!
//! Steps: carve; WRITE new leaves and nodes, which have the operation's record already; WRITE heirs + retire; then the
//! slots follow ([`Dolphin::finish`]). Retiring is the linearization point, and the only step that others can see. If
//! anything fails before it, the leaf is opened, and what was carved goes to the free lists.
//! [`plan`](super::plan) says why this is right at every death.

use super::Dolphin;
use super::layout::leaf::{FIRST_WRITE, Head, Leaf, LeafMut, Value, absent_for, place_of};
use super::layout::shape::{LEAF_BYTES, SPAN_MAX, ValueKind};
use super::population::{self, Becomes, Cut, Full, Heirs, Shares, Step};
use super::presence::Inside;
use super::spear::Spear;
use super::write::Attempted;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::Outcome;
use crate::operation::span::Span;
use crate::radix::chain::{self, CHAIN_SLOTS};
use crate::radix::slot::{NodeType, Place, SLOTS_AT, Slot};
use crate::radix::tile::{Bounds, Tile};
use crate::radix::tile_descent::{Goal, Start, TileCursor, TileEnd};
use crate::radix::tree::{CHAIN_NODES_MAX, Way, corrupt};
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId, Request};

/// What is carved for a change.
#[derive(Clone, Copy, Debug, Default)]
struct Carved {
    leaves: [Option<Address>; 2],
    /// Nodes of a chain, and how many.
    nodes: Option<(Place, usize)>,
}

/// What a leaf becomes, and what this needs.
#[derive(Clone, Copy, Debug)]
struct Plan {
    becomes: Becomes,
    position: usize,
    tile: Tile,
    /// The byte of the keys at the leaf's position, for a cut further down.
    byte: u8,
}

impl Plan {
    fn leaves(&self) -> usize {
        match self.becomes {
            Becomes::Void => 0,
            Becomes::Same => 1,
            Becomes::Cut(_) => 2,
        }
    }

    /// Where the chain of new nodes begins and ends, if there is one.
    fn chain(&self) -> Option<(usize, usize)> {
        match self.becomes {
            Becomes::Cut(cut) if cut.position > self.position => Some((self.position + 1, cut.position)),
            _ => None,
        }
    }
}

/// The records that the new leaves get: those of the closed leaf, and the operation's.
struct Population<'a> {
    leaf: Leaf<'a>,
    cells: [u16; SPAN_MAX],
    old: usize,
    key: &'a [u8],
    /// Where the operation's record is among them, and whether its key takes the place of an old one.
    at: usize,
    replaces: bool,
}

impl<'a> Population<'a> {
    fn new(leaf: Leaf<'a>, key: &'a [u8]) -> Option<Self> {
        let mut cells = [0; SPAN_MAX];
        let old = leaf.sorted(&[], None, &mut cells).ok()?;
        let used = cells.get(..old)?;
        let (at, replaces) = match used.binary_search_by(|cell| leaf.key(usize::from(*cell)).cmp(key)) {
            Ok(at) => (at, true),
            Err(at) => (at, false),
        };
        Some(Self { leaf, cells, old, key, at, replaces })
    }

    const fn count(&self) -> usize {
        if self.replaces { self.old } else { self.old + 1 }
    }

    /// The cell of record `i`. `None`: it is the operation's.
    fn cell(&self, i: usize) -> Option<usize> {
        if i == self.at {
            return None;
        }
        let i = if i > self.at && !self.replaces { i - 1 } else { i };
        self.cells.get(i).map(|cell| usize::from(*cell))
    }

    fn key(&self, i: usize) -> &'a [u8] {
        self.cell(i).map_or(self.key, |cell| self.leaf.key(cell))
    }

    fn full(&self, span: usize, by_last_byte: bool) -> Full {
        Full {
            position: self.leaf.position(),
            tile: self.leaf.tile(),
            span,
            count: self.count(),
            newest: (!self.replaces).then_some(self.at),
            by_last_byte,
        }
    }
}

impl Dolphin<'_> {
    /// Replaces the leaf that this lane has closed, so that the operation's record gets a place. `outcome`: the
    /// operation's, if it succeeds.
    pub(super) async fn replace_leaf(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &TileCursor,
        inside: Inside,
        outcome: Outcome,
    ) -> Result<Attempted, Interrupt> {
        let leaf = inside.leaf;
        let mut carved = Carved::default();
        let prepared = self.prepare(lane, way, leaf, &mut carved).await;
        let heirs = match prepared {
            Ok(heirs) => heirs,
            Err(error) => {
                // A WRITE that failed may still land there.
                if lane.port().unclosed().is_none() {
                    self.give_back(&carved);
                }
                lane.port().withdraw();
                self.leave(lane, inside).await?;
                return Err(error);
            }
        };
        lane.mark(if heirs.iter().filter(|heir| heir.is_leaf()).count() == 1 {
            Mark::LEAF_REBUILT
        } else {
            Mark::LEAF_SPLIT
        });
        self.hand_over(lane, way, cursor, inside, heirs).await?;
        if let Some((_, count)) = carved.nodes
            && way.copies
        {
            if count > 1 {
                lane.mark(Mark::LONG_PATH);
            }
            self.tree.copy_chain(lane, heirs[0], count);
        }
        lane.end_change(self.finish(lane, way, leaf, cursor).await);
        Ok(Attempted::Done(outcome))
    }

    /// Retires the leaf that this lane has closed, which has no record, or only the one that the operation deletes: its
    /// tile is void from then on. The FAA is the linearization point of that delete. Needs no memory.
    pub(super) async fn void_leaf(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &TileCursor,
        inside: Inside,
    ) -> Result<(), Interrupt> {
        let leaf = inside.leaf;
        let heirs = lane.port().with(|scratch| {
            let leaf = Leaf::new(&self.shape, self.tree.scratch.leaf(0).of(scratch), leaf, self.tree.index).ok()?;
            Heirs::Void.words(leaf.tile())
        });
        let Some(heirs) = heirs else {
            self.leave(lane, inside).await?;
            return Err(corrupt(place_of(leaf), "a leaf without a tile").into());
        };
        self.check_lease_inside(lane, inside).await?;
        lane.mark(Mark::LEAF_EMPTIED);
        self.hand_over(lane, way, cursor, inside, heirs).await?;
        lane.end_change(self.finish(lane, way, leaf, cursor).await);
        Ok(())
    }

    /// Retires the leaf in image 0, which this lane has closed. Nothing below its heirs is reached by others before this
    /// FAA, and all of it after.
    async fn hand_over(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &TileCursor,
        inside: Inside,
        heirs: [Slot; 2],
    ) -> Result<(), Interrupt> {
        lane.port().with(|scratch| {
            LeafMut::new(&self.shape, self.tree.scratch.leaf(0).of_mut(scratch)).set_heirs(heirs);
        });
        lane.change_is_next();
        if planted(Mutant::SLOTS_BEFORE_RETIRE) {
            let _ = self.finish(lane, way, inside.leaf, cursor).await;
        }
        Ok(self.retire_with(lane, inside).await?)
    }

    /// Carves and WRITEs what the leaf in image 0 becomes. Returns its heirs.
    async fn prepare(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        leaf: Address,
        carved: &mut Carved,
    ) -> Result<[Slot; 2], Interrupt> {
        const NO_CUT: &str = "a leaf that cannot be cut";
        let plan = self.plan_of(lane, leaf).ok_or(corrupt(place_of(leaf), NO_CUT))?;
        let nodes = self.tree.geometry.len().max(1) as u16;
        if let Some((begin, position)) = plan.chain() {
            let count = chain::path(begin, position).count();
            if count > CHAIN_NODES_MAX {
                return Err(corrupt(place_of(leaf), "a path that is too long").into());
            }
            let bytes = self.tree.chain_bytes(count);
            let place = self.tree.carve(lane, way.patient, NodeClass::Inner, leaf.node(), bytes).await?;
            carved.nodes = Some((place, count));
        }
        for i in 0..plan.leaves() {
            // A counter of the lane spreads the second leaf over the memory nodes.
            let near = if i == 0 { leaf.node() } else { NodeId((lane.next_turn() >> 8) as u16 % nodes) };
            let place = self.carve_leaf(lane, way, near).await?;
            if let Some(address) = carved.leaves.get_mut(i) {
                *address = Some(place);
            }
        }
        let heirs = self.build(lane, leaf, &plan, carved).ok_or(corrupt(place_of(leaf), NO_CUT))?;
        if let Some((place, count)) = carved.nodes {
            self.tree.push_chain(lane, place, count);
        }
        let births = carved.leaves.iter().flatten().zip(self.new_images());
        let births: heapless::Vec<_, 2> =
            births.map(|(leaf, image)| (*leaf, Self::push_birth(lane, *leaf, image))).collect();
        lane.port().submit().await?;
        for (leaf, cas) in births {
            self.end_birth(lane, leaf, cas).await?;
        }
        self.entries.check_lease(lane)?;
        Ok(heirs)
    }

    /// The images in which new leaves are built.
    pub(super) const fn new_images(&self) -> [Span; 2] {
        [self.scratch.fresh_leaf(0), self.scratch.fresh_leaf(1)]
    }

    /// Carves the place of a leaf.
    pub(super) async fn carve_leaf(&self, lane: &Lane<'_>, way: &Way, near: NodeId) -> Result<Address, Interrupt> {
        let place = self.tree.carve(lane, way.patient, NodeClass::Leaf, near, LEAF_BYTES).await?;
        // Tells the leaf from those that were here before, as far as its bits go.
        let generation = (lane.next_turn() >> 16) as u8 & crate::remote::address::GENERATION_MASK;
        Ok(Address::new(place.node(), place.offset(), generation))
    }

    /// Pushes the WRITE of a new leaf, and the CAS that frees its Spear word. Answers the position of the CAS.
    pub(super) fn push_birth(lane: &Lane<'_>, leaf: Address, image: Span) -> usize {
        let port = lane.port();
        let (offset, at) = (leaf.offset() + FIRST_WRITE.start as u64, image.at + FIRST_WRITE.start);
        port.push(Request::write(Label::Leaf, leaf.node(), offset, FIRST_WRITE.len(), at));
        let to = if planted(Mutant::BORN_AS_FOUND) { Spear::RETIRED } else { Spear::FREE.0 };
        port.push(Request::cas(Label::Lock, leaf.node(), leaf.offset(), Spear::RETIRED, to))
    }

    /// Ends the birth of a leaf: its Spear word says that it is free. No living lane has a field in the word of a place
    /// that waited for the epochs; the fields of dead ones are cleared here.
    pub(super) async fn end_birth(&self, lane: &Lane<'_>, leaf: Address, cas: usize) -> Result<(), Interrupt> {
        let (mut expected, mut found) = (Spear(Spear::RETIRED), Spear(lane.port().completion(cas).value));
        let mut attempts = 0;
        while !planted(Mutant::BORN_AS_FOUND)
            && found != expected
            && let Some(from) = Spear::birth(found)
        {
            expected = from;
            let cas = Request::cas(Label::Lock, leaf.node(), leaf.offset(), from.0, Spear::FREE.0);
            found = Spear(lane.port().call(cas).await?.value);
            lane.attempt(&mut attempts, "freeing the lock word of a new leaf")?;
        }
        Ok(())
    }

    /// Takes back what was carved and not published.
    fn give_back(&self, carved: &Carved) {
        for leaf in carved.leaves.iter().flatten() {
            self.tree.space.put(NodeClass::Leaf, place_of(*leaf), LEAF_BYTES);
        }
        if let Some((place, count)) = carved.nodes {
            self.tree.space.put(NodeClass::Inner, place, self.tree.chain_bytes(count));
        }
    }

    /// What the closed leaf in image 0 becomes.
    fn plan_of(&self, lane: &Lane<'_>, leaf: Address) -> Option<Plan> {
        lane.port().with(|scratch| {
            let leaf = Leaf::new(&self.shape, self.tree.scratch.leaf(0).of(scratch), leaf, self.tree.index).ok()?;
            let records = Population::new(leaf, scratch.get(self.plan.key.clone())?)?;
            let becomes = population::becomes(&records.full(self.shape.span, self.paper_leaves), |i| records.key(i))?;
            let (position, tile) = (leaf.position(), leaf.tile());
            Some(Plan { becomes, position, tile, byte: *records.key.get(position)? })
        })
    }

    /// Builds the new leaves and nodes, and says what the heirs are.
    fn build(&self, lane: &Lane<'_>, leaf: Address, plan: &Plan, carved: &Carved) -> Option<[Slot; 2]> {
        lane.port().with(|scratch| {
            // The images of new leaves and nodes lie behind and in front of the old leaf's.
            let mut old = [0; LEAF_BYTES];
            old.copy_from_slice(self.tree.scratch.leaf(0).of(scratch).get(..LEAF_BYTES)?);
            let leaf = Leaf::new(&self.shape, &old, leaf, self.tree.index).ok()?;
            let mut room = [0; 64];
            let key = room.get_mut(..self.shape.key_bytes)?;
            key.copy_from_slice(scratch.get(self.plan.key.clone())?);
            let records = Population::new(leaf, key)?;
            let (position, count) = (leaf.position(), records.count());
            let drops = planted(Mutant::REBUILT_SHORT) && count > 1;
            let whole = (position, plan.tile, 0..count - usize::from(drops));
            let parts = match plan.becomes {
                Becomes::Void => [None, None],
                Becomes::Same => [Some(whole), None],
                Becomes::Cut(cut) => {
                    let (left, right) = cut.tiles(&records.full(self.shape.span, self.paper_leaves))?;
                    [Some((cut.position, left, 0..cut.left)), Some((cut.position, right, cut.left..count))]
                }
            };
            for ((part, image), address) in parts.iter().zip(self.new_images()).zip(carved.leaves) {
                let (Some((position, tile, records_of)), Some(address)) = (part, address) else { continue };
                let bounds = Bounds::new(records.key.get(..*position)?, *tile)?;
                self.build_leaf(scratch, image, address, bounds, &records, records_of.clone())?;
            }
            let heirs = match (plan.becomes, carved.leaves, plan.chain()) {
                (Becomes::Void, ..) => Heirs::Void,
                (Becomes::Same, [Some(only), _], _) => Heirs::Leaf(only),
                (Becomes::Cut(cut), [Some(left), Some(right)], None) => Heirs::Leaves(left, cut.boundary, right),
                (Becomes::Cut(cut), [Some(left), Some(right)], Some((begin, end))) => {
                    let (place, _) = carved.nodes?;
                    self.build_path(scratch, (place, begin, end), records.key, cut, [left, right]);
                    Heirs::Node(plan.byte, NodeType::SMALLEST, place)
                }
                _ => return None,
            };
            heirs.words(plan.tile)
        })
    }

    /// Builds the nodes between a leaf's slot and a cut further down.
    fn build_path(
        &self,
        scratch: &mut [u8],
        (nodes, begin, end): (Place, usize, usize),
        key: &[u8],
        cut: Cut,
        [left, right]: [Address; 2],
    ) {
        self.tree.build_chain(scratch, (nodes, chain::path(begin, end)), key, |here, next| {
            if here.position == end {
                let leaf = |byte, leaf| Slot::tile_leaf(byte, leaf).unwrap_or(Slot::EMPTY);
                return first_slots([Some(leaf(0, left)), Some(leaf(cut.boundary, right)), None]);
            }
            let byte = key.get(here.position).copied().unwrap_or_default();
            let (below, _, behind) = population::around(byte);
            let node = Slot::tile_node(byte, NodeType::SMALLEST, next);
            first_slots([below.map(Slot::void), Some(node), behind.map(Slot::void)])
        });
    }

    /// Builds a leaf with these of the records in an image.
    fn build_leaf(
        &self,
        scratch: &mut [u8],
        image: Span,
        address: Address,
        bounds: Bounds<'_>,
        records: &Population<'_>,
        which: core::ops::Range<usize>,
    ) -> Option<()> {
        let own = self.own_block(scratch);
        let (arguments, image) = self.plan.arguments_and(image, scratch).ok()?;
        let value = arguments.value();
        let old_value = |cell| match records.leaf.value(cell) {
            Ok(Value::Here(value)) => value,
            _ => &[],
        };
        let of = |i: usize| records.cell(i).map_or(value, old_value);
        let absent = match self.shape.kind {
            ValueKind::Word => {
                absent_for(&which.clone().map(|i| of(i).first_chunk().map_or(0, |word| u64::from_le_bytes(*word))))
            }
            _ => 0,
        };
        let head = Head { address, index: self.tree.index, bounds, owner: self.owner_tag(), absent };
        let mut leaf = LeafMut::start(&self.shape, image, &head)?;
        for (cell, i) in which.enumerate() {
            leaf.bind(cell, records.key(i));
            let block = match records.cell(i).map(|cell| records.leaf.value(cell)) {
                None => own,
                Some(Ok(Value::Block(block))) => Some(block),
                Some(_) => None,
            };
            if !leaf.put_either(cell, of(i), block) {
                return None;
            }
        }
        Some(())
    }

    /// Builds a leaf that has the operation's record only.
    pub(super) fn build_first(
        &self,
        scratch: &mut [u8],
        address: Address,
        (position, tile): (usize, Tile),
    ) -> Option<()> {
        let own = self.own_block(scratch);
        let (arguments, image) = self.plan.arguments_and(self.scratch.fresh_leaf(0), scratch).ok()?;
        let bounds = Bounds::new(arguments.key().get(..position)?, tile)?;
        let value = arguments.value();
        let absent = match self.shape.kind {
            ValueKind::Word => {
                absent_for(&core::iter::once(value.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))))
            }
            _ => 0,
        };
        let head = Head { address, index: self.tree.index, bounds, owner: self.owner_tag(), absent };
        let mut leaf = LeafMut::start(&self.shape, image, &head)?;
        leaf.bind(0, arguments.key());
        leaf.put_either(0, value, own).then_some(())
    }

    /// Gives the tile of a retired leaf, which is in leaf image 0, to its heirs: appends the slots that are missing, and
    /// swings the leaf's own. `cursor` is at the leaf's slot. Any number of lanes may do this at once; each step looks
    /// first. Takes no lock.
    pub(super) async fn finish(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        leaf: Address,
        cursor: &TileCursor,
    ) -> Result<(), Interrupt> {
        let shares = lane.port().with(|scratch| {
            let mut low = [0; 64];
            let low = low.get_mut(..self.shape.key_bytes)?;
            let image = self.tree.scratch.leaf(0).of(scratch);
            let retired = Leaf::new(&self.shape, image, leaf, self.tree.index).ok()?;
            retired.bounds(&mut [0; 64]).write_low(low);
            let shares = population::shares(retired.tile(), retired.heirs()).ok()?;
            scratch.get_mut(self.low.clone())?.copy_from_slice(low);
            Some(shares)
        });
        let Some(shares) = shares else {
            return Err(corrupt(place_of(leaf), "heirs that do not share a leaf's tile").into());
        };
        let (mut start, mut goal, mut attempts) = (Start::Again(*cursor), Goal::Append(0), 0);
        loop {
            let (cursor, end) = self.tree.descend(lane, way, &self.low, start, goal).await?;
            if end != TileEnd::Leaf(leaf) {
                return Ok(());
            }
            match self.finish_at(lane, way, leaf, &cursor, &shares).await? {
                None => return Ok(()),
                Some(room) => goal = Goal::Append(room),
            }
            lane.attempt(&mut attempts, "finishing a structure change")?;
            start = Start::Root;
        }
    }

    /// Makes the changes of slots in the node that has the slot at `cursor`, whose image is node image 0. `Some`: the
    /// node is about to be replaced, or was replaced, or needs room for so many slots.
    async fn finish_at(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        leaf: Address,
        cursor: &TileCursor,
        shares: &Shares,
    ) -> Result<Option<usize>, Interrupt> {
        let owner = cursor.slot.owner;
        let Some((kind, node)) = owner.below() else {
            return Err(corrupt(place_of(leaf), "a leaf without a node").into());
        };
        let own = cursor.slot.word;
        for _ in 0..kind.slots() * 2 {
            let step = self.tree.with_owner(lane, cursor, |node| population::next_step(node, own, shares));
            let Some(step) = step else { return Ok(Some(0)) };
            let step = match (step, shares.first()) {
                (Ok(Step::Append { .. }), Some((_, word))) if planted(Mutant::LOW_SLOT_FIRST) => {
                    Ok(Step::Swing { index: usize::from(cursor.slot.index), word: *word })
                }
                (step, _) => step,
            };
            let step = step.map_err(|_| corrupt(node, "a node that lacks a byte of a retired leaf"))?;
            let (index, from, to) = match step {
                Step::Done => return Ok(None),
                Step::Append { index, word } => (index, Slot::EMPTY, word),
                Step::Swing { index, word } => (index, own, word),
                Step::Replace { room } => return Ok(Some(room)),
            };
            let swings = from == own;
            let _room = if swings { self.tree.room_for(lane, way, 1)? } else { None };
            let place = node.plus(SLOTS_AT + 8 * index);
            let mut found = self.tree.publish(lane, true, place, from, to).await?;
            if planted(Mutant::FROZEN_CHANGED) && found.is_frozen() {
                let again = self.tree.publish(lane, true, place, found, to).await?;
                found = if again == found { from } else { again };
            }
            let now = if found == from { to } else { found };
            lane.port().with(|scratch| self.tree.scratch.slot(0, index).set_word(scratch, now.0));
            if way.copies && !now.is_frozen() {
                self.tree.cache.patch(owner, index, now, self.tree.epoch(lane));
            }
            if found == from && swings {
                self.tree.retire(lane, way, NodeClass::Leaf, place_of(leaf), LEAF_BYTES);
                return Ok(None);
            }
            if now.is_frozen() {
                return Ok(Some(0));
            }
        }
        Ok(Some(0))
    }
}

/// Slots of a node of a chain: those that are there, in ascending order.
pub(super) fn first_slots(some: [Option<Slot>; 3]) -> [Slot; CHAIN_SLOTS] {
    let mut slots = [Slot::EMPTY; CHAIN_SLOTS];
    for (slot, word) in slots.iter_mut().zip(some.into_iter().flatten()) {
        *slot = word;
    }
    slots
}
