//! Insert, update, upsert, `update_if` and delete of a key that has a leaf: under the leaf's lock.
//!
//! Steps: find the leaf; lock + READ leaf; decide; WRITE seal and value + unlock, in one WRITE or two. The linearization point is the
//! WRITE: a reader that meets it half done sees an image that does not fit its seal. What an image READ without the lock
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
use crate::locks::ChainedRead;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, OperationKind, Outcome};
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
        if self.may_lock_first(kind)
            && let Some(place) = self.copied_leaf(lane).await
            && self.chains_read(place.address())
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

    /// Whether the lock may be taken before the leaf was READ. It is for nothing if there is nothing to write: by default only
    /// what presumes a record to be there does it.
    fn may_lock_first(&self, kind: OperationKind) -> bool {
        use OperationKind::{Delete, DeleteIf, Update, UpdateIf};
        match self.options.chain_lock_read {
            ChainedRead::Never => false,
            ChainedRead::WhereQuiet => matches!(kind, Update | UpdateIf | Delete | DeleteIf),
            ChainedRead::Always => true,
        }
    }

    /// The leaf that copies lead to.
    async fn copied_leaf(&self, lane: &Lane<'_>) -> Option<Place> {
        let route = self.tree.route(lane, &self.plan.key).await?;
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
                    let image = self.tree.scratch.leaf(0).of(scratch);
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
            return Ok(Some(self.delete_unlocked(lane, place).await?));
        }
        // Lock + READ the leaf; decide.
        let (held, read) = self.lock_leaf(lane, place).await?;
        let judged = self.read_locked(lane, &held, read).await;
        let decision = judged.map(|judged| (judged, self.decide_locked(lane, kind, judged, before)));
        // WRITE seal and value + unlock.
        if let Ok((_, Some((change, outcome)))) = decision
            && change != Change::Nothing
        {
            if outcome == Outcome::Inserted {
                lane.mark(Mark::REVIVED);
            }
            lane.change_is_next();
            self.push_change(lane, &held, change)?;
            self.release_with(lane, held).await?;
            if change == Change::Remove {
                self.met_deleted();
                if planted(Mutant::DELETE_LOOKS_AGAIN) {
                    return Ok(Some(self.decide(lane, kind, false).1));
                }
            }
            return Ok(Some(outcome));
        }
        // Nothing to write: unlock.
        self.release(lane, held).await?;
        let (judged, decision) = decision?;
        if decision.is_none() && judged.ours {
            lane.mark(Mark::FINALIZED_MET);
        } else if decision.is_none() && before.is_some() {
            return Err(corrupt(place, "a leaf whose key changed").into());
        }
        Ok(decision.map(|(_, outcome)| outcome))
    }

    /// What an operation does to leaf image 0, which is locked, and its outcome. `None`: the leaf is finalized, or
    /// another key's.
    fn decide_locked(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        judged: Judged,
        before: Option<bool>,
    ) -> Option<(Change, Outcome)> {
        let valid = match judged.state {
            _ if !judged.ours => return None,
            LeafState::Valid => true,
            LeafState::Deleted => false,
            LeafState::Finalized if planted(Mutant::FINALIZED_REVIVED) => false,
            LeafState::Finalized => return None,
        };
        // A write batch is sealed while nobody else can change what it will overwrite: see `compute::batches`.
        self.seal(lane);
        let valid = if planted(Mutant::LEAF_BEFORE_LOCK) { before.unwrap_or(valid) } else { valid };
        Some(self.decide(lane, kind, valid))
    }

    /// Makes that change in leaf image 0, and pushes the WRITE of it to the leaf that is held.
    fn push_change(&self, lane: &Lane<'_>, held: &Held, change: Change) -> Result<(), OpError> {
        let bytes = lane.port().with(|scratch| {
            let Ok((arguments, image)) = self.plan.arguments_and(self.tree.scratch.leaf(0), scratch) else { return 0 };
            if change == Change::Put {
                self.leaf.set_value(image, arguments.value());
                return self.leaf.write_bytes();
            }
            self.leaf.close(image, LeafState::Deleted);
            VALUE_AT
        });
        let bytes = if planted(Mutant::WHOLE_LEAF) { self.leaf.place_bytes } else { bytes };
        self.push_in_place(lane, held, bytes)?;
        if planted(Mutant::DELETE_CLEARS_SLOT) && change == Change::Remove {
            self.clear_slot(lane, Place::of(held.protects));
        }
        Ok(())
    }

    /// The mutant of that name.
    #[cold]
    async fn delete_unlocked(&self, lane: &Lane<'_>, place: Place) -> Result<Outcome, OpError> {
        let image = self.tree.scratch.leaf(0);
        lane.port().with(|scratch| self.leaf.close(image.of_mut(scratch), LeafState::Deleted));
        lane.port().call(Request::write(Label::Entry, place.node(), place.offset(), VALUE_AT, image.at)).await?;
        Ok(Outcome::Deleted)
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
        let image = self.tree.scratch.fresh_leaf();
        lane.port().with(|scratch| {
            let Ok((arguments, image)) = self.plan.arguments_and(image, scratch) else { return };
            self.leaf.build(image, arguments.key(), arguments.value());
        });
        lane.port().push(Request::write(Label::Leaf, place.node(), place.offset(), self.leaf.fresh_bytes(), image.at));
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
