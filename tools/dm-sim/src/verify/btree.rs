//! Walks of B+-trees from outside: directly in the memories, by links and headers only. And what tests do to the copies
//! and free lists of a B+-tree.

use super::accounting::{Chunk, Holdings, Node, UNIT_BYTES};
use super::blocks::Found;
use super::chunk_table::{chunks, pool_epoch};
use super::memory_walk::TreeNodes;
use super::subject::InnerNodeImages;
use crate::memory::Memories;
use dm_core::btree::Tree;
use dm_core::btree::inner::Inner;
use dm_core::btree::node::{self, Header, NodeFlags};
use dm_core::layout::stripes;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, owners_offset, root_offset};
use dm_core::remote::chunk::ChunkKind;
use dm_core::remote::place::NodeClass;
use dm_core::remote::{HOME, NodeGeometry};
use dm_core::verbs::NodeId;
use dm_host::kinds::IndexParameters;

/// The methods of [`TestAccess`] of an index whose method `tree` returns a B+-tree, but for `locks_held`. A macro,
/// since the tree's lifetime is the index's, which a default method of the trait cannot name.
macro_rules! test_access_of_btree {
    () => {
        fn for_each_ready(&self, visit: &mut dyn FnMut($crate::verify::accounting::Node)) {
            $crate::verify::btree::for_each_ready(self.tree(), visit);
        }

        fn left_places(&self) -> u64 {
            self.tree().nodes.left_places()
        }

        fn restore_copies(&self, images: &$crate::verify::subject::InnerNodeImages) {
            $crate::verify::btree::restore_copies(self.tree(), images);
        }

        fn has_epochs(&self) -> bool {
            self.tree().epochs.is_some()
        }

        async fn turn<'a>(&'a self, lane: &'a dm_core::lane::Lane<'_>) -> Result<(), dm_core::operation::OpError> {
            $crate::verify::subject::turned(self.tree().turn(lane).await)
        }
    };
}
pub(super) use test_access_of_btree;

/// See [`TestAccess::for_each_ready`]: nodes of a B+-tree.
pub(super) fn for_each_ready(tree: &Tree<'_>, visit: &mut dyn FnMut(Node)) {
    let nodes = &tree.nodes;
    nodes.for_each_ready(&mut |class: NodeClass, fresh| {
        let (node, offset) = (fresh.address.node(), fresh.address.offset());
        visit(Node { node, offset, bytes: nodes.node_bytes(class) as u64 });
    });
}

/// See [`TestAccess::restore_copies`]: copies of a B+-tree.
pub(super) fn restore_copies(tree: &Tree<'_>, images: &InnerNodeImages) {
    let (root, level) = images.root.unwrap_or((Address::NULL, 0));
    tree.root.set(root, level);
    if images.nodes.is_empty() {
        tree.cache.clear();
    }
    for (address, image) in &images.nodes {
        if let Some(inner) = Inner::new(&tree.inner, image) {
            tree.cache.insert(*address, &inner, images.epoch);
        }
    }
}

/// The methods of [`MemoryWalk`](super::memory_walk::MemoryWalk) of a B+-tree, but for those that say what its nodes are.
macro_rules! memory_walk_of_btree {
    () => {
        fn inner_node_images(
            &self,
            geometry: &[dm_core::remote::NodeGeometry],
            memories: &$crate::memory::Memories,
        ) -> $crate::verify::subject::InnerNodeImages {
            $crate::verify::btree::inner_node_images(&nodes(self), geometry, memories)
        }

        fn holdings(
            &self,
            parameters: &dm_host::kinds::IndexParameters,
            geometry: &[dm_core::remote::NodeGeometry],
            memories: &$crate::memory::Memories,
        ) -> Result<$crate::verify::accounting::Holdings, String> {
            $crate::verify::btree::holdings(&nodes(self), parameters, geometry, memories)
        }
    };
}
pub(super) use memory_walk_of_btree;

/// Nodes a walk visits at most: more than the memories hold.
const NODES_MAX: usize = 1 << 16;

/// Bytes of a node, if they lie in memory.
fn image(memories: &Memories, address: Address, bytes: usize) -> Option<&[u8]> {
    let start = address.offset() as usize;
    memories.get(address.node())?.host.bytes().get(start..start + bytes)
}

fn root(tree: &TreeNodes, geometry: &[NodeGeometry], memories: &Memories) -> Option<(Address, u8)> {
    let home = geometry.first()?;
    let number = IndexNumber::new(0)?;
    let word = memories.get(NodeId(0))?.host.word(root_offset(home, number));
    let address = Address::from_bits(word);
    if address.is_null() {
        return None;
    }
    let bytes = tree.leaf_bytes.min(tree.inner.bytes);
    Some((address, Header::read(image(memories, address, bytes)?).level))
}

