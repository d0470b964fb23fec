//! Ownership: which compute node has which range of keys.
//!
//! ```text
//!  63          36 35          20 19           4 3     0
//! ┌──────────────┬──────────────┬──────────────┬───────┐
//! │ epoch        │ log row      │ owner row    │ state │   one word per entry, changed by CAS only
//! └──────────────┴──────────────┴──────────────┴───────┘
//!
//!             claim                     owner fenced and DEAD            replayed and flushed
//!   FREE ─────────────► OWNED ◄─┐ renew ──────────────────► RECOVERING ──────────────────────► OWNED
//!    ▲                    │  └──┘                            │    ▲  finder fenced and DEAD     by the finder
//!    └────────────────────┘                                  └────┘
//!           release: drained and flushed
//!
//!          somebody asks              drained, flushed, frames dropped            claim
//!   OWNED ◄─────────────► DRAINING ────────────────────────────────────► KEPT ─────────────► OWNED
//!   by X   it is called off  by X, for Y                                  for Y                by Y, or by anybody if Y is dead
//! ```
//!
//! A key belongs to one *entry* of a table on memory node 0, and an entry to one compute node at most. **Every change of
//! the word raises the epoch by one.** So no word is ever there twice, a CAS that comes late loses, and what is stamped
//! with an epoch is in the order in which it was written: log records, pages, page images.
//!
//! | room | what it is |
//! |---|---|
//! | (here) | the changes of the word; the word itself is read by every sweep ([`crate::remote::owners`]) |
//! | [`table`] | the table as stored; boundaries that are given, even, or quantiles |
//! | [`load`] | how many operations come for an entry |
//! | [`partition`] | what a compute node knows of the table: `owner_of`, its own tenures |
//! | [`steps`] | the requests: READ the table, claim, look after a dead owner, release |
//!
//! **Who is admitted.** A compute node serves a key while three things hold: it has the entry's *tenure*
//! ([`partition::Partition::admit`]), the operation saw the same epoch when it began and when it changed something, and
//! the compute node's lease was valid at a time that was read after the leaf was read. The word alone does not admit
//! anybody: a finder's word names it before its replay is done.
//!
//! **Why the log row is in the word.** While an entry is RECOVERING, records that are in no page may be in the ring of the
//! last owner only. Finders may die, one after the other; each keeps the log row. A row is not freed, and its
//! ring is not given back, while an entry names the row or is RECOVERING ([`OwnerWord::keeps`]). The latter is for finders
//! that died: their page images may be what a torn page needs, and no word names them any more.

pub mod load;
pub mod partition;
pub mod steps;
pub mod table;
#[cfg(test)]
mod tests;

use crate::pages::lsn::EPOCH_MAX;
use crate::remote::lock_word::RowId;
use thiserror::Error;

pub use crate::remote::owners::{LoadWord, Owner, OwnerWord};

/// Epochs that are kept for deaths: nobody claims or renews an entry above [`EPOCH_MAX`] less this.
pub const EPOCHS_FOR_DEATHS: u32 = 1 << 16;

/// Why an entry's word cannot be changed like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The word is in another state, or names another compute node.
    #[error("the entry is {}, epoch {}", .0.state_name(), .0.epoch())]
    State(OwnerWord),
    /// No writer makes such a word.
    #[error("an owner word is corrupt ({:#018x}): {what}", word.0)]
    Corrupt {
        /// The word.
        word: OwnerWord,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Epochs are used up.
    #[error("the epochs of this entry are used up: {epoch} of {EPOCH_MAX}, and some are kept for deaths")]
    UsedUp {
        /// The entry's epoch.
        epoch: u32,
    },
    /// A word of an earlier epoch than one that was seen before: the table was restored, or overwritten.
    #[error(
        "an owner word says epoch {found}, and said {seen} before: the ownership table is not the one that was opened"
    )]
    FromThePast {
        /// The epoch that was seen before.
        seen: u32,
        /// The one that was found.
        found: u32,
    },
}

impl OwnerWord {
    /// What it says.
    #[inline]
    pub const fn decode(self) -> Result<Owner, Refused> {
        match self.owner() {
            Ok(owner) => Ok(owner),
            Err(what) => Err(Refused::Corrupt { word: self, what }),
        }
    }

