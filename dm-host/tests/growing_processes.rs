//! A memory node that is added to a pool while sessions work.

use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::chunk::ChunkKind;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::NodeId;
use dm_host::compute_node::Membership;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::{Pool, PoolError};
use dm_host::session::Session;
use dm_host::solo::block_on;
use session_support::daemons::Daemons;
use session_support::{options, value_of};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

mod session_support;

const MEMD: &[&str] = &["--size", "16MiB", "--chunk-size", "64KiB", "--lines", "sequence"];

fn open(pool: &Arc<Pool>) -> Session {
    Session::open_or_create(pool, "users", Parameters::with_sizes(8, 8), &options(1, 4)).unwrap()
}

fn fill(session: &Session, keys: std::ops::Range<u64>) {
    let records: Vec<_> = keys.map(|key| (key.to_be_bytes(), value_of(key))).collect();
    session.multi_put(&records).wait().into_iter().for_each(|put| assert!(put.is_ok()));
}

fn holds(session: &Session, keys: u64) {
    for key in 0..keys {
        assert_eq!(session.get(&key.to_be_bytes()).wait().unwrap().as_deref(), Some(&value_of(key)[..]));
    }
}

fn tally(pool: &Pool, node: u16) -> Tally {
    let (mut tally, geometry) = (Tally::default(), &pool.geometry()[usize::from(node)]);
    let mut see = |_, entry| tally.count(entry);
    pool.with_lane(|fabric, lane| block_on(fabric, lane, chunks::walk(lane, NodeId(node), geometry, 0, &mut see)))
        .unwrap()
        .unwrap();
    tally
}

fn to_add(daemons: &Daemons) -> Pool {
    Pool::connect_to_add(&daemons.sockets, ShmOptions::default()).unwrap()
}

fn two(directory: &Path) -> Daemons {
    let mut daemons = Daemons::start_with(directory, 1, MEMD);
    daemons.start_next(directory, 2, MEMD);
    daemons
}

#[test]
fn a_memory_node_is_added_while_sessions_work_and_grants_when_all_know_it() {
    let directory = TempDir::new().unwrap();
    let mut daemons = Daemons::start_with(directory.path(), 1, MEMD);
    let small = daemons.connect();
    let before = open(&small);
    let row = before.member().row;
    fill(&before, 0..2000);

    daemons.start_next(directory.path(), 2, MEMD);
    let named = Pool::connect(&daemons.sockets, ShmOptions::default()).unwrap_err();
    assert!(matches!(named, PoolError::Count { named: 2, count: 1 }), "{named}");
    assert!(named.to_string().contains("the pool has 1 memory node, and 2 were named"), "{named}");
    let pool = Arc::new(to_add(&daemons));
    assert!(pool.add_memory_node().unwrap());
    assert!(!pool.add_memory_node().unwrap(), "again");
    assert_eq!(pool.memory_nodes().unwrap(), 2);

    // The session that knows one memory node works on, and nothing is granted on the other one, to whomever.
    let behind = |pool: &Pool| match pool.grant_from(NodeId(1)) {
        Err(PoolError::Behind { node: 1, rows }) => rows,
        other => panic!("{other:?}"),
    };
    assert_eq!(behind(&pool), [row.0]);
    let after = open(&pool);
    fill(&before, 2000..6000);
    fill(&after, 6000..10_000);
    holds(&before, 10_000);
    assert_eq!(behind(&pool), [row.0]);
    let nodes_of_indexes = |tally: &Tally| {
        let redo = tally.granted.iter().map(|kinds| kinds[ChunkKind::Redo as usize]).sum::<u32>();
        tally.granted_total() - redo
    };
    assert_eq!(nodes_of_indexes(&tally(&pool, 1)), 0);
    // A compute node that knows one memory node cannot join any more, nor through a connection that was made before.
    let refused = small.join(1, Membership::default()).unwrap_err();
    assert!(refused.to_string().contains("the pool has 2 memory nodes by now, not 1"), "{refused}");
    let refused = Pool::connect(&daemons.sockets[..1], ShmOptions::default()).unwrap_err();
    assert!(matches!(refused, PoolError::Count { named: 1, count: 2 }), "{refused}");
    assert!(refused.to_string().contains("name all of them"), "{refused}");
    // Both have left no row behind.
    assert_eq!(behind(&pool), [row.0]);

    before.close();
    assert!(pool.grant_from(NodeId(1)).unwrap() > 100);
    fill(&after, 10_000..40_000);
    holds(&after, 40_000);
    let granted = tally(&pool, 1);
    assert!(nodes_of_indexes(&granted) > 0 && granted.withheld == 0, "{granted:?}");
    let again = open(&daemons.connect());
    holds(&again, 40_000);
    again.close();
    assert_eq!(after.validate().unwrap().records, 40_000);
    after.close();
}

#[test]
fn only_a_new_memory_node_of_this_pool_is_added() {
    let directory = TempDir::new().unwrap();
    let daemons = two(directory.path());
    // One that was in use: of a pool of two that was never grown.
    let pool = Arc::new(to_add(&daemons));
    let session = open(&pool);
    fill(&session, 0..4000);
    session.close();
    assert!(tally(&pool, 1).granted_total() > 0);
    let refused = pool.add_memory_node().unwrap_err();
    assert!(matches!(refused, PoolError::NotNew { node: 1, .. }), "{refused}");
    assert_eq!(pool.memory_nodes().unwrap(), 1);

    let directory = TempDir::new().unwrap();
    let mut daemons = Daemons::start_with(directory.path(), 1, MEMD);
    daemons.start_next(directory.path(), 2, &[MEMD, &["--pool-name", "other"]].concat());
    let refused = Pool::connect_to_add(&daemons.sockets, ShmOptions::default()).unwrap_err();
    assert!(matches!(refused, PoolError::Mixed { .. }), "{refused}");
}

#[test]
fn a_pool_that_has_grown_is_one_after_its_memory_nodes_were_started_again() {
    let directory = TempDir::new().unwrap();
    let file = |node: u16| directory.path().join(format!("file-{node}")).display().to_string();
    let [first, second] = [file(0), file(1)];
    let kept = |path: &str| [MEMD, &["--file", path]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let start = || {
        let mut daemons = Daemons::start_with(directory.path(), 0, &[]);
        for (nodes, path) in [(1, &first), (2, &second)] {
            let arguments = kept(path);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            daemons.start_next(directory.path(), nodes, &arguments);
        }
        daemons
    };
    let daemons = start();
    let pool = Arc::new(to_add(&daemons));
    assert!(pool.add_memory_node().unwrap());
    assert!(pool.grant_from(NodeId(1)).unwrap() > 100);
    let session = open(&pool);
    fill(&session, 0..10_000);
    session.close();
    assert!(tally(&pool, 1).granted_total() > 0);
    drop((pool, daemons));
    // As they were started before.
    let daemons = start();
    let session = open(&daemons.connect());
    holds(&session, 10_000);
    session.close();
}
