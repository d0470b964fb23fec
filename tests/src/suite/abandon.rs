//! Futures are dropped at the k-th submit, for every k, and waiters leave their queue.

use super::bounds;
use crate::client::{Client, Progress, Steps, on_test_bed};
use crate::oracle::{answer, number};
use crate::subject::{Running, Shape, Subject};
use crate::test_bed::{Fixture, Setup, TestBed};
use dm_core::lane::Lane;
use dm_core::marks::MARKS_MAX;
use dm_core::operation::{Cause, Effect, Operation, OperationKind, Outcome};
use dm_core::verbs::LaneId;
use dm_sim::rng::Rng;
use std::collections::BTreeMap;

/// One operation on an index in a certain state.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is done.
    pub kind: OperationKind,
    /// To which key.
    n: u64,
    /// Keys 0, 10, ... before.
    keys: u64,
    /// Of these, those deleted again.
    holes: &'static [u64],
    /// Memory nodes.
    nodes: usize,
    /// Whether the operation begins with a cold cache.
    cold: bool,
}

const fn case(kind: OperationKind, n: u64, keys: u64) -> Case {
    Case { kind, n, keys, holes: &[], nodes: 1, cold: false }
}

/// Every step of every procedure is taken by at least one: first leaf, entry, leaf splits on one memory node and on two,
/// inner splits, root growth on two levels, merges to the left and to the right, cold descents, scans.
pub const CASES: &[Case] = &{
    use OperationKind::{Delete, Get, Insert, Scan, Update, UpdateIf, Upsert};
    [
        case(Get, 40, 8),
        Case { cold: true, ..case(Get, 40, 30) },
        case(Insert, 5, 0),
        case(Insert, 5, 1),
        case(Insert, 5, 2),
        case(Insert, 5, 4),
        case(Insert, 25, 5),
        case(Insert, 35, 6),
        case(Insert, 75, 8),
        case(Insert, 45, 9),
        case(Insert, 85, 12),
        case(Insert, 165, 20),
        case(Insert, 205, 30),
        Case { cold: true, ..case(Insert, 205, 30) },
        Case { nodes: 2, ..case(Insert, 5, 2) },
        Case { nodes: 2, ..case(Insert, 85, 12) },
        Case { nodes: 2, ..case(Insert, 165, 20) },
        Case { nodes: 2, ..case(Insert, 205, 30) },
        case(Insert, 40, 8),
        case(Upsert, 40, 8),
        case(Upsert, 45, 8),
        case(Update, 40, 8),
        case(Update, 45, 8),
        case(UpdateIf, 40, 8),
        case(Delete, 45, 8),
        case(Delete, 0, 1),
        case(Delete, 0, 8),
        case(Delete, 40, 8),
        Case { holes: &[30, 50], ..case(Delete, 40, 8) },
        Case { holes: &[10, 30, 50, 70], ..case(Delete, 40, 12) },
        Case { holes: &[10, 30, 50, 70], nodes: 2, ..case(Delete, 60, 12) },
        Case { holes: &[0, 20, 40, 60, 80], nodes: 2, ..case(Delete, 70, 12) },
        case(Scan, 15, 12),
        Case { cold: true, ..case(Scan, 15, 30) },
    ]
};

/// The stamp a case writes, and the one update_if expects: that of the filling.
const NEW: u32 = 4242;

impl Case {
    /// A small pool.
    pub fn setup(&self) -> Setup {
        let setup = Setup { region_bytes: 192 << 10, ..Setup::new(Shape::words(2, 2)).on(self.nodes) };
        Setup { chunk_nodes: 32, ..setup }
    }

    /// Has the cache filled, unless it shall be cold.
    pub fn warm(&self, client: &mut Client<'_, '_>) {
        if !self.cold {
            content(client);
            client.get(self.n);
        }
    }

    /// Writes the arguments to a lane's scratch.
    pub fn arguments(&self, client: &Client<'_, '_>, lane: usize) {
        client.arguments(lane, self.n, NEW, self.n as u32);
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        bounds::operation(self.kind)
    }

