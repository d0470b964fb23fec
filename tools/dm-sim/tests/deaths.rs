//! Compute nodes die in the middle of operations, and the others go on.

use dm_core::lane::Mark;
use dm_sim::verify::crash::{self, Enumeration, cases, random};
use dm_sim::verify::{FaultKind, Faults, Settings, ShermanRecovered, Verifier};

fn marked(sum: &Enumeration, mark: Mark) -> u64 {
    sum.marks[mark as usize]
}

#[test]
fn an_operation_can_be_cut_short_anywhere() {
    let mut sum = Enumeration::default();
    for case in cases::all() {
        // Every point of the first kind of tree, some of the others'.
        let points = if case.name.ends_with("; long records") { usize::MAX } else { 8 };
        sum.merge(crash::enumerate(&case, points, 16));
    }
    assert!(sum.is_clean(), "{sum}");
    for mark in [
        Mark::LeafSplit,
        Mark::InnerSplit,
        Mark::RootGrowth,
        Mark::Merge,
        Mark::HelpedSplit,
        Mark::RowFenced,
        Mark::Takeover,
        Mark::RedoReplayed,
        Mark::RepairerDied,
        Mark::MergeUndone,
        Mark::RowSwept,
        Mark::ChunkAdopted,
        Mark::NodeReclaimed,
    ] {
        assert!(marked(&sum, mark) > 0, "never hit: {}\n{sum}", mark.name());
    }
}

#[test]
fn a_slow_holder_is_left_alone_and_a_stopped_one_can_join_again() {
    for case in cases::all() {
        crash::descheduled_holders(&case).unwrap_or_else(|what| panic!("{what}"));
    }
}

#[test]
fn all_compute_nodes_but_one_may_die_in_one_history() {
    let settings = random::settings();
    let mut verifier = Verifier::new(ShermanRecovered, settings.clone());
    let report = random::run(&mut verifier, &settings, 0..400);
    assert!(report.is_clean(), "{report}");
    assert!(report.faults[FaultKind::Crash as usize] > 500, "{report}");
    assert!(report.marks[Mark::RedoReplayed as usize] > 0, "{report}");
}

#[test]
fn deaths_go_together_with_everything_else_that_may_be_survived() {
    let kinds = [
        FaultKind::Crash,
        FaultKind::Drops,
        FaultKind::QpError,
        FaultKind::RpcLost,
        FaultKind::RpcRepeated,
        FaultKind::StaleCache,
    ];
    let faults = kinds.into_iter().fold(Faults::NONE, |all, kind| all.and(Faults::only(kind)));
    let report = Verifier::new(ShermanRecovered, Settings { faults, ..Settings::default() }).verify(0..400);
    assert!(report.is_clean(), "{report}");
}
