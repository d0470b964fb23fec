//! Redo records: what a WRITE was about to do, kept where its memory node survives its sender.
//!
//! ```text
//!  redo area of a compute node on one memory node: up to four chunks, cut into slots
//! ┌ lane 0 ────────────────────────┐┌ lane 1 ───
//! │ WRITE │ WRITE │ WRITE │ repair ││ WRITE │ ...      a slot: 64 bytes of header, then the bytes
//! └────────────────────────────────┘└───────────
//! ```
//!
//! **Rule.** A redo record stays in its slot for as long as its lane holds the lock. So a lane takes its slots one
//! after the other, and begins with the first one again when it has no lock record any more. It uses its slot for
//! repairs only while it has no other lock record. See [`redo_records`](crate::manual::redo_records) for the reason and
//! for the race that this closes.
//!
//! A merge has the most redo records under the locks of one lane: of the parent, of the right leaf and of the left
//! leaf.
//!
//! Behind the slots of the first chunk on memory node 0 follows a line, the *list* of the indexes that the compute node has open
//! ([`OpenIndexes`]): a sweep of its row has to find its locks in each of them, and none of them may be dropped. Every redo
//! chunk has room for such a line.
//!
//! The row of the compute node *on that memory node* says where its area there is, how long slots are and how many
//! there are. The row repeats the incarnation for which it was written, and so does every redo record. An area that a
//! crash left half announced, or that of an earlier incarnation, has no record that matches.

use super::push_by_lines;
use crate::error::VerbError;
use crate::lane::{Lane, LockRecord};
use crate::layout::record::{Le16, Le32, Le64, record};
use crate::memory::chunks::{self, RequestIds, Want};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::remote::catalog::{INDEXES_MAX, IndexNumber, IndexSet};
use crate::remote::chunk::{ChunkKind, Grant};
use crate::remote::lock_word::{LockWord, RowId};
use crate::remote::row::{Member, REDO_CHUNKS, Row};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::ops::Range;
use static_assertions::const_assert_eq;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Slots for the WRITEs a lane makes between its first lock and its last unlock: a merge changes two leaves and their
/// parent.
pub const SLOTS_FOR_WRITES: usize = 3;

/// Slots of a lane on each memory node.
pub const SLOTS_PER_LANE: usize = SLOTS_FOR_WRITES + 1;

record! {
    /// The header of a redo record as stored; the bytes follow.
    pub struct ImageHeader {
        checksum: Le32 = "CRC-32C of the header behind it and of the bytes",
        bytes: Le32 = "length of the WRITE",
        word: Le64 = "lock word under which it was posted",
        offset: Le64 = "byte offset of the WRITE on this memory node",
        lock: Le32 = "index of the lock word in this memory node's table; of one that lies in a node, the node's line",
        incarnation: Le32 = "incarnation of the row in the lock word",
        step: Le32 = "counts up over the WRITEs under one lock word",
        repair: Le32 = "1 = copied from a dead compute node's area by one that was taking over",
        more_offset: Le64 = "byte offset of a second WRITE that belongs to it",
        more_bytes: Le32 = "its length, 0: there is none; its bytes follow those of the first",
        reserved_52: [u8; 12] = "zero",
    }
}
const_assert_eq!(ImageHeader::BYTES, HEADER_BYTES);

/// Bytes of a redo record before those that it repeats.
pub const HEADER_BYTES: usize = 64;

/// Words of the list of open indexes.
const OPEN_WORDS: usize = INDEXES_MAX.div_ceil(32);

record! {
    /// Which indexes a compute node has open, as stored: a line, so that neither a crash nor a READ leaves a part of it
    /// unnoticed.
    pub struct OpenIndexes {
        checksum: Le32 = "CRC-32C of the rest",
        incarnation: Le32 = "incarnation of the row",
        row: Le16 = "the compute-node row",
        reserved_10: [u8; 22] = "zero",
        indexes: [Le32; 8] = "a bit for each entry of the catalog, from the low ones up: 1 = open, or left with a lock held",
    }
}
const_assert_eq!(OpenIndexes::BYTES, HEADER_BYTES);
const_assert_eq!(OPEN_WORDS, 8);

impl OpenIndexes {
    /// The list of `member`.
    pub fn of(member: Member, open: &IndexSet) -> Self {
        let mut list = Self::ZERO;
        list.incarnation = member.incarnation.into();
        list.row = member.row.0.into();
        for (word, bits) in list.indexes.iter_mut().zip(open.words()) {
            *word = bits.into();
        }
        list.checksum = checksum(list.as_bytes()).into();
        list
    }

