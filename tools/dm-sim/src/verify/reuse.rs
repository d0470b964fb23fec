//! Scenarios of reused places: an operation is paused while places are reused, and other operations arrive with old
//! pointers.
//!
//! The random histories of `run` meet these situations once in a million. Here they are arranged. One compute node
//! inserts and deletes the same keys over and over, so that the places of leaves are reused again and again. In most
//! scenarios the generations of a place begin again after two. One operation is then paused after one of its round
//! trips. Other operations run meanwhile, and the paused one continues. The checker judges the answers as it judges
//! those of any history.
//!
//! Everything follows from a seed: the scenario, the order of the keys, the operation that is paused, and when.

use super::coding::{Coding, Digits};
use super::load::{Ended, start};
use super::subject::{Boxed, Opened, With};
use super::tree::TreeKind;
use super::walk::{self, PoolLayout};
use crate::check::{Answer, Call, Checker, History, OpId, Verdict};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::driver::{LaneAt, Op};
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::locks::ChainedRead;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::MARKS_MAX;
use dm_core::memory::{Epochs, GENERATIONS, Participant, Pin};
use dm_core::operation::{Cause, Census, OpError};
use dm_core::verbs::{LaneId, Request, Verb};
use dm_host::assembly::{Place, Spending};
use dm_host::kinds::with_index;
use std::future::Future;
use std::pin::Pin as Pinned;

/// Percentage of turns after which a compute node also continues a mark-and-sweep collection, if its index uses one.
const COLLECTIONS_PERCENT: u32 = 40;

/// Compute nodes: one inserts and deletes, so that places are reused; one keeps old copies of inner nodes; one has no
/// cache.
const COMPUTE_NODES: usize = 3;
const CHURNING: usize = 0;
const WITH_OLD_COPIES: usize = 1;
const WITHOUT_CACHE: usize = 2;

/// Lanes of each compute node.
const LANES: usize = 2;

const CODING: Coding = Coding::shifted(8);

/// Of the scenario `RadixTree`: its rounds, the writes of each round, and the percentage of writes that a turn follows.
const ROUNDS: u32 = 4;
const WRITES: u32 = 24;
const TURNS_PERCENT: u32 = 25;

/// Of 100 scenarios, so many have compute nodes whose rows are not among the first.
const ROWS_USED_UP_PERCENT: u32 = 30;

/// Rows that a turn READs at once.
const ROWS_READ_AT_ONCE: u32 = 8;

/// Deadline of an operation, in ns: long for an operation that runs alone, short for one that waits for the paused one.
const DEADLINE_NS: u64 = 300_000;

/// Turns after which limbo lists give places back, if no compute node holds the epochs back.
const TURNS: usize = 4;

/// How often one lane may wait for others in one operation.
const PARKS_MAX: usize = 1000;

/// Submits after which an operation is taken for endless.
const SUBMITS_MAX: u32 = 100_000;

/// The scenarios: which operation is paused, and what happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// A split is paused, while copies lead to an earlier generation of the new leaf's place.
    SplitAndStaleCopies,
    /// The same, and a second paused operation holds a pointer to an earlier generation.
    SplitAndPausedOperation,
    /// A merge is paused, while the same compute node splits leaves.
    Merge,
    /// Any operation on a radix tree is paused, while places that left the tree are reused in it.
    RadixTree,
    /// Keys come to parts of a radix tree that old copies show empty, or as another leaf's.
    EmptyParts,
}

/// Results of many scenarios.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Scenarios that ran.
    pub runs: u64,
    /// Coverage marks, by number.
    pub marks: Vec<u64>,
    /// The first scenario that failed: its seed, and the reason.
    pub finding: Option<(u64, String)>,
}

/// Runs the scenarios of `seeds` until one fails.
pub fn play<K: TreeKind>(_: K, seeds: std::ops::Range<u64>) -> Played {
    let mut played = Played { marks: vec![0; MARKS_MAX], ..Played::default() };
    for seed in seeds {
        played.runs += 1;
        let mut what = Ok(());
        if let Err(error) = with_stage::<K>(seed, &mut played.marks, &mut |stage| what = stage.play()) {
            what = Err(error);
        }
        if let Err(what) = what {
            played.finding = Some((seed, what));
            break;
        }
    }
    played
}

