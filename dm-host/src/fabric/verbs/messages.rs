//! Calls of memory nodes' processors, and of compute nodes by way of memory node 0: a SEND, and the receive of its reply.
//!
//! A call is posted by itself, behind what its lane submitted before it to the same memory node. It completes when its reply has
//! been received, which is matched by its id ([`Credits`](super::credits::Credits)). Its SEND brings no completion of its own: if
//! it fails, the queue pair fails, and with it the call. Requests and replies lie in the fabric's own memory, as all payloads do.
//!
//! A buffer is written again when its credit is free again, hence when the reply to its call was received. The device may still
//! repeat the SEND then, if the acknowledgement was lost: the memory node, which has replied, drops that as a repetition, whatever
//! its bytes.
//!
//! **Round trips**: one. A reply that is late gives its credit back, and nothing else.

use super::VerbsFabric;
use super::credits::{Reply, Waiter};
use super::ids::{receive_id, work_id};
use super::link::{Link, NOBODY, Slot};
use crate::clock::Stamp;
use crate::fabric::CHANGE_WAIT;
use crate::memory_node::verbs::call_wire::{CALL_HEAD_BYTES, CallMessage, REPLY_HEAD_BYTES, ReplyMessage};
use dm_core::lane::Lane;
use dm_core::verbs::{CALL_BYTES_MAX, Callee, Completion, Label, Request, Status};
use rdma_sys::ibv_wc;
use std::time::{Duration, Instant};

/// How much longer than an operation may wait its caller waits for the answer.
const ANSWER_GRACE: Duration = Duration::from_millis(100);

/// No call takes longer.
const CALL_WAIT_MAX: Duration = Duration::from_hours(1);