    /// The indexes, if this is the list of that row and incarnation.
    pub fn open_of(&self, (row, incarnation): (RowId, u32)) -> Option<IndexSet> {
        let is_whole = checksum(self.as_bytes()) == self.checksum.get();
        let is_its = (self.row.get(), self.incarnation.get()) == (row.0, incarnation);
        (is_whole && is_its).then(|| IndexSet::of_words(self.indexes.map(Le32::get)))
    }
}

/// CRC-32C by table: redo records, and records of logs, are made on the path of writes.
pub(crate) const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

const CHECKSUM_BYTES: usize = size_of::<Le32>();

/// The checksum of a redo record: all of it but the checksum itself.
pub fn checksum(image: &[u8]) -> u32 {
    CRC.checksum(image.get(CHECKSUM_BYTES..).unwrap_or_default())
}

impl ImageHeader {
    /// This header with its checksum, of itself and of the `bytes` that follow it.
    #[must_use]
    pub fn sealed(mut self, bytes: &[u8]) -> Self {
        let mut digest = CRC.digest();
        digest.update(self.as_bytes().get(CHECKSUM_BYTES..).unwrap_or_default());
        digest.update(bytes);
        self.checksum = digest.finalize().into();
        self
    }
}

/// A redo area: where a compute node's slots are on one memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    chunks: [u64; REDO_CHUNKS],
    per_chunk: u32,
    slot_bytes: u32,
    slots: u32,
}

impl Area {
    /// Stored bytes of a slot.
    pub const fn slot_bytes(&self) -> u32 {
        self.slot_bytes
    }

    /// Slots, of all lanes.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Byte offset of slot `slot`.
    pub(crate) fn slot(&self, slot: u32) -> Option<u64> {
        let chunk = *self.chunks.get((slot / self.per_chunk.max(1)) as usize)?;
        (slot < self.slots && chunk != 0)
            .then(|| chunk + u64::from(slot % self.per_chunk.max(1)) * u64::from(self.slot_bytes))
    }

    /// Where the list of open indexes is: behind the slots of the first chunk.
    fn list(&self) -> Option<u64> {
        let first = self.chunks.first().copied().filter(|first| *first != 0)?;
        Some(first + u64::from(self.per_chunk) * u64::from(self.slot_bytes))
    }

    /// Slot `position` of a lane.
    pub(crate) fn slot_of(&self, lane: &Lane<'_>, position: usize) -> Option<u64> {
        let mut number = u32::from(lane.id().0);
        if planted(Mutant::REDO_SLOTS_SHARED) {
            number = number.min(6);
        }
        self.slot(number * SLOTS_PER_LANE as u32 + position as u32)
    }

    /// The area that a row announces for `incarnation`. `None`: none, or that of another incarnation. Whatever the row
    /// says, all slots are inside the heap.
    fn announced(row: &Row, incarnation: u32, geometry: &NodeGeometry) -> Result<Option<Self>, &'static str> {
        let (slot_bytes, slots) = (row.redo_slot_bytes.get(), row.redo_slots.get());
        if row.incarnation.get() != incarnation || slots == 0 {
            return Ok(None);
        }
        let whole_lines = slot_bytes >= HEADER_BYTES as u32 && slot_bytes.is_multiple_of(HEADER_BYTES as u32);
        let per_chunk = if whole_lines { slots_of_chunk(geometry, slot_bytes) } else { 0 };
        if per_chunk == 0 || u64::from(slots) > per_chunk * REDO_CHUNKS as u64 {
            return Err("a row announces redo slots that fit no chunk");
        }
        let mut chunks = [0; REDO_CHUNKS];
        for (chunk, address) in chunks.iter_mut().zip(row.redo) {
            let offset = Address::from_bits(address.get()).offset();
            if offset != 0 && geometry.chunk_of(offset).map(|number| geometry.chunk_offset(number)) != Some(offset) {
                return Err("a row announces a redo chunk that is none");
            }
            *chunk = offset;
        }
        Ok(Some(Self { chunks, per_chunk: u32::try_from(per_chunk).unwrap_or(u32::MAX), slot_bytes, slots }))
    }
}

