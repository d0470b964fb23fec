//! Turns a lane's submit into work requests, in one walk over them: one linked list and one doorbell per memory node.

use super::ids::work_id;
use super::link::{ANSWER_BYTES, Link, NOBODY, Slot};
use super::mlx5::Masks;
use super::{Masked, Track, VerbsFabric};
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

    /// Writes what request `index` does and to which memory: all that [`Work::link`] does not.
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

    /// Writes the id, the flags and the local memory of request `index`, and that the one behind it follows.
    #[inline]
    fn link(&mut self, index: usize, id: u64, piece: ibv_sge, flags: u32) {
        let next = self.requests.as_mut_ptr().wrapping_add(index + 1);
        let work = &mut self.requests[index];
        self.pieces[index] = piece;
        work.wr_id = id;
        work.sg_list = &raw mut self.pieces[index];
        work.num_sge = i32::from(piece.length > 0);
        work.send_flags = flags;
        work.next = next;
    }
}

impl VerbsFabric {
    /// Posts what `lanes[at]` submitted to one memory node: the requests at `positions`, one chain.
    pub(super) fn post_chain(&mut self, lanes: &[Lane<'_>], at: usize, requests: &[Request], positions: &[u8]) {
        let Some(node) = positions.first().map(|&first| usize::from(requests[usize::from(first)].node.0)) else {
            return;
        };
        let lane = &lanes[at];
        if let Err(status) = self.prepare(lanes, node, positions.len()) {
            refuse(lane, positions, status);
            return;
        }
        let track = self.tracks[at];
        let copy = &self.blocks[track.block];
        let link = &mut self.links[node];
        let inline_max = link.inline_bytes();
        // A chain ends at the first request that cannot be posted; those before it are posted all the same.
        let mut count = 0;
        // The part of the chain that will be reported: up to the last request that the lane waits for.
        let mut waited = 0;
        // Masked atomics are posted by other calls, and so is all of their chain, to stay one chain.
        let mut masked = false;
        while let Some(&position) = positions.get(count) {
            let request = &requests[usize::from(position)];
            let target = if request.label == Label::Closed && link.credits.is_left(lane.id()) {
                Err(Status::Flushed)
            } else {
                target(link, &track, self.masked, request)
            };
            let (address, key) = match target {
                Ok(aim) => aim,
                Err(status) => {
                    refuse(lane, &[position], status);
                    refuse(lane, &positions[count + 1..], Status::Flushed);
                    break;
                }
            };
            self.work.aim(count, request, address, key);
            let number = link.next + count as u64;
            let slot = link.position(number);
            let swapped = request.verb == Verb::MaskedCas && self.masked == Masked::Swapped;
            link.slots[slot] = Slot { lane: at as u16, position, atomic: is_atomic(request), swapped };
            let inline = request.flags.contains(Flags::INLINE);
            let answer = slot * ANSWER_BYTES;
            if inline {
                link.answers.put(answer, &request.inline_payload()[..request.bytes as usize]);
            }
            let (addr, lkey) = if is_atomic(request) || inline {
                (link.answers.address(answer), link.answers.local_key())
            } else {
                (copy.address(track.at + request.local as usize), copy.local_key())
            };
            let stays = stays(request, inline_max);
            let fence = if request.flags.contains(Flags::FENCE) { ibv_send_flags::IBV_SEND_FENCE.0 } else { 0 };
            let by_value = if stays { 0 } else { ibv_send_flags::IBV_SEND_INLINE.0 };
            let id = work_id(node, link.epoch, number);
            self.work.link(count, id, ibv_sge { addr, length: request.bytes, lkey }, fence | by_value);
            masked |= request.verb == Verb::MaskedCas;
            count += 1;
            let waits = request.flags.contains(Flags::SIGNALED) || (stays && !inline);
            waited = if waits { count } else { waited };
        }
        if count == 0 {
            return;
        }
        let Work { requests: works, masks, .. } = &mut *self.work;
        let list = &mut works[..count];
        end(list, link, waited);
        // SAFETY: linked by `Work::link`, in order, the last one to nothing by `end`; the pieces are in `work`. The memory
        // they name is this lane's copy and these slots' answers, registered, and not touched before the requests have
        // completed: a lane's copy is written at its next post, which waits for `pending` to be 0, and a slot is used again
        // when its request has completed.
        let posted = link.pair().map_or(Err(0), |pair| unsafe {
            if masked { pair.post_masked(list, &masks[..count]) } else { pair.post(list) }
        });
        let done = posted.err().unwrap_or(count);
        self.tracks[at].pending += waited.min(done) as u32;
        link.next += done as u64;
        if done < count {
            refuse(lane, &positions[done..count], Status::Flushed);
            self.give_up(lanes, node);
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
}

/// Ends a list of requests, of which the first `waited` are reported to their lane: the last of these is signaled.
#[inline]
fn end(list: &mut [ibv_send_wr], link: &mut Link, waited: usize) {
    for index in waited..list.len() {
        let slot = link.position(link.next + index as u64);
        link.slots[slot].lane = NOBODY;
    }
    if let Some(last) = waited.checked_sub(1) {
        list[last].send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        link.unsignaled = 0;
    }
    // The next signaled request drains the requests behind the last signaled one. If there was no signaled request for
    // long, one that no lane waits for is signaled.
    link.unsignaled += (list.len() - waited) as u32;
    let drains = link.unsignaled as usize >= link.depth() / 4;
    if let Some(last) = list.last_mut() {
        last.next = ptr::null_mut();
        if drains {
            last.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
            link.unsignaled = 0;
        }
    }
}

/// Completes requests that are not posted.
#[cold]
fn refuse(lane: &Lane<'_>, positions: &[u8], status: Status) {
    for &position in positions {
        lane.port().complete(usize::from(position), Completion { status, ..Completion::default() });
    }
}

/// Where a request goes, as the device wants it: address and key; or why it cannot be posted.
#[inline]
fn target(link: &Link, track: &Track, masked: Masked, request: &Request) -> Result<(u64, u32), Status> {
    let local = u64::from(request.local) + u64::from(request.bytes);
    let inline = request.flags.contains(Flags::INLINE);
    match request.verb {
        Verb::Read | Verb::Write if inline && request.bytes as usize > INLINE_BYTES_MAX => {
            return Err(Status::Refused);
        }
        Verb::Read | Verb::Write if !inline && local > track.bytes as u64 => return Err(Status::Refused),
        Verb::MaskedCas if masked == Masked::No || !link.takes_masked() => {
            return Err(Status::Unsupported);
        }
        Verb::Cas | Verb::MaskedCas | Verb::FetchAdd if request.bytes != 8 || !request.offset.is_multiple_of(8) => {
            return Err(Status::Refused);
        }
        Verb::Read | Verb::Write | Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => {}
        _ => return Err(Status::Unsupported),
    }
    let welcome = link.peer().welcome();
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

/// Whether the device writes back the word that was there.
#[inline]
fn is_atomic(request: &Request) -> bool {
    matches!(request.verb, Verb::Cas | Verb::MaskedCas | Verb::FetchAdd)
}

/// Whether the request needs the lane's copy or the slot until it completes.
#[inline]
fn stays(request: &Request, inline_max: u32) -> bool {
    request.verb != Verb::Write || request.bytes > inline_max
}
