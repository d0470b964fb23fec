//! Insert, update, upsert, `update_if` and delete of a key that has a leaf: under the leaf's lock.
//!
//! Steps: find the leaf; lock + READ leaf; decide; WRITE seal and value + unlock. The linearization point is the WRITE:
//! a reader that meets it half done sees an image that does not fit its seal. What an image READ without the lock
//! decides already (insert of a record that is there, anything else of one that is not, `update_if` of another value)
//! needs no lock, and linearizes in that READ.
//!
//! A leaf has one key as long as any operation knows of it. So a lane may lock a leaf to which only a copy has led
//! ([`Options::chain_lock_read`] saves the first READ so): if it is another key's, or finalized, the lane unlocks it.
//!
//! [`Options::chain_lock_read`]: crate::btree::Options

use super::Smart;
use super::layout::{LeafState, VALUE_AT};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OperationKind, Outcome};
use crate::radix::attach::{Attach, Attached};
use crate::radix::cursor::{DescentCursor, Reached};
use crate::radix::descent::Descent;
use crate::radix::leaf::Judged;
use crate::radix::slot::{Child, Place, Slot};
use crate::radix::tombstones::Tombstones;
use crate::radix::tree::{Way, corrupt};
use crate::verbs::{Label, Request};

/// Change of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Put the value; the record is there.
    Put,
    /// The record is deleted.
    Remove,
}

