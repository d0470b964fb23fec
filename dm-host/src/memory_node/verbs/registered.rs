//! A region that is registered with a device, and device memory beside it.

use super::wire::{KEYS_MAX, OVERLAP_BYTES};
use crate::fabric::verbs::VerbsError;
use crate::fabric::verbs::device::Device;
use crate::fabric::verbs::memory::{DeviceMemory, Reach, Registration, check_locked_memory};
use crate::region::Region;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A region that peers can reach. It is deregistered before it is unmapped: Rust drops the fields in this order.
#[derive(Debug)]
pub struct Registered {
    registrations: Vec<Registration>,
    device_memory: Option<(DeviceMemory, u32)>,
    piece_bytes: u64,
    /// How long registering took.
    pub took: Duration,
    region: Arc<Region>,
}

/// One piece of a region; any thread may register it.
struct Piece {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address, which the thread that gets it only passes to the device.
unsafe impl Send for Piece {}

impl Registered {
    /// Registers all of `region` in pieces of `piece_bytes` (a power of two), several at a time, since the kernel pins
    /// the pages of one registration on one processor.
    pub fn new(region: Region, device: &Arc<Device>, piece_bytes: u64, device_bytes: u32) -> Result<Self, VerbsError> {
        let bytes = region.layout().region_bytes;
        if !piece_bytes.is_power_of_two() || piece_bytes < OVERLAP_BYTES {
            return Err(VerbsError::Choice(format!(
                "--registration-size {piece_bytes}: a power of two, at least {OVERLAP_BYTES}"
            )));
        }
        let pieces = bytes.div_ceil(piece_bytes);
        if pieces > KEYS_MAX as u64 {
            return Err(VerbsError::Choice(format!(
                "--registration-size {piece_bytes}: a region of {bytes} bytes would have {pieces} registrations, at \
                 most {KEYS_MAX} can be told to compute nodes"
            )));
        }
        let largest = (piece_bytes + OVERLAP_BYTES).min(bytes);
        let max = device.limits().registration_bytes_max;
        if largest > max {
            let device = device.name().to_owned();
            return Err(VerbsError::RegistrationSize { device, bytes, piece: largest, max });
        }
        check_locked_memory(bytes)?;
        let began = Instant::now();
        let pieces: Vec<_> = (0..pieces)
            .map(|piece| {
                let first = piece * piece_bytes;
                let end = (first + piece_bytes + OVERLAP_BYTES).min(bytes);
                // SAFETY: `first` is inside the region.
                let start = unsafe { region.base().add(first as usize) };
                Piece { start, bytes: (end - first) as usize }
            })
            .collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(pieces.len()).max(1);
        let share = pieces.len().div_ceil(threads);
        let mut pieces = pieces.into_iter();
        let mut shares: Vec<Vec<Piece>> = Vec::new();
        for _ in 0..threads {
            shares.push(pieces.by_ref().take(share).collect());
        }
        let registered: Vec<Result<Vec<Registration>, VerbsError>> = std::thread::scope(|scope| {
            let register = |share: Vec<Piece>| {
                share
                    .into_iter()
                    // SAFETY: mapped as long as `region` lives, which is dropped after the registrations. No reference
                    // to it exists: `Region` makes none, and this process accesses it as an `Area` does, by atomic loads.
                    .map(|piece| unsafe { Registration::new(device, piece.start, piece.bytes, Reach::Remote) })
                    .collect()
            };
            let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || register(share))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(VerbsError::Choice("a thread panicked".to_owned()))))
                .collect()
        });
        let mut registrations = Vec::new();
        for share in registered {
            registrations.extend(share?);
        }
        let device_memory = (device_bytes > 0)
            .then(|| DeviceMemory::new(device, device_bytes as usize).map(|memory| (memory, device_bytes)))
            .transpose()?;
        Ok(Self { registrations, device_memory, piece_bytes, took: began.elapsed(), region: Arc::new(region) })
    }

    /// The region.
    pub fn region(&self) -> Arc<Region> {
        Arc::clone(&self.region)
    }

    /// Address of the region, as peers use it.
    pub fn base(&self) -> u64 {
        self.region.base().as_ptr().expose_provenance() as u64
    }

    /// Keys of the registrations, in order.
    pub fn keys(&self) -> Vec<u32> {
        self.registrations.iter().map(Registration::remote_key).collect()
    }

    /// Bytes from the beginning of one registration to that of the next.
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Device memory: bytes and key; zeros if there is none.
    pub fn device(&self) -> (u32, u32) {
        self.device_memory.as_ref().map_or((0, 0), |(memory, bytes)| (*bytes, memory.remote_key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Backing, LineMode, RegionSpec};

    #[test]
    fn a_region_is_registered_in_pieces_that_the_device_can_have() {
        let spec =
            RegionSpec { region_bytes: 6 << 20, device_bytes: 0, mode: LineMode::Vector, backing: Backing::Memfd };
        let register = |registration_bytes_max, piece_bytes| {
            let device = Device::limited(registration_bytes_max);
            Registered::new(Region::create(&spec).unwrap(), &device, piece_bytes, 0)
                .map(|registered| registered.keys().len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(register(u64::MAX, 1 << 30), Ok(1));
        // Each reaches 2 MiB into the next.
        assert_eq!(register(4 << 20, 2 << 20), Ok(3));
        let error = register(4 << 20, 8 << 20).unwrap_err();
        assert_eq!(
            error,
            "a region of 6291456 bytes in registrations of 6291456 bytes: null registers at most 4194304 bytes at once; \
             use --registration-size"
        );
        assert!(register(u64::MAX, 3 << 20).unwrap_err().contains("--registration-size 3145728: a power of two"));
    }
}
