//! Compute nodes die in the middle of operations, and survivors continue.

use dm_core::marks::Mark;
use dm_sim::verify::crash::{self, Case, CutOperation, Enumeration, random};
use dm_sim::verify::{Chime, FaultKind, Faults, Recovered, Settings, Sherman, TreeKind, Verifier};
use std::sync::atomic::{AtomicBool, Ordering};

/// Marks that every index must have hit when each of its operations was cut short.
const MARKS: &[Mark] = &[
    Mark::LEAF_SPLIT,
    Mark::INNER_SPLIT,
    Mark::ROOT_GROWTH,
    Mark::MERGE,
    Mark::HELPED_SPLIT,
    Mark::ROW_FENCED,
    Mark::TAKEOVER,
    Mark::REDO_REPLAYED,
    Mark::REPAIRER_DIED,
    Mark::MERGE_UNDONE,
    Mark::ROW_SWEPT,
];

/// A death that fails without the mutant, too, would give it the credit for another bug.
#[test]
fn a_mutant_is_not_caught_by_what_fails_without_it() {
    static IS_PLANTED: AtomicBool = AtomicBool::new(true);
    let hunt = |own| {
        crash::hunt(Recovered(Sherman), &[], own, 1, &|run| {
            IS_PLANTED.store(false, Ordering::Relaxed);
            let fails = run();
            IS_PLANTED.store(true, Ordering::Relaxed);
            fails
        })
    };
    assert_eq!(hunt(|| Err("always".to_owned())), None);
    let planted = || if IS_PLANTED.load(Ordering::Relaxed) { Err("the mutant".to_owned()) } else { Ok(()) };
    assert_eq!(hunt(planted), Some((2, "the mutant".to_owned())));
}

fn cut_short(cases: &[Case], more: &[Mark]) {
    let mut sum = Enumeration::default();
    for case in cases {
        // Every point of one kind of tree, and of one where packets end in the middle of lines; some points of the
        // others.
        let all = ["; long records", "; packets of 256 bytes"].iter().any(|of| case.name.ends_with(of));
        let points = if all { usize::MAX } else { 8 };
        sum.merge(crash::enumerate(case, points, 16));
    }
    assert!(sum.is_clean(), "{sum}");
    for mark in MARKS.iter().chain(more) {
        assert!(sum.marks[mark.number()] > 0, "never hit: {}\n{sum}", mark.name());
    }
}

#[test]
fn an_operation_of_sherman_can_be_cut_short_anywhere() {
    cut_short(&Sherman::crash_cases(), &[Mark::CHUNK_COLLECTED, Mark::NODE_RECLAIMED]);
}

#[test]
fn an_operation_of_chime_can_be_cut_short_anywhere() {
    let more = [Mark::HOP, Mark::WRAP, Mark::PURGE, Mark::DOUBTED, Mark::CHUNK_COLLECTED, Mark::NODE_RECLAIMED];
    cut_short(&Chime::crash_cases(), &more);
}

#[test]
fn a_slow_holder_is_left_alone_and_a_stopped_one_can_join_again() {
    for case in Sherman::crash_cases().iter().chain(&Chime::crash_cases()) {
        crash::descheduled_holders(case).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// A lane reused the slot with the redo record of a parent while it still held the parent's lock. So survivors replayed
/// the record of the lane before it, which had handed the lock over.
#[test]
fn a_redo_record_stays_for_as_long_as_its_lock_is_held() {
    let mut deaths = 0;
    for case in Sherman::crash_cases().iter().filter(|case| case.scenario.operation == CutOperation::Bulk(9)) {
        deaths += crash::merge_under_handed_over_lock(case).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(deaths > 0, "no merge came to its last WRITE");
}

/// The row of a dead compute node is free as soon as no lock names it, though a repairer may still be about to replay its WRITE.
#[test]
fn a_new_leaf_is_not_collected_while_a_repairer_is_about_to_link_it() {
    let mut freed = 0;
    for case in Sherman::crash_cases().iter().step_by(3) {
        freed += crash::collection_beside_a_paused_repairer(case).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(freed > 0, "no row was free before the replay");
}

fn many_deaths<K: TreeKind>(kind: K) {
    let settings = random::settings();
    let mut verifier = Verifier::new(Recovered(kind), settings.clone());
    let report = random::run(&mut verifier, &settings, 0..400);
    assert!(report.is_clean(), "{report}");
    assert!(report.faults[FaultKind::Crash as usize] > 500, "{report}");
    assert!(report.marks[Mark::REDO_REPLAYED.number()] > 0, "{report}");
}

#[test]
fn all_compute_nodes_but_one_may_die_in_one_history() {
    many_deaths(Sherman);
    many_deaths(Chime);
}

/// Faults after which nothing may be lost.
fn survivable() -> Faults {
    let kinds = [
        FaultKind::Crash,
        FaultKind::Drops,
        FaultKind::QpError,
        FaultKind::RpcLost,
        FaultKind::RpcRepeated,
        FaultKind::StaleCache,
    ];
    kinds.into_iter().fold(Faults::NONE, |all, kind| all.and(Faults::only(kind)))
}

fn deaths_and_more<K: TreeKind>(kind: K) {
    let settings = Settings { faults: survivable(), ..Settings::default() };
    let report = Verifier::new(Recovered(kind), settings).verify(0..400);
    assert!(report.is_clean(), "{report}");
}

#[test]
fn deaths_go_together_with_everything_else_that_may_be_survived() {
    deaths_and_more(Sherman);
    deaths_and_more(Chime);
}