    const fn next(self, owner: Owner, epoch_max: u32) -> Result<Self, Refused> {
        let epoch = self.epoch();
        if epoch >= epoch_max { Err(Refused::UsedUp { epoch }) } else { Ok(Self::new(owner, epoch + 1)) }
    }

    /// `me` takes a free entry, or one that is kept: for `me`, or for a compute node that does not live. Its ring is announced
    /// before.
    pub const fn claim(self, me: RowId) -> Result<Self, Refused> {
        match self.decode() {
            Ok(Owner::Free | Owner::Kept(_)) => self.next(Owner::Owned(me), EPOCH_MAX - EPOCHS_FOR_DEATHS),
            Ok(_) => Err(Refused::State(self)),
            Err(error) => Err(error),
        }
    }

    /// Somebody asks that the compute node of row `receiver`, which lives, shall have the entry.
    pub fn ask(self, receiver: RowId) -> Result<Self, Refused> {
        let asked = match self.decode()? {
            Owner::Free => Owner::Kept(receiver),
            Owner::Kept(other) if other != receiver => Owner::Kept(receiver),
            Owner::Owned(owner) if owner != receiver => Owner::Draining { owner, receiver },
            _ => return Err(Refused::State(self)),
        };
        self.next(asked, EPOCH_MAX - EPOCHS_FOR_DEATHS)
    }

    /// Somebody calls off what was asked: the owner keeps the entry.
    pub fn call_off(self) -> Result<Self, Refused> {
        match self.decode()? {
            Owner::Draining { owner, .. } => self.next(Owner::Owned(owner), EPOCH_MAX),
            _ => Err(Refused::State(self)),
        }
    }

    /// `me` begins to recover the entry. `dead` is the row that was fenced on every memory node, and is DEAD: it has to
    /// be the one in the way.
    pub fn recover(self, me: RowId, dead: RowId) -> Result<Self, Refused> {
        let (in_the_way, log) = match self.decode()? {
            Owner::Owned(owner) | Owner::Draining { owner, .. } => (owner, owner),
            Owner::Recovering { finder, log } => (finder, log),
            Owner::Free | Owner::Kept(_) => return Err(Refused::State(self)),
        };
        // A row whose ring is to be replayed is dead, so the compute node that recovers has another row.
        if in_the_way != dead || dead == me || log == me {
            return Err(Refused::State(self));
        }
        self.next(Owner::Recovering { finder: me, log }, EPOCH_MAX)
    }

    /// `me` has replayed the log, and all its flushes have completed.
    pub fn recovered(self, me: RowId) -> Result<Self, Refused> {
        match self.decode()? {
            Owner::Recovering { finder, .. } if finder == me => self.next(Owner::Owned(me), EPOCH_MAX),
            _ => Err(Refused::State(self)),
        }
    }

    /// `me` goes on with a new epoch: its ring is empty, and begins with line 0 again.
    pub fn renew(self, me: RowId) -> Result<Self, Refused> {
        match self.decode()? {
            Owner::Owned(owner) | Owner::Draining { owner, .. } if owner == me => {
                self.next(self.decode()?, EPOCH_MAX - EPOCHS_FOR_DEATHS)
            }
            _ => Err(Refused::State(self)),
        }
    }

    /// `me` gives the entry up for the one that is to have it: it serves nothing any more, all its flushes have completed, and no
    /// page of the entry is in a frame.
    pub fn hand_over(self, me: RowId) -> Result<Self, Refused> {
        match self.decode()? {
            Owner::Draining { owner, receiver } if owner == me => self.next(Owner::Kept(receiver), EPOCH_MAX),
            _ => Err(Refused::State(self)),
        }
    }

    /// `me` leaves: it serves nothing any more, and all its flushes have completed; or it will not take what is kept for it.
    pub fn release(self, me: RowId) -> Result<Self, Refused> {
        match self.decode()? {
            Owner::Owned(owner) | Owner::Draining { owner, .. } | Owner::Kept(owner) if owner == me => {
                self.next(Owner::Free, EPOCH_MAX)
            }
            _ => Err(Refused::State(self)),
        }
    }

    /// Checks that it is not older than `seen`, a word of the same entry that was READ before.
    pub const fn check_after(self, seen: Self) -> Result<(), Refused> {
        if self.epoch() < seen.epoch() || self.epoch() == seen.epoch() && self.0 != seen.0 {
            return Err(Refused::FromThePast { seen: seen.epoch(), found: self.epoch() });
        }
        Ok(())
    }
}
