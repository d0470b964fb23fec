//! The toy as a subject, in builds that have it.

#![cfg(feature = "toy")]

use super::items::UnderItems;
use super::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::marks::Mark;
use dm_core::toy::parameters::Parameters;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: ToySubject = ToySubject;

/// The toy. For each entry that a leaf of others has, its array has room for 256 records of two words, or for 170 of
/// any others; in all, at most half a megabyte. So the smallest pools of the suite have a second chunk beside it.
#[derive(Clone, Copy, Debug)]
pub struct ToySubject;

impl ToySubject {
    fn parameters(shape: &Shape) -> Parameters {
        let &Shape { key_bytes, value_bytes, spans: (span, _) } = shape;
        let record_bytes = (key_bytes + value_bytes).max(1);
        let capacity = (4096 * span / record_bytes).max(170 * span).min((512 << 10) / record_bytes);
        Parameters { key_bytes, value_bytes, capacity }
    }
}

impl Subject for ToySubject {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        Self::parameters(shape).into()
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        // It has no nodes but one.
        shape.key_bytes + shape.value_bytes
    }

    fn chunk_bytes_min(&self, shape: &Shape) -> usize {
        // One chunk has it all.
        Self::parameters(shape).array().place_bytes()
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        // Its lanes share no operations.
        super::switches().into_iter().filter(|(name, _)| *name != super::SHARED_OPERATIONS).collect()
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        vec![(Shape::words(0, 4), "capacity 0"), (Shape::words(128, 4), "takes 1 to 16383")]
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // Nothing is split: the load has the array that all later records have.
        (0, 100)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[])
    }
}

impl UnderItems for ToySubject {
    const WITH_ITEMS: &'static str = "items over toy";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LAYER_MADE])
    }
}
