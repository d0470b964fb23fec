//! Several processes on one memory node: daemons that live, die, and get wrong messages.

use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request, Status};
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::memory_node::wire::{Answer, HELLO_BYTES, Hello, VERSION, WELCOME_BYTES, Welcome, refusal};
use dm_host::memory_node::{ConnectError, RemoteNode, connect};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const N0: NodeId = NodeId(0);

/// The part of the heap that these tests use, and no index of theirs.
const BASE: u64 = 3 << 20;

/// A daemon of this test, killed with it.
struct Daemon {
    child: Child,
    ready: String,
    socket: PathBuf,
}

fn command(socket: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dm-memd"));
    command.args(["--size", "4MiB", "--exit-with-parent", "--socket"]).arg(socket).args(more);
    command
}

impl Daemon {
    fn start(socket: &Path, more: &[&str]) -> Self {
        Self::run(command(socket, more), socket)
    }

    fn run(mut command: Command, socket: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("READY "), "{ready:?}");
        Self { child, ready, socket: socket.to_owned() }
    }

    fn connect(&self) -> Arc<RemoteNode> {
        connect(&self.socket).unwrap()
    }

    fn terminate(mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a daemon that cannot start says: one line, and it fails.
fn complaint(mut command: Command) -> String {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn fabric(node: &Arc<RemoteNode>) -> ShmFabric {
    ShmFabric::new(vec![Arc::clone(node)], ShmOptions::default()).unwrap()
}

fn post(fabric: &mut ShmFabric, scratch: &mut [u8], requests: &[Request]) -> Vec<Completion> {
    let lanes = [Lane::new(LaneId(0), scratch)];
    let port = lanes[0].port();
    for request in requests {
        port.push(*request);
    }
    port.flush();
    fabric.post(&lanes, 0);
    let completions = (0..requests.len()).map(|position| port.completion(position)).collect();
    port.reset();
    completions
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !check() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_daemon_says_what_it_serves_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memd");
    let daemon = Daemon::start(&socket, &["--node-id", "1", "--memory-nodes", "3", "--lines", "sequence"]);
    for word in ["node=1 nodes=3 region_bytes=4194304 device_bytes=262144", "lines=line-sequence-words", "page"] {
        assert!(daemon.ready.contains(word), "{}", daemon.ready);
    }
    let node = daemon.connect();
    assert_eq!((node.node_id(), node.memory_nodes()), (NodeId(1), 3));
    assert!(ShmFabric::new(vec![node], ShmOptions::default()).err().unwrap().to_string().contains("in order"));
    assert!(daemon.terminate().success());
    assert!(!socket.exists());
}

#[test]
fn what_one_client_writes_another_reads() {
    let directory = tempfile::tempdir().unwrap();
    for lines in ["auto", "sequence"] {
        let daemon = Daemon::start(&directory.path().join("memd"), &["--lines", lines]);
        let (first, second) = (daemon.connect(), daemon.connect());
        let mut scratch = *b"written by one, read by the other";
        let bytes = scratch.len();
        post(&mut fabric(&first), &mut scratch, &[Request::write(Label::Tool, N0, BASE + 1000, bytes, 0)]);
        let mut read = [0; 33];
        post(&mut fabric(&second), &mut read, &[Request::read(Label::Tool, N0, BASE + 1000, bytes, 0)]);
        assert_eq!(read, scratch);
    }
}

/// Names the socket of the daemon to the second process of `two_processes_...`.
const PARTNER: &str = "DM_TEST_PARTNER_OF";

/// Takes the lock at 0 and adds one to each of 16 words over 2 lines, `turns` times.
fn hammer(node: &Arc<RemoteNode>, holder: u64, turns: u64) {
    let mut fabric = fabric(node);
    let mut scratch = [0; 128];
    let mut turn = 0;
    while turn < turns {
        let lock = post(&mut fabric, &mut scratch, &[Request::cas(Label::Lock, N0, BASE, 0, holder)]);
        assert_eq!(lock[0].status, Status::Ok);
        if lock[0].value != 0 {
            std::thread::yield_now();
            continue;
        }
        post(&mut fabric, &mut scratch, &[Request::read(Label::Leaf, N0, BASE + 64, 128, 0)]);
        let words: Vec<u64> = scratch.as_chunks().0.iter().map(|word: &[u8; 8]| u64::from_le_bytes(*word)).collect();
        assert!(words.iter().all(|word| *word == words[0]), "not excluded: {words:?}");
        scratch.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&(words[0] + 1).to_le_bytes()));
        let unlock = Request::cas(Label::Unlock, N0, BASE, holder, 0);
        let done = post(&mut fabric, &mut scratch, &[Request::write(Label::Leaf, N0, BASE + 64, 128, 0), unlock]);
        assert_eq!(done[1].value, holder);
        turn += 1;
    }
}

