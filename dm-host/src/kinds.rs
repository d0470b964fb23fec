//! Indexes of whichever kind: what the catalog says decides.

use crate::assembly::{AssemblyError, Place, Spending, with_chime, with_sherman, with_smart};
use dm_core::chime::{Chime, parameters as chime};
use dm_core::error::OpError;
use dm_core::index::{Census, Index, Operation, Outcome, ScratchPlan};
use dm_core::lane::Lane;
use dm_core::radix::slot::{NODE_BYTES_MAX, NodeType};
use dm_core::reclaim::Adopted;
use dm_core::recovery::sweep::Swept;
use dm_core::remote::catalog::{IndexEntry, IndexKind, PARAMETER_BYTES};
use dm_core::remote::lock_word::RowId;
use dm_core::sherman::{Sherman, parameters as sherman};
use dm_core::smart::{Smart, parameters as smart};
use dm_core::verbs::Assumptions;
use std::fmt;
use thiserror::Error;

/// What is fixed when an index is created, and which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexParameters {
    /// A Sherman.
    Sherman(sherman::Parameters),
    /// A CHIME.
    Chime(chime::Parameters),
    /// A SMART.
    Smart(smart::Parameters),
}

/// Parameters that do not make an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexParameterError {
    /// Of a Sherman.
    #[error(transparent)]
    Sherman(#[from] sherman::ParameterError),
    /// Of a CHIME.
    #[error(transparent)]
    Chime(#[from] chime::ParameterError),
    /// Of a SMART.
    #[error(transparent)]
    Smart(#[from] smart::ParameterError),
    /// An index of a kind that this program does not have.
    #[error("this program has no {} indexes", .0.name())]
    Kind(IndexKind),
}

impl fmt::Display for IndexParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, key, value) = (self.kind().name(), self.key_bytes(), self.value_bytes());
        write!(f, "{kind} with keys of {key} and values of {value} bytes")?;
        match self {
            Self::Sherman(sherman::Parameters { leaf_span, inner_span, .. }) => {
                write!(f, ", {leaf_span} entries a leaf, {inner_span} separators an inner node")
            }
            Self::Chime(chime::Parameters { leaf_span, neighborhood, inner_span, .. }) => write!(
                f,
                ", {leaf_span} entries a leaf in neighborhoods of {neighborhood}, {inner_span} separators an inner node"
            ),
            Self::Smart(_) => Ok(()),
        }
    }
}

impl From<IndexParameterError> for AssemblyError {
    fn from(error: IndexParameterError) -> Self {
        match error {
            IndexParameterError::Sherman(error) => error.into(),
            IndexParameterError::Chime(error) => error.into(),
            IndexParameterError::Smart(error) => error.into(),
            IndexParameterError::Kind(_) => Self::Impossible("an index of a kind that this program does not have"),
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
    /// The paper's sizes of nodes, for keys and values of these sizes. Only sizes that pass [`IndexParameters::check`] are
    /// of use.
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

    /// Reads and checks the block of a catalog entry.
    pub fn decode(kind: IndexKind, version: u16, block: &[u8; PARAMETER_BYTES]) -> Result<Self, IndexParameterError> {
        match kind {
            IndexKind::Sherman => Ok(Self::Sherman(sherman::Parameters::decode(version, block)?)),
            IndexKind::Chime => Ok(Self::Chime(chime::Parameters::decode(version, block)?)),
            IndexKind::Smart => Ok(Self::Smart(smart::Parameters::decode(version, block)?)),
            kind => Err(IndexParameterError::Kind(kind)),
        }
    }

    /// As [`IndexParameters::decode`], of an entry.
    pub fn of(entry: &IndexEntry) -> Result<Self, IndexParameterError> {
        Self::decode(entry.kind, entry.parameters_version, &entry.parameters)
    }

    /// The block for a catalog entry, and its version.
    pub fn encode(&self) -> ([u8; PARAMETER_BYTES], u16) {
        match self {
            Self::Sherman(parameters) => (parameters.encode(), sherman::Parameters::VERSION),
            Self::Chime(parameters) => (parameters.encode(), chime::Parameters::VERSION),
            Self::Smart(parameters) => (parameters.encode(), smart::Parameters::VERSION),
        }
    }

    /// Checks every limit.
    pub fn check(&self) -> Result<(), IndexParameterError> {
        match self {
            Self::Sherman(parameters) => parameters.check()?,
            Self::Chime(parameters) => parameters.check()?,
            Self::Smart(parameters) => parameters.check()?,
        }
        Ok(())
    }

    /// Whether others can go on when a compute node dies with a lock of such an index in its hands.
    pub const fn recovers(&self) -> bool {
        matches!(self, Self::Sherman(_) | Self::Chime(_) | Self::Smart(_))
    }

    /// Whether an index of this kind retires nodes, so that old pointers to them matter.
    pub const fn retires(&self) -> bool {
        matches!(self, Self::Sherman(_) | Self::Chime(_))
    }

    /// Which kind.
    pub const fn kind(&self) -> IndexKind {
        match self {
            Self::Sherman(_) => IndexKind::Sherman,
            Self::Chime(_) => IndexKind::Chime,
            Self::Smart(_) => IndexKind::Smart,
        }
    }

    /// Bytes of every key.
    pub const fn key_bytes(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.key_bytes,
            Self::Chime(parameters) => parameters.key_bytes,
            Self::Smart(parameters) => parameters.key_bytes,
        }
    }

    /// Bytes of every value.
    pub const fn value_bytes(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.value_bytes,
            Self::Chime(parameters) => parameters.value_bytes,
            Self::Smart(parameters) => parameters.value_bytes,
        }
    }

