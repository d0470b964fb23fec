//! Operations: their kinds, their outcomes, and where arguments and results are.
//!
//! An operation's future holds no key and no value. They are in the lane's scratch, at the ranges that [`ScratchPlan`]
//! names. The caller writes the arguments with [`crate::port::Port::with`] before it starts the future, and reads the
//! results there after the future is done.

pub mod span;

use crate::error::{DecodeError, VerbError};
use crate::layout::LINE_BYTES;
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::row::Caller;
use crate::remote::rpc::Reply;
use crate::verbs::NodeId;
use core::fmt;
use core::ops::Range;
use span::Span;
use thiserror::Error;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// `Found` with the value in `output`, or `Absent`.
    Get = 0,
    /// `Inserted`, or `Exists` with the present value in `output`.
    Insert = 1,
    /// `Updated`, or `Absent`.
    Update = 2,
    /// `Inserted` or `Replaced`.
    Upsert = 3,
    /// Updates if the present value equals `expected`: `Updated`, `Mismatch` with the present value in `output`, or
    /// `Absent`.
    UpdateIf = 4,
    /// `Deleted`, or `Absent`.
    Delete = 5,
    /// Ascending records from `key` (inclusive, or exclusive if it is a cursor) below `key_high`: a `Page` of the first of
    /// them or, downwards, of the last.
    Scan = 6,
    /// Deletes the key if its value equals `expected`: `Deleted`, `Mismatch` with the present value in `output`, or
    /// `Absent`.
    DeleteIf = 7,
}

impl OperationKind {
    /// Every kind, in numeric order.
    pub const ALL: [Self; 8] =
        [Self::Get, Self::Insert, Self::Update, Self::Upsert, Self::UpdateIf, Self::Delete, Self::Scan, Self::DeleteIf];

    /// The arguments of operations of this kind.
    pub const fn parts(self) -> &'static [Part] {
        match self {
            Self::Get | Self::Delete => &[Part::Key],
            Self::Scan => &[Part::Key, Part::KeyHigh],
            Self::Insert | Self::Update | Self::Upsert => &[Part::Key, Part::Value],
            Self::UpdateIf => &[Part::Key, Part::Value, Part::Expected],
            Self::DeleteIf => &[Part::Key, Part::Expected],
        }
    }

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Upsert => "upsert",
            Self::UpdateIf => "update-if",
            Self::Delete => "delete",
            Self::Scan => "scan",
            Self::DeleteIf => "delete-if",
        }
    }

    /// The outcome if the key is present. `differs`: its value is not the expected one.
    #[inline]
    pub(crate) const fn outcome_of_present(self, differs: bool) -> Outcome {
        match self {
            Self::Get | Self::Scan => Outcome::Found,
            Self::Insert => Outcome::Exists,
            Self::UpdateIf | Self::DeleteIf if differs => Outcome::Mismatch,
            Self::Update | Self::UpdateIf => Outcome::Updated,
            Self::Upsert => Outcome::Replaced,
            Self::Delete | Self::DeleteIf => Outcome::Deleted,
        }
    }
}

/// An operation. Its key and value are in the scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: OperationKind,
    /// Scan: number of records wanted, at most what the page holds.
    pub limit: u32,
    /// Scan: `key` is the last key of the page before, and is not included again.
    pub after: bool,
    /// Scan: `key_high` is an exclusive bound. Otherwise the scan runs to the end.
    pub bounded: bool,
    /// Scan: the last records of the range are wanted, not the first. Only some kinds of indexes do that
    /// ([`KindParameters::SCANS_DOWN`](crate::registry::KindParameters::SCANS_DOWN)); others refuse it.
    pub down: bool,
    /// How long this operation may wait, in ns; 0 = [`Operation::WAIT_NS_DEFAULT`].
    pub deadline_ns: u64,
    /// The compute node for which this one executes a step of an operation, where operations are forwarded step by step
    /// ([`Index::forwards_steps`](crate::index::Index::forwards_steps)). `None`: it is this compute node's operation, or a whole one.
    pub caller: Option<Caller>,
}

