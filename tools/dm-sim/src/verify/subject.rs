//! The subject of a test: an index, and how to set it up on a simulated fabric.

use super::accounting::{Holdings, Node};
use super::coding::Coding;
use super::draw::Draw;
use super::membership::Membership;
use super::wide::WideOptions;
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::index::Index;
use dm_core::index::forward::{self, Forwarder};
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::Lease;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::memory::rows::RowError;
use dm_core::operation::{Cause, Census, Effect, OpError, Operation, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future of an index whose type is not known.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, OpError>> + 'a>>;

/// Access to the inside of an index for tests, besides its operations.
pub trait TestAccess: Index {
    /// Local lock table entries that have a holder.
    fn locks_held(&self) -> usize;

    /// Calls `visit` with every node that this compute node could use next, and that no pointer leads to.
    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        let _ = visit;
    }

    /// Bytes that this compute node took out of the index and that are never used again.
    fn retired_bytes(&self) -> u64 {
        0
    }

    /// Places for nodes that this compute node could not remember, since its lists were full.
    fn left_places(&self) -> u64 {
        0
    }

    /// Replaces copies of inner nodes by the older ones of `images`. Without images, all copies are dropped.
    fn restore_copies(&self, images: &InnerNodeImages) {
        let _ = images;
    }

    /// Makes the next orphan collection include this compute node's own chunks. Returns `false` if the index has no
    /// mark-and-sweep collection.
    fn demand_collection(&self) -> bool {
        false
    }

    /// Whether the index takes part in the pool's epochs.
    fn has_epochs(&self) -> bool {
        false
    }

    /// Records for which the index has room, however many chunks the pool has left.
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    /// A turn, as a keeper makes with every heartbeat, if the index takes part in the pool's epochs.
    fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        let _ = lane;
        async { Ok(()) }
    }

    /// The same, so long after the last one that a compute node which did nothing meanwhile may be dead: see
    /// [`Participant::turn_after`]. An index that fences nobody for the epochs makes a turn.
    ///
    /// [`Participant::turn_after`]: dm_core::memory::Participant::turn_after
    fn turn_after<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        waited: (u64, u64),
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        let _ = waited;
        self.turn(lane)
    }
}

/// The result of [`TestAccess::turn`].
pub(super) fn turned(end: Result<(), RowError>) -> Result<(), OpError> {
    end.map_err(|error| match error {
        RowError::Verb(error) => error.into(),
        RowError::Fenced { .. } => OpError { cause: Cause::Fenced, effect: Effect::None },
        _ => OpError { cause: Cause::BadInput("the compute-node rows cannot be read"), effect: Effect::None },
    })
}

/// The inner nodes of an index, as they were in remote memory at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InnerNodeImages {
    /// The root and its level.
    pub root: Option<(Address, u8)>,
    /// Inner nodes that were not torn: address and image.
    pub nodes: Vec<(Address, Vec<u8>)>,
    /// The pool's epoch at that time.
    pub epoch: u32,
}

/// The future of a compute node that joins.
pub type Joining<'l> = Pin<Box<dyn Future<Output = Result<Membership, String>> + 'l>>;

