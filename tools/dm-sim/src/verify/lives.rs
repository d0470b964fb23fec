//! Lives: places go round while an operation stands still, and others come with pointers that are old.
//!
//! What the random histories of `run` meet once in a million is arranged here: one compute node inserts and
//! deletes the same keys over and over, so that the places of leaves have one life after the other; in most of the
//! stories generations begin anew after two. Then one of its operations stands still after any of its round trips, others do what they do, and it goes on.
//! What everybody was answered is a history like any other, and judged like one.
//!
//! Everything follows from a seed: which story, in what order keys come and go, which operation stands still, and when.

use super::coding::{Coding, Digits};
use super::load::{Ended, start};
use super::subject::{Boxed, Opened, With};
use super::tree::TreeKind;
use super::walk::{self, Plot};
use crate::check::{Answer, Call, Checker, History, OpId, Verdict};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{LaneAt, Op};
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::memory::{Epochs, GENERATIONS, Participant, Pin};
use dm_core::operation::{Cause, OpError};
use dm_core::verbs::{LaneId, Request, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::with_index;
use std::future::Future;
use std::pin::Pin as Pinned;

/// After so many of a hundred turns a compute node goes on with a collection, if that is how its memory comes back.
const COLLECTIONS_PERCENT: u32 = 40;

/// Compute nodes: one that has places go round, one with old pointers, one without copies.
const COMPUTE_NODES: usize = 3;
const CHURNER: usize = 0;
const OLD: usize = 1;
const FRESH: usize = 2;

/// Lanes of each.
const LANES: usize = 2;

const CODING: Coding = Coding::shifted(8);

/// Rounds of [`Story::Returns`], writes of each, and turns of a round, in percent of its writes.
const ROUNDS: u32 = 4;
const WRITES: u32 = 24;
const TURNS_PERCENT: u32 = 25;

/// Long for one, short for who waits for the operation that stands still, in ns.
const DEADLINE_NS: u64 = 300_000;

/// Turns until places that waited have waited for long enough, if nobody holds them up.
const TURNS: usize = 4;

/// How often one lane waits for others in one operation.
const PARKS_MAX: usize = 1000;

/// Submits without an end.
const SUBMITS_MAX: u32 = 100_000;

/// What stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A split, while copies lead to a former life of the new leaf.
    Copies,
    /// The same, while a pointer to a former life is in an operation that stands still as well.
    UnderWay,
    /// A merge, while the same compute node splits leaves.
    Merge,
    /// Any operation, while what leaves a radix tree comes back into it.
    Returns,
}

/// What many of them came to.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// How many.
    pub runs: u64,
    /// Coverage marks, by [`Mark`].
    pub marks: Vec<u64>,
    /// The first that went wrong: its seed, and how.
    pub finding: Option<(u64, String)>,
}

/// Plays the stories of `seeds` until one goes wrong.
pub fn play<K: TreeKind>(_: K, seeds: std::ops::Range<u64>) -> Lives {
    let mut lives = Lives { marks: vec![0; Mark::ALL.len()], ..Lives::default() };
    for seed in seeds {
        lives.runs += 1;
        let mut what = Ok(());
        if let Err(error) = with_scene::<K>(seed, &mut lives.marks, &mut |scene| what = scene.play()) {
            what = Err(error);
        }
        if let Err(what) = what {
            lives.finding = Some((seed, what));
            break;
        }
    }
    lives
}

