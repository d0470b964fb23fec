//! Where things are in the file behind a region.
//!
//! ```text
//!  0                 device_at       sequence_at          slots_at        file_bytes
//! ┌─────────────────┬───────────────┬────────────────────┬────────────────┐
//! │ region          │ device memory │ sequence words (*) │ writer slots(*)│
//! └─────────────────┴───────────────┴────────────────────┴────────────────┘
//!   offset 0 is the    stands for     u32 per 64-byte      128 bytes each   (*) only in
//!   superblock         a NIC's        line, of the region                       LineMode::Sequence
//!                                     first, then of the
//!                                     device memory
//! ```
//!
//! Every part begins on a page of the backing (2 MiB for huge pages). Both ends compute the layout from four numbers
//! with [`Layout::new`]; what a peer says beyond these is only compared.

use super::RegionError;
use dm_core::layout::LINE_BYTES;
use dm_core::remote::address::Address;

/// How accesses keep 64-byte lines whole. All processes on one region must use the same mode, so it is a property of
/// the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LineMode {
    /// One vector instruction moves one aligned line. No vendor promises that this is atomic; see
    /// [`crate::fabric::shm::litmus`].
    Vector = 1,
    /// A sequence word per line, odd while a WRITE of the line is under way. Works on any machine.
    Sequence = 2,
}

impl LineMode {
    /// The mode's number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The mode of a number on the wire.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Vector),
            2 => Some(Self::Sequence),
            _ => None,
        }
    }

    /// Name of the profile, for reports.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::Vector => "x86-avx512-line",
            Self::Sequence => "line-sequence-words",
        }
    }
}

/// Smallest region: room for the structures every pool has.
pub const REGION_BYTES_MIN: u64 = 64 << 10;

/// Largest region: offsets in addresses have 48 bits.
pub const REGION_BYTES_MAX: u64 = Address::OFFSET_END;

/// Device memory unless the user sets another size, in bytes: what ConnectX NICs of the Sherman era have (Sherman
/// section 4.3).
pub const DEVICE_BYTES_DEFAULT: u32 = 256 << 10;

/// Largest device memory, in bytes.
pub const DEVICE_BYTES_MAX: u32 = 1 << 30;

/// Most writers (workers of all processes together) in [`LineMode::Sequence`].
pub const WRITER_SLOTS: u32 = 1024;

/// Bytes of a writer slot: one cache line of notes, and one for the image of the line it is writing.
pub const SLOT_BYTES: u64 = 2 * LINE_BYTES as u64;

/// Where things are in the file behind a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the region, which begins at 0.
    pub region_bytes: u64,
    /// Bytes of device memory; 0 = none.
    pub device_bytes: u32,
    /// How lines are kept whole.
    pub mode: LineMode,
    /// Page size of the backing.
    pub page_bytes: u64,
    /// Where device memory begins.
    pub device_at: u64,
    /// Where the sequence words begin.
    pub sequence_at: u64,
    /// Where the writer slots begin.
    pub slots_at: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl Layout {
    /// Lays out a region. Any arguments are safe to pass.
    pub fn new(region_bytes: u64, device_bytes: u32, mode: LineMode, page_bytes: u64) -> Result<Self, RegionError> {
        if !page_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&page_bytes) {
            return Err(RegionError::PageSize { page_bytes });
        }
        if region_bytes < REGION_BYTES_MIN {
            return Err(RegionError::TooSmall { bytes: region_bytes, min: REGION_BYTES_MIN });
        }
        if region_bytes > REGION_BYTES_MAX {
            return Err(RegionError::TooLarge { bytes: region_bytes, max: REGION_BYTES_MAX });
        }
        if !region_bytes.is_multiple_of(page_bytes) {
            return Err(RegionError::NotWholePages { bytes: region_bytes, page_bytes });
        }
        if device_bytes > DEVICE_BYTES_MAX || !(device_bytes as usize).is_multiple_of(LINE_BYTES) {
            return Err(RegionError::DeviceBytes { bytes: device_bytes, max: DEVICE_BYTES_MAX });
        }
        // Nothing below overflows: every term is at most 2^48 + 2^30.
        let pages = |bytes: u64| bytes.next_multiple_of(page_bytes);
        let device_at = region_bytes;
        let sequence_at = device_at + pages(u64::from(device_bytes));
        let lines = (region_bytes + u64::from(device_bytes)) / LINE_BYTES as u64;
        let (slots_at, file_bytes) = match mode {
            LineMode::Vector => (sequence_at, sequence_at),
            LineMode::Sequence => {
                let slots_at = sequence_at + pages(lines * size_of::<u32>() as u64);
                (slots_at, slots_at + pages(u64::from(WRITER_SLOTS) * SLOT_BYTES))
            }
        };
        Ok(Self { region_bytes, device_bytes, mode, page_bytes, device_at, sequence_at, slots_at, file_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_begin_on_pages() {
        for page in [4096, 2 << 20] {
            let layout = Layout::new(4 << 20, 256 << 10, LineMode::Sequence, page).unwrap();
            let lines = ((4 << 20) + (256 << 10)) / 64;
            assert!(layout.device_at >= layout.region_bytes);
            assert!(layout.sequence_at >= layout.device_at + u64::from(layout.device_bytes));
            assert!(layout.slots_at >= layout.sequence_at + lines * 4);
            assert!(layout.file_bytes >= layout.slots_at + u64::from(WRITER_SLOTS) * SLOT_BYTES);
            for at in [layout.device_at, layout.sequence_at, layout.slots_at, layout.file_bytes] {
                assert!(at.is_multiple_of(page), "{layout:?}");
            }
        }
    }

    #[test]
    fn impossible_sizes_say_what_to_do() {
        let new = |bytes, device, page| Layout::new(bytes, device, LineMode::Vector, page).unwrap_err().to_string();
        assert_eq!(new(4096, 0, 4096), "region of 4096 bytes is too small: at least 65536 bytes");
        assert!(new(u64::MAX, 0, 4096).contains("too large"));
        assert!(new((1 << 20) + 1, 0, 4096).contains("next multiple: 1052672"));
        assert!(new(1 << 20, 65, 4096).contains("device memory of 65 bytes"));
        assert!(new(1 << 20, 0, 0).contains("page size"));
    }
}
