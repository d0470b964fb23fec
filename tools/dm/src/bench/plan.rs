//! What the command line means, checked before anything starts.

use super::bare;
use super::{Arguments, DistributionName, FabricName, LoadBy, With, Without, WorkloadName, ZipfName};
use crate::failure::Failure;
use crate::keys::{BadKeys, RealKeys};
use crate::kinds;
use crate::pool::{RdmaArguments, Start};
use crate::workload::keys::{self, Keys};
use crate::workload::properties::Properties;
use crate::workload::random::mix;
use crate::workload::spec::{Phase, RequestDistribution, Spec, StandardWorkload, ZipfianMeaning};
use dm_core::btree::Options;
use dm_core::items::block::{KEY_BYTES_LIMIT, block_bytes, class_bytes, class_of};
use dm_core::items::parameters::Parameters as ItemParameters;
use dm_core::operation::{Part, RECORD_HEADER_BYTES, ScratchPlan};
use dm_host::assembly::Spending;
use dm_host::compute_node::Membership;
use dm_host::kinds::IndexParameters;
use dm_sim::timing::Profile;
use std::path::PathBuf;
use std::thread;

/// Records unless told otherwise: what loads and runs in seconds.
const RECORDS: u64 = 1_000_000;
/// Operations of a workload unless told otherwise.
const OPERATIONS: u64 = 2_000_000;
/// The same, of workloads that mostly scan.
const SCANS: u64 = 200_000;
/// Lanes of a compute node, but for the one that loads and validates.
const LANES_MAX: u32 = 65_533;
/// Smallest region of a memory node of our own, in bytes: room for chunks half used.
const REGION_BYTES_MIN: u64 = 32 << 20;

/// Where keys come from.
#[derive(Debug)]
pub enum KeySource {
    /// Made from record numbers.
    Made(Keys),
    /// Read from a file.
    Real(RealKeys),
}

impl KeySource {
    /// Writes the key of `record` into `room` and says how long it is; `None`: there is no such record.
    #[inline]
    pub fn write(&self, record: u64, room: &mut [u8]) -> Option<usize> {
        match self {
            Self::Made(keys) => {
                keys.write(record, room.get_mut(..keys.bytes())?);
                Some(keys.bytes())
            }
            Self::Real(keys) => keys.write(record, room),
        }
    }

    /// Writes the key of `record` where an operation looks for it; `false`: there is no such record.
    #[inline]
    pub fn put(&self, record: u64, scratch: &mut [u8], plan: &ScratchPlan) -> bool {
        let length = scratch.get_mut(plan.key.clone()).and_then(|room| self.write(record, room));
        length.is_some_and(|length| plan.set_length(scratch, Part::Key, length))
    }

    /// The number by which values recognise the record of `slot`: with made keys the record's own.
    #[inline]
    pub fn identity(&self, record: u64, slot: &[u8]) -> u64 {
        match self {
            Self::Made(_) => record,
            Self::Real(_) => identity_of(slot),
        }
    }

    /// The same for a key that a scan found; `None`: no record has such a key.
    #[inline]
    pub fn identity_found(&self, slot: &[u8]) -> Option<u64> {
        match self {
            Self::Made(keys) => keys.record_of(slot),
            Self::Real(keys) if keys.slot_bytes().is_none() => Some(identity_of(slot)),
            Self::Real(_) => crate::keys::decode(slot).map(|_| identity_of(slot)),
        }
    }

    /// Keys there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Made(_) => u64::MAX,
            Self::Real(keys) => keys.len() as u64,
        }
    }
}

fn identity_of(slot: &[u8]) -> u64 {
    slot.chunks(8).fold(0, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word)).wrapping_add(1)
    })
}

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
}

/// One workload to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name in reports.
    pub name: String,
    /// What it is; its record count is set anew before it starts.
    pub spec: Spec,
}

