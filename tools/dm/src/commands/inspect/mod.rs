//! `dm inspect`: shows what is in a pool.
//!
//! It only READs, and does not join the pool, except for walks. To READ a node that changes all the time, a walk takes
//! the node's lock. So for each index that it walks, it joins as a compute node and leaves again.

mod account;
mod blocks;
pub(super) mod owners;
mod radix;

use crate::failure::{Failure, print};
use crate::kinds;
use crate::members::{held_locks, members, on_lane, watch, with_read_access};
use crate::report::Tree;
use crate::report::text::{counted, counted_as, size};
use crate::tool::{PoolArguments, with_tool};
use account::{Account, account};
use dm_core::items::parameters::Parameters;
use dm_core::lane::Lane;
use dm_core::membership::redo;
use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind};
use dm_core::remote::row::RowState;
use dm_core::verbs::{NodeId, Space};
use dm_host::fabric::any::AnyFabric;
use dm_host::kinds::IndexParameters;
use dm_host::pool::{Pool, pool_name};
use dm_host::solo::block_on;
use owners::{Access, Ownership, RingView};
use radix::RadixAccount;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Held locks that the text lists at most; it counts all, and the JSON lists all.
const LOCKS_SHOWN: usize = 20;

/// Arguments of `dm inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm inspect --pool /run/dm/0,/run/dm/1\n  dm inspect --pool /run/dm/0 --json | jq .locks\n\n\
                  The exit code is 1 if an index was found that is not sound, too."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Do not walk the indexes: their fill is not told, and the pool is not joined
    #[arg(long)]
    no_walk: bool,

    /// Watch heartbeats for so long, in ms, at most an hour; 0 = not at all [default: a quarter of a lease]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    watch_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Inspection {
    pool: String,
    incarnation: u64,
    /// How long heartbeats were watched.
    watched_ms: u64,
    memory_nodes: Vec<MemoryNode>,
    indexes: Vec<IndexView>,
    rows: Vec<RowView>,
    locks: Vec<LockView>,
    orphaned_chunks: Vec<Orphan>,
}

#[derive(Debug, Serialize)]
struct MemoryNode {
    node: u16,
    region_bytes: u64,
    device_bytes: u64,
    chunk_bytes: u64,
    chunks: u32,
    chunks_free: u32,
    chunks_granted: u32,
    chunks_given_back: u32,
    chunks_withheld: u32,
    chunks_corrupt: u32,
    lock_words: u32,
    lock_space: &'static str,
    locks_held: usize,
    pages: String,
    features: [u64; 3],
}

#[derive(Debug, Serialize)]
struct IndexView {
    number: u16,
    name: String,
    kind: &'static str,
    /// A description; only the kind if its parameters cannot be read.
    #[serde(skip)]
    described: String,
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    /// Bytes of a key and of a value on the average, if they have lengths of their own and there are some.
    key_mean_bytes: Option<f64>,
    value_mean_bytes: Option<f64>,
    leaf_span: Option<usize>,
    inner_span: Option<usize>,
    root: u64,
    /// Who owns its keys, if they have owners.
    owners: Option<Ownership>,
    granted_bytes: u64,
    chunks: Vec<ChunkCount>,
    tree: Option<Tree>,
    broken: Option<String>,
    /// Where its memory is; only of indexes that were walked.
    memory: Option<Account>,
    /// The same for a radix tree.
    radix_memory: Option<RadixAccount>,
}

#[derive(Debug, Serialize)]
struct ChunkCount {
    node: u16,
    kind: &'static str,
    granted: u32,
}

#[derive(Debug, Serialize)]
struct RowView {
    row: u16,
    state: &'static str,
    incarnation: u32,
    lanes: Option<u16>,
    heartbeat: u64,
    /// Its lease, if it has announced one.
    lease_ms: Option<u64>,
    /// Live rows: for how long, at least, the heartbeat has not moved; 0 if it moved.
    unresponsive_ms: Option<u64>,
    locks_held: usize,
    /// The indexes that it has open, or had when it died; a number instead of the name of one that the catalog does not have.
    /// `None`: it has not said.
    open: Option<Vec<String>>,
    /// Its log ring, if it owns keys.
    ring: Option<RingView>,
    host: Option<String>,
}

