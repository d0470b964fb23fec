//! Tests of the judge: a correct index passes, wrong ones are found, and seeds replay.

mod many_waiters;
mod orphan_reads;
mod toy;

use super::*;
use dm_core::marks::Mark;
use dm_core::verbs::Assumptions;
use toy::{Mutant, Toy};

const DROPS: Faults = Faults::only(FaultKind::Drops);

#[test]
fn a_right_index_passes_with_futures_dropped_and_without() {
    for drops in [false, true] {
        let mut verifier = Verifier::new(
            Toy(Mutant::None),
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
fn mutants_are_found() {
    for (mutant, kinds) in [
        (Mutant::UnlockedGet, &["violation"][..]),
        (Mutant::EarlyUnlock, &["violation"]),
        (Mutant::LateLock, &["violation", "records"]),
        (Mutant::ForgetfulSettle, &["locks held", "stuck"]),
        (Mutant::KeepsDeleted, &["violation"]),
        (Mutant::NoMore, &["violation"]),
    ] {
        let mut verifier = Verifier::new(Toy(mutant), Settings { faults: DROPS, ..Settings::default() });
        let found = (0..200).find_map(|seed| verifier.run(seed).findings.into_iter().next().map(|first| (seed, first)));
        let Some((seed, finding)) = found else { panic!("{mutant:?} was not found") };
        println!("{mutant:?}, seed {seed}:\n{finding}\n");
        let whole = verifier.run(seed).operations;
        let shortest = verifier.replay_shortest(seed).expect("it was found a moment ago").history;
        assert_eq!(shortest.findings[0].kind(), finding.kind());
        assert!(shortest.operations <= whole);
        assert!(kinds.contains(&finding.kind()), "{mutant:?}: {finding}");
    }
}

#[test]
fn a_withdrawn_guarantee_breaks_who_needs_it() {
    let withdrawn = Assumptions::WRITE_THEN_ATOMIC;
    let mut verifier = Verifier::new(Toy(Mutant::None), Settings { withdrawn, ..Settings::default() });
    let report = verifier.verify(0..300);
    assert!(report.kinds.contains_key("violation"), "{report}");
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    let settings = Settings { faults: Faults::ALL, ..Settings::default() };
    let (mut one, mut other) =
        (Verifier::new(Bounded(Sherman), settings.clone()), Verifier::new(Bounded(Sherman), settings));
    // The other verifier has run other seeds before; no state of those remains.
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
    let mut verifier = Verifier::new(Bounded(Sherman), Settings::default());
    let report = verifier.verify(0..1000);
    assert!(report.is_clean(), "{report}");
}

/// In three of these seeds, a descent to a parent overwrote the separator of a half-split that was still to be linked.
/// In four, a place in the first WRITE of its next generation was taken for what a dead writer had left.
#[test]
fn seeds_that_found_bugs_are_clean() {
    let mut verifier = Verifier::new(Bounded(Sherman), Settings { faults: DROPS, ..Settings::default() });
    let report = verifier.verify([95_660, 235_861, 435_721, 211_365, 299_786, 355_271, 407_160]);
    assert!(report.is_clean(), "{report}");
}

/// Two bugs: a lane that had joined a batch was left unsettled; members of a batch were told of its loss while its
/// WRITE was still under way.
#[test]
fn seeds_that_found_bugs_under_all_faults_are_clean() {
    let mut verifier = Verifier::new(Bounded(Sherman), Settings { faults: Faults::ALL, ..Settings::default() });
    let report = verifier.verify([28_697_103_838, 7_000_139_128]);
    assert!(report.is_clean(), "{report}");
}

/// Without takeovers, survivors of a death end with errors of their own, and no result is wrong.
#[test]
fn sherman_goes_on_after_faults() {
    for kind in [FaultKind::Crash, FaultKind::NodeDeath, FaultKind::QpError, FaultKind::StaleCache] {
        let mut verifier =
            Verifier::new(Bounded(Sherman), Settings { faults: Faults::only(kind), ..Settings::default() });
        let report = verifier.verify(0..300);
        assert!(report.is_clean(), "{report}");
        assert!(report.faults[kind as usize] > 20, "{report}");
        let failures: u64 = report.failed.values().sum();
        assert_eq!(failures > 0, kind != FaultKind::StaleCache, "{report}");
    }
}

#[test]
fn smart_keeps_its_promises() {
    let faults = Faults::parse("drops,qp-error,stale-cache,node-death").expect("these are kinds of faults");
    for faults in [Faults::NONE, faults] {
        let mut verifier = Verifier::new(Bounded(Smart), Settings { faults, ..Settings::default() });
        let report = verifier.verify(0..500);
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn memory_is_accounted_for() {
    let mut verifier = Verifier::new(Bounded(Sherman), Settings::default());
    let report = verifier.verify(0..200);
    assert_eq!(report.accounts, 200, "{report}");
    assert!(report.memory.reached > 0 && report.memory.ready > 0, "{report}");
    assert_eq!(report.memory.granted, report.memory.reached + report.memory.ready + report.memory.leaked);
    let mut verifier = Verifier::new(Bounded(Smart), Settings::default());
    let report = verifier.verify(0..400);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.accounts, report.memory.leaked), (400, 0), "{report}");
    assert!(report.memory.reached > 0 && report.marks[Mark::LIMBO_ENTERED.number()] > 0, "{report}");
    assert_eq!(report.memory.retired, 0, "all of it waits or has come back: {report}");
}

#[test]
fn every_mark_belongs_to_one_room_and_the_rooms_have_no_others() {
    let listed = |rooms: Vec<(&str, &'static [Mark])>| -> Vec<Mark> {
        rooms.into_iter().flat_map(|(_, marks)| marks.iter().copied()).collect()
    };
    let indexes = [
        listed(Recovered(Sherman).marks()),
        listed(Bounded(Chime).marks()),
        listed(Bounded(Smart).marks()),
        listed(Recovered(Dolphin).marks()),
        listed(Recovered(ItemsOver(Sherman)).marks()),
    ];
    // No kind of every build has owners.
    let of_owners = [dm_core::pages::MARKS, dm_core::dex::MARKS].concat();
    for mark in dm_core::rooms::MARKS.iter().filter(|mark| !of_owners.contains(mark)) {
        let counts = indexes.each_ref().map(|listed| listed.iter().filter(|other| *other == mark).count());
        assert!(counts.contains(&1) && counts.iter().all(|count| *count <= 1), "{}: {counts:?}", mark.name());
    }
}

#[test]
fn the_shortest_replay_leaves_out_faults_that_do_not_matter() {
    let settings =
        Settings { faults: Faults::parse("drops,stale-cache").expect("both are known"), ..Settings::default() };
    let mut verifier = Verifier::new(Toy(Mutant::UnlockedGet), settings);
    let planned = |replay: &Replay| replay.case.matches("step ").count();
    let seed = (0..200).find(|&seed| {
        let whole = verifier.replay(seed);
        !whole.history.findings.is_empty() && planned(&whole) > 0
    });
    let shortest = verifier.replay_shortest(seed.expect("unlocked gets are found often")).expect("found a moment ago");
    assert_eq!(planned(&shortest), 0, "{}", shortest.case);
    assert!(shortest.to_string().trim_end().ends_with('.'), "it ends in a sentence");
}

#[test]
fn what_leaves_a_radix_tree_comes_back_and_nobody_sees_it_there() {
    let played = reuse::play(Smart, 0..6000);
    assert_eq!(played.finding, None);
    let marks = [Mark::LIMBO_LEFT, Mark::LEAF_REPLACED, Mark::LEAF_LEFT_OUT, Mark::NODE_LEFT_OUT, Mark::FINALIZED_MET];
    for mark in marks {
        assert!(played.marks[mark.number()] > 200, "{mark:?}: {}", played.marks[mark.number()]);
    }
}

#[test]
fn what_old_copies_show_empty_is_found_when_it_has_come() {
    let played = reuse::play(Dolphin, 0..2000);
    assert_eq!(played.finding, None);
    let marks = [Mark::LIMBO_LEFT, Mark::LEAF_SPLIT, Mark::VOID_FILLED, Mark::STALE_CACHE];
    for mark in marks {
        assert!(played.marks[mark.number()] > 200, "{mark:?}: {}", played.marks[mark.number()]);
    }
}

/// Damage that once kept something busy for ever: a walk, a lane that settled, an operation that waited for the epochs.
#[test]
fn damage_that_found_endless_loops_ends() {
    let recovered = Faults::parse("drops,crash,rpc-lost,rpc-repeated").expect("these are kinds of faults");
    let settings = |faults| Settings { faults, damage: true, ..Settings::default() };
    for report in [
        Verifier::new(Recovered(Chime), settings(recovered)).verify([90_001_161]),
        Verifier::new(Bounded(ItemsOver(Sherman)), settings(DROPS)).verify([90_002_437]),
        Verifier::new(Recovered(ItemsOver(Chime)), settings(recovered)).verify([700_273]),
    ] {
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn operations_on_damaged_memory_end() {
    let settings = Settings { faults: DROPS, damage: true, ..Settings::default() };
    let report = Verifier::new(Recovered(Sherman), settings.clone()).verify(0..100);
    assert!(report.is_clean(), "{report}");
    // The damage was met: without it nothing of this kind fails.
    assert!(report.failed.keys().any(|cause| cause.contains("corrupt")), "{report}");
    let undamaged = Settings { damage: false, ..settings };
    let report = Verifier::new(Recovered(Sherman), undamaged).verify(0..100);
    assert!(report.is_clean() && !report.failed.keys().any(|cause| cause.contains("corrupt")), "{report}");
}
