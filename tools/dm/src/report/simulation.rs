//! The part of a report that only a simulated run has: the profile, how much of each resource was used, and how fast
//! the simulation was.

use super::text::{push_row, push_table, table_of};
use dm_sim::timing::Usage;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// A run in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// Name of the profile, or its file.
    pub profile: String,
    /// What the profile says of itself.
    pub description: String,
    /// Whether compute node `i` and memory node `i` are one machine.
    pub colocated: bool,
    /// Operations before the counted ones.
    pub ramp_operations: u64,
    /// What was used how much while operations were counted.
    pub usage: Usage,
    /// What the index's lanes counted meanwhile; only what occurred.
    pub marks: Vec<Mark>,
    /// Parts of the keys that moved meanwhile; left out if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repartition: Option<Repartition>,
    /// Processor time the counted operations took here, in seconds. This and the next differ from run to run.
    pub processor_s: f64,
    /// Simulated requests per second of processor time.
    pub requests_per_processor_s: f64,
}

/// Parts of the keys that one compute node has given to another one, in virtual time since counting began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repartition {
    /// The compute node that had them.
    pub donor: u32,
    /// The one that has them now; it had none.
    pub receiver: u32,
    /// How many.
    pub parts: u32,
    /// When the first was asked for, in ms.
    pub began_ms: f64,
    /// How long it took until the last was given up, in ms.
    pub took_ms: f64,
    /// Operations of clients that came to a part while it moved. They are in no other number: the clients drew others.
    pub refused_operations: u64,
}

impl fmt::Display for Repartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { donor, receiver, parts, began_ms, took_ms, refused_operations } = self;
        write!(
            f,
            "{parts} parts moved from compute node {donor} to compute node {receiver}, begun after {began_ms:.3} ms, in \
             {took_ms:.3} ms; {refused_operations} operations that came to a part meanwhile were refused, and others drawn"
        )
    }
}

/// Something that lanes count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Adds what people want to know.
pub(super) fn push(text: &mut String, simulation: &Simulation) {
    let Simulation { profile, description, usage, .. } = simulation;
    // Writing to a string does not fail.
    let _ = writeln!(text, "\nsimulated with profile {profile} ({description}); limited by {}", usage.bottleneck);
    let _ = writeln!(
        text,
        "{} requests in {:.3} ms of virtual time, {:.2} s of processor time: {:.2} M/s",
        usage.requests,
        usage.elapsed_ns as f64 / 1e6,
        simulation.processor_s,
        simulation.requests_per_processor_s / 1e6
    );
    let marks: Vec<_> = simulation.marks.iter().map(|mark| format!("{} {}", mark.name, mark.count)).collect();
    if !marks.is_empty() {
        let _ = writeln!(text, "counted: {}", marks.join(", "));
    }
    if let Some(repartition) = simulation.repartition {
        let _ = writeln!(text, "{repartition}");
    }
    text.push('\n');
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let mut table = table_of(&[
        "memory node",
        "M req/s",
        "GB/s out",
        "GB/s in",
        "rate %",
        "link out %",
        "link in %",
        "hot bucket %",
        "stalled %",
        "parked",
        "atomics",
        "failed",
        "limited by",
    ]);
    for (number, node) in usage.memory_nodes.iter().enumerate() {
        let cells = vec![
            number.to_string(),
            format!("{:.2}", node.rate_mops),
            format!("{:.2}", node.out_gb_per_s),
            format!("{:.2}", node.in_gb_per_s),
            percent(node.request_rate_share),
            percent(node.link_out_share),
            percent(node.link_in_share),
            percent(node.hottest_bucket_share),
            percent(node.stalled_share),
            format!("{:.2}", node.parked_mean),
            (node.host_atomics + node.device_atomics).to_string(),
            node.failed_atomics.to_string(),
            node.bottleneck.clone(),
        ];
        push_row(&mut table, cells, 1);
    }
    push_table(text, &table);
    let most = |share: fn(&dm_sim::timing::usage::ComputeNodeUsage) -> f64| {
        percent(usage.compute_nodes.iter().map(share).fold(0.0, f64::max))
    };
    let _ = writeln!(
        text,
        "busiest compute node: threads {} %, NIC rate {} %, link out {} %, link in {} %",
        most(|node| node.threads_share),
        most(|node| node.request_rate_share),
        most(|node| node.link_out_share),
        most(|node| node.link_in_share),
    );
}
