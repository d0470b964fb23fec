//! Insert, update, upsert, `update_if`, delete and `delete_if`: one procedure, as in the paper.
//!
//! Steps: route; take nodes from the free lists (if it may split); lock; READ leaf; decide; WRITE entry + unlock.
//!
//! The linearization point is the WRITE of the entry (or, of a split, of the old node): before it no reader can see the
//! change, after it every READ posted later does. An operation that changes nothing linearizes at its READ under the
//! lock.

use super::Sherman;
use super::layout::{Leaf, LeafMut};
use crate::btree::descent::DescentCursor;
use crate::btree::leaves::Leaves;
use crate::btree::link::raise_node_version;
use crate::btree::merge::Merge;
use crate::btree::node::{self, FenceCheck};
use crate::btree::read::{Target, read_locked};
use crate::btree::router::{Router, seek};
use crate::btree::{MOVES_MAX, Tree};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks, acquire, release_with};
use crate::marks::Mark;
use crate::operation::{OpError, OperationKind, Outcome, unknown};
use crate::remote::address::Address;
use crate::remote::lock_word::LockId;
use crate::verbs::Label;

/// What a look at the locked leaf decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// The operation ends here, with that change of the image, which is to be written.
    Done { outcome: Outcome, change: Option<Change> },
    /// A record has to go in and there is no slot.
    NoRoom,
    /// The key is in another leaf.
    Elsewhere(FenceCheck),
}

/// A changed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    slot: usize,
    /// The leaf has lost its last record.
    emptied: bool,
}

/// How an attempt at one leaf ended.
enum Attempt {
    /// `emptied`: the leaf, if that was its last record.
    Done { outcome: Outcome, emptied: Option<Address> },
    /// The leaf, which is locked and has been READ, has to split, and the lane has the nodes for that.
    Full(Held),
    /// Look for the leaf again: the route was wrong.
    Lost,
    /// The leaf has to split, and the lane has no nodes for that.
    Short,
}

