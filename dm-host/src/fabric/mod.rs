//! Fabrics: they execute verb requests.
//!
//! - [`shm`]: the requesting process itself executes them, on mapped regions.
//! - `verbs` (feature `verbs`): an RDMA device executes them. [`devices`]: the devices of this machine.
//! - [`any`]: one type for whichever fabric reaches a pool.

pub mod any;
pub mod devices;
pub mod shm;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::time::Duration;

/// How long a memory node's processor may take to make a change that it has begun. Until then nobody knows whether the leaf is
/// changed.
const CHANGE_WAIT: Duration = Duration::from_secs(2);
