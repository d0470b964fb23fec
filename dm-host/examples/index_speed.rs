//! What one operation costs on shared memory, one thread: the whole engine, no generator, no histogram.
//!
//! `cargo run --release -p dm-host --example index_speed -- 10000000 all 8 sherman,chime,smart huge chain` (records,
//! operation, lanes, indexes; then, as wished, `huge` pages for the region, the READ in the `chain` of the lock, a `hotspot` buffer, lines
//! kept whole by `sequence` words, `once` for one short round without warming up: to count instructions, `long` for many:
//! to look with a profiler). First every index gets so many records that its copies of nodes are complete. Then short rounds of all
//! operations of all indexes in turn, processor time of the thread, so that a disturbed machine disturbs all, and long
//! enough for what the others put into the processor's caches not to matter; the median and the lowest tenth of the
//! rounds, and the median beside the first index's.

use dm_core::index::{Index, Operation, OperationKind, Outcome};
use dm_core::lane::Lane;
use dm_core::remote::catalog::{IndexKind, IndexNumber};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rows::Member;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::verbs::{Fabric, LaneId, NodeId};
use dm_host::assembly::{Place, Spending};
use dm_host::compute_node;
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::kinds::{AnyIndex, IndexParameters, with_index};
use dm_host::memory_node::RemoteNode;
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use dm_host::solo::block_on;
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

const KINDS: [OperationKind; 4] =
    [OperationKind::Get, OperationKind::Update, OperationKind::Scan, OperationKind::Insert];

/// Distance of the loaded keys.
const STEP: u64 = 1 << 20;

/// Processor time of this thread so far.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

struct Loop {
    kind: OperationKind,
    left: u64,
    records: u64,
    state: u64,
    wrong: u64,
}

impl Loop {
    fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.records
    }
}

impl Work for Loop {
    const TIMED: bool = false;

    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &dm_core::index::ScratchPlan) -> Next {
        if self.left == 0 {
            return Next::Finished;
        }
        self.left -= 1;
        // Inserted keys lie between those that were loaded.
        let inserts = self.kind == OperationKind::Insert;
        let key = self.draw() * STEP + if inserts { 1 + self.state % (STEP - 1) } else { 0 };
        scratch[plan.key.clone()].copy_from_slice(&key.to_be_bytes());
        scratch[plan.value.clone()].copy_from_slice(&key.to_le_bytes());
        Next::Run(if self.kind == OperationKind::Scan { Operation::scan(100) } else { Operation::point(self.kind) })
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        let right = matches!(
            (self.kind, finished.result),
            (OperationKind::Get, Ok(Outcome::Found))
                | (OperationKind::Update, Ok(Outcome::Updated))
                | (OperationKind::Scan, Ok(Outcome::Page { .. }))
                // Two draws in a million are the same.
                | (OperationKind::Insert, Ok(Outcome::Inserted | Outcome::Exists))
        );
        if !right {
            println!("{} ended with {:?}", self.kind.name(), finished.result);
        }
        self.wrong += u64::from(!right);
    }
}

/// What the command line asks for.
struct Asked {
    records: u64,
    only: Option<OperationKind>,
    lanes: usize,
    kinds: Vec<IndexKind>,
    wishes: Vec<String>,
}

impl Asked {
    fn of_arguments() -> Self {
        let mut words = std::env::args().skip(1);
        let records = words.next().map_or(1_000_000, |text| text.parse().expect("a number of records"));
        let only = words.next().filter(|word| word != "all");
        let only = only
            .map(|word| KINDS.into_iter().find(|kind| kind.name() == word).expect("all, get, update, scan or insert"));
        let lanes = words.next().map_or(1, |text| text.parse().expect("a number of lanes"));
        let kinds = words.next().unwrap_or_else(|| "sherman".to_owned());
        let kinds = kinds.split(',').map(|name| {
            [IndexKind::Sherman, IndexKind::Chime, IndexKind::Smart]
                .into_iter()
                .find(|kind| kind.name() == name)
                .expect("sherman, chime or smart")
        });
        Self { records, only, lanes, kinds: kinds.collect(), wishes: words.collect() }
    }

