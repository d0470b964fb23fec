//! From a key to its leaf; and get.
//!
//! A descent by tiles ends in front of a leaf, which says itself which keys are its own and whether it is alive. A
//! retired leaf is no dead end: the slot that leads there is swung later, and the heirs are in the leaf's first line.
//! [`plan`](super::plan) says why an image is believed and why an absence is.

use super::Dolphin;
use super::blocks::{Shown, no_block};
use super::layout::leaf::{Judged, Leaf, place_of};
use super::layout::shape::LEAF_BYTES;
use super::population::{self, Share};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, Outcome};
use crate::radix::cursor::DescentCursor;
use crate::radix::slot::{Child, Slot};
use crate::radix::tile_descent::{Goal, Start, TileCursor, TileEnd};
use crate::radix::tree::{Way, corrupt};
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use core::ops::Range;

/// What leaf image 0 is to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The key's leaf, alive.
    Live,
    /// The key's leaf, retired. The slot word that leads to the key's heir.
    Retired(Slot),
    /// Another leaf, or none any more: the word that led here is old.
    Stale,
}

/// What is where a key would be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Located {
    /// Its leaf, alive, in leaf image 0.
    Leaf(Address),
    /// No leaf: a word of this call says so.
    Gap(TileCursor, TileEnd),
}

/// Gets that follow heirs look at the node again so often, before they finish the change themselves.
const LOOKS_MAX: u32 = 4;

impl Dolphin<'_> {
    /// The READ of a leaf into leaf image `i`.
    pub(super) fn leaf_request(&self, leaf: Address, i: usize) -> Request {
        let image = self.tree.scratch.leaf(i).with_bytes(LEAF_BYTES);
        Request::read(Label::Leaf, leaf.node(), leaf.offset(), image.bytes, image.at).untimed()
    }

    /// Refuses a pointer that cannot lead to a leaf.
    pub(super) fn check_inside(&self, leaf: Address) -> Result<(), OpError> {
        let place = place_of(leaf);
        if self.tree.is_inside(place, LEAF_BYTES) { Ok(()) } else { Err(corrupt(place, "a pointer beyond the pool")) }
    }

    /// Judges leaf image 0, to which `leaf` led, for the key at scratch range `key`.
    pub(super) fn fit(&self, lane: &Lane<'_>, leaf: Address, key: &Range<usize>) -> Result<Fit, OpError> {
        self.fit_of(lane, 0, leaf, key)
    }

    /// The same for leaf image `i`.
    pub(super) fn fit_of(&self, lane: &Lane<'_>, i: usize, leaf: Address, key: &Range<usize>) -> Result<Fit, OpError> {
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(i).of(scratch);
            let key = scratch.get(key.clone()).unwrap_or_default();
            match Leaf::judge(&self.shape, image, leaf, self.tree.index, key) {
                Ok(Judged::Live(_)) => Ok(Fit::Live),
                Ok(Judged::Retired(retired)) => share_of(&retired, key).map(|(_, heir)| Fit::Retired(heir)),
                Err(DecodeError::Corrupt(what)) => Err(what),
                Err(_) => Ok(Fit::Stale),
            }
            .map_err(|what| corrupt(place_of(leaf), what))
        })
    }

    /// READs a leaf into leaf image 0 and judges it.
    pub(super) async fn read_leaf(&self, lane: &Lane<'_>, leaf: Address, key: &Range<usize>) -> Result<Fit, OpError> {
        self.check_inside(leaf)?;
        lane.port().call(self.leaf_request(leaf, 0)).await?;
        match self.fit(lane, leaf, key) {
            Ok(Fit::Retired(_)) if planted(Mutant::RETIRED_BELIEVED) => Ok(Fit::Live),
            fit => fit,
        }
    }

    /// Finds the leaf of the key at scratch range `key`, and READs it into leaf image 0.
    ///
    /// The loop ends: each repetition is an attempt, which is limited.
    pub(super) async fn locate(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        key: &Range<usize>,
        mut start: Start,
    ) -> Result<Located, Interrupt> {
        let mut attempts = 0;
        loop {
            let (cursor, end) = self.tree.descend(lane, way, key, start, Goal::Read).await?;
            let TileEnd::Leaf(leaf) = end else { return Ok(Located::Gap(cursor, end)) };
            start = Start::Again(cursor);
            match self.read_leaf(lane, leaf, key).await? {
                Fit::Live => return Ok(Located::Leaf(leaf)),
                Fit::Retired(heir) if cursor.slot.fresh || planted(Mutant::HEIRS_FROM_COPY) => {
                    if attempts >= LOOKS_MAX {
                        lane.mark(Mark::CHANGE_FINISHED);
                        self.finish(lane, way, leaf, &cursor).await?;
                    } else {
                        lane.mark(Mark::HEIR_FOLLOWED);
                        match heir.tile_child() {
                            Ok(Child::Void(tile)) => return Ok(Located::Gap(cursor, TileEnd::Void(tile))),
                            Ok(Child::Leaf(leaf)) if self.read_leaf(lane, leaf, key).await? == Fit::Live => {
                                return Ok(Located::Leaf(leaf));
                            }
                            Ok(Child::Node(..)) => start = Start::At(under(&cursor, heir)),
                            _ => {}
                        }
                    }
                }
                _ => lane.mark(Mark::STALE_CACHE),
            }
            lane.attempt(&mut attempts, "finding the leaf of a key")?;
        }
    }

    /// Steps: route; READ leaf; compare; READ the block that it names. Linearizes within the READ of the leaf whose image
    /// was accepted, or where the absence was seen fresh.
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        // Before the first READ: the deciding instant is after all members have called.
        self.batches.seal(lane, |_| ());
        let (mut doubted, mut attempts) = (None, 0);
        loop {
            let Located::Leaf(leaf) = self.locate(lane, &self.tree.way(), &self.plan.key, Start::Copies).await? else {
                return Ok(Outcome::Absent);
            };
            match self.output(lane, leaf).await? {
                Shown::Here => return Ok(Outcome::Found),
                Shown::Absent => return Ok(Outcome::Absent),
                Shown::Doubtful(name) if doubted == Some(name) => return Err(no_block(name).into()),
                Shown::Doubtful(name) => doubted = Some(name),
            }
            lane.attempt(&mut attempts, "READing the block of a record")?;
        }
    }
}

/// The part of this retired leaf's tile that has `key`, which its bounds have, and the slot word of the heir of that part.
pub(super) fn share_of(retired: &Leaf<'_>, key: &[u8]) -> Result<Share, &'static str> {
    const NO_HEIR: &str = "heirs that do not share a leaf's tile";
    let byte = key.get(retired.position()).copied().ok_or(NO_HEIR)?;
    let shares = population::shares(retired.tile(), retired.heirs()).map_err(|_| NO_HEIR)?;
    shares.iter().find(|(tile, _)| tile.has(byte)).copied().ok_or(NO_HEIR)
}

/// The cursor at a slot that is not there yet, and will have the word `heir`, in the node of `cursor`'s slot. A descent
/// may begin here as long as it changes nothing.
pub(super) const fn under(cursor: &TileCursor, heir: Slot) -> TileCursor {
    TileCursor { slot: DescentCursor { word: heir, fresh: true, ..cursor.slot } }
}
