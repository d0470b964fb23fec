//! Queue pairs and the completion queue they report to.

use super::cm::Id;
use super::device::Device;
use super::memory::Block;
use super::mlx5::{Masks, RawPair};
use super::receives::{CompletionEvents, SharedReceives};
use super::{VerbsError, last_error};
use rdma_sys::{
    ibv_access_flags, ibv_cq, ibv_create_cq, ibv_create_qp, ibv_destroy_cq, ibv_destroy_qp, ibv_modify_qp, ibv_poll_cq,
    ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_state,
    ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wr_opcode,
};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// A queue on which completions arrive. Rust drops the fields in this order, after [`Drop::drop`].
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    queue: NonNull<ibv_cq>,
    /// `None`: no thread sleeps until a completion arrives.
    events: Option<CompletionEvents>,
    device: Arc<Device>,
}

// SAFETY: see `Device`; libibverbs locks a completion queue that is polled from several threads.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    pub(crate) fn new(device: &Arc<Device>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        if let Some(context) = device.null_context() {
            let queue = super::null::completion_queue(context, entries);
            return Ok(Arc::new(Self { queue, events: None, device: Arc::clone(device) }));
        }
        Self::make(device, entries, None)
    }

    /// A queue whose pollers can sleep until a completion arrives.
    pub(crate) fn with_events(device: &Arc<Device>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        Self::make(device, entries, Some(CompletionEvents::new(device)?))
    }

    fn make(device: &Arc<Device>, entries: u32, events: Option<CompletionEvents>) -> Result<Arc<Self>, VerbsError> {
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let channel = events.as_ref().map_or(ptr::null_mut(), CompletionEvents::channel);
        // SAFETY: an open context; no context value; a live channel, which outlives the queue, or none; vector 0, which always
        // exists.
        let queue = unsafe { ibv_create_cq(device.context(), entries, ptr::null_mut(), channel, 0) };
        let queue = NonNull::new(queue).ok_or_else(|| last_error("make a completion queue on", device.name()))?;
        Ok(Arc::new(Self { queue, events, device: Arc::clone(device) }))
    }

    /// Sleeps until a completion may have arrived, at most for `longest`, unless `is_busy` says that there is work by now:
    /// it has to look for completions.
    pub(crate) fn sleep(&self, longest: Duration, is_busy: impl FnOnce() -> bool) {
        let Some(events) = &self.events else { return };
        // SAFETY: a live queue.
        if unsafe { rdma_sys::ibv_req_notify_cq(self.queue.as_ptr(), 0) } == 0 && !is_busy() {
            events.wait(longest);
        }
        // SAFETY: a live queue; all events of the channel are of this queue, and those taken here are acknowledged here.
        unsafe { events.acknowledge(self.queue) };
    }

    /// Takes up to `into.len()` completions. Returns how many there were.
    #[inline]
    pub(crate) fn poll(&self, into: &mut [MaybeUninit<ibv_wc>]) -> usize {
        let room = i32::try_from(into.len()).unwrap_or(i32::MAX);
        // SAFETY: a live queue, and room for as many completions as are asked for.
        let count = unsafe { ibv_poll_cq(self.queue.as_ptr(), room, into.as_mut_ptr().cast()) };
        // Negative: the queue is broken, because the device has gone away. Its queue pairs time out.
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        if self.device.is_null {
            return;
        }
        // SAFETY: made in `new`; the queue pairs that report to it hold an `Arc` of it, so they are gone.
        unsafe { ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Requests in the send queue; 0 for a responder that answers no calls.
    pub requests: u32,
    /// Receives in its own receive queue.
    pub receives: u32,
    /// Bytes that a request should be able to carry inline.
    pub inline_bytes: u32,
}

/// How long a peer may not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A request is repeated after 4.096 us * 2^n; 1..=31.
    pub timeout_exponent: u8,
    /// Repetitions, 0..=6. Not 7: Soft-RoCE takes 7 for "for ever".
    pub retries: u8,
}

/// An RC queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pair: NonNull<ibv_qp>,
    /// Bytes a request can carry inline.
    pub(super) inline_bytes: u32,
    /// The interface for masked atomics, if it takes them. It dangles once the queue pair is destroyed, which `drop`
    /// does last.
    raw: Option<RawPair>,
    /// The receive queue that it shares with others.
    _shared: Option<Arc<SharedReceives>>,
    completions: Arc<CompletionQueue>,
}

