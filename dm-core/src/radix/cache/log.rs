//! The log: a ring of records, found by buckets and chains. Space is made at its head.

use super::record::{EPOCH_BITS, HEAD_UNITS, Name, UNIT_WORDS, sized, units_in};
use super::{NodeCache, POSITION_END};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Units per mark of heat: no record is smaller, so no two begin in the same ones.
const HEAT_UNITS: usize = 2;
/// Bits of a mark.
const HEAT_BITS: usize = 2;
/// Units whose marks share a word. A log has a multiple of these.
pub(super) const BLOCK_UNITS: usize = HEAT_UNITS * (u32::BITS as usize / HEAT_BITS);
/// A record survives so many passes of the clock's hand after it was last used.
const HEAT_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Writer {
    pub evictions: u64,
    pub moves: u64,
}

impl<'s> NodeCache<'s> {
    pub(super) fn units(&self) -> u32 {
        (self.log.len() / UNIT_WORDS) as u32
    }

    /// Whether the record at `position` is still there.
    #[inline]
    pub(super) fn is_live(&self, position: u32) -> bool {
        position >= self.head.load(Acquire) && position < self.tail.load(Relaxed)
    }

    #[inline]
    pub(super) fn record(&self, position: u32, units: usize) -> Option<&'s [AtomicU32]> {
        self.log.get(self.start_of(position)..)?.get(..units * UNIT_WORDS)
    }

    /// The record that begins at `unit` of the log, and everything behind it.
    #[inline]
    pub(super) fn record_at(&self, unit: usize) -> Option<&'s [AtomicU32]> {
        self.log.get(unit * UNIT_WORDS..)
    }

    /// The unit of the log where the record at `position` begins.
    #[inline]
    pub(super) fn unit_of(&self, position: u32) -> usize {
        self.by_units.remainder(position) as usize
    }

    /// The word where it begins.
    #[inline]
    pub(super) fn start_of(&self, position: u32) -> usize {
        self.unit_of(position) * UNIT_WORDS
    }

    #[inline]
    pub(super) fn bucket(&self, target: u64) -> Option<&'s AtomicU32> {
        // The upper half of a product, which every bit has influenced.
        let mixed = (target ^ target >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.buckets.get(((mixed * self.buckets.len() as u64) >> 32) as usize)
    }

    /// The heat of the record at `position`.
    pub(super) fn heat_of(&self, position: u32) -> u32 {
        self.heat_at(self.unit_of(position)).map_or(0, |(word, shift)| word.load(Relaxed) >> shift & HEAT_MAX)
    }

    /// The word that has the heat of the record that begins at `unit` of the log, and where in it.
    #[inline]
    pub(super) fn heat_at(&self, unit: usize) -> Option<(&'s AtomicU32, u32)> {
        let at = unit / HEAT_UNITS;
        let marks = u32::BITS as usize / HEAT_BITS;
        Some((self.heat.get(at / marks)?, (at % marks * HEAT_BITS) as u32))
    }

    /// Gives the record that begins at `unit` of the log the most heat.
    #[inline]
    pub(super) fn warm(&self, unit: usize) {
        if let Some((word, shift)) = self.heat_at(unit)
            && word.load(Relaxed) >> shift & HEAT_MAX != HEAT_MAX
        {
            word.fetch_or(HEAT_MAX << shift, Relaxed);
        }
    }

    /// Sets the heat of the record that a writer has put at `position`.
    pub(super) fn set_heat(&self, position: u32, heat: u32) {
        if let Some((word, shift)) = self.heat_at(self.unit_of(position)) {
            // Readers may set the heat of its neighbours, and nobody else changes the word.
            word.fetch_and(!(HEAT_MAX << shift), Relaxed);
            word.fetch_or(heat << shift, Relaxed);
        }
    }

    /// Puts the record just written at the tail into its chain.
    pub(super) fn link(&self, record: &[AtomicU32], target: u64, position: u32) {
        let ([older, ..], Some(chain)) = (record, self.bucket(target)) else { return };
        older.store(chain.load(Relaxed), Relaxed);
        self.tail.store(position + units_in(record), Release);
        chain.store(position, Release);
    }

    /// Whether the log is large enough for a record of `units`.
    pub(super) fn has_room_ever(&self, units: usize) -> bool {
        units as u32 <= self.units() / 2
    }

    /// Makes room for `units` at the tail, in one piece. `false`: the record is too large for the log.
    pub(super) fn make_room(&self, writer: &mut Writer, units: usize, moves: usize) -> bool {
        let mut moves = moves;
        let all = self.units();
        if !self.has_room_ever(units) {
            return false;
        }
        if self.tail.load(Relaxed) >= POSITION_END {
            self.empty();
        }
        // Ends: every iteration frees a record.
        for _ in 0..=all {
            let (head, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
            let pad = Self::pad(tail, units as u32, all);
            if tail - head + pad + units as u32 <= all {
                // Another writer may have moved the head, or emptied the log.
                fence(Release);
                self.pad_to(tail, pad);
                return true;
            }
            let Some([_, size, ..]) = self.record(head, 1) else { return false };
            // Padding: no record has the size 0.
            let size = size.load(Relaxed);
            let size = if size >> EPOCH_BITS == 0 { size } else { size >> EPOCH_BITS }.clamp(1, all);
            // Readers of it learn that it is gone before anything is written there.
            self.head.store(head + size.min(tail - head), Relaxed);
            fence(Release);
            if moves > 0 && self.keep(head, size) {
                moves -= 1;
                writer.moves += 1;
            } else {
                self.discount(head, size);
                writer.evictions += 1;
            }
        }
        false
    }

    /// Counts the record of a node at `position` in the key.
    pub(super) fn count(&self, position: u8, units: u32) {
        if let Some(all) = self.units_at.get(usize::from(position)) {
            all.store(all.load(Relaxed).saturating_add(units), Relaxed);
        }
    }

    /// Stops counting the record that was at `head`.
    pub(super) fn discount(&self, head: u32, units: u32) {
        let Some([_, size, low, high, ..]) = self.record(head, HEAD_UNITS) else { return };
        let name = Name::load(low, high);
        if size.load(Relaxed) >> EPOCH_BITS != 0
            && name != Name::NONE
            && let Some(all) = self.units_at.get(usize::from(name.position()))
        {
            all.store(all.load(Relaxed).saturating_sub(units), Relaxed);
        }
    }

    /// Units from `tail` to the end of the ring, if `units` do not fit there.
    const fn pad(tail: u32, units: u32, all: u32) -> u32 {
        let at = tail % all;
        if at + units > all { all - at } else { 0 }
    }

    /// Fills the ring up to its end with padding.
    fn pad_to(&self, tail: u32, pad: u32) {
        if pad == 0 {
            return;
        }
        // With its name, so that no reader takes it for what was here before.
        let units = (pad as usize).min(HEAD_UNITS);
        for (word, value) in self.record(tail, units).into_iter().flatten().zip([0, sized(0, pad), 0, 0]) {
            word.store(value, Relaxed);
        }
        self.tail.store(tail + pad, Relaxed);
    }

    /// Appends the record that was at `from` again, if it has heat. Its copy is the one that lookups find.
    fn keep(&self, from: u32, size: u32) -> bool {
        if size < HEAD_UNITS as u32 {
            return false;
        }
        let Some(source) = self.record(from, size as usize) else { return false };
        let [_, _, low, high, ..] = source else { return false };
        let (name, warm) = (Name::load(low, high), self.heat_of(from));
        // Neither padding nor a record that a larger one has replaced has a name.
        if warm == 0 || name == Name::NONE {
            return false;
        }
        let (head, tail, all) = (self.head.load(Relaxed), self.tail.load(Relaxed), self.units());
        let pad = Self::pad(tail, size, all);
        if tail - head + pad + size > all {
            return false;
        }
        self.pad_to(tail, pad);
        let to = tail + pad;
        self.set_heat(to, warm - 1);
        let Some(place) = self.record(to, size as usize) else { return false };
        // The room is what was free before the record, and the record itself. The new place begins before the old one,
        // so words are copied before they are overwritten.
        for (to, from) in place.iter().zip(source) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.link(place, name.target(), to);
        true
    }
}
