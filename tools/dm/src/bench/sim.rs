//! The sim engine: many compute nodes in one process and in virtual time.
//!
//! Loading, warming and checking take no virtual time: they run through the same index code on a fabric without time. A
//! workload then begins on idle NICs. A tenth as many operations as are counted run first, without being counted.
//! Counting ends while all lanes are still busy. So neither the start nor stragglers are in the numbers; a load by
//! inserts is counted whole. The lanes of all compute nodes draw from one load generator, of the type that each thread
//! of the shm engine has; where keys have owners, those of a compute node draw its own keys. Parts of the keys may move meanwhile:
//! see `cluster_work`.

use super::cluster_work::{ClusterWork, Counting, Moves, row_of, run_one};
use super::engine::{Driven, Loaded, Measured, Stage, bulk_load, gather, measure, parts, tally, validate, warm_key};
use super::generator::{Generator, Shared, Warmer};
use super::over_time::OverTime;
use super::owners::{Owners, shares};
use super::plan::{Plan, SimPlan};
use super::runs::Run;
use crate::failure::Failure;
use crate::kinds;
use crate::progress::progress;
use crate::report::machine::Machine;
use crate::report::simulation::{Mark as MarkCount, Repartition, Simulation};
use crate::report::text::counted;
use crate::report::{Hotspot, KindReport, MEASURED_ON_SIM, OperationCost, Report, VerbCounts, VerbTotal};
use crate::rounds::thread_ns;
use crate::workload::OperationKind;
use crate::workload::random::Random;
use crate::workload::spec::{Phase, Spec};
use crate::workload::stream::Workload;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::match_kind;
use dm_core::operation::{Census, OpError, Operation, Outcome, ScratchPlan};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::owners::Owner;
use dm_core::remote::row::Member;
use dm_core::verbs::LaneId;
use dm_host::assembly::{AssemblyError, Place, huge_zeroes};
use dm_host::kinds::{Below, Kind as _};
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use dm_sim::pool::Pool;
use dm_sim::timing::workers::{Until, WorkersError};
use dm_sim::timing::{Cluster, RawReads, Shape, Usage, Workers};
use dm_sim::{Config, DirectFabric, Memories};
use std::cell::Cell;
use std::future::Future;
use std::num::NonZeroU32;

/// For so many counted operations, one operation runs before them and is not counted. Every lane runs one at least.
const RAMP: u64 = 10;

/// Unit in which compute nodes are granted memory. Smaller than a daemon's, so that small indexes spread over all
/// memory nodes too.
const CHUNK_BYTES: u64 = 128 << 10;

/// Lock words of a memory node without device memory.
const LOCKS: u32 = 32_768;

/// Region of a memory node that only serves raw READs.
const RAW_REGION_BYTES: usize = 256 << 20;

/// What a lane takes besides its scratch, roughly: mailbox, future, stream of draws, requests under way.
const LANE_BYTES: u64 = 8 << 10;

/// Does what was planned.
pub fn run(plan: &Plan, sim: &SimPlan) -> Result<Measured, Failure> {
    let memory_nodes = usize::from(plan.start.memory_nodes);
    if sim.colocated && memory_nodes != sim.compute_nodes as usize {
        return Err(Failure::Usage(format!(
            "--colocated: {} and {}; it takes as many of each",
            counted(sim.compute_nodes, "compute node"),
            counted(memory_nodes as u64, "memory node")
        )));
    }
    let host_bytes = if sim.raw_read.is_some() { RAW_REGION_BYTES } else { plan.start.region_bytes as usize };
    let shape = Shape {
        compute_nodes: sim.compute_nodes,
        threads: u32::from(plan.threads) + sim.keepers(),
        lanes: plan.lanes.into(),
        host_bytes: vec![host_bytes; memory_nodes],
        colocated: sim.colocated,
        device_bytes: plan.start.device_bytes.map(|bytes| bytes as u32),
    };
    if plan.parameters.any_length.is_some() && sim.raw_read.is_none() {
        return Err(Failure::Usage(ONE_SIZE_ONLY.to_owned()));
    }
    fits(plan, sim, &shape)?;
    match sim.raw_read {
        Some(bytes) => run_raw(plan, sim, &shape, bytes as usize),
        None => run_index(plan, sim, &shape),
    }
}

