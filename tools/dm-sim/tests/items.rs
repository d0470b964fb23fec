//! Histories of items.

use dm_sim::verify::{Bounded, Settings, ShermanItems, Verifier};

/// Nobody but who works on items needs more than this here: `dm verify --index items` runs as many as wanted.
const HISTORIES: u64 = 400;

#[test]
fn histories_of_items_are_linearizable_and_lose_no_memory() {
    let mut verifier = Verifier::new(Bounded(ShermanItems), Settings::default());
    let report = verifier.verify(0..HISTORIES);
    println!("{report}");
    if let Some(seed) = report.findings.first().map(|(seed, _)| *seed) {
        panic!("{}", verifier.replay_shortest(seed).expect("it fails again"));
    }
    assert!(report.is_clean(), "{report}");
}
