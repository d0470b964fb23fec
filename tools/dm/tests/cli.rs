//! The command as its users meet it: good runs, and every kind of bad input, which gives one line, the right exit code,
//! and does no harm.

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    #[track_caller]
    fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }

    /// One line on the standard error, which begins with the program's name and contains `parts`.
    #[track_caller]
    fn bad(self, code: i32, parts: &[&str]) {
        let Self { err, out, .. } = &self;
        assert_eq!(self.code, Some(code), "{out}\n{err}");
        assert!(err.starts_with("dm: ") && err.trim_end().lines().count() == 1, "{err:?}");
        for part in parts {
            assert!(err.contains(part), "{err:?} does not contain {part:?}");
        }
    }
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dm"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

fn dm(arguments: &str) -> Ended {
    command(arguments).output().expect("the command runs").into()
}

fn dm_fed(arguments: &str, input: &[u8]) -> Ended {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the command ends").into()
}

/// Memory nodes of a test, which end with it.
struct Nodes {
    daemons: Vec<Child>,
    directory: TempDir,
}

impl Nodes {
    fn start(count: u16, size: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut nodes = Self { daemons: Vec::new(), directory };
        for node in 0..count {
            let socket = nodes.socket(node);
            let arguments = format!(
                "memd --size {size} --lines sequence --node-id {node} --memory-nodes {count} --exit-with-parent --socket {}",
                socket.display()
            );
            let mut daemon = command(&arguments).stdout(Stdio::piped()).spawn().expect("the daemon runs");
            let mut ready = String::new();
            BufReader::new(daemon.stdout.take().expect("a pipe")).read_line(&mut ready).expect("a line");
            assert!(ready.starts_with("READY"), "{ready:?}");
            nodes.daemons.push(daemon);
        }
        nodes
    }

    fn socket(&self, node: u16) -> PathBuf {
        self.directory.path().join(node.to_string())
    }

    fn pool(&self) -> String {
        let sockets: Vec<_> =
            (0..self.daemons.len()).map(|node| self.socket(node as u16).display().to_string()).collect();
        format!("--pool {}", sockets.join(","))
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

const SMALL: &str = "bench --records 20000 --operations 20000 --threads 2 --lanes 3";

#[test]
fn all_workloads_run_on_memory_nodes_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("all.json");
    let out = dm(&format!("{SMALL} --json {}", json.display())).good();
    for text in ["workloads load, a, b, c, d, e, f", "read_modify_write", "checked: ", "measured on shm"] {
        assert!(out.contains(text), "{out}");
    }
    let file: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "a", "b", "c", "d", "e", "f"]);
    for run in runs {
        for name in ["cpu_model", "kernel_release", "logical_cores"] {
            assert!(run["machine"].get(name).is_some(), "{name}");
        }
        assert!(run["throughput_ops_per_s"].as_f64().unwrap() > 0.0);
        assert!(run["pool_per_record_bytes"].as_f64().unwrap() > 16.0);
        assert!(run["live_per_record_bytes"].as_f64().unwrap() > 16.0);
        assert!(run["guarantees"].as_array().unwrap().len() > 8);
        assert!(run["tree"]["records"].as_u64().unwrap() >= 20_000);
        for kind in run["operations"].as_array().unwrap() {
            assert!(kind["latency_p99_ns"].as_u64() >= kind["latency_p50_ns"].as_u64());
            assert!(kind["per_operation"]["round_trips"].as_f64().unwrap() > 0.9, "{kind}");
        }
    }
    // Reads of a warm cache take one round trip; updates three, two of them if a lock is handed over.
    let read = &runs[3]["operations"][0]["per_operation"]["round_trips"];
    assert!((0.99..1.01).contains(&read.as_f64().unwrap()), "{read}");
    let update = &runs[1]["operations"][1]["per_operation"]["round_trips"];
    assert!((1.9..3.1).contains(&update.as_f64().unwrap()), "{update}");
}

