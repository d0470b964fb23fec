//! What can break: compute nodes, memory nodes, queue pairs.
//!
//! When a sender dies, a random *prefix in post order* of each queue pair's unfinished requests has been or will be
//! executed. Of the first request beyond the prefix, if it is a WRITE, a random part takes effect, cut at multiples of
//! `crash_atomic_bytes`. Effects that are still to come may come late: packets of a dead compute node may land until
//! the responder's side is confirmed closed ([`World::close_queue_pairs`]).

use crate::compute_node::ComputeNode;
use crate::flight::{Flight, Happens, Slot, has_landed};
use crate::log::What;
use crate::world::World;
use dm_core::mutants::{Mutant, planted};
use dm_core::remote::row::Member;
use dm_core::remote::rpc::Reply;
use dm_core::verbs::{Assumptions, Label, NodeId, Status, Verb};

impl World {
    /// Kills a compute node. Of each of its queue pairs a prefix takes effect, now or later. Later posts have no
    /// effect, and its completions are not read.
    pub fn kill_compute_node(&mut self, compute_node: ComputeNode) {
        for queue_pair in self.queue_pairs_of(compute_node) {
            self.cut(queue_pair);
            self.delay(queue_pair);
        }
    }

    /// Closes all queue pairs of a compute node at the memory nodes and fences it: what of its requests has not taken
    /// effect when this returns never will (it completes as flushed), and what it posts from now on is answered
    /// [`Status::Fenced`].
    pub fn close_queue_pairs(&mut self, compute_node: ComputeNode) {
        for queue_pair in self.queue_pairs_of(compute_node) {
            self.close(queue_pair);
        }
        if !self.fenced.contains(&compute_node) {
            self.fenced.push(compute_node);
        }
    }

    /// What a memory node does when it is asked to fence off the compute node that has or had `row` in this incarnation:
    /// it takes its time, then closes that one's queue pairs, and confirms.
    pub(crate) fn fence(&mut self, node: NodeId, row: u64, incarnation: u64) -> Reply {
        let before = u64::from(self.config.rows_used_up) + 1;
        let Some(first) = row.checked_sub(before).and_then(|row| u16::try_from(row).ok()).map(ComputeNode) else {
            return Reply::Impossible;
        };
        let is_it = |member: &Member| u64::from(member.row.0) == row && u64::from(member.incarnation) == incarnation;
        let newcomer = self.newcomers.iter().rev().find(|(member, _)| is_it(member));
        let compute_node = newcomer.map_or(first, |(_, compute_node)| *compute_node);
        if self.fenced_at.contains(&(compute_node, node)) {
            return Reply::Done;
        }
        if self.rng.percent(60) {
            return Reply::Pending;
        }
        let nodes = self.memories.count() as u32;
        for queue_pair in self.queue_pairs_of(compute_node) {
            if queue_pair % nodes == u32::from(node.0) {
                self.close(queue_pair);
            }
        }
        self.fenced_at.push((compute_node, node));
        Reply::Done
    }

    /// Compute nodes that a memory node has fenced off because another compute node asked for it.
    pub fn fenced_by_others(&self) -> Vec<ComputeNode> {
        self.fenced_at.iter().map(|(compute_node, _)| *compute_node).collect()
    }

    /// Lets a fenced compute node post again, as a new incarnation.
    pub fn readmit(&mut self, compute_node: ComputeNode) {
        self.fenced.retain(|fenced| *fenced != compute_node);
        self.fenced_at.retain(|(fenced, _)| *fenced != compute_node);
    }

    /// Fails the queue pair of `worker` to `node`: of its requests a prefix takes effect, now or later, and all of them
    /// complete with [`Status::Flushed`], as does everything posted until [`World::reconnect`].
    pub fn fail_queue_pair(&mut self, worker: u32, node: NodeId) {
        let queue_pair = worker as usize * self.memories.count() + node.0 as usize;
        self.queue_pairs[queue_pair].failed = true;
        self.cut(queue_pair as u32);
        self.delay(queue_pair as u32);
        self.fail_completions(queue_pair as u32, Status::Flushed);
    }

    /// Confirms the failed queue pair closed at the memory node, so that nothing of it lands any more, and makes a new
    /// one in its place.
    pub fn reconnect(&mut self, worker: u32, node: NodeId) {
        let queue_pair = worker as usize * self.memories.count() + node.0 as usize;
        self.close(queue_pair as u32);
        self.queue_pairs[queue_pair].failed = false;
    }

    /// Kills a memory node: nothing takes effect there any more, and everything sent to it completes with
    /// [`Status::NodeDown`].
    pub fn kill_memory_node(&mut self, node: NodeId) {
        self.down[node.0 as usize] = true;
        let nodes = self.memories.count();
        for queue_pair in (0..self.queue_pairs.len()).filter(|at| at % nodes == node.0 as usize) {
            self.lose_all(queue_pair as u32);
            self.fail_completions(queue_pair as u32, Status::NodeDown);
        }
    }

