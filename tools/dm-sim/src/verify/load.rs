//! The load of a history: starts operations on lanes, carries out faults, and records both.
//!
//! - `lanes`: keeps lanes busy, and records what they answer. `calls`: which operation a lane begins.
//! - `faults`: carries out the plan. `failures`: takes note of operations that failed.
//! - `forwards`: lanes that execute operations of other compute nodes. `packs`: operations that go there in one message.
//! - `newcomers`: compute nodes that join meanwhile. `inherited`: what becomes of locks of the dead.

mod calls;
mod failures;
mod faults;
mod forwards;
mod inherited;
mod lanes;
mod newcomers;
mod packs;

use super::clocks::Clocks;
use super::coding::Coding;
use super::damage::Damage;
use super::draw::Draw;
use super::faults::InjectedFaults;
use super::membership::Membership;
use super::prepared::Prepared;
use super::subject::{AfterDeath, InnerNodeImages, Opened};
use super::tolerance::Failed;
use super::wide::WIDE_OPTIONS;
use crate::check::{Answer, History, OpId};
use crate::compute_node::ComputeNode;
use crate::driver::LaneAt;
use crate::rng::Rng;
use dm_core::index::forward::Forwarder;
use dm_core::lane::Lane;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Cause, OpError};
use dm_core::recovery::Swept;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::NodeId;
use forwards::Forwards;
use inherited::Inherited;
use packs::Packs;

pub use calls::start;
pub(super) use newcomers::Newcomers;

/// How an operation ended, with what it left in the scratch.
#[derive(Debug)]
pub enum Ended {
    /// A point operation.
    Point(Answer),
    /// A scan.
    Page(Vec<(u64, u64)>, bool),
    /// Either, without success.
    Failed(OpError),
    /// `settle` after an operation that was dropped or failed.
    Settled(Result<(), OpError>),
    /// A turn.
    Turned(Result<(), OpError>),
    /// An orphan collection.
    CollectedOrphans(Result<CollectedOrphans, OpError>),
    /// A sweep of a row.
    Swept(Result<Swept, OpError>),
    /// A part that was to move, or parts that others have asked for.
    Moved(Result<(), OpError>),
    /// A part whose nodes were to leave a memory node: how many did.
    Vacated(Result<u64, OpError>),
    /// What another compute node asked for: the answer, and how the operation that was begun last ended.
    Served(Vec<u8>, Result<(), OpError>),
    /// Operations that went to their owner together: the place of each, and how it ended, if it was begun.
    Packed(Vec<(u16, Option<Result<Answer, OpError>>)>),
    /// Its compute node joined, or could not.
    Joined(Box<Result<Membership, String>>),
}

impl Ended {
    /// Whether it failed because its compute node has been fenced.
    const fn is_fenced(&self) -> bool {
        let (Self::Failed(error)
        | Self::Settled(Err(error))
        | Self::Turned(Err(error))
        | Self::CollectedOrphans(Err(error))
        | Self::Swept(Err(error))
        | Self::Moved(Err(error))
        | Self::Vacated(Err(error))
        | Self::Served(_, Err(error))) = self
        else {
            return false;
        };
        matches!(error.cause, Cause::Fenced)
    }

    /// Whether it ended with what was asked for.
    const fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Point(_)
                | Self::Page(..)
                | Self::Turned(Ok(()))
                | Self::CollectedOrphans(Ok(_))
                | Self::Swept(Ok(_))
                | Self::Moved(Ok(()))
                | Self::Vacated(Ok(_))
                | Self::Served(_, Ok(()))
        )
    }
}

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Operation(OpId),
    /// Operations that go to their owner together.
    Pack,
    /// It makes a turn.
    Turn,
    /// It collects orphans.
    OrphanCollection,
    /// It sweeps the row of a compute node.
    Sweep(ComputeNode),
    /// It has a part moved.
    Move,
    /// It cuts a part in two.
    Cut,
    /// It has nodes leave a memory node.
    Vacate,
    /// It does what others have asked for.
    Keep,
    /// It executes an operation of another compute node.
    Serve,
    /// Its compute node joins.
    Join,
    /// Its operation, or what it did between operations, failed and left it in doubt; it will be settled next.
    Doubt(Option<OpId>),
    /// Its operation, or what it did between operations, was dropped or failed; the lane is being settled.
    Settling(Option<OpId>),
}

/// A later consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    /// The dead compute node's queue pairs are confirmed closed.
    Closed(ComputeNode),
    /// The failed queue pair is closed and made again.
    Reconnected(u32, NodeId),
}

