//! The load of a history: starts operations on lanes, carries out faults, and records both.

use super::clocks::Clocks;
use super::coding::Coding;
use super::damage::Damage;
use super::draw::Draw;
use super::faults::{Fault, FaultKind, InjectedFaults, Moment, Planned};
use super::subject::{InnerNodeImages, Opened};
use super::tolerance::{Circumstances, Failed};
use super::wide::{WIDE_OPTIONS, WideOption};
use crate::check::{Answer, Call, History, OpId, Record};
use crate::compute_node::ComputeNode;
use crate::driver::{Driver, LaneAt, Op};
use crate::memory::Memories;
use crate::rng::Rng;
use crate::workload::Workload;
use crate::world::World;
use dm_core::lane::Lane;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{NodeId, Request, Status};

/// Of 100 calls of a lane between operations, so many are orphan collections; the rest are turns.
const COLLECTIONS_PERCENT: u32 = 30;

/// Of 100 calls of a lane after a death, so many are sweeps, in histories with [`WideOption::Sweeps`].
const SWEEPS_PERCENT: u32 = 6;

/// Of 100 scans, so many are as an option asks for.
const ODD_SCANS_PERCENT: u32 = 30;

/// Of 100 operations on an index whose keys have owners, so many are on keys of the compute node's own part; the others
/// are on any.
const HOME_PERCENT: u32 = 85;

/// How an operation ended, with what it left in the scratch.
#[derive(Clone, Debug)]
pub enum Ended {
    /// A point operation.
    Point(Answer),
    /// A scan.
    Page(Vec<(u64, u64)>, bool),
    /// Either, without success.
    Failed(OpError),
    /// `settle` after an operation that was dropped or failed.
    Settled(Result<(), OpError>),
    /// A turn.
    Turned(Result<(), OpError>),
    /// An orphan collection.
    CollectedOrphans(Result<CollectedOrphans, OpError>),
    /// A sweep of a row.
    Swept(Result<Swept, OpError>),
}

impl Ended {
    /// Whether it failed because its compute node has been fenced.
    const fn is_fenced(&self) -> bool {
        let (Self::Failed(error)
        | Self::Settled(Err(error))
        | Self::Turned(Err(error))
        | Self::CollectedOrphans(Err(error))
        | Self::Swept(Err(error))) = self
        else {
            return false;
        };
        matches!(error.cause, Cause::Fenced)
    }
}

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Operation(OpId),
    /// It makes a turn.
    Turn,
    /// It collects orphans.
    OrphanCollection,
    /// It sweeps the row of a compute node.
    Sweep(ComputeNode),
    /// Its operation, its orphan collection or its sweep failed and left it in doubt; it will be settled next.
    Doubt(Option<OpId>),
    /// Its operation, its orphan collection or its sweep was dropped or failed; the lane is being settled.
    Settling(Option<OpId>),
}

/// A later consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    /// The dead compute node's queue pairs are confirmed closed.
    Closed(ComputeNode),
    /// The failed queue pair is closed and made again.
    Reconnected(u32, NodeId),
}

/// Copies the inner nodes of the index: see [`super::subject::Subject::inner_node_images`].
pub type TakeImages<'a> = &'a dyn Fn(&Memories) -> InnerNodeImages;

/// Says what the memories are like now, after these faults.
pub type Look<'a> = &'a dyn Fn(&Memories, &InjectedFaults) -> Circumstances;

