//! What is fixed when an index of any kind is created.

use crate::error_text::debug_is_text;
use dm_core::items::block::VALUE_BYTES_LIMIT;
use dm_core::items::parameters::{Parameters as AnyLength, mark_checksums, take_checksums};
use dm_core::layout::checksum::CHECKSUM_BYTES;
use dm_core::registry::{KindParameters, ParameterError, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use dm_core::remote::catalog::{FEATURE_CHECKSUMS, FEATURE_ITEMS, IndexEntry, IndexKind, PARAMETER_BYTES};
use dm_core::remote::features::Features;
use dm_core::{for_each_kind, match_kind};
use std::fmt;
use thiserror::Error;

/// What is fixed when an index is created, and the kind of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexParameters {
    /// The kind, and its parameters; with keys and values of any length, those of the index below.
    pub below: Below,
    /// Sizes of keys and values of any length ([`dm_core::items`]). `None`: all keys and values have one size.
    pub any_length: Option<AnyLength>,
    /// Each value ends with a checksum of key and value, which is in the sizes above and not a part of the user's value:
    /// see [`crate::checked`].
    pub checksums: bool,
}

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        /// Parameters of an index of any kind, with keys and values of one size.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Below {
            $(
                #[doc = concat!("See [`dm_core::", stringify!($kind), "`].")]
                $Kind(dm_core::$kind::parameters::Parameters),
            )*
        }

        impl Below {
            fn with_sizes(kind: IndexKind, key_bytes: usize, value_bytes: usize) -> Result<Self, IndexParameterError> {
                match kind {
                    $(
                        IndexKind::$Kind => {
                            Ok(dm_core::$kind::parameters::Parameters::with_sizes(key_bytes, value_bytes).into())
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    kind => Err(IndexParameterError::Kind(kind)),
                }
            }

            fn decode(
                kind: IndexKind,
                version: u16,
                block: &[u8; PARAMETER_BYTES],
            ) -> Result<Self, IndexParameterError> {
                match kind {
                    $(
                        IndexKind::$Kind => {
                            Ok(dm_core::$kind::parameters::Parameters::decode(version, block)?.into())
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    kind => Err(IndexParameterError::Kind(kind)),
                }
            }
        }

        $(
            impl From<dm_core::$kind::parameters::Parameters> for Below {
                fn from(parameters: dm_core::$kind::parameters::Parameters) -> Self {
                    Self::$Kind(parameters)
                }
            }

            impl From<dm_core::$kind::parameters::Parameters> for IndexParameters {
                fn from(parameters: dm_core::$kind::parameters::Parameters) -> Self {
                    Self { below: parameters.into(), any_length: None, checksums: false }
                }
            }

            impl From<&dm_core::$kind::parameters::Parameters> for IndexParameters {
                fn from(parameters: &dm_core::$kind::parameters::Parameters) -> Self {
                    (*parameters).into()
                }
            }
        )*
    };
}

for_each_kind! { [kinds] }

/// Parameters that no index can have. Its `Debug` is its text.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexParameterError {
    /// A size, or what the kind leaves to choose, is outside of its limits; or the catalog's block is not one that this
    /// program reads.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The index is of a kind that this program does not have.
    #[error("this program has no {} indexes", .0.name())]
    Kind(IndexKind),
    /// The catalog entry names features that this program does not know.
    #[error("it uses features that this program does not know ({unknown:#x}): use a newer program")]
    Features {
        /// The unknown bits.
        unknown: u64,
    },
    /// The catalog entry contradicts itself.
    #[error("its catalog entry says in its {}, and not in its {}, that keys and values have any length", if *.feature { "features" } else { "parameters" }, if *.feature { "parameters" } else { "features" })]
    HalfAnyLength {
        /// Whether the features say that keys and values have any length.
        feature: bool,
    },
    /// The catalog entry contradicts itself.
    #[error("its catalog entry says in its {}, and not in its {}, that records have checksums", if *.feature { "features" } else { "parameters" }, if *.feature { "parameters" } else { "features" })]
    HalfChecksums {
        /// Whether the features say that records have checksums.
        feature: bool,
    },
}

debug_is_text! { IndexParameterError }

/// The version of the parameter block that a kind writes.
const fn version_of<P: KindParameters>(_: &P) -> u16 {
    P::VERSION
}

const fn kind_of<P: KindParameters>(_: &P) -> IndexKind {
    P::KIND
}

const fn locks_in_leaves_of<P: KindParameters>(_: &P) -> bool {
    P::LOCKS_IN_LEAVES
}

const fn has_log_of<P: KindParameters>(_: &P) -> bool {
    P::HAS_LOG
}

const fn scans_down_of<P: KindParameters>(_: &P) -> bool {
    P::SCANS_DOWN
}

impl Below {
    /// With keys and values of any length, over an index of these sizes.
    #[must_use]
    pub const fn with_any_length(self, lengths: AnyLength) -> IndexParameters {
        IndexParameters { below: self, any_length: Some(lengths), checksums: false }
    }

    /// The same for keys and values of other sizes.
    #[must_use]
    pub fn resized(self, key_bytes: usize, value_bytes: usize) -> Self {
        match_kind!(self, Below(below) => below.resized(key_bytes, value_bytes).into())
    }

    /// Bytes of every key.
    pub fn key_bytes(&self) -> usize {
        match_kind!(self, Below(below) => KindParameters::key_bytes(below))
    }

    /// Bytes of every value.
    pub fn value_bytes(&self) -> usize {
        match_kind!(self, Below(below) => KindParameters::value_bytes(below))
    }
}

impl fmt::Display for IndexParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, key, value) = (self.kind().name(), self.key_bytes(), self.value_bytes());
        let up_to = if self.any_length.is_some() { "up to " } else { "" };
        let checksums = if self.checksums { ", checksums of records" } else { "" };
        write!(f, "{kind} with keys of {up_to}{key} and values of {up_to}{value} bytes{checksums}")?;
        match_kind!(&self.below, Below(below) => below.write_choices(f))
    }
}

