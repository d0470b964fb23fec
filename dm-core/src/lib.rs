//! Range indexes on disaggregated memory, as algorithms that emit verb requests.
//!
//! This crate is deterministic: no I/O, no clock, no allocation, no randomness of its own, no unsafe code. It knows
//! what every remote byte means and what every operation does, and meets the world only through *requests* and
//! *completions*. The same code runs on a workstation over shared memory, on RDMA hosts, in a simulator, and on bare
//! metal.
//!
//! # The map, from the ground up
//!
//! A file imports from its own room and from rooms that stand above it in this table; a test holds the imports against
//! it.
//!
//! | room | what it is |
//! |---|---|
//! | [`manual`] | no code: the glossary, and the proofs behind the rules of the other rooms, one page each |
//! | [`verbs`] | the vocabulary: requests, chains, completions, what a fabric offers and what can be relied upon |
//! | [`error`] | errors of verbs and of decoding |
//! | [`marks`] | things worth counting |
//! | [`mutants`] | bugs put in on purpose, to test the judge; not in any product |
//! | [`port`] | the mailbox between one operation and its driver; awaiting a submit is one round trip |
//! | [`machine`] | an operation driven by hand: for firmware, C and tests |
//! | [`layout`] | bit-exact building blocks: cache-line versions, field maps, fixed structures |
//! | [`remote`] | what every pool has, as stored: addresses, superblock, rows, catalog, chunk table, lock words |
//! | [`operation`] | what can be asked of an index, how it ends, and where arguments and results lie |
//! | [`registry`] | the kinds of indexes in this program, and what their parameters have in common |
//! | [`lane`] | one operation in flight, and what outlives its future |
//! | [`fabric`] | the trait of those that execute requests |
//! | [`memory`] | memory granted by a pool: chunks, free lists, epochs, what a departed compute node leaves |
//! | [`membership`] | which compute nodes live: rows, leases, fencing, redo records |
//! | [`locks`] | how a lock is acquired, handed over and released: local queues, and one protocol for all indexes |
//! | [`recovery`] | what follows a death: a lock is taken over, a row is swept |
//! | [`compute`] | what the lanes of a compute node share: index cache, batches, hotspot buffer |
//! | [`pages`] | leaves that this compute node owns, cached dirty and written back |
//! | [`index`] | the trait every index implements, how operations run, and the catalog of a pool's indexes |
//! | [`btree`] | what B+-trees share: nodes, locks, the leaf level and its router, scans, merges |
//! | [`radix`] | what radix trees share: slots, nodes, their space and copies; descents, new leaves, walks |
//! | [`sherman`] | a write-optimised B+-tree |
//! | [`chime`] | a B+-tree whose leaves are hopscotch tables, READ by neighborhoods |
//! | [`smart`] | an adaptive radix tree whose items are READ one by one |
//! | [`dolphin`] | an adaptive radix tree over leaves of many records, with shared writers in a leaf |
//! | [`dex`] | partitions of keys with owners, which cache leaves, dirty, and log their changes |
//! | `toy` | a sorted array under one lock, which shows what a kind needs; only in builds with the feature `toy` |
//! | [`items`] | keys and values of any length over an index of fixed sizes |
//! | [`rooms`] | what the rooms declare, put together: marks and mutants |
//!
//! # Driving an operation
//!
//! ```text
//!   future = index.execute(lane, operation)        arguments are in the lane's scratch
//!   loop:  poll the future once
//!          Requests -> port.begin() takes the scratch; execute port.requests(); port.complete(..); port.finish(..)
//!          Done     -> the outcome; results are in the scratch
//! ```
//!
//! `examples/static_memory.rs` does so with static memory only.
#![no_std]
#![forbid(unsafe_code)]

pub mod btree;
pub mod chime;
pub mod compute;
pub mod dex;
pub mod dolphin;
pub mod error;
pub mod fabric;
pub mod index;
pub mod items;
pub mod lane;
pub mod layout;
pub mod locks;
pub mod machine;
pub mod manual;
pub mod marks;
pub mod membership;
pub mod memory;
pub mod mutants;
pub mod operation;
pub mod pages;
pub mod port;
pub mod radix;
pub mod recovery;
pub mod registry;
pub mod remote;
pub mod rooms;
pub mod sherman;
pub mod smart;
#[cfg(test)]
mod tests;
pub mod toy;
pub mod verbs;

pub use dex::offload;
