//! Memory nodes for a command: child processes of its own, or running ones found by their control sockets.

use crate::failure::Failure;
use dm_core::remote::catalog::IndexEntry;
use dm_host::compute_node::ComputeNode;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::{Pool, socket_in};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// What memory nodes to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// How many.
    pub memory_nodes: u16,
    /// Region of each, in bytes.
    pub region_bytes: u64,
    /// Chunks of it; `None` = the daemon's default.
    pub chunk_bytes: Option<u64>,
    /// Memory that stands for a NIC's device memory; `None` = the daemon's default.
    pub device_bytes: Option<u64>,
    /// How lines are kept whole: what `--lines` of the daemon takes.
    pub lines: String,
}

/// Memory nodes that live as long as this value.
#[derive(Debug)]
pub struct Children {
    daemons: Vec<Child>,
    sockets: Vec<PathBuf>,
    /// Holds the sockets; removed last.
    directory: TempDir,
}

impl Children {
    /// Starts memory nodes: this very program, as `dm memd`. They die with this process, however it ends.
    pub fn start(start: &Start) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::Run(format!("this program's path: {error}")))?;
        let directory = tempfile::Builder::new()
            .prefix("dm-")
            .tempdir()
            .map_err(|error| Failure::Run(format!("a directory for control sockets: {error}")))?;
        let sockets = directory.path().to_owned();
        when_told_to_stop(move || {
            let _ = std::fs::remove_dir_all(sockets);
        })?;
        let mut children = Self { daemons: Vec::new(), sockets: Vec::new(), directory };
        for node in 0..start.memory_nodes {
            let socket = socket_in(children.directory.path(), node);
            let mut command = Command::new(&program);
            command
                .arg("memd")
                .args(["--size", &start.region_bytes.to_string(), "--lines", &start.lines, "--pool-name", "dm"])
                .args(["--node-id", &node.to_string(), "--memory-nodes", &start.memory_nodes.to_string()])
                .arg("--socket")
                .arg(&socket)
                .arg("--exit-with-parent")
                // Whoever runs a pool of its own lets processes die to see how others recover.
                .arg("--no-sweep")
                // Nobody reads the rest: what stops it at its start is an error.
                .args(["--log-level", "error"]);
            if let Some(bytes) = start.chunk_bytes {
                command.args(["--chunk-size", &bytes.to_string()]);
            }
            if let Some(bytes) = start.device_bytes {
                command.args(["--device-size", &bytes.to_string()]);
            }
            // A process group of its own: an interrupt from the terminal is for the parent to handle.
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            let daemon =
                command.spawn().map_err(|error| Failure::Run(format!("{} memd: {error}", program.display())))?;
            children.daemons.push(daemon);
            children.sockets.push(socket);
        }
        for node in 0..children.daemons.len() {
            children.wait_ready(node)?;
        }
        Ok(children)
    }

    /// The line a daemon prints once clients can connect.
    fn wait_ready(&mut self, node: usize) -> Result<(), Failure> {
        let daemon = &mut self.daemons[node];
        let mut line = String::new();
        if let Some(out) = daemon.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        if line.starts_with("READY") {
            return Ok(());
        }
        // It has closed its output, so it has ended or is about to; what it said on the way is the reason.
        let mut said = String::new();
        if let Some(err) = &mut daemon.stderr {
            let _ = err.read_to_string(&mut said);
        }
        let said = said.trim().trim_start_matches("dm memd: ").to_owned();
        let why = if said.is_empty() { "it said nothing".to_owned() } else { said };
        Err(Failure::Run(format!("memory node {node} did not start: {why}")))
    }

    /// Their control sockets, by number.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for daemon in &self.daemons {
            if let Some(pid) = Pid::from_raw(daemon.id().cast_signed()) {
                // Not waited for yet, so the number is still its own.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}

/// An interrupted process runs no destructors: a thread does `clean_up` in their place, and ends the process.
pub fn when_told_to_stop(clean_up: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("watching for signals: {error}"));
    let (mut told, tell) = UnixStream::pair().map_err(failed)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let tell = tell.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, tell).map_err(failed)?;
    }
    let wait = move || {
        let mut byte = [0];
        if told.read_exact(&mut byte).is_ok() {
            clean_up();
            // What a shell reports for a process that an interrupt ended.
            std::process::exit(130);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).map_err(failed)
}

