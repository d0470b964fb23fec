//! What the command `dm` is made of.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | the command line: what each subcommand takes and does |
//! | [`mod@bench`] | `dm bench`: load, warm up, run, check, report; the bare loop it is compared with |
//! | [`churn`] | `dm churn`: a pool written over many times, and whether its memory comes back |
//! | [`figures`] | `dm figures`: published figures, run again on the simulated cluster |
//! | [`soak`] | `dm soak`: compute processes killed and stopped at random, and what must be there afterwards |
//! | [`tool`] | what commands that work by hand share: a pool named on the command line, one lane, text for keys and values |
//! | `members` | which compute nodes are in a pool, and which hold its locks |
//! | [`pool`] | memory nodes: started as child processes, or found by their sockets |
//! | [`workload`] | YCSB: properties, standard workloads, draws of operations, self-checking keys and values, traces |
//! | [`keys`] | real keys from a file, for slots of fixed size |
//! | [`report`] | what a run found: latencies, round trips, bytes, memory; tables for people, JSON for machines |
//! | [`layout`] | golden layouts: listed, shown, checked, blessed |
//! | [`failure`] | why a command ends early |

pub mod bench;
pub mod churn;
pub mod commands;
pub mod failure;
pub mod figures;
pub mod keys;
pub mod layout;
mod members;
pub mod pool;
pub mod report;
pub mod soak;
pub mod tool;
pub mod workload;