#[derive(Debug, Serialize)]
struct LockView {
    node: u16,
    word: u32,
    row: u16,
    sequence: u64,
    /// State of that row.
    holder: &'static str,
    /// Its host.
    host: Option<String>,
}

#[derive(Debug, Serialize)]
struct Orphan {
    node: u16,
    chunk: u32,
    kind: &'static str,
    index: u16,
    row: u16,
    incarnation: u16,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let terms = arguments.pool.terms()?;
    let memory = arguments.pool.connect()?;
    let watch = arguments.watch_ms.map_or(Duration::from_nanos(terms.lease_ns() / 4), Duration::from_millis);
    let mut inspection = with_read_access(&memory.pool, |fabric, lane| inspect(&memory.pool, fabric, lane, watch))?;
    if !arguments.no_walk {
        for index in inspection.indexes.iter_mut().filter(|index| index.key_bytes.is_some()) {
            // Before this program joins, and has places of its own.
            let (entry, parameters) = memory.pool.find_index(&index.name).map_err(Failure::run)?;
            let places = parameters.node_bytes();
            let longest_block_bytes = parameters.any_length.as_ref().map_or(0, Parameters::longest_place_bytes);
            if kinds::is_radix(&parameters) {
                index.radix_memory = Some(with_read_access(&memory.pool, |fabric, lane| {
                    radix::account(&memory.pool, fabric, lane, entry.number, (places.0, longest_block_bytes))
                })?);
            } else {
                index.memory = Some(with_read_access(&memory.pool, |fabric, lane| {
                    let rows = members(&memory.pool, fabric, lane)?;
                    account(&memory.pool, fabric, lane, &rows, entry.number, places, longest_block_bytes)
                })?);
            }
            let node = arguments.pool.join(&memory)?;
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method is of a tool of one lifetime, and the tool's is any"
            )]
            let census = with_tool(&node, &index.name, |tool| tool.census());
            match census {
                Ok(census) => {
                    if let Some(account) = &mut index.memory {
                        account.reached(&census);
                    }
                    if let Some(account) = &mut index.radix_memory {
                        account.reached(&census, places.0);
                    }
                    if parameters.any_length.is_some() && census.records > 0 {
                        let mean = |bytes: u64| Some(bytes as f64 / census.records as f64);
                        index.key_mean_bytes = mean(census.item_bytes.0);
                        index.value_mean_bytes = mean(census.item_bytes.1);
                    }
                    index.tree = Some(Tree::from(&census));
                }
                Err(error) => index.broken = Some(error.to_string()),
            }
        }
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&inspection).map_err(Failure::run)?;
        print(&(json + "\n"))?;
    } else {
        print(&render(&inspection))?;
    }
    let broken: Vec<_> =
        inspection.indexes.iter().filter(|index| index.broken.is_some()).map(|index| index.name.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(format!("not sound, or changed while it was walked: index {}", broken.join(", "))))
}