/// An index that one compute node has opened; it hides the type.
pub trait Opened {
    /// See [`Index::plan`].
    fn plan(&self) -> &ScratchPlan;
    /// See [`Index::served_plan`].
    fn served_plan(&self) -> &ScratchPlan;
    /// See [`Index::forwards_steps`].
    fn forwards_steps(&self) -> bool;
    /// See [`Index::ask_ahead`]. Processors of histories have no caches.
    fn ask_ahead(&self, lane: &Lane<'_>);
    /// See [`Index::execute`].
    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Boxed<'a, Outcome>;
    /// See [`forward::execute`].
    fn forward<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation, forwarder: &'a Forwarder) -> Boxed<'a, Outcome>;
    /// See [`Index::settle`].
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::validate`].
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, Census>;
    /// See [`Index::bulk_append`].
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::bulk_finish`].
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::sweep`].
    fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Boxed<'a, Swept>;
    /// See [`Index::collect_orphans`].
    fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, CollectedOrphans>;
    /// See [`TestAccess::locks_held`].
    fn locks_held(&self) -> usize;
    /// See [`TestAccess::for_each_ready`].
    fn for_each_ready(&self, visit: &mut dyn FnMut(Node));
    /// See [`TestAccess::retired_bytes`].
    fn retired_bytes(&self) -> u64;
    /// See [`TestAccess::left_places`].
    fn left_places(&self) -> u64;
    /// See [`TestAccess::restore_copies`].
    fn restore_copies(&self, images: &InnerNodeImages);
    /// See [`TestAccess::demand_collection`].
    fn demand_collection(&self) -> bool;
    /// See [`TestAccess::has_epochs`].
    fn has_epochs(&self) -> bool;
    /// See [`TestAccess::capacity`].
    fn capacity(&self) -> u64;
    /// See [`Index::has_parts`].
    fn has_owners(&self) -> bool;
    /// See [`Index::owner_of`].
    fn owner_of(&self, key: &[u8]) -> Option<RowId>;
    /// See [`Index::leave`].
    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::parts`].
    fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, u32>;
    /// See [`Index::take_part`].
    fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Boxed<'a, ()>;
    /// See [`Index::keep_parts`].
    fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`Index::move_part`].
    fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Boxed<'a, ()>;
    /// See [`Index::vacate_part`].
    fn vacate_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, from: NodeId, wait_ns: u64) -> Boxed<'a, u64>;
    /// The row of a part's owner, as this compute node saw it last.
    fn owner_of_part(&self, part: u32) -> Option<RowId>;
    /// See [`Index::cut_part`].
    fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Boxed<'a, ()>;
    /// See [`TestAccess::turn`].
    fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()>;
    /// See [`TestAccess::turn_after`].
    fn turn_after<'a>(&'a self, lane: &'a Lane<'_>, waited: (u64, u64)) -> Boxed<'a, ()>;
    /// The lease of its compute node, if that is recovered.
    fn lease(&self) -> Option<&Lease>;
}

/// Makes an [`Opened`] of an index, and of the lease of its compute node.
pub struct With<'i, I>(pub &'i I, pub Option<&'i Lease>);

impl<I: TestAccess> Opened for With<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        self.0.plan()
    }
    fn served_plan(&self) -> &ScratchPlan {
        self.0.served_plan()
    }
    fn forwards_steps(&self) -> bool {
        self.0.forwards_steps()
    }
    fn ask_ahead(&self, lane: &Lane<'_>) {
        // Not while the operation runs, which would wait for the lines of other copies.
        lane.port().set_fetch(Some(|_| {}));
        self.0.ask_ahead(lane);
        lane.port().set_fetch(None);
    }
    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Boxed<'a, Outcome> {
        Box::pin(self.0.execute(lane, operation))
    }
    fn forward<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation, forwarder: &'a Forwarder) -> Boxed<'a, Outcome> {
        Box::pin(forward::execute(self.0, lane, operation, forwarder))
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
    fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Boxed<'a, Swept> {
        Box::pin(self.0.sweep(lane, row, done))
    }
    fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, CollectedOrphans> {
        Box::pin(self.0.collect_orphans(lane))
    }
    fn locks_held(&self) -> usize {
        self.0.locks_held()
    }
    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        self.0.for_each_ready(visit);
    }
    fn retired_bytes(&self) -> u64 {
        self.0.retired_bytes()
    }
    fn left_places(&self) -> u64 {
        self.0.left_places()
    }
    fn restore_copies(&self, images: &InnerNodeImages) {
        self.0.restore_copies(images);
    }
    fn demand_collection(&self) -> bool {
        self.0.demand_collection()
    }
    fn has_epochs(&self) -> bool {
        self.0.has_epochs()
    }
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }
    fn has_owners(&self) -> bool {
        self.0.has_parts()
    }
    fn owner_of(&self, key: &[u8]) -> Option<RowId> {
        self.0.owner_of(key)
    }
    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.leave(lane))
    }
    fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, u32> {
        Box::pin(self.0.parts(lane))
    }
    fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Boxed<'a, ()> {
        Box::pin(self.0.take_part(lane, part))
    }
    fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.keep_parts(lane))
    }
    fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Boxed<'a, ()> {
        Box::pin(self.0.move_part(lane, part, to, wait_ns))
    }
    fn vacate_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, from: NodeId, wait_ns: u64) -> Boxed<'a, u64> {
        Box::pin(self.0.vacate_part(lane, part, from, wait_ns))
    }

    fn owner_of_part(&self, part: u32) -> Option<RowId> {
        self.0.part(part).map(|(word, _)| word.row())
    }

    fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Boxed<'a, ()> {
        Box::pin(self.0.cut_part(lane, key, wait_ns))
    }
    fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Boxed<'a, ()> {
        Box::pin(self.0.turn(lane))
    }
    fn turn_after<'a>(&'a self, lane: &'a Lane<'_>, waited: (u64, u64)) -> Boxed<'a, ()> {
        Box::pin(self.0.turn_after(lane, waited))
    }
    fn lease(&self) -> Option<&Lease> {
        self.1
    }
}

