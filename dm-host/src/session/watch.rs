//! Keeps an index's operations from waiting for ever in a local lock queue.
//!
//! A lane that waits its turn for a lock is parked, and the lane that holds the lock wakes it. If the holder cannot be
//! settled - its memory node died between lock and unlock - it never does. The supervisor wakes parked lanes now and
//! then, so [`Watched`] polls every parked operation and checks it. It drops an operation whose deadline has passed, or
//! that waits for a lock on a memory node that is down, and the operation fails. The worker then has the lane settled,
//! which takes it out of the queue.
//!
//! A lane that could not be settled may also hold a lock on a memory node that lives: settling takes its lock records
//! in order, and the first that cannot be released ends that. Once there is such a lane, no operation waits long in a
//! local queue.
//!
//! Only parked operations are dropped: they have no request in flight, and only the local queue knows of them.

use crate::fabric::any::Node;
use dm_core::error::VerbError;
use dm_core::index::Index;
use dm_core::index::forward::{self, Forwarder};
use dm_core::lane::{Lane, Stage};
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Cause, Census, Effect, OpError, Operation, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::{IndexNumber, IndexSet};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::{LoadWord, OwnerWord};
use dm_core::verbs::{Assumptions, Label, LaneId, NodeId, Status, Verb};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long an operation waits in local queues once a lane could not be settled. This is much longer than live lanes
/// take to pass a lock on, so few operations that do not wait for the dead lane fail with those that do.
const UNSETTLED_WAIT: Duration = Duration::from_millis(200);

/// What the workers and the supervisor tell each other about lanes.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Lanes that wait in a local lock queue. Relaxed: the supervisor looks again soon.
    parked: AtomicUsize,
    /// A lane could not be settled: a lock word may name this compute node for good.
    unsettled: AtomicBool,
}

impl Watch {
    pub(super) fn any_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) != 0
    }

    /// Notes that a lock word may name this compute node for good.
    pub(super) fn note_unsettled(&self) {
        self.unsettled.store(true, Ordering::Relaxed);
    }

    pub(super) fn any_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Relaxed)
    }
}

/// See the module's documentation.
pub(super) struct Watched<'i, I> {
    pub(super) index: &'i I,
    pub(super) nodes: &'i [Node],
    pub(super) watch: &'i Watch,
    /// As the index's own; behind it room for messages, if operations are forwarded.
    pub(super) plan: ScratchPlan,
    /// This compute node.
    pub(super) row: RowId,
    /// `None`: operations are not forwarded.
    pub(super) forwarder: Option<Forwarder>,
}

impl<'i, I: Index> Watched<'i, I> {
    /// Of index `number`, whose operations are forwarded if `forwards`, on the compute node of `row`.
    pub(super) fn new(
        index: &'i I,
        nodes: &'i [Node],
        watch: &'i Watch,
        (number, row): (IndexNumber, RowId),
        forwards: bool,
    ) -> Self {
        let mut plan = index.plan().clone();
        let forwarder = forwards.then(|| Forwarder::new(number, &mut plan));
        Self { index, nodes, watch, plan, row, forwarder }
    }

    /// The same, for operations of other compute nodes.
    pub(super) fn for_others(&self) -> Self {
        let plan = ScratchPlan { total_bytes: self.plan.total_bytes, ..self.index.served_plan().clone() };
        Self { plan, forwarder: None, ..*self }
    }

    /// A lane with its scratch.
    pub(super) fn lane<'m>(&self, id: LaneId, scratch: &'m mut [u8]) -> Lane<'m> {
        let lane = Lane::new(id, scratch);
        lane.set_message_room(self.forwarder.as_ref().map(|forwarder| forwarder.room));
        lane
    }
}

/// Counts a lane as parked while it exists.
struct Parked<'w>(&'w Watch);

