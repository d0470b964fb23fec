//! Runs a case: sets up the pool and its compute nodes, runs the victim's operation up to its crash point, and lets the
//! survivors continue.
//!
//! - `model`: what the index should hold, and which answers that allows.
//! - `final_checks`: dead rows are swept; then nothing may be missing, locked or lost.
//! - `newcomer`: a compute node that joins later, and may get the row of a dead one.
//! - [`slow_holders`]: holders of locks that do not die, but are slow.

mod final_checks;
mod model;
mod newcomer;
pub mod slow_holders;

use super::cases::{Case, CutOperation, KEYS};
use super::serial_fabric::{CrashPoint, Drive, SeenRequest, SerialFabric};
use crate::check::Call;
use crate::config::Config;
use crate::verify::accounting::Account;
use crate::verify::clocks;
use crate::verify::coding::{self, Coding};
use crate::verify::load::{Ended, start};
use crate::verify::membership::Membership;
use crate::verify::subject::{Opened, With};
use crate::verify::walk::{self, PoolLayout};
use dm_core::lane::Lane;
use dm_core::marks::{MARKS_MAX, Mark};
use dm_core::membership::lease::{Lease, LeaseConfig};
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Cause, OpError, OperationKind};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::row::{Joiner, Member};
use dm_core::verbs::{Assumptions, Label, LaneId, Request, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::with_index;
use std::collections::BTreeMap;

/// Compute nodes: the victim, the first survivor, and the second survivor, which continues if the first one dies, too.
const COMPUTE_NODES: usize = 3;

/// Entries of each compute node's local table for locks in leaves.
const LEAF_LOCKS: [usize; COMPUTE_NODES] = [64, 61, 59];

/// Bytes of a page cache that has room for every leaf.
const PAGE_CACHE_BYTES: u64 = 64 << 10;

/// Lines of a log ring: as few as possible.
const LOG_LINES: usize = 0;

/// Looks at the owner of a key, half a lease apart, after which it counts as one that lives.
const LOOKS_MAX: usize = 8;

/// A short lease: a hundred round trips.
pub(in crate::verify) const LEASE_NS: u64 = 200_000;

/// Values that survivors write. A value from before is its key plus 1000; the victim writes 2000.
pub(in crate::verify) const SURVIVOR: u64 = 3000;
pub(in crate::verify) const BEFORE: u64 = 1000;
pub(in crate::verify) const VICTIM: u64 = 2000;

/// The first operations of the first survivor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads every key.
    Read,
    /// Writes the key that the victim wrote, then every key.
    Write,
    /// Deletes every key.
    Delete,
    /// Sweeps the victim's row.
    Sweep,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Delete, Self::Sweep];
}

/// One run.
#[derive(Debug, Default)]
pub(in crate::verify) struct Ran {
    /// Submits of the victim's operation.
    pub(super) victim: Vec<Vec<SeenRequest>>,
    /// Submits of the first survivor's first operation.
    pub(super) survivor: Vec<Vec<SeenRequest>>,
    /// That operation recovered a lock.
    pub(super) recovered: bool,
    pub(in crate::verify) findings: Vec<String>,
    pub(super) marks: Vec<u64>,
    pub(super) memory: Account,
}

impl Case {
    /// How numbers become keys.
    pub(in crate::verify) const fn coding(&self) -> Coding {
        Coding { digits: self.setup.digits, ..Coding::shifted(8) }
    }
}

fn config(case: &Case) -> Config {
    let ascending = if case.setup.ascending { Assumptions::WRITE_ASCENDING } else { Assumptions::empty() };
    Config {
        granted: Config::RDMA_HOST.union(ascending),
        device_bytes: if case.setup.device { 4096 } else { 0 },
        crash_atomic_bytes: case.setup.unit_bytes,
        masked_atomics: case.setup.masked_cas,
        ..Config::with_nodes(case.setup.nodes, 256 << 10)
    }
}

/// What compute node `number` spends, with so many lanes.
fn spending(case: &Case, number: usize, lanes: u16) -> Spending {
    Spending {
        lanes: lanes.into(),
        cache_bytes: 16 << 10,
        page_records: 64,
        // The tables differ in size, so that a lock in a leaf has another number on each compute node.
        leaf_locks: LEAF_LOCKS[number],
        hotspot_bytes: 4096,
        // More than the nodes of one chunk.
        returned_nodes: 256,
        collected_chunks: 64,
        page_cache_bytes: PAGE_CACHE_BYTES,
        log_lines: LOG_LINES,
        level: case.setup.level,
        options: case.setup.options,
        ..Spending::default()
    }
}

