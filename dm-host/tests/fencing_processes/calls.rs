//! Remote procedure calls to the daemon of a memory node.

use crate::{Daemon, N0, Partner, WORD, connect, rpc, session_support};
use dm_core::fabric::{Fabric as _, Posted};
use dm_core::lane::Lane;
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::verbs::{Flags, Label, LaneId, Request, Status};
use dm_host::compute_node::Membership;
use dm_host::fabric::any::AnyFabric;
use dm_host::fabric::shm::CALL_WAIT;
use rustix::process::Signal;
use std::time::Instant;

#[test]
fn calls_are_answered_and_may_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    assert_eq!(rpc(&pool, [Procedure::Ping as u64, 4711, 0, 0]), Ok(4711));
    assert_eq!(rpc(&pool, [77, 1, 2, 3]), Ok(Reply::Unknown as u64));
    // A row that is not taken, and a number that is no row.
    for _ in 0..2 {
        assert_eq!(rpc(&pool, [Procedure::Fence as u64, 99, 7, 0]), Ok(Reply::Done as u64));
        assert_eq!(rpc(&pool, [Procedure::Fence as u64, 1 << 40, 7, 0]), Ok(Reply::Done as u64));
    }
    let node = pool.join(1, Membership::default()).unwrap();
    let own = [u64::from(node.member().row.0), u64::from(node.member().incarnation)];
    assert_eq!(rpc(&pool, [Procedure::CloseQueuePair as u64, own[0], own[1], 0]), Ok(Reply::Done as u64));
    let mut partner = Partner::start("writer", &[&daemon]);
    let other = partner.line("JOINED");
    assert_eq!(rpc(&pool, [Procedure::CloseQueuePair as u64, other[0], other[1], 0]), Ok(Reply::Impossible as u64));
    // Memory nodes within this process have no daemon to call.
    assert_eq!(rpc(&session_support::pool_here(1), [Procedure::Ping as u64, 1, 0, 0]), Err(Status::Unsupported));
}

#[test]
fn a_lane_that_waits_for_a_daemon_does_not_hold_up_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [[0; 64]; 2];
    let [first, second] = &mut scratch;
    let lanes = [Lane::new(LaneId(0), first), Lane::new(LaneId(1), second)];
    daemon.signal(Signal::STOP);
    let ping = Request::rpc(Label::Tool, N0, [Procedure::Ping as u64, 1, 0, 0]);
    let submit = |fabric: &mut AnyFabric, lane: usize, request| {
        lanes[lane].port().push(request);
        assert!(lanes[lane].port().flush());
        fabric.post(&lanes, lane)
    };
    // Before the submit: the fabric counts the wait from somewhere within it.
    let began = Instant::now();
    assert_eq!(submit(&mut fabric, 0, ping), Posted::InFlight);
    let mut others = 0;
    let mut first_is_ready = false;
    while !first_is_ready {
        let mut read = Request::read(Label::Tool, N0, WORD, 8, 0);
        read.flags = Flags::SIGNALED;
        let posted = submit(&mut fabric, 1, read);
        let mut second_is_ready = posted == Posted::Completed;
        fabric.poll(&lanes, &mut |lane| if lane == 0 { first_is_ready = true } else { second_is_ready = true });
        assert!(second_is_ready, "the other lane waits");
        assert_eq!(lanes[1].port().completion(0).status, Status::Ok);
        lanes[1].port().reset();
        others += 1;
    }
    assert!(began.elapsed() >= CALL_WAIT && others > 100, "{others} in {:?}", began.elapsed());
    assert_eq!(lanes[0].port().completion(0).status, Status::NodeDown);
    lanes[0].port().reset();
    assert!(!pool.nodes()[0].is_down(), "slow is not dead");
    daemon.signal(Signal::CONT);
    assert_eq!(rpc(&pool, [Procedure::Ping as u64, 2, 0, 0]), Ok(2), "the late return was for nobody");
    daemon.kill();
    let gone = rpc(&pool, [Procedure::Ping as u64, 3, 0, 0]);
    assert_eq!(gone, Err(Status::NodeDown));
}
