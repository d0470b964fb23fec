//! Figures of Dolphin's paper (MSST 2024, sections IV-B to IV-F), beside Sherman and SMART in the same cluster.
//!
//! The paper has 512 M records and prints ranges over several rivals where a ratio to one of them is wanted. The larger
//! end is taken for Sherman in Figures 6 and 7, as its text does at 800 MB of cache (1.51 and 1.32). Its keys are taken
//! to be integers without gaps: its table of memory fits no others.

use super::{Figure, Metric};

/// Dolphin's cluster: four compute nodes with 18 threads each and four memory nodes, one client a thread. As in the
/// papers' programs, there is no guard against slow READs, and a lost lock is tried again at once.
pub(super) const CLUSTER: &str = "--profile cx5 --compute-nodes 4 --memory-nodes 4 --threads 18 --index dolphin \
                                  --without read-guard,back-off";

/// 2 M dense keys, and the paper's 2000 MB of cache for 512 M scaled as the records are.
pub(super) const DENSE: &str = "--records 2097152 --cache-mib 8 -p insertorder=ordered";

/// Trees made by inserts in a scattered order, as the paper's are; the same cache.
pub(super) const INSERTED: &str = "--records 1048576 --cache-mib 4 -p insertorder=shuffled";

/// 8 M dense keys, so that small caches can be scaled to whole MiB.
pub(super) const CACHES: &str = "--records 8388608 -p insertorder=ordered";

/// The paper's 50 MB of cache, scaled to 8 M records.
pub(super) const QUARTER: &str = "--region-mib 192 --cache-mib 1";

/// Its 200 MB, which what is compared with [`QUARTER`] has.
pub(super) const WHOLE: &str = "--region-mib 192 --cache-mib 4";

/// The hottest keys side by side, as the paper's program draws them.
pub(super) const ADJACENT: &str = "-p requestdistribution=zipfian -p zipfianmeaning=ranked";

/// The hottest keys scattered.
pub(super) const SCATTERED: &str = "-p requestdistribution=zipfian -p zipfianmeaning=ycsb";

/// 100 records a scan.
pub(super) const SCAN: &str = "--load-by insert --leaves-at-once 8 --operations 50000 -p requestdistribution=uniform \
                               -p readproportion=0 -p updateproportion=0 -p minscanlength=100 -p maxscanlength=100";

/// What [`Figure`]s of Table II run: one compute node. Its cache holds all, and is not much larger: a cache's hash
/// table takes a share of what the cache may take, whatever is in it.
pub(super) const TABLE: &str = "--profile cx5 --compute-nodes 1 --memory-nodes 4 --threads 18 --records 16777216 \
                                --region-mib 512 -p insertorder=ordered --workload c --operations 100000";

const HOT_LEAF: &str = "the hottest keys are in one leaf, whose exclusive lock all updates of them wait for: 2.2 lost CASes an \
                        update, 5.0 round trips. Dolphin's updates share their leaf, with 2.0. Hot keys scattered, or less \
                        skewed, the ratio is the paper's; its distribution can hardly have been this one";

