//! Locks of leaves: a word in each. How a lock is acquired and released: `crate::locks::protocol`.

use super::Smart;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord};
use crate::locks::Unlock;
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::membership::Recovery;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::radix::leaf::RadixLeaf;
use crate::radix::slot::{Place, UNIT_BYTES};
use crate::radix::tree::corrupt;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, RowId, lock_of};
use crate::verbs::{Label, NodeId, Space, Verb};

/// How many bytes a WRITE may become longer to free the lock, too. A NIC sends about as many in the time that one more request
/// takes it (45 M requests/s at 100 Gb/s).
const FARTHEST_BYTES: usize = 190;

impl Locks for Smart<'_> {}

impl LockKind for Smart<'_> {
    const IN_NODES: bool = true;

    /// The leaf, into image 0.
    type Follow = ();

    const FOLLOWS: bool = true;

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
        self.tree.owner.row
    }

    fn scratch_at(&self) -> usize {
        self.tree.scratch.small
    }

    fn lock_of(&self, leaf: Address) -> Result<LockId, OpError> {
        let place = Place::of(leaf);
        if !self.tree.is_inside(place, self.leaf.place_bytes) {
            return Err(corrupt(place, "a pointer beyond the pool"));
        }
        let local = lock_of(leaf, self.locks_per_node.max(1));
        Ok(LockId { index: local.index | LockId::IN_NODE, ..local })
    }

    fn word_place(&self, _: LockId, leaf: Address) -> (NodeId, u64, Space) {
        (leaf.node(), Place::of(leaf).offset() + self.leaf.lock_at as u64, Space::Host)
    }

    /// Memory nodes have less than 2^32 units.
    fn tag(&self, leaf: Address) -> u32 {
        (Place::of(leaf).offset() / UNIT_BYTES as u64) as u32
    }

    fn push_follow(&self, lane: &Lane<'_>, held: &Held, (): ()) {
        lane.port().push(self.leaf_request(Place::of(held.protects), 0));
    }

    /// The lock is the last word of the leaf. What lies in front of it is in the image as it is in memory: it was READ under the
    /// lock.
    #[inline]
    fn extend_to_word(&self, lane: &Lane<'_>, held: &Held, how: Unlock) -> Option<usize> {
        let (place, image) = (Place::of(held.protects), self.tree.scratch.leaf(0));
        let bytes = self.leaf.bytes_to_lock();
        let may_cross = how == Unlock::WithLines || planted(Mutant::UNLOCK_WITH_UNORDERED_DATA);
        if !may_cross && !self.leaf.is_in_line(place.offset()) {
            return None;
        }
        let extended = lane.port().amend_last(|write| {
            let is_of_leaf = (write.verb, write.node, write.offset) == (Verb::Write, place.node(), place.offset());
            let end = write.bytes as usize;
            let is_near = end <= self.leaf.lock_at && bytes <= end + FARTHEST_BYTES;
            if is_of_leaf && is_near {
                (write.label, write.bytes) = (Label::Unlock, bytes as u32);
            }
            is_of_leaf && is_near
        })?;
        lane.port().with(|scratch| self.leaf.free_lock(image.of_mut(scratch)));
        Some(extended)
    }

    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        match self.site() {
            Some(site) => site.replay_own(lane, lock_record).await,
            None => Ok(()),
        }
    }
}

impl Recoverable for Smart<'_> {
    fn site(&self) -> Option<Site<'_>> {
        let (geometry, owner, room) = (self.tree.geometry, self.tree.owner, &self.tree.scratch.recovery);
        self.recovery.map(|recovery| Site { recovery, geometry, owner, room })
    }
}

