//! The log of a compute node in its own memory: shared by all lanes and threads.
//!
//! Records are staged in handed-in words, line `n` where line `n - staging lines` was. A line stays there until it is
//! durable, so that it can be posted again. The state is behind a short lock that is never held across a wait; whether a
//! record is durable is usually read from a word of 32 bits beside it.

use super::record::{Change, RECORD_LINES_MAX, Record, Seal};
use super::state::{Appender, Begin, Flight, Full, HeadBound};
use crate::layout::LINE_BYTES;
use crate::pages::lsn::Lsn;
use crate::verbs::LaneId;
use core::sync::atomic::{AtomicU32, Ordering};
use heapless::Vec;
use spin::Mutex;
use thiserror::Error;

/// Words of a line.
const LINE_WORDS: usize = LINE_BYTES / 4;

/// Lines of the smallest staging room: two of the longest records.
pub const STAGING_LINES_MIN: usize = 2 * RECORD_LINES_MAX;

/// Lanes that are woken at once. Those that are woken wake the next.
pub const WAKES_AT_ONCE: usize = 4;

/// Why a log has no room to work in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RoomError {
    /// The staging room is too small.
    #[error("staging room of {words} words for log lines: at least {} are needed", STAGING_LINES_MIN * LINE_WORDS)]
    Staging {
        /// Its words.
        words: usize,
    },
    /// The ring is smaller than the staging room, or too small.
    #[error("a log ring of {ring_lines} lines, and a staging room of {staging_lines}: the ring must have more")]
    Ring {
        /// Lines of the ring.
        ring_lines: u64,
        /// Lines of the staging room.
        staging_lines: u64,
    },
    /// There are not as many marks as lanes.
    #[error("{words} words for the marks of lanes that wait for the log: {lanes} lanes need {}", 2 * lanes.div_ceil(32))]
    Marks {
        /// Words given.
        words: usize,
        /// Lanes.
        lanes: usize,
    },
}

/// The log of a compute node. See the [module](self).
pub struct Log<'s> {
    state: Mutex<Appender>,
    /// The low half of the first line that is not durable.
    durable: AtomicU32,
    staging: &'s [AtomicU32],
    /// A bit per lane: it waits for a flight of this parity.
    waiting: [&'s [AtomicU32]; 2],
    /// Seed and incarnation. They are set before the first record, so nobody reads the one without the other.
    seal: [AtomicU32; 2],
}

/// Words that [`Log::new`] needs for the marks of `lanes` lanes.
pub const fn mark_words(lanes: usize) -> usize {
    2 * lanes.div_ceil(32)
}

impl<'s> Log<'s> {
    /// The log of a new ring of `ring_lines` lines. `staging`: 16 words per line, [`STAGING_LINES_MIN`] lines at least.
    /// `marks`: [`mark_words`] words. Its seal is set before the first record is staged.
    pub fn new(
        ring_lines: u64,
        staging: &'s [AtomicU32],
        marks: &'s [AtomicU32],
        lanes: usize,
    ) -> Result<Self, RoomError> {
        let staging_lines = staging.len() / LINE_WORDS;
        if staging_lines < STAGING_LINES_MIN {
            return Err(RoomError::Staging { words: staging.len() });
        }
        if ring_lines <= staging_lines as u64 {
            return Err(RoomError::Ring { ring_lines, staging_lines: staging_lines as u64 });
        }
        let each = lanes.div_ceil(32);
        let (Some(even), Some(odd)) = (marks.get(..each), marks.get(each..2 * each)) else {
            return Err(RoomError::Marks { words: marks.len(), lanes });
        };
        let state = Mutex::new(Appender::new(ring_lines, staging_lines as u64));
        Ok(Self {
            state,
            durable: AtomicU32::new(0),
            staging,
            waiting: [even, odd],
            seal: [const { AtomicU32::new(0) }; 2],
        })
    }

    /// What tells this ring's records from others.
    pub fn seal(&self) -> Seal {
        let [seed, incarnation] = self.seal.each_ref().map(|word| word.load(Ordering::Relaxed));
        Seal { seed, incarnation }
    }

    /// Sets the seal: the ring is there, and no record was staged.
    pub fn set_seal(&self, seal: Seal) {
        let words = self.seal.iter().zip([seal.seed, seal.incarnation]);
        words.for_each(|(word, half)| word.store(half, Ordering::Relaxed));
    }

    /// The next line that will be assigned: not above that of any record that is staged later. A change notes it in its
    /// frame *before* it stages ([`super::state`]).
    #[inline]
    pub fn next_line(&self) -> u64 {
        self.state.lock().next()
    }

    /// What a change notes in its frame before it stages ([`Page::record`](crate::pages::Page::record)):
    /// [`Log::next_line`], in the place of an LSN. The dirty list is in the order of these notes, and the head needs the least
    /// line of this ring. LSNs would order by the epochs of entries first.
    #[inline]
    pub fn floor(&self) -> Lsn {
        Lsn::from_bits(self.next_line())
    }

