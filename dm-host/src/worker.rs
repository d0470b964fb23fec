//! A worker: one thread that drives some lanes over its own fabric.
//!
//! Each lane runs one operation at a time. The worker polls the operation's future, handles the lane's local requests
//! (pause, park, wake), posts its requests to memory nodes, and polls the future again when the completions have
//! arrived. Futures live in slots that are made once; no memory is allocated per operation.
//!
//! [`Window`] limits how many operations are in flight: fewer at a time while memory nodes answer too late.
//!
//! [`Work`] supplies the next operation and receives the results: a load generator, or the queue of a session.
//!
//! [`run`] takes a thread of its own. `attend` does the same as a future, for a thread that does other things between
//! operations: it is polled while there are operations, and is pending with all lanes idle.

mod wakes;
mod work;

pub use wakes::Wakes;
use work::Retries;
pub use work::{CallEnded, Cost, Finished, Next, RETRIES, Work};

use crate::clock::{Clock, Stamp, lease_us};
use crate::fetch;
use dm_core::compute::window::Window;
use dm_core::fabric::{Fabric, Posted};
use dm_core::index::Index;
use dm_core::index::forward::pack::{Called, Pack};
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::operation::{OpError, Operation, Outcome};
use dm_core::port::Fetch;
use dm_core::verbs::{LaneId, Verb};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Why a worker stopped before its work was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// What a failed operation left behind could not be settled on any lane of the worker.
    #[error("no lane of this worker can go on: {last}")]
    Broken {
        /// Why the last lane could not.
        last: OpError,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No operation.
    Idle,
    /// Its future can be polled.
    Ready,
    /// The fabric has its requests.
    InFlight,
    /// Paused: since this stamp, for so many nanoseconds.
    Paused(Stamp, u64),
    /// Parked: until it is woken, or since this stamp for so many nanoseconds.
    Parked(Stamp, u64),
    /// No more operations.
    Finished,
    /// It could not be settled.
    Broken,
}

/// The future of a call. It is allocated, once for many operations, and keeps slots small.
type Calling<'i> = Pin<Box<dyn Future<Output = Called> + 'i>>;

/// The future that settles a lane. It is allocated, since settling is rare.
type Settling<'i> = Pin<Box<dyn Future<Output = Result<(), OpError>> + 'i>>;

struct Slot<'i, F> {
    state: State,
    future: Pin<Box<Option<F>>>,
    settling: Option<Settling<'i>>,
    calling: Option<(Pack, Calling<'i>)>,
    operation: Operation,
    started: Stamp,
    cost: Cost,
    /// Retries of the lane before its present operation.
    retries: Retries,
    /// How many of these are READs that took too long.
    refusals: u32,
}

impl<F> Slot<'_, F> {
    /// Its requests have completed.
    #[inline]
    fn answered(&mut self, window: &mut Window) {
        if self.state == State::InFlight {
            window.answer();
        }
        self.state = State::Ready;
    }
}

/// Runs lanes until all are finished.
pub fn run<'i, 'm, I: Index, F: Fabric<'m>, W: Work>(
    index: &'i I,
    lanes: &'i [Lane<'m>],
    fabric: &mut F,
    work: &mut W,
    wakes: &Wakes,
) -> Result<(), WorkerError> {
    let start = |lane: &'i Lane<'m>, operation| index.execute(lane, operation);
    let mut worker = Worker::new(index, lanes, fabric, work, wakes);
    // A lane that is alone has no other lane to run while lines arrive.
    worker.set_fetch((lanes.len() > 1).then_some(fetch::word as Fetch));
    let ended = worker.run(start);
    worker.set_fetch(None);
    ended
}