/// A lock word that names a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The memory node whose memory it is in.
    pub node: NodeId,
    /// The row it names.
    pub row: RowId,
    /// Where it is: in a lock table, or else in a leaf, and its offset.
    pub place: (bool, u64),
    /// The word.
    pub word: u64,
    /// Several may hold it at a time.
    pub is_shared: bool,
}

/// What only the pool's memories tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Rows that were joined and are not LIVE.
    pub not_live: Vec<RowId>,
    /// Chunks that may be granted to an operation, on all memory nodes but one that is down. 0 also if the operation may need
    /// several of one memory node, and one has too few.
    pub free_chunks: u32,
}

/// What survivors have to do when a compute node has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeath {
    /// Nothing is taken over: locks of dead compute nodes stay held. An operation that needs such a lock ends with an
    /// error within its deadline. No result may be wrong.
    Bounded,
    /// Survivors take over: none of their operations fails. In the end no lock is held and the structure is sound.
    Recovered,
}

/// An index to test.
pub trait Subject {
    /// What a seed decides about this index: spans, options, sizes.
    type Case: fmt::Debug;

    /// Its name.
    fn name(&self) -> String;

    /// Its coverage marks, by the room that counts them.
    fn marks(&self) -> Vec<(&'static str, &'static [Mark])>;