impl IndexParameters {
    /// The paper's node sizes, for keys and values of these sizes. Use only sizes that pass [`IndexParameters::check`].
    pub fn with_sizes(kind: IndexKind, key_bytes: usize, value_bytes: usize) -> Result<Self, IndexParameterError> {
        Ok(Self { below: Below::with_sizes(kind, key_bytes, value_bytes)?, any_length: None, checksums: false })
    }

    /// Keys and values of up to these sizes. Slots have 64 bytes for slices of keys, and [`Self::INLINE_SLOT_BYTES`]
    /// for short values and pointers.
    pub fn with_any_length(kind: IndexKind, lengths: AnyLength) -> Result<Self, IndexParameterError> {
        Ok(Below::with_sizes(kind, 64, Self::INLINE_SLOT_BYTES)?.with_any_length(lengths))
    }

    /// Bytes that an entry has for a value of up to 14 bytes, or for a pointer.
    pub const INLINE_SLOT_BYTES: usize = 16;

    /// The same, in an index that stores a checksum with each record. Leaves have as many entries less as it takes to keep
    /// the paper's size, if they have that.
    #[must_use]
    pub fn with_checksums(mut self) -> Self {
        if self.checksums {
            return self;
        }
        let (kind, key_bytes, value_bytes) = (self.kind(), self.below.key_bytes(), self.below.value_bytes());
        let sealed_bytes = value_bytes + CHECKSUM_BYTES;
        let span = |value_bytes| Self::with_sizes(kind, key_bytes, value_bytes).map(|index| index.leaf_span());
        let papers = span(value_bytes).ok().zip(span(sealed_bytes).ok());
        let papers = papers.filter(|(span, _)| *span == self.leaf_span());
        self.below = self.below.resized(key_bytes, sealed_bytes);
        if let Some((_, span)) = papers {
            self.set_leaf_span(span);
        }
        if let Some(lengths) = &mut self.any_length {
            lengths.value_bytes_max += CHECKSUM_BYTES;
        }
        self.checksums = true;
        self
    }

    /// Decodes and checks the parameter block of a catalog entry.
    pub fn decode(kind: IndexKind, version: u16, block: &[u8; PARAMETER_BYTES]) -> Result<Self, IndexParameterError> {
        let mut block = *block;
        let checksums = take_checksums(&mut block)?;
        let any_length = AnyLength::take_from(&mut block)?;
        let parameters = Self { below: Below::decode(kind, version, &block)?, any_length, checksums };
        parameters.check()?;
        Ok(parameters)
    }

    /// As [`IndexParameters::decode`], of a whole entry, whose features are checked as well.
    pub fn of(entry: &IndexEntry) -> Result<Self, IndexParameterError> {
        let unknown = entry.incompatible_unknown();
        if unknown != 0 {
            return Err(IndexParameterError::Features { unknown });
        }
        let parameters = Self::decode(entry.kind, entry.parameters_version, &entry.parameters)?;
        let feature = entry.features.incompatible & FEATURE_ITEMS != 0;
        if feature != parameters.any_length.is_some() {
            return Err(IndexParameterError::HalfAnyLength { feature });
        }
        let feature = entry.features.incompatible & FEATURE_CHECKSUMS != 0;
        if feature != parameters.checksums {
            return Err(IndexParameterError::HalfChecksums { feature });
        }
        Ok(parameters)
    }

    /// The parameter block for a catalog entry, and its version.
    pub fn encode(&self) -> ([u8; PARAMETER_BYTES], u16) {
        let (mut block, version) = match_kind!(&self.below, Below(below) => (below.encode(), version_of(below)));
        if let Some(lengths) = &self.any_length {
            lengths.encode_into(&mut block);
        }
        if self.checksums {
            mark_checksums(&mut block);
        }
        (block, version)
    }

