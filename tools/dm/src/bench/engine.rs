//! Threads, lanes and the index: loading, warming, running, validating.

use super::generator::{Generator, Shared, Warmer};
use super::plan::{KeySource, Plan, Run};
use super::{LoadBy, baseline};
use crate::commands::Failure;
use crate::pool::{Memory, discard};
use crate::report::machine::Machine;
use crate::report::{Basis, Guarantee, KindReport, MEASURED_ON_SHM, Report, Tree, VerbCounts};
use crate::workload::OperationKind;
use crate::workload::keys::fill;
use crate::workload::spec::{Phase, Spec, StandardWorkload};
use crate::workload::stream::{InsertCounter, Workload};
use crate::workload::trace::TraceWriter;
use dm_core::index::{Census, Index};
use dm_core::lane::Lane;
use dm_core::remote::catalog::IndexEntry;
use dm_core::remote::chunks::{self, Tally};
use dm_core::sherman::Sherman;
use dm_core::verbs::{Assumptions, Guarantees, LaneId, NodeId, Space};
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::{ComputeNode, Pool, PoolError};
use dm_host::fabric::shm::ShmFabric;
use dm_host::kinds::{AnyIndex, IndexParameters, with_index};
use dm_host::solo::block_on;
use dm_host::worker::{self, Wakes, Work};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// What came of a plan.
#[derive(Debug)]
pub struct Measured {
    /// The load that was not a workload of its own.
    pub loaded: Option<Loaded>,
    /// One per workload and repetition.
    pub reports: Vec<Report>,
    /// The comparison with a bare loop.
    pub baseline: Option<baseline::Comparison>,
    /// What the memory nodes' regions are made of.
    pub pages: String,
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

/// A worker's part that outlives single runs.
pub(super) struct Thread<'m> {
    pub(super) lanes: Vec<Lane<'m>>,
    pub(super) fabric: ShmFabric,
}

/// Does what was planned.
pub fn run(plan: &Plan) -> Result<Measured, Failure> {
    // The trace is created first: a name that cannot be written to is told before minutes of work.
    let trace = plan.trace.as_deref().map(TraceWriter::create).transpose().map_err(Failure::run)?.map(Mutex::new);
    if let Some(path) = &plan.json {
        File::create(path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    let memory = if plan.pool.is_empty() { Memory::start(&plan.start)? } else { Memory::connect(&plan.pool)? };
    let pool = &memory.pool;
    if plan.without_on_chip && pool.geometry().iter().any(|node| node.lock_space == Space::Device) {
        return Err(Failure::Usage(
            "--without on-chip: the pool's lock tables are in device memory; start its daemons with --device-size 0"
                .to_owned(),
        ));
    }
    let node = pool.join(plan.spending.lanes as u16).map_err(Failure::run)?;
    let (entry, created) = open(&node, plan)?;
    let fabric = pool.fabric().map_err(Failure::run)?;
    let place = node.place(&entry, &fabric);
    let setting =
        Setting { plan, pool, node: &node, entry: &entry, trace: trace.as_ref(), guarantees: place.guarantees };
    // Each kind with an engine of its own: what is measured is not told apart at every step.
    let measured = with_index(&place, &plan.parameters, &plan.spending, |index| match index {
        AnyIndex::Sherman(index) => Bench { setting, index, sherman: Some(index) }.run(fabric),
        AnyIndex::Chime(index) => Bench { setting, index, sherman: None }.run(fabric),
    });
    let measured = measured.unwrap_or_else(|error| {
        Err(match error {
            AssemblyError::Scratch { .. } => {
                Failure::Usage(format!("{error}; see --scratch-mib-max, --lanes, --threads"))
            }
            error => Failure::run(error),
        })
    });
    if measured.is_err() && created && memory.children.is_none() {
        // Others use this pool. The failure that led here says more than this one could.
        let _ = discard(&node, &entry);
    }
    let mut measured = measured?;
    measured.pages = format!("{}", pool.nodes()[0].region().pages());
    if let Some(trace) = trace {
        trace.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(Failure::run)?;
    }
    Ok(measured)
}

/// The index of that name, created if there is none, and whether it was.
fn open(node: &ComputeNode, plan: &Plan) -> Result<(IndexEntry, bool), Failure> {
    match node.pool().find_index(&plan.name) {
        Ok((entry, parameters)) if parameters == plan.parameters => Ok((entry, false)),
        Ok((_, found)) => Err(Failure::Run(format!(
            "the pool has an index \"{}\", {}; asked for is {}: choose another --name",
            plan.name,
            said(&found),
            said(&plan.parameters)
        ))),
        Err(PoolError::NoIndex { .. }) => {
            let entry = node.create_index(&plan.name, &plan.parameters).map_err(Failure::run)?;
            Ok((entry, true))
        }
        Err(error) => Err(Failure::run(error)),
    }
}

/// Parameters in words.
fn said(parameters: &IndexParameters) -> String {
    format!(
        "{} with keys of {} and values of {} bytes, {} and {} entries a node",
        parameters.kind().name(),
        parameters.key_bytes(),
        parameters.value_bytes(),
        parameters.leaf_span(),
        parameters.inner_span()
    )
}

/// What is measured with.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pool: &'a Pool,
    pub(super) node: &'a ComputeNode,
    entry: &'a IndexEntry,
    trace: Option<&'a Mutex<TraceWriter<File>>>,
    guarantees: Guarantees,
}

pub(super) struct Bench<'a, 's, I> {
    setting: Setting<'a>,
    pub(super) index: &'a I,
    /// The same, if it is one: the bare loop is of its kind.
    pub(super) sherman: Option<&'a Sherman<'s>>,
}

impl<'a, I> Deref for Bench<'a, '_, I> {
    type Target = Setting<'a>;

    fn deref(&self) -> &Setting<'a> {
        &self.setting
    }
}

