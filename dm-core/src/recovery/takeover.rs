//! Waiting for a lock whose holder does not respond, and taking the lock over from a dead holder.
//!
//! **What bounds it.** What a row says of its lease is bounded (an hour), and so are the looks in that time, whatever
//! damage made of it. Operations end by their deadline. What has none counts how often the holder of a lock was in its way.
//!
//! Why that is safe: [`takeover`](crate::manual::takeover) and [`leases`](crate::manual::leases).

use crate::lane::watch::Watch;
use crate::lane::{Lane, LockRecord, Stage};
use crate::layout::word_at;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::membership::fence::{Fenced, fence};
use crate::membership::redo::{self, HEADER_BYTES, Image, LOOK_BYTES, SLOTS_FOR_WRITES, Wanted};
use crate::memory::chunks::Entries;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::remote::chunk::{ChunkEntry, Grant};
use crate::remote::lock_word::{LockWord, RowId};
use crate::remote::row::{Member, Row, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::ops::Range;

/// A row, as far as leases are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenRow {
    pub(crate) word: RowWord,
    pub(crate) heartbeat: u64,
    /// What it says of its lease; 0: nothing.
    pub(crate) lease_ns: u64,
}

/// What a lane needs that recovers a lock.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) geometry: &'a [NodeGeometry],
    /// This compute node.
    pub(crate) owner: Member,
    /// Scratch for [`redo::find`], and what it finds.
    pub(crate) room: &'a Range<usize>,
}

/// What a look at the row of a compute node came to that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspect {
    /// It may live: wait on.
    Unknown,
    /// It left, or was swept.
    Gone,
    /// It is DEAD, and nothing that it posted can take effect any more. Its row word, as it was before.
    Dead(RowWord),
}

/// Locks that can be taken over.
pub(crate) trait Recoverable: Locks {
    /// `None`: opened without recovery.
    fn site(&self) -> Option<Site<'_>>;

    /// Looks after the holder of a lock that did not respond, for an operation that ended because of it and begins anew
    /// afterwards. Called where the lane holds no lock and has changed nothing, at the very outside: so the future of
    /// an attempt need not have room for a recovery.
    ///
    /// It looks again and again, until the lock has another word or was taken over, or until the holder is known to be
    /// alive: its heartbeat has moved. The lane has the lock's local entry, and keeps it meanwhile. So the other lanes of
    /// this compute node wait, and do not begin to watch anew one after the other.
    async fn look_after(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        let Some(site) = self.site() else { return Ok(()) };
        let watched_since = || lane.watch(|watch| watch.watched_since());
        let mut since = watched_since();
        let looked = loop {
            let looked = self.look_at_holder(lane, site, lock_record).await;
            let now = watched_since();
            let is_over = now.is_none() || since.is_some() && now != since || planted(Mutant::LOOKS_ONCE);
            if looked.is_err() || is_over {
                break looked;
            }
            since = now;
            if let Err(late) = lane.check_deadline() {
                break Err(late);
            }
            // As long as a lane waits between two CASes, or longer if the row says that its lease is longer. What it
            // says is bounded, and so are the looks at it, even if damage has made it say that.
            let pause_ns = lane.watch(|watch| watch.look_pause_ns(site.recovery.lease.config().lease_ns()));
            if let Err(error) = lane.port().call(Request::pause(pause_ns.min(lane.remaining_ns()))).await {
                break Err(error.into());
            }
        };
        // If a takeover is under way, settling finds out what became of it.
        if lane.stage_of(lock_record.lock) == Some(Stage::Queued) {
            self.leave(lane, lock_record.lock);
        }
        looked
    }

    /// Looks at the row of a lock's holder. If the holder is dead, or has missed its lease, fences it and recovers the
    /// lock: the lock is free afterwards, or another lane holds it.
    ///
    /// The lane has the local entry of the lock and no remote word of it.
    async fn look_at_holder(&self, lane: &Lane<'_>, site: Site<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        let found = LockWord(lane.watch(|watch| watch.word));
        let row = found.row();
        let recovery = site.recovery;
        if recovery.is_self(row) {
            // A lane of this compute node: it goes on, or its lock records will be settled.
            lane.watch(|watch| *watch = Watch::default());
            return Ok(());
        }
        // The operation may have had this lock since it watched the holder, or waited for another lock. Then that
        // holder may be alive and idle, with a heartbeat that does not move: it must not be fenced for a lock that it
        // does not hold.
        let (node, offset, space) = self.word_place(lock_record.lock, lock_record.protects);
        let at = site.room.start;
        lane.port().call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
        if lane.port().with(|scratch| word_at(scratch, at)) != found.0 {
            lane.watch(|watch| *watch = Watch::default());
            return Ok(());
        }
        match site.look_at_row(lane, row, lock_record.protects).await? {
            Suspect::Unknown => return Ok(()),
            Suspect::Gone => {}
            Suspect::Dead(word) => self.recover(lane, site, lock_record, found, word.incarnation()).await?,
        }
        lane.watch(|watch| *watch = Watch::default());
        Ok(())
    }

