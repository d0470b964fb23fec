//! Ordered indexes in disaggregated memory, embedded in a program.
//!
//! ```
//! use dm_host::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = Pool::embedded(64 << 20)?;
//!     let sizes = Table::<&str, u64>::open(&pool, "file sizes")?;
//!     sizes.upsert("/etc/hosts", 312).wait()?;
//!     assert_eq!(sizes.get("/etc/hosts").wait()?, Some(312));
//!     Ok(())
//! }
//! ```
//!
//! # Inside
//!
//! This crate binds dm-core's verb requests to memory: shared memory on one machine, or queue pairs on a NIC. It has no
//! index logic.
//!
//! In order of reading:
//!
//! - [`region`]: the memory of one memory node - where it comes from, its layout, huge pages.
//! - [`fabric`]: executes verbs. [`fabric::shm`] does so with loads and stores on mapped regions, `fabric::verbs`
//!   (feature `verbs`) with queue pairs of an RDMA device.
//! - [`memory_node`]: the daemon that owns a region and hands it out, and the client that connects to the daemon.
//! - [`pool`]: the memory nodes that this process is connected to, and the indexes there.
//! - [`compute_node`]: a process that has a row in a pool.
//! - `rootless`: an index whose root word is 0: new, or damaged.
//! - [`keeper`]: the thread that keeps a compute node's lease.
//! - [`solo`]: drives one future on one lane on the calling thread.
//! - [`assembly`]: puts an index together, with the storage that the core only borrows.
//! - [`kinds`]: indexes of any kind that the catalog names.
//! - [`worker`]: a thread that drives lanes.
//! - [`session`]: the API that an application embeds an index with.
//! - [`prelude`]: the names that most programs need.
//! - `c` (feature `c`): the same API for C.
//! - [`clock`]: timestamps cheap enough to take twice per post.
//! - `fetch`: prefetches lines before they are needed.

pub mod assembly;
#[cfg(feature = "c")]
pub mod c;
pub mod clock;
pub mod compute_node;
pub mod fabric;
mod fetch;
pub mod keeper;
pub mod kinds;
pub mod memory_node;
mod metrics;
pub mod pool;
pub mod prelude;
pub mod region;
mod rootless;
pub mod session;
pub mod solo;
pub mod worker;

pub use dm_core;
