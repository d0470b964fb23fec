//! Locks: the queues of a compute node's lanes in front of remote lock words, and the one protocol that all indexes
//! take locks by.
//!
//! - [`table`]: which lane of this compute node holds or waits for a lock, and how a held lock is handed over.
//! - `protocol`: acquire, hand over, back off, release, settle; an index says where its words lie and what they carry.

pub(crate) mod marks;
pub mod mutants;
pub(crate) mod protocol;
pub mod table;

pub use protocol::Held;