#[test]
fn properties_are_ycsbs_and_options_count_more() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine");
    fs::write(&file, "recordcount=3000\noperationcount=4000\nreadproportion=0.5\nupdateproportion=0.25\n").unwrap();
    let ended = dm(&format!(
        "bench -P {} -p readmodifywriteproportion=0.25 --operations 5000 --value-bytes 24",
        file.display()
    ));
    assert!(ended.err.contains("--operations 5000 is used, not the property operationcount=4000"), "{}", ended.err);
    let out = ended.good();
    assert!(out.contains("workload mine") && out.contains("3000 records") && out.contains("8+24 B"), "{out}");
}

#[test]
fn techniques_can_be_switched_off_and_on() {
    for techniques in [
        "--without combine",
        "--without hierarchical,hand-over",
        "--without entry-writes",
        "--without cache",
        "--without on-chip",
        "--with chain-lock-read",
        "--lines sequence",
    ] {
        let out = dm(&format!("{SMALL} --workload a {techniques}")).good();
        let named = techniques.trim_start_matches("--").split(',').next().unwrap();
        assert!(techniques.contains("lines") || out.contains(named), "{techniques}: {out}");
    }
}

#[test]
fn a_trace_has_a_line_for_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, json) = (directory.path().join("t.csv"), directory.path().join("t.json"));
    let files = format!("--trace {} --json {}", trace.display(), json.display());
    dm(&format!("bench --workload a --records 1000 --operations 500 --threads 2 --lanes 2 {files}")).good();
    let file: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let operations = file["runs"][0]["operations"].as_array().unwrap();
    let requests: u64 = operations.iter().map(|kind| kind["requests"].as_u64().unwrap()).sum();
    let trace = fs::read_to_string(trace).unwrap();
    let rows = trace.lines().skip(1).count();
    assert!(trace.starts_with("operation,kind,lane,label,verb"), "{trace:.80}");
    // Warming the cache is not traced.
    assert_eq!(rows as u64, requests);
}

#[test]
fn real_keys_are_loaded_and_bad_ones_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let mut text: Vec<u8> = (0..5000).flat_map(|n| format!("/usr/share/doc/{n}\n").into_bytes()).collect();
    fs::write(&file, &text).unwrap();
    let bench = format!("bench --key-bytes 64 --keys {}", file.display());
    for workload in ["a", "c", "e"] {
        dm(&format!("{bench} --workload {workload} --operations 2000")).good();
    }
    text.extend_from_slice(&[b'x'; 64]);
    text.extend_from_slice(b"\n/usr/share/doc/7\n");
    fs::write(&file, &text).unwrap();
    dm(&format!("{bench} --workload c")).bad(1, &["keys:5001: 64 bytes", "--skip-bad-keys"]);
    let ended = dm(&format!("{bench} --workload c --skip-bad-keys"));
    assert!(ended.err.contains("1 that came twice, 1 longer than 63 bytes"), "{}", ended.err);
    ended.good();
    let fed = dm_fed("bench --key-bytes 16 --workload c --operations 100 --keys -", b"a\nb\na\n");
    fed.bad(1, &["-:3: the same key as line 1"]);
    dm(&format!("{bench} --workload d --operations 1000000 --skip-bad-keys"))
        .err
        .contains("too few")
        .then_some(())
        .expect("inserts need keys");
}

