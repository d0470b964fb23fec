//! `dm verify`: runs random histories on the simulated fabric and judges them.

mod deaths;
mod matrix;
mod planted;
mod record;

use crate::failure::{Failure, print};
use crate::kinds::JudgedName;
use clap::{Args, ValueEnum};
use dm_core::for_each_kind;
use dm_core::marks::Mark;
use dm_core::remote::catalog::IndexKind;
use dm_core::verbs::Assumptions;
use dm_sim::verify::{
    Bounded, Faults, ItemsOver, Profile, Recovered, Report, Settings, Subject, TreeKind, Verifier, WideOptions,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use record::{Record, Scope};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Arguments of `dm verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dm verify --histories 100000 --faults all --json record.json\n  dm verify --replay 4711 --faults all  (that \
                  seed once more, with every request)\n  dm verify --withdraw LINE_ATOMIC      (a guarantee the index needs: this fails)\n  dm \
                  verify --matrix                      (each guarantee withdrawn in turn)"
)]
pub(super) struct Arguments {
    /// Index to judge
    #[arg(long, value_enum, default_value_t)]
    index: JudgedName,

    /// Histories to run, one per seed [default: 20000; of the matrix 2000 per guarantee; of a planted mutant 2000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    histories: Option<u64>,

    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// What goes wrong besides schedules: none, all, or some of drops, crash, node-death, qp-error, rpc-lost,
    /// rpc-repeated, stale-cache
    #[arg(long, value_name = "none|all|LIST", default_value = "drops", value_parser = Faults::parse)]
    faults: Faults,

    /// Compute nodes recover one another: after a death nothing may fail, nothing stays locked, nothing is lost
    #[arg(long)]
    recovery: bool,

    /// Cut every kind of operation short at every point there is, and let others go on; then several deaths in each of
    /// --histories random histories
    #[arg(long, conflicts_with_all = ["withdraw", "json", "faults", "matrix", "planted", "replay"])]
    enumerate: bool,

    /// With --enumerate: at most so many points of each operation and tree, evenly spread [default: all], and as many of its repairs
    #[arg(long, value_name = "N", requires = "enumerate")]
    points: Option<usize>,

    /// A guarantee the fabric shall not give
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    withdraw: Option<Assumptions>,

    /// Lanes of a history, of all compute nodes together, 3 at least
    #[arg(long, value_name = "N|MIN-MAX", default_value = "3-8", value_parser = lanes)]
    lanes: Range,

    /// Compute nodes of a history, 2 at least
    #[arg(long, value_name = "N|MIN-MAX", default_value = "2-4", value_parser = compute_nodes)]
    compute_nodes: Range,

    /// Keys of a history
    #[arg(long, value_name = "N|MIN-MAX", default_value = "2-64", value_parser = keys)]
    keys: Range,

    /// Whether the fabric has masked CAS
    #[arg(long, value_enum, default_value = "draw")]
    masked_cas: MaskedCas,

    /// What all histories are about: mixed, wraparound, slow-readers, churn, reuse or growth [default: each draws its own]
    #[arg(long, value_name = "PROFILE", value_parser = Profile::parse)]
    profile: Option<Profile>,

    /// Also draw what most histories never have: keys, values, scans, sizes and events at the edges. Histories that draw
    /// none of it stay as they are
    #[arg(
        long, value_name = "all|LIST", num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "all", value_parser = WideOptions::parse, conflicts_with_all = ["enumerate", "matrix"]
    )]
    wide: WideOptions,

    /// Bytes of memory nodes change while operations run, though nobody wrote them: everything has to end, with whatever
    /// result
    #[arg(long, conflicts_with_all = ["enumerate", "matrix", "planted"])]
    damage: bool,

    /// Threads that run histories; what a seed does is the same with any
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,

    /// Write what was found to this file; while the run lasts, what was found so far
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Go on where the run that wrote the file of --json stopped
    #[arg(long, requires = "json")]
    resume: bool,

    /// Show the history of this seed, cut to the shortest beginning and the fewest faults that fail
    #[arg(long, value_name = "SEED", conflicts_with_all = ["histories", "matrix", "planted", "json"])]
    replay: Option<u64>,

    /// With --replay: the whole log of what happened to requests, not one line per request
    #[arg(long, requires = "replay")]
    events: bool,

    /// Withdraw each guarantee in turn, and compare what breaks with what the index declares
    #[arg(long, conflicts_with_all = ["withdraw", "planted", "json", "faults"])]
    matrix: bool,

    /// With --matrix: the file the matrix has to agree with
    #[arg(long, value_name = "FILE", requires = "matrix")]
    golden: Option<PathBuf>,

    /// Plant this mutant, or all in turn, or those in turn that are expected to be found, and see how soon it is found;
    /// needs a build with the feature "planted"
    #[arg(long, value_name = "BUG|all|expected", conflicts_with_all = ["withdraw", "json", "faults"])]
    planted: Option<String>,
}

/// Whether the fabric has masked CAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MaskedCas {
    /// Always
    Yes,
    /// Never
    No,
    /// In some histories
    Draw,
}

type Range = (u32, u32);

fn range(text: &str, least: u32, most: u32) -> Result<Range, String> {
    let number = |text: &str| {
        let number: u32 = text.trim().parse().map_err(|_| format!("\"{text}\" is not a number"))?;
        if (least..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is not in {least}..={most}")) }
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    if low > high { Err(format!("{low} is more than {high}")) } else { Ok((low, high)) }
}

fn lanes(text: &str) -> Result<Range, String> {
    range(text, 3, 64)
}

fn compute_nodes(text: &str) -> Result<Range, String> {
    range(text, 2, 16)
}

fn keys(text: &str) -> Result<Range, String> {
    range(text, 1, 4096)
}

fn guarantee(name: &str) -> Result<Assumptions, String> {
    Assumptions::from_name(&name.to_uppercase()).ok_or_else(|| {
        let known: Vec<_> = Assumptions::all().names().collect();
        format!("there is no such guarantee; there are {}", known.join(", "))
    })
}

/// Histories between two looks at the progress bar.
const BATCH: u64 = 200;

/// Histories without `--histories`.
const HISTORIES_DEFAULT: u64 = 20_000;

/// From so many histories on, a mark that was never hit is a failure: the run has not tried what it should.
const MARKS_FROM_HISTORIES: u64 = 10_000;

/// Seconds between two records of a run under way.
const RECORD_EVERY_S: u64 = 20;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings {
        lanes: arguments.lanes,
        compute_nodes: arguments.compute_nodes,
        keys: arguments.keys,
        faults: arguments.faults,
        masked_cas: match arguments.masked_cas {
            MaskedCas::Yes => Some(true),
            MaskedCas::No => Some(false),
            MaskedCas::Draw => None,
        },
        profile: arguments.profile,
        withdrawn: arguments.withdraw.unwrap_or_default(),
        wide: arguments.wide,
        damage: arguments.damage,
        ..Settings::default()
    };
    let JudgedName { kind, any_length } = arguments.index;
    if any_length && (arguments.enumerate || arguments.matrix) {
        return Err(Failure::Usage(
            "--index any-length: --enumerate and --matrix are for keys and values of one size".to_owned(),
        ));
    }
    macro_rules! kinds {
        ([$($Kind:ident $kind:ident),*]) => {
            match (kind, any_length) {
                $(
                    (IndexKind::$Kind, false) => run_kind(dm_sim::verify::$Kind, arguments, settings),
                    (IndexKind::$Kind, true) => run_kind(ItemsOver(dm_sim::verify::$Kind), arguments, settings),
                )*
                #[allow(unreachable_patterns, reason = "a build may have every kind")]
                (kind, _) => Err(Failure::Usage(format!("this program has no {} indexes", kind.name()))),
            }
        };
    }
    for_each_kind! { [kinds] }
}

fn run_kind<K: TreeKind + Send>(kind: K, arguments: &Arguments, settings: Settings) -> Result<(), Failure> {
    let Arguments { seed, histories, .. } = *arguments;
    if arguments.enumerate {
        return deaths::run(kind, seed, histories, arguments.points);
    }
    if let Some(seed) = arguments.replay {
        return if arguments.recovery {
            replay(Recovered(kind), arguments, settings, seed)
        } else {
            replay(Bounded(kind), arguments, settings, seed)
        };
    }
    if let Some(mutant) = &arguments.planted {
        return planted::run(kind, mutant, seed, histories, &settings);
    }
    if arguments.matrix {
        return matrix::run(kind, seed, histories, &settings, arguments.golden.as_deref());
    }
    if arguments.recovery {
        verify(Recovered(kind), arguments, &settings)
    } else {
        verify(Bounded(kind), arguments, &settings)
    }
}

fn replay<S: Subject>(subject: S, arguments: &Arguments, settings: Settings, seed: u64) -> Result<(), Failure> {
    let mut verifier = Verifier::new(subject, settings);
    match verifier.replay_shortest(seed) {
        Some(replay) => {
            print(&if arguments.events { replay.with_events() } else { replay.to_string() })?;
            Err(Failure::Run(format!("seed {seed} breaks what the index promises")))
        }
        None => print(&format!("seed {seed}: nothing wrong\n")),
    }
}

fn verify<S: Subject + Copy + Send>(subject: S, arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let histories = arguments.histories.unwrap_or(HISTORIES_DEFAULT);
    let end = arguments.seed.checked_add(histories);
    let end = end.ok_or_else(|| Failure::Usage("--seed plus --histories goes past 2^64".to_owned()))?;
    let scope = Scope::new(subject.name(), settings, arguments.seed, end);
    let mut record = match &arguments.json {
        Some(path) if arguments.resume && path.exists() => Record::read(path, &scope)?,
        _ => Record::new(scope),
    };
    let from = record.seeds.next;
    let mut marks: Vec<Mark> = subject.marks().iter().flat_map(|(_, marks)| marks.iter().copied()).collect();
    marks.retain(|mark| !subject.rare_marks().contains(mark));
    if settings.faults == Faults::NONE {
        // No lane is ever in doubt.
        marks.retain(|mark| *mark != Mark::SETTLED);
    }
    if settings.masked_cas == Some(true) {
        // No free lock word has to be guessed.
        marks.retain(|mark| *mark != Mark::GUESS_WRONG);
    }
    let bar = ProgressBar::with_draw_target(Some(histories), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} histories {wide_bar} {eta}") {
        bar.set_style(style);
    }
    let started = Instant::now();
    let mut written = Instant::now();
    // In rounds, so that a record covers all seeds up to a certain one.
    let round = BATCH * arguments.jobs * 5;
    let mut next = from;
    let mut verifiers: Vec<_> = (0..arguments.jobs).map(|_| Verifier::new(subject, settings.clone())).collect();
    while next < end {
        let to = end.min(next.saturating_add(round));
        record.add(&run_round(&mut verifiers, next..to), to);
        next = to;
        bar.set_position(to - arguments.seed);
        if let Some(path) = &arguments.json
            && written.elapsed().as_secs() >= RECORD_EVERY_S
        {
            record.write(path)?;
            written = Instant::now();
        }
    }
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let wide = settings.wide.of_both(subject.wide_options());
    record.close(&subject.marks(), &marks, wide, MARKS_FROM_HISTORIES);
    if let Some(path) = &arguments.json {
        record.write(path)?;
    }
    let rate = if seconds > 0.0 { (end - from) as f64 / seconds * 60.0 } else { 0.0 };
    print(&format!(
        "seeds {}..{end}: {record}{rate:.0} histories a minute on {} of this machine\n",
        arguments.seed,
        if arguments.jobs == 1 { "one core".to_owned() } else { format!("{} threads", arguments.jobs) },
    ))?;
    if let Some((seed, _)) = record.first_finding() {
        let mut verifier = Verifier::new(subject, settings.clone());
        if let Some(replay) = verifier.replay_shortest(seed) {
            print(&format!("\n{replay}"))?;
        }
        return Err(Failure::Run(format!(
            "the index does not keep its promises: seed {seed} is the first of {}",
            record.violations()
        )));
    }
    match record.missing_marks() {
        [] => Ok(()),
        missing => Err(Failure::Run(format!("never hit in {} histories: {}", record.histories, missing.join(", ")))),
    }
}

/// Runs seeds on as many threads as there are verifiers.
fn run_round<S: Subject + Send>(verifiers: &mut [Verifier<S>], seeds: std::ops::Range<u64>) -> Report {
    let next = AtomicU64::new(seeds.start);
    let work = |verifier: &mut Verifier<S>| {
        let mut report = Report::default();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= seeds.end {
                return report;
            }
            report.merge(verifier.verify(from..seeds.end.min(from + BATCH)));
        }
    };
    if let [only] = verifiers {
        return work(only);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = verifiers.iter_mut().map(|verifier| scope.spawn(|| work(verifier))).collect();
        let mut report = Report::default();
        for thread in threads {
            match thread.join() {
                Ok(part) => report.merge(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report
    })
}
