//! The API an application embeds an index with: blocking calls and futures, run by worker threads.
//!
//! [`Table`] has keys and values of Rust types; most programs want that. A [`Session`] is the same with bytes:
//!
//! ```
//! use dm_host::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::embedded(16 << 20)?;
//! let sizes = IndexOptions::new().any_length(200, 1000).parameters()?;
//! let session = Session::open_or_create(&pool, "files", sizes, &SessionOptions::default())?;
//!
//! session.upsert(b"/etc/hosts", b"localhost").wait()?;
//! assert_eq!(session.get(b"/etc/hosts").wait()?.as_deref(), Some(&b"localhost"[..]));
//! # async fn elsewhere(session: Session) -> Result<(), SessionError> {
//! // The same call, awaited: on any executor.
//! assert!(session.get(b"/etc/hosts").await?.is_some());
//! # Ok(())
//! # }
//! session.close();
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! ```text
//!  application threads, tasks        queues                     worker threads
//!   Session ─ clone ─ clone    ┌── slots: free, ready ──► worker 0: lanes, a fabric ──┐
//!     │ call: claim, fill, ────┤                                                      ├── one index, one cache,
//!     │       submit, unpark   └── slots: free, ready ──► worker 1: lanes, a fabric ──┘   one local lock table
//!     ◄───────────────────────── result, unpark or wake ────────┘
//! ```
//!
//! Opening a session joins the pool as a compute node of its own, or takes a place on one that several sessions share
//! ([`SharedRow`]), and starts a supervisor thread. The supervisor's
//! stack holds the index's storage, and its scope the workers. A call looks at the queues of two workers, fills a slot
//! in the shorter one, and that worker runs the call on a lane. Slots have room for arguments and results. A call
//! allocates only what its result needs: a vector for a value or a page. [`Session::get_into`] needs none.
//!
//! A [`Local`] handle has lanes of its own, and runs calls on the thread that makes them.
//!
//! Where keys have owners, operations on keys of other compute nodes are forwarded to these
//! ([`SessionOptions::forward`]), and one more thread executes those of others. Those of one [`Calls`], or of one call of a
//! [`Local`], that have one owner go there in one message, as many as it has room for.
//!
//! - [`Call`], [`Calls`]: one operation or many, to wait for or to await.
//! - [`Local`]: operations on the caller's own thread.
//! - [`Page`], [`Scan`]: ranges.
//! - [`table`]: keys and values of Rust types, and what an index is created with.
//! - [`SessionError`]: what failed, and what the call did nevertheless ([`SessionError::effect`]).
//! - [`byte_string`]: strings of any length up to a bound, in slots of one size.
//! - [`SharedRow`]: several sessions under one row of the pool.
//! - `options`, `outcome`, `operations`: what a session is opened with, does and answers. `request`, `queue`,
//!   `supervisor`, `watch`, `forward`, `packs`: the internals.
//!
//! # What is Send, what is Sync
//!
//! - [`Session`] is both: all it holds is an `Arc` of queues under mutexes, a counter and a channel's end under a
//!   mutex. Share it by reference, or clone it, which costs a reference count.
//! - [`Call`] and [`Calls`] are `Send`: they hold a session's reference, the caller's bytes and a slot's number. A task
//!   that awaits one may move between threads between two polls. They borrow the session and the arguments, so that
//!   neither is copied before there is a slot; [`Call::owned`] gives a future without borrows, to be spawned.
//! - The operation itself is neither: its future and its lane stay on the worker thread they were made on. That is why
//!   it runs there, and not in the caller's poll.
//! - Wakers run on worker threads. They must not block; the session refuses to wait for a call there
//!   ([`SessionError::OnWorker`]).
//!
//! # Back-pressure and fairness
//!
//! Each queue has a fixed number of slots ([`SessionOptions::queue_slots`]). A call that finds no free slot gets in
//! line: a thread sleeps, a task is pending. The first caller to ask gets a slot that has become free. A caller that
//! was woken and came too late keeps its place at the head of the line.
//!
//! # Being fenced
//!
//! A session renews its lease all the time ([`Membership::terms`](crate::compute_node::Membership::terms)). If it could
//! not, because the process was stopped or starved for too long, others *fence* it: every call fails with
//! [`dm_core::operation::Cause::Fenced`] and has changed nothing, unless the error says so. Close the session and open
//! another one, which joins as a new compute node. (On shared memory the daemons end the process as well, before others
//! go on; see `crate::memory_node`.) Compute nodes that want the session's locks recover them; every acknowledged
//! change is in the index.
//!
//! # The end
//!
//! [`Session::close`], or dropping the last clone, refuses new calls, finishes what is queued, stops the workers and
//! leaves the pool, or its place on a shared row. If a memory node dies, operations that need it fail with [`dm_core::error::VerbError`] and status
//! `NodeDown`. A lane that cannot settle what such an operation left takes no more operations. When a worker has no
//! lane left, what is queued for it fails with [`SessionError::Broken`], and so does every later call when no worker is
//! left. The row of a compute node that leaves unsettled locks behind is not used again before others have swept it.

