//! Fencing: stopped processes, departed ones, and sessions that were fenced.

use crate::{
    Daemon, LEASE, N0, PARAMETERS, Partner, SHORT, connect, fence, point, post, session_support, watched, word,
};
use dm_core::fabric::Fabric as _;
use dm_core::index::Index as _;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::LeaseConfig;
use dm_core::membership::rows;
use dm_core::operation::{Cause, Effect, OpError, OperationKind, Outcome};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Row, RowState};
use dm_core::remote::rpc::{self, Reply};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{LaneId, NodeId};
use dm_host::assembly::Spending;
use dm_host::compute_node::Membership;
use dm_host::kinds::IndexParameters;
use dm_host::memory_node::AnnounceError;
use dm_host::pool::{Pool, PoolError};
use dm_host::session::{Session, SessionError};
use dm_host::solo::block_on;
use rustix::process::Signal;
use std::time::{Duration, Instant};

fn state_of(pool: &Pool, row: RowId) -> RowState {
    let mut bytes = [0; Row::BYTES];
    let home = pool.nodes()[0].region().unwrap().area(dm_core::verbs::Space::Host);
    home.read(pool.geometry()[0].row_offset(row), &mut bytes).unwrap();
    Row::from_prefix(&bytes).unwrap().decode().unwrap().state
}

#[test]
fn a_stopped_process_is_fenced_and_never_writes_again() {
    let directory = tempfile::tempdir().unwrap();
    for lines in ["auto", "sequence"] {
        let daemons = [0, 1].map(|node: u8| {
            let socket = directory.path().join(format!("{lines}-{node}"));
            Daemon::start(&socket, &["--lines", lines, "--node-id", &node.to_string(), "--memory-nodes", "2"])
        });
        let all = [&daemons[0], &daemons[1]];
        let pool = connect(&all).unwrap();
        assert!(pool.fabric().unwrap().capabilities().fencing);
        let mut partner = Partner::start("writer", &all);
        let joined = partner.line("JOINED");
        let (row, incarnation) = (joined[0] as u16, joined[1] as u32);
        while word(&pool) == 0 {}
        partner.stop();
        // The memory node that it never wrote to knows it as well.
        assert_eq!(fence(&pool, NodeId(1), row, incarnation), Reply::Done, "lines {lines}");
        assert_eq!(fence(&pool, N0, row, incarnation), Reply::Done);
        let last = word(&pool);
        assert_eq!(partner.ended_by(), Some(Signal::KILL.as_raw()));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(word(&pool), last);
        // Once more: nothing to do any more.
        assert_eq!(post(&pool, rpc::fence(N0, RowId(row), incarnation)).value, Reply::Done as u64);
        // And nothing of the kind is let in again; the next incarnation is.
        let late = pool.nodes()[0].announce(RowId(row), incarnation);
        assert_eq!(late, Err(AnnounceError::Fenced { node: 0, row, incarnation }));
        assert_eq!(pool.nodes()[0].announce(RowId(row), incarnation + 1), Ok(()));
    }
}