/// The workload and recorder of one history.
pub struct Load<'a, 'm> {
    draw: &'a Draw,
    opened: &'a [&'a dyn Opened],
    lanes: &'a [&'a [Lane<'m>]],
    take_images: TakeImages<'a>,
    rng: Rng,
    /// Random numbers for turns.
    turns: Rng,
    /// Random numbers for options.
    wide: Rng,
    left: u32,
    doing: Vec<Vec<Doing>>,
    /// Per key, a value that it once had: `update_if` expects it.
    known: Vec<u64>,
    /// Compute nodes that have read that they are fenced.
    noticed: Vec<ComputeNode>,
    /// Position in the plan.
    planned: usize,
    /// Steps for which the next fault has waited for its moment.
    patience: u64,
    consequences: Vec<(u64, Consequence)>,
    kept_images: Vec<InnerNodeImages>,
    /// How many were taken.
    taken: usize,
    /// Survivors take over locks of dead compute nodes, and have their queue pairs closed themselves.
    pub recovered: bool,
    /// Lease clocks that tick.
    pub(super) clocks: Option<Clocks<'a>>,
    /// Compute nodes that were fenced although their heartbeats came.
    pub(super) wronged: Vec<ComputeNode>,
    /// Bytes of memory nodes that change meanwhile.
    pub(super) damage: Option<Damage>,
    /// How numbers become keys.
    pub coding: Coding,
    /// The recorded history.
    pub history: History,
    /// Operations that failed.
    pub failed: Vec<Failed>,
    /// How many of them know what the memories were like.
    explained: usize,
    /// What tells them.
    pub look: Option<Look<'a>>,
    /// The faults that happened.
    pub injected: InjectedFaults,
    /// How often what an option asks for happened, by [`WideOption`].
    pub met: [u64; WIDE_OPTIONS],
}

/// A value below this is the number of the operation that wrote it. An initial value is this plus the key.
pub const VALUE_FIRST: u64 = 100_000;

/// After so many steps no operation begins any more. On a full pool each may wait until its deadline, which takes some
/// thousand steps, though all of them end.
pub(super) const BEGINNING_STEPS: u64 = 500_000;

/// Steps for which a fault waits for its moment; after that it happens in any case.
const PATIENCE_STEPS: u64 = 400;

/// Steps for which a death waits for a replay: a waiter notices only after a lease that the holder of a lock is dead.
const REPLAY_STEPS: u64 = 10_000;

/// Sets of images that are kept.
const KEPT_IMAGES_MAX: usize = 8;

/// Heartbeats that a lane waits for whose compute node is silent: a silence is shorter.
const HEARTBEATS_AWAITED: u32 = 64;

/// Settlings of one lane that queue-pair errors may interrupt.
const SETTLINGS_MAX: u32 = 1000;

impl<'a, 'm> Load<'a, 'm> {
    /// The first `operations` of the load of `draw`, recorded into `history`, which knows what the index begins with.
    pub fn new(
        draw: &'a Draw,
        opened: &'a [&'a dyn Opened],
        lanes: &'a [&'a [Lane<'m>]],
        take_images: TakeImages<'a>,
        history: History,
        operations: u32,
    ) -> Self {
        Self {
            draw,
            opened,
            lanes,
            take_images,
            rng: Rng::new(draw.seed ^ 0x5eed_0002),
            turns: Rng::new(draw.seed ^ 0x5eed_0007),
            wide: Rng::new(draw.seed ^ 0x5eed_0012),
            left: operations,
            doing: lanes.iter().map(|lanes| vec![Doing::Nothing; lanes.len()]).collect(),
            known: (0..u64::from(draw.keys)).map(|key| VALUE_FIRST + key).collect(),
            noticed: Vec::new(),
            planned: 0,
            patience: 0,
            consequences: Vec::new(),
            kept_images: Vec::new(),
            taken: 0,
            recovered: false,
            clocks: None,
            wronged: Vec::new(),
            damage: None,
            coding: Coding::shifted(draw.key_shift),
            history,
            failed: Vec::new(),
            explained: 0,
            look: None,
            injected: InjectedFaults::default(),
            met: [0; WIDE_OPTIONS],
        }
    }

    fn doing(&mut self, at: LaneAt) -> &mut Doing {
        &mut self.doing[usize::from(at.compute_node.0)][usize::from(at.lane)]
    }

