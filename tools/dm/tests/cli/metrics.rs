//! Metrics of memory nodes and sessions, as text and in a real Prometheus; settings from a file.

use crate::{Ended, command, dm};
use dm_host::fabric::shm::ShmOptions;
use dm_host::prelude::*;
use dm_host::session::SessionOptions;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A daemon with metrics.
pub(crate) struct Daemon {
    child: Child,
    pub socket: String,
    pub metrics: String,
}

impl Daemon {
    /// Settings are from a file, and the command line counts more.
    pub(crate) fn start(directory: &Path) -> Self {
        let (settings, socket) = (directory.join("memd.toml"), directory.join("0").display().to_string());
        let text = format!(
            "size = \"1GiB\"\nsocket = {socket:?}\npool_name = \"accounts\"\nlines = \"sequence\"\nexit_with_parent = true\n\
             log_level = \"off\"\nmetrics = \"127.0.0.1:0\"\n"
        );
        fs::write(&settings, text).unwrap();
        let mut child = command(&format!("memd --config {} --size 16MiB --no-sweep", settings.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains(&format!(" region_bytes={} ", 16 << 20)), "{ready}");
        let metrics = ready.split(" metrics=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        Self { child, socket, metrics }
    }

    /// A session of this process with the index "balances" of its pool. It has metrics, too.
    pub(crate) fn session(&self) -> Session {
        let pool = Arc::new(Pool::connect(&[self.socket.clone().into()], ShmOptions::default()).unwrap());
        let options = SessionOptions { metrics: Some("127.0.0.1:0".parse().unwrap()), ..SessionOptions::default() };
        let parameters = dm_core::sherman::parameters::Parameters::with_sizes(8, 8);
        Session::open_or_create(&pool, "balances", parameters, &options).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of the answer to a GET.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// The value of a sample.
#[track_caller]
fn sample(page: &str, of: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(of));
    line.unwrap_or_else(|| panic!("no {of} in {page}")).trim().parse().unwrap()
}

#[test]
fn a_memory_node_tells_joins_deaths_rows_and_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path());
    let pool = &daemon.socket;
    dm(&format!("create --pool {pool} --name it")).good();
    let mut shell = command(&format!("shell --pool {pool} --index it"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.as_mut().unwrap().write_all(b"put u64:1 1\n").unwrap();
    let mut answer = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let node = "{pool=\"accounts\",memory_node=\"0\"";
    let page = get(&daemon.metrics, "/metrics").unwrap();
    assert_eq!(sample(&page, &format!("dm_memd_processes{node}}}")), 1);
    assert_eq!(sample(&page, &format!("dm_memd_rows{node},state=\"live\"}}")), 1);
    assert!(sample(&page, &format!("dm_memd_chunks{node},state=\"granted\",kind=\"leaf\"}}")) >= 1);
    shell.kill().unwrap();
    shell.wait().unwrap();
    // The daemon notices the death before it answers what comes later.
    dm(&format!("inspect --pool {pool} --watch-ms 0 --no-walk")).good();
    let page = get(&daemon.metrics, "/metrics").unwrap();
    for (name, value) in [("joins_total", 2), ("leaves_total", 1), ("deaths_total", 1), ("fenced_total", 0)] {
        assert_eq!(sample(&page, &format!("dm_memd_{name}{node}}}")), value, "{name}");
    }
}

/// The daemon ends with one line that has all `parts`.
#[track_caller]
fn complains(arguments: &str, parts: &[&str]) {
    let Ended { code, err, .. } = dm(arguments);
    assert!(code == Some(1) && err.starts_with("dm memd: ") && err.trim_end().lines().count() == 1, "{err:?}");
    assert!(parts.iter().all(|part| err.contains(part)), "{err:?} lacks one of {parts:?}");
}

#[test]
fn a_file_of_settings_that_is_wrong_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memd.toml");
    let refused = |text: &str, parts: &[&str]| {
        fs::write(&path, text).unwrap();
        complains(&format!("memd --config {}", path.display()), &[&["memd.toml"], parts].concat());
    };
    refused("size = \"1MiB\"\nsise = 3\n", &["--sise"]);
    refused("size = \n", &["line 1"]);
    refused("size = [1, 2]\n", &["size", "array"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = format!("--metrics {}", taken.local_addr().unwrap());
    let socket = directory.path().join("0").display().to_string();
    complains(
        &format!("memd --size 8MiB --socket {socket} {metrics}"),
        &["--metrics: cannot serve metrics at", "in use"],
    );
    assert!(!Path::new(&socket).exists());
}

/// The queries of the dashboard, without its variables.
fn queries() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../grafana/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let query = |target: &serde_json::Value| {
        let query = target["expr"].as_str().unwrap();
        query.replace("$__rate_interval", "10s").replace("$pool", ".*").replace("$index", ".*")
    };
    targets.map(query).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| encoded + &format!("%{byte:02X}"))
}

/// Every query of the dashboard finds something in a Prometheus that scrapes a memory node and a session at work.
#[test]
#[ignore = "needs Debian's prometheus: `tests/run prometheus` installs it and runs this"]
fn prometheus_answers_every_query_of_the_dashboard() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path());
    let session = daemon.session();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let targets = format!("'{}', '{}'", daemon.metrics, session.metrics().unwrap());
    let settings = directory.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 500ms\n  scrape_timeout: 400ms\nscrape_configs:\n- job_name: dm\n  static_configs:\n  - targets: [{targets}]\n"
    );
    fs::write(&settings, text).unwrap();
    let checked = Command::new("promtool").args(["check", "config"]).arg(&settings).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    // Its own opinion of both pages: names, types, order.
    for address in [daemon.metrics.clone(), session.metrics().unwrap().to_string()] {
        let mut lint = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        lint.stdin.take().unwrap().write_all(get(&address, "/metrics").unwrap().as_bytes()).unwrap();
        let linted = lint.wait_with_output().unwrap();
        assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stderr));
    }
    let mut prometheus = prometheus(directory.path(), &settings, port);
    let mut left = queries();
    assert!(left.len() > 15, "{left:?}");
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut number = 0_u64;
    let mut told = String::new();
    while !left.is_empty() && Instant::now() < deadline {
        for _ in 0..100 {
            number += 1;
            session.insert(&number.to_be_bytes(), &[0; 8]).wait().unwrap();
            session.get(&number.to_be_bytes()).wait().unwrap();
        }
        left.retain(|query| {
            told = get(&port.to_string(), &format!("/api/v1/query?query={}", encoded(query))).unwrap_or_default();
            let answer: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
            assert_ne!(answer["status"], "error", "{query}: {told}");
            answer["data"]["result"].as_array().is_none_or(Vec::is_empty)
        });
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&prometheus), Signal::TERM).unwrap();
    prometheus.wait().unwrap();
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(left.is_empty(), "these find nothing: {left:#?}\n{told}\n{log}");
}

fn prometheus(directory: &Path, settings: &Path, address: SocketAddr) -> Child {
    Command::new("prometheus")
        .arg(format!("--config.file={}", settings.display()))
        .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stderr(fs::File::create(directory.join("log")).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .expect("prometheus is installed")
}
