//! Scans: iterators and streams that fetch pages.

use super::call::Call;
use super::error::SessionError;
use super::page::Page;
use super::{Local, Session};
use futures_core::Stream;
use std::borrow::Cow;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A key and its value, in a page.
type Lent<'p> = (&'p [u8], &'p [u8]);

/// A key and its value, or why there is none.
type Copied = Result<(Vec<u8>, Vec<u8>), SessionError>;

/// A page, if it is there.
type PagePoll = Poll<Result<Page, SessionError>>;

/// Where a scan is.
#[derive(Debug)]
struct Cursor {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    page: Option<Page>,
    /// Records of the page that have been given out.
    at: usize,
}

impl Cursor {
    const fn new(low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { low, high, page: None, at: 0 }
    }

    /// Goes to the next record; `fetch` gets the page between two bounds.
    fn advance_by(
        &mut self,
        fetch: impl FnOnce(&Bound<Vec<u8>>, &Bound<Vec<u8>>) -> PagePoll,
    ) -> Poll<Option<Result<(), SessionError>>> {
        if let Some(page) = &self.page {
            if self.at < page.len() {
                self.at += 1;
                return Poll::Ready(Some(Ok(())));
            }
            match page.cursor() {
                Some(low) => self.low = low.map(<[u8]>::to_vec),
                None => return Poll::Ready(None),
            }
        }
        match ready!(fetch(&self.low, &self.high)) {
            Ok(page) => {
                // A page without records is the last one.
                self.at = usize::from(!page.is_empty());
                let any = self.at > 0;
                self.page = Some(page);
                Poll::Ready(any.then_some(Ok(())))
            }
            Err(error) => {
                self.page = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    /// Counts the rest of the page, and goes to its end.
    fn rest(&mut self) -> u64 {
        let left = self.page.as_ref().map_or(0, |page| page.len() - self.at);
        self.at += left;
        left as u64
    }

    /// The record that was given out last.
    fn record(&self) -> Option<Lent<'_>> {
        self.page.as_ref()?.record(self.at.checked_sub(1)?)
    }

    fn copy(&self) -> Option<Copied> {
        self.record().map(|(key, value)| Ok((key.to_vec(), value.to_vec())))
    }
}

/// Records of a range in ascending order, fetched a page at a time; see [`Session::scan`].
///
/// As an iterator it blocks for each page; as a [`Stream`] it is pending. [`Scan::next_record`] lends the bytes where
/// both copy them. After an error the next call continues where the scan was.
#[derive(Debug)]
pub struct Scan<'s> {
    session: &'s Session,
    cursor: Cursor,
    /// The call for the next page, if it has begun.
    pending: Option<Call<'s, Page>>,
}

impl<'s> Scan<'s> {
    pub(super) fn new(session: &'s Session, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { session, cursor: Cursor::new(low, high), pending: None }
    }

    /// The next record: its key and its value. Blocks when a page has to be fetched.
    pub fn next_record(&mut self) -> Option<Result<Lent<'_>, SessionError>> {
        match self.advance()? {
            Ok(()) => self.record().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Counts the records that are left. Blocks until it has seen all of them.
    pub fn count_records(mut self) -> Result<u64, SessionError> {
        let mut records = 0;
        while let Some(record) = self.advance() {
            record?;
            records += 1 + self.cursor.rest();
        }
        Ok(records)
    }

    /// Goes to the next record, and blocks when a page has to be fetched.
    fn advance(&mut self) -> Option<Result<(), SessionError>> {
        match self.advance_by(|call| Poll::Ready(call.wait_here())) {
            Poll::Ready(result) => result,
            // `wait_here` is never pending.
            Poll::Pending => None,
        }
    }

    /// Goes to the next record; `fetch` gets a page out of a call, or leaves it pending.
    fn advance_by(
        &mut self,
        fetch: impl FnOnce(&mut Call<'s, Page>) -> PagePoll,
    ) -> Poll<Option<Result<(), SessionError>>> {
        let Self { session, cursor, pending } = self;
        cursor.advance_by(|low, high| {
            let call = pending.get_or_insert_with(|| {
                session.page_of(low.clone().map(Cow::Owned), high.clone().map(Cow::Owned), session.page_records())
            });
            let result = ready!(fetch(call));
            *pending = None;
            Poll::Ready(result)
        })
    }

    /// Polls for the next record, which [`Scan::record`] then has.
    pub(super) fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), SessionError>>> {
        self.advance_by(|call| call.look(context))
    }

    /// The record that was given out last.
    pub(super) fn record(&self) -> Option<Lent<'_>> {
        self.cursor.record()
    }
}

impl Iterator for Scan<'_> {
    type Item = Copied;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance()? {
            Ok(()) => self.cursor.copy(),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Stream for Scan<'_> {
    type Item = Copied;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let scan = self.get_mut();
        Poll::Ready(match ready!(scan.poll_advance(context)) {
            Some(Ok(())) => scan.cursor.copy(),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }
}

/// Records of a range in ascending order, fetched a page at a time by the thread that asks; see [`Local::scan`].
#[derive(Debug)]
pub struct LocalScan<'s> {
    local: &'s Local,
    cursor: Cursor,
}

impl<'s> LocalScan<'s> {
    pub(super) const fn new(local: &'s Local, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { local, cursor: Cursor::new(low, high) }
    }

    /// As [`Scan::next_record`].
    pub fn next_record(&mut self) -> Option<Result<Lent<'_>, SessionError>> {
        match self.advance()? {
            Ok(()) => self.cursor.record().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// As [`Scan::count_records`].
    pub fn count_records(mut self) -> Result<u64, SessionError> {
        let mut records = 0;
        while let Some(record) = self.advance() {
            record?;
            records += 1 + self.cursor.rest();
        }
        Ok(records)
    }

    fn advance(&mut self) -> Option<Result<(), SessionError>> {
        let shape = self.local.shape();
        let fetch = |low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>| {
            let bound = |bound: &Bound<Vec<u8>>| bound.clone().map(Cow::Owned);
            Poll::Ready(self.local.run(shape.page(bound(low), bound(high), shape.page_records)))
        };
        match self.cursor.advance_by(fetch) {
            Poll::Ready(result) => result,
            // A handle's results are there at once.
            Poll::Pending => None,
        }
    }
}

impl Iterator for LocalScan<'_> {
    type Item = Copied;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance()? {
            Ok(()) => self.cursor.copy(),
            Err(error) => Some(Err(error)),
        }
    }
}
