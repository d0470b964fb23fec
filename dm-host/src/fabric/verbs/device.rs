//! An RDMA device of this process: its context, its protection domain, its limits.

use super::mlx5::{self, RawPair};
use super::{VerbsError, last_error};
use rdma_sys::{
    ibv_alloc_pd, ibv_atomic_cap, ibv_context, ibv_dealloc_pd, ibv_device_attr, ibv_device_attr_ex,
    ibv_get_device_name, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_init_attr, ibv_query_device, ibv_query_device_ex,
};
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// What a device can do, as it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest registration.
    pub registration_bytes_max: u64,
    /// Requests in one send queue.
    pub queue_requests_max: u32,
    /// Entries of one completion queue.
    pub completions_max: u32,
    /// Receives of one shared receive queue; 0: the device has no such queues.
    pub shared_receives_max: u32,
    /// READs and atomics in flight that a queue pair answers.
    pub reads_answered_max: u8,
    /// READs and atomics in flight that a queue pair may have outstanding.
    pub reads_asked_max: u8,
    /// Whether the device has atomics at all.
    pub atomics: bool,
    /// Whether its atomics are atomic towards processors, too (`IBV_ATOMIC_GLOB`).
    pub atomics_global: bool,
    /// Bytes of device memory.
    pub device_bytes: u64,
    /// Whether the device has masked atomics, and this process can post them.
    pub masked_atomics: bool,
}

/// A device that librdmacm opened, with a protection domain of ours.
#[derive(Debug)]
pub struct Device {
    context: NonNull<ibv_context>,
    domain: NonNull<ibv_pd>,
    name: String,
    limits: Limits,
    /// Makes queue pairs that take masked atomics.
    masked: Option<&'static mlx5::Library>,
    /// Made by [`super::null`], so there is nothing to free.
    pub(super) is_null: bool,
}

