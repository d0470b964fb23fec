//! How storage of any size is used.

use super::*;

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
