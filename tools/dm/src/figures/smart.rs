//! Figures of SMART's paper (OSDI 2023, sections 5.2 to 5.5), beside Sherman in the same cluster, and CHIME's beside SMART.

use super::{Figure, Metric};

/// SMART, with read delegation and write combining.
pub(super) const INDEX: &str = "--index smart --with rdwc";

/// The index it is compared with: a Sherman with leaves of 32 entries, without read delegation and write combining.
pub(super) const AS_SHERMAN: &str = "--index sherman --leaf-span 32";

/// New nodes have a reserve. The index it is compared with has no such thing.
pub(super) const RESERVE: &str = " --node-slots 8";

/// SMART's cluster: sixteen compute nodes and two memory nodes, two coroutines a client, caches that hold all nodes. As
/// in the paper's programs, there is no guard against slow READs.
pub(super) const CLUSTER: &str = "--profile cx6 --compute-nodes 16 --memory-nodes 2 --lanes 2 --index smart --with rdwc \
                                  --without read-guard --records 1000000 --cache-mib 128";

/// The same without coroutines.
pub(super) const SCANS: &str = "--profile cx6 --compute-nodes 16 --memory-nodes 2 --lanes 1 --index smart --with rdwc \
                                --without read-guard --records 1000000 --cache-mib 128 --leaves-at-once 8";

/// CHIME's 100 MB for 60 M records, scaled to 4 M; 30 % of it for the hotspot buffer.
pub(super) const SCALED: &str = "--records 4000000 --cache-mib 5 --hotspot-mib 2";

/// The same for an index without one.
pub(super) const SCALED_WHOLE: &str = "--records 4000000 --cache-mib 7";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "SMART, cached look-ups without delegation, of the NIC's rate, cx6",
        options: "--profile cx6 --compute-nodes 10 --memory-nodes 1 --threads 64 --index smart --records 1000000 --cache-mib 64 \
                  --workload c {UNIFORM} --operations 500000",
        metric: Metric::RatePercent,
        paper: 100.0,
        note: "",
    },
    Figure {
        title: "... cx5",
        options: "--profile cx5 --compute-nodes 10 --memory-nodes 1 --threads 64 --index smart --records 1000000 --cache-mib 64 \
                  --workload c {UNIFORM} --operations 500000",
        metric: Metric::RatePercent,
        paper: 100.0,
        note: "",
    },
    Figure {
        title: "... cx7-200g",
        options: "--profile cx7-200g --compute-nodes 20 --memory-nodes 1 --threads 64 --index smart --records 1000000 \
                  --cache-mib 64 --workload c {UNIFORM} --operations 1000000",
        metric: Metric::RatePercent,
        paper: 100.0,
        note: "",
    },
    Figure {
        title: "SMART Figure 14, C, over Sherman",
        options: "{SMART} --threads 48 --workload c --operations 1500000",
        metric: Metric::TimesSherman,
        paper: 2.8,
        note: "",
    },
    Figure {
        title: "SMART Figure 14, A, over Sherman",
        options: "{SMART} --threads 48 --workload a --operations 500000",
        metric: Metric::TimesSherman,
        paper: 6.1,
        note: "at the NIC's rate of requests, 4.9 an update; our Sherman hands locks over and backs off, and what the paper's came to is \
               not told in numbers",
    },
    Figure {
        title: "... with unlocks by WRITE and READs chained to locks, which the paper has not",
        options: "{NOT-PAPERS} {SMART} --threads 48 --workload a --operations 500000",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "3.1 requests an update: the CAS of the lock, the READ in its chain, and a WRITE of value and lock. Sherman waits for \
               locks of hot leaves, with either",
    },
    Figure {
        title: "SMART Figure 14, LOAD, over Sherman",
        options: "{SMART} --threads 48 --region-mib 512 --operations 500000 -p readproportion=0 -p updateproportion=0 \
                  -p insertproportion=1",
        metric: Metric::TimesSherman,
        paper: 1.6,
        note: "a full node is frozen, a CAS a slot, and replaced, where the paper's grows in place with two CASes: 1.3 requests an insert to \
               freeze, and READs of what others have replaced",
    },
    Figure {
        title: "... of nodes with a reserve",
        options: "{SMART} --threads 48 --region-mib 512 --operations 500000 -p readproportion=0 -p updateproportion=0 \
                  -p insertproportion=1 --node-slots 8",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "0.5 requests an insert to freeze, since the bulk load leaves a quarter of each node free: 51.9 B of the pool a record \
               after it, and 46.7 without; after the inserts 72 B and 162",
    },
    Figure {
        title: "SMART Figure 14, D, over Sherman",
        options: "{SMART} --threads 48 --workload d --operations 500000",
        metric: Metric::TimesSherman,
        paper: 2.4,
        note: "each compute node finds out by itself about every new record that it looks for: 1.4 READs a look-up, one of them a node. Our \
               Sherman does not suffer from 5 % of inserts",
    },
    Figure {
        title: "SMART Figure 17, E, over Sherman, values of 8 B",
        options: "{SCANS} --threads 8 --workload e --operations 20000",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "at the link: a scan trusts no copy and READs 7.8 nodes of 640 B, and leaves in 9.8 READs. The paper: Sherman ahead",
    },
    Figure {
        title: "... of 256 B",
        options: "{SCANS} --threads 8 --workload e --operations 20000 --value-bytes 256",
        metric: Metric::TimesSherman,
        paper: f64::NAN,
        note: "the paper: SMART ahead above 64 B",
    },
    Figure {
        title: "CHIME Figure 12, C, over SMART",
        options: "{CHIME} {SCALED} --threads 64 --workload c --operations 1000000",
        metric: Metric::TimesSmart,
        paper: 5.1,
        note: "both at the NIC's rate of requests: two READs a look-up here, as a key's nodes are one or two levels below what is copied; \
               60 M keys have a level more",
    },
    Figure {
        title: "CHIME Figure 12, A, over SMART",
        options: "{CHIME} {SCALED} --threads 48 --workload a --operations 300000",
        metric: Metric::TimesSmart,
        paper: 2.5,
        note: "as C",
    },
    Figure {
        title: "CHIME Figure 12, LOAD, over SMART",
        options: "{CHIME} {SCALED} --threads 32 --region-mib 1024 --operations 400000 -p readproportion=0 -p updateproportion=0 \
                  -p insertproportion=1",
        metric: Metric::TimesSmart,
        paper: 1.2,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, E, over SMART",
        options: "{CHIME} {SCALED} --threads 16 --workload e --operations 50000",
        metric: Metric::TimesSmart,
        paper: 2.5,
        note: "leaves that lie in a row, as bulk-loaded ones do, take one READ",
    },
    Figure {
        title: "SMART Figure 20, cache, 60 M records",
        options: "--profile cx6 --compute-nodes 1 --memory-nodes 1 --threads 64 --index smart --records 60000000 --cache-mib 1024 \
                  --workload c --operations 200000",
        metric: Metric::CacheMb,
        paper: 503.0,
        note: "every byte counted, of copies that lead to every leaf. Of 60 M random keys 15 M nodes have four slots on average, in \
               records of a head of 16 bytes and 8 a slot: 0.78 GB; the levels above them, mostly full, are 0.22 GB; the rest is the \
               table that finds them. The paper's figure is about eight bytes a record",
    },
];
