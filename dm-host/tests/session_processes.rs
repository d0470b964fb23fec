//! Sessions of several processes on memory nodes that are processes, too.

use dm_core::operation::{Census, OperationKind};
use dm_core::remote::row::RowState;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Delete, DeleteIf, Insert, Session, SessionError, UpdateIf};
use dm_host::solo;
use session_support::daemons::Daemons;
use session_support::{block_on, options};
use std::collections::HashMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod session_support;

/// Keys that all processes write.
const KEYS: u64 = 20;
/// Application threads of one process.
const THREADS: u64 = 3;
/// Operations of one thread.
const TURNS: u64 = 2_500;
const PROCESSES: u64 = 3;

/// Nodes so small that twenty keys split and merge them all the time.
const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 32, leaf_span: 3, inner_span: 3 };

/// A value: whose key, which writer, how many-th write of that writer, and a sum over these.
fn value(key: u64, writer: u64, sequence: u64) -> [u8; 32] {
    let mut value = [0; 32];
    let sum = [key, writer, sequence].iter().fold(7u64, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3));
    for (place, word) in value.chunks_exact_mut(8).zip([key, writer, sequence, sum]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    value
}

/// What one thread has seen: the last sequence of each writer on each key. A writer's sequences ascend, so what a
/// thread sees of one key and writer never descends.
#[derive(Default)]
struct Seen(HashMap<(u64, u64), u64>);

impl Seen {
    fn check(&mut self, key: &[u8], found: &[u8]) {
        let words: Vec<u64> = found.as_chunks().0.iter().map(|word: &[u8; 8]| u64::from_le_bytes(*word)).collect();
        let key = u64::from_be_bytes(key.try_into().unwrap());
        assert_eq!(found, value(key, words[1], words[2]), "a torn or strange value of key {key}: {words:?}");
        let last = self.0.entry((key, words[1])).or_default();
        assert!(*last <= words[2], "key {key}, writer {}: {} after {last}", words[1], words[2]);
        *last = words[2];
    }
}

/// One application thread: all kinds of operations on few keys.
fn hammer(session: &Session, writer: u64) {
    let mut seen = Seen::default();
    let mut state = writer;
    // Every third thread awaits its calls.
    let awaits = writer.is_multiple_of(3);
    macro_rules! run {
        ($call:expr) => {
            if awaits { block_on($call).unwrap() } else { $call.wait().unwrap() }
        };
    }
    for sequence in 1..=TURNS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 33) % KEYS;
        let (key, new) = (number.to_be_bytes(), value(number, writer, sequence));
        match (state >> 60) % 8 {
            0 => {
                if let Insert::Exists(found) = run!(session.insert(&key, &new)) {
                    seen.check(&key, &found);
                }
            }
            1 => drop(run!(session.update(&key, &new))),
            2 => drop(run!(session.upsert(&key, &new))),
            3 => drop(matches!(run!(session.delete(&key)), Delete::Deleted)),
            4 => {
                let Some(expected) = run!(session.get(&key)) else { continue };
                if let DeleteIf::Mismatch(found) = run!(session.delete_if(&key, &expected)) {
                    seen.check(&key, &found);
                }
            }
            5 => {
                let Some(expected) = run!(session.get(&key)) else { continue };
                seen.check(&key, &expected);
                if let UpdateIf::Mismatch(found) = run!(session.update_if(&key, &expected, &new)) {
                    seen.check(&key, &found);
                }
            }
            6 => {
                let page = run!(session.page(Bound::Included(&key), Bound::Unbounded, 12));
                assert!(page.iter().is_sorted_by(|(low, _), (high, _)| low < high), "{page:?}");
                page.iter().for_each(|(key, found)| seen.check(key, found));
            }
            _ => {
                let keys: Vec<_> = (0..5).map(|n| ((number + n) % KEYS).to_be_bytes()).collect();
                let found = if awaits { block_on(session.multi_get(&keys)) } else { session.multi_get(&keys).wait() };
                for (key, found) in keys.iter().zip(found) {
                    if let Some(found) = found.unwrap() {
                        seen.check(key, &found);
                    }
                }
            }
        }
    }
}

/// Tells the child processes where the pool is, and which of them they are.
const PARTNER: &str = "DM_TEST_SESSION_PARTNER";

