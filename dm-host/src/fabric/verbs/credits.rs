//! Calls that one queue pair has under way, and whose reply is whose.
//!
//! ```text
//!           begin                    reply
//!   FREE ──────────► WAITING ─────────────────────► FREE
//!    ▲                  │ given up                   ▲
//!    │                  └──────────► GIVEN UP ───────┘ reply, which nobody wants any more
//!    └──────────── the queue pair ended, at both ends
//! ```
//!
//! A call has one of as many *credits* as the memory node granted. It keeps its credit until its reply arrives, even if its lane was
//! told that there is none: the memory node may still have its receive, and this end has to have one for the reply. So neither
//! end's receive queue overflows.
//!
//! **What a given-up call tells.** It may be executed still, or later, until its reply has come or its queue pair has ended at both
//! ends: the memory node says that only when it executes none of its calls. So as long as a credit of a lane is given up, what the
//! lane has asked of the memory node is not closed ([`Credits::is_left`]).
//!
//! The id of a call is its credit's number and a generation, which grows with each call that has the credit. A reply with another
//! generation is nobody's.

use crate::memory_node::verbs::planted::{Planted, planted};
use dm_core::verbs::LaneId;
use std::time::Instant;

/// Bits of an id for the number of the credit.
const NUMBER_BITS: u32 = 16;

/// The lane that waits for a reply, and where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Position of the lane, and its id.
    pub lane: u16,
    pub id: LaneId,
    /// Position in its submit.
    pub position: u8,
    /// Where in its scratch the answer begins, and how long it may be.
    pub local: usize,
    pub answer_bytes: usize,
    /// The call is given up then.
    pub until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting(Waiter),
    GivenUp(LaneId),
}

#[derive(Clone, Copy, Debug)]
struct Credit {
    generation: u64,
    state: State,
}

/// Whose a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    To(Waiter),
    /// To a call that was given up.
    Late,
    /// To no call.
    Unknown,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Credits {
    credits: Vec<Credit>,
    waiting: usize,
}

impl Credits {
    /// Grants as many credits, all free. No call may wait. Generations go on, so that ids are not used again.
    pub(super) fn grant(&mut self, count: usize) {
        debug_assert_eq!(self.waiting, 0);
        let first = self.credits.iter().map(|credit| credit.generation + 1).max().unwrap_or(0);
        self.credits = vec![Credit { generation: first, state: State::Free }; count.min(1 << NUMBER_BITS)];
    }

    /// Whether there are any.
    pub(super) fn is_granted(&self) -> bool {
        !self.credits.is_empty()
    }

    /// Calls that lanes wait for.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a credit for a call. Returns its number, and the id of the call. `None`: there is no free one.
    pub(super) fn begin(&mut self, waiter: Waiter) -> Option<(usize, u64)> {
        let number = self.credits.iter().position(|credit| credit.state == State::Free)?;
        let credit = &mut self.credits[number];
        credit.state = State::Waiting(waiter);
        self.waiting += 1;
        Some((number, credit.generation << NUMBER_BITS | number as u64))
    }

    /// Whose the reply to call `id` is. It gives the credit back.
    pub(super) fn reply(&mut self, id: u64) -> Reply {
        let number = id as usize & ((1 << NUMBER_BITS) - 1);
        let Some(credit) = self.credits.get_mut(number) else { return Reply::Unknown };
        if credit.generation != id >> NUMBER_BITS && !planted(Planted::LateReplyTaken) {
            return Reply::Unknown;
        }
        let whose = match credit.state {
            State::Free => return Reply::Unknown,
            State::GivenUp(_) if planted(Planted::CreditLeak) => return Reply::Late,
            State::GivenUp(_) => Reply::Late,
            State::Waiting(waiter) => {
                self.waiting -= 1;
                Reply::To(waiter)
            }
        };
        *credit = Credit { generation: credit.generation + 1, state: State::Free };
        whose
    }

    /// Takes back a call that was not sent.
    pub(super) fn cancel(&mut self, id: u64) {
        let _ = self.reply(id);
    }

    /// Gives up a call whose time is over by `now`. Its credit stays taken. Returns the waiter.
    pub(super) fn give_up(&mut self, now: Instant) -> Option<Waiter> {
        self.credits.iter_mut().find_map(|credit| match credit.state {
            State::Waiting(waiter) if waiter.until <= now => {
                credit.state = if planted(Planted::LateReplyTaken) { State::Free } else { State::GivenUp(waiter.id) };
                self.waiting -= 1;
                Some(waiter)
            }
            _ => None,
        })
    }

    /// Whether a call that this lane has given up may be executed still.
    pub(super) fn is_left(&self, lane: LaneId) -> bool {
        self.credits.iter().any(|credit| credit.state == State::GivenUp(lane)) && !planted(Planted::LeftCallForgotten)
    }

