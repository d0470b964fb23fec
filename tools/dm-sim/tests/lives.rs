//! Scenarios of reused places: an operation is paused while places are reused, and other operations have old pointers.

use dm_core::marks::Mark;
use dm_sim::verify::{Chime, Sherman, TreeKind, lives};

fn go_round<K: TreeKind>(kind: K, seeds: u64) {
    let played = lives::play(kind, 0..seeds);
    assert_eq!(played.finding, None);
    for mark in [Mark::LIMBO_ENTERED, Mark::LIMBO_LEFT, Mark::NODE_REUSED, Mark::MERGE, Mark::STALE_CACHE] {
        assert!(played.marks[mark.number()] > 0, "never hit: {}", mark.name());
    }
}

#[test]
fn old_pointers_to_shermans_leaves_do_no_harm() {
    go_round(Sherman, 600);
}

#[test]
fn old_pointers_to_chimes_leaves_do_no_harm() {
    go_round(Chime, 600);
}
