//! The arithmetic of a ring: which lines are assigned, posted, durable, and may be used again.
//!
//! ```text
//!        head           durable          end of the flight        next
//!  ───────┼────────────────┼────────────────────┼───────────────────┼──────────► line numbers
//!  may be │ replay would   │ posted, not yet    │ staged            │ not
//!  used   │ need these     │ completed          │                   │ assigned
//!  again  │                │                    │                   │
//! ```
//!
//! One *flight* is under way at a time: a chain of the head's WRITE, if the head has moved, and of the WRITEs of lines.
//!
//! **Why replay finds what it needs.** Lines land in the order of flights, and the chain of a flight in its own order. A
//! line is assigned only if the ring has room for all lines from the head to it. That head, or a later one, is in front
//! of the line in the chain that has the line. So whatever prefix of chains has landed, the head in the pool leads to
//! lines that no later line has replaced.
//!
//! **A flight that failed** may land until its queue pair is known to be closed. No other is begun before that: an older
//! head that lands late would lead to lines that were used again. Then the same lines are posted again, and it does not
//! matter how many of them had landed.
//!
//! **The head is the least of what is not in its page and what is not durable.** Pages and lines are looked at one after
//! the other, and changes go on meanwhile. So the order counts, on both sides:
//!
//! - A change notes in its frame a line that is not above the one that it will be given ([`Appender::next`]), then
//!   takes the line ([`Appender::assign`]).
//! - The head is computed from [`Appender::head_bound`] first, and then from the frames.
//!
//! If the frame was not noted when the frames were looked at, the line is assigned after that, so it is not below the
//! bound, and not below the head.
//!
//! **Line numbers end**, and a ring may be lost with its memory node. Then the log is frozen, everything is flushed, and it
//! begins again at line 0 ([`Appender::restart`]). What is compared here counts on: so a frame that was noted before the
//! restart is older than all that is assigned after it, and holds the head until it is flushed.

use crate::mutants::{Mutant, planted};
use crate::pages::lsn::LINES_END;
use thiserror::Error;

/// Why there is no line for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Full {
    /// Pages have to be flushed first, so that the head moves.
    #[error("the log ring is full: pages with unflushed records hold its head at line {head}")]
    Ring {
        /// The head.
        head: u64,
    },
    /// Lines have to be posted first.
    #[error("the staging room of the log is full")]
    Staging,
    /// Line numbers are used up: the compute node flushes its pages and renews its tenures.
    #[error("the line numbers of this log are used up")]
    UsedUp,
    /// The tenure under which the change was decided has ended.
    #[error("the tenure of a record has ended")]
    Closed,
    /// The memory node of the ring does not answer: a new ring is needed.
    #[error("the memory node of the log ring is gone")]
    Lost,
    /// No record has such a key or value.
    #[error("a log record has a key of 1 to 64 bytes and a value of at most 1024")]
    Size,
}

/// Lines whose chain is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// The lane that posts it.
    pub lane: u16,
    /// Its first line.
    pub first: u64,
    /// Behind its last line.
    pub end: u64,
    /// The head to WRITE in front of them; `None`: the pool has it.
    pub head: Option<u64>,
}

/// One WRITE of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Of the head.
    Head(u64),
    /// Of all lines.
    Lines,
}

impl Flight {
    /// Its WRITEs in the order in which they are posted.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let head = self.head.map(Step::Head);
        let late = planted(Mutant::HEAD_WRITTEN_LATE);
        let (front, behind) = if late { (None, head) } else { (head, None) };
        front.into_iter().chain([Step::Lines]).chain(behind)
    }
}

/// What a lane can do for lines that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing is staged.
    Nothing,
    /// A flight is under way, or failed and its lane has not settled it yet.
    Busy,
    /// Post this.
    Post(Flight),
    /// The ring is lost.
    Lost,
}

/// A line that was durable when it was looked up; all in front of it were, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadBound(u64);

/// The state of a ring on its compute node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Appender {
    ring_lines: u64,
    staging_lines: u64,
    /// Where line 0 is in the counts below, which never go back: [`LINES_END`] more with each restart.
    base: u64,
    next: u64,
    durable: u64,
    head: u64,
    /// The head that the pool is known to have.
    head_written: u64,
    flight: Option<Flight>,
    /// Flights begun; the low bit tells the waiters of one from those of the next.
    flights: u32,
    lost: bool,
    /// No record is assigned before the restart.
    frozen: bool,
}

impl Appender {
    /// An empty ring that begins at line 0. `staging_lines`: lines that can be assigned and not durable.
    pub const fn new(ring_lines: u64, staging_lines: u64) -> Self {
        Self {
            ring_lines,
            staging_lines,
            base: 0,
            next: 0,
            durable: 0,
            head: 0,
            head_written: 0,
            flight: None,
            flights: 0,
            lost: false,
            frozen: false,
        }
    }

    /// Nothing more is assigned until [`Appender::restart`]. Returns whether the ring is lost.
    pub const fn freeze(&mut self) -> bool {
        self.frozen = true;
        self.lost
    }

    /// Whether nothing is assigned before the restart.
    pub const fn needs_restart(&self) -> bool {
        self.frozen || self.lost
    }

