//! What a soak does to a process of its own, and sees of it.

use procfs::ProcResult;
use procfs::process::{Process, Task};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Sends a signal.
pub(super) fn signal(child: &Child, signal: Signal) {
    // Not waited for yet, so the process id is still its own.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Waits until no thread of a process that was sent SIGSTOP runs any more: a signal takes a while to arrive.
pub(super) fn is_stopped_soon(child: &Child) -> bool {
    let is_stopped = |task: ProcResult<Task>| task.and_then(|task| task.stat()).is_ok_and(|stat| stat.state == 'T');
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        let tasks = Process::new(child.id().cast_signed()).and_then(|process| process.tasks());
        if tasks.is_ok_and(|mut tasks| tasks.all(is_stopped)) {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Whether a process, which was not waited for, still has memory that it could write to.
pub(super) fn has_memory(child: &Child) -> bool {
    let memory = Process::new(child.id().cast_signed()).and_then(|process| process.statm());
    memory.is_ok_and(|memory| memory.size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_has_memory_until_it_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep is everywhere");
        signal(&child, Signal::STOP);
        assert!(is_stopped_soon(&child) && has_memory(&child));
        signal(&child, Signal::KILL);
        while has_memory(&child) {
            thread::yield_now();
        }
        assert!(child.wait().is_ok());
    }
}