/// The second process: this test binary again, told by its environment. Without it there is nothing to do.
#[test]
fn partner() {
    let Ok(socket) = std::env::var(PARTNER) else { return };
    hammer(&connect(Path::new(&socket)).unwrap(), 2, 5_000);
}

fn start_partner(socket: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "partner"]).env(PARTNER, socket).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn two_processes_exclude_each_other_by_a_lock_word() {
    let directory = tempfile::tempdir().unwrap();
    for lines in ["auto", "sequence"] {
        let daemon = Daemon::start(&directory.path().join("memd"), &["--lines", lines]);
        let node = daemon.connect();
        let mut partner = start_partner(&daemon.socket);
        hammer(&node, 1, 5_000);
        assert!(partner.wait().unwrap().success());
        let mut scratch = [0; 8];
        post(&mut fabric(&node), &mut scratch, &[Request::read(Label::Leaf, N0, BASE + 120, 8, 0)]);
        assert_eq!(u64::from_le_bytes(scratch), 10_000, "lines {lines}");
    }
}

#[test]
fn killed_clients_leave_no_line_locked() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &["--lines", "sequence"]);
    let node = daemon.connect();
    let mut fabric = fabric(&node);
    let mut scratch = [0; 128];
    for round in 0..20 {
        let mut partner = start_partner(&daemon.socket);
        eventually("the partner writes", || {
            let before = scratch[0];
            post(&mut fabric, &mut scratch, &[Request::read(Label::Leaf, N0, BASE + 64, 128, 0)]);
            scratch[0] != before || partner.try_wait().unwrap().is_some()
        });
        partner.kill().unwrap();
        partner.wait().unwrap();
        let read =
            [Request::read(Label::Leaf, N0, BASE + 64, 128, 0), Request::write(Label::Leaf, N0, BASE + 64, 128, 0)];
        let done = post(&mut fabric, &mut scratch, &read);
        assert_eq!([done[0].status, done[1].status], [Status::Ok; 2], "round {round}");
        // Indexes recover the lock word of a dead process by its lease; here the test frees it.
        scratch.fill(0);
        post(
            &mut fabric,
            &mut scratch,
            &[Request::write(Label::Leaf, N0, BASE, 128, 0), Request::write(Label::Leaf, N0, BASE + 64, 128, 0)],
        );
    }
}

#[test]
fn a_killed_daemon_is_a_memory_node_down() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let node = daemon.connect();
    let mut fabric = fabric(&node);
    let add = [Request::fetch_add(Label::Tool, N0, BASE + 64, 1)];
    assert_eq!(post(&mut fabric, &mut [], &add)[0].status, Status::Ok);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    eventually("the node is seen down", || node.is_down());
    assert_eq!(post(&mut fabric, &mut [], &add)[0].status, Status::NodeDown);
    // Its socket file still exists; no process listens, and the next daemon replaces it.
    assert!(matches!(connect(&daemon.socket), Err(ConnectError::NotListening { .. })));
    let next = Daemon::start(&daemon.socket, &[]);
    let node = next.connect();
    assert_eq!(post(&mut self::fabric(&node), &mut [], &add)[0].value, 0, "a new region, not the old one");
}

#[test]
fn a_daemon_goes_with_its_parent_if_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memd");
    let daemon = command(&socket, &[]);
    let mut parent = Command::new("sh");
    parent.args(["-c", "\"$@\" & wait", "sh"]).arg(daemon.get_program()).args(daemon.get_args());
    let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let node = connect(&socket).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("the node is seen down", || node.is_down());
}

#[test]
fn an_orderly_end_is_seen_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let node = daemon.connect();
    assert!(daemon.terminate().success());
    eventually("the node is seen down", || node.is_down());
}

