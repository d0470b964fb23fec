//! The results of a benchmark, and its circumstances: gathered per thread, merged, shown to people and machines.
//!
//! | file | what it is |
//! |---|---|
//! | this one | [`Report`] and its parts: plain data with `merge` |
//! | [`machine`] | the machine the numbers come from |
//! | [`simulation`] | what only a run in virtual time has |
//! | [`table`] | the report for people |
//! | [`json`] | the report for machines: stable names, a schema version |
//!
//! A thread keeps one [`KindReport`] per kind of operation and one [`VerbCounts`]; after the run they are merged into a
//! [`Report`]. A number without its circumstances misleads. So a report says what kind of number it is
//! ([`Report::measured_on`]), on which machine, and what the fabric guaranteed and on what basis.

pub mod json;
pub mod machine;
pub mod repaired;
pub mod simulation;
pub mod table;
pub mod text;

use crate::workload::OperationKind;
use dm_core::marks::Mark;
use dm_core::operation::Census;
use hdrhistogram::Histogram;
use machine::Machine;
use serde::{Deserialize, Serialize};
use simulation::Simulation;
use std::collections::BTreeMap;

/// The longest latency that is told from longer ones: 100 s, in nanoseconds.
pub const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Significant decimal digits of a latency.
pub const LATENCY_DIGITS: u8 = 3;

/// What kind of number the shm fabric gives.
pub const MEASURED_ON_SHM: &str = "shm: one machine, memory nodes are processes; not a network";

/// What kind of number the simulated fabric gives.
pub const MEASURED_ON_SIM: &str = "sim: virtual time of modelled NICs; not a measurement";

/// What kind of number the verbs fabric gives. Whether the device is real hardware is said by the fabric's name.
pub const MEASURED_ON_VERBS: &str = "verbs: queue pairs of the named RDMA device";

/// What one operation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCost {
    /// Round trips it waited for.
    pub round_trips: u64,
    /// Verb requests it issued.
    pub requests: u64,
    /// Bytes it read from memory nodes.
    pub read_bytes: u64,
    /// Bytes it wrote to memory nodes.
    pub written_bytes: u64,
    /// Times it began a step again.
    pub retries: u64,
}

impl OperationCost {
    /// Adds what another part of the same operation cost.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.round_trips += other.round_trips;
        self.requests += other.requests;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.retries += other.retries;
    }
}

/// All operations of one kind.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// The kind.
    pub kind: OperationKind,
    /// Operations that succeeded (finding nothing is a success).
    pub count: u64,
    /// Operations that ended in an error; they are in none of the other figures.
    pub failed: u64,
    /// The sum of the costs.
    pub cost: OperationCost,
    latency_ns: Histogram<u64>,
}

impl KindReport {
    /// No operations yet. Takes about 230 KB for latencies of 1 ns to [`LATENCY_NS_MAX`].
    pub fn new(kind: OperationKind) -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
            // The bounds are constants: low at least 1, high at least twice low, at most 5 digits.
            .expect("hdrhistogram permits these bounds");
        Self { kind, count: 0, failed: 0, cost: OperationCost::default(), latency_ns }
    }

    /// Adds an operation that succeeded after `latency_ns` nanoseconds.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, cost: &OperationCost) {
        self.count += 1;
        self.cost.add(cost);
        self.latency_ns.saturating_record(latency_ns.min(LATENCY_NS_MAX));
    }

    /// Adds an operation that ended in an error.
    #[inline]
    pub fn record_failed(&mut self) {
        self.failed += 1;
    }

    /// Adds what another thread has gathered. The kinds should be the same; the result keeps this one's.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.kind, other.kind);
        self.count += other.count;
        self.failed += other.failed;
        self.cost.add(&other.cost);
        // The field is private and `new` is its only source, so both histograms have the same bounds.
        self.latency_ns.add(&other.latency_ns).expect("histograms of the same bounds add up");
    }

    /// The latency in nanoseconds below or at which the share `quantile` (0..=1) of the operations lies, to three digits;
    /// 0 without operations.
    pub fn latency_ns_at(&self, quantile: f64) -> u64 {
        self.latency_ns.value_at_quantile(quantile)
    }

    /// The longest latency in nanoseconds, to three digits.
    pub fn latency_ns_max(&self) -> u64 {
        self.latency_ns.max()
    }

    /// The mean latency in nanoseconds.
    pub fn latency_ns_mean(&self) -> f64 {
        self.latency_ns.mean()
    }

    /// `total` divided by the number of operations; 0 without operations.
    pub fn per_operation(&self, total: u64) -> f64 {
        total as f64 / self.count.max(1) as f64
    }

    fn is_empty(&self) -> bool {
        self.count == 0 && self.failed == 0
    }
}