#[test]
fn bad_arguments_are_told_in_one_line() {
    for (arguments, parts) in [
        ("bench --workload g", ["'g'", "load, a, b, c, d, e, f"]),
        ("bench --records 0", ["--records", "1.."]),
        ("bench --lanes 0", ["--lanes", "1..=1024"]),
        ("bench --key-bytes 7", ["--key-bytes", "8 to 64"]),
        ("bench --key-bytes 65", ["--key-bytes", "8 to 64"]),
        ("bench --value-bytes 1025", ["--value-bytes", "8 to 1024"]),
        ("bench --no-such-option", ["--no-such-option", "unexpected"]),
        ("bench --index dolphin", ["dolphin", "sherman"]),
        ("bench --without nothing", ["nothing", "entry-writes"]),
        ("bench -p recordcont=1", ["recordcont", "recordcount"]),
        ("bench -p readproportion=2 --workload c", ["readproportion", "from 0 to 1"]),
        ("bench --threads 1024 --lanes 1024", ["--threads 1024", "65533"]),
        ("bench --workload c --records 100 --scratch-mib-max 0", ["scratch", "--scratch-mib-max"]),
        ("bench --workload load --repeat 2", ["--repeat", "load"]),
        ("bench --pool x --lines avx512", ["--pool", "--lines"]),
        ("bench --profile cx6", ["--profile", "--fabric sim"]),
        ("bench --compute-nodes 2", ["--compute-nodes", "--fabric sim"]),
        ("bench --fabric sim --profile cx9", ["cx9", "cx5, cx6, cx7-200g, soft-roce, cxl"]),
        ("bench --fabric sim --profile /no/such.toml", ["/no/such.toml", "No such file"]),
        ("bench --fabric sim --baseline", ["--baseline", "--fabric shm"]),
        ("bench --fabric sim --pool x", ["--pool", "--fabric shm"]),
        ("bench --fabric sim --compute-nodes 128", ["--compute-nodes", "1..=127"]),
        ("bench --fabric sim --colocated --compute-nodes 3", ["--colocated", "as many of each"]),
        ("bench --fabric sim --raw-read 64 --workload c", ["--raw-read", "--workload"]),
        ("bench --fabric sim --compute-nodes 100 --cache-mib 1048576", ["MiB for caches", "--cache-mib"]),
        ("bench --sweep threads=1,2", ["--sweep-out", "required"]),
        ("bench --sweep colour=1,2 --sweep-out x", ["colour=1,2", "threads, lanes"]),
        ("bench --sweep threads=1,x --sweep-out x", ["threads", "x is not within 1 to 1024"]),
        ("bench --sweep threads=1,,2 --sweep-out x", ["threads=1,,2", "missing"]),
        ("bench --sweep zipfianconstant=7 --sweep-out x", ["zipfianconstant", "7"]),
        ("figures --only nothing", ["--only nothing", "--commands"]),
        ("layout show nothing", ["nothing", "superblock"]),
        ("inspect", ["--pool", "required"]),
        ("create --pool x --name y --leaf-span 1", ["1 entries per leaf", "2 to 512"]),
        ("create --pool x --name y --index chime --leaf-span 7", ["7 entries per leaf", "8 to 512"]),
        ("create --pool x --name y --index chime --neighborhood 17", ["neighborhoods of 17 entries", "2 to 16"]),
        ("create --pool x --name y --index chime --leaf-span 8 --neighborhood 9", ["of 9 entries", "a leaf has (8)"]),
        ("create --pool x --name y --index chime --value-bytes 1025", ["value bytes 1025", "8 to 1024"]),
        ("bench --index chime --neighborhood 1", ["--neighborhood", "2 to 16"]),
        ("bench --index chime --leaf-span 513", ["--leaf-span", "8 to 512"]),
        ("bench --neighborhood 4", ["--neighborhood", "--index chime"]),
        ("bench --lease-ms 0", ["--lease-ms 0", "at least 100"]),
        ("repair --pool x --lease-ms 99", ["--lease-ms 99", "at least 100"]),
        ("inspect --pool x --lease-ms 3600001", ["--lease-ms 3600001", "longer than an hour"]),
        ("soak --seconds 1 --lease-ms 18446744073709551615", ["--lease-ms", "too large"]),
        ("soak", ["--minutes", "required"]),
        ("soak --minutes 1 --seconds 1", ["--minutes", "--seconds"]),
        ("soak --seconds 1 --writers 0", ["--writers", "1..=64"]),
        ("frobnicate", ["frobnicate", "subcommand"]),
    ] {
        dm(arguments).bad(2, &parts);
    }
}