#[test]
fn a_daemon_bears_garbage_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let answer_to = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&daemon.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It may hang up before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    assert_eq!(answer_to(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"), b"");
    assert_eq!(answer_to(&[0xff; 5000]), b"");
    assert_eq!(answer_to(&Hello { version: VERSION + 1 }.encode()), refusal(Answer::Version));
    // A member that sends nonsense is disconnected.
    let mut talkative = Hello { version: VERSION }.encode().to_vec();
    talkative.extend([0; 100]);
    assert_eq!(answer_to(&talkative).len(), WELCOME_BYTES);
    // Neither half a hello nor silence blocks other clients.
    let mut half = UnixStream::connect(&daemon.socket).unwrap();
    half.write_all(&Hello { version: VERSION }.encode()[..HELLO_BYTES / 2]).unwrap();
    let silent = UnixStream::connect(&daemon.socket).unwrap();
    let node = daemon.connect();
    assert!(!node.is_down());
    drop((half, silent));
}

/// Each of them has a socket, and its process. The descriptors that a process may have by default are enough for them; so the
/// next client is told why it is refused.
#[test]
fn a_daemon_that_is_full_says_so_and_has_room_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memd");
    let daemon = command(&socket, &["--metrics", "127.0.0.1:0"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024 && exec \"$@\"", "sh"]).arg(daemon.get_program()).args(daemon.get_args());
    let daemon = Daemon::run(limited, &socket);
    let mut members: Vec<_> = (0..500)
        .map(|_| {
            let mut stream = UnixStream::connect(&daemon.socket).unwrap();
            stream.write_all(&Hello { version: VERSION }.encode()).unwrap();
            let mut welcome = [0; WELCOME_BYTES];
            stream.read_exact(&mut welcome).unwrap();
            assert!(Welcome::decode(&welcome).is_ok());
            stream
        })
        .collect();
    for _ in 0..3 {
        let refused = connect(&daemon.socket).unwrap_err().to_string();
        assert!(refused.contains("as many connections"), "{refused}");
    }
    members.pop();
    eventually("there is room for one", || connect(&daemon.socket).is_ok_and(|node| !node.is_down()));
}

#[test]
fn a_client_says_what_is_wrong_with_what_it_found() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("other");
    let error = |answer: Vec<u8>| {
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; HELLO_BYTES];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(&answer).unwrap();
        });
        let text = connect(&socket).unwrap_err().to_string();
        server.join().unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(error(b"hello yourself".to_vec()).contains("no answer"));
    assert!(error(vec![b'x'; 500]).contains("does not speak the dm-memd protocol"));
    assert!(error(refusal(Answer::Full).to_vec()).contains("as many connections"));
    let mut newer = refusal(Answer::Welcome);
    newer[8] = 9;
    assert!(error(newer.to_vec()).contains("speaks version 9"));
    assert!(error(refusal(Answer::Welcome).to_vec()).contains("layout is impossible"));
    assert!(connect(&directory.path().join("nobody")).unwrap_err().to_string().contains("start one with"));
}

#[test]
fn a_daemon_that_cannot_start_says_why_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memd");
    let file = directory.path().join("file");
    std::fs::write(&file, "something").unwrap();
    assert!(complaint(command(&file, &[])).contains("exists and is not a socket"));
    assert!(complaint(command(&socket, &["--file", file.to_str().unwrap()])).contains("is not zero"));
    assert!(complaint(command(&socket, &["--device-size", "63"])).contains("multiple of 64"));
    assert!(complaint(command(&socket, &["--node-id", "1"])).contains("memory node 1 of 1"));
    // What it fails on leaves the file as it was: empty, or not there.
    std::fs::write(&file, "").unwrap();
    for bytes in [Some(0), None] {
        let options = ["--node-id", "1", "--file", file.to_str().unwrap()];
        assert!(complaint(command(&socket, &options)).contains("memory node 1 of 1"));
        assert_eq!(std::fs::metadata(&file).ok().map(|file| file.len()), bytes);
        let _ = std::fs::remove_file(&file);
    }
    let daemon = Daemon::start(&socket, &[]);
    assert!(complaint(command(&socket, &[])).contains("in use by a running process"));
    assert!(!daemon.connect().is_down(), "the one that runs is not disturbed");
}
