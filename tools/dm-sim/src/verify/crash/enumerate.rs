//! Tries every point at which an operation can be cut short.

use super::cases::{Case, CutOperation, KEYS};
use super::table::{Cut, Drive, Seen, Table, cuts};
use crate::check::{Answer, Call};
use crate::config::Config;
use crate::verify::accounting::{Account, Node, account};
use crate::verify::coding::{self, Coding};
use crate::verify::load::{Ended, start};
use crate::verify::membership::Membership;
use crate::verify::subject::{Opened, With};
use crate::verify::walk::{self, PoolLayout};
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::{Lease, LeaseConfig};
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Cause, Effect, OperationKind};
use dm_core::remote::NodeGeometry;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::remote::place::NodeClass;
use dm_core::remote::row::{Joiner, LEASE_NS_MAX, Member, Row, RowState, RowWord};
use dm_core::verbs::{Label, LaneId, NodeId, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::with_index;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Compute nodes: the victim, the first survivor, and the second survivor, which continues if the first one dies, too.
const COMPUTE_NODES: usize = 3;

/// Entries of each compute node's local table for locks in leaves.
const LEAF_LOCKS: [usize; COMPUTE_NODES] = [64, 61, 59];

/// A short lease: a hundred round trips.
const LEASE_NS: u64 = 200_000;

/// Values that survivors write. A value from before is its key plus 1000; the victim writes 2000.
const SURVIVOR: u64 = 3000;
const BEFORE: u64 = 1000;
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

/// Results of many crash points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// Cases.
    pub cases: u64,
    /// Crash points that exist.
    pub points: u64,
    /// Runs: each crash point that was tried, with each [`Mode`], and the runs in which the first survivor died, too.
    pub runs: u64,
    /// Of these, runs in which the first survivor died.
    pub repairers_died: u64,
    /// Coverage marks of victims and survivors.
    pub marks: Vec<u64>,
    /// Where the memory of all runs was at the end, in nodes.
    pub memory: Account,
    /// Runs with findings.
    pub failed: u64,
    /// The first findings.
    pub findings: Vec<String>,
}

/// Findings that are kept.
const FINDINGS_MAX: usize = 12;

/// Turns of all live compute nodes that an orphan collection may take.
const ORPHAN_COLLECTION_TURNS_MAX: u32 = 400;

/// Turns after which an orphan collection is given up while rows of dead compute nodes are not yet swept.
const COLLECTION_TURNS_MIN: u32 = 8;

impl Enumeration {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }

    fn add(&mut self, ran: &Ran, what: impl FnOnce() -> String) {
        self.runs += 1;
        self.marks.resize(Mark::ALL.len(), 0);
        for (sum, count) in self.marks.iter_mut().zip(&ran.marks) {
            *sum += count;
        }
        self.memory.add(&ran.memory);
        if !ran.findings.is_empty() {
            self.failed += 1;
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(format!("{}\n    {}", what(), ran.findings.join("\n    ")));
            }
        }
    }

    /// Adds the results of another enumeration.
    pub fn merge(&mut self, other: Self) {
        self.cases += other.cases;
        self.points += other.points;
        self.runs += other.runs;
        self.repairers_died += other.repairers_died;
        self.marks.resize(Mark::ALL.len(), 0);
        for (sum, count) in self.marks.iter_mut().zip(&other.marks) {
            *sum += count;
        }
        self.memory.add(&other.memory);
        self.failed += other.failed;
        self.findings.extend(other.findings);
        self.findings.truncate(FINDINGS_MAX);
    }
}

impl fmt::Display for Enumeration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, points, runs, repairers_died, memory, failed, .. } = self;
        writeln!(
            f,
            "{cases} cases, {points} crash points, {runs} runs, in {repairers_died} of them a repairer died too; {failed} failed"
        )?;
        writeln!(f, "in the end, of all runs: {memory}")?;
        let marks = Mark::ALL.iter().zip(&self.marks).filter(|(_, count)| **count > 0);
        let marks: Vec<String> = marks.map(|(mark, count)| format!("{} {count}", mark.name())).collect();
        writeln!(f, "marks: {}", marks.join(", "))?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))
    }
}

