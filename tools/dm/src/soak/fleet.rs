//! The processes of a soak, and what is done to them.
//!
//! **A writer that is stopped** for longer than a lease is missed by nobody if any compute node serves any key: others
//! wait for its locks, or for nothing. If keys have owners, the soak starts a *substitute*: another process of the same writer,
//! which takes the keys over when the lease of the stopped one is over. That one is continued later. It has to be dead
//! before the substitute owns the keys, since on shared memory nothing else keeps it from writing. If it is alive, because
//! the substitute was not that fast, it goes on or ends by itself, and is killed in the end.

use super::ledger::{Entry, Keys, Ledger, VALUE_BYTES};
use super::process::{has_memory, is_stopped_soon, signal};
use super::writer::{DEPOSED, INDEX, REFUSED, Summary, VIOLATION};
use crate::failure::Failure;
use crate::kinds::KindName;
use crate::members::{held_locks, members, with_read_access};
use crate::pool::{Children, Start};
use crate::report::repaired::Repaired;
use crate::tool::with_tool;
use crate::workload::random::Random;
use dm_core::membership::lease::LeaseConfig;
use dm_core::remote::row::RowState;
use dm_core::verbs::NodeId;
use dm_host::compute_node::Membership;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use rustix::process::Signal;
use serde::Serialize;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) index: KindName,
    pub(super) seed: u64,
    pub(super) writers: u64,
    pub(super) keys: u64,
    pub(super) memory_nodes: u16,
    pub(super) lines: String,
    pub(super) lease: Duration,
    pub(super) time: Duration,
    /// A mutant in the writers.
    #[cfg(feature = "planted")]
    pub(super) plant: Option<String>,
}

/// How long a writer that is continued goes on before it is killed, if it has a substitute, in leases.
const CONTINUED_LEASES: u32 = 2;

/// Of so many faults that would hit a writer that waits for its keys, one does: it waits for a lease, and would hardly ever
/// get them.
const WAITING_SPARED: u64 = 16;

/// With so many rows in use there is a repair before another writer is killed. A Dolphin serves compute nodes of the first 30 rows only,
/// and a repair is one.
const ROWS_MAX: usize = 20;

/// Small: every incarnation of a writer takes some, and when it dies, nodes in use stay in it.
const CHUNK_BYTES: u64 = 64 << 10;

/// A writer that is told to die in a WRITE does so in one of so many WRITEs over several lines.
const WRITES_TO_DIE_IN: u64 = 20_000;

/// Region of a memory node: room for the index, and for what dead writers leave.
const REGION_BYTES: (u64, u64) = (64 << 20, 1 << 30);
const REGION_BYTES_PER_MINUTE: u64 = 16 << 20;

impl Plan {
    fn region_bytes(&self) -> u64 {
        let minutes = self.time.as_secs().div_ceil(60);
        (REGION_BYTES.0 + REGION_BYTES_PER_MINUTE.saturating_mul(minutes)).min(REGION_BYTES.1)
    }
}

/// Counts of what happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Events {
    /// Writers started, the first ones included.
    pub started: u64,
    /// Writers that the soak killed.
    pub killed: u64,
    /// Of these, writers that held a lock.
    pub killed_with_locks: u64,
    /// Locks they held.
    pub locks_of_killed: u64,
    /// Writers stopped for longer than a lease.
    pub stopped: u64,
    /// Of these, writers that other processes ended meanwhile.
    pub stopped_ended: u64,
    /// Of these, writers that continued, since no other process had wanted a lock of theirs, or their keys.
    pub stopped_went_on: u64,
    /// Substitutes started for writers that were stopped and own keys.
    pub substitutes: u64,
    /// Writers that ended by themselves, since a later process of the same writer had the keys.
    pub deposed: u64,
    /// Writers that continued although they had a substitute, and that the soak killed later.
    pub continued_killed: u64,
    /// Writers that killed themselves between two lines of a WRITE, as they were told to.
    pub died_in_writes: u64,
    /// Writers that ran, and were ended by other processes all the same: too slow for their lease.
    pub ended_while_running: u64,
    /// Writers that found no free row, or no chunk for redo records, because dead writers had them.
    pub refused: u64,
    /// Repairs begun.
    pub repairs: u64,
    /// Repairs that the soak killed.
    pub repairs_killed: u64,
    /// Repairs that failed, or were ended by other processes.
    pub repairs_failed: u64,
    /// Rows that repairs fenced.
    pub repair_rows_fenced: u64,
    /// Locks that repairs recovered.
    pub repair_locks: u64,
}

