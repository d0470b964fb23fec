//! Indexes of any kind: the catalog entry says which.

use crate::assembly::{AssemblyError, Place, Spending, with_chime, with_items, with_sherman, with_smart};
use dm_core::chime::{Chime, parameters as chime};
use dm_core::index::Index;
use dm_core::items::{Items, parameters as items};
use dm_core::lane::Lane;
use dm_core::memory::orphans::Adopted;
use dm_core::operation::{Census, OpError, Operation, Outcome, ScratchPlan};
use dm_core::radix::slot::{NODE_BYTES_MAX, NodeType};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::{IndexEntry, IndexKind, PARAMETER_BYTES};
use dm_core::remote::features::Features;
use dm_core::remote::lock_word::RowId;
use dm_core::sherman::{Sherman, parameters as sherman};
use dm_core::smart::{Smart, parameters as smart};
use dm_core::verbs::Assumptions;
use std::fmt;
use thiserror::Error;

/// What is fixed when an index is created, and the kind of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexParameters {
    /// A Sherman index.
    Sherman(sherman::Parameters),
    /// A CHIME index.
    Chime(chime::Parameters),
    /// A SMART index.
    Smart(smart::Parameters),
    /// A Sherman index with keys and values of any length: see [`dm_core::items`].
    ShermanItems(sherman::Parameters, items::Parameters),
    /// A CHIME index with keys and values of any length.
    ChimeItems(chime::Parameters, items::Parameters),
    /// A SMART index with keys and values of any length.
    SmartItems(smart::Parameters, items::Parameters),
}

/// Parameters that no index can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexParameterError {
    /// Of a Sherman index.
    #[error(transparent)]
    Sherman(#[from] sherman::ParameterError),
    /// Of a CHIME index.
    #[error(transparent)]
    Chime(#[from] chime::ParameterError),
    /// Of a SMART index.
    #[error(transparent)]
    Smart(#[from] smart::ParameterError),
    /// Of items.
    #[error(transparent)]
    Items(#[from] items::ParameterError),
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
    #[error("its catalog entry has items in its {}, and not in its {}", if *.feature { "features" } else { "parameters" }, if *.feature { "parameters" } else { "features" })]
    HalfItems {
        /// Whether the features say that it has items.
        feature: bool,
    },
}

impl fmt::Display for IndexParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, key, value) = (self.kind().name(), self.key_bytes(), self.value_bytes());
        let up_to = if self.items().is_some() { "up to " } else { "" };
        write!(f, "{kind} with keys of {up_to}{key} and values of {up_to}{value} bytes")?;
        match self {
            Self::Sherman(sherman::Parameters { leaf_span, inner_span, .. })
            | Self::ShermanItems(sherman::Parameters { leaf_span, inner_span, .. }, _) => {
                write!(f, ", {leaf_span} entries a leaf, {inner_span} separators an inner node")
            }
            Self::Chime(chime::Parameters { leaf_span, neighborhood, inner_span, .. })
            | Self::ChimeItems(chime::Parameters { leaf_span, neighborhood, inner_span, .. }, _) => write!(
                f,
                ", {leaf_span} entries a leaf in neighborhoods of {neighborhood}, {inner_span} separators an inner node"
            ),
            Self::Smart(_) | Self::SmartItems(..) => Ok(()),
        }
    }
}

impl From<IndexParameterError> for AssemblyError {
    fn from(error: IndexParameterError) -> Self {
        match error {
            IndexParameterError::Sherman(error) => error.into(),
            IndexParameterError::Chime(error) => error.into(),
            IndexParameterError::Smart(error) => error.into(),
            IndexParameterError::Items(error) => error.into(),
            _ => Self::Impossible("an index of a kind that this program does not have"),
        }
    }
}

impl From<sherman::Parameters> for IndexParameters {
    fn from(parameters: sherman::Parameters) -> Self {
        Self::Sherman(parameters)
    }
}

impl From<chime::Parameters> for IndexParameters {
    fn from(parameters: chime::Parameters) -> Self {
        Self::Chime(parameters)
    }
}

impl From<&sherman::Parameters> for IndexParameters {
    fn from(parameters: &sherman::Parameters) -> Self {
        Self::Sherman(*parameters)
    }
}