/// The error for indexes that no cluster simulates yet.
const ONE_SIZE_ONLY: &str = "--any-length: the simulated cluster runs keys and values of one size only";

/// Refuses a cluster that this machine cannot hold.
fn fits(plan: &Plan, sim: &SimPlan, shape: &Shape) -> Result<(), Failure> {
    let regions: u64 = shape.host_bytes.iter().map(|&bytes| bytes as u64).sum();
    let (caches, scratch) = if let Some(bytes) = sim.raw_read {
        (0, u64::from(bytes))
    } else {
        (
            kinds::cache_bytes(&plan.parameters, &plan.spending) * u64::from(sim.compute_nodes),
            kinds::scratch(&plan.parameters, &plan.spending).total_bytes as u64,
        )
    };
    let lanes = u64::from(shape.compute_nodes) * u64::from(shape.lanes_per_node()) * (scratch + LANE_BYTES);
    let needed = regions.saturating_add(caches).saturating_add(lanes).saturating_mul(sim.jobs.into());
    let (times, fewer) = match sim.jobs {
        1 => (String::new(), ""),
        jobs => (format!("{jobs} times "), "--jobs, "),
    };
    match Machine::detect().memory_bytes {
        Some(memory) if needed > memory => Err(Failure::Usage(format!(
            "the simulated cluster needs {times}{} MiB for memory nodes, {} MiB for caches and {} MiB for lanes, this machine has \
             {} MiB: lower {fewer}--records, --region-mib, --compute-nodes, --cache-mib, --threads or --lanes",
            regions >> 20,
            caches >> 20,
            lanes >> 20,
            memory >> 20
        ))),
        _ => Ok(()),
    }
}

fn run_index(plan: &Plan, sim: &SimPlan, shape: &Shape) -> Result<Measured, Failure> {
    let config = Cluster::config(&sim.profile, shape);
    let mut memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    let words = config.device_bytes / 8;
    let pool = Pool::new(&config, CHUNK_BYTES, if words == 0 { LOCKS } else { words.min(LOCKS) })
        .map_err(|error| Failure::Usage(format!("--region-mib: {error}")))?;
    pool.format(&mut memories);
    let member = |compute_node: u32| Member { row: row_of(compute_node), incarnation: 1, nonce: 1 };
    if sim.repartition_at.is_some() {
        // Parts of the keys move to compute nodes that live.
        (0..sim.compute_nodes).for_each(|number| pool.write_row(&mut memories, member(number), "bench"));
    }
    let geometry = pool.geometry();
    let mut cluster = Cluster::new(&sim.profile, shape, memories);
    let capabilities = cluster.capabilities();
    let number = IndexNumber::new(0).ok_or(Failure::Run("a catalog without entries".to_owned()))?;
    let place = |compute_node: u32| Place {
        geometry,
        number,
        member: member(compute_node),
        capabilities,
        guarantees: Cluster::guarantees(),
        // No compute node dies here, and nodes fit a path MTU, so lock words that can be taken over cost nothing.
        recovery: None,
        requests: None,
        layers: None,
        given_up: None,
        first_sequence: 1,
        epochs: None,
    };
    let assembly = |error| match error {
        AssemblyError::Scratch { .. } => Failure::Usage(format!("{error}; see --scratch-mib-max, --lanes, --threads")),
        error => Failure::run(error),
    };
    let lane_bytes = kinds::scratch(&plan.parameters, &plan.spending).total_bytes;
    let per_node = shape.lanes_per_node();
    let count = (per_node * shape.compute_nodes) as usize;
    let mut scratch = huge_zeroes(lane_bytes * (count + 1)).map_err(Failure::run)?;
    let (own, spare) = scratch.split_at_mut(lane_bytes * count);
    let lanes: Vec<_> = own
        .chunks_mut(lane_bytes)
        .zip(0..)
        .map(|(scratch, number)| Lane::new(LaneId((number % per_node) as u16), scratch))
        .collect();
    let spare = Lane::new(LaneId(per_node as u16), spare);
    let ground = Clustered {
        plan,
        sim,
        cluster: &mut cluster,
        config,
        geometry,
        number,
        indexes: &[],
        owners: Owners::default(),
        lanes: &lanes,
        spare: &spare,
        over_time: None,
    };
    if plan.parameters.any_length.is_some() {
        return Err(Failure::Usage(ONE_SIZE_ONLY.to_owned()));
    }
    let places: Vec<_> = (0..sim.compute_nodes).map(place).collect();
    // Each kind with an engine of its own: what is measured is not told apart at every step.
    let measured = match_kind!(&plan.parameters.below, Below(below) => {
        below.with_each(&places, &plan.spending, |indexes| measure_on(ground, indexes))
    });
    measured.map_err(assembly)?
}

