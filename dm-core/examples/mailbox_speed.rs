//! What the mailbox costs: requests pushed, submitted, taken, completed, by a driver that executes nothing. Short rounds:
//! the median, and the lowest tenth, which is what it costs while nobody else wants the processor.
//!
//! `cargo run --release -p dm-core --example mailbox_speed`

use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request};
use std::hint::black_box;
use std::pin::pin;
use std::time::Instant;

const ROUNDS: usize = 500;
const SUBMITS: u64 = 20_000;

/// One round, in ns a submit.
fn round(requests_per_submit: u64) -> f64 {
    let mut scratch = [0; 4096];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let port = lane.port();
    let mut future = pin!(async {
        for n in 0..SUBMITS {
            for i in 0..requests_per_submit {
                port.push(Request::read(Label::Leaf, NodeId(0), n * 64 + i, 1024, 0));
            }
            port.submit().await.expect("nothing fails here");
            black_box(port.completion(0));
        }
    });
    let began = Instant::now();
    while poll_once(port, future.as_mut()) == Step::Requests {
        let scratch = port.begin().expect("just submitted");
        let requests = port.requests();
        for (position, request) in requests.iter().enumerate() {
            black_box(request);
            port.complete(position, Completion::default());
        }
        drop(requests);
        port.finish(scratch, 0);
    }
    began.elapsed().as_nanos() as f64 / SUBMITS as f64
}

fn measure(requests_per_submit: u64) {
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(requests_per_submit)).collect();
    rounds.sort_unstable_by(f64::total_cmp);
    let (median_ns, low_ns) = (rounds[ROUNDS / 2], rounds[ROUNDS / 10]);
    let each = requests_per_submit as f64;
    println!(
        "{requests_per_submit} requests a submit: {median_ns:.1} ns a submit, {:.1} ns a request; lowest tenth {low_ns:.1} ns, {:.1} ns",
        median_ns / each,
        low_ns / each
    );
}

fn main() {
    for requests_per_submit in [1, 2, 4, 8] {
        measure(requests_per_submit);
    }
}