    /// Marks that are rare by construction, so that a long run may end without them.
    fn rare_marks(&self) -> &'static [Mark] {
        &[]
    }

    /// The options that its histories may have.
    fn wide_options(&self) -> WideOptions {
        WideOptions::NONE
    }

    /// The options that all its histories have.
    fn always(&self) -> WideOptions {
        WideOptions::NONE
    }

    /// Draws a case; `rng` is used for nothing else.
    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Self::Case;

    /// What the fabric must grant in this case.
    fn assumptions(&self, draw: &Draw, case: &Self::Case) -> Assumptions;

    /// How numbers become this case's keys.
    fn coding(&self, draw: &Draw, case: &Self::Case) -> Coding {
        let _ = case;
        Coding::shifted(draw.key_shift)
    }

    /// Changes the fabric's settings for this case.
    fn configure_fabric(&self, case: &Self::Case, config: &mut Config) {
        let _ = (case, config);
    }

    /// Writes into zeroed memories what the index needs there when it is opened for the first time.
    fn format(&self, case: &Self::Case, config: &Config, memories: &mut Memories);

    /// Bytes of host memory for memory nodes with `chunks` chunks each beside those that `memories` have granted.
    fn small_pool(&self, case: &Self::Case, config: &Config, memories: &Memories, chunks: u32) -> Option<Vec<usize>> {
        let _ = (case, config, memories, chunks);
        None
    }

    /// Opens the index for every compute node of `draw` and calls `then`. `guarantees` is what the fabric claims.
    fn open(
        &self,
        draw: &Draw,
        case: &Self::Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String>;

    /// Joins as compute node `number` of the history, on a lane of it, while others work. As soon as it has a row, `claimed`
    /// says so.
    fn join<'l>(
        &'l self,
        case: &'l Self::Case,
        config: &'l Config,
        number: usize,
        lane: &'l Lane<'_>,
        claimed: &'l Cell<Option<Member>>,
    ) -> Joining<'l> {
        let _ = (case, config, number, lane, claimed);
        Box::pin(async { Err("its compute nodes do not join later".to_owned()) })
    }

    /// Opens the index for a compute node that has joined later, and calls `then`: its number and what the join came to.
    fn open_later(
        &self,
        case: &Self::Case,
        config: &Config,
        guarantees: Guarantees,
        joined: (usize, &Membership),
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String> {
        let _ = (case, config, guarantees, joined, then);
        Err("its compute nodes do not join later".to_owned())
    }

    /// Says what of a sound index nothing accounts for, if nothing went wrong. `stayed`: emptied leaves that were not joined
    /// with a neighbour.
    fn unaccounted(&self, case: &Self::Case, census: &Census, stayed: u64) -> Option<String> {
        let _ = (case, census, stayed);
        None
    }

    /// Lock words in the memories that name a holder.
    fn remote_locks_held(&self, case: &Self::Case, config: &Config, memories: &Memories) -> Vec<HeldLock>;

    /// The pool as it is now. `down`: a memory node that is down. `None`: there is no pool.
    fn pool_state(
        &self,
        case: &Self::Case,
        config: &Config,
        memories: &Memories,
        down: Option<NodeId>,
    ) -> Option<PoolState> {
        let _ = (case, config, memories, down);
        None
    }

    /// Where the rows of the compute nodes are, on memory node 0, from the first one that is not used up on. None: they have no heartbeats.
    fn rows(&self, case: &Self::Case, config: &Config) -> Vec<u64> {
        let _ = (case, config);
        Vec::new()
    }

    /// What survivors have to do when a compute node has died.
    fn after_death(&self) -> AfterDeath {
        AfterDeath::Bounded
    }

    /// Whether survivors complete or undo a WRITE, or a merge of several WRITEs, that a failed queue pair cut short. If
    /// not, histories with queue-pair errors do not tear WRITEs, and delete nothing.
    fn mends_what_was_torn(&self) -> bool {
        false
    }

    /// Concerns indexes that do not mend torn changes. Whether a change of a record takes effect completely or not at
    /// all when a queue pair fails between two of its WRITEs. If not, queue pairs do not fail.
    fn writes_records_at_once(&self) -> bool {
        true
    }

    /// The inner nodes as they are now. The index may be in the middle of any change.
    fn inner_node_images(&self, case: &Self::Case, config: &Config, memories: &Memories) -> InnerNodeImages {
        let _ = (case, config, memories);
        InnerNodeImages::default()
    }

    /// The memory of the index, and the part of it that the index reaches. The index must be quiet. `None`: this memory
    /// is not accounted for.
    fn holdings(&self, case: &Self::Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        let _ = (case, config, memories);
        None
    }

    /// Whether lanes of a compute node share operations on one key in this case. `None`: not known.
    fn rdwc(&self, case: &Self::Case) -> Option<bool> {
        let _ = case;
        None
    }

    /// Whether it can be bulk-loaded.
    fn bulk_loads(&self, case: &Self::Case) -> bool {
        let _ = case;
        true
    }

    /// Whether in this case the index remembers every retired block.
    fn holds_all_blocks(&self, case: &Self::Case) -> bool {
        let _ = case;
        false
    }

    /// Whether in this case orphan collections of all compute nodes find every block that no compute node knows of.
    fn collects_all(&self, case: &Self::Case) -> bool {
        let _ = case;
        false
    }

    /// Whether a compute node of this case acknowledges what only its memory has, so that its death takes changes back.
    fn loses_with_owners(&self, case: &Self::Case) -> bool {
        let _ = case;
        false
    }

    /// Whether in this case no node is lost unless something fails or a future is dropped. If survivors recover dead
    /// compute nodes, this holds after the sweep of their rows and the collection of their orphans.
    fn never_leaks(&self, case: &Self::Case) -> bool {
        let _ = case;
        false
    }
}
