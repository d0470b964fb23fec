//! Locks: the queues of a compute node's lanes in front of remote lock words.
//!
//! - [`table`]: who of this compute node holds or waits for a lock, and how a held lock is handed over between lanes.

pub mod table;
