//! The judge judged: a right index passes, wrong ones are found, and seeds replay.

mod toy;

use super::*;
use dm_core::verbs::Assumptions;
use toy::{Bug, Toy};

const DROPS: Faults = Faults::only(FaultKind::Drops);

#[test]
fn a_right_index_passes_with_futures_dropped_and_without() {
    for drops in [false, true] {
        let mut verifier = Verifier::new(
            Toy(Bug::None),
            Settings { faults: if drops { DROPS } else { Faults::NONE }, ..Settings::default() },
        );
        let report = verifier.verify(0..300);
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.too_hard.0, 0);
        assert_eq!(drops, report.faults[FaultKind::Drops as usize] > 0);
        assert!(report.overlapping_histories * 10 > report.histories * 9, "{report}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for (bug, kinds) in [
        (Bug::UnlockedGet, &["violation"][..]),
        (Bug::EarlyUnlock, &["violation"]),
        (Bug::LateLock, &["violation", "records"]),
        (Bug::ForgetfulSettle, &["locks held", "stuck"]),
        (Bug::KeepsDeleted, &["violation"]),
        (Bug::NoMore, &["violation"]),
    ] {
        let mut verifier = Verifier::new(Toy(bug), Settings { faults: DROPS, ..Settings::default() });
        let found = (0..200).find_map(|seed| verifier.run(seed).findings.into_iter().next().map(|first| (seed, first)));
        let Some((seed, finding)) = found else { panic!("{bug:?} was not found") };
        println!("{bug:?}, seed {seed}:\n{finding}\n");
        let whole = verifier.run(seed).operations;
        let shortest = verifier.replay_shortest(seed).expect("it was found a moment ago").history;
        assert_eq!(shortest.findings[0].kind(), finding.kind());
        assert!(shortest.operations <= whole);
        assert!(kinds.contains(&finding.kind()), "{bug:?}: {finding}");
    }
}

#[test]
fn a_withdrawn_guarantee_breaks_who_needs_it() {
    let withdrawn = Assumptions::WRITE_THEN_ATOMIC;
    let mut verifier = Verifier::new(Toy(Bug::None), Settings { withdrawn, ..Settings::default() });
    let report = verifier.verify(0..300);
    assert!(report.kinds.contains_key("violation"), "{report}");
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    let settings = Settings { faults: Faults::ALL, ..Settings::default() };
    let (mut one, mut other) =
        (Verifier::new(ShermanSubject, settings.clone()), Verifier::new(ShermanSubject, settings));
    // The other verifier has seen other seeds before: nothing of them stays.
    other.verify(100..120);
    for seed in [1, 2, 3, 17] {
        let (first, second) = (one.replay(seed), other.replay(seed));
        assert_eq!(first.history.record, second.history.record);
        assert_eq!(first.log, second.log);
        assert_eq!(first.case, second.case);
        assert_eq!(one.run(seed).record, first.history.record, "the log changes nothing");
        assert!(first.log.lines().count() > 100);
    }
}

#[test]
fn sherman_keeps_its_promises() {
    let mut verifier = Verifier::new(ShermanSubject, Settings::default());
    let report = verifier.verify(0..1000);
    assert!(report.is_clean(), "{report}");
}

/// Three times a descent to a parent overwrote the separator of a half-split that was still to be linked; four times a
/// place in the first WRITE of its next life was taken for what a dead writer had left.
#[test]
fn seeds_that_found_bugs_are_clean() {
    let mut verifier = Verifier::new(ShermanSubject, Settings { faults: DROPS, ..Settings::default() });
    let report = verifier.verify([95_660, 235_861, 435_721, 211_365, 299_786, 355_271, 407_160]);
    assert!(report.is_clean(), "{report}");
}
