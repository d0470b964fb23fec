//! Sherman against a `BTreeMap`, one operation at a time, with nodes so small that splits, root growth and merges are
//! common.

use dm_core::index::{Index, Operation, OperationKind, Outcome};
use dm_core::lane::Lane;
use dm_core::sherman::Sherman;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::LaneId;
use dm_host::assembly::{Spending, with_sherman};
use dm_sim::{Config, DirectFabric, block_on};
use dm_tests::pool::Pool;
use std::collections::BTreeMap;

fn value(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

struct One<'a, 's, 'm> {
    index: &'a Sherman<'s>,
    lane: Lane<'m>,
    fabric: DirectFabric,
}

impl One<'_, '_, '_> {
    fn run(&mut self, kind: OperationKind, key: u64, new: u64, expected: u64) -> (Outcome, u64) {
        let plan = self.index.plan().clone();
        self.lane.port().with(|scratch| {
            scratch[plan.key.clone()].copy_from_slice(&key.to_be_bytes());
            scratch[plan.value.clone()].copy_from_slice(&value(new));
            scratch[plan.expected.clone()].copy_from_slice(&value(expected));
        });
        let run = block_on(&self.lane, &mut self.fabric, self.index.execute(&self.lane, Operation::point(kind)));
        let outcome = run.expect("an operation alone ends").result.expect("and succeeds");
        let out = self.lane.port().with(|scratch| u64::from_le_bytes(scratch[plan.output.clone()].try_into().unwrap()));
        (outcome, out)
    }

    fn scan(&mut self, low: u64, limit: u32) -> (Vec<(u64, u64)>, bool) {
        let plan = self.index.plan().clone();
        self.lane.port().with(|scratch| scratch[plan.key.clone()].copy_from_slice(&low.to_be_bytes()));
        let run = block_on(&self.lane, &mut self.fabric, self.index.execute(&self.lane, Operation::scan(limit)));
        let Outcome::Page { records, more } = run.unwrap().result.unwrap() else { panic!("a scan returns a page") };
        let records = (0..records as usize)
            .map(|i| {
                self.lane.port().with(|scratch| {
                    let record = &scratch[plan.record(i)];
                    (
                        u64::from_be_bytes(record[..8].try_into().unwrap()),
                        u64::from_le_bytes(record[8..].try_into().unwrap()),
                    )
                })
            })
            .collect();
        (records, more)
    }
}

fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn every_operation_agrees_with_a_map() {
    for (leaf_span, inner_span, nodes) in [(2, 2, 1), (3, 2, 2), (4, 4, 3), (57, 61, 1)] {
        let config = Config::with_nodes(nodes, 4 << 20);
        let pool = Pool::new(&config);
        let parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span, inner_span };
        with_sherman(&pool.place(0), &parameters, &Spending::default(), |index| {
            let mut scratch = vec![0; index.plan().total_bytes];
            let mut fabric = DirectFabric::new(&config);
            pool.format(fabric.memories());
            let mut one = One { index, lane: Lane::new(LaneId(0), &mut scratch), fabric };
            let mut model = BTreeMap::new();
            let mut state = 7;
            for n in 0..20_000u64 {
                let key = step(&mut state) % 300;
                let kind = OperationKind::ALL[(step(&mut state) % 7) as usize];
                let known = model.get(&key).copied();
                match kind {
                    OperationKind::Scan => {
                        let limit = 1 + step(&mut state) % 40;
                        let (records, more) = one.scan(key, limit as u32);
                        let expected: Vec<_> = model.range(key..).map(|(&k, &v)| (k, v)).take(limit as usize).collect();
                        assert_eq!(records, expected);
                        let rest = model.range(key..).count() > limit as usize;
                        assert!(more || !rest, "a page says there is no more, and there is");
                    }
                    _ => {
                        let expected = known.unwrap_or(step(&mut state) % 2);
                        let (outcome, out) = one.run(kind, key, n, expected);
                        use OperationKind::*;
                        let right = match (kind, known) {
                            (Get, Some(v)) => outcome == Outcome::Found && out == v,
                            (Insert, Some(v)) => outcome == Outcome::Exists && out == v,
                            (Get | Update | UpdateIf | Delete, None) => outcome == Outcome::Absent,
                            (Insert | Upsert, None) => outcome == Outcome::Inserted,
                            (Update, Some(_)) => outcome == Outcome::Updated,
                            (Upsert, Some(_)) => outcome == Outcome::Replaced,
                            (UpdateIf, Some(v)) if v == expected => outcome == Outcome::Updated,
                            (UpdateIf, Some(v)) => outcome == Outcome::Mismatch && out == v,
                            (Delete, Some(_)) => outcome == Outcome::Deleted,
                            (Scan, _) => unreachable!(),
                        };
                        assert!(right, "{kind:?} {key} -> {outcome:?} {out}, known {known:?}");
                        match outcome {
                            Outcome::Inserted | Outcome::Updated | Outcome::Replaced => {
                                model.insert(key, n);
                            }
                            Outcome::Deleted => {
                                model.remove(&key);
                            }
                            _ => {}
                        }
                    }
                }
                assert!(!one.lane.in_doubt(), "an operation that ended owes nothing");
                if n % 1000 == 0 {
                    let census =
                        block_on(&one.lane, &mut one.fabric, index.validate(&one.lane)).unwrap().result.unwrap();
                    assert_eq!(census.records, model.len() as u64);
                    assert_eq!(census.half_splits, 0);
                }
            }
            assert_eq!(index.tree().locks.held(), 0);
            let marks: Vec<_> = dm_core::lane::Mark::ALL.iter().map(|&m| (m.name(), one.lane.marked(m))).collect();
            println!("{leaf_span} {inner_span}: {marks:?}");
        })
        .unwrap();
    }
}
