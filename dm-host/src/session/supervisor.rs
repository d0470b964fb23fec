//! The threads of a session.
//!
//! ```text
//!   supervisor: has a place on the compute node; its stack has the index's storage (assembly::with_index)
//!      └─ thread::scope: everything below borrows the index, and ends before the storage does
//!           ├─ worker 0: its own fabric and lanes ◄── queue 0
//!           ├─ worker 1 ...                       ◄── queue 1
//!           ├─ forward, where keys have owners: lanes for operations of other compute nodes
//!           ├─ validator, while a walk is asked for: a lane of its own
//!           ├─ orphan collector, once a lease, for as long as it takes: the same lane
//!           └─ keeper of parts, where keys have owners: the same lane (super::parts)
//! ```
//!
//! The supervisor sleeps. Every [`TICK`] it publishes the cache's size and, if lanes are parked, wakes them so that
//! they are checked ([`super::watch`]). It ends when it is told to close: it closes the queues, the workers finish what
//! is queued, the scope ends, the index gives up what only this compute node has of it, the storage is dropped, and the
//! compute node leaves the pool.

use super::error::{OpenError, SessionError};
use super::forward::{self, Inbox};
use super::local::{Host, LocalWork};
use super::parts::{self, Ask};
use super::queue::{End, Queue, QueueWork};
use super::row::Seat;
use super::walker::Walker;
use super::watch::{Watch, Watched, lanes_of};
use super::{SessionOptions, Shared};
use crate::assembly::Spending;
use crate::fabric::any::AnyFabric;
use crate::kinds::IndexParameters;
use crate::solo::block_on;
use crate::worker::{self, Wakes, WorkerError};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Census, OpError};
use dm_core::remote::catalog::IndexEntry;
use dm_core::verbs::LaneId;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// How long one orphan collection of a session may take at a time, and how long one may delay its opening: long enough
/// to look into some chunks, or for the four epochs of two collections.
const ORPHAN_COLLECTION_MAX: Duration = Duration::from_millis(250);

/// Pause before the session continues a collection that waits for epochs: a small part of an epoch. Memory that is
/// unlinked from the index meanwhile in chunks of the collection set is lost until these chunks are collected again.
const COLLECTION_PAUSE: Duration = Duration::from_millis(5);

/// How often the supervisor checks parked lanes. An operation in a local lock queue may notice its deadline this late.
const TICK: Duration = Duration::from_millis(50);

/// Commands to the supervisor.
pub(super) enum Command {
    /// Walk over the index and validate it.
    Validate(Sender<Result<Census, SessionError>>),
    /// Have parts of the keys moved to other compute nodes.
    Move((Ask, Duration), Sender<Result<parts::Moved, SessionError>>),
    /// Finish what is queued and end.
    Close,
}

/// Where a supervisor reports that the session is open, or why it is not.
pub(super) type Ready = SyncSender<Result<(), OpenError>>;

/// What a supervisor is started with.
pub(super) struct Supervisor {
    pub(super) seat: Seat,
    pub(super) entry: IndexEntry,
    pub(super) parameters: IndexParameters,
    pub(super) options: SessionOptions,
    /// One for each worker, and one for walks.
    pub(super) fabrics: Vec<AnyFabric>,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Receiver<Command>,
}

