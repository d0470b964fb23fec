//! Random operations against a `BTreeMap`.

use super::runner;
use crate::client::{Client, alone};
use crate::oracle::answer;
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Operation, OperationKind};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

/// One step of a random history.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: OperationKind,
    n: u64,
    /// update_if: expect what is there. Scan: bounded.
    flag: bool,
    /// Scan: `n` is a cursor.
    after: bool,
    /// Scan: records wanted, and twice the bound's distance.
    limit: u32,
}

fn step() -> impl Strategy<Value = Step> {
    // Keys from a small range, now and then an end of the key space.
    let n = prop_oneof![20 => 0..120u64, 1 => Just(u64::MAX)];
    let kind = prop_oneof![
        2 => Just(OperationKind::Get),
        5 => Just(OperationKind::Insert),
        2 => Just(OperationKind::Update),
        2 => Just(OperationKind::Upsert),
        2 => Just(OperationKind::UpdateIf),
        5 => Just(OperationKind::Delete),
        2 => Just(OperationKind::Scan),
    ];
    (kind, n, any::<bool>(), any::<bool>(), 1..60u32).prop_map(|(kind, n, flag, after, limit)| Step {
        kind,
        n,
        flag,
        after,
        limit,
    })
}

fn setup(subject: &dyn Subject, fixture: &dyn Fixture) -> impl Strategy<Value = Setup> + use<> {
    let switches: Vec<_> = fixture.switches(subject).into_iter().map(|(_, options)| options).collect();
    let sizes = (select(vec![8usize, 9, 16, 64]), select(vec![8usize, 33, 1024]));
    let more = (select(vec![1u32, 7, 61]), 0..=4u8, 1..6usize, select(vec![0u64, 1 << 12, 1 << 16]));
    (sizes, 2..=8usize, 2..=8usize, 1..=3usize, any::<bool>(), select(switches), more).prop_map(
        |((key_bytes, value_bytes), leaf, inner, nodes, device, options, (locks, hand_overs, ahead, cache))| {
            let shape = Shape { key_bytes, value_bytes, spans: (leaf, inner) };
            let mut setup = Setup { device, locks, chunk_nodes: 8, ..Setup::new(shape).on(nodes).switched(options) };
            setup.spending.hand_overs_max = hand_overs;
            setup.spending.leaves_at_once = ahead;
            setup.spending.cache_bytes = cache;
            setup
        },
    )
}

/// Every operation answers as a map would, with any sizes and any techniques.
pub fn agrees_with_a_map(subject: &dyn Subject, fixture: &dyn Fixture) {
    let histories = (setup(subject, fixture), prop::collection::vec(step(), 1..400));
    let result = runner(48 / fixture.stride()).run(&histories, |(setup, history)| {
        let scans_down = subject.parameters(&setup.shape).scans_down();
        alone(subject, fixture, &setup, |client| run(client, &history, scans_down));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{} on {}: {error}", subject.name(), fixture.name()));
}

fn run(client: &mut Client<'_, '_>, history: &[Step], scans_down: bool) {
    let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for (stamp, step) in (1..).zip(history) {
        let key = client.key(step.n);
        if step.kind == OperationKind::Scan {
            scan(client, &model, step, scans_down && step.limit % 2 == 0);
            continue;
        }
        let before = model.get(&key).copied();
        let expected = if step.flag { before.unwrap_or(0) } else { 0 };
        let right = answer(step.kind, before, stamp, expected);
        client.expect(step.kind, step.n, stamp, expected, &right);
        match right.after {
            Some(stamp) => model.insert(key, stamp),
            None => model.remove(&key),
        };
    }
    let everything: Vec<_> = model.into_iter().collect();
    assert_eq!(client.everything(), everything);
    let census = client.validate();
    assert_eq!((census.records, census.half_splits), (everything.len() as u64, 0));
    client.assert_quiet("after a history");
}

fn scan(client: &mut Client<'_, '_>, model: &BTreeMap<Vec<u8>, u32>, step: &Step, down: bool) {
    let limit = step.limit.min(client.index.plan().page_records() as u32);
    let (low, high) = (client.key(step.n), client.key(step.n.saturating_add(u64::from(step.limit) / 2)));
    let operation = Operation { after: step.after, bounded: step.flag, down, ..Operation::scan(step.limit) };
    let (page, more) = client.page(operation, &low, &high);
    let wanted = |key: &Vec<u8>| !(step.after && *key == low) && (!step.flag || *key < high);
    let mut rest = model.range(low.clone()..).filter(|(key, _)| wanted(key)).map(|(key, &stamp)| (key.clone(), stamp));
    if down {
        let all: Vec<_> = rest.collect();
        let left = all.len().saturating_sub(limit as usize);
        assert_eq!(page, all[left..], "{step:?}, downwards");
        assert!(more || left == 0, "{step:?}, downwards: a page says there is no more, and there is");
        return;
    }
    let expected: Vec<_> = rest.by_ref().take(limit as usize).collect();
    assert_eq!(page, expected, "{step:?}");
    assert!(more || rest.next().is_none(), "{step:?}: a page says there is no more, and there is");
}
