//! The processor of a memory node: it walks for calls, one copy after the other, while requests take effect.
//!
//! A copy of a node may fall apart into two instants, as the transfers of a NIC do, and the processor may stop between any
//! two steps. A call that is lost, or takes too long, completes as [`Status::Unanswered`]; its walk may go on, or begin,
//! long after that. A death of the caller, or of its queue pair, does not stop it.

use crate::calls::{Serving, copy};
use crate::config::Config;
use crate::flight::{Flight, Happens, Slot};
use crate::log::What;
use crate::world::World;
use dm_core::offload::{Next, Walk, walk::Copied};
use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer, Status};

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
        let Flight { request, ref mut serving, ref data, .. } = *self.flights.get_mut(slot);
        if self.down.get(usize::from(request.node.0)) == Some(&true) {
            return;
        }
        let mut serving = serving.take().unwrap_or_else(|| {
            let answer_bytes = usize::try_from(request.operands[0]).unwrap_or(usize::MAX).min(CALL_BYTES_MAX);
            Box::new(Serving {
                walk: Walk::new(data, request.node),
                copied: Copied::Nothing,
                copying: None,
                room: Vec::new(),
                answer: vec![0; answer_bytes],
                began_ns: self.now_ns,
            })
        });
        let memory = self.memories.of(&request);
        if let Some((offset, done, since_ns)) = serving.copying.take() {
            let rest = done..serving.room.len();
            let from = offset as usize + done..offset as usize + serving.room.len();
            serving.room[rest].copy_from_slice(&memory.bytes()[from]);
            serving.copied = Copied::In(u32::try_from(self.now_ns - since_ns).unwrap_or(u32::MAX));
        } else {
            match serving.walk.next(serving.copied, &serving.room, &mut serving.answer) {
                Next::Answer(bytes) => return self.answer_call(slot, &serving, bytes),
                Next::Copy { offset, bytes } => {
                    serving.copied = copy(memory, offset, bytes, &mut serving.room);
                    let units = (bytes as u64 / self.unit) as u32;
                    if serving.copied != Copied::Outside && units > 1 && self.rng.percent(self.config.freedom_percent) {
                        let done = u64::from(1 + self.rng.below(units - 1)) * self.unit;
                        serving.copying = Some((offset, done as usize, self.now_ns));
                    }
                }
            }
        }
        let delays = &self.config.delays;
        let mut next_ns = self.now_ns + 1 + self.rng.within((0, delays.spread_ns_max));
        if delays.long_per_1024 > 0 && self.rng.below(1024) < delays.long_per_1024 {
            next_ns += self.rng.within(delays.long_ns);
        }
        let flight = self.flights.get_mut(slot);
        flight.serving = Some(serving);
        flight.events += 1;
        self.agenda.push(next_ns, slot, Happens::Serve);
    }

    fn answer_call(&mut self, slot: Slot, serving: &Serving, bytes: usize) {
        self.effects += 1;
        self.note(slot, What::Effect { units: 1 });
        let arrives_ns = self.now_ns + self.rng.within(self.config.delays.response_ns);
        let now_ns = self.now_ns;
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
