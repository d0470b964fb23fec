//! What `dm bench --against` found, and how much of it there is: see [`against`](super::against).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Rounds of each kind of operation.
pub(super) const ROUNDS: usize = 200;
/// Operations of a round.
pub(super) const OPERATIONS: u64 = 1_000;
/// The same, of scans, which take longer.
pub(super) const SCANS: u64 = 125;
/// Records that all rounds insert.
pub(super) const INSERTED: u64 = ROUNDS as u64 * OPERATIONS;

/// What the comparison found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Records loaded.
    pub records: u64,
    /// Rounds of each kind of operation.
    pub rounds: usize,
    /// A line of the table each.
    pub lines: Vec<Line>,
}

/// One kind of operation of one side: processor time in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// `get`, `update`, `scan` of 100 records, or `insert`.
    pub operation: String,
    /// Who did it.
    pub side: String,
    /// Operations of a round.
    pub operations: u64,
    /// Of an operation, in the median of the rounds.
    pub median_ns: f64,
    /// A tenth of the rounds took less.
    pub low_tenth_ns: f64,
    /// A tenth of the rounds took more.
    pub high_tenth_ns: f64,
    /// Beside the last side in the same round, in the median: how many times as long it took.
    pub ratio: f64,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.lines.last().map_or("", |line| &line.side);
        writeln!(
            f,
            "{} records; one thread, {} rounds in turn, each side in a process of its own; ns of processor time\n\
             {:<10} {:<28} {:>10} {:>14} {:>14}   beside {last}",
            self.records, self.rounds, "operation", "index", "median", "lowest tenth", "highest tenth",
        )?;
        for line in &self.lines {
            writeln!(
                f,
                "{:<10} {:<28} {:>10.0} {:>14.0} {:>14.0}   {:.2} x",
                line.operation, line.side, line.median_ns, line.low_tenth_ns, line.high_tenth_ns, line.ratio
            )?;
        }
        Ok(())
    }
}
