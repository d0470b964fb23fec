//! Scans: a page at a time, or as an iterator that fetches pages.

use super::Session;
use super::error::SessionError;
use dm_core::operation::{RECORD_HEADER_BYTES, Records};
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
    /// A page of records of these key and value bytes.
    pub(super) fn of_sizes(bytes: Vec<u8>, key_bytes: usize, value_bytes: usize, more: bool) -> Self {
        let record_bytes = key_bytes + value_bytes;
        let place = |start| [start, start + key_bytes, start + record_bytes];
        let places = (0..bytes.len() / record_bytes).map(|position| place(position * record_bytes)).collect();
        Self { bytes, places, more }
    }

    /// A page of records with lengths.
    pub(super) fn of_lengths(bytes: Vec<u8>, more: bool) -> Self {
        let mut end = 0;
        let places = Records::with_lengths(&bytes).map(|(key, value)| {
            let start = end + RECORD_HEADER_BYTES;
            end = start + key.len() + value.len();
            [start, start + key.len(), end]
        });
        let places = places.collect();
        Self { bytes, places, more }
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

    /// Where the next page begins, if there may be one: behind the last key. It stays valid whatever happens to the
    /// index meanwhile, and across restarts.
    pub fn cursor(&self) -> Option<Bound<&[u8]>> {
        let (key, _) = self.record(self.len().checked_sub(1)?)?;
        self.more.then_some(Bound::Excluded(key))
    }
}

/// Records of a range in ascending order, fetched a page at a time; see [`Session::scan`].
///
/// After an error the next call continues where the iterator was.
#[derive(Debug)]
pub struct Scan<'s> {
    session: &'s Session,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    page: Option<Page>,
    at: usize,
}

impl<'s> Scan<'s> {
    pub(super) fn new(session: &'s Session, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Self {
        Self { session, low: low.map(<[u8]>::to_vec), high: high.map(<[u8]>::to_vec), page: None, at: 0 }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(page) = &self.page {
                if let Some((key, value)) = page.record(self.at) {
                    self.at += 1;
                    return Some(Ok((key.to_vec(), value.to_vec())));
                }
                self.low = page.cursor()?.map(<[u8]>::to_vec);
            }
            let (low, high) = (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice));
            let page = self.session.page(low, high, self.session.page_records());
            match page.wait() {
                Ok(page) => (self.page, self.at) = (Some(page), 0),
                Err(error) => {
                    self.page = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