/// Slots that a chunk has room for, in front of a list.
const fn slots_of_chunk(geometry: &NodeGeometry, slot_bytes: u32) -> u64 {
    geometry.chunk_bytes.saturating_sub(OpenIndexes::BYTES as u64) / slot_bytes as u64
}

/// Why a compute node has no redo areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RedoError {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// The slots do not fit the chunks a row can name.
    #[error(
        "memory node {}: {lanes} lanes x {SLOTS_PER_LANE} redo slots x {slot_bytes} bytes = {} bytes; a row names \
         {REDO_CHUNKS} chunks, which hold {room} such slots",
        node.0,
        u64::from(*lanes) * SLOTS_PER_LANE as u64 * u64::from(*slot_bytes)
    )]
    TooLarge {
        /// Where.
        node: NodeId,
        /// Lanes wanted.
        lanes: u16,
        /// Bytes of a slot.
        slot_bytes: u32,
        /// Slots there is room for.
        room: u64,
    },
    /// No chunk is left.
    #[error("memory node {} has no chunk left for redo images", node.0)]
    PoolFull {
        /// Which.
        node: NodeId,
    },
}

/// Gets a redo area for `lanes` lanes on every memory node, with slots for nodes of `node_bytes`, and announces it, with the
/// list of the indexes that are `open`. `areas` has one entry per memory node.
///
/// Called once, after the join and before the first lock. Round trips: for each memory node its chunks' grants and one
/// WRITE.
#[expect(clippy::too_many_arguments, reason = "who, where, how much, and room to work in")]
pub async fn prepare(
    lane: &Lane<'_>,
    geometry: &[NodeGeometry],
    member: Member,
    open: &IndexSet,
    requests: &RequestIds,
    lanes: u16,
    node_bytes: usize,
    scratch: usize,
    areas: &mut [Area],
) -> Result<(), RedoError> {
    let slot_bytes = (HEADER_BYTES + node_bytes).next_multiple_of(HEADER_BYTES) as u32;
    let slots = u32::from(lanes) * SLOTS_PER_LANE as u32;
    for (number, (geometry, area)) in geometry.iter().zip(areas.iter_mut()).enumerate() {
        let node = NodeId(number as u16);
        let per_chunk = slots_of_chunk(geometry, slot_bytes);
        let room = per_chunk * REDO_CHUNKS as u64;
        if u64::from(slots) > room {
            return Err(RedoError::TooLarge { node, lanes, slot_bytes, room });
        }
        let mut chunks = [0; REDO_CHUNKS];
        let wanted = u64::from(slots).div_ceil(per_chunk.max(1)) as usize;
        for chunk in chunks.iter_mut().take(wanted) {
            let request = requests.next().ok_or(RedoError::PoolFull { node })?;
            let grant = Grant::new(member, ChunkKind::Redo, IndexNumber::NONE, request);
            let want = Want { reuse: true, ..Want::new(grant) };
            let granted = chunks::grant(lane, node, geometry, &want, scratch).await?;
            *chunk = granted.ok_or(RedoError::PoolFull { node })?.offset;
        }
        *area = Area { chunks, per_chunk: u32::try_from(per_chunk).unwrap_or(u32::MAX), slot_bytes, slots };
        if node == HOME {
            push_list(lane, area, member, open, scratch + Row::BYTES);
        }
        announce(lane, node, geometry, member, area, scratch).await?;
    }
    Ok(())
}

fn push_list(lane: &Lane<'_>, area: &Area, member: Member, open: &IndexSet, scratch: usize) {
    let Some(offset) = area.list() else { return };
    lane.port().with(|bytes| {
        if let Some(place) = bytes.get_mut(scratch..scratch + OpenIndexes::BYTES) {
            place.copy_from_slice(OpenIndexes::of(member, open).as_bytes());
        }
    });
    lane.port().push(Request::write(Label::Redo, HOME, offset, OpenIndexes::BYTES, scratch));
}

/// Changes the list of the indexes that `member` has open. `area` is its redo area on memory node 0. An index is added before it
/// is used, and removed when no lane of it can have a lock any more. One round trip.
pub async fn list_open(
    lane: &Lane<'_>,
    area: &Area,
    member: Member,
    open: &IndexSet,
    scratch: usize,
) -> Result<(), VerbError> {
    push_list(lane, area, member, open, scratch);
    lane.port().submit().await
}

