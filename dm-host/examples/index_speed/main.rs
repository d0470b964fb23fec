//! What one operation costs on shared memory: the whole engine, without load generator and histogram.
//!
//! `cargo run --release -p dm-host --example index_speed -- 10000000 all 8 sherman,chime,smart huge chain`
//!
//! The arguments are records, operation, lanes and indexes. Any of these words may follow:
//!
//! - `huge`: huge pages for the region. `chain`: the READ in the chain of the lock. `hotspot`: a hotspot buffer.
//! - `sequence`: sequence words keep lines whole, even where vector moves would do.
//! - `scattered`: keys as if drawn from the whole key space, not at equal distances. `space30`: the same, from a space
//!   of 2^30 keys. `dense`: 0, 1, 2 .. Those that are inserted follow, in any order.
//! - `at-cache`, `at-pool`: what a DEX answer means. `quarter`: its page cache has room for a quarter of the leaves.
//! - `zipf`: keys are drawn by Zipf's law with YCSB's exponent, the popular ones anywhere.
//! - `instructions`: not time, but how many instructions an operation takes. `functions`: and in which functions they are.
//!   `golden`: they are compared with what is blessed; `tests/run instructions` does so.
//! - `long`: many rounds, to use a profiler.
//!
//! First every index gets so many records that its copies of nodes are complete. Then short rounds of all operations of
//! all indexes run in turn, so that a disturbance of the machine affects all. A round is long enough that what the
//! others left in the processor's caches does not matter. Measured is processor time of the thread. The output has the
//! median and the lowest tenth of the rounds. For the other indexes it also has the median ratio to the first index in
//! the same round.
//!
//! `... -- 1000000 all 24 sherman,chime,smart rdwc` (and `threads2`: two threads of so many lanes) measures each index
//! once without and once with read delegation and write combining. Its rounds are YCSB's A, half updates, and C, under
//! Zipf 0.99.

mod golden;
mod instructions;

use dm_core::dex::serve::Level;
use dm_core::fabric::Fabric;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::locks::ChainedRead;
use dm_core::operation::{Operation, OperationKind, Outcome};
use dm_core::registry;
use dm_core::remote::catalog::{IndexKind, IndexNumber};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::verbs::{LaneId, NodeId};
use dm_host::assembly::{Place, Spending};
use dm_host::fabric::shm::litmus::Verdict;
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::kinds::{AnyIndex, IndexParameters, with_index};
use dm_host::memory_node::RemoteNode;
use dm_host::pool;
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use dm_host::solo::block_on;
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

const KINDS: [OperationKind; 4] =
    [OperationKind::Get, OperationKind::Update, OperationKind::Scan, OperationKind::Insert];

/// The loaded keys: of each of as many stretches of numbers one.
#[derive(Clone, Copy)]
struct Keys {
    /// Length of a stretch.
    step: u64,
    /// Somewhere in its stretch, and not at the beginning.
    scattered: bool,
}

impl Keys {
    fn of(records: u64, wished: impl Fn(&str) -> bool) -> Self {
        let (step, scattered) = match () {
            () if wished("scattered") => (u64::MAX / records, true),
            () if wished("space30") => ((1 << 30) / records, true),
            () if wished("dense") => (1, false),
            () => (1 << 20, false),
        };
        Self { step, scattered }
    }

    /// The key in a stretch.
    fn at(self, stretch: u64) -> u64 {
        let mixed = (stretch + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        stretch * self.step + if self.scattered { (mixed ^ mixed >> 32) % self.step } else { 0 }
    }
}

/// Processor time of this thread so far.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Operations of a round whose instructions are counted.
const STEPPED_OPERATIONS: u64 = 16;

/// What a round is made of.
#[derive(Clone, Copy)]
enum Case {
    /// Gets whose time is not taken.
    Warm,
    /// Operations of a kind, of keys drawn uniformly.
    One(OperationKind),
    /// So many updates in a hundred operations, the others gets, of popular keys.
    Mix(&'static str, u64),
}

const MIXES: [Case; 2] = [Case::Mix("A", 50), Case::Mix("C", 0)];

impl Case {
    const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::One(kind) => kind.name(),
            Self::Mix(name, _) => name,
        }
    }