impl Sherman<'_> {
    pub(super) async fn write(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let inserts = matches!(kind, OperationKind::Insert | OperationKind::Upsert);
        let mut cached = true;
        let mut attempts = 0;
        loop {
            // Route, by copies or by a descent.
            let Some(mut cursor) = seek!(&self.tree, lane, &self.plan.key, cached) else {
                if !inserts {
                    return Ok(Outcome::Absent);
                }
                self.plant(lane).await?;
                lane.attempt(&mut attempts, "planting the first leaf")?;
                continue;
            };
            cursor.begins_again(attempts);
            // Nodes for a split, before the lock.
            if inserts {
                self.tree.prepare_to_split(lane, cursor.address.node());
            }
            // Lock, READ, decide, WRITE + unlock.
            match self.write_at(lane, kind, &mut cursor).await? {
                // What may follow is done from here: a future for it is not to lie within that of the attempt.
                Attempt::Done { outcome, emptied } => {
                    if let Some(leaf) = emptied {
                        self.join_emptied(lane, leaf).await;
                    }
                    if cursor.help.is_some() {
                        self.help(lane, cursor.help).await;
                    }
                    return Ok(outcome);
                }
                Attempt::Full(held) => {
                    self.split_and_insert(lane, held).await?;
                    self.help(lane, cursor.help).await;
                    return Ok(Outcome::Inserted);
                }
                Attempt::Short => {
                    if !self.tree.reserve_to_split(lane, cursor.address.node()).await? {
                        return Err(Interrupt::NoMemory);
                    }
                    lane.attempt(&mut attempts, "reserving nodes for a split")?;
                }
                Attempt::Lost => {
                    lane.mark(if cached { Mark::STALE_CACHE } else { Mark::RESTART });
                    self.tree.forget(lane, &cursor);
                    self.tree.forget_root(lane);
                    cached = false;
                    lane.attempt(&mut attempts, "finding the leaf of a key")?;
                }
            }
        }
    }

    /// Writes at the leaf that `cursor` names, or at one that it leads to.
    async fn write_at(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        cursor: &mut DescentCursor,
    ) -> Result<Attempt, Interrupt> {
        for _ in 0..MOVES_MAX {
            let leaf = self.leaf_target(cursor.address, 0);
            let look = |scratch: &mut [u8]| self.decide(lane, kind, leaf, scratch);
            // Lock.
            let follow = self.tree.chains_read(leaf.address).then(|| leaf.request_locked());
            let (held, is_read) = acquire!(&self.tree, lane, leaf.address, follow);
            // READ the leaf, unless that followed the lock's CAS; decide, and change the image.
            let decision = read_locked!(lane, leaf, is_read, look);
            // WRITE the entry + unlock.
            if let Ok(Some(Decision::Done { outcome, change: Some(change) })) = decision {
                lane.change_is_next();
                self.push_write(lane, held.lock, leaf, change.slot)?;
                release_with!(&self.tree, lane, held);
                return Ok(Attempt::Done { outcome, emptied: change.emptied.then_some(leaf.address) });
            }
            if matches!(decision, Ok(Some(Decision::NoRoom))) && Tree::ready_to_split(lane) {
                return Ok(Attempt::Full(held));
            }
            // Nothing to write: unlock.
            self.tree.release(lane, held).await?;
            match decision? {
                Some(Decision::Done { outcome, .. }) => return Ok(Attempt::Done { outcome, emptied: None }),
                Some(Decision::NoRoom) => return Ok(Attempt::Short),
                Some(Decision::Elsewhere(fence_check)) => {
                    let from = cursor.from;
                    self.tree.learn(lane, cursor, fence_check, leaf.image);
                    if cursor.is_sent_back_too_often() {
                        self.mend_forwarding(lane, from, leaf.address).await?;
                    }
                }
                None => return Ok(Attempt::Lost),
            }
        }
        Ok(Attempt::Lost)
    }

    /// Judges the image of the locked leaf, decides what the operation does to the leaf, and does it to the image.
    fn decide(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        target: Target,
        scratch: &mut [u8],
    ) -> Result<Decision, DecodeError> {
        use OperationKind::{DeleteIf, Insert, UpdateIf, Upsert};
        let (mut arguments, image) = self.plan.arguments_and(target.image, scratch)?;
        let fence_check = node::judge(image, &self.leaf_wanted(target.address), arguments.key())?;
        if fence_check != FenceCheck::Here {
            return Ok(Decision::Elsewhere(fence_check));
        }
        let leaf = Leaf::new(&self.leaf, image);
        let found = leaf.find(arguments.key())?;
        self.seal_write(lane, &mut arguments);
        let Some(slot) = found else {
            if !matches!(kind, Insert | Upsert) {
                return Ok(Decision::Done { outcome: Outcome::Absent, change: None });
            }
            let Some(slot) = leaf.free_slot() else { return Ok(Decision::NoRoom) };
            LeafMut::new(&self.leaf, image).put(slot, arguments.key(), arguments.value());
            return Ok(Decision::Done { outcome: Outcome::Inserted, change: Some(Change { slot, emptied: false }) });
        };
        let differs = matches!(kind, UpdateIf | DeleteIf) && !leaf.value_is(slot, arguments.expected());
        if matches!(kind, Insert) || differs {
            leaf.read_value(slot, arguments.output());
        }
        let outcome = kind.outcome_of_present(differs);
        let change = match outcome {
            Outcome::Updated | Outcome::Replaced => {
                LeafMut::new(&self.leaf, image).set_value(slot, arguments.value());
                Some(Change { slot, emptied: false })
            }
            Outcome::Deleted => {
                let mut leaf = LeafMut::new(&self.leaf, image);
                leaf.clear(slot);
                Some(Change { slot, emptied: leaf.view().records() == 0 })
            }
            _ => None,
        };
        Ok(Decision::Done { outcome, change })
    }

    /// Pushes the WRITE of entry `slot` of the image, or, with that technique off, of the node.
    #[inline]
    fn push_write(&self, lane: &Lane<'_>, lock: LockId, leaf: Target, slot: usize) -> Result<(), OpError> {
        let Target { address, image, .. } = leaf;
        if self.tree.options.entry_writes {
            self.tree.push_in_place(lane, lock, Label::Entry, address, self.leaf.entry_range(slot), image)
        } else {
            lane.port().with(|scratch| raise_node_version(image.of_mut(scratch)));
            self.tree.push_in_place(lane, lock, Label::Node, address, 0..image.bytes, image)
        }
    }
}
