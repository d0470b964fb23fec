//! Cases of Sherman for enumerated deaths.

use crate::verify::crash::cases::{Case, CrashSetup, CutOperation, Scenario, cross, evens};
use dm_core::btree::Options;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::operation::OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
use dm_core::sherman::parameters::Parameters;

/// The scenarios: every kind of operation, and every kind of structure change. Leaves have two or three records, inner
/// nodes two separators, so a few keys make a tree of four levels.
pub(in crate::verify) fn scenarios() -> Vec<Scenario> {
    let none = Vec::new;
    let scenario = |(name, inserted, deleted, operation)| Scenario { name, inserted, deleted, operation };
    let scenarios = [
        ("the first insert of all", none(), none(), CutOperation::Point(Insert, 3)),
        ("a bulk load", none(), none(), CutOperation::Bulk(9)),
        ("an insert into a leaf with room", evens(3), vec![2], CutOperation::Point(Insert, 3)),
        ("an update", evens(4), none(), CutOperation::Point(Update, 4)),
        ("an update_if", evens(4), none(), CutOperation::Point(UpdateIf, 4)),
        ("an upsert of a present key", evens(4), none(), CutOperation::Point(Upsert, 2)),
        ("an upsert of an absent key", evens(4), vec![2], CutOperation::Point(Upsert, 3)),
        ("a delete", evens(4), none(), CutOperation::Point(Delete, 0)),
        ("a get", evens(4), none(), CutOperation::Point(Get, 0)),
        ("an insert that splits the root leaf", evens(2), none(), CutOperation::Point(Insert, 3)),
        ("an insert that splits a leaf", evens(3), none(), CutOperation::Point(Insert, 5)),
        ("an insert that splits a leaf in its middle", evens(4), none(), CutOperation::Point(Insert, 1)),
        (
            "an insert that splits a leaf whose records are out of order",
            vec![4, 2],
            none(),
            CutOperation::Point(Insert, 3),
        ),
        ("an insert that splits up to a new root", evens(4), none(), CutOperation::Point(Insert, 7)),
        ("an insert into three levels", evens(5), none(), CutOperation::Point(Insert, 9)),
        ("an insert that splits an inner node", evens(6), none(), CutOperation::Point(Insert, 11)),
        ("an insert that splits up to a fourth level", evens(8), none(), CutOperation::Point(Insert, 15)),
        ("a delete that empties a leaf, the right of a pair", evens(4), vec![6], CutOperation::Point(Delete, 4)),
        ("a delete that empties the leftmost leaf", evens(4), none(), CutOperation::Point(Delete, 0)),
        ("a delete that empties a leaf whose neighbour is full", evens(7), none(), CutOperation::Point(Delete, 2)),
        ("a delete that leaves one leaf", evens(3), vec![4], CutOperation::Point(Delete, 2)),
    ];
    scenarios.map(scenario).into()
}

/// All cases. Every scenario runs on one memory node with lines as crash units and with all techniques on; then with
/// one difference at a time.
pub(super) fn all() -> Vec<Case> {
    let on = Options::default();
    let short = Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 2, inner_span: 2 };
    // Records of more than two lines, and leaves of several.
    let long = Parameters { value_bytes: 120, ..short };
    // Records of several packets. The part of an entry behind its last full packet is within one line.
    let longer = Parameters { value_bytes: 512, ..short };
    let wide = Parameters { key_bytes: 48, ..short };
    let usual = CrashSetup::default();
    let with = |options| CrashSetup { options, ..usual };
    let variants = [
        ("long records", long, usual),
        ("short records", short, CrashSetup { device: true, ..usual }),
        ("three memory nodes", long, CrashSetup { nodes: 3, device: true, ..usual }),
        ("few locks", short, CrashSetup { nodes: 2, locks: 3, ..usual }),
        ("one lock", long, CrashSetup { locks: 1, ..usual }),
        ("long keys", wide, usual),
        ("packets of 256 bytes", long, CrashSetup { unit_bytes: 256, ..usual }),
        ("records longer than packets", longer, CrashSetup { unit_bytes: 256, ..usual }),
        ("packets longer than a node", long, CrashSetup { nodes: 2, unit_bytes: 4096, ..usual }),
        ("unlock by CAS", long, with(Options { unlock: Unlock::Cas, ..on })),
        ("no command combination", long, with(Options { combine: false, ..on })),
        ("no local queues", long, with(Options { hierarchical: false, ..on })),
        ("whole-node writes", short, with(Options { entry_writes: false, ..on })),
        ("READ when the lock is held", long, with(Options { chain_lock_read: ChainedRead::Never, ..on })),
    ];
    cross(&variants.map(|(name, parameters, setup)| (name, parameters.into(), setup)), |_| scenarios())
}
