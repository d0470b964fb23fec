//! The daemon of one memory node: what the programs `dm-memd` and `dm memd` both run.
//!
//! **Restarts.** Memory of its own (a memfd) ends with the daemon. A file, on tmpfs, hugetlbfs or a DAX device, stays as
//! its last writer left it; every WRITE that was acknowledged is in it. A daemon that is started on such a file, with the
//! same options, goes on with it: once no process has it mapped any more ([`crate::region`]), it raises the pool's
//! incarnation in the superblock and serves. Compute nodes of the old incarnation have lost their connections and get
//! `NodeDown`; their rows are fenced, and their locks recovered, like those of any dead. Memory nodes of one pool must be
//! of one incarnation to be opened: a memory node that lost its memory (incarnation 1 again) is told from one that kept
//! it, and nobody works on half a pool. So they are restarted together, or with `--incarnation`.

#[cfg(feature = "verbs")]
use super::verbs::settings::VerbsArguments;
use super::{ServeOptions, serve};
use crate::fabric::shm::{lines, litmus};
use crate::pool::{self, pool_id, pool_name};
use crate::region::layout::DEVICE_BYTES_DEFAULT;
use crate::region::{Backing, LineMode, Region, RegionSpec};
use clap::{Args, Parser, ValueEnum};
use dm_core::remote::superblock::{NodeDescription, PoolPlan, Superblock};
use dm_core::verbs::{NodeId, Space};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use zerocopy::IntoBytes as _;

/// Owns the memory of one memory node and hands it to compute processes of this machine.
#[derive(Debug, Parser)]
#[command(
    name = "dm-memd",
    version,
    args_override_self = true,
    after_help = "Example: a pool of two memory nodes\n  dm-memd --size 4GiB --socket /run/dm/0 --node-id 0 --memory-nodes 2\n  dm-memd --size 4GiB --socket /run/dm/1 --node-id 1 --memory-nodes 2"
)]
pub struct Arguments {
    /// How compute processes reach the memory
    #[arg(long, value_enum, default_value = "shm")]
    fabric: FabricKind,

    /// Size of the region, e.g. 4GiB: a multiple of the page size
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,

    /// Path of the control socket, with --fabric shm
    #[arg(long)]
    socket: Option<PathBuf>,

    #[command(flatten)]
    backing: BackingArguments,

    /// Size of the memory that stands for a NIC's device memory, or of the device memory to take; 0 = none [default:
    /// 256KiB, or as much of the NIC's]
    #[arg(long, value_parser = bytes)]
    device_size: Option<u64>,

    /// How 64-byte lines are kept whole
    #[arg(long, value_enum, default_value = "auto")]
    lines: Lines,

    /// Number of this memory node, from 0
    #[arg(long, default_value_t = 0)]
    node_id: u16,

    /// Memory nodes in the pool
    #[arg(long, default_value_t = 1)]
    memory_nodes: u16,

    /// Name of the pool, at most 16 bytes: the same on all its memory nodes
    #[arg(long, default_value = "pool")]
    pool: String,

    /// Size of a chunk, the unit in which compute nodes are granted memory
    #[arg(long, value_parser = bytes, default_value = "1MiB")]
    chunk_size: u64,

    /// Lock words; they go to device memory if they fit
    #[arg(long, default_value_t = 32_768)]
    locks: u32,

    /// Incarnation of the pool, the same on all its memory nodes [default: 1, or one more than in a file that is kept]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    incarnation: Option<u64>,

    /// Die when the process that started this one does
    #[arg(long)]
    exit_with_parent: bool,

    #[cfg(feature = "verbs")]
    #[command(flatten)]
    verbs: VerbsArguments,
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
enum FabricKind {
    /// Shared memory of this machine
    Shm,
    /// An RDMA device
    Verbs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lines {
    /// avx512 where it is known not to tear, else sequence
    Auto,
    /// One vector instruction per line: fast, not promised by any vendor
    Avx512,
    /// A sequence word per line: holds on any machine
    Sequence,
}

/// Runs the daemon until it is told to stop, as a program called `program`.
pub fn main(program: &str, arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "verbs")]
    let with_file = arguments.with_file()?;
    #[cfg(feature = "verbs")]
    let arguments = with_file.as_ref().unwrap_or(arguments);
    if arguments.exit_with_parent {
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() != parent {
            return Err("the process that started this one is gone".into());
        }
    }
    let (stop, raise) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, raise.try_clone()?)?;
    }
    match arguments.fabric {
        FabricKind::Shm => run_shm(arguments, stop.as_fd()),
        #[cfg(feature = "verbs")]
        FabricKind::Verbs => super::verbs::run(arguments, stop.as_fd()),
        #[cfg(not(feature = "verbs"))]
        FabricKind::Verbs => Err("--fabric verbs: this program was built without it; install libibverbs-dev, \
                                  librdmacm-dev, libclang-dev and pkg-config and build with `--features verbs`"
            .into()),
    }
}

