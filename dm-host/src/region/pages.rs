//! What the kernel says about pages: free huge ones, transparent ones, sizes of DAX devices.

use super::Layout;
use rustix::fs::fstatfs;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// The pages a region is made of, looked up after it was faulted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Page size of the backing.
    pub page_bytes: u64,
    /// Bytes of a plain mapping that the kernel mapped with huge pages.
    pub transparent_huge_bytes: u64,
    /// Bytes in all.
    pub bytes: u64,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.page_bytes > 4096 {
            return write!(f, "{}-KiB pages", self.page_bytes >> 10);
        }
        match self.transparent_huge_bytes {
            0 => f.write_str(
                "4-KiB pages, no huge pages: random READs will miss the TLB (reserve some with `sysctl vm.nr_hugepages`, or `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`)",
            ),
            huge => write!(f, "transparent huge pages for {huge} of {} bytes", self.bytes),
        }
    }
}

/// Looks up what the mapping that begins at `base` is made of.
pub(super) fn look(base: usize, layout: &Layout) -> Pages {
    let mut pages = Pages { page_bytes: layout.page_bytes, transparent_huge_bytes: 0, bytes: layout.file_bytes };
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-'))
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            inside = start < base + layout.file_bytes as usize && base < end;
        } else if inside && (line.starts_with("ShmemPmdMapped:") || line.starts_with("FilePmdMapped:")) {
            pages.transparent_huge_bytes += kib(line).unwrap_or(0);
        }
    }
    pages
}

/// Bytes in a line such as `MemAvailable:   23 kB`.
fn kib(line: &str) -> Option<u64> {
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    kib(text.lines().find(|line| line.starts_with(name))?)
}

/// Memory that can be had without swapping.
pub(super) fn memory_available() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// Size of a default huge page.
pub(super) fn huge_bytes() -> u64 {
    meminfo("Hugepagesize:").unwrap_or(2 << 20)
}

/// Huge pages nobody has taken or reserved.
pub(super) fn huge_free() -> u64 {
    let read = |name: &str| -> Option<u64> {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", huge_bytes() >> 10);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    read("free_hugepages").unwrap_or(0).saturating_sub(read("resv_hugepages").unwrap_or(0))
}

/// Page size of the hugetlbfs that `fd` is on, if it is on one.
pub(super) fn hugetlbfs_page_bytes(fd: BorrowedFd<'_>) -> Option<u64> {
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    let stat = fstatfs(fd).ok()?;
    (stat.f_type as u64 == HUGETLBFS_MAGIC).then_some(stat.f_bsize as u64)
}

/// Size and alignment of the DAX device with number `device`, in bytes.
pub(super) fn dax_size(device: u64) -> io::Result<(u64, u64)> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let read = |name: &str| -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/{name}"))?;
        text.trim().parse().map_err(|_| io::Error::other(format!("{name} is not a number")))
    };
    // Kernels before 5.1 do not tell the alignment; 2 MiB is what they map with.
    Ok((read("size")?, read("align").unwrap_or(2 << 20)))
}
