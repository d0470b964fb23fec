//! A table whose operations run on the caller's own thread.

use super::super::error::{OpenError, SessionError};
use super::super::local::Local;
use super::super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::super::scan::LocalScan;
use super::Table;
use super::prefix::{self, Sequence};
use super::range::LocalRange;
use super::request::{Bounds, Record, Typed};
use super::typed::{Key, Value};
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::time::Duration;

/// A [`Table`] whose operations run on the thread that calls them: a [`Local`] with types, which says how that works.
///
/// The same operations as of a table; they block, and return their results.
#[derive(Debug)]
pub struct LocalTable<K, V> {
    local: Local,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Table<K, V> {
    /// A handle for the calling thread, which runs its operations itself: the fastest way for a thread that waits for
    /// each operation, or that has many at once.
    pub fn local(&self) -> Result<LocalTable<K, V>, OpenError> {
        Ok(LocalTable { local: self.session().local()?, types: PhantomData })
    }
}

/// Results of many operations, in the order of their arguments.
type Results<T> = Vec<Result<T, SessionError>>;

impl<K: Key, V: Value> LocalTable<K, V> {
    fn typed(&self) -> Typed<K, V> {
        Typed::new(self.local.shape())
    }

    /// The handle, for records as bytes.
    pub const fn bytes(&self) -> &Local {
        &self.local
    }

    /// As [`Local::set_time_limit`].
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.local.set_time_limit(limit);
    }

    // ---- records ---------------------------------------------------------------------------------------------

    /// The value of `key`.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>, SessionError> {
        self.local.run(self.typed().get(key))
    }

    /// Whether `key` has a record.
    pub fn exists(&self, key: K::Ref<'_>) -> Result<bool, SessionError> {
        self.local.run(self.typed().exists(key))
    }

    /// Adds a record if its key is absent.
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<Insert<V::Owned>, SessionError> {
        self.local.run(self.typed().insert(key, value))
    }

    /// Replaces the value of a key that exists.
    pub fn update(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<Update, SessionError> {
        self.local.run(self.typed().update(key, value))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<Upsert, SessionError> {
        self.local.run(self.typed().upsert(key, value))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if(
        &self,
        key: K::Ref<'_>,
        expected: V::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<UpdateIf<V::Owned>, SessionError> {
        self.local.run(self.typed().update_if(key, expected, value))
    }

    /// Removes a key.
    pub fn delete(&self, key: K::Ref<'_>) -> Result<Delete, SessionError> {
        self.local.run(self.typed().delete(key))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if(&self, key: K::Ref<'_>, expected: V::Ref<'_>) -> Result<DeleteIf<V::Owned>, SessionError> {
        self.local.run(self.typed().delete_if(key, expected))
    }

    // ---- ranges ----------------------------------------------------------------------------------------------

    /// As [`Table::range`].
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> LocalRange<'_, K, V> {
        self.scan(self.typed().range(range))
    }

    /// As [`Table::prefix`].
    pub fn prefix(&self, prefix: K::Prefix<'_>) -> LocalRange<'_, K, V> {
        self.scan(self.typed().prefix(prefix))
    }

    /// The record with the least key.
    pub fn first(&self) -> Result<Option<Record<K, V>>, SessionError> {
        self.local.run(self.typed().first())
    }

    /// As [`Table::last`].
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<Record<K, V>>, SessionError> {
        self.range(..).rev().next().transpose()
    }

    /// As [`Table::longest_prefix`].
    pub fn longest_prefix(&self, key: K::Ref<'_>) -> Result<Option<(usize, V::Owned)>, SessionError>
    where
        K: Sequence,
    {
        let typed = self.typed();
        let bytes = typed.longest_beginning(K::bytes(key));
        prefix::longest::<V>(bytes, &prefix::lengths_of::<K>(bytes), self.local.shape().have_lengths, |at| {
            self.local.run_all(at.iter().map(|&at| typed.first_from(bytes, at)))
        })
    }

    /// As [`Table::count`].
    pub fn count<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64, SessionError> {
        self.range(range).count_records()
    }

    fn scan(&self, bounds: Bounds) -> LocalRange<'_, K, V> {
        let scan = bounds.map(|(low, high)| LocalScan::new(&self.local, low, high));
        LocalRange::new(scan, self.local.shape().have_lengths)
    }

    // ---- many at once ----------------------------------------------------------------------------------------

    /// The values of many keys.
    pub fn multi_get<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Results<Option<V::Owned>> {
        self.local.run_all(keys.into_iter().map(|key| self.typed().get(key)))
    }

    /// Which of many keys have records.
    pub fn multi_exists<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Results<bool> {
        self.local.run_all(keys.into_iter().map(|key| self.typed().exists(key)))
    }

    /// Adds many records, where their keys are absent.
    pub fn multi_insert<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>,
    ) -> Results<Insert<V::Owned>> {
        self.local.run_all(records.into_iter().map(|(key, value)| self.typed().insert(key, value)))
    }

    /// Replaces the values of many keys, where these exist.
    pub fn multi_update<'k>(&self, records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>) -> Results<Update> {
        self.local.run_all(records.into_iter().map(|(key, value)| self.typed().update(key, value)))
    }

    /// Upserts many records. If several have the same key, any of them may be the last.
    pub fn multi_put<'k>(&self, records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>) -> Results<Upsert> {
        self.local.run_all(records.into_iter().map(|(key, value)| self.typed().upsert(key, value)))
    }

    /// Replaces the values of many keys, where these are the expected ones: of each key, the expected value and the new
    /// one.
    pub fn multi_update_if<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>, V::Ref<'k>)>,
    ) -> Results<UpdateIf<V::Owned>> {
        let request = |(key, expected, value)| self.typed().update_if(key, expected, value);
        self.local.run_all(records.into_iter().map(request))
    }

    /// Removes many keys.
    pub fn multi_delete<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Results<Delete> {
        self.local.run_all(keys.into_iter().map(|key| self.typed().delete(key)))
    }

    /// Removes many keys, where their values are the expected ones.
    pub fn multi_delete_if<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>,
    ) -> Results<DeleteIf<V::Owned>> {
        self.local.run_all(records.into_iter().map(|(key, expected)| self.typed().delete_if(key, expected)))
    }
}
