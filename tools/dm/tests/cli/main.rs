//! The command as its users meet it: good runs, and every kind of bad input, which gives one line, the right exit code,
//! and does no harm.

mod arguments;
mod bench;
mod check;
mod dump;
mod figures;
mod generate;
mod memd;
mod metrics;
mod owners;
mod pool;
mod repair;
mod shell;
mod simulation;
mod terminal;
mod top;
mod trial;
mod verify;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
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

    /// One line on the standard error, which begins with the program's name and contains `parts`. Returns the standard
    /// output.
    #[track_caller]
    fn bad(self, code: i32, parts: &[&str]) -> String {
        let Self { err, out, .. } = &self;
        assert_eq!(self.code, Some(code), "{out}\n{err}");
        assert!(err.starts_with("dm: ") && err.trim_end().lines().count() == 1, "{err:?}");
        for part in parts {
            assert!(err.contains(part), "{err:?} does not contain {part:?}");
        }
        self.out
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
        for _ in 0..count {
            nodes.start_next(count, size);
        }
        nodes
    }

    /// One more, of a pool of `count`.
    fn start_next(&mut self, count: u16, size: &str) {
        let node = self.daemons.len() as u16;
        let socket = self.socket(node);
        let arguments = format!(
            "memd --size {size} --lines sequence --node-id {node} --memory-nodes {count} --exit-with-parent --log-level warn --socket {}",
            socket.display()
        );
        let mut daemon = command(&arguments).stdout(Stdio::piped()).spawn().expect("the daemon runs");
        let mut ready = String::new();
        BufReader::new(daemon.stdout.take().expect("a pipe")).read_line(&mut ready).expect("a line");
        assert!(ready.starts_with("READY"), "{ready:?}");
        self.daemons.push(daemon);
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
