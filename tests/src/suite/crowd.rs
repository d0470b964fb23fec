//! Many lanes of several compute nodes on a fabric that uses every freedom it has.
//!
//! The checks need no recorded history. Every lane has *own* keys that no other lane writes, so it knows what they
//! hold. All lanes share a few keys whose sum must be right at the end: a key that is inserted and deleted exists
//! exactly if one more insert than deletes succeeded, and a counter raised by `update_if` has as many steps as
//! succeeded. Own and shared keys alternate, so they lie in the same leaves.

use crate::oracle::{self, answer, stamp, value};
use crate::subject::{AnyIndex, Opened, Shape, Subject};
use crate::test_bed::Setup;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Census, Effect, OpError, Operation, OperationKind, Outcome};
use dm_core::verbs::{LaneId, NodeId, Status};
use dm_sim::rng::Rng;
use dm_sim::{Driver, DriverConfig, Event, LaneAt, World};
use std::collections::BTreeMap;

/// How many, and how they are disturbed.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    compute_nodes: usize,
    lanes: usize,
    operations: u32,
    /// Of 10,000 steps of the driver, those at which a lane is dropped.
    drops: u32,
    /// Steps after which memory node 1 dies; 0 = never.
    dies_after: u32,
}

/// The key of number `n`: one prefix for all, so that numbers and keys sort alike.
fn key(n: u64, key_bytes: usize) -> Vec<u8> {
    oracle::key(n * 3, key_bytes)
}

fn number(key: &[u8]) -> u64 {
    oracle::number(key) / 3
}

/// Shared keys that come and go; counters.
const SHARED: u64 = 6;
const COUNTERS: u64 = 3;
/// Own keys of a lane.
const OWN: u64 = 12;

/// What a lane's future ends with: what was done, how it ended, and the stamp it saw or the page it read.
enum Ended {
    Point(Result<Outcome, OpError>, Option<u32>),
    Page(Result<Outcome, OpError>, Vec<(u64, u32)>),
    Counted(Result<bool, OpError>),
    Settled(Result<(), OpError>),
    Walked(Result<Census, OpError>),
}

/// What a lane is doing.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Point { kind: OperationKind, n: u64, new: u32, expected: u32 },
    Scan { low: u64, bound: Option<u64> },
    Count { n: u64 },
    Settle,
}

/// What an own key may hold: after an unknown outcome there are two possibilities.
type Possible = Vec<Option<u32>>;

/// What a shared key's sum must be.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    done: i64,
    /// Steps up and down that may have happened.
    up: i64,
    down: i64,
}

struct Worker {
    number: u64,
    left: u32,
    doing: Option<Doing>,
    own: BTreeMap<u64, Possible>,
}

/// Keys: shared ones first in each group of `workers + 1`, then one of each lane.
struct Keys {
    workers: u64,
}

impl Keys {
    fn shared(&self, i: u64) -> u64 {
        i * (self.workers + 1)
    }

    fn own(&self, worker: u64, i: u64) -> u64 {
        i * (self.workers + 1) + 1 + worker
    }

    /// The lane whose key it is; `None`: it is shared.
    fn owner(&self, n: u64) -> Option<u64> {
        (n % (self.workers + 1)).checked_sub(1)
    }
}

fn setups(subject: &dyn Subject) -> Vec<(String, Setup)> {
    let mut setups = Vec::new();
    for (name, options) in subject.switches() {
        setups.push((name.to_owned(), Setup::new(Shape::words(3, 2)).on(2).switched(options)));
    }
    let base = Setup::new(Shape::words(2, 2));
    setups.push(("locks in host memory".to_owned(), Setup { device: false, ..base.clone() }));
    setups.push(("one lock word".to_owned(), Setup { locks: 1, ..base.clone() }));
    let long = Shape { key_bytes: 16, value_bytes: 200, spans: (4, 3) };
    setups.push(("entries of several lines".to_owned(), Setup::new(long).on(3)));
    let mut blind = base;
    blind.spending.cache_bytes = 0;
    setups.push(("no cache".to_owned(), blind));
    for (_, setup) in &mut setups {
        setup.region_bytes = 1 << 20;
        setup.spending.lanes = 3;
    }
    setups
}

