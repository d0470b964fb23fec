use super::*;
use crate::mutants::with_planted;
use crate::verbs::NodeId;
extern crate std;
use std::vec;
use std::vec::Vec;

fn plan() -> ScratchPlan {
    plan_for_keys_of(8)
}

fn plan_for_keys_of(key_bytes: usize) -> ScratchPlan {
    let mut plan = ScratchPlan::new(key_bytes, 16);
    plan.page = plan.take(4 * (key_bytes + 16));
    plan
}

const INDEX: IndexNumber = IndexNumber::NONE;
const ROW: RowId = RowId(3);
const ELSEWHERE: Result<Outcome, OpError> = Err(OpError::harmless(Cause::NotOwner { row: RowId(9), epoch: 4 }));

fn scratch(plan: &ScratchPlan, salt: u8) -> Vec<u8> {
    (0..plan.total_bytes).map(|at| (at as u8).wrapping_mul(7).wrapping_add(salt)).collect()
}

/// A request of these operations, whose arguments are in scratches of their own.
fn request(plan: &ScratchPlan, operations: &[(Operation, Vec<u8>)]) -> Vec<u8> {
    let (mut writer, mut out) = (RequestWriter::new(INDEX), vec![0; CALL_BYTES_MAX]);
    for (operation, scratch) in operations {
        assert!(writer.add(operation, plan, scratch, &mut out));
    }
    let bytes = writer.finish(77, plan, &mut out).unwrap();
    out.truncate(bytes);
    out
}

/// The answer of an owner that has `room` for it. What an operation comes to, which is asked with its key's first byte, and how
/// long the call has taken then.
fn answer(
    plan: &ScratchPlan,
    request: &[u8],
    room: usize,
    mut come_to: impl FnMut(u8) -> (Result<Outcome, OpError>, u64),
) -> Option<Vec<u8>> {
    let mut answer = vec![0; room];
    let mut serving = Serving::decode(request, (INDEX, false), plan, room)?;
    let (mut scratch, mut elapsed_ns) = (scratch(plan, 90), 0);
    while serving.next(request, plan, &mut scratch, elapsed_ns, &mut answer).is_some() {
        let first = plan.part(&scratch, Part::Key)[0];
        scratch[plan.output.clone()].fill(first);
        let result;
        (result, elapsed_ns) = come_to(first);
        serving.ended(&result, plan, &scratch, &mut answer);
    }
    assert!(serving.is_over());
    let bytes = serving.finish(&mut answer);
    answer.truncate(bytes);
    Some(answer)
}

/// Gets of so many keys, the first of which begins with 0.
fn gets(plan: &ScratchPlan, count: u8) -> Vec<(Operation, Vec<u8>)> {
    let one = |first| {
        let mut scratch = scratch(plan, 0);
        assert!(plan.put(&mut scratch, Part::Key, &[first; 8]));
        (Operation::point(OperationKind::Get), scratch)
    };
    (0..count).map(one).collect()
}

/// What is said of a place: a value's first byte, or that it was not begun.
type Told = (u16, Option<Result<u8, OpError>>);

fn said(plan: &ScratchPlan, answer: &[u8], count: u16) -> Option<Vec<Told>> {
    let mut scratch = scratch(plan, 5);
    let get = Operation::point(OperationKind::Get);
    let mut read =
        |said: Said<'_>| said.read(&get, ROW, plan, &mut scratch).map(|_| plan.part(&scratch, Part::Output)[0]);
    Some(Answers::decode(answer, count)?.map(|(place, one)| (place, one.map(&mut read))).collect())
}

#[test]
fn operations_arrive_as_they_were_sent() {
    let plan = plan();
    let mine = scratch(&plan, 3);
    for kind in OperationKind::ALL {
        let (limit, deadline_ns) = (if kind == OperationKind::Scan { 3 } else { 0 }, 77);
        let is_scan = kind == OperationKind::Scan;
        let operation =
            Operation { kind, limit, after: is_scan, bounded: is_scan, down: false, deadline_ns, caller: None };
        let message = request(&plan, &[(operation, mine.clone())]);
        let mut theirs = scratch(&plan, 90);
        let decode = |message: &[u8], theirs: &mut [u8]| {
            Serving::decode(message, (INDEX, false), &plan, 256)?.next(message, &plan, theirs, 0, &mut [0; 256])
        };
        assert_eq!(decode(&message, &mut theirs), Some(operation));
        for &part in kind.parts() {
            assert_eq!(plan.part(&mine, part), plan.part(&theirs, part), "{kind:?} {part:?}");
        }
        for short in 0..message.len() {
            assert_eq!(decode(&message[..short], &mut theirs), None);
        }
        assert_eq!(decode(&[&message[..], &[0]].concat(), &mut theirs), None, "too long");
        let mut writer = RequestWriter::new(INDEX);
        assert!(!writer.add(&operation, &plan, &mine, &mut vec![0; message.len() - 1]));
        assert_eq!(writer.finish(77, &plan, &mut [0; 256]), None, "it has no operation");
    }
}

