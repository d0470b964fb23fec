//! What a trial has found: the content of `trial.json`.

use crate::bench::output::File;
use crate::commands::litmus::Found;
use crate::report::json::Document as Run;
use crate::report::machine::Machine;
use dm_host::fabric::devices;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Counts up when a name disappears or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// A statement with what was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judged {
    pub statement: String,
    pub file: String,
    /// Whether it need not be called untried any more, of the device of this trial.
    pub settled: bool,
    pub found: String,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It ran, and all is well.
    Ok,
    /// It ran, and something is not.
    Failed,
    /// It did not run.
    NotTried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::NotTried => "not tried",
        })
    }
}

/// What came of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step {
    pub name: String,
    pub commands: Vec<String>,
    pub seconds: f64,
    pub outcome: Outcome,
    /// Why it failed or was not tried.
    pub why: Option<String>,
    /// What the commands printed.
    pub said: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seconds, outcome, why, .. } = self;
        write!(f, "{outcome:<10} {seconds:>6.1} s  {name}")?;
        why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// A number of perftest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

/// What a bench measured, and of which task it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bench {
    pub of: String,
    pub file: File,
}

/// The RDMA device of this host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Device {
    pub name: String,
    /// Its driver, or on what a device in software sits.
    pub driver: String,
    /// Of its first active port.
    pub rate: String,
}

impl Device {
    /// What the kernel says of a device.
    pub(super) fn named(name: &str) -> Self {
        let device = devices::list().into_iter().find(|device| device.name == name);
        let port = device.iter().flat_map(|device| &device.ports).find(|port| port.state == "ACTIVE");
        let rate = port.map_or_else(String::new, |port| port.rate.clone());
        Self { name: name.to_owned(), driver: device.map_or_else(String::new, |device| device.driver), rate }
    }

    /// Whether it is software: what it does says nothing about a NIC.
    pub(super) fn is_software(&self) -> bool {
        self.driver.starts_with("rxe ") || self.name.starts_with("siw")
    }

    /// The simulated NIC that is most like it.
    pub(super) fn simulated_as(&self) -> &'static str {
        let gbits: f64 = self.rate.split_whitespace().next().and_then(|rate| rate.parse().ok()).unwrap_or(0.0);
        match gbits {
            _ if self.is_software() => "soft-roce",
            gbits if gbits >= 200.0 => "cx7-200g",
            _ => "cx6",
        }
    }
}

/// The report: what `trial.json` has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Document {
    pub schema_version: u32,
    pub dm_version: String,
    pub peer: Option<String>,
    pub machine: Machine,
    pub device: Option<Device>,
    pub limit_s: f64,
    pub took_s: f64,
    pub steps: Vec<Step>,
    pub statements: Vec<Judged>,
    pub litmus: Option<Found>,
    pub perftest: Vec<Measure>,
    pub benches: Vec<Bench>,
}

impl Document {
    /// Nothing is tried yet.
    pub(super) fn new(peer: Option<String>, limit: Duration, machine: Machine) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            dm_version: env!("CARGO_PKG_VERSION").to_owned(),
            peer,
            machine,
            device: None,
            limit_s: limit.as_secs_f64(),
            took_s: 0.0,
            steps: Vec::new(),
            statements: Vec::new(),
            litmus: None,
            perftest: Vec::new(),
            benches: Vec::new(),
        }
    }

    /// What the bench of a task measured.
    pub(super) fn bench(&self, of: &str) -> Option<&File> {
        self.benches.iter().find(|bench| bench.of == of).map(|bench| &bench.file)
    }

    pub(super) fn run(&self, of: &str, workload: &str) -> Option<&Run> {
        self.bench(of)?.runs.iter().find(|run| run.workload == workload)
    }

    /// Operations a second of a bench with one workload.
    pub(super) fn rate(&self, of: &str) -> Option<f64> {
        Some(self.bench(of)?.runs.first()?.throughput_ops_per_s)
    }

    pub(super) fn perftest(&self, name: &str) -> Option<f64> {
        self.perftest.iter().find(|value| value.name == name).map(|value| value.value)
    }
}