fn pool(case: &Case) -> PoolLayout {
    let chunk_bytes = case.parameters.node_bytes().0.max(case.parameters.node_bytes().1).next_multiple_of(4096);
    PoolLayout::of(&case.parameters, case.setup.locks, chunk_bytes as u64)
}

pub(super) fn run(case: &Case, crash_point: Option<&CrashPoint>, mode: Mode, repair: Option<&CrashPoint>) -> Ran {
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| stage.play(crash_point, mode, repair));
    ran
}

/// What an operation does if nothing cuts it short.
#[derive(Clone, Debug, Default)]
pub(in crate::verify) struct Probe {
    submits: Vec<Vec<SeenRequest>>,
    marks: Vec<u32>,
}

impl Probe {
    /// Whether it counted this mark.
    pub(in crate::verify) fn did(&self, mark: Mark) -> bool {
        self.marks.get(mark.number()).is_some_and(|count| *count > 0)
    }

    /// Its submits.
    pub(in crate::verify) fn submits(&self) -> &[Vec<SeenRequest>] {
        &self.submits
    }

    /// WRITEs of entries.
    pub(in crate::verify) fn entry_writes(&self) -> usize {
        self.submits.iter().flatten().filter(|seen| seen.label == Label::Entry && seen.verb == Verb::Write).count()
    }
}

/// An operation. If another compute node owns the key, it is asked again, until that one lives or its keys were taken over.
pub(super) async fn ask(index: &dyn Opened, lane: &Lane<'_>, coding: Coding, key: u64, call: Call) -> Ended {
    for _ in 0..LOOKS_MAX {
        let ended = start(index, lane, coding, key, call, 0).await;
        if !matches!(ended, Ended::Failed(OpError { cause: Cause::NotOwner { .. }, .. })) {
            return ended;
        }
        let _ = lane.port().call(Request::pause(LEASE_NS / 2)).await;
    }
    start(index, lane, coding, key, call, 0).await
}

/// Runs the operation of a case to its end, after the inserts and deletes that precede it.
pub(in crate::verify) fn probe(case: &Case) -> Probe {
    let mut probe = Probe::default();
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| {
        stage.begin()?;
        let marked = |mark: &Mark| stage.lanes[0].marked(*mark);
        let before: Vec<u32> = dm_core::rooms::MARKS.iter().map(marked).collect();
        stage.run_victim(None)?;
        probe.marks = vec![0; MARKS_MAX];
        for (mark, before) in dm_core::rooms::MARKS.iter().zip(before) {
            probe.marks[mark.number()] = stage.lanes[0].marked(*mark) - before;
        }
        Ok(())
    });
    probe.submits = ran.victim;
    probe
}

/// Sets up a case and calls `play` with it. The victim has `victims_lanes` lanes, the other compute nodes have one
/// each.
pub(in crate::verify) fn with_stage(
    case: &Case,
    victims_lanes: u16,
    ran: &mut Ran,
    play: &mut dyn FnMut(&mut Stage<'_, '_>) -> Result<(), String>,
) {
    let lanes_of = |number: usize| if number == 0 { victims_lanes } else { 1 };
    let config = config(case);
    let pool = pool(case);
    let mut fabric = SerialFabric::new(&config, pool.holders());
    pool.format(&config, &mut fabric.memories);
    pool.format_entry(&config, "verify", &mut fabric.memories);
    let geometry = pool.geometry(&config);
    ran.marks = vec![0; MARKS_MAX];
    let terms = LeaseConfig::of(LEASE_NS).expect("a short lease");
    let mut joined = Vec::new();
    for number in 0..COMPUTE_NODES {
        let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let joiner = Joiner { token: 77 + number as u64, lanes: lanes_of(number), memory_nodes: 1, host: "verify" };
        let join = Membership::join(&lane, &geometry, &joiner, (pool.redo_bytes(), terms), None);
        match fabric.drive(0, &lane, join, None, &mut Vec::new()) {
            Ok(Drive::Done(Ok(membership))) => joined.push(membership),
            other => {
                return ran.findings.push(format!("joining: {other:?}"));
            }
        }
    }
    let members: Vec<Member> = joined.iter().map(|membership| membership.member).collect();
    let capabilities = config.capabilities();
    let recoveries: Result<Vec<_>, _> = joined.iter().map(|membership| membership.recovery(&capabilities)).collect();
    let recoveries = match recoveries {
        Ok(recoveries) => recoveries,
        Err(error) => return ran.findings.push(error.to_string()),
    };
    let place = walk::place(&geometry, &config, config.guarantees(), 0);
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let (epochs, pins) = (Epochs::new(), (0..lanes_of(number)).map(|_| Pin::default()).collect::<Vec<_>>());
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let here = Place { member: members[number], recovery: Some(&recoveries[number]), epochs, ..place };
        let spending = spending(case, number, lanes_of(number));
        with_index(&here, &case.parameters, &spending, |index| then(&With(&index, None)))
            .map_err(|error| error.to_string())
    };
    let opened = walk::open_all(COMPUTE_NODES, &open, &[], &mut |opened| {
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; COMPUTE_NODES];
        let lanes: Vec<Lane<'_>> = scratch.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; usize::from(victims_lanes) - 1];
        let leases: Vec<&Lease> = joined.iter().map(|membership| &*membership.lease).collect();
        let others: Vec<Lane<'_>> = (1..).zip(&mut scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect();
        clocks::begin();
        if opened[0].has_owners() {
            fabric.leases = joined.iter().map(|membership| membership.lease.clone()).collect();
        }
        lanes.iter().chain(&others).for_each(|lane| lane.port().set_clock(Some(clocks::now_us)));
        let mut stage = Stage {
            case,
            geometry: &geometry,
            members: &members,
            leases: &leases,
            fabric: &mut fabric,
            opened,
            lanes: &lanes,
            others: &others,
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            dead: Vec::new(),
            ran,
        };
        if let Err(what) = play(&mut stage) {
            stage.ran.findings.push(what);
        }
        for lane in &lanes {
            for mark in dm_core::rooms::MARKS {
                ran.marks[mark.number()] += u64::from(lane.marked(*mark));
            }
        }
    });
    if let Err(error) = opened {
        ran.findings.push(error);
    }
    ran.findings.append(&mut fabric.findings);
}