fn inspect(pool: &Pool, fabric: &mut AnyFabric, lane: &Lane<'_>, time: Duration) -> Result<Inspection, Failure> {
    let mut rows = members(pool, fabric, lane)?;
    watch(pool, fabric, lane, &mut rows, time)?;
    let entries = pool.indexes().map_err(Failure::run)?;

    let mut memory_nodes = Vec::new();
    let mut locks = Vec::new();
    let mut orphaned_chunks = Vec::new();
    let mut tallies = Vec::new();
    for (number, description) in (0..).zip(pool.descriptions()) {
        let geometry = &description.geometry;
        let mut tally = Tally::default();
        let mut see = |chunk, entry| {
            tally.count(entry);
            if let Ok(ChunkEntry::Granted(grant)) = entry
                // Redo records are for all indexes of a compute node.
                && grant.index != IndexNumber::NONE
                && !entries.iter().any(|index| index.number == grant.index)
            {
                orphaned_chunks.push(Orphan {
                    node: number,
                    chunk,
                    kind: grant.kind.name(),
                    index: grant.index.get(),
                    row: grant.row.0,
                    incarnation: grant.incarnation,
                });
            }
        };
        on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, chunks::walk(lane, NodeId(number), geometry, 0, &mut see))
        })
        .map_err(Failure::run)?;
        let held = held_locks(fabric, lane, NodeId(number), geometry)?;
        memory_nodes.push(MemoryNode {
            node: number,
            region_bytes: geometry.region_bytes,
            device_bytes: description.device_bytes,
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunk_count,
            chunks_free: tally.free,
            chunks_granted: tally.granted_total(),
            chunks_given_back: tally.used,
            chunks_withheld: tally.withheld,
            chunks_corrupt: tally.corrupt,
            lock_words: geometry.lock_count,
            lock_space: if geometry.lock_space == Space::Device { "device" } else { "host" },
            locks_held: held.len(),
            pages: pool.nodes()[usize::from(number)].pages(),
            features: [
                description.features.compatible,
                description.features.read_only,
                description.features.incompatible,
            ],
        });
        locks.extend(held.into_iter().map(|(index, word)| {
            let member = rows.iter().find(|member| member.row == word.row());
            let holder = member.map_or("nobody", |member| member.state.name());
            let host = member.and_then(|member| member.host.clone());
            let (row, sequence) = (word.row().0, word.sequence());
            LockView { node: number, word: index, row, sequence, holder, host }
        }));
        tallies.push(tally);
    }

    let mut indexes = Vec::new();
    for entry in &entries {
        let parameters = IndexParameters::of(entry).ok();
        let slot = usize::from(entry.number.get());
        let mut chunks = Vec::new();
        let mut granted_bytes = 0;
        for (number, (tally, geometry)) in (0..).zip(tallies.iter().zip(pool.geometry())) {
            for kind in ChunkKind::ALL {
                let granted = tally.granted[slot][kind as usize];
                granted_bytes += u64::from(granted) * geometry.chunk_bytes;
                if granted > 0 {
                    chunks.push(ChunkCount { node: number, kind: kind.name(), granted });
                }
            }
        }
        indexes.push(IndexView {
            number: entry.number.get(),
            name: entry.name().to_owned(),
            kind: entry.kind.name(),
            described: parameters.map_or_else(|| entry.kind.name().to_owned(), |parameters| parameters.to_string()),
            key_bytes: parameters.map(|parameters| parameters.key_bytes()),
            value_bytes: parameters.map(|parameters| parameters.value_bytes()),
            key_mean_bytes: None,
            value_mean_bytes: None,
            leaf_span: parameters.map(|parameters| parameters.leaf_span()),
            inner_span: parameters.map(|parameters| parameters.inner_span()),
            root: entry.root,
            owners: Access { pool, fabric, lane }.ownership(entry, &rows)?,
            granted_bytes,
            chunks,
            tree: None,
            broken: None,
            memory: None,
            radix_memory: None,
        });
    }
    let identity = pool.descriptions()[0].identity;
    let rings = rows.iter().map(|member| Access { pool, fabric, lane }.ring(member)).collect::<Result<Vec<_>, _>>()?;
    let mut open = Vec::new();
    for member in &rows {
        let named = (member.row, member.word.incarnation());
        let listed = on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, redo::open_indexes(lane, &pool.geometry()[0], named, 0))
        });
        let listed = listed.map_err(Failure::run)?.filter(|_| member.state != RowState::Free);
        let name = |number: IndexNumber| {
            let entry = entries.iter().find(|entry| entry.number == number);
            entry.map_or_else(|| number.get().to_string(), |entry| entry.name().to_owned())
        };
        open.push(listed.map(|listed| listed.iter().map(name).collect()));
    }
    Ok(Inspection {
        pool: pool_name(identity.pool_id),
        incarnation: identity.pool_incarnation,
        watched_ms: time.as_millis() as u64,
        memory_nodes,
        indexes,
        rows: rows
            .into_iter()
            .zip(rings)
            .zip(open)
            .map(|((member, ring), open)| RowView {
                open,
                row: member.row.0,
                state: member.state.name(),
                incarnation: member.word.incarnation(),
                lanes: member.lanes,
                heartbeat: member.heartbeat,
                lease_ms: member.lease.map(|lease| lease.as_millis() as u64),
                unresponsive_ms: member.is_live().then_some(member.unresponsive.as_millis() as u64),
                locks_held: locks.iter().filter(|lock: &&LockView| lock.row == member.row.0).count(),
                ring,
                host: member.host,
            })
            .collect(),
        locks,
        orphaned_chunks,
    })
}

