//! The memory of one memory node: where it comes from and how it is mapped.
//!
//! A region is one file, which the daemon and every compute process map shared: a memfd (which ends with its last
//! user), a file on tmpfs, hugetlbfs or a disk, or a DAX device. [`layout`] says where things are in it. Code reaches
//! its bytes through [`Region::area`] only. The accesses of an area (`lines`) keep 64-byte lines and words whole; no
//! reference to the bytes ever exists.
//!
//! **Who may have the file.** A daemon has the file to itself, and only when no other process maps it any more. Two
//! locks ensure that; the kernel releases both when their holder ends, however it ends (`backing`). A file that holds a
//! pool is *kept*: a daemon that starts on it takes over what its predecessor left.
//!
//! Huge pages matter: with 4 KiB pages a random READ of a large region is mostly TLB misses. A memfd takes hugetlb
//! pages if enough are free, otherwise transparent ones if the kernel gives them to shared memory. [`Region::pages`]
//! says which pages it got, looked up after they were faulted in.

mod backing;
pub mod layout;
pub(crate) mod lines;
mod pages;
mod survivors;

pub use layout::{Layout, LineMode};
pub use pages::{Mapped, Pages};

use dm_core::layout::LINE_BYTES;
use dm_core::remote::superblock::MAGIC;
use dm_core::verbs::Space;
use layout::{SLOT_BYTES, WRITER_SLOTS};
use lines::{AccessError, Area, Sequences, WriterSlot};
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FileType, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Why there is no region.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The region is smaller than a pool needs.
    #[error("region of {bytes} bytes is too small: at least {min} bytes")]
    TooSmall {
        /// Bytes asked for.
        bytes: u64,
        /// The least bytes.
        min: u64,
    },
    /// The region is larger than an address can name.
    #[error("region of {bytes} bytes is too large: addresses reach {max} bytes; use more memory nodes")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// The most bytes.
        max: u64,
    },
    /// The region is not a multiple of the page size.
    #[error("region of {bytes} bytes is not a multiple of the page size {page_bytes}; next multiple: {}", bytes.next_multiple_of(*page_bytes))]
    NotWholePages {
        /// Bytes asked for.
        bytes: u64,
        /// Page size of the backing.
        page_bytes: u64,
    },
    /// The size of device memory is not possible.
    #[error("device memory of {bytes} bytes: must be a multiple of 64 and at most {max}")]
    DeviceBytes {
        /// Bytes asked for.
        bytes: u32,
        /// The most bytes.
        max: u32,
    },
    /// The page size is not possible.
    #[error("page size of {page_bytes} bytes: must be a power of two from 4 KiB to 1 GiB")]
    PageSize {
        /// The page size given.
        page_bytes: u64,
    },
    /// The region would not fit into memory.
    #[error("region needs {needed} bytes of memory, {available} are available; choose a smaller --size")]
    NoMemory {
        /// Bytes needed in all.
        needed: u64,
        /// Bytes available, as the kernel says.
        available: u64,
    },
    /// Huge pages were demanded, and too few are free.
    #[error(
        "region needs {needed} huge pages of {page_bytes} bytes, {free} are free; run `sysctl vm.nr_hugepages={needed}` or leave out --hugetlb"
    )]
    HugePages {
        /// Pages needed.
        needed: u64,
        /// Pages free.
        free: u64,
        /// Bytes of one page.
        page_bytes: u64,
    },
    /// The operating system refused a call.
    #[error("{path}: cannot {doing}: {source}", path = path.display())]
    System {
        /// The file, or a name for anonymous memory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The file is not empty.
    #[error("{path}: byte {offset} is not zero; a pool begins in an empty file: delete it or name another", path = path.display())]
    NotZero {
        /// The file.
        path: PathBuf,
        /// Offset of a non-zero byte: the first one, to within 4 KiB.
        offset: u64,
    },
    /// Another daemon has the file.
    #[error("{path}: in use by another process; stop it or name another file", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Processes that got the file from a former daemon still have it, and cannot be ended.
    #[error("{path}: still in the hands of processes that a former memory node served{}; end them first", named(processes), path = path.display())]
    Survivors {
        /// The file.
        path: PathBuf,
        /// Numbers of those processes that are known.
        processes: Vec<i32>,
    },
    /// The file or device is smaller than the layout.
    #[error("{path}: has {bytes} bytes, the region and its tables need {needed}; choose a smaller --size", path = path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The path is neither a file nor a device.
    #[error("{path}: not a regular file or character device", path = path.display())]
    NotMappable {
        /// The file.
        path: PathBuf,
    },
    /// No writer slot is free.
    #[error("all {WRITER_SLOTS} writer slots of the region are taken; stop a compute process or use fewer workers")]
    WriterSlots,
}