    /// Entries of a leaf. A SMART's has one.
    pub const fn leaf_span(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.leaf_span,
            Self::Chime(parameters) => parameters.leaf_span,
            Self::Smart(_) => 1,
        }
    }

    /// Chooses another number of entries of a leaf, where there is a choice.
    pub const fn set_leaf_span(&mut self, span: usize) {
        match self {
            Self::Sherman(parameters) => parameters.leaf_span = span,
            Self::Chime(parameters) => parameters.leaf_span = span,
            Self::Smart(_) => {}
        }
    }

    /// Separators of an inner node; slots of the largest node of a SMART.
    pub const fn inner_span(&self) -> usize {
        match self {
            Self::Sherman(parameters) => parameters.inner_span,
            Self::Chime(parameters) => parameters.inner_span,
            Self::Smart(_) => NodeType::LARGEST.slots(),
        }
    }

    /// Bytes of the largest WRITE that may need a redo image.
    pub const fn redo_bytes(&self) -> usize {
        match (self, self.node_bytes()) {
            (Self::Smart(parameters), _) => parameters.leaf().write_bytes(),
            (_, (leaf, inner)) if leaf > inner => leaf,
            (_, (_, inner)) => inner,
        }
    }

    /// Bytes of a leaf's place and of an inner node, the largest one if they differ.
    pub const fn node_bytes(&self) -> (usize, usize) {
        match self {
            Self::Sherman(parameters) => (parameters.leaf().bytes, parameters.inner().bytes),
            Self::Chime(parameters) => (parameters.leaf().place_bytes(), parameters.inner().bytes),
            Self::Smart(parameters) => (parameters.leaf().place_bytes, NODE_BYTES_MAX),
        }
    }
}

/// An index of whichever kind, put together.
#[derive(Clone, Copy)]
pub enum AnyIndex<'a, 's> {
    /// A Sherman.
    Sherman(&'a Sherman<'s>),
    /// A CHIME.
    Chime(&'a Chime<'s>),
    /// A SMART.
    Smart(&'a Smart<'s>),
}

/// Builds an index with its storage and passes it to `run`.
pub fn with_index<R>(
    place: &Place<'_>,
    parameters: &IndexParameters,
    spending: &Spending,
    run: impl FnOnce(AnyIndex<'_, '_>) -> R,
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
    }
}

macro_rules! either {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            AnyIndex::Sherman($index) => $call,
            AnyIndex::Chime($index) => $call,
            AnyIndex::Smart($index) => $call,
        }
    };
}

impl Index for AnyIndex<'_, '_> {
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
