//! Read delegation and write combining (RDWC): lanes of one compute node that want the same key at the same time send
//! one operation to memory instead of one each (SMART section 4.4, CHIME section 4.2.2).
//!
//! Operations on one key form a *batch*. The first lane is its leader and does the work. Lanes that come while the
//! batch is open are its members: they park, and take the leader's result. A batch is closed once and answered once.
//!
//! ```text
//!            join (first)          seal                    finish
//!  no batch ─────────────► open ───────────► sealed ───────────────────► answered: members are woken
//!                          ▲  join (others)   │ meanwhile the next batch of that key may be open
//!                          └──────────────────┘
//! ```
//!
//! - The leader of a write batch seals it when it copies the value out, under the node's lock, before the WRITE.
//! - The leader of a read batch seals it before it posts the READ of a leaf.
//! - While a READ of a key is under way, the next read batch of this key fills until that READ is back.
//! - If batches saved less than they cost, all lanes work alone for a while ([`REST`]).
//!
//! [`batches`](crate::manual::batches) shows why every operation is linearizable, and when batches are worth their
//! cost.
//!
//! Here is what an operation calls, and where it waits. `join` has the batches of keys: which operation
//! leads, which ones join, and what each is told. `slot` is a lane's part, and `worth` decides when all lanes work alone.
//!
//! # Memory
//!
//! One slot per lane (key, one value), and one or two buckets per lane; nothing per key. Keys that meet in a bucket do
//! not wait for each other: one of them works alone.

mod join;
mod slot;
#[cfg(test)]
mod tests;
mod worth;

use crate::lane::{Lane, Unsettled};
use crate::marks::Mark;
use crate::operation::{Cause, Effect, OpError, OperationKind, Outcome, ScratchPlan};
use crate::verbs::Request;
use core::sync::atomic::{AtomicU32, Ordering};
pub use join::Joined;
use slot::{ANSWERED, Answer, FILLS, FOLLOWS, IDLE, LEADS};
pub use slot::{BatchSlot, Bucket};
use spin::Mutex;
pub use worth::{REST, REST_UNIT_NS, WINDOW};

/// Marks that this room counts.
pub const MARKS: &[Mark] = &[Mark::DELEGATED_READ, Mark::COMBINED_WRITE];

/// Result of [`Batches::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Work, alone.
    Alone,
    /// Work, for all members of the batch.
    Leads,
    /// Another lane has done the work.
    Told(Outcome),
}

/// Batches of one index on one compute node, shared by its lanes. See the [module](self).
pub struct Batches<'s> {
    reads: &'s [Mutex<Bucket>],
    writes: &'s [Mutex<Bucket>],
    batch_slots: &'s [BatchSlot<'s>],
    /// One for reads, one for writes: odd while all lanes work alone. The number changes when a rest begins and when
    /// it ends.
    rests: [AtomicU32; 2],
}

