//! Compute-node rows: who is in the pool. Those of memory node 0 count.
//!
//! ```text
//!  row word      63               32 31            4 3     0
//!               ┌───────────────────┬───────────────┬───────┐
//!               │ incarnation       │ nonce         │ state │   changed by CAS only
//!               └───────────────────┴───────────────┴───────┘
//!
//!                 join                    lease over              every memory node confirmed
//!        ┌─► FREE ─────► LIVE ───────────────────► FENCING ──────────────────────────────────► DEAD ─┐
//!        │    ▲            │ leave, settled           ▲                                              │
//!        │    └────────────┤                          │                                              │
//!        │                 └── leave, not settled ────┘                            swept             │
//!        └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Row 0 is nobody: lock words and chunk entries say 0 for "no row". A free row remembers the last incarnation that
//! lived there; joining raises it by one, so that `(row, incarnation)` never names two compute nodes. Incarnations end
//! at [`INCARNATION_MAX`] because chunk and catalog entries keep 16 bits of them: a row that has seen them all is used
//! up, and says so, rather than be mistaken for its own past.
//!
//! **Who may do what.** Any compute node may move a row that is not its own from LIVE to FENCING when its lease is
//! over, and from FENCING to DEAD when every memory node has confirmed; all steps may be repeated by others, so nobody
//! needs to own them. DEAD becomes FREE only after a sweep found no lock word naming the row. A compute node that
//! leaves with all its lanes settled knows that itself and frees its row; one that cannot say so leaves a FENCING row.
//!
//! **Row 0**, nobody's, has two things of the pool's, and is zero for the rest. Its epoch field is the pool's, changed by CAS
//! only ([`crate::reclaim::epochs`]); its second line says which chunks are closed ([`crate::reclaim::closed`]).
//!
//! **Stale halves.** Joining changes the row word first and WRITEs the rest afterwards. The rest repeats the
//! incarnation and the token it belongs to: while they are not the row word's, heartbeat, epoch and name are those of
//! an earlier life and mean nothing ([`Row::decode`] says so). No order of lines within a READ is assumed.

use crate::error::VerbError;
use crate::lane::Lane;
use crate::layout::fields::Field;
use crate::port::OUTBOX_REQUESTS;
use crate::reclaim::closed::LINE_WORDS;
use crate::recovery::lease::LEASE_NS_MAX;
use crate::remote::lock_word::RowId;
use crate::remote::record::{Le16, Le32, Le64, cut, mask, record, set_text, text};
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Flags, Label, Request};
use static_assertions::{const_assert, const_assert_eq};
use thiserror::Error;
use zerocopy::IntoBytes;

/// Rows there can be: row numbers have 16 bits.
pub const ROW_COUNT_MAX: u32 = 1 << 16;

/// The last incarnation of a row.
pub const INCARNATION_MAX: u32 = 0xffff;

/// Bytes of a host name.
pub const HOST_BYTES_MAX: usize = 31;

/// Redo chunk addresses a row has room for.
pub const REDO_CHUNKS: usize = 4;

record! {
    /// A compute-node row as stored: two lines, the first of what changes.
    pub struct Row {
        word: Le64 = "row word: state, nonce, incarnation",
        heartbeat: Le64 = "counter, raised while the compute node lives",
        epoch: Le64 = "reclamation epoch it has reached; 0 = none; of row 0: how often the pool's epoch was raised",
        incarnation: Le32 = "incarnation that the fields from offset 8 on belong to",
        lanes: Le16 = "lanes of the compute node",
        reserved_30: [u8; 2] = "zero",
        token: Le64 = "random number of the process that joined",
        redo_slot_bytes: Le32 = "bytes of a slot of its redo area on this memory node",
        redo_slots: Le32 = "slots of its redo area on this memory node; 0 = none",
        lease_us: Le32 = "how long it may be silent before others may take it for dead, in us; 0 = it has not said",
        reserved_52: [u8; 12] = "zero",
        redo: [Le64; 4] = "addresses of its redo chunks on this memory node; 0 = none",
        host_bytes: u8 = "length of the host name",
        host: [u8; 31] = "host name, UTF-8, zero-padded",
    }
}
const_assert_eq!(Row::BYTES, 128);
const_assert!(LEASE_NS_MAX / 1000 <= u32::MAX as u64);
const_assert!(core::mem::offset_of!(Row, lease_us).is_multiple_of(8));
const_assert!(Row::BYTES <= SCRATCH_BYTES);

