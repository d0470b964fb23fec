//! Epochs: when no compute node has an old pointer any more.
//!
//! ```text
//!  pool's epoch     a word of row 0: raised by CAS, by a compute node with places in its limbo list
//!        │ READ with every heartbeat, and many times in between ([`crate::membership::lease::keep`])
//!        ▼
//!  `now`            what this compute node knows of it
//!        │ an operation takes it as it begins           `Pin`, one per lane
//!        ▼
//!  its row's epoch  the lowest epoch of an operation under way, or `now`; published when it changes
//!        │ READ by a compute node with places in its limbo list
//!        ▼
//!  `cleared`        places that entered before that turn may be used again
//! ```
//!
//! **What a row's epoch says:** this compute node holds no pointer that was READ before it knew of this epoch. See
//! [`epochs`](crate::manual::epochs) for why that is enough, and for the race between a pin and a row that is
//! published.
//!
//! **When a turn begins.** While places of a B+-tree wait, every heartbeat begins one. A radix tree asks for one, and
//! it begins at the next look at the pool's epoch.
//!
//! **Closed chunks.** With each epoch a compute node learns which chunks are closed ([`super::collect`]).
//!
//! **Costs.** Two stores and a load per operation. 8 bytes more READ per heartbeat, and 8 bytes READ per glance. A line
//! per epoch. For each epoch: a CAS, two chains of a WRITE and two READs to the own row, a look at all rows by each
//! compute node that waits for it, and one READ of each level-1 node, or copy, in use. An epoch takes two or three
//! glances ([`crate::membership::lease::LeaseConfig::glance_ns`]), or as long as the longest operation.
//!
//! **Limit.** A compute node that sends heartbeats and does not end an operation holds up all limbo lists: operations
//! have deadlines. One that is unresponsive is fenced when memory is short, or when a lane waits for a turn.

use super::closed::Closed;
use super::pin::{IDLE, Pin};
use super::rows::{self, RowError, RowSummary};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::lock_word::RowId;
use crate::remote::row::{self, Member, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, Request};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use heapless::Deque;
use spin::Mutex;

/// Marks of this room and of the limbo list.
pub const MARKS: &[Mark] = &[Mark::LIMBO_ENTERED, Mark::LIMBO_LEFT];

/// The last epoch: a hundred years of eight a second. A larger word of the pool is not believed, and then places wait
/// for ever.
pub(crate) const EPOCH_MAX: u32 = u32::MAX - 1;

/// Turns whose epoch not all rows have reached: more than one epoch needs.
const TURNS_OPEN_MAX: usize = 8;

/// The first row of a compute node.
const FIRST_ROW: RowId = RowId(1);

/// A compute node's view of the epochs, shared by its lanes, its indexes and its keeper.
#[derive(Debug)]
pub struct Epochs {
    /// The pool's epoch, as this compute node knows it.
    pub(super) now: AtomicU32,
    /// Turns begun.
    turns: AtomicU32,
    /// Places that entered before this turn began may be used again.
    cleared: AtomicU32,
    /// Places that wait.
    waiting: AtomicU32,
    /// The first turn of at least this number raises the epoch, though nothing is said to wait; 0: none is wanted.
    wanted: AtomicU32,
    /// Pointers are held that have no pin.
    publishes_none: AtomicBool,
    /// Nodes were short while places waited.
    short: AtomicBool,
    /// A lane takes a turn without a heartbeat.
    pub(super) busy: AtomicBool,
    closed: Closed,
    /// Collections begun here.
    collections: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The pool's epoch at the last turn.
    seen: u32,
    /// A turn, and the epoch that all rows have to reach for it. In ascending order.
    open: Deque<(u32, u32), TURNS_OPEN_MAX>,
    /// All rows before this one have reached this epoch.
    passed: (u32, RowId),
    watch: Watch,
    unresponsive: Option<(RowId, RowWord)>,
}

