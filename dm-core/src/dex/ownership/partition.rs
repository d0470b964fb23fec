//! What a compute node knows of an ownership table: whose a key is, and its own tenures.
//!
//! Boundaries are copied when the index is opened, in order. Of each entry there is the word that was seen last, and the
//! *tenure*: the epoch under which this compute node serves the entry, 0 while it does not. The tenure is one load, which
//! an operation does when it begins, and again under its frame's lock when it changes something.
//!
//! **The order of both.** A tenure begins after the CAS that made the word this compute node's, and after the replay. It
//! ends before the CAS that gives the entry up: first the tenure, then every frame's lock of this entry once, then the
//! flushes, then the CAS. A change that saw the tenure under its frame's lock is in front of the flush of that frame.

use super::load::{self, Load};
use super::table::{Table, TableError};
use super::{LoadWord, Owner, OwnerWord, Refused};
use crate::mutants::{Mutant, planted};
use crate::remote::lock_word::RowId;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use spin::Mutex;
use thiserror::Error;

/// An entry, as a compute node knows it. Storage for a [`Partition`]; one per entry.
#[derive(Debug, Default)]
pub struct EntryCell {
    /// The epoch of this compute node's tenure; 0: it has none.
    tenure: AtomicU32,
    word: Mutex<OwnerWord>,
    seen: Mutex<Seen>,
    load: Load,
}

/// What operations of a compute node have seen of the life of another one, which has an entry.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// What its row said: the word, and the heartbeat.
    row: (u64, u64),
    /// When it was first seen to say so.
    since_us: u64,
}

/// This compute node serves an entry, in this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    /// The entry's number.
    pub entry: u32,
    /// The epoch.
    pub epoch: u32,
}

/// The key belongs to an entry that this compute node does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the key belongs to entry {entry}, which row {} has since epoch {epoch} (0 = nobody)", row.0)]
pub struct NotOwner {
    /// The entry's number.
    pub entry: u32,
    /// Who has it, as far as this compute node knows; row 0: nobody. This compute node's own row: it is recovering the
    /// entry, or giving it up.
    pub row: RowId,
    /// The epoch that was seen.
    pub epoch: u32,
}

/// An ownership table on one compute node, shared by its lanes.
pub struct Partition<'s> {
    me: RowId,
    key_bytes: usize,
    /// Boundaries in ascending order, one behind the other.
    boundaries: &'s [u8],
    /// Whose boundary it is: the entries' numbers in that order.
    order: &'s [u32],
    cells: &'s [EntryCell],
    changes: AtomicU32,
    /// When samples were taken last, in microseconds.
    taken_us: Mutex<Option<u64>>,
}

impl<'s> Partition<'s> {
    /// A table of which nothing is known: no key has an owner.
    pub const fn none(me: RowId, key_bytes: usize) -> Self {
        let (changes, taken_us) = (AtomicU32::new(0), Mutex::new(None));
        Self { me, key_bytes, boundaries: &[], order: &[], cells: &[], changes, taken_us }
    }

    /// Bytes for the boundaries of `table`.
    pub const fn boundary_bytes(table: &Table<'_>) -> usize {
        table.count() as usize * table.shape().key_bytes()
    }

    /// What `table` says, for the compute node of row `me`. `boundaries`: [`Partition::boundary_bytes`]; `order` and
    /// `cells`: one per entry.
    pub fn open(
        table: &Table<'_>,
        me: RowId,
        boundaries: &'s mut [u8],
        order: &'s mut [u32],
        cells: &'s [EntryCell],
    ) -> Result<Self, TableError> {
        let (count, key_bytes) = (table.count() as usize, table.shape().key_bytes());
        let (needed, room) = (Self::boundary_bytes(table), boundaries.len());
        let (Some(boundaries), Some(order), Some(cells)) =
            (boundaries.get_mut(..needed), order.get_mut(..count), cells.get(..count))
        else {
            return Err(TableError::Room { needed, room });
        };
        for (number, entry) in (0..).zip(order.iter_mut()) {
            *entry = number;
        }
        order.sort_unstable_by(|a, b| table.boundary(*a).cmp(table.boundary(*b)));
        for (place, entry) in boundaries.chunks_exact_mut(key_bytes).zip(order.iter()) {
            place.copy_from_slice(table.boundary(*entry));
        }
        for pair in order.windows(2) {
            if let [before, entry] = *pair
                && table.boundary(before) == table.boundary(entry)
            {
                return Err(TableError::Overlap { entry });
            }
        }
        for (number, cell) in (0..).zip(cells) {
            *cell.word.lock() = table.word(number);
            cell.tenure.store(0, Ordering::Release);
        }
        let (changes, taken_us) = (AtomicU32::new(0), Mutex::new(None));
        Ok(Self { me, key_bytes, boundaries, order, cells, changes, taken_us })
    }

