//! `dm litmus`: tries, for a while, to observe what indexes assume not to happen.
//!
//! Each test has a writer and a looker: two threads with queue pairs of their own (or mappings, on shared memory), on
//! one chunk of memory node 0. Observing nothing proves nothing; one observation refutes an assumption on this fabric.
//!
//! | test | writer | looker | refuted if |
//! |---|---|---|---|
//! | word, line | one WRITE of 1 KiB, every byte `t` | one READ of 1 KiB | the bytes of one aligned word, or of one line, differ |
//! | write-order | a chain: WRITE word A = `t`, WRITE word B = `t` | READ B, then READ A | A is older than B |
//! | write-ascending | one WRITE of 1 KiB of words `t` | READ the last word, then the first | the first is older |
//! | read-ascending | a chain: WRITE the last word = `t`, WRITE the first = `t` | one READ of all | the last is older than the first |
//! | atomic-write | WRITE word = `t`, then READ it | fetch-and-add 0 on it | the READ brings another value |
//! | failed-cas | WRITE word = `t`, then READ it | CAS on it whose comparison fails | the READ brings another value |
//! | masked-cas | masked CAS of the lower half, from `t - 1` to `t` | the same of the upper half | either brings another value of its half |
//!
//! The last is of a fabric that offers masked atomics, and tries whether they are atomic and change what their masks say.

use crate::failure::{Failure, print};
use crate::tool::{PoolArguments, seconds};
use dm_core::error::VerbError;
use dm_core::fabric::Fabric as _;
use dm_core::index::Index as _;
use dm_core::lane::Lane;
use dm_core::memory::chunks::{self, Granted, Want};
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkKind, Grant, RequestId};
use dm_core::verbs::{Assumptions, Guarantees, Label, LaneId, NodeId, Request};
use dm_host::assembly::{Place, Spending};
use dm_host::compute_node::ComputeNode;
use dm_host::fabric::any::AnyFabric;
use dm_host::kinds::{IndexParameters, with_index};
use dm_host::pool::Pool;
use dm_host::solo::block_on;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `dm litmus`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: on a running pool, 5 s for each of its tests\n  dm litmus --fabric verbs --pool 10.0.0.1 --seconds 5"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// How long each test runs
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,

    /// Write the results to a file, for machines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What was found, and on what: what `--json` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    /// How memory nodes were reached.
    pub fabric: String,
    /// The RDMA device of this machine.
    pub device: Option<String>,
    /// What the platform is known for.
    pub profile: String,
    /// Whether the fabric offers masked atomics.
    pub masked_atomics: bool,
    /// Device memory of each memory node, in bytes.
    pub device_bytes: u32,
    /// How long each test ran.
    pub test_s: f64,
    /// The tests.
    pub tests: Vec<Line>,
}

/// What came of one test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// As in the module's documentation.
    pub test: String,
    /// What it tries to refute; `-`: nothing that an index relies on.
    pub assumption: String,
    /// How often it looked.
    pub looks: u64,
    /// Looks with another result than the one before.
    pub changes: u64,
    /// Looks that refute it.
    pub refuted: u64,
    /// On what grounds the fabric grants it.
    pub granted: String,
    /// Indexes that rely on it.
    pub relied_upon_by: Vec<String>,
}

impl Line {
    /// Whether what was granted was seen not to hold.
    pub(super) fn is_broken(&self) -> bool {
        self.refuted > 0 && !matches!(self.granted.as_str(), "-" | "no")
    }
}

/// Bytes that are written and read at once.
const BYTES: usize = 1024;

/// Where the last word of them is.
const LAST: u64 = BYTES as u64 - 8;

const HOME: NodeId = NodeId(0);

/// What one test saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Times that the looker looked, or the writer in tests in which it looks itself.
    looks: u64,
    /// Looks with another result than the one before.
    changes: u64,
    /// Looks that refute the assumption.
    refuted: u64,
}

/// One test.
struct Test {
    name: &'static str,
    assumption: Assumptions,
    seen: Seen,
}

/// One thread's end: a lane, its fabric, and where the chunk is.
struct End<'a, 'm> {
    fabric: &'a mut AnyFabric,
    lane: &'a Lane<'m>,
    at: u64,
}

impl End<'_, '_> {
    fn read(&mut self, offset: u64, bytes: usize) -> Result<Vec<u8>, VerbError> {
        let request = Request::read(Label::Tool, HOME, self.at + offset, bytes, 0);
        block_on(self.fabric, self.lane, self.lane.port().call(request))?;
        Ok(self.lane.port().with(|scratch| scratch[..bytes].to_vec()))
    }