#[test]
fn help_comes_with_an_example() {
    let commands =
        ["", "bench", "figures", "create", "shell", "inspect", "repair", "soak", "dump", "load", "layout", "memd"];
    for arguments in commands {
        let out = dm(&format!("{arguments} --help")).good();
        assert!(out.contains("Example") && out.contains("dm"), "{arguments}: {out}");
    }
}

/// A small cluster in virtual time.
const CLUSTER: &str =
    "bench --fabric sim --compute-nodes 3 --threads 4 --lanes 2 --memory-nodes 2 --cache-mib 1 --records 20000";

#[test]
fn a_simulated_run_is_the_same_every_time_and_says_what_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |name: &str| {
        let file = directory.path().join(name);
        let out = dm(&format!("{CLUSTER} --operations 20000 --json {}", file.display())).good();
        assert!(out.contains("sim: virtual time of modelled NICs; not a measurement"), "{out}");
        assert!(out.contains("limited by"), "{out}");
        let text = fs::read_to_string(file).expect("the file was written");
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file["runs"].as_array().map(Vec::len), Some(7), "all workloads");
        for run in file["runs"].as_array_mut().expect("runs") {
            assert_eq!(run["compute_nodes"], 3);
            let simulation = run["simulation"].as_object_mut().expect("it is a simulation");
            assert_eq!(simulation["usage"]["memory_nodes"].as_array().map(Vec::len), Some(2));
            // All that is not simulated.
            simulation.remove("processor_s");
            simulation.remove("requests_per_processor_s");
            run["machine"].take();
        }
        let load = file["load"].take();
        assert!(load.is_null(), "workload load does it");
        file["runs"].to_string()
    };
    let (one, two) = (run("one"), run("two"));
    let same = one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count();
    let differs = |text: &str| text.chars().skip(same.saturating_sub(80)).take(160).collect::<String>();
    assert!(one == two, "two runs differ:\n{}\n{}", differs(&one), differs(&two));
}

#[test]
fn a_profile_can_be_copied_and_edited_and_mistakes_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.toml");
    let cx6 = concat!(env!("CARGO_MANIFEST_DIR"), "/../dm-sim/profiles/cx6.toml");
    let text = fs::read_to_string(cx6).expect("a profile of ours");
    let rate = |text: &str| {
        fs::write(&file, text).expect("written");
        let json = directory.path().join("json");
        let raw = "bench --fabric sim --raw-read 64 --compute-nodes 4 --threads 32 --memory-nodes 1 --operations 50000";
        let ended = dm(&format!("{raw} --profile {} --json {}", file.display(), json.display()));
        (ended, json)
    };
    let (ended, json) = rate(&text.replace("read_mops = 45.0", "read_mops = 9.0"));
    ended.good();
    let run: Value = serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    let node = &run["runs"][0]["simulation"]["usage"]["memory_nodes"][0];
    assert_eq!(node["bottleneck"], "request rate");
    assert!((node["rate_mops"].as_f64().expect("a number") / 9.0 - 1.0).abs() < 0.01, "{node}");

    rate(&text.replace("read_mops = 45.0", "read_mops = 0.0"))
        .0
        .bad(2, &["mine.toml", "responder.read_mops = 0", "10000"]);
    rate(&text.replace("read_mops = 45.0", "")).0.bad(2, &["mine.toml", "line", "read_mops"]);
    rate(&format!("speed = 3\n{text}")).0.bad(2, &["mine.toml", "line 1", "speed"]);
}

