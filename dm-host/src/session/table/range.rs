//! Scans of a table.

use super::super::error::SessionError;
use super::super::scan::{LocalScan, Scan};
use super::typed::{Key, Value, open};
use futures_core::Stream;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Records of a table in ascending order, fetched a page at a time: an iterator that blocks for each page, and a
/// [`Stream`] for tasks. See [`Table::range`](super::Table::range).
///
/// After an error the next call continues where the range was.
#[derive(Debug)]
pub struct Range<'t, K, V> {
    /// `None`: the bounds were refused.
    scan: Option<Scan<'t>>,
    /// Why, until it has been told.
    refused: Option<SessionError>,
    any_length: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, K: Key, V: Value> Range<'t, K, V> {
    pub(super) fn new(scan: Result<Scan<'t>, SessionError>, any_length: bool) -> Self {
        let (scan, refused) = match scan {
            Ok(scan) => (Some(scan), None),
            Err(refused) => (None, Some(refused)),
        };
        Self { scan, refused, any_length, types: PhantomData }
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

fn typed<K: Key, V: Value>(any_length: bool, record: Result<(&[u8], &[u8]), SessionError>) -> Record<K, V> {
    let (key, value) = record?;
    Ok((open::<K>(key, any_length, "key")?, open::<V>(value, any_length, "value")?))
}

/// A record of a table, or why there is none.
type Record<K, V> = Result<(<K as Value>::Owned, <V as Value>::Owned), SessionError>;

impl<K: Key, V: Value> Iterator for Range<'_, K, V> {
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

/// As [`Range`], fetched by the thread that asks: see [`LocalTable::range`](super::LocalTable::range).
#[derive(Debug)]
pub struct LocalRange<'t, K, V> {
    /// `None`: the bounds were refused.
    scan: Option<LocalScan<'t>>,
    /// Why, until it has been told.
    refused: Option<SessionError>,
    any_length: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, K: Key, V: Value> LocalRange<'t, K, V> {
    pub(super) fn new(scan: Result<LocalScan<'t>, SessionError>, any_length: bool) -> Self {
        let (scan, refused) = match scan {
            Ok(scan) => (Some(scan), None),
            Err(refused) => (None, Some(refused)),
        };
        Self { scan, refused, any_length, types: PhantomData }
    }

    /// As [`Range::count_records`].
    pub fn count_records(self) -> Result<u64, SessionError> {
        match (self.refused, self.scan) {
            (Some(refused), _) => Err(refused),
            (None, Some(scan)) => scan.count_records(),
            (None, None) => Ok(0),
        }
    }
}

impl<K: Key, V: Value> Iterator for LocalRange<'_, K, V> {
    type Item = Record<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(refused) = self.refused.take() {
            return Some(Err(refused));
        }
        let record = self.scan.as_mut()?.next_record()?;
        Some(typed::<K, V>(self.any_length, record))
    }
}
