//! What a request costs this side of the doorbell: mailbox, post and poll, on a device that does nothing.
//!
//!     cargo run --release -p dm-host --features verbs --example verbs_speed
//!
//! Neither a NIC nor its driver is measured: a provider of rdma-core writes work-queue entries and rings a doorbell where
//! this one keeps an identifier. Exit code 1 if a request costs more than the limit.

use dm_core::lane::Lane;
use dm_core::port::State;
use dm_core::verbs::{Fabric as _, Label, LaneId, NodeId, Posted, Request};
use dm_host::fabric::verbs::VerbsFabric;
use std::error::Error;
use std::time::Instant;

/// A request may cost so much.
const LIMIT_NS: f64 = 150.0;

/// Requests of one measurement.
const REQUESTS: u64 = 2_000_000;

/// Measurements; the median counts.
const RUNS: usize = 7;

const N0: NodeId = NodeId(0);

/// Runs `one` often enough to make [`REQUESTS`] requests, `RUNS` times: the median time of one request, in ns.
fn median_ns(requests: u64, mut one: impl FnMut(u64)) -> f64 {
    let mut runs: Vec<_> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for turn in 0..REQUESTS / requests {
                one(turn);
            }
            began.elapsed().as_nanos() as f64 / (REQUESTS / requests * requests) as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut fabric = VerbsFabric::null(1 << 30)?;
    let mut scratch = vec![0; 16 * 4096];
    let lanes: Vec<_> = scratch.chunks_mut(4096).zip(0..).map(|(piece, id)| Lane::new(LaneId(id), piece)).collect();
    let place = |turn: u64| turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 << 3;

    let mailbox = median_ns(1, |turn| {
        let port = lanes[0].port();
        port.push(Request::read(Label::Tool, N0, place(turn), 8, 0));
        port.flush();
        if let Some(scratch) = port.begin() {
            port.finish(scratch, 0);
        }
        port.reset();
    });
    println!("mailbox alone                            {mailbox:7.1} ns a request");

    type Make = fn(u64) -> Request;
    let kinds: [(&str, Make); 5] = [
        ("READ of 8 bytes", |at| Request::read(Label::Tool, N0, at, 8, 0)),
        ("READ of 1 KiB", |at| Request::read(Label::Tool, N0, at, 1024, 0)),
        ("WRITE of 8 bytes, inline", |at| Request::write_word(Label::Tool, N0, at, 7)),
        ("WRITE of 64 bytes", |at| Request::write(Label::Tool, N0, at, 64, 0)),
        ("CAS", |at| Request::cas(Label::Tool, N0, at, 1, 2)),
    ];
    let mut worst: f64 = 0.0;
    for (name, make) in kinds {
        for (lanes_at_once, chain) in [(1, 1), (1, 4), (16, 1)] {
            let ns = median_ns(lanes_at_once * chain, |turn| {
                for lane in 0..lanes_at_once as usize {
                    let port = lanes[lane].port();
                    for link in 0..chain {
                        port.push(make(place(turn * 64 + lane as u64 * 4 + link)));
                    }
                    port.flush();
                    assert_eq!(fabric.post(&lanes, lane), Posted::InFlight);
                }
                let mut left = lanes_at_once;
                while left > 0 {
                    fabric.poll(&lanes, &mut |lane| {
                        assert_eq!(lanes[lane].port().state(), State::Completed);
                        lanes[lane].port().reset();
                        left -= 1;
                    });
                }
            });
            println!("{name:<25} {lanes_at_once:>2} lanes x {chain}     {ns:7.1} ns a request");
            worst = worst.max(ns);
        }
    }
    println!("\nmailbox + post + poll, at worst          {worst:7.1} ns a request; limit {LIMIT_NS} ns");
    if worst > LIMIT_NS {
        return Err("a request costs more than the limit".into());
    }
    Ok(())
}
