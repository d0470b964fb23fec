//! Seats of the dead: how a waiter notices, what it repairs, and what a sweep has to know.
//!
//! Whatever a compute node did before a leaf was retired, no other lane can reach; after that, nothing of it is waited
//! for ([`plan`](super::plan)). So its death leaves one thing to repair: its field in the Spear word of a leaf that it
//! was in. Once it is fenced, any lane clears the field by CAS. No redo record is written.
//!
//! A CAS that clears must not land when the seat is another compute node's, and the word looks the same again. A lane
//! that clears has a pin from its READ of the word to its CAS. No field of the seat is left when the row is freed. So a
//! compute node in a row that was used before waits for a turn of the epochs before its first addition.

use super::Dolphin;
use super::layout::leaf::place_of;
use super::layout::shape::LEAF_BYTES;
use super::spear::{Presence, Repair, Seat, Spear, repair};
use crate::index::runner::Run;
use crate::index::{catalog, owners};
use crate::lane::interrupt::Interrupt;
use crate::lane::watch::{Watch, Watched};
use crate::lane::{Lane, LockRecord};
use crate::marks::Mark;
use crate::membership::fence::row_error;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::radix::tree::corrupt;
use crate::recovery::sweep::{Dead, Sweep, Sweepable};
use crate::recovery::takeover::{Site, Suspect};
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::lock_word::RowId;
use crate::verbs::{Label, NodeId, Request, Space};
use core::sync::atomic::Ordering::{Acquire, Release};

/// Looks at a row within a lease, while a lane watches it.
const LOOKS: u64 = 16;

/// Pause of a lane that waits for a turn of the epochs, in ns.
const TURN_PAUSE_NS: u64 = 500_000;

impl Dolphin<'_> {
    /// Notes a word that keeps this lane waiting: `in_the_way` says which fields do. `Err`: one of them has done so for
    /// suspiciously long. Else how long to pause, if not the usual time.
    pub(super) fn watch_seats(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        word: Spear,
        in_the_way: Presence,
    ) -> Result<Option<u64>, LockRecord> {
        let Some(recovery) = self.recovery else { return Ok(None) };
        let suspects = || word.taken().filter(|(seat, field)| *field == in_the_way && *seat != self.entries.seat());
        // A watch is of one seat in one leaf, which the low bits of a place have room for.
        let watched_as = |seat: Seat| leaf.place() << 8 | u64::from(seat.number() + 1);
        let watched = lane.watch(|watch| watch.word);
        let again = suspects().find(|(seat, _)| watched_as(*seat) == watched);
        let count = suspects().count();
        if count == 0 {
            return Ok(None);
        }
        let Some((seat, _)) = again.or_else(|| suspects().nth(lane.next_turn() as usize % count)) else {
            return Ok(None);
        };
        match recovery.watch_holder(lane, watched_as(seat)) {
            Watched::Wait(pause_ns) => Ok(pause_ns),
            Watched::Unresponsive => {
                let lock = self.entries.lock_of(leaf);
                Err(LockRecord { word: u64::from(seat.number()), ..LockRecord::queued(lock, leaf) })
            }
        }
    }

    /// Watches the row of the compute node whose field has been in the way, until it moves or its lease is over. Then
    /// fences it and clears the field. The lane is in no leaf; it may have kept a local entry.
    pub(super) async fn look_after_seat(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        self.look_at_seat(lane, lock_record).await?;
        if lane.has_lock_records() {
            // It kept the local entry.
            self.entries.out(lane, lock_record.protects);
        }
        Ok(())
    }

    async fn look_at_seat(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        let (Some(site), Ok(seat)) = (self.site(), Seat::new(lock_record.word as u8)) else { return Ok(()) };
        let leaf = lock_record.protects;
        loop {
            if self.read_spear(lane, leaf).await?.field(seat) == Presence::Out {
                break;
            }
            let before = lane.watch(|watch| watch.watched_since());
            match site.look_at_row(lane, seat.row(), leaf).await? {
                Suspect::Unknown if planted(Mutant::SEAT_CLEARED_UNFENCED) => {
                    self.clear_seat(lane, site, leaf, seat).await?;
                    break;
                }
                Suspect::Unknown => {}
                Suspect::Gone => break,
                Suspect::Dead(_) => {
                    self.clear_seat(lane, site, leaf, seat).await?;
                    break;
                }
            }
            let now = lane.watch(|watch| watch.watched_since());
            if now.is_none() || before.is_some() && now != before {
                // It lives.
                break;
            }
            lane.check_deadline()?;
            lane.port().call(Request::pause(site.recovery.lease.config().lease_ns() / LOOKS)).await?;
        }
        lane.watch(|watch| *watch = Watch::default());
        Ok(())
    }

    /// Clears the field of a compute node that was fenced.
    async fn clear_seat(&self, lane: &Lane<'_>, site: Site<'_>, leaf: Address, seat: Seat) -> Result<(), OpError> {
        let mut attempts = 0;
        loop {
            let word = self.read_spear(lane, leaf).await?;
            let next = match repair(word, seat) {
                Repair::Nothing => return Ok(()),
                Repair::Unsound => return Err(corrupt(place_of(leaf), "the lock word of a leaf")),
                Repair::Clear(next) => next,
            };
            if !site.recovery.lease.may_write() {
                return Err(OpError::harmless(Cause::Fenced));
            }
            let cas = Request::cas(Label::Takeover, leaf.node(), leaf.offset(), word.0, next.0);
            if lane.port().call(cas).await?.value == word.0 {
                lane.mark(Mark::TAKEOVER);
                return Ok(());
            }
            lane.attempt(&mut attempts, "clearing the seat of a dead compute node")?;
        }
    }

    /// Waits until this compute node may add to Spear words. The operation has not followed a pointer yet, and gives up
    /// its pin meanwhile.
    pub(super) async fn await_seat(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if !self.seat_waits.load(Acquire) || planted(Mutant::SEAT_USED_AT_ONCE) {
            return Ok(());
        }
        self.await_turn(lane).await
    }

    #[cold]
    async fn await_turn(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let (Some(part), Some(home)) = (self.tree.epochs, self.tree.geometry.first()) else { return Ok(()) };
        let first = *self.first_turn.lock().get_or_insert_with(|| part.epochs.turns());
        part.leave(lane);
        while self.seat_waits.load(Acquire) && !part.epochs.is_over(first) {
            lane.check_deadline()?;
            part.epochs.want();
            // A compute node that has died may hold the epochs up, with no lock that anybody meets.
            part.epochs.is_short();
            self.fence_unresponsive(lane).await;
            lane.port().call(Request::pause(TURN_PAUSE_NS)).await?;
            part.turn(lane, home, self.tree.owner, self.tree.scratch.small).await.map_err(row_error)?;
        }
        self.seat_waits.store(false, Release);
        part.enter(lane);
        Ok(())
    }

    /// What recoveries work with. `None`: opened without recovery.
    pub(super) fn site(&self) -> Option<Site<'_>> {
        let (geometry, owner, room) = (self.tree.geometry, self.tree.owner, &self.tree.scratch.recovery);
        self.recovery.map(|recovery| Site { recovery, geometry, owner, room })
    }
}