/// A process that may be killed.
struct Writer {
    child: Child,
    /// Closing this tells the writer to stop.
    input: Option<ChildStdin>,
    said: Arc<Mutex<Said>>,
    readers: Vec<JoinHandle<()>>,
    /// It was told to die in a WRITE.
    dies_in_write: bool,
    state: State,
}

/// What a writer said so far.
#[derive(Default)]
struct Said {
    row: Option<u16>,
    /// It has had its keys.
    is_holder: bool,
    summary: Option<Summary>,
    errors: String,
}

impl Said {
    /// Whether a compute node works under its name, and, if keys have owners, has had its own.
    const fn is_at_work(&self, owned: bool) -> bool {
        self.row.is_some() && (!owned || self.is_holder)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Running,
    /// Stopped. Later it is continued, or a repair ends it.
    Stopped {
        until: Instant,
        hunted: bool,
    },
    /// Continued, while a substitute waits for its keys. Later it is killed.
    Continued {
        until: Instant,
    },
}

/// A repair under way.
struct Repair {
    child: Child,
    kill_at: Option<Instant>,
    /// The number of the writer that it shall end.
    victim: Option<u64>,
}

/// Everything that runs.
pub(super) struct Fleet {
    pub(super) plan: Plan,
    pub(super) events: Events,
    pub(super) violations: Vec<String>,
    random: Random,
    writers: Vec<Option<Writer>>,
    /// Of each writer that owns keys, the process that was stopped, and that the one above is the substitute of.
    stopped: Vec<Option<Writer>>,
    /// Keys have owners.
    owned: bool,
    /// Processes of writers started so far.
    processes: u64,
    repair: Option<Repair>,
    /// Connected without joining: to look at locks.
    pool: Arc<Pool>,
    children: Children,
    directory: TempDir,
}

impl Fleet {
    /// Starts memory nodes and writers.
    pub(super) fn start(plan: Plan) -> Result<Self, Failure> {
        let (parameters, owned) =
            plan.index.soak(VALUE_BYTES, plan.writers as u32, plan.writers.saturating_mul(plan.keys))?;
        let start = Start {
            memory_nodes: plan.memory_nodes,
            region_bytes: plan.region_bytes(),
            chunk_bytes: Some(CHUNK_BYTES),
            device_bytes: None,
            lines: plan.lines.clone(),
        };
        let children = Children::start(&start)?;
        let pool = Arc::new(Pool::connect(children.sockets(), ShmOptions::default()).map_err(Failure::run)?);
        let directory = TempDir::with_prefix("dm-soak-").map_err(Failure::run)?;
        {
            let node = pool.join(1, Membership::default()).map_err(Failure::run)?;
            node.create_index(INDEX, &parameters).map_err(Failure::run)?;
        }
        let random = Random::stream(plan.seed, 0);
        let none = || (0..plan.writers).map(|_| None).collect();
        let (writers, stopped) = (none(), none());
        let (events, violations) = (Events::default(), Vec::new());
        let mut fleet = Self {
            plan,
            events,
            violations,
            random,
            writers,
            stopped,
            owned,
            processes: 0,
            repair: None,
            pool,
            children,
            directory,
        };
        for writer in 0..fleet.plan.writers {
            Ledger::create(&fleet.ledger(writer), fleet.plan.keys).map_err(Failure::run)?;
            fleet.start_writer(writer)?;
        }
        Ok(fleet)
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The lease, in the engine's type. The command line was checked.
    pub(super) fn terms(&self) -> LeaseConfig {
        LeaseConfig::of(self.plan.lease.as_nanos() as u64).unwrap_or(LeaseConfig::HARDWARE)
    }

    /// Which keys there are, and whose.
    pub(super) fn keys(&self) -> Keys {
        Keys { writers: self.plan.writers, each: self.plan.keys, owned: self.owned }
    }

    /// Reads the ledger of a writer.
    pub(super) fn entries(&self, writer: u64) -> Result<Vec<Entry>, Failure> {
        let ledger = Ledger::open(&self.ledger(writer), self.plan.keys).map_err(Failure::run)?;
        ledger.read().map_err(Failure::run)
    }

    fn ledger(&self, writer: u64) -> PathBuf {
        self.directory.path().join(format!("writer-{writer}"))
    }

    fn command(&self, name: &str) -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(program);
        let sockets: Vec<_> = self.children.sockets().iter().map(|path| path.display().to_string()).collect();
        command.arg(name).args(["--pool", &sockets.join(",")]);
        command.args(["--lease-ms", &self.plan.lease.as_millis().to_string()]);
        // A process group of its own: an interrupt from the terminal is for this process to handle.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Ok(command)
    }

