//! Recovery: a compute node's death costs the others one lease, and nothing that was acknowledged.
//!
//! In every published system a client that dies while it holds a lock stops the tree for ever. Here a waiter for that
//! lock notices, makes sure that the dead holder can write no more, repairs what it left half done, and continues.
//!
//! ```text
//!  a lock word does not change
//!        │  a quarter of a lease                     membership::lease: the holder's row, by the waiter's own clock
//!        ▼
//!  READ the holder's row ──► heartbeat moves: wait on
//!        │  unchanged for a lease
//!        ▼                                           membership::fence
//!  row LIVE -> FENCING, every memory node confirms, row -> DEAD
//!        │
//!        ▼                                           recovery::takeover, membership::redo
//!  redo record of that lock word?  no: CAS the word free
//!        │ yes: copy it under an own word, CAS the dead word -> own word, replay it, CAS own -> free
//!        ▼
//!  acquire as usual; what is half done above one node is finished by the next operation that meets it
//! ```
//!
//! The proofs are in the manual: [`leases`](crate::manual::leases) (when a holder counts as unresponsive),
//! [`takeover`](crate::manual::takeover) (why a taken lock is safe), [`redo_records`](crate::manual::redo_records)
//! (which record counts, and why WRITEs are cut where lines end), [`crashes`](crate::manual::crashes) (what each crash
//! leaves).
//!
//! # What it assumes
//!
//! - WRITE_THEN_WRITE, WRITE_THEN_ATOMIC: a sender that dies leaves a prefix of each of its chains.
//! - A crash unit is a line at least ([`UNIT_BYTES_MIN`](crate::membership::UNIT_BYTES_MIN)).
//!   [`Recovery::new`](crate::membership::Recovery::new) refuses less: readers without locks cannot detect a mixture of
//!   words within a line.
//! - The fabric can fence. One that cannot ends the wait with [`Cause::CannotFence`](crate::operation::Cause).
//!
//! # Limits
//!
//! - A survivor whose redo slots are smaller than the dead compute node's redo record cannot copy and replay it, and
//!   says so ([`crate::operation::Cause::Corrupt`]). Compute nodes of a pool should open their slots for its largest
//!   nodes.
//! - A memory node that is down confirms no fence: what it and the others protect stays locked until it is back.

pub(crate) mod marks;
pub mod mutants;
pub(crate) mod sweep;
pub mod takeover;

use crate::marks::Mark;

/// Marks of this room.
pub const MARKS: &[Mark] = &[
    Mark::ROW_FENCED,
    Mark::TAKEOVER,
    Mark::REDO_REPLAYED,
    Mark::REPAIRER_DIED,
    Mark::MERGE_UNDONE,
    Mark::SELF_FENCED,
    Mark::ROW_SWEPT,
];

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Locks that named the row.
    pub locks: u32,
    /// Chunks of redo records given back.
    pub chunks_freed: u32,
    /// Chunks for nodes that stay granted to the dead row until they are collected.
    pub chunks_kept: u32,
    /// Bytes of never written nodes in them.
    pub unwritten_bytes: u64,
    /// Whether the row was freed, by this sweep or another. A row that had *another* index open whose locks lie in its
    /// leaves stays as it is, and so do its chunks: only code that knows that index can sweep there, and the caller says
    /// what it has swept. The row is not freed either if there is such an index and nothing says what the compute node had
    /// open: it was opened without recovery, or a sweeper died right before it freed the row. Nor is a row freed that an
    /// ownership table needs: see [`crate::index::owners`].
    pub row_free: bool,
}
