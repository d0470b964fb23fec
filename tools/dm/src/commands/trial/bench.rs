//! The tasks of a trial that are a `dm bench`.

use super::child::{Command, json};
use super::document::Bench;
use super::{Trial, Tried};
use crate::bench::output::File;
use crate::figures;
use crate::report::json::Document;
use crate::workload::OperationKind;
use crate::workload::random::mix;
use dm_core::remote::catalog::IndexKind;
use std::fmt::Write as _;
use std::time::Duration;

/// The engine doing what perftest does, with one thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// What is measured.
    pub name: &'static str,
    /// Options of the bench.
    options: &'static [&'static str],
    /// Whose median latency counts; `None`: the rate does.
    latency_of: Option<OperationKind>,
    /// The tests of perftest of which the operation consists, one after another, or the one that has its rate.
    pub of: &'static [&'static str],
}

/// A cached search is one READ of a leaf. An update is a CAS, a READ, a WRITE and a CAS, of which it does the last two in one
/// round trip.
pub(super) const BESIDE: &[Beside] = &[
    Beside {
        name: "get, one lane",
        options: &["--lanes", "1", "--workload", "c"],
        latency_of: Some(OperationKind::Read),
        of: &["ib_read_lat, 1024 B"],
    },
    Beside {
        name: "update, one lane",
        options: &["--lanes", "1", "-p", "readproportion=0", "-p", "updateproportion=1"],
        latency_of: Some(OperationKind::Update),
        of: &["ib_atomic_lat, CAS", "ib_read_lat, 1024 B", "ib_write_bw, 17 B, one at a time", "ib_atomic_lat, CAS"],
    },
    Beside {
        name: "get, 16 lanes",
        options: &["--lanes", "16", "--workload", "c"],
        latency_of: None,
        of: &["ib_read_bw, 1024 B"],
    },
];

impl Beside {
    /// What was measured, in us or millions a second.
    pub(super) fn value(&self, run: &Document) -> Option<f64> {
        match self.latency_of {
            Some(wanted) => {
                let kind = run.operations.iter().find(|kind| kind.kind == wanted)?;
                Some(kind.latency_p50_ns as f64 / 1e3)
            }
            None => Some(run.throughput_ops_per_s / 1e6),
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.latency_of.is_some() { "us" } else { "M/s" }
    }
}

/// Where locks are in device memory, in reports.
pub(super) const LOCKS_IN_DEVICE: &str = "device memory: locks in it";
/// Where they are not.
pub(super) const LOCKS_IN_HOST: &str = "device memory: locks in host memory";

/// Records of a short look, and the least of any.
const RECORDS_SHORT: u64 = 300;
/// Operations of a workload, likewise.
const OPERATIONS_SHORT: u64 = 100;

/// Keys of any length in a short look: each insert is several of the index below.
const ITEMS_SHORT: u64 = 100;
/// Keys of any length, at most.
const ITEMS_MAX: u64 = 20_000;

impl Trial<'_> {
    /// What a bench measured, by the name of its task.
    pub(super) fn measured(&self, name: &str) -> Option<&File> {
        self.found.bench(name)
    }

    /// Runs a bench on a pool, in an index of its own, which it drops afterwards.
    fn bench(&mut self, name: &str, pool: &[String], options: &[String]) -> Result<&File, String> {
        // A bench that was ended leaves its index: its compute node is not known to be dead yet.
        self.indexes += 1;
        let index = format!("trial-{}", self.indexes);
        let file = self.scratch.path().join(format!("{index}.json"));
        let mut command = Command::dm(&["bench", "--name", &index]);
        command.arguments.extend_from_slice(pool);
        command.arguments.extend_from_slice(options);
        command.arguments.extend(["--json".to_owned(), file.display().to_string()]);
        let ran = self.child(&command).map(drop);
        let mut drop_it = Command::dm(&["drop", "--name", &index]);
        drop_it.arguments.extend_from_slice(pool);
        let dropped = self.child(&drop_it);
        // It says more than that its index could not be dropped.
        ran?;
        dropped?;
        let file = json(&file).ok_or("it wrote no results")?;
        self.found.benches.push(Bench { of: name.to_owned(), file });
        self.measured(name).ok_or_else(|| "it wrote no results".to_owned())
    }

    /// How many records the engine inserts in a part of the share of the task.
    fn records(&self, part: f64) -> u64 {
        let records = self.rate * self.share.as_secs_f64() * part;
        let most = if self.arguments.short { RECORDS_SHORT } else { self.arguments.records_max };
        (records as u64).clamp(RECORDS_SHORT, most)
    }

