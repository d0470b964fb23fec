//! `dm verify`: random histories on the simulated fabric, judged.

use super::{Failure, print};
use clap::{Args, ValueEnum};
use dm_core::verbs::Assumptions;
use dm_sim::verify::{
    ChimeSubject, FaultKind, Faults as FaultSet, Report, Settings, ShermanSubject, Subject, Verifier,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Arguments of `dm verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dm verify --histories 100000\n  dm verify --replay 4711          (that seed once more, with \
                  every request)\n  dm verify --withdraw LINE_ATOMIC (a guarantee the index needs: this fails)"
)]
pub(super) struct Arguments {
    /// Index to judge
    #[arg(long, value_enum, default_value = "sherman")]
    index: Index,

    /// Histories to run, one per seed
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    histories: u64,

    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// What goes wrong besides schedules
    #[arg(long, value_enum, default_value = "drops")]
    faults: Faults,

    /// A guarantee the fabric shall not give
    #[arg(long, value_name = "GUARANTEE")]
    withdraw: Option<String>,

    /// Show the history of this seed, cut to the shortest beginning that fails
    #[arg(long, value_name = "SEED", conflicts_with = "histories")]
    replay: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Index {
    Sherman,
    Chime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Faults {
    /// Nothing
    None,
    /// Futures of operations are dropped in flight, and their lanes settled
    Drops,
}

/// Histories between two looks at the progress bar.
const BATCH: u64 = 200;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.index {
        Index::Sherman => judge(arguments, ShermanSubject),
        Index::Chime => judge(arguments, ChimeSubject),
    }
}

fn judge(arguments: &Arguments, subject: impl Subject) -> Result<(), Failure> {
    let withdrawn = match &arguments.withdraw {
        None => Assumptions::empty(),
        Some(name) => Assumptions::from_name(&name.to_uppercase()).ok_or_else(|| {
            let known: Vec<_> = Assumptions::all().names().collect();
            Failure::Usage(format!("--withdraw {name}: there is no such guarantee; there are {}", known.join(", ")))
        })?,
    };
    let drops = arguments.faults == Faults::Drops;
    let faults = if drops { FaultSet::only(FaultKind::Drops) } else { FaultSet::NONE };
    let settings = Settings { faults, withdrawn, ..Settings::default() };
    let mut verifier = Verifier::new(subject, settings);
    if let Some(seed) = arguments.replay {
        return match verifier.replay_shortest(seed) {
            Some(replay) => {
                print(&replay.to_string())?;
                Err(Failure::Run(format!("seed {seed} breaks what the index promises")))
            }
            None => print(&format!("seed {seed}: nothing wrong\n")),
        };
    }
    let end = arguments.seed.checked_add(arguments.histories);
    let end = end.ok_or_else(|| Failure::Usage("--seed plus --histories goes past 2^64".to_owned()))?;
    let bar = ProgressBar::with_draw_target(Some(arguments.histories), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} histories {wide_bar} {eta}") {
        bar.set_style(style);
    }
    let mut report = Report::default();
    let mut from = arguments.seed;
    while from < end {
        let to = end.min(from + BATCH);
        report.merge(verifier.verify(from..to));
        bar.set_position(to - arguments.seed);
        from = to;
    }
    bar.finish_and_clear();
    print(&format!("seeds {}..{end}: {report}", arguments.seed))?;
    if report.is_clean() { Ok(()) } else { Err(Failure::Run("the index does not keep its promises".to_owned())) }
}
