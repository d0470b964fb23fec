//! Requests and answers as bytes. All numbers are little-endian.
//!
//! ```text
//!  request: header (24 bytes) │ the parts that its kind has, in the order of `Part`, each of the index's length
//!  answer:  header (16 bytes) │ the value that was found, or the records of a page, or where the range of another owner begins
//! ```

use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part, ScratchPlan};
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of both messages.
const VERSION: u8 = 1;
/// Execute an operation. A memory node's processor has procedures of other numbers.
const EXECUTE: u8 = 2;

const AFTER: u8 = 1;
const BOUNDED: u8 = 2;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestHeader {
    version: u8,
    procedure: u8,
    kind: u8,
    flags: u8,
    index: U16,
    reserved: U16,
    key_bytes: U16,
    value_bytes: U16,
    limit: U32,
    /// How long the operation may wait, in ns.
    wait_ns: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerHeader {
    version: u8,
    /// See [`Outcome::number`]; or [`FAILED`], [`PAGE`], [`PAGE_AND_MORE`].
    outcome: u8,
    effect: u8,
    cause: u8,
    /// Of a page: how many.
    records: U32,
    /// Of [`DEADLINE`]: how long the operation had waited, in ns.
    detail: U64,
}

const REQUEST_BYTES: usize = size_of::<RequestHeader>();
/// Bytes of an answer in front of what was found.
pub const ANSWER_BYTES: usize = size_of::<AnswerHeader>();

/// Outcome: there is none.
const FAILED: u8 = 0;
const PAGE: u8 = 9;
const PAGE_AND_MORE: u8 = 10;

/// Cause: the owner does not own the key.
const NOT_OWNER: u8 = 1;
const DEADLINE: u8 = 2;
const POOL_FULL: u8 = 3;
const OTHER: u8 = 4;

const EFFECTS: [Effect; 3] = [Effect::None, Effect::Unknown, Effect::Done];

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The owner has executed the operation. What it found is in the scratch.
    Outcome(Outcome),
    /// The callee does not own the key.
    Elsewhere,
    /// Nobody executes the operation for this compute node.
    Refused,
}

/// Writes the request for an operation whose arguments are in `scratch`. Returns its length. `None`: it has no room, or keys and
/// values of the index have lengths of their own.
pub fn encode_request(
    operation: &Operation,
    index: IndexNumber,
    plan: &ScratchPlan,
    scratch: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    if plan.has_lengths() || operation.down {
        return None;
    }
    let header = RequestHeader {
        version: VERSION,
        procedure: EXECUTE,
        kind: operation.kind as u8,
        flags: if operation.after { AFTER } else { 0 } | if operation.bounded { BOUNDED } else { 0 },
        index: index.get().into(),
        reserved: 0.into(),
        key_bytes: u16::try_from(plan.key_bytes).ok()?.into(),
        value_bytes: u16::try_from(plan.value_bytes).ok()?.into(),
        limit: operation.limit.into(),
        wait_ns: operation.wait_ns().into(),
    };
    out.get_mut(..REQUEST_BYTES)?.copy_from_slice(header.as_bytes());
    let mut end = REQUEST_BYTES;
    for &part in operation.kind.parts() {
        let bytes = plan.part(scratch, part);
        out.get_mut(end..end + bytes.len())?.copy_from_slice(bytes);
        end += bytes.len();
    }
    Some(end)
}

