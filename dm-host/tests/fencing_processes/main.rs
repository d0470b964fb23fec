//! Compute processes that are fenced, and memory nodes that are restarted, with real processes: stopped, killed, late.

#[path = "../session_support/mod.rs"]
mod session_support;

mod calls;
mod fencing;
mod restarts;

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::membership::lease::LeaseConfig;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rpc::{self, Reply};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request, Status};
use dm_host::assembly::Spending;
use dm_host::compute_node::{ComputeNode, Membership};
use dm_host::fabric::any::AnyFabric;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::{Pool, PoolError};
use dm_host::solo::block_on;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const N0: NodeId = NodeId(0);

/// A word in the heap that no index uses here.
const WORD: u64 = 3 << 20;

/// A daemon of this test, killed with it.
struct Daemon {
    child: Child,
    ready: String,
    socket: PathBuf,
}

fn memd(socket: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dm-memd"));
    // These tests fence and take over what the dead leave, themselves.
    command.args(["--size", "8MiB", "--chunk-size", "64KiB", "--locks", "31", "--exit-with-parent", "--no-sweep"]);
    command.arg("--socket");
    command.arg(socket).args(more).stdout(Stdio::piped());
    command
}

impl Daemon {
    fn start(socket: &Path, more: &[&str]) -> Self {
        let mut child = memd(socket, more).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("READY "), "{ready:?}");
        Self { child, ready, socket: socket.to_owned() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(daemons: &[&Daemon]) -> Result<Arc<Pool>, PoolError> {
    let sockets: Vec<_> = daemons.iter().map(|daemon| daemon.socket.clone()).collect();
    Pool::connect(&sockets, ShmOptions::default()).map(Arc::new)
}

/// Executes one request and waits for it.
fn post(pool: &Pool, request: Request) -> Completion {
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    post_on(&mut fabric, &lane, request)
}

fn post_on(fabric: &mut AnyFabric, lane: &Lane<'_>, request: Request) -> Completion {
    match block_on(fabric, lane, lane.port().call(request)) {
        Ok(completion) => completion,
        Err(error) => Completion { status: error.status, ..Completion::default() },
    }
}

fn rpc(pool: &Pool, operands: [u64; 4]) -> Result<u64, Status> {
    let completion = post(pool, Request::rpc(Label::Tool, N0, operands));
    if completion.status == Status::Ok { Ok(completion.value) } else { Err(completion.status) }
}

/// Asks until the fence is no longer pending.
fn fence(pool: &Pool, node: NodeId, row: u16, incarnation: u32) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let completion = post(pool, rpc::fence(node, RowId(row), incarnation));
        assert_eq!(completion.status, Status::Ok);
        match Reply::from_value(completion.value).unwrap() {
            Reply::Pending => assert!(Instant::now() < deadline, "a killed process does not end"),
            reply => return reply,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn word(pool: &Pool) -> u64 {
    // Adds nothing, brings the old value.
    post(pool, Request::fetch_add(Label::Tool, N0, WORD, 0)).value
}

/// Names the role and the sockets of the second process.
const ROLE: &str = "DM_TEST_ROLE";

/// The second process: this test binary again. Without its role there is nothing to do.
#[test]
fn partner() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, sockets) = role.split_once(' ').unwrap();
    let sockets: Vec<PathBuf> = sockets.split(',').map(PathBuf::from).collect();
    let pool = Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap());
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    match role {
        // Joins a row and adds to the word, for ever.
        "writer" => {
            let node = pool.join(1, Membership::default()).unwrap();
            println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
            loop {
                let add = Request::fetch_add(Label::Tool, N0, WORD, 1);
                if post_on(&mut fabric, &lane, add).status != Status::Ok {
                    println!("DOWN");
                    std::thread::sleep(Duration::from_mins(10));
                }
            }
        }
        // Joins, leaves, and stays alive.
        "leaver" => {
            let member = pool.join(1, Membership::default()).unwrap().member();
            println!("LEFT {} {}", member.row.0, member.incarnation);
            std::thread::sleep(Duration::from_mins(10));
        }
        // Joins, opens the index, has looked into it, and stays alive.
        "reader" => {
            let node = pool.join(1, watched()).unwrap();
            let (entry, parameters) = pool.find_index(SHORT).unwrap();
            let opened = node.with_index(&entry, &parameters, &Spending::default(), |index| {
                let mut scratch = vec![0; index.plan().total_bytes];
                let lane = Lane::new(LaneId(0), &mut scratch);
                point(&node, &mut fabric, &lane, &index, OperationKind::Get, 0);
                println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
                std::thread::sleep(Duration::from_mins(10));
            });
            opened.unwrap();
        }
        role => panic!("{role}"),
    }
}

/// The index whose places are reused.
const SHORT: &str = "short";

/// Short enough for a test to see several of them pass, long enough for a busy machine.
const LEASE: Duration = Duration::from_secs(2);

fn watched() -> Membership {
    Membership { terms: LeaseConfig::of(LEASE.as_nanos() as u64).unwrap(), ..Membership::default() }
}

/// A point operation on a record whose value is its key. It is repeated if its compute node could not renew its lease
/// for half of it.
fn point(
    node: &ComputeNode,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    index: &impl Index,
    kind: OperationKind,
    key: u64,
) -> Outcome {
    lane.port().with(|scratch| {
        for part in [Part::Key, Part::Value] {
            assert!(index.plan().put(scratch, part, &key.to_be_bytes()));
        }
    });
    let mut waits = 0;
    loop {
        match block_on(fabric, lane, index.execute(lane, Operation::point(kind))) {
            Ok(outcome) => return outcome,
            // All free places may be in limbo: tries again for a minute.
            Err(OpError { cause: Cause::PoolFull, effect: Effect::None }) if waits < 6_000 => {
                waits += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(OpError { cause: Cause::Fenced, effect: Effect::None }) if !node.is_fenced() => {
                block_on(fabric, lane, index.settle(lane)).unwrap();
            }
            Err(error) => panic!("{kind:?} of key {key}: {error}"),
        }
    }
}

/// The second process, killed with this value.
struct Partner {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Partner {
    fn start(role: &str, daemons: &[&Daemon]) -> Self {
        let sockets: Vec<_> = daemons.iter().map(|daemon| daemon.socket.display().to_string()).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "partner", "--nocapture"]).env(ROLE, format!("{role} {}", sockets.join(",")));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The words of the next line that begins, or goes on, with `first`.
    fn line(&mut self, first: &str) -> Vec<u64> {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended before it said {first}");
            if let Some((_, rest)) = line.split_once(first) {
                return rest.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and waits until none of its threads runs: a signal takes a while to arrive.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let process = Process::new(self.child.id().cast_signed()).unwrap();
        while !process.tasks().unwrap().all(|task| task.unwrap().stat().is_ok_and(|stat| stat.state == 'T')) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ended_by(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.signal();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 8, inner_span: 8 };
