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
use crate::memory::node_pool::{FreeNode, NodePool, NodeSlab};
use crate::pages::{Admission, Cooling, Shape};
use crate::remote::NodeGeometry;
use crate::remote::catalog::{IndexNumber, root_offset};
use crate::remote::lock_word::RowId;
use crate::remote::place::NodeClass;
use crate::remote::row::Member;
use crate::remote::superblock::small_for_tests;
use crate::verbs::{Capabilities, Completion, Flags, Label, LaneId, NodeId, Request, Status, Verb};
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicBool;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

mod deaths;
mod leaving;
mod levels;
mod merges;
mod models;
mod renewals;
mod scans;
mod splits;
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
}

const SETUP: Setup = Setup {
    lanes: 2,
    frames: 64,
    admission: Admission::EAGER,
    leaf_span: 8,
    entries: 5,
    owned: 4,
    staging_lines: 3 * STAGING_LINES_MIN,
};

impl Setup {
    fn parameters(&self) -> Parameters {
        let last = u64::from(self.entries) * WIDTH - 1;
        let (cut, entries) = (Cut::Even { first: 0, last }, self.entries);
        Parameters { key_bytes: 8, value_bytes: 8, leaf_span: self.leaf_span, inner_span: 4, entries, cut }
    }
}

/// Looks at the memory node.
type Look = Box<dyn FnMut(&[u8])>;

