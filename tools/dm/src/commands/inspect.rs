//! `dm inspect`: what is in a pool.

use super::tool::{PoolArguments, with_tool};
use super::{Failure, print};
use crate::report::Tree;
use crate::report::table::size;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::remote::NodeGeometry;
use dm_core::remote::chunks::{self, ChunkEntry, ChunkKind, Tally};
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::rows::{self, RowState};
use dm_core::verbs::{Label, LaneId, NodeId, Request, Space};
use dm_host::compute_node::{ComputeNode, Pool, pool_name};
use dm_host::fabric::shm::ShmFabric;
use dm_host::kinds::IndexParameters;
use dm_host::solo::block_on;
use serde::Serialize;
use std::fmt::Write as _;

/// Bytes of a lock table READ at once.
const WINDOW_BYTES: usize = 64 << 10;

/// Held locks that are listed for people; all are counted, and in the JSON.
const LOCKS_SHOWN: usize = 20;

/// Arguments of `dm inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm inspect --pool /run/dm/0,/run/dm/1\n  dm inspect --pool /run/dm/0 --json | jq .locks"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Do not walk the indexes: their fill is not told
    #[arg(long)]
    no_walk: bool,
}

#[derive(Debug, Serialize)]
struct Inspection {
    pool: String,
    incarnation: u64,
    /// Row of this very command.
    own_row: u16,
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
    chunks_corrupt: u32,
    lock_words: u32,
    lock_space: &'static str,
    locks_held: usize,
    pages: String,
    features: [u64; 3],
}

#[derive(Debug, Serialize)]
struct IndexView {
    number: u8,
    name: String,
    kind: &'static str,
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    leaf_span: Option<usize>,
    inner_span: Option<usize>,
    root: u64,
    granted_bytes: u64,
    chunks: Vec<ChunkCount>,
    tree: Option<Tree>,
    broken: Option<String>,
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
    heartbeat: Option<u64>,
    host: Option<String>,
}

#[derive(Debug, Serialize)]
struct LockView {
    node: u16,
    word: u32,
    row: u16,
    turn: u16,
    tag: u32,
    /// Whether that row lives.
    holder: &'static str,
}

#[derive(Debug, Serialize)]
struct Orphan {
    node: u16,
    chunk: u32,
    kind: &'static str,
    index: u8,
    row: u16,
    incarnation: u16,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let node = memory.pool.join(1).map_err(Failure::run)?;
    let inspection = inspect(&node, !arguments.no_walk)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&inspection).map_err(Failure::run)?;
        return print(&(json + "\n"));
    }
    print(&render(&inspection))
}

fn inspect(node: &ComputeNode, walk: bool) -> Result<Inspection, Failure> {
    let pool = node.pool();
    let mut fabric = pool.fabric().map_err(Failure::run)?;
    let mut scratch = vec![0; WINDOW_BYTES];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let rows = rows(pool, &mut fabric, &lane)?;
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
        block_on(&mut fabric, &lane, chunks::walk(&lane, NodeId(number), geometry, 0, &mut see))
            .map_err(Failure::run)?;
        let held = held_locks(&mut fabric, &lane, NodeId(number), geometry)?;
        memory_nodes.push(MemoryNode {
            node: number,
            region_bytes: geometry.region_bytes,
            device_bytes: description.device_bytes,
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunk_count,
            chunks_free: tally.free,
            chunks_granted: tally.granted_total(),
            chunks_given_back: tally.used,
            chunks_corrupt: tally.corrupt,
            lock_words: geometry.lock_count,
            lock_space: if geometry.lock_space == Space::Device { "device" } else { "host" },
            locks_held: held.len(),
            pages: pool.nodes()[usize::from(number)].region().pages().to_string(),
            features: [
                description.features.compatible,
                description.features.read_only,
                description.features.incompatible,
            ],
        });
        locks.extend(held.into_iter().map(|(index, word)| {
            let holder = rows.iter().find(|row| row.row == word.row().0).map_or("nobody", |row| row.state);
            let (row, turn, tag) = (word.row().0, word.turn(), word.tag());
            LockView { node: number, word: index, row, turn, tag, holder }
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
        let (mut tree, mut broken) = (None, None);
        if walk && parameters.is_some() {
            let census = with_tool(node, entry.name(), |tool| {
                block_on(tool.fabric, tool.lane, tool.index.validate(tool.lane)).map_err(Failure::run)
            });
            match census {
                Ok(census) => tree = Some(Tree::from(&census)),
                Err(error) => broken = Some(error.to_string()),
            }
        }
        indexes.push(IndexView {
            number: entry.number.get(),
            name: entry.name().to_owned(),
            kind: entry.kind.name(),
            key_bytes: parameters.map(|parameters| parameters.key_bytes()),
            value_bytes: parameters.map(|parameters| parameters.value_bytes()),
            leaf_span: parameters.map(|parameters| parameters.leaf_span()),
            inner_span: parameters.map(|parameters| parameters.inner_span()),
            root: entry.root,
            granted_bytes,
            chunks,
            tree,
            broken,
        });
    }
    let identity = pool.descriptions()[0].identity;
    Ok(Inspection {
        pool: pool_name(identity.pool_id),
        incarnation: identity.pool_incarnation,
        own_row: node.member().row.0,
        memory_nodes,
        indexes,
        rows,
        locks,
        orphaned_chunks,
    })
}

/// Every row that is taken, or was.
fn rows(pool: &Pool, fabric: &mut ShmFabric, lane: &Lane<'_>) -> Result<Vec<RowView>, Failure> {
    let geometry = &pool.geometry()[0];
    let mut views = Vec::new();
    for number in 1..geometry.row_count as u16 {
        let row =
            on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, rows::read(lane, geometry, RowId(number), 0)))
                .map_err(Failure::run)?;
        let view = match row.decode() {
            Ok(view) => view,
            Err(what) => return Err(Failure::Run(format!("compute-node row {number} is corrupt: {what}"))),
        };
        if view.state == RowState::Free && view.incarnation == 0 {
            continue;
        }
        views.push(RowView {
            row: number,
            state: view.state.name(),
            incarnation: view.incarnation,
            lanes: view.life.map(|life| life.lanes),
            heartbeat: view.life.map(|life| life.heartbeat),
            host: view.life.map(|life| life.host.to_owned()),
        });
    }
    Ok(views)
}