/// Where a region's memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Backing {
    /// Anonymous memory, of huge pages if enough are free.
    #[default]
    Memfd,
    /// Anonymous memory of hugetlb pages; an error if too few are free.
    HugeTlb,
    /// A file on tmpfs, hugetlbfs or a disk. It is created, or is empty, or all zeros, or has a pool in it, which is
    /// kept.
    File(PathBuf),
    /// A DAX character device: all zeros, or with a pool in it, which is kept.
    Dax(PathBuf),
}

/// What region to make.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// Bytes of the region.
    pub region_bytes: u64,
    /// Bytes of device memory; 0 = none.
    pub device_bytes: u32,
    /// How lines are kept whole.
    pub mode: LineMode,
    /// Where the memory comes from.
    pub backing: Backing,
}

/// The mapped memory of one memory node.
#[derive(Debug)]
pub struct Region {
    /// The file behind the mapping. It is kept open with the mapping, since not all filesystems keep a mapped file in
    /// the same way.
    fd: Mutex<Option<Arc<OwnedFd>>>,
    map: Mapping,
    layout: Layout,
    pages: Pages,
    is_kept: bool,
    /// Puts the file back as it was before this region was made of it, if no pool was written to it. The last field: it is
    /// dropped when the file is no longer mapped.
    new_file: Option<backing::NewFile>,
}

impl Drop for Region {
    fn drop(&mut self) {
        // After `detach` the file cannot be looked at.
        let keeps = self.fd().is_none() || self.has_pool();
        if let Some(file) = self.new_file.as_mut().filter(|_| keeps) {
            file.keep();
        }
    }
}

impl Region {
    /// Makes a region, zero-filled, mapped and faulted in; or takes over a file that holds a pool
    /// ([`Region::is_kept`]).
    pub fn create(spec: &RegionSpec) -> Result<Self, RegionError> {
        match &spec.backing {
            Backing::Memfd => {
                if let Some(fd) = backing::huge_memfd(spec)? {
                    return Self::finish(Arc::new(fd), backing::huge_layout(spec)?, Path::new("hugetlb memfd"), true);
                }
                let (fd, layout) = backing::plain_memfd(spec)?;
                Self::finish(Arc::new(fd), layout, Path::new("memfd"), true)
            }
            Backing::HugeTlb => {
                let layout = backing::huge_layout(spec)?;
                let Some(fd) = backing::huge_memfd(spec)? else {
                    return Err(RegionError::HugePages {
                        needed: layout.file_bytes / layout.page_bytes,
                        free: pages::huge_free(),
                        page_bytes: layout.page_bytes,
                    });
                };
                Self::finish(Arc::new(fd), layout, Path::new("hugetlb memfd"), true)
            }
            Backing::File(path) => {
                let (fd, layout, new) = backing::open_file(spec, path)?;
                let mut region = Self::finish(fd, layout, path, true)?.keep_or_not();
                region.new_file = Some(new);
                Ok(region)
            }
            Backing::Dax(path) => {
                let (fd, layout) = backing::open_dax(spec, path)?;
                let region = Self::finish(Arc::new(fd), layout, path, true)?.keep_or_not();
                if !region.is_kept {
                    region.check_zero(path)?;
                }
                Ok(region)
            }
        }
    }