    fn start_writer(&mut self, writer: u64) -> Result<(), Failure> {
        let seed = self.random.next_u64();
        self.processes += 1;
        let mut command = self.command("soak-writer")?;
        command.arg("--ledger").arg(self.ledger(writer));
        let Plan { writers, keys, .. } = self.plan;
        let process = self.processes;
        for (name, value) in
            [("writer", writer), ("writers", writers), ("keys", keys), ("seed", seed), ("process", process)]
        {
            command.arg(format!("--{name}")).arg(value.to_string());
        }
        if self.owned {
            command.arg("--owned");
        }
        // Kills from outside hardly ever come between two lines of a WRITE.
        let dies_in_write = self.random.below(3) == 0;
        if dies_in_write {
            let one_in = 1 + self.random.below(WRITES_TO_DIE_IN);
            command.args(["--die-in-write", &one_in.to_string()]);
        }
        #[cfg(feature = "planted")]
        if let Some(mutant) = &self.plan.plant {
            command.args(["--plant", mutant]);
        }
        let mut child = command.spawn().map_err(Failure::run)?;
        let said = Arc::new(Mutex::new(Said::default()));
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            let said = Arc::clone(&said);
            readers.push(thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(row) = line.strip_prefix("ROW ") {
                        said.row = row.split(' ').next().and_then(|row| row.parse().ok());
                    } else if line == "HOLDER" {
                        said.is_holder = true;
                    } else if line == "LEAVING" {
                        said.row = None;
                    } else if let Some(summary) = line.strip_prefix("DONE ") {
                        said.summary = serde_json::from_str(summary).ok();
                    }
                }
            }));
        }
        if let Some(mut err) = child.stderr.take() {
            let said = Arc::clone(&said);
            readers.push(thread::spawn(move || {
                let mut text = String::new();
                let _ = err.read_to_string(&mut text);
                said.lock().unwrap_or_else(PoisonError::into_inner).errors = text;
            }));
        }
        let input = child.stdin.take();
        self.writers[writer as usize] =
            Some(Writer { child, input, said, readers, dies_in_write, state: State::Running });
        self.events.started += 1;
        Ok(())
    }

    // ---- faults ------------------------------------------------------------------------------------------------

    /// Kills, stops and repairs writers for `time`.
    pub(super) fn run(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        let mut next = Instant::now() + self.plan.lease;
        while Instant::now() < end && self.violations.is_empty() {
            thread::sleep(Duration::from_millis(5));
            self.look_after_writers()?;
            self.look_after_repair()?;
            if Instant::now() >= next {
                self.act()?;
                // Half a lease at most, and often much less: deaths during recoveries are wanted, too.
                let share = 0.5 * self.random.unit() * self.random.unit();
                next = Instant::now() + self.plan.lease.mul_f64(share);
            }
        }
        Ok(())
    }

    fn act(&mut self) -> Result<(), Failure> {
        let writer = self.random.below(self.plan.writers);
        let waits = |writer: &Writer| !lock(&writer.said).is_at_work(true);
        if self.owned
            && self.random.below(WAITING_SPARED) > 0
            && self.writers[writer as usize].as_ref().is_some_and(waits)
        {
            return Ok(());
        }
        match self.random.below(16) {
            0..=10 => self.kill(writer),
            11..=14 => self.stop(writer),
            _ => self.start_repair(None),
        }
    }

    /// Kills a writer that runs, and starts it again. Before that dead ones have to give up their rows, if there are many.
    fn kill(&mut self, number: u64) -> Result<(), Failure> {
        let rows = with_read_access(&self.pool, |fabric, lane| Ok(members(&self.pool, fabric, lane)?))?;
        if rows.iter().filter(|row| row.state != RowState::Free).count() >= ROWS_MAX {
            return self.start_repair(None);
        }
        let Some(mut writer) = self.writers[number as usize].take_if(|writer| writer.state == State::Running) else {
            return Ok(());
        };
        let row = lock(&writer.said).row;
        writer.child.kill().map_err(Failure::run)?;
        let status = writer.child.wait().map_err(Failure::run)?;
        // It may have ended by itself an instant before.
        if status.signal() == Some(Signal::KILL.as_raw()) {
            self.events.killed += 1;
            let held = row.map_or(Ok(0), |row| self.locks_of(row))?;
            self.events.killed_with_locks += u64::from(held > 0);
            self.events.locks_of_killed += held;
        } else {
            self.ended(number, writer, status);
        }
        self.start_writer(number)
    }

    /// Counts the locks that name a row, all of them a moment after its compute node died.
    fn locks_of(&self, row: u16) -> Result<u64, Failure> {
        with_read_access(&self.pool, |fabric, lane| {
            let mut held = 0;
            for (number, geometry) in (0..).zip(self.pool.geometry()) {
                let locks = held_locks(fabric, lane, NodeId(number), geometry)?;
                held += locks.iter().filter(|(_, word)| word.row().0 == row).count() as u64;
            }
            Ok(held)
        })
    }

    /// Stops a writer for longer than a lease; half of those are hunted by a repair, which has to end them.
    fn stop(&mut self, number: u64) -> Result<(), Failure> {
        let hunted = self.random.below(2) == 0 && self.repair.is_none();
        let share = if hunted { 6.0 } else { 1.5 + self.random.unit() };
        let until = Instant::now() + self.plan.lease.mul_f64(share);
        let Some(writer) = &mut self.writers[number as usize] else { return Ok(()) };
        // A writer that has not joined yet has no lease, and one that waits for its keys is missed by nobody.
        let is_at_work = { lock(&writer.said) }.is_at_work(self.owned);
        if writer.state != State::Running || !is_at_work || self.stopped[number as usize].is_some() {
            return Ok(());
        }
        signal(&writer.child, Signal::STOP);
        if !is_stopped_soon(&writer.child) {
            // The machine is too busy: whether the heartbeat moves during the repair is not known.
            signal(&writer.child, Signal::CONT);
            return Ok(());
        }
        writer.state = State::Stopped { until, hunted };
        self.events.stopped += 1;
        if hunted {
            self.start_repair(Some(number))?;
        }
        if self.owned {
            self.stopped[number as usize] = self.writers[number as usize].take();
            self.events.substitutes += 1;
            self.start_writer(number)?;
        }
        Ok(())
    }

    fn look_after_writers(&mut self) -> Result<(), Failure> {
        for number in 0..self.plan.writers {
            self.look_after_stopped(number)?;
            let Some(writer) = &mut self.writers[number as usize] else {
                // It was refused, and the repair that was to make room has ended.
                if self.repair.is_none() {
                    self.start_writer(number)?;
                }
                continue;
            };
            if let Some(status) = writer.child.try_wait().map_err(Failure::run)? {
                if let Some(writer) = self.writers[number as usize].take() {
                    self.ended(number, writer, status);
                }
                if status.code() == Some(REFUSED) {
                    self.begin_repair(None, None)?;
                } else {
                    self.start_writer(number)?;
                }
                continue;
            }
            if let State::Stopped { until, .. } = writer.state
                && Instant::now() >= until
            {
                // A writer that others have fenced is dead by now. This one continues if its lease is still its own. If
                // not, it notices before it writes.
                signal(&writer.child, Signal::CONT);
                writer.state = State::Running;
                self.events.stopped_went_on += 1;
            }
        }
        Ok(())
    }

    /// Looks after a stopped writer that has a substitute.
    fn look_after_stopped(&mut self, number: u64) -> Result<(), Failure> {
        let Some(mut writer) = self.stopped[number as usize].take() else { return Ok(()) };
        let substitute = self.writers[number as usize].as_ref();
        // Looked at before the stopped one is: that has to be dead by then.
        let is_replaced = substitute.is_some_and(|substitute| lock(&substitute.said).is_holder);
        if let Some(status) = writer.child.try_wait().map_err(Failure::run)? {
            self.ended(number, writer, status);
            return Ok(());
        }
        let lease = self.plan.lease;
        match writer.state {
            // A process that ends gives up its memory first, closes its connections then, which tells the memory nodes, and can
            // be waited for only after that.
            State::Stopped { .. } if is_replaced && lock(&writer.said).row.is_some() && has_memory(&writer.child) => {
                self.violations.push(format!(
                    "writer {number}: its substitute has the keys, and the stopped process was not ended before"
                ));
            }
            State::Stopped { until, .. } if Instant::now() >= until => {
                signal(&writer.child, Signal::CONT);
                writer.state = State::Continued { until: Instant::now() + lease * CONTINUED_LEASES };
                self.events.stopped_went_on += 1;
            }
            State::Continued { until } if Instant::now() >= until => {
                let _ = writer.child.kill();
                let status = writer.child.wait().map_err(Failure::run)?;
                if status.signal() == Some(Signal::KILL.as_raw()) {
                    self.events.continued_killed += 1;
                } else {
                    self.ended(number, writer, status);
                }
                return Ok(());
            }
            _ => {}
        }
        self.stopped[number as usize] = Some(writer);
        Ok(())
    }

    /// Counts a writer that ended without an action of the soak.
    fn ended(&mut self, number: u64, writer: Writer, status: ExitStatus) {
        let Writer { input, said, readers, dies_in_write, state, .. } = writer;
        drop(input);
        for reader in readers {
            let _ = reader.join();
        }
        let errors = lock(&said).errors.trim().to_owned();
        if status.signal() == Some(Signal::KILL.as_raw()) {
            *match (state, dies_in_write) {
                (State::Stopped { .. } | State::Continued { .. }, _) => &mut self.events.stopped_ended,
                (State::Running, true) => &mut self.events.died_in_writes,
                (State::Running, false) => &mut self.events.ended_while_running,
            } += 1;
        } else if status.code() == Some(REFUSED) {
            self.events.refused += 1;
        } else if status.code() == Some(DEPOSED) {
            self.events.deposed += 1;
        } else if status.code() == Some(VIOLATION) {
            self.violations.push(format!("writer {number}: {errors}"));
        } else {
            self.violations.push(format!("writer {number} ended with {status}: {errors}"));
        }
    }

    // ---- repairs ---------------------------------------------------------------------------------------------

    fn start_repair(&mut self, victim: Option<u64>) -> Result<(), Failure> {
        let kill_at = (victim.is_none() && self.random.below(3) == 0)
            .then(|| Instant::now() + self.plan.lease.mul_f64(1.0 + self.random.unit()));
        self.begin_repair(victim, kill_at)
    }

    fn begin_repair(&mut self, victim: Option<u64>, kill_at: Option<Instant>) -> Result<(), Failure> {
        if self.repair.is_some() {
            return Ok(());
        }
        let child = self.command("repair")?.arg("--json").spawn().map_err(Failure::run)?;
        self.repair = Some(Repair { child, kill_at, victim });
        self.events.repairs += 1;
        Ok(())
    }

    fn look_after_repair(&mut self) -> Result<(), Failure> {
        let Some(mut repair) = self.repair.take() else { return Ok(()) };
        if repair.kill_at.is_some_and(|at| Instant::now() >= at) {
            // It may have come to its end already.
            let _ = repair.child.kill();
            let status = repair.child.wait().map_err(Failure::run)?;
            self.events.repairs_killed += u64::from(status.signal().is_some());
            return Ok(());
        }
        if repair.child.try_wait().map_err(Failure::run)?.is_none() {
            self.repair = Some(repair);
            return Ok(());
        }
        let victim = repair.victim;
        if !self.repaired(repair)? {
            self.events.repairs_failed += 1;
            return Ok(());
        }
        // The writer was stopped before the repair began, and for longer than a lease. The repair has ended it, and
        // reported that only when it was dead.
        let processes = if self.owned { &mut self.stopped } else { &mut self.writers };
        let Some(writer) = victim.and_then(|victim| processes[victim as usize].as_mut()) else { return Ok(()) };
        if let State::Stopped { hunted: true, .. } = writer.state
            && writer.child.try_wait().map_err(Failure::run)?.is_none()
        {
            self.violations
                .push(format!("writer {} was stopped for a lease, and a repair left it alive", victim.unwrap_or(0)));
        }
        Ok(())
    }

    /// Collects the output of a repair. `false`: it failed.
    fn repaired(&mut self, repair: Repair) -> Result<bool, Failure> {
        let output = repair.child.wait_with_output().map_err(Failure::run)?;
        let Ok(repaired) = serde_json::from_slice::<Repaired>(&output.stdout) else {
            report_failed_repair(&String::from_utf8_lossy(&output.stderr));
            return Ok(false);
        };
        self.events.repair_rows_fenced += u64::from(repaired.rows_fenced);
        self.events.repair_locks += u64::from(repaired.locks);
        Ok(output.status.success())
    }

    // ---- the end ---------------------------------------------------------------------------------------------

    /// Tells every writer to end, and repairs what dead writers left.
    pub(super) fn finish(&mut self) -> Result<Summary, Failure> {
        if let Some(mut repair) = self.repair.take() {
            let _ = repair.child.kill();
            repair.child.wait().map_err(Failure::run)?;
        }
        let mut sum = Summary::default();
        for number in 0..self.plan.writers {
            let Some(mut writer) = self.stopped[number as usize].take() else { continue };
            let _ = writer.child.kill();
            let status = writer.child.wait().map_err(Failure::run)?;
            if status.code().is_some() {
                self.ended(number, writer, status);
            }
        }
        for number in 0..self.plan.writers {
            if let Some(writer) = &mut self.writers[number as usize] {
                signal(&writer.child, Signal::CONT);
                writer.input = None;
            }
        }
        // Operations may wait for locks of several dead writers.
        let deadline = Instant::now() + self.plan.lease * 20 + Duration::from_secs(20);
        for number in 0..self.plan.writers {
            let Some(mut writer) = self.writers[number as usize].take() else { continue };
            let status = loop {
                if let Some(status) = writer.child.try_wait().map_err(Failure::run)? {
                    break Some(status);
                }
                if Instant::now() >= deadline {
                    break None;
                }
                thread::sleep(Duration::from_millis(5));
            };
            let Some(status) = status else {
                self.violations.push(format!("writer {number} hangs"));
                let _ = writer.child.kill();
                let _ = writer.child.wait();
                continue;
            };
            if !status.success() {
                // It died in a WRITE, as it was told to, or was fenced at the last moment.
                self.ended(number, writer, status);
                continue;
            }
            for reader in writer.readers.drain(..) {
                let _ = reader.join();
            }
            if let Some(summary) = lock(&writer.said).summary.take() {
                sum.writes += summary.writes;
                sum.reads += summary.reads;
                sum.rejoined += summary.rejoined;
                for (name, count) in summary.failed {
                    *sum.failed.entry(name).or_default() += count;
                }
            }
        }
        if self.owned {
            // A repair keeps the rows of dead owners: what they had is in their logs.
            let node = self.pool.join(1, Membership { terms: self.terms(), ..Membership::default() });
            let node = node.map_err(Failure::run)?;
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method is of a tool of one lifetime, and the tool's is any"
            )]
            let taken = with_tool(&node, INDEX, |tool| tool.take_all_keys());
            if let Err(failure) = taken {
                self.violations.push(format!("keys of dead owners cannot be recovered: {failure}"));
            }
        }
        // All writers have ended, so one repair finds everything, and a second one finds nothing.
        for _ in 0..2 {
            let child = self.command("repair")?.arg("--json").spawn().map_err(Failure::run)?;
            self.events.repairs += 1;
            let output = child.wait_with_output().map_err(Failure::run)?;
            if !output.status.success() {
                self.violations
                    .push(format!("the last repair failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
        }
        Ok(sum)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for writer in self.writers.iter_mut().chain(&mut self.stopped).flatten() {
            let _ = writer.child.kill();
            let _ = writer.child.wait();
        }
        if let Some(repair) = &mut self.repair {
            let _ = repair.child.kill();
            let _ = repair.child.wait();
        }
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report_failed_repair(text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        eprintln!("a repair ended: {text}");
    }
}