impl From<&chime::Parameters> for IndexParameters {
    fn from(parameters: &chime::Parameters) -> Self {
        Self::Chime(*parameters)
    }
}

impl From<smart::Parameters> for IndexParameters {
    fn from(parameters: smart::Parameters) -> Self {
        Self::Smart(parameters)
    }
}

impl IndexParameters {
    /// The paper's node sizes, for keys and values of these sizes. Use only sizes that pass [`IndexParameters::check`].
    pub const fn with_sizes(
        kind: IndexKind,
        key_bytes: usize,
        value_bytes: usize,
    ) -> Result<Self, IndexParameterError> {
        match kind {
            IndexKind::Sherman => Ok(Self::Sherman(sherman::Parameters::with_sizes(key_bytes, value_bytes))),
            IndexKind::Chime => Ok(Self::Chime(chime::Parameters::with_sizes(key_bytes, value_bytes))),
            IndexKind::Smart => Ok(Self::Smart(smart::Parameters::with_sizes(key_bytes, value_bytes))),
            kind => Err(IndexParameterError::Kind(kind)),
        }
    }

    /// Keys and values of up to these sizes. Slots have 64 bytes for slices of keys, and [`Self::INLINE_SLOT_BYTES`]
    /// for short values and pointers.
    pub const fn with_items(kind: IndexKind, items: items::Parameters) -> Result<Self, IndexParameterError> {
        match kind {
            IndexKind::Sherman => {
                Ok(Self::ShermanItems(sherman::Parameters::with_sizes(64, Self::INLINE_SLOT_BYTES), items))
            }
            IndexKind::Chime => Ok(Self::ChimeItems(chime::Parameters::with_sizes(64, Self::INLINE_SLOT_BYTES), items)),
            IndexKind::Smart => Ok(Self::SmartItems(smart::Parameters::with_sizes(64, Self::INLINE_SLOT_BYTES), items)),
            kind => Err(IndexParameterError::Kind(kind)),
        }
    }

    /// Bytes that an entry has for a value of up to 14 bytes, or for a pointer.
    pub const INLINE_SLOT_BYTES: usize = 16;

    /// Decodes and checks the parameter block of a catalog entry.
    pub fn decode(kind: IndexKind, version: u16, block: &[u8; PARAMETER_BYTES]) -> Result<Self, IndexParameterError> {
        let mut block = *block;
        let items = items::Parameters::take_from(&mut block)?;
        let parameters = match (kind, items) {
            (IndexKind::Sherman, None) => Self::Sherman(sherman::Parameters::decode(version, &block)?),
            (IndexKind::Sherman, Some(items)) => {
                Self::ShermanItems(sherman::Parameters::decode(version, &block)?, items)
            }
            (IndexKind::Chime, None) => Self::Chime(chime::Parameters::decode(version, &block)?),
            (IndexKind::Chime, Some(items)) => Self::ChimeItems(chime::Parameters::decode(version, &block)?, items),
            (IndexKind::Smart, None) => Self::Smart(smart::Parameters::decode(version, &block)?),
            (IndexKind::Smart, Some(items)) => Self::SmartItems(smart::Parameters::decode(version, &block)?, items),
            (kind, _) => return Err(IndexParameterError::Kind(kind)),
        };
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
        let feature = entry.features.incompatible & dm_core::remote::catalog::FEATURE_ITEMS != 0;
        if feature != parameters.items().is_some() {
            return Err(IndexParameterError::HalfItems { feature });
        }
        Ok(parameters)
    }

    /// The parameter block for a catalog entry, and its version.
    pub fn encode(&self) -> ([u8; PARAMETER_BYTES], u16) {
        match self {
            Self::Sherman(parameters) => (parameters.encode(), sherman::Parameters::VERSION),
            Self::Chime(parameters) => (parameters.encode(), chime::Parameters::VERSION),
            Self::Smart(parameters) => (parameters.encode(), smart::Parameters::VERSION),
            Self::ShermanItems(parameters, items) => {
                let mut block = parameters.encode();
                items.encode_into(&mut block);
                (block, sherman::Parameters::VERSION)
            }
            Self::ChimeItems(parameters, items) => {
                let mut block = parameters.encode();
                items.encode_into(&mut block);
                (block, chime::Parameters::VERSION)
            }
            Self::SmartItems(parameters, items) => {
                let mut block = parameters.encode();
                items.encode_into(&mut block);
                (block, smart::Parameters::VERSION)
            }
        }
    }

