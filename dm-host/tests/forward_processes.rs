//! Operations that another process executes, since it owns the keys; and that process dies.

use dm_core::operation::{Effect, OperationKind};
use dm_core::remote::lock_word::RowId;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Session, SessionError, Statistics, Update, Upsert};
use session_support::daemons::Daemons;
use session_support::{in_ranges, small_pages, value_of};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

mod session_support;

const KEYS: u64 = 500;

/// Tells the child process where the pool is.
const OWNER: &str = "DM_TEST_FORWARD_OWNER";

/// Longer than any lease.
const PATIENCE: Duration = Duration::from_mins(1);

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn open(pool: &Arc<Pool>) -> Session {
    Session::open_or_create(pool, "index", in_ranges(KEYS, 3), &small_pages()).unwrap()
}

/// Kills a process when operations of others are under way.
fn kill_soon(child: &mut Child) {
    thread::sleep(Duration::from_millis(30));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A child process: this test binary again. Without its environment there is nothing to do.
#[test]
fn owner() {
    let Ok(sockets) = std::env::var(OWNER) else { return };
    let sockets: Vec<PathBuf> = sockets.split(':').map(PathBuf::from).collect();
    let session = open(&Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap()));
    // The first owner puts the records there.
    if session.get(&key(0)).wait() == Ok(None) {
        let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
        assert!(session.multi_put(&records).wait().iter().all(|put| *put == Ok(Upsert::Inserted)));
    }
    println!("\nready {}", session.member().row.0);
    thread::sleep(PATIENCE);
}

/// The child, and its row.
fn start(daemons: &Daemons) -> (Child, RowId) {
    let sockets: Vec<_> = daemons.sockets.iter().map(|socket| socket.display().to_string()).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "owner", "--nocapture"]).env(OWNER, sockets.join(":")).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let row = lines.find_map(|line| line.unwrap().strip_prefix("ready ").map(|row| row.parse().unwrap()));
    (child, RowId(row.unwrap()))
}

#[test]
fn an_owner_that_dies_takes_no_acknowledged_change_with_it() {
    for (lines, before_death) in [("auto", 3000), ("sequence", 500)] {
        let directory = tempfile::tempdir().unwrap();
        let daemons = Daemons::start(directory.path(), 2, lines);
        let (mut child, _) = start(&daemons);
        let session = open(&daemons.connect());
        // Of each key, the values that it may have: the last acknowledged one, and those that were tried since.
        let mut possible: Vec<Vec<u64>> = (0..KEYS).map(|n| vec![n]).collect();
        let (mut acknowledged, mut failed) = (0, 0);
        let mut update = |n: u64, next: u64| {
            let updated = session.update(&key(n), &value_of(next)).wait();
            match updated {
                Ok(Update::Updated) => {
                    possible[n as usize] = vec![next];
                    acknowledged += 1;
                }
                Ok(Update::Absent) => panic!("key {n} is there"),
                Err(error) => {
                    if error.effect() != Effect::None {
                        possible[n as usize].push(next);
                    }
                    failed += 1;
                }
            }
            updated.is_ok()
        };
        for step in 0..before_death {
            assert!(update(step * 7 % KEYS, step + KEYS), "the owner lives");
        }
        thread::scope(|scope| {
            scope.spawn(|| kill_soon(&mut child));
            // Until each range has been taken over.
            let began = Instant::now();
            let mut step = before_death;
            while began.elapsed() < Duration::from_millis(60)
                || !(0..3).all(|part| update(part * 170 + 1, step + part * 7))
            {
                step += 100;
                assert!(began.elapsed() < PATIENCE, "nobody takes the keys over");
                for n in 0..50 {
                    update((step + n * 11) % KEYS, step + KEYS + n);
                }
            }
        });
        assert!(acknowledged > before_death);
        for n in 0..KEYS {
            let found = session.get(&key(n)).wait().unwrap().unwrap();
            let values = &possible[n as usize];
            assert!(
                values.iter().any(|&value| found == value_of(value)),
                "key {n}: none of {values:?}, {failed} failed"
            );
        }
        session.close();
        assert_eq!(open(&daemons.connect()).validate().unwrap().records, KEYS);
    }
}

/// The values that each key may have: the last acknowledged one, and those that were tried since.
struct Possible(Vec<Vec<u64>>);

impl Possible {
    fn new() -> Self {
        Self((0..KEYS).map(|n| vec![n]).collect())
    }

    /// An update of key `n` to `next` ended so.
    fn note(&mut self, n: u64, next: u64, updated: Result<Update, SessionError>) -> bool {
        let values = &mut self.0[n as usize];
        match updated {
            Ok(Update::Updated) => *values = vec![next],
            Ok(Update::Absent) => panic!("key {n} is there"),
            Err(error) if error.effect() != Effect::None => values.push(next),
            Err(_) => {}
        }
        updated.is_ok()
    }

    fn check(&self, n: u64, found: &[u8]) {
        let values = &self.0[n as usize];
        assert!(values.iter().any(|&value| found == value_of(value)), "key {n}: {found:?} is none of {values:?}");
    }
}

