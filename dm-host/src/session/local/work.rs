//! What a local handle and its lanes pass each other: operations, and their results.

use super::super::Shared;
use super::super::error::SessionError;
use super::super::packs::{LOOKED_AT_MAX, Owners, Packer, hand_out};
use super::super::queue::Body;
use crate::worker::{CallEnded, Finished, Next, Work};
use dm_core::index::forward::pack::Pack;
use dm_core::operation::{Operation, ScratchPlan};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// An operation: which of its call's operations it is, its arguments, and then its result.
pub(super) type Job = (usize, Box<Body>);

/// Operations on their way. A job is at one place at a time.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// And whether they may go to their owner with others.
    pub(super) queued: VecDeque<(Job, bool)>,
    /// By lane: one, or those that went to their owner together.
    running: Vec<Vec<Job>>,
    pub(super) ended: Vec<Job>,
    /// Bodies for further jobs.
    #[expect(clippy::vec_box, reason = "a body stays in its box wherever it goes")]
    pub(super) spare: Vec<Box<Body>>,
}

impl Jobs {
    /// Forgets what is on its way, after a panic.
    pub(super) fn clear(&mut self) {
        self.queued.clear();
        self.running.iter_mut().for_each(Vec::clear);
        self.ended.clear();
    }
}

/// The handle's operations as its lanes see them.
pub(in crate::session) struct LocalWork<'o> {
    /// `None`: no operations are packed.
    owners: Option<&'o dyn Owners>,
    jobs: Rc<RefCell<Jobs>>,
    shared: Arc<Shared>,
    /// Which handle of the session it is.
    place: usize,
}

impl LocalWork<'static> {
    pub(super) fn new(jobs: Rc<RefCell<Jobs>>, shared: Arc<Shared>, place: usize, lanes: usize) -> Self {
        jobs.borrow_mut().running.resize_with(lanes, Vec::new);
        Self { owners: None, jobs, shared, place }
    }
}

impl<'o> LocalWork<'o> {
    /// The same, with who owns keys.
    pub(in crate::session) fn packing_for(self, owners: &'o dyn Owners) -> Self {
        Self { owners: Some(owners), ..self }
    }

    /// Packs the job, which is next, with others that are queued. `None`: it goes alone.
    fn pack(&self, (jobs, lane): (&mut Jobs, usize), scratch: &mut [u8], plan: &ScratchPlan) -> Option<Pack> {
        let Jobs { queued, running, .. } = jobs;
        let running = &mut running[lane];
        let ((_, first), may_pack) = queued.front()?;
        if !may_pack || queued.len() < 2 {
            return None;
        }
        let mut packer = Packer::new(self.owners?, first.operation.kind, &first.key)?;
        let (mut left, mut is_full) = (0, false);
        for _ in 0..queued.len().min(LOOKED_AT_MAX + 1) {
            let Some(((number, mut body), may_pack)) = queued.pop_front() else { break };
            let may_be_added = may_pack && !is_full && packer.is_for(&body.key);
            if may_be_added && let Ok(operation) = body.load(scratch, plan) {
                if packer.add(&operation, plan, scratch) {
                    body.operation = operation;
                    running.push((number, body));
                    continue;
                }
                is_full = true;
            }
            queued.push_back(((number, body), may_pack));
            left += 1;
        }
        queued.rotate_right(left);
        let pack = packer.finish(plan, scratch);
        if pack.is_none() {
            running.drain(..).for_each(|job| queued.push_front((job, false)));
        }
        pack
    }

    /// Takes what an operation came to.
    fn end(&self, jobs: &mut Jobs, (number, mut body): Job, finished: &Finished<'_>) {
        self.shared.sums_of_handles[self.place].count(finished);
        body.store(finished);
        body.result = finished.result.map_err(SessionError::Operation);
        jobs.ended.push((number, body));
    }
}

impl Work for LocalWork<'_> {
    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let mut jobs = self.jobs.borrow_mut();
        if let Some(pack) = self.pack((&mut jobs, lane), scratch, plan) {
            return Next::Call(pack);
        }
        while let Some(((number, mut body), _)) = jobs.queued.pop_front() {
            match body.load(scratch, plan) {
                Ok(operation) => {
                    jobs.running[lane].push((number, body));
                    return Next::Run(operation);
                }
                Err(error) => {
                    body.result = Err(error);
                    jobs.ended.push((number, body));
                }
            }
        }
        Next::Wait
    }

    fn done(&mut self, lane: usize, finished: Finished<'_>) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs.running[lane].pop() else { return };
        self.end(&mut jobs, job, &finished);
    }

    fn called(&mut self, lane: usize, ended: CallEnded<'_>) {
        let mut jobs = self.jobs.borrow_mut();
        let sums = &self.shared.sums_of_handles[self.place];
        let mut running: Vec<Option<Job>> = jobs.running[lane].drain(..).map(Some).collect();
        let asked: Vec<Operation> = running.iter().flatten().map(|(_, body)| body.operation).collect();
        if let Some(first) = asked.first() {
            sums.count_pack(first.kind, ended.pack.count(), &ended.cost);
        }
        hand_out(
            ended,
            |place| asked[place],
            |place, finished| {
                let Some(job) = running[place].take() else { return };
                if let Some(finished) = finished {
                    self.end(&mut jobs, job, &finished);
                } else {
                    sums.count_not_begun();
                    jobs.queued.push_front((job, false));
                }
            },
        );
    }

    fn comes_alone(&self) -> bool {
        self.jobs.borrow().queued.len() == 1
    }
}
