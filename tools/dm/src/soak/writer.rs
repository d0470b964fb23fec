//! A compute process of a soak: writes its own keys, reads all keys, checks what it sees.
//!
//! It runs until its standard input ends, or another process ends it. A wrong result is a line on the standard error
//! and exit code [`VIOLATION`].
//!
//! **If keys have owners**, it reads its own keys only. First it waits until it owns them: its predecessor may have died, or
//! be stopped, and until that one's lease is over it is refused. If it finds later that it does not own them any more, because
//! it was stopped for too long itself, it joins anew and waits again, and ends with exit code [`DEPOSED`] when its
//! substitute has them.

use super::ledger::{Entry, Keys, Ledger, is_delete, value_of, version_in};
use crate::failure::{Failure, print};
use crate::tool::LeaseArguments;
use crate::workload::random::Random;
use dm_core::membership::redo::RedoError;
use dm_core::memory::rows::RowError;
use dm_core::operation::{Cause, OpError};
use dm_core::verbs::Status;
use dm_host::assembly::AssemblyError;
use dm_host::compute_node::Membership;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::{Pool, PoolError};
use dm_host::session::{Delete, Insert, OpenError, Session, SessionError, SessionOptions, Update};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::num::NonZeroU32;
use std::ops::Bound;
use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Exit code of a writer that found something wrong.
pub const VIOLATION: i32 = 3;

/// Exit code of a writer that found no row that serves, or no memory, because dead writers have it.
pub const REFUSED: i32 = 4;

/// Exit code of a writer whose keys another process of the same writer has.
pub const DEPOSED: i32 = 5;

/// Name of the index.
pub const INDEX: &str = "soak";

/// Threads of a writer; each has keys of its own.
const THREADS: u64 = 4;

/// Operations in flight.
const LANES: usize = 16;

/// Keys that are written at once.
const BATCH_KEYS: usize = 12;

/// Lines of the log of a compute node that owns keys: few, so that it comes round.
const LOG_LINES: usize = 1024;

/// Bytes of its page cache: little more than the least for these lanes, so that leaves are evicted if there are many.
const PAGE_CACHE_BYTES: u64 = 96 << 10;

/// Pause before a process looks again whether it owns its keys.
const OWNER_PAUSE: Duration = Duration::from_millis(10);

/// How long one operation may take: several leases, since the holders of several locks may be dead.
const LEASES_PER_OPERATION: u32 = 8;

/// Arguments of the writer.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, value_delimiter = ',', required = true)]
    pool: Vec<PathBuf>,
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long)]
    writer: u64,
    #[arg(long)]
    writers: u64,
    #[arg(long)]
    keys: u64,
    #[arg(long)]
    seed: u64,
    /// Number of this process, higher than that of all processes of this writer before
    #[arg(long)]
    process: u64,
    /// Keys have owners
    #[arg(long)]
    owned: bool,
    /// Die in the middle of one in so many WRITEs that span lines
    #[arg(long)]
    die_in_write: Option<NonZeroU32>,
    /// A mutant to switch on.
    #[cfg(feature = "planted")]
    #[arg(long)]
    plant: Option<String>,
    #[command(flatten)]
    lease: LeaseArguments,
}

/// What a writer did that was not killed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Writes that were acknowledged.
    pub writes: u64,
    /// READs and scans.
    pub reads: u64,
    /// Times that it was fenced, or had to fence itself, and joined as a new incarnation.
    pub rejoined: u64,
    /// Operations that failed, by why.
    pub failed: BTreeMap<String, u64>,
}