    /// How many of so many operations a round has.
    const fn of(self, operations: u64) -> u64 {
        if matches!(self, Self::One(OperationKind::Scan)) { operations / 8 } else { operations }
    }
}

/// Records as Zipf's law with YCSB's exponent has them drawn, the popular ones anywhere.
fn popular(records: u64) -> Vec<u32> {
    const THETA: f64 = 0.99;
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=records)
        .map(|rank| {
            sum += (rank as f64).powf(-THETA);
            sum
        })
        .collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let draw = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let drawn = (state >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|&sum| sum <= drawn) as u64;
        (rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % records) as u32
    };
    (0..1 << 20).map(draw).collect()
}

struct Loop<'a> {
    case: Case,
    keys: Keys,
    /// Records as they are drawn, from this position on; empty: they are drawn uniformly.
    popular: &'a [u32],
    from: u64,
    left: u64,
    records: u64,
    state: u64,
    wrong: u64,
}

impl Loop<'_> {
    fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.records
    }

    /// A record that was loaded.
    fn pick(&mut self) -> u64 {
        let drawn = self.draw();
        let at = self.from.wrapping_add(self.left) as usize % self.popular.len().max(1);
        self.popular.get(at).map_or(drawn, |&popular| u64::from(popular))
    }

    /// The next operation and its key.
    fn choose(&mut self) -> (OperationKind, u64) {
        match self.case {
            // Inserted keys lie between those that were loaded, if there is room.
            Case::One(kind @ OperationKind::Insert) if self.keys.step == 1 => (kind, self.records + self.draw()),
            Case::One(kind @ OperationKind::Insert) => {
                let stretch = self.draw();
                (kind, stretch * self.keys.step + 1 + self.state % (self.keys.step - 1))
            }
            Case::Warm => (OperationKind::Get, self.keys.at(self.pick())),
            Case::One(kind) => (kind, self.keys.at(self.pick())),
            Case::Mix(_, updates) => {
                let record = self.pick();
                let kind = if self.draw() % 100 < updates { OperationKind::Update } else { OperationKind::Get };
                (kind, self.keys.at(record))
            }
        }
    }
}

impl Work for Loop<'_> {
    const TIMED: bool = false;

    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &dm_core::operation::ScratchPlan) -> Next {
        if self.left == 0 {
            return Next::Finished;
        }
        self.left -= 1;
        let (kind, key) = self.choose();
        scratch[plan.key.clone()].copy_from_slice(&key.to_be_bytes());
        scratch[plan.value.clone()].copy_from_slice(&key.to_le_bytes());
        Next::Run(if kind == OperationKind::Scan { Operation::scan(100) } else { Operation::point(kind) })
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        let right = matches!(
            (finished.operation.kind, finished.result),
            (OperationKind::Get, Ok(Outcome::Found))
                | (OperationKind::Update, Ok(Outcome::Updated))
                | (OperationKind::Scan, Ok(Outcome::Page { .. }))
                // Two draws in a million are the same.
                | (OperationKind::Insert, Ok(Outcome::Inserted | Outcome::Exists))
        );
        if !right {
            println!("{} ended with {:?}", finished.operation.kind.name(), finished.result);
        }
        self.wrong += u64::from(!right);
    }
}

/// What the command line asks for.
struct Asked {
    records: u64,
    only: Option<OperationKind>,
    /// Of each thread.
    lanes: usize,
    threads: usize,
    /// Indexes to be compared; and whether lanes share operations.
    sides: Vec<(IndexKind, bool)>,
    popular: Vec<u32>,
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
        let kinds = kinds
            .split(',')
            .map(|name| *registry::KINDS.iter().find(|kind| kind.name() == name).expect("names of kinds of indexes"));
        let kinds: Vec<_> = kinds.collect();
        let wishes: Vec<String> = words.collect();
        let wished = |word: &str| wishes.iter().any(|wish| wish == word);
        let both: &[bool] = if wished("rdwc") { &[false, true] } else { &[false] };
        let sides = kinds.into_iter().flat_map(|kind| both.iter().map(move |&shares| (kind, shares))).collect();
        let popular = if wished("rdwc") || wished("zipf") { popular(records) } else { Vec::new() };
        Self { records, only, lanes, threads: if wished("threads2") { 2 } else { 1 }, sides, popular, wishes }
    }

    fn cases(&self) -> Vec<Case> {
        if self.wished("rdwc") {
            return MIXES.to_vec();
        }
        KINDS.into_iter().filter(|&kind| self.only.is_none_or(|only| only == kind)).map(Case::One).collect()
    }

    fn keys(&self) -> Keys {
        Keys::of(self.records, |word| self.wished(word))
    }

    fn is_stepped(&self) -> bool {
        self.wished(instructions::STEPPED)
    }

    fn wished(&self, word: &str) -> bool {
        self.wishes.iter().any(|wish| wish == word)
    }
}

