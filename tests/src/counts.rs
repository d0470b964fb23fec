//! Goldens of the requests that operations make, step by step.
//!
//! A line is one operation; below it are its requests, if it has some: those of one submit separated by commas, submits by
//! semicolons. Beside it are the round trips that it should take. If another number is counted the test fails, so a golden
//! that contradicts the table of the index's module cannot be blessed.

use dm_core::operation::{OpError, Outcome};
use dm_sim::Run;
use std::fmt::Write as _;

/// A golden under construction.
#[derive(Default)]
pub struct Lines(pub String);

impl Lines {
    /// Begins a chapter.
    pub fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}\n");
    }

    /// Notes an operation that should take `round_trips`.
    pub fn note(&mut self, what: &str, round_trips: u32, run: &Run<Result<Outcome, OpError>>) {
        let outcome = run.result.unwrap_or_else(|error| panic!("{what}: {error}"));
        let counts = run.counts;
        assert_eq!(counts.round_trips, round_trips, "{what}: {}", run.steps());
        let _ = writeln!(
            self.0,
            "{what} -> {outcome:?}: {} RTT, {} requests, {} B read, {} B written",
            counts.round_trips, counts.requests, counts.bytes_read, counts.bytes_written,
        );
        let steps = run.steps();
        if !steps.is_empty() {
            let _ = writeln!(self.0, "    {steps}");
        }
    }
}
