//! Threads and lanes in virtual time: what [`dm_host::worker`] is in real time.
//!
//! A thread does one thing at a time: it starts an operation, or goes on with one whose answers are there, or posts.
//! Its lanes take turns in the order in which they became ready. The same [`Work`] that feeds a real worker feeds
//! these, here one for all threads: lanes are numbered across all compute nodes.
//!
//! How long a lane may stay parked is not looked at: a lane that is not woken is a deadlock, and reported as one.

use super::PS_PER_NS;
use super::cluster::{Cluster, ClusterEvent};
use super::nic::ps;
use super::usage::Snapshot;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::operation::{OpError, Operation, Outcome};
use dm_core::verbs::{Completion, Flags, Verb};
use dm_host::worker::{Cost, Finished, Next, RETRIES, Work};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use thiserror::Error;

/// How long a lane waits that has nothing to do yet, in ns.
const IDLE_NS: u64 = 1_000;

/// Why they cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// An operation failed and may have left a lock held: others would wait for it.
    #[error("an operation failed and left locks in doubt: {0}")]
    InDoubt(OpError),
    /// Nothing will ever happen, and lanes wait.
    #[error("deadlock at {now_ns} ns: {waiting} lanes wait, and nothing is under way")]
    Deadlock {
        /// When.
        now_ns: u64,
        /// How many.
        waiting: usize,
    },
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until so many operations are done, all in all.
    Operations(u64),
    /// Until every lane has finished.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No operation.
    Idle,
    /// To be polled by its thread.
    Ready,
    /// Its requests are under way.
    InFlight,
    Paused,
    Parked,
    /// Its operation is done; requests that it does not wait for are under way.
    Draining,
    Finished,
}

struct Slot<F> {
    state: State,
    /// Its thread, of all compute nodes' threads.
    thread: u32,
    compute_node: u32,
    future: Pin<Box<Option<F>>>,
    operation: Operation,
    started_ps: u64,
    submitted_ps: u64,
    cost: Cost,
    retries: u32,
    /// What its thread will have to do when it goes on.
    next_ps: u64,
    /// A wake that came before the park.
    token: bool,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    ready: VecDeque<u32>,
    /// Until then it posts.
    free_ps: u64,
    /// Its timer is set.
    scheduled: bool,
    given_ps: u64,
}

/// Processor times in ps.
#[derive(Clone, Copy, Debug)]
struct ProcessorTimes {
    operation_ps: u64,
    step_ps: u64,
    search_ps_per_byte: f64,
    post_ps: u64,
    doorbell_ps: u64,
    poll_ps: u64,
}

/// Runs the lanes of all compute nodes on a cluster.
pub struct Workers<'c, 'i, 'm, I, F, S> {
    cluster: &'c mut Cluster<'m>,
    indexes: &'i [I],
    lanes: &'i [Lane<'m>],
    start: S,
    slots: Vec<Slot<F>>,
    threads: Vec<Thread>,
    times: ProcessorTimes,
    lanes_per_thread: u32,
    lanes_per_node: u32,
    done: u64,
    finished: usize,
    began: bool,
}

