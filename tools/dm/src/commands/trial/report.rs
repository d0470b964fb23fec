//! The report of a trial: Markdown for people, JSON for machines, and charts.

use super::bench::{BESIDE, LOCKS_IN_DEVICE, LOCKS_IN_HOST};
use super::document::{Bench, Device, Document, Judged, Measure, Outcome, Step};
use crate::failure::Failure;
use crate::figures;
use crate::picture::axis::number;
use crate::picture::pairs::{Pair, Pairs};
use crate::report::json::Document as Run;
use dm_core::registry::KINDS;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Letters of what a failed task said that are kept: the end of it.
const SAID_MAX: usize = 4000;

/// Workloads in the order in which they are run.
const WORKLOADS: [&str; 7] = ["load", "a", "b", "c", "d", "e", "f"];

impl Document {
    /// The engine's number, and perftest's.
    pub(super) fn beside(&self) -> Vec<(&'static str, &'static str, f64, Option<f64>)> {
        let row = |beside: &'static super::bench::Beside| {
            let run = self.bench(&format!("engine {}", beside.name))?.runs.first()?;
            let theirs: Option<f64> = beside.of.iter().map(|name| self.perftest(name)).sum();
            Some((beside.name, beside.unit(), beside.value(run)?, theirs))
        };
        BESIDE.iter().filter_map(row).collect()
    }

    /// Where it was tried.
    pub(super) fn place(&self) -> String {
        match (&self.peer, &self.device) {
            (None, _) => "shared memory of one machine: no network, no NIC".to_owned(),
            (Some(peer), None) => format!("{peer}, over a device that is not known: nothing reached it"),
            (Some(peer), Some(device)) => {
                let Device { name, driver, rate } = device;
                let software =
                    if device.is_software() { "; a device in software, which says nothing about a NIC" } else { "" };
                format!("{peer}, over {name} ({driver}, {rate}{software})")
            }
        }
    }

    /// Writes the files.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Failure> {
        let charts = self.charts();
        let json = serde_json::to_string_pretty(self).map_err(Failure::run)? + "\n";
        let markdown = self.markdown(&charts);
        let charts = charts.into_iter().map(|(name, svg)| (format!("{name}.svg"), svg));
        let files = [("trial.json".to_owned(), json), ("trial.md".to_owned(), markdown)];
        for (name, text) in files.into_iter().chain(charts) {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// The end of what the command prints.
    pub(super) fn summary(&self, directory: &Path) -> String {
        let of = |outcome| self.steps.iter().filter(|step| step.outcome == outcome).count();
        format!(
            "{} ok, {} failed, {} not tried, in {:.0} s; the report is {}\n",
            of(Outcome::Ok),
            of(Outcome::Failed),
            of(Outcome::NotTried),
            self.took_s,
            directory.join("trial.md").display()
        )
    }

    fn markdown(&self, charts: &[(&'static str, String)]) -> String {
        let mut text = format!(
            "# Trial of dm {}\n\n- Peer: {}\n- This host: {}\n- Took {:.0} s of {:.0} s\n\n",
            self.dm_version,
            self.place(),
            self.machine,
            self.took_s,
            self.limit_s
        );
        self.put_statements(&mut text);
        self.put_steps(&mut text);
        self.put_perftest(&mut text);
        self.put_device_memory(&mut text);
        self.put_benches(&mut text);
        if !charts.is_empty() {
            text.push_str("## Charts\n\n");
            for (name, _) in charts {
                // Writing to a string does not fail, here and below.
                let _ = writeln!(text, "![{name}]({name}.svg)\n");
            }
        }
        text.push_str("## Commands, and what they said\n\n");
        for step in self.steps.iter().filter(|step| !step.commands.is_empty()) {
            let _ = writeln!(text, "### {}: {}\n\n```text", step.name, step.outcome);
            for command in &step.commands {
                let _ = writeln!(text, "$ {command}");
            }
            let start = step.said.len().saturating_sub(SAID_MAX);
            let start = (start..=step.said.len()).find(|&at| step.said.is_char_boundary(at)).unwrap_or(0);
            let _ = writeln!(text, "{}\n```\n", step.said[start..].trim_end());
        }
        text
    }

    fn put_statements(&self, text: &mut String) {
        text.push_str(
            "## What the documentation calls untried\n\n| statement | where | settled | found |\n|---|---|---|---|\n",
        );
        for judged in &self.statements {
            let Judged { statement, file, settled, found } = judged;
            let statement = statement.replace('|', "\\|");
            let settled = if *settled { "yes" } else { "no" };
            let _ = writeln!(text, "| {statement} | {file} | {settled} | {} |", cell(found));
        }
        text.push('\n');
    }

    fn put_steps(&self, text: &mut String) {
        text.push_str("## What was tried\n\n| task | outcome | seconds | why |\n|---|---|---|---|\n");
        for Step { name, outcome, seconds, why, .. } in &self.steps {
            let why = why.as_deref().map_or_else(String::new, cell);
            let _ = writeln!(text, "| {name} | {outcome} | {seconds:.1} | {why} |");
        }
        text.push('\n');
    }

    fn put_perftest(&self, text: &mut String) {
        let rows = self.beside();
        if self.perftest.is_empty() && rows.is_empty() {
            return;
        }
        text.push_str("## Perftest beside the engine\n\n| perftest | typical |\n|---|---|\n");
        for Measure { name, value, unit } in &self.perftest {
            let _ = writeln!(text, "| {name} | {} {unit} |", number(*value));
        }
        text.push_str("\n| engine, one thread | median, or rate | the verbs it consists of, by perftest | ratio |\n|---|---|---|---|\n");
        for (name, unit, ours, theirs) in rows {
            let compared = theirs.map_or_else(
                || "not measured | -".to_owned(),
                |theirs| format!("{} {unit} | {:.2}", number(theirs), ours / theirs),
            );
            let _ = writeln!(text, "| {name} | {} {unit} | {compared} |", number(ours));
        }
        text.push('\n');
    }

    fn put_device_memory(&self, text: &mut String) {
        let (Some(device), Some(host)) = (self.rate(LOCKS_IN_DEVICE), self.rate(LOCKS_IN_HOST)) else { return };
        let _ = writeln!(
            text,
            "## Device memory\n\nWorkload a on Sherman: {} k/s with locks in the peer's device memory, {} k/s with locks in host \
             memory.\n",
            number(device / 1e3),
            number(host / 1e3)
        );
    }

    fn put_benches(&self, text: &mut String) {
        text.push_str(
            "## All measurements\n\n| task | workload | records | lanes | k operations/s | operation | p50, us | p99, us | round trips |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for Bench { of, file } in &self.benches {
            for run in &file.runs {
                let Run { workload, records, threads, lanes, .. } = run;
                let rate = number(run.throughput_ops_per_s / 1e3);
                for kind in &run.operations {
                    let us = |ns: u64| number(ns as f64 / 1e3);
                    let _ = writeln!(
                        text,
                        "| {of} | {workload} | {records} | {} | {rate} | {} | {} | {} | {:.2} |",
                        threads * lanes,
                        kind.kind,
                        us(kind.latency_p50_ns),
                        us(kind.latency_p99_ns),
                        kind.per_operation.round_trips
                    );
                }
            }
        }
        text.push('\n');
    }

    /// The charts of which there is something to draw.
    fn charts(&self) -> Vec<(&'static str, String)> {
        let [throughput, perftest] = [self.throughput(), self.latencies()];
        let [techniques, comparisons] = [self.techniques(), self.comparisons()];
        let place = self.place();
        let charts = [
            (
                "throughput",
                "Throughput of every index",
                "thousand operations a second (logarithmic)",
                ["model", "here"],
                throughput,
                "YCSB's workloads. The model is one compute node and one memory node of the simulator, with as many lanes.",
            ),
            (
                "perftest",
                "Latency of one lane beside perftest",
                "us (logarithmic)",
                ["perftest", "dm"],
                perftest,
                "Medians of the engine; of perftest the typical time of the verbs that the operation consists of, one after another.",
            ),
            (
                "techniques",
                "Sherman, Figure 5 (b): throughput over that without any technique",
                "times (logarithmic)",
                ["paper", "here"],
                techniques,
                "Half look-ups, half writes, skewed. The paper has eight machines that write, here is one.",
            ),
            (
                "indexes",
                "Throughput over that of another index",
                "times (logarithmic)",
                ["paper", "here"],
                comparisons,
                "The papers have many compute nodes, which a memory node's NIC limits; here is one.",
            ),
        ];
        let draw =
            |(name, title, axis, columns, groups, about): (&'static str, _, _, _, Vec<(String, Vec<Pair>)>, &str)| {
                let caption = format!("{about} Here: {place}.");
                let chart = Pairs { title, axis, logarithmic: true, columns, groups: &groups, caption: &caption };
                (name, chart.draw())
            };
        charts.into_iter().filter(|(.., groups, _)| !groups.is_empty()).map(draw).collect()
    }

    fn throughput(&self) -> Vec<(String, Vec<Pair>)> {
        let pair = |kind: &str, workload: &str| {
            let here = self.run(&format!("workloads {kind}"), workload)?;
            let model = self.run(&format!("simulated {kind}"), workload);
            let first = model.map(|run| run.throughput_ops_per_s / 1e3);
            Some(Pair { label: kind.to_owned(), first, second: here.throughput_ops_per_s / 1e3 })
        };
        let group = |workload: &str| {
            let rows: Vec<_> = KINDS.iter().filter_map(|kind| pair(kind.name(), workload)).collect();
            (!rows.is_empty()).then(|| (format!("workload {workload}"), rows))
        };
        WORKLOADS.into_iter().filter_map(group).collect()
    }

    fn latencies(&self) -> Vec<(String, Vec<Pair>)> {
        let rows = self.beside().into_iter().filter(|(_, unit, ..)| *unit == "us");
        let rows = rows.map(|(name, _, second, first)| Pair { label: name.to_owned(), first, second });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() { Vec::new() } else { vec![(String::new(), rows)] }
    }

    fn techniques(&self) -> Vec<(String, Vec<Pair>)> {
        let techniques = figures::techniques();
        let Some((first, others)) = techniques.split_first() else { return Vec::new() };
        let Some(base) = self.rate(first.title) else { return Vec::new() };
        let pair = |technique: &figures::Technique| {
            let label = technique.title.rsplit(", ").next().unwrap_or_default();
            let label = label.split(" (").next().unwrap_or_default().to_owned();
            let second = self.rate(technique.title)? / base;
            Some(Pair { label, first: Some(technique.paper / first.paper), second })
        };
        let rows: Vec<_> = others.iter().filter_map(pair).collect();
        if rows.is_empty() { Vec::new() } else { vec![("each with those above it".to_owned(), rows)] }
    }

    fn comparisons(&self) -> Vec<(String, Vec<Pair>)> {
        let mut groups: Vec<(String, Vec<Pair>)> = Vec::new();
        for comparison in figures::comparisons() {
            let rate = |kind: &str| {
                self.run(&format!("workloads {kind}"), comparison.workload).map(|run| run.throughput_ops_per_s)
            };
            let (index, rival) = (comparison.index.name(), comparison.rival.name());
            let Some((ours, theirs)) = rate(index).zip(rate(rival)) else { continue };
            let heading = format!("{index} over {rival}");
            let pair = Pair {
                label: comparison.workload.to_owned(),
                first: Some(comparison.paper),
                second: ours / theirs.max(1e-9),
            };
            match groups.iter_mut().find(|(known, _)| *known == heading) {
                Some((_, rows)) => rows.push(pair),
                None => groups.push((heading, vec![pair])),
            }
        }
        groups
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
