//! Scenarios of reused places: an operation is paused while places are reused, and other operations have old pointers.

use dm_core::marks::Mark;
use dm_sim::verify::{Chime, Sherman, TreeKind, reuse};

fn reuse_places<K: TreeKind>(kind: K, seeds: u64) {
    let played = reuse::play(kind, 0..seeds);
    assert_eq!(played.finding, None);
    for mark in [Mark::LIMBO_ENTERED, Mark::LIMBO_LEFT, Mark::NODE_REUSED, Mark::MERGE, Mark::STALE_CACHE] {
        assert!(played.marks[mark.number()] > 0, "never hit: {}", mark.name());
    }
}

#[test]
fn stale_pointers_to_leaves_of_sherman_do_no_harm() {
    reuse_places(Sherman, 600);
}

#[test]
fn stale_pointers_to_leaves_of_chime_do_no_harm() {
    reuse_places(Chime, 600);
}
