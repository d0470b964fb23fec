//! The cache against models, with full storage, with nonsense as input, and with several threads.

extern crate std;
use super::*;
use crate::verbs::NodeId;
use std::vec::Vec;

mod concurrency;
mod eviction;
mod routes;
mod storage;
mod untrusted;

fn storage(words: usize) -> Vec<AtomicU32> {
    // Not zero: the cache must not rely on the content of its storage.
    (0..words as u32).map(|i| AtomicU32::new(i.wrapping_mul(0x9E37_79B9) | 1)).collect()
}

/// Words for exactly `frames` frames.
fn words_for_frames(frames: usize, key_bytes: usize, children_max: usize) -> usize {
    let shape = Shape::new(key_bytes, children_max);
    Plan::with(frames, &shape).words(&shape)
}

struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn at(line: u64) -> Address {
    Address::new(NodeId((line % 3) as u16), line * 64, (line % 5) as u8)
}

#[derive(Clone, Debug)]
struct Node {
    level: u8,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    separators: Vec<Vec<u8>>,
    children: Vec<Address>,
}

impl Branch for Node {
    fn level(&self) -> u8 {
        self.level
    }
    fn low(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.low);
    }
    fn high(&self, out: &mut [u8]) -> bool {
        if let Some(high) = &self.high {
            out.copy_from_slice(high);
        }
        self.high.is_some()
    }
    fn children(&self) -> usize {
        self.children.len()
    }
    fn child(&self, i: usize) -> Address {
        self.children[i]
    }
    fn separator(&self, i: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.separators[i - 1]);
    }
}

/// A node of 8-byte keys.
fn node(level: u8, low: u64, high: Option<u64>, separators: &[u64], first_child: u64) -> Node {
    let bytes = |key: u64| key.to_be_bytes().to_vec();
    Node {
        level,
        low: bytes(low),
        high: high.map(bytes),
        separators: separators.iter().copied().map(bytes).collect(),
        children: (0..=separators.len() as u64).map(|i| at(first_child + i)).collect(),
    }
}

fn route_to(cache: &IndexCache<'_>, root: Address, level: u8, key: u64) -> Route {
    cache.route(root, level, 0, &key.to_be_bytes(), 0)
}
