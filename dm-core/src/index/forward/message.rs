//! Requests and answers as bytes. All numbers are little-endian.
//!
//! ```text
//!  request: header (32 bytes) │ operations: head (4 bytes) │ the parts that its kind has, in the order of `Part`, each of the
//!                             │                              index's length
//!  answer:  header (8 bytes)  │ answers: head (8 bytes) │ the value that was found, or the records of a page, or where the range
//!                             │                           of another owner begins, or how long the operation had waited, or
//!                             │                           where something is damaged
//!                             │ places of operations that were not begun (2 bytes each)
//! ```
//!
//! An operation has a place in its request, and its answer names that. Answers come in the order in which the operations ended;
//! behind them are those that were not begun. Each operation of a request is in the answer, once.

use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, KeyStart, OpError, Operation, OperationKind, Outcome, Part, ScratchPlan};
use crate::remote::address::Address;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::Caller;
use crate::verbs::{CALL_BYTES_MAX, NodeId};
use core::ops::Range;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of both messages. Version 1 had one operation in a request, version 2 no caller. Compute nodes that call each other have to be of one
/// version, as daemons and their clients have to be: a request of another version is not executed, and its caller does not
/// understand the answer. Daemons pass both on without looking.
const VERSION: u8 = 3;
/// Execute operations. A memory node's processor has procedures of other numbers.
const EXECUTE: u8 = 2;

/// Operations of a request, at most: some messages have room for more of the smallest.
pub const OPERATIONS_MAX: usize = 256;

