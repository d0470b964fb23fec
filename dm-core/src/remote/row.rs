//! Compute-node rows as stored: which compute nodes are in the pool. Only the rows of memory node 0 count.

use crate::layout::fields::Field;
use crate::layout::record::{Le16, Le32, Le64, cut, mask, record, set_text, text};
use crate::remote::NodeGeometry;
use crate::remote::lock_word::RowId;
use static_assertions::{const_assert, const_assert_eq};

/// The longest lease: an hour. Rows have it in microseconds, and 32 bits of microseconds wrap around after 71
/// minutes.
pub const LEASE_NS_MAX: u64 = 3_600_000_000_000;

/// Most chunks that are closed at once: a line has room for this many.
pub const CHUNKS_AT_ONCE: usize = 7;

/// Words of the line.
pub(crate) const LINE_WORDS: usize = 1 + CHUNKS_AT_ONCE;

/// Most rows: row numbers have 16 bits.
pub const ROW_COUNT_MAX: u32 = 1 << 16;

/// The last incarnation of a row.
pub const INCARNATION_MAX: u32 = 0xffff;

/// Bytes of a host name.
pub const HOST_BYTES_MAX: usize = 31;

/// Redo chunk addresses for which a row has room.
pub const REDO_CHUNKS: usize = 4;

record! {
    /// A compute-node row as stored: two lines. What changes is in the first.
    pub struct Row {
        word: Le64 = "row word: state, nonce, incarnation",
        heartbeat: Le64 = "counter, raised while the compute node lives",
        epoch: Le64 = "reclamation epoch it has reached; 0 = none; of row 0: how often the pool's epoch was raised",
        incarnation: Le32 = "incarnation that the fields from offset 8 on belong to",
        lanes: Le16 = "lanes of the compute node",
        memory_nodes: Le16 = "memory nodes that it knows; of row 0: of the pool, once one was added, else 0",
        token: Le64 = "random number of the process that joined",
        redo_slot_bytes: Le32 = "bytes of a slot of its redo area on this memory node",
        redo_slots: Le32 = "slots of its redo area on this memory node; 0 = none",
        lease_us: Le32 = "how long it may be silent before others may take it for dead, in us; 0 = it has not said",
        given_up: Le32 = "how often it has given up calls to other compute nodes",
        ring: Le64 = "address of the first chunk of its log ring, on any memory node; 0 = none",
        redo: [Le64; 4] = "addresses of its redo chunks on this memory node; 0 = none",
        host_bytes: u8 = "length of the host name",
        host: [u8; 31] = "host name, UTF-8, zero-padded",
    }
}

const_assert_eq!(Row::BYTES, 128);

const_assert!(LEASE_NS_MAX / 1000 <= u32::MAX as u64);

const_assert!(core::mem::offset_of!(Row, lease_us).is_multiple_of(8));

/// Where the word is whose upper half is `given_up`, in a row.
pub(crate) const GIVEN_UP_AT: u64 = core::mem::offset_of!(Row, lease_us) as u64;

const_assert_eq!(core::mem::offset_of!(Row, given_up) as u64, GIVEN_UP_AT + 4);

/// Bytes of a row from its first one on, of which a summary is made.
pub(crate) const SUMMARY_BYTES: usize = core::mem::offset_of!(Row, ring);

/// State of a compute node's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowState {
    /// No compute node has it; one may take it.
    Free = 0,
    /// In the pool, as far as heartbeats show.
    Live = 1,
    /// Its lease is over; memory nodes are closing its queue pairs.
    Fencing = 2,
    /// Nothing that the compute node posted can take effect any more; its locks may be taken over.
    Dead = 3,
}

impl RowState {
    /// The state of that number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Free),
            1 => Some(Self::Live),
            2 => Some(Self::Fencing),
            3 => Some(Self::Dead),
            _ => None,
        }
    }

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Live => "live",
            Self::Fencing => "fencing",
            Self::Dead => "dead",
        }
    }
}

/// The first word of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RowWord(pub u64);

