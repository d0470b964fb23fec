//! Pools and indexes: `dm create`, `dm inspect`, `dm shell`.

use crate::{Nodes, SMALL, command, dm, dm_fed};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn what_is_not_a_memory_node_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let inspect = |path: &Path| dm(&format!("inspect --pool {}", path.display()));
    inspect(&path("missing")).bad(1, &["missing", "no memory node listens"]);
    fs::write(path("file"), "text").unwrap();
    inspect(&path("file")).bad(1, &["file", "no memory node listens"]);
    let listener = UnixListener::bind(path("web")).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&b"HTTP/1.1 400 Bad Request\r\n".repeat(8));
        let _ = stream.read(&mut [0; 64]);
    });
    inspect(&path("web")).bad(1, &["web", "does not speak"]);
    server.join().unwrap();
    let region = "bench --workload c --records 1000 --region-mib 1";
    dm(region).bad(1, &["memory node 0 did not start", "1048576 bytes"]);
    dm("bench --workload c --records 1000 --json /no/such/file").bad(1, &["/no/such/file"]);
    dm("bench --workload c --records 1000 --trace /no/such/file").bad(1, &["/no/such/file"]);
}

#[test]
fn half_a_pool_and_another_format_are_refused() {
    let nodes = Nodes::start(2, "8MiB");
    dm(&format!("inspect --pool {}", nodes.socket(0).display())).bad(1, &["pool of 2"]);
    // A region that a later release has formatted: the version is the first word after the magic.
    let file = nodes.file("region");
    let socket = nodes.file("other");
    let mut daemon =
        command(&format!("memd --size 4MiB --file {file} --exit-with-parent --log-level warn --socket {socket}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let region = fs::OpenOptions::new().write(true).open(&file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&region, &7_u32.to_le_bytes(), 8).unwrap();
    dm(&format!("inspect --pool {socket}")).bad(1, &["other", "version 7"]);
    dm(&format!("bench --workload c --pool {socket}")).bad(1, &["other", "version 7"]);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn an_index_gets_another_name() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name users --key-bytes 8 --value-bytes 8")).good();
    dm(&format!("create {pool} --name orders --key-bytes 8 --value-bytes 8")).good();
    dm(&format!("rename {pool} --name users --to orders")).bad(1, &["an index of that name exists"]);
    dm(&format!("rename {pool} --name nobody --to people")).bad(1, &["no index \"nobody\"", "users"]);
    let long = "x".repeat(48);
    dm(&format!("rename {pool} --name users --to {long}")).bad(1, &["cannot be called", "1 to 47 bytes"]);
    dm(&format!("rename {pool} --name users --to people")).good();
    dm(&format!("drop {pool} --name users")).bad(1, &["no index \"users\"", "people"]);
    dm(&format!("drop {pool} --name people")).good();
}

/// A shell has the index open. Its row is named, and a command that waits goes on when it is closed.
#[test]
fn an_open_index_is_dropped_when_it_is_closed() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name users")).good();
    let open = || {
        let arguments = format!("shell {pool} --index users");
        let mut shell = command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // An answer: so the index is open.
        shell.stdin.as_mut().unwrap().write_all(b"put a b\n").unwrap();
        let mut answer = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        shell
    };
    let mut shell = open();
    for change in ["drop", "truncate"] {
        dm(&format!("{change} {pool} --name users")).bad(1, &["\"users\" is in use", "row ", "log of a memory node"]);
        dm(&format!("{change} {pool} --name users --wait 1")).bad(1, &["\"users\" is in use"]);
    }
    for change in ["truncate", "drop"] {
        let waiting =
            command(&format!("{change} {pool} --name users --wait 600")).stdout(Stdio::piped()).spawn().unwrap();
        drop(shell.stdin.take());
        assert!(shell.wait().unwrap().success());
        let waited = waiting.wait_with_output().unwrap();
        assert!(waited.status.success(), "{waited:?}");
        if change == "truncate" {
            shell = open();
        }
    }
    dm(&format!("drop {pool} --name users")).bad(1, &["no index \"users\""]);
}

#[test]
fn an_index_of_other_sizes_or_name_is_told() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name bench --key-bytes 16 --value-bytes 16")).good();
    dm(&format!("create {pool} --name bench")).bad(1, &["\"bench\"", "exists"]);
    dm(&format!("{SMALL} --workload c {pool}")).bad(1, &["\"bench\"", "16 and values of 16", "--name"]);
    dm(&format!("shell {pool} --index other")).bad(1, &["no index \"other\"", "bench"]);
    dm(&format!("create {pool} --name hops --index chime --neighborhood 16")).good();
    dm(&format!("{SMALL} --index chime --neighborhood 4 --workload c {pool} --name hops"))
        .bad(1, &["\"hops\"", "neighborhoods of 16", "asked for", "neighborhoods of 4", "--name"]);
    dm(&format!("{SMALL} --workload c {pool} --name mine")).good();
    dm(&format!("{SMALL} --workload load {pool} --name mine")).bad(1, &["holds 20000 records", "--name"]);
    let ended = dm(&format!("{SMALL} --workload c {pool} --name mine --without on-chip"));
    ended.bad(2, &["--without on-chip", "--device-size 0"]);
    // An index that does not fit is taken back, with its memory.
    dm(&format!("bench --workload c --records 2000000 {pool} --name big")).bad(1, &["the pool is full"]);
    dm(&format!("shell {pool} --index big")).bad(1, &["no index \"big\""]);
    dm(&format!("{SMALL} --workload load {pool} --name another")).good();
}

