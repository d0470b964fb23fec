//! What a collection of orphans asks of memory nodes: by owner tags (nodes of B+-trees), and by mark-and-sweep (blocks
//! of items over such a tree, which its walk READs leaf by leaf).

use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::run::{Emitted, block_on};
use crate::verify::subject::Opened;
use crate::verify::tree::{FREE_LIST_HOLDS_ALL, LEASE_NS, TreeCase};
use crate::verify::walk;
use dm_core::fabric::{Fabric as _, Posted};
use dm_core::items;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::membership::{Recovery, UNIT_BYTES_MIN, rows};
use dm_core::memory::Participant;
use dm_core::operation::{Operation, OperationKind, Part};
use dm_core::remote::row::{CHUNKS_AT_ONCE, Member};
use dm_core::sherman;
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request, Status, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::IndexParameters;
use std::collections::BTreeMap;

/// The compute node that departs, the one that collects, and one that lives on.
const COMPUTE_NODES: usize = 3;

const RECORDS: u64 = 6_000;

const ITEMS: items::parameters::Parameters = items::parameters::Parameters { key_bytes_max: 8, value_bytes_max: 40 };

/// Requests to memory nodes, by verb and label.
type Counts = BTreeMap<(&'static str, &'static str), u64>;

/// Result of a collection.
#[derive(Debug, Default)]
struct Cost {
    counts: Counts,
    leaves: u64,
    nodes: u64,
    chunks: u64,
    walks: u64,
    /// See [`Left::windows`].
    windows: u64,
}

impl Cost {
    fn of(&self, verb: Verb, label: Label) -> u64 {
        self.counts.get(&(verb.name(), label.name())).copied().unwrap_or(0)
    }

    fn all(&self, verb: Verb) -> u64 {
        self.counts.iter().filter(|((name, _), _)| *name == verb.name()).map(|(_, count)| count).sum()
    }
}

fn case(items: bool) -> TreeCase {
    let (key_bytes, value_bytes) = if items { (16, 24) } else { (8, 32) };
    let below: IndexParameters =
        sherman::parameters::Parameters { key_bytes, value_bytes, leaf_span: 8, inner_span: 32 }.into();
    let parameters = if items { below.below.with_any_length(ITEMS) } else { below };
    let spending = Spending { cache_bytes: 8 << 20, returned_nodes: FREE_LIST_HOLDS_ALL, ..Spending::default() };
    TreeCase {
        parameters,
        spending,
        lock_count: 4096,
        chunk_bytes: 16 << 10,
        lanes: vec![1; COMPUTE_NODES],
        compute_nodes: COMPUTE_NODES,
        digits: None,
        stretch: None,
        lease_ns: LEASE_NS,
    }
}

fn execute(index: &dyn Opened, lane: &Lane<'_>, fabric: &mut DirectFabric<&mut Memories>, delete: bool, key: u64) {
    let plan = index.plan();
    let value = [key as u8; 64];
    let value_bytes = if plan.lengths.is_empty() { plan.value_bytes } else { ITEMS.value_bytes_max };
    lane.port().with(|scratch| {
        assert!(plan.put(scratch, Part::Key, &key.to_be_bytes()));
        assert!(plan.put(scratch, Part::Value, &value[..value_bytes]));
    });
    let kind = if delete { OperationKind::Delete } else { OperationKind::Upsert };
    block_on(lane, fabric, index.execute(lane, Operation::point(kind))).unwrap().result.unwrap();
}

/// What a compute node departed from.
struct Left<'a, 'm, 'f> {
    /// Of all compute nodes. The first has departed.
    opened: &'a [&'a dyn Opened],
    lanes: &'a [Lane<'m>],
    fabric: &'a mut DirectFabric<&'f mut Memories>,
    /// READs that bring the whole chunk table, sixteen entries each.
    windows: u64,
}

impl Left<'_, '_, '_> {
    /// A turn of the epochs of all that are still there.
    fn turn(&mut self) {
        for (index, lane) in self.opened.iter().zip(self.lanes).skip(1) {
            block_on(lane, self.fabric, index.turn(lane)).unwrap().result.unwrap();
            index.for_each_ready(&mut |_| {});
        }
    }
}