/// Tells background threads, when it is dropped, that the session closes.
#[derive(Default)]
struct Closing(Arc<AtomicBool>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Supervisor {
    /// Runs the session to its end.
    pub(super) fn run(mut self, ready: &Ready) {
        let watch = Watch::default();
        let Some(walker) = self.fabrics.pop() else { return };
        let fabrics = std::mem::take(&mut self.fabrics);
        let (node, first_lane) = (&self.seat.node, self.seat.first_lane);
        // The last lane is for walks.
        let lanes = first_lane + self.options.lanes();
        let spending = Spending { lanes, first_lane, ..self.options.spending.clone() };
        let assembled = node.with_index(&self.entry, &self.parameters, &spending, |any| {
            let nodes = node.pool().nodes();
            let whose = (self.entry.number, node.member().row);
            let index = Watched::new(&any, nodes, &watch, whose, self.options.forward);
            let scratch = vec![0; index.plan().total_bytes];
            let walker = Mutex::new(Walker { fabric: walker, scratch, id: LaneId(lanes as u16 - 1) });
            self.serve(&index, &walker, fabrics, &watch, ready);
            // While the compute node has the index open: it stays in the list of what the row has to be swept through.
            if watch.any_unsettled() {
                tracing::warn!("locks of compute-node row {} could not be settled", node.member().row.0);
                node.mark_unsettled();
            }
        });
        if let Err(error) = assembled {
            // If the receiver is gone, the thread that opens the session has given up.
            let _ = ready.send(Err(error.into()));
        }
    }

    fn serve(
        &self,
        index: &Watched<'_, impl Index>,
        walker: &Mutex<Walker>,
        fabrics: Vec<AnyFabric>,
        watch: &Watch,
        ready: &Ready,
    ) {
        let (workers, lanes) = (self.options.workers, self.options.lanes_per_worker);
        let spin = self.options.spin;
        let first_lane = self.seat.first_lane;
        // One more for the lanes that serve others.
        let wakes = &Wakes::new(workers + self.options.local_handles + 1, lanes).from_lane(first_lane);
        let others = index.for_others();
        let waits = {
            // Before operations ask for memory. Otherwise every new session would be granted new chunks, and find out
            // later that chunks of departed sessions were free to collect.
            let until = Instant::now() + ORPHAN_COLLECTION_MAX;
            let is_over = || Instant::now() >= until;
            let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
            go_on(|| collect_orphans(index, &mut walker, &is_over), is_over, thread::sleep)
        };
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut fabrics = fabrics;
            let for_others = if self.options.forward { fabrics.pop() } else { None };
            for (at, fabric) in fabrics.into_iter().enumerate() {
                let queue = &self.shared.queues[at];
                let first = LaneId((first_lane + at * lanes) as u16);
                let run = move || work(index, fabric, queue, first, lanes, spin, wakes);
                match thread::Builder::new().name(format!("dm-worker-{at}")).spawn_scoped(scope, run) {
                    Ok(thread) => {
                        queue.register(thread.thread());
                        threads.push(thread);
                    }
                    Err(error) => {
                        self.shared.close();
                        // The receiver is gone: see above.
                        let _ = ready.send(Err(OpenError::Thread(error)));
                        return;
                    }
                }
            }
            if let Some(fabric) = for_others
                && let Some(inbox) = Inbox::new(index.nodes, &fabric, self.seat.node.member().row, self.entry.number)
            {
                let first = LaneId((first_lane + self.options.own_lanes()) as u16);
                let (others, shared, lanes) = (&others, &self.shared, self.options.forward_lanes());
                let serve = move || forward::serve_others(others, fabric, &inbox, (first, lanes), wakes, shared);
                match thread::Builder::new().name("dm-forward".to_owned()).spawn_scoped(scope, serve) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => tracing::warn!("starting a thread for operations of other compute nodes: {error}"),
                }
            }
            self.publish(index);
            // The index stays until no local handle has a part of it.
            self.shared.lending.lend(&Lent { index, wakes }, || {
                if ready.send(Ok(())).is_ok() {
                    self.attend(scope, index, walker, waits, wakes);
                }
            });
            self.shared.close();
            for thread in threads {
                // A worker that panicked has failed its operations; the scope need not panic, too.
                if thread.join().is_err() {
                    watch.note_unsettled();
                }
            }
        });
        if self.options.shares_parts && !watch.any_unsettled() {
            parts::give(index, walker, self.seat.node.member().row);
        }
        // A lane that could not be settled may have changed what is given up. Then a sweep of the row finds it.
        if !watch.any_unsettled()
            && let Err(error) = give_up(index, walker)
        {
            tracing::warn!("an index that is closed was not given up: {error}; its row has to be swept");
            watch.note_unsettled();
        }
    }

    /// Executes commands until the session closes. `waits`: a collection is under way.
    fn attend<'scope, 'e: 'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, 'e>,
        index: &'e Watched<'_, impl Index>,
        walker: &'e Mutex<Walker>,
        waits: bool,
        wakes: &Wakes,
    ) {
        let lending = &self.shared.lending;
        let mut closes = false;
        let (keeping, closing) = (Closing::default(), Closing::default());
        if index.has_parts() {
            let closes = Arc::clone(&keeping.0);
            let share = self.options.shares_parts.then(|| self.seat.node.member().row);
            let keep = move || parts::keep(index, walker, &closes, share);
            if let Err(error) = thread::Builder::new().name("dm-keep".to_owned()).spawn_scoped(scope, keep) {
                tracing::warn!("starting a thread that gives up parts that others ask for: {error}");
            }
        }
        let lease = Duration::from_nanos(self.seat.node.terms().lease_ns());
        let mut collected_at = Instant::now();
        let collecting = Arc::new(AtomicBool::new(false));
        let waits = Arc::new(AtomicBool::new(waits));
        loop {
            // A collection that is under way waits for epochs, which are shorter than leases.
            let due = if waits.load(Ordering::Relaxed) { Duration::ZERO } else { lease };
            if collected_at.elapsed() >= due && !collecting.swap(true, Ordering::Relaxed) {
                collected_at = Instant::now();
                let (collecting, closing, waits) =
                    (Arc::clone(&collecting), Arc::clone(&closing.0), Arc::clone(&waits));
                let collect_orphans = move || {
                    // If a walk has the lane, this is tried again later.
                    if let Ok(mut walker) = walker.try_lock() {
                        let until = Instant::now() + ORPHAN_COLLECTION_MAX;
                        let closes = || closing.load(Ordering::Relaxed);
                        let is_over = || closes() || Instant::now() >= until;
                        let still = go_on(|| collect_orphans(index, &mut walker, &closes), is_over, thread::sleep);
                        waits.store(still, Ordering::Relaxed);
                    }
                    collecting.store(false, Ordering::Relaxed);
                };
                if let Err(error) =
                    thread::Builder::new().name("dm-collect".to_owned()).spawn_scoped(scope, collect_orphans)
                {
                    tracing::warn!("starting a thread that collects orphans: {error}");
                }
            }
            let command = if closes {
                // Nobody has anything to ask for any more, but local handles may be at work.
                if lending.wait(TICK) == 0 {
                    return;
                }
                Err(RecvTimeoutError::Timeout)
            } else {
                self.commands.recv_timeout(TICK)
            };
            match command {
                Ok(Command::Validate(answer)) => {
                    let walk = move || {
                        let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
                        // If the receiver is gone, the caller does not wait any more.
                        let _ = answer.send(walk(index, &mut walker));
                    };
                    // If no thread can be started, the answer's sender is dropped with the closure, which the caller
                    // notices.
                    let walk = thread::Builder::new().name("dm-validate".to_owned()).spawn_scoped(scope, walk);
                    if let Err(error) = walk {
                        tracing::warn!("starting a thread to validate an index: {error}");
                    }
                }
                Ok(Command::Move(what, answer)) => {
                    let me = self.seat.node.member().row;
                    let moves = move || {
                        let _ = answer.send(parts::ask(index, walker, me, what));
                    };
                    if let Err(error) = thread::Builder::new().name("dm-move".to_owned()).spawn_scoped(scope, moves) {
                        tracing::warn!("starting a thread to move a part of the keys: {error}");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Command::Close) | Err(RecvTimeoutError::Disconnected) => {
                    self.shared.close();
                    closes = true;
                }
            }
            self.publish(index);
            if index.watch.any_parked() {
                for lane in 0..self.options.lanes() - 1 {
                    wakes.wake(LaneId((self.seat.first_lane + lane) as u16));
                }
            }
        }
    }

    fn publish(&self, index: &impl Index) {
        let (used, budget) = index.cache_bytes();
        self.shared.cache_used.store(used, Ordering::Relaxed);
        self.shared.cache_budget.store(budget, Ordering::Relaxed);
    }
}

