//! What is fixed when an index is created, and how the catalog keeps it.

use super::layout::{LeafShape, SPAN_MAX, SPAN_MIN};
use crate::btree::TreeScratch;
use crate::btree::inner::{InnerShape, SPAN_MAX as INNER_SPAN_MAX};
use crate::layout::record::{Le16, Le32, record};
use crate::operation::ScratchPlan;
use crate::registry::{KindParameters, ParameterError, check_limit, chosen_spans, stored_parameters};
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use static_assertions::const_assert_eq;

record! {
    /// The parameter block of a Sherman index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        leaf_span: Le16 = "entries per leaf, 2..=512",
        value_bytes: Le32 = "inline value, 8..=1024",
        inner_span: Le16 = "separators per inner node, 2..=1024",
        reserved_10: [u8; 2] = "zero",
        flags: Le32 = "options that change what is stored; none yet",
        reserved_16: [u8; 48] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// What is fixed when an index is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key slot, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// Entries per leaf, 2..=512.
    pub leaf_span: usize,
    /// Separators per inner node, 2..=1024.
    pub inner_span: usize,
}

impl Parameters {
    /// The paper's node size, in bytes.
    pub const NODE_BYTES: usize = 1024;
    /// Leaves of long entries grow until they hold this many.
    const LEAF_SPAN_FLOOR: usize = 16;

    /// Nodes of 1 KB, or as large as it takes for 16 entries.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        let leaf = LeafShape::with_bytes(key_bytes, value_bytes, Self::NODE_BYTES);
        let inner = InnerShape::with_bytes(key_bytes, 0, Self::NODE_BYTES);
        let leaf_span = if leaf.span < Self::LEAF_SPAN_FLOOR { Self::LEAF_SPAN_FLOOR } else { leaf.span };
        Self { key_bytes, value_bytes, leaf_span, inner_span: inner.span }
    }

    /// Shape of leaves.
    pub const fn leaf(&self) -> LeafShape {
        LeafShape::with_span(self.key_bytes, self.value_bytes, self.leaf_span)
    }

    /// Shape of inner nodes.
    pub const fn inner(&self) -> InnerShape {
        InnerShape::with_span(self.key_bytes, 0, self.inner_span)
    }
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Sherman;
    const LOCKS_IN_LEAVES: bool = false;
    const SCANS_DOWN: bool = true;

    type Scratch = TreeScratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes, leaf_span, inner_span }

    fn check_choices(&self) -> Result<(), ParameterError> {
        check_limit("entries per leaf", self.leaf_span, SPAN_MIN, SPAN_MAX)?;
        check_limit("separators per inner node", self.inner_span, 2, INNER_SPAN_MAX)
    }

    chosen_spans! {}

    fn node_bytes(&self) -> (usize, usize) {
        (self.leaf().bytes, self.inner().bytes)
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", {} entries a leaf, {} separators an inner node", self.leaf_span, self.inner_span)
    }

    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, TreeScratch) {
        let node_bytes = self.leaf().bytes.max(self.inner().bytes);
        TreeScratch::plan(self.key_bytes, self.value_bytes, node_bytes, page_records, leaves_at_once)
    }
}