    /// Other operations continue with the key.
    pub fn go_on(&self, client: &mut Client<'_, '_>, when: &str) {
        for lane in [1, 0] {
            client.arguments(lane, self.n, 1, 0);
            let future = client.index.execute(&client.lanes[lane], Operation::point(OperationKind::Upsert));
            let outcome = client.drive(lane, future).result.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(matches!(outcome, Outcome::Inserted | Outcome::Replaced), "{when}: {outcome:?}");
        }
        assert_eq!(client.ask(OperationKind::Delete, self.n, 0, 0).0, Outcome::Deleted, "{when}");
        client.validate();
        client.assert_quiet(when);
    }
}

/// Brings the index into the case's state, as compute node 0, which leaves then.
pub fn prepare(subject: &dyn Subject, test_bed: &mut TestBed, case: &Case) {
    on_test_bed(subject, test_bed, &case.setup(), 0, &mut |client| {
        super::fill(client, case.keys * 10, 10);
        for &n in case.holes {
            client.ask(OperationKind::Delete, n, 0, 0);
        }
        let leaves = client.index.leave(&client.lanes[0]);
        client.drive(0, leaves).result.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    });
}

/// All records, by number.
pub fn content(client: &mut Client<'_, '_>) -> BTreeMap<u64, u32> {
    client.everything().into_iter().map(|(key, stamp)| (number(&key), stamp)).collect()
}

/// Checks that the operation happened or did not, and that the reported effect is true.
pub fn judge(case: &Case, before: &BTreeMap<u64, u32>, now: &BTreeMap<u64, u32>, effect: Effect, when: &str) {
    let mut after = before.clone();
    if case.kind != OperationKind::Scan {
        let right = answer(case.kind, before.get(&case.n).copied(), NEW, case.n as u32);
        match right.after {
            Some(stamp) => after.insert(case.n, stamp),
            None => after.remove(&case.n),
        };
    }
    let fits = match effect {
        Effect::None => now == before,
        Effect::Done => *now == after,
        Effect::Unknown => now == before || *now == after,
    };
    assert!(fits, "{when}: said {effect:?}\n  before {before:?}\n  now    {now:?}\n  after  {after:?}");
}

/// Whether an operation may have posted nothing: it was answered from memory, and left the records as they were.
pub fn may_ask_nothing(subject: &dyn Subject, before: &BTreeMap<u64, u32>, now: &BTreeMap<u64, u32>) -> bool {
    subject.answers_from_memory() && now == before
}

/// When the future is dropped, relative to the submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the submit is posted; the driver posts it all the same, since it may wake another lane.
    BeforePost,
    /// Before it is posted, and the queue pair is closed before anything of it is sent.
    Lost,
    /// When its completions are there.
    Completed,
}

/// A future is dropped at every step. Settling must then make the lane usable and release every lock. The operation
/// happened or it did not. Settling itself may be dropped and repeated.
pub fn dropped_at_every_step(subject: &dyn Subject, fixture: &dyn Fixture) {
    for case in CASES {
        for moment in [Moment::BeforePost, Moment::Lost, Moment::Completed] {
            let mut k = 0;
            while one(subject, fixture, case, moment, k) {
                k += 1;
            }
        }
    }
}

