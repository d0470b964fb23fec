//! The tests of the conformance suite.
//!
//! | module | what it is about |
//! |---|---|
//! | [`operations`] | every operation, every outcome, every technique |
//! | [`model`] | random operations against a `BTreeMap` |
//! | [`scans`], [`bulk`] | pages, bounds, limits; bulk loads |
//! | [`exhaustion`] | full pools, memory that is reused |
//! | [`bounds`] | deadlines, retries, memory nodes that are down |
//! | [`failures`] | the k-th submit fails, for every k |
//! | [`abandon`] | the future is dropped at the k-th submit, for every k; waiters that leave their queue |
//! | [`garbage`] | memory of any content |
//!
//! Many lanes of several compute nodes, under every order and fault that a fabric may have, are the business of the
//! judge, which checks every answer: `dm verify`.

pub mod abandon;
pub mod bounds;
pub mod bulk;
pub mod exhaustion;
pub mod failures;
pub mod garbage;
pub mod model;
pub mod operations;
pub mod scans;

use crate::client::Client;
use dm_core::operation::OperationKind;
use proptest::test_runner::{Config, TestRunner};

/// A runner of `cases` cases that leaves no files behind: what failed is printed, shrunk.
pub fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() })
}

/// Inserts keys `0, step, 2 * step, ...` below `end` with their number as stamp, in an order that is neither ascending
/// nor random.
pub fn fill(client: &mut Client<'_, '_>, end: u64, step: u64) {
    let count = end.div_ceil(step);
    // A stride that shares no factor with the count visits all.
    let stride = (count * 5 / 8..2 * count).find(|stride| gcd(*stride, count) == 1).unwrap_or(1);
    for i in 0..count {
        let n = i * stride % count * step;
        client.ask(OperationKind::Insert, n, n as u32, 0);
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
