//! Calls of compute nodes, which the memory node passes on to the compute node that is to execute them, and their answers.
//!
//! **A call is passed on once at most.** It is not passed on if its callee has no queue pair with which it serves, has as many calls
//! under way as it has receives for, less one for the end of serving, or if its queue pair takes no SEND. Then nobody has begun it
//! and nobody will, and its caller is told so. Once its SEND was posted, it is answered: with what the callee says; or, if the
//! callee's queue pair ends, with nothing, which means that it may have been executed. (A caller that gives up knows as much.)
//!
//! **Ends.** Queue pairs are ended in this order: their gates are shut, then [`Relays::forget`] takes out what was passed on by them
//! or for them, then their gates are closed, which waits for the calls that are running here. A call is put in under the mutex
//! under which they are taken out, and not if a gate is shut by then. So none stays that nobody answers, and no fence waits for a
//! callee: what a fenced caller has asked for is the callee's operation, under the callee's own name.

use super::call_wire::{CallMessage, REPLY_HEAD_BYTES, ReplyMessage, STOP};
use super::gate::{Begun, Gate, Terms};
use super::planted::{Planted, planted};
use dm_core::verbs::{CALL_BYTES_MAX, Callee};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What sends messages: a queue pair.
pub(super) trait Sends {
    /// Sends a message. `false`: it does not go out, and never will.
    fn send(&mut self, message: &[u8]) -> bool;

    /// Ends it, since its peer does not take what it is sent.
    fn cut_off(&mut self);
}

/// See the module's documentation. `P` is a queue pair.
#[derive(Debug)]
pub(super) struct Relays<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    /// The queue pairs of compute nodes that serve, by callee.
    servers: HashMap<u64, Arc<Gate<P>>>,
    under_way: HashMap<u64, Relay<P>>,
    /// The last id that was given: no call has [`STOP`].
    last: u64,
}

/// A call that was passed on.
#[derive(Debug)]
struct Relay<P> {
    begun: Begun<P>,
    /// Its caller's id for it, and the caller's room for the answer.
    id: u64,
    answer_bytes: usize,
    queued: u16,
    /// Numbers of the queue pairs.
    caller: u32,
    server: u32,
}

/// Whether a call was passed on.
#[derive(Debug)]
pub(super) enum Passed<P> {
    On,
    /// Nobody has begun it, and nobody will.
    Not(Begun<P>),
}

impl<P: Sends> Relay<P> {
    fn answer(self, is_served: bool, service_ns: u32, answer: &[u8]) {
        let answer = answer.get(..self.answer_bytes).unwrap_or(answer);
        let head = ReplyMessage { id: self.id, is_served, queued: self.queued, service_ns };
        let message = [&head.encode(), answer].concat();
        self.begun.end(|pair| {
            if !pair.send(&message) {
                pair.cut_off();
            }
        });
    }
}

impl<P> Default for Relays<P> {
    fn default() -> Self {
        let state = State { servers: HashMap::new(), under_way: HashMap::new(), last: STOP };
        Self { state: Mutex::new(state) }
    }
}

impl<P: Sends> Relays<P> {
    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on calls are passed on by this queue pair, if its peer serves.
    pub(super) fn admit(&self, server: &Arc<Gate<P>>) {
        if server.terms.serves != Callee::MEMORY_NODE {
            self.lock().servers.insert(server.terms.serves.0, Arc::clone(server));
        }
    }

    /// Passes a call on.
    pub(super) fn pass_on(&self, call: &CallMessage, request: &[u8], begun: Begun<P>, queued: u16) -> Passed<P> {
        let Some(Terms { number: caller, .. }) = begun.terms() else { return Passed::On };
        let (id, server) = {
            let mut state = self.lock();
            let Some(server) = state.servers.get(&call.callee.0).map(Arc::clone) else { return Passed::Not(begun) };
            let Terms { number, credits, .. } = server.terms;
            let under_way = state.under_way.values().filter(|relay| relay.server == number).count();
            let is_open = server.is_open() || planted(Planted::RelayBehindEnd);
            if !is_open || under_way + 1 >= credits as usize {
                return Passed::Not(begun);
            }
            if !begun.is_open() {
                // Its caller is being closed, and hears nothing.
                return Passed::On;
            }
            state.last += 1;
            let id = state.last;
            let relay = Relay { begun, id: call.id, answer_bytes: call.answer_bytes, queued, caller, server: number };
            state.under_way.insert(id, relay);
            (id, server)
        };
        let message = [&CallMessage { id, ..*call }.encode(), request].concat();
        if server.with(|pair| pair.send(&message)) == Some(true) {
            return Passed::On;
        }
        // If it was taken out meanwhile, it was answered.
        self.lock().under_way.remove(&id).map_or(Passed::On, |relay| Passed::Not(relay.begun))
    }

