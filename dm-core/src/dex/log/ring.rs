//! The ring as it lies in a pool: chunks of one memory node.
//!
//! ```text
//!  first chunk                                                       next chunk
//! ┌──────────────────┬──────┬────────┬────────┬─────                ┌────────┬─────
//! │ description (2)  │ head │ line 0 │ line 1 │ ...                 │ line n │ ...       64 bytes each
//! └──────────────────┴──────┴────────┴────────┴─────                └────────┴─────
//! ```
//!
//! The description is WRITTEN before the ring is announced; a log that begins again at line 0 WRITEs the same bytes once more,
//! with its head. The head says at which line replay begins. It is a
//! line of its own: no crash unit is smaller, so a head is the old one or the new one. Lines are numbered without end,
//! and line `n` lies where line `n - lines` was.

use super::record::{RECORD_LINES_MAX, Seal};
use crate::error::VerbError;
use crate::layout::LINE_BYTES;
use crate::layout::record::{CRC, Le16, Le32, Le64, record};
use crate::pages::lsn::LINES_END;
use crate::remote::NodeGeometry;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::verbs::{Label, NodeId, Status, Verb};
use static_assertions::const_assert_eq;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Chunks of a ring.
pub const RING_CHUNKS: usize = 16;

/// Version of the description.
pub const RING_VERSION: u16 = 1;

record! {
    /// The description of a ring as stored: two lines.
    pub struct RingDescription {
        checksum: Le32 = "CRC-32C of all bytes behind it",
        version: Le16 = "1",
        index: u8 = "catalog number of the index",
        reserved_7: u8 = "zero",
        pool_id: [u8; 16] = "of the pool, as in its superblock",
        pool_incarnation: Le64 = "of the pool, as in its superblock",
        token: Le64 = "random number of the process whose ring this is, as in its row",
        row: Le16 = "compute-node row whose ring this is",
        chunk_count: Le16 = "chunks",
        incarnation: Le32 = "incarnation of the row",
        chunk_bytes: Le64 = "size of a chunk, as in the superblock",
        chunks: [Le32; 16] = "their numbers on this memory node, in order; 0 behind the last",
        reserved_120: [u8; 8] = "zero",
    }
}
const_assert_eq!(RingDescription::BYTES, 2 * LINE_BYTES);

record! {
    /// The head of a ring as stored: one line.
    pub struct RingHead {
        checksum: Le32 = "CRC-32C of all bytes behind it",
        incarnation: Le32 = "incarnation of the row whose ring this is",
        head: Le64 = "number of the line at which replay begins",
        reserved_16: [u8; 48] = "zero",
    }
}
const_assert_eq!(RingHead::BYTES, LINE_BYTES);

/// Byte offset of the head in the first chunk.
pub const HEAD_AT: u64 = RingDescription::BYTES as u64;

/// Byte offset of the first line in the first chunk.
pub const LINES_AT: u64 = HEAD_AT + RingHead::BYTES as u64;

/// Lines of the smallest ring: some of the longest records.
pub const RING_LINES_MIN: u64 = 16 * RECORD_LINES_MAX as u64;

const CHECKSUM_BYTES: usize = size_of::<Le32>();

fn checksum(record: &[u8]) -> u32 {
    CRC.checksum(record.get(CHECKSUM_BYTES..).unwrap_or_default())
}

/// Whose ring it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOwner {
    /// [`Identity::pool_id`](crate::remote::superblock::Identity::pool_id).
    pub pool_id: [u8; 16],
    /// [`Identity::pool_incarnation`](crate::remote::superblock::Identity::pool_incarnation).
    pub pool_incarnation: u64,
    /// The index that the compute node has opened.
    pub index: IndexNumber,
    /// Its row.
    pub row: RowId,
    /// The row's incarnation.
    pub incarnation: u32,
    /// The random number with which its process joined.
    pub token: u64,
}

impl RingOwner {
    /// The ring of `member`, whose process has `token`.
    pub const fn new(
        (pool_id, pool_incarnation): ([u8; 16], u64),
        index: IndexNumber,
        member: Member,
        token: u64,
    ) -> Self {
        Self { pool_id, pool_incarnation, index, row: member.row, incarnation: member.incarnation, token }
    }

    /// What tells its records from those of all other rings.
    pub fn seal(&self) -> Seal {
        let mut digest = CRC.digest();
        digest.update(&self.pool_id);
        digest.update(&self.pool_incarnation.to_le_bytes());
        digest.update(&self.token.to_le_bytes());
        digest.update(&self.incarnation.to_le_bytes());
        digest.update(&self.row.0.to_le_bytes());
        Seal { seed: digest.finalize(), incarnation: self.incarnation }
    }
}