const TWO_TRIPS: &str = "a Sherman that chains CAS and READ";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys adjacent, p50",
        options: "{DOLPHIN} {DENSE} {WRITE} {ADJACENT} --operations 300000",
        metric: Metric::LatencyUs(0.5),
        paper: 5.5,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys adjacent, over Sherman",
        options: "{DOLPHIN} {DENSE} {WRITE} {ADJACENT} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.45,
        note: HOT_LEAF,
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys adjacent, over SMART",
        options: "{DOLPHIN} {DENSE} {WRITE} {ADJACENT} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 1.25,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys adjacent, over Sherman of 2 round trips",
        options: "{DOLPHIN} {DENSE} {WRITE} {ADJACENT} --operations 300000 --with chain-lock-read",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: TWO_TRIPS,
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys scattered, p50",
        options: "{DOLPHIN} {DENSE} {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::LatencyUs(0.5),
        paper: 5.5,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys scattered, over Sherman",
        options: "{DOLPHIN} {DENSE} {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.45,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys scattered, over SMART",
        options: "{DOLPHIN} {DENSE} {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 1.25,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (a), A, hot keys scattered, over Sherman of 2 round trips",
        options: "{DOLPHIN} {DENSE} {WRITE} {SCATTERED} --operations 300000 --with chain-lock-read",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "most of the gain is the round trip that chaining saves Sherman, too",
    },
    Figure {
        title: "Dolphin Figure 7 (b), C, hot keys adjacent, over Sherman",
        options: "{DOLPHIN} {DENSE} --workload c {ADJACENT} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (b), C, hot keys scattered, over Sherman",
        options: "{DOLPHIN} {DENSE} --workload c {SCATTERED} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (c), LOAD, over Sherman",
        options: "{DOLPHIN} {INSERTED} --workload load",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 7 (c), LOAD, over SMART",
        options: "{DOLPHIN} {INSERTED} --workload load",
        metric: Metric::TimesSmart,
        paper: 1.54,
        note: "the paper: its SMART loses the copy of a node by every insert into it. Ours corrects the slot in the copy: 2.3 \
               round trips an insert, as Dolphin's. Without any cache it has 4.1 and 4.6 Mops/s: then 1.40 x",
    },
    Figure {
        title: "Dolphin Figure 8, range-only, 100 records, over Sherman",
        options: "{DOLPHIN} {INSERTED} {SCAN} -p scanproportion=1",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: "ours of Sherman has 1.6 round trips a scan, where Dolphin's has 1.0",
    },
    Figure {
        title: "Dolphin Figure 8, range-only, 100 records, over SMART",
        options: "{DOLPHIN} {INSERTED} {SCAN} -p scanproportion=1",
        metric: Metric::TimesSmart,
        paper: 22.4,
        note: "100 READs of a leaf each in both, but ours posts them 32 at once and has 11.5 round trips, 65 us. The paper's looks \
               into its cache once for each record, 1 to 2 us each; 22.4 times our Dolphin's 7.3 us is 164 us. With 4 READs at \
               once (--leaves-at-once 1): 29.7 round trips, 13.9 x",
    },
    Figure {
        title: "Dolphin Figure 8, range-write, 100 records, over Sherman",
        options: "{DOLPHIN} {INSERTED} {SCAN} -p scanproportion=0.5 -p insertproportion=0.5",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "the paper: Sherman a little slower than range-only, the others a little faster. Here Dolphin is slower, too: an \
               insert takes longer (p50 9.0 us) than a scan (7.0 us)",
    },
    Figure {
        title: "Dolphin Figure 8, range-write, 100 records, over SMART",
        options: "{DOLPHIN} {INSERTED} {SCAN} -p scanproportion=0.5 -p insertproportion=0.5",
        metric: Metric::TimesSmart,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 6 (a), A, 800 MB, hot keys scattered, over SMART",
        options: "{DOLPHIN} --records 2097152 --cache-mib 3 -p insertorder=ordered {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 1.32,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 6 (a), A, a quarter of the cache, hot keys adjacent, over Sherman",
        options: "{DOLPHIN} {CACHES} {QUARTER} {WRITE} {ADJACENT} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: HOT_LEAF,
    },
    Figure {
        title: "Dolphin Figure 6 (a), A, a quarter of the cache, hot keys adjacent, over SMART",
        options: "{DOLPHIN} {CACHES} {QUARTER} {WRITE} {ADJACENT} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 1.0,
        note: "few nodes lead to hot keys side by side, and both have them in so small a cache: what is left is the ratio \
               of Figure 7 (a)",
    },
    Figure {
        title: "Dolphin Figure 6 (a), A, a quarter of the cache, hot keys scattered, over Sherman",
        options: "{DOLPHIN} {CACHES} {QUARTER} {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.0,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 6 (a), A, a quarter of the cache, hot keys scattered, over SMART",
        options: "{DOLPHIN} {CACHES} {QUARTER} {WRITE} {SCATTERED} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 1.0,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 6 (c), A, uniform, 200 MB, over Sherman",
        options: "{DOLPHIN} {CACHES} {WHOLE} {WRITE} {UNIFORM} --operations 300000",
        metric: Metric::TimesSherman,
        paper: 1.16,
        note: "",
    },
    Figure {
        title: "Dolphin Figure 6 (c), A, uniform, 200 MB, over SMART",
        options: "{DOLPHIN} {CACHES} {WHOLE} {WRITE} {UNIFORM} --operations 300000",
        metric: Metric::TimesSmart,
        paper: 3.26,
        note: "SMART's cache has a twentieth of the nodes above leaves: look-ups of 2.0 round trips, updates of 3.9, where \
               Dolphin's have 1.0 and 2.0. In the paper its cache must have lacked more levels",
    },
    Figure {
        title: "Dolphin Table II, Dolphin, cache, 16 M records",
        options: "--index dolphin --cache-mib 8 {TABLE}",
        metric: Metric::CacheMb,
        paper: 10.49,
        note: "16 B a leaf: copies of nodes of 8 slots, of which the five leaves of 256 keys use five",
    },
    Figure {
        title: "Dolphin Table II, Dolphin, pool, a record",
        options: "--index dolphin --cache-mib 8 {TABLE}",
        metric: Metric::PoolBytes,
        paper: 27.3,
        note: "a bulk load fills leaves with the 51 or 52 records that 256 keys leave to each of five",
    },
    Figure {
        title: "Dolphin Table II, Dolphin, nodes in use, a record, made by inserts",
        options: "{DOLPHIN} {INSERTED} --workload load",
        metric: Metric::LiveBytes,
        paper: 27.3,
        note: "splits at the boundary nearest the median of dense keys end with the same leaves",
    },
    Figure {
        title: "Dolphin Table II, Sherman, cache, 16 M records",
        options: "--index sherman --cache-mib 16 {TABLE}",
        metric: Metric::CacheMb,
        paper: 15.07,
        note: "22 B a leaf: inner nodes of a bulk load are four fifths full",
    },
    Figure {
        title: "Dolphin Table II, Sherman, pool, a record",
        options: "--index sherman --cache-mib 16 {TABLE}",
        metric: Metric::PoolBytes,
        paper: 23.4,
        note: "",
    },
    Figure {
        title: "Dolphin Table II, SMART, cache, 16 M records",
        options: "--index smart --cache-mib 256 {TABLE}",
        metric: Metric::CacheMb,
        paper: 170.4,
        note: "",
    },
    Figure {
        title: "Dolphin Table II, SMART, pool, a record",
        options: "--index smart --cache-mib 256 {TABLE}",
        metric: Metric::PoolBytes,
        paper: 304.7,
        note: "a leaf of 32 B and its slot of 8 B. The paper puts its 156 GB down to issues with memory management",
    },
];
