//! What a call costs through a local handle and through a worker, against a worker that is driven directly: uniform gets
//! and upserts, 8-byte keys and values, one worker.
//!
//! `cargo run --release -p dm-host --example session_speed -- 1000000`
//!
//! What is compared runs in turn, round after round, so that whatever else the machine does slows all of it down. A ratio is the
//! median of the rounds' ratios to the first line.

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::{Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::LaneId;
use dm_host::assembly::Spending;
use dm_host::compute_node::Membership;
use dm_host::fabric::any::AnyFabric;
use dm_host::kinds::with_index;
use dm_host::pool::{EmbeddedOptions, Pool};
use dm_host::session::{OpenError, Session, SessionOptions, Table, Upsert};
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const GETS: u64 = 10_000;
/// Of what wakes another thread, fewer.
const CALLS: u64 = 1000;
const RUNS: u32 = 41;

struct Draw(u64, u64);

impl Draw {
    fn key(&mut self) -> [u8; 8] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % self.1).to_be_bytes()
    }
}

/// Gets or upserts, straight into the lane.
struct Direct {
    kind: OperationKind,
    draw: Draw,
    left: u64,
    missed: u64,
}

impl Work for Direct {
    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let Some(left) = self.left.checked_sub(1) else { return Next::Finished };
        self.left = left;
        let key = self.draw.key();
        scratch[plan.key.clone()].copy_from_slice(&key);
        scratch[plan.value.clone()].copy_from_slice(&key);
        Next::Run(Operation::point(self.kind))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        self.missed += u64::from(!matches!(finished.result, Ok(Outcome::Found | Outcome::Replaced)));
    }
}

const SEED: u64 = 88_172_645_463_325_252;

