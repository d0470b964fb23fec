//! The cache against models, with full storage, with nonsense as input, and with several threads.

use super::*;
use crate::verbs::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::vec;
use std::vec::Vec;
extern crate std;

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

/// A tree over given leaf boundaries, and per level a map from first key to node.
struct Model {
    root: Address,
    root_level: u8,
    nodes: BTreeMap<Address, Node>,
    leaves: BTreeMap<Vec<u8>, Address>,
}

impl Model {
    fn grow(draw: &mut Draw, keys: &BTreeSet<Vec<u8>>, key_bytes: usize, children_max: usize) -> Self {
        let mut line = 1;
        let mut place = || {
            line += 1;
            at(line)
        };
        let mut leaves: BTreeMap<Vec<u8>, Address> = keys.iter().map(|key| (key.clone(), place())).collect();
        leaves.insert(vec![0; key_bytes], place());
        let mut nodes = BTreeMap::new();
        let mut below: Vec<(Vec<u8>, Address)> = leaves.clone().into_iter().collect();
        let mut level = 0;
        while below.len() > 1 || level == 0 {
            level += 1;
            let mut above = Vec::new();
            let mut rest = &below[..];
            while !rest.is_empty() {
                let children = (1 + draw.below(children_max as u64) as usize).max(2).min(children_max).min(rest.len());
                let (chunk, after) = rest.split_at(children);
                rest = after;
                let address = place();
                above.push((chunk[0].0.clone(), address));
                nodes.insert(
                    address,
                    Node {
                        level,
                        low: chunk[0].0.clone(),
                        high: rest.first().map(|next| next.0.clone()),
                        separators: chunk[1..].iter().map(|child| child.0.clone()).collect(),
                        children: chunk.iter().map(|child| child.1).collect(),
                    },
                );
            }
            below = above;
        }
        Self { root: below[0].1, root_level: level, nodes, leaves }
    }

    fn route(&self, cached: &BTreeSet<Address>, key: &[u8]) -> Route {
        let mut route =
            Route { address: self.root, level: self.root_level, parent: None, next: Address::NULL, stale: false };
        while route.level > 0 && cached.contains(&route.address) {
            let node = &self.nodes[&route.address];
            let slot = node.separators.iter().filter(|separator| separator.as_slice() <= key).count();
            route = Route {
                address: node.children[slot],
                level: route.level - 1,
                parent: Some(route.address),
                next: Address::NULL,
                stale: false,
            };
        }
        route
    }
}

/// Keys of several kinds, each of which tries another part of the search.
fn draw_key(draw: &mut Draw, kind: u64, key_bytes: usize) -> Vec<u8> {
    let mut key = vec![0; key_bytes];
    match kind {
        // Spread over the whole key space.
        0 => key.iter_mut().for_each(|byte| *byte = draw.next() as u8),
        // Dense at the end of a long shared prefix.
        1 => {
            key.fill(0x55);
            let number = (draw.below(3_000) as u16).to_be_bytes();
            key[key_bytes - 2..].copy_from_slice(&number);
        }
        // Two clusters far apart: the discriminators of a node between them are all equal.
        2 => {
            key[0] = if draw.below(2) == 0 { 1 } else { 0xfe };
            key[key_bytes - 1] = draw.next() as u8;
            key[key_bytes - 2] = draw.below(4) as u8;
        }
        // Few values per byte, everywhere: ties at every depth.
        3 => key.iter_mut().for_each(|byte| *byte = b'0' + draw.below(3) as u8),
        // The ends of the key space.
        _ => {
            key.fill(if draw.below(2) == 0 { 0 } else { 0xff });
            let byte = draw.below(key_bytes as u64) as usize;
            key[byte] = draw.next() as u8;
        }
    }
    key
}

fn step(key: &[u8], up: bool) -> Vec<u8> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        *byte = if up { byte.wrapping_add(1) } else { byte.wrapping_sub(1) };
        if *byte != if up { 0 } else { 0xff } {
            break;
        }
    }
    key
}