impl RowWord {
    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 4, "state", "0 = free, 1 = live, 2 = fencing, 3 = dead"),
        Field::bits(0, 4, 28, "nonce", "low bits of the joiner's token; 0 while free"),
        Field::bits(0, 32, 32, "incarnation", "raised by every join; at most 65535"),
    ];

    /// The word of a row.
    #[inline]
    pub const fn new(state: RowState, nonce: u32, incarnation: u32) -> Self {
        Self(state as u64 | (nonce as u64 & mask(28)) << 4 | (incarnation as u64) << 32)
    }

    /// The state, if it is one.
    #[inline]
    pub const fn state(self) -> Option<RowState> {
        RowState::from_number(cut(self.0, 0, 4))
    }

    /// Whether incarnation `incarnation` of this row is over: nothing that it posted can take effect any more, and no
    /// lock names it. A later one than the word's is not: the word was READ before that compute node joined.
    #[inline]
    pub const fn is_gone(self, incarnation: u16) -> bool {
        let is_free = matches!(self.state(), Some(RowState::Free));
        (incarnation as u32) < self.incarnation() || incarnation as u32 == self.incarnation() && is_free
    }

    /// Low bits of the joiner's token.
    #[inline]
    pub const fn nonce(self) -> u32 {
        cut(self.0, 4, 28) as u32
    }

    /// Incarnation of the row; if the row is free, the last one.
    #[inline]
    pub const fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The same compute node in another state; a free row keeps no nonce.
    #[inline]
    #[must_use]
    pub const fn with_state(self, state: RowState) -> Self {
        let nonce = if matches!(state, RowState::Free) { 0 } else { self.nonce() };
        Self::new(state, nonce, self.incarnation())
    }
}

/// A compute node's membership in the pool: the result of a join, and the owner's name in chunks and catalog entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its row.
    pub row: RowId,
    /// Its incarnation.
    pub incarnation: u32,
    /// Low 28 bits of its token, as in the row word.
    pub nonce: u32,
}

impl Member {
    /// The row word while it lives.
    pub const fn word(self) -> RowWord {
        RowWord::new(RowState::Live, self.nonce, self.incarnation)
    }
}

/// The compute node for which another one makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its row, never 0.
    pub row: RowId,
    /// Its incarnation.
    pub incarnation: u16,
    /// How often it had given up its calls.
    pub given_up: u32,
}

impl Caller {
    /// As a number, never 0.
    pub const fn to_bits(self) -> u64 {
        (self.row.0 as u64) << 48 | (self.incarnation as u64) << 32 | self.given_up as u64
    }

    /// Of a number that came over the wire. `None`: no compute node has row 0.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let row = RowId((bits >> 48) as u16);
        if row.0 == 0 {
            return None;
        }
        Some(Self { row, incarnation: (bits >> 32) as u16, given_up: bits as u32 })
    }
}

/// A compute node that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joiner<'a> {
    /// A random number, not 0, drawn once per start of a process. A retry recognizes its own row by it.
    pub token: u64,
    /// Number of its lanes.
    pub lanes: u16,
    /// Memory nodes that it knows.
    pub memory_nodes: u16,
    /// Its host's name; cut to [`HOST_BYTES_MAX`] bytes at a character.
    pub host: &'a str,
}

/// A row, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowView<'a> {
    /// State.
    pub state: RowState,
    /// Incarnation; of a free row the last one.
    pub incarnation: u32,
    /// What the compute node WRITEs about itself; `None` while it has not, or if the row is free.
    pub life: Option<Life<'a>>,
}

/// The part of a row that its compute node WRITEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life<'a> {
    /// Goes up while the compute node lives.
    pub heartbeat: u64,
    /// The epoch that it has reached; 0 = none.
    pub epoch: u64,
    /// Its lanes.
    pub lanes: u16,
    /// Memory nodes that it knows; 0: it has not said.
    pub memory_nodes: u16,
    /// Random number of its process.
    pub token: u64,
    /// Its lease: how long it may be without a heartbeat, in ns. `None`: it has not said.
    pub lease_ns: Option<u64>,
    /// Addresses of its redo chunks.
    pub redo: [u64; REDO_CHUNKS],
    /// Address of the first chunk of its log ring; 0 = none.
    pub ring: u64,
    /// Its host's name; "?" if that is not text.
    pub host: &'a str,
}

impl Row {
    /// Reads a row. `Err` says what is wrong with it.
    pub fn decode(&self) -> Result<RowView<'_>, &'static str> {
        let word = RowWord(self.word.get());
        let state = word.state().ok_or("unknown row state")?;
        let incarnation = word.incarnation();
        if incarnation > INCARNATION_MAX {
            return Err("row incarnation out of range");
        }
        // Both are part of the WRITE after the join. A READ during that WRITE may see one without the other.
        let token = self.token.get();
        let written = self.incarnation.get() == incarnation && cut(token, 0, 28) == u64::from(word.nonce());
        let lease_ns = self.lease_ns()?;
        let life = (written && state != RowState::Free).then(|| Life {
            heartbeat: self.heartbeat.get(),
            epoch: self.epoch.get(),
            lanes: self.lanes.get(),
            memory_nodes: self.memory_nodes.get(),
            token,
            lease_ns,
            redo: self.redo.map(Le64::get),
            ring: self.ring.get(),
            host: text(&self.host, self.host_bytes).unwrap_or("?"),
        });
        Ok(RowView { state, incarnation, life })
    }