impl Operation {
    /// How long an operation may wait by default: ten leases of two seconds.
    pub const WAIT_NS_DEFAULT: u64 = 20_000_000_000;

    /// A point operation of `kind`.
    pub const fn point(kind: OperationKind) -> Self {
        Self { kind, limit: 0, after: false, bounded: false, down: false, deadline_ns: 0, caller: None }
    }

    /// A scan of at most `limit` records from `key` on.
    pub const fn scan(limit: u32) -> Self {
        Self { limit, ..Self::point(OperationKind::Scan) }
    }

    /// How long this operation may wait, in ns.
    pub const fn wait_ns(&self) -> u64 {
        if self.deadline_ns == 0 { Self::WAIT_NS_DEFAULT } else { self.deadline_ns }
    }
}

/// What an answer means, in an index whose compute nodes cache what they change: what a death of the compute node cannot take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// A change is in the log; a read saw what is in the log, or in a page.
    #[default]
    Log = 0,
    /// A change is in its page; a read saw as at `Log`.
    Pool = 1,
    /// A change, and what a read saw, is in this compute node's memory. A death takes back, of each key, its last
    /// changes.
    Cache = 2,
}

impl Level {
    /// Every level, in numeric order.
    pub const ALL: [Self; 3] = [Self::Log, Self::Pool, Self::Cache];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Pool => "pool",
            Self::Cache => "cache",
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The key is present; its value is in `output`.
    Found,
    /// The key is absent.
    Absent,
    /// The key was absent, and is present now.
    Inserted,
    /// The key was present already; its value is in `output`.
    Exists,
    /// The value was replaced (update, `update_if`).
    Updated,
    /// The value was replaced (upsert).
    Replaced,
    /// The key was removed.
    Deleted,
    /// The value is not the expected one; it is in `output`.
    Mismatch,
    /// `records` records of key and value are in `page`, in ascending order, downwards too.
    Page {
        /// Number of records.
        records: u32,
        /// There may be more: call again with the last key as cursor; downwards, with the first key as upper bound.
        more: bool,
    },
}

/// Outcomes of operations other than scans, by their number in messages less 1.
const NUMBERED: [Outcome; 8] = [
    Outcome::Found,
    Outcome::Absent,
    Outcome::Inserted,
    Outcome::Exists,
    Outcome::Updated,
    Outcome::Replaced,
    Outcome::Deleted,
    Outcome::Mismatch,
];

impl Outcome {
    /// Its number in messages: 1 to 8; of a page 0.
    pub fn number(self) -> u8 {
        NUMBERED.iter().position(|one| *one == self).map_or(0, |at| at as u8 + 1)
    }

    /// The outcome that has a number in messages.
    pub fn from_number(number: u8) -> Option<Self> {
        NUMBERED.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// Whether the value that was found is a part of the answer: it is in `output`.
    pub const fn has_value(self) -> bool {
        matches!(self, Self::Found | Self::Exists | Self::Mismatch)
    }
}

/// An argument or a result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// See [`ScratchPlan::key`].
    Key = 0,
    /// See [`ScratchPlan::key_high`].
    KeyHigh = 1,
    /// See [`ScratchPlan::value`].
    Value = 2,
    /// See [`ScratchPlan::expected`].
    Expected = 3,
    /// See [`ScratchPlan::output`].
    Output = 4,
}

/// Bytes of one length in [`ScratchPlan::lengths`]: a little-endian number.
const LENGTH_BYTES: usize = 4;

/// Bytes of [`ScratchPlan::lengths`], if there are lengths: one per [`Part`].
pub(crate) const LENGTHS_BYTES: usize = 5 * LENGTH_BYTES;

/// Bytes in front of every record of a page whose records have lengths: the length of the key (two bytes) and of the
/// value (four), little-endian.
pub const RECORD_HEADER_BYTES: usize = 6;

