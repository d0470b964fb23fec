//! The record of a run of `dm verify`: results for machines, and the state from which a stopped run continues.

use crate::failure::Failure;
use crate::report::text::{counted, counted_as};
use dm_core::marks::Mark;
use dm_sim::verify::{FaultKind, Profile, Report, Settings, WideOption, WideOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::{fmt, fs};

/// Version of this format, and of the meaning of seeds: if draws change, the same seeds make other histories.
const FORMAT: u32 = 1;

/// The commit this program was built from.
const COMMIT: &str = env!("DM_COMMIT");

/// What was run: two runs with the same scope are parts of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scope {
    index: String,
    faults: String,
    withdrawn: Vec<String>,
    compute_nodes: (u32, u32),
    lanes: (u32, u32),
    keys: (u32, u32),
    operations: (u32, u32),
    memory_nodes: (u32, u32),
    masked_cas: String,
    profile: String,
    #[serde(default = "none", skip_serializing_if = "is_none")]
    wide: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    damage: bool,
    first_seed: u64,
    end_seed: u64,
}

fn none() -> String {
    WideOptions::NONE.to_string()
}

fn is_none(wide: &str) -> bool {
    wide == none()
}

impl Scope {
    pub(super) fn new(index: String, settings: &Settings, first_seed: u64, end_seed: u64) -> Self {
        Self {
            index,
            faults: settings.faults.to_string(),
            withdrawn: settings.withdrawn.names().map(str::to_owned).collect(),
            compute_nodes: settings.compute_nodes,
            lanes: settings.lanes,
            keys: settings.keys,
            operations: settings.operations,
            memory_nodes: settings.memory_nodes,
            masked_cas: match settings.masked_cas {
                Some(true) => "yes",
                Some(false) => "no",
                None => "draw",
            }
            .to_owned(),
            profile: settings.profile.map_or("drawn", Profile::name).to_owned(),
            wide: settings.wide.to_string(),
            damage: settings.damage,
            first_seed,
            end_seed,
        }
    }
}

/// Progress of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seeds {
    pub(super) first: u64,
    /// The first that was not run.
    pub(super) next: u64,
    pub(super) end: u64,
}

/// A history with a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    seed: u64,
    kind: String,
    text: String,
}

/// Where the memory of all histories that were accounted for went, in nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    histories: u64,
    granted_nodes: u64,
    reached_nodes: u64,
    ready_nodes: u64,
    #[serde(default)]
    retired_nodes: u64,
    leaked_nodes: u64,
    /// Of these, units of 16 bytes of chunks for blocks.
    #[serde(default)]
    leaked_block_units: u64,
}

/// Histories with and without operations that lanes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Rdwc {
    on: u64,
    off: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// The run has not ended.
    Unfinished,
    /// Every history was clean.
    Clean,
    /// A history had a finding.
    Violated,
    /// All histories were clean, but not everything was tried.
    MarksMissing,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    program: String,
    /// The commit from which the program was built.
    commit: String,
    verdict: Outcome,
    scope: Scope,
    pub(super) seeds: Seeds,
    pub(super) histories: u64,
    /// Of these, such in which at least a tenth of the operations overlap with another one on their key.
    overlapping_histories: u64,
    operations: u64,
    overlapping_operations: u64,
    /// Histories with read delegation and write combining, and without.
    #[serde(default)]
    rdwc_histories: Rdwc,
    driver_steps: u64,
    too_hard_to_judge: u64,
    /// Faults that happened.
    faults: BTreeMap<String, u64>,
    /// Failures of operations that the faults excuse, by cause.
    failed_operations: BTreeMap<String, u64>,
    memory: Memory,
    /// By room; before the end of the run all under "all".
    marks: BTreeMap<String, BTreeMap<String, u64>>,
    marks_missing: Vec<String>,
    /// How often what an option asks for happened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, u64>,
    violations: BTreeMap<String, u64>,
    findings: Vec<Found>,
}

/// Marks of a run under way.
const ALL_ROOMS: &str = "all";

/// Findings that are kept.
const FINDINGS_MAX: usize = 16;

