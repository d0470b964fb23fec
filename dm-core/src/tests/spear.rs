//! Shared and exclusive locks by FAA: Spear, of Marlin and Dolphin, with a seat for each compute node.
//!
//! ```text
//!  63                              32 31                               0
//! ┌──────────────────────────────────┬──────────────────────────────────┐
//! │ exclusive: seat of row r at 32+r │ shared: seat of row r at r       │   0 = free
//! └──────────────────────────────────┴──────────────────────────────────┘
//! ```
//!
//! A compute node adds its seat to enter and subtracts it to leave. The published word counts holders; a count does not
//! say which holder died. With seats a takeover removes the dead row's seat alone.
//!
//! [`Locks`] carries it as far as a lane is concerned that finds nobody in its way: FAA, judgement of the word before
//! it, back-out, release. What does not fit:
//!
//! - **Waiting for those inside.** An exclusive lane keeps its seat and waits until shared ones have left.
//!   [`Locks::judge_lock`] knows won and lost only; it needs a third answer, after which the word is READ again. Here
//!   an exclusive lane that meets shared ones backs out and tries again, and may starve.
//! - **Lanes that share a seat.** The local queues ([`LockTable`]) let one lane of a compute node in. Shared lanes need
//!   a count in the local entry: the first adds the seat, the last subtracts it.
//! - **Settling.** `settle_lock` compares the whole word with the lane's own. It needs a method that finds the lane's
//!   part in a word.
//! - **Holders.** [`Locks::watch_holder`] and [`crate::recovery`] read the holder's row and sequence from the word.
//!   Seats name several rows and no sequence: the watch needs a list of rows, and progress has to be seen in the rows'
//!   heartbeats.
//! - **Rows.** Seats of 32 rows fit a word.

#![expect(dead_code, reason = "compiled, never run")]

use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord};
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::locks::{ChainedRead, Unlock};
use crate::membership::Recovery;
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, RowId, lock_of};
use crate::verbs::{Completion, Label, NodeId, Request, Space};

/// Locks of leaves: for inserts, updates and deletes if `SHARED`, else for splits.
struct Spear<'s, const SHARED: bool> {
    queues: LockTable<'s>,
    row: RowId,
    leaf_bytes: usize,
    word_at: u64,
    image_at: usize,
    small: usize,
}

impl<const SHARED: bool> Spear<'_, SHARED> {
    /// What this compute node adds to a word.
    const fn seat(&self) -> u64 {
        let shared = 1 << (self.row.0 % 32);
        if SHARED { shared } else { shared << 32 }
    }

    fn add(&self, label: Label, held: &Held, addend: u64) -> Request {
        let (node, offset, space) = self.word_place(held.lock, held.protects);
        Request::fetch_add(label, node, offset, addend).in_space(space)
    }
}

impl<const SHARED: bool> LockKind for Spear<'_, SHARED> {
    const IN_NODES: bool = true;

    /// The leaf.
    type Follow = ();

    fn queues(&self) -> &LockTable<'_> {
        &self.queues
    }

    fn techniques(&self) -> Techniques {
        Techniques {
            hierarchical: true,
            combine: true,
            back_off: true,
            unlock: Unlock::Cas,
            chained: ChainedRead::Never,
        }
    }

    fn recovery(&self) -> Option<&Recovery<'_>> {
        None
    }

    fn row(&self) -> RowId {
        self.row
    }

    fn scratch_at(&self) -> usize {
        self.small
    }

    fn lock_of(&self, leaf: Address) -> Result<LockId, OpError> {
        let local = lock_of(leaf, 1);
        Ok(LockId { index: local.index | LockId::IN_NODE, ..local })
    }

    fn word_place(&self, _: LockId, leaf: Address) -> (NodeId, u64, Space) {
        (leaf.node(), leaf.offset() + self.word_at, Space::Host)
    }

    fn tag(&self, leaf: Address) -> u32 {
        (leaf.offset() >> 6) as u32
    }

    fn push_follow(&self, lane: &Lane<'_>, held: &Held, (): ()) {
        let (leaf, bytes) = (held.protects, self.leaf_bytes);
        lane.port().push(Request::read(Label::Leaf, leaf.node(), leaf.offset(), bytes, self.image_at));
    }

    async fn replay_own(&self, _: &Lane<'_>, _: &LockRecord) -> Result<(), OpError> {
        Ok(())
    }

    fn take_request(&self, held: &Held) -> Request {
        self.add(Label::Lock, held, self.seat())
    }

    /// Shared lanes do not mind each other.
    fn is_held(found: u64) -> bool {
        if SHARED { found >> 32 != 0 } else { found != 0 }
    }

    fn takes_any_free_word(&self) -> bool {
        true
    }
}

impl<const SHARED: bool> Locks for Spear<'_, SHARED> {
    fn next_word(&self, _: &Lane<'_>) -> Result<u64, OpError> {
        Ok(self.seat())
    }

    /// An addition takes effect, whatever it finds: a lane that lost takes it back, in front of its next request.
    fn judge_lock(&self, lane: &Lane<'_>, held: Held, added: usize) -> Result<Held, u64> {
        let found = lane.port().completion(added).value;
        if Self::is_held(found) {
            lane.port().push(self.unlock_request(&held).unsignaled());
            return Err(found);
        }
        self.hold(lane, held.lock);
        Ok(held.freed_as(found))
    }

    fn unlock_request(&self, held: &Held) -> Request {
        self.add(Label::Unlock, held, self.seat().wrapping_neg())
    }

    /// The seat was there, unless a takeover has removed it.
    fn unlocked(&self, lane: &Lane<'_>, held: Held, completion: Completion) -> Result<(), Cause> {
        self.leave(lane, held.lock);
        if completion.value & self.seat() == 0 { Err(Cause::Fenced) } else { Ok(()) }
    }
}

/// Steps: lock (shared) + READ leaf; unlock. Then the same, exclusively.
async fn in_and_out(
    shared: &Spear<'_, true>,
    exclusive: &Spear<'_, false>,
    lane: &Lane<'_>,
    leaf: Address,
) -> Result<(), Interrupt> {
    let (held, _) = shared.acquire(lane, leaf, Some(())).await?;
    shared.release(lane, held).await?;
    let (held, _) = exclusive.acquire(lane, leaf, Some(())).await?;
    Ok(exclusive.release(lane, held).await?)
}
