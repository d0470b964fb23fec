//! A pool whose memory nodes are memory of this process: no daemon, no socket. It ends with the process.

use super::{Pool, PoolError, format};
use crate::fabric::shm::ShmOptions;
use crate::fabric::shm::litmus::Verdict;
use crate::memory_node::RemoteNode;
use crate::region::layout::DEVICE_BYTES_DEFAULT;
use crate::region::{Backing, LineMode, Region, RegionSpec};
use dm_core::remote::catalog::INDEX_COUNT;
use dm_core::remote::superblock::PoolPlan;
use dm_core::verbs::NodeId;
use std::sync::Arc;

/// Bytes of a region are a multiple of this: the size of huge pages on most machines, so that it can have such pages.
const PAGE_BYTES: u64 = 2 << 20;

/// Chunks that a memory node should have at least: a session takes a few of them from each.
const CHUNKS_MIN: u64 = 256;

/// The smallest and the largest chunk that is chosen for a pool.
const CHUNK_BYTES: (u64, u64) = (64 << 10, 1 << 20);

/// What memory a pool within this process has; see [`Pool::embedded_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Bytes of each memory node; rounded up to a multiple of 2 MiB.
    pub bytes: u64,
    /// Memory nodes.
    pub memory_nodes: u16,
    /// Size of a chunk, the unit in which sessions are granted memory.
    pub chunk_bytes: u64,
    /// Lock words of each memory node.
    pub locks: u32,
    /// Bytes that stand for a NIC's device memory.
    pub device_bytes: u32,
    /// How lines are kept whole.
    pub lines: LineMode,
}

impl EmbeddedOptions {
    /// One memory node of `bytes`, with what `dm-memd` takes by default; chunks are smaller in a small pool.
    pub fn new(bytes: u64) -> Self {
        let (least, most) = CHUNK_BYTES;
        Self {
            bytes,
            memory_nodes: 1,
            chunk_bytes: (bytes / CHUNKS_MIN / least * least).clamp(least, most),
            locks: 32_768,
            device_bytes: DEVICE_BYTES_DEFAULT,
            lines: Verdict::of_this_machine().mode,
        }
    }
}

impl Pool {
    /// A new pool of one memory node with `bytes` of memory of this process: the way to begin, and for tests.
    ///
    /// The records are gone when the pool and its sessions are. No other process can reach them.
    pub fn embedded(bytes: u64) -> Result<Arc<Self>, PoolError> {
        Self::embedded_with(&EmbeddedOptions::new(bytes))
    }

    /// As [`Pool::embedded`], with every choice.
    pub fn embedded_with(options: &EmbeddedOptions) -> Result<Arc<Self>, PoolError> {
        let spec = RegionSpec {
            region_bytes: options.bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(options.bytes),
            device_bytes: options.device_bytes,
            mode: options.lines,
            backing: Backing::Memfd,
        };
        let node = |number| {
            let plan = PoolPlan {
                pool_id: *b"embedded\0\0\0\0\0\0\0\0",
                pool_incarnation: 1,
                node: NodeId(number),
                nodes: options.memory_nodes,
                region_bytes: spec.region_bytes,
                chunk_bytes: options.chunk_bytes,
                lock_count: options.locks,
                device_bytes: u64::from(spec.device_bytes),
                redo_row_bytes: 0,
                index_count: INDEX_COUNT,
            };
            // Before the region, so that one that cannot hold a pool is refused before its memory is taken.
            let superblock = format(&plan)?;
            let region = Region::create(&spec)?;
            region.write_image(0, &superblock)?;
            let node = RemoteNode::in_process_at(region, NodeId(number), options.memory_nodes);
            Ok((format!("memory node {number} of this process").into(), Arc::new(node)))
        };
        let nodes = (0..options.memory_nodes).map(node).collect::<Result<_, PoolError>>()?;
        Self::of(nodes, ShmOptions::default()).map(Arc::new)
    }
}
