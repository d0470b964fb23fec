//! Simulated fabrics for dm-core: one process, one seed, as nasty as a NIC may be.
//!
//! In reading order:
//!
//! 1. [`config`]: the semantics dial: what is guaranteed, how long things take.
//! 2. [`memory`]: memory nodes, and what an atomic does to a word.
//! 3. [`direct`] and [`run`]: the fabric without time, and one operation on it from beginning to end.
//! 4. [`rng`]: the one source of randomness.
//! 5. [`schedule`]: when a request takes effect; the table of orders.
//! 6. [`world`]: requests in, completions out; in between they are records in `flight`, and `effects` happen.
//! 7. [`driver`]: many lanes of many compute nodes on one world.
//! 8. [`faults`]: what can break.
//! 9. [`log`]: one line per thing that happened.
#![forbid(unsafe_code)]

pub mod config;
pub mod direct;
pub mod driver;
mod effects;
pub mod faults;
mod flight;
pub mod log;
pub mod memory;
pub mod rng;
pub mod run;
pub mod schedule;
pub mod world;

pub use config::{Config, Delays};
pub use direct::DirectFabric;
pub use driver::{Driver, DriverConfig, Event, LaneAt, Op, Stuck, Workload};
pub use memory::{Memories, Memory, MemoryNode};
pub use run::{Counts, Run, block_on};
pub use world::{ComputeNode, World};
