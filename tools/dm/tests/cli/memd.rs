//! The daemon's log, and what it refuses.

use crate::{Nodes, SMALL, command, dm};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A daemon whose log is a file, of which `prepare` may change the environment.
fn logged(directory: &Path, options: &str, prepare: impl FnOnce(&mut Command, &fs::File)) -> Child {
    let log = fs::File::create(directory.join("log")).unwrap();
    let socket = directory.join("0");
    let mut daemon = command(&format!(
        "memd --size 16MiB --lines sequence --exit-with-parent {options} --socket {}",
        socket.display()
    ));
    daemon.env_remove("RUST_LOG").env_remove("JOURNAL_STREAM").stdout(Stdio::piped());
    prepare(&mut daemon, &log);
    let mut daemon = daemon.stderr(log).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("READY"), "{ready:?}");
    daemon
}

/// Ends the daemon and returns its log, line by line.
fn ended(mut daemon: Child, directory: &Path) -> Vec<String> {
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    fs::read_to_string(directory.join("log")).unwrap().lines().map(str::to_owned).collect()
}

/// A shell that has joined the pool: it has answered its first line, and waits for the next.
fn joined(socket: &str) -> (Child, ChildStdin) {
    let mut shell = command(&format!("shell --pool {socket} --index it --lease-ms 100"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"get u64:1\n").unwrap();
    let mut answer = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "absent\n");
    (shell, input)
}

#[test]
fn the_log_has_a_line_for_each_join_leave_death_refusal_and_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = logged(directory.path(), "--no-sweep", |_, _| {});
    let socket = directory.path().join("0").display().to_string();
    dm(&format!("create --pool {socket} --name it")).good();
    // Killed, it leaves nothing behind but its row.
    let (mut shell, _input) = joined(&socket);
    let pid = format!(" pid={}", shell.id());
    shell.kill().unwrap();
    shell.wait().unwrap();
    // Its death is known before anything that this asks for later; a greeting of another protocol is refused.
    dm(&format!("inspect --pool {socket} --watch-ms 0 --no-walk")).good();
    let mut web = UnixStream::connect(&socket).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = web.read_to_end(&mut Vec::new());
    let log = ended(daemon, directory.path());
    let expected = [
        " INFO serving node=0 nodes=1 incarnation=1 socket=",
        " INFO a compute node joined row=1 incarnation=1 ",
        " INFO a compute node left row=1 incarnation=1 ",
        " INFO a compute node joined row=1 incarnation=2 ",
        " WARN a compute node died: its process ",
        " WARN refused a client: it does not speak the protocol",
        " INFO stopping: told to by a signal",
    ];
    assert_eq!(log.len(), expected.len(), "{log:#?}");
    for (line, part) in log.iter().zip(expected) {
        assert!(part != expected[4] || line.contains(" row=1 incarnation=2 "), "{line:?}");
        let is_of_shell = part == expected[3] || part == expected[4];
        assert!(!is_of_shell || line.contains(&pid), "{line:?} does not name the process{pid}");
        assert!(line.contains(part) && line.starts_with("20"), "{line:?} is not at a time, or lacks {part:?}");
    }
}

#[test]
fn the_log_is_as_long_as_asked_and_has_no_times_for_journald() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    assert!(ended(logged(at, "--log-level warn", |_, _| {}), at).is_empty());
    let asked = |filter: &'static str| {
        move |daemon: &mut Command, _: &fs::File| {
            daemon.env("RUST_LOG", filter);
        }
    };
    assert!(ended(logged(at, "", asked("warn")), at).is_empty(), "RUST_LOG counts");
    assert_eq!(ended(logged(at, "--log-level info", asked("off")), at).len(), 2, "the option counts more");
    let journal = |daemon: &mut Command, log: &fs::File| {
        let stream = log.metadata().unwrap();
        daemon.env("JOURNAL_STREAM", format!("{}:{}", stream.dev(), stream.ino()));
    };
    let log = ended(logged(at, "", journal), at);
    assert!(log.len() == 2 && log[0].starts_with("<6> INFO serving"), "with its priority: {log:?}");
    let other = |daemon: &mut Command, _: &fs::File| {
        daemon.env("JOURNAL_STREAM", "1:1");
    };
    let log = ended(logged(at, "", other), at);
    assert!(log.len() == 2 && log[0].starts_with("20"), "not the stream that is meant: {log:?}");
}

#[test]
fn a_memory_node_is_named_once_and_names_are_checked() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    let socket = nodes.socket(0).display().to_string();
    let twice = dm(&format!("inspect {pool},{socket}"));
    twice.bad(1, &["memory node 0 is named twice", &socket, "once"]);
    let half = Nodes::start(2, "8MiB");
    let one = half.socket(0).display().to_string();
    dm(&format!("inspect --pool {one}")).bad(1, &["1 memory node is connected", "a pool of 2"]);
    for name in ["x".repeat(48), "a\u{7}b".to_owned()] {
        dm(&format!("create {pool} --name {name}")).bad(1, &["1 to 47 bytes and no control characters"]);
        dm(&format!("shell {pool} --index {name}")).bad(1, &["1 to 47 bytes and no control characters"]);
    }
    let empty = command(&format!("create {pool}")).args(["--name", ""]).output().unwrap();
    crate::Ended::from(empty).bad(1, &["index \"\"", "1 to 47 bytes"]);
    for (name, bytes) in [("", "has 0"), ("seventeen-letters", "has 17")] {
        let refused = command("memd --size 1MiB --socket x").args(["--pool-name", name]).output().unwrap();
        crate::Ended::from(refused).bad(2, &["1 to 16 bytes", bytes]);
    }
}

#[test]
fn ycsbs_length_of_values_is_honoured_or_noted() {
    let run = |more: &str| dm(&format!("{SMALL} --workload c -p recordcount=1000 {more}"));
    let ended = run("");
    assert!(ended.err.contains("note: values of 8 bytes; YCSB's default is 10 fields of 100 bytes"), "{}", ended.err);
    ended.good();
    let ended = run("-p fieldcount=10");
    assert!(!ended.err.contains("YCSB's default") && ended.out.contains("8+1000 B"), "{}{}", ended.out, ended.err);
    assert!(!run("--value-bytes 16").err.contains("YCSB's default"));
}

#[test]
fn fencing_is_told_once_and_then_the_death() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = logged(directory.path(), "--log-level warn --no-sweep", |_, _| {});
    let socket = directory.path().join("0").display().to_string();
    dm(&format!("create --pool {socket} --name it")).good();
    let (mut shell, _input) = joined(&socket);
    // Stopped, it has no heartbeat any more, however long this takes.
    kill_process(Pid::from_child(&shell), Signal::STOP).unwrap();
    let out = dm(&format!("repair --pool {socket} --lease-ms 100")).good();
    assert!(out.starts_with("1 unresponsive compute node fenced, 1 row freed"), "{out}");
    shell.wait().unwrap();
    let log = ended(daemon, directory.path());
    let [fencing, death] = &log[..] else { panic!("{log:#?}") };
    assert!(fencing.contains(" WARN fencing a compute node: its process is ended row=1 incarnation=2 "), "{fencing}");
    assert!(death.contains(" WARN a compute node died: its process ") && death.contains(" incarnation=2 "), "{death}");
}
