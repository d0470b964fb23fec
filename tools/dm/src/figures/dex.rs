//! Figures of DEX's paper (PVLDB 17(10), sections 8.1 to 8.4), beside Sherman and SMART in the same cluster.
//!
//! The paper loads 200 M records and caches 256 MB a compute node; here are 4 M, and the cache is scaled as they are. It
//! acknowledges a change before any other memory has it, as ours does at level `cache`; rows at `log`, which a death of a
//! compute node does not take back, have no counterpart. Its "P-" variants of Sherman and SMART, whose compute nodes work on
//! keys of their own without locks, are ours with ranges of keys for each compute node, and with requests for locks that
//! occupy nothing.
//!
//! Offload needs a cache that does not hold the inner nodes: 16 M records, and 2 MiB a compute node, which are 0.8 % of its
//! records; the paper has 1 %, and 31 MB. Gets are offloaded from any node on, changes from the leaf on.
//!
//! Figures 5 and 11 are curves whose values the paper's text does not tell. Figure 10, throughput while parts of the keys move, is a
//! curve over time: `dm bench --repartition-at`, and the README beside the table.

use super::{Figure, Metric};

/// DEX's cluster: four machines, each a compute node with 36 threads and a memory node. A thread has one operation in
/// flight, and none is warm before 400,000 operations have run.
pub(super) const CLUSTER: &str = "--profile cx5 --compute-nodes 4 --memory-nodes 4 --colocated --threads 36 --index dex \
                                  --records 4194304 --without read-guard,back-off --leaves-at-once 8 -p insertorder=hashed";

/// The cache of a compute node: inner nodes and leaves.
pub(super) const CACHE: &str = "--cache-mib 1 --leaf-cache-mib 4";

/// What rivals do with the same memory.
pub(super) const CACHE_OF_RIVALS: &str = "--cache-mib 5";

/// The paper's acknowledgement.
pub(super) const AT_CACHE: &str = "--answers-at cache";

/// The cluster for offload: four times the records, and hardly any cache.
pub(super) const OFFLOAD: &str = "--profile cx5 --compute-nodes 4 --memory-nodes 4 --colocated --threads 36 --index dex \
                                  --records 16777216 --without read-guard,back-off -p insertorder=hashed --cache-mib 1 \
                                  --leaf-cache-mib 1 --memory-cores 4 --offload by-cost";

/// The cluster for Figure 11: so many records that 1 % of them, of 16 bytes each, are 2 MiB, and as many operations as it takes until
/// the larger cache is warm.
pub(super) const CACHE_RATIO: &str = "--profile cx5 --compute-nodes 4 --memory-nodes 4 --colocated --threads 36 --index dex \
                                      --records 13107200 --without read-guard,back-off -p insertorder=hashed --memory-cores 4 \
                                      --offload by-cost --operations 10000000";

/// A cache of 8 % of these records on each compute node: inner nodes, of which it needs fewer than 2 MiB, and leaves.
pub(super) const EIGHT_PERCENT: &str = "--cache-mib 2 --leaf-cache-mib 14";

/// A cache of 1 % of them.
pub(super) const ONE_PERCENT: &str = "--cache-mib 1 --leaf-cache-mib 1";

const SCANS: &str = "{DEX} {DEX-CACHE} {AT-CACHE} {SKEWED} -p readproportion=0 -p updateproportion=0 -p insertproportion=0.05 \
                    -p scanproportion=0.95 -p minscanlength=100 -p maxscanlength=100 --operations 100000";

const MISSES: &str = "of 4 M keys a cache of this share of the leaves gets fewer of the accesses than of 200 M: 0.43 where the paper \
                      has 0.67, at any admission; with twice the cache 0.55";

const TRIPS: &str = "our Sherman READs once where the paper's READs three times (its Table 2), and more of our reads miss. With all \
                     leaves cached ours has 71 Mops/s, at 1.97 us of processor time an operation, which is fitted to Sherman's \
                     paper";

const FIFO: &str =
    "more of our reads miss. The paper's SMART spends 49 % of its time in its FIFO, which ours does not have";

const CHANGES: &str = "more of our operations miss";

const OWN_RANGES_READ: &str = "ranges of its own change nothing for our Sherman, which READs once with them and without; and more of \
                               our reads miss";

const OWN_RANGES_FIFO: &str = "as over SMART: more of our reads miss, and ours has no FIFO. With this cache it READs an inner node in half of its gets";

const OWN_RANGES_CHANGES: &str = "more of our operations miss; and our rivals lose less where nobody shares a lock: an update of our \
                                  P-Sherman takes 8.4 us at the median, a READ, a WRITE and the processor's time for three \
                                  round trips, and queues of lanes for the hottest leaves make its p99 of 130 us";

const FLUSHES: &str =
    "0.29 of leaves and 0.02 of the log: at this share of hits a leaf is changed 1.7 times between its flushes";

const MORE_THAN_A_LEAF: &str = "a get calls only where it would READ more than the leaf, and inner nodes are copied apart from \
                                leaves here";