/// Runs the writer.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let ledger = Ledger::open(&arguments.ledger, arguments.keys)
        .map_err(|error| Failure::Run(format!("{}: {error}", arguments.ledger.display())))?;
    let keys = Keys { writers: arguments.writers, each: arguments.keys, owned: arguments.owned };
    // Even a stopped writer does not outlive the soak.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::run)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        // The end of the input tells the writer to stop; it ends when the parent does, too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    let terms = arguments.lease.terms()?;
    #[cfg(feature = "planted")]
    if let Some(mutant) = arguments.plant.as_deref().and_then(dm_core::rooms::mutant) {
        dm_core::mutants::plant(Some(mutant));
    }
    let fabric = ShmOptions { die_in_write: arguments.die_in_write, ..ShmOptions::default() };
    let pool = Arc::new(Pool::connect(&arguments.pool, fabric).map_err(Failure::run)?);
    let mut options =
        SessionOptions { lanes_per_worker: LANES, local_handles: 0, forward: false, ..SessionOptions::default() };
    options.spending.cache_bytes = 1 << 20;
    options.spending.log_lines = LOG_LINES;
    options.spending.page_cache_bytes = PAGE_CACHE_BYTES;
    // Processors are scarce here.
    options.spin = Duration::ZERO;
    options.membership = Membership { terms, ..Membership::default() };

    let mut threads: Vec<_> = (0..THREADS).map(|number| Thread::new(arguments, keys, number)).collect();
    let summary = Mutex::new(Summary::default());
    loop {
        let session = match Session::open(&pool, INDEX, &options) {
            Ok(session) => session,
            Err(error) if is_for_repair(&error) => {
                eprintln!("{error}");
                exit(REFUSED);
            }
            Err(error) => return Err(Failure::run(error)),
        };
        print(&format!("ROW {} {}\n", session.member().row.0, session.member().incarnation))?;
        let patience = Duration::from_nanos(terms.lease_ns()) * LEASES_PER_OPERATION;
        let (process, late) = (arguments.process, false);
        let life = Life { session: &session, ledger: &ledger, stop: &stop, summary: &summary, patience, process, late };
        let held = if keys.owned { own(&life, keys.key(arguments.writer, 0))? } else { Held::Yes };
        if held == Held::Yes {
            noted(ledger.hold(process));
            print("HOLDER\n")?;
            let entries = noted(ledger.read());
            for thread in &mut threads {
                thread.learn(&entries);
            }
        }
        let running = if held == Held::Yes { &mut threads[..] } else { &mut [] };
        let ended = thread::scope(|scope| {
            let life = &life;
            let run = |thread: &mut Thread| thread.run(&mut Life { ..*life });
            let running: Vec<_> = running.iter_mut().map(|thread| scope.spawn(move || run(thread))).collect();
            running.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        print("LEAVING\n")?;
        session.close();
        for end in ended {
            end.map_err(|_| Failure::Run("a thread panicked".to_owned()))??;
        }
        if held == Held::ByAnother {
            exit(DEPOSED);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        summary.lock().unwrap_or_else(PoisonError::into_inner).rejoined += 1;
    }
    let summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&format!("DONE {}\n", serde_json::to_string(&summary).map_err(Failure::run)?))
}

/// Whether a process has its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Yes,
    /// A later process of the same writer has them.
    ByAnother,
    /// It was told to stop, or its session is at its end.
    No,
}

/// Waits until this process owns the keys of its writer, one of which is `key`.
fn own(life: &Life<'_>, key: u64) -> Result<Held, Failure> {
    while !life.stop.load(Ordering::Relaxed) {
        if noted(life.ledger.holder()) > life.process {
            return Ok(Held::ByAnother);
        }
        match life.session.get(&key.to_be_bytes()).within(life.patience).wait() {
            Ok(_) => return Ok(Held::Yes),
            Err(error) if is_refused(&error) => life.count_failed("refused by the owner before"),
            Err(error) => match life.failed(error)? {
                Trouble::Goes => {}
                Trouble::Anew => return Ok(Held::No),
            },
        }
        thread::sleep(OWNER_PAUSE);
    }
    Ok(Held::No)
}

/// Whether another compute node has the key, or this one does not serve it any more.
fn is_refused(error: &SessionError) -> bool {
    matches!(error, SessionError::Operation(OpError { cause: Cause::NotOwner { .. }, .. }))
}

/// Whether the missing rows or chunks belong to dead writers that are not repaired yet.
fn is_for_repair(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Pool(PoolError::Row(RowError::NoFreeRow { .. }))
            | OpenError::Assembly(AssemblyError::Redo(RedoError::PoolFull { .. }) | AssemblyError::Row { .. })
    )
}

/// Reports a wrong result and ends the process.
fn violation(what: &str) -> ! {
    eprintln!("{what}");
    exit(VIOLATION);
}

/// Runs one session.
struct Life<'l> {
    session: &'l Session,
    ledger: &'l Ledger,
    stop: &'l AtomicBool,
    summary: &'l Mutex<Summary>,
    patience: Duration,
    /// The number of this process.
    process: u64,
    /// When the operation under way began, another process of the same writer had the keys.
    late: bool,
}

/// What a failed operation means.
enum Trouble {
    /// Continue; the write is in doubt.
    Goes,
    /// This session is at its end: join anew.
    Anew,
}