fn render(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = render_to(inspection, &mut text);
    text
}

fn render_account(account: &Account, text: &mut String) -> std::fmt::Result {
    let Account { granted_bytes, live_bytes, retired_bytes, moved_bytes, free_bytes, .. } = account;
    let Account { unlinked_bytes, slack_bytes, blocks, holders, .. } = account;
    let sum = live_bytes + retired_bytes + moved_bytes + free_bytes + unlinked_bytes + slack_bytes;
    writeln!(
        text,
        "  chunks for nodes: {} granted = {} live + {} retired + {} left by nodes that moved + {} free + {} written and not linked + {} too short for a node; \
         {} B unaccounted for",
        size(*granted_bytes),
        size(*live_bytes),
        size(*retired_bytes),
        size(*moved_bytes),
        size(*free_bytes),
        size(*unlinked_bytes),
        size(*slack_bytes),
        granted_bytes.abs_diff(sum)
    )?;
    blocks.render(text)?;
    for holder in holders {
        writeln!(
            text,
            "    held by row {} incarnation {}{}: {} free, {} retired",
            holder.row,
            holder.incarnation,
            if holder.gone { " (departed; waits to be collected)" } else { "" },
            size(holder.free_bytes),
            size(holder.retired_bytes)
        )?;
    }
    if !holders.is_empty() {
        writeln!(
            text,
            "    (free: places never written, in chunks granted to it; retired: leaves it took out of the tree, on its free lists \
             or waiting for epochs: both for it to use, or to be collected when it has departed)"
        )?;
    }
    Ok(())
}

fn render_radix(account: &RadixAccount, text: &mut String) -> std::fmt::Result {
    let RadixAccount {
        leaf_chunks_bytes,
        live_leaf_bytes,
        deleted_leaf_bytes,
        other_leaf_bytes,
        finalized_leaf_bytes,
        free_leaf_bytes,
        node_chunks_bytes,
        live_node_bytes,
        other_node_bytes,
        free_node_bytes,
        blocks,
    } = account;
    writeln!(
        text,
        "  chunks for leaves: {} granted = {} live + {} deleted + {} out of the tree + {} free; {} of the deleted and those out of \
         the tree are finalized",
        size(*leaf_chunks_bytes),
        size(*live_leaf_bytes),
        size(*deleted_leaf_bytes),
        size(*other_leaf_bytes),
        size(*free_leaf_bytes),
        size(*finalized_leaf_bytes)
    )?;
    writeln!(
        text,
        "  chunks for nodes: {} granted = {} live + {} out of the tree + {} free",
        size(*node_chunks_bytes),
        size(*live_node_bytes),
        size(*other_node_bytes),
        size(*free_node_bytes)
    )?;
    blocks.render(text)?;
    writeln!(
        text,
        "    (deleted: in the tree, for their keys or the next keys of their slots; out of the tree: waiting for epochs, ready on the \
         compute node that took them out, or waiting to be collected if that is gone; free: never written)"
    )
}

