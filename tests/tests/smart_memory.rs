//! How much of the pool a SMART index takes: a node has room for its own slots, not for those of the largest type. Also
//! tests a full pool, part of which is in limbo.

use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome};
use dm_core::radix::slot::NodeType;
use dm_core::remote::row::{Joiner, Row};
use dm_core::smart::Smart;
use dm_core::smart::parameters::Parameters;
use dm_core::verbs::{Label, LaneId, NodeId, Space, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::Kind as _;
use dm_sim::block_on;
use dm_sim::rng::Rng;
use dm_tests::client::alone;
use dm_tests::fabric::{AnyFabric, poke};
use dm_tests::pool::place;
use dm_tests::subject::Shape;
use dm_tests::subject::smart::{SmartSubject, walk};
use dm_tests::test_bed::{Direct, Fixture, Setup, TestBed};
use std::collections::BTreeSet;
use std::pin::pin;
use zerocopy::IntoBytes;

/// Seal, value, key and lock of a leaf of 8-byte keys and values.
const LEAF_BYTES: u64 = 32;

/// Each leaf and each node has one slot that leads to it.
const SLOT_BYTES: u64 = 8;

/// Uniform keys, inserted one by one, so that nodes have grown through their types. How full nodes are depends on how many keys there
/// are, again and again with every factor of 256: so at many counts.
#[test]
fn nodes_and_leaves_take_half_as_much_again_as_slots_in_use_and_leaves() {
    let mut setup = Setup::new(Shape::words(2, 2));
    setup.region_bytes = 16 << 20;
    setup.chunk_nodes = 64;
    alone(&SmartSubject, &Direct, &setup, |client| {
        let (mut count, mut next) = (0u64, 250);
        while next <= 128_000 {
            while count < next {
                count += 1;
                // An odd factor: no key comes twice.
                let run = client.run(OperationKind::Insert, count.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1, 0);
                assert_eq!(run.result, Ok(Outcome::Inserted));
            }
            let census = client.validate();
            assert_eq!(census.leaves, count);
            let least = census.leaves * LEAF_BYTES + (census.leaves + census.inner_nodes) * SLOT_BYTES;
            assert!(
                census.live_bytes * 2 <= least * 3,
                "{count} records: {} bytes, of which {least} are slots in use and leaves",
                census.live_bytes
            );
            next *= 2;
        }
    });
}

/// A bulk load begins at the node that took the record before. It freezes nothing, since nobody else knows its nodes. It takes
/// the smallest nodes that have the slots; if new nodes have a reserve, a quarter of each node stays free, so inserts that follow
/// replace few nodes.
#[test]
fn a_bulk_load_leaves_room_where_new_nodes_have_a_reserve() {
    for (key_bytes, has_reserve) in [(8, false), (16, true)] {
        let mut setup = Setup::new(Shape { key_bytes, ..Shape::words(2, 2) });
        setup.region_bytes = 16 << 20;
        setup.chunk_nodes = 64;
        alone(&SmartSubject, &Direct, &setup, |client| {
            // Two first bytes, so some forty keys have the first two in common.
            let mut rng = Rng::new(1);
            let numbers: BTreeSet<u64> = (0..20_000).map(|_| rng.bits() >> 7).collect();
            let mut keys: Vec<u64> = numbers.into_iter().collect();
            keys.sort_by_cached_key(|&n| client.key(n));
            let mut short = 0;
            for &n in &keys {
                client.arguments(0, n, 1, 0);
                let run = client.drive(0, client.index.bulk_append(&client.lanes[0]));
                assert_eq!((run.result, run.count(Verb::MaskedCas, Label::Freeze)), (Ok(()), 0));
                short += usize::from(run.counts.round_trips <= 2);
            }
            // READ the node that took the record before; WRITE the leaf and CAS its slot.
            assert!(short * 2 > keys.len(), "{short} records of {} in two round trips", keys.len());
            let grown = client.lanes[0].marked(Mark::NODE_REPLACED);
            assert!(grown > 200, "only {grown} nodes have grown");
            client.bulk_finish().unwrap();
            let found = walk(client.fabric, client.geometry);
            assert_eq!(found.leaves.len(), keys.len());
            let mut full = 0;
            for (kind, taken) in found.nodes.into_iter().filter(|(kind, _)| *kind != NodeType::LARGEST) {
                assert!(taken * 4 <= kind.slots() * 3 || !has_reserve, "{taken} of {} slots", kind.slots());
                full += usize::from(taken == kind.slots());
            }
            assert!(has_reserve || full > 10, "{full} nodes without a free slot");
            client.validate();
        });
    }
}

/// A compute node that takes part in the epochs, whose pool has a few chunks. The first lane runs operations, the
/// second makes turns.
struct Small<'a, 's, 'm> {
    index: &'a Smart<'s>,
    lanes: &'a [Lane<'m>; 2],
    fabric: &'a mut AnyFabric,
    epochs: &'a Epochs,
    pins: &'a [Pin; 2],
    /// Pauses of operations that waited for memory, and after how many of them a turn follows; 0: no turns.
    waited: u64,
    pauses_per_turn: u64,
    /// Chunks of the pool.
    chunks: u32,
}

