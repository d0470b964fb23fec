//! The insert of the paper: beside other writers, with a CAS that claims a key cell. A switch, off by default.
//!
//! ```text
//! FAA enter + READ leaf; CAS key cell; WRITE value cell + FAA leave
//! ```
//!
//! Only for keys and values of a word. The exclusive insert of [`super::write`] takes two round trips, this one three;
//! but inserts of one leaf, and updates beside them, do not wait for each other.
//!
//! **A key is bound once.** A lane claims the first cell that its image shows free. If the CAS finds another key there,
//! the lane goes on with the next cell. So a cell is claimed only when all cells in front of it were seen bound, to other
//! keys: of two lanes that insert one key the slower one meets the key of the faster one.
//!
//! **Who bound the key writes the value**, and nobody else: a lane that meets its key bound, without a record, leaves and
//! takes the leaf for itself. Updates beside leave the cell of an absent record alone, and deletes are exclusive. So the
//! WRITE of the value, which is the linearization point, meets no other request to its word. A CAS of the value
//! would let both lanes go on, but one that fails may write the old value back over an update that landed in between,
//! unless the fabric grants FAILED_CAS_IS_SILENT.
//!
//! The paper's program WRITEs the value behind a claimed key without having seen whether the claim succeeded, so a
//! reader may see a key with the value of another one.
//!
//! A lane that dies between the two leaves a bound key without a record, as one does that dies in an exclusive insert.

use super::Dolphin;
use super::layout::leaf::{Leaf, place_of};
use super::layout::shape::ValueKind;
use super::presence::Inside;
use super::search::Fit;
use super::write::Attempted;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::Outcome;
use crate::radix::tree::corrupt;
use crate::remote::address::Address;
use crate::verbs::{Label, Request};

impl Dolphin<'_> {
    /// Whether inserts may be shared: cells are words.
    pub(super) fn claims_cells(&self) -> bool {
        self.options.shared_inserts && self.shape.key_bytes == 8 && self.shape.kind == ValueKind::Word
    }

    /// What a lane that is inside with others does: the insert of a record. `None`: it has left, and needs the leaf for
    /// itself.
    pub(super) async fn insert_shared(&self, lane: &Lane<'_>, inside: Inside) -> Result<Option<Attempted>, Interrupt> {
        let leaf = inside.leaf;
        let seen = self.fit(lane, leaf, &self.plan.key).and_then(|fit| match fit {
            Fit::Live => self.record_or_free(lane, leaf).map(Some),
            _ => Ok(None),
        });
        let cell = match seen {
            // The leaf is to be cut for this key.
            Ok(Some(Err(_))) if self.splits_early(lane, leaf) => None,
            Ok(Some(Ok((_, false)))) => None,
            Ok(Some(Err(free))) => self.claim(lane, leaf, free).await?,
            seen => {
                let output = if let Ok(Some(_)) = seen { self.output(lane, leaf).await.map(|_| ()) } else { Ok(()) };
                self.leave(lane, inside).await?;
                output?;
                return Ok(Some(if seen?.is_some() {
                    Attempted::Done(Outcome::Exists)
                } else {
                    lane.mark(Mark::STALE_CACHE);
                    Attempted::AGAIN
                }));
            }
        };
        // The claim may have taken long.
        self.check_lease_inside(lane, inside).await?;
        self.seal(lane);
        let Some(value) = cell.and_then(|cell| self.put(lane, cell)) else {
            // Another lane has bound the key, no cell is free, or the value is the leaf's word for "absent".
            self.leave(lane, inside).await?;
            return Ok(None);
        };
        lane.change_is_next();
        self.push_cell(lane, leaf, value);
        self.leave_with(lane, inside).await?;
        Ok(Some(Attempted::Done(Outcome::Inserted)))
    }

    /// Binds the first free cell from `free` on to the operation's key. `None`: another lane has bound one to it, or all
    /// cells are bound to other keys.
    async fn claim(&self, lane: &Lane<'_>, leaf: Address, free: usize) -> Result<Option<usize>, Interrupt> {
        for cell in free..self.shape.span {
            let Some((unbound, key)) = lane.port().with(|scratch| {
                let key = scratch.get(self.plan.key.clone())?.first_chunk().copied()?;
                let image = self.tree.scratch.leaf(0).of(scratch);
                let leaf = Leaf::new(&self.shape, image, leaf, self.tree.index).ok()?;
                Some((leaf.unbound_word(), u64::from_le_bytes(key)))
            }) else {
                return Err(corrupt(place_of(leaf), "the bounds of a leaf").into());
            };
            let offset = leaf.offset() + self.shape.key_at(cell) as u64;
            let cas = Request::cas(Label::Entry, leaf.node(), offset, unbound, key);
            let found = lane.port().call(cas).await?.value;
            if found == unbound || planted(Mutant::CLAIM_UNJUDGED) {
                return Ok(Some(cell));
            }
            lane.mark(Mark::SLOT_LOST);
            if found == key {
                return Ok(planted(Mutant::CLAIM_OF_ANOTHER).then_some(cell));
            }
        }
        Ok(None)
    }
}
