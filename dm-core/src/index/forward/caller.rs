//! The compute node for which another one makes a change, and whether that one may still begin it.
//!
//! A change of an index may name memory of its caller: an entry of [items](crate::items) names a block. A callee may begin such a
//! change late, after the caller has ended without an answer, or has died. So a caller can **give up** its calls, and a callee
//! looks whether it has:
//!
//! 1. The caller adds one to the count in its row, by one fetch-add (`GivenUp::raise`). Only then it decides what becomes of
//!    the memory that the change names.
//! 2. The callee takes the pin of its operation, and then READs the row (`waits`). It does not begin the change if the
//!    caller does not live any more, or if the row's count is not the one that the call carries.
//!
//! So a change either begins in an epoch that was announced before the count was raised, or it does not begin. In the first case
//! no collection that begins after the count was raised looks at entries before the change has ended: it waits for that epoch.
//! What the change names may not be used again without such a collection.

use crate::error::VerbError;
use crate::lane::Lane;
use crate::memory::rows::fetched_head;
use crate::mutants::{Mutant, planted};
use crate::remote::row::{Caller, GIVEN_UP_AT, Member, SUMMARY_BYTES};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, Request};
use core::sync::atomic::{AtomicU32, Ordering};

/// One more, in the upper half of the word whose lower half is the row's lease.
const ONE: u64 = 1 << 32;

/// Whether the caller lives and has not given up this call. `scratch` has room for a row. One round trip.
pub(crate) async fn waits(
    caller: Caller,
    lane: &Lane<'_>,
    home: &NodeGeometry,
    scratch: usize,
) -> Result<bool, VerbError> {
    if planted(Mutant::CALLER_UNCHECKED) {
        return Ok(true);
    }
    if u32::from(caller.row.0) >= home.row_count {
        return Ok(false);
    }
    lane.port().call(Request::read(Label::Row, HOME, home.row_offset(caller.row), SUMMARY_BYTES, scratch)).await?;
    Ok(fetched_head(lane, scratch).waits(u32::from(caller.incarnation), caller.given_up))
}

/// How often a compute node has given up its calls, as its row says; shared by its lanes.
#[derive(Debug, Default)]
pub struct GivenUp(AtomicU32);

impl GivenUp {
    /// Of a compute node that has just joined.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The compute node `member`, as its next call says.
    pub(crate) fn caller(&self, member: Member) -> Caller {
        Caller { row: member.row, incarnation: member.incarnation as u16, given_up: self.0.load(Ordering::Acquire) }
    }

    /// Gives up all calls of `member` that no callee has begun. One round trip.
    pub(crate) async fn raise(&self, lane: &Lane<'_>, home: &NodeGeometry, member: Member) -> Result<(), VerbError> {
        let at = home.row_offset(member.row) + GIVEN_UP_AT;
        let before = lane.port().call(Request::fetch_add(Label::Row, HOME, at, ONE)).await?.value;
        self.0.fetch_max(((before >> 32) as u32).wrapping_add(1), Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memory_node::MemoryNode;
    use crate::mutants::with_planted;
    use crate::remote::SCRATCH_BYTES;
    use crate::remote::lock_word::RowId;
    use crate::remote::row::{Joiner, Row, RowState};
    use crate::verbs::LaneId;
    use zerocopy::IntoBytes;

    /// Whether changes are begun for callers that wait, and for no others.
    fn only_those_that_wait() -> bool {
        let node = MemoryNode::new();
        let member = Member { row: RowId(1), incarnation: 3, nonce: 1 };
        let row_at = node.geometry.row_offset(member.row);
        let write =
            |at: u64, bytes: &[u8]| node.region.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        write(row_at, Row::of(member, &Joiner { token: 1, lanes: 1, memory_nodes: 1, host: "here" }).as_bytes());
        // Its lease lies beside the count.
        write(row_at + GIVEN_UP_AT, &77u32.to_le_bytes());
        let mut rooms = [[0; SCRATCH_BYTES]; 2];
        let [calling, serving] = rooms.each_mut().map(|room| Lane::new(LaneId(0), room));
        let is_begun = |caller| node.run(&serving, waits(caller, &serving, &node.geometry, 0)).unwrap();
        let given_up = GivenUp::new();
        let mut is_right = true;
        for _ in 0..3 {
            let before = given_up.caller(member);
            is_right &= is_begun(before);
            node.run(&calling, given_up.raise(&calling, &node.geometry, member)).unwrap();
            is_right &= !is_begun(before);
        }
        let last = given_up.caller(member);
        is_right &= is_begun(last) && last.given_up == 3;
        is_right &= !is_begun(Caller { incarnation: 2, ..last }) && !is_begun(Caller { row: RowId(u16::MAX), ..last });
        write(row_at, &member.word().with_state(RowState::Dead).0.to_le_bytes());
        is_right && !is_begun(last) && node.region.borrow()[(row_at + GIVEN_UP_AT) as usize] == 77
    }

    #[test]
    fn a_change_is_begun_only_for_a_caller_that_waits() {
        assert!(only_those_that_wait());
        assert!(!with_planted(Some(Mutant::CALLER_UNCHECKED), only_those_that_wait));
    }
}
