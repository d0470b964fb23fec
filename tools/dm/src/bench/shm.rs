//! The engine of real fabrics: threads on memory nodes that are processes, here or behind a network.

use super::bare;
use super::baseline;
use super::engine::{Driven, Loaded, Measured, Stage, bulk_load, gather, measure, tally, validate, warm_key};
use super::generator::{Generator, Warmer};
use super::plan::{FabricPlan, Plan};
use super::runs::Run;
use super::threads::{Bench, Setting, Thread};
use crate::failure::Failure;
use crate::pool::{FabricName, Memory, RdmaArguments, discard};
use crate::progress::progress;
use crate::report::{Hotspot, MEASURED_ON_SHM, MEASURED_ON_VERBS, Report};
use crate::workload::spec::Spec;
use crate::workload::stream::{InsertCounter, Workload};
use crate::workload::trace::TraceWriter;
use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::Census;
use dm_core::remote::catalog::IndexEntry;
use dm_core::verbs::{LaneId, Space};
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::ComputeNode;
use dm_host::fabric::any::AnyFabric;
use dm_host::match_index;
use dm_host::pool::PoolError;
use std::fs::File;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

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
    let node = pool.join(plan.spending.lanes as u16, plan.membership).map_err(Failure::run)?;
    let (entry, created) = open(&node, plan)?;
    let fabric = pool.fabric().map_err(Failure::run)?;
    let guarantees = node.place(&entry, &fabric).guarantees;
    let (fabric_name, measured_on) = (fabric.name(), measured_on(&fabric));
    let setting = Setting { plan, pool, node: &node, entry: &entry, trace, guarantees, fabric_name, measured_on };
    // Each kind with an engine of its own: what is measured is not told apart at every step.
    let measured = node.with_index(&entry, &plan.parameters, &plan.spending, |index| {
        let bare = bare::index_of(&index);
        match_index!(index, index => Bench { setting: &setting, index, bare }.run(fabric))
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
        let mut stage = Threads { bench: self, workers: threads, fabric, lane };
        let mut measured = measure(plan, &mut stage)?;
        if plan.baseline {
            let records = measured.reports.last().map_or(plan.records, |report| report.records);
            measured.baseline = Some(baseline::compare(self, &mut stage.workers[0], records)?);
        }
        Ok(measured)
    }
}

/// The threads of a bench, and a lane to load and check with.
struct Threads<'b, 'a, 's, 'm, I> {
    bench: &'b Bench<'a, 's, I>,
    workers: Vec<Thread<'m>>,
    fabric: AnyFabric,
    lane: Lane<'m>,
}

impl<I: Index> Stage for Threads<'_, '_, '_, '_, I> {
    fn validate(&mut self) -> Result<Census, String> {
        validate(self.bench.index, &mut self.fabric, &self.lane)
    }

    fn tally(&mut self) -> Result<u64, Failure> {
        tally(self.bench.pool.geometry(), self.bench.entry.number, &mut self.fabric, &self.lane)
    }

    fn bulk_load(&mut self) -> Result<Loaded, Failure> {
        bulk_load(self.bench.plan, self.bench.index, &mut self.fabric, &self.lane)
    }

    fn warm(&mut self, records: u64) -> Result<(), Failure> {
        let inserts = InsertCounter::new(0);
        let shared = self.bench.shared(&inserts);
        let warm = warm_key(self.bench.plan, records);
        let step = self.workers.len() as u64;
        let works = (0..step)
            .map(|first| Warmer { shared: &shared, key: &warm.key, next: first, step, end: warm.positions })
            .collect();
        self.bench.drive(&mut self.workers, works, &shared, &progress("warming", Some(0))).map(drop)
    }

    fn run(&mut self, run: &Run, records: u64) -> Result<(Report, u64), Failure> {
        let Self { bench, workers, .. } = self;
        let plan = bench.plan;
        let lanes = u32::from(plan.threads) * u32::from(plan.lanes);
        let spec = Spec { record_count: records, ..run.spec.clone() };
        let operations = run.operations(records);
        let workload = Workload::new(spec, plan.seed, NonZeroU32::new(lanes).unwrap_or(NonZeroU32::MIN))
            .map_err(Failure::usage)?;
        let inserts = Arc::new(InsertCounter::new(records));
        let shared = bench.shared(&inserts);
        let works = (0..u32::from(plan.threads))
            .map(|thread| {
                let first = thread * u32::from(plan.lanes);
                let streams =
                    (first..first + u32::from(plan.lanes)).map(|lane| workload.lane(lane, Arc::clone(&inserts)));
                Generator::new(&shared, streams.collect(), first)
            })
            .collect();
        let progress = progress(&run.name, Some(operations));
        let before = hotspot(plan, workers);
        let (works, wall) = bench.drive(workers, works, &shared, &progress)?;
        let after = hotspot(plan, workers);
        let records = inserts.acknowledged();
        let driven = Driven {
            fabric: bench.fabric_name.to_owned(),
            measured_on: bench.measured_on.clone(),
            guarantees: bench.guarantees,
            memory_nodes: bench.pool.nodes().len() as u32,
            wall_s: wall.as_secs_f64(),
            cache_bytes: vec![bench.index.cache_bytes().0],
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
