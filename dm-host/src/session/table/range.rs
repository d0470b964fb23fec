//! Scans of a table.

use super::super::error::SessionError;
use super::super::scan::{LocalScan, Records, Scan};
use super::typed::{Key, Value, open};
use futures_core::Stream;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Records of a table in ascending order, or in descending order ([`TypedScan::rev`]), fetched a page at a time: an iterator
/// that blocks for each page, and a [`Stream`] for tasks. See [`Table::range`](super::Table::range).
pub type Range<'t, K, V> = TypedScan<Scan<'t>, K, V>;

/// As [`Range`], fetched by the thread that asks: see [`LocalTable::range`](super::LocalTable::range).
pub type LocalRange<'t, K, V> = TypedScan<LocalScan<'t>, K, V>;

/// The records of a scan, with types: a [`Range`] or a [`LocalRange`].
///
/// After an error the next call continues where the range was.
#[derive(Debug)]
pub struct TypedScan<S, K, V> {
    /// `None`: the bounds were refused.
    scan: Option<S>,
    /// Why, until it has been told.
    refused: Option<SessionError>,
    any_length: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<S: Records, K: Key, V: Value> TypedScan<S, K, V> {
    pub(super) fn new(scan: Result<S, SessionError>, any_length: bool) -> Self {
        let (scan, refused) = match scan {
            Ok(scan) => (Some(scan), None),
            Err(refused) => (None, Some(refused)),
        };
        Self { scan, refused, any_length, types: PhantomData }
    }

    /// The records that are left, in the other order: of a new range from the last one down. [`Scan::rev`] says what it
    /// costs.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.map(Records::rev), ..self }
    }

    /// Counts the records that are left, without looking into them. Blocks until it has seen all of them.
    pub fn count_records(self) -> Result<u64, SessionError> {
        match (self.refused, self.scan) {
            (Some(refused), _) => Err(refused),
            (None, Some(scan)) => scan.count_records(),
            (None, None) => Ok(0),
        }
    }
}

impl<K: Key, V: Value> Range<'_, K, V> {
    /// The same records with a clone of the session: a [`Stream`] that is `Send` and `'static`, for a task of its own.
    pub fn owned(self) -> Range<'static, K, V> {
        let Self { scan, refused, any_length, types } = self;
        Range { scan: scan.map(Scan::owned), refused, any_length, types }
    }
}

fn typed<K: Key, V: Value>(any_length: bool, record: Result<(&[u8], &[u8]), SessionError>) -> Record<K, V> {
    let (key, value) = record?;
    Ok((open::<K>(key, any_length, "key")?, open::<V>(value, any_length, "value")?))
}

/// A record of a table, or why there is none.
type Record<K, V> = Result<(<K as Value>::Owned, <V as Value>::Owned), SessionError>;

impl<S: Records, K: Key, V: Value> Iterator for TypedScan<S, K, V> {
    type Item = Record<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(refused) = self.refused.take() {
            return Some(Err(refused));
        }
        let record = self.scan.as_mut()?.next_record()?;
        Some(typed::<K, V>(self.any_length, record))
    }
}

impl<K: Key, V: Value> Stream for Range<'_, K, V> {
    type Item = Record<K, V>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // It has no address that matters.
        let range = self.get_mut();
        if let Some(refused) = range.refused.take() {
            return Poll::Ready(Some(Err(refused)));
        }
        let Some(scan) = &mut range.scan else { return Poll::Ready(None) };
        Poll::Ready(match ready!(scan.poll_advance(context)) {
            Some(Ok(())) => scan.record().map(|record| typed::<K, V>(range.any_length, Ok(record))),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }
}