    /// Looks whether the file has a pool in it. If so, releases lines that writers of a former daemon's clients died
    /// in: no other process has the file any more.
    fn keep_or_not(mut self) -> Self {
        self.is_kept = self.has_pool();
        if self.is_kept {
            self.release_slots(|owner| owner != 0);
        }
        self
    }

    /// Maps a region that another process made and laid out. `populate`: map all pages now, not at first touch.
    /// Children that this process forks do not get the mapping. So exactly one process has it, and that process can be
    /// fenced.
    pub fn attach(fd: OwnedFd, layout: Layout, populate: bool) -> Result<Self, RegionError> {
        let path = Path::new("region of the memory node");
        let stat = fstat(&fd).map_err(|e| system(path, "examine it", e))?;
        // Touching a mapping past the end of its file kills the process.
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && (stat.st_size as u64) < layout.file_bytes {
            return Err(RegionError::Short {
                path: path.to_owned(),
                bytes: stat.st_size as u64,
                needed: layout.file_bytes,
            });
        }
        let region = Self::finish(Arc::new(fd), layout, path, populate)?;
        region.map.advise(Advice::DontFork).map_err(|source| system(path, "keep it from children", source))?;
        Ok(region)
    }

    fn finish(fd: Arc<OwnedFd>, layout: Layout, path: &Path, populate: bool) -> Result<Self, RegionError> {
        let map = Mapping::new(&fd, &layout).map_err(|source| system(path, "map it", source))?;
        // Not fatal: without transparent huge pages the region works, slower. `pages` says so.
        let _ = map.advise(Advice::HugePage);
        if populate {
            map.advise(Advice::PopulateWrite).map_err(|source| system(path, "fault it in", source))?;
        }
        let pages = pages::look(map.as_mut_ptr().addr(), &layout);
        Ok(Self { fd: Mutex::new(Some(fd)), map, layout, pages, is_kept: false, new_file: None })
    }