    /// The words of staged line `line`.
    fn words(&self, line: u64) -> &'s [AtomicU32] {
        let lines = (self.staging.len() / LINE_WORDS) as u64;
        let at = (line % lines.max(1)) as usize * LINE_WORDS;
        self.staging.get(at..at + LINE_WORDS).unwrap_or_default()
    }

    /// Assigns lines to a record and keeps it. Called under the lock of the change's frame; posts nothing, and waits
    /// for nothing.
    pub fn stage(&self, entry: u32, epoch: u32, change: Change<'_>) -> Result<Lsn, Full> {
        self.stage_while(|| true, entry, epoch, change)
    }

    /// The same, unless the tenure is over. Tenures are closed while the log is frozen, and `holds` is asked where nobody can
    /// restart it meanwhile: so no record of an old epoch gets a line of the new count.
    pub fn stage_while(
        &self,
        holds: impl FnOnce() -> bool,
        entry: u32,
        epoch: u32,
        change: Change<'_>,
    ) -> Result<Lsn, Full> {
        let mut image = [0; RECORD_LINES_MAX * LINE_BYTES];
        let lines = change.lines();
        if !change.fits() {
            return Err(Full::Size);
        }
        let mut state = self.state.lock();
        if !holds() {
            return Err(Full::Closed);
        }
        let first = state.assign(lines as u64)?;
        let lsn = Lsn::new(epoch, first);
        Record { lsn, entry, change }.write(self.seal().incarnation, &mut image);
        for (line, bytes) in (first..).zip(image.chunks_exact(LINE_BYTES).take(lines)) {
            for (word, bytes) in self.words(line).iter().zip(bytes.chunks_exact(4)) {
                // A line's last flight has completed, and the lock orders this store before the next one reads it.
                word.store(bytes.try_into().map_or(0, u32::from_le_bytes), Ordering::Relaxed);
            }
        }
        Ok(lsn)
    }

    /// Whether a record that was staged here is durable. A frame whose LSN is of an earlier epoch waits for nothing and
    /// must not ask: its line number says nothing about this ring.
    #[inline]
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        // What is not durable is at most a staging room ahead. So a small negative distance is no wrap-around, and a
        // large one means a line of long ago, or nothing.
        let distance = self.durable.load(Ordering::Acquire).wrapping_sub(lsn.line() as u32).cast_signed();
        distance > 0 || self.state.lock().is_durable(lsn.line())
    }

    /// Whether at least `lines` lines in front of this record, which was staged here, were not durable a moment ago; or
    /// half of what can be staged, if that is less.
    #[inline]
    pub fn is_ahead(&self, lsn: Lsn, lines: usize) -> bool {
        let distance = (lsn.line() as u32).wrapping_sub(self.durable.load(Ordering::Acquire)).cast_signed();
        let bound = lines.min(self.staging.len() / LINE_WORDS / 2);
        usize::try_from(distance).is_ok_and(|distance| distance >= bound)
    }

    /// Whether lines that are not durable keep the head from moving: then no flush makes room.
    pub fn is_held_by_lines(&self) -> bool {
        self.state.lock().is_held_by_lines()
    }

    /// Whether the head is no more at line `head`.
    pub fn has_head_left(&self, head: u64) -> bool {
        self.state.lock().head() != head
    }

    /// See [`Appender::head_bound`].
    #[inline]
    pub fn head_bound(&self) -> HeadBound {
        self.state.lock().head_bound()
    }

    /// See [`Appender::advance_head`].
    pub fn advance_head(&self, bound: HeadBound, unflushed: Option<u64>) {
        self.state.lock().advance_head(bound, unflushed);
    }

    /// A copy of its state, for inspection.
    pub fn state(&self) -> Appender {
        self.state.lock().clone()
    }

    /// Takes what is staged, `lines_max` lines at most but a whole record at least, for a flight of `lane`. `None`: the log
    /// has begun again since `restarts` were counted, perhaps in another ring.
    pub(super) fn begin(&self, lane: LaneId, restarts: u64, lines_max: u64) -> Option<Begin> {
        let mut state = self.state.lock();
        (state.restarts() == restarts).then(|| state.begin(lane.0, |first, next| self.cut(first, next, lines_max)))
    }

    /// Behind the last record that fits into a flight.
    fn cut(&self, first: u64, next: u64, lines_max: u64) -> u64 {
        let mut end = first;
        while end < next {
            // The number of lines is in the second word of a record.
            let lines = self.words(end).get(1).map_or(1, |word| word.load(Ordering::Relaxed) & 0xff).max(1);
            let behind = end + u64::from(lines);
            if behind > next || behind - first > lines_max && end > first {
                break;
            }
            end = behind;
        }
        end
    }

    /// Copies lines of a flight to `out`, and closes the records that begin among them. `first` begins a record.
    pub(super) fn copy(&self, first: u64, end: u64, out: &mut [u8]) {
        // Behind these lines are those of a longer flight.
        let bytes = (end.saturating_sub(first) as usize * LINE_BYTES).min(out.len());
        let out = out.get_mut(..bytes).unwrap_or_default();
        for (line, bytes) in (first..end).zip(out.chunks_exact_mut(LINE_BYTES)) {
            for (word, bytes) in self.words(line).iter().zip(bytes.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
        }
        let mut rest = out;
        loop {
            let lines = self.seal().close(rest);
            match rest.split_at_mut_checked(lines * LINE_BYTES) {
                Some((record, behind)) if !record.is_empty() => rest = behind,
                _ => return,
            }
        }
    }

    /// The flight has completed. Returns the parity of those who waited for it, and whether more is staged.
    pub(super) fn completed(&self, flight: &Flight) -> (usize, bool) {
        let mut state = self.state.lock();
        if state.completed(flight) {
            self.durable.store(state.durable() as u32, Ordering::Release);
        }
        (state.parity(), state.durable() < state.next())
    }

    /// What is under way for `lane`, posted or failed.
    pub(super) fn flight_of(&self, lane: LaneId) -> Option<Flight> {
        self.state.lock().flight().filter(|flight| flight.lane == lane.0)
    }

    /// The queue pair of the lane's failed flight is closed. Returns the parity of those who wait for it.
    pub(super) fn closed(&self, lane: LaneId) -> Option<usize> {
        let mut state = self.state.lock();
        let parity = state.parity();
        let closed = state.closed(lane.0);
        self.durable.store(state.durable() as u32, Ordering::Release);
        closed.then_some(parity)
    }

    /// See [`Appender::freeze`].
    pub fn freeze(&self) -> bool {
        self.state.lock().freeze()
    }

    /// See [`Appender::needs_restart`].
    pub fn needs_restart(&self) -> bool {
        self.state.lock().needs_restart()
    }

    /// See [`Appender::restart`]. The ring has been made, or made anew.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.restart();
        self.durable.store(state.durable() as u32, Ordering::Release);
    }

    /// How often the log has begun again at line 0. Lines from before and after that do not compare; what was logged before is
    /// in its page.
    #[inline]
    pub fn restarts(&self) -> u64 {
        self.state.lock().restarts()
    }

    /// As if so many lines had been used. Nothing was staged.
    #[cfg(test)]
    pub(in crate::dex) fn begin_at(&self, line: u64) {
        let mut state = self.state.lock();
        state.begin_at(line);
        self.durable.store(state.durable() as u32, Ordering::Release);
    }

    /// The ring's memory node is gone.
    pub(super) fn lose(&self) {
        self.state.lock().lose();
    }

    fn mark_of(&self, parity: usize, lane: LaneId) -> Option<(&'s AtomicU32, u32)> {
        let words = *self.waiting.get(parity)?;
        Some((words.get(usize::from(lane.0) / 32)?, 1 << (lane.0 % 32)))
    }

    /// The lane is about to sleep until `line` is durable. `None`: it must not, since the record is durable, or nothing
    /// is under way and it may post. Otherwise the parity, for [`Log::awake`].
    pub(super) fn asleep(&self, lane: LaneId, line: u64) -> Option<usize> {
        let parity = self.state.lock().parity_of(line)?;
        let (word, bit) = self.mark_of(parity, lane)?;
        word.fetch_or(bit, Ordering::AcqRel);
        // Whoever completes a flight changes the state first, and takes the marks then. So either it finds the mark, or
        // this finds the state that it left.
        if self.is_under_way(parity, line) {
            return Some(parity);
        }
        word.fetch_and(!bit, Ordering::AcqRel);
        None
    }

    /// Whether a flight is under way, and the one of this parity, which `line` waits for, is not over.
    pub(super) fn is_under_way(&self, parity: usize, line: u64) -> bool {
        let state = self.state.lock();
        state.flight().is_some() && state.parity_of(line) == Some(parity) && !state.is_lost()
    }

    /// The lane does not sleep any more, whatever the reason.
    pub(super) fn awake(&self, lane: LaneId, parity: usize) {
        if let Some((word, bit)) = self.mark_of(parity, lane) {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Takes some of the lanes that sleep, `at_most`, to be woken.
    pub(super) fn take_sleepers(&self, parity: usize, at_most: usize) -> Vec<LaneId, WAKES_AT_ONCE> {
        let mut taken = Vec::new();
        for (number, word) in self.waiting.get(parity).copied().unwrap_or_default().iter().enumerate() {
            let mut set = word.load(Ordering::Acquire);
            while set != 0 && taken.len() < at_most.min(WAKES_AT_ONCE) {
                let bit = set & set.wrapping_neg();
                set &= !bit;
                // Another lane may have taken it meanwhile.
                if word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    let _ = taken.push(LaneId((number * 32) as u16 + bit.trailing_zeros() as u16));
                }
            }
        }
        taken
    }
}
