//! The superblock: byte 0 of every memory node's region, which says where everything else is.
//!
//! The memory node's daemon writes it once, before it registers the region. Afterwards it is only READ. A reader uses
//! nothing of it before the magic, the version, the checksum, the feature words and every offset are checked, in this
//! order: a pool of another format version may have its checksum elsewhere.
//!
//! Three feature words say what a reader must understand (as in ext4). A pool with an unknown *incompatible* feature is
//! refused. One with an unknown *read-only* feature may only be read. An unknown *compatible* feature may be ignored.

use crate::layout::LINE_BYTES;
use crate::layout::record::{CRC, Le16, Le32, Le64, record};
use crate::remote::address::Address;
use crate::remote::features::Features;
use crate::remote::row::{ROW_COUNT_MAX, Row};
use crate::remote::{NodeGeometry, catalog};
use crate::verbs::{NodeId, Space};
use static_assertions::{const_assert, const_assert_eq};
use thiserror::Error;
use zerocopy::IntoBytes;

/// First bytes of a region of this engine.
pub const MAGIC: [u8; 8] = *b"dm-pool\n";

/// The format version that this code reads and writes. Before version 4, entries that were not in use had the bytes of deleted
/// records.
pub const FORMAT_VERSION: u32 = 4;

/// Bytes reserved for the superblock. It may grow within its page without moving anything.
pub const SUPERBLOCK_ROOM_BYTES: u64 = 4096;

/// Alignment of the heap, and granularity of chunks: a page, so that every node size up to a page is naturally
/// aligned.
pub const HEAP_ALIGN_BYTES: u64 = 4096;

/// Compute-node rows of a new pool, including row 0 (nobody).
pub const ROW_COUNT: u32 = 128;

record! {
    /// The superblock as stored.
    pub struct Superblock {
        magic: [u8; 8] = "\"dm-pool\\n\"",
        format_version: Le32 = "3",
        reserved_12: Le32 = "zero",
        features_compatible: Le64 = "features a reader may ignore",
        features_read_only: Le64 = "features without which a reader must not write",
        features_incompatible: Le64 = "features without which a reader must not read",
        pool_id: [u8; 16] = "random, the same on every memory node of a pool",
        pool_incarnation: Le64 = "raised whenever the pool is formatted anew",
        node: Le16 = "logical number of this memory node",
        nodes: Le16 = "memory nodes in the pool when it was formatted; row 0 has the number once one was added",
        row_count: Le32 = "compute-node rows, row 0 (nobody) included",
        region_bytes: Le64 = "size of the region",
        device_bytes: Le64 = "size of the NIC's device memory; 0 = none",
        catalog: Le64 = "offset of the catalog of indexes",
        rows: Le64 = "offset of the compute-node rows",
        redo: Le64 = "offset of the redo area",
        redo_row_bytes: Le32 = "redo area per compute-node row; 0 = no redo area",
        chunk_count: Le32 = "chunks, and entries of the chunk table",
        chunk_table: Le64 = "offset of the chunk table",
        heap: Le64 = "offset of chunk 0",
        chunk_bytes: Le64 = "size of a chunk",
        lock_table: Le64 = "offset of the lock table in its memory",
        lock_count: Le32 = "lock words in the table",
        lock_space: u8 = "memory of the lock table: 0 = region, 1 = device memory",
        reserved_157: [u8; 1] = "zero",
        index_count: Le16 = "entries of the catalog",
        reserved_160: [u8; 92] = "zero",
        checksum: Le32 = "CRC-32C of all bytes before it",
    }
}
const_assert_eq!(Superblock::BYTES, 256);
const_assert!(Superblock::BYTES <= crate::remote::SCRATCH_BYTES);

/// Which memory node of which pool this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The same on every memory node of a pool.
    pub pool_id: [u8; 16],
    /// Distinguishes two formattings of one pool.
    pub pool_incarnation: u64,
    /// Logical number of this memory node.
    pub node: NodeId,
    /// Number of memory nodes in the pool.
    pub nodes: u16,
}

/// A superblock that passed every check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// Which memory node of which pool this is.
    pub identity: Identity,
    /// Where things are on it.
    pub geometry: NodeGeometry,
    /// Bytes of device memory of its NIC; 0 = none.
    pub device_bytes: u64,
    /// Its feature words.
    pub features: Features,
    /// Read-only features that this code does not know. Unless it is 0, this pool must not be written.
    pub read_only_unknown: u64,
}

impl NodeDescription {
    /// Whether this code may write to the pool.
    pub const fn writable(&self) -> bool {
        self.read_only_unknown == 0
    }
}

