//! What an index is created with.

use super::typed::{Key, Value};
use crate::kinds::{IndexParameterError, IndexParameters};
use dm_core::items::parameters::Parameters as AnyLength;
use dm_core::layout::checksum::CHECKSUM_BYTES;
use dm_core::remote::catalog::IndexKind;

/// The longest keys and values that an index takes if all have one size.
const FIXED_BYTES_MAX: (usize, usize) = (64, 1024);

/// The shortest keys and values of one size. Shorter ones are padded.
const FIXED_BYTES_MIN: usize = 8;

/// What an index is created with: its kind, and how long its keys and values are.
///
/// ```
/// # use dm_host::prelude::*;
/// let small = IndexOptions::new().kind(IndexKind::Chime).fixed_bytes(16, 8);
/// let texts = IndexOptions::new().any_length(200, 64 << 10);
/// # assert!(small.parameters().is_ok() && texts.parameters().is_ok());
/// ```
///
/// Sizes are fixed for the life of the index. Keys and values of one size are faster and smaller. Of any length, a get
/// takes a second round trip if the value has more than 14 bytes or the key more than 55, and an update or an upsert
/// looks at the record first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct IndexOptions {
    kind: IndexKind,
    lengths: Lengths,
    checksums: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    OfTypes,
    Fixed { key_bytes: usize, value_bytes: usize },
    Any(AnyLength),
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl IndexOptions {
    /// A Sherman index with what the types of its [`Table`](super::Table) need: if all keys have the same size, and all
    /// values, those sizes; else, and without a table, any length up to 1 KiB for keys and 4 KiB for values.
    pub const fn new() -> Self {
        Self { kind: IndexKind::Sherman, lengths: Lengths::OfTypes, checksums: false }
    }

    /// An index of another kind.
    pub const fn kind(self, kind: IndexKind) -> Self {
        Self { kind, ..self }
    }

    /// All keys have 8 to 64 bytes, and all values 8 to 1024. In a table shorter ones are padded: of strings, one byte
    /// less than that fits.
    pub const fn fixed_bytes(self, key_bytes: usize, value_bytes: usize) -> Self {
        Self { lengths: Lengths::Fixed { key_bytes, value_bytes }, ..self }
    }

    /// Keys of any length up to `key_bytes_max`, at most 4096, and values of up to `value_bytes_max`, at most 65,536.
    pub const fn any_length(self, key_bytes_max: usize, value_bytes_max: usize) -> Self {
        Self { lengths: Lengths::Any(AnyLength { key_bytes_max, value_bytes_max }), ..self }
    }

    /// Each record is stored with a checksum of its key and value, and whatever reads it compares them: a record that has
    /// changed in the pool is an error ([`Cause::Checksum`](dm_core::operation::Cause::Checksum)), not another record. See
    /// [`crate::checked`] for what this finds, and what it costs. Values have four bytes less room: at most 1020 of one size, and
    /// 65,532 of any length. An older program cannot open such an index.
    pub const fn checksums(self) -> Self {
        Self { checksums: true, ..self }
    }

    /// The same for [`Session::open_or_create`](super::super::Session::open_or_create).
    pub fn parameters(&self) -> Result<IndexParameters, IndexParameterError> {
        let parameters = match self.lengths {
            Lengths::Fixed { key_bytes, value_bytes } => IndexParameters::with_sizes(self.kind, key_bytes, value_bytes),
            Lengths::Any(lengths) => IndexParameters::with_any_length(self.kind, lengths),
            Lengths::OfTypes => IndexParameters::with_any_length(self.kind, AnyLength::DEFAULT),
        }?;
        let parameters = if self.checksums { parameters.with_checksums() } else { parameters };
        parameters.check()?;
        Ok(parameters)
    }

    /// As [`IndexOptions::parameters`], for keys and values of these types.
    pub fn parameters_of<K: Key, V: Value>(&self) -> Result<IndexParameters, IndexParameterError> {
        let value_bytes_max = FIXED_BYTES_MAX.1 - if self.checksums { CHECKSUM_BYTES } else { 0 };
        let lengths = match (self.lengths, K::WIDTH, V::WIDTH) {
            (Lengths::OfTypes, Some(key), Some(value)) if key <= FIXED_BYTES_MAX.0 && value <= value_bytes_max => {
                Lengths::Fixed { key_bytes: key.max(FIXED_BYTES_MIN), value_bytes: value.max(FIXED_BYTES_MIN) }
            }
            (Lengths::OfTypes, key, value) => {
                let AnyLength { key_bytes_max, value_bytes_max } = AnyLength::DEFAULT;
                Lengths::Any(AnyLength {
                    key_bytes_max: key_bytes_max.max(key.unwrap_or(0)),
                    value_bytes_max: value_bytes_max.max(value.unwrap_or(0)),
                })
            }
            (lengths, ..) => lengths,
        };
        Self { lengths, ..*self }.parameters()
    }
}