const AFTER: u8 = 1;
const BOUNDED: u8 = 2;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestHeader {
    version: u8,
    procedure: u8,
    index: U16,
    /// Operations.
    count: U16,
    key_bytes: U16,
    value_bytes: U16,
    reserved: [u8; 6],
    /// How long all of them together may take, in ns.
    wait_ns: U64,
    /// See [`Caller::to_bits`]. 0: the operations are whole ones.
    caller: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OperationHead {
    kind: u8,
    flags: u8,
    limit: U16,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerHeader {
    version: u8,
    reserved: u8,
    answers: U16,
    /// Or [`NONE_BEGUN`].
    not_begun: U16,
    reserved_too: U16,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerHead {
    /// Which operation of the request it answers.
    place: U16,
    /// See [`Outcome::number`]; or [`FAILED`], [`PAGE`], [`PAGE_AND_MORE`].
    outcome: u8,
    effect: u8,
    cause: u8,
    reserved: u8,
    /// Of what is behind it.
    bytes: U16,
}

const REQUEST_BYTES: usize = size_of::<RequestHeader>();
const OPERATION_BYTES: usize = size_of::<OperationHead>();
const HEADER_BYTES: usize = size_of::<AnswerHeader>();
const HEAD_BYTES: usize = size_of::<AnswerHead>();
/// Bytes of a place in the list of operations that were not begun.
const PLACE_BYTES: usize = size_of::<U16>();

/// Bytes of the answer to one operation in front of what was found.
pub const ANSWER_BYTES: usize = HEADER_BYTES + HEAD_BYTES;

/// Of an answer without a list: no operation of the request was begun.
const NONE_BEGUN: u16 = u16::MAX;

/// Outcome: there is none.
const FAILED: u8 = 0;
const PAGE: u8 = 9;
const PAGE_AND_MORE: u8 = 10;

/// Cause: the owner does not own the keys of this scan.
const NOT_OWNER: u8 = 1;
const DEADLINE: u8 = 2;
const POOL_FULL: u8 = 3;
const OTHER: u8 = 4;
/// Cause: a memory node, whose number is behind it, is full.
const NODE_FULL: u8 = 5;
/// Cause: remote bytes that no writer produces; their address is behind it.
const CORRUPT: u8 = 6;
/// Cause: a record that does not have its checksum. Behind it, of a scan, how the record's key begins; else it is the operation's.
const CHECKSUM: u8 = 7;

/// What is wrong with remote bytes that another compute node has found.
const FOUND_BY_OWNER: &str = "the compute node that owns the key found it damaged";

/// Bytes behind [`DEADLINE`]: how long the operation had waited, in ns. As many are behind [`CORRUPT`] and
/// [`NODE_FULL`].
const ELAPSED_BYTES: usize = size_of::<u64>();

const EFFECTS: [Effect; 3] = [Effect::None, Effect::Unknown, Effect::Done];

/// What a call came to, for one of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The owner has executed the operation. What it found is in the scratch.
    Outcome(Outcome),
    /// The operation was not begun: the callee does not own the key, or has no more time or room for it.
    Elsewhere,
    /// Nobody executes the operation for this compute node.
    Refused,
}

/// Whether operations of this kind change something.
pub(crate) const fn changes(kind: OperationKind) -> bool {
    !matches!(kind, OperationKind::Get | OperationKind::Scan)
}

/// Bytes of an operation of this kind in a request.
fn bytes_of(kind: OperationKind, plan: &ScratchPlan) -> usize {
    OPERATION_BYTES + kind.parts().iter().map(|&part| plan.range(part).len()).sum::<usize>()
}

/// Bytes that an answer to an operation of this kind has room for, at least: of a scan it has no record.
fn answer_room(kind: OperationKind, plan: &ScratchPlan) -> usize {
    let found = match kind {
        OperationKind::Scan => plan.key_bytes,
        OperationKind::Get | OperationKind::Insert | OperationKind::UpdateIf | OperationKind::DeleteIf => {
            plan.value_bytes
        }
        OperationKind::Update | OperationKind::Upsert | OperationKind::Delete => 0,
    };
    HEAD_BYTES + found.max(ELAPSED_BYTES)
}

/// Writes a request, one operation behind the other.
#[derive(Clone, Copy, Debug)]
pub struct RequestWriter {
    index: IndexNumber,
    caller: Option<Caller>,
    count: u16,
    end: usize,
    /// Bytes of the longest answer.
    answer_end: usize,
    has_scan: bool,
    changes: bool,
}

impl RequestWriter {
    /// A request without operations.
    pub const fn new(index: IndexNumber) -> Self {
        Self {
            index,
            caller: None,
            count: 0,
            end: REQUEST_BYTES,
            answer_end: HEADER_BYTES,
            has_scan: false,
            changes: false,
        }
    }

    /// The same for steps of the operations of `caller`.
    #[must_use]
    pub const fn of_steps(self, caller: Option<Caller>) -> Self {
        Self { caller, ..self }
    }

    /// How many operations it has.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Whether some of them are changes.
    pub const fn has_changes(&self) -> bool {
        self.changes
    }

    /// Adds an operation whose arguments are in `scratch`. `false`: it stays as it is, since it or its answer has no room for
    /// the operation beside the others, or keys and values of the index have lengths of their own. A scan goes alone.
    #[must_use = "an operation that was not added has to go alone"]
    pub fn add(&mut self, operation: &Operation, plan: &ScratchPlan, scratch: &[u8], out: &mut [u8]) -> bool {
        let is_scan = operation.kind == OperationKind::Scan;
        let is_alone = self.count == 0;
        let answer_end = self.answer_end + answer_room(operation.kind, plan);
        let has_room = is_alone || answer_end <= CALL_BYTES_MAX && !is_scan && !self.has_scan;
        if plan.has_lengths() || operation.down || !has_room || usize::from(self.count) >= OPERATIONS_MAX {
            return false;
        }
        let end = self.end + bytes_of(operation.kind, plan);
        let Some((front, mut rest)) =
            out.get_mut(self.end..end).and_then(|room| room.split_at_mut_checked(OPERATION_BYTES))
        else {
            return false;
        };
        let head = OperationHead {
            kind: operation.kind as u8,
            flags: if operation.after { AFTER } else { 0 } | if operation.bounded { BOUNDED } else { 0 },
            limit: u16::try_from(operation.limit).unwrap_or(u16::MAX).into(),
        };
        front.copy_from_slice(head.as_bytes());
        for &part in operation.kind.parts() {
            let bytes = plan.part(scratch, part);
            let Some((place, behind)) = rest.split_at_mut_checked(bytes.len()) else { return false };
            place.copy_from_slice(bytes);
            rest = behind;
        }
        if !rest.is_empty() {
            return false;
        }
        (self.end, self.answer_end) = (end, answer_end);
        self.count += 1;
        self.has_scan |= is_scan;
        self.changes |= changes(operation.kind);
        true
    }

    /// Completes the request, whose operations may take so long. Returns its length. `None`: it has no operation, or `out` is
    /// another one.
    pub fn finish(&self, wait_ns: u64, plan: &ScratchPlan, out: &mut [u8]) -> Option<usize> {
        let header = RequestHeader {
            version: VERSION,
            procedure: EXECUTE,
            index: self.index.get().into(),
            count: self.count.into(),
            key_bytes: u16::try_from(plan.key_bytes).ok()?.into(),
            value_bytes: u16::try_from(plan.value_bytes).ok()?.into(),
            reserved: [0; 6],
            wait_ns: wait_ns.into(),
            caller: self.caller.map_or(0, Caller::to_bits).into(),
        };
        out.get_mut(..REQUEST_BYTES)?.copy_from_slice(header.as_bytes());
        (self.count > 0 && self.end <= out.len()).then_some(self.end)
    }
}

/// Operations that a compute node executes for another one, one after another, and the answer to them.
///
/// The request and the answer lie with its user, who passes the same ones each time.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    caller: Option<Caller>,
    count: u16,
    wait_ns: u64,
    /// Bytes of the answer, at most.
    room: usize,
    /// Place of the operation that comes next, and where it is in the request.
    next: u16,
    at: usize,
    /// The operation that was begun last is a scan.
    scans: bool,
    answers: u16,
    /// Where the next answer is put.
    end: usize,
    /// Their places are kept at the end of the room, the last one in front.
    not_begun: u16,
}

impl Serving {
    /// Of a request for index `number`, whose answer may have `answer_bytes`, for which there is room. `None`: it is none, or for
    /// another index, or has more operations than the answer has places for; or has whole operations where `steps` of operations
    /// are forwarded, or the other way round.
    pub fn decode(
        request: &[u8],
        (index, steps): (IndexNumber, bool),
        plan: &ScratchPlan,
        answer_bytes: usize,
    ) -> Option<Self> {
        let (header, _) = RequestHeader::read_from_prefix(request).ok()?;
        let sizes = (usize::from(header.key_bytes.get()), usize::from(header.value_bytes.get()));
        let (count, room) = (header.count.get(), answer_bytes.min(CALL_BYTES_MAX));
        let caller = Caller::from_bits(header.caller.get());
        let is_sound = header.version == VERSION
            && header.procedure == EXECUTE
            && header.index.get() == index.get()
            && sizes == (plan.key_bytes, plan.value_bytes)
            && caller.is_some() == steps
            && (steps || header.caller.get() == 0)
            && (1..=OPERATIONS_MAX).contains(&usize::from(count))
            && HEADER_BYTES + usize::from(count) * PLACE_BYTES <= room
            && !plan.has_lengths();
        if !is_sound {
            return None;
        }
        let mut at = REQUEST_BYTES;
        for _ in 0..count {
            let (operation, _) = Self::operation_at(request, at)?;
            at += bytes_of(operation.kind, plan);
            if at > request.len() {
                return None;
            }
        }
        let wait_ns = header.wait_ns.get().clamp(1, Operation::WAIT_NS_DEFAULT);
        let serving = Self {
            caller,
            count,
            wait_ns,
            room,
            next: 0,
            at: REQUEST_BYTES,
            scans: false,
            answers: 0,
            end: HEADER_BYTES,
            not_begun: 0,
        };
        (at == request.len()).then_some(serving)
    }

    /// The operation that is there, without its arguments.
    fn operation_at(request: &[u8], at: usize) -> Option<(Operation, &[u8])> {
        let (head, behind) = OperationHead::read_from_prefix(request.get(at..)?).ok()?;
        let kind = OperationKind::ALL.get(usize::from(head.kind)).copied()?;
        let is_scan = kind == OperationKind::Scan;
        let operation = Operation {
            limit: if is_scan { head.limit.get().into() } else { 0 },
            after: is_scan && head.flags & AFTER != 0,
            bounded: is_scan && head.flags & BOUNDED != 0,
            ..Operation::point(kind)
        };
        (head.flags & !(AFTER | BOUNDED) == 0).then_some((operation, behind))
    }

    /// How many operations the request has.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Whether an operation was begun, or left.
    pub const fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Whether no operation is left to begin.
    pub const fn is_over(&self) -> bool {
        self.next >= self.count
    }

    /// Bytes of the list of operations that are not begun, if no further one is.
    fn list_bytes(&self) -> usize {
        usize::from(self.not_begun + (self.count - self.next)) * PLACE_BYTES
    }

    /// The next operation, whose arguments are put into `scratch`; `elapsed_ns` after the call was taken. `None`: none is left
    /// that can be begun in what is left of the time, and with an answer in what is left of the room.
    ///
    /// Behind the first one, operations are begun in the first half of the time: the last one has the other half, and its
    /// caller hears of all of them in time.
    pub fn next(
        &mut self,
        request: &[u8],
        plan: &ScratchPlan,
        scratch: &mut [u8],
        elapsed_ns: u64,
        answer: &mut [u8],
    ) -> Option<Operation> {
        while !self.is_over() {
            let (mut operation, mut rest) = Self::operation_at(request, self.at)?;
            self.at += bytes_of(operation.kind, plan);
            let place = self.next;
            self.next += 1;
            // The others are in the list, if nothing else.
            let room = self.room.saturating_sub(self.end + self.list_bytes());
            let is_late = place > 0 && elapsed_ns > self.wait_ns / 2;
            if is_late || room < answer_room(operation.kind, plan) {
                self.leave(place, answer);
                continue;
            }
            for &part in operation.kind.parts() {
                let (bytes, behind) = rest.split_at_checked(plan.range(part).len())?;
                if !plan.put(scratch, part, bytes) {
                    return None;
                }
                rest = behind;
            }
            operation.caller = self.caller;
            operation.deadline_ns = self.wait_ns.saturating_sub(elapsed_ns).max(1);
            let record_bytes = (plan.key_bytes + plan.value_bytes).max(1);
            let records = (room.saturating_sub(HEAD_BYTES) / record_bytes).min(plan.page_records());
            operation.limit = operation.limit.min(records as u32);
            self.scans = operation.kind == OperationKind::Scan;
            return Some(operation);
        }
        None
    }

    /// Puts an operation into the list of those that were not begun.
    fn leave(&mut self, place: u16, answer: &mut [u8]) {
        self.not_begun += 1;
        let at = self.room.saturating_sub(usize::from(self.not_begun) * PLACE_BYTES);
        if let Some(room) = answer.get_mut(at..at + PLACE_BYTES) {
            room.copy_from_slice(U16::from(place).as_bytes());
        }
    }

    /// The operation that was begun last has ended with `result`, and what it found is in `scratch`. An operation that fails ends
    /// the call, unless its key is another one's, since the lane may have to be settled first.
    pub fn ended(&mut self, result: &Result<Outcome, OpError>, plan: &ScratchPlan, scratch: &[u8], answer: &mut [u8]) {
        let place = self.next.saturating_sub(1);
        let is_elsewhere =
            |error: &OpError| matches!(error.cause, Cause::NotOwner { .. }) && error.effect == Effect::None;
        let word: [u8; ELAPSED_BYTES];
        let mut head = AnswerHead {
            place: place.into(),
            outcome: FAILED,
            effect: Effect::None as u8,
            cause: 0,
            reserved: 0,
            bytes: U16::ZERO,
        };
        let mut behind: &[u8] = &[];
        match result {
            Ok(Outcome::Page { records, more }) => {
                head.outcome = if *more { PAGE_AND_MORE } else { PAGE };
                let page = scratch.get(plan.page.clone()).unwrap_or_default();
                behind = page.get(..*records as usize * (plan.key_bytes + plan.value_bytes)).unwrap_or_default();
            }
            Ok(outcome) => {
                head.outcome = outcome.number();
                if outcome.has_value() {
                    behind = plan.part(scratch, Part::Output);
                }
            }
            Err(error) if is_elsewhere(error) && !self.scans => return self.leave(place, answer),
            Err(error) => {
                head.effect = error.effect as u8;
                head.cause = match &error.cause {
                    Cause::NotOwner { .. } if self.scans => {
                        // Where the range of another owner begins, if the scan found nothing in front of it.
                        behind = plan.part(scratch, Part::Key);
                        NOT_OWNER
                    }
                    Cause::Deadline { elapsed_ns } => {
                        word = elapsed_ns.to_le_bytes();
                        behind = &word;
                        DEADLINE
                    }
                    Cause::PoolFull => POOL_FULL,
                    Cause::NodeFull { node } => {
                        word = u64::from(node.0).to_le_bytes();
                        behind = &word;
                        NODE_FULL
                    }
                    Cause::Corrupt { address, .. } => {
                        word = address.to_bits().to_le_bytes();
                        behind = &word;
                        CORRUPT
                    }
                    Cause::Checksum { key } => {
                        behind = if self.scans { key.start() } else { &[] };
                        CHECKSUM
                    }
                    _ => OTHER,
                };
            }
        }
        let left = self.room.saturating_sub(self.end + self.list_bytes());
        if HEAD_BYTES + behind.len() > left {
            // No result has more bytes than were kept for it.
            (head.outcome, head.effect, head.cause, behind) = (FAILED, Effect::Unknown as u8, OTHER, &[]);
        }
        head.bytes = (behind.len() as u16).into();
        let end = self.end + HEAD_BYTES + behind.len();
        if let Some((front, rest)) =
            answer.get_mut(self.end..end).and_then(|room| room.split_at_mut_checked(HEAD_BYTES))
        {
            front.copy_from_slice(head.as_bytes());
            rest.copy_from_slice(behind);
            (self.answers, self.end) = (self.answers + 1, end);
        }
        if result.is_err_and(|error| !is_elsewhere(&error)) {
            self.stop(answer);
        }
    }

    /// Begins no more.
    pub fn stop(&mut self, answer: &mut [u8]) {
        while !self.is_over() {
            self.leave(self.next, answer);
            self.next += 1;
        }
    }

    /// Completes the answer; no further operation is begun. Returns its length.
    pub fn finish(&mut self, answer: &mut [u8]) -> usize {
        self.stop(answer);
        let header = AnswerHeader {
            version: VERSION,
            reserved: 0,
            answers: self.answers.into(),
            not_begun: self.not_begun.into(),
            reserved_too: U16::ZERO,
        };
        let list = self.room.saturating_sub(usize::from(self.not_begun) * PLACE_BYTES)..self.room;
        let bytes = self.end + list.len();
        if answer.len() < bytes.max(list.end) {
            return 0;
        }
        answer.copy_within(list, self.end);
        if let Some(front) = answer.get_mut(..HEADER_BYTES) {
            front.copy_from_slice(header.as_bytes());
        }
        bytes
    }
}

/// The answer to a request that the callee does not execute.
pub fn not_here() -> [u8; HEADER_BYTES] {
    let mut answer = [0; HEADER_BYTES];
    let header = AnswerHeader {
        version: VERSION,
        reserved: 0,
        answers: U16::ZERO,
        not_begun: NONE_BEGUN.into(),
        reserved_too: U16::ZERO,
    };
    answer.copy_from_slice(header.as_bytes());
    answer
}

/// The answers to a request's operations, in the order in which they were given: the place of each, and the answer. `None`: it
/// was not begun.
#[derive(Clone, Debug)]
pub struct Answers<'m> {
    /// Those that are left.
    said: &'m [u8],
    /// The list of those that were not begun.
    list: &'m [u8],
    /// All of them, if there is no list.
    all: Range<u16>,
    given: u16,
}

