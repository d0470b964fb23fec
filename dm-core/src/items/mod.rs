//! Items: keys and values of any length over an index of fixed sizes.
//!
//! This room gives any [`Index`] with keys of 16 to 64 bytes and values of 16 bytes or more a variable-length mode:
//! keys of 0 to 4096 bytes and values of 0 to 64 KiB, up to what the index was created for. Keys are in `memcmp` order,
//! and any number of keys may share any prefix.
//!
//! ```text
//!  the index below: entries of fixed size                                   blocks
//!  layer  slice                    slot
//!  ┌────┬──────────────────┬──┬──────────────────┐
//!  │ 0  │ "/etc/hosts"     │10│ inline: value    │
//!  │ 0  │ "/home/kim/paper"│ +│ block ───────────┼──────────────► header, whole key, value
//!  │ 0  │ "/usr/share/doc/"│ +│ link: layer 7    │
//!  ├────┼──────────────────┼──┼──────────────────┤
//!  │ 7  │ "bash/README"    │11│ block ───────────┼──────────────► header, whole key, value
//!  │ 7  │ "tcl/examples/ab"│ +│ link: layer 9    │
//!  └────┴──────────────────┴──┴──────────────────┘
//! ```
//!
//! After the layers of Masstree (Mao, Kohler, Morris, "Cache craftiness for fast multicore key-value storage", EuroSys
//! 2012, section 4.1), with all layers in one tree: a layer is a range of the tree's keys ([`key`]).
//!
//! - A key that ends in its slice has an entry of its own. A short value is in the entry, a longer one is in a block.
//! - All keys that continue behind one slice share one entry. While there is one such key, the entry points to its
//!   block, however long the rest of the key is. When a second key comes, the entry becomes a *link* to a layer, where
//!   the next slices decide.
//!
//! A block has the whole key. So a block identifies itself wherever it is found, and moves between layers as a pointer.
//!
//! # Round trips
//!
//! In addition to those of the index below: an operation needs at least one operation there, which the table calls by
//! Sherman's names. A link of which this compute node has no copy ([`links`]) costs one get. Links never change, so
//! copies need no invalidation.
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get, value inline | 1 | get |
//! | get, value in a block; of an absent key whose slice has a block | 2 | get; READ block |
//! | insert of a key that ends in its slice | 3 (+ 1) | (WRITE block;) insert |
//! | insert of any other, update, upsert, delete, conditional | 4 (+ 1) (+ 1) | get; (READ block;) (WRITE block;) insert, `update_if` or `delete_if` |
//! | insert that makes a layer, each | + 8 | get; READ block; insert; `update_if` |
//! | scan | as below, per layer it passes; + 1 per up to 16 blocks | scan; READ blocks at once |
//!
//! The block of a key that ends in its slice is READ only if the operation needs its value.
//!
//! # Keys with owners
//!
//! Over an index whose keys have owners, an entry belongs to the compute node that owns its entry key. The entries of one item may
//! belong to several compute nodes: layers lie behind each other, by the row of their maker. So no compute node could execute every
//! operation alone, and each step is forwarded by itself ([`crate::index::forward`]). Its owner executes it as an operation of the
//! index below. Blocks stay the caller's: it places, WRITEs, READs and retires them. Before the owner lets an entry name a block of
//! the caller, it READs whether the caller still waits ([`caller`]): one READ for each forwarded
//! change.
//!
//! If a forwarded change is not answered, it may be made late. Then settling first gives up the calls of this compute node.
//! Unless the entry shows that the change was made, neither the operation's own block nor the block that the entry named before
//! is used again: one of them is lost until a collection finds it. A layer that was being made stays as it is, as after a crash.
//!
//! A part without keys stays a dead compute node's until somebody takes it, and nothing is collected meanwhile. So each
//! collection takes the parts of the dead first.
//!
//! # Proofs
//!
//! [`items_layers`](crate::manual::items_layers) shows that operations and scans are linearizable: links never change,
//! making a layer changes no key, and a reader knows whether a block is the one that the entry meant. It also shows that
//! a link that was damaged or lost is found.
//! [`items_memory`](crate::manual::items_memory) shows how long an operation is pinned, when a block's place is used
//! again, how blocks that no compute node knows of are collected, and what a crash leaves.
//!
//! # Assumptions
//!
//! Those of the index below. WRITEs of blocks need only COMPLETION_IS_VISIBLE in addition: their lines may land in any
//! order, before the completion.
//!
//! # Limits
//!
//! - The number of a layer has 16 bits of its maker's incarnation, and 32 bits of a count ([`layer`]). It never repeats,
//!   since a row that has been joined 65,535 times is not joined again. A compute node that has made 2^32 layers makes no
//!   more, and has to join anew. The compute node has one count for all its indexes and openings
//!   ([`Site::layers`]).
//! - A link stays when its layer is empty, and so does the unlinked layer that a crash left. Each is an entry of the
//!   index below. A census counts what no link leads to. It takes a layer without a link for one that a crash left if it
//!   has one entry, which names a block ([`Census::left_layers`]), and for damage if it has anything else
//!   ([`Census::unlinked_entries`]). So damage that loses the link to a layer with one such entry looks like a crash: a dump
//!   and a check of the index say how many there are.
//! - If a request of a step failed, and others have changed the entry before settling looks at it, one block is lost.
//!   It is counted ([`Mark::BLOCK_LOST`]). Blocks that are retired while the free list is full are lost, too. Lost
//!   blocks are collected when they are an eighth of what was granted, or when memory is short.
//! - While the row of a dead compute node waits for its sweep, nothing is collected.
//! - An update, upsert or delete of a key that ends in its slice looks at the entry first. This is a round trip that
//!   could be saved if the index below reported what it replaced.
//! - Without recovery of the index below, queue pairs must not fail. Deleting the entry of an unlinked layer may empty
//!   a leaf, and without recovery nobody repairs a merge that was cut short.
//! - No bulk load: entries of later layers do not ascend as keys do. Load by inserts.
//! - Over SMART, a deleted entry keeps its leaf, both of a deleted item and of a layer whose making was undone. The
//!   block's place is reused at once. The leaf is reused when the same key is inserted again. Its place is reused when
//!   an insert comes to its slot or fills its node.

