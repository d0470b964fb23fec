//! The report for people.

use super::text::{counted, counted_as, push_row, push_table, size, table_of};
use super::{Basis, Guarantee, KindReport, Report, simulation};
use comfy_table::Table;
use std::fmt::Write;

/// The whole report as text: what was measured, on what, per kind of operation, per label and verb, memory, guarantees.
/// Every line ends with LF and has no blanks before it.
pub fn render(report: &Report) -> String {
    let mut text = heading(report, &format!("workload {}", report.workload));
    push_table(&mut text, &operations(&[report]));
    text.push('\n');
    if report.verbs.iter().next().is_some() {
        push_table(&mut text, &verbs(report));
        text.push('\n');
    }
    push_memory(&mut text, report);
    if let Some(found) = &report.simulation {
        simulation::push(&mut text, found);
    }
    push_guarantees(&mut text, report);
    text
}

/// Several runs on one index as one table; what they share comes once.
pub fn render_runs(reports: &[Report]) -> String {
    match reports {
        [] => String::new(),
        [report] => render(report),
        [first, .., last] => {
            let workloads: Vec<_> = reports.iter().map(|report| report.workload.as_str()).collect();
            let mut text = heading(first, &format!("workloads {}", workloads.join(", ")));
            push_table(&mut text, &operations(&reports.iter().collect::<Vec<_>>()));
            text.push('\n');
            push_memory(&mut text, last);
            for report in reports {
                if let Some(found) = &report.simulation {
                    let _ = write!(text, "\nworkload {}:", report.workload);
                    simulation::push(&mut text, found);
                }
            }
            push_guarantees(&mut text, last);
            text
        }
    }
}

fn heading(report: &Report, workload: &str) -> String {
    let Report { index, seed, fabric, measured_on, machine, memory_nodes, threads, lanes, .. } = report;
    let mut text = format!(
        "{index}, {workload}, seed {seed}: {} x {} x {}, {}; records of {}+{} B\nmeasured on {measured_on}\n\
         fabric      {fabric}\n{}{machine}\n",
        counted(report.cache_bytes.len() as u64, "compute node"),
        counted(*threads, "thread"),
        counted(*lanes, "lane"),
        counted(*memory_nodes, "memory node"),
        report.key_bytes,
        report.value_bytes,
        if report.simulation.is_some() { "simulated on " } else { "machine     " },
    );
    if report.owners > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(text, "owners      {}; each draws its own keys", counted(report.owners, "compute node"));
    }
    if !report.techniques.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "techniques  {}", report.techniques.join(", "));
    }
    text.push('\n');
    text
}

fn operations(reports: &[&Report]) -> Table {
    let mut table = table_of(&[
        "workload",
        "operation",
        "Mops/s",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "RTT/op",
        "requests/op",
        "B read/op",
        "B written/op",
        "retries/op",
    ]);
    for report in reports {
        let kinds: Vec<_> = report.shown_kinds().collect();
        for kind in &kinds {
            let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
            let per_operation = |total| format!("{:.2}", kind.per_operation(total));
            push_row(
                &mut table,
                vec![
                    report.workload.clone(),
                    kind.kind.to_string(),
                    mops(report.rate(kind.count)),
                    us(kind.latency_ns_at(0.5)),
                    us(kind.latency_ns_at(0.9)),
                    us(kind.latency_ns_at(0.99)),
                    us(kind.latency_ns_at(0.999)),
                    us(kind.latency_ns_max()),
                    per_operation(kind.cost.round_trips),
                    per_operation(kind.cost.requests),
                    per_operation(kind.cost.read_bytes),
                    per_operation(kind.cost.written_bytes),
                    per_operation(kind.cost.retries),
                ],
                2,
            );
        }
        if kinds.len() != 1 {
            push_row(
                &mut table,
                vec![report.workload.clone(), "all".to_owned(), mops(report.throughput_ops_per_s())],
                2,
            );
        }
    }
    table
}

fn verbs(report: &Report) -> Table {
    let mut table = table_of(&["operation", "label", "verb", "requests", "requests/op", "B/request"]);
    for (kind, label, verb, total) in report.verbs.iter() {
        let per = |total: u64, count: u64| format!("{:.2}", total as f64 / count.max(1) as f64);
        push_row(
            &mut table,
            vec![
                kind.to_string(),
                label.to_owned(),
                verb.to_owned(),
                total.requests.to_string(),
                per(total.requests, report.count_of(kind)),
                per(total.bytes, total.requests),
            ],
            3,
        );
    }
    table
}

fn push_guarantees(text: &mut String, report: &Report) {
    if report.guarantees.is_empty() {
        return;
    }
    text.push('\n');
    for (heading, wanted) in [("by construction", 0), ("asserted", 1), ("absent", 2)] {
        let names: Vec<_> = report
            .guarantees
            .iter()
            .filter_map(|Guarantee { name, basis }| {
                let (group, text) = match basis {
                    Basis::ByConstruction => (0, name.clone()),
                    Basis::Asserted { profile } => (1, format!("{name} (profile {profile})")),
                    Basis::Absent => (2, name.clone()),
                };
                (group == wanted).then_some(text)
            })
            .collect();
        if !names.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "guaranteed, {heading}: {}", names.join(", "));
        }
    }
}

fn push_memory(text: &mut String, report: &Report) {
    let failed: u64 = report.kinds.iter().map(|kind: &KindReport| kind.failed).sum();
    let caches: Vec<String> = report.cache_bytes.iter().map(|&bytes| size(bytes)).collect();
    let lines = [
        format!("{} in {:.3} s, {failed} failed", counted(report.operations(), "operation"), report.wall_s),
        format!(
            "{}, {} granted by the pool, {:.1} B a record",
            counted(report.records, "record"),
            size(report.pool_bytes),
            report.pool_per_record_bytes()
        ),
        format!(
            "cache of each compute node: {}",
            if caches.is_empty() { "none".to_owned() } else { caches.join(", ") }
        ),
    ];
    let hotspot = report.hotspot.map(|found| {
        format!(
            "hotspot buffer of each compute node: {}; {:.1} % of {} looks guessed, {:.2} % of the guesses right",
            size(found.budget_bytes),
            found.hit_share() * 100.0,
            found.asked,
            found.right_share() * 100.0
        )
    });
    let tree = report.tree.as_ref().map(|tree| {
        format!(
            "checked: {}, {} {:.1} % full, {}, {}; {} live, {:.1} B a record",
            counted(tree.levels, "level"),
            counted_as(tree.leaves, "leaf", "leaves"),
            tree.fill() * 100.0,
            counted(tree.inner_nodes, "inner node"),
            counted(tree.half_splits, "half-split"),
            size(tree.live_bytes),
            tree.live_per_record_bytes(),
        )
    });
    for line in lines.into_iter().chain(hotspot).chain(tree) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
}

fn mops(ops_per_s: f64) -> String {
    format!("{:.3}", ops_per_s / 1e6)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{assert_golden, sample},
        *,
    };

    #[test]
    fn the_table_is_as_in_its_golden_file() {
        assert_golden("report.txt", &render(&sample()));
    }

    #[test]
    fn an_empty_run_has_a_report_too() {
        let report = Report {
            kinds: Vec::new(),
            guarantees: Vec::new(),
            cache_bytes: Vec::new(),
            verbs: super::super::VerbCounts::default(),
            wall_s: 0.0,
            ..sample()
        };
        let text = render(&report);
        assert!(text.contains("0 operations in 0.000 s, 0 failed"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
