//! The command line of the daemon, and what it says about the pool.

use super::log::LogLevel;
use super::size;
use super::sweeper::DeadRow;
#[cfg(feature = "verbs")]
use super::verbs::settings::VerbsArguments;
use crate::pool::{pool_id, pool_name};
use crate::region::{Backing, Region};
use clap::{Args, Parser, ValueEnum};
use dm_core::remote::catalog::INDEX_COUNT;
use dm_core::remote::superblock::{NodeDescription, PoolPlan, Superblock};
use dm_core::verbs::{NodeId, Space};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes as _;

/// Owns the memory of one memory node and hands it to compute processes of this machine.
#[derive(Debug, Parser)]
#[command(
    name = "dm-memd",
    version,
    args_override_self = true,
    after_help = "Example: a pool of two memory nodes\n  dm-memd --size 4GiB --socket /run/dm/0 --node-id 0 --memory-nodes 2\n  dm-memd --size 4GiB --socket /run/dm/1 --node-id 1 --memory-nodes 2\n\n\
                  The log has a line for each compute node that joins, leaves, dies or is fenced, each refusal, start and end. RUST_LOG \
                  in the environment takes a level as --log-level does, or one for each part, e.g. \
                  warn,dm_host::memory_node=debug. Lines begin with the time, unless journald reads them and adds it.\n\n\
                  As a service of systemd, with the settings of /etc/dm/0.toml, at /run/dm/0; the Debian package has a sample of settings in \
                  /usr/share/doc/dm-engine/examples:\n  \
                  systemctl enable --now dm-memd@0\n  journalctl -u dm-memd@0\n  sudo -u dm dm inspect --pool /run/dm/0\n\
                  It runs as the user dm, and so do the processes that use its pool. If it dies it is started again. With --file it then \
                  goes on with its data, and programs have to open the pool anew; without, the data is lost."
)]
pub struct Arguments {
    /// How compute processes reach the memory
    #[arg(long, value_enum, default_value = "shm")]
    pub(super) fabric: FabricKind,

    /// Size of the region, e.g. 4GiB: a multiple of the page size
    #[arg(long, value_parser = size::bytes)]
    size: Option<u64>,

    /// Path of the control socket, with --fabric shm
    #[arg(long)]
    pub(super) socket: Option<PathBuf>,

    #[command(flatten)]
    backing: BackingArguments,

    /// Size of the memory that stands for a NIC's device memory, or of the device memory to take; 0 = none [default:
    /// 256KiB, or as much of the NIC's]
    #[arg(long, value_parser = size::bytes)]
    pub(super) device_size: Option<u64>,

