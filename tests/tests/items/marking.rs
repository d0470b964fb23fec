//! The walk that finds which places of blocks are in use, while operations change the index under it.

use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::items::Items;
use dm_core::items::parameters::Parameters;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::operation::{Operation, OperationKind, Outcome, Part};
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use dm_core::verbs::{LaneId, NodeId};
use dm_core::{chime, match_kind, sherman};
use dm_host::assembly::Spending;
use dm_host::kinds::{AnyIndex, IndexParameters, with_index};
use dm_sim::{Config, DirectFabric, block_on};
use dm_tests::pool::Pool;
use std::collections::BTreeSet;

const ITEMS: Parameters = Parameters { key_bytes_max: 40, value_bytes_max: 40 };

/// Slices of seven bytes; nodes and pages are small, so that a walk takes many.
fn kinds() -> Vec<IndexParameters> {
    let (key_bytes, value_bytes, leaf_span, inner_span) = (16, 16, 8, 8);
    // A walk over leaves that an owner has cached asks for nothing, so that nothing can happen in its middle.
    let walked = KINDS.iter().filter(|&&kind| kind != IndexKind::Dex);
    let below = walked.map(|&kind| match kind {
        IndexKind::Sherman => sherman::parameters::Parameters { key_bytes, value_bytes, leaf_span, inner_span }.into(),
        IndexKind::Chime => {
            let neighborhood = 2;
            chime::parameters::Parameters { key_bytes, value_bytes, leaf_span, neighborhood, inner_span }.into()
        }
        kind => IndexParameters::with_sizes(kind, key_bytes, value_bytes).expect("a kind of this program"),
    });
    below.map(|parameters: IndexParameters| parameters.below.with_any_length(ITEMS)).collect()
}

/// An index, lane 0 for its operations and lane 1 for walks.
struct Stage<'a, 'i, 'm, I> {
    index: &'a Items<'i, I>,
    lanes: &'a [Lane<'m>; 2],
    fabric: &'a mut DirectFabric,
    state: u64,
}

type Places = BTreeSet<(u16, u64, u64)>;

impl<I: Index> Stage<'_, '_, '_, I> {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    /// Of up to 40 bytes, many with slices in common.
    fn key(&mut self) -> Vec<u8> {
        let mut key = Vec::new();
        while key.len() < 33 && self.random(8) > 0 {
            // The largest bytes there are, too: no key is behind all that begin so.
            let byte = [0, b'a', b'b', 255][self.random(4) as usize];
            key.extend([byte; 7]);
        }
        let tail = self.random(4);
        for _ in 0..tail {
            let byte = self.random(256) as u8;
            key.push(byte);
        }
        key.truncate(ITEMS.key_bytes_max);
        key
    }

    fn run(&mut self, kind: OperationKind, key: &[u8], value: &[u8]) -> Outcome {
        let (lane, plan) = (&self.lanes[0], self.index.plan());
        lane.port().with(|scratch| {
            assert!(plan.put(scratch, Part::Key, key) && plan.put(scratch, Part::Value, value));
        });
        let future = self.index.execute(lane, Operation::point(kind));
        block_on(lane, self.fabric, future).unwrap().result.unwrap_or_else(|error| panic!("{kind:?} {key:?}: {error}"))
    }

    fn upsert(&mut self, key: &[u8]) {
        let value = [self.random(256) as u8; 40];
        self.run(OperationKind::Upsert, key, &value);
    }

    /// Runs a walk, and `between` before each of its submits. Also returns the number of submits.
    fn walk(&mut self, between: &mut dyn FnMut(&mut Self)) -> (Places, u32) {
        let (mut places, mut submits) = (Places::new(), 0);
        let (index, lanes) = (self.index, self.lanes);
        let mut mark = |node: NodeId, offset, bytes| {
            places.insert((node.0, offset, bytes));
        };
        let mut walk = Box::pin(index.walk(&lanes[1], &mut mark));
        let port = lanes[1].port();
        port.start();
        loop {
            match poll_once(port, walk.as_mut()) {
                Step::Requests => {}
                Step::Done(result) => {
                    result.unwrap_or_else(|error| panic!("after {submits} submits: {error}"));
                    break;
                }
                Step::Waiting => panic!("it waits for something that is not a submit"),
            }
            between(self);
            self.fabric.post(lanes, 1);
            submits += 1;
            assert!(submits < 100_000, "it goes on and on");
        }
        drop(walk);
        assert!(!lanes[1].in_doubt());
        (places, submits)
    }

    /// Places that were taken and are not ready: those of blocks in use, if none was lost.
    fn in_use(&self, granted: u64) -> u64 {
        granted - self.index.blocks().ready_bytes()
    }
}

