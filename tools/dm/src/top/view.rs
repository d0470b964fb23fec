//! What two looks after each other say.

use super::metrics::{Series, Values};
use super::sample::Sample;
use dm_core::operation::OperationKind;
use dm_core::remote::chunk::ChunkKind;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::RowState;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Since when the heartbeat of each row stands.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<(RowId, u64), (u64, Instant)>);

impl Heartbeats {
    /// Takes note of those in a sample.
    pub(super) fn see(&mut self, sample: &Sample) {
        let mut now = BTreeMap::new();
        for member in sample.members.iter().filter(|member| member.is_live()) {
            let life = (member.row, member.word.0);
            let known = self.0.get(&life).filter(|(heartbeat, _)| *heartbeat == member.heartbeat);
            now.insert(life, known.copied().unwrap_or((member.heartbeat, sample.at)));
        }
        self.0 = now;
    }

    fn stands_for(&self, life: (RowId, u64), now: Instant) -> Duration {
        self.0.get(&life).map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(*since))
    }
}

/// Operations of one kind, of all sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Operations {
    /// Their kind.
    pub kind: String,
    /// How many a second.
    pub rate: f64,
    /// Failures a second.
    pub failed: f64,
    /// Latency on the lane, in us: on average, and the bound that 99 of 100 do not exceed.
    pub mean_us: f64,
    /// See there.
    pub p99_us: f64,
    /// Costs of an operation.
    pub round_trips: f64,
    /// Requests.
    pub requests: f64,
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
    /// Retries.
    pub retries: f64,
}

/// Chunks of a memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Its number.
    pub node: u16,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// All chunks.
    pub chunks: u32,
    /// Never used.
    pub free: u32,
    /// Given back.
    pub used: u32,
    /// Not to be granted.
    pub withheld: u32,
    /// With entries that nobody wrote.
    pub corrupt: u32,
    /// Granted, by kind.
    pub granted: Vec<(&'static str, u32)>,
}

/// An index, and what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IndexLine {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Granted bytes.
    pub granted_bytes: u64,
    /// Operations a second, of sessions with metrics.
    pub rate: Option<f64>,
}

/// A compute node.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_field_names, reason = "the number of a row is called so everywhere")]
pub(super) struct Row {
    /// Its row.
    pub row: u16,
    /// Its state.
    pub state: &'static str,
    /// Which life of the row.
    pub incarnation: u32,
    /// Its host.
    pub host: String,
    /// Its lanes.
    pub lanes: Option<u16>,
    /// The epoch it has reached; `None`: it takes no part.
    pub epoch: Option<u64>,
    /// A live one's heartbeat: for how long it has not moved.
    pub silent: Option<Duration>,
    /// For longer than its lease.
    pub unresponsive: bool,
    /// Locks it holds.
    pub locks: usize,
    /// Operations a second, if its session has metrics.
    pub rate: Option<f64>,
}

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    /// Name of the pool.
    pub pool: String,
    /// Its incarnation.
    pub incarnation: u64,
    /// Time between the looks; zero: there was one only.
    pub seconds: f64,
    /// How often the pool's epoch was raised, and how often a second.
    pub epochs: (u64, f64),
    /// Locks held.
    pub locks: usize,
    /// The first of them: memory node, number, row.
    pub held: Vec<(u16, u32, u16)>,
    /// Whether there are metrics of sessions.
    pub has_sessions: bool,
    /// By kind.
    pub operations: Vec<Operations>,
    /// What memory nodes counted: name and value.
    pub daemons: Vec<(&'static str, u64)>,
    /// Memory nodes.
    pub memory: Vec<Memory>,
    /// Indexes.
    pub indexes: Vec<IndexLine>,
    /// Compute nodes that are not free.
    pub rows: Vec<Row>,
    /// Rows that were used and are free.
    pub free_rows: usize,
    /// What could not be shown.
    pub missing: Vec<String>,
}

/// Locks that are shown one by one.
const HELD_SHOWN: usize = 4;

/// What counters of memory nodes are called here.
const DAEMONS: [(&str, &str); 6] = [
    ("processes", "dm_memd_processes"),
    ("joins", "dm_memd_joins_total"),
    ("leaves", "dm_memd_leaves_total"),
    ("deaths", "dm_memd_deaths_total"),
    ("fenced", "dm_memd_fenced_total"),
    ("refused", "dm_memd_refused_total"),
];

/// How counters moved between two pages. A counter that began anew counts from 0.
struct Moves<'a> {
    before: &'a Values,
    now: &'a Values,
}

