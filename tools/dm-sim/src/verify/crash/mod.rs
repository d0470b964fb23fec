//! Deaths: compute nodes that die in the middle of an operation, and what the survivors make of it.
//!
//! [`enumerate`](mod@enumerate) goes through *every* point at which an operation may be cut short: for each of its submits, every
//! prefix of every chain, and for the WRITE after the prefix every part of it that may have landed; landed at once, or
//! only while the memory nodes are being asked to fence. Each point is a run of its own from zeroed memories, without
//! concurrency: a *table* ([`table`]) executes requests one after the other. Then the survivors go on, in several
//! orders, and are judged by a model. What they do is cut short in turn: repairers die, too.
//!
//! [`cases`]: which operations, on which trees. [`random`]: several deaths in one history with everything at once.

pub mod cases;
pub mod enumerate;
pub mod random;
pub mod table;

pub use cases::{Act, Case};
pub use enumerate::{Enumeration, descheduled_holders, enumerate};

use crate::verify::run::Verifier;
use crate::verify::sherman::ShermanRecovered;

/// Random histories that [`hunt`] begins with.
const FIRST_HISTORIES: u64 = 100;

/// Looks for something wrong, quickly: in a few random histories, then in thinned enumerations of all cases, then in other
/// histories, up to `histories`. How many runs it took, and what it was.
pub fn hunt(histories: u64) -> Option<(u64, String)> {
    let mut runs = 0;
    let settings = random::settings();
    let mut verifier = Verifier::new(ShermanRecovered, settings.clone());
    let mut look = |seeds: std::ops::Range<u64>, runs: &mut u64| {
        seeds.into_iter().find_map(|seed| {
            *runs += 1;
            let history = verifier.run_with(seed, &random::plan(&settings, seed), false).history;
            history.findings.first().map(|finding| (*runs, finding.to_string()))
        })
    };
    if let Some(found) = look(0..FIRST_HISTORIES.min(histories), &mut runs) {
        return Some(found);
    }
    for case in cases::all() {
        runs += 1;
        if case.act == Act::Bulk(9)
            && let Err(what) = descheduled_holders(&case)
        {
            return Some((runs, what));
        }
        let mut one = enumerate(&case, 60, 60);
        runs += one.runs;
        if !one.is_clean() {
            return Some((runs, one.findings.swap_remove(0)));
        }
    }
    look(FIRST_HISTORIES.min(histories)..histories, &mut runs)
}
