//! Cases for enumerated deaths: operations to cut short, and the trees on which they run.

use crate::verify::coding::Digits;
use dm_core::btree::Options;
use dm_core::operation::OperationKind;
use dm_host::assembly::Level;
use dm_host::kinds::IndexParameters;

/// The operation in which the victim dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOperation {
    /// One point operation; `update_if` expects what is there.
    Point(OperationKind, u64),
    /// A bulk load of so many records into the empty index.
    Bulk(u64),
}

/// A tree and an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// A description.
    pub name: String,
    /// Sizes.
    pub parameters: IndexParameters,
    /// Configuration: what differs from case to case.
    pub setup: CrashSetup,
    /// The operation, and what precedes it.
    pub scenario: Scenario,
}

/// The configuration of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashSetup {
    /// Techniques.
    pub options: Options,
    /// Memory nodes.
    pub nodes: usize,
    /// Lock words per memory node.
    pub locks: u32,
    /// Lock tables in device memory.
    pub device: bool,
    /// Crash units, in bytes.
    pub unit_bytes: u32,
    /// The fabric has masked CAS.
    pub masked_cas: bool,
    /// WRITEs land their lines in ascending order: a death leaves the front part of one.
    pub ascending: bool,
    /// How numbers become keys; `None`: in bytes next to each other.
    pub digits: Option<Digits>,
    /// What an answer means, where keys have owners.
    pub level: Level,
}

impl Default for CrashSetup {
    fn default() -> Self {
        Self {
            options: Options::default(),
            nodes: 1,
            locks: 61,
            device: false,
            unit_bytes: 64,
            masked_cas: true,
            ascending: false,
            digits: None,
            level: Level::default(),
        }
    }
}

/// The scenario of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// A description.
    pub name: &'static str,
    /// Keys inserted before.
    pub inserted: Vec<u64>,
    /// Keys deleted then.
    pub deleted: Vec<u64>,
    /// The operation that is cut short.
    pub operation: CutOperation,
}

/// Keys of all cases lie below this.
pub const KEYS: u64 = 24;

/// Keys 0, 2, 4, ...
pub(in crate::verify) fn evens(count: u64) -> Vec<u64> {
    (0..count).map(|key| key * 2).collect()
}

/// Every scenario on every setup.
pub(in crate::verify) fn cross(
    variants: &[(&str, IndexParameters, CrashSetup)],
    scenarios: impl Fn(&IndexParameters) -> Vec<Scenario>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(variant, parameters, setup) in variants {
        for scenario in scenarios(&parameters) {
            cases.push(Case { name: format!("{}; {variant}", scenario.name), parameters, setup, scenario });
        }
    }
    cases
}