/// Why a ring cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// Too few chunks, or too many.
    #[error(
        "a log ring of {chunks} chunks of {chunk_bytes} bytes: it has {} lines of {LINE_BYTES} bytes behind its header; at least {RING_LINES_MIN} \
         lines are needed, and at most {RING_CHUNKS} chunks",
        lines_of(*chunks, *chunk_bytes)
    )]
    Size {
        /// Chunks.
        chunks: usize,
        /// Bytes of each.
        chunk_bytes: u64,
    },
    /// A chunk that is none of the memory node's.
    #[error("memory node {} has no chunk {chunk}, which a log ring names", node.0)]
    Chunk {
        /// The memory node.
        node: NodeId,
        /// The chunk.
        chunk: u32,
    },
    /// Its description was damaged, or there is none.
    #[error("no log ring: the checksum of its description is {stored:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A ring of another version.
    #[error("log ring of version {found}; this program reads version {RING_VERSION}")]
    Version {
        /// Its version.
        found: u16,
    },
    /// A ring of another pool, or of the pool as it was before it was formatted anew.
    #[error(
        "this log ring belongs to another pool, or to an earlier formatting of this one: it cannot be replayed here"
    )]
    OtherPool,
    /// A ring of another compute node, or of another life of this one, or of another index.
    #[error(
        "the log ring of row {}, incarnation {}, index {}, was looked for, and this is the one of row {found_row}, incarnation \
         {found_incarnation}, index {found_index}",
        wanted.0, wanted.1, wanted.2
    )]
    OtherOwner {
        /// Row, incarnation, and index.
        wanted: (u16, u32, u8),
        /// The row that it says.
        found_row: u16,
        /// The incarnation that it says.
        found_incarnation: u32,
        /// The index that it says.
        found_index: u8,
    },
    /// Its head was damaged, or is not the ring's.
    #[error("the head of a log ring is corrupt: {0}")]
    Head(&'static str),
}

const fn lines_of(chunks: usize, chunk_bytes: u64) -> u64 {
    (chunks as u64).saturating_mul(chunk_bytes).saturating_sub(LINES_AT) / LINE_BYTES as u64
}

/// Where the lines of a ring are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    node: NodeId,
    chunk_bytes: u64,
    /// Byte offsets of its chunks.
    chunks: [u64; RING_CHUNKS],
    lines: u64,
}

/// Lines that lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Byte offset of the first.
    pub offset: u64,
    /// How many.
    pub lines: u64,
}

impl Ring {
    /// The ring in these chunks of memory node `node`.
    pub fn new(node: NodeId, geometry: &NodeGeometry, numbers: &[u32]) -> Result<Self, RingError> {
        let chunk_bytes = geometry.chunk_bytes;
        let lines = lines_of(numbers.len(), chunk_bytes);
        // Record lines are counted in 36 bits; a ring is far from that.
        if numbers.len() > RING_CHUNKS || !(RING_LINES_MIN..LINES_END / 4).contains(&lines) {
            return Err(RingError::Size { chunks: numbers.len(), chunk_bytes });
        }
        let mut chunks = [0; RING_CHUNKS];
        for (offset, &chunk) in chunks.iter_mut().zip(numbers) {
            if chunk >= geometry.chunk_count {
                return Err(RingError::Chunk { node, chunk });
            }
            *offset = geometry.chunk_offset(chunk);
        }
        Ok(Self { node, chunk_bytes, chunks, lines })
    }

    /// The most lines of a ring of `chunks` chunks of `chunk_bytes`, of which it has [`RING_CHUNKS`] at most.
    pub const fn lines_max(chunks: usize, chunk_bytes: u64) -> u64 {
        lines_of(if chunks < RING_CHUNKS { chunks } else { RING_CHUNKS }, chunk_bytes)
    }

    /// Its memory node.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The error of an operation whose record can never be durable: the memory node of the ring is gone.
    pub const fn lost(&self) -> VerbError {
        let (node, offset) = (self.node, self.head_offset());
        VerbError { status: Status::NodeDown, verb: Verb::Write, label: Label::Log, node, offset }
    }

    /// Its lines.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Byte offset of its description.
    pub const fn description_offset(&self) -> u64 {
        self.chunks[0]
    }

    /// Byte offset of its head.
    pub const fn head_offset(&self) -> u64 {
        self.chunks[0] + HEAD_AT
    }