/// Seeds from `first` on: `usual` of them, `DM_LONGER=100` times as many for a night, or `DM_SEED=n` alone.
fn seeds(first: u64, usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("DM_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + usual * number("DM_LONGER").unwrap_or(1),
    }
}

/// Writes the log of the world to the file that `DM_LOG` names, to find the cause of a failure.
fn write_log(world: &World) {
    if let Some(file) = std::env::var_os("DM_LOG") {
        std::fs::write(file, dm_sim::log::text(world.log())).expect("a place for the log");
    }
}

/// The results of all lanes fit together, whatever the fabric does with the freedom it has.
pub fn lanes_agree_under_adversity(subject: &dyn Subject) {
    let mut marks = Marks::default();
    for (name, setup) in setups(subject) {
        for seed in seeds(0, 12) {
            let compute_nodes = 2 + seed as usize % 2;
            let crowd = Crowd { compute_nodes, lanes: 3, operations: 60, drops: 0, dies_after: 0 };
            run(subject, &setup, crowd, seed, &name, &mut marks);
        }
    }
    marks.assert(subject.crowd_marks().0);
}

/// The same, with futures dropped at random steps and their lanes settled.
pub fn lanes_agree_while_others_are_dropped(subject: &dyn Subject) {
    let mut marks = Marks::default();
    for (name, setup) in setups(subject) {
        for seed in seeds(1_000_000, 12) {
            let crowd = Crowd { compute_nodes: 2, lanes: 3, operations: 60, drops: 60, dies_after: 0 };
            run(subject, &setup, crowd, seed, &name, &mut marks);
        }
    }
    marks.assert(subject.crowd_marks().1);
}

/// When a memory node dies, every operation of every lane ends, with an outcome or with that error. Every lane can
/// continue with records on other memory nodes.
pub fn a_memory_node_dies_among_many_lanes(subject: &dyn Subject) {
    let mut marks = Marks::default();
    for (name, setup) in setups(subject) {
        if setup.nodes < 2 {
            continue;
        }
        for seed in seeds(0, 6) {
            let dies_after = 500 + 700 * (seed as u32 % 6);
            let crowd = Crowd { compute_nodes: 2, lanes: 3, operations: 60, drops: 0, dies_after };
            run(subject, &setup, crowd, seed, &name, &mut marks);
        }
    }
}

