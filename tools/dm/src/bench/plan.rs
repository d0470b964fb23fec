//! What the command line means, checked before anything starts.

use super::bare;
use super::beside;
use super::key_source::{KeySource, key_source};
use super::region_size::{blocks_bytes, region_bytes};
use super::runs::{OPERATIONS, RECORDS, Run, expected_inserts, overrides, runs, scan_length_max};
use super::{Arguments, FabricName, LoadBy, With, Without};
use crate::failure::Failure;
use crate::kinds;
use crate::pool::{RdmaArguments, Start};
use crate::workload::properties::Properties;
use crate::workload::spec::Phase;
use dm_core::btree::Options;
use dm_core::items::parameters::Parameters as AnyLength;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::operation::RECORD_HEADER_BYTES;
use dm_host::assembly::Spending;
use dm_host::compute_node::Membership;
use dm_host::kinds::IndexParameters;
use dm_sim::timing::Profile;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Lanes of a compute node, but for the one that loads and validates.
const LANES_MAX: u32 = 65_533;

/// What the index runs on.
#[derive(Debug)]
pub enum FabricPlan {
    /// Shared memory.
    Shm,
    /// Running memory nodes behind an RDMA device.
    Verbs(RdmaArguments),
    /// Virtual time.
    Sim(Box<SimPlan>),
}

/// A cluster to simulate.
#[derive(Debug)]
pub struct SimPlan {
    /// What the user called the profile.
    pub profile_name: String,
    /// The numbers.
    pub profile: Profile,
    /// Compute nodes.
    pub compute_nodes: u32,
    /// Whether they share machines with memory nodes.
    pub colocated: bool,
    /// No index: READs of so many bytes.
    pub raw_read: Option<u32>,
    /// Each compute node draws keys of a range of its own, and locks in remote memory cost nothing.
    pub own_ranges: bool,
    /// How long after counting begins parts of the keys begin to move to the last compute node, which has none until then.
    pub repartition_at: Option<Duration>,
    /// What a point of the throughput over time is the mean of.
    pub over_time: Option<Duration>,
    /// How many such clusters are in this process at the same time.
    pub jobs: u16,
}

impl SimPlan {
    /// Threads of a compute node, besides those of the clients: one keeps its parts of the keys, if parts move.
    pub fn keepers(&self) -> u32 {
        u32::from(self.repartition_at.is_some())
    }
}

/// Everything `dm bench` is going to do.
#[derive(Debug)]
pub struct Plan {
    /// What the user should hear.
    pub notices: Vec<String>,
    /// Workloads, in order.
    pub runs: Vec<Run>,
    /// How often.
    pub repeat: u16,
    /// Keys.
    pub keys: KeySource,
    /// How long a workload may run that is no load.
    pub most: Option<Duration>,
    /// Records loaded first.
    pub records: u64,
    /// How.
    pub load_by: LoadBy,
    /// Sizes of the index.
    pub parameters: IndexParameters,
    /// Name of the index.
    pub name: String,
    /// Compute nodes: simulated ones, or all in this process.
    pub compute_nodes: u32,
    /// Worker threads of each.
    pub threads: u16,
    /// Lanes of each.
    pub lanes: u16,
    /// What the compute node spends.
    pub spending: Spending,
    /// How it is in the pool.
    pub membership: Membership,
    /// Running memory nodes; empty: start some.
    pub pool: Vec<PathBuf>,
    /// Where the throughput over time goes.
    pub over_time_out: Option<PathBuf>,
    /// What to start.
    pub start: Start,
    /// What the index runs on.
    pub fabric: FabricPlan,
    /// Locks must be in host memory.
    pub without_on_chip: bool,
    /// Raw READs, where there is no workload.
    pub raw_operations: u64,
    /// Seed.
    pub seed: u64,
    /// Check the index at the end.
    pub validate: bool,
    /// Compare with a bare loop.
    pub baseline: bool,
    /// Answer rounds that another process asks for.
    pub is_side: bool,
    /// Files to write.
    pub json: Option<PathBuf>,
    /// Files to write.
    pub trace: Option<PathBuf>,
    /// Techniques switched off and on, by name.
    pub techniques: Vec<String>,
}

