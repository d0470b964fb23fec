//! Frees the rows of compute processes that the daemon saw die, so that a program that crashes again and again does not
//! take all rows of a pool.
//!
//! ```text
//!   server: a process's socket ended, rows 3 and 4 were announced on it
//!      │ (3, 7), (4, 2)
//!      ▼
//!   a thread: batches what has come ──► this program again, `--sweep-rows 3:7,4:2`: repair (`crate::repair`) of these
//!      ▲                                rows, as a compute node like any other; it ends
//!      └── failed: once more, later ───┘
//! ```
//!
//! **Why a process of its own.** Who sweeps holds a row and takes locks, so it can be fenced, and on shared memory a fence
//! ends the process. The daemon's own end would be the end of the memory. A sweeping process that dies is swept as any
//! other: its death comes here, too.
//!
//! **Why at once.** A death is certain here: the process was seen to end, or has closed its connection under names that it
//! had not withdrawn, and so has given up the memory. Fencing asks every memory node nevertheless.
//! Nodes that wait for a lock of the dead may take it over at the same time: every step of a repair may be done by several
//! at once. To wait for a lease would let a program that crashes every 50 ms take 200 rows in 10 s.
//!
//! **Who sweeps.** The daemon of memory node 0, on which the rows are. If the pool has more memory nodes, it has to be told
//! how to reach them (`--peers`). What is not announced cannot be seen to die: a process that ends between the CAS that
//! claims a row and its first announcement leaves the row to `dm repair`.

use crate::compute_node::Membership;
use crate::fabric::shm::ShmOptions;
use crate::pool::Pool;
use crate::repair::{RepairError, Repaired, Scope, repair};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Pauses after a sweep that failed: first and longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A row and its incarnation, as `ROW:INCARNATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeadRow(pub(super) Member);

impl FromStr for DeadRow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once(':').and_then(|(row, life)| Some((row.parse().ok()?, life.parse().ok()?)));
        let (row, incarnation) = numbers.ok_or("ROW:INCARNATION, two numbers")?;
        Ok(Self(Member { row: RowId(row), incarnation, nonce: 0 }))
    }
}

/// Starts the thread that sweeps what it is sent, by processes that run `program`: this program with the arguments that
/// name the pool. The thread ends with the process.
pub(super) fn start(program: Vec<OsString>) -> io::Result<Sender<Member>> {
    let (deaths, died) = mpsc::channel();
    let sweep = move |rows: &str| {
        let mut command = Command::new("/proc/self/exe");
        command.args(&program).args(["--sweep-rows", rows]).stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
    };
    thread::Builder::new().name("dm-sweeper".to_owned()).spawn(move || run(&died, sweep, PAUSE))?;
    Ok(deaths)
}

/// Sweeps until there can be no more deaths.
fn run(died: &Receiver<Member>, sweep: impl Fn(&str) -> io::Result<()>, (first, longest): (Duration, Duration)) {
    let mut waiting: Vec<Member> = Vec::new();
    let mut pause = first;
    loop {
        // While some wait, this is the pause before they are tried once more.
        let next = if waiting.is_empty() {
            died.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            died.recv_timeout(pause)
        };
        match next {
            Ok(member) => waiting.push(member),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.extend(died.try_iter());
        let rows: Vec<_> = waiting.iter().map(|member| format!("{}:{}", member.row.0, member.incarnation)).collect();
        match sweep(&rows.join(",")) {
            Ok(()) => {
                waiting.clear();
                pause = first;
            }
            Err(error) => {
                tracing::warn!(rows = rows.join(","), "sweeping dead compute nodes: {error}; once more in {pause:?}");
                pause = (2 * pause).min(longest);
            }
        }
    }
}

/// What the sweeping process does.
pub(super) fn sweep(sockets: &[PathBuf], dead: &[DeadRow]) -> Result<(), RepairError> {
    let pool = Arc::new(Pool::connect(sockets, ShmOptions::default())?);
    let dead: Vec<Member> = dead.iter().map(|row| row.0).collect();
    let repaired = repair(&pool, Membership::default(), Scope::Dead(&dead))?;
    let Repaired { rows_freed, rows_kept, locks, chunks_freed, .. } = repaired;
    tracing::info!(rows_freed, rows_kept, locks, chunks_freed, "swept dead compute nodes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn member(row: u16, incarnation: u32) -> Member {
        Member { row: RowId(row), incarnation, nonce: 0 }
    }

    #[test]
    fn a_sweep_that_fails_is_repeated_with_what_has_come_since() {
        let (deaths, died) = mpsc::channel();
        deaths.send(member(3, 7)).unwrap();
        deaths.send(member(4, 2)).unwrap();
        let asked = Mutex::new(Vec::new());
        let sender = Mutex::new(Some(deaths));
        let sweep = |rows: &str| {
            let mut asked = asked.lock().unwrap();
            asked.push(rows.to_owned());
            let mut sender = sender.lock().unwrap();
            match asked.len() {
                1 => {
                    sender.as_ref().unwrap().send(member(5, 1)).unwrap();
                    Err(io::ErrorKind::Other.into())
                }
                2 => {
                    sender.as_ref().unwrap().send(member(3, 8)).unwrap();
                    Ok(())
                }
                _ => {
                    *sender = None;
                    Ok(())
                }
            }
        };
        run(&died, sweep, (Duration::from_millis(1), Duration::from_millis(2)));
        assert_eq!(*asked.lock().unwrap(), ["3:7,4:2", "3:7,4:2,5:1", "3:8"]);
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        assert_eq!("3:7".parse(), Ok(DeadRow(member(3, 7))));
        for text in ["", "3", "3:", ":7", "3:7:1", "70000:1", "-3:7"] {
            assert!(text.parse::<DeadRow>().is_err(), "{text:?}");
        }
    }
}
