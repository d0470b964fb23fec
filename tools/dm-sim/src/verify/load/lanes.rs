//! Keeps lanes busy, and records what they answer.

use super::calls::start_asking;
use super::{BEGINNING_STEPS, Doing, Ended, Load, TURNS_APART_NS};
use crate::check::{Answer, OpId, Record};
use crate::compute_node::ComputeNode;
use crate::direct::DirectFabric;
use crate::driver::{Driver, LaneAt, Op};
use crate::run::block_on;
use crate::verify::faults::{FaultKind, Planned};
use crate::verify::wide::WideOption;
use crate::workload::Workload;
use dm_core::error::VerbError;
use dm_core::lane::Lane;
use dm_core::operation::{Cause, OpError};
use dm_core::remote::catalog::IndexSet;
use dm_core::verbs::{LaneId, NodeId, Request, Status};

/// Of 100 calls of a lane between operations, so many are orphan collections; the rest are turns.
const COLLECTIONS_PERCENT: u32 = 30;

/// Of 100 calls of a lane after a death, so many are sweeps, in histories with [`WideOption::Sweeps`].
const SWEEPS_PERCENT: u32 = 6;

/// Of 100 calls of a lane between operations, so many look after parts, in histories with [`WideOption::Moves`].
const PARTS_PERCENT: u32 = 25;

/// Of 100 of these, so many have a part moved; the others do what was asked for.
const MOVES_PERCENT: u32 = 40;

/// Of 100 operations with the option cuts, so many have a part cut before them.
const CUTS_PERCENT: u32 = 6;
/// The same of parts whose nodes leave a memory node.
const VACATES_PERCENT: u32 = 6;
/// No part is vacated any more after so many nodes have moved. Here one part may be vacated again and again, and the parts beside it
/// never: then links lead from each old place of a leaf to the next one, and a walk follows 64 of them at most.
const MOVED_MAX: u64 = 40;

/// How long a lane waits at most for a part that it has moved, in ns: some hundred requests.
const MOVE_WAIT_NS: u64 = 1_000_000;

/// Heartbeats that a lane waits for whose compute node is silent: a silence is shorter.
const HEARTBEATS_AWAITED: u32 = 64;

/// Settlings of one lane that queue-pair errors may interrupt.
const SETTLINGS_MAX: u32 = 1000;

/// Whether another compute node owns a key, or executes an operation for this one and has troubles of its own.
fn is_of_an_owner(error: &OpError) -> bool {
    matches!(error.cause, Cause::NotOwner { .. } | Cause::AtOwner { .. } | Cause::Deadline { .. })
}

/// Whether a request failed. A step that pushes more requests than a submit can have is at fault itself.
fn is_of_a_request(error: &OpError) -> bool {
    matches!(error.cause, Cause::Verb(error) if error != VerbError::OVERFLOW)
}

