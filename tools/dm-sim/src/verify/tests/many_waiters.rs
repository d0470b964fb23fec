//! How soon a lock is taken over whose holder has died, when many lanes of one compute node wait for it.

use crate::compute_node::ComputeNode;
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{Driver, DriverConfig, Event, LaneAt, Op};
use crate::run::block_on;
use crate::verify::subject::Opened;
use crate::verify::tree::{FREE_LIST_HOLDS_ALL, TreeCase};
use crate::verify::walk;
use crate::world::World;
use dm_core::btree::Options;
use dm_core::lane::{Lane, Stage};
use dm_core::locks::{ChainedRead, Unlock};
use dm_core::membership::UNIT_BYTES_MIN;
use dm_core::operation::{OpError, Operation, OperationKind, Outcome, Part};
use dm_core::verbs::LaneId;
use dm_core::{chime, sherman, smart};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::IndexParameters;

fn case(parameters: IndexParameters, lanes: u16, lease_ns: u64) -> TreeCase {
    // The holder dies as soon as it has the lock. What it has posted by then shall not free it: neither a WRITE of data that
    // frees the lock, too, nor one that follows a READ with the CAS.
    let options = Options { chain_lock_read: ChainedRead::Never, unlock: Unlock::Cas, ..Options::default() };
    let returned_nodes = FREE_LIST_HOLDS_ALL;
    TreeCase {
        parameters,
        spending: Spending { cache_bytes: 1 << 16, returned_nodes, options, ..Spending::default() },
        lock_count: 61,
        // Redo records of so many lanes.
        chunk_bytes: 256 << 10,
        lanes: vec![1, lanes],
        compute_nodes: 2,
        digits: None,
        stretch: None,
        lease_ns,
    }
}

/// More than it takes to fence a compute node and to recover a lock, whatever the lease: some requests of a simulated
/// fabric take a millisecond.
const FENCING_NS: u64 = 4_000_000;

/// The only key of the index.
const KEY: u64 = 7;

fn write<'a>(index: &'a dyn Opened, lane: &'a Lane<'_>, kind: OperationKind) -> Op<'a, Result<Outcome, OpError>> {
    let plan = index.plan();
    lane.port().with(|scratch| {
        assert!(plan.put(scratch, Part::Key, &KEY.to_be_bytes()) && plan.put(scratch, Part::Value, &[1; 8]));
    });
    index.execute(lane, Operation::point(kind))
}

fn lanes_of(scratch: &mut [Vec<u8>]) -> Vec<Lane<'_>> {
    (0..).zip(scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect()
}

/// A compute node dies with the lock of a leaf. All lanes of another one update that leaf's record. Returns after how
/// many ns the first of them is done.
fn first_is_done_after(parameters: IndexParameters, lanes: u16, lease_ns: u64) -> u64 {
    let case = case(parameters, lanes, lease_ns);
    let mut config = Config::with_nodes(1, 16 << 20);
    config.fences = true;
    config.crash_atomic_bytes = config.crash_atomic_bytes.max(UNIT_BYTES_MIN);
    let geometry = case.pool().geometry(&config);
    let mut world = World::new(config.clone(), 1);
    case.pool().format(&config, world.memories_mut());
    let joined = case.join_all(&config, world.memories_mut()).unwrap();
    let capabilities = config.capabilities();
    let recoveries: Vec<_> = joined.iter().map(|membership| membership.recovery(&capabilities).unwrap()).collect();
    let place = walk::place(&geometry, &config, config.guarantees(), 0);
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let recovery = &recoveries[number];
        case.open(&Place { member: recovery.member(), recovery: Some(recovery), ..place }, number, then)
    };
    let mut after_ns = 0;
    let mut then = |opened: &[&dyn Opened]| {
        let [dying, waiting] = opened else { panic!("two compute nodes") };
        let mut scratch = vec![vec![0; dying.plan().total_bytes]; 1 + usize::from(lanes)];
        let (one, others) = scratch.split_at_mut(1);
        let (one, others) = (lanes_of(one), lanes_of(others));
        let mut fabric = DirectFabric::over(&config, world.memories_mut());
        let insert = write(*dying, &one[0], OperationKind::Insert);
        assert_eq!(block_on(&one[0], &mut fabric, insert).unwrap().result, Ok(Outcome::Inserted));
        let mut driver = Driver::new(&mut world, &[&one, &others], DriverConfig::default());
        driver.spawn(LaneAt::new(0, 0), write(*dying, &one[0], OperationKind::Update));
        while !one[0].lock_records().iter().any(|record| record.stage == Stage::Held) {
            driver.step().unwrap();
        }
        driver.kill_compute_node(ComputeNode(0));
        for (number, lane) in (0..).zip(&others) {
            driver.spawn(LaneAt::new(1, number), write(*waiting, lane, OperationKind::Update));
        }
        let began_ns = driver.now_ns();
        let mut left = lanes;
        while left > 0 {
            if let Event::Done { now_ns, result, .. } = driver.next().unwrap() {
                assert_eq!(result, Ok(Outcome::Updated));
                after_ns = if left == lanes { now_ns - began_ns } else { after_ns };
                left -= 1;
            }
        }
    };
    walk::open_all(2, &open, &[], &mut then).unwrap();
    after_ns
}

/// A waiter left the local queue before it looked at the holder, so the next lane had its turn. With leases of 0.4 ms,
/// eleven lanes went round and none ever looked. With longer ones, each waited for a quarter of a lease in its turn, and
/// operations reached their deadlines before any lane had looked twice.
#[test]
fn a_dead_holder_is_replaced_after_one_lease_however_many_lanes_wait() {
    let (key_bytes, value_bytes) = (8, 8);
    let trees: [IndexParameters; 3] = [
        sherman::parameters::Parameters { key_bytes, value_bytes, leaf_span: 8, inner_span: 32 }.into(),
        chime::parameters::Parameters::with_sizes(key_bytes, value_bytes).into(),
        smart::parameters::Parameters::with_sizes(key_bytes, value_bytes).into(),
    ];
    for lease_ns in [400_000, 2_000_000_000] {
        for parameters in trees {
            for lanes in [1, 2, 11, 64] {
                let after_ns = first_is_done_after(parameters, lanes, lease_ns);
                assert!(
                    (lease_ns..2 * lease_ns + FENCING_NS).contains(&after_ns),
                    "{parameters:?}: {lanes} lanes, a lease of {lease_ns} ns: after {after_ns} ns"
                );
            }
        }
    }
}