/// Requests with one label and verb, issued by operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbTotal {
    /// How many requests.
    pub requests: u64,
    /// Their payload in bytes.
    pub bytes: u64,
}

/// Requests by operation kind, label (the step of the algorithm) and verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbCounts {
    totals: BTreeMap<(OperationKind, String, String), VerbTotal>,
}

impl VerbCounts {
    /// Adds `total` requests. Meant for the end of a run: a driver counts in an array and names the labels here.
    pub fn add(&mut self, kind: OperationKind, label: &str, verb: &str, total: VerbTotal) {
        let sum = self.totals.entry((kind, label.to_owned(), verb.to_owned())).or_default();
        sum.requests += total.requests;
        sum.bytes += total.bytes;
    }

    /// Adds what another thread has gathered.
    pub fn merge(&mut self, other: &Self) {
        for ((kind, label, verb), &total) in &other.totals {
            self.add(*kind, label, verb, total);
        }
    }

    /// Kind, label, verb and total, in the order of kinds, labels and verbs.
    pub fn iter(&self) -> impl Iterator<Item = (OperationKind, &str, &str, VerbTotal)> {
        self.totals.iter().map(|((kind, label, verb), &total)| (*kind, label.as_str(), verb.as_str(), total))
    }
}

/// Why a guarantee can be relied upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum Basis {
    /// The fabric is built so that it holds.
    ByConstruction,
    /// A named platform profile says so; not proved here.
    Asserted {
        /// The profile.
        profile: String,
    },
    /// It does not hold; what needs it was refused or took another path.
    Absent,
}

/// One assumption of the indexes, and what the fabric has to say about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The assumption, as the fabric names it.
    pub name: String,
    /// Why it holds, or that it does not.
    #[serde(flatten)]
    pub basis: Basis,
}

/// What a walk over a whole index found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Levels, leaves included.
    pub levels: u32,
    /// Leaves.
    pub leaves: u64,
    /// Leaves without a record.
    pub empty_leaves: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Records.
    pub records: u64,
    /// Places for records in all leaves.
    pub slots: u64,
    /// Bytes of nodes that can be reached.
    pub live_bytes: u64,
    /// Nodes that their parent does not know yet.
    pub half_splits: u64,
    /// Pointers to places that nodes have left for another memory node.
    #[serde(default)]
    pub moved_links: u64,
}

impl From<&Census> for Tree {
    fn from(census: &Census) -> Self {
        let Census { levels, leaves, inner_nodes, records, slots, live_bytes, half_splits, moved_links, .. } = *census;
        let empty_leaves = census.empty_leaves;
        Self { levels, leaves, empty_leaves, inner_nodes, records, slots, live_bytes, half_splits, moved_links }
    }
}

impl Tree {
    /// How full the leaves are, 0..=1.
    pub fn fill(&self) -> f64 {
        self.records as f64 / self.slots.max(1) as f64
    }

    /// Bytes of live nodes per record; 0 without records.
    pub fn live_per_record_bytes(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.live_bytes as f64 / self.records as f64 }
    }
}

/// How often compute nodes knew in which entry of its leaf a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hotspot {
    /// Memory of each compute node for that, in bytes.
    pub budget_bytes: u64,
    /// Looks at leaves for which the buffer was asked: of RDWC's members only the leaders'.
    pub asked: u64,
    /// For which it had a guess: one entry was READ.
    pub guessed: u64,
    /// Guesses that were wrong, and cost a round trip.
    pub wrong: u64,
}

impl Hotspot {
    /// What lanes have counted, each mark by `counted`.
    pub fn new(budget_bytes: u64, counted: impl Fn(Mark) -> u64) -> Self {
        let guessed = counted(Mark::SPECULATED);
        Self { budget_bytes, asked: counted(Mark::UNGUESSED) + guessed, guessed, wrong: counted(Mark::GUESSED_WRONG) }
    }

    /// `self` without what was counted `before`.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            guessed: self.guessed - before.guessed,
            wrong: self.wrong - before.wrong,
            ..self
        }
    }

    /// Share of the looks with a guess, 0..=1.
    pub fn hit_share(&self) -> f64 {
        self.guessed as f64 / self.asked.max(1) as f64
    }

    /// Share of the guesses that were right, 0..=1.
    pub fn right_share(&self) -> f64 {
        1.0 - self.wrong as f64 / self.guessed.max(1) as f64
    }
}

