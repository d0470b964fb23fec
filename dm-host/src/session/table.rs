//! Tables: sessions whose keys and values are Rust types.
//!
//! ```
//! use dm_host::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::embedded(16 << 20)?;
//! let visits = Table::<(u32, &str), u64>::open(&pool, "visits")?;
//! visits.insert((7, "/index"), 1).wait()?;
//! visits.insert((7, "/about"), 5).wait()?;
//! visits.insert((8, "/index"), 2).wait()?;
//!
//! assert_eq!(visits.get((7, "/index")).wait()?, Some(1));
//! // Everything of 7, in order.
//! let of_7 = visits.prefix(7).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(of_7, [((7, "/about".to_owned()), 5), ((7, "/index".to_owned()), 1)]);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Key`], [`Value`]: the types, and their bytes, which [`typed`] documents. Both can be implemented for types of the
//!   application.
//! - [`IndexOptions`]: the kind of the index, and how long keys and values are.
//! - [`Range`]: the records of a range of keys.
//!
//! A table has no scans downwards, and so no last record: the indexes scan upwards only.

mod options;
mod range;
pub mod typed;

pub use options::IndexOptions;
pub use range::Range;
pub use typed::{Key, Value};

use super::Session;
use super::call::{Arguments, Call, Fetch};
use super::calls::Calls;
use super::error::{OpenError, SessionError};
use super::options::SessionOptions;
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::page::{Page, Scan};
use super::queue::Body;
use crate::pool::Pool;
use dm_core::operation::{OperationKind, Outcome};
use std::any::type_name;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use typed::{Slot, above, open};

/// An open index with keys of type `K` and values of type `V`: a [`Session`] with types. See the module's
/// documentation.
///
/// A clone costs a reference count. Threads and tasks share a table by reference or have clones.
#[derive(Debug)]
pub struct Table<K, V> {
    session: Session,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), types: PhantomData }
    }
}

impl<K: Key, V: Value> Table<K, V> {
    /// Opens the index called `name`, or creates it as `K` and `V` need it, with the defaults of [`IndexOptions`] and
    /// [`SessionOptions`].
    pub fn open(pool: &Arc<Pool>, name: &str) -> Result<Self, OpenError> {
        Self::open_with(pool, name, &IndexOptions::new(), &SessionOptions::default())
    }

    /// As [`Table::open`], with every choice. An index that exists must have the kind and the sizes of `index`. That it
    /// was written with these types is for the program to know: see [`typed`].
    pub fn open_with(
        pool: &Arc<Pool>,
        name: &str,
        index: &IndexOptions,
        options: &SessionOptions,
    ) -> Result<Self, OpenError> {
        Self::of(Session::open_or_create(pool, name, index.parameters_of::<K, V>()?, options)?)
    }

    /// The table of an open session.
    pub fn of(session: Session) -> Result<Self, OpenError> {
        let table = Self { session, types: PhantomData };
        let refused = |part, type_name, slot: Slot| {
            let Slot { bytes, any_length } = slot;
            Err(OpenError::Type { part, type_name, bytes, any_length })
        };
        if !table.key_slot().takes::<K>() {
            return refused("key", type_name::<K>(), table.key_slot());
        }
        if !table.value_slot().takes::<V>() {
            return refused("value", type_name::<V>(), table.value_slot());
        }
        Ok(table)
    }

    /// The session: statistics, validation, and the records as bytes.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// As [`Session::close`].
    pub fn close(&self) {
        self.session.close();
    }

    // ---- records ---------------------------------------------------------------------------------------------

