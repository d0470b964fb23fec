//! Memory nodes on files that are started again.

use crate::{Daemon, N0, PARAMETERS, Partner, connect, memd, post, session_support, word};
use dm_core::membership::lease::LeaseConfig;
use dm_core::remote::lock_word::LockWord;
use dm_core::remote::row::{Row, RowState};
use dm_core::verbs::{Label, Request};
use dm_host::pool::PoolError;
use dm_host::session::{Session, SessionError};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a daemon that cannot start says: one line.
fn complaint(mut command: Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_memory_node_on_a_file_comes_back_with_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let socket = directory.path().join("memd");
    for lines in ["sequence", "auto"] {
        let _ = std::fs::remove_file(&file);
        let start = ["--lines", lines, "--file", file.to_str().unwrap()];
        let mut daemon = Daemon::start(&socket, &start);
        assert!(daemon.ready.contains("incarnation=1 "), "{}", daemon.ready);
        let pool = connect(&[&daemon]).unwrap();
        let session = Session::open_or_create(&pool, "kept", PARAMETERS, &session_support::options(1, 2)).unwrap();
        for key in 0..500u64 {
            session.insert(&key.to_be_bytes(), &(key * 7).to_le_bytes()).wait().unwrap();
        }
        // All locks are in its hands when the memory node dies.
        let (geometry, owner) = (&pool.geometry()[0], session.member());
        for index in 0..geometry.lock_count {
            let word = LockWord::new(owner.row, (1 << 40) + u64::from(index)).unwrap();
            let take = Request::cas(Label::Tool, N0, geometry.lock_offset(index), 0, word.0);
            assert_eq!(post(&pool, take.in_space(geometry.lock_space)).value, 0);
        }
        daemon.kill();
        let began = Instant::now();
        let error = loop {
            // What was under way when it died may still be acknowledged: then it is in the file.
            match session.upsert(&0u64.to_be_bytes(), &0u64.to_le_bytes()).wait() {
                Ok(_) => assert!(began.elapsed() < Duration::from_secs(10), "a dead memory node goes unnoticed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SessionError::Operation(_) | SessionError::Broken { .. }), "{error}");
        // Its client still runs, with its session open.
        let daemon = Daemon::start(&socket, &start);
        assert!(daemon.ready.contains("incarnation=2 (kept)"), "{}", daemon.ready);
        assert!(session.get(&1u64.to_be_bytes()).wait().is_err(), "the old connection stays down");
        let again = connect(&[&daemon]).unwrap();
        assert_eq!(again.descriptions()[0].identity.pool_incarnation, 2);
        let mut options = session_support::options(1, 2);
        options.membership.terms = LeaseConfig::of(200_000_000).unwrap();
        let second = Session::open(&again, "kept", &options).unwrap();
        for key in 0..500u64 {
            let value = second.get(&key.to_be_bytes()).wait().unwrap();
            assert_eq!(value, Some((key * 7).to_le_bytes().to_vec()), "key {key}, lines {lines}");
        }
        assert_eq!(second.validate().unwrap().records, 500);
        // The locks are recovered from the row of the old compute node, for which no process is connected to the new
        // daemon.
        for key in 0..500u64 {
            second.update(&key.to_be_bytes(), &key.to_le_bytes()).wait().unwrap();
        }
        let mut bytes = [0; Row::BYTES];
        let home = again.nodes()[0].region().unwrap().area(dm_core::verbs::Space::Host);
        home.read(geometry.row_offset(owner.row), &mut bytes).unwrap();
        let row = Row::from_prefix(&bytes).unwrap();
        assert_eq!(row.decode().unwrap().state, RowState::Dead);
        assert_eq!(second.validate().unwrap().records, 500);
        second.close();
        session.close();
    }
}

#[test]
fn a_client_that_does_not_let_go_is_ended_before_the_file_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let socket = directory.path().join("memd");
    let options = ["--file", file.to_str().unwrap()];
    let mut daemon = Daemon::start(&socket, &options);
    let mut stopped = Partner::start("writer", &[&daemon]);
    stopped.line("JOINED");
    let mut running = Partner::start("writer", &[&daemon]);
    running.line("JOINED");
    stopped.stop();
    daemon.kill();
    running.line("DOWN");
    let daemon = Daemon::start(&socket, &options);
    assert_eq!(stopped.ended_by(), Some(Signal::KILL.as_raw()));
    assert!(running.child.try_wait().unwrap().is_none(), "who let go lives");
    let pool = connect(&[&daemon]).unwrap();
    let last = word(&pool);
    assert!(last > 0);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(word(&pool), last);
}

#[test]
fn a_file_is_one_daemons_and_one_memory_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let file = ["--file", file.to_str().unwrap()];
    let socket = directory.path().join("memd");
    let other = directory.path().join("other");
    let mut daemon = Daemon::start(&socket, &file);
    let pool = connect(&[&daemon]).unwrap();
    let text = complaint(memd(&other, &file));
    assert!(text.contains("in use by another process"), "{text}");
    assert!(!pool.nodes()[0].is_down(), "the one that runs is not disturbed");
    daemon.kill();
    let with = |more: &[&str]| complaint(memd(&other, &[&file[..], more].concat()));
    let text = with(&["--pool-name", "another"]);
    assert!(text.contains("--pool-name pool --node-id 0 --memory-nodes 1 --size 8388608"), "{text}");
    let text = with(&["--incarnation", "1"]);
    assert!(text.contains("is at 1 already"), "{text}");
    // None of that was the start of a new incarnation.
    let daemon = Daemon::start(&socket, &[&file[..], &["--incarnation", "7"]].concat());
    assert!(daemon.ready.contains("incarnation=7 (kept)"), "{}", daemon.ready);
}

#[test]
fn half_a_pool_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = [directory.path().join("0"), directory.path().join("1")];
    let file = directory.path().join("pool");
    let first = Daemon::start(&sockets[0], &["--memory-nodes", "2"]);
    let kept = ["--memory-nodes", "2", "--node-id", "1", "--file", file.to_str().unwrap()];
    let mut second = Daemon::start(&sockets[1], &kept);
    drop(connect(&[&first, &second]).unwrap());
    second.kill();
    let second = Daemon::start(&sockets[1], &kept);
    let error = connect(&[&first, &second]).unwrap_err();
    assert!(matches!(error, PoolError::Incarnation { node: 1, found: 2, expected: 1 }), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
}
