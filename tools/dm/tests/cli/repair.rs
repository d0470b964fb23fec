//! Compute nodes that die: `dm repair` and `dm soak`.

use crate::{Nodes, command, dm};
use dm_core::registry::KINDS;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A shell that has joined the pool and waits for its next line.
fn shell(pool: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    shell_on(pool, "bench")
}

/// The same, on an index of that name.
pub(crate) fn shell_on(pool: &str, index: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut shell = command(&format!("shell {pool} --index {index} --lease-ms 800"));
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(shell.stdout.take().unwrap());
    shell.stdin.as_mut().unwrap().write_all(b"put ada lovelac\n").unwrap();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line == "inserted\n" || line == "replaced\n", "{line}");
    (shell, out)
}

#[test]
fn dead_compute_nodes_are_shown_and_repaired_and_live_ones_left_alone() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name bench --key-bytes 8 --value-bytes 8")).good();
    let (mut dead, _) = shell(&pool);
    let (mut live, mut out) = shell(&pool);
    dead.kill().unwrap();
    dead.wait().unwrap();
    let look = || -> Value {
        let out = dm(&format!("inspect {pool} --lease-ms 800 --no-walk --watch-ms 500 --json")).good();
        serde_json::from_str::<Value>(&out).unwrap()["rows"].take()
    };
    let rows = look();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"live".into(), &"live".into()), "{rows}");
    assert!(rows[0]["unresponsive_ms"].as_u64().unwrap() >= 450, "{rows}");
    assert_eq!(rows[1]["unresponsive_ms"], 0, "{rows}");
    let text = dm(&format!("inspect {pool} --lease-ms 800 --no-walk")).good();
    assert!(text.contains("UNRESPONSIVE for at least") && text.contains("beats"), "{text}");
    let repaired: Value = serde_json::from_str(&dm(&format!("repair {pool} --lease-ms 800 --json")).good()).unwrap();
    assert_eq!((&repaired["rows_fenced"], &repaired["rows_freed"]), (&1.into(), &1.into()), "{repaired}");
    let rows = look();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"free".into(), &"live".into()), "{rows}");
    // Nothing is left to do, and the one that was at work all the time is.
    assert!(
        dm(&format!("repair {pool} --lease-ms 800")).good().starts_with("0 unresponsive compute nodes fenced, 0 rows")
    );
    live.stdin.as_mut().unwrap().write_all(b"get ada\n").unwrap();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "lovelac\n");
    drop(live.stdin.take());
    assert!(live.wait().unwrap().success());
    // Locks lie in leaves, and the dead shell had one of several indexes open: its row is swept through that index.
    for index in ["one", "other"] {
        dm(&format!("create {pool} --name {index} --index chime")).good();
    }
    let (mut dead, _) = shell_on(&pool, "other");
    dead.kill().unwrap();
    dead.wait().unwrap();
    let repaired: Value = serde_json::from_str(&dm(&format!("repair {pool} --lease-ms 800 --json")).good()).unwrap();
    assert_eq!((&repaired["rows_freed"], &repaired["rows_kept"]), (&1.into(), &0.into()), "{repaired}");
    // A pool without an index has rows, too.
    let empty = Nodes::start(1, "8MiB");
    assert!(dm(&format!("repair {} --lease-ms 100", empty.pool())).good().starts_with("0 unresponsive"));
}

#[test]
fn processes_are_killed_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("soak.json");
    for kind in KINDS {
        let kind = kind.name();
        let options = format!("--index {kind} --seconds 6 --lease-ms 400 --writers 3 --keys 60 --seed 1");
        let text = dm(&format!("soak {options} --json {}", json.display())).good();
        assert!(text.starts_with(&format!("seed 1: 3 writers of an index of kind {kind}")), "{text}");
        let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let verdict = &report["verdict"];
        assert_eq!((&verdict["keys"], &verdict["sound"]), (&180.into(), &true.into()), "{report}");
        assert!(verdict["acknowledged"].as_u64().unwrap() > 0 && report["events"]["killed"].as_u64().unwrap() > 0);
    }
}

