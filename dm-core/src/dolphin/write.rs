//! Insert, update, upsert, `update_if` and delete.
//!
//! - *Shared*: an update, or an upsert, of a record that is there. Enter + READ; WRITE value + leave. Others do the same
//!   meanwhile, to this record or another one of the leaf. The linearization point is the WRITE: a value cell is of one
//!   instant.
//! - *Exclusive*: everything else, and an update whose value is the leaf's word for "absent". Close + READ; WRITE key,
//!   WRITE value + open. The image is final, so what it decides holds until the WRITE, and the WRITE of the value is
//!   the linearization point. A leaf that has no cell left is replaced ([`super::replace`]).
//! - *Where no leaf is*: a leaf with one record is put there ([`super::fill`]).
//!
//! The key is looked for in the image that was READ behind the own addition, never in an earlier one.

use super::Dolphin;
use super::blocks::{Shown, no_block};
use super::layout::block::BlockPointer;
use super::layout::leaf::{Leaf, LeafMut, Value, place_of};
use super::presence::{Admitted, Inside};
use super::search::{Fit, under};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, OperationKind, Outcome};
use crate::radix::tile_descent::{Goal, Start, TileCursor, TileEnd};
use crate::radix::tree::{Way, corrupt};
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use core::ops::Range;

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attempted {
    /// With this outcome.
    Done(Outcome),
    /// Look at the node that has the slot again, with this goal.
    Again(Goal),
    /// Go on at this cursor: a change cannot be finished for want of memory, and its heir is there.
    Heir(TileCursor),
}

impl Attempted {
    pub(super) const AGAIN: Self = Self::Again(Goal::Read);
}

/// What an operation does to the leaf that it has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// The value cell gets the value; the key is bound there.
    Put(usize),
    /// This cell, the first that is free, gets the key and the value.
    Bind(usize),
    /// The value cell says "absent".
    Remove(usize),
    /// There is no cell, or the value is the leaf's word for "absent".
    Replace,
}