    /// Passes an answer back, which came by the queue pair of a compute node that serves. An answer to no call is dropped.
    pub(super) fn pass_back(&self, server: &Terms, message: &[u8]) {
        let Some((head, answer)) = message.split_first_chunk::<REPLY_HEAD_BYTES>() else { return };
        let ReplyMessage { id, is_served, service_ns, .. } = ReplyMessage::decode(head);
        if id == STOP {
            return self.stop(server);
        }
        let relay = {
            let mut state = self.lock();
            let is_theirs = state.under_way.get(&id).is_some_and(|relay| relay.server == server.number);
            is_theirs.then(|| state.under_way.remove(&id)).flatten()
        };
        if let Some(relay) = relay {
            relay.answer(is_served, service_ns, answer.get(..CALL_BYTES_MAX).unwrap_or(answer));
        }
    }

    /// A compute node serves no more: it is told so behind the last call that is passed on to it. (A thread that is about to pass a
    /// call on may come later. That call is answered when the queue pair ends.)
    fn stop(&self, server: &Terms) {
        let stopped = {
            let mut state = self.lock();
            let is_theirs = state.servers.get(&server.serves.0).is_some_and(|found| found.terms == *server);
            is_theirs.then(|| state.servers.remove(&server.serves.0)).flatten()
        };
        if let Some(stopped) = stopped {
            let message = CallMessage { id: STOP, callee: server.serves, answer_bytes: 0 }.encode();
            stopped.with(|pair| pair.send(&message));
        }
    }