    /// The features of a catalog entry.
    pub const fn features(&self) -> Features {
        let incompatible = if self.items().is_some() { dm_core::remote::catalog::FEATURE_ITEMS } else { 0 };
        Features { compatible: 0, read_only: 0, incompatible }
    }

    /// Sizes of items, if keys and values have any length.
    pub const fn items(&self) -> Option<&items::Parameters> {
        match self {
            Self::Sherman(_) | Self::Chime(_) | Self::Smart(_) => None,
            Self::ShermanItems(_, items) | Self::ChimeItems(_, items) | Self::SmartItems(_, items) => Some(items),
        }
    }

    /// Checks every limit.
    pub fn check(&self) -> Result<(), IndexParameterError> {
        match self {
            Self::Sherman(parameters) => parameters.check()?,
            Self::Chime(parameters) => parameters.check()?,
            Self::Smart(parameters) => parameters.check()?,
            Self::ShermanItems(parameters, items) => {
                parameters.check()?;
                items.check(parameters.key_bytes, parameters.value_bytes)?;
            }
            Self::ChimeItems(parameters, items) => {
                parameters.check()?;
                items.check(parameters.key_bytes, parameters.value_bytes)?;
            }
            Self::SmartItems(parameters, items) => {
                parameters.check()?;
                items.check(parameters.key_bytes, parameters.value_bytes)?;
            }
        }
        Ok(())
    }

    /// The kind of the index.
    pub const fn kind(&self) -> IndexKind {
        match self {
            Self::Sherman(_) | Self::ShermanItems(..) => IndexKind::Sherman,
            Self::Chime(_) | Self::ChimeItems(..) => IndexKind::Chime,
            Self::Smart(_) | Self::SmartItems(..) => IndexKind::Smart,
        }
    }

    /// Bytes of every key; of items, of the longest key.
    pub const fn key_bytes(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.key_bytes,
            Self::Chime(parameters) => parameters.key_bytes,
            Self::Smart(parameters) => parameters.key_bytes,
            Self::ShermanItems(_, items) | Self::ChimeItems(_, items) | Self::SmartItems(_, items) => {
                items.key_bytes_max
            }
        }
    }

    /// Bytes of every value; of items, of the longest value.
    pub const fn value_bytes(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.value_bytes,
            Self::Chime(parameters) => parameters.value_bytes,
            Self::Smart(parameters) => parameters.value_bytes,
            Self::ShermanItems(_, items) | Self::ChimeItems(_, items) | Self::SmartItems(_, items) => {
                items.value_bytes_max
            }
        }
    }

    /// Entries of a leaf. A SMART leaf has one.
    pub const fn leaf_span(&self) -> usize {
        match self {
            Self::Sherman(parameters) | Self::ShermanItems(parameters, _) => parameters.leaf_span,
            Self::Chime(parameters) | Self::ChimeItems(parameters, _) => parameters.leaf_span,
            Self::Smart(_) | Self::SmartItems(..) => 1,
        }
    }

    /// Sets the number of entries of a leaf, for kinds that have a choice.
    pub const fn set_leaf_span(&mut self, span: usize) {
        match self {
            Self::Sherman(parameters) | Self::ShermanItems(parameters, _) => parameters.leaf_span = span,
            Self::Chime(parameters) | Self::ChimeItems(parameters, _) => parameters.leaf_span = span,
            Self::Smart(_) | Self::SmartItems(..) => {}
        }
    }

    /// Separators of an inner node; of a SMART index, slots of the largest node.
    pub const fn inner_span(&self) -> usize {
        match self {
            Self::Sherman(parameters) | Self::ShermanItems(parameters, _) => parameters.inner_span,
            Self::Chime(parameters) | Self::ChimeItems(parameters, _) => parameters.inner_span,
            Self::Smart(_) | Self::SmartItems(..) => NodeType::LARGEST.slots(),
        }
    }

    /// Bytes of the largest WRITE that may need a redo record.
    pub const fn redo_bytes(&self) -> usize {
        match (self, self.node_bytes()) {
            (Self::Smart(parameters) | Self::SmartItems(parameters, _), _) => parameters.leaf().write_bytes(),
            (_, (leaf, inner)) if leaf > inner => leaf,
            (_, (_, inner)) => inner,
        }
    }

    /// Bytes of a leaf's place and of an inner node; of the largest one if inner nodes differ.
    pub const fn node_bytes(&self) -> (usize, usize) {
        match self {
            Self::Sherman(parameters) | Self::ShermanItems(parameters, _) => {
                (parameters.leaf().bytes, parameters.inner().bytes)
            }
            Self::Chime(parameters) | Self::ChimeItems(parameters, _) => {
                (parameters.leaf().place_bytes(), parameters.inner().bytes)
            }
            Self::Smart(parameters) | Self::SmartItems(parameters, _) => {
                (parameters.leaf().place_bytes, NODE_BYTES_MAX)
            }
        }
    }
}