    /// The value of `key`.
    pub fn get(&self, key: K::Ref<'_>) -> Call<'_, Option<V::Owned>> {
        self.call(self.point(OperationKind::Get, key), |outcome, body, _| {
            (outcome == Outcome::Found).then(|| value_in::<V>(body)).transpose()
        })
    }

    /// Whether `key` has a record.
    pub fn exists(&self, key: K::Ref<'_>) -> Call<'_, bool> {
        self.call(self.point(OperationKind::Get, key), |outcome, _, _| Ok(outcome == Outcome::Found))
    }

    /// Adds a record if its key is absent.
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Insert<V::Owned>> {
        self.call(self.write(OperationKind::Insert, key, value), |outcome, body, _| {
            Insert::of(outcome, || value_in::<V>(body))
        })
    }

    /// Replaces the value of a key that exists.
    pub fn update(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Update> {
        self.call(self.write(OperationKind::Update, key, value), |outcome, _, _| Ok(Update::of(outcome)))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Upsert> {
        self.call(self.write(OperationKind::Upsert, key, value), |outcome, _, _| Ok(Upsert::of(outcome)))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if(&self, key: K::Ref<'_>, expected: V::Ref<'_>, value: V::Ref<'_>) -> Call<'_, UpdateIf<V::Owned>> {
        let arguments = self.write(OperationKind::UpdateIf, key, value);
        self.call(self.expecting(arguments, expected), |outcome, body, _| UpdateIf::of(outcome, || value_in::<V>(body)))
    }

    /// Removes a key.
    pub fn delete(&self, key: K::Ref<'_>) -> Call<'_, Delete> {
        self.call(self.point(OperationKind::Delete, key), |outcome, _, _| Ok(Delete::of(outcome)))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if(&self, key: K::Ref<'_>, expected: V::Ref<'_>) -> Call<'_, DeleteIf<V::Owned>> {
        let arguments = self.point(OperationKind::DeleteIf, key);
        self.call(self.expecting(arguments, expected), |outcome, body, _| DeleteIf::of(outcome, || value_in::<V>(body)))
    }

    // ---- ranges ----------------------------------------------------------------------------------------------

    /// The records of a range of keys, in ascending order: `table.range(..)`, `table.range(3..=5)`. What
    /// [`Session::page`] promises holds for the whole range; it is not a snapshot.
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Range<'_, K, V> {
        let slot = |key: Bound<&K::Ref<'k>>| {
            Ok(match key {
                Bound::Included(&key) => Bound::Included(self.key(key)?),
                Bound::Excluded(&key) => Bound::Excluded(self.key(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        self.scan(slot(range.start_bound()), slot(range.end_bound()))
    }

    /// The records whose keys begin with `prefix`, in ascending order: with the bytes of a string, or with the first
    /// parts of a tuple ([`Key::Prefix`]).
    pub fn prefix(&self, prefix: K::Prefix<'_>) -> Range<'_, K, V> {
        let mut bytes = Vec::new();
        K::encode_prefix(prefix, &mut bytes);
        let high = match above(bytes.clone()) {
            Some(above) => self.key_of(above).map(Bound::Excluded),
            None => Ok(Bound::Unbounded),
        };
        self.scan(self.key_of(bytes).map(Bound::Included), high)
    }

    /// The record with the least key.
    pub fn first(&self) -> Call<'_, Option<(K::Owned, V::Owned)>> {
        let arguments = self.session.range(Bound::Unbounded, Bound::Unbounded, 1);
        self.call(arguments, |outcome, body, _| {
            let any_length = body.has_lengths();
            let page = Page::take(outcome, body);
            let record = page
                .record(0)
                .map(|(key, value)| Ok((open::<K>(key, any_length, "key")?, open::<V>(value, any_length, "value")?)));
            record.transpose()
        })
    }

    /// Counts the records of a range of keys. It fetches and counts them all, and blocks until it has.
    pub fn count<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64, SessionError> {
        self.range(range).count_records()
    }

    // ---- many at once ----------------------------------------------------------------------------------------

    /// The values of many keys.
    pub fn multi_get<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Calls<'_, Option<V::Owned>> {
        Calls::new(keys.into_iter().map(|key| self.get(key)))
    }

    /// Which of many keys have records.
    pub fn multi_exists<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Calls<'_, bool> {
        Calls::new(keys.into_iter().map(|key| self.exists(key)))
    }

    /// Adds many records, where their keys are absent.
    pub fn multi_insert<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>,
    ) -> Calls<'_, Insert<V::Owned>> {
        Calls::new(records.into_iter().map(|(key, value)| self.insert(key, value)))
    }

    /// Replaces the values of many keys, where these exist.
    pub fn multi_update<'k>(&self, records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>) -> Calls<'_, Update> {
        Calls::new(records.into_iter().map(|(key, value)| self.update(key, value)))
    }

    /// Upserts many records. If several have the same key, any of them may be the last.
    pub fn multi_put<'k>(&self, records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>) -> Calls<'_, Upsert> {
        Calls::new(records.into_iter().map(|(key, value)| self.upsert(key, value)))
    }

    /// Replaces the values of many keys, where these are the expected ones: of each key, the expected value and the
    /// new one.
    pub fn multi_update_if<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>, V::Ref<'k>)>,
    ) -> Calls<'_, UpdateIf<V::Owned>> {
        Calls::new(records.into_iter().map(|(key, expected, value)| self.update_if(key, expected, value)))
    }

    /// Removes many keys.
    pub fn multi_delete<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Calls<'_, Delete> {
        Calls::new(keys.into_iter().map(|key| self.delete(key)))
    }

    /// Removes many keys, where their values are the expected ones.
    pub fn multi_delete_if<'k>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'k>, V::Ref<'k>)>,
    ) -> Calls<'_, DeleteIf<V::Owned>> {
        Calls::new(records.into_iter().map(|(key, expected)| self.delete_if(key, expected)))
    }

    // ---- bytes -----------------------------------------------------------------------------------------------

    fn call<'t, T>(&'t self, arguments: Result<Arguments<'t>, SessionError>, fetch: Fetch<T>) -> Call<'t, T> {
        Call::new(&self.session, arguments, fetch)
    }

    fn point(&self, kind: OperationKind, key: K::Ref<'_>) -> Result<Arguments<'static>, SessionError> {
        self.session.point(kind, self.key(key)?)
    }

    fn write(
        &self,
        kind: OperationKind,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Arguments<'static>, SessionError> {
        self.session.write(kind, self.key(key)?, self.value(value)?)
    }

    fn expecting(
        &self,
        arguments: Result<Arguments<'static>, SessionError>,
        expected: V::Ref<'_>,
    ) -> Result<Arguments<'static>, SessionError> {
        self.session.expecting(arguments?, self.value(expected)?)
    }

    fn scan(
        &self,
        low: Result<Bound<Vec<u8>>, SessionError>,
        high: Result<Bound<Vec<u8>>, SessionError>,
    ) -> Range<'_, K, V> {
        let scan = low.and_then(|low| Ok(Scan::new(&self.session, low, high?)));
        Range::new(scan, self.session.have_lengths())
    }