/// As [`run`], on a thread that does other things, too: pending whenever no lane has anything to do. The caller polls it
/// on one thread, and again when it has operations. It ends only when no lane can go on.
///
/// Between operations no lane has a request in flight, a lock, a pin of an epoch, or anything to settle: a lane is idle
/// only after it was settled. So nobody waits for a caller that does not come back.
pub(crate) async fn attend<'i, 'm, I: Index, F: Fabric<'m>, W: Work>(
    index: &'i I,
    lanes: &'i [Lane<'m>],
    fabric: &mut F,
    work: &mut W,
    wakes: &Wakes,
) -> WorkerError {
    let start = |lane: &'i Lane<'m>, operation| index.execute(lane, operation);
    let mut worker = Worker::new(index, lanes, fabric, work, wakes);
    worker.set_fetch((lanes.len() > 1).then_some(fetch::word as Fetch));
    loop {
        if let Some(ended) = worker.broken() {
            return ended;
        }
        let alone = worker.work.comes_alone() && worker.is_idle(0);
        let progress = if alone { worker.pass_alone(&start) } else { worker.pass(&start) };
        if worker.is_quiet() && !worker.has_more() {
            let mut yielded = false;
            poll_fn(|_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        } else if !progress {
            worker.rest();
        }
    }
}

struct Worker<'w, 'i, 'm, I, F, W, Fut> {
    index: &'i I,
    lanes: &'i [Lane<'m>],
    fabric: &'w mut F,
    work: &'w mut W,
    wakes: &'w Wakes,
    slots: Vec<Slot<'i, Fut>>,
    window: Window,
    clock: Clock,
    last: Option<OpError>,
}

