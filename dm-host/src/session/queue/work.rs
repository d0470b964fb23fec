//! Makes a queue the work of a worker.

use super::{End, Popped, Queue, lock};
use crate::session::error::SessionError;
use crate::session::spin::Spin;
use crate::worker::{Finished, Next, Work};
use dm_core::operation::{Effect, ScratchPlan};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The queue as its worker sees it. When the worker ends, in whatever way, dropping this fails what is left.
pub(in crate::session) struct QueueWork<'q> {
    queue: &'q Queue,
    /// The slot each lane runs.
    running: Vec<Option<u32>>,
    busy: usize,
    /// Before the worker parks.
    spin: Spin,
    /// It has spun that long since the last operation.
    spun: bool,
    /// Why the worker ended; `Panicked` until another reason is set.
    pub(in crate::session) end: End,
}

impl<'q> QueueWork<'q> {
    pub(in crate::session) fn new(queue: &'q Queue, lanes: usize, spin: Duration) -> Self {
        Self { queue, running: vec![None; lanes], busy: 0, spin: Spin::new(spin), spun: false, end: End::Panicked }
    }

    /// Spins for a while, unless lanes are busy.
    fn spin(&mut self) -> bool {
        if self.busy != 0 || self.spun {
            return self.queue.has_news();
        }
        let has_news = self.spin.until(|| self.queue.has_news());
        self.spun = !has_news;
        has_news
    }
}

impl Work for QueueWork<'_> {
    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        loop {
            if !self.queue.has_news() && !self.spin() {
                return Next::Wait;
            }
            match self.queue.pop() {
                Popped::Slot(slot) => {
                    if let Some(operation) = self.queue.begin(slot, scratch, plan) {
                        self.running[lane] = Some(slot);
                        self.busy += 1;
                        self.spun = false;
                        return Next::Run(operation);
                    }
                }
                Popped::Nothing => return Next::Wait,
                Popped::Closed => return Next::Finished,
            }
        }
    }

    fn done(&mut self, lane: usize, finished: Finished<'_>) {
        self.queue.sums.count(&finished);
        let Some(slot) = self.running[lane].take() else { return };
        self.busy -= 1;
        let mut body = lock(&self.queue.slots[slot as usize].body);
        body.store(&finished);
        self.queue.finish(slot, body, finished.result.map_err(SessionError::Operation));
    }
}

impl Drop for QueueWork<'_> {
    fn drop(&mut self) {
        let queue = self.queue;
        let (ready, waiting) = {
            let mut lists = lock(&queue.lists);
            lists.end = Some(self.end);
            queue.open.store(false, Ordering::Relaxed);
            queue.hint.store(0, Ordering::Relaxed);
            (std::mem::take(&mut lists.ready), std::mem::take(&mut lists.waiting))
        };
        for slot in ready {
            queue.fail(slot, self.end.error());
        }
        // Only a worker that panicked leaves operations running.
        for slot in self.running.iter().flatten() {
            queue.fail(*slot, SessionError::Panicked { effect: Effect::Unknown });
        }
        for (_, waiter) in waiting {
            waiter.wake();
        }
    }
}
