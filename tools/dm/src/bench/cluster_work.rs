//! What the lanes of a simulated cluster do: clients run operations; where parts of the keys move, one lane of each compute node
//! keeps its parts, as the keeper of a session does.
//!
//! ```text
//!  a compute node's lanes:  clients ... clients | keeper, idle ...   (one thread more than the clients have)
//! ```
//!
//! **A move** ([`Moves`]) begins when its time has come: the donor's keeper runs [`Index::move_part`] for the upper half of the
//! donor's parts, one after the other, and every compute node's keeper runs [`Index::keep_parts`] every [`KEEP_NS`] of virtual time.
//! The donor itself asks for each move, so it does not wait for its own keeper to look.
//!
//! **Clients** of a compute node draw keys of the parts that it has. They learn at once that the donor has given a part up: from then
//! on the receiver's clients draw its keys, and the first of their operations takes the part. An operation of the donor that comes to
//! a part while it is given up waits until that is done, as it would with a session, and is refused then. It is counted as refused,
//! in no other number, and its client draws another one.
//!
//! [`Index::move_part`]: dm_core::index::Index::move_part
//! [`Index::keep_parts`]: dm_core::index::Index::keep_parts

use super::generator::{Generator, Shared};
use super::over_time::OverTime;
use super::owners::Owners;
use crate::failure::Failure;
use crate::report::simulation::Repartition;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::{Cause, OpError, Operation, Outcome, ScratchPlan};
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::Request;
use dm_host::worker::{Finished, Next, Work};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// How often a compute node looks whether others have asked for its parts: as often as a session.
const KEEP_NS: u64 = 20_000_000;

/// How long a part may take to move.
const MOVE_NS_MAX: u64 = 10_000_000_000;

/// Operations between two looks at the time, if nothing depends on it.
const BATCH: u64 = 65_536;

/// The row of a compute node.
pub(super) fn row_of(compute_node: u32) -> RowId {
    RowId(compute_node as u16 + 1)
}

/// What a keeper does next, instead of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// Gives up what others ask for, and takes what is kept for its compute node.
    Keep,
    /// Moves a part.
    Move { part: u32, to: RowId },
}

/// Runs a task, or else the operation.
pub(super) async fn run_one<I: Index>(
    index: &I,
    lane: &Lane<'_>,
    operation: Operation,
    task: Option<Task>,
) -> Result<Outcome, OpError> {
    match task {
        None => return index.execute(lane, operation).await,
        Some(Task::Keep) => index.keep_parts(lane).await?,
        Some(Task::Move { part, to }) => index.move_part(lane, part, to, MOVE_NS_MAX).await?,
    }
    // Nobody looks at it.
    Ok(Outcome::Updated)
}

/// Parts that move from one compute node to another during a run.
pub(super) struct Moves<'a> {
    donor: u32,
    receiver: u32,
    /// Those that move.
    parts: Range<u32>,
    /// The first of them that the donor has not given up.
    next: u32,
    /// That one was asked for.
    is_asked: bool,
    /// How long after counting begins.
    after_ns: u64,
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
    /// Virtual time at the end of the last operation.
    now_ns: u64,
    counted_from_ns: Option<u64>,
    /// When the keeper of each compute node looked last.
    kept_ns: Vec<u64>,
    refused: u64,
    owners: &'a Owners,
    /// Whether the donor has given a part up, as far as it knows.
    is_given: &'a dyn Fn(u32) -> bool,
    /// What the lane does that begins.
    task: &'a Cell<Option<Task>>,
}