    /// Ends what was passed on by or for the queue pairs whose numbers `is_gone` names: their gates are shut.
    pub(super) fn forget(&self, is_gone: impl Fn(u32) -> bool) {
        let ended: Vec<Relay<P>> = {
            let mut state = self.lock();
            state.servers.retain(|_, server| !is_gone(server.terms.number));
            let ended = state.under_way.extract_if(|_, relay| is_gone(relay.caller) || is_gone(relay.server));
            ended.map(|(_, relay)| relay).collect()
        };
        for relay in ended {
            if !is_gone(relay.caller) {
                // It may have been executed.
                relay.answer(!planted(Planted::LostRelayHarmless), 0, &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::with_planted;
    use super::*;

    /// Messages that were sent, and whether it was cut off.
    #[derive(Debug, Default)]
    struct Wire {
        sent: Vec<Vec<u8>>,
        is_full: bool,
        is_cut_off: bool,
    }

    impl Sends for Wire {
        fn send(&mut self, message: &[u8]) -> bool {
            if !self.is_full {
                self.sent.push(message.to_vec());
            }
            !self.is_full
        }

        fn cut_off(&mut self) {
            self.is_cut_off = true;
        }
    }

    const CALLEE: Callee = Callee::compute_node(3, 7);

    fn gate(number: u32, serves: Callee) -> Arc<Gate<Wire>> {
        Gate::new(Wire::default(), Terms { number, credits: 3, serves })
    }

    /// A caller, number 1, and a compute node that serves, number 2.
    fn two() -> (Relays<Wire>, Arc<Gate<Wire>>, Arc<Gate<Wire>>) {
        let (relays, caller, server) = (Relays::default(), gate(1, Callee::MEMORY_NODE), gate(2, CALLEE));
        relays.admit(&caller);
        relays.admit(&server);
        (relays, caller, server)
    }

    fn call(relays: &Relays<Wire>, caller: &Arc<Gate<Wire>>, id: u64) -> Passed<Wire> {
        relays.pass_on(&CallMessage { id, callee: CALLEE, answer_bytes: 2 }, &[5, 6], caller.begin().unwrap(), 4)
    }

    /// The message that was sent last.
    fn last(gate: &Arc<Gate<Wire>>) -> Option<Vec<u8>> {
        gate.with(|wire| wire.sent.pop()).flatten()
    }

    /// The reply that a caller got last: its head and the answer.
    fn replied(caller: &Arc<Gate<Wire>>) -> (ReplyMessage, Vec<u8>) {
        let message = last(caller).unwrap();
        let (head, answer) = message.split_first_chunk().unwrap();
        (ReplyMessage::decode(head), answer.to_vec())
    }

    fn answer_of(id: u64, answer: &[u8]) -> Vec<u8> {
        [&ReplyMessage { id, is_served: true, queued: 0, service_ns: 90 }.encode(), answer].concat()
    }

    #[test]
    fn a_call_is_passed_on_once_and_its_answer_back_to_its_caller() {
        let (relays, caller, server) = two();
        for id in [70, 71] {
            assert!(matches!(call(&relays, &caller, id), Passed::On));
            let message = last(&server).unwrap();
            let (theirs, request) = CallMessage::decode(&message).unwrap();
            assert_eq!((theirs.callee, theirs.answer_bytes, request), (CALLEE, 2, &[5, 6][..]));
            // Of a queue pair that does not serve, of no call, and too short; then the answer, and the same again.
            relays.pass_back(&caller.terms, &answer_of(theirs.id, &[1]));
            relays.pass_back(&server.terms, &answer_of(theirs.id + 1, &[1]));
            relays.pass_back(&server.terms, &[1; 9]);
            assert_eq!(last(&caller), None);
            for _ in 0..2 {
                relays.pass_back(&server.terms, &answer_of(theirs.id, &[8, 9, 10]));
            }
            let head = ReplyMessage { id, is_served: true, queued: 4, service_ns: 90 };
            assert_eq!((replied(&caller), last(&caller)), ((head, vec![8, 9]), None), "no more than there is room for");
        }
        // Nothing is running any more.
        assert!(caller.close().is_some());
    }

    #[test]
    fn a_call_that_cannot_be_passed_on_is_served_by_nobody() {
        let (relays, caller, server) = two();
        let nobody = CallMessage { id: 1, callee: Callee::compute_node(3, 8), answer_bytes: 2 };
        assert!(matches!(relays.pass_on(&nobody, &[], caller.begin().unwrap(), 0), Passed::Not(_)));
        // One receive of the callee's is kept for the end.
        let others = gate(9, Callee::MEMORY_NODE);
        assert!(matches!([call(&relays, &others, 1), call(&relays, &others, 2)], [Passed::On, Passed::On]));
        assert!(matches!(call(&relays, &caller, 3), Passed::Not(_)));
        relays.forget(|number| number == 9);
        server.with(|wire| wire.is_full = true);
        assert!(matches!(call(&relays, &caller, 4), Passed::Not(_)));
        assert_eq!((last(&caller), relays.lock().under_way.len()), (None, 0));
    }

    /// What the caller hears when its callee dies that a call was passed on to.
    fn heard_of_a_death(bug: Option<Planted>) -> ReplyMessage {
        let (relays, caller, server) = two();
        with_planted(bug, || {
            assert!(matches!(call(&relays, &caller, 70), Passed::On));
            server.shut();
            relays.forget(|number| number == 2);
            let message = last(&server).unwrap();
            let (theirs, _) = CallMessage::decode(&message).unwrap();
            relays.pass_back(&server.terms, &answer_of(theirs.id, &[1]));
        });
        let (head, answer) = replied(&caller);
        assert_eq!((head.id, answer.len(), last(&caller)), (70, 0, None));
        head
    }

    #[test]
    fn a_call_whose_callee_dies_may_have_been_executed() {
        assert!(heard_of_a_death(None).is_served);
        assert!(!heard_of_a_death(Some(Planted::LostRelayHarmless)).is_served);
    }

    /// Whether a call stays that nobody answers, which is passed on by a queue pair that is being closed.
    fn stays(bug: Option<Planted>) -> bool {
        let (relays, caller, server) = two();
        // A thread has found the server before it was taken out of the table.
        let found = Arc::clone(&server);
        server.shut();
        relays.forget(|number| number == 2);
        relays.lock().servers.insert(CALLEE.0, found);
        with_planted(bug, || matches!(call(&relays, &caller, 70), Passed::On)) && relays.lock().under_way.len() == 1
    }

    #[test]
    fn no_call_is_passed_on_behind_the_end_of_its_callees_queue_pair() {
        assert!(!stays(None));
        assert!(stays(Some(Planted::RelayBehindEnd)));
    }

    #[test]
    fn a_fence_of_a_caller_waits_for_no_callee() {
        let (relays, caller, server) = two();
        assert!(matches!(call(&relays, &caller, 70), Passed::On));
        let late = caller.begin().unwrap();
        caller.shut();
        relays.forget(|number| number == 1);
        // A thread that had begun another one comes later.
        let passed = relays.pass_on(&CallMessage { id: 71, callee: CALLEE, answer_bytes: 2 }, &[], late, 0);
        assert!(matches!(passed, Passed::On));
        assert!(caller.close().is_some_and(|wire| wire.sent.is_empty()), "it waits for ever otherwise");
        let message = last(&server).unwrap();
        relays.pass_back(&server.terms, &answer_of(CallMessage::decode(&message).unwrap().0.id, &[1]));
        assert_eq!(last(&server), None, "the other one was not passed on");
    }

    #[test]
    fn a_compute_node_that_serves_no_more_is_told_behind_its_last_call() {
        let (relays, caller, server) = two();
        assert!(matches!(call(&relays, &caller, 70), Passed::On));
        relays.pass_back(&server.terms, &answer_of(STOP, &[]));
        let told = last(&server).unwrap();
        assert_eq!(CallMessage::decode(&told).unwrap().0.id, STOP);
        assert!(matches!(call(&relays, &caller, 71), Passed::Not(_)));
        let message = last(&server).unwrap();
        relays.pass_back(&server.terms, &answer_of(CallMessage::decode(&message).unwrap().0.id, &[7]));
        assert_eq!(replied(&caller).1, [7]);
        caller.with(|wire| assert!(!wire.is_cut_off));
    }
}