/// Marks which of so many places were named, each once.
#[derive(Default)]
struct Named([u64; OPERATIONS_MAX / 64]);

impl Named {
    /// `false`: there is no such place, or it was named.
    fn name(&mut self, place: u16, count: u16) -> bool {
        let bit = 1 << (place % 64);
        let word = self.0.get_mut(usize::from(place / 64)).filter(|word| place < count && **word & bit == 0);
        word.map(|word| *word |= bit).is_some()
    }
}

/// Cuts the answer off that is in front: its head, and what is behind that.
fn cut(answers: &[u8]) -> Option<(Said<'_>, &[u8])> {
    let (head, rest) = AnswerHead::read_from_prefix(answers).ok()?;
    let (found, rest) = rest.split_at_checked(usize::from(head.bytes.get()))?;
    Some((Said { head, found }, rest))
}

fn cut_place(list: &[u8]) -> Option<(u16, &[u8])> {
    U16::read_from_prefix(list).ok().map(|(place, rest)| (place.get(), rest))
}

impl<'m> Answers<'m> {
    /// Of a request of `count` operations. `None`: this is no answer to it. The callee may have executed some all the same.
    pub fn decode(message: &'m [u8], count: u16) -> Option<Self> {
        let (header, behind) = AnswerHeader::read_from_prefix(message).ok()?;
        if header.version != VERSION {
            return None;
        }
        let (answers, not_begun) = (header.answers.get(), header.not_begun.get());
        if not_begun == NONE_BEGUN {
            let none = Self { said: &[], list: &[], all: 0..count, given: 0 };
            return (answers == 0 && behind.is_empty()).then_some(none);
        }
        if usize::from(count) > OPERATIONS_MAX || answers.checked_add(not_begun)? != count {
            return None;
        }
        let (mut named, mut rest) = (Named::default(), behind);
        for _ in 0..answers {
            let (said, further) = cut(rest)?;
            if !named.name(said.head.place.get(), count) {
                return None;
            }
            rest = further;
        }
        let (said, list) = behind.split_at_checked(behind.len() - rest.len())?;
        for _ in 0..not_begun {
            let (place, further) = cut_place(rest)?;
            if !named.name(place, count) {
                return None;
            }
            rest = further;
        }
        rest.is_empty().then_some(Self { said, list, all: 0..0, given: 0 })
    }
}

