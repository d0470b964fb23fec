//! Read delegation and write combining (SMART section 4.4; CHIME section 4.3.3), on and off, in a Sherman: the workloads of
//! YCSB under Zipf 0.99, with 24 and with 64 clients on each compute node.

use super::{Figure, Metric};

/// Four compute nodes and a memory node, whose link is the limit.
pub(super) const CLUSTER: &str =
    "--profile cx6 --compute-nodes 4 --memory-nodes 1 --records 1000000 --without read-guard --with rdwc";

/// Why reads gain no more.
const SHARE: &str = "what is gained is what is not READ: one in 31 look-ups of 64 clients, one in 119 of 24, takes another one's result, and at \
                     the link's limit throughput is that much higher. More would need more clients that want one key at one \
                     time: the hottest record draws 3.8 % of the operations, and a READ is under way for 20 us";

const WRITES: &str = "the paper: 1.1 to 1.3 near saturation. One update in 31 (24 clients) or 16 (64) is made by another lane, and those are \
                      of the keys whose locks are waited for: p99 of updates falls from 370 to 52 us, and from 1595 to 297";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "RDWC on over off, A, 24 clients a compute node",
        options: "{RDWC} --threads 24 --workload a --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: WRITES,
    },
    Figure {
        title: "... A, 64 clients",
        options: "{RDWC} --threads 64 --workload a --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: "",
    },
    Figure {
        title: "RDWC on over off, B, 24 clients",
        options: "{RDWC} --threads 24 --workload b --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "... B, 64 clients",
        options: "{RDWC} --threads 64 --workload b --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "RDWC on over off, C, 24 clients",
        options: "{RDWC} --threads 24 --workload c --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: SHARE,
    },
    Figure {
        title: "... C, 64 clients",
        options: "{RDWC} --threads 64 --workload c --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: "",
    },
];
