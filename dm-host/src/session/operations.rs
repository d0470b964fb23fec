//! The operations of a session.

#[cfg(feature = "c")]
use super::SessionError;
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::{Call, Calls, Page, Scan, Session};
use std::borrow::Cow;
use std::ops::Bound;

impl Session {
    #[cfg(feature = "c")]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), SessionError> {
        self.shape().check_key(key)
    }

    /// The value of `key`.
    pub fn get<'a>(&'a self, key: &'a [u8]) -> Call<'a, Option<Vec<u8>>> {
        Call::new(self, self.shape().get(key))
    }

    /// Copies the value of `key` into `value`, which has [`Session::value_bytes`]. `false`: the key is absent, and
    /// `value` is as it was. Only where all values have the same length.
    pub fn get_into<'a>(&'a self, key: &'a [u8], value: &'a mut [u8]) -> Call<'a, bool> {
        Call::new(self, self.shape().get_into(key, value))
    }

    /// Whether `key` has a record.
    pub fn exists<'a>(&'a self, key: &'a [u8]) -> Call<'a, bool> {
        Call::new(self, self.shape().exists(key))
    }

    /// Adds a record if its key is absent.
    pub fn insert<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Insert> {
        Call::new(self, self.shape().insert(key, value))
    }

    /// Replaces the value of a key that exists.
    pub fn update<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Update> {
        Call::new(self, self.shape().update(key, value))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Call<'a, Upsert> {
        Call::new(self, self.shape().upsert(key, value))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if<'a>(&'a self, key: &'a [u8], expected: &'a [u8], value: &'a [u8]) -> Call<'a, UpdateIf> {
        Call::new(self, self.shape().update_if(key, expected, value))
    }

    /// Removes a key.
    pub fn delete<'a>(&'a self, key: &'a [u8]) -> Call<'a, Delete> {
        Call::new(self, self.shape().delete(key))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if<'a>(&'a self, key: &'a [u8], expected: &'a [u8]) -> Call<'a, DeleteIf> {
        Call::new(self, self.shape().delete_if(key, expected))
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
        self.page_of(low.map(Cow::Borrowed), high.map(Cow::Borrowed), records, false)
    }

    pub(super) fn page_of<'a>(
        &'a self,
        low: Bound<Cow<'a, [u8]>>,
        high: Bound<Cow<'a, [u8]>>,
        records: usize,
        down: bool,
    ) -> Call<'a, Page> {
        Call::new(self, self.shape().page_towards(low, high, records, down))
    }

    /// The records between `low` and `high`, in ascending order, as an iterator that blocks for each page, or a stream.
    /// What [`Session::page`] promises holds for the whole iteration. [`Scan::rev`] turns it round.
    pub fn scan(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Scan<'_> {
        Scan::new(self, low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec))
    }
}