impl Moves<'_> {
    fn sum(&self, name: &str, wanted: impl Fn(&Series) -> bool) -> f64 {
        let moved = |(series, now): (&Series, &f64)| {
            let before = self.before.get(series).copied();
            // A series that was not there before has counted for longer than the interval.
            before.map_or(0.0, |before| if *now >= before { now - before } else { *now })
        };
        self.now.iter().filter(|(series, _)| series.name == name && wanted(series)).map(moved).sum()
    }

    /// The bound below which this share of the observations of a histogram lie, in its unit.
    fn quantile(&self, name: &str, share: f64, wanted: impl Fn(&Series) -> bool) -> f64 {
        let mut bounds: BTreeMap<u64, f64> = BTreeMap::new();
        let bucket = format!("{name}_bucket");
        for series in self.now.keys().filter(|series| series.name == bucket && wanted(series)) {
            if let Ok(bound) = series.label("le").parse::<f64>() {
                // The bits of positive numbers sort as they do.
                *bounds.entry(bound.to_bits()).or_default() += self.sum(&bucket, |other| other == series);
            }
        }
        let total = bounds.values().copied().fold(0.0, f64::max);
        let found = bounds.iter().find(|(_, below)| total > 0.0 && **below >= share * total);
        found.map_or(0.0, |(bits, _)| f64::from_bits(*bits))
    }
}

impl View {
    /// Compares two looks.
    pub(super) fn of(before: &Sample, now: &Sample, heartbeats: &Heartbeats) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        let rate = |moved: f64| if seconds > 0.0 { moved / seconds } else { 0.0 };
        let moves = Moves { before: &before.values, now: &now.values };
        let has = |name: &str| now.values.keys().any(|series| series.name == name);
        let has_sessions = has("dm_session_operations_total");
        let index_rate =
            |index: &str| rate(moves.sum("dm_session_operations_total", |series| series.label("index") == index));
        let kinds: Vec<u32> = ChunkKind::ALL.iter().map(|kind| *kind as u32).collect();
        let granted_bytes = |number: u16| {
            let of = |node: &super::sample::Node| {
                let chunks: u32 =
                    kinds.iter().map(|kind| node.tally.granted[usize::from(number)][*kind as usize]).sum();
                u64::from(chunks) * node.chunk_bytes
            };
            now.nodes.iter().map(of).sum()
        };
        Self {
            pool: now.pool.clone(),
            incarnation: now.incarnation,
            seconds,
            epochs: (now.epochs, rate(now.epochs.saturating_sub(before.epochs) as f64)),
            locks: now.locks.len(),
            held: now.locks.iter().take(HELD_SHOWN).map(|(node, lock, word)| (*node, *lock, word.row().0)).collect(),
            has_sessions,
            operations: OperationKind::ALL.iter().filter_map(|kind| operations(&moves, kind.name(), seconds)).collect(),
            daemons: DAEMONS
                .iter()
                .filter(|(_, name)| has(name))
                .map(|(title, name)| {
                    let values = now.values.iter().filter(|(series, _)| series.name == *name);
                    (*title, values.map(|(_, value)| *value as u64).sum())
                })
                .collect(),
            memory: (0..).zip(&now.nodes).map(|(number, node)| memory(number, node)).collect(),
            indexes: now
                .indexes
                .iter()
                .map(|index| IndexLine {
                    name: index.name.clone(),
                    kind: index.kind,
                    granted_bytes: granted_bytes(index.number),
                    rate: has_sessions.then(|| index_rate(&index.name)),
                })
                .collect(),
            rows: rows(now, heartbeats, &moves, seconds),
            free_rows: now.members.iter().filter(|member| member.state == RowState::Free).count(),
            missing: now.missing.clone(),
        }
    }
}

/// `None`: there was never one.
fn operations(moves: &Moves<'_>, kind: &str, seconds: f64) -> Option<Operations> {
    let wanted = |series: &Series| series.label("operation") == kind;
    let total: f64 = moves
        .now
        .iter()
        .filter(|(series, _)| series.name == "dm_session_operations_total" && wanted(series))
        .map(|(_, value)| *value)
        .sum();
    if total == 0.0 {
        return None;
    }
    let moved = |name: &str| moves.sum(&format!("dm_session_{name}"), wanted);
    let count = moved("operations_total");
    let each = |sum: f64| if count > 0.0 { sum / count } else { 0.0 };
    let rate = |sum: f64| if seconds > 0.0 { sum / seconds } else { 0.0 };
    Some(Operations {
        kind: kind.to_owned(),
        rate: rate(count),
        failed: rate(moved("failed_total")),
        mean_us: each(moved("latency_seconds_sum")) * 1e6,
        p99_us: moves.quantile("dm_session_latency_seconds", 0.99, wanted) * 1e6,
        round_trips: each(moved("round_trips_total")),
        requests: each(moved("requests_total")),
        read: each(moved("read_bytes_total")),
        written: each(moved("written_bytes_total")),
        retries: each(moved("retries_total")),
    })
}

