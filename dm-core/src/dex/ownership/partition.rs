//! What a compute node knows of an ownership table: whose a key is, and its own tenures.
//!
//! Boundaries are copied when the index is opened, in order. Of each entry there is the word that was seen last, and the
//! *tenure*: the epoch under which this compute node serves the entry, 0 while it does not. The tenure is one load, which
//! an operation does when it begins, and again under its frame's lock when it changes something.
//!
//! **Entries are cut in two** while lanes look for keys. A new boundary comes between others ([`Partition::grow`]), and a look
//! that overlaps this begins again: it compares a version before and after, which is odd meanwhile. A lane that finds an
//! entry of its own for a key reads the tenure within the look. Of an entry that is cut, the tenure ends before the boundary comes,
//! and the next one has another epoch. So no lane takes the tenure of an entry for a key that the entry has lost.
//!
//! **The order of both.** A tenure begins after the CAS that made the word this compute node's, and after the replay. It
//! ends before the CAS that gives the entry up: first the tenure, then every frame's lock of this entry once, then the
//! flushes, then the CAS. A change that saw the tenure under its frame's lock is in front of the flush of that frame.

use super::load::{self, Load};
use super::table::{Table, TableError, TableShape};
use super::{LoadWord, Owner, OwnerWord, Refused};
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::lock_word::RowId;
use core::cell::RefCell;
use core::cmp;
use core::ops::{Deref, Range};
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

/// Bytes of a word of a boundary.
const WORD_BYTES: usize = 4;

/// A boundary, as it was when somebody looked.
#[derive(Clone, Copy, Debug)]
pub struct Boundary {
    key: [u8; KEY_BYTES_MAX],
    key_bytes: usize,
}

impl Boundary {
    fn range(&self) -> Range<usize> {
        0..self.key_bytes.min(KEY_BYTES_MAX)
    }
}

impl Deref for Boundary {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.key.get(self.range()).unwrap_or_default()
    }
}

/// Word `number` of a key: four bytes, as a big-endian number, with zeros behind the key.
#[inline]
fn word_of(key: &[u8], number: usize) -> u32 {
    let rest = key.get(number * WORD_BYTES..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return u32::from_be_bytes(*bytes);
    }
    let mut bytes = [0; WORD_BYTES];
    bytes.iter_mut().zip(rest).for_each(|(byte, of_key)| *byte = *of_key);
    u32::from_be_bytes(bytes)
}

/// An ownership table on one compute node, shared by its lanes.
pub struct Partition<'s> {
    me: RowId,
    key_bytes: usize,
    /// Boundaries in ascending order, one behind the other, each as big-endian words, with zeros behind the key.
    boundaries: &'s [AtomicU32],
    /// Whose boundary it is: the entries' numbers in that order.
    order: &'s [AtomicU32],
    /// One for each entry for which the table has room.
    cells: &'s [EntryCell],
    /// Entries.
    count: AtomicU32,
    /// Odd while a boundary is put between others.
    version: AtomicU32,
    growing: Mutex<()>,
    changes: AtomicU32,
    /// When samples were taken last, in microseconds.
    taken_us: Mutex<Option<u64>>,
}

impl<'s> Partition<'s> {
    /// A table of which nothing is known: no key has an owner.
    pub const fn none(me: RowId, key_bytes: usize) -> Self {
        Self {
            me,
            key_bytes,
            boundaries: &[],
            order: &[],
            cells: &[],
            count: AtomicU32::new(0),
            version: AtomicU32::new(0),
            growing: Mutex::new(()),
            changes: AtomicU32::new(0),
            taken_us: Mutex::new(None),
        }
    }

    /// Words for the boundaries of a table of that shape, however many entries it gets.
    pub const fn boundary_words(shape: &TableShape) -> usize {
        shape.capacity() as usize * shape.key_bytes().div_ceil(WORD_BYTES)
    }

