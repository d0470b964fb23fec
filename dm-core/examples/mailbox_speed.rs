//! What the mailbox costs: requests pushed, submitted, taken, completed, by a driver that executes nothing.
//!
//! `cargo run --release -p dm-core --example mailbox_speed`

use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request};
use std::hint::black_box;
use std::pin::pin;
use std::time::Instant;

const SUBMITS: u64 = 20_000_000;

fn measure(requests_per_submit: u64) {
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
    let ns = began.elapsed().as_nanos() as f64 / SUBMITS as f64;
    println!(
        "{requests_per_submit} requests a submit: {ns:.1} ns a submit, {:.1} ns a request",
        ns / requests_per_submit as f64
    );
}

fn main() {
    for requests_per_submit in [1, 2, 4, 8] {
        measure(requests_per_submit);
    }
}
