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

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;
use clap::builder::RangedU64ValueParser;
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
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `dm litmus`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: on a running pool, 5 s for each of six tests\n  dm litmus --fabric verbs --pool 10.0.0.1 --seconds 5"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// How long each test runs
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    seconds: u64,
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
        Ok(if wrote.looks > 0 { wrote } else { seen })
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
    let tests = run_all(pool, chunk.offset, Duration::from_secs(arguments.seconds));
    // The chunk can be released whatever the results are: no pointer leads into it.
    let released = pool
        .with_lane(|fabric, lane| block_on(fabric, lane, chunks::release(lane, &pool.geometry()[0], &chunk, false)));
    let tests = tests?;
    released.map_err(Failure::run)?.map_err(Failure::run)?;

    let mut table = format!(
        "{:<16} {:<22} {:>9} {:>9} {:>8}  {:<16} relied upon by\n",
        "test", "assumption", "looks", "changes", "refuted", "granted"
    );
    let mut broken = Vec::new();
    for test in &tests {
        let Test { name, assumption, seen } = *test;
        let granted = if assumption.is_empty() {
            "-"
        } else if guarantees.by_construction.contains(assumption) {
            "by construction"
        } else if guarantees.asserted.contains(assumption) {
            "asserted"
        } else {
            "no"
        };
        if seen.refuted > 0 && (granted == "by construction" || granted == "asserted") {
            broken.push(format!("{name} ({granted})"));
        }
        let flag = assumption.names().next().unwrap_or("-");
        let relying = KINDS.iter().zip(&needed);
        let relying = relying.filter(|(_, needed)| !assumption.is_empty() && needed.contains(assumption));
        let mut relying = relying.map(|(kind, _)| kind.name()).collect::<Vec<_>>().join(", ");
        if relying.is_empty() {
            relying.push_str("none");
        }
        let Seen { looks, changes, refuted } = seen;
        // Writing to a string does not fail.
        let _ = writeln!(table, "{name:<16} {flag:<22} {looks:>9} {changes:>9} {refuted:>8}  {granted:<16} {relying}");
    }
    let device = fabric.device().map_or(String::new(), |device| format!(", device {device}"));
    let profile = if guarantees.profile.is_empty() { "none" } else { guarantees.profile };
    print(&format!(
        "fabric {}{device}, profile {profile}; {} s a test. Not seen is not impossible; seen is.\n\n{table}",
        fabric.name(),
        arguments.seconds
    ))?;
    if broken.is_empty() {
        Ok(())
    } else {
        Err(Failure::Run(format!("refuted here, though granted: {}", broken.join(", "))))
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