/// Which indexes a row's incarnation has open, or had when it died. `None`: it has not said. Two round trips.
pub async fn open_indexes(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    (row, incarnation): (RowId, u32),
    scratch: usize,
) -> Result<Option<IndexSet>, VerbError> {
    let port = lane.port();
    port.call(Request::read(Label::Row, HOME, home.row_offset(row), Row::BYTES, scratch)).await?;
    let stored = port.with(|bytes| bytes.get(scratch..).and_then(Row::from_prefix));
    let area = stored.and_then(|stored| Area::announced(&stored, incarnation, home).ok().flatten());
    let Some(offset) = area.as_ref().and_then(Area::list) else { return Ok(None) };
    port.call(Request::read(Label::Redo, HOME, offset, OpenIndexes::BYTES, scratch)).await?;
    let list = port.with(|bytes| bytes.get(scratch..).and_then(OpenIndexes::from_prefix));
    Ok(list.and_then(|list| list.open_of((row, incarnation))))
}

async fn announce(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    member: Member,
    area: &Area,
    scratch: usize,
) -> Result<(), VerbError> {
    let mut row = Row::ZERO;
    row.incarnation = member.incarnation.into();
    row.redo_slot_bytes = area.slot_bytes.into();
    row.redo_slots = area.slots.into();
    for (address, &chunk) in row.redo.iter_mut().zip(&area.chunks) {
        *address = if chunk == 0 { 0 } else { Address::new(node, chunk, 0).to_bits() }.into();
    }
    lane.port().with(|bytes| {
        if let Some(place) = bytes.get_mut(scratch..scratch + Row::BYTES) {
            place.copy_from_slice(row.as_bytes());
        }
    });
    let at = geometry.row_offset(member.row);
    // The lease lies between them, and this function must not change it.
    let slots = core::mem::offset_of!(Row, redo_slot_bytes)..core::mem::offset_of!(Row, lease_us);
    let chunks = core::mem::offset_of!(Row, redo)..core::mem::offset_of!(Row, host_bytes);
    for part in [slots, chunks] {
        lane.port().push(Request::write(Label::Redo, node, at + part.start as u64, part.len(), scratch + part.start));
    }
    // The row on the first memory node got its incarnation from the join. The rows on the others serve redo alone.
    let incarnation = core::mem::offset_of!(Row, incarnation);
    lane.port().push(Request::write(Label::Redo, node, at + incarnation as u64, CHECKSUM_BYTES, scratch + incarnation));
    lane.port().submit().await
}

/// What a redo record says, beside the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) lock_record: LockRecord,
    pub(crate) word: LockWord,
    pub(crate) incarnation: u32,
    pub(crate) step: u32,
    pub(crate) repair: bool,
    pub(crate) writes: Writes,
}

/// The WRITEs that a redo record repeats: one, or two of one node that have to land both or not at all. Their bytes lie
/// one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) more_offset: u64,
    pub(crate) more_bytes: usize,
}

impl Writes {
    pub(crate) const fn one(offset: u64, bytes: usize) -> Self {
        Self { offset, bytes, more_offset: 0, more_bytes: 0 }
    }

    /// Bytes of both.
    pub(crate) const fn total_bytes(&self) -> usize {
        self.bytes + self.more_bytes
    }

    /// Pushes them again, from the bytes at scratch offset `at`.
    pub(crate) fn replay(&self, lane: &Lane<'_>, node: NodeId, at: usize, unit_bytes: u32) {
        let port = lane.port();
        push_by_lines(port, Label::Replay, (node, self.offset), self.bytes, at, unit_bytes);
        if self.more_bytes > 0 {
            push_by_lines(port, Label::Replay, (node, self.more_offset), self.more_bytes, at + self.bytes, unit_bytes);
        }
    }

    /// Whether all of it lies in the heap.
    fn inside(&self, geometry: &NodeGeometry) -> bool {
        let in_heap = |offset: u64, bytes: usize| {
            geometry.chunk_of(offset).is_some() && geometry.chunk_of(offset.saturating_add(bytes as u64 - 1)).is_some()
        };
        self.bytes > 0
            && in_heap(self.offset, self.bytes)
            && (self.more_bytes == 0 || in_heap(self.more_offset, self.more_bytes))
    }
}

