//! Results of histories.

use super::accounting::Account;
use super::faults::{FaultKind, InjectedFaults};
use super::tolerance::Failed;
use super::wide::{WIDE_OPTIONS, WideOption};
use crate::check::{self, SearchLimit, Violation};
use dm_core::marks::MARKS_MAX;
use std::collections::BTreeMap;
use std::fmt;

/// Something wrong with a history. Displayed, it ends in a sentence that says what was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Answers that have no explanation.
    Violation(Box<Violation>),
    /// The run did not come to an end.
    Stuck(String),
    /// An operation failed, and nothing was broken.
    Failed {
        /// The operation in words, if it was one.
        line: Option<String>,
        /// How.
        failed: Failed,
    },
    /// The structure is broken, or cannot be walked.
    Structure(String),
    /// The structure holds another number of records than a reader finds.
    Records {
        /// What `validate` counted.
        counted: u64,
        /// Keys that were found.
        found: u64,
    },
    /// Locks are held, and no lane is there to release them.
    LocksHeld {
        /// Entries of local tables.
        local: usize,
        /// Words of memory nodes.
        remote: usize,
    },
    /// A lane has a lock record though its operation ended or was settled.
    InDoubt(String),
    /// Memory that is claimed twice, that was not granted, or that was lost without need.
    Memory(String),
    /// A request that correct code never makes.
    Misuse(String),
    /// The index could not be opened or filled.
    Setup(String),
    /// A panic, in a history in which bytes of memory nodes change.
    Panic(String),
    /// An operation went on far beyond its deadline, in such a history.
    Late(String),
    /// The checker could not judge it.
    TooHard(SearchLimit),
}

impl Finding {
    /// Its kind, in a word or two.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Violation(_) => "violation",
            Self::Stuck(_) => "stuck",
            Self::Failed { .. } => "failed",
            Self::Structure(_) => "structure",
            Self::Records { .. } => "records",
            Self::LocksHeld { .. } => "locks held",
            Self::InDoubt(_) => "in doubt",
            Self::Memory(_) => "memory",
            Self::Misuse(_) => "misuse",
            Self::Setup(_) => "setup",
            Self::Panic(_) => "panic",
            Self::Late(_) => "late",
            Self::TooHard(_) => "too hard",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => write!(f, "{violation}"),
            Self::Stuck(dump) => write!(f, "The run does not end: {dump}"),
            Self::Failed { line: Some(line), failed } => write!(f, "{line}\nIt failed: {}.", failed.error),
            Self::Failed { line: None, failed } => {
                write!(f, "A settling, an epoch turn, a collection or a sweep failed: {}.", failed.error)
            }
            Self::Structure(what) => write!(f, "The structure does not validate: {what}."),
            Self::Records { counted, found } => {
                write!(f, "The structure holds {counted} records, and a reader finds {found}.")
            }
            Self::LocksHeld { local, remote } => {
                write!(f, "All is quiet, and {local} local entries and {remote} remote words are held.")
            }
            Self::InDoubt(who) => write!(f, "All is quiet, and {who}."),
            Self::Memory(what) => write!(f, "The memory does not add up: {what}."),
            Self::Misuse(what) => write!(f, "A request that correct code never makes: {what}."),
            Self::Setup(what) => write!(f, "The index could not be set up: {what}."),
            Self::Panic(what) => write!(f, "It panicked: {what}."),
            Self::Late(line) => write!(f, "{line}\nIt went on beyond its deadline."),
            Self::TooHard(why) => write!(f, "The history could not be judged: {why:?}."),
        }
    }
}

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct History {
    /// What the lanes did, and the reads after them.
    pub record: check::History,
    /// What is wrong. The violation of the promises comes first, if there is one.
    pub findings: Vec<Finding>,
    /// Why the checker could not judge it.
    pub too_hard: Option<SearchLimit>,
    /// Tolerable failures, by cause.
    pub failed: Vec<String>,
    /// Operations that overlap with another one on their key.
    pub overlapping: u64,
    /// Operations of the load.
    pub operations: u64,
    /// The faults that happened.
    pub injected: InjectedFaults,
    /// Where the memory went, if that was looked at.
    pub memory: Option<Account>,
    /// Whether operations on one key were shared between lanes; `None`: the index does not say.
    pub rdwc: Option<bool>,
    /// Steps of the driver.
    pub steps: u64,
    /// Coverage marks, by number.
    pub marks: Vec<u64>,
    /// How often what an option asks for happened, by [`WideOption`].
    pub met: [u64; WIDE_OPTIONS],
}

/// Sums over histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Histories.
    pub histories: u64,
    /// Of these, such in which at least a tenth of the operations overlap with another one on their key: the others
    /// prove little.
    pub overlapping_histories: u64,
    /// Operations.
    pub operations: u64,
    /// Of these, such that overlap with another one on their key.
    pub overlapping: u64,
    /// Faults that happened, by [`FaultKind`].
    pub faults: Vec<u64>,
    /// Histories whose memory was accounted for.
    pub accounts: u64,
    /// Where the memory of these went.
    pub memory: Account,
    /// Histories in which operations on one key were shared between lanes, and in which they were not.
    pub rdwc: [u64; 2],
    /// Steps of all drivers.
    pub steps: u64,
    /// Histories that the checker could not judge, with the last reason.
    pub too_hard: (u64, Option<SearchLimit>),
    /// Operations that failed in a tolerable way, by cause.
    pub failed: BTreeMap<String, u64>,
    /// Coverage marks, by number.
    pub marks: Vec<u64>,
    /// How often what an option asks for happened, by [`WideOption`].
    pub met: [u64; WIDE_OPTIONS],
    /// Histories with findings, by kind of the first.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The first findings, with their seeds.
    pub findings: Vec<(u64, Finding)>,
}