fn with_stage<K: TreeKind>(
    seed: u64,
    marks: &mut [u64],
    play: &mut dyn FnMut(&mut Stage<'_, '_>),
) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x5eed_0008);
    let scenario =
        [Scenario::SplitAndStaleCopies, Scenario::SplitAndPausedOperation, Scenario::Merge][rng.below(3) as usize];
    // Places in limbo are not available while a merge is paused.
    let generations = if scenario == Scenario::Merge || rng.percent(40) { GENERATIONS } else { 2 };
    let (parameters, keys) = K::reuse_case().ok_or("an index without a part in epochs")?;
    let node_bytes = parameters.node_bytes();
    let pool = PoolLayout::of(&parameters, 61, node_bytes.0.max(node_bytes.1).next_multiple_of(4096) as u64);
    let is_radix = pool.tree().is_none();
    let (scenario, generations) = if is_radix { (Scenario::RadixTree, 2) } else { (scenario, generations) };
    let scenario = if K::HAS_EMPTY_PARTS && rng.percent(50) { Scenario::EmptyParts } else { scenario };
    let config =
        Config { rows_used_up: rows_used_up(seed), ..Config::with_nodes(1 + rng.below(2) as usize, 512 << 10) };
    let geometry = pool.geometry(&config);
    let mut memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    pool.format(&config, &mut memories);
    pool.format_rows(&config, COMPUTE_NODES as u16, &mut memories);
    let options = Options {
        combine: rng.percent(60),
        chain_lock_read: if rng.percent(40) { ChainedRead::Always } else { ChainedRead::Never },
        entry_writes: rng.percent(70),
        // The paused operation may hold a lock, and other lanes of its compute node would queue for it.
        hierarchical: !is_radix,
        ..Options::default()
    };
    let spending = |number: usize| Spending {
        lanes: LANES,
        cache_bytes: if number == WITHOUT_CACHE { 0 } else { 64 << 10 },
        page_records: 64,
        returned_nodes: 256,
        generations,
        options,
        ..Spending::default()
    };
    let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
        let (epochs, pins): (_, [_; LANES]) = (Epochs::new(), std::array::from_fn(|_| Pin::default()));
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        let place = Place { epochs, ..walk::place(&geometry, &config, config.guarantees(), number as u16) };
        with_index(&place, &parameters, &spending(number), |index| then(&With(&index, None)))
            .map_err(|error| error.to_string())
    };
    let mut memories = Some(memories);
    walk::open_all(COMPUTE_NODES, &open, &[], &mut |opened| {
        let Some(memories) = memories.take() else { return };
        let mut scratch = vec![vec![0; opened[0].plan().total_bytes]; COMPUTE_NODES * LANES];
        let lanes = (0..).zip(&mut scratch).map(|(at, bytes)| Lane::new(LaneId(at % LANES as u16), bytes));
        let lanes: Vec<Lane<'_>> = lanes.collect();
        play(&mut Stage {
            scenario,
            coding: if is_radix {
                // With few large digits, nodes fill up; with many small ones, keys compete for slots.
                let digits = Digits { bits: 2 + rng.below(3), stride: 1 + rng.below(2) as usize };
                Coding { digits: Some(digits), ..Coding::shifted(0) }
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
            for mark in dm_core::rooms::MARKS {
                marks[mark.number()] += u64::from(lane.marked(*mark));
            }
        }
    })
}

/// Rows before those of the compute nodes. With some, these are not among the rows that a turn READs first.
fn rows_used_up(seed: u64) -> u16 {
    // From a stream of its own, so that nothing else that is drawn depends on it.
    let mut rng = Rng::new(seed ^ 0x5eed_0031);
    if rng.percent(ROWS_USED_UP_PERCENT) { (ROWS_READ_AT_ONCE + rng.below(ROWS_READ_AT_ONCE)) as u16 } else { 0 }
}

/// Where driving a future ended.
enum Drive<T> {
    Done(T),
    /// Before the first submit that must not be executed.
    Stopped,
    /// The future waits for another lane of its compute node.
    Parked,
}

struct Stage<'a, 'm> {
    scenario: Scenario,
    coding: Coding,
    opened: &'a [&'a dyn Opened],
    lanes: &'a [Lane<'m>],
    fabric: DirectFabric,
    rng: Rng,
    keys: u64,
    history: History,
    now_ns: u64,
}