#[test]
fn a_sweep_writes_curves() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("curve");
    let sweep =
        format!("{CLUSTER} --workload a --operations 5000 --sweep lanes=1,2,4 --sweep-out {}", prefix.display());
    let out = dm(&sweep).good();
    assert!(out.contains("curve.csv") && out.contains("curve.svg"), "{out}");
    let csv = fs::read_to_string(prefix.with_extension("csv")).expect("a table");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4, "{csv}");
    assert_eq!(&lines[0][..3], ["lanes", "workload", "throughput_mops"]);
    let rates: Vec<f64> = lines[1..].iter().map(|line| line[2].parse().expect("a number")).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "more lanes, more operations: {rates:?}");
    let svg = fs::read_to_string(prefix.with_extension("svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("throughput, Mops/s") && svg.contains("a, p99"), "{svg}");
    dm(&sweep.replace(&prefix.display().to_string(), "/no/such/place")).bad(1, &["/no/such/place.csv"]);
}

#[test]
fn a_naive_lock_collapses_under_skew_and_the_techniques_lift_it() {
    // A small edition of the figures: no wall time, no published value, only which is faster.
    let cluster = "bench --fabric sim --profile cx5 --compute-nodes 8 --memory-nodes 4 --threads 22 --lanes 1 --cache-mib 1 \
                   --records 100000 --workload a --no-validate";
    let rate = |without: &str, operations: u32| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("json");
        dm(&format!("{cluster} --operations {operations} --without {without} --json {}", file.display())).good();
        let run: Value = serde_json::from_str(&fs::read_to_string(file).expect("written")).expect("JSON");
        run["runs"][0]["throughput_ops_per_s"].as_f64().expect("a number") / 1e6
    };
    let naive = rate("combine,hierarchical,hand-over,entry-writes,on-chip,back-off,read-guard", 20_000);
    let on_chip = rate("hierarchical,hand-over,entry-writes,back-off,read-guard", 60_000);
    let all = rate("back-off,read-guard", 60_000);
    assert!(naive * 3.0 < on_chip && on_chip * 1.2 < all, "naive {naive}, on-chip {on_chip}, all {all} M/s");
}

#[test]
fn figures_can_be_run_one_by_one() {
    let out = dm("figures --only cx7-200g").good();
    assert!(out.contains("| ... cx7-200g | 100.0 % | 100.0 % | 1.00 |"), "{out}");
    assert!(dm("figures --commands").good().contains("dm bench --fabric sim --lanes 1"));
}

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
    let mut daemon = command(&format!("memd --size 4MiB --file {file} --exit-with-parent --socket {socket}"))
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
fn a_dump_can_be_loaded_and_a_damaged_one_changes_nothing() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload a {pool}")).good();
    let (dump, copy) = (nodes.file("dump"), nodes.file("copy"));
    assert!(dm(&format!("dump {pool} --index bench {dump}")).good().contains("20000 records"));
    dm(&format!("load {pool} --index second {dump}")).good();
    dm(&format!("dump {pool} --index second {copy}")).good();
    let bytes = fs::read(&dump).unwrap();
    assert!(bytes == fs::read(&copy).unwrap());
    // Once more over what is there; and from a pipe into a new index.
    dm(&format!("load {pool} --index second {dump}")).good();
    dm_fed(&format!("load {pool} --index third -"), &bytes).good();
    dm_fed(&format!("load {pool} --index third -"), &bytes).bad(1, &["in use", "from a file"]);

    let damaged = nodes.file("damaged");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let mut longer = bytes.clone();
    longer.push(0);
    let mut newer = bytes.clone();
    newer[8] = 3;
    for (contents, what) in [
        (&bytes[..bytes.len() / 2], "cut short"),
        (&bytes[..bytes.len() - 1], "cut short"),
        (&bytes[..10], "cut short"),
        (&[], "cut short"),
        (&flipped, "damaged"),
        (&longer, "goes on after its end"),
        (&newer, "version 3"),
        (&b"a text file, ".repeat(20), "not a dump"),
    ] {
        fs::write(&damaged, contents).unwrap();
        dm(&format!("load {pool} --index fourth {damaged}")).bad(1, &["damaged", what]);
        dm_fed(&format!("load {pool} --index fourth -"), contents).bad(1, &[what]);
        dm(&format!("shell {pool} --index fourth")).bad(1, &["no index \"fourth\""]);
    }
    dm(&format!("create {pool} --name wide --key-bytes 16")).good();
    dm(&format!("load {pool} --index wide {dump}")).bad(1, &["8+8", "16+8"]);
    dm(&format!("dump {pool} --index bench /no/such/file")).bad(1, &["/no/such/file"]);
    let out = dm(&format!("inspect {pool}")).good();
    assert!(out.contains("0 locks held") && out.contains("0 orphaned chunks"), "{out}");
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

