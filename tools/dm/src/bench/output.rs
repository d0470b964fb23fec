//! What `dm bench` prints and writes.

use super::beside::Against;
use super::comparison::Comparison;
use super::engine::Measured;
use super::over_time;
use super::plan::Plan;
use crate::failure::{Failure, print};
use crate::report::json::{Document, SCHEMA_VERSION};
use crate::report::table;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;

/// What `--json` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct File {
    /// Version of the names and meanings, as in each run.
    pub schema_version: u32,
    /// The command line.
    pub command: Vec<String>,
    /// The load, if it was not a workload of its own.
    pub load: Option<Load>,
    /// What pages the memory nodes' regions are made of.
    pub pages: String,
    /// One per workload and repetition.
    pub runs: Vec<Document>,
    /// The comparison with a bare loop.
    pub baseline: Option<Comparison>,
    /// The comparison with other indexes, each in a process of its own.
    pub against: Option<Against>,
}

/// How the records got into the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// `bulk` or `insert`.
    pub by: String,
    /// Records.
    pub records: u64,
    /// How long it took, in seconds, without sorting.
    pub wall_s: f64,
    /// Sorting before, in seconds.
    pub sort_s: f64,
}

/// Prints tables, and writes the JSON file.
pub fn write(plan: &Plan, measured: &Measured) -> Result<(), Failure> {
    let mut text = String::new();
    // Writing to a string does not fail.
    if let Some(load) = &measured.loaded {
        let rate = load.records as f64 / load.wall_s.max(1e-9) / 1e6;
        let _ = write!(text, "loaded {} records by {} in {:.2} s ({rate:.2} M/s", load.records, load.by, load.wall_s);
        let _ = if load.sort_s > 0.0 {
            writeln!(text, ", after sorting for {:.2} s)", load.sort_s)
        } else {
            writeln!(text, ")")
        };
    }
    if let Some(against) = &measured.against {
        let _ = write!(text, "{against}");
    } else {
        text.push_str(&table::render_runs(&measured.reports));
        let _ = writeln!(text, "pages of memory node 0: {}", measured.pages);
    }
    if let Some(comparison) = &measured.baseline {
        let _ = write!(text, "\n{comparison}");
    }
    if let (Some(prefix), Some(found), Some(report)) =
        (&plan.over_time_out, &measured.over_time, measured.reports.first())
    {
        text.push_str(&over_time::write(prefix, found, report)?);
    }
    print(&text)?;
    let Some(path) = &plan.json else { return Ok(()) };
    let file = File {
        schema_version: SCHEMA_VERSION,
        command: std::env::args().collect(),
        load: measured.loaded.map(|load| Load {
            by: load.by.to_owned(),
            records: load.records,
            wall_s: load.wall_s,
            sort_s: load.sort_s,
        }),
        pages: measured.pages.clone(),
        runs: measured.reports.iter().map(Document::from).collect(),
        baseline: measured.baseline.clone(),
        against: measured.against.clone(),
    };
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("{}: {error}", path.display()));
    let json = serde_json::to_string_pretty(&file).map_err(|error| failed(&error))?;
    fs::write(path, json + "\n").map_err(|error| failed(&error))
}
