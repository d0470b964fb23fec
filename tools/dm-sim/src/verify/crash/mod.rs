//! Deaths: compute nodes die in the middle of an operation, and survivors recover what they left.
//!
//! [`enumerate`](mod@enumerate) tries *every* point at which an operation may be cut short. For each submit it tries
//! every prefix of every chain, and every part of the next WRITE that may have landed. That part lands at once, or only
//! while the memory nodes are being asked to fence.
//!
//! Each point is a run of its own ([`stage`]) from zeroed memories, without concurrency: a [`serial_fabric`] executes
//! requests one after the other. Then the survivors continue, in several orders, and a model judges their answers.
//! Their repairs are cut short in turn, since a repairer may die, too.
//!
//! [`cases`]: the operations, and their trees; `wanted` searches for some. [`handover`]: a death that involves two lanes of the victim.
//! [`paused_repair`]: a repairer that pauses. [`random`]: several deaths in one random history.

pub mod cases;
pub mod enumerate;
pub mod handover;
pub mod paused_repair;
pub mod random;
pub mod serial_fabric;
pub mod stage;
pub(in crate::verify) mod wanted;

pub use cases::{Case, CutOperation};
pub use enumerate::{Enumeration, enumerate};
pub use handover::merge_under_handed_over_lock;
pub use paused_repair::collection_beside_a_paused_repairer;
pub use stage::slow_holders::descheduled_holders;

use crate::verify::run::Verifier;
use crate::verify::subject::Subject;

/// Random histories with which [`hunt`] begins.
const FIRST_HISTORIES: u64 = 100;

/// Looks for what a mutant does wrong, quickly. Tries a few random histories of the `subject`, then deaths after
/// handovers, one for every tree of `cases`. Then come `own`, deaths of the subject's kind, thinned enumerations of
/// `cases`, then more histories, up to `histories` in all. Returns the number of runs, and the failure.
///
/// `fails_without` makes a run again without the mutant. What fails then, too, is not the mutant's.
pub fn hunt<S: Subject>(
    subject: S,
    cases: &[Case],
    own: fn() -> Result<(), String>,
    histories: u64,
    fails_without: &dyn Fn(&mut dyn FnMut() -> bool) -> bool,
) -> Option<(u64, String)> {
    let mut runs = 0;
    let settings = random::settings();
    let mut verifier = Verifier::new(subject, settings.clone());
    let tried =
        |run: &mut dyn FnMut() -> Result<(), String>| run().err().filter(|_| !fails_without(&mut || run().is_err()));
    let mut look = |seeds: std::ops::Range<u64>, runs: &mut u64| {
        seeds.into_iter().find_map(|seed| {
            *runs += 1;
            let found = tried(&mut || {
                let history = verifier.run_with(seed, &random::plan(&settings, seed), false).history;
                history.findings.first().map_or(Ok(()), |finding| Err(finding.to_string()))
            });
            found.map(|what| (*runs, what))
        })
    };
    if let Some(found) = look(0..FIRST_HISTORIES.min(histories), &mut runs) {
        return Some(found);
    }
    for case in cases.iter().filter(|case| case.scenario.operation == CutOperation::Bulk(9)) {
        runs += 1;
        if let Some(what) = tried(&mut || merge_under_handed_over_lock(case).map(|_| ())) {
            return Some((runs, what));
        }
    }
    for case in cases {
        runs += 1;
        if let Some(what) = tried(&mut || collection_beside_a_paused_repairer(case).map(|_| ())) {
            return Some((runs, what));
        }
    }
    runs += 1;
    if let Some(what) = tried(&mut || own()) {
        return Some((runs, what));
    }
    for case in cases {
        runs += 1;
        if case.scenario.operation == CutOperation::Bulk(9)
            && let Some(what) = tried(&mut || descheduled_holders(case))
        {
            return Some((runs, what));
        }
        let mut points = 0;
        let found = tried(&mut || {
            let one = enumerate(case, 60, 60);
            points = one.runs;
            one.findings.into_iter().next().map_or(Ok(()), Err)
        });
        runs += points;
        if let Some(what) = found {
            return Some((runs, what));
        }
    }
    look(FIRST_HISTORIES.min(histories)..histories, &mut runs)
}