/// Ties the lane's lifetime to the fabric's.
fn on_lane<'m, R>(fabric: &mut ShmFabric, lane: &Lane<'m>, run: impl FnOnce(&mut ShmFabric, &Lane<'m>) -> R) -> R {
    run(fabric, lane)
}

/// Lock words that are not free.
fn held_locks(
    fabric: &mut ShmFabric,
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
) -> Result<Vec<(u32, LockWord)>, Failure> {
    let mut held = Vec::new();
    let per_window = (WINDOW_BYTES / 8) as u32;
    let mut first = 0;
    while first < geometry.lock_count {
        let count = per_window.min(geometry.lock_count - first);
        let request = Request::read(Label::Tool, node, geometry.lock_offset(first), count as usize * 8, 0)
            .in_space(geometry.lock_space);
        on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, lane.port().call(request)))
            .map_err(Failure::run)?;
        lane.port().with(|scratch| {
            for (index, word) in (first..).zip(scratch.chunks_exact(8).take(count as usize)) {
                let word = LockWord(u64::from_le_bytes(*word.first_chunk().unwrap_or(&[0; 8])));
                if !word.is_free() {
                    held.push((index, word));
                }
            }
        });
        first += count;
    }
    Ok(held)
}

fn render(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = render_to(inspection, &mut text);
    text
}

fn render_to(inspection: &Inspection, text: &mut String) -> std::fmt::Result {
    let Inspection { pool, incarnation, own_row, memory_nodes, indexes, rows, locks, orphaned_chunks } = inspection;
    writeln!(text, "pool \"{pool}\", incarnation {incarnation}")?;
    for node in memory_nodes {
        writeln!(
            text,
            "memory node {}: region {}, {} chunks of {}: {} free, {} granted, {} given back, {} corrupt; \
             {} lock words in {} memory, {} held; {}",
            node.node,
            size(node.region_bytes),
            node.chunks,
            size(node.chunk_bytes),
            node.chunks_free,
            node.chunks_granted,
            node.chunks_given_back,
            node.chunks_corrupt,
            node.lock_words,
            node.lock_space,
            node.locks_held,
            node.pages
        )?;
    }
    writeln!(text, "\n{} indexes", indexes.len())?;
    for index in indexes {
        let shown = |value: Option<usize>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        writeln!(
            text,
            "{} \"{}\": {}, records of {}+{} B, {} entries a leaf, {} separators an inner node, root {:#018x}, {} granted",
            index.number,
            index.name,
            index.kind,
            shown(index.key_bytes),
            shown(index.value_bytes),
            shown(index.leaf_span),
            shown(index.inner_span),
            index.root,
            size(index.granted_bytes)
        )?;
        for chunks in &index.chunks {
            writeln!(text, "  memory node {}: {} chunks of kind {}", chunks.node, chunks.granted, chunks.kind)?;
        }
        if let Some(tree) = &index.tree {
            writeln!(
                text,
                "  {} records, {} levels, {} leaves {:.0} % full ({} empty), {} inner nodes, {} half-splits, {} live, \
                 {:.1} B a record",
                tree.records,
                tree.levels,
                tree.leaves,
                tree.fill() * 100.0,
                tree.empty_leaves,
                tree.inner_nodes,
                tree.half_splits,
                size(tree.live_bytes),
                tree.live_per_record_bytes()
            )?;
        }
        if let Some(broken) = &index.broken {
            writeln!(text, "  NOT SOUND (or changed meanwhile): {broken}")?;
        }
    }
    writeln!(text, "\ncompute-node rows")?;
    for row in rows {
        write!(text, "{}: {}, incarnation {}", row.row, row.state, row.incarnation)?;
        if let (Some(lanes), Some(heartbeat), Some(host)) = (row.lanes, row.heartbeat, &row.host) {
            write!(text, ", {lanes} lanes, heartbeat {heartbeat}, host {host}")?;
        }
        writeln!(text, "{}", if row.row == *own_row { " (this command)" } else { "" })?;
    }
    writeln!(text, "\n{} locks held", locks.len())?;
    for lock in locks.iter().take(LOCKS_SHOWN) {
        writeln!(
            text,
            "memory node {} word {}: row {} ({}), turn {}, for the node at {:#x}",
            lock.node,
            lock.word,
            lock.row,
            lock.holder,
            lock.turn,
            u64::from(lock.tag) << 6
        )?;
    }
    if locks.len() > LOCKS_SHOWN {
        writeln!(text, "... and {} more", locks.len() - LOCKS_SHOWN)?;
    }
    writeln!(text, "{} orphaned chunks (granted for an index that the catalog does not have)", orphaned_chunks.len())?;
    for orphan in orphaned_chunks.iter().take(LOCKS_SHOWN) {
        writeln!(
            text,
            "memory node {} chunk {}: kind {}, index {}, row {} incarnation {}",
            orphan.node, orphan.chunk, orphan.kind, orphan.index, orphan.row, orphan.incarnation
        )?;
    }
    Ok(())
}