    fn word(&mut self, offset: u64) -> Result<u64, VerbError> {
        Ok(word_of(&self.read(offset, 8)?, 0))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), VerbError> {
        self.lane.port().with(|scratch| scratch[..bytes.len()].copy_from_slice(bytes));
        let request = Request::write(Label::Tool, HOME, self.at, bytes.len(), 0);
        block_on(self.fabric, self.lane, self.lane.port().call(request)).map(drop)
    }

    /// WRITEs words, in this order, as one chain.
    fn chain(&mut self, words: &[(u64, u64)]) -> Result<(), VerbError> {
        for &(offset, word) in words {
            self.lane.port().push(Request::write_word(Label::Tool, HOME, self.at + offset, word));
        }
        block_on(self.fabric, self.lane, self.lane.port().submit())
    }

    fn atomic(&mut self, request: Request) -> Result<u64, VerbError> {
        block_on(self.fabric, self.lane, self.lane.port().call(request)).map(|completion| completion.value)
    }
}

fn word_of(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Runs `write` on one thread and `look` on another until the time is over; each returns what it saw.
fn race(
    pool: &Pool,
    at: u64,
    time: Duration,
    write: impl Fn(&mut End<'_, '_>, u64) -> Result<Option<bool>, VerbError> + Send + Sync,
    look: impl Fn(&mut End<'_, '_>) -> Result<(u64, bool), VerbError>,
) -> Result<Seen, Failure> {
    let stop = &AtomicBool::new(false);
    let write = &write;
    let begin =
        || -> Result<(AnyFabric, Vec<u8>), Failure> { Ok((pool.fabric().map_err(Failure::run)?, vec![0; BYTES])) };
    let (mut fabric, mut scratch) = begin()?;
    let lane = Lane::new(LaneId(0), &mut scratch);
    let mut mine = End { fabric: &mut fabric, lane: &lane, at };
    mine.write(&[0; BYTES]).map_err(Failure::run)?;
    let theirs = begin()?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<Seen, VerbError> {
            let (mut fabric, mut scratch) = theirs;
            let lane = Lane::new(LaneId(1), &mut scratch);
            let mut end = End { fabric: &mut fabric, lane: &lane, at };
            let mut seen = Seen::default();
            for turn in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(refuted) = write(&mut end, turn)? {
                    seen.looks += 1;
                    seen.changes += 1;
                    seen.refuted += u64::from(refuted);
                }
            }
            Ok(seen)
        });
        let began = Instant::now();
        let mut seen = Seen::default();
        let mut last = 0;
        let looked = loop {
            if began.elapsed() > time {
                break Ok(());
            }
            match look(&mut mine) {
                Ok((value, refuted)) => {
                    seen.looks += 1;
                    seen.changes += u64::from(value != last);
                    seen.refuted += u64::from(refuted);
                    last = value;
                }
                Err(error) => break Err(error),
            }
        };
        stop.store(true, Ordering::Relaxed);
        let wrote = writer.join().map_err(|_| Failure::Run("the writer panicked".to_owned()))?;
        looked.map_err(Failure::run)?;
        let wrote = wrote.map_err(Failure::run)?;
        // In tests in which the writer looks itself, its looks count.
        Ok(if wrote.looks > 0 { Seen { refuted: wrote.refuted + seen.refuted, ..wrote } } else { seen })
    })
}