/// A lane, and what it does.
type Work<'a, 'm, R> = (&'a Lane<'m>, Pin<Box<dyn Future<Output = R> + 'a>>);

/// The memory node, and what was asked of it.
struct Pool {
    region: RefCell<Vec<u8>>,
    geometry: NodeGeometry,
    /// Requests since they were taken last.
    requests: RefCell<Vec<(Verb, Label)>>,
    /// Called after each request for the memory node.
    after: RefCell<Option<Look>>,
    may_answer: AtomicBool,
    /// Lines and atomics that still land before the compute node dies.
    lives: Cell<usize>,
}

impl Pool {
    fn new() -> Self {
        let geometry = small_for_tests();
        Self {
            region: RefCell::new(vec![0; geometry.region_bytes as usize]),
            geometry,
            requests: RefCell::default(),
            after: RefCell::default(),
            may_answer: AtomicBool::new(true),
            lives: Cell::new(usize::MAX),
        }
    }

    fn taken(&self) -> Vec<(Verb, Label)> {
        core::mem::take(&mut *self.requests.borrow_mut())
    }

    fn carry_out(&self, request: &Request, scratch: &mut [u8]) -> Completion {
        let mut completion = Completion { status: Status::Ok, ..Completion::NOTHING };
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        self.requests.borrow_mut().push((request.verb, request.label));
        let mut region = self.region.borrow_mut();
        match request.verb {
            Verb::Read => scratch[local..local + bytes].copy_from_slice(&region[at..at + bytes]),
            Verb::Write => {
                let inline = request.inline_payload();
                let is_inline = request.flags.contains(Flags::INLINE);
                let from = if is_inline { &inline[..bytes] } else { &scratch[local..local + bytes] };
                let mut start = 0;
                while start < bytes && self.lands() {
                    let end = (start + LINE_BYTES - (at + start) % LINE_BYTES).min(bytes);
                    region[at + start..at + end].copy_from_slice(&from[start..end]);
                    start = end;
                }
            }
            Verb::Cas if !self.lands() => {}
            Verb::Cas => {
                completion.value = u64::from_le_bytes(region[at..at + 8].try_into().unwrap());
                if completion.value == request.operands[0] {
                    region[at..at + 8].copy_from_slice(&request.operands[1].to_le_bytes());
                }
            }
            verb => unreachable!("{verb:?}"),
        }
        if let Some(after) = &mut *self.after.borrow_mut() {
            after(&region);
        }
        completion
    }

    /// One line, or one CAS, is about to take effect. `false`: the compute node is dead.
    fn lands(&self) -> bool {
        let lives = self.lives.get();
        self.lives.set(lives.saturating_sub(1));
        lives > 0
    }

    /// Executes what a lane has submitted. Returns the lanes that it wakes.
    fn execute(&self, lane: &Lane<'_>) -> Vec<u16> {
        let port = lane.port();
        let requests: Vec<Request> = port.requests().to_vec();
        let scratch = port.begin().expect("requests");
        let mut woken = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            match request.verb {
                Verb::Wake => woken.push(request.operands[0] as u16),
                verb if verb.is_local() => {}
                _ => assert_eq!(port.complete(position, self.carry_out(request, scratch)), None),
            }
        }
        // Pauses take the time that they ask for, so that leases end.
        let paused_ns: u64 = requests.iter().filter(|request| request.verb == Verb::Pause).map(|r| r.operands[0]).sum();
        assert_eq!(port.finish(scratch, 1000 + paused_ns), None);
        woken
    }

    /// Runs one lane to its end; nobody else is at work.
    fn run<R>(&self, lane: &Lane<'_>, future: impl Future<Output = R>) -> R {
        self.try_run(lane, future).expect("nobody dies")
    }

    /// The same. `None`: the compute node has died.
    fn try_run<R>(&self, lane: &Lane<'_>, future: impl Future<Output = R>) -> Option<R> {
        let mut future = Box::pin(future);
        lane.port().start();
        for _ in 0..100_000 {
            if self.lives.get() == 0 {
                return None;
            }
            match poll_once(lane.port(), future.as_mut()) {
                Step::Done(result) => {
                    if lane.port().flush() {
                        self.execute(lane);
                        lane.port().reset();
                    }
                    return Some(result);
                }
                Step::Requests => drop(self.execute(lane)),
                Step::Waiting => {}
            }
        }
        {
            let asked = self.taken();
            panic!("no end: {:?}", &asked[asked.len().saturating_sub(12)..])
        };
    }

    /// Runs lanes in turns until all are done, each step of one of them drawn by `draw`. A lane that parks goes on when
    /// it is woken.
    fn run_all<R>(&self, mut work: Vec<Work<'_, '_, R>>, mut draw: impl FnMut(usize) -> usize) -> Vec<R> {
        let mut results: Vec<Option<R>> = work.iter().map(|_| None).collect();
        let mut asleep = vec![false; work.len()];
        let mut posted = vec![false; work.len()];
        for (lane, _) in &work {
            lane.port().start();
        }
        for _ in 0..1_000_000 {
            let able: Vec<usize> = (0..work.len()).filter(|&at| results[at].is_none() && !asleep[at]).collect();
            if able.is_empty() {
                assert!(results.iter().all(Option::is_some), "lanes sleep, and nobody wakes them");
                return results.into_iter().map(Option::unwrap).collect();
            }
            let at = able[draw(able.len())];
            let lane = work[at].0;
            let mut woken = Vec::new();
            if posted[at] {
                posted[at] = false;
                woken = self.execute(lane);
            } else {
                match poll_once(lane.port(), work[at].1.as_mut()) {
                    Step::Done(result) => {
                        results[at] = Some(result);
                        if lane.port().flush() {
                            woken = self.execute(lane);
                            lane.port().reset();
                        }
                    }
                    Step::Requests if lane.port().requests().iter().any(|request| request.verb == Verb::Park) => {
                        // Its wakes go out now, and it goes on when it is woken itself.
                        asleep[at] = true;
                        woken = self.execute(lane);
                    }
                    Step::Requests => posted[at] = true,
                    Step::Waiting => {}
                }
            }
            for id in woken {
                if let Some(at) = work.iter().position(|(lane, _)| lane.id().0 == id) {
                    asleep[at] = false;
                }
            }
        }
        panic!("no end");
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
    let shape = TableShape::new(8, setup.entries).unwrap();
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
    let cells: Vec<EntryCell> = (0..setup.entries).map(|_| EntryCell::default()).collect();
    let (mut boundaries, mut order) = (vec![0; Partition::boundary_bytes(&table)], vec![0; setup.entries as usize]);
    let (mut spare, mut spares) = (boundaries.clone(), order.clone());
    let partition = Partition::open(&table, member.row, &mut boundaries, &mut order, &cells).unwrap();
    for entry in 0..setup.owned {
        assert!(partition.admit(entry).is_some());
    }
    // The log.
    let geometry = [pool.geometry];
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
    let mut free = [(); NodeClass::COUNT].map(|()| vec![FreeNode::default(); 64]);
    let slabs = free.each_mut().map(|free| Mutex::new(NodeSlab::new(free)));
    let (requests, cache) = (RequestIds::new(), storage(8 << 10));
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
    let owners = OwnersRoom { boundaries: &mut spare, order: &mut spares, cells: &cells };
    let parts = Parts { tree, store, owners, log, ring_lines: ring.lines(), may_answer: &may_answer, levels: &levels };
    let dex = Dex::new(parts, &parameters, plan.clone(), scratch).unwrap();
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