/// A shell that has joined the pool and waits for its next line.
fn shell(pool: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    shell_on(pool, "bench")
}

/// The same, on an index of that name.
fn shell_on(pool: &str, index: &str) -> (Child, BufReader<std::process::ChildStdout>) {
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
fn the_dead_are_seen_and_repaired_and_the_living_left_alone() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name bench --key-bytes 8 --value-bytes 8")).good();
    let (mut dead, _) = shell(&pool);
    let (mut living, mut out) = shell(&pool);
    dead.kill().unwrap();
    dead.wait().unwrap();
    let look = || -> Value {
        let out = dm(&format!("inspect {pool} --lease-ms 800 --no-walk --watch-ms 500 --json")).good();
        serde_json::from_str::<Value>(&out).unwrap()["rows"].take()
    };
    let rows = look();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"live".into(), &"live".into()), "{rows}");
    assert!(rows[0]["silent_ms"].as_u64().unwrap() >= 450, "{rows}");
    assert_eq!(rows[1]["silent_ms"], 0, "{rows}");
    let text = dm(&format!("inspect {pool} --lease-ms 800 --no-walk")).good();
    assert!(text.contains("SILENT for at least") && text.contains("beats"), "{text}");
    let repaired: Value = serde_json::from_str(&dm(&format!("repair {pool} --lease-ms 800 --json")).good()).unwrap();
    assert_eq!((&repaired["rows_fenced"], &repaired["rows_freed"]), (&1.into(), &1.into()), "{repaired}");
    let rows = look();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"free".into(), &"live".into()), "{rows}");
    // Nothing is left to do, and the one that was at work all the time is.
    assert!(dm(&format!("repair {pool} --lease-ms 800")).good().starts_with("0 silent compute nodes fenced, 0 rows"));
    living.stdin.as_mut().unwrap().write_all(b"get ada\n").unwrap();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "lovelac\n");
    drop(living.stdin.take());
    assert!(living.wait().unwrap().success());
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
    assert!(dm(&format!("repair {} --lease-ms 100", empty.pool())).good().starts_with("0 silent"));
}

#[test]
fn processes_are_killed_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("soak.json");
    let out = dm(&format!("soak --seconds 6 --lease-ms 400 --writers 3 --keys 60 --seed 1 --json {}", json.display()));
    let text = out.good();
    assert!(text.starts_with("seed 1: 3 writers"), "{text}");
    let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let verdict = &report["verdict"];
    assert_eq!((&verdict["keys"], &verdict["sound"]), (&180.into(), &true.into()), "{report}");
    assert!(verdict["acknowledged"].as_u64().unwrap() > 0 && report["events"]["killed"].as_u64().unwrap() > 0);
}

#[test]
fn a_memory_node_that_dies_in_use_ends_the_run_with_an_error() {
    for workload in ["a", "c", "load"] {
        let mut nodes = Nodes::start(2, "64MiB");
        let arguments =
            format!("bench --workload {workload} --records 200000 --operations 1000000000 {}", nodes.pool());
        // A load is over too soon to be caught in the middle: it gets a node that dies after a moment.
        let arguments = if workload == "load" { arguments.replace("200000", "1000000") } else { arguments };
        let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(if workload == "load" { 150 } else { 1500 }));
        nodes.daemons[1].kill().unwrap();
        let killed = Instant::now();
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert!(killed.elapsed() < Duration::from_secs(30), "{workload}");
        if workload == "load" && ended.code == Some(0) {
            continue;
        }
        ended.bad(1, &["memory node"]);
    }
}

