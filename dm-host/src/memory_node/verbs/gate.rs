//! Whether calls may be served: one gate for each queue pair, which holds the queue pair.
//!
//! **Fencing.** A SEND that was received may be served after its queue pair was closed: it waits in the completion queue, or a
//! thread is at work on it. So a memory node that confirms that a compute node is fenced off closes its gates first: from then on
//! no call of theirs is begun ([`Gate::shut`]), and when [`Gate::close`] returns, none that was begun is running. Reads alone
//! would not need that: a call that changes bytes does.
//!
//! The race: a thread begins a call while another one closes. Both look at `open` and at `running` under the gate's mutex.
//! Either the call is counted before, and then the closing thread waits for it, or it finds the gate shut, and is dropped.

use super::planted::{Planted, planted};
use dm_core::verbs::Callee;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// See the module's documentation. `P` is the queue pair.
#[derive(Debug)]
pub(super) struct Gate<P> {
    pub(super) terms: Terms,
    state: Mutex<State<P>>,
    idle: Condvar,
}

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Its number.
    pub number: u32,
    /// Calls that its peer may have under way, or more than are passed on to it at a time.
    pub credits: u32,
    /// The callee that its peer is; the memory node: none.
    pub serves: Callee,
}

#[derive(Debug)]
struct State<P> {
    pair: Option<P>,
    open: bool,
    /// Calls that were begun, and not ended.
    running: u32,
}

/// A call that was begun. It ends when this is dropped, without a reply.
#[derive(Debug)]
pub(super) struct Begun<P>(Option<Arc<Gate<P>>>);

/// Why a call is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// The gate is shut.
    Away,
    /// The peer sends more calls than it may.
    TooMany,
}

impl<P> Gate<P> {
    pub(super) fn new(pair: P, terms: Terms) -> Arc<Self> {
        let state = State { pair: Some(pair), open: true, running: 0 };
        Arc::new(Self { terms, state: Mutex::new(state), idle: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Begun<P>, Turned> {
        let mut state = self.lock();
        if !state.open && !planted(Planted::HandlerAfterFence) {
            return Err(Turned::Away);
        }
        if state.running >= self.terms.credits {
            return Err(Turned::TooMany);
        }
        state.running += 1;
        Ok(Begun(Some(Arc::clone(self))))
    }

    /// Uses the queue pair, if the gate is not closed.
    pub(super) fn with<R>(&self, each: impl FnOnce(&mut P) -> R) -> Option<R> {
        self.lock().pair.as_mut().map(each)
    }

    /// Whether calls are begun.
    pub(super) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// From now on no call is begun.
    pub(super) fn shut(&self) {
        self.lock().open = false;
    }

    /// Shuts the gate, waits until no call is running, and takes the queue pair out. `None`: it was taken out before.
    pub(super) fn close(&self) -> Option<P> {
        let mut state = self.lock();
        state.open = false;
        while state.running > 0 && !planted(Planted::FenceWithoutWait) {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pair.take()
    }
}

impl<P> State<P> {
    fn end(&mut self, idle: &Condvar) {
        self.running -= 1;
        if self.running == 0 {
            idle.notify_all();
        }
    }
}

impl<P> Begun<P> {
    /// Whether its gate is open still.
    pub(super) fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|gate| gate.is_open())
    }

    /// What its queue pair is for.
    pub(super) fn terms(&self) -> Option<Terms> {
        self.0.as_ref().map(|gate| gate.terms)
    }

    /// Replies by the queue pair, if it is still there, and ends the call. Its peer has the reply after that, and so may send
    /// another call: both happen under one lock, so that the other call finds this one ended.
    pub(super) fn end<R>(mut self, reply: impl FnOnce(&mut P) -> R) -> Option<R> {
        let gate = self.0.take()?;
        let mut state = gate.lock();
        let replied = state.pair.as_mut().map(reply);
        state.end(&gate.idle);
        replied
    }
}

impl<P> Drop for Begun<P> {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.lock().end(&gate.idle);
        }
    }
}

/// How many calls a new queue pair may have under way that asks for `asked`, of `all`, of which `granted` are granted: at most a
/// sixteenth of what is left, so that there is something for many.
pub(super) fn share_of(all: u32, granted: u32, asked: u32) -> u32 {
    let left = all.saturating_sub(granted);
    asked.min((left / 16).max(1)).min(left)
}

#[cfg(test)]
mod tests {
    use super::super::planted::with_planted;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const TERMS: Terms = Terms { number: 1, credits: 1, serves: Callee::MEMORY_NODE };

    /// Fences a compute node while a call of it is running, and one waits. Whether a call ran after the fence was confirmed.
    fn runs_after_fence(bug: Option<Planted>) -> bool {
        let gate = Gate::new("a queue pair", Terms { credits: 2, ..TERMS });
        let running = gate.begin().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                is_over.store(true, Ordering::SeqCst);
                assert!(
                    running.end(|_| ()).is_some() || bug.is_some(),
                    "it replies before the queue pair is destroyed"
                );
            });
            let confirmed = with_planted(bug, || {
                let pair = gate.close();
                assert_eq!(pair, Some("a queue pair"));
                !is_over.load(Ordering::SeqCst) || gate.begin().is_ok()
            });
            server.join().unwrap();
            confirmed
        })
    }

    #[test]
    fn a_fence_is_confirmed_when_no_call_is_running_and_none_begins() {
        assert!(!runs_after_fence(None));
        assert!(runs_after_fence(Some(Planted::FenceWithoutWait)));
        assert!(runs_after_fence(Some(Planted::HandlerAfterFence)));
    }

    #[test]
    fn a_gate_that_is_shut_lets_calls_end() {
        let gate = Gate::new(5, TERMS);
        let begun = gate.begin().unwrap();
        assert_eq!(gate.begin().unwrap_err(), Turned::TooMany);
        gate.shut();
        assert_eq!(begun.end(|pair| *pair), Some(5));
        assert_eq!(gate.begin().unwrap_err(), Turned::Away);
        assert_eq!((gate.close(), gate.close()), (Some(5), None));
        assert_eq!(gate.with(|pair| *pair), None);
    }

    #[test]
    fn credits_of_all_queue_pairs_are_never_more_than_there_are_receives() {
        for (all, asked) in [(1024, 16), (1024, u32::MAX), (3, 16), (0, 16), (1, 0)] {
            let (mut granted, mut pairs) = (0, 0);
            for _ in 0..2000 {
                let share = share_of(all, granted, asked);
                assert!(share <= asked && granted + share <= all);
                granted += share;
                pairs += u32::from(share > 0);
            }
            assert!(asked == 0 || granted == all);
            assert!(asked != 16 || all < 1024 || pairs > 100, "{pairs} queue pairs can call");
        }
        assert_eq!(share_of(1024, 0, 16), 16);
    }
}
