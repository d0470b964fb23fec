//! DEX as a subject.

use super::items::UnderItems;
use super::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::dex::log::append::PARK_NS_MAX;
use dm_core::dex::log::ring::RING_CHUNKS;
use dm_core::dex::parameters::Parameters;
use dm_core::layout::LINE_BYTES;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_host::assembly::Spending;
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
        let few = Parameters { entries: 4, spare: 0, ..Parameters::with_sizes(8, 8) };
        Parameters { key_bytes, value_bytes, leaf_span, inner_span, ..few }.into()
    }

    fn chunks_besides_nodes(&self, spending: &Spending, chunk_bytes: usize) -> usize {
        let table = 1;
        // As many lines as asked for behind a header, or as many as a ring can have.
        table + ((spending.log_lines + 2) * LINE_BYTES).div_ceil(chunk_bytes).min(RING_CHUNKS)
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        // Its lanes share no operations: they share leaves.
        super::switches().into_iter().filter(|(name, _)| *name != super::SHARED_OPERATIONS).collect()
    }

    fn locks(&self, _: OperationKind) -> bool {
        false
    }

    fn answers_from_memory(&self) -> bool {
        true
    }

    fn sleep_ns_max(&self) -> u64 {
        PARK_NS_MAX
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
