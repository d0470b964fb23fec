//! Where a descent stands, and where it ends.

use super::cache::Route;
use super::leaf::Judged;
use super::slot::{Place, SLOTS_AT, Slot, word};
use super::tree::{Tree, Way};
use crate::lane::Lane;
use crate::operation::OpError;
use crate::verbs::{Label, Request};

/// The descent cursor: a slot on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescentCursor {
    /// The slot's word, without the frozen bit.
    pub word: Slot,
    /// The position of the key at which the slot's child begins.
    pub depth: u8,
    /// The slot's number in its node.
    pub index: u8,
    /// Whether the word is fresh: see [`super::look`].
    pub fresh: bool,
    /// The word that leads to the slot's node; empty: this is the root slot.
    pub owner: Slot,
}

impl DescentCursor {
    pub(crate) const fn at_root(word: Slot, fresh: bool) -> Self {
        Self { word, depth: 0, index: 0, fresh, owner: Slot::EMPTY }
    }

    pub(crate) const fn copied(route: &Route) -> Self {
        let Route { word, depth, owner, index } = *route;
        // No CAS may expect a frozen word: it would change one.
        let word = word.thawed();
        Self { word, depth: depth as u8, index: index as u8, fresh: false, owner }
    }

    /// The place of the slot.
    pub fn place(&self, way: &Way) -> Place {
        match self.owner.below() {
            Some((_, node)) => node.plus(SLOTS_AT + 8 * usize::from(self.index)),
            _ => way.root,
        }
    }
}

/// Why there is no leaf of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// The root slot is empty.
    Empty,
    /// The slot leads to this leaf, which is another key's or finalized; it is in leaf image 0.
    Leaf(Place, Judged),
    /// The slot leads to a node whose header differs from the key at this position; it is in node image 0.
    Header(usize),
    /// The slot leads to this node, which has no slot for the key's byte; it is in node image 0. The number is that of
    /// its first empty slot.
    Slot(Place, Option<u16>),
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached {
    /// At the key's leaf, which is in leaf image 0, and whether the record is there.
    Leaf(Place, bool),
    /// Where the key's leaf would be.
    Gap(DescentCursor, Why),
}

impl Tree<'_> {
    /// READs the root slot.
    pub(crate) async fn read_root(&self, lane: &Lane<'_>, way: &Way) -> Result<DescentCursor, OpError> {
        let at = self.scratch.small;
        lane.port().call(Request::read(Label::Root, way.root.node(), way.root.offset(), 8, at)).await?;
        let word = lane.port().with(|scratch| word(scratch, at));
        let word = if way.root == self.root { self.root_slot(word)? } else { Slot(word) };
        if way.copies {
            self.cache.set_root(word, self.epoch(lane));
        }
        Ok(DescentCursor::at_root(word, true))
    }
}
