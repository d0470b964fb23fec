//! Cases of SMART for enumerated deaths.

use crate::verify::coding::Digits;
use crate::verify::crash::cases::{Case, CrashSetup, CutOperation, KEYS, Scenario, cross, evens};
use dm_core::btree::Options;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::operation::OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
use dm_core::smart::parameters::Parameters;
use dm_host::kinds::IndexParameters;

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let on = Options::default();
    // Seal and value in one line, or across two; then values of several lines, and of several packets.
    let short = Parameters::with_sizes(8, 16);
    let long = Parameters::with_sizes(8, 120);
    let longer = Parameters::with_sizes(8, 600);
    let wide = Parameters::with_sizes(48, 16);
    let usual = CrashSetup::default();
    let with = |options| CrashSetup { options, ..usual };
    // Digits of two bits: numbers below 24 use three of four bytes. The bytes are far apart, so that paths between them
    // are long.
    let digits = Some(Digits { bits: 2, stride: 2 });
    let apart = Some(Digits { bits: 2, stride: 12 });
    let variants: &[(&str, Parameters, CrashSetup)] = &[
        ("short values", short, usual),
        ("values of several lines", long, usual),
        ("digits, values of several lines", long, CrashSetup { digits, ..usual }),
        ("long paths", wide, CrashSetup { digits: apart, nodes: 2, ..usual }),
        ("two memory nodes, digits", long, CrashSetup { digits, nodes: 2, ..usual }),
        ("packets of 256 bytes", longer, CrashSetup { unit_bytes: 256, ..usual }),
        ("packets longer than a leaf", long, CrashSetup { nodes: 2, unit_bytes: 4096, ..usual }),
        ("no masked CAS", long, CrashSetup { masked_cas: false, ..usual }),
        ("no command combination", long, with(Options { combine: false, ..on })),
        ("no local queues", long, with(Options { hierarchical: false, ..on })),
        ("READ when the lock is held", long, with(Options { chain_lock_read: ChainedRead::Never, ..on })),
        ("unlock by CAS", short, with(Options { unlock: Unlock::Cas, ..on })),
        ("unlock by a WRITE of its own", short, with(Options { unlock: Unlock::Write, ..on })),
        ("lines land ascending", long, CrashSetup { ascending: true, ..usual }),
        (
            "lines land ascending, packets of 256 bytes",
            longer,
            CrashSetup { ascending: true, unit_bytes: 256, ..usual },
        ),
        ("batches", long, with(Options { rdwc: true, ..on })),
    ];
    let variants: Vec<(&str, IndexParameters, CrashSetup)> =
        variants.iter().map(|&(name, parameters, setup)| (name, parameters.into(), setup)).collect();
    cross(&variants, |_| scenarios())
}

fn scenarios() -> Vec<Scenario> {
    let some = evens(5);
    let scenario = |name, inserted: &[u64], deleted: &[u64], operation| Scenario {
        name,
        inserted: inserted.to_vec(),
        deleted: deleted.to_vec(),
        operation,
    };
    let first = |count: u64| (0..count).collect::<Vec<u64>>();
    vec![
        scenario("a get", &some, &[], CutOperation::Point(Get, 4)),
        scenario("an update", &some, &[], CutOperation::Point(Update, 4)),
        scenario("an update_if", &some, &[], CutOperation::Point(UpdateIf, 4)),
        scenario("an upsert of a record", &some, &[], CutOperation::Point(Upsert, 4)),
        scenario("a delete", &some, &[], CutOperation::Point(Delete, 4)),
        scenario("an insert of a deleted record", &some, &[4], CutOperation::Point(Insert, 4)),
        scenario("the first insert", &[], &[], CutOperation::Point(Insert, 4)),
        scenario("an insert that splits the only leaf", &[0], &[], CutOperation::Point(Insert, 4)),
        scenario("an insert that splits the leaf of a neighbour", &first(4), &[], CutOperation::Point(Insert, 20)),
        scenario("an insert into an empty slot", &first(3), &[], CutOperation::Point(Insert, 3)),
        scenario("an insert into a node of four", &first(4), &[], CutOperation::Point(Insert, 4)),
        scenario("an insert into a node of eight", &first(8), &[], CutOperation::Point(Insert, 8)),
        scenario("an upsert into a node of sixteen", &first(16), &[], CutOperation::Point(Upsert, KEYS - 1)),
        scenario("a bulk load", &[], &[], CutOperation::Bulk(9)),
    ]
}