/// The shortest pause of an operation that waits for memory; lanes wait for each other for less.
const PAUSE_NS: u64 = 500_000;

impl Small<'_, '_, '_> {
    fn turn(&mut self) {
        let keeper = &self.lanes[1];
        block_on(keeper, self.fabric, self.index.turn(keeper)).unwrap().result.unwrap();
    }

    fn run(&mut self, kind: OperationKind, n: u64) -> Result<Outcome, OpError> {
        let plan = self.index.plan();
        let lane = &self.lanes[0];
        let port = lane.port();
        port.with(|scratch| {
            scratch[plan.key.clone()].copy_from_slice(&n.to_be_bytes());
            scratch[plan.value.clone()].copy_from_slice(&n.to_le_bytes());
        });
        let mut future = pin!(self.index.execute(lane, Operation::point(kind)));
        port.start();
        loop {
            if let Step::Done(result) = poll_once(port, future.as_mut()) {
                assert!(!port.flush());
                return result;
            }
            let pause_ns = port.requests().iter().find(|request| request.verb == Verb::Pause).map(|it| it.operands[0]);
            let Some(ns) = pause_ns else {
                self.fabric.post(std::slice::from_ref(lane), 0);
                continue;
            };
            if ns >= PAUSE_NS {
                assert_eq!(port.requests().len(), 1, "it waits and does nothing else");
                assert!(!lane.is_unsettled(), "it has no lock record");
                self.waited += 1;
                if self.pauses_per_turn > 0 && self.waited.is_multiple_of(self.pauses_per_turn) {
                    self.turn();
                    // No pin holds an older epoch: without operations under way, the row says the pool's epoch.
                    assert_eq!(self.epochs.publishable(self.pins), self.epochs.publishable(&[]));
                }
            }
            let scratch = port.begin().unwrap();
            port.finish(scratch, ns);
        }
    }
}

