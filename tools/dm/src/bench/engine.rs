//! What all engines share: load, warm up, run each workload, check, report. A `Stage` implements the steps.

use super::LoadBy;
use super::beside::Against;
use super::comparison::Comparison;
use super::generator::Generator;
use super::key_source::KeySource;
use super::over_time::OverTime;
use super::plan::Plan;
use super::runs::Run;
use crate::failure::Failure;
use crate::kinds;
use crate::progress::progress;
use crate::report::machine::Machine;
use crate::report::simulation::Simulation;
use crate::report::{Basis, Guarantee, Hotspot, KindReport, Report, Tree, VerbCounts};
use crate::workload::OperationKind;
use crate::workload::keys::{KeyOrder, fill};
use crate::workload::spec::{Phase, Spec, StandardWorkload};
use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::memory::chunks::{self, Tally};
use dm_core::operation::{Census, Part};
use dm_core::radix::cache::COPY_BYTES_MIN;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use dm_host::solo::block_on;
use std::time::Instant;

/// Records between two keys that warm the cache: a few leaves.
const WARM_RECORDS: u64 = 256;

/// How the records got into the index.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Records.
    pub records: u64,
    /// How.
    pub by: &'static str,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Sorting the keys before, in seconds.
    pub sort_s: f64,
}

/// The results of a plan.
#[derive(Debug, Default)]
pub struct Measured {
    /// The load that was not a workload of its own.
    pub loaded: Option<Loaded>,
    /// One per workload and repetition.
    pub reports: Vec<Report>,
    /// The comparison with a bare loop.
    pub baseline: Option<Comparison>,
    /// The comparison with other indexes.
    pub against: Option<Against>,
    /// What the memory nodes' regions are made of.
    pub pages: String,
    /// Throughput over time, if it was asked for.
    pub over_time: Option<OverTime>,
    /// Why the index is not sound; `None`: it is, or was not checked.
    pub broken: Option<String>,
}

impl Measured {
    /// The end of the command.
    pub fn verdict(self) -> Result<(), Failure> {
        self.broken
            .map_or(Ok(()), |broken| Err(Failure::Run(format!("the index is not sound after the run: {broken}"))))
    }
}

/// An index, and the threads or simulated lanes that run operations on it.
pub(super) trait Stage {
    /// Walks the whole index.
    fn validate(&mut self) -> Result<Census, String>;
    /// Bytes of the chunks granted to the index.
    fn tally(&mut self) -> Result<u64, Failure>;
    /// Loads the plan's records, node by node.
    fn bulk_load(&mut self) -> Result<Loaded, Failure>;
    /// Looks up keys all over the key space, so that every inner node is in the caches, as far as they have room.
    fn warm(&mut self, records: u64) -> Result<(), Failure>;
    /// Runs one workload over an index of `records` records; returns also how many it holds afterwards.
    fn run(&mut self, run: &Run, records: u64) -> Result<(Report, u64), Failure>;
}

/// Loads, warms, runs and checks.
pub(super) fn measure(plan: &Plan, stage: &mut impl Stage) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let present = stage.validate().map_err(Failure::Run)?;
    if plan.loads_in_run() {
        if present.records > 0 {
            return Err(Failure::Run(format!(
                "index \"{}\" holds {} records, workload load needs an empty one: choose another --name",
                plan.name, present.records
            )));
        }
    } else if present.records == 0 {
        measured.loaded = Some(match plan.load_by {
            LoadBy::Bulk => stage.bulk_load()?,
            LoadBy::Insert => load_by_inserts(plan, stage)?,
        });
    } else if present.records < plan.records {
        return Err(Failure::Run(format!(
            "index \"{}\" holds {} records, fewer than --records {}: choose another --name",
            plan.name, present.records, plan.records
        )));
    } else {
        eprintln!("note: index \"{}\" holds {} records: nothing loaded", plan.name, present.records);
    }
    let mut records = plan.records.max(present.records);
    if !plan.loads_in_run() {
        stage.warm(records)?;
    }
    for _ in 0..plan.repeat {
        for run in &plan.runs {
            let (report, now) = stage.run(run, records)?;
            records = now;
            measured.reports.push(report);
            // A load by inserts leaves the caches of its threads warm, but not with the nodes of late splits.
            if run.spec.phase == Phase::Load {
                stage.warm(records)?;
            }
        }
    }
    let tally = stage.tally()?;
    if plan.validate {
        match stage.validate() {
            Ok(census) => {
                if census.records != records {
                    measured.broken = Some(format!("it holds {} records, {records} were acknowledged", census.records));
                }
                for report in &mut measured.reports {
                    report.tree = Some(Tree::from(&census));
                }
            }
            Err(error) => measured.broken = Some(error),
        }
    }
    for report in &mut measured.reports {
        report.pool_bytes = tally;
    }
    Ok(measured)
}

