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
use crate::btree::leaves::{Leaves, judge_leaf, key_of, slice_mut};
use crate::btree::link::raise_node_version;
use crate::btree::merge::Merge;
use crate::btree::node::{FenceCheck, KEY_BYTES_MAX};
use crate::btree::read::Torn;
use crate::btree::router::Router;
use crate::btree::{MOVES_MAX, Tree};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks, acquire, release_with};
use crate::marks::Mark;
use crate::operation::{OpError, OperationKind, Outcome, unknown};
use crate::remote::address::Address;
use crate::verbs::Label;

/// What a look at the locked leaf decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Nothing to write.
    Unchanged(Outcome),
    /// Entry `slot` of the image was changed.
    Changed { outcome: Outcome, slot: usize, emptied: bool },
    /// A record has to go in and there is no slot.
    NoRoom,
}

/// How an attempt at one leaf ended.
enum Attempt {
    /// `emptied`: the leaf, if that was its last record.
    Done { outcome: Outcome, emptied: Option<Address> },
    /// The leaf, which is locked and has been READ, has to split, and the lane has the nodes for that.
    Full(Held, Address),
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
            let route = if cached { self.tree.route(lane, &self.plan.key) } else { None };
            let mut cursor = match route {
                Some(cursor) => cursor,
                None => match self.tree.locate(lane, &self.plan.key, cached).await? {
                    Some(cursor) => cursor,
                    None if !inserts => return Ok(Outcome::Absent),
                    None => {
                        self.plant(lane).await?;
                        lane.attempt(&mut attempts, "planting the first leaf")?;
                        continue;
                    }
                },
            };
            if inserts {
                self.tree.prepare_to_split(lane, cursor.address.node());
            }
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
                Attempt::Full(held, leaf) => {
                    self.split_and_insert(lane, held, leaf).await?;
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
                    self.tree.forget(&cursor);
                    self.tree.forget_root();
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
        let at = self.tree.scratch.node(0);
        for _ in 0..MOVES_MAX {
            let address = cursor.address;
            let target = self.leaf_target(address, at);
            let wanted = self.leaf_wanted(address);
            let look = |scratch: &mut [u8]| {
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(scratch, &self.plan.key, &mut room);
                let Some((front, nodes)) = scratch.split_at_mut_checked(self.tree.scratch.nodes) else {
                    return Err(DecodeError::Corrupt("scratch shorter than planned"));
                };
                let image = slice_mut(nodes, at - self.tree.scratch.nodes, self.leaf.bytes);
                match judge_leaf(image, &wanted, key, |_| Ok(()))? {
                    Err(elsewhere) => Ok(Err(elsewhere)),
                    Ok(()) => self.decide(lane, kind, key, front, image).map(Ok),
                }
            };
            let follow = self.tree.options.chain_lock_read.then(|| target.request_locked());
            let (held, is_read) = acquire!(&self.tree, lane, address, follow);
            let read = if is_read {
                Ok(())
            } else {
                lane.port().push(target.request_locked());
                lane.port().submit().await
            };
            let seen = match read {
                Ok(()) => match Tree::look_locked(lane, target, look) {
                    Ok(Ok(seen)) => Ok(seen),
                    Ok(Err(Torn)) => self.tree.read_locked_again(lane, target, look).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error.into()),
            };
            let seen = match seen {
                Ok(seen) => seen,
                Err(error) => {
                    self.tree.release(lane, held).await?;
                    return Err(error.into());
                }
            };
            match seen {
                Some(Ok(Decision::Unchanged(outcome))) => {
                    self.tree.release(lane, held).await?;
                    return Ok(Attempt::Done { outcome, emptied: None });
                }
                Some(Ok(Decision::Changed { outcome, slot, emptied })) => {
                    lane.change_is_next();
                    self.push_write(lane, held, address, at, slot)?;
                    release_with!(&self.tree, lane, held);
                    return Ok(Attempt::Done { outcome, emptied: emptied.then_some(address) });
                }
                Some(Ok(Decision::NoRoom)) if !self.tree.ready_to_split(lane) => {
                    self.tree.release(lane, held).await?;
                    return Ok(Attempt::Short);
                }
                Some(Ok(Decision::NoRoom)) => return Ok(Attempt::Full(held, address)),
                Some(Err(fence_check)) => {
                    self.tree.release(lane, held).await?;
                    if fence_check == FenceCheck::Here {
                        return Ok(Attempt::Lost);
                    }
                    let from = cursor.from;
                    self.tree.learn(lane, cursor, fence_check, at);
                    if cursor.is_sent_back_too_often() {
                        self.mend_forwarding(lane, from, address).await?;
                    }
                }
                None => {
                    self.tree.release(lane, held).await?;
                    return Ok(Attempt::Lost);
                }
            }
        }
        Ok(Attempt::Lost)
    }

    /// Decides what the operation does to the locked leaf, and does it to the image.
    fn decide(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        key: &[u8],
        front: &mut [u8],
        image: &mut [u8],
    ) -> Result<Decision, DecodeError> {
        use OperationKind::{DeleteIf, Insert, UpdateIf, Upsert};
        let leaf = Leaf::new(&self.leaf, image);
        let found = leaf.find(key)?;
        self.seal_write(lane, front);
        let Some(slot) = found else {
            if !matches!(kind, Insert | Upsert) {
                return Ok(Decision::Unchanged(Outcome::Absent));
            }
            let Some(slot) = leaf.free_slot() else { return Ok(Decision::NoRoom) };
            let value = front.get(self.plan.value.clone()).unwrap_or_default();
            LeafMut::new(&self.leaf, image).put(slot, key, value);
            return Ok(Decision::Changed { outcome: Outcome::Inserted, slot, emptied: false });
        };
        let differs = matches!(kind, UpdateIf | DeleteIf)
            && !leaf.value_is(slot, front.get(self.plan.expected.clone()).unwrap_or_default());
        if matches!(kind, Insert) || differs {
            leaf.read_value(slot, front.get_mut(self.plan.output.clone()).unwrap_or_default());
        }
        let outcome = kind.outcome_of_present(differs);
        match outcome {
            Outcome::Updated | Outcome::Replaced => {
                let value = front.get(self.plan.value.clone()).unwrap_or_default();
                LeafMut::new(&self.leaf, image).set_value(slot, value);
                Ok(Decision::Changed { outcome, slot, emptied: false })
            }
            Outcome::Deleted => {
                let mut leaf = LeafMut::new(&self.leaf, image);
                leaf.clear(slot);
                let emptied = leaf.view().records() == 0;
                Ok(Decision::Changed { outcome, slot, emptied })
            }
            outcome => Ok(Decision::Unchanged(outcome)),
        }
    }

    /// Pushes the WRITE of entry `slot` of the image at `at`, or, with that technique off, of the node.
    #[inline]
    fn push_write(&self, lane: &Lane<'_>, held: Held, address: Address, at: usize, slot: usize) -> Result<(), OpError> {
        if self.tree.options.entry_writes {
            self.tree.push_in_place(lane, held.lock, Label::Entry, address, self.leaf.entry_range(slot), at)
        } else {
            lane.port().with(|scratch| raise_node_version(slice_mut(scratch, at, self.leaf.bytes)));
            self.tree.push_in_place(lane, held.lock, Label::Node, address, 0..self.leaf.bytes, at)
        }
    }
}