impl<'w> Parked<'w> {
    fn new(watch: &'w Watch) -> Self {
        watch.parked.fetch_add(1, Ordering::Relaxed);
        Self(watch)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<I: Index> Watched<'_, I> {
    /// Runs `operation`. In all, it may wait in local lock queues for `wait_ns` less the time that its requests took.
    async fn guard<T>(
        &self,
        lane: &Lane<'_>,
        wait_ns: u64,
        operation: impl Future<Output = Result<T, OpError>>,
    ) -> Result<T, OpError> {
        let mut operation = pin!(operation);
        let mut wrote = false;
        let mut parked: Option<(Instant, Parked<'_>)> = None;
        let mut waited = Duration::ZERO;
        poll_fn(|context| {
            if let Some((since, count)) = parked.take() {
                let elapsed_ns = lane.port().elapsed_ns().saturating_add((waited + since.elapsed()).as_nanos() as u64);
                // The lane may have got the lock by now; then the settling lane passes it on.
                let cause = if let Some(down) = self.down(lane) {
                    Some(Cause::Verb(down))
                } else if elapsed_ns > wait_ns {
                    Some(Cause::Deadline { elapsed_ns })
                } else if self.watch.any_unsettled() && waited + since.elapsed() > UNSETTLED_WAIT {
                    Some(Cause::Retries { attempts: 1, what: "waiting behind a lane that could not be settled" })
                } else {
                    None
                };
                if let Some(cause) = cause {
                    let effect = if wrote { Effect::Unknown } else { Effect::None };
                    return Poll::Ready(Err(OpError { effect, cause }));
                }
                waited += since.elapsed();
                drop(count);
            }
            let polled = operation.as_mut().poll(context);
            if polled.is_pending() {
                let requests = lane.port().requests();
                if requests.iter().any(|request| request.verb == Verb::Park) {
                    // A park is a submit of its own, possibly behind wakes.
                    parked = Some((Instant::now(), Parked::new(self.watch)));
                } else {
                    wrote |= requests.iter().any(|request| request.verb == Verb::Write);
                }
            }
            polled
        })
        .await
    }

    /// The error of a lane that queues for a lock on a memory node that is down.
    fn down(&self, lane: &Lane<'_>) -> Option<VerbError> {
        let lock_records = lane.lock_records();
        let record = lock_records.iter().find(|record| {
            let node = self.nodes.get(usize::from(record.lock.node.0));
            record.stage == Stage::Queued && node.is_some_and(Node::is_down)
        })?;
        let (node, offset) = (record.lock.node, u64::from(record.lock.index));
        Some(VerbError { status: Status::NodeDown, verb: Verb::Park, label: Label::Lock, node, offset })
    }
}

/// Lanes from `first` on, with scratch each.
pub(super) fn lanes_of<'m>(index: &Watched<'_, impl Index>, first: LaneId, scratch: &'m mut [u8]) -> Vec<Lane<'m>> {
    let lanes = scratch.chunks_exact_mut(index.plan().total_bytes).zip(first.0..);
    lanes.map(|(scratch, id)| index.lane(LaneId(id), scratch)).collect()
}

impl<I: Index> Index for Watched<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.index.assumptions()
    }

    fn ask_ahead(&self, lane: &Lane<'_>) -> bool {
        self.index.ask_ahead(lane)
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        let wait_ns = operation.wait_ns();
        match &self.forwarder {
            None => self.guard(lane, wait_ns, self.index.execute(lane, operation)).await,
            Some(forwarder) => {
                self.guard(lane, wait_ns, forward::execute(self.index, lane, operation, forwarder)).await
            }
        }
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        let settled = self.index.settle(lane).await;
        if settled.is_err() {
            self.watch.note_unsettled();
        }
        settled
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.validate(lane)).await
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.bulk_append(lane)).await
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.bulk_finish(lane)).await
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        self.index.sweep(lane, row, done).await
    }

    async fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Result<CollectedOrphans, OpError> {
        self.guard(lane, u64::MAX, self.index.collect_orphans(lane)).await
    }

    async fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.leave(lane)).await
    }

    fn has_parts(&self) -> bool {
        self.index.has_parts()
    }

    async fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<u32, OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.parts(lane)).await
    }

    async fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Result<(), OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.take_part(lane, part)).await
    }

    async fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.guard(lane, Operation::WAIT_NS_DEFAULT, self.index.keep_parts(lane)).await
    }

    async fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Result<(), OpError> {
        // It looks at its own deadline, behind which it calls off what it has asked for.
        self.index.move_part(lane, part, to, wait_ns).await
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        self.guard(lane, wait_ns, self.index.cut_part(lane, key, wait_ns)).await
    }

    async fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> Result<u64, OpError> {
        self.guard(lane, wait_ns, self.index.vacate_part(lane, part, from, wait_ns)).await
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        self.index.part(part)
    }

    fn part_of(&self, key: &[u8]) -> u32 {
        self.index.part_of(key)
    }

    fn forwards_steps(&self) -> bool {
        self.index.forwards_steps()
    }

    fn cache_bytes(&self) -> (u64, u64) {
        self.index.cache_bytes()
    }
}