#[test]
fn routes_are_the_models_for_every_key_size_and_kind() {
    let mut draw = Draw(1);
    for key_bytes in [2, 7, 8, 9, 12, 16, 31, 64] {
        for kind in 0..5 {
            for children_max in [2, 17, 61, 130] {
                let keys: BTreeSet<Vec<u8>> = (0..600).map(|_| draw_key(&mut draw, kind, key_bytes)).collect();
                let model = Model::grow(&mut draw, &keys, key_bytes, children_max);
                let words = words_for_frames(model.nodes.len(), key_bytes, children_max);
                let storage = storage(words);
                let cache = IndexCache::new(&storage, key_bytes, children_max);
                assert_eq!(cache.usage().frames, model.nodes.len() as u64);
                let mut cached = BTreeSet::new();
                // Some copies, then all: misses at every level, and hints that change from wrong to right.
                for share in [3, 1] {
                    for (address, node) in &model.nodes {
                        if draw.below(share) == 0 || share == 1 {
                            assert!(cache.insert(*address, node, 0));
                            cached.insert(*address);
                        }
                    }
                    for _ in 0..2 {
                        for key in &keys {
                            for key in [key.clone(), step(key, true), step(key, false)] {
                                let route = cache.route(model.root, model.root_level, 0, &key, 0);
                                assert_eq!(
                                    route,
                                    model.route(&cached, &key),
                                    "{key_bytes} bytes, kind {kind}: {key:?}"
                                );
                            }
                            let key = draw_key(&mut draw, kind, key_bytes);
                            let route = cache.route(model.root, model.root_level, 0, &key, 0);
                            if share == 1 {
                                let leaf = model.leaves.range(..=key).next_back().unwrap();
                                assert_eq!((route.address, route.level), (*leaf.1, 0));
                            }
                        }
                    }
                }
                assert_eq!(cache.usage().evictions, 0);
            }
        }
    }
}

#[test]
fn a_root_that_is_a_leaf_or_unknown_ends_the_route_at_once() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    assert_eq!(
        route_to(&cache, at(9), 0, 5),
        Route { address: at(9), level: 0, parent: None, next: Address::NULL, stale: false }
    );
    assert_eq!(
        route_to(&cache, at(9), 3, 5),
        Route { address: at(9), level: 3, parent: None, next: Address::NULL, stale: false }
    );
    assert_eq!(route_to(&cache, Address::NULL, 3, 5).address, Address::NULL);
}

#[test]
fn another_generation_of_the_place_is_a_miss() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let old = at(10);
    assert!(cache.insert(old, &node(1, 0, None, &[100], 50), 0));
    assert_eq!(route_to(&cache, old, 1, 100).address, at(51));
    let new = old.next_generation();
    assert_eq!(
        route_to(&cache, new, 1, 100),
        Route { address: new, level: 1, parent: None, next: Address::NULL, stale: false }
    );

    // A copy of the next generation takes the frame of the former one.
    assert!(cache.insert(new, &node(1, 0, None, &[100], 60), 0));
    assert_eq!(cache.usage().frames_used, 1);
    assert_eq!(route_to(&cache, new, 1, 100).address, at(61));
    assert_eq!(route_to(&cache, old, 1, 100).level, 1);
}

#[test]
fn invalidation_spares_the_copy_of_a_later_life() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let old = Address::new(NodeId(1), 640, 63);
    let new = old.next_generation();
    assert!(cache.insert(new, &node(1, 0, None, &[100], 60), 0));
    cache.invalidate(old);
    assert_eq!(cache.usage().frames_used, 1);
    cache.invalidate(new);
    assert_eq!(cache.usage().frames_used, 0);
    cache.invalidate(new);
    assert!(cache.insert(old, &node(1, 0, None, &[100], 60), 0));
    cache.invalidate(new);
    assert_eq!(cache.usage().frames_used, 0);
    assert_eq!(route_to(&cache, old, 1, 100).level, 1);
}

