//! What items need on a compute node, over an index of any kind.

use super::{AssemblyError, Level, Place, Spending};
use crate::kinds::parameters::IndexParameterError;
use dm_core::index::Index;
use dm_core::index::forward::caller::GivenUp;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::layer::LayerNumbers;
use dm_core::items::links::{Link, Links};
use dm_core::items::pool::{BlockPool, BlockSlab, FreeBlock};
use dm_core::items::{Items, LaneProgress, Site, parameters as items};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::{CollectedChunk, Collection, GENERATIONS, MarkBitmap, Share, mark_bitmap};

/// Builds items over an index, with their storage, and passes them to `run`. `requests` are those of the index below.
pub fn with_items<I: Index, R>(
    place: &Place<'_>,
    below: &I,
    requests: &RequestIds,
    parameters: &items::Parameters,
    spending: &Spending,
    run: impl FnOnce(&Items<'_, I>) -> R,
) -> Result<R, AssemblyError> {
    let mut storage = ItemsStorage::new(place, below, parameters, spending)?;
    let room = storage.furnish();
    Ok(run(&room.items(place, below, requests, parameters, spending)))
}

/// What one compute node's items borrow.
#[derive(Debug)]
struct ItemsStorage {
    returned: Vec<FreeBlock>,
    returned_blocks: usize,
    memory_nodes: usize,
    lanes: Vec<LaneProgress>,
    links: Vec<spin::Mutex<Link>>,
    layers: LayerNumbers,
    given_up: GivenUp,
    collected_chunks: Vec<CollectedChunk>,
    marks: Vec<u64>,
    eager: bool,
}

/// An [`ItemsStorage`], ready to be borrowed.
#[derive(Debug)]
struct ItemsRoom<'a> {
    slabs: Vec<spin::Mutex<BlockSlab<'a>>>,
    lanes: &'a [LaneProgress],
    links: &'a [spin::Mutex<Link>],
    layers: &'a LayerNumbers,
    given_up: &'a GivenUp,
    collection: Collection<'a>,
}

impl ItemsStorage {
    /// Checks that items can be put over `below` at `place` and allocates what they need there.
    fn new(
        place: &Place<'_>,
        below: &impl Index,
        parameters: &items::Parameters,
        spending: &Spending,
    ) -> Result<Self, AssemblyError> {
        let (key_bytes, value_bytes) = (below.plan().key_bytes, below.plan().value_bytes);
        parameters.check(key_bytes, value_bytes).map_err(IndexParameterError::from)?;
        if below.has_parts() && spending.level == Level::Cache {
            return Err(AssemblyError::Level);
        }
        let node_bytes = class_bytes(class_of(block_bytes(parameters.key_bytes_max, parameters.value_bytes_max)));
        let chunk_bytes = place.geometry.iter().map(|node| node.chunk_bytes).min().unwrap_or(0);
        if node_bytes as u64 > chunk_bytes {
            return Err(AssemblyError::Chunk { node_bytes, chunk_bytes });
        }
        let lane_bytes = parameters.plan(below.plan(), spending.page_bytes).0.total_bytes;
        if spending.own_lanes() as u64 * lane_bytes as u64 > spending.scratch_bytes_max {
            return Err(AssemblyError::Scratch {
                lanes: spending.own_lanes(),
                lane_bytes,
                budget_bytes: spending.scratch_bytes_max,
            });
        }
        let memory_nodes = place.geometry.len();
        let chunk_bytes_max = place.geometry.iter().map(|node| node.chunk_bytes).max().unwrap_or(0);
        let collected_chunks = if place.epochs.is_some() { spending.collected_chunks } else { 0 };
        Ok(Self {
            collected_chunks: vec![CollectedChunk::default(); collected_chunks],
            marks: vec![0; collected_chunks * mark_bitmap::words_for(chunk_bytes_max)],
            eager: spending.generations != GENERATIONS,
            returned: vec![FreeBlock::default(); memory_nodes * spending.returned_blocks],
            returned_blocks: spending.returned_blocks,
            memory_nodes,
            lanes: (0..spending.lanes).map(|_| LaneProgress::default()).collect(),
            links: (0..spending.links).map(|_| spin::Mutex::new(Link::default())).collect(),
            layers: LayerNumbers::new(),
            given_up: GivenUp::new(),
        })
    }

    /// Makes the room: what the items borrow of this storage.
    fn furnish(&mut self) -> ItemsRoom<'_> {
        let mut returned = self.returned.as_mut_slice();
        let slabs = (0..self.memory_nodes).map(|_| {
            let (first, rest) = std::mem::take(&mut returned).split_at_mut(self.returned_blocks);
            returned = rest;
            spin::Mutex::new(BlockSlab::new(first))
        });
        let mark_bitmap = MarkBitmap::new(&mut self.collected_chunks, &mut self.marks);
        ItemsRoom {
            slabs: slabs.collect(),
            lanes: &self.lanes,
            links: &self.links,
            layers: &self.layers,
            given_up: &self.given_up,
            collection: Collection::new(mark_bitmap, self.eager),
        }
    }
}

impl<'a> ItemsRoom<'a> {
    /// The items. The arguments are those that the storage was made for; `requests` are those of the index below.
    fn items<I: Index>(
        &'a self,
        place: &Place<'a>,
        below: &'a I,
        requests: &'a RequestIds,
        parameters: &items::Parameters,
        spending: &Spending,
    ) -> Items<'a, I> {
        let site = Site {
            geometry: place.geometry,
            number: place.number,
            owner: place.member,
            requests,
            layers: place.layers.unwrap_or(self.layers),
            given_up: place.given_up.unwrap_or(self.given_up),
            epochs: place.epochs,
        };
        let plan = parameters.plan(below.plan(), spending.page_bytes);
        let blocks = match place.epochs {
            Some(part) => {
                let share = Share::new(&self.collection, part.epochs, place.geometry);
                BlockPool::new(&self.slabs).with_collection(share)
            }
            None => BlockPool::new(&self.slabs),
        };
        Items::new(below, site, self.lanes, *parameters, plan, blocks, Links::new(self.links))
    }
}
