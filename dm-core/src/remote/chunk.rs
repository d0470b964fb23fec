//! Entries of the chunk table as stored: which memory was granted to which compute node, and what for.
//!
//! ```text
//!  63            48 47            32 31             14 13       5 4     2 1    0
//! ┌────────────────┬────────────────┬─────────────────┬──────────┬───────┬──────┐
//! │ incarnation    │ row            │ request         │ index    │ kind  │ state│   0 = free
//! └────────────────┴────────────────┴─────────────────┴──────────┴───────┴──────┘
//! ```

use crate::layout::fields::Field;
use crate::layout::record::{cut, mask};
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;

/// Most requests of one compute node in one incarnation.
pub const REQUESTS_MAX: u32 = 1 << 18;

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkState {
    /// Granted to no compute node, and never used: its bytes are zero.
    Free = 0,
    /// Granted to the compute node that the entry names.
    Granted = 1,
    /// Granted to no compute node, but nodes were in it.
    Used = 2,
    /// Granted to no compute node, and to be granted to none: its memory node is to become empty.
    Withheld = 3,
}

impl ChunkState {
    /// Number of states.
    pub const COUNT: usize = 4;

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Granted => "granted",
            Self::Used => "used",
            Self::Withheld => "withheld",
        }
    }
}

/// What a chunk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkKind {
    /// Leaves of an index.
    Leaf = 1,
    /// Inner nodes of an index.
    Inner = 2,
    /// Redo records of a compute node, for all its indexes; or, for one, its log.
    Redo = 3,
    /// Variable-length keys and values.
    Block = 4,
    /// Anything else.
    Other = 5,
}

impl ChunkKind {
    /// One more than the largest number.
    pub const COUNT: usize = 6;

    /// Every kind, in numeric order.
    pub const ALL: [Self; 5] = [Self::Leaf, Self::Inner, Self::Redo, Self::Block, Self::Other];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Inner => "inner",
            Self::Redo => "redo",
            Self::Block => "block",
            Self::Other => "other",
        }
    }
}

/// Distinguishes the grants of one compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u32);

impl RequestId {
    /// `None` from [`REQUESTS_MAX`] on.
    pub const fn new(number: u32) -> Option<Self> {
        if number < REQUESTS_MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// An entry of the chunk table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ChunkWord(pub u64);

/// An entry of the chunk table, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkEntry {
    /// Free, never used.
    Free,
    /// Free, but nodes of `kind` and `index` were in it.
    Used {
        /// What it was granted for.
        kind: ChunkKind,
        /// Which index it belonged to.
        index: IndexNumber,
    },
    /// Granted.
    Granted(Grant),
    /// Nobody's, and not to be granted.
    Withheld {
        /// What it was granted for, and which index it belonged to. `None`: it was never used.
        used: Option<(ChunkKind, IndexNumber)>,
    },
}

/// A grant as the table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What it was granted for.
    pub kind: ChunkKind,
    /// The index that it is for; [`IndexNumber::NONE`] if it is for all.
    pub index: IndexNumber,
    /// Its owner's request.
    pub request: RequestId,
    /// Its owner's row.
    pub row: RowId,
    /// Its owner's incarnation, low 16 bits. There are no others ([`crate::remote::row::INCARNATION_MAX`]).
    pub incarnation: u16,
}

impl Grant {
    /// A grant to `member`.
    pub const fn new(member: Member, kind: ChunkKind, index: IndexNumber, request: RequestId) -> Self {
        Self { kind, index, request, row: member.row, incarnation: member.incarnation as u16 }
    }

    /// Whether `member` owns the chunk.
    pub(crate) const fn is_of(&self, member: Member) -> bool {
        self.row.0 == member.row.0 && self.incarnation as u32 == member.incarnation
    }

