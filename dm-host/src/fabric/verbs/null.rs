//! A device that completes every request at once and executes none: to measure what this side of the doorbell costs.
//!
//! It is behind the same calls of libibverbs: `ibv_post_send` and `ibv_poll_cq` go through the function table of a
//! device's context. It keeps what a real provider has to keep: every signaled request brings a completion, in order.
//! No payload moves. Its structures are leaked, since a measurement makes one such device.

use super::mlx5::RawPair;
use rdma_sys::{ibv_context, ibv_cq, ibv_mr, ibv_qp, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_wc, ibv_wc_status};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Completions that wait to be polled, and posted receives: id, address and length.
struct Ring {
    ids: Box<[u64]>,
    first: usize,
    next: usize,
    receives: VecDeque<(u64, u64, u32)>,
    /// How long the messages are that completed receives, in their order.
    received: VecDeque<(u64, u32)>,
}

impl Ring {
    #[inline]
    fn push(&mut self, id: u64) {
        let mask = self.ids.len() - 1;
        self.ids[self.next & mask] = id;
        self.next += 1;
    }
}

/// A value of zeros that is never freed.
fn leaked<T>() -> NonNull<T> {
    // The structures of libibverbs are integers, pointers, optional functions, and mutexes that no code locks here, for
    // all of which zeros are values in C.
    let value: Box<MaybeUninit<T>> = Box::new(MaybeUninit::zeroed());
    NonNull::from(Box::leak(value)).cast()
}

pub(super) fn context() -> NonNull<ibv_context> {
    let context = leaked::<ibv_context>();
    // SAFETY: just allocated, and no other code has it.
    unsafe {
        (*context.as_ptr()).ops.post_send = Some(post);
        (*context.as_ptr()).ops.post_recv = Some(receive);
        (*context.as_ptr()).ops.poll_cq = Some(poll);
    }
    context
}

pub(super) fn completion_queue(context: NonNull<ibv_context>, entries: u32) -> NonNull<ibv_cq> {
    let queue = leaked::<ibv_cq>();
    let ids = vec![0; entries.next_power_of_two() as usize].into_boxed_slice();
    let ring =
        Box::leak(Box::new(Ring { ids, first: 0, next: 0, receives: VecDeque::new(), received: VecDeque::new() }));
    // SAFETY: just allocated, and no other code has it.
    unsafe {
        (*queue.as_ptr()).context = context.as_ptr();
        (*queue.as_ptr()).cq_context = std::ptr::from_mut(ring).cast();
    }
    queue
}

pub(super) fn queue_pair(
    context: NonNull<ibv_context>,
    completions: NonNull<ibv_cq>,
    masked: bool,
) -> (NonNull<ibv_qp>, Option<RawPair>) {
    #[cfg(test)]
    if masked {
        let (pair, raw) = executing::queue_pair(context, completions);
        return (pair, Some(raw));
    }
    debug_assert!(!masked);
    let pair = leaked::<ibv_qp>();
    // SAFETY: just allocated, and no other code has it.
    unsafe {
        (*pair.as_ptr()).context = context.as_ptr();
        (*pair.as_ptr()).send_cq = completions.as_ptr();
    }
    (pair, None)
}

pub(super) fn registration() -> NonNull<ibv_mr> {
    leaked()
}

/// # Safety
///
/// As `ibv_post_send` of a queue pair made here, by one thread at a time.
unsafe extern "C" fn post(pair: *mut ibv_qp, mut work: *mut ibv_send_wr, _: *mut *mut ibv_send_wr) -> i32 {
    // SAFETY: made by `queue_pair`, its ring by `completion_queue`; the worker that owns both is the only one here.
    let ring = unsafe { &mut *(*(*pair).send_cq).cq_context.cast::<Ring>() };
    // SAFETY: the caller's list is linked and ends with null.
    while let Some(request) = unsafe { work.as_ref() } {
        #[cfg(test)]
        // SAFETY: as above.
        if unsafe { executing::is(pair) } {
            executing::plain(request, ring);
        }
        if request.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0 {
            ring.push(request.wr_id);
        }
        work = request.next;
    }
    0
}

/// # Safety
///
/// As `ibv_post_recv` of a queue pair made here, by one thread at a time.
unsafe extern "C" fn receive(pair: *mut ibv_qp, work: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> i32 {
    // SAFETY: as in `post`.
    let ring = unsafe { &mut *(*(*pair).send_cq).cq_context.cast::<Ring>() };
    // SAFETY: a list of one receive with one piece, by `QueuePair::receive`.
    unsafe { ring.receives.push_back(((*work).wr_id, (*(*work).sg_list).addr, (*(*work).sg_list).length)) };
    0
}

/// # Safety
///
/// As `ibv_poll_cq` of a completion queue made here, by one thread at a time.
unsafe extern "C" fn poll(queue: *mut ibv_cq, count: i32, into: *mut ibv_wc) -> i32 {
    // SAFETY: as in `post`.
    let ring = unsafe { &mut *(*queue).cq_context.cast::<Ring>() };
    let mut taken = 0;
    while taken < count && ring.first != ring.next {
        let mask = ring.ids.len() - 1;
        let id = ring.ids[ring.first & mask];
        let bytes = ring.received.pop_front_if(|(received, _)| *received == id).map_or(0, |(_, bytes)| bytes);
        // SAFETY: the caller has room for `count`.
        unsafe {
            let completion = into.add(taken as usize);
            completion.write(MaybeUninit::zeroed().assume_init());
            (*completion).wr_id = id;
            (*completion).status = ibv_wc_status::IBV_WC_SUCCESS;
            (*completion).byte_len = bytes;
        }
        ring.first += 1;
        taken += 1;
    }
    taken
}

#[cfg(test)]
pub(super) mod executing;