fn run_shm(arguments: &Arguments, stop: BorrowedFd<'_>) -> Result<(), Box<dyn Error>> {
    let (mode, grounds) = choose_lines(arguments.lines)?;
    let device_bytes = arguments.device_size.unwrap_or(u64::from(DEVICE_BYTES_DEFAULT));
    let spec = RegionSpec {
        region_bytes: arguments.size()?,
        device_bytes: u32::try_from(device_bytes).map_err(|_| "--device-size: at most 1 GiB")?,
        mode,
        backing: arguments.backing(),
    };
    let region = Region::create(&spec)?;
    let mut options = ServeOptions {
        socket: arguments.socket.clone().ok_or("--fabric shm needs --socket PATH")?,
        node_id: NodeId(arguments.node_id),
        memory_nodes: arguments.memory_nodes,
        incarnation: arguments.incarnation.unwrap_or(1),
    };
    options.check()?;
    let (plan, incarnation) = arguments.plan_for(&region, region.layout().device_bytes)?;
    options.incarnation = incarnation;
    // Before anything else: a region that cannot hold a pool is refused before the socket exists.
    let superblock = pool::format(&plan)?;
    let format = |region: &Region| region.write_image(0, &superblock);
    serve(region, &options, format, stop, |ready| {
        // Whoever started us may have closed its end: no reason to stop.
        let _ = writeln!(std::io::stdout(), "{ready} ({grounds})");
    })?;
    Ok(())
}

/// The incarnation of the pool in a region that is kept, which must be the one that `plan` makes, but for that.
fn kept_incarnation(region: &Region, plan: &PoolPlan) -> Result<u64, String> {
    let mut bytes = [0; Superblock::BYTES];
    let read = region.area(Space::Host).read(0, &mut bytes);
    let kept = Superblock::from_prefix(&bytes).filter(|_| read.is_ok()).ok_or("the pool in the file cannot be read")?;
    let incarnation = kept.pool_incarnation.get();
    let same = PoolPlan { pool_incarnation: incarnation, ..*plan }.format().map_err(|error| error.to_string())?;
    let rest = Superblock::BYTES - size_of_val(&kept.checksum);
    if same.as_bytes()[..rest] == bytes[..rest] {
        // The checksum may be that of the incarnation before: then the last daemon was killed between the two lines.
        return Ok(incarnation);
    }
    match Superblock::decode(&bytes) {
        Err(error) => Err(format!("the pool in the file cannot be used: {error}")),
        Ok(NodeDescription { identity, geometry, device_bytes, .. }) => Err(format!(
            "the file holds another memory node than asked for: it has --pool {} --node-id {} --memory-nodes {} --size {} \
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

/// The incarnation to go on with.
fn next_incarnation(kept: u64, asked: Option<u64>) -> Result<u64, String> {
    match asked {
        None => kept.checked_add(1).ok_or_else(|| "the pool in the file has seen all incarnations".to_owned()),
        Some(asked) if asked > kept => Ok(asked),
        Some(asked) => Err(format!("--incarnation {asked}: the pool in the file is at {kept} already")),
    }
}

impl Arguments {
    /// Size of the region.
    pub(super) fn size(&self) -> Result<u64, &'static str> {
        self.size.ok_or("--size is needed, e.g. --size 4GiB")
    }

    /// Where its memory comes from.
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
            pool_id: pool_id(&self.pool),
            pool_incarnation: self.incarnation.unwrap_or(1),
            node: NodeId(self.node_id),
            nodes: self.memory_nodes,
            region_bytes: region.layout().region_bytes,
            chunk_bytes: self.chunk_size,
            lock_count: self.locks,
            device_bytes: u64::from(device_bytes),
            redo_row_bytes: 0,
        };
        if region.is_kept() {
            let kept = kept_incarnation(region, &plan)?;
            plan.pool_incarnation = next_incarnation(kept, self.incarnation)?;
        }
        Ok((plan, plan.pool_incarnation))
    }
}

#[cfg(feature = "verbs")]
impl Arguments {
    /// Settings of `--fabric verbs`.
    pub(super) fn verbs(&self) -> &VerbsArguments {
        &self.verbs
    }

    /// Number of the memory node, and how many there are.
    pub(super) fn numbers(&self) -> (u16, u16) {
        (self.node_id, self.memory_nodes)
    }

    /// Bytes of device memory asked for.
    pub(super) fn device_size(&self) -> Option<u64> {
        self.device_size
    }

    /// The same with the settings of its file, if one is named; those of the command line count more.
    fn with_file(&self) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(path) = &self.verbs.config else { return Ok(None) };
        let mut line = vec!["dm-memd".into()];
        line.extend(super::verbs::settings::arguments_of_file(path)?);
        // As given to `dm-memd`, or to `dm memd`.
        let given = std::env::args_os().skip(1).enumerate();
        line.extend(given.filter(|(at, word)| !(*at == 0 && word == "memd")).map(|(_, word)| word));
        Self::try_parse_from(line).map(Some).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("--config {}: {first}", path.display()).into()
        })
    }
}

/// The mode, and on what grounds.
fn choose_lines(lines: Lines) -> Result<(LineMode, String), Box<dyn Error>> {
    match lines {
        Lines::Sequence => Ok((LineMode::Sequence, "as asked".to_owned())),
        Lines::Auto => {
            let litmus::Verdict { mode, litmus } = litmus::Verdict::of_this_machine();
            let grounds = litmus.map_or("no AVX-512".to_owned(), |litmus| format!("vectors: {litmus}"));
            Ok((mode, grounds))
        }
        Lines::Avx512 if !lines::vector_supported() => {
            Err("--lines avx512: this processor has no AVX-512; use --lines sequence".into())
        }
        Lines::Avx512 => match litmus::probe() {
            litmus if litmus.torn > 0 => {
                Err(format!("--lines avx512: lines tear on this machine: {litmus}; use --lines sequence").into())
            }
            litmus => Ok((LineMode::Vector, format!("vectors: {litmus}"))),
        },
    }
}

/// Parses a size such as 4096, 64KiB, 4GiB.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" | "K" | "k" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        unit => return Err(format!("unknown unit {unit:?}: use KiB, MiB, GiB or TiB")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number such as 4GiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "does not fit into 64 bits".to_owned())
}
