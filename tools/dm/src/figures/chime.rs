//! Figures of CHIME's paper (SOSP 2024, sections 5.2 to 5.5), beside Sherman in the same cluster.

use super::{Figure, Metric};

/// CHIME's cluster: ten compute nodes and a memory node, two coroutines a client, read delegation and write combining
/// for all indexes. As in the paper's programs, there is no guard against slow READs.
pub(super) const CLUSTER: &str =
    "--profile cx6 --compute-nodes 10 --memory-nodes 1 --lanes 2 --index chime --with rdwc --without read-guard";

/// 100 MB of cache each, 30 of them for the hotspot buffer.
pub(super) const HOTSPOT: &str = "--cache-mib 70 --hotspot-mib 30";

/// The same for an index without one.
pub(super) const NO_HOTSPOT: &str = "--cache-mib 100";

const RATE: &str = "both at the NIC's limit: CHIME at its rate of requests, Sherman at its link";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        title: "CHIME Figure 12, C, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 64 --workload c --operations 1000000",
        metric: Metric::TimesSherman,
        paper: 4.3,
        note: RATE,
    },
    Figure {
        title: "CHIME Figure 12, LOAD, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 32 --region-mib 1024 --operations 400000 \
                  -p readproportion=0 -p updateproportion=0 -p insertproportion=1",
        metric: Metric::TimesSherman,
        paper: 1.6,
        note: "inserts into bulk-loaded leaves, four fifths full: in so short a run CHIME's split 20 times as often as Sherman's. \
               And five requests an insert at the NIC's rate of requests, where Sherman has four at its link",
    },
    Figure {
        title: "CHIME Figure 12, D, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 56 --workload d --operations 500000",
        metric: Metric::TimesSherman,
        paper: 4.2,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, A, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 48 --workload a --operations 300000",
        metric: Metric::TimesSherman,
        paper: 2.2,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, B, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 48 --workload b --operations 500000",
        metric: Metric::TimesSherman,
        paper: 3.6,
        note: "",
    },
    Figure {
        title: "CHIME Figure 12, E, over Sherman",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 16 --workload e --operations 50000",
        metric: Metric::TimesSherman,
        paper: 1.2,
        note: "whole leaves in both, at the link: of 1408 B here, of 1024 B there, and hopscotch leaves take 6 B more a record. The \
               paper's program READs parts of leaves at the ends of a range, which takes integer keys without gaps",
    },
    Figure {
        title: "CHIME Figure 14, cache, 60 M records",
        options: "{CHIME} --cache-mib 100 --threads 64 --workload c --operations 200000 --records 60000000",
        metric: Metric::CacheMb,
        paper: 27.6,
        note: "bulk-loaded, so leaves are four fifths full; the paper's tree is made by inserts",
    },
    Figure {
        title: "CHIME Figure 17, C, without the hotspot buffer",
        options: "{CHIME} --records 4000000 --cache-mib 100 --threads 64 --workload c --operations 1000000",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "the paper: 1.2 x with it; 1.03 x here, where look-ups of neighborhoods are nearly at the NIC's rate of requests already",
    },
    Figure {
        title: "... with it",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 64 --workload c --operations 1000000",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "the rate of requests limits both: what is gained is the second READ of neighborhoods that go on at the first entry. The paper: up \
               to 1.2x",
    },
    Figure {
        title: "... looks it had a guess for",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 64 --workload c --operations 1000000",
        metric: Metric::GuessedPercent,
        paper: 81.0,
        note: "0.1 M look-ups a compute node warm no buffer; `cargo run --release -p dm-core --example hotspot_hits` runs as \
               many as the paper",
    },
    Figure {
        title: "... guesses that were right",
        options: "{CHIME} --records 4000000 {HOTSPOT} --threads 64 --workload c --operations 1000000",
        metric: Metric::RightPercent,
        paper: 100.0,
        note: "",
    },
    Figure {
        title: "CHIME section 4.2.1, leaves after random inserts, H = 8",
        options: "{CHIME} --cache-mib 100 --threads 16 --workload load --records 1000000 --region-mib 1024",
        metric: Metric::FullPercent,
        paper: f64::NAN,
        note: "the paper's 88 % is the load when a leaf splits; its program's leaves are 59 % full",
    },
    Figure {
        title: "... bytes of the pool per record",
        options: "{CHIME} --cache-mib 100 --threads 16 --workload load --records 1000000 --region-mib 1024",
        metric: Metric::LiveBytes,
        paper: f64::NAN,
        note: "the paper's program: 36.9 measured here",
    },
    Figure {
        title: "... without rearranging",
        options: "{CHIME} --cache-mib 100 --threads 16 --workload load --records 1000000 --region-mib 1024 --without rearrange",
        metric: Metric::FullPercent,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "... H = 16",
        options: "{CHIME} --cache-mib 100 --threads 16 --workload load --records 1000000 --region-mib 1024 --neighborhood 16",
        metric: Metric::FullPercent,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "CHIME Figure 18e, C, span 16",
        options: "{CHIME} --records 4000000 --cache-mib 100 --threads 32 --workload c --operations 400000 --leaf-span 16",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "seven of 16 homes' neighborhoods are two READs; the paper has this effect below 32, too",
    },
    Figure {
        title: "... span 512",
        options: "{CHIME} --records 4000000 --cache-mib 100 --threads 32 --workload c --operations 400000 --leaf-span 512",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "CHIME Figure 18f, C, H = 2",
        options: "{CHIME} --records 4000000 --cache-mib 100 --threads 32 --workload c --operations 400000 --region-mib 1024 --neighborhood 2",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "",
    },
    Figure {
        title: "... H = 16",
        options: "{CHIME} --records 4000000 --cache-mib 100 --threads 32 --workload c --operations 400000 --neighborhood 16",
        metric: Metric::Mops,
        paper: f64::NAN,
        note: "the paper: 1.1x less than H = 2; here 335 B and 1.2 READs a look-up, at the link",
    },
];