    /// The features of a catalog entry.
    pub const fn features(&self) -> Features {
        let items = if self.any_length.is_some() { FEATURE_ITEMS } else { 0 };
        let checksums = if self.checksums { FEATURE_CHECKSUMS } else { 0 };
        Features { compatible: 0, read_only: 0, incompatible: items | checksums }
    }

    /// Checks every limit.
    pub fn check(&self) -> Result<(), IndexParameterError> {
        if self.checksums {
            self.check_room_for_checksums()?;
        }
        match_kind!(&self.below, Below(below) => below.check()?);
        if let Some(lengths) = &self.any_length {
            lengths.check(self.below.key_bytes(), self.below.value_bytes())?;
        }
        Ok(())
    }

    /// Checks that a value with its checksum is not longer than an index takes.
    fn check_room_for_checksums(&self) -> Result<(), ParameterError> {
        let (least, most) = if self.any_length.is_some() {
            (CHECKSUM_BYTES, VALUE_BYTES_LIMIT)
        } else {
            (VALUE_BYTES_MIN, VALUE_BYTES_MAX)
        };
        let (found, least, most) = (self.stored_value_bytes(), least, most);
        if (least..=most).contains(&found) {
            return Ok(());
        }
        let [found, least, most] = [found, least, most].map(|bytes| bytes.saturating_sub(CHECKSUM_BYTES));
        Err(ParameterError::Limit { what: "value bytes, of records with checksums", found, least, most })
    }

    /// Bytes that the index has for every value, or for the longest, with its checksum.
    fn stored_value_bytes(&self) -> usize {
        self.any_length.map_or_else(|| self.below.value_bytes(), |lengths| lengths.value_bytes_max)
    }

    /// The kind of the index.
    pub fn kind(&self) -> IndexKind {
        match_kind!(&self.below, Below(below) => kind_of(below))
    }

    /// Whether a checksum covers each record where it is stored: the kind has one, or the creator of the index chose so.
    pub fn records_have_checksums(&self) -> bool {
        fn kind_has<P: KindParameters>(_: &P) -> bool {
            P::RECORDS_HAVE_CHECKSUMS
        }
        self.checksums || match_kind!(&self.below, Below(below) => kind_has(below))
    }

    /// Bytes of every key; of any length, of the longest key.
    pub fn key_bytes(&self) -> usize {
        self.any_length.map_or_else(|| self.below.key_bytes(), |lengths| lengths.key_bytes_max)
    }

    /// Bytes of every value; of any length, of the longest value.
    pub fn value_bytes(&self) -> usize {
        self.stored_value_bytes().saturating_sub(if self.checksums { CHECKSUM_BYTES } else { 0 })
    }

    /// Entries of a leaf; 1 if a leaf is a record.
    pub fn leaf_span(&self) -> usize {
        match_kind!(&self.below, Below(below) => KindParameters::leaf_span(below))
    }

    /// Sets the number of entries of a leaf. `false`: the kind leaves no choice.
    pub fn set_leaf_span(&mut self, span: usize) -> bool {
        match_kind!(&mut self.below, Below(below) => below.set_leaf_span(span))
    }

    /// Separators of an inner node; of a radix tree, slots of the largest node.
    pub fn inner_span(&self) -> usize {
        match_kind!(&self.below, Below(below) => KindParameters::inner_span(below))
    }

    /// Sets the number of separators of an inner node. `false`: the kind leaves no choice.
    pub fn set_inner_span(&mut self, span: usize) -> bool {
        match_kind!(&mut self.below, Below(below) => below.set_inner_span(span))
    }

    /// Bytes of the largest WRITE that may need a redo record.
    pub fn redo_bytes(&self) -> usize {
        match_kind!(&self.below, Below(below) => below.redo_bytes())
    }

    /// Bytes of a leaf's place and of an inner node; of the largest one if inner nodes differ.
    pub fn node_bytes(&self) -> (usize, usize) {
        match_kind!(&self.below, Below(below) => below.node_bytes())
    }

    /// Whether locks lie in leaves: then those of a dead compute node are found only through this index.
    pub fn locks_in_leaves(&self) -> bool {
        match_kind!(&self.below, Below(below) => locks_in_leaves_of(below))
    }

    /// Whether the index scans downwards: see [`KindParameters::SCANS_DOWN`]. With keys of any length none does.
    pub fn scans_down(&self) -> bool {
        self.any_length.is_none() && match_kind!(&self.below, Below(below) => scans_down_of(below))
    }

    /// Whether a compute node that opens the index has a log.
    pub fn has_log(&self) -> bool {
        match_kind!(&self.below, Below(below) => has_log_of(below))
    }
}
