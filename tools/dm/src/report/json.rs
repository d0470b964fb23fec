//! The report for machines: one JSON object, stable snake_case names with units last.
//!
//! [`SCHEMA_VERSION`] counts up when a name disappears or changes its meaning; a new name does not change it.

use super::{Guarantee, Hotspot, Report, Tree, machine::Machine, simulation::Simulation};
use crate::workload::OperationKind;
use serde::{Deserialize, Serialize};

/// The version of the names and meanings below.
pub const SCHEMA_VERSION: u32 = 1;

/// A [`Report`] as JSON has it. Readable as well as writable, so that runs can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The index.
    pub index: String,
    /// The workload.
    pub workload: String,
    /// The seed of all draws.
    pub seed: u64,
    /// The fabric.
    pub fabric: String,
    /// What kind of number this is.
    pub measured_on: String,
    /// What the fabric guaranteed, and on what basis.
    pub guarantees: Vec<Guarantee>,
    /// Where it ran.
    pub machine: Machine,
    /// Compute nodes.
    pub compute_nodes: u32,
    /// Memory nodes.
    pub memory_nodes: u32,
    /// Compute nodes that own keys, each its own; left out if any compute node serves any key.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub owners: u32,
    /// Threads of each compute node.
    pub threads: u32,
    /// Lanes of each thread.
    pub lanes: u32,
    /// How long the run took, in seconds.
    pub wall_s: f64,
    /// Operations of all kinds that succeeded, per second.
    pub throughput_ops_per_s: f64,
    /// Records in the index at the end.
    pub records: u64,
    /// Memory of the pool that the index takes, in bytes.
    pub pool_bytes: u64,
    /// The same per record.
    pub pool_per_record_bytes: f64,
    /// Bytes of a key slot.
    pub key_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Techniques switched off or on; empty: all as by default.
    pub techniques: Vec<String>,
    /// What a walk over the whole index found after the last run; null: there was none.
    pub tree: Option<Tree>,
    /// Bytes of nodes that can be reached, per record; null without a walk.
    pub live_per_record_bytes: Option<f64>,
    /// Cache of each compute node, in bytes.
    pub cache_bytes: Vec<u64>,
    /// One per kind that occurred.
    pub operations: Vec<Kind>,
    /// Requests by kind, label and verb.
    pub verbs: Vec<Verb>,
    /// What came of the hotspot buffers; left out if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotspot: Option<Hotspot>,
    /// What only a run in virtual time has; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// All operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names in the JSON")]
pub struct Kind {
    /// The kind.
    pub kind: OperationKind,
    /// Operations that succeeded.
    pub count: u64,
    /// Operations that ended in an error.
    pub failed: u64,
    /// `count` per second.
    pub throughput_ops_per_s: f64,
    /// Mean latency in nanoseconds.
    pub latency_mean_ns: f64,
    /// Median latency in nanoseconds.
    pub latency_p50_ns: u64,
    /// 90 % of the operations took no longer, in nanoseconds.
    pub latency_p90_ns: u64,
    /// 99 % of the operations took no longer, in nanoseconds.
    pub latency_p99_ns: u64,
    /// 99.9 % of the operations took no longer, in nanoseconds.
    pub latency_p999_ns: u64,
    /// The longest, in nanoseconds.
    pub latency_max_ns: u64,
    /// Sum of the round trips; this and the following are of all `count` operations.
    pub round_trips: u64,
    /// Sum of the verb requests.
    pub requests: u64,
    /// Sum of the bytes read from memory nodes.
    pub read_bytes: u64,
    /// Sum of the bytes written to memory nodes.
    pub written_bytes: u64,
    /// Sum of the retries.
    pub retries: u64,
    /// The five sums divided by `count`.
    pub per_operation: PerOperation,
}

/// Means over the operations of a kind; 0 without operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerOperation {
    /// Round trips.
    pub round_trips: f64,
    /// Verb requests.
    pub requests: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Retries.
    pub retries: f64,
}

/// Requests with one label and verb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names in the JSON")]
pub struct Verb {
    /// The kind of the operations that issued them.
    pub kind: OperationKind,
    /// The step of the algorithm.
    pub label: String,
    /// The verb.
    pub verb: String,
    /// How many.
    pub requests: u64,
    /// Their payload in bytes.
    pub bytes: u64,
}

impl From<&Report> for Document {
    fn from(report: &Report) -> Self {
        let operations = report.shown_kinds().map(|kind| Kind {
            kind: kind.kind,
            count: kind.count,
            failed: kind.failed,
            throughput_ops_per_s: report.rate(kind.count),
            latency_mean_ns: kind.latency_ns_mean(),
            latency_p50_ns: kind.latency_ns_at(0.5),
            latency_p90_ns: kind.latency_ns_at(0.9),
            latency_p99_ns: kind.latency_ns_at(0.99),
            latency_p999_ns: kind.latency_ns_at(0.999),
            latency_max_ns: kind.latency_ns_max(),
            round_trips: kind.cost.round_trips,
            requests: kind.cost.requests,
            read_bytes: kind.cost.read_bytes,
            written_bytes: kind.cost.written_bytes,
            retries: kind.cost.retries,
            per_operation: PerOperation {
                round_trips: kind.per_operation(kind.cost.round_trips),
                requests: kind.per_operation(kind.cost.requests),
                read_bytes: kind.per_operation(kind.cost.read_bytes),
                written_bytes: kind.per_operation(kind.cost.written_bytes),
                retries: kind.per_operation(kind.cost.retries),
            },
        });
        let verbs = report.verbs.iter().map(|(kind, label, verb, total)| Verb {
            kind,
            label: label.to_owned(),
            verb: verb.to_owned(),
            requests: total.requests,
            bytes: total.bytes,
        });
        Self {
            schema_version: SCHEMA_VERSION,
            index: report.index.clone(),
            workload: report.workload.clone(),
            seed: report.seed,
            fabric: report.fabric.clone(),
            measured_on: report.measured_on.clone(),
            guarantees: report.guarantees.clone(),
            machine: report.machine.clone(),
            compute_nodes: report.cache_bytes.len() as u32,
            memory_nodes: report.memory_nodes,
            owners: report.owners,
            threads: report.threads,
            lanes: report.lanes,
            wall_s: report.wall_s,
            throughput_ops_per_s: report.throughput_ops_per_s(),
            records: report.records,
            pool_bytes: report.pool_bytes,
            pool_per_record_bytes: report.pool_per_record_bytes(),
            key_bytes: report.key_bytes,
            value_bytes: report.value_bytes,
            techniques: report.techniques.clone(),
            tree: report.tree.clone(),
            live_per_record_bytes: report.tree.as_ref().map(Tree::live_per_record_bytes),
            cache_bytes: report.cache_bytes.clone(),
            operations: operations.collect(),
            verbs: verbs.collect(),
            hotspot: report.hotspot,
            simulation: report.simulation.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{assert_golden, sample},
        *,
    };

    fn render(report: &Report) -> String {
        serde_json::to_string_pretty(&Document::from(report)).unwrap() + "\n"
    }

    #[test]
    fn the_json_is_as_in_its_golden_file() {
        assert_golden("report.json", &render(&sample()));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let report = sample();
        let read: Document = serde_json::from_str(&render(&report)).unwrap();
        assert_eq!(read, Document::from(&report));
    }

    #[test]
    fn an_empty_run_has_no_null_numbers() {
        let report = Report { kinds: Vec::new(), wall_s: 0.0, records: 0, ..sample() };
        assert!(serde_json::from_str::<Document>(&render(&report)).is_ok());
    }
}