/// The row that holds up the oldest turn.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    row: RowId,
    seen: (u64, u64),
    unchanged_ns: u64,
    /// It was unchanged for a lease.
    is_over: bool,
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// Of a compute node that has just joined.
    pub const fn new() -> Self {
        Self {
            now: AtomicU32::new(1),
            turns: AtomicU32::new(0),
            cleared: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            publishes_none: AtomicBool::new(false),
            short: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            closed: Closed::new(),
            collections: AtomicU32::new(0),
            state: Mutex::new(State {
                seen: 0,
                open: Deque::new(),
                passed: (0, FIRST_ROW),
                watch: Watch { row: RowId(0), seen: (0, 0), unchanged_ns: 0, is_over: false },
                unresponsive: None,
            }),
        }
    }

    /// From now on the row says no epoch, and the limbo lists of others wait until this compute node has departed. A
    /// compute node calls this if it uses an index without pins.
    pub fn publish_no_epoch(&self) {
        self.publishes_none.store(true, SeqCst);
    }

    /// Turns begun: what a place notes when it enters the limbo list.
    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(SeqCst)
    }

    /// Whether a place that entered after `entered` turns may be used again.
    pub(crate) fn is_over(&self, entered: u32) -> bool {
        self.cleared.load(SeqCst).wrapping_sub(entered).cast_signed() > 0
    }

    /// Counts places that begin and end to wait.
    pub(crate) fn waits(&self, begin: bool) {
        if begin {
            self.waiting.fetch_add(1, SeqCst);
        } else {
            self.waiting.fetch_sub(1, SeqCst);
        }
    }

    /// The next turn raises the epoch, and no later one for that: for an index that would rather have many places wait
    /// than one advance soon.
    pub(crate) fn want(&self) {
        // 0 is none: where the number of turns wraps around to 0, the turn after it is wanted.
        self.wanted.store(self.turns().wrapping_add(1).max(1), SeqCst);
    }

    /// What was wanted, if this turn serves it.
    fn wanted_of(&self, number: u32) -> Option<u32> {
        let wanted = self.wanted.load(SeqCst);
        (wanted != 0 && number.wrapping_sub(wanted).cast_signed() >= 0).then_some(wanted)
    }

    /// The indexes whose places waited are closed.
    pub fn forget_waiting(&self) {
        self.waiting.store(0, SeqCst);
        self.wanted.store(0, SeqCst);
        self.state.lock().open.clear();
    }

    /// The epoch that may be published: 0 = none.
    pub fn publishable(&self, pins: &[Pin]) -> u32 {
        let now = self.now.load(SeqCst);
        if self.publishes_none.load(SeqCst) {
            return 0;
        }
        pins.iter().map(|Pin(pin)| pin.load(SeqCst)).filter(|pin| *pin != IDLE).fold(now, u32::min)
    }

    /// Which chunks are closed, as of the epoch that this compute node knows.
    pub const fn closed(&self) -> &Closed {
        &self.closed
    }

    /// The number of a collection that begins.
    pub(crate) fn next_collection(&self) -> u32 {
        self.collections.fetch_add(1, Relaxed)
    }

    /// Takes the pool's epoch for its own, if that is another one. First it READs which chunks are closed: a collector
    /// that waits for a turn relies on that when a row says an epoch ([`super::collect`]). One turn at a time is under
    /// way on a compute node, its keeper's or a lane's, so what was READ last is learned last.
    async fn learn(&self, lane: &Lane<'_>, home: &NodeGeometry, epoch: u32, scratch: usize) -> Result<(), RowError> {
        if epoch > self.now.load(SeqCst) || !self.closed.is_read() {
            let line = rows::read_closed(lane, home, scratch).await?;
            self.closed.learn(if planted(Mutant::CLOSED_UNREAD) { Default::default() } else { line });
            self.now.fetch_max(epoch, SeqCst);
        }
        Ok(())
    }

    /// Whether there is reason for a turn, though the pool's epoch may not have moved: something here waits for one, or
    /// the row, which says `told`, could say another epoch.
    pub(crate) fn is_due(&self, told: u32, pins: &[Pin]) -> bool {
        self.wanted.load(SeqCst) != 0 || self.publishable(pins) != told || !self.state.lock().open.is_empty()
    }

    /// Whether the pool's word is another one than this compute node knows of.
    pub(crate) fn is_news(&self, pool_word: u64) -> bool {
        epoch_of(pool_word).is_some_and(|epoch| epoch > self.now.load(SeqCst))
    }

    /// Begins a turn: before the pool's epoch is READ.
    pub(crate) fn begin(&self) -> u32 {
        self.turns.fetch_add(1, SeqCst).wrapping_add(1)
    }

    /// Ends a turn that found `pool_word`: raises the pool's epoch if places wait for that, and finds out which places
    /// have waited long enough.
    pub(crate) async fn end(
        &self,
        lane: &Lane<'_>,
        home: &NodeGeometry,
        member: Member,
        turn: Turn,
        scratch: usize,
    ) -> Result<(), RowError> {
        let Some(epoch) = epoch_of(turn.pool_word) else { return Ok(()) };
        self.learn(lane, home, epoch, scratch).await?;
        let raises = {
            let mut state = self.state.lock();
            let wanted = self.wanted_of(turn.number);
            if (turn.waits.for_all && self.waiting.load(SeqCst) > 0 || wanted.is_some())
                && state.ask(turn.number, epoch + 1)
                && let Some(wanted) = wanted
            {
                // Unless another turn is wanted by now.
                let _ = self.wanted.compare_exchange(wanted, 0, SeqCst, SeqCst);
            }
            // If another compute node has raised it since the last turn, that serves all that waited then.
            let idle = state.seen == epoch;
            state.seen = epoch;
            idle && state.open.back().is_some_and(|(_, due)| *due > epoch)
        };
        if raises {
            let (old, new) = (turn.pool_word, turn.pool_word + 1);
            let raise = Request::cas(Label::Row, HOME, row::epoch_offset(home), old, new);
            let found = lane.port().call(raise).await?.value;
            if let Some(epoch) = epoch_of(if found == old { new } else { found }) {
                self.learn(lane, home, epoch, scratch).await?;
                self.state.lock().seen = epoch;
            }
        }
        let (due, first) = {
            let mut state = self.state.lock();
            let Some(&(_, due)) = state.open.front() else {
                state.unresponsive = None;
                return Ok(());
            };
            (due, if state.passed.0 == due { state.passed.1 } else { FIRST_ROW })
        };
        // Rows that are not READ again are known to have reached that.
        let mut reached = if first == FIRST_ROW { u32::MAX } else { due };
        let mut behind = None;
        let visit = &mut |row: RowId, row_summary: &RowSummary| {
            let Some(epoch) = row_summary.holds_from() else { return true };
            if planted(Mutant::LIMBO_TOO_SHORT) && row != member.row {
                return true;
            }
            let epoch = u32::try_from(epoch).unwrap_or(0);
            reached = reached.min(epoch);
            if epoch < due {
                behind = Some((row, *row_summary));
            }
            epoch >= due
        };
        rows::read_summaries_from(lane, home, first, scratch, visit).await?;
        let mut state = self.state.lock();
        let Some((row, row_summary)) = behind else {
            while let Some(&(number, due)) = state.open.front()
                && due <= reached
            {
                state.open.pop_front();
                self.cleared.store(number, SeqCst);
            }
            state.unresponsive = None;
            return Ok(());
        };
        state.passed = (due, row);
        state.unresponsive = if row == member.row { None } else { state.watch.saw(row, &row_summary, &turn.waits) };
        Ok(())
    }

    /// All places that wait have waited long enough.
    #[cfg(test)]
    pub(crate) fn clear_all_for_tests(&self) {
        self.cleared.store(self.turns().wrapping_add(1), SeqCst);
    }

    /// Whether nodes have been short since that was asked last.
    #[cfg(test)]
    pub(crate) fn was_short_for_tests(&self) -> bool {
        self.short.load(Relaxed)
    }

    /// Nodes are short while places wait, or a lane waits for a turn.
    pub(crate) fn is_short(&self) {
        self.short.store(true, Relaxed);
    }

    /// The compute node that places wait for, if it has been unresponsive for a lease and nodes have been short since
    /// the last call.
    #[inline]
    pub(crate) fn unresponsive_and_short(&self) -> Option<(RowId, RowWord)> {
        if !self.short.load(Relaxed) || !self.short.swap(false, Relaxed) {
            return None;
        }
        self.state.lock().unresponsive
    }
}