/// How commands reach memory nodes that run already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FabricName {
    /// Shared memory of this machine
    #[default]
    Shm,
    /// An RDMA device
    Verbs,
}

/// What reaching a pool on RDMA devices needs beside its addresses. The short ones are those of perftest.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RdmaArguments {
    /// With --fabric verbs: the secret of the pool's memory nodes
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// With --fabric verbs: RDMA device [default: by route]
    #[arg(short = 'd', long, value_name = "DEVICE")]
    pub ib_dev: Option<String>,

    /// With --fabric verbs: port of the device
    #[arg(short = 'i', long, value_name = "PORT")]
    pub ib_port: Option<u8>,

    /// With --fabric verbs: index of the GID
    #[arg(short = 'x', long, value_name = "INDEX")]
    pub gid_index: Option<u16>,

    /// With --fabric verbs: largest packet, in bytes
    #[arg(short = 'm', long, value_name = "BYTES")]
    pub mtu: Option<u32>,
}

/// Memory nodes and the connection to them.
#[derive(Debug)]
pub struct Memory {
    /// The connection.
    pub pool: Arc<Pool>,
    /// The daemons, if they are ours. Dropped after the connection.
    pub children: Option<Children>,
}

impl Memory {
    /// Connects to running memory nodes, named by control sockets or by addresses.
    pub fn connect(fabric: FabricName, names: &[PathBuf], rdma: &RdmaArguments) -> Result<Self, Failure> {
        let pool = match fabric {
            FabricName::Shm => Pool::connect(names, ShmOptions::default()).map_err(Failure::run)?,
            FabricName::Verbs => connect_verbs(names, rdma, false)?,
        };
        Ok(Self { pool: Arc::new(pool), children: None })
    }

    /// The same, and to one memory node that is to be added.
    pub fn connect_to_add(fabric: FabricName, names: &[PathBuf], rdma: &RdmaArguments) -> Result<Self, Failure> {
        let pool = match fabric {
            FabricName::Shm => Pool::connect_to_add(names, ShmOptions::default()).map_err(Failure::run)?,
            FabricName::Verbs => connect_verbs(names, rdma, true)?,
        };
        Ok(Self { pool: Arc::new(pool), children: None })
    }

    /// Starts memory nodes and connects to them.
    pub fn start(start: &Start) -> Result<Self, Failure> {
        let children = Children::start(start)?;
        let pool = Pool::connect(children.sockets(), ShmOptions::default()).map_err(Failure::run)?;
        Ok(Self { pool: Arc::new(pool), children: Some(children) })
    }
}

#[cfg(feature = "verbs")]
fn connect_verbs(names: &[PathBuf], rdma: &RdmaArguments, adds: bool) -> Result<Pool, Failure> {
    use dm_host::fabric::verbs::VerbsOptions;
    use dm_host::memory_node::verbs::secret::Secret;
    use dm_host::memory_node::verbs::settings::source;
    let secret = rdma.secret_file.as_deref().map(Secret::load).transpose().map_err(Failure::run)?;
    let source = source(rdma.ib_dev.as_deref(), rdma.ib_port, rdma.gid_index).map_err(Failure::run)?;
    let options = VerbsOptions { secret, source, mtu_bytes: rdma.mtu, ..VerbsOptions::default() };
    let addresses: Vec<_> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let connect = if adds { Pool::connect_verbs_to_add } else { Pool::connect_verbs };
    connect(&addresses, options).map_err(Failure::run)
}

#[cfg(not(feature = "verbs"))]
fn connect_verbs(_: &[PathBuf], _: &RdmaArguments, _: bool) -> Result<Pool, Failure> {
    Err(Failure::Usage(
        "--fabric verbs: this program was built without it; install libibverbs-dev, librdmacm-dev, libclang-dev and \
         pkg-config and build with `--features verbs`"
            .to_owned(),
    ))
}

/// Takes back an index that this compute node created and could not fill.
pub fn discard(node: &ComputeNode, entry: &IndexEntry) -> Result<(), Failure> {
    node.drop_index(entry.name()).map_err(Failure::run)
}
