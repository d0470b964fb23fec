//! Descents: from a key to its leaf, or to where its leaf would be; and get.
//!
//! A descent stands at a slot: its place, a word it had, and where its child begins. The word is *fresh* if there was
//! an instant since the operation began at which the slot had this word and its node was part of the tree. Words of
//! copies are not fresh. [`smart_records`](crate::manual::smart_records) says what follows from it.

use super::Smart;
use super::layout::LeafState;
use crate::btree::RESTARTS_MAX;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, Outcome};
use crate::radix::cache::Route;
use crate::radix::slot::{Child, Compared, Node, NodeType, Place, SLOTS_AT, Slot, word};
use crate::smart::corrupt;
use crate::verbs::{Label, Request};
use core::future::poll_fn;
use core::task::Poll;

/// READs of a leaf that does not fit its seal, before it is READ under its lock.
const TORN_MAX: u32 = 8;

/// READs under the lock of a leaf that does not fit its seal, before it counts as corrupt.
const TORN_LOCKED_MAX: u32 = 16;

/// Pause between two of these, in ns.
const TORN_PAUSE_NS: u64 = 2_000;

/// The tree that an operation works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Where its root slot is.
    pub root: Place,
    /// Copies of its nodes are kept.
    pub copies: bool,
    /// An operation that finds no memory may be sent back, with nothing changed, to wait until others give back some.
    pub patient: bool,
}

/// The descent cursor: a slot on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescentCursor {
    /// Its word; if that is frozen, as it was before.
    pub word: Slot,
    /// Where its child begins.
    pub depth: u8,
    /// Its number in its node.
    pub index: u8,
    /// See the module's documentation.
    pub fresh: bool,
    /// The word that leads to its node; empty: it is the root slot.
    pub owner: Slot,
}

impl DescentCursor {
    const fn at_root(word: Slot, fresh: bool) -> Self {
        Self { word, depth: 0, index: 0, fresh, owner: Slot::EMPTY }
    }

    pub(super) const fn copied(route: &Route) -> Self {
        let Route { word, depth, owner, index } = *route;
        // No CAS may expect a frozen word: it would change one.
        let word = word.thawed();
        Self { word, depth: depth as u8, index: index as u8, fresh: false, owner }
    }

    /// Where it is.
    pub fn place(&self, way: &Way) -> Place {
        match self.owner.child() {
            Ok(Child::Node(_, node)) => node.plus(SLOTS_AT + 8 * usize::from(self.index)),
            _ => way.root,
        }
    }
}

/// Why there is no leaf of the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// The root slot is empty.
    Empty,
    /// The slot leads to this leaf, which is another key's or finalized; it is in leaf image 0.
    Leaf(Place, Judged),
    /// The slot leads to a node whose header differs from the key at this position; it is in node image 0.
    Header(usize),
    /// The slot leads to this node, which has no slot for the key's byte; it is in node image 0. With its first empty
    /// slot.
    Slot(Place, Option<u16>),
}

/// What an image of a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    /// It has the operation's key.
    pub ours: bool,
    pub state: LeafState,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reached {
    /// At the key's leaf, which is in leaf image 0, and whether the record is there.
    Leaf(Place, bool),
    /// Where it would be.
    Gap(DescentCursor, Why),
}

/// Result of a look at a node.
enum Look {
    /// No node of this index, or one that cannot be here.
    Unfit(&'static str),
    Differs(usize),
    Found {
        index: usize,
        word: Slot,
        position: u8,
        current: bool,
    },
    Missing {
        empty: Option<usize>,
        current: bool,
        /// The first empty slot is frozen.
        frozen: bool,
    },
}

impl Smart<'_> {
    /// The way into the index.
    pub(super) const fn way(&self) -> Way {
        Way { root: self.root, copies: true, patient: false }
    }

