//! Drives one future on one lane to its end on the calling thread: for what a compute node does a few times in its life
//! - reading superblocks, joining, creating an index - and for tools.

use crate::clock::lease_us;
use dm_core::fabric::{Fabric, Posted};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::operation::OpError;
use dm_core::port::State;
use dm_core::verbs::Verb;
use std::future::Future;
use std::pin::pin;
use std::thread;
use std::time::Duration;

/// Drives `future`, an operation on `lane`, to its end. No other thread wakes the lane, so it must not wait for other
/// lanes.
pub fn block_on<'m, F: Fabric<'m>, T>(fabric: &mut F, lane: &Lane<'m>, future: impl Future<Output = T>) -> T {
    let lanes = std::slice::from_ref(lane);
    let port = lane.port();
    let mut future = pin!(future);
    // Without a clock no answer is given from what this compute node has cached under its lease.
    port.set_clock(Some(lease_us));
    port.start();
    let result = loop {
        match poll_once(port, future.as_mut()) {
            Step::Done(result) => break result,
            Step::Requests | Step::Waiting => execute(fabric, lanes),
        }
    };
    if port.flush() {
        execute(fabric, lanes);
    }
    port.reset();
    result
}

/// As [`block_on`], for something that `index` does. Then settles the lane, if that has left it in doubt. Returns both results.
pub fn block_on_index<'m, F: Fabric<'m>, T>(
    fabric: &mut F,
    lane: &Lane<'m>,
    index: &impl Index,
    future: impl Future<Output = T>,
) -> (T, Result<(), OpError>) {
    let result = block_on(fabric, lane, future);
    let settled = if lane.in_doubt() { block_on(fabric, lane, index.settle(lane)) } else { Ok(()) };
    (result, settled)
}

/// Executes what the only lane submitted.
fn execute<'m, F: Fabric<'m>>(fabric: &mut F, lanes: &[Lane<'m>]) {
    let port = lanes[0].port();
    let pause_ns =
        port.requests().iter().find(|request| request.verb == Verb::Pause).map(|request| request.operands[0]);
    let travels = port.requests().iter().any(|request| !request.verb.is_local());
    if let Some(ns) = pause_ns {
        thread::sleep(Duration::from_nanos(ns));
    }
    if !travels {
        if let Some(scratch) = port.begin() {
            port.finish(scratch, pause_ns.unwrap_or(0));
        }
        return;
    }
    if fabric.post(lanes, 0) == Posted::InFlight {
        while port.state() != State::Completed {
            fabric.poll(lanes, &mut |_| {});
        }
    }
}
