//! Masked atomics of mlx5 devices, as raw work-queue entries.
//!
//! libibverbs has no verb for masked atomics; the devices (ConnectX-4 and later) have them. `mlx5dv_wr_raw_wqe` posts
//! an entry that the caller has written, in one list with requests of the `ibv_wr_*` calls, under one doorbell. All
//! numbers of an entry are big-endian. An entry of 8 bytes looks like this (`infiniband/mlx5dv.h` has the first two
//! segments and the opcodes):
//!
//! ```text
//!  control      0 operand size u8   1 index u16 (the driver's)   3 opcode u8   4 queue pair u24   7 segments u8
//!               8 signature u8 (the driver's)   9 zero u16   11 fence, completion u8   12 zero u32
//!  remote      16 address u64   24 key u32   28 zero u32
//!  masked CAS  32 swap u64   40 compare u64   48 swap mask u64   56 compare mask u64
//!  masked add  32 add u64    40 boundary u64
//!  local       48 or 64: bytes u32   +4 key u32   +8 address u64
//! ```
//!
//! This program looks the library up (`dlopen`) when it opens a device of its vendor. So a program that was linked on a
//! machine without the library runs, and a machine without the library runs the program without masked atomics. The
//! device's firmware says whether the device has masked atomics. In which order the bytes of an old value come back is
//! not documented for all firmware, so [`super::VerbsFabric`] finds out when it connects.
//!
//! **No entry of this file has been executed by a device.** The tests compare them byte by byte with the layout above.

use rdma_sys::{
    ibv_context, ibv_device, ibv_pd, ibv_qp, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_to_qp_ex,
    ibv_qp_type, ibv_send_flags, ibv_send_wr, ibv_wr_opcode,
};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The vendor of all mlx5 devices, as a device reports it.
const VENDOR: u32 = 0x02c9;

/// Bytes of the longest entry.
pub const ENTRY_BYTES: usize = 80;

/// Inline bytes of a queue pair whose send queue has room for [`ENTRY_BYTES`] per request. The driver counts the room
/// of a request as that of its control and remote segments and its inline payload.
const INLINE_BYTES_MIN: u32 = 64;

const OPCODE_MASKED_CAS: u8 = 0x14;
const OPCODE_MASKED_ADD: u8 = 0x15;
/// Operands of 8 bytes: the flag of an extended atomic, and the binary logarithm of the size less 2.
const OPERANDS_OF_8_BYTES: u8 = 8 | 1;
/// The entry is signaled.
const COMPLETION: u8 = 2 << 2;
/// Wait for all earlier READs and atomics, as the driver encodes `IBV_SEND_FENCE`.
const FENCE: u8 = 4 << 5;

/// What a masked atomic does with the 8-byte word there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// If the bits of `compare_mask` are as in `compare`, the bits of `swap_mask` become as in `swap`.
    CompareAndSwap {
        /// The expected bits.
        compare: u64,
        /// The new bits.
        swap: u64,
        /// Which bits are compared.
        compare_mask: u64,
        /// Which bits change.
        swap_mask: u64,
    },
    /// Adds, with no carry out of a bit that is set in `boundary`.
    FetchAdd {
        /// The addend.
        add: u64,
        /// The last bits of fields.
        boundary: u64,
    },
}

/// A masked atomic on an 8-byte word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedAtomic {
    /// What it does.
    pub operation: Operation,
    /// Number of the queue pair it is posted to.
    pub queue_pair: u32,
    /// Whether it is signaled.
    pub signaled: bool,
    /// Whether it waits for earlier READs and atomics.
    pub fenced: bool,
    /// Address of the word.
    pub address: u64,
    /// The key of the remote memory.
    pub key: u32,
    /// Where the old value goes.
    pub local_address: u64,
    /// The key of the local memory.
    pub local_key: u32,
}

/// An entry of a send queue, with the alignment it has there.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry([u8; ENTRY_BYTES]);

impl Entry {
    /// Its bytes: as many 16-byte segments as its control segment says.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(..usize::from(self.0[7] & 0x3f) * 16).unwrap_or(&self.0)
    }
}