/// Where an operation's arguments, results and buffers are in the lane's scratch: byte ranges, computed from the
/// index's parameters when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScratchPlan {
    /// Bytes of every key; if keys have lengths, of the longest.
    pub key_bytes: usize,
    /// Bytes of every value; if values have lengths, of the longest.
    pub value_bytes: usize,
    /// The key. For a scan, its lower bound or cursor.
    pub key: Range<usize>,
    /// A scan's upper bound.
    pub key_high: Range<usize>,
    /// The value to write.
    pub value: Range<usize>,
    /// The value that `update_if` and `delete_if` expect.
    pub expected: Range<usize>,
    /// The value that was found.
    pub output: Range<usize>,
    /// A scan's records, each a key and a value, without gaps; [`ScratchPlan::records`] reads them.
    pub page: Range<usize>,
    /// Lengths of the parts, in the order of [`Part`], if keys and values have lengths; empty if all have the length
    /// that the plan says. A part is at the beginning of its range. The bytes behind it have no meaning.
    pub lengths: Range<usize>,
    /// Bytes of scratch that a lane needs.
    pub total_bytes: usize,
}

impl ScratchPlan {
    /// Begins a plan: the operation's own ranges, but no page yet. [`ScratchPlan::take`] adds what else a lane needs.
    pub fn new(key_bytes: usize, value_bytes: usize) -> Self {
        Self::behind(0, (key_bytes, key_bytes), value_bytes)
    }

    /// Begins a plan behind the first `at` bytes of the scratch. Upper bounds of scans may be longer than keys.
    pub fn behind(at: usize, (key_bytes, key_high_bytes): (usize, usize), value_bytes: usize) -> Self {
        let mut plan = Self { key_bytes, value_bytes, total_bytes: at, ..Self::default() };
        plan.key = plan.take(key_bytes);
        plan.key_high = plan.take(key_high_bytes);
        [plan.value, plan.expected, plan.output] = [(); 3].map(|()| plan.take(value_bytes));
        plan
    }

    /// The next `bytes` of the scratch. Each such range begins a line.
    pub fn take(&mut self, bytes: usize) -> Range<usize> {
        let start = self.total_bytes.next_multiple_of(LINE_BYTES);
        self.total_bytes = (start + bytes).next_multiple_of(LINE_BYTES);
        start..start + bytes
    }

    /// The same ranges, for a scratch that begins `bytes` further on.
    #[must_use]
    pub(crate) fn moved_back(&self, bytes: usize) -> Self {
        let back = |range: &Range<usize>| range.start.saturating_sub(bytes)..range.end.saturating_sub(bytes);
        Self {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            key: back(&self.key),
            key_high: back(&self.key_high),
            value: back(&self.value),
            expected: back(&self.expected),
            output: back(&self.output),
            page: back(&self.page),
            lengths: back(&self.lengths),
            total_bytes: self.total_bytes.saturating_sub(bytes),
        }
    }