impl Plan {
    /// Reads property files and keys, and checks everything that can be checked without memory nodes.
    pub fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let fabric = fabric(arguments)?;
        let mut properties = Properties::new();
        for file in &arguments.property_files {
            properties.merge_file(file).map_err(Failure::usage)?;
        }
        for property in &arguments.properties {
            properties.merge_argument(property).map_err(Failure::usage)?;
        }
        let mut notices = properties.notices().to_vec();
        let mut runs = runs(arguments, &properties, &mut notices)?;
        if !arguments.against.is_empty() {
            // They only say which records are drawn.
            runs.retain(|run| run.spec.phase == Phase::Run);
        }
        check_over_time(arguments, &runs)?;
        let value_bytes = value_bytes(arguments, &runs, &mut notices);
        let kind = arguments.index.0;
        if arguments.baseline && arguments.any_length {
            return Err(Failure::Usage("--baseline: the bare loop is of keys and values of one size".to_owned()));
        }
        let compares = !arguments.against.is_empty();
        if arguments.baseline && !compares {
            bare::check(kind)?;
        }
        let checked = |parameters: IndexParameters| {
            // Names the options: no other parameters can be given here.
            let sound = parameters.check();
            sound.map_err(|error| Failure::Usage(format!("--key-bytes, --value-bytes: {error}")))?;
            Ok::<_, Failure>(parameters)
        };
        let fixed = IndexParameters::with_sizes(kind, arguments.key_bytes, value_bytes).map_err(Failure::usage)?;
        let fixed = if arguments.any_length { None } else { Some(checked(fixed)?) };
        let keys = key_source(arguments, &runs, value_bytes, &mut notices)?;
        let mut parameters = if let Some(fixed) = fixed {
            fixed
        } else {
            let longest = match &keys {
                KeySource::Real(keys) => keys.longest(),
                KeySource::Made(keys) => keys.bytes(),
            };
            let key_bytes_max = longest.max(AnyLength::DEFAULT.key_bytes_max);
            let lengths = AnyLength { key_bytes_max, value_bytes_max: value_bytes };
            checked(IndexParameters::with_any_length(kind, lengths).map_err(Failure::usage)?)?
        };
        if let Some(span) = arguments.leaf_span {
            if !parameters.set_leaf_span(span) {
                let title = kinds::title(&parameters);
                return Err(Failure::Usage(format!("--leaf-span: a leaf of a {title} index is one record")));
            }
            parameters.check().map_err(|error| Failure::Usage(format!("--leaf-span: {error}")))?;
        }
        arguments.kinds.set(&mut parameters)?;

