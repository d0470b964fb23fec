//! A look at the tree from outside: straight at the memories, by links and headers only. What `validate` says from
//! within is compared with this.

use super::Case;
use crate::config::Config;
use crate::memory::Memories;
use crate::verify::accounting::{Chunk, Holdings, Node};
use crate::verify::subject::Picture;
use dm_core::btree::inner::Inner;
use dm_core::btree::node::{Header, NodeFlags};
use dm_core::layout::stripes;
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunks::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::verbs::NodeId;

/// Nodes a walk visits at most: more than the memories hold.
const NODES_MAX: usize = 1 << 16;

/// Bytes of a node, if they are there.
fn image(memories: &Memories, address: Address, bytes: usize) -> Option<&[u8]> {
    let start = address.offset() as usize;
    memories.get(address.node())?.host.bytes().get(start..start + bytes)
}

fn root(case: &Case, geometry: &[NodeGeometry], memories: &Memories) -> Option<(Address, u8)> {
    let home = geometry.first()?;
    let number = IndexNumber::new(0)?;
    let word = memories.get(NodeId(0))?.host.word(root_offset(home, number));
    let address = Address::from_bits(word);
    if address.is_null() {
        return None;
    }
    let bytes = case.parameters.leaf().bytes.min(case.parameters.inner().bytes);
    Some((address, Header::read(image(memories, address, bytes)?).level))
}

/// Calls `visit` with every node on the way along the links of every level, with its level and image. Stops with an
/// error where there is nothing sound to go on from.
fn walk<'m>(
    case: &Case,
    geometry: &[NodeGeometry],
    memories: &'m Memories,
    lowest: u8,
    mut visit: impl FnMut(Address, u8, &'m [u8]),
) -> Result<(), String> {
    let Some((mut first, root_level)) = root(case, geometry, memories) else { return Ok(()) };
    let inner = case.parameters.inner();
    let mut visited = 0;
    for level in (lowest..=root_level).rev() {
        let bytes = if level == 0 { case.parameters.leaf().bytes } else { inner.bytes };
        let mut next = first;
        let mut below = Address::NULL;
        while !next.is_null() {
            let image = image(memories, next, bytes).ok_or(format!("{next} lies outside the memories"))?;
            let header = Header::read(image);
            if header.level != level || header.generation != next.generation() {
                return Err(format!("the link to {next} leads to something else"));
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

/// The inner nodes that are whole.
pub(super) fn picture(case: &Case, config: &Config, memories: &Memories) -> Picture {
    let geometry = case.geometry(config);
    let mut picture = Picture { root: root(case, &geometry, memories), nodes: Vec::new() };
    // A walk through the middle of a change may end early: then the picture is of what came before.
    let _ = walk(case, &geometry, memories, 1, |address, _, image| {
        // A compute node only ever copies what it took for whole.
        if stripes::node_version(image).is_some() {
            picture.nodes.push((address, image.to_vec()));
        }
    });
    picture
}

/// Calls `visit` with the image of every leaf, from left to right.
pub(in crate::verify) fn for_each_leaf(
    case: &Case,
    config: &Config,
    memories: &Memories,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<(), String> {
    walk(case, &case.geometry(config), memories, 0, |_, level, image| {
        if level == 0 {
            visit(image);
        }
    })
}

/// Chunks of the index, and what it reaches of them.
pub(in crate::verify) fn holdings(case: &Case, config: &Config, memories: &Memories) -> Result<Holdings, String> {
    let geometry = case.geometry(config);
    let (leaf, inner) = (case.parameters.leaf().bytes as u64, case.parameters.inner().bytes as u64);
    let mut holdings = Holdings::default();
    for (number, geometry) in (0..).zip(&geometry) {
        let Some(memory) = memories.get(NodeId(number)) else { continue };
        for chunk in 0..geometry.chunk_count {
            let entry = ChunkWord(memory.host.word(geometry.chunk_entry(chunk))).decode();
            let ChunkEntry::Granted(grant) = entry.map_err(|what| format!("chunk {chunk} of {number}: {what}"))? else {
                continue;
            };
            let node_bytes = match grant.kind {
                ChunkKind::Leaf => leaf,
                ChunkKind::Inner => inner,
                ChunkKind::Redo => continue,
                // Of any size.
                ChunkKind::Items => 0,
                other @ ChunkKind::Other => return Err(format!("chunk {chunk} of {number} is for {}", other.name())),
            };
            let (offset, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
            holdings.chunks.push(Chunk { node: NodeId(number), offset, bytes, node_bytes });
        }
    }
    walk(case, &geometry, memories, 0, |address, level, _| {
        let bytes = if level == 0 { leaf } else { inner };
        holdings.reached.push(Node { node: address.node(), offset: address.offset(), bytes });
    })?;
    Ok(holdings)
}
