//! A tiny memory executes the requests of several lanes one at a time, in an order that a list of choices gives. So
//! every interleaving of requests can occur, and a failing one can be repeated.

use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::remote::NodeGeometry;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::verbs::{Completion, NodeId, Request, Status, Verb};
use std::pin::Pin;
use zerocopy::IntoBytes;

/// The regions of a pool's memory nodes.
pub struct Pool {
    pub regions: Vec<Vec<u8>>,
    pub geometries: Vec<NodeGeometry>,
}

impl Pool {
    /// `nodes` memory nodes of `chunks` chunks of 4 KiB.
    pub fn new(nodes: u16, chunks: u64) -> Self {
        Self::with_indexes(nodes, chunks, 15)
    }

    /// The same with a catalog of so many entries.
    pub fn with_indexes(nodes: u16, chunks: u64, index_count: u16) -> Self {
        let mut pool = Self { regions: Vec::new(), geometries: Vec::new() };
        for node in 0..nodes {
            let plan = plan_of(NodeId(node), nodes, chunks, index_count);
            let superblock = plan.format().unwrap();
            let mut region = vec![0; plan.region_bytes as usize];
            region[..Superblock::BYTES].copy_from_slice(superblock.as_bytes());
            let geometry = Superblock::decode(&region).unwrap().geometry;
            assert_eq!(u64::from(geometry.chunk_count), chunks);
            pool.regions.push(region);
            pool.geometries.push(geometry);
        }
        pool
    }

    pub fn home(&self) -> NodeGeometry {
        self.geometries[0]
    }

    pub fn word(&mut self, node: u16, offset: u64) -> &mut [u8; 8] {
        let at = offset as usize;
        (&mut self.regions[usize::from(node)][at..at + 8]).try_into().unwrap()
    }

    fn execute(&mut self, request: &Request, scratch: &mut [u8]) -> u64 {
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        let node = request.node.0;
        match request.verb {
            Verb::Read => {
                scratch[local..local + bytes].copy_from_slice(&self.regions[usize::from(node)][at..at + bytes]);
                0
            }
            Verb::Write if request.flags.contains(dm_core::verbs::Flags::INLINE) => {
                let payload = request.inline_payload();
                self.regions[usize::from(node)][at..at + bytes].copy_from_slice(&payload[..bytes]);
                0
            }
            Verb::Write => {
                self.regions[usize::from(node)][at..at + bytes].copy_from_slice(&scratch[local..local + bytes]);
                0
            }
            Verb::Cas => {
                assert_eq!(at % 8, 0);
                let word = self.word(node, request.offset);
                let old = u64::from_le_bytes(*word);
                if old == request.operands[0] {
                    *word = request.operands[1].to_le_bytes();
                }
                old
            }
            Verb::Pause => 0,
            other => panic!("not used here: {other:?}"),
        }
    }
}

pub fn plan(node: NodeId, nodes: u16, chunks: u64) -> PoolPlan {
    plan_of(node, nodes, chunks, 15)
}

fn plan_of(node: NodeId, nodes: u16, chunks: u64, index_count: u16) -> PoolPlan {
    let mut plan = PoolPlan {
        pool_id: [7; 16],
        pool_incarnation: 1,
        node,
        nodes,
        region_bytes: 1 << 20,
        chunk_bytes: 4096,
        lock_count: 64,
        device_bytes: 0,
        redo_row_bytes: 0,
        index_count,
    };
    let heap = plan.format().unwrap().heap.get();
    plan.region_bytes = heap + chunks * plan.chunk_bytes;
    let heap = plan.format().unwrap().heap.get();
    plan.region_bytes = heap + chunks * plan.chunk_bytes;
    plan
}

/// A request that ends badly: the `position`-th of the lane, with or without having taken effect.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub position: usize,
    pub effect: bool,
}

/// One operation and the lane it runs on.
pub struct Runner<'l, 'm, T> {
    lane: &'l Lane<'m>,
    future: Pin<Box<dyn Future<Output = T> + 'l>>,
    scratch: Option<&'m mut [u8]>,
    next: usize,
    executed: usize,
    pub fault: Option<Fault>,
    pub done: Option<T>,
}

impl<'l, 'm, T> Runner<'l, 'm, T> {
    pub fn new(lane: &'l Lane<'m>, future: impl Future<Output = T> + 'l) -> Self {
        Self { lane, future: Box::pin(future), scratch: None, next: 0, executed: 0, fault: None, done: None }
    }

    /// Executes one request, or runs the operation to its next submit.
    fn step(&mut self, pool: &mut Pool) {
        if self.done.is_some() {
            return;
        }
        let port = self.lane.port();
        let Some(scratch) = self.scratch.take() else {
            match poll_once(port, Pin::new(&mut self.future)) {
                Step::Requests => self.scratch = port.begin(),
                Step::Waiting => panic!("an operation waits for nothing"),
                Step::Done(result) => self.done = Some(result),
            }
            self.next = 0;
            return;
        };
        let request = port.requests()[self.next];
        let mut completion = Completion::default();
        let fault = self.fault.filter(|fault| fault.position == self.executed);
        if fault.is_none_or(|fault| fault.effect) {
            completion.value = pool.execute(&request, scratch);
        }
        if fault.is_some() {
            completion = Completion { status: Status::Flushed, ..Completion::default() };
        }
        port.complete(self.next, completion);
        self.next += 1;
        self.executed += 1;
        if self.next == port.requests().len() {
            port.finish(scratch, 1000);
        } else {
            self.scratch = Some(scratch);
        }
    }
}

/// Runs operations together: each choice names one of them and how many steps it takes. What is left when the choices
/// are used up runs in turn.
pub fn race<T>(pool: &mut Pool, mut runners: Vec<Runner<'_, '_, T>>, choices: &[(u8, u8)]) -> Vec<T> {
    for &(which, steps) in choices {
        let which = usize::from(which) % runners.len();
        for _ in 0..steps {
            runners[which].step(pool);
        }
    }
    let mut patience = 1_000_000;
    while runners.iter().any(|runner| runner.done.is_none()) {
        for runner in &mut runners {
            runner.step(pool);
        }
        patience -= 1;
        assert!(patience > 0, "the operations wait for each other");
    }
    runners.into_iter().map(|runner| runner.done.unwrap()).collect()
}

/// Runs one operation to its end, perhaps with a request that fails.
pub fn alone<'l, 'm, T>(
    pool: &mut Pool,
    lane: &'l Lane<'m>,
    fault: Option<Fault>,
    future: impl Future<Output = T> + 'l,
) -> T {
    let runner = Runner { fault, ..Runner::new(lane, future) };
    race(pool, vec![runner], &[]).remove(0)
}
