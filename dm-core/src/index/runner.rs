//! How an operation runs, the same for every index: deadline, batch, pin, attempts, and what keeps an attempt from
//! succeeding.
//!
//! ```text
//!  settled? lease? ─► batch: told ─────────────────────────────► outcome
//!                       └ leads, or alone ─► pin ─► attempt ─► outcome ─► batch answered ─► holder watched
//!                                                    ▲  │
//!                                                    │  ├ unresponsive holder: look after it
//!                                                    └──┴ no memory: wait for epochs
//! ```
//!
//! An attempt may end without a change because the holder of a lock does not respond, or because a pool is short of
//! memory. This file handles both, outside the attempt, so that the future of an attempt needs no room for a recovery.
//!
//! The pin comes after the batch: a lane that waits for its leader's answer follows no pointers, and must not hold back
//! the epochs.

use crate::compute::batches::{Batches, Begun};
use crate::error::VerbError;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord, Unsettled};
use crate::membership::Recovery;
use crate::membership::fence::fence;
use crate::memory::Participant;
use crate::memory::pin::Pinned;
use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::remote::NodeGeometry;
use crate::verbs::Status;
use core::future::Future;

/// What the operations of an index share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, 's> {
    /// Where arguments and results are in the scratch.
    pub plan: &'a ScratchPlan,
    /// `None`: lanes do not share operations.
    pub batches: Option<&'a Batches<'s>>,
    /// `None`: opened without recovery.
    pub recovery: Option<&'s Recovery<'s>>,
    /// `None`: the index has no part in the pool's epochs.
    pub epochs: Option<Participant<'s>>,
    /// The memory nodes.
    pub geometry: &'s [NodeGeometry],
}

/// The answer to a scan downwards, of an index that does not have it.
pub(crate) const SCANS_UP_ONLY: OpError =
    OpError::harmless(Cause::BadInput("an index of this kind scans upwards only"));

/// How often an operation has waited for memory, and whether it would wait again.
pub(crate) struct Patience {
    /// How often.
    pub waits: u32,
    /// It would wait again, rather than have a chunk granted.
    pub is_left: bool,
    /// It asked for a chunk, and no memory node had one.
    pub was_refused: bool,
}

impl Patience {
    /// The error of an operation that ended with `error`. One whose deadline passed while it tried again, and that had found
    /// no chunk, was waiting for memory in vain, and says so.
    fn explains(&self, error: OpError) -> OpError {
        match error {
            OpError { effect: Effect::None, cause: Cause::Deadline { .. } } if self.was_refused => {
                Interrupt::NoMemory.into_error()
            }
            error => error,
        }
    }
}

/// An operation that follows pointers, as long as this value is held.
pub(crate) trait UnderWay {
    /// The operation ends with `result`.
    fn ends<T>(&mut self, _result: &Result<T, OpError>) {}
}

impl UnderWay for Pinned<'_> {}

