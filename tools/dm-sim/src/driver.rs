//! Runs the lanes of many compute nodes over one [`World`], one poll or one event at a time.
//!
//! Inputs: [`Driver::spawn`], [`Driver::drop_future`], [`Driver::wake`], the faults. Output: [`Driver::step`], which does
//! one thing and says what came of it; [`Driver::next`], which steps until there is something to say. A test may do
//! what it likes between any two steps. [`crate::workload`] keeps lanes busy.
//!
//! A lane that can go on is polled after a random computing time (see [`crate::config::Delays::cpu_ns`]), so the order
//! in which ready lanes run is random, and part of what the seed determines.

use crate::compute_node::ComputeNode;
use crate::world::{LaneKey, SubmitKey, World};
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::verbs::{Completion, Request, Verb};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use thiserror::Error;

/// The future of one operation.
pub type Op<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A lane of a driver: its compute node, and its position in that node's slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneAt {
    /// The compute node.
    pub compute_node: ComputeNode,
    /// Position among its lanes.
    pub lane: u16,
}

impl LaneAt {
    /// Lane `lane` of compute node `compute_node`.
    pub const fn new(compute_node: u16, lane: u16) -> Self {
        Self { compute_node: ComputeNode(compute_node), lane }
    }
}

impl fmt::Display for LaneAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.l{}", self.compute_node.0, self.lane)
    }
}

/// What a step came to.
#[derive(Debug)]
pub enum Event<T> {
    /// Something happened that needs no action of the caller.
    Progress,
    /// An operation ended; its lane is free unless requests it left behind are still waited for.
    Done {
        /// Whose.
        at: LaneAt,
        /// When.
        now_ns: u64,
        /// With what.
        result: T,
    },
    /// All requests of a lane whose future was dropped are complete: time to settle it.
    Abandoned {
        /// Which.
        at: LaneAt,
        /// When.
        now_ns: u64,
    },
    /// No lane runs and nothing is on its way.
    Quiet,
}

/// Why a run cannot go on. The dump names every lane that is not idle and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stuck {
    /// Nothing will ever happen, and these lanes wait.
    #[error("deadlock at {now_ns} ns: nothing is on its way, and\n{dump}")]
    Deadlock {
        /// When.
        now_ns: u64,
        /// Which lane waits for what.
        dump: String,
    },
    /// The bound on steps was reached.
    #[error("{steps} steps and no end at {now_ns} ns:\n{dump}")]
    Steps {
        /// The bound.
        steps: u64,
        /// When.
        now_ns: u64,
        /// Which lane waits for what.
        dump: String,
    },
}

/// How lanes are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// Lanes that share one worker's queue pairs, at least 1.
    pub lanes_per_worker: u16,
    /// Steps after which a run is given up.
    pub steps_max: u64,
    /// Whether a parked lane continues when the time it said is over. Otherwise only a wake ends a park, so a lane that
    /// is not woken is a deadlock, and reported as one.
    pub parks_end: bool,
}

impl Default for DriverConfig {
    /// Two lanes per worker, so that both sharing and not sharing a queue pair occur.
    fn default() -> Self {
        Self { lanes_per_worker: 2, steps_max: 10_000_000, parks_end: false }
    }
}

/// What a lane's submit still waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    fabric: bool,
    pause: bool,
    park: bool,
}

impl Waits {
    const fn none(self) -> bool {
        !(self.fabric || self.pause || self.park)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No future.
    Idle,
    /// A future that will be polled when its timer fires.
    Ready,
    /// A future, and a submit under way.
    Waiting,
    /// The future is done; what it left behind is under way.
    Draining,
    /// The future was dropped.
    Abandoned,
    /// Its compute node is dead.
    Dead,
}

struct Slot<'a, 'm, T> {
    at: LaneAt,
    lane: &'a Lane<'m>,
    key: LaneKey,
    future: Option<Op<'a, T>>,
    scratch: Option<&'m mut [u8]>,
    state: State,
    waits: Waits,
    /// A wake that came before the park.
    token: bool,
    /// Timers of an earlier turn are void.
    turn: u32,
    submitted_ns: u64,
}

/// Timers: (time, random tie-break, lane, its turn, kind).
type Timer = Reverse<(u64, u32, u32, u32, Due)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Poll,
    Pause,
    Park,
}