impl Life<'_> {
    /// An operation begins.
    fn begin(&mut self) {
        self.late = noted(self.ledger.holder()) != self.process;
    }

    /// Counts an operation that was answered.
    fn count(&self, write: bool) {
        if self.late {
            let what = if write { "write was acknowledged" } else { "read was answered" };
            violation(&format!("a {what} that began after another process had taken the keys over"));
        }
        let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        *(if write { &mut summary.writes } else { &mut summary.reads }) += 1;
    }

    fn failed(&self, error: SessionError) -> Result<Trouble, Failure> {
        let (name, trouble) = match error {
            SessionError::Operation(OpError { cause, .. }) => match cause {
                Cause::Fenced => ("fenced", Trouble::Anew),
                // It was stopped for a lease. Only an index whose keys have owners refuses any.
                Cause::NotOwner { .. } => ("not owner any more", Trouble::Anew),
                Cause::Deadline { .. } => ("deadline", Trouble::Goes),
                Cause::Retries { .. } => ("retries", Trouble::Goes),
                Cause::Verb(error) if error.status == Status::Flushed => ("flushed", Trouble::Goes),
                Cause::Corrupt { .. } | Cause::Checksum { .. } => violation(&format!("{error}")),
                _ => return Err(Failure::run(error)),
            },
            SessionError::Deadline { .. } => ("deadline", Trouble::Goes),
            SessionError::Broken { .. } => ("broken", Trouble::Anew),
            SessionError::Closed => ("closed", Trouble::Anew),
            error => return Err(Failure::run(error)),
        };
        self.count_failed(name);
        Ok(trouble)
    }

    fn count_failed(&self, name: &str) {
        let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        *summary.failed.entry(name.to_owned()).or_default() += 1;
    }
}

/// One thread, over all sessions of the process.
struct Thread {
    random: Random,
    writer: u64,
    keys: Keys,
    /// Positions of its keys, and what is known of them.
    mine: Vec<(u64, Entry)>,
    /// The highest version seen of each key.
    seen: HashMap<u64, u64>,
}

impl Thread {
    fn new(arguments: &Arguments, keys: Keys, number: u64) -> Self {
        let Arguments { writer, seed, .. } = *arguments;
        // Another stream for each process that is started: the parent gives each a seed of its own.
        let random = Random::stream(seed, number);
        let mine = (number..keys.each).step_by(THREADS as usize);
        let mine = mine.map(|position| (position, Entry::default())).collect();
        Self { random, writer, keys, mine, seen: HashMap::new() }
    }

    /// Takes what the ledger says, when no other process writes to it.
    fn learn(&mut self, entries: &[Entry]) {
        for (position, entry) in &mut self.mine {
            *entry = entries[*position as usize];
        }
    }

    /// Runs until it is told to stop, or the session is at its end.
    fn run(&mut self, life: &mut Life<'_>) -> Result<(), Failure> {
        while !life.stop.load(Ordering::Relaxed) {
            life.begin();
            let done = match self.random.below(16) {
                0..=5 => self.write_many(life),
                6..=11 => self.write(life),
                12 => self.read_mine(life),
                13 | 14 => self.read_any(life),
                _ => self.scan(life),
            };
            match done {
                Ok(()) => {}
                Err(error) => match life.failed(error)? {
                    Trouble::Goes => {}
                    Trouble::Anew => return Ok(()),
                },
            }
        }
        Ok(())
    }

    /// Writes or deletes one of its keys.
    fn write(&mut self, life: &Life<'_>) -> Result<(), SessionError> {
        let at = self.random.below(self.mine.len() as u64) as usize;
        let (position, entry) = &mut self.mine[at];
        let key = self.keys.key(self.writer, *position);
        let version = entry.intended + 1;
        let before = *entry;
        noted(life.ledger.intend(*position, version));
        entry.intended = version;
        let (slot, value) = (key.to_be_bytes(), value_of(key, version, self.writer));
        let session = life.session;
        let present = before.is_present(key);
        let unexpected = |outcome: &str| -> ! { violation(&format!("key {key}: {outcome}, but it was {before:?}")) };
        if is_delete(key, version) {
            let deleted = session.delete(&slot).within(life.patience).wait()?;
            if present.is_some_and(|present| present != (deleted == Delete::Deleted)) {
                unexpected(&format!("{deleted:?}"));
            }
        } else {
            match (present, self.random.below(3)) {
                (Some(true), 0) => {
                    if session.update(&slot, &value).within(life.patience).wait()? == Update::Absent {
                        unexpected("absent to an update");
                    }
                }
                (Some(false), 0) => {
                    if session.insert(&slot, &value).within(life.patience).wait()? != Insert::Inserted {
                        unexpected("there to an insert");
                    }
                }
                _ => drop(session.upsert(&slot, &value).within(life.patience).wait()?),
            }
        }
        life.count(true);
        noted(life.ledger.acknowledge(*position, version));
        entry.acknowledged = version;
        Ok(())
    }