mod bulk;
pub mod byte_string;
mod call;
mod calls;
mod deadline;
mod down;
mod error;
mod forward;
mod local;
mod operations;
mod options;
mod outcome;
mod packs;
mod page;
mod parts;
mod queue;
mod request;
mod row;
mod scan;
mod spin;
mod statistics;
mod supervisor;
pub mod table;
mod walker;
mod watch;

pub use bulk::LoadError;
pub use call::Call;
pub use calls::Calls;
pub use error::{OpenError, SessionError};
pub use local::Local;
pub use options::SessionOptions;
pub use outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
pub use page::Page;
pub use row::SharedRow;
pub use scan::{LocalScan, Scan};
pub use statistics::{KindStatistics, LatencyHistogram, Statistics};
pub use table::{IndexOptions, Key, LocalRange, LocalTable, Range, Table, TypedScan, Value};

use crate::kinds::IndexParameters;
use crate::metrics::Endpoint;
use crate::pool::{Pool, PoolError, pool_name};
use dm_core::index::balance::Move;
use dm_core::index::catalog::CatalogError;
use dm_core::operation::Census;
use dm_core::remote::catalog::IndexEntry;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::verbs::NodeId;
use local::Lending;
use parts::{Ask, Moved};
use queue::Queue;
use request::Shape;
use row::Seat;
use spin::Spin;
use static_assertions::assert_impl_all;
use statistics::{ServedSums, WorkerSums};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use supervisor::{Command, Supervisor};