/// One way to do some operations: what it is called, and what does them.
type Way<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn way<'a>(name: &'static str, run: impl FnMut() + 'a) -> Way<'a> {
    (name, Box::new(run))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs all ways in turn, each of which does so many operations, and prints what one costs.
fn compare(title: &str, operations: u64, mut ways: Vec<Way<'_>>) {
    let mut ns = vec![Vec::new(); ways.len()];
    for _ in 0..RUNS {
        for ((_, run), ns) in ways.iter_mut().zip(&mut ns) {
            let began = Instant::now();
            run();
            ns.push(began.elapsed().as_nanos() as f64 / operations as f64);
        }
    }
    println!("\n{title:<56}  median     best  ratio");
    for ((name, _), own) in ways.iter().zip(&ns) {
        let best = own.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = median(own.iter().zip(&ns[0]).map(|(own, first)| own / first));
        println!("  {name:<52} {:7.0} ns {best:7.0} {ratio:6.2}", median(own.iter().copied()));
    }
}

fn drive(index: &impl Index, kind: OperationKind, lanes: &[Lane<'_>], fabric: &RefCell<AnyFabric>, records: u64) {
    let mut direct = Direct { kind, draw: Draw(SEED, records), left: GETS, missed: 0 };
    let stopped = worker::run(index, lanes, &mut *fabric.borrow_mut(), &mut direct, &Wakes::new(1, lanes.len()));
    assert!(stopped.is_ok() && direct.missed == 0, "{stopped:?}");
}

fn blocking(session: &Session, records: u64, gets: u64) {
    let (mut draw, mut value) = (Draw(SEED, records), [0; 8]);
    for _ in 0..gets {
        assert_eq!(session.get_into(&draw.key(), &mut value).wait(), Ok(true));
    }
}

/// The engine, driven directly with one lane and with eight; a thread's own handle; and the session's worker.
fn beside_the_engine<I: Index>(
    index: &I,
    lanes: &[Lane<'_>],
    fabric: &RefCell<AnyFabric>,
    table: &Table<u64, u64>,
    records: u64,
) -> Result<(), OpenError> {
    let (handle, session) = (&table.local()?, table.session());
    let mut draw = Draw(SEED, records);
    let keys: &Vec<_> = &(0..GETS).map(|_| u64::from_be_bytes(draw.key())).collect();
    let bytes: &Vec<_> = &keys.iter().map(|key| key.to_be_bytes()).collect();
    let pairs: &Vec<_> = &bytes.iter().map(|key| (key, key)).collect();

    let direct = |name, kind, lanes| way(name, move || drive(index, kind, lanes, fabric, records));
    compare(
        "get, one at a time",
        GETS,
        vec![
            direct("the engine, one lane", OperationKind::Get, &lanes[..1]),
            way("local: get_into", || {
                let mut value = [0; 8];
                for key in bytes {
                    assert_eq!(handle.bytes().get_into(key, &mut value), Ok(true));
                }
            }),
            way("local: typed get", || {
                for &key in keys {
                    assert!(matches!(handle.get(key), Ok(Some(_))));
                }
            }),
        ],
    );
    compare(
        "upsert, one at a time",
        GETS,
        vec![
            direct("the engine, one lane", OperationKind::Upsert, &lanes[..1]),
            way("local: upsert", || {
                for key in bytes {
                    assert_eq!(handle.bytes().upsert(key, key), Ok(Upsert::Replaced));
                }
            }),
            way("local: typed upsert", || {
                for &key in keys {
                    assert_eq!(handle.upsert(key, key), Ok(Upsert::Replaced));
                }
            }),
        ],
    );
    let local_get = |name, size| {
        way(name, move || {
            for some in keys.chunks(size) {
                assert!(handle.multi_get(some.iter().copied()).iter().all(|found| matches!(found, Ok(Some(_)))));
            }
        })
    };
    compare(
        "get, many in a call",
        GETS,
        vec![
            direct("the engine, 8 lanes", OperationKind::Get, lanes),
            local_get("local: typed multi_get of 8", 8),
            local_get("local: typed multi_get of 64", 64),
            local_get("local: typed multi_get of 1024", 1024),
            way("worker: multi_get of 1024", || {
                for some in bytes.chunks(1024) {
                    assert!(session.multi_get(some).wait().iter().all(|found| matches!(found, Ok(Some(_)))));
                }
            }),
        ],
    );
    let local_put = |name, size| {
        way(name, move || {
            for some in keys.chunks(size) {
                let records = some.iter().map(|&key| (key, key));
                assert!(handle.multi_put(records).iter().all(|put| *put == Ok(Upsert::Replaced)));
            }
        })
    };
    compare(
        "upsert, many in a call",
        GETS,
        vec![
            direct("the engine, 8 lanes", OperationKind::Upsert, lanes),
            local_put("local: typed multi_put of 8", 8),
            local_put("local: typed multi_put of 64", 64),
            local_put("local: typed multi_put of 1024", 1024),
            way("worker: multi_put of 1024", || {
                for some in pairs.chunks(1024) {
                    assert!(session.multi_put(some).wait().iter().all(|put| *put == Ok(Upsert::Replaced)));
                }
            }),
        ],
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let region_bytes = (records * 40).next_multiple_of(1 << 21) + (64 << 20);
    let options = EmbeddedOptions { chunk_bytes: 1 << 20, ..EmbeddedOptions::new(region_bytes) };
    let pool = Pool::embedded_with(&options)?;
    let defaults = SessionOptions::default();
    let session = Session::open_or_create(&pool, "speed", Parameters::with_sizes(8, 8), &defaults)?;
    let all: Vec<_> = (0..records).map(|n| (n.to_be_bytes(), n.to_le_bytes())).collect();
    for some in all.chunks(10_000) {
        session.multi_put(some).wait().into_iter().try_for_each(|result| result.map(drop))?;
    }
    println!("{records} records, {} lines, {RUNS} rounds of {GETS} operations", options.lines.profile());

    let joined = pool.join(8, Membership::default())?;
    let spending = Spending { lanes: 8, ..defaults.spending.clone() };
    let (entry, parameters) = pool.find_index("speed")?;
    let fabric = RefCell::new(pool.fabric()?);
    let place_fabric = pool.fabric()?;
    let table = Table::of(session.clone())?;
    with_index(&joined.place(&entry, &place_fabric), &parameters, &spending, |index| {
        let mut scratch = vec![0; index.plan().total_bytes * 8];
        let pieces = scratch.chunks_exact_mut(index.plan().total_bytes);
        let lanes: Vec<_> = pieces.zip(0..).map(|(scratch, id)| Lane::new(LaneId(id), scratch)).collect();
        beside_the_engine(&index, &lanes, &fabric, &table, records)
    })??;
    drop((table, joined));

    let with_spin = |spin| SessionOptions { spin, ..SessionOptions::default() };
    let spinning = Session::open(&pool, "speed", &with_spin(Duration::from_micros(10)))?;
    let sleeping = Session::open(&pool, "speed", &with_spin(Duration::ZERO))?;
    let mut draw = Draw(SEED, records);
    let keys: Vec<_> = (0..CALLS).map(|_| draw.key()).collect();
    compare(
        "get through a worker, one at a time",
        CALLS,
        vec![
            way("blocking, default options", || blocking(&session, records, CALLS)),
            way("blocking, both sides sleep at once", || blocking(&sleeping, records, CALLS)),
            way("blocking, both sides spin 10 us", || blocking(&spinning, records, CALLS)),
            way("blocking, both sides spin 10 us, two threads", || {
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| blocking(&spinning, records, CALLS / 2));
                    }
                });
            }),
            way("awaited, polled in a loop", || {
                for key in &keys {
                    let mut call = pin!(session.get(key));
                    while call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                        std::hint::spin_loop();
                    }
                }
            }),
        ],
    );
    Ok(())
}
