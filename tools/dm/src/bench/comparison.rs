//! Results of the comparison with a bare loop.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Rounds of each: short ones, so that rounds in which another process got the processor do not move the median.
pub(super) const ROUNDS: usize = 500;
/// Operations of a round.
pub(super) const OPERATIONS: u64 = 2_000;

/// What the comparison found: medians of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Lanes of the engine's second column.
    pub lanes: u32,
    /// Searches.
    pub search: Pair,
    /// Updates.
    pub update: Pair,
}

/// One operation, by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The engine with one lane, in ns.
    pub engine_ns: f64,
    /// The engine with all lanes of a thread, in ns.
    pub engine_lanes_ns: f64,
    /// The bare loop, in ns.
    pub bare_ns: f64,
    /// Operations the bare loop could not do, because the cache had no route or the leaf had been split.
    pub bare_missed: u64,
}

impl Pair {
    /// The engine with one lane by the bare loop.
    pub fn ratio(&self) -> f64 {
        self.engine_ns / self.bare_ns
    }

    /// The engine with all lanes by the bare loop.
    pub fn ratio_lanes(&self) -> f64 {
        self.engine_lanes_ns / self.bare_ns
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "beside a bare loop, one thread, {ROUNDS} rounds of {OPERATIONS} in turn, medians of processor time\n\
             {:<10} {:>22} {:>22} {:>22} {:>8} {:>8}",
            "operation",
            "bare loop",
            "engine, 1 lane",
            format!("engine, {} lanes", self.lanes),
            "ratio",
            "ratio",
        )?;
        for (name, pair) in [("search", &self.search), ("update", &self.update)] {
            let cell = |ns: f64| format!("{:.2} M/s, {ns:.0} ns", 1e3 / ns);
            writeln!(
                f,
                "{name:<10} {:>22} {:>22} {:>22} {:>8.2} {:>8.2}",
                cell(pair.bare_ns),
                cell(pair.engine_ns),
                cell(pair.engine_lanes_ns),
                pair.ratio(),
                pair.ratio_lanes()
            )?;
            if pair.bare_missed > 0 {
                writeln!(f, "  the bare loop missed {} of {}", pair.bare_missed, ROUNDS as u64 * OPERATIONS)?;
            }
        }
        Ok(())
    }
}