impl Record {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            format: FORMAT,
            program: "dm verify".to_owned(),
            commit: COMMIT.to_owned(),
            verdict: Outcome::Unfinished,
            seeds: Seeds { first: scope.first_seed, next: scope.first_seed, end: scope.end_seed },
            scope,
            histories: 0,
            overlapping_histories: 0,
            operations: 0,
            overlapping_operations: 0,
            rdwc_histories: Rdwc::default(),
            driver_steps: 0,
            too_hard_to_judge: 0,
            faults: BTreeMap::new(),
            failed_operations: BTreeMap::new(),
            memory: Memory::default(),
            marks: BTreeMap::new(),
            marks_missing: Vec::new(),
            options: BTreeMap::new(),
            violations: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// Reads the record of a run of this scope. A longer run than the recorded one goes on from it, too.
    pub(super) fn read(path: &Path, scope: &Scope) -> Result<Self, Failure> {
        let refuse = |what: String| Failure::Usage(format!("--resume {}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| refuse("not a record".to_owned()))?;
        let (program, format) = (value["program"].as_str(), value["format"].as_u64());
        if program != Some("dm verify") {
            return Err(refuse("not a record of dm verify".to_owned()));
        }
        if format != Some(u64::from(FORMAT)) {
            let format = format.map_or("no format".to_owned(), |format| format!("format {format}"));
            return Err(refuse(format!("a record of {format}; this program goes on from format {FORMAT}")));
        }
        let mut record: Self =
            serde_json::from_value(value).map_err(|error| refuse(format!("not a whole record: {error}")))?;
        if record.commit != COMMIT {
            return Err(refuse(format!("a record of commit {}; this program is {COMMIT}", record.commit)));
        }
        let wanted = Scope { end_seed: record.scope.end_seed, ..scope.clone() };
        if record.scope != wanted || record.seeds.next > scope.end_seed {
            return Err(refuse("the record of a run with other settings or seeds".to_owned()));
        }
        // Open again: by room only at the end.
        let marks = std::mem::take(&mut record.marks).into_values().flatten();
        record.marks.insert(ALL_ROOMS.to_owned(), marks.collect());
        record.marks_missing.clear();
        record.verdict = Outcome::Unfinished;
        record.scope.end_seed = scope.end_seed;
        record.seeds.end = scope.end_seed;
        Ok(record)
    }

    /// Adds the results of all seeds before `next` that are not yet in the record.
    pub(super) fn add(&mut self, report: &Report, next: u64) {
        self.seeds.next = next;
        self.histories += report.histories;
        self.overlapping_histories += report.overlapping_histories;
        self.operations += report.operations;
        self.overlapping_operations += report.overlapping;
        let [on, off] = report.rdwc;
        self.rdwc_histories.on += on;
        self.rdwc_histories.off += off;
        self.driver_steps += report.steps;
        self.too_hard_to_judge += report.too_hard.0;
        for kind in FaultKind::ALL {
            *self.faults.entry(kind.name().to_owned()).or_default() += report.faults[kind as usize];
        }
        for (cause, count) in &report.failed {
            *self.failed_operations.entry(cause.clone()).or_default() += count;
        }
        self.memory.histories += report.accounts;
        self.memory.granted_nodes += report.memory.granted;
        self.memory.reached_nodes += report.memory.reached;
        self.memory.ready_nodes += report.memory.ready;
        self.memory.retired_nodes += report.memory.retired;
        self.memory.leaked_nodes += report.memory.leaked;
        self.memory.leaked_block_units += report.memory.leaked_pieces;
        let marks = self.marks.entry(ALL_ROOMS.to_owned()).or_default();
        for mark in dm_core::rooms::MARKS {
            *marks.entry(mark.name().to_owned()).or_default() += report.marks[mark.number()];
        }
        for option in WideOption::ALL.iter().filter(|option| report.met[**option as usize] > 0) {
            *self.options.entry(option.name().to_owned()).or_default() += report.met[*option as usize];
        }
        for (kind, count) in &report.kinds {
            *self.violations.entry((*kind).to_owned()).or_default() += count;
        }
        for (seed, finding) in &report.findings {
            if self.findings.len() < FINDINGS_MAX {
                let (kind, text) = (finding.kind().to_owned(), finding.to_string());
                self.findings.push(Found { seed: *seed, kind, text });
            }
        }
    }

    /// Decides the result, and sorts the marks by the rooms that count them.
    pub(super) fn close(&mut self, rooms: &[(&str, &[Mark])], marks: &[Mark], wide: WideOptions, marks_from: u64) {
        let counts = self.marks.remove(ALL_ROOMS).unwrap_or_default();
        let count = |mark: &Mark| counts.get(mark.name()).copied().unwrap_or(0);
        for (room, marks) in rooms {
            let counts = marks.iter().map(|mark| (mark.name().to_owned(), count(mark))).collect();
            self.marks.insert((*room).to_owned(), counts);
        }
        if self.histories >= marks_from {
            self.marks_missing =
                marks.iter().filter(|mark| count(mark) == 0).map(|mark| mark.name().to_owned()).collect();
            let missing = wide.options().filter(|option| !self.options.contains_key(option.name()));
            self.marks_missing.extend(missing.map(|option| option.name().to_owned()));
        }
        self.verdict = if !self.violations.is_empty() {
            Outcome::Violated
        } else if !self.marks_missing.is_empty() {
            Outcome::MarksMissing
        } else {
            Outcome::Clean
        };
    }

    /// Replaces the file in one step, so that a run that is stopped leaves a whole record.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: &dyn fmt::Display| Failure::Run(format!("--json {}: {error}", path.display()));
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|error| failed(&error))?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(|error| failed(&error))?;
        file.persist(path).map_err(|error| failed(&error.error))?;
        Ok(())
    }