    fn lane(&self, at: LaneAt) -> (&'a dyn Opened, &'a Lane<'m>) {
        let node = usize::from(at.compute_node.0);
        (self.opened[node], &self.lanes[node][usize::from(at.lane)])
    }

    /// The key and the call, and how many records are asked for if it is a scan.
    fn choose_call(&mut self, index: &dyn Opened, by: ComputeNode) -> (u64, Call, u32) {
        let total: u32 = self.draw.weights.iter().sum();
        let mut drawn = self.rng.below(total);
        let mut kind = OperationKind::Get;
        for (candidate, weight) in OperationKind::ALL.into_iter().zip(self.draw.weights) {
            if drawn < weight {
                kind = candidate;
                break;
            }
            drawn -= weight;
        }
        let kind = self.draw.kind_on(by, kind);
        let keys = self.draw.keys;
        let hot = self.rng.percent(self.draw.hot_percent);
        let mut key = self.rng.below(if hot { keys.min(2) } else { keys });
        if index.has_owners() && self.wide.percent(HOME_PERCENT) {
            key = self.draw.at_home(by, key);
        }
        // The number of the operation, so that a value names its writer.
        let value = self.history.operations().len() as u64;
        let call = match kind {
            OperationKind::Get => Call::Get,
            OperationKind::Insert => Call::Insert { value },
            OperationKind::Update => Call::Update { value },
            OperationKind::Upsert => Call::Upsert { value },
            OperationKind::UpdateIf => Call::UpdateIf { expected: self.known[key as usize], value },
            OperationKind::Delete => Call::Delete,
            OperationKind::DeleteIf => Call::DeleteIf { expected: self.known[key as usize] },
            OperationKind::Scan => {
                let page = index.plan().page_records().max(1) as u32;
                let high = self.rng.percent(40).then(|| u64::from(key + self.rng.below(keys)));
                let (after, limit) = (self.rng.percent(30), 1 + self.rng.below(page));
                return self.choose_scan(u64::from(key), after, high, limit, page);
            }
        };
        (u64::from(key), call, 0)
    }

