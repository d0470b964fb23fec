//! What one scan returns: a page of records.

use super::queue::Body;
use dm_core::operation::{Outcome, RECORD_HEADER_BYTES, Records};
use std::ops::Bound;

/// Ascending records, as one scan returned them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    bytes: Vec<u8>,
    /// For each record: the offsets of its key, its value and the value's end.
    places: Vec<[usize; 3]>,
    more: bool,
}

impl Page {
    /// The page that an operation left.
    pub(super) fn take(outcome: Outcome, body: &mut Body) -> Self {
        let (bytes, more) = (std::mem::take(&mut body.page), matches!(outcome, Outcome::Page { more: true, .. }));
        if body.has_lengths() {
            return Self::of_lengths(bytes, more);
        }
        Self::of_sizes(bytes, body.key.len(), body.value.len(), more)
    }

    /// A page of records of these key and value bytes.
    fn of_sizes(bytes: Vec<u8>, key_bytes: usize, value_bytes: usize, more: bool) -> Self {
        let record_bytes = key_bytes + value_bytes;
        let place = |start| [start, start + key_bytes, start + record_bytes];
        let places = (0..bytes.len() / record_bytes).map(|position| place(position * record_bytes)).collect();
        Self { bytes, places, more }
    }

    /// A page of records with lengths.
    fn of_lengths(bytes: Vec<u8>, more: bool) -> Self {
        let mut end = 0;
        let places = Records::with_lengths(&bytes).map(|(key, value)| {
            let start = end + RECORD_HEADER_BYTES;
            end = start + key.len() + value.len();
            [start, start + key.len(), end]
        });
        let places = places.collect();
        Self { bytes, places, more }
    }

    /// A page of these keys, without values.
    #[cfg(test)]
    pub(super) fn of_keys(keys: &[Vec<u8>], more: bool) -> Self {
        let mut page = Self { bytes: keys.concat(), places: Vec::new(), more };
        let mut start = 0;
        for key in keys {
            page.places.push([start, start + key.len(), start + key.len()]);
            start += key.len();
        }
        page
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The record at `position`: its key and its value.
    pub fn record(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let &[key, value, end] = self.places.get(position)?;
        Some((self.bytes.get(key..value)?, self.bytes.get(value..end)?))
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|&[key, value, end]| (&self.bytes[key..value], &self.bytes[value..end]))
    }

    /// Whether there may be more records: behind the last one or, of a page that was asked for downwards, before the first.
    pub(super) const fn has_more(&self) -> bool {
        self.more
    }

    /// Where the next page begins, if there may be one: behind the last key. It stays valid whatever happens to the
    /// index meanwhile, and across restarts.
    pub fn cursor(&self) -> Option<Bound<&[u8]>> {
        let (key, _) = self.record(self.len().checked_sub(1)?)?;
        self.more.then_some(Bound::Excluded(key))
    }
}
