//! A process with several indexes open under one row dies in the middle of a WRITE.

use dm_core::registry::KINDS;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_host::compute_node::Membership;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::prelude::*;
use dm_host::repair::{Scope, repair};
use session_support::daemons::Daemons;
use session_support::options;
use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZeroU32;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

mod session_support;

/// Tells the child process where the pool is.
const PARTNER: &str = "DM_TEST_ROW_PARTNER";

/// Few, so that nodes split and merge, and each is written again.
const KEYS: u64 = 400;

const ROUNDS: u64 = 4;

fn open(pool: &Arc<Pool>, kind: IndexKind, options: &SessionOptions) -> Table<u64, u64> {
    let index = IndexOptions::new().kind(kind);
    Table::open_with(pool, kind.name(), &index, options).unwrap_or_else(|error| panic!("{}: {error}", kind.name()))
}

fn small() -> SessionOptions {
    let mut options = SessionOptions { local_handles: 0, ..options(1, 2) };
    options.spending.page_cache_bytes = 4 << 20;
    options
}

/// The child process: this test binary again. Without its environment there is nothing to do. It writes into an index of each
/// kind until it dies, and says which writes were acknowledged.
#[test]
fn partner() {
    let Ok(text) = std::env::var(PARTNER) else { return };
    let (round, sockets) = text.split_once(':').unwrap();
    let round: u64 = round.parse().unwrap();
    let sockets: Vec<_> = sockets.split(',').map(PathBuf::from).collect();
    let dying = ShmOptions { die_in_write: NonZeroU32::new(500), ..ShmOptions::default() };
    let pool = Arc::new(Pool::connect(&sockets, dying).unwrap());
    let mut options = small();
    options.row = Some(SharedRow::join(&pool, KINDS.len(), &options).unwrap());
    let tables: Vec<_> = KINDS.iter().map(|&kind| open(&pool, kind, &options)).collect();
    let Member { row, incarnation, .. } = tables[0].session().member();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
    };
    say(format!("ROW {} {incarnation}\n", row.0));
    thread::scope(|scope| {
        for (at, table) in tables.iter().enumerate() {
            let say = &say;
            scope.spawn(move || {
                for step in 0.. {
                    let (key, value) = (step * 7 % KEYS, round << 32 | step);
                    table.upsert(key, value).wait().unwrap();
                    say(format!("DONE {at} {key} {value}\n"));
                }
            });
        }
    });
}

#[test]
fn what_a_process_acknowledged_in_each_of_its_indexes_is_there_after_its_death_and_its_row_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let daemons = Daemons::start_with(directory.path(), 2, &["--size", "64MiB", "--chunk-size", "256KiB"]);
    let pool = daemons.connect();
    let sockets: Vec<_> = daemons.sockets.iter().map(|socket| socket.to_str().unwrap()).collect();
    for kind in KINDS {
        // Before the child's row: its redo slots have to fit all of them.
        open(&pool, *kind, &small()).close();
    }
    // By kind and key: the last value that was acknowledged.
    let mut acknowledged = vec![vec![None; KEYS as usize]; KINDS.len()];
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "partner", "--nocapture"]).env(PARTNER, format!("{round}:{}", sockets.join(",")));
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut dead = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            // The test harness prints, too, and its lines may begin in front of one.
            if let Some((_, words)) = line.split_once("ROW ") {
                let (row, incarnation) = words.split_once(' ').unwrap();
                let (row, incarnation) = (RowId(row.parse().unwrap()), incarnation.parse().unwrap());
                dead = Some(Member { row, incarnation, nonce: 0 });
            } else if let Some(words) = line.strip_prefix("DONE ") {
                let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
                acknowledged[numbers[0] as usize][numbers[1] as usize] = Some(numbers[2]);
            }
        }
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it dies in a WRITE");
        let dead = [dead.expect("it died before it had opened all indexes")];
        let swept = repair(&pool, Membership::default(), Scope::Dead(&dead)).unwrap();
        for (at, &kind) in KINDS.iter().enumerate() {
            // This recovers what the dead process owned, too.
            let table = open(&pool, kind, &small());
            for (key, value) in (0..).zip(&acknowledged[at]) {
                // Also of keys that it only owned: until somebody takes them, they name its row.
                let found = table.get(key).wait().unwrap();
                let Some(value) = *value else { continue };
                let found = found.unwrap_or_else(|| panic!("{} lost {key}", kind.name()));
                // The one that it died in may have happened.
                assert!(found >= value, "{}: {key} is {found:#x}, {value:#x} was acknowledged", kind.name());
            }
            table.session().validate().unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
            table.close();
        }
        let again = repair(&pool, Membership::default(), Scope::Dead(&dead)).unwrap();
        assert_eq!((swept.rows_freed + again.rows_freed, again.rows_kept), (1, 0), "{swept:?}, {again:?}");
    }
    assert!(acknowledged.iter().all(|keys| keys.iter().flatten().count() > 0), "an index was never written");
}