/// Tries the crash points of `case`: at most `points_max`, evenly thinned, with every [`Mode`]. Also tries at most
/// `repairs_max` combinations of such a point and a death of the first survivor during its recovery.
pub fn enumerate(case: &Case, points_max: usize, repairs_max: usize) -> Enumeration {
    let mut sum = Enumeration { cases: 1, ..Enumeration::default() };
    let dry = run(case, None, Mode::Read, None);
    sum.add(&dry, || format!("{}: nobody dies", case.name));
    let all = cuts(&dry.victim);
    sum.points = all.len() as u64;
    let tried = thin(&all, points_max);
    let mut worth = Vec::new();
    for cut in &tried {
        for mode in Mode::ALL {
            let ran = run(case, Some(cut), mode, None);
            sum.add(&ran, || describe(case, &dry, cut, mode));
            if matches!(mode, Mode::Write | Mode::Sweep) && ran.recovered {
                worth.push((*cut, mode, ran.survivor));
            }
        }
    }
    // Those that left something torn come first.
    worth.sort_by_key(|(cut, _, _): &(&Cut, _, _)| cut.chains.iter().all(|chain| chain.part.is_none()));
    let recovers =
        |seen: &Seen| matches!(seen.label, Label::Takeover | Label::Redo | Label::Replay) || seen.verb == Verb::Rpc;
    let chosen = thin(&worth, repairs_max);
    let each = repairs_max.checked_div(chosen.len()).unwrap_or(0).max(1);
    for (number, (cut, mode, survivor)) in chosen.into_iter().enumerate() {
        // Before the lease is over there are only READs and lost CASes. The recovery itself matters.
        let repairs: Vec<Cut> =
            cuts(survivor).into_iter().filter(|cut| survivor[cut.submit].iter().any(recovers)).collect();
        for step in 0..each.min(repairs.len()) {
            // Each chosen point gets other repairs.
            let repair = &repairs[(number * 7 + step * repairs.len() / each) % repairs.len()];
            let ran = run(case, Some(cut), *mode, Some(repair));
            sum.repairers_died += 1;
            sum.add(&ran, || format!("{}; and then {repair:?}", describe(case, &dry, cut, *mode)));
        }
    }
    sum
}

fn describe(case: &Case, dry: &Ran, cut: &Cut, mode: Mode) -> String {
    let submit: Vec<String> = dry.victim[cut.submit]
        .iter()
        .map(|seen| format!("m{} {} {}", seen.node, seen.verb.name(), seen.label.name()))
        .collect();
    format!("{}: dies in [{}], {cut:?}, survivors {mode:?}", case.name, submit.join(", "))
}

/// At most `max` of them, evenly spread.
fn thin<T>(all: &[T], max: usize) -> Vec<&T> {
    if all.len() <= max {
        return all.iter().collect();
    }
    (0..max).map(|number| &all[number * all.len() / max]).collect()
}

/// One run.
#[derive(Debug, Default)]
pub(in crate::verify) struct Ran {
    /// Submits of the victim's operation.
    victim: Vec<Vec<Seen>>,
    /// Submits of the first survivor's first operation.
    survivor: Vec<Vec<Seen>>,
    /// That operation recovered a lock.
    recovered: bool,
    pub(in crate::verify) findings: Vec<String>,
    marks: Vec<u64>,
    memory: Account,
}

impl Case {
    /// How numbers become keys.
    pub(in crate::verify) const fn coding(&self) -> Coding {
        Coding { key_shift: 8, digits: self.setup.digits }
    }
}

fn config(case: &Case) -> Config {
    Config {
        device_bytes: if case.setup.device { 4096 } else { 0 },
        crash_atomic_bytes: case.setup.unit_bytes,
        masked_atomics: case.setup.masked_cas,
        ..Config::with_nodes(case.setup.nodes, 256 << 10)
    }
}

