//! What the kernel reports about pages: free huge ones, transparent ones, sizes of DAX devices.

use super::Layout;
use procfs::process::MMapPath;
use procfs::process::Process;
use procfs::{Current as _, Meminfo};
use rustix::fs::fstatfs;
use rustix::fs::statfs;
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
    /// Bytes of the mapping.
    pub bytes: u64,
    /// What the mapping is of, as far as it decides how to get huge pages.
    pub of: Mapped,
}

/// What a region's mapping is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Anonymous memory: a memfd.
    Anonymous,
    /// A file on tmpfs.
    Tmpfs,
    /// A file elsewhere.
    File,
}

impl Mapped {
    /// How to get huge pages.
    fn advice(self) -> &'static str {
        match self {
            Self::Anonymous => {
                "reserve some with `sysctl vm.nr_hugepages`, or `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`"
            }
            Self::Tmpfs => {
                "mount that tmpfs with huge=advise, or put the file on hugetlbfs: then reserve some with `sysctl vm.nr_hugepages`"
            }
            Self::File => "put the file on hugetlbfs, and reserve some with `sysctl vm.nr_hugepages`",
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.page_bytes > 4096 {
            return write!(f, "{}-KiB pages", self.page_bytes >> 10);
        }
        match self.transparent_huge_bytes {
            0 => write!(f, "4-KiB pages, no huge pages: random READs will miss the TLB ({})", self.of.advice()),
            huge => write!(f, "transparent huge pages for {huge} of {} bytes", self.bytes),
        }
    }
}

/// Looks up what the mapping that begins at `base` is made of.
pub(super) fn look(base: usize, layout: &Layout) -> Pages {
    let of = Mapped::Anonymous;
    let mut pages = Pages { page_bytes: layout.page_bytes, transparent_huge_bytes: 0, bytes: layout.file_bytes, of };
    let base = base as u64;
    let Ok(maps) = Process::myself().and_then(|process| process.smaps()) else { return pages };
    for map in maps.iter().filter(|map| map.address.0 < base + layout.file_bytes && base < map.address.1) {
        let huge = ["ShmemPmdMapped", "FilePmdMapped"].iter().filter_map(|name| map.extension.map.get(*name));
        pages.transparent_huge_bytes += huge.sum::<u64>();
        pages.of = mapped(&map.pathname);
    }
    pages
}

/// What has this name in the kernel's list of mappings.
fn mapped(name: &MMapPath) -> Mapped {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    match name {
        // A memfd is on a tmpfs without a mount.
        MMapPath::Path(path) if path.starts_with("/memfd:dm-region (deleted)") => Mapped::Anonymous,
        MMapPath::Path(path) if statfs(path).is_ok_and(|stat| stat.f_type as u64 == TMPFS_MAGIC) => Mapped::Tmpfs,
        MMapPath::Path(_) => Mapped::File,
        _ => Mapped::Anonymous,
    }
}

/// Bytes of memory that are available without swapping.
pub(super) fn memory_available() -> Option<u64> {
    Meminfo::current().ok()?.mem_available
}

/// Size of a default huge page.
pub(super) fn huge_bytes() -> u64 {
    Meminfo::current().ok().and_then(|memory| memory.hugepagesize).unwrap_or(2 << 20)
}

/// Huge pages that are neither taken nor reserved.
pub(super) fn huge_free() -> u64 {
    let read = |name: &str| -> Option<u64> {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", huge_bytes() >> 10);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    read("free_hugepages").unwrap_or(0).saturating_sub(read("resv_hugepages").unwrap_or(0))
}

/// Page size of the hugetlbfs that `fd` is on; `None` on another filesystem.
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
    // Kernels before 5.1 do not report the alignment; they map with 2 MiB.
    Ok((read("size")?, read("align").unwrap_or(2 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_what_is_mapped() {
        let said = |of| Pages { page_bytes: 4096, transparent_huge_bytes: 0, bytes: 4096, of }.to_string();
        assert!(said(Mapped::Anonymous).contains("shmem_enabled"));
        assert!(said(Mapped::Tmpfs).contains("huge=advise") && !said(Mapped::Tmpfs).contains("shmem_enabled"));
        assert!(said(Mapped::File).contains("hugetlbfs") && !said(Mapped::File).contains("shmem_enabled"));
        assert_eq!(mapped(&MMapPath::Path("/memfd:dm-region (deleted)".into())), Mapped::Anonymous);
        assert_eq!(mapped(&MMapPath::Path("/proc/self/maps".into())), Mapped::File);
    }
}
