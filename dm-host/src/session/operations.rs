//! The operations of a session.

use super::call::{Arguments, High};
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::{Call, Calls, Page, Scan, Session, SessionError};
use dm_core::operation::{Operation, OperationKind, Outcome};
use std::borrow::Cow;
use std::ops::Bound;

impl Session {
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

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), SessionError> {
        let (given, expected) = (key.len(), self.shared().key_bytes);
        if self.shared().have_lengths {
            return if given <= expected { Ok(()) } else { Err(SessionError::KeyTooLong { given, most: expected }) };
        }
        if given == expected { Ok(()) } else { Err(SessionError::KeyBytes { given, expected }) }
    }

    fn check_value(&self, value: &[u8]) -> Result<(), SessionError> {
        let (given, expected) = (value.len(), self.shared().value_bytes);
        if self.shared().have_lengths {
            return if given <= expected { Ok(()) } else { Err(SessionError::ValueTooLong { given, most: expected }) };
        }
        if given == expected { Ok(()) } else { Err(SessionError::ValueBytes { given, expected }) }
    }

    /// The value of `key`.
    pub fn get<'a>(&'a self, key: &'a [u8]) -> Call<'a, Option<Vec<u8>>> {
        Call::new(self, self.point(OperationKind::Get, key), |outcome, body, _| {
            Ok((outcome == Outcome::Found).then(|| body.value.to_vec()))
        })
    }

    /// Copies the value of `key` into `value`, which has [`Session::value_bytes`]. `false`: the key is absent, and
    /// `value` is as it was. Only where all values have the same length.
    pub fn get_into<'a>(&'a self, key: &'a [u8], value: &'a mut [u8]) -> Call<'a, bool> {
        let arguments = self.point(OperationKind::Get, key).and_then(|arguments| {
            if self.shared().have_lengths {
                return Err(SessionError::AnyLength);
            }
            self.check_value(value)?;
            Ok(Arguments { room: Some(value), ..arguments })
        });
        Call::new(self, arguments, |outcome, body, room| {
            let found = outcome == Outcome::Found;
            if found && let Some(room) = room {
                room.copy_from_slice(&body.value);
            }
            Ok(found)
        })
    }

    /// Whether `key` has a record.
    pub fn exists<'a>(&'a self, key: &'a [u8]) -> Call<'a, bool> {
        Call::new(self, self.point(OperationKind::Get, key), |outcome, _, _| Ok(outcome == Outcome::Found))
    }

    /// Adds a record if its key is absent.
    pub fn insert<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Insert> {
        Call::new(self, self.write(OperationKind::Insert, key, value), |outcome, body, _| {
            Insert::of(outcome, || Ok(body.value.to_vec()))
        })
    }

    /// Replaces the value of a key that exists.
    pub fn update<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Update> {
        Call::new(self, self.write(OperationKind::Update, key, value), |outcome, _, _| Ok(Update::of(outcome)))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Upsert> {
        Call::new(self, self.write(OperationKind::Upsert, key, value), |outcome, _, _| Ok(Upsert::of(outcome)))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if<'a>(&'a self, key: &'a [u8], expected: &'a [u8], value: &'a [u8]) -> Call<'a, UpdateIf> {
        let arguments = self.write(OperationKind::UpdateIf, key, value);
        let arguments = arguments.and_then(|arguments| self.expecting(arguments, expected));
        Call::new(self, arguments, |outcome, body, _| UpdateIf::of(outcome, || Ok(body.value.to_vec())))
    }

    /// Removes a key.
    pub fn delete<'a>(&'a self, key: &'a [u8]) -> Call<'a, Delete> {
        Call::new(self, self.point(OperationKind::Delete, key), |outcome, _, _| Ok(Delete::of(outcome)))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if<'a>(&'a self, key: &'a [u8], expected: &'a [u8]) -> Call<'a, DeleteIf> {
        let arguments = self.point(OperationKind::DeleteIf, key);
        let arguments = arguments.and_then(|arguments| self.expecting(arguments, expected));
        Call::new(self, arguments, |outcome, body, _| DeleteIf::of(outcome, || Ok(body.value.to_vec())))
    }

    /// The values of many keys.
    pub fn multi_get<'a, K: AsRef<[u8]>>(&'a self, keys: &'a [K]) -> Calls<'a, Option<Vec<u8>>> {
        Calls::new(keys.iter().map(|key| self.get(key.as_ref())))
    }

    /// Which of many keys have records.
    pub fn multi_exists<'a, K: AsRef<[u8]>>(&'a self, keys: &'a [K]) -> Calls<'a, bool> {
        Calls::new(keys.iter().map(|key| self.exists(key.as_ref())))
    }

    /// Adds many records, where their keys are absent.
    pub fn multi_insert<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(&'a self, records: &'a [(K, V)]) -> Calls<'a, Insert> {
        Calls::new(records.iter().map(|(key, value)| self.insert(key.as_ref(), value.as_ref())))
    }

    /// Replaces the values of many keys, where these exist.
    pub fn multi_update<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(&'a self, records: &'a [(K, V)]) -> Calls<'a, Update> {
        Calls::new(records.iter().map(|(key, value)| self.update(key.as_ref(), value.as_ref())))
    }

    /// Upserts many records. If several have the same key, any of them may be the last.
    pub fn multi_put<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(&'a self, records: &'a [(K, V)]) -> Calls<'a, Upsert> {
        Calls::new(records.iter().map(|(key, value)| self.upsert(key.as_ref(), value.as_ref())))
    }

    /// Replaces the values of many keys, where these are the expected ones: of each key, the expected value and the
    /// new one.
    pub fn multi_update_if<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &'a self,
        records: &'a [(K, V, V)],
    ) -> Calls<'a, UpdateIf> {
        let call =
            |(key, expected, value): &'a (K, V, V)| self.update_if(key.as_ref(), expected.as_ref(), value.as_ref());
        Calls::new(records.iter().map(call))
    }

    /// Removes many keys.
    pub fn multi_delete<'a, K: AsRef<[u8]>>(&'a self, keys: &'a [K]) -> Calls<'a, Delete> {
        Calls::new(keys.iter().map(|key| self.delete(key.as_ref())))
    }

    /// Removes many keys, where their values are the expected ones.
    pub fn multi_delete_if<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(&'a self, records: &'a [(K, V)]) -> Calls<'a, DeleteIf> {
        Calls::new(records.iter().map(|(key, expected)| self.delete_if(key.as_ref(), expected.as_ref())))
    }

    /// The first `records` records between `low` and `high`, at most [`Session::page_records`]; fewer where they have
    /// any length and the page has no room for more. They are ascending, each key at most once, and each record was
    /// current at some instant of the call. No record is left out that was there throughout the call. The page is not a
    /// snapshot. [`Page::cursor`] is the `low` of the next page.
    pub fn page<'a>(&'a self, low: Bound<&'a [u8]>, high: Bound<&'a [u8]>, records: usize) -> Call<'a, Page> {
        self.page_of(low.map(Cow::Borrowed), high.map(Cow::Borrowed), records)
    }

    pub(super) fn page_of<'a>(
        &'a self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
    ) -> Call<'a, Page> {
        Call::new(self, self.range(low, high, records), |outcome, body, _| Ok(Page::take(outcome, body)))
    }

    pub(super) fn range<'a>(
        &self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
    ) -> Result<Arguments<'a>, SessionError> {
        let max = self.shared().page_records;
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
        let record_bytes = self.shared().key_bytes + self.shared().value_bytes;
        let page_bytes = if self.shared().have_lengths { 0 } else { records * record_bytes };
        let (value, expected) = (Cow::default(), Cow::default());
        Ok(Arguments { operation, key, key_high, value, expected, room: None, page_bytes })
    }

    /// The records between `low` and `high`, in ascending order, as an iterator that blocks for each page, or a stream.
    /// What [`Session::page`] promises holds for the whole iteration.
    pub fn scan(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Scan<'_> {
        Scan::new(self, low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec))
    }
}
