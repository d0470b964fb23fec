//! Whether batches are worth their cost: if they saved less than they cost, all lanes work alone for a while.

use super::Batches;
use crate::lane::Lane;
use crate::operation::OperationKind;
use crate::verbs::LaneId;
use core::sync::atomic::{AtomicU32, Ordering};

/// Number of batches that a lane leads before it compares what they saved with what they cost.
pub const WINDOW: u32 = 256;

/// Number of operations of one lane alone before all lanes try again. It is so large that the cost of trying does not
/// matter. An operation that waits for a fabric counts for several ([`REST_UNIT_NS`]).
pub const REST: u32 = 32 * WINDOW;

/// How long an operation on shared memory takes, in ns. In a rest, an operation that takes n times as long counts as
/// n: the cost of trying is a matter of time, and a rest that a lone lane has begun must not last when others come.
pub const REST_UNIT_NS: u64 = 512;

/// What a batch costs its leader, in ns. This is half of what it costs on shared memory, since on a saturated fabric
/// all other lanes gain what one lane saves.
const COST_NS: u64 = 50;

/// What batches saved and cost a lane, and what it did without them. Only that lane writes it.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Batches that the lane led.
    led: AtomicU32,
    /// Members of these batches.
    members: AtomicU32,
    /// How long the operations of the leaders took, in units of 64 ns.
    took: AtomicU32,
    /// The number of the rest in which the lane last worked alone.
    rest: AtomicU32,
    /// Operations that it has done alone in that rest.
    alone: AtomicU32,
}

impl Account {
    /// Counts `more` operations alone, in the rest with this `number`. Returns the count.
    #[inline]
    fn work_alone(&self, number: u32, more: u32) -> u32 {
        let known = if self.rest.load(Ordering::Relaxed) == number { self.alone.load(Ordering::Relaxed) } else { 0 };
        let count = known.saturating_add(more);
        self.rest.store(number, Ordering::Relaxed);
        self.alone.store(count, Ordering::Relaxed);
        count
    }

    /// Counts a batch. Returns `true` if [`WINDOW`] batches have been counted and saved less than they cost.
    pub(super) fn count(&self, members: u32, took_ns: u64) -> bool {
        let add = |to: &AtomicU32, more: u32| {
            let sum = to.load(Ordering::Relaxed).saturating_add(more);
            to.store(sum, Ordering::Relaxed);
            sum
        };
        let members = add(&self.members, members);
        let took = add(&self.took, u32::try_from(took_ns / 64).unwrap_or(u32::MAX));
        let led = add(&self.led, 1);
        if led < WINDOW {
            return false;
        }
        for sum in [&self.led, &self.members, &self.took] {
            sum.store(0, Ordering::Relaxed);
        }
        // Each member saved one operation's time.
        let saved_ns = u64::from(members) * (u64::from(took) * 64 / u64::from(led));
        saved_ns < u64::from(led) * COST_NS
    }
}

impl Batches<'_> {
    /// Whether an operation is counted as a read or as a write.
    const fn side(kind: OperationKind) -> usize {
        if matches!(kind, OperationKind::Get) { 0 } else { 1 }
    }

    /// Whether the operation should work alone, without [`Batches::begin`]: it cannot be shared, or batches were not
    /// worth their cost lately. When it has ended, the lane calls [`Batches::worked_alone`].
    #[inline]
    pub(crate) fn stays_away(&self, kind: OperationKind) -> bool {
        !Self::fits(kind, kind) || self.rests(kind)
    }

    #[inline]
    fn rests(&self, kind: OperationKind) -> bool {
        let [reads, writes] = &self.rests;
        let rests = if Self::side(kind) == 0 { reads } else { writes };
        !rests.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Counts an operation that stayed away, now that it has ended. The lane whose count reaches the length of the
    /// rest ends the rest.
    #[inline]
    pub(crate) fn worked_alone(&self, lane: &Lane<'_>, kind: OperationKind) {
        let side = Self::side(kind);
        let Some(rests) = self.rests.get(side) else { return };
        let number = rests.load(Ordering::Relaxed);
        if number.is_multiple_of(2) {
            return;
        }
        let took = u32::try_from(lane.port().elapsed_ns() / REST_UNIT_NS).unwrap_or(u32::MAX);
        let account = self.batch_slot(lane.id().0).and_then(|batch_slot| batch_slot.accounts.get(side));
        if account.is_some_and(|account| account.work_alone(number, took.saturating_add(1)) >= REST) {
            // A second lane finds another number, and does nothing.
            let _ = rests.compare_exchange(number, number.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Counts the batch that `lane` led. `took_ns`: how long its operation took.
    pub(super) fn judge(&self, lane: LaneId, took_ns: u64) {
        let Some(batch_slot) = self.batch_slot(lane.0) else { return };
        let (kind, members) = {
            let part = batch_slot.part.lock();
            (part.kind, part.count)
        };
        let side = Self::side(kind);
        if let (Some(account), Some(rests)) = (batch_slot.accounts.get(side), self.rests.get(side))
            && account.count(u32::from(members), took_ns)
        {
            let number = rests.load(Ordering::Relaxed);
            if number.is_multiple_of(2) {
                let _ = rests.compare_exchange(number, number.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}