#[test]
fn layouts_are_listed_shown_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let goldens = format!("--directory {}", directory.path().display());
    assert!(dm("layout list").good().contains("lock_word"));
    assert!(dm("layout show lock_word").good().starts_with("lock_word: "));
    assert!(dm("layout show lock_word --c").good().contains("#define DM_LOCK_WORD_ROW_BITS 16\n"));
    assert!(dm(&format!("layout bless {goldens}")).good().contains("blessed"));
    assert!(dm(&format!("layout check {goldens}")).good().contains("layouts hold"));
    fs::write(directory.path().join("lock_word.txt"), "something else\n").unwrap();
    let ended = dm(&format!("layout check {goldens}"));
    assert!(ended.out.contains("lock_word.txt"), "{}", ended.out);
    ended.bad(1, &["1 of the layouts"]);
}

/// A memory node whose region is a file, with an index of 2000 records.
fn on_a_file(name: &str) -> (Nodes, fs::File) {
    let mut nodes = Nodes { daemons: Vec::new(), directory: tempfile::tempdir().unwrap() };
    let region = nodes.file("region");
    let arguments = format!(
        "memd --size 16MiB --lines sequence --exit-with-parent --file {region} --socket {}",
        nodes.socket(0).display()
    );
    let mut daemon = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("READY"), "{ready:?}");
    nodes.daemons.push(daemon);
    let pool = nodes.pool();
    dm(&format!("create {pool} --name {name} --index sherman")).good();
    let lines = (0..2000).map(|n| format!("put u64:{n} v{n}")).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(dm_fed(&format!("shell {pool} --index {name}"), lines.as_bytes()).code, Some(0));
    let region = fs::File::options().read(true).write(true).open(region).unwrap();
    (nodes, region)
}