impl MaskedAtomic {
    /// The entry as the device reads it.
    pub fn encode(&self) -> Entry {
        let mut bytes = [0; ENTRY_BYTES];
        let mut end = 0;
        let mut put = |part: &[u8]| {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        };
        let (opcode, segments) = match self.operation {
            Operation::CompareAndSwap { .. } => (OPCODE_MASKED_CAS, 5),
            Operation::FetchAdd { .. } => (OPCODE_MASKED_ADD, 4),
        };
        let flags = if self.signaled { COMPLETION } else { 0 } | if self.fenced { FENCE } else { 0 };
        put(&[OPERANDS_OF_8_BYTES, 0, 0, opcode]);
        put(&(self.queue_pair << 8 | segments).to_be_bytes());
        put(&[0, 0, 0, flags, 0, 0, 0, 0]);
        put(&self.address.to_be_bytes());
        put(&self.key.to_be_bytes());
        put(&[0; 4]);
        match self.operation {
            Operation::CompareAndSwap { compare, swap, compare_mask, swap_mask } => {
                for word in [swap, compare, swap_mask, compare_mask] {
                    put(&word.to_be_bytes());
                }
            }
            Operation::FetchAdd { add, boundary } => {
                put(&add.to_be_bytes());
                put(&boundary.to_be_bytes());
            }
        }
        put(&8u32.to_be_bytes());
        put(&self.local_key.to_be_bytes());
        put(&self.local_address.to_be_bytes());
        Entry(bytes)
    }
}

/// Bytes of the command that queries capabilities.
const QUERY_BYTES: usize = 16;

/// Bytes of the answer: status, then the capabilities.
const CAPABILITIES_BYTES: usize = 16 + 4096;

/// The command that queries the present capabilities of atomics.
fn query() -> [u8; QUERY_BYTES] {
    let mut command = [0; QUERY_BYTES];
    command[..2].copy_from_slice(&0x100u16.to_be_bytes());
    // Which capabilities: 3, those of atomics, times 2; plus 1 for the present ones instead of the greatest possible.
    command[6..8].copy_from_slice(&(3u16 << 1 | 1).to_be_bytes());
    command
}

/// Whether an answer to [`query`] says that masked CAS and masked fetch-and-add work on 8 bytes.
fn has_masked_atomics(answer: &[u8; CAPABILITIES_BYTES]) -> bool {
    let u16_at = |at: usize| u16::from_be_bytes([answer[16 + at], answer[17 + at]]);
    let (operations, sizes) = (u16_at(18), u16_at(22));
    // The bits are CAS and fetch-and-add, each plain and masked. Sizes are powers of two.
    answer[0] == 0 && operations & 0xf == 0xf && sizes & 8 != 0
}

/// `struct mlx5dv_qp_init_attr`.
#[repr(C)]
struct PairAttributes {
    mask: u64,
    create_flags: u32,
    dynamic_kind: u32,
    dynamic_key: [u64; 2],
    send_operations: u64,
}

/// `struct mlx5dv_qp_ex`, up to the last field that is used.
#[repr(C)]
pub(super) struct VendorPair {
    pub(super) mask: u64,
    pub(super) others: [Option<unsafe extern "C" fn()>; 8],
    pub(super) raw_entry: Option<unsafe extern "C" fn(*mut VendorPair, *const c_void)>,
}

/// For [`PairAttributes::mask`]: `create_flags`, `send_operations`.
const ATTRIBUTES: u64 = 1 << 0 | 1 << 2;
/// Results go to memory, never into the completion, where they would have another byte order.
const NO_RESULT_IN_COMPLETION: u32 = 1 << 3;
/// Raw entries will be posted.
const RAW_ENTRIES: u64 = 1 << 3;
/// `IBV_QP_INIT_ATTR_PD` and `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const EXTENDED_MASK: u32 = 1 << 0 | 1 << 6;
/// `IBV_QP_EX_WITH_` RDMA_WRITE, RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD.
const OPERATIONS: u64 = 1 << 0 | 1 << 4 | 1 << 5 | 1 << 6;

/// The functions of libmlx5 that this file uses.
#[derive(Debug)]
pub(super) struct Library {
    is_supported: unsafe extern "C" fn(*mut ibv_device) -> bool,
    command: unsafe extern "C" fn(*mut ibv_context, *const c_void, usize, *mut c_void, usize) -> c_int,
    create: unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex, *mut PairAttributes) -> *mut ibv_qp,
    extend: unsafe extern "C" fn(*mut ibv_qp_ex) -> *mut VendorPair,
}