/// Retired leaves whose generations begin again wait until no compute node has an old pointer to them. An unresponsive
/// compute node holds all of them back, for ever, though it holds no lock that is wanted. It is left alone until nodes
/// run short.
#[test]
fn a_stopped_process_that_memory_waits_for_is_fenced_when_nodes_run_short() {
    const KEYS: u64 = 1000;
    const PATIENCE: Duration = Duration::from_mins(1);
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let node = pool.join(1, watched()).unwrap();
    let parameters = IndexParameters::from(Parameters { leaf_span: 8, ..Parameters::with_sizes(8, 8) });
    let entry = node.create_index(SHORT, &parameters).unwrap();
    // Places have two generations before they wait, not thirty-two.
    let spending = Spending { generations: 2, ..Spending::default() };
    let opened = node.with_index(&entry, &parameters, &spending, |index| {
        let mut fabric = pool.fabric().unwrap();
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let mut call = |kind, key| point(&node, &mut fabric, &lane, &index, kind, key);
        let mut partner = Partner::start("reader", &[&daemon]);
        let row = RowId(partner.line("JOINED")[0] as u16);
        // Leaves split, are merged and retired, over and over.
        let round = |call: &mut dyn FnMut(OperationKind, u64) -> Outcome| {
            for key in 0..KEYS {
                assert_eq!(call(OperationKind::Insert, key), Outcome::Inserted);
            }
            for key in 0..KEYS {
                assert_eq!(call(OperationKind::Delete, key), Outcome::Deleted);
            }
        };
        let began = Instant::now();
        while began.elapsed() < 2 * LEASE || lane.marked(Mark::LIMBO_LEFT) == 0 {
            assert!(began.elapsed() < PATIENCE, "nothing has waited for long enough");
            round(&mut call);
        }
        assert!(lane.marked(Mark::LIMBO_ENTERED) > 0);
        assert_eq!(state_of(&pool, row), RowState::Live, "who says that it lives is waited for");
        partner.stop();
        // An earlier shortage of nodes is forgotten here.
        call(OperationKind::Get, 0);
        std::thread::sleep(3 * LEASE);
        call(OperationKind::Get, 0);
        assert_eq!(state_of(&pool, row), RowState::Live, "silent, and nobody is short of anything");
        assert_eq!(lane.marked(Mark::ROW_FENCED), 0);
        let began = Instant::now();
        while state_of(&pool, row) != RowState::Dead {
            assert!(began.elapsed() < PATIENCE, "nobody ends it");
            round(&mut call);
        }
        assert_eq!(partner.ended_by(), Some(Signal::KILL.as_raw()));
        assert_eq!((lane.marked(Mark::ROW_FENCED), lane.marked(Mark::TAKEOVER)), (1, 0));
        // The places in its limbo list become free.
        let (began, over) = (Instant::now(), lane.marked(Mark::LIMBO_LEFT));
        while lane.marked(Mark::LIMBO_LEFT) == over {
            assert!(began.elapsed() < PATIENCE, "its places are still waiting");
            round(&mut call);
        }
    });
    opened.unwrap();
}

#[test]
fn who_left_its_row_is_not_ended_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut leaver = Partner::start("leaver", &[&daemon]);
    let left = leaver.line("LEFT");
    assert_eq!(fence(&pool, N0, left[0] as u16, left[1] as u32 + 5), Reply::Done);
    std::thread::sleep(Duration::from_millis(50));
    assert!(leaver.child.try_wait().unwrap().is_none(), "it lives");
}

#[test]
fn a_compute_node_fenced_before_it_said_who_it_is_joins_as_another() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    // Row 1 is the first to be claimed. This is what a fencing node does that was faster than the row's announcement.
    assert_eq!(fence(&pool, N0, 1, 1), Reply::Done);
    let refused = pool.join(1, Membership::default()).unwrap_err();
    assert!(matches!(refused, PoolError::Announce(AnnounceError::Fenced { row: 1, incarnation: 1, .. })), "{refused}");
    let node = pool.join(1, Membership::default()).unwrap();
    assert_eq!((node.member().row, node.member().incarnation), (RowId(1), 2));
}

#[test]
fn a_session_that_was_fenced_says_so_and_another_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut options = session_support::options(1, 2);
    options.membership.terms = LeaseConfig::of(400_000_000).unwrap();
    let session = Session::open_or_create(&pool, "fenced", PARAMETERS, &options).unwrap();
    let (key, value) = ([7; 8], [1; 8]);
    session.upsert(&key, &value).wait().unwrap();
    // The first step of another compute node that takes this one for dead. (The next step would end this process.)
    let member = session.member();
    let home = &pool.geometry()[0];
    pool.with_lane(|fabric, lane| {
        block_on(fabric, lane, rows::advance(lane, home, member.row, member.word(), RowState::Fencing))
    })
    .unwrap()
    .unwrap();
    let began = Instant::now();
    let error = loop {
        match session.upsert(&key, &[2; 8]).wait() {
            Ok(_) => assert!(began.elapsed() < Duration::from_secs(10), "it does not notice"),
            Err(error) => break error,
        }
    };
    let fenced = OpError { effect: Effect::None, cause: Cause::Fenced };
    assert_eq!(error, SessionError::Operation(fenced));
    assert_eq!(session.get(&key).wait(), Err(SessionError::Operation(fenced)), "every call says so");
    let next = Session::open(&pool, "fenced", &options).unwrap();
    assert_ne!((next.member().row, next.member().incarnation), (member.row, member.incarnation));
    next.upsert(&key, &[3; 8]).wait().unwrap();
    assert_eq!(next.get(&key).wait().unwrap(), Some(vec![3; 8]));
    session.close();
    next.close();
}