/// When timers of those that wait for ever are due.
const NEVER_NS: u64 = u64::MAX;

/// Runs lanes over a world.
pub struct Driver<'a, 'm, T> {
    world: &'a mut World,
    config: DriverConfig,
    slots: Vec<Slot<'a, 'm, T>>,
    /// Key in the world of the first slot's lane.
    first_key: u32,
    /// Slots of each compute node: first, and how many.
    nodes: Vec<(u32, u32)>,
    timers: BinaryHeap<Timer>,
    steps: u64,
    requests: Vec<Request>,
}

impl<'a, 'm, T> Driver<'a, 'm, T> {
    /// Lanes of compute node `c` are `compute_nodes[c]`. On a world that another driver used before, its time and the
    /// requests it left behind run on.
    pub fn new(world: &'a mut World, compute_nodes: &[&'a [Lane<'m>]], config: DriverConfig) -> Self {
        let first_key = world.lanes.len() as u32;
        let mut slots = Vec::new();
        let mut nodes = Vec::new();
        for (number, lanes) in compute_nodes.iter().enumerate() {
            nodes.push((slots.len() as u32, lanes.len() as u32));
            for (position, lane) in lanes.iter().enumerate() {
                let compute_node = ComputeNode(number as u16);
                if position.is_multiple_of(config.lanes_per_worker.max(1) as usize) {
                    world.add_worker(compute_node);
                }
                let key = world.add_lane(world.workers.len() as u32 - 1, position as u16);
                slots.push(Slot {
                    at: LaneAt { compute_node, lane: position as u16 },
                    lane,
                    key,
                    future: None,
                    scratch: None,
                    state: State::Idle,
                    waits: Waits::default(),
                    token: false,
                    turn: 0,
                    submitted_ns: 0,
                });
            }
        }
        Self { world, config, slots, first_key, nodes, timers: BinaryHeap::new(), steps: 0, requests: Vec::new() }
    }

    /// The world, to look at or to disturb.
    pub fn world(&mut self) -> &mut World {
        self.world
    }

    /// Ends the driver.
    pub fn into_world(self) -> &'a mut World {
        self.world
    }

    /// Virtual time, in ns.
    pub fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    /// When the next step happens; `None`: never.
    pub fn next_ns(&self) -> Option<u64> {
        let timer_ns = self.timers.peek().map(|Reverse((at_ns, ..))| *at_ns).filter(|at_ns| *at_ns != NEVER_NS);
        [timer_ns, self.world.next_ns()].into_iter().flatten().min().map(|next_ns| next_ns.max(self.now_ns()))
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Every lane, compute node by compute node.
    pub fn lanes(&self) -> impl Iterator<Item = LaneAt> + '_ {
        self.slots.iter().map(|slot| slot.at)
    }

    /// Whether an operation can be spawned on a lane.
    pub fn is_idle(&self, at: LaneAt) -> bool {
        self.slots[self.index(at)].state == State::Idle
    }

    /// Whether a lane has no operation, or one that ended, though something that it left behind may be under way.
    pub fn has_ended(&self, at: LaneAt) -> bool {
        matches!(self.slots[self.index(at)].state, State::Idle | State::Draining)
    }

    /// The worker whose queue pairs a lane uses, as faults want it: see [`World::fail_queue_pair`].
    pub fn worker(&self, at: LaneAt) -> u32 {
        self.world.lanes[self.slots[self.index(at)].key.0 as usize].worker
    }

    // ---- inputs ----------------------------------------------------------------------------------------------