impl Smart<'_> {
    /// Acquires the lock of `leaf`, waiting for it, and READs the leaf into image 0 in the chain of every CAS. The
    /// answer says whether it was READ: not if the lock was handed over.
    pub(super) async fn lock_leaf(&self, lane: &Lane<'_>, leaf: Place) -> Result<(Held, bool), Interrupt> {
        self.acquire(lane, leaf.address(), Some(())).await
    }

    /// Acquires the lock of `leaf` if nobody has it, by a CAS of its own, and READs the leaf into image 0 in the chain
    /// of that. A lock that is handed over would not do: its word may have a redo record of an earlier WRITE.
    pub(super) async fn try_lock_leaf(&self, lane: &Lane<'_>, leaf: Place) -> Result<Option<Held>, OpError> {
        self.try_acquire(lane, leaf.address(), Some(())).await
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::parameters::Parameters;
    use super::super::{Options, Parts};
    use super::*;
    use crate::compute::batches::Batches;
    use crate::lane::Stage;
    use crate::locks::table::{Entered, Handed, Turn};
    use crate::locks::table::{Entry, LockTable, Waiter};
    use crate::machine::{Step, poll_once};
    use crate::memory::chunks::RequestIds;
    use crate::radix::cache::NodeCache;
    use crate::radix::space::Space;
    use crate::registry::KindParameters;
    use crate::remote::catalog::IndexNumber;
    use crate::remote::lock_word::RowId;
    use crate::remote::row::Member;
    use crate::remote::superblock::small_for_tests;
    use crate::verbs::{Capabilities, Completion, Label, LaneId, Status};
    use core::pin::pin;
    use std::vec;

    const LOCK: LockId = LockId { node: NodeId(0), index: LockId::IN_NODE };

    /// Lane 0 has handed a lock word to lane 1, which was about to give up waiting. Lane 2 waits, too, if `third`.
    fn with_word_for_one_that_gives_up(third: bool, test: impl FnOnce(&Smart<'_>, &[Lane<'_>], Held)) {
        let geometry = [small_for_tests()];
        let (entries, waiters) = ([Entry::default()], [(); 3].map(|()| Waiter::default()));
        let requests = RequestIds::default();
        let parameters = Parameters::with_sizes(8, 8);
        let parts = Parts {
            number: IndexNumber::new(0).unwrap(),
            owner: Member { row: RowId(1), incarnation: 1, nonce: 1 },
            requests: &requests,
            geometry: &geometry,
            capabilities: Capabilities {
                masked_atomics: false,
                device_bytes: 0,
                inline_bytes_max: 64,
                outstanding_reads_max: 16,
                chain_requests_max: 16,
                fencing: true,
                crash_atomic_bytes: 64,
                write_turn_ns_min: 0,
                call_bytes_max: 0,
                calls_change: false,
            },
            options: Options { unlock: Unlock::Cas, ..Options::default() },
            locks: LockTable::new(&entries, 1, &waiters, 4),
            locks_per_node: 1,
            batches: Batches::new(&[], &[], &[]),
            space: Space::new(&[]),
            cache: NodeCache::new(&[]),
            recovery: None,
            epochs: None,
        };
        let plan = parameters.plan(1, 1);
        let mut scratch = vec![vec![0; plan.0.total_bytes]; 3];
        let smart = Smart::new(parts, &parameters, plan).unwrap();
        let lanes: vec::Vec<_> = (0..).zip(&mut scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect();
        let held = Held { protects: Place::new(NodeId(0), geometry[0].heap).address(), word: 0, free: 0, lock: LOCK };
        let tag = smart.tag(held.protects);
        assert_eq!(smart.locks.enter(LOCK, LaneId(0), tag), Entered::Holder);
        for lane in &lanes[1..if third { 3 } else { 2 }] {
            lane.track(LockRecord::queued(LOCK, held.protects)).unwrap();
            assert_eq!(smart.locks.enter(LOCK, lane.id(), tag), Entered::Queued);
        }
        let handed = Handed { word: 77, has_redo_record: true };
        assert_eq!(smart.locks.pass(LOCK, tag, handed), Some(LaneId(1)));
        test(&smart, &lanes, held);
    }

    #[test]
    fn a_handed_over_word_is_tracked_until_its_unlock_is_done() {
        with_word_for_one_that_gives_up(false, |smart, lanes, held| {
            let port = lanes[1].port();
            let mut leaving = pin!(smart.leave_queue(&lanes[1], held));
            assert!(matches!(poll_once(port, leaving.as_mut()), Step::Requests));
            let unlock = port.requests()[0];
            assert_eq!((unlock.label, unlock.operands[0]), (Label::Unlock, 77));
            let scratch = port.begin().unwrap();
            port.complete(0, Completion { status: Status::Flushed, ..Completion::default() });
            port.finish(scratch, 0);
            assert!(matches!(poll_once(port, leaving.as_mut()), Step::Done(Err(_))));
            // Settling will look whether the word is still this one.
            let known = lanes[1].lock_records();
            assert_eq!(known.len(), 1);
            assert_eq!((known[0].stage, known[0].word, known[0].has_redo_record), (Stage::Held, 77, true));
        });
    }

    #[test]
    fn a_word_handed_on_at_once_is_known_to_have_a_redo_record() {
        with_word_for_one_that_gives_up(true, |smart, lanes, held| {
            let mut leaving = pin!(smart.leave_queue(&lanes[1], held));
            assert!(matches!(poll_once(lanes[1].port(), leaving.as_mut()), Step::Done(Ok(()))));
            let turn = smart.locks.turn(LOCK, LaneId(2));
            assert_eq!(turn, Turn::Owned(Handed { word: 77, has_redo_record: true }));
            assert!(lanes[1].lock_records().is_empty());
        });
    }
}
