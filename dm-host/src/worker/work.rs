//! What a worker and its [`Work`] say to each other: operations and calls one way, results and what they cost the other way.

use dm_core::index::forward::pack::{Called, Pack};
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{OpError, Operation, Outcome, ScratchPlan};
use dm_core::verbs::Request;

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this operation; its arguments have been written to the scratch.
    Run(Operation),
    /// Make this call, which carries operations to their owner; it has been written to the scratch.
    Call(Pack),
    /// Nothing now. The thread that supplies later work unparks the worker.
    Wait,
    /// Nothing any more.
    Finished,
}

/// What an operation requested from memory nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Submits with at least one request for a memory node.
    pub round_trips: u32,
    /// Requests for memory nodes.
    pub requests: u32,
    /// Payload of READs and results of atomics, in bytes.
    pub bytes_read: u64,
    /// Payload of WRITEs and operands of atomics (8 bytes each), in bytes.
    pub bytes_written: u64,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The operation.
    pub operation: Operation,
    /// Its result.
    pub result: Result<Outcome, OpError>,
    /// From its first poll to its end, in ns; 0 if [`Work::TIMED`] is not set.
    pub latency_ns: u64,
    /// What it requested from memory nodes.
    pub cost: Cost,
    /// Steps that it repeated: the sum of [`RETRIES`].
    pub retries: u32,
    /// Arguments and results.
    pub scratch: &'a mut [u8],
    /// Where these are in the scratch.
    pub plan: &'a ScratchPlan,
}

/// A call that has ended.
#[derive(Debug)]
pub struct CallEnded<'a> {
    /// The call.
    pub pack: Pack,
    /// What it came to.
    pub called: Called,
    /// As of [`Finished`].
    pub latency_ns: u64,
    /// What it requested from memory nodes.
    pub cost: Cost,
    /// Has the answer.
    pub scratch: &'a mut [u8],
    /// Where results of operations are in the scratch.
    pub plan: &'a ScratchPlan,
}

/// Where a worker gets operations, and where their results go.
pub trait Work {
    /// Whether it uses latencies. The two stamps of an operation take some 20 ns each.
    const TIMED: bool = true;

    /// The next operation of the lane at position `lane`. Arguments go into `scratch`.
    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next;

    /// The operation of the lane at position `lane` ended.
    fn done(&mut self, lane: usize, finished: Finished<'_>);

    /// The call of the lane at position `lane` ended. For those that make calls.
    fn called(&mut self, lane: usize, ended: CallEnded<'_>) {
        let _ = (lane, ended);
    }

    /// The lane at position `lane` is about to post `requests`; local ones among them are not sent. For traces, and for
    /// counts by label.
    #[inline]
    fn posting(&mut self, lane: usize, requests: &[Request]) {
        let _ = (lane, requests);
    }

    /// For `attend`, whose lanes are all idle: whether the lane at position `lane` goes on with what it has begun.
    fn has_more(&self, lane: usize) -> bool {
        let _ = lane;
        false
    }

    /// For `attend`, whose lanes are all idle: whether one operation comes alone. Then no other lane runs while lines
    /// arrive.
    fn comes_alone(&self) -> bool {
        false
    }
}

/// Marks of a step that was repeated, or took a longer way than it should: what reports call *retries*. Waiting in a
/// local queue is not one.
pub const RETRIES: [Mark; 9] = [
    Mark::TORN_READ,
    Mark::GUARD_REFUSAL,
    Mark::STALE_CACHE,
    Mark::MOVE_RIGHT,
    Mark::FORWARDED,
    Mark::LOCK_LOST,
    Mark::ROOT_RACE_LOST,
    Mark::CHUNK_RACE_LOST,
    Mark::RESTART,
];

/// Retries of a lane. Marks are rare, so their sum is made only when there are new ones.
#[derive(Clone, Copy, Default)]
pub(super) struct Retries {
    /// [`Lane::marked_at_all`] when the sum was made.
    marks: u32,
    sum: u32,
}

impl Retries {
    /// Catches up with the lane. Returns how many retries are new.
    #[inline]
    pub(super) fn catch_up(&mut self, lane: &Lane<'_>) -> u32 {
        let marks = lane.marked_at_all();
        if marks == self.marks {
            return 0;
        }
        let sum = RETRIES.iter().fold(0u32, |sum, &mark| sum.wrapping_add(lane.marked(mark)));
        let new = sum.wrapping_sub(self.sum);
        *self = Self { marks, sum };
        new
    }
}
