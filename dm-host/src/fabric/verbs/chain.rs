//! Turns a lane's submit into work requests: one linked list and one doorbell per memory node.

use super::ids::work_id;
use super::link::{ANSWER_BYTES, NOBODY, Slot};
use super::mlx5::Masks;
use super::{Masked, VerbsFabric};
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Completion, Flags, INLINE_BYTES_MAX, Label, Request, Space, Status, Verb};
use rdma_sys::{ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

/// Room to build a list of work requests in. It is boxed, since requests point to their pieces and to each other.
pub(super) struct Work {
    requests: [ibv_send_wr; OUTBOX_REQUESTS],
    pieces: [ibv_sge; OUTBOX_REQUESTS],
    /// Masks of masked atomics, which are posted by other calls.
    masks: [Option<Masks>; OUTBOX_REQUESTS],
}

impl Work {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            // SAFETY: integers and pointers, for which zeros are values.
            requests: unsafe { MaybeUninit::zeroed().assume_init() },
            pieces: [ibv_sge { addr: 0, length: 0, lkey: 0 }; OUTBOX_REQUESTS],
            masks: [None; OUTBOX_REQUESTS],
        })
    }

    /// Writes what request `index` does and to which memory: all but its name, its flags and its local memory.
    #[inline]
    fn aim(&mut self, index: usize, request: &Request, remote_addr: u64, rkey: u32) {
        let work = &mut self.requests[index];
        self.masks[index] = None;
        let [first, second, third, fourth] = request.operands;
        match request.verb {
            Verb::Cas => {
                work.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                work.wr.atomic = rdma_sys::atomic_t { remote_addr, compare_add: first, swap: second, rkey };
            }
            Verb::MaskedCas => {
                work.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                work.wr.atomic = rdma_sys::atomic_t { remote_addr, compare_add: first, swap: second, rkey };
                self.masks[index] = Some(Masks { compare: third, swap: fourth });
            }
            Verb::FetchAdd => {
                work.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                work.wr.atomic = rdma_sys::atomic_t { remote_addr, compare_add: first, swap: 0, rkey };
            }
            verb => {
                let read = verb == Verb::Read;
                work.opcode = if read { ibv_wr_opcode::IBV_WR_RDMA_READ } else { ibv_wr_opcode::IBV_WR_RDMA_WRITE };
                work.wr.rdma = rdma_sys::rdma_t { remote_addr, rkey };
            }
        }
    }
}

