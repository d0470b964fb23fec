//! What lanes draw where keys have owners.

use super::tests::standard;
use super::*;
use crate::workload::spec::StandardWorkload;
use std::collections::HashSet;
use std::sync::Mutex;

/// Lanes of compute nodes that own every `nodes`th record each, two lanes a node.
fn owned_lanes(spec: Spec, nodes: u32, run: impl Fn(u32, &InsertCounter, Lane<'_>)) -> Vec<u64> {
    let each = NonZeroU32::new(2).unwrap();
    let records = spec.record_count;
    let workload = Workload::new(spec, 42, NonZeroU32::new(2 * nodes).unwrap()).unwrap();
    let of_node = |node: u32| {
        let counter = Arc::new(InsertCounter::new(records));
        let owns = |record: u64| record % u64::from(nodes) == u64::from(node);
        for lane in 2 * node..2 * node + 2 {
            let share = Some(Share { lanes: each, owns: &owns });
            run(node, &counter, workload.lane_of(lane, Arc::clone(&counter), share));
        }
        counter.inserted()
    };
    (0..nodes).map(of_node).collect()
}

#[test]
fn owners_load_every_record_once_each_its_own() {
    let loaded = Mutex::new(Vec::new());
    owned_lanes(standard(StandardWorkload::Load, 100, 0), 3, |node, _, lane| {
        for draw in lane.map(Result::unwrap) {
            assert_eq!((draw.kind, draw.record % 3), (OperationKind::Insert, u64::from(node)));
            loaded.lock().unwrap().push(draw.record);
        }
    });
    let mut loaded = loaded.into_inner().unwrap();
    loaded.sort_unstable();
    assert_eq!(loaded, (0..100).collect::<Vec<_>>());
}

#[test]
fn owners_draw_their_own_records_only_and_all_operations() {
    for workload in [StandardWorkload::A, StandardWorkload::C, StandardWorkload::D, StandardWorkload::E] {
        let drawn = Mutex::new((HashSet::new(), 0));
        let inserted = owned_lanes(standard(workload, 100, 9_000), 3, |node, counter, lane| {
            for draw in lane.map(Result::unwrap) {
                assert_eq!(draw.record % 3, u64::from(node));
                let (inserts, count) = &mut *drawn.lock().unwrap();
                *count += 1;
                if draw.kind == OperationKind::Insert {
                    assert!(draw.record >= 100 && inserts.insert(draw.record), "record {} twice", draw.record);
                    counter.acknowledge(draw.record);
                } else {
                    assert!(draw.record < 100 || inserts.contains(&draw.record), "record {} is absent", draw.record);
                }
            }
        });
        let (inserts, count) = drawn.into_inner().unwrap();
        assert_eq!((count, inserted.iter().sum::<u64>()), (9_000, inserts.len() as u64));
    }
}

#[test]
fn an_owner_of_one_record_finds_it() {
    let spec = standard(StandardWorkload::C, 100_000, 200);
    let workload = Workload::new(spec, 42, NonZeroU32::MIN).unwrap();
    let owns = |record: u64| record == 99_999;
    let share = Some(Share { lanes: NonZeroU32::MIN, owns: &owns });
    let lane = workload.lane_of(0, Arc::new(InsertCounter::new(100_000)), share);
    assert!(lane.map(Result::unwrap).all(|draw| draw.record == 99_999));
}
