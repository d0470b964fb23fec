//! What calls on a table ask for: requests of typed keys and values.

use super::super::error::SessionError;
use super::super::outcome::{Delete, DeleteIf, Insert, Update, UpdateIf, Upsert};
use super::super::page::Page;
use super::super::queue::Body;
use super::super::request::Arguments;
use super::super::request::{Request, Shape};
use super::typed::{Key, Slot, Value, above, open};
use dm_core::operation::{OperationKind, Outcome};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A record of types.
pub(super) type Record<K, V> = (<K as Value>::Owned, <V as Value>::Owned);

/// Bounds of a scan, as bytes.
pub(super) type Bounds = Result<(Bound<Vec<u8>>, Bound<Vec<u8>>), SessionError>;

/// An index with keys of type `K` and values of type `V`.
pub(super) struct Typed<K, V> {
    shape: Shape,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Typed<K, V> {
    pub(super) const fn new(shape: Shape) -> Self {
        Self { shape, types: PhantomData }
    }

    // ---- requests --------------------------------------------------------------------------------------------

    pub(super) fn get<'a>(&self, key: K::Ref<'_>) -> Request<'a, Option<V::Owned>> {
        Request::new(self.point(OperationKind::Get, key), |outcome, body, _| {
            (outcome == Outcome::Found).then(|| value_in::<V>(body)).transpose()
        })
    }

    pub(super) fn exists<'a>(&self, key: K::Ref<'_>) -> Request<'a, bool> {
        Request::new(self.point(OperationKind::Get, key), |outcome, _, _| Ok(outcome == Outcome::Found))
    }

    pub(super) fn insert<'a>(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Request<'a, Insert<V::Owned>> {
        Request::new(self.write(OperationKind::Insert, key, value), |outcome, body, _| {
            Insert::of(outcome, || value_in::<V>(body))
        })
    }

    pub(super) fn update<'a>(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Request<'a, Update> {
        Request::new(self.write(OperationKind::Update, key, value), |outcome, _, _| Ok(Update::of(outcome)))
    }

    pub(super) fn upsert<'a>(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Request<'a, Upsert> {
        Request::new(self.write(OperationKind::Upsert, key, value), |outcome, _, _| Ok(Upsert::of(outcome)))
    }

    pub(super) fn update_if<'a>(
        &self,
        key: K::Ref<'_>,
        expected: V::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Request<'a, UpdateIf<V::Owned>> {
        let arguments = self.write(OperationKind::UpdateIf, key, value);
        Request::new(self.expecting(arguments, expected), |outcome, body, _| {
            UpdateIf::of(outcome, || value_in::<V>(body))
        })
    }

    pub(super) fn delete<'a>(&self, key: K::Ref<'_>) -> Request<'a, Delete> {
        Request::new(self.point(OperationKind::Delete, key), |outcome, _, _| Ok(Delete::of(outcome)))
    }

    pub(super) fn delete_if<'a>(&self, key: K::Ref<'_>, expected: V::Ref<'_>) -> Request<'a, DeleteIf<V::Owned>> {
        let arguments = self.point(OperationKind::DeleteIf, key);
        Request::new(self.expecting(arguments, expected), |outcome, body, _| {
            DeleteIf::of(outcome, || value_in::<V>(body))
        })
    }

    pub(super) fn first<'a>(&self) -> Request<'a, Option<Record<K, V>>> {
        let arguments = self.shape.range(Bound::Unbounded, Bound::Unbounded, 1);
        Request::new(arguments, |outcome, body, _| {
            let any_length = body.has_lengths();
            let page = Page::take(outcome, body);
            let record = page
                .record(0)
                .map(|(key, value)| Ok((open::<K>(key, any_length, "key")?, open::<V>(value, any_length, "value")?)));
            record.transpose()
        })
    }

    /// As much of a key's bytes as the index has room for: no longer one is stored.
    pub(super) fn longest_beginning<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let Slot { bytes, any_length } = self.key_slot();
        &key[..key.len().min(if any_length { bytes } else { bytes.saturating_sub(1) })]
    }

    /// The first record between the first `from` bytes of `key` and `key`.
    pub(super) fn first_from<'a>(&self, key: &[u8], from: usize) -> Request<'a, Page> {
        let bound = |bytes: &[u8]| Ok(Bound::Included(Cow::Owned(self.key_of(bytes.to_vec())?)));
        let bounds = bound(&key[..from]).and_then(|low| Ok((low, bound(key)?)));
        let arguments = bounds.and_then(|(low, high)| self.shape.range(low, high, 1));
        Request::new(arguments, |outcome, body, _| Ok(Page::take(outcome, body)))
    }

    // ---- bounds ----------------------------------------------------------------------------------------------

    pub(super) fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Bounds {
        let slot = |key: Bound<&K::Ref<'k>>| -> Result<_, SessionError> {
            Ok(match key {
                Bound::Included(&key) => Bound::Included(self.key(key)?),
                Bound::Excluded(&key) => Bound::Excluded(self.key(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok((slot(range.start_bound())?, slot(range.end_bound())?))
    }

    pub(super) fn prefix(&self, prefix: K::Prefix<'_>) -> Bounds {
        let mut bytes = Vec::new();
        K::encode_prefix(prefix, &mut bytes);
        let high = match above(bytes.clone()) {
            Some(above) => Bound::Excluded(self.key_of(above)?),
            None => Bound::Unbounded,
        };
        Ok((Bound::Included(self.key_of(bytes)?), high))
    }

    // ---- bytes -----------------------------------------------------------------------------------------------

    fn point(&self, kind: OperationKind, key: K::Ref<'_>) -> Result<Arguments<'static>, SessionError> {
        self.shape.point(kind, self.key(key)?)
    }

    fn write(
        &self,
        kind: OperationKind,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Arguments<'static>, SessionError> {
        self.shape.write(kind, self.key(key)?, self.value(value)?)
    }

    fn expecting(
        &self,
        arguments: Result<Arguments<'static>, SessionError>,
        expected: V::Ref<'_>,
    ) -> Result<Arguments<'static>, SessionError> {
        self.shape.expecting(arguments?, self.value(expected)?)
    }

    pub(super) const fn key_slot(&self) -> Slot {
        Slot { bytes: self.shape.key_bytes, any_length: self.shape.have_lengths }
    }

    pub(super) const fn value_slot(&self) -> Slot {
        Slot { bytes: self.shape.value_bytes, any_length: self.shape.have_lengths }
    }

    pub(super) fn key(&self, key: K::Ref<'_>) -> Result<Vec<u8>, SessionError> {
        let mut bytes = Vec::with_capacity(self.room(self.shape.key_bytes));
        K::encode(key, &mut bytes);
        self.key_of(bytes)
    }

    /// The slot of a key's bytes, or of the beginning of them.
    fn key_of(&self, bytes: Vec<u8>) -> Result<Vec<u8>, SessionError> {
        let given = bytes.len();
        self.key_slot().fill::<K>(bytes).map_err(|most| SessionError::KeyTooLong { given, most })
    }

    pub(super) fn value(&self, value: V::Ref<'_>) -> Result<Vec<u8>, SessionError> {
        let mut bytes = Vec::with_capacity(self.room(self.shape.value_bytes));
        V::encode(value, &mut bytes);
        let given = bytes.len();
        self.value_slot().fill::<V>(bytes).map_err(|most| SessionError::ValueTooLong { given, most })
    }

    /// Where all have one size, a vector is allocated once.
    const fn room(&self, bytes: usize) -> usize {
        if self.shape.have_lengths { 0 } else { bytes }
    }
}

/// The value that an operation found.
fn value_in<V: Value>(body: &Body) -> Result<V::Owned, SessionError> {
    open::<V>(&body.value, body.has_lengths(), "value")
}
