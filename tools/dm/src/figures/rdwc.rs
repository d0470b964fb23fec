//! Read delegation and write combining (SMART section 4.4; CHIME section 4.3.3), on and off, in a Sherman: the workloads of
//! YCSB under Zipf 0.99, with 24 and with 64 clients on each compute node.

use super::{Figure, Metric};

/// Four compute nodes and a memory node, whose link is the limit.
pub(super) const CLUSTER: &str =
    "--profile cx6 --compute-nodes 4 --memory-nodes 1 --records 1000000 --without read-guard --with rdwc";

/// Why reads gain no more.
const SHARE: &str = "an answer must not be older than the call, so a read joins a batch only before its READ is posted. The hottest record \
                     draws 3.8 % of the operations: of 64 clients 2.4 want it at any time, of which one READs and one waits to READ \
                     next. Hardly any is left to be told; as published, both would be, by the READ that is under way. Batches \
                     that save less than they cost are left alone for a while";

const WRITES: &str =
    "the paper: 1.1 to 1.3 near saturation. Updates made by another lane are of the keys whose locks are waited for";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "RDWC on over off, A, 24 clients a compute node",
        options: "{RDWC} --threads 24 --workload a --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: WRITES,
    },
    Figure {
        title: "RDWC on over off, A, 64 clients",
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
        title: "RDWC on over off, B, 64 clients",
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
        title: "RDWC on over off, C, 64 clients",
        options: "{RDWC} --threads 64 --workload c --operations 200000",
        metric: Metric::TimesWithoutRdwc,
        paper: 1.1,
        note: "",
    },
];