fn with_scene<K: TreeKind>(
    seed: u64,
    marks: &mut [u64],
    play: &mut dyn FnMut(&mut Scene<'_, '_>),
) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x5eed_0008);
    let story = [Story::Copies, Story::UnderWay, Story::Merge][rng.below(3) as usize];
    // Places that wait are not there when a merge stands still.
    let generations = if story == Story::Merge || rng.percent(40) { GENERATIONS } else { 2 };
    let (parameters, keys) = K::lives().ok_or("an index without a part in epochs")?;
    let node_bytes = parameters.node_bytes();
    let plot = Plot::of(&parameters, 61, node_bytes.0.max(node_bytes.1).next_multiple_of(4096) as u64);
    let is_radix = plot.tree().is_none();
    let (story, generations) = if is_radix { (Story::Returns, 2) } else { (story, generations) };
    let config = Config::with_nodes(1 + rng.below(2) as usize, 512 << 10);
    let geometry = plot.geometry(&config);
    let mut memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    plot.format(&config, &mut memories);
    plot.format_rows(&config, COMPUTE_NODES as u16, &mut memories);
    let options = Options {
        combine: rng.percent(60),
        chain_lock_read: rng.percent(40),
        entry_writes: rng.percent(70),
        // Who stands still may hold a lock that lanes of its own compute node would queue for.
        hierarchical: !is_radix,
        ..Options::default()
    };
    let spending = |number: usize| Spending {
        lanes: LANES,
        cache_bytes: if number == FRESH { 0 } else { 64 << 10 },
        page_records: 64,
        returned_nodes: 256,
        generations,
        options,
        ..Spending::default()
    };
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let (epochs, pins): (_, [_; LANES]) = (Epochs::new(), std::array::from_fn(|_| Pin::default()));
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let place = Place { epochs, ..walk::place(&geometry, &config, walk::everything(), number as u16) };
        with_index(&place, &parameters, &spending(number), |index| then(&With(&index)))
            .map_err(|error| error.to_string())
    };
    let mut memories = Some(memories);
    walk::open_all(COMPUTE_NODES, &open, &[], &mut |opened| {
        let Some(memories) = memories.take() else { return };
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; COMPUTE_NODES * LANES];
        let lanes = (0..).zip(&mut scratch).map(|(at, bytes)| Lane::new(LaneId(at % LANES as u16), bytes));
        let lanes: Vec<Lane<'_>> = lanes.collect();
        play(&mut Scene {
            story,
            coding: if is_radix {
                // So that nodes fill up and keys fight for slots, more of the one or of the other.
                let digits = Digits { bits: 2 + rng.below(3), stride: 1 + rng.below(2) as usize };
                Coding { key_shift: 0, digits: Some(digits) }
            } else {
                CODING
            },
            opened,
            lanes: &lanes,
            fabric: DirectFabric::over(&config, memories),
            rng: rng.clone(),
            keys,
            history: History::new(),
            now_ns: 0,
        });
        for lane in &lanes {
            for mark in Mark::ALL {
                marks[*mark as usize] += u64::from(lane.marked(*mark));
            }
        }
    })
}

/// How far a future was driven.
enum Drive<T> {
    Done(T),
    /// Before the submit that was to be the first not to be executed.
    Stopped,
    /// It waits for another lane of its compute node.
    Parked,
}

struct Scene<'a, 'm> {
    story: Story,
    coding: Coding,
    opened: &'a [&'a dyn Opened],
    lanes: &'a [Lane<'m>],
    fabric: DirectFabric,
    rng: Rng,
    keys: u64,
    history: History,
    now_ns: u64,
}

/// An operation that stands still.
struct Still<'a> {
    node: usize,
    lane: usize,
    operation: OpId,
    future: Op<'a, Ended>,
    /// It does no more.
    ended: bool,
}

impl<'a, 'm> Scene<'a, 'm> {
    fn play(&mut self) -> Result<(), String> {
        match self.story {
            Story::Copies | Story::UnderWay => self.split_stands_still(),
            Story::Merge => self.merge_stands_still(),
            Story::Returns => self.one_stands_still(),
        }?;
        for node in 0..COMPUTE_NODES {
            (0..2 * self.keys).try_for_each(|key| self.point(node, 0, key, Call::Get))?;
        }
        let (index, lane) = (self.opened[FRESH], self.lane(FRESH, 0));
        match self.alone(lane, index.validate(lane))? {
            Ok(_) => {}
            Err(error) => return Err(format!("{:?}: the tree: {error}", self.story)),
        }
        match Checker::default().check(&self.history) {
            Verdict::Linearizable => Ok(()),
            Verdict::Violation(violation) => Err(format!("{:?}: {violation}", self.story)),
            Verdict::TooHard { key, why } => Err(format!("key {key} cannot be judged: {why:?}")),
        }
    }

