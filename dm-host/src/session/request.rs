//! What a call asks for: the arguments of an operation, checked, and how its result is made. A [`Session`] queues
//! requests, a [`Local`] runs them itself.
//!
//! [`Session`]: super::Session
//! [`Local`]: super::Local

use super::deadline::Deadline;
use super::error::SessionError;
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::page::Page;
use super::queue::Body;
use dm_core::operation::{Cause, OpError, Operation, OperationKind, Outcome};
use std::borrow::Cow;
use std::ops::Bound;

/// Arguments of an operation. All have valid sizes. Bytes are the caller's, or the call's own if it made them of typed
/// keys and values.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    pub(super) operation: Operation,
    /// `None`: a scan from the beginning.
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) key_high: High<'a>,
    pub(super) value: Cow<'a, [u8]>,
    pub(super) expected: Cow<'a, [u8]>,
    /// Where a found value goes, instead of into a vector.
    pub(super) room: Option<&'a mut [u8]>,
    /// Room for a page.
    pub(super) page_bytes: usize,
}

/// A scan's upper bound.
#[derive(Debug)]
pub(super) enum High<'a> {
    None,
    Excluded(Cow<'a, [u8]>),
    Included(Cow<'a, [u8]>),
}

impl Arguments<'_> {
    /// The same without borrows.
    pub(super) fn owned(self) -> Result<Arguments<'static>, SessionError> {
        let own = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        if self.room.is_some() {
            let what = "a call that copies into the caller's memory cannot be owned";
            return Err(SessionError::Operation(OpError::harmless(Cause::BadInput(what))));
        }
        Ok(Arguments {
            operation: self.operation,
            key: self.key.map(own),
            key_high: match self.key_high {
                High::None => High::None,
                High::Excluded(key) => High::Excluded(own(key)),
                High::Included(key) => High::Included(own(key)),
            },
            value: own(self.value),
            expected: own(self.expected),
            room: None,
            page_bytes: self.page_bytes,
        })
    }

    pub(super) fn fill(&self, body: &mut Body, deadline: Option<Deadline>) {
        body.operation = self.operation;
        body.deadline = deadline;
        // Parts that the operation does not use stay as they were; no code reads them.
        match &self.key {
            Some(key) => body.key.set(key),
            // A scan from the beginning.
            None => body.key.set_least(),
        }
        body.value.set(&self.value);
        body.expected.set(&self.expected);
        match &self.key_high {
            High::None => {}
            High::Excluded(key) => body.key_high.set(key),
            High::Included(key) => {
                body.key_high.set(key);
                // If the key is the largest, there is no upper bound.
                body.operation.bounded = body.key_high.increment();
            }
        }
        if self.page_bytes > 0 {
            body.page = Vec::with_capacity(self.page_bytes);
        }
    }
}

/// Turns the outcome of a call into its result. It fails if what was found is not of the type that the call is for.
pub(super) type Fetch<T> = fn(Outcome, &mut Body, &mut Option<&mut [u8]>) -> Result<T, SessionError>;

/// An operation that has not begun.
#[derive(Debug)]
pub(super) struct Request<'a, T> {
    pub(super) arguments: Result<Arguments<'a>, SessionError>,
    pub(super) fetch: Fetch<T>,
}

impl<'a, T> Request<'a, T> {
    pub(super) const fn new(arguments: Result<Arguments<'a>, SessionError>, fetch: Fetch<T>) -> Self {
        Self { arguments, fetch }
    }
}

/// How long keys and values are, and how many records a page has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Whether keys and values have any length; the sizes then are those of the longest.
    pub(super) have_lengths: bool,
    pub(super) page_records: usize,
    /// Whether the index scans downwards.
    pub(super) takes_last: bool,
}

impl Shape {
    pub(super) fn check_key(&self, key: &[u8]) -> Result<(), SessionError> {
        let (given, expected) = (key.len(), self.key_bytes);
        if self.have_lengths {
            return if given <= expected { Ok(()) } else { Err(SessionError::KeyTooLong { given, most: expected }) };
        }
        if given == expected { Ok(()) } else { Err(SessionError::KeyBytes { given, expected }) }
    }

    pub(super) fn check_value(&self, value: &[u8]) -> Result<(), SessionError> {
        let (given, expected) = (value.len(), self.value_bytes);
        if self.have_lengths {
            return if given <= expected { Ok(()) } else { Err(SessionError::ValueTooLong { given, most: expected }) };
        }
        if given == expected { Ok(()) } else { Err(SessionError::ValueBytes { given, expected }) }
    }

    // ---- arguments -------------------------------------------------------------------------------------------