    /// Starts an operation on an idle lane; it is first polled a little later.
    ///
    /// # Panics
    /// If the lane is not idle: see [`Driver::is_idle`].
    pub fn spawn(&mut self, at: LaneAt, future: Op<'a, T>) {
        let index = self.index(at);
        let slot = &mut self.slots[index];
        assert_eq!(slot.state, State::Idle, "lane {at} is not idle");
        slot.lane.port().start();
        slot.future = Some(future);
        if !slot.lane.is_unsettled() {
            let key = slot.key;
            self.world.begins_operation(key);
        }
        self.make_ready(index);
    }

    /// Drops the future of a lane wherever it stands. What it posted runs on; when all of it is complete the lane is
    /// reported [`Event::Abandoned`] and idle. Does nothing on a lane without a future.
    pub fn drop_future(&mut self, at: LaneAt) {
        let index = self.index(at);
        let slot = &mut self.slots[index];
        if slot.future.take().is_none() {
            return;
        }
        // The lane no longer waits for a pause or a wake, but completions must arrive.
        slot.waits.pause = false;
        slot.waits.park = false;
        slot.state = State::Abandoned;
        slot.turn = slot.turn.wrapping_add(1);
        self.go_on(index);
    }

    /// Wakes a lane as another lane would.
    pub fn wake(&mut self, at: LaneAt) {
        let index = self.index(at);
        self.wake_slot(index);
    }

    /// Kills a compute node: its futures are dropped and never reported, its lanes are dead, and of its requests a
    /// random prefix takes effect: see [`World::kill_compute_node`].
    pub fn kill_compute_node(&mut self, compute_node: ComputeNode) {
        self.world.kill_compute_node(compute_node);
        for slot in self.slots.iter_mut().filter(|slot| slot.at.compute_node == compute_node) {
            slot.future = None;
            slot.state = State::Dead;
        }
    }

    // ---- outputs ---------------------------------------------------------------------------------------------

    /// Does one thing: polls one lane, or lets one event of the world happen.
    pub fn step(&mut self) -> Result<Event<T>, Stuck> {
        if self.steps >= self.config.steps_max {
            return Err(Stuck::Steps { steps: self.steps, now_ns: self.now_ns(), dump: self.dump() });
        }
        self.steps += 1;
        let timer_ns = self.timers.peek().map(|Reverse((at_ns, ..))| *at_ns);
        match (timer_ns, self.world.next_ns()) {
            (None, None) => self.nothing_left(),
            (Some(timer_ns), world_ns) if world_ns.is_none_or(|world_ns| timer_ns < world_ns) => {
                // Timers of those that wait for ever do not move the time.
                if timer_ns != NEVER_NS {
                    self.world.advance_to(timer_ns);
                }
                Ok(self.timer())
            }
            _ => {
                self.world.step();
                self.take_completions();
                Ok(Event::Progress)
            }
        }
    }

    /// Steps until there is something to say.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it goes on after Quiet")]
    pub fn next(&mut self) -> Result<Event<T>, Stuck> {
        loop {
            match self.step()? {
                Event::Progress => {}
                event => return Ok(event),
            }
        }
    }

    /// Which lane waits for what: one line per lane that is not idle.
    pub fn dump(&self) -> String {
        use fmt::Write as _;
        let mut text = String::new();
        for slot in &self.slots {
            let Waits { fabric, pause, park } = slot.waits;
            let what = match slot.state {
                State::Idle => continue,
                State::Dead => "is dead",
                State::Ready => "can go on",
                State::Draining => "is done, its last requests are not",
                State::Abandoned => "was dropped, its requests are under way",
                State::Waiting if fabric => "waits for completions of",
                State::Waiting if pause => "pauses",
                State::Waiting if park => "is parked",
                State::Waiting => "waits for something that is not a submit",
            };
            let _ = write!(text, "  {} {what}", slot.at);
            for request in slot.lane.port().requests().iter() {
                let Request { verb, label, node, offset, bytes, .. } = request;
                let (verb, label) = (verb.name(), label.name());
                if verb == "park" || verb == "pause" || verb == "wake" {
                    let _ = write!(text, ", {verb}");
                } else {
                    let _ = write!(text, ", {verb} \"{label}\" m{}:{offset:#x}+{bytes}", node.0);
                }
            }
            for record in slot.lane.lock_records() {
                let _ = write!(
                    text,
                    "; has not released lock {} of m{} ({:?})",
                    record.lock.index, record.lock.node.0, record.stage
                );
            }
            text.push('\n');
        }
        text
    }

