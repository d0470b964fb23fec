//! The engine of real fabrics: threads on memory nodes that are processes, here or behind a network.

use super::bare;
use super::baseline;
use super::engine::{Driven, Loaded, Measured, Stage, bulk_load, gather, measure, parts, tally, validate, warm_key};
use super::generator::{Generator, Warmer};
use super::owners::{Owners, shares};
use super::plan::{FabricPlan, Plan};
use super::runs::Run;
use super::side;
use super::threads::{Bench, Setting, Thread};
use crate::failure::Failure;
use crate::pool::{FabricName, Memory, RdmaArguments, discard};
use crate::progress::progress;
use crate::report::{Hotspot, MEASURED_ON_SHM, MEASURED_ON_VERBS, Report};
use crate::workload::spec::{Phase, Spec};
use crate::workload::stream::Workload;
use crate::workload::trace::TraceWriter;
use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::match_kind;
use dm_core::operation::Census;
use dm_core::remote::catalog::IndexEntry;
use dm_core::verbs::{LaneId, Space};
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::ComputeNode;
use dm_host::fabric::any::AnyFabric;
use dm_host::kinds::{Below, Kind as _};
use dm_host::match_index;
use dm_host::pool::PoolError;
use dm_host::solo::block_on;
use std::fs::File;
use std::num::NonZeroU32;
use std::slice;
use std::sync::Mutex;

/// Does what was planned.
pub fn run(plan: &Plan, trace: Option<&Mutex<TraceWriter<File>>>) -> Result<Measured, Failure> {
    let memory = match &plan.fabric {
        FabricPlan::Verbs(rdma) => Memory::connect(FabricName::Verbs, &plan.pool, rdma)?,
        _ if plan.pool.is_empty() => Memory::start(&plan.start)?,
        _ => Memory::connect(FabricName::Shm, &plan.pool, &RdmaArguments::default())?,
    };
    let pool = &memory.pool;
    if plan.without_on_chip && pool.geometry().iter().any(|node| node.lock_space == Space::Device) {
        return Err(Failure::Usage(
            "--without on-chip: the pool's lock tables are in device memory; start its daemons with --device-size 0"
                .to_owned(),
        ));
    }
    let joined = (0..plan.compute_nodes).map(|_| pool.join(plan.spending.lanes as u16, plan.membership));
    let nodes = joined.collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    let node = &nodes[0];
    let (entry, created) = open(node, plan)?;
    let fabric = pool.fabric().map_err(Failure::run)?;
    let guarantees = node.place(&entry, &fabric).guarantees;
    let (fabric_name, measured_on) = (fabric.name(), measured_on(&fabric));
    let setting = Setting { plan, pool, nodes: &nodes, entry: &entry, trace, guarantees, fabric_name, measured_on };
    // Each kind with an engine of its own: what is measured is not told apart at every step.
    let measured = if nodes.len() == 1 {
        node.with_index(&entry, &plan.parameters, &plan.spending, |index| {
            let bare = bare::index_of(&index);
            match_index!(index, index => {
                Bench { setting: &setting, indexes: slice::from_ref(index), bare }.run(fabric)
            })
        })
    } else {
        ComputeNode::with_places(&nodes, &entry, &plan.parameters, |places| {
            match_kind!(&plan.parameters.below, Below(below) => {
                below.with_each(places, &plan.spending, |indexes| {
                    Bench { setting: &setting, indexes, bare: None }.run(fabric)
                })
            })
        })
    };
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
        let _ = discard(node, &entry);
    }
    let mut measured = measured?;
    measured.pages = pool.nodes()[0].pages();
    Ok(measured)
}

/// What kind of numbers come of a fabric.
fn measured_on(fabric: &AnyFabric) -> String {
    let Some(device) = fabric.device() else { return MEASURED_ON_SHM.to_owned() };
    match Fabric::guarantees(fabric).profile {
        "soft-roce" => format!("{device}: Soft-RoCE, a device in software; says nothing about a NIC"),
        _ => format!("{device}: {MEASURED_ON_VERBS}"),
    }
}