    /// Writes several of its keys at once, so that lanes work side by side and locks are held most of the time.
    fn write_many(&mut self, life: &Life<'_>) -> Result<(), SessionError> {
        let first = self.random.below(self.mine.len() as u64) as usize;
        let mut batch = Vec::new();
        let keys = self.mine.len();
        for at in (first..first + BATCH_KEYS.min(keys)).map(|at| at % keys) {
            let (position, entry) = &mut self.mine[at];
            let key = self.keys.key(self.writer, *position);
            let version = entry.intended + 1;
            if is_delete(key, version) {
                continue;
            }
            noted(life.ledger.intend(*position, version));
            entry.intended = version;
            batch.push((at, version, (key.to_be_bytes(), value_of(key, version, self.writer))));
        }
        let records: Vec<_> = batch.iter().map(|(_, _, record)| *record).collect();
        let results = life.session.multi_put(&records).within(life.patience).wait();
        let mut end = Ok(());
        for ((at, version, _), result) in batch.into_iter().zip(results) {
            if let Err(error) = result {
                // One error stands for all; each write is in doubt.
                end = Err(error);
                continue;
            }
            let (position, entry) = &mut self.mine[at];
            life.count(true);
            noted(life.ledger.acknowledge(*position, version));
            entry.acknowledged = version;
        }
        end
    }

    /// Reads one of its own keys, of which it knows the possible states.
    fn read_mine(&mut self, life: &Life<'_>) -> Result<(), SessionError> {
        let (position, _) = self.mine[self.random.below(self.mine.len() as u64) as usize];
        self.read(life, self.keys.key(self.writer, position))
    }

    /// Reads any key that it may read.
    fn read_any(&mut self, life: &Life<'_>) -> Result<(), SessionError> {
        let readable = self.keys.readable(self.writer);
        let key = readable.start + self.random.below(readable.end - readable.start);
        self.read(life, key)
    }

    /// Reads a key. Of one of its writer's keys, the ledger says what may be found: also what other threads, and other
    /// processes of this writer, have written.
    fn read(&mut self, life: &Life<'_>, key: u64) -> Result<(), SessionError> {
        let (writer, position) = self.keys.place(key);
        let known = || (writer == self.writer).then(|| noted(life.ledger.entry(position)));
        let before = known();
        let found = life.session.get(&key.to_be_bytes()).within(life.patience).wait()?;
        let entry = before.zip(known()).map(|(before, after)| before.until(after));
        let version = self.check(key, found.as_deref());
        if let Some(entry) = entry
            && let Err(what) = entry.explains(key, version)
        {
            violation(&what);
        }
        life.count(false);
        Ok(())
    }

    /// Reads a page from somewhere on, up to the end of the keys that it may read.
    fn scan(&mut self, life: &Life<'_>) -> Result<(), SessionError> {
        let readable = self.keys.readable(self.writer);
        let low = (readable.start + self.random.below(readable.end - readable.start)).to_be_bytes();
        let end = readable.end.to_be_bytes();
        let high = if self.keys.owned { Bound::Excluded(&end[..]) } else { Bound::Unbounded };
        let page = life.session.page(Bound::Included(&low[..]), high, 40).within(life.patience).wait()?;
        let mut last: Option<u64> = None;
        for (key, value) in page.iter() {
            let key = key.first_chunk().map_or(0, |key| u64::from_be_bytes(*key));
            if last.is_some_and(|last| key <= last) || key < u64::from_be_bytes(low) {
                violation(&format!("a page from {} has key {key} after {last:?}", u64::from_be_bytes(low)));
            }
            self.check(key, Some(value));
            last = Some(key);
        }
        life.count(false);
        Ok(())
    }

    /// Checks what was found under a key: it must be whole, by the key's writer, and not older than what this thread
    /// has seen.
    fn check(&mut self, key: u64, found: Option<&[u8]>) -> Option<u64> {
        let version = match version_in(key, self.keys.place(key).0, found?) {
            Ok(version) => version,
            Err(what) => violation(&what),
        };
        let seen = self.seen.entry(key).or_default();
        if version < *seen {
            violation(&format!("key {key} has version {version} after {seen} was seen"));
        }
        *seen = version;
        Some(version)
    }
}

/// A ledger that cannot be written to, or read, would give wrong verdicts later.
fn noted<T>(done: std::io::Result<T>) -> T {
    done.unwrap_or_else(|error| {
        eprintln!("dm: the ledger: {error}");
        exit(1);
    })
}
