//! `dm check`: walks every index of a pool, and tells which are damaged, where, and how.
//!
//! A walk READs every node and compares what nodes say of each other; to READ a node that changes all the time, it
//! takes the node's lock. So the command joins as a compute node. A walk ends at the first damage that it meets. An
//! index may look damaged while others change it: such a walk is repeated, and counts if every one finds damage.

use super::inspect::owners::{Access, Ownership};
use crate::failure::{Failure, print};
use crate::members::{members, on_lane, watch, with_read_access};
use crate::report::Tree;
use crate::report::text::{counted, counted_as};
use crate::tool::{PoolArguments, Tool, WalkError, with_tool};
use dm_core::index::Index as _;
use dm_core::memory::chunks;
use dm_core::operation::Census;
use dm_core::remote::catalog::IndexEntry;
use dm_core::verbs::NodeId;
use dm_host::pool::{Pool, PoolError, pool_name};
use dm_host::solo::block_on;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Walks that have to find damage before it is told.
const WALKS: usize = 3;

/// Arguments of `dm check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm check --pool /run/dm/0,/run/dm/1\n  dm check --pool /run/dm/0 --json | jq '.indexes[] | select(.state != \"sound\")'\n\n\
                        What is verified: the pool's tables; of each index, that every pointer leads to a node of this index and \
                        level, that the ranges of keys of neighbours and parents meet, that keys are in their node's range, and all checksums \
                        there are; and that entries that are not in use are zero, so that one that lost the mark that it is shows. Not \
                        noticed: a byte that changed within one entry, where no checksum covers it. Indexes whose \
                        leaves are single records have checksums of them, and values of any length have some from 15 bytes on. Of an index \
                        that was created with --checksums all records are scanned, too, and any change is noticed but for bytes of another \
                        time: a leaf as it was once, or an entry that is all zero as after a delete. \
                        Where keys have owners, only --records scans. Keys of any length to which no link leads are \
                        noted, since others may have written meanwhile; with --records they are damage.\n\
                        Safe on a pool in use. A walk ends at the first damage: an index may have more.\n\
                        The exit code is 0 if all that was looked at is sound, and 1 if something is damaged or could not be checked."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Walk this index only
    #[arg(long, value_name = "NAME")]
    index: Option<String>,

    /// Also scan all records, and compare their order and number with the walk's: nobody may write meanwhile
    #[arg(long)]
    records: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Sound,
    Damaged,
    NotChecked,
}

#[derive(Debug, Serialize)]
struct Checked {
    pool: String,
    /// What is wrong outside of indexes: chunk tables, compute-node rows.
    damage: Vec<String>,
    indexes: Vec<CheckedIndex>,
}

#[derive(Debug, Serialize)]
struct CheckedIndex {
    number: u16,
    name: String,
    kind: &'static str,
    state: State,
    /// What is damaged and where, or why it was not checked.
    what: Option<String>,
    /// What the walk did not see of an index whose keys have owners.
    unseen: Option<String>,
    /// What is damage if nobody wrote meanwhile.
    note: Option<String>,
    tree: Option<Tree>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let mut entries = memory.pool.indexes().map_err(Failure::run)?;
    if let Some(name) = &arguments.index {
        // Says which indexes there are, if this is none of them.
        let (entry, _) = memory.pool.find_index(name).map_err(Failure::run)?;
        entries.retain(|other| other.number == entry.number);
    }
    let damage = damage_outside(&memory.pool)?;
    let mut indexes = Vec::new();
    for entry in &entries {
        let node = arguments.pool.join(&memory)?;
        let walked = check_root(&memory.pool, entry).and_then(|()| {
            with_tool(&node, entry.name(), |tool| Ok(walk(tool, arguments.records)))
                .unwrap_or_else(|failure| Err(WalkError::Failed(failure.to_string())))
        });
        let ownership = ownership(&memory.pool, entry, arguments.pool.terms()?.lease_ns())?;
        let unseen = ownership.as_ref().and_then(Ownership::unseen);
        let note = walked.as_ref().ok().and_then(|census| note(census, arguments.records));
        let (state, what, tree) = match walked {
            Err(WalkError::Damaged(what)) if let Some(why) = ownership.and_then(|owners| owners.unrecovered()) => {
                (State::NotChecked, Some(format!("{why}; a walk says: {what}")), None)
            }
            Ok(census) => (State::Sound, None, Some(Tree::from(&census))),
            Err(WalkError::Damaged(what)) => (State::Damaged, Some(what), None),
            Err(WalkError::Failed(what)) => (State::NotChecked, Some(what), None),
        };
        let (number, name, kind) = (entry.number.get(), entry.name().to_owned(), entry.kind.name());
        indexes.push(CheckedIndex { number, name, kind, state, what, unseen, note, tree });
    }
    let checked = Checked { pool: pool_name(memory.pool.descriptions()[0].identity.pool_id), damage, indexes };
    if arguments.json {
        let json = serde_json::to_string_pretty(&checked).map_err(Failure::run)?;
        print(&(json + "\n"))?;
    } else {
        print(&render(&checked))?;
    }
    verdict(&checked)
}

/// Who owns the keys of an index, if they have owners.
fn ownership(pool: &Pool, entry: &IndexEntry, lease_ns: u64) -> Result<Option<Ownership>, Failure> {
    // A compute node that opened the index since may have made the table.
    let entry = pool.find_index(entry.name()).map_or(*entry, |(entry, _)| entry);
    if entry.owners.is_null() {
        return Ok(None);
    }
    with_read_access(pool, |fabric, lane| {
        let mut rows = members(pool, fabric, lane)?;
        watch(pool, fabric, lane, &mut rows, Duration::from_nanos(lease_ns / 4))?;
        Access { pool, fabric, lane }.ownership(&entry, &rows)
    })
}