pub mod block;
mod census;
mod collect;
pub mod key;
pub mod layer;
pub mod links;
pub mod mark;
pub(crate) mod marks;
pub mod mutants;
pub mod parameters;
mod point;
pub mod pool;
mod scan;
mod settle;
pub mod slot;

use crate::index::Index;
use crate::index::forward::caller::{self, GivenUp};
use crate::index::forward::{self, Forwarder};
use crate::index::runner::SCANS_UP_ONLY;
use crate::lane::{Lane, Unsettled};
use crate::marks::Mark;
use crate::memory::chunks::{self, RequestIds, Want};
use crate::memory::collect::collect;
use crate::memory::orphans::CollectedOrphans;
use crate::memory::{Busy, Participant};
use crate::operation::{Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::port::State;
use crate::recovery::Swept;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::chunk::{ChunkKind, Grant, RequestId};
use crate::remote::lock_word::RowId;
use crate::remote::owners::{LoadWord, OwnerWord};
use crate::remote::row::{Caller, Member};
use crate::verbs::{Assumptions, NodeId};
use block::class_of;
use core::future::Future;
use core::sync::atomic::{AtomicBool, Ordering};
use key::KeyShape;
use layer::LayerNumbers;
use links::Links;
use parameters::{ItemsScratch, Parameters};
use pool::{BlockPool, Retired, UnlinkedBlock};
use slot::BlockPointer;
use spin::Mutex;

/// Marks that this room counts; those of the index below are in addition.
pub const MARKS: &[Mark] = &[
    Mark::BLOCK_READ,
    Mark::BLOCK_REPLACED,
    Mark::BLOCK_LOST,
    Mark::BLOCK_LEFT,
    Mark::LAYER_MADE,
    Mark::LAYER_TAKEN_BACK,
    Mark::LAYER_LOST,
    Mark::ENTRY_CHANGED,
    Mark::ENTRY_REVISITED,
    Mark::CALL_GIVEN_UP,
];

/// Where an index is, and which compute node opened it: what items need to know besides the index below.
#[derive(Clone, Copy)]
pub struct Site<'s> {
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'s [NodeGeometry],
    /// Number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub owner: Member,
    /// Ids of this compute node's requests for chunks; shared with the index below.
    pub requests: &'s RequestIds,
    /// Counts the layers that this compute node makes. It outlives this opening of the index: the next one must not count anew.
    pub layers: &'s LayerNumbers,
    /// How often this compute node has given up its calls. It outlives this opening, too.
    pub given_up: &'s GivenUp,
    /// This compute node's part in the pool's epochs, shared with the index below. `None`: its row does not say how
    /// old its pointers are.
    pub epochs: Option<Participant<'s>>,
}

