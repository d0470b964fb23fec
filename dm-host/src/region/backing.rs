//! Where a region's file comes from, and which process owns it.

use super::{Layout, RegionError, RegionSpec, pages, survivors, system};
use dm_core::remote::superblock::MAGIC;
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fallocate,
    fcntl_add_seals, fcntl_lock, flock, fstat, ftruncate, memfd_create, open, seek,
};
use rustix::io::{Errno, pread};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn check_available(needed: u64) -> Result<(), RegionError> {
    match pages::memory_available() {
        Some(available) if needed > available => Err(RegionError::NoMemory { needed, available }),
        _ => Ok(()),
    }
}

/// A memfd of ordinary pages.
pub(super) fn plain_memfd(spec: &RegionSpec) -> Result<(OwnedFd, Layout), RegionError> {
    let layout = spec.layout(rustix::param::page_size() as u64)?;
    check_available(layout.file_bytes)?;
    let fd = memfd_create("dm-region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| system(Path::new("memfd"), "create it", e))?;
    size_memfd(&fd, layout.file_bytes)?;
    Ok((fd, layout))
}

/// Fixes the size of the memfd: if a file shrinks, the kernel kills a process that touches the lost part.
fn size_memfd(fd: &OwnedFd, bytes: u64) -> Result<(), RegionError> {
    let path = Path::new("memfd");
    ftruncate(fd, bytes).map_err(|e| system(path, "size it", e))?;
    fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(|e| system(path, "seal it", e))
}

pub(super) fn huge_layout(spec: &RegionSpec) -> Result<Layout, RegionError> {
    spec.layout(pages::huge_bytes())
}

/// A memfd of hugetlb pages, if the region is a multiple of their size and enough are free.
pub(super) fn huge_memfd(spec: &RegionSpec) -> Result<Option<OwnedFd>, RegionError> {
    let Ok(layout) = huge_layout(spec) else { return Ok(None) };
    if pages::huge_free() < layout.file_bytes / layout.page_bytes {
        return Ok(None);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(fd) = memfd_create("dm-region", flags) else { return Ok(None) };
    size_memfd(&fd, layout.file_bytes)?;
    Ok(Some(fd))
}

/// What a file was before a region was made of it. Dropping this puts it back, unless a pool was written to the file: what
/// fails on the way there leaves nothing.
///
/// It is made when this process has the file's locks, and keeps the file open, and so locked, until it has put it back.
/// Otherwise another daemon could start on the file in between, and lose it.
#[derive(Debug)]
pub(super) struct NewFile {
    fd: Arc<OwnedFd>,
    before: Before,
}

#[derive(Debug)]
enum Before {
    /// There was none.
    Missing(PathBuf),
    /// It was empty, or had so many zeros.
    Zeros { bytes: u64 },
    /// It stays as it is.
    Kept,
}

impl NewFile {
    /// It has a pool in it, and stays.
    pub(super) fn keep(&mut self) {
        self.before = Before::Kept;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A file of zeros is in nobody's way if it cannot be put back.
        match &self.before {
            Before::Missing(path) => drop(std::fs::remove_file(path)),
            Before::Zeros { bytes } => drop(ftruncate(&self.fd, *bytes)),
            Before::Kept => {}
        }
    }
}

/// Opens a file, or creates it; says whether it did.
fn open_or_create(path: &Path) -> Result<(OwnedFd, bool), RegionError> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match open(path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
        Ok(fd) => return Ok((fd, true)),
        Err(Errno::EXIST) => {}
        Err(e) => return Err(system(path, "open it", e)),
    }
    // The name may be a symbolic link to a file that is not there yet: what is made for it is the owner's to remove.
    let fd = open(path, flags | OFlags::CREATE, mode).map_err(|e| system(path, "open it", e))?;
    Ok((fd, false))
}

pub(super) fn open_file(spec: &RegionSpec, path: &Path) -> Result<(Arc<OwnedFd>, Layout, NewFile), RegionError> {
    let (fd, is_new) = open_or_create(path)?;
    let stat = fstat(&fd).map_err(|e| system(path, "examine it", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(RegionError::NotMappable { path: path.to_owned() });
    }
    lock_file(&fd, path)?;
    // Again: before it was locked, another process could change it.
    let stat = fstat(&fd).map_err(|e| system(path, "examine it", e))?;
    // Whoever made the file may have failed and removed it after it was opened here: a pool in it would be lost.
    if stat.st_nlink == 0 {
        return Err(RegionError::InUse { path: path.to_owned() });
    }
    let bytes = stat.st_size as u64;
    let fd = Arc::new(fd);
    let is_kept = begins_with_a_pool(&fd).map_err(|e| system(path, "read it", e))?;
    let before = if is_new && bytes == 0 { Before::Missing(path.to_owned()) } else { Before::Kept };
    let mut new = NewFile { fd: Arc::clone(&fd), before };
    let hugetlbfs = pages::hugetlbfs_page_bytes(fd.as_fd());
    let layout = spec.layout(hugetlbfs.unwrap_or(rustix::param::page_size() as u64))?;
    if is_kept {
        // Existing bytes stay; sequence words may be added behind them.
        if bytes < layout.sequence_at {
            return Err(RegionError::Short { path: path.to_owned(), bytes, needed: layout.file_bytes });
        }
    } else if bytes > 0 && hugetlbfs.is_none() {
        check_zero_file(&fd, path, bytes)?;
    } else if bytes > 0 {
        // hugetlbfs files cannot be searched for data. An emptied one is all zeros.
        ftruncate(&fd, 0).map_err(|e| system(path, "empty it", e))?;
    }
    if !is_kept && matches!(new.before, Before::Kept) {
        new.before = Before::Zeros { bytes };
    }
    if !is_kept || bytes < layout.file_bytes {
        ftruncate(&fd, layout.file_bytes).map_err(|e| system(path, "size it", e))?;
    }
    // If the disk is full, the kernel kills a process that touches a hole of a sparse file. So take the blocks now.
    match fallocate(&fd, FallocateFlags::empty(), 0, layout.file_bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(e) => return Err(system(path, "allocate it", e)),
    }
    Ok((fd, layout, new))
}

pub(super) fn open_dax(spec: &RegionSpec, path: &Path) -> Result<(OwnedFd, Layout), RegionError> {
    let fd = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| system(path, "open it", e))?;
    let stat = fstat(&fd).map_err(|e| system(path, "examine it", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
        return Err(RegionError::NotMappable { path: path.to_owned() });
    }
    lock_file(&fd, path)?;
    let (bytes, align) = pages::dax_size(stat.st_rdev as u64).map_err(|e| system(path, "learn its size", e))?;
    let layout = spec.layout(align)?;
    if bytes < layout.file_bytes {
        return Err(RegionError::Short { path: path.to_owned(), bytes, needed: layout.file_bytes });
    }
    Ok((fd, layout))
}

/// Makes the file this process's own.
///
/// There are two locks, since two things can be in the way. The POSIX lock belongs to the daemon's *process*: while one
/// daemon lives, no other starts. The flock belongs to the *open file* that the daemon hands to its clients. The kernel
/// holds it until the last of them has closed the file, even if the daemon is long dead, and clients keep the file open
/// for as long as they have it mapped. So a daemon that has both locks knows that no process can access the file's
/// memory any more through what a former daemon gave it.
///
/// Clients unmap a region when they learn that its daemon has ended. That takes them no time unless they are stopped.
/// Processes that have not done so after [`SURVIVORS_WAIT`] are killed: nothing would distinguish what a stopped
/// process writes when it continues from what a live one writes.
fn lock_file(fd: &OwnedFd, path: &Path) -> Result<(), RegionError> {
    match fcntl_lock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => return Err(RegionError::InUse { path: path.to_owned() }),
        Err(e) => return Err(system(path, "lock it", e)),
    }
    if flocked_within(fd, path, SURVIVORS_WAIT)? {
        return Ok(());
    }
    let survivors = survivors::find(fd).map_err(|e| system(path, "learn who has it open", e))?;
    if survivors.is_empty() {
        return Err(RegionError::InUse { path: path.to_owned() });
    }
    for survivor in &survivors {
        tracing::warn!(pid = survivor.pid, "ending a process that did not let go of {}", path.display());
        survivor.end();
    }
    if flocked_within(fd, path, SURVIVORS_WAIT)? {
        return Ok(());
    }
    let processes = survivors.iter().map(|survivor| survivor.pid).collect();
    Err(RegionError::Survivors { path: path.to_owned(), processes })
}

/// How long processes may take to unmap a region, or to die.
const SURVIVORS_WAIT: Duration = Duration::from_secs(2);

fn flocked_within(fd: &OwnedFd, path: &Path, wait: Duration) -> Result<bool, RegionError> {
    let deadline = Instant::now() + wait;
    loop {
        match flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() > deadline => return Ok(false),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::INTR) => {}
            Err(e) => return Err(system(path, "lock it", e)),
        }
    }
}

fn begins_with_a_pool(file: &OwnedFd) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    let read = pread(file, &mut magic, 0)?;
    Ok(read == magic.len() && magic == MAGIC)
}

/// Reads the parts of the file that have blocks; holes are zero.
fn check_zero_file(file: &OwnedFd, path: &Path, bytes: u64) -> Result<(), RegionError> {
    let mut block = [0; 4096];
    let mut offset = 0;
    while offset < bytes {
        offset = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(e) => return Err(system(path, "search it", e)),
        };
        let count = pread(file, &mut block, offset).map_err(|e| system(path, "read it", e))?;
        if count == 0 {
            return Ok(());
        }
        if block[..count].iter().any(|byte| *byte != 0) {
            return Err(RegionError::NotZero { path: path.to_owned(), offset });
        }
        offset += count as u64;
    }
    Ok(())
}