/// Measures with one index per compute node.
fn measure_on<'i, I: Index>(ground: Clustered<'_, '_, 'i, '_, Nothing>, indexes: &'i [I]) -> Result<Measured, Failure> {
    let Clustered { plan, sim, cluster, config, geometry, number, lanes, spare, .. } = ground;
    let owners = Owners::default();
    let over_time = None;
    let mut stage =
        Clustered { plan, sim, cluster, config, geometry, number, indexes, owners, lanes, spare, over_time };
    stage.open()?;
    let mut measured = measure(plan, &mut stage)?;
    measured.over_time = stage.over_time;
    "simulated".clone_into(&mut measured.pages);
    Ok(measured)
}

/// Stands for an index that is not made yet.
enum Nothing {}

/// An index on every compute node of a cluster.
struct Clustered<'p, 'c, 'i, 'm, I> {
    plan: &'p Plan,
    sim: &'p SimPlan,
    cluster: &'c mut Cluster<'m>,
    config: Config,
    geometry: &'i [NodeGeometry],
    number: IndexNumber,
    indexes: &'i [I],
    owners: Owners,
    /// Of all compute nodes.
    lanes: &'i [Lane<'m>],
    /// Of compute node 0, to load and check with.
    spare: &'i Lane<'m>,
    /// Throughput over time of the last run, if it was asked for.
    over_time: Option<OverTime>,
}

impl<I> Clustered<'_, '_, '_, '_, I> {
    /// The memories without time.
    fn timeless(&mut self) -> DirectFabric<&mut Memories> {
        let mut fabric = DirectFabric::over(&self.config, self.cluster.memories_mut());
        fabric.set_round_trip_ns(0);
        fabric
    }

    fn lanes_per_node(&self) -> usize {
        (self.lanes.len() / self.indexes.len().max(1)).max(1)
    }

    /// Lanes of a compute node that run operations of clients.
    fn clients_per_node(&self) -> usize {
        usize::from(self.plan.threads) * usize::from(self.plan.lanes)
    }
}

impl<I: Index> Clustered<'_, '_, '_, '_, I> {
    /// Opens the index on every compute node, and shares the keys out if they have owners.
    fn open(&mut self) -> Result<(), Failure> {
        let (indexes, lanes, mut found) = (self.indexes, self.lanes, 0);
        for (index, lane) in indexes.iter().zip(lanes.iter().step_by(self.lanes_per_node())) {
            found = parts(index, &mut self.timeless(), lane)?;
        }
        let compute_nodes = indexes.len() as u32;
        self.owners = if self.sim.repartition_at.is_some() {
            if found == 0 {
                return Err(Failure::Usage(
                    "--repartition-at: any compute node serves any key of an index of this kind, so none has to move"
                        .to_owned(),
                ));
            }
            Owners::without_last(found, compute_nodes)?
        } else if self.sim.own_ranges {
            if found > 0 {
                return Err(Failure::Usage("--with own-ranges: the keys of this index have owners".to_owned()));
            }
            self.cluster.free_locks();
            Owners::of_ranges(compute_nodes)
        } else {
            Owners::new(found, compute_nodes)?
        };
        Ok(())
    }
}