impl Sweepable for Dolphin<'_> {
    fn lock_record(&self, address: Address) -> Result<LockRecord, OpError> {
        Ok(LockRecord::queued(self.entries.lock_of(address), address))
    }

    fn place_of_word(&self, lock_record: &LockRecord) -> (NodeId, u64, Space) {
        (lock_record.protects.node(), lock_record.protects.offset(), Space::Host)
    }

    fn is_of(found: u64, row: RowId) -> bool {
        Seat::of_row(row).is_ok_and(|seat| Spear(found).field(seat) != Presence::Out)
    }

    async fn sweep_lock(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        lock_record: LockRecord,
        (row, _): Dead,
    ) -> Result<bool, OpError> {
        if let Ok(seat) = Seat::of_row(row) {
            self.clear_seat(lane, site, lock_record.protects, seat).await?;
        }
        Ok(true)
    }
}

impl Sweep for Dolphin<'_> {
    type Tables = Self;

    type Leaves = Self;

    fn site(&self) -> Option<Site<'_>> {
        Self::site(self)
    }

    fn number(&self) -> IndexNumber {
        self.tree.number
    }

    fn tables(&self) -> Option<&Self> {
        None
    }

    fn leaves(&self) -> Option<(&Self, usize)> {
        Some((self, LEAF_BYTES))
    }

    /// All others: their locks may lie in tables, too.
    async fn others(&self, lane: &Lane<'_>) -> Result<IndexSet, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(IndexSet::default()) };
        catalog::numbers(lane, home, self.tree.scratch.small, |entry| entry.number != self.tree.number).await
    }

    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        let Some(home) = self.tree.geometry.first() else { return Ok(false) };
        owners::keeps_row(lane, home, row, self.tree.scratch.small).await
    }
}

/// A lane that waits for a seat which may be a dead compute node's ends its attempt.
pub(super) const fn unresponsive(lock_record: LockRecord) -> Interrupt {
    Interrupt::Unresponsive(lock_record)
}
