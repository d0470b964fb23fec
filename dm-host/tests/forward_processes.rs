//! Operations that another process executes, since it owns the keys; and that process dies.

use dm_core::operation::Effect;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Session, Update};
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

/// A child process: this test binary again. Without its environment there is nothing to do.
#[test]
fn owner() {
    let Ok(sockets) = std::env::var(OWNER) else { return };
    let sockets: Vec<PathBuf> = sockets.split(':').map(PathBuf::from).collect();
    let session = open(&Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap()));
    for n in 0..KEYS {
        session.upsert(&key(n), &value_of(n)).wait().unwrap();
    }
    println!("\nready");
    thread::sleep(PATIENCE);
}

fn start(daemons: &Daemons) -> Child {
    let sockets: Vec<_> = daemons.sockets.iter().map(|socket| socket.display().to_string()).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "owner", "--nocapture"]).env(OWNER, sockets.join(":")).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    child
}

#[test]
fn an_owner_that_dies_takes_no_acknowledged_change_with_it() {
    for (lines, before_death) in [("auto", 3000), ("sequence", 500)] {
        let directory = tempfile::tempdir().unwrap();
        let daemons = Daemons::start(directory.path(), 2, lines);
        let mut child = start(&daemons);
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
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(30));
                child.kill().unwrap();
                child.wait().unwrap();
            });
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