    /// Options that bound a workload by time; its operations are more than it will get through.
    fn bounded(&self, records: u64, part: f64) -> Vec<String> {
        let most = self.share.mul_f64(part).max(Duration::from_millis(50)).as_secs_f64();
        let operations = if self.arguments.short { OPERATIONS_SHORT } else { (self.rate * most * 4.0) as u64 };
        let operations = operations.clamp(OPERATIONS_SHORT, 1 << 30);
        let options = [
            ("--records", records.to_string()),
            ("--operations", operations.to_string()),
            ("--seconds", format!("{most:.2}")),
        ];
        options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    pub(super) fn measure_rate(&mut self) -> Tried {
        // What a machine does at least, if it cannot be measured.
        self.rate = 200.0;
        let records = if self.arguments.short { RECORDS_SHORT } else { 2000 }.to_string();
        let options = ["--workload", "load", "--records", &records, "--no-validate"].map(str::to_owned);
        let pool = self.pool.clone();
        let measured = self.bench("rate of inserts", &pool, &options)?;
        self.rate = measured.runs.first().map_or(200.0, |run| run.throughput_ops_per_s.max(200.0));
        Ok(())
    }

    /// A pool with locks in device memory beside one with locks in host memory.
    pub(super) fn device_memory(&mut self) -> Tried {
        let other = self.pool_without_device.clone();
        let pool = self.pool.clone();
        let mut options = self.bounded(self.records(0.1), 0.2);
        options.extend(["--workload", "a"].map(str::to_owned));
        self.bench(LOCKS_IN_DEVICE, &pool, &options)?;
        self.bench(LOCKS_IN_HOST, &other, &options).map(drop)
    }

    pub(super) fn beside(&mut self, beside: &'static Beside) -> Tried {
        let pool = self.pool.clone();
        let mut options = self.bounded(self.records(0.1).min(10_000), 0.4);
        options.extend(["--threads", "1"].iter().chain(beside.options).map(|&option| option.to_owned()));
        self.bench(&format!("engine {}", beside.name), &pool, &options).map(drop)
    }

    /// All workloads: the load gets a fraction of the share, the other six a tenth each.
    pub(super) fn workloads(&mut self, kind: IndexKind) -> Tried {
        let pool = self.pool.clone();
        let mut options = self.bounded(self.records(0.12), 0.1);
        options.extend(["--index", kind.name()].map(str::to_owned));
        self.bench(&format!("workloads {}", kind.name()), &pool, &options).map(drop)
    }

    /// Keys and values of any length over an index.
    pub(super) fn items(&mut self, kind: IndexKind) -> Tried {
        let records = self.records(0.1).min(if self.arguments.short { ITEMS_SHORT } else { ITEMS_MAX });
        let mut keys = String::new();
        for record in 0..records {
            // Writing to a string does not fail.
            let _ = writeln!(keys, "{}{record:x}", "directory/".repeat((mix(record) % 24) as usize));
        }
        let file = self.scratch.path().join("keys");
        std::fs::write(&file, keys).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut options = self.bounded(records, 0.3);
        options.extend(["--index", kind.name(), "--any-length", "--value-bytes", "200", "--keys"].map(str::to_owned));
        options.push(file.display().to_string());
        for property in ["readproportion=0.5", "updateproportion=0.4", "scanproportion=0.1", "maxscanlength=50"] {
            options.extend(["-p".to_owned(), property.to_owned()]);
        }
        let pool = self.pool.clone();
        self.bench(&format!("any length {}", kind.name()), &pool, &options).map(drop)
    }

    /// One bar of Sherman's Figure 5 (b).
    pub(super) fn technique(&mut self, at: usize) -> Tried {
        let techniques = figures::techniques();
        let technique = techniques.get(at).ok_or("there is no such technique")?;
        let mut options = self.bounded(self.records(0.1), 0.4);
        options.extend(technique.options.iter().cloned());
        options.push("--no-validate".to_owned());
        let in_host = technique.options.iter().any(|option| option.contains("on-chip"));
        let has_device = self.found.litmus.as_ref().is_some_and(|found| found.device_bytes > 0);
        let pool = if in_host && has_device { &self.pool_without_device } else { &self.pool }.clone();
        self.bench(technique.title, &pool, &options).map(drop)
    }

    /// The same workloads on the simulated cluster: one compute node, one memory node.
    pub(super) fn simulated(&mut self, kind: IndexKind) -> Tried {
        let measured = self.measured(&format!("workloads {}", kind.name())).and_then(|file| file.runs.first());
        let (threads, lanes, records) =
            measured.map(|run| (run.threads, run.lanes, run.records)).ok_or("nothing was measured")?;
        let profile = self.arguments.profile.clone().unwrap_or_else(|| {
            self.found.device.as_ref().map_or("cx6", super::document::Device::simulated_as).to_owned()
        });
        let records = records.min(100_000);
        let operations = records.min(20_000);
        let mut command = Command::dm(&["bench", "--fabric", "sim", "--compute-nodes", "1", "--memory-nodes", "1"]);
        command.arguments.extend(["--index", kind.name(), "--no-validate", "--profile", &profile].map(str::to_owned));
        for (option, value) in [
            ("--threads", u64::from(threads)),
            ("--lanes", u64::from(lanes)),
            ("--records", records),
            ("--operations", operations),
        ] {
            command.arguments.extend([option.to_owned(), value.to_string()]);
        }
        let file = self.scratch.path().join("simulated.json");
        command.arguments.extend(["--json".to_owned(), file.display().to_string()]);
        self.child(&command)?;
        let file = json(&file).ok_or("it wrote no results")?;
        self.found.benches.push(Bench { of: format!("simulated {}", kind.name()), file });
        Ok(())
    }
}
