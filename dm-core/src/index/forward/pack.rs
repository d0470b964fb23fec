//! Operations that go to their owner together: one call carries them, and one answer says what became of each.
//!
//! A session packs what one call of its user began together (`multi_get` and its like), if it knows one owner of their keys
//! without asking, from its copy of the table of owners. The owner executes the operations one after another. **Each
//! operation has an answer of its own.** What the owner has not begun has had no effect, and never will: the range moved, or
//! the owner ran out of time or of room for the answer. Such an operation is executed alone then, as [`super::execute`] does, which looks for the
//! owner. So an operation is packed once at most.
//!
//! **A call that is not answered** means to each operation what it means to one that goes alone: a change may have been made, or may be
//! still, and is not repeated; a read ends without effect.

use super::message::{Answer, Answers, RequestWriter, changes, garbled};
use crate::error::VerbError;
use crate::lane::Lane;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Effect, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::remote::HOME;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::verbs::{CallAnswer, Callee, Label, Request, Status};

/// A request to the owner of the keys of its operations, which lies in the scratch of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    /// The owner.
    row: RowId,
    index: IndexNumber,
    count: u16,
    has_changes: bool,
    /// The request's length.
    bytes: usize,
    /// Where the request is, and room for the answer.
    room: Span,
    /// How long the operations may take.
    wait_ns: u64,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// There is an answer of so many bytes.
    Answered(usize),
    /// Nobody has begun to execute it, and nobody will.
    NotServed,
    /// It may have been executed, or may be still.
    Lost(VerbError),
}

impl Pack {
    /// The request that `writer` has written into the room of [`Forwarder`](super::Forwarder), for the compute node of `row`.
    pub fn new(
        writer: &RequestWriter,
        (index, row): (IndexNumber, RowId),
        wait_ns: u64,
        plan: &ScratchPlan,
        room: (Span, &mut [u8]),
    ) -> Option<Self> {
        let (room, bytes) = room;
        let bytes = writer.finish(wait_ns, plan, bytes)?;
        Some(Self { row, index, count: writer.count(), has_changes: writer.has_changes(), bytes, room, wait_ns })
    }

    /// How many operations it has.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Has the owner execute the operations.
    pub async fn call(self, lane: &Lane<'_>) -> Called {
        let mut is_repeated = false;
        loop {
            let callee = Callee::compute_node(self.row.0, self.index.get());
            let call = Request::call(Label::Forward, HOME, self.room.at, self.bytes, self.room.bytes);
            match lane.port().call(call.to(callee, self.wait_ns)).await {
                Ok(completion) => return Called::Answered(CallAnswer(completion.value).bytes()),
                Err(error) if matches!(error.status, Status::NotServed | Status::Unsupported) => {
                    return Called::NotServed;
                }
                Err(_) if !is_repeated && self.is_repeated_by_mutant() => is_repeated = true,
                Err(error) => return Called::Lost(error),
            }
        }
    }

    fn is_repeated_by_mutant(&self) -> bool {
        self.count > 1 && self.has_changes && planted(Mutant::LOST_PACK_REPEATED)
    }

    /// Says what became of each operation, of which `asked` says which it was: `each` is told its place, and the result with the
    /// scratch that has what was found. Or `None`: it was not begun.
    pub fn results(
        &self,
        called: Called,
        plan: &ScratchPlan,
        scratch: &mut [u8],
        asked: impl Fn(u16) -> Operation,
        mut each: impl FnMut(u16, Option<Result<Outcome, OpError>>, &mut [u8]),
    ) {
        let (front, behind) = scratch.split_at_mut_checked(self.room.at).unwrap_or_default();
        let mut all = |result: &dyn Fn(OperationKind) -> Option<OpError>| {
            (0..self.count).for_each(|place| each(place, result(asked(place).kind).map(Err), front));
        };
        let bytes = match called {
            Called::Answered(bytes) => bytes,
            Called::NotServed => return all(&|_| None),
            Called::Lost(error) => return all(&|kind| Some(lost(kind, error))),
        };
        let answers = behind.get(..bytes.min(self.room.bytes)).and_then(|answer| Answers::decode(answer, self.count));
        let Some(answers) = answers else { return all(&|kind| Some(garbled(kind, self.row))) };
        for (place, said) in answers {
            let result = said.map(|said| said.read(&asked(place), self.row, plan, front));
            let result = match result {
                None | Some(Ok(Answer::Elsewhere | Answer::Refused)) => None,
                Some(Ok(Answer::Outcome(outcome))) => Some(Ok(outcome)),
                Some(Err(error)) => Some(Err(error)),
            };
            each(place, result, front);
        }
    }
}

/// The error of an operation whose call was begun and not answered.
pub(super) fn lost(kind: OperationKind, error: VerbError) -> OpError {
    let is_unknown = changes(kind) && !planted(Mutant::LOST_CALL_HARMLESS);
    OpError { effect: if is_unknown { Effect::Unknown } else { Effect::None }, cause: error.into() }
}
