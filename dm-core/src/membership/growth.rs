//! Pools that grow: a memory node is added while compute nodes are at work.
//!
//! ```text
//!  step of the program that adds it                               compute nodes that know the new memory node
//!  1. withholds its chunks: they are not granted                  none
//!  2. raises the number of memory nodes in row 0 (CAS)            those that join from now on
//!  3. waits until compute nodes that know too few have left       all that are in the pool
//!  4. has it fence the earlier compute nodes of every row
//!  5. lets its chunks be granted
//! ```
//!
//! A compute node cannot follow an address on a memory node that it does not know. So no node of an index may lie there as long as
//! such a compute node is in the pool: step 5 comes last. Compute nodes may leave and join again one after the other.
//!
//! **What closes the race with a join.** A joining compute node claims its row by CAS, and then READs row 0 ([`confirm`]). The adder
//! changes row 0 by CAS ([`announce`]), and then READs the rows ([`behind`]). If the joiner's READ comes before the adder's CAS, its
//! claim comes before the adder's READ, and the adder waits for it. Otherwise the joiner sees the new number, and leaves.
//! A compute node that has claimed its row and not yet written how many memory nodes it knows counts as one that knows too few.
//!
//! **Fencing.** A compute node that knows too few may fence one that knows all, and asks only the memory nodes that it knows. After
//! step 3 every compute node that fences knows all. So the adder asks the new memory node to fence each compute node that had a row
//! before ([`fence_predecessors`]), and lets it grant memory only then. A row that is being fenced is waited for, too.
//!
//! **Deaths.** Each step may be repeated, by any program. If the adder dies after step 2, the pool works as before: the new memory
//! node has only redo images, until the steps are repeated.
//!
//! The superblock has the number of memory nodes at first. It is only READ.

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

/// Fails if the pool has more memory nodes than the `known` ones. A joining compute node calls it after the claim of its row, and leaves
/// if it fails. One round trip.
pub async fn confirm(lane: &Lane<'_>, geometry: &NodeGeometry, known: u16, scratch: usize) -> Result<(), RowError> {
    let memory_nodes = memory_nodes(lane, geometry, scratch).await?;
    if memory_nodes <= known { Ok(()) } else { Err(RowError::Grown { known, memory_nodes }) }
}

/// Calls `visit` with the row of each compute node that may not know all of `nodes` memory nodes, and with each row that is being
/// fenced: the compute node that fences may not know all. One round trip for eight rows.
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

/// Has memory node `node` fence every compute node that had a row and has it no more: the compute node that fenced it may not have
/// known this memory node. A READ and a call, each a round trip, for each row that was ever taken.
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
