//! What is tested: an index, and how to put it on a simulated fabric.

use super::draw::Draw;
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::error::OpError;
use dm_core::index::{Census, Index, Operation, Outcome, ScratchPlan};
use dm_core::lane::Lane;
use dm_core::recovery::sweep::Swept;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Assumptions, Guarantees};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future of an index whose type is not known.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, OpError>> + 'a>>;

/// An index as one compute node has opened it.
pub trait Opened {
    /// See [`Index::plan`].
    fn plan(&self) -> &ScratchPlan;
    /// See [`Index::execute`].
    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Boxed<'a, Outcome>;
    /// See [`Index::settle`].
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::validate`].
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, Census>;
    /// See [`Index::bulk_append`].
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::bulk_finish`].
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::sweep`].
    fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Boxed<'a, Swept>;
    /// Local locks that have a holder.
    fn locks_held(&self) -> usize;
}

/// Makes an [`Opened`] of an index and of how many local locks of it are held.
pub struct With<'i, I, H>(pub &'i I, pub H);

impl<I: Index, H: Fn(&I) -> usize> Opened for With<'_, I, H> {
    fn plan(&self) -> &ScratchPlan {
        self.0.plan()
    }
    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Boxed<'a, Outcome> {
        Box::pin(self.0.execute(lane, operation))
    }
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.settle(lane))
    }
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, Census> {
        Box::pin(self.0.validate(lane))
    }
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.bulk_append(lane))
    }
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.bulk_finish(lane))
    }
    fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Boxed<'a, Swept> {
        Box::pin(self.0.sweep(lane, row))
    }
    fn locks_held(&self) -> usize {
        (self.1)(self.0)
    }
}

/// An index to test.
pub trait Subject {
    /// What a seed decides about this index: spans, options, sizes.
    type Case: fmt::Debug;

    /// Its name.
    fn name(&self) -> &'static str;

    /// Draws a case; `rng` is the case's own.
    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Self::Case;

    /// What the fabric must grant in this case.
    fn assumptions(&self, draw: &Draw, case: &Self::Case) -> Assumptions;

    /// Writes into zeroed memories what an index finds there when it is opened for the first time.
    fn format(&self, case: &Self::Case, config: &Config, memories: &mut Memories);

    /// Opens the index for every compute node of `draw` and calls `then`. `guarantees` is what the fabric says.
    fn open(
        &self,
        draw: &Draw,
        case: &Self::Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String>;

    /// Lock words in the memories that name a holder.
    fn remote_locks_held(&self, case: &Self::Case, config: &Config, memories: &Memories) -> usize;
}
