//! Statistics of a session.

use crate::metrics::{Kind, Labels, Page};
use crate::worker::{Cost, Finished};
use dm_core::operation::OperationKind;
use dm_core::remote::row::Member;
use std::sync::atomic::{AtomicU64, Ordering};

const KINDS: usize = OperationKind::ALL.len();

/// The shortest upper bound of a histogram of latencies is 2 to this power of ns, 256 ns; each is twice the one before.
const SHORTEST_LOG2: u32 = 8;

/// Upper bounds: the longest is 8.6 s.
const BOUNDS: usize = 26;

/// How many operations took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram([u64; BOUNDS + 1]);

impl LatencyHistogram {
    /// Upper bounds in ns, each with the number of operations that took longer than the bound before and not longer than
    /// this one. Those beyond the last bound have the bound `u64::MAX`.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let bound = |at: usize| if at == BOUNDS { u64::MAX } else { 1 << (SHORTEST_LOG2 as usize + at) };
        self.0.iter().enumerate().map(move |(at, count)| (bound(at), *count))
    }

    /// The bucket of a latency.
    fn bucket(latency_ns: u64) -> usize {
        let log2 = u64::BITS - latency_ns.saturating_sub(1).leading_zeros();
        (log2.saturating_sub(SHORTEST_LOG2) as usize).min(BOUNDS)
    }
}

/// Sums over all operations of one kind that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStatistics {
    /// Operations that ended, failed ones included.
    pub operations: u64,
    /// Those that failed.
    pub failed: u64,
    /// Time from their start on a lane to their end, in ns, without time in the queue.
    pub latency_ns: u64,
    /// The longest of these times, in ns.
    pub latency_ns_max: u64,
    /// How many of them were how long.
    pub latencies: LatencyHistogram,
    /// Submits with at least one request for a memory node.
    pub round_trips: u64,
    /// Requests for memory nodes.
    pub requests: u64,
    /// Payload of READs and results of atomics, in bytes.
    pub bytes_read: u64,
    /// Payload of WRITEs and operands of atomics, in bytes.
    pub bytes_written: u64,
    /// Steps that were repeated, or took a longer way than they should.
    pub retries: u64,
}

/// Statistics of a session so far, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    kinds: [KindStatistics; KINDS],
    /// Bytes that the index cache uses; up to some 50 ms old.
    pub cache_used_bytes: u64,
    /// Bytes that the index cache may use.
    pub cache_budget_bytes: u64,
    /// Operations that have a place in a queue now, including running ones and results not yet fetched.
    pub queued: u64,
    /// Calls that took several operations of a `multi_get`, or its like, to the compute node that owns their keys. Each counts as one request,
    /// of the kind of its operations.
    pub packs: u64,
    /// Operations in these.
    pub packed_operations: u64,
    /// Of these, so many were not begun there, and were executed alone then.
    pub packed_not_begun: u64,
    /// Calls of other compute nodes that the session executed.
    pub served_calls: u64,
    /// Operations that these asked for, those included that were not begun. Other numbers of this session do not have them.
    pub served_operations: u64,
}

impl Statistics {
    /// Sums of one kind of operation. Of a `multi_get`, each key counts as a get, and so on.
    pub fn of(&self, kind: OperationKind) -> &KindStatistics {
        &self.kinds[kind as usize]
    }

    /// The statistics for Prometheus, as those of `member`, which has the index called `index` of `pool` open.
    pub(super) fn page(&self, pool: &str, index: &str, member: Member) -> Page {
        let mut page = Page::default();
        let labels = Labels::default().with("pool", pool).with("index", index).with("row", member.row.0);
        type Of = fn(&KindStatistics) -> u64;
        let by_kind: [(&str, &str, Of); 7] = [
            ("operations_total", "Operations that ended, failed ones included.", |of| of.operations),
            ("failed_total", "Operations that failed.", |of| of.failed),
            ("round_trips_total", "Round trips to memory nodes.", |of| of.round_trips),
            ("requests_total", "Requests for memory nodes.", |of| of.requests),
            ("read_bytes_total", "Payload of READs and results of atomics.", |of| of.bytes_read),
            ("written_bytes_total", "Payload of WRITEs and operands of atomics.", |of| of.bytes_written),
            ("retries_total", "Steps repeated, or that took a longer way than they should.", |of| of.retries),
        ];
        for (name, help, value) in [
            ("packs_total", "Calls that took several operations to the owner of their keys.", self.packs),
            ("packed_operations_total", "Operations in these calls.", self.packed_operations),
            (
                "packed_not_begun_total",
                "Operations of these calls that their owner did not begin.",
                self.packed_not_begun,
            ),
            ("served_calls_total", "Calls of other compute nodes.", self.served_calls),
            ("served_operations_total", "Operations that these calls asked for.", self.served_operations),
        ] {
            page.put(&format!("dm_session_{name}"), Kind::Counter, help, [(labels.clone(), value)]);
        }
        let kinds = || OperationKind::ALL.iter().map(|&kind| (labels.with("operation", kind.name()), self.of(kind)));
        for (name, help, of) in by_kind {
            let samples = kinds().map(|(labels, sums)| (labels, of(sums)));
            page.put(&format!("dm_session_{name}"), Kind::Counter, help, samples);
        }
        let (name, help) =
            ("dm_session_latency_seconds", "Time operations took on their lanes, without time in the queue.");
        for (labels, sums) in kinds() {
            let mut buckets = sums.latencies.buckets();
            let bounded = buckets.by_ref().take(BOUNDS).map(|(bound_ns, count)| (bound_ns as f64 / 1e9, count));
            let bounded: Vec<_> = bounded.collect();
            let beyond = buckets.next().map_or(0, |(_, count)| count);
            page.put_histogram(name, help, &labels, bounded, (beyond, sums.latency_ns as f64 / 1e9));
        }
        for (name, help, value) in [
            ("incarnation", "Which life of its row this session is.", u64::from(member.incarnation)),
            ("queued_operations", "Operations that have a place in a queue now.", self.queued),
            ("cache_used_bytes", "Bytes the index cache uses.", self.cache_used_bytes),
            ("cache_budget_bytes", "Bytes the index cache may use.", self.cache_budget_bytes),
        ] {
            page.put(&format!("dm_session_{name}"), Kind::Gauge, help, [(labels.clone(), value)]);
        }
        page
    }
}