fn load_by_inserts(plan: &Plan, stage: &mut impl Stage) -> Result<Loaded, Failure> {
    let spec = Spec {
        record_count: plan.records,
        insert_order: plan.runs.first().map_or(Spec::core().insert_order, |run| run.spec.insert_order),
        ..Spec::standard(StandardWorkload::Load)
    };
    let run = Run { name: "load".to_owned(), spec };
    let (report, records) = stage.run(&run, plan.records)?;
    Ok(Loaded { records, by: "insert", wall_s: report.wall_s, sort_s: 0.0 })
}

/// Walks the whole index.
pub(super) fn validate<'m, I: Index, F: Fabric<'m>>(
    index: &I,
    fabric: &mut F,
    lane: &Lane<'m>,
) -> Result<Census, String> {
    block_on(fabric, lane, index.validate(lane)).map_err(|error| error.to_string())
}

/// Into how many parts the keys are cut, if they have owners.
pub(super) fn parts<'m, I: Index, F: Fabric<'m>>(index: &I, fabric: &mut F, lane: &Lane<'m>) -> Result<u32, Failure> {
    block_on(fabric, lane, index.parts(lane)).map_err(|error| Failure::Run(format!("opening the index: {error}")))
}

/// Bytes of the chunks granted to the index of that number.
pub(super) fn tally<'m, F: Fabric<'m>>(
    geometry: &[NodeGeometry],
    number: IndexNumber,
    fabric: &mut F,
    lane: &Lane<'m>,
) -> Result<u64, Failure> {
    let mut bytes = 0;
    for (node, geometry) in geometry.iter().enumerate() {
        let mut tally = Tally::default();
        let mut count = |_, entry| tally.count(entry);
        block_on(fabric, lane, chunks::walk(lane, NodeId(node as u16), geometry, 0, &mut count))
            .map_err(Failure::run)?;
        let granted: u32 = tally.granted[usize::from(number.get())].iter().sum();
        bytes += u64::from(granted) * geometry.chunk_bytes;
    }
    Ok(bytes)
}

/// Sorted keys, node by node.
pub(super) fn bulk_load<'m, I: Index, F: Fabric<'m>>(
    plan: &Plan,
    index: &I,
    fabric: &mut F,
    lane: &Lane<'m>,
) -> Result<Loaded, Failure> {
    let (keys, records) = (&plan.keys, plan.records);
    let sorting = Instant::now();
    let order = sorted(keys, records, plan.parameters.key_bytes());
    let sort_s = sorting.elapsed().as_secs_f64();
    let progress = progress("loading", Some(records));
    let began = Instant::now();
    let places = index.plan();
    let loaded = block_on(fabric, lane, async {
        for (position, record) in order.iter().enumerate() {
            lane.port().with(|scratch| {
                keys.put(record, scratch, places);
                let identity = keys.identity(record, places.part(scratch, Part::Key));
                fill(identity, 0, &mut scratch[places.value.clone()]);
            });
            index.bulk_append(lane).await?;
            if position % 65_536 == 0 {
                progress.set_position(position as u64);
            }
        }
        index.bulk_finish(lane).await
    });
    progress.finish_and_clear();
    loaded.map_err(|error| Failure::Run(format!("loading: {error}")))?;
    Ok(Loaded { records, by: "bulk", wall_s: began.elapsed().as_secs_f64(), sort_s })
}

/// Keys all over the key space.
pub(super) struct Warm<K> {
    /// How many.
    pub(super) positions: u64,
    /// Writes the key at a position.
    pub(super) key: K,
}

/// Keys of a few leaves each, or all keys, all over an index of `records` records.
pub(super) fn warm_key(plan: &Plan, records: u64) -> Warm<impl Fn(u64, &mut [u8]) -> usize + Sync> {
    let keys = &plan.keys;
    // Nodes of a radix tree may have no more than two records each. Only the look-ups of all records reach them all.
    let each = kinds::is_radix(&plan.parameters);
    let positions = if each {
        // As many nodes as fit in the cache, by two records each; more would only displace each other.
        records.min(2 * (plan.spending.cache_bytes / COPY_BYTES_MIN as u64))
    } else {
        records.div_ceil(WARM_RECORDS)
    };
    let order = match keys {
        KeySource::Real(_) if !each => Some(sorted(keys, records, plan.parameters.key_bytes())),
        _ => None,
    };
    let step = u64::MAX / positions.max(1);
    let any_length = plan.parameters.any_length.is_some();
    let hashed = plan.runs.first().is_none_or(|run| run.spec.insert_order == KeyOrder::Hashed);
    // Spread, for the first records may be neighbours.
    let spread =
        move |position: u64| (u128::from(position) * u128::from(records) / u128::from(positions.max(1))) as u64;
    let key = move |position: u64, slot: &mut [u8]| match &order {
        Some(order) => keys.write(order.get(position * WARM_RECORDS), slot).unwrap_or(0),
        None if each => keys.write(spread(position), slot).unwrap_or(0),
        None if !hashed => keys.write(position * WARM_RECORDS, slot).unwrap_or(0),
        // Hashed keys are spread evenly; it does not matter that these were never inserted.
        None => {
            slot.fill(0);
            slot[..8].copy_from_slice(&(position * step).to_be_bytes());
            if any_length { 8 } else { slot.len() }
        }
    };
    Warm { positions, key }
}

