//! Executes operations that other compute nodes forward to this one: see [`dm_core::index::forward`].
//!
//! One thread with lanes of its own takes calls out of the slots that home's daemon and all its clients have mapped, or on an RDMA
//! device out of a queue pair by which home's daemon passes them on. It executes them as a worker executes what is queued, and answers. A
//! lane executes the operations of one call, one after another. It sleeps while nobody calls. Lanes that serve never forward, so they
//! wait for no other compute node's lanes.

use super::Shared;
use super::watch::{Watched, lanes_of};
use crate::fabric::any::{AnyFabric, Node};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::inbox::{ReceivedCall, VerbsInbox};
use crate::memory_node::RemoteNode;
use crate::memory_node::call_area::{SLOTS, Taken};
use crate::worker::{self, Finished, Next, Wakes, Work, WorkerError};
use dm_core::index::Index;
use dm_core::index::forward::message::{self, Serving};
use dm_core::operation::{Operation, ScratchPlan};
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{CALL_BYTES_MAX, Callee, LaneId};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// The thread stays awake so long behind its last call: it then answers sooner.
const AWAKE: Duration = Duration::from_micros(50);

/// It looks once in so long whether the session closes.
const ASLEEP_MAX: Duration = Duration::from_millis(50);

/// Where calls for this compute node come in, as long as this exists.
pub(super) struct Inbox {
    source: Source,
    row: RowId,
    index: IndexNumber,
}

enum Source {
    /// Slots of a memory node whose memory is mapped here, and the connection to it.
    Slots(Arc<RemoteNode>),
    /// A queue pair.
    #[cfg(feature = "verbs")]
    QueuePair(Box<VerbsInbox>),
}

/// A call that was taken.
enum Call {
    InSlot(Taken),
    #[cfg(feature = "verbs")]
    Received(ReceivedCall),
}

impl Call {
    /// The request, in the buffer that it was copied to.
    fn request<'b>(&self, buffer: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Self::InSlot(taken) => taken.request(buffer),
            #[cfg(feature = "verbs")]
            Self::Received(received) => received.request(buffer),
        }
    }

    /// Room for the answer.
    fn answer_bytes(&self) -> usize {
        match self {
            Self::InSlot(taken) => taken.answer_bytes,
            #[cfg(feature = "verbs")]
            Self::Received(received) => received.answer_bytes,
        }
    }
}

impl Inbox {
    /// `None`: nobody can call, since memory node 0 passes no calls on.
    pub(super) fn new(nodes: &[Node], fabric: &AnyFabric, row: RowId, index: IndexNumber) -> Option<Self> {
        let source = match fabric {
            AnyFabric::Shm(_) => {
                let home = Arc::clone(nodes.first()?.shm()?);
                let (area, connection) = home.call_area()?;
                area.begin_serving(row, connection);
                Source::Slots(home)
            }
            #[cfg(feature = "verbs")]
            AnyFabric::Verbs(fabric) => {
                Source::QueuePair(Box::new(fabric.inbox(Callee::compute_node(row.0, index.get()))?))
            }
        };
        Some(Self { source, row, index })
    }

    fn callee(&self) -> Callee {
        Callee::compute_node(self.row.0, self.index.get())
    }

    /// Takes a call, and copies its request to `out`.
    fn take(&self, out: &mut [u8]) -> Option<Call> {
        match &self.source {
            Source::Slots(home) => home.call_area()?.0.take(self.callee(), out).map(Call::InSlot),
            #[cfg(feature = "verbs")]
            Source::QueuePair(inbox) => inbox.take(out).map(Call::Received),
        }
    }

    fn answer(&self, call: &Call, answer: &[u8], service_ns: u32) {
        match (&self.source, call) {
            (Source::Slots(home), Call::InSlot(taken)) => {
                if let Some((area, _)) = home.call_area() {
                    area.answer(taken, answer, 0, service_ns);
                }
            }
            #[cfg(feature = "verbs")]
            (Source::QueuePair(inbox), Call::Received(received)) => inbox.answer(received, answer, service_ns),
            // A call is answered where it was taken.
            #[cfg(feature = "verbs")]
            _ => {}
        }
    }