/// Why bytes are not a superblock that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuperblockError {
    /// Too few bytes to hold one.
    #[error("a superblock has {} bytes, only {got} were given", Superblock::BYTES)]
    Short {
        /// Number of bytes.
        got: usize,
    },
    /// Not a region of this engine.
    #[error("not a pool: the region begins with {found:02x?}")]
    NotOurs {
        /// Its first bytes.
        found: [u8; 8],
    },
    /// A pool of another format version.
    #[error("format version {found}; this program reads version {supported}")]
    Version {
        /// The pool's format version.
        found: u32,
        /// [`FORMAT_VERSION`].
        supported: u32,
    },
    /// Its bytes changed after it was written.
    #[error("superblock damaged: checksum {stored:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A feature that a reader must know, and this code does not.
    #[error("the pool uses features this program does not know: incompatible bits {unknown:#x}")]
    Incompatible {
        /// The unknown bits.
        unknown: u64,
    },
    /// A field with a value that no writer produces.
    #[error("superblock field {field} = {value:#x}: {what}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two areas overlap.
    #[error("superblock: {first} and {second} overlap at {at:#x}")]
    Overlap {
        /// The area that begins first.
        first: &'static str,
        /// The area that begins within it.
        second: &'static str,
        /// Offset at which the second begins.
        at: u64,
    },
}

/// Why a region cannot be formatted as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Not even one chunk fits.
    #[error(
        "the region has {region_bytes} bytes; {needed_bytes} are needed: {fixed_bytes} for superblock, catalog, rows \
         and chunk table + {redo_bytes} for redo + {lock_bytes} for locks, aligned, + {chunk_bytes} for one chunk"
    )]
    TooSmall {
        /// Bytes of the region.
        region_bytes: u64,
        /// Bytes needed, with alignment.
        needed_bytes: u64,
        /// Superblock, catalog, rows, chunk table.
        fixed_bytes: u64,
        /// Redo area.
        redo_bytes: u64,
        /// Lock table, unless it is in device memory.
        lock_bytes: u64,
        /// One chunk.
        chunk_bytes: u64,
    },
    /// A parameter out of its range.
    #[error("{what} = {value}: {rule}")]
    Parameter {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The rule for it.
        rule: &'static str,
    },
}

/// Description of a new memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPlan {
    /// The same on every memory node of the pool, random.
    pub pool_id: [u8; 16],
    /// Distinguishes two formattings of one pool.
    pub pool_incarnation: u64,
    /// Logical number of this memory node.
    pub node: NodeId,
    /// Number of memory nodes in the pool.
    pub nodes: u16,
    /// Size of its region.
    pub region_bytes: u64,
    /// Size of a chunk: a multiple of [`HEAP_ALIGN_BYTES`].
    pub chunk_bytes: u64,
    /// Number of lock words wanted.
    pub lock_count: u32,
    /// Bytes of device memory of its NIC. The lock table goes there if it fits, and into the region otherwise.
    pub device_bytes: u64,
    /// Redo area per compute-node row, a multiple of 64; 0 = none.
    pub redo_row_bytes: u32,
    /// Entries of the catalog: [`catalog::INDEX_COUNT`], or fewer where memory is scarce.
    pub index_count: u16,
}

