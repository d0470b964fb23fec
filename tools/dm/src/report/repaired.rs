//! What `dm repair` did.

use serde::{Deserialize, Serialize};

/// What was done, of the whole pool.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Repaired {
    /// Rows that were live, and unresponsive for a lease: fenced.
    pub(crate) rows_fenced: u32,
    /// Rows freed.
    pub(crate) rows_freed: u32,
    /// Rows that stay dead, because the pool has several indexes whose locks lie in their leaves, and nothing says which of them
    /// those compute nodes had open.
    pub(crate) rows_kept: u32,
    /// Locks that were recovered.
    pub(crate) locks: u32,
    /// Chunks given back.
    pub(crate) chunks_freed: u32,
    /// Chunks with nodes, granted to a departed row until a compute node collects them.
    pub(crate) chunks_kept: u32,
    /// Bytes of nodes never written in those.
    pub(crate) unwritten_bytes: u64,
}

impl From<dm_host::repair::Repaired> for Repaired {
    fn from(repaired: dm_host::repair::Repaired) -> Self {
        let dm_host::repair::Repaired {
            rows_fenced,
            rows_freed,
            rows_kept,
            locks,
            chunks_freed,
            chunks_kept,
            unwritten_bytes,
        } = repaired;
        Self { rows_fenced, rows_freed, rows_kept, locks, chunks_freed, chunks_kept, unwritten_bytes }
    }
}
