//! Which failures are excused by what went wrong.

use super::faults::FaultKind;
use super::load::Suffered;
use super::subject::AfterDeath;
use crate::check::OpId;
use dm_core::error::{Cause, OpError};
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
    /// That there is no memory it may say at any time. That a queue pair or a memory node failed, if one did. That it gave
    /// up waiting only if a compute node died and nobody takes over what it held: histories are short, and the bounds on
    /// waiting are long. A lane that cannot be settled is never excused: settling waits for no lock.
    pub fn is_tolerable(&self, suffered: &Suffered, after_death: AfterDeath) -> bool {
        let died = suffered.any(FaultKind::Crash) && after_death == AfterDeath::Bounded;
        self.operation.is_some()
            && match self.error.cause {
                Cause::PoolFull => true,
                Cause::Verb(error) => match error.status {
                    Status::Flushed => suffered.any(FaultKind::QpError),
                    Status::NodeDown => suffered.any(FaultKind::NodeDeath),
                    _ => false,
                },
                Cause::Deadline { .. } | Cause::Retries { .. } => died,
                _ => false,
            }
    }
}