/// An index whose operations run in this way.
pub(crate) trait Run<'s> {
    /// What holds back the epochs while an operation follows pointers.
    type UnderWay<'a, 'm>: UnderWay
    where
        Self: 'a,
        'm: 'a;

    /// The same as of its parameters.
    const SCANS_DOWN: bool = false;

    /// What its operations share.
    fn shared(&self) -> Shared<'_, 's>;

    /// Begins to follow pointers.
    fn begin<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> Self::UnderWay<'a, 'm>;

    /// One attempt at a get. When this or one of the next two is called, the deadline and the watch are set. They are
    /// no `async fn`s, so that an index can return the future of its own procedure, without another one around it.
    fn get_once(&self, lane: &Lane<'_>) -> impl Future<Output = Result<Outcome, Interrupt>>;

    /// One attempt at a scan.
    fn scan_once(&self, lane: &Lane<'_>, operation: &Operation) -> impl Future<Output = Result<Outcome, Interrupt>>;

    /// One attempt at an operation of any other `kind`. `patient`: if it finds no memory, it may be sent back to wait
    /// for some ([`Run::await_memory`]), although a chunk could be granted.
    fn write_once(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        patient: bool,
    ) -> impl Future<Output = Result<Outcome, Interrupt>>;

    /// Looks at the row of a lock's unresponsive holder. If its lease is over, fences it and takes the lock over.
    async fn look_after(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError>;

    /// An attempt found no memory and has changed nothing. If places are in the limbo list, waits until some of them
    /// may be reused. `Err`: the pool is full, since no place waits or the operation's deadline has passed.
    async fn await_memory(&self, _lane: &Lane<'_>, _patience: &mut Patience) -> Result<(), OpError> {
        Err(Interrupt::NoMemory.into_error())
    }

    /// Executes an operation, alone or with others that want its key ([`crate::compute::batches`]). Repeats it
    /// whenever an unresponsive compute node was in the way.
    ///
    /// Not an `async fn`, which would keep its arguments twice.
    fn perform(&self, lane: &Lane<'_>, operation: Operation) -> impl Future<Output = Result<Outcome, OpError>> {
        async move {
            lane.check_settled()?;
            if operation.down && !Self::SCANS_DOWN {
                return Err(SCANS_UP_ONLY);
            }
            lane.begin(operation.wait_ns());
            self.check_not_fenced()?;
            self.fence_unresponsive(lane).await;
            let (mut leads, mut alone) = (false, false);
            if let Shared { plan, batches: Some(batches), .. } = self.shared() {
                alone = batches.stays_away(operation.kind);
                if !alone {
                    match batches.begin(lane, plan, operation.kind).await? {
                        Begun::Told(outcome) => return Ok(outcome),
                        begun => leads = begun == Begun::Leads,
                    }
                }
            }
            let mut under_way = self.begin(lane);
            let mut patience = Patience { waits: 0, is_left: true, was_refused: false };
            // A leader that tries again goes on leading. Its batch may be sealed, and then its value is that of the
            // member that joined last. This value must not be written after that member was told to work alone.
            let result = loop {
                let attempt = match operation.kind {
                    OperationKind::Get => self.get_once(lane).await,
                    OperationKind::Scan => self.scan_once(lane, &operation).await,
                    kind => self.write_once(lane, kind, patience.is_left).await,
                };
                let again = match attempt {
                    Ok(outcome) => break Ok(outcome),
                    Err(Interrupt::NoMemory) => {
                        patience.was_refused |= !patience.is_left;
                        self.await_memory(lane, &mut patience).await
                    }
                    Err(interrupt) => self.overcome(lane, leads, interrupt).await,
                };
                if let Err(error) = again {
                    break Err(patience.explains(error));
                }
            };
            under_way.ends(&result);
            if let (true, Shared { plan, batches: Some(batches), .. }) = (leads, self.shared()) {
                batches.finish(lane, plan, &result).await?;
            }
            if let (true, Some(batches)) = (alone, self.shared().batches) {
                batches.worked_alone(lane, operation.kind);
            }
            let outcome = result?;
            self.watch_on(lane).await;
            Ok(outcome)
        }
    }

    /// Looks after the unresponsive holder that interrupted an attempt. An attempt whose tenure has ended is made again; any
    /// other interrupt is an error. `Ok`: try again. `leads`: the lane leads a batch, which waits.
    async fn overcome(&self, lane: &Lane<'_>, leads: bool, interrupt: Interrupt) -> Result<(), OpError> {
        let overcome = match interrupt {
            Interrupt::Unresponsive(lock_record)
                if !lane.must_settle_besides(lock_record.lock) && (leads || !lane.has_unsettled(Unsettled::BATCH)) =>
            {
                self.look_after(lane, lock_record).await
            }
            Interrupt::TenureEnded => lane.check_deadline(),
            interrupt => Err(interrupt.into_error()),
        };
        overcome.map_err(|error| self.note_fencing(error))
    }

    /// An operation that has its outcome may still have met the unresponsive holder of a parent's lock, when it was
    /// about to link a split there. This watches that holder. The outcome waits until the holder is known to be alive,
    /// or has been fenced. Otherwise every lane could meet the lock as its last step, wait for a part of a lease, and
    /// leave: then no lane would ever take the lock over.
    async fn watch_on(&self, lane: &Lane<'_>) {
        let Some(lock_record) = lane.take_unfinished() else { return };
        // What a failed request left is settled before the lane is used again, and the local entry with it.
        if !lane.must_settle_besides(lock_record.lock) {
            // The outcome stands, whatever comes of it.
            let _ = self.look_after(lane, lock_record).await;
        }
    }

    /// While memory is short, fences an unresponsive compute node that holds back the epochs. The next epoch advance
    /// sees the result. If the fencing cannot be confirmed, memory keeps waiting, and nothing else happens.
    async fn fence_unresponsive(&self, lane: &Lane<'_>) {
        let Shared { recovery, epochs, geometry, .. } = self.shared();
        if recovery.is_some_and(Recovery::can_fence)
            && let Some((row, word)) = epochs.and_then(|part| part.epochs.unresponsive_and_short())
        {
            let _ = fence(lane, geometry, row, word).await;
        }
    }

    /// Refuses an operation if this compute node was fenced.
    fn check_not_fenced(&self) -> Result<(), OpError> {
        if self.shared().recovery.is_some_and(|recovery| recovery.lease.is_fenced()) {
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// A memory node that refuses a compute node because it was fenced ends that node's work: this is not a failure
    /// of one request.
    fn note_fencing(&self, error: OpError) -> OpError {
        let fenced = matches!(error.cause, Cause::Verb(VerbError { status: Status::Fenced, .. }));
        if let (true, Some(recovery)) = (fenced, self.shared().recovery) {
            recovery.lease.fenced();
            return OpError { cause: Cause::Fenced, ..error };
        }
        error
    }
}
