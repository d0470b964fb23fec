//! Takes note of operations that failed, and of what the memories were like then.

use super::Load;
use crate::check::Call;
use crate::check::{OpId, Record};
use crate::verify::tolerance::{Circumstances, Failed};
use crate::world::World;
use dm_core::operation::{Cause, OpError};

impl Load<'_, '_> {
    /// Takes note of a failure. Before the next step it is told what it was like.
    pub(super) fn fail(&mut self, operation: Option<OpId>, error: OpError) {
        self.failed.push(Failed { operation, error, circumstances: Circumstances::default() });
    }

    /// Tells the latest failures what it is like.
    pub(super) fn explain(&mut self, world: &World) {
        let matters = |failed: &Failed| {
            matches!(failed.error.cause, Cause::PoolFull | Cause::Deadline { .. } | Cause::Retries { .. })
        };
        if !self.failed[self.explained..].iter().any(matters) {
            self.explained = self.failed.len();
            return;
        }
        let seen = Circumstances::now(self.subject, world, &self.injected);
        for number in self.explained..self.failed.len() {
            let operation = self.failed[number].operation;
            let went_on = operation.is_some_and(|operation| self.went_on(operation, world));
            let ran_out = operation.is_some_and(|operation| {
                let Record { invoked, answer, .. } = self.history.operation(operation);
                answer.is_some_and(|(_, end)| end.now_ns - invoked.now_ns >= self.draw.deadline_ns)
            });
            self.failed[number].circumstances = Circumstances { went_on, ran_out, ..seen };
        }
        self.explained = self.failed.len();
    }

    /// Whether somebody did something in the second half of the time that `operation` had, or a queue pair failed; or it is a
    /// scan, which waited for nobody then.
    fn went_on(&self, operation: OpId, world: &World) -> bool {
        let Record { lane, invoked, answer, call, .. } = *self.history.operation(operation);
        let Some((_, end)) = answer else { return false };
        let middle_ns = invoked.now_ns.midpoint(end.now_ns);
        let ended_late = |failed: &&Failed| matches!(failed.error.cause, Cause::Deadline { .. });
        let late: Vec<_> = self.failed.iter().filter(ended_late).map(|failed| failed.operation).collect();
        let is_other = |(number, other): (u32, &Record)| {
            other.lane != lane
                && other.answer.is_some_and(|(_, end)| end.now_ns >= middle_ns)
                && !late.contains(&Some(OpId(number)))
        };
        // A scan of long keys READs a chain of nodes again for each leaf.
        let reads = matches!(call, Call::Scan { .. }) && world.last_other_ns(lane.compute_node, lane.lane) < middle_ns;
        world.last_change_ns() >= middle_ns || reads || (0..).zip(self.history.operations()).any(is_other)
    }
}
