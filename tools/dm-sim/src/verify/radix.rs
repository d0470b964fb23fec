//! Walks a radix tree from outside, by slots and headers only.

use super::accounting::{Holdings, Node as Piece};
use super::blocks::Found;
use super::chunk_table::{chunks, pool_epoch};
use super::subject::InnerNodeImages;
use crate::memory::Memories;
use dm_core::radix::slot::{Child, Node, Place, Slot, UNIT_BYTES};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunk::ChunkKind;
use dm_core::verbs::NodeId;
use dm_host::kinds::IndexParameters;

/// The index number in nodes: a test pool has one index.
pub(super) const INDEX: u8 = 1;

/// Bytes of a node, if they lie in memory.
pub(super) fn image(memories: &Memories, place: Place, bytes: usize) -> Option<&[u8]> {
    let start = place.offset() as usize;
    memories.get(place.node())?.host.bytes().get(start..start + bytes)
}

/// Calls `see` with every slot that is reached from the root slot, which comes first, and with the image of its node.
fn visit<'m>(geometry: &[NodeGeometry], memories: &'m Memories, mut see: impl FnMut(Slot, Option<&'m [u8]>)) {
    let (Some(home), Some(number)) = (geometry.first(), IndexNumber::new(0)) else { return };
    let Some(node) = memories.get(NodeId(0)) else { return };
    let root = node.host.word(root_offset(home, number));
    let mut slots = vec![Slot::of_root(root).unwrap_or(Slot(root))];
    while let Some(slot) = slots.pop() {
        match slot.child() {
            Ok(Child::Leaf(_)) => see(slot, None),
            Ok(Child::Node(kind, place)) => {
                let image = image(memories, place, kind.bytes());
                see(slot, image);
                if let Some(Ok(node)) = image.map(|image| Node::new(image, kind, INDEX)) {
                    slots.extend(node.slots().filter(|slot| !slot.is_empty()));
                }
            }
            _ => {}
        }
    }
}

/// The nodes, and the slots that lead to them.
pub(super) fn inner_node_images(geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
    let mut images = InnerNodeImages { epoch: pool_epoch(geometry, memories), ..InnerNodeImages::default() };
    visit(geometry, memories, |slot, image| {
        if images.root.is_none() {
            images.root = Some((Address::from_bits(slot.0), 0));
        }
        if let Some(image) = image {
            images.nodes.push((Address::from_bits(slot.0), image.to_vec()));
        }
    });
    images
}

/// Chunks of the index, and the nodes in them that it reaches. Places of leaves have `leaf_place_bytes`.
pub(super) fn holdings(
    leaf_place_bytes: usize,
    parameters: &IndexParameters,
    geometry: &[NodeGeometry],
    memories: &Memories,
) -> Result<Holdings, String> {
    let mut found = Found::nothing(parameters);
    let sizes = |kind| (kind != ChunkKind::Block || found.is_some()).then_some(UNIT_BYTES as u64);
    let chunks = chunks(geometry, memories, sizes, true)?;
    let mut holdings = Holdings { chunks, ..Holdings::default() };
    visit(geometry, memories, |slot, _| {
        let (place, bytes) = match slot.child() {
            Ok(Child::Leaf(place)) => {
                if let Some((found, image)) = found.as_mut().zip(image(memories, place, leaf_place_bytes)) {
                    found.add(parameters, image);
                }
                (place, leaf_place_bytes)
            }
            Ok(Child::Node(kind, place)) => (place, kind.bytes()),
            _ => return,
        };
        holdings.reached.push(Piece { node: place.node(), offset: place.offset(), bytes: bytes as u64 });
    });
    if let Some(found) = found {
        holdings.reached.extend(found.blocks()?);
    }
    Ok(holdings)
}