assert_impl_all!(Session: Send, Sync, Clone);
assert_impl_all!(Call<'static, Option<Vec<u8>>>: Send, Unpin, std::future::Future);
assert_impl_all!(Calls<'static, Option<Vec<u8>>>: Send, Unpin, std::future::Future);
assert_impl_all!(Scan<'static>: Send, futures_core::Stream);
assert_impl_all!(Range<'static, u64, u64>: Send, futures_core::Stream);
assert_impl_all!(SessionError: Send, Sync, Copy);

/// What the clones of a session and its threads share.
#[derive(Debug)]
struct Shared {
    member: Member,
    queues: Vec<Queue>,
    shape: Shape,
    lanes_per_worker: usize,
    /// The first of its lanes on the compute node.
    first_lane: usize,
    /// The index, for local handles.
    lending: Arc<Lending>,
    /// What local handles did, by place.
    sums_of_handles: Vec<WorkerSums>,
    /// What lanes did for other compute nodes.
    served: ServedSums,
    /// The number of the last [`Calls`] whose operations may go to their owner together.
    groups: AtomicU64,
    /// Set for good when the session closes.
    closing: AtomicBool,
    /// Of calls that block.
    spin: Spin,
    /// Most operations of one [`Calls`] that may be queued at a time.
    window: usize,
    cache_used: AtomicU64,
    cache_budget: AtomicU64,
}

impl Shared {
    fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.lending.end();
        for queue in &self.queues {
            queue.close();
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn on_worker(&self) -> bool {
        self.queues.iter().any(Queue::is_worker)
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.cache_used_bytes = self.cache_used.load(Ordering::Relaxed);
        statistics.cache_budget_bytes = self.cache_budget.load(Ordering::Relaxed);
        for queue in &self.queues {
            queue.sums.add_to(&mut statistics);
            statistics.queued += queue.load() as u64;
        }
        for sums in &self.sums_of_handles {
            sums.add_to(&mut statistics);
        }
        self.served.add_to(&mut statistics);
        statistics
    }
}

/// The supervisor. It is closed and waited for when the last clone of the session is dropped.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    commands: mpsc::Sender<Command>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    metrics: Mutex<Option<Endpoint>>,
}

impl Handle {
    fn close(&self) {
        self.shared.close();
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If the supervisor has ended already, the message is not needed.
        let _ = self.commands.send(Command::Close);
        // The worker whose waker dropped the last clone cannot wait for itself. The threads end without being waited
        // for.
        if self.shared.on_worker() {
            return;
        }
        // Nor can the owner of a local handle: the supervisor waits for it.
        if self.shared.lending.lent() != 0 {
            return;
        }
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = supervisor.take()
            && thread.join().is_err()
        {
            tracing::error!("the supervisor of a session panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// An open index: see the module's documentation.
#[derive(Debug)]
pub struct Session {
    handle: Arc<Handle>,
    /// The worker that comes next. Each clone has its own counter, so that clones do not contend for one.
    turn: AtomicUsize,
}

impl Clone for Session {
    fn clone(&self) -> Self {
        // Clones begin at different workers.
        Self { handle: Arc::clone(&self.handle), turn: AtomicUsize::new(Arc::strong_count(&self.handle)) }
    }
}

impl Session {
    /// Opens the index called `name`, which must exist.
    pub fn open(pool: &Arc<Pool>, name: &str, options: &SessionOptions) -> Result<Self, OpenError> {
        options.check()?;
        let (entry, parameters) = pool.find_index(name)?;
        pool.check_root(&entry, &parameters)?;
        let options = &options.fitted(&parameters);
        Self::start(pool, entry, parameters, options, Self::seat(pool, options)?)
    }

    /// Opens the index called `name`, or creates it if it does not exist. If it exists, its keys and values must have
    /// the sizes of `parameters`; the session uses the index's own kind and its other parameters.
    pub fn open_or_create(
        pool: &Arc<Pool>,
        name: &str,
        parameters: impl Into<IndexParameters>,
        options: &SessionOptions,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let parameters = &parameters.into();
        parameters.check()?;
        let options = &options.fitted(parameters);
        let seat = Self::seat(pool, options)?;
        match pool.find_index(name) {
            Err(PoolError::NoIndex { .. }) => match seat.node.create_index(name, parameters) {
                // Another compute node may have created it first.
                Ok(_) | Err(PoolError::Catalog(CatalogError::Exists { .. })) => {}
                Err(error) => return Err(error.into()),
            },
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let (entry, found) = pool.find_index(name)?;
        if found.any_length.is_some() != parameters.any_length.is_some() {
            return Err(OpenError::Lengths { name: name.to_owned(), any_length: found.any_length.is_some() });
        }
        let sizes = |parameters: &IndexParameters| (parameters.key_bytes(), parameters.value_bytes());
        if sizes(&found) != sizes(parameters) {
            return Err(OpenError::Sizes { name: name.to_owned(), found: sizes(&found), wanted: sizes(parameters) });
        }
        if found != *parameters {
            let (found, wanted) = (Box::new(found), Box::new(*parameters));
            return Err(OpenError::Other { name: name.to_owned(), found, wanted });
        }
        pool.check_root(&entry, &found)?;
        Self::start(pool, entry, found, options, seat)
    }

    /// Where the session runs: on the row that it shares, or on one of its own.
    fn seat(pool: &Arc<Pool>, options: &SessionOptions) -> Result<Seat, OpenError> {
        match &options.row {
            Some(row) => row.take_place(pool, options.lanes()),
            None => Ok(Seat::alone(pool.join(options.lanes() as u16, options.membership)?)),
        }
    }

    fn start(
        pool: &Arc<Pool>,
        entry: IndexEntry,
        parameters: IndexParameters,
        options: &SessionOptions,
        seat: Seat,
    ) -> Result<Self, OpenError> {
        let fabrics = options.workers + usize::from(options.forward) + 1;
        let fabrics = (0..fabrics).map(|_| pool.fabric()).collect::<Result<_, _>>()?;
        let (key_bytes, value_bytes) = (parameters.key_bytes(), parameters.value_bytes());
        let have_lengths = parameters.any_length.is_some();
        let queue = |_| Queue::new(options.queue_slots, key_bytes, value_bytes, have_lengths);
        let shared = Arc::new(Shared {
            member: seat.node.member(),
            queues: (0..options.workers).map(queue).collect(),
            shape: Shape {
                key_bytes,
                value_bytes,
                have_lengths,
                page_records: options.spending.page_records,
                takes_last: parameters.scans_down(),
            },
            lanes_per_worker: options.lanes_per_worker,
            first_lane: seat.first_lane,
            lending: Arc::new(Lending::new(options.local_handles)),
            sums_of_handles: (0..options.local_handles).map(|_| WorkerSums::default()).collect(),
            served: ServedSums::default(),
            groups: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            spin: Spin::new(options.spin),
            window: (options.workers * options.queue_slots / 2).max(1),
            cache_used: AtomicU64::new(0),
            cache_budget: AtomicU64::new(0),
        });
        let (commands, receiver) = mpsc::channel();
        let (ready, opened) = mpsc::sync_channel(1);
        let supervisor = Supervisor {
            seat,
            entry,
            parameters,
            options: options.clone(),
            fabrics,
            shared: Arc::clone(&shared),
            commands: receiver,
        };
        let supervisor = thread::Builder::new().name("dm-session".to_owned()).spawn(move || supervisor.run(&ready))?;
        // From here on a failure closes the supervisor and waits for it.
        let (owned, supervisor) = (Arc::clone(pool), Mutex::new(Some(supervisor)));
        let handle = Handle { shared, pool: owned, commands, supervisor, metrics: Mutex::default() };
        opened.recv().unwrap_or(Err(OpenError::Panicked))?;
        if let Some(address) = options.metrics {
            let shared = Arc::clone(&handle.shared);
            let pool_name =
                pool.descriptions().first().map(|node| pool_name(node.identity.pool_id)).unwrap_or_default();
            let index = entry.name().to_owned();
            let endpoint =
                Endpoint::serve(address, move || shared.statistics().page(&pool_name, &index, shared.member));
            *handle.metrics.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(endpoint.map_err(OpenError::Metrics)?);
        }
        Ok(Self { handle: Arc::new(handle), turn: AtomicUsize::new(0) })
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    fn shape(&self) -> Shape {
        self.shared().shape
    }

    fn on_worker(&self) -> bool {
        self.shared().on_worker()
    }

    /// Whether any worker still takes operations.
    fn any_open(&self) -> bool {
        self.shared().queues.iter().any(Queue::is_open)
    }

    /// A queue for the next operation: the shorter one of two.
    fn choose(&self) -> usize {
        let queues = &self.shared().queues;
        if queues.len() == 1 {
            return 0;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let first = turn % queues.len();
        // The second queue is at a distance that changes from round to round, so that every pair is compared.
        let second = (first + 1 + (turn / queues.len()) % (queues.len() - 1)) % queues.len();
        let better = if queues[second].load() < queues[first].load() { second } else { first };
        // Skips workers that have stopped.
        (0..queues.len()).map(|step| (better + step) % queues.len()).find(|&at| queues[at].is_open()).unwrap_or(better)
    }

    // ---- what is known ---------------------------------------------------------------------------------------

    /// This session's compute node: its row and incarnation.
    pub fn member(&self) -> Member {
        self.shared().member
    }

    /// Bytes of every key; where keys have any length, of the longest.
    pub fn key_bytes(&self) -> usize {
        self.shape().key_bytes
    }

    /// Bytes of every value; where values have any length, of the longest.
    pub fn value_bytes(&self) -> usize {
        self.shape().value_bytes
    }

    /// Whether keys and values have any length up to these.
    pub fn have_lengths(&self) -> bool {
        self.shape().have_lengths
    }

    /// Records a page holds at most.
    pub fn page_records(&self) -> usize {
        self.shape().page_records
    }

    /// Statistics of the session so far.
    pub fn statistics(&self) -> Statistics {
        self.shared().statistics()
    }

    /// The address where its statistics are served, if they are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.handle.metrics.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Endpoint::address)
    }

    /// Walks the whole index, checks every invariant and counts what is there. Run it on a quiescent index only. While
    /// another operation writes, in this process or another, the walk can fail for that reason alone, and the counts
    /// are estimates.
    pub fn validate(&self) -> Result<Census, SessionError> {
        if self.on_worker() {
            return Err(SessionError::OnWorker);
        }
        let (answer, answered) = mpsc::channel();
        // If there is no answer, the session was closed first.
        self.handle.commands.send(Command::Validate(answer)).map_err(|_| SessionError::Closed)?;
        answered.recv().unwrap_or(Err(SessionError::Closed))
    }

    /// Moves a part of the keys, where keys have owners, to the compute node of row `to`, which has opened the index too: asks the
    /// part's owner, and waits until that has given the part up, for `wait` at most. Parts are numbered in the order of their
    /// keys. Afterwards that session executes the operations of others on these keys ([`SessionOptions::forward`]).
    pub fn move_part(&self, part: u32, to: RowId, wait: Duration) -> Result<(), SessionError> {
        self.have_moved(Ask::Part { part, to }, wait).map(|_| ())
    }

    /// Cuts the part that has `key` in two, where keys have owners, in front of that key or a little before: where its leaf begins. This
    /// session has that part ([`move_part`](Self::move_part) brings it here), and both afterwards. Parts behind it have a number that is
    /// one more then. An index has room for so many cuts as its creator chose. A typed key is given as it is stored.
    pub fn cut_part(&self, key: &[u8], wait: Duration) -> Result<(), SessionError> {
        self.have_moved(Ask::Cut { key: key.to_vec() }, wait).map(|_| ())
    }

    /// Moves parts of the keys, where keys have owners, from compute nodes with much load to those with little, until no move
    /// would lower the greatest load noticeably ([`balance`](dm_core::index::balance)). The compute nodes are this one, and those that
    /// have parts. Loads are those of the last seconds; without any, numbers of parts are evened. Each part may take `wait`.
    /// Returns what has moved, in that order.
    pub fn balance_parts(&self, wait: Duration) -> Result<Vec<Move>, SessionError> {
        self.have_moved(Ask::Even, wait).map(|moved| moved.parts)
    }

    /// Moves the nodes of this session's parts of the keys that are on memory node `from` to other memory nodes, where keys have
    /// owners, from the last part to the first one. Operations go on. Each part may take `wait`. Returns how many nodes have moved:
    /// if all parts are this session's, none is left there once that is 0. What `dm pool drain` does without the parts changing
    /// hands; that withholds the memory node's free chunks, too, and should come first.
    pub fn vacate(&self, from: NodeId, wait: Duration) -> Result<u64, SessionError> {
        self.have_moved(Ask::Nodes { from }, wait).map(|moved| moved.nodes)
    }

    fn have_moved(&self, what: Ask, wait: Duration) -> Result<Moved, SessionError> {
        if self.on_worker() {
            return Err(SessionError::OnWorker);
        }
        let (answer, answered) = mpsc::channel();
        self.handle.commands.send(Command::Move((what, wait), answer)).map_err(|_| SessionError::Closed)?;
        answered.recv().unwrap_or(Err(SessionError::Closed))
    }

    /// Refuses new calls of all clones, finishes what is queued, stops the workers and leaves the pool. Returns when
    /// that is done, whichever clone began it; inside a waker, at once.
    pub fn close(&self) {
        self.handle.close();
    }
}
