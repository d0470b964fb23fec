//! The requests by which entries change their owners.
//!
//! Each change is one CAS of the whole word, decided by [`OwnerWord`]. A CAS whose outcome is unknown is looked at again
//! once its queue pair is closed: these functions begin with a READ, and find what they had done.

use super::partition::{Partition, Tenure};
use super::table::{COUNT_AT, TableShape, write_boundary};
use super::{Owner, OwnerWord, Refused};
use crate::index::PART_KEPT_US;
use crate::lane::watch::Watch;
use crate::lane::{Lane, word_at};
use crate::membership::Recovery;
use crate::operation::{Cause, OpError, unknown};
use crate::recovery::takeover::{Site, Suspect};
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::row::{Row, RowState};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, Request};
use core::ops::Range;

/// Looks at a row within a lease, while a lane watches it.
const LOOKS: u64 = 16;

/// How often a compute node tries to change the word of its own entry, which others may ask for meanwhile.
const OWN_TRIES: usize = 16;

/// Where an ownership table is, and what its steps work with.
#[derive(Clone, Copy)]
pub struct TableSite<'a> {
    /// Byte offset of the table on memory node 0.
    pub table: u64,
    /// This compute node's view of it.
    pub partition: &'a Partition<'a>,
    /// Its lease, and what it fences others with. `None`: entries of dead owners are taken over by nobody.
    pub recovery: Option<&'a Recovery<'a>>,
    /// Memory nodes of the pool.
    pub geometry: &'a [NodeGeometry],
    /// Scratch: a row.
    pub room: &'a Range<usize>,
}

/// What has become of an entry that a lane wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is this compute node's.
    Mine(OwnerWord),
    /// This compute node recovers it, and has to replay and to flush next.
    Recovering(OwnerWord),
    /// Nobody has it: it can be claimed.
    Free(OwnerWord),
    /// It is this compute node's, which is asked to give it up.
    Draining(OwnerWord),
    /// A compute node that lives has it, recovers it, or is to have it.
    Others(OwnerWord),
}

/// READs a table of that shape into the scratch at `scratch`. One round trip.
pub async fn read_table(lane: &Lane<'_>, table: u64, shape: &TableShape, scratch: usize) -> Result<(), OpError> {
    lane.port().call(Request::read(Label::Owner, HOME, table, shape.bytes(), scratch)).await?;
    Ok(())
}

