//! Memory that a device may access: registrations, blocks of local memory, device memory.

use super::device::Device;
use super::{VerbsError, last_error};
use memmap2::{Advice, MmapOptions, MmapRaw};
use procfs::process::Process;
use rdma_sys::{
    ibv_access_flags, ibv_alloc_dm, ibv_alloc_dm_attr, ibv_dereg_mr, ibv_dm, ibv_free_dm, ibv_memcpy_to_dm, ibv_mr,
    ibv_reg_dm_mr, ibv_reg_mr,
};
use rustix::process::{Resource, getrlimit};
use std::ptr::NonNull;
use std::sync::Arc;

/// Which requests may access registered memory, and how. Relaxed ordering is never allowed, since the indexes rely on
/// the order of WRITEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This process's own requests: READ payloads and results of atomics land there.
    Local,
    /// Requests of peers: READ, WRITE and atomics.
    Remote,
}

impl Reach {
    const fn flags(self) -> u32 {
        let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        match self {
            Self::Local => local,
            Self::Remote => {
                local
                    | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
                    | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
                    | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0
            }
        }
    }
}

/// Memory that is registered with a device. Dropping it deregisters the memory: from then on the device refuses
/// requests that name it.
#[derive(Debug)]
pub(crate) struct Registration {
    region: NonNull<ibv_mr>,
    device: Arc<Device>,
}

// SAFETY: a handle that libibverbs may be given from any thread; see `Device`.
unsafe impl Send for Registration {}
// SAFETY: as above; through a shared reference only two integers are read.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `bytes` bytes at `start`.
    ///
    /// # Safety
    ///
    /// The memory is mapped until the registration is dropped, and no code holds a reference to it while a device may
    /// write there.
    pub(crate) unsafe fn new(
        device: &Arc<Device>,
        start: NonNull<u8>,
        bytes: usize,
        reach: Reach,
    ) -> Result<Self, VerbsError> {
        if device.is_null {
            return Ok(Self { region: super::null::registration(), device: Arc::clone(device) });
        }
        // SAFETY: a live protection domain and, by the contract, mapped memory.
        let region = unsafe { ibv_reg_mr(device.domain(), start.as_ptr().cast(), bytes, reach.flags().cast_signed()) };
        let region = NonNull::new(region).ok_or_else(|| {
            let source = std::io::Error::last_os_error();
            VerbsError::Register { device: device.name().to_owned(), bytes: bytes as u64, source }
        })?;
        Ok(Self { region, device: Arc::clone(device) })
    }

    /// The key that this process's requests use.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: registered until dropped; the structure does not change.
        unsafe { (*self.region.as_ptr()).lkey }
    }

    /// The key that peers' requests use.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.region.as_ptr()).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.device.is_null {
            return;
        }
        // SAFETY: registered in `new`, and dropped once.
        let failed = unsafe { ibv_dereg_mr(self.region.as_ptr()) };
        if failed != 0 {
            // The memory may be unmapped next. A device that still writes there would hit whatever is mapped in its
            // place.
            tracing::error!("deregistering memory failed: {}", std::io::Error::from_raw_os_error(failed));
            std::process::abort();
        }
    }
}

/// Local memory that the device reads payloads from and writes results to. No Rust reference to it ever exists: bytes
/// are copied in before a post and out after its completion.
#[derive(Debug)]
pub(crate) struct Block {
    /// Dropped, hence deregistered, before the memory is unmapped.
    registration: Registration,
    memory: MmapRaw,
}

impl Block {
    /// A block of `bytes` bytes, zeroed; in huge pages if some are free.
    pub(crate) fn new(device: &Arc<Device>, bytes: usize) -> Result<Self, VerbsError> {
        const HUGE: usize = 2 << 20;
        let map = |what: &MmapOptions| what.map_anon().map(MmapRaw::from);
        let huge = (bytes >= HUGE / 2)
            .then(|| map(MmapOptions::new().len(bytes.next_multiple_of(HUGE)).huge(Some(21)).populate()).ok())
            .flatten();
        let memory = if let Some(memory) = huge {
            memory
        } else {
            let memory = map(MmapOptions::new().len(bytes.max(1))).map_err(|source| VerbsError::Call {
                doing: "map local memory for",
                whom: device.name().to_owned(),
                source,
            })?;
            // Not fatal: small pages cost the device more address translations.
            let _ = bytes >= HUGE && memory.advise(Advice::HugePage).is_ok();
            memory
        };
        check_locked_memory(memory.len() as u64)?;
        // A mapping does not begin at address 0.
        let start = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: the mapping lives in the same value, after the registration; no references to it are ever made.
        let registration = unsafe { Registration::new(device, start, memory.len(), Reach::Local) }?;
        Ok(Self { registration, memory })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn local_key(&self) -> u32 {
        self.registration.local_key()
    }

    /// The address of byte `at`, for a request. The device checks it against the registration.
    #[inline]
    pub(crate) fn address(&self, at: usize) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64 + at as u64
    }