impl<'m> Iterator for Answers<'m> {
    type Item = (u16, Option<Said<'m>>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(place) = self.all.next() {
            return Some((place, None));
        }
        let (place, said);
        if let Some((first, rest)) = cut(self.said) {
            self.said = rest;
            (place, said) = (first.head.place.get(), Some(first));
        } else {
            let (first, rest) = cut_place(self.list)?;
            self.list = rest;
            (place, said) = (first, None);
        }
        self.given += 1;
        Some((if planted(Mutant::ANSWERS_IN_ORDER) { self.given - 1 } else { place }, said))
    }
}

/// What the owner says to one operation.
#[derive(Clone, Copy, Debug)]
pub struct Said<'m> {
    head: AnswerHead,
    found: &'m [u8],
}

impl Said<'_> {
    /// Reads what the compute node of `row` answered to `operation`, and puts what was found into `scratch`. The error is that
    /// of the operation.
    pub fn read(
        &self,
        operation: &Operation,
        row: RowId,
        plan: &ScratchPlan,
        scratch: &mut [u8],
    ) -> Result<Answer, OpError> {
        let Self { head, found } = self;
        let is_scan = operation.kind == OperationKind::Scan;
        let failed =
            |effect, cause| OpError { effect: if changes(operation.kind) { effect } else { Effect::None }, cause };
        let garbled = garbled(operation.kind, row);
        if head.outcome == FAILED {
            let effect = EFFECTS.get(usize::from(head.effect)).copied().ok_or(garbled)?;
            let word = || found.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            return match head.cause {
                NOT_OWNER if effect == Effect::None => {
                    // A scan that found nothing goes on where another one's range begins, which is never in front.
                    if is_scan && found.len() == plan.key_bytes && *found > plan.part(scratch, Part::Key) {
                        let _ = plan.put(scratch, Part::Key, found);
                    }
                    Ok(Answer::Elsewhere)
                }
                DEADLINE => Err(failed(effect, Cause::Deadline { elapsed_ns: word() })),
                POOL_FULL => Err(failed(effect, Cause::PoolFull)),
                NODE_FULL => Err(failed(effect, Cause::NodeFull { node: NodeId(word() as u16) })),
                CORRUPT => {
                    let address = Address::from_bits(word());
                    Err(failed(effect, Cause::Corrupt { address, what: FOUND_BY_OWNER }))
                }
                CHECKSUM => {
                    let start = if is_scan { found } else { plan.part(scratch, Part::Key) };
                    Err(failed(effect, Cause::Checksum { key: KeyStart::of_key_of(plan.key_bytes, start) }))
                }
                _ => Err(failed(effect, Cause::AtOwner { row })),
            };
        }
        if let PAGE | PAGE_AND_MORE = head.outcome {
            let record_bytes = (plan.key_bytes + plan.value_bytes).max(1);
            let records = (found.len() / record_bytes) as u32;
            let place = scratch.get_mut(plan.page.clone()).and_then(|page| page.get_mut(..found.len()));
            let is_whole = found.len().is_multiple_of(record_bytes) && is_scan && records <= operation.limit;
            place.filter(|_| is_whole).ok_or(garbled)?.copy_from_slice(found);
            return Ok(Answer::Outcome(Outcome::Page { records, more: head.outcome == PAGE_AND_MORE }));
        }
        let outcome = Outcome::from_number(head.outcome).filter(|_| !is_scan).ok_or(garbled)?;
        let is_whole = if outcome.has_value() { plan.put(scratch, Part::Output, found) } else { found.is_empty() };
        if is_whole { Ok(Answer::Outcome(outcome)) } else { Err(garbled) }
    }
}

/// The error of an operation whose answer nobody understands: the compute node of `row` may have executed it.
pub(super) const fn garbled(kind: OperationKind, row: RowId) -> OpError {
    OpError { effect: if changes(kind) { Effect::Unknown } else { Effect::None }, cause: Cause::AtOwner { row } }
}

/// As [`Said::read`], of the answer to a request of one operation.
pub fn decode_answer(
    message: &[u8],
    operation: &Operation,
    row: RowId,
    plan: &ScratchPlan,
    scratch: &mut [u8],
) -> Result<Answer, OpError> {
    match Answers::decode(message, 1).and_then(|mut answers| answers.next()) {
        None => Err(garbled(operation.kind, row)),
        Some((_, None)) => Ok(Answer::Elsewhere),
        Some((_, Some(said))) => said.read(operation, row, plan, scratch),
    }
}

#[cfg(test)]
mod tests;
