//! Any session serves any key, where keys have owners: operations on another one's keys are executed by that one.

use crate::key;
use crate::session_support::{in_ranges, pool_here, small_pages, value_of};
use dm_core::remote::catalog::IndexKind;
use dm_host::assembly::Level;
use dm_host::pool::Pool;
use dm_host::session::{
    Delete, DeleteIf, IndexOptions, Insert, OpenError, Session, SessionOptions, Update, UpdateIf, Upsert,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const KEYS: u64 = 2000;
const PARTS: u32 = 4;

fn open(pool: &Arc<Pool>) -> Session {
    Session::open_or_create(pool, "index", in_ranges(KEYS, PARTS), &small_pages()).unwrap()
}

#[test]
fn every_operation_is_forwarded() {
    let pool = pool_here(1);
    let (owner, other) = (open(&pool), open(&pool));
    for n in (0..KEYS).step_by(2) {
        assert_eq!(owner.insert(&key(n), &value_of(n)).wait(), Ok(Insert::Inserted));
    }
    let rows = [&owner, &other].map(|session| session.member().row);
    assert_ne!(rows[0], rows[1]);
    let value = |n| value_of(n).to_vec();
    let local = other.local().unwrap();
    for (round, n) in (0..KEYS).step_by(100).enumerate() {
        let (there, absent) = (key(n), key(n + 1));
        assert_eq!(other.get(&there).wait(), Ok(Some(value(n))));
        assert_eq!(local.get(&there), Ok(Some(value(n))));
        assert_eq!(other.get(&absent).wait(), Ok(None));
        assert_eq!(other.insert(&there, &value_of(1)).wait(), Ok(Insert::Exists(value(n))));
        assert_eq!(other.update(&absent, &value_of(1)).wait(), Ok(Update::Absent));
        assert_eq!(other.update(&there, &value_of(2)).wait(), Ok(Update::Updated));
        assert_eq!(owner.get(&there).wait(), Ok(Some(value(2))), "the owner has it at once");
        assert_eq!(other.update_if(&there, &value_of(3), &value_of(4)).wait(), Ok(UpdateIf::Mismatch(value(2))));
        assert_eq!(other.update_if(&there, &value_of(2), &value_of(4)).wait(), Ok(UpdateIf::Updated));
        assert_eq!(other.delete_if(&there, &value_of(3)).wait(), Ok(DeleteIf::Mismatch(value(4))));
        assert_eq!(other.upsert(&absent, &value_of(5)).wait(), Ok(Upsert::Inserted));
        assert_eq!(other.upsert(&absent, &value_of(6)).wait(), Ok(Upsert::Replaced));
        let deleted = if round % 2 == 0 { other.delete(&absent).wait() } else { local.delete(&absent) };
        assert_eq!(deleted, Ok(Delete::Deleted));
        assert_eq!(other.delete(&absent).wait(), Ok(Delete::Absent));
        assert_eq!(local.update(&there, &value_of(n)), Ok(Update::Updated));
    }
    // Over the borders of ranges that have different owners.
    owner.move_part(1, rows[1], Duration::from_mins(1)).unwrap();
    owner.move_part(3, rows[1], Duration::from_mins(1)).unwrap();
    for session in [&owner, &other] {
        let records: Result<Vec<_>, _> = session.scan(Bound::Unbounded, Bound::Unbounded).collect();
        let expected: Vec<_> = (0..KEYS).step_by(2).map(|n| (key(n).to_vec(), value(n))).collect();
        assert_eq!(records.unwrap(), expected);
        let (low, high) = (key(401), key(1203));
        let records = session.scan(Bound::Included(&low[..]), Bound::Included(&high[..])).count_records();
        assert_eq!(records, Ok(401));
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        for (n, got) in (0..KEYS).zip(session.multi_get(&keys).wait()) {
            assert_eq!(got, Ok((n % 2 == 0).then(|| value(n))));
        }
    }
    // No session owns the keys of one that is closed. The next session that uses a key owns its range.
    owner.close();
    assert_eq!(other.get(&key(0)).wait(), Ok(Some(value(0))));
    drop(local);
    drop(other);
    assert_eq!(open(&pool).validate().unwrap().records, KEYS / 2);
}

#[test]
fn callers_that_send_operations_themselves_are_told_the_owner() {
    let pool = pool_here(1);
    let owner = open(&pool);
    owner.insert(&key(7), &value_of(7)).wait().unwrap();
    let options = SessionOptions { forward: false, ..small_pages() };
    let other = Session::open(&pool, "index", &options).unwrap();
    let error = other.get(&key(7)).wait().unwrap_err().to_string();
    assert!(error.contains(&format!("row {}", owner.member().row.0)), "{error}");
    // It does not execute operations of others, either.
    other.move_part(0, other.member().row, Duration::from_mins(1)).unwrap();
    assert_eq!(other.get(&key(7)).wait(), Ok(Some(value_of(7).to_vec())));
    assert!(owner.get(&key(7)).wait().is_err());
}

#[test]
fn ranges_move_while_sessions_use_all_keys() {
    let pool = pool_here(2);
    let sessions = [open(&pool), open(&pool), open(&pool)];
    let rows = sessions.each_ref().map(|session| session.member().row);
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    sessions[0].multi_put(&records).wait().into_iter().for_each(|put| assert!(put.is_ok()));
    // Of each key, the last value that was acknowledged: one thread changes it.
    let rounds: Vec<AtomicU64> = (0..KEYS).map(AtomicU64::new).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (worker, session) in sessions.iter().enumerate() {
            let (rounds, is_over) = (&rounds, &is_over);
            scope.spawn(move || {
                let mut rng = worker as u64 + 1;
                while !is_over.load(Ordering::Relaxed) {
                    rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let n = (rng >> 33) % KEYS;
                    if n % 3 == worker as u64 {
                        let next = rounds[n as usize].load(Ordering::SeqCst) + KEYS;
                        assert_eq!(session.update(&key(n), &value_of(next)).wait(), Ok(Update::Updated));
                        rounds[n as usize].store(next, Ordering::SeqCst);
                    } else {
                        let least = rounds[n as usize].load(Ordering::SeqCst);
                        let found = session.get(&key(n)).wait().unwrap().unwrap();
                        let most = rounds[n as usize].load(Ordering::SeqCst) + KEYS;
                        let all = (least..=most).step_by(KEYS as usize);
                        assert!(all.into_iter().any(|n| found == value_of(n)), "key {n}: not {least} to {most}");
                    }
                }
            });
        }
        for round in 0..8 {
            for part in 0..PARTS {
                let to = rows[(round + part as usize) % 3];
                sessions[round % 3].move_part(part, to, Duration::from_mins(1)).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(sessions);
    let last = open(&pool);
    for (n, round) in (0..KEYS).zip(&rounds) {
        let value = value_of(round.load(Ordering::SeqCst));
        assert_eq!(last.get(&key(n)).wait(), Ok(Some(value.to_vec())));
    }
}

/// A key of any length: those of a group share more bytes than an entry of the index below has.
fn long_key(n: u64) -> Vec<u8> {
    let rest = if n.is_multiple_of(5) { String::new() } else { format!("{:a<70}/{n}", format!("of group {}/", n % 7)) };
    format!("{:04}{rest}", n % 40).into_bytes()
}

/// A value of that key, short or in a block.
fn long_value(n: u64, round: u64) -> Vec<u8> {
    let mut value = (n + round * KEYS).to_le_bytes().to_vec();
    value.resize(8 + (n * 31 + round * 97) as usize % 700, round as u8);
    value
}

/// A session of an index with keys of any length, whose entries are larger than others.
fn open_any_length_at(pool: &Arc<Pool>, level: Level) -> Result<Session, OpenError> {
    let mut options = small_pages();
    options.spending.page_cache_bytes *= 2;
    options.spending.level = level;
    let lengths = IndexOptions::new().kind(IndexKind::Dex).any_length(200, 1000).parameters().unwrap();
    Session::open_or_create(pool, "names", lengths, &options)
}

fn open_any_length(pool: &Arc<Pool>) -> Session {
    open_any_length_at(pool, Level::Log).unwrap()
}

/// Has the first ranges of `owner` cut in front of these keys, and each second one moved to `other`: the last one has the layers.
fn share_out(owner: &Session, other: &Session, keys: &[Vec<u8>]) {
    for key in keys {
        owner.cut_part(key, Duration::from_mins(1)).unwrap();
    }
    for part in (0..=keys.len() as u32).rev().step_by(2) {
        owner.move_part(part, other.member().row, Duration::from_mins(1)).unwrap();
    }
}

#[test]
fn operations_on_keys_of_any_length_take_steps_at_several_owners() {
    let pool = pool_here(2);
    let (owner, other) = (open_any_length(&pool), open_any_length(&pool));
    let mut model = BTreeMap::new();
    for n in (0..KEYS).step_by(2) {
        let (key, value) = (long_key(n), long_value(n, 0));
        owner.upsert(&key, &value).wait().unwrap();
        model.insert(key, value);
    }
    share_out(&owner, &other, &[long_key(10), long_key(25)]);
    let sessions = [&owner, &other];
    for n in 0..KEYS {
        let (session, key) = (sessions[n as usize / 3 % 2], long_key(n));
        let (first, second) = (long_value(n, 1), long_value(n, 2));
        let before = model.get(&key).cloned();
        assert_eq!(session.get(&key).wait(), Ok(before.clone()));
        let expected = before.clone().map_or(Insert::Inserted, Insert::Exists);
        assert_eq!(session.insert(&key, &first).wait(), Ok(expected));
        let present = before.unwrap_or_else(|| first.clone());
        assert_eq!(session.update_if(&key, &second, &first).wait(), Ok(UpdateIf::Mismatch(present.clone())));
        assert_eq!(session.update_if(&key, &present, &second).wait(), Ok(UpdateIf::Updated));
        assert_eq!(sessions[n as usize % 2].get(&key).wait(), Ok(Some(second.clone())));
        assert_eq!(session.upsert(&key, &first).wait(), Ok(Upsert::Replaced));
        assert_eq!(session.delete_if(&key, &second).wait(), Ok(DeleteIf::Mismatch(first.clone())));
        if n % 11 == 0 {
            assert_eq!(session.delete(&key).wait(), Ok(Delete::Deleted));
            model.remove(&key);
        } else {
            model.insert(key, first);
        }
    }
    for session in sessions {
        let records: Result<Vec<_>, _> = session.scan(Bound::Unbounded, Bound::Unbounded).collect();
        assert!(records.unwrap().into_iter().eq(model.clone()));
        let keys: Vec<_> = (0..KEYS).map(long_key).collect();
        for (key, got) in keys.iter().zip(session.multi_get(&keys).wait()) {
            assert_eq!(got, Ok(model.get(key).cloned()));
        }
    }
    owner.close();
    let census = other.validate().unwrap();
    assert_eq!((census.records, census.unlinked_entries), (model.len() as u64, 0));
}

#[test]
fn ranges_move_while_sessions_use_keys_of_any_length() {
    let pool = pool_here(2);
    let sessions = [open_any_length(&pool), open_any_length(&pool), open_any_length(&pool)];
    let rows = sessions.each_ref().map(|session| session.member().row);
    let keys: Vec<_> = (0..KEYS).map(long_key).collect();
    // Several numbers share some keys: the last one has it.
    let owners: BTreeMap<_, _> = keys.iter().cloned().zip(0..KEYS).collect();
    for (key, &n) in &owners {
        sessions[0].upsert(key, &long_value(n, 0)).wait().unwrap();
    }
    share_out(&sessions[0], &sessions[1], &[long_key(10), long_key(25)]);
    let rounds: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (worker, session) in sessions.iter().enumerate() {
            let (rounds, is_over, owners) = (&rounds, &is_over, &owners);
            scope.spawn(move || {
                let each: Vec<_> = owners.iter().collect();
                let mut rng = worker as u64 + 1;
                while !is_over.load(Ordering::Relaxed) {
                    rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (key, &n) = each[(rng >> 33) as usize % each.len()];
                    let round = &rounds[n as usize];
                    if n % 3 == worker as u64 {
                        let next = round.load(Ordering::SeqCst) + 1;
                        assert_eq!(session.update(key, &long_value(n, next)).wait(), Ok(Update::Updated));
                        round.store(next, Ordering::SeqCst);
                    } else {
                        let least = round.load(Ordering::SeqCst);
                        let found = session.get(key).wait().unwrap().unwrap();
                        let most = round.load(Ordering::SeqCst) + 1;
                        assert!((least..=most).any(|round| found == long_value(n, round)), "key {n}");
                    }
                }
            });
        }
        for round in 0..6 {
            for part in 0..4 {
                let to = rows[(round + part as usize) % 3];
                sessions[round % 3].move_part(part, to, Duration::from_mins(1)).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(sessions);
    let last = open_any_length(&pool);
    for (key, &n) in &owners {
        let value = long_value(n, rounds[n as usize].load(Ordering::SeqCst));
        assert_eq!(last.get(key).wait(), Ok(Some(value)));
    }
    assert_eq!(last.validate().unwrap().records, owners.len() as u64);
}

#[test]
fn keys_of_any_length_need_answers_that_a_death_cannot_take_back() {
    let refused = open_any_length_at(&pool_here(1), Level::Cache).unwrap_err().to_string();
    assert!(refused.contains("level \"log\" or \"pool\""), "{refused}");
}