#[test]
fn a_request_has_what_it_says() {
    let plan = plan();
    let message = request(&plan, &gets(&plan, 5));
    let decode = |message: &[u8]| Serving::decode(message, (INDEX, false), &plan, 4096).map(|serving| serving.count());
    assert_eq!(decode(&message), Some(5));
    for short in 0..message.len() {
        assert_eq!(decode(&message[..short]), None);
    }
    let counted = |count: u16| {
        let mut message = message.clone();
        message[4..6].copy_from_slice(&count.to_le_bytes());
        decode(&message)
    };
    // Bytes behind the last one, none at all, too few, and more than any message has.
    assert_eq!([4, 0, 6, 257, u16::MAX].map(counted), [None; 5]);
    for (at, byte) in [(0, 2), (0, 4), (1, 3), (2, 7), (6, 9), (8, 9), (24, 1), (31, 1), (32, 8), (33, 4)] {
        let mut message = message.clone();
        message[at] = byte;
        assert_eq!(decode(&message), None, "byte {at} is {byte}");
    }
    // Steps of operations name their caller, and whole operations name none.
    assert!(Serving::decode(&message, (INDEX, true), &plan, 4096).is_none());
    let caller = Caller { row: RowId(7), incarnation: 3, given_up: 1 };
    let mut steps = message.clone();
    steps[24..32].copy_from_slice(&caller.to_bits().to_le_bytes());
    let mut serving = Serving::decode(&steps, (INDEX, true), &plan, 4096).unwrap();
    let step = serving.next(&steps, &plan, &mut vec![0; plan.total_bytes], 0, &mut [0; 4096]).unwrap();
    assert_eq!(step.caller, Some(caller));
    // The answer has no place for all of them.
    let with_room = |room| Serving::decode(&message, (INDEX, false), &plan, room).is_some();
    assert_eq!([17, 18].map(with_room), [false, true]);
}

#[test]
fn a_message_takes_as_many_operations_as_it_and_its_answer_have_room_for() {
    let added = |key_bytes, value_bytes, kind| {
        let mut plan = ScratchPlan::new(key_bytes, value_bytes);
        plan.page = plan.take(24);
        let (mut writer, mut out) = (RequestWriter::new(INDEX), vec![0; CALL_BYTES_MAX]);
        let scratch = scratch(&plan, 1);
        while writer.add(&Operation::point(kind), &plan, &scratch, &mut out) {}
        let bytes = writer.finish(1, &plan, &mut out).unwrap();
        let answer = answer(&plan, &out[..bytes], CALL_BYTES_MAX, |_| (Ok(Outcome::Found), 0)).unwrap();
        assert!(bytes <= CALL_BYTES_MAX && answer.len() <= CALL_BYTES_MAX);
        assert!(said(&plan, &answer, writer.count()).unwrap().iter().all(|(_, said)| matches!(said, Some(Ok(_)))));
        writer.count()
    };
    assert_eq!(added(8, 8, OperationKind::Get), 255);
    assert_eq!(added(8, 16, OperationKind::Get), 170);
    assert_eq!(added(8, 16, OperationKind::Upsert), 145);
    assert_eq!(added(64, 1024, OperationKind::UpdateIf), 1);
    // A scan's page takes what room there is.
    let (plan, mut out) = (plan(), vec![0; CALL_BYTES_MAX]);
    for kinds in [[OperationKind::Scan, OperationKind::Get], [OperationKind::Get, OperationKind::Scan]] {
        let mut writer = RequestWriter::new(INDEX);
        let added = kinds.map(|kind| writer.add(&Operation::point(kind), &plan, &scratch(&plan, 0), &mut out));
        assert_eq!(added, [true, false]);
    }
    // No message says that an operation goes down, or how long its key is.
    let down = Operation { down: true, ..Operation::scan(8) };
    let with_lengths = ScratchPlan { lengths: 0..plan.key.end, ..plan.clone() };
    for (operation, of) in [(down, &plan), (Operation::point(OperationKind::Get), &with_lengths)] {
        assert!(!RequestWriter::new(INDEX).add(&operation, of, &scratch(&plan, 0), &mut out));
    }
}