    /// Begins again at line 0 of a ring that has no record which replay would need: all that was assigned is in its page.
    pub const fn restart(&mut self) {
        self.base += LINES_END;
        (self.next, self.durable, self.head, self.head_written) = (self.base, self.base, self.base, self.base);
        (self.flight, self.lost, self.frozen) = (None, false, false);
    }

    /// How often it has begun again.
    pub const fn restarts(&self) -> u64 {
        self.base / LINES_END
    }

    /// As if so many lines had been used; the pool has another head.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, line: u64) {
        (self.next, self.durable, self.head) = (line, line, line);
    }

    /// The next line that will be assigned.
    #[inline]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The first line that is not durable.
    #[inline]
    pub const fn durable(&self) -> u64 {
        self.durable
    }

    /// The head, as the next flight writes it.
    #[inline]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Whether the head is at the first line that is not durable.
    #[inline]
    pub const fn is_held_by_lines(&self) -> bool {
        self.head == self.durable
    }

    /// The flight under way.
    #[inline]
    pub const fn flight(&self) -> Option<Flight> {
        self.flight
    }

    /// Whether the ring is lost.
    #[inline]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether the record that begins at `line` is durable. Flights end where records do.
    #[inline]
    pub fn is_durable(&self, line: u64) -> bool {
        let line = self.base + line;
        // One that is not assigned is of the time before the restart, when everything was flushed.
        line < self.durable
            || self.base > 0 && line >= self.next
            || planted(Mutant::ACK_BEFORE_DURABLE) && line < self.next
    }

    /// Assigns `lines` lines, at least one. Returns the first.
    #[inline]
    pub const fn assign(&mut self, lines: u64) -> Result<u64, Full> {
        let (first, end) = (self.next, self.next + lines);
        if self.lost {
            return Err(Full::Lost);
        }
        if self.frozen || end > self.base + LINES_END {
            self.frozen = true;
            return Err(Full::UsedUp);
        }
        if end - self.head > self.ring_lines {
            return Err(Full::Ring { head: self.head });
        }
        if end - self.durable > self.staging_lines {
            return Err(Full::Staging);
        }
        self.next = end;
        Ok(first)
    }

    /// A lane wants to post. `cut(first, next)` says where the flight ends that begins at `first`: behind a record, and
    /// not behind `next`.
    pub fn begin(&mut self, lane: u16, cut: impl FnOnce(u64, u64) -> u64) -> Begin {
        if self.lost {
            return Begin::Lost;
        }
        if self.flight.is_some() {
            return Begin::Busy;
        }
        if self.durable == self.next {
            return Begin::Nothing;
        }
        let head = (self.head != self.head_written).then_some(self.head);
        let end = cut(self.durable, self.next).clamp(self.durable + 1, self.next);
        let flight = Flight { lane, first: self.durable, end, head };
        self.flight = Some(flight);
        self.flights = self.flights.wrapping_add(1);
        Begin::Post(flight)
    }

    /// All WRITEs of the flight have completed. `false`: it is not under way.
    #[must_use]
    pub fn completed(&mut self, flight: &Flight) -> bool {
        if self.flight != Some(*flight) {
            return false;
        }
        self.durable = flight.end;
        self.head_written = flight.head.unwrap_or(self.head_written);
        self.flight = None;
        true
    }

    /// The flight of `lane` failed, and its queue pair is known to be closed: whatever has not landed never will. The
    /// lines are posted anew by the next lane. `false`: the lane has no flight.
    #[must_use]
    pub fn closed(&mut self, lane: u16) -> bool {
        let Some(flight) = self.flight.filter(|flight| flight.lane == lane) else { return false };
        if planted(Mutant::APPEND_DROPPED) {
            self.durable = flight.end;
        }
        self.flight = None;
        true
    }

    /// The ring's memory node is gone. Nothing that is not durable will be.
    pub const fn lose(&mut self) {
        self.lost = true;
        self.flight = None;
    }

    /// Which waiters' mark a lane sets that waits for `line`; `None`: it is durable.
    pub fn parity_of(&self, line: u64) -> Option<usize> {
        if self.is_durable(line) {
            return None;
        }
        let in_flight = self.flight.is_some_and(|flight| self.base + line < flight.end);
        Some((self.flights.wrapping_add(u32::from(!in_flight)) & 1) as usize)
    }

    /// The mark of the lanes that wait for the flight that was begun last.
    pub const fn parity(&self) -> usize {
        (self.flights & 1) as usize
    }

    /// How far the head may go as far as lines are concerned. Looked up before the frames are.
    #[inline]
    pub const fn head_bound(&self) -> HeadBound {
        HeadBound(self.durable)
    }

    /// Moves the head. `bound` was looked up first, then `unflushed`: the least line of a record that is not in its
    /// page, flushes that have not completed included. `None`: there is none.
    pub fn advance_head(&mut self, bound: HeadBound, unflushed: Option<u64>) {
        let head = unflushed.map_or(bound.0, |line| line.min(bound.0));
        // A frame that was noted with a line of long ago does not need the lines in between.
        self.head = self.head.max(head);
    }
}
