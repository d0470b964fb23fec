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

mod local;
mod options;
mod prefix;
mod range;
mod request;
pub mod typed;

pub use local::LocalTable;
pub use options::IndexOptions;
pub use prefix::Sequence;
pub use range::{LocalRange, Range, TypedScan};
pub use typed::{Key, Value};

use super::Session;
use super::bulk::{self, LoadError};
use super::call::Call;
use super::calls::Calls;
use super::error::{OpenError, SessionError};
use super::options::SessionOptions;
use super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::scan::Scan;
use crate::pool::Pool;
use request::{Bounds, Record, Typed};
use std::any::type_name;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;
use typed::Slot;

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

    /// Creates the index called `name` as `K` and `V` need it, and loads `records`, whose keys ascend, into it: see
    /// [`Session::bulk_load`].
    pub fn bulk_load<'r>(
        pool: &Arc<Pool>,
        name: &str,
        index: &IndexOptions,
        records: impl IntoIterator<Item = (K::Ref<'r>, V::Ref<'r>)>,
    ) -> Result<u64, LoadError> {
        let parameters = index.parameters_of::<K, V>()?;
        let typed = Typed::<K, V>::new(bulk::shape_of(&parameters));
        let slots = records.into_iter().map(|(key, value)| Ok((typed.key(key)?, typed.value(value)?)));
        bulk::load(pool, name, &parameters, slots)
    }

    /// The table of an open session.
    pub fn of(session: Session) -> Result<Self, OpenError> {
        let table = Self { session, types: PhantomData };
        let refused = |part, type_name, slot: Slot| {
            let Slot { bytes, any_length } = slot;
            Err(OpenError::Type { part, type_name, bytes, any_length })
        };
        let (key, value) = (table.typed().key_slot(), table.typed().value_slot());
        if !key.takes::<K>() {
            return refused("key", type_name::<K>(), key);
        }
        if !value.takes::<V>() {
            return refused("value", type_name::<V>(), value);
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
        Call::new(&self.session, self.typed().get(key))
    }

    /// Whether `key` has a record.
    pub fn exists(&self, key: K::Ref<'_>) -> Call<'_, bool> {
        Call::new(&self.session, self.typed().exists(key))
    }

    /// Adds a record if its key is absent.
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Insert<V::Owned>> {
        Call::new(&self.session, self.typed().insert(key, value))
    }

    /// Replaces the value of a key that exists.
    pub fn update(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Update> {
        Call::new(&self.session, self.typed().update(key, value))
    }

    /// Adds a record, or replaces its value.
    pub fn upsert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Call<'_, Upsert> {
        Call::new(&self.session, self.typed().upsert(key, value))
    }

    /// Replaces the value of a key if the value is `expected`.
    pub fn update_if(&self, key: K::Ref<'_>, expected: V::Ref<'_>, value: V::Ref<'_>) -> Call<'_, UpdateIf<V::Owned>> {
        Call::new(&self.session, self.typed().update_if(key, expected, value))
    }

    /// Removes a key.
    pub fn delete(&self, key: K::Ref<'_>) -> Call<'_, Delete> {
        Call::new(&self.session, self.typed().delete(key))
    }

    /// Removes a key if its value is `expected`.
    pub fn delete_if(&self, key: K::Ref<'_>, expected: V::Ref<'_>) -> Call<'_, DeleteIf<V::Owned>> {
        Call::new(&self.session, self.typed().delete_if(key, expected))
    }

    // ---- ranges ----------------------------------------------------------------------------------------------

    /// The records of a range of keys, in ascending order: `table.range(..)`, `table.range(3..=5)`. What
    /// [`Session::page`] promises holds for the whole range; it is not a snapshot. `table.range(..).rev()` goes down.
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Range<'_, K, V> {
        self.scan(self.typed().range(range))
    }

    /// The records whose keys begin with `prefix`, in ascending order: with the bytes of a string, or with the first
    /// parts of a tuple ([`Key::Prefix`]).
    pub fn prefix(&self, prefix: K::Prefix<'_>) -> Range<'_, K, V> {
        self.scan(self.typed().prefix(prefix))
    }

    /// The record with the least key.
    pub fn first(&self) -> Call<'_, Option<(K::Owned, V::Owned)>> {
        Call::new(&self.session, self.typed().first())
    }

    /// The record with the greatest key. It blocks: the search for it takes several pages, see [`Scan::rev`]. A task takes
    /// the first record of `table.range(..).rev()`.
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<Record<K, V>>, SessionError> {
        self.range(..).rev().next().transpose()
    }

    /// The longest prefix of `key` that is the key of a record, `key` itself included: its length in bytes, and the
    /// record's value. What a cache of prompts asks: which is the deepest state that I have for this text?
    ///
    /// ```
    /// # use dm_host::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = Pool::embedded(16 << 20)?;
    /// let states = Table::<&str, u64>::open(&pool, "states of prompts")?;
    /// states.insert("You are a helpful assistant. ", 1).wait()?;
    /// states.insert("You are a helpful assistant. Summarise ", 2).wait()?;
    /// let prompt = "You are a helpful assistant. Translate: Guten Tag";
    /// assert_eq!(states.longest_prefix(prompt)?, Some((29, 1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It takes a few rounds of some 16 scans of one record, which overlap, and blocks meanwhile: 2 where only stored prefixes
    /// begin as `key` does, and one more for every few lengths at which other records part from `key`. A key may be longer than
    /// those of the index. A record that comes or goes meanwhile may be seen or not.
    pub fn longest_prefix(&self, key: K::Ref<'_>) -> Result<Option<(usize, V::Owned)>, SessionError>
    where
        K: Sequence,
    {
        let (session, typed) = (&self.session, self.typed());
        let bytes = typed.longest_beginning(K::bytes(key));
        prefix::longest::<V>(bytes, &prefix::lengths_of::<K>(bytes), session.have_lengths(), |at| {
            Calls::new(at.iter().map(|&at| Call::new(session, typed.first_from(bytes, at)))).wait()
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

    fn typed(&self) -> Typed<K, V> {
        Typed::new(self.session.shape())
    }

    fn scan(&self, bounds: Bounds) -> Range<'_, K, V> {
        let scan = bounds.map(|(low, high)| Scan::new(&self.session, low, high));
        Range::new(scan, self.session.have_lengths())
    }
}
