//! The processor of a memory node: it walks for calls, one copy or write after the other, while requests take effect.
//!
//! A copy of a node, and what is written, may fall apart into two instants, as the transfers of a NIC do, and the processor may
//! stop between any two steps. A call that is lost, or takes too long, completes as [`Status::Unanswered`]; its walk may go on,
//! or begin, long after that. A change may be executed a second time, later. A death of the caller, or of its queue pair, does
//! not stop it. When the memory node confirms that a queue pair, or what a lane has left, is closed, it has ended what it was
//! executing, and what it had not begun it does not begin any more ([`World::end_calls`]).

use crate::calls::{Moving, Serving, begin};
use crate::compute_node::ComputeNode;
use crate::config::Config;
use crate::flight::{Flight, Happens, Slot};
use crate::log::What;
use crate::world::World;
use dm_core::offload::{Moved, Next, Walk};
use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer, Callee, Label, Status, Verb};

impl World {
    /// Plans a call: when its walk begins, and when its caller gives up.
    pub(crate) fn enter_call(&mut self, slot: Slot) {
        let Config { delays, rpc_lost_percent, rpc_repeated_percent, call_timeout_ns, .. } = self.config;
        let mut begins_ns = self.now_ns + self.rng.within(delays.request_ns);
        if delays.long_per_1024 > 0 && self.rng.below(1024) < delays.long_per_1024 {
            begins_ns += self.rng.within(delays.long_ns);
        }
        let is_lost = rpc_lost_percent > 0 && self.rng.percent(rpc_lost_percent);
        // What is lost on its way there never begins; what is lost on its way back does, and now and then late.
        let begins = !is_lost || self.rng.percent(50);
        let is_late = rpc_repeated_percent > 0 && self.rng.percent(rpc_repeated_percent);
        if is_late {
            begins_ns += call_timeout_ns;
        }
        self.rpc_faults.lost += u64::from(is_lost);
        let gives_up_ns = self.now_ns + call_timeout_ns;
        let flight = self.flights.get_mut(slot);
        flight.bursts = 0;
        flight.completion.status = Status::Unanswered;
        flight.completion.elapsed_ns = u32::try_from(call_timeout_ns).unwrap_or(u32::MAX);
        flight.answer_lost = is_lost;
        flight.events = 1 + u8::from(begins);
        if begins {
            self.agenda.push(begins_ns, slot, Happens::Serve);
        }
        self.agenda.push(gives_up_ns, slot, Happens::Completion);
    }

    /// The processor does one step of a call.
    pub(crate) fn serve_call(&mut self, slot: Slot) {
        let request = self.flights.get(slot).request;
        if self.down.get(usize::from(request.node.0)) == Some(&true) {
            return;
        }
        if Callee(request.operands[1]) != Callee::MEMORY_NODE {
            return self.arrive(slot);
        }
        if !self.serve_step(slot) {
            return;
        }
        let delays = &self.config.delays;
        let mut next_ns = self.now_ns + 1 + self.rng.within((0, delays.spread_ns_max));
        if delays.long_per_1024 > 0 && self.rng.below(1024) < delays.long_per_1024 {
            next_ns += self.rng.within(delays.long_ns);
        }
        self.flights.get_mut(slot).events += 1;
        self.agenda.push(next_ns, slot, Happens::Serve);
    }

    /// One step of a call. `false`: it was the last one.
    fn serve_step(&mut self, slot: Slot) -> bool {
        let Flight { request, ref mut serving, ref data, ref again, .. } = *self.flights.get_mut(slot);
        let mut serving = serving.take().unwrap_or_else(|| {
            let answer_bytes = usize::try_from(request.operands[0]).unwrap_or(usize::MAX).min(CALL_BYTES_MAX);
            Box::new(Serving {
                walk: Walk::new(again.as_ref().unwrap_or(data), request.node),
                moved: Moved::Nothing,
                moving: None,
                room: Vec::new(),
                answer: vec![0; answer_bytes],
                began_ns: self.now_ns,
            })
        });
        let memory = self.memories.of(&request);
        let moving = match serving.moving.take() {
            Some(moving) => Some(moving),
            None => match serving.walk.next(serving.moved, &mut serving.room, &mut serving.answer) {
                Next::Answer(bytes) => {
                    self.answer_call(slot, &serving, bytes);
                    return false;
                }
                next => begin(&next, memory, &mut serving.room, self.now_ns),
            },
        };
        match moving {
            None => serving.moved = Moved::Outside,
            Some(mut moving) => {
                let units = (moving.rest() as u64 / self.unit) as u32;
                let is_divided = moving.done == 0 && units > 1 && self.rng.percent(self.config.freedom_percent);
                let bytes = if is_divided {
                    (u64::from(1 + self.rng.below(units - 1)) * self.unit) as usize
                } else {
                    moving.rest()
                };
                moving.go_on(bytes, memory, &mut serving.room);
                let took_ns = u32::try_from(self.now_ns - moving.since_ns).unwrap_or(u32::MAX);
                serving.moving = Some(moving).filter(|moving: &Moving| moving.rest() > 0);
                serving.moved = Moved::In(took_ns);
            }
        }
        self.flights.get_mut(slot).serving = Some(serving);
        true
    }

