//! What a collection of orphans asks of memory nodes: by owner tags (nodes of B+-trees), and by mark-and-sweep (blocks
//! of items over such a tree, which its walk READs leaf by leaf).

use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::run::{Emitted, block_on};
use crate::verify::subject::Opened;
use crate::verify::tree::{FREE_LIST_HOLDS_ALL, LEASE_NS, TreeCase};
use crate::verify::walk;
use dm_core::items;
use dm_core::lane::Lane;
use dm_core::membership::{Recovery, UNIT_BYTES_MIN, rows};
use dm_core::memory::Participant;
use dm_core::operation::{Operation, OperationKind, Part};
use dm_core::remote::row::{CHUNKS_AT_ONCE, Member};
use dm_core::sherman;
use dm_core::verbs::{Label, LaneId, Verb};
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
    /// READs that bring the whole chunk table, sixteen entries each.
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
    let parameters = if items { below.below.with_items(ITEMS) } else { below };
    let spending = Spending { cache_bytes: 8 << 20, returned_nodes: FREE_LIST_HOLDS_ALL, ..Spending::default() };
    TreeCase {
        parameters,
        spending,
        lock_count: 4096,
        chunk_bytes: 16 << 10,
        lanes: vec![1; COMPUTE_NODES],
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

/// Three compute nodes fill the index; one of them also deletes a part of the keys, and leaves. Another collects.
fn cost(items: bool) -> Cost {
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
    let mut cost = Cost { windows, ..Cost::default() };
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
        let (index, lane) = (opened[1], &lanes[1]);
        loop {
            let run = block_on(lane, &mut fabric, index.collect_orphans(lane)).unwrap();
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
            for node in 1..COMPUTE_NODES {
                let (index, lane) = (opened[node], &lanes[node]);
                block_on(lane, &mut fabric, index.turn(lane)).unwrap().result.unwrap();
                index.for_each_ready(&mut |_| {});
            }
        }
        cost.leaves = block_on(lane, &mut fabric, index.validate(lane)).unwrap().result.unwrap().leaves;
    };
    walk::open_all(COMPUTE_NODES, &open, &[], &mut then).unwrap();
    cost
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
