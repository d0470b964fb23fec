//! Sessions of an index whose keys have owners: one compute node at a time serves a key.

use crate::key;
use crate::session_support::{options, pool_here, value_of};
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::operation::Cause;
use dm_host::pool::Pool;
use dm_host::session::{Insert, Session, SessionError, Update};
use std::sync::Arc;

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