impl State {
    /// A turn that needs all rows to reach `due`. `false`: there is no room, and what entered waits for a later turn.
    fn ask(&mut self, turn: u32, due: u32) -> bool {
        if let Some(last) = self.open.back_mut()
            && last.1 >= due
        {
            // What entered since waits for the same epoch: it, too, was READ after.
            last.0 = turn;
            return true;
        }
        self.open.push_back((turn, due)).is_ok()
    }
}

impl Watch {
    fn saw(&mut self, row: RowId, row_summary: &RowSummary, waits: &Waits) -> Option<(RowId, RowWord)> {
        let seen = (row_summary.word.0, row_summary.heartbeat);
        let is_same = self.row == row && self.seen == seen;
        if waits.lease_ns == u64::MAX {
            // A turn without a heartbeat knows of no time, and counts none. If it took note of the row, the next heartbeat's turn
            // would count time that was before. What the last heartbeat's turn found stays so as long as the row does.
            return (is_same && self.is_over).then_some((row, row_summary.word));
        }
        if !is_same {
            *self = Self { row, seen, unchanged_ns: 0, is_over: false };
            return None;
        }
        self.unchanged_ns = self.unchanged_ns.saturating_add(waits.since_ns);
        self.is_over = self.unchanged_ns >= waits.lease_ns.max(row_summary.lease_ns);
        self.is_over.then_some((row, row_summary.word))
    }
}

