//! What is fixed when an index is created, how the catalog keeps it, and what a lane needs for it.

use super::layout::{ArrayShape, RECORDS_MAX};
use crate::layout::record::{Le16, Le32, record};
use crate::membership::redo::{HEADER_BYTES, LOOK_BYTES};
use crate::operation::ScratchPlan;
use crate::operation::span::Span;
use crate::registry::{KindParameters, ParameterError, check_limit, stored_parameters};
use crate::remote::SCRATCH_BYTES;
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use core::ops::Range;
use static_assertions::const_assert_eq;

record! {
    /// The parameter block of a toy index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        capacity: Le16 = "records, 1..=16383",
        value_bytes: Le32 = "inline value, 8..=1024",
        flags: Le32 = "options that change what is stored; none yet",
        reserved_12: [u8; 52] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// What is fixed when an index is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// Most records, 1..=16383.
    pub capacity: usize,
}

impl Parameters {
    /// Records of an index whose creator does not say how many.
    pub const CAPACITY: usize = 1024;

    /// Keys and values of these sizes.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        Self { key_bytes, value_bytes, capacity: Self::CAPACITY }
    }

    /// Shape of the arrays.
    pub const fn array(&self) -> ArrayShape {
        ArrayShape { key_bytes: self.key_bytes, value_bytes: self.value_bytes, capacity: self.capacity }
    }

    /// Bytes of the largest redo record that a lane can repeat. The index makes none; this is for those of other
    /// indexes, whose locks lie in the same tables: a node of theirs.
    pub const REDO_BYTES: usize = 1024;
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Toy;
    const LOCKS_IN_LEAVES: bool = false;

    type Scratch = Scratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes, capacity }

    fn check_choices(&self) -> Result<(), ParameterError> {
        check_limit("capacity", self.capacity, 1, RECORDS_MAX)
    }

    /// The array is its only leaf.
    fn leaf_span(&self) -> usize {
        self.capacity
    }

    fn set_leaf_span(&mut self, span: usize) -> bool {
        self.capacity = span;
        true
    }

    /// The root word leads to one leaf.
    fn inner_span(&self) -> usize {
        1
    }

    fn node_bytes(&self) -> (usize, usize) {
        (self.array().place_bytes(), 0)
    }

    fn redo_bytes(&self) -> usize {
        Self::REDO_BYTES
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", at most {} records", self.capacity)
    }

    fn plan(&self, page_records: usize, _: usize) -> (ScratchPlan, Scratch) {
        let array = self.array();
        let mut plan = ScratchPlan::new(self.key_bytes, self.value_bytes);
        let small = plan.take(SCRATCH_BYTES).start;
        let recovery = plan.take(LOOK_BYTES + HEADER_BYTES + Self::REDO_BYTES);
        plan.page = plan.take(page_records * array.record_bytes());
        let [image, load] = [(); 2].map(|()| Span::new(plan.take(array.bytes()).start, array.bytes()));
        (plan, Scratch { small, recovery, image, load })
    }
}

/// Scratch ranges of a lane, besides the operation's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// 512 bytes for the root word, lock words and parts of tables.
    pub small: usize,
    /// What recovery READs, and a redo record.
    pub recovery: Range<usize>,
    /// The array that was READ. Everything above lies before it.
    pub image: Span,
    /// The records of a bulk load.
    pub load: Span,
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_capacity_has_limits() {
        let none = Parameters { capacity: 0, ..Parameters::with_sizes(8, 8) };
        let said = std::string::ToString::to_string(&none.check().unwrap_err());
        assert_eq!(said, "capacity 0: the index takes 1 to 16383");
    }
}
