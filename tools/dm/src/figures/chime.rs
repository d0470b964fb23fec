//! Figures of CHIME's paper (SOSP 2024, sections 5.2 to 5.5), beside Sherman in the same cluster.

use super::{Figure, Metric};

/// CHIME's cluster: ten compute nodes and a memory node, two coroutines a client, read delegation and write combining for all; as
/// the paper's programs, without a guard against slow READs.
pub(super) const CLUSTER: &str = "--profile cx6 --compute-nodes 10 --memory-nodes 1 --lanes 2 --index chime --with rdwc \
                                  --without read-guard --records 4000000";

/// 100 MB of cache each, 30 of them for the hotspot buffer.
pub(super) const HOTSPOT: &str = "--cache-mib 70 --hotspot-mib 30";

/// The same for an index without one.
pub(super) const NO_HOTSPOT: &str = "--cache-mib 100";

const RATE: &str = "both at the NIC's limit: CHIME at its rate of requests, Sherman at its link";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "CHIME Figure 12, C, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 64 --workload c --operations 1000000",
        metric: Metric::TimesSherman,
        paper: 4.3,
        note: RATE,
    },
    Figure {
        title: "CHIME Figure 12, LOAD, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 32 --workload load --records 1000000",
        metric: Metric::TimesSherman,
        paper: 1.6,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, D, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 56 --workload d --operations 500000",
        metric: Metric::TimesSherman,
        paper: 4.2,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, A, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 48 --workload a --operations 300000",
        metric: Metric::TimesSherman,
        paper: 2.2,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, B, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 48 --workload b --operations 500000",
        metric: Metric::TimesSherman,
        paper: 3.6,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, E, over Sherman",
        options: "{CHIME} {HOTSPOT} --threads 16 --workload e --operations 50000",
        metric: Metric::TimesSherman,
        paper: 1.2,
        note: "",
    },
];