#[test]
fn each_operation_has_an_answer_of_its_own() {
    let plan = plan();
    let message = request(&plan, &gets(&plan, 6));
    let full = OpError::harmless(Cause::PoolFull);
    let of = |first, result: Result<Outcome, OpError>| (if first == 1 { ELSEWHERE } else { result }, 0);
    let answered = answer(&plan, &message, 4096, |first| of(first, Ok(Outcome::Found))).unwrap();
    let found = |place| (place, Some(Ok(place as u8)));
    let expected = [found(0), found(2), found(3), found(4), found(5), (1, None)];
    assert_eq!(said(&plan, &answered, 6).unwrap(), expected);
    let swapped = with_planted(Some(Mutant::ANSWERS_IN_ORDER), || said(&plan, &answered, 6)).unwrap();
    assert_eq!(swapped[1], (1, Some(Ok(2))));
    // One that fails ends the call: its lane may have to be settled.
    let failing = |first| of(first, if first == 3 { Err(full) } else { Ok(Outcome::Found) });
    let answered = answer(&plan, &message, 4096, failing).unwrap();
    let expected = [found(0), found(2), (3, Some(Err(full))), (5, None), (4, None), (1, None)];
    assert_eq!(said(&plan, &answered, 6).unwrap(), expected);
    // Half of 77 ns are over.
    let slow = |first| (Ok(Outcome::Found), u64::from(first) * 20);
    let answered = answer(&plan, &message, 4096, slow).unwrap();
    assert_eq!(said(&plan, &answered, 6).unwrap()[2..], [found(2), (5, None), (4, None), (3, None)]);
    // Room for two answers and four places, less a byte.
    let answered = answer(&plan, &message, 8 + 2 * 24 + 4 * 2 - 1, |_| (Ok(Outcome::Found), 0)).unwrap();
    assert_eq!(said(&plan, &answered, 6).unwrap()[..2], [found(0), (5, None)]);
    let answered = answer(&plan, &message, 20, |_| panic!("there is no room for an answer")).unwrap();
    assert_eq!(said(&plan, &answered, 6).unwrap().len(), 6);
    let none = said(&plan, &not_here(), 6).unwrap();
    assert_eq!(none, (0..6).map(|place| (place, None)).collect::<Vec<_>>());
}

#[test]
fn an_answer_has_every_operation_once() {
    let plan = plan();
    let message = request(&plan, &gets(&plan, 4));
    let of = |first| (if first == 1 { ELSEWHERE } else { Ok(Outcome::Found) }, 0);
    let answered = answer(&plan, &message, 4096, of).unwrap();
    assert!(said(&plan, &answered, 4).is_some() && said(&plan, &answered, 3).is_none());
    for short in 0..answered.len() {
        assert!(said(&plan, &answered[..short], 4).is_none());
    }
    assert!(said(&plan, &[&answered[..], &[0, 0]].concat(), 4).is_none());
    let last = answered.len() - 2;
    // Version, numbers of both kinds, places twice or of none, and bytes that are not there.
    for (at, byte) in [(0, 1), (2, 4), (2, 2), (4, 0), (4, 255), (8, 1), (8, 2), (8, 4), (9, 1), (14, 255), (last, 0)] {
        let mut answered = answered.clone();
        answered[at] = byte;
        assert!(said(&plan, &answered, 4).is_none(), "byte {at} is {byte}");
    }
}

#[test]
fn a_page_has_as_many_records_as_the_answer_has_room_for() {
    let plan = plan();
    let message = request(&plan, &[(Operation::scan(4), scratch(&plan, 0))]);
    let limit = |room| {
        let mut serving = Serving::decode(&message, (INDEX, false), &plan, room)?;
        Some(serving.next(&message, &plan, &mut scratch(&plan, 0), 0, &mut vec![0; room])?.limit)
    };
    let found = [9, 23, 24, 16 + 24, 16 + 95, 4096].map(limit);
    assert_eq!(found, [None, None, Some(0), Some(1), Some(3), Some(4)]);
}

/// The answer to an operation that ends so, with what is in `scratch`.
fn answer_to(plan: &ScratchPlan, kind: OperationKind, result: &Result<Outcome, OpError>, scratch: &[u8]) -> Vec<u8> {
    let message = request(plan, &[(Operation { limit: 4, ..Operation::point(kind) }, scratch.to_vec())]);
    let mut serving = Serving::decode(&message, (INDEX, false), plan, 256).unwrap();
    let mut answer = vec![0; 256];
    assert!(serving.next(&message, plan, &mut scratch.to_vec(), 0, &mut answer).is_some());
    serving.ended(result, plan, scratch, &mut answer);
    let bytes = serving.finish(&mut answer);
    answer.truncate(bytes);
    answer
}