    fn wished(&self, word: &str) -> bool {
        self.wishes.iter().any(|wish| wish == word)
    }
}

/// A round: so many operations of a kind, drawn from a state; the time they took and the state behind them are sent
/// back.
type Round = (OperationKind, u64, u64);
type Answer = (u64, u64);

fn main() {
    let asked = Asked::of_arguments();
    std::thread::scope(|scope| {
        let mut crews: Vec<(Sender<Round>, Receiver<Answer>)> = Vec::new();
        for &kind in &asked.kinds {
            let ((to, rounds), (answers, from)) = (channel(), channel());
            let asked = &asked;
            scope.spawn(move || serve(asked, kind, &rounds, &answers));
            from.recv().expect("a loaded index");
            crews.push((to, from));
        }
        let (rounds, operations) = match (asked.wished("once"), asked.wished("long")) {
            (true, _) => (1, 20_000),
            (_, true) => (1_000, 10_000),
            _ => (150, 10_000),
        };
        let mut state = 88_172_645_463_325_252;
        if !asked.wished("once") {
            // Copies are there when time is taken: as many gets as records see all nodes but one in a million of the smallest.
            for (to, from) in &crews {
                to.send((OperationKind::Get, asked.records, state)).expect("an index that is there");
                from.recv().expect("right answers");
            }
        }
        for kind in KINDS.into_iter().filter(|&kind| asked.only.is_none_or(|only| only == kind)) {
            let mut taken: Vec<Vec<u64>> = vec![Vec::with_capacity(rounds); crews.len()];
            let count = if kind == OperationKind::Scan { operations / 5 } else { operations };
            for round in 0..rounds {
                let mut next = state;
                for turn in 0..crews.len() {
                    // Whoever comes first in one round comes last in another.
                    let who = (turn + round) % crews.len();
                    let (to, from) = &crews[who];
                    to.send((kind, count, state)).expect("an index that is there");
                    let (ns, behind) = from.recv().expect("right answers");
                    taken[who].push(ns / count);
                    next = behind;
                }
                state = next;
            }
            let mut first_ns = None;
            for (kind_of_index, mut taken) in asked.kinds.iter().zip(taken) {
                taken.sort_unstable();
                let median_ns = taken[rounds / 2];
                let first_ns = *first_ns.get_or_insert(median_ns);
                println!(
                    "{:6} {:7} median {median_ns} ns, lowest tenth {} ns, {:.2} x the rate of {}",
                    kind.name(),
                    kind_of_index.name(),
                    taken[rounds / 10],
                    first_ns as f64 / median_ns as f64,
                    asked.kinds[0].name()
                );
            }
        }
    });
}

