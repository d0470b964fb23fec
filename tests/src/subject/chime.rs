//! CHIME as a subject.

use super::items::UnderItems;
use super::{Shape, Subject, root_word};
use crate::fabric::{AnyFabric, peek, poke};
use dm_core::btree::inner::Inner;
use dm_core::btree::node::Header;
use dm_core::chime::layout::SPAN_MIN;
use dm_core::chime::parameters::Parameters;
use dm_core::marks::Mark;
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::verbs::Space;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: ChimeSubject = ChimeSubject;

/// CHIME. Its leaves have eight entries at least: smaller spans become eight, with neighborhoods so short that leaves
/// split when they have a few records.
#[derive(Clone, Copy, Debug)]
pub struct ChimeSubject;

impl ChimeSubject {
    fn parameters(shape: &Shape) -> Parameters {
        let (leaf_span, inner_span) = shape.spans;
        Parameters {
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            // One is to be refused.
            leaf_span: if leaf_span > 1 { leaf_span.max(SPAN_MIN) } else { leaf_span },
            neighborhood: leaf_span.clamp(2, Parameters::NEIGHBORHOOD),
            inner_span,
        }
    }
}

impl Subject for ChimeSubject {
    fn name(&self) -> &'static str {
        "chime"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        Self::parameters(shape).into()
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // A bulk load closes a small leaf when a key finds no place in it, or when seven of eight entries are used.
        (60, 88)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        // Leaves have more entries than there are keys here: they split, and purge deleted entries.
        (14, &[Mark::LEAF_SPLIT, Mark::PURGE])
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let parameters = Self::parameters(shape);
        let (leaf, inner) = (parameters.leaf(), parameters.inner());
        let held_word = LockWord::new(RowId(99), 7).and_then(LockWord::in_node).expect("a small sequence");
        let word = if held { held_word.0 } else { 0 };
        let read =
            |fabric: &mut AnyFabric, at: Address, bytes| peek(fabric, Space::Host, at.node(), at.offset(), bytes);
        let mut address = Address::from_bits(root_word(fabric, geometry));
        // Down the left edge, then along the leaves.
        while Header::read(&read(fabric, address, 64)).level > 0 {
            let image = read(fabric, address, inner.bytes);
            address = Inner::new(&inner, &image).expect("a sound inner node").child(0);
        }
        while !address.is_null() {
            let offset = address.offset() + leaf.bytes as u64;
            poke(fabric, Space::Host, address.node(), offset, &word.to_le_bytes());
            address = Header::read(&read(fabric, address, leaf.bytes)).sibling;
        }
    }
}

impl UnderItems for ChimeSubject {
    const WITH_ITEMS: &'static str = "items over chime";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (14, &[Mark::LEAF_SPLIT, Mark::LAYER_MADE])
    }
}
