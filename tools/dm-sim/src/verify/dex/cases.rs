//! Cases of DEX for enumerated deaths.

use crate::verify::crash::cases::{Case, CrashSetup, KEYS, cross};
use crate::verify::sherman::cases::scenarios;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::dex::serve::Level;

/// All cases: Sherman's scenarios, since the leaves are Sherman's. What an operation waits for decides what it posts before it
/// answers: lines of the log, or its leaves, too.
pub(super) fn all() -> Vec<Case> {
    let cut = Cut::Even { first: 0, last: (KEYS << 8) - 1 };
    let short = Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 2, inner_span: 2, entries: 1, spare: 2, cut };
    // Records of several lines, and leaves of several.
    let long = Parameters { value_bytes: 120, ..short };
    let longer = Parameters { value_bytes: 512, ..short };
    let parts = Parameters { entries: 3, ..short };
    let usual = CrashSetup { level: Level::Pool, ..CrashSetup::default() };
    let variants = [
        ("short records", short, usual),
        ("answers when the log has the record", short, CrashSetup { level: Level::Log, ..usual }),
        ("long records", long, usual),
        ("three memory nodes", long, CrashSetup { nodes: 3, device: true, ..usual }),
        ("three owned ranges", parts, usual),
        ("one lock", short, CrashSetup { locks: 1, ..usual }),
        ("records longer than packets", longer, CrashSetup { unit_bytes: 256, ..usual }),
    ];
    cross(&variants.map(|(name, parameters, setup)| (name, parameters.into(), setup)), |_| scenarios())
}