/// A round: so many operations of each thread, drawn from a state; the time all took and the state behind them are sent
/// back.
type Round = (Case, u64, u64);
type Answer = (u64, u64);

fn main() -> ExitCode {
    let asked = Asked::of_arguments();
    if asked.wished(instructions::ASKED) {
        return count_instructions(&asked);
    }
    std::thread::scope(|scope| {
        let mut crews: Vec<(Sender<Round>, Receiver<Answer>)> = Vec::new();
        for &side in &asked.sides {
            let ((to, rounds), (answers, from)) = (channel(), channel());
            let asked = &asked;
            scope.spawn(move || serve(asked, side, &rounds, &answers));
            from.recv().expect("a loaded index");
            crews.push((to, from));
        }
        let (rounds, operations) = match (asked.is_stepped(), asked.wished("long")) {
            (true, _) => (1, STEPPED_OPERATIONS),
            (_, true) => (1_000, 10_000),
            _ => (150, 10_000),
        };
        let mut state = 88_172_645_463_325_252;
        // Copies are there when time is taken: as many gets as records see all nodes but one in a million of the smallest.
        for (to, from) in &crews {
            to.send((Case::Warm, asked.records, state)).expect("an index that is there");
            from.recv().expect("right answers");
        }
        for case in asked.cases() {
            let mut taken: Vec<Vec<u64>> = vec![Vec::with_capacity(rounds); crews.len()];
            let count = case.of(operations);
            for round in 0..rounds {
                let mut next = state;
                for turn in 0..crews.len() {
                    // The order changes from round to round, so that no index is always the first.
                    let who = (turn + round) % crews.len();
                    let (to, from) = &crews[who];
                    to.send((case, count, state)).expect("an index that is there");
                    let (ns, behind) = from.recv().expect("right answers");
                    taken[who].push(ns / (count * asked.threads as u64));
                    next = behind;
                }
                state = next;
            }
            for (who, &(kind, shares)) in asked.sides.iter().enumerate().filter(|_| !asked.is_stepped()) {
                // Beside itself without sharing, or the first.
                let beside = if shares { who - 1 } else { 0 };
                let rates = taken[beside].iter().zip(&taken[who]).map(|(&other, &own)| other as f64 / own as f64);
                let mut rates: Vec<f64> = rates.collect();
                rates.sort_unstable_by(f64::total_cmp);
                let mut sorted = taken[who].clone();
                sorted.sort_unstable();
                println!(
                    "{:6} {:7}{} median {} ns, lowest tenth {} ns, {:.3} x the rate of {}",
                    case.name(),
                    kind.name(),
                    if shares { ", rdwc," } else { "" },
                    sorted[rounds / 2],
                    sorted[rounds / 10],
                    rates[rounds / 2],
                    if shares { "the same without" } else { asked.sides[0].0.name() }
                );
            }
        }
    });
    ExitCode::SUCCESS
}

/// Prints the instructions of an operation of each case and index, or checks the golden.
fn count_instructions(asked: &Asked) -> ExitCode {
    let mut parts = instructions::of_parts(asked.wished("functions")).into_iter();
    let mut counts = Vec::new();
    for case in asked.cases() {
        for (kind, _) in &asked.sides {
            let part = parts.next().expect("a count of each case and index");
            let operations = case.of(STEPPED_OPERATIONS);
            println!("{} {} {} instructions", kind.name(), case.name(), part.steps / operations);
            if asked.wished("functions") {
                part.print_functions(operations);
            }
            counts.push((kind.name().to_owned(), case.name().to_owned(), part.steps / operations));
        }
    }
    if asked.wished(golden::ASKED) { golden::check(&counts) } else { ExitCode::SUCCESS }
}