    pub(super) fn point<'a>(
        &self,
        kind: OperationKind,
        key: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Arguments<'a>, SessionError> {
        let key = key.into();
        self.check_key(&key)?;
        Ok(Arguments {
            operation: Operation::point(kind),
            key: Some(key),
            key_high: High::None,
            value: Cow::default(),
            expected: Cow::default(),
            room: None,
            page_bytes: 0,
        })
    }

    pub(super) fn write<'a>(
        &self,
        kind: OperationKind,
        key: impl Into<Cow<'a, [u8]>>,
        value: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Arguments<'a>, SessionError> {
        let value = value.into();
        let arguments = self.point(kind, key)?;
        self.check_value(&value)?;
        Ok(Arguments { value, ..arguments })
    }

    /// Makes an operation conditional.
    pub(super) fn expecting<'a>(
        &self,
        arguments: Arguments<'a>,
        expected: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Arguments<'a>, SessionError> {
        let expected = expected.into();
        self.check_value(&expected)?;
        Ok(Arguments { expected, ..arguments })
    }

    pub(super) fn range<'a>(
        &self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
    ) -> Result<Arguments<'a>, SessionError> {
        let max = self.page_records;
        if !(1..=max).contains(&records) {
            return Err(SessionError::PageRecords { given: records, max });
        }
        let mut operation = Operation::scan(records as u32);
        operation.after = matches!(low, Bound::Excluded(_));
        operation.bounded = !matches!(high, Bound::Unbounded);
        let key = match low {
            Bound::Included(key) | Bound::Excluded(key) => self.check_key(&key).map(|()| Some(key))?,
            Bound::Unbounded => None,
        };
        let key_high = match high {
            Bound::Included(key) => self.check_key(&key).map(|()| High::Included(key))?,
            Bound::Excluded(key) => self.check_key(&key).map(|()| High::Excluded(key))?,
            Bound::Unbounded => High::None,
        };
        // If records have lengths, a page holds as many as its bytes allow. The room grows with the records asked for.
        let record_bytes = self.key_bytes + self.value_bytes;
        let page_bytes = if self.have_lengths { 0 } else { records * record_bytes };
        let (value, expected) = (Cow::default(), Cow::default());
        Ok(Arguments { operation, key, key_high, value, expected, room: None, page_bytes })
    }

    // ---- requests of bytes -----------------------------------------------------------------------------------

    pub(super) fn get<'a>(&self, key: &'a [u8]) -> Request<'a, Option<Vec<u8>>> {
        Request::new(self.point(OperationKind::Get, key), |outcome, body, _| {
            Ok((outcome == Outcome::Found).then(|| body.value.to_vec()))
        })
    }

    pub(super) fn get_into<'a>(&self, key: &'a [u8], value: &'a mut [u8]) -> Request<'a, bool> {
        let arguments = self.point(OperationKind::Get, key).and_then(|arguments| {
            if self.have_lengths {
                return Err(SessionError::AnyLength);
            }
            self.check_value(value)?;
            Ok(Arguments { room: Some(value), ..arguments })
        });
        Request::new(arguments, |outcome, body, room| {
            let found = outcome == Outcome::Found;
            if found && let Some(room) = room {
                room.copy_from_slice(&body.value);
            }
            Ok(found)
        })
    }

    pub(super) fn exists<'a>(&self, key: &'a [u8]) -> Request<'a, bool> {
        Request::new(self.point(OperationKind::Get, key), |outcome, _, _| Ok(outcome == Outcome::Found))
    }

    pub(super) fn insert<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Request<'a, Insert> {
        Request::new(self.write(OperationKind::Insert, key, value), |outcome, body, _| {
            Insert::of(outcome, || Ok(body.value.to_vec()))
        })
    }

    pub(super) fn update<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Request<'a, Update> {
        Request::new(self.write(OperationKind::Update, key, value), |outcome, _, _| Ok(Update::of(outcome)))
    }

    pub(super) fn upsert<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Request<'a, Upsert> {
        Request::new(self.write(OperationKind::Upsert, key, value), |outcome, _, _| Ok(Upsert::of(outcome)))
    }

    pub(super) fn update_if<'a>(&self, key: &'a [u8], expected: &'a [u8], value: &'a [u8]) -> Request<'a, UpdateIf> {
        let arguments = self.write(OperationKind::UpdateIf, key, value);
        let arguments = arguments.and_then(|arguments| self.expecting(arguments, expected));
        Request::new(arguments, |outcome, body, _| UpdateIf::of(outcome, || Ok(body.value.to_vec())))
    }

    pub(super) fn delete<'a>(&self, key: &'a [u8]) -> Request<'a, Delete> {
        Request::new(self.point(OperationKind::Delete, key), |outcome, _, _| Ok(Delete::of(outcome)))
    }

    pub(super) fn delete_if<'a>(&self, key: &'a [u8], expected: &'a [u8]) -> Request<'a, DeleteIf> {
        let arguments = self.point(OperationKind::DeleteIf, key);
        let arguments = arguments.and_then(|arguments| self.expecting(arguments, expected));
        Request::new(arguments, |outcome, body, _| DeleteIf::of(outcome, || Ok(body.value.to_vec())))
    }

    pub(super) fn page<'a>(
        &self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
    ) -> Request<'a, Page> {
        self.page_towards(low, high, records, false)
    }

    /// With `down`, of the last records of the range.
    pub(super) fn page_towards<'a>(
        &self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
        down: bool,
    ) -> Request<'a, Page> {
        let mut arguments = self.range(low, high, records);
        if let Ok(arguments) = &mut arguments {
            arguments.operation.down = down;
        }
        Request::new(arguments, |outcome, body: &mut Body, _| Ok(Page::take(outcome, body)))
    }
}
