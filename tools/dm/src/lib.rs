//! What the command `dm` is made of, beside its command line.
//!
//! | module | what it is |
//! |---|---|
//! | [`workload`] | YCSB: properties, standard workloads, draws of operations, self-checking keys and values, traces |
//! | [`keys`] | real keys from a file, for slots of fixed size |
//! | [`report`] | what a run found: latencies, round trips, bytes, memory; tables for people, JSON for machines |
//! | [`layout`] | golden layouts: listed, shown, checked, blessed |

pub mod keys;
pub mod layout;
pub mod report;
pub mod workload;
