//! Sessions of an index whose keys have owners: one compute node at a time serves a key.

use crate::key;
use crate::session_support::{options, pool_here, value_of};
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::operation::Cause;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::NodeId;
use dm_host::pool::Pool;
use dm_host::session::{Delete, Insert, Session, SessionError, Update};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: u64 = 2000;

/// An index whose keys below [`KEYS`] are in four parts.
fn open(pool: &Arc<Pool>) -> Session {
    open_cut(pool, Cut::Even { first: 0, last: KEYS - 1 })
}

fn parameters(cut: Cut) -> Parameters {
    Parameters { entries: 4, cut, ..Parameters::with_sizes(8, 8) }
}

fn open_cut(pool: &Arc<Pool>, cut: Cut) -> Session {
    open_with(pool, cut, false)
}

fn open_with(pool: &Arc<Pool>, cut: Cut, shares_parts: bool) -> Session {
    let mut options = options(2, 4);
    options.shares_parts = shares_parts;
    // Fewer pages than leaves, and a log that comes round: both are written back while the session is open, and at its end.
    options.spending.page_cache_bytes = 128 << 10;
    options.spending.log_lines = 0;
    options.forward = false;
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
fn nodes_leave_a_memory_node_while_they_are_in_use() {
    let pool = pool_here(2);
    let sessions = [open(&pool), open(&pool)];
    let wait = Duration::from_mins(1);
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    // The second one gets the last part first, so that both have some.
    for (session, records) in sessions.iter().rev().zip([&records[1500..], &records[..1500]]) {
        for put in session.multi_put(records).wait() {
            put.unwrap();
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (session, keys) in sessions.iter().zip([0..1500, 1500..KEYS]) {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut rng = 1_u64;
                while !is_over.load(Ordering::Relaxed) {
                    rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let n = keys.start + (rng >> 33) % (keys.end - keys.start);
                    assert_eq!(session.get(&key(n)).wait().unwrap().as_deref(), Some(&value_of(n)[..]), "key {n}");
                    assert_eq!(session.update(&key(n), &value_of(n)).wait(), Ok(Update::Updated));
                    // So that leaves split and are joined meanwhile.
                    assert_eq!(session.delete(&key(n)).wait(), Ok(Delete::Deleted));
                    assert_eq!(session.insert(&key(n), &value_of(n)).wait(), Ok(Insert::Inserted));
                }
            });
        }
        for round in 0..6 {
            let from = NodeId(round % 2);
            let moved: u64 = [1, 0].map(|at: usize| sessions[at].vacate(from, wait).unwrap()).iter().sum();
            assert!(moved > 20, "{moved} nodes in round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for session in sessions.iter().rev() {
        session.vacate(NodeId(1), wait).unwrap();
    }
    let left: u64 = sessions.iter().rev().map(|session| session.vacate(NodeId(1), wait).unwrap()).sum();
    assert_eq!(left, 0);
    drop(sessions);
    let session = open(&pool);
    let census = session.validate().unwrap();
    assert_eq!((census.records, census.moved_links), (KEYS, 0), "{census:?}");
    for n in 0..KEYS {
        assert_eq!(session.get(&key(n)).wait().unwrap().as_deref(), Some(&value_of(n)[..]));
    }
}

#[test]
fn parts_are_cut_while_they_are_in_use() {
    let pool = pool_here(2);
    let sessions = [open(&pool), open(&pool)];
    let wait = Duration::from_mins(1);
    let rows = sessions.each_ref().map(|session| session.member().row);
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    for put in sessions[0].multi_put(&records).wait() {
        put.unwrap();
    }
    // So that it has a log.
    assert!(refused(&sessions[1].get(&key(0)).wait()));
    assert!(sessions[1].cut_part(&key(100), wait).is_err(), "it is the first one's");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(|| {
                let mut rng = 1_u64;
                while !is_over.load(Ordering::Relaxed) {
                    rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let n = (rng >> 33) % KEYS;
                    let got = session.get(&key(n)).wait();
                    if !refused(&got) {
                        assert_eq!(got.unwrap().as_deref(), Some(&value_of(n)[..]), "key {n}");
                        // The part may have moved since.
                        let _ = session.update(&key(n), &value_of(n)).wait();
                    }
                }
            });
        }
        for n in [100, 700, 1300, 1900] {
            sessions[0].cut_part(&key(n), wait).unwrap();
        }
        // Of eight parts every second one.
        for part in [1, 3, 5, 7] {
            sessions[0].move_part(part, rows[1], wait).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(sessions[0].move_part(8, rows[0], wait).is_err(), "there is no such part");
    for n in 0..KEYS {
        // A session that has not looked at the table since a cut believes that the owner of the old part has the new one.
        let got = loop {
            let got = sessions.each_ref().map(|session| session.get(&key(n)).wait());
            if !got.iter().all(refused) {
                break got;
            }
        };
        assert_eq!(got.iter().filter(|got| refused(got)).count(), 1, "one session has key {n}");
        assert!(got.iter().any(|got| got.as_ref().is_ok_and(|got| got.as_deref() == Some(&value_of(n)[..]))));
    }
    drop(sessions);
    assert_eq!(open(&pool).validate().unwrap().records, KEYS);
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

/// The session that serves a key.
fn server(sessions: &[Session], n: u64) -> Option<&Session> {
    sessions.iter().find(|session| session.get(&key(n)).wait().is_ok())
}

#[test]
fn a_skewed_load_is_evened_and_nothing_is_lost() {
    let pool = pool_here(2);
    let sessions = [open(&pool), open(&pool)];
    let wait = Duration::from_mins(1);
    let rows = sessions.each_ref().map(|session| session.member().row);
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(0))).collect();
    for put in sessions[0].multi_put(&records).wait() {
        put.unwrap();
    }
    let is_over = AtomicBool::new(false);
    let (moves, again, values) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Of 17 updates, 10 are in the first part, and 5 in the second. An update that is refused changes nothing.
            let (mut rng, mut values, mut count) = (1_u64, vec![0; KEYS as usize], 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let part = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3][(rng >> 33) as usize % 17];
                let n = part * (KEYS / 4) + (rng >> 40) % (KEYS / 4);
                count += 1;
                let updated = sessions.iter().any(|session| {
                    let updated = session.update(&key(n), &value_of(count)).wait();
                    assert!(matches!(updated, Ok(Update::Updated) | Err(SessionError::Operation(_))), "{updated:?}");
                    updated.is_ok()
                });
                if updated {
                    values[n as usize] = count;
                }
            }
            values
        });
        thread::sleep(Duration::from_millis(1500));
        // It has no part yet, and asks itself.
        let moves = sessions[1].balance_parts(wait);
        // The new owner says its load the second time that it looks.
        thread::sleep(Duration::from_millis(200));
        let again = sessions[0].balance_parts(wait);
        thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        (moves.unwrap(), again.unwrap(), writer.join().unwrap())
    });
    assert!(again.iter().all(|step| step.part != 0), "its load goes with the part: {again:?}");
    let moves: Vec<_> = moves.iter().map(|step| (step.part, step.from, step.to)).collect();
    assert_eq!(moves, [(0, rows[0], rows[1])], "10 of 17 go; any other part would leave more");
    let got = sessions.each_ref().map(|session| session.get(&key(0)).wait());
    assert!(refused(&got[0]) && got[1].is_ok(), "{got:?}, then {again:?}");
    for (n, value) in (0..).zip(&values) {
        let session = server(&sessions, n).unwrap();
        assert_eq!(session.get(&key(n)).wait().unwrap().as_deref(), Some(&value_of(*value)[..]), "key {n}");
    }
    drop(sessions);
    assert_eq!(open(&pool).validate().unwrap().records, KEYS);
}

