//! What one operation costs on shared memory, one thread: the whole engine, no generator, no histogram.
//!
//! `cargo run --release -p dm-host --example sherman_speed -- 10000000 all 8 huge chain` (records, operation, lanes; then, as
//! wished, `huge` pages for the region, the READ in the `chain` of the lock, lines kept whole by `sequence` words, `once`
//! for one short round: to count instructions, `long` for many: to look with a profiler). Short rounds of all operations in turn, processor time of the thread; the
//! median and the lowest tenth of the rounds.

use dm_core::index::{Index, Operation, OperationKind, Outcome};
use dm_core::lane::Lane;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rows::Member;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Fabric, LaneId, NodeId};
use dm_host::assembly::{Place, Spending, with_sherman};
use dm_host::compute_node;
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::memory_node::RemoteNode;
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use dm_host::solo::block_on;
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
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
                | (OperationKind::Insert, Ok(Outcome::Inserted))
        );
        self.wrong += u64::from(!right);
    }
}

fn main() {
    let records: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of records"));
    let lanes_wanted: usize = std::env::args().nth(3).map_or(1, |text| text.parse().expect("a number of lanes"));
    let wished = |word: &str| std::env::args().skip(4).any(|wish| wish == word);
    let spec = RegionSpec {
        region_bytes: (records * 48).next_multiple_of(1 << 21) + (64 << 20),
        device_bytes: 262_144,
        mode: if wished("sequence") { LineMode::Sequence } else { LineMode::Vector },
        backing: if wished("huge") { Backing::HugeTlb } else { Backing::Memfd },
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
    println!("write turn {} ns", place.capabilities.write_turn_ns_min);
    let parameters = Parameters::with_sizes(8, 8);
    let mut spending = Spending { lanes: lanes_wanted, ..Spending::default() };
    spending.options.chain_lock_read = wished("chain");
    with_sherman(&place, &parameters, &spending, |index| {
        let mut scratch = vec![0; index.plan().total_bytes * lanes_wanted];
        let lanes: Vec<_> = scratch
            .chunks_mut(index.plan().total_bytes)
            .enumerate()
            .map(|(number, scratch)| Lane::new(LaneId(number as u16), scratch))
            .collect();
        let lane = &lanes[0];
        let began = Instant::now();
        block_on(&mut fabric, lane, async {
            for n in 0..records {
                lane.port().with(|scratch| {
                    scratch[index.plan().key.clone()].copy_from_slice(&(n * STEP).to_be_bytes());
                    scratch[index.plan().value.clone()].copy_from_slice(&n.to_le_bytes());
                });
                index.bulk_append(lane).await.expect("room");
            }
            index.bulk_finish(lane).await.expect("a root");
        });
        println!("bulk load of {records}: {:.2} s", began.elapsed().as_secs_f64());
        let wakes = Wakes::new(1, lanes_wanted);
        let (rounds, operations) = match (wished("once"), wished("long")) {
            (true, _) => (1, 20_000),
            (_, true) => (4_000, 2_000),
            _ => (300, 2_000),
        };
        let mut taken = KINDS.map(|_| Vec::with_capacity(rounds));
        let mut state = 88_172_645_463_325_252;
        for _ in 0..rounds {
            for (kind, taken) in KINDS.into_iter().zip(&mut taken) {
                if std::env::args().nth(2).is_some_and(|only| only != "all" && only != kind.name()) {
                    continue;
                }
                let count = if kind == OperationKind::Scan { operations / 5 } else { operations };
                let mut work = Loop { kind, left: count, records, state, wrong: 0 };
                let began_ns = thread_ns();
                worker::run(index, &lanes, &mut fabric, &mut work, &wakes).expect("lanes that work");
                taken.push((thread_ns() - began_ns) / count);
                assert_eq!(work.wrong, 0, "wrong answers to {}", kind.name());
                state = work.state;
            }
        }
        for (kind, taken) in KINDS.into_iter().zip(&mut taken).filter(|(_, taken)| !taken.is_empty()) {
            taken.sort_unstable();
            println!("{:6} median {} ns, lowest tenth {} ns", kind.name(), taken[rounds / 2], taken[rounds / 10]);
        }
        for mark in dm_core::lane::Mark::ALL {
            if lane.marked(*mark) > 0 {
                println!("{} {}", mark.name(), lane.marked(*mark));
            }
        }
        let census = block_on(&mut fabric, lane, index.validate(lane)).expect("a sound tree");
        println!("{census:?}; {:.2} bytes per record", census.live_bytes as f64 / census.records as f64);
    })
    .expect("an index");
}