impl VerbsFabric {
    /// Sends a call.
    pub(super) fn post_call(&mut self, lanes: &[Lane<'_>], at: usize, position: u8, request: &Request) {
        match self.begin_call(lanes, at, position, request) {
            Ok(()) => self.tracks[at].pending += 1,
            Err(status) => {
                let completion = Completion { status, ..Completion::default() };
                lanes[at].port().complete(usize::from(position), completion);
            }
        }
    }

    fn begin_call(&mut self, lanes: &[Lane<'_>], at: usize, position: u8, request: &Request) -> Result<(), Status> {
        let (node, track) = (usize::from(request.node.0), self.tracks[at]);
        let callee = Callee(request.operands[1]);
        let is_to_compute_node = callee.row().is_some();
        if callee != Callee::MEMORY_NODE && !is_to_compute_node {
            return Err(Status::Unsupported);
        }
        let (bytes, local) = (request.bytes as usize, request.local as usize);
        let answer_bytes = usize::try_from(request.operands[0]).unwrap_or(usize::MAX);
        if bytes.max(answer_bytes) > CALL_BYTES_MAX || local + bytes.max(answer_bytes) > track.bytes {
            return Err(Status::Refused);
        }
        self.prepare(lanes, node, 1)?;
        let wait = match callee.row() {
            None if request.label == Label::Change => CHANGE_WAIT.max(self.answer_wait),
            None => self.answer_wait,
            Some(_) => Duration::from_nanos(request.operands[2]).saturating_add(ANSWER_GRACE).min(CALL_WAIT_MAX),
        };
        let until = Instant::now() + wait;
        let waiter = Waiter { lane: at as u16, id: lanes[at].id(), position, local, answer_bytes, until };
        let link = &mut self.links[node];
        // Without a credit, nothing was sent.
        let without = if is_to_compute_node { Status::NotServed } else { Status::Unanswered };
        let (credit, id) = link.credits.begin(waiter).ok_or(without)?;
        let message = &mut self.message[..CALL_HEAD_BYTES + bytes];
        let (head, behind) = message.split_at_mut(CALL_HEAD_BYTES);
        head.copy_from_slice(&CallMessage { id, callee, answer_bytes }.encode());
        self.blocks[track.block].get(track.at + local, behind);
        let buffer = Link::request_at(credit);
        link.messages.put(buffer, message);
        let number = link.next;
        let slot = link.position(number);
        link.slots[slot] = Slot { lane: NOBODY, position: 0, atomic: false, swapped: false };
        link.unsignaled += 1;
        let signaled = link.unsignaled as usize >= link.depth() / 4;
        let work = work_id(node, link.epoch, number);
        // SAFETY: `messages` lives as long as the link, which drops its queue pair first. The buffer is that of the call's credit:
        // see the module's documentation.
        let sent = unsafe { link.send(work, buffer, message.len() as u32, signaled) };
        if !sent {
            link.credits.cancel(id);
            self.give_up(lanes, node);
            return Err(Status::Flushed);
        }
        link.next += 1;
        if signaled {
            link.unsignaled = 0;
        }
        self.waiting_calls += 1;
        Ok(())
    }

    /// Handles a receive that has completed.
    pub(super) fn receive(
        &mut self,
        lanes: &[Lane<'_>],
        (node, epoch, buffer): (usize, u8, usize),
        done: &ibv_wc,
        now: Stamp,
    ) {
        let Some(link) = self.links.get_mut(node) else { return };
        if link.epoch != epoch || !link.is_up() {
            // Flushed, or of a queue pair that is gone. The next one has all receives posted again.
            return;
        }
        if done.status != rdma_sys::ibv_wc_status::IBV_WC_SUCCESS {
            self.failed(node, done.status);
            return;
        }
        let at = link.reply_at(buffer);
        let mut head = [0; REPLY_HEAD_BYTES];
        link.messages.get(at, &mut head);
        let received = (done.byte_len as usize).checked_sub(REPLY_HEAD_BYTES);
        let reply = ReplyMessage::decode(&head);
        // The device wrote no more than the buffer has; the caller gets no more than it asked for.
        let whose = received.map_or(Reply::Unknown, |_| link.credits.reply(reply.id));
        let mut told = None;
        match whose {
            Reply::To(waiter) => {
                let bytes = received.unwrap_or(0).min(waiter.answer_bytes);
                let answer = &mut self.message[..bytes];
                link.messages.get(at + REPLY_HEAD_BYTES, answer);
                if let Some(track) = self.tracks.get(usize::from(waiter.lane))
                    && let Some(copy) = self.blocks.get(track.block)
                {
                    copy.put(track.at + waiter.local, answer);
                }
                let status = if reply.is_served { Status::Ok } else { Status::NotServed };
                told = Some((waiter, reply.answer(bytes), status));
            }
            Reply::Late => tracing::debug!("memory node {node}: a reply came after its call was given up"),
            Reply::Unknown => tracing::warn!("memory node {node}: a reply to no call"),
        }
        let id = receive_id(node, link.epoch, buffer);
        // SAFETY: `messages` lives as long as the link, which drops its queue pair first; what was received has been copied.
        if !unsafe { link.post_receive(id, buffer) } {
            link.fail(Instant::now());
        }
        if let Some((waiter, answer, status)) = told {
            self.waiting_calls -= 1;
            self.deliver(lanes, usize::from(waiter.lane), waiter.position, answer.0, status, now);
        }
    }

    /// Gives up the calls whose time is over.
    pub(super) fn give_calls_up(&mut self, lanes: &[Lane<'_>]) {
        let (instant, now) = (Instant::now(), self.clock.after());
        for node in 0..self.links.len() {
            while let Some(waiter) = self.links[node].credits.give_up(instant) {
                self.waiting_calls -= 1;
                self.deliver(lanes, usize::from(waiter.lane), waiter.position, 0, Status::Unanswered, now);
            }
        }
    }

    /// Lets a queue pair fail that takes no more requests.
    #[cold]
    pub(super) fn give_up(&mut self, lanes: &[Lane<'_>], node: usize) {
        let link = &mut self.links[node];
        link.fail(Instant::now());
        if link.outstanding() == 0 {
            self.finalize(lanes, node);
        }
    }

    /// Destroys the failing queue pair of a link, and ends the calls that wait for a reply by it. They may have been executed.
    pub(super) fn finalize(&mut self, lanes: &[Lane<'_>], node: usize) {
        let link = &mut self.links[node];
        let status = link.flushed();
        // First, so that no reply comes any more.
        link.finalize();
        let now = self.clock.after();
        while let Some(waiter) = self.links[node].credits.end() {
            self.waiting_calls -= 1;
            self.deliver(lanes, usize::from(waiter.lane), waiter.position, 0, status, now);
        }
    }
}
