//! Fabrics: who executes verb requests.
//!
//! - [`shm`]: this process itself, on mapped regions.
//! - `verbs` (feature `verbs`): an RDMA device. [`devices`]: which there are.
//! - [`any`]: whichever of them a pool is reached by.

pub mod any;
pub mod devices;
pub mod shm;
#[cfg(feature = "verbs")]
pub mod verbs;