impl<'w, 'i, 'm, I, F, W, Fut> Worker<'w, 'i, 'm, I, F, W, Fut>
where
    I: Index,
    F: Fabric<'m>,
    W: Work,
    Fut: Future<Output = Result<Outcome, OpError>>,
{
    fn new(index: &'i I, lanes: &'i [Lane<'m>], fabric: &'w mut F, work: &'w mut W, wakes: &'w Wakes) -> Self {
        if let Some(first) = lanes.first() {
            wakes.register(first.id());
        }
        for lane in lanes {
            lane.port().set_clock(Some(lease_us));
        }
        let slot = |_| Slot {
            state: State::Idle,
            future: Box::pin(None),
            settling: None,
            calling: None,
            operation: Operation::scan(0),
            started: Clock::get().before(),
            cost: Cost::default(),
            retries: Retries::default(),
            refusals: 0,
        };
        let slots = lanes.iter().map(slot).collect();
        let window = Window::new(lanes.len() as u32);
        Self { index, lanes, fabric, work, wakes, slots, window, clock: Clock::get(), last: None }
    }

    fn set_fetch(&self, fetch: Option<Fetch>) {
        for lane in self.lanes {
            lane.port().set_fetch(fetch);
        }
    }

    fn run(&mut self, start: impl Fn(&'i Lane<'m>, Operation) -> Fut) -> Result<(), WorkerError> {
        loop {
            if !self.pass(&start) && self.rest() {
                return self.broken().map_or(Ok(()), Err);
            }
        }
    }

    /// The error of a worker whose lanes are all broken.
    fn broken(&self) -> Option<WorkerError> {
        let last = self.last?;
        self.slots.iter().all(|slot| slot.state == State::Broken).then_some(WorkerError::Broken { last })
    }

    /// Whether the lane at position `at` has nothing to do.
    fn is_idle(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.state == State::Idle)
    }

    /// Whether an idle lane goes on.
    fn has_more(&self) -> bool {
        (0..self.lanes.len()).any(|at| self.is_idle(at) && self.work.has_more(at))
    }

    /// Whether no lane has anything to do.
    fn is_quiet(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, State::Idle | State::Finished | State::Broken))
    }

    /// Lets every lane go as far as it can. `false`: none could do anything.
    fn pass(&mut self, start: &impl Fn(&'i Lane<'m>, Operation) -> Fut) -> bool {
        let mut progress = false;
        for at in 0..self.lanes.len() {
            progress |= self.turn(at, start);
        }
        progress | self.poll()
    }

    /// As [`Worker::pass`], where all lanes are idle and there is one operation: begins it on the first lane.
    fn pass_alone(&mut self, start: &impl Fn(&'i Lane<'m>, Operation) -> Fut) -> bool {
        let port = self.lanes[0].port();
        let fetch = port.fetch();
        port.set_fetch(None);
        let progress = self.turn(0, start);
        port.set_fetch(fetch);
        progress | self.poll()
    }

    /// Takes what has completed. `false`: nothing has.
    fn poll(&mut self) -> bool {
        let mut progress = false;
        let (slots, window) = (&mut self.slots, &mut self.window);
        self.fabric.poll(self.lanes, &mut |lane| {
            if let Some(slot) = slots.get_mut(lane) {
                slot.answered(window);
                progress = true;
            }
        });
        progress
    }

    /// Lets one lane go as far as it can. `false`: it could do nothing.
    fn turn(&mut self, at: usize, start: &impl Fn(&'i Lane<'m>, Operation) -> Fut) -> bool {
        let lane = &self.lanes[at];
        let slot = &mut self.slots[at];
        match slot.state {
            State::Ready => self.advance(at),
            State::Idle if !self.window.is_open() => return false,
            State::Idle => {
                let plan = self.index.plan();
                let next = lane.port().with(|scratch| self.work.next(at, scratch, plan));
                if let Next::Run(_) | Next::Call(_) = next {
                    lane.port().start();
                    slot.cost = Cost::default();
                    slot.retries.catch_up(lane);
                    if W::TIMED {
                        slot.started = self.clock.before();
                    }
                }
                match next {
                    Next::Run(operation) => {
                        slot.operation = operation;
                        slot.future.set(Some(start(lane, operation)));
                        if self.index.ask_ahead(lane) {
                            // The other lanes run while lines come to the processor.
                            slot.state = State::Ready;
                        } else {
                            self.advance(at);
                        }
                    }
                    Next::Call(pack) => {
                        slot.calling = Some((pack, Box::pin(pack.call(lane))));
                        self.advance(at);
                    }
                    Next::Wait => return false,
                    Next::Finished => slot.state = State::Finished,
                }
            }
            State::Paused(since, ns) => {
                let waited_ns = self.clock.ns_between(since, self.clock.before());
                if waited_ns < ns {
                    return false;
                }
                Self::resume(lane, waited_ns);
                self.advance(at);
            }
            State::Parked(since, ns) => {
                let waited_ns = self.clock.ns_between(since, self.clock.before());
                if !self.wakes.take(lane.id()) && waited_ns < ns {
                    return false;
                }
                Self::resume(lane, waited_ns);
                self.advance(at);
            }
            State::InFlight | State::Finished | State::Broken => return false,
        }
        true
    }

    /// Ends a submit of local requests.
    fn resume(lane: &Lane<'m>, waited_ns: u64) {
        if let Some(scratch) = lane.port().begin() {
            lane.port().finish(scratch, waited_ns);
        }
    }

    /// Polls a lane until it waits for something or its operation is done.
    fn advance(&mut self, at: usize) {
        let lane = &self.lanes[at];
        let port = lane.port();
        loop {
            let slot = &mut self.slots[at];
            let step = if let Some(settling) = &mut slot.settling {
                match poll_once(port, settling.as_mut()) {
                    Step::Done(result) => {
                        slot.settling = None;
                        slot.state = match result {
                            Ok(()) => State::Idle,
                            Err(error) => {
                                self.last = Some(error);
                                State::Broken
                            }
                        };
                        self.flush(at);
                        return;
                    }
                    Step::Requests => Step::Requests,
                    Step::Waiting => Step::Waiting,
                }
            } else if let Some((pack, calling)) = &mut slot.calling {
                match poll_once(port, calling.as_mut()) {
                    Step::Done(called) => {
                        let pack = *pack;
                        slot.calling = None;
                        self.called(at, pack, called);
                        if self.slots[at].settling.is_none() {
                            return;
                        }
                        continue;
                    }
                    Step::Requests => Step::Requests,
                    Step::Waiting => Step::Waiting,
                }
            } else {
                let Some(future) = slot.future.as_mut().as_pin_mut() else { return };
                poll_once(port, future)
            };
            match step {
                Step::Requests => {
                    if let Some(state) = self.submit(at) {
                        self.slots[at].state = state;
                        if state == State::InFlight {
                            self.window.post();
                        }
                        return;
                    }
                }
                Step::Waiting => {
                    // Lines that it has prefetched are on their way.
                    self.slots[at].state = State::Ready;
                    return;
                }
                Step::Done(result) => {
                    self.finish(at, result);
                    if self.slots[at].settling.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Handles a lane's local requests and posts the others. `None`: the submit is done already, poll again.
    fn submit(&mut self, at: usize) -> Option<State> {
        let lane = &self.lanes[at];
        let slot = &mut self.slots[at];
        let mut wait = None;
        let mut travels = false;
        let requests = lane.port().requests();
        self.work.posting(at, &requests);
        for request in requests.iter() {
            match request.verb {
                Verb::Wake => self.wakes.wake(LaneId(request.operands[0] as u16)),
                Verb::Pause => wait = Some(State::Paused(self.clock.before(), request.operands[0])),
                Verb::Park => wait = Some(State::Parked(self.clock.before(), request.operands[0])),
                verb => {
                    travels = true;
                    slot.cost.requests += 1;
                    let bytes = u64::from(request.bytes);
                    match verb {
                        Verb::Read => slot.cost.bytes_read += bytes,
                        Verb::Write => slot.cost.bytes_written += bytes,
                        _ => {
                            slot.cost.bytes_read += bytes;
                            slot.cost.bytes_written += bytes;
                        }
                    }
                }
            }
        }
        drop(requests);
        if travels {
            slot.cost.round_trips += 1;
            return match self.fabric.post(self.lanes, at) {
                Posted::Completed => None,
                Posted::InFlight => Some(State::InFlight),
            };
        }
        if wait.is_none() {
            Self::resume(lane, 0);
        }
        wait
    }

    /// Reports what a call came to.
    fn called(&mut self, at: usize, pack: Pack, called: Called) {
        let lane = &self.lanes[at];
        let slot = &mut self.slots[at];
        slot.state = State::Idle;
        let latency_ns = if W::TIMED { self.clock.ns_between(slot.started, self.clock.before()) } else { 0 };
        let cost = slot.cost;
        slot.retries.catch_up(lane);
        self.window.end(false);
        lane.port().with(|scratch| {
            let plan = self.index.plan();
            self.work.called(at, CallEnded { pack, called, latency_ns, cost, scratch, plan });
        });
        self.leave(at);
    }

    /// Reports a result.
    fn finish(&mut self, at: usize, result: Result<Outcome, OpError>) {
        let lane = &self.lanes[at];
        let slot = &mut self.slots[at];
        slot.future.set(None);
        slot.state = State::Idle;
        let latency_ns = if W::TIMED { self.clock.ns_between(slot.started, self.clock.before()) } else { 0 };
        let (operation, cost) = (slot.operation, slot.cost);
        let retries = slot.retries.catch_up(lane);
        let refused = retries > 0 && {
            let refusals = lane.marked(Mark::GUARD_REFUSAL);
            std::mem::replace(&mut slot.refusals, refusals) != refusals
        };
        self.window.end(refused);
        lane.port().with(|scratch| {
            let finished = Finished { operation, result, latency_ns, cost, retries, scratch, plan: self.index.plan() };
            self.work.done(at, finished);
        });
        self.leave(at);
    }

    /// Posts what an operation left behind. If it left locks to release, begins to settle the lane.
    fn leave(&mut self, at: usize) {
        let lane = &self.lanes[at];
        self.flush(at);
        if lane.in_doubt() {
            self.slots[at].settling = Some(Box::pin(self.index.settle(lane)));
        }
    }

    /// Posts unsignaled requests that an operation left behind.
    fn flush(&mut self, at: usize) {
        let lane = &self.lanes[at];
        if lane.port().state() == dm_core::port::State::Completed {
            // The operation was dropped at its deadline, before it looked at its last submit.
            lane.port().reset();
        }
        if !lane.port().flush() {
            return;
        }
        if self.submit(at) == Some(State::InFlight) {
            // The lane is not polled until these requests are done.
            while lane.port().state() != dm_core::port::State::Completed {
                let (slots, window) = (&mut self.slots, &mut self.window);
                self.fabric.poll(self.lanes, &mut |ready| {
                    if ready != at
                        && let Some(slot) = slots.get_mut(ready)
                    {
                        slot.answered(window);
                    }
                });
            }
        }
        lane.port().reset();
    }

    /// No lane could do anything: waits for what they wait for. `true`: no lane waits for anything.
    fn rest(&self) -> bool {
        let mut soonest_ns = None;
        let mut open = false;
        let now = self.clock.before();
        for slot in &self.slots {
            match slot.state {
                State::Finished | State::Broken => {}
                // Completions do not unpark the thread, so keep polling.
                State::InFlight | State::Ready => {
                    std::hint::spin_loop();
                    return false;
                }
                State::Paused(since, ns) => {
                    open = true;
                    let left_ns = ns.saturating_sub(self.clock.ns_between(since, now));
                    soonest_ns = Some(soonest_ns.map_or(left_ns, |soonest: u64| soonest.min(left_ns)));
                }
                State::Idle | State::Parked(..) => open = true,
            }
        }
        if !open {
            return true;
        }
        match soonest_ns {
            // Shorter than it takes to sleep and be woken.
            Some(ns) if ns < 50_000 => thread::yield_now(),
            Some(ns) => thread::park_timeout(Duration::from_nanos(ns)),
            // Wakes and new work unpark the thread; the bound is for a wake that was forgotten.
            None => thread::park_timeout(Duration::from_millis(20)),
        }
        false
    }
}