    fn split_stands_still(&mut self) -> Result<(), String> {
        let keys = self.order();
        self.fill(&keys)?;
        (0..self.keys).try_for_each(|key| self.point(OLD, 0, key, Call::Get))?;
        let mut under_way = None;
        if self.story == Story::UnderWay {
            let key = self.key();
            let call = self.write();
            let submits = self.rng.below(2);
            under_way = Some(self.begin(OLD, 0, key, call, submits)?);
        }
        // With the second turn round the generations of the first come again.
        self.empty(&keys)?;
        self.fill(&keys)?;
        self.empty(&keys)?;
        let stands = self.rng.below(self.keys as u32) as usize;
        let submits = 1 + self.rng.below(12);
        let (before, after) = keys.split_at(stands);
        self.fill(before)?;
        let Some((&first, rest)) = after.split_first() else { return Ok(()) };
        let call = self.write();
        let mut still = self.begin(CHURNER, 0, first, call, submits)?;
        if let Some(under_way) = &mut under_way {
            self.go_on(under_way)?;
        }
        if self.story == Story::Copies {
            for _ in 0..6 {
                let (key, call) = (self.key(), self.write());
                self.point(OLD, 1, key, call)?;
            }
        }
        (0..self.keys).try_for_each(|key| self.point(FRESH, 0, key, Call::Get))?;
        self.go_on(&mut still)?;
        self.fill(rest)
    }

    fn merge_stands_still(&mut self) -> Result<(), String> {
        let keys = self.order();
        self.fill(&keys)?;
        let stands = 1 + self.rng.below(self.keys as u32 - 1) as usize;
        let submits = self.rng.below(24);
        self.empty(&keys[..stands])?;
        let Some(&key) = keys.get(stands) else { return Ok(()) };
        let mut still = self.begin(CHURNER, 0, key, Call::Delete, submits)?;
        // Those between the others: leaves split that are full.
        let mut waits = None;
        for _ in 0..self.keys {
            let (key, call) = (self.key() + self.keys, self.write());
            let next = self.begin(CHURNER, 1, key, call, u32::MAX)?;
            if !next.ended {
                waits = Some(next);
                break;
            }
        }
        (0..2 * self.keys).try_for_each(|key| self.point(FRESH, 0, key, Call::Get))?;
        self.go_on(&mut still)?;
        waits.as_mut().map_or(Ok(()), |waits| self.go_on(waits))
    }