/// `false`: the operation ended before submit `k`.
fn one(subject: &dyn Subject, fixture: &dyn Fixture, case: &Case, moment: Moment, k: u32) -> bool {
    let mut dropped = false;
    // Settling is itself dropped at its first, second, ... submit, until it ends before.
    for again in 0.. {
        let mut test_bed = fixture.test_bed(subject, &case.setup());
        prepare(subject, &mut test_bed, case);
        let mut settled = false;
        on_test_bed(subject, &mut test_bed, &case.setup(), 1, &mut |client| {
            case.warm(client);
            let before = content(client);
            case.arguments(client, 0);
            let mut steps = Steps::new(&client.lanes[0], client.index.execute(&client.lanes[0], case.operation()));
            dropped = drop_at(&mut steps, client, moment, k);
            let when = format!("{case:?}, dropped {moment:?} of submit {k}, settling at its submit {again}");
            if dropped {
                let mut steps = Steps::new(&client.lanes[0], client.index.settle(&client.lanes[0]));
                settled = !drop_at(&mut steps, client, moment, again);
                client.settle(0).unwrap_or_else(|error| panic!("{when}: settling: {error}"));
            }
            client.assert_quiet(&when);
            let now = content(client);
            judge(case, &before, &now, if dropped { Effect::Unknown } else { Effect::Done }, &when);
            assert!(dropped || k > 0 || may_ask_nothing(subject, &before, &now), "{when}: it asks nothing");
            client.validate();
            case.go_on(client, &when);
        });
        if settled || !dropped {
            break;
        }
    }
    dropped
}

/// Drives to submit `k` and drops there. `false`: it ended before.
fn drop_at<T>(steps: &mut Steps<'_, '_, T>, client: &mut Client<'_, '_>, moment: Moment, k: u32) -> bool {
    for _ in 0..k {
        match steps.poll() {
            Progress::Submitted => steps.post(client.fabric),
            Progress::Parked => panic!("nobody else is here"),
            Progress::Done(_) => {
                steps.post(client.fabric);
                return false;
            }
        }
    }
    match steps.poll() {
        Progress::Submitted => {}
        Progress::Parked => panic!("nobody else is here"),
        Progress::Done(_) => {
            steps.post(client.fabric);
            return false;
        }
    }
    match moment {
        Moment::BeforePost => {}
        Moment::Lost => _ = client.lanes[0].port().reset(),
        Moment::Completed => steps.post(client.fabric),
    }
    steps.abandon(client.fabric);
    true
}

/// Four lanes of one compute node want the same few keys. Any of them may be dropped at any time: while it waits, is
/// handed the lock, holds it, or settles. No wake is lost, every lane ends, no lock stays held, and each key's value
/// was written by some operation.
pub fn waiters_may_leave(subject: &dyn Subject, fixture: &dyn Fixture) {
    let mut marks = [0; MARKS_MAX];
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let switches = fixture.switches(subject);
        let (_, options) = switches[rng.below(switches.len() as u32) as usize];
        let mut setup = Setup { region_bytes: 256 << 10, ..Setup::new(Shape::words(2, 2)).switched(options) };
        setup.locks = [1, 3, 61][rng.below(3) as usize];
        setup.spending.hand_overs_max = rng.below(5) as u8;
        let mut test_bed = fixture.test_bed(subject, &setup);
        on_test_bed(subject, &mut test_bed, &setup, 0, &mut |client| {
            super::fill(client, 60, 10);
            scuffle(client, &mut rng, seed, subject);
            for lane in client.lanes {
                for &mark in dm_core::rooms::MARKS {
                    marks[mark.number()] += lane.marked(mark);
                }
            }
        });
    }
    for &mark in subject.waiting().iter().chain(subject.few_keys().1) {
        assert!(marks[mark.number()] > 100, "{} happened {} times", mark.name(), marks[mark.number()]);
    }
}

/// A lane's operation, if it has one.
struct Busy<'s, 'm> {
    steps: Steps<'s, 'm, Option<Outcome>>,
    settles: bool,
    /// Its submit is still with the driver.
    unposted: bool,
    parked: bool,
    token: bool,
    /// It waits no longer than this subject's lanes sleep without a wake.
    sleeps_shortly: bool,
}

