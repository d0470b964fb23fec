//! Operations that go to their owner together: one call carries them, and one answer says what became of each.
//!
//! A session packs what one call of its user began together (`multi_get` and its like), if it knows one owner of their keys
//! without asking, from its copy of the table of owners. The owner executes the operations one after another. **Each
//! operation has an answer of its own.** What the owner has not begun has had no effect, and never will: the range moved, or
//! the owner ran out of time or of room for the answer. Such an operation is executed alone then, as [`super::execute`] does,
//! which looks for the owner. So an operation is packed once at most.
//!
//! **A call that is not answered** means to each operation what it means to one that goes alone: a change may have been made,
//! or may be still, and is not repeated; a read ends without effect.

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

#[cfg(test)]
mod tests {
    use super::super::message::{Serving, not_here};
    use super::*;
    use crate::operation::{Cause, Part};
    use crate::verbs::{NodeId, Verb};
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    const KINDS: [OperationKind; 3] = [OperationKind::Get, OperationKind::Upsert, OperationKind::Delete];

    /// What becomes of a get and two changes whose call comes to `called`, with `answer` behind them. The owner executes the request
    /// itself, if there is none.
    fn became(called: impl Fn(usize) -> Called, answer: Option<&[u8]>) -> Vec<(u16, Option<Result<Outcome, OpError>>)> {
        let mut plan = ScratchPlan::new(8, 16);
        let room = plan.take(512);
        let mut scratch = vec![0; plan.total_bytes];
        let (mut writer, index, at) = (RequestWriter::new(IndexNumber::NONE), IndexNumber::NONE, room.start);
        let (front, behind) = scratch.split_at_mut(at);
        for (first, kind) in (1..).zip(KINDS) {
            assert!(plan.put(front, Part::Key, &[first; 8]));
            assert!(writer.add(&Operation::point(kind), &plan, front, behind));
        }
        let pack = Pack::new(&writer, (index, RowId(3)), 1000, &plan, (Span::new(at, 512), behind)).unwrap();
        assert!(pack.count() == 3 && pack.has_changes);
        let answer = answer.map_or_else(
            || {
                let (request, mut answer) = (behind[..pack.bytes].to_vec(), vec![0; 512]);
                let mut serving = Serving::decode(&request, (index, false), &plan, 512).unwrap();
                // The second one's range has moved.
                for result in
                    [Ok(Outcome::Found), Err(Cause::NotOwner { row: RowId(9), epoch: 4 }), Ok(Outcome::Deleted)]
                {
                    assert!(serving.next(&request, &plan, front, 0, &mut answer).is_some());
                    serving.ended(&result.map_err(OpError::harmless), &plan, front, &mut answer);
                }
                let bytes = serving.finish(&mut answer);
                answer.truncate(bytes);
                answer
            },
            <[u8]>::to_vec,
        );
        behind[..answer.len()].copy_from_slice(&answer);
        let mut said = Vec::new();
        let asked = |place| Operation::point(KINDS[usize::from(place)]);
        pack.results(called(answer.len()), &plan, &mut scratch, asked, |place, result, _| said.push((place, result)));
        said
    }

    #[test]
    fn each_operation_of_a_call_is_told_what_became_of_it() {
        let answered = became(Called::Answered, None);
        assert_eq!(answered, [(0, Some(Ok(Outcome::Found))), (2, Some(Ok(Outcome::Deleted))), (1, None)]);
        let none = [(0, None), (1, None), (2, None)];
        assert_eq!(became(|_| Called::NotServed, None), none);
        assert_eq!(became(Called::Answered, Some(&not_here())), none);
    }

    #[test]
    fn a_call_that_is_not_answered_may_have_made_its_changes() {
        let error = VerbError {
            status: Status::Unanswered,
            verb: Verb::Call,
            label: Label::Forward,
            node: NodeId(0),
            offset: 0,
        };
        let of = |effects: [Effect; 3], cause: Cause| {
            (0..).zip(effects).map(|(place, effect)| (place, Some(Err(OpError { effect, cause })))).collect::<Vec<_>>()
        };
        let unknown = [Effect::None, Effect::Unknown, Effect::Unknown];
        assert_eq!(became(|_| Called::Lost(error), None), of(unknown, error.into()));
        // Nor is one whose answer nobody understands.
        let at_owner = Cause::AtOwner { row: RowId(3) };
        assert_eq!(became(Called::Answered, Some(&[])), of(unknown, at_owner));
        assert_eq!(became(|bytes| Called::Answered(bytes - 1), None), of(unknown, at_owner));
        assert_eq!(became(|_| Called::Answered(usize::MAX), None), of(unknown, at_owner));
    }
}
