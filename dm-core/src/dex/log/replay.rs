//! Replay: the records of a ring, from its head to the first line that does not belong there.
//!
//! The reader READs lines in order, run by run, and hands them over as they come. It applies the records of one entry
//! whose LSN is above the leaf's, and drops the others. A ring is replayed after its compute node was fenced, so it does
//! not change, and every reader sees the same records.

use super::record::{Parsed, RECORD_LINES_MAX, Record, Seal, parse};
use super::ring::Ring;
use crate::layout::LINE_BYTES;
use crate::mutants::{Mutant, planted};
use crate::pages::lsn::LINES_END;

/// Where a replay stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    seal: Seal,
    ring_lines: u64,
    next: u64,
    /// Lines that can still belong to the log: a ring has no more than its length.
    left: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A record, of so many lines of the bytes.
    Record(Record<'a>, usize),
    /// READ the lines from [`Replay::next_line`] on, at least so many.
    Read(usize),
    /// The log ends here.
    End,
}

impl Replay {
    /// From the head of `ring` on.
    pub const fn new(ring: &Ring, seal: Seal, head: u64) -> Self {
        Self::of(ring.lines(), seal, head)
    }

    /// As [`Replay::new`], for a ring of `ring_lines` lines.
    pub const fn of(ring_lines: u64, seal: Seal, head: u64) -> Self {
        Self { seal, ring_lines, next: head, left: ring_lines }
    }

    /// The line at which the next record begins.
    pub const fn next_line(&self) -> u64 {
        self.next
    }

    /// Lines that it makes sense to READ from [`Replay::next_line`] on, at most.
    pub const fn lines_left(&self) -> u64 {
        self.left
    }

    /// Reads the next record. `bytes` are the lines from [`Replay::next_line`] on.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Next<'a> {
        if self.left == 0 || self.next >= LINES_END {
            return Next::End;
        }
        if planted(Mutant::REPLAY_STOPS_EARLY)
            && self.next.is_multiple_of(self.ring_lines)
            && self.left < self.ring_lines
        {
            return Next::End;
        }
        match parse(bytes, self.seal, self.next) {
            Parsed::Record(record, lines) if lines as u64 <= self.left => {
                self.next += lines as u64;
                self.left -= lines as u64;
                Next::Record(record, lines)
            }
            Parsed::More(lines) if lines as u64 <= self.left && bytes.len() < RECORD_LINES_MAX * LINE_BYTES => {
                Next::Read(lines)
            }
            _ => Next::End,
        }
    }
}
