//! Locks of nodes, whose words lie in the lock tables of the memory nodes, and WRITEs under them.
//!
//! How a lock is acquired and released: `crate::locks::protocol`.

use super::Tree;
use crate::lane::{Lane, LockRecord};
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::membership::redo::Writes;
use crate::membership::{Recovery, push_by_lines};
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, RowId, lock_of};
use crate::verbs::{Label, NodeId, Request, Space};
use core::ops::Range;

impl Locks for Tree<'_> {}

impl LockKind for Tree<'_> {
    const IN_NODES: bool = false;

    /// Of the node, as if its lock were held already.
    type Follow = Request;

    fn queues(&self) -> &LockTable<'_> {
        &self.locks
    }

    fn techniques(&self) -> Techniques {
        self.options.of_locks()
    }

    fn recovery(&self) -> Option<&Recovery<'_>> {
        self.recovery
    }

    fn row(&self) -> RowId {
        self.owner.row
    }

    fn scratch_at(&self) -> usize {
        self.scratch.small
    }

    fn lock_of(&self, address: Address) -> Result<LockId, OpError> {
        let geometry = self.geometry.get(address.node().0 as usize);
        let geometry = geometry.ok_or(Self::corrupt(address, "a pointer to a memory node beyond the pool"))?;
        Ok(lock_of(address, geometry.lock_count))
    }

    fn word_place(&self, lock: LockId, _: Address) -> (NodeId, u64, Space) {
        let geometry = self.geometry.get(lock.node.0 as usize);
        let (table, space) = geometry.map_or((0, Space::Host), |node| (node.lock_table, node.lock_space));
        (lock.node, table + u64::from(lock.index) * 8, space)
    }

    fn tag(&self, node: Address) -> u32 {
        (node.offset() >> 6) as u32
    }

    fn push_follow(&self, lane: &Lane<'_>, _: &Held, follow: Request) {
        lane.port().push(follow);
    }

    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        Tree::replay_own(self, lane, lock_record).await
    }
}

impl Tree<'_> {
    /// Pushes a WRITE to part of a node in use, whose lock is held: the bytes `within` the node, from its `image`. If
    /// that WRITE may land in part, a redo record goes before it in its chain.
    ///
    /// The image's header overwrites the 64 bytes in front of those sent - of the node's image, or the gap before it -
    /// so the image in the scratch is good for nothing afterwards unless the whole node is written.
    pub(crate) fn push_in_place(
        &self,
        lane: &Lane<'_>,
        lock: LockId,
        label: Label,
        address: Address,
        within: Range<usize>,
        image: Span,
    ) -> Result<(), OpError> {
        let (node, offset) = (address.node(), address.offset() + within.start as u64);
        let Span { at: local, bytes } = image.part(&within);
        if let Some(recovery) = self.recovery
            && let Some(lock_record) = lane.holds(lock)
            && (lock_record.has_redo_record || recovery.may_tear(offset, bytes))
        {
            if planted(Mutant::IMAGE_AFTER_DATA) {
                self.push_part(lane, label, (node, offset), bytes, local);
            }
            recovery.push_redo_record(lane, lock_record, node, Writes::one(offset, bytes), local)?;
            if planted(Mutant::IMAGE_AFTER_DATA) {
                return Ok(());
            }
        }
        self.push_part(lane, label, (node, offset), bytes, local);
        lane.wrote_in_place();
        Ok(())
    }

    /// Pushes a WRITE to part of a node, cut so that a sender that dies leaves whole lines. This holds also where no
    /// compute node recovers dead ones: versions then tell readers what a dead sender left.
    fn push_part(&self, lane: &Lane<'_>, label: Label, place: (NodeId, u64), bytes: usize, local: usize) {
        let unit_bytes = if planted(Mutant::CUTS_WITHIN_LINES) { 0 } else { self.capabilities.crash_atomic_bytes };
        push_by_lines(lane.port(), label, place, bytes, local, unit_bytes);
    }

    /// As [`Tree::push_in_place`], of two ranges that have to land both or neither: one image has them both, put
    /// together in the node image `spare`. A chain that ends between the two WRITEs is then like a WRITE
    /// of which a part landed.
    pub(crate) fn push_both_in_place(
        &self,
        lane: &Lane<'_>,
        lock: LockId,
        label: Label,
        address: Address,
        [first, second]: [Range<usize>; 2],
        (image, spare): (Span, Span),
    ) -> Result<(), OpError> {
        let (node, base) = (address.node(), address.offset());
        if let Some(recovery) = self.recovery
            && let Some(lock_record) = lane.holds(lock)
        {
            lane.port().with(|scratch| {
                image.part(&first).copy_to(scratch, spare.at);
                image.part(&second).copy_to(scratch, spare.at + first.len());
            });
            let writes = Writes {
                more_offset: base + second.start as u64,
                more_bytes: second.len(),
                ..Writes::one(base + first.start as u64, first.len())
            };
            let writes =
                if planted(Mutant::SECOND_WITHOUT_IMAGE) { Writes::one(writes.offset, writes.bytes) } else { writes };
            recovery.push_redo_record(lane, lock_record, node, writes, spare.at)?;
        }
        for range in [first, second] {
            let Span { at: local, bytes } = image.part(&range);
            self.push_part(lane, label, (node, base + range.start as u64), bytes, local);
        }
        lane.wrote_in_place();
        Ok(())
    }
}