/// State of the block that an operation wants an entry to name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// There is no such block.
    #[default]
    None,
    /// Its WRITE may be under way.
    Writing,
    /// It is written, and no entry names it.
    Written,
    /// A step is under way that changes the entry from its old block to this block, or to none.
    ChangingEntry,
    /// That step was cut short, and this compute node does not know whether it made its change.
    InDoubt,
}

/// What the operation of one lane knows between two steps. Storage for [`Items`], one per lane. It is not part of the
/// future, so that futures stay small and a dropped operation's block is not forgotten.
#[derive(Debug, Default)]
pub struct LaneProgress(Mutex<Progress>);

/// What an operation knows between two steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The operation that was asked for.
    operation: Operation,
    /// See [`BlockState`].
    block_state: BlockState,
    /// The block that `block_state` is about; none if the entry is to have the value inline, or is to be deleted.
    block: BlockPointer,
    /// The layer in which the operation is, and its depth.
    layer: u64,
    depth: u16,
    step: point::Step,
    attempts: u32,
    /// The layer that the operation is making.
    made: u64,
    /// The new layer may have an entry, and no link leads to it.
    pushed: bool,
    /// The id of a request for a chunk that may have been granted.
    wanted: Option<RequestId>,
    /// The block that the slot names which was considered last, or none.
    pointer: BlockPointer,
    /// A block that was not what its entry said.
    doubted: Option<BlockPointer>,
    /// Another compute node may still make the change of a step that was given up.
    late: bool,
    page: scan::PageProgress,
}

impl Progress {
    /// Whether there are blocks, layers or chunks to settle.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.block_state != BlockState::None || self.pushed || self.wanted.is_some()
    }

    /// The state at the beginning of an operation.
    pub(crate) const fn of(operation: Operation) -> Self {
        Self {
            operation,
            block_state: BlockState::None,
            block: BlockPointer::NONE,
            layer: key::ROOT_LAYER,
            depth: 0,
            step: point::Step::Get,
            attempts: 0,
            made: 0,
            pushed: false,
            wanted: None,
            pointer: BlockPointer::NONE,
            doubted: None,
            late: false,
            page: scan::PageProgress::BEGIN,
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::of(Operation::scan(0))
    }
}

/// An index with items on one compute node: all its lanes share this.
pub struct Items<'s, I> {
    below: &'s I,
    site: Site<'s>,
    lanes: &'s [LaneProgress],
    parameters: Parameters,
    shape: KeyShape,
    plan: ScratchPlan,
    /// The scratch plan, with ranges counted from `base` on. The index below has the scratch in front of `base`.
    near: ScratchPlan,
    base: usize,
    scratch: ItemsScratch,
    blocks: BlockPool<'s>,
    links: Links<'s>,
    /// Blocks are being collected. Until that is done, the index below does not collect.
    collecting: AtomicBool,
    /// A lane is collecting.
    collecting_orphans: AtomicBool,
}

impl<'s, I: Index> Items<'s, I> {
    /// What the lane's operation knows.
    #[inline]
    pub(super) fn progress(&self, lane: &Lane<'_>) -> Progress {
        self.lanes.get(usize::from(lane.id().0)).map_or_else(Progress::default, |progress| *progress.0.lock())
    }