    /// What `table` says, for the compute node of row `me`. `boundaries`: [`Partition::boundary_words`]; `order` and
    /// `cells`: one for each entry for which the table has room.
    pub fn open(
        table: &Table<'_>,
        me: RowId,
        boundaries: &'s [AtomicU32],
        order: &'s [AtomicU32],
        cells: &'s [EntryCell],
    ) -> Result<Self, TableError> {
        let (capacity, words) = (table.shape().capacity() as usize, Self::boundary_words(&table.shape()));
        let (Some(boundaries), Some(order), Some(cells)) =
            (boundaries.get(..words), order.get(..capacity), cells.get(..capacity))
        else {
            return Err(TableError::Room { needed: words * WORD_BYTES, room: boundaries.len() * WORD_BYTES });
        };
        let key_bytes = table.shape().key_bytes();
        let partition = Self { boundaries, order, cells, ..Self::none(me, key_bytes) };
        partition.grow(table)?;
        Ok(partition)
    }

    /// Takes note of the entries of `table` that are new. Their boundaries were READ whole: see [`Table::decode`]. Entries that are
    /// known stay as they are.
    pub fn grow(&self, table: &Table<'_>) -> Result<(), TableError> {
        let _growing = self.growing.lock();
        for entry in self.count()..table.count() {
            let (key, known) = (table.boundary(entry), self.count() as usize);
            let rank = (0..known).take_while(|rank| self.compare(*rank, key).is_lt()).count();
            if rank < known && self.compare(rank, key).is_eq() {
                return Err(TableError::Overlap { entry });
            }
            let Some(cell) = self.cell(entry) else { return Err(TableError::Entries { entries: entry + 1 }) };
            *cell.word.lock() = table.word(entry);
            cell.tenure.store(0, Ordering::Release);
            self.version.fetch_add(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            self.insert(rank, known, entry, key);
            self.version.fetch_add(1, Ordering::Release);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Puts a boundary in front of that of `rank`, of `known` ones.
    fn insert(&self, rank: usize, known: usize, entry: u32, key: &[u8]) {
        for at in (rank..known).rev() {
            for (from, to) in self.words(at).iter().zip(self.words(at + 1)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            if let (Some(from), Some(to)) = (self.order.get(at), self.order.get(at + 1)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        for (number, word) in self.words(rank).iter().enumerate() {
            word.store(word_of(key, number), Ordering::Relaxed);
        }
        if let Some(place) = self.order.get(rank) {
            place.store(entry, Ordering::Relaxed);
        }
        self.count.store(known as u32 + 1, Ordering::Relaxed);
    }

    /// What `look` returns of boundaries and tenures that are of one instant.
    #[inline]
    fn look<R>(&self, look: impl Fn() -> R) -> R {
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let seen = look();
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return seen;
                }
            }
            core::hint::spin_loop();
        }
    }

    /// The words of the boundary of that rank.
    #[inline]
    fn words(&self, rank: usize) -> &'s [AtomicU32] {
        let words = self.key_bytes.div_ceil(WORD_BYTES);
        self.boundaries.get(rank * words..(rank + 1) * words).unwrap_or_default()
    }

    /// How the boundary of that rank compares with `key`.
    #[inline]
    fn compare(&self, rank: usize, key: &[u8]) -> cmp::Ordering {
        let compared = self.words(rank).iter().enumerate();
        let mut compared = compared.map(|(number, word)| word.load(Ordering::Relaxed).cmp(&word_of(key, number)));
        compared.find(|compared| compared.is_ne()).unwrap_or(cmp::Ordering::Equal)
    }

    /// See [`Partition::rank_of`]; within a look.
    #[inline]
    fn find_rank(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count() as usize);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.compare(middle, key).is_le() {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The entry that has `key`; within a look.
    #[inline]
    fn find_entry(&self, key: &[u8]) -> u32 {
        self.order.get(self.find_rank(key)).map_or(0, |entry| entry.load(Ordering::Relaxed))
    }

    /// Copies the boundary of that rank to `key`, if there are so many entries; within a look.
    fn copy_boundary(&self, rank: usize, key: &mut [u8]) -> bool {
        for (bytes, word) in key.chunks_mut(WORD_BYTES).zip(self.words(rank)) {
            let word = word.load(Ordering::Relaxed).to_be_bytes();
            bytes.copy_from_slice(word.get(..bytes.len()).unwrap_or_default());
        }
        rank < self.count() as usize
    }

    /// This compute node's row.
    pub const fn me(&self) -> RowId {
        self.me
    }

    /// Entries.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Entries for which the table has room.
    pub fn capacity(&self) -> u32 {
        self.cells.len() as u32
    }

    /// The boundary of that rank, if there are so many entries: 0 is the least key.
    pub fn boundary_of_rank(&self, rank: u32) -> Option<Boundary> {
        let mut boundary = Boundary { key: [0; KEY_BYTES_MAX], key_bytes: self.key_bytes };
        let bytes = boundary.range();
        let place = RefCell::new(boundary.key.get_mut(bytes)?);
        self.look(|| self.copy_boundary(rank as usize, &mut place.borrow_mut())).then_some(boundary)
    }

    /// The entry whose boundary has that rank.
    pub fn entry_of_rank(&self, rank: u32) -> Option<u32> {
        self.look(|| {
            let entry = self.order.get(rank as usize).filter(|_| rank < self.count())?;
            Some(entry.load(Ordering::Relaxed))
        })
    }

    /// The rank of the entry that has `key`: how many boundaries are not above it, less one.
    pub fn rank_of(&self, key: &[u8]) -> usize {
        self.look(|| self.find_rank(key))
    }

    /// The entry that has `key`.
    #[inline]
    pub fn entry_of(&self, key: &[u8]) -> u32 {
        self.look(|| self.find_entry(key))
    }

    /// Whether the entry has a key that is not below `least`, and not above `most`.
    pub fn is_within(&self, entry: u32, least: &[u8], most: &[u8]) -> bool {
        self.look(|| {
            let ranks = self.order.get(self.find_rank(least)..=self.find_rank(most));
            ranks.is_some_and(|of_ranks| of_ranks.iter().any(|of_rank| of_rank.load(Ordering::Relaxed) == entry))
        })
    }

    /// The boundary of the entry that has `key`, its least one.
    pub fn low_of(&self, key: &[u8]) -> Boundary {
        let mut boundary = Boundary { key: [0; KEY_BYTES_MAX], key_bytes: self.key_bytes };
        let bytes = boundary.range();
        let place = RefCell::new(boundary.key.get_mut(bytes).unwrap_or_default());
        self.look(|| self.copy_boundary(self.find_rank(key), &mut place.borrow_mut()));
        boundary
    }

    /// The boundary behind that of the entry that has `key`, if there is one: all its keys are below.
    pub fn high_of(&self, key: &[u8]) -> Option<Boundary> {
        let mut boundary = Boundary { key: [0; KEY_BYTES_MAX], key_bytes: self.key_bytes };
        let bytes = boundary.range();
        let place = RefCell::new(boundary.key.get_mut(bytes)?);
        self.look(|| self.copy_boundary(self.find_rank(key) + 1, &mut place.borrow_mut())).then_some(boundary)
    }

    /// The entry that has `key`, and the word that was seen of it last: for callers that shard.
    pub fn owner_of(&self, key: &[u8]) -> (u32, OwnerWord) {
        let entry = self.entry_of(key);
        (entry, self.word(entry))
    }

    #[inline]
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
        let (entry, epoch) = self.look(|| {
            let entry = self.find_entry(key);
            (entry, self.cell(entry).map_or(0, |cell| cell.tenure.load(Ordering::Acquire)))
        });
        match epoch {
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
