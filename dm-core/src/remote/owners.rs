//! Ownership tables as stored, as far as every compute node has to read them: which of a pool's rows own keys of an
//! index. What follows from that is the index's ([`crate::dex::ownership`]).
//!
//! ```text
//!  catalog entry                     table, on memory node 0
//! ┌──────┬────────┬───┐             ┌────────┬────────┬────────┬─────┬─────────────
//! │ root │ owners │   │ ──────────► │ header │ word 0 │ word 1 │ ... │ boundaries ...
//! └──────┴────────┴───┘             └────────┴────────┴────────┴─────┴─────────────
//!
//!  63          36 35          20 19           4 3     0
//! ┌──────────────┬──────────────┬──────────────┬───────┐
//! │ epoch        │ log row      │ owner row    │ state │   one word per entry, changed by CAS only
//! └──────────────┴──────────────┴──────────────┴───────┘
//! ```
//!
//! A sweep of any index reads the words ([`OwnerWord::keeps`]): it must neither free a row nor give back the ring and
//! the page images of a row that is still needed.

use crate::layout::LINE_BYTES;
use crate::layout::fields::Field;
use crate::layout::record::{CRC, Le16, Le32, Le64, cut, mask, record};
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use static_assertions::const_assert_eq;
use zerocopy::IntoBytes;

/// Entries of a table.
pub const ENTRIES_MAX: u32 = 1 << 12;

record! {
    /// The header of an ownership table as stored: one line.
    pub struct TableHeader {
        checksum: Le32 = "CRC-32C of the bytes 16..64",
        reserved_4: Le32 = "zero",
        count: Le64 = "entries in use, from entry 0 on; it only grows",
        index: u8 = "catalog number of the index",
        reserved_17: u8 = "zero",
        key_bytes: Le16 = "bytes of a key, and of a boundary",
        capacity: Le32 = "entries for which there is room",
        pool_incarnation: Le64 = "of the pool, as in its superblock",
        reserved_32: [u8; 32] = "zero",
    }
}
const_assert_eq!(TableHeader::BYTES, LINE_BYTES);

/// Bytes 16.. of the header are checked.
const CHECKED_AT: usize = 16;

impl TableHeader {
    fn computed(&self) -> u32 {
        CRC.checksum(&self.as_bytes()[CHECKED_AT..])
    }

    /// This header with its checksum.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.checksum = self.computed().into();
        self
    }

    /// Entries of the table, if this is the header of the one of `index`.
    pub fn entries(&self, index: IndexNumber) -> Result<u32, &'static str> {
        if self.checksum.get() != self.computed() {
            return Err("the checksum of an ownership table's header does not hold");
        }
        if u16::from(self.index) != index.get() {
            return Err("an ownership table of another index");
        }
        match u32::try_from(self.count.get()) {
            Ok(count) if count > 0 && count <= self.capacity.get().min(ENTRIES_MAX) => Ok(count),
            _ => Err("an ownership table has no entries, or more than it has room for"),
        }
    }
}

/// Byte offset of the word of an entry, in the table.
pub const fn word_at(entry: u32) -> usize {
    TableHeader::BYTES + entry as usize * 8
}

/// What an entry's word says, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody has it; all records are in their pages.
    Free,
    /// This compute node has it, and its ring has what is not in pages.
    Owned(RowId),
    /// `finder` replays the ring of `log`, and nobody is admitted.
    Recovering {
        /// The compute node that replays.
        finder: RowId,
        /// The dead one whose ring has what is not in pages.
        log: RowId,
    },
    /// `owner` has it, and is asked to give it up for `receiver`.
    Draining {
        /// The compute node whose ring has what is not in pages.
        owner: RowId,
        /// For which it is kept afterwards.
        receiver: RowId,
    },
    /// Nobody has it; all records are in their pages. This compute node is to have it, if it lives.
    Kept(RowId),
}

/// The word of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct OwnerWord(pub u64);

const FREE: u64 = 0;
const OWNED: u64 = 1;
const RECOVERING: u64 = 2;
const DRAINING: u64 = 3;
const KEPT: u64 = 4;