#[test]
fn a_copy_that_does_not_cover_the_key_stops_the_route_above_it() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let root = at(1);
    assert!(cache.insert(root, &node(2, 0, None, &[1000, 2000], 50), 0));
    // The middle child was copied before or after a split: its fences are 1100..1900.
    assert!(cache.insert(at(51), &node(1, 1100, Some(1900), &[1500], 70), 0));
    assert_eq!(route_to(&cache, root, 2, 1500).address, at(71));
    for key in [1000, 1099, 1900, 1999] {
        let route = route_to(&cache, root, 2, key);
        assert_eq!(
            route,
            Route { address: at(51), level: 1, parent: Some(root), next: Address::NULL, stale: true },
            "key {key}"
        );
    }
    // A copy of another level than its parent says is refused as well.
    assert!(cache.insert(at(50), &node(5, 0, Some(1000), &[500], 80), 0));
    assert_eq!(
        route_to(&cache, root, 2, 5),
        Route { address: at(50), level: 1, parent: Some(root), next: Address::NULL, stale: true }
    );
    // After another READ it is followed.
    assert!(cache.insert(at(51), &node(1, 1000, Some(2000), &[1500], 70), 0));
    assert_eq!(
        route_to(&cache, root, 2, 1999),
        Route { address: at(71), level: 0, parent: Some(at(51)), next: Address::NULL, stale: false }
    );
}

#[test]
fn eviction_keeps_within_the_budget_when_nothing_is_ever_hit() {
    for frames in [1, 2, 3, 64, 65, 200] {
        let storage = storage(words_for_frames(frames, 8, 61));
        let cache = IndexCache::new(&storage, 8, 61);
        for i in 1..2_000u64 {
            assert!(cache.insert(at(i), &node((1 + i % 3) as u8, 0, None, &[100], 50), 0));
            assert_eq!(cache.usage().frames_used, i.min(frames as u64));
            assert_eq!(route_to(&cache, at(i), (1 + i % 3) as u8, 100).address, at(51), "the newest copy is there");
        }
        assert_eq!(cache.usage().evictions, 1_999 - frames as u64);
    }
}

#[test]
fn eviction_ends_when_everything_is_hot() {
    let frames = 3 * SWEEP_FRAMES as usize;
    let storage = storage(words_for_frames(frames, 8, 8));
    let cache = IndexCache::new(&storage, 8, 8);
    let level = LEVEL_MAX;
    for i in 1..1_000u64 {
        assert!(cache.insert(at(i), &node(level, 0, None, &[100], 5_000), 0));
        for j in i.saturating_sub(frames as u64)..=i {
            route_to(&cache, at(j), level, 100);
        }
    }
    assert_eq!(cache.usage().frames_used, frames as u64);
}

