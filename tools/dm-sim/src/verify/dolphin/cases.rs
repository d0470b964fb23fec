//! Cases of Dolphin for enumerated deaths. Which keys make a leaf be cut depends on the order in which they came, so
//! structure changes are [searched for](crate::verify::crash::wanted).

use crate::verify::coding::Digits;
use crate::verify::crash::cases::{Case, CrashSetup, CutOperation, Scenario, cross, evens};
use crate::verify::crash::stage::Probe;
use crate::verify::crash::wanted::{self, Wanted};
use dm_core::btree::Options;
use dm_core::dolphin::parameters::Parameters;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
use dm_host::kinds::IndexParameters;

/// Leaves of seven records, so that 24 keys make several.
const CUT_OFTEN: Parameters = Parameters::with_sizes(64, 63);

/// A leaf is cut, and its node has room.
fn cuts(probe: &Probe) -> bool {
    probe.did(Mark::LEAF_SPLIT) && !probe.did(Mark::NODE_REPLACED) && !probe.did(Mark::LONG_PATH)
}

/// With digits in bytes next to each other.
const WANTED: &[Wanted] = &[
    // The keys agree on the first bytes, so a node comes between.
    ("an insert that cuts the only leaf", Insert, |scenario, probe| cuts(probe) && scenario.inserted.len() == 7),
    ("an insert that cuts a leaf", Insert, |scenario, probe| cuts(probe) && scenario.inserted.len() > 7),
    ("an upsert that cuts a leaf", Upsert, |scenario, probe| cuts(probe) && scenario.inserted.len() > 7),
    ("an insert that cuts a leaf whose node is full", Insert, |_, probe| {
        probe.did(Mark::LEAF_SPLIT) && probe.did(Mark::NODE_REPLACED)
    }),
    ("an insert into a leaf whose cells deleted keys use up", Insert, |_, probe| probe.did(Mark::LEAF_REBUILT)),
];

/// With digits where nodes of a path are.
const WANTED_ON_PATHS: &[Wanted] = &[
    ("an insert that cuts a leaf by a path of nodes", Insert, |_, probe| probe.did(Mark::LONG_PATH)),
    ("an insert into a void", Insert, |scenario, probe| !scenario.inserted.is_empty() && probe.did(Mark::VOID_FILLED)),
];

/// With digits that headers repeat.
const WANTED_APART: &[Wanted] = &[
    ("an insert beside a node with another header", Insert, |_, probe| probe.did(Mark::HEADER_SPLIT)),
    ("an upsert beside a node with another header", Upsert, |_, probe| probe.did(Mark::HEADER_SPLIT)),
];

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let on = Options::default();
    let words = Parameters::with_sizes(8, 8);
    let usual = CrashSetup::default();
    let with = |options| CrashSetup { options, ..usual };
    // Digits of two bits: numbers below 24 use three of four bytes. Nodes of a path are seven bytes apart; the other
    // bytes between two digits are in headers.
    let digits = |stride| CrashSetup { digits: Some(Digits { bits: 2, stride }), ..usual };
    let (apart, on_paths) = (digits(12), digits(14));
    let cut_often: IndexParameters = CUT_OFTEN.into();
    let single: &[(&str, IndexParameters, CrashSetup)] = &[
        ("values of a word", words.into(), usual),
        ("values of a word, batches", words.into(), with(Options { rdwc: true, ..on })),
        ("values of a word, shared inserts", words.into(), with(Options { shared_inserts: true, ..on })),
        ("leaves of seven records", cut_often, usual),
    ];
    let near: &[(&str, IndexParameters, CrashSetup)] = &[
        ("digits in one byte", cut_often, usual),
        ("digits in one byte, two memory nodes", cut_often, CrashSetup { nodes: 2, ..usual }),
        (
            "digits in one byte, packets longer than a leaf",
            cut_often,
            CrashSetup { nodes: 2, unit_bytes: 4096, ..usual },
        ),
        ("digits in one byte, no masked CAS", cut_often, CrashSetup { masked_cas: false, ..usual }),
        ("digits in one byte, no command combination", cut_often, with(Options { combine: false, ..on })),
    ];
    let far: &[(&str, IndexParameters, CrashSetup)] = &[
        ("digits far apart", cut_often, apart),
        ("digits far apart, two memory nodes", cut_often, CrashSetup { nodes: 2, ..apart }),
    ];
    let paths: &[(&str, IndexParameters, CrashSetup)] = &[("digits on paths", cut_often, on_paths)];
    let mut cases = cross(single, |_| scenarios());
    cases.extend(cross(near, |parameters| wanted::find(parameters, usual, WANTED)));
    cases.extend(cross(far, |parameters| wanted::find(parameters, apart, WANTED_APART)));
    cases.extend(cross(paths, |parameters| wanted::find(parameters, on_paths, WANTED_ON_PATHS)));
    cases
}

fn scenarios() -> Vec<Scenario> {
    let some = evens(5);
    let scenario = |name, inserted: &[u64], deleted: &[u64], operation| Scenario {
        name,
        inserted: inserted.to_vec(),
        deleted: deleted.to_vec(),
        operation,
    };
    vec![
        scenario("a get", &some, &[], CutOperation::Point(Get, 4)),
        scenario("an update", &some, &[], CutOperation::Point(Update, 4)),
        scenario("an update_if", &some, &[], CutOperation::Point(UpdateIf, 4)),
        scenario("an upsert of a record", &some, &[], CutOperation::Point(Upsert, 4)),
        scenario("a delete", &some, &[], CutOperation::Point(Delete, 4)),
        scenario("a delete of the only record", &[4], &[], CutOperation::Point(Delete, 4)),
        scenario("an insert of a deleted record", &some, &[4], CutOperation::Point(Insert, 4)),
        scenario("an insert of a new record", &some, &[], CutOperation::Point(Insert, 5)),
        scenario("the first insert", &[], &[], CutOperation::Point(Insert, 4)),
        scenario("a bulk load", &[], &[], CutOperation::Bulk(9)),
    ]
}
