//! What point operations tell their callers. `V` is what a value is given as: its bytes, or a type of a
//! [`Table`](super::table::Table).

use dm_core::operation::Outcome;

/// The outcome of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insert<V = Vec<u8>> {
    /// The key was absent, and the record was added.
    Inserted,
    /// The key is there, with this value.
    Exists(V),
}

/// The outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The value was replaced.
    Updated,
    /// The key is absent.
    Absent,
}

/// The outcome of an upsert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upsert {
    /// The key was absent, and the record was added.
    Inserted,
    /// The value was replaced.
    Replaced,
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delete {
    /// The key was removed.
    Deleted,
    /// The key was absent.
    Absent,
}

/// The outcome of a conditional update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateIf<V = Vec<u8>> {
    /// The value was the expected one, and was replaced.
    Updated,
    /// The value is a different one: this.
    Mismatch(V),
    /// The key is absent.
    Absent,
}

/// The outcome of a conditional delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteIf<V = Vec<u8>> {
    /// The value was the expected one, and the record was removed.
    Deleted,
    /// The value is a different one: this.
    Mismatch(V),
    /// The key is absent.
    Absent,
}

// How the core says it; `value` takes the value that was found.

impl<V> Insert<V> {
    pub(super) fn of<E>(outcome: Outcome, value: impl FnOnce() -> Result<V, E>) -> Result<Self, E> {
        Ok(if outcome == Outcome::Exists { Self::Exists(value()?) } else { Self::Inserted })
    }
}

impl Update {
    pub(super) fn of(outcome: Outcome) -> Self {
        if outcome == Outcome::Absent { Self::Absent } else { Self::Updated }
    }
}

impl Upsert {
    pub(super) fn of(outcome: Outcome) -> Self {
        if outcome == Outcome::Replaced { Self::Replaced } else { Self::Inserted }
    }
}

impl Delete {
    pub(super) fn of(outcome: Outcome) -> Self {
        if outcome == Outcome::Absent { Self::Absent } else { Self::Deleted }
    }
}

impl<V> UpdateIf<V> {
    pub(super) fn of<E>(outcome: Outcome, value: impl FnOnce() -> Result<V, E>) -> Result<Self, E> {
        Ok(match outcome {
            Outcome::Absent => Self::Absent,
            Outcome::Mismatch => Self::Mismatch(value()?),
            _ => Self::Updated,
        })
    }
}

impl<V> DeleteIf<V> {
    pub(super) fn of<E>(outcome: Outcome, value: impl FnOnce() -> Result<V, E>) -> Result<Self, E> {
        Ok(match outcome {
            Outcome::Absent => Self::Absent,
            Outcome::Mismatch => Self::Mismatch(value()?),
            _ => Self::Deleted,
        })
    }
}
