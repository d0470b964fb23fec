//! The responder: a memory node takes requests in, parks atomics whose bucket is busy, executes, and answers.

use super::{Cluster, EventKind, Flight};
use crate::calls::{answer_at_once, scratch_bytes};
use crate::memory::atomic_result;
use crate::timing::nic::Server;
use dm_core::verbs::{CallAnswer, Flags, Request, Space, Status, Verb};

/// Why an atomic can be neither executed nor parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// It can.
    None,
    /// Its bucket is busy until then, and no request waits for that.
    Busy { free_ps: u64 },
    /// Others wait for its bucket.
    Parked,
}

impl Cluster<'_> {
    pub(super) fn arrive(&mut self, flight: u32) {
        let Flight { ref request, from, to, at_once, .. } = self.flights[flight as usize];
        if at_once {
            return self.execute(flight);
        }
        let (from, to) = (usize::from(from), usize::from(to));
        let mut ready_ps = self.now_ps;
        if from != to {
            let bytes = self.request_bytes(request);
            let nic = &mut self.nics[to];
            nic.bytes_in += bytes;
            ready_ps = nic.input.pass(self.now_ps, self.wire.time_ps(bytes));
        }
        self.flights[flight as usize].ready_ps = ready_ps;
        // The NIC with that number is the memory node's.
        let node = &mut self.memory_nodes[to];
        node.ingress.push_back(flight);
        if node.scheduled_ps.is_none() && node.stalled_since_ps.is_none() {
            self.take_in(to);
        }
    }

    /// Serves what has arrived, as far as the memory node can take it now.
    pub(super) fn take_in(&mut self, node: usize) {
        loop {
            let state = &self.memory_nodes[node];
            let Some(&flight) = state.ingress.front() else { return };
            let ready_ps = self.flights[flight as usize].ready_ps;
            let answers_ps = self.nics[node].output.free_ps.saturating_sub(self.times.buffer_ps);
            let start_ps = state.pipeline.free_ps.max(ready_ps).max(answers_ps);
            if start_ps > self.now_ps {
                self.look_at_ingress(node, start_ps);
                return;
            }
            let obstacle = self.obstacle(node, flight);
            if obstacle != Obstacle::None {
                let now_ps = self.now_ps;
                self.memory_nodes[node].stalled_since_ps.get_or_insert(now_ps);
                // Buckets with parked atomics look at the ingress themselves when they become free.
                if let Obstacle::Busy { free_ps } = obstacle {
                    self.look_at_ingress(node, free_ps);
                }
                return;
            }
            let now_ps = self.now_ps;
            let state = &mut self.memory_nodes[node];
            if let Some(since_ps) = state.stalled_since_ps.take() {
                state.counts.stalled_ps += now_ps - since_ps;
            }
            state.ingress.pop_front();
            let Flight { ref request, queue_pair, .. } = self.flights[flight as usize];
            let work_ps = self.slot_ps(request);
            self.memory_nodes[node].pipeline.serve(now_ps, work_ps);
            if self.queue_pairs[queue_pair as usize].parked > 0 {
                self.append(|cluster| &mut cluster.queue_pairs[queue_pair as usize].held, flight);
            } else {
                self.execute(flight);
            }
        }
    }

    fn look_at_ingress(&mut self, node: usize, at_ps: u64) {
        self.memory_nodes[node].scheduled_ps = Some(at_ps);
        self.schedule(at_ps, EventKind::Ingress, node as u32);
    }

    /// Time of the pipeline that a request takes.
    fn slot_ps(&self, request: &Request) -> u64 {
        match (request.verb, request.space) {
            _ if self.is_free(request) => 0,
            (Verb::Read, _) => self.times.read_ps,
            (Verb::Cas | Verb::MaskedCas | Verb::FetchAdd, Space::Host) => self.times.host_atomic_ps,
            (Verb::Cas | Verb::MaskedCas | Verb::FetchAdd, Space::Device) => self.times.device_atomic_ps,
            _ => self.times.write_ps,
        }
    }

    /// What keeps a request from being served now that nothing else does: an atomic that would have to be parked and
    /// cannot.
    fn obstacle(&self, node: usize, flight: u32) -> Obstacle {
        let Flight { request, queue_pair, .. } = &self.flights[flight as usize];
        if !matches!(request.verb, Verb::Cas | Verb::MaskedCas | Verb::FetchAdd)
            || self.is_free(request)
            || self.memory_nodes[node].counts.parked_now < self.buckets.parked_max
            // It will wait behind another of its queue pair, which is parked already.
            || self.queue_pairs[*queue_pair as usize].parked > 0
            || self.memories.admit(request, self.profile.atomics.masked).is_err()
        {
            return Obstacle::None;
        }
        let bucket = &self.buckets.all[self.buckets.of(request) as usize];
        if !bucket.parked.is_empty() {
            return Obstacle::Parked;
        }
        if bucket.free_ps > self.now_ps { Obstacle::Busy { free_ps: bucket.free_ps } } else { Obstacle::None }
    }

    /// Serves a request, or parks it.
    fn execute(&mut self, flight: u32) {
        let Flight { request, lane, queue_pair, .. } = self.flights[flight as usize];
        if let Err(status) = self.memories.admit(&request, self.profile.atomics.masked) {
            self.flights[flight as usize].completion.status = status;
            return self.respond(flight, 0);
        }
        let node = usize::from(request.node.0);
        let in_host = request.space == Space::Host;
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        let remote = request.offset as usize..request.offset as usize + request.bytes as usize;
        let bytes = u64::from(request.bytes);
        let is_free = self.is_free(&request);
        let counts = &mut self.memory_nodes[node].counts;
        let transfer_ps = if in_host { (bytes as f64 * self.times.ps_per_byte) as u64 } else { 0 };
        let latency_ps = match request.verb {
            Verb::Read => {
                counts.reads += 1;
                counts.payload_read += bytes;
                let scratch = self.submits[lane as usize].scratch.as_deref_mut().and_then(|all| all.get_mut(local));
                match scratch {
                    Some(scratch) => scratch.copy_from_slice(&self.memories.of(&request).bytes()[remote]),
                    None => self.flights[flight as usize].completion.status = Status::Refused,
                }
                transfer_ps + if in_host { self.times.host_read_ps } else { 0 }
            }
            Verb::Write => {
                counts.writes += 1;
                counts.payload_written += bytes;
                let inline = request.inline_payload();
                let scratch = self.submits[lane as usize].scratch.as_deref();
                let payload = if request.flags.contains(Flags::INLINE) {
                    inline.get(..request.bytes as usize)
                } else {
                    scratch.and_then(|all| all.get(local))
                };
                match payload {
                    Some(payload) => self.memories.of(&request).range_mut(remote).copy_from_slice(payload),
                    None => self.flights[flight as usize].completion.status = Status::Refused,
                }
                transfer_ps + if in_host { self.times.host_write_ps } else { 0 }
            }
            Verb::Rpc => {
                counts.calls += 1;
                self.procedure(flight, node)
            }
            Verb::Call => {
                counts.calls += 1;
                self.call(flight, node)
            }
            _ => {
                let bucket = self.buckets.of(&request);
                let at = &self.buckets.all[bucket as usize];
                let busy = !is_free && (at.free_ps > self.now_ps || !at.parked.is_empty());
                let first = at.parked.is_empty();
                if busy {
                    let free_ps = at.free_ps;
                    counts.parked_now += 1;
                    counts.parked_most = counts.parked_most.max(counts.parked_now);
                    self.queue_pairs[queue_pair as usize].parked += 1;
                    self.flights[flight as usize].ready_ps = self.now_ps;
                    self.append(|cluster| &mut cluster.buckets.all[bucket as usize].parked, flight);
                    if first {
                        self.schedule(free_ps, EventKind::Bucket, bucket);
                    }
                    return;
                }
                self.atomic(flight, bucket)
            }
        };
        self.respond(flight, latency_ps);
    }

    /// Executes an atomic whose bucket is free; returns how long it takes.
    fn atomic(&mut self, flight: u32, bucket: u32) -> u64 {
        let request = self.flights[flight as usize].request;
        let memory = self.memories.of(&request);
        let old = memory.word(request.offset);
        let new = atomic_result(&request, old);
        if let Some(new) = new {
            memory.set_word(request.offset, new);
        }
        self.flights[flight as usize].completion.value = old;
        let counts = &mut self.memory_nodes[usize::from(request.node.0)].counts;
        counts.failed_atomics += u64::from(new.is_none());
        match request.space {
            Space::Host => counts.host_atomics += 1,
            Space::Device => counts.device_atomics += 1,
        }
        if self.is_free(&request) {
            return 0;
        }
        self.buckets.occupy(bucket, self.now_ps, request.space, new.is_some())
    }

    /// A bucket is free: its first parked atomic is executed, and what waited behind that.
    pub(super) fn leave_bucket(&mut self, bucket: u32) {
        let node = self.buckets.memory_node(bucket);
        let Some(flight) = self.pop(|cluster| &mut cluster.buckets.all[bucket as usize].parked) else { return };
        let Flight { queue_pair, ready_ps, .. } = self.flights[flight as usize];
        let counts = &mut self.memory_nodes[node].counts;
        counts.parked_now -= 1;
        counts.parked_ps += self.now_ps - ready_ps;
        let latency_ps = self.atomic(flight, bucket);
        self.respond(flight, latency_ps);
        let at = &self.buckets.all[bucket as usize];
        if !at.parked.is_empty() {
            self.schedule(at.free_ps, EventKind::Bucket, bucket);
        }
        let queue_pair = queue_pair as usize;
        self.queue_pairs[queue_pair].parked -= 1;
        while self.queue_pairs[queue_pair].parked == 0 {
            let Some(held) = self.pop(|cluster| &mut cluster.queue_pairs[queue_pair].held) else { break };
            self.execute(held);
        }
        if self.memory_nodes[node].stalled_since_ps.is_some() {
            self.take_in(node);
        }
    }

    /// A remote procedure call; returns how long it takes. Memory nodes take their time, and say that they do not know any.
    fn procedure(&mut self, flight: u32, node: usize) -> u64 {
        self.flights[flight as usize].completion.status = Status::Unsupported;
        self.work(node, self.times.service_ps)
    }

    /// Has a memory node's processor walk; returns how long it takes. It reads the nodes as they are when the call arrives.
    fn call(&mut self, flight: u32, node: usize) -> u64 {
        let Flight { request, lane, .. } = self.flights[flight as usize];
        let scratch = self.submits[lane as usize].scratch.as_deref_mut();
        let local = request.local as usize..request.local as usize + scratch_bytes(&request);
        let Some(local) = scratch.and_then(|all| all.get_mut(local)) else {
            self.flights[flight as usize].completion.status = Status::Refused;
            return 0;
        };
        let asked = local[..request.bytes as usize].to_vec();
        let (bytes, copies) = answer_at_once(self.memories.of(&request), request.node, &asked, local);
        let work_ps = self.times.service_ps + u64::from(copies) * self.times.node_ps;
        let waits = |core: &Server| core.free_ps.saturating_sub(self.now_ps) / work_ps.max(1);
        let queued: u64 = self.memory_nodes[node].cores.iter().map(waits).sum();
        let queued = u16::try_from(queued).unwrap_or(u16::MAX);
        let service_ns = u32::try_from(work_ps / 1000).unwrap_or(u32::MAX);
        self.flights[flight as usize].completion.value = CallAnswer::new(bytes, queued, service_ns).0;
        self.work(node, work_ps)
    }

    /// Occupies the core that is free first; returns when the work is done, from now on.
    fn work(&mut self, node: usize, work_ps: u64) -> u64 {
        let cores = &mut self.memory_nodes[node].cores;
        let core = (0..cores.len()).min_by_key(|&core| cores[core].free_ps).unwrap_or(0);
        cores[core].serve(self.now_ps, work_ps) - self.now_ps
    }

    /// Sends the answer of a request that was served now and has an answer `latency_ps` later.
    fn respond(&mut self, flight: u32, latency_ps: u64) {
        self.served += 1;
        let Flight { answer: (bytes, link_ps), queue_pair, from, to, at_once, .. } = self.flights[flight as usize];
        if at_once {
            return self.schedule(self.now_ps, EventKind::Answer, flight);
        }
        let queue_pair = queue_pair as usize;
        // The latency is a delay behind the link, not in front of it: links then see calls in the order of time.
        let way_ps = latency_ps + self.times.receive_ps;
        let arrives_ps = if from == to {
            self.now_ps + way_ps + self.times.loopback_ps
        } else {
            let nic = &mut self.nics[usize::from(to)];
            nic.bytes_out += bytes;
            nic.output.serve(self.now_ps, link_ps) + way_ps + self.times.one_way_ps
        };
        let completed_ps = &mut self.queue_pairs[queue_pair].completed_ps;
        *completed_ps = arrives_ps.max(*completed_ps);
        let arrives_ps = *completed_ps;
        self.schedule(arrives_ps, EventKind::Answer, flight);
    }

    /// How long memory node `node`'s ingress was stalled until now.
    pub(crate) fn stalled_ps(&self, node: usize) -> u64 {
        let state = &self.memory_nodes[node];
        state.counts.stalled_ps + state.stalled_since_ps.map_or(0, |since_ps| self.now_ps - since_ps)
    }

    /// How long the cores of memory node `node` have worked until now.
    pub(crate) fn cores_busy_ps(&self, node: usize) -> u64 {
        self.memory_nodes[node].cores.iter().map(|core| core.busy_ps(self.now_ps)).sum()
    }
}
