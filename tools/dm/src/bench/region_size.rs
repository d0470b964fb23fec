//! How large memory nodes are made for the records of a run.

use super::key_source::KeySource;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_host::kinds::IndexParameters;

/// Smallest region of a memory node of our own, in bytes: room for chunks half used.
const REGION_BYTES_MIN: u64 = 32 << 20;

/// Bytes of the blocks of so many records on each memory node.
pub(super) fn blocks_bytes(keys: &KeySource, value_bytes: usize, records: u64, memory_nodes: u16) -> u64 {
    let key_bytes = match keys {
        KeySource::Real(keys) => keys.mean_bytes(),
        KeySource::Made(keys) => keys.bytes(),
    };
    let place = class_bytes(class_of(block_bytes(key_bytes, value_bytes))) as u64;
    // Lengths differ, and compute nodes have places in store.
    (records * place * 5 / 4 / u64::from(memory_nodes)).next_multiple_of(2 << 20)
}

/// What each memory node needs for these records, with room to spare, in whole huge pages.
pub(super) fn region_bytes(
    parameters: &IndexParameters,
    records: u64,
    inserts: u64,
    by_insert: bool,
    memory_nodes: u16,
) -> u64 {
    let (leaf_bytes, inner_bytes) = parameters.node_bytes();
    // Bulk-loaded leaves are four fifths full; those that split are half full at the least.
    let leaves = |records: u64, fill: f64| records as f64 / (parameters.leaf_span() as f64 * fill);
    let leaves = leaves(records, if by_insert { 0.48 } else { 0.75 }) + leaves(inserts, 0.4);
    let inner = leaves / (parameters.inner_span() as f64 * 0.5);
    let bytes = leaves * leaf_bytes as f64 + inner * inner_bytes as f64 * 1.5;
    let per_node = (bytes / f64::from(memory_nodes)) as u64 + REGION_BYTES_MIN;
    per_node.next_multiple_of(2 << 20)
}
