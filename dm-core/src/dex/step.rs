//! What an operation does to a leaf that covers its key: one step. A lane of the owner plans it and makes it, or a memory node's
//! processor does for the lane ([`super::offload`]). Nothing else changes the leaf meanwhile.

use super::leaf::{self, Leaf, LeafMut, LeafShape};
use crate::layout::stripes::{Bytes, BytesMut};
use crate::operation::{OperationKind, Outcome};
use crate::pages::lsn::Lsn;

/// What a change of a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The leaf stays as it is.
    Nothing,
    /// A record goes into this slot.
    Put(usize),
    /// The record in this slot gets the new value.
    SetValue(usize),
    /// The record in this slot goes.
    Clear(usize),
    /// A record has to go in and there is no slot.
    NoRoom,
}

/// What an operation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// How it ends.
    pub outcome: Outcome,
    /// What it does.
    pub step: Step,
    /// The slot whose value, as it is now, is a part of the answer.
    pub shows: Option<usize>,
}

/// What an operation other than a get and a scan does. `expected` is looked at by `update_if` and `delete_if`.
#[inline]
pub fn plan<B: Bytes>(leaf: &Leaf<'_, B>, kind: OperationKind, key: &[u8], expected: &[u8]) -> Planned {
    use OperationKind::{DeleteIf, Insert, UpdateIf, Upsert};
    let Some(slot) = leaf.scan_for(key) else {
        let (outcome, step) = match leaf.free_slot() {
            _ if !matches!(kind, Insert | Upsert) => (Outcome::Absent, Step::Nothing),
            Some(slot) => (Outcome::Inserted, Step::Put(slot)),
            None => (Outcome::Inserted, Step::NoRoom),
        };
        return Planned { outcome, step, shows: None };
    };
    let differs = matches!(kind, UpdateIf | DeleteIf) && !leaf.value_is(slot, expected);
    let outcome = kind.outcome_of_present(differs);
    let step = match outcome {
        Outcome::Updated | Outcome::Replaced => Step::SetValue(slot),
        Outcome::Deleted => Step::Clear(slot),
        _ => Step::Nothing,
    };
    Planned { outcome, step, shows: (matches!(kind, Insert) || differs).then_some(slot) }
}

/// Makes the step in the leaf in `image`, and stamps it.
#[inline]
pub fn make<B: BytesMut + ?Sized>(
    shape: &LeafShape,
    image: &mut B,
    step: Step,
    (key, value): (&[u8], &[u8]),
    lsn: Lsn,
) {
    let mut leaf = LeafMut::over(shape, image);
    match step {
        Step::Put(slot) => leaf.put(slot, key, value),
        Step::SetValue(slot) => leaf.set_value(slot, value),
        Step::Clear(slot) => leaf.clear(slot),
        Step::Nothing | Step::NoRoom => {}
    }
    leaf::stamp(shape, image, lsn);
}