/// A pool whose daemons run with these options, by number.
struct Daemons(Vec<Child>);

impl Daemons {
    fn start(directory: &Path, options: &[String]) -> (Self, String) {
        let socket = |node: usize| directory.join(node.to_string()).display().to_string();
        let mut started = Self(Vec::new());
        for (node, more) in options.iter().enumerate() {
            let log = fs::File::create(directory.join(format!("log{node}"))).unwrap();
            let line = format!(
                "memd --size 16MiB --lines sequence --exit-with-parent --memory-nodes {} --node-id {node} --socket {} {more}",
                options.len(),
                socket(node)
            );
            let mut daemon = command(&line).env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(log).spawn().unwrap();
            let mut ready = String::new();
            BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
            started.0.push(daemon);
            assert!(ready.starts_with("READY"), "{ready:?}");
        }
        let sockets: Vec<_> = (0..options.len()).map(socket).collect();
        (started, format!("--pool {}", sockets.join(",")))
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in &mut self.0 {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// The states of the rows that are not free.
fn taken(pool: &str) -> Vec<String> {
    let out = dm(&format!("inspect {pool} --no-walk --watch-ms 0 --json")).good();
    let rows = serde_json::from_str::<Value>(&out).unwrap()["rows"].take();
    let states = rows.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap().to_owned());
    states.filter(|state| state != "free").collect()
}

/// Waits until every row is free.
fn await_sweeps(pool: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !taken(pool).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", taken(pool));
    }
}

fn crash(pool: &str) {
    let (mut shell, _) = shell(pool);
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn a_crash_loop_does_not_take_all_rows() {
    let directory = tempfile::tempdir().unwrap();
    let peers = format!("--peers {}", directory.path().join("1").display());
    let (_daemons, pool) = Daemons::start(directory.path(), &[peers, String::new()]);
    dm(&format!("create {pool} --name bench --key-bytes 8 --value-bytes 8")).good();
    // More than there are rows.
    for crashes in 1..=130 {
        crash(&pool);
        // No more than the pool has rows, however slowly this machine sweeps.
        if crashes % 26 == 0 {
            await_sweeps(&pool);
        }
    }
    let log = fs::read_to_string(directory.path().join("log0")).unwrap();
    assert!(log.contains(" INFO swept dead compute nodes rows_freed=") && !log.contains("once more"), "{log}");
    // One that lives is left alone while others are swept.
    let (mut live, mut out) = shell(&pool);
    crash(&pool);
    let deadline = Instant::now() + Duration::from_mins(1);
    while taken(&pool).len() > 1 {
        assert!(Instant::now() < deadline, "{:?}", taken(&pool));
    }
    live.stdin.as_mut().unwrap().write_all(b"get ada\n").unwrap();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "lovelac\n");
    drop(live.stdin.take());
    assert!(live.wait().unwrap().success());
    assert!(dm(&format!("check {pool}")).good().contains("bench"));
}

#[test]
fn rows_wait_where_the_daemon_may_not_or_cannot_sweep() {
    let may_not = tempfile::tempdir().unwrap();
    let (_daemons, pool) = Daemons::start(may_not.path(), &["--no-sweep".to_owned()]);
    dm(&format!("create {pool} --name bench --key-bytes 8 --value-bytes 8")).good();
    crash(&pool);
    crash(&pool);
    // A sweep after the first death would have freed its row for the second.
    assert_eq!(taken(&pool), ["live", "live"]);
    let cannot = tempfile::tempdir().unwrap();
    let (daemons, _) = Daemons::start(cannot.path(), &[String::new(), String::new()]);
    drop(daemons);
    let log = |node: usize| fs::read_to_string(cannot.path().join(format!("log{node}"))).unwrap();
    assert!(
        log(0).contains("--peers would have to name the sockets of the pool's other memory nodes, 1 of them"),
        "{}",
        log(0)
    );
    assert!(!log(1).contains("--peers"), "rows are not its task: {}", log(1));
}
