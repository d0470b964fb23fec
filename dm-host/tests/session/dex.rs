//! Sessions of an index whose keys have owners: one compute node at a time serves a key.

use crate::key;
use crate::session_support::{options, pool_here, value_of};
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::operation::Cause;
use dm_core::remote::lock_word::RowId;
use dm_host::pool::Pool;
use dm_host::session::{Insert, Session, SessionError, Update};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const KEYS: u64 = 2000;

/// An index whose keys below [`KEYS`] are in four parts.
fn open(pool: &Arc<Pool>) -> Session {
    open_cut(pool, Cut::Even { first: 0, last: KEYS - 1 })
}

fn parameters(cut: Cut) -> Parameters {
    Parameters { entries: 4, cut, ..Parameters::with_sizes(8, 8) }
}

fn open_cut(pool: &Arc<Pool>, cut: Cut) -> Session {
    let mut options = options(2, 4);
    // Fewer pages than leaves, and a log that comes round: both are written back while the session is open, and at its end.
    options.spending.page_cache_bytes = 128 << 10;
    options.spending.log_lines = 0;
    Session::open_or_create(pool, "index", parameters(cut), &options).unwrap()
}

fn refused(result: &Result<Option<Vec<u8>>, SessionError>) -> bool {
    matches!(result, Err(SessionError::Operation(error)) if matches!(error.cause, Cause::NotOwner { .. }))
}

#[test]
fn a_session_that_is_closed_gives_its_keys_up() {
    let pool = pool_here(2);
    let first = open(&pool);
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    for inserted in first.multi_put(&records).wait() {
        inserted.unwrap();
    }
    // Open before the first is closed, so that it has another row.
    let second = open(&pool);
    assert!(refused(&second.get(&key(0)).wait()), "the first session has this key");
    first.close();
    for (key, value) in &records {
        assert_eq!(second.get(key).wait().unwrap().as_deref(), Some(&value[..]));
        assert_eq!(second.update(key, &value_of(u64::from(key[7]))).wait(), Ok(Update::Updated));
    }
    drop(second);
    // This one gets a row that has owned these keys before.
    let third = open(&pool);
    for (key, _) in &records {
        assert_eq!(third.get(key).wait().unwrap().as_deref(), Some(&value_of(u64::from(key[7]))[..]));
    }
    assert_eq!(third.insert(&key(KEYS), &value_of(0)).wait(), Ok(Insert::Inserted));
    assert_eq!(third.validate().unwrap().records, KEYS + 1);
}

#[test]
fn a_bulk_load_cuts_keys_at_its_quantiles() {
    let pool = pool_here(1);
    let parameters = parameters(Cut::Quantiles);
    let open = || open_cut(&pool, Cut::Quantiles);
    // Half of the records have keys below a quarter of the largest.
    let records = (0..KEYS).map(|n| (key(n * n), value_of(n)));
    assert_eq!(Session::bulk_load(&pool, "index", parameters, records).unwrap(), KEYS);
    let (first, second) = (open(), open());
    let get = |session: &Session, n: u64| session.get(&key(n * n)).wait();
    assert_eq!(get(&first, 0).unwrap().as_deref(), Some(&value_of(0)[..]));
    assert!(refused(&get(&second, KEYS / 4 - 1)), "of the first quarter");
    assert_eq!(get(&second, KEYS / 4).unwrap().as_deref(), Some(&value_of(KEYS / 4)[..]));
    assert!(refused(&get(&first, KEYS / 2 - 1)), "of the second quarter");
    drop((first, second));
    assert_eq!(open().validate().unwrap().records, KEYS);
    let few = [(key(1), value_of(1)), (key(2), value_of(2))];
    let error = Session::bulk_load(&pool, "few", parameters, few).unwrap_err().to_string();
    assert!(error.contains("too few"), "{error}");
}

#[test]
fn a_session_that_has_nothing_of_an_index_is_closed() {
    let pool = pool_here(1);
    let idle = open(&pool);
    let busy = open(&pool);
    idle.close();
    assert_eq!(busy.insert(&key(1), &value_of(1)).wait(), Ok(Insert::Inserted));
    busy.close();
    assert_eq!(open(&pool).get(&key(1)).wait().unwrap().as_deref(), Some(&value_of(1)[..]));
}

#[test]
fn parts_move_while_they_are_in_use() {
    let pool = pool_here(2);
    let sessions = [open(&pool), open(&pool)];
    let wait = Duration::from_mins(1);
    let rows = sessions.each_ref().map(|session| session.member().row);
    assert!(sessions[0].move_part(0, RowId(99), wait).is_err(), "nobody lives there");
    for (session, n) in sessions.iter().zip([0, KEYS - 1]) {
        assert_eq!(session.insert(&key(n), &value_of(n)).wait(), Ok(Insert::Inserted));
    }
    let parts = [0, 1, 2, 3];
    for (session, row) in [(0, 0), (1, 1)] {
        for part in parts {
            sessions[session].move_part(part, rows[row], wait).unwrap();
        }
        let records: Vec<_> = (1..KEYS - 1).map(|n| (key(n), value_of(n + row as u64))).collect();
        for put in sessions[row].multi_put(&records).wait() {
            put.unwrap();
        }
    }
    // The first one has pages of all parts in its cache, changed by the second since.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The session that owns a key returns its last value.
            let mut rng = 1_u64;
            while !is_over.load(Ordering::Relaxed) {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let n = 1 + (rng >> 33) % (KEYS - 2);
                let got = sessions.each_ref().map(|session| session.get(&key(n)).wait());
                for got in got.iter().filter(|got| !refused(got)) {
                    assert_eq!(got.as_ref().unwrap().as_deref(), Some(&value_of(n + 1)[..]), "key {n}");
                }
            }
        });
        for round in 0..6 {
            for part in parts {
                sessions[round % 2].move_part(part, rows[(round + part as usize) % 2], wait).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(sessions[0].move_part(4, rows[0], wait).is_err(), "there is no such part");
    drop(sessions);
    let last = open(&pool);
    assert_eq!(last.validate().unwrap().records, KEYS);
    assert_eq!(last.get(&key(7)).wait().unwrap().as_deref(), Some(&value_of(8)[..]));
}
