//! What the command `dm` is made of.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | the command line: what each subcommand takes and does |
//! | `bench` | `dm bench`: load, warm up, run, check, report; the bare loop and the other indexes it is compared with |
//! | `churn` | `dm churn`: a pool written over many times, and whether its memory is reused |
//! | `figures` | `dm figures`: published figures, run again on the simulated cluster |
//! | `soak` | `dm soak`: compute processes killed and stopped at random, and what must be there afterwards |
//! | `tool` | what commands that work by hand share: a pool named on the command line, one lane |
//! | `members` | which compute nodes are in a pool, and which hold its locks |
//! | `pool` | memory nodes: started as child processes, or found by their sockets |
//! | `workload` | YCSB: properties, standard workloads, draws of operations, self-checking keys and values, traces |
//! | `kinds` | what the command line has to know of each kind of index |
//! | `notation` | keys and values as people write them |
//! | `keys` | real keys from a file, for slots of fixed size |
//! | [`rounds`] | rounds of operations that one process asks of another, to compare indexes |
//! | `progress` | how far a command is, on a terminal |
//! | `report` | what a run found: latencies, round trips, bytes, memory; tables for people, JSON for machines |
//! | [`layout`] | golden layouts: listed, shown, checked, blessed |
//! | [`picture`] | pictures: leaves with their bytes, requests in time, rooms and imports |
//! | `top` | `dm top`: what a pool does now, again and again |
//! | `failure` | why a command ends early |

mod abreast;
mod bench;
mod churn;
pub mod commands;
mod failure;
mod figures;
pub mod keys;
mod kinds;
pub mod layout;
mod members;
mod notation;
pub mod picture;
mod pool;
mod progress;
mod report;
pub mod rounds;
mod soak;
mod tool;
mod top;
pub mod workload;