impl Image {
    /// Completes a redo record: `image` is room for a header, with the bytes behind it.
    pub(crate) fn seal(&self, image: &mut [u8]) {
        let mut header = ImageHeader::ZERO;
        header.bytes = (self.writes.bytes as u32).into();
        header.word = self.word.0.into();
        header.offset = self.writes.offset.into();
        header.more_offset = self.writes.more_offset.into();
        header.more_bytes = (self.writes.more_bytes as u32).into();
        header.lock = self.lock_record.lock_name().into();
        header.incarnation = self.incarnation.into();
        header.step = self.step.into();
        header.repair = u32::from(self.repair).into();
        let Some((place, bytes)) = image.split_at_mut_checked(HEADER_BYTES) else { return };
        place.copy_from_slice(header.sealed(bytes).as_bytes());
    }
}

/// A redo record that was found, in the scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) step: u32,
    /// It is a repairer's copy.
    pub(crate) repair: bool,
    /// Where its bytes belong on the memory node.
    pub(crate) writes: Writes,
}

/// Which redo record is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) row: RowId,
    pub(crate) incarnation: u32,
    /// See [`LockRecord::lock_name`].
    pub(crate) lock: u32,
    pub(crate) word: LockWord,
    /// The row is the compute node's own: its lanes may be at work.
    pub(crate) own: bool,
}

impl Wanted {
    fn is(&self, header: &ImageHeader) -> bool {
        header.word.get() == self.word.0
            && (header.incarnation.get() == self.incarnation || planted(Mutant::REDO_OF_ANY_INCARNATION))
            && header.lock.get() == self.lock
    }
}

/// Headers READ at once.
const HEADERS_AT_ONCE: u32 = 8;

/// Scratch for looking: a row, or headers; then a redo record.
pub(crate) const LOOK_BYTES: usize = HEADER_BYTES * HEADERS_AT_ONCE as usize;

/// The redo area that a row's incarnation announces on one memory node. One round trip.
pub(crate) async fn area_of(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    (row, incarnation): (RowId, u32),
    scratch: usize,
) -> Result<Option<Area>, OpError> {
    let row_at = geometry.row_offset(row);
    lane.port().call(Request::read(Label::Row, node, row_at, Row::BYTES, scratch)).await?;
    let row = lane.port().with(|bytes| bytes.get(scratch..).and_then(Row::from_prefix));
    let Some(row) = row else { return Ok(None) };
    let corrupt = |what| OpError::harmless(Cause::Corrupt { address: Address::new(node, row_at, 0), what });
    Area::announced(&row, incarnation, geometry).map_err(corrupt)
}

/// Searches the redo area of a row on one memory node for the last complete redo record of a lock word. Afterwards the
/// record is in the scratch behind the first [`LOOK_BYTES`] of `room`. Its WRITE lies in the heap.
///
/// Round trips: one for the row, one per eight slots, one per record that may match, one more if there were several.
pub(crate) async fn find(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    wanted: &Wanted,
    room: &Range<usize>,
) -> Result<Option<Found>, OpError> {
    let port = lane.port();
    let corrupt = |offset, what| OpError::harmless(Cause::Corrupt { address: Address::new(node, offset, 0), what });
    let row_at = geometry.row_offset(wanted.row);
    let area = area_of(lane, node, geometry, (wanted.row, wanted.incarnation), room.start).await?;
    let Some(area) = area else { return Ok(None) };
    let mut best: Option<(u32, Found)> = None;
    let mut loaded = None;
    let mut first = 0;
    while first < area.slots() {
        let count = (area.slots() - first).min(HEADERS_AT_ONCE);
        for step in 0..count {
            let offset =
                area.slot(first + step).ok_or(corrupt(row_at, "a row announces redo slots without a chunk"))?;
            let to = room.start + step as usize * HEADER_BYTES;
            port.push(Request::read(Label::Redo, node, offset, HEADER_BYTES, to));
        }
        port.submit().await?;
        let mut candidates: u32 = port.with(|scratch| {
            (0..count).fold(0, |set, step| {
                let at = room.start + step as usize * HEADER_BYTES;
                let header = scratch.get(at..).and_then(ImageHeader::from_prefix);
                set | u32::from(header.is_some_and(|header| wanted.is(&header))) << step
            })
        });
        while candidates != 0 {
            let slot = first + candidates.trailing_zeros();
            candidates &= candidates - 1;
            // What is in the scratch afterwards is of this slot, whether it is complete or not.
            loaded = Some(slot);
            let Some(found) = load(lane, node, geometry, &area, slot, wanted, room).await? else { continue };
            // Steps wrap around; two of one acquisition are close.
            if best.is_none_or(|(_, best)| found.step.wrapping_sub(best.step).cast_signed() > 0) {
                best = Some((slot, found));
            }
        }
        first += count;
    }
    let Some((slot, found)) = best else { return Ok(None) };
    if loaded != Some(slot) && load(lane, node, geometry, &area, slot, wanted, room).await? != Some(found) {
        if wanted.own {
            // Of another lane, which handed the word over and has continued: its WRITE is complete.
            return Ok(None);
        }
        return Err(corrupt(row_at, "a redo image of a dead compute node changed"));
    }
    Ok(Some(found))
}

