//! Dolphin as a subject, in builds that have it.

#![cfg(feature = "dolphin")]

use super::items::UnderItems;
use super::{Shape, Subject};
use dm_core::dolphin::parameters::Parameters;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: DolphinSubject = DolphinSubject;

/// Dolphin. Its nodes have the sizes they have.
#[derive(Clone, Copy, Debug)]
pub struct DolphinSubject;

impl DolphinSubject {
    const fn parameters(shape: &Shape) -> Parameters {
        Parameters::with_sizes(shape.key_bytes, shape.value_bytes)
    }
}

impl Subject for DolphinSubject {
    fn name(&self) -> &'static str {
        "dolphin"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        Self::parameters(shape).into()
    }

    fn node_bytes_max(&self, _: &Shape) -> usize {
        // The largest node fits twice this; a leaf does.
        1040
    }

    fn reuses_for_any_key(&self) -> bool {
        false
    }

    fn locks(&self, kind: OperationKind) -> bool {
        !matches!(kind, OperationKind::Get)
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        Vec::new()
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // Leaves are cut where keys differ.
        (50, 100)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::REVIVED])
    }
}

impl UnderItems for DolphinSubject {
    const WITH_ITEMS: &'static str = "items over dolphin";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::REVIVED, Mark::LAYER_MADE])
    }
}