/// The workload and recorder of one history.
pub struct Load<'a, 'm> {
    draw: &'a Draw,
    subject: &'a dyn Prepared,
    /// The index of each compute node that has joined.
    pub(super) opened: Vec<&'a dyn Opened>,
    /// Its row.
    rows: Vec<RowId>,
    lanes: &'a [&'a [Lane<'m>]],
    rng: Rng,
    /// Random numbers for turns.
    turns: Rng,
    /// When compute nodes made the turns of their heartbeats last.
    turned_ns: u64,
    /// Random numbers for options.
    wide: Rng,
    left: u32,
    doing: Vec<Vec<Doing>>,
    /// Per key, a value that it once had: `update_if` expects it.
    known: Vec<u64>,
    /// Compute nodes that have read that they are fenced.
    noticed: Vec<ComputeNode>,
    /// What lanes need to forward operations, if they do.
    pub(super) forwarder: Option<Forwarder>,
    forwards: Forwards,
    packs: Packs,
    /// Compute nodes that join meanwhile.
    pub(super) newcomers: Newcomers<'a>,
    /// Position in the plan.
    planned: usize,
    /// Steps for which the next fault has waited for its moment.
    patience: u64,
    consequences: Vec<(u64, Consequence)>,
    kept_images: Vec<InnerNodeImages>,
    /// How many were taken.
    taken: usize,
    /// Survivors take over locks of dead compute nodes, and have their queue pairs closed themselves.
    pub recovered: bool,
    /// Lease clocks that tick.
    pub(super) clocks: Option<Clocks<'a>>,
    /// Compute nodes that were fenced although their heartbeats came.
    pub(super) wronged: Vec<ComputeNode>,
    /// Bytes of memory nodes that change meanwhile.
    pub(super) damage: Option<Damage>,
    /// How numbers become keys.
    pub coding: Coding,
    /// The recorded history.
    pub history: History,
    /// Operations that failed.
    pub failed: Vec<Failed>,
    /// Locks that lanes kept when their operation had ended, though none of its requests had failed.
    pub(super) kept_locks: Vec<String>,
    /// How many of them know what the memories were like.
    explained: usize,
    /// When no memory node had a chunk to grant, last; whether that is so; and after how many grants that was looked at, with which
    /// memory node down.
    full_ns: Option<u64>,
    is_full: bool,
    chunks_seen: Option<(u64, Option<NodeId>)>,
    /// Locks of the dead, each of whose operations is over when others have released them.
    inherited: Vec<(ComputeNode, Inherited)>,
    /// An operation has ended since these were looked at.
    has_ended: bool,
    /// The faults that happened.
    pub injected: InjectedFaults,
    /// How often what an option asks for happened, by [`WideOption`].
    pub met: [u64; WIDE_OPTIONS],
}

/// A value below this is the number of the operation that wrote it. An initial value is this plus the key.
pub const VALUE_FIRST: u64 = 100_000;

/// Between two turns of a compute node's heartbeats, in ns. Only waits take so long.
const TURNS_APART_NS: u64 = 30_000_000;

/// After so many steps no operation begins any more. On a full pool each may wait until its deadline, which takes some
/// thousand steps, though all of them end.
pub(super) const BEGINNING_STEPS: u64 = 500_000;

impl<'a, 'm> Load<'a, 'm> {
    /// The first `operations` of the load of `draw`, recorded into `history`, which knows what the index begins with.
    pub fn new(
        draw: &'a Draw,
        subject: &'a dyn Prepared,
        opened: &[&'a dyn Opened],
        (lanes, newcomers): (&'a [&'a [Lane<'m>]], Newcomers<'a>),
        history: History,
        operations: u32,
    ) -> Self {
        Self {
            draw,
            subject,
            opened: opened.to_vec(),
            rows: (1..=opened.len() as u16).map(|row| RowId(draw.rows_used_up + row)).collect(),
            lanes,
            newcomers,
            rng: Rng::new(draw.seed ^ 0x5eed_0002),
            turns: Rng::new(draw.seed ^ 0x5eed_0007),
            turned_ns: 0,
            wide: Rng::new(draw.seed ^ 0x5eed_0012),
            left: operations,
            doing: lanes.iter().map(|lanes| vec![Doing::Nothing; lanes.len()]).collect(),
            known: (0..u64::from(draw.keys)).map(|key| VALUE_FIRST + key).collect(),
            noticed: Vec::new(),
            forwarder: None,
            forwards: Forwards::default(),
            packs: Packs::default(),
            planned: 0,
            patience: 0,
            consequences: Vec::new(),
            kept_images: Vec::new(),
            taken: 0,
            recovered: subject.after_death() == AfterDeath::Recovered,
            clocks: None,
            wronged: Vec::new(),
            damage: None,
            coding: subject.coding(),
            history,
            failed: Vec::new(),
            kept_locks: Vec::new(),
            explained: 0,
            full_ns: None,
            is_full: false,
            chunks_seen: None,
            inherited: Vec::new(),
            has_ended: false,
            injected: InjectedFaults::default(),
            met: [0; WIDE_OPTIONS],
        }
    }

    fn doing(&mut self, at: LaneAt) -> &mut Doing {
        &mut self.doing[usize::from(at.compute_node.0)][usize::from(at.lane)]
    }

    fn lane(&self, at: LaneAt) -> (&'a dyn Opened, &'a Lane<'m>) {
        let node = usize::from(at.compute_node.0);
        (self.opened[node], &self.lanes[node][usize::from(at.lane)])
    }
}