impl<'a> Load<'a, '_> {
    /// Begins an operation that was invoked. A scan asks for `asked` records.
    fn ask(&mut self, at: LaneAt, operation: OpId, asked: u32) -> Op<'a, Ended> {
        let (index, lane) = self.lane(at);
        *self.doing(at) = Doing::Operation(operation);
        let Record { key, call, .. } = *self.history.operation(operation);
        start_asking(index, lane, self.coding, key, (call, asked), self.draw.deadline_ns, self.forwarder)
    }

    /// Settles the lane at once, as hosts do. The settling itself finds out whether queue pairs are closed. If the compute
    /// node's own clock says that its lease is over, the lane waits for heartbeats first.
    fn settling(&self, at: LaneAt) -> Op<'a, Ended> {
        let (index, lane) = self.lane(at);
        let lease = self.clocks.as_ref().and_then(|_| index.lease());
        Box::pin(async move {
            let (mut interrupted, mut silent) = (0, 0);
            loop {
                if let Some(lease) = lease.filter(|lease| !lease.may_write() && !lease.is_fenced())
                    && silent < HEARTBEATS_AWAITED
                {
                    silent += 1;
                    let _ = lane.port().call(Request::pause(lease.config().heartbeat_ns())).await;
                    continue;
                }
                match index.settle(lane).await {
                    Err(OpError { cause: Cause::Verb(error), .. })
                        if error.status == Status::Flushed && interrupted < SETTLINGS_MAX =>
                    {
                        interrupted += 1;
                    }
                    result => return Ended::Settled(result),
                }
            }
        })
    }

    /// Makes a turn of every compute node that lives, as its heartbeats would: a newcomer in a row that was another one's waits
    /// for the epochs of all, and so does an operation that waits for memory. A compute node whose lanes all wait, or have
    /// nothing to do, makes no other turn, and only these turns tell it that a compute node which holds the epochs up is dead.
    ///
    /// A turn takes no time here, and is not in the log. Turns of lanes are those that meet other requests.
    fn make_turns(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        let now_ns = driver.now_ns();
        let since_ns = now_ns - self.turned_ns;
        if since_ns < TURNS_APART_NS {
            return;
        }
        self.turned_ns = now_ns;
        let world = driver.world();
        let config = world.config().clone();
        let mut fabric = DirectFabric::over(&config, world.memories_mut());
        self.injected.down.iter().for_each(|node| fabric.set_down(*node));
        for (node, index) in (0..).map(ComputeNode).zip(&self.opened) {
            let is_silent = self.clocks.as_ref().is_some_and(|clocks| clocks.is_silent(node, now_ns));
            if !index.has_epochs() || is_silent || self.injected.dead.contains(&node) {
                continue;
            }
            let mut scratch = vec![0; index.plan().total_bytes];
            let lane = Lane::new(LaneId(0), &mut scratch);
            let lease_ns = index.lease().map_or(u64::MAX, |lease| lease.config().lease_ns());
            // One that others have fenced ends when it reads that.
            let _ = block_on(&lane, &mut fabric, index.turn_after(&lane, (lease_ns, since_ns)));
        }
    }

    /// Whether requests of compute nodes that live may have failed so far.
    fn requests_may_fail(&self) -> bool {
        let has = |kind| self.injected.counts[kind as usize] > 0;
        has(FaultKind::QpError) || has(FaultKind::NodeDeath) || self.draw.wide.fences_the_living()
    }

    /// Whose row `by` sweeps now, if it does: of a dead compute node, or, if leases are short, of any other one.
    fn row_to_sweep(&mut self, by: ComputeNode) -> Option<ComputeNode> {
        let wide = self.draw.wide;
        if !wide.has_any(&[WideOption::Sweeps, WideOption::Rejoin]) || !self.wide.percent(SWEEPS_PERCENT) {
            return None;
        }
        let all = wide.fences_the_living();
        let others = (0..self.opened.len() as u16).map(ComputeNode).filter(|other| *other != by);
        let is_last = |of: &ComputeNode| !self.rows[usize::from(of.0) + 1..].contains(&self.rows[usize::from(of.0)]);
        let others = others.filter(|other| all || self.injected.dead.contains(other)).filter(is_last);
        let rows: Vec<ComputeNode> = others.collect();
        rows.get(self.wide.below(rows.len() as u32) as usize).copied()
    }
}