/// One index, in a region of its own.
fn serve(asked: &Asked, kind: IndexKind, rounds: &Receiver<Round>, answers: &Sender<Answer>) {
    // Each record with its share of nodes, and those that are inserted: sparse ones, each with a node of its own in a
    // radix tree.
    let record_bytes = if kind == IndexKind::Smart { 160 } else { 48 };
    let spec = RegionSpec {
        region_bytes: (asked.records * record_bytes).next_multiple_of(1 << 21) + (256 << 20),
        device_bytes: 262_144,
        mode: if asked.wished("sequence") { LineMode::Sequence } else { LineMode::Vector },
        backing: if asked.wished("huge") { Backing::HugeTlb } else { Backing::Memfd },
    };
    let region = Region::create(&spec).expect("a region");
    let plan = PoolPlan {
        pool_id: *b"speed\0\0\0\0\0\0\0\0\0\0\0",
        pool_incarnation: 1,
        node: NodeId(0),
        nodes: 1,
        region_bytes: spec.region_bytes,
        chunk_bytes: 1 << 20,
        lock_count: 32_768,
        device_bytes: 262_144,
        redo_row_bytes: 0,
    };
    let image = compute_node::format(&plan).expect("a plan that fits");
    region.write_image(0, &image).expect("a region that holds a superblock");
    let geometry = [Superblock::decode(&image).expect("what was formatted").geometry];
    let mut fabric =
        ShmFabric::new(vec![Arc::new(RemoteNode::in_process(region))], ShmOptions::default()).expect("a fabric");
    let place = Place {
        geometry: &geometry,
        number: IndexNumber::new(0).expect("entry 0"),
        member: Member { row: RowId(1), incarnation: 1, nonce: 1 },
        capabilities: fabric.capabilities(),
        guarantees: fabric.guarantees(),
        recovery: None,
        epochs: None,
    };
    let parameters = IndexParameters::with_sizes(kind, 8, 8).expect("an index of this program");
    let mut spending = Spending { lanes: asked.lanes, cache_bytes: 1 << 30, ..Spending::default() };
    spending.options.chain_lock_read = asked.wished("chain");
    spending.hotspot_bytes = if asked.wished("hotspot") { 32 << 20 } else { 0 };
    with_index(&place, &parameters, &spending, |index| match index {
        AnyIndex::Sherman(index) => drive(asked, kind, index, &mut fabric, rounds, answers),
        AnyIndex::Chime(index) => drive(asked, kind, index, &mut fabric, rounds, answers),
        AnyIndex::Smart(index) => drive(asked, kind, index, &mut fabric, rounds, answers),
        AnyIndex::ShermanItems(_) | AnyIndex::ChimeItems(_) => unreachable!("keys and values have one size here"),
    })
    .expect("an index");
}

/// Loads an index and runs rounds on it until nobody asks for more.
fn drive<I: Index>(
    asked: &Asked,
    kind: IndexKind,
    index: &I,
    fabric: &mut ShmFabric,
    rounds: &Receiver<Round>,
    answers: &Sender<Answer>,
) {
    let mut scratch = vec![0; index.plan().total_bytes * asked.lanes];
    let lanes: Vec<_> = scratch
        .chunks_mut(index.plan().total_bytes)
        .enumerate()
        .map(|(number, scratch)| Lane::new(LaneId(number as u16), scratch))
        .collect();
    let lane = &lanes[0];
    let began = Instant::now();
    block_on(fabric, lane, async {
        for n in 0..asked.records {
            lane.port().with(|scratch| {
                scratch[index.plan().key.clone()].copy_from_slice(&(n * STEP).to_be_bytes());
                scratch[index.plan().value.clone()].copy_from_slice(&n.to_le_bytes());
            });
            index.bulk_append(lane).await.expect("room");
        }
        index.bulk_finish(lane).await.expect("a root");
    });
    println!("{}: bulk load of {}: {:.2} s", kind.name(), asked.records, began.elapsed().as_secs_f64());
    answers.send((0, 0)).expect("somebody who asked");
    let wakes = Wakes::new(1, asked.lanes);
    for (operation, count, state) in rounds {
        let mut work = Loop { kind: operation, left: count, records: asked.records, state, wrong: 0 };
        let began_ns = thread_ns();
        worker::run(index, &lanes, fabric, &mut work, &wakes).expect("lanes that work");
        let ns = thread_ns() - began_ns;
        assert_eq!(work.wrong, 0, "wrong answers to {}", operation.name());
        answers.send((ns, work.state)).expect("somebody who asked");
    }
    for mark in dm_core::lane::Mark::ALL {
        if lane.marked(*mark) > 0 {
            println!("{} {} {}", kind.name(), mark.name(), lane.marked(*mark));
        }
    }
    let census = block_on(fabric, lane, index.validate(lane)).expect("a sound tree");
    println!("{}: {census:?}; {:.2} bytes per record", kind.name(), census.live_bytes as f64 / census.records as f64);
}