/// Runs one worker to its end.
fn work(
    index: &Watched<'_, impl Index>,
    mut fabric: AnyFabric,
    queue: &Queue,
    first: LaneId,
    lanes: usize,
    spin: Duration,
    wakes: &Wakes,
) {
    // First: whatever fails below, queued calls do not wait for ever.
    let mut work = QueueWork::new(queue, lanes, spin, index);
    // Zeroed by this thread, so that the memory is near its processor.
    let mut scratch = vec![0; index.plan().total_bytes * lanes];
    let lanes = lanes_of(index, first, &mut scratch);
    match worker::run(index, &lanes, &mut fabric, &mut work, wakes) {
        Ok(()) => work.end = End::Closed,
        Err(WorkerError::Broken { last }) => {
            tracing::error!("worker of lanes {} and up stopped: {last}", first.0);
            work.end = End::Broken(last);
        }
    }
}

/// The index, for local handles.
struct Lent<'x, 'i, I> {
    index: &'x Watched<'i, I>,
    wakes: &'x Wakes,
}

impl<I: Index + Sync> Host for Lent<'_, '_, I> {
    fn drive<'h>(
        &'h self,
        first: LaneId,
        lanes: usize,
        mut fabric: AnyFabric,
        work: LocalWork<'h>,
    ) -> Pin<Box<dyn Future<Output = WorkerError> + 'h>> {
        Box::pin(async move {
            let mut work = work.packing_for(self.index);
            let mut scratch = vec![0; self.index.plan().total_bytes * lanes];
            let lanes = lanes_of(self.index, first, &mut scratch);
            worker::attend(self.index, &lanes, &mut fabric, &mut work, self.wakes).await
        })
    }

    fn note_unsettled(&self) {
        self.index.watch.note_unsettled();
    }
}