impl PoolPlan {
    /// Computes the layout. Everything begins at a multiple of 64 bytes, and the heap at a multiple of
    /// [`HEAP_ALIGN_BYTES`]. (A multiple of the chunk size would waste up to a chunk, and gain nothing.) The heap has
    /// as many chunks as fit.
    ///
    /// All other bytes of the metadata must be zero in a new region: a zero catalog entry, row, chunk entry or lock
    /// word is a free one. The metadata ends at [`NodeGeometry::heap`].
    pub fn format(&self) -> Result<Superblock, FormatError> {
        let wrong = |what, value, rule| Err(FormatError::Parameter { what, value, rule });
        let Self { region_bytes, chunk_bytes, .. } = *self;
        if self.nodes == 0 || self.node.0 >= self.nodes {
            return wrong("node", u64::from(self.node.0), "below the number of memory nodes");
        }
        if region_bytes > Address::OFFSET_END {
            return wrong("region_bytes", region_bytes, "at most 2^48, what addresses reach");
        }
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(HEAP_ALIGN_BYTES) {
            return wrong("chunk_bytes", chunk_bytes, "a multiple of 4096, not 0");
        }
        if chunk_bytes > Address::OFFSET_END {
            return wrong("chunk_bytes", chunk_bytes, "at most 2^48, what addresses reach");
        }
        if self.lock_count == 0 {
            return wrong("lock_count", 0, "at least 1");
        }
        if self.index_count == 0 || usize::from(self.index_count) > catalog::INDEXES_MAX {
            return wrong("index_count", u64::from(self.index_count), "1 to 255");
        }
        if !self.redo_row_bytes.is_multiple_of(LINE_BYTES as u32) {
            return wrong("redo_row_bytes", u64::from(self.redo_row_bytes), "a multiple of 64");
        }

        let lock_bytes = u64::from(self.lock_count) * 8;
        let in_device = lock_bytes <= self.device_bytes;
        let catalog = SUPERBLOCK_ROOM_BYTES;
        let rows = catalog + catalog::catalog_bytes(self.index_count);
        let redo = rows + u64::from(ROW_COUNT) * Row::BYTES as u64;
        let redo_bytes = u64::from(ROW_COUNT) * u64::from(self.redo_row_bytes);
        let chunk_table = redo + redo_bytes;
        let after_table = |chunks: u64| (chunk_table + chunks * 8).next_multiple_of(LINE_BYTES as u64);
        let heap_for = |chunks: u64| {
            let locks_end = after_table(chunks) + if in_device { 0 } else { lock_bytes };
            locks_end.next_multiple_of(HEAP_ALIGN_BYTES)
        };
        let fits = |chunks: u64| heap_for(chunks) + chunks * chunk_bytes <= region_bytes;

        // The table grows with the number of chunks. So the largest number that fits is found by bisection.
        let (mut chunk_count, mut too_many) = (0, (region_bytes / chunk_bytes).min(u32::MAX.into()) + 1);
        while too_many - chunk_count > 1 {
            let middle = chunk_count.midpoint(too_many);
            *(if fits(middle) { &mut chunk_count } else { &mut too_many }) = middle;
        }
        if chunk_count == 0 {
            return Err(FormatError::TooSmall {
                region_bytes,
                needed_bytes: heap_for(1) + chunk_bytes,
                fixed_bytes: chunk_table + 8 - redo_bytes,
                redo_bytes,
                lock_bytes: if in_device { 0 } else { lock_bytes },
                chunk_bytes,
            });
        }

        let mut superblock = Superblock::ZERO;
        superblock.magic = MAGIC;
        superblock.format_version = FORMAT_VERSION.into();
        superblock.pool_id = self.pool_id;
        superblock.pool_incarnation = self.pool_incarnation.into();
        superblock.node = self.node.0.into();
        superblock.nodes = self.nodes.into();
        superblock.row_count = ROW_COUNT.into();
        superblock.region_bytes = region_bytes.into();
        superblock.device_bytes = self.device_bytes.into();
        superblock.catalog = catalog.into();
        superblock.index_count = self.index_count.into();
        superblock.rows = rows.into();
        superblock.redo = redo.into();
        superblock.redo_row_bytes = self.redo_row_bytes.into();
        superblock.chunk_table = chunk_table.into();
        superblock.chunk_count = (chunk_count as u32).into();
        superblock.heap = heap_for(chunk_count).into();
        superblock.chunk_bytes = chunk_bytes.into();
        superblock.lock_table = if in_device { 0 } else { after_table(chunk_count) }.into();
        superblock.lock_count = self.lock_count.into();
        superblock.lock_space = if in_device { Space::Device } else { Space::Host } as u8;
        superblock.seal();
        Ok(superblock)
    }
}

