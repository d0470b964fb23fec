//! Cases of CHIME for enumerated deaths.
//!
//! The hash of a key decides where it goes, so scenarios are [searched for](crate::verify::crash::wanted).

use crate::verify::crash::cases::{Case, CrashSetup, CutOperation, Scenario, cross, evens};
use crate::verify::crash::stage::Probe;
use crate::verify::crash::wanted::{self, Wanted};
use dm_core::btree::Options;
use dm_core::chime::parameters::Parameters;
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::marks::Mark;
use dm_core::operation::OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
use dm_host::kinds::{Below, IndexParameters};

/// Entries are written in two WRITEs: the neighborhood continues at the first entry.
fn wraps(probe: &Probe) -> bool {
    probe.entry_writes() == 2
}

fn splits_only(probe: &Probe, grows: bool, inner: bool) -> bool {
    probe.did(Mark::LEAF_SPLIT) && probe.did(Mark::ROOT_GROWTH) == grows && probe.did(Mark::INNER_SPLIT) == inner
}

/// Whether the operation's key is the lowest, or the highest, of those in the tree.
fn at_edge(scenario: &Scenario, highest: bool) -> bool {
    let CutOperation::Point(_, key) = scenario.operation else { return false };
    let mut there = scenario.inserted.iter().filter(|key| !scenario.deleted.contains(key));
    there.all(|other| if highest { *other <= key } else { *other >= key })
}

const WANTED: &[Wanted] = &[
    ("an insert near its home", Insert, |_, probe| probe.entry_writes() == 1 && !probe.did(Mark::HOP)),
    ("an insert around the end", Insert, |_, probe| wraps(probe) && !probe.did(Mark::HOP)),
    ("an insert that hops", Insert, |_, probe| probe.did(Mark::HOP) && !wraps(probe)),
    ("an insert that hops around the end", Insert, |_, probe| probe.did(Mark::HOP) && wraps(probe)),
    ("an upsert that hops", Upsert, |_, probe| probe.did(Mark::HOP)),
    ("an insert that purges a leaf", Insert, |_, probe| probe.did(Mark::PURGE)),
    ("an insert that splits the root leaf", Insert, |_, probe| splits_only(probe, true, false)),
    ("an insert that splits a leaf", Insert, |_, probe| splits_only(probe, false, false)),
    ("an insert that splits an inner node", Insert, |_, probe| splits_only(probe, false, true)),
    ("an insert that splits up to a new root", Insert, |_, probe| splits_only(probe, true, true)),
    ("a delete that empties the leftmost leaf", Delete, |scenario, probe| {
        probe.did(Mark::MERGE) && at_edge(scenario, false)
    }),
    ("a delete that empties the rightmost leaf", Delete, |scenario, probe| {
        probe.did(Mark::MERGE) && at_edge(scenario, true)
    }),
    ("a delete that empties a leaf", Delete, |scenario, probe| {
        probe.did(Mark::MERGE) && !at_edge(scenario, false) && !at_edge(scenario, true)
    }),
];

/// The scenarios for leaves of these sizes.
fn scenarios(parameters: &IndexParameters) -> Vec<Scenario> {
    let scenario = |name, inserted, deleted, operation| Scenario { name, inserted, deleted, operation };
    let mut scenarios = vec![
        scenario("the first insert of all", vec![], vec![], CutOperation::Point(Insert, 3)),
        scenario("a bulk load", vec![], vec![], CutOperation::Bulk(9)),
        scenario("an insert of a key that was deleted", evens(3), vec![2], CutOperation::Point(Insert, 2)),
        scenario("an update", evens(4), vec![], CutOperation::Point(Update, 4)),
        scenario("an update_if", evens(4), vec![], CutOperation::Point(UpdateIf, 4)),
        scenario("an upsert of a present key", evens(4), vec![], CutOperation::Point(Upsert, 2)),
        scenario("a delete", evens(4), vec![], CutOperation::Point(Delete, 0)),
        scenario("a get", evens(4), vec![], CutOperation::Point(Get, 0)),
    ];
    scenarios.extend(wanted::find(parameters, CrashSetup::default(), WANTED));
    scenarios
}

/// All cases. Every scenario runs on one memory node with lines as crash units and with all techniques on; then with
/// one difference at a time.
pub(super) fn all() -> Vec<Case> {
    let on = Options::default();
    // Leaves of hardly more than two records.
    let short = Parameters { key_bytes: 8, value_bytes: 16, leaf_span: 8, neighborhood: 2, inner_span: 2 };
    // Records of more than two lines.
    let long = Parameters { value_bytes: 120, ..short };
    // Records of several packets.
    let longer = Parameters { value_bytes: 600, ..short };
    let wide = Parameters { key_bytes: 48, ..short };
    // A span that is no multiple of the neighborhood; homes are the hash modulo the span.
    let odd = Parameters { leaf_span: 9, ..short };
    let usual = CrashSetup::default();
    let with = |options| CrashSetup { options, ..usual };
    let variants = [
        ("short records", short, CrashSetup { device: true, ..usual }),
        ("long records", long, usual),
        ("three memory nodes", long, CrashSetup { nodes: 3, device: true, ..usual }),
        ("one lock for inner nodes", short, CrashSetup { nodes: 2, locks: 1, ..usual }),
        ("long keys", wide, usual),
        ("nine entries in groups of two", odd, usual),
        ("packets of 256 bytes", long, CrashSetup { unit_bytes: 256, ..usual }),
        ("records longer than packets", longer, CrashSetup { unit_bytes: 256, ..usual }),
        ("packets longer than a node", long, CrashSetup { nodes: 2, unit_bytes: 4096, ..usual }),
        ("no masked CAS", short, CrashSetup { masked_cas: false, ..usual }),
        ("unlock by CAS", long, with(Options { unlock: Unlock::Cas, ..on })),
        ("no command combination", long, with(Options { combine: false, ..on })),
        ("no local queues", short, with(Options { hierarchical: false, ..on })),
        ("READ when the lock is held", long, with(Options { chain_lock_read: ChainedRead::Never, ..on })),
    ];
    // These alone decide where keys go.
    let placing = |parameters: &Parameters| (parameters.key_bytes, parameters.leaf_span, parameters.neighborhood);
    let mut known: Vec<((usize, usize, usize), Vec<Scenario>)> = Vec::new();
    for (_, parameters, _) in &variants {
        if known.iter().all(|(sizes, _)| *sizes != placing(parameters)) {
            known.push((placing(parameters), scenarios(&(*parameters).into())));
        }
    }
    let known = |parameters: &IndexParameters| {
        let Below::Chime(parameters) = &parameters.below else { return Vec::new() };
        known
            .iter()
            .find(|(sizes, _)| *sizes == placing(parameters))
            .map_or_else(Vec::new, |(_, scenarios)| scenarios.clone())
    };
    cross(&variants.map(|(name, parameters, setup)| (name, parameters.into(), setup)), known)
}
