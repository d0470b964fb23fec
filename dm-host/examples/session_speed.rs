//! What a call through a session costs, against a worker that is driven directly: uniform gets, 8-byte keys and
//! values, one worker.
//!
//! `cargo run --release -p dm-host --example session_speed -- 1000000`

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::{Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::LaneId;
use dm_host::compute_node::Membership;
use dm_host::fabric::any::AnyFabric;
use dm_host::kinds::with_index;
use dm_host::pool::{EmbeddedOptions, Pool};
use dm_host::session::{Session, SessionOptions};
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

/// Gets, straight into the lane.
struct Direct {
    draw: Draw,
    left: u64,
    missed: u64,
}

impl Work for Direct {
    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let Some(left) = self.left.checked_sub(1) else { return Next::Finished };
        self.left = left;
        scratch[plan.key.clone()].copy_from_slice(&self.draw.key());
        Next::Run(Operation::point(OperationKind::Get))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        self.missed += u64::from(finished.result != Ok(Outcome::Found));
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
    println!("{name:<58} {:8.0} ns a get (best {:.0})", ns[ns.len() / 2], ns[0]);
}

fn drive(index: &impl Index, lane: &[Lane<'_>], fabric: &mut AnyFabric, records: u64) -> u64 {
    let mut direct = Direct { draw: Draw(88_172_645_463_325_252, records), left: GETS, missed: 0 };
    let stopped = worker::run(index, lane, fabric, &mut direct, &Wakes::new(1, lane.len()));
    assert!(stopped.is_ok() && direct.missed == 0, "{stopped:?}");
    GETS
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

    let joined = pool.join(1, Membership::default())?;
    let (entry, parameters) = pool.find_index("speed")?;
    let mut fabric = pool.fabric()?;
    let place_fabric = pool.fabric()?;
    with_index(&joined.place(&entry, &place_fabric), &parameters, &spinning.spending, |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        time("direct: a worker with one lane, no other thread", || drive(&index, &lanes, &mut fabric, records));
    })?;

    let blocking = |session: &Session| {
        let mut draw = Draw(88_172_645_463_325_252, records);
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
        let mut draw = Draw(88_172_645_463_325_252, records);
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
