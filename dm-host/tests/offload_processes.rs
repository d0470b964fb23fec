//! Operations that the processors of memory nodes do, which are processes; and callers that die.

use dm_core::dex::offload::Mode;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::operation::OperationKind;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Session, SessionOptions, Update};
use session_support::daemons::Daemons;
use session_support::{has_updates_of_the_dead, options, update_of, value_of};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

mod session_support;

const KEYS: u64 = 4000;

/// Tells the child process where the pool is.
const WRITER: &str = "DM_TEST_OFFLOAD_WRITER";

/// Longer than any lease.
const PATIENCE: Duration = Duration::from_mins(1);

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Fewer frames than leaves, and few inner nodes in copies.
fn small(offload: Mode) -> SessionOptions {
    let mut options = options(1, 4);
    options.spending.page_cache_bytes = 64 << 10;
    options.spending.cache_bytes = 4 << 10;
    options.spending.log_lines = 0;
    options.spending.offload = offload;
    options
}

fn parameters() -> Parameters {
    let parameters = Parameters::with_sizes(8, 8);
    Parameters { leaf_span: 8, inner_span: 6, entries: 2, cut: Cut::Even { first: 0, last: KEYS - 1 }, ..parameters }
}

fn open(daemons: &Daemons, offload: Mode) -> Session {
    let session = Session::open_or_create(&daemons.connect(), "index", parameters(), &small(offload)).unwrap();
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    session.multi_put(&records).wait().into_iter().for_each(|put| assert!(put.is_ok()));
    session
}

#[test]
fn processors_of_memory_nodes_answer_gets_beside_updates() {
    let directory = tempfile::tempdir().unwrap();
    for (lines, nodes) in [("sequence", 1), ("auto", 2)] {
        let directory = directory.path().join(lines);
        std::fs::create_dir(&directory).unwrap();
        let arguments = [
            "--size",
            "16MiB",
            "--chunk-size",
            "64KiB",
            "--lines",
            lines,
            "--metrics",
            "127.0.0.1:0",
            "--call-threads",
            "2",
        ];
        let daemons = Daemons::start_with(&directory, nodes, &arguments);
        let session = open(&daemons, Mode::Always);
        // Of each key, the last value that was acknowledged, and the last one that was begun.
        let rounds: Vec<[AtomicU64; 2]> = (0..KEYS).map(|n| [AtomicU64::new(n), AtomicU64::new(n)]).collect();
        thread::scope(|scope| {
            let (session, rounds) = (&session, &rounds);
            scope.spawn(move || {
                for step in 0..6000 {
                    let number = step * 7919 % KEYS;
                    let [ended, begun] = &rounds[number as usize];
                    let next = begun.load(Ordering::SeqCst) + KEYS;
                    begun.store(next, Ordering::SeqCst);
                    assert_eq!(session.update(&key(number), &value_of(next)).wait(), Ok(Update::Updated));
                    ended.store(next, Ordering::SeqCst);
                }
            });
            for reader in 0..2 {
                scope.spawn(move || {
                    for step in 0..6000 {
                        let number = (step * 104_729 + reader) % KEYS;
                        let [ended, begun] = &rounds[number as usize];
                        let least = ended.load(Ordering::SeqCst);
                        let found = session.get(&key(number)).wait().unwrap().unwrap();
                        let most = begun.load(Ordering::SeqCst);
                        let all = (least..=most).step_by(KEYS as usize);
                        assert!(all.into_iter().any(|n| found == value_of(n)), "key {number}: not {least} to {most}");
                    }
                });
            }
        });
        let searches: u64 = (0..usize::from(nodes)).map(|node| daemons.metric(node, "dm_memd_searches_total")).sum();
        let gets = *session.statistics().of(OperationKind::Get);
        assert_eq!((gets.operations, gets.failed), (12_000, 0));
        // On a busy machine many are not answered in time.
        assert!(searches > 300, "{searches} of {} gets", gets.operations);
        assert_eq!(session.validate().unwrap().records, KEYS);
    }
}

#[test]
fn without_threads_for_calls_gets_read_by_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--size", "16MiB", "--chunk-size", "64KiB", "--call-threads", "0", "--metrics", "127.0.0.1:0"];
    let daemons = Daemons::start_with(directory.path(), 1, &arguments);
    let session = open(&daemons, Mode::Always);
    for number in 0..KEYS {
        assert_eq!(session.get(&key(number)).wait().unwrap().as_deref(), Some(&value_of(number)[..]));
    }
    assert_eq!(daemons.metric(0, "dm_memd_searches_total"), 0);
}

#[test]
fn a_memory_node_that_dies_under_calls_is_an_error_and_no_hang() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemons = Daemons::start(directory.path(), 1, "sequence");
    let session = open(&daemons, Mode::Always);
    thread::scope(|scope| {
        let session = &session;
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                scope.spawn(move || {
                    let mut number = reader;
                    while session.get(&key(number)).wait().is_ok() {
                        number = (number + 31) % KEYS;
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(50));
        daemons.kill(0);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// A child process: this test binary again. It says each step that was acknowledged. Without its environment there is nothing to do.
#[test]
fn writer() {
    let Ok(sockets) = std::env::var(WRITER) else { return };
    let sockets: Vec<PathBuf> = sockets.split(':').map(PathBuf::from).collect();
    let pool = Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap());
    let session = Session::open_or_create(&pool, "index", parameters(), &small(Mode::Always)).unwrap();
    for step in 0.. {
        let (number, next) = update_of(KEYS, step);
        assert_eq!(session.update(&key(number), &value_of(next)).wait(), Ok(Update::Updated));
        println!("\nended {step}");
    }
}

#[test]
fn a_caller_that_dies_leaves_every_leaf_whole_and_no_change_behind() {
    for (lines, steps) in [("auto", 3000), ("sequence", 500)] {
        let directory = tempfile::tempdir().unwrap();
        let daemons = Daemons::start(directory.path(), 2, lines);
        open(&daemons, Mode::Never).close();
        let sockets: Vec<_> = daemons.sockets.iter().map(|socket| socket.display().to_string()).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writer", "--nocapture"]).env(WRITER, sockets.join(":")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ended = |line: &str| line.strip_prefix("ended ").and_then(|step| step.parse::<u64>().ok());
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let last = said.by_ref().filter_map(|line| ended(&line)).find(|step| *step >= steps);
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died, and this one has not read yet.
        let last = said.filter_map(|line| ended(&line)).last().or(last).expect("a writer that lives");
        let session = Session::open_or_create(&daemons.connect(), "index", parameters(), &small(Mode::Always)).unwrap();
        has_updates_of_the_dead(&session, KEYS, last, PATIENCE);
    }
}