impl<'a> Workload<'a, Ended> for Load<'a, '_> {
    fn invoke(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, Ended>> {
        if let Doing::Doubt(operation) = *self.doing(at) {
            *self.doing(at) = Doing::Settling(operation);
            return Some(self.settling(at));
        }
        if !self.has_opened(at.compute_node) {
            return None;
        }
        if let Some(serves) = self.serve(at, now_ns) {
            return Some(serves);
        }
        if let Some(operation) = self.packs.take_alone(at) {
            return Some(self.ask(at, operation, 0));
        }
        let (index, lane) = self.lane(at);
        if self.left > 0
            && self.draw.turns_percent > 0
            && index.has_epochs()
            && self.turns.percent(self.draw.turns_percent)
        {
            *self.doing(at) = Doing::Turn;
            if self.turns.percent(COLLECTIONS_PERCENT) {
                *self.doing(at) = Doing::OrphanCollection;
                return Some(Box::pin(async move { Ended::CollectedOrphans(index.collect_orphans(lane).await) }));
            }
            return Some(Box::pin(async move { Ended::Turned(index.turn(lane).await) }));
        }
        if self.left > 0
            && let Some(of) = self.row_to_sweep(at.compute_node)
        {
            let row = self.rows[usize::from(of.0)];
            *self.doing(at) = Doing::Sweep(of);
            return Some(Box::pin(async move { Ended::Swept(index.sweep(lane, row, IndexSet::default()).await) }));
        }
        if self.left > 0
            && index.has_owners()
            && self.draw.wide.has(WideOption::Moves)
            && self.wide.percent(PARTS_PERCENT)
        {
            if !self.wide.percent(MOVES_PERCENT) {
                *self.doing(at) = Doing::Keep;
                return Some(Box::pin(async move { Ended::Moved(index.keep_parts(lane).await) }));
            }
            *self.doing(at) = Doing::Move;
            let drawn = self.wide.below(u32::MAX);
            let to = self.rows[self.wide.below(self.rows.len() as u32) as usize];
            return Some(Box::pin(async move {
                let moved = match index.parts(lane).await {
                    Ok(parts) => index.move_part(lane, drawn % parts.max(1), to, MOVE_WAIT_NS).await,
                    Err(error) => Err(error),
                };
                Ended::Moved(moved)
            }));
        }
        if self.left > 0
            && index.has_owners()
            && self.draw.wide.has(WideOption::Cuts)
            && self.wide.percent(CUTS_PERCENT)
        {
            *self.doing(at) = Doing::Cut;
            let mut key = vec![0; index.plan().key.len()];
            self.coding.write_key(u64::from(self.wide.below(self.draw.keys)), &mut key);
            return Some(Box::pin(async move { Ended::Moved(index.cut_part(lane, &key, MOVE_WAIT_NS).await) }));
        }
        if self.left > 0
            && index.has_owners()
            && self.draw.wide.has(WideOption::Vacates)
            && self.met[WideOption::Vacates as usize] < MOVED_MAX
            && self.wide.percent(VACATES_PERCENT)
        {
            *self.doing(at) = Doing::Vacate;
            let (drawn, me) = (self.wide.below(u32::MAX), self.rows[usize::from(at.compute_node.0)]);
            let from = NodeId(self.wide.below(self.draw.memory_nodes) as u16);
            return Some(Box::pin(async move {
                let vacated = match index.parts(lane).await {
                    Ok(parts) => {
                        // One of its own, if it has any.
                        let is_mine = |part: &u32| index.owner_of_part(*part) == Some(me);
                        let mine: Vec<u32> = (0..parts).filter(is_mine).collect();
                        let part = mine.get(drawn as usize % mine.len().max(1)).copied();
                        let part = part.unwrap_or(drawn % parts.max(1));
                        index.vacate_part(lane, part, from, MOVE_WAIT_NS).await
                    }
                    Err(error) => Err(error),
                };
                Ended::Vacated(vacated)
            }));
        }
        self.left = self.left.checked_sub(1)?;
        let (key, call, asked) = self.choose_call(index, at.compute_node);
        let operation = self.history.invoke(at, now_ns, key, call);
        self.pack(at, now_ns, operation).or_else(|| Some(self.ask(at, operation, asked)))
    }

    fn respond(&mut self, at: LaneAt, now_ns: u64, result: Ended) {
        let doing = std::mem::replace(self.doing(at), Doing::Nothing);
        self.has_ended = true;
        let is_done = result.is_done();
        if let Ended::Joined(result) = result {
            return self.joined(at.compute_node, *result);
        }
        if self.draw.wide.fences_the_living() && result.is_fenced() {
            let has_lapsed = self.clocks.as_ref().is_some_and(|clocks| clocks.has_lapsed(at.compute_node));
            if !has_lapsed {
                self.noticed.push(at.compute_node);
                *self.doing(at) = doing;
                return;
            }
            self.met[WideOption::LeaseClocks as usize] += 1;
            let operation = match doing {
                Doing::Operation(operation) => Some(operation),
                Doing::Settling(operation) => operation,
                _ => None,
            };
            if let (Doing::Operation(operation), Ended::Failed(error)) = (doing, result) {
                self.history.respond(operation, now_ns, Answer::Failed(error.effect));
                self.fail(Some(operation), error);
            }
            // It settles when its heartbeats come again.
            *self.doing(at) = Doing::Doubt(operation);
            return;
        }
        match (doing, result) {
            (Doing::Operation(operation), Ended::Point(answer)) => {
                self.history.respond(operation, now_ns, answer);
                self.learn(operation, answer);
            }
            (Doing::Operation(operation), Ended::Page(page, more)) => {
                self.history.respond_page(operation, now_ns, page, more);
            }
            (Doing::Operation(operation), Ended::Failed(error)) => {
                self.history.respond(operation, now_ns, Answer::Failed(error.effect));
                self.fail(Some(operation), error);
            }
            (Doing::Pack, Ended::Packed(results)) => {
                if self.unpack(at, now_ns, results) {
                    *self.doing(at) = Doing::Doubt(None);
                }
            }
            (Doing::Serve, Ended::Served(answer, result)) => self.served(at, answer, result),
            (Doing::Turn, Ended::Turned(Ok(()))) | (Doing::OrphanCollection, Ended::CollectedOrphans(Ok(_))) => {}
            (Doing::Sweep(of), Ended::Swept(Ok(swept))) => {
                self.met[WideOption::Sweeps as usize] += u64::from(swept.row_free);
                if swept.row_free && self.injected.dead.contains(&of) {
                    self.history.close_all_of(of, now_ns);
                    self.may_come_back(true, now_ns);
                }
            }
            (Doing::Vacate, Ended::Vacated(result)) => match result {
                Ok(moved) => self.met[WideOption::Vacates as usize] += moved,
                // It does not own the part, or not any more; no other memory node has room, or there is none.
                Err(OpError {
                    cause:
                        Cause::Deadline { .. }
                        | Cause::NotOwner { .. }
                        | Cause::BadInput(_)
                        | Cause::PoolFull
                        | Cause::NodeFull { .. },
                    ..
                }) => {}
                Err(error) if is_of_a_request(&error) => {}
                Err(error) => self.fail(None, error),
            },
            (Doing::Move | Doing::Keep | Doing::Cut, Ended::Moved(result)) => match result {
                Ok(()) if doing == Doing::Cut => self.met[WideOption::Cuts as usize] += 1,
                Ok(()) => self.met[WideOption::Moves as usize] += u64::from(doing == Doing::Move),
                // The owner was not at it, or has died; the row has not opened the index, or its compute node has died.
                Err(OpError {
                    cause: Cause::Deadline { .. } | Cause::NotOwner { .. } | Cause::BadInput(_), ..
                }) => {}
                Err(error) if is_of_a_request(&error) => {}
                // It has not opened the index yet, and there is no room for its log.
                Err(OpError { cause: Cause::PoolFull, .. }) if self.draw.wide.has(WideOption::SmallPool) => {}
                Err(error) => self.fail(None, error),
            },
            (Doing::Sweep(_), Ended::Swept(Err(error)))
            | (Doing::Turn, Ended::Turned(Err(error)))
            | (Doing::OrphanCollection, Ended::CollectedOrphans(Err(error))) => {
                // After a failed request, the next sweep, turn or orphan collection does the work. So does the next collection whose
                // walk meets an owner that does not answer, or finds no room for the log without which the index is not open.
                let walks = doing == Doing::OrphanCollection && self.opened[0].forwards_steps();
                let is_full = error.cause == Cause::PoolFull && self.draw.wide.has(WideOption::SmallPool);
                if !(is_of_a_request(&error) || walks && (is_of_an_owner(&error) || is_full)) {
                    self.fail(None, error);
                }
            }
            (Doing::Settling(operation), Ended::Settled(result)) => match result {
                Ok(()) => {
                    if let Some(operation) = operation {
                        self.history.close(operation, now_ns);
                    }
                }
                Err(error) => self.fail(None, error),
            },
            (doing, result) => unreachable!("{at} was {doing:?} and ended with {result:?}"),
        }
        // An operation may succeed and leave the lane in doubt, if something beyond its own change failed.
        let (_, lane) = self.lane(at);
        if is_done && !self.requests_may_fail() && !lane.lock_records().is_empty() {
            let what = match doing {
                Doing::Operation(operation) => self.history.line(operation),
                doing => format!("{at}: {doing:?}"),
            };
            self.kept_locks.push(format!("{what} ended, and the lane has lock records {:?}", lane.lock_records()));
        }
        match doing {
            Doing::Operation(operation) if lane.is_unsettled() || self.history.is_unknown(operation) => {
                *self.doing(at) = Doing::Doubt(Some(operation));
            }
            Doing::Pack
            | Doing::Turn
            | Doing::OrphanCollection
            | Doing::Sweep(_)
            | Doing::Move
            | Doing::Keep
            | Doing::Cut
            | Doing::Vacate
            | Doing::Serve
                if lane.is_unsettled() =>
            {
                *self.doing(at) = Doing::Doubt(None);
            }
            _ => {}
        }
    }

    fn abandoned(&mut self, at: LaneAt, _: u64) -> Option<Op<'a, Ended>> {
        Some(self.settling(at))
    }