    // ---- inside ----------------------------------------------------------------------------------------------

    fn index(&self, at: LaneAt) -> usize {
        let (first, count) = self.nodes[at.compute_node.0 as usize];
        assert!(u32::from(at.lane) < count, "compute node {} has no lane {}", at.compute_node.0, at.lane);
        (first + u32::from(at.lane)) as usize
    }

    fn nothing_left(&mut self) -> Result<Event<T>, Stuck> {
        let stuck = self.slots.iter().any(|slot| !matches!(slot.state, State::Idle | State::Dead));
        if stuck { Err(Stuck::Deadlock { now_ns: self.now_ns(), dump: self.dump() }) } else { Ok(Event::Quiet) }
    }

    fn set_timer(&mut self, index: usize, after_ns: u64, due: Due) {
        let tie = self.world.rng.bits() as u32;
        let turn = self.slots[index].turn;
        let at_ns = self.world.now_ns().saturating_add(after_ns);
        self.timers.push(Reverse((at_ns, tie, index as u32, turn, due)));
    }

    fn make_ready(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = State::Ready;
        slot.turn = slot.turn.wrapping_add(1);
        let after_ns = self.world.rng.within(self.world.config.delays.cpu_ns);
        self.set_timer(index, after_ns, Due::Poll);
    }

    fn timer(&mut self) -> Event<T> {
        let Some(Reverse((at_ns, _, index, turn, due))) = self.timers.pop() else { return Event::Progress };
        let index = index as usize;
        if self.slots[index].turn != turn {
            return Event::Progress;
        }
        match (due, self.slots[index].state) {
            (Due::Poll, State::Ready) => return self.poll(index),
            (Due::Poll, State::Abandoned) => return self.report_abandoned(index),
            (Due::Pause, State::Waiting | State::Draining) => {
                self.slots[index].waits.pause = false;
                self.go_on(index);
            }
            (Due::Park, State::Waiting) if self.slots[index].waits.park && at_ns != NEVER_NS => {
                self.slots[index].waits.park = false;
                self.go_on(index);
            }
            _ => {}
        }
        Event::Progress
    }

    fn poll(&mut self, index: usize) -> Event<T> {
        let slot = &mut self.slots[index];
        let Some(future) = slot.future.as_mut() else { return Event::Progress };
        let port = slot.lane.port();
        match poll_once(port, Pin::new(future)) {
            Step::Waiting => {
                slot.state = State::Waiting;
                Event::Progress
            }
            Step::Requests => {
                slot.state = State::Waiting;
                self.post(index);
                Event::Progress
            }
            Step::Done(result) => {
                slot.future = None;
                slot.state = State::Draining;
                if port.flush() {
                    self.post(index);
                } else {
                    slot.state = State::Idle;
                }
                Event::Done { at: self.slots[index].at, now_ns: self.world.now_ns(), result }
            }
        }
    }