/// The index of that name, created if there is none, and whether it was.
fn open(node: &ComputeNode, plan: &Plan) -> Result<(IndexEntry, bool), Failure> {
    match node.pool().find_index(&plan.name) {
        Ok((entry, parameters)) if parameters == plan.parameters => Ok((entry, false)),
        Ok((_, found)) => Err(Failure::Run(format!(
            "the pool has an index \"{}\", {found}; asked for is {}: choose another --name",
            plan.name, plan.parameters
        ))),
        Err(PoolError::NoIndex { .. }) => {
            let entry = node.create_index(&plan.name, &plan.parameters).map_err(Failure::run)?;
            Ok((entry, true))
        }
        Err(error) => Err(Failure::run(error)),
    }
}

impl<I: Index> Bench<'_, '_, I> {
    fn run(&self, fabric: AnyFabric) -> Result<Measured, Failure> {
        let plan = self.plan;
        let scratch_bytes = self.indexes[0].plan().total_bytes;
        let lanes_of_node = usize::from(plan.threads) * usize::from(plan.lanes);
        let mut scratch = vec![0; scratch_bytes * (lanes_of_node * self.indexes.len() + 1)];
        let mut pieces = scratch.chunks_mut(scratch_bytes);
        let mut lane_of = |id: usize| pieces.next().map(|scratch| Lane::new(LaneId(id as u16), scratch));
        let mut threads = Vec::new();
        for thread in 0..self.indexes.len() * usize::from(plan.threads) {
            let first = thread * usize::from(plan.lanes);
            let lanes = (first..first + usize::from(plan.lanes)).filter_map(|lane| lane_of(lane % lanes_of_node));
            threads.push(Thread { lanes: lanes.collect(), fabric: self.pool.fabric().map_err(Failure::run)? });
        }
        let Some(lane) = lane_of(lanes_of_node) else { return Err(Failure::Run("no lane".to_owned())) };
        let mut stage = Threads { bench: self, owners: Owners::default(), workers: threads, fabric, lane };
        stage.open()?;
        let measured = measure(plan, &mut stage).and_then(|mut measured| {
            if plan.is_side {
                side::answer(self, &mut stage.workers[0])?;
            } else if plan.baseline {
                let records = measured.reports.last().map_or(plan.records, |report| report.records);
                measured.baseline = Some(baseline::compare(self, &mut stage.workers[0], records)?);
            }
            Ok(measured)
        });
        let left = stage.leave(measured.is_ok());
        // The failure of the run says more.
        let measured = measured?;
        left.map(|()| measured)
    }
}

/// The threads of a bench, and a lane of compute node 0 to load and check with.
struct Threads<'b, 'a, 's, 'm, I> {
    bench: &'b Bench<'a, 's, I>,
    owners: Owners,
    /// Those of compute node 0 come first.
    workers: Vec<Thread<'m>>,
    fabric: AnyFabric,
    lane: Lane<'m>,
}

impl<'m, I: Index> Threads<'_, '_, '_, 'm, I> {
    /// Opens the index on every compute node, and shares the keys out if they have owners.
    fn open(&mut self) -> Result<(), Failure> {
        let mut found = 0;
        for (index, thread) in self.nodes() {
            found = parts(index, &mut thread.fabric, &thread.lanes[0])?;
        }
        self.owners = Owners::new(found, self.bench.indexes.len() as u32)?;
        Ok(())
    }

    /// Gives up the keys that compute nodes own. A row that may still own some must be swept before another compute node
    /// gets it: so it is if the run has failed.
    fn leave(&mut self, is_sound: bool) -> Result<(), Failure> {
        if self.owners.count() == 0 {
            return Ok(());
        }
        let (nodes, mut failed) = (self.bench.nodes, None);
        for ((index, thread), node) in self.nodes().zip(nodes) {
            let Thread { lanes, fabric } = thread;
            let lane = &lanes[0];
            let left = if is_sound { block_on(fabric, lane, index.leave(lane)).map_err(Some) } else { Err(None) };
            if let Err(error) = left {
                node.mark_unsettled();
                failed = failed.or(error);
            }
        }
        failed.map_or(Ok(()), |error| Err(Failure::Run(format!("giving up keys that were owned: {error}"))))
    }

    /// The index on each compute node, and a thread there.
    fn nodes(&mut self) -> impl Iterator<Item = (&I, &mut Thread<'m>)> {
        let each = usize::from(self.bench.plan.threads);
        self.bench.indexes.iter().zip(self.workers.iter_mut().step_by(each))
    }
}

