//! Which failures of operations are excused by the faults of a history.

use super::faults::{FaultKind, InjectedFaults};
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
    /// Whether an index may fail with this error after these faults.
    ///
    /// - It may say that there is no memory; `no_memory` says whether that can be.
    /// - It may say that a queue pair or a memory node failed, if one did.
    /// - It may say that a deadline passed only if the caller set one (`deadline_ns` is not 0). That is so in histories
    ///   in which compute nodes die and survivors do not take their locks over.
    /// - It may say that it gave up only after a death. Otherwise histories are short, and the bounds on waiting are
    ///   long.
    /// - A lane that cannot be settled is never excused: settling waits for no lock.
    pub fn is_tolerable(
        &self,
        injected: &InjectedFaults,
        after_death: AfterDeath,
        deadline_ns: u64,
        no_memory: bool,
    ) -> bool {
        let died = injected.any(FaultKind::Crash) && after_death == AfterDeath::Bounded;
        self.operation.is_some()
            && match self.error.cause {
                Cause::PoolFull => no_memory,
                // The lane that leads a batch may be dropped.
                Cause::LeaderLost => injected.any(FaultKind::Drops),
                Cause::Verb(error) => match error.status {
                    Status::Flushed => injected.any(FaultKind::QpError),
                    Status::NodeDown => injected.any(FaultKind::NodeDeath),
                    _ => false,
                },
                Cause::Deadline { .. } => deadline_ns != 0,
                Cause::Retries { .. } => died,
                // Of an index whose keys have owners. At the end of a history one compute node owns them all.
                Cause::NotOwner { .. } => true,
                _ => false,
            }
    }
}
