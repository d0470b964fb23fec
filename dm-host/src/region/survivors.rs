//! Processes that still have a region's file after its daemon has died.

use crate::memory_node::process::Process;
use rustix::fs::fstat;
use rustix::process::{Pid, getpid};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// A process that has the file open.
pub(super) struct Survivor {
    /// Its number.
    pub(super) pid: i32,
    process: Process,
}

impl Survivor {
    /// Kills it. The lock that it holds is released when it is gone.
    pub(super) fn end(&self) {
        if let Err(error) = self.process.kill() {
            tracing::warn!(pid = self.pid, %error, "cannot end a process");
        }
    }
}

/// Other processes of this machine that have the file behind `fd` open for reading and writing, as far as this process
/// may see them. A daemon's clients have it so; a process that copies the file does not.
pub(super) fn find(fd: &OwnedFd) -> io::Result<Vec<Survivor>> {
    let stat = fstat(fd)?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        if pid == getpid() {
            continue;
        }
        // The pidfd is opened before the process is inspected: if the process lives afterwards, it is the one that was
        // inspected.
        let Some(process) = Process::of_number(pid) else { continue };
        let pid = pid.as_raw_nonzero().get();
        if has_open(pid, stat.st_dev as u64, stat.st_ino as u64) && !process.is_gone() {
            found.push(Survivor { pid, process });
        }
    }
    Ok(found)
}

fn has_open(pid: i32, device: u64, inode: u64) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::metadata(descriptor.path()).is_ok_and(|file| file.dev() == device && file.ino() == inode)
            && fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", descriptor.file_name().display()))
                .is_ok_and(|info| is_read_write(&info))
    })
}

/// Whether `/proc/PID/fdinfo/N`, which has the flags of the open file in octal, says that it can be written.
fn is_read_write(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_is_told_from_who_reads() {
        assert!(is_read_write("pos:\t0\nflags:\t02100002\nmnt_id:\t29\n"));
        assert!(!is_read_write("pos:\t0\nflags:\t02100000\n") && !is_read_write("pos:\t0\n"));
    }
}