    /// Borrows arguments and results, and an image, which lies behind them.
    #[inline]
    pub(crate) fn arguments_and<'a>(
        &'a self,
        image: Span,
        scratch: &'a mut [u8],
    ) -> Result<(Arguments<'a>, &'a mut [u8]), DecodeError> {
        let split = image.split(scratch).ok_or(DecodeError::Corrupt("scratch shorter than planned"))?;
        Ok((Arguments { plan: self, scratch: split.0 }, split.1))
    }

    /// Whether each key and value has its own length.
    pub const fn has_lengths(&self) -> bool {
        self.lengths.start < self.lengths.end
    }

    /// Number of records that a page holds at least.
    pub const fn page_records(&self) -> usize {
        (self.page.end - self.page.start) / (self.record_header_bytes() + self.key_bytes + self.value_bytes)
    }

    const fn record_header_bytes(&self) -> usize {
        if self.has_lengths() { RECORD_HEADER_BYTES } else { 0 }
    }

    /// Byte range of record `position` of the page: its key, then its value. Only if all records have one length.
    pub const fn record(&self, position: usize) -> Range<usize> {
        let bytes = self.key_bytes + self.value_bytes;
        let start = self.page.start + position * bytes;
        start..start + bytes
    }

    /// The first `count` records of the page.
    pub fn records<'a>(&self, scratch: &'a [u8], count: usize) -> Records<'a> {
        Records {
            bytes: scratch.get(self.page.clone()).unwrap_or_default(),
            left: count,
            sizes: (!self.has_lengths()).then_some((self.key_bytes, self.value_bytes)),
        }
    }

    /// Bytes of the first `count` records of the page, as they are there.
    pub fn page_bytes(&self, scratch: &[u8], count: usize) -> usize {
        let header = self.record_header_bytes();
        self.records(scratch, count).map(|(key, value)| header + key.len() + value.len()).sum()
    }

    /// Range of `part`; if it has a length, the range of the longest.
    pub const fn range(&self, part: Part) -> &Range<usize> {
        match part {
            Part::Key => &self.key,
            Part::KeyHigh => &self.key_high,
            Part::Value => &self.value,
            Part::Expected => &self.expected,
            Part::Output => &self.output,
        }
    }

    fn length_range(&self, part: Part) -> Range<usize> {
        let start = self.lengths.start + part as usize * LENGTH_BYTES;
        start..start + LENGTH_BYTES
    }

    /// Length of `part` in bytes, at most that of its range.
    pub fn length(&self, scratch: &[u8], part: Part) -> usize {
        let room = self.range(part).len();
        if !self.has_lengths() {
            return room;
        }
        let bytes = scratch.get(self.length_range(part)).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize).min(room)
    }

    /// Sets the length of `part`, whose bytes are there. `false`: it is longer than the range or, if all parts have
    /// one length, not of that length.
    #[must_use = "a part of a wrong length is not there"]
    pub fn set_length(&self, scratch: &mut [u8], part: Part, bytes: usize) -> bool {
        let room = self.range(part).len();
        if !self.has_lengths() {
            return bytes == room;
        }
        let place = scratch.get_mut(self.length_range(part)).and_then(|place| place.first_chunk_mut());
        let Some(place) = place else { return false };
        *place = (bytes.min(room) as u32).to_le_bytes();
        bytes <= room
    }

    /// Puts `bytes` into the range of `part`. `false`: `part` cannot have their length.
    #[must_use = "a part of a wrong length is not there"]
    pub fn put(&self, scratch: &mut [u8], part: Part, bytes: &[u8]) -> bool {
        if !self.set_length(scratch, part, bytes.len()) {
            return false;
        }
        let start = self.range(part).start;
        scratch.get_mut(start..start + bytes.len()).map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// The bytes of `part`.
    pub fn part<'a>(&self, scratch: &'a [u8], part: Part) -> &'a [u8] {
        let start = self.range(part).start;
        scratch.get(start..start + self.length(scratch, part)).unwrap_or_default()
    }
}

/// Arguments and results of an operation whose keys and values have one length, borrowed from the scratch:
/// [`ScratchPlan::arguments_and`].
pub(crate) struct Arguments<'a> {
    plan: &'a ScratchPlan,
    scratch: &'a mut [u8],
}

impl Arguments<'_> {
    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.get(&self.plan.key)
    }

    /// The value to write.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.get(&self.plan.value)
    }

    /// The value to write, to be changed.
    #[inline]
    pub(crate) fn value_mut(&mut self) -> &mut [u8] {
        self.get_mut(&self.plan.value)
    }

    /// The value that the record is expected to have.
    #[inline]
    pub fn expected(&self) -> &[u8] {
        self.get(&self.plan.expected)
    }

    /// Where the value that was found goes.
    #[inline]
    pub fn output(&mut self) -> &mut [u8] {
        self.get_mut(&self.plan.output)
    }

    #[inline]
    fn get(&self, range: &Range<usize>) -> &[u8] {
        self.scratch.get(range.start..range.end).unwrap_or_default()
    }

    #[inline]
    fn get_mut(&mut self, range: &Range<usize>) -> &mut [u8] {
        self.scratch.get_mut(range.start..range.end).unwrap_or_default()
    }
}

