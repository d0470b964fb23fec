//! The toy as a subject: an array that nearly every write moves, so that readers meet the next version often.

#![cfg(feature = "toy")]

use super::accounting::{Holdings, Node, UNIT_BYTES};
use super::blocks::Found;
use super::chunk_table::chunks;
use super::draw::{Draw, Filling};
use super::items::Below;
use super::memory_walk::MemoryWalk;
use super::subject::{TestAccess, turned};
use super::tree::{TreeCase, TreeKind};
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::lane::Lane;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::operation::OpError;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunk::ChunkKind;
use dm_core::toy::layout::{ArrayShape, RootWord};
use dm_core::toy::parameters::Parameters;
use dm_core::verbs::NodeId;
use dm_host::assembly::Spending;
use dm_host::kinds::IndexParameters;

/// Toy indexes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toy;

/// Keys and values that are drawn, with items over the index or without, are no longer together.
const RECORD_BYTES_MAX: usize = 16 + 120;

/// Entries that items over it may need besides those of the keys: links between layers, and layers that are not linked.
const LINKS: u32 = 24;

impl TreeKind for Toy {
    const NAME: &'static str = "toy";
    const WRITES_RECORDS_AT_ONCE: bool = true;

    fn marks() -> Vec<(&'static str, &'static [Mark])> {
        vec![("chunks", dm_core::memory::chunks::MARKS), ("toy", dm_core::toy::MARKS)]
    }

    /// Its chunk is granted under its lock: nobody competes for one. Nothing is replayed, since nothing is torn, and
    /// nothing is merged. Repairers have next to nothing to do in which they could die.
    fn rare_marks() -> &'static [Mark] {
        &[Mark::CHUNK_RACE_LOST, Mark::REDO_REPLAYED, Mark::REPAIRER_DIED, Mark::MERGE_UNDONE, Mark::SELF_FENCED]
    }

    fn draw(draw: &Draw, rng: &mut Rng) -> TreeCase {
        let is_short = draw.filling == Filling::Empty && rng.percent(20);
        let parameters = Parameters {
            key_bytes: [8, 8, 16][rng.below(3) as usize],
            // Records within a line, across two, across several.
            value_bytes: [8, 16, 48, 120][rng.below(4) as usize],
            // Room for all keys, or for half of them.
            capacity: (if is_short { draw.keys.div_ceil(2) } else { draw.keys + LINKS + rng.below(8) }) as usize,
        };
        let largest = ArrayShape { value_bytes: RECORD_BYTES_MAX - parameters.key_bytes, ..parameters.array() };
        let options = Options {
            combine: rng.percent(70),
            hierarchical: rng.percent(70),
            chain_lock_read: if rng.percent(40) { ChainedRead::Always } else { ChainedRead::Never },
            ..Options::default()
        };
        let spending = Spending {
            cache_bytes: 0,
            page_records: 1 + rng.below(12) as usize,
            hand_overs_max: rng.below(5) as u8,
            returned_nodes: 0,
            options,
            ..Spending::default()
        };
        let lock_count = [1, 3, 16, 61][rng.below(4) as usize];
        let chunk_bytes = largest.place_bytes().next_multiple_of(4096) as u64;
        TreeCase::new(draw, parameters, spending, lock_count, chunk_bytes)
    }
}

impl Below for Toy {
    const ITEMS: &'static str = "any length over toy";
    const ITEMS_OPTION: &'static str = "any-length-over-toy";
    /// Those of the index below besides.
    const RARE_MARKS: &'static [Mark] = &[
        Mark::ENTRY_REVISITED,
        Mark::LAYER_LOST,
        Mark::CHUNK_RACE_LOST,
        Mark::REDO_REPLAYED,
        Mark::REPAIRER_DIED,
        Mark::MERGE_UNDONE,
        Mark::SELF_FENCED,
    ];
}

impl TestAccess for dm_core::toy::Toy<'_> {
    fn locks_held(&self) -> usize {
        Self::locks_held(self)
    }

    fn has_epochs(&self) -> bool {
        Self::has_epochs(self)
    }

    fn capacity(&self) -> u64 {
        Self::capacity(self)
    }

    async fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        turned(Self::turn(self, lane).await)
    }
}

impl MemoryWalk for Parameters {
    /// Its chunk is its only node.
    fn holdings(
        &self,
        parameters: &IndexParameters,
        geometry: &[NodeGeometry],
        memories: &Memories,
    ) -> Result<Holdings, String> {
        let home = NodeId(0);
        let (Some(at), Some(memory), Some(number)) = (geometry.first(), memories.get(home), IndexNumber::new(0)) else {
            return Ok(Holdings::default());
        };
        let sizes = |kind| match kind {
            ChunkKind::Other => Some(at.chunk_bytes),
            ChunkKind::Block if parameters.any_length.is_some() => Some(UNIT_BYTES),
            _ => None,
        };
        let mut holdings = Holdings { chunks: chunks(geometry, memories, sizes, false)?, ..Holdings::default() };
        let root = RootWord(memory.host.word(root_offset(at, number)));
        let Some(chunk) = root.chunk() else { return Ok(holdings) };
        let (offset, array) = (at.chunk_offset(chunk), self.array());
        holdings.reached.push(Node { node: home, offset, bytes: at.chunk_bytes });
        if let Some(mut found) = Found::nothing(parameters) {
            let start = offset as usize + root.array() * array.bytes();
            let records = memory.host.bytes().get(start..start + root.records() * array.record_bytes());
            found.add(parameters, records.ok_or("the array lies outside the memory")?);
            holdings.reached.extend(found.blocks()?);
        }
        Ok(holdings)
    }

    fn for_each_entry(&self, image: &[u8], see: &mut dyn FnMut(&[u8], &[u8])) {
        for record in image.chunks_exact(self.array().record_bytes()) {
            let (key, value) = record.split_at(self.key_bytes);
            see(key, value);
        }
    }
}