/// A named part of the region.
type Area = (&'static str, u64, u64);

impl Superblock {
    /// Computes the checksum anew.
    pub fn seal(&mut self) {
        self.checksum = self.checksum_of_bytes().into();
    }

    fn checksum_of_bytes(&self) -> u32 {
        let bytes = self.as_bytes();
        CRC.checksum(&bytes[..Self::BYTES - size_of::<Le32>()])
    }

    /// Decodes and checks a superblock: the first [`Superblock::BYTES`] of a region.
    pub fn decode(bytes: &[u8]) -> Result<NodeDescription, SuperblockError> {
        let stored = Self::from_prefix(bytes).ok_or(SuperblockError::Short { got: bytes.len() })?;
        if stored.magic != MAGIC {
            return Err(SuperblockError::NotOurs { found: stored.magic });
        }
        let found = stored.format_version.get();
        if found != FORMAT_VERSION {
            return Err(SuperblockError::Version { found, supported: FORMAT_VERSION });
        }
        let computed = stored.checksum_of_bytes();
        if computed != stored.checksum.get() {
            return Err(SuperblockError::Checksum { stored: stored.checksum.get(), computed });
        }
        let features = Features {
            compatible: stored.features_compatible.get(),
            read_only: stored.features_read_only.get(),
            incompatible: stored.features_incompatible.get(),
        };
        let unknown = features.incompatible & !Features::KNOWN.incompatible;
        if unknown != 0 {
            return Err(SuperblockError::Incompatible { unknown });
        }
        Ok(NodeDescription {
            identity: stored.identity()?,
            geometry: stored.geometry()?,
            device_bytes: stored.device_bytes.get(),
            features,
            read_only_unknown: features.read_only & !Features::KNOWN.read_only,
        })
    }

    fn identity(&self) -> Result<Identity, SuperblockError> {
        let (node, nodes) = (self.node.get(), self.nodes.get());
        check("nodes", nodes.into(), nodes > 0, "a pool has at least one memory node")?;
        check("node", node.into(), node < nodes, "not below the number of memory nodes")?;
        Ok(Identity { pool_id: self.pool_id, pool_incarnation: self.pool_incarnation.get(), node: NodeId(node), nodes })
    }

    fn geometry(&self) -> Result<NodeGeometry, SuperblockError> {
        let geometry = NodeGeometry {
            region_bytes: self.region_bytes.get(),
            catalog: self.catalog.get(),
            index_count: self.index_count.get(),
            rows: self.rows.get(),
            row_count: self.row_count.get(),
            redo: self.redo.get(),
            redo_row_bytes: self.redo_row_bytes.get(),
            chunk_table: self.chunk_table.get(),
            chunk_count: self.chunk_count.get(),
            heap: self.heap.get(),
            chunk_bytes: self.chunk_bytes.get(),
            lock_space: match self.lock_space {
                0 => Space::Host,
                1 => Space::Device,
                value => return Err(field("lock_space", value.into(), "neither 0 nor 1")),
            },
            lock_table: self.lock_table.get(),
            lock_count: self.lock_count.get(),
        };
        self.check_sizes(&geometry)?;
        check_areas(&geometry)?;
        Ok(geometry)
    }

    fn check_sizes(&self, geometry: &NodeGeometry) -> Result<(), SuperblockError> {
        let NodeGeometry { region_bytes, row_count, redo_row_bytes, chunk_bytes, chunk_count, .. } = *geometry;
        check("region_bytes", region_bytes, region_bytes <= Address::OFFSET_END, "more than addresses reach")?;
        check("row_count", row_count.into(), row_count >= 2, "no row besides row 0, which is nobody")?;
        check("row_count", row_count.into(), row_count <= ROW_COUNT_MAX, "more rows than row numbers")?;
        let index_count = geometry.index_count;
        let count_ok = index_count > 0 && usize::from(index_count) <= catalog::INDEXES_MAX;
        check("index_count", index_count.into(), count_ok, "not 1 to 255")?;
        let redo_ok = redo_row_bytes.is_multiple_of(LINE_BYTES as u32);
        check("redo_row_bytes", redo_row_bytes.into(), redo_ok, "not a multiple of 64")?;
        check("chunk_count", chunk_count.into(), chunk_count > 0, "no chunks")?;
        let chunk_ok = chunk_bytes > 0 && chunk_bytes.is_multiple_of(HEAP_ALIGN_BYTES);
        check("chunk_bytes", chunk_bytes, chunk_ok, "not a positive multiple of 4096")?;
        check("chunk_bytes", chunk_bytes, chunk_bytes <= region_bytes, "larger than the region")?;
        let heap_ok = geometry.heap.is_multiple_of(HEAP_ALIGN_BYTES);
        check("heap", geometry.heap, heap_ok, "not a multiple of 4096")?;
        check("lock_count", geometry.lock_count.into(), geometry.lock_count > 0, "no locks")?;
        if geometry.lock_space == Space::Device {
            let lock_table = geometry.lock_table;
            check("lock_table", lock_table, lock_table.is_multiple_of(LINE_BYTES as u64), "not a multiple of 64")?;
            let end = lock_table.checked_add(u64::from(geometry.lock_count) * 8);
            let inside = end.is_some_and(|end| end <= self.device_bytes.get());
            check("lock_table", lock_table, inside, "reaches outside device memory")?;
        }
        Ok(())
    }
}

const fn field(field: &'static str, value: u64, what: &'static str) -> SuperblockError {
    SuperblockError::Field { field, value, what }
}

fn check(name: &'static str, value: u64, holds: bool, what: &'static str) -> Result<(), SuperblockError> {
    if holds { Ok(()) } else { Err(field(name, value, what)) }
}

/// Checks that every area is aligned, inside the region, and disjoint from every other.
fn check_areas(geometry: &NodeGeometry) -> Result<(), SuperblockError> {
    let NodeGeometry { region_bytes, row_count, redo_row_bytes, chunk_bytes, chunk_count, .. } = *geometry;
    let row_count = u64::from(row_count);
    let lock_bytes = if geometry.lock_space == Space::Host { u64::from(geometry.lock_count) * 8 } else { 0 };
    // The factors of the heap's size are below 2^48 and 2^32: the product may not fit into 64 bits.
    let heap_bytes = chunk_bytes.saturating_mul(u64::from(chunk_count));
    let areas: [Area; 7] = [
        ("superblock", 0, SUPERBLOCK_ROOM_BYTES),
        ("catalog", geometry.catalog, catalog::catalog_bytes(geometry.index_count)),
        ("rows", geometry.rows, row_count * Row::BYTES as u64),
        ("redo", geometry.redo, row_count * u64::from(redo_row_bytes)),
        ("chunk_table", geometry.chunk_table, u64::from(chunk_count) * 8),
        ("lock_table", geometry.lock_table, lock_bytes),
        ("heap", geometry.heap, heap_bytes),
    ];
    for &(name, start, bytes) in &areas {
        // An empty area is nowhere. Its offset does not matter.
        if bytes == 0 {
            continue;
        }
        check(name, start, start.is_multiple_of(LINE_BYTES as u64), "not a multiple of 64")?;
        let inside = start.checked_add(bytes).is_some_and(|end| end <= region_bytes);
        check(name, start, inside, "reaches outside the region")?;
    }
    for (position, &first) in areas.iter().enumerate() {
        for &second in &areas[position + 1..] {
            let (first, second) = if first.1 <= second.1 { (first, second) } else { (second, first) };
            // Both ends were computed above without overflow.
            if first.2 > 0 && second.2 > 0 && second.1 < first.1 + first.2 {
                return Err(SuperblockError::Overlap { first: first.0, second: second.0, at: second.1 });
            }
        }
    }
    Ok(())
}

/// A memory node of 1 MiB with chunks of 4 KiB, alone in its pool.
#[cfg(test)]
pub(crate) fn small_for_tests() -> NodeGeometry {
    let plan =
        PoolPlan { nodes: 1, node: NodeId(0), region_bytes: 1 << 20, chunk_bytes: 4096, lock_count: 61, ..tests::PLAN };
    Superblock::decode(plan.format().unwrap().as_bytes()).unwrap().geometry
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const PLAN: PoolPlan = PoolPlan {
        pool_id: *b"0123456789abcdef",
        pool_incarnation: 1,
        node: NodeId(1),
        nodes: 3,
        region_bytes: 64 << 20,
        chunk_bytes: 1 << 20,
        lock_count: 4096,
        device_bytes: 0,
        redo_row_bytes: 0,
        index_count: 15,
    };

    #[test]
    fn the_heap_takes_what_the_metadata_leaves() {
        let superblock = PLAN.format().unwrap();
        let node = Superblock::decode(superblock.as_bytes()).unwrap();
        assert_eq!(node.geometry.chunk_count, 63);
        assert_eq!(node.geometry.lock_space, Space::Host);
        assert!(node.writable());
        let end = node.geometry.chunk_offset(node.geometry.chunk_count);
        assert!(end <= PLAN.region_bytes && end + PLAN.chunk_bytes > PLAN.region_bytes);
    }

    #[test]
    fn locks_live_in_device_memory_if_they_fit() {
        let roomy = PoolPlan { device_bytes: 32768, ..PLAN }.format().unwrap();
        let node = Superblock::decode(roomy.as_bytes()).unwrap();
        assert_eq!((node.geometry.lock_space, node.geometry.lock_table), (Space::Device, 0));
        let tight = PoolPlan { device_bytes: 32767, ..PLAN }.format().unwrap();
        assert_eq!(Superblock::decode(tight.as_bytes()).unwrap().geometry.lock_space, Space::Host);
    }

    #[test]
    fn a_region_is_refused_with_the_sum() {
        let FormatError::TooSmall { needed_bytes, .. } =
            PoolPlan { region_bytes: 1 << 20, ..PLAN }.format().unwrap_err()
        else {
            panic!("a region of one chunk has no room for metadata");
        };
        // The sum is exact: with this many bytes one chunk fits, with one byte less none.
        let plan = PoolPlan { region_bytes: needed_bytes, ..PLAN };
        assert_eq!(plan.format().unwrap().chunk_count.get(), 1);
        assert!(PoolPlan { region_bytes: needed_bytes - 1, ..PLAN }.format().is_err());
    }
}