impl<'a> Records<'a> {
    /// Records in `bytes`, copied from a page whose records have lengths.
    pub const fn with_lengths(bytes: &'a [u8]) -> Self {
        Self { bytes, left: usize::MAX, sizes: None }
    }
}

/// Records of a page, keys and values: see [`ScratchPlan::records`]. Ends where the bytes end.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    left: usize,
    /// Bytes of keys and of values, if all records have one length.
    sizes: Option<(usize, usize)>,
}

impl<'a> Iterator for Records<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (key_bytes, value_bytes) = if let Some(sizes) = self.sizes {
            sizes
        } else {
            let (header, rest) = self.bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
            let [k0, k1, v0, v1, v2, v3] = *header;
            self.bytes = rest;
            (u16::from_le_bytes([k0, k1]).into(), u32::from_le_bytes([v0, v1, v2, v3]) as usize)
        };
        let (key, rest) = self.bytes.split_at_checked(key_bytes)?;
        let (value, rest) = rest.split_at_checked(value_bytes)?;
        self.bytes = rest;
        Some((key, value))
    }
}

/// What `validate` found. The counts are exact for a quiescent index; for a busy one they are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Levels, including the leaves; 0 for an index without a root.
    pub levels: u32,
    /// Leaves.
    pub leaves: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Records.
    pub records: u64,
    /// Entry slots of all leaves.
    pub slots: u64,
    /// Bytes of reachable nodes, and of blocks.
    pub live_bytes: u64,
    /// The part of these that are places of blocks, for keys and values of any length.
    pub block_bytes: u64,
    /// Bytes of all keys, and of all values, if they have lengths of their own; else 0.
    pub item_bytes: (u64, u64),
    /// Right siblings that their parent does not name yet. They are legal; an operation that meets one finishes the
    /// split.
    pub half_splits: u64,
    /// Pointers to the former places of nodes that were moved to other memory nodes. They are legal, and cost a round trip.
    pub moved_links: u64,
    /// Leaves without a record.
    pub empty_leaves: u64,
    /// Entries of keys of any length that no operation finds, since no link leads to their layers, and that no crash leaves.
    /// While nobody writes, they are damage: see [`Census::at_rest`].
    pub unlinked_entries: u64,
    /// Layers of such keys that crashes have left: one entry each, to which no link leads. They are legal, and stay.
    pub left_layers: u64,
}

impl Census {
    /// This census, of an index to which nobody wrote meanwhile. Fails if it shows damage that only such a census shows.
    pub fn at_rest(self) -> Result<Self, OpError> {
        if self.unlinked_entries == 0 {
            return Ok(self);
        }
        let what = "entries to which no link leads: the link to them is lost";
        Err(OpError::harmless(Cause::Corrupt { address: Address::NULL, what }))
    }
}

