//! Operations on a region in this process's memory, verb by verb.

extern crate std;
use super::*;
use crate::btree::Options;
use crate::btree::descent::RootCopy;
use crate::compute::batches::Batches;
use crate::compute::cache::IndexCache;
use crate::dex::log::ring::{Ring, RingOwner};
use crate::dex::log::staging::{STAGING_LINES_MIN, mark_words};
use crate::dex::ownership::partition::EntryCell;
use crate::dex::ownership::table::{Table, TableShape};
use crate::dex::ownership::{Owner, OwnerWord};
use crate::dex::parameters::Cut;
use crate::layout::LINE_BYTES;
use crate::locks::table::{Entry, LockTable, Waiter};
use crate::machine::{Step, poll_once};
use crate::membership::Recovery;
use crate::memory::chunks::RequestIds;
use crate::memory::memory_node::MemoryNode;
use crate::memory::node_pool::{FreeNode, NodePool, NodeSlab};
use crate::pages::{Admission, Cooling, Shape};
use crate::remote::catalog::{IndexNumber, root_offset};
use crate::remote::lock_word::RowId;
use crate::remote::place::NodeClass;
use crate::remote::row::Member;
use crate::verbs::{CALL_BYTES_MAX, Capabilities, Label, LaneId, NodeId, Request, Verb};
use core::cell::Cell;
use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::sync::atomic::AtomicBool;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

mod cuts;
mod deaths;
mod leaving;
mod levels;
mod merges;
mod models;
mod moves;
mod offload;
mod renewals;
mod scans;
mod splits;
mod vacates;
mod verbs;

const NUMBER: usize = 2;
const POOL_INCARNATION: u64 = 3;
const ME: RowId = RowId(1);
const OTHER: RowId = RowId(7);
/// Keys of an entry.
const WIDTH: u64 = 1000;
/// Chunks at the end of the heap, from which none is granted.
const RING_CHUNKS: u32 = 5;

/// What a test wants.
#[derive(Clone, Copy)]
struct Setup {
    lanes: u16,
    frames: usize,
    admission: Admission,
    leaf_span: usize,
    entries: u32,
    /// The first so many are this compute node's.
    owned: u32,
    staging_lines: usize,
    /// Words of the index cache.
    cache_words: usize,
    offload: Mode,
}

const SETUP: Setup = Setup {
    lanes: 2,
    frames: 64,
    admission: Admission::EAGER,
    leaf_span: 8,
    entries: 5,
    owned: 4,
    staging_lines: 3 * STAGING_LINES_MIN,
    cache_words: 8 << 10,
    offload: Mode::Never,
};

impl Setup {
    fn parameters(&self) -> Parameters {
        let last = u64::from(self.entries) * WIDTH - 1;
        let (cut, entries) = (Cut::Even { first: 0, last }, self.entries);
        Parameters { key_bytes: 8, value_bytes: 8, leaf_span: self.leaf_span, inner_span: 4, entries, spare: 2, cut }
    }
}

/// The memory node, and whether others may be answered.
struct Pool {
    node: MemoryNode,
    may_answer: AtomicBool,
}

impl Pool {
    fn new() -> Self {
        Self::of(1)
    }

    /// So many memory nodes.
    fn of(nodes: usize) -> Self {
        Self { node: MemoryNode::several(nodes), may_answer: AtomicBool::new(true) }
    }
}

impl Deref for Pool {
    type Target = MemoryNode;

    fn deref(&self) -> &MemoryNode {
        &self.node
    }
}

const fn capabilities() -> Capabilities {
    Capabilities {
        masked_atomics: false,
        device_bytes: 0,
        inline_bytes_max: 32,
        outstanding_reads_max: 16,
        chain_requests_max: 16,
        fencing: true,
        crash_atomic_bytes: 64,
        write_turn_ns_min: 0,
        call_bytes_max: CALL_BYTES_MAX as u32,
        calls_change: true,
    }
}

fn storage(words: usize) -> Vec<AtomicU32> {
    (0..words).map(|_| AtomicU32::new(0)).collect()
}

/// A compute node over the pool, with nothing in its memory yet. Whoever had the ring before has flushed everything:
/// `epoch` is another one each time.
fn with_node<R>(pool: &Pool, setup: Setup, epoch: u32, test: impl FnOnce(&Dex<'_>, &[Lane<'_>]) -> R) -> R {
    with_member(pool, setup, Member { row: ME, incarnation: epoch, nonce: epoch }, None, test)
}

