//! Receives that several queue pairs share, and sleeping until a completion arrives: for the end that is called.
//!
//! A shared receive queue gives each SEND that arrives, whatever its queue pair, the next posted receive. Its buffers are one
//! block; a receive is named by the number of its buffer.
//!
//! **A queue pair that is destroyed could take a receive with it**: one that a SEND has taken, and whose completion was not polled
//! yet, which some providers then remove. So a queue pair is ended first, which stops it from taking receives; then the device
//! says that it took its last one ([`SharedReceives::await_last`]), and then the completions are polled until there is none.

use super::device::Device;
use super::memory::Block;
use super::{VerbsError, last_error};
use rdma_sys::{
    ibv_ack_async_event, ibv_ack_cq_events, ibv_async_event, ibv_comp_channel, ibv_cq, ibv_create_comp_channel,
    ibv_create_srq, ibv_destroy_comp_channel, ibv_destroy_srq, ibv_event_type, ibv_get_async_event, ibv_get_cq_event,
    ibv_post_srq_recv, ibv_recv_wr, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

fn wait_for(fd: BorrowedFd<'_>, longest: Duration) {
    let timeout = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: i64::from(longest.subsec_nanos()) };
    // Readable, interrupted, or too late: the caller looks in any case.
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout));
}

/// Makes reads of a descriptor return at once.
fn never_block(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// Tells that completions arrived, by a descriptor.
#[derive(Debug)]
pub(super) struct CompletionEvents {
    channel: NonNull<ibv_comp_channel>,
    _device: Arc<Device>,
}

// SAFETY: see `Device`.
unsafe impl Send for CompletionEvents {}
// SAFETY: as above.
unsafe impl Sync for CompletionEvents {}

impl CompletionEvents {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, VerbsError> {
        let failed = || last_error("make a completion channel on", device.name());
        // SAFETY: an open context.
        let channel = NonNull::new(unsafe { ibv_create_comp_channel(device.context()) }).ok_or_else(failed)?;
        let events = Self { channel, _device: Arc::clone(device) };
        never_block(events.fd()).map_err(|_| failed())?;
        Ok(events)
    }

    pub(super) fn channel(&self) -> *mut ibv_comp_channel {
        self.channel.as_ptr()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, and `self` is borrowed as long as the answer.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }

    pub(super) fn wait(&self, longest: Duration) {
        wait_for(self.fd(), longest);
    }

    /// Takes the events that are there.
    ///
    /// # Safety
    ///
    /// `queue` is a live completion queue, the only one of this channel.
    pub(super) unsafe fn acknowledge(&self, queue: NonNull<ibv_cq>) {
        let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a live channel, whose descriptor does not block, and places for the answers.
        while unsafe { ibv_get_cq_event(self.channel.as_ptr(), &raw mut of, &raw mut context) } == 0 {
            // SAFETY: an event of this queue, by the contract, just taken; acknowledged once.
            unsafe { ibv_ack_cq_events(queue.as_ptr(), 1) };
        }
    }
}

impl Drop for CompletionEvents {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the completion queue that had it is gone, since it owns this value.
        unsafe { ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

/// A shared receive queue and its buffers. Rust drops the fields in this order, after [`Drop::drop`].
#[derive(Debug)]
pub(crate) struct SharedReceives {
    queue: NonNull<ibv_srq>,
    buffers: Block,
    buffer_bytes: usize,
    /// Queue pairs that took their last receive, by their keys.
    last: Mutex<HashSet<usize>>,
    device: Arc<Device>,
}

// SAFETY: see `Device`; posting to a shared receive queue is thread-safe, too.
unsafe impl Send for SharedReceives {}
// SAFETY: as above.
unsafe impl Sync for SharedReceives {}

impl SharedReceives {
    /// A queue of `count` receives of `buffer_bytes` (a multiple of 64), all posted.
    pub(crate) fn new(device: &Arc<Device>, count: u32, buffer_bytes: usize) -> Result<Arc<Self>, VerbsError> {
        let buffers = Block::new(device, count as usize * buffer_bytes)?;
        let attr = ibv_srq_attr { max_wr: count, max_sge: 1, srq_limit: 0 };
        let mut what = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        let failed = || last_error("make a shared receive queue on", device.name());
        // SAFETY: a live protection domain, and a description that outlives the call.
        let queue = NonNull::new(unsafe { ibv_create_srq(device.domain(), &raw mut what) }).ok_or_else(failed)?;
        // SAFETY: an open context, whose descriptor of events is open as long.
        let events = unsafe { BorrowedFd::borrow_raw((*device.context()).async_fd) };
        let receives = Self { queue, buffers, buffer_bytes, last: Mutex::default(), device: Arc::clone(device) };
        never_block(events).map_err(|_| failed())?;
        for buffer in 0..count {
            if !receives.post(buffer) {
                return Err(failed());
            }
        }
        Ok(Arc::new(receives))
    }

    pub(super) fn queue(&self) -> *mut ibv_srq {
        self.queue.as_ptr()
    }

    /// Posts the receive of a buffer, of which no receive is posted. It completes with the number of the buffer as its id.
    pub(crate) fn post(&self, buffer: u32) -> bool {
        let at = buffer as usize * self.buffer_bytes;
        assert!(at + self.buffer_bytes <= self.buffers.bytes(), "no such buffer");
        let length = self.buffer_bytes as u32;
        let mut piece = ibv_sge { addr: self.buffers.address(at), length, lkey: self.buffers.local_key() };
        let mut work =
            ibv_recv_wr { wr_id: u64::from(buffer), next: ptr::null_mut(), sg_list: &raw mut piece, num_sge: 1 };
        let mut failed = ptr::null_mut();
        // SAFETY: a live queue; a list of one, whose piece lives during the call. The memory is registered as long as the queue
        // lives, and no reference to it exists.
        unsafe { ibv_post_srq_recv(self.queue.as_ptr(), &raw mut work, &raw mut failed) == 0 }
    }

    /// Copies what was received into `buffer`, from byte `at` on, as much as fits. Its receive has completed, and is not posted.
    pub(crate) fn copy(&self, buffer: u32, at: usize, into: &mut [u8]) {
        let bytes = into.len().min(self.buffer_bytes.saturating_sub(at));
        if let Some(into) = into.get_mut(..bytes) {
            self.buffers.get(buffer as usize * self.buffer_bytes + at, into);
        }
    }

    /// Waits until the device has said of the queue pairs with these `keys`, which are ended, that it takes no more receives, at most for `longest`:
    /// some devices never say so, as Soft-RoCE of Linux 6.1.
    pub(crate) fn await_last(&self, keys: &[usize], longest: Duration) {
        let until = Instant::now() + longest;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.take_events(&mut last);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || keys.iter().all(|key| last.contains(key)) {
                break;
            }
            // SAFETY: as in `new`.
            wait_for(unsafe { BorrowedFd::borrow_raw((*self.device.context()).async_fd) }, left);
        }
        for key in keys {
            last.remove(key);
        }
    }

    fn take_events(&self, last: &mut HashSet<usize>) {
        loop {
            let mut event = MaybeUninit::<ibv_async_event>::zeroed();
            let at = event.as_mut_ptr();
            // SAFETY: an open context, whose descriptor does not block, and a place for the answer.
            if unsafe { ibv_get_async_event(self.device.context(), at) } != 0 {
                return;
            }
            // SAFETY: written above. The kind is read as a number: later releases of the library have kinds that the `enum` of
            // rdma-sys lacks.
            let kind = unsafe { (&raw const (*at).event_type).cast::<u32>().read() };
            if kind == ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED as u32 {
                // SAFETY: an event of this kind names a queue pair.
                last.insert(unsafe { (*at).element.qp }.addr());
            }
            // SAFETY: got above, acknowledged once.
            unsafe { ibv_ack_async_event(at) };
        }
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        // SAFETY: made in `new`; queue pairs that use it hold an `Arc` of it, so they are gone.
        let failed = unsafe { ibv_destroy_srq(self.queue.as_ptr()) };
        if failed != 0 {
            // The buffers are unmapped next.
            tracing::error!("destroying a shared receive queue failed: {}", std::io::Error::from_raw_os_error(failed));
            std::process::abort();
        }
    }
}
