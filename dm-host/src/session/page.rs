//! Scans: a page at a time, or as an iterator that fetches pages.

use super::Session;
use super::error::SessionError;
use std::ops::Bound;

/// Ascending records, as one scan returned them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) key_bytes: usize,
    pub(super) record_bytes: usize,
    pub(super) more: bool,
}

impl Page {
    /// How many records it has.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.record_bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The record at `position`: its key and its value.
    pub fn record(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let start = position.checked_mul(self.record_bytes)?;
        let record = self.bytes.get(start..start.checked_add(self.record_bytes)?)?;
        record.split_at_checked(self.key_bytes)
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.bytes.chunks_exact(self.record_bytes).map(|record| record.split_at(self.key_bytes))
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
/// After an error it can be asked again: it goes on where it was.
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