trait Scenario {
    fn run<I: Index>(&mut self, stage: &mut Stage<'_, '_, '_, I>);
}

fn on_all_kinds(returned_blocks: usize, links: usize, scenario: &mut impl Scenario) {
    for parameters in kinds() {
        let config = Config::with_nodes(2, 16 << 20);
        let pool = Pool::with(&config, 1 << 16, 61);
        let mut fabric = DirectFabric::new(&config);
        pool.format(fabric.memories());
        let spending = Spending {
            lanes: 2,
            cache_bytes: 1 << 16,
            page_records: 2,
            page_bytes: 256,
            returned_nodes: 256,
            returned_blocks,
            links,
            ..Spending::default()
        };
        let run = |index: AnyIndex<'_, '_, '_>| {
            let bytes = index.plan().total_bytes;
            let (mut first, mut second) = (vec![0; bytes], vec![0; bytes]);
            let lanes = [Lane::new(LaneId(0), &mut first), Lane::new(LaneId(1), &mut second)];
            let (lanes, fabric, state) = (&lanes, &mut fabric, 7);
            match_kind!(index, AnyIndex(form) => {
                let index = form.items().expect("items were asked for");
                scenario.run(&mut Stage { index, lanes, fabric, state });
            });
        };
        with_index(&pool.place(0), &parameters, &spending, run).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Without changes, the walk finds exactly the places in use.
#[test]
fn a_walk_tells_every_place_that_is_in_use_and_no_other() {
    struct Quiet;
    impl Scenario for Quiet {
        fn run<I: Index>(&mut self, stage: &mut Stage<'_, '_, '_, I>) {
            assert_eq!(stage.walk(&mut |_| {}).0, Places::new(), "of nothing");
            for round in 0..1500 {
                let key = stage.key();
                if round % 3 == 2 {
                    stage.run(OperationKind::Delete, &key, b"");
                } else {
                    stage.upsert(&key);
                }
            }
            let (places, submits) = stage.walk(&mut |_| {});
            assert!(submits > 300 && stage.lanes[0].marked(Mark::LAYER_MADE) > 50, "{submits} submits");
            let chunks: u64 = stage.lanes.iter().map(|lane| u64::from(lane.marked(Mark::CHUNK_GRANTED))).sum();
            let told: u64 = places.iter().map(|(.., bytes)| bytes).sum();
            // Chunks of the index below are granted, too: so many chunks' bytes more are taken, or none.
            assert_eq!(stage.in_use(chunks << 16) % (1 << 16), told % (1 << 16));
            assert_eq!(stage.lanes[0].marked(Mark::BLOCK_LOST), 0);
        }
    }
    on_all_kinds(4096, 64, &mut Quiet);
}

/// Layers are made before and behind the walk, and entries become links while it is paused between two submits. No
/// place is used twice here, so a place that is in use before and after the walk was in use all the time.
#[test]
fn what_is_named_throughout_is_told_whatever_moves() {
    struct Busy;
    impl Scenario for Busy {
        fn run<I: Index>(&mut self, stage: &mut Stage<'_, '_, '_, I>) {
            let mut keys: Vec<Vec<u8>> = (0..300).map(|_| stage.key()).collect();
            for key in &keys {
                stage.upsert(key);
            }
            for round in 0..8 {
                let (before, _) = stage.walk(&mut |_| {});
                let made = stage.lanes[0].marked(Mark::LAYER_MADE);
                let mut changes = 0;
                let (told, _) = stage.walk(&mut |stage| {
                    // Not as fast as the walk goes on.
                    if changes < 300 && stage.random(6) == 0 {
                        changes += 1;
                        let mut key = stage.key();
                        if stage.random(2) == 0 {
                            // Behind a slice that has one block so far, perhaps.
                            let at = stage.random(keys.len() as u64) as usize;
                            key.clone_from(&keys[at]);
                            key.truncate(38);
                            key.push(stage.random(256) as u8);
                        }
                        if stage.random(5) == 0 {
                            stage.run(OperationKind::Delete, &key, b"");
                        } else {
                            stage.upsert(&key);
                            keys.push(key);
                        }
                    }
                });
                let (after, _) = stage.walk(&mut |_| {});
                let throughout: Places = before.intersection(&after).copied().collect();
                assert!(throughout.len() > 100, "{}", throughout.len());
                let missed: Vec<_> = throughout.difference(&told).collect();
                assert!(missed.is_empty(), "round {round}: {missed:x?}");
                let made = stage.lanes[0].marked(Mark::LAYER_MADE) - made;
                assert!(made > 0, "no layer was made meanwhile");
            }
        }
    }
    for links in [0, 512] {
        on_all_kinds(0, links, &mut Busy);
    }
}