    /// Where the lines from `first` on lie, as far as they lie one behind the other, `count` at most. `count` is at
    /// least 1.
    pub fn run(&self, first: u64, count: u64) -> Run {
        let line = first % self.lines.max(1);
        let byte = LINES_AT + line * LINE_BYTES as u64;
        let chunk_bytes = self.chunk_bytes.max(1);
        let (chunk, within) = ((byte / chunk_bytes) as usize, byte % chunk_bytes);
        let offset = self.chunks.get(chunk).copied().unwrap_or_default() + within;
        let to_end = ((chunk_bytes - within) / LINE_BYTES as u64).min(self.lines - line);
        Run { offset, lines: count.min(to_end) }
    }

    /// The description, as it is WRITTEN when the ring is made.
    pub fn describe(&self, owner: &RingOwner, geometry: &NodeGeometry) -> RingDescription {
        let mut chunks = [Le32::ZERO; RING_CHUNKS];
        let used = self.chunks.iter().take_while(|offset| **offset != 0);
        let mut chunk_count = 0_u16;
        for (number, offset) in chunks.iter_mut().zip(used) {
            *number = geometry.chunk_of(*offset).unwrap_or_default().into();
            chunk_count += 1;
        }
        let mut description = RingDescription {
            version: RING_VERSION.into(),
            index: owner.index.get() as u8,
            pool_id: owner.pool_id,
            pool_incarnation: owner.pool_incarnation.into(),
            token: owner.token.into(),
            row: owner.row.0.into(),
            chunk_count: chunk_count.into(),
            incarnation: owner.incarnation.into(),
            chunk_bytes: self.chunk_bytes.into(),
            chunks,
            ..RingDescription::ZERO
        };
        description.checksum = checksum(description.as_bytes()).into();
        description
    }
}

impl RingDescription {
    /// Reads the description of the ring of `owner`'s row and incarnation; `owner.token` is not looked at, since only
    /// the ring may still say it. Returns the ring and its seal.
    pub fn decode(&self, owner: &RingOwner, node: NodeId, geometry: &NodeGeometry) -> Result<(Ring, Seal), RingError> {
        let (stored, computed) = (self.checksum.get(), checksum(self.as_bytes()));
        if stored != computed {
            return Err(RingError::Checksum { stored, computed });
        }
        if self.version.get() != RING_VERSION {
            return Err(RingError::Version { found: self.version.get() });
        }
        if self.pool_id != owner.pool_id || self.pool_incarnation.get() != owner.pool_incarnation {
            return Err(RingError::OtherPool);
        }
        let wanted = (owner.row.0, owner.incarnation, owner.index.get() as u8);
        let (found_row, found_incarnation, found_index) = (self.row.get(), self.incarnation.get(), self.index);
        if wanted != (found_row, found_incarnation, found_index) {
            return Err(RingError::OtherOwner { wanted, found_row, found_incarnation, found_index });
        }
        let (chunk_count, chunk_bytes) = (usize::from(self.chunk_count.get()), self.chunk_bytes.get());
        let Some(stored) = self.chunks.get(..chunk_count).filter(|_| chunk_bytes == geometry.chunk_bytes) else {
            return Err(RingError::Size { chunks: chunk_count, chunk_bytes });
        };
        let mut numbers = [0; RING_CHUNKS];
        numbers.iter_mut().zip(stored).for_each(|(number, stored)| *number = stored.get());
        let ring = Ring::new(node, geometry, numbers.get(..chunk_count).unwrap_or_default())?;
        Ok((ring, RingOwner { token: self.token.get(), ..*owner }.seal()))
    }
}

impl RingHead {
    /// The head of a ring of `incarnation`.
    pub fn new(incarnation: u32, head: u64) -> Self {
        let mut line = Self { incarnation: incarnation.into(), head: head.into(), ..Self::ZERO };
        line.checksum = checksum(line.as_bytes()).into();
        line
    }

