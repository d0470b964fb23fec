//! Makes a queue the work of a worker.

use super::{End, Popped, Queue, lock};
use crate::session::error::SessionError;
use crate::session::packs::{Owners, Packer, hand_out};
use crate::session::spin::Spin;
use crate::worker::{CallEnded, Finished, Next, Work};
use dm_core::index::forward::pack::Pack;
use dm_core::operation::{Effect, Operation, ScratchPlan};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The queue as its worker sees it. When the worker ends, in whatever way, dropping this fails what is left.
pub(in crate::session) struct QueueWork<'q> {
    queue: &'q Queue,
    /// Who owns keys.
    owners: &'q dyn Owners,
    /// The slot each lane runs, or those that went to their owner together.
    running: Vec<Vec<(u32, Operation)>>,
    /// Slots of one group that were taken out of the ready list, and are in no message yet.
    gathered: Vec<u32>,
    busy: usize,
    /// Before the worker parks.
    spin: Spin,
    /// It has spun that long since the last operation.
    spun: bool,
    /// Why the worker ended; `Panicked` until another reason is set.
    pub(in crate::session) end: End,
}

impl<'q> QueueWork<'q> {
    pub(in crate::session) fn new(queue: &'q Queue, lanes: usize, spin: Duration, owners: &'q dyn Owners) -> Self {
        let (running, gathered, spin) = (vec![Vec::new(); lanes], Vec::new(), Spin::new(spin));
        Self { queue, owners, running, gathered, busy: 0, spin, spun: false, end: End::Panicked }
    }

    /// Begins the operation in `slot` together with others of its group that have the same owner. `None`: it goes alone.
    fn pack(&mut self, lane: usize, slot: u32, group: u64, scratch: &mut [u8], plan: &ScratchPlan) -> Option<Pack> {
        let queue = self.queue;
        let mut packer = {
            let body = lock(&queue.slots[slot as usize].body);
            Packer::new(self.owners, body.operation.kind, &body.key)?
        };
        queue.gather(group, &mut self.gathered);
        let running = &mut self.running[lane];
        if !self.gathered.is_empty()
            && let Some(operation) = queue.begin_packed(slot, &mut packer, scratch, plan)
        {
            running.push((slot, operation));
            self.gathered.retain(|slot| {
                let added = queue.begin_packed(*slot, &mut packer, scratch, plan);
                running.extend(added.map(|operation| (*slot, operation)));
                added.is_none()
            });
        }
        queue.put_back(self.gathered.drain(..), group);
        let pack = packer.finish(plan, scratch);
        if pack.is_none() {
            // Its arguments are loaded again.
            running.drain(..).for_each(|(slot, _)| queue.requeue(slot));
        }
        pack
    }

    /// Takes what an operation came to.
    fn finish(&self, slot: u32, finished: &Finished<'_>) {
        self.queue.sums.count(finished);
        let mut body = lock(&self.queue.slots[slot as usize].body);
        body.store(finished);
        self.queue.finish(slot, body, finished.result.map_err(SessionError::Operation));
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
                Popped::Slot(slot, group) => {
                    if group != 0
                        && let Some(pack) = self.pack(lane, slot, group, scratch, plan)
                    {
                        self.busy += 1;
                        self.spun = false;
                        return Next::Call(pack);
                    }
                    if let Some(operation) = self.queue.begin(slot, scratch, plan) {
                        self.running[lane].push((slot, operation));
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
        let Some((slot, _)) = self.running[lane].pop() else { return };
        self.busy -= 1;
        self.finish(slot, &finished);
    }

    fn called(&mut self, lane: usize, ended: CallEnded<'_>) {
        self.busy -= 1;
        let (queue, running) = (self.queue, std::mem::take(&mut self.running[lane]));
        if let Some((_, first)) = running.first() {
            queue.sums.count_pack(first.kind, ended.pack.count(), &ended.cost);
        }
        let mut not_begun = Vec::new();
        hand_out(
            ended,
            |place| running[place].1,
            |place, finished| {
                let (slot, _) = running[place];
                if let Some(finished) = finished {
                    self.finish(slot, &finished);
                } else {
                    queue.sums.count_not_begun();
                    queue.requeue(slot);
                    not_begun.push(slot);
                }
            },
        );
        // Each alone. Without any, the worker looks at the list when it is told to: the caller may be filling it again.
        if !not_begun.is_empty() {
            queue.put_back(not_begun.into_iter(), 0);
        }
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
        for slot in ready.into_iter().map(|(slot, _)| slot).chain(self.gathered.drain(..)) {
            queue.fail(slot, self.end.error());
        }
        // Only a worker that panicked leaves operations running.
        for (slot, _) in self.running.iter().flatten() {
            queue.fail(*slot, SessionError::Panicked { effect: Effect::Unknown });
        }
        for (_, waiter) in waiting {
            waiter.wake();
        }
    }
}
