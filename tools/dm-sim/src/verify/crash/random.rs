//! Random deaths: several in one history, repairers among them.

use crate::rng::Rng;
use crate::verify::draw::Draw;
use crate::verify::fault_plan::FaultPlan;
use crate::verify::faults::{Fault, FaultKind, Faults, Moment, Planned};
use crate::verify::report::Report;
use crate::verify::run::Verifier;
use crate::verify::settings::Settings;
use crate::verify::subject::Subject;

/// Steps between two deaths: about as many as it takes to wait for a lease and to recover a lock or two.
const GAP_STEPS: u32 = 3000;

/// Histories with deaths of compute nodes as the only faults.
pub fn settings() -> Settings {
    Settings {
        compute_nodes: (3, 5),
        lanes: (5, 9),
        operations: (120, 240),
        faults: Faults::only(FaultKind::Crash),
        ..Settings::default()
    }
}

/// A plan in which all compute nodes but one or two die, one after the other, most of them with a WRITE under way.
pub fn plan(settings: &Settings, seed: u64) -> FaultPlan {
    let draw = Draw::new(settings, seed);
    let mut rng = Rng::new(seed ^ 0x5eed_0006);
    let compute_nodes = draw.lanes.len() as u32;
    let deaths = 1 + rng.below(compute_nodes - 1);
    let mut step = u64::from(rng.below(2000));
    let mut faults = Vec::new();
    for compute_node in 0..deaths as u16 {
        let moment = if rng.percent(80) { Moment::InAWrite } else { Moment::Any };
        let fault = Fault::Crash { compute_node, moment, closed_after_ns: 0 };
        faults.push(Planned { step, fault });
        step += u64::from(rng.below(GAP_STEPS));
    }
    FaultPlan { faults, ..FaultPlan::default() }
}

/// Runs the histories of `seeds`.
pub fn run<S: Subject>(verifier: &mut Verifier<S>, settings: &Settings, seeds: std::ops::Range<u64>) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let history = verifier.run_with(seed, &plan(settings, seed), false).history;
        report.add(seed, history);
    }
    report
}