/// A case set up.
pub(in crate::verify) struct Stage<'a, 'm> {
    pub(in crate::verify) case: &'a Case,
    pub(super) geometry: &'a [NodeGeometry],
    pub(in crate::verify) members: &'a [Member],
    leases: &'a [&'a Lease],
    pub(in crate::verify) fabric: &'a mut SerialFabric,
    pub(in crate::verify) opened: &'a [&'a dyn Opened],
    /// The first lane of each compute node.
    pub(in crate::verify) lanes: &'a [Lane<'m>],
    /// The victim's other lanes.
    pub(in crate::verify) others: &'a [Lane<'m>],
    /// Records that exist.
    known: BTreeMap<u64, u64>,
    /// Per key, other outcomes that may still appear: those of operations that a death cut short. An outcome is removed
    /// when it was seen; all of a key are removed when the key is overwritten.
    pub(in crate::verify) open: BTreeMap<u64, Vec<Option<u64>>>,
    /// Compute nodes that died.
    pub(in crate::verify) dead: Vec<usize>,
    ran: &'a mut Ran,
}

impl Stage<'_, '_> {
    fn play(
        &mut self,
        crash_point: Option<&CrashPoint>,
        mode: Mode,
        repair: Option<&CrashPoint>,
    ) -> Result<(), String> {
        self.begin()?;
        let died = self.run_victim(crash_point)?;
        if !died {
            return self.afterwards();
        }
        self.dead.push(0);
        if self.run_first_survivor(mode, repair)? {
            self.dead.push(1);
            return self.go_on(2, mode);
        }
        self.go_on(1, mode)
    }

    pub(in crate::verify) fn begin(&mut self) -> Result<(), String> {
        for key in self.case.scenario.inserted.clone() {
            let value = BEFORE + key;
            self.expect(0, key, Call::Insert { value })?;
        }
        self.case.scenario.deleted.iter().try_for_each(|&key| self.expect(0, key, Call::Delete))
    }