// SAFETY: libibverbs is thread-safe (ibv_open_device(3), "thread safety" in rdma-core's README): contexts and
// protection domains may be used from any thread; nothing else in a `Device` is shared by pointer.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The device behind `context`, one value per process.
    ///
    /// # Safety
    ///
    /// `context` comes from librdmacm (`rdma_cm_id::verbs`, `rdma_get_devices`), which keeps its contexts open until the
    /// process ends.
    pub(super) unsafe fn of(context: NonNull<ibv_context>) -> Result<Arc<Self>, VerbsError> {
        static DEVICES: OnceLock<Mutex<HashMap<usize, Weak<Device>>>> = OnceLock::new();
        let devices = DEVICES.get_or_init(Mutex::default);
        let mut devices = devices.lock().unwrap_or_else(PoisonError::into_inner);
        let key = context.as_ptr().addr();
        if let Some(known) = devices.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        // SAFETY: the context is open, by the contract of this function.
        let device = Arc::new(unsafe { Self::open(context) }?);
        devices.insert(key, Arc::downgrade(&device));
        Ok(device)
    }

    /// # Safety
    ///
    /// As [`Device::of`].
    unsafe fn open(context: NonNull<ibv_context>) -> Result<Self, VerbsError> {
        // SAFETY: the context is open; its device lives as long, and has a name that ends with a zero.
        let name = unsafe { CStr::from_ptr(ibv_get_device_name((*context.as_ptr()).device)) };
        let name = name.to_string_lossy().into_owned();
        // SAFETY: plain integers, for which zeros are values.
        let mut attributes: ibv_device_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: an open context, and a place for the answer.
        if unsafe { ibv_query_device(context.as_ptr(), &raw mut attributes) } != 0 {
            return Err(last_error("query the device", &name));
        }
        // SAFETY: as above: integers and plain structures of them.
        let mut extended: ibv_device_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: an open context, no input, and a place for the answer. A provider without the call fails.
        let known = unsafe { ibv_query_device_ex(context.as_ptr(), ptr::null(), &raw mut extended) } == 0;
        // SAFETY: an open context.
        let masked = unsafe { mlx5::Library::of(context, attributes.vendor_id) };
        let positive = |value: i32| u32::try_from(value).unwrap_or(0);
        let limits = Limits {
            registration_bytes_max: attributes.max_mr_size,
            queue_requests_max: positive(attributes.max_qp_wr),
            completions_max: positive(attributes.max_cqe),
            shared_receives_max: if attributes.max_srq > 0 { positive(attributes.max_srq_wr) } else { 0 },
            reads_answered_max: positive(attributes.max_qp_rd_atom).min(READS_MAX) as u8,
            reads_asked_max: positive(attributes.max_qp_init_rd_atom).min(READS_MAX) as u8,
            atomics: attributes.atomic_cap != ibv_atomic_cap::IBV_ATOMIC_NONE,
            atomics_global: attributes.atomic_cap == ibv_atomic_cap::IBV_ATOMIC_GLOB,
            device_bytes: if known { extended.max_dm_size } else { 0 },
            masked_atomics: masked.is_some(),
        };
        // SAFETY: an open context.
        let domain = NonNull::new(unsafe { ibv_alloc_pd(context.as_ptr()) })
            .ok_or_else(|| last_error("allocate a protection domain on", &name))?;
        Ok(Self { context, domain, name, limits, masked, is_null: false })
    }

    /// Makes a queue pair that takes masked atomics, as `what` says, if this device has such; `what` then says what was
    /// made.
    pub(super) fn masked_pair(&self, what: &mut ibv_qp_init_attr) -> Option<(NonNull<ibv_qp>, RawPair)> {
        // SAFETY: the library accepted this context as one of its devices; the domain is of this context, and `what`
        // was written by the caller of `ibv_create_qp` for the same domain.
        unsafe { self.masked?.make(self.context, self.domain(), what) }
    }

    /// A device that executes nothing. With `masked_atomics` it executes requests on a few bytes, for tests.
    pub(super) fn null(masked_atomics: bool) -> Arc<Self> {
        let limits = Limits {
            registration_bytes_max: u64::MAX,
            queue_requests_max: 1 << 15,
            completions_max: 1 << 20,
            shared_receives_max: 0,
            reads_answered_max: 16,
            reads_asked_max: 16,
            atomics: true,
            atomics_global: false,
            device_bytes: 0,
            masked_atomics,
        };
        let (context, domain) = (super::null::context(), NonNull::dangling());
        Arc::new(Self { context, domain, name: "null".to_owned(), limits, masked: None, is_null: true })
    }

    /// A device that executes nothing, with registrations of at most this many bytes.
    #[cfg(test)]
    pub(crate) fn limited(registration_bytes_max: u64) -> Arc<Self> {
        let device = Self::null(false);
        let mut limited = Arc::into_inner(device).expect("just made");
        limited.limits.registration_bytes_max = registration_bytes_max;
        Arc::new(limited)
    }

    /// Its name, e.g. `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The largest packet payload that the port sends now, as the exponent 1..=5 of 128 * 2^n bytes, and whether the
    /// port is active.
    pub fn port(&self, port: u8) -> Result<(u8, bool), VerbsError> {
        // SAFETY: plain integers, for which zeros are values.
        let mut attributes: ibv_port_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: an open context, and a place for the answer.
        let failed = unsafe { rdma_sys::___ibv_query_port(self.context.as_ptr(), port, &raw mut attributes) };
        if failed != 0 {
            return Err(last_error("query the port of", &self.name));
        }
        Ok((attributes.active_mtu as u8, attributes.state == rdma_sys::ibv_port_state::IBV_PORT_ACTIVE))
    }

    pub(super) fn context(&self) -> *mut ibv_context {
        self.context.as_ptr()
    }

    /// The context, if the device is one that executes nothing.
    pub(super) fn null_context(&self) -> Option<NonNull<ibv_context>> {
        self.is_null.then_some(self.context)
    }

    pub(super) fn domain(&self) -> *mut ibv_pd {
        self.domain.as_ptr()
    }
}

/// READs and atomics in flight: the protocol's field has 8 bits; devices say 16 to 128.
const READS_MAX: u32 = 255;

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_null {
            return;
        }
        // SAFETY: allocated in `open`; everything that was made in it holds an `Arc` of this value, so it is gone.
        let failed = unsafe { ibv_dealloc_pd(self.domain.as_ptr()) };
        debug_assert_eq!(failed, 0, "a protection domain was freed before what is in it");
    }
}