fn walk(index: &Watched<'_, impl Index>, walker: &mut Walker) -> Result<Census, SessionError> {
    walker.run(index, async |lane| index.validate(lane).await?.at_rest()).map_err(SessionError::Operation)
}

/// Gives up what only this compute node has of the index. No lane but the walker's is left. If it fails, others must not take
/// the row for one that has left nothing: something in the pool may still name it.
fn give_up(index: &Watched<'_, impl Index>, walker: &Mutex<Walker>) -> Result<(), OpError> {
    let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
    walker.run(index, async |lane| index.leave(lane).await)
}

/// Collects what departed compute nodes have left, if anything. After a failure the next lease tries again.
fn collect_orphans(index: &Watched<'_, impl Index>, walker: &mut Walker, stop: &dyn Fn() -> bool) -> CollectedOrphans {
    let Walker { fabric, scratch, id } = walker;
    let lane = index.lane(*id, scratch);
    let collected_orphans = collect_on(index, fabric, &lane, stop).unwrap_or_else(|error| {
        tracing::debug!("collecting memory: {error}");
        CollectedOrphans::default()
    });
    if collected_orphans.chunks > 0 || collected_orphans.bytes > 0 {
        tracing::info!(
            "collected {} chunks of departed compute nodes; {} bytes are free again",
            collected_orphans.chunks,
            collected_orphans.bytes
        );
    }
    collected_orphans
}

/// Collects, and continues while a collection waits, until its time is over. Returns whether a collection still waits:
/// no other compute node can collect until this one has continued it.
fn go_on(
    mut collect_orphans: impl FnMut() -> CollectedOrphans,
    is_over: impl Fn() -> bool,
    mut pause: impl FnMut(Duration),
) -> bool {
    loop {
        if !collect_orphans().waits {
            return false;
        }
        if is_over() {
            return true;
        }
        pause(COLLECTION_PAUSE);
    }
}

/// Ties the lane's lifetime to the fabric's. A collection keeps no session from opening for long, and none from
/// closing: it is dropped between two submits. It continues soon where it was, since it may have chunks in its
/// collection set, and no other compute node collects meanwhile.
fn collect_on(
    index: &Watched<'_, impl Index>,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<CollectedOrphans, OpError> {
    let mut orphan_collection = Box::pin(index.collect_orphans(lane));
    let until_closing = poll_fn(|context| {
        if stop() {
            return Poll::Ready(Ok(CollectedOrphans { waits: true, ..CollectedOrphans::default() }));
        }
        orphan_collection.as_mut().poll(context)
    });
    let collected_orphans = block_on(fabric, lane, until_closing);
    drop(orphan_collection);
    if lane.in_doubt() {
        block_on(fabric, lane, index.settle(lane))?;
    }
    collected_orphans
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A collection that waits `epochs` times, in a time that is over after `pauses`. Returns the calls, and whether it
    /// still waits.
    fn first(epochs: u32, pauses: u32) -> (u32, bool) {
        let (calls, paused) = (Cell::new(0), Cell::new(0));
        let collect_orphans = || {
            calls.set(calls.get() + 1);
            CollectedOrphans { waits: calls.get() <= epochs, ..CollectedOrphans::default() }
        };
        let waits = go_on(collect_orphans, || paused.get() >= pauses, |_| paused.set(paused.get() + 1));
        (calls.get(), waits)
    }

    #[test]
    fn a_session_that_opens_goes_on_with_a_collection_before_it_serves() {
        assert_eq!(first(0, 100), (1, false), "nothing to wait for");
        assert_eq!(first(4, 100), (5, false), "two epochs each of two collections");
        assert_eq!(first(u32::MAX, 100), (101, true), "an index too large for the time: it is gone on with at once");
        assert_eq!(first(u32::MAX, 0), (1, true));
    }
}
