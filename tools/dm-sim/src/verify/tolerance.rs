//! Which failures of operations are excused by the faults of a history.

use super::faults::{FaultKind, InjectedFaults};
use super::prepared::Prepared;
use super::subject::{AfterDeath, HeldLock};
use crate::check::OpId;
use crate::world::World;
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::verbs::Status;

/// What it was like when an operation failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// A memory node that is not down had a chunk to grant, as long as the operation was under way.
    pub has_chunks: bool,
    /// A lock word named a dead compute node.
    pub dead_hold: bool,
    /// Another compute node has fenced the one whose operation it is: memory nodes have closed its queue pairs.
    pub was_fenced: bool,
}

impl Circumstances {
    /// What the memories are like now, after these faults.
    pub fn now(subject: &dyn Prepared, world: &World, injected: &InjectedFaults) -> Self {
        let memories = world.memories();
        let of_the_dead =
            |lock: &HeldLock| world.tenant(lock.row).is_some_and(|tenant| injected.dead.contains(&tenant));
        Self {
            has_chunks: subject.pool_state(memories, injected.down).is_some_and(|state| state.free_chunks > 0),
            dead_hold: !injected.dead.is_empty() && subject.remote_locks_held(memories).iter().any(of_the_dead),
            ..Self::default()
        }
    }
}

/// What a history excuses, whatever the circumstances of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excuses {
    /// What survivors have to do when a compute node has died.
    pub after_death: AfterDeath,
    /// How long an operation may wait, in ns; 0: its caller has set no limit.
    pub deadline_ns: u64,
    /// The index has no room for all keys, however many chunks there are.
    pub is_short: bool,
    /// Compute nodes are silent for a while, and fence themselves.
    pub fences_itself: bool,
    /// Operations are executed by the owners of their keys, who may not answer, or have troubles of their own.
    pub forwards: bool,
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which; `None`: the `settle` of a lane.
    pub operation: Option<OpId>,
    /// How.
    pub error: OpError,
    /// What it was like.
    pub circumstances: Circumstances,
}