/// What a session has counted since.
fn since(session: &Session, before: &Statistics, kind: OperationKind) -> (u64, u64, u64, u64) {
    let now = session.statistics();
    let of = |statistics: &Statistics| (statistics.of(kind).operations, statistics.of(kind).requests);
    let ((operations, requests), (operations_before, requests_before)) = (of(&now), of(before));
    let packed = now.packed_operations - before.packed_operations;
    (operations - operations_before, requests - requests_before, now.packs - before.packs, packed)
}

/// Updates many keys at once, through a session's queue or on a local handle, and notes what became of each.
fn update_many(session: &Session, possible: &mut Possible, keys: &[u64], next: u64, is_local: bool) -> bool {
    let records: Vec<_> = keys.iter().map(|&n| (key(n), value_of(next + n))).collect();
    let updated = if is_local {
        let borrowed = records.iter().map(|(key, value)| (&key[..], &value[..]));
        session.local().unwrap().multi_update(borrowed)
    } else {
        session.multi_update(&records).wait()
    };
    assert_eq!(updated.len(), keys.len());
    keys.iter().zip(updated).fold(true, |all, (&n, updated)| all & possible.note(n, next + n, updated))
}

#[test]
fn operations_of_one_call_go_to_another_process_in_one_message() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start(directory.path(), 2, "auto");
    let (mut child, _) = start(&daemons);
    let session = open(&daemons.connect());
    let mut possible = Possible::new();
    // The first operation learns the owners.
    assert_eq!(session.get(&key(0)).wait(), Ok(Some(value_of(0).to_vec())));
    let keys: Vec<_> = (0..100).map(|n| key(n * 4)).collect();
    for is_local in [false, true] {
        let before = session.statistics();
        let found = if is_local {
            session.local().unwrap().multi_get(keys.iter().map(|key| &key[..]))
        } else {
            session.multi_get(&keys).within(PATIENCE).wait()
        };
        for (n, found) in found.into_iter().enumerate() {
            assert_eq!(found, Ok(Some(value_of(n as u64 * 4).to_vec())));
        }
        let counted = since(&session, &before, OperationKind::Get);
        // A queue of 64 slots has half of them for one call at a time, and its worker takes what is there.
        let packs = if is_local { 1 } else { counted.2 };
        assert_eq!(counted, (100, packs, packs, 100), "operations, requests, packs, and operations in these");
        assert!(packs <= 8, "{packs} messages");
    }

    // A part of the keys is this session's: the others go together. Then parts move while both are used.
    let wait = Duration::from_mins(1);
    session.move_part(1, session.member().row, wait).unwrap();
    let all: Vec<u64> = (0..KEYS).collect();
    assert!(update_many(&session, &mut possible, &all[..300], KEYS, false));
    let before = session.statistics();
    let local = session.local().unwrap();
    let of_both = local.multi_get(all[100..228].iter().map(|n| key(*n)).collect::<Vec<_>>().iter().map(|key| &key[..]));
    of_both.into_iter().zip(100..).for_each(|(found, n)| possible.check(n, &found.unwrap().unwrap()));
    let counted = since(&session, &before, OperationKind::Get);
    drop(local);
    assert_eq!((counted.0, counted.2, counted.3), (128, 1, 66), "the part begins at key 166");
    let other = open(&daemons.connect());
    let rows = [session.member().row, other.member().row];
    thread::scope(|scope| {
        let moves = scope.spawn(|| {
            for step in 0..12 {
                session.move_part(step % 3, rows[step as usize / 3 % 2], wait).unwrap();
            }
        });
        let mut step = 1;
        while !moves.is_finished() || step < 20 {
            step += 1;
            assert!(update_many(&other, &mut possible, &all, step * KEYS, step % 2 == 0), "nobody dies");
            let keys: Vec<_> = all.iter().map(|&n| key(n)).collect();
            let found = session.multi_get(&keys).wait();
            found.into_iter().zip(0..).for_each(|(found, n)| possible.check(n, &found.unwrap().unwrap()));
        }
    });

    // A part goes back to the process that dies, as changes are on their way.
    let owned = |session: &Session| session.statistics().served_operations;
    assert!(owned(&session) + owned(&other) > 0, "they have executed some for each other");
    drop(other);
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, row) = start(&daemons);
    for part in 0..3 {
        session.move_part(part, row, wait).unwrap();
    }
    assert!(update_many(&session, &mut possible, &all, 1000 * KEYS, false));
    let before = session.statistics();
    let mut rounds = 0;
    thread::scope(|scope| {
        scope.spawn(|| kill_soon(&mut child));
        let began = Instant::now();
        loop {
            rounds += 1;
            let is_over = began.elapsed() > Duration::from_millis(60);
            if update_many(&session, &mut possible, &all, (1000 + rounds) * KEYS, rounds % 2 == 0) && is_over {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "nobody takes the keys over");
        }
    });
    let (_, _, packs, packed) = since(&session, &before, OperationKind::Update);
    assert!(packs > 0 && packed >= 2 * packs, "{packs} packs of {packed} operations");
    for n in 0..KEYS {
        possible.check(n, &session.get(&key(n)).wait().unwrap().unwrap());
    }
    session.close();
    assert_eq!(open(&daemons.connect()).validate().unwrap().records, KEYS);
}