/// One index, in a region of its own.
fn serve(asked: &Asked, (kind, shares): (IndexKind, bool), rounds: &Receiver<Round>, answers: &Sender<Answer>) {
    // Each record with its share of nodes, and those that are inserted: sparse ones, each with a node of its own in a
    // radix tree.
    let parameters = IndexParameters::with_sizes(kind, 8, 8).expect("an index of this program");
    let record_bytes = if parameters.leaf_span() == 1 { 160 } else { 48 };
    let spec = RegionSpec {
        region_bytes: (asked.records * record_bytes).next_multiple_of(1 << 21) + (512 << 20),
        device_bytes: 262_144,
        mode: if asked.wished("sequence") { LineMode::Sequence } else { Verdict::of_this_machine().mode },
        backing: if asked.wished("huge") { Backing::HugeTlb } else { Backing::Memfd },
    };
    let region = Region::create(&spec).expect("a region");
    let plan = PoolPlan {
        pool_id: *b"speed\0\0\0\0\0\0\0\0\0\0\0",
        pool_incarnation: 1,
        node: NodeId(0),
        nodes: 1,
        region_bytes: spec.region_bytes,
        chunk_bytes: 8 << 20,
        lock_count: 32_768,
        device_bytes: 262_144,
        redo_row_bytes: 0,
        index_count: 15,
    };
    let image = pool::format(&plan).expect("a plan that fits");
    region.write_image(0, &image).expect("a region that holds a superblock");
    let geometry = [Superblock::decode(&image).expect("what was formatted").geometry];
    let node = Arc::new(RemoteNode::in_process(region));
    let fabric = |_| ShmFabric::new(vec![node.clone()], ShmOptions::default()).expect("a fabric");
    let mut fabrics: Vec<_> = (0..asked.threads).map(fabric).collect();
    let place = Place {
        geometry: &geometry,
        number: IndexNumber::new(0).expect("entry 0"),
        member: Member { row: RowId(1), incarnation: 1, nonce: 1 },
        capabilities: fabrics[0].capabilities(),
        guarantees: fabrics[0].guarantees(),
        recovery: None,
        requests: None,
        layers: None,
        given_up: None,
        first_sequence: 1,
        epochs: None,
    };
    let mut spending = Spending { lanes: asked.lanes * asked.threads, cache_bytes: 1 << 30, ..Spending::default() };
    spending.options.rdwc = shares;
    // A READ that is stepped takes longer than versions can vouch for, and would be repeated under the lock.
    spending.options.read_guard = !asked.is_stepped();
    spending.options.chain_lock_read = if asked.wished("chain") { ChainedRead::Always } else { ChainedRead::default() };
    spending.hotspot_bytes = if asked.wished("hotspot") { 32 << 20 } else { 0 };
    spending.level =
        Level::ALL[1..].iter().copied().find(|level| asked.wished(&format!("at-{}", level.name()))).unwrap_or_default();
    // Several records for each leaf, so that several changes share a flush.
    spending.log_lines = usize::try_from(asked.records / 8).unwrap_or(usize::MAX);
    // Inserts add leaves.
    let leaves_bytes = asked.records * 32;
    spending.page_cache_bytes = if asked.wished("quarter") { leaves_bytes / 4 } else { 2 * leaves_bytes + (16 << 20) };
    with_index(&place, &parameters, &spending, |index| {
        dm_core::match_kind!(index, AnyIndex(form) => drive(asked, kind, form.below(), &mut fabrics, rounds, answers));
    })
    .expect("an index");
}