/// Three compute nodes fill the index; one of them also deletes a part of the keys, and leaves.
fn with_departed(items: bool, test: &mut dyn FnMut(&mut Left<'_, '_, '_>)) {
    let case = case(items);
    let mut config = Config::with_nodes(2, 16 << 20);
    config.fences = true;
    config.crash_atomic_bytes = config.crash_atomic_bytes.max(UNIT_BYTES_MIN);
    let geometry = case.pool().geometry(&config);
    let mut memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    case.pool().format(&config, &mut memories);
    let joined = case.join_all(&config, &mut memories).unwrap();
    let capabilities = config.capabilities();
    let recoveries: Vec<_> = joined.iter().map(|membership| membership.recovery(&capabilities).unwrap()).collect();
    let place = walk::place(&geometry, &config, config.guarantees(), 0);
    let members: Vec<Member> = recoveries.iter().map(Recovery::member).collect();
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let recovery = &recoveries[number];
        let (epochs, pins) = case.epochs_of(number);
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let here = Place { member: recovery.member(), recovery: Some(recovery), epochs, ..place };
        case.open(&here, number, then)
    };
    let windows = geometry.iter().map(|node| u64::from(node.chunk_count.div_ceil(16))).sum();
    let mut then = |opened: &[&dyn Opened]| {
        let mut fabric = DirectFabric::over(&config, &mut memories);
        let mut scratch: Vec<_> = opened.iter().map(|index| vec![0; index.plan().total_bytes]).collect();
        let lanes: Vec<_> = scratch.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let spread = |number: u64| number * 7_919 % RECORDS;
        for number in 0..RECORDS {
            let node = number as usize % COMPUTE_NODES;
            execute(opened[node], &lanes[node], &mut fabric, false, spread(number));
        }
        // Leaves that are merged away are retired by the one that departs, wherever they lie.
        for key in (0..RECORDS).filter(|key| key % 1_000 < 150) {
            execute(opened[0], &lanes[0], &mut fabric, true, key);
        }
        block_on(&lanes[0], &mut fabric, rows::leave(&lanes[0], &geometry[0], members[0], true))
            .unwrap()
            .result
            .unwrap();
        test(&mut Left { opened, lanes: &lanes, fabric: &mut fabric, windows });
    };
    walk::open_all(COMPUTE_NODES, &open, &[], &mut then).unwrap();
}

/// Another compute node collects.
fn cost(items: bool) -> Cost {
    let mut cost = Cost::default();
    with_departed(items, &mut |left| {
        let (index, lane) = (left.opened[1], &left.lanes[1]);
        cost.windows = left.windows;
        loop {
            let run = block_on(lane, left.fabric, index.collect_orphans(lane)).unwrap();
            let collected = run.result.unwrap();
            let remote = |emitted: &&Emitted| !emitted.verb.is_local();
            for Emitted { verb, label, .. } in run.emitted.iter().filter(remote) {
                *cost.counts.entry((verb.name(), label.name())).or_default() += 1;
            }
            cost.walks += u64::from(run.count(Verb::Read, Label::Leaf) > 100);
            cost.nodes += collected.nodes;
            cost.chunks += u64::from(collected.chunks);
            if collected.is_complete() {
                break;
            }
            left.turn();
        }
        cost.leaves = block_on(lane, left.fabric, index.validate(lane)).unwrap().result.unwrap().leaves;
    });
    cost
}

/// Drives a collection. The submit that `fails` is flushed, and does not land. Returns the WRITEs of heads: memory node
/// and offset; and how often the lane asked whether a queue pair is closed.
fn collect(left: &mut Left<'_, '_, '_>, mut fails: impl FnMut(&Request) -> bool) -> (Vec<(NodeId, u64)>, usize) {
    let (index, lane) = (left.opened[1], &left.lanes[1]);
    let port = lane.port();
    let (mut written, mut asked) = (Vec::new(), 0);
    let mut collection = index.collect_orphans(lane);
    port.start();
    while let Step::Requests = poll_once(port, collection.as_mut()) {
        let requests = port.requests().to_vec();
        let heads = requests.iter().filter(|request| request.verb == Verb::Write && request.label == Label::Header);
        written.extend(heads.map(|request| (request.node, request.offset)));
        asked += requests.iter().filter(|request| request.label == Label::Closed).count();
        if requests.iter().any(&mut fails) {
            let scratch = port.begin().unwrap();
            for (position, _) in requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local()) {
                port.complete(position, Completion { status: Status::Flushed, ..Completion::default() });
            }
            port.finish(scratch, 1000);
        } else {
            assert_eq!(left.fabric.post(std::slice::from_ref(lane), 0), Posted::Completed);
        }
    }
    drop(collection);
    if port.flush() {
        left.fabric.post(std::slice::from_ref(lane), 0);
        port.reset();
    }
    if lane.is_unsettled() {
        block_on(lane, left.fabric, index.settle(lane)).unwrap().result.unwrap();
    }
    (written, asked)
}