impl VerbsFabric {
    /// Posts what `lanes[at]` submitted to one memory node: the requests at `positions`, one chain.
    pub(super) fn post_chain(&mut self, lanes: &[Lane<'_>], at: usize, requests: &[Request], positions: &[u8]) {
        let Some(node) = positions.first().map(|&first| usize::from(requests[usize::from(first)].node.0)) else {
            return;
        };
        let complete = |position: u8, status| {
            let completion = Completion { status, ..Completion::default() };
            lanes[at].port().complete(usize::from(position), completion);
        };
        if let Err(status) = self.prepare(lanes, node, positions.len()) {
            for &position in positions {
                complete(position, status);
            }
            return;
        }
        // A chain ends at the first request that cannot be posted; those before it are posted all the same.
        let mut count = 0;
        // The part of the chain that will be reported: up to the last request that the lane waits for.
        let mut waited = 0;
        // Masked atomics are posted by other calls, and so is all of their chain, to stay one chain.
        let mut masked = false;
        let inline_max = self.links[node].inline_bytes();
        while let Some(&position) = positions.get(count) {
            let request = &requests[usize::from(position)];
            let target = if request.label == Label::Closed && self.links[node].credits.is_left(lanes[at].id()) {
                Err(Status::Flushed)
            } else {
                self.target(node, at, request)
            };
            match target {
                Ok((address, key)) => self.work.aim(count, request, address, key),
                Err(status) => {
                    complete(position, status);
                    for &position in &positions[count + 1..] {
                        complete(position, Status::Flushed);
                    }
                    break;
                }
            }
            masked |= request.verb == Verb::MaskedCas;
            count += 1;
            let waits = request.flags.contains(Flags::SIGNALED)
                || (stays(request, inline_max) && !request.flags.contains(Flags::INLINE));
            waited = if waits { count } else { waited };
        }
        if count == 0 {
            return;
        }
        self.build(node, at, requests, &positions[..count], waited);
        let link = &mut self.links[node];
        let Work { requests, masks, .. } = &mut *self.work;
        let list = &mut requests[..count];
        // SAFETY: linked by `build`, in order, the last one to nothing; the pieces are in `work`. The memory they name is
        // this lane's copy and these slots' answers, registered, and not touched before the requests have completed: a
        // lane's copy is written at its next post, which waits for `pending` to be 0, and a slot is used again when its
        // request has completed.
        let posted = link.pair().map_or(Err(0), |pair| unsafe {
            if masked { pair.post_masked(list, &masks[..count]) } else { pair.post(list) }
        });
        let done = posted.err().unwrap_or(count);
        self.tracks[at].pending += waited.min(done) as u32;
        link.next += done as u64;
        if done < count {
            for &position in &positions[done..count] {
                complete(position, Status::Flushed);
            }
            link.fail(Instant::now());
            if link.outstanding() == 0 {
                self.finalize(lanes, node);
            }
        }
    }

    /// Makes sure that `count` requests can be posted to `node`.
    #[inline]
    pub(super) fn prepare(&mut self, lanes: &[Lane<'_>], node: usize, count: usize) -> Result<(), Status> {
        match self.links.get(node) {
            Some(link) if link.takes(count) => Ok(()),
            Some(_) => self.make_ready(lanes, node, count),
            None => Err(Status::Refused),
        }
    }

    /// Waits until `count` requests can be posted to `node`, and connects its queue pair if there is none.
    #[cold]
    fn make_ready(&mut self, lanes: &[Lane<'_>], node: usize, count: usize) -> Result<(), Status> {
        loop {
            let link = &mut self.links[node];
            if let Some(status) = link.refusal() {
                link.fail(Instant::now());
                return Err(status);
            }
            if link.takes(count) {
                return Ok(());
            }
            if !link.is_up() && !link.is_failing() {
                link.open()?;
                continue;
            }
            // Outstanding requests complete, with success or with an error.
            self.harvest(lanes);
        }
    }

    /// Where a request goes, as the device wants it: address and key; or why it cannot be posted.
    #[inline]
    fn target(&self, node: usize, at: usize, request: &Request) -> Result<(u64, u32), Status> {
        let local = u64::from(request.local) + u64::from(request.bytes);
        let inline = request.flags.contains(Flags::INLINE);
        match request.verb {
            Verb::Read | Verb::Write if inline && request.bytes as usize > INLINE_BYTES_MAX => {
                return Err(Status::Refused);
            }
            Verb::Read | Verb::Write if !inline && local > self.tracks[at].bytes as u64 => return Err(Status::Refused),
            Verb::MaskedCas if self.masked == Masked::No || !self.links[node].takes_masked() => {
                return Err(Status::Unsupported);
            }
            Verb::Cas | Verb::MaskedCas | Verb::FetchAdd if request.bytes != 8 || !request.offset.is_multiple_of(8) => {
                return Err(Status::Refused);
            }
            Verb::Read | Verb::Write | Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => {}
            _ => return Err(Status::Unsupported),
        }
        let welcome = self.links[node].peer().welcome();
        match request.space {
            Space::Host => {
                let key = welcome.key(request.offset, request.bytes).ok_or(Status::Refused)?;
                // The offset is inside the region, whose end is an address.
                Ok((welcome.base + request.offset, key))
            }
            Space::Device if welcome.device_bytes == 0 => Err(Status::Unsupported),
            Space::Device => {
                let end = request.offset.checked_add(u64::from(request.bytes));
                let inside = end.is_some_and(|end| end <= u64::from(welcome.device_bytes));
                if inside { Ok((request.offset, welcome.device_key)) } else { Err(Status::Refused) }
            }
        }
    }

    /// Completes the work requests of a chain, whose targets are written already, and writes its slots.
    #[inline]
    fn build(&mut self, node: usize, at: usize, requests: &[Request], positions: &[u8], waited: usize) {
        let track = self.tracks[at];
        let copy = &self.blocks[track.block];
        let link = &mut self.links[node];
        let inline_max = link.inline_bytes();
        let Work { requests: works, pieces, .. } = &mut *self.work;
        // From the last to the first, so that each knows where the next one is.
        let mut next: *mut ibv_send_wr = ptr::null_mut();
        for (index, &position) in positions.iter().enumerate().rev() {
            let request = &requests[usize::from(position)];
            let number = link.next + index as u64;
            let atomic = matches!(request.verb, Verb::Cas | Verb::MaskedCas | Verb::FetchAdd);
            let lane = if index < waited { at as u16 } else { NOBODY };
            let slot = link.position(number);
            let swapped = request.verb == Verb::MaskedCas && self.masked == Masked::Swapped;
            link.slots[slot] = Slot { lane, position, atomic, swapped };

            let mut flags = 0;
            if index + 1 == waited {
                flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            if request.flags.contains(Flags::FENCE) {
                flags |= ibv_send_flags::IBV_SEND_FENCE.0;
            }
            if !stays(request, inline_max) {
                flags |= ibv_send_flags::IBV_SEND_INLINE.0;
            }
            let inline = request.flags.contains(Flags::INLINE);
            let answer = slot * ANSWER_BYTES;
            if inline {
                link.answers.put(answer, &request.inline_payload()[..request.bytes as usize]);
            }
            let piece = &mut pieces[index];
            *piece = if atomic || inline {
                ibv_sge { addr: link.answers.address(answer), length: request.bytes, lkey: link.answers.local_key() }
            } else {
                let addr = copy.address(track.at + request.local as usize);
                ibv_sge { addr, length: request.bytes, lkey: copy.local_key() }
            };
            let work = &mut works[index];
            work.wr_id = work_id(node, link.epoch, number);
            work.sg_list = piece;
            work.num_sge = i32::from(request.bytes > 0);
            work.send_flags = flags;
            work.next = next;
            next = work;
        }
        // The next signaled request drains the requests behind the last signaled one. If there was no signaled request
        // for long, one that no lane waits for is signaled.
        link.unsignaled = if waited > 0 { 0 } else { link.unsignaled } + (positions.len() - waited) as u32;
        if link.unsignaled as usize >= link.depth() / 4 {
            works[positions.len() - 1].send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
            link.unsignaled = 0;
        }
    }
}

/// Whether the request needs the lane's copy or the slot until it completes.
#[inline]
fn stays(request: &Request, inline_max: u32) -> bool {
    request.verb != Verb::Write || request.bytes > inline_max
}