impl<'c, 'i, 'm, I, F, S> Workers<'c, 'i, 'm, I, F, S>
where
    I: Index,
    F: Future<Output = Result<Outcome, OpError>>,
    S: Fn(&'i I, &'i Lane<'m>, Operation) -> F,
{
    /// `indexes`: one per compute node. `lanes`: all of them, compute node by compute node, thread by thread; lane ids
    /// count within a compute node. `start` is `|index, lane, operation| index.execute(lane, operation)`.
    ///
    /// # Panics
    /// If the numbers do not fit the cluster's shape.
    pub fn new(cluster: &'c mut Cluster<'m>, indexes: &'i [I], lanes: &'i [Lane<'m>], start: S) -> Self {
        let shape = cluster.shape();
        assert_eq!(indexes.len(), shape.compute_nodes as usize, "one index per compute node");
        assert_eq!(lanes.len(), (shape.compute_nodes * shape.lanes_per_node()) as usize, "lanes of all threads");
        let (lanes_per_thread, lanes_per_node) = (shape.lanes, shape.lanes_per_node());
        let slot = |number: u32| Slot {
            state: State::Idle,
            thread: number / lanes_per_thread,
            compute_node: number / lanes_per_node,
            future: Box::pin(None),
            operation: Operation::scan(0),
            started_ps: 0,
            submitted_ps: 0,
            cost: Cost::default(),
            retries: 0,
            next_ps: 0,
            token: false,
        };
        let thread = &cluster.profile().thread;
        let times = ProcessorTimes {
            operation_ps: ps(thread.operation_ns),
            step_ps: ps(thread.step_ns),
            search_ps_per_byte: thread.search_ns_per_kib * PS_PER_NS as f64 / 1024.0,
            post_ps: ps(thread.post_ns),
            doorbell_ps: ps(thread.doorbell_ns),
            poll_ps: ps(thread.poll_ns),
        };
        Self {
            slots: (0..lanes.len() as u32).map(slot).collect(),
            threads: vec![Thread::default(); (shape.compute_nodes * shape.threads) as usize],
            times,
            lanes_per_thread: shape.lanes,
            lanes_per_node: shape.lanes_per_node(),
            indexes,
            lanes,
            start,
            done: 0,
            finished: 0,
            began: false,
            cluster,
        }
    }

    /// The cluster, to look at.
    pub fn cluster(&self) -> &Cluster<'m> {
        self.cluster
    }

    /// Virtual time in ns.
    pub fn now_ns(&self) -> u64 {
        self.cluster.now_ps() / PS_PER_NS
    }

    /// Lanes of all compute nodes.
    pub fn lanes(&self) -> usize {
        self.slots.len()
    }

    /// What was used until now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.cluster, self.busy_ps())
    }

    /// Operations done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Whether every lane has finished.
    pub fn is_finished(&self) -> bool {
        self.finished == self.slots.len()
    }

    /// Time the threads of each compute node have worked, in ps.
    pub(crate) fn busy_ps(&self) -> Vec<u64> {
        let now_ps = self.cluster.now_ps();
        let busy = |thread: &Thread| thread.given_ps - thread.free_ps.saturating_sub(now_ps).min(thread.given_ps);
        let threads = (self.lanes_per_node / self.lanes_per_thread) as usize;
        self.threads.chunks(threads).map(|threads| threads.iter().map(busy).sum()).collect()
    }

    /// How often lanes counted `mark`.
    pub fn marked(&self, mark: Mark) -> u64 {
        self.lanes.iter().map(|lane| u64::from(lane.marked(mark))).sum()
    }

    /// Runs. Can be called again to go on.
    pub fn run<W: Work>(&mut self, work: &mut W, until: Until) -> Result<(), WorkersError> {
        if !self.began {
            self.began = true;
            for lane in 0..self.lanes.len() as u32 {
                self.make_ready(lane, State::Idle, self.times.operation_ps);
            }
        }
        while !self.is_finished() {
            if let Until::Operations(operations) = until
                && self.done >= operations
            {
                break;
            }
            match self.cluster.step() {
                Some(ClusterEvent::Internal) => {}
                Some(ClusterEvent::Completed { lane, position, completion, last }) => {
                    self.completed(lane, position, completion, last);
                }
                Some(ClusterEvent::Thread(thread)) => self.turn(thread, work)?,
                Some(ClusterEvent::Resume(lane)) => self.resume(lane),
                None => {
                    let now_ns = self.cluster.now_ps() / PS_PER_NS;
                    return Err(WorkersError::Deadlock { now_ns, waiting: self.slots.len() - self.finished });
                }
            }
        }
        Ok(())
    }

    /// Lets the rest of what is under way happen, after all lanes have finished.
    pub fn settle(&mut self) {
        while self.cluster.step().is_some() {}
    }

    // ---- threads ---------------------------------------------------------------------------------------------

    /// Queues a lane at its thread, which will have `cpu_ps` to do for it.
    fn make_ready(&mut self, lane: u32, state: State, cpu_ps: u64) {
        let slot = &mut self.slots[lane as usize];
        slot.state = state;
        slot.next_ps = cpu_ps;
        let number = slot.thread;
        let thread = &mut self.threads[number as usize];
        thread.ready.push_back(lane);
        if !thread.scheduled {
            self.schedule(number);
        }
    }

    fn schedule(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        let Some(&lane) = thread.ready.front() else { return };
        let cpu_ps = self.slots[lane as usize].next_ps;
        thread.scheduled = true;
        thread.given_ps += cpu_ps;
        thread.free_ps = thread.free_ps.max(self.cluster.now_ps()) + cpu_ps;
        self.cluster.schedule_thread(thread.free_ps, number);
    }

    /// A thread has done what its first ready lane needed: the results of that appear now.
    fn turn<W: Work>(&mut self, number: u32, work: &mut W) -> Result<(), WorkersError> {
        let thread = &mut self.threads[number as usize];
        thread.scheduled = false;
        let Some(lane) = thread.ready.pop_front() else { return Ok(()) };
        match self.slots[lane as usize].state {
            State::Idle => self.begin(lane, work)?,
            State::Ready => self.advance(lane, work)?,
            _ => {}
        }
        if !self.threads[number as usize].scheduled {
            self.schedule(number);
        }
        Ok(())
    }

    fn begin<W: Work>(&mut self, number: u32, work: &mut W) -> Result<(), WorkersError> {
        let lane = &self.lanes[number as usize];
        let slot = &mut self.slots[number as usize];
        let index = &self.indexes[slot.compute_node as usize];
        match lane.port().with(|scratch| work.next(number as usize, scratch, index.plan())) {
            Next::Run(operation) => {
                lane.port().start();
                slot.operation = operation;
                slot.cost = Cost::default();
                slot.retries = retries(lane);
                slot.started_ps = self.cluster.now_ps().saturating_sub(slot.next_ps);
                slot.future.set(Some((self.start)(index, lane, operation)));
                self.advance(number, work)
            }
            // Its work makes no calls.
            Next::Wait | Next::Call(_) => {
                slot.state = State::Paused;
                let at_ps = self.cluster.now_ps() + IDLE_NS * PS_PER_NS;
                self.cluster.schedule_resume(at_ps, number);
                Ok(())
            }
            Next::Finished => {
                slot.state = State::Finished;
                self.finished += 1;
                Ok(())
            }
        }
    }

    /// Polls a lane until it waits for something or its operation is done.
    fn advance<W: Work>(&mut self, number: u32, work: &mut W) -> Result<(), WorkersError> {
        let lane = &self.lanes[number as usize];
        loop {
            let slot = &mut self.slots[number as usize];
            let Some(future) = slot.future.as_mut().as_pin_mut() else { return Ok(()) };
            match poll_once(lane.port(), future) {
                Step::Requests => {
                    if self.submit(number, work, State::InFlight) {
                        return Ok(());
                    }
                }
                Step::Waiting => return Ok(()),
                Step::Done(result) => return self.finish(number, result, work),
            }
        }
    }

    /// Handles what a lane submitted. `false`: nothing of it has to be waited for.
    fn submit<W: Work>(&mut self, number: u32, work: &mut W, state: State) -> bool {
        let lane = &self.lanes[number as usize];
        let now_ps = self.cluster.now_ps();
        let requests = lane.port().requests();
        work.posting(number as usize, &requests);
        let slot = &mut self.slots[number as usize];
        slot.submitted_ps = now_ps;
        let (mut wait, mut travelling, mut polled, mut read_bytes) = (None, 0, 0, 0);
        let mut chains = 0;
        let mut last_node = None;
        for request in requests.iter() {
            match request.verb {
                Verb::Wake => {}
                Verb::Pause => wait = Some((State::Paused, request.operands[0])),
                Verb::Park => wait = Some((State::Parked, 0)),
                verb => {
                    travelling += 1;
                    polled += u64::from(request.flags.contains(Flags::SIGNALED));
                    chains += u64::from(last_node != Some(request.node));
                    last_node = Some(request.node);
                    let bytes = u64::from(request.bytes);
                    match verb {
                        Verb::Read => {
                            slot.cost.bytes_read += bytes;
                            read_bytes += bytes;
                        }
                        Verb::Write => slot.cost.bytes_written += bytes,
                        _ => {
                            slot.cost.bytes_read += bytes;
                            slot.cost.bytes_written += bytes;
                        }
                    }
                }
            }
        }
        slot.cost.requests += travelling as u32;
        for request in requests.iter().filter(|request| request.verb == Verb::Wake) {
            self.wake(number, request.operands[0]);
        }
        let slot = &mut self.slots[number as usize];
        if travelling > 0 {
            slot.cost.round_trips += 1;
            slot.state = state;
            let search_ps = (read_bytes as f64 * self.times.search_ps_per_byte) as u64;
            slot.next_ps = self.times.step_ps + polled * self.times.poll_ps + search_ps;
            let busy_ps = travelling * self.times.post_ps + chains * self.times.doorbell_ps;
            let thread = &mut self.threads[slot.thread as usize];
            thread.given_ps += busy_ps;
            thread.free_ps = thread.free_ps.max(now_ps) + busy_ps;
            if let Some(scratch) = lane.port().begin() {
                self.cluster.post(number, &requests, scratch, self.times.post_ps, self.times.doorbell_ps);
            }
            true
        } else {
            match wait {
                Some((State::Parked, _)) if std::mem::take(&mut slot.token) => {
                    self.give_back(number);
                    false
                }
                Some((State::Parked, _)) => {
                    slot.state = State::Parked;
                    true
                }
                Some((_, ns)) => {
                    slot.state = State::Paused;
                    self.cluster.schedule_resume(now_ps + ns.saturating_mul(PS_PER_NS), number);
                    true
                }
                None => {
                    self.give_back(number);
                    false
                }
            }
        }
    }

    /// Ends a submit of local requests.
    fn give_back(&mut self, number: u32) {
        let port = self.lanes[number as usize].port();
        let waited_ps = self.cluster.now_ps() - self.slots[number as usize].submitted_ps;
        if let Some(scratch) = port.begin() {
            port.finish(scratch, waited_ps / PS_PER_NS);
        }
    }

    fn resume(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if slot.state != State::Paused {
            return;
        }
        if slot.future.is_some() {
            self.give_back(number);
            self.make_ready(number, State::Ready, self.times.step_ps);
        } else {
            self.make_ready(number, State::Idle, 0);
        }
    }

    /// Wakes the lane with this id on the compute node of lane `by`.
    fn wake(&mut self, by: u32, id: u64) {
        let first = self.slots[by as usize].compute_node * self.lanes_per_node;
        if id >= u64::from(self.lanes_per_node) {
            return;
        }
        let woken = first + id as u32;
        if self.slots[woken as usize].state == State::Parked {
            self.give_back(woken);
            self.make_ready(woken, State::Ready, self.times.step_ps);
        } else {
            self.slots[woken as usize].token = true;
        }
    }

    fn completed(&mut self, number: u32, position: u8, completion: Completion, last: bool) {
        let port = self.lanes[number as usize].port();
        port.complete(position.into(), completion);
        if !last {
            return;
        }
        let slot = &mut self.slots[number as usize];
        if let Some(scratch) = self.cluster.take_scratch(number) {
            port.finish(scratch, (self.cluster.now_ps() - slot.submitted_ps) / PS_PER_NS);
        }
        match slot.state {
            State::InFlight => {
                let cpu_ps = slot.next_ps;
                self.make_ready(number, State::Ready, cpu_ps);
            }
            State::Draining => {
                port.reset();
                self.make_ready(number, State::Idle, self.times.operation_ps);
            }
            _ => {}
        }
    }

    /// Reports a result and lets the lane begin anew.
    fn finish<W: Work>(
        &mut self,
        number: u32,
        result: Result<Outcome, OpError>,
        work: &mut W,
    ) -> Result<(), WorkersError> {
        let lane = &self.lanes[number as usize];
        let slot = &mut self.slots[number as usize];
        let plan = self.indexes[slot.compute_node as usize].plan();
        slot.future.set(None);
        let latency_ns = (self.cluster.now_ps() - slot.started_ps) / PS_PER_NS;
        let (operation, cost) = (slot.operation, slot.cost);
        let retries = retries(lane).wrapping_sub(slot.retries);
        lane.port().with(|scratch| {
            work.done(number as usize, Finished { operation, result, latency_ns, cost, retries, scratch, plan });
        });
        self.done += 1;
        if lane.port().flush() && self.submit(number, work, State::Draining) {
            return Ok(());
        }
        lane.port().reset();
        if let Err(error) = result
            && lane.in_doubt()
        {
            return Err(WorkersError::InDoubt(error));
        }
        self.make_ready(number, State::Idle, self.times.operation_ps);
        Ok(())
    }
}

/// All retries of a lane so far.
fn retries(lane: &Lane<'_>) -> u32 {
    RETRIES.iter().fold(0, |sum, &mark| sum.wrapping_add(lane.marked(mark)))
}
