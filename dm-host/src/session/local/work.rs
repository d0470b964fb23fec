//! What a local handle and its lanes pass each other: operations, and their results.

use super::super::Shared;
use super::super::error::SessionError;
use super::super::queue::Body;
use crate::worker::{Finished, Next, Work};
use dm_core::operation::ScratchPlan;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// An operation: which of its call's operations it is, its arguments, and then its result.
pub(super) type Job = (usize, Box<Body>);

/// Operations on their way. A job is at one place at a time.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) queued: VecDeque<Job>,
    /// By lane.
    running: Vec<Option<Job>>,
    pub(super) ended: Vec<Job>,
    /// Bodies for further jobs.
    #[expect(clippy::vec_box, reason = "a body stays in its box wherever it goes")]
    pub(super) spare: Vec<Box<Body>>,
}

impl Jobs {
    /// Forgets what is on its way, after a panic.
    pub(super) fn clear(&mut self) {
        self.queued.clear();
        self.running.iter_mut().for_each(|job| *job = None);
        self.ended.clear();
    }
}

/// The handle's operations as its lanes see them.
pub(in crate::session) struct LocalWork {
    jobs: Rc<RefCell<Jobs>>,
    shared: Arc<Shared>,
    /// Which handle of the session it is.
    place: usize,
}

impl LocalWork {
    pub(super) fn new(jobs: Rc<RefCell<Jobs>>, shared: Arc<Shared>, place: usize, lanes: usize) -> Self {
        jobs.borrow_mut().running.resize_with(lanes, || None);
        Self { jobs, shared, place }
    }
}

impl Work for LocalWork {
    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let mut jobs = self.jobs.borrow_mut();
        while let Some((number, mut body)) = jobs.queued.pop_front() {
            match body.load(scratch, plan) {
                Ok(operation) => {
                    jobs.running[lane] = Some((number, body));
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
        self.shared.sums_of_handles[self.place].count(&finished);
        let mut jobs = self.jobs.borrow_mut();
        let Some((number, mut body)) = jobs.running[lane].take() else { return };
        body.store(&finished);
        body.result = finished.result.map_err(SessionError::Operation);
        jobs.ended.push((number, body));
    }

    fn comes_alone(&self) -> bool {
        self.jobs.borrow().queued.len() == 1
    }
}