/// All tests, in the order of the module's documentation.
fn run_all(pool: &Pool, at: u64, time: Duration) -> Result<Vec<Test>, Failure> {
    const A: u64 = 0;
    const B: u64 = 512;
    let fill = |end: &mut End<'_, '_>, turn: u64| end.write(&[turn as u8; BYTES]).map(|()| None);
    let pieces = |bytes: usize| {
        move |end: &mut End<'_, '_>| {
            let seen = end.read(0, BYTES)?;
            let torn = seen.chunks_exact(bytes).any(|piece| piece.iter().any(|&byte| byte != piece[0]));
            Ok((u64::from(seen[0]), torn))
        }
    };
    let test = |name, assumption, seen| Test { name, assumption, seen };
    let mut tests = vec![
        test("word", Assumptions::WORD_ATOMIC, race(pool, at, time, fill, pieces(8))?),
        test("line", Assumptions::LINE_ATOMIC, race(pool, at, time, fill, pieces(64))?),
    ];
    let newer_first = |first: u64, second: u64| {
        move |end: &mut End<'_, '_>| {
            let (newer, older) = (end.word(first)?, end.word(second)?);
            Ok((newer, older < newer))
        }
    };
    let seen = race(pool, at, time, |end, turn| end.chain(&[(A, turn), (B, turn)]).map(|()| None), newer_first(B, A))?;
    tests.push(test("write-order", Assumptions::WRITE_THEN_WRITE, seen));
    let words = |end: &mut End<'_, '_>, turn: u64| end.write(&turn.to_le_bytes().repeat(BYTES / 8)).map(|()| None);
    let seen = race(pool, at, time, words, newer_first(LAST, 0))?;
    tests.push(test("write-ascending", Assumptions::WRITE_ASCENDING, seen));
    let look = |end: &mut End<'_, '_>| {
        let seen = end.read(0, BYTES)?;
        let (first, last) = (word_of(&seen, 0), word_of(&seen, LAST as usize));
        Ok((first, last < first))
    };
    let seen = race(pool, at, time, |end, turn| end.chain(&[(LAST, turn), (0, turn)]).map(|()| None), look)?;
    // No index relies on it, so it has no flag.
    tests.push(test("read-ascending", Assumptions::empty(), seen));
    let check = |end: &mut End<'_, '_>, turn: u64| {
        end.chain(&[(A, turn)])?;
        Ok(Some(end.word(A)? != turn))
    };
    let add = |end: &mut End<'_, '_>| {
        let old = end.atomic(Request::fetch_add(Label::Tool, HOME, end.at + A, 0))?;
        Ok((old, false))
    };
    tests.push(test("atomic-write", Assumptions::ATOMIC_EXCLUDES_WRITE, race(pool, at, time, check, add)?));
    let fail = |end: &mut End<'_, '_>| {
        let old = end.atomic(Request::cas(Label::Tool, HOME, end.at + A, u64::MAX, 1))?;
        Ok((old, false))
    };
    tests.push(test("failed-cas", Assumptions::FAILED_CAS_IS_SILENT, race(pool, at, time, check, fail)?));
    Ok(tests)
}

/// The name of [`masked`] in reports.
pub(super) const MASKED: &str = "masked-cas";

/// Two queue pairs count in the halves of one word.
fn masked(pool: &Pool, at: u64, time: Duration) -> Result<Seen, Failure> {
    const LOW: u64 = u32::MAX as u64;
    let count_low = |end: &mut End<'_, '_>, turn: u64| {
        let turn = turn & LOW;
        let before = turn.wrapping_sub(1) & LOW;
        let old = end.atomic(Request::masked_cas(Label::Tool, HOME, end.at, [before, turn, LOW, LOW]))?;
        Ok(Some(old & LOW != before))
    };
    let high = Cell::new(0);
    let count_high = |end: &mut End<'_, '_>| {
        let before: u64 = high.get();
        let turn = before.wrapping_add(1) & LOW;
        let old = end.atomic(Request::masked_cas(Label::Tool, HOME, end.at, [before << 32, turn << 32, !LOW, !LOW]))?;
        high.set(turn);
        Ok((old & LOW, old >> 32 != before))
    };
    race(pool, at, time, count_low, count_high)
}