impl Dolphin<'_> {
    /// Steps: route; then by what is there, as the [module](self) says.
    pub(super) async fn write(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        patient: bool,
    ) -> Result<Outcome, Interrupt> {
        self.await_seat(lane).await?;
        let way = Way { patient: patient && self.has_epochs(), ..self.tree.way() };
        self.write_in(lane, &way, kind).await
    }

    /// The same in any tree.
    pub(super) async fn write_in(&self, lane: &Lane<'_>, way: &Way, kind: OperationKind) -> Result<Outcome, Interrupt> {
        self.begin_block(lane);
        let result = self.attempt_writes(lane, way, kind).await;
        self.end_block(lane, &result);
        result
    }

    async fn attempt_writes(&self, lane: &Lane<'_>, way: &Way, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let inserts = matches!(kind, OperationKind::Insert | OperationKind::Upsert);
        let goal = if inserts { Goal::Fill } else { Goal::Read };
        let (mut start, mut goal, mut attempts) = (Start::Copies, goal, 0);
        // The way led over an heir that has no slot, since its node has no room for one. Records are changed there in
        // place. What would need a slot needs memory.
        let mut beyond = false;
        loop {
            let (cursor, end) = self.tree.descend(lane, way, &self.plan.key, start, goal).await?;
            let attempted = match end {
                TileEnd::Leaf(leaf) => {
                    self.make_block(lane, way, kind, leaf.node()).await?;
                    self.write_leaf(lane, way, kind, &cursor, (leaf, beyond)).await?
                }
                _ if !inserts => Attempted::Done(Outcome::Absent),
                _ if beyond => return Err(Interrupt::NoMemory),
                _ => {
                    self.make_block(lane, way, kind, cursor.slot.place(way).node()).await?;
                    let attempted = self.fill(lane, way, &cursor, end).await?;
                    if let Attempted::Done(_) = attempted {
                        self.block_is_named(lane);
                    }
                    attempted
                }
            };
            match attempted {
                Attempted::Done(outcome) => return Ok(outcome),
                Attempted::Again(next) => (start, goal, beyond) = (Start::Again(cursor), next, false),
                Attempted::Heir(heir) => (start, goal, beyond) = (Start::At(heir), Goal::Read, true),
            }
            lane.attempt(&mut attempts, "finding a place for a key")?;
        }
    }

    /// One attempt at the leaf to which the slot at `cursor` leads. `beyond`: the leaf may be an heir without a slot. It
    /// stays then.
    async fn write_leaf(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        kind: OperationKind,
        cursor: &TileCursor,
        (leaf, beyond): (Address, bool),
    ) -> Result<Attempted, Interrupt> {
        self.check_inside(leaf)?;
        // For the block that the operation's own takes the place of.
        let _room = if self.has_blocks() { self.tree.room_for(lane, way, 1)? } else { None };
        let shares = match kind {
            OperationKind::Update | OperationKind::Upsert => self.options.shared_updates,
            OperationKind::Insert => self.claims_cells(),
            _ => false,
        };
        if shares {
            match self.enter(lane, leaf).await? {
                Admitted::Retired => return self.meet_retired(lane, way, cursor, leaf).await,
                Admitted::Inside(inside) => {
                    self.check_lease_inside(lane, inside).await?;
                    let attempted = match kind {
                        OperationKind::Insert => self.insert_shared(lane, inside).await?,
                        _ => self.update_shared(lane, way, kind, inside).await?,
                    };
                    if let Some(attempted) = attempted {
                        return Ok(attempted);
                    }
                }
            }
        }
        match self.close(lane, leaf).await? {
            Admitted::Retired => self.meet_retired(lane, way, cursor, leaf).await,
            Admitted::Inside(inside) => {
                self.check_lease_inside(lane, inside).await?;
                self.change_closed(lane, way, kind, cursor, (inside, beyond)).await
            }
        }
    }

    /// The leaf was retired: its change is finished, if a fresh word led there; else the word was old. If there is no
    /// memory to finish it, the operation goes on with the key's heir, as a get does.
    async fn meet_retired(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &TileCursor,
        leaf: Address,
    ) -> Result<Attempted, Interrupt> {
        if cursor.slot.fresh
            && let Fit::Retired(heir) = self.fit(lane, leaf, &self.plan.key)?
        {
            match self.finish(lane, way, leaf, cursor).await {
                Err(Interrupt::NoMemory) => {
                    lane.mark(Mark::HEIR_FOLLOWED);
                    return Ok(Attempted::Heir(under(cursor, heir)));
                }
                finished => finished?,
            }
            lane.mark(Mark::CHANGE_FINISHED);
        } else {
            lane.mark(Mark::STALE_CACHE);
        }
        Ok(Attempted::AGAIN)
    }

    /// What a lane that is inside with others does: the update of a record that is there. `None`: it has left, and the
    /// operation needs the leaf for itself.
    async fn update_shared(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        kind: OperationKind,
        inside: Inside,
    ) -> Result<Option<Attempted>, Interrupt> {
        let leaf = inside.leaf;
        let seen = self.fit(lane, leaf, &self.plan.key).and_then(|fit| match fit {
            Fit::Live => self.record(lane, leaf).map(Some),
            _ => Ok(None),
        });
        if let Ok(Some(Some((cell, true)))) = seen {
            self.seal(lane);
            let old = self.named_by(lane, leaf, cell);
            if let Some(write) = self.put(lane, cell) {
                lane.change_is_next();
                match old.filter(|_| !planted(Mutant::BLOCK_NAME_WRITTEN)) {
                    None => {
                        self.push_cell(lane, leaf, write);
                        self.leave_with(lane, inside).await?;
                        self.block_is_named(lane);
                        self.retire_block(lane, way, old);
                    }
                    Some(old) => self.rename(lane, way, (old, write), inside).await?,
                }
                let outcome = if kind == OperationKind::Update { Outcome::Updated } else { Outcome::Replaced };
                return Ok(Some(Attempted::Done(outcome)));
            }
        }
        self.leave(lane, inside).await?;
        Ok(match seen? {
            None => {
                lane.mark(Mark::STALE_CACHE);
                Some(Attempted::AGAIN)
            }
            Some(Some((_, true))) => None,
            Some(_) if kind == OperationKind::Update => Some(Attempted::Done(Outcome::Absent)),
            Some(_) => None,
        })
    }

    /// Changes the name in a value cell from `old` to that of the own block, unless another update was faster; and gets
    /// out. `cell`: the bytes of the cell, which has the new name in leaf image 0.
    ///
    /// An update that was overtaken is done, too. No record is deleted and no leaf is retired while the lane is inside.
    /// So what it found is another update's name, which took the place of `old` after this lane's READ and before its
    /// CAS: right before that this update has taken effect, and nobody saw it.
    async fn rename(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        (old, cell): (BlockPointer, Range<usize>),
        inside: Inside,
    ) -> Result<(), OpError> {
        let new = lane.port().with(|scratch| self.tree.scratch.leaf(0).part(&cell).word(scratch));
        let (leaf, from) = (inside.leaf, old.to_bits());
        let cas = Request::cas(Label::Entry, leaf.node(), leaf.offset() + cell.start as u64, from, new);
        let position = lane.port().push(cas);
        lane.swaps_slot(position, from);
        let found = self.leave_with(lane, inside).await?;
        lane.swapped_slot(found == from);
        if found == from {
            self.block_is_named(lane);
            self.retire_block(lane, way, Some(old));
        } else {
            lane.mark(Mark::UPDATE_OVERTAKEN);
            if planted(Mutant::LOSER_RETIRES) {
                self.retire_block(lane, way, Some(old));
            }
        }
        Ok(())
    }

    /// What a lane that has closed the leaf does. Leaf image 0 is final.
    async fn change_closed(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        kind: OperationKind,
        cursor: &TileCursor,
        (inside, beyond): (Inside, bool),
    ) -> Result<Attempted, Interrupt> {
        let leaf = inside.leaf;
        let decided = match self.fit(lane, leaf, &self.plan.key) {
            Ok(Fit::Live) => self.decide(lane, kind, leaf).await.map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        let Ok(Some((change, outcome))) = decided else {
            self.leave(lane, inside).await?;
            decided?;
            lane.mark(Mark::STALE_CACHE);
            return Ok(Attempted::AGAIN);
        };
        let mut change = change;
        let old = match change {
            Change::Put(cell) | Change::Remove(cell) => self.named_by(lane, leaf, cell),
            _ => None,
        };
        if let Change::Put(cell) | Change::Bind(cell) = change {
            self.seal(lane);
            match self.put(lane, cell) {
                None => change = Change::Replace,
                Some(value) => {
                    if matches!(change, Change::Bind(_)) {
                        let key = self.bind(lane, cell);
                        if planted(Mutant::VALUE_BEFORE_KEY) {
                            self.push_cell(lane, leaf, value.clone());
                        }
                        self.push_cell(lane, leaf, key);
                    }
                    lane.change_is_next();
                    if !(planted(Mutant::VALUE_BEFORE_KEY) && matches!(change, Change::Bind(_))) {
                        self.push_cell(lane, leaf, value);
                    }
                    if outcome == Outcome::Inserted && matches!(change, Change::Put(_)) {
                        lane.mark(Mark::REVIVED);
                    }
                }
            }
        }
        // Without room for its place to wait, the leaf stays, and is empty.
        if !beyond
            && self.empties(lane, leaf, change)
            && let Ok(_room) = self.tree.room_for(lane, way, 1)
        {
            self.seal(lane);
            self.void_leaf(lane, way, cursor, inside).await?;
            self.retire_block(lane, way, old);
            return Ok(Attempted::Done(outcome));
        }
        if let Change::Remove(cell) = change {
            self.seal(lane);
            let value = self.with_image(lane, |image| {
                LeafMut::new(&self.shape, image).remove(cell);
                self.shape.value_write(cell)
            });
            lane.change_is_next();
            self.push_cell(lane, leaf, value);
        }
        if change == Change::Replace && beyond {
            self.leave(lane, inside).await?;
            return Err(Interrupt::NoMemory);
        }
        if change == Change::Replace {
            self.seal(lane);
            let attempted = self.replace_leaf(lane, way, cursor, inside, outcome).await?;
            self.block_is_named(lane);
            return Ok(attempted);
        }
        if change == Change::Nothing {
            self.leave(lane, inside).await?;
        } else {
            self.leave_with(lane, inside).await?;
            if !matches!(change, Change::Remove(_)) {
                self.block_is_named(lane);
            }
            self.retire_block(lane, way, old);
        }
        Ok(Attempted::Done(outcome))
    }

    /// Whether leaf image 0 has no record after this change, and the leaf's place would come back.
    fn empties(&self, lane: &Lane<'_>, leaf: Address, change: Change) -> bool {
        let removed = match change {
            Change::Remove(cell) => Some(cell),
            Change::Nothing => None,
            Change::Put(_) | Change::Bind(_) | Change::Replace => return false,
        };
        let ignored = usize::from(planted(Mutant::VOID_OVER_RECORD) && removed.is_some());
        self.has_epochs()
            && lane.port().with(|scratch| {
                let image = self.tree.scratch.leaf(0).of(scratch);
                Leaf::new(&self.shape, image, leaf, self.tree.index).is_ok_and(|leaf| {
                    let mut stay = (0..leaf.bound())
                        .filter(|cell| Some(*cell) != removed && leaf.value(*cell) != Ok(Value::Absent));
                    stay.nth(ignored).is_none()
                })
            })
    }

    /// The cell of the key in leaf image 0, and whether the record is there. `None`: no cell has the key.
    fn record(&self, lane: &Lane<'_>, leaf: Address) -> Result<Option<(usize, bool)>, OpError> {
        lane.port().with(|scratch| {
            let key = scratch.get(self.plan.key.clone()).unwrap_or_default();
            let seen =
                Leaf::new(&self.shape, self.tree.scratch.leaf(0).of(scratch), leaf, self.tree.index).and_then(|leaf| {
                    match leaf.find(key) {
                        Some(cell) => Ok(Some((cell, leaf.value(cell)? != Value::Absent))),
                        None => Ok(None),
                    }
                });
            seen.map_err(|_| corrupt(place_of(leaf), "a value in no known state"))
        })
    }

    /// The same for the image of a leaf that is closed. `Err`: no cell has the key, and the first one that is not bound;
    /// the span, if all are.
    pub(super) fn record_or_free(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
    ) -> Result<Result<(usize, bool), usize>, OpError> {
        lane.port().with(|scratch| {
            let key = scratch.get(self.plan.key.clone()).unwrap_or_default();
            let seen =
                Leaf::new(&self.shape, self.tree.scratch.leaf(0).of(scratch), leaf, self.tree.index).and_then(|leaf| {
                    Ok(match leaf.find_or_free(key) {
                        Ok(cell) => Ok((cell, leaf.value(cell)? != Value::Absent)),
                        Err(free) if planted(Mutant::CELL_GIVEN_AWAY) => {
                            let deleted = |cell: &usize| leaf.value(*cell) == Ok(Value::Absent);
                            Err((0..free).find(deleted).unwrap_or(free))
                        }
                        Err(free) => Err(free),
                    })
                });
            seen.map_err(|_| corrupt(place_of(leaf), "a value in no known state"))
        })
    }

    /// What an operation does to leaf image 0, and its outcome. A value that belongs to the outcome is in the output.
    async fn decide(&self, lane: &Lane<'_>, kind: OperationKind, leaf: Address) -> Result<(Change, Outcome), OpError> {
        use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
        let seen = match self.record_or_free(lane, leaf)? {
            Ok((_, false)) if planted(Mutant::BOUND_TWICE) => Err(self.bound_cells(lane, leaf)),
            seen => seen,
        };
        let Ok((cell, true)) = seen else {
            return Ok(match (kind, seen) {
                (Insert | Upsert, Ok((cell, _))) => (Change::Put(cell), Outcome::Inserted),
                (Insert | Upsert, Err(free)) => {
                    let is_room = free < self.shape.span && !self.splits_early(lane, leaf);
                    let change = if is_room { Change::Bind(free) } else { Change::Replace };
                    (change, Outcome::Inserted)
                }
                _ => (Change::Nothing, Outcome::Absent),
            });
        };
        Ok(match kind {
            Get | Scan => (Change::Nothing, Outcome::Found),
            Upsert => (Change::Put(cell), Outcome::Replaced),
            Update => (Change::Put(cell), Outcome::Updated),
            Delete => (Change::Remove(cell), Outcome::Deleted),
            Insert => {
                self.output_final(lane, leaf).await?;
                (Change::Nothing, Outcome::Exists)
            }
            UpdateIf | DeleteIf => {
                self.output_final(lane, leaf).await?;
                let fits = lane
                    .port()
                    .with(|scratch| scratch.get(self.plan.expected.clone()) == scratch.get(self.plan.output.clone()));
                match (fits, kind) {
                    (true, UpdateIf) => (Change::Put(cell), Outcome::Updated),
                    (true, _) => (Change::Remove(cell), Outcome::Deleted),
                    (false, _) => (Change::Nothing, Outcome::Mismatch),
                }
            }
        })
    }

    /// Copies the value of a record that is there to the output. The leaf is closed, so its block is what it says.
    async fn output_final(&self, lane: &Lane<'_>, leaf: Address) -> Result<(), OpError> {
        match self.output(lane, leaf).await? {
            Shown::Doubtful(name) => Err(no_block(name)),
            Shown::Here | Shown::Absent => Ok(()),
        }
    }

    /// Cells of leaf image 0 whose keys are bound.
    pub(super) fn bound_cells(&self, lane: &Lane<'_>, leaf: Address) -> usize {
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of(scratch);
            Leaf::new(&self.shape, image, leaf, self.tree.index).map_or(self.shape.span, |leaf| leaf.bound())
        })
    }

    /// Whether leaf image 0 must not get the operation's key, though there is room.
    pub(super) fn splits_early(&self, lane: &Lane<'_>, leaf: Address) -> bool {
        self.paper_leaves
            && lane.port().with(|scratch| {
                let key = scratch.get(self.plan.key.clone()).unwrap_or_default();
                let image = self.tree.scratch.leaf(0).of(scratch);
                Leaf::new(&self.shape, image, leaf, self.tree.index).is_ok_and(|leaf| leaf.differs_early(key))
            })
    }

    /// Changes leaf image 0.
    fn with_image<R>(&self, lane: &Lane<'_>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        lane.port().with(|scratch| change(self.tree.scratch.leaf(0).of_mut(scratch)))
    }

    /// Puts the operation's value, or the name of its block, into cell `cell` of leaf image 0, and says what a WRITE of
    /// it covers. `None`: it is the leaf's word for "absent".
    pub(super) fn put(&self, lane: &Lane<'_>, cell: usize) -> Option<Range<usize>> {
        lane.port().with(|scratch| {
            let own = self.own_block(scratch);
            let (arguments, image) = self.plan.arguments_and(self.tree.scratch.leaf(0), scratch).ok()?;
            let is_put = LeafMut::new(&self.shape, image).put_either(cell, arguments.value(), own);
            is_put.then(|| self.shape.value_write(cell))
        })
    }

    /// Binds cell `cell` of leaf image 0 to the operation's key, and says what a WRITE of it covers.
    pub(super) fn bind(&self, lane: &Lane<'_>, cell: usize) -> Range<usize> {
        lane.port().with(|scratch| {
            if let Ok((arguments, image)) = self.plan.arguments_and(self.tree.scratch.leaf(0), scratch) {
                LeafMut::new(&self.shape, image).bind(cell, arguments.key());
            }
        });
        self.shape.key_write(cell)
    }

    /// Pushes the WRITE of these bytes of leaf image 0.
    pub(super) fn push_cell(&self, lane: &Lane<'_>, leaf: Address, bytes: Range<usize>) {
        let at = self.tree.scratch.leaf(0).at + bytes.start;
        let offset = leaf.offset() + bytes.start as u64;
        lane.port().push(Request::write(Label::Entry, leaf.node(), offset, bytes.len(), at));
        lane.wrote_in_place();
    }

    /// Closes the batch that this lane leads, if it leads one: its value is the operation's from now on.
    pub(super) fn seal(&self, lane: &Lane<'_>) {
        self.batches.seal(lane, |value| {
            lane.port().with(|scratch| {
                if let Some(place) = scratch.get_mut(self.plan.value.clone())
                    && let Some(value) = value.get(..place.len())
                {
                    place.copy_from_slice(value);
                }
            });
        });
    }
}