        let repeat = if compares { 0 } else { arguments.repeat };
        let inserts: u64 = if compares {
            beside::INSERTED
        } else {
            runs.iter().map(|run| expected_inserts(&run.spec)).sum::<u64>() * u64::from(repeat)
        };
        let records = records(arguments, &properties, &keys, inserts, &mut notices)?;
        for run in &mut runs {
            run.spec.record_count = records;
            run.spec.validate().map_err(Failure::usage)?;
            if let Some(notice) = run.spec.notice()
                && !notices.iter().any(|known| known == notice)
            {
                notices.push(notice.to_owned());
            }
        }
        if runs.iter().any(|run| run.spec.phase == Phase::Load) && arguments.repeat > 1 {
            return Err(Failure::Usage(
                "--repeat: workload load can run once only; name another --workload".to_owned(),
            ));
        }
        let compute_nodes = compute_nodes(arguments);
        let threads = arguments.threads.unwrap_or_else(|| match fabric {
            FabricPlan::Shm | FabricPlan::Verbs(_) => {
                let cores = thread::available_parallelism().map_or(1, |cores| cores.get().min(16));
                (cores / compute_nodes as usize).max(1) as u16
            }
            // What is simulated does not depend on where.
            FabricPlan::Sim(_) => 16,
        });
        let keepers = match &fabric {
            FabricPlan::Sim(sim) => sim.keepers(),
            FabricPlan::Shm | FabricPlan::Verbs(_) => 0,
        };
        let lanes = (u32::from(threads) + keepers) * u32::from(arguments.lanes);
        if lanes > LANES_MAX {
            return Err(Failure::Usage(format!(
                "--threads {threads} x --lanes {} = {lanes} lanes: a compute node has at most {LANES_MAX}",
                arguments.lanes
            )));
        }
        let page_records = runs.iter().map(|run| scan_length_max(&run.spec)).max().unwrap_or(0).max(128) as usize;
        let without = |technique| arguments.without.contains(&technique);
        let with = |technique| arguments.with.contains(&technique);
        let mut spending = Spending {
            // One more, for loading and validating.
            lanes: lanes as usize + 1,
            cache_bytes: if without(Without::Cache) { 0 } else { arguments.cache_mib << 20 },
            scratch_bytes_max: arguments.scratch_mib_max << 20,
            page_records,
            // As many records as a scan may ask for, of any length.
            page_bytes: page_records * (RECORD_HEADER_BYTES + parameters.key_bytes() + parameters.value_bytes()),
            leaves_at_once: arguments.leaves_at_once.into(),
            hand_overs_max: if without(Without::HandOver) { 0 } else { Spending::default().hand_overs_max },
            options: Options {
                combine: !without(Without::Combine),
                hierarchical: !without(Without::Hierarchical),
                entry_writes: !without(Without::EntryWrites),
                chain_lock_read: if with(With::ChainLockRead) {
                    ChainedRead::Always
                } else if without(Without::ChainLockRead) {
                    ChainedRead::Never
                } else {
                    ChainedRead::default()
                },
                back_off: !without(Without::BackOff),
                unlock: if without(Without::UnlockWrites) {
                    Unlock::Cas
                } else if without(Without::UnlockWithData) {
                    Unlock::Write
                } else {
                    Unlock::default()
                },
                read_guard: !without(Without::ReadGuard),
                rearrange: !without(Without::Rearrange),
                rdwc: with(With::Rdwc),
                shared_updates: !without(Without::SharedUpdates),
                shared_inserts: with(With::SharedInserts),
                subtrees: Spending::default().options.subtrees,
            },
            ..Spending::default()
        };
        arguments.kinds.spend(&mut spending);
        if arguments.any_length && arguments.load_by == LoadBy::Bulk {
            notices.push("--any-length: loaded by inserts".to_owned());
        }
        let load_by = if arguments.any_length { LoadBy::Insert } else { arguments.load_by };
        let load_by_insert = load_by == LoadBy::Insert || runs.iter().any(|run| run.spec.phase == Phase::Load);
        let region_bytes = arguments.region_mib.map_or_else(
            || {
                let nodes = arguments.memory_nodes;
                let blocks =
                    if arguments.any_length { blocks_bytes(&keys, value_bytes, records + inserts, nodes) } else { 0 };
                // Links are entries, too: one for every few keys that share prefixes.
                let entries = if arguments.any_length { records + records / 2 } else { records };
                // What a compute node takes for itself is on one memory node.
                let own_bytes =
                    kinds::pool_bytes(&parameters, &spending) * u64::from(compute_nodes.div_ceil(nodes.into()));
                region_bytes(&parameters, entries, inserts, load_by_insert, nodes)
                    + blocks
                    + own_bytes.next_multiple_of(2 << 20)
            },
            |mib| mib << 20,
        );
        let named = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        use clap::ValueEnum as _;
        let techniques = arguments
            .without
            .iter()
            .map(|technique| format!("without {}", named(&|| technique.to_possible_value())))
            .chain(arguments.with.iter().map(|technique| format!("with {}", named(&|| technique.to_possible_value()))))
            .chain(arguments.kinds.techniques(parameters.kind()))
            .collect();
        Ok(Self {
            notices,
            runs,
            repeat,
            keys,
            most: arguments.seconds,
            records,
            load_by,
            parameters,
            name: arguments.name.clone(),
            compute_nodes,
            threads,
            lanes: arguments.lanes,
            spending,
            membership: Membership { terms: arguments.lease.terms()?, recovery: !without(Without::Recovery) },
            pool: arguments.pool.clone(),
            over_time_out: arguments.over_time_out.clone(),
            start: Start {
                memory_nodes: arguments.memory_nodes,
                region_bytes,
                chunk_bytes: None,
                device_bytes: without(Without::OnChip).then_some(0),
                lines: arguments.lines.argument().to_owned(),
            },
            without_on_chip: without(Without::OnChip),
            raw_operations: arguments.operations.unwrap_or(OPERATIONS),
            fabric,
            seed: arguments.seed,
            validate: !arguments.no_validate,
            baseline: arguments.baseline,
            is_side: arguments.side.is_some(),
            json: arguments.json.clone(),
            trace: arguments.trace.clone(),
            techniques,
        })
    }

    /// The index, in reports.
    pub fn index_name(&self) -> &'static str {
        match &self.fabric {
            FabricPlan::Sim(sim) if sim.raw_read.is_some() => "no index",
            _ => self.parameters.kind().name(),
        }
    }

    /// Whether the first run puts the records into the index itself.
    pub fn loads_in_run(&self) -> bool {
        self.runs.first().is_some_and(|run| run.spec.phase == Phase::Load)
    }
}