    fn pauses(&self) -> bool {
        self.newcomers.joined.is_some()
    }

    fn before_step(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if driver.steps() >= BEGINNING_STEPS {
            self.left = 0;
        }
        self.look_for_chunks(driver);
        self.explain(driver.world());
        self.pass_calls(driver);
        self.close_inherited(driver);
        if let Some(clocks) = &mut self.clocks
            && let Some(next_ns) = driver.next_ns()
        {
            clocks.tick(next_ns, driver.world().memories_mut(), &self.injected.dead);
        }
        if self.draw.wide.has(WideOption::Rejoin) {
            self.let_join(driver);
        }
        self.end_the_fenced(driver);
        if self.draw.wide.has(WideOption::Rejoin) {
            self.make_turns(driver);
        }
        if let Some(damage) = &mut self.damage {
            damage.strike(driver.steps(), driver.world().memories_mut());
        }
        while let Some(&Planned { step, fault }) = self.draw.plan.faults.get(self.planned)
            && step <= driver.steps()
            && self.inject(driver, fault)
        {
            self.planned += 1;
        }
        let now_ns = driver.now_ns();
        while let Some(due) = self.consequences.iter().position(|(at_ns, _)| *at_ns <= now_ns) {
            let (_, what) = self.consequences.remove(due);
            self.carry_out(driver, what);
        }
    }
}
