//! An index driven with static memory only: no allocator, no executor, no threads - what firmware does.
//!
//! Everything is an array of a size known when this is compiled: the lane's scratch, the local tables, the index cache,
//! the futures (on the stack), and the "memory node", which is an array behind a fabric of thirty lines. Only the
//! printing needs an operating system.
//!
//! `cargo run -p dm-core --example static_memory`

use dm_core::btree::descent::RootCopy;
use dm_core::btree::{Options, Tree};
use dm_core::compute::batches::Batches;
use dm_core::compute::cache::IndexCache;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::machine::{Machine, Step};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::node_pool::{FreeNode, NodePool, NodeSlab};
use dm_core::operation::{Operation, OperationKind, Outcome};
use dm_core::port::Port;
use dm_core::registry::KindParameters;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::place::NodeClass;
use dm_core::remote::row::Member;
use dm_core::sherman::Sherman;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Capabilities, Completion, Flags, LaneId, NodeId, Request, Space, Status, Verb};
use spin::Mutex;
use std::pin::pin;
use std::sync::atomic::AtomicU32;

/// Sizes of the index; what follows from them is computed at compile time where an array needs it.
const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 8, inner_span: 8 };
const SCRATCH_BYTES: usize = 8 << 10;
const LOCKS: usize = 16;
const CACHE_WORDS: usize = 1024;
const REGION_BYTES: usize = 64 << 10;

/// Where things are in the region below, as a superblock would say.
const GEOMETRY: [NodeGeometry; 1] = [NodeGeometry {
    region_bytes: REGION_BYTES as u64,
    catalog: 0x1000,
    index_count: 1,
    rows: 0x2000,
    row_count: 2,
    redo: 0x3000,
    redo_row_bytes: 0,
    chunk_table: 0x3000,
    chunk_count: 12,
    heap: 0x4000,
    chunk_bytes: 0x1000,
    lock_space: Space::Host,
    lock_table: 0x3800,
    lock_count: LOCKS as u32,
}];

static SCRATCH: Mutex<[u8; SCRATCH_BYTES]> = Mutex::new([0; SCRATCH_BYTES]);
static REGION: Mutex<[u8; REGION_BYTES]> = Mutex::new([0; REGION_BYTES]);
static CACHE: [AtomicU32; CACHE_WORDS] = [const { AtomicU32::new(0) }; CACHE_WORDS];
static REQUESTS: RequestIds = RequestIds::new();

/// Executes the requests of a submit on `region`, in order, and says what they were.
fn execute(port: &Port<'_>, region: &mut [u8; REGION_BYTES]) {
    let Some(scratch) = port.begin() else { return };
    let mut separator = "    ";
    for (position, request) in port.requests().iter().enumerate() {
        print!("{separator}{} {} {}", request.verb.name(), request.label.name(), request.bytes);
        separator = ", ";
        assert_eq!(port.complete(position, carry_out(request, scratch, region)), None);
    }
    println!();
    assert_eq!(port.finish(scratch, 0), None);
}