/// Reads a request, and puts the arguments into `scratch`. A scan's limit is what an answer of `answer_bytes` has room for, at
/// most. `None`: it is none, or for another index.
pub fn decode_request(
    message: &[u8],
    index: IndexNumber,
    plan: &ScratchPlan,
    answer_bytes: usize,
    scratch: &mut [u8],
) -> Option<Operation> {
    let (header, mut rest) = RequestHeader::read_from_prefix(message).ok()?;
    let sizes = (usize::from(header.key_bytes.get()), usize::from(header.value_bytes.get()));
    let sound = header.version == VERSION
        && header.procedure == EXECUTE
        && header.index.get() == index.get()
        && sizes == (plan.key_bytes, plan.value_bytes)
        && header.flags & !(AFTER | BOUNDED) == 0
        && !plan.has_lengths();
    let kind = OperationKind::ALL.get(usize::from(header.kind)).copied().filter(|_| sound)?;
    for &part in kind.parts() {
        let (bytes, behind) = rest.split_at_checked(plan.range(part).len())?;
        if !plan.put(scratch, part, bytes) {
            return None;
        }
        rest = behind;
    }
    let is_scan = kind == OperationKind::Scan;
    let record_bytes = (plan.key_bytes + plan.value_bytes).max(1);
    let limit_max = (answer_bytes.checked_sub(ANSWER_BYTES)? / record_bytes).min(plan.page_records());
    let limit = (header.limit.get() as usize).min(limit_max) as u32;
    let operation = Operation {
        kind,
        limit: if is_scan { limit } else { 0 },
        after: is_scan && header.flags & AFTER != 0,
        bounded: is_scan && header.flags & BOUNDED != 0,
        down: false,
        deadline_ns: header.wait_ns.get().clamp(1, Operation::WAIT_NS_DEFAULT),
    };
    rest.is_empty().then_some(operation)
}

/// Writes the answer of an operation that has ended, and whose results are in `scratch`. Returns its length; 0: it has no room.
pub fn encode_answer(result: &Result<Outcome, OpError>, plan: &ScratchPlan, scratch: &[u8], out: &mut [u8]) -> usize {
    let mut header = header_of(FAILED);
    let mut behind: &[u8] = &[];
    match result {
        Ok(Outcome::Page { records, more }) => {
            header.outcome = if *more { PAGE_AND_MORE } else { PAGE };
            header.records = (*records).into();
            let page = scratch.get(plan.page.clone()).unwrap_or_default();
            behind = page.get(..*records as usize * (plan.key_bytes + plan.value_bytes)).unwrap_or_default();
        }
        Ok(outcome) => {
            header.outcome = outcome.number();
            if outcome.has_value() {
                behind = plan.part(scratch, Part::Output);
            }
        }
        Err(OpError { effect, cause }) => {
            header.effect = *effect as u8;
            (header.cause, header.detail) = match cause {
                Cause::NotOwner { .. } => {
                    behind = plan.part(scratch, Part::Key);
                    (NOT_OWNER, 0.into())
                }
                Cause::Deadline { elapsed_ns } => (DEADLINE, (*elapsed_ns).into()),
                Cause::PoolFull => (POOL_FULL, 0.into()),
                _ => (OTHER, 0.into()),
            };
        }
    }
    let Some((front, rest)) = out.split_at_mut_checked(ANSWER_BYTES) else { return 0 };
    let Some(place) = rest.get_mut(..behind.len()) else { return 0 };
    front.copy_from_slice(header.as_bytes());
    place.copy_from_slice(behind);
    ANSWER_BYTES + behind.len()
}

/// The answer to a request that the callee does not execute.
pub fn not_here() -> [u8; ANSWER_BYTES] {
    let mut answer = [0; ANSWER_BYTES];
    let refused = AnswerHeader { cause: NOT_OWNER, ..header_of(FAILED) };
    answer.copy_from_slice(refused.as_bytes());
    answer
}

const fn header_of(outcome: u8) -> AnswerHeader {
    AnswerHeader { version: VERSION, outcome, effect: 0, cause: 0, records: U32::ZERO, detail: U64::ZERO }
}

