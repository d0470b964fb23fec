//! The toy under the judge, in histories with faults, with and without recovery; and in the conformance suite, of which no
//! other binary has to be built again for it.

use dm_core::marks::Mark;
use dm_core::verbs::Assumptions;
use dm_sim::verify::crash::random;
use dm_sim::verify::{Bounded, FaultKind, Faults, Recovered, Report, Settings, Subject, Toy, Verifier};

/// `usual` seeds, or so many times as many as `DM_LONGER` says.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("DM_LONGER").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    0..usual * times
}

fn assert_clean(toy: &impl Subject, report: &Report, wanted: &[Mark]) {
    println!("{}\n{report}", toy.name());
    assert!(report.is_clean(), "{report}");
    for &mark in wanted {
        assert!(report.marks[mark.number()] > 0, "never hit: {}\n{report}", mark.name());
    }
}

/// Nobody takes over: what the dead hold stays held, and readers do not care.
#[test]
fn histories_are_linearizable() {
    let toy = Bounded(Toy);
    let quiet = Verifier::new(toy, Settings::default()).verify(seeds(400));
    let wanted = &[Mark::TORN_READ, Mark::LOCKED_READ, Mark::LOCK_LOST, Mark::LOCK_QUEUED, Mark::HAND_OVER];
    assert_clean(&toy, &quiet, wanted);
    let settings = Settings { faults: Faults::ALL, ..Settings::default() };
    let faults = Verifier::new(toy, settings).verify(seeds(600));
    assert_clean(&toy, &faults, &[Mark::SETTLED, Mark::TORN_READ]);
}

/// The dead are taken over: nobody fails.
#[test]
fn histories_with_deaths_are_linearizable() {
    let toy = Recovered(Toy);
    let kinds = [FaultKind::Crash, FaultKind::Drops, FaultKind::QpError, FaultKind::RpcLost, FaultKind::RpcRepeated];
    let faults = kinds.into_iter().fold(Faults::NONE, |all, kind| all.and(Faults::only(kind)));
    let report = Verifier::new(toy, Settings { faults, ..Settings::default() }).verify(seeds(600));
    assert_clean(&toy, &report, &[Mark::SETTLED, Mark::ROW_FENCED, Mark::TAKEOVER, Mark::ROW_SWEPT]);
    assert!(report.faults[FaultKind::Crash as usize] > 0, "{report}");
}

/// All compute nodes but one may die, and those who repair.
#[test]
fn many_deaths_lose_nothing() {
    let toy = Recovered(Toy);
    let settings = random::settings();
    let mut verifier = Verifier::new(toy, settings.clone());
    let report = random::run(&mut verifier, &settings, seeds(200));
    assert_clean(&toy, &report, &[Mark::TAKEOVER]);
}

/// What it declares to need, it needs: where a fabric says that it grants that and does not, the judge finds something.
#[test]
fn what_it_assumes_is_needed() {
    let needed = [
        Assumptions::WRITE_THEN_WRITE,
        Assumptions::WRITE_THEN_ATOMIC,
        Assumptions::HOST_BEFORE_DEVICE,
        Assumptions::ATOMIC_THEN_READ,
        Assumptions::COMPLETION_IS_VISIBLE,
        Assumptions::WORD_ATOMIC,
    ];
    for withdrawn in needed {
        let settings = Settings { withdrawn, ..Settings::default() };
        let report = Verifier::new(Bounded(Toy), settings).verify(seeds(300));
        let names: Vec<_> = withdrawn.names().collect();
        assert!(!report.is_clean(), "nothing shows that it needs {}", names.join(", "));
    }
}

dm_tests::conformance!(conformance, dm_tests::subject::toy::SUBJECT);

mod items {
    dm_tests::conformance!(
        conformance,
        dm_tests::subject::items::ItemsSubject(dm_tests::subject::toy::SUBJECT),
        not_bulk_loaded
    );
}
