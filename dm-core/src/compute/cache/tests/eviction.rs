//! Which copies stay when storage is full, and what becomes of their hint blocks.

use super::*;
use std::collections::BTreeSet;

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
    assert_eq!(held + free, writer.first_unused_block as usize, "no block is lost");
}