    /// Replaces the region by private memory, zeroed, while threads may be in the middle of accesses. An access is to
    /// one or to the other; after the return none is to the region.
    pub fn detach(&self) -> io::Result<()> {
        self.map.replace()?;
        // Only now: the open file says that this process may still write to the region.
        *self.fd.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Whether the file held a pool when the region was created.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Where things are in the region.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The pages it is made of.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The file behind it, to hand to other processes; `None` after [`Region::detach`].
    pub fn fd(&self) -> Option<Arc<OwnedFd>> {
        self.fd.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bytes of `space`.
    #[inline]
    pub fn area(&self, space: Space) -> Area<'_> {
        let base = self.map.as_mut_ptr();
        let layout = &self.layout;
        let (at, bytes, line) = match space {
            Space::Host => (0, layout.region_bytes, 0),
            Space::Device => (layout.device_at, u64::from(layout.device_bytes), layout.region_bytes / 64),
        };
        let sequences = (layout.mode == LineMode::Sequence).then(|| Sequences {
            words: base.wrapping_add(layout.sequence_at as usize).cast(),
            slots: base.wrapping_add(layout.slots_at as usize).cast(),
            first_line: line,
        });
        // SAFETY: the mapping is `file_bytes` long and lives as long as `self`; `Layout::new` put every part inside
        // it, on pages, hence line-aligned, with a sequence word for each line and WRITER_SLOTS slots. The map is
        // never unmapped or shrunk while `self` lives, and nothing else in this process reaches its bytes.
        unsafe { Area::new(base.wrapping_add(at as usize), bytes, sequences) }
    }

    /// Writes `bytes` at `offset` of the region. For the first image only, before any other process sees the region: it
    /// uses no writer slot that a worker may own.
    pub fn write_image(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.area(Space::Host).write(WriterSlot::FORMATTER, offset, bytes)
    }

    /// Where the region begins in this process, for a device that is to access it.
    #[cfg(feature = "verbs")]
    pub(crate) fn base(&self) -> std::ptr::NonNull<u8> {
        // A mapping does not begin at address 0.
        std::ptr::NonNull::new(self.map.as_mut_ptr()).unwrap_or(std::ptr::NonNull::dangling())
    }

    /// Claims a writer slot for a worker of `owner` (not 0). Without sequence words no worker needs one.
    pub fn claim_writer(&self, owner: u64) -> Result<WriterSlot, RegionError> {
        if self.layout.mode == LineMode::Vector {
            return Ok(WriterSlot::FORMATTER);
        }
        (1..WRITER_SLOTS)
            .find(|&slot| self.owner(slot).compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok())
            .map(WriterSlot)
            .ok_or(RegionError::WriterSlots)
    }

    /// Releases a writer slot. The caller does not write with it any more.
    pub fn release_writer(&self, slot: WriterSlot) {
        if self.layout.mode == LineMode::Sequence && slot != WriterSlot::FORMATTER && slot.0 < WRITER_SLOTS {
            self.owner(slot.0).store(0, Ordering::Release);
        }
    }

    /// Completes the line WRITEs that writers of `owner` died in, and releases those lines and the slots. Only for an
    /// owner that is certainly gone. Returns the number of lines released.
    pub fn release_dead_writers(&self, owner: u64) -> u32 {
        self.release_slots(|found| found == owner)
    }

    fn release_slots(&self, dead: impl Fn(u64) -> bool) -> u32 {
        if self.layout.mode == LineMode::Vector {
            return 0;
        }
        let area = self.area(Space::Host);
        let region_lines = self.layout.region_bytes / LINE_BYTES as u64;
        let lines = region_lines + u64::from(self.layout.device_bytes) / LINE_BYTES as u64;
        let line_at = |line: u64| {
            let device = line.checked_sub(region_lines).map(|line| self.layout.device_at + line * LINE_BYTES as u64);
            self.map.as_mut_ptr().wrapping_add(device.unwrap_or(line * LINE_BYTES as u64) as usize)
        };
        let mut released = 0;
        for slot in (1..WRITER_SLOTS).filter(|&slot| dead(self.owner(slot).load(Ordering::Acquire))) {
            // SAFETY: lines of the region, then of the device memory, both inside the mapping.
            released += u32::from(unsafe { area.release_dead(WriterSlot(slot), lines, line_at) });
            self.owner(slot).store(0, Ordering::Release);
        }
        released
    }

    fn owner(&self, slot: u32) -> &AtomicU64 {
        debug_assert!(slot < WRITER_SLOTS && self.layout.mode == LineMode::Sequence);
        let at = self.layout.slots_at + u64::from(slot) * SLOT_BYTES;
        // SAFETY: `at` is inside the mapping, which lives as long as `self` and the reference, and 64-byte aligned;
        // the first word of a slot is only ever accessed through this function, as an atomic.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at as usize).cast()) }
    }

    /// Whether a pool's first bytes are there. It looks without sequence words, so that nothing is changed in a file that may
    /// belong to another program; nobody writes those bytes but a memory node that formats its region.
    fn has_pool(&self) -> bool {
        let mut magic = [0; MAGIC.len()];
        self.raw().read(0, &mut magic).is_ok() && magic == MAGIC
    }

    /// All bytes of the file, tables included, without sequence words: only while no other process writes what is read.
    fn raw(&self) -> Area<'_> {
        // SAFETY: all of the mapping, which lives as long as `self`. Without sequence words an access is a plain one, and
        // may be torn if another process writes the same line; callers read what no process writes any more.
        unsafe { Area::new(self.map.as_mut_ptr(), self.layout.file_bytes, None) }
    }

    /// Checks a device through the mapping, tables included, since a device cannot be read(2).
    fn check_zero(&self, path: &Path) -> Result<(), RegionError> {
        let area = self.raw();
        let mut page = [0; 4096];
        let mut offset = 0;
        while offset < self.layout.file_bytes {
            if area.read(offset, &mut page).is_err() || page.iter().any(|byte| *byte != 0) {
                return Err(RegionError::NotZero { path: path.to_owned(), offset });
            }
            offset += page.len() as u64;
        }
        Ok(())
    }
}