    /// The scan that was chosen, or another one that an option asks for.
    fn choose_scan(
        &mut self,
        mut key: u64,
        mut after: bool,
        mut high: Option<u64>,
        mut limit: u32,
        page: u32,
    ) -> (u64, Call, u32) {
        let mut asked = limit;
        let keys = u64::from(self.draw.keys);
        let key_max = self.coding.key_max();
        let mut odd = |option| {
            let odd = self.draw.wide.has(option) && self.wide.percent(ODD_SCANS_PERCENT);
            self.met[option as usize] += u64::from(odd);
            odd
        };
        if odd(WideOption::ScanPastEnd) {
            (key, after) = if key_max < keys { (keys - 1, true) } else { (key_max.min(keys + key), after) };
        }
        if odd(WideOption::ScanInverted) {
            high = Some(key - key.min(u64::from(limit - 1)));
        }
        if odd(WideOption::ScanOverPage) {
            // A page holds no more.
            (limit, asked) = (page, if limit.is_multiple_of(2) { u32::MAX } else { page + limit });
        }
        if odd(WideOption::ScanNothing) {
            (limit, asked) = (0, 0);
        }
        let high = high.map(|high| high.min(key_max));
        (key, Call::Scan { after, high, limit }, asked)
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

    /// Takes note of a failure. Before the next step it is told what it was like.
    fn fail(&mut self, operation: Option<OpId>, error: OpError) {
        self.failed.push(Failed { operation, error, circumstances: Circumstances::default() });
    }

    /// Tells the latest failures what it is like.
    fn explain(&mut self, world: &World) {
        let matters = |failed: &Failed| {
            matches!(failed.error.cause, Cause::PoolFull | Cause::Deadline { .. } | Cause::Retries { .. })
        };
        let Some(look) = self.look.filter(|_| self.failed[self.explained..].iter().any(matters)) else {
            self.explained = self.failed.len();
            return;
        };
        let seen = look(world.memories(), &self.injected);
        for number in self.explained..self.failed.len() {
            let operation = self.failed[number].operation;
            let went_on = operation.is_some_and(|operation| self.went_on(operation, world));
            let ran_out = operation.is_some_and(|operation| {
                let Record { invoked, answer, .. } = self.history.operation(operation);
                answer.is_some_and(|(_, end)| end.now_ns - invoked.now_ns >= self.draw.deadline_ns)
            });
            self.failed[number].circumstances = Circumstances { went_on, ran_out, ..seen };
        }
        self.explained = self.failed.len();
    }

    /// Whether somebody did something in the second half of the time that `operation` had; or it is a scan, which waited for
    /// nobody then.
    fn went_on(&self, operation: OpId, world: &World) -> bool {
        let Record { lane, invoked, answer, call, .. } = *self.history.operation(operation);
        let Some((_, end)) = answer else { return false };
        let middle_ns = invoked.now_ns.midpoint(end.now_ns);
        let ended_late = |failed: &&Failed| matches!(failed.error.cause, Cause::Deadline { .. });
        let late: Vec<_> = self.failed.iter().filter(ended_late).map(|failed| failed.operation).collect();
        let is_other = |(number, other): (u32, &Record)| {
            other.lane != lane
                && other.answer.is_some_and(|(_, end)| end.now_ns >= middle_ns)
                && !late.contains(&Some(OpId(number)))
        };
        // A scan of long keys READs a chain of nodes again for each leaf.
        let reads = matches!(call, Call::Scan { .. }) && world.last_other_ns(lane.compute_node, lane.lane) < middle_ns;
        world.last_change_ns() >= middle_ns || reads || (0..).zip(self.history.operations()).any(is_other)
    }

    fn learn(&mut self, operation: OpId, answer: Answer) {
        let record = self.history.operation(operation);
        let key = record.key as usize;
        let value = match answer {
            Answer::Found(value) | Answer::Exists(value) | Answer::Mismatch(value) => value,
            Answer::Inserted | Answer::Updated | Answer::Replaced => record.call.written().unwrap_or(0),
            _ => return,
        };
        self.known[key] = value;
    }

    // ---- faults ----------------------------------------------------------------------------------------------

    /// Carries out a fault. Returns `false` if its moment has not come.
    fn inject(&mut self, driver: &mut Driver<'a, '_, Ended>, fault: Fault) -> bool {
        let lane_of = |driver: &Driver<'a, '_, Ended>, number: u32| {
            let lanes: Vec<LaneAt> = driver.lanes().collect();
            lanes[number as usize % lanes.len()]
        };
        let happened = match fault {
            Fault::Drop { lane } => self.drop_future(driver, lane_of(driver, lane)),
            Fault::Crash { compute_node, moment, closed_after_ns } => {
                let drawn = ComputeNode(compute_node);
                if self.draw.wide.fences_the_living() && self.injected.dead.len() + 1 >= self.lanes.len() {
                    // The last one lives.
                    return true;
                }
                let (victim, patience_steps) = match moment {
                    Moment::Any => (Some(drawn), 0),
                    Moment::InAWrite => (driver.world().is_writing(drawn).then_some(drawn), PATIENCE_STEPS),
                    Moment::InAReplay => {
                        let dead = &self.injected.dead;
                        (driver.world().replaying().find(|node| !dead.contains(node)), REPLAY_STEPS)
                    }
                };
                if victim.is_none() && self.patience < patience_steps {
                    self.patience += 1;
                    return false;
                }
                let compute_node = victim.unwrap_or(drawn);
                self.patience = 0;
                if self.injected.dead.contains(&compute_node) {
                    return true;
                }
                driver.kill_compute_node(compute_node);
                self.injected.dead.push(compute_node);
                let at_ns = driver.now_ns() + u64::from(closed_after_ns);
                let at_ns = if self.recovered { u64::MAX } else { at_ns };
                self.consequences.push((at_ns, Consequence::Closed(compute_node)));
                true
            }
            Fault::NodeDeath { node } => {
                driver.world().kill_memory_node(NodeId(node));
                self.injected.down = Some(NodeId(node));
                true
            }
            Fault::QueuePair { lane, node, in_a_chain, outage_ns } => {
                let busy = if in_a_chain { driver.world().queue_pair_with_writes(2) } else { None };
                if in_a_chain && busy.is_none() && self.patience < PATIENCE_STEPS {
                    self.patience += 1;
                    return false;
                }
                self.patience = 0;
                let drawn = lane_of(driver, lane);
                let (worker, node) = busy.unwrap_or((driver.worker(drawn), NodeId(node)));
                let lanes: Vec<LaneAt> = driver.lanes().collect();
                let at = lanes.into_iter().find(|at| driver.worker(*at) == worker).unwrap_or(drawn);
                let failed = self.consequences.iter().any(|(_, what)| *what == Consequence::Reconnected(worker, node));
                if failed || self.injected.down == Some(node) || self.injected.dead.contains(&at.compute_node) {
                    false
                } else {
                    driver.world().fail_queue_pair(worker, node);
                    let at_ns = driver.now_ns() + u64::from(outage_ns);
                    self.consequences.push((at_ns, Consequence::Reconnected(worker, node)));
                    true
                }
            }
            Fault::KeepImages => {
                let images = (self.take_images)(driver.world().memories());
                if self.kept_images.len() < KEPT_IMAGES_MAX {
                    self.kept_images.push(images);
                } else {
                    let oldest = self.taken % KEPT_IMAGES_MAX;
                    self.kept_images[oldest] = images;
                }
                self.taken += 1;
                false
            }
            Fault::RestoreCopies { compute_node, images } => {
                let nothing = InnerNodeImages::default();
                let which = images as usize % (self.kept_images.len() + 1);
                self.opened[usize::from(compute_node)].restore_copies(self.kept_images.get(which).unwrap_or(&nothing));
                true
            }
        };
        self.injected.counts[fault.kind() as usize] += u64::from(happened);
        true
    }

    /// Whose row `by` sweeps now, if it does: of a dead compute node, or, if leases are short, of any other one.
    fn row_to_sweep(&mut self, by: ComputeNode) -> Option<ComputeNode> {
        let wide = self.draw.wide;
        if !wide.has(WideOption::Sweeps) || !self.wide.percent(SWEEPS_PERCENT) {
            return None;
        }
        let all = wide.fences_the_living();
        let others = (0..self.lanes.len() as u16).map(ComputeNode).filter(|other| *other != by);
        let rows: Vec<ComputeNode> = others.filter(|other| all || self.injected.dead.contains(other)).collect();
        rows.get(self.wide.below(rows.len() as u32) as usize).copied()
    }

    /// Compute nodes that others fenced, since their lease was over, end as soon as a memory node has fenced them off, or
    /// when they read it in their rows.
    fn end_the_fenced(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        for compute_node in driver.world().fenced_by_others() {
            self.end(driver, compute_node);
        }
        for compute_node in std::mem::take(&mut self.noticed) {
            self.end(driver, compute_node);
        }
    }

    /// A compute node that was fenced while it lived ends.
    pub fn end(&mut self, driver: &mut Driver<'a, '_, Ended>, compute_node: ComputeNode) {
        if !self.injected.dead.contains(&compute_node) {
            driver.kill_compute_node(compute_node);
            self.injected.dead.push(compute_node);
            self.injected.counts[FaultKind::Crash as usize] += 1;
            self.met[WideOption::ShortLeases as usize] += u64::from(self.draw.wide.has(WideOption::ShortLeases));
            if self.clocks.as_ref().is_some_and(|clocks| clocks.wronged(compute_node, driver.now_ns())) {
                self.wronged.push(compute_node);
            }
        }
    }

    /// Drops the future of a lane: that of an operation, or that of the settling after one.
    fn drop_future(&mut self, driver: &mut Driver<'a, '_, Ended>, at: LaneAt) -> bool {
        if self.injected.dead.contains(&at.compute_node) {
            return false;
        }
        match *self.doing(at) {
            Doing::Operation(operation) => {
                *self.doing(at) = Doing::Settling(Some(operation));
                self.history.respond(operation, driver.now_ns(), Answer::Failed(Effect::Unknown));
            }
            Doing::OrphanCollection | Doing::Sweep(_) => *self.doing(at) = Doing::Settling(None),
            Doing::Settling(_) => {}
            Doing::Nothing | Doing::Turn | Doing::Doubt(_) => return false,
        }
        driver.drop_future(at);
        true
    }

    fn carry_out(&mut self, driver: &mut Driver<'a, '_, Ended>, what: Consequence) {
        match what {
            Consequence::Closed(compute_node) => {
                driver.world().close_queue_pairs(compute_node);
                self.close_all(compute_node, driver.now_ns());
            }
            Consequence::Reconnected(worker, node) => driver.world().reconnect(worker, node),
        }
    }

    /// No operation of a dead compute node can take effect any more.
    fn close_all(&mut self, compute_node: ComputeNode, now_ns: u64) {
        if self.recovered {
            // Survivors may complete half-done changes at any later time.
            return;
        }
        for doing in self.doing[usize::from(compute_node.0)].clone() {
            let operation = match doing {
                Doing::Operation(operation) => Some(operation),
                Doing::Doubt(operation) | Doing::Settling(operation) => operation,
                Doing::Nothing | Doing::Turn | Doing::OrphanCollection | Doing::Sweep(_) => None,
            };
            if let Some(operation) = operation {
                self.history.close(operation, now_ns);
            }
        }
    }

    /// All is quiet: carries out the pending consequences of faults.
    pub fn finish(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        self.explain(driver.world());
        for (_, what) in std::mem::take(&mut self.consequences) {
            self.carry_out(driver, what);
        }
        let rpc = driver.world().rpc_faults();
        self.injected.counts[FaultKind::RpcLost as usize] = rpc.lost;
        self.injected.counts[FaultKind::RpcRepeated as usize] = rpc.repeated;
    }
}

impl<'a> Workload<'a, Ended> for Load<'a, '_> {
    fn invoke(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, Ended>> {
        if let Doing::Doubt(operation) = *self.doing(at) {
            *self.doing(at) = Doing::Settling(operation);
            return Some(self.settling(at));
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
            let row = RowId(of.0 + 1);
            *self.doing(at) = Doing::Sweep(of);
            return Some(Box::pin(async move { Ended::Swept(index.sweep(lane, row, IndexSet::default()).await) }));
        }
        self.left = self.left.checked_sub(1)?;
        let (key, call, asked) = self.choose_call(index, at.compute_node);
        let operation = self.history.invoke(at, now_ns, key, call);
        *self.doing(at) = Doing::Operation(operation);
        Some(start_asking(index, lane, self.coding, key, (call, asked), self.draw.deadline_ns))
    }

    fn respond(&mut self, at: LaneAt, now_ns: u64, result: Ended) {
        let doing = std::mem::replace(self.doing(at), Doing::Nothing);
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
            // After a failed request, the next sweep, turn or orphan collection does the work.
            (Doing::Sweep(_), Ended::Swept(Err(OpError { cause: Cause::Verb(_), .. })))
            | (Doing::Turn, Ended::Turned(Ok(()) | Err(OpError { cause: Cause::Verb(_), .. })))
            | (Doing::OrphanCollection, Ended::CollectedOrphans(Ok(_) | Err(OpError { cause: Cause::Verb(_), .. }))) => {
            }
            (Doing::Sweep(of), Ended::Swept(Ok(swept))) => {
                self.met[WideOption::Sweeps as usize] += u64::from(swept.row_free);
                if swept.row_free && self.injected.dead.contains(&of) {
                    self.history.close_all_of(of, now_ns);
                }
            }
            (Doing::Sweep(_), Ended::Swept(Err(error)))
            | (Doing::Turn, Ended::Turned(Err(error)))
            | (Doing::OrphanCollection, Ended::CollectedOrphans(Err(error))) => {
                self.fail(None, error);
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
        match doing {
            Doing::Operation(operation) if lane.is_unsettled() || self.history.is_unknown(operation) => {
                *self.doing(at) = Doing::Doubt(Some(operation));
            }
            Doing::Turn | Doing::OrphanCollection | Doing::Sweep(_) if lane.is_unsettled() => {
                *self.doing(at) = Doing::Doubt(None);
            }
            _ => {}
        }
    }

    fn abandoned(&mut self, at: LaneAt, _: u64) -> Option<Op<'a, Ended>> {
        Some(self.settling(at))
    }

    fn before_step(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if driver.steps() >= BEGINNING_STEPS {
            self.left = 0;
        }
        self.explain(driver.world());
        if let Some(clocks) = &mut self.clocks
            && let Some(next_ns) = driver.next_ns()
        {
            clocks.tick(next_ns, driver.world().memories_mut(), &self.injected.dead);
        }
        if self.draw.wide.fences_the_living() {
            self.end_the_fenced(driver);
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

/// As [`start_asking`]; a scan asks for as many records as its page may have.
pub fn start<'a>(
    index: &'a dyn Opened,
    lane: &'a Lane<'_>,
    coding: Coding,
    key: u64,
    call: Call,
    deadline_ns: u64,
) -> Op<'a, Ended> {
    let asked = if let Call::Scan { limit, .. } = call { limit } else { 0 };
    start_asking(index, lane, coding, key, (call, asked), deadline_ns)
}

/// Puts the arguments into the lane's scratch and makes the future. With a `deadline_ns` of 0, the index's own deadline
/// holds. A scan asks for `asked` records.
fn start_asking<'a>(
    index: &'a dyn Opened,
    lane: &'a Lane<'_>,
    coding: Coding,
    key: u64,
    (call, asked): (Call, u32),
    deadline_ns: u64,
) -> Op<'a, Ended> {
    let plan = index.plan();
    lane.port().with(|scratch| {
        coding.write_key(key, &mut scratch[plan.key.clone()]);
        if let Some(value) = call.written() {
            coding.write_value(value, &mut scratch[plan.value.clone()]);
        }
        match call {
            Call::UpdateIf { expected, .. } | Call::DeleteIf { expected } => {
                coding.write_value(expected, &mut scratch[plan.expected.clone()]);
            }
            Call::Scan { high: Some(high), .. } => coding.write_key(high, &mut scratch[plan.key_high.clone()]),
            _ => {}
        }
    });
    let operation = match call {
        Call::Scan { after, high, .. } => Operation { after, bounded: high.is_some(), ..Operation::scan(asked) },
        _ => Operation::point(call.kind()),
    };
    let operation = Operation { deadline_ns, ..operation };
    Box::pin(async move {
        let plan = index.plan();
        // The results are read here and not when the response is reported: the future may end with requests that are
        // not submitted yet, and those take the scratch along.
        match index.execute(lane, operation).await {
            Err(error) => Ended::Failed(error),
            Ok(Outcome::Page { records, more }) => lane.port().with(|scratch| {
                let record = |position| {
                    let bytes = &scratch[plan.record(position)];
                    (coding.read_key(&bytes[..plan.key_bytes]), coding.read_value(&bytes[plan.key_bytes..]))
                };
                let held = plan.page_records().min(records as usize);
                Ended::Page((0..held).map(record).collect(), more)
            }),
            Ok(outcome) => Ended::Point(Answer::of(
                outcome,
                lane.port().with(|scratch| coding.read_value(&scratch[plan.output.clone()])),
            )),
        }
    })
}