    /// The queue pair has ended: no reply will come. Returns one call that a lane waits for; call it until there is none.
    pub(super) fn end(&mut self) -> Option<Waiter> {
        self.credits.iter_mut().find_map(|credit| {
            let State::Waiting(waiter) = credit.state else { return None };
            credit.state = State::GivenUp(waiter.id);
            self.waiting -= 1;
            Some(waiter)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_node::verbs::planted::with_planted;
    use std::time::Duration;

    fn waiter(lane: u16, until: Instant) -> Waiter {
        Waiter { lane, id: LaneId(lane), position: 0, local: 0, answer_bytes: 8, until }
    }

    /// Gives calls up, one after the other, whose replies come late. How many could be begun, of 100.
    fn begun_though_replies_are_late(bug: Option<Planted>) -> usize {
        let (now, mut credits) = (Instant::now(), Credits::default());
        credits.grant(4);
        with_planted(bug, || {
            (0..100)
                .filter(|_| {
                    let Some((_, id)) = credits.begin(waiter(1, now)) else { return false };
                    assert!(credits.give_up(now).is_some() && credits.give_up(now).is_none());
                    assert_eq!(credits.reply(id), Reply::Late);
                    true
                })
                .count()
        })
    }

    #[test]
    fn a_late_reply_gives_the_credit_back() {
        assert_eq!(begun_though_replies_are_late(None), 100);
        assert_eq!(begun_though_replies_are_late(Some(Planted::CreditLeak)), 4);
    }

    /// A call is given up, and another one is begun; then the reply to the first one comes. Whose it is taken for.
    fn whose_is_a_late_reply(bug: Option<Planted>) -> Reply {
        let (now, mut credits) = (Instant::now(), Credits::default());
        let later = now + Duration::from_mins(1);
        credits.grant(2);
        with_planted(bug, || {
            let (_, first) = credits.begin(waiter(1, now)).unwrap();
            let (_, second) = credits.begin(waiter(2, later)).unwrap();
            assert_eq!(credits.give_up(now), Some(waiter(1, now)));
            assert_eq!(credits.reply(second), Reply::To(waiter(2, later)));
            for lane in 3..8 {
                if let Some((_, third)) = credits.begin(waiter(lane, later))
                    && bug.is_none()
                {
                    assert_eq!(credits.reply(third), Reply::To(waiter(lane, later)));
                }
            }
            credits.reply(first)
        })
    }

    #[test]
    fn a_late_reply_is_taken_for_no_other() {
        assert_eq!(whose_is_a_late_reply(None), Reply::Late);
        assert!(matches!(whose_is_a_late_reply(Some(Planted::LateReplyTaken)), Reply::To(_)));
    }

    /// A lane gives a call up. Whether what it has left counts as closed before the reply has come.
    fn is_closed_too_early(bug: Option<Planted>) -> bool {
        let (now, mut credits) = (Instant::now(), Credits::default());
        let (lane, other) = (LaneId(1), LaneId(2));
        credits.grant(2);
        with_planted(bug, || {
            let (_, id) = credits.begin(waiter(lane.0, now)).unwrap();
            assert!(!credits.is_left(lane), "its lane waits for it, and asks nothing");
            assert!(credits.give_up(now).is_some() && !credits.is_left(other));
            let is_closed = !credits.is_left(lane);
            assert_eq!(credits.reply(id), Reply::Late);
            assert!(!credits.is_left(lane));
            // The queue pair ends before the reply comes. The next one is granted when the memory node has closed it.
            let _ = credits.begin(waiter(lane.0, now)).unwrap();
            assert!(credits.end().is_some() && (credits.is_left(lane) || bug.is_some()));
            credits.grant(2);
            assert!(!credits.is_left(lane));
            is_closed
        })
    }

    #[test]
    fn a_call_that_was_given_up_is_not_closed_before_its_reply_has_come() {
        assert!(!is_closed_too_early(None));
        assert!(is_closed_too_early(Some(Planted::LeftCallForgotten)));
    }

    #[test]
    fn replies_that_nobody_asked_for_change_nothing() {
        let (now, mut credits) = (Instant::now(), Credits::default());
        assert_eq!((credits.begin(waiter(1, now)), credits.reply(0)), (None, Reply::Unknown), "nothing was granted");
        credits.grant(2);
        let (number, id) = credits.begin(waiter(1, now)).unwrap();
        assert_eq!(number, 0);
        for wrong in [id + 1, id + 2, id + (1 << NUMBER_BITS), u64::MAX] {
            assert_eq!((credits.reply(wrong), credits.waiting()), (Reply::Unknown, 1));
        }
        assert_eq!(credits.reply(id), Reply::To(waiter(1, now)));
        assert_eq!((credits.reply(id), credits.waiting()), (Reply::Unknown, 0), "twice");
    }

    #[test]
    fn a_new_queue_pair_has_all_credits_and_no_earlier_ids() {
        let (now, mut credits) = (Instant::now(), Credits::default());
        credits.grant(2);
        let (_, first) = credits.begin(waiter(1, now)).unwrap();
        assert!(credits.give_up(now).is_some());
        let (_, second) = credits.begin(waiter(2, now)).unwrap();
        assert_eq!(credits.begin(waiter(3, now)), None);
        assert_eq!((credits.end(), credits.end()), (Some(waiter(2, now)), None));
        credits.grant(2);
        let ids = [(); 2].map(|()| credits.begin(waiter(4, now)).unwrap().1);
        assert!(!ids.contains(&first) && !ids.contains(&second));
        assert_eq!(credits.reply(second), Reply::Unknown);
    }
}