    /// How 64-byte lines are kept whole
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) lines: Lines,

    /// Number of this memory node, from 0
    #[arg(long, default_value_t = 0)]
    pub(super) node_id: u16,

    /// Memory nodes in the pool
    #[arg(long, default_value_t = 1)]
    pub(super) memory_nodes: u16,

    /// Name of the pool, 1 to 16 bytes: the same on all its memory nodes
    // Not --pool, which is how commands and programs name the memory nodes of a pool.
    #[arg(long = "pool-name", value_name = "NAME", default_value = "pool", value_parser = pool_id)]
    pool: [u8; 16],

    /// Size of a chunk, the unit in which compute nodes are granted memory
    #[arg(long, value_parser = size::bytes, default_value = "1MiB")]
    chunk_size: u64,

    /// Lock words; they go to device memory if they fit
    #[arg(long, default_value_t = 32_768)]
    locks: u32,

    /// Incarnation of the pool, the same on all its memory nodes [default: 1, or one more than in a file that is kept]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) incarnation: Option<u64>,

    /// What to tell on the standard error [default: RUST_LOG of the environment, or else info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(super) log_level: Option<LogLevel>,

    /// Serve metrics for Prometheus there, e.g. 127.0.0.1:9471
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) metrics: Option<SocketAddr>,

    /// Read settings from a TOML file: the long names as keys; the command line counts more
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Control sockets of the pool's other memory nodes, for memory node 0: it frees the rows of compute processes that it
    /// saw die
    #[arg(long, value_delimiter = ',', value_name = "SOCKET,...")]
    pub(super) peers: Vec<PathBuf>,

    /// Threads that search and change indexes for compute nodes which call for it, and with --fabric verbs pass calls on from one compute
    /// node to another; 0: none. They sleep while there is nothing to do
    #[arg(long, value_name = "THREADS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=256))]
    pub(super) call_threads: u16,

    /// Leave the rows of compute processes that die to others, and to `dm repair`
    #[arg(long)]
    pub(super) no_sweep: bool,

    /// Be not a daemon but sweep these rows, and end: what a daemon starts
    #[arg(long, value_delimiter = ',', value_name = "ROW:INCARNATION,...", hide = true)]
    pub(super) sweep_rows: Vec<DeadRow>,

    /// Die when the process that started this one does
    #[arg(long)]
    pub(super) exit_with_parent: bool,

    #[cfg(feature = "verbs")]
    #[command(flatten)]
    pub(super) verbs: VerbsArguments,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct BackingArguments {
    /// Take memory from a file: on tmpfs, hugetlbfs or a disk. It must be empty or zero, or hold this memory node of
    /// the pool, which then goes on as it is
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Take memory from huge pages, or fail
    #[arg(long)]
    hugetlb: bool,

    /// Take memory from a DAX device. It must be zero, or hold this memory node of the pool
    #[arg(long, value_name = "PATH")]
    dax: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FabricKind {
    /// Shared memory of this machine
    Shm,
    /// An RDMA device
    Verbs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Lines {
    /// avx512 where it is known not to tear, else sequence
    Auto,
    /// One vector instruction per line: fast, not promised by any vendor
    Avx512,
    /// A sequence word per line: holds on any machine
    Sequence,
}

impl Arguments {
    /// Size of the region.
    pub(super) fn size(&self) -> Result<u64, &'static str> {
        self.size.ok_or("--size is needed, e.g. --size 4GiB")
    }

    /// Where the region's memory comes from.
    pub(super) fn backing(&self) -> Backing {
        match &self.backing {
            BackingArguments { file: Some(path), .. } => Backing::File(path.clone()),
            BackingArguments { dax: Some(path), .. } => Backing::Dax(path.clone()),
            BackingArguments { hugetlb: true, .. } => Backing::HugeTlb,
            _ => Backing::Memfd,
        }
    }

    /// The pool's layout on this memory node, and its incarnation: one more than the last if the region was kept.
    pub(super) fn plan_for(&self, region: &Region, device_bytes: u32) -> Result<(PoolPlan, u64), String> {
        let mut plan = PoolPlan {
            pool_id: self.pool,
            pool_incarnation: self.incarnation.unwrap_or(1),
            node: NodeId(self.node_id),
            nodes: self.memory_nodes,
            region_bytes: region.layout().region_bytes,
            chunk_bytes: self.chunk_size,
            lock_count: self.locks,
            device_bytes: u64::from(device_bytes),
            redo_row_bytes: 0,
            index_count: INDEX_COUNT,
        };
        if region.is_kept() {
            let kept = kept_incarnation(region, &plan)?;
            plan.pool_incarnation = next_incarnation(kept, self.incarnation)?;
        }
        Ok((plan, plan.pool_incarnation))
    }
}

impl Arguments {
    /// The same with the settings of the file, if one is named; the command line overrides the file.
    pub(super) fn with_file(&self) -> Result<Option<Self>, String> {
        let Some(path) = &self.config else { return Ok(None) };
        let mut line = vec!["dm-memd".into()];
        line.extend(arguments_of_file(path)?);
        // The arguments as given to `dm-memd`, or to `dm memd`.
        let given = std::env::args_os().skip(1).enumerate();
        line.extend(given.filter(|(at, word)| !(*at == 0 && word == "memd")).map(|(_, word)| word));
        Self::try_parse_from(line).map(Some).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("--config {}: {first}", path.display())
        })
    }
}

