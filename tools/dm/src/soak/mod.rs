//! `dm soak`: compute processes that are killed, stopped and restarted at random, on real shared memory.
//!
//! | file | what it is |
//! |---|---|
//! | this one | the command line, and the report |
//! | [`fleet`] | memory nodes, writers, and the faults that they suffer |
//! | [`writer`] | a compute process: writes keys of its own, reads all, checks what it sees |
//! | [`ledger`] | what was asked for and what was acknowledged, kept where a kill does not reach it |
//! | [`verdict`] | the end: every acknowledged write, the structure, the locks, the rows |
//!
//! ```text
//!  dm soak ──┬── dm memd, two of them
//!            ├── dm soak-writer, some          SIGKILL; SIGSTOP for longer than a lease; started again; some kill
//!            │                                 themselves between two lines of a WRITE
//!            │        its substitute           if keys have owners, while the writer is stopped
//!            └── dm repair, now and then       SIGKILL, too
//! ```
//!
//! The seed decides what is drawn at random. When a draw takes effect, and what it hits, depends on the machine, so a
//! seed does not replay a run.

pub mod fleet;
pub mod ledger;
mod process;
pub mod verdict;
pub mod writer;

use crate::failure::{Failure, print};
use crate::kinds::KindName;
use crate::report::text::counted;
use crate::tool::LeaseArguments;
use clap::builder::RangedU64ValueParser;
use fleet::{Events, Fleet};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use verdict::Verdict;
use writer::Summary;

/// Arguments of `dm soak`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm soak --minutes 2\n  dm soak --seconds 20 --lease-ms 500 --writers 3 --json soak.json\n\nExit code 1 if \
                  anything is wrong: an acknowledged write is lost, a value nobody wrote is there, the tree is not sound, a \
                  lock is held or a row taken by nobody, or a process was not ended that should have been."
)]
pub struct Arguments {
    /// How long, in minutes
    #[arg(long, conflicts_with = "seconds", required_unless_present = "seconds", value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    minutes: Option<u64>,

    /// How long, in seconds
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000_000))]
    seconds: Option<u64>,

    /// Kind of the index
    #[arg(long, value_enum, default_value_t)]
    index: KindName,

    /// Seed of what happens [default: another one every time; it is printed]
    #[arg(long)]
    seed: Option<u64>,

    /// Compute processes that write
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u64>::new().range(1..=64))]
    writers: u64,

    /// Keys of each
    #[arg(long, default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(8..=1_000_000))]
    keys: u64,

    /// Memory nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    memory_nodes: u16,

    /// How memory nodes keep 64-byte lines whole: auto, avx512 or sequence
    #[arg(long, default_value = "auto", value_parser = ["auto", "avx512", "sequence"])]
    lines: String,

    #[command(flatten)]
    lease: LeaseArguments,

    /// Write the report to a file, for machines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Plant a mutant in the writers, by name: the soak should fail
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
}

/// The lease unless told otherwise: short, so that many takeovers happen.
const LEASE_MS: u64 = 1000;

/// What was done, and the results.
#[derive(Debug, Serialize)]
struct Report {
    measured_on: &'static str,
    index: &'static str,
    seed: u64,
    seconds: u64,
    writers: u64,
    keys: u64,
    memory_nodes: u16,
    lines: String,
    lease_ms: u64,
    events: Events,
    /// Sums over the writers that ended by themselves; the counts of killed ones are lost.
    survivors: Summary,
    verdict: Verdict,
    violations: Vec<String>,
}