#[test]
fn a_pool_can_be_inspected() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload a {pool}")).good();
    let out = dm(&format!("inspect {pool} --json")).good();
    let view: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(view["memory_nodes"].as_array().unwrap().len(), 2);
    assert_eq!(view["indexes"][0]["name"], "bench");
    assert_eq!(view["indexes"][0]["tree"]["records"], 20_000);
    assert_eq!(view["rows"][0]["state"], "free", "the bench has left, and looking takes no row");
    assert_eq!(view["locks"].as_array().unwrap().len(), 0);
    let granted: u64 =
        view["memory_nodes"].as_array().unwrap().iter().map(|node| node["chunks_granted"].as_u64().unwrap()).sum();
    assert_eq!(view["indexes"][0]["granted_bytes"].as_u64().unwrap(), granted << 20);
}

#[test]
fn a_memory_node_is_drained_while_others_have_room() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    let drain = |options: &str| dm(&format!("pool drain {pool} --node {options}"));
    drain("2").bad(1, &["no memory node 2", "numbered from 0 on"]);
    let out = drain("1").good();
    assert!(out.contains("memory node 1: ") && out.contains("index \"bench\": ") && out.contains(" leaf"), "{out}");
    let counts = |node: usize| {
        let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --no-walk --json")).good()).unwrap();
        ["free", "granted", "withheld"]
            .map(|state| view["memory_nodes"][node][format!("chunks_{state}")].as_u64().unwrap())
    };
    let [free, granted, withheld] = counts(1);
    assert_eq!(free, 0);
    assert!(granted > 0 && withheld > 0);
    // Another index finds its memory on memory node 0.
    dm(&format!("{SMALL} --workload load {pool} --name another")).good();
    assert_eq!(counts(1), [0, granted, withheld]);
    // What the index had is zeroed, and is not granted either.
    dm(&format!("drop {pool} --name bench")).good();
    dm(&format!("check {pool}")).good();
    let out = drain("1").good();
    assert!(out.ends_with("nothing is left on it\n"), "{out}");
    assert_eq!(counts(1), [0, 0, granted + withheld]);
    assert!(drain("1 --undo").good().contains(&format!("{} chunks may be granted again", granted + withheld)));
    assert_eq!(counts(1), [granted + withheld, 0, 0]);
}

/// A shell has the index open, and some of its ranges, while its nodes leave a memory node.
#[test]
fn nodes_of_an_index_with_owners_leave_a_memory_node_that_is_drained() {
    let nodes = Nodes::start(2, "32MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --index dex --workload load {pool} --name users")).good();
    let arguments = format!("shell {pool} --index users");
    let mut shell = command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = shell.stdin.take().unwrap();
    writeln!(asked, "put a bcd").unwrap();
    // From then on the range may be taken from it; before, the drain might have it already, and the put would be refused.
    let mut out = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "inserted\n");
    let drain = |options: &str| dm(&format!("pool drain {pool} --node {options}"));
    let moved = |out: &str| -> u64 {
        let line = out.lines().find(|line| line.starts_with("index \"users\": ")).unwrap_or_else(|| panic!("{out}"));
        line.split(' ').nth(2).unwrap().replace(',', "").parse().unwrap()
    };
    let is_drained = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_drained = &is_drained;
        scope.spawn(move || {
            // The shell gives up what is asked for with each command. Meanwhile it may not have the key.
            while !is_drained.load(Ordering::Relaxed) {
                writeln!(asked, "get a").unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            writeln!(asked, "get a").unwrap();
        });
        let ended = [drain("1"), drain("1")];
        is_drained.store(true, Ordering::Relaxed);
        let [out, again] = ended.map(crate::Ended::good);
        assert!(moved(&out) > 100 && out.contains(", without a node in use\n"), "{out}");
        assert_eq!(moved(&again), 0);
    });
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    shell.wait().unwrap();
    assert!(said.lines().next_back().is_some_and(|line| line.contains("bcd")), "the range has come back: {said}");
    dm(&format!("check {pool}")).good();
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --json")).good()).unwrap();
    let tree = &view["indexes"][0]["tree"];
    assert!(tree["records"].as_u64().unwrap() >= 20_000, "{tree}");
    assert_eq!(tree["moved_links"], 0, "{tree}");
    assert!(drain("1 --undo").good().contains("may be granted again"));
}