fn small(chunks: usize, pauses_per_turn: u64, test: impl FnOnce(&mut Small<'_, '_, '_>)) {
    let setup = Setup { chunk_nodes: 15, ..Setup::new(Shape::words(2, 2)) };
    let chunk_bytes = setup.chunk_bytes(&SmartSubject) as usize;
    let setup = Setup { region_bytes: (64 << 10) + chunks * chunk_bytes, ..setup };
    let TestBed { geometry, mut fabric } = Direct.test_bed(&SmartSubject, &setup);
    let (epochs, pins) = (Epochs::new(), [Pin::default(), Pin::default()]);
    let at = place(&geometry, 0, Fabric::capabilities(&fabric), Fabric::guarantees(&fabric));
    let row =
        Row::of(at.member, &Joiner { token: u64::from(at.member.nonce), lanes: 2, memory_nodes: 1, host: "here" });
    poke(&mut fabric, Space::Host, NodeId(0), geometry[0].row_offset(at.member.row), row.as_bytes());
    let at = Place { epochs: Some(Participant { epochs: &epochs, pins: &pins }), ..at };
    let spending = Spending { lanes: 2, ..setup.spending };
    let result = Parameters::with_sizes(8, 8).with(&at, &spending, |index| {
        let mut scratch = [vec![0; index.plan().total_bytes], vec![0; index.plan().total_bytes]];
        let [first, second] = &mut scratch;
        let lanes = [Lane::new(LaneId(0), first), Lane::new(LaneId(1), second)];
        let (fabric, epochs, pins, chunks) = (&mut fabric, &epochs, &pins, geometry[0].chunk_count);
        test(&mut Small { index, lanes: &lanes, fabric, epochs, pins, waited: 0, pauses_per_turn, chunks });
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Keys in random order, without duplicates.
const fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn a_small_pool_is_written_over_and_over_at_the_speed_of_the_epochs() {
    small(12, 5, |node| {
        let live = 300;
        for n in 0..30_000 {
            let inserted = node.run(OperationKind::Insert, spread(n));
            assert_eq!(inserted, Ok(Outcome::Inserted), "insert {n}, waited {} times", node.waited);
            if n >= live {
                assert_eq!(node.run(OperationKind::Delete, spread(n - live)), Ok(Outcome::Deleted));
            }
        }
        assert!(node.waited > 100, "it went round more often than turns passed by themselves: {}", node.waited);
        assert!(node.lanes[0].marked(Mark::LIMBO_LEFT) > 10_000);
        assert_eq!(node.index.space().retired_and_lost().0, 0, "all had room to wait");
        let lane = &node.lanes[0];
        let census = block_on(lane, node.fabric, node.index.validate(lane)).unwrap().result.unwrap();
        assert_eq!(census.records, live);
    });
}

/// Nodes that grow are replaced all the time, so some places are always in limbo. Inserts into a pool that was mostly
/// free waited for these, too, whenever an eighth of the few granted chunks was in limbo. So a load waited as long as
/// it worked.
#[test]
fn inserts_wait_for_memory_when_the_pool_is_short_of_it_and_not_before() {
    small(200, 5, |node| {
        let mut n = 0;
        let mut granted_when_it_waited = None;
        while granted_when_it_waited.is_none() {
            if n % 50 == 0 {
                // As a keeper does, which notices within a few turns that all rows have reached the requested epoch.
                (0..3).for_each(|_| node.turn());
            }
            let inserted = node.run(OperationKind::Insert, spread(n));
            assert_eq!(inserted, Ok(Outcome::Inserted), "the pool is full, and no insert has waited");
            n += 1;
            let granted = node.lanes[0].marked(Mark::CHUNK_GRANTED);
            granted_when_it_waited = (node.waited > 0).then_some(granted);
        }
        let (granted, chunks) = (granted_when_it_waited.unwrap_or(0), node.chunks);
        assert!(node.lanes[0].marked(Mark::LIMBO_LEFT) > 0, "what was replaced is used again");
        assert!(granted * 3 > chunks, "an insert waited when {granted} of {chunks} chunks were granted");
        assert!(granted < chunks, "no insert waited before the last chunk was granted");
    });
}

#[test]
fn where_no_turn_comes_a_full_pool_is_full_at_the_deadline() {
    small(12, 0, |node| {
        let mut n = 0;
        let full = loop {
            match node.run(OperationKind::Insert, spread(n)) {
                Ok(outcome) => assert_eq!(outcome, Outcome::Inserted),
                Err(error) => break error,
            }
            assert_eq!(node.run(OperationKind::Delete, spread(n)), Ok(Outcome::Deleted));
            n += 1;
        };
        assert_eq!((full.cause, full.effect), (Cause::PoolFull, Effect::None));
        // It answers a little before its deadline, for the sake of those that wait for it.
        let least_ns = Operation::WAIT_NS_DEFAULT - 5_000_000;
        assert!(node.lanes[0].port().elapsed_ns() >= least_ns, "it waited for nearly as long as it might");
        assert!(!node.lanes[0].in_doubt());
    });
}