/// What a turn is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// From [`Epochs::begin`].
    pub number: u32,
    /// The pool's word, READ after that.
    pub pool_word: u64,
    pub waits: Waits,
}

/// How a turn waits for other compute nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// How long this compute node lets others be unresponsive, in ns; [`u64::MAX`]: the turn is without a heartbeat.
    pub lease_ns: u64,
    /// Since the last turn, in ns: at most that.
    pub since_ns: u64,
    /// It raises the epoch if places of B+-trees wait; otherwise only if one was wanted.
    pub for_all: bool,
}

/// Epochs count from 1, the pool's word from 0. `None`: past the last one.
pub fn epoch_of(pool_word: u64) -> Option<u32> {
    u32::try_from(pool_word).ok().filter(|word| *word < EPOCH_MAX).map(|word| word + 1)
}

impl RowSummary {
    /// The epoch since which its compute node's pointers are; 0: it does not say. `None`: it has no pointers.
    fn holds_from(&self) -> Option<u64> {
        // A compute node that is being fenced may still read.
        let alive = matches!(self.word.state(), Some(RowState::Live | RowState::Fencing));
        (alive && self.incarnation == self.word.incarnation()).then_some(self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_wait_for_one_epoch_are_one() {
        let epochs = Epochs::new();
        let mut state = epochs.state.lock();
        assert!(state.ask(1, 5) && state.ask(2, 5) && state.ask(3, 6));
        assert_eq!(state.open.iter().copied().collect::<heapless::Vec<_, 8>>(), [(2, 5), (3, 6)]);
    }

    #[test]
    fn a_word_past_the_last_epoch_is_not_believed() {
        assert_eq!(epoch_of(0), Some(1));
        assert_eq!(epoch_of(u64::from(EPOCH_MAX) - 1), Some(EPOCH_MAX));
        assert_eq!(epoch_of(u64::from(EPOCH_MAX)), None);
        assert_eq!(epoch_of(u64::MAX), None);
    }

    #[test]
    fn being_unresponsive_is_counted_from_the_last_change() {
        let mut watch = Watch::default();
        let word = Member { row: RowId(3), incarnation: 1, nonce: 1 }.word();
        let row_summary =
            |heartbeat| RowSummary { word, heartbeat, epoch: 1, incarnation: 1, lease_ns: 20, memory_nodes: 1 };
        let waits = Waits { lease_ns: 10, since_ns: 10, for_all: true };
        assert_eq!(watch.saw(RowId(3), &row_summary(1), &waits), None);
        assert_eq!(watch.saw(RowId(3), &row_summary(1), &waits), None, "its own lease is longer");
        assert_eq!(watch.saw(RowId(3), &row_summary(2), &waits), None);
        assert_eq!(watch.saw(RowId(3), &row_summary(2), &waits), None);
        assert_eq!(watch.saw(RowId(3), &row_summary(2), &waits), Some((RowId(3), word)));
        let without_heartbeat = Waits { lease_ns: u64::MAX, since_ns: 0, for_all: true };
        assert_eq!(watch.saw(RowId(3), &row_summary(2), &without_heartbeat), Some((RowId(3), word)), "it stays so");
        assert_eq!(watch.saw(RowId(3), &row_summary(3), &without_heartbeat), None);
        assert_eq!(watch.saw(RowId(3), &row_summary(3), &waits), None, "time before it was seen does not count");
    }
}