fn render_to(inspection: &Inspection, text: &mut String) -> std::fmt::Result {
    let Inspection { pool, incarnation, watched_ms, memory_nodes, indexes, rows, locks, orphaned_chunks } = inspection;
    writeln!(text, "pool \"{pool}\", incarnation {incarnation}")?;
    for node in memory_nodes {
        writeln!(
            text,
            "memory node {}: region {}, {} of {}: {} free, {} granted, {} given back, {} withheld, {} corrupt; \
             {} in {} memory, {} held; {}",
            node.node,
            size(node.region_bytes),
            counted(node.chunks, "chunk"),
            size(node.chunk_bytes),
            node.chunks_free,
            node.chunks_granted,
            node.chunks_given_back,
            node.chunks_withheld,
            node.chunks_corrupt,
            counted(node.lock_words, "lock word"),
            node.lock_space,
            node.locks_held,
            node.pages
        )?;
    }
    writeln!(text, "\n{}", counted_as(indexes.len() as u64, "index", "indexes"))?;
    for index in indexes {
        writeln!(
            text,
            "{} \"{}\": {}; root {:#018x}, {} granted",
            index.number,
            index.name,
            index.described,
            index.root,
            size(index.granted_bytes)
        )?;
        for chunks in &index.chunks {
            let granted = counted(chunks.granted, "chunk");
            writeln!(text, "  memory node {}: {granted} of kind {}", chunks.node, chunks.kind)?;
        }
        if let Some(owners) = &index.owners {
            owners.render(text)?;
        }
        if let Some(tree) = &index.tree {
            writeln!(
                text,
                "  {}, {}, {} {:.0} % full ({} empty), {}, {}, {} live, {:.1} B a record",
                counted(tree.records, "record"),
                counted(tree.levels, "level"),
                counted_as(tree.leaves, "leaf", "leaves"),
                tree.fill() * 100.0,
                tree.empty_leaves,
                counted(tree.inner_nodes, "inner node"),
                counted(tree.half_splits, "half-split"),
                size(tree.live_bytes),
                tree.live_per_record_bytes()
            )?;
            if tree.moved_links > 0 {
                let links = counted(tree.moved_links, "pointer");
                writeln!(text, "  {links} to places that nodes have left: run `dm pool drain` again")?;
            }
        }
        if let (Some(key), Some(value)) = (index.key_mean_bytes, index.value_mean_bytes) {
            writeln!(text, "  a key has {key:.1} B on the average, a value {value:.1} B")?;
        }
        if let (Some(account), Some(_)) = (&index.memory, &index.tree) {
            render_account(account, text)?;
        }
        if let (Some(account), Some(_)) = (&index.radix_memory, &index.tree) {
            render_radix(account, text)?;
        }
        if let Some(broken) = &index.broken {
            writeln!(text, "  NOT SOUND (or changed meanwhile): {broken}")?;
        }
    }
    writeln!(text, "\ncompute-node rows, watched for {watched_ms} ms")?;
    for row in rows {
        write!(text, "{}: {}, incarnation {}", row.row, row.state, row.incarnation)?;
        if let (Some(lanes), Some(host)) = (row.lanes, &row.host) {
            write!(text, ", {}, host {host}", counted(lanes, "lane"))?;
        }
        if let Some(ms) = row.lease_ms {
            write!(text, ", lease {ms} ms")?;
        }
        if let Some(open) = row.open.as_ref().filter(|open| !open.is_empty()) {
            write!(text, ", has {} open", quoted(open))?;
        }
        match row.unresponsive_ms {
            Some(0) if *watched_ms > 0 => write!(text, ", beats (heartbeat {})", row.heartbeat)?,
            Some(ms) if *watched_ms > 0 => {
                write!(text, ", UNRESPONSIVE for at least {ms} ms (heartbeat {})", row.heartbeat)?;
            }
            _ => {}
        }
        if let Some(ring) = &row.ring {
            ring.render(text)?;
        }
        writeln!(
            text,
            "{}",
            if row.locks_held > 0 {
                format!(", holds {}", counted(row.locks_held as u64, "lock"))
            } else {
                String::new()
            }
        )?;
    }
    writeln!(text, "\n{} held", counted(locks.len() as u64, "lock"))?;
    for lock in locks.iter().take(LOCKS_SHOWN) {
        writeln!(
            text,
            "memory node {} word {}: row {} ({}{}), its acquisition {}",
            lock.node,
            lock.word,
            lock.row,
            lock.holder,
            lock.host.as_ref().map_or_else(String::new, |host| format!(", {host}")),
            lock.sequence
        )?;
    }
    if locks.len() > LOCKS_SHOWN {
        writeln!(text, "... and {} more", locks.len() - LOCKS_SHOWN)?;
    }
    let orphaned = counted(orphaned_chunks.len() as u64, "orphaned chunk");
    writeln!(text, "{orphaned} (granted for an index that the catalog does not have)")?;
    for orphan in orphaned_chunks.iter().take(LOCKS_SHOWN) {
        writeln!(
            text,
            "memory node {} chunk {}: kind {}, index {}, row {} incarnation {}",
            orphan.node, orphan.chunk, orphan.kind, orphan.index, orphan.row, orphan.incarnation
        )?;
    }
    Ok(())
}

/// Names of indexes, as messages have them.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}