/// Calls `visit` with every node along the links of every level, with its level and image. Stops with an error at a
/// node that gives no sound link to go on from.
fn walk<'m>(
    tree: &TreeNodes,
    geometry: &[NodeGeometry],
    memories: &'m Memories,
    lowest: u8,
    mut visit: impl FnMut(Address, u8, &'m [u8]),
) -> Result<(), String> {
    let Some((mut first, root_level)) = root(tree, geometry, memories) else { return Ok(()) };
    let inner = tree.inner;
    let mut visited = 0;
    for level in (lowest..=root_level).rev() {
        let bytes = if level == 0 { tree.leaf_bytes } else { inner.bytes };
        let mut next = first;
        let mut below = Address::NULL;
        while !next.is_null() {
            let image = image(memories, next, bytes).ok_or(format!("{next} lies outside the memories"))?;
            let header = Header::read(image);
            if header.level != level || header.generation != next.generation() {
                return Err(format!("the link to {next} leads to something else"));
            }
            if node::is_moved(image) {
                visited += 1;
                if next == first {
                    first = header.sibling;
                }
                next = header.sibling;
                continue;
            }
            if header.flags.contains(NodeFlags::RETIRED) {
                return Err(format!("the link to {next} leads to a retired node"));
            }
            visited += 1;
            if visited > NODES_MAX {
                return Err(format!("level {level} has no end"));
            }
            if level > 0 && next == first {
                below = Inner::new(&inner, image).ok_or(format!("{next} has more separators than it can"))?.child(0);
            }
            visit(next, level, image);
            next = header.sibling;
        }
        first = below;
    }
    Ok(())
}

/// The inner nodes that are not torn.
pub(super) fn inner_node_images(tree: &TreeNodes, geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
    let epoch = pool_epoch(geometry, memories);
    let mut images = InnerNodeImages { root: root(tree, geometry, memories), nodes: Vec::new(), epoch };
    // A walk during a change may end early. The images then has the nodes before that.
    let _ = walk(tree, geometry, memories, 1, |address, _, image| {
        // A compute node copies only images that are not torn.
        if stripes::node_version(image).is_some() {
            images.nodes.push((address, image.to_vec()));
        }
    });
    images
}

/// The chunk of the ownership table, if the index has one.
fn ownership_table(geometry: &[NodeGeometry], memories: &Memories) -> Option<Node> {
    let (home, number) = (geometry.first()?, IndexNumber::new(0)?);
    let named = Address::from_bits(memories.get(HOME)?.host.word(owners_offset(home, number)));
    (!named.is_null()).then_some(Node { node: HOME, offset: named.offset(), bytes: home.chunk_bytes })
}

/// Places in a chunk for nodes that nodes have left for another memory node. Pointers may lead there for ever.
fn left_by_moves<'m>(
    memories: &'m Memories,
    &Chunk { node, offset, bytes, node_bytes, is_of_pieces, .. }: &Chunk,
    (leaf, inner): (u64, u64),
) -> impl Iterator<Item = Node> + 'm {
    let is_of_nodes = !is_of_pieces && (node_bytes == leaf || node_bytes == inner);
    let places = if is_of_nodes { bytes / node_bytes } else { 0 };
    (0..places).map(move |place| Node { node, offset: offset + place * node_bytes, bytes: node_bytes }).filter(
        |place| {
            let address = Address::new(place.node, place.offset, 0);
            image(memories, address, place.bytes as usize).is_some_and(node::is_moved)
        },
    )
}

/// Chunks of the index, and the nodes in them that it reaches.
pub(super) fn holdings(
    tree: &TreeNodes,
    parameters: &IndexParameters,
    geometry: &[NodeGeometry],
    memories: &Memories,
) -> Result<Holdings, String> {
    let (leaf, inner) = (tree.leaf_place_bytes as u64, tree.inner.bytes as u64);
    let table = ownership_table(geometry, memories);
    let sizes = |kind| match kind {
        ChunkKind::Other if table.is_some() => table.map(|table| table.bytes),
        ChunkKind::Leaf => Some(leaf),
        ChunkKind::Inner => Some(inner),
        ChunkKind::Block if parameters.any_length.is_some() => Some(UNIT_BYTES),
        _ => None,
    };
    let mut holdings = Holdings { chunks: chunks(geometry, memories, sizes, false)?, ..Holdings::default() };
    holdings.reached.extend(table);
    let mut found = Found::nothing(parameters);
    walk(tree, geometry, memories, 0, |address, level, image| {
        let bytes = if level == 0 { leaf } else { inner };
        holdings.reached.push(Node { node: address.node(), offset: address.offset(), bytes });
        if level == 0
            && let Some(found) = &mut found
        {
            found.add(parameters, image);
        }
    })?;
    if let Some(found) = found {
        holdings.reached.extend(found.blocks()?);
    }
    let left: Vec<Node> =
        holdings.chunks.iter().flat_map(|chunk| left_by_moves(memories, chunk, (leaf, inner))).collect();
    holdings.reached.extend(left);
    Ok(holdings)
}
