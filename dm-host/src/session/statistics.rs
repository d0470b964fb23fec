//! Statistics of a session.

use crate::metrics::put;
use crate::worker::{Cost, Finished};
use dm_core::operation::OperationKind;
use dm_core::remote::row::Member;
use std::sync::atomic::{AtomicU64, Ordering};

const KINDS: usize = OperationKind::ALL.len();

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
    /// Submits with at least one request for a memory node.
    pub round_trips: u64,
    /// Requests for memory nodes.
    pub requests: u64,
    /// Payload of READs and results of atomics, in bytes.
    pub bytes_read: u64,
    /// Payload of WRITEs and operands of atomics, in bytes.
    pub bytes_written: u64,
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
}

impl Statistics {
    /// Sums of one kind of operation. Of a `multi_get`, each key counts as a get, and so on.
    pub fn of(&self, kind: OperationKind) -> &KindStatistics {
        &self.kinds[kind as usize]
    }

    /// The statistics in Prometheus's text format, as those of `member`.
    pub fn prometheus(&self, member: Member) -> String {
        let mut text = String::new();
        type Of = fn(&KindStatistics) -> f64;
        let by_kind: [(&str, &str, &str, Of); 8] = [
            ("operations_total", "counter", "Operations that ended, failed ones included.", |of| of.operations as f64),
            ("failed_total", "counter", "Operations that failed.", |of| of.failed as f64),
            ("busy_seconds_total", "counter", "Time operations took on their lanes.", |of| of.latency_ns as f64 / 1e9),
            ("longest_seconds", "gauge", "The longest operation so far.", |of| of.latency_ns_max as f64 / 1e9),
            ("round_trips_total", "counter", "Round trips to memory nodes.", |of| of.round_trips as f64),
            ("requests_total", "counter", "Requests for memory nodes.", |of| of.requests as f64),
            ("read_bytes_total", "counter", "Payload of READs and results of atomics.", |of| of.bytes_read as f64),
            ("written_bytes_total", "counter", "Payload of WRITEs and operands of atomics.", |of| {
                of.bytes_written as f64
            }),
        ];
        for (name, kind, help, of) in by_kind {
            let values = OperationKind::ALL.iter().map(|&operation| {
                (format!("{{operation=\"{}\"}}", operation.name()), of(&self.kinds[operation as usize]))
            });
            put(&mut text, &format!("dm_session_{name}"), kind, help, values);
        }
        for (name, help, value) in [
            ("row", "Its row among the compute nodes of the pool.", u64::from(member.row.0)),
            ("incarnation", "Which life of that row it is.", u64::from(member.incarnation)),
            ("queued_operations", "Operations that have a place in a queue now.", self.queued),
            ("cache_used_bytes", "Bytes the index cache uses.", self.cache_used_bytes),
            ("cache_budget_bytes", "Bytes the index cache may use.", self.cache_budget_bytes),
        ] {
            put(&mut text, &format!("dm_session_{name}"), "gauge", help, [("", value)]);
        }
        text
    }
}

/// One operation kind's sums on one worker.
#[derive(Debug, Default)]
struct Sums {
    operations: AtomicU64,
    failed: AtomicU64,
    latency_ns: AtomicU64,
    latency_ns_max: AtomicU64,
    round_trips: AtomicU64,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// Sums of one worker, the only thread that adds to them. All accesses are relaxed: the sums order nothing. A load and
/// a store by the only writer lose nothing, and are cheaper than an atomic addition.
#[derive(Debug, Default)]
pub(super) struct WorkerSums([Sums; KINDS]);

impl WorkerSums {
    pub(super) fn count(&self, finished: &Finished<'_>) {
        let add = |sum: &AtomicU64, more: u64| {
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        let sums = &self.0[finished.operation.kind as usize];
        let Cost { round_trips, requests, bytes_read, bytes_written } = finished.cost;
        add(&sums.operations, 1);
        add(&sums.latency_ns, finished.latency_ns);
        add(&sums.round_trips, round_trips.into());
        add(&sums.requests, requests.into());
        add(&sums.bytes_read, bytes_read);
        add(&sums.bytes_written, bytes_written);
        if finished.result.is_err() {
            add(&sums.failed, 1);
        }
        if finished.latency_ns > sums.latency_ns_max.load(Ordering::Relaxed) {
            sums.latency_ns_max.store(finished.latency_ns, Ordering::Relaxed);
        }
    }

    pub(super) fn add_to(&self, statistics: &mut Statistics) {
        for (total, sums) in statistics.kinds.iter_mut().zip(&self.0) {
            let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
            total.operations += of(&sums.operations);
            total.failed += of(&sums.failed);
            total.latency_ns += of(&sums.latency_ns);
            total.latency_ns_max = total.latency_ns_max.max(of(&sums.latency_ns_max));
            total.round_trips += of(&sums.round_trips);
            total.requests += of(&sums.requests);
            total.bytes_read += of(&sums.bytes_read);
            total.bytes_written += of(&sums.bytes_written);
        }
    }
}