    /// Keys come and go, so that nodes are replaced and deleted leaves leave the tree, and turns pass; in each round one operation stands
    /// still for a while, of the compute node with old copies or of the one that writes.
    fn one_stands_still(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            self.churn(WRITES, true)?;
            (0..2 * self.keys).step_by(3).try_for_each(|key| self.point(OLD, 1, key, Call::Get))?;
            let (node, lane) = if self.rng.percent(60) { (OLD, 0) } else { (CHURNER, 1) };
            let (key, submits) = (u64::from(self.rng.below(2 * self.keys as u32)), self.rng.below(10));
            let call = match self.rng.below(5) {
                0 | 1 => Call::Get,
                2 => Call::Delete,
                _ => self.write(),
            };
            let mut still = self.begin(node, lane, key, call, submits)?;
            // With old copies, if nothing reminds that compute node of turns.
            let all = self.rng.percent(70);
            self.churn(WRITES, all)?;
            for _ in 0..4 {
                let key = u64::from(self.rng.below(2 * self.keys as u32));
                self.point(OLD, 1, key, Call::Get)?;
            }
            self.go_on(&mut still)?;
        }
        Ok(())
    }

    /// Upserts and deletes of any keys, and turns of all, or of all but the one with old copies.
    fn churn(&mut self, writes: u32, all: bool) -> Result<(), String> {
        for _ in 0..writes {
            let key = u64::from(self.rng.below(2 * self.keys as u32));
            let call = if self.rng.percent(50) { Call::Delete } else { self.write() };
            let node = if self.rng.percent(80) { CHURNER } else { FRESH };
            self.point(node, 0, key, call)?;
            if self.rng.percent(TURNS_PERCENT) {
                self.turn(0, all)?;
            }
        }
        Ok(())
    }

    /// A turn of all, or of all but the one with old copies.
    fn turn(&mut self, churner_lane: usize, all: bool) -> Result<(), String> {
        for node in 0..COMPUTE_NODES {
            if node != OLD || all {
                let lane = if node == CHURNER { churner_lane } else { 1 };
                let (index, lane) = (self.opened[node], self.lane(node, lane));
                self.alone(lane, index.turn(lane))?.map_err(|error| format!("a turn: {error}"))?;
                // Whoever did nothing of late, too, lets go of what is closed.
                if index.demand_collection() && self.rng.percent(COLLECTIONS_PERCENT) {
                    self.alone(lane, index.collect_orphans(lane))?.map_err(|error| format!("a collection: {error}"))?;
                }
            }
        }
        Ok(())
    }

    // ---- the steps ------------------------------------------------------------------------------------------------

    /// Keys in ascending order, but for a few.
    fn order(&mut self) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..self.keys).collect();
        for _ in 0..self.rng.below(4) {
            let (one, other) = (self.key() as usize, self.key() as usize);
            keys.swap(one, other);
        }
        keys
    }

    fn key(&mut self) -> u64 {
        u64::from(self.rng.below(self.keys as u32))
    }

    /// A write of a value that says who wrote it.
    fn write(&self) -> Call {
        Call::Upsert { value: self.history.operations().len() as u64 }
    }

    fn fill(&mut self, keys: &[u64]) -> Result<(), String> {
        keys.iter().try_for_each(|&key| {
            let call = self.write();
            self.point(CHURNER, 0, key, call)
        })
    }

    /// Deletes the keys, and lets places wait for as long as they have to if nobody holds them up. Who has old copies takes part in that now
    /// and then.
    fn empty(&mut self, keys: &[u64]) -> Result<(), String> {
        keys.iter().rev().try_for_each(|&key| self.point(CHURNER, 0, key, Call::Delete))?;
        let all = self.story != Story::Copies || self.rng.percent(30);
        (0..TURNS).try_for_each(|_| self.turn(1, all))
    }

    fn lane(&self, node: usize, lane: usize) -> &'a Lane<'m> {
        let lanes: &'a [Lane<'m>] = self.lanes;
        &lanes[node * LANES + lane]
    }

    /// A point operation, from beginning to end.
    fn point(&mut self, node: usize, lane: usize, key: u64, call: Call) -> Result<(), String> {
        let still = self.begin(node, lane, key, call, u32::MAX)?;
        if still.ended { Ok(()) } else { Err(format!("{call:?} of key {key} waits for a lane that does nothing")) }
    }

    /// Begins a point operation and executes `submits` of its submits.
    fn begin(&mut self, node: usize, lane: usize, key: u64, call: Call, submits: u32) -> Result<Still<'a>, String> {
        self.now_ns += 1;
        let at = LaneAt::new(node as u16, lane as u16);
        let operation = self.history.invoke(at, self.now_ns, key, call);
        let future = start(self.opened[node], self.lane(node, lane), self.coding, key, call, DEADLINE_NS);
        let mut still = Still { node, lane, operation, future, ended: false };
        self.lane(node, lane).port().start();
        let driven = self.drive(self.lane(node, lane), still.future.as_mut(), submits, false)?;
        self.note(&mut still, driven)?;
        Ok(still)
    }

    /// Goes on with it to its end.
    fn go_on(&mut self, still: &mut Still<'a>) -> Result<(), String> {
        for _ in 0..PARKS_MAX {
            if still.ended {
                return Ok(());
            }
            let driven = self.drive(self.lane(still.node, still.lane), still.future.as_mut(), u32::MAX, true)?;
            self.note(still, driven)?;
        }
        Err("waits for a lane that does nothing".to_owned())
    }

    fn note(&mut self, still: &mut Still<'a>, driven: Drive<Ended>) -> Result<(), String> {
        let Drive::Done(ended) = driven else { return Ok(()) };
        still.ended = true;
        self.now_ns += 1;
        let (index, lane) = (self.opened[still.node], self.lane(still.node, still.lane));
        let answer = match ended {
            Ended::Point(answer) => answer,
            Ended::Failed(error) => {
                let excused = matches!(error.cause, Cause::Deadline { .. });
                if !excused {
                    let line = self.history.line(still.operation);
                    return Err(format!("{:?}: {line} failed: {error}", self.story));
                }
                Answer::Failed(error.effect)
            }
            other => return Err(format!("a point operation ends with {other:?}")),
        };
        self.history.respond(still.operation, self.now_ns, answer);
        if lane.in_doubt() {
            self.alone(lane, index.settle(lane))?.map_err(|error| format!("settling: {error}"))?;
            self.history.close(still.operation, self.now_ns);
        }
        Ok(())
    }

    /// Drives something to its end.
    fn alone<T>(&mut self, lane: &Lane<'m>, mut future: Boxed<'_, T>) -> Result<Result<T, OpError>, String> {
        lane.port().start();
        match self.drive(lane, future.as_mut(), u32::MAX, false)? {
            Drive::Done(result) => Ok(result),
            Drive::Stopped | Drive::Parked => Err("waits for a lane that does nothing".to_owned()),
        }
    }

    /// Polls, and executes up to `submits` submits. `again`: what is in the port was not executed yet; if it is a wait for another
    /// lane, that is over.
    fn drive<T>(
        &mut self,
        lane: &Lane<'m>,
        mut future: Pinned<&mut (impl Future<Output = T> + ?Sized)>,
        submits: u32,
        again: bool,
    ) -> Result<Drive<T>, String> {
        let port = lane.port();
        let mut again = again;
        for submit in 0..SUBMITS_MAX {
            let mut done = None;
            if !std::mem::take(&mut again) {
                match poll_once(port, future.as_mut()) {
                    Step::Waiting => return Err("waits for something that is not a submit".to_owned()),
                    Step::Requests => {}
                    Step::Done(result) if port.flush() => done = Some(result),
                    Step::Done(result) => {
                        if port.in_doubt() {
                            port.reset();
                        }
                        return Ok(Drive::Done(result));
                    }
                }
                let parks = port.requests().iter().any(|request| request.verb == Verb::Park);
                if done.is_none() && (parks || submit >= submits) {
                    return Ok(if parks { Drive::Parked } else { Drive::Stopped });
                }
            }
            let pauses = |request: &&Request| request.verb == Verb::Pause;
            let pause_ns = port.requests().iter().filter(pauses).map(|pause| pause.operands[0]).max();
            let local = port.requests().iter().all(|request| request.verb.is_local());
            if local {
                if let Some(scratch) = port.begin() {
                    port.finish(scratch, pause_ns.unwrap_or(0));
                }
            } else {
                self.fabric.post(std::slice::from_ref(lane), 0);
            }
            if let Some(result) = done {
                if port.in_doubt() {
                    port.reset();
                }
                return Ok(Drive::Done(result));
            }
        }
        Err("goes on and on".to_owned())
    }
}