/// One operation kind's sums on one worker.
#[derive(Debug, Default)]
struct Sums {
    operations: AtomicU64,
    failed: AtomicU64,
    latency_ns: AtomicU64,
    latency_ns_max: AtomicU64,
    latencies: [AtomicU64; BOUNDS + 1],
    round_trips: AtomicU64,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    retries: AtomicU64,
}

/// Sums of one worker, the only thread that adds to them. All accesses are relaxed: the sums order nothing. A load and
/// a store by the only writer lose nothing, and are cheaper than an atomic addition.
#[derive(Debug, Default)]
pub(super) struct WorkerSums {
    kinds: [Sums; KINDS],
    packs: AtomicU64,
    packed_operations: AtomicU64,
    packed_not_begun: AtomicU64,
}

/// Adds to a sum of which the caller is the only writer.
fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Sums of the thread that executes operations of other compute nodes.
#[derive(Debug, Default)]
pub(super) struct ServedSums {
    calls: AtomicU64,
    operations: AtomicU64,
}

impl ServedSums {
    /// A call that asks for so many operations.
    pub(super) fn count(&self, operations: u16) {
        add(&self.calls, 1);
        add(&self.operations, operations.into());
    }

    pub(super) fn add_to(&self, statistics: &mut Statistics) {
        statistics.served_calls += self.calls.load(Ordering::Relaxed);
        statistics.served_operations += self.operations.load(Ordering::Relaxed);
    }
}

impl WorkerSums {
    pub(super) fn count(&self, finished: &Finished<'_>) {
        let sums = &self.kinds[finished.operation.kind as usize];
        add(&sums.operations, 1);
        add(&sums.latency_ns, finished.latency_ns);
        add(&sums.latencies[LatencyHistogram::bucket(finished.latency_ns)], 1);
        self.count_cost(finished.operation.kind, &finished.cost);
        add(&sums.retries, finished.retries.into());
        if finished.result.is_err() {
            add(&sums.failed, 1);
        }
        if finished.latency_ns > sums.latency_ns_max.load(Ordering::Relaxed) {
            sums.latency_ns_max.store(finished.latency_ns, Ordering::Relaxed);
        }
    }

    fn count_cost(&self, kind: OperationKind, cost: &Cost) {
        let sums = &self.kinds[kind as usize];
        let Cost { round_trips, requests, bytes_read, bytes_written } = *cost;
        add(&sums.round_trips, round_trips.into());
        add(&sums.requests, requests.into());
        add(&sums.bytes_read, bytes_read);
        add(&sums.bytes_written, bytes_written);
    }

    /// A call that took several operations of this kind to their owner, and what it cost. Its operations are counted beside it, without a cost.
    pub(super) fn count_pack(&self, kind: OperationKind, operations: u16, cost: &Cost) {
        self.count_cost(kind, cost);
        add(&self.packs, 1);
        add(&self.packed_operations, operations.into());
    }

    /// An operation of such a call that was not begun.
    pub(super) fn count_not_begun(&self) {
        add(&self.packed_not_begun, 1);
    }

    pub(super) fn add_to(&self, statistics: &mut Statistics) {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        statistics.packs += of(&self.packs);
        statistics.packed_operations += of(&self.packed_operations);
        statistics.packed_not_begun += of(&self.packed_not_begun);
        for (total, sums) in statistics.kinds.iter_mut().zip(&self.kinds) {
            total.operations += of(&sums.operations);
            total.failed += of(&sums.failed);
            total.latency_ns += of(&sums.latency_ns);
            total.latency_ns_max = total.latency_ns_max.max(of(&sums.latency_ns_max));
            for (total, sum) in total.latencies.0.iter_mut().zip(&sums.latencies) {
                *total += of(sum);
            }
            total.round_trips += of(&sums.round_trips);
            total.requests += of(&sums.requests);
            total.bytes_read += of(&sums.bytes_read);
            total.bytes_written += of(&sums.bytes_written);
            total.retries += of(&sums.retries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_below_the_first_bound_that_is_not_shorter() {
        let mut histogram = LatencyHistogram::default();
        for latency_ns in [0, 1, 256, 257, 512, 513, 1 << 33, (1 << 33) + 1, u64::MAX] {
            histogram.0[LatencyHistogram::bucket(latency_ns)] += 1;
        }
        let counted: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(256, 3), (512, 2), (1024, 1), (1 << 33, 1), (u64::MAX, 2)]);
    }
}