    /// The entry of this grant.
    #[inline]
    pub const fn word(&self) -> ChunkWord {
        ChunkWord(
            ChunkState::Granted as u64
                | (self.kind as u64) << 2
                | (self.index.get() as u64) << 5
                | (self.request.0 as u64) << 14
                | (self.row.0 as u64) << 32
                | (self.incarnation as u64) << 48,
        )
    }

    /// The entry of this chunk after it is given back, if nodes were in it.
    pub(crate) const fn used(&self) -> ChunkWord {
        ChunkWord(ChunkState::Used as u64 | (self.kind as u64) << 2 | (self.index.get() as u64) << 5)
    }
}

impl ChunkWord {
    /// Granted to no compute node, and never used.
    pub const FREE: Self = Self(0);

    /// Not to be granted, and never used.
    pub const WITHHELD: Self = Self(ChunkState::Withheld as u64);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(
            0,
            0,
            2,
            "state",
            "0 = free, 1 = granted, 2 = used: nobody's, but nodes lived there, 3 = withheld: free or used, not granted",
        ),
        Field::bits(
            0,
            2,
            3,
            "kind",
            "1 = leaf, 2 = inner, 3 = redo, 4 = block, 5 = other; 0 = withheld and never used",
        ),
        Field::bits(0, 5, 9, "index", "entry of the catalog; 511 = no index"),
        Field::bits(0, 14, 18, "request", "which grant of its owner this is"),
        Field::bits(0, 32, 16, "row", "compute-node row of the owner"),
        Field::bits(0, 48, 16, "incarnation", "incarnation of the owner"),
    ];

    /// The entry of this chunk when it is withheld. `None`: it is granted, or withheld, or damaged.
    pub const fn withheld(self) -> Option<Self> {
        match self.decode() {
            Ok(ChunkEntry::Free | ChunkEntry::Used { .. }) => Some(Self(self.0 | ChunkState::Withheld as u64)),
            _ => None,
        }
    }

    /// The entry of this chunk when it may be granted again. `None`: it is not withheld.
    pub const fn grantable(self) -> Option<Self> {
        match self.decode() {
            Ok(ChunkEntry::Withheld { used: None }) => Some(Self::FREE),
            Ok(ChunkEntry::Withheld { used: Some(_) }) => Some(Self(self.0 & !mask(2) | ChunkState::Used as u64)),
            _ => None,
        }
    }

    /// Decodes an entry. `Err` says what is wrong with it.
    pub const fn decode(self) -> Result<ChunkEntry, &'static str> {
        if self.0 == 0 {
            return Ok(ChunkEntry::Free);
        }
        if self.0 == Self::WITHHELD.0 {
            return Ok(ChunkEntry::Withheld { used: None });
        }
        let kind = match cut(self.0, 2, 3) {
            1 => ChunkKind::Leaf,
            2 => ChunkKind::Inner,
            3 => ChunkKind::Redo,
            4 => ChunkKind::Block,
            5 => ChunkKind::Other,
            _ => return Err("unknown chunk kind"),
        };
        let Some(index) = IndexNumber::from_stored(cut(self.0, 5, 9) as u16) else {
            return Err("chunk of an index that cannot be");
        };
        match cut(self.0, 0, 2) {
            1 => {}
            2 if self.0 & !mask(14) == 0 => return Ok(ChunkEntry::Used { kind, index }),
            3 if self.0 & !mask(14) == 0 => return Ok(ChunkEntry::Withheld { used: Some((kind, index)) }),
            2 | 3 => return Err("used or withheld chunk with an owner"),
            _ => return Err("unknown chunk state"),
        }
        let row = RowId(cut(self.0, 32, 16) as u16);
        let incarnation = (self.0 >> 48) as u16;
        if row.0 == 0 || incarnation == 0 {
            return Err("chunk granted to nobody");
        }
        let request = RequestId(cut(self.0, 14, 18) as u32);
        Ok(ChunkEntry::Granted(Grant { kind, index, request, row, incarnation }))
    }
}
