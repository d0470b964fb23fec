//! Memory nodes that are processes.

use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::{Pool, socket_in};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Memory nodes of a test, killed with it.
pub struct Daemons {
    children: Vec<Child>,
    pub sockets: Vec<PathBuf>,
    /// The line that each has printed.
    pub ready: Vec<String>,
}

impl Daemons {
    /// Memory nodes of 16 MiB in chunks of 64 KiB.
    pub fn start(directory: &Path, nodes: u16, lines: &str) -> Self {
        Self::start_with(directory, nodes, &["--size", "16MiB", "--chunk-size", "64KiB", "--lines", lines])
    }

    pub fn start_with(directory: &Path, nodes: u16, arguments: &[&str]) -> Self {
        let mut daemons = Self { children: Vec::new(), sockets: Vec::new(), ready: Vec::new() };
        for _ in 0..nodes {
            daemons.start_next(directory, nodes, arguments);
        }
        daemons
    }

    /// One more, of a pool of `nodes`.
    pub fn start_next(&mut self, directory: &Path, nodes: u16, arguments: &[&str]) {
        let node = self.children.len() as u16;
        let socket = socket_in(directory, node);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dm-memd"));
        command.args(["--locks", "31", "--exit-with-parent", "--no-sweep"]).args(arguments);
        command.args(["--node-id", &node.to_string(), "--memory-nodes", &nodes.to_string()]);
        command.arg("--socket").arg(&socket);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("READY "), "{ready:?}");
        self.children.push(child);
        self.sockets.push(socket);
        self.ready.push(ready);
    }

    pub fn connect(&self) -> Arc<Pool> {
        Arc::new(Pool::connect(&self.sockets, ShmOptions::default()).unwrap())
    }

    /// A metric of a memory node that was started with `--metrics`.
    pub fn metric(&self, node: usize, name: &str) -> u64 {
        let address = self.ready[node].split("metrics=").nth(1).unwrap().split(' ').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub fn kill(&mut self, node: usize) {
        self.children[node].kill().unwrap();
        self.children[node].wait().unwrap();
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