impl<I: Index> Stage for Threads<'_, '_, '_, '_, I> {
    fn validate(&mut self) -> Result<Census, String> {
        if self.owners.are_several() {
            // Each flushes what it has changed of its keys; compute node 0 sees it in the pool.
            for (index, thread) in self.nodes().skip(1) {
                validate(index, &mut thread.fabric, &thread.lanes[0])?;
            }
        }
        validate(&self.bench.indexes[0], &mut self.fabric, &self.lane)
    }

    fn tally(&mut self) -> Result<u64, Failure> {
        tally(self.bench.pool.geometry(), self.bench.entry.number, &mut self.fabric, &self.lane)
    }

    fn bulk_load(&mut self) -> Result<Loaded, Failure> {
        bulk_load(self.bench.plan, &self.bench.indexes[0], &mut self.fabric, &self.lane)
    }

    fn warm(&mut self, records: u64) -> Result<(), Failure> {
        let Self { bench, owners, workers, .. } = self;
        let (bench, owners) = (*bench, &*owners);
        let shared = &bench.shared(owners);
        let warm = warm_key(bench.plan, records);
        let of_node = |(number, index)| move |key: &[u8]| owners.owns(number, index, key);
        let owned: Vec<_> = (0..).zip(bench.indexes).map(of_node).collect();
        let (key, step, end) = (&warm.key, u64::from(bench.plan.threads), warm.positions);
        let works = owned
            .iter()
            .flat_map(|owns| (0..step).map(move |next| Warmer { shared, key, owns, next, step, end }))
            .collect();
        bench.drive(workers, works, shared, &progress("warming", Some(0)), None).map(drop)
    }

    fn run(&mut self, run: &Run, records: u64) -> Result<(Report, u64), Failure> {
        let Self { bench, owners, workers, .. } = self;
        let plan = bench.plan;
        let lanes = workers.len() as u32 * u32::from(plan.lanes);
        let counters = owners.begin(&bench.indexes[0], &plan.keys, records)?;
        let spec = Spec { record_count: owners.present(), ..run.spec.clone() };
        let operations = run.operations(records);
        let workload = Workload::new(spec, plan.seed, NonZeroU32::new(lanes).unwrap_or(NonZeroU32::MIN))
            .map_err(Failure::usage)?;
        let shared = bench.shared(owners);
        let now = owners.clone();
        let owned = shares(&now, bench.indexes, &plan.keys);
        let mut streams = now.streams(&workload, lanes, &counters, &owned).into_iter();
        let works = (0..workers.len() as u32)
            .map(|thread| {
                let of_thread = streams.by_ref().take(plan.lanes.into()).collect();
                Generator::new(&shared, of_thread, thread * u32::from(plan.lanes))
            })
            .collect();
        let progress = progress(&run.name, Some(operations));
        let before = hotspot(plan, workers);
        let (works, wall) =
            bench.drive(workers, works, &shared, &progress, plan.most.filter(|_| run.spec.phase == Phase::Run))?;
        let after = hotspot(plan, workers);
        let records = owners.end(&counters, records);
        let driven = Driven {
            fabric: bench.fabric_name.to_owned(),
            measured_on: bench.measured_on.clone(),
            guarantees: bench.guarantees,
            memory_nodes: bench.pool.nodes().len() as u32,
            owners: owners.count(),
            wall_s: wall.as_secs_f64(),
            cache_bytes: bench.indexes.iter().map(|index| index.cache_bytes().0).collect(),
            hotspot: before.zip(after).map(|(before, after)| after.since(&before)),
            simulation: None,
        };
        Ok((driven.report(plan, &run.name, records, gather(works)), records))
    }
}

/// What the lanes have counted of the hotspot buffer, if there is one.
fn hotspot(plan: &Plan, threads: &[Thread<'_>]) -> Option<Hotspot> {
    let bytes = plan.spending.hotspot_bytes;
    let count = |mark| threads.iter().flat_map(|thread| &thread.lanes).map(|lane| u64::from(lane.marked(mark))).sum();
    (bytes > 0).then(|| Hotspot::new(bytes, count))
}