impl Library {
    /// The library, if it is there.
    fn get() -> Option<&'static Self> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        // SAFETY: a name that ends with a zero. If there is such a device, libibverbs has loaded the same file as its
        // driver; loading it has no effect but its own initialisation, and it is never unloaded.
        let library = unsafe { libc::dlopen(c"libmlx5.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library)?;
        let symbol = |name: &CStr| {
            // SAFETY: a library that is open, and a name that ends with a zero.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
        };
        // SAFETY: functions of these names have these types in `infiniband/mlx5dv.h`, in every release of the library with
        // this major version; `bool` and pointers are as in C.
        unsafe {
            Some(Self {
                is_supported: std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn(*mut ibv_device) -> bool>(
                    symbol(c"mlx5dv_is_supported")?,
                ),
                command: std::mem::transmute::<
                    NonNull<c_void>,
                    unsafe extern "C" fn(*mut ibv_context, *const c_void, usize, *mut c_void, usize) -> c_int,
                >(symbol(c"mlx5dv_devx_general_cmd")?),
                create: std::mem::transmute::<
                    NonNull<c_void>,
                    unsafe extern "C" fn(
                        *mut ibv_context,
                        *mut ibv_qp_init_attr_ex,
                        *mut PairAttributes,
                    ) -> *mut ibv_qp,
                >(symbol(c"mlx5dv_create_qp")?),
                extend: std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn(*mut ibv_qp_ex) -> *mut VendorPair>(
                    symbol(c"mlx5dv_qp_ex_from_ibv_qp_ex")?,
                ),
            })
        }
    }

    /// The library, if `context` is a device of its kind that has masked atomics.
    ///
    /// # Safety
    ///
    /// `context` is open.
    pub(super) unsafe fn of(context: NonNull<ibv_context>, vendor: u32) -> Option<&'static Self> {
        if vendor != VENDOR {
            return None;
        }
        let library = Self::get()?;
        let mut answer = [0; CAPABILITIES_BYTES];
        // SAFETY: an open context, whose device lives as long.
        if !unsafe { (library.is_supported)((*context.as_ptr()).device) } {
            return None;
        }
        let command = query();
        // SAFETY: an open context of this library, a command and room for its answer, of these lengths.
        let failed = unsafe {
            (library.command)(
                context.as_ptr(),
                command.as_ptr().cast(),
                command.len(),
                answer.as_mut_ptr().cast(),
                answer.len(),
            )
        };
        if failed != 0 {
            tracing::info!("an mlx5 device does not tell about its atomics (error {failed}): plain CAS only");
            return None;
        }
        has_masked_atomics(&answer).then_some(library)
    }

    /// Makes a queue pair that takes raw entries, as `what` says; `what` then says what was made. `None`: not with
    /// these sizes.
    ///
    /// # Safety
    ///
    /// [`Library::of`] accepted `context`; `what` describes an RC queue pair with a live protection domain and live
    /// completion queues of that context.
    pub(super) unsafe fn make(
        &self,
        context: NonNull<ibv_context>,
        domain: *mut ibv_pd,
        what: &mut ibv_qp_init_attr,
    ) -> Option<(NonNull<ibv_qp>, RawPair)> {
        if what.cap.max_inline_data < INLINE_BYTES_MIN {
            return None;
        }
        // SAFETY: integers and pointers, for which zeros are values.
        let mut extended: ibv_qp_init_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
        extended.send_cq = what.send_cq;
        extended.recv_cq = what.recv_cq;
        extended.qp_type = ibv_qp_type::IBV_QPT_RC;
        extended.cap = what.cap;
        extended.comp_mask = EXTENDED_MASK;
        extended.pd = domain;
        extended.send_ops_flags = OPERATIONS;
        let mut vendors = PairAttributes {
            mask: ATTRIBUTES,
            create_flags: NO_RESULT_IN_COMPLETION,
            dynamic_kind: 0,
            dynamic_key: [0; 2],
            send_operations: RAW_ENTRIES,
        };
        // SAFETY: by the contract; both descriptions outlive the call.
        let pair = unsafe { (self.create)(context.as_ptr(), &raw mut extended, &raw mut vendors) };
        let pair = NonNull::new(pair)?;
        // SAFETY: a live queue pair that was made with operations named.
        let extended_pair = NonNull::new(unsafe { ibv_qp_to_qp_ex(pair.as_ptr()) });
        // SAFETY: the same, made by this library.
        let vendor = extended_pair.and_then(|pair| NonNull::new(unsafe { (self.extend)(pair.as_ptr()) }));
        let (Some(extended_pair), Some(vendor)) = (extended_pair, vendor) else {
            // SAFETY: just made, and not used by any other code.
            unsafe { rdma_sys::ibv_destroy_qp(pair.as_ptr()) };
            return None;
        };
        what.cap = extended.cap;
        Some((pair, RawPair { extended: extended_pair, vendor }))
    }
}

