//! Accounts for the blocks of keys and values of any length: blocks that the walk reached, and places that were never
//! written. All other places are ready on compute nodes, or wait to be collected.

use crate::failure::Failure;
use crate::members::{WINDOW_BYTES, on_lane};
use crate::report::text::size;
use dm_core::items::block::last_beginning;
use dm_core::lane::Lane;
use dm_core::operation::Census;
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::fabric::any::AnyFabric;
use dm_host::solo::block_on;
use serde::Serialize;
use std::fmt::Write as _;

/// Bytes of all chunks for blocks of an index, by what is there.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "they stand beside those of nodes")]
pub(super) struct BlockAccount {
    /// Chunks for blocks of keys and values of any length.
    block_chunks_bytes: u64,
    /// Places of the blocks that the walk reached.
    block_bytes: u64,
    /// Ends of these chunks that no block was ever written to.
    block_free_bytes: u64,
    /// Places of blocks for each record, on the average. A key and a value that fit an entry have no block.
    block_per_record_bytes: f64,
}

impl BlockAccount {
    /// Looks at a chunk of `chunk_bytes`; the place of a block takes `longest_bytes` at most. Returns how many of its
    /// bytes were never written.
    pub(super) fn add_chunk(
        &mut self,
        fabric: &mut AnyFabric,
        lane: &Lane<'_>,
        start: (NodeId, u64),
        chunk_bytes: u64,
        longest_bytes: usize,
    ) -> Result<u64, Failure> {
        let last = last_beginning_in(fabric, lane, start, chunk_bytes)?;
        let used_bytes = last.map_or(0, |at| at + longest_bytes as u64);
        let free_bytes = chunk_bytes.saturating_sub(used_bytes);
        self.block_chunks_bytes += chunk_bytes;
        self.block_free_bytes += free_bytes;
        Ok(free_bytes)
    }

    /// Adds what the walk reached.
    pub(super) fn reached(&mut self, census: &Census) {
        self.block_bytes = census.block_bytes;
        self.block_per_record_bytes = census.block_bytes as f64 / census.records.max(1) as f64;
    }

    pub(super) fn render(&self, text: &mut String) -> std::fmt::Result {
        let Self { block_chunks_bytes, block_bytes, block_free_bytes, block_per_record_bytes } = self;
        if *block_chunks_bytes == 0 {
            return Ok(());
        }
        writeln!(
            text,
            "  chunks for blocks: {} granted = {} live ({block_per_record_bytes:.1} B a record) + {} free + {} ready on compute \
             nodes, or waiting to be collected",
            size(*block_chunks_bytes),
            size(*block_bytes),
            size(*block_free_bytes),
            size(block_chunks_bytes.saturating_sub(*block_bytes + *block_free_bytes))
        )
    }
}

/// The latest offset at which the last block of a chunk may begin: see [`last_beginning`].
fn last_beginning_in(
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    (node, start): (NodeId, u64),
    chunk_bytes: u64,
) -> Result<Option<u64>, Failure> {
    let mut end = chunk_bytes;
    while end > 0 {
        let bytes = end.min(WINDOW_BYTES as u64);
        let read = Request::read(Label::Tool, node, start + end - bytes, bytes as usize, 0);
        on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, lane.port().call(read))).map_err(Failure::run)?;
        end -= bytes;
        if let Some(at) = lane.port().with(|scratch| last_beginning(&scratch[..bytes as usize])) {
            return Ok(Some(end + at as u64));
        }
    }
    Ok(None)
}