    /// Ends an acquisition of a dead compute node: completes its last WRITE, and replaces the lock word `dead`. Several
    /// compute nodes may do this at once; each may die anywhere in it.
    ///
    /// `lock_record` is the lane's own, in stage `Queued`, and is in that stage again afterwards.
    ///
    /// Where a lock lies in a node, its free word comes from a READ of the node, at a time when only this lane can be
    /// writing the node. That is after the replay. If nothing is torn, it is while the word is still the dead holder's,
    /// whose WRITEs have all landed or never will. (Then another repairer may be faster, and the CAS loses.)
    async fn recover(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        lock_record: LockRecord,
        dead: LockWord,
        incarnation: u32,
    ) -> Result<(), OpError> {
        let Site { recovery, geometry, owner, room } = site;
        let lock = lock_record.lock;
        let (node, place) = (usize::from(lock.node.0), (lock, lock_record.protects));
        let (Some(geometry), Some(area)) = (geometry.get(node), recovery.areas.get(node)) else {
            return Ok(());
        };
        let port = lane.port();
        let wanted = Wanted { row: dead.row(), incarnation, lock: lock_record.lock_name(), word: dead, own: false };
        let found = redo::find(lane, lock.node, geometry, &wanted, room).await?;
        if !recovery.lease.may_write() {
            return Err(OpError::harmless(Cause::Fenced));
        }
        let found = if planted(Mutant::TAKEOVER_WITHOUT_REPLAY) { None } else { found };
        let Some(found) = found else {
            // Nothing of it is torn. A lane whose CAS loses finds that the dead word was replaced, which is what it
            // wanted.
            let free = self.free_word(lane, lock_record.protects).await?;
            let takeover = self.word_request(Label::Takeover, place, dead.0, free);
            if port.call(takeover).await?.value == dead.0 {
                lane.mark(Mark::TAKEOVER);
            }
            return Ok(());
        };
        let word = LockWord(self.next_word(lane)?);
        let image_at = room.start + LOOK_BYTES;
        let image = Image {
            lock_record,
            word,
            incarnation: owner.incarnation,
            step: recovery.next_step(),
            repair: true,
            writes: found.writes,
        };
        let bytes = HEADER_BYTES + found.writes.total_bytes();
        port.with(|scratch| image.seal(scratch.get_mut(image_at..image_at + bytes).unwrap_or_default()));
        let Some(slot) = area.slot_of(lane, SLOTS_FOR_WRITES) else { return Ok(()) };
        // Waited for: if the takeover succeeds, the copy is there.
        if !planted(Mutant::TAKEOVER_WITHOUT_COPY) {
            port.call(Request::write(Label::Redo, lock.node, slot, bytes, image_at)).await?;
        }
        lane.track(LockRecord { stage: Stage::Posted, word: word.0, has_redo_record: true, ..lock_record })?;
        let taken = port.call(self.word_request(Label::Takeover, place, dead.0, word.0)).await?.value;
        if taken != dead.0 {
            lane.track(lock_record)?;
            return Ok(());
        }
        lane.mark(Mark::TAKEOVER);
        if found.repair {
            lane.mark(Mark::REPAIRER_DIED);
        }
        lane.track(LockRecord { stage: Stage::Held, word: word.0, has_redo_record: true, ..lock_record })?;
        found.writes.replay(lane, lock.node, image_at + HEADER_BYTES, recovery.unit_bytes);
        let mut free = 0;
        if Self::IN_NODES {
            port.submit().await?;
            free = self.free_word(lane, lock_record.protects).await?;
        }
        let unlock = port.push(self.word_request(Label::Unlock, place, word.0, free));
        port.submit().await?;
        lane.mark(Mark::REDO_REPLAYED);
        lane.track(lock_record)?;
        if port.completion(unlock).value == word.0 { Ok(()) } else { Err(OpError::harmless(Cause::Fenced)) }
    }
}

