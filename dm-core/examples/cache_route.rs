//! What one [`IndexCache::route`] costs.
//!
//! ```text
//! cargo run --release -p dm-core --example cache_route [-- <records> [<cached share> [<key bytes>]]]
//! ```
//!
//! A tree of 8-byte keys (longer ones end in zeros), 61 children per inner node and 40 records per leaf, all of it cached (or a share of it, to
//! see misses and evictions). *Apart*: one route after another, which the processor overlaps. *Chained*: each key depends
//! on the route before, as an operation depends on its route; this is the latency.

use dm_core::compute::cache::{Branch, IndexCache, KEY_BYTES_MAX, Route};
use dm_core::remote::address::Address;
use dm_core::verbs::NodeId;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

const CHILDREN_MAX: usize = 61;
const LEAF_RECORDS: u64 = 40;
const ROUNDS: u64 = 200;
const ROUTES: u64 = 10_000;

struct Node {
    level: u8,
    /// Smallest key of each child; the first is the low fence.
    keys: Vec<u64>,
    high: Option<u64>,
    children: Vec<Address>,
}

impl Branch for Node {
    fn level(&self) -> u8 {
        self.level
    }
    fn low(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.keys[0].to_be_bytes());
    }
    fn high(&self, out: &mut [u8]) -> bool {
        out[..8].copy_from_slice(&self.high.unwrap_or(0).to_be_bytes());
        self.high.is_some()
    }
    fn children(&self) -> usize {
        self.children.len()
    }
    fn child(&self, i: usize) -> Address {
        self.children[i]
    }
    fn separator(&self, i: usize, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.keys[i].to_be_bytes());
    }
}