impl<I: Index> Stage for Clustered<'_, '_, '_, '_, I> {
    fn validate(&mut self) -> Result<Census, String> {
        let (indexes, lanes, spare) = (self.indexes, self.lanes, self.spare);
        if self.owners.are_several() {
            // Each flushes what it has changed of its keys; compute node 0 sees it in the pool.
            for (index, lane) in indexes.iter().zip(lanes.iter().step_by(self.lanes_per_node())).skip(1) {
                validate(index, &mut self.timeless(), lane)?;
            }
        }
        validate(&indexes[0], &mut self.timeless(), spare)
    }

    fn tally(&mut self) -> Result<u64, Failure> {
        let (geometry, number, lane) = (self.geometry, self.number, self.spare);
        tally(geometry, number, &mut self.timeless(), lane)
    }

    fn bulk_load(&mut self) -> Result<Loaded, Failure> {
        let (plan, index, lane) = (self.plan, &self.indexes[0], self.spare);
        bulk_load(plan, index, &mut self.timeless(), lane)
    }

    fn warm(&mut self, records: u64) -> Result<(), Failure> {
        let warm = warm_key(self.plan, records);
        let shared = Shared::new(&self.plan.keys, self.owners.count() > 0, None);
        let (indexes, lanes, owners) = (self.indexes, self.lanes, self.owners.clone());
        for ((number, index), lanes) in (0..).zip(indexes).zip(lanes.chunks(self.lanes_per_node())) {
            let owns = |key: &[u8]| owners.owns(number, index, key);
            let key = &warm.key;
            let mut warmer = Warmer { shared: &shared, key, owns: &owns, next: 0, step: 1, end: warm.positions };
            let wakes = Wakes::new(1, 1);
            worker::run(index, &lanes[..1], &mut self.timeless(), &mut warmer, &wakes).map_err(Failure::run)?;
        }
        shared.take_failure().map_or(Ok(()), |failure| Err(Failure::Run(failure)))
    }

    fn run(&mut self, run: &Run, records: u64) -> Result<(Report, u64), Failure> {
        let plan = self.plan;
        let operations = run.operations(records);
        let (nodes, clients_per_node) = (self.indexes.len(), self.clients_per_node());
        let clients = NonZeroU32::new((nodes * clients_per_node) as u32).unwrap_or(NonZeroU32::MIN);
        let counters = self.owners.begin(&self.indexes[0], &plan.keys, records)?;
        // Lanes draw until counting ends. In a load, each lane draws its share.
        let spec = Spec { record_count: self.owners.present(), operation_count: None, ..run.spec.clone() };
        let phase = spec.phase;
        let workload = Workload::new(spec, plan.seed, clients).map_err(Failure::usage)?;
        let shared = Shared::new(&plan.keys, self.owners.count() > 0, None);
        let (indexes, lanes, owners) = (self.indexes, self.lanes, self.owners.clone());
        let owned = shares(&owners, indexes, &plan.keys);
        let streams = owners.streams(&workload, clients.get(), &counters, &owned);
        let generator = Generator::new(&shared, streams, 0);
        let (task, places) = (Cell::new(None), (nodes, self.lanes_per_node(), clients_per_node));
        let mut work = ClusterWork::new(generator, &shared, places);
        let is_given = |part| has_given(indexes, part);
        if let Some(at) = self.sim.repartition_at {
            // A part that is kept for its receiver waits for it, and is taken by no other compute node. Without a clock nobody could
            // say how long it has waited, and it would be taken. With one that stands still it has not waited too long.
            for lane in lanes {
                lane.port().set_clock(Some(|| 0));
            }
            work.moves = Some(Moves::new(at.as_nanos() as u64, &owners, &is_given, &task)?);
        }
        work.over_time = self.sim.over_time.map(|point| OverTime::new(point.as_nanos() as u64, nodes));
        let workers = Workers::new(self.cluster, indexes, lanes, |index, lane, operation| {
            run_one(index, lane, operation, task.take())
        });
        let counted = Counted { operations, whole: phase == Phase::Load, name: &run.name };
        let found = counted.run(workers, &mut work);
        // The operation's own error says more than that it failed.
        if let Some(failure) = shared.take_failure() {
            return Err(Failure::Run(failure));
        }
        let found = Found { repartition: work.moves.as_ref().map(Moves::found).transpose()?, ..found? };
        self.over_time = work.over_time;
        let records = self.owners.end(&counters, records);
        let cache_bytes = self.indexes.iter().map(|index| index.cache_bytes().0).collect();
        let driven = found.driven(plan, self.sim, self.owners.count(), cache_bytes);
        Ok((driven.report(plan, &run.name, records, gather(vec![work.clients])), records))
    }
}

