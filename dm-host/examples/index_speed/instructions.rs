//! How many instructions an operation takes: a process steps its child through them, one at a time.
//!
//! The child stops itself with a signal before and behind what is to be counted. It runs at full speed elsewhere. Times of
//! the machine do not matter, so the counts of two runs differ by less than one in a hundred.

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::process::{Command, Stdio};

/// The word that asks for counts.
pub const ASKED: &str = "instructions";
/// The word that the child gets instead.
pub const STEPPED: &str = "stepped";
/// Stops the child at both ends.
const ENDS: Signal = Signal::SIGUSR1;

/// In the child: runs `work` in this thread between two stops.
pub fn between_stops<R>(work: impl FnOnce() -> R) -> R {
    ptrace::traceme().expect("a parent that counts");
    raise(ENDS).expect("a stop");
    let result = work();
    raise(ENDS).expect("a stop");
    result
}

/// In the parent: runs this program again with the same arguments, and returns the instructions of each part that stops.
pub fn of_parts() -> Vec<u64> {
    let arguments = std::env::args().skip(1).map(|word| if word == ASKED { STEPPED.to_owned() } else { word });
    let program = std::env::current_exe().expect("this program's file");
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn().expect("a child");
    let mut parts = Vec::new();
    loop {
        match waitpid(None, Some(WaitPidFlag::__WALL)).expect("a child that stops or ends") {
            WaitStatus::Stopped(thread, ENDS) => parts.push(steps_of(thread)),
            WaitStatus::Stopped(thread, signal) => ptrace::cont(thread, signal).expect("a child that goes on"),
            // Of a thread; or of the process, which `wait` has then lost.
            WaitStatus::Exited(_, 0) => break,
            other => panic!("the child ended: {other:?}"),
        }
    }
    let _ = child.wait();
    parts
}

/// Steps a thread to its next stop.
fn steps_of(thread: nix::unistd::Pid) -> u64 {
    for steps in 0.. {
        ptrace::step(thread, None).expect("a child that steps");
        match waitpid(thread, Some(WaitPidFlag::__WALL)).expect("a child that stops") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, ENDS) => {
                ptrace::detach(thread, None).expect("a child that goes on");
                return steps;
            }
            other => panic!("the child ended while it was counted: {other:?}"),
        }
    }
    unreachable!("it has no end")
}
