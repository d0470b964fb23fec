//! Operations that one compute node carries out for another: for an index whose keys have owners.
//!
//! ```text
//!  the caller's lane                                   a lane of the owner
//!   execute ─► NotOwner { row } ─► call of that row ─────► put the arguments into the scratch ─► execute
//!      ▲                                                                                           │
//!      │       the answer: an outcome and its bytes ◄──────────────────────────────────────────────┘
//!      └────── NotOwner: the range moves, or has moved
//! ```
//!
//! The lane asks the index first, which knows the owner of its key, or learns it with one READ. If that is another compute node,
//! the lane [calls](crate::verbs::Verb::Call) it. The owner executes the operation like one of its own, on a lane of its own.
//! **It never passes an operation on**: if it does not own the key any more, the caller looks again. So an operation is at two
//! compute nodes at most, and lanes that serve wait for no lane that calls.
//!
//! **Round trips** of the caller: one READ and the call, beside what the owner does.
//!
//! **Linearization.** As the owner's operation, which lies within the call. An answer means at the caller what it means at the
//! owner ([`Level`](crate::operation::Level)).
//!
//! **Calls that fail.** A call that nobody has begun to serve has no effect, and never will
//! ([`NotServed`](crate::verbs::Status::NotServed)): the error is then [`Cause::NotOwner`]. One that was begun and not answered may
//! have been carried out, or may be still: a change ends with [`Effect::Unknown`], a read with [`Effect::None`]. The fabric delivers
//! a call once at most, so no change is made twice.
//!
//! **Scans** end where the range of an owner ends, and say that there may be more. The caller's next page begins at the next owner.
//! A scan that finds nothing in front of another one's range is refused, and its key is then where that range begins: the caller
//! goes on there.
//! The page of another owner has as many records as an answer has room for.
//!
//! **Packs.** A call carries several operations at once, if its lane knows the owner of their keys without asking: see [`pack`].
//! A message with one operation has the same form.
//!
//! **Steps.** An operation of [items](crate::items) is several of the index below, whose keys may have several owners. There each
//! step is forwarded by itself ([`Index::forwards_steps`]): the lane has room for messages ([`Lane::set_message_room`]), and the
//! index passes it on to `execute_step`. A step may name memory of its caller: see [`caller`].
//!
//! Messages come from another program, and are checked like all remote bytes: see [`message`].

pub mod caller;
pub mod message;
pub mod pack;

use crate::index::Index;
use crate::lane::Lane;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part, ScratchPlan};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::Caller;
use crate::verbs::{CALL_BYTES_MAX, Request};
use message::{Answer, RequestWriter};
use pack::{Called, Pack, lost};

/// Bytes of scratch that forwarding takes in a lane: for a message, and behind it for the key that a scan had before.
pub const ROOM_BYTES: usize = CALL_BYTES_MAX + KEY_BYTES_MAX;

/// The first pause before a lane asks again where a key is that was not where it seemed to be, in ns. Each further one is twice
/// as long.
const PAUSE_NS: u64 = 20_000;
/// The longest pause: a fraction of the time that a range takes to move.
const PAUSE_NS_MAX: u64 = 2_000_000;

/// What a lane needs to know to forward operations.
#[derive(Clone, Copy, Debug)]
pub struct Forwarder {
    /// The index.
    pub index: IndexNumber,
    /// Its place in the scratch of each lane: [`ROOM_BYTES`], behind all that the index uses.
    pub room: Span,
}

impl Forwarder {
    /// For an index, with room at the end of `plan`.
    pub fn new(index: IndexNumber, plan: &mut ScratchPlan) -> Self {
        Self { index, room: Span::new(plan.take(ROOM_BYTES).start, ROOM_BYTES) }
    }

    /// Where messages lie.
    pub const fn messages(&self) -> Span {
        Span::new(self.room.at, self.room.bytes.saturating_sub(KEY_BYTES_MAX))
    }

    /// Notes the key of an operation, for [`Forwarder::has_moved`].
    fn keep_key<I: Index>(&self, index: &I, lane: &Lane<'_>) {
        self.with_keys(index, lane, |kept, key| kept.copy_from_slice(key));
    }

    /// Whether the key of an operation is not the one that was kept.
    fn has_moved<I: Index>(&self, index: &I, lane: &Lane<'_>) -> bool {
        self.with_keys(index, lane, |kept, key| kept != key) == Some(true)
    }

