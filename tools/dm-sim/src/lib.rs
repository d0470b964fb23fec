//! Simulated fabrics for dm-core: one process, one seed, as nasty as a NIC may be.
//!
//! In reading order:
//!
//! 1. [`config`]: the semantics dial.
//! 2. [`memory`]: memory nodes, and what an atomic does to a word.
//! 3. [`direct`]: the fabric without time: everything at once, in order.
//! 4. [`run`]: one operation from beginning to end, and what it asked of the fabric.
#![forbid(unsafe_code)]

pub mod config;
pub mod direct;
pub mod memory;
pub mod run;

pub use config::{Config, Delays};
pub use direct::DirectFabric;
pub use memory::{Memories, Memory, MemoryNode};
pub use run::{Counts, Run, block_on};
