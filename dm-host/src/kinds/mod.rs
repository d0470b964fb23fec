//! Indexes of any kind: the catalog entry says which.
//!
//! A kind has one file here, with what this crate has to know of it: [`Kind`]. Keys and values of any length are
//! an option of an index of any kind: see [`Form`].

mod chime;
mod dex;
mod dolphin;
pub mod parameters;
mod radix;
pub mod root;
mod sherman;
mod smart;
mod toy;

use crate::assembly::{AssemblyError, Place, Spending, with_items};
use crate::checked::Checked;
use dm_core::index::Index;
use dm_core::items::Items;
use dm_core::lane::Lane;
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Census, OpError, Operation, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::registry::{KindParameters, ParameterError};
use dm_core::remote::catalog::{IndexNumber, IndexSet};
use dm_core::remote::chunk::ChunkKind;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::{LoadWord, OwnerWord};
use dm_core::verbs::{Assumptions, NodeId};
use dm_core::{for_each_kind, match_kind};
pub use parameters::{Below, IndexParameterError, IndexParameters};
use root::Evidence;
use std::slice;

/// What this crate has to know of a kind of index, by its parameters.
pub trait Kind: KindParameters + 'static {
    /// The index.
    type Index<'s>: Index;

    /// Builds the index on a compute node for each of `places`, with its storage, and passes them to `run`, once. Not
    /// generic over `run`: a program has dozens of these, and would have as many copies of the assembly.
    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Self::Index<'_>]),
    ) -> Result<(), AssemblyError>;

    /// As [`Kind::build_each`]; returns what `run` returns.
    fn with_each<R>(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: impl FnOnce(&[Self::Index<'_>]) -> R,
    ) -> Result<R, AssemblyError> {
        let (mut run, mut result) = (Some(run), None);
        self.build_each(places, spending, &mut |indexes| result = run.take().map(|run| run(indexes)))?;
        result.ok_or(AssemblyError::Impossible("an index that was not run"))
    }

    /// Builds the index on one compute node, with its storage, and passes it to `run`.
    fn with<R>(
        &self,
        place: &Place<'_>,
        spending: &Spending,
        run: impl FnOnce(&Self::Index<'_>) -> R,
    ) -> Result<R, AssemblyError> {
        let of_one = |indexes: &[Self::Index<'_>]| indexes.first().map(run);
        self.with_each(slice::from_ref(place), spending, of_one)?.ok_or(AssemblyError::Impossible("an index nowhere"))
    }

    /// Whether keys are cut at quantiles of a sample, which the creator has to give.
    fn cuts_at_quantiles(&self) -> bool {
        false
    }

    /// The image of the ownership table of a new index, whose keys are cut at `boundaries`; or at quantiles of these keys, if
    /// the parameters say so. `None`: the index has none, or the first compute node that opens it makes it. `Err`: these keys
    /// make none.
    fn table(
        &self,
        number: IndexNumber,
        pool_incarnation: u64,
        boundaries: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, ParameterError> {
        let _ = (number, pool_incarnation);
        if boundaries.is_empty() {
            return Ok(None);
        }
        Err(ParameterError::Boundaries {
            entry: 1,
            what: "the index does not cut its keys at boundaries that are given",
        })
    }

    /// What numbers the index's requests for chunks; what makes keys and values of any length over it shares the numbers.
    fn requests<'i>(index: &'i Self::Index<'_>) -> &'i RequestIds;

    /// What in a chunk of `chunk` shows that index `number` had a root. `None`: nothing does.
    fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>>;
}

/// An index of one kind, put together: as it is, or with keys and values of any length over it.
pub enum Form<'a, 'i, I> {
    /// Keys and values of one size.
    Plain(&'a Checked<'a, I>),
    /// Keys and values of any length: see [`dm_core::items`].
    Items(&'a Checked<'a, Items<'i, I>>),
}

impl<I> Clone for Form<'_, '_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Form<'_, '_, I> {}

impl<'a, 'i, I: Index> Form<'a, 'i, I> {
    /// The index, or the one below keys and values of any length.
    pub fn below(&self) -> &'a I {
        match *self {
            Self::Plain(index) => index.stored(),
            Self::Items(items) => items.stored().below(),
        }
    }

    /// What makes keys and values of any length; `None`: they have one size.
    pub const fn items(&self) -> Option<&'a Items<'i, I>> {
        match *self {
            Self::Plain(_) => None,
            Self::Items(items) => Some(items.stored()),
        }
    }
}

/// One expression for an index of any kind, with keys and values of one size or of any length:
/// `match_index!(any, index => expression)`. The expression is compiled for each on its own.
#[macro_export]
macro_rules! match_index {
    ($any:expr, $index:ident => $expression:expr) => {{
        use $crate::kinds::{AnyIndex, Form};
        ::dm_core::match_kind!($any, AnyIndex(form) => match form {
            Form::Plain($index) => $expression,
            Form::Items($index) => $expression,
        })
    }};
}

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        /// An index of any kind, put together.
        #[derive(Clone, Copy)]
        pub enum AnyIndex<'a, 'i, 's> {
            $(
                #[doc = concat!("See [`dm_core::", stringify!($kind), "`].")]
                $Kind(Form<'a, 'i, dm_core::$kind::$Kind<'s>>),
            )*
        }

        /// Builds an index with its storage and passes it to `run`, once. Not generic over `run`, as
        /// [`Kind::build_each`].
        fn build(
            place: &Place<'_>,
            parameters: &IndexParameters,
            spending: &Spending,
            run: &mut dyn FnMut(AnyIndex<'_, '_, '_>),
        ) -> Result<(), AssemblyError> {
            match (&parameters.below, &parameters.any_length) {
                $(
                    (Below::$Kind(below), None) => below.with(place, spending, |index| {
                        run(AnyIndex::$Kind(Form::Plain(&Checked::new(index, parameters.checksums))))
                    }),
                    (Below::$Kind(below), Some(lengths)) => below.with(place, spending, |index| {
                        let requests = <dm_core::$kind::parameters::Parameters as Kind>::requests(index);
                        with_items(place, index, requests, lengths, spending, |index| {
                            run(AnyIndex::$Kind(Form::Items(&Checked::new(index, parameters.checksums))))
                        })
                    })?,
                )*
            }
        }
    };
}

for_each_kind! { [kinds] }

impl From<ParameterError> for AssemblyError {
    fn from(error: ParameterError) -> Self {
        Self::Parameters(error.into())
    }
}

/// Builds an index with its storage and passes it to `run`.
pub fn with_index<R>(
    place: &Place<'_>,
    parameters: &IndexParameters,
    spending: &Spending,
    run: impl FnOnce(AnyIndex<'_, '_, '_>) -> R,
) -> Result<R, AssemblyError> {
    let (mut run, mut result) = (Some(run), None);
    build(place, parameters, spending, &mut |index| result = run.take().map(|run| run(index)))?;
    result.ok_or(AssemblyError::Impossible("an index that was not run"))
}

impl AnyIndex<'_, '_, '_> {
    /// Takes all parts of the index, or of the one below keys and values of any length, unless a compute node that lives
    /// has one: then the error is [`NotOwner`](dm_core::operation::Cause::NotOwner). See [`Index::take_part`]. Returns how
    /// many parts there are; 0: keys have no owners.
    pub async fn take_all_parts(&self, lane: &Lane<'_>) -> Result<u32, OpError> {
        match_kind!(self, AnyIndex(form) => {
            let below = form.below();
            let parts = below.parts(lane).await?;
            for part in 0..parts {
                below.take_part(lane, part).await?;
            }
            Ok(parts)
        })
    }
}

impl IndexParameters {
    /// See [`Kind::cuts_at_quantiles`].
    pub(crate) fn cuts_at_quantiles(&self) -> bool {
        self.any_length.is_none() && match_kind!(&self.below, Below(below) => below.cuts_at_quantiles())
    }

    /// See [`Kind::table`].
    pub(crate) fn table(
        &self,
        number: IndexNumber,
        pool_incarnation: u64,
        boundaries: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, IndexParameterError> {
        Ok(match_kind!(&self.below, Below(below) => below.table(number, pool_incarnation, boundaries))?)
    }

    /// See [`Kind::evidence`].
    pub(crate) fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        match_kind!(&self.below, Below(below) => below.evidence(number, chunk))
    }
}

impl Index for AnyIndex<'_, '_, '_> {
    fn plan(&self) -> &ScratchPlan {
        match_index!(self, index => Index::plan(*index))
    }

    fn assumptions(&self) -> Assumptions {
        match_index!(self, index => index.assumptions())
    }

    fn ask_ahead(&self, lane: &Lane<'_>) -> bool {
        match_index!(self, index => index.ask_ahead(lane))
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        match_index!(self, index => index.execute(lane, operation).await)
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_index!(self, index => index.settle(lane).await)
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        match_index!(self, index => index.validate(lane).await)
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        match_index!(self, index => index.sweep(lane, row, done).await)
    }

    async fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Result<CollectedOrphans, OpError> {
        match_index!(self, index => index.collect_orphans(lane).await)
    }

    async fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_index!(self, index => index.leave(lane).await)
    }

    async fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<u32, OpError> {
        match_index!(self, index => index.parts(lane).await)
    }

    fn has_parts(&self) -> bool {
        match_index!(self, index => index.has_parts())
    }

    async fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Result<(), OpError> {
        match_index!(self, index => index.take_part(lane, part).await)
    }

    async fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_index!(self, index => index.keep_parts(lane).await)
    }

    async fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Result<(), OpError> {
        match_index!(self, index => index.move_part(lane, part, to, wait_ns).await)
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        match_index!(self, index => index.cut_part(lane, key, wait_ns).await)
    }

    async fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> Result<u64, OpError> {
        match_index!(self, index => index.vacate_part(lane, part, from, wait_ns).await)
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        match_index!(self, index => index.part(part))
    }

    fn part_of(&self, key: &[u8]) -> u32 {
        match_index!(self, index => index.part_of(key))
    }

    fn forwards_steps(&self) -> bool {
        match_index!(self, index => index.forwards_steps())
    }

    fn served_plan(&self) -> &ScratchPlan {
        match_index!(self, index => index.served_plan())
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_index!(self, index => index.bulk_append(lane).await)
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_index!(self, index => index.bulk_finish(lane).await)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        match_index!(self, index => index.cache_bytes())
    }
}
