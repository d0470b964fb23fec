//! Pools that grow: a memory node is added while compute nodes are at work.
//!
//! ```text
//!  what is done                                                       who knows the new memory node
//!  1. its chunks are kept from being granted                          nobody
//!  2. row 0 says that there is one memory node more (CAS)             whoever joins from now on
//!  3. compute nodes that know too few leave, one after the other      whoever is in the pool
//!     and may join again
//!  4. it fences whoever had a row before
//!  5. its chunks may be granted
//! ```
//!
//! A compute node cannot follow an address on a memory node that it does not know. So nothing is granted there as long as such a
//! compute node is in the pool: that is why step 5 comes last. Nobody has to stop at the same time as others.
//!
//! **What closes the races.** A compute node that joins claims its row first, and READs row 0 behind that ([`confirm`]). Who adds
//! the memory node changes row 0 first ([`announce`]), and READs the rows behind that ([`behind`]). Of two that do so at the same
//! time, one sees the other: the compute node is told to leave, or its row is seen. A row that is claimed and does not say
//! yet what its compute node knows counts as one that knows too few.
//!
//! **Fencing.** As long as a compute node that knows too few is in the pool, it may fence one that knows all, and does so only at the
//! memory nodes that it knows. When none is left, whoever fences knows all, and the new memory node is made to fence every
//! compute node that had a row before ([`fence_predecessors`]). Only then does it grant anything.
//!
//! **Deaths.** Each step may be done again, by anybody, in this order. A pool in which the steps stop behind the second one
//! works as before, but for memory that it cannot use yet.
//!
//! The superblock says how many memory nodes there were at first, and does not change: it is only READ.

use super::fence;

use crate::lane::{Lane, word_at};
use crate::memory::rows::{RowError, read_summaries_from, tenant};
use crate::operation::OpError;
use crate::remote::lock_word::RowId;
use crate::remote::row::{RowState, memory_nodes_offset};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};

/// Bits of the word in front of the number of memory nodes.
const SHIFT: u32 = 48;

/// READs how many memory nodes the pool has, if one was added since it was formatted; 0 if none was. One round trip.
pub async fn memory_nodes(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<u16, RowError> {
    lane.port().call(Request::read(Label::Row, HOME, memory_nodes_offset(geometry), 8, scratch)).await?;
    decode(word_at(lane, scratch))
}

fn decode(word: u64) -> Result<u16, RowError> {
    if word << (u64::BITS - SHIFT) != 0 {
        return Err(RowError::Corrupt { row: RowId(0), what: "more than a number of memory nodes" });
    }
    Ok((word >> SHIFT) as u16)
}

/// Makes a pool of `before` memory nodes one of `before` + 1, if it is not one already. `formatted`: as many as it had at first.
///
/// Round trips: a READ, a CAS.
pub async fn announce(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    (formatted, before): (u16, u16),
    scratch: usize,
) -> Result<(), RowError> {
    let after = before.saturating_add(1);
    let seen = memory_nodes(lane, geometry, scratch).await?;
    let mut found = seen;
    if seen.max(formatted) == before {
        let [seen, after] = [seen, after].map(|nodes| u64::from(nodes) << SHIFT);
        let cas = Request::cas(Label::Row, HOME, memory_nodes_offset(geometry), seen, after);
        let before = lane.port().call(cas).await?.value;
        found = if before == seen { (after >> SHIFT) as u16 } else { decode(before)? };
    }
    if found == after { Ok(()) } else { Err(RowError::Grown { known: after, memory_nodes: found.max(formatted) }) }
}

/// Fails if the pool has more memory nodes than the `known` ones. A compute node asks behind the claim of its row, and leaves then.
/// One round trip.
pub async fn confirm(lane: &Lane<'_>, geometry: &NodeGeometry, known: u16, scratch: usize) -> Result<(), RowError> {
    let memory_nodes = memory_nodes(lane, geometry, scratch).await?;
    if memory_nodes <= known { Ok(()) } else { Err(RowError::Grown { known, memory_nodes }) }
}

/// Calls `visit` with the row of each compute node that may not know all of `nodes` memory nodes; and with rows that are being fenced:
/// whoever does that may not know all. One round trip for eight rows.
pub async fn behind(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    nodes: u16,
    scratch: usize,
    visit: &mut impl FnMut(RowId),
) -> Result<(), RowError> {
    read_summaries_from(lane, geometry, RowId(1), scratch, &mut |row, found| {
        let knows_all = found.incarnation == found.word.incarnation() && found.memory_nodes >= nodes;
        match found.word.state() {
            Some(RowState::Free | RowState::Dead) => {}
            Some(RowState::Live) if knows_all => {}
            _ => visit(row),
        }
        true
    })
    .await
}

/// Has memory node `node` fence every compute node that has had a row, and has it no more: whoever fenced it before may not have
/// known this memory node. Each row READ, and a call, is a round trip.
pub async fn fence_predecessors(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    node: NodeId,
    scratch: usize,
) -> Result<(), OpError> {
    for row in (1..geometry.row_count).map(|row| RowId(row as u16)) {
        let Some(word) = tenant(lane, geometry, row, scratch).await? else { continue };
        let is_there = matches!(word.state(), Some(RowState::Live | RowState::Fencing));
        let last = word.incarnation().saturating_sub(is_there.into());
        if last > 0 {
            fence::confirm(lane, node, row, last).await?;
        }
    }
    Ok(())
}