#[test]
fn a_memory_node_is_added_to_a_pool_that_has_records() {
    let mut nodes = Nodes::start(1, "16MiB");
    let old = nodes.pool();
    dm(&format!("{SMALL} --workload load {old}")).good();
    nodes.start_next(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("inspect {pool}")).bad(1, &["the pool has 1 memory node, and 2 were named", "dm pool add"]);
    let add = format!("pool add {old} --new {}", nodes.socket(1).display());
    let out = dm(&add).good();
    assert!(
        out.contains("memory node 1 is added\n") && out.contains("memory node 1: 15 chunks may be granted\n"),
        "{out}"
    );
    let out = dm(&add).good();
    assert!(out.contains("memory node 1 was added before\n") && out.contains("0 chunks may be granted\n"), "{out}");
    dm(&format!("inspect {old}")).bad(1, &["the pool has 2 memory nodes, and 1 was named", "name all of them"]);
    dm(&format!("{SMALL} --workload load {pool} --name another")).good();
    dm(&format!("check {pool}")).good();
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --json")).good()).unwrap();
    assert!(view["memory_nodes"][1]["chunks_granted"].as_u64().unwrap() > 0);
    assert_eq!(view["indexes"][0]["tree"]["records"], 20_000);
    let whole = Nodes::start(2, "16MiB");
    let add = format!("pool add --pool {} --new {}", whole.socket(0).display(), whole.socket(1).display());
    dm(&add).bad(2, &["since it was made"]);
}

#[test]
fn the_shell_does_what_it_is_told_line_by_line() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name names --key-bytes 32 --value-bytes 16")).good();
    let shell = format!("shell {pool} --index names");
    let input = "put ada lovelace\nget ada\nput \"bob b\" \"x y\"\nput u64:5 u64:77\nscan\nscan b 1\nget nobody\n\
                 insert ada x\nupdate ada king\ndelete ada\nget ada\n# a comment\n\nquit\nget never\n";
    let out = dm_fed(&shell, input.as_bytes()).good();
    let expected = "inserted\nlovelace\ninserted\ninserted\nu64:5 u64:77\nada lovelace\n\"bob b\" \"x y\"\n\
                    \"bob b\" \"x y\"\nabsent\nexists: lovelace\nupdated\ndeleted\nabsent\n";
    assert_eq!(out, expected);
    let ended = dm_fed(&shell, b"get\nfrob\nput a 12345678901234567\nput a b\nscan a b\n");
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.out, "inserted\n");
    for line in ["line 1: get wants", "line 2: unknown command", "line 3: value of 17 bytes", "line 5: COUNT"] {
        assert!(ended.err.contains(line), "{}", ended.err);
    }
    assert!(ended.err.contains("dm: 4 of 5 lines failed"), "{}", ended.err);
}

#[test]
fn inspect_says_how_large_blocks_of_items_are() {
    let nodes = Nodes::start(1, "32MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name texts --any-length")).good();
    let text = "x".repeat(100);
    dm_fed(&format!("shell {pool} --index texts"), format!("put a {text}\nput b {text}\n").as_bytes()).good();
    let out = dm(&format!("inspect {pool}")).good();
    let line = out.lines().find(|line| line.contains("chunks for blocks: ")).unwrap_or_else(|| panic!("{out}"));
    let mean = line.split(" live (").nth(1).and_then(|rest| rest.split(" B a record)").next()).expect(line);
    assert!((101.0..160.0).contains(&mean.parse::<f64>().expect(line)), "{line}");
}

/// Records in entries, in blocks, and below a link: keys that begin alike.
#[test]
fn inspect_says_how_long_keys_and_values_of_any_length_are() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    let long = "/usr/share/doc/".repeat(3);
    let lines = [
        "put a b".to_owned(),
        format!("put {long}1 {}", "x".repeat(100)),
        format!("put {long}2 {}", "x".repeat(201)),
        "put abcdefgh v".to_owned(),
    ];
    for kind in ["sherman", "chime", "smart", "dolphin"] {
        dm(&format!("create {pool} --name {kind} --index {kind} --any-length")).good();
        dm(&format!("create {pool} --name empty-{kind} --index {kind} --any-length")).good();
        dm_fed(&format!("shell {pool} --index {kind}"), (lines.join("\n") + "\n").as_bytes()).good();
    }
    dm(&format!("create {pool} --name sized")).good();
    let out = dm(&format!("inspect {pool}")).good();
    // (1 + 46 + 46 + 8) / 4 and (1 + 100 + 201 + 1) / 4.
    assert_eq!(out.matches("  a key has 25.2 B on the average, a value 75.8 B\n").count(), 4, "{out}");
    assert_eq!(out.matches("on the average").count(), 4, "{out}");
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --json")).good()).unwrap();
    for index in view["indexes"].as_array().unwrap() {
        let name = index["name"].as_str().unwrap();
        let has_items = !name.starts_with("empty") && name != "sized";
        assert_eq!(index["key_mean_bytes"].as_f64(), has_items.then_some(25.25), "{name}");
        assert_eq!(index["value_mean_bytes"].as_f64(), has_items.then_some(75.75), "{name}");
    }
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --no-walk --json")).good()).unwrap();
    assert!(view["indexes"][0]["key_mean_bytes"].is_null());
}