/// An index that had a root and has none is damaged, not empty.
fn check_root(pool: &Pool, entry: &IndexEntry) -> Result<(), WalkError> {
    let checked = pool.find_index(entry.name()).and_then(|(entry, parameters)| pool.check_root(&entry, &parameters));
    checked.map_err(|error| match error {
        PoolError::RootLost { source, .. } => WalkError::Damaged(source.to_string()),
        error => WalkError::Failed(error.to_string()),
    })
}

fn walk(tool: &mut Tool<'_, '_, '_, '_>, records: bool) -> Result<Census, WalkError> {
    if records {
        // A scan would be refused by other owners; and it has to see what the walk sees.
        tool.take_all_keys().map_err(|failure| WalkError::Failed(failure.to_string()))?;
    }
    let mut walked = tool.walk();
    for _ in 1..WALKS {
        let is_in_doubt = match &walked {
            Ok(census) => census.unlinked_entries > 0,
            Err(walked) => matches!(walked, WalkError::Damaged(_)),
        };
        if is_in_doubt {
            walked = tool.walk();
        }
    }
    let census = walked?;
    // The scan compares the checksums of records. Where keys have owners, others would refuse it.
    if !records && tool.parameters.checksums && !tool.index.has_parts() && tool.each(|_, _| Ok(())).is_err() {
        // The walk says first whether memory nodes can be reached.
        tool.walk()?;
        tool.each(|_, _| Ok(())).map_err(|failure| WalkError::Damaged(failure.to_string()))?;
    }
    if records {
        census.at_rest().map_err(WalkError::of)?;
        let count = tool.each(|_, _| Ok(())).map_err(|failure| WalkError::Damaged(failure.to_string()))?;
        if count != census.records {
            let what = format!("a scan found {count} records, the walk {} (or others wrote meanwhile)", census.records);
            return Err(WalkError::Damaged(what));
        }
    }
    Ok(census)
}

/// What else a walk has counted. `at_rest`: nobody wrote meanwhile.
fn note(census: &Census, at_rest: bool) -> Option<String> {
    let Census { unlinked_entries, .. } = *census;
    if unlinked_entries > 0 && !at_rest {
        let entries = counted_as(unlinked_entries, "entry", "entries");
        return Some(format!(
            "{entries} without a link: damage, unless others wrote meanwhile (--records, while nobody does, decides)"
        ));
    }
    left(census)
}

/// What a walk cannot decide: a record to which no link leads is what a crash has left, or its link is lost.
pub(super) fn left(census: &Census) -> Option<String> {
    (census.left_layers > 0).then(|| {
        let layers = counted_as(census.left_layers, "layer", "layers");
        format!("{layers} of one record without a link: left by a crash, or damage has cut that record off")
    })
}

/// Damage of what all indexes share.
fn damage_outside(pool: &Pool) -> Result<Vec<String>, Failure> {
    let mut damage = Vec::new();
    with_read_access(pool, |fabric, lane| {
        for (number, geometry) in (0..).zip(pool.geometry()) {
            let mut see = |chunk, entry| {
                if let Err(what) = entry {
                    damage.push(format!("memory node {number}, entry {chunk} of the chunk table: {what}"));
                }
            };
            on_lane(fabric, lane, |fabric, lane| {
                block_on(fabric, lane, chunks::walk(lane, NodeId(number), geometry, 0, &mut see))
            })
            .map_err(Failure::run)?;
        }
        // Reads the rows, and fails at one that is damaged.
        if let Err(failure) = members(pool, fabric, lane) {
            damage.push(failure.to_string());
        }
        Ok(())
    })?;
    Ok(damage)
}

fn render(checked: &Checked) -> String {
    let mut text = format!("pool \"{}\", {}\n", checked.pool, indexes(checked.indexes.len()));
    for CheckedIndex { name, kind, state, what, unseen, note, tree, .. } in &checked.indexes {
        let unseen = unseen.as_ref().map_or_else(String::new, |unseen| format!(" ({unseen})"));
        let what = what.as_deref().unwrap_or_default();
        // Writing to a string does not fail, here and below.
        let _ = match (state, tree) {
            (State::Sound, Some(tree)) => writeln!(
                text,
                "index \"{name}\" ({kind}): sound: {}, {}, {}, {}{unseen}",
                counted(tree.records, "record"),
                counted(tree.levels, "level"),
                counted_as(tree.leaves, "leaf", "leaves"),
                counted(tree.inner_nodes, "inner node")
            ),
            (State::NotChecked, _) => writeln!(text, "index \"{name}\" ({kind}): not checked: {what}"),
            _ => writeln!(text, "index \"{name}\" ({kind}): DAMAGED: {what}"),
        };
        if let Some(note) = note {
            let _ = writeln!(text, "  note: {note}");
        }
    }
    for what in &checked.damage {
        let _ = writeln!(text, "DAMAGED: {what}");
    }
    text
}

fn indexes(count: usize) -> String {
    counted_as(count as u64, "index", "indexes")
}

fn verdict(checked: &Checked) -> Result<(), Failure> {
    let named = |state: State| {
        let names = checked.indexes.iter().filter(|index| index.state == state);
        names.map(|index| format!("index \"{}\"", index.name)).collect::<Vec<_>>()
    };
    let (mut damaged, unchecked) = (named(State::Damaged), named(State::NotChecked));
    if !checked.damage.is_empty() {
        damaged.push(format!("{} outside of indexes", counted_as(checked.damage.len() as u64, "place", "places")));
    }
    let parts = [("damaged", damaged), ("not checked", unchecked)];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    if parts.is_empty() { Ok(()) } else { Err(Failure::Run(parts.join("; "))) }
}