/// The assumptions of each index, whatever this fabric grants.
fn needs(node: &ComputeNode, fabric: &AnyFabric) -> Result<[Assumptions; KINDS.len()], Failure> {
    let everything = Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" };
    let place = Place {
        geometry: node.pool().geometry(),
        // No operation runs on this index.
        number: IndexNumber::NONE,
        member: node.member(),
        capabilities: fabric.capabilities(),
        guarantees: everything,
        recovery: None,
        requests: None,
        layers: None,
        given_up: None,
        first_sequence: 1,
        epochs: None,
    };
    let spending = Spending { cache_bytes: 0, returned_nodes: 0, ..Spending::default() };
    let mut needed = [Assumptions::empty(); KINDS.len()];
    for (&kind, needed) in KINDS.iter().zip(&mut needed) {
        let parameters = IndexParameters::with_sizes(kind, 8, 8).map_err(Failure::run)?;
        *needed = with_index(&place, &parameters, &spending, |index| index.assumptions()).map_err(Failure::run)?;
    }
    Ok(needed)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let pool = &memory.pool;
    let node = arguments.pool.join(&memory)?;
    let fabric = pool.fabric().map_err(Failure::run)?;
    let guarantees = fabric.guarantees();
    let needed = needs(&node, &fabric)?;
    let chunk = take_chunk(&node)?;
    let time = arguments.seconds;
    let offers_masked = fabric.capabilities().masked_atomics;
    let tests = run_all(pool, chunk.offset, time);
    let masked = if offers_masked && tests.is_ok() { masked(pool, chunk.offset, time).map(Some) } else { Ok(None) };
    // The chunk can be released whatever the results are: no pointer leads into it.
    let released = pool
        .with_lane(|fabric, lane| block_on(fabric, lane, chunks::release(lane, &pool.geometry()[0], &chunk, false)));
    let (tests, masked) = (tests?, masked?);
    released.map_err(Failure::run)?.map_err(Failure::run)?;

    let line = |name: &str, assumption: Assumptions, seen: Seen, granted: &str| {
        let relying = KINDS.iter().zip(&needed);
        let relying = relying.filter(|(_, needed)| !assumption.is_empty() && needed.contains(assumption));
        Line {
            test: name.to_owned(),
            assumption: assumption.names().next().unwrap_or("-").to_owned(),
            looks: seen.looks,
            changes: seen.changes,
            refuted: seen.refuted,
            granted: granted.to_owned(),
            relied_upon_by: relying.map(|(kind, _)| kind.name().to_owned()).collect(),
        }
    };
    let of_index = tests.iter().map(|&Test { name, assumption, seen }| {
        let granted = if assumption.is_empty() {
            "-"
        } else if guarantees.by_construction.contains(assumption) {
            "by construction"
        } else if guarantees.asserted.contains(assumption) {
            "asserted"
        } else {
            "no"
        };
        line(name, assumption, seen, granted)
    });
    let of_masked = masked.map(|seen| line(MASKED, Assumptions::empty(), seen, "offered"));
    let found = Found {
        fabric: fabric.name().to_owned(),
        device: fabric.device().map(str::to_owned),
        profile: guarantees.profile.to_owned(),
        masked_atomics: offers_masked,
        device_bytes: fabric.capabilities().device_bytes,
        test_s: time.as_secs_f64(),
        tests: of_index.chain(of_masked).collect(),
    };
    if let Some(path) = &arguments.json {
        let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("{}: {error}", path.display()));
        let json = serde_json::to_string_pretty(&found).map_err(|error| failed(&error))?;
        std::fs::write(path, json + "\n").map_err(|error| failed(&error))?;
    }
    print(&found.table())?;
    let broken = found.tests.iter().filter(|line| line.is_broken());
    let broken: Vec<_> = broken.map(|line| format!("{} ({})", line.test, line.granted)).collect();
    if broken.is_empty() {
        Ok(())
    } else {
        Err(Failure::Run(format!("refuted here, though granted: {}", broken.join(", "))))
    }
}

impl Found {
    /// For people.
    fn table(&self) -> String {
        let Self { fabric, device, profile, test_s, .. } = self;
        let device = device.as_ref().map_or(String::new(), |device| format!(", device {device}"));
        let profile = if profile.is_empty() { "none" } else { profile };
        let masked = if self.masked_atomics { "" } else { ", no masked atomics" };
        let mut table = format!(
            "fabric {fabric}{device}, profile {profile}{masked}; {test_s} s a test. Not seen is not impossible; seen is.\n\n\
             {:<16} {:<22} {:>9} {:>9} {:>8}  {:<16} relied upon by\n",
            "test", "assumption", "looks", "changes", "refuted", "granted"
        );
        for line in &self.tests {
            let Line { test, assumption, looks, changes, refuted, granted, .. } = line;
            let relying =
                if line.relied_upon_by.is_empty() { "none".to_owned() } else { line.relied_upon_by.join(", ") };
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "{test:<16} {assumption:<22} {looks:>9} {changes:>9} {refuted:>8}  {granted:<16} {relying}"
            );
        }
        table
    }
}

/// Takes a chunk of memory node 0 for this command alone.
fn take_chunk(node: &ComputeNode) -> Result<Granted, Failure> {
    let pool = node.pool();
    let request = RequestId::new(0).ok_or_else(|| Failure::Run("no request number".to_owned()))?;
    let grant = Grant::new(node.member(), ChunkKind::Redo, IndexNumber::NONE, request);
    let want = Want { grant, retry: false, reuse: false, hint: 0 };
    let granted =
        pool.with_lane(|fabric, lane| block_on(fabric, lane, chunks::grant(lane, HOME, &pool.geometry()[0], &want, 0)));
    granted
        .map_err(Failure::run)?
        .map_err(Failure::run)?
        .ok_or_else(|| Failure::Run("memory node 0 has no free chunk to try on".to_owned()))
}
