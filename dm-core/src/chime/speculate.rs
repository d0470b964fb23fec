//! Speculative READs: of one entry, where the hotspot buffer says that the key is (CHIME section 4.3.2). See
//! [`chime_entries`](crate::manual::chime_entries) for why one entry can be enough.

use super::Chime;
use super::layout::{Leaf, LeafMut, Touched};
use super::write::{Change, Decision};
use crate::btree::descent::DescentCursor;
use crate::btree::leaves::{Leaves, key_of};
use crate::lane::Lane;
use crate::locks::protocol::Held;
use crate::marks::Mark;
use crate::operation::{OpError, OperationKind};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::Label;

/// A key's hash, and what follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashed {
    pub hash: u64,
    pub home: usize,
}

impl Chime<'_> {
    /// Hash and home of the operation's key.
    pub(super) fn hashed(&self, lane: &Lane<'_>) -> Hashed {
        lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            let hash = self.leaf.hash(key_of(scratch, &self.plan.key, &mut room));
            Hashed { hash, home: self.leaf.home_of_hash(hash) }
        })
    }

    /// The entry of `leaf` in which the key probably is.
    pub(super) fn guess(&self, lane: &Lane<'_>, leaf: Address, hashed: Hashed) -> Option<usize> {
        if !self.hotspot.is_on() {
            return None;
        }
        let near = |slot: &usize| self.leaf.distance(hashed.home, *slot) < self.leaf.neighborhood;
        let guess = self.hotspot.recall(hashed.hash, leaf).filter(|&slot| slot < self.leaf.span).filter(near);
        if guess.is_none() {
            lane.mark(Mark::UNGUESSED);
        }
        guess
    }

    /// Notes where the key was found, or that it was not.
    pub(super) fn note(&self, leaf: Address, hashed: Hashed, slot: Option<usize>) {
        if !self.hotspot.is_on() {
            return;
        }
        match slot {
            Some(slot) => self.hotspot.note(hashed.hash, leaf, slot),
            None => self.hotspot.forget(hashed.hash, leaf),
        }
    }

    /// Pushes the READ of one entry of a leaf, to its place in node image 0. Returns its position.
    pub(super) fn push_entry(&self, lane: &Lane<'_>, leaf: Address, slot: usize, locked: bool) -> usize {
        let range = self.leaf.write_range(&(slot..slot + 1));
        let request = self.leaf_target(leaf, 0).part_request(Label::Entry, &range);
        lane.mark(Mark::SPECULATED);
        lane.port().push(if locked { request.untimed() } else { request })
    }

    /// READs entry `slot` of the leaf and takes the key's value from it. `false`: the key is not there, from which
    /// nothing follows. Linearizes within the READ.
    pub(super) async fn get_entry(
        &self,
        lane: &Lane<'_>,
        cursor: &DescentCursor,
        slot: usize,
    ) -> Result<bool, OpError> {
        let port = lane.port();
        // A member that joins from here on must not be told what this READ samples.
        self.tree.batches.seal(lane, |_| ());
        let position = self.push_entry(lane, cursor.address, slot, false);
        port.submit().await?;
        let slow = self.tree.exposed_too_long(port.completion(position).elapsed_ns);
        let found = !slow
            && port.with(|scratch| {
                let image = self.tree.leaf_image(0);
                let Ok((mut arguments, image)) = self.plan.arguments_and(image, scratch) else { return false };
                let leaf = Leaf::new(&self.leaf, image);
                let found = leaf.holds(slot, cursor.address.generation(), arguments.key());
                if found {
                    leaf.read_value(slot, arguments.output());
                }
                found
            });
        if !found {
            lane.mark(if slow { Mark::GUARD_REFUSAL } else { Mark::GUESSED_WRONG });
        }
        Ok(found)
    }

    /// Whether an operation that finds its key needs no more of the leaf than the key's entry.
    pub(super) const fn needs_one_entry(kind: OperationKind) -> bool {
        matches!(kind, OperationKind::Update | OperationKind::UpdateIf | OperationKind::Upsert)
    }

    /// READs entry `slot` of the locked leaf, unless `early`: then it was READ in the chain of the lock's CAS. If the
    /// key is there, changes its value in the image.
    pub(super) async fn change_entry(
        &self,
        lane: &Lane<'_>,
        held: &Held,
        (slot, early): (usize, bool),
        kind: OperationKind,
    ) -> Result<Option<Decision>, OpError> {
        let port = lane.port();
        if !early {
            self.push_entry(lane, held.protects, slot, true);
            port.submit().await?;
        }
        let decision = port.with(|scratch| {
            let (mut arguments, image) = self.plan.arguments_and(self.tree.leaf_image(0), scratch).ok()?;
            let leaf = Leaf::new(&self.leaf, image);
            if !leaf.holds(slot, held.protects.generation(), arguments.key()) {
                return None;
            }
            self.seal_write(lane, &mut arguments);
            let differs = kind == OperationKind::UpdateIf && !leaf.value_is(slot, arguments.expected());
            let outcome = kind.outcome_of_present(differs);
            let mut change = Change::Entries { first: slot, count: 1 };
            if differs {
                leaf.read_value(slot, arguments.output());
                change = Change::Nothing;
            } else {
                let mut leaf = LeafMut::new(&self.leaf, image);
                leaf.set_value(slot, arguments.value());
                let mut touched = Touched::default();
                touched.add(slot);
                leaf.raise(&touched);
            }
            Some(Decision { outcome, change, vacancy: held.free, emptied: false, slot: None })
        });
        if decision.is_none() {
            lane.mark(Mark::GUESSED_WRONG);
        }
        Ok(decision)
    }
}
