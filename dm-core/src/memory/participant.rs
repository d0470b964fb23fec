//! A compute node's part in the epochs: operations pin the epoch that they begin in, and turns publish the oldest one.

use super::Busy;
use super::epochs::{Epochs, Turn, Waits};
use super::pin::{IDLE, Pin, Pinned};
use super::rows::{self, RowError};
use crate::lane::Lane;
use crate::mutants::{Mutant, planted};
use crate::remote::NodeGeometry;
use crate::remote::row::Member;
use core::sync::atomic::{Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

/// A compute node's part in the epochs.
#[derive(Clone, Copy, Debug)]
pub struct Participant<'s> {
    /// Its view.
    pub epochs: &'s Epochs,
    /// One per lane.
    pub pins: &'s [Pin],
}

impl<'s> Participant<'s> {
    /// Begins an operation of `lane`, which ends when the result is dropped. Within another operation of that lane it
    /// shares that one's pin.
    #[inline]
    pub(crate) fn pin(&self, lane: &Lane<'_>) -> Pinned<'s> {
        let Some(pin) = self.pins.get(usize::from(lane.id().0)) else {
            // Nothing says how old its pointers are.
            self.epochs.publish_no_epoch();
            return Pinned(None);
        };
        if pin.0.load(Relaxed) != IDLE {
            return Pinned(None);
        }
        let mut now = self.epochs.now.load(Relaxed);
        loop {
            pin.0.store(now, SeqCst);
            let again = self.epochs.now.load(SeqCst);
            if again == now {
                return Pinned(Some(pin));
            }
            now = again;
        }
    }

    /// Begins an operation of `lane` that posts more than READs where pointers lead. What it posted may take effect
    /// after its future was dropped or a request failed. So it ends with [`Participant::leave`], or when the next one
    /// begins: [`Lane::check_settled`] refuses that while anything can take effect. A step of an operation shares that
    /// one's pin.
    pub(crate) fn enter(&self, lane: &Lane<'_>) {
        if lane.is_in_steps() {
            return;
        }
        self.leave(lane);
        let pinned = self.pin(lane);
        if !planted(Mutant::PINS_END_EARLY) {
            core::mem::forget(pinned);
        }
    }

    /// Nothing that `lane` has posted can take effect any more, and it follows no pointers; unless this was a step of
    /// an operation, which continues.
    pub(crate) fn leave(&self, lane: &Lane<'_>) {
        if lane.is_in_steps() {
            return;
        }
        if let Some(Pin(pin)) = self.pins.get(usize::from(lane.id().0)) {
            pin.store(IDLE, Release);
        }
    }

    /// As [`Participant::enter`], for an operation whose steps are operations themselves.
    pub(crate) fn enter_steps(&self, lane: &Lane<'_>) {
        self.leave_steps(lane);
        if planted(Mutant::ITEMS_PINS_END_EARLY) {
            return;
        }
        self.enter(lane);
        lane.set_in_steps(true);
    }

    /// As [`Participant::leave`], for such an operation.
    pub(crate) fn leave_steps(&self, lane: &Lane<'_>) {
        lane.set_in_steps(false);
        self.leave(lane);
    }

    /// The epoch of the operation that `lane` is in; 0: it is in none.
    #[inline]
    pub(crate) fn epoch(&self, lane: &Lane<'_>) -> u32 {
        self.pins.get(usize::from(lane.id().0)).map_or(0, |Pin(pin)| pin.load(Relaxed))
    }

    /// A turn without a heartbeat: WRITEs the epoch to the row, and continues as [`crate::membership::lease::keep`]
    /// does. Returns at once if another lane does it.
    ///
    /// Two round trips; while places wait, two more and one for eight rows.
    pub async fn turn(
        &self,
        lane: &Lane<'_>,
        home: &NodeGeometry,
        member: Member,
        scratch: usize,
    ) -> Result<(), RowError> {
        self.turn_after(lane, home, member, (u64::MAX, 0), scratch).await
    }

    /// The same, which notes for how long others have been unresponsive, as [`crate::membership::lease::keep`] does: lets them
    /// be so for `lease_ns`, and comes `since_ns` after the last such turn.
    pub async fn turn_after(
        &self,
        lane: &Lane<'_>,
        home: &NodeGeometry,
        member: Member,
        (lease_ns, since_ns): (u64, u64),
        scratch: usize,
    ) -> Result<(), RowError> {
        let Some(_busy) = Busy::begin(&self.epochs.busy) else { return Ok(()) };
        let waits = Waits { lease_ns, since_ns, for_all: true };
        self.turn_of(lane, home, member, waits, scratch).await.map(|_| ())
    }

    /// A turn without a heartbeat; returns the epoch that the row says from then on.
    pub(crate) async fn turn_of(
        &self,
        lane: &Lane<'_>,
        home: &NodeGeometry,
        member: Member,
        waits: Waits,
        scratch: usize,
    ) -> Result<u32, RowError> {
        let number = self.epochs.begin();
        let epoch = self.epochs.publishable(self.pins);
        let pool_word = rows::publish_epoch(lane, home, member, u64::from(epoch), scratch).await?;
        let turn = Turn { number, pool_word, waits };
        self.epochs.end(lane, home, member, turn, scratch).await?;
        Ok(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::LaneId;

    fn pins() -> [Pin; 2] {
        [Pin::default(), Pin::default()]
    }

    #[test]
    fn a_row_says_the_oldest_operations_epoch() {
        let (epochs, pins) = (Epochs::new(), pins());
        let part = Participant { epochs: &epochs, pins: &pins };
        let (mut first, mut second) = ([0; 8], [0; 8]);
        let (first, second) = (Lane::new(LaneId(0), &mut first), Lane::new(LaneId(1), &mut second));
        let early = part.pin(&first);
        epochs.now.store(5, SeqCst);
        let late = part.pin(&second);
        assert_eq!((part.epoch(&first), part.epoch(&second), epochs.publishable(&pins)), (1, 5, 1));
        drop(part.pin(&first));
        assert_eq!(epochs.publishable(&pins), 1, "an operation within another one ends with that");
        drop(early);
        assert_eq!(epochs.publishable(&pins), 5);
        epochs.now.store(7, SeqCst);
        drop(late);
        assert_eq!(epochs.publishable(&pins), 7);
        epochs.publish_no_epoch();
        assert_eq!(epochs.publishable(&pins), 0);
    }

    #[test]
    fn steps_have_the_pin_of_their_operation() {
        let (epochs, pins) = (Epochs::new(), pins());
        let part = Participant { epochs: &epochs, pins: &pins };
        let mut bytes = [0; 8];
        let lane = Lane::new(LaneId(0), &mut bytes);
        part.enter_steps(&lane);
        epochs.now.store(5, SeqCst);
        drop(part.pin(&lane));
        assert_eq!(part.epoch(&lane), 1, "a step that is a B+-tree's");
        part.enter(&lane);
        assert_eq!(part.epoch(&lane), 1, "a step that begins as a radix tree's");
        part.leave(&lane);
        assert_eq!((part.epoch(&lane), epochs.publishable(&pins)), (1, 1), "and ends");
        part.enter_steps(&lane);
        assert_eq!(part.epoch(&lane), 5, "the next operation");
        part.leave_steps(&lane);
        assert_eq!(part.epoch(&lane), IDLE);
        part.enter(&lane);
        part.leave(&lane);
        assert_eq!(part.epoch(&lane), IDLE, "an operation that comes later is no step");
    }
}