/// Findings a report keeps.
pub const FINDINGS_MAX: usize = 16;

impl Default for Report {
    fn default() -> Self {
        Self {
            histories: 0,
            overlapping_histories: 0,
            operations: 0,
            overlapping: 0,
            faults: vec![0; FaultKind::ALL.len()],
            accounts: 0,
            memory: Account::default(),
            rdwc: [0; 2],
            steps: 0,
            too_hard: (0, None),
            failed: BTreeMap::new(),
            marks: vec![0; MARKS_MAX],
            met: [0; WIDE_OPTIONS],
            kinds: BTreeMap::new(),
            findings: Vec::new(),
        }
    }
}

impl Report {
    /// Whether nothing was wrong, and every history could be judged.
    pub fn is_clean(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Adds the history of `seed`.
    pub fn add(&mut self, seed: u64, history: History) {
        self.histories += 1;
        self.overlapping_histories += u64::from(history.overlapping * 10 >= history.operations);
        self.operations += history.operations;
        self.overlapping += history.overlapping;
        for (faults, more) in self.faults.iter_mut().zip(history.injected.counts) {
            *faults += more;
        }
        if let Some(account) = &history.memory {
            self.accounts += 1;
            self.memory.add(account);
        }
        if let Some(shared) = history.rdwc {
            self.rdwc[usize::from(!shared)] += 1;
        }
        self.steps += history.steps;
        if let Some(why) = history.too_hard {
            self.too_hard = (self.too_hard.0 + 1, Some(why));
        }
        for cause in history.failed {
            *self.failed.entry(cause).or_default() += 1;
        }
        for (sum, count) in self.marks.iter_mut().zip(history.marks) {
            *sum += count;
        }
        for (sum, count) in self.met.iter_mut().zip(history.met) {
            *sum += count;
        }
        if let Some(first) = history.findings.into_iter().next() {
            *self.kinds.entry(first.kind()).or_default() += 1;
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push((seed, first));
            }
        }
    }

    /// Adds what another run found.
    pub fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.overlapping_histories += other.overlapping_histories;
        self.operations += other.operations;
        self.overlapping += other.overlapping;
        for (faults, more) in self.faults.iter_mut().zip(other.faults) {
            *faults += more;
        }
        self.accounts += other.accounts;
        self.memory.add(&other.memory);
        for (sum, more) in self.rdwc.iter_mut().zip(other.rdwc) {
            *sum += more;
        }
        self.steps += other.steps;
        self.too_hard = (self.too_hard.0 + other.too_hard.0, other.too_hard.1.or(self.too_hard.1));
        for (cause, count) in other.failed {
            *self.failed.entry(cause).or_default() += count;
        }
        for (mark, more) in self.marks.iter_mut().zip(other.marks) {
            *mark += more;
        }
        for (sum, more) in self.met.iter_mut().zip(other.met) {
            *sum += more;
        }
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|(seed, _)| *seed);
        self.findings.truncate(FINDINGS_MAX);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} histories ({} with at least 10 % overlap), {} operations ({} overlap on a key)",
            self.histories, self.overlapping_histories, self.operations, self.overlapping,
        )?;
        let faults: Vec<String> = FaultKind::ALL
            .iter()
            .filter(|kind| self.faults[**kind as usize] > 0)
            .map(|kind| format!("{} {}", kind.name(), self.faults[*kind as usize]))
            .collect();
        if !faults.is_empty() {
            writeln!(f, "faults: {}", faults.join(", "))?;
        }
        let [on, off] = self.rdwc;
        if on + off > 0 {
            writeln!(f, "RDWC on in {on} histories, off in {off}")?;
        }
        writeln!(f, "memory, of {} histories: {}", self.accounts, self.memory)?;
        if let (count @ 1.., Some(why)) = self.too_hard {
            writeln!(f, "{count} too hard to judge, the last by {why:?}")?;
        }
        for (cause, count) in &self.failed {
            writeln!(f, "{count} operations failed: {cause}")?;
        }
        let marks: Vec<String> =
            dm_core::rooms::MARKS.iter().map(|mark| format!("{} {}", mark.name(), self.marks[mark.number()])).collect();
        writeln!(f, "marks: {}", marks.join(", "))?;
        let met = WideOption::ALL.iter().filter(|option| self.met[**option as usize] > 0);
        let met: Vec<String> = met.map(|option| format!("{} {}", option.name(), self.met[*option as usize])).collect();
        if !met.is_empty() {
            writeln!(f, "options: {}", met.join(", "))?;
        }
        for (kind, count) in &self.kinds {
            writeln!(f, "{count} histories: {kind}")?;
        }
        for (seed, finding) in &self.findings {
            writeln!(f, "\nseed {seed}:\n{finding}")?;
        }
        Ok(())
    }
}