/// A run of a benchmark.
#[derive(Clone, Debug)]
pub struct Report {
    /// The index: `sherman`, `smart`, `chime`, `dolphin`, `dex`.
    pub index: String,
    /// The workload: `load`, `a` .. `f`, or the property file.
    pub workload: String,
    /// The seed of all draws.
    pub seed: u64,
    /// The fabric, with its device where it has one.
    pub fabric: String,
    /// What kind of number this is, such as [`MEASURED_ON_SHM`].
    pub measured_on: String,
    /// What the fabric guaranteed.
    pub guarantees: Vec<Guarantee>,
    /// Where it ran.
    pub machine: Machine,
    /// Memory nodes of the pool.
    pub memory_nodes: u32,
    /// Compute nodes that own keys, each its own; 0: any compute node serves any key.
    pub owners: u32,
    /// Threads of each compute node.
    pub threads: u32,
    /// Lanes of each thread: operations in flight.
    pub lanes: u32,
    /// How long the run took, in seconds.
    pub wall_s: f64,
    /// Cache of each compute node, in bytes; one entry per compute node.
    pub cache_bytes: Vec<u64>,
    /// Memory of the pool that the index takes, in bytes.
    pub pool_bytes: u64,
    /// Records in the index at the end.
    pub records: u64,
    /// Bytes of a key slot.
    pub key_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Techniques switched off or on, such as `without combine`; empty: all as by default.
    pub techniques: Vec<String>,
    /// What a walk over the whole index found after the last run.
    pub tree: Option<Tree>,
    /// One per kind; kinds without operations are not shown.
    pub kinds: Vec<KindReport>,
    /// Requests by label and verb.
    pub verbs: VerbCounts,
    /// What came of the hotspot buffers; `None`: there are none.
    pub hotspot: Option<Hotspot>,
    /// What only a run in virtual time has.
    pub simulation: Option<Simulation>,
}

impl Report {
    /// Operations that succeeded, of all kinds.
    pub fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// Operations per second, of all kinds.
    pub fn throughput_ops_per_s(&self) -> f64 {
        self.rate(self.operations())
    }

    /// What operations of all kinds cost together.
    pub fn cost(&self) -> OperationCost {
        let mut sum = OperationCost::default();
        self.kinds.iter().for_each(|kind| sum.add(&kind.cost));
        sum
    }

    /// The latency in nanoseconds below or at which the share `quantile` (0..=1) of the operations of all kinds lies; 0
    /// without operations.
    pub fn latency_ns_at(&self, quantile: f64) -> u64 {
        let mut all = KindReport::new(OperationKind::Read);
        for kind in &self.kinds {
            all.merge(&KindReport { kind: OperationKind::Read, ..kind.clone() });
        }
        all.latency_ns_at(quantile)
    }