impl Site<'_> {
    /// What a row says of the life of its compute node; `None`: there is no such row.
    pub(crate) async fn read_row(&self, lane: &Lane<'_>, row: RowId) -> Result<Option<SeenRow>, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(None) };
        if row.0 == 0 || u32::from(row.0) >= home.row_count {
            return Ok(None);
        }
        let at = self.room.start;
        lane.port().call(Request::read(Label::Row, HOME, home.row_offset(row), Row::BYTES, at)).await?;
        let stored = lane.port().with(|scratch| scratch.get(at..).and_then(Row::from_prefix));
        let Some(stored) = stored else { return Ok(None) };
        let address = Address::new(HOME, home.row_offset(row), 0);
        let corrupt = |what| OpError::harmless(Cause::Corrupt { address, what });
        let lease_ns = stored.lease_ns().map_err(corrupt)?.unwrap_or(0);
        Ok(Some(SeenRow { word: RowWord(stored.word.get()), heartbeat: stored.heartbeat.get(), lease_ns }))
    }

    /// Looks at the row of a compute node that has been in the way of this lane for long. If it is dead, or has missed
    /// its lease, makes sure that it can write no more. The lane holds no lock and has changed nothing.
    ///
    /// The lane's watch says since when the row has not changed. If the answer is not [`Suspect::Unknown`], the caller
    /// begins the watch anew, once it has done what follows.
    ///
    /// `named_by`: what names the row. If the pool has no such row, nobody will ever take that word back: it is damage,
    /// and a lane without a deadline must not wait for it.
    pub(crate) async fn look_at_row(&self, lane: &Lane<'_>, row: RowId, named_by: Address) -> Result<Suspect, OpError> {
        let recovery = self.recovery;
        let posted_ns = lane.port().elapsed_ns();
        let Some(seen) = self.read_row(lane, row).await? else {
            let what = "it names a compute-node row that the pool does not have";
            return Err(OpError::harmless(Cause::Corrupt { address: named_by, what }));
        };
        let lease_ns = recovery.lease.config().lease_ns().max(seen.lease_ns);
        let now_ns = lane.port().elapsed_ns();
        let heartbeat = if planted(Mutant::HEARTBEAT_UNSEEN) { 0 } else { seen.heartbeat };
        let over = lane.watch(|watch| watch.saw_row((seen.word.0, heartbeat), posted_ns, now_ns, lease_ns));
        // The counter is whatever the row says: its product with a time may not fit.
        let by_its_clock = || seen.heartbeat.saturating_mul(recovery.lease.config().heartbeat_ns()) < now_ns;
        let over = over || planted(Mutant::LEASE_BY_REMOTE_CLOCK) && by_its_clock();
        match seen.word.state() {
            Some(RowState::Live) if !over => return Ok(Suspect::Unknown),
            Some(RowState::Live | RowState::Fencing) if !recovery.fencing => {
                let reply = crate::remote::rpc::Reply::Impossible;
                return Err(OpError::harmless(Cause::CannotFence { row, node: HOME, reply }));
            }
            Some(RowState::Live | RowState::Fencing | RowState::Dead) => {}
            // A row is freed after a sweep that left no such lock: the holder was swept since its word was READ.
            _ => return Ok(Suspect::Gone),
        }
        let is_dead =
            planted(Mutant::TAKEOVER_UNFENCED) || fence(lane, self.geometry, row, seen.word).await? == Fenced::Dead;
        Ok(if is_dead { Suspect::Dead(seen.word) } else { Suspect::Gone })
    }

    /// What the entry of a chunk says, if it is granted. `entries` has READ it with others.
    pub(crate) async fn read_grant(
        &self,
        lane: &Lane<'_>,
        entries: &mut Entries,
        (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
    ) -> Result<Option<Grant>, OpError> {
        let entry = entries.entry(lane, node, geometry, chunk, self.room.start).await?.decode();
        Ok(if let Ok(ChunkEntry::Granted(grant)) = entry { Some(grant) } else { None })
    }

    /// Watches a row for a lease. `true`: it did not change.
    pub(crate) async fn lease_is_over(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        const LOOKS: u64 = 16;
        let first = self.read_row(lane, row).await?;
        let lease_ns = self.recovery.lease.config().lease_ns().max(first.map_or(0, |row| row.lease_ns));
        // The pauses alone make a whole lease.
        for _ in 0..LOOKS {
            lane.port().call(Request::pause(lease_ns.div_ceil(LOOKS))).await?;
            if self.read_row(lane, row).await? != first {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Repeats the WRITE that this lane's own queue pair may have cut short, before the lock is released.
    pub(crate) async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        let lock = lock_record.lock;
        let Some(geometry) = self.geometry.get(usize::from(lock.node.0)) else { return Ok(()) };
        let wanted = Wanted {
            row: self.owner.row,
            incarnation: self.owner.incarnation,
            lock: lock_record.lock_name(),
            word: LockWord(lock_record.word),
            own: true,
        };
        let found = redo::find(lane, lock.node, geometry, &wanted, self.room).await?;
        if let Some(found) = found {
            if !self.recovery.lease.may_write() {
                return Err(OpError::harmless(Cause::Fenced));
            }
            lane.mark(Mark::REDO_REPLAYED);
            let at = self.room.start + LOOK_BYTES + HEADER_BYTES;
            found.writes.replay(lane, lock.node, at, self.recovery.unit_bytes);
            lane.port().submit().await?;
        }
        Ok(())
    }
}