/// A child process: this test binary again. Without its environment there is nothing to do.
#[test]
fn partner() {
    let Ok(text) = std::env::var(PARTNER) else { return };
    let mut words = text.split(':');
    let process: u64 = words.next().unwrap().parse().unwrap();
    let sockets: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let pool = Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap());
    let session = Session::open(&pool, "contended", &options(2, 4)).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let session = session.clone();
            scope.spawn(move || hammer(&session, 1 + process * THREADS + thread));
        }
    });
    let statistics = session.statistics();
    for kind in OperationKind::ALL {
        assert!(statistics.of(kind).operations > 0, "{kind:?}");
        assert_eq!(statistics.of(kind).failed, 0, "{kind:?}");
    }
}

/// Lock words of the pool that are not free.
fn locks_held(pool: &Pool) -> usize {
    let held = pool.with_lane(|fabric, lane| {
        let mut held = 0;
        for (node, geometry) in (0..).zip(pool.geometry()) {
            for lock in 0..u64::from(geometry.lock_count) {
                let read = Request::read(Label::Tool, NodeId(node), geometry.lock_table + lock * 8, 8, 0);
                solo::block_on(fabric, lane, lane.port().call(read.in_space(geometry.lock_space))).unwrap();
                held += usize::from(lane.port().with(|scratch| scratch[..8] != [0; 8]));
            }
        }
        held
    });
    held.unwrap()
}

/// Compute-node rows in use.
fn rows_in_use(pool: &Pool) -> usize {
    let rows = pool.with_lane(|fabric, lane| {
        let home = &pool.geometry()[0];
        let states = (1..home.row_count.min(64) as u16).map(|row| {
            let row = dm_core::membership::rows::read(lane, home, dm_core::remote::lock_word::RowId(row), 0);
            solo::block_on(fabric, lane, row).unwrap().decode().unwrap().state
        });
        states.filter(|state| *state != RowState::Free).count()
    });
    rows.unwrap()
}

#[test]
fn processes_hammer_the_same_few_keys() {
    for lines in ["auto", "sequence"] {
        let directory = tempfile::tempdir().unwrap();
        let daemons = Daemons::start(directory.path(), 2, lines);
        let pool = daemons.connect();
        let session = Session::open_or_create(&pool, "contended", PARAMETERS, &options(1, 1)).unwrap();
        let children: Vec<_> = (0..PROCESSES)
            .map(|process| {
                let mut environment = process.to_string();
                for socket in &daemons.sockets {
                    environment = format!("{environment}:{}", socket.display());
                }
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "partner"]).env(PARTNER, environment).stdout(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "lines {lines}");
        }
        assert_eq!(locks_held(&pool), 0);
        assert_eq!(rows_in_use(&pool), 1, "everybody else has left");
        let census = session.validate().unwrap();
        let records: Vec<_> = session.scan(Bound::Unbounded, Bound::Unbounded).map(Result::unwrap).collect();
        assert_eq!(census, Census { records: records.len() as u64, ..census });
        let mut seen = Seen::default();
        for (key, found) in &records {
            seen.check(key, found);
        }
        session.close();
        assert_eq!(rows_in_use(&pool), 0);
    }
}

#[test]
fn a_killed_memory_node_fails_calls_and_hangs_nobody() {
    for killed in [0, 1] {
        let directory = tempfile::tempdir().unwrap();
        let mut daemons = Daemons::start(directory.path(), 2, "auto");
        let session = Session::open_or_create(&daemons.connect(), "doomed", PARAMETERS, &options(2, 4)).unwrap();
        let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for me in 0..6u64 {
                let (session, stop, failed) = (session.clone(), &stop, &failed);
                scope.spawn(move || {
                    for n in 0.. {
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                        let key = ((n + me) % 9).to_be_bytes();
                        let error = match n % 3 {
                            0 => session.upsert(&key, &value(0, me, n)).wait().err(),
                            1 => block_on(session.delete(&key)).err(),
                            _ => session.multi_get(&[key; 4]).wait().into_iter().find_map(Result::err),
                        };
                        let Some(error) = error else { continue };
                        failed.fetch_add(1, Ordering::SeqCst);
                        let known = matches!(error, SessionError::Operation(_) | SessionError::Broken { .. });
                        assert!(known, "{error}");
                    }
                });
            }
            thread::sleep(Duration::from_millis(100));
            daemons.kill(killed);
            let began = Instant::now();
            while failed.load(Ordering::SeqCst) < 50 && began.elapsed() < Duration::from_secs(15) {
                thread::sleep(Duration::from_millis(1));
            }
            // Before anything is judged: the threads must end in any case.
            stop.store(true, Ordering::SeqCst);
        });
        assert!(failed.load(Ordering::SeqCst) >= 50, "{failed:?}");
        let began = Instant::now();
        session.close();
        assert_eq!(session.get(&[0; 8]).wait(), Err(SessionError::Closed));
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