/// Runs `dm soak`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let terms = arguments.lease.terms_or(LEASE_MS)?;
    let seconds = arguments.seconds.or(arguments.minutes.map(|minutes| minutes * 60)).unwrap_or(60);
    let seed = arguments.seed.unwrap_or_else(some_seed);
    print(&format!(
        "seed {seed}: {} of an index of kind {} on {} for {seconds} s, lease {} ms\n",
        counted(arguments.writers, "writer"),
        arguments.index.0.name(),
        counted(arguments.memory_nodes, "memory node"),
        terms.lease_ns() / 1_000_000
    ))?;
    let plan = fleet::Plan {
        index: arguments.index,
        seed,
        writers: arguments.writers,
        keys: arguments.keys,
        memory_nodes: arguments.memory_nodes,
        lines: arguments.lines.clone(),
        lease: Duration::from_nanos(terms.lease_ns()),
        time: Duration::from_secs(seconds),
        #[cfg(feature = "planted")]
        plant: arguments.plant.clone(),
    };
    let mut fleet = Fleet::start(plan)?;
    fleet.run(Duration::from_secs(seconds))?;
    let survivors = fleet.finish()?;
    let verdict = verdict::judge(&mut fleet)?;
    let report = Report {
        measured_on: "shared memory of one machine, not a NIC",
        index: arguments.index.0.name(),
        seed,
        seconds,
        writers: arguments.writers,
        keys: arguments.keys,
        memory_nodes: arguments.memory_nodes,
        lines: arguments.lines.clone(),
        lease_ms: terms.lease_ns() / 1_000_000,
        events: fleet.events.clone(),
        survivors,
        verdict,
        violations: fleet.violations.clone(),
    };
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report).map_err(Failure::run)?;
        std::fs::write(path, json + "\n").map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    print(&render(&report))?;
    match report.violations.len() {
        0 => Ok(()),
        found => {
            let found = counted(found as u64, "violation");
            Err(Failure::Run(format!("seed {seed}: {found}, the first: {}", report.violations[0])))
        }
    }
}

/// Seeds need not be good, only different.
fn some_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) >> 32
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = render_to(report, &mut text);
    text
}

fn render_to(report: &Report, text: &mut String) -> std::fmt::Result {
    let Report { events, survivors, verdict, violations, .. } = report;
    writeln!(
        text,
        "writers: {} killed ({} of them held locks, {} locks), {} dead between two lines of a WRITE, {} stopped for longer than \
         their lease ({} of them ended by others, {} continued, since no other wanted what they had), {} ended by others while \
         running, {} refused until a repair, {} started",
        events.killed,
        events.killed_with_locks,
        events.locks_of_killed,
        events.died_in_writes,
        events.stopped,
        events.stopped_ended,
        events.stopped_went_on,
        events.ended_while_running,
        events.refused,
        events.started
    )?;
    if events.substitutes > 0 {
        writeln!(
            text,
            "substitutes of stopped owners: {} started; {} owners continued, found that they had lost their keys, and ended; {} \
             continued and were killed while the substitute waited",
            events.substitutes, events.deposed, events.continued_killed
        )?;
    }
    writeln!(
        text,
        "{} repairs, {} of them killed, {} not finished; {} rows fenced, {} locks recovered by them",
        events.repairs, events.repairs_killed, events.repairs_failed, events.repair_rows_fenced, events.repair_locks
    )?;
    writeln!(
        text,
        "{} writes acknowledged in all, {} in doubt at the end; survivors rejoined {} times; their failed operations: {}",
        verdict.acknowledged,
        verdict.in_doubt,
        survivors.rejoined,
        if survivors.failed.is_empty() {
            "none".to_owned()
        } else {
            survivors.failed.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        }
    )?;
    writeln!(
        text,
        "at the end: {} records, all explained by {} keys' histories: {}; tree sound: {}; {} locks held; {} rows not free; {} \
         chunks of departed rows, all collected: {} places of nodes = {} reached + {} freed",
        verdict.records,
        verdict.keys,
        if violations.is_empty() { "yes" } else { "NO" },
        if verdict.sound { "yes" } else { "NO" },
        verdict.locks_held,
        verdict.rows_not_free,
        verdict.chunks_of_departed_rows,
        verdict.places,
        verdict.places_reached,
        verdict.places_back
    )?;
    for violation in violations {
        writeln!(text, "VIOLATION: {violation}")?;
    }
    Ok(())
}
