//! Accounts for the memory of an index: every place of a node in every chunk granted to it, by what the place contains.
//!
//! On a pool in use the account mixes many instants. A place that the walk reached, and that is not reached any more,
//! counts as both or as neither. The sums are exact while no compute node writes.

use super::blocks::BlockAccount;
use crate::failure::Failure;
use crate::members::{Member, WINDOW_BYTES, on_lane};
use dm_core::btree::node::{self, Header, NodeFlags};
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::memory::chunks;
use dm_core::operation::Census;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owner_tag::OwnerTag;
use dm_core::remote::row::RowState;
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::solo::block_on;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of all chunks for nodes of an index, by what is there.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Account {
    /// Chunks for its nodes.
    pub(super) granted_bytes: u64,
    /// Nodes that the walk reached.
    pub(super) live_bytes: u64,
    /// Leaves out of the tree, on free lists of compute nodes or orphans.
    pub(super) retired_bytes: u64,
    /// Places that nodes have left for another memory node: they are not used again.
    pub(super) moved_bytes: u64,
    /// Never written.
    pub(super) free_bytes: u64,
    /// Written, and not reached: about to be linked, or orphans.
    pub(super) unlinked_bytes: u64,
    /// Ends of chunks, too short for a node.
    pub(super) slack_bytes: u64,
    /// Chunks for blocks.
    #[serde(flatten)]
    pub(super) blocks: BlockAccount,
    /// By holder; reached places are the tree's.
    pub(super) holders: Vec<Holder>,
}

/// The memory that one incarnation of a row holds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Holder {
    pub(super) row: u16,
    /// For a chunk's owner all bits; for the owner tag of a leaf the low bits.
    pub(super) incarnation: u16,
    /// This incarnation has departed. Its chunks and these places wait for orphan collection: by a compute node that
    /// takes the chunk over, or by the owner of the chunk in which the place is.
    pub(super) gone: bool,
    /// Bytes that were never written, in chunks that it owns, for nodes or for blocks.
    pub(super) free_bytes: u64,
    /// Leaves that it retired, in any chunk.
    pub(super) retired_bytes: u64,
}

/// Looks at every place. `node_bytes`: of leaves and inner nodes; `longest_block_bytes`: of a block's place. The result
/// of the walk is added later.
pub(super) fn account(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    rows: &[Member],
    index: IndexNumber,
    node_bytes: (usize, usize),
    longest_block_bytes: usize,
) -> Result<Account, Failure> {
    let mut account = Account::default();
    let mut holders: BTreeMap<(u16, u16), Holder> = BTreeMap::new();
    let mut written_bytes = 0;
    let row_count = pool.geometry()[0].row_count;
    for (number, geometry) in (0..).zip(pool.geometry()) {
        let mut granted = Vec::new();
        let mut see = |chunk, entry| {
            if let Ok(ChunkEntry::Granted(grant)) = entry
                && grant.index == index
            {
                granted.push((chunk, grant));
            }
        };
        on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, chunks::walk(lane, NodeId(number), geometry, 0, &mut see))
        })
        .map_err(Failure::run)?;
        for (chunk, grant) in granted {
            let bytes = match grant.kind {
                ChunkKind::Leaf => node_bytes.0,
                ChunkKind::Inner => node_bytes.1,
                ChunkKind::Block => {
                    let (start, chunk_bytes) = ((NodeId(number), geometry.chunk_offset(chunk)), geometry.chunk_bytes);
                    let blocks = &mut account.blocks;
                    let free_bytes = blocks.add_chunk(fabric, lane, start, chunk_bytes, longest_block_bytes)?;
                    owner(&mut holders, rows, &grant).free_bytes += free_bytes;
                    continue;
                }
                _ => continue,
            };
            account.granted_bytes += geometry.chunk_bytes;
            account.slack_bytes += geometry.chunk_bytes % bytes as u64;
            let places = geometry.chunk_bytes / bytes as u64;
            let window = (WINDOW_BYTES / bytes).max(1) as u64;
            let mut first = 0;
            while first < places {
                let count = window.min(places - first);
                let offset = geometry.chunk_offset(chunk) + first * bytes as u64;
                let read =
                    Request::read(Label::Tool, NodeId(number), offset, (count as usize * bytes).min(WINDOW_BYTES), 0);
                on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, lane.port().call(read)))
                    .map_err(Failure::run)?;
                lane.port().with(|scratch| {
                    for place in 0..count as usize {
                        let line = &scratch[place * bytes..][..LINE_BYTES];
                        let header = Header::read(line);
                        if header.index != 0 && node::is_moved(line) {
                            account.moved_bytes += bytes as u64;
                            continue;
                        }
                        let retired = grant.kind == ChunkKind::Leaf && header.flags.contains(NodeFlags::RETIRED);
                        let holder = if header.index == 0 {
                            account.free_bytes += bytes as u64;
                            owner(&mut holders, rows, &grant)
                        } else if retired {
                            account.retired_bytes += bytes as u64;
                            signer(&mut holders, rows, OwnerTag::read(line), row_count)
                        } else {
                            written_bytes += bytes as u64;
                            continue;
                        };
                        *(if retired { &mut holder.retired_bytes } else { &mut holder.free_bytes }) += bytes as u64;
                    }
                });
                first += count;
            }
        }
    }
    account.unlinked_bytes = written_bytes;
    account.holders = holders.into_values().collect();
    Ok(account)
}

impl Account {
    /// Moves what the walk reached from the written places to the reached ones.
    pub(super) fn reached(&mut self, census: &Census) {
        let live_bytes = census.live_bytes - census.block_bytes;
        self.blocks.reached(census);
        self.live_bytes = live_bytes;
        self.unlinked_bytes = self.unlinked_bytes.saturating_sub(live_bytes);
    }
}

fn tenant(rows: &[Member], row: RowId) -> Option<(u32, RowState)> {
    rows.iter().find(|member| member.row == row).map(|member| (member.word.incarnation(), member.state))
}

fn owner<'h>(holders: &'h mut BTreeMap<(u16, u16), Holder>, rows: &[Member], grant: &Grant) -> &'h mut Holder {
    let (row, incarnation) = (grant.row.0, grant.incarnation);
    let gone = tenant(rows, grant.row)
        .is_none_or(|(now, state)| state == RowState::Free || now != u32::from(grant.incarnation));
    holders.entry((row, incarnation)).or_insert(Holder { row, incarnation, gone, free_bytes: 0, retired_bytes: 0 })
}

fn signer<'h>(
    holders: &'h mut BTreeMap<(u16, u16), Holder>,
    rows: &[Member],
    signature: OwnerTag,
    row_count: u32,
) -> &'h mut Holder {
    let row = signature.row(row_count).0;
    let tenant = tenant(rows, RowId(row));
    let gone = tenant.is_none_or(|(now, state)| state == RowState::Free || !signature.names(now, row_count));
    // The whole incarnation of the row's present compute node is known.
    let incarnation = match tenant {
        Some((now, _)) if signature.names(now, row_count) => now as u16,
        _ => signature.incarnation(row_count) as u16,
    };
    holders.entry((row, incarnation)).or_insert(Holder { row, incarnation, gone, free_bytes: 0, retired_bytes: 0 })
}