#[test]
fn sessions_that_share_take_their_part_when_they_open_and_leave_it_to_others() {
    let pool = pool_here(2);
    let share = || open_with(&pool, Cut::Even { first: 0, last: KEYS - 1 }, true);
    let first = share();
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    for put in first.multi_put(&records).wait() {
        put.unwrap();
    }
    // Each part gets the same number of gets, from the session that serves it.
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (first, is_over) = (first.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            for n in (0..).map(|n: u64| n * 7 % KEYS).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let _ = first.get(&key(n)).wait();
            }
        })
    };
    thread::sleep(Duration::from_secs(3));
    let second = share();
    let parts_of = |session: &Session| {
        let parts = (0..4).filter(|part| session.get(&key(part * KEYS / 4)).wait().is_ok());
        parts.collect::<Vec<_>>()
    };
    let since = Instant::now();
    let gone = loop {
        let gone: Vec<_> = (0..4).filter(|part| refused(&first.get(&key(part * KEYS / 4)).wait())).collect();
        if gone.len() == 2 || since.elapsed() > Duration::from_secs(20) {
            break gone;
        }
        thread::sleep(Duration::from_millis(10));
    };
    is_over.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    assert_eq!(gone.len(), 2, "half of the parts: {gone:?}");
    assert_eq!(parts_of(&second), gone, "it need not have asked for a key");
    // This one takes what nobody has.
    let third = open(&pool);
    assert_eq!(parts_of(&third), []);
    second.close();
    assert_eq!(parts_of(&third), [], "they are the first one's, or kept for it");
    assert_eq!(parts_of(&first), [0, 1, 2, 3]);
    for (key, value) in &records {
        assert_eq!(first.get(key).wait().unwrap().as_deref(), Some(&value[..]));
    }
    // Nobody else has a part.
    first.close();
    assert_eq!(parts_of(&third), [0, 1, 2, 3]);
    assert_eq!(third.validate().unwrap().records, KEYS);
}