    /// Whether `bytes` from `place` on can be memory of a node or leaf.
    pub(super) fn is_inside(&self, place: Place, bytes: usize) -> bool {
        self.geometry
            .get(usize::from(place.node().0))
            .is_some_and(|node| place.offset() >= node.heap && place.offset() + bytes as u64 <= node.region_bytes)
    }

    /// Copies the operation's key to the stack.
    pub(super) fn key<'k>(&self, scratch: &[u8], room: &'k mut [u8; 64]) -> &'k [u8] {
        match (room.get_mut(..self.plan.key_bytes), scratch.get(self.plan.key.clone())) {
            (Some(to), Some(from)) => {
                to.copy_from_slice(from);
                to
            }
            _ => &[],
        }
    }

    /// READs the root slot.
    pub(super) async fn read_root(&self, lane: &Lane<'_>, way: &Way) -> Result<DescentCursor, OpError> {
        let at = self.scratch.small;
        lane.port().call(Request::read(Label::Root, way.root.node(), way.root.offset(), 8, at)).await?;
        let word = Slot(lane.port().with(|scratch| word(scratch, at)));
        if way.copies {
            self.cache.set_root(word, self.epoch(lane));
        }
        Ok(DescentCursor::at_root(word, true))
    }

    /// Descends to the operation's key. `copied`: from where the copies end. `helps`: a node that another lane has
    /// begun to freeze is replaced on the way, so that the slot where the descent ends can be changed.
    ///
    /// Every iteration goes down, or makes the slot fresh, or starts from the root, where all is fresh. Fresh stays
    /// fresh. So few iterations do not go down, except for helping, which is limited.
    pub(super) async fn find(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        copied: bool,
        helps: bool,
    ) -> Result<Reached, Interrupt> {
        let route = if copied && way.copies { self.route(lane).await } else { None };
        let mut cursor = match route {
            Some(route) => DescentCursor::copied(&route),
            None => self.read_root(lane, way).await?,
        };
        let mut attempts = 0;
        loop {
            let what = match cursor.word.child() {
                Ok(Child::Empty) if cursor.fresh => return Ok(Reached::Gap(cursor, Why::Empty)),
                Ok(Child::Empty) => "an empty slot",
                Ok(Child::Leaf(place)) if self.is_inside(place, self.leaf.place_bytes) => {
                    let leaf = self.read_leaf(lane, place).await?;
                    match leaf {
                        Judged { ours: true, state: LeafState::Valid } => return Ok(Reached::Leaf(place, true)),
                        Judged { ours: true, state: LeafState::Deleted } => return Ok(Reached::Leaf(place, false)),
                        Judged { ours, .. }
                            if cursor.fresh
                                || !ours && planted(Mutant::CachedNegative)
                                || ours && planted(Mutant::BuriedIsAbsent) =>
                        {
                            return Ok(Reached::Gap(cursor, Why::Leaf(place, leaf)));
                        }
                        Judged { ours: true, .. } => {
                            lane.mark(Mark::BuriedMet);
                            "a leaf that was buried"
                        }
                        Judged { .. } => "a leaf of another key",
                    }
                }
                Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
                    match self.look(lane, way, &cursor, kind, place).await? {
                        Look::Unfit(what) => what,
                        Look::Differs(at) if cursor.fresh || planted(Mutant::CachedNegative) => {
                            return Ok(Reached::Gap(cursor, Why::Header(at)));
                        }
                        Look::Differs(_) => "a node of another prefix",
                        Look::Found { word, .. } if word.is_frozen() && helps && !planted(Mutant::FrozenFollowed) => {
                            lane.mark(Mark::HelpedSwitch);
                            self.switch(lane, way, &cursor, place, false).await?;
                            lane.attempt(&mut attempts, RESTARTS_MAX, "replacing full nodes on the way")?;
                            cursor = self.read_root(lane, way).await?;
                            continue;
                        }
                        Look::Found { index, word, position, current } => {
                            if word.is_frozen() {
                                lane.mark(Mark::FrozenSlot);
                            }
                            cursor = DescentCursor {
                                word: if helps && planted(Mutant::FrozenFollowed) { word } else { word.thawed() },
                                depth: position + 1,
                                index: index as u8,
                                fresh: cursor.fresh || current,
                                owner: cursor.word,
                            };
                            continue;
                        }
                        Look::Missing { frozen: true, .. } if helps => {
                            lane.mark(Mark::HelpedSwitch);
                            self.switch(lane, way, &cursor, place, false).await?;
                            lane.attempt(&mut attempts, RESTARTS_MAX, "replacing nodes that are left on the way")?;
                            cursor = self.read_root(lane, way).await?;
                            continue;
                        }
                        Look::Missing { empty, current, .. } if cursor.fresh || current => {
                            return Ok(Reached::Gap(cursor, Why::Slot(place, empty.map(|at| at as u16))));
                        }
                        Look::Missing { .. } => "a node that has been replaced",
                    }
                }
                Ok(Child::Leaf(_) | Child::Node(..)) => "a pointer beyond the pool",
                Err(_) => "a slot with unknown bits",
            };
            if cursor.fresh {
                return Err(corrupt(cursor.place(way), what).into());
            }
            cursor = self.confirm(lane, way, cursor).await?;
        }
    }

    /// Where copies lead. While lines of these are far, other lanes may run, if the driver supports it.
    pub(super) async fn route(&self, lane: &Lane<'_>) -> Option<Route> {
        let epoch = self.epoch(lane);
        let mut walk = self.cache.enter_at_root(epoch)?;
        let fetch = lane.port().fetch();
        poll_fn(move |_| {
            let ends = lane.port().with(|scratch| {
                let key = scratch.get(self.plan.key.clone()).unwrap_or_default();
                self.cache.follow(&mut walk, key, epoch, fetch)
            });
            if ends { Poll::Ready(Some(walk.route)) } else { Poll::Pending }
        })
        .await
    }

    /// READs a slot of which only a copy is known. It is as the copy says, or changed, or no longer the one that
    /// counts; then the descent begins again.
    async fn confirm(&self, lane: &Lane<'_>, way: &Way, cursor: DescentCursor) -> Result<DescentCursor, OpError> {
        let (place, at) = (cursor.place(way), self.scratch.small);
        if cursor.owner.is_empty() {
            return self.read_root(lane, way).await;
        }
        lane.port().call(Request::read(Label::Slot, place.node(), place.offset(), 8, at)).await?;
        let found = Slot(lane.port().with(|scratch| word(scratch, at)));
        if found.is_frozen() || found.is_empty() {
            lane.mark(Mark::Restart);
            return self.read_root(lane, way).await;
        }
        if found == cursor.word {
            lane.mark(Mark::Confirmed);
        } else {
            lane.mark(Mark::StaleCache);
            self.cache.patch(cursor.owner, usize::from(cursor.index), found, self.epoch(lane));
        }
        Ok(DescentCursor { word: found, fresh: true, ..cursor })
    }

    /// READs the node that `cursor` leads to into node image 0 and looks for the key there.
    async fn look(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        kind: NodeType,
        place: Place,
    ) -> Result<Look, OpError> {
        let at = self.scratch.node(0);
        let read = Request::read(Label::Inner, place.node(), place.offset(), kind.bytes(), at).untimed();
        lane.port().call(read).await?;
        Ok(lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let image = scratch.get(at..at + kind.bytes()).unwrap_or_default();
            let node = match Node::new(image, kind, self.index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Look::Unfit(what),
                Err(_) => return Look::Unfit("no node"),
            };
            match node.header.compare(usize::from(cursor.depth), key) {
                Compared::Unfit => return Look::Unfit("a node that cannot be here"),
                Compared::Differs(at) => return Look::Differs(at),
                Compared::Fits => {}
            }
            let position = node.header.position;
            let searched = node.search(key.get(usize::from(position)).copied().unwrap_or_default());
            // An image in which every slot is frozen may be of a node that has been replaced.
            if way.copies && searched.current {
                self.cache.insert(cursor.word, &node, self.epoch(lane));
            }
            if let Some((index, word)) = searched.found {
                return Look::Found { index, word, position, current: searched.current };
            }
            let frozen = searched.empty.is_some_and(|empty| node.slot(empty).is_frozen());
            Look::Missing { empty: searched.empty, current: searched.current, frozen }
        }))
    }

    /// Judges leaf image 0.
    pub(super) fn judge_leaf(&self, lane: &Lane<'_>) -> Result<Judged, DecodeError> {
        lane.port().with(|scratch| {
            let image = scratch.get(self.scratch.leaf(0)..).unwrap_or_default();
            let state = self.leaf.state(image)?;
            let wanted = scratch.get(self.plan.key.clone()).unwrap_or_default();
            Ok(Judged { ours: self.leaf.key(image) == wanted, state })
        })
    }

    /// READs a leaf into leaf image 0 until it is whole; under its lock if others keep it torn.
    async fn read_leaf(&self, lane: &Lane<'_>, place: Place) -> Result<Judged, Interrupt> {
        for _ in 0..TORN_MAX {
            lane.port().call(self.leaf_request(place, 0)).await?;
            match self.judge_leaf(lane) {
                Ok(judged) => return Ok(judged),
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what).into()),
                Err(_) => lane.mark(Mark::TornRead),
            }
            lane.check_deadline()?;
        }
        lane.mark(Mark::LockedRead);
        let (held, read) = self.lock_leaf(lane, place).await?;
        let judged = self.read_locked(lane, &held, read).await;
        self.release(lane, held).await?;
        Ok(judged?)
    }

    /// READs a leaf that this lane has locked into leaf image 0, unless it was `read` behind the lock's CAS. Nobody else
    /// writes it now. The last writer's WRITE took effect before its unlock; if it is torn all the same, that WRITE was
    /// cut short.
    pub(super) async fn read_locked(&self, lane: &Lane<'_>, held: &Held, read: bool) -> Result<Judged, OpError> {
        let mut read = read;
        for _ in 0..TORN_LOCKED_MAX {
            if !read {
                lane.port().call(self.leaf_request(Place::of(held.protects), 0)).await?;
            }
            match self.judge_leaf(lane) {
                Ok(judged) => return Ok(judged),
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(Place::of(held.protects), what)),
                Err(_) => lane.mark(Mark::TornRead),
            }
            lane.port().push(Request::pause(TORN_PAUSE_NS));
            lane.port().submit().await?;
            read = false;
        }
        Err(corrupt(Place::of(held.protects), "torn for good: a writer died in a WRITE"))
    }

    /// Steps: route; READ leaf; compare. Linearizes within the READ whose image was accepted, or where the absence was
    /// seen fresh ([`smart_records`](crate::manual::smart_records)).
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        // Before the first READ: the deciding instant is after all members have called.
        self.batches.seal(lane, |_| ());
        match self.find(lane, &self.way(), true, false).await? {
            Reached::Leaf(_, true) => {
                self.output(lane);
                Ok(Outcome::Found)
            }
            Reached::Leaf(_, false) | Reached::Gap(..) => Ok(Outcome::Absent),
        }
    }

    /// Copies the value of leaf image 0 to the output.
    pub(super) fn output(&self, lane: &Lane<'_>) {
        lane.port().with(|scratch| {
            let start = self.scratch.leaf(0) + super::layout::VALUE_AT;
            // The output lies before the leaves.
            let to = self.plan.output.start;
            if start + self.plan.value_bytes <= scratch.len() && to + self.plan.value_bytes <= scratch.len() {
                scratch.copy_within(start..start + self.plan.value_bytes, to);
            }
        });
    }
}