struct Marks([u64; Mark::ALL.len()]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl Marks {
    fn add(&mut self, lane: &Lane<'_>) {
        for (sum, &mark) in self.0.iter_mut().zip(Mark::ALL) {
            *sum += u64::from(lane.marked(mark));
        }
    }

    fn assert(&self, wanted: &[Mark]) {
        let all: Vec<_> = Mark::ALL.iter().map(|&mark| format!("{} {}", mark.name(), self.0[mark as usize])).collect();
        println!("{}", all.join(", "));
        for &mark in wanted {
            assert!(self.0[mark as usize] > 0, "{} never happened: {}", mark.name(), all.join(", "));
        }
    }
}

fn run(subject: &dyn Subject, setup: &Setup, crowd: Crowd, seed: u64, name: &str, marks: &mut Marks) {
    let pool = setup.pool(subject);
    let mut world = World::new(setup.config(), seed);
    pool.format(world.memories_mut());
    world.set_log(std::env::var_os("DM_LOG").is_some());
    let mut done = false;
    // Compute nodes are opened one inside the other: each borrows from its own storage.
    let mut then = |opened: &[(&dyn AnyIndex, &dyn Fn() -> usize)]| {
        play(&mut world, opened, crowd, &format!("{name}, seed {seed}"), seed, marks);
        done = true;
    };
    nest(subject, setup, &pool, crowd.compute_nodes, &[], &mut then);
    assert!(done);
    if crowd.dies_after == 0 {
        for (node, geometry) in (0..).zip(&pool.geometry) {
            let memory = world.memories().get(NodeId(node)).expect("a memory node of the pool");
            let memory = memory.space(geometry.lock_space);
            for index in 0..u64::from(geometry.lock_count) {
                let word = memory.word(geometry.lock_table + index * 8);
                assert_eq!(word, 0, "{name}, seed {seed}: lock {index} of memory node {node} is held");
            }
        }
        assert_eq!(world.misuses(), [], "{name}, seed {seed}");
    }
}

type Nodes<'a> = [(&'a dyn AnyIndex, &'a dyn Fn() -> usize)];

fn nest(
    subject: &dyn Subject,
    setup: &Setup,
    pool: &crate::pool::Pool,
    left: usize,
    opened: &Nodes<'_>,
    then: &mut dyn FnMut(&Nodes<'_>),
) {
    if left == 0 {
        return then(opened);
    }
    let place = pool.place(opened.len() as u16);
    let mut inside = |this: &Opened<'_>| {
        let mut all: Vec<(&dyn AnyIndex, &dyn Fn() -> usize)> = opened.to_vec();
        all.push((this.index, this.locks_held));
        nest(subject, setup, pool, left - 1, &all, then);
    };
    subject.open(&place, &setup.shape, &setup.spending, &mut inside).unwrap_or_else(|error| panic!("{error}"));
}

fn play(world: &mut World, nodes: &Nodes<'_>, crowd: Crowd, what: &str, seed: u64, marks: &mut Marks) {
    let mut rng = Rng::new(seed ^ 0xc0de);
    let bytes = nodes[0].0.plan().total_bytes;
    let mut scratch = vec![vec![vec![0; bytes]; crowd.lanes]; nodes.len()];
    let lanes: Vec<Vec<Lane<'_>>> = scratch
        .iter_mut()
        .map(|scratch| (0..).zip(scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect())
        .collect();
    let slices: Vec<&[Lane<'_>]> = lanes.iter().map(Vec::as_slice).collect();
    let keys = Keys { workers: (crowd.compute_nodes * crowd.lanes) as u64 };
    let mut workers: Vec<Worker> = (0..keys.workers)
        .map(|number| Worker { number, left: crowd.operations, doing: None, own: BTreeMap::new() })
        .collect();
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    let mut stamps = 1;
    let mut driver: Driver<'_, '_, Ended> =
        Driver::new(world, &slices, DriverConfig { steps_max: 1_000_000, ..DriverConfig::default() });
    let at_of = |number: usize| LaneAt::new((number / crowd.lanes) as u16, (number % crowd.lanes) as u16);
    let number_of = |at: LaneAt| at.compute_node.0 as usize * crowd.lanes + at.lane as usize;
    let mut steps = 0u32;
    loop {
        for worker in &mut workers {
            let at = at_of(worker.number as usize);
            if worker.doing.is_some() || !driver.is_idle(at) {
                continue;
            }
            let (index, lane) =
                (nodes[at.compute_node.0 as usize].0, &slices[at.compute_node.0 as usize][at.lane as usize]);
            let doing = if lane.in_doubt() {
                Doing::Settle
            } else if worker.left > 0 {
                worker.left -= 1;
                stamps += 1;
                choose(&mut rng, &keys, worker, stamps)
            } else {
                continue;
            };
            worker.doing = Some(doing);
            driver.spawn(at, Box::pin(perform(index, lane, doing)));
        }
        steps += 1;
        if crowd.drops > 0 && rng.below(10_000) < crowd.drops {
            driver.drop_future(at_of(rng.below(workers.len() as u32) as usize));
        }
        if crowd.dies_after > 0 && steps == crowd.dies_after {
            driver.world().kill_memory_node(NodeId(1));
        }
        let dead = crowd.dies_after > 0 && steps > crowd.dies_after;
        let event = driver.step().unwrap_or_else(|stuck| {
            write_log(driver.world());
            panic!("{what}: {stuck}")
        });
        match event {
            Event::Done { at, result, .. } => {
                let worker = &mut workers[number_of(at)];
                let doing = worker.doing.take().expect("a lane that was doing something");
                judge(&keys, worker, &mut sums, doing, result, dead, what);
            }
            Event::Abandoned { at, .. } => {
                let worker = &mut workers[number_of(at)];
                if let Some(doing) = worker.doing.take() {
                    unknown(&keys, worker, &mut sums, doing);
                }
            }
            Event::Quiet if workers.iter().all(|worker| worker.left == 0 && worker.doing.is_none()) => break,
            Event::Progress | Event::Quiet => {}
        }
    }
    for (node, (_, held)) in nodes.iter().enumerate() {
        for lane in slices[node] {
            marks.add(lane);
            assert!(!lane.in_doubt(), "{what}: a lane of compute node {node} owes {:?}", lane.lock_records());
        }
        assert_eq!(held(), 0, "{what}: a local lock entry of compute node {node} is taken");
    }
    if crowd.dies_after > 0 {
        return;
    }
    for (node, (index, _)) in nodes.iter().enumerate() {
        let lane = &slices[node][0];
        let walked = finish(
            &mut driver,
            LaneAt::new(node as u16, 0),
            Box::pin(async move { Ended::Walked(index.validate(lane).await) }),
        );
        let Ended::Walked(walked) = walked else { panic!("not a walk") };
        let census = walked.unwrap_or_else(|error| {
            write_log(driver.world());
            panic!("{what}: compute node {node} finds: {error}")
        });
        let mut all: Vec<(u64, u32)> = Vec::new();
        loop {
            let low = all.last().map_or(0, |(n, _)| n + 1);
            let page = finish(
                &mut driver,
                LaneAt::new(node as u16, 0),
                Box::pin(perform(*index, lane, Doing::Scan { low, bound: None })),
            );
            let Ended::Page(Ok(Outcome::Page { more, .. }), page) = page else { panic!("{what}: a scan failed") };
            all.extend(page);
            if !more {
                break;
            }
        }
        assert_eq!(census.records, all.len() as u64, "{what}");
        accounts(&keys, &workers, &sums, &all, what);
    }
}

fn finish<'a>(driver: &mut Driver<'a, '_, Ended>, at: LaneAt, future: dm_sim::Op<'a, Ended>) -> Ended {
    driver.spawn(at, future);
    let mut ended = None;
    loop {
        match driver.next().unwrap_or_else(|stuck| panic!("{stuck}")) {
            Event::Done { result, .. } => ended = Some(result),
            Event::Quiet => return ended.expect("the only lane that runs"),
            Event::Progress | Event::Abandoned { .. } => {}
        }
    }
}

fn choose(rng: &mut Rng, keys: &Keys, worker: &Worker, new: u32) -> Doing {
    use OperationKind::{Delete, Get, Insert, Update, UpdateIf, Upsert};
    match rng.below(20) {
        0..=8 => {
            let n = keys.own(worker.number, u64::from(rng.below(OWN as u32)));
            let kind = [Get, Insert, Insert, Update, Upsert, UpdateIf, Delete, Delete][rng.below(8) as usize];
            let known = worker.own.get(&n).and_then(|possible| possible[0]).unwrap_or(0);
            Doing::Point { kind, n, new, expected: if rng.percent(70) { known } else { 0 } }
        }
        9..=13 => {
            let n = keys.shared(u64::from(rng.below(SHARED as u32)));
            Doing::Point { kind: [Insert, Delete, Get][rng.below(3) as usize], n, new, expected: 0 }
        }
        14..=16 => Doing::Count { n: keys.shared(SHARED + u64::from(rng.below(COUNTERS as u32))) },
        _ => {
            let low = u64::from(rng.below((OWN * (keys.workers + 1)) as u32));
            Doing::Scan { low, bound: rng.percent(50).then(|| low + 1 + u64::from(rng.below(30))) }
        }
    }
}

async fn point(
    index: &dyn AnyIndex,
    lane: &Lane<'_>,
    kind: OperationKind,
    n: u64,
    new: u32,
    expected: u32,
) -> (Result<Outcome, OpError>, Option<u32>) {
    let plan = index.plan();
    let key = key(n, plan.key_bytes);
    lane.port().with(|scratch| {
        scratch[plan.key.clone()].copy_from_slice(&key);
        scratch[plan.value.clone()].copy_from_slice(&value(&key, new, plan.value_bytes));
        scratch[plan.expected.clone()].copy_from_slice(&value(&key, expected, plan.value_bytes));
        scratch[plan.output.clone()].fill(0xee);
    });
    if lane.is_unsettled() {
        // An operation that succeeded may have failed when it helped another one.
        if let Err(error) = index.settle(lane).await {
            return (Err(error), None);
        }
    }
    let result = index.execute(lane, Operation::point(kind)).await;
    let seen = lane.port().with(|scratch| stamp(&key, &scratch[plan.output.clone()]));
    (result, seen)
}

async fn perform(index: &dyn AnyIndex, lane: &Lane<'_>, doing: Doing) -> Ended {
    let plan = index.plan();
    match doing {
        Doing::Settle => Ended::Settled(index.settle(lane).await),
        Doing::Point { kind, n, new, expected } => {
            let (result, seen) = point(index, lane, kind, n, new, expected).await;
            Ended::Point(result, seen)
        }
        Doing::Count { n } => Ended::Counted(count(index, lane, n).await),
        Doing::Scan { low, bound } => {
            lane.port().with(|scratch| {
                scratch[plan.key.clone()].copy_from_slice(&key(low, plan.key_bytes));
                scratch[plan.key_high.clone()].copy_from_slice(&key(bound.unwrap_or(0), plan.key_bytes));
            });
            let operation = Operation { bounded: bound.is_some(), ..Operation::scan(20) };
            let result = index.execute(lane, operation).await;
            let records = if let Ok(Outcome::Page { records, .. }) = result { records as usize } else { 0 };
            let page = lane.port().with(|scratch| {
                let record = |at| {
                    let (key, value) = scratch[plan.record(at)].split_at(plan.key_bytes);
                    (number(key), stamp(key, value).expect("a value that somebody wrote for this key"))
                };
                (0..records).map(record).collect()
            });
            Ended::Page(result, page)
        }
    }
}

/// Raises a counter by one, as often as it takes: get, then update_if. `false`: it was made instead, at 1.
async fn count(index: &dyn AnyIndex, lane: &Lane<'_>, n: u64) -> Result<bool, OpError> {
    loop {
        let (result, seen) = point(index, lane, OperationKind::Get, n, 0, 0).await;
        match result? {
            Outcome::Found => {
                let now = seen.expect("a counter holds a number that somebody wrote");
                if point(index, lane, OperationKind::UpdateIf, n, now + 1, now).await.0? == Outcome::Updated {
                    return Ok(true);
                }
            }
            _ => {
                if point(index, lane, OperationKind::Insert, n, 1, 0).await.0? == Outcome::Inserted {
                    return Ok(false);
                }
            }
        }
    }
}

fn judge(
    keys: &Keys,
    worker: &mut Worker,
    sums: &mut BTreeMap<u64, Sum>,
    doing: Doing,
    ended: Ended,
    dead: bool,
    what: &str,
) {
    let failed = |error: OpError| {
        let down = matches!(error.cause, Cause::Verb(verb) if verb.status == Status::NodeDown);
        assert!(dead && down, "{what}: {doing:?}: {error}");
        error.effect
    };
    match (doing, ended) {
        (Doing::Settle, Ended::Settled(result)) => {
            if let Err(error) = result {
                failed(error);
            }
        }
        (Doing::Point { .. } | Doing::Count { .. }, Ended::Point(Err(error), _) | Ended::Counted(Err(error))) => {
            if failed(error) != Effect::None {
                unknown(keys, worker, sums, doing);
            }
        }
        (Doing::Scan { .. }, Ended::Page(Err(error), _)) => {
            failed(error);
        }
        (Doing::Point { kind, n, new, expected }, Ended::Point(Ok(outcome), seen)) => {
            let with_value = matches!(outcome, Outcome::Found | Outcome::Exists | Outcome::Mismatch);
            assert!(!with_value || seen.is_some(), "{what}: {doing:?}: {outcome:?} with a value nobody wrote for it");
            let seen = seen.filter(|_| with_value);
            if keys.owner(n).is_some() {
                let possible = worker.own.entry(n).or_insert_with(|| vec![None]);
                let now: Possible = possible
                    .iter()
                    .map(|&before| answer(kind, before, new, expected))
                    .filter(|right| right.outcome == outcome && right.output == seen)
                    .map(|right| right.after)
                    .collect();
                assert!(!now.is_empty(), "{what}: {doing:?} gave {outcome:?} {seen:?}; possible were {possible:?}");
                *possible = now;
            } else {
                let sum = sums.entry(n).or_default();
                sum.done += i64::from(outcome == Outcome::Inserted) - i64::from(outcome == Outcome::Deleted);
            }
        }
        (Doing::Count { n }, Ended::Counted(Ok(_))) => sums.entry(n).or_default().done += 1,
        (Doing::Scan { low, bound }, Ended::Page(Ok(outcome), page)) => {
            let Outcome::Page { more, .. } = outcome else { panic!("{what}: a scan gave {outcome:?}") };
            assert!(page.windows(2).all(|pair| pair[0].0 < pair[1].0), "{what}: not ascending: {page:?}");
            assert!(
                page.iter().all(|&(n, _)| n >= low && bound.is_none_or(|bound| n < bound)),
                "{what}: out of bounds"
            );
            // Own keys did not change meanwhile: they are in the page with their value, as far as it goes.
            let end = if more { page.last().map_or(low, |(n, _)| n + 1) } else { bound.unwrap_or(u64::MAX) };
            for (&n, possible) in worker.own.range_mut(low.min(end)..end) {
                let seen = page.iter().find(|(other, _)| *other == n).map(|(_, stamp)| *stamp);
                assert!(
                    possible.contains(&seen),
                    "{what}: a scan saw {seen:?} at own key {n}, possible were {possible:?}"
                );
                *possible = vec![seen];
            }
            for &(n, _) in page.iter().filter(|(n, _)| keys.owner(*n) == Some(worker.number)) {
                assert!(worker.own.contains_key(&n), "{what}: own key {n} was never inserted");
            }
        }
        (doing, _) => panic!("{what}: {doing:?} ended as something else"),
    }
}

/// The operation may have happened.
fn unknown(keys: &Keys, worker: &mut Worker, sums: &mut BTreeMap<u64, Sum>, doing: Doing) {
    match doing {
        Doing::Point { kind, n, new, expected } if keys.owner(n).is_some() => {
            let possible = worker.own.entry(n).or_insert_with(|| vec![None]);
            for before in possible.clone() {
                let after = answer(kind, before, new, expected).after;
                if !possible.contains(&after) {
                    possible.push(after);
                }
            }
        }
        Doing::Point { kind, n, .. } => {
            let sum = sums.entry(n).or_default();
            sum.up += i64::from(kind == OperationKind::Insert);
            sum.down += i64::from(kind == OperationKind::Delete);
        }
        Doing::Count { n } => sums.entry(n).or_default().up += 1,
        Doing::Scan { .. } | Doing::Settle => {}
    }
}

/// At the end, the records are those that the operations of all lanes left.
fn accounts(keys: &Keys, workers: &[Worker], sums: &BTreeMap<u64, Sum>, all: &[(u64, u32)], what: &str) {
    let there: BTreeMap<u64, u32> = all.iter().copied().collect();
    for worker in workers {
        for (n, possible) in &worker.own {
            let now = there.get(n).copied();
            assert!(possible.contains(&now), "{what}: own key {n} holds {now:?}, possible were {possible:?}");
        }
    }
    for (n, sum) in sums {
        let now = there.get(n).copied();
        let counter = *n >= keys.shared(SHARED);
        let is = if counter { i64::from(now.unwrap_or(0)) } else { i64::from(now.is_some()) };
        assert!(
            (sum.done - sum.down..=sum.done + sum.up).contains(&is),
            "{what}: shared key {n} sums up to {sum:?}, holds {now:?}"
        );
    }
    for (n, _) in all {
        let known = keys.owner(*n).is_none_or(|owner| workers[owner as usize].own.contains_key(n));
        assert!(known, "{what}: key {n} was never inserted");
    }
}