fn memory(number: u16, node: &super::sample::Node) -> Memory {
    let granted = |kind: ChunkKind| node.tally.granted.iter().map(|kinds| kinds[kind as usize]).sum::<u32>();
    Memory {
        node: number,
        chunk_bytes: node.chunk_bytes,
        chunks: node.chunks,
        free: node.tally.free,
        used: node.tally.used,
        withheld: node.tally.withheld,
        corrupt: node.tally.corrupt,
        granted: ChunkKind::ALL
            .iter()
            .map(|kind| (kind.name(), granted(*kind)))
            .filter(|(_, count)| *count > 0)
            .collect(),
    }
}

fn rows(now: &Sample, heartbeats: &Heartbeats, moves: &Moves<'_>, seconds: f64) -> Vec<Row> {
    let taken = now.members.iter().filter(|member| member.state != RowState::Free);
    let row = |member: &crate::members::Member| {
        let number = member.row.0.to_string();
        let is_of = |series: &Series| series.label("row") == number && series.label("pool") == now.pool;
        let has_metrics = now.values.keys().any(|series| series.name == "dm_session_operations_total" && is_of(series));
        let operations = moves.sum("dm_session_operations_total", is_of);
        let silent = member.is_live().then(|| heartbeats.stands_for((member.row, member.word.0), now.at));
        Row {
            row: member.row.0,
            state: member.state.name(),
            incarnation: member.word.incarnation(),
            host: member.host.clone().unwrap_or_default(),
            lanes: member.lanes,
            epoch: Some(member.epoch).filter(|epoch| *epoch > 0),
            silent,
            unresponsive: silent.zip(member.lease).is_some_and(|(silent, lease)| silent > lease),
            locks: now.locks.iter().filter(|(_, _, word)| word.row() == member.row).count(),
            rate: (has_metrics && seconds > 0.0).then(|| operations / seconds),
        }
    };
    taken.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Labels<'a> = &'a [(&'a str, &'a str)];

    fn values(page: &[(&str, Labels<'_>, f64)]) -> Values {
        let series = |name: &str, labels: Labels<'_>| Series {
            name: name.to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        page.iter().map(|(name, labels, value)| (series(name, labels), *value)).collect()
    }

    const GET: Labels<'_> = &[("operation", "get"), ("row", "1")];
    const OTHER: Labels<'_> = &[("operation", "get"), ("row", "2")];

    #[test]
    fn costs_are_those_of_an_operation_of_the_interval() {
        let page = |count: f64| {
            values(&[
                ("dm_session_operations_total", GET, count),
                ("dm_session_operations_total", OTHER, count),
                ("dm_session_round_trips_total", GET, 3.0 * count),
                ("dm_session_round_trips_total", OTHER, count),
                ("dm_session_latency_seconds_sum", GET, count * 1e-5),
            ])
        };
        let (before, now) = (page(1000.0), page(1500.0));
        let found = operations(&Moves { before: &before, now: &now }, "get", 2.0).unwrap();
        assert_eq!((found.rate, found.round_trips, found.requests), (500.0, 2.0, 0.0));
        assert!((found.mean_us - 5.0).abs() < 1e-9, "{}", found.mean_us);
        assert_eq!(operations(&Moves { before: &before, now: &now }, "scan", 2.0), None);
    }

    #[test]
    fn a_counter_that_began_anew_counts_from_nothing_and_a_new_one_does_not_count() {
        let (before, now) = (values(&[("a", GET, 100.0)]), values(&[("a", GET, 7.0), ("a", OTHER, 1000.0)]));
        let sum = Moves { before: &before, now: &now }.sum("a", |_| true);
        assert!((sum - 7.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let page = |scale: f64| {
            let bucket = |bound: &'static str, count: f64| ("h_bucket", bound, count * scale);
            let buckets = [bucket("0.001", 90.0), bucket("0.01", 99.0), bucket("+Inf", 100.0)];
            buckets
                .into_iter()
                .map(|(name, bound, count)| {
                    (Series { name: name.to_owned(), labels: vec![("le".to_owned(), bound.to_owned())] }, count)
                })
                .collect::<Values>()
        };
        let (before, now) = (page(0.0), page(1.0));
        let moves = Moves { before: &before, now: &now };
        for (share, bound) in [(0.5, 0.001), (0.99, 0.01)] {
            assert!((moves.quantile("h", share, |_| true) - bound).abs() < 1e-12);
        }
        assert!(moves.quantile("h", 1.0, |_| true).is_infinite());
        assert!(Moves { before: &now, now: &now }.quantile("h", 0.5, |_| true).abs() < 1e-12, "nothing happened");
    }
}
