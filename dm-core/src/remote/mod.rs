//! What every pool has, whatever indexes are in it.
//!
//! ```text
//!  region of one memory node                                                  device memory, if any
//! ┌────────────┬─────────┬──────┬──────────┬─────────────┬───────────────┐  ┌────────────┐
//! │ superblock │ catalog │ rows │ redo (+) │ chunk table │ lock table(*) │  │ lock table │
//! ├────────────┴─────────┴──────┴──────────┴─────────────┴───────────────┤  └────────────┘
//! │ chunk 0 │ chunk 1 │ ...                                              │  (*) unless in device memory
//! └──────────────────────────────────────────────────────────────────────┘  (+) if the pool was made with one
//! ```
//!
//! Every memory node has the same structures, at the offsets that its superblock names. Of the catalogs and the
//! compute-node rows, only those of memory node 0 count.
//!
//! In order of reading:
//!
//! - [`address`]: pointers with generations.
//! - [`superblock`]: where everything is, which version wrote it, and what a reader must understand.
//! - [`row`]: which compute nodes are in the pool, their incarnations and heartbeats.
//! - [`catalog`]: which indexes there are, their parameters and roots.
//! - [`chunk`]: which memory was granted to which compute node, and what for.
//! - [`lock_word`]: lock words, which name their holder.
//! - [`owners`]: ownership tables of indexes whose keys have owners, as far as every sweep reads them.
//! - [`rpc`]: the few procedures of a memory node's daemon.
//! - [`features`], [`place`], [`owner_tag`]: feature words, unlinked nodes, owner tags.
//!
//! Two rules hold for all of them.
//!
//! - **Bytes from a memory node are untrusted.** Decoders check everything, and return an error for bytes that are
//!   wrong, whatever they are.
//! - **No word is ever changed by both a memory node's CPU and verbs.** The daemon writes the superblock before it
//!   registers the region. Afterwards only compute nodes write, and words that several of them change are changed by
//!   CAS alone. The atomics of a NIC are atomic among themselves, and not with respect to a CPU (InfiniBand
//!   Architecture Specification, atomicity "IBV_ATOMIC_HCA").
//!
//! **Scratch.** The async functions here READ into [`SCRATCH_BYTES`] bytes of the lane's scratch, at the offset that
//! the caller passes. They run a few times in the life of a compute node, and never as a part of an index operation.
//! Their documentation counts their round trips all the same.

pub mod address;
pub mod catalog;
pub mod chunk;
pub mod features;
pub mod lock_word;
pub mod owner_tag;
pub mod owners;
pub mod place;
pub mod row;
pub mod rpc;
pub mod superblock;

use crate::remote::lock_word::RowId;
use crate::verbs::{NodeId, Space};

/// Bytes of scratch that the functions of this room need.
pub const SCRATCH_BYTES: usize = 512;

/// The memory node whose catalog and rows count.
pub const HOME: NodeId = NodeId(0);

/// Where things are on one memory node: its superblock, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGeometry {
    /// Size of the region, in bytes.
    pub region_bytes: u64,
    /// Byte offset of the catalog of indexes.
    pub catalog: u64,
    /// Entries of the catalog.
    pub index_count: u16,
    /// Byte offset of the compute-node rows.
    pub rows: u64,
    /// Number of compute-node rows, row 0 (nobody) included.
    pub row_count: u32,
    /// Byte offset of the redo area: `row_count` times `redo_row_bytes`.
    pub redo: u64,
    /// Bytes of redo area per compute-node row; 0 = this pool has none.
    pub redo_row_bytes: u32,
    /// Byte offset of the chunk table.
    pub chunk_table: u64,
    /// Number of chunks in the table.
    pub chunk_count: u32,
    /// Byte offset of chunk 0.
    pub heap: u64,
    /// Size of a chunk, in bytes.
    pub chunk_bytes: u64,
    /// Which memory the lock table is in.
    pub lock_space: Space,
    /// Byte offset of the lock table in that memory.
    pub lock_table: u64,
    /// Lock words in the table, at least 1.
    pub lock_count: u32,
}

impl NodeGeometry {
    /// Byte offset of chunk `chunk`.
    #[inline]
    pub const fn chunk_offset(&self, chunk: u32) -> u64 {
        self.heap + chunk as u64 * self.chunk_bytes
    }

    /// The chunk of the byte at `offset`, if this is in the heap.
    #[inline]
    pub const fn chunk_of(&self, offset: u64) -> Option<u32> {
        if offset < self.heap || self.chunk_bytes == 0 {
            return None;
        }
        let chunk = (offset - self.heap) / self.chunk_bytes;
        if chunk < self.chunk_count as u64 { Some(chunk as u32) } else { None }
    }

    /// Byte offset of the table entry of chunk `chunk`.
    #[inline]
    pub const fn chunk_entry(&self, chunk: u32) -> u64 {
        self.chunk_table + chunk as u64 * 8
    }

    /// Byte offset of lock word `index`, in [`NodeGeometry::lock_space`].
    #[inline]
    pub const fn lock_offset(&self, index: u32) -> u64 {
        self.lock_table + index as u64 * 8
    }

    /// Byte offset of compute-node row `row`.
    #[inline]
    pub const fn row_offset(&self, row: RowId) -> u64 {
        self.rows + row.0 as u64 * row::Row::BYTES as u64
    }

    /// Byte offset of the word of catalog entry `entry`.
    #[inline]
    pub const fn catalog_word(&self, entry: catalog::IndexNumber) -> u64 {
        self.catalog + entry.get() as u64 * 8
    }

    /// Byte offset of catalog entry `entry`.
    #[inline]
    pub const fn catalog_entry(&self, entry: catalog::IndexNumber) -> u64 {
        self.catalog + catalog::entries_at(self.index_count) + entry.get() as u64 * catalog::Entry::BYTES as u64
    }
}
