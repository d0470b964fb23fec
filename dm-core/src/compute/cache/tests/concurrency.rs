//! Readers and writers in several threads.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64};

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