/// The masks of a CAS in a list of work requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub compare: u64,
    pub swap: u64,
}

/// The extended interfaces of a queue pair, which take a masked atomic. Valid for as long as the queue pair lives.
#[derive(Debug)]
pub(super) struct RawPair {
    pub(super) extended: NonNull<ibv_qp_ex>,
    pub(super) vendor: NonNull<VendorPair>,
}

impl RawPair {
    /// Posts `requests` with one doorbell; those with masks are masked CAS. `Err`: none was posted.
    ///
    /// # Safety
    ///
    /// As [`super::queue_pair::QueuePair::post`]; the queue pair is live, and no other thread posts to it.
    pub(super) unsafe fn post(&mut self, requests: &[ibv_send_wr], masks: &[Option<Masks>]) -> Result<(), ()> {
        let pair = self.extended.as_ptr();
        // SAFETY: a live queue pair, by the contract; likewise below, where each builder is followed by its data.
        unsafe { rdma_sys::ibv_wr_start(pair) };
        for (request, masks) in requests.iter().zip(masks) {
            // SAFETY: no other thread uses the pair between start and complete.
            unsafe {
                (*pair).wr_id = request.wr_id;
                (*pair).wr_flags = request.send_flags & !ibv_send_flags::IBV_SEND_INLINE.0;
            }
            // SAFETY: the list has one piece, or says that it has none.
            let piece = unsafe { request.sg_list.as_ref() }.filter(|_| request.num_sge > 0);
            if let (Some(masks), Some(piece)) = (masks, piece) {
                // SAFETY: an atomic has this arm of the union.
                let atomic = unsafe { request.wr.atomic };
                let entry = MaskedAtomic {
                    operation: Operation::CompareAndSwap {
                        compare: atomic.compare_add,
                        swap: atomic.swap,
                        compare_mask: masks.compare,
                        swap_mask: masks.swap,
                    },
                    // SAFETY: live; the number does not change.
                    queue_pair: unsafe { (*pair).qp_base.qp_num },
                    signaled: request.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0,
                    fenced: request.send_flags & ibv_send_flags::IBV_SEND_FENCE.0 != 0,
                    address: atomic.remote_addr,
                    key: atomic.rkey,
                    local_address: piece.addr,
                    local_key: piece.lkey,
                }
                .encode();
                // SAFETY: the vendor's interface of a live queue pair; the call copies the entry.
                if let Some(post) = unsafe { (*self.vendor.as_ptr()).raw_entry } {
                    // SAFETY: as above.
                    unsafe { post(self.vendor.as_ptr(), (&raw const entry).cast()) };
                }
                continue;
            }
            // SAFETY: the arm of the union is that of the opcode; each builder is one the queue pair was made for.
            unsafe {
                match request.opcode {
                    ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP => {
                        let atomic = request.wr.atomic;
                        let (compare, swap) = (atomic.compare_add, atomic.swap);
                        rdma_sys::ibv_wr_atomic_cmp_swp(pair, atomic.rkey, atomic.remote_addr, compare, swap);
                    }
                    ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD => {
                        let atomic = request.wr.atomic;
                        rdma_sys::ibv_wr_atomic_fetch_add(pair, atomic.rkey, atomic.remote_addr, atomic.compare_add);
                    }
                    ibv_wr_opcode::IBV_WR_RDMA_READ => {
                        let rdma = request.wr.rdma;
                        rdma_sys::ibv_wr_rdma_read(pair, rdma.rkey, rdma.remote_addr);
                    }
                    _ => {
                        let rdma = request.wr.rdma;
                        rdma_sys::ibv_wr_rdma_write(pair, rdma.rkey, rdma.remote_addr);
                    }
                }
            }
            let inline = request.send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0;
            // SAFETY: registered memory, or, inline, memory that is copied during the call; by the contract.
            unsafe {
                match piece {
                    Some(piece) if inline => {
                        let payload = std::ptr::with_exposed_provenance_mut(piece.addr as usize);
                        rdma_sys::ibv_wr_set_inline_data(pair, payload, piece.length as usize);
                    }
                    _ => rdma_sys::ibv_wr_set_sge_list(pair, usize::from(piece.is_some()), request.sg_list),
                }
            }
        }
        // SAFETY: as above; nothing is posted unless this succeeds.
        if unsafe { rdma_sys::ibv_wr_complete(pair) } == 0 { Ok(()) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn atomic(operation: Operation) -> MaskedAtomic {
        MaskedAtomic {
            operation,
            queue_pair: 0x00a1_b2c3,
            signaled: true,
            fenced: false,
            address: 0x7f01_0203_0405_0608,
            key: 0x1122_3344,
            local_address: 0x5566_7788_99aa_bbc0,
            local_key: 0xdead_beef,
        }
    }

    #[test]
    fn a_masked_cas_is_five_segments() {
        let operation = Operation::CompareAndSwap {
            compare: 0x0101_0202_0303_0404,
            swap: 0xa1a2_a3a4_a5a6_a7a8,
            compare_mask: 0x8000_0000_0000_0001,
            swap_mask: 0xffff_ffff_0000_0000,
        };
        let entry = atomic(operation).encode();
        #[rustfmt::skip]
        let expected = [
            // Control.
            0x09, 0x00, 0x00, 0x14,  0xa1, 0xb2, 0xc3, 0x05,  0x00, 0x00, 0x00, 0x08,  0x00, 0x00, 0x00, 0x00,
            // Remote address.
            0x7f, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08,  0x11, 0x22, 0x33, 0x44,  0x00, 0x00, 0x00, 0x00,
            // Swap, compare.
            0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,  0x01, 0x01, 0x02, 0x02, 0x03, 0x03, 0x04, 0x04,
            // Their masks.
            0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00,  0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
            // Local memory.
            0x00, 0x00, 0x00, 0x08,  0xde, 0xad, 0xbe, 0xef,  0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xc0,
        ];
        assert_eq!(entry.bytes(), expected);
    }

    #[test]
    fn a_masked_add_is_four_segments() {
        let add = atomic(Operation::FetchAdd { add: 1, boundary: 0x8000_8000_8000_8000 });
        let entry = MaskedAtomic { signaled: false, fenced: true, ..add }.encode();
        #[rustfmt::skip]
        let expected = [
            0x09, 0x00, 0x00, 0x15,  0xa1, 0xb2, 0xc3, 0x04,  0x00, 0x00, 0x00, 0x80,  0x00, 0x00, 0x00, 0x00,
            0x7f, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08,  0x11, 0x22, 0x33, 0x44,  0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,  0x80, 0x00, 0x80, 0x00, 0x80, 0x00, 0x80, 0x00,
            0x00, 0x00, 0x00, 0x08,  0xde, 0xad, 0xbe, 0xef,  0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xc0,
        ];
        assert_eq!(entry.bytes(), expected);
        let both = MaskedAtomic { fenced: true, ..add }.encode();
        assert_eq!(both.bytes()[11], 0x88, "a fence and a completion");
    }

    #[test]
    fn a_device_is_believed_only_if_it_has_all_of_it() {
        assert_eq!(query(), [0x01, 0x00, 0, 0, 0, 0, 0, 0x07, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut answer = [0; CAPABILITIES_BYTES];
        assert!(!has_masked_atomics(&answer), "no atomics at all");
        answer[16 + 19] = 0xf;
        assert!(!has_masked_atomics(&answer), "of no size");
        answer[16 + 23] = 0x04;
        assert!(!has_masked_atomics(&answer), "of 4 bytes");
        answer[16 + 23] = 0x0c;
        assert!(has_masked_atomics(&answer));
        answer[16 + 19] = 0x3;
        assert!(!has_masked_atomics(&answer), "the plain ones only");
        (answer[16 + 19], answer[0]) = (0xf, 8);
        assert!(!has_masked_atomics(&answer), "the command failed");
    }

    #[test]
    fn structures_are_as_the_header_has_them() {
        // Offsets and sizes that a C compiler gives for infiniband/mlx5dv.h of rdma-core 44 on x86-64.
        assert_eq!((size_of::<PairAttributes>(), offset_of!(PairAttributes, send_operations)), (40, 32));
        assert_eq!(offset_of!(PairAttributes, create_flags), 8);
        assert_eq!(offset_of!(VendorPair, raw_entry), 72);
        assert_eq!((align_of::<Entry>(), size_of::<Entry>() >= ENTRY_BYTES), (64, true));
    }

    #[test]
    fn a_library_that_is_there_has_all_that_is_used() {
        // SAFETY: as in `load`.
        let there = !unsafe { libc::dlopen(c"libmlx5.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }.is_null();
        assert_eq!(Library::get().is_some(), there);
    }
}
