//! Scenarios that are searched for: a list of keys does not always show what an operation on them does. So keys are
//! drawn, the operation is tried, and its marks and WRITEs say whether it is one of those wanted.

use super::cases::{Case, CrashSetup, CutOperation, KEYS, Scenario};
use super::stage::{Probe, probe};
use crate::rng::Rng;
use dm_core::operation::OperationKind::{self, Delete, Insert, Upsert};
use dm_host::kinds::IndexParameters;

/// A wanted scenario: its name, the kind of operation, and a check of what the operation did.
pub(in crate::verify) type Wanted = (&'static str, OperationKind, fn(&Scenario, &Probe) -> bool);

/// Draws after which a scenario that was not found is an error.
const DRAWS_MAX: u64 = 20_000;

fn drawn(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x5eed_0007);
    let mut keys: Vec<u64> = (0..KEYS).collect();
    // Fisher-Yates shuffle.
    for at in (1..keys.len()).rev() {
        keys.swap(at, rng.below(at as u32 + 1) as usize);
    }
    let inserted = 1 + rng.below(KEYS as u32 - 1) as usize;
    let deleted = if rng.percent(50) { rng.below(inserted as u32) as usize } else { 0 };
    let kind = [Insert, Insert, Upsert, Delete][rng.below(4) as usize];
    let key = if kind == Delete { keys[deleted] } else { keys[inserted] };
    Scenario {
        name: "",
        deleted: keys[..deleted].to_vec(),
        inserted: keys[..inserted].to_vec(),
        operation: CutOperation::Point(kind, key),
    }
}

/// Finds one scenario for each of those wanted, in an index of these parameters on this setup.
pub(in crate::verify) fn find(parameters: &IndexParameters, setup: CrashSetup, wanted: &[Wanted]) -> Vec<Scenario> {
    let (mut scenarios, mut wanted) = (Vec::new(), wanted.to_vec());
    for seed in 0..DRAWS_MAX {
        if wanted.is_empty() {
            return scenarios;
        }
        let scenario = drawn(seed);
        let CutOperation::Point(kind, _) = scenario.operation else { continue };
        if wanted.iter().all(|(_, other, _)| *other != kind) {
            continue;
        }
        let probe = probe(&Case { name: String::new(), parameters: *parameters, setup, scenario: scenario.clone() });
        wanted.retain(|(name, other, is)| {
            let met = *other == kind && is(&scenario, &probe);
            if met {
                scenarios.push(Scenario { name, ..scenario.clone() });
            }
            !met
        });
    }
    let missing: Vec<&str> = wanted.iter().map(|(name, _, _)| *name).collect();
    panic!("{parameters:?}: no keys were found for {}", missing.join(", "))
}