    fn key_slot(&self) -> Slot {
        Slot { bytes: self.session.key_bytes(), any_length: self.session.have_lengths() }
    }

    fn value_slot(&self) -> Slot {
        Slot { bytes: self.session.value_bytes(), any_length: self.session.have_lengths() }
    }

    fn key(&self, key: K::Ref<'_>) -> Result<Vec<u8>, SessionError> {
        let mut bytes = Vec::new();
        K::encode(key, &mut bytes);
        self.key_of(bytes)
    }

    /// The slot of a key's bytes, or of the beginning of them.
    fn key_of(&self, bytes: Vec<u8>) -> Result<Vec<u8>, SessionError> {
        let given = bytes.len();
        self.key_slot().fill::<K>(bytes).map_err(|most| SessionError::KeyTooLong { given, most })
    }

    fn value(&self, value: V::Ref<'_>) -> Result<Vec<u8>, SessionError> {
        let mut bytes = Vec::new();
        V::encode(value, &mut bytes);
        let given = bytes.len();
        self.value_slot().fill::<V>(bytes).map_err(|most| SessionError::ValueTooLong { given, most })
    }
}

/// The value that an operation found.
fn value_in<V: Value>(body: &Body) -> Result<V::Owned, SessionError> {
    open::<V>(&body.value, body.has_lengths(), "value")
}
