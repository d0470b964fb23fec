//! A subject with the case of a seed, on the fabric of that seed: [`Prepared`] hides their types.

use super::accounting::Holdings;
use super::coding::Coding;
use super::draw::Draw;
use super::membership::Membership;
use super::subject::{AfterDeath, HeldLock, InnerNodeImages, Joining, Opened, PoolState, Subject};
use crate::config::Config;
use crate::memory::Memories;
use dm_core::lane::Lane;
use dm_core::operation::Census;
use dm_core::remote::row::Member;
use dm_core::verbs::{Guarantees, NodeId};
use std::cell::Cell;

/// The methods of [`Subject`] of the same names.
pub trait Prepared {
    /// See [`Subject::coding`].
    fn coding(&self) -> Coding;
    /// See [`Subject::remote_locks_held`].
    fn remote_locks_held(&self, memories: &Memories) -> Vec<HeldLock>;
    /// See [`Subject::unaccounted`].
    fn unaccounted(&self, census: &Census, stayed: u64) -> Option<String>;
    /// See [`Subject::pool_state`].
    fn pool_state(&self, memories: &Memories, down: Option<NodeId>) -> Option<PoolState>;
    /// See [`Subject::rows`].
    fn rows(&self) -> Vec<u64>;
    /// See [`Subject::after_death`].
    fn after_death(&self) -> AfterDeath;
    /// See [`Subject::inner_node_images`].
    fn inner_node_images(&self, memories: &Memories) -> InnerNodeImages;
    /// See [`Subject::holdings`].
    fn holdings(&self, memories: &Memories) -> Option<Result<Holdings, String>>;
    /// See [`Subject::bulk_loads`].
    fn bulk_loads(&self) -> bool;
    /// See [`Subject::holds_all_blocks`].
    fn holds_all_blocks(&self) -> bool;
    /// See [`Subject::collects_all`].
    fn collects_all(&self) -> bool;
    /// See [`Subject::loses_with_owners`].
    fn loses_with_owners(&self) -> bool;
    /// See [`Subject::never_leaks`].
    fn never_leaks(&self) -> bool;
    /// See [`Subject::join`].
    fn join<'l>(&'l self, number: usize, lane: &'l Lane<'_>, claimed: &'l Cell<Option<Member>>) -> Joining<'l>;
    /// See [`Subject::open_later`].
    fn open_later(
        &self,
        number: usize,
        membership: &Membership,
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String>;
}

/// Makes a [`Prepared`] of a subject.
pub struct OnFabric<'a, S: Subject> {
    /// The subject.
    pub subject: &'a S,
    /// What the seed decides about a history.
    pub draw: &'a Draw,
    /// What the seed decides about the index.
    pub case: &'a S::Case,
    /// The fabric.
    pub config: &'a Config,
    /// What the fabric claims.
    pub guarantees: Guarantees,
}

impl<S: Subject> Prepared for OnFabric<'_, S> {
    fn coding(&self) -> Coding {
        self.subject.coding(self.draw, self.case)
    }
    fn remote_locks_held(&self, memories: &Memories) -> Vec<HeldLock> {
        self.subject.remote_locks_held(self.case, self.config, memories)
    }
    fn unaccounted(&self, census: &Census, stayed: u64) -> Option<String> {
        self.subject.unaccounted(self.case, census, stayed)
    }
    fn pool_state(&self, memories: &Memories, down: Option<NodeId>) -> Option<PoolState> {
        self.subject.pool_state(self.case, self.config, memories, down)
    }
    fn rows(&self) -> Vec<u64> {
        self.subject.rows(self.case, self.config)
    }
    fn after_death(&self) -> AfterDeath {
        self.subject.after_death()
    }
    fn inner_node_images(&self, memories: &Memories) -> InnerNodeImages {
        self.subject.inner_node_images(self.case, self.config, memories)
    }
    fn holdings(&self, memories: &Memories) -> Option<Result<Holdings, String>> {
        self.subject.holdings(self.case, self.config, memories)
    }
    fn bulk_loads(&self) -> bool {
        self.subject.bulk_loads(self.case)
    }
    fn holds_all_blocks(&self) -> bool {
        self.subject.holds_all_blocks(self.case)
    }
    fn collects_all(&self) -> bool {
        self.subject.collects_all(self.case)
    }
    fn loses_with_owners(&self) -> bool {
        self.subject.loses_with_owners(self.case)
    }
    fn never_leaks(&self) -> bool {
        self.subject.never_leaks(self.case)
    }
    fn join<'l>(&'l self, number: usize, lane: &'l Lane<'_>, claimed: &'l Cell<Option<Member>>) -> Joining<'l> {
        self.subject.join(self.case, self.config, number, lane, claimed)
    }
    fn open_later(
        &self,
        number: usize,
        membership: &Membership,
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String> {
        self.subject.open_later(self.case, self.config, self.guarantees, (number, membership), then)
    }
}