/// A paused operation.
struct PausedOperation<'a> {
    node: usize,
    lane: usize,
    operation: OpId,
    future: Op<'a, Ended>,
    /// The operation has ended.
    ended: bool,
}

impl<'a, 'm> Stage<'a, 'm> {
    fn play(&mut self) -> Result<(), String> {
        match self.scenario {
            Scenario::SplitAndStaleCopies | Scenario::SplitAndPausedOperation => self.pause_a_split(),
            Scenario::Merge => self.pause_a_merge(),
            Scenario::RadixTree => self.pause_any_operation(),
            Scenario::EmptyParts => self.fill_empty_parts(),
        }?;
        for node in 0..COMPUTE_NODES {
            (0..2 * self.keys).try_for_each(|key| self.point(node, 0, key, Call::Get))?;
        }
        let (index, lane) = (self.opened[WITHOUT_CACHE], self.lane(WITHOUT_CACHE, 0));
        match self.alone(lane, index.validate(lane))?.and_then(Census::at_rest) {
            Ok(_) => {}
            Err(error) => return Err(format!("{:?}: the tree: {error}", self.scenario)),
        }
        match Checker::default().check(&self.history) {
            Verdict::Linearizable => Ok(()),
            Verdict::Violation(violation) => Err(format!("{:?}: {violation}", self.scenario)),
            Verdict::TooHard { key, why } => Err(format!("key {key} cannot be judged: {why:?}")),
        }
    }

    fn pause_a_split(&mut self) -> Result<(), String> {
        let keys = self.order();
        self.fill(&keys)?;
        (0..self.keys).try_for_each(|key| self.point(WITH_OLD_COPIES, 0, key, Call::Get))?;
        let mut under_way = None;
        if self.scenario == Scenario::SplitAndPausedOperation {
            let key = self.key();
            let call = self.write();
            let submits = self.rng.below(2);
            under_way = Some(self.begin(WITH_OLD_COPIES, 0, key, call, submits)?);
        }
        // The second round brings the generations of the first round again.
        self.empty(&keys)?;
        self.fill(&keys)?;
        self.empty(&keys)?;
        let paused_at = self.rng.below(self.keys as u32) as usize;
        let submits = 1 + self.rng.below(12);
        let (before, after) = keys.split_at(paused_at);
        self.fill(before)?;
        let Some((&first, rest)) = after.split_first() else { return Ok(()) };
        let call = self.write();
        let mut paused = self.begin(CHURNING, 0, first, call, submits)?;
        if let Some(under_way) = &mut under_way {
            self.go_on(under_way)?;
        }
        if self.scenario == Scenario::SplitAndStaleCopies {
            for _ in 0..6 {
                let (key, call) = (self.key(), self.write());
                self.point(WITH_OLD_COPIES, 1, key, call)?;
            }
        }
        (0..self.keys).try_for_each(|key| self.point(WITHOUT_CACHE, 0, key, Call::Get))?;
        self.go_on(&mut paused)?;
        self.fill(rest)
    }

    fn pause_a_merge(&mut self) -> Result<(), String> {
        let keys = self.order();
        self.fill(&keys)?;
        let paused_at = 1 + self.rng.below(self.keys as u32 - 1) as usize;
        let submits = self.rng.below(24);
        self.empty(&keys[..paused_at])?;
        let Some(&key) = keys.get(paused_at) else { return Ok(()) };
        let mut paused = self.begin(CHURNING, 0, key, Call::Delete, submits)?;
        // Keys between those that exist: full leaves split.
        let mut waits = None;
        for _ in 0..self.keys {
            let (key, call) = (self.key() + self.keys, self.write());
            let next = self.begin(CHURNING, 1, key, call, u32::MAX)?;
            if !next.ended {
                waits = Some(next);
                break;
            }
        }
        (0..2 * self.keys).try_for_each(|key| self.point(WITHOUT_CACHE, 0, key, Call::Get))?;
        self.go_on(&mut paused)?;
        waits.as_mut().map_or(Ok(()), |waits| self.go_on(waits))
    }

