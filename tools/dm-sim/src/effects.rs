//! Effects: what happens to memory, and to a request, when its time has come.

use crate::compute_node::ComputeNode;
use crate::flight::{BURST_LOST, Flight, Happens, NO_SUBMIT, Slot, WriteBack, has_landed};
use crate::log::What;
use crate::memory::atomic_result;
use crate::world::{Misuse, World};
use dm_core::remote::rpc::Procedure;
use dm_core::verbs::{Assumptions, Flags, Label, Request, Status, Verb};
use std::ops::Range;

impl World {
    /// Lets the next event happen; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.agenda.pop() else { return false };
        self.now_ns = self.now_ns.max(event.at_ns);
        self.flights.get_mut(event.slot).events -= 1;
        match event.what {
            Happens::Burst(burst) => self.burst(event.slot, burst),
            Happens::WriteBack => self.write_back(event.slot),
            Happens::Completion => self.complete(event.slot),
            Happens::Serve => self.serve_call(event.slot),
        }
        self.flights.release_if_over(event.slot);
        true
    }

    pub(crate) fn burst(&mut self, slot: Slot, burst: u8) {
        self.effects += 1;
        let flight = self.flights.get_mut(slot);
        flight.landed |= 1 << burst;
        let request = flight.request;
        if request.verb != Verb::Read {
            let landed = &mut self.queue_pairs[flight.queue_pair as usize].landed_sequence;
            *landed = flight.sequence.max(*landed);
        }
        match request.verb {
            Verb::Read | Verb::Write => {}
            Verb::Call => return,
            Verb::Rpc => return self.serve(slot),
            _ => return self.atomic(slot),
        }
        let memory = self.memories.of(&request);
        let offset = request.offset as usize;
        let reads = request.verb == Verb::Read;
        let kept = flight.kept_bytes as usize;
        let turn_ns = if self.config.check_write_turns && !reads { self.turn_ns } else { 0 };
        let mut too_soon = false;
        let mut apply = |range: Range<usize>| {
            let range = range.start..range.end.min(kept).max(range.start);
            let remote = offset + range.start..offset + range.end;
            if turn_ns > 0 {
                let bytes = remote.start as u64..remote.end as u64;
                too_soon |= self.turns.too_soon(&request, bytes, self.now_ns, turn_ns);
            }
            if reads {
                flight.data[range].copy_from_slice(&memory.bytes()[remote]);
            } else {
                memory.range_mut(remote).copy_from_slice(&flight.data[range]);
            }
        };
        let mut units = 0;
        if flight.burst_of.is_empty() {
            apply(0..request.bytes as usize);
            units = u64::MAX;
        } else {
            for (number, _) in flight.burst_of.iter().enumerate().filter(|(_, of)| **of == burst) {
                apply(Flight::unit_range(&request, self.unit, number));
                units |= 1_u64.checked_shl(number as u32).unwrap_or(0);
            }
        }
        if too_soon {
            let (compute_node, lane) = (ComputeNode(flight.compute_node), flight.lane);
            let what = "a WRITE to a place written less than write_turn_ns_min ago";
            self.misuses.push(Misuse { now_ns: self.now_ns, compute_node, lane, request, what });
        }
        if self.log.is_some() {
            let count = Flight::units(&request, self.unit) as u32;
            let mask = if count < 64 { (1 << count) - 1 } else { u64::MAX };
            self.note(slot, What::Effect { units: units & mask });
        }
    }

    fn atomic(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        let request = flight.request;
        let divided = flight.events > 1;
        // Atomics exclude each other: one that is between its read and its write finishes first.
        if !self.write_backs.is_empty() {
            self.finish_write_backs(&request);
        }
        let memory = self.memories.of(&request);
        let old = memory.word(request.offset);
        let new = atomic_result(&request, old);
        if let Some(new) = new {
            memory.set_word(request.offset, new);
            self.chunk_changes += u64::from(request.label == Label::Chunk && new != old);
        }
        let flight = self.flights.get_mut(slot);
        flight.completion.value = old;
        let exposed = match new {
            Some(_) => !self.config.granted.contains(Assumptions::ATOMIC_EXCLUDES_WRITE),
            None => !self.config.granted.contains(Assumptions::FAILED_CAS_IS_SILENT),
        };
        if divided && exposed {
            flight.write_back = Some(new.unwrap_or(old));
            let Request { node, space, offset, .. } = request;
            self.write_backs.push(WriteBack { slot, node: node.0, space, offset });
        }
        self.note(slot, What::Atomic { old, new });
    }

    fn finish_write_backs(&mut self, request: &Request) {
        let mut at = 0;
        while let Some(&pending) = self.write_backs.get(at) {
            if pending.offset == request.offset && pending.node == request.node.0 && pending.space == request.space {
                self.write_back(pending.slot);
            } else {
                at += 1;
            }
        }
    }

    pub(crate) fn write_back(&mut self, slot: Slot) {
        let flight = self.flights.get_mut(slot);
        let Some(word) = flight.write_back.take() else { return };
        let request = flight.request;
        self.write_backs.retain(|pending| pending.slot != slot);
        self.memories.of(&request).set_word(request.offset, word);
        self.effects += 1;
        self.note(slot, What::WriteBack { word });
    }

    /// Drops an atomic's second half.
    pub(crate) fn cancel_write_back(&mut self, slot: Slot) {
        self.flights.get_mut(slot).write_back = None;
        self.write_backs.retain(|pending| pending.slot != slot);
    }

    fn serve(&mut self, slot: Slot) {
        let Request { node, operands, .. } = self.flights.get(slot).request;
        if self.config.fences && Procedure::from_number(operands[0]) == Some(Procedure::Fence) {
            let reply = self.fence(node, operands[1], operands[2]);
            let flight = self.flights.get_mut(slot);
            if flight.landed.is_power_of_two() && flight.completion.status == Status::Ok {
                flight.completion.value = reply as u64;
            }
            return self.note(slot, What::Effect { units: 1 });
        }
        let flight = self.flights.get_mut(slot);
        let Some(node) = self.memories.get_mut(flight.request.node) else { return };
        let served = self.config.rpc.map_or(Err(Status::Unsupported), |serve| serve(node, flight.request.operands));
        // The first execution (one bit landed) is the one that is answered; an answer that is lost says nothing.
        if flight.landed.is_power_of_two() && flight.completion.status == Status::Ok {
            match served {
                Ok(value) => flight.completion.value = value,
                Err(status) => flight.completion.status = status,
            }
        }
        self.note(slot, What::Effect { units: 1 });
    }

    fn complete(&mut self, slot: Slot) {
        if self.flights.get(slot).request.verb == Verb::Call {
            self.end_call(slot);
        }
        let flight = self.flights.get_mut(slot);
        flight.completed = true;
        if flight.completion.status != Status::Ok {
            flight.completion.value = 0;
        }
        let completion = flight.completion;
        let signaled = flight.request.flags.contains(Flags::SIGNALED);
        let (lane, key) = (flight.lane_key, flight.submit);
        self.lanes[lane as usize].outstanding -= 1;
        if signaled && key != NO_SUBMIT {
            let submit = &mut self.submits[key as usize];
            submit.waiting -= 1;
            if submit.waiting == 0 {
                self.ready.push(key);
            }
        }
        self.note(slot, What::Done(completion));
    }

    /// Loses the units of `slot` that `lose` names and have not taken effect.
    pub(crate) fn lose_units(&mut self, slot: Slot, lose: impl Fn(usize) -> bool) {
        let unit = self.unit;
        let flight = self.flights.get_mut(slot);
        let units = Flight::units(&flight.request, unit);
        if flight.burst_of.is_empty() {
            flight.burst_of.resize(units, 0);
        }
        for number in 0..units {
            if lose(number) && !has_landed(flight.landed, flight.burst_of[number]) {
                flight.burst_of[number] = BURST_LOST;
            }
        }
    }
}
