//! Tries every point at which an operation can be cut short.

use super::cases::Case;
use super::serial_fabric::{CrashPoint, SeenRequest, crash_points};
use super::stage::{Mode, Ran, run};
use crate::verify::accounting::Account;
use dm_core::marks::MARKS_MAX;
use dm_core::verbs::{Label, Verb};
use std::fmt;

/// Results of many crash points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// Cases.
    pub cases: u64,
    /// Crash points that exist.
    pub points: u64,
    /// Runs: each crash point that was tried, with each [`Mode`], and the runs in which the first survivor died, too.
    pub runs: u64,
    /// Of these, runs in which the first survivor died.
    pub repairers_died: u64,
    /// Coverage marks of victims and survivors.
    pub marks: Vec<u64>,
    /// Where the memory of all runs was at the end, in nodes.
    pub memory: Account,
    /// Runs with findings.
    pub failed: u64,
    /// The first findings.
    pub findings: Vec<String>,
}

/// Findings that are kept.
const FINDINGS_MAX: usize = 12;

impl Enumeration {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }

    fn add(&mut self, ran: &Ran, what: impl FnOnce() -> String) {
        self.runs += 1;
        self.marks.resize(MARKS_MAX, 0);
        for (sum, count) in self.marks.iter_mut().zip(&ran.marks) {
            *sum += count;
        }
        self.memory.add(&ran.memory);
        if !ran.findings.is_empty() {
            self.failed += 1;
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(format!("{}\n    {}", what(), ran.findings.join("\n    ")));
            }
        }
    }

    /// Adds the results of another enumeration.
    pub fn merge(&mut self, other: Self) {
        self.cases += other.cases;
        self.points += other.points;
        self.runs += other.runs;
        self.repairers_died += other.repairers_died;
        self.marks.resize(MARKS_MAX, 0);
        for (sum, count) in self.marks.iter_mut().zip(&other.marks) {
            *sum += count;
        }
        self.memory.add(&other.memory);
        self.failed += other.failed;
        self.findings.extend(other.findings);
        self.findings.truncate(FINDINGS_MAX);
    }
}

impl fmt::Display for Enumeration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, points, runs, repairers_died, memory, failed, .. } = self;
        writeln!(
            f,
            "{cases} cases, {points} crash points, {runs} runs, in {repairers_died} of them a repairer died too; {failed} failed"
        )?;
        writeln!(f, "in the end, of all runs: {memory}")?;
        let counts =
            dm_core::rooms::MARKS.iter().map(|mark| (mark.name(), self.marks.get(mark.number()).unwrap_or(&0)));
        let marks: Vec<String> =
            counts.filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "marks: {}", marks.join(", "))?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))
    }
}

/// Tries the crash points of `case`: at most `points_max`, evenly thinned, with every [`Mode`]. Also tries at most
/// `repairs_max` combinations of such a point and a death of the first survivor during its recovery.
pub fn enumerate(case: &Case, points_max: usize, repairs_max: usize) -> Enumeration {
    let mut sum = Enumeration { cases: 1, ..Enumeration::default() };
    let dry = run(case, None, Mode::Read, None);
    sum.add(&dry, || format!("{}: nobody dies", case.name));
    let all = crash_points(&dry.victim, case.setup.ascending);
    sum.points = all.len() as u64;
    let tried = thin(&all, points_max);
    let mut worth = Vec::new();
    for crash_point in &tried {
        for mode in Mode::ALL {
            let ran = run(case, Some(crash_point), mode, None);
            sum.add(&ran, || describe(case, &dry, crash_point, mode));
            if matches!(mode, Mode::Write | Mode::Sweep) && ran.recovered {
                worth.push((*crash_point, mode, ran.survivor));
            }
        }
    }
    // Those that left something torn come first.
    worth.sort_by_key(|(crash_point, _, _): &(&CrashPoint, _, _)| {
        crash_point.chains.iter().all(|chain| chain.part.is_none())
    });
    let recovers = |seen: &SeenRequest| {
        matches!(seen.label, Label::Takeover | Label::Redo | Label::Replay) || seen.verb == Verb::Rpc
    };
    let chosen = thin(&worth, repairs_max);
    let each = repairs_max.checked_div(chosen.len()).unwrap_or(0).max(1);
    for (number, (crash_point, mode, survivor)) in chosen.into_iter().enumerate() {
        // Before the lease is over there are only READs and lost CASes. The recovery itself matters.
        let repairs: Vec<CrashPoint> = crash_points(survivor, case.setup.ascending)
            .into_iter()
            .filter(|crash_point| survivor[crash_point.submit].iter().any(recovers))
            .collect();
        for step in 0..each.min(repairs.len()) {
            // Each chosen point gets other repairs.
            let repair = &repairs[(number * 7 + step * repairs.len() / each) % repairs.len()];
            let ran = run(case, Some(crash_point), *mode, Some(repair));
            sum.repairers_died += 1;
            sum.add(&ran, || format!("{}; and then {repair:?}", describe(case, &dry, crash_point, *mode)));
        }
    }
    sum
}

fn describe(case: &Case, dry: &Ran, crash_point: &CrashPoint, mode: Mode) -> String {
    let submit: Vec<String> = dry.victim[crash_point.submit]
        .iter()
        .map(|seen| format!("m{} {} {}", seen.node, seen.verb.name(), seen.label.name()))
        .collect();
    format!("{}: dies in [{}], {crash_point:?}, survivors {mode:?}", case.name, submit.join(", "))
}

/// At most `max` of them, evenly spread.
fn thin<T>(all: &[T], max: usize) -> Vec<&T> {
    if all.len() <= max {
        return all.iter().collect();
    }
    (0..max).map(|number| &all[number * all.len() / max]).collect()
}