fn carry_out(request: &Request, scratch: &mut [u8], region: &mut [u8; REGION_BYTES]) -> Completion {
    let mut completion = Completion::default();
    let (offset, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
    if request.verb.is_local() {
        return completion;
    }
    let Some(remote) = region.get_mut(offset..offset + bytes) else {
        completion.status = Status::Refused;
        return completion;
    };
    match request.verb {
        Verb::Read => scratch[local..local + bytes].copy_from_slice(remote),
        Verb::Write if request.flags.contains(Flags::INLINE) => {
            remote.copy_from_slice(&request.inline_payload()[..bytes]);
        }
        Verb::Write => remote.copy_from_slice(&scratch[local..local + bytes]),
        Verb::Cas => {
            let [compare, swap, ..] = request.operands;
            let mut word = [0; 8];
            word.copy_from_slice(remote);
            completion.value = u64::from_le_bytes(word);
            if completion.value == compare {
                remote.copy_from_slice(&swap.to_le_bytes());
            }
        }
        _ => completion.status = Status::Unsupported,
    }
    completion
}

/// One operation from beginning to end: poll, execute, poll.
fn run(index: &Sherman<'_>, lane: &Lane<'_>, region: &mut [u8; REGION_BYTES], kind: OperationKind) -> Option<Outcome> {
    let future = pin!(index.execute(lane, Operation::point(kind)));
    let mut machine = Machine::new(lane.port(), future);
    let result = loop {
        match machine.poll() {
            Step::Requests => execute(lane.port(), region),
            Step::Waiting => return None,
            Step::Done(result) => break result,
        }
    };
    // Unsignaled requests are left for the driver; alone on its node a lane leaves none.
    if lane.port().flush() {
        execute(lane.port(), region);
        lane.port().reset();
    }
    result.ok()
}

fn main() {
    let mut scratch = SCRATCH.lock();
    let mut region = REGION.lock();
    let entries: [_; LOCKS] = std::array::from_fn(|_| Entry::default());
    let waiters = [Waiter::default()];
    let mut free = [[FreeNode::default(); 4]; NodeClass::COUNT];
    let slabs = free.each_mut().map(|free| Mutex::new(NodeSlab::new(free)));
    let number = IndexNumber::new(0).expect("the first entry of the catalog");
    let (plan, tree_scratch) = PARAMETERS.plan(4, 2);
    assert!(plan.total_bytes <= SCRATCH_BYTES, "a lane needs {} bytes of scratch", plan.total_bytes);
    let tree = Tree {
        number,
        index: number.in_nodes(),
        owner: Member { row: RowId(1), incarnation: 1, nonce: 1 },
        requests: &REQUESTS,
        geometry: &GEOMETRY,
        root_word: (NodeId(0), root_offset(&GEOMETRY[0], number)),
        root: RootCopy::default(),
        inner: PARAMETERS.inner(),
        leaf_bytes: PARAMETERS.leaf().bytes,
        capabilities: Capabilities {
            masked_atomics: false,
            device_bytes: 0,
            inline_bytes_max: 32,
            outstanding_reads_max: 1,
            chain_requests_max: 16,
            fencing: false,
            crash_atomic_bytes: 8,
            write_turn_ns_min: 0,
            call_bytes_max: 0,
            calls_change: false,
        },
        options: Options::default(),
        recovery: None,
        epochs: None,
        scratch: tree_scratch,
        locks: LockTable::new(&entries, LOCKS as u32, &waiters, 4),
        batches: Batches::new(&[], &[], &[]),
        nodes: NodePool::new(&slabs, [PARAMETERS.leaf().bytes as u32, PARAMETERS.inner().bytes as u32]),
        cache: IndexCache::new(&CACHE, PARAMETERS.key_bytes, PARAMETERS.inner_span + 1),
    };
    let index = Sherman::new(tree, &PARAMETERS, plan).expect("parameters in range");
    let lane = Lane::new(LaneId(0), &mut scratch[..]);

    for n in 0..20u64 {
        let plan = index.plan();
        lane.port().with(|scratch| {
            scratch[plan.key.clone()].copy_from_slice(&n.to_be_bytes());
            scratch[plan.value.clone()].copy_from_slice(&(n * n).to_le_bytes());
        });
        println!("insert {n}");
        let outcome = run(&index, &lane, &mut region, OperationKind::Insert);
        assert_eq!(outcome, Some(Outcome::Inserted));
    }
    let plan = index.plan();
    lane.port().with(|scratch| scratch[plan.key.clone()].copy_from_slice(&12u64.to_be_bytes()));
    println!("get 12");
    assert_eq!(run(&index, &lane, &mut region, OperationKind::Get), Some(Outcome::Found));
    let mut value = [0; 8];
    lane.port().with(|scratch| value.copy_from_slice(&scratch[plan.output.clone()]));
    println!("value {}", u64::from_le_bytes(value));
    assert_eq!(u64::from_le_bytes(value), 144);
}
