//! Which failures are excused by what went wrong.

use super::faults::{FaultKind, Suffered};
use super::subject::AfterDeath;
use crate::check::OpId;
use dm_core::operation::{Cause, OpError};
use dm_core::verbs::Status;

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which; `None`: the `settle` of a lane.
    pub operation: Option<OpId>,
    /// How.
    pub error: OpError,
}

impl Failed {
    /// Whether an index may say this after what happened.
    ///
    /// That there is no memory it may say at any time. That a queue pair or a memory node failed, if one did. That a
    /// deadline passed only if the caller set one (`deadline_ns` is not 0: in histories in which compute nodes die and
    /// nobody takes over what they held); that it gave up only after a death. Otherwise histories are short, and the
    /// bounds on waiting are long. A lane that cannot be settled is never excused: settling waits for no lock.
    pub fn is_tolerable(&self, suffered: &Suffered, after_death: AfterDeath, deadline_ns: u64) -> bool {
        let died = suffered.any(FaultKind::Crash) && after_death == AfterDeath::Bounded;
        self.operation.is_some()
            && match self.error.cause {
                Cause::PoolFull => true,
                // Whoever leads a batch may be dropped.
                Cause::LeaderLost => suffered.any(FaultKind::Drops),
                Cause::Verb(error) => match error.status {
                    Status::Flushed => suffered.any(FaultKind::QpError),
                    Status::NodeDown => suffered.any(FaultKind::NodeDeath),
                    _ => false,
                },
                Cause::Deadline { .. } => deadline_ns != 0,
                Cause::Retries { .. } => died,
                _ => false,
            }
    }
}