/// What a failed operation did to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing, now and later.
    None,
    /// It may have taken effect. It may also take effect until the queue pair that it used is confirmed to be closed.
    Unknown,
    /// It took effect.
    Done,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// Remote bytes that no writer of this engine produces.
    #[error("corrupt structure at {address}: {what}")]
    Corrupt {
        /// Address of the bytes.
        address: Address,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A record does not have the checksum that it was stored with: its key, its value or the checksum has changed in the pool.
    /// Only of an index that was created with checksums. A record with this key can be replaced or deleted.
    #[error("damaged record: the checksum of the record with key {key} does not fit")]
    Checksum {
        /// The key as it was found, which may be what has changed.
        key: KeyStart,
    },
    /// The caller's deadline passed.
    #[error("deadline passed after {elapsed_ns} ns")]
    Deadline {
        /// How long the operation had waited.
        elapsed_ns: u64,
    },
    /// The limit on retries was reached.
    #[error("gave up after {attempts} attempts at {what}")]
    Retries {
        /// Number of attempts.
        attempts: u32,
        /// What was attempted.
        what: &'static str,
    },
    /// No memory node has room for a node that this operation needs.
    #[error("the pool is full: no memory node has a free chunk")]
    PoolFull,
    /// A memory node has no room for a node that this operation needs, and the index was opened so that its subtrees stay on
    /// one memory node each ([`Subtrees::Whole`](crate::btree::Subtrees)). Others may have room.
    #[error("memory node {} is full, and this index keeps each subtree on one memory node", node.0)]
    NodeFull {
        /// The memory node.
        node: NodeId,
    },
    /// A lock's holder seems dead, and a memory node did not confirm that it cannot write any more. Nothing was taken
    /// over.
    #[error("memory node {} cannot fence off compute-node row {}: {}", node.0, row.0, reply.name())]
    CannotFence {
        /// The holder's row.
        row: RowId,
        /// The memory node.
        node: NodeId,
        /// Its reply.
        reply: Reply,
    },
    /// This compute node has been fenced. It may join again with a new incarnation.
    #[error("this compute node has been fenced off")]
    Fenced,
    /// The key belongs to a range that this compute node does not own. `row` owned it in `epoch`, as far as this compute
    /// node knows; row 0: nobody did.
    #[error("the key belongs to compute-node row {} since epoch {epoch} (0 = nobody)", row.0)]
    NotOwner {
        /// The owner's row.
        row: RowId,
        /// The epoch that was seen.
        epoch: u32,
    },
    /// The compute node that owns the key has tried to execute the operation, and failed in a way that its own log tells.
    #[error("compute-node row {}, which owns the key, could not execute the operation", row.0)]
    AtOwner {
        /// The owner's row.
        row: RowId,
    },
    /// The operation was part of a batch whose leader was dropped, or failed with an unknown effect.
    #[error("the operation that this one was combined with was lost")]
    LeaderLost,
    /// The caller asked for something impossible.
    #[error("{0}")]
    BadInput(&'static str),
}

/// Bytes that an error has of a key.
const KEY_START_BYTES: usize = 16;

/// How a key begins, for errors, which own no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStart {
    start: [u8; KEY_START_BYTES],
    bytes: u16,
}

impl KeyStart {
    /// Of `key`.
    pub fn of(key: &[u8]) -> Self {
        Self::of_key_of(key.len(), key)
    }

    /// Of a key of `bytes` bytes that begins with `start`.
    pub(crate) fn of_key_of(bytes: usize, start: &[u8]) -> Self {
        let mut kept = [0; KEY_START_BYTES];
        kept.iter_mut().zip(start).for_each(|(to, from)| *to = *from);
        Self { start: kept, bytes: bytes as u16 }
    }

    /// As much of the key as it has.
    pub(crate) fn start(&self) -> &[u8] {
        self.start.get(..self.bytes.into()).unwrap_or(&self.start)
    }
}

impl fmt::Display for KeyStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hex:")?;
        self.start.iter().take(self.bytes.into()).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if usize::from(self.bytes) > KEY_START_BYTES { write!(f, "... ({} bytes)", self.bytes) } else { Ok(()) }
    }
}

/// An operation that ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{cause} ({})", match effect { Effect::None => "nothing was changed", Effect::Unknown => "it is unknown whether the change was made", Effect::Done => "the change was made" })]
pub struct OpError {
    /// What it did to the index nevertheless.
    pub effect: Effect,
    /// Why it failed.
    pub cause: Cause,
}

impl OpError {
    /// The error of an operation that changed nothing.
    pub const fn harmless(cause: Cause) -> Self {
        Self { effect: Effect::None, cause }
    }
}

impl From<VerbError> for OpError {
    /// Says that nothing was changed, as is the case before an operation posts its first WRITE or CAS. Behind that
    /// point algorithms set the effect themselves.
    fn from(error: VerbError) -> Self {
        Self::harmless(Cause::Verb(error))
    }
}

/// The error of an operation that may have made its change.
#[cold]
pub(crate) fn unknown(cause: impl Into<Cause>) -> OpError {
    OpError { effect: Effect::Unknown, cause: cause.into() }
}
