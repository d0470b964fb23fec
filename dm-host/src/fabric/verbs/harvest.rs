//! Delivers completions to lanes.

use super::VerbsFabric;
use super::completion::{self, status_of};
use super::ids::{is_receive, parts_of, whole_number};
use super::link::{ANSWER_BYTES, Link, NOBODY};
use crate::clock::Stamp;
use dm_core::lane::Lane;
use dm_core::verbs::{CallAnswer, Completion, Status, Verb};
use rdma_sys::{ibv_wc, ibv_wc_status};
use std::mem::MaybeUninit;
use std::time::Instant;

/// Most completions taken off the queue at once.
const BATCH: usize = 32;

/// Polls without a completion between two looks for failures that bring no completion.
const IDLE_POLLS: u32 = 256;

/// Polls without a completion while a call waits, before others get the processor.
const CALL_POLLS: u32 = 4;

impl VerbsFabric {
    /// Takes completions off the queue and delivers them.
    #[inline]
    pub(super) fn harvest(&mut self, lanes: &[Lane<'_>]) {
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        let count = self.completions.poll(&mut batch);
        if count > 0 {
            // One stamp for all of them: none arrived later.
            let now = self.clock.after();
            for completion in &batch[..count] {
                // SAFETY: as many as `poll` says were written by the device's library.
                let completion = unsafe { completion.assume_init_ref() };
                if is_receive(completion.wr_id) {
                    let (node, epoch, buffer) = parts_of(completion.wr_id);
                    self.receive(lanes, (node, epoch, buffer as usize), completion, now);
                } else {
                    self.settle(lanes, completion.wr_id, completion.status, now);
                }
            }
            self.idle_polls = 0;
        }
        if !self.calls.is_empty() {
            self.take_replies(lanes, self.clock.after());
        }
        if self.waiting_calls > 0 {
            self.give_calls_up(lanes);
        }
        if count == 0 {
            self.idle(lanes);
        }
    }

    /// Handles a poll that found no completion.
    fn idle(&mut self, lanes: &[Lane<'_>]) {
        self.idle_polls += 1;
        if self.idle_polls >= IDLE_POLLS || self.links.iter().any(Link::is_failing) {
            self.idle_polls = 0;
            self.look(lanes);
            // Where processors are scarce, the awaited work may need this one: that of a software device, for example.
            std::thread::yield_now();
        } else if self.waiting_calls > 0 && self.idle_polls.is_multiple_of(CALL_POLLS) {
            // What is awaited is another processor's work, for which there may be none but this one.
            std::thread::yield_now();
        }
    }

    /// Delivers one completion, which had arrived at `now`.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        lanes: &[Lane<'_>],
        lane: usize,
        position: u8,
        value: u64,
        status: Status,
        now: Stamp,
    ) {
        let elapsed_ns = saturated(self.clock.ns_between(self.tracks[lane].posted, now));
        if let Some(lane) = lanes.get(lane) {
            lane.port().complete(usize::from(position), Completion { value, elapsed_ns, status });
        }
        self.release(lanes, lane, elapsed_ns);
    }

    /// Counts one completion of a lane, and ends its submit with the last one.
    #[inline]
    pub(super) fn release(&mut self, lanes: &[Lane<'_>], at: usize, elapsed_ns: u32) {
        let track = &mut self.tracks[at];
        track.pending = track.pending.saturating_sub(1);
        if track.pending == 0 {
            self.finish(lanes, at, elapsed_ns);
        }
    }

    /// Ends the submit of a lane: READ payloads and answers of calls go to the scratch.
    fn finish(&mut self, lanes: &[Lane<'_>], at: usize, elapsed_ns: u32) {
        let Some(lane) = lanes.get(at) else { return };
        let (port, track) = (lane.port(), self.tracks[at]);
        let Some(copy) = self.blocks.get(track.block) else { return };
        let requests = port.requests();
        port.finish_by_copy(u64::from(elapsed_ns), |scratch| {
            for (position, request) in requests.iter().enumerate() {
                let completion = port.completion(position);
                let bytes = match request.verb {
                    Verb::Read => request.bytes as usize,
                    Verb::Call => CallAnswer(completion.value).bytes(),
                    _ => continue,
                };
                let range = request.local as usize..request.local as usize + bytes;
                if completion.status == Status::Ok
                    && range.end <= track.bytes
                    && let Some(into) = scratch.get_mut(range)
                {
                    copy.get(track.at + request.local as usize, into);
                }
            }
        });
        drop(requests);
        self.ready.push(at);
    }

    /// Reports what one completion says: about its own request, and about the unsignaled ones before it.
    #[inline]
    fn settle(&mut self, lanes: &[Lane<'_>], id: u64, status: ibv_wc_status::Type, now: Stamp) {
        let (node, epoch, number) = parts_of(id);
        let Some(link) = self.links.get_mut(node) else { return };
        let number = whole_number(link.oldest, number);
        if link.epoch != epoch || number < link.oldest || number >= link.next {
            return;
        }
        let typed = if status == ibv_wc_status::IBV_WC_SUCCESS { Status::Ok } else { self.failed(node, status) };
        loop {
            let link = &mut self.links[node];
            let oldest = link.oldest;
            if oldest > number {
                break;
            }
            let at = link.position(oldest);
            let slot = link.slots[at];
            // Completions come in order, and an error always brings one. So the requests before this one succeeded.
            let status = if oldest == number { typed } else { Status::Ok };
            link.oldest = oldest + 1;
            if slot.lane == NOBODY {
                continue;
            }
            let value = if slot.atomic && status == Status::Ok { link.answers.word(at * ANSWER_BYTES) } else { 0 };
            let value = if slot.swapped { value.swap_bytes() } else { value };
            self.deliver(lanes, usize::from(slot.lane), slot.position, value, status, now);
        }
        let link = &self.links[node];
        if link.is_failing() && link.outstanding() == 0 {
            self.finalize(lanes, node);
        }
    }

    /// Handles a request that failed, and with it its queue pair: what that means to the lane.
    #[cold]
    pub(super) fn failed(&mut self, node: usize, status: ibv_wc_status::Type) -> Status {
        let (typed, ours) = status_of(status);
        if ours {
            tracing::error!("memory node {node}: the device refused a request: {}", completion::name(status));
        } else {
            tracing::debug!("memory node {node}: {}", completion::name(status));
        }
        let link = &mut self.links[node];
        link.fail(Instant::now());
        if typed == Status::Flushed { link.flushed() } else { typed }
    }

    /// Looks for failures that bring no completion.
    fn look(&mut self, lanes: &[Lane<'_>]) {
        let now = Instant::now();
        for node in 0..self.links.len() {
            self.links[node].look(now);
            if !self.links[node].is_failing() {
                continue;
            }
            if self.links[node].is_awaited() && !self.links[node].is_overdue(now) {
                continue;
            }
            let link = &self.links[node];
            let (first, last, status) = (link.oldest, link.next, link.flushed());
            // Destroyed first, so that nothing is written to a lane's copy after the lane has its status.
            self.finalize(lanes, node);
            let told = self.clock.after();
            for number in first..last {
                let link = &self.links[node];
                let slot = link.slots[link.position(number)];
                if slot.lane != NOBODY {
                    self.deliver(lanes, usize::from(slot.lane), slot.position, 0, status, told);
                }
            }
        }
    }
}

#[inline]
pub(super) fn saturated(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
