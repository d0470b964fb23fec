//! `dm bench`: load an index, warm its cache, run YCSB workloads on it, check it, report.
//!
//! | file | what it is |
//! |---|---|
//! | this one | the command line |
//! | [`plan`] | what the command line means, checked before anything starts |
//! | [`runs`], [`key_source`], `region_size` | its workloads, its keys, and the size of memory nodes |
//! | [`generator`] | the load: draws operations, checks their results, counts |
//! | `owners` | which keys a compute node draws, where keys have owners |
//! | [`engine`] | what every engine does: loading, warming, running, validating |
//! | [`shm`] | real threads, memory nodes that are processes |
//! | `threads` | an open index and the threads that work on it |
//! | [`sim`] | a cluster in virtual time |
//! | `cluster_work` | what the lanes of that cluster do: clients, and parts of the keys that move |
//! | [`over_time`] | throughput over virtual time; a curve |
//! | [`sweep`] | the same for several values of one option; curves |
//! | [`baseline`] | the same look-ups and updates in a bare loop, to compare the engine with; [`comparison`]: the results |
//! | [`against`] | several indexes beside each other, each in a process; `side`: what such a process does |
//! | [`output`] | tables and JSON |
//!
//! Load generators drive lanes directly: one worker thread per `--threads`, each with a fabric value and `--lanes` lanes
//! of its own, all on one index. Nothing is allocated per operation.
//!
//! **Retries** are counted per operation as the worker does: see [`dm_host::worker::RETRIES`].

pub mod against;
mod bare;
pub mod baseline;
mod beside;
mod cluster_work;
pub mod comparison;
pub mod engine;
pub mod generator;
pub mod key_source;
pub mod output;
pub mod over_time;
mod owners;
pub mod plan;
mod region_size;
pub mod runs;
pub mod shm;
pub mod side;
pub mod sim;
pub mod sweep;
mod threads;