/// How many compute nodes there are.
fn compute_nodes(arguments: &Arguments) -> u32 {
    arguments.compute_nodes.unwrap_or(1)
}

/// What to run on, and whether the other options go with it.
fn fabric(arguments: &Arguments) -> Result<FabricPlan, Failure> {
    let refuse = |options: &[(&str, bool)], why: &str| {
        let given = options.iter().find(|(_, given)| *given);
        given.map_or(Ok(()), |(option, _)| Err(Failure::Usage(format!("{option}: {why}"))))
    };
    if arguments.fabric != FabricName::Sim {
        let simulated = [
            ("--profile", arguments.profile.is_some()),
            ("--colocated", arguments.colocated),
            ("--memory-cores", arguments.memory_cores.is_some()),
            ("--raw-read", arguments.raw_read.is_some()),
            ("--repartition-at", arguments.repartition_at.is_some()),
            ("--over-time", arguments.over_time.is_some()),
            ("--jobs", arguments.jobs.is_some()),
            ("--with own-ranges", arguments.with.contains(&With::OwnRanges)),
        ];
        refuse(&simulated, "only with --fabric sim")?;
        if arguments.compute_nodes.is_some_and(|nodes| nodes > 1) {
            let single = [("--baseline", arguments.baseline), ("--any-length", arguments.any_length)];
            refuse(&single, "only with one compute node")?;
        }
        if arguments.fabric == FabricName::Shm {
            return Ok(FabricPlan::Shm);
        }
        if arguments.pool.is_empty() {
            return Err(Failure::Usage(
                "--fabric verbs: name running memory nodes with --pool ADDRESS,...; start them with `dm-memd --fabric \
                 verbs`"
                    .to_owned(),
            ));
        }
        refuse(&[("--baseline", arguments.baseline)], "only with --fabric shm")?;
        return Ok(FabricPlan::Verbs(arguments.rdma.clone()));
    }
    let real = [
        ("--pool", !arguments.pool.is_empty()),
        ("--baseline", arguments.baseline),
        ("--trace", arguments.trace.is_some()),
        ("--seconds", arguments.seconds.is_some()),
        ("--lines", arguments.lines != super::LinesName::Auto),
    ];
    refuse(&real, "only with --fabric shm")?;
    let profile_name = arguments.profile.clone().unwrap_or_else(|| "cx6".to_owned());
    let mut profile = Profile::load(&profile_name).map_err(|error| Failure::Usage(format!("--profile: {error}")))?;
    profile.rpc.cores = arguments.memory_cores.unwrap_or(profile.rpc.cores);
    let compute_nodes = compute_nodes(arguments);
    Ok(FabricPlan::Sim(Box::new(SimPlan {
        profile_name,
        profile,
        compute_nodes,
        colocated: arguments.colocated,
        raw_read: arguments.raw_read,
        own_ranges: arguments.with.contains(&With::OwnRanges),
        repartition_at: arguments.repartition_at,
        over_time: arguments.over_time,
        jobs: arguments.jobs.unwrap_or(1),
    })))
}