    /// Ends the calls for memory nodes' processors of which `is_meant` says so: those that are executed go on to their ends, and
    /// the others are not begun.
    pub(crate) fn end_calls(&mut self, is_meant: impl Fn(&Flight) -> bool) {
        let goes_on = |flight: &Flight| {
            flight.request.verb == Verb::Call
                && Callee(flight.request.operands[1]) == Callee::MEMORY_NODE
                && flight.events > u8::from(!flight.completed)
                && is_meant(flight)
        };
        let slots: Vec<Slot> = self.flights.in_use().filter(|&slot| goes_on(self.flights.get(slot))).collect();
        for slot in slots {
            let node = self.flights.get(slot).request.node;
            if self.flights.get(slot).serving.is_some() && self.down.get(usize::from(node.0)) != Some(&true) {
                while self.serve_step(slot) {}
            }
            self.drop_events(slot);
            self.flights.release_if_over(slot);
        }
    }

    /// Compute nodes of whose calls one that changes a leaf is executed.
    pub(crate) fn changing(&self) -> impl Iterator<Item = ComputeNode> {
        self.flights.in_use().filter_map(|slot| {
            let flight = self.flights.get(slot);
            let is_executed = flight.serving.is_some() && flight.request.label == Label::Change;
            is_executed.then_some(ComputeNode(flight.compute_node))
        })
    }

    /// The processors that execute calls of a compute node stop for up to `ns_max`. How many do.
    pub(crate) fn stall_calls(&mut self, compute_node: ComputeNode, ns_max: u64) -> u64 {
        let stall_ns = self.rng.within((0, u32::try_from(ns_max).unwrap_or(u32::MAX)));
        let (flights, mut stalled) = (&self.flights, 0);
        self.agenda.rewrite(|mut event| {
            let flight = flights.get(event.slot);
            if event.what == Happens::Serve && flight.serving.is_some() && flight.compute_node == compute_node.0 {
                event.at_ns += stall_ns;
                stalled += 1;
            }
            Some(event)
        });
        stalled
    }

    fn answer_call(&mut self, slot: Slot, serving: &Serving, bytes: usize) {
        self.effects += 1;
        self.note(slot, What::Effect { units: 1 });
        let arrives_ns = self.now_ns + self.rng.within(self.config.delays.response_ns);
        let now_ns = self.now_ns;
        let repeated_percent = self.config.rpc_repeated_percent;
        let flight = self.flights.get(slot);
        let is_change = flight.request.label == Label::Change && flight.again.is_none();
        if is_change && repeated_percent > 0 && self.rng.percent(repeated_percent) {
            let again_ns = now_ns + self.rng.within(self.config.delays.long_ns);
            let flight = self.flights.get_mut(slot);
            (flight.again, flight.events) = (Some(flight.data.clone()), flight.events + 1);
            self.agenda.push(again_ns, slot, Happens::Serve);
            self.rpc_faults.repeated += 1;
        }
        let flight = self.flights.get_mut(slot);
        let posted_ns = flight.posted_ns;
        // After a failure, or the time that callers wait, nobody takes the answer.
        let is_awaited = !flight.completed && !flight.answer_lost && flight.completion.status == Status::Unanswered;
        if !is_awaited || arrives_ns - posted_ns >= self.config.call_timeout_ns {
            return;
        }
        let service_ns = u32::try_from(now_ns - serving.began_ns).unwrap_or(u32::MAX);
        flight.completion.status = Status::Ok;
        flight.completion.value = CallAnswer::new(bytes, 0, service_ns).0;
        flight.completion.elapsed_ns = u32::try_from(arrives_ns - posted_ns).unwrap_or(u32::MAX);
        flight.data.clear();
        flight.data.extend_from_slice(&serving.answer[..bytes]);
        self.agenda.rewrite(|mut event| {
            if event.slot == slot && event.what == Happens::Completion {
                event.at_ns = arrives_ns;
            }
            Some(event)
        });
    }
}
