//! How an operation on a radix tree holds back the epochs, and how it waits for memory.

use super::tree::Tree;
use crate::index::runner::{self, Patience};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::memory::{Collection, Participant};
use crate::operation::{Cause, OpError};
use crate::port::State;
use crate::verbs::Request;
use core::future::Future;

/// How long an operation waits for memory at once, in ns: many turns of the epochs, but less than a lease. Before it has a
/// chunk granted, it waits for half of the time that it has left at most.
const PATIENCE_NS: u64 = 1_000_000_000;

/// First and longest pause while it waits, in ns.
const PAUSE_NS: (u64, u64) = (500_000, 4_000_000);

/// It gives up so long before its deadline, in ns, or when an eighth of its time is left if that is shorter. Members of its
/// batch began after it, and have the same time. So they learn before their own deadline that they work alone, and say
/// themselves that the pool is full; otherwise they could only say that a deadline passed, with an unknown effect.
const ANSWER_NS: u64 = 4_000_000;

/// How often it waits rather than have a chunk granted: what was freed may have gone to others.
const PATIENT_WAITS: u32 = 3;

/// How often it waits at all, on a full pool: its deadline comes before.
const WAITS_MAX: u32 = 1 << 16;

/// An operation that follows pointers.
pub(crate) struct UnderWay<'a, 'm, 's> {
    part: Option<Participant<'s>>,
    lane: &'a Lane<'m>,
    collection: Option<&'s Collection<'s>>,
}

impl runner::UnderWay for UnderWay<'_, '_, '_> {
    /// If a request failed, it is still under way, until its lane is settled.
    fn ends<T>(&mut self, result: &Result<T, OpError>) {
        let failed = matches!(result, Err(OpError { cause: Cause::Verb(_), .. }));
        match self.part.take() {
            Some(part) if !failed && !self.lane.must_settle() => part.leave(self.lane),
            _ => self.cut_short(),
        }
    }
}

impl UnderWay<'_, '_, '_> {
    /// What it had carved, or taken out of the tree, it may not have told the space.
    fn cut_short(&self) {
        if let Some(collection) = self.collection {
            collection.may_have_lost();
        }
    }
}

impl Drop for UnderWay<'_, '_, '_> {
    fn drop(&mut self) {
        // A future that is dropped may have requests under way, or locks.
        if let Some(part) = self.part {
            if self.lane.port().state() == State::Idle && !self.lane.must_settle() {
                part.leave(self.lane);
            }
            self.cut_short();
        }
    }
}

impl<'s> Tree<'s> {
    /// What follows pointers holds the answer.
    pub(crate) fn pin<'a, 'm>(&self, lane: &'a Lane<'m>) -> UnderWay<'a, 'm, 's> {
        if let Some(part) = self.epochs {
            part.enter(lane);
        }
        UnderWay { part: self.epochs, lane, collection: self.space.collection() }
    }

    /// While an operation waits for memory, it follows no pointers and holds no lock. So it gives up its pin: the pin
    /// would hold up the very epoch that the operation waits for. That epoch passes when all other operations have
    /// ended; `fence_unresponsive` fences a compute node that does not respond.
    ///
    /// At first the operation waits for places that leave the limbo list soon: they are reused before another chunk is
    /// granted. If that takes longer than [`PATIENCE_NS`], or other lanes took these places, a chunk is granted if the
    /// pool has one.
    pub(crate) async fn await_memory(
        &self,
        lane: &Lane<'_>,
        patience: &mut Patience,
        fence_unresponsive: impl Future<Output = ()>,
    ) -> Result<(), OpError> {
        let full = Interrupt::NoMemory.into_error();
        let (Some(part), Some(asked)) = (self.epochs, self.space.is_short()) else { return Err(full) };
        let answer_ns = ANSWER_NS.min(lane.wait_ns() / 8).max(1);
        let time_left_ns = || lane.remaining_ns().saturating_sub(answer_ns);
        if time_left_ns() == 0 && patience.is_left && !lane.must_settle() {
            // It has not asked for a chunk yet. It must not say that there is none before it has.
            patience.is_left = false;
            return Ok(());
        }
        if lane.must_settle() || patience.waits == WAITS_MAX || time_left_ns() == 0 {
            return Err(full);
        }
        patience.waits += 1;
        part.leave(lane);
        fence_unresponsive.await;
        let port = lane.port();
        let began_ns = port.elapsed_ns();
        // An operation that would spend all its time would say that the pool is full, though a chunk is left.
        let patience_ns = if patience.is_left { PATIENCE_NS.min(lane.remaining_ns() / 2) } else { PATIENCE_NS };
        let mut pause_ns = PAUSE_NS.0;
        let mut is_back = false;
        while !is_back
            && let left_ns @ 1.. = patience_ns.saturating_sub(port.elapsed_ns() - began_ns).min(time_left_ns())
        {
            port.call(Request::pause(pause_ns.min(left_ns))).await?;
            pause_ns = (pause_ns * 2).min(PAUSE_NS.1);
            is_back = self.space.is_back(asked);
        }
        patience.is_left = is_back && patience.waits < PATIENT_WAITS;
        part.enter(lane);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pin::Pin;
    use crate::memory::{Epochs, MarkBitmap};
    use crate::verbs::LaneId;

    #[test]
    fn an_operation_that_is_dropped_while_it_posts_nothing_gives_up_its_pin() {
        let (epochs, pins) = (Epochs::new(), [Pin::default()]);
        let part = Participant { epochs: &epochs, pins: &pins };
        let collection = Collection::new(MarkBitmap::new(&mut [], &mut []), false);
        let lane = Lane::new(LaneId(0), &mut []);
        part.enter(&lane);
        assert_ne!(part.epoch(&lane), 0);
        drop(UnderWay { part: Some(part), lane: &lane, collection: Some(&collection) });
        assert_eq!(part.epoch(&lane), 0);
        assert!(collection.may_have_lost_for_tests(), "what it had carved");
    }
}
