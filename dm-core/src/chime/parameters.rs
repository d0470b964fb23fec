//! What is fixed when an index is created, and how the catalog keeps it.

use super::layout::{LeafShape, NEIGHBORHOOD_MAX, NEIGHBORHOOD_MIN, SPAN_MAX, SPAN_MIN};
use crate::btree::TreeScratch;
use crate::btree::inner::{InnerShape, SPAN_MAX as INNER_SPAN_MAX};
use crate::layout::record::{Le16, Le32, record};
use crate::operation::ScratchPlan;
use crate::registry::{KindParameters, ParameterError, check_limit, chosen_spans, stored_parameters};
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use static_assertions::const_assert_eq;

record! {
    /// The parameter block of a CHIME index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        leaf_span: Le16 = "entries per leaf, 8..=512",
        value_bytes: Le32 = "inline value, 8..=1024",
        inner_span: Le16 = "separators per inner node, 2..=1024",
        neighborhood: u8 = "entries of a neighborhood, 2..=16",
        hash: u8 = "what places keys: 1 = CityHash64 of version 1.1",
        flags: Le32 = "options that change what is stored; none yet",
        reserved_16: [u8; 48] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// Memory nodes are at most this large, in bytes: lanes that queue for a leaf name it by 32 bits of its line's number,
/// and a lock is handed over to a lane that names the same.
pub const REGION_BYTES_MAX: u64 = 1 << 38;

/// The only hash so far.
const CITY_HASH: u8 = 1;

/// Bytes of an inner node's next pointer.
const NEXT_BYTES: usize = 8;

/// What is fixed when an index is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key slot, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// Entries per leaf, 8..=512.
    pub leaf_span: usize,
    /// Entries of a neighborhood, 2..=16 and at most the span.
    pub neighborhood: usize,
    /// Separators per inner node, 2..=1024.
    pub inner_span: usize,
}

impl Parameters {
    /// The paper's spans of leaves and inner nodes (section 5.1).
    pub(crate) const SPAN: usize = 64;
    /// The paper's neighborhoods.
    pub const NEIGHBORHOOD: usize = 8;

    /// The paper's spans.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        Self { key_bytes, value_bytes, leaf_span: Self::SPAN, neighborhood: Self::NEIGHBORHOOD, inner_span: Self::SPAN }
    }

    /// Shape of leaves.
    pub const fn leaf(&self) -> LeafShape {
        LeafShape::new(self.key_bytes, self.value_bytes, self.leaf_span, self.neighborhood)
    }

    /// Shape of inner nodes.
    pub const fn inner(&self) -> InnerShape {
        InnerShape::with_span(self.key_bytes, NEXT_BYTES, self.inner_span)
    }
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Chime;
    const LOCKS_IN_LEAVES: bool = true;
    const SCANS_DOWN: bool = true;

    type Scratch = TreeScratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes, leaf_span, neighborhood, inner_span;
        encode |_, block| { block.hash = CITY_HASH; }
        parse |_| {}
    }

    fn check_choices(&self) -> Result<(), ParameterError> {
        check_limit("entries per leaf", self.leaf_span, SPAN_MIN, SPAN_MAX)?;
        let most = NEIGHBORHOOD_MAX.min(self.leaf_span);
        check_limit("entries of a neighborhood", self.neighborhood, NEIGHBORHOOD_MIN, most)?;
        check_limit("separators per inner node", self.inner_span, 2, INNER_SPAN_MAX)
    }

    chosen_spans! {}

    fn node_bytes(&self) -> (usize, usize) {
        (self.leaf().place_bytes(), self.inner().bytes)
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leaf_span, neighborhood, inner_span, .. } = self;
        write!(
            f,
            ", {leaf_span} entries a leaf in neighborhoods of {neighborhood}, {inner_span} separators an inner node"
        )
    }

    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, TreeScratch) {
        // The walk READs a leaf with its lock word.
        let node_bytes = self.leaf().place_bytes().max(self.inner().bytes);
        TreeScratch::plan(self.key_bytes, self.value_bytes, node_bytes, page_records, leaves_at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Parameters = Parameters::with_sizes(8, 8);

    #[test]
    fn what_is_stored_is_read_back() {
        let parameters = Parameters { neighborhood: 16, leaf_span: 512, inner_span: 61, ..PAPER };
        assert_eq!(Parameters::decode(1, &parameters.encode()), Ok(parameters));
    }

    #[test]
    fn limits_are_said() {
        let say = |parameters: Parameters| std::string::ToString::to_string(&parameters.check().unwrap_err());
        extern crate std;
        assert_eq!(say(Parameters { leaf_span: 7, ..PAPER }), "entries per leaf 7: the index takes 8 to 512");
        assert_eq!(
            say(Parameters { leaf_span: 8, neighborhood: 9, ..PAPER }),
            "entries of a neighborhood 9: the index takes 2 to 8"
        );
        assert_eq!(say(Parameters { value_bytes: 1025, ..PAPER }), "value bytes 1025: the index takes 8 to 1024");
    }

    #[test]
    fn blocks_of_others_are_refused() {
        assert_eq!(Parameters::decode(2, &PAPER.encode()), Err(ParameterError::Version { found: 2, supported: 1 }));
        let mut other = PAPER.encode();
        other[11] = 2;
        assert_eq!(Parameters::decode(1, &other), Err(ParameterError::Unknown));
        let mut other = PAPER.encode();
        other[40] = 1;
        assert_eq!(Parameters::decode(1, &other), Err(ParameterError::Unknown));
    }
}
