//! Which compute nodes are in the pool, and which hold its locks: looked up without joining it.

use crate::failure::Failure;
use dm_core::lane::Lane;
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::repair::{RepairError, members};

pub(crate) use members::{Member, WINDOW_BYTES, epochs, held_locks, members, on_lane, watch};

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        Self::run(error)
    }
}

/// Read access to a pool: see there.
pub(crate) fn with_read_access<R>(
    pool: &Pool,
    run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    members::with_read_access(pool, run)
}