/// Reads what the compute node of `row` answered to `operation`, and puts what was found into `scratch`. The error is that of
/// the operation.
pub fn decode_answer(
    message: &[u8],
    operation: &Operation,
    row: RowId,
    plan: &ScratchPlan,
    scratch: &mut [u8],
) -> Result<Answer, OpError> {
    let changes = !matches!(operation.kind, OperationKind::Get | OperationKind::Scan);
    let is_scan = operation.kind == OperationKind::Scan;
    let failed = |effect, cause| OpError { effect: if changes { effect } else { Effect::None }, cause };
    // The owner may have executed it all the same.
    let garbled = failed(Effect::Unknown, Cause::AtOwner { row });
    let Ok((header, behind)) = AnswerHeader::read_from_prefix(message) else { return Err(garbled) };
    if header.version != VERSION {
        return Err(garbled);
    }
    if header.outcome == FAILED {
        let effect = EFFECTS.get(usize::from(header.effect)).copied().ok_or(garbled)?;
        return match header.cause {
            NOT_OWNER if effect == Effect::None => {
                // A scan that found nothing goes on where another one's range begins, which is never in front.
                if is_scan && behind.len() == plan.key_bytes && behind > plan.part(scratch, Part::Key) {
                    let _ = plan.put(scratch, Part::Key, behind);
                }
                Ok(Answer::Elsewhere)
            }
            DEADLINE => Err(failed(effect, Cause::Deadline { elapsed_ns: header.detail.get() })),
            POOL_FULL => Err(failed(effect, Cause::PoolFull)),
            _ => Err(failed(effect, Cause::AtOwner { row })),
        };
    }
    if let PAGE | PAGE_AND_MORE = header.outcome {
        let records = header.records.get();
        let bytes = (records as usize).checked_mul(plan.key_bytes + plan.value_bytes);
        let page = scratch.get_mut(plan.page.clone()).unwrap_or_default();
        let place = bytes.and_then(|bytes| page.get_mut(..bytes)).filter(|place| place.len() == behind.len());
        let place = place.filter(|_| is_scan && records <= operation.limit).ok_or(garbled)?;
        place.copy_from_slice(behind);
        return Ok(Answer::Outcome(Outcome::Page { records, more: header.outcome == PAGE_AND_MORE }));
    }
    let outcome = Outcome::from_number(header.outcome).filter(|_| !is_scan).ok_or(garbled)?;
    let is_whole = if outcome.has_value() { plan.put(scratch, Part::Output, behind) } else { behind.is_empty() };
    if is_whole { Ok(Answer::Outcome(outcome)) } else { Err(garbled) }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn plan() -> ScratchPlan {
        let mut plan = ScratchPlan::new(8, 16);
        plan.page = plan.take(4 * 24);
        plan
    }

    const INDEX: IndexNumber = IndexNumber::NONE;

    fn scratch(plan: &ScratchPlan, salt: u8) -> Vec<u8> {
        (0..plan.total_bytes).map(|at| (at as u8).wrapping_mul(7).wrapping_add(salt)).collect()
    }

    #[test]
    fn operations_arrive_as_they_were_sent() {
        let plan = plan();
        let mine = scratch(&plan, 3);
        for kind in OperationKind::ALL {
            let (limit, deadline_ns) = (if kind == OperationKind::Scan { 3 } else { 0 }, 77);
            let is_scan = kind == OperationKind::Scan;
            let operation = Operation { kind, limit, after: is_scan, bounded: is_scan, down: false, deadline_ns };
            let mut message = [0; 256];
            let bytes = encode_request(&operation, INDEX, &plan, &mine, &mut message).unwrap();
            let mut theirs = scratch(&plan, 90);
            assert_eq!(decode_request(&message[..bytes], INDEX, &plan, 256, &mut theirs), Some(operation));
            for &part in kind.parts() {
                assert_eq!(plan.part(&mine, part), plan.part(&theirs, part), "{kind:?} {part:?}");
            }
            for short in 0..bytes {
                assert_eq!(decode_request(&message[..short], INDEX, &plan, 256, &mut theirs), None);
            }
            assert_eq!(decode_request(&message[..=bytes], INDEX, &plan, 256, &mut theirs), None, "too long");
            assert!(encode_request(&operation, INDEX, &plan, &mine, &mut message[..bytes - 1]).is_none());
        }
    }

    #[test]
    fn a_page_has_as_many_records_as_the_answer_has_room_for() {
        let (plan, operation) = (plan(), Operation::scan(4));
        let mut message = [0; 256];
        let bytes = encode_request(&operation, INDEX, &plan, &scratch(&plan, 0), &mut message).unwrap();
        let limit = |room| {
            decode_request(&message[..bytes], INDEX, &plan, room, &mut scratch(&plan, 0)).map(|found| found.limit)
        };
        let found = [15, 16, 16 + 24, 16 + 95, 4096].map(limit);
        assert_eq!(found, [None, Some(0), Some(1), Some(3), Some(4)]);
    }

    #[test]
    fn outcomes_and_errors_come_back() {
        let plan = plan();
        let theirs = scratch(&plan, 11);
        let get = Operation::point(OperationKind::Get);
        let insert = Operation::point(OperationKind::Insert);
        let mut message = [0; 256];
        for outcome in (1..=8).filter_map(Outcome::from_number) {
            let bytes = encode_answer(&Ok(outcome), &plan, &theirs, &mut message);
            let mut mine = scratch(&plan, 50);
            let answer = decode_answer(&message[..bytes], &insert, RowId(3), &plan, &mut mine);
            assert_eq!(answer, Ok(Answer::Outcome(outcome)));
            if outcome.has_value() {
                assert_eq!(plan.part(&mine, Part::Output), plan.part(&theirs, Part::Output));
            }
            assert!(decode_answer(&message[..bytes], &Operation::scan(2), RowId(3), &plan, &mut mine).is_err());
            assert!(decode_answer(&message[..bytes - 1], &insert, RowId(3), &plan, &mut mine).is_err());
        }
        let page = Outcome::Page { records: 3, more: true };
        let bytes = encode_answer(&Ok(page), &plan, &theirs, &mut message);
        let mut mine = scratch(&plan, 50);
        let answer =
            |limit, mine: &mut [u8]| decode_answer(&message[..bytes], &Operation::scan(limit), RowId(3), &plan, mine);
        assert_eq!(answer(3, &mut mine), Ok(Answer::Outcome(page)));
        assert_eq!(mine[plan.page.clone()][..72], theirs[plan.page.clone()][..72]);
        assert!(answer(2, &mut mine).is_err(), "more than was asked for");

        let at_owner = Cause::AtOwner { row: RowId(3) };
        let back = |effect, cause| {
            let mut message = [0; 256];
            let bytes = encode_answer(&Err(OpError { effect, cause }), &plan, &theirs, &mut message);
            [get, insert]
                .map(|operation| decode_answer(&message[..bytes], &operation, RowId(3), &plan, &mut scratch(&plan, 0)))
        };
        let not_owner = Cause::NotOwner { row: RowId(9), epoch: 4 };
        assert_eq!(back(Effect::None, not_owner), [Ok(Answer::Elsewhere); 2]);
        let refused = Err(OpError::harmless(not_owner));
        for (theirs, mine, expected) in [([5; 8], [4; 8], [5; 8]), ([3; 8], [4; 8], [4; 8])] {
            let (mut from, mut to) = (scratch(&plan, 0), scratch(&plan, 0));
            assert!(plan.put(&mut from, Part::Key, &theirs) && plan.put(&mut to, Part::Key, &mine));
            let bytes = encode_answer(&refused, &plan, &from, &mut message);
            let answer = decode_answer(&message[..bytes], &Operation::scan(2), RowId(3), &plan, &mut to);
            assert_eq!((answer, plan.part(&to, Part::Key)), (Ok(Answer::Elsewhere), &expected[..]));
        }
        let full = back(Effect::Done, Cause::PoolFull);
        let of = |effect, cause| Err(OpError { effect, cause });
        assert_eq!(full, [of(Effect::None, Cause::PoolFull), of(Effect::Done, Cause::PoolFull)]);
        let late = Cause::Deadline { elapsed_ns: 123 };
        assert_eq!(back(Effect::Unknown, late), [of(Effect::None, late), of(Effect::Unknown, late)]);
        assert_eq!(back(Effect::None, Cause::Fenced), [of(Effect::None, at_owner); 2]);
    }

    #[test]
    fn garbage_is_an_error_whose_effect_is_unknown() {
        let plan = plan();
        let mut mine = scratch(&plan, 0);
        for seed in 0..20_000_u32 {
            let mut word = seed;
            let message: Vec<u8> = (0..seed % 70)
                .map(|at| {
                    word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if at == 0 && seed % 3 > 0 { VERSION } else { (word >> 24) as u8 % 14 }
                })
                .collect();
            let _ = decode_request(&message, INDEX, &plan, 256, &mut mine);
            let _ = decode_answer(&message, &Operation::scan(2), RowId(1), &plan, &mut mine);
            let answer = decode_answer(&message, &Operation::point(OperationKind::Upsert), RowId(1), &plan, &mut mine);
            if message.len() < ANSWER_BYTES || message[0] != VERSION {
                assert_eq!(answer.unwrap_err().effect, Effect::Unknown);
            }
        }
    }
}
