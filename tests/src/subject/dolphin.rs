//! Dolphin as a subject.

use super::items::UnderItems;
use super::{Shape, Subject, root_word};
use crate::fabric::{AnyFabric, peek, poke};
use dm_core::dolphin::parameters::Parameters;
use dm_core::dolphin::spear::{SEATS, Seat, Spear};
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::radix::slot::{Child, Node, Slot};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::verbs::Space;
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
        // The largest node, of 2064 bytes, fits eight times this, as many as any test asks for at least, and two leaves
        // do. With chunks of 32 leaves a pool of 192 KiB had three: one compute node, under items, takes a chunk each
        // for nodes, leaves and blocks, and another one found none. With 36 KiB a pool that is to be full with 2 chunks
        // had none for the third kind, and so no record.
        260
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

    fn waiting(&self) -> &'static [Mark] {
        // Lanes join each other in a leaf, or ask the local table again after a pause: nobody hands anything over.
        &[Mark::LOCK_QUEUED, Mark::SEAT_SHARED, Mark::SETTLED]
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], _: &Shape, held: bool) {
        let stranger = Seat::new(SEATS - 1).expect("the last seat");
        let word = if held { stranger.close() } else { Spear::FREE.0 };
        let number = IndexNumber::new(0).expect("the first entry");
        let mut slots = vec![Slot::of_root(root_word(fabric, geometry)).expect("a sound root word")];
        while let Some(slot) = slots.pop() {
            match slot.tile_child().expect("a sound slot") {
                Child::Empty | Child::Void(_) => {}
                Child::Leaf(leaf) => {
                    poke(fabric, Space::Host, leaf.node(), leaf.offset(), &word.to_le_bytes());
                }
                Child::Node(kind, at) => {
                    let image = peek(fabric, Space::Host, at.node(), at.offset(), kind.bytes());
                    slots.extend(Node::new(&image, kind, number.in_nodes()).expect("a sound node").slots());
                }
            }
        }
    }
}

impl UnderItems for DolphinSubject {
    const WITH_ITEMS: &'static str = "items over dolphin";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::REVIVED, Mark::LAYER_MADE])
    }

    fn waiting_with_items(&self) -> &'static [Mark] {
        // Items change records conditionally, and so each alone.
        &[Mark::LOCK_QUEUED, Mark::SETTLED]
    }
}