impl OwnerWord {
    /// Of a new entry.
    pub const FREE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 4, "state", "0 = free, 1 = owned, 2 = recovering, 3 = draining, 4 = kept"),
        Field::bits(
            0,
            4,
            16,
            "owner",
            "compute-node row of the owner, or of the one that recovers; kept: of the one that is to have it; 0 = nobody",
        ),
        Field::bits(
            0,
            20,
            16,
            "log",
            "compute-node row whose ring has what is in no page; owned: the owner's; draining: for which it is drained; 0 = none",
        ),
        Field::bits(0, 36, 28, "epoch", "raised by every change of the word"),
    ];

    /// The word that says so in `epoch`, which has 28 bits.
    #[inline]
    pub const fn new(owner: Owner, epoch: u32) -> Self {
        let (state, owner, log) = match owner {
            Owner::Free => (FREE, 0, 0),
            Owner::Owned(row) => (OWNED, row.0, row.0),
            Owner::Recovering { finder, log } => (RECOVERING, finder.0, log.0),
            Owner::Draining { owner, receiver } => (DRAINING, owner.0, receiver.0),
            Owner::Kept(row) => (KEPT, row.0, 0),
        };
        Self(state | (owner as u64) << 4 | (log as u64) << 20 | (epoch as u64) << 36)
    }

    /// The epoch.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 36) as u32
    }

    /// The row in the owner's field; 0: nobody.
    #[inline]
    pub const fn row(self) -> RowId {
        RowId(cut(self.0, 4, 16) as u16)
    }

    /// The row in the field of the log; 0: none. Draining: that of the receiver.
    #[inline]
    pub const fn log_row(self) -> RowId {
        RowId(cut(self.0, 20, 16) as u16)
    }

    /// What it says. `Err`: what is wrong with it, as no writer makes it.
    #[inline]
    pub const fn owner(self) -> Result<Owner, &'static str> {
        let (owner, log) = (self.row(), self.log_row());
        match self.0 & mask(4) {
            FREE if owner.0 == 0 && log.0 == 0 => Ok(Owner::Free),
            FREE => Err("it is free and names a row"),
            OWNED if owner.0 != 0 && log.0 == owner.0 => Ok(Owner::Owned(owner)),
            OWNED => Err("its owner and its log differ, or it has none"),
            RECOVERING if owner.0 != 0 && log.0 != 0 && log.0 != owner.0 => {
                Ok(Owner::Recovering { finder: owner, log })
            }
            RECOVERING => Err("it has no finder or no log, or both are the same"),
            DRAINING if owner.0 != 0 && log.0 != 0 && log.0 != owner.0 => Ok(Owner::Draining { owner, receiver: log }),
            DRAINING => Err("it has no owner or no receiver, or both are the same"),
            KEPT if owner.0 != 0 && log.0 == 0 => Ok(Owner::Kept(owner)),
            KEPT => Err("it is kept for nobody, or names a log"),
            _ => Err("unknown state"),
        }
    }

    /// Lower-case name of its state.
    pub const fn state_name(self) -> &'static str {
        match self.owner() {
            Ok(Owner::Free) => "free",
            Ok(Owner::Owned(_)) => "owned",
            Ok(Owner::Recovering { .. }) => "recovering",
            Ok(Owner::Draining { .. }) => "draining",
            Ok(Owner::Kept(_)) => "kept",
            Err(_) => "corrupt",
        }
    }

    /// Whether a sweep must neither free `row` nor give its ring and its page images back on account of this entry. A
    /// word that cannot be read keeps every row.
    pub fn keeps(self, row: RowId) -> bool {
        match self.owner() {
            Ok(Owner::Free | Owner::Kept(_)) => false,
            Ok(Owner::Owned(owner) | Owner::Draining { owner, .. }) => owner == row,
            Ok(Owner::Recovering { .. }) | Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_of_one_index_and_whole() {
        let index = |number| IndexNumber::new(number).unwrap();
        let header = TableHeader { count: 3.into(), index: 5, capacity: 8.into(), ..TableHeader::ZERO }.sealed();
        assert_eq!(header.entries(index(5)), Ok(3));
        assert!(header.entries(index(6)).is_err() && TableHeader::ZERO.entries(index(0)).is_err());
        let damaged = TableHeader { capacity: 9.into(), ..header };
        assert!(damaged.entries(index(5)).is_err());
        for (count, capacity) in [(0, 8), (9, 8), (u64::MAX, 8), (u64::from(ENTRIES_MAX) + 1, u32::MAX)] {
            let wrong = TableHeader { count: count.into(), capacity: capacity.into(), ..header }.sealed();
            assert!(wrong.entries(index(5)).is_err(), "{count} of {capacity}");
        }
    }
}