#[test]
fn a_scan_does_not_displace_what_is_in_use() {
    let storage = storage(words_for_frames(40, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let root = at(1);
    let separators: Vec<u64> = (1..=30).map(|i| i * 100).collect();
    assert!(cache.insert(root, &node(2, 0, None, &separators, 100), 0));
    for i in 0..10 {
        assert!(cache.insert(at(100 + i), &node(1, i * 100, Some((i + 1) * 100), &[i * 100 + 50], 1_000), 0));
    }
    for i in 0..10_000u64 {
        assert_eq!(route_to(&cache, root, 2, i % 10 * 100).level, 0, "after {i} copies of a scan");
        assert!(cache.insert(at(10_000 + i), &node(1, 0, None, &[100], 2_000), 0));
    }
}

#[test]
fn hint_blocks_come_back() {
    let frames = 200;
    let storage = storage(words_for_frames(frames, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    assert_eq!(cache.plan.blocks, 14);
    // More inner copies than blocks; copies are replaced, invalidated and evicted. Every copy routes, with hints or
    // without.
    for i in 1..1_000u64 {
        let (root, child) = (at(10 * i), at(10 * i + 5));
        assert!(cache.insert(root, &node(2, 0, None, &[100], 10 * i + 4), 0));
        assert!(cache.insert(child, &node(1, 100, None, &[200], 10 * i + 6), 0));
        assert_eq!(route_to(&cache, root, 2, 300).address, at(10 * i + 7));
        if i % 3 == 0 {
            cache.invalidate(root);
        }
    }
    let writer = cache.writer.lock();
    let mut free = 0;
    let mut block = writer.free_block;
    while let Some(link) = cache.block_link(block) {
        free += 1;
        block = link.load(Relaxed);
    }
    let owned: BTreeSet<u32> =
        (0..frames as u32).map(|at| cache.frame(at).unwrap().block()).filter(|block| *block > 0).collect();
    let held = (0..frames as u32).filter(|at| cache.frame(*at).unwrap().block() > 0).count();
    assert_eq!(owned.len(), held, "no block has two owners");
    assert_eq!(held + free, writer.fresh_block as usize, "no block is lost");
}

#[test]
fn usage_accounts_for_every_byte() {
    for key_bytes in [1, 8, 16, 64] {
        for children_max in [1, 2, 3, 16, 17, 61, 400, CHILDREN_MAX] {
            for frames in [1, 2, 15, 16, 17, 100] {
                let words = words_for_frames(frames, key_bytes, children_max);
                let budget_bytes = words as u64 * 4;
                assert_eq!(IndexCache::words_for(budget_bytes, key_bytes, children_max), words);
                assert_eq!(IndexCache::words_for(budget_bytes + 3, key_bytes, children_max), words);
                assert!(IndexCache::words_for(budget_bytes - 1, key_bytes, children_max) < words);
                for extra in [0, 1, 7] {
                    let storage = storage(words + extra);
                    let cache = IndexCache::new(&storage[..], key_bytes, children_max);
                    let usage = cache.usage();
                    assert_eq!(usage.frames, frames as u64);
                    assert_eq!(usage.budget_bytes, (words + extra) as u64 * 4);
                    let parts = usage.free_bytes + usage.table_bytes + usage.hint_bytes + usage.slack_bytes;
                    assert_eq!(usage.budget_bytes, parts + usage.used_bytes);
                    assert_eq!(usage.used_bytes, 0);
                    assert_eq!(cache.frames.len() * 64, usize::try_from(usage.free_bytes).unwrap());
                    assert_eq!(cache.frames.as_ptr().align_offset(64), 0);
                    assert_eq!(cache.table.len(), 2 * frames);
                }
            }
        }
    }
    assert_eq!(Shape::new(8, 61).frame_words() * 4, 1_088);
}

#[test]
fn budgets_are_kept_and_nearly_used_up() {
    for budget in (0..3_000_000u64).step_by(997) {
        let bytes = IndexCache::words_for(budget, 8, 61) as u64 * 4;
        assert!(bytes <= budget);
        assert!(bytes == 0 && budget < 2_000 || budget - bytes < 1_500, "{bytes} of {budget}");
    }
    assert!(IndexCache::words_for(u64::MAX, 64, CHILDREN_MAX) > 0);
}

#[test]
fn a_cache_without_storage_always_misses() {
    let too_small = words_for_frames(1, 8, 61) - 1;
    for (words, key_bytes, children_max) in
        [(0, 8, 61), (1, 8, 61), (too_small, 8, 61), (10_000, 0, 61), (10_000, 65, 61), (10_000, 8, 0)]
    {
        let storage = storage(words);
        let cache = IndexCache::new(&storage, key_bytes, children_max);
        assert!(!cache.insert(at(1), &node(1, 0, None, &[100], 50), 0));
        assert_eq!(
            route_to(&cache, at(1), 1, 5),
            Route { address: at(1), level: 1, parent: None, next: Address::NULL, stale: false }
        );
        cache.invalidate(at(1));
        cache.clear();
        let usage = cache.usage();
        assert_eq!((usage.frames, usage.slack_bytes), (0, words as u64 * 4));
    }
    assert_eq!(IndexCache::words_for(too_small as u64 * 4, 8, 61), 0);
}

#[test]
fn what_is_not_a_node_in_order_is_not_copied() {
    let storage = storage(words_for_frames(4, 8, 4));
    let cache = IndexCache::new(&storage, 8, 4);
    let good = node(1, 10, Some(50), &[20, 30, 40], 50);
    assert!(cache.insert(at(1), &good, 0));
    cache.clear();
    let changes: [fn(&mut Node); 9] = [
        |node| node.level = 0,
        |node| node.level = LEVEL_MAX + 1,
        |node| node.children[2] = Address::NULL,
        |node| node.separators.swap(0, 1),
        |node| node.separators[0] = node.low.clone(),
        |node| node.separators[2] = node.high.clone().unwrap(),
        |node| node.high = Some(node.low.clone()),
        |node| node.children.clear(),
        |node| {
            node.separators.push(45u64.to_be_bytes().to_vec());
            node.children.push(at(99));
        },
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(!cache.insert(at(1), &bad, 0), "change {i}");
    }
    assert!(!cache.insert(Address::NULL, &good, 0));
    assert_eq!(cache.usage().frames_used, 0);
}

/// A node that gives another answer at every call.
struct Liar(core::cell::RefCell<Draw>);

impl Branch for Liar {
    fn level(&self) -> u8 {
        1 + self.0.borrow_mut().below(3) as u8
    }
    fn low(&self, out: &mut [u8]) {
        out.fill(0);
    }
    fn high(&self, _: &mut [u8]) -> bool {
        false
    }
    fn children(&self) -> usize {
        1 + self.0.borrow_mut().below(2) as usize
    }
    fn child(&self, _: usize) -> Address {
        Address::from_bits(self.0.borrow_mut().next())
    }
    fn separator(&self, _: usize, out: &mut [u8]) {
        for byte in out.iter_mut() {
            *byte = self.0.borrow_mut().next() as u8;
        }
    }
}

#[test]
fn readers_survive_any_content_of_the_storage() {
    let mut draw = Draw(3);
    for key_bytes in [8, 20] {
        let storage = storage(words_for_frames(16, key_bytes, 9));
        let cache = IndexCache::new(&storage, key_bytes, 9);
        let liar = Liar(core::cell::RefCell::new(Draw(4)));
        for i in 1..50 {
            assert!(cache.insert(at(i), &liar, 0));
        }
        for _ in 0..20_000 {
            // Small numbers look like frames, links and counts. Sometimes the addresses of copies are left as they
            // are.
            let word = draw.below(storage.len() as u64) as usize;
            let value = if draw.below(2) == 0 { draw.below(20) as u32 } else { draw.next() as u32 };
            storage[word].store(value, Relaxed);
            let key = draw.next().to_be_bytes();
            let known = cache.frame(draw.below(16) as u32).unwrap().address();
            cache.route(known, draw.next() as u8, 0, &key, 0);
            cache.route(known, 1 + draw.below(3) as u8, 0, &key[..draw.below(9) as usize], 0);
        }
    }
}

/// Keys 0..4096 below a root. Every copy of a node is one of several variants, and every child address says to which
/// node, variant and key range it belongs.
mod truths {
    use super::*;

    pub const ROOTS: u64 = 3;
    pub const VARIANTS: u64 = 4;
    pub const KEYS: u64 = 4_096;

    /// Address of the level-1 node for keys from `low` in variant `variant` of root `root`.
    pub fn middle(root: u64, variant: u64, low: u64) -> Address {
        Address::new(NodeId(1 + root as u16), (variant << 20 | low) << 6, (low >> 7) as u8)
    }

    /// Width of a child of a root in `variant`: 128 to 1024.
    pub fn width(variant: u64) -> u64 {
        128 << variant
    }

    pub fn root_address(root: u64) -> Address {
        Address::new(NodeId(9), (root + 1) << 6, 5)
    }

    pub fn root_node(root: u64, variant: u64) -> Node {
        let width = width(variant);
        let separators: Vec<u64> = (1..KEYS / width).map(|i| i * width).collect();
        let mut node = node(2, 0, None, &separators, 1);
        for (i, child) in node.children.iter_mut().enumerate() {
            *child = middle(root, variant, i as u64 * width);
        }
        node
    }

    pub fn leaf(parent: Address, variant: u64, low: u64) -> Address {
        Address::new(NodeId(100 + variant as u16), parent.offset() << 12 | low << 6, parent.node().0 as u8)
    }

    /// A variant of a level-1 node: leaves of 8 to 64 keys; odd variants do not cover the last of them.
    pub fn middle_node(parent: Address, root_variant: u64, low: u64, variant: u64) -> Node {
        let step = 8 << variant;
        let end = low + width(root_variant);
        let end = if variant % 2 == 1 { end - step } else { end };
        let separators: Vec<u64> = (low..end).step_by(step as usize).skip(1).collect();
        let mut node = node(1, low, Some(end), &separators, 1);
        for (i, child) in node.children.iter_mut().enumerate() {
            *child = leaf(parent, variant, low + i as u64 * step);
        }
        node
    }

    /// Whether some copies that were ever inserted give this answer.
    pub fn is_true(root: u64, key: u64, route: &Route) -> bool {
        let covering = |variant| (variant, key / width(variant) * width(variant));
        let root_at = root_address(root);
        match route {
            Route { level: 2, address, parent: None, next: Address::NULL, stale: false } => *address == root_at,
            Route { level: 1, address, parent: Some(parent), stale, .. } => {
                (0..VARIANTS).map(covering).any(|(v, low)| {
                    let last = (0..VARIANTS).any(|w| w % 2 == 1 && key >= low + width(v) - (8 << w));
                    *parent == root_at && *address == middle(root, v, low) && (!stale || last)
                })
            }
            Route { level: 0, address, parent: Some(parent), stale: false, .. } => {
                (0..VARIANTS).map(covering).any(|(v, low)| {
                    *parent == middle(root, v, low)
                        && (0..VARIANTS).any(|w| {
                            let step = 8 << w;
                            let covered = w % 2 == 0 || key < low + width(v) - step;
                            covered && *address == leaf(*parent, w, low + (key - low) / step * step)
                        })
                })
            }
            _ => false,
        }
    }
}

#[test]
fn every_answer_under_concurrency_was_true_of_some_copies() {
    use truths::*;
    // Room for a third of what is inserted, so that frames change their copies all the time.
    let storage = storage(words_for_frames(40, 8, 128));
    let cache = IndexCache::new(&storage, 8, 128);
    let done = AtomicBool::new(false);
    let reached = [const { AtomicU64::new(0) }; 4];
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (cache, done, reached) = (&cache, &done, &reached);
            scope.spawn(move || {
                let mut draw = Draw(100 + seed);
                while !done.load(Relaxed) {
                    let (root, key) = (draw.below(ROOTS), draw.below(KEYS));
                    let route = route_to(cache, root_address(root), 2, key);
                    assert!(is_true(root, key, &route), "root {root}, key {key}: {route:?}");
                    reached[if route.stale { 3 } else { usize::from(route.level) }].fetch_add(1, Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let cache = &cache;
                scope.spawn(move || {
                    let mut draw = Draw(seed);
                    for i in 0..60_000 {
                        let root = draw.below(ROOTS);
                        let variant = draw.below(VARIANTS);
                        let width = width(variant);
                        let low = draw.below(KEYS / width) * width;
                        let parent = middle(root, variant, low);
                        let middle = middle_node(parent, variant, low, draw.below(VARIANTS));
                        match draw.below(16) {
                            0 => assert!(cache.insert(root_address(root), &root_node(root, variant), 0)),
                            1 => cache.invalidate(parent),
                            2 => cache.invalidate(root_address(root)),
                            _ => assert!(cache.insert(parent, &middle, 0)),
                        }
                        if i % 20_000 == 10_000 {
                            cache.clear();
                        }
                    }
                })
            })
            .collect();
        // Readers stop before a writer's failure is reported; otherwise it would never be reported.
        let ends: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Relaxed);
        assert!(ends.iter().all(Result::is_ok));
    });
    for (what, count) in ["leaf", "level 1", "root", "stale"].iter().zip(&reached) {
        assert!(count.load(Relaxed) > 0, "no route ended at: {what}");
    }
    assert!(cache.usage().evictions > 0);
    // Frames, chains and free list are still consistent.
    let usage = cache.usage();
    let held = (0..40).filter(|at| !cache.frame(*at).unwrap().address().is_null()).count();
    assert_eq!(usage.frames_used, held as u64);
    for at in 0..40 {
        let address = cache.frame(at).unwrap().address();
        assert!(address.is_null() || cache.find(address) == Some(at));
    }
}
