//! The requester: the send queues of compute nodes, and answers that arrive there.

use super::{Cluster, ClusterEvent, EventKind, Flight};
use crate::timing::PS_PER_NS;
use crate::timing::buckets::NONE;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Completion, Flags, Request, Verb};

impl<'m> Cluster<'m> {
    /// Posts the requests of a lane's submit that travel. The thread takes `post_ps` for each of them, and
    /// `doorbell_ps` after those that go to one memory node: a chain leaves as a whole. The scratch is returned with
    /// the last completion ([`Cluster::take_scratch`]).
    pub(crate) fn post(
        &mut self,
        lane: u32,
        requests: &[Request],
        scratch: &'m mut [u8],
        post_ps: u64,
        doorbell_ps: u64,
    ) {
        let thread = lane / self.shape.lanes;
        let nodes = self.memories.count();
        let submit = &mut self.submits[lane as usize];
        submit.scratch = Some(scratch);
        submit.waiting = 0;
        debug_assert!(requests.len() <= OUTBOX_REQUESTS);
        // The first NICs are the memory nodes'.
        let compute_node = thread / self.shape.threads;
        let from = if self.shape.colocated { compute_node as u16 } else { nodes as u16 + compute_node as u16 };
        let travelling = || requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local());
        let at_once = self.has_free_locks && travelling().all(|(_, request)| self.is_free(request));
        let mut delay_ps = 0;
        let mut chain = None;
        for (position, request) in travelling() {
            if chain != Some(request.node) {
                chain = Some(request.node);
                let rest = travelling().skip_while(|&(later, _)| later < position);
                let with_it = rest.take_while(|(_, later)| later.node == request.node);
                let costly = with_it.filter(|(_, later)| !self.is_free(later)).count() as u64;
                delay_ps += costly * post_ps + costly.min(1) * doorbell_ps;
            }
            self.submits[lane as usize].waiting += 1;
            // The memory node's lines are in no cache, and are needed only when many other events have happened: this and huge pages
            // took the copy of a leaf from 16 % of the time of a simulated get to 4 %.
            self.memories.prefetch(request);
            let node = usize::from(request.node.0).min(nodes - 1);
            let to = node as u16;
            let flight = Flight {
                request: *request,
                posted_ps: self.now_ps,
                ready_ps: self.now_ps + delay_ps,
                completion: Completion::default(),
                answer: self.answer(request),
                queue_pair: thread * nodes as u32 + node as u32,
                lane,
                from,
                to,
                next: NONE,
                position: position as u8,
                received: false,
                at_once,
            };
            let flight = self.take_flight(flight);
            let queue_pair = (thread as usize) * nodes + node;
            if self.queue_pairs[queue_pair].unsent.is_empty() && self.can_send(queue_pair, request) {
                self.send(flight);
            } else {
                self.append(|cluster| &mut cluster.queue_pairs[queue_pair].unsent, flight);
            }
        }
    }

    fn can_send(&self, queue_pair: usize, request: &Request) -> bool {
        let outstanding = self.queue_pairs[queue_pair].outstanding;
        let answered = self.is_answered(request);
        (!answered || outstanding < self.times.outstanding_max)
            && (!request.flags.contains(Flags::FENCE) || outstanding == 0)
    }

    fn send(&mut self, flight: u32) {
        let Flight { request, queue_pair, ready_ps, from, to, at_once, .. } = self.flights[flight as usize];
        if at_once {
            return self.schedule(self.now_ps, EventKind::Arrival, flight);
        }
        let queue_pair = queue_pair as usize;
        if self.is_answered(&request) {
            self.queue_pairs[queue_pair].outstanding += 1;
        }
        let now_ps = self.now_ps;
        let requester_ps = if self.is_free(&request) { 0 } else { self.times.requester_ps };
        let bytes = self.request_bytes(&request);
        let nic = &mut self.nics[usize::from(from)];
        let admitted_ps = nic.requester.serve(now_ps, requester_ps) - requester_ps;
        // What the thread still does before the doorbell is a delay on the way, so that servers see calls in the order
        // of time.
        let thread_ps = ready_ps.saturating_sub(now_ps);
        let way_ps = thread_ps + self.times.send_ps + self.times.pipeline_ps;
        let arrives_ps = if from == to {
            admitted_ps + way_ps + self.times.loopback_ps
        } else {
            nic.bytes_out += bytes;
            nic.output.serve(admitted_ps, self.wire.time_ps(bytes)) + way_ps + self.times.one_way_ps
        };
        self.schedule(arrives_ps, EventKind::Arrival, flight);
    }

    pub(super) fn receive(&mut self, flight: u32) -> ClusterEvent {
        let Flight { ref request, answer, queue_pair, lane, position, posted_ps, received, from, to, at_once, .. } =
            self.flights[flight as usize];
        let queue_pair = queue_pair as usize;
        let answered = self.is_answered(request);
        if from != to && !received && !at_once {
            let (bytes, link_ps) = answer;
            let nic = &mut self.nics[usize::from(from)];
            nic.bytes_in += bytes;
            let through_ps = nic.input.pass(self.now_ps, link_ps);
            if through_ps > self.now_ps {
                self.flights[flight as usize].received = true;
                self.schedule(through_ps, EventKind::Answer, flight);
                return ClusterEvent::Internal;
            }
        }
        let mut completion = self.flights[flight as usize].completion;
        let elapsed_ns = (self.now_ps - posted_ps) / PS_PER_NS;
        completion.elapsed_ns = u32::try_from(elapsed_ns).unwrap_or(u32::MAX);
        self.flights[flight as usize].next = self.free;
        self.free = flight;

        if answered {
            self.queue_pairs[queue_pair].outstanding -= 1;
            while !self.queue_pairs[queue_pair].unsent.is_empty() {
                let head = self.queue_pairs[queue_pair].unsent.head;
                if !self.can_send(queue_pair, &self.flights[head as usize].request) {
                    break;
                }
                self.pop(|cluster| &mut cluster.queue_pairs[queue_pair].unsent);
                self.send(head);
            }
        }
        let submit = &mut self.submits[lane as usize];
        submit.waiting -= 1;
        ClusterEvent::Completed { lane, position, completion, last: submit.waiting == 0 }
    }

    /// The scratch of a lane whose submit is complete.
    pub(crate) fn take_scratch(&mut self, lane: u32) -> Option<&'m mut [u8]> {
        self.submits[lane as usize].scratch.take()
    }

    /// Whether a request brings data back: what [`Capabilities::outstanding_reads_max`] limits.
    fn is_answered(&self, request: &Request) -> bool {
        matches!(request.verb, Verb::Read | Verb::Cas | Verb::MaskedCas | Verb::FetchAdd) && !self.is_free(request)
    }
}
