//! `dm verify --enumerate`: every point at which a compute node can die in an operation, and random deaths.

use crate::failure::{Failure, print};
use dm_sim::verify::crash::{self, CutOperation, Enumeration, random};
use dm_sim::verify::{Recovered, Report, TreeKind, Verifier};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::fmt::Write as _;

/// Random histories without `--histories`.
const HISTORIES_DEFAULT: u64 = 20_000;

/// Runs per case in which the first repairer dies, too.
const REPAIRS: usize = 300;

/// Histories between two looks at the progress bar.
const BATCH: u64 = 200;

pub(super) fn run<K: TreeKind>(
    kind: K,
    seed: u64,
    histories: Option<u64>,
    points_max: Option<usize>,
) -> Result<(), Failure> {
    let histories = histories.unwrap_or(HISTORIES_DEFAULT);
    let end = seed.checked_add(histories);
    let end = end.ok_or_else(|| Failure::Usage("--seed plus --histories goes past 2^64".to_owned()))?;
    let cases = K::crash_cases();
    let bar = ProgressBar::with_draw_target(Some(cases.len() as u64), ProgressDrawTarget::stderr());
    let mut points = Enumeration::default();
    let mut text = String::new();
    if let Err(what) = K::own_deaths() {
        let _ = writeln!(text, "{what}");
    }
    for case in &cases {
        // Owners change leaves without a lock, and wait for leases in histories.
        if !K::HAS_OWNERS
            && let Err(what) = crash::descheduled_holders(case)
        {
            let _ = writeln!(text, "{what}");
        }
        if case.scenario.operation == CutOperation::Bulk(9)
            && let Err(what) = crash::merge_under_handed_over_lock(case)
        {
            let _ = writeln!(text, "{what}");
        }
        if let Err(what) = crash::collection_beside_a_paused_repairer(case) {
            let _ = writeln!(text, "{what}");
        }
        points.merge(crash::enumerate(
            case,
            points_max.unwrap_or(usize::MAX),
            points_max.unwrap_or(REPAIRS).min(REPAIRS),
        ));
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&format!("{points}{text}\n"))?;
    let settings = random::settings();
    let mut verifier = Verifier::new(Recovered(kind), settings.clone());
    let mut report = Report::default();
    let bar = ProgressBar::with_draw_target(Some(histories), ProgressDrawTarget::stderr());
    let mut from = seed;
    while from < end {
        let to = end.min(from + BATCH);
        report.merge(random::run(&mut verifier, &settings, from..to));
        bar.set_position(to - seed);
        from = to;
    }
    bar.finish_and_clear();
    print(&format!("seeds {seed}..{end}: {report}"))?;
    if points.is_clean() && text.is_empty() && report.is_clean() {
        Ok(())
    } else {
        Err(Failure::Run("a death costs more than a lease".to_owned()))
    }
}
