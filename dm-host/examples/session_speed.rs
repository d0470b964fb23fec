//! What a call costs through a local handle and through a worker, against a worker that is driven directly: uniform gets
//! and upserts, 8-byte keys and values, one worker.
//!
//! `cargo run --release -p dm-host --example session_speed -- 1000000`

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
use dm_host::session::{Session, SessionOptions, Table, Upsert};
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const GETS: u64 = 10_000;
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

fn time(name: &str, mut gets: impl FnMut() -> u64) {
    let run = |_| {
        let began = Instant::now();
        let done = gets();
        began.elapsed().as_nanos() as f64 / done as f64
    };
    let mut ns: Vec<f64> = (0..RUNS).map(run).collect();
    ns.sort_by(f64::total_cmp);
    println!("{name:<58} {:8.0} ns a record (best {:.0})", ns[ns.len() / 2], ns[0]);
}

const SEED: u64 = 88_172_645_463_325_252;

fn drive(index: &impl Index, kind: OperationKind, lane: &[Lane<'_>], fabric: &mut AnyFabric, records: u64) -> u64 {
    let mut direct = Direct { kind, draw: Draw(SEED, records), left: GETS, missed: 0 };
    let stopped = worker::run(index, lane, fabric, &mut direct, &Wakes::new(1, lane.len()));
    assert!(stopped.is_ok() && direct.missed == 0, "{stopped:?}");
    GETS
}

/// A thread's own handle.
fn local(table: &Table<u64, u64>, records: u64) -> Result<(), Box<dyn Error>> {
    let handle = table.local()?;
    time("local: get_into, one at a time", || {
        let (mut draw, mut value) = (Draw(SEED, records), [0; 8]);
        for _ in 0..GETS {
            assert_eq!(handle.bytes().get_into(&draw.key(), &mut value), Ok(true));
        }
        GETS
    });
    time("local: upsert of bytes, one at a time", || {
        let mut draw = Draw(SEED, records);
        for _ in 0..GETS {
            let key = draw.key();
            assert_eq!(handle.bytes().upsert(&key, &key), Ok(Upsert::Replaced));
        }
        GETS
    });
    let mut draw = Draw(SEED, records);
    let keys: Vec<_> = (0..GETS).map(|_| u64::from_be_bytes(draw.key())).collect();
    time("local: typed get, one at a time", || {
        for &key in &keys {
            assert!(matches!(handle.get(key), Ok(Some(_))));
        }
        GETS
    });
    time("local: typed upsert, one at a time", || {
        for &key in &keys {
            assert_eq!(handle.upsert(key, key), Ok(Upsert::Replaced));
        }
        GETS
    });
    for size in [8, 64, 1024] {
        time(&format!("local: multi_get of {size}"), || {
            for some in keys.chunks(size) {
                assert!(handle.multi_get(some.iter().copied()).iter().all(|found| matches!(found, Ok(Some(_)))));
            }
            GETS
        });
        time(&format!("local: multi_put of {size}"), || {
            for some in keys.chunks(size) {
                let records = some.iter().map(|&key| (key, key));
                assert!(handle.multi_put(records).iter().all(|put| *put == Ok(Upsert::Replaced)));
            }
            GETS
        });
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let region_bytes = (records * 40).next_multiple_of(1 << 21) + (64 << 20);
    let options = EmbeddedOptions { chunk_bytes: 1 << 20, ..EmbeddedOptions::new(region_bytes) };
    let pool = Pool::embedded_with(&options)?;
    let spinning = SessionOptions { spin: Duration::from_micros(50), ..SessionOptions::default() };
    let session = Session::open_or_create(&pool, "speed", Parameters::with_sizes(8, 8), &spinning)?;
    let all: Vec<_> = (0..records).map(|n| (n.to_be_bytes(), n.to_le_bytes())).collect();
    for some in all.chunks(10_000) {
        session.multi_put(some).wait().into_iter().try_for_each(|result| result.map(drop))?;
    }
    println!("{records} records, {} lines, median of {RUNS} x {GETS}", options.lines.profile());

    let joined = pool.join(8, Membership::default())?;
    let spending = Spending { lanes: 8, ..spinning.spending.clone() };
    let (entry, parameters) = pool.find_index("speed")?;
    let mut fabric = pool.fabric()?;
    let place_fabric = pool.fabric()?;
    with_index(&joined.place(&entry, &place_fabric), &parameters, &spending, |index| {
        for count in [1, 8] {
            let mut scratch = vec![0; index.plan().total_bytes * count];
            let pieces = scratch.chunks_exact_mut(index.plan().total_bytes);
            let lanes: Vec<_> = pieces.zip(0..).map(|(scratch, id)| Lane::new(LaneId(id), scratch)).collect();
            for (name, kind) in [("get", OperationKind::Get), ("upsert", OperationKind::Upsert)] {
                time(&format!("direct: {name}, one worker with {count} lanes, no other thread"), || {
                    drive(&index, kind, &lanes, &mut fabric, records)
                });
            }
        }
    })?;
    drop(joined);
    local(&Table::of(session.clone())?, records)?;

    let blocking = |session: &Session| {
        let mut draw = Draw(SEED, records);
        let mut value = [0; 8];
        for _ in 0..GETS {
            assert_eq!(session.get_into(&draw.key(), &mut value).wait(), Ok(true));
        }
        GETS
    };
    time("blocking get_into, one thread, both sides spin 50 us", || blocking(&session));
    time("blocking get_into, two threads, both sides spin 50 us", || {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| blocking(&session))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread of gets")).sum()
        })
    });
    let keys: Vec<_> = {
        let mut draw = Draw(SEED, records);
        (0..GETS).map(|_| draw.key()).collect()
    };
    for size in [8, 64, 1024] {
        time(&format!("multi_get of {size}, one thread"), || {
            for some in keys.chunks(size) {
                assert!(session.multi_get(some).wait().iter().all(|found| matches!(found, Ok(Some(_)))));
            }
            GETS
        });
    }
    let pairs: Vec<_> = keys.iter().map(|key| (key, key)).collect();
    time("multi_put of 1024, one thread", || {
        for some in pairs.chunks(1024) {
            assert!(session.multi_put(some).wait().iter().all(|put| *put == Ok(Upsert::Replaced)));
        }
        GETS
    });
    time("awaited get, polled in a loop by one thread", || {
        for key in &keys {
            let mut call = pin!(session.get(key));
            while call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                std::hint::spin_loop();
            }
        }
        GETS
    });
    session.close();
    let sleeping = SessionOptions { spin: Duration::ZERO, ..spinning };
    let session = Session::open(&pool, "speed", &sleeping)?;
    time("blocking get_into, one thread, both sides sleep at once", || blocking(&session));
    let session = Session::open(&pool, "speed", &SessionOptions::default())?;
    time("blocking get_into, one thread, default options", || blocking(&session));
    Ok(())
}
