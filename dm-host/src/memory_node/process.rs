//! A process at the other end of a control socket, identified for good.
//!
//! A process number identifies whichever process has it now; a pidfd identifies one process, dead or alive. Since Linux
//! 6.5 the kernel gives the pidfd of a socket's peer (`SO_PEERPIDFD`). On older kernels this file opens the pidfd by
//! number. It is the peer's only if the peer lived then. A socket that is still connected afterwards proves that: the
//! kernel closes a process's sockets when it dies, and before its number is reused. (A child that was forked without
//! exec keeps the sockets open, but does not have the memory, see [`crate::region::Region::attach`].)

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

/// The option's number on all architectures with the generic list, among them `x86_64`, `aarch64` and `riscv64`.
const SO_PEERPIDFD: libc::c_int = 77;

/// A process, dead or alive.
#[derive(Debug)]
pub(crate) struct Process {
    pidfd: OwnedFd,
}

impl Process {
    /// The process that connected `stream`; `None` if it cannot be identified here (it is in another pid namespace, or
    /// the kernel has no pidfds).
    pub(super) fn of_peer(stream: &UnixStream) -> Option<Self> {
        if let Ok(pidfd) = peer_pidfd(stream) {
            return Some(Self { pidfd });
        }
        let pidfd = pidfd_open(peer_pid(stream)?, PidfdFlags::empty()).ok()?;
        let mut byte = [0];
        let ended = matches!(recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((0, _)));
        (!ended).then_some(Self { pidfd })
    }

    /// The process of that number, if there is one now.
    pub(crate) fn of_number(pid: Pid) -> Option<Self> {
        pidfd_open(pid, PidfdFlags::empty()).ok().map(|pidfd| Self { pidfd })
    }

    /// Whether it could be killed: it is visible here and permissions allow it. A dead process counts as killable.
    pub(super) fn can_be_killed(&self) -> bool {
        // SAFETY: no pointer but null is passed; signal 0 is no signal, the kernel only checks.
        let checked = unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), 0, none, 0)
        };
        checked == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    /// Kills it, stopped or not. It is gone only when [`Process::is_gone`] says so. Killing a dead process has no
    /// effect.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether all its threads have ended: none of them executes an instruction of its program any more. (A pidfd
    /// becomes readable when the last thread of the process has passed `exit_notify`, long after the process gave up
    /// its memory.)
    pub(crate) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&none)), Ok(1..))
    }
}

impl AsFd for Process {
    /// A descriptor that becomes readable when the process is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn peer_pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `fd`, which has as many.
    let got = unsafe {
        let value = (&raw mut fd).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, value, &raw mut bytes)
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    if fd < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: a descriptor that the kernel has just made for this process; no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Number of the process that connected `stream`; `None` if it has none in this pid namespace.
pub(super) fn peer_pid(stream: &UnixStream) -> Option<Pid> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `peer`, which has as many and may hold any numbers.
    let got = unsafe {
        let value = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut bytes)
    };
    if got == 0 { Pid::from_raw(peer.pid) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_other_end_of_a_socket_is_named() {
        let (here, there) = UnixStream::pair().unwrap();
        let own = Process::of_peer(&here).unwrap();
        assert!(own.can_be_killed() && !own.is_gone());
        assert_eq!(peer_pid(&there), Some(rustix::process::getpid()));
    }

    #[test]
    fn a_stopped_process_is_killed_and_seen_gone() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::of_number(Pid::from_child(&child)).unwrap();
        pidfd_send_signal(&process, Signal::STOP).unwrap();
        assert!(!process.is_gone());
        process.kill().unwrap();
        while !process.is_gone() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.is_gone() && process.can_be_killed());
        process.kill().unwrap();
    }
}