impl Smart<'_> {
    pub(super) async fn write(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        patient: bool,
    ) -> Result<Outcome, Interrupt> {
        let inserts = matches!(kind, OperationKind::Insert | OperationKind::Upsert);
        let way = Way { patient: patient && self.has_epochs(), ..self.tree.way() };
        if self.options.chain_lock_read
            && let Some(place) = self.copied_leaf(lane).await
            && let Some(outcome) = self.write_leaf(lane, kind, place, None).await?
        {
            return Ok(outcome);
        }
        let (mut copied, mut tidies, mut attempts) = (true, true, 0);
        loop {
            match self.find(lane, &way, copied, inserts).await? {
                Reached::Leaf(place, valid) => {
                    if let Some(outcome) = self.decided(lane, kind, valid) {
                        return Ok(outcome);
                    }
                    if let Some(outcome) = self.write_leaf(lane, kind, place, Some(valid)).await? {
                        return Ok(outcome);
                    }
                    // It was finalized meanwhile.
                    copied = false;
                }
                Reached::Gap(..) if !inserts => return Ok(Outcome::Absent),
                Reached::Gap(cursor, why) => match self.attach(lane, &way, (cursor, why), &mut tidies).await? {
                    Attached::Done => return Ok(Outcome::Inserted),
                    Attached::Again { copied: again } => copied = again,
                },
            }
            lane.attempt(&mut attempts, "finding a place for a key")?;
        }
    }

    /// The leaf that copies lead to.
    async fn copied_leaf(&self, lane: &Lane<'_>) -> Option<Place> {
        let route = self.route(lane).await?;
        match route.word.child() {
            Ok(Child::Leaf(place)) if self.tree.is_inside(place, self.leaf.place_bytes) => Some(place),
            _ => None,
        }
    }

    /// What leaf image 0, READ without its lock, decides already.
    fn decided(&self, lane: &Lane<'_>, kind: OperationKind, valid: bool) -> Option<Outcome> {
        let (change, outcome) = self.decide(lane, kind, valid);
        (change == Change::Nothing).then_some(outcome)
    }

    /// What an operation does to leaf image 0, and its outcome. A value that belongs to the outcome is in the output.
    fn decide(&self, lane: &Lane<'_>, kind: OperationKind, valid: bool) -> (Change, Outcome) {
        use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
        match (kind, valid) {
            (Get | Scan, true) => (Change::Nothing, Outcome::Found),
            (Get | Scan | Update | UpdateIf | Delete | DeleteIf, false) => (Change::Nothing, Outcome::Absent),
            (Insert | Upsert, false) => (Change::Put, Outcome::Inserted),
            (Upsert, true) => (Change::Put, Outcome::Replaced),
            (Update, true) => (Change::Put, Outcome::Updated),
            (Delete, true) => (Change::Remove, Outcome::Deleted),
            (Insert, true) => {
                self.output(lane);
                (Change::Nothing, Outcome::Exists)
            }
            (UpdateIf | DeleteIf, true) => {
                let fits = lane.port().with(|scratch| {
                    let image = scratch.get(self.tree.scratch.leaf(0)..).unwrap_or_default();
                    scratch.get(self.plan.expected.clone()) == Some(self.leaf.value(image))
                });
                if fits {
                    return if kind == UpdateIf {
                        (Change::Put, Outcome::Updated)
                    } else {
                        (Change::Remove, Outcome::Deleted)
                    };
                }
                self.output(lane);
                (Change::Nothing, Outcome::Mismatch)
            }
        }
    }

    /// Writes a leaf under its lock. `None`: it is finalized, or another key's. `before`: whether the record was there
    /// when it was READ without the lock; it does not matter any more.
    async fn write_leaf(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        place: Place,
        before: Option<bool>,
    ) -> Result<Option<Outcome>, Interrupt> {
        if planted(Mutant::DELETE_UNLOCKED) && kind == OperationKind::Delete && before == Some(true) {
            lane.port().with(|scratch| {
                if let Some(image) = scratch.get_mut(self.tree.scratch.leaf(0)..) {
                    self.leaf.close(image, LeafState::Deleted);
                }
            });
            let (node, offset, at) = (place.node(), place.offset(), self.tree.scratch.leaf(0));
            lane.port().call(Request::write(Label::Entry, node, offset, VALUE_AT, at)).await?;
            return Ok(Some(Outcome::Deleted));
        }
        let (held, read) = self.lock_leaf(lane, place).await?;
        let valid = match self.read_locked(lane, &held, read).await {
            Ok(Judged { ours: true, state: LeafState::Valid }) => true,
            Ok(Judged { ours: true, state: LeafState::Deleted }) => false,
            Ok(Judged { ours: true, .. }) if planted(Mutant::FINALIZED_REVIVED) => false,
            Ok(Judged { ours, .. }) => {
                self.release(lane, held).await?;
                if ours {
                    lane.mark(Mark::FINALIZED_MET);
                } else if before.is_some() {
                    return Err(corrupt(place, "a leaf whose key changed").into());
                }
                return Ok(None);
            }
            Err(error) => {
                self.release(lane, held).await?;
                return Err(error.into());
            }
        };
        // A write batch is sealed while nobody else can change what it will overwrite: see `compute::batches`.
        self.seal(lane);
        let valid = if planted(Mutant::LEAF_BEFORE_LOCK) { before.unwrap_or(valid) } else { valid };
        let (change, outcome) = self.decide(lane, kind, valid);
        if change == Change::Nothing {
            self.release(lane, held).await?;
            return Ok(Some(outcome));
        }
        if outcome == Outcome::Inserted {
            lane.mark(Mark::REVIVED);
        }
        let bytes = lane.port().with(|scratch| {
            let (front, images) = scratch.split_at_mut_checked(self.tree.scratch.leaves)?;
            let image = images.get_mut(..self.leaf.place_bytes)?;
            if change == Change::Put {
                self.leaf.set_value(image, front.get(self.plan.value.clone())?);
                return Some(self.leaf.write_bytes());
            }
            self.leaf.close(image, LeafState::Deleted);
            Some(VALUE_AT)
        });
        let bytes = if planted(Mutant::WHOLE_LEAF) { Some(self.leaf.place_bytes) } else { bytes };
        lane.change_is_next();
        self.push_in_place(lane, &held, bytes.unwrap_or(0))?;
        if planted(Mutant::DELETE_CLEARS_SLOT) && change == Change::Remove {
            self.clear_slot(lane, place);
        }
        self.release_with(lane, held).await?;
        if change == Change::Remove {
            self.met_deleted();
        }
        if planted(Mutant::DELETE_LOOKS_AGAIN) && change == Change::Remove {
            return Ok(Some(self.decide(lane, kind, false).1));
        }
        Ok(Some(outcome))
    }

    /// The mutant of that name: the slot that copies know for the leaf becomes empty.
    #[cold]
    fn clear_slot(&self, lane: &Lane<'_>, leaf: Place) {
        let key = self.plan.key.clone();
        let epoch = self.tree.epoch(lane);
        let route = lane.port().with(|scratch| self.tree.cache.route(scratch.get(key).unwrap_or_default(), epoch));
        let Some(route) = route else { return };
        if route.word.child() == Ok(Child::Leaf(leaf)) {
            let place = DescentCursor::copied(&route).place(&self.tree.way());
            lane.port().push(Request::cas(Label::Slot, place.node(), place.offset(), route.word.0, Slot::EMPTY.0));
        }
    }

    /// Builds the operation's leaf and pushes its WRITE.
    pub(super) fn push_new_leaf(&self, lane: &Lane<'_>, place: Place) {
        self.seal(lane);
        let at = self.tree.scratch.fresh_leaf;
        lane.port().with(|scratch| {
            let Some((front, rest)) = scratch.split_at_mut_checked(at) else { return };
            let key = front.get(self.plan.key.clone()).unwrap_or_default();
            let value = front.get(self.plan.value.clone()).unwrap_or_default();
            self.leaf.build(rest, key, value);
        });
        lane.port().push(Request::write(Label::Leaf, place.node(), place.offset(), self.leaf.fresh_bytes(), at));
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