/// A shared mapping of a file at a huge-page boundary: elsewhere the kernel cannot use huge pages.
#[derive(Debug)]
struct Mapping {
    /// The reserved addresses, of the file and the margins; unmapped as one.
    reserved: MmapRaw,
    /// Where the file begins in the reservation.
    skip: usize,
    bytes: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, layout: &Layout) -> io::Result<Self> {
        let bytes = usize::try_from(layout.file_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let align = layout.page_bytes.max(2 << 20) as usize;
        let reserve = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let reserved = MmapRaw::from(MmapOptions::new().len(reserve).no_reserve_swap().map_anon()?);
        let skip = reserved.as_ptr().align_offset(align);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: `skip < align`, so the file's place is inside the reservation just made, which no other code knows;
        // replacing pages of it disturbs nothing. `reserved` unmaps all of it, whatever is mapped there.
        unsafe {
            let at = reserved.as_mut_ptr().wrapping_add(skip);
            mmap(at.cast(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, fd, 0)?;
        }
        Ok(Self { reserved, skip, bytes })
    }

    #[inline]
    fn as_mut_ptr(&self) -> *mut u8 {
        self.reserved.as_mut_ptr().wrapping_add(self.skip)
    }

    /// Puts private memory in the file's place, at one instant for all threads.
    fn replace(&self) -> io::Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range is the file's place in this mapping's own reservation. It stays mapped, readable and
        // writable throughout. Code that holds pointers into it accesses it as raw memory that other processes change
        // at any time, so it must expect other contents anyway.
        unsafe { mmap_anonymous(self.as_mut_ptr().cast(), self.bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        Ok(())
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        self.reserved.advise_range(advice, self.skip, self.bytes)
    }
}

impl RegionSpec {
    fn layout(&self, page_bytes: u64) -> Result<Layout, RegionError> {
        Layout::new(self.region_bytes, self.device_bytes, self.mode, page_bytes)
    }
}

fn named(processes: &[i32]) -> String {
    let numbers: Vec<_> = processes.iter().map(i32::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!(" (process {})", numbers.join(", ")) }
}

fn system(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> RegionError {
    RegionError::System { path: path.to_owned(), doing, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(backing: Backing) -> RegionSpec {
        RegionSpec { region_bytes: 1 << 20, device_bytes: 4096, mode: LineMode::Sequence, backing }
    }

    #[test]
    fn a_new_region_is_zero_and_shared_with_every_process_that_attaches() {
        let ours = Region::create(&spec(Backing::Memfd)).unwrap();
        let theirs = Region::attach(ours.fd().unwrap().try_clone().unwrap(), *ours.layout(), false).unwrap();
        let mut bytes = [1; 100];
        theirs.area(Space::Host).read(4000, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 100]);
        ours.write_image(4000, &[7; 100]).unwrap();
        theirs.area(Space::Host).read(4000, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 100]);
    }

    #[test]
    fn a_file_that_holds_something_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        std::fs::write(&path, [0; 5000]).unwrap();
        // All zeros: accepted.
        let region = Region::create(&spec(Backing::File(path.clone()))).unwrap();
        let error = Region::create(&spec(Backing::File(path.clone()))).unwrap_err();
        assert!(matches!(error, RegionError::InUse { .. }), "{error}");
        drop(region);
        let mut bytes = vec![0; 80_000];
        bytes[70_000] = b'x';
        std::fs::write(&path, &bytes).unwrap();
        let error = Region::create(&spec(Backing::File(path.clone()))).unwrap_err();
        assert!(matches!(error, RegionError::NotZero { offset: 0..=70000, .. }), "{error}");
        assert!(std::fs::read(&path).unwrap() == bytes, "it is as it was");
    }

    #[test]
    fn a_new_file_stays_only_with_a_pool_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let files = || std::fs::read_dir(directory.path()).unwrap().count();
        // It cannot be laid out.
        let odd = RegionSpec { region_bytes: 1000, ..spec(Backing::File(path.clone())) };
        assert!(Region::create(&odd).is_err());
        assert_eq!(files(), 0);
        // It was made, and what should write a pool to it failed.
        let region = Region::create(&spec(Backing::File(path.clone()))).unwrap();
        assert_eq!(files(), 1);
        drop(region);
        assert_eq!(files(), 0);
        // What was there before is not ours to remove: it is as long as it was.
        let bytes = || std::fs::metadata(&path).unwrap().len();
        for zeros in [0, 5000] {
            std::fs::write(&path, vec![0; zeros]).unwrap();
            assert!(Region::create(&odd).is_err());
            let region = Region::create(&spec(Backing::File(path.clone()))).unwrap();
            assert!(bytes() > 5000);
            drop(region);
            assert_eq!(bytes(), zeros as u64);
        }
        // With a pool in it, it stays, whether it was there before or not.
        for _ in 0..2 {
            Region::create(&spec(Backing::File(path.clone()))).unwrap().write_image(0, &MAGIC).unwrap();
            assert!(bytes() > 5000);
            assert!(Region::create(&odd).is_err());
            assert!(bytes() > 5000);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_with_a_pool_in_it_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let region = Region::create(&spec(Backing::File(path.clone()))).unwrap();
        assert!(!region.is_kept());
        region.write_image(0, &MAGIC).unwrap();
        region.write_image(70_000, b"x").unwrap();
        // A writer dies with its line locked: its slot is free again afterwards.
        let slot = region.claim_writer(7).unwrap();
        region.area(Space::Host).sequences_for_test().unwrap().die_in(slot, 1000, *b"in time!");
        drop(region);
        let region = Region::create(&spec(Backing::File(path))).unwrap();
        assert!(region.is_kept());
        let mut byte = [0];
        region.area(Space::Host).read(70_000, &mut byte).unwrap();
        assert_eq!(byte, *b"x");
        let mut word = [0; 8];
        region.area(Space::Host).read(64_008, &mut word).unwrap();
        assert_eq!(word, *b"in time!", "what it was writing has landed whole");
        assert_eq!(region.claim_writer(8).unwrap(), slot);
    }

    #[test]
    fn who_let_go_reaches_the_region_no_more() {
        let ours = Region::create(&spec(Backing::Memfd)).unwrap();
        let theirs = Region::attach(ours.fd().unwrap().try_clone().unwrap(), *ours.layout(), true).unwrap();
        ours.write_image(4096, &[7; 8]).unwrap();
        theirs.detach().unwrap();
        let mut bytes = [1; 8];
        theirs.area(Space::Host).read(4096, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8]);
        theirs.write_image(4096, &[9; 8]).unwrap();
        ours.area(Space::Host).read(4096, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 8]);
    }

    #[test]
    fn what_cannot_be_a_region_says_why() {
        let error = |backing| Region::create(&spec(backing)).unwrap_err().to_string();
        assert!(error(Backing::File("/dev/null".into())).contains("not a regular file"));
        assert!(error(Backing::Dax("/dev/null".into())).contains("learn its size"));
        assert!(error(Backing::File("/nonexistent/pool".into())).contains("cannot open it"));
        let huge = RegionSpec { region_bytes: 1 << 46, ..spec(Backing::HugeTlb) };
        assert!(Region::create(&huge).unwrap_err().to_string().contains("sysctl vm.nr_hugepages"));
        let large = RegionSpec { backing: Backing::Memfd, ..huge };
        assert!(Region::create(&large).unwrap_err().to_string().contains("choose a smaller --size"));
    }

    #[test]
    fn an_attached_file_must_be_long_enough() {
        let ours = Region::create(&spec(Backing::Memfd)).unwrap();
        let longer = Layout::new(2 << 20, 4096, LineMode::Sequence, 4096).unwrap();
        let error = Region::attach(ours.fd().unwrap().try_clone().unwrap(), longer, false).unwrap_err();
        assert!(matches!(error, RegionError::Short { .. }), "{error}");
    }
}
