//! DEX as a subject, in builds that have it.

#![cfg(feature = "dex")]

use super::items::UnderItems;
use super::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::dex::parameters::Parameters;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: DexSubject = DexSubject;

/// DEX.
#[derive(Clone, Copy, Debug)]
pub struct DexSubject;

impl Subject for DexSubject {
    fn name(&self) -> &'static str {
        "dex"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        let &Shape { key_bytes, value_bytes, spans: (leaf_span, inner_span) } = shape;
        let few = Parameters { entries: 4, ..Parameters::with_sizes(8, 8) };
        Parameters { key_bytes, value_bytes, leaf_span, inner_span, ..few }.into()
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        // Its lanes share no operations: they share leaves.
        super::switches().into_iter().filter(|(name, _)| *name != super::SHARED_OPERATIONS).collect()
    }

    fn locks(&self, _: OperationKind) -> bool {
        false
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LEAF_SPLIT, Mark::MERGE])
    }

    fn waiting(&self) -> &'static [Mark] {
        &[]
    }
}

impl UnderItems for DexSubject {
    const WITH_ITEMS: &'static str = "items over dex";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LEAF_SPLIT, Mark::LAYER_MADE])
    }
}