    /// The lease that the compute node has WRITTEN: how long it may be without a heartbeat before others may fence
    /// it, in ns. `None`: it has not written one. `Err`: longer than any lease.
    pub fn lease_ns(&self) -> Result<Option<u64>, &'static str> {
        let lease_ns = u64::from(self.lease_us.get()) * 1000;
        if self.incarnation.get() != RowWord(self.word.get()).incarnation() || lease_ns == 0 {
            return Ok(None);
        }
        if lease_ns <= LEASE_NS_MAX {
            Ok(Some(lease_ns))
        } else {
            Err("a row says that its lease is longer than an hour")
        }
    }

    /// Whether incarnation `incarnation` lives, and has given up its calls `given_up` times.
    pub(crate) fn waits(&self, incarnation: u32, given_up: u32) -> bool {
        let word = RowWord(self.word.get());
        // The other fields belong to the incarnation that WROTE them.
        word.state() == Some(RowState::Live)
            && word.incarnation() == incarnation
            && self.incarnation.get() == incarnation
            && self.given_up.get() == given_up
    }

    /// The row of `joiner`, which has just joined as `member`.
    pub fn of(member: Member, joiner: &Joiner<'_>) -> Self {
        let mut row = Self::ZERO;
        row.word = member.word().0.into();
        row.incarnation = member.incarnation.into();
        row.lanes = joiner.lanes.into();
        row.memory_nodes = joiner.memory_nodes.into();
        row.token = joiner.token.into();
        let mut cut = joiner.host.len().min(HOST_BYTES_MAX);
        while !joiner.host.is_char_boundary(cut) {
            cut -= 1;
        }
        // A name that is not text is no reason not to join: the row then has no name.
        row.host_bytes = set_text(&mut row.host, &joiner.host[..cut]).unwrap_or_else(|| {
            row.host = [0; HOST_BYTES_MAX];
            0
        });
        row
    }
}

pub(crate) const EPOCH_AT: u64 = core::mem::offset_of!(Row, epoch) as u64;

/// Byte offset of the pool's epoch.
pub const fn epoch_offset(geometry: &NodeGeometry) -> u64 {
    geometry.row_offset(RowId(0)) + EPOCH_AT
}

/// Byte offset of the word that says how many memory nodes the pool has, in its highest 16 bits; the others are zero.
pub(crate) const fn memory_nodes_offset(geometry: &NodeGeometry) -> u64 {
    geometry.row_offset(RowId(0)) + core::mem::offset_of!(Row, incarnation) as u64
}

/// Byte offset of the line that says which chunks are closed.
pub(crate) const fn closed_offset(geometry: &NodeGeometry) -> u64 {
    geometry.row_offset(RowId(0)) + Row::BYTES as u64 - (LINE_WORDS * 8) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_a_number_and_no_row_0() {
        let caller = Caller { row: RowId(513), incarnation: 0xfffe, given_up: 77 };
        assert_eq!(Caller::from_bits(caller.to_bits()), Some(caller));
        assert_eq!(Caller::from_bits(0x0000_ffff_ffff_ffff), None);
    }

    #[test]
    fn a_caller_waits_while_it_lives_and_has_not_given_up() {
        let member = Member { row: RowId(3), incarnation: 5, nonce: 7 };
        let joiner = Joiner { token: 7, lanes: 1, memory_nodes: 1, host: "a" };
        let mut row = Row::of(member, &joiner);
        row.given_up = 2.into();
        assert!(row.waits(5, 2));
        assert!(!row.waits(5, 1) && !row.waits(5, 3), "it has given up that call");
        assert!(!row.waits(4, 2) && !row.waits(6, 2), "another one");
        for state in [RowState::Fencing, RowState::Dead, RowState::Free] {
            row.word = member.word().with_state(state).0.into();
            assert!(!row.waits(5, 2), "{state:?}");
        }
        row.word = Member { incarnation: 6, ..member }.word().0.into();
        assert!(!row.waits(6, 2), "the new one has not WRITTEN its count yet");
    }

    #[test]
    fn an_old_word_says_nothing_of_an_incarnation_that_came_later() {
        let word = |incarnation, state| Member { row: RowId(3), incarnation, nonce: 7 }.word().with_state(state);
        for (state, is_gone) in [(RowState::Live, false), (RowState::Dead, false), (RowState::Free, true)] {
            let word = word(5, state);
            assert!(word.is_gone(4), "an earlier one");
            assert_eq!(word.is_gone(5), is_gone, "{state:?}");
            assert!(!word.is_gone(6), "it has joined since the word was READ: {state:?}");
        }
    }
}