impl<'a> Moves<'a> {
    /// Moves of the upper half of the parts of the last compute node but one, to the last.
    pub(super) fn new(
        after_ns: u64,
        owners: &'a Owners,
        is_given: &'a dyn Fn(u32) -> bool,
        task: &'a Cell<Option<Task>>,
    ) -> Result<Self, Failure> {
        let (receiver, donor) = (owners.count().saturating_sub(1), owners.count().saturating_sub(2));
        let parts = donor_parts(owners);
        if parts.is_empty() {
            return Err(Failure::Usage(
                "--repartition-at: each compute node owns one part of the keys, and half of a part does not move"
                    .to_owned(),
            ));
        }
        Ok(Self {
            donor,
            receiver,
            next: parts.start,
            parts,
            is_asked: false,
            after_ns,
            began_ns: None,
            ended_ns: None,
            now_ns: 0,
            counted_from_ns: None,
            kept_ns: vec![0; owners.count() as usize],
            refused: 0,
            owners,
            is_given,
            task,
        })
    }

    /// What the keeper of a compute node does.
    fn next_task(&mut self, compute_node: u32) -> Option<Task> {
        let is_due = self.counted_from_ns.is_some_and(|from_ns| self.now_ns >= from_ns + self.after_ns);
        if compute_node == self.donor && is_due && self.next < self.parts.end && !self.is_asked {
            self.began_ns.get_or_insert(self.now_ns);
            self.is_asked = true;
            return Some(Task::Move { part: self.next, to: row_of(self.receiver) });
        }
        let kept_ns = self.kept_ns.get_mut(compute_node as usize)?;
        if self.now_ns < *kept_ns + KEEP_NS {
            return None;
        }
        *kept_ns = self.now_ns;
        Some(Task::Keep)
    }

    /// A task of a compute node's keeper has ended.
    fn task_ended(&mut self, task: Task) {
        if let Task::Move { part, .. } = task {
            self.owners.give(part, self.receiver);
            self.is_asked = false;
            self.next += 1;
        }
    }

    fn look(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if self.is_asked && (self.is_given)(self.next) {
            self.owners.give(self.next, self.receiver);
        }
        if self.next == self.parts.end {
            self.ended_ns.get_or_insert(now_ns);
        }
    }

    /// Whether the clients of a compute node have no keys to draw.
    fn has_nothing(&self, compute_node: u32) -> bool {
        compute_node == self.receiver && self.owners.parts_of(compute_node).is_empty()
    }

    /// What came of them, in time since counting began.
    pub(super) fn found(&self) -> Result<Repartition, Failure> {
        let from_ns = self.counted_from_ns.unwrap_or(0);
        let ms = |at_ns: u64| (at_ns - from_ns) as f64 / 1e6;
        let Some((began_ns, ended_ns)) = self.began_ns.zip(self.ended_ns) else {
            return Err(Failure::Run(format!(
                "the run was over {:.3} ms of virtual time after counting began, when {} of {} parts had moved: more \
                 --operations, or an earlier --repartition-at",
                ms(self.now_ns),
                self.next - self.parts.start,
                self.parts.len()
            )));
        };
        Ok(Repartition {
            donor: self.donor,
            receiver: self.receiver,
            parts: self.parts.len() as u32,
            began_ms: ms(began_ns),
            took_ms: (ended_ns - began_ns) as f64 / 1e6,
            refused_operations: self.refused,
        })
    }
}

/// The upper half of the parts of the last compute node but one.
fn donor_parts(owners: &Owners) -> Range<u32> {
    let parts = owners.parts_of(owners.count().saturating_sub(2));
    parts.end - parts.len() as u32 / 2..parts.end
}

/// Clients and keepers, on the lanes of all compute nodes.
pub(super) struct ClusterWork<'a, 's> {
    pub(super) clients: Generator<'a>,
    shared: &'s Shared<'a>,
    /// Of each lane: its compute node, its number there, and its number among all clients. Divisions for each request took 2 % of
    /// the time of a simulated get.
    places: Vec<(usize, usize, usize)>,
    clients_per_node: usize,
    /// Tasks under way, of each compute node's keeper.
    tasks: Vec<Option<Task>>,
    pub(super) moves: Option<Moves<'s>>,
    pub(super) over_time: Option<OverTime>,
    /// The compute node whose client's operation has ended since the last look.
    ended: Option<usize>,
}