    /// Hands over the key that was kept and the one that the operation has.
    fn with_keys<I: Index, R>(
        &self,
        index: &I,
        lane: &Lane<'_>,
        with: impl FnOnce(&mut [u8], &[u8]) -> R,
    ) -> Option<R> {
        lane.port().with(|scratch| {
            let (front, kept) = scratch.split_at_mut_checked(self.messages().end())?;
            let key = index.plan().part(front, Part::Key);
            Some(with(kept.get_mut(..key.len())?, key))
        })
    }
}

/// Executes an operation here, or has the owner of its key execute it.
pub async fn execute<I: Index>(
    index: &I,
    lane: &Lane<'_>,
    operation: Operation,
    forwarder: &Forwarder,
) -> Result<Outcome, OpError> {
    if index.forwards_steps() {
        return index.execute(lane, operation).await;
    }
    execute_step(index, lane, operation, Some(*forwarder), || None).await
}

/// As [`execute`], for an operation that may be a step of one of the compute node `caller`. Without `forwarder` it is executed here
/// or not at all.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
pub(crate) fn execute_step<'a, I: Index>(
    index: &'a I,
    lane: &'a Lane<'_>,
    mut operation: Operation,
    forwarder: Option<Forwarder>,
    caller: impl Fn() -> Option<Caller> + 'a,
) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
    async move {
        let mut pause_ns = PAUSE_NS;
        loop {
            // Only a scan's key may change.
            if let Some(forwarder) = &forwarder
                && operation.kind == OperationKind::Scan
            {
                forwarder.keep_key(index, lane);
            }
            let ended = index.execute(lane, operation).await;
            let Err(OpError { effect: Effect::None, cause: Cause::NotOwner { row, .. } }) = ended else { return ended };
            let Some(forwarder) = &forwarder else { return ended };
            if operation.kind == OperationKind::Scan {
                // Nothing was found in front of another one's range, whose first key is not a cursor.
                operation.after &= !forwarder.has_moved(index, lane) || planted(Mutant::CURSOR_KEPT_AT_BORDER);
                forwarder.keep_key(index, lane);
            }
            // Row 0: the range is between two owners, or the one it was kept for has to take it.
            if row.0 != 0 {
                match call_owner(index, lane, &operation, row, (forwarder, caller())).await? {
                    Answer::Outcome(outcome) => return Ok(outcome),
                    Answer::Elsewhere => {}
                    Answer::Refused => return ended,
                }
            }
            lane.check_deadline()?;
            if operation.kind == OperationKind::Scan && forwarder.has_moved(index, lane) {
                // It goes on at the next owner at once.
                operation.after &= planted(Mutant::CURSOR_KEPT_AT_BORDER);
                pause_ns = PAUSE_NS;
                continue;
            }
            lane.port().call(Request::pause(pause_ns)).await?;
            pause_ns = (2 * pause_ns).min(PAUSE_NS_MAX);
        }
    }
}

/// Has the compute node of `row` execute an operation, whose arguments are in the scratch.
async fn call_owner<I: Index>(
    index: &I,
    lane: &Lane<'_>,
    operation: &Operation,
    row: RowId,
    (forwarder, caller): (&Forwarder, Option<Caller>),
) -> Result<Answer, OpError> {
    let plan = index.plan();
    let room = forwarder.messages();
    // What is left of its time is the owner's.
    let wait_ns = lane.remaining_ns();
    let pack = lane.port().with(|scratch| {
        let (front, behind) = scratch.split_at_mut_checked(room.at)?;
        let mut writer = RequestWriter::new(forwarder.index).of_steps(caller);
        let is_written = writer.add(operation, plan, front, behind);
        Pack::new(&writer, (forwarder.index, row), wait_ns, plan, (room, behind)).filter(|_| is_written)
    });
    let Some(pack) = pack else { return Ok(Answer::Refused) };
    // Also if this future is dropped meanwhile.
    lane.set_may_change_late(message::changes(operation.kind));
    let answer = match pack.call(lane).await {
        Called::Answered(bytes) => lane.port().with(|scratch| {
            let (front, behind) = scratch.split_at_mut_checked(room.at).unwrap_or_default();
            let answer = behind.get(..bytes).unwrap_or_default();
            message::decode_answer(answer, operation, row, plan, front)
        }),
        Called::NotServed => Ok(Answer::Refused),
        Called::Lost(error) => Err(lost(operation.kind, error)),
    };
    let is_unknown = matches!(answer, Err(OpError { effect: Effect::Unknown, .. }));
    lane.set_may_change_late(is_unknown);
    answer
}