fn pool(case: &Case) -> PoolLayout {
    let chunk_bytes = case.parameters.node_bytes().0.max(case.parameters.node_bytes().1).next_multiple_of(4096);
    PoolLayout::of(&case.parameters, case.setup.locks, chunk_bytes as u64)
}

fn run(case: &Case, cut: Option<&Cut>, mode: Mode, repair: Option<&Cut>) -> Ran {
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| stage.play(cut, mode, repair));
    ran
}

/// What an operation does if nothing cuts it short.
#[derive(Clone, Debug, Default)]
pub(in crate::verify) struct Probe {
    submits: Vec<Vec<Seen>>,
    marks: Vec<u32>,
}

impl Probe {
    /// Whether it counted this mark.
    pub(in crate::verify) fn did(&self, mark: Mark) -> bool {
        self.marks.get(mark as usize).is_some_and(|count| *count > 0)
    }

    /// Its submits.
    pub(in crate::verify) fn submits(&self) -> &[Vec<Seen>] {
        &self.submits
    }

    /// WRITEs of entries.
    pub(in crate::verify) fn entry_writes(&self) -> usize {
        self.submits.iter().flatten().filter(|seen| seen.label == Label::Entry && seen.verb == Verb::Write).count()
    }
}

/// Runs the operation of a case to its end, after the inserts and deletes that precede it.
pub(in crate::verify) fn probe(case: &Case) -> Probe {
    let mut probe = Probe::default();
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| {
        stage.begin()?;
        let marks = || Mark::ALL.iter().map(|mark| stage.lanes[0].marked(*mark)).collect::<Vec<_>>();
        let before = marks();
        stage.run_victim(None)?;
        probe.marks = marks().iter().zip(before).map(|(after, before)| after - before).collect();
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
    let mut table = Table::new(&config);
    let pool = pool(case);
    pool.format(&config, &mut table.memories);
    let geometry = pool.geometry(&config);
    ran.marks = vec![0; Mark::ALL.len()];
    let terms = LeaseConfig::of(LEASE_NS).expect("a short lease");
    let mut joined = Vec::new();
    for number in 0..COMPUTE_NODES {
        let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let joiner = Joiner { token: 77 + number as u64, lanes: lanes_of(number), host: "verify" };
        let join = Membership::join(&lane, &geometry, &joiner, pool.redo_bytes(), terms);
        match table.drive(0, &lane, join, None, &mut Vec::new()) {
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
    let place = walk::place(&geometry, &config, walk::everything(), 0);
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let (epochs, pins) = (Epochs::new(), (0..lanes_of(number)).map(|_| Pin::default()).collect::<Vec<_>>());
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let here = Place { member: members[number], recovery: Some(&recoveries[number]), epochs, ..place };
        let spending = Spending {
            lanes: lanes_of(number).into(),
            cache_bytes: 16 << 10,
            page_records: 64,
            // The tables differ in size, so that a lock in a leaf has another number on each compute node.
            leaf_locks: LEAF_LOCKS[number],
            hotspot_bytes: 4096,
            // More than the nodes of one chunk.
            returned_nodes: 256,
            collected_chunks: 64,
            options: case.setup.options,
            ..Spending::default()
        };
        with_index(&here, &case.parameters, &spending, |index| then(&With(&index))).map_err(|error| error.to_string())
    };
    let opened = walk::open_all(COMPUTE_NODES, &open, &[], &mut |opened| {
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; COMPUTE_NODES];
        let lanes: Vec<Lane<'_>> = scratch.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; usize::from(victims_lanes) - 1];
        let leases: Vec<&Lease> = joined.iter().map(|membership| &membership.lease).collect();
        let others: Vec<Lane<'_>> = (1..).zip(&mut scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect();
        let mut stage = Stage {
            case,
            geometry: &geometry,
            members: &members,
            leases: &leases,
            table: &mut table,
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
            for mark in Mark::ALL {
                ran.marks[*mark as usize] += u64::from(lane.marked(*mark));
            }
        }
    });
    if let Err(error) = opened {
        ran.findings.push(error);
    }
    ran.findings.append(&mut table.findings);
}

/// Tests holders that are slow. A slow holder that is alive is not fenced, nor is one whose row announces a longer
/// lease. A holder whose own clock says that its lease is over writes nothing. A fenced holder learns it, and can join
/// again. The error says what went otherwise.
pub fn descheduled_holders(case: &Case) -> Result<(), String> {
    let mut ran = Ran::default();
    with_stage(case, 1, &mut ran, &mut |stage| {
        stage.slow_holder()?;
        stage.patient_holder()?;
        stage.late_holder()?;
        stage.stopped_holder()
    });
    match ran.findings.first() {
        None => Ok(()),
        Some(what) => Err(format!("{}: {what}", case.name)),
    }
}

/// A case set up.
pub(in crate::verify) struct Stage<'a, 'm> {
    pub(in crate::verify) case: &'a Case,
    geometry: &'a [NodeGeometry],
    pub(in crate::verify) members: &'a [Member],
    leases: &'a [&'a Lease],
    pub(in crate::verify) table: &'a mut Table,
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
    fn play(&mut self, cut: Option<&Cut>, mode: Mode, repair: Option<&Cut>) -> Result<(), String> {
        self.begin()?;
        let died = self.run_victim(cut)?;
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

    /// Pauses compute node 0 while it holds a lock, before the submit that unlocks, and runs `meanwhile`. Then compute
    /// node 0 continues, and its answer is returned.
    fn stop(&mut self, meanwhile: impl FnMut(&mut Self) -> Result<(), String>) -> Result<Ended, String> {
        let unlocks = |lane: &Lane<'_>| lane.port().requests().iter().any(|request| request.label == Label::Unlock);
        self.stop_where(unlocks, meanwhile)
    }

    /// The same, but pauses where `here` says so of the lane before a submit.
    fn stop_where(
        &mut self,
        here: impl Fn(&Lane<'_>) -> bool,
        mut meanwhile: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<Ended, String> {
        let (index, lane) = (self.opened[0], &self.lanes[0]);
        let row = self.members[0].row.0;
        let mut future = start(index, lane, self.case.coding(), 4, Call::Update { value: VICTIM }, 0);
        let mut seen = Vec::new();
        lane.port().start();
        for submit in 0.. {
            match self.table.advance(row, lane, future.as_mut(), None, Some(submit), &mut seen)? {
                Drive::Stopped => {}
                other => return Err(format!("an update that takes no lock: {other:?}")),
            }
            if here(lane) {
                break;
            }
        }
        meanwhile(self)?;
        match self.table.advance(row, lane, future.as_mut(), None, None, &mut seen)? {
            Drive::Done(ended) => Ok(ended),
            other => Err(format!("the stopped update: {other:?}")),
        }
    }

    fn fill(&mut self) -> Result<(), String> {
        (0..4).try_for_each(|key| self.expect(0, key * 2, Call::Upsert { value: BEFORE + key }))
    }

    fn slow_holder(&mut self) -> Result<(), String> {
        self.fill()?;
        let row = self.members[0].row;
        self.table.beating = vec![self.geometry[0].row_offset(row) + 8];
        self.table.beat_ns = LEASE_NS / 8;
        let ended = self.stop(|stage| {
            let (index, lane) = (stage.opened[1], &stage.lanes[1]);
            let future = start(index, lane, stage.case.coding(), 4, Call::Upsert { value: SURVIVOR }, 5 * LEASE_NS);
            match stage.table.drive(stage.members[1].row.0, lane, future, None, &mut Vec::new())? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Deadline { .. }) => Ok(()),
                other => Err(format!("waiting five leases for a lock whose holder's heart beats: {other:?}")),
            }
        })?;
        self.table.beating.clear();
        self.check(4, Call::Update { value: VICTIM }, &ended)
    }

    /// Writes into the row of compute node 0 how long a lease it announces, in us. Returns the previous value.
    fn say_lease(&mut self, lease_us: u64) -> u64 {
        let word = self.geometry[0].row_offset(self.members[0].row) + core::mem::offset_of!(Row, lease_us) as u64;
        let Some(home) = self.table.memories.get_mut(NodeId(0)) else { return 0 };
        let said = home.host.word(word);
        home.host.set_word(word, lease_us);
        said
    }

    /// A holder is unresponsive, but its row announces a longer lease than that of the compute nodes that wait.
    fn patient_holder(&mut self) -> Result<(), String> {
        let ended = self.stop(|stage| {
            let wait = |stage: &mut Self, wait_ns| {
                let (index, lane) = (stage.opened[1], &stage.lanes[1]);
                let future = start(index, lane, stage.case.coding(), 4, Call::Upsert { value: SURVIVOR }, wait_ns);
                stage.table.drive(stage.members[1].row.0, lane, future, None, &mut Vec::new())
            };
            let said = stage.say_lease(10 * LEASE_NS / 1000);
            if said != LEASE_NS / 1000 {
                return Err(format!("a row says a lease of {said} us"));
            }
            match wait(stage, 5 * LEASE_NS)? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Deadline { .. }) => {}
                other => return Err(format!("waiting half of the holder's lease: {other:?}")),
            }
            stage.say_lease(LEASE_NS_MAX / 1000 + 1);
            match wait(stage, 5 * LEASE_NS)? {
                Drive::Done(Ended::Failed(error)) if matches!(error.cause, Cause::Corrupt { .. }) => {}
                other => return Err(format!("waiting for a holder whose lease is absurd: {other:?}")),
            }
            stage.say_lease(said);
            Ok(())
        })?;
        self.check(4, Call::Update { value: VICTIM }, &ended)
    }

    /// By its own clock, a holder has not renewed its lease for half of it, so it posts no WRITE. When it has renewed
    /// the lease it settles, and the tree is as before.
    fn late_holder(&mut self) -> Result<(), String> {
        let (index, lane, lease) = (self.opened[0], &self.lanes[0], self.leases[0]);
        let fenced_itself = lane.marked(Mark::SelfFenced);
        let late_us = (LEASE_NS / 1000) as u32;
        // Before the CAS: the holder decides what to write after it has the lock.
        let locks = |lane: &Lane<'_>| {
            lane.port().requests().iter().any(|request| request.label == Label::Lock && request.verb != Verb::Read)
        };
        let ended = self.stop_where(locks, |_| {
            lease.tick(late_us);
            Ok(())
        })?;
        if !matches!(&ended, Ended::Failed(error) if error.cause == Cause::Fenced && error.effect == Effect::None) {
            return Err(format!("an update of a holder whose lease is over: {ended:?}"));
        }
        if lane.marked(Mark::SelfFenced) == fenced_itself {
            return Err("a holder whose lease is over did not notice it".to_owned());
        }
        lease.renewed(late_us);
        let settled = self.table.drive(self.members[0].row.0, lane, index.settle(lane), None, &mut Vec::new())?;
        if !matches!(settled, Drive::Done(Ok(()))) || lane.in_doubt() {
            return Err(format!("settling after the lease was renewed: {settled:?}"));
        }
        self.expect(1, 4, Call::Get)
    }

    fn stopped_holder(&mut self) -> Result<(), String> {
        let fenced = |ended: &Ended| matches!(ended, Ended::Failed(error) if error.cause == Cause::Fenced);
        let ended = self.stop(|stage| stage.expect(1, 4, Call::Upsert { value: SURVIVOR }))?;
        if !fenced(&ended) {
            return Err(format!("an update whose lock was taken over ends with {ended:?}"));
        }
        self.expect(1, 4, Call::Get)?;
        let (index, lane, row) = (self.opened[0], &self.lanes[0], self.members[0].row);
        let settled = self.table.drive(row.0, lane, index.settle(lane), None, &mut Vec::new())?;
        if !matches!(settled, Drive::Done(Ok(()))) || lane.in_doubt() {
            return Err(format!("settling on a fenced compute node: {settled:?}"));
        }
        for call in [Call::Get, Call::Upsert { value: VICTIM }] {
            let mut seen = Vec::new();
            let future = start(index, lane, self.case.coding(), 4, call, 0);
            let ended = self.table.drive(row.0, lane, future, None, &mut seen)?;
            if !matches!(&ended, Drive::Done(ended) if fenced(ended)) || !seen.is_empty() {
                return Err(format!("{call:?} on a fenced compute node: {ended:?} after {} submits", seen.len()));
            }
        }
        self.dead.push(0);
        self.afterwards()?;
        let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let joiner = Joiner { token: 99, lanes: 1, host: "again" };
        match self.table.drive(
            0,
            &lane,
            Membership::join(&lane, self.geometry, &joiner, 64, LeaseConfig::HARDWARE),
            None,
            &mut Vec::new(),
        )? {
            Drive::Done(Ok(again)) if again.member.row == row && again.member.incarnation == 2 => Ok(()),
            other => Err(format!("joining again: {other:?}")),
        }
    }

    /// Runs the victim's operation. Returns whether it was cut short.
    fn run_victim(&mut self, cut: Option<&Cut>) -> Result<bool, String> {
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
                let future = start(index, lane, self.case.coding(), key, call, 0);
                match self.table.drive(self.members[0].row.0, lane, future, cut, &mut seen)? {
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
                match self.table.drive(self.members[0].row.0, lane, load, cut, &mut seen)? {
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
    fn run_first_survivor(&mut self, mode: Mode, repair: Option<&Cut>) -> Result<bool, String> {
        let key = match self.case.scenario.operation {
            CutOperation::Point(_, key) => key,
            CutOperation::Bulk(_) => 0,
        };
        let (index, lane) = (self.opened[1], &self.lanes[1]);
        let row = self.members[1].row.0;
        let mut seen = Vec::new();
        let takeovers = lane.marked(Mark::Takeover);
        let died = if mode == Mode::Sweep {
            match self.table.drive(row, lane, index.sweep(lane, self.members[0].row), repair, &mut seen)? {
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
            let future = start(index, lane, self.case.coding(), key, call, 0);
            match self.table.drive(row, lane, future, repair, &mut seen)? {
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
        self.ran.recovered = lane.marked(Mark::Takeover) > takeovers;
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

    /// Runs an operation that must succeed, and checks its answer against the model.
    fn expect(&mut self, node: usize, key: u64, call: Call) -> Result<(), String> {
        let (index, lane) = (self.opened[node], &self.lanes[node]);
        let future = start(index, lane, self.case.coding(), key, call, 0);
        match self.table.drive(self.members[node].row.0, lane, future, None, &mut Vec::new()) {
            Ok(Drive::Done(ended)) => self.check(key, call, &ended)?,
            other => return Err(format!("{call:?} of key {key} by compute node {node}: {other:?}")),
        }
        if lane.in_doubt() {
            return Err(format!("{call:?} of key {key} left {:?}", lane.lock_records()));
        }
        Ok(())
    }

    /// Checks an answer against the model, and updates the model.
    pub(in crate::verify) fn check(&mut self, key: u64, call: Call, ended: &Ended) -> Result<(), String> {
        let Ended::Point(answer) = *ended else {
            return Err(format!("{call:?} of key {key} ended with {ended:?}"));
        };
        let answer_for = |present: Option<u64>| match (call, present) {
            (Call::Get, Some(value)) => Answer::Found(value),
            (Call::Insert { .. }, Some(value)) => Answer::Exists(value),
            (Call::Insert { .. } | Call::Upsert { .. }, None) => Answer::Inserted,
            (Call::UpdateIf { expected, .. } | Call::DeleteIf { expected }, Some(value)) if expected != value => {
                Answer::Mismatch(value)
            }
            (Call::Update { .. } | Call::UpdateIf { .. }, Some(_)) => Answer::Updated,
            (Call::Upsert { .. }, Some(_)) => Answer::Replaced,
            (Call::Delete | Call::DeleteIf { .. }, Some(_)) => Answer::Deleted,
            _ => Answer::Absent,
        };
        let known = self.known.get(&key).copied();
        if answer != answer_for(known) {
            let open = self.open.entry(key).or_default();
            let Some(which) = open.iter().position(|other| answer == answer_for(*other)) else {
                return Err(format!(
                    "{call:?} of key {key} answers {answer:?}; it was {known:?}, or one of {open:?} by the dead"
                ));
            };
            // An outcome that was seen stays, unless the outcome of another dead operation follows it.
            let now = open.swap_remove(which);
            self.set(key, now);
        }
        match answer {
            Answer::Inserted | Answer::Updated | Answer::Replaced => {
                self.open.remove(&key);
                self.set(key, call.written());
            }
            Answer::Deleted => {
                self.open.remove(&key);
                self.set(key, None);
            }
            _ => {}
        }
        Ok(())
    }

    fn set(&mut self, key: u64, value: Option<u64>) {
        match value {
            Some(value) => self.known.insert(key, value),
            None => self.known.remove(&key),
        };
    }

    fn scan(&mut self, node: usize) -> Result<(), String> {
        let (index, lane) = (self.opened[node], &self.lanes[node]);
        let future = start(index, lane, self.case.coding(), 0, Call::Scan { after: false, high: None, limit: 64 }, 0);
        let ended = self.table.drive(self.members[node].row.0, lane, future, None, &mut Vec::new());
        let Ok(Drive::Done(Ended::Page(page, false))) = &ended else { return Err(format!("a scan: {ended:?}")) };
        let page: BTreeMap<u64, u64> = page.iter().copied().collect();
        for key in 0..KEYS {
            let found = page.get(&key).map_or(Answer::Absent, |value| Answer::Found(*value));
            self.check(key, Call::Get, &Ended::Point(found)).map_err(|what| format!("a scan: {what}"))?;
        }
        Ok(())
    }

    /// Every live compute node collects orphans. Places that one of them collects are in limbo until all live compute
    /// nodes have made turns. Unless all dead rows are `swept`, the epochs may not advance.
    fn collect_orphans(&mut self, swept: bool) -> Result<(), String> {
        let mut left: Vec<usize> = (0..self.opened.len()).filter(|number| !self.dead.contains(number)).collect();
        for _ in 0..if swept { ORPHAN_COLLECTION_TURNS_MAX } else { COLLECTION_TURNS_MIN } {
            let mut still = Vec::new();
            for number in left {
                let (index, lane, row) = (self.opened[number], &self.lanes[number], self.members[number].row.0);
                match self.table.drive(row, lane, index.collect_orphans(lane), None, &mut Vec::new())? {
                    Drive::Done(Ok(collected_orphans)) if collected_orphans.is_complete() => {}
                    Drive::Done(Ok(_)) => still.push(number),
                    other => return Err(format!("compute node {number} collects orphans: {other:?}")),
                }
            }
            if still.is_empty() {
                return Ok(());
            }
            left = still;
            self.turn()?;
        }
        if swept { Err(format!("compute nodes {left:?} collect orphans without an end")) } else { Ok(()) }
    }

    /// A turn of every live compute node.
    fn turn(&mut self) -> Result<(), String> {
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if !self.dead.contains(&number) && index.has_epochs() {
                let row = self.members[number].row.0;
                match self.table.drive(row, lane, index.turn(lane), None, &mut Vec::new())? {
                    Drive::Done(Ok(())) => {}
                    other => return Err(format!("compute node {number} turns: {other:?}")),
                }
            }
        }
        Ok(())
    }

    /// Accounts for the memory: no place has two uses, and no place is lost, since orphans were collected.
    fn add_up(&mut self) -> Result<(), String> {
        let pool = pool(self.case);
        let holdings = pool.holdings(&config(self.case), &self.table.memories)?;
        let mut ready = Vec::new();
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if self.dead.contains(&number) {
                continue;
            }
            index.for_each_ready(&mut |node| ready.push(node));
            lane.for_each_stocked(&mut |class, fresh| {
                // Where nodes differ in size, lanes have none in stock.
                let Some(tree) = pool.tree() else { return };
                let bytes = if class == NodeClass::Leaf { tree.leaf_place_bytes } else { tree.inner.bytes };
                ready.push(Node { node: fresh.address.node(), offset: fresh.address.offset(), bytes: bytes as u64 });
            });
        }
        let retired_bytes = self.opened.iter().map(|index| index.retired_bytes()).sum();
        let account = account(&holdings, &ready, retired_bytes)?;
        self.ran.memory = account;
        if account.leaked > 0 { Err(format!("memory is lost: {account}")) } else { Ok(()) }
    }

    /// Sweeps the dead rows and checks everything.
    fn afterwards(&mut self) -> Result<(), String> {
        let last = COMPUTE_NODES - 1;
        let (index, lane) = (self.opened[last], &self.lanes[last]);
        let row_of = |number: usize| self.members[number].row;
        let dead = self.dead.clone();
        for (number, &dead) in (1..).zip(&dead) {
            let swept =
                self.table.drive(row_of(last).0, lane, index.sweep(lane, row_of(dead)), None, &mut Vec::new())?;
            if !matches!(swept, Drive::Done(Ok(swept)) if swept.row_free) {
                return Err(format!("sweeping row {}: {swept:?}", row_of(dead).0));
            }
            // Collects after every sweep: if a repairer died, too, memory may be reused only when that is safe.
            self.collect_orphans(number == self.dead.len())?;
        }
        for key in 0..KEYS {
            self.expect(last, key, Call::Get)?;
        }
        self.scan(last)?;
        if let CutOperation::Bulk(keys) = self.case.scenario.operation {
            // If survivors overwrote records of the load, only the first survivor's answers can show what was loaded.
            let loaded: BTreeSet<u64> =
                self.known.iter().filter(|(_, value)| **value == VICTIM).map(|(key, _)| *key).collect();
            if !loaded.is_empty() && loaded.len() != keys as usize {
                return Err(format!("part of a bulk load is there: {loaded:?}"));
            }
        }
        match self.table.drive(row_of(last).0, lane, index.validate(lane), None, &mut Vec::new())? {
            Drive::Done(Ok(census)) if census.records == self.known.len() as u64 => {}
            Drive::Done(Ok(census)) => {
                return Err(format!("the tree has {} records, the model {}", census.records, self.known.len()));
            }
            other => return Err(format!("validating: {other:?}")),
        }
        self.add_up()?;
        let held = pool(self.case).locks_held(&config(self.case), &self.table.memories);
        if let [first, ..] = held.as_slice() {
            return Err(format!("all is quiet, and {} locks are held: {first:?}", held.len()));
        }
        for (number, geometry) in self.geometry.iter().enumerate() {
            let Some(node) = self.table.memories.get(NodeId(number as u16)) else { continue };
            for chunk in 0..geometry.chunk_count {
                let entry = ChunkWord(node.host.word(geometry.chunk_entry(chunk))).decode();
                if let Ok(ChunkEntry::Granted(grant)) = entry
                    && grant.kind == ChunkKind::Redo
                    && self.dead.iter().any(|dead| row_of(*dead) == grant.row)
                {
                    return Err(format!("redo chunk {chunk} of memory node {number} stays with {:?}", grant.row));
                }
            }
        }
        for (number, (index, lane)) in self.opened.iter().zip(self.lanes).enumerate() {
            if !self.dead.contains(&number) && (index.locks_held() > 0 || lane.in_doubt()) {
                return Err(format!(
                    "compute node {number} holds {} local locks, owes {:?}",
                    index.locks_held(),
                    lane.lock_records()
                ));
            }
            let home = self
                .table
                .memories
                .get(NodeId(0))
                .map(|node| node.host.word(self.geometry[0].row_offset(row_of(number))));
            let state = home.and_then(|word| RowWord(word).state());
            let wanted = if self.dead.contains(&number) { RowState::Free } else { RowState::Live };
            if state != Some(wanted) {
                return Err(format!("row {} is {state:?}", row_of(number).0));
            }
        }
        Ok(())
    }
}