/// An index of any kind, put together.
#[derive(Clone, Copy)]
pub enum AnyIndex<'a, 'i, 's> {
    /// A Sherman index.
    Sherman(&'a Sherman<'s>),
    /// A CHIME index.
    Chime(&'a Chime<'s>),
    /// A SMART index.
    Smart(&'a Smart<'s>),
    /// A Sherman index with items.
    ShermanItems(&'a Items<'i, Sherman<'s>>),
    /// A CHIME index with items.
    ChimeItems(&'a Items<'i, Chime<'s>>),
    /// A SMART index with items.
    SmartItems(&'a Items<'i, Smart<'s>>),
}

/// Builds an index with its storage and passes it to `run`.
pub fn with_index<R>(
    place: &Place<'_>,
    parameters: &IndexParameters,
    spending: &Spending,
    run: impl FnOnce(AnyIndex<'_, '_, '_>) -> R,
) -> Result<R, AssemblyError> {
    match parameters {
        IndexParameters::Sherman(parameters) => {
            with_sherman(place, parameters, spending, |index| run(AnyIndex::Sherman(index)))
        }
        IndexParameters::Chime(parameters) => {
            with_chime(place, parameters, spending, |index| run(AnyIndex::Chime(index)))
        }
        IndexParameters::Smart(parameters) => {
            with_smart(place, parameters, spending, |index| run(AnyIndex::Smart(index)))
        }
        IndexParameters::ShermanItems(parameters, items) => with_sherman(place, parameters, spending, |below| {
            with_items(place, below, below.tree().requests, items, spending, |index| run(AnyIndex::ShermanItems(index)))
        })?,
        IndexParameters::ChimeItems(parameters, items) => with_chime(place, parameters, spending, |below| {
            with_items(place, below, below.tree().requests, items, spending, |index| run(AnyIndex::ChimeItems(index)))
        })?,
        IndexParameters::SmartItems(parameters, items) => with_smart(place, parameters, spending, |below| {
            with_items(place, below, below.requests(), items, spending, |index| run(AnyIndex::SmartItems(index)))
        })?,
    }
}

macro_rules! either {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            AnyIndex::Sherman($index) => $call,
            AnyIndex::Chime($index) => $call,
            AnyIndex::Smart($index) => $call,
            AnyIndex::ShermanItems($index) => $call,
            AnyIndex::ChimeItems($index) => $call,
            AnyIndex::SmartItems($index) => $call,
        }
    };
}

impl Index for AnyIndex<'_, '_, '_> {
    fn plan(&self) -> &ScratchPlan {
        either!(self, index => Index::plan(*index))
    }

    fn assumptions(&self) -> Assumptions {
        either!(self, index => index.assumptions())
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        either!(self, index => index.execute(lane, operation).await)
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        either!(self, index => index.settle(lane).await)
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        either!(self, index => index.validate(lane).await)
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        either!(self, index => index.sweep(lane, row).await)
    }

    async fn adopt<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Adopted, OpError> {
        either!(self, index => index.adopt(lane).await)
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        either!(self, index => index.bulk_append(lane).await)
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        either!(self, index => index.bulk_finish(lane).await)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        either!(self, index => index.cache_bytes())
    }
}