/// Turns a TOML file of settings into arguments: `key = "value"` is `--key value`, `key = true` is `--key`.
fn arguments_of_file(path: &Path) -> Result<Vec<OsString>, String> {
    let wrong = |what: String| format!("--config {}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        wrong(format!("line {line}: {}", error.message().replace('\n', " ")))
    })?;
    let mut arguments = Vec::new();
    for (key, value) in table {
        let flag = format!("--{}", key.replace('_', "-"));
        match value {
            toml::Value::Boolean(false) => {}
            toml::Value::Boolean(true) => arguments.push(flag.into()),
            toml::Value::String(text) => arguments.extend([flag.into(), text.into()]),
            toml::Value::Integer(number) => arguments.extend([flag.into(), number.to_string().into()]),
            other => return Err(wrong(format!("{key}: a {} is no setting", other.type_str()))),
        }
    }
    Ok(arguments)
}

/// The incarnation of the pool in a region that is kept. Apart from the incarnation, that pool must be the one that
/// `plan` makes.
fn kept_incarnation(region: &Region, plan: &PoolPlan) -> Result<u64, String> {
    let mut bytes = [0; Superblock::BYTES];
    let read = region.area(Space::Host).read(0, &mut bytes);
    let kept = Superblock::from_prefix(&bytes).filter(|_| read.is_ok()).ok_or("the pool in the file cannot be read")?;
    let incarnation = kept.pool_incarnation.get();
    let same = PoolPlan { pool_incarnation: incarnation, ..*plan }.format().map_err(|error| error.to_string())?;
    let rest = Superblock::BYTES - size_of_val(&kept.checksum);
    if same.as_bytes()[..rest] == bytes[..rest] {
        // The checksum may be that of the previous incarnation: then the last daemon was killed between writing the two
        // lines.
        return Ok(incarnation);
    }
    match Superblock::decode(&bytes) {
        Err(error) => Err(format!("the pool in the file cannot be used: {error}")),
        Ok(NodeDescription { identity, geometry, device_bytes, .. }) => Err(format!(
            "the file holds another memory node than asked for: it has --pool-name {} --node-id {} --memory-nodes {} --size {} \
             --device-size {} --chunk-size {} --locks {}; start it as that, or delete it",
            pool_name(identity.pool_id),
            identity.node.0,
            identity.nodes,
            geometry.region_bytes,
            device_bytes,
            geometry.chunk_bytes,
            geometry.lock_count
        )),
    }
}

/// The incarnation to continue with.
fn next_incarnation(kept: u64, asked: Option<u64>) -> Result<u64, String> {
    match asked {
        None => kept.checked_add(1).ok_or_else(|| "the pool in the file has seen all incarnations".to_owned()),
        Some(asked) if asked > kept => Ok(asked),
        Some(asked) => Err(format!("--incarnation {asked}: the pool in the file is at {kept} already")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_the_command_line_would() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memd.toml");
        std::fs::write(&path, "size = \"4GiB\"\nlisten = \"10.0.0.1\"\nmtu = 1024\ninsecure = true\nhugetlb = false\n")
            .unwrap();
        let arguments = arguments_of_file(&path).unwrap();
        for pair in [["--size", "4GiB"], ["--mtu", "1024"]] {
            assert!(arguments.windows(2).any(|found| found == pair), "{arguments:?}");
        }
        assert!(arguments.contains(&"--insecure".into()) && !arguments.contains(&"--hugetlb".into()));
        std::fs::write(&path, "size = \n").unwrap();
        assert!(arguments_of_file(&path).unwrap_err().contains("line 1"));
    }
}
