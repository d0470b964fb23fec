//! Sessions with keys and values of any length.

use crate::session_support::{options, pool_here};
use dm_core::items::parameters::Parameters;
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use dm_core::sherman::parameters::Parameters as Fixed;
use dm_host::kinds::IndexParameters;
use dm_host::pool::Pool;
use dm_host::session::{Delete, DeleteIf, Insert, OpenError, Session, SessionError, Update, UpdateIf, Upsert};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

fn parameters(kind: IndexKind) -> IndexParameters {
    let sizes = Parameters { key_bytes_max: 1024, value_bytes_max: 4096 };
    IndexParameters::with_any_length(kind, sizes).unwrap()
}

fn open(pool: &Arc<Pool>, kind: IndexKind, workers: usize) -> Session {
    Session::open_or_create(pool, "files", parameters(kind), &options(workers, 4)).unwrap()
}

#[test]
fn every_operation_takes_keys_and_values_as_they_are() {
    KINDS.iter().copied().for_each(takes_keys_and_values_as_they_are);
}

fn takes_keys_and_values_as_they_are(kind: IndexKind) {
    let session = open(&pool_here(2), kind, 2);
    let (one, long) = (&b"/etc/hosts"[..], [b'/'; 1000]);
    let (a, b) = (&b"short"[..], [7; 4096]);
    for key in [one, &long, b""] {
        assert_eq!(session.get(key).wait(), Ok(None));
        assert_eq!(session.update(key, a).wait(), Ok(Update::Absent));
        assert_eq!(session.insert(key, a).wait(), Ok(Insert::Inserted));
        assert_eq!(session.insert(key, &b).wait(), Ok(Insert::Exists(a.to_vec())));
        assert_eq!(session.update(key, &b).wait(), Ok(Update::Updated));
        assert_eq!(session.get(key).wait().unwrap().as_deref(), Some(&b[..]));
        assert_eq!(session.update_if(key, a, b"").wait(), Ok(UpdateIf::Mismatch(b.to_vec())));
        assert_eq!(session.update_if(key, &b, b"").wait(), Ok(UpdateIf::Updated));
        assert_eq!(session.get(key).wait().unwrap().as_deref(), Some(&b""[..]), "an empty value is a value");
        assert_eq!(session.upsert(key, a).wait(), Ok(Upsert::Replaced));
        assert_eq!(session.delete_if(key, b"x").wait(), Ok(DeleteIf::Mismatch(a.to_vec())));
        assert_eq!(session.delete_if(key, a).wait(), Ok(DeleteIf::Deleted));
        assert_eq!(session.delete(key).wait(), Ok(Delete::Absent));
    }
    assert_eq!(session.validate().unwrap().records, 0);
}

/// The paths of this package's own files and directories, and of what it is built from, as keys.
#[test]
fn real_paths_are_loaded_found_and_listed_in_order() {
    fn walk(directory: &Path, found: &mut Vec<Vec<u8>>) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            if found.len() == 3000 {
                return;
            }
            found.push(entry.path().to_string_lossy().into_owned().into_bytes());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(&entry.path(), found);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut paths);
    assert!(paths.len() > 300, "a checkout has more files than {}", paths.len());
    for &kind in KINDS {
        loaded_found_and_listed_in_order(kind, &paths);
    }
}

fn loaded_found_and_listed_in_order(kind: IndexKind, paths: &[Vec<u8>]) {
    let pool = pool_here(2);
    let session = open(&pool, kind, 2);
    let records: Vec<_> =
        paths.iter().map(|path| (path.clone(), path.iter().rev().copied().collect::<Vec<_>>())).collect();
    assert!(session.multi_put(&records).wait().into_iter().all(|result| result == Ok(Upsert::Inserted)));
    // Another compute node, with copies of its own. Where keys have owners, the first one gives them up before.
    let session = if kind == IndexKind::Dex {
        session.close();
        None
    } else {
        Some(session)
    };
    let other = open(&pool, kind, 1);
    for (result, (_, value)) in other.multi_get(paths).wait().into_iter().zip(&records) {
        assert_eq!(result.unwrap().as_ref(), Some(value));
    }
    let model: BTreeMap<_, _> = records.into_iter().collect();
    let listed: Vec<_> = other.scan(Bound::Unbounded, Bound::Unbounded).map(Result::unwrap).collect();
    assert!(listed.into_iter().eq(model.clone()));
    let (low, high) = (&paths[paths.len() / 3], &paths[paths.len() / 2]);
    let (low, high) = if low < high { (low, high) } else { (high, low) };
    let range = (Bound::Excluded(low.clone()), Bound::Included(high.clone()));
    let listed: Vec<_> = other.scan(Bound::Excluded(low), Bound::Included(high)).map(Result::unwrap).collect();
    assert!(listed.into_iter().eq(model.range(range).map(|(key, value)| (key.clone(), value.clone()))));
    assert_eq!(session.as_ref().unwrap_or(&other).validate().unwrap().records, model.len() as u64);
}

