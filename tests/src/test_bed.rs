//! Test beds: an index is tested on a formatted pool, on some fabric.

use crate::fabric::{AnyFabric, poke};
use crate::pool::{Pool, place};
use crate::subject::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::fabric::Fabric;
use dm_core::remote::NodeGeometry;
use dm_core::verbs::{NodeId, Space};
use dm_host::assembly::{Place, Spending};
use dm_host::fabric::shm::litmus::Verdict;
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::memory_node::RemoteNode;
use dm_host::region::{Backing, Region, RegionSpec};
use dm_sim::{Config, DirectFabric};
use std::sync::Arc;

/// What a test asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Sizes of keys, values and nodes.
    pub shape: Shape,
    /// Memory nodes.
    pub nodes: usize,
    /// Host memory of each, in bytes.
    pub region_bytes: usize,
    /// Chunks hold this many nodes of the largest kind.
    pub chunk_nodes: usize,
    /// Lock words per memory node. Few: nodes share them.
    pub locks: u32,
    /// Lock tables in device memory, or in host memory.
    pub device: bool,
    /// Lanes, cache, techniques.
    pub spending: Spending,
    /// Locks are recoverable; of a WRITE, units of so many bytes land completely or not at all when its sender dies.
    pub recovery: Option<u32>,
    /// The compute node has a part in the pool's epochs, so that what leaves the tree is reused some day.
    pub epochs: bool,
}

impl Setup {
    /// One memory node, everything on, four lanes.
    pub fn new(shape: Shape) -> Self {
        let spending = Spending {
            lanes: 4,
            cache_bytes: 1 << 16,
            page_records: 40,
            returned_nodes: 256,
            // A test opens thousands of indexes.
            page_cache_bytes: 1 << 20,
            log_lines: 1024,
            ..Spending::default()
        };
        Self {
            shape,
            nodes: 1,
            region_bytes: 4 << 20,
            chunk_nodes: 16,
            locks: 61,
            device: true,
            spending,
            recovery: None,
            epochs: false,
        }
    }

    /// On `nodes` memory nodes.
    #[must_use]
    pub fn on(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// With these techniques.
    #[must_use]
    pub fn switched(mut self, options: Options) -> Self {
        self.spending.options = options;
        self
    }

    /// Chunk size for `subject`, in bytes.
    pub fn chunk_bytes(&self, subject: &dyn Subject) -> u64 {
        let bytes = subject.node_bytes_max(&self.shape) * self.chunk_nodes;
        bytes.max(subject.chunk_bytes_min(&self.shape)).next_multiple_of(4096) as u64
    }

    /// Settings of a simulated fabric for this setup.
    pub fn config(&self) -> Config {
        let config = Config::with_nodes(self.nodes, self.region_bytes);
        let crash_atomic_bytes = self.recovery.unwrap_or(config.crash_atomic_bytes);
        Config { device_bytes: if self.device { 4096 } else { 0 }, crash_atomic_bytes, ..config }
    }

    /// The pool for `subject`.
    pub fn pool(&self, subject: &dyn Subject) -> Pool {
        Pool::with(&self.config(), self.chunk_bytes(subject), self.locks)
    }
}

/// A formatted pool on a fabric that executes at once.
pub struct TestBed {
    /// The layout of the pool.
    pub geometry: Vec<NodeGeometry>,
    /// The fabric.
    pub fabric: AnyFabric,
}

impl TestBed {
    /// How compute node `number` (0-based) opens index 0.
    pub fn place(&self, number: u16) -> Place<'_> {
        place(&self.geometry, number, Fabric::capabilities(&self.fabric), Fabric::guarantees(&self.fabric))
    }
}

/// Makes test beds.
pub trait Fixture: Sync {
    /// For messages.
    fn name(&self) -> &'static str;

    /// A formatted pool for `subject`.
    fn test_bed(&self, subject: &dyn Subject, setup: &Setup) -> TestBed;

    /// The settings of techniques of `subject` for which this fabric has the verbs.
    fn switches(&self, subject: &dyn Subject) -> Vec<(&'static str, Options)> {
        subject.switches()
    }

    /// Of many cases of a kind each so-many-th runs here.
    fn stride(&self) -> u32 {
        1
    }
}

pub(crate) fn format(pool: &Pool, mut fabric: AnyFabric) -> TestBed {
    for (node, superblock) in (0..).zip(pool.superblocks()) {
        poke(&mut fabric, Space::Host, NodeId(node), 0, superblock);
    }
    TestBed { geometry: pool.geometry.clone(), fabric }
}

/// The simulated fabric without time: requests execute at once, without concurrency.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Fixture for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn test_bed(&self, subject: &dyn Subject, setup: &Setup) -> TestBed {
        format(&setup.pool(subject), AnyFabric::new(DirectFabric::new(&setup.config())))
    }
}

/// As [`Direct`], but no READ is short enough for versions to vouch for it.
#[derive(Clone, Copy, Debug)]
pub struct Slow;

impl Fixture for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn test_bed(&self, subject: &dyn Subject, setup: &Setup) -> TestBed {
        let config = Config { write_turn_ns_min: Some(1), ..setup.config() };
        format(&setup.pool(subject), AnyFabric::new(DirectFabric::new(&config)))
    }
}

/// Shared memory, within this process.
#[derive(Clone, Copy, Debug)]
pub struct Shm;

impl Fixture for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn test_bed(&self, subject: &dyn Subject, setup: &Setup) -> TestBed {
        let mode = Verdict::of_this_machine().mode;
        let config = setup.config();
        let nodes = (0..setup.nodes).map(|node| {
            let spec = RegionSpec {
                region_bytes: setup.region_bytes as u64,
                device_bytes: config.device_bytes,
                mode,
                backing: Backing::Memfd,
            };
            let region = Region::create(&spec).expect("a few MiB of shared memory");
            Arc::new(RemoteNode::in_process_at(region, NodeId(node as u16), setup.nodes as u16))
        });
        let fabric = ShmFabric::new(nodes.collect(), ShmOptions::default()).expect("a fabric on them");
        format(&setup.pool(subject), AnyFabric::new(fabric))
    }
}
