//! Range indexes on disaggregated memory, as algorithms that emit verb requests.
//!
//! This crate is deterministic: no I/O, no clock, no allocation, no randomness of its own, no unsafe code. It knows what
//! every remote byte means and what every operation does, and meets the world only through *requests* and
//! *completions*. The same code runs on a workstation over shared memory, on RDMA hosts, in a simulator, and on bare
//! metal.
//!
//! # The map, in order of reading
//!
//! | room | what it is |
//! |---|---|
//! | [`verbs`] | the vocabulary: requests, chains, completions, what a fabric offers and what can be relied upon |
//! | [`port`] | the mailbox between one operation and its driver; awaiting a submit is one round trip |
//! | [`lane`] | one operation in flight, and what outlives its future |
//! | [`machine`] | an operation driven by hand: for firmware, C and tests |
//! | [`error`] | errors per layer; what a failed operation did nevertheless |
//! | [`index`] | the trait every index implements, its operations and what they promise |
//! | [`layout`] | bit-exact building blocks: cache-line versions, field maps |
//! | [`remote`] | what every pool has: addresses, superblock, rows, catalog, chunk table, lock words |
//! | [`compute`] | what the lanes of a compute node share: index cache, lock queues, ready nodes |
//! | [`btree`] | what B+-trees share: nodes, locks, descent, linking of splits, root growth |
//! | [`recovery`] | what a death costs: leases, fencing, takeover, redo |
//! | [`reclaim`] | memory that comes back: whose a place is, and what happens to that of the gone |
//! | [`sherman`] | the first index: a write-optimised B+-tree |
//! | [`chime`] | a B+-tree whose leaves are hopscotch tables, READ by neighborhoods |
//! | [`items`] | keys and values of any length over an index of fixed sizes |
//! | [`radix`] | what radix trees share: slots, nodes, their space, copies of nodes |
//! | [`smart`] | an adaptive radix tree whose items are READ one by one |
//! | [`planted`] | bugs on purpose, for those who try the judge; not in any product |
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
pub mod error;
pub mod index;
pub mod items;
pub mod lane;
pub mod layout;
pub mod machine;
pub mod planted;
pub mod port;
pub mod radix;
pub mod reclaim;
pub mod recovery;
pub mod remote;
pub mod sherman;
pub mod smart;
pub mod verbs;
