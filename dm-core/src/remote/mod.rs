//! What every pool has, whatever indexes live in it.
//!
//! ```text
//!  region of one memory node                                     device memory, if any
//! ┌────────────┬─────────┬──────┬─────────────┬───────────────┐  ┌────────────┐
//! │ superblock │ catalog │ rows │ chunk table │ lock table(*) │  │ lock table │
//! ├────────────┴─────────┴──────┴─────────────┴───────────────┤  └────────────┘
//! │ chunk 0 │ chunk 1 │ ...                                   │  (*) unless in device memory
//! └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Every memory node has the same structures at offsets its superblock names; the catalog and the compute-node rows
//! that count are those of memory node 0.
//!
//! - [`address`]: pointers with generations.
//! - [`lock_word`]: lock words that name their holder.

pub mod address;
pub mod lock_word;

use crate::verbs::Space;

/// Where things are on one memory node: what its superblock says, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGeometry {
    /// Size of the region, in bytes.
    pub region_bytes: u64,
    /// Byte offset of the catalog of indexes.
    pub catalog: u64,
    /// Byte offset of the compute-node rows.
    pub rows: u64,
    /// Number of compute-node rows, row 0 (nobody) included.
    pub row_count: u32,
    /// Byte offset of the chunk table.
    pub chunk_table: u64,
    /// Chunks in the table.
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