/// The same of a compute node that opens the index itself, if it has a `recovery`.
fn with_member<R>(
    pool: &Pool,
    setup: Setup,
    member: Member,
    recovery: Option<&Recovery<'_>>,
    test: impl FnOnce(&Dex<'_>, &[Lane<'_>]) -> R,
) -> R {
    let (parameters, epoch) = (setup.parameters(), member.incarnation);
    assert_eq!(parameters.check(), Ok(()));
    let (plan, scratch) = parameters.plan(16, 2);
    let number = IndexNumber::new(NUMBER).unwrap();
    // The table.
    let shape = parameters.table_shape().unwrap();
    let mut image = vec![0; shape.bytes()];
    assert_eq!(parameters.even_table(number, POOL_INCARNATION, &mut image), Ok(Some(setup.entries)));
    for entry in 0..setup.entries {
        let owner = if entry < setup.owned { member.row } else { OTHER };
        let at = TableShape::word_at(entry);
        image[at..at + 8].copy_from_slice(&OwnerWord::new(Owner::Owned(owner), epoch).0.to_le_bytes());
    }
    let table = Table::decode(shape, number, POOL_INCARNATION, &image).unwrap();
    let opens = recovery.is_some();
    let table_at = pool.geometry.chunk_offset(pool.geometry.chunk_count - 1 - RING_CHUNKS);
    if !opens {
        pool.region.borrow_mut()[table_at as usize..][..image.len()].copy_from_slice(&image);
    }
    let cells: Vec<EntryCell> = (0..shape.capacity()).map(|_| EntryCell::default()).collect();
    let boundaries = || storage(Partition::boundary_words(&shape));
    let order = || storage(shape.capacity() as usize);
    let ((opened, opened_order), (boundaries, order)) = ((boundaries(), order()), (boundaries(), order()));
    let partition = Partition::open(&table, member.row, &opened, &opened_order, &cells).unwrap();
    for entry in 0..setup.owned {
        assert!(partition.admit(entry).is_some());
    }
    // The log.
    let geometry = vec![pool.geometry; pool.nodes()];
    let chunks: Vec<u32> = (0..RING_CHUNKS).map(|back| geometry[0].chunk_count - 1 - back).collect();
    let ring = Ring::new(NodeId(0), &geometry[0], &chunks).unwrap();
    let owner = RingOwner::new(([5; 16], POOL_INCARNATION), number, member, u64::from(epoch));
    let staging = storage(setup.staging_lines * LINE_BYTES / 4);
    let marks = storage(mark_words(usize::from(setup.lanes)));
    let log = Log::new(ring.lines(), &staging, &marks, usize::from(setup.lanes)).unwrap();
    if !opens {
        log.set_seal(owner.seal());
    }
    // The pages.
    let shape = Shape {
        page_bytes: parameters.leaf().bytes,
        lanes: setup.lanes,
        fills_per_lane: 2,
        cooling: Cooling::Map,
        admission: setup.admission,
    };
    let words = storage(shape.words_for(setup.frames));
    let store = PageStore::new(&words, shape).unwrap();
    // The tree.
    let locks = geometry[0].lock_count as usize;
    let entries: Vec<Entry> = (0..locks).map(|_| Entry::default()).collect();
    let waiters: Vec<Waiter> = (0..setup.lanes).map(|_| Waiter::default()).collect();
    let mut free = vec![vec![FreeNode::default(); 64]; NodeClass::COUNT * geometry.len()];
    let slabs: Vec<_> = free.iter_mut().map(|free| Mutex::new(NodeSlab::new(free))).collect();
    let (requests, cache) = (RequestIds::new(), storage(setup.cache_words));
    let tree = Tree {
        number,
        index: number.in_nodes(),
        owner: member,
        requests: &requests,
        geometry: &geometry,
        root_word: (NodeId(0), root_offset(&geometry[0], number)),
        root: RootCopy::default(),
        inner: parameters.inner(),
        leaf_bytes: parameters.leaf().bytes,
        capabilities: capabilities(),
        options: Options::default(),
        recovery,
        epochs: None,
        scratch: scratch.tree.clone(),
        locks: LockTable::new(&entries, locks as u32, &waiters, 4),
        batches: Batches::new(&[], &[], &[]),
        nodes: NodePool::new(&slabs, [parameters.leaf().bytes as u32, parameters.inner().bytes as u32]),
        cache: IndexCache::new(&cache, 8, parameters.inner_span + 1),
    };
    let levels: Vec<AtomicU8> = (0..setup.lanes).map(|_| AtomicU8::new(0)).collect();
    let allowed = &pool.may_answer;
    let may_answer = |_: &Lane<'_>| allowed.load(Ordering::Relaxed);
    let owners = OwnersRoom { boundaries: &boundaries, order: &order, cells: &cells };
    let parts = Parts { tree, store, owners, log, ring_lines: ring.lines(), may_answer: &may_answer, levels: &levels };
    let dex = Dex::new(parts, &parameters, plan.clone(), scratch).unwrap();
    dex.set_offload(setup.offload);
    *pool.calls.borrow_mut() = Some(Box::new(offload::serve));
    if !opens {
        dex.opened.call_once(|| Opened::for_tests(partition, ring, owner, table_at));
    }
    let mut scratches: Vec<Vec<u8>> = (0..setup.lanes).map(|_| vec![0; plan.total_bytes]).collect();
    let lanes: Vec<Lane<'_>> = (0..).zip(&mut scratches).map(|(id, scratch)| Lane::new(LaneId(id), scratch)).collect();
    test(&dex, &lanes)
}