    /// Stores what the lane's operation knows, and whether there is something to settle.
    #[inline]
    pub(super) fn set_progress(&self, lane: &Lane<'_>, progress: Progress) {
        if let Some(place) = self.lanes.get(usize::from(lane.id().0)) {
            *place.0.lock() = progress;
            lane.set_unsettled(Unsettled::ITEMS, progress.is_unsettled());
        }
    }

    /// Puts items over `below`. `plan` and `scratch` come from [`Parameters::plan`]; the sizes have been checked
    /// ([`Parameters::check`]). `lanes` has one element for each lane of the compute node.
    pub fn new(
        below: &'s I,
        site: Site<'s>,
        lanes: &'s [LaneProgress],
        parameters: Parameters,
        (plan, scratch): (ScratchPlan, ItemsScratch),
        blocks: BlockPool<'s>,
        links: Links<'s>,
    ) -> Self {
        let shape = KeyShape::new(below.plan().key_bytes);
        let base = plan.key.start;
        let near = plan.moved_back(base);
        let (collecting, collecting_orphans) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            below,
            site,
            lanes,
            parameters,
            shape,
            plan,
            near,
            base,
            scratch,
            blocks,
            links,
            collecting,
            collecting_orphans,
        }
    }

    /// The index below.
    pub fn below(&self) -> &'s I {
        self.below
    }

    /// What was fixed at creation.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Free places for blocks.
    pub fn blocks(&self) -> &BlockPool<'s> {
        &self.blocks
    }

    /// A step: an operation of the index below, which the owner of its key executes.
    fn execute_below<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        step: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        lane.set_may_change_late(false);
        let room = lane.message_room().filter(|_| self.below.has_parts());
        let forwarder = room.map(|room| Forwarder { index: self.site.number, room });
        forward::execute_step(self.below, lane, step, forwarder, || Some(self.site.given_up.caller(self.site.owner)))
    }

    /// Executes a step of another compute node's operation, which names memory of that one: see [`crate::index::forward::caller`].
    /// It is never forwarded further.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn serve<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        step: Operation,
        caller: Caller,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        async move {
            if matches!(step.kind, OperationKind::Get | OperationKind::Scan) {
                return self.below.execute(lane, step).await;
            }
            lane.begin(step.wait_ns());
            self.below.await_writable(lane).await?;
            let mut under_way = self.begin_steps(lane);
            let home = self.site.geometry.first().ok_or(OpError::harmless(Cause::PoolFull))?;
            let result = match caller::waits(caller, lane, home, self.scratch.small).await {
                Ok(true) => self.below.execute(lane, step).await,
                // Its caller, if there is one, asks once more.
                Ok(false) => Err(OpError::harmless(Cause::NotOwner { row: RowId(0), epoch: 0 })),
                Err(error) => Err(OpError::harmless(error.into())),
            };
            under_way.ends(&result);
            result
        }
    }

    /// The entry key of a key in the root layer.
    fn root_entry_key(&self, key: &[u8]) -> [u8; KEY_BYTES_MAX] {
        let mut entry_key = [0; KEY_BYTES_MAX];
        self.shape.write(key::ROOT_LAYER, key, &mut entry_key);
        entry_key
    }

    /// Takes the pin of an operation. An operation that follows pointers to blocks, or is about to name one, holds the
    /// result.
    fn begin_steps<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> UnderWay<'a, 'm, 's> {
        let part = self.site.epochs.as_ref();
        if let Some(part) = part {
            part.enter_steps(lane);
        }
        UnderWay { part, lane }
    }

    /// The number that blocks carry: the catalog number plus 1.
    fn index(&self) -> u8 {
        self.site.number.in_nodes()
    }

    /// The number of a new layer.
    fn new_layer(&self) -> Result<u64, OpError> {
        let used_up = OpError::harmless(Cause::BadInput("layer numbers are used up: join anew"));
        self.site.layers.next(self.site.owner).ok_or(used_up)
    }

    /// Takes a place for a block of `bytes`.
    async fn place(&self, lane: &Lane<'_>, bytes: usize) -> Result<UnlinkedBlock, OpError> {
        let class = class_of(bytes);
        // Lanes begin at different memory nodes.
        let nodes = self.site.geometry.len().max(1);
        let near = NodeId((usize::from(lane.id().0) % nodes) as u16);
        loop {
            if let Some(fresh) = self.blocks.take(class, near) {
                return Ok(fresh);
            }
            let Some(request) = self.site.requests.next() else { break };
            if !self.grant(lane, request, false).await? {
                break;
            }
        }
        self.blocks.is_short();
        self.blocks.take_larger(class, near).ok_or(OpError::harmless(Cause::PoolFull))
    }

    /// Asks for a chunk, from the memory nodes in turn, so that blocks spread over all of them. `false`: no memory
    /// node has one. A request without an answer is repeated when the lane is settled, since the chunk may have been
    /// granted.
    async fn grant(&self, lane: &Lane<'_>, request: RequestId, retry: bool) -> Result<bool, OpError> {
        let wants = |wanted| self.set_progress(lane, Progress { wanted, ..self.progress(lane) });
        wants(Some(request));
        let grant = Grant::new(self.site.owner, ChunkKind::Block, self.site.number, request);
        let want = Want { retry, ..Want::new(grant) };
        let near = want.in_turn(self.site.geometry.len());
        let granted = chunks::grant_any(lane, self.site.geometry, near, &want, self.scratch.small).await?;
        if let Some(granted) = granted {
            self.blocks.add_chunk(granted.node, granted.offset, granted.bytes);
        }
        wants(None);
        Ok(granted.is_some())
    }

    /// Gives back the place of a block that no entry names, if there is such a block.
    fn retire(&self, lane: &Lane<'_>, pointer: &BlockPointer) {
        if *pointer == BlockPointer::NONE {
            return;
        }
        match self.blocks.retire(pointer) {
            Retired::Kept => {}
            Retired::Left => lane.mark(Mark::BLOCK_LEFT),
            Retired::Forgotten => lane.mark(Mark::BLOCK_LOST),
        }
    }

    /// An error about bytes of the index below, which does not say where it has them.
    fn strange(what: &'static str) -> OpError {
        Self::corrupt(&BlockPointer::default(), what)
    }

    fn corrupt(pointer: &BlockPointer, what: &'static str) -> OpError {
        let address = Address::new(pointer.node(), pointer.offset(), 0);
        OpError::harmless(Cause::Corrupt { address, what })
    }
}

