//! How many instructions an operation takes: a process steps its child through them, one at a time.
//!
//! The child stops itself with a signal before and behind what is to be counted. It runs at full speed elsewhere. Keys are
//! fixed and one thread works, so the counts of two runs differ by less than one in a hundred. What would make them differ
//! is kept out:
//!
//! - libc copies as on the oldest processor. What it would choose here depends on the processor, and each byte that
//!   `rep movsb` copies is a step.
//! - Time passes slowly for the child. So nothing in it may depend on how long a request took: `serve` switches the READ
//!   guard off.
//!
//! Parent and child share a processor: they never run at the same time, and it takes less to wake one on its own.

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::collections::HashMap;
use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The word that asks for counts.
pub const ASKED: &str = "instructions";
/// The word that the child gets instead.
pub const STEPPED: &str = "stepped";
/// Stops the child at both ends.
const ENDS: Signal = Signal::SIGUSR1;

/// What libc must not use.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM";

/// In the child: runs `work` in this thread between two stops.
pub fn between_stops<R>(work: impl FnOnce() -> R) -> R {
    ptrace::traceme().expect("a parent that counts");
    raise(ENDS).expect("a stop");
    let result = work();
    raise(ENDS).expect("a stop");
    result
}

/// The instructions between two stops.
#[derive(Default)]
pub struct Part {
    /// How many there were.
    pub steps: u64,
    /// How many there were at each address of this program's file, if that was asked for. Under 0: those outside it.
    at: HashMap<u64, u64>,
}

/// In the parent: runs this program again with the same arguments, and returns the instructions of each part that stops.
pub fn of_parts(with_addresses: bool) -> Vec<Part> {
    let mut processor = CpuSet::new();
    processor.set(sched_getcpu());
    sched_setaffinity(None, &processor).expect("the processor that this runs on");
    let arguments = env::args().skip(1).map(|word| if word == ASKED { STEPPED.to_owned() } else { word });
    let program = env::current_exe().expect("this program's file");
    let mut command = Command::new(program);
    command.args(arguments).env("GLIBC_TUNABLES", TUNABLES).stdout(Stdio::null());
    let mut child = command.spawn().expect("a child");
    let mut parts = Vec::new();
    loop {
        match waitpid(None, Some(WaitPidFlag::__WALL)).expect("a child that stops or ends") {
            WaitStatus::Stopped(thread, ENDS) => parts.push(steps_of(thread, with_addresses)),
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
fn steps_of(thread: nix::unistd::Pid, with_addresses: bool) -> Part {
    let mut part = Part::default();
    let (base, code) = if with_addresses { code_of(thread) } else { (0, 0..0) };
    loop {
        if with_addresses {
            let address = next_of(thread);
            *part.at.entry(if code.contains(&address) { address - base } else { 0 }).or_default() += 1;
        }
        ptrace::step(thread, None).expect("a child that steps");
        match waitpid(thread, Some(WaitPidFlag::__WALL)).expect("a child that stops") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => part.steps += 1,
            WaitStatus::Stopped(_, ENDS) => {
                ptrace::detach(thread, None).expect("a child that goes on");
                return part;
            }
            other => panic!("the child ended while it was counted: {other:?}"),
        }
    }
}

/// The address of a thread's next instruction.
#[cfg(target_arch = "x86_64")]
fn next_of(thread: nix::unistd::Pid) -> u64 {
    ptrace::getregs(thread).expect("the registers of a child that is stopped").rip
}

#[cfg(not(target_arch = "x86_64"))]
fn next_of(_: nix::unistd::Pid) -> u64 {
    0
}

/// Where a process has this program's file, and where the code in it.
fn code_of(thread: nix::unistd::Pid) -> (u64, std::ops::Range<u64>) {
    let program = env::current_exe().expect("this program's file");
    let maps = Process::new(thread.as_raw()).and_then(|process| process.maps()).expect("the maps of a child");
    let own: Vec<_> = maps.into_iter().filter(|map| map.pathname == MMapPath::Path(program.clone())).collect();
    let code = own.iter().find(|map| map.perms.contains(MMPermissions::EXECUTE)).expect("code");
    (own[0].address.0, code.address.0..code.address.1)
}

impl Part {
    /// Prints where most of the instructions of an operation are: by function of this project, with what it calls of others
    /// that is inlined there. Asks binutils' addr2line.
    pub fn print_functions(&self, operations: u64) {
        let mut by_function: HashMap<String, u64> = HashMap::new();
        let addresses: Vec<_> = self.at.iter().filter(|(address, _)| **address != 0).collect();
        let input = addresses.iter().map(|(address, _)| format!("{address:#x}")).collect::<Vec<_>>().join("\n");
        for (chain, (_, count)) in addr2line(&input).split("\n0x").zip(addresses) {
            *by_function.entry(function_of(chain)).or_default() += count;
        }
        by_function.insert("libc and others".to_owned(), self.at.get(&0).copied().unwrap_or_default());
        let mut table: Vec<_> = by_function.into_iter().collect();
        table.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (function, count) in table.into_iter().take(40) {
            let share = count as f64 * 100.0 / self.steps as f64;
            println!("  {:8.1} {share:5.1} %  {function}", count as f64 / operations as f64);
        }
    }
}

/// For each address a line with it; then of each function that is inlined there, from the innermost on, a line with its name and
/// one with its file and line.
fn addr2line(addresses: &str) -> String {
    let mut command = Command::new("addr2line");
    command.arg("-e").arg(env::current_exe().expect("this program's file")).args(["-f", "-i", "-C", "-a"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("binutils' addr2line");
    let mut to = child.stdin.take().expect("a pipe");
    let addresses = addresses.to_owned();
    let writer = std::thread::spawn(move || to.write_all(addresses.as_bytes()));
    let output = child.wait_with_output().expect("an answer");
    writer.join().expect("a thread that wrote").expect("addresses that are read");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The innermost function of this project in what addr2line says of an address; its outermost one, if there is none.
fn function_of(chain: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_string_lossy();
    let lines: Vec<_> = chain.lines().skip(1).collect();
    let own = lines.chunks_exact(2).find_map(|pair| {
        let (file, _) = pair[1].strip_prefix(&*root)?.rsplit_once(':')?;
        Some(format!("{} ({})", pair[0], file.trim_start_matches('/')))
    });
    own.or_else(|| lines.chunks_exact(2).next_back().map(|pair| pair[0].to_owned())).unwrap_or_default()
}