/// Whether the last compute node but one has given a part up, as far as it knows.
fn has_given<I: Index>(indexes: &[I], part: u32) -> bool {
    let Some(donor) = indexes.len().checked_sub(2) else { return false };
    let word = indexes[donor].part(part).and_then(|(word, _)| word.owner().ok());
    matches!(word, Some(Owner::Kept(row) | Owner::Owned(row)) if row != row_of(donor as u32))
}

/// How much of a run is counted.
struct Counted<'a> {
    operations: u64,
    /// From the first operation to the last.
    whole: bool,
    name: &'a str,
}

/// What a counted run came to.
struct Found {
    usage: Usage,
    ramp_operations: u64,
    marks: Vec<MarkCount>,
    processor_s: f64,
    repartition: Option<Repartition>,
}

impl Counted<'_> {
    /// Runs workers to the end: ramp, counted operations, rest.
    fn run<'i, 'm, I, F, S, W>(&self, mut workers: Workers<'_, 'i, 'm, I, F, S>, work: &mut W) -> Result<Found, Failure>
    where
        I: Index,
        F: Future<Output = Result<Outcome, OpError>>,
        S: Fn(&'i I, &'i Lane<'m>, Operation) -> F,
        W: Counting,
    {
        let failed = |error: WorkersError| Failure::Run(error.to_string());
        let lanes = workers.lanes() as u64;
        let ramp = if self.whole { 0 } else { (self.operations / RAMP).max(lanes) };
        while workers.done() < ramp && !workers.is_finished() {
            let next = ramp.min(workers.done() + work.each());
            workers.run(work, Until::Operations(next)).map_err(failed)?;
            work.look(workers.now_ns());
        }
        let ramp_operations = workers.done();
        work.count(true, workers.now_ns());
        let marks = |workers: &Workers<'_, 'i, 'm, I, F, S>| {
            dm_core::rooms::MARKS.iter().map(|&mark| workers.marked(mark)).collect()
        };
        let marks_before: Vec<u64> = marks(&workers);
        let before = workers.snapshot();
        let progress = progress(self.name, Some(self.operations));
        let began_ns = thread_ns();
        let end = ramp_operations + self.operations;
        while workers.done() < end && !workers.is_finished() {
            let next =
                if self.whole { Until::Finished } else { Until::Operations(end.min(workers.done() + work.each())) };
            workers.run(work, next).map_err(failed)?;
            work.look(workers.now_ns());
            progress.set_position(workers.done() - ramp_operations);
        }
        let processor_s = (thread_ns() - began_ns) as f64 / 1e9;
        progress.finish_and_clear();
        let after = workers.snapshot();
        let marks_after: Vec<u64> = marks(&workers);
        work.count(false, workers.now_ns());
        work.stop();
        workers.run(work, Until::Finished).map_err(failed)?;
        workers.settle();
        let marks = dm_core::rooms::MARKS
            .iter()
            .zip(marks_before.iter().zip(&marks_after))
            .filter(|(_, (before, after))| after > before)
            .map(|(mark, (before, after))| MarkCount { name: mark.name().to_owned(), count: after - before })
            .collect();
        let usage = Usage::between(workers.cluster(), &before, &after);
        Ok(Found { usage, ramp_operations, marks, processor_s, repartition: None })
    }
}

