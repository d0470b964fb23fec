//! State of a bulk load between two records.

use crate::remote::address::Address;
use crate::remote::place::UnlinkedNode;

/// Levels a bulk load can build. With default sizes that is 48^7 leaves.
pub(crate) const LEVELS_AT_ONCE: usize = 8;

/// The node being filled on one level; its image is the node image of the same number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    pub(super) fresh: UnlinkedNode,
    pub(super) used: usize,
}

/// A bulk load under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct BulkLoad {
    pub(super) open: [Open; LEVELS_AT_ONCE],
    /// The leftmost node of each level.
    pub(super) first: [Address; LEVELS_AT_ONCE],
    pub(super) levels: usize,
    /// Parents of leaves so far, and cuts: which memory node the open ones are on, if they are to be together.
    pub(super) subtrees: u32,
    /// An append failed in the middle, or its future was dropped: levels may not fit together, so the load cannot
    /// continue.
    pub(super) broken: bool,
}

impl BulkLoad {
    /// A load that cannot continue: it says so when it is continued, or ended.
    pub(crate) fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// Whether it has begun, and has not ended.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.levels > 0 || self.broken
    }
}
