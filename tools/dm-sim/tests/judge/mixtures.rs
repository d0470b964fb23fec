//! READs whose lines are of several instants, on trees whose readers READ parts of leaves.

use dm_sim::verify::mixtures::{Mixed, mix};
use dm_sim::verify::{Bounded, Chime, Faults, Settings, Sherman, TreeKind, Verifier};

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

/// A READ of a leaf met an entry of a key before the key's delete, and another entry of it after the next insert. A scan returned
/// the key twice.
#[test]
fn a_scan_returns_a_key_once_though_its_read_met_two_entries_of_it() {
    let faults = Faults::parse("all").expect("kinds of faults");
    let report = Verifier::new(Bounded(Sherman), Settings { faults, ..Settings::default() }).verify([28_942_110_152]);
    assert!(report.is_clean(), "{report}");
}
