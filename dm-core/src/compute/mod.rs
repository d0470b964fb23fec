//! What the lanes of one compute node share.
//!
//! - [`batches`]: read delegation and write combining.
//! - [`cache`]: copies of inner nodes, read without locks.
//! - [`hotspot`]: where in their leaves popular keys are.
//! - [`window`]: how many operations a thread has under way.
//! - [`words`]: what lock words were when they were last seen.
//!
//! All storage is handed in by the host; nothing here allocates.

pub mod batches;
pub mod cache;
pub mod hotspot;
pub mod window;
pub mod words;