impl Found {
    fn driven(self, plan: &Plan, sim: &SimPlan, owners: u32, cache_bytes: Vec<u64>) -> Driven {
        Driven {
            fabric: format!("sim, profile {}", sim.profile_name),
            measured_on: MEASURED_ON_SIM.to_owned(),
            guarantees: Cluster::guarantees(),
            memory_nodes: plan.start.memory_nodes.into(),
            owners,
            wall_s: self.usage.elapsed_ns as f64 / 1e9,
            cache_bytes,
            hotspot: (plan.spending.hotspot_bytes > 0).then(|| {
                Hotspot::new(plan.spending.hotspot_bytes, |wanted| {
                    let found = self.marks.iter().find(|mark| mark.name == wanted.name());
                    found.map_or(0, |mark| mark.count)
                })
            }),
            simulation: Some(Simulation {
                profile: sim.profile_name.clone(),
                description: sim.profile.description.clone(),
                colocated: sim.colocated,
                ramp_operations: self.ramp_operations,
                requests_per_processor_s: self.usage.requests as f64 / self.processor_s.max(1e-9),
                processor_s: self.processor_s,
                usage: self.usage,
                marks: self.marks,
                repartition: self.repartition,
            }),
        }
    }
}

/// Raw READs at random places.
struct RawWork {
    random: Random,
    bytes: u64,
    report: KindReport,
    counting: bool,
    stopped: bool,
}

impl Work for RawWork {
    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        if self.stopped {
            return Next::Finished;
        }
        scratch[plan.key.clone()].copy_from_slice(&self.random.next_u64().to_le_bytes());
        Next::Run(Operation::point(dm_core::operation::OperationKind::Get))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        match finished.result {
            Ok(_) if self.counting => {
                let cost =
                    OperationCost { round_trips: 1, requests: 1, read_bytes: self.bytes, ..OperationCost::default() };
                self.report.record(finished.latency_ns, &cost);
            }
            Ok(_) => {}
            Err(_) => self.report.record_failed(),
        }
    }
}

impl Counting for RawWork {
    fn count(&mut self, on: bool, _: u64) {
        self.counting = on;
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

fn run_raw(plan: &Plan, sim: &SimPlan, shape: &Shape, bytes: usize) -> Result<Measured, Failure> {
    let config = Cluster::config(&sim.profile, shape);
    let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    let index = RawReads::new(bytes, config.host_bytes[0], memories.count());
    let lane_bytes = index.plan().total_bytes;
    let indexes = vec![index; shape.compute_nodes as usize];
    let per_node = shape.lanes_per_node();
    let mut scratch = vec![0; lane_bytes * (per_node * shape.compute_nodes) as usize];
    let lanes: Vec<_> = scratch
        .chunks_mut(lane_bytes)
        .zip(0..)
        .map(|(scratch, number)| Lane::new(LaneId((number % per_node) as u16), scratch))
        .collect();
    let mut cluster = Cluster::new(&sim.profile, shape, memories);
    let mut reports = Vec::new();
    let name = format!("raw-read-{bytes}");
    for repeat in 0..plan.repeat {
        let mut work = RawWork {
            random: Random::stream(plan.seed, repeat.into()),
            bytes: bytes as u64,
            report: KindReport::new(OperationKind::Read),
            counting: false,
            stopped: false,
        };
        let workers =
            Workers::new(&mut cluster, &indexes, &lanes, |index, lane, operation| index.execute(lane, operation));
        let counted = Counted { operations: plan.raw_operations, whole: false, name: &name };
        let found = counted.run(workers, &mut work)?;
        if work.report.failed > 0 {
            return Err(Failure::Run(format!("{} raw READs failed", work.report.failed)));
        }
        let mut verbs = VerbCounts::default();
        let total = VerbTotal { requests: work.report.count, bytes: work.report.cost.read_bytes };
        verbs.add(OperationKind::Read, "tool", "READ", total);
        let driven = found.driven(plan, sim, 0, vec![0; shape.compute_nodes as usize]);
        reports.push(driven.report(plan, &name, 0, (vec![work.report], verbs)));
    }
    Ok(Measured { reports, pages: "simulated".to_owned(), ..Measured::default() })
}