    /// Bytes of the pool per record; 0 without records.
    pub fn pool_per_record_bytes(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.pool_bytes as f64 / self.records as f64 }
    }

    /// `count` per second of the run; 0 for a run that took no time.
    fn rate(&self, count: u64) -> f64 {
        if self.wall_s > 0.0 { count as f64 / self.wall_s } else { 0.0 }
    }

    fn shown_kinds(&self) -> impl Iterator<Item = &KindReport> {
        self.kinds.iter().filter(|kind| !kind.is_empty())
    }

    /// Operations of a kind that succeeded.
    fn count_of(&self, kind: OperationKind) -> u64 {
        self.kinds.iter().filter(|report| report.kind == kind).map(|report| report.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report that the golden files show.
    pub(super) fn sample() -> Report {
        let mut read = KindReport::new(OperationKind::Read);
        for latency_ns in 1..=1_000_u64 {
            let is_retried = latency_ns > 900;
            let cost = OperationCost {
                round_trips: 1 + u64::from(is_retried),
                requests: 1 + u64::from(is_retried),
                read_bytes: 1_024 * (1 + u64::from(is_retried)),
                written_bytes: 0,
                retries: u64::from(is_retried),
            };
            read.record(latency_ns * 10, &cost);
        }
        let mut update = KindReport::new(OperationKind::Update);
        let cost = OperationCost { round_trips: 3, requests: 5, read_bytes: 1_024, written_bytes: 32, retries: 0 };
        (0..500).for_each(|_| update.record(6_500, &cost));
        update.record_failed();
        let mut verbs = VerbCounts::default();
        verbs.add(OperationKind::Read, "leaf", "READ", VerbTotal { requests: 1_100, bytes: 1_126_400 });
        verbs.add(OperationKind::Update, "lock", "CAS", VerbTotal { requests: 500, bytes: 4_000 });
        verbs.add(OperationKind::Update, "leaf", "READ", VerbTotal { requests: 500, bytes: 512_000 });
        let guarantee = |name: &str, basis| Guarantee { name: name.to_owned(), basis };
        Report {
            index: "sherman".to_owned(),
            workload: "a".to_owned(),
            seed: 42,
            fabric: "shm".to_owned(),
            measured_on: MEASURED_ON_SHM.to_owned(),
            guarantees: vec![
                guarantee("WORD_ATOMIC", Basis::ByConstruction),
                guarantee("LINE_ATOMIC", Basis::Asserted { profile: "x86-64-probed".to_owned() }),
                guarantee("POST_ORDER", Basis::Absent),
            ],
            machine: Machine {
                cpu_model: Some("Example CPU".to_owned()),
                logical_cores: 2,
                kernel_release: Some("6.1.0".to_owned()),
                memory_bytes: Some(8 << 30),
                huge_page_bytes: Some(2 << 20),
                huge_pages_total: Some(512),
                huge_pages_free: Some(500),
            },
            memory_nodes: 2,
            owners: 0,
            threads: 2,
            lanes: 4,
            wall_s: 0.001,
            cache_bytes: vec![1_048_576, 524_288],
            pool_bytes: 3_500_000,
            records: 100_000,
            key_bytes: 8,
            value_bytes: 16,
            techniques: vec!["without combine".to_owned()],
            tree: Some(Tree {
                levels: 4,
                leaves: 2_175,
                empty_leaves: 0,
                inner_nodes: 60,
                records: 100_000,
                slots: 123_975,
                live_bytes: 2_288_640,
                half_splits: 1,
                moved_links: 0,
            }),
            kinds: vec![read, update, KindReport::new(OperationKind::Scan)],
            verbs,
            hotspot: None,
            simulation: None,
        }
    }

    /// Compares with a golden file, or writes it where `DM_BLESS` is set.
    pub(super) fn assert_golden(name: &str, actual: &str) {
        let path = format!("{}/src/report/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("DM_BLESS").is_some() {
            std::fs::write(&path, actual).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(actual, golden, "{path} differs; DM_BLESS=1 cargo test rewrites it");
    }

    #[test]
    fn threads_merge_into_what_one_thread_would_have_gathered() {
        let (mut one, mut two) = (KindReport::new(OperationKind::Read), KindReport::new(OperationKind::Read));
        let mut whole = KindReport::new(OperationKind::Read);
        for latency_ns in 1..10_000 {
            let cost = OperationCost { round_trips: 1, requests: 2, read_bytes: 3, written_bytes: 4, retries: 5 };
            if latency_ns % 3 == 0 { &mut one } else { &mut two }.record(latency_ns, &cost);
            whole.record(latency_ns, &cost);
        }
        two.record_failed();
        one.merge(&two);
        assert_eq!((one.count, one.failed, one.cost), (whole.count, 1, whole.cost));
        assert_eq!(one.cost.written_bytes, 4 * 9_999);
        for quantile in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(one.latency_ns_at(quantile), whole.latency_ns_at(quantile));
        }
        assert_eq!(one.latency_ns_max(), whole.latency_ns_max());
    }

    #[test]
    fn latencies_have_three_digits_and_end_at_a_hundred_seconds() {
        let mut report = KindReport::new(OperationKind::Scan);
        report.record(0, &OperationCost::default());
        report.record(1_234_567, &OperationCost::default());
        let max = report.latency_ns_max() as f64;
        assert!((max / 1_234_567.0 - 1.0).abs() < 1e-3, "{max}");
        report.record(u64::MAX, &OperationCost::default());
        let max = report.latency_ns_max() as f64;
        assert!((max / LATENCY_NS_MAX as f64 - 1.0).abs() < 1e-3, "{max}");
        assert_eq!(report.count, 3);
    }

    #[test]
    fn verb_counts_merge_by_kind_label_and_verb() {
        let total = |requests, bytes| VerbTotal { requests, bytes };
        let (mut one, mut two) = (VerbCounts::default(), VerbCounts::default());
        one.add(OperationKind::Read, "leaf", "READ", total(1, 10));
        two.add(OperationKind::Read, "leaf", "READ", total(2, 20));
        two.add(OperationKind::Read, "leaf", "CAS", total(4, 40));
        two.add(OperationKind::Scan, "leaf", "READ", total(8, 80));
        one.merge(&two);
        let merged: Vec<_> = one.iter().collect();
        assert_eq!(
            merged,
            [
                (OperationKind::Read, "leaf", "CAS", total(4, 40)),
                (OperationKind::Read, "leaf", "READ", total(3, 30)),
                (OperationKind::Scan, "leaf", "READ", total(8, 80)),
            ]
        );
    }

    #[test]
    fn rates_of_an_empty_run_are_zero() {
        let report = Report { wall_s: 0.0, records: 0, kinds: Vec::new(), ..sample() };
        assert!(report.throughput_ops_per_s().abs() < f64::EPSILON);
        assert!(report.pool_per_record_bytes().abs() < f64::EPSILON);
    }
}
