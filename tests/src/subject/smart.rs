//! SMART as a subject.

use super::items::UnderItems;
use super::{Shape, Subject, root_word};
use crate::fabric::{AnyFabric, peek, poke};
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::radix::slot::{Child, Node, NodeType, Place, Slot};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::smart::parameters::Parameters;
use dm_core::verbs::Space;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: SmartSubject = SmartSubject;

/// SMART. Its nodes have the sizes they have.
#[derive(Clone, Copy, Debug)]
pub struct SmartSubject;

impl SmartSubject {
    const fn parameters(shape: &Shape) -> Parameters {
        // Long keys in nodes with a reserve.
        let node_slots = if shape.key_bytes > 8 { 8 } else { 4 };
        Parameters { node_slots, ..Parameters::with_sizes(shape.key_bytes, shape.value_bytes) }
    }
}

impl Subject for SmartSubject {
    fn name(&self) -> &'static str {
        "smart"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        Self::parameters(shape).into()
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        // The largest node fits eight times this, as many as any test asks for at least: with chunks of many of the largest
        // no test's pool had one for each compute node.
        Self::parameters(shape).leaf().place_bytes.max(272)
    }

    fn reuses_for_any_key(&self) -> bool {
        false
    }

    fn seals_entries(&self) -> bool {
        true
    }

    fn locks(&self, kind: OperationKind) -> bool {
        !matches!(kind, OperationKind::Get | OperationKind::Insert)
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        Vec::new()
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // A leaf is a record.
        (100, 100)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::REVIVED])
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let leaf = Self::parameters(shape).leaf();
        let word = if held { LockWord::new(RowId(99), 7).expect("a small sequence") } else { LockWord::FREE };
        for at in walk(fabric, geometry).leaves {
            poke(fabric, Space::Host, at.node(), at.offset() + leaf.lock_at as u64, &word.0.to_le_bytes());
        }
    }
}

/// What the root leads to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The type of each node, and how many of its slots are taken.
    pub nodes: Vec<(NodeType, usize)>,
    /// Where each leaf is.
    pub leaves: Vec<Place>,
}

/// Follows every slot from the root on. Nothing may be under way.
pub fn walk(fabric: &mut AnyFabric, geometry: &[NodeGeometry]) -> Found {
    let number = IndexNumber::new(0).expect("the first entry");
    let mut found = Found::default();
    let mut slots = vec![Slot::of_root(root_word(fabric, geometry)).expect("a sound root word")];
    while let Some(slot) = slots.pop() {
        match slot.child().expect("a sound slot") {
            Child::Empty | Child::Void(_) => {}
            Child::Leaf(at) => found.leaves.push(at),
            Child::Node(kind, at) => {
                let image = peek(fabric, Space::Host, at.node(), at.offset(), kind.bytes());
                let below = Node::new(&image, kind, number.in_nodes()).expect("a sound node").slots();
                let taken = slots.len();
                slots.extend(below.filter(|slot| !slot.is_empty()));
                found.nodes.push((kind, slots.len() - taken));
            }
        }
    }
    found
}

impl UnderItems for SmartSubject {
    const WITH_ITEMS: &'static str = "items over smart";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::REVIVED, Mark::LAYER_MADE])
    }
}
