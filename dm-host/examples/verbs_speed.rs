//! What a request costs this side of the doorbell: mailbox, post and poll, on a device that does nothing.
//!
//!     cargo run --release -p dm-host --features verbs --example verbs_speed -- [RUNS [REQUESTS]]
//!
//! What is counted is the processor time of this thread, as medians of runs that take turns, so that others on the machine
//! disturb little. Neither a NIC nor its driver is measured: a provider of rdma-core writes work-queue entries and rings a doorbell where
//! this one keeps an identifier. Exit code 1 if a request costs more than the limit.

use dm_core::fabric::{Fabric as _, Posted};
use dm_core::lane::Lane;
use dm_core::port::State;
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request};
use dm_host::clock::Clock;
use dm_host::fabric::verbs::VerbsFabric;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::error::Error;
use std::hint::black_box;

/// A request may cost so much.
const LIMIT_NS: f64 = 150.0;

/// Requests of one run, unless told otherwise.
const REQUESTS: u64 = 100_000;

/// Runs of each kind, unless told otherwise; the median counts.
const RUNS: usize = 31;

const N0: NodeId = NodeId(0);

/// Processor time of this thread, in ns.
fn now_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Where request `turn` goes.
fn place(turn: u64) -> u64 {
    turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 << 3
}

/// What is measured, and the time of one in each run, in ns.
struct Row<'a> {
    name: String,
    /// Does so many, at least.
    run: Box<dyn FnMut(u64) + 'a>,
    times_ns: Vec<f64>,
}

impl<'a> Row<'a> {
    fn new(name: impl Into<String>, run: impl FnMut(u64) + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run), times_ns: Vec::new() }
    }

    /// The median and the least.
    fn print(&mut self) -> f64 {
        self.times_ns.sort_by(f64::total_cmp);
        let median = self.times_ns[self.times_ns.len() / 2];
        println!("{:<44}{median:7.1} ns   least {:6.1} ns", self.name, self.times_ns[0]);
        median
    }
}

fn measure(rows: &mut [Row<'_>], runs: usize, requests: u64) {
    for _ in 0..runs {
        for row in &mut *rows {
            let began = now_ns();
            (row.run)(requests);
            row.times_ns.push((now_ns() - began) / requests as f64);
        }
    }
}

/// Adds the rows of one kind of request. Each kind is compiled by itself, so that its requests are built in the outbox, as
/// those of an index are. A request that a function pointer returned would be copied there in wider words than it was
/// written in, and the processor waits for the narrower stores first: 5 ns a request, which no index pays.
fn add<'a, 'm: 'a>(
    rows: &mut Vec<Row<'a>>,
    fabric: &'a RefCell<VerbsFabric>,
    lanes: &'a [Lane<'m>],
    name: &str,
    make: impl Fn(u64) -> Request + Copy + 'a,
) {
    for (lanes_at_once, chain) in [(1, 1), (1, 4), (16, 1)] {
        rows.push(Row::new(format!("{name:<26}{lanes_at_once:>2} lanes x {chain}"), move |count| {
            let mut fabric = fabric.borrow_mut();
            for turn in 0..count / (lanes_at_once * chain) {
                for lane in 0..lanes_at_once as usize {
                    let port = lanes[lane].port();
                    for link in 0..chain {
                        port.push(make(place(turn * 64 + lane as u64 * 4 + link)));
                    }
                    port.flush();
                    assert_eq!(fabric.post(lanes, lane), Posted::InFlight);
                }
                let mut left = lanes_at_once;
                while left > 0 {
                    fabric.poll(lanes, &mut |lane| {
                        assert_eq!(lanes[lane].port().state(), State::Completed);
                        lanes[lane].port().reset();
                        left -= 1;
                    });
                }
            }
        }));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().skip(1).map(|text| text.parse::<u64>()).collect::<Result<Vec<_>, _>>()?;
    let runs = given.first().map_or(RUNS, |&runs| runs.max(1) as usize);
    let requests = given.get(1).map_or(REQUESTS, |&requests| requests.max(64));
    let fabric = RefCell::new(VerbsFabric::null(1 << 30)?);
    let mut scratch = vec![0; 16 * 4096];
    let lanes: Vec<_> = scratch.chunks_mut(4096).zip(0..).map(|(piece, id)| Lane::new(LaneId(id), piece)).collect();

    // Parts that a request of any kind has.
    let clock = Clock::get();
    let mut parts = vec![
        Row::new("mailbox alone", |count| {
            for turn in 0..count {
                let port = lanes[0].port();
                port.push(Request::read(Label::Tool, N0, place(turn), 8, 0));
                port.flush();
                if let Some(scratch) = port.begin() {
                    port.complete(0, Completion::default());
                    port.finish(scratch, 0);
                }
                port.reset();
            }
        }),
        Row::new("the two timestamps of a round trip", |count| {
            for _ in 0..count {
                black_box(clock.ns_between(clock.before(), black_box(clock.after())));
            }
        }),
        Row::new("a poll that finds nothing", |count| {
            for _ in 0..count {
                fabric.borrow_mut().poll(&lanes, &mut |_| {});
            }
        }),
    ];
    measure(&mut parts, runs, requests);
    for row in &mut parts {
        row.print();
    }
    println!();

    let mut rows = Vec::new();
    let (fabric, lanes) = (&fabric, lanes.as_slice());
    add(&mut rows, fabric, lanes, "READ of 8 bytes", |at| Request::read(Label::Tool, N0, at, 8, 0));
    add(&mut rows, fabric, lanes, "READ of 1 KiB", |at| Request::read(Label::Tool, N0, at, 1024, 0));
    add(&mut rows, fabric, lanes, "WRITE of 8 bytes, inline", |at| Request::write_word(Label::Tool, N0, at, 7));
    add(&mut rows, fabric, lanes, "WRITE of 64 bytes", |at| Request::write(Label::Tool, N0, at, 64, 0));
    add(&mut rows, fabric, lanes, "CAS", |at| Request::cas(Label::Tool, N0, at, 1, 2));
    measure(&mut rows, runs, requests);
    let worst = rows.iter_mut().map(Row::print).fold(0.0, f64::max);
    println!("\nmailbox + post + poll of a request, at worst {worst:6.1} ns; limit {LIMIT_NS} ns");
    if worst > LIMIT_NS {
        return Err("a request costs more than the limit".into());
    }
    Ok(())
}
