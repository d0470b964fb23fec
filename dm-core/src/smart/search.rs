//! READs of leaves until they are whole; and get.

use super::Smart;
use super::layout::VALUE_AT;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::operation::{OpError, Outcome};
use crate::radix::cursor::Reached;
use crate::radix::descent::Descent;
use crate::radix::leaf::{Judged, RadixLeaf};
use crate::radix::slot::Place;
use crate::radix::tree::corrupt;
use crate::verbs::Request;

/// READs of a leaf that does not fit its seal, before it is READ under its lock.
const TORN_MAX: u32 = 8;

/// READs under the lock of a leaf that does not fit its seal, before it counts as corrupt.
const TORN_LOCKED_MAX: u32 = 16;

/// Pause between two of these, in ns.
const TORN_PAUSE_NS: u64 = 2_000;

impl Smart<'_> {
    /// Judges leaf image 0.
    pub(super) fn judge_leaf(&self, lane: &Lane<'_>) -> Result<Judged, DecodeError> {
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of(scratch);
            let state = self.leaf.state(image)?;
            let wanted = scratch.get(self.plan.key.clone()).unwrap_or_default();
            Ok(Judged { ours: self.leaf.key(image) == wanted, state })
        })
    }

    /// READs a leaf into leaf image 0 until it is whole; under its lock if others keep it torn.
    pub(super) async fn read_leaf_whole(&self, lane: &Lane<'_>, place: Place) -> Result<Judged, Interrupt> {
        for _ in 0..TORN_MAX {
            lane.port().call(self.leaf_request(place, 0)).await?;
            match self.judge_leaf(lane) {
                Ok(judged) => return Ok(judged),
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what).into()),
                Err(_) => lane.mark(Mark::TORN_READ),
            }
            lane.check_deadline()?;
        }
        lane.mark(Mark::LOCKED_READ);
        let (held, read) = self.lock_leaf(lane, place).await?;
        let judged = self.read_locked(lane, &held, read).await;
        self.release(lane, held).await?;
        Ok(judged?)
    }

    /// READs a leaf that this lane has locked into leaf image 0, unless it was `read` behind the lock's CAS. Nobody
    /// else writes it now. The last writer's WRITE took effect before its unlock; if it is torn all the same, that
    /// WRITE was cut short.
    pub(super) async fn read_locked(&self, lane: &Lane<'_>, held: &Held, read: bool) -> Result<Judged, OpError> {
        let mut read = read;
        for _ in 0..TORN_LOCKED_MAX {
            if !read {
                lane.port().call(self.leaf_request(Place::of(held.protects), 0)).await?;
            }
            match self.judge_leaf(lane) {
                Ok(judged) => return Ok(judged),
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(Place::of(held.protects), what)),
                Err(_) => lane.mark(Mark::TORN_READ),
            }
            lane.port().push(Request::pause(TORN_PAUSE_NS));
            lane.port().submit().await?;
            read = false;
        }
        Err(corrupt(Place::of(held.protects), "torn for good: a writer died in a WRITE"))
    }

    /// Locks a leaf, READs it into leaf image `i`, and unlocks it. Leaf image 0 keeps its content.
    pub(super) async fn read_leaf_aside(&self, lane: &Lane<'_>, place: Place, i: usize) -> Result<(), Interrupt> {
        let (first, spare) = (self.tree.scratch.leaf(0), self.tree.scratch.fresh_leaf());
        lane.port().with(|scratch| first.copy_to(scratch, spare.at));
        let (held, _) = self.lock_leaf(lane, place).await?;
        let read = lane.port().call(self.leaf_request(place, i)).await;
        self.release(lane, held).await?;
        read?;
        if i > 0 {
            lane.port().with(|scratch| spare.copy_to(scratch, first.at));
        }
        Ok(())
    }

    /// Steps: route; READ leaf; compare. Linearizes within the READ whose image was accepted, or where the absence was
    /// seen fresh ([`smart_records`](crate::manual::smart_records)).
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        // Before the first READ: the deciding instant is after all members have called.
        self.batches.seal(lane, |_| ());
        match self.find(lane, &self.tree.way(), true, false).await? {
            Reached::Leaf(_, true) => {
                self.output(lane);
                Ok(Outcome::Found)
            }
            Reached::Leaf(_, false) | Reached::Gap(..) => Ok(Outcome::Absent),
        }
    }

    /// Copies the value of leaf image 0 to the output.
    pub(super) fn output(&self, lane: &Lane<'_>) {
        lane.port().with(|scratch| {
            let value = VALUE_AT..VALUE_AT + self.plan.value_bytes;
            self.tree.scratch.leaf(0).part(&value).copy_to(scratch, self.plan.output.start);
        });
    }
}