/// The WRITE that signs an orphan failed with its queue pair, and could still land. The lane that continued, over
/// another queue pair, began with the same place, signed it and put it on the free list. Then the late WRITE would have
/// retired the leaf that was there by then.
#[test]
fn a_place_whose_head_may_still_be_written_is_not_reused() {
    with_departed(false, &mut |left| {
        let mut failed = None;
        collect(left, |request| {
            let fails = failed.is_none() && request.verb == Verb::Write && request.label == Label::Header;
            if fails {
                failed = Some((request.node, request.offset));
            }
            fails
        });
        let mut written = Vec::new();
        for _ in 0..20 {
            written.extend(collect(left, |_| false).0);
            left.turn();
        }
        assert!(written.len() > 50, "{}", written.len());
        assert!(!written.contains(&failed.unwrap()));
    });
}

/// The WRITE that names the chunks to be closed, or the one that names none any more, failed with its queue pair. Another lane repeats
/// the step, and the next collector follows. So nobody continues before that queue pair is closed.
#[test]
fn a_collection_is_continued_when_no_write_of_it_may_land_late() {
    with_departed(true, &mut |left| {
        let mut failed = 0;
        for _ in 0..60 {
            let mut fails_once = false;
            let (_, asked) = collect(left, |request| {
                let fails = failed < 2 && !fails_once && request.verb == Verb::Write && request.label == Label::Row;
                fails_once |= fails;
                fails
            });
            failed += u32::from(fails_once);
            assert_eq!(asked, usize::from(fails_once));
            left.turn();
        }
        assert_eq!(failed, 2);
        let (index, lane) = (left.opened[1], &left.lanes[1]);
        let collected = block_on(lane, left.fabric, index.collect_orphans(lane)).unwrap().result.unwrap();
        assert!(collected.is_complete(), "{collected:?}");
    });
}

/// Every head is READ once. A leaf in use that the departed compute node wrote is not locked: its lock word and its head
/// are READ. Only orphans cost locks: their own, and that of the leaf that covers their key.
#[test]
fn owner_tags_cost_about_one_read_per_leaf_and_no_lock_for_leaves_in_use() {
    let cost = cost(false);
    assert!(cost.chunks > 5 && cost.nodes > 50 && cost.leaves > 500, "{cost:?}");
    assert_eq!(cost.of(Verb::Read, Label::Chunk), cost.windows, "{cost:?}");
    assert!(cost.of(Verb::Cas, Label::Lock) <= 2 * cost.nodes, "{cost:?}");
    assert!(cost.of(Verb::Read, Label::Lock) > 2 * cost.nodes, "leaves in use were looked at: {cost:?}");
    let places = cost.leaves + cost.nodes;
    assert!(cost.of(Verb::Read, Label::Header) < 2 * places, "{cost:?}");
    assert!(cost.all(Verb::Read) < 3 * places, "{cost:?}");
}

/// A walk READs every leaf, and serves as many chunks as a line names.
#[test]
fn mark_and_sweep_costs_a_read_per_leaf_for_every_seven_chunks() {
    let (nodes, both) = (cost(false), cost(true));
    let blocks = both.chunks - nodes.chunks;
    assert!(blocks > CHUNKS_AT_ONCE as u64, "{both:?}");
    assert_eq!(both.walks, blocks.div_ceil(CHUNKS_AT_ONCE as u64), "{both:?}");
    assert!(both.of(Verb::Read, Label::Leaf) >= both.walks * both.leaves, "{both:?}");
    assert!(both.of(Verb::Read, Label::Leaf) < 2 * both.walks * both.leaves, "{both:?}");
    assert!(both.of(Verb::Read, Label::Chunk) < 3 * both.windows, "{both:?}");
}