impl TableSite<'_> {
    fn word_offset(&self, entry: u32) -> u64 {
        self.table + TableShape::word_at(entry) as u64
    }

    fn refused(&self, entry: u32, refused: Refused) -> OpError {
        let what = match refused {
            Refused::FromThePast { .. } => "an owner word is older than one that was seen before",
            Refused::UsedUp { .. } => return OpError::harmless(Cause::BadInput("the epochs of an entry are used up")),
            _ => "an owner word",
        };
        OpError::harmless(Cause::Corrupt { address: Address::new(HOME, self.word_offset(entry), 0), what })
    }

    /// READs an entry's word. One round trip.
    pub async fn read_word(&self, lane: &Lane<'_>, entry: u32) -> Result<OwnerWord, OpError> {
        let (at, before) = (self.room.start, self.partition.word(entry));
        lane.port().call(Request::read(Label::Owner, HOME, self.word_offset(entry), 8, at)).await?;
        let word = OwnerWord(word_at(lane, at));
        self.partition.note(entry, word, before).map_err(|refused| self.refused(entry, refused))?;
        Ok(word)
    }

    /// How many entries the table has. One round trip.
    pub async fn read_count(&self, lane: &Lane<'_>) -> Result<u32, OpError> {
        let (at, offset) = (self.room.start, self.table + COUNT_AT);
        lane.port().call(Request::read(Label::Owner, HOME, offset, 8, at)).await?;
        match u32::try_from(word_at(lane, at)) {
            Ok(count) if count > 0 && count <= self.partition.capacity() => Ok(count),
            _ => {
                let what = "an ownership table has no entries, or more than it has room for";
                Err(OpError::harmless(Cause::Corrupt { address: Address::new(HOME, offset, 0), what }))
            }
        }
    }

    /// Puts an entry behind the others: its boundary and its word, then the count. The lane holds the table's lock, and has READ the
    /// count under it: `entry`. Two round trips.
    pub async fn append(
        &self,
        lane: &Lane<'_>,
        shape: &TableShape,
        entry: u32,
        (word, low): (OwnerWord, &[u8]),
    ) -> Result<(), OpError> {
        if self.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            return Err(OpError::harmless(Cause::Fenced));
        }
        let (port, at) = (lane.port(), self.room.start);
        let (word_at, boundary_at) = (at + 8, at + 16);
        let bytes = port.with(|scratch| {
            let put = |scratch: &mut [u8], at: usize, number: u64| {
                scratch.get_mut(at..at + 8).map(|place| place.copy_from_slice(&number.to_le_bytes()))
            };
            put(scratch, at, u64::from(entry) + 1)?;
            put(scratch, word_at, word.0)?;
            write_boundary(entry, low, scratch.get_mut(boundary_at..)?)
        });
        let what = "too little scratch for an entry of the ownership table";
        let bytes = bytes.ok_or(OpError::harmless(Cause::BadInput(what)))?;
        let offset = self.table + shape.boundary_at(entry) as u64;
        port.push(Request::write(Label::Owner, HOME, offset, bytes, boundary_at));
        port.push(Request::write(Label::Owner, HOME, self.word_offset(entry), 8, word_at));
        port.submit().await.map_err(unknown)?;
        port.call(Request::write(Label::Owner, HOME, self.table + COUNT_AT, 8, at)).await.map_err(unknown)?;
        Ok(())
    }

    /// Changes an entry's word from `seen` to what `next` made of it. `None`: another compute node was faster. One round
    /// trip.
    async fn change(
        &self,
        lane: &Lane<'_>,
        (entry, seen): (u32, OwnerWord),
        next: Result<OwnerWord, Refused>,
    ) -> Result<Option<OwnerWord>, OpError> {
        let next = next.map_err(|refused| self.refused(entry, refused))?;
        if self.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            return Err(OpError::harmless(Cause::Fenced));
        }
        let cas = Request::cas(Label::Owner, HOME, self.word_offset(entry), seen.0, next.0);
        let found = lane.port().call(cas).await.map_err(unknown)?.value;
        if found != seen.0 {
            return Ok(None);
        }
        self.partition.note(entry, next, seen).map_err(|refused| self.refused(entry, refused))?;
        Ok(Some(next))
    }

    /// Takes an entry that nobody has. This compute node's ring is announced before; [`Partition::admit`] follows. Two
    /// round trips.
    pub async fn claim(&self, lane: &Lane<'_>, entry: u32) -> Result<Entry, OpError> {
        let me = self.partition.me();
        let word = self.read_word(lane, entry).await?;
        match self.says(entry, word)? {
            Entry::Free(word) => {
                if let Some(word) = self.change(lane, (entry, word), word.claim(me)).await? {
                    return Ok(Entry::Mine(word));
                }
                let word = self.read_word(lane, entry).await?;
                self.says(entry, word)
            }
            other => Ok(other),
        }
    }

    fn says(&self, entry: u32, word: OwnerWord) -> Result<Entry, OpError> {
        let me = self.partition.me();
        Ok(match word.decode().map_err(|refused| self.refused(entry, refused))? {
            Owner::Free => Entry::Free(word),
            Owner::Kept(row) if row == me => Entry::Free(word),
            Owner::Owned(owner) if owner == me => Entry::Mine(word),
            Owner::Recovering { finder, .. } if finder == me => Entry::Recovering(word),
            Owner::Draining { owner, .. } if owner == me => Entry::Draining(word),
            Owner::Kept(_) | Owner::Owned(_) | Owner::Recovering { .. } | Owner::Draining { .. } => Entry::Others(word),
        })
    }

    /// Looks once at the row of the compute node that has an entry. One round trip.
    ///
    /// `true`: that compute node may be dead, and [`TableSite::look_after`] finds out. It is not LIVE, or its heartbeat has
    /// been the same for a quarter of a lease: so long ago another operation of this compute node looked at it. An owner
    /// that lives is not waited for.
    pub async fn may_be_dead(&self, lane: &Lane<'_>, entry: u32, owner: RowId) -> Result<bool, OpError> {
        let &Self { recovery, geometry, room, .. } = self;
        let Some(recovery) = recovery else { return Ok(false) };
        let site = Site { recovery, geometry, owner: recovery.member(), room };
        let Some(seen) = site.read_row(lane, owner).await? else { return Ok(true) };
        if seen.word.state() != Some(RowState::Live) {
            return Ok(true);
        }
        let Some(now_us) = lane.port().now_us() else { return Ok(true) };
        let lease_ns = recovery.lease.config().lease_ns().max(seen.lease_ns);
        let silent_us = self.partition.saw_row(entry, (seen.word.0, seen.heartbeat), now_us);
        Ok(silent_us >= lease_ns / 4000)
    }

    /// Takes an entry that is kept for another compute node, if that does not take it: it does not live, or has left it for a quarter
    /// of a lease since operations of this compute node first saw it so. Without recovery nobody can say who lives, and
    /// [`PART_KEPT_US`] go by. Three round trips.
    pub async fn take_kept(&self, lane: &Lane<'_>, (entry, word): (u32, OwnerWord)) -> Result<Entry, OpError> {
        // No row says so: these are no heartbeats.
        let saw = |now_us| self.partition.saw_row(entry, (word.0, u64::MAX), now_us);
        let is_taken = match self.recovery {
            Some(recovery) => {
                let &Self { geometry, room, .. } = self;
                let site = Site { recovery, geometry, owner: recovery.member(), room };
                let row = site.read_row(lane, word.row()).await?;
                // Without a clock it is not known how long.
                row.is_some_and(|row| row.word.state() == Some(RowState::Live))
                    && lane.port().now_us().map_or(0, saw) < recovery.lease.config().lease_ns() / 4000
            }
            None => lane.port().now_us().is_some_and(|now_us| saw(now_us) < PART_KEPT_US),
        };
        if is_taken {
            return Ok(Entry::Others(word));
        }
        let word = match self.change(lane, (entry, word), word.claim(self.partition.me())).await? {
            Some(word) => word,
            None => self.read_word(lane, entry).await?,
        };
        self.says(entry, word)
    }

    /// Looks after the compute node that has an entry: watches its row; if that has missed its lease, fences it on every
    /// memory node, and begins to recover the entry. The lane holds no lock.
    ///
    /// It returns when the entry is this compute node's to recover, when nobody has it (it may be kept for another compute
    /// node), or when its owner is known to be alive: its heartbeat has moved.
    pub async fn look_after(&self, lane: &Lane<'_>, entry: u32) -> Result<Entry, OpError> {
        lane.watch(|watch| *watch = Watch::default());
        let looked = self.watch_owner(lane, entry).await;
        lane.watch(|watch| *watch = Watch::default());
        looked
    }

    async fn watch_owner(&self, lane: &Lane<'_>, entry: u32) -> Result<Entry, OpError> {
        let &Self { recovery, geometry, room, .. } = self;
        let Some(recovery) = recovery else {
            let word = self.read_word(lane, entry).await?;
            return self.says(entry, word);
        };
        let site = Site { recovery, geometry, owner: recovery.member(), room };
        let mut gone = None;
        loop {
            let word = self.read_word(lane, entry).await?;
            let row = match self.says(entry, word)? {
                // Its owner has given it up, and nobody has it: the row is that of the receiver.
                Entry::Others(word) if matches!(word.decode(), Ok(Owner::Kept(_))) => return Ok(Entry::Others(word)),
                Entry::Others(word) => word.row(),
                other => return Ok(other),
            };
            let before = lane.watch(|watch| watch.watched_since());
            let named_by = Address::new(HOME, self.word_offset(entry), 0);
            match site.look_at_row(lane, row, named_by).await? {
                Suspect::Unknown => {}
                // The word may have changed since it was READ. It cannot say the same again: rows that entries name are
                // not freed.
                Suspect::Gone if gone == Some(word) => {
                    let what = "an entry of the ownership table names a row that is free";
                    return Err(OpError::harmless(Cause::Corrupt { address: named_by, what }));
                }
                Suspect::Gone => {
                    gone = Some(word);
                    continue;
                }
                Suspect::Dead(_) => {
                    let next = word.recover(self.partition.me(), row);
                    if let Some(word) = self.change(lane, (entry, word), next).await? {
                        return Ok(Entry::Recovering(word));
                    }
                    lane.watch(|watch| *watch = Watch::default());
                    continue;
                }
            }
            let now = lane.watch(|watch| watch.watched_since());
            if now.is_none() || before.is_some() && now != before {
                return Ok(Entry::Others(word));
            }
            lane.check_deadline()?;
            lane.port().call(Request::pause(recovery.lease.config().lease_ns() / LOOKS)).await?;
        }
    }

    /// Ends a recovery: the log was replayed, and all flushes have completed. [`Partition::admit`] follows. Two round
    /// trips.
    pub async fn finish_recovery(&self, lane: &Lane<'_>, entry: u32) -> Result<Entry, OpError> {
        let me = self.partition.me();
        let word = self.read_word(lane, entry).await?;
        match self.says(entry, word)? {
            Entry::Recovering(word) => {
                match self.change(lane, (entry, word), word.recovered(me)).await? {
                    Some(word) => Ok(Entry::Mine(word)),
                    // Only others that took this compute node for dead can have changed it.
                    None => Err(OpError::harmless(Cause::Fenced)),
                }
            }
            Entry::Mine(word) => Ok(Entry::Mine(word)),
            Entry::Draining(word) => {
                // It had finished before, and somebody has asked for the entry since: it serves first.
                self.call_off(lane, (entry, word)).await?;
                let word = self.read_word(lane, entry).await?;
                self.says(entry, word)
            }
            Entry::Free(_) | Entry::Others(_) => Err(OpError::harmless(Cause::Fenced)),
        }
    }

    /// Asks that the compute node of row `receiver` shall have an entry. Returns the word as it is then: DRAINING or KEPT
    /// for it, OWNED by it, or another one, if others were faster or a recovery is under way. Three round trips.
    pub async fn ask(&self, lane: &Lane<'_>, entry: u32, receiver: RowId) -> Result<OwnerWord, OpError> {
        let word = self.read_word(lane, entry).await?;
        if let Err(Refused::State(_)) = word.ask(receiver) {
            return Ok(word);
        }
        self.check_receiver(lane, receiver).await?;
        match self.change(lane, (entry, word), word.ask(receiver)).await? {
            Some(word) => Ok(word),
            None => self.read_word(lane, entry).await,
        }
    }

    /// Whether a compute node lives, and has a log ring to own entries with. One round trip.
    async fn check_receiver(&self, lane: &Lane<'_>, row: RowId) -> Result<(), OpError> {
        let home = self.geometry.first().filter(|home| row.0 != 0 && u32::from(row.0) < home.row_count);
        let bad = |what| Err(OpError::harmless(Cause::BadInput(what)));
        let Some(home) = home else { return bad("a row that the pool does not have") };
        let at = self.room.start;
        lane.port().call(Request::read(Label::Row, HOME, home.row_offset(row), Row::BYTES, at)).await?;
        let stored = lane.port().with(|scratch| scratch.get(at..).and_then(Row::from_prefix)).unwrap_or(Row::ZERO);
        match stored.decode() {
            Ok(life) if life.state != RowState::Live => bad("a row without a compute node that lives"),
            // Without recovery rings are not announced.
            Ok(life) if self.recovery.is_some() && life.life.is_none_or(|life| life.ring == 0) => {
                bad("a compute node without a log ring: it has not opened the index, and cannot own keys")
            }
            Ok(_) => Ok(()),
            Err(what) => {
                Err(OpError::harmless(Cause::Corrupt { address: Address::new(HOME, home.row_offset(row), 0), what }))
            }
        }
    }

    /// Calls off what was asked of an owner, if its word still says so. Returns whether it did. One round trip.
    pub async fn call_off(&self, lane: &Lane<'_>, (entry, word): (u32, OwnerWord)) -> Result<bool, OpError> {
        Ok(self.change(lane, (entry, word), word.call_off()).await?.is_some())
    }

    /// Gives up an entry that was asked for: its tenure has ended, every page is flushed, with all completions, and no page of
    /// it is in a frame. `word`: DRAINING. `false`: it was called off. One round trip.
    pub async fn hand_over(&self, lane: &Lane<'_>, (entry, word): (u32, OwnerWord)) -> Result<bool, OpError> {
        Ok(self.change(lane, (entry, word), word.hand_over(self.partition.me())).await?.is_some())
    }

    /// Goes on with an entry in a new epoch. The tenure was closed, and the ring is empty: every page is flushed.
    /// [`Partition::admit`] follows. Two round trips.
    pub async fn renew(&self, lane: &Lane<'_>, tenure: Tenure) -> Result<OwnerWord, OpError> {
        self.change_own(lane, tenure, OwnerWord::renew).await
    }

    /// Gives an entry up. The tenure was closed, and every page of the entry is flushed, with all completions. Two round
    /// trips.
    pub async fn release(&self, lane: &Lane<'_>, tenure: Tenure) -> Result<OwnerWord, OpError> {
        self.change_own(lane, tenure, OwnerWord::release).await
    }

    async fn change_own(
        &self,
        lane: &Lane<'_>,
        tenure: Tenure,
        next: fn(OwnerWord, RowId) -> Result<OwnerWord, Refused>,
    ) -> Result<OwnerWord, OpError> {
        let (me, entry) = (self.partition.me(), tenure.entry);
        if self.partition.holds(tenure) {
            return Err(OpError::harmless(Cause::BadInput("an entry is given up while operations are admitted to it")));
        }
        // As it was noted last: the epoch of the tenure, or that in which it was asked for.
        let after = next(self.partition.word(entry), me);
        let mut word = self.read_word(lane, entry).await?;
        for _ in 0..OWN_TRIES {
            if Ok(word) == after {
                // A CAS whose outcome was unknown had been executed.
                return Ok(word);
            }
            let own = next(word, me);
            if let Err(Refused::State(_)) = own {
                break;
            }
            if let Some(word) = self.change(lane, (entry, word), own).await? {
                return Ok(word);
            }
            // Somebody has asked for it, or has called that off.
            word = self.read_word(lane, entry).await?;
        }
        Err(OpError::harmless(Cause::Fenced))
    }
}

#[cfg(test)]
mod tests;
