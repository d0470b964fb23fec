//! Takes note of operations that failed, and of what the memories were like then.

use super::{Ended, Load};
use crate::check::OpId;
use crate::driver::Driver;
use crate::verify::tolerance::{Circumstances, Failed};
use crate::verify::wide::WideOption;
use crate::world::World;
use dm_core::operation::{Cause, OpError};

impl Load<'_, '_> {
    /// Takes note of a failure. Before the next step it is told what it was like.
    pub(super) fn fail(&mut self, operation: Option<OpId>, error: OpError) {
        self.failed.push(Failed { operation, error, circumstances: Circumstances::default() });
    }

    /// Looks whether a chunk can be granted, where chunks that were granted are freed: by sweeps, or because the pool is small.
    /// Elsewhere what is so when an operation fails was so before.
    pub(super) fn look_for_chunks(&mut self, driver: &mut Driver<'_, '_, Ended>) {
        if self.draw.wide.has_any(&[WideOption::Sweeps, WideOption::SmallPool, WideOption::Rejoin]) {
            let (now_ns, world) = (driver.now_ns(), driver.world());
            let now = Some((world.chunk_changes(), self.injected.down));
            if self.chunks_seen != now {
                let state = self.subject.pool_state(world.memories(), self.injected.down);
                self.is_full = state.is_some_and(|state| state.free_chunks == 0);
                self.chunks_seen = now;
            }
            if self.is_full {
                self.full_ns = Some(now_ns);
            }
        }
    }

    /// Tells the latest failures what it is like.
    pub(super) fn explain(&mut self, world: &World) {
        let matters = |failed: &Failed| {
            matches!(
                failed.error.cause,
                Cause::PoolFull
                    | Cause::NodeFull { .. }
                    | Cause::Deadline { .. }
                    | Cause::Retries { .. }
                    | Cause::Verb(_)
            )
        };
        if !self.failed[self.explained..].iter().any(matters) {
            self.explained = self.failed.len();
            return;
        }
        let seen = Circumstances::now(self.subject, world, &self.injected);
        for number in self.explained..self.failed.len() {
            let operation = self.failed[number].operation;
            let was_full = operation.is_some_and(|operation| {
                self.full_ns.is_some_and(|full_ns| full_ns >= self.history.operation(operation).invoked.now_ns)
            });
            let has_chunks = seen.has_chunks && !was_full;
            let was_fenced = operation.is_some_and(|operation| {
                world.fenced_by_others().contains(&self.history.operation(operation).lane.compute_node)
            });
            self.failed[number].circumstances = Circumstances { has_chunks, was_fenced, ..seen };
        }
        self.explained = self.failed.len();
    }
}
