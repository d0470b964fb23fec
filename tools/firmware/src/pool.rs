//! The pool: formatted by the memory node, joined by the compute node. Both are this image.

use crate::driver::Driver;
use crate::memory::REGION_BYTES;
use crate::{LANES, Wrong};
use dm_core::index::catalog;
use dm_core::lane::Lane;
use dm_core::membership::rows;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::{Definition, IndexNumber};
use dm_core::remote::features::Features;
use dm_core::remote::row::{Joiner, Member};
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::remote::{HOME, NodeGeometry};
use dm_core::verbs::{Label, NodeId, Request};
use spin::Once;
use zerocopy::IntoBytes;

/// Bytes of a chunk: what a compute node is granted at a time.
const CHUNK_BYTES: u64 = 32 << 10;

/// Words of the lock table.
pub const LOCKS: usize = 64;

const POOL: PoolPlan = PoolPlan {
    pool_id: *b"firmware's pool\0",
    pool_incarnation: 1,
    node: HOME,
    nodes: 1,
    region_bytes: REGION_BYTES as u64,
    chunk_bytes: CHUNK_BYTES,
    lock_count: LOCKS as u32,
    device_bytes: 0,
    redo_row_bytes: 0,
    index_count: 15,
};

/// Where the index is, and who opens it.
#[derive(Clone, Copy)]
pub struct Place {
    /// The memory node.
    pub geometry: &'static [NodeGeometry],
    /// The index's number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub member: Member,
}

/// What the memory node does before anybody joins: zeroes all up to the heap, and writes the superblock.
pub fn format(driver: &mut Driver) -> Result<(), Wrong> {
    let wrong = Wrong::of("the region cannot be formatted");
    let superblock = POOL.format().map_err(|_| wrong)?;
    let region = &mut driver.region().0;
    region.get_mut(..superblock.heap.get() as usize).ok_or(wrong)?.fill(0);
    region.get_mut(..Superblock::BYTES).ok_or(wrong)?.copy_from_slice(superblock.as_bytes());
    Ok(())
}

/// What a compute node does first: READs the superblock, claims a row, and creates the index.
pub async fn join<P: KindParameters>(lane: &Lane<'_>, parameters: &P) -> Result<Place, Wrong> {
    static GEOMETRY: Once<[NodeGeometry; 1]> = Once::new();
    let read = Request::read(Label::Super, NodeId(0), 0, Superblock::BYTES, 0);
    lane.port().call(read).await.map_err(|_| Wrong::of("the superblock cannot be READ"))?;
    let described = lane.port().with(|scratch| Superblock::decode(scratch));
    let described = described.map_err(|_| Wrong::of("the superblock cannot be decoded"))?;
    let geometry = GEOMETRY.call_once(|| [described.geometry]);
    let joiner = Joiner { token: 0xF1, lanes: LANES as u16, memory_nodes: 1, host: "firmware" };
    let member = rows::join(lane, &geometry[0], &joiner, 0).await.map_err(|_| Wrong::of("no row"))?;
    parameters.check().map_err(|_| Wrong::of("parameters out of range"))?;
    let definition = Definition {
        name: "numbers",
        kind: P::KIND,
        parameters_version: P::VERSION,
        parameters: parameters.encode(),
        features: Features::KNOWN,
    };
    let created = catalog::create(lane, &geometry[0], member, 0, &definition, 0).await;
    let number = created.map_err(|_| Wrong::of("the index cannot be created"))?;
    Ok(Place { geometry, number, member })
}