#[test]
fn what_does_not_fit_is_refused_with_its_limit() {
    KINDS.iter().copied().for_each(is_refused_with_its_limit);
}

fn is_refused_with_its_limit(kind: IndexKind) {
    let pool = pool_here(1);
    let session = open(&pool, kind, 1);
    let refused = session.get(&[0; 1025]).wait().unwrap_err();
    assert_eq!(refused, SessionError::KeyTooLong { given: 1025, most: 1024 });
    assert_eq!(refused.to_string(), "a key of 1025 bytes: this index has keys of up to 1024");
    let refused = session.upsert(b"key", &[0; 4097]).wait().unwrap_err();
    assert_eq!(refused, SessionError::ValueTooLong { given: 4097, most: 4096 });
    assert_eq!(session.get_into(b"key", &mut [0; 8]).wait(), Err(SessionError::AnyLength));
    assert_eq!(session.validate().unwrap().records, 0, "nothing was written");
    // An index of one kind is not opened as one of the other.
    let fixed = Fixed::with_sizes(8, 8);
    let refused = Session::open_or_create(&pool, "files", fixed, &options(1, 1)).unwrap_err();
    assert!(matches!(refused, OpenError::Lengths { any_length: true, .. }), "{refused}");
    assert_eq!(refused.to_string(), "index \"files\" has keys and values of any length, not of one size");
    let _ = Session::open_or_create(&pool, "fixed", fixed, &options(1, 1)).unwrap();
    let refused = Session::open_or_create(&pool, "fixed", parameters(kind), &options(1, 1)).unwrap_err();
    assert_eq!(refused.to_string(), "index \"fixed\" has keys and values of one size, not of any length");
    let sizes = Parameters { key_bytes_max: 5000, ..Parameters::DEFAULT };
    let large = IndexParameters::with_any_length(kind, sizes).unwrap();
    let refused = Session::open_or_create(&pool, "large", large, &options(1, 1)).unwrap_err();
    assert_eq!(refused.to_string(), "bytes of the longest key 5000: the index takes 1 to 4096");
}

#[test]
fn a_pool_without_room_says_so_and_keeps_what_it_has() {
    KINDS.iter().copied().for_each(without_room_says_so_and_keeps_what_it_has);
}

fn without_room_says_so_and_keeps_what_it_has(kind: IndexKind) {
    let session = open(&pool_here(1), kind, 1);
    let value = [1; 4096];
    let mut held = 0u32;
    let full = loop {
        match session.insert(&held.to_be_bytes(), &value).wait() {
            Ok(outcome) => assert_eq!(outcome, Insert::Inserted),
            Err(error) => break error,
        }
        held += 1;
        assert!(held < 5000, "16 MiB hold no 20 MB");
    };
    assert_eq!(full, SessionError::Operation(OpError { effect: Effect::None, cause: Cause::PoolFull }));
    assert_eq!(session.get(&held.to_be_bytes()).wait(), Ok(None));
    assert_eq!(session.get(&0u32.to_be_bytes()).wait().unwrap().as_deref(), Some(&value[..]));
    assert_eq!(session.validate().unwrap().records, u64::from(held));
    assert_eq!(session.delete(&0u32.to_be_bytes()).wait(), Ok(Delete::Deleted));
    let inserted = session.insert(&held.to_be_bytes(), &value).wait();
    assert_eq!(inserted, Ok(Insert::Inserted), "{}: the deleted block's memory is used again", kind.name());
}