impl<'a, 's> ClusterWork<'a, 's> {
    /// `clients` are as many as `clients_per_node` for each of so many compute nodes.
    pub(super) fn new(
        clients: Generator<'a>,
        shared: &'s Shared<'a>,
        (compute_nodes, lanes_per_node, clients_per_node): (usize, usize, usize),
    ) -> Self {
        let tasks = vec![None; compute_nodes];
        let place = |node, lane| (node, lane, node * clients_per_node + lane);
        let places =
            (0..compute_nodes).flat_map(|node| (0..lanes_per_node).map(move |lane| place(node, lane))).collect();
        Self { clients, shared, places, clients_per_node, tasks, moves: None, over_time: None, ended: None }
    }

    fn is_over(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn next_task(&mut self, compute_node: usize, lane: usize) -> Next {
        let is_over = self.is_over();
        let Some(moves) = &mut self.moves else { return Next::Finished };
        // Of the keeper's thread, one lane has something to do.
        if lane > self.clients_per_node || is_over {
            return Next::Finished;
        }
        let Some(task) = moves.next_task(compute_node as u32) else { return Next::Wait };
        moves.task.set(Some(task));
        self.tasks[compute_node] = Some(task);
        // Of the task, not of an operation: the one that begins the lane takes it.
        Next::Run(Operation::scan(0))
    }
}

impl Work for ClusterWork<'_, '_> {
    fn next(&mut self, at: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let (compute_node, lane, client) = self.places[at];
        if lane >= self.clients_per_node {
            return self.next_task(compute_node, lane);
        }
        if !self.is_over() && self.moves.as_ref().is_some_and(|moves| moves.has_nothing(compute_node as u32)) {
            return Next::Wait;
        }
        self.clients.next(client, scratch, plan)
    }

    fn done(&mut self, at: usize, finished: Finished<'_>) {
        let (compute_node, lane, client) = self.places[at];
        if let Some(moves) = &mut self.moves {
            if lane >= self.clients_per_node {
                match (self.tasks[compute_node].take(), finished.result) {
                    (Some(task), Ok(_)) => moves.task_ended(task),
                    (task, result) => self.shared.fail(format!("compute node {compute_node}, {task:?}: {result:?}")),
                }
                return;
            }
            if let Err(OpError { cause: Cause::NotOwner { .. }, .. }) = finished.result {
                moves.refused += u64::from(moves.counted_from_ns.is_some());
                self.clients.drop_refused(client);
                return;
            }
        }
        self.clients.done(client, finished);
        if !self.clients.is_half_done(client) {
            self.ended = Some(compute_node);
        }
    }

    fn posting(&mut self, at: usize, requests: &[Request]) {
        let (_, lane, client) = self.places[at];
        if lane < self.clients_per_node {
            self.clients.posting(client, requests);
        }
    }
}

impl Counting for ClusterWork<'_, '_> {
    fn count(&mut self, on: bool, now_ns: u64) {
        self.clients.set_counting(on);
        if on {
            self.over_time.iter_mut().for_each(|over_time| over_time.begin(now_ns));
            self.moves.iter_mut().for_each(|moves| moves.counted_from_ns = Some(now_ns));
        }
    }

    fn look(&mut self, now_ns: u64) {
        let ended = self.ended.take();
        if let Some(over_time) = &mut self.over_time {
            over_time.look(now_ns, ended);
        }
        if let Some(moves) = &mut self.moves {
            moves.look(now_ns);
        }
    }

    fn each(&self) -> u64 {
        if self.over_time.is_some() || self.moves.is_some() { 1 } else { BATCH }
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// Work that a counted run tells how far it is.
pub(super) trait Counting: Work {
    /// From now on results are gathered, or not. `now_ns`: virtual time.
    fn count(&mut self, on: bool, now_ns: u64);

    /// It is so late. Called after every [`Counting::each`] operations.
    fn look(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Operations between two looks.
    fn each(&self) -> u64 {
        BATCH
    }

    /// No lane begins more operations.
    fn stop(&mut self);
}