/// An operation whose steps are pinned.
struct UnderWay<'a, 'm, 's> {
    part: Option<&'a Participant<'s>>,
    lane: &'a Lane<'m>,
}

impl UnderWay<'_, '_, '_> {
    /// The operation ends with `result`. If a request failed, it stays pinned until its lane is settled.
    fn ends<T>(&mut self, result: &Result<T, OpError>) {
        if matches!(result, Err(OpError { cause: Cause::Verb(_), .. })) {
            self.part = None;
        }
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(part) = self.part.take()
            && !self.lane.is_unsettled()
        {
            part.leave_steps(self.lane);
        }
    }
}

impl Drop for UnderWay<'_, '_, '_> {
    fn drop(&mut self) {
        // A future that is dropped may have requests under way.
        if self.lane.port().state() == State::Idle {
            self.leave();
        }
    }
}

impl<I: Index> Index for Items<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.below.assumptions() | Assumptions::COMPLETION_IS_VISIBLE
    }

    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        if operation.caller.is_none() {
            let before = self.progress(lane);
            self.set_progress(lane, Progress { operation, ..before });
        }
        async move {
            if usize::from(lane.id().0) >= self.lanes.len() {
                return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
            }
            if lane.is_unsettled() {
                return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
            }
            if let Some(caller) = operation.caller {
                return self.serve(lane, Operation { caller: None, ..operation }, caller).await;
            }
            if operation.down {
                return Err(SCANS_UP_ONLY);
            }
            if !matches!(operation.kind, OperationKind::Get | OperationKind::Scan) {
                lane.begin(operation.wait_ns());
                self.below.await_writable(lane).await?;
            }
            let mut under_way = self.begin_steps(lane);
            let result = match operation.kind {
                OperationKind::Scan => self.scan(lane, false).await,
                _ => self.point(lane).await,
            };
            self.end(lane);
            under_way.ends(&result);
            result
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        async move {
            let epochs = self.site.epochs.as_ref();
            if let Some(part) = epochs
                && !lane.is_in_steps()
            {
                part.enter_steps(lane);
            }
            lane.begin(Operation::WAIT_NS_DEFAULT);
            lane.close(self.scratch.small).await?;
            self.give_up_calls(lane).await?;
            self.conclude(lane);
            self.below.settle(lane).await?;
            self.ask_again(lane).await?;
            self.find_out(lane).await?;
            self.take_layer_back(lane).await?;
            if let Some(part) = epochs {
                // Everything that the lane posted is done, or was refused: see `Index::settle`.
                part.leave_steps(lane);
            }
            Ok(())
        }
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        let _under_way = self.begin_steps(lane);
        let mut census = self.below.validate(lane).await?;
        self.tally_all(lane, &mut census).await?;
        self.scan(lane, true).await?;
        self.end_census(lane, &mut census);
        Ok(census)
    }

    async fn bulk_append<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(OpError::harmless(Cause::BadInput("keys and values of any length are not bulk-loaded: insert them")))
    }

    async fn bulk_finish<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(OpError::harmless(Cause::BadInput("keys and values of any length are not bulk-loaded: insert them")))
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        let _under_way = self.begin_steps(lane);
        self.below.sweep(lane, row, done).await
    }

    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.below.leave(lane)
    }

    async fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Result<CollectedOrphans, OpError> {
        // Every step of a collection is an operation of its own: it looks at all chunks, which may take long.
        drop(self.begin_steps(lane));
        self.take_parts_of_the_dead(lane).await?;
        // The index below and the blocks are collected one after the other, by one lane at a time. The index below
        // may be collecting, too, and has its closed chunks until it is done. The collection of blocks begins only
        // then, and the index below does not begin again until the blocks are done.
        let mut collected_orphans = CollectedOrphans::default();
        let Some(_busy) = Busy::begin(&self.collecting_orphans) else { return Ok(collected_orphans) };
        if !self.collecting.load(Ordering::Relaxed) {
            collected_orphans = self.below.collect_orphans(lane).await?;
            if collected_orphans.waits {
                return Ok(collected_orphans);
            }
        }
        self.collecting.store(true, Ordering::Relaxed);
        let mut blocks = CollectedOrphans::default();
        collect(self, lane, &mut blocks).await?;
        self.collecting.store(blocks.waits, Ordering::Relaxed);
        collected_orphans.looked |= blocks.looked;
        collected_orphans.chunks += blocks.chunks;
        collected_orphans.bytes += blocks.bytes;
        collected_orphans.no_room += blocks.no_room;
        collected_orphans.waits = blocks.waits;
        Ok(collected_orphans)
    }

    fn forwards_steps(&self) -> bool {
        self.below.has_parts()
    }

    fn served_plan(&self) -> &ScratchPlan {
        self.below.plan()
    }

    fn has_parts(&self) -> bool {
        self.below.has_parts()
    }

    fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<u32, OpError>> + 'a {
        self.below.parts(lane)
    }

    fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.below.take_part(lane, part)
    }

    fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.below.keep_parts(lane)
    }

    fn move_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        to: RowId,
        wait_ns: u64,
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.below.move_part(lane, part, to, wait_ns)
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        let entry_key = self.root_entry_key(key);
        let bytes = self.below.plan().key_bytes;
        self.below.cut_part(lane, entry_key.get(..bytes).unwrap_or_default(), wait_ns).await
    }

    fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> impl Future<Output = Result<u64, OpError>> + 'a {
        self.below.vacate_part(lane, part, from, wait_ns)
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        self.below.part(part)
    }

    /// Steps have owners; a whole operation has none.
    fn owner_of(&self, _: &[u8]) -> Option<RowId> {
        None
    }

    /// The part with the key's entry in the root layer. Later layers may be in other parts.
    fn part_of(&self, key: &[u8]) -> u32 {
        self.below.part_of(self.root_entry_key(key).get(..self.below.plan().key_bytes).unwrap_or_default())
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let (used, budget) = self.below.cache_bytes();
        (used + self.links.bytes(), budget + self.links.bytes())
    }
}