impl Run {
    /// Operations on an index of `records` records.
    pub fn operations(&self, records: u64) -> u64 {
        match self.spec.phase {
            Phase::Load => records,
            Phase::Run => self.spec.operation_count.unwrap_or(0),
        }
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
    /// Records loaded first.
    pub records: u64,
    /// How.
    pub load_by: LoadBy,
    /// Sizes of the index.
    pub parameters: IndexParameters,
    /// Name of the index.
    pub name: String,
    /// Worker threads.
    pub threads: u16,
    /// Lanes of each.
    pub lanes: u16,
    /// What the compute node spends.
    pub spending: Spending,
    /// How it is in the pool.
    pub membership: Membership,
    /// Running memory nodes; empty: start some.
    pub pool: Vec<PathBuf>,
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
        let value_bytes = value_bytes(arguments, &runs, &mut notices);
        let kind = arguments.index.0;
        if arguments.baseline && arguments.items {
            return Err(Failure::Usage("--baseline: the bare loop is of keys and values of one size".to_owned()));
        }
        if arguments.baseline {
            bare::check(kind)?;
        }
        let checked = |parameters: IndexParameters| {
            // Names the options: no other parameters can be given here.
            let sound = parameters.check();
            sound.map_err(|error| Failure::Usage(format!("--key-bytes, --value-bytes: {error}")))?;
            Ok::<_, Failure>(parameters)
        };
        let fixed = IndexParameters::with_sizes(kind, arguments.key_bytes, value_bytes).map_err(Failure::usage)?;
        let fixed = if arguments.items { None } else { Some(checked(fixed)?) };
        let keys = key_source(arguments, &runs, value_bytes, &mut notices)?;
        let mut parameters = if let Some(fixed) = fixed {
            fixed
        } else {
            let longest = match &keys {
                KeySource::Real(keys) => keys.longest(),
                KeySource::Made(keys) => keys.bytes(),
            };
            let key_bytes_max = longest.max(ItemParameters::DEFAULT.key_bytes_max);
            let items = ItemParameters { key_bytes_max, value_bytes_max: value_bytes };
            checked(IndexParameters::with_items(kind, items).map_err(Failure::usage)?)?
        };
        if let Some(span) = arguments.leaf_span {
            if !parameters.set_leaf_span(span) {
                let title = kinds::title(&parameters);
                return Err(Failure::Usage(format!("--leaf-span: a leaf of a {title} index is one record")));
            }
            parameters.check().map_err(|error| Failure::Usage(format!("--leaf-span: {error}")))?;
        }
        arguments.kinds.set(&mut parameters)?;

        let inserts: u64 =
            runs.iter().map(|run| expected_inserts(&run.spec)).sum::<u64>() * u64::from(arguments.repeat);
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
        let threads = arguments.threads.unwrap_or_else(|| match fabric {
            FabricPlan::Shm | FabricPlan::Verbs(_) => {
                thread::available_parallelism().map_or(1, |cores| cores.get().min(16)) as u16
            }
            // What is simulated does not depend on where.
            FabricPlan::Sim(_) => 16,
        });
        let lanes = u32::from(threads) * u32::from(arguments.lanes);
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
            lanes: usize::from(threads) * usize::from(arguments.lanes) + 1,
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
                chain_lock_read: with(With::ChainLockRead),
                back_off: !without(Without::BackOff),
                read_guard: !without(Without::ReadGuard),
                rearrange: !without(Without::Rearrange),
                rdwc: with(With::Rdwc),
            },
            ..Spending::default()
        };
        arguments.kinds.spend(&mut spending);
        if arguments.items && arguments.load_by == LoadBy::Bulk {
            notices.push("--items: loaded by inserts".to_owned());
        }
        let load_by = if arguments.items { LoadBy::Insert } else { arguments.load_by };
        let load_by_insert = load_by == LoadBy::Insert || runs.iter().any(|run| run.spec.phase == Phase::Load);
        let region_bytes = arguments.region_mib.map_or_else(
            || {
                let nodes = arguments.memory_nodes;
                let blocks =
                    if arguments.items { blocks_bytes(&keys, value_bytes, records + inserts, nodes) } else { 0 };
                // Links are entries, too: one for every few keys that share prefixes.
                let entries = if arguments.items { records + records / 2 } else { records };
                region_bytes(&parameters, entries, inserts, load_by_insert, nodes) + blocks
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
            .collect();
        Ok(Self {
            notices,
            runs,
            repeat: arguments.repeat,
            keys,
            records,
            load_by,
            parameters,
            name: arguments.name.clone(),
            threads,
            lanes: arguments.lanes,
            spending,
            membership: Membership { terms: arguments.lease.terms()?, recovery: !without(Without::Recovery) },
            pool: arguments.pool.clone(),
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

/// What to run on, and whether the other options go with it.
fn fabric(arguments: &Arguments) -> Result<FabricPlan, Failure> {
    let refuse = |options: &[(&str, bool)], why: &str| {
        let given = options.iter().find(|(_, given)| *given);
        given.map_or(Ok(()), |(option, _)| Err(Failure::Usage(format!("{option}: {why}"))))
    };
    if arguments.fabric != FabricName::Sim {
        let simulated = [
            ("--profile", arguments.profile.is_some()),
            ("--compute-nodes", arguments.compute_nodes.is_some()),
            ("--colocated", arguments.colocated),
            ("--raw-read", arguments.raw_read.is_some()),
        ];
        refuse(&simulated, "only with --fabric sim")?;
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
        ("--lines", arguments.lines != super::LinesName::Auto),
    ];
    refuse(&real, "only with --fabric shm")?;
    let profile_name = arguments.profile.clone().unwrap_or_else(|| "cx6".to_owned());
    let profile = Profile::load(&profile_name).map_err(|error| Failure::Usage(format!("--profile: {error}")))?;
    let compute_nodes = arguments.compute_nodes.unwrap_or(1);
    Ok(FabricPlan::Sim(Box::new(SimPlan {
        profile_name,
        profile,
        compute_nodes,
        colocated: arguments.colocated,
        raw_read: arguments.raw_read,
    })))
}

/// The workloads asked for, with properties and options in place; record counts are not set yet.
fn runs(arguments: &Arguments, properties: &Properties, notices: &mut Vec<String>) -> Result<Vec<Run>, Failure> {
    let is_customised = !arguments.property_files.is_empty() || !arguments.properties.is_empty();
    let mut named: Vec<(String, Spec)> = Vec::new();
    let standard = |workload: StandardWorkload| (workload.name().to_owned(), Spec::standard(workload));
    match arguments.workload {
        Some(name) => named.push(standard(name.standard())),
        None if is_customised => {
            let file = arguments.property_files.last().and_then(|file| file.file_name());
            let name = file.map_or_else(|| "properties".to_owned(), |name| name.to_string_lossy().into_owned());
            named.push((name, Spec::core()));
        }
        None => named.extend(StandardWorkload::ALL.map(|(_, workload)| standard(workload))),
    }
    let mut runs = Vec::new();
    for (name, spec) in named {
        let mut spec = Spec { record_count: RECORDS, operation_count: None, ..spec }
            .with_properties(properties)
            .map_err(Failure::usage)?;
        if let Some(operations) = arguments.operations {
            overrides(notices, "--operations", operations, "operationcount", spec.operation_count);
            spec.operation_count = Some(operations);
        } else if spec.operation_count.is_none() {
            spec.operation_count = Some(if spec.proportions.scan > 0.5 { SCANS } else { OPERATIONS });
        }
        if let Some(distribution) = arguments.distribution {
            let wanted = match distribution {
                DistributionName::Zipfian => RequestDistribution::Zipfian,
                DistributionName::Uniform => RequestDistribution::Uniform,
                DistributionName::Latest => RequestDistribution::Latest,
            };
            if properties.is_set("requestdistribution") && wanted != spec.request_distribution {
                notices.push("--distribution is used, not the property requestdistribution".to_owned());
            }
            spec.request_distribution = wanted;
        }
        if let Some(zipf) = arguments.zipf {
            let wanted = match zipf {
                ZipfName::Ycsb => ZipfianMeaning::Ycsb,
                ZipfName::Ranked => ZipfianMeaning::Ranked,
            };
            if properties.is_set("zipfianmeaning") && wanted != spec.zipfian_meaning {
                notices.push("--zipf is used, not the property zipfianmeaning".to_owned());
            }
            spec.zipfian_meaning = wanted;
        }
        runs.push(Run { name, spec });
    }
    Ok(runs)
}

impl WorkloadName {
    fn standard(self) -> StandardWorkload {
        match self {
            Self::Load => StandardWorkload::Load,
            Self::A => StandardWorkload::A,
            Self::B => StandardWorkload::B,
            Self::C => StandardWorkload::C,
            Self::D => StandardWorkload::D,
            Self::E => StandardWorkload::E,
            Self::F => StandardWorkload::F,
        }
    }
}

fn overrides(notices: &mut Vec<String>, option: &str, value: u64, property: &str, other: Option<u64>) {
    if let Some(other) = other
        && other != value
    {
        let notice = format!("{option} {value} is used, not the property {property}={other}");
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}

fn value_bytes(arguments: &Arguments, runs: &[Run], notices: &mut Vec<String>) -> usize {
    let property = runs.iter().find_map(|run| run.spec.value_bytes);
    let Some(bytes) = arguments.value_bytes else { return property.unwrap_or(8) as usize };
    overrides(notices, "--value-bytes", bytes as u64, "fieldcount x fieldlength", property.map(u64::from));
    bytes
}

fn key_source(
    arguments: &Arguments,
    runs: &[Run],
    value_bytes: usize,
    notices: &mut Vec<String>,
) -> Result<KeySource, Failure> {
    let Some(path) = &arguments.keys else {
        let order = runs.first().map_or(keys::KeyOrder::Hashed, |run| run.spec.insert_order);
        return Ok(KeySource::Made(Keys::new(order, arguments.key_bytes).map_err(Failure::usage)?));
    };
    let bad = if arguments.skip_bad_keys { BadKeys::Skip } else { BadKeys::Refuse };
    let slot_bytes = (!arguments.items).then_some(arguments.key_bytes);
    let keys = RealKeys::read(path, slot_bytes, bad).map_err(Failure::run)?;
    if keys.is_empty() {
        return Err(Failure::Run(format!("{}: no keys in it", path.display())));
    }
    let skipped = keys.skipped();
    notices.push(format!(
        "{}: {} keys; left out: {} that came twice, {} longer than {} bytes",
        path.display(),
        keys.len(),
        skipped.duplicate,
        skipped.too_long,
        slot_bytes.map_or(KEY_BYTES_LIMIT, |bytes| bytes - 1)
    ));
    if arguments.items {
        notices.push(format!("keys of {} bytes on the average, {} at most", keys.mean_bytes(), keys.longest()));
        let blocks = (0..keys.len() as u64).filter_map(|record| keys.key(record)).map(|key| {
            let bytes = block_bytes(key.len(), value_bytes);
            (bytes as u64, class_bytes(class_of(bytes)) as u64)
        });
        let (used, taken) = blocks.fold((0, 0), |(used, taken), (bytes, place)| (used + bytes, taken + place));
        notices.push(format!(
            "a block for each would waste {:.1} % of its place to size classes",
            (taken - used) as f64 * 100.0 / taken.max(1) as f64
        ));
    }
    Ok(KeySource::Real(keys))
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

fn expected_inserts(spec: &Spec) -> u64 {
    if spec.phase == Phase::Load { 0 } else { spec.expected_inserts() / 2 }
}

fn scan_length_max(spec: &Spec) -> u32 {
    if spec.phase == Phase::Run && spec.proportions.scan > 0.0 { spec.scan_length_max } else { 0 }
}

/// Bytes of the blocks of so many records on each memory node.
fn blocks_bytes(keys: &KeySource, value_bytes: usize, records: u64, memory_nodes: u16) -> u64 {
    let key_bytes = match keys {
        KeySource::Real(keys) => keys.mean_bytes(),
        KeySource::Made(keys) => keys.bytes(),
    };
    let place = class_bytes(class_of(block_bytes(key_bytes, value_bytes))) as u64;
    // Lengths differ, and compute nodes have places in store.
    (records * place * 5 / 4 / u64::from(memory_nodes)).next_multiple_of(2 << 20)
}

/// What each memory node needs for these records, with room to spare, in whole huge pages.
fn region_bytes(parameters: &IndexParameters, records: u64, inserts: u64, by_insert: bool, memory_nodes: u16) -> u64 {
    let (leaf_bytes, inner_bytes) = parameters.node_bytes();
    // Bulk-loaded leaves are four fifths full; those that split are half full at the least.
    let leaves = |records: u64, fill: f64| records as f64 / (parameters.leaf_span() as f64 * fill);
    let leaves = leaves(records, if by_insert { 0.48 } else { 0.75 }) + leaves(inserts, 0.4);
    let inner = leaves / (parameters.inner_span() as f64 * 0.5);
    let bytes = leaves * leaf_bytes as f64 + inner * inner_bytes as f64 * 1.5;
    let per_node = (bytes / f64::from(memory_nodes)) as u64 + REGION_BYTES_MIN;
    per_node.next_multiple_of(2 << 20)
}