/// An index with a leaf for each entry, and one compute node.
fn with_index<R>(setup: Setup, test: impl FnOnce(&Pool, &Dex<'_>, &[Lane<'_>]) -> R) -> R {
    let pool = Pool::new();
    with_node(&pool, setup, 1, |dex, lanes| {
        pool.run(&lanes[0], dex.create(&lanes[0])).unwrap();
        pool.taken();
        test(&pool, dex, lanes)
    })
}

fn set(dex: &Dex<'_>, lane: &Lane<'_>, key: u64, value: u64, expected: u64) {
    lane.port().with(|scratch| {
        scratch[dex.plan.key.clone()].copy_from_slice(&key.to_be_bytes());
        scratch[dex.plan.value.clone()].copy_from_slice(&value.to_le_bytes());
        scratch[dex.plan.expected.clone()].copy_from_slice(&expected.to_le_bytes());
    });
}

fn output(dex: &Dex<'_>, lane: &Lane<'_>) -> u64 {
    lane.port().with(|scratch| u64::from_le_bytes(scratch[dex.plan.output.clone()].try_into().unwrap()))
}

/// One operation; nobody else is at work.
fn point(
    pool: &Pool,
    dex: &Dex<'_>,
    lane: &Lane<'_>,
    kind: OperationKind,
    key: u64,
    value: u64,
) -> Result<Outcome, OpError> {
    set(dex, lane, key, value, 0);
    pool.run(lane, dex.execute(lane, Operation::point(kind)))
}

/// Drives the operation in the scratch to its `drop_at`-th submit, drops it there, and settles the lane. `posted`: that submit
/// is executed all the same. Returns whether the operation ended before, as `outcome` says, and how often it submitted.
fn run_and_drop(
    pool: &Pool,
    dex: &Dex<'_>,
    lane: &Lane<'_>,
    (kind, outcome): (OperationKind, Outcome),
    (drop_at, posted): (usize, bool),
) -> (bool, usize) {
    let mut future = Box::pin(dex.execute(lane, Operation::point(kind)));
    lane.port().start();
    let mut steps = 0;
    let ended = loop {
        match poll_once(lane.port(), future.as_mut()) {
            Step::Done(result) => {
                assert_eq!(result, Ok(outcome));
                break true;
            }
            Step::Waiting => {}
            Step::Requests if steps == drop_at => break false,
            Step::Requests => {
                steps += 1;
                pool.execute(lane);
            }
        }
    };
    drop(future);
    if lane.port().flush() || !ended && posted {
        pool.execute(lane);
    }
    lane.port().reset();
    pool.run(lane, dex.settle(lane)).unwrap();
    assert!(!lane.is_unsettled());
    (ended, steps)
}

/// The value of a key; `None`: it is absent.
fn get(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, key: u64) -> Option<u64> {
    match point(pool, dex, lane, OperationKind::Get, key, 0).unwrap() {
        Outcome::Found => Some(output(dex, lane)),
        Outcome::Absent => None,
        other => panic!("{other:?}"),
    }
}

/// A small generator with a fixed course.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as usize
    }
}