    fn sleep(&self, is_over: impl Fn() -> bool) {
        match &self.source {
            Source::Slots(home) => {
                let (Some((area, _)), callee) = (home.call_area(), self.callee()) else { return };
                area.sleep(callee, ASLEEP_MAX, || is_over() || area.has_posted(callee));
            }
            #[cfg(feature = "verbs")]
            Source::QueuePair(inbox) => inbox.sleep(ASLEEP_MAX, is_over),
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // What came in meanwhile: its callers look for another owner.
        match &self.source {
            Source::Slots(home) => {
                let Some((area, connection)) = home.call_area() else { return };
                area.end_serving(self.row, connection);
                let mut request = vec![0; CALL_BYTES_MAX];
                for _ in 0..SLOTS {
                    let Some(call) = area.take(self.callee(), &mut request) else { return };
                    area.answer(&call, &message::not_here(), 0, 0);
                }
            }
            #[cfg(feature = "verbs")]
            Source::QueuePair(inbox) => inbox.stop(&message::not_here()),
        }
    }
}

/// What a lane executes.
struct LaneWork {
    /// The call, since when it is executed, and how far.
    running: Option<(Call, Instant, Serving)>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl LaneWork {
    fn new() -> Self {
        Self { running: None, request: vec![0; CALL_BYTES_MAX], answer: vec![0; CALL_BYTES_MAX] }
    }
}

/// Calls as the work of lanes.
struct ForwardWork<'s> {
    inbox: &'s Inbox,
    shared: &'s Shared,
    lanes: Vec<LaneWork>,
    /// When the last call was taken or answered.
    busy_at: &'s Cell<Instant>,
    /// See [`Index::forwards_steps`].
    steps: bool,
}

impl ForwardWork<'_> {
    /// Answers the call that a lane executes.
    fn answer(&mut self, lane: usize) {
        let LaneWork { running, answer, .. } = &mut self.lanes[lane];
        let Some((call, since, mut serving)) = running.take() else { return };
        let bytes = serving.finish(answer);
        self.busy_at.set(Instant::now());
        let service_ns = u32::try_from((self.busy_at.get() - since).as_nanos()).unwrap_or(u32::MAX);
        self.inbox.answer(&call, answer.get(..bytes).unwrap_or_default(), service_ns);
    }

    /// The next operation of the call that a lane executes.
    fn go_on(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Option<Operation> {
        let LaneWork { running, request, answer } = &mut self.lanes[lane];
        let (call, since, serving) = running.as_mut()?;
        // The first operation needs no look at the clock.
        let elapsed = if serving.has_begun() { since.elapsed() } else { Duration::ZERO };
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let request = call.request(request).unwrap_or_default();
        let next = serving.next(request, plan, scratch, elapsed_ns, answer);
        if next.is_none() {
            self.answer(lane);
        }
        next
    }
}

impl Work for ForwardWork<'_> {
    const TIMED: bool = false;

    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        if self.shared.is_closing() {
            // What has begun has ended. The rest of its call is not begun.
            self.answer(lane);
            return Next::Wait;
        }
        if let Some(operation) = self.go_on(lane, scratch, plan) {
            return Next::Run(operation);
        }
        while let Some(call) = self.inbox.take(&mut self.lanes[lane].request) {
            let now = Instant::now();
            self.busy_at.set(now);
            let request = call.request(&self.lanes[lane].request).unwrap_or_default();
            match Serving::decode(request, (self.inbox.index, self.steps), plan, call.answer_bytes()) {
                Some(serving) => {
                    self.shared.served.count(serving.count());
                    self.lanes[lane].running = Some((call, now, serving));
                    if let Some(operation) = self.go_on(lane, scratch, plan) {
                        return Next::Run(operation);
                    }
                }
                None => self.inbox.answer(&call, &message::not_here(), 0),
            }
        }
        Next::Wait
    }

    fn done(&mut self, lane: usize, finished: Finished<'_>) {
        let LaneWork { running: Some((_, _, serving)), answer, .. } = &mut self.lanes[lane] else { return };
        serving.ended(&finished.result, finished.plan, finished.scratch, answer);
        if serving.is_over() {
            self.answer(lane);
        }
    }

    fn has_more(&self, lane: usize) -> bool {
        self.lanes[lane].running.is_some()
    }
}

/// Serves until the session closes. Operations that have begun are finished.
pub(super) fn serve_others(
    index: &Watched<'_, impl Index>,
    mut fabric: AnyFabric,
    inbox: &Inbox,
    (first, lanes): (LaneId, usize),
    wakes: &Wakes,
    shared: &Shared,
) {
    let mut scratch = vec![0; index.plan().total_bytes * lanes];
    let lanes = lanes_of(index, first, &mut scratch);
    let busy_at = &Cell::new(Instant::now());
    let lane_work = lanes.iter().map(|_| LaneWork::new()).collect();
    let mut work = ForwardWork { inbox, shared, lanes: lane_work, busy_at, steps: index.forwards_steps() };
    let mut driving = pin!(worker::attend(index, &lanes, &mut fabric, &mut work, wakes));
    while !shared.is_closing() {
        // Pending: all lanes are idle.
        if let Poll::Ready(WorkerError::Broken { last }) =
            driving.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            tracing::error!("operations of other compute nodes are not executed any more: {last}");
            return;
        }
        if busy_at.get().elapsed() < AWAKE {
            // The caller may be waiting for this processor.
            thread::yield_now();
        } else {
            inbox.sleep(|| shared.is_closing());
        }
    }
}
