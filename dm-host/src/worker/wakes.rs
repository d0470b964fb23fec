//! Wakes of lanes that are parked.

use dm_core::verbs::LaneId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::{self, Thread};

/// Wakes lanes of a compute node across its workers. A wake that comes before the park is kept.
#[derive(Debug)]
pub struct Wakes {
    tokens: Vec<AtomicBool>,
    lanes_per_worker: usize,
    /// The lane of the first token.
    first: usize,
    /// Who drives the lanes. A thread that drives lanes for a while registers and unregisters, so this is a lock; nobody
    /// holds it while it waits for anything.
    threads: Vec<RwLock<Option<Thread>>>,
}

impl Wakes {
    /// For `workers` workers of `lanes_per_worker` lanes; lane `l` belongs to worker `l / lanes_per_worker`.
    pub fn new(workers: usize, lanes_per_worker: usize) -> Self {
        Self {
            tokens: (0..workers * lanes_per_worker).map(|_| AtomicBool::new(false)).collect(),
            lanes_per_worker,
            first: 0,
            threads: (0..workers).map(|_| RwLock::default()).collect(),
        }
    }

    /// The same for lanes that are numbered from `first` on.
    #[must_use]
    pub fn from_lane(self, first: usize) -> Self {
        Self { first, ..self }
    }

    fn at(&self, lane: LaneId) -> Option<usize> {
        usize::from(lane.0).checked_sub(self.first)
    }

    fn slot(&self, lane: LaneId) -> Option<&RwLock<Option<Thread>>> {
        self.threads.get(self.at(lane)? / self.lanes_per_worker.max(1))
    }

    /// Registers the calling thread as the one that drives `lane`, and the other lanes of its worker.
    pub(super) fn register(&self, lane: LaneId) {
        if let Some(slot) = self.slot(lane) {
            *slot.write().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        }
    }

    /// Wakes `lane` from its park, or from its next one.
    pub fn wake(&self, lane: LaneId) {
        let Some(token) = self.at(lane).and_then(|at| self.tokens.get(at)) else { return };
        // Release: what the waking lane did before is visible to the woken one, which takes the token with Acquire.
        token.store(true, Ordering::Release);
        let Some(slot) = self.slot(lane) else { return };
        let worker = slot.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = &*worker
            && worker.id() != thread::current().id()
        {
            worker.unpark();
        }
    }

    pub(super) fn take(&self, lane: LaneId) -> bool {
        self.at(lane).and_then(|at| self.tokens.get(at)).is_some_and(|token| {
            // A plain load first: if there is no token, this needs no exclusive access to its line.
            token.load(Ordering::Relaxed) && token.swap(false, Ordering::Acquire)
        })
    }
}
