//! What an index is tested on: a formatted pool on some fabric, and a fabric that fails where a test wants it to.

use crate::pool::{Pool, place};
use crate::subject::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::remote::NodeGeometry;
use dm_core::verbs::{Capabilities, Completion, Guarantees, Label, LaneId, NodeId, Request, Space, Status};
use dm_host::assembly::{Place, Spending};
use dm_host::fabric::shm::litmus::Verdict;
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::memory_node::RemoteNode;
use dm_host::region::{Backing, Region, RegionSpec};
use dm_sim::{Config, DirectFabric};
use std::sync::Arc;

/// What a test wants to work with.
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
    /// Lanes, cache, switches.
    pub spending: Spending,
    /// Locks are recoverable; of a WRITE so many bytes land all or nothing when its sender dies.
    pub recovery: Option<u32>,
}

impl Setup {
    /// One memory node, everything on, four lanes.
    pub fn new(shape: Shape) -> Self {
        let spending =
            Spending { lanes: 4, cache_bytes: 1 << 16, page_records: 40, returned_nodes: 256, ..Spending::default() };
        Self {
            shape,
            nodes: 1,
            region_bytes: 4 << 20,
            chunk_nodes: 16,
            locks: 61,
            device: true,
            spending,
            recovery: None,
        }
    }

    /// On `nodes` memory nodes.
    #[must_use]
    pub fn on(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// With these switches.
    #[must_use]
    pub fn switched(mut self, options: Options) -> Self {
        self.spending.options = options;
        self
    }

    /// Chunk size for `subject`, in bytes.
    pub fn chunk_bytes(&self, subject: &dyn Subject) -> u64 {
        (subject.node_bytes_max(&self.shape) * self.chunk_nodes).next_multiple_of(4096) as u64
    }

    /// The dial of a simulated fabric for this setup.
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

/// Which requests shall fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Submits to memory nodes that are still executed.
    pub after: u32,
    /// Submits that fail then.
    pub times: u32,
    /// What their requests complete with.
    pub status: Status,
    /// They take effect nevertheless.
    pub lands: bool,
}

/// Any fabric, and what shall fail on it.
pub struct AnyFabric {
    inner: Box<dyn for<'m> Fabric<'m>>,
    /// The next failure.
    pub failure: Option<Failure>,
    /// Submits to memory nodes so far.
    pub submits: u64,
}

impl AnyFabric {
    pub(crate) fn new(inner: impl for<'m> Fabric<'m> + 'static) -> Self {
        Self { inner: Box::new(inner), failure: None, submits: 0 }
    }

    /// What the submit that is about to be posted comes to, if it fails.
    fn fails(&mut self) -> Option<Failure> {
        let failure = self.failure.as_mut()?;
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        if failure.times == 0 {
            self.failure = None;
            return None;
        }
        failure.times -= 1;
        Some(*failure)
    }
}

impl<'m> Fabric<'m> for AnyFabric {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let port = lanes[lane].port();
        if port.requests().iter().all(|request| request.verb.is_local()) {
            return self.inner.post(lanes, lane);
        }
        self.submits += 1;
        let Some(failure) = self.fails() else { return self.inner.post(lanes, lane) };
        if failure.lands {
            let posted = self.inner.post(lanes, lane);
            assert_eq!(posted, Posted::Completed, "failures are for fabrics that execute at once");
        } else if let Some(scratch) = port.begin() {
            port.finish(scratch, 0);
        }
        for (position, request) in port.requests().iter().enumerate() {
            if !request.verb.is_local() {
                port.complete(position, Completion { value: 0, elapsed_ns: 0, status: failure.status });
            }
        }
        Posted::Completed
    }

    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        self.inner.poll(lanes, ready);
    }
}

/// A formatted pool on a fabric that executes at once.
pub struct Bed {
    /// Where things are.
    pub geometry: Vec<NodeGeometry>,
    /// The fabric.
    pub fabric: AnyFabric,
}

impl Bed {
    /// How compute node `number` (0-based) opens index 0.
    pub fn place(&self, number: u16) -> Place<'_> {
        place(&self.geometry, number, Fabric::capabilities(&self.fabric), Fabric::guarantees(&self.fabric))
    }
}

/// READs remote bytes.
pub fn peek(fabric: &mut AnyFabric, space: Space, node: NodeId, offset: u64, bytes: usize) -> Vec<u8> {
    let mut scratch = vec![0; bytes];
    exchange(fabric, &mut scratch, Request::read(Label::Tool, node, offset, bytes, 0).in_space(space));
    scratch
}

/// WRITEs remote bytes.
pub fn poke(fabric: &mut AnyFabric, space: Space, node: NodeId, offset: u64, bytes: &[u8]) {
    let mut scratch = bytes.to_vec();
    exchange(fabric, &mut scratch, Request::write(Label::Tool, node, offset, bytes.len(), 0).in_space(space));
}

fn exchange(fabric: &mut AnyFabric, scratch: &mut [u8], request: Request) {
    let lanes = [Lane::new(LaneId(u16::MAX - 1), scratch)];
    let failure = fabric.failure.take();
    lanes[0].port().push(request);
    lanes[0].port().flush();
    assert_eq!(fabric.inner.post(&lanes, 0), Posted::Completed);
    assert_eq!(lanes[0].port().completion(0).status, Status::Ok, "{request:?}");
    lanes[0].port().reset();
    fabric.failure = failure;
}

/// The lock words of all memory nodes that are not free: memory node, index, word.
pub fn locks_taken(fabric: &mut AnyFabric, geometry: &[NodeGeometry]) -> Vec<(u16, u32, u64)> {
    let mut taken = Vec::new();
    for (node, at) in geometry.iter().enumerate() {
        let bytes = at.lock_count as usize * 8;
        let table = peek(fabric, at.lock_space, NodeId(node as u16), at.lock_table, bytes);
        for (index, word) in (0..).zip(table.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            if word != 0 {
                taken.push((node as u16, index, word));
            }
        }
    }
    taken
}

/// Makes beds.
pub trait Fixture: Sync {
    /// For messages.
    fn name(&self) -> &'static str;

    /// A formatted pool for `subject`.
    fn bed(&self, subject: &dyn Subject, setup: &Setup) -> Bed;

    /// The switches of `subject` that this fabric has the verbs for.
    fn switches(&self, subject: &dyn Subject) -> Vec<(&'static str, Options)> {
        subject.switches()
    }
}

pub(crate) fn format(pool: &Pool, mut fabric: AnyFabric) -> Bed {
    for (node, superblock) in (0..).zip(pool.superblocks()) {
        poke(&mut fabric, Space::Host, NodeId(node), 0, superblock);
    }
    Bed { geometry: pool.geometry.clone(), fabric }
}

/// The simulated fabric without time: no concurrency, no surprise.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Fixture for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn bed(&self, subject: &dyn Subject, setup: &Setup) -> Bed {
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

    fn bed(&self, subject: &dyn Subject, setup: &Setup) -> Bed {
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

    fn bed(&self, subject: &dyn Subject, setup: &Setup) -> Bed {
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