    /// Keys are inserted and deleted, so that nodes are replaced and deleted leaves leave the tree. Turns pass
    /// meanwhile. In each round one operation is paused for a while: one of the compute node with old copies, or one of
    /// the writing compute node.
    fn pause_any_operation(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            self.churn(WRITES, true)?;
            (0..2 * self.keys).step_by(3).try_for_each(|key| self.point(WITH_OLD_COPIES, 1, key, Call::Get))?;
            let (node, lane) = if self.rng.percent(60) { (WITH_OLD_COPIES, 0) } else { (CHURNING, 1) };
            let (key, submits) = (u64::from(self.rng.below(2 * self.keys as u32)), self.rng.below(10));
            let call = match self.rng.below(5) {
                0 | 1 => Call::Get,
                2 => Call::Delete,
                _ => self.write(),
            };
            let mut paused = self.begin(node, lane, key, call, submits)?;
            // Without its turns, the compute node keeps its old copies.
            let all = self.rng.percent(70);
            self.churn(WRITES, all)?;
            for _ in 0..4 {
                let key = u64::from(self.rng.below(2 * self.keys as u32));
                self.point(WITH_OLD_COPIES, 1, key, Call::Get)?;
            }
            self.go_on(&mut paused)?;
        }
        Ok(())
    }

    /// Keys come in ascending order, a few at a time from each of several parts of the tree, and leaves are cut as far
    /// down as they agree. Meanwhile the compute node with old copies asks for keys that are not there yet, in parts of
    /// which it then has copies; and for keys that have just come.
    fn fill_empty_parts(&mut self) -> Result<(), String> {
        let parts = 1 + self.rng.below(6);
        for _ in 0..parts {
            let first = u64::from(self.rng.below(2 * self.keys as u32));
            let count = 4 + u64::from(self.rng.below(16));
            for key in first..(first + count).min(2 * self.keys) {
                if self.rng.percent(30) {
                    let other = u64::from(self.rng.below(2 * self.keys as u32));
                    self.point(WITH_OLD_COPIES, 1, other, Call::Get)?;
                }
                let call = self.write();
                self.point(CHURNING, 0, key, call)?;
                if self.rng.percent(30) {
                    self.point(WITH_OLD_COPIES, 1, key, Call::Get)?;
                }
            }
        }
        Ok(())
    }

    /// Upserts and deletes any keys. Turns pass on all compute nodes, or on all but the one with old copies.
    fn churn(&mut self, writes: u32, all: bool) -> Result<(), String> {
        for _ in 0..writes {
            let key = u64::from(self.rng.below(2 * self.keys as u32));
            let call = if self.rng.percent(50) { Call::Delete } else { self.write() };
            let node = if self.rng.percent(80) { CHURNING } else { WITHOUT_CACHE };
            self.point(node, 0, key, call)?;
            if self.rng.percent(TURNS_PERCENT) {
                self.turn(0, all)?;
            }
        }
        Ok(())
    }

    /// A turn of all compute nodes, or of all but the one with old copies.
    fn turn(&mut self, lane_of_churning: usize, all: bool) -> Result<(), String> {
        for node in 0..COMPUTE_NODES {
            if node != WITH_OLD_COPIES || all {
                let lane = if node == CHURNING { lane_of_churning } else { 1 };
                let (index, lane) = (self.opened[node], self.lane(node, lane));
                self.alone(lane, index.turn(lane))?.map_err(|error| format!("a turn: {error}"))?;
                // A compute node that did nothing lately gives up closed places here, too.
                if index.demand_collection() && self.rng.percent(COLLECTIONS_PERCENT) {
                    self.alone(lane, index.collect_orphans(lane))?.map_err(|error| format!("a collection: {error}"))?;
                }
            }
        }
        Ok(())
    }

    // ---- the steps ------------------------------------------------------------------------------------------------

    /// The keys in ascending order, but for a few.
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

    /// A write whose value names the operation that wrote it.
    fn write(&self) -> Call {
        Call::Upsert { value: self.history.operations().len() as u64 }
    }

    fn fill(&mut self, keys: &[u64]) -> Result<(), String> {
        keys.iter().try_for_each(|&key| {
            let call = self.write();
            self.point(CHURNING, 0, key, call)
        })
    }

    /// Deletes the keys, and lets turns pass until limbo lists give the places back. In `SplitAndStaleCopies`, the
    /// compute node with old copies takes part in the turns only sometimes.
    fn empty(&mut self, keys: &[u64]) -> Result<(), String> {
        keys.iter().rev().try_for_each(|&key| self.point(CHURNING, 0, key, Call::Delete))?;
        let all = self.scenario != Scenario::SplitAndStaleCopies || self.rng.percent(30);
        (0..TURNS).try_for_each(|_| self.turn(1, all))
    }

    fn lane(&self, node: usize, lane: usize) -> &'a Lane<'m> {
        let lanes: &'a [Lane<'m>] = self.lanes;
        &lanes[node * LANES + lane]
    }

    /// Runs a point operation from beginning to end.
    fn point(&mut self, node: usize, lane: usize, key: u64, call: Call) -> Result<(), String> {
        let paused = self.begin(node, lane, key, call, u32::MAX)?;
        if paused.ended { Ok(()) } else { Err(format!("{call:?} of key {key} waits for a lane that does nothing")) }
    }

    /// Begins a point operation and executes `submits` of its submits.
    fn begin(
        &mut self,
        node: usize,
        lane: usize,
        key: u64,
        call: Call,
        submits: u32,
    ) -> Result<PausedOperation<'a>, String> {
        self.now_ns += 1;
        let at = LaneAt::new(node as u16, lane as u16);
        let operation = self.history.invoke(at, self.now_ns, key, call);
        let future = start(self.opened[node], self.lane(node, lane), self.coding, key, call, DEADLINE_NS);
        let mut paused = PausedOperation { node, lane, operation, future, ended: false };
        self.lane(node, lane).port().start();
        let driven = self.drive(self.lane(node, lane), paused.future.as_mut(), submits, false)?;
        self.note(&mut paused, driven)?;
        Ok(paused)
    }

    /// Continues a paused operation to its end.
    fn go_on(&mut self, paused: &mut PausedOperation<'a>) -> Result<(), String> {
        for _ in 0..PARKS_MAX {
            if paused.ended {
                return Ok(());
            }
            let driven = self.drive(self.lane(paused.node, paused.lane), paused.future.as_mut(), u32::MAX, true)?;
            self.note(paused, driven)?;
        }
        Err("waits for a lane that does nothing".to_owned())
    }

    fn note(&mut self, paused: &mut PausedOperation<'a>, driven: Drive<Ended>) -> Result<(), String> {
        let Drive::Done(ended) = driven else { return Ok(()) };
        paused.ended = true;
        self.now_ns += 1;
        let (index, lane) = (self.opened[paused.node], self.lane(paused.node, paused.lane));
        let answer = match ended {
            Ended::Point(answer) => answer,
            Ended::Failed(error) => {
                let excused = matches!(error.cause, Cause::Deadline { .. });
                if !excused {
                    let line = self.history.line(paused.operation);
                    return Err(format!("{:?}: {line} failed: {error}", self.scenario));
                }
                Answer::Failed(error.effect)
            }
            other => return Err(format!("a point operation ends with {other:?}")),
        };
        self.history.respond(paused.operation, self.now_ns, answer);
        if lane.in_doubt() {
            self.alone(lane, index.settle(lane))?.map_err(|error| format!("settling: {error}"))?;
            self.history.close(paused.operation, self.now_ns);
        }
        Ok(())
    }

    /// Drives a future to its end, with no other lane running.
    fn alone<T>(&mut self, lane: &Lane<'m>, mut future: Boxed<'_, T>) -> Result<Result<T, OpError>, String> {
        lane.port().start();
        match self.drive(lane, future.as_mut(), u32::MAX, false)? {
            Drive::Done(result) => Ok(result),
            Drive::Stopped | Drive::Parked => Err("waits for a lane that does nothing".to_owned()),
        }
    }

    /// Polls the future, and executes up to `submits` submits. `again`: the requests in the port were not executed yet,
    /// or the future waited for another lane and that wait is over.
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
