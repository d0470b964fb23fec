//! Simulated fabrics for dm-core: one process, one seed, as nasty as a NIC may be.
//!
//! In reading order:
//!
//! 1. `config`: what the fabric guarantees, and how it uses the freedom that is left.
//! 2. `memory`: memory nodes, and what an atomic does to a word. [`pool`]: a formatted pool.
//! 3. `direct` and `run`: the fabric without time, and one operation on it from beginning to end.
//! 4. [`rng`]: the one source of randomness.
//! 5. `schedule`: when a request takes effect; the table of orders.
//! 6. [`world`]: requests in, completions out; in between they are records in `flight`, and `effects` happen.
//! 7. `driver`: many lanes of many compute nodes on one world. `workload`: keeps them busy.
//! 8. `faults`: what can break.
//! 9. [`log`]: one line per thing that happened. `turns`: a check on the writers.
//! 10. [`check`]: judges what lanes did and were told.
//! 11. [`verify`]: runs an index under schedules drawn from seeds, and judges it.
//! 12. [`timing`]: another simulator: how long things take on a cluster, in virtual time.
//!
//! Two lanes of two compute nodes fight for a word:
//!
//! ```
//! use dm_core::{lane::Lane, verbs::{Label, LaneId, NodeId, Request}};
//! use dm_sim::{Config, Driver, DriverConfig, Event, LaneAt, World};
//!
//! let mut world = World::new(Config::default(), 42);
//! world.set_log(true);
//! let (mut one, mut other) = ([0; 64], [0; 64]);
//! let lanes = [[Lane::new(LaneId(0), &mut one)], [Lane::new(LaneId(0), &mut other)]];
//! let mut driver = Driver::new(&mut world, &[&lanes[0], &lanes[1]], DriverConfig::default());
//! for number in 0..2 {
//!     let lane = &lanes[number as usize][0];
//!     let lock = Request::cas(Label::Lock, NodeId(0), 4096, 0, 1 + u64::from(number));
//!     driver.spawn(LaneAt::new(number, 0), Box::pin(async move { lane.port().call(lock).await.unwrap().value == 0 }));
//! }
//! let mut winners = 0;
//! loop {
//!     match driver.next().unwrap() {
//!         Event::Done { result, .. } => winners += u32::from(result),
//!         Event::Quiet => break,
//!         Event::Progress | Event::Abandoned { .. } => {}
//!     }
//! }
//! assert_eq!(winners, 1);
//! drop(driver);
//! println!("{}", dm_sim::log::text(world.log()));
//! ```
#![forbid(unsafe_code)]

mod calls;
pub mod check;
mod compute_node;
mod config;
mod direct;
mod driver;
mod effects;
mod faults;
mod flight;
mod forwards;
pub mod log;
mod memory;
pub mod pool;
mod processor;
pub mod rng;
mod run;
mod schedule;
pub mod timing;
mod turns;
pub mod verify;
mod workload;
pub mod world;

pub use compute_node::ComputeNode;
pub use config::{Config, Delays};
pub use direct::DirectFabric;
pub use driver::{Driver, DriverConfig, Event, LaneAt, Op, Stuck};
pub use memory::{Memories, Memory, MemoryNode};
pub use run::{Counts, Run, block_on};
pub use workload::{Workload, run_workload};
pub use world::World;
