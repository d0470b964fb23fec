//! Ownership tables as stored, as far as every compute node has to read them: which of a pool's rows own keys of an
//! index. What follows from that is the index's ([`crate::dex::ownership`]).
//!
//! ```text
//!  catalog entry                     table, on memory node 0
//! ┌──────┬────────┬───┐             ┌────────┬────────┬────────┬─────┬────────┬─────┬────────────
//! │ root │ owners │   │ ──────────► │ header │ word 0 │ word 1 │ ... │ load 0 │ ... │ boundaries ...
//! └──────┴────────┴───┘             └────────┴────────┴────────┴─────┴────────┴─────┴────────────
//!
//!  63          36 35          20 19           4 3     0
//! ┌──────────────┬──────────────┬──────────────┬───────┐
//! │ epoch        │ log row      │ owner row    │ state │   one word per entry, changed by CAS only
//! └──────────────┴──────────────┴──────────────┴───────┘
//! ```
//!
//! A sweep of any index reads the words ([`OwnerWord::keeps`]): it must neither free a row nor give back the ring and
//! the page images of a row that is still needed.
//!
//! The loads ([`LoadWord`]) are hints for those who divide the keys. Nothing else looks at them.

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
        version: u8 = "1: there are loads behind the words",
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

    /// The version of tables whose words are followed by loads. Tables without loads had 0.
    pub const VERSION: u8 = 1;

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
        if self.version != Self::VERSION {
            return Err("an ownership table of another version");
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

/// Byte offset of the load of an entry, in a table with room for `capacity` entries.
pub const fn load_at(capacity: u32, entry: u32) -> usize {
    word_at(capacity) + entry as usize * 8
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

/// How often operations come for the keys of an entry, as its owner has counted them: a hint. Its owner WRITEs it now and then
/// and does not look whether it has come late, so that it may be of an earlier owner, or none at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LoadWord(pub u64);

impl LoadWord {
    /// Nobody has counted yet.
    pub const NONE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 32, "rate", "operations per second, weighted towards the last seconds"),
        Field::bits(0, 32, 4, "reserved", "zero"),
        Field::bits(0, 36, 28, "epoch", "of the entry's word under which the owner has counted; 0 = nobody has"),
    ];

    /// Epochs by which a range that is served again is ahead of its last owner's: it was asked for, kept and claimed; or given
    /// up and claimed; or recovered.
    const INHERITED_EPOCHS: u32 = 3;

    /// `rate` operations per second, counted in the tenure of `epoch`, which has 28 bits.
    #[inline]
    pub const fn new(rate: u32, epoch: u32) -> Self {
        Self(rate as u64 | (epoch as u64) << 36)
    }

    /// The epoch of the tenure in which it was counted.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 36) as u32
    }

    /// Operations per second, of any owner that has counted them.
    #[inline]
    pub const fn rate(self) -> u32 {
        self.0 as u32
    }

    /// Operations per second of an entry whose word is `word`. `None`: nobody has counted them, or an owner before this one
    /// has. Of an entry that moves there are those of the owner that gives it up.
    pub const fn of(self, word: OwnerWord) -> Option<u32> {
        let epochs = match word.owner() {
            Ok(Owner::Owned(_)) => 0,
            Ok(Owner::Draining { .. }) => 1,
            Ok(Owner::Kept(_)) => 2,
            Ok(Owner::Free | Owner::Recovering { .. }) | Err(_) => return None,
        };
        self.within(word.epoch(), epochs)
    }

    /// Operations per second of an entry whose new owner serves it in `epoch`, and has not counted yet: what its last owner had
    /// counted, if that is known. The operations are likely to follow the keys.
    pub const fn inherited(self, epoch: u32) -> u32 {
        match self.within(epoch, Self::INHERITED_EPOCHS) {
            Some(rate) => rate,
            None => 0,
        }
    }

    const fn within(self, epoch: u32, epochs: u32) -> Option<u32> {
        let is_one = self.0 & mask(4) << 32 == 0 && self.epoch() != 0;
        match epoch.checked_sub(self.epoch()) {
            Some(behind) if is_one && behind <= epochs => Some(self.rate()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_of_one_owner() {
        let (one, two) = (RowId(3), RowId(4));
        let load = LoadWord::new(700, 9);
        let words = [
            (Owner::Owned(one), 9, Some(700)),
            (Owner::Owned(one), 10, None),
            (Owner::Owned(one), 8, None),
            (Owner::Draining { owner: one, receiver: two }, 10, Some(700)),
            (Owner::Kept(two), 11, Some(700)),
            (Owner::Kept(two), 12, None),
            (Owner::Owned(two), 12, None),
            (Owner::Recovering { finder: two, log: one }, 10, None),
            (Owner::Free, 9, None),
        ];
        for (owner, epoch, rate) in words {
            assert_eq!(load.of(OwnerWord::new(owner, epoch)), rate, "{owner:?} in epoch {epoch}");
        }
        assert_eq!([8, 9, 12, 13].map(|epoch| load.inherited(epoch)), [0, 700, 700, 0]);
    }

    #[test]
    fn what_no_owner_writes_is_no_load() {
        let owned = |epoch| OwnerWord::new(Owner::Owned(RowId(3)), epoch);
        assert_eq!(LoadWord::NONE.of(owned(0)), None, "nobody has counted in epoch 0");
        assert_eq!(LoadWord(1 << 36 | 1 << 33 | 5).of(owned(1)), None);
        let most = LoadWord::new(u32::MAX, (1 << 28) - 1);
        assert_eq!((most.epoch(), most.of(owned((1 << 28) - 1))), ((1 << 28) - 1, Some(u32::MAX)));
        assert_eq!(LoadWord(u64::MAX).of(owned((1 << 28) - 1)), None);
        assert_eq!(LoadWord::new(5, 1).of(OwnerWord(u64::MAX)), None);
    }

    #[test]
    fn a_header_is_of_one_index_and_whole() {
        let index = |number| IndexNumber::new(number).unwrap();
        let version = TableHeader::VERSION;
        let header =
            TableHeader { count: 3.into(), index: 5, version, capacity: 8.into(), ..TableHeader::ZERO }.sealed();
        assert_eq!(header.entries(index(5)), Ok(3));
        assert!(header.entries(index(6)).is_err() && TableHeader::ZERO.entries(index(0)).is_err());
        let damaged = TableHeader { capacity: 9.into(), ..header };
        assert!(damaged.entries(index(5)).is_err());
        assert!(TableHeader { version: 0, ..header }.sealed().entries(index(5)).is_err(), "a table without loads");
        for (count, capacity) in [(0, 8), (9, 8), (u64::MAX, 8), (u64::from(ENTRIES_MAX) + 1, u32::MAX)] {
            let wrong = TableHeader { count: count.into(), capacity: capacity.into(), ..header }.sealed();
            assert!(wrong.entries(index(5)).is_err(), "{count} of {capacity}");
        }
    }
}