/// Refuses what has no throughput over time, or lets no parts of the keys move.
fn check_over_time(arguments: &Arguments, runs: &[Run]) -> Result<(), Failure> {
    let option = match (arguments.repartition_at, arguments.over_time) {
        (Some(_), _) => "--repartition-at",
        (None, Some(_)) => "--over-time",
        (None, None) => return Ok(()),
    };
    let wrong = |why: &str| Err(Failure::Usage(format!("{option}: {why}")));
    let [run] = runs else { return wrong("of one workload: name it with --workload, or by its properties") };
    if arguments.repeat > 1 || run.spec.phase == Phase::Load {
        return wrong("of one run, and not of a load");
    }
    if arguments.repartition_at.is_none() {
        return Ok(());
    }
    if compute_nodes(arguments) < 2 {
        return wrong("keys move from one compute node to another: --compute-nodes 2 or more");
    }
    if arguments.with.contains(&With::OwnRanges) {
        return wrong("not with --with own-ranges, of which the index knows nothing");
    }
    // The compute nodes count inserts apart, and a record is inserted by the one that owns it when it gets there: of a part that
    // moves, some would be inserted twice, and some by nobody.
    if run.spec.proportions.insert > 0.0 || arguments.load_by == LoadBy::Insert {
        return wrong("with reads, updates and scans only, and a bulk load");
    }
    Ok(())
}

fn value_bytes(arguments: &Arguments, runs: &[Run], notices: &mut Vec<String>) -> usize {
    let property = runs.iter().find_map(|run| run.spec.value_bytes);
    let Some(bytes) = arguments.value_bytes else {
        if property.is_none() && !(arguments.property_files.is_empty() && arguments.properties.is_empty()) {
            notices.push(
                "values of 8 bytes; YCSB's default is 10 fields of 100 bytes: -p fieldcount=10, or --value-bytes 1000"
                    .to_owned(),
            );
        }
        return property.unwrap_or(8) as usize;
    };
    overrides(notices, "--value-bytes", bytes as u64, "fieldcount x fieldlength", property.map(u64::from));
    bytes
}

/// Records to load: as asked for; of real keys all, but for those that the workloads will insert.
fn records(
    arguments: &Arguments,
    properties: &Properties,
    keys: &KeySource,
    inserts: u64,
    notices: &mut Vec<String>,
) -> Result<u64, Failure> {
    let property = properties.whole("recordcount", 1, 1 << 48).map_err(Failure::usage)?;
    if let Some(records) = arguments.records {
        overrides(notices, "--records", records, "recordcount", property);
    }
    let asked = arguments.records.or(property);
    let KeySource::Real(_) = keys else { return Ok(asked.unwrap_or(RECORDS)) };
    // Whether an operation inserts is drawn: leave room for more than the expected number.
    let held_back = if inserts == 0 { 0 } else { inserts + inserts / 10 + 1000 };
    let most = keys.len().saturating_sub(held_back);
    let records = asked.unwrap_or(most);
    if records == 0 || records > most {
        return Err(Failure::Usage(format!(
            "--keys: {} keys are too few for {} records and about {inserts} inserts; lower --operations or choose a \
             workload without inserts",
            keys.len(),
            asked.map_or_else(|| "any".to_owned(), |asked| asked.to_string()),
        )));
    }
    if held_back > 0 && asked.is_none() {
        notices.push(format!("{held_back} of the keys are kept for inserts, {records} are loaded"));
    }
    Ok(records)
}