impl<I: Index> Bench<'_, '_, I> {
    fn run(&self, mut fabric: ShmFabric) -> Result<Measured, Failure> {
        let plan = self.plan;
        let scratch_bytes = self.index.plan().total_bytes;
        let lanes_of_all = usize::from(plan.threads) * usize::from(plan.lanes);
        let mut scratch = vec![0; scratch_bytes * (lanes_of_all + 1)];
        let mut pieces = scratch.chunks_mut(scratch_bytes).enumerate();
        let mut lane_of = || pieces.next().map(|(number, scratch)| Lane::new(LaneId(number as u16), scratch));
        let mut threads = Vec::new();
        for _ in 0..plan.threads {
            let lanes = (0..plan.lanes).filter_map(|_| lane_of()).collect();
            threads.push(Thread { lanes, fabric: self.pool.fabric().map_err(Failure::run)? });
        }
        let Some(lane) = lane_of() else { return Err(Failure::Run("no lane".to_owned())) };
        let mut measured =
            Measured { loaded: None, reports: Vec::new(), baseline: None, pages: String::new(), broken: None };

        let present = self.validate(&mut fabric, &lane).map_err(Failure::Run)?;
        if plan.loads_in_run() {
            if present.records > 0 {
                return Err(Failure::Run(format!(
                    "index \"{}\" holds {} records, workload load needs an empty one: choose another --name",
                    plan.name, present.records
                )));
            }
        } else if present.records == 0 {
            measured.loaded = Some(match plan.load_by {
                LoadBy::Bulk => self.bulk_load(&mut fabric, &lane)?,
                LoadBy::Insert => self.load_by_inserts(&mut threads)?,
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
            self.warm(&mut threads, records)?;
        }
        for _ in 0..plan.repeat {
            for run in &plan.runs {
                let (report, now) = self.run_one(run, &mut threads, records)?;
                records = now;
                measured.reports.push(report);
                // A load by inserts leaves the caches of its threads warm, but not with the nodes of late splits.
                if run.spec.phase == Phase::Load {
                    self.warm(&mut threads, records)?;
                }
            }
        }
        if plan.baseline {
            measured.baseline = Some(baseline::compare(self, &mut threads[0], records)?);
        }
        let tally = self.tally(&mut fabric, &lane)?;
        if plan.validate {
            match self.validate(&mut fabric, &lane) {
                Ok(census) => {
                    if census.records != records {
                        measured.broken =
                            Some(format!("it holds {} records, {records} were acknowledged", census.records));
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

    /// Walks the whole index.
    fn validate(&self, fabric: &mut ShmFabric, lane: &Lane<'_>) -> Result<Census, String> {
        // Ties the lane's lifetime to the fabric's.
        on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, self.index.validate(lane)))
            .map_err(|error| error.to_string())
    }

    /// Bytes of the chunks granted to the index.
    fn tally(&self, fabric: &mut ShmFabric, lane: &Lane<'_>) -> Result<u64, Failure> {
        on_lane(fabric, lane, |fabric, lane| {
            let mut bytes = 0;
            for (node, geometry) in self.pool.geometry().iter().enumerate() {
                let mut tally = Tally::default();
                let mut count = |_, entry| tally.count(entry);
                block_on(fabric, lane, chunks::walk(lane, NodeId(node as u16), geometry, 0, &mut count))
                    .map_err(Failure::run)?;
                let granted: u32 = tally.granted[usize::from(self.entry.number.get())].iter().sum();
                bytes += u64::from(granted) * geometry.chunk_bytes;
            }
            Ok(bytes)
        })
    }

    /// Sorted keys, node by node.
    fn bulk_load(&self, fabric: &mut ShmFabric, lane: &Lane<'_>) -> Result<Loaded, Failure> {
        let (keys, records) = (&self.plan.keys, self.plan.records);
        let sorting = Instant::now();
        let order = sorted(keys, records, self.plan.parameters.key_bytes());
        let sort_s = sorting.elapsed().as_secs_f64();
        let progress = progress("loading", records);
        let began = Instant::now();
        let plan = self.index.plan();
        let loaded = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, async {
                for (position, record) in order.iter().enumerate() {
                    lane.port().with(|scratch| {
                        let slot = &mut scratch[plan.key.clone()];
                        keys.write(record, slot);
                        let identity = keys.identity(record, slot);
                        fill(identity, 0, &mut scratch[plan.value.clone()]);
                    });
                    self.index.bulk_append(lane).await?;
                    if position % 65_536 == 0 {
                        progress.set_position(position as u64);
                    }
                }
                self.index.bulk_finish(lane).await
            })
        });
        progress.finish_and_clear();
        loaded.map_err(|error| Failure::Run(format!("loading: {error}")))?;
        Ok(Loaded { records, by: "bulk", wall_s: began.elapsed().as_secs_f64(), sort_s })
    }

    fn load_by_inserts(&self, threads: &mut [Thread<'_>]) -> Result<Loaded, Failure> {
        let spec = Spec {
            record_count: self.plan.records,
            insert_order: self.plan.runs.first().map_or(Spec::core().insert_order, |run| run.spec.insert_order),
            ..Spec::standard(StandardWorkload::Load)
        };
        let run = Run { name: "load".to_owned(), spec };
        let (report, records) = self.run_one(&run, threads, self.plan.records)?;
        Ok(Loaded { records, by: "insert", wall_s: report.wall_s, sort_s: 0.0 })
    }

    /// Looks up keys all over the key space, so that every inner node is in the cache, as far as it has room.
    fn warm(&self, threads: &mut [Thread<'_>], records: u64) -> Result<(), Failure> {
        let keys = &self.plan.keys;
        let positions = records.div_ceil(WARM_RECORDS);
        let order = match keys {
            KeySource::Made(_) => None,
            KeySource::Real(_) => Some(sorted(keys, records, self.plan.parameters.key_bytes())),
        };
        let step = u64::MAX / positions.max(1);
        let ordered =
            self.plan.runs.first().is_some_and(|run| run.spec.insert_order == crate::workload::keys::KeyOrder::Ordered);
        let key = |position: u64, slot: &mut [u8]| match &order {
            Some(order) => {
                keys.write(order.get(position * WARM_RECORDS), slot);
            }
            None if ordered => {
                keys.write(position * WARM_RECORDS, slot);
            }
            // Hashed keys are spread evenly; it does not matter that nobody wrote these.
            None => {
                slot.fill(0);
                slot[..8].copy_from_slice(&(position * step).to_be_bytes());
            }
        };
        let inserts = InsertCounter::new(0);
        let shared = self.shared(&inserts);
        let count = threads.len() as u64;
        let works = (0..count)
            .map(|first| Warmer { shared: &shared, key: &key, next: first, step: count, end: positions })
            .collect();
        self.drive(threads, works, &shared, &progress("warming", 0)).map(drop)
    }

    fn shared<'b>(&'b self, inserts: &'b InsertCounter) -> Shared<'b> {
        Shared {
            keys: &self.plan.keys,
            inserts,
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            done: AtomicU64::new(0),
            number: AtomicU64::new(0),
            trace: self.trace,
            began: Instant::now(),
        }
    }

    /// Runs one workload over an index of `records` records; returns also how many it holds afterwards.
    fn run_one(&self, run: &Run, threads: &mut [Thread<'_>], records: u64) -> Result<(Report, u64), Failure> {
        let plan = self.plan;
        let lanes = u32::from(plan.threads) * u32::from(plan.lanes);
        let spec = Spec { record_count: records, ..run.spec.clone() };
        let operations = match spec.phase {
            Phase::Load => records,
            Phase::Run => spec.operation_count.unwrap_or(0),
        };
        let workload = Workload::new(spec, plan.seed, NonZeroU32::new(lanes).unwrap_or(NonZeroU32::MIN))
            .map_err(Failure::usage)?;
        let inserts = Arc::new(InsertCounter::new(records));
        let shared = self.shared(&inserts);
        let works = (0..u32::from(plan.threads))
            .map(|thread| {
                let first = thread * u32::from(plan.lanes);
                let streams =
                    (first..first + u32::from(plan.lanes)).map(|lane| workload.lane(lane, Arc::clone(&inserts)));
                Generator::new(&shared, streams.collect(), first)
            })
            .collect();
        let progress = progress(&run.name, operations);
        let (works, wall) = self.drive(threads, works, &shared, &progress)?;
        let mut kinds: Vec<_> = OperationKind::ALL.map(KindReport::new).into();
        let mut verbs = VerbCounts::default();
        for work in works {
            let (theirs, counts) = work.into_results();
            kinds.iter_mut().zip(&theirs).for_each(|(kind, theirs)| kind.merge(theirs));
            verbs.merge(&counts);
        }
        let records = inserts.acknowledged();
        let report = Report {
            index: plan.parameters.kind().name().to_owned(),
            workload: run.name.clone(),
            seed: plan.seed,
            fabric: "shm".to_owned(),
            measured_on: MEASURED_ON_SHM.to_owned(),
            guarantees: guarantees(&self.guarantees),
            machine: Machine::detect(),
            memory_nodes: self.pool.nodes().len() as u32,
            threads: u32::from(plan.threads),
            lanes: u32::from(plan.lanes),
            wall_s: wall.as_secs_f64(),
            cache_bytes: vec![self.index.cache_bytes().0],
            pool_bytes: 0,
            records,
            key_bytes: plan.parameters.key_bytes() as u64,
            value_bytes: plan.parameters.value_bytes() as u64,
            techniques: plan.techniques.clone(),
            tree: None,
            kinds,
            verbs,
        };
        Ok((report, records))
    }

    /// Runs each work on its thread; returns them and how long it took from the first start to the last end.
    fn drive<W: Work + Send>(
        &self,
        threads: &mut [Thread<'_>],
        works: Vec<W>,
        shared: &Shared<'_>,
        progress: &ProgressBar,
    ) -> Result<(Vec<W>, Duration), Failure> {
        let wakes = &Wakes::new(threads.len(), usize::from(self.plan.lanes));
        let barrier = &Barrier::new(threads.len());
        let (index, node) = (self.index, self.node);
        let ended = std::thread::scope(|scope| {
            let running: Vec<_> = threads
                .iter_mut()
                .zip(works)
                .map(|(thread, mut work)| {
                    scope.spawn(move || {
                        barrier.wait();
                        let began = Instant::now();
                        let ended = worker::run(index, &thread.lanes, &mut thread.fabric, &mut work, wakes);
                        if let Err(error) = ended {
                            // Its lanes could not be settled.
                            node.owe();
                            shared.fail(error.to_string());
                        }
                        (work, began, Instant::now())
                    })
                })
                .collect();
            while !progress.is_hidden() && running.iter().any(|thread| !thread.is_finished()) {
                progress.set_position(shared.done.load(Ordering::Relaxed));
                std::thread::sleep(Duration::from_millis(50));
            }
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        progress.finish_and_clear();
        let mut works = Vec::new();
        let (mut first, mut last) = (None::<Instant>, None::<Instant>);
        for thread in ended {
            let (work, began, end) = thread.map_err(|_| Failure::Run("a worker thread panicked".to_owned()))?;
            works.push(work);
            first = Some(first.map_or(began, |first| first.min(began)));
            last = Some(last.map_or(end, |last| last.max(end)));
        }
        if let Some(failure) = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Failure::Run(failure));
        }
        let wall = first.zip(last).map_or(Duration::ZERO, |(first, last)| last.duration_since(first));
        Ok((works, wall))
    }
}

/// Ties a lane's lifetime to the fabric's.
pub(super) fn on_lane<'m, R>(
    fabric: &mut ShmFabric,
    lane: &Lane<'m>,
    run: impl FnOnce(&mut ShmFabric, &Lane<'m>) -> R,
) -> R {
    run(fabric, lane)
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

/// A bar on the standard error, if that is a terminal.
fn progress(what: &str, total: u64) -> ProgressBar {
    if total == 0 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {human_pos} of {human_len}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
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
