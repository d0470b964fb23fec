//! Ordered indexes in disaggregated memory, embedded in a program.
//!
//! ```
//! use dm_host::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = Pool::embedded(64 << 20)?;
//!     let sizes = Table::<&str, u64>::open(&pool, "file sizes")?;
//!     sizes.upsert("/etc/hosts", 312).wait()?;
//!     assert_eq!(sizes.get("/etc/hosts").wait()?, Some(312));
//!     Ok(())
//! }
//! ```
//!
//! A [`Pool`](pool::Pool) is memory on one or more memory nodes, and has indexes. A [`Table`](session::Table) is an open
//! index with typed keys and values; a [`Session`](session::Session) below it has keys and values of bytes. Every
//! operation is a [`Call`](session::Call): `.wait()` blocks, `.await` works on any executor, and a call that is dropped
//! before either has no effect. `.within(time)` sets a deadline.
//!
//! # Typed keys
//!
//! Numbers, strings, byte arrays, and tuples of these. They are stored so that bytes compare as the keys do
//! ([`table`](session::table)); an index of keys and values of one size each gets slots of these sizes.
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! // Temperatures by sensor and time: fixed sizes, here in an index of another kind.
//! let index = IndexOptions::new().kind(IndexKind::Smart);
//! let readings = Table::<(u32, i64), i16>::open_with(&pool, "readings", &index, &SessionOptions::default())?;
//! readings.insert((7, -60), -3).wait()?;
//! readings.insert((7, 0), 21).wait()?;
//! readings.insert((8, 0), 19).wait()?;
//! assert_eq!(readings.first().wait()?, Some(((7, -60), -3)));
//! assert_eq!(readings.count((7, i64::MIN)..=(7, 0))?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Scans
//!
//! A range is an iterator, and a stream for tasks. It is not a snapshot: each record was current at some instant of the
//! scan, and none that was there all the time is left out.
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! let sizes = Table::<&str, u64>::open(&pool, "file sizes")?;
//! for result in sizes.multi_put([("/etc/hosts", 312), ("/etc/passwd", 1490), ("/var/log", 4096)]).wait() {
//!     result?;
//! }
//! let mut total = 0;
//! for record in sizes.prefix("/etc/") {
//!     let (name, bytes) = record?;
//!     println!("{bytes:>9} {name}");
//!     total += bytes;
//! }
//! assert_eq!(total, 1802);
//! assert_eq!(sizes.count("/etc/i".."/var/z")?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! Threads share a table by reference, or have clones of it. It runs operations on its worker threads
//! ([`SessionOptions::workers`](session::SessionOptions::workers)). Many operations in one call
//! ([`Table::multi_put`](session::Table::multi_put) and its kin) overlap their round trips.
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! let squares = Table::<u64, u64>::open(&pool, "squares")?;
//! std::thread::scope(|scope| {
//!     for from in [0, 100, 200] {
//!         let squares = &squares;
//!         scope.spawn(move || {
//!             for n in from..from + 100 {
//!                 squares.insert(n, n * n).wait().expect("a pool that has room");
//!             }
//!         });
//!     }
//! });
//! assert_eq!(squares.count(..)?, 300);
//! # Ok(())
//! # }
//! ```
//!
//! # Conditional updates
//!
//! Point operations are linearizable, and one whose condition fails says what it found. So a read, a change and an
//! [`update_if`](session::Table::update_if) make any change of one record atomic.
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! let stock = Table::<&str, u32>::open(&pool, "stock")?;
//! stock.insert("screws", 100).wait()?;
//! let mut have = stock.get("screws").wait()?.unwrap_or(0);
//! while have >= 30 {
//!     match stock.update_if("screws", have, have - 30).wait()? {
//!         UpdateIf::Updated => break,
//!         UpdateIf::Mismatch(now) => have = now,
//!         UpdateIf::Absent => have = 0,
//!     }
//! }
//! assert_eq!(stock.get("screws").wait()?, Some(70));
//! # Ok(())
//! # }
//! ```
//!
//! # Memory nodes of their own
//!
//! An embedded pool ends with its process. To share one among processes, start a memory node for each part of it, and
//! connect:
//!
//! ```no_run
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // dm-memd --size 1GiB --socket /run/dm/0
//! let pool = Pool::open("dm:///run/dm/0")?;
//! let sizes = Table::<&str, u64>::open(&pool, "file sizes")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Several tables in a program
//!
//! An open table is a compute node of its own, with a row in the pool, of which there are 127. A program with many tables takes one
//! row for all of them ([`SharedRow`](session::SharedRow)). It says beforehand how many there will be:
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(64 << 20)?;
//! let mut options = SessionOptions { lanes_per_worker: 4, local_handles: 0, ..SessionOptions::default() };
//! options.row = Some(SharedRow::join(&pool, 10, &options)?);
//! let index = IndexOptions::new();
//! let users = Table::<u64, u64>::open_with(&pool, "users", &index, &options)?;
//! let visits = Table::<(u64, u64), u64>::open_with(&pool, "visits", &index, &options)?;
//! users.insert(7, 1).wait()?;
//! visits.insert((7, 1), 60).wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Many records at once
//!
//! A new index can be made of records whose keys ascend, which is faster than inserts:
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! let squares = (0..10_000).map(|n| (n, n * n));
//! assert_eq!(Table::<u64, u64>::bulk_load(&pool, "squares", &IndexOptions::new(), squares)?, 10_000);
//! assert_eq!(Table::<u64, u64>::open(&pool, "squares")?.get(99).wait()?, Some(9801));
//! # Ok(())
//! # }
//! ```
//!
//! # Indexes of a pool
//!
//! A pool has up to 255 indexes. One that is open somewhere can get another name, and is neither emptied nor dropped.
//!
//! ```
//! # use dm_host::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::embedded(16 << 20)?;
//! let scores = Table::<&str, u64>::open(&pool, "scores")?;
//! pool.rename_index("scores", "high scores")?;
//! scores.insert("anna", 3).wait()?;
//! assert!(matches!(pool.drop_index("high scores"), Err(PoolError::InUse { .. })));
//! scores.close();
//! pool.truncate_index("high scores")?;
//! for index in pool.indexes()? {
//!     println!("{}", index.name());
//! }
//! pool.drop_index("high scores")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! [`PoolError`](pool::PoolError), [`OpenError`](session::OpenError) and [`SessionError`](session::SessionError) say what
//! failed and what to do, also where `main` returns them: their `Debug` is their text.
//! [`SessionError::effect`](session::SessionError::effect) says whether the operation changed something nevertheless.
//!
//! # Inside
//!
//! This crate binds dm-core's verb requests to memory: shared memory on one machine, or queue pairs on a NIC. It has no
//! index logic.
//!
//! In order of reading:
//!
//! - [`region`]: the memory of one memory node - where it comes from, its layout, huge pages.
//! - [`fabric`]: executes verbs. [`fabric::shm`] does so with loads and stores on mapped regions, `fabric::verbs`
//!   (feature `verbs`) with queue pairs of an RDMA device.
//! - [`memory_node`]: the daemon that owns a region and hands it out, and the client that connects to the daemon.
//! - [`pool`]: the memory nodes that this process is connected to, and the indexes there.
//! - [`compute_node`]: a process that has a row in a pool. [`repair`]: finishes what dead ones left.
//! - `rootless`: an index whose root word is 0: new, or damaged.
//! - [`keeper`]: the thread that keeps a compute node's lease.
//! - [`solo`]: drives one future on one lane on the calling thread.
//! - [`assembly`]: puts an index together, with the storage that the core only borrows.
//! - [`kinds`]: indexes of any kind that the catalog names.
//! - [`checked`]: records with checksums, over an index of any kind.
//! - [`worker`]: a thread that drives lanes.
//! - [`session`]: the API that an application embeds an index with.
//! - [`prelude`]: the names that most programs need.
//! - `c` (feature `c`): the same API for C.
//! - [`clock`]: timestamps cheap enough to take twice per post.
//! - [`fetch`]: prefetches lines before they are needed.
//! - `error_text`: errors whose `Debug` is their text.

pub mod assembly;
#[cfg(feature = "c")]
pub mod c;
pub mod checked;
pub mod clock;
pub mod compute_node;
mod error_text;
pub mod fabric;
pub mod fetch;
pub mod keeper;
pub mod kinds;
pub mod memory_node;
mod metrics;
pub mod pool;
pub mod prelude;
pub mod region;
pub mod repair;
mod rootless;
pub mod session;
pub mod solo;
pub mod worker;

pub use dm_core;

/// Compiles and runs the example in README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