/// Whether every lane waits to be woken, and none is left that would begin something.
fn nobody_moves(running: &[Option<Busy<'_, '_>>], lanes: &[Lane<'_>], left: u32) -> bool {
    let waits = |run: &Busy<'_, '_>| run.parked && !run.token;
    running.iter().all(|run| run.as_ref().is_some_and(waits))
        || (left == 0
            && running.iter().flatten().all(waits)
            && lanes.iter().zip(running).all(|(lane, run)| run.is_some() || !lane.in_doubt()))
}

fn scuffle(client: &mut Client<'_, '_>, rng: &mut Rng, seed: u64, subject: &dyn Subject) {
    let (index, lanes, keys) = (client.index, client.lanes, subject.few_keys().0);
    let mut running: Vec<Option<Busy<'_, '_>>> = lanes.iter().map(|_| None).collect();
    let mut left = 60u32;
    // Steps of lanes that wait since one has posted something.
    let mut idle = 0;
    loop {
        // One random lane does one thing.
        let at = rng.below(lanes.len() as u32) as usize;
        let lane = &lanes[at];
        let Some(run) = &mut running[at] else {
            let future: Running<'_, Option<Outcome>> = if lane.in_doubt() {
                Box::pin(async move { index.settle(lane).await.map(|()| None) })
            } else if left > 0 {
                left -= 1;
                let kinds =
                    [OperationKind::Update, OperationKind::Upsert, OperationKind::Delete, OperationKind::Insert];
                let kind = kinds[rng.below(4) as usize];
                client.arguments(at, 20 + u64::from(rng.below(keys)), left, 0);
                Box::pin(async move { index.execute(lane, Operation::point(kind)).await.map(Some) })
            } else if running.iter().all(Option::is_none) && lanes.iter().all(|lane| !lane.in_doubt()) {
                break;
            } else {
                continue;
            };
            let settles = lane.in_doubt();
            let steps = Steps::new(lane, future);
            let (unposted, parked, token, sleeps_shortly) = (false, false, false, false);
            running[at] = Some(Busy { steps, settles, unposted, parked, token, sleeps_shortly });
            continue;
        };
        if left > 0 && rng.percent(4) {
            run.steps.abandon(client.fabric);
            running[at] = None;
            continue;
        }
        if std::mem::take(&mut run.unposted) {
            run.steps.post(client.fabric);
            continue;
        }
        if run.parked {
            if !std::mem::take(&mut run.token) {
                // Time passes.
                idle += 1;
                run.token = run.sleeps_shortly && rng.percent(1);
                let shortly = running.iter().flatten().any(|run| run.parked && run.sleeps_shortly);
                let stuck = if shortly { idle > 100_000 } else { nobody_moves(&running, lanes, left) };
                let lock_records: Vec<_> = lanes.iter().map(Lane::lock_records).collect();
                assert!(!stuck, "seed {seed}: every lane waits to be woken; they owe {lock_records:?}");
                continue;
            }
            run.parked = false;
            run.steps.post(client.fabric);
        }
        let ended = match run.steps.poll() {
            Progress::Submitted => {
                (run.unposted, idle) = (true, 0);
                false
            }
            Progress::Parked => {
                run.parked = true;
                run.sleeps_shortly = run.steps.parks_ns() <= subject.sleep_ns_max();
                false
            }
            Progress::Done(result) => {
                run.steps.post(client.fabric);
                let what = if run.settles { "settling" } else { "an operation" };
                match result {
                    Ok(_) => {}
                    // A lane that led its batch was dropped. The operation that is told so may have happened.
                    Err(error) if error.cause == Cause::LeaderLost && !run.settles => {
                        assert_ne!(error.effect, Effect::Done, "seed {seed}");
                    }
                    Err(error) => panic!("seed {seed}: {what}: {error}"),
                }
                true
            }
        };
        let woken = std::mem::take(&mut run.steps.woken);
        if ended {
            (running[at], idle) = (None, 0);
        }
        for LaneId(id) in woken {
            if let Some(run) = &mut running[id as usize] {
                run.token = true;
            }
        }
    }
    drop(running);
    client.assert_quiet(&format!("seed {seed}"));
    let census = client.validate();
    assert_eq!(census.records, client.everything().len() as u64);
}