    /// Runs the victim's operation. Returns whether it was cut short.
    pub(super) fn run_victim(&mut self, crash_point: Option<&CrashPoint>) -> Result<bool, String> {
        let mut seen = Vec::new();
        let (index, lane) = (self.opened[0], &self.lanes[0]);
        let died = match self.case.scenario.operation {
            CutOperation::Point(kind, key) => {
                let before = self.known.get(&key).copied();
                let call = match kind {
                    OperationKind::Get | OperationKind::Scan => Call::Get,
                    OperationKind::Insert => Call::Insert { value: VICTIM },
                    OperationKind::Update => Call::Update { value: VICTIM },
                    OperationKind::Upsert => Call::Upsert { value: VICTIM },
                    OperationKind::UpdateIf => Call::UpdateIf { expected: before.unwrap_or_default(), value: VICTIM },
                    OperationKind::Delete => Call::Delete,
                    OperationKind::DeleteIf => Call::DeleteIf { expected: before.unwrap_or_default() },
                };
                let future = ask(index, lane, self.case.coding(), key, call);
                match self.fabric.drive(self.members[0].row.0, lane, future, crash_point, &mut seen)? {
                    Drive::Done(ended) => {
                        self.check(key, call, &ended)?;
                        false
                    }
                    Drive::Died | Drive::Stopped => {
                        let after = match call {
                            Call::Delete | Call::DeleteIf { .. } => None,
                            _ => call.written().or(before),
                        };
                        if after != before {
                            self.open.entry(key).or_default().push(after);
                        }
                        true
                    }
                }
            }
            CutOperation::Bulk(keys) => {
                let load = async {
                    for key in 0..keys {
                        lane.port().with(|scratch| {
                            self.case.coding().write_key(key, &mut scratch[index.plan().key.clone()]);
                            coding::write_value(VICTIM, &mut scratch[index.plan().value.clone()]);
                        });
                        index.bulk_append(lane).await?;
                    }
                    index.bulk_finish(lane).await
                };
                match self.fabric.drive(self.members[0].row.0, lane, load, crash_point, &mut seen)? {
                    Drive::Done(Ok(())) => {
                        self.known.extend((0..keys).map(|key| (key, VICTIM)));
                        false
                    }
                    Drive::Done(Err(error)) => return Err(format!("the bulk load: {error}")),
                    Drive::Died | Drive::Stopped => {
                        self.open.extend((0..keys).map(|key| (key, vec![Some(VICTIM)])));
                        true
                    }
                }
            }
        };
        self.ran.victim = seen;
        Ok(died)
    }

    /// Runs the first survivor's first operation. Returns whether it was cut short.
    fn run_first_survivor(&mut self, mode: Mode, repair: Option<&CrashPoint>) -> Result<bool, String> {
        let key = match self.case.scenario.operation {
            CutOperation::Point(_, key) => key,
            CutOperation::Bulk(_) => 0,
        };
        let (index, lane) = (self.opened[1], &self.lanes[1]);
        let row = self.members[1].row.0;
        let mut seen = Vec::new();
        let takeovers = lane.marked(Mark::TAKEOVER);
        let died = if mode == Mode::Sweep {
            match self.fabric.drive(
                row,
                lane,
                index.sweep(lane, self.members[0].row, IndexSet::default()),
                repair,
                &mut seen,
            )? {
                Drive::Done(swept) => {
                    swept.map_err(|error| format!("the first sweep: {error}"))?;
                    false
                }
                Drive::Died | Drive::Stopped => true,
            }
        } else {
            let call = match mode {
                Mode::Write => Call::Upsert { value: SURVIVOR },
                Mode::Delete => Call::Delete,
                _ => Call::Get,
            };
            let future = ask(index, lane, self.case.coding(), key, call);
            match self.fabric.drive(row, lane, future, repair, &mut seen)? {
                Drive::Done(ended) => {
                    self.check(key, call, &ended)?;
                    false
                }
                Drive::Died | Drive::Stopped => {
                    if call != Call::Get {
                        let after = if call == Call::Delete { None } else { Some(SURVIVOR) };
                        self.open.entry(key).or_default().push(after);
                    }
                    true
                }
            }
        };
        self.ran.survivor = seen;
        self.ran.recovered = lane.marked(Mark::TAKEOVER) > takeovers;
        Ok(died)
    }

    /// Runs what survivors do next, and the final checks.
    pub(in crate::verify) fn go_on(&mut self, survivor: usize, mode: Mode) -> Result<(), String> {
        let keys: Vec<u64> = (0..KEYS).collect();
        // If two operations of unknown outcome are open on one key, a read must come before the model can predict.
        match mode {
            Mode::Read | Mode::Sweep => {
                for &key in &keys {
                    self.expect(survivor, key, Call::Get)?;
                }
                self.scan(survivor)?;
                for &key in &keys {
                    self.expect(survivor, key, Call::Upsert { value: SURVIVOR + key })?;
                }
            }
            Mode::Write => {
                for &key in &keys {
                    self.expect(survivor, key, Call::Upsert { value: SURVIVOR + key })?;
                }
            }
            Mode::Delete => {
                for &key in keys.iter().rev() {
                    self.expect(survivor, key, Call::Delete)?;
                }
                for &key in &keys {
                    self.expect(survivor, key, Call::Insert { value: SURVIVOR + key })?;
                }
            }
        }
        self.afterwards()
    }
}
