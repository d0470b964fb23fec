//! Calls of compute nodes: they wait at the callee until one of its lanes takes them.
//!
//! A call arrives once at most, possibly after its caller has given up or died. Nobody but the test answers it. A caller that
//! gives up while its call waits mostly takes it back; at times it does not, and the call is executed later.

use crate::calls::Arrived;
use crate::compute_node::ComputeNode;
use crate::flight::{Happens, Slot};
use crate::log::What;
use crate::world::{Misuse, World};
use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer, Callee, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of 100 calls that nobody has taken when their callers give up, so many are known to have had no effect.
const TAKEN_BACK_PERCENT: u32 = 90;

impl World {
    /// A call for a compute node has arrived.
    pub(crate) fn arrive(&mut self, slot: Slot) {
        let flight = self.flights.get(slot);
        let request = flight.request;
        let waits = Arc::new(AtomicBool::new(true));
        self.waiting.push((flight.sequence, Arc::clone(&waits)));
        self.arrived.push(Arrived {
            waits,
            slot,
            sequence: flight.sequence,
            caller: (ComputeNode(flight.compute_node), flight.lane),
            callee: Callee(request.operands[1]),
            request: flight.data.clone(),
            answer_bytes: usize::try_from(request.operands[0]).unwrap_or(usize::MAX).min(CALL_BYTES_MAX),
            since_ns: self.now_ns,
            posted_ns: flight.posted_ns,
        });
    }

    /// The call has completed. If its caller gives it up, and nobody has taken it, it is taken back; now and then its caller does
    /// not know that.
    pub(crate) fn end_call(&mut self, slot: Slot) {
        let flight = self.flights.get(slot);
        let (sequence, status) = (flight.sequence, flight.completion.status);
        let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == sequence) else { return };
        let (_, waits) = self.waiting.swap_remove(at);
        let is_known = status == Status::Unanswered && self.rng.percent(TAKEN_BACK_PERCENT);
        if is_known && waits.swap(false, Ordering::Relaxed) {
            self.flights.get_mut(slot).completion.status = Status::NotServed;
        }
    }

    /// The calls that have arrived.
    pub(crate) fn take_arrived(&mut self) -> Vec<Arrived> {
        std::mem::take(&mut self.arrived)
    }

    /// Notes that a call comes from a lane that serves another one.
    pub(crate) fn note_passed_on(&mut self, call: &Arrived) {
        let (compute_node, lane) = call.caller;
        let (now_ns, request) = (self.now_ns, self.flights.get(call.slot).request);
        self.misuses.push(Misuse { now_ns, compute_node, lane, request, what: "a call is passed on" });
    }

    /// Answers a call that was taken. Nobody hears it if its caller has given up, or is dead, or if it is lost on its way.
    pub(crate) fn answer(&mut self, call: &Arrived, answer: &[u8]) {
        let slot = call.slot;
        let flight = self.flights.get(slot);
        let is_awaited = flight.sequence == call.sequence && !flight.completed && !flight.answer_lost;
        if !is_awaited || flight.completion.status != Status::Unanswered {
            return;
        }
        let posted_ns = flight.posted_ns;
        let arrives_ns = self.now_ns + self.rng.within(self.config.delays.response_ns);
        if arrives_ns - posted_ns >= self.config.call_timeout_ns {
            return;
        }
        self.note(slot, What::Effect { units: 1 });
        let service_ns = u32::try_from(self.now_ns - call.since_ns).unwrap_or(u32::MAX);
        let flight = self.flights.get_mut(slot);
        flight.completion.status = Status::Ok;
        flight.completion.value = CallAnswer::new(answer.len(), 0, service_ns).0;
        flight.completion.elapsed_ns = u32::try_from(arrives_ns - posted_ns).unwrap_or(u32::MAX);
        flight.data.clear();
        flight.data.extend_from_slice(answer);
        self.agenda.rewrite(|mut event| {
            if event.slot == slot && event.what == Happens::Completion {
                event.at_ns = arrives_ns;
            }
            Some(event)
        });
    }
}