    /// Takes over what a port has submitted.
    fn post(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let port = slot.lane.port();
        let Some(scratch) = port.begin() else { return };
        slot.submitted_ns = self.world.now_ns();
        slot.waits = Waits { fabric: true, pause: false, park: false };
        self.requests.clear();
        self.requests.extend_from_slice(&port.requests());
        self.world.post(slot.key, &self.requests, scratch);
        slot.scratch = Some(scratch);
        let mut pause_ns = None;
        let mut park_ns = None;
        for position in 0..self.requests.len() {
            let request = self.requests[position];
            match request.verb {
                Verb::Pause => pause_ns = pause_ns.max(Some(request.operands[0])),
                Verb::Park => {
                    self.slots[index].waits.park = true;
                    park_ns = park_ns.max(Some(request.operands[0]));
                }
                Verb::Wake => self.wake_lane(index, request.operands[0]),
                _ => {}
            }
        }
        let slot = &mut self.slots[index];
        if slot.waits.park && std::mem::take(&mut slot.token) {
            slot.waits.park = false;
        }
        if slot.waits.park
            && self.config.parks_end
            && let Some(park_ns) = park_ns
        {
            self.set_timer(index, park_ns, Due::Park);
        }
        let slot = &mut self.slots[index];
        if let Some(pause_ns) = pause_ns {
            slot.waits.pause = true;
            self.set_timer(index, pause_ns, Due::Pause);
        }
        // A submit without signaled requests is complete at once.
        self.take_completions();
    }

    /// Wakes the lane with this id on the compute node of lane `index`.
    fn wake_lane(&mut self, index: usize, id: u64) {
        let (first, count) = self.nodes[self.slots[index].at.compute_node.0 as usize];
        let mut range = first as usize..(first + count) as usize;
        if let Some(woken) = range.find(|&other| u64::from(self.slots[other].lane.id().0) == id) {
            self.wake_slot(woken);
        }
    }

    fn wake_slot(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.waits.park && slot.state == State::Waiting {
            slot.waits.park = false;
            self.go_on(index);
        } else {
            slot.token = true;
        }
    }

    fn take_completions(&mut self) {
        while let Some((lane, submit)) = self.world.take_ready() {
            match lane.0.checked_sub(self.first_key) {
                Some(index) => self.submit_is_complete(index as usize, submit),
                // Of a lane of a driver before this one.
                None => self.world.deliver(submit, |_, _, _, _| {}),
            }
        }
    }

    fn submit_is_complete(&mut self, index: usize, submit: SubmitKey) {
        let slot = &mut self.slots[index];
        let port = slot.lane.port();
        let scratch = slot.scratch.as_deref_mut();
        let mut nowhere = [];
        let scratch = scratch.unwrap_or(&mut nowhere);
        self.world.deliver(submit, |position, request, completion: Completion, data| {
            let local = request.local as usize;
            if let Some(to) = scratch.get_mut(local..local + data.len()) {
                to.copy_from_slice(data);
            }
            port.complete(position, completion);
        });
        slot.waits.fabric = false;
        self.go_on(index);
    }

    /// Gives the lane back to its future once nothing of its submit is waited for.
    fn go_on(&mut self, index: usize) {
        let now_ns = self.world.now_ns();
        let slot = &mut self.slots[index];
        if !slot.waits.none() {
            return;
        }
        if let Some(scratch) = slot.scratch.take() {
            slot.lane.port().finish(scratch, now_ns - slot.submitted_ns);
        }
        match slot.state {
            State::Waiting => self.make_ready(index),
            State::Draining => {
                slot.lane.port().reset();
                slot.state = State::Idle;
            }
            State::Abandoned => self.set_timer(index, 0, Due::Poll),
            State::Idle | State::Ready | State::Dead => {}
        }
    }

    fn report_abandoned(&mut self, index: usize) -> Event<T> {
        let slot = &mut self.slots[index];
        if self.world.outstanding(slot.key) > 0 {
            // Unsignaled requests that no lane waits for: look again when the next event has happened.
            let after_ns = self.world.next_ns().map_or(0, |next_ns| next_ns + 1 - self.world.now_ns());
            self.set_timer(index, after_ns, Due::Poll);
            return Event::Progress;
        }
        if let Some(scratch) = slot.scratch.take() {
            slot.lane.port().finish(scratch, 0);
        }
        slot.lane.port().reset();
        slot.waits = Waits::default();
        slot.state = State::Idle;
        slot.turn = slot.turn.wrapping_add(1);
        Event::Abandoned { at: slot.at, now_ns: self.world.now_ns() }
    }
}
