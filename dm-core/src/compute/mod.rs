//! What the lanes of one compute node share.
//!
//! - [`batches`]: read delegation and write combining.
//! - [`cache`]: copies of inner nodes, read without locks.
//! - [`hotspot`]: the slots of popular keys in their leaves.
//! - [`window`]: how many operations a thread has under way.
//! - [`words`]: lock words as they were last seen.
//!
//! The host provides all storage; nothing here allocates.

pub mod batches;
pub mod cache;
pub mod hotspot;
pub(crate) mod marks;
pub mod mutants;
pub mod window;
pub mod words;