use crate::failure::Failure;
use crate::kinds::{BenchOptions, KindName};
use crate::pool::RdmaArguments;
use crate::tool::{LeaseArguments, milliseconds, seconds};
use crate::workload::trace::TraceWriter;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Arguments of `dm bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm bench\n      1 M records of 8+8 bytes on two memory nodes, workloads load, a, b, c, d, e, f\n  \
                  dm bench --workload c --records 10000000 --threads 1 --baseline\n      searches beside a bare loop\n  \
                  dm bench --baseline --against congee --lanes 8\n      \
                  beside an index in local memory, each in a process of its own\n  \
                  dm bench --workload a --without combine,hierarchical --json a.json\n      what two techniques together bring\n  \
                  find / -xdev | dm bench --any-length --workload c --keys - --skip-bad-keys\n      real keys of any length\n  \
                  find / -xdev | cut -c -63 | dm bench --workload c --keys - --key-bytes 64 --skip-bad-keys\n      real keys in slots\n  \
                  dm bench --fabric sim --profile cx6 --compute-nodes 10 --threads 64 --lanes 1 --memory-nodes 1 --workload c\n      \
                  what ten machines would do, in virtual time\n  \
                  dm bench --fabric sim --workload a --sweep threads=1,2,4,8,16,32 --sweep-out a\n      a.csv and a.svg"
)]
pub struct Arguments {
    /// The index
    #[arg(long, value_enum, default_value_t)]
    pub index: KindName,

    /// How compute nodes reach memory nodes
    #[arg(long, value_enum, default_value = "shm")]
    pub fabric: FabricName,

    /// A standard workload; without one, and without properties, all are run in this order
    #[arg(long, value_enum)]
    pub workload: Option<WorkloadName>,

    /// A YCSB property file; may be repeated, later ones count
    #[arg(short = 'P', value_name = "FILE")]
    pub property_files: Vec<PathBuf>,

    /// A YCSB property; counts more than the files
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    pub properties: Vec<String>,

    /// Records loaded [default: 1000000, or recordcount]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 40))]
    pub records: Option<u64>,

    /// Operations of each workload [default: 2000000, of scans a tenth, or operationcount]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 40))]
    pub operations: Option<u64>,

    /// Stop each workload after so many seconds, or with its last operation if that comes first; a load is not stopped
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Worker threads of each compute node [default: one per processor, at most 16, over all of them]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Lanes of each thread: operations in flight
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: u16,

    /// Memory nodes to start
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256), conflicts_with = "pool")]
    pub memory_nodes: u16,

    /// Bytes of a key slot, 8 to 64
    #[arg(long, default_value_t = 8)]
    pub key_bytes: usize,

    /// Bytes of a value, 8 to 1024 [default: 8, or fieldcount x fieldlength]
    #[arg(long)]
    pub value_bytes: Option<usize>,

    /// Which records are popular [default: the workload's]
    #[arg(long, value_enum)]
    pub distribution: Option<DistributionName>,

    /// What zipfian means: hot records scattered (ycsb), or in the order of record numbers (ranked)
    #[arg(long, value_enum)]
    pub zipf: Option<ZipfName>,

    /// Index cache of the compute node, in MiB
    #[arg(long, default_value_t = 64, value_parser = RangedU64ValueParser::<u64>::new().range(0..=1 << 20))]
    pub cache_mib: u64,

    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Write the results to a file, for machines
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Load real keys, one per line, - for the standard input; as many records as there are keys
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,

    /// Keys and values of any length: lines of --keys as they are, up to 4096 bytes
    #[arg(long)]
    pub any_length: bool,

    /// Leave out keys that come twice or are too long, instead of stopping at them
    #[arg(long, requires = "keys")]
    pub skip_bad_keys: bool,

    /// Write every verb of every operation to a file; slows the run down
    #[arg(long, value_name = "FILE.csv")]
    pub trace: Option<PathBuf>,

    /// Switch techniques off, for factor analysis
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TECHNIQUE,...")]
    pub without: Vec<Without>,

    /// Switch techniques on that are off by default
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TECHNIQUE,...")]
    pub with: Vec<With>,

    /// The lease of the compute node.
    #[command(flatten)]
    pub lease: LeaseArguments,

    /// How memory nodes keep 64-byte lines whole
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "pool")]
    pub lines: LinesName,

    /// Use running memory nodes: their control sockets
    #[arg(long, value_delimiter = ',', value_name = "SOCKET,...")]
    pub pool: Vec<PathBuf>,

    /// What reaching memory nodes over RDMA needs
    #[command(flatten)]
    pub rdma: RdmaArguments,

    /// Name of the index in the pool
    #[arg(long, default_value = "bench")]
    pub name: String,

    /// How records get into the index; workload load always inserts them
    #[arg(long, value_enum, default_value = "bulk")]
    pub load_by: LoadBy,

    /// Do not check the whole index at the end
    #[arg(long)]
    pub no_validate: bool,

    /// Run the workloads so many times, in turn, and report each run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeat: u16,

    /// Compare searches and updates with a bare loop that does the same without the engine, in turn, one thread
    #[arg(long)]
    pub baseline: bool,

    /// Run no workload, but compare gets, updates, scans and inserts with other indexes, each in a process of its own: congee (an
    /// adaptive radix tree in local memory: `cargo build --release -p dm --bins --example against_congee`), or an --index
    #[arg(long, value_name = "INDEX,...", value_delimiter = ',', value_parser = against::Rival::parse, requires = "baseline")]
    pub against: Vec<against::Rival>,

    /// What --against starts: one index of the comparison
    #[arg(long, hide = true, value_parser = side::Side::parse)]
    pub side: Option<side::Side>,

    /// Most memory for the lanes' buffers, in MiB
    #[arg(long, default_value_t = 1024, value_parser = RangedU64ValueParser::<u64>::new().range(0..=1 << 20))]
    pub scratch_mib_max: u64,

    /// Region of each memory node, in MiB [default: what the records need]
    #[arg(long, conflicts_with = "pool", value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 28))]
    pub region_mib: Option<u64>,

    /// Entries of a leaf, 2 to 512 [default: what fits 1 KiB, at least 16]
    #[arg(long)]
    pub leaf_span: Option<usize>,

    #[command(flatten)]
    pub kinds: BenchOptions,

    /// Leaves a scan READs at once; of SMART, whose leaves are of one record, four times as many
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub leaves_at_once: u8,

    /// Simulated: numbers of the cluster, a name (cx5, cx6, cx7-200g, soft-roce, cxl) or a file [default: cx6]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub profile: Option<String>,

    /// Compute nodes, each with --threads, --lanes and a cache of its own; if they are not simulated, all in this process
    /// [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=127))]
    pub compute_nodes: Option<u32>,

    /// Simulated: compute node i and memory node i are one machine with one NIC
    #[arg(long)]
    pub colocated: bool,

    /// Simulated: processors of each memory node that answer calls [default: the profile's]
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub memory_cores: Option<u32>,

    /// Simulated: the last compute node owns no keys at first; so long after counting begins, half of the parts of the one before it
    /// move to it, one after the other
    #[arg(long, value_name = "MS", value_parser = milliseconds, conflicts_with = "raw_read")]
    pub repartition_at: Option<Duration>,

    /// Simulated: throughput over virtual time, of the cluster and of each compute node, with a point for so many milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, requires = "over_time_out",
          conflicts_with_all = ["raw_read", "sweep"])]
    pub over_time: Option<Duration>,

    /// Where it goes: PREFIX.csv and PREFIX.svg
    #[arg(long, value_name = "PREFIX", requires = "over_time")]
    pub over_time_out: Option<PathBuf>,

    /// Simulated: no index, every operation is one READ of so many bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(8..=1 << 20),
          conflicts_with_all = ["workload", "property_files", "properties", "keys", "records", "load_by", "without", "with"])]
    pub raw_read: Option<u32>,

    /// Run for each value of an option: threads, lanes, compute-nodes, memory-nodes, memory-cores, cache-mib, key-bytes, value-bytes,
    /// leaf-span, neighborhood, hotspot-mib, leaf-cache-mib, offload, raw-read, zipfianconstant. Given two or three times: for each
    /// choice of values, with curves over the first option, one for each choice of the others
    #[arg(long, value_name = "OPTION=VALUE,...", requires = "sweep_out")]
    pub sweep: Vec<String>,

    /// Where the curves go: PREFIX.csv and PREFIX.svg
    #[arg(long, value_name = "PREFIX", requires = "sweep")]
    pub sweep_out: Option<PathBuf>,

    /// Simulated: so many choices of a sweep run at the same time, each on a processor and with memory of its own [default: 1]
    #[arg(long, value_name = "N", requires = "sweep", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub enum $name { $($(#[$item_doc])* $item,)* }
    )*};
}

names! {
    /// A fabric.
    FabricName {
        /// Shared memory of this machine
        Shm,
        /// An RDMA device, with --pool
        Verbs,
        /// A cluster in virtual time
        Sim,
    }
    /// A standard workload.
    WorkloadName {
        /// Insert every record
        Load,
        /// 50 % reads, 50 % updates
        A,
        /// 95 % reads, 5 % updates
        B,
        /// Reads
        C,
        /// 95 % reads of new records, 5 % inserts
        D,
        /// 95 % scans, 5 % inserts
        E,
        /// 50 % reads, 50 % read-modify-writes
        F,
    }
    /// Which records are popular.
    DistributionName {
        /// A few draw most operations
        Zipfian,
        /// All alike
        Uniform,
        /// The newest
        Latest,
    }
    /// What zipfian means.
    ZipfName {
        /// Popular records are scattered by a hash
        Ycsb,
        /// The lower the record number the more popular
        Ranked,
    }
    /// How lines are kept whole.
    LinesName {
        /// avx512 where it is known not to tear, else sequence
        Auto,
        /// One vector instruction per line
        Avx512,
        /// A sequence word per line
        Sequence,
    }
    /// How records get into the index.
    LoadBy {
        /// Sorted, node by node
        Bulk,
        /// One insert each
        Insert,
    }
    /// Techniques that are on.
    Without {
        /// Write-back and unlock in one chain
        Combine,
        /// Local queues in front of remote locks
        Hierarchical,
        /// Handing held locks over
        HandOver,
        /// Writing one entry instead of the node
        EntryWrites,
        /// The index cache
        Cache,
        /// Locks in device memory
        OnChip,
        /// Freeing held locks by WRITE: by CAS instead
        UnlockWrites,
        /// Freeing held locks by the WRITE of the data in front of them
        UnlockWithData,
        /// READ of the leaf in the chain of the lock's CAS, where few CASes lose
        ChainLockRead,
        /// Pausing after a lost lock
        BackOff,
        /// Repeating READs that took too long for versions to vouch for, as the papers' programs do not
        ReadGuard,
        /// Rewriting a leaf of a CHIME with its records in other entries before splitting it
        Rearrange,
        /// Updating a leaf of a Dolphin beside other compute nodes
        SharedUpdates,
        /// Redo records, by which others finish the WRITEs in which this compute node died
        Recovery,
    }
    /// Techniques that are off.
    With {
        /// READ the leaf in the chain of the lock's CAS also where many CASes lose
        ChainLockRead,
        /// Read delegation and write combining
        Rdwc,
        /// Inserting into a leaf of a Dolphin beside other compute nodes, by CAS of its cells
        SharedInserts,
        /// Simulated: each compute node draws keys of a range of its own, and locks in remote memory cost nothing
        OwnRanges,
    }
}

impl LinesName {
    /// What the daemon calls it.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Avx512 => "avx512",
            Self::Sequence => "sequence",
        }
    }
}

/// Does what `dm bench` was asked for.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(prefix) = &arguments.sweep_out {
        return sweep::run(arguments, prefix);
    }
    if let Some(side) = arguments.side {
        return side::run(side, arguments);
    }
    let plan = plan::Plan::new(arguments)?;
    for notice in &plan.notices {
        eprintln!("note: {notice}");
    }
    let measured = if arguments.against.is_empty() { execute(&plan)? } else { against::run(arguments, &plan)? };
    output::write(&plan, &measured)?;
    measured.verdict()
}

/// Does what was planned.
pub(crate) fn execute(plan: &plan::Plan) -> Result<engine::Measured, Failure> {
    // The trace is created first: a name that cannot be written to is told before minutes of work.
    let trace = plan.trace.as_deref().map(TraceWriter::create).transpose().map_err(Failure::run)?.map(Mutex::new);
    if let Some(path) = &plan.json {
        File::create(path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    if let Some(prefix) = &plan.over_time_out {
        over_time::create(prefix)?;
    }
    let measured = match &plan.fabric {
        plan::FabricPlan::Shm | plan::FabricPlan::Verbs(_) => shm::run(plan, trace.as_ref())?,
        plan::FabricPlan::Sim(sim) => sim::run(plan, sim)?,
    };
    if let Some(trace) = trace {
        trace.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(Failure::run)?;
    }
    Ok(measured)
}