#[test]
fn outcomes_and_errors_come_back() {
    let plan = plan();
    let theirs = scratch(&plan, 11);
    let get = Operation::point(OperationKind::Get);
    let insert = Operation::point(OperationKind::Insert);
    for outcome in (1..=8).filter_map(Outcome::from_number) {
        let message = answer_to(&plan, OperationKind::Insert, &Ok(outcome), &theirs);
        let mut mine = scratch(&plan, 50);
        let answer = decode_answer(&message, &insert, ROW, &plan, &mut mine);
        assert_eq!(answer, Ok(Answer::Outcome(outcome)));
        if outcome.has_value() {
            assert_eq!(plan.part(&mine, Part::Output), plan.part(&theirs, Part::Output));
        }
        assert!(decode_answer(&message, &Operation::scan(2), ROW, &plan, &mut mine).is_err());
        assert!(decode_answer(&message[..message.len() - 1], &insert, ROW, &plan, &mut mine).is_err());
    }
    let page = Outcome::Page { records: 3, more: true };
    let message = answer_to(&plan, OperationKind::Scan, &Ok(page), &theirs);
    let mut mine = scratch(&plan, 50);
    let answer = |limit, mine: &mut [u8]| decode_answer(&message, &Operation::scan(limit), ROW, &plan, mine);
    assert_eq!(answer(3, &mut mine), Ok(Answer::Outcome(page)));
    assert_eq!(mine[plan.page.clone()][..72], theirs[plan.page.clone()][..72]);
    assert!(answer(2, &mut mine).is_err(), "more than was asked for");

    let at_owner = Cause::AtOwner { row: ROW };
    let back = |effect, cause| {
        [get, insert].map(|operation| {
            let message = answer_to(&plan, operation.kind, &Err(OpError { effect, cause }), &theirs);
            decode_answer(&message, &operation, ROW, &plan, &mut scratch(&plan, 0))
        })
    };
    assert_eq!(back(Effect::None, Cause::NotOwner { row: RowId(9), epoch: 4 }), [Ok(Answer::Elsewhere); 2]);
    for (theirs, mine, expected) in [([5; 8], [4; 8], [5; 8]), ([3; 8], [4; 8], [4; 8])] {
        let (mut from, mut to) = (scratch(&plan, 0), scratch(&plan, 0));
        assert!(plan.put(&mut from, Part::Key, &theirs) && plan.put(&mut to, Part::Key, &mine));
        let message = answer_to(&plan, OperationKind::Scan, &ELSEWHERE, &from);
        let answer = decode_answer(&message, &Operation::scan(2), ROW, &plan, &mut to);
        assert_eq!((answer, plan.part(&to, Part::Key)), (Ok(Answer::Elsewhere), &expected[..]));
    }
    let full = back(Effect::Done, Cause::PoolFull);
    let of = |effect, cause| Err(OpError { effect, cause });
    assert_eq!(full, [of(Effect::None, Cause::PoolFull), of(Effect::Done, Cause::PoolFull)]);
    let full = Cause::NodeFull { node: NodeId(0x1234) };
    assert_eq!(back(Effect::Done, full), [of(Effect::None, full), of(Effect::Done, full)]);
    let late = Cause::Deadline { elapsed_ns: 123 };
    assert_eq!(back(Effect::Unknown, late), [of(Effect::None, late), of(Effect::Unknown, late)]);
    let damaged = |what| Cause::Corrupt { address: Address::new(NodeId(1), 0x4000, 3), what };
    let found = of(Effect::None, damaged(FOUND_BY_OWNER));
    assert_eq!(back(Effect::None, damaged("a node that overlaps another")), [found; 2]);
    // Of other operations than scans it is the caller's key.
    let checksum = |key: &[u8]| Cause::Checksum { key: KeyStart::of(key) };
    let mine = scratch(&plan, 0);
    let key = plan.part(&mine, Part::Key);
    assert_eq!(back(Effect::None, checksum(key)), [of(Effect::None, checksum(key)); 2]);
    for key in [&b"8 bytes."[..], b"a key of 20 bytes..."] {
        let plan = plan_for_keys_of(key.len());
        let result = Err(OpError::harmless(checksum(key)));
        let message = answer_to(&plan, OperationKind::Scan, &result, &scratch(&plan, 11));
        let answer = decode_answer(&message, &Operation::scan(2), ROW, &plan, &mut scratch(&plan, 0));
        assert_eq!(answer, of(Effect::None, checksum(key)));
    }
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
        let _ = Serving::decode(&message, (INDEX, false), &plan, 256);
        let _ = Answers::decode(&message, (seed % 5) as u16).map(Iterator::count);
        let _ = decode_answer(&message, &Operation::scan(2), RowId(1), &plan, &mut mine);
        let answer = decode_answer(&message, &Operation::point(OperationKind::Upsert), RowId(1), &plan, &mut mine);
        if message.len() < HEADER_BYTES || message[0] != VERSION {
            assert_eq!(answer.unwrap_err().effect, Effect::Unknown);
        }
    }
}
