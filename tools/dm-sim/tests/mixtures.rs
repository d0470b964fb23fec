//! READs whose lines are of several instants, on trees whose readers READ parts of leaves.

use dm_sim::verify::mixtures::{Mixed, mix};
use dm_sim::verify::{Chime, TreeKind};

#[test]
fn a_key_of_chime_that_is_there_is_found_or_the_reader_notices() {
    let mut sum = Mixed::default();
    for seed in 0..300 {
        let case = Chime::mixed_case(seed).expect("it has such cases");
        let mixed = mix(&case, seed);
        assert!(mixed.finding.is_none(), "seed {seed}, {case:?}: {mixed}");
        sum.asked += mixed.asked;
        sum.found += mixed.found;
        sum.hops += mixed.hops;
        sum.wraps += mixed.wraps;
    }
    // Both kinds of answer occurred, and the changes that readers have to detect.
    assert!(sum.found > 100_000 && sum.asked - sum.found > 10_000 && sum.hops > 200 && sum.wraps > 1000, "{sum}");
}