/// Loads an index and runs rounds on it until no more are asked for.
fn drive<I: Index + Sync>(
    asked: &Asked,
    kind: IndexKind,
    index: &I,
    fabrics: &mut [ShmFabric],
    rounds: &Receiver<Round>,
    answers: &Sender<Answer>,
) {
    let Some((fabric, others)) = fabrics.split_first_mut() else { return };
    let wakes = &Wakes::new(asked.threads, asked.lanes);
    std::thread::scope(|scope| {
        let mut mates: Vec<(Sender<Round>, Receiver<Answer>)> = Vec::new();
        for (fabric, thread) in others.iter_mut().zip(1..) {
            let ((to, rounds), (answers, from)) = (channel(), channel());
            scope.spawn(move || {
                with_lanes(asked, index, thread, |lanes| {
                    for round in &rounds {
                        answers.send(play(asked, index, lanes, fabric, wakes, round)).expect("somebody who asked");
                    }
                });
            });
            mates.push((to, from));
        }
        with_lanes(asked, index, 0, |lanes| {
            let lane = &lanes[0];
            load(asked, kind, index, fabric, lane);
            answers.send((0, 0)).expect("somebody who asked");
            for round @ (case, count, state) in rounds {
                for (to, _) in &mates {
                    to.send((case, count, state ^ 0x5555_5555)).expect("a thread that is there");
                }
                let (mut ns, state) = play(asked, index, lanes, fabric, wakes, round);
                for (_, from) in &mates {
                    ns += from.recv().expect("right answers").0;
                }
                answers.send((ns, state)).expect("somebody who asked");
            }
            drop(mates);
            let mut marks = Vec::new();
            for mark in dm_core::rooms::MARKS {
                let count: u32 = lanes.iter().map(|lane| lane.marked(*mark)).sum();
                if count > 0 {
                    marks.push(format!("{} {count}", mark.name()));
                }
            }
            println!("{}: marks of the first thread: {}", kind.name(), marks.join(", "));
            let census = block_on(fabric, lane, index.validate(lane)).expect("a sound tree");
            let record_bytes = census.live_bytes as f64 / census.records as f64;
            println!("{}: {census:?}; {record_bytes:.2} bytes per record", kind.name());
        });
    });
}

/// Makes the lanes of a thread.
fn with_lanes<I: Index>(asked: &Asked, index: &I, thread: usize, then: impl FnOnce(&[Lane<'_>])) {
    let lane_bytes = index.plan().total_bytes;
    let mut scratch = vec![0; lane_bytes * asked.lanes];
    let lanes: Vec<_> = (thread * asked.lanes..)
        .zip(scratch.chunks_mut(lane_bytes))
        .map(|(number, scratch)| Lane::new(LaneId(number as u16), scratch))
        .collect();
    then(&lanes);
}

fn load<I: Index>(asked: &Asked, kind: IndexKind, index: &I, fabric: &mut ShmFabric, lane: &Lane<'_>) {
    let began = Instant::now();
    let keys = asked.keys();
    block_on(fabric, lane, async {
        for n in 0..asked.records {
            lane.port().with(|scratch| {
                scratch[index.plan().key.clone()].copy_from_slice(&keys.at(n).to_be_bytes());
                scratch[index.plan().value.clone()].copy_from_slice(&n.to_le_bytes());
            });
            index.bulk_append(lane).await.expect("room");
        }
        index.bulk_finish(lane).await.expect("a root");
    });
    println!("{}: bulk load of {}: {:.2} s", kind.name(), asked.records, began.elapsed().as_secs_f64());
}

/// A round on the lanes of one thread.
fn play<I: Index>(
    asked: &Asked,
    index: &I,
    lanes: &[Lane<'_>],
    fabric: &mut ShmFabric,
    wakes: &Wakes,
    (case, count, state): Round,
) -> Answer {
    let mut work = Loop {
        case,
        keys: asked.keys(),
        popular: &asked.popular,
        from: state,
        left: count,
        records: asked.records,
        state,
        wrong: 0,
    };
    let began_ns = thread_ns();
    let mut run = || worker::run(index, lanes, fabric, &mut work, wakes).expect("lanes that work");
    match case {
        Case::One(_) | Case::Mix(..) if asked.is_stepped() => instructions::between_stops(run),
        _ => run(),
    }
    let ns = thread_ns() - began_ns;
    assert_eq!(work.wrong, 0, "wrong answers to {}", case.name());
    (ns, work.state)
}