    /// Copies `bytes` to `at`. Panics if that is outside the block.
    #[inline]
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.memory.len()), "outside the block");
        // SAFETY: inside the mapping, as just checked; `bytes` is elsewhere, since no reference to the mapping exists.
        // A device that reads these bytes meanwhile, for a request that failed on our side only, sends a mix.
        unsafe { self.memory.as_mut_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Copies out the bytes at `at`. Panics if that is outside the block.
    #[inline]
    pub(crate) fn get(&self, at: usize, bytes: &mut [u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.memory.len()), "outside the block");
        // SAFETY: inside the mapping, as just checked; `bytes` is elsewhere. The completion that led here was polled
        // before (a call through a pointer, which the compiler does not reorder), so the device is done with them.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.memory.as_ptr().add(at), bytes.len()) }
    }

    /// The 8-byte word at `at`. Panics if that is outside the block.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.get(at, &mut word);
        u64::from_ne_bytes(word)
    }
}

/// Memory on the NIC itself.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    /// Dropped, hence deregistered, before the memory is freed.
    registration: Registration,
    memory: Freed,
}

/// Device memory that is freed when dropped.
#[derive(Debug)]
struct Freed(NonNull<ibv_dm>);

// SAFETY: a handle that libibverbs may be given from any thread; see `Device`.
unsafe impl Send for Freed {}
// SAFETY: as above; through a shared reference nothing is done with it.
unsafe impl Sync for Freed {}

impl Drop for Freed {
    fn drop(&mut self) {
        // SAFETY: allocated in `DeviceMemory::new`; its only registration is gone already.
        let failed = unsafe { ibv_free_dm(self.0.as_ptr()) };
        if failed != 0 {
            tracing::warn!("freeing device memory failed: {}", std::io::Error::from_raw_os_error(failed));
        }
    }
}

impl DeviceMemory {
    /// Allocates `bytes` bytes, zeroed. Peers reach them from address 0 on.
    pub(crate) fn new(device: &Arc<Device>, bytes: usize) -> Result<Self, VerbsError> {
        let mut what = ibv_alloc_dm_attr { length: bytes, log_align_req: 6, comp_mask: 0 };
        let failed = |doing| last_error(doing, device.name());
        // SAFETY: an open context and a description that outlives the call.
        let memory = unsafe { ibv_alloc_dm(device.context(), &raw mut what) };
        let memory = memory.and_then(NonNull::new).ok_or_else(|| failed("allocate device memory on"))?;
        let memory = Freed(memory);
        let zeros = vec![0u8; bytes];
        // SAFETY: as many bytes as were allocated, from a buffer as long.
        if unsafe { ibv_memcpy_to_dm(memory.0.as_ptr(), 0, zeros.as_ptr().cast(), bytes) } != 0 {
            return Err(failed("clear device memory of"));
        }
        let flags = Reach::Remote.flags() | ibv_access_flags::IBV_ACCESS_ZERO_BASED.0;
        // SAFETY: a live protection domain, and device memory of that length that the registration does not outlive.
        let region = unsafe { ibv_reg_dm_mr(device.domain(), memory.0.as_ptr(), 0, bytes, flags) };
        let region = region.and_then(NonNull::new).ok_or_else(|| failed("register device memory of"))?;
        let registration = Registration { region, device: Arc::clone(device) };
        Ok(Self { registration, memory })
    }

    pub(crate) fn remote_key(&self) -> u32 {
        let _ = &self.memory;
        self.registration.remote_key()
    }
}

/// Fails unless `bytes` more may be locked: by the limit of this process, unless it has CAP_IPC_LOCK.
pub(crate) fn check_locked_memory(bytes: u64) -> Result<(), VerbsError> {
    let Some(limit) = getrlimit(Resource::Memlock).current else { return Ok(()) };
    let status = Process::myself().and_then(|process| process.status()).ok();
    /// Bit of CAP_IPC_LOCK (capabilities(7)).
    const IPC_LOCK: u32 = 14;
    let capable = status.as_ref().is_some_and(|status| status.capeff & (1 << IPC_LOCK) != 0);
    let locked = status.and_then(|status| status.vmpin).unwrap_or(0) << 10;
    if capable || locked.saturating_add(bytes) <= limit {
        return Ok(());
    }
    Err(VerbsError::LockedMemory { needed: locked.saturating_add(bytes), limit })
}