/// Spreads record numbers over the key space, as YCSB's hashed keys do; a bijection.
fn key_of(record: u64) -> u64 {
    let mut x = record.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

struct Tree {
    key_bytes: usize,
    nodes: Vec<(Address, Node)>,
    root: Address,
    root_level: u8,
}

fn grow(records: u64, key_bytes: usize) -> Tree {
    let mut sorted: Vec<u64> = (0..records).map(key_of).collect();
    sorted.sort_unstable();
    let mut next = 1 << 20;
    let mut place = |bytes: u64| {
        next += bytes;
        Address::new(NodeId((next >> 20 & 7) as u16), next, 3)
    };
    let mut below: Vec<(u64, Address)> =
        sorted.iter().step_by(LEAF_RECORDS as usize).map(|key| (*key, place(1024))).collect();
    below[0].0 = 0;
    let mut nodes = Vec::new();
    let mut level = 0;
    while below.len() > 1 {
        level += 1;
        let mut above = Vec::new();
        let mut chunks = below.chunks(CHILDREN_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            let address = place(1024);
            above.push((chunk[0].0, address));
            let high = chunks.peek().map(|chunk| chunk[0].0);
            let keys = chunk.iter().map(|(key, _)| *key).collect();
            let children = chunk.iter().map(|(_, child)| *child).collect();
            nodes.push((address, Node { level, keys, high, children }));
        }
        below = above;
    }
    Tree { key_bytes, nodes, root: below[0].1, root_level: level }
}

struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (self.0 ^ (self.0 >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }
}

/// Ranks by the zipfian distribution with exponent 0.99, by inversion of its continuous form: for a benchmark of caches
/// the difference to YCSB's is nothing.
fn zipf(records: u64, draws: usize) -> Vec<u32> {
    let mut draw = Draw(7);
    let exponent = 1.0 - 0.99;
    let top = (records as f64).powf(exponent);
    (0..draws)
        .map(|_| {
            let u = (draw.next() >> 11) as f64 / (1u64 << 53) as f64;
            (((top - 1.0) * u + 1.0).powf(1.0 / exponent) as u64).min(records) as u32 - 1
        })
        .collect()
}

/// Nanoseconds per route in the best of some rounds (the machine may have others to serve), and the share of routes
/// that ended at a leaf.
fn time(cache: &IndexCache<'_>, tree: &Tree, chained: bool, mut key: impl FnMut(u64) -> u64) -> (f64, f64) {
    let mut at_leaf = 0;
    let mut best = f64::MAX;
    let mut bytes = [0; KEY_BYTES_MAX];
    for round in 0..ROUNDS {
        let mut dependence = 0;
        let start = Instant::now();
        for i in 0..ROUTES {
            bytes[..8].copy_from_slice(&(key(round * ROUTES + i) ^ dependence).to_be_bytes());
            let route: Route = cache.route(tree.root, tree.root_level, 0, &bytes[..tree.key_bytes], 0);
            at_leaf += u64::from(route.level == 0);
            if chained {
                // Zero, as offsets are multiples of 64, but neither compiler nor processor may know.
                dependence = black_box(route.address.offset()) & 1;
            }
            dependence = black_box(dependence);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / ROUTES as f64);
    }
    (best, at_leaf as f64 / (ROUNDS * ROUTES) as f64)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(10_000_000, |text| text.parse().expect("records"));
    let share: f64 = arguments.next().map_or(1.0, |text| text.parse().expect("share"));
    let key_bytes: usize = arguments.next().map_or(8, |text| text.parse().expect("key bytes, 8..=64"));
    let tree = grow(records, key_bytes);
    // A frame's header, discriminators, children and keys, rounded up to lines, and its share of table and hints.
    let each = (CHILDREN_MAX * (8 + key_bytes) + 2 * key_bytes + 128 + 64 + 24) as f64;
    let budget = (tree.nodes.len() as f64 * share * each) as u64 + 4_096;
    let words = IndexCache::words_for(budget, key_bytes, CHILDREN_MAX);
    let storage: Vec<AtomicU32> = (0..words).map(|_| AtomicU32::new(0)).collect();
    let cache = IndexCache::new(&storage, key_bytes, CHILDREN_MAX);
    let start = Instant::now();
    // Top down, as routes would bring them in.
    for (address, node) in tree.nodes.iter().rev() {
        assert!(cache.insert(*address, node, 0));
    }
    let insert_ns = start.elapsed().as_nanos() as f64 / tree.nodes.len() as f64;
    println!(
        "{records} records, {} levels, {} inner nodes; insert {insert_ns:.0} ns",
        tree.root_level + 1,
        tree.nodes.len()
    );
    println!("{:?}", cache.usage());

    let zipf: Vec<u64> = zipf(records, 1 << 17).into_iter().map(|rank| key_of(u64::from(rank))).collect();
    let measure = |chained: bool| {
        let mut draw = Draw(1);
        let uniform = time(&cache, &tree, chained, |_| draw.next());
        let skewed = time(&cache, &tree, chained, |i| zipf[i as usize & (zipf.len() - 1)]);
        let hot = time(&cache, &tree, chained, |_| 0x5555_5555_5555_5555);
        (uniform, skewed, hot)
    };
    measure(false);
    for (name, chained) in [("apart", false), ("chained", true)] {
        let (uniform, skewed, hot) = measure(chained);
        println!(
            "{name:8} uniform {:6.1} ns ({:.3} at leaf)   zipf 0.99 {:6.1} ns ({:.3})   one key {:6.1} ns",
            uniform.0, uniform.1, skewed.0, skewed.1, hot.0
        );
    }
    if share < 1.0 {
        let nodes: HashMap<Address, &Node> = tree.nodes.iter().map(|(address, node)| (*address, node)).collect();
        let uniform: Vec<u64> = (0..zipf.len() as u64).map(key_of).collect();
        for (name, keys) in [("uniform", &uniform), ("zipf 0.99", &zipf)] {
            let mut misses = 0;
            let start = Instant::now();
            for key in keys {
                let mut bytes = [0; KEY_BYTES_MAX];
                bytes[..8].copy_from_slice(&key.to_be_bytes());
                for _ in 0..=tree.root_level {
                    let route = cache.route(tree.root, tree.root_level, 0, &bytes[..tree.key_bytes], 0);
                    if route.level == 0 {
                        break;
                    }
                    misses += 1;
                    cache.insert(route.address, nodes[&route.address], 0);
                }
            }
            let each = keys.len() as f64;
            println!(
                "copies on demand, {name}: {:.3} misses and {:.0} ns per key; {} evictions so far",
                misses as f64 / each,
                start.elapsed().as_nanos() as f64 / each,
                cache.usage().evictions
            );
        }
        return;
    }
    for threads in [1, 2] {
        let best: Vec<f64> = std::thread::scope(|scope| {
            let (cache, tree) = (&cache, &tree);
            let threads: Vec<_> = (0..threads)
                .map(|seed| {
                    scope.spawn(move || {
                        let mut draw = Draw(seed + 1);
                        time(cache, tree, true, |_| draw.next()).0
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a measuring thread")).collect()
        });
        let rate: f64 = best.iter().map(|ns| 1e3 / ns).sum();
        println!("{threads} threads, uniform, chained: {rate:.2} M routes/s, {best:.1?} ns");
    }
}
