//! The epoch of a pool and its chunk tables, as found in remote memory.

use super::accounting::Chunk;
use crate::memory::Memories;
use dm_core::memory::epochs::epoch_of;
use dm_core::remote::NodeGeometry;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::verbs::NodeId;

/// The pool's epoch.
pub(super) fn pool_epoch(geometry: &[NodeGeometry], memories: &Memories) -> u32 {
    let home = geometry.first().zip(memories.get(NodeId(0)));
    let word = home.map_or(0, |(home, memory)| memory.host.word(dm_core::remote::row::epoch_offset(home)));
    epoch_of(word).unwrap_or(0)
}

/// Chunks granted. `node_bytes` gives the size of their nodes or units; `None`: this index has no such chunks.
pub(super) fn chunks(
    geometry: &[NodeGeometry],
    memories: &Memories,
    node_bytes: impl Fn(ChunkKind) -> Option<u64>,
    is_of_units: bool,
) -> Result<Vec<Chunk>, String> {
    let mut chunks = Vec::new();
    for (number, geometry) in (0..).zip(geometry) {
        let Some(memory) = memories.get(NodeId(number)) else { continue };
        for chunk in 0..geometry.chunk_count {
            let entry = ChunkWord(memory.host.word(geometry.chunk_entry(chunk))).decode();
            let ChunkEntry::Granted(grant) = entry.map_err(|what| format!("chunk {chunk} of {number}: {what}"))? else {
                continue;
            };
            if grant.kind == ChunkKind::Redo {
                continue;
            }
            let Some(node_bytes) = node_bytes(grant.kind) else {
                return Err(format!("chunk {chunk} of {number} is for {}", grant.kind.name()));
            };
            let (offset, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
            let is_of_pieces = grant.kind == ChunkKind::Block;
            let is_of_units = is_of_units || is_of_pieces;
            chunks.push(Chunk { node: NodeId(number), offset, bytes, node_bytes, is_of_units, is_of_pieces });
        }
    }
    Ok(chunks)
}