    /// This compute node's row.
    pub const fn me(&self) -> RowId {
        self.me
    }

    /// Entries.
    pub const fn count(&self) -> u32 {
        self.order.len() as u32
    }

    fn boundary(&self, rank: usize) -> Option<&'s [u8]> {
        self.boundaries.get(rank * self.key_bytes..(rank + 1) * self.key_bytes)
    }

    /// The boundary of that rank, if there are so many entries: 0 is the least key.
    pub fn boundary_of_rank(&self, rank: u32) -> Option<&'s [u8]> {
        self.boundary(rank as usize)
    }

    /// The entry whose boundary has that rank.
    pub fn entry_of_rank(&self, rank: u32) -> Option<u32> {
        self.order.get(rank as usize).copied()
    }

    /// The rank of the entry that has `key`: how many boundaries are not above it, less one.
    pub fn rank_of(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.order.len());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.boundary(middle).is_some_and(|boundary| boundary <= key) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The entry that has `key`.
    #[inline]
    pub fn entry_of(&self, key: &[u8]) -> u32 {
        self.order.get(self.rank_of(key)).copied().unwrap_or_default()
    }

    /// The keys of the entry that has `key`: from the first up to the second, if there is one.
    pub fn range_of(&self, key: &[u8]) -> (&'s [u8], Option<&'s [u8]>) {
        let rank = self.rank_of(key);
        (self.boundary(rank).unwrap_or_default(), self.boundary(rank + 1))
    }

    /// The entry that has `key`, and the word that was seen of it last: for callers that shard.
    pub fn owner_of(&self, key: &[u8]) -> (u32, OwnerWord) {
        let entry = self.entry_of(key);
        (entry, self.word(entry))
    }

    fn cell(&self, entry: u32) -> Option<&'s EntryCell> {
        self.cells.get(entry as usize)
    }

    /// The word that was seen last.
    pub fn word(&self, entry: u32) -> OwnerWord {
        self.cell(entry).map_or(OwnerWord::FREE, |cell| *cell.word.lock())
    }

    /// The tenure under which an operation on `key` runs.
    #[inline]
    pub fn tenure_of(&self, key: &[u8]) -> Result<Tenure, NotOwner> {
        let entry = self.entry_of(key);
        match self.cell(entry).map_or(0, |cell| cell.tenure.load(Ordering::Acquire)) {
            0 => {
                let word = self.word(entry);
                Err(NotOwner { entry, row: word.row(), epoch: word.epoch() })
            }
            epoch => Ok(Tenure { entry, epoch }),
        }
    }

    /// Whether the tenure goes on. Asked under the lock of the frame that is to be changed.
    #[inline]
    pub fn holds(&self, tenure: Tenure) -> bool {
        self.cell(tenure.entry).is_some_and(|cell| cell.tenure.load(Ordering::Acquire) == tenure.epoch)
    }

    /// Takes note of a word that was READ, or that an own CAS has written; a later one that another lane has noted since stays. A
    /// tenure of an earlier epoch ends. `before`: what was noted before the READ, or what the CAS compared with; FREE if that is
    /// not known. `Err`: no writer makes the word, or it is older than that.
    pub fn note(&self, entry: u32, word: OwnerWord, before: OwnerWord) -> Result<(), Refused> {
        let Some(cell) = self.cell(entry) else { return Ok(()) };
        word.decode()?;
        word.check_after(before)?;
        let mut seen = cell.word.lock();
        if word.epoch() > seen.epoch() {
            *seen = word;
            cell.tenure.store(0, Ordering::Release);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// How many changes of words were noted. A lane asks this once it has the fill of a page, and before it READs the page: see
    /// [`Partition::may_keep`].
    pub fn changes(&self) -> u32 {
        fence(Ordering::SeqCst);
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether a page of the entry may come into a frame that was READ after `changes` were counted: this compute node has
    /// had the entry all the time, to serve it or to recover it.
    pub fn may_keep(&self, entry: u32, changes: u32) -> bool {
        self.is_mine(entry) && self.changes() == changes
    }

    /// Whether this compute node has the entry, to serve it or to recover it, by the word that was seen last.
    pub fn is_mine(&self, entry: u32) -> bool {
        match self.word(entry).decode() {
            Ok(Owner::Owned(owner)) => owner == self.me,
            Ok(Owner::Recovering { finder, .. }) => finder == self.me,
            _ => false,
        }
    }

    /// Counts an operation that is a sample: one in [`load::SAMPLED`].
    #[inline]
    pub fn count_sample(&self, tenure: Tenure) {
        if let Some(cell) = self.cell(tenure.entry) {
            cell.load.count();
        }
    }

    /// The load that was seen last; of an entry that this compute node serves, what it has said itself.
    pub fn load(&self, entry: u32) -> LoadWord {
        self.cell(entry).map_or(LoadWord::NONE, |cell| cell.load.word())
    }

    /// Takes note of a load that was READ. Returns whether the table should say something else: this compute node serves the
    /// entry, and it was another one that counted.
    pub fn note_load(&self, entry: u32, read: LoadWord) -> bool {
        self.cell(entry).is_some_and(|cell| cell.load.note(read, cell.tenure.load(Ordering::Acquire)))
    }

    /// Whether it is time to say what was counted. Returns over how many microseconds that was; since then the count has begun
    /// again. `is_news`: the table says something else.
    pub fn end_count(&self, now_us: u64, is_news: bool) -> Option<u64> {
        let mut taken_us = self.taken_us.lock();
        let elapsed_us = taken_us.map_or(0, |taken_us| now_us.saturating_sub(taken_us));
        if elapsed_us < load::PERIOD_US && !is_news && taken_us.is_some() {
            return None;
        }
        *taken_us = Some(now_us);
        Some(elapsed_us)
    }

    /// What the table is to say of an entry, where `elapsed_us` microseconds have been counted. `None`: this compute node does not
    /// serve it, or has not looked at the table since it does.
    pub fn take_load(&self, entry: u32, elapsed_us: u64) -> Option<LoadWord> {
        let cell = self.cell(entry)?;
        match cell.tenure.load(Ordering::Acquire) {
            0 => None,
            tenure => cell.load.take(tenure, elapsed_us),
        }
    }

    /// Takes note of what the row of an entry's owner says at `now_us`. Returns for how long it has said the same, in
    /// microseconds.
    pub fn saw_row(&self, entry: u32, row: (u64, u64), now_us: u64) -> u64 {
        let Some(cell) = self.cell(entry) else { return 0 };
        let mut seen = cell.seen.lock();
        if seen.row != row {
            *seen = Seen { row, since_us: now_us };
        }
        now_us.saturating_sub(seen.since_us)
    }

    /// This compute node serves the entry from now on, under the word that was noted: nothing of it is in any ring
    /// that is not in its page, or is in this compute node's own ring. `None`: the word is not its own.
    pub fn admit(&self, entry: u32) -> Option<Tenure> {
        let cell = self.cell(entry)?;
        let word = cell.word.lock();
        let is_early = planted(Mutant::ADMISSION_BEFORE_WORD) && word.row() == self.me;
        if word.decode() != Ok(Owner::Owned(self.me)) && !is_early {
            return None;
        }
        cell.tenure.store(word.epoch(), Ordering::Release);
        Some(Tenure { entry, epoch: word.epoch() })
    }

    /// This compute node serves the entry no more. Operations that saw the tenure before may still be changing frames:
    /// until each frame's lock was taken once.
    pub fn close(&self, entry: u32) {
        if let Some(cell) = self.cell(entry) {
            cell.tenure.store(0, Ordering::Release);
        }
    }
}
