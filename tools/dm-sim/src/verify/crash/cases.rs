//! Operations to cut short, and the trees they happen on.

use dm_core::btree::Options;
use dm_core::index::OperationKind;
use dm_core::sherman::parameters::Parameters;

/// What the compute node does that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One point operation; `update_if` expects what is there.
    Point(OperationKind, u64),
    /// A bulk load of so many records into the empty index.
    Bulk(u64),
}

/// A tree and an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// In words.
    pub name: String,
    /// Sizes.
    pub parameters: Parameters,
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
    /// Keys inserted before.
    pub inserted: Vec<u64>,
    /// Keys deleted then.
    pub deleted: Vec<u64>,
    /// What is cut short.
    pub act: Act,
}

/// Keys of all cases lie below this.
pub const KEYS: u64 = 24;

use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};

/// Keys 0, 2, 4, ...
fn evens(count: u64) -> Vec<u64> {
    (0..count).map(|key| key * 2).collect()
}

/// The operations: every kind, and every kind of structure change. Leaves of two or three records, inner nodes of two
/// separators: a few keys make a tree of four levels.
fn acts() -> Vec<(&'static str, Vec<u64>, Vec<u64>, Act)> {
    let none = Vec::new;
    vec![
        ("the first insert of all", none(), none(), Act::Point(Insert, 3)),
        ("a bulk load", none(), none(), Act::Bulk(9)),
        ("an insert into a leaf with room", evens(3), vec![2], Act::Point(Insert, 3)),
        ("an update", evens(4), none(), Act::Point(Update, 4)),
        ("an update_if", evens(4), none(), Act::Point(UpdateIf, 4)),
        ("an upsert of a present key", evens(4), none(), Act::Point(Upsert, 2)),
        ("an upsert of an absent key", evens(4), vec![2], Act::Point(Upsert, 3)),
        ("a delete", evens(4), none(), Act::Point(Delete, 0)),
        ("a get", evens(4), none(), Act::Point(Get, 0)),
        ("an insert that splits the root leaf", evens(2), none(), Act::Point(Insert, 3)),
        ("an insert that splits a leaf", evens(3), none(), Act::Point(Insert, 5)),
        ("an insert that splits a leaf in its middle", evens(4), none(), Act::Point(Insert, 1)),
        ("an insert that splits a leaf whose records are out of order", vec![4, 2], none(), Act::Point(Insert, 3)),
        ("an insert that splits up to a new root", evens(4), none(), Act::Point(Insert, 7)),
        ("an insert into three levels", evens(5), none(), Act::Point(Insert, 9)),
        ("an insert that splits an inner node", evens(6), none(), Act::Point(Insert, 11)),
        ("an insert that splits up to a fourth level", evens(8), none(), Act::Point(Insert, 15)),
        ("a delete that empties a leaf, the right of a pair", evens(4), vec![6], Act::Point(Delete, 4)),
        ("a delete that empties the leftmost leaf", evens(4), none(), Act::Point(Delete, 0)),
        ("a delete that empties a leaf whose neighbour is full", evens(7), none(), Act::Point(Delete, 2)),
        ("a delete that leaves one leaf", evens(3), vec![4], Act::Point(Delete, 2)),
    ]
}

/// All cases. Every act on one memory node with lines as crash units, everything on; then with one thing different.
pub fn all() -> Vec<Case> {
    let on = Options::default();
    let short = Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 2, inner_span: 2 };
    // Records of more than two lines, leaves of several.
    let long = Parameters { value_bytes: 120, ..short };
    let wide = Parameters { key_bytes: 48, ..short };
    let variants: &[(&str, Parameters, Options, usize, u32, bool, u32)] = &[
        ("long records", long, on, 1, 61, false, 64),
        ("short records", short, on, 1, 61, true, 64),
        ("three memory nodes", long, on, 3, 61, true, 64),
        ("few locks", short, on, 2, 3, false, 64),
        ("one lock", long, on, 1, 1, false, 64),
        ("long keys", wide, on, 1, 61, false, 64),
        ("packets of 256 bytes", long, on, 1, 61, false, 256),
        ("packets longer than a node", long, on, 2, 61, false, 4096),
        ("no command combination", long, Options { combine: false, ..on }, 1, 61, false, 64),
        ("no local queues", long, Options { hierarchical: false, ..on }, 1, 61, false, 64),
        ("whole-node writes", short, Options { entry_writes: false, ..on }, 1, 61, false, 64),
        ("READ chained to the lock's CAS", long, Options { chain_lock_read: true, ..on }, 1, 61, false, 64),
    ];
    let mut cases = Vec::new();
    for &(variant, parameters, options, nodes, locks, device, unit_bytes) in variants {
        for (act_name, inserted, deleted, act) in acts() {
            cases.push(Case {
                name: format!("{act_name}; {variant}"),
                parameters,
                options,
                nodes,
                locks,
                device,
                unit_bytes,
                inserted,
                deleted,
                act,
            });
        }
    }
    cases
}