const INNER_NODES: &str = "half of the operations are changes: one calls only if its leaf's address is known, and READs the inner nodes for that";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "DEX Figure 6 (a), read-only, over Sherman",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} --workload c {SKEWED} --operations 1000000",
        metric: Metric::TimesSherman,
        paper: 3.6,
        note: TRIPS,
    },
    Figure {
        title: "DEX Figure 6 (a), read-only, over SMART",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} --workload c {SKEWED} --operations 1000000",
        metric: Metric::TimesSmart,
        paper: 9.6,
        note: FIFO,
    },
    Figure {
        title: "DEX Figure 6 (a), read-only, over P-Sherman",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} --workload c {SKEWED} --operations 1000000",
        metric: Metric::TimesPSherman,
        paper: 2.5,
        note: OWN_RANGES_READ,
    },
    Figure {
        title: "DEX Figure 6 (a), read-only, over P-SMART",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} --workload c {SKEWED} --operations 1000000",
        metric: Metric::TimesPSmart,
        paper: 7.1,
        note: OWN_RANGES_FIFO,
    },
    Figure {
        title: "DEX Table 2, read-only, READs",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} --workload c {SKEWED} --operations 1000000",
        metric: Metric::RequestsPerOperation("READ"),
        paper: 0.33,
        note: MISSES,
    },
    Figure {
        title: "DEX Figure 6 (b), read-intensive, over Sherman",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} -p readproportion=0.95 -p updateproportion=0.05 {SKEWED} --operations 1000000",
        metric: Metric::TimesSherman,
        paper: 3.4,
        note: TRIPS,
    },
    Figure {
        title: "DEX Figure 6 (c), write-intensive, over Sherman",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::TimesSherman,
        paper: 9.6,
        note: CHANGES,
    },
    Figure {
        title: "DEX Figure 6 (c), write-intensive, over SMART",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::TimesSmart,
        paper: 7.0,
        note: CHANGES,
    },
    Figure {
        title: "DEX Figure 6 (c), write-intensive, over P-Sherman",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::TimesPSherman,
        paper: 7.0,
        note: OWN_RANGES_CHANGES,
    },
    Figure {
        title: "DEX Figure 6 (c), write-intensive, over P-SMART",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::TimesPSmart,
        paper: 4.4,
        note: "more of our operations miss, and ours has no FIFO",
    },
    Figure {
        title: "DEX Table 2, write-intensive, READs",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::RequestsPerOperation("READ"),
        paper: 0.33,
        note: CHANGES,
    },
    Figure {
        title: "DEX Table 2, write-intensive, WRITEs",
        options: "{DEX} {DEX-CACHE} {AT-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::RequestsPerOperation("WRITE"),
        paper: 0.19,
        note: FLUSHES,
    },
    Figure {
        title: "beyond the paper: DEX, write-intensive, answers at log, over Sherman",
        options: "{DEX} {DEX-CACHE} {WRITE} {SKEWED} --operations 1000000",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "a flight of the log for a group of lanes: what a death does not take back costs a fifth",
    },
    Figure {
        title: "DEX Figure 6 (e), scan-intensive, 100 records, over Sherman",
        options: SCANS,
        metric: Metric::TimesSherman,
        paper: 2.8,
        note: "our Sherman READs the leaves of a scan together; of ours some are cached",
    },
    Figure {
        title: "DEX Figure 6 (e), scan-intensive, 100 records, over P-Sherman",
        options: SCANS,
        metric: Metric::TimesPSherman,
        paper: 1.6,
        note: "as over Sherman: locks are a twentieth of this workload",
    },
    Figure {
        title: "DEX Figure 12, read-intensive, small cache, 4 processors a memory node over 1",
        options: "{OFFLOAD} {AT-CACHE} -p readproportion=0.95 -p updateproportion=0.05 {SKEWED} --operations 600000",
        metric: Metric::TimesOneCore,
        paper: 1.40,
        note: MORE_THAN_A_LEAF,
    },
    Figure {
        title: "DEX Figure 8 (a), write-intensive, small cache, over no offload",
        options: "{OFFLOAD} {AT-CACHE} {WRITE} {SKEWED} --operations 600000",
        metric: Metric::TimesNeverOffloaded,
        paper: 1.55,
        note: INNER_NODES,
    },
    Figure {
        title: "DEX Figure 8 (b), uniform, write-intensive, small cache, over no offload",
        options: "{OFFLOAD} {AT-CACHE} {WRITE} {UNIFORM} --operations 600000",
        metric: Metric::TimesNeverOffloaded,
        paper: 1.34,
        note: INNER_NODES,
    },
    Figure {
        title: "beyond the paper: DEX, read-only, small cache, over no offload",
        options: "{OFFLOAD} {AT-CACHE} --workload c {SKEWED} --operations 600000",
        metric: Metric::TimesNeverOffloaded,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "DEX Figure 5, read-intensive, small cache, 144 threads, over always offloading",
        options: "{OFFLOAD} {AT-CACHE} -p readproportion=0.95 -p updateproportion=0.05 {SKEWED} --operations 600000",
        metric: Metric::TimesAlwaysOffloaded,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "DEX Figure 5, read-intensive, small cache, 144 threads, over no offload",
        options: "{OFFLOAD} {AT-CACHE} -p readproportion=0.95 -p updateproportion=0.05 {SKEWED} --operations 600000",
        metric: Metric::TimesNeverOffloaded,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "DEX Figure 11 (a), read-intensive, a cache of 8 % over 1 %",
        options: "{CACHE-RATIO} {8-PERCENT} {AT-CACHE} -p readproportion=0.95 -p updateproportion=0.05 {SKEWED}",
        metric: Metric::TimesOnePercent,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "DEX Figure 11 (b), write-intensive, a cache of 8 % over 1 %",
        options: "{CACHE-RATIO} {8-PERCENT} {AT-CACHE} {WRITE} {SKEWED}",
        metric: Metric::TimesOnePercent,
        paper: f64::NAN,
        note: "",
    },
];