// SAFETY: see `Device`.
unsafe impl Send for QueuePair {}
// SAFETY: as above; posting takes `&mut self`.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// Makes a queue pair that reports to `completions`. If the device has less inline room than asked for, the pair
    /// has as much as the device can give.
    pub(crate) fn new(
        completions: &Arc<CompletionQueue>,
        sizes: Sizes,
        shared: Option<Arc<SharedReceives>>,
    ) -> Result<Self, VerbsError> {
        let device = &completions.device;
        let mut inline_bytes = sizes.inline_bytes;
        if let Some(context) = device.null_context() {
            let (pair, raw) = super::null::queue_pair(context, completions.queue, device.limits().masked_atomics);
            return Ok(Self { pair, inline_bytes, raw, _shared: shared, completions: Arc::clone(completions) });
        }
        loop {
            // SAFETY: integers and pointers, for which zeros are values.
            let mut what: ibv_qp_init_attr = unsafe { MaybeUninit::zeroed().assume_init() };
            what.send_cq = completions.queue.as_ptr();
            what.recv_cq = completions.queue.as_ptr();
            what.srq = shared.as_ref().map_or(ptr::null_mut(), |shared| shared.queue());
            what.qp_type = ibv_qp_type::IBV_QPT_RC;
            what.cap = ibv_qp_cap {
                max_send_wr: sizes.requests.max(1),
                max_recv_wr: sizes.receives.max(1),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline_bytes,
            };
            // A responder posts no atomics.
            if sizes.requests > 0
                && shared.is_none()
                && let Some((pair, raw)) = device.masked_pair(&mut what)
            {
                let inline_bytes = what.cap.max_inline_data;
                return Ok(Self {
                    pair,
                    inline_bytes,
                    raw: Some(raw),
                    _shared: shared,
                    completions: Arc::clone(completions),
                });
            }
            // SAFETY: a live protection domain, completion queue and, if any, shared receive queue of the same context, and a
            // description that outlives the call. The new value keeps the two queues.
            let pair = unsafe { ibv_create_qp(device.domain(), &raw mut what) };
            if let Some(pair) = NonNull::new(pair) {
                let inline_bytes = what.cap.max_inline_data;
                return Ok(Self {
                    pair,
                    inline_bytes,
                    raw: None,
                    _shared: shared,
                    completions: Arc::clone(completions),
                });
            }
            if inline_bytes == 0 {
                return Err(last_error("make a queue pair on", device.name()));
            }
            // A device that cannot carry so much inline data refuses, instead of giving less.
            inline_bytes /= 2;
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: live until dropped; the number does not change.
        unsafe { (*self.pair.as_ptr()).qp_num }
    }

    /// Makes it ready to answer: peers may READ, WRITE and use atomics.
    pub(crate) fn initialise(&self, id: &Id) -> Result<(), VerbsError> {
        let (mut attributes, mask) = id.attributes(ibv_qp_state::IBV_QPS_INIT)?;
        attributes.qp_access_flags = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
        self.modify(attributes, mask, "initialise")
    }

    /// Makes it ready to receive, with packets of at most `mtu` (1..=5: 256 to 4096 bytes), then to send. Returns how
    /// many READs and atomics it may have in flight.
    pub(crate) fn make_ready(&self, id: &Id, mtu: u8, patience: Patience) -> Result<u8, VerbsError> {
        let (mut attributes, mask) = id.attributes(ibv_qp_state::IBV_QPS_RTR)?;
        attributes.path_mtu = u32::from(mtu);
        // A peer that keeps to its credits never finds this end without a receive. For one that is pushed aside by another that
        // does not: 0.64 ms. The connection manager's 0 would be 655 ms.
        attributes.min_rnr_timer = 12;
        self.modify(attributes, mask, "make ready to receive")?;
        let (mut attributes, mask) = id.attributes(ibv_qp_state::IBV_QPS_RTS)?;
        attributes.timeout = patience.timeout_exponent;
        attributes.retry_cnt = patience.retries;
        attributes.rnr_retry = 6;
        let reads = attributes.max_rd_atomic;
        self.modify(attributes, mask, "make ready to send")?;
        Ok(reads)
    }

    /// Moves it into the error state: posted requests complete with an error, and the device drops packets that arrive.
    pub(crate) fn fail(&self) {
        // SAFETY: integers and structures of them, for which zeros are values.
        let mut attributes: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.qp_state = ibv_qp_state::IBV_QPS_ERR;
        if let Err(error) = self.modify(attributes, ibv_qp_attr_mask::IBV_QP_STATE.0.cast_signed(), "end") {
            tracing::debug!("{error}");
        }
    }

    fn modify(&self, mut attributes: ibv_qp_attr, mask: i32, doing: &'static str) -> Result<(), VerbsError> {
        if self.completions.device.is_null {
            return Ok(());
        }
        // SAFETY: a live queue pair, and attributes that outlive the call, of which the mask names those that are set.
        match unsafe { ibv_modify_qp(self.pair.as_ptr(), &raw mut attributes, mask) } {
            0 => Ok(()),
            errno => Err(VerbsError::Call {
                doing,
                whom: "a queue pair".to_owned(),
                source: std::io::Error::from_raw_os_error(errno),
            }),
        }
    }

    /// Posts a linked list of requests with one doorbell. `Err` gives how many were posted before the one that was
    /// refused.
    ///
    /// # Safety
    ///
    /// `requests` are linked by `next` in order, the last one to null; their scatter lists are live during the call;
    /// the memory they name is registered and not touched until their completions were polled.
    #[inline]
    pub(super) unsafe fn post(&mut self, requests: &mut [ibv_send_wr]) -> Result<(), usize> {
        let Some(first) = requests.first_mut() else { return Ok(()) };
        let first: *mut ibv_send_wr = first;
        let mut failed = ptr::null_mut();
        // SAFETY: a live queue pair and, by the contract, a well-formed list.
        if unsafe { ibv_post_send(self.pair.as_ptr(), first, &raw mut failed) } == 0 {
            return Ok(());
        }
        let begins = requests.as_ptr_range();
        if begins.contains(&failed.cast_const()) {
            return Err((failed.addr() - begins.start.addr()) / size_of::<ibv_send_wr>());
        }
        Err(0)
    }

    /// Posts one SEND of the `bytes` bytes at `at` of `block`. `false`: it was refused.
    ///
    /// # Safety
    ///
    /// `block` lives until the SEND has completed or the queue pair is destroyed. If the bytes change before, the peer may receive a
    /// mix.
    pub(crate) unsafe fn send(&mut self, id: u64, block: &Block, at: usize, bytes: u32, signaled: bool) -> bool {
        // SAFETY: by the contract.
        unsafe { self.post_one((id, ibv_wr_opcode::IBV_WR_SEND), (block, at, bytes), signaled, |_| ()) }
    }

    /// Posts one WRITE of the first `bytes` bytes of `block` to an address and key of the peer; it is signaled. `false`: it was
    /// refused.
    ///
    /// # Safety
    ///
    /// As [`QueuePair::send`].
    pub(crate) unsafe fn write(&mut self, id: u64, block: &Block, bytes: u32, (remote_addr, rkey): (u64, u32)) -> bool {
        let aim = |work: &mut ibv_send_wr| work.wr.rdma = rdma_sys::rdma_t { remote_addr, rkey };
        // SAFETY: by the contract.
        unsafe { self.post_one((id, ibv_wr_opcode::IBV_WR_RDMA_WRITE), (block, 0, bytes), true, aim) }
    }

    /// Posts one request, with the payload at `at` of `block`. `false`: it was refused.
    ///
    /// # Safety
    ///
    /// As [`QueuePair::send`].
    unsafe fn post_one(
        &mut self,
        (id, opcode): (u64, ibv_wr_opcode::Type),
        (block, at, bytes): (&Block, usize, u32),
        signaled: bool,
        aim: impl FnOnce(&mut ibv_send_wr),
    ) -> bool {
        let inline = if bytes <= self.inline_bytes { ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 };
        let mut piece = ibv_sge { addr: block.address(at), length: bytes, lkey: block.local_key() };
        // SAFETY: integers and pointers, for which zeros are values.
        let mut work: ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        (work.wr_id, work.sg_list, work.num_sge) = (id, &raw mut piece, 1);
        work.opcode = opcode;
        work.send_flags = inline | if signaled { ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        aim(&mut work);
        // SAFETY: a list of one, whose piece lives during the call; the memory by the contract.
        unsafe { self.post(std::slice::from_mut(&mut work)) }.is_ok()
    }

    /// Posts a receive of the `bytes` bytes at `at` of `block` to its own receive queue.
    ///
    /// # Safety
    ///
    /// `block` lives until the receive has completed or the queue pair is destroyed.
    pub(super) unsafe fn receive(&mut self, id: u64, block: &Block, at: usize, bytes: u32) -> bool {
        let mut piece = ibv_sge { addr: block.address(at), length: bytes, lkey: block.local_key() };
        let mut work = ibv_recv_wr { wr_id: id, next: ptr::null_mut(), sg_list: &raw mut piece, num_sge: 1 };
        let mut failed = ptr::null_mut();
        // SAFETY: a live queue pair with a receive queue of its own; a list of one, whose piece lives during the call; the memory by
        // the contract.
        unsafe { ibv_post_recv(self.pair.as_ptr(), &raw mut work, &raw mut failed) == 0 }
    }

    /// What the device calls it in events, to compare with.
    pub(crate) fn key(&self) -> usize {
        self.pair.as_ptr().addr()
    }

    /// Whether it takes masked atomics.
    #[inline]
    pub(super) fn takes_masked(&self) -> bool {
        self.raw.is_some()
    }

    /// As [`QueuePair::post`]; the requests with masks are masked CAS. Either all or none are posted.
    ///
    /// # Safety
    ///
    /// As [`QueuePair::post`].
    #[inline(never)]
    pub(super) unsafe fn post_masked(
        &mut self,
        requests: &[ibv_send_wr],
        masks: &[Option<Masks>],
    ) -> Result<(), usize> {
        let Some(raw) = &mut self.raw else { return Err(0) };
        // SAFETY: by the contract; the queue pair is live, and ours alone.
        unsafe { raw.post(requests, masks) }.map_err(|()| 0)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if self.completions.device.is_null {
            return;
        }
        // SAFETY: made in `new`. When this returns, nothing that arrives for the queue pair takes effect any more, and
        // it writes to no memory of this process.
        let failed = unsafe { ibv_destroy_qp(self.pair.as_ptr()) };
        if failed != 0 {
            // Fencing confirms that queue pairs are gone. It must not confirm that of one that still exists.
            tracing::error!("destroying a queue pair failed: {}", std::io::Error::from_raw_os_error(failed));
            std::process::abort();
        }
    }
}