/// Results of all load generators.
pub(super) fn gather(works: Vec<Generator<'_>>) -> (Vec<KindReport>, VerbCounts) {
    let mut kinds: Vec<_> = OperationKind::ALL.map(KindReport::new).into();
    let mut verbs = VerbCounts::default();
    for work in works {
        let (theirs, counts) = work.into_results();
        kinds.iter_mut().zip(&theirs).for_each(|(kind, theirs)| kind.merge(theirs));
        verbs.merge(&counts);
    }
    (kinds, verbs)
}

/// What a stage adds to a report.
pub(super) struct Driven {
    pub(super) fabric: String,
    pub(super) measured_on: String,
    pub(super) guarantees: Guarantees,
    pub(super) memory_nodes: u32,
    pub(super) owners: u32,
    pub(super) wall_s: f64,
    pub(super) cache_bytes: Vec<u64>,
    pub(super) hotspot: Option<Hotspot>,
    pub(super) simulation: Option<Simulation>,
}

impl Driven {
    /// The report of a run whose load generators gathered `(kinds, verbs)`.
    pub(super) fn report(
        self,
        plan: &Plan,
        workload: &str,
        records: u64,
        (kinds, verbs): (Vec<KindReport>, VerbCounts),
    ) -> Report {
        let unlock = plan.spending.options.unlock.granted(&self.guarantees).name();
        let unlock = kinds::has_lock_words(&plan.parameters).then(|| format!("locks freed by {unlock}"));
        Report {
            index: plan.index_name().to_owned(),
            workload: workload.to_owned(),
            seed: plan.seed,
            fabric: self.fabric,
            measured_on: self.measured_on.clone(),
            guarantees: guarantees(&self.guarantees),
            machine: Machine::detect(),
            memory_nodes: self.memory_nodes,
            owners: self.owners,
            threads: u32::from(plan.threads),
            lanes: u32::from(plan.lanes),
            wall_s: self.wall_s,
            cache_bytes: self.cache_bytes,
            pool_bytes: 0,
            records,
            key_bytes: plan.parameters.key_bytes() as u64,
            value_bytes: plan.parameters.value_bytes() as u64,
            techniques: plan.techniques.iter().cloned().chain(unlock).collect(),
            tree: None,
            kinds,
            verbs,
            hotspot: self.hotspot,
            simulation: self.simulation,
        }
    }
}

/// Records in the order of their keys.
pub enum Order {
    /// Record numbers, one by one.
    Listed(Vec<u64>),
    /// They ascend as they are.
    Ascending(u64),
}

impl Order {
    /// The record at `position`, or the last one.
    pub fn get(&self, position: u64) -> u64 {
        match self {
            Self::Listed(records) => records.get(position as usize).or(records.last()).copied().unwrap_or(0),
            Self::Ascending(count) => position.min(count.saturating_sub(1)),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Listed(records) => records.len() as u64,
            Self::Ascending(count) => *count,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|position| self.get(position))
    }
}

/// Sorts the records `0..records` by key.
pub fn sorted(keys: &KeySource, records: u64, key_bytes: usize) -> Order {
    match keys {
        KeySource::Real(real) => {
            let mut order: Vec<u64> = (0..records).collect();
            // Keys sort like their slots.
            order.sort_unstable_by(|&a, &b| real.key(a).cmp(&real.key(b)));
            Order::Listed(order)
        }
        KeySource::Made(made) => {
            // No two records share the first eight bytes of a made key.
            let mut slot = vec![0; key_bytes];
            let mut head = |record| {
                made.write(record, &mut slot);
                slot.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
            };
            if (0..records.min(1000)).all(|record| head(record) == record) {
                return Order::Ascending(records);
            }
            let mut order: Vec<(u64, u64)> = (0..records).map(|record| (head(record), record)).collect();
            order.sort_unstable();
            Order::Listed(order.into_iter().map(|(_, record)| record).collect())
        }
    }
}

/// What the fabric guarantees, for the report.
fn guarantees(guarantees: &Guarantees) -> Vec<Guarantee> {
    Assumptions::all()
        .iter()
        .flat_map(|flag| flag.names().map(move |name| (flag, name)).collect::<Vec<_>>())
        .map(|(flag, name)| {
            let basis = if guarantees.by_construction.contains(flag) {
                Basis::ByConstruction
            } else if guarantees.asserted.contains(flag) {
                Basis::Asserted { profile: guarantees.profile.to_owned() }
            } else {
                Basis::Absent
            };
            Guarantee { name: name.to_owned(), basis }
        })
        .collect()
}