/// How alive a compute node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowState {
    /// Nobody; may be joined.
    Free = 0,
    /// In the pool, as far as its heartbeats tell.
    Live = 1,
    /// Its lease is over; memory nodes are closing its queue pairs.
    Fencing = 2,
    /// Nothing it posted can take effect any more; its locks may be taken over.
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

    /// Whether incarnation `incarnation` of this row is over for good, nothing it posted can take effect any more, and no lock
    /// names it.
    #[inline]
    pub const fn is_gone(self, incarnation: u16) -> bool {
        matches!(self.state(), Some(RowState::Free)) || self.incarnation() != incarnation as u32
    }

    /// Low bits of the joiner's token.
    #[inline]
    pub const fn nonce(self) -> u32 {
        cut(self.0, 4, 28) as u32
    }

    /// Which life of the row this is, or was the last one if the row is free.
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

/// A compute node's place in the pool: the proof of a join, and the owner's name on chunks and catalog entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its row.
    pub row: RowId,
    /// Which life of that row.
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

/// Who joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joiner<'a> {
    /// A random number, not 0, drawn once per start of a process: by it a retry recognises its own row.
    pub token: u64,
    /// Lanes it will run.
    pub lanes: u16,
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
    /// What the compute node said of itself; `None` while it has not, or if the row is free.
    pub life: Option<Life<'a>>,
}

/// The part of a row that its compute node WRITEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life<'a> {
    /// Raised while the compute node lives.
    pub heartbeat: u64,
    /// Reclamation epoch it has reached; 0 = none.
    pub epoch: u64,
    /// Its lanes.
    pub lanes: u16,
    /// Random number of its process.
    pub token: u64,
    /// How long it may be silent, in ns; `None`: it has not said.
    pub lease_ns: Option<u64>,
    /// Addresses of its redo chunks.
    pub redo: [u64; REDO_CHUNKS],
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
        // Both belong to the WRITE after the join; a READ amid it may see one without the other.
        let token = self.token.get();
        let written = self.incarnation.get() == incarnation && cut(token, 0, 28) == u64::from(word.nonce());
        let lease_ns = self.lease_ns()?;
        let life = (written && state != RowState::Free).then(|| Life {
            heartbeat: self.heartbeat.get(),
            epoch: self.epoch.get(),
            lanes: self.lanes.get(),
            token,
            lease_ns,
            redo: self.redo.map(Le64::get),
            host: text(&self.host, self.host_bytes).unwrap_or("?"),
        });
        Ok(RowView { state, incarnation, life })
    }

    /// How long its compute node may be silent before it may be taken for dead, in ns: what it has said of itself. `None`: it
    /// has not. `Err`: longer than any lease is.
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

    /// The row of `joiner`, just joined as `member`.
    pub fn of(member: Member, joiner: &Joiner<'_>) -> Self {
        let mut row = Self::ZERO;
        row.word = member.word().0.into();
        row.incarnation = member.incarnation.into();
        row.lanes = joiner.lanes.into();
        row.token = joiner.token.into();
        let mut cut = joiner.host.len().min(HOST_BYTES_MAX);
        while !joiner.host.is_char_boundary(cut) {
            cut -= 1;
        }
        // A name that is not text is no reason not to join: the row then has none.
        row.host_bytes = set_text(&mut row.host, &joiner.host[..cut]).unwrap_or_else(|| {
            row.host = [0; HOST_BYTES_MAX];
            0
        });
        row
    }
}