    /// At which line replay begins.
    pub fn decode(&self, incarnation: u32) -> Result<u64, RingError> {
        if self.checksum.get() != checksum(self.as_bytes()) {
            return Err(RingError::Head("its checksum does not hold"));
        }
        if self.incarnation.get() != incarnation {
            return Err(RingError::Head("it is of another incarnation"));
        }
        let head = self.head.get();
        if head < LINES_END { Ok(head) } else { Err(RingError::Head("it is behind the last line number")) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::remote::superblock::small_for_tests;
    use std::string::ToString;
    use std::vec::Vec;

    fn owner() -> RingOwner {
        let index = IndexNumber::new(2).unwrap();
        let member = Member { row: RowId(9), incarnation: 4, nonce: 7 };
        RingOwner::new((*b"0123456789abcdef", 3), index, member, 0xfeed_0007)
    }

    fn ring(chunks: &[u32]) -> Ring {
        Ring::new(NodeId(1), &small_for_tests(), chunks).unwrap()
    }

    #[test]
    fn lines_have_places_of_their_own_lap_after_lap() {
        let geometry = small_for_tests();
        let chunks = [7, 3, 20, 21, 22];
        let ring = ring(&chunks);
        assert_eq!(ring.lines(), 5 * 64 - 3);
        let mut places = Vec::new();
        let mut line = 0;
        while line < ring.lines() {
            let run = ring.run(line, u64::MAX);
            assert!(run.lines > 0);
            for at in 0..run.lines {
                places.push(run.offset + at * 64);
                assert_eq!(ring.run(line + at, 1), Run { offset: run.offset + at * 64, lines: 1 });
                assert_eq!(ring.run(line + at + 5 * ring.lines(), 1).offset, run.offset + at * 64);
            }
            line += run.lines;
        }
        assert_eq!(line, ring.lines(), "runs end where the ring does");
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len() as u64, ring.lines());
        for place in places {
            assert!(chunks.contains(&geometry.chunk_of(place).unwrap()) && place != ring.head_offset());
            assert!(place >= ring.description_offset() + LINES_AT || place < ring.description_offset());
        }
    }

    #[test]
    fn rings_that_cannot_be_are_refused() {
        let geometry = small_for_tests();
        let error = Ring::new(NodeId(1), &geometry, &[1, 2, 3, 4]).unwrap_err();
        assert_eq!(error, RingError::Size { chunks: 4, chunk_bytes: 4096 });
        assert!(error.to_string().contains("it has 253 lines"), "{error}");
        assert!(Ring::new(NodeId(1), &geometry, &[1; 17]).is_err());
        let error = Ring::new(NodeId(1), &geometry, &[1, 2, 3, 4, 100_000]).unwrap_err();
        assert_eq!(error, RingError::Chunk { node: NodeId(1), chunk: 100_000 });
    }

    #[test]
    fn a_description_is_read_by_its_own_pool_for_its_own_row() {
        let (geometry, owner) = (small_for_tests(), owner());
        let ring = ring(&[7, 3, 20, 21, 22]);
        let description = ring.describe(&owner, &geometry);
        let decode = |owner: &RingOwner| description.decode(owner, NodeId(1), &geometry);
        assert_eq!(decode(&RingOwner { token: 0, ..owner }), Ok((ring, owner.seal())));
        assert_eq!(decode(&RingOwner { pool_incarnation: 4, ..owner }), Err(RingError::OtherPool));
        assert_eq!(decode(&RingOwner { pool_id: [1; 16], ..owner }), Err(RingError::OtherPool));
        let error = decode(&RingOwner { incarnation: 5, ..owner }).unwrap_err();
        assert!(error.to_string().contains("row 9, incarnation 5, index 2, was looked for"), "{error}");
        assert!(decode(&RingOwner { row: RowId(8), ..owner }).is_err());
        let mut damaged = description;
        damaged.chunks[1] = 4.into();
        assert!(matches!(damaged.decode(&owner, NodeId(1), &geometry), Err(RingError::Checksum { .. })));
        assert!(RingDescription::ZERO.decode(&owner, NodeId(1), &geometry).is_err(), "zeros have another checksum");
        let larger = NodeGeometry { chunk_bytes: 8192, ..geometry };
        assert!(matches!(description.decode(&owner, NodeId(1), &larger), Err(RingError::Size { .. })));
    }

    #[test]
    fn no_two_rings_have_one_seal() {
        let owner = owner();
        let other_token = RingOwner { token: 1, ..owner };
        let other_row = RingOwner { row: RowId(10), ..owner };
        let other_pool = RingOwner { pool_incarnation: 4, ..owner };
        for other in [other_token, other_row, other_pool] {
            assert_ne!(other.seal(), owner.seal());
        }
    }

    #[test]
    fn a_head_is_of_one_incarnation() {
        let head = RingHead::new(4, 1_000_000);
        assert_eq!(head.decode(4), Ok(1_000_000));
        assert!(head.decode(5).is_err() && RingHead::ZERO.decode(0).is_err());
        assert!(RingHead::new(4, LINES_END).decode(4).is_err());
        let mut damaged = head;
        damaged.head = 7.into();
        assert_eq!(damaged.decode(4), Err(RingError::Head("its checksum does not hold")));
    }
}
