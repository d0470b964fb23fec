//! The device of `null`, extended to execute requests on a few words: for tests of how masked atomics are posted.
//!
//! It reads raw entries by the offsets of their documentation, not by the code that writes them.

use super::super::mlx5::{ENTRY_BYTES, RawPair, VendorPair};
use super::{Ring, leaked};
use rdma_sys::{ibv_context, ibv_cq, ibv_qp, ibv_qp_ex, ibv_send_wr, ibv_sge, ibv_wr_opcode};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

/// In which byte order the old value of a masked atomic comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Answers {
    Native,
    Swapped,
    /// As if the device had not understood the request.
    Nonsense,
}

/// From the messages that were sent to those that come back.
pub(in super::super) type Serve = fn(&mut Vec<Vec<u8>>) -> Vec<Vec<u8>>;

/// The device's settings and what it did, on this thread.
#[derive(Debug)]
pub(in super::super) struct Machine {
    pub words: [u64; 8],
    pub answers: Answers,
    /// Entries as they were posted.
    pub entries: Vec<Vec<u8>>,
    /// What was executed since the last doorbell of the extended calls, and after each doorbell.
    pub doorbells: Vec<Vec<&'static str>>,
    /// Messages that were sent.
    pub sent: Vec<Vec<u8>>,
    /// The other end: which messages it sends when it has received one.
    pub serve: Option<Serve>,
    open: Vec<&'static str>,
    /// A request whose local memory is not known yet.
    half: Option<(&'static str, u64)>,
}

thread_local! {
    pub(in super::super) static MACHINE: RefCell<Machine> = const {
        RefCell::new(Machine {
            words: [0; 8],
            answers: Answers::Native,
            entries: Vec::new(),
            doorbells: Vec::new(),
            sent: Vec::new(),
            serve: None,
            open: Vec::new(),
            half: None,
        })
    };
}

/// Marks a queue pair of this kind.
static MARK: u8 = 0;

/// # Safety
///
/// `pair` is a live queue pair of the device that does nothing.
pub(super) unsafe fn is(pair: *mut ibv_qp) -> bool {
    // SAFETY: by the contract.
    unsafe { (*pair).qp_context }.cast_const() == (&raw const MARK).cast()
}

pub(super) fn queue_pair(context: NonNull<ibv_context>, completions: NonNull<ibv_cq>) -> (NonNull<ibv_qp>, RawPair) {
    let extended = leaked::<ibv_qp_ex>();
    // SAFETY: made by `completion_queue`; only this thread uses it. Its earlier queue pair is gone, and took its receives with it.
    unsafe { (*(*completions.as_ptr()).cq_context.cast::<Ring>()).receives.clear() };
    // SAFETY: just allocated, and no other code has it.
    unsafe {
        let pair = &mut *extended.as_ptr();
        pair.qp_base.context = context.as_ptr();
        pair.qp_base.send_cq = completions.as_ptr();
        pair.qp_base.qp_num = 0x00ab_cdef;
        pair.qp_base.qp_context = (&raw const MARK).cast_mut().cast();
        pair.wr_start = Some(start);
        pair.wr_complete = Some(complete);
        pair.wr_rdma_read = Some(read);
        pair.wr_set_sge_list = Some(set_pieces);
    }
    let vendor = Box::leak(Box::new(Vendor {
        face: VendorPair { mask: 0, others: [None; 8], raw_entry: Some(raw_entry) },
        extended,
    }));
    let vendor = NonNull::from(vendor).cast();
    (extended.cast(), RawPair { extended, vendor })
}

#[repr(C)]
struct Vendor {
    face: VendorPair,
    extended: NonNull<ibv_qp_ex>,
}

/// A request of `ibv_post_send`.
pub(super) fn plain(request: &ibv_send_wr, ring: &mut Ring) {
    MACHINE.with_borrow_mut(|machine| {
        if request.opcode == ibv_wr_opcode::IBV_WR_SEND {
            // SAFETY: its piece lives during the post and names a block of the caller.
            let message = unsafe { take((*request.sg_list).addr, (*request.sg_list).length) };
            machine.sent.push(message);
            for reply in machine.serve.map(|serve| serve(&mut machine.sent)).unwrap_or_default() {
                let (id, address, length) = ring.receives.pop_front().expect("a receive for each reply");
                assert!(reply.len() <= length as usize, "a reply longer than its receive");
                // SAFETY: the buffer of a posted receive, in a live block.
                unsafe { put(address, &reply) };
                ring.received.push_back((id, reply.len() as u32));
                ring.push(id);
            }
        }
        if request.opcode == ibv_wr_opcode::IBV_WR_RDMA_READ {
            // SAFETY: the arm of a READ; its piece lives during the post and names a block of the caller.
            unsafe {
                let word = machine.words[request.wr.rdma.remote_addr as usize / 8];
                give((*request.sg_list).addr, word);
            }
        }
    });
}

/// # Safety
///
/// `address` is that of `bytes` bytes registered with this device, in a live block.
unsafe fn take(address: u64, bytes: u32) -> Vec<u8> {
    let from: *const u8 = ptr::with_exposed_provenance(address as usize);
    let mut message = vec![0; bytes as usize];
    // SAFETY: by the contract.
    unsafe { message.as_mut_ptr().copy_from_nonoverlapping(from, bytes as usize) };
    message
}

/// # Safety
///
/// `address` is that of as many bytes registered with this device, in a live block.
unsafe fn put(address: u64, bytes: &[u8]) {
    let to: *mut u8 = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: by the contract.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// # Safety
///
/// `address` is that of 8 bytes registered with this device, in a live block.
unsafe fn give(address: u64, word: u64) {
    let to: *mut u64 = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: by the contract.
    unsafe { to.write_unaligned(word) };
}

unsafe extern "C" fn start(_: *mut ibv_qp_ex) {
    MACHINE.with_borrow_mut(|machine| machine.open.clear());
}

unsafe extern "C" fn complete(_: *mut ibv_qp_ex) -> c_int {
    MACHINE.with_borrow_mut(|machine| {
        let executed = std::mem::take(&mut machine.open);
        machine.doorbells.push(executed);
    });
    0
}

unsafe extern "C" fn read(pair: *mut ibv_qp_ex, _: u32, address: u64) {
    MACHINE.with_borrow_mut(|machine| machine.half = Some(("READ", address)));
    // SAFETY: a live queue pair of this file.
    unsafe { tell(pair, (*pair).wr_flags & 2 != 0) };
}

unsafe extern "C" fn set_pieces(_: *mut ibv_qp_ex, count: usize, pieces: *const ibv_sge) {
    assert_eq!(count, 1);
    MACHINE.with_borrow_mut(|machine| {
        let (verb, address) = machine.half.take().expect("a request before its local memory");
        machine.open.push(verb);
        // SAFETY: one piece, of a live block.
        unsafe { give((*pieces).addr, machine.words[address as usize / 8]) };
    });
}

/// Pushes a completion, if the request is signaled.
///
/// # Safety
///
/// `pair` is a live queue pair of this file, used by one thread.
unsafe fn tell(pair: *mut ibv_qp_ex, wanted: bool) {
    if wanted {
        // SAFETY: by the contract; the completion queue has a ring.
        let ring = unsafe { &mut *(*(*pair).qp_base.send_cq).cq_context.cast::<Ring>() };
        // SAFETY: by the contract.
        ring.push(unsafe { (*pair).wr_id });
    }
}

unsafe extern "C" fn raw_entry(vendor: *mut VendorPair, entry: *const c_void) {
    // SAFETY: an entry has at least a control segment, which says how many there are: 5 at most here.
    let bytes = unsafe {
        let segments = usize::from(*entry.cast::<u8>().add(7) & 0x3f);
        assert!(segments * 16 <= ENTRY_BYTES);
        std::slice::from_raw_parts(entry.cast::<u8>(), segments * 16)
    };
    let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((bytes[0], bytes[3], bytes[7], u32_at(64)), (9, 0x14, 5, 8), "a masked CAS of 8 bytes");
    assert_eq!(u32_at(4) >> 8, 0x00ab_cdef, "the number of its queue pair");
    MACHINE.with_borrow_mut(|machine| {
        machine.entries.push(bytes.to_vec());
        machine.open.push("masked CAS");
        let word = &mut machine.words[u64_at(16) as usize / 8];
        let old = *word;
        if (old ^ u64_at(40)) & u64_at(56) == 0 {
            *word = old & !u64_at(48) | u64_at(32) & u64_at(48);
        }
        let answer = match machine.answers {
            Answers::Native => old,
            Answers::Swapped => old.swap_bytes(),
            Answers::Nonsense => 17,
        };
        // SAFETY: an answer slot of a live block.
        unsafe { give(u64_at(72), answer) };
    });
    // SAFETY: made in `queue_pair`, with its face first.
    unsafe { tell((*vendor.cast::<Vendor>()).extended.as_ptr(), bytes[11] & 8 != 0) };
}
