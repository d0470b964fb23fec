//! The lane of a session on which everything runs that is no operation: walks, orphan collections, parts that move.

use super::watch::Watched;
use crate::fabric::any::AnyFabric;
use crate::solo::block_on_index;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::OpError;
use dm_core::verbs::LaneId;

/// The lane that walks run on. There is one, so walks take turns.
pub(super) struct Walker {
    pub(super) fabric: AnyFabric,
    pub(super) scratch: Vec<u8>,
    pub(super) id: LaneId,
}

impl Walker {
    /// Runs something on the lane, and settles the lane if that gave up under a lock.
    pub(super) fn run<R>(
        &mut self,
        index: &Watched<'_, impl Index>,
        doing: impl AsyncFnOnce(&Lane<'_>) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        let Self { fabric, scratch, id } = self;
        let lane = index.lane(*id, scratch);
        let (done, settled) = block_on_index(fabric, &lane, index, doing(&lane));
        settled.and(done)
    }
}