/// Why a compute node could not join or beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowError {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// All rows are taken, being swept, or used up.
    #[error("no compute-node row is free: {live} of {rows} are live, {fenced} await a sweep, {used_up} are used up")]
    NoFreeRow {
        /// Rows besides row 0.
        rows: u32,
        /// Live ones.
        live: u32,
        /// Fencing or dead ones.
        fenced: u32,
        /// Free ones that have seen [`INCARNATION_MAX`].
        used_up: u32,
    },
    /// The row word is not this compute node's any more: it has been fenced off.
    #[error("compute-node row {} was fenced off: its word is {word:#018x}", row.0)]
    Fenced {
        /// Which row.
        row: RowId,
        /// What its word is now.
        word: u64,
    },
    /// A row no writer of ours produces.
    #[error("compute-node row {} is corrupt: {what}", row.0)]
    Corrupt {
        /// Which.
        row: RowId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The joiner's low 28 token bits are zero, which would look like nobody.
    #[error("the token must be random: its low 28 bits are zero")]
    BadToken,
}

/// What a look at all row words found.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    mine: Option<Member>,
    free: Option<(RowId, RowWord)>,
    live: u32,
    fenced: u32,
    used_up: u32,
}

/// Joins the pool: [`claim`], then [`introduce`]. For fabrics on which nobody has to be told in between.
///
/// Round trips: rows / 16 to look, 1 CAS, 1 WRITE; more for each lost race.
pub async fn join(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<Member, RowError> {
    let member = claim(lane, geometry, joiner, scratch).await?;
    introduce(lane, geometry, member, joiner, scratch).await?;
    Ok(member)
}

/// Claims a free row by CAS: the one thing a compute node may do before memory nodes know whom to fence for the row. The
/// rest of the row is for [`introduce`].
///
/// A retry after a failure of unknown effect passes the same token. It looks first: a live row with the token's nonce
/// whose token is the same, or not written yet, is its own. (Another process with the same 28 bits that died, or
/// stands, between its CAS and its WRITE would be mistaken for it; tokens are random so that this does not happen.) A
/// retry comes after the old queue pair is known to be closed, else its CAS may still take effect later; the row it
/// then claims for nobody never beats, and is fenced like any dead one.
///
/// Round trips: rows / 16 to look, 1 CAS; more for each lost race.
pub async fn claim(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<Member, RowError> {
    let nonce = cut(joiner.token, 0, 28) as u32;
    if nonce == 0 {
        return Err(RowError::BadToken);
    }
    // A lost race means that somebody else joined: there are at most as many as there are rows.
    let mut look = Look::default();
    for _ in 0..geometry.row_count {
        look = look_at_words(lane, geometry, joiner, nonce, scratch).await?;
        if let Some(member) = look.mine {
            return Ok(member);
        }
        let Some((row, word)) = look.free else { break };
        let member = Member { row, incarnation: word.incarnation() + 1, nonce };
        let claim = Request::cas(Label::Row, HOME, geometry.row_offset(row), word.0, member.word().0);
        if lane.port().call(claim).await?.value == word.0 {
            return Ok(member);
        }
    }
    let Look { live, fenced, used_up, .. } = look;
    Err(RowError::NoFreeRow { rows: geometry.row_count - 1, live, fenced, used_up })
}

async fn look_at_words(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    nonce: u32,
    scratch: usize,
) -> Result<Look, RowError> {
    let mut look = Look::default();
    let rows = geometry.row_count.min(ROW_COUNT_MAX);
    let mut first = 1;
    while first < rows {
        let count = (rows - first).min(OUTBOX_REQUESTS as u32);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            lane.port().push(Request::read(Label::Row, HOME, offset, 8, scratch + step as usize * 8));
        }
        lane.port().submit().await?;
        let mut candidate = None;
        for step in 0..count {
            let row = RowId((first + step) as u16);
            let word = RowWord(word_at(lane, scratch + step as usize * 8));
            let state = word.state().ok_or(RowError::Corrupt { row, what: "unknown row state" })?;
            match state {
                RowState::Free if word.incarnation() >= INCARNATION_MAX => look.used_up += 1,
                RowState::Free => look.free = look.free.or(Some((row, word))),
                RowState::Live => {
                    look.live += 1;
                    if word.nonce() == nonce {
                        candidate = Some((row, word));
                    }
                }
                RowState::Fencing | RowState::Dead => look.fenced += 1,
            }
        }
        if let Some((row, word)) = candidate {
            let seen = read(lane, geometry, row, scratch).await?;
            let unwritten = seen.incarnation.get() != word.incarnation();
            if seen.word.get() == word.0 && (unwritten || seen.token.get() == joiner.token) {
                look.mine = Some(Member { row, incarnation: word.incarnation(), nonce });
                return Ok(look);
            }
        }
        first += count;
    }
    Ok(look)
}

/// Says who has claimed the row: WRITEs everything but the row word, which stays the CAS's own. One round trip.
///
/// On a fabric that fences, this comes after every memory node knows whom to fence for the row: a WRITE that came late,
/// from a compute node that was fenced meanwhile, would overwrite what the next tenant says of itself.
pub async fn introduce(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<(), RowError> {
    const WORD: usize = size_of::<Le64>();
    let row = Row::of(member, joiner);
    lane.port().with(|bytes| {
        if let Some(place) = bytes.get_mut(scratch..scratch + Row::BYTES) {
            place.copy_from_slice(row.as_bytes());
        }
    });
    let offset = geometry.row_offset(member.row) + WORD as u64;
    lane.port().call(Request::write(Label::Row, HOME, offset, Row::BYTES - WORD, scratch + WORD)).await?;
    Ok(())
}

/// Says how long the compute node may be silent, after [`introduce`]: whoever waits for it waits for as long at least, whatever
/// lease that has itself. Rounded up to microseconds. One round trip.
pub async fn declare_lease(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    lease_ns: u64,
) -> Result<(), RowError> {
    // The upper half of the word is reserved, and zero.
    let lease_us = lease_ns.min(LEASE_NS_MAX).div_ceil(1000);
    let offset = geometry.row_offset(member.row) + core::mem::offset_of!(Row, lease_us) as u64;
    lane.port().call(Request::write_word(Label::Row, HOME, offset, lease_us)).await?;
    Ok(())
}

/// Says that the compute node is alive: WRITEs `counter` and `epoch`, and looks whether the row is still its own.
/// `counter` has to differ from the last one; `epoch` is the reclamation epoch its lanes have reached, 0 = none.
///
/// Returns the pool's epoch word.
///
/// [`RowError::Fenced`] means: post no more WRITEs, join anew.
///
/// One round trip: a WRITE, a READ of the row word and one of the pool's epoch in one chain.
pub async fn heartbeat(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    counter: u64,
    epoch: u64,
    scratch: usize,
) -> Result<u64, RowError> {
    let offset = geometry.row_offset(member.row);
    let mut beat = Request::write_word(Label::Row, HOME, offset + 8, counter);
    beat.bytes = 16;
    beat.operands[1] = epoch;
    debug_assert!(beat.flags.contains(Flags::INLINE));
    published(lane, geometry, member, beat, scratch).await
}

/// As [`heartbeat`], of `epoch` alone: whoever watches the heartbeat sees none.
pub(crate) async fn publish_epoch(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    epoch: u64,
    scratch: usize,
) -> Result<u64, RowError> {
    let offset = geometry.row_offset(member.row) + EPOCH_AT;
    published(lane, geometry, member, Request::write_word(Label::Row, HOME, offset, epoch), scratch).await
}

/// Posts a WRITE to the own row, and looks at the row word and the pool's epoch behind it.
async fn published(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    write: Request,
    scratch: usize,
) -> Result<u64, RowError> {
    lane.port().push(write);
    lane.port().push(Request::read(Label::Row, HOME, geometry.row_offset(member.row), 8, scratch));
    lane.port().push(Request::read(Label::Row, HOME, epoch_offset(geometry), 8, scratch + 8));
    lane.port().submit().await?;
    let word = word_at(lane, scratch);
    if word == member.word().0 {
        Ok(word_at(lane, scratch + 8))
    } else {
        Err(RowError::Fenced { row: member.row, word })
    }
}

/// READs the pool's epoch word. One round trip.
pub(crate) async fn read_epoch(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<u64, RowError> {
    lane.port().call(Request::read(Label::Row, HOME, epoch_offset(geometry), 8, scratch)).await?;
    Ok(word_at(lane, scratch))
}

const EPOCH_AT: u64 = core::mem::offset_of!(Row, epoch) as u64;

/// Byte offset of the pool's epoch.
pub const fn epoch_offset(geometry: &NodeGeometry) -> u64 {
    geometry.row_offset(RowId(0)) + EPOCH_AT
}

/// Byte offset of the line that says which chunks are closed.
pub const fn closed_offset(geometry: &NodeGeometry) -> u64 {
    geometry.row_offset(RowId(0)) + Row::BYTES as u64 - (LINE_WORDS * 8) as u64
}

/// READs which chunks are closed.
pub(crate) async fn read_closed(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
) -> Result<[u64; LINE_WORDS], VerbError> {
    let read = Request::read(Label::Row, HOME, closed_offset(geometry), LINE_WORDS * 8, scratch);
    lane.port().call(read).await?;
    let mut line = [0; LINE_WORDS];
    for (at, word) in line.iter_mut().enumerate() {
        *word = word_at(lane, scratch + at * 8);
    }
    Ok(line)
}

/// READs the word of a row: whoever has it now. `None`: there is no such row.
pub async fn tenant(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    row: RowId,
    scratch: usize,
) -> Result<Option<RowWord>, VerbError> {
    if row.0 == 0 || u32::from(row.0) >= geometry.row_count {
        return Ok(None);
    }
    lane.port().call(Request::read(Label::Row, HOME, geometry.row_offset(row), 8, scratch)).await?;
    Ok(Some(RowWord(word_at(lane, scratch))))
}

/// How many lives of compute nodes are over, in all rows. One round trip for eight rows.
pub(crate) async fn lives_ended(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<u32, VerbError> {
    Ok(lives(lane, geometry, scratch).await?.0)
}

/// The same, if nobody is dead who was not swept up after.
pub(crate) async fn all_buried(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
) -> Result<Option<u32>, VerbError> {
    let (ended, dead) = lives(lane, geometry, scratch).await?;
    Ok((!dead).then_some(ended))
}

/// How many lives are over, and whether a row is of somebody who is fenced or dead.
async fn lives(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<(u32, bool), VerbError> {
    let (mut first, mut ended, mut dead) = (1, 0u32, false);
    while first < geometry.row_count {
        let count = (geometry.row_count - first).min(GLIMPSES);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            lane.port().push(Request::read(Label::Row, HOME, offset, 8, scratch + step as usize * 8));
        }
        lane.port().submit().await?;
        for step in 0..count as usize {
            let word = RowWord(word_at(lane, scratch + step * 8));
            let under_way = word.state() != Some(RowState::Free);
            ended = ended.wrapping_add(word.incarnation().wrapping_sub(under_way.into()));
            dead |= under_way && word.state() != Some(RowState::Live);
        }
        first += count;
    }
    Ok((ended, dead))
}

/// What others' memory depends on, of one row: the head of its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glimpse {
    pub word: RowWord,
    pub heartbeat: u64,
    pub epoch: u64,
    /// To which the other fields belong.
    pub incarnation: u32,
    /// 0: it has not said.
    pub lease_ns: u64,
}

/// Bytes of a row that a glimpse is of.
const GLIMPSE_BYTES: usize = core::mem::offset_of!(Row, lease_us) + size_of::<Le64>();

/// Rows READ at once.
const GLIMPSES: u32 = 8;
const_assert!(GLIMPSES as usize * GLIMPSE_BYTES <= SCRATCH_BYTES && GLIMPSES as usize <= OUTBOX_REQUESTS);

/// Calls `visit` with every row from `first` on, until it answers `false`. One round trip for eight rows.
pub(crate) async fn glimpse_from(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    first: RowId,
    scratch: usize,
    visit: &mut impl FnMut(RowId, &Glimpse) -> bool,
) -> Result<(), RowError> {
    let rows = geometry.row_count.min(ROW_COUNT_MAX);
    let mut first = u32::from(first.0);
    while first < rows {
        let count = (rows - first).min(GLIMPSES);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            let at = scratch + step as usize * GLIMPSE_BYTES;
            lane.port().push(Request::read(Label::Row, HOME, offset, GLIMPSE_BYTES, at));
        }
        lane.port().submit().await?;
        for step in 0..count {
            let at = scratch + step as usize * GLIMPSE_BYTES;
            let mut row = Row::ZERO;
            lane.port().with(|bytes| {
                let (to, from) = (row.as_mut_bytes().get_mut(..GLIMPSE_BYTES), bytes.get(at..at + GLIMPSE_BYTES));
                if let (Some(to), Some(from)) = (to, from) {
                    to.copy_from_slice(from);
                }
            });
            let glimpse = Glimpse {
                word: RowWord(row.word.get()),
                heartbeat: row.heartbeat.get(),
                epoch: row.epoch.get(),
                incarnation: row.incarnation.get(),
                // What no lease is, nobody has said.
                lease_ns: row.lease_ns().ok().flatten().unwrap_or(0),
            };
            if !visit(RowId((first + step) as u16), &glimpse) {
                return Ok(());
            }
        }
        first += count;
    }
    Ok(())
}

/// Leaves the pool.
///
/// `settled` is the caller's word that every lane's ledger is empty, every posted request has completed and no queue
/// pair failed without being confirmed closed: then no lock names the row, now or later, and it is free at once.
/// Otherwise the row is left FENCING for others to finish with. Its chunks stay its own in both cases: nodes of
/// indexes live in them.
///
/// One round trip. Leaving again after an unknown outcome is harmless.
pub async fn leave(lane: &Lane<'_>, geometry: &NodeGeometry, member: Member, settled: bool) -> Result<(), RowError> {
    let state = if settled { RowState::Free } else { RowState::Fencing };
    advance(lane, geometry, member.row, member.word(), state).await?;
    // A row that is not ours any more was left before, or fenced: gone either way.
    Ok(())
}

/// Moves a row to `state` if its word is still `seen`. Answers the word it then has.
///
/// The caller keeps the order of the picture above: FENCING before any memory node is asked to fence, DEAD only when
/// all have confirmed, FREE only after the sweep.
pub async fn advance(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    row: RowId,
    seen: RowWord,
    state: RowState,
) -> Result<RowWord, RowError> {
    let next = seen.with_state(state);
    let cas = Request::cas(Label::Row, HOME, geometry.row_offset(row), seen.0, next.0);
    let found = lane.port().call(cas).await?.value;
    Ok(if found == seen.0 { next } else { RowWord(found) })
}

/// READs one row. One round trip.
pub async fn read(lane: &Lane<'_>, geometry: &NodeGeometry, row: RowId, scratch: usize) -> Result<Row, RowError> {
    lane.port().call(Request::read(Label::Row, HOME, geometry.row_offset(row), Row::BYTES, scratch)).await?;
    let found = lane.port().with(|bytes| bytes.get(scratch..).and_then(Row::from_prefix));
    found.ok_or(RowError::Corrupt { row, what: "scratch too small for a row" })
}

/// The word in scratch at `at`; 0 outside.
pub(crate) fn word_at(lane: &Lane<'_>, at: usize) -> u64 {
    lane.port().with(|bytes| {
        let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member = Member { row: RowId(3), incarnation: 2, nonce: 7 };

    fn row(lease_us: u64) -> Row {
        let mut row = Row::of(MEMBER, &Joiner { token: 7, lanes: 1, host: "here" });
        row.lease_us = (lease_us as u32).into();
        row
    }

    #[test]
    fn a_lease_is_believed_up_to_an_hour_and_of_this_life_only() {
        assert_eq!(row(0).lease_ns(), Ok(None));
        assert_eq!(row(250).lease_ns(), Ok(Some(250_000)));
        assert_eq!(row(LEASE_NS_MAX / 1000).lease_ns(), Ok(Some(LEASE_NS_MAX)));
        assert!(row(LEASE_NS_MAX / 1000 + 1).lease_ns().is_err());
        assert!(row(u64::from(u32::MAX)).decode().is_err());
        let mut next = row(250);
        next.word = Member { incarnation: 3, ..MEMBER }.word().0.into();
        assert_eq!(next.lease_ns(), Ok(None), "what an earlier tenant said");
    }
}
