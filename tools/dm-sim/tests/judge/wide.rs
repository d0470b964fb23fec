//! Histories with options that most histories never have.

use dm_sim::verify::{
    Bounded, Chime, Faults, ItemsOver, Recovered, Report, Settings, Sherman, Smart, Subject, Verifier, WideOption,
    WideOptions,
};

/// Faults for histories in which torn changes are not mended.
const BOUNDED: &str = "drops,crash,node-death,stale-cache";
/// All faults but deaths of memory nodes.
const RECOVERED: &str = "drops,crash,qp-error,rpc-lost,rpc-repeated,stale-cache";

fn verify(subject: impl Subject + Copy, faults: &str, wide: WideOptions, seeds: std::ops::Range<u64>) -> Report {
    let settings = Settings { faults: Faults::parse(faults).expect("kinds of faults"), wide, ..Settings::default() };
    let mut verifier = Verifier::new(subject, settings);
    let report = verifier.verify(seeds);
    println!("{report}");
    if let Some(seed) = report.findings.first().map(|(seed, _)| *seed) {
        panic!("{}", verifier.replay_shortest(seed).expect("it fails again"));
    }
    report
}

/// In SMART, a scan that wanted no record said that there were no more.
#[test]
fn scans_of_no_record_say_that_there_may_be_more() {
    let nothing = WideOptions::NONE.with(WideOption::ScanNothing);
    verify(Bounded(Sherman), "none", nothing, 0..100);
    verify(Bounded(Chime), "none", nothing, 0..100);
    verify(Bounded(Smart), "none", nothing, 0..100);
    verify(Bounded(ItemsOver(Smart)), "none", nothing, 0..100);
}

/// A sweep freed a row while its queue pair failed. It reported bad input, not the failed request.
#[test]
fn seeds_that_found_something() {
    let report = verify(Recovered(Sherman), RECOVERED, WideOptions::ALL, 204..205);
    assert!(report.met[WideOption::Sweeps as usize] > 0, "it is another history now: {report}");
}

#[test]
fn histories_with_options_are_clean_and_meet_them() {
    // Long runs have the others, too.
    let wide = WideOptions::ALL.without(WideOption::Lanes).without(WideOption::ShortLeases);
    for report in [
        verify(Bounded(Sherman), BOUNDED, wide, 0..200),
        verify(Recovered(Chime), RECOVERED, wide, 0..200),
        verify(Recovered(ItemsOver(Smart)), RECOVERED, wide, 0..200),
    ] {
        let met = WideOption::ALL.iter().filter(|option| report.met[**option as usize] > 0).count();
        assert!(met >= 14, "{report}");
    }
}

/// Compute nodes that died come back while the others work: in the row that a sweep has freed, with its next incarnation.
#[test]
fn compute_nodes_that_come_back_open_the_index_again() {
    let wide = WideOptions::NONE.with(WideOption::Rejoin).with(WideOption::RowTable);
    for report in [
        verify(Recovered(Sherman), RECOVERED, wide, 0..400),
        verify(Recovered(Smart), RECOVERED, wide, 0..400),
        verify(Recovered(ItemsOver(Chime)), RECOVERED, wide, 0..400),
    ] {
        assert!(report.met[WideOption::Rejoin as usize] >= 10, "{report}");
    }
}