    /// The `number`-th worker of `compute_node`, as [`World::add_worker`] numbered it.
    pub fn worker(&self, compute_node: ComputeNode, number: u32) -> Option<u32> {
        let mut workers = (0_u32..).zip(&self.workers).filter(|(_, of)| **of == compute_node).map(|(at, _)| at);
        workers.nth(number as usize)
    }

    /// Whether something that a compute node posted has changed nothing yet, or not all: where a death hurts.
    pub fn is_writing(&self, compute_node: ComputeNode) -> bool {
        self.flights.in_use().any(|slot| {
            let flight = self.flights.get(slot);
            flight.compute_node == compute_node.0
                && flight.request.verb != Verb::Read
                && u32::from(flight.landed).count_ones() < u32::from(flight.bursts)
        })
    }

    /// Compute nodes that are replaying a WRITE, which has changed nothing yet, or not all.
    pub fn replaying(&self) -> impl Iterator<Item = ComputeNode> {
        self.flights.in_use().filter_map(|slot| {
            let flight = self.flights.get(slot);
            let landed = u32::from(flight.landed).count_ones() >= u32::from(flight.bursts);
            (flight.request.label == Label::Replay && !landed).then_some(ComputeNode(flight.compute_node))
        })
    }

    /// A queue pair with at least `writes` WRITEs under way of which none has landed whole: worker and memory node.
    pub fn queue_pair_with_writes(&self, writes: usize) -> Option<(u32, NodeId)> {
        let under_way = |slot: &Slot| {
            let flight = self.flights.get(*slot);
            let landed = u32::from(flight.landed).count_ones() >= u32::from(flight.bursts);
            (flight.request.verb == Verb::Write && !landed).then_some(flight.queue_pair)
        };
        let mut found: Vec<u32> = self.flights.in_use().filter_map(|slot| under_way(&slot)).collect();
        found.sort_unstable();
        let busy = found.chunk_by(|one, other| one == other).find(|of| of.len() >= writes)?[0];
        let nodes = self.memories.count() as u32;
        Some((busy / nodes, NodeId((busy % nodes) as u16)))
    }

    fn queue_pairs_of(&self, compute_node: ComputeNode) -> Vec<u32> {
        let nodes = self.memories.count() as u32;
        let workers = (0_u32..).zip(&self.workers).filter(|(_, of)| **of == compute_node);
        workers.flat_map(|(worker, _)| worker * nodes..(worker + 1) * nodes).collect()
    }

    /// Requests of a queue pair with effects to come, in post order.
    fn unfinished(&self, queue_pair: u32) -> Vec<Slot> {
        let to_come = |flight: &Flight| {
            flight.queue_pair == queue_pair
                && (u32::from(flight.landed).count_ones() < u32::from(flight.bursts) || flight.write_back.is_some())
        };
        let mut slots: Vec<Slot> = self.flights.in_use().filter(|&slot| to_come(self.flights.get(slot))).collect();
        slots.sort_by_key(|&slot| self.flights.get(slot).sequence);
        slots
    }

    /// Decides the prefix that takes effect and loses the rest.
    fn cut(&mut self, queue_pair: u32) {
        let slots = self.unfinished(queue_pair);
        if slots.is_empty() {
            return;
        }
        // What took effect was sent, and so was all before it. (READs aside: no lane sees the rest of one.)
        let landed = self.queue_pairs[queue_pair as usize].landed_sequence;
        let mut sent = slots.iter().filter(|&&slot| self.flights.get(slot).sequence <= landed).count();
        // The last one sent may have been sent in part.
        if let Some(&last) = slots[..sent].last()
            && self.flights.get(last).sequence == landed
            && self.flights.get(last).request.verb == Verb::Write
        {
            sent -= 1;
        }
        let whole = sent + self.rng.below((slots.len() - sent) as u32 + 1) as usize;
        for (number, &slot) in slots.iter().enumerate().skip(whole) {
            if number == whole && self.flights.get(slot).request.verb == Verb::Write {
                self.cut_write(slot);
            } else {
                self.lose(slot);
            }
        }
        if !self.config.granted.contains(Assumptions::WRITE_THEN_WRITE) {
            self.thin_out(&slots[..whole]);
        }
    }

    /// WRITEs that nothing orders are placed in any order, so of a prefix any of them may be missing - unless an atomic
    /// behind it, which is ordered, is there.
    fn thin_out(&mut self, slots: &[Slot]) {
        let is_atomic = |slot: &&Slot| !matches!(self.flights.get(**slot).request.verb, Verb::Read | Verb::Write);
        let ordered = self.config.granted.contains(Assumptions::WRITE_THEN_ATOMIC);
        let after = slots.iter().rposition(|slot| ordered && is_atomic(&slot)).map_or(0, |last| last + 1);
        for &slot in &slots[after..] {
            let flight = self.flights.get(slot);
            if flight.request.verb == Verb::Write && flight.landed == 0 && self.rng.percent(50) {
                self.lose(slot);
            }
        }
    }

