//! Sessions on memory of this process: what calls promise, under many threads and tasks.
//!
//! `operations`: outcomes, limits, many threads. `calls`: futures, wakers, queues, deadlines. `closing`: the end of a
//! session, and of a memory node; statistics. `checksums`: of records. `dex`: keys that have owners. `items`: keys and values of any length.
//! `rows`: several under one row of the pool. `tables`: typed ones.

#[path = "../session_support/mod.rs"]
mod session_support;

mod bulk;
mod calls;
mod checksums;
mod closing;
mod dex;
mod dropping;
mod forward;
mod items;
mod local;
mod operations;
mod rows;
mod tables;

use dm_core::sherman::parameters::Parameters;
use dm_host::pool::Pool;
use dm_host::session::{Session, SessionOptions};
use session_support::{options, pool_here};
use std::sync::Arc;

fn open(pool: &Arc<Pool>, options: &SessionOptions) -> Session {
    Session::open_or_create(pool, "index", Parameters::with_sizes(8, 8), options).unwrap()
}

fn small() -> Session {
    open(&pool_here(1), &options(2, 4))
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}
