//! Workloads: YCSB as its users know it, drawn from one seed.
//!
//! # The rooms, in order of reading
//!
//! | file | what it answers |
//! |---|---|
//! | [`properties`] | what did the user ask for? `-P file` and `-p name=value`, with YCSB's names |
//! | [`spec`] | what does that mean? the standard workloads, proportions that sum to one, limits |
//! | [`random`] | where does chance come from? one small generator, one stream a lane |
//! | [`distribution`] | which record is touched next? uniform, zipfian (both meanings), latest |
//! | [`stream`] | which operation comes next on this lane? |
//! | [`keys`] | what do key and value of a record look like, and does this value belong to that key? |
//! | [`trace`] | which verbs did each operation issue? one CSV line each |
//!
//! A *record* is a number: 0, 1, 2, ... in order of insertion. Only [`keys`] knows bytes.
//!
//! # From a seed to a run
//!
//! ```text
//! Properties -> Spec ---+
//! seed, lane of lanes --+--> Lane::next() -> Draw { kind, record, scan_length } -> keys -> bytes
//! InsertCounter --------+       ^                                                    |
//!     ^                                                                              v
//!     +------------- acknowledge(record) <------------------------------------ the operation ends
//! ```
//!
//! With the same seed, Spec and number of lanes, a lane draws the same operations again. Where inserts run beside reads
//! (`latest`, or `zipfian` with inserts), which records exist at a draw depends on the other lanes, so such draws repeat
//! exactly with a single lane only.

pub mod distribution;
pub mod keys;
pub mod properties;
pub mod random;
pub mod spec;
pub mod stream;
pub mod trace;

use std::fmt;

/// What an operation of a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Get the value of a key.
    Read,
    /// Replace the value of an existing key.
    Update,
    /// Add a key that does not exist yet.
    Insert,
    /// Read the pairs from a key on, ascending.
    Scan,
    /// Read a key, then update it; timed as one operation.
    ReadModifyWrite,
}

impl OperationKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite];

    /// The name in tables, traces and JSON: `read`, `update`, `insert`, `scan`, `read_modify_write`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read_modify_write",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::OperationKind;

    #[test]
    fn a_kind_has_one_name_for_people_and_machines() {
        for kind in OperationKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }
}
