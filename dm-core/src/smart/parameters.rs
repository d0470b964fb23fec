//! What is fixed when an index is created, how the catalog keeps it, and what a lane needs for it.

use super::layout::LeafShape;
use crate::layout::record::{Le16, Le32, record};
use crate::membership::redo::{HEADER_BYTES, LOOK_BYTES};
use crate::operation::ScratchPlan;
use crate::radix::slot::{NODE_BYTES_MAX, NodeType};
use crate::radix::tree::{BUILD_BYTES, LEAVES_AT_ONCE_MAX, NODE_IMAGES, PATH_BYTES, Scratch};
use crate::registry::{KindParameters, ParameterError, Stored, stored_parameters};
use crate::remote::SCRATCH_BYTES;
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use static_assertions::const_assert_eq;

record! {
    /// The parameter block of a SMART index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        node_slots: Le16 = "slots of a new inner node, 8 or 16; 0 = 4",
        value_bytes: Le32 = "inline value, 8..=1024",
        flags: Le32 = "options that change what is stored; none yet",
        reserved_12: [u8; 52] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// Memory nodes are at most this large, in bytes: lanes that queue for a leaf name it by 32 bits of its unit's number,
/// and a lock is handed over to a lane that names the same.
pub const REGION_BYTES_MAX: u64 = 1 << 36;

/// What is fixed when an index is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// Slots of a new inner node: 4, 8 or 16. Those that it does not need yet are its reserve: as long as there are some, it
    /// takes more children where it is, without a replacement. With 8 or 16, nodes of a bulk load have one, too: at least a
    /// quarter of the slots is free, except in nodes of the largest type.
    pub node_slots: usize,
}

impl Parameters {
    /// Keys and values of these sizes.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        Self { key_bytes, value_bytes, node_slots: NodeType::SMALLEST.slots() }
    }

    /// The type of a new inner node. `None`: there is none with so many slots.
    pub(crate) fn fresh(&self) -> Option<NodeType> {
        let types = core::iter::successors(Some(NodeType::SMALLEST), |kind| kind.next());
        types.take_while(|kind| *kind <= NodeType::FRESH_MAX).find(|kind| kind.slots() == self.node_slots)
    }

    /// Shape of leaves.
    pub const fn leaf(&self) -> LeafShape {
        LeafShape::new(self.key_bytes, self.value_bytes)
    }
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Smart;
    const LOCKS_IN_LEAVES: bool = true;
    const RECORDS_HAVE_CHECKSUMS: bool = true;

    type Scratch = Scratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes;
        encode |parameters, block| {
            let slots = if parameters.node_slots == NodeType::SMALLEST.slots() { 0 } else { parameters.node_slots };
            block.node_slots = Stored::of(slots);
        }
        parse |block| {
            node_slots: match Stored::number(block.node_slots) {
                0 => NodeType::SMALLEST.slots(),
                slots => slots,
            }
        }
    }

    fn check_choices(&self) -> Result<(), ParameterError> {
        let what = "slots of a new inner node";
        let unknown = ParameterError::Choice { what, found: self.node_slots, choices: "4, 8 or 16" };
        self.fresh().map(|_| ()).ok_or(unknown)
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.node_slots == NodeType::SMALLEST.slots() {
            Ok(())
        } else {
            write!(f, ", new nodes of {} slots", self.node_slots)
        }
    }

    fn leaf_span(&self) -> usize {
        // A leaf is a record.
        1
    }

    fn inner_span(&self) -> usize {
        NodeType::LARGEST.slots()
    }

    fn node_bytes(&self) -> (usize, usize) {
        (self.leaf().place_bytes, NODE_BYTES_MAX)
    }

    fn redo_bytes(&self) -> usize {
        self.leaf().write_bytes()
    }

    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, Scratch) {
        let leaf = self.leaf();
        let mut plan = ScratchPlan::new(self.key_bytes, self.value_bytes);
        let last = plan.take(self.key_bytes);
        let small = plan.take(SCRATCH_BYTES).start;
        let leaves_at_once = leaves_at_once.saturating_mul(LEAVES_FOR_ONE).clamp(1, LEAVES_AT_ONCE_MAX);
        let recovery = plan.take(LOOK_BYTES + HEADER_BYTES + leaf.write_bytes());
        let fresh_leaf_at = plan.take(leaf.place_bytes).start;
        // Before leaf image 0, the header of its redo record.
        plan.take(HEADER_BYTES);
        let leaves_at = plan.take(leaf.place_bytes * leaves_at_once).start;
        let build_at = plan.take(BUILD_BYTES).start;
        let path_at = plan.take(PATH_BYTES * self.key_bytes).start;
        let nodes_at = plan.take(NODE_BYTES_MAX * NODE_IMAGES).start;
        plan.page = plan.take(page_records * (self.key_bytes + self.value_bytes));
        let leaf_stride = leaf.place_bytes;
        let scratch = Scratch {
            last,
            small,
            recovery,
            fresh_leaf_at,
            leaves_at,
            leaf_stride,
            leaves_at_once,
            build_at,
            path_at,
            nodes_at,
        };
        (plan, scratch)
    }
}

/// Leaves that a scan READs at once where a B+-tree's scan READs one: they have one record each.
const LEAVES_FOR_ONE: usize = 4;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        let parameters = Parameters { node_slots: 16, ..Parameters::with_sizes(32, 1024) };
        assert_eq!(Parameters::decode(1, &parameters.encode()), Ok(parameters));
        let mut other = parameters.encode();
        other[20] = 1;
        assert_eq!(Parameters::decode(1, &other), Err(ParameterError::Unknown));
        assert_eq!(
            Parameters::decode(2, &parameters.encode()),
            Err(ParameterError::Version { found: 2, supported: 1 })
        );
    }

    #[test]
    fn limits_are_said() {
        let say = |parameters: Parameters| std::string::ToString::to_string(&parameters.check().unwrap_err());
        assert_eq!(say(Parameters::with_sizes(7, 8)), "key bytes 7: the index takes 8 to 64");
        assert_eq!(say(Parameters::with_sizes(8, 1025)), "value bytes 1025: the index takes 8 to 1024");
        for node_slots in [0, 5, 32] {
            let odd = Parameters { node_slots, ..Parameters::with_sizes(8, 8) };
            assert_eq!(say(odd), std::format!("slots of a new inner node {node_slots}: the index takes 4, 8 or 16"));
        }
    }
}
