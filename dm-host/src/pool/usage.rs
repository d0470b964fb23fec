//! Who has an index open.

use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use std::collections::HashMap;

/// Why an index counts as open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// The compute node has it open, or died with it open.
    Open,
    /// The compute node has not said what it has open.
    Unknown,
    /// The compute node that drops it, this one, was fenced meanwhile, and another one goes on.
    Fenced,
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => {
                "has it open: close it there (the log of a memory node names each row's process), or run dm repair if that \
                 process is dead"
            }
            Self::Fenced => "was to drop it, and was fenced meanwhile: join anew",
            Self::Unknown => "has not said which index it has open: it has no recovery, or is about to open one",
        })
    }
}

/// What a live row is known to have open.
pub(crate) type Known = HashMap<(RowId, u32), Vec<IndexNumber>>;
