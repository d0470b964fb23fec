//! Cases of SMART for enumerated deaths.

use crate::verify::coding::Digits;
use crate::verify::crash::cases::{Act, Case, Ground, KEYS, Story, cross, evens};
use dm_core::btree::Options;
use dm_core::operation::OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
use dm_core::smart::parameters::Parameters;
use dm_host::kinds::IndexParameters;

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let on = Options::default();
    // Seal and value in one line, or across two; then values of several lines, and of several packets.
    let short = Parameters { key_bytes: 8, value_bytes: 16 };
    let long = Parameters { key_bytes: 8, value_bytes: 120 };
    let longer = Parameters { key_bytes: 8, value_bytes: 600 };
    let wide = Parameters { key_bytes: 48, value_bytes: 16 };
    let usual = Ground::default();
    let with = |options| Ground { options, ..usual };
    // Digits of two bits: numbers below 24 use three of four bytes. The bytes are far apart, so that paths between them
    // are long.
    let digits = Some(Digits { bits: 2, stride: 2 });
    let apart = Some(Digits { bits: 2, stride: 12 });
    let variants: &[(&str, Parameters, Ground)] = &[
        ("short values", short, usual),
        ("values of several lines", long, usual),
        ("digits, values of several lines", long, Ground { digits, ..usual }),
        ("long paths", wide, Ground { digits: apart, nodes: 2, ..usual }),
        ("two memory nodes, digits", long, Ground { digits, nodes: 2, ..usual }),
        ("packets of 256 bytes", longer, Ground { unit_bytes: 256, ..usual }),
        ("packets longer than a leaf", long, Ground { nodes: 2, unit_bytes: 4096, ..usual }),
        ("no masked CAS", long, Ground { masked_cas: false, ..usual }),
        ("no command combination", long, with(Options { combine: false, ..on })),
        ("no local queues", long, with(Options { hierarchical: false, ..on })),
        ("READ chained to the lock", long, with(Options { chain_lock_read: true, ..on })),
        ("batches", long, with(Options { rdwc: true, ..on })),
    ];
    let variants: Vec<(&str, IndexParameters, Ground)> =
        variants.iter().map(|&(name, parameters, ground)| (name, parameters.into(), ground)).collect();
    cross(&variants, |_| stories())
}

fn stories() -> Vec<Story> {
    let some = evens(5);
    let story = |name, inserted: &[u64], deleted: &[u64], act| Story {
        name,
        inserted: inserted.to_vec(),
        deleted: deleted.to_vec(),
        act,
    };
    let first = |count: u64| (0..count).collect::<Vec<u64>>();
    vec![
        story("a get", &some, &[], Act::Point(Get, 4)),
        story("an update", &some, &[], Act::Point(Update, 4)),
        story("an update_if", &some, &[], Act::Point(UpdateIf, 4)),
        story("an upsert of a record", &some, &[], Act::Point(Upsert, 4)),
        story("a delete", &some, &[], Act::Point(Delete, 4)),
        story("an insert of a deleted record", &some, &[4], Act::Point(Insert, 4)),
        story("the first insert", &[], &[], Act::Point(Insert, 4)),
        story("an insert that splits the only leaf", &[0], &[], Act::Point(Insert, 4)),
        story("an insert that splits the leaf of a neighbour", &first(4), &[], Act::Point(Insert, 20)),
        story("an insert into an empty slot", &first(3), &[], Act::Point(Insert, 3)),
        story("an insert into a node of four", &first(4), &[], Act::Point(Insert, 4)),
        story("an insert into a node of eight", &first(8), &[], Act::Point(Insert, 8)),
        story("an upsert into a node of sixteen", &first(16), &[], Act::Point(Upsert, KEYS - 1)),
        story("a bulk load", &[], &[], Act::Bulk(9)),
    ]
}
