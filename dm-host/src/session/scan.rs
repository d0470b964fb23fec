//! Scans: iterators and streams that fetch pages.

use super::call::{Call, SessionOf};
use super::down::Down;
use super::error::SessionError;
use super::page::Page;
use super::request::Shape;
use super::{Local, Session};
use futures_core::Stream;
use std::borrow::Cow;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A key and its value, in a page.
pub type Lent<'p> = (&'p [u8], &'p [u8]);

/// A key and its value, or why there is none.
type Copied = Result<(Vec<u8>, Vec<u8>), SessionError>;

/// A page, if it is there.
type PagePoll = Poll<Result<Page, SessionError>>;

/// What is left of a scan's range.
#[derive(Debug)]
enum Left {
    Up { low: Bound<Vec<u8>>, high: Bound<Vec<u8>> },
    Down(Down),
}

/// Where a scan is.
#[derive(Debug)]
struct Cursor {
    left: Left,
    page: Option<Page>,
    /// Records of the page that have been given out.
    at: usize,
    shape: Shape,
}

impl Cursor {
    const fn new(shape: Shape, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { left: Left::Up { low, high }, page: None, at: 0, shape }
    }

    /// The records that are left, the other way round.
    fn rev(self) -> Self {
        let given = self.record().map(|(key, _)| Bound::Excluded(key.to_vec()));
        let left = match self.left {
            Left::Up { low, high } => Left::Down(Down::new(given.unwrap_or(low), high, &self.shape)),
            Left::Down(Down { low, high, .. }) => Left::Up { low, high: given.unwrap_or(high) },
        };
        Self { left, page: None, at: 0, shape: self.shape }
    }

    /// Goes to the next record; `fetch` gets the page between two bounds, of the first records there or, if it is told so, of
    /// the last. It is asked for the same page until it has one.
    fn advance_by(
        &mut self,
        mut fetch: impl FnMut(&Bound<Vec<u8>>, &Bound<Vec<u8>>, bool) -> PagePoll,
    ) -> Poll<Option<Result<(), SessionError>>> {
        if self.page.as_ref().is_some_and(|page| self.at < page.len()) {
            self.at += 1;
            return Poll::Ready(Some(Ok(())));
        }
        loop {
            let fetched = match &mut self.left {
                Left::Up { low, high } => {
                    if let Some(page) = &self.page {
                        match page.cursor() {
                            Some(next) => *low = next.map(<[u8]>::to_vec),
                            None => return Poll::Ready(None),
                        }
                    }
                    ready!(fetch(low, high, false))
                }
                Left::Down(down) => match down.probe() {
                    Some((low, high)) => ready!(fetch(&low, &high, down.takes_last)),
                    None => return Poll::Ready(None),
                },
            };
            let page = match fetched {
                Ok(page) => page,
                Err(error) => {
                    self.page = None;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            let is_next = match &mut self.left {
                // A page without records is the last one.
                Left::Up { .. } => !page.is_empty(),
                Left::Down(down) => down.take(&page),
            };
            let is_up = matches!(self.left, Left::Up { .. });
            if is_next || is_up {
                self.at = usize::from(is_next);
                self.page = Some(page);
                return Poll::Ready(is_next.then_some(Ok(())));
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
        let page = self.page.as_ref()?;
        let given = self.at.checked_sub(1)?;
        page.record(match self.left {
            Left::Up { .. } => given,
            Left::Down(_) => page.len().checked_sub(1 + given)?,
        })
    }

    fn copy(&self) -> Option<Copied> {
        self.record().map(|(key, value)| Ok((key.to_vec(), value.to_vec())))
    }
}

/// What is left of a range, record by record: a [`Scan`] or a [`LocalScan`].
pub trait Records: Sized {
    /// As [`Scan::next_record`].
    fn next_record(&mut self) -> Option<Result<Lent<'_>, SessionError>>;

    /// As [`Scan::count_records`].
    fn count_records(self) -> Result<u64, SessionError>;

    /// As [`Scan::rev`].
    #[must_use]
    fn rev(self) -> Self;
}

/// Records of a range in ascending order, or in descending order ([`Scan::rev`]), fetched a page at a time; see
/// [`Session::scan`].
///
/// As an iterator it blocks for each page; as a [`Stream`] it is pending. [`Scan::next_record`] lends the bytes where
/// both copy them. After an error the next call continues where the scan was.
#[derive(Debug)]
pub struct Scan<'s> {
    session: SessionOf<'s>,
    cursor: Cursor,
    /// The call for the next page, if it has begun.
    pending: Option<Call<'s, Page>>,
}

impl<'s> Scan<'s> {
    pub(super) fn new(session: &'s Session, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { session: SessionOf::Lent(session), cursor: Cursor::new(session.shape(), low, high), pending: None }
    }

    /// The same scan with a clone of the session: a [`Stream`] that is `Send` and `'static`, for a task of its own.
    pub fn owned(self) -> Scan<'static> {
        Scan { session: self.session.own(), cursor: self.cursor, pending: self.pending.map(Call::owned) }
    }

    /// The records that are left, in the other order: of a new scan from the last one down.
    ///
    /// **What it costs:** Sherman and CHIME, with keys and values of one size, have pages of the last records of a range: they
    /// cost as many round trips as upwards. The others, and keys of any length, scan upwards only. There a page of the highest
    /// records is searched for: by pages from some key up to the end, each of which tells where to try next. A range with no
    /// more records than a page takes one page, as upwards. Otherwise the first page takes a search, of one page for each
    /// halving of the key space between the records and the end of the range, and of what the records leave of it: 20 to 50
    /// pages for a million records. From then on a page takes one or two if keys are numbers that are spread evenly, about ten
    /// if they are texts of digits, and a search anew where there are gaps. Upwards, a page takes one. If you go down a lot
    /// there, store keys so that up is the way to go, such as `u64::MAX - time`.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { session: self.session, cursor: self.cursor.rev(), pending: None }
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
        mut fetch: impl FnMut(&mut Call<'s, Page>) -> PagePoll,
    ) -> Poll<Option<Result<(), SessionError>>> {
        let Self { session, cursor, pending } = self;
        let session: &SessionOf<'s> = session;
        cursor.advance_by(|low, high, down| {
            let call = pending.get_or_insert_with(|| {
                let (low, high) = (low.clone().map(Cow::Owned), high.clone().map(Cow::Owned));
                match session {
                    SessionOf::Lent(session) => {
                        let session: &'s Session = session;
                        session.page_of(low, high, session.page_records(), down)
                    }
                    SessionOf::Own(session) => session.page_of(low, high, session.page_records(), down).owned(),
                }
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
    pub(super) fn new(local: &'s Local, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { local, cursor: Cursor::new(local.shape(), low, high) }
    }

    /// As [`Scan::rev`].
    #[must_use]
    pub fn rev(self) -> Self {
        Self { local: self.local, cursor: self.cursor.rev() }
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
        let fetch = |low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>, down: bool| {
            let bound = |bound: &Bound<Vec<u8>>| bound.clone().map(Cow::Owned);
            Poll::Ready(self.local.run(shape.page_towards(bound(low), bound(high), shape.page_records, down)))
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

macro_rules! records {
    ($($Scan:ident)*) => {
        $(
            impl Records for $Scan<'_> {
                fn next_record(&mut self) -> Option<Result<Lent<'_>, SessionError>> {
                    self.next_record()
                }

                fn count_records(self) -> Result<u64, SessionError> {
                    self.count_records()
                }

                fn rev(self) -> Self {
                    self.rev()
                }
            }
        )*
    };
}

records! { Scan LocalScan }