impl Failed {
    /// Whether an index may fail with this error after these faults.
    ///
    /// - It may say that there is no memory if no chunk was left at some instant of its time, or if the
    ///   index has no room for all keys, however many chunks there are: the toy, which has one chunk.
    /// - It may say that a queue pair or a memory node failed, if one did; or a queue pair if its compute node was fenced while
    ///   a request was under way. It may say that a memory node refuses requests of the compute node if that is so.
    /// - It may say that a memory node did not answer its change, if it says, too, that the change was made: the leaf has told that,
    ///   and what an upsert has found was in the answer.
    /// - It may say that a deadline passed if that is so, and a lock word names a dead compute node, whose lock nobody takes
    ///   over; or if an owner executes it, which may not answer. Deadlines are longer than an operation takes that waits
    ///   for the living only.
    /// - It may say that it gave up only after such a death. Otherwise histories are short, and the bounds on waiting
    ///   are long.
    /// - It may say that its compute node is fenced if that was silent.
    /// - A lane that cannot be settled is never excused: settling waits for no lock.
    pub fn is_tolerable(&self, injected: &InjectedFaults, excuses: Excuses) -> bool {
        let Circumstances { has_chunks, dead_hold, was_fenced } = self.circumstances;
        let died = injected.any(FaultKind::Crash) && excuses.after_death == AfterDeath::Bounded;
        self.operation.is_some()
            && match self.error.cause {
                Cause::PoolFull | Cause::NodeFull { .. } => !has_chunks || excuses.is_short,
                // The lane that leads a batch may be dropped.
                Cause::LeaderLost => injected.any(FaultKind::Drops),
                Cause::Verb(error) => match error.status {
                    Status::Flushed => injected.any(FaultKind::QpError) || was_fenced,
                    Status::Fenced => was_fenced,
                    Status::NodeDown => injected.any(FaultKind::NodeDeath),
                    Status::Unanswered => excuses.forwards || self.error.effect == Effect::Done,
                    _ => false,
                },
                Cause::Deadline { elapsed_ns } => {
                    let passed = excuses.deadline_ns != 0 && elapsed_ns >= excuses.deadline_ns;
                    passed && (died && dead_hold || excuses.forwards)
                }
                Cause::Retries { .. } => died && dead_hold,
                Cause::Fenced => excuses.fences_itself,
                // Of an index whose keys have owners. At the end of a history one compute node owns them all.
                Cause::NotOwner { .. } => true,
                Cause::AtOwner { .. } => excuses.forwards,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::error::VerbError;
    use dm_core::verbs::{Label, NodeId, Verb};

    const NOTHING: Circumstances = Circumstances { has_chunks: true, dead_hold: false, was_fenced: false };
    const EXCUSES: Excuses = Excuses {
        after_death: AfterDeath::Bounded,
        deadline_ns: 1000,
        is_short: false,
        fences_itself: false,
        forwards: false,
    };

    fn after(fault: Option<FaultKind>, cause: Cause, circumstances: Circumstances, excuses: Excuses) -> bool {
        let mut injected = InjectedFaults::default();
        if let Some(fault) = fault {
            injected.counts[fault as usize] = 1;
        }
        let failed = Failed { operation: Some(OpId(0)), error: OpError::harmless(cause), circumstances };
        failed.is_tolerable(&injected, excuses)
    }

    #[test]
    fn a_pool_is_full_if_no_chunk_is_left() {
        let died = Some(FaultKind::Crash);
        assert!(!after(None, Cause::PoolFull, NOTHING, EXCUSES));
        assert!(!after(died, Cause::PoolFull, NOTHING, EXCUSES));
        let full = Circumstances { has_chunks: false, ..NOTHING };
        assert!(after(None, Cause::PoolFull, full, EXCUSES));
        assert!(after(None, Cause::PoolFull, NOTHING, Excuses { is_short: true, ..EXCUSES }));
        assert!(after(died, Cause::PoolFull, full, EXCUSES));
    }

    #[test]
    fn a_deadline_passes_over_a_lock_of_the_dead() {
        let (died, late) = (Some(FaultKind::Crash), Cause::Deadline { elapsed_ns: 1000 });
        let held = Circumstances { dead_hold: true, ..NOTHING };
        assert!(!after(died, late, NOTHING, EXCUSES));
        assert!(after(died, late, held, EXCUSES));
        assert!(!after(died, late, held, Excuses { after_death: AfterDeath::Recovered, ..EXCUSES }));
        assert!(!after(None, late, NOTHING, EXCUSES));
        assert!(after(None, late, NOTHING, Excuses { forwards: true, ..EXCUSES }), "an owner may not answer");
        assert!(!after(died, Cause::Deadline { elapsed_ns: 999 }, held, EXCUSES), "too early");
        assert!(!after(died, late, Circumstances { has_chunks: false, ..NOTHING }, EXCUSES), "then the pool is full");
        assert!(!after(died, late, held, Excuses { deadline_ns: 0, ..EXCUSES }), "there was none");
    }

    #[test]
    fn a_failed_request_needs_what_made_it_fail() {
        let broken = Cause::Verb(VerbError {
            status: Status::Flushed,
            verb: Verb::Read,
            label: Label::Leaf,
            node: NodeId(0),
            offset: 64,
        });
        assert!(after(Some(FaultKind::QpError), broken, NOTHING, EXCUSES));
        assert!(!after(Some(FaultKind::NodeDeath), broken, NOTHING, EXCUSES));
        assert!(after(None, broken, Circumstances { was_fenced: true, ..NOTHING }, EXCUSES));
        assert!(!after(None, broken, NOTHING, EXCUSES));
        assert!(after(None, Cause::Fenced, NOTHING, Excuses { fences_itself: true, ..EXCUSES }));
        assert!(!after(None, Cause::Fenced, NOTHING, EXCUSES));
    }
}