    pub(super) fn first_finding(&self) -> Option<(u64, &str)> {
        self.findings.first().map(|found| (found.seed, found.text.as_str()))
    }

    pub(super) fn violations(&self) -> u64 {
        self.violations.values().sum()
    }

    pub(super) fn missing_marks(&self) -> &[String] {
        &self.marks_missing
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<String, u64>| {
            let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            parts.join(", ")
        };
        writeln!(
            f,
            "{} ({} with at least 10 % overlap), {} ({} overlap on a key)",
            counted_as(self.histories, "history", "histories"),
            self.overlapping_histories,
            counted(self.operations, "operation"),
            self.overlapping_operations,
        )?;
        let Rdwc { on, off } = self.rdwc_histories;
        writeln!(f, "histories with read delegation and write combining on: {on}, off: {off}")?;
        if self.too_hard_to_judge > 0 {
            writeln!(f, "histories too hard to judge: {}", self.too_hard_to_judge)?;
        }
        let mut faults = self.faults.clone();
        faults.retain(|_, count| *count > 0);
        writeln!(f, "faults: {}", if faults.is_empty() { "none".to_owned() } else { list(&faults) })?;
        // A fault that was asked for and never happened was not tested.
        let never = self.scope.faults.split(',').filter(|name| self.faults.get(*name) == Some(&0));
        for name in never {
            writeln!(f, "{name}: never happened, this index gives no occasion")?;
        }
        if !self.failed_operations.is_empty() {
            writeln!(f, "operations that failed, as they may: {}", list(&self.failed_operations))?;
        }
        let Memory {
            histories,
            granted_nodes,
            reached_nodes,
            ready_nodes,
            retired_nodes,
            leaked_nodes,
            leaked_block_units,
        } = &self.memory;
        writeln!(
            f,
            "memory of {}: {granted_nodes} nodes granted = {reached_nodes} reached + {ready_nodes} ready + {retired_nodes} \
             retired + {leaked_nodes} leaked ({leaked_block_units} of these units of blocks)",
            counted_as(*histories, "history", "histories")
        )?;
        for (room, marks) in &self.marks {
            writeln!(f, "marks of {room}: {}", list(marks))?;
        }
        if !self.options.is_empty() {
            writeln!(f, "options: {}", list(&self.options))?;
        }
        for (kind, count) in &self.violations {
            writeln!(f, "{}: {kind}", counted_as(*count, "history", "histories"))?;
        }
        Ok(())
    }
}
