//! Keeps lanes busy, and tells a recorder about invocations and responses.

use crate::driver::{Driver, Event, LaneAt, Op, Stuck};

/// Operations for lanes, and what becomes of them: where a history recorder sits.
pub trait Workload<'a, T> {
    /// The lane is free: its next operation, invoked now, or `None` if it has had its share.
    fn invoke(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, T>>;

    /// The operation responded.
    fn respond(&mut self, at: LaneAt, now_ns: u64, result: T);

    /// The future of this lane was dropped and its requests are complete: what to run before the next operation,
    /// usually `settle`, whose end is reported by [`Workload::respond`].
    fn abandoned(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, T>> {
        let _ = (at, now_ns);
        None
    }

    /// Whether the caller of [`run_workload`] has to do something before the next step.
    fn pauses(&self) -> bool {
        false
    }

    /// Called before every step: where to disturb.
    fn before_step(&mut self, driver: &mut Driver<'a, '_, T>) {
        let _ = driver;
    }
}

/// Keeps every lane busy until the workload has no more, then runs on until all is quiet. If the workload pauses, the caller
/// calls again.
pub fn run_workload<'a, T, W: Workload<'a, T>>(driver: &mut Driver<'a, '_, T>, workload: &mut W) -> Result<(), Stuck> {
    let mut hungry: Vec<LaneAt> = driver.lanes().filter(|at| driver.has_ended(*at)).collect();
    loop {
        hungry.retain(|&at| {
            if !driver.is_idle(at) {
                return true;
            }
            if let Some(op) = workload.invoke(at, driver.now_ns()) {
                driver.spawn(at, op);
            }
            false
        });
        workload.before_step(driver);
        match driver.step()? {
            Event::Progress => {}
            Event::Done { at, now_ns, result } => {
                workload.respond(at, now_ns, result);
                if workload.pauses() {
                    return Ok(());
                }
                hungry.push(at);
            }
            Event::Abandoned { at, now_ns } => match workload.abandoned(at, now_ns) {
                Some(op) => driver.spawn(at, op),
                None => hungry.push(at),
            },
            Event::Quiet => return Ok(()),
        }
    }
}