impl<'s> Batches<'s> {
    /// `batch_slots` has one per lane. `reads` and `writes` have some buckets per lane; with more buckets fewer keys
    /// work alone.
    pub const fn new(
        reads: &'s [Mutex<Bucket>],
        writes: &'s [Mutex<Bucket>],
        batch_slots: &'s [BatchSlot<'s>],
    ) -> Self {
        Self { reads, writes, batch_slots, rests: [const { AtomicU32::new(0) }; 2] }
    }

    fn batch_slot(&self, lane: u16) -> Option<&BatchSlot<'s>> {
        self.batch_slots.get(usize::from(lane))
    }

    /// Begins an operation: joins or opens the batch of its key, and waits as long as it has to. If the lane is to
    /// work, it calls [`Batches::seal`] where this module's documentation says, and [`Batches::finish`] if it leads.
    pub async fn begin(&self, lane: &Lane<'_>, plan: &ScratchPlan, kind: OperationKind) -> Result<Begun, OpError> {
        let joined = lane.port().with(|scratch| {
            let of = |range: &core::ops::Range<usize>| scratch.get(range.clone()).unwrap_or_default();
            self.join(lane.id(), kind, of(&plan.key), of(&plan.value))
        });
        lane.set_unsettled(Unsettled::BATCH, joined != Joined::Alone);
        match joined {
            Joined::Alone => Ok(Begun::Alone),
            Joined::Leads => Ok(Begun::Leads),
            Joined::Fills => {
                self.fill(lane).await?;
                Ok(Begun::Leads)
            }
            Joined::Follows => {
                lane.mark(if kind == OperationKind::Get { Mark::DELEGATED_READ } else { Mark::COMBINED_WRITE });
                Ok(self.follow(lane, plan, kind).await?.map_or(Begun::Alone, Begun::Told))
            }
        }
    }

    /// Parks until the READ that is under way is back, or until the operation's deadline.
    async fn fill(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(()) };
        // No data depends on this Acquire. It pairs with the Release all the same.
        while batch_slot.state.load(Ordering::Acquire) == FILLS {
            if lane.check_deadline().is_err() {
                // Filling is optional. From here on the lane does not wait for the other lane's READ.
                batch_slot.state.store(LEADS, Ordering::Relaxed);
                break;
            }
            lane.port().push(Request::park(lane.remaining_ns()));
            lane.port().submit().await?;
        }
        Ok(())
    }

    /// Parks until the answer is there. `None`: work alone.
    async fn follow(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        kind: OperationKind,
    ) -> Result<Option<Outcome>, OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(None) };
        while batch_slot.state.load(Ordering::Acquire) != ANSWERED {
            if let Err(late) = lane.check_deadline() {
                // The value of a write may be written all the same. The slot stays in use: settling waits for the
                // answer.
                let effect = if kind == OperationKind::Get { Effect::None } else { Effect::Unknown };
                return Err(OpError { effect, ..late });
            }
            lane.port().push(Request::park(lane.remaining_ns()));
            lane.port().submit().await?;
        }
        let answer = lane.port().with(|scratch| {
            let part = batch_slot.part.lock();
            if part.answer == Answer::Outcome(Outcome::Found)
                && let Some(output) = scratch.get_mut(plan.output.clone())
            {
                for (to, from) in output.iter_mut().zip(&*part.value) {
                    *to = *from;
                }
            }
            part.answer
        });
        batch_slot.state.store(IDLE, Ordering::Relaxed);
        lane.set_unsettled(Unsettled::BATCH, false);
        match answer {
            Answer::Alone => Ok(None),
            Answer::Outcome(outcome) => Ok(Some(outcome)),
            Answer::Unknown(cause) => Err(OpError { effect: Effect::Unknown, cause }),
        }
    }

    /// Answers the members of the batch that the lane leads, wakes them, and ends the batch. If the leader's WRITE
    /// may still be under way, it does nothing and leaves that to [`Batches::settle`].
    pub async fn finish(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        result: &Result<Outcome, OpError>,
    ) -> Result<(), OpError> {
        if let Err(failed @ OpError { effect: Effect::Unknown, .. }) = result
            && let Some(batch_slot) = self.batch_slot(lane.id().0)
        {
            batch_slot.part.lock().failed = Some(*failed);
            return Ok(());
        }
        self.judge(lane.id(), lane.port().elapsed_ns());
        self.conclude(lane, plan, result).await
    }

    async fn conclude(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        result: &Result<Outcome, OpError>,
    ) -> Result<(), OpError> {
        let port = lane.port();
        loop {
            let answered = port.with(|scratch| {
                let found = scratch.get(plan.output.clone()).unwrap_or_default();
                self.answer(lane.id(), result, found)
            });
            for member in answered.woken {
                port.push(Request::wake(member));
            }
            if answered.is_done {
                break;
            }
            port.submit().await?;
        }
        if let Some(filling) = self.end(lane.id()) {
            port.push(Request::wake(filling));
        }
        lane.set_unsettled(Unsettled::BATCH, false);
        Ok(())
    }

    /// Leaves the batch of a failed or dropped operation: see [`crate::index::Index::settle`]. All its requests have
    /// completed, and it has no lock record any more. If the lane leads, its members learn that the effect is
    /// unknown, or work alone if the batch was never sealed. If the lane is a member, it waits for its answer, since
    /// its slot belongs to the batch until then.
    pub async fn settle(&self, lane: &Lane<'_>, plan: &ScratchPlan) -> Result<(), OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(()) };
        match batch_slot.state.load(Ordering::Acquire) {
            LEADS | FILLS => {
                let lost = {
                    let part = batch_slot.part.lock();
                    let effect = if part.kind == OperationKind::Get { Effect::None } else { Effect::Unknown };
                    Err(part.failed.unwrap_or(OpError { effect, cause: Cause::LeaderLost }))
                };
                self.conclude(lane, plan, &lost).await
            }
            FOLLOWS | ANSWERED => {
                while batch_slot.state.load(Ordering::Acquire) != ANSWERED {
                    lane.check_deadline()?;
                    lane.port().push(Request::park(lane.remaining_ns()));
                    lane.port().submit().await?;
                }
                batch_slot.state.store(IDLE, Ordering::Relaxed);
                lane.set_unsettled(Unsettled::BATCH, false);
                Ok(())
            }
            _ => {
                lane.set_unsettled(Unsettled::BATCH, false);
                Ok(())
            }
        }
    }
}