    /// Loses a random tail of a WRITE, in blocks that land all or nothing.
    fn cut_write(&mut self, slot: Slot) {
        let block = u64::from(self.config.crash_atomic_bytes.max(1));
        let unit = self.unit;
        let flight = self.flights.get(slot);
        let request = flight.request;
        let landed = flight.landed;
        // Small blocks are words or lines of the memory; large ones are packets, counted from the start of the message.
        let origin = if block <= 64 { request.offset / block * block } else { request.offset };
        let end = request.offset + u64::from(request.bytes);
        let blocks = (end - origin).div_ceil(block);
        let kept = u64::from(self.rng.below(blocks as u32 + 1));
        let flight = self.flights.get(slot);
        let place = |number: usize| request.offset + Flight::unit_range(&request, unit, number).start as u64;
        let block_of = |number: usize| (place(number) - origin) / block;
        let units = Flight::units(&request, unit);
        let began: Vec<u64> = (0..units)
            .filter(|&number| has_landed(landed, flight.burst_of.get(number).copied().unwrap_or(0)))
            .map(block_of)
            .collect();
        // A cut inside a unit, where blocks are smaller.
        if kept < blocks && !began.contains(&kept) {
            let kept_bytes = (origin + kept * block).saturating_sub(request.offset) as u32;
            let flight = self.flights.get_mut(slot);
            if began.iter().all(|began| *began < kept) {
                flight.kept_bytes = flight.kept_bytes.min(kept_bytes);
            }
        }
        self.lose_units(slot, |number| block_of(number) >= kept && !began.contains(&block_of(number)));
        self.note(slot, What::Lost);
    }

    /// Loses all effects of a request that are still to come.
    fn lose(&mut self, slot: Slot) {
        self.cancel_write_back(slot);
        self.drop_events(slot);
        self.note(slot, What::Lost);
        self.flights.release_if_over(slot);
    }

    pub(crate) fn drop_events(&mut self, slot: Slot) {
        let mut dropped = 0;
        self.agenda.rewrite(|event| {
            if event.slot == slot && event.what != Happens::Completion {
                dropped += 1;
                return None;
            }
            Some(event)
        });
        let flight = self.flights.get_mut(slot);
        flight.events -= dropped;
        flight.bursts = flight.landed.count_ones() as u8;
        flight.landed = ((1_u32 << flight.bursts) - 1) as u8;
    }

    fn lose_all(&mut self, queue_pair: u32) {
        for slot in self.unfinished(queue_pair) {
            self.lose(slot);
        }
    }

    /// Half of the time, what is still to come of a queue pair comes late.
    fn delay(&mut self, queue_pair: u32) {
        if self.rng.percent(50) {
            return;
        }
        let late_ns = self.rng.within(self.config.delays.long_ns);
        let flights = &self.flights;
        self.agenda.rewrite(|mut event| {
            if flights.get(event.slot).queue_pair == queue_pair && event.what != Happens::Completion {
                event.at_ns += late_ns;
            }
            Some(event)
        });
    }

    /// Executes a last random prefix of a queue pair's requests and loses the rest.
    fn close(&mut self, queue_pair: u32) {
        if !planted(Mutant::HANDLER_AFTER_FENCE) {
            self.end_calls(|flight| flight.queue_pair == queue_pair);
        }
        self.cut(queue_pair);
        for slot in self.unfinished(queue_pair) {
            for burst in 0..self.flights.get(slot).bursts {
                if self.flights.get(slot).landed & 1 << burst == 0 {
                    self.burst(slot, burst);
                }
            }
            self.write_back(slot);
            self.drop_events(slot);
            self.flights.release_if_over(slot);
        }
        self.fail_completions(queue_pair, Status::Flushed);
    }

    /// Turns all completions of a queue pair that have not arrived into failures that arrive soon, in post order.
    fn fail_completions(&mut self, queue_pair: u32, status: Status) {
        let at_ns = self.now_ns + self.rng.within(self.config.delays.failure_ns);
        let mut slots: Vec<Slot> = Vec::new();
        for slot in self.flights.in_use() {
            let flight = self.flights.get(slot);
            if flight.queue_pair == queue_pair && !flight.completed {
                slots.push(slot);
            }
        }
        for &slot in &slots {
            let completion = &mut self.flights.get_mut(slot).completion;
            if matches!(completion.status, Status::Ok | Status::Unanswered) {
                completion.status = status;
            }
            completion.elapsed_ns = completion.elapsed_ns.max((at_ns - self.now_ns) as u32);
        }
        self.agenda.rewrite(|mut event| {
            if event.what == Happens::Completion && slots.contains(&event.slot) {
                event.at_ns = at_ns;
            }
            Some(event)
        });
        let order = &mut self.queue_pairs[queue_pair as usize].order;
        order.completed_ns = order.completed_ns.max(at_ns);
    }
}