/// The root word of the only index.
fn root(pool: &str) -> u64 {
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --no-walk --json")).good()).unwrap();
    view["indexes"][0]["root"].as_u64().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_damaged_index_is_told_and_leaves_no_file() {
    let (nodes, region) = on_a_file("it");
    let pool = nodes.pool();
    let out = tempfile::tempdir().unwrap();
    let (whole, file) = (out.path().join("whole"), out.path().join("file"));
    dm(&format!("dump {pool} --index it {}", whole.display())).good();
    dm(&format!("inspect {pool}")).good();
    fs::write(&file, "as it was").unwrap();
    let tell = |what: &str| {
        dm(&format!("dump {pool} --index it {}", file.display())).bad(1, &[what]);
        dm(&format!("dump {pool} --index it {}", out.path().join("new").display())).bad(1, &[what]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
        assert_eq!(names(out.path()), ["file", "whole"]);
        let ended = dm(&format!("inspect {pool}"));
        assert!(ended.out.contains("NOT SOUND"), "{}", ended.out);
        ended.bad(1, &["not sound", "index it"]);
        let ended = dm(&format!("inspect {pool} --json"));
        let view: Value = serde_json::from_str(&ended.out).unwrap();
        assert!(view["indexes"][0]["broken"].as_str().unwrap().contains(what), "{view}");
        assert_eq!(ended.code, Some(1));
    };
    // The root says that it is of another index.
    let address = root(&pool);
    let offset = address & ((1 << 48) - 64);
    let mut line = [0; 64];
    region.read_exact_at(&mut line, offset).unwrap();
    region.write_all_at(&[line[3] ^ 0x40], offset + 3).unwrap();
    tell("attempts at reading the root");
    region.write_all_at(&line, offset).unwrap();
    // The root word is 0.
    let mut head = vec![0; 1 << 20];
    region.read_exact_at(&mut head, 0).unwrap();
    let at = head.chunks_exact(8).position(|word| word == address.to_le_bytes()).unwrap() * 8;
    region.write_all_at(&[0; 8], at as u64).unwrap();
    tell("its root word is 0");
    dm_fed(&format!("shell {pool} --index it"), b"get u64:1\n").bad(1, &["its root word is 0"]);
    region.write_all_at(&address.to_le_bytes(), at as u64).unwrap();
    dm(&format!("dump {pool} --index it {}", file.display())).good();
    assert_eq!(fs::read(&file).unwrap(), fs::read(&whole).unwrap());
    // One that was never written to has no root, and lost none.
    dm(&format!("create {pool} --name new")).good();
    dm(&format!("dump {pool} --index new -")).good();
    dm(&format!("inspect {pool}")).good();
}

#[test]
fn a_dump_replaces_files_only() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let dump = |name: &str| dm(&format!("dump {pool} --index bench {}", at(name).display()));
    dump("whole").good();
    let whole = fs::read(at("whole")).unwrap();
    assert_eq!(fs::metadata(at("whole")).unwrap().mode() & 0o777, 0o600);
    // A link stays, and so do the permissions of what it leads to.
    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/file"), "old").unwrap();
    fs::set_permissions(at("there/file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("there/file", at("link")).unwrap();
    dump("link").good();
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert_eq!(fs::read(at("there/file")).unwrap(), whole);
    assert_eq!(fs::metadata(at("there/file")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(names(&at("there")), ["file"]);
    // One to nothing is not followed to make a file elsewhere.
    symlink("there/nothing", at("dangling")).unwrap();
    dump("dangling").bad(1, &["dangling", "a link to nothing"]);
    assert_eq!(names(&at("there")), ["file"]);
    // Nor is one where the temporary file used to be.
    fs::write(at("victim"), "untouched").unwrap();
    symlink("victim", at("whole.partial")).unwrap();
    dump("whole").good();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
    // A pipe.
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let pipe = at("pipe");
    let reader = thread::spawn(move || fs::read(pipe).unwrap());
    dump("pipe").good();
    assert_eq!(reader.join().unwrap(), whole);
    assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
    // A device, and the names of the standard output.
    dm(&format!("dump {pool} --index bench /dev/null")).good();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let names_before = names(out.path());
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let piped = command(&format!("dump {pool} --index bench {name}")).output().unwrap();
        assert!(piped.status.success() && piped.stdout == whole, "{name}");
    }
    let appended = fs::File::options().append(true).open(at("victim")).unwrap();
    let status = command(&format!("dump {pool} --index bench /dev/stdout")).stdout(appended).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read(at("victim")).unwrap(), [b"untouched".as_slice(), &whole].concat());
    dump("there").bad(1, &["there", "is a directory"]);
    dump("no/such").bad(1, &["no/such"]);
    assert_eq!(names(out.path()), names_before);
}

/// The process is stopped as soon as it has made its temporary file, and told to end before it goes on.
#[test]
fn a_dump_that_is_interrupted_leaves_nothing() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    dm(&format!("bench --records 200000 --operations 1 --workload load {pool}")).good();
    for signal in ["INT", "TERM"] {
        let out = tempfile::tempdir().unwrap();
        let kill = |dump: &Child, signal: &str| {
            let sent = Command::new("kill").args(["-s", signal, &dump.id().to_string()]).status().unwrap();
            assert!(sent.success());
        };
        let arguments = format!("dump {pool} --index bench {}", out.path().join("file").display());
        let mut dump = command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        while names(out.path()).is_empty() {
            assert!(dump.try_wait().unwrap().is_none(), "it ended before it had a file");
            thread::yield_now();
        }
        kill(&dump, "STOP");
        assert!(names(out.path())[0].ends_with(".partial"), "it was whole before it could be stopped");
        let mode = fs::metadata(out.path().join(&names(out.path())[0])).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        kill(&dump, signal);
        kill(&dump, "CONT");
        assert_eq!(dump.wait().unwrap().code(), Some(130));
        assert!(names(out.path()).is_empty(), "{:?}", names(out.path()));
    }
}