/// READs the redo record in one slot. `None`: it is not complete, or not the one that is wanted.
async fn load(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    area: &Area,
    slot: u32,
    wanted: &Wanted,
    room: &Range<usize>,
) -> Result<Option<Found>, OpError> {
    let at = room.start + LOOK_BYTES;
    let Some(offset) = area.slot(slot) else { return Ok(None) };
    let bytes = room.end.saturating_sub(at).min(area.slot_bytes() as usize);
    lane.port().call(Request::read(Label::Redo, node, offset, bytes, at)).await?;
    let found = lane.port().with(|scratch| {
        let image = scratch.get(at..at + bytes)?;
        let header = ImageHeader::from_prefix(image).filter(|header| wanted.is(header))?;
        let writes = Writes {
            offset: header.offset.get(),
            bytes: header.bytes.get() as usize,
            more_offset: header.more_offset.get(),
            more_bytes: header.more_bytes.get() as usize,
        };
        let room = (area.slot_bytes() as usize).saturating_sub(HEADER_BYTES);
        if writes.bytes > room || writes.more_bytes > room - writes.bytes {
            return None;
        }
        let Some(image) = image.get(..HEADER_BYTES + writes.total_bytes()) else {
            return Some(Err("a redo image larger than this compute node's slots: it cannot be repaired here"));
        };
        if checksum(image) != header.checksum.get() {
            return None;
        }
        if !writes.inside(geometry) {
            return Some(Err("a redo image of something outside the heap"));
        }
        let (step, repair) = (header.step.get(), header.repair.get() != 0);
        Some(Ok(Found { step, repair, writes }))
    });
    match found {
        None => Ok(None),
        Some(Ok(found)) => Ok(Some(found)),
        Some(Err(what)) => Err(OpError::harmless(Cause::Corrupt { address: Address::new(node, offset, 0), what })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_one_row_and_incarnation_and_whole() {
        let member = Member { row: RowId(9), incarnation: 2, nonce: 5 };
        let mut open = IndexSet::default();
        let numbers = [0, 31, 32, 254].map(|number| IndexNumber::new(number).unwrap());
        for number in numbers {
            open.insert(number);
        }
        let list = OpenIndexes::of(member, &open);
        assert_eq!(list.open_of((RowId(9), 2)), Some(open));
        assert!(open.iter().eq(numbers));
        assert_eq!(list.open_of((RowId(8), 2)), None);
        assert_eq!(list.open_of((RowId(9), 3)), None, "old bytes of a chunk");
        assert_eq!(OpenIndexes::ZERO.open_of((RowId(0), 0)), None, "a list that was never written");
        for byte in 0..OpenIndexes::BYTES {
            let mut bytes = [0; OpenIndexes::BYTES];
            bytes.copy_from_slice(list.as_bytes());
            bytes[byte] ^= 1;
            let torn = OpenIndexes::from_prefix(&bytes).unwrap();
            assert_eq!(torn.open_of((RowId(9), 2)), None, "byte {byte}");
        }
    }

    #[test]
    fn sets_of_indexes_are_joined_and_cut() {
        let of = |numbers: &[usize]| {
            let mut set = IndexSet::default();
            for number in numbers {
                set.insert(IndexNumber::new(*number).unwrap());
            }
            set
        };
        let (some, more) = (of(&[1, 40, 254]), of(&[2, 40]));
        assert_eq!((some.with(&more), some.without(&more)), (of(&[1, 2, 40, 254]), of(&[1, 254])));
        assert!(some.meets(&more) && !some.without(&more).meets(&more));
        let mut none = more;
        none.remove(IndexNumber::new(2).unwrap());
        none.remove(IndexNumber::new(40).unwrap());
        assert!(none.is_empty());
    }
}
